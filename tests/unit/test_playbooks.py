# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What playbooks must have in common."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader

PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"
# The plays of each site that can be compared, and the variable by which they are only compared.
SITES = {
    name: [play for play in yaml.safe_load((PLAYBOOKS / f"{name}.yml").read_text(encoding="utf-8")) if "hosts" in play]
    for name in ("slurm", "kubernetes", "mesos")
}
PLAYS = [pytest.param(name, play, id=f"{name}-{play['name']}") for name, plays in SITES.items() for play in plays]
LATER = [pytest.param(name, play, id=f"{name}-{play['name']}") for name, plays in SITES.items() for play in plays[1:]]
NO_CHECK = {"site_check.yml", "gpu_simulator.yml"}


@pytest.mark.parametrize("path", sorted(set(PLAYBOOKS.glob("*.yml")) - {PLAYBOOKS / name for name in NO_CHECK}), ids=lambda path: path.stem)
def test_each_playbook_first_checks_groups_and_names_of_variables(path: Path) -> None:
    """Else a misspelt group is 'no hosts matched' and a success, such as a nightly backup without a backup."""
    first = yaml.safe_load(path.read_text(encoding="utf-8"))[0]
    assert first["ansible.builtin.import_playbook"] == "site_check.yml"
    assert first["vars"]["site_check_groups"]


@pytest.mark.parametrize(("site", "play"), PLAYS)
def test_each_play_of_the_site_can_only_compare(site: str, play: dict) -> None:
    """slurm_drift, kubernetes_drift and mesos_drift import these plays and must not change anything by one of them."""
    assert play["check_mode"] == f"{{{{ __{site}_only_compare | default(ansible_check_mode) | bool }}}}"


@pytest.mark.parametrize(("site", "play"), LATER)
def test_what_a_play_cannot_compare_does_not_end_the_comparison(site: str, play: dict) -> None:
    """The first one makes the plan that all others need."""
    assert play["ignore_errors"] == play["ignore_unreachable"] == f"{{{{ __{site}_only_compare | default(false) | bool }}}}"


def test_the_action_group_has_every_module_of_opennebula() -> None:
    """Those that it lacks would ask the default API, with the default password."""
    modules = PLAYBOOKS.parent / "plugins/modules"
    takers = [
        path.stem
        for path in sorted(modules.glob("*.py"))
        if "\nextends_documentation_fragment: deephdc.accelerators.opennebula\n" in path.read_text(encoding="utf-8")
    ]
    groups = yaml.safe_load((PLAYBOOKS.parent / "meta/runtime.yml").read_text(encoding="utf-8"))["action_groups"]
    assert groups["opennebula"] == takers != []


def test_the_first_host_of_a_control_plane_is_upgraded_first() -> None:
    """Even where it answered last: group_by adds a host to its group when the host's answer comes."""
    inventory = InventoryManager(DataLoader(), sources=[])
    for group, hosts in (("kubernetes_control_plane", ("cp1", "cp2", "cp3")), ("kubernetes_upgrade_control_plane", ("cp3", "cp2", "cp1"))):
        inventory.add_group(group)
        for host in hosts:
            inventory.add_host(host, group)
    plays = yaml.safe_load((PLAYBOOKS / "kubernetes_upgrade.yml").read_text(encoding="utf-8"))
    (play,) = (play for play in plays if play["name"] == "Upgrade the control plane")
    assert play["serial"] == 1
    assert [host.name for host in inventory.get_hosts(play["hosts"])] == ["cp1", "cp2", "cp3"]


def roles_named_in(item: t.Any) -> t.Iterator[tuple[str, str]]:
    """Each role of ours that a playbook or a file of tasks names, with the entry point."""
    for value in item if isinstance(item, list) else item.values() if isinstance(item, dict) else ():
        yield from roles_named_in(value)
    if isinstance(item, dict):
        named = [item[key] for key in ("ansible.builtin.import_role", "ansible.builtin.include_role") if key in item]
        named += [{"name": item["role"]}] if isinstance(item.get("role"), str) else []
        for one in named:
            if one["name"].startswith("deephdc.accelerators.") and "{" not in one["name"]:
                yield one["name"].rsplit(".", 1)[-1], one.get("tasks_from", "main")


ROLES = PLAYBOOKS.parent / "roles"
FILES = sorted([*PLAYBOOKS.glob("*.yml"), *ROLES.glob("*/tasks/**/*.yml")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PLAYBOOKS.parent)))
def test_each_role_that_is_named_is_there(path: Path) -> None:
    """An included one is looked for in the middle of a run, and no check of the syntax follows it."""
    named = set(roles_named_in(yaml.safe_load(path.read_text(encoding="utf-8"))))
    assert {f"{role}: {entry}" for role, entry in named if not (ROLES / role / "tasks" / f"{entry}.yml").is_file()} == set()


@pytest.mark.parametrize("path", sorted(PLAYBOOKS.glob("*.yml")), ids=lambda path: path.stem)
def test_any_errors_fatal_stands_beside_no_text_of_ignore_errors(path):
    """Ansible looks at the text and not at what it gives, so a failed host would not end the run: max_fail_percentage does."""
    plays = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert [play["name"] for play in plays if play.get("any_errors_fatal") and isinstance(play.get("ignore_errors"), str)] == []
