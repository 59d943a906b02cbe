# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Which host has which part of a Mesos cluster, and its name: pure functions."""

from __future__ import annotations

import typing as t

MASTERS = "mesos_masters"
AGENTS = "mesos_agents"
ZOOKEEPER = "zookeeper"
MARATHON = "marathon"
CHRONOS = "chronos"
BALANCERS = "marathon_lb"
GROUPS = (MASTERS, AGENTS, ZOOKEEPER, MARATHON, CHRONOS, BALANCERS)
# What these are on where the inventory has no such group.
ON_MASTERS = (ZOOKEEPER, MARATHON)
# Variables of a host: what its certificate calls it, and the address that others reach it by.
NAME = "mesos_cluster_hostname"
ADDRESS = "mesos_cluster_address"


def hosts_of(groups: t.Mapping[str, t.Sequence[str]]) -> dict[str, list[str]]:
    """The inventory names of the hosts of each part, in the order of the inventory."""
    masters = list(groups.get(MASTERS) or [])
    found = {group: list(groups.get(group) or []) or (list(masters) if group in ON_MASTERS else []) for group in GROUPS}
    return {
        "zookeeper": found[ZOOKEEPER],
        "masters": found[MASTERS],
        "agents": found[AGENTS],
        "marathon": found[MARATHON],
        "chronos": found[CHRONOS],
        "balancers": found[BALANCERS],
    }


def all_hosts(groups: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """All hosts of the cluster, each once, the masters first."""
    parts = hosts_of(groups)
    return list(dict.fromkeys([*parts["masters"], *(host for hosts in parts.values() for host in hosts)]))


def quorum(masters: t.Sequence[str]) -> int:
    """Return how many masters must agree: more than half.

    Else two halves could each elect a leader.
    """
    return len(masters) // 2 + 1
