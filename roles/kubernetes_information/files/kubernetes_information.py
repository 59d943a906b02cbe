# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Write what a Kubernetes cluster has and what is in use.

usage: kubernetes_information.py KUBECONFIG DIRECTORY CLUSTER SERVICE-ID [DOMAIN-ID]

KUBECONFIG is JSON, of an account that may only list nodes and pods.
The files are glue2.json (a GLUE2 document), cmdb.json (records for a CMDB) and kubernetes_metrics.prom (metrics for Prometheus).
Keys, metrics and units are those of the programs for SLURM: memory in MiB, an account is a namespace.
What is not known is absent.
"""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import sys
import time
import typing as t
import urllib.error
import urllib.request
from collections import Counter

TIMEOUT = 20.0  # seconds for each question: an API that hangs must not make the publishing pile up
PAGE = 500
TYPE_PREFIX = "accelerators.deephdc.org/"
NOT_A_TYPE = ("device-plugin",)
VENDORS = {"nvidia.com": "NVIDIA", "amd.com": "AMD", "gpu.intel.com": "Intel"}
FACTORS = {
    "n": 1e-9,
    "u": 1e-6,
    "m": 1e-3,
    "": 1,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "E": 1e18,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
    "Ei": 2**60,
}
QUANTITY = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]{0,2})")
INSTANCE = re.compile(r"_[0-9]+g\.")  # in the type of a MIG instance
STATES = ("pending", "running")

Record = t.Dict[str, t.Any]


class Unreadable(Exception):
    """One sentence: why the API did not answer."""


def quantity(text: t.Any) -> float:
    """Read an amount as Kubernetes writes it, such as 500m, 2 or 16Gi; else return 0."""
    match = QUANTITY.fullmatch(str(text))
    return float(match.group(1)) * FACTORS.get(match.group(2), 0) if match else 0.0


class Api:
    """The API with one kubeconfig."""

    def __init__(self, path: str) -> None:
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._server = cluster["server"].rstrip("/")
        self._headers = {"Authorization": f"Bearer {user['token']}", "Accept": "application/json"}
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode("ascii")
        self._context = ssl.create_default_context(cadata=authority)

    def ask(self, path: str) -> Record:
        request = urllib.request.Request(self._server + path, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT, context=self._context) as answer:
                return json.load(answer)
        except (urllib.error.URLError, OSError, ValueError) as error:
            raise Unreadable(f"{path} of {self._server}: {error}") from None

    def listed(self, kind: str) -> list[Record]:
        found: list[Record] = []
        more = ""
        while True:
            page = self.ask(f"/api/v1/{kind}?limit={PAGE}" + (f"&continue={more}" if more else ""))
            found += page["items"]
            more = page["metadata"].get("continue") or ""
            if not more:
                return found


def is_device(resource: str) -> bool:
    """Whether a resource is one of a device plugin."""
    return "/" in resource and not resource.split("/")[0].endswith("kubernetes.io")


def of_pod(pod: Record) -> Counter[str]:
    """What a pod has: CPUs, memory in bytes, and devices."""
    spec, most = pod["spec"], Counter()
    whole: Counter[str] = Counter()
    for container in spec["containers"]:
        whole.update(wanted(container))
    sidecars: Counter[str] = Counter()
    for container in spec.get("initContainers") or []:
        if container.get("restartPolicy") == "Always":
            sidecars.update(wanted(container))
        else:
            most |= wanted(container) + sidecars
    return (whole + sidecars) | most


def wanted(container: Record) -> Counter[str]:
    resources = container.get("resources") or {}
    given = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return Counter({name: quantity(value) for name, value in given.items() if name in ("cpu", "memory") or is_device(name)})


def types_of(node: Record) -> list[str]:
    labels = node["metadata"].get("labels") or {}
    return sorted(key[len(TYPE_PREFIX) :] for key in labels if key.startswith(TYPE_PREFIX) and key[len(TYPE_PREFIX) :] not in NOT_A_TYPE)


def type_of(resource: str, types: list[str]) -> str:
    """Return the type of a node's devices of a resource.

    Several types have + between them, where the node does not say which a pod has.
    """
    name = resource.split("/")[1]
    if name.startswith("mig-"):
        return next((one for one in types if one.endswith(name[len("mig-") :])), name[len("mig-") :])
    return "+".join(one for one in types if not INSTANCE.search(one)) if name == "gpu" else ""


def node_record(node: Record, used: Counter[str]) -> Record:
    status, spec = node["status"], node.get("spec") or {}
    there, info, types = status.get("allocatable") or {}, status.get("nodeInfo") or {}, types_of(node)
    ready: Record = next((one for one in status.get("conditions") or [] if one["type"] == "Ready"), {})
    is_ready, is_away = ready.get("status") == "True", bool(spec.get("unschedulable"))
    notes = node["metadata"].get("annotations") or {}
    reasons = [notes[TYPE_PREFIX + key] for key in ("lost", "held", "drained") if TYPE_PREFIX + key in notes]
    return {
        "name": node["metadata"]["name"],
        "state": "ready" if is_ready else "notready",
        "flags": ["cordoned"] if is_away else [],
        "usable": is_ready and not is_away,
        "reason": "; ".join(reasons) if is_ready else str(ready.get("message") or ""),
        "cpus": {"total": round(quantity(there.get("cpu"))), "used": round(used["cpu"], 3)},
        "memory_mib": {"total": int(quantity(there.get("memory")) / 2**20), "used": int(used["memory"] / 2**20)},
        "gres": [
            {
                "name": "gpu" if name.split("/")[1].startswith(("gpu", "mig-")) else name.split("/")[1],
                "type": type_of(name, types),
                "resource": name,
                "total": round(quantity(total)),
                "used": round(used[name]),
            }
            for name, total in sorted(there.items())
            if is_device(name)
        ],
        "architecture": str(info.get("architecture") or ""),
        "system": str(info.get("osImage") or ""),
        "version": str(info.get("kubeletVersion") or ""),
    }


def status_of(nodes: list[Record], pods: list[Record]) -> Record:
    """Nodes, and pods counted by account and state, from what the API lists."""
    types = {node["metadata"]["name"]: types_of(node) for node in nodes}
    used: dict[str, Counter[str]] = {name: Counter() for name in types}
    groups: dict[tuple[str, str], Record] = {}
    for pod in pods:
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        account, where = pod["metadata"]["namespace"], pod["spec"].get("nodeName") or ""
        state = "running" if where else "pending"
        group = groups.setdefault((account, state), {"account": account, "state": state, "count": 0, "cpus": 0.0, "gpus": Counter()})
        group["count"] += 1
        if where in used:
            has = of_pod(pod)
            used[where].update(has)
            group["cpus"] += has["cpu"]
            for name, count in has.items():
                if is_device(name) and name.split("/")[1].startswith(("gpu", "mig-")):
                    group["gpus"][type_of(name, types[where])] += round(count)
    return {
        "nodes": sorted((node_record(node, used[node["metadata"]["name"]]) for node in nodes), key=lambda node: node["name"]),
        "pods": [groups[key] for key in sorted(groups)],
    }


def status(path: str, cluster: str) -> Record:
    """The cluster as it is now.

    If the API does not answer, it has up false and an error (a sentence), and nothing else.
    """
    found: Record = {"time": int(time.time()), "up": True, "error": "", "cluster": cluster, "version": "", "nodes": [], "pods": []}
    try:
        api = Api(path)
        found["version"] = api.ask("/version")["gitVersion"]
        found.update(status_of(api.listed("nodes"), api.listed("pods")))
    except Unreadable as error:  # half a status would be read as a loss
        found.update({"up": False, "error": str(error), "version": "", "nodes": [], "pods": []})
    return found


class Metrics:
    """Metrics in the order in which they were first added.

    Each has its samples together, as the format asks for.
    """

    def __init__(self) -> None:
        self.families: dict[str, list[str]] = {}

    def add(self, metric: str, what: str, value: float, /, **labels: str) -> None:
        family = self.families.setdefault(metric, [f"# HELP {metric} {what}", f"# TYPE {metric} gauge"])
        inner = ",".join(f'{key}="{escape(text)}"' for key, text in sorted(labels.items()))
        family.append(f"{metric}{{{inner}}} {value}" if inner else f"{metric} {value}")

    def __str__(self) -> str:
        return "".join(f"{line}\n" for family in self.families.values() for line in family)


def escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def metrics(seen: Record) -> str:
    text = Metrics()
    text.add("kubernetes_up", "Whether the API answers.", int(seen["up"]))
    text.add("kubernetes_status_timestamp_seconds", "When the API was asked.", seen["time"])
    if not seen["up"]:  # absent, not zero: nothing is known of nodes and pods
        return str(text)
    text.add("kubernetes_info", "Name and release of the cluster.", 1, cluster=seen["cluster"], version=seen["version"])
    for node in seen["nodes"]:
        name = node["name"]
        text.add("kubernetes_node_usable", "Whether pods can start on the node now.", int(node["usable"]), node=name, state=node["state"])
        text.add("kubernetes_node_cpus", "CPUs of the node.", node["cpus"]["total"], node=name)
        text.add("kubernetes_node_cpus_allocated", "CPUs that pods asked for.", node["cpus"]["used"], node=name)
        text.add("kubernetes_node_memory_bytes", "Memory that can be scheduled.", node["memory_mib"]["total"] << 20, node=name)
        text.add("kubernetes_node_memory_allocated_bytes", "Memory that pods asked for.", node["memory_mib"]["used"] << 20, node=name)
        for gres in node["gres"]:
            labels = {"node": name, "gres": gres["name"], "type": gres["type"]}
            text.add("kubernetes_node_gres", "Devices that the node can give, such as GPUs.", gres["total"], **labels)
            text.add("kubernetes_node_gres_allocated", "Devices that pods have.", gres["used"], **labels)
    for group in seen["pods"]:
        text.add("kubernetes_account_pods", "Pods by account and state.", group["count"], account=group["account"], state=group["state"])
    for group in seen["pods"]:
        if group["state"] == "running":
            text.add("kubernetes_account_cpus_allocated", "CPUs of the account's pods.", round(group["cpus"], 3), account=group["account"])
            for kind, count in sorted(group["gpus"].items()):
                text.add("kubernetes_account_gpus_allocated", "GPUs of the account's pods.", count, account=group["account"], type=kind)
    return str(text)


def known(**attributes: t.Any) -> Record:
    return {key: value for key, value in attributes.items() if value is not None}


def total(entries: t.Iterable[Record], key: str) -> int:
    return sum(entry[key] for entry in entries)


def gpus_of(nodes: list[Record]) -> list[Record]:
    return [gres for node in nodes for gres in node["gres"] if gres["name"] == "gpu"]


def kind_of(node: Record) -> tuple[t.Any, ...]:
    """What makes nodes equal for those who choose among them."""
    gpus = tuple((gres["type"], gres["total"]) for gres in gpus_of([node]))
    return (node["cpus"]["total"], node["memory_mib"]["total"] // 1024, node["architecture"], gpus)


def glue2(seen: Record, service: str, domain: str) -> Record:
    """Entities of GLUE 2.0 and, for accelerators, GLUE 2.1.

    Each in a list under its name.
    """
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seen["time"]))
    kinds: dict[tuple[t.Any, ...], list[Record]] = {}
    for node in seen["nodes"]:
        kinds.setdefault(kind_of(node), []).append(node)
    hosts, accelerators = [], []
    for members in kinds.values():
        first = members[0]
        identity = f"{service}:environment:{first['name']}"
        hosts.append(
            known(
                ID=identity,
                Platform=first["architecture"] or None,
                OSFamily="linux",
                TotalInstances=len(members),
                UsedInstances=sum(node["cpus"]["used"] > 0 for node in members),
                UnavailableInstances=sum(not node["usable"] for node in members),
                LogicalCPUs=first["cpus"]["total"],
                MainMemorySize=first["memory_mib"]["total"],
                Associations={"ComputingManagerID": f"{service}:manager"},
            )
        )
        for number, gpu in enumerate(gpus_of([first])):
            same = [gpus_of([node])[number] for node in members]
            accelerators.append(
                known(
                    ID=f"{identity}:{gpu['type'] or 'gpu'}",
                    Name=gpu["type"] or None,
                    Type="GPU",
                    Vendor=VENDORS.get(gpu["resource"].split("/")[0]),
                    LogicalAccelerators=gpu["total"],
                    OtherInfo=[f"TotalAccelerators={total(same, 'total')}", f"UsedAccelerators={total(same, 'used')}"],
                    Associations={"ExecutionEnvironmentID": [identity]},
                )
            )
    gpus, usable = gpus_of(seen["nodes"]), gpus_of([node for node in seen["nodes"] if node["usable"]])
    shares = [share(account, seen, usable, service) for account in sorted({group["account"] for group in seen["pods"]})]
    running = [group for group in seen["pods"] if group["state"] == "running"]
    jobs: Record = {}
    if seen["up"]:  # nothing is known of pods otherwise
        waiting = [group for group in seen["pods"] if group["state"] == "pending"]
        jobs = {"TotalJobs": total(seen["pods"], "count"), "RunningJobs": total(running, "count"), "WaitingJobs": total(waiting, "count")}
    entities: dict[str, list[Record]] = {
        "ComputingService": [
            {
                "ID": service,
                "Name": seen["cluster"],
                "Type": "io.kubernetes",
                "Capability": ["executionmanagement.jobexecution", "executionmanagement.jobmanagement"],
                "QualityLevel": "production",
                **jobs,
                **({"Associations": {"AdminDomainID": [domain]}} if domain else {}),
            }
        ],
        "ComputingEndpoint": [
            {
                "ID": f"{service}:endpoint",
                "InterfaceName": "io.kubernetes",
                "ServingState": "production" if seen["up"] else "closed",
                **known(HealthState="ok" if seen["up"] else "critical", HealthStateInfo=seen["error"] or None),
                "Associations": {"ComputingServiceID": service},
            }
        ],
        "ComputingManager": [
            known(
                ID=f"{service}:manager",
                ProductName="Kubernetes",
                ProductVersion=seen["version"] or None,
                TotalSlots=total([node["cpus"] for node in seen["nodes"]], "total") if seen["up"] else None,
                TotalAcceleratorSlots=total(gpus, "total") if seen["up"] else None,
                UsedAcceleratorSlots=total(gpus, "used") if seen["up"] else None,
                Associations={"ComputingServiceID": service},
            )
        ],
        "ComputingShare": shares,
        "ExecutionEnvironment": hosts,
        "AcceleratorEnvironment": accelerators,
    }
    for entity in (entity for members in entities.values() for entity in members):
        entity["CreationTime"] = when
    if domain:
        entities["AdminDomain"] = [{"ID": domain, "CreationTime": when}]
    return entities


def share(account: str, seen: Record, usable: list[Record], service: str) -> Record:
    """The ComputingShare of a namespace."""
    counts = {state: [group for group in seen["pods"] if group["account"] == account and group["state"] == state] for state in STATES}
    running, waiting = total(counts["running"], "count"), total(counts["pending"], "count")
    return {
        "ID": f"{service}:share:{account}",
        "Name": account,
        "ServingState": "production",
        "TotalJobs": running + waiting,
        "RunningJobs": running,
        "LocalRunningJobs": running,
        "WaitingJobs": waiting,
        "LocalWaitingJobs": waiting,
        "UsedAcceleratorSlots": sum(sum(group["gpus"].values()) for group in counts["running"]),
        "FreeAcceleratorSlots": max(0, total(usable, "total") - total(usable, "used")),
        "MappingPolicy": [f"Namespace:{account}"],
        "Associations": {"ComputingServiceID": service, "ComputingEndpointID": [f"{service}:endpoint"]},
    }


def cmdb(seen: Record, service: str, domain: str) -> list[Record]:
    """Return records for a CMDB: the service, and one for each type of GPU.

    num_gpus is what one pod can have at most.
    """
    records = [
        {"_id": service, "type": "service", "data": known(service_type="io.kubernetes", name=seen["cluster"], sitename=domain or None)}
    ]
    types = sorted({gpu["type"] for gpu in gpus_of(seen["nodes"])})
    for kind in types:
        gpus = [gpu for gpu in gpus_of(seen["nodes"]) if gpu["type"] == kind]
        data = known(
            service=service,
            name=kind or "gpu",
            num_gpus=max(gpu["total"] for gpu in gpus),
            gpu_vendor=VENDORS.get(gpus[0]["resource"].split("/")[0]),
            gpu_model=kind or None,
            total_gpus=total(gpus, "total"),
            used_gpus=total(gpus, "used"),
        )
        records.append({"_id": f"{service}:{kind or 'gpu'}", "type": "flavor", "data": data})
    return records


def publish(text: str, path: str) -> None:
    """Replace the file at once, so that no process reads half of it."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(f"{path}.new", path)


def as_json(data: t.Any) -> str:
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def main(config: str, directory: str, cluster: str, service: str, domain: str = "") -> str:
    """Write the files; returns why the API did not answer, empty if it did."""
    seen = status(config, cluster)
    publish(metrics(seen), os.path.join(directory, "kubernetes_metrics.prom"))
    publish(as_json(glue2(seen, service, domain)), os.path.join(directory, "glue2.json"))
    if seen["up"]:  # a record without its numbers would be read as a loss
        publish(as_json(cmdb(seen, service, domain)), os.path.join(directory, "cmdb.json"))
    return str(seen["error"])


if __name__ == "__main__":
    sentence = main(*sys.argv[1:])
    if sentence:
        sys.exit(f"the API does not answer, the documents say so: {sentence}")
