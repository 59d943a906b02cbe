# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The variables of a cloud, and what is wrong with them.

These mistakes do not depend on what the hosts have. Pure functions.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.shapes import unknown_keys
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import as_number

PREFIX = "openstack_cloud_"
DEFAULTS: dict[str, t.Any] = {
    "region": "RegionOne",
    "ca": "",
    "workers": 2,
    "mtu": 1500,
    "physical_networks": {},
    "settings": {},
    "accept_hardware": [],
    "projects": [],
    "users": [],
    "limits": {},
    "flavors": [],
    "images": [],
    "networks": [],
    "routers": [],
    "identity_providers": [],
    "purge": False,
}
# Whose configuration may be given more keys: the services, and Neutron's ml2_conf.ini.
CONFIGURED = ("keystone", "glance", "placement", "neutron", "ml2", "nova")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def wrong(what: str, remedy: str, host: str | None = None) -> Finding:
    """One mistake: what is wrong and where, then what to do."""
    return Finding("inventory", f"{what}: {remedy}.", host, None, remedy)


def settings_of(given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the variables without their prefix, with defaults for those not given.

    :raises ValueError: they are no dictionary, or one has an unknown name.
    """
    if not isinstance(given, t.Mapping):
        raise ValueError("The settings of the cloud must be a dictionary, such as {region: RegionOne}.")
    for sentence in unknown_keys("The cloud", given, DEFAULTS):
        raise ValueError(sentence)
    return {**DEFAULTS, **given}


def listed(value: t.Any) -> list[str]:
    """A list, also from the text that -e name=value gives."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else [str(name) for name in value or []]


def errors(cloud: t.Mapping[str, t.Any]) -> list[Finding]:
    """What is wrong with the variables of a cloud."""
    found = []
    if not NAME.fullmatch(str(cloud["region"])):
        found.append(wrong(f"{PREFIX}region is {shown(cloud['region'])}", "write a name of letters, digits, '.', '_' and '-'"))
    if cloud["ca"] and "-----BEGIN CERTIFICATE-----" not in str(cloud["ca"]):
        found.append(
            wrong(f"{PREFIX}ca is no certificate in PEM", "give the text of the authority's certificate, not the path of its file")
        )
    for key, least, most in (("workers", 1, 64), ("mtu", 1280, 9216)):
        number = as_number(cloud[key])
        if number is None or not least <= number <= most:
            found.append(wrong(f"{PREFIX}{key} is {shown(cloud[key])}", f"write a whole number from {least} to {most}"))
    if not isinstance(cloud["physical_networks"], t.Mapping):
        found.append(
            wrong(
                f"{PREFIX}physical_networks is {shown(cloud['physical_networks'])}", "write a dictionary: name of the network to interface"
            )
        )
    else:
        for name in cloud["physical_networks"]:
            if not NAME.fullmatch(str(name)):
                found.append(wrong(f"{PREFIX}physical_networks has the name {shown(name)}", "use letters, digits, '.', '_' and '-'"))
    return found + _own_settings(cloud["settings"])


def _own_settings(given: t.Any) -> list[Finding]:
    where, form = f"{PREFIX}settings", "write {service: {section: {key: value}}}"
    if not isinstance(given, t.Mapping):
        return [wrong(f"{where} is {shown(given)}", form)]
    found = [Finding("inventory", sentence) for sentence in unknown_keys(where, given, CONFIGURED)]
    for name, sections in given.items():
        if not isinstance(sections, t.Mapping) or not all(isinstance(keys, t.Mapping) for keys in sections.values()):
            found.append(wrong(f"{where}: {name} has no sections", form))
    return found
