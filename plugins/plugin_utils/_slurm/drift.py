# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What a run of the site's playbook in check mode would change: pure functions.

It is read from the results that the playbook's tasks registered. Every task that can change something registers its result as
__<role>_<name>. A unit test holds the roles to that.
"""

from __future__ import annotations

import difflib
import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import nodes as slurm_nodes

RESULT = re.compile(r"__([a-z]\w*)")
# The role slurm_cluster works by delegation: its results are in the variables of every host of a run, but concern the controller
# or, in a loop, the host of the item.
CLUSTER = "slurm_cluster_"
# The task that has the whole policy; an earlier one registers only what slurm.conf needs.
POLICY = "slurm_cluster_reconciled"


class Difference(t.TypedDict):
    """Something that is not as the inventory says.

    kind: file, unit, package, node, policy, other, or not_compared. part: the task's result, such as slurm_node_written.
    names: paths, units, packages or nodes. why: one sentence or diff header each. diff: what would change, without secrets.
    """

    host: str
    kind: str
    part: str
    names: list[str]
    why: list[str]
    diff: str


def differences(
    results: t.Mapping[str, t.Mapping[str, t.Any]], controller: str, node_hosts: t.Mapping[str, str] | None = None
) -> list[Difference]:
    """All differences, each once, in the order of the hosts.

    results: for each host its registered results, by variable. node_hosts: inventory name of each of SLURM's nodes.
    """
    found: list[Difference] = []
    for host, own in results.items():
        for variable, result in own.items():
            name = RESULT.fullmatch(variable)
            if not name or not isinstance(result, t.Mapping):
                continue
            part = name.group(1)
            where = controller if part.startswith(CLUSTER) else host
            for single in result["results"] if isinstance(result.get("results"), (list, tuple)) else [result]:
                item = single.get("item")
                place = item if isinstance(item, str) and item in results else where
                found += difference(place, part, single)
                found += absent_nodes(part, single, node_hosts or {})
    unique = []
    for entry in found:
        if entry not in unique:
            unique.append(entry)
    return unique


def difference(host: str, part: str, result: t.Mapping[str, t.Any]) -> list[Difference]:
    """The differences in one result. Empty if there are none."""

    def entry(kind: str, names: t.Iterable[t.Any], why: t.Iterable[t.Any] = ()) -> list[Difference]:
        texts = [str(name) for name in names]
        return [
            {"host": host, "kind": kind, "part": part, "names": texts, "why": [str(w) for w in why], "diff": diff_text(result.get("diff"))}
        ]

    if result.get("unreachable") or result.get("failed"):
        return entry("not_compared", [], [" ".join(str(result.get("msg") or "no reason told").split())])
    if result.get("undeclared") and part == POLICY:
        found = entry("policy", result["undeclared"], ["the policy does not name it"])
        return [{**found[0], "diff": ""}, *difference(host, part, {**result, "undeclared": []})]
    if result.get("skipped") or not result.get("changed"):
        return []
    if "added" in result:
        return entry("policy", [*result["added"], *result.get("updated", []), *result.get("removed", [])])
    if "paths" in result:
        return entry("file", result["paths"])
    if "reasons" in result:
        return entry("unit", [result.get("name") or part], result["reasons"])
    if "drained" in result and "resumed" in result:
        return entry("node", [*result["drained"], *result["resumed"]])
    packages = re.findall(r"^Inst (\S+)", str(result.get("stdout") or ""), re.MULTILINE)
    if packages:
        return entry("package", packages)
    return entry("other", [], [result["msg"]] if result.get("msg") else [])


def absent_nodes(part: str, result: t.Mapping[str, t.Any], node_hosts: t.Mapping[str, str]) -> list[Difference]:
    """Nodes of the inventory that take no jobs now, for whatever cause."""
    states = result.get("nodes")
    if "drained" not in result or not isinstance(states, t.Mapping):
        return []
    return [
        {
            "host": node_hosts[name],
            "kind": "node",
            "part": part,
            "names": [name],
            "why": [f"it takes no jobs: {node['state']}" + (f" ({node['reason']})" if node["reason"] else "")],
            "diff": "",
        }
        for name, node in states.items()
        if name in node_hosts and not slurm_nodes.in_service(node)
    ]


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


def summary(entries: t.Iterable[Difference]) -> list[str]:
    """One line for each difference."""
    lines = []
    for entry in entries:
        what = ", ".join(entry["names"]) or entry["part"]
        why = "; ".join(entry["why"])
        words = {"file": "differs", "package": "is not installed", "not_compared": "could not be compared"}.get(entry["kind"], "")
        subject = entry["host"] if what == entry["host"] else f"{entry['host']}: {what}"
        lines.append(subject + (f" {words}" if words else "") + (f": {why}" if why else ""))
    return lines
