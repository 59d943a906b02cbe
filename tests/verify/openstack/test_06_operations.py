# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Compute hosts that operators take from the cloud, and give back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from local import Cluster, changed
from openstack_hosts_site import DRAIN, HOST, REMOVE, RESUME, server, service, words
from openstack_users import Account

OWNS = (
    "playbooks/openstack_drain.yml",
    "playbooks/openstack_resume.yml",
    "roles/openstack_operations",
    "plugins/filter/openstack_operations.py",
    "plugins/module_utils/_model/marks.py",
    "plugins/module_utils/_openstack/compute_hold.py",
    "plugins/modules/openstack_compute_hold.py",
    "plugins/plugin_utils/_openstack/operations.py",
    "tests/verify/openstack_hosts_site.py",
)
__all__ = ["server"]

ADDRESS = "0000:02:00.0"
DEVICE = f"/var/lib/gpu_simulator/sys/bus/pci/devices/{ADDRESS}"
STATE = "openstack --os-cloud deephdc-admin compute service list --service nova-compute -f value -c State"


def disable(admin: Account, reason: str) -> None:
    """As an administrator, or another role, does; an empty reason enables."""
    body = {"status": "disabled", "disabled_reason": reason} if reason else {"status": "enabled"}
    admin.ask(f"""
        one = cloud.compute.get("/os-services?binary=nova-compute", microversion="2.61").json()["services"][0]
        answer = cloud.compute.put("/os-services/" + one["id"], json={body!r}, microversion="2.61").status_code
    """)


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
