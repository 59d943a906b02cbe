# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What is wrong with the variables of a compute host and of Neutron's agent.

These mistakes do not depend on what the hosts have. A sentence never has a password or a part of a transport URL. Pure
functions.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Mapping
from urllib.parse import parse_qs, urlsplit

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown

NETWORKS = ("linuxbridge", "none")
POOL_DRIVERS = ("dir", "btrfs", "zfs", "lvm")
# What oslo.messaging takes for true.
_TRUE = ("1", "true", "yes", "on")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}\Z")
_INTERFACE = re.compile(r"[^\s/:,]{1,15}\Z")
_SECTION = re.compile(r"[A-Za-z0-9_.:-]+\Z")
_KEY = re.compile(r"[A-Za-z0-9_.-]+\Z")
_PEM = "-----BEGIN CERTIFICATE-----"


def host_errors(settings: Mapping[str, Any], host: str) -> list[str]:
    """Check the variables of the role nova_lxd for one host.

    Return one sentence for each mistake.

    :arg settings: the variables without their prefix.
    """
    errors = [
        *_url_errors(settings.get("auth_url"), host),
        *transport_errors(settings.get("transport_url"), "nova_lxd_transport_url", host),
        *_password_errors(settings.get("password"), host),
        *ca_errors(settings.get("ca"), "nova_lxd_ca", host),
        *_network_errors(settings.get("network"), host),
        *_choice_errors(settings.get("pool_driver"), POOL_DRIVERS, "nova_lxd_pool_driver", host),
        *networks_errors(settings.get("physical_networks"), "nova_lxd_physical_networks", host),
    ]
    for key in ("user", "project", "domain", "region"):
        if not isinstance(settings.get(key), str) or not settings[key].strip():
            errors.append(f"nova_lxd_{key} of {host} is empty: give the name that the cloud has for it.")
    if not isinstance(settings.get("pool"), str) or not _NAME.match(settings["pool"]):
        errors.append(f"nova_lxd_pool of {host} is {shown(settings.get('pool'))}: give a name of letters, digits, '_', '.' and '-'.")
    for key in ("address", "tunnel_address"):
        errors += address_errors(settings.get(key), f"nova_lxd_{key}", host)
    if settings.get("network_transport_url"):
        errors += transport_errors(settings["network_transport_url"], "nova_lxd_network_transport_url", host)
    errors += _number_errors(settings, host)
    return errors + _settings_errors(settings.get("settings"), host)


def agent_errors(settings: Mapping[str, Any], host: str) -> list[str]:
    """Check the variables of the role openstack_linuxbridge for one host.

    Return one sentence for each mistake.
    """
    return [
        *transport_errors(settings.get("transport_url"), "openstack_linuxbridge_transport_url", host),
        *ca_errors(settings.get("ca"), "openstack_linuxbridge_ca", host),
        *address_errors(settings.get("tunnel_address"), "openstack_linuxbridge_tunnel_address", host),
        *networks_errors(settings.get("physical_networks"), "openstack_linuxbridge_physical_networks", host),
    ]


def _url_errors(url: Any, host: str) -> list[str]:
    if not url:
        return [f"nova_lxd_auth_url is not set for {host}: give Keystone's address, such as https://keystone.site.org:5000/v3."]
    try:
        parts = urlsplit(str(url))
        if parts.scheme == "http":
            return [
                f"nova_lxd_auth_url of {host} begins with http://, and the password would go over the network as it is: "
                "give the https:// address."
            ]
        if (
            parts.scheme == "https"
            and parts.hostname
            and not (parts.username or parts.query or parts.fragment or re.search(r"\s", str(url)))
        ):
            return []
    except ValueError:
        pass
    return [
        f"nova_lxd_auth_url of {host} is no address of Keystone: give one such as https://keystone.site.org:5000/v3, "
        "without user and query."
    ]


def transport_errors(url: Any, name: str, host: str) -> list[str]:
    """Check an address of RabbitMQ, which has a password."""
    example = "rabbit://nova:PASSWORD@rabbit.site.org:5671/?ssl=1"
    if not url:
        return [f"{name} is not set for {host}: give RabbitMQ's address from ansible-vault, such as {example}."]
    try:
        parts = urlsplit(str(url))
        members = [urlsplit(f"//{member}") for member in parts.netloc.split(",")]
        usable = parts.scheme == "rabbit" and all(member.hostname and member.username and member.password for member in members)
        [member.port for member in members]  # a port that is no number is a ValueError
    except ValueError:
        usable = False
    if not usable or re.search(r"\s", str(url)):
        return [
            f"{name} of {host} is no address of RabbitMQ with user and password: give one such as {example}, reserved characters as %XX."
        ]
    if parse_qs(parts.query).get("ssl", [""])[0].lower() not in _TRUE:
        wrong = "is without TLS, and the password would go over the network as it is"
        return [f"{name} of {host} {wrong}: use RabbitMQ's TLS port and end with ?ssl=1."]
    return []


def _password_errors(password: Any, host: str) -> list[str]:
    if not isinstance(password, str) or not password:
        return [f"nova_lxd_password is not set for {host}: give the password of nova_lxd_user in Keystone, from ansible-vault."]
    if password != password.strip() or re.search(r"[\r\n\0]", password):
        return [f"nova_lxd_password of {host} has a line break, or a blank at an end, which nova.conf can't have: give another password."]
    return []


def ca_errors(ca: Any, name: str, host: str) -> list[str]:
    """Check the text of an authority; without one the system's count."""
    if ca in (None, "") or (isinstance(ca, str) and _PEM in ca and "PRIVATE KEY" not in ca):
        return []
    return [
        f"{name} of {host} is no certificate: give the authority's PEM text, which has {_PEM}, "
        "or leave it empty for the system's authorities."
    ]


def _network_errors(network: Any, host: str) -> list[str]:
    if network == "openvswitch":
        return [
            f"nova_lxd_network of {host} is openvswitch, which no test has run with yet: "
            "write linuxbridge, or none and run Neutron's agent yourself."
        ]
    return _choice_errors(network, NETWORKS, "nova_lxd_network", host)


def _choice_errors(value: Any, choices: tuple[str, ...], name: str, host: str) -> list[str]:
    return [] if value in choices else [f"{name} of {host} is {shown(value)}: write {' or '.join(choices)}."]


def address_errors(value: Any, name: str, host: str) -> list[str]:
    """Check an address; without one the host's default counts."""
    try:
        if value not in (None, ""):
            ipaddress.ip_address(str(value))
    except ValueError:
        return [f"{name} of {host} is {shown(value)}: give an IP address of the host, or leave it empty for its default one."]
    return []


def networks_errors(networks: Any, name: str, host: str) -> list[str]:
    """Check which interface is in which physical network."""
    if networks in (None, {}):
        return []
    if not isinstance(networks, Mapping):
        return [f"{name} of {host} is {shown(networks)}: give a dictionary of networks and interfaces, such as {{provider: eth1}}."]
    return [
        f"{name} of {host} has {shown(network)} on {shown(interface)}: give a network's name and an interface, such as {{provider: eth1}}."
        for network, interface in networks.items()
        if not (isinstance(network, str) and _NAME.match(network) and isinstance(interface, str) and _INTERFACE.match(interface))
    ]


def _number_errors(settings: Mapping[str, Any], host: str) -> list[str]:
    errors = []
    memory, ratio = settings.get("reserved_memory_mib"), settings.get("cpu_ratio")
    if isinstance(memory, bool) or not isinstance(memory, int) or memory < 0:
        errors.append(f"nova_lxd_reserved_memory_mib of {host} is {shown(memory)}: give 0 or more MiB.")
    if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or ratio <= 0:
        errors.append(f"nova_lxd_cpu_ratio of {host} is {shown(ratio)}: give a number above 0, such as 4.0.")
    return errors


def _settings_errors(sections: Any, host: str) -> list[str]:
    if sections in (None, {}):
        return []
    example = "such as {DEFAULT: {debug: true}}"
    if not isinstance(sections, Mapping) or not all(isinstance(options, Mapping) for options in sections.values()):
        return [f"nova_lxd_settings of {host} must be a dictionary of sections, each a dictionary of options, {example}."]
    errors = []
    for section, options in sections.items():
        if not _SECTION.match(str(section)):
            errors.append(f"nova_lxd_settings of {host} has the section {shown(section)}: give its name without brackets.")
        if section == "DEFAULT" and "host" in options:
            # Holds, drains and removals look for the host's own name.
            errors.append(
                f"nova_lxd_settings of {host} sets host in DEFAULT: leave it out, and give the host itself that name (hostnamectl), "
                "as Nova calls a compute host by its own name."
            )
        for key, value in options.items():
            lines = value if isinstance(value, (list, tuple)) else [value]
            if not _KEY.match(str(key)) or any(
                not isinstance(line, (str, int, float)) or re.search(r"[\r\n\0]", str(line)) for line in lines
            ):
                errors.append(f"nova_lxd_settings of {host} has no usable {shown(key)} in {section}: give one line, or a list of lines.")
    return errors
