# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Neutron's ports as LXD's network devices.

LXD makes the pair of interfaces and names the host's end as Neutron's agent expects it. In a Linux bridge LXD puts it there
itself; into Open vSwitch os-vif puts it when it exists.
"""

from __future__ import annotations

from typing import Any, Mapping

from .errors import Unacceptable

PREFIX = "port-"
BRIDGE = "VIFBridge"  # os-vif's names: Neutron's linuxbridge, and Open vSwitch with a bridge in front for its firewall
OPEN_VSWITCH = "VIFOpenVSwitch"


def name_of(port: str) -> str:
    """Name LXD's device of a port, by the port's UUID."""
    return PREFIX + port


def device(vif: Any, mtu: Any, guest_name: str) -> dict[str, str]:
    """Compute LXD's device.

    :arg vif: os-vif's object.
    :arg mtu: bytes; nothing for LXD's own.
    :raises Unacceptable: the port is of a kind that a container can't have.
    """
    kind = vif.obj_name()
    nic = {"type": "nic", "name": guest_name, "hwaddr": vif.address, "host_name": vif.vif_name}
    if kind == BRIDGE:
        nic.update(nictype="bridged", parent=vif.bridge_name)
    elif kind == OPEN_VSWITCH:
        nic["nictype"] = "p2p"
    else:
        raise Unacceptable(f"The port {vif.id} is a {kind}: use one of a Linux bridge or of Open vSwitch.")
    if mtu:
        nic["mtu"] = str(mtu)
    return nic


def free_name(devices: Mapping[str, Mapping[str, str]]) -> str:
    """Choose the name of one more interface in the instance: eth0, eth1 and so on."""
    used = {entry.get("name") for entry in devices.values() if entry.get("type") == "nic"}
    return next(name for name in (f"eth{number}" for number in range(len(used) + 1)) if name not in used)
