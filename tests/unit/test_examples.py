# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Examples in documents do what they say when they are typed: files are found, and commands reach hosts."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("roles/*/README.md"))]
EXAMPLES = [
    *DOCUMENTS,
    *sorted(ROOT.glob("docs/examples/*")),
    *sorted(ROOT.glob("roles/*/meta/argument_specs.yml")),
    *sorted(path for path in ROOT.glob("inventories/**/*") if path.is_file()),
]

LOOKUP = re.compile(r"""(?:lookup|query|q)\(\s*(['"])(?:ansible\.builtin\.)?(?:file|unvault|template|csvfile|ini)\1\s*,\s*([^)]*)\)""")
# The playbooks lie in the collection, and Ansible looks for a bare name there. local_secrets is the folder of the demo.
RIGHT = re.compile(r"""(?:(?:inventory_dir|local_secrets) ~ ['"]/|['"]/)""")
COMMAND = re.compile(r"ansible-playbook +(?:-\S+ +)*deephdc\.accelerators\.\w+[^\n`]*")
# Without an inventory no host matches and the run is a success. What begins so needs none, for the reason beside it.
NO_INVENTORY = {
    "ansible-playbook deephdc.accelerators.slurm --syntax-check": "no host is contacted",
    "ansible-playbook deephdc.accelerators.slurm, for all machines at once": "a picture; an orchestrator makes the inventory",
}
# A shell takes the outer quotes away, and Ansible then ends the value at the first blank.
CUT = re.compile(r"""(?:-e|--extra-vars) +\w+=(?:'[^'\n]* [^'\n]*'|"[^"\n]* [^"\n]*")""")


def bare_lookups(text: str) -> list[str]:
    return [found[0] for found in LOOKUP.finditer(text) if not RIGHT.match(found[2])]


def commands(text: str) -> list[str]:
    return COMMAND.findall(re.sub(r"\\\n\s*", " ", text))


def without_inventory(text: str) -> list[str]:
    found = [command for command in commands(text) if not re.search(r" -i hosts\.yml(?: |$)", command)]
    return [command for command in found if not command.startswith(tuple(NO_INVENTORY))]


def everywhere(find: t.Callable[[str], t.Sequence[str]], paths: t.Sequence[Path]) -> list[str]:
    return [f"{path.relative_to(ROOT)}: {line}" for path in paths for line in find(path.read_text(encoding="utf-8"))]


def test_no_example_looks_up_a_bare_file_name() -> None:
    assert len(everywhere(LOOKUP.findall, EXAMPLES)) > 15, "nothing was read"
    assert everywhere(bare_lookups, EXAMPLES) == []


def test_each_command_names_the_inventory() -> None:
    assert len(everywhere(commands, DOCUMENTS)) > 50, "nothing was read"
    assert everywhere(without_inventory, DOCUMENTS) == []


def test_what_needs_no_inventory_is_there() -> None:
    written = [command for path in DOCUMENTS for command in commands(path.read_text(encoding="utf-8"))]
    assert [begin for begin in NO_INVENTORY if not any(command.startswith(begin) for command in written)] == []


def test_no_command_loses_a_part_of_a_value_at_a_blank() -> None:
    assert everywhere(lambda text: [found[0] for found in CUT.finditer(text)], DOCUMENTS) == []


@pytest.mark.parametrize(
    "argument",
    ["'ca.pem'", '"ca.pem"', "'files/ca.pem'", "inventory_hostname ~ '.crt'", "inventory_dir ~ 'ca.pem'", "playbook_dir ~ '/ca.pem'"],
)
@pytest.mark.parametrize("kind", ["'file'", "'ansible.builtin.file'", '"template"'])
def test_bare_file_names_are_found(kind: str, argument: str) -> None:
    assert bare_lookups(f'a: "{{{{ lookup({kind}, {argument}) | trim }}}}"') == [f"lookup({kind}, {argument})"]


@pytest.mark.parametrize(
    "text",
    ["lookup('file', inventory_dir ~ '/ca.pem')", "lookup('ansible.builtin.file', '/etc/ca.pem')", "lookup('env', 'HOME')"],
)
def test_other_lookups_pass(text: str) -> None:
    assert bare_lookups(text) == []


@pytest.mark.parametrize(
    ("command", "passes"),
    [
        ("slurm -i hosts.yml", True),
        ("slurm --tags validate \\\n    -i hosts.yml --check", True),
        ("slurm --syntax-check", True),
        ("slurm", False),
        ("slurm -i inventory", False),
        ("slurm_drain -e slurm_drain_nodes=gpu1    # -i hosts.yaml", False),
    ],
)
def test_commands_without_an_inventory_are_found(command: str, passes: bool) -> None:
    assert (without_inventory(f"Run `ansible-playbook deephdc.accelerators.{command}`.\n") == []) is passes


@pytest.mark.parametrize(
    ("command", "cut"),
    [
        ("-e a_reason='new fan'", True),
        ('-e a_reason="new fan" -e b=1', True),
        ("-e \"a_reason='new fan'\"", False),
        ("-e a='x' -e b='y'", False),
        ("""-e '{"a": ["b"]}'""", False),
    ],
)
def test_values_that_end_at_a_blank_are_found(command: str, cut: bool) -> None:
    assert bool(CUT.search(command)) is cut
