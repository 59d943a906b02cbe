# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Each of two instances has its own card, by the requests that Nova's driver makes. A test begins with what the one before left."""

from __future__ import annotations

from lxd_machine import CARDS, VM, Machine

OWNS = (
    "roles/nova_lxd/files/nova_lxd/client.py",
    "roles/nova_lxd/files/nova_lxd/devices.py",
    "roles/nova_lxd/files/nova_lxd/errors.py",
    "roles/nova_lxd/files/nova_lxd/images.py",
    "roles/nova_lxd/files/nova_lxd/instances.py",
    "roles/nova_lxd/files/nova_lxd/rootfs.py",
    "molecule/nova_lxd_gpus",
    "scripts/virtual-*",
    "tests/nova_lxd",
    "tests/verify/lxd_machine.py",
    "tests/verify/nova_lxd_gpus/conftest.py",
)
LEAVES = "a virtual machine, which has no fingerprint"

SERVERS = ("server-0", "server-1")
START = """
for number, gpu in enumerate(gpus.values()):
    name = f"server-{number}"
    config = {instances.UUID: name, instances.GPUS: gpu.id, **devices.instance_configuration([gpu])}
    servers.create(name, "busybox", config, {"root": {"type": "disk", "path": "/", "pool": "default"}, **devices.instance_devices([gpu])})
    servers.start(name)
print([(record["name"], record["devices"]["gpu0"]["type"], record["devices"]["gpu0"]["pci"]) for record in servers.all()])
"""
START_WITHOUT = """
print(devices.why_lost(gpus, gpus))
try:
    servers.start("server-1")
except Exception as error:
    print(type(error).__name__)
print(servers.status("server-1"))
"""
# An image is named by what is in it, and what is wrong with it.
MAKE_IMAGES = """
set -e
mkdir /root/images; cd /root/images
cp --archive /root/image good; cp --archive good bad; cp --archive good dev
cp --archive {card} bad/rootfs/root/foreign
tar --create --gzip --file unified.tar.gz --directory bad metadata.yaml rootfs
tar --create --xz --file root.tar.xz --directory bad/rootfs .
rm bad/rootfs/root/foreign
cp --archive /dev/vda bad/rootfs/root/disk
mksquashfs bad/rootfs root.squashfs -quiet -no-progress
cp --archive {card} dev/rootfs/dev/foreign
mksquashfs dev/rootfs dev.squashfs -quiet -no-progress
tar --create --gzip --file dev.tar.gz --directory dev metadata.yaml rootfs
# As most images have them.
cp --archive /dev/null /dev/zero /dev/tty good/rootfs/dev/
tar --create --gzip --file good.tar.gz --directory good metadata.yaml rootfs
mksquashfs good/rootfs good.squashfs -quiet -no-progress
"""
TAKE_IMAGES = """
import shutil, tempfile
from nova_lxd.images import Images
store = Images(servers.client, "x86_64")
# As an earlier driver did: the image as its user made it.
content = open("/root/images/unified.tar.gz", "rb").read()
headers = {"X-LXD-properties": "nova.image=good.tar.gz", "Content-Type": "application/octet-stream", "Content-Length": str(len(content))}
former = servers.client.upload(("images",), iter([content]), headers).metadata["fingerprint"]
servers.client.request("POST", ("images", "aliases"), {"name": "good.tar.gz", "target": former})
for name in ("unified.tar.gz", "root.tar.xz", "root.squashfs", "dev.squashfs", "dev.tar.gz", "good.tar.gz", "good.squashfs"):
    with tempfile.TemporaryDirectory() as folder:
        try:
            print(f"{name}: {store.ensure(name, lambda path: shutil.copy('/root/images/' + name, path), folder, 1 << 30)}")
        except Exception as error:
            print(f"{name}: {error}")
known = [alias["name"] for image in servers.client.get("images", query="recursion=1") for alias in image["aliases"]]
print(sorted(name for name in known if "." in name))
print(servers.client.get("images", "aliases", "good.tar.gz")["target"] != former, "good.tar.gz" in store.prune([], -1))
"""


def card(machine: Machine, address: str) -> str:
    """The kernel's name of a card, such as card0."""
    return machine.out(VM, f"basename /sys/bus/pci/devices/{address}/drm/card*")


def cards(machine: Machine) -> list[str]:
    return [card(machine, address) for address in CARDS]


def inside(machine: Machine, server: str, command: str) -> str:
    """What an instance says."""
    done = machine.run(VM, f"lxc exec {server} -- /bin/busybox sh -c '{command}' </dev/null")
    return (done.stdout + done.stderr).strip()


def has_its_own_alone(machine: Machine) -> None:
    names = cards(machine)
    assert len(set(names)) == 2
    for server, own in zip(SERVERS, names, strict=True):
        assert inside(machine, server, "/bin/busybox ls /dev/dri") == own
        assert inside(machine, server, f": </dev/dri/{own} && echo opens") == "opens"


def test_each_instance_has_one_card(machine: Machine) -> None:
    """The device is LXD's own of the type gpu, by the address that the file of GPUs has."""
    assert machine.driver(START) == str([(server, "gpu", address) for server, address in zip(SERVERS, CARDS, strict=True)])
    has_its_own_alone(machine)


def test_root_of_an_instance_cant_make_the_device_file_of_another_card(machine: Machine) -> None:
    number = machine.out(VM, f"stat --format '0x%t 0x%T' /dev/dri/{card(machine, CARDS[1])}").split()
    make = f"/bin/busybox mknod /root/made c {int(number[0], 16)} {int(number[1], 16)}"
    assert "not permitted" in inside(machine, SERVERS[0], make)


def test_an_image_does_not_bring_device_files_along(machine: Machine) -> None:
    """LXD would unpack them as the host's root, and root of an instance could open them: the card, and the host's disk.

    Each kind of image is refused with the device's name, and the same image without it is taken.
    """
    machine.out(VM, MAKE_IMAGES.format(card=f"/dev/dri/{card(machine, CARDS[1])}"))
    said = machine.driver(TAKE_IMAGES).splitlines()
    refused = "It has the device file {}. Build it without: servers have devices by their flavor alone."
    assert said == [
        "unified.tar.gz: " + refused.format("root/foreign"),
        "root.tar.xz: " + refused.format("root/foreign"),
        "root.squashfs: " + refused.format("root/disk"),
        "dev.squashfs: " + refused.format("dev/foreign"),
        "dev.tar.gz: " + refused.format("dev/foreign"),
        "good.tar.gz: True",
        "good.squashfs: True",
        "['good.squashfs', 'good.tar.gz']",
        "True True",
    ]


def test_each_has_its_card_after_a_restart(machine: Machine) -> None:
    machine.driver("for record in servers.all():\n    servers.stop(record['name'])\n    servers.start(record['name'])")
    has_its_own_alone(machine)


def test_a_card_that_is_gone_is_said_and_its_instance_does_not_start_without_it(machine: Machine) -> None:
    machine.driver("servers.stop('server-1')")
    machine.out(VM, f"echo 1 >/sys/bus/pci/devices/{CARDS[1]}/remove")
    said = machine.driver(START_WITHOUT).splitlines()
    assert f"The GPU {CARDS[1]} is lost: /dev/dri/" in said[0] and CARDS[0] not in said[0]
    assert said[1:] == ["LXDError", "Stopped"]
    assert inside(machine, SERVERS[0], "/bin/busybox ls /dev/dri") == card(machine, CARDS[0]), "the other one goes on"
    machine.out(VM, "echo 1 >/sys/bus/pci/rescan")
    assert machine.driver(
        "print(devices.why_lost(gpus, gpus))\nservers.start('server-1')\nprint(servers.status('server-1'))"
    ).splitlines() == [
        "[]",
        "Running",
    ]
    has_its_own_alone(machine)
