# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Members of ZooKeeper and masters, compared with those that run: pure functions."""

from __future__ import annotations

import typing as t

# What an ensemble of each kind keeps, and what comes of two ensembles that do not know of each other.
KINDS = {
    "zookeeper": (
        "ZooKeeper runs",
        "a part of its servers would go on without the others, so that Marathon leads twice and applications are lost",
    ),
    "masters": (
        "the masters run",
        "their replicated log does not survive another number of members, and a part would go on without the others",
    ),
}


def ensemble_errors(results: t.Sequence[t.Mapping[str, t.Any]], wanted: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """Return a sentence for each kind of members that the inventory would change.

    One more comes for each host that can't be read.

    One member of three or five may be another machine, and hosts may have other addresses: most of them are members already, and keep
    what they know.

    :param results: of a task in a loop over the hosts, whose lines are a kind and the addresses of its members, as the host has them.
    :param wanted: the addresses of the members of each kind, by the inventory.
    :raises ValueError: a line is something else.
    """
    there = {kind: list[tuple[str, set[str]]]() for kind in KINDS}
    found = []
    for result in results:
        # One that is down can't be asked, the others know it. But what can't be read is not absent.
        lines = [str(line).split() for line in result.get("stdout_lines") or []]
        failed = result.get("failed") and not result.get("unreachable")
        if failed or any(len(line) == 1 for line in lines):
            why = " ".join(str(result.get("stderr") or result.get("msg") or "no answer").split())[-200:] if failed else "it is empty"
            found.append(
                f"{result['item']} does not say which members ZooKeeper and the masters have ({why}): log in as root, and write a damaged "
                "/etc/mesos/cluster.json as on another member, or with the address of the only one; "
                "in /etc/zookeeper/deephdc/zoo.cfg clientPortAddress is the host's own. Nothing was changed."
            )
            continue
        for kind, *members in lines:
            if kind not in KINDS:
                raise ValueError(f"A line of the members is {kind!r}.")
            there[kind].append((str(result["item"]), set(members)))
    for kind, (name, loss) in KINDS.items():
        planned = set(wanted[kind])
        # Most of those that are meant are members already, perhaps with another address.
        are_most = 2 * len(there[kind]) > len(planned)
        host, present = next(
            ((host, members) for host, members in there[kind] if members != planned and not (are_most and len(members) == len(planned))),
            ("", set()),
        )
        if host:
            found.append(
                f"On {host}, {name} with {', '.join(sorted(present))}, and the inventory means {', '.join(sorted(planned)) or 'none'}: "
                f"{loss}. Put the former hosts back. One member of three or five may be another machine; another number of them is a new "
                "cluster, with a backup of this one (playbooks mesos_backup and mesos_restore)."
            )
    return found
