# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Servers with GPUs on a compute host with LXD: each has its own, and keeps it.

The host has two simulated A100. The project physics may have both, biology one.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from local import Cluster
from openstack_users import HOST, Account, files, instance

OWNS = (
    "playbooks/nova_lxd.yml",
    "roles/nova_lxd/files",
    "roles/nova_lxd/files/nova_lxd/client.py",
    "roles/nova_lxd/files/nova_lxd/devices.py",
    "roles/nova_lxd/files/nova_lxd/errors.py",
    "roles/nova_lxd/files/nova_lxd/images.py",
    "roles/nova_lxd/files/nova_lxd/instances.py",
    "roles/nova_lxd/meta/manager.yml",
    "roles/nova_lxd/tasks/admin.yml",
    "roles/nova_lxd/tasks/gpus.yml",
    "roles/nova_lxd/tasks/hold.yml",
    "roles/nova_lxd/tasks/release.yml",
    "plugins/filter/nova_lxd.py",
    "plugins/filter/openstack_compute.py",
    "plugins/module_utils/_openstack/servers.py",
    "plugins/plugin_utils/_openstack/compute*.py",
    "plugins/plugin_utils/_openstack/devices.py",
    "tests/verify/openstack/hold.yml",
    "tests/verify/openstack_users.py",
)

CLASS = "CUSTOM_GPU_A100"


def gpus_in_placement(admin: Account) -> dict[str, dict[str, Any]]:
    """Of each GPU's provider: what is reserved, and who has it."""
    return dict(
        admin.ask(f"""
            def read(path):
                return cloud.placement.get(path, microversion="1.14").json()
            root = read("/resource_providers?name={HOST}")["resource_providers"][0]["uuid"]
            answer = dict()
            for provider in read("/resource_providers?in_tree=" + root)["resource_providers"]:
                inventory = read("/resource_providers/" + provider["uuid"] + "/inventories")["inventories"]
                if {CLASS!r} in inventory:
                    users = read("/resource_providers/" + provider["uuid"] + "/allocations")["allocations"]
                    answer[provider["name"]] = dict(reserved=inventory[{CLASS!r}]["reserved"], servers=sorted(users))
        """)
    )


@pytest.fixture(scope="module")
def servers(cluster: Cluster, admin: Account, ada: Account) -> Iterator[list[dict[str, Any]]]:
    """Two servers of ada with a GPU each, by ids; what other tests left is removed before and after."""
    cleanup = "answer = removed(*[server.id for server in cloud.compute.servers()])"
    assert ada.ask(cleanup) == []
    made = [ada.start(f"train{number}", "a100") for number in (1, 2)]
    yield made
    assert ada.ask(cleanup) == []


def test_each_server_has_a_gpu_of_its_own(cluster: Cluster, admin: Account, servers: list[dict[str, Any]]) -> None:
    assert [(server["status"], server["fault"]) for server in servers] == [("ACTIVE", ""), ("ACTIVE", "")]
    have = [files(cluster, instance(admin, server["id"])) for server in servers]
    assert sorted(map(sorted, have)) == [["/dev/nvidia0"], ["/dev/nvidia1"]]
    assert sorted(entry["servers"] for entry in gpus_in_placement(admin).values()) == sorted([server["id"]] for server in servers)


def test_the_users_of_two_servers_are_not_one_user_of_the_host(cluster: Cluster, admin: Account, servers: list[dict[str, Any]]) -> None:
    names = [instance(admin, server["id"]) for server in servers]
    first = "ps --no-headers -o uid --pid $(lxc info {0} | sed --quiet 's/^PID: //p')"
    owners = [int(cluster.out(HOST, first.format(name))) for name in names]
    assert abs(owners[0] - owners[1]) >= 65536 and min(owners) >= 65536


def test_a_server_can_not_start_processes_without_end(cluster: Cluster, admin: Account, servers: list[dict[str, Any]]) -> None:
    name = instance(admin, servers[0]["id"])
    assert cluster.out(HOST, f"lxc config get {name} limits.processes") == "8192"
    bomb = "for number in $(seq 200); do sleep 5 & done; wait"
    try:
        cluster.out(HOST, f"lxc config set {name} limits.processes 100")
        assert "can't fork: Resource temporarily unavailable" in cluster.run(HOST, f"lxc exec {name} -- sh -c '{bomb}'").stderr
    finally:
        cluster.out(HOST, f"lxc config set {name} limits.processes 8192")
    done = cluster.run(HOST, f"lxc exec {name} -- sh -c '{bomb}'")
    assert (done.returncode, done.stderr) == (0, "")


# What is put behind a good image, and what its user reads.
HOSTILE_IMAGES = {
    # LXD would unpack the file of a device as the host's root, and root of a server could open it: the other GPU, the host's disk.
    "a device file": ("add('root/gpu', tarfile.CHRTYPE, devmajor=120, devminor=1)", "has the device file root/gpu"),
    # For tar a link is at "a", for who reads on it is elsewhere.
    "a name with the character 0": (
        "add('x', tarfile.SYMTYPE, linkname='/etc/profile.d', pax_headers=dict(path='a\\0x')); add('a/followed.sh')",
        "A name has the character 0 in it",
    ),
    "2 GiB of zeros in 1 KiB": (
        "add('zeros', pax_headers={'GNU.sparse.map': '0,0', 'GNU.sparse.size': str(2 << 30)})",
        "more than 1 GiB when it is unpacked",
    ),
}


@pytest.mark.parametrize(("member", "said"), HOSTILE_IMAGES.values(), ids=HOSTILE_IMAGES)
def test_a_users_hostile_image_is_refused_and_named(cluster: Cluster, ada: Account, member: str, said: str) -> None:
    server = ada.ask(f"""
        import io, tarfile
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            def add(name, kind=tarfile.REGTYPE, **fields):
                member = tarfile.TarInfo(name)
                member.type, member.mode = kind, 0o777
                for field, value in fields.items():
                    setattr(member, field, value)
                archive.addfile(member)
            add("sbin/init")
            {member}
        image = cloud.image.create_image(name="crafted", data=buffer.getvalue(), disk_format="raw", container_format="bare")
        flavor = cloud.compute.find_flavor("small", ignore_missing=False).id
        networks = [dict(uuid=cloud.network.find_network("physics", ignore_missing=False).id)]
        server = cloud.compute.create_server(name="crafted", flavor_id=flavor, image_id=image.id, networks=networks)
        answer = shown(settled(server.id))
        removed(server.id)
        cloud.image.delete_image(image.id)
    """)
    assert server["status"] == "ERROR" and said in server["fault"], server
    assert cluster.out(HOST, "ls -d /etc/profile.d/followed.sh 2>/dev/null || true") == ""


def test_a_users_own_image_writes_nothing_on_the_host(cluster: Cluster, admin: Account, ada: Account) -> None:
    """LXD writes a server's name and its settings as the host's root, and follows what lies there."""
    server = ada.ask("""
        import io, tarfile
        whole = cloud.image.download_image(cloud.image.find_image("busybox", ignore_missing=False).id).content
        links = dict()
        links["rootfs/etc/hostname"], links["backup.yaml"] = "/root/followed", "/etc/profile.d/followed.sh"
        buffer = io.BytesIO()
        with tarfile.open(fileobj=io.BytesIO(whole)) as old, tarfile.open(fileobj=buffer, mode="w") as new:
            for member in old:
                new.addfile(member, old.extractfile(member) if member.isreg() else None)
            for name, target in links.items():
                link = tarfile.TarInfo(name)
                link.type, link.linkname = tarfile.SYMTYPE, target
                new.addfile(link)
        image = cloud.image.create_image(name="linked", data=buffer.getvalue(), disk_format="raw", container_format="bare")
        flavor = cloud.compute.find_flavor("small", ignore_missing=False).id
        networks = [dict(uuid=cloud.network.find_network("physics", ignore_missing=False).id)]
        server = cloud.compute.create_server(name="linked", flavor_id=flavor, image_id=image.id, networks=networks)
        answer = shown(settled(server.id))
    """)
    try:
        assert (server["status"], server["fault"]) == ("ACTIVE", "")
        assert cluster.out(HOST, f"lxc exec {instance(admin, server['id'])} -- cat /etc/hostname") == "linked"
        assert cluster.out(HOST, "ls -d /root/followed /etc/profile.d/followed.sh 2>/dev/null || true") == ""
    finally:
        cleanup = "answer = removed({0!r}); cloud.image.delete_image(cloud.image.find_image('linked').id)"
        assert ada.ask(cleanup.format(server["id"])) == []


def test_one_more_server_finds_no_host(eve: Account, servers: list[dict[str, Any]]) -> None:
    """Biology may have a GPU, but physics has both."""
    server = eve.start("late", "a100")
    eve.remove(server["id"])
    assert server["status"] == "ERROR" and "No valid host was found" in server["fault"]


def test_stop_start_and_reboots_keep_gpu_and_address(cluster: Cluster, admin: Account, ada: Account, servers: list[dict[str, Any]]) -> None:
    server = servers[0]["id"]
    name = instance(admin, server)
    before = files(cluster, name)
    seen = ada.ask(f"""
        answer = []
        cloud.compute.stop_server({server!r})
        time.sleep(1)
        answer.append(shown(settled({server!r}, wanted=["SHUTOFF"])))
        cloud.compute.start_server({server!r})
        time.sleep(1)
        answer.append(shown(settled({server!r}, wanted=["ACTIVE"])))
        for kind in ("SOFT", "HARD"):
            cloud.compute.reboot_server({server!r}, kind)
            time.sleep(1)
            answer.append(shown(settled({server!r}, wanted=["ACTIVE", "ERROR"])))
    """)
    assert [one["status"] for one in seen] == ["SHUTOFF", "ACTIVE", "ACTIVE", "ACTIVE"]
    assert [one["addresses"] for one in seen] == [servers[0]["addresses"]] * 4
    assert files(cluster, name) == before
    cluster.until(HOST, f"lxc exec {name} -- ip -4 -o addr show eth0", servers[0]["addresses"][0], seconds=40)


def main_process(cluster: Cluster, unit: str) -> str:
    return cluster.out(HOST, f"systemctl show --property MainPID --value {unit}")


@pytest.mark.parametrize("unit", ["nova-compute", "lxd"])
def test_a_killed_daemon_is_back_and_servers_run_on(
    cluster: Cluster, admin: Account, ada: Account, servers: list[dict[str, Any]], unit: str
) -> None:
    names = [instance(admin, server["id"]) for server in servers]
    pids = cluster.out(HOST, "pgrep --full '[l]xc monitor'")
    old = main_process(cluster, unit)
    cluster.out(HOST, f"systemctl kill --kill-who=main --signal=KILL {unit}")
    cluster.until(
        HOST,
        f"pid=$(systemctl show --property MainPID --value {unit}); [ $pid != {old} ] && [ $pid != 0 ] && systemctl is-active {unit}",
        "active",
    )
    assert cluster.out(HOST, "pgrep --full '[l]xc monitor'") == pids
    server = servers[1]["id"]
    seen = ada.ask(f"""
        def works():
            try:
                cloud.compute.reboot_server({server!r}, "HARD")
                time.sleep(1)
                return shown(settled({server!r}, wanted=["ACTIVE", "ERROR"]))
            except openstack.exceptions.ConflictException as error:
                return dict(status=str(error))
        answer = until(works, lambda seen: seen["status"] == "ACTIVE", 60)
    """)
    assert seen["status"] == "ACTIVE"
    assert [list(files(cluster, name)) for name in names] != [[], []]


def test_a_lost_gpu_is_reserved_and_its_owner_informed(
    cluster: Cluster, admin: Account, ada: Account, servers: list[dict[str, Any]]
) -> None:
    server = servers[0]["id"]
    (path,) = files(cluster, instance(admin, server))
    address = "0000:01:00.0" if path == "/dev/nvidia0" else "0000:02:00.0"
    cluster.out(HOST, f"mv {path} /dev/held-back")
    try:
        sentence = f"The GPU {address} is lost: "
        seen = ada.ask(f"answer = until(lambda: cloud.compute.get_server({server!r}).metadata, lambda seen: 'gpu_lost' in seen, 150)")
        assert seen["gpu_lost"].startswith(sentence) and path in seen["gpu_lost"]
        placed = gpus_in_placement(admin)
        assert placed[f"{HOST}_gpu_{address}"] == {"reserved": 1, "servers": [server]}
        assert sorted(entry["reserved"] for entry in placed.values()) == [0, 1]
        # A server is not stopped if it could not start again.
        refused = ada.ask(f"""
            cloud.compute.reboot_server({server!r}, "HARD")
            time.sleep(2)
            answer = shown(settled({server!r}))
        """)
        assert files(cluster, instance(admin, server)), refused
        # By the host's look, once a minute; Nova may have seen it before.
        cluster.until(HOST, "cat /etc/nova/gpus.json", '"noticed": true', seconds=150)
        entry = next(one for one in json.loads(cluster.out(HOST, "cat /etc/nova/gpus.json"))["devices"] if one["id"] == address)
        assert entry["noticed"] is True
    finally:
        cluster.out(HOST, f"mv /dev/held-back {path}")
    seen = ada.ask(f"answer = until(lambda: cloud.compute.get_server({server!r}).metadata, lambda seen: 'gpu_lost' not in seen, 200)")
    assert "gpu_lost" not in seen
    ada.ask(f"""
        cloud.compute.reboot_server({server!r}, "HARD")
        time.sleep(1)
        answer = shown(settled({server!r}, wanted=["ACTIVE"]))
    """)
    assert sorted(entry["reserved"] for entry in gpus_in_placement(admin).values()) == [0, 0]


def test_the_hosts_restart_keeps_gpus_and_addresses(cluster: Cluster, admin: Account, ada: Account, servers: list[dict[str, Any]]) -> None:
    names = [instance(admin, server["id"]) for server in servers]
    before = [files(cluster, name) for name in names]
    subprocess.run(["docker", "restart", "--time", "5", f"{cluster.label}-{HOST}"], check=True, stdout=subprocess.DEVNULL, timeout=120)
    deadline = time.monotonic() + 60
    while cluster.run(HOST, "true").returncode != 0:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    for name, server, its in zip(names, servers, before):
        cluster.until(HOST, f"lxc list {name} --format csv --columns s", "RUNNING", seconds=120)
        assert files(cluster, name) == its
        cluster.until(HOST, f"lxc exec {name} -- ip -4 -o addr show eth0", server["addresses"][0], seconds=60)
        assert ada.show(server["id"])["status"] == "ACTIVE"


def test_a_deleted_server_frees_its_gpu(
    cluster: Cluster, admin: Account, ada: Account, eve: Account, servers: list[dict[str, Any]]
) -> None:
    ada.remove(servers.pop()["id"])
    server = eve.start("later", "a100")
    have = files(cluster, instance(admin, server["id"])) if server["status"] == "ACTIVE" else {}
    eve.remove(server["id"])
    assert (server["status"], server["fault"], len(have)) == ("ACTIVE", "", 1)


def test_a_hold_disables_the_service_names_owners_and_ends_nothing(
    cluster: Cluster, admin: Account, ada: Account, servers: list[dict[str, Any]]
) -> None:
    ada.remove(*[server["id"] for server in servers[1:]])
    del servers[1:]
    hold = {"reason": "gpu_hold: test", "wait": 0.05, "seconds": 3, "reboot": True}
    variables = {f"gpu_hold_{key}": value for key, value in hold.items()}
    play = "tests/verify/openstack/hold.yml"
    output = cluster.playbook(play, variables={**variables, "entry": "hold"}, succeeds=False)
    assert re.search(rf"server {servers[0]['id']} \(train1\) of ada in the project\s+physics with the GPU 0000:0[12]:00\.0", output)
    service = "answer = [(one.status, one.disabled_reason) for one in cloud.compute.services(binary='nova-compute')]"
    assert admin.ask(service) == [["disabled", "gpu_hold: test"]]
    assert ada.show(servers[0]["id"])["status"] == "ACTIVE"
    cluster.playbook(play, variables={**variables, "entry": "release"})
    assert admin.ask(service) == [["enabled", None]]
    ada.remove(servers.pop()["id"])
    assert "nova_lxd_hold: held" in cluster.playbook(play, variables={**variables, "entry": "hold"})
    cluster.playbook(play, variables={**variables, "entry": "release"})
