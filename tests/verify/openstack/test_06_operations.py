# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What operators do with compute hosts."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from local import Cluster, changed
from openstack_users import Account, wait_for_host

OWNS = (
    "playbooks/openstack_drain.yml",
    "playbooks/openstack_remove_compute.yml",
    "playbooks/openstack_resume.yml",
    "roles/openstack_operations",
    "plugins/filter/openstack_operations.py",
    "plugins/module_utils/_model/marks.py",
    "plugins/module_utils/_openstack/compute_*.py",
    "plugins/modules/openstack_compute_*.py",
    "plugins/plugin_utils/_openstack/operations.py",
    "plugins/plugin_utils/_openstack/references.py",
)

DRAIN, RESUME, REMOVE = "playbooks/openstack_drain.yml", "playbooks/openstack_resume.yml", "playbooks/openstack_remove_compute.yml"
PLAYBOOK = "playbooks/openstack.yml"
HOST = "lxd1"
ADDRESS = "0000:02:00.0"
DEVICE = f"/var/lib/gpu_simulator/sys/bus/pci/devices/{ADDRESS}"
STATE = "openstack --os-cloud deephdc-admin compute service list --service nova-compute -f value -c State"
RECORD = "/var/lib/deephdc/openstack_accelerators"


def words(output: str) -> str:
    return " ".join(output.split())


def service(admin: Account) -> list[list[Any]]:
    return list(admin.ask("answer = [(one.status, one.disabled_reason) for one in cloud.compute.services(binary='nova-compute')]"))


def disable(admin: Account, reason: str) -> None:
    """As an administrator, or another role, does; an empty reason enables."""
    body = {"status": "disabled", "disabled_reason": reason} if reason else {"status": "enabled"}
    admin.ask(f"""
        one = cloud.compute.get("/os-services?binary=nova-compute", microversion="2.61").json()["services"][0]
        answer = cloud.compute.put("/os-services/" + one["id"], json={body!r}, microversion="2.61").status_code
    """)


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


REMOVED = "answer = removed(*[server.id for server in cloud.compute.servers()])"
NOTHING: dict[str, list[str]] = {"services": [], "providers": [], "agents": []}


@pytest.fixture(scope="module")
def server(ada: Account) -> Iterator[str]:
    """A server of ada with a GPU, and no other."""
    assert ada.ask(REMOVED) == []
    made = ada.start("train", "a100")
    assert made["status"] == "ACTIVE", made
    yield str(made["id"])
    assert ada.ask(REMOVED) == []


@pytest.fixture(scope="module")
def drained(cluster: Cluster, admin: Account, server: str) -> Iterator[str]:
    """What a drain says that waits for the server in vain; the host is given back by the last test, or at the end."""
    wanted = {"openstack_drain_hosts": HOST, "openstack_drain_reason": "new fan", "openstack_drain_wait": 3}
    said = words(cluster.playbook(DRAIN, "--check", variables=wanted))
    assert f"server {server} (train) of ada in the project physics with the GPU 0000:0" in said
    assert service(admin) == [["enabled", None]], "only a prediction"
    yield words(cluster.playbook(DRAIN, variables=wanted, succeeds=False))
    if service(admin) != [["enabled", None]]:
        cluster.playbook(RESUME, "--limit", HOST)


def test_a_request_that_is_not_clear_is_refused(cluster: Cluster) -> None:
    said = words(cluster.playbook(DRAIN, variables={"openstack_drain_hosts": "ctl"}, succeeds=False))
    assert "openstack_drain_hosts names ctl, which is not in openstack_lxd_hosts" in said
    assert "openstack_drain_reason is not set" in said
    said = words(cluster.playbook(REMOVE, "--limit", HOST, variables={"openstack_remove_hosts": HOST}, succeeds=False))
    assert "Run openstack_remove_compute without --limit" in said


def test_a_drain_waits_for_a_server_and_ends_none(
    cluster: Cluster, admin: Account, ada: Account, eve: Account, server: str, drained: str
) -> None:
    assert f"After 3 s there is still server {server} (train) of ada in the project physics" in drained.replace("3.0 s", "3 s")
    assert "Nothing was ended" in drained
    assert service(admin) == [["disabled", "drained: new fan"]]
    assert ada.show(server)["status"] == "ACTIVE"
    late = eve.start("late", "a100")
    eve.remove(late["id"])
    assert late["status"] == "ERROR" and "No valid host was found" in late["fault"]
    said = words(cluster.playbook(DRAIN, "--limit", HOST, variables={"openstack_drain_reason": "other"}))
    assert f"{HOST} was drained before: new fan" in said and service(admin) == [["disabled", "drained: new fan"]]


@pytest.mark.usefixtures("drained")
def test_a_host_is_given_back_with_all_its_gpus_only(cluster: Cluster, admin: Account, eve: Account) -> None:
    cluster.out(HOST, f"mv {DEVICE} /root/lost-device")
    try:
        said = words(cluster.playbook(RESUME, "--limit", HOST, succeeds=False))
        assert f"{HOST} stays as it is, because" in said and ADDRESS in said and "is missing" in said
        assert service(admin) == [["disabled", "drained: new fan"]]
    finally:
        cluster.out(HOST, f"mv /root/lost-device {DEVICE}")
    cluster.out(HOST, "systemctl stop nova-compute")
    try:
        cluster.until("ctl", STATE, "down", 240)
        said = words(cluster.playbook(RESUME, "--limit", HOST, succeeds=False))
        assert "its compute service is down: start nova-compute there" in said
    finally:
        cluster.out(HOST, "systemctl start nova-compute")
    cluster.until("ctl", STATE, "up", 240)
    cluster.playbook(RESUME, variables={"openstack_resume_hosts": HOST})
    assert service(admin) == [["enabled", None]]
    assert changed(cluster.playbook(RESUME, "--limit", HOST)) == []
    other = eve.start("other", "a100")
    eve.remove(other["id"])
    assert other["status"] == "ACTIVE", other


def test_what_another_one_disabled_is_left(cluster: Cluster, admin: Account) -> None:
    disable(admin, "memory is replaced")
    try:
        said = words(cluster.playbook(DRAIN, "--limit", HOST, variables={"openstack_drain_reason": "x"}))
        assert "was disabled by an administrator (memory is replaced)" in said
        said = words(cluster.playbook(RESUME, "--limit", HOST, succeeds=False))
        assert "no run of openstack_drain did that" in said
        assert service(admin) == [["disabled", "memory is replaced"]]
    finally:
        disable(admin, "")


def test_a_drain_and_a_hold_are_kept_beside_each_other(cluster: Cluster, admin: Account, tmp_path: Path) -> None:
    """Whoever came first, and whoever gives the host back first. The hold is the module's alone: the role would wait for the server."""
    for state in ("held", "released"):
        module = {"cloud": "deephdc-admin", "name": HOST, "state": state, "reason": "gpu_hold: test", "servers": "none"}
        task = {"deephdc.accelerators.openstack_compute_hold": module}
        (tmp_path / f"{state}.json").write_text(json.dumps([{"hosts": "ctl", "gather_facts": False, "tasks": [task]}]))
    drain = {"openstack_drain_reason": "x"}
    try:
        cluster.playbook(str(tmp_path / "held.json"))
        cluster.playbook(DRAIN, "--limit", HOST, variables=drain)
        assert service(admin) == [["disabled", "gpu_hold: test + drained: x"]]
        cluster.playbook(str(tmp_path / "released.json"))
        assert service(admin) == [["disabled", "drained: x"]]
        cluster.playbook(str(tmp_path / "held.json"))
        assert service(admin) == [["disabled", "drained: x + gpu_hold: test"]]
        said = words(cluster.playbook(RESUME, "--limit", HOST, succeeds=False))
        assert "the role gpu_hold holds it (gpu_hold: test)" in said and service(admin) == [["disabled", "gpu_hold: test"]]
        cluster.playbook(str(tmp_path / "released.json"))
        assert service(admin) == [["enabled", None]]
    finally:
        if service(admin) != [["enabled", None]]:
            disable(admin, "")


@pytest.mark.parametrize("call", ["rescue", "suspend", "trigger_crash_dump"])
def test_what_the_driver_can_not_do_is_refused_and_leaves_the_server(ada: Account, server: str, call: str) -> None:
    action = f"cloud.compute.post('/servers/' + {server!r} + '/action', json={{{call!r}: None}}, microversion='2.17')"
    assert ada.ask(f"answer = {action}.status_code") == 403 and ada.show(server)["status"] == "ACTIVE"


def test_the_way_out_of_a_rescue_is_open(ada: Account, server: str) -> None:
    """Nova looks at the policy first: 409 is for a server that is not in a rescue."""
    action = f"cloud.compute.post('/servers/' + {server!r} + '/action', json=dict(unrescue=None))"
    assert ada.ask(f"answer = {action}.status_code") == 409


def test_a_project_fills_neither_the_disk_nor_the_pool_of_addresses(ada: Account, admin: Account) -> None:
    """Glance refuses more than 200 GB before it reads them. It is asked without Apache, which would wait for the bytes."""
    answer = ada.ask("""
        import http.client
        new = dict(name="large", disk_format="raw", container_format="bare")
        image = cloud.image.post("/images", json=new).json()["id"]
        def status(size):
            connection = http.client.HTTPConnection("127.0.0.1", 19292, timeout=60)
            headers = {"X-Auth-Token": cloud.session.get_token(), "Content-Type": "application/octet-stream", "Content-Length": str(size)}
            connection.request("PUT", f"/v2/images/{image}/file", headers=headers, body=iter([b"x" * min(size, 1024)]))
            return connection.getresponse().status
        answer = [status(210 << 30), status(1024)]
        cloud.image.delete_image(image)
    """)
    assert answer == [413, 204]
    quota = "answer = cloud.network.get_quota(cloud.identity.find_project('physics').id).floating_ips"
    assert admin.ask(quota) == 40


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
