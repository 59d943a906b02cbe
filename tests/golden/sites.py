# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Read the inventories that golden configuration is made of, by Ansible's own reader."""

from __future__ import annotations

import os
import pathlib
import typing as t

import yaml

from templating import ROOT

# The inventory is YAML alone, so that no other plugin tries a playbook that lies beside it.
os.environ.update(ANSIBLE_INVENTORY_ENABLED="yaml", ANSIBLE_HOST_PATTERN_MISMATCH="ignore", ANSIBLE_LOCALHOST_WARNING="false")
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.vars.manager import VariableManager

HERE = ROOT / "tests/golden"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# What Ansible adds to the variables of each host, and the walk gives by itself.
MAGIC = ("ansible_check_mode", "ansible_playbook_python", "ansible_version", "ansible_diff_mode", "ansible_forks", "ansible_run_tags",
         "ansible_skip_tags", "ansible_verbosity", "ansible_inventory_sources", "hostvars", "vars", "omit", "playbook_dir", "groups",
         "environment", "ansible_config_file", "ansible_limit", "ansible_facts", "ansible_connection")  # fmt: skip


class Inventory(t.NamedTuple):
    """The hosts of a site.

    :param hosts: variables of each host, as they are written.
    :param groups: hosts by group.
    :param select: the hosts of a pattern, such as "a:!b".
    """

    hosts: dict[str, dict[str, t.Any]]
    groups: dict[str, list[str]]
    select: t.Callable[[str], list[str]]


class Overlay(t.NamedTuple):
    """Fixed values for what a golden run can't read, of overlay.yml.

    :param variables: by name, for all hosts. hosts: further ones of a host. facts: facts of a host beside the usual ones.
    :param registered: results of tasks, by their variables' names. answers: the same by the name of a module.
    :param files: texts by the end of their paths. asked: recorded and present for a manager.
    """

    variables: dict[str, t.Any]
    hosts: dict[str, dict[str, t.Any]]
    facts: dict[str, dict[str, t.Any]]
    registered: dict[str, t.Any]
    answers: dict[str, t.Any]
    files: dict[str, str]
    environment: dict[str, str]
    asked: dict[str, dict[str, t.Any]]
    playbooks: list[str] | None
    release: str


def read_yaml(path: pathlib.Path) -> t.Any:
    return yaml.load(path.read_text(encoding="utf-8"), LOADER)


def overlay_of(site: str) -> Overlay:
    """Return the values for all sites with those of one site above them."""
    every = read_yaml(HERE / "overlay.yml")
    own = every["sites"].get(site) or {}
    both = {name: {**(every["every"].get(name) or {}), **(own.get(name) or {})} for name in Overlay._fields[:-2]}
    return Overlay(**both, playbooks=own.get("playbooks"), release=str(own.get("release", "13")))


def sources() -> dict[str, list[pathlib.Path]]:
    """Return the files of each inventory, by the name of its folder in tests/golden."""
    found: dict[str, list[pathlib.Path]] = {}
    for folder in sorted((ROOT / "inventories").iterdir()):
        found[folder.name] = [folder / "hosts.yml"]
    common = ROOT / "molecule/shared/inventory/common.yml"
    for folder in sorted((ROOT / "molecule").glob("*/inventory")):
        if folder != common.parent:
            every = sorted(path for path in folder.glob("*.yml") if isinstance(read_yaml(path), dict))
            found[f"molecule_{folder.parent.name}"] = [common, *every]
    for path in sorted((HERE / "sites").glob("*.yml")):
        found[path.stem] = [path]
    return found


def plain(value: t.Any) -> t.Any:
    """Return data without Ansible's own types."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, dict):
        return {plain(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    for kind in (bool, int, float):
        if isinstance(value, kind):
            return kind(value)
    return value


def read(paths: t.Sequence[pathlib.Path]) -> Inventory:
    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=[str(path) for path in paths])
    variables = VariableManager(loader=loader, inventory=inventory)
    hosts = {}
    for host in inventory.get_hosts():
        own = variables.get_vars(host=host, include_hostvars=False)
        hosts[str(host.name)] = {str(name): plain(value) for name, value in own.items() if name not in MAGIC}
    groups = {str(name): [str(host) for host in members] for name, members in inventory.get_groups_dict().items()}
    return Inventory(hosts, groups, lambda pattern: [str(host.name) for host in inventory.get_hosts(pattern)])
