# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""mesos_remove_agent removes each file that the role mesos_agent writes, and reads its note where that role reads it."""

from __future__ import annotations

import pathlib
import re

import yaml

ROLES = pathlib.Path(__file__).resolve().parents[3] / "roles"
OPERATIONS = yaml.safe_load((ROLES / "mesos_operations/vars/main.yml").read_text(encoding="utf-8"))
AGENT = yaml.safe_load((ROLES / "mesos_agent/vars/main.yml").read_text(encoding="utf-8"))
PATH = re.compile(r"(?<![\w}.])/(?:etc|opt|var/lib)/[\w./-]*[\w-]")
# What the agent's role only reads, folders that others use, and what tasks left.
STAYS = {"/etc/default/mesos-master", "/etc/mesos", "/var/lib/mesos", "/var/lib/mesos/agent"}


def removed() -> list[str]:
    names = ("files", "unmarked", "folders", "perhaps_empty")
    return [path for name in names for path in OPERATIONS[f"__mesos_operations_{name}"]] + [OPERATIONS["__mesos_operations_note"]]


def test_each_path_of_the_agent_is_removed_or_stays_on_purpose() -> None:
    files = [*(ROLES / "mesos_agent/tasks").glob("*.yml"), ROLES / "mesos_agent/vars/main.yml"]
    written = {path for file in files for path in PATH.findall(file.read_text(encoding="utf-8"))}
    known = set(removed())
    assert len(written) > 10
    left = {
        path for path in written - known - STAYS if not any(path.startswith(f"{one}/") for one in OPERATIONS["__mesos_operations_folders"])
    }
    assert left - {"/var/lib/deephdc"} == set()


def test_the_note_of_a_drain_is_where_the_agents_role_reads_it() -> None:
    assert OPERATIONS["__mesos_operations_note"] == AGENT["__mesos_agent_mark_path"]
    assert AGENT["__mesos_agent_identity"] in OPERATIONS["__mesos_operations_unmarked"]
