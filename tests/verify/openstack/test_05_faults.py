# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What breaks in a cloud, and what is left of it: daemons, a host during a spawn, a GPU."""

from __future__ import annotations

import subprocess
import time
from typing import Any

import pytest
from local import Cluster
from openstack_users import Account, wait_for_host

OWNS = (
    "roles/nova_lxd/files/nova_lxd/recovery.py",
    "roles/nova_lxd/files/nova_lxd/service.py",
    "roles/nova_lxd/tasks/service.yml",
)

PLAYBOOK = "playbooks/openstack.yml"
HOST = "lxd1"


def restarted(cluster: Cluster, admin: Account, host: str) -> None:
    """Kill a host without a word to what runs there, and start it again."""
    name = f"{cluster.label}-{host}"
    subprocess.run(["docker", "kill", name], check=True, stdout=subprocess.DEVNULL, timeout=60)
    subprocess.run(["docker", "start", name], check=True, stdout=subprocess.DEVNULL, timeout=60)
    wait_for_host(cluster, admin, host)


@pytest.mark.parametrize("unit", ["mariadb", "rabbitmq-server"])
def test_a_killed_daemon_comes_back_and_servers_can_be_made(cluster: Cluster, ada: Account, unit: str) -> None:
    process = f"systemctl show --property MainPID --value {unit}"
    old = cluster.out("data", process)
    cluster.out("data", f"systemctl kill --kill-who=main --signal=KILL {unit}")
    cluster.until("data", f"[ $({process}) != {old} ] && systemctl is-active --quiet {unit} && echo runs", "runs", seconds=120)
    seen: dict[str, Any] = {}
    deadline = time.monotonic() + 400
    while seen.get("status") != "ACTIVE" and time.monotonic() < deadline:
        try:
            seen = ada.start("after", "small")
        except (AssertionError, subprocess.TimeoutExpired) as error:
            seen = {"status": str(error)[-300:]}
            time.sleep(2)
            continue
        ada.remove(seen["id"])
    # Also those whose making took too long.
    assert ada.ask("answer = removed(*[server.id for server in cloud.compute.servers()])") == []
    assert seen["status"] == "ACTIVE", seen


def test_a_host_that_dies_during_a_spawn_leaves_nothing_half(cluster: Cluster, admin: Account, ada: Account) -> None:
    server = ada.ask("""
        server = make("half", "a100", "physics")
        time.sleep(2.5)
        answer = server.id
    """)
    restarted(cluster, admin, HOST)
    seen = ada.ask(f"answer = shown(settled({server!r}))")
    assert seen["status"] in ("ACTIVE", "ERROR"), seen
    ada.remove(server)
    assert cluster.out(HOST, "lxc list --format csv --columns n") == ""
    usage = admin.ask(f"""
        root = cloud.placement.get("/resource_providers?name={HOST}", microversion="1.14").json()["resource_providers"][0]["uuid"]
        tree = cloud.placement.get("/resource_providers?in_tree=" + root, microversion="1.14").json()["resource_providers"]
        answer = [cloud.placement.get("/resource_providers/" + one["uuid"] + "/allocations").json()["allocations"] for one in tree]
    """)
    assert not any(usage), usage
    again = ada.start("again", "a100")
    assert again["status"] == "ACTIVE", again
    ada.remove(again["id"])


def test_a_gpu_that_is_missing_at_the_hosts_start_is_reported_and_not_given(cluster: Cluster, admin: Account, eve: Account) -> None:
    cluster.out(HOST, "mv /dev/nvidia0 /dev/held-back")
    try:
        said = " ".join(cluster.playbook(PLAYBOOK, succeeds=False).split())
        assert "0000:01:00.0" in said, said[-3000:]
        seen = admin.ask(f"""
            root = cloud.placement.get("/resource_providers?name={HOST}", microversion="1.14").json()["resource_providers"][0]["uuid"]
            def reserved():
                tree = cloud.placement.get("/resource_providers?in_tree=" + root, microversion="1.14").json()["resource_providers"]
                read = lambda one: cloud.placement.get("/resource_providers/" + one["uuid"] + "/inventories").json()["inventories"]
                return sorted(read(one).get("CUSTOM_GPU_A100", dict()).get("reserved", -1) for one in tree)
            answer = until(reserved, lambda seen: seen == [-1, 0, 1], 300)
        """)
        assert seen == [-1, 0, 1]
    finally:
        cluster.out(HOST, "mv /dev/held-back /dev/nvidia0")
    cluster.playbook(PLAYBOOK)
    server = eve.start("repaired", "a100")
    assert server["status"] == "ACTIVE", server
    eve.remove(server["id"])
