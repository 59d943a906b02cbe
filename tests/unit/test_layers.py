# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Which part of the collection may know which other."""

from __future__ import annotations

import ast
import importlib
import typing as t
from pathlib import Path

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._managers import MANAGERS

ROOT = Path(__file__).resolve().parents[2]
ROLES = ROOT / "roles"
PLUGINS = ROOT / "plugins"
# The folders of managers, below module_utils and plugin_utils.
OF_MANAGERS = tuple(f"_{manager.name}" for manager in MANAGERS)
# What one manager may know of others: the settings of accounts end in SLURM's policy.
KNOWN = {("_iam", "_slurm")}

COLLECTION = "ansible_collections.deephdc.accelerators.plugins"
# What imports by a name that is only known when it runs.
BY_NAME = {"importlib", "imp", "runpy", "__import__", "import_module", "exec", "eval"}


def named(node: ast.AST, package: list[str]) -> list[str]:
    """Whole names of what a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        start = package[: len(package) - node.level + 1] if node.level else []
        return [".".join([*start, *filter(None, [node.module]), alias.name]) for alias in node.names]
    return []


def imports(path: Path, plugins: Path = PLUGINS) -> t.Iterator[tuple[str, str]]:
    """Kind of plugin and folder (empty for a file beside the folders) of what a file imports of the collection.

    The folder is * for a whole kind or more, as what is used of it can't be seen; the kind is * for an import by name.
    """
    package = [*COLLECTION.split("."), *path.relative_to(plugins).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = named(node, package)
        if any(name.split(".")[0] in BY_NAME for name in names) or (isinstance(node, ast.Name) and node.id in BY_NAME):
            yield "*", "*"
        for name in names:
            parts = name.split(".")[4:]
            if f"{COLLECTION}.".startswith(f"{name}."):
                yield "*", "*"
            elif name.startswith(f"{COLLECTION}."):
                if len(parts) == 1 or parts[1] == "*":
                    yield parts[0], "*"
                else:
                    yield parts[0], parts[1] if (plugins / parts[0] / parts[1]).is_dir() else ""


def wrong(path: Path, plugins: Path = PLUGINS) -> t.Iterator[str]:
    """What a file imports and must not."""
    kind, *rest = path.relative_to(plugins).parts
    folder = rest[0] if len(rest) > 1 else ""
    for other_kind, other in imports(path, plugins):
        if other == "*":
            yield f"{path.name} does not name the file that it imports"
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
        # Every playbook reads files beside the folders: a change of one manager must not make the tests of all others due.
        neutral = kind in ("module_utils", "plugin_utils") and folder not in OF_MANAGERS
        if neutral and other in OF_MANAGERS and (folder, other) not in KNOWN:
            yield f"{folder or kind}/{path.name} imports {other}"


def test_what_may_import_what() -> None:
    paths = sorted(PLUGINS.rglob("*.py"))
    assert len(paths) > 100
    assert [sentence for path in paths for sentence in wrong(path)] == []


UNNAMED = "x.py does not name the file that it imports"


@pytest.mark.parametrize(
    ("place", "code", "sentences"),
    [
        ("plugin_utils/_slurm", "import {}.plugin_utils._opennebula.plan as plan", ["_slurm/x.py imports _opennebula"]),
        ("plugin_utils/_slurm", "import {}.plugin_utils._opennebula.plan", ["_slurm/x.py imports _opennebula"]),
        ("plugin_utils/_slurm", "from {}.plugin_utils import _opennebula", ["_slurm/x.py imports _opennebula"]),
        ("plugin_utils/_slurm", "from {}.plugin_utils._opennebula import plan", ["_slurm/x.py imports _opennebula"]),
        ("plugin_utils/_slurm", "from .._opennebula import plan", ["_slurm/x.py imports _opennebula"]),
        ("plugin_utils/_slurm", "from .._opennebula.plan import units", ["_slurm/x.py imports _opennebula"]),
        ("plugin_utils/_slurm", "from .. import _opennebula", ["_slurm/x.py imports _opennebula"]),
        ("plugin_utils/_slurm", "from ...module_utils._opennebula import api", ["_slurm/x.py imports _opennebula"]),
        ("plugin_utils/_slurm", "def late():\n    from .._opennebula import plan", ["_slurm/x.py imports _opennebula"]),
        ("plugin_utils/_slurm", "from {} import plugin_utils", [UNNAMED]),
        ("plugin_utils/_slurm", "from {}.plugin_utils import *", [UNNAMED]),
        ("plugin_utils/_slurm", "from ansible_collections.deephdc import accelerators", [UNNAMED]),
        ("plugin_utils/_slurm", "import {} as all", [UNNAMED]),
        ("plugin_utils/_slurm", "import importlib", [UNNAMED]),
        ("plugin_utils/_slurm", "from importlib import import_module as load", [UNNAMED]),
        ("plugin_utils/_slurm", "__import__('{}.plugin_utils._opennebula.plan')", [UNNAMED]),
        ("plugin_utils/_slurm", "from . import plan", []),
        ("plugin_utils/_slurm", "from .. import _allotment", []),
        ("plugin_utils", "from ._slurm import plan", ["plugin_utils/x.py imports _slurm"]),
        ("plugin_utils", "from {}.plugin_utils import _slurm", ["plugin_utils/x.py imports _slurm"]),
        ("module_utils", "from . import _slurm", ["module_utils/x.py imports _slurm"]),
        ("module_utils", "from ..plugin_utils import _allotment", ["x.py, which runs on hosts, imports plugin_utils"]),
        ("module_utils/_gpu", "from .. import x", ["_gpu/x.py imports "]),
        ("module_utils/_gpu", "from . import facts", []),
        ("module_utils/_model", "import {}.module_utils.x", ["_model/x.py imports "]),
        ("modules", "import {}.modules.gpu_facts as facts", ["x.py imports a modules"]),
        ("filter", "from .slurm import FilterModule", ["x.py imports a filter"]),
        ("filter", "from ..plugin_utils._slurm import plan", []),
    ],
)
def test_each_way_to_import_is_seen(tmp_path, place, code, sentences) -> None:
    for name in (
        "filter",
        "modules",
        *(f"{kind}/{folder}" for kind in ("module_utils", "plugin_utils") for folder in (*OF_MANAGERS, "_gpu", "_model")),
    ):
        (tmp_path / name).mkdir(parents=True)
    path = tmp_path / place / "x.py"
    path.write_text(code.replace("{}", COLLECTION), encoding="utf-8")
    assert list(wrong(path, tmp_path)) == sentences


@pytest.mark.parametrize("manager", MANAGERS, ids=lambda manager: manager.name)
def test_each_manager_has_what_the_contract_asks_for(manager) -> None:
    code = importlib.import_module(f"ansible_collections.deephdc.accelerators.plugins.plugin_utils._{manager.name}.manager")
    assert manager.name == code.NAME and manager.takes in ("driver", "vfio")
    assert code.PROMISES.path == f"/var/lib/deephdc/{manager.name}_accelerators"
    assert code.PROMISES.header.startswith("# Made by deephdc.accelerators: ")
    assert callable(code.check) and callable(code.plan)
    assert {path.stem for path in (ROLES / manager.site_role / "tasks").glob("*.yml")} >= {"main", "check", "plan", "deliver", "validate"}


def test_managers_have_names_groups_and_roles_of_their_own() -> None:
    for names in zip(*(manager[:4] for manager in MANAGERS)):
        assert len(set(names)) == len(MANAGERS)
