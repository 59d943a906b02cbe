# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The text of nova.conf on a compute host: pure functions.

The module also has the text of the configuration of Neutron's agent for Linux bridges.

Sources: nova/conf of OpenStack Nova 26, oslo.config's parser, oslo.messaging's driver of RabbitMQ, neutron/conf/plugins/ml2.
"""

from __future__ import annotations

from typing import Any, Mapping

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import ini

# What Debian's package ca-certificates keeps.
SYSTEM_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
DRIVER = "nova_lxd.driver.LXDDriver"

Sections = dict[str, dict[str, Any]]


def nova_conf(settings: Mapping[str, Any], address: str, ca_file: str = "") -> str:
    """The text of nova.conf, which has secrets.

    :arg settings: the variables of the role nova_lxd without their prefix.
    :arg address: the host's address, where none is set.
    :arg ca_file: the file of the authority; the system's without one.
    """
    authorities = ca_file or SYSTEM_AUTHORITIES
    account = {
        "auth_type": "password",
        "auth_url": literal(settings["auth_url"]),
        "username": literal(settings["user"]),
        "password": literal(settings["password"]),
        "project_name": literal(settings["project"]),
        "user_domain_name": literal(settings["domain"]),
        "project_domain_name": literal(settings["domain"]),
        "cafile": authorities,
    }
    regional = {**account, "region_name": literal(settings["region"])}
    sections: Sections = {
        "DEFAULT": {
            "transport_url": literal(settings["transport_url"]),
            "my_ip": settings.get("address") or address,
            "compute_driver": DRIVER,
            "state_path": "/var/lib/nova",
            "resume_guests_state_on_host_boot": True,
            # The driver resizes a server where it is; the API's hosts need the same.
            "allow_resize_to_same_host": True,
            "force_config_drive": bool(settings["config_drive"]),
            "reserved_host_memory_mb": settings["reserved_memory_mib"],
            "cpu_allocation_ratio": settings["cpu_ratio"],
            "ram_allocation_ratio": 1.0,
            "disk_allocation_ratio": 1.0,
        },
        "lxd": {
            "socket": "/var/lib/lxd/unix.socket",
            "pool": settings["pool"],
            "gpus": "/etc/nova/gpus.json",
            "timeout": 30,
            "patience": 600,
            "start_patience": 60,
        },
        # Servers are containers and have no screen.
        "vnc": {"enabled": False},
        "spice": {"enabled": False},
        "oslo_concurrency": {"lock_path": "/var/lib/nova/tmp"},
        "oslo_messaging_rabbit": rabbit(authorities),
        "placement": regional,
        "neutron": regional,
        # The user's own token goes to Glance, with the account's beside it.
        "glance": {"region_name": literal(settings["region"]), "cafile": authorities},
        "cinder": {"os_region_name": literal(settings["region"]), "cafile": authorities},
        "service_user": {"send_service_user_token": True, **account},
    }
    return ini.text(ini.merged(sections, settings.get("settings") or {}))


def agent_conf(settings: Mapping[str, Any], address: str, ca_file: str = "") -> str:
    """The text of linuxbridge_agent.ini, which has a secret.

    The agent reads it after neutron.conf, which stays as the package or the server's role made it.

    :arg settings: the variables of the role openstack_linuxbridge without their prefix.
    """
    networks = settings.get("physical_networks") or {}
    sections: Sections = {
        "DEFAULT": {"transport_url": literal(settings["transport_url"])},
        # Neutron 21 starts the agent only with this.
        "experimental": {"linuxbridge": True},
        "oslo_messaging_rabbit": rabbit(ca_file or SYSTEM_AUTHORITIES),
        "linux_bridge": {"physical_interface_mappings": ",".join(f"{name}:{networks[name]}" for name in sorted(networks))},
        "vxlan": {"enable_vxlan": True, "local_ip": settings.get("tunnel_address") or address, "l2_population": True},
        "securitygroup": {"enable_security_group": True, "firewall_driver": "iptables", "enable_ipset": True},
    }
    return ini.text(sections)


def rabbit(authorities: str) -> dict[str, Any]:
    """TLS to RabbitMQ, whose certificate and name are verified."""
    return {"ssl": True, "ssl_ca_file": authorities, "ssl_enforce_hostname_verification": True}


def literal(value: Any) -> str:
    """Return a text that oslo.config takes as it is.

    oslo.config replaces $names, and takes quotes at both ends away.
    """
    escaped = str(value).replace("$", "$$")
    return f'"{escaped}"' if len(escaped) > 1 and escaped[0] == escaped[-1] and escaped[0] in "\"'" else escaped
