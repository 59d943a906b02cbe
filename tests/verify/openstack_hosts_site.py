# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of drained and removed compute hosts have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openstack_users import Account

DRAIN, RESUME, REMOVE = "playbooks/openstack_drain.yml", "playbooks/openstack_resume.yml", "playbooks/openstack_remove_compute.yml"
PLAYBOOK = "playbooks/openstack.yml"
HOST = "lxd1"
RECORD = "/var/lib/deephdc/openstack_accelerators"
REMOVED = "answer = removed(*[server.id for server in cloud.compute.servers()])"


def words(output: str) -> str:
    return " ".join(output.split())


def service(admin: Account) -> list[list[Any]]:
    return list(admin.ask("answer = [(one.status, one.disabled_reason) for one in cloud.compute.services(binary='nova-compute')]"))


@pytest.fixture(scope="module")
def server(ada: Account) -> Iterator[str]:
    """A server of ada with a GPU, and no other."""
    assert ada.ask(REMOVED) == []
    made = ada.start("train", "a100")
    assert made["status"] == "ACTIVE", made
    yield str(made["id"])
    assert ada.ask(REMOVED) == []
