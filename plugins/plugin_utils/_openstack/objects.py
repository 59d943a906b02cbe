# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""A cloud's objects as data, and what the module openstack_objects makes of them.

They are accounts, projects, limits, flavors, images and networks. Pure functions.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.shapes import unknown_keys
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown, text_of
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import as_number
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import federation
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.control_conf import SERVICE_PROJECT
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.devices import resource_class
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.hosts import SERVICES
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.settings import DEFAULTS, PREFIX, wrong

KEYS = {
    "projects": ("name", "description", "limits", "users"),
    "users": ("name", "password"),
    "flavors": ("name", "cores", "memory_mib", "disk_gib", "gpus", "gpu_memory_gb", "extra_specs", "projects"),
    "images": ("name", "path", "url", "sha256", "disk_format", "visibility", "properties"),
    "networks": ("name", "project", "cidr", "shared", "external", "physical_network", "dhcp", "dns", "gateway", "pool"),
    "routers": ("name", "project", "external", "networks"),
}
NEEDED = {
    "projects": ("name",),
    "users": ("name", "password"),
    "flavors": ("name", "cores", "memory_mib", "disk_gib"),
    "images": ("name", "sha256"),
    "networks": ("name", "cidr"),
    "routers": ("name",),
}
LIMIT_KEYS = ("servers", "cores", "memory_mib", "disk_gib", "gpus")
RESOURCES = {"servers": "servers", "cores": "class:VCPU", "memory_mib": "class:MEMORY_MB", "disk_gib": "class:DISK_GB"}
# What Nova counts beside these. A resource without a registered limit is refused to everybody.
OTHER_LIMITS = {
    "server_metadata_items": 128,
    "server_injected_files": 5,
    "server_injected_file_content_bytes": 10240,
    "server_injected_file_path_bytes": 255,
    "server_key_pairs": 100,
    "server_groups": 10,
    "server_group_members": 10,
}
# Of a project that has no limits of its own. GPUs are for those that are named.
FIRST_LIMITS = {"servers": 10, "cores": 20, "memory_mib": 51200, "disk_gib": 1000}
SERVICE_ROLES = ("admin", "service")
ROLES = ("service", "member", "reader")
SHA256 = re.compile(r"[0-9a-fA-F]{64}")
OURS = ("admin", SERVICE_PROJECT)
OUR_USERS = ("admin", *(service.name for service in SERVICES))


def errors(cloud: t.Mapping[str, t.Any]) -> list[Finding]:
    """What is wrong with the data, from the inventory alone."""
    found: list[Finding] = []
    for kind, keys in KEYS.items():
        given = cloud[kind]
        if not isinstance(given, (list, tuple)) or not all(isinstance(entry, t.Mapping) for entry in given):
            found.append(wrong(f"{PREFIX}{kind} is {shown(given)}", "write a list of dictionaries"))
            continue
        names = [text_of(entry.get("name")) for entry in given]
        for entry, name in zip(given, names):
            where = f"{PREFIX}{kind}: {name or 'an entry'}"
            found += [Finding("inventory", sentence) for sentence in unknown_keys(where, entry, keys)]
            lacking = [key for key in NEEDED[kind] if entry.get(key) in (None, "")]
            if lacking:
                found.append(wrong(f"{where} lacks {', '.join(lacking)}", "add it"))
            if name and names.count(name) > 1 and names.index(name) == given.index(entry):
                found.append(wrong(f"{where} is there more than once", "keep one entry"))
    if found:
        return found
    found = _limit_errors(f"{PREFIX}limits", cloud["limits"])
    for project in cloud["projects"]:
        found += _project_errors(project, cloud)
    for user in cloud["users"]:
        # Names in Keystone's database have no case.
        if str(user["name"]).lower() in OUR_USERS:
            found.append(wrong(f"{PREFIX}users: {user['name']} is an account of the cloud itself", "choose another name"))
    for flavor in cloud["flavors"]:
        found += _flavor_errors(flavor)
    for image in cloud["images"]:
        if not SHA256.fullmatch(str(image["sha256"])):
            found.append(wrong(f"{PREFIX}images: {image['name']} has the sha256 {shown(image['sha256'])}", "write 64 hexadecimal digits"))
        if bool(image.get("path")) == bool(image.get("url")):
            found.append(wrong(f"{PREFIX}images: {image['name']} must have either path or url", "say where its file is"))
    return found


def _limit_errors(where: str, limits: t.Any) -> list[Finding]:
    if not isinstance(limits, t.Mapping):
        return [wrong(f"{where} is {shown(limits)}", "write a dictionary such as {servers: 10, gpus: {a100: 2}}")]
    found = [Finding("inventory", sentence) for sentence in unknown_keys(where, limits, LIMIT_KEYS)]
    gpus = limits.get("gpus") or {}
    if not isinstance(gpus, t.Mapping):
        return [*found, wrong(f"{where}: gpus is {shown(gpus)}", "write how many by type, such as {a100: 2}")]
    numbers = {**{key: limits[key] for key in limits if key in RESOURCES}, **{f"gpus: {key}": value for key, value in gpus.items()}}
    for key, value in numbers.items():
        number = as_number(value)
        if number is None or number < 0:
            found.append(wrong(f"{where}: {key} is {shown(value)}", "write 0 or more"))
    return found


def _project_errors(project: t.Mapping[str, t.Any], cloud: t.Mapping[str, t.Any]) -> list[Finding]:
    where = f"{PREFIX}projects: {project['name']}"
    if str(project["name"]).lower() in OURS:
        return [wrong(f"{where} belongs to the cloud itself", "choose another name")]
    members = project.get("users") or {}
    if not isinstance(members, t.Mapping) or not all(isinstance(roles, (list, tuple)) for roles in members.values()):
        return [wrong(f"{where} has {shown(members)} as users", "write the roles by name of the account, such as {ada: [member]}")]
    return _limit_errors(where, project.get("limits") or {})


def _flavor_errors(flavor: t.Mapping[str, t.Any]) -> list[Finding]:
    where = f"{PREFIX}flavors: {flavor['name']}"
    found = []
    for key, least in (("cores", 1), ("memory_mib", 1), ("disk_gib", 0)):
        number = as_number(flavor[key])
        if number is None or number < least:
            found.append(wrong(f"{where} has {shown(flavor[key])} as {key}", f"write {least} or more"))
    gpus = flavor.get("gpus") or {}
    if not isinstance(gpus, t.Mapping):
        return [*found, wrong(f"{where}: gpus is {shown(gpus)}", "write how many by type, such as {a100: 1}")]
    for gpu_type, count in gpus.items():
        if (as_number(count) or 0) < 1:
            found.append(wrong(f"{where} has {shown(count)} GPUs of type {gpu_type}", "write 1 or more, or leave the type out"))
    return found


def _limits(given: t.Mapping[str, t.Any]) -> dict[str, int]:
    """Limits by Nova's names of the resources."""
    found = {RESOURCES[key]: int(given[key]) for key in RESOURCES if key in given}
    return {**found, **{f"class:{resource_class(str(name))}": int(count) for name, count in (given.get("gpus") or {}).items()}}


def _flavor(given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    gpus = {str(name): int(count) for name, count in (given.get("gpus") or {}).items()}
    specs: dict[str, t.Any] = {f"resources:{resource_class(name)}": count for name, count in gpus.items()}
    if gpus:
        # What an information system publishes of a flavor.
        specs.update({"Accelerator:Type": "GPU", "Accelerator:Number": sum(gpus.values()), "Accelerator:Model": ",".join(gpus)})
    if given.get("gpu_memory_gb"):
        specs[f"trait:CUSTOM_GPU_MEMORY_{int(given['gpu_memory_gb'])}GB"] = "required"
    return {
        "name": str(given["name"]),
        "vcpus": int(given["cores"]),
        "ram": int(given["memory_mib"]),
        "disk": int(given["disk_gib"]),
        "extra_specs": {**specs, **(given.get("extra_specs") or {})},
        "projects": list(given.get("projects") or []),
    }


def types(cloud: t.Mapping[str, t.Any]) -> list[str]:
    """All types of GPUs that limits and flavors name."""
    limits = [cloud["limits"], *(project.get("limits") or {} for project in cloud["projects"])]
    named = [one.get("gpus") or {} for one in (*limits, *cloud["flavors"])]
    return sorted({str(name) for gpus in named for name in gpus})


def objects(cloud: t.Mapping[str, t.Any], plan: t.Mapping[str, t.Any], files: str = "") -> dict[str, t.Any]:
    """What the module openstack_objects is given, without accounts and passwords.

    :param cloud: the data of DEFAULTS. plan: of the cloud. files: folder of images that were fetched from a url.
    """
    cloud = {**DEFAULTS, **cloud}
    classes = {name for offered in plan["offers"].values() for name in offered} | {resource_class(name) for name in types(cloud)}
    registered = {**OTHER_LIMITS, **{f"class:{name}": 0 for name in sorted(classes)}, **_limits({**FIRST_LIMITS, **cloud["limits"]})}
    images = [{**image, "path": image.get("path") or f"{files}/{image['sha256'].lower()}"} for image in cloud["images"]]
    return {
        "projects": [{"name": one["name"], "description": one.get("description") or ""} for one in cloud["projects"]],
        "grants": {one["name"]: dict(one.get("users") or {}) for one in cloud["projects"]},
        "limits": {one["name"]: _limits(one.get("limits") or {}) for one in cloud["projects"]},
        "registered_limits": registered,
        "flavors": [_flavor(one) for one in cloud["flavors"]],
        "images": [{key: value for key, value in image.items() if key != "url"} for image in images],
        "networks": [dict(one) for one in cloud["networks"]],
        "routers": [dict(one) for one in cloud["routers"]],
        "identity_providers": federation.objects(cloud),
    }


def accounts(plan: t.Mapping[str, t.Any], secrets: t.Mapping[str, str]) -> dict[str, t.Any]:
    """The catalogue and the accounts of the services, for the same module."""
    own = [service for service in SERVICES if service.name != "keystone"]
    return {
        "whole": False,
        "services": [{"name": one.name, "type": one.type, "url": plan["urls"][one.name]} for one in own],
        "roles": list(ROLES),
        "projects": [{"name": SERVICE_PROJECT, "description": "Accounts of OpenStack's services"}],
        "users": [{"name": one.name, "password": secrets[f"account_{one.name}"]} for one in own],
        "never_locked": ["admin", *(one.name for one in own)],
        "grants": {SERVICE_PROJECT: {one.name: list(SERVICE_ROLES) for one in own}},
        # Nova reads the limits of all projects.
        "system_grants": {"nova": "reader"},
    }
