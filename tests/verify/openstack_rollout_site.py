# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of new secrets and new certificates have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from local import Cluster
from openstack_users import Account

PLAYBOOK = "playbooks/openstack.yml"
HOST = "lxd1"
PORTS = {"ctl": {**dict.fromkeys((5000, 8774, 8778, 9292, 9696), "")}, "data": {5671: "", 3306: "-starttls mysql"}}


def main_process(cluster: Cluster) -> str:
    """Of the only server on the compute host."""
    return cluster.out(HOST, "for name in $(lxc list --format csv --columns n); do lxc info $name | grep -i ^pid:; done")


@pytest.fixture(scope="module")
def server(cluster: Cluster, ada: Account) -> Iterator[dict[str, Any]]:
    """A server of ada with a GPU, and no other."""
    cleanup = "answer = removed(*[server.id for server in cloud.compute.servers()])"
    assert ada.ask(cleanup) == []
    made = ada.start("goes-on", "a100")
    assert (made["status"], made["fault"]) == ("ACTIVE", "")
    yield made
    assert ada.ask(cleanup) == []


def serves(cluster: Cluster, ada: Account, server: dict[str, Any], process: str) -> None:
    """The server is as it was, and another one can be made."""
    assert main_process(cluster) == process and ada.show(server["id"])["status"] == "ACTIVE"
    other = ada.start("other", "a100")
    ada.remove(other["id"])
    assert (other["status"], other["fault"]) == ("ACTIVE", "")
