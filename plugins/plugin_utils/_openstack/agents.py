# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The configuration of Neutron's agents on the network host: pure functions.

Each agent reads its own file after neutron.conf, which stays as the package or the server's role made it.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import ini

FOLDER = "/etc/neutron"
# Agent to its packages' unit.
AGENTS = ("dhcp", "l3")


def sections(agent: str, transport_url: str, ca_file: str) -> dict[str, dict[str, t.Any]]:
    """The settings of an agent."""
    own: dict[str, t.Any] = {
        # Names and addresses by dnsmasq. Servers have their metadata on a config drive.
        "dhcp": {"dhcp_driver": "neutron.agent.linux.dhcp.Dnsmasq", "enable_isolated_metadata": False},
        "l3": {"agent_mode": "legacy", "enable_metadata_proxy": False},
    }[agent]
    return {
        "DEFAULT": {"transport_url": transport_url, "interface_driver": "linuxbridge", **own},
        "experimental": {"linuxbridge": True},
        "agent": {"root_helper": "sudo /usr/bin/neutron-rootwrap /etc/neutron/rootwrap.conf"},
        "oslo_concurrency": {"lock_path": "/var/lib/neutron/tmp"},
        "oslo_messaging_rabbit": {"ssl": True, "ssl_ca_file": ca_file, "ssl_enforce_hostname_verification": True},
    }


def path(agent: str) -> str:
    return f"{FOLDER}/{agent}_agent.ini"


def text(agent: str, transport_url: str, ca_file: str) -> str:
    """The file of an agent, which has a secret.

    :raises ValueError: no agent is called so.
    """
    if agent not in AGENTS:
        raise ValueError(f"Neutron has no agent {agent} here: there are {' and '.join(AGENTS)}.")
    return ini.text(sections(agent, transport_url, ca_file))
