# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The real programs know each flag that the roles write, and the stand-ins know the same flags."""

from __future__ import annotations

import importlib.util
import json
import re

import program
import pytest

STAND_INS = program.ROOT / "tests/stand_ins/mesos"
FLAG = re.compile(r"^  (--\S.*?)(?:  |$)", re.MULTILINE)


def known(mesos, name: str) -> dict[str, str]:
    """Flags of a program with their kind as the stand-in's lists have it: text, bool, or '= NAME' for an old name."""
    found: dict[str, str] = {}
    for line in FLAG.findall(mesos.flags(name)):
        first, *others = (one.removeprefix("--") for one in line.split(", "))
        kind = "bool" if first.startswith("[no-]") else "text"
        own = first.removeprefix("[no-]").partition("=")[0]
        found[own] = kind
        found |= {other.removeprefix("--").removeprefix("[no-]").partition("=")[0]: f"= {own}" for other in others}
    return found


def of_stand_in(name: str) -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("stand_in_options", STAND_INS / "options.py")
    options = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(options)
    return options.known(name)


@pytest.mark.parametrize(("name", "program_name"), [("master", "mesos-master"), ("slave", "mesos-agent")])
def test_the_stand_in_has_the_flags_of_the_real_program(container, name, program_name):
    assert of_stand_in(program_name) == known(container, name)


@pytest.mark.parametrize(("name", "program_name"), [("master", "mesos-master"), ("slave", "mesos-agent")])
def test_all_that_the_roles_write_is_a_flag(container, name, program_name):
    flags = known(container, name)
    files = sorted(program.ROOT.glob(f"tests/golden/*/*/etc/default/{program_name}"))
    written = {one for file in files for one in program.environment_of(file) if one.startswith("MESOS_")}
    assert len(files) > 3 and len(written) > 15
    assert {one for one in written if flags.get(one.removeprefix("MESOS_").lower(), "=").startswith("=")} == set()


def test_values_are_taken_as_they_are_written(mesos):
    mesos.start()
    mesos.agents()
    seen = {**flags(mesos, "/master/flags"), **flags(mesos, "/slave(1)/flags")}
    wanted = {name.removeprefix("MESOS_").lower(): value for name, value in program.settings().items() if name.startswith("MESOS_")}
    assert {"resources", "attributes", "hostname", "offer_timeout", "recovery_agent_removal_limit"} <= set(wanted)
    # The content of a file, and folders that the one process makes itself.
    plain = {name: value for name, value in wanted.items() if not value.startswith("file:") and name not in ("work_dir", "runtime_dir")}
    plain["fair_sharing_excluded_resource_names"] = "{ gpus }"
    assert {name: seen.get(name) for name in plain} == plain


def test_all_rules_are_taken(mesos):
    """The real program leaves out a right, or a field of one, that it does not know."""
    mesos.start()
    mesos.agents()
    rules = json.loads((program.GOLDEN / "m1/etc/mesos/acls.json").read_text(encoding="utf-8"))
    assert rules.pop("permissive") is False
    wanted = sorted((right, tuple(sorted(entry))) for right, entries in rules.items() for entry in entries)
    text = flags(mesos, "/master/flags")["acls"]
    taken = re.findall(r"^(\w+) {\n(.*?)^}", text, re.MULTILINE | re.DOTALL)
    assert sorted((right, tuple(sorted(re.findall(r"^  (\w+) {", body, re.MULTILINE)))) for right, body in taken) == wanted
    assert len(wanted) > 30 and "permissive: false" in text


def flags(mesos, path: str) -> dict[str, str]:
    return json.loads(mesos.ask("GET", path)[1])["flags"]
