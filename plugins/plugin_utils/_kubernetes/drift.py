# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""How a Kubernetes site differs from its inventory: pure functions.

Two sources: the results that the tasks of the playbook kubernetes registered in check mode, as __<role>_<name>,
and what the cluster and its hosts say of themselves.
"""

from __future__ import annotations

import difflib
import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes.lost import DRAINED, HELD, LOST
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import certificates, manager

RESULT = re.compile(r"__((?:kubernetes|containerd|site_check)_\w*)")
# The role kubernetes_cluster works from the control plane: its results concern the cluster.
CLUSTER = "kubernetes_cluster_"
# Seconds that a host's clock may be away from the control node's: certificates and tokens are refused beyond some minutes.
CLOCK = 30.0
# A host answers a moment after the control node looked at its own clock.
ANSWER = 20.0

Object = t.Mapping[str, t.Any]


# What a run would change only because its plan lacks hosts that did not answer, by the part of the difference.
BY_ABSENCE = {
    "kubernetes_node_network": ("/etc/systemd/system/deephdc-kubernetes-routes.service",),
    "kubernetes_cluster_recorded": (manager.PROMISES.path, "/var/lib/deephdc"),
}
ALL_BY_ABSENCE = "kubernetes_cluster_removed"


class Difference(t.TypedDict):
    """Something that is not as the inventory says.

    kind: file, unit, package, object, node, device, version, certificate, pod, clock, other, or not_compared.
    part: the task's result, such as kubernetes_node_kubelet, or what was looked at. names: paths, units, packages, nodes, objects.
    why: one sentence each. diff: what would change, without secrets.
    """

    host: str
    kind: str
    part: str
    names: list[str]
    why: list[str]
    diff: str


def entry(host: str, kind: str, part: str, names: t.Iterable[t.Any], why: t.Iterable[t.Any] = (), diff: str = "") -> Difference:
    return {
        "host": host,
        "kind": kind,
        "part": part,
        "names": [str(name) for name in names],
        "why": [str(one) for one in why],
        "diff": diff,
    }


def differences(results: t.Mapping[str, Object], control: str) -> list[Difference]:
    """What a run would change, each once, in the order of the hosts.

    :param results: for each host its registered results, by variable.
    """
    unique: list[Difference] = []
    for host, variables in results.items():
        for variable, result in variables.items():
            name = RESULT.fullmatch(variable)
            if not name or not isinstance(result, t.Mapping):
                continue
            where = control if name.group(1).startswith(CLUSTER) else host
            for single in result["results"] if isinstance(result.get("results"), (list, tuple)) else [result]:
                unique += [one for one in difference(where, name.group(1), single) if one not in unique]
    return unique


def without_absence(entries: t.Iterable[Difference]) -> list[Difference]:
    """Return the differences without those that hosts make which did not answer.

    Those are routes to them, and their devices.
    """
    found: list[Difference] = []
    for one in entries:
        names = [name for name in one["names"] if name not in BY_ABSENCE.get(one["part"], ())]
        if one["part"] != ALL_BY_ABSENCE and (names or not one["names"]):
            found.append(one if names == one["names"] else {**one, "names": names, "diff": ""})
    return found


def difference(host: str, part: str, result: Object) -> list[Difference]:
    """The differences in one result. Empty if there are none."""
    if result.get("unreachable") or result.get("failed"):
        return [entry(host, "not_compared", part, [], [" ".join(str(result.get("msg") or "no reason given").split())])]
    if result.get("skipped") or not result.get("changed"):
        return []
    text = diff_text(result.get("diff"))
    if "paths" in result:
        return [entry(host, "file", part, result["paths"], diff=text)]
    if "reasons" in result:
        return [entry(host, "unit", part, result.get("restarted") or [result.get("name") or part], result["reasons"])]
    packages = re.findall(r"^Inst (\S+)", str(result.get("stdout") or ""), re.MULTILINE)
    if packages:
        return [entry(host, "package", part, packages)]
    objects = named_objects(result)
    if objects:
        return [entry(host, "object", part, objects)]
    return [entry(host, "other", part, [], [result["msg"]] if result.get("msg") else [], text)]


def named_objects(result: Object) -> list[str]:
    """The objects of the API that a result of kubernetes.core.k8s would change."""
    inner = result.get("result")
    if not isinstance(inner, t.Mapping):
        return []
    several = inner.get("results")
    changed = [one["result"] for one in several if one.get("changed")] if isinstance(several, (list, tuple)) else [inner]
    return [f"{one.get('kind')} {one['metadata'].get('name')}" for one in changed if isinstance(one.get("metadata"), t.Mapping)]


def diff_text(diff: t.Any) -> str:
    """Ansible's diffs, of which a result has none, one or a list, as one text."""
    lines = []
    for single in [diff] if isinstance(diff, t.Mapping) else diff if isinstance(diff, (list, tuple)) else []:
        if "prepared" in single:
            lines.append(str(single["prepared"]))
        elif "before" in single or "after" in single:
            before, after = (str(single.get(key) or "").splitlines() for key in ("before", "after"))
            old, new = (str(single.get(f"{key}_header") or key) for key in ("before", "after"))
            lines += difflib.unified_diff(before, after, old, new, lineterm="")
    return "\n".join(lines)


def node_differences(nodes: t.Sequence[Object], planned: Object, control: str, away: t.Sequence[str] = ()) -> list[Difference]:
    """Return the differences of nodes from the plan.

    A node is missing, unknown, not ready or cordoned, has another version, or offers fewer devices than was promised.

    :param away: members that did not answer, so that the plan does not have them. Their nodes are called as the inventory
        calls the hosts.
    """
    there = {node["metadata"]["name"]: node for node in nodes}
    hosts = {**{host.split(".")[0].lower(): host for host in away}, **{name: host for host, name in planned["names"].items()}}
    found: list[Difference] = []
    for name in sorted(set(hosts) | set(there)):
        host, node = hosts.get(name, control), there.get(name)
        if node is None:
            found.append(entry(host, "node", "node", [name], ["the cluster has no such node: run the playbook kubernetes"]))
            continue
        if name not in hosts:
            found.append(entry(host, "node", "node", [name], ["the inventory has no such host: kubernetes_remove_node, or add it"]))
        sentences = [why for why in (unready(node), cordoned(node)) if why]
        if sentences:
            found.append(entry(host, "node", "node", [name], sentences))
        version = str((node.get("status") or {}).get("nodeInfo", {}).get("kubeletVersion") or "")
        if version and version != f"v{planned['version']}":
            found.append(entry(host, "version", "kubelet", [name], [f"kubelet is {version}, the inventory says v{planned['version']}"]))
        allocatable = (node.get("status") or {}).get("allocatable") or {}
        for resource, count in (planned["offers"].get(host) or {}).items():
            offered = int(allocatable.get(resource) or 0)
            if offered < count:
                found.append(entry(host, "device", "allocatable", [name], [f"the node offers {offered} of {count} {resource}"]))
    found += [entry(control, "device", "promises", [], [sentence]) for sentence in planned["lost"]]
    return found


def unready(node: Object) -> str:
    ready: Object = next((one for one in (node.get("status") or {}).get("conditions") or [] if one.get("type") == "Ready"), {})
    if ready.get("status") == "True":
        return ""
    return f"it is not ready: {ready.get('message') or ready.get('reason') or 'it was never seen'}"


def cordoned(node: Object) -> str:
    """Why a node takes no pods; empty if it does."""
    if not (node.get("spec") or {}).get("unschedulable"):
        return ""
    notes = node["metadata"].get("annotations") or {}
    whys = [f"{word}: {notes[mark]}" for mark, word in ((LOST, "lost"), (HELD, "held"), (DRAINED, "drained")) if mark in notes]
    return f"it is cordoned ({'; '.join(whys) or 'by an administrator'})"


# Of kubeadm: the image's tag is the version.
STATIC_PODS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


def pod_differences(system: t.Sequence[Object], planned: Object, control: str) -> list[Difference]:
    """Static pods of another version, and DNS or kube-proxy that do not run.

    :param system: the pods of the namespace kube-system.
    """
    hosts = {name: host for host, name in planned["names"].items()}
    found: list[Difference] = []
    serving: dict[str, list[bool]] = {"kube-dns": []}
    proxies: dict[str, bool] = {}
    for pod in system:
        labels, node = pod["metadata"].get("labels") or {}, str(pod["spec"].get("nodeName") or "")
        host = hosts.get(node, control)
        ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in (pod.get("status") or {}).get("conditions") or [])
        name = pod["metadata"]["name"]
        if labels.get("k8s-app") == "kube-dns":
            serving["kube-dns"].append(ready)
        if labels.get("k8s-app") == "kube-proxy":
            proxies[node] = proxies.get(node, False) or ready
        component = labels.get("component") or labels.get("k8s-app")
        if component in (*STATIC_PODS, "kube-proxy"):
            for image in [one["image"] for one in pod["spec"]["containers"]]:
                tag = image.rsplit(":", 1)[-1]
                if tag != f"v{planned['version']}":
                    found.append(entry(host, "version", component, [name], [f"it is {tag}, the inventory says v{planned['version']}"]))
    if not any(serving["kube-dns"]):
        found.append(entry(control, "pod", "coredns", ["CoreDNS"], ["no pod of it is ready: names of services are not resolved"]))
    elif not all(serving["kube-dns"]):
        why = f"{serving['kube-dns'].count(True)} of {len(serving['kube-dns'])} pods are ready"
        found.append(entry(control, "pod", "coredns", ["CoreDNS"], [why]))
    for name, host in sorted(hosts.items()):
        if not proxies.get(name):
            found.append(
                entry(host, "pod", "kube-proxy", ["kube-proxy"], ["it does not run there: services are not reached from this host"])
            )
    return found


def host_differences(host: str, look: Object, days: float, now: str) -> list[Difference]:
    """Certificates that end soon, and a clock that is wrong.

    :param look: what the host said: time and asked (seconds since 1970, asked is the control node's), kubelet (end of its client
        certificate, as openssl prints it), and certificates (what kubeadm prints). now: the present time.
    """
    found: list[Difference] = []
    away = float(look["time"]) - float(look["asked"])
    if away < -CLOCK or away > CLOCK + ANSWER:
        found.append(entry(host, "clock", "clock", [], [f"its clock is {abs(away):.0f} s {'ahead' if away > 0 else 'behind'}"]))
    if look.get("certificates"):
        for ending in certificates.due(look["certificates"], days, now):
            remedy = "a run of the playbook kubernetes renews it" if ending["renewable"] else "kubeadm does not renew it"
            found.append(
                entry(host, "certificate", "certificates", [ending["name"]], [f"{ends(ending['ends'], ending['days'])}: {remedy}"])
            )
    if look.get("kubelet"):
        end = certificates.time_of(look["kubelet"])
        left = (end - certificates.time_of(now)) // certificates.DAY
        if left < days:
            # kubelet asks for another one long before.
            why = f"{ends(end.strftime('%Y-%m-%dT%H:%M:%SZ'), left)}: kubelet did not renew it, look at 'journalctl -u kubelet'"
            found.append(entry(host, "certificate", "kubelet", ["kubelet's client certificate"], [why]))
    return found


def ends(when: str, days: int) -> str:
    return f"it ended at {when}" if days < 0 else f"it ends at {when}, in {days} days"


WORDS = {"file": "differs", "package": "is not installed", "object": "differs", "not_compared": "could not be compared"}


def summary(entries: t.Iterable[Difference]) -> list[str]:
    """One line for each difference."""
    lines = []
    for one in entries:
        what = ", ".join(one["names"]) or one["part"]
        why, words = "; ".join(one["why"]), WORDS.get(one["kind"], "")
        subject = one["host"] if what == one["host"] else f"{one['host']}: {what}"
        lines.append(subject + (f" {words}" if words else "") + (f": {why}" if why else ""))
    return lines


def report(
    results: t.Mapping[str, Object],
    members: t.Sequence[str],
    in_play: t.Sequence[str],
    control: str,
    planned: Object | None,
    seen: Object,
) -> dict[str, t.Any]:
    """All differences, and what could not be compared.

    :param results: for each host that answered its registered results. planned: the plan of the cluster, None where none was made.
    :param seen: nodes, pods (of kube-system), hosts (what each host said, by name), days and now, as the role kubernetes_drift read them.
    """
    found = differences(results, control)
    if any(host in in_play and host not in results for host in members):
        found = without_absence(found)
    if planned:
        away = [host for host in members if host not in results]
        found += node_differences(seen["nodes"], planned, control, away) if seen["nodes"] else []
        found += pod_differences(seen["pods"], planned, control) if seen["pods"] else []
    missing = [host for host in members if host in results and not seen["hosts"].get(host)]
    for host, look in seen["hosts"].items():
        found += host_differences(host, look, seen["days"], seen["now"]) if look else []
    found += [entry(host, "not_compared", "look", [], ["its clock and certificates could not be read"]) for host in missing]
    if planned and not (seen["nodes"] and seen["pods"]):
        found.append(entry(control, "not_compared", "api", [], ["the API does not answer, or there is no cluster yet"]))
    unique: list[Difference] = []
    for one in found:
        unique += [one] if one not in unique else []
    left = [host for host in members if host in in_play and host not in results]
    return {
        "differs": any(one["kind"] != "not_compared" for one in unique),
        "complete": bool(planned) and not left and all(one["kind"] != "not_compared" for one in unique),
        "compared": [host for host in members if host in results],
        "not_reached": left,
        "left_out": [host for host in members if host not in in_play],
        "differences": unique,
        "summary": [*summary(unique), *(f"{host}: did not answer, or failed before it could be compared" for host in left)],
    }
