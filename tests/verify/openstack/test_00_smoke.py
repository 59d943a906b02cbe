# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""From a deployed cloud to a user's GPU: a server has its own, and can't make the file of another one."""

from __future__ import annotations

from local import Cluster
from openstack_users import HOST, Account, files, instance

OWNS = (
    "playbooks/openstack.yml",
    "roles/nova_lxd",
    "roles/openstack_cloud",
    "roles/openstack_control_plane",
    "roles/openstack_database",
    "roles/openstack_linuxbridge",
    "roles/openstack_messaging",
    "roles/openstack_network",
    "plugins/filter/openstack.py",
    "plugins/module_utils/_openstack/cloud.py",
    "plugins/modules/openstack_offers.py",
    "plugins/plugin_utils/_openstack",
    "molecule/openstack",
    "inventories/local_openstack",
    "scripts/demo-openstack",
    "tests/verify/openstack/make_image",
)


def test_a_server_has_its_gpu_and_cant_make_the_file_of_another_one(cluster: Cluster, admin: Account, ada: Account) -> None:
    server = ada.start("train", "a100")
    try:
        assert (server["status"], server["fault"]) == ("ACTIVE", "")
        name = instance(admin, server["id"])
        (own,) = files(cluster, name)
        assert own in ("/dev/nvidia0", "/dev/nvidia1")
        for number in (0, 1):
            done = cluster.run(HOST, f"lxc exec {name} -- mknod /tmp/gpu{number} c 120 {number}")
            assert done.returncode != 0 and "Operation not permitted" in done.stderr
    finally:
        ada.remove(server["id"])
