# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""How a Mesos site differs from its inventory: pure functions.

Two sources: the results that the tasks of the playbook mesos registered in check mode, as __<role>_<name>, and what the leading master
says of its agents.
"""

from __future__ import annotations

import difflib
import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import manager

RESULT = re.compile(r"__((?:mesos|zookeeper|marathon|chronos|site_check)_\w*)")
# The role mesos_cluster works by delegation: its results concern the cluster.
CLUSTER = "mesos_cluster_"
# But this one: it is each host's, and does not fail while hosts are only compared.
CERTIFICATE = "mesos_cluster_pair"
# What a run would write otherwise only because its plan lacks agents that did not answer.
BY_ABSENCE = (manager.PROMISES.path,)

Object = t.Mapping[str, t.Any]


class Difference(t.TypedDict):
    """Something that is not as the inventory says.

    kind: file, unit, package, agent, device, other, or not_compared. part: the task's result, or what was looked at.
    names: paths, units, packages, agents. why: one sentence each. diff: what would change, without secrets.
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


def differences(results: t.Mapping[str, Object], first: str, is_whole: bool) -> list[Difference]:
    """What a run would change, each once, in the order of the hosts.

    :param results: for each host its registered results, by variable. first: the first master. is_whole: whether every member answered.
    """
    unique: list[Difference] = []
    for host, variables in results.items():
        for variable, result in variables.items():
            name = RESULT.fullmatch(variable)
            if not name or not isinstance(result, t.Mapping):
                continue
            where = first if name.group(1).startswith(CLUSTER) and name.group(1) != CERTIFICATE else host
            for single in result["results"] if isinstance(result.get("results"), (list, tuple)) else [result]:
                unique += [one for one in difference(where, name.group(1), single, is_whole) if one not in unique]
    return unique


def difference(host: str, part: str, result: Object, is_whole: bool = True) -> list[Difference]:
    """What one result says; nothing where all is as it is to be."""
    if result.get("unreachable") or result.get("failed") or (part == CERTIFICATE and result.get("msg")):
        return [entry(host, "not_compared", part, [], [" ".join(str(result.get("msg") or "no reason given").split())])]
    if result.get("skipped") or not result.get("changed"):
        return []
    text = diff_text(result.get("diff"))
    if "paths" in result:
        paths = [path for path in result["paths"] if is_whole or path not in BY_ABSENCE]
        return [entry(host, "file", part, paths, diff=text)] if paths else []
    if "reasons" in result:
        return [entry(host, "unit", part, result.get("restarted") or [result.get("name") or part], result["reasons"])]
    packages = re.findall(r"^Inst (\S+)", str(result.get("stdout") or ""), re.MULTILINE)
    if packages:
        return [entry(host, "package", part, packages)]
    return [entry(host, "other", part, [], [result["msg"]] if result.get("msg") else [], text)]


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


def agent_differences(offered: Object, first: str) -> list[Difference]:
    """Agents that are missing, away, or offer another number of GPUs.

    :param offered: what mesos_offers returned: its sentences begin with the host.
    """
    if offered.get("unreachable") or (offered.get("failed") and not offered.get("offered") and ": " not in str(offered.get("msg") or "")):
        return [entry(first, "not_compared", "agents", [], [" ".join(str(offered.get("msg") or "no answer").split())])]
    found = []
    for sentence in str(offered.get("msg") or "").splitlines() if offered.get("failed") else []:
        host, _colon, why = sentence.partition(": ")
        is_host = " " not in host
        found.append(entry(host if is_host else first, "agent", "agents", [], [why if is_host else sentence]))
    for line in offered.get("offered") or []:
        if line.endswith(", closed to new tasks"):
            found.append(entry(line.partition(": ")[0], "agent", "agents", [], ["its agent is deactivated, so it gets no new tasks"]))
    return found


WORDS = {"file": "differs", "package": "is not installed", "not_compared": "could not be compared"}


def summary(entries: t.Iterable[Difference]) -> list[str]:
    """One line for each difference."""
    lines = []
    for one in entries:
        what, why, words = ", ".join(one["names"]) or one["part"], "; ".join(one["why"]), WORDS.get(one["kind"], "")
        lines.append(f"{one['host']}: {what}" + (f" {words}" if words else "") + (f": {why}" if why else ""))
    return lines


def report(
    results: t.Mapping[str, Object], members: t.Sequence[str], in_play: t.Sequence[str], first: str, planned: Object | None, offered: Object
) -> dict[str, t.Any]:
    """All differences, and what could not be compared.

    :param results: for each host that answered its registered results. planned: the plan of the cluster, None where none was made.
    :param offered: what mesos_offers returned.
    """
    left = [host for host in members if host in in_play and host not in results]
    found = differences(results, first, not left)
    if planned:
        found += agent_differences(offered, first)
        found += [entry(first, "device", "promises", [], [sentence]) for sentence in planned.get("lost") or []]
    unique: list[Difference] = []
    for one in found:
        unique += [one] if one not in unique else []
    return {
        "differs": any(one["kind"] != "not_compared" for one in unique),
        "complete": bool(planned) and not left and all(one["kind"] != "not_compared" for one in unique),
        "compared": [host for host in members if host in results],
        "not_reached": left,
        "left_out": [host for host in members if host not in in_play],
        "differences": unique,
        "summary": [*summary(unique), *(f"{host}: did not answer, or failed before it could be compared" for host in left)],
    }
