# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Ports of Neutron, plugged by os-vif and LXD."""

from __future__ import annotations

import contextlib
from typing import Any, Iterable, Iterator

import nova.conf
import os_vif
from eventlet import timeout as eventlet_timeout
from nova import exception
from nova.network import os_vif_util
from oslo_log import log

from . import ports

CONF = nova.conf.CONF
LOG = log.getLogger(__name__)


def initialize() -> None:
    """Load os-vif's plugins."""
    os_vif.initialize()


def devices(network_info: Iterable[Any]) -> dict[str, dict[str, str]]:
    """Compute LXD's devices of a server's ports, in their order.

    :raises Unacceptable: a port is of a kind that a container can't have.
    """
    nics: dict[str, dict[str, str]] = {}
    for vif in network_info:
        nics[ports.name_of(vif["id"])] = device(vif, nics)
    return nics


def device(vif: Any, others: dict[str, dict[str, str]]) -> dict[str, str]:
    """Compute LXD's device of one port more than the other devices.

    :raises Unacceptable: the port is of a kind that a container can't have.
    """
    return ports.device(os_vif_util.nova_to_osvif_vif(vif), vif["network"].get_meta("mtu"), ports.free_name(others))


def plug_before_start(instance: Any, network_info: Iterable[Any]) -> None:
    """Make the bridges that LXD puts interfaces into."""
    _plug(instance, network_info, ports.BRIDGE)


def plug_after_start(instance: Any, network_info: Iterable[Any]) -> None:
    """Put the interfaces that LXD made into Open vSwitch."""
    _plug(instance, network_info, ports.OPEN_VSWITCH)


def _plug(instance: Any, network_info: Iterable[Any], kind: str) -> None:
    server = os_vif_util.nova_to_osvif_instance(instance)
    for vif in network_info:
        port = os_vif_util.nova_to_osvif_vif(vif)
        if port.obj_name() != kind:
            continue
        if kind == ports.OPEN_VSWITCH:
            port.port_profile.create_port = True  # QEMU's driver does it by itself, LXD does not know of it
        os_vif.plug(port, server)


def unplug(instance: Any, network_info: Iterable[Any]) -> None:
    """Take a server's ports away; what is gone already is fine."""
    server = os_vif_util.nova_to_osvif_instance(instance)
    for vif in network_info:
        os_vif.unplug(os_vif_util.nova_to_osvif_vif(vif), server)


@contextlib.contextmanager
def wired(virtapi: Any, instance: Any, network_info: Iterable[Any]) -> Iterator[None]:
    """Wait at the end until Neutron says that the ports are wired.

    :raises VirtualInterfaceCreateException: it does not in vif_plugging_timeout seconds, and nova.conf calls that fatal.
    """
    events = [("network-vif-plugged", vif["id"]) for vif in network_info if vif.get("active", True) is False]
    if not (CONF.vif_plugging_timeout and events):
        yield
        return
    try:
        with virtapi.wait_for_instance_event(instance, events, deadline=CONF.vif_plugging_timeout, error_callback=_not_wired):
            yield
    except eventlet_timeout.Timeout:
        _not_wired("network-vif-plugged", instance)


def _not_wired(event: str, instance: Any) -> None:
    LOG.warning("Neutron did not wire a port: %s", event, instance=instance)
    if CONF.vif_plugging_is_fatal:
        raise exception.VirtualInterfaceCreateException()
