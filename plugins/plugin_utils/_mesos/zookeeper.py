# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What ZooKeeper's servers and clients need to know of each other: pure functions."""

from __future__ import annotations

import typing as t

CLIENT_PORT, FOLLOW_PORT, ELECTION_PORT = 2181, 2888, 3888
# The chroot of each account. Others may read where the leader of Mesos is, so that agents and frameworks need no secret for that.
CHROOTS = (
    {"path": "/mesos", "user": "mesos", "world": "r"},
    {"path": "/marathon", "user": "marathon", "world": ""},
    {"path": "/chronos", "user": "chronos", "world": ""},
)


def ids_of(declared: t.Mapping[str, t.Any], hosts: t.Sequence[str]) -> dict[str, int]:
    """The number of each server; that of a lone one need not be declared."""
    return {host: int(declared.get(host, 1)) for host in hosts}


def ensemble(ids: t.Mapping[str, int], addresses: t.Mapping[str, str], has_chronos: bool) -> dict[str, t.Any]:
    """Return the lines of the servers' configuration, and the addresses for clients.

    The addresses have no secret.
    """
    order = sorted(ids, key=lambda host: ids[host])
    clients = ",".join(f"{addresses[host]}:{CLIENT_PORT}" for host in order)
    return {
        "ids": dict(ids),
        "servers": [f"server.{ids[host]}={addresses[host]}:{FOLLOW_PORT}:{ELECTION_PORT}" for host in order] if len(order) > 1 else [],
        "clients": clients,
        "url": f"zk://{clients}/mesos",
        "chroots": [dict(one) for one in CHROOTS if has_chronos or one["user"] != "chronos"],
    }
