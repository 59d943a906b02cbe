# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Which part of the collection may know which other."""

from __future__ import annotations

import ast
import importlib
import re
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._managers import MANAGERS

ROOT = Path(__file__).resolve().parents[2]
ROLES = ROOT / "roles"
PLUGINS = ROOT / "plugins"
# What takes a GPU from those who compute on it.
DISTURBING = re.compile(r"\bansible\.builtin\.reboot:|\.(?:nvidia_mig|kernel_cmdline|pci_driver_override|pci_virtual_functions):")
# A unit of systemd may name the daemons that it starts before.
UNIT = re.compile(r"^\s*Before=.*$", re.MULTILINE)
WORDS = re.compile(
    "|".join(["slurm", "opennebula", "kubernetes", "mesos", "openstack", "nova_lxd", *(manager.name for manager in MANAGERS)]), re.I
)


def texts(role: Path) -> dict[str, str]:
    paths = (path for path in sorted(role.rglob("*")) if path.is_file() and path.suffix != ".pyc")
    return {str(path.relative_to(role)): path.read_text(encoding="utf-8") for path in paths}


def disturbing() -> list[Path]:
    found = [role for role in sorted(ROLES.iterdir()) if any(DISTURBING.search(text) for text in texts(role).values())]
    return [role for role in found if role.name != "gpu_hold"]


def test_the_roles_that_disturb_hosts_are_found():
    assert {"nvidia_driver", "pci_passthrough"} <= {role.name for role in disturbing()}


@pytest.mark.parametrize("role", disturbing(), ids=lambda role: role.name)
def test_a_role_that_disturbs_a_host_holds_it_and_gives_it_back(role: Path) -> None:
    called = [text for name, text in texts(role).items() if name.startswith("tasks/") and "deephdc.accelerators.gpu_hold\n" in text]
    assert any("tasks_from: release" in text for text in called)
    assert any("gpu_hold_reboot: true" in text for text in called)


@pytest.mark.parametrize("role", [*disturbing(), ROLES / "gpu_hold"], ids=lambda role: role.name)
def test_a_role_that_disturbs_a_host_names_no_manager(role: Path) -> None:
    """Its documents may; what it does is the same whoever manages the host."""
    named = {
        name: WORDS.findall(UNIT.sub("", text)) for name, text in texts(role).items() if name.split("/")[0] not in ("README.md", "meta")
    }
    assert {
        name: words for name, words in named.items() if words and name.startswith(("defaults/", "tasks/", "vars/", "templates/", "files/"))
    } == {}


@pytest.mark.parametrize("manager", MANAGERS, ids=lambda manager: manager.name)
def test_the_role_of_each_manager_can_hold_and_release(manager) -> None:
    role = ROLES / manager.host_role
    specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]
    for entry in ("hold", "release"):
        assert (role / f"tasks/{entry}.yml").is_file() and entry in specs
    assert f"    {manager.host_role}_hold: " in (role / "tasks/hold.yml").read_text(encoding="utf-8")


# The folders of managers, below module_utils and plugin_utils.
OF_MANAGERS = ("_slurm", "_opennebula", "_kubernetes", "_mesos", "_openstack")
# What one manager may know of others: the settings of accounts end in SLURM's policy.
KNOWN = {("_iam", "_slurm")}


def imports(path: Path) -> t.Iterator[tuple[str, str]]:
    """Kind of plugin and folder (empty for a file beside the folders) of what a file imports of the collection."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            yield path.relative_to(PLUGINS).parts[0], path.parent.name
        elif node.module and node.module.startswith("ansible_collections.deephdc.accelerators.plugins."):
            for alias in node.names:
                parts = f"{node.module}.{alias.name}".split(".")[4:]
                yield parts[0], parts[1] if (PLUGINS / parts[0] / parts[1]).is_dir() else ""


def wrong(path: Path) -> t.Iterator[str]:
    """What a file imports and must not."""
    kind, *rest = path.relative_to(PLUGINS).parts
    folder = rest[0] if len(rest) > 1 else ""
    for other_kind, other in imports(path):
        if other_kind in ("filter", "modules"):
            yield f"{path.name} imports a {other_kind}"
        if kind in ("module_utils", "modules") and other_kind == "plugin_utils":
            yield f"{path.name}, which runs on hosts, imports {other_kind}"
        if folder == "_gpu" and (other_kind, other) != ("module_utils", "_gpu"):
            yield f"_gpu/{path.name} imports {other}"
        if folder == "_model" and other not in ("_gpu", "_model"):
            yield f"_model/{path.name} imports {other}"
        if other in OF_MANAGERS and folder in OF_MANAGERS and other != folder:
            yield f"{folder}/{path.name} imports {other}"
        neutral = folder and folder not in OF_MANAGERS
        if neutral and other in OF_MANAGERS and (folder, other) not in KNOWN:
            yield f"{folder}/{path.name} imports {other}"


def test_what_may_import_what() -> None:
    paths = [path for kind in ("filter", "modules", "module_utils", "plugin_utils") for path in sorted((PLUGINS / kind).rglob("*.py"))]
    assert len(paths) > 100
    assert [sentence for path in paths for sentence in wrong(path)] == []


@pytest.mark.parametrize("manager", MANAGERS, ids=lambda manager: manager.name)
def test_each_manager_has_what_the_contract_asks_for(manager) -> None:
    code = importlib.import_module(f"ansible_collections.deephdc.accelerators.plugins.plugin_utils._{manager.name}.manager")
    assert manager.name == code.NAME and manager.takes in ("driver", "vfio")
    assert code.PROMISES.path == f"/var/lib/deephdc/{manager.name}_accelerators"
    assert code.PROMISES.header.startswith("# Made by deephdc.accelerators: ")
    assert callable(code.check) and callable(code.plan)
    assert {path.stem for path in (ROLES / manager.site_role / "tasks").glob("*.yml")} >= {"main", "check", "plan", "deliver", "validate"}


def test_the_names_of_managers_drag_no_manager_along() -> None:
    """Every playbook reads them: a change of one manager would make the tests of all others due."""
    imported = set(imports(PLUGINS / "plugin_utils/_managers.py")) | set(imports(PLUGINS / "plugin_utils/_allotment.py"))
    assert not {folder for _kind, folder in imported} & set(OF_MANAGERS)


def test_managers_have_names_groups_and_roles_of_their_own() -> None:
    for names in zip(*(manager[:4] for manager in MANAGERS)):
        assert len(set(names)) == len(MANAGERS)
