# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Each of two instances has its own card, by the requests that Nova's driver makes. A test begins with what the one before left."""

from __future__ import annotations

from lxd_machine import CARDS, VM, Machine

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


def test_the_card_of_another_one_is_refused(machine: Machine) -> None:
    """Also where its device file is there: root of an instance may not make it, so the host's root does."""
    own, other = cards(machine)
    number = machine.out(VM, f"stat --format '0x%t 0x%T' /dev/dri/{other}").split()
    assert "not permitted" in inside(machine, SERVERS[0], f"/bin/busybox mknod /root/foreign c {int(number[0], 16)} {int(number[1], 16)}")
    for name, card in (("foreign", other), ("known", own)):
        machine.out(VM, f"cp --archive /dev/dri/{card} /var/lib/lxd/containers/{SERVERS[0]}/rootfs/root/{name} && chmod 0666 $_")
    assert "not permitted" in inside(machine, SERVERS[0], ": </root/foreign && echo opens")
    assert inside(machine, SERVERS[0], ": </root/known && echo opens") == "opens", "else the refusal would say nothing"


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
