# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Compute hosts that leave the cloud."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path
from typing import Any

import yaml
from local import Cluster, changed
from openstack_hosts_site import HOST, PLAYBOOK, RECORD, REMOVE, REMOVED, server, service, words
from openstack_users import Account, wait_for_host

OWNS = (
    "playbooks/openstack_remove_compute.yml",
    "roles/openstack_operations/tasks/record.yml",
    "roles/openstack_operations/tasks/remove_*.yml",
    "plugins/module_utils/_openstack/compute_removal.py",
    "plugins/modules/openstack_compute_removed.py",
    "plugins/plugin_utils/_openstack/references.py",
    "tests/verify/openstack_hosts_site.py",
)
__all__ = ["server"]

NOTHING: dict[str, list[str]] = {"services": [], "providers": [], "agents": []}


def known(admin: Account) -> dict[str, list[str]]:
    """What the cloud still has of the compute host."""
    return dict(
        admin.ask(f"""
            providers = cloud.placement.get("/resource_providers", microversion="1.14").json()["resource_providers"]
            agents = cloud.network.get("/agents", params=dict(host={HOST!r})).json()["agents"]
            answer = dict(
                services=[one.host for one in cloud.compute.services(binary="nova-compute")],
                providers=[one["name"] for one in providers if one["name"].startswith({HOST!r})],
                agents=[one["binary"] for one in agents],
            )
        """)
    )


def test_a_compute_host_that_the_inventory_lacks_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    inventory = yaml.safe_load((cluster.inventory / "hosts.yml").read_text())

    def lose(group: dict[str, Any]) -> None:
        (group.get("hosts") or {}).pop(HOST, None)
        for child in (group.get("children") or {}).values():
            lose(child or {})

    lose(inventory["all"])
    path = tmp_path / "hosts.yml"
    path.write_text(yaml.safe_dump(inventory))
    before = cluster.out("ctl", f"cat {RECORD}")
    for more in ((), ("--check",)):
        said = cluster.playbook(PLAYBOOK, *more, inventories=(str(path),), succeeds=False)
        assert f"{HOST} is a compute host of the cloud, but it is not in openstack_lxd_hosts" in words(said) and changed(said) == []
    assert cluster.out("ctl", f"cat {RECORD}") == before


def test_a_host_with_a_stopped_server_does_not_leave(cluster: Cluster, admin: Account, ada: Account, server: str) -> None:
    ada.ask(f"""
        cloud.compute.stop_server({server!r})
        time.sleep(1)
        answer = shown(settled({server!r}, wanted=["SHUTOFF"]))
    """)
    said = words(cluster.playbook(REMOVE, variables={"openstack_remove_hosts": HOST, "openstack_remove_wait": 1}, succeeds=False))
    assert f"Not removed, because there is still server {server} (train) of ada in the project physics" in said
    assert known(admin)["services"] == [HOST] and cluster.out(HOST, "systemctl is-active nova-compute") == "active"
    said = words(cluster.playbook(REMOVE, variables={"openstack_remove_hosts": HOST, "openstack_remove_dead": HOST}, succeeds=False))
    assert "named in openstack_remove_dead, but it answers" in said


def test_a_removal_that_was_killed_is_completed_and_the_host_can_join_again(
    cluster: Cluster, admin: Account, ada: Account, server: str
) -> None:
    seed = int(os.environ.get("KILL_SEED") or random.randrange(10**6))
    print(f"KILL_SEED={seed}")
    wanted = {"openstack_remove_hosts": HOST, "openstack_remove_end_servers_on": HOST}
    said = words(cluster.playbook(REMOVE, "--check", variables=wanted))
    assert f"The server {server} (train) of ada in the project physics" in said and known(admin)["services"] == [HOST]
    print(f"killed at {cluster.killed_playbook(REMOVE, random.Random(seed), 22, variables=wanted)}")
    cluster.playbook(REMOVE, variables=wanted)
    assert known(admin) == NOTHING
    assert ada.ask("answer = [one.id for one in cloud.compute.servers()]") == []
    assert cluster.out(HOST, "lxc list --format csv --columns n") == ""
    assert HOST not in cluster.out("ctl", f"cat {RECORD}")
    for unit in ("nova-compute", "neutron-linuxbridge-agent", "deephdc-nova-gpus.timer"):
        assert cluster.run(HOST, f"systemctl is-active {unit}").stdout.strip() == "inactive"
        assert cluster.run(HOST, f"systemctl is-enabled {unit}").stdout.strip() != "enabled"
    left = "grep -rlE 'deephdc|@ctl' /etc/nova /etc/neutron /etc/systemd/system /usr/lib/python3/dist-packages/nova/virt 2>/dev/null"
    assert cluster.run(HOST, left).stdout.strip() == ""
    assert "without_among" not in cluster.out(HOST, "readlink /etc/alternatives/ebtables")
    # It may have other users.
    assert cluster.out(HOST, "lxc storage list --format csv | wc -l") == "1"
    assert changed(cluster.playbook(REMOVE, variables={"openstack_remove_hosts": HOST})) == []

    cluster.playbook(PLAYBOOK)
    assert known(admin)["services"] == [HOST] and service(admin) == [["enabled", None]]
    assert HOST in cluster.out("ctl", f"cat {RECORD}")
    made = ada.start("joined", "a100")
    ada.remove(made["id"])
    assert made["status"] == "ACTIVE", made


def test_a_dead_host_leaves_when_a_person_says_so(cluster: Cluster, admin: Account, ada: Account) -> None:
    assert ada.ask(REMOVED) == []
    made = ada.start("again", "a100")
    assert made["status"] == "ACTIVE", made
    name = f"{cluster.label}-{HOST}"
    subprocess.run(["docker", "kill", name], check=True, stdout=subprocess.DEVNULL, timeout=60)
    try:
        wanted = {"openstack_remove_hosts": HOST}
        said = words(cluster.playbook(REMOVE, variables=wanted, succeeds=False))
        assert f"{HOST} does not answer. Bring it up, or, if it never will be, name it in openstack_remove_dead" in said
        wanted["openstack_remove_dead"] = HOST
        said = words(cluster.playbook(REMOVE, variables=wanted, succeeds=False))
        assert "(again) of ada in the project physics" in said and known(admin)["services"] == [HOST]
        cluster.playbook(REMOVE, variables={**wanted, "openstack_remove_end_servers_on": HOST})
        assert known(admin) == NOTHING
        assert ada.ask("answer = [one.id for one in cloud.compute.servers()]") == []
        assert HOST not in cluster.out("ctl", f"cat {RECORD}")
    finally:
        subprocess.run(["docker", "start", name], check=True, stdout=subprocess.DEVNULL, timeout=60)
    # The host is not dead after all: its services are known again, and its containers belong to no server. Nova may remove them, too.
    wait_for_host(cluster, admin, HOST)
    listed = "lxc list --format csv --columns n"
    cluster.until(HOST, f"for name in $({listed}); do lxc delete --force $name; done; {listed} && echo none left", "none left", seconds=120)
    cluster.playbook(PLAYBOOK)
    made = ada.start("back", "a100")
    ada.remove(made["id"])
    assert made["status"] == "ACTIVE", made
