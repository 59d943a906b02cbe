# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the playbook slurm_uninstall takes away is what the roles of a cluster write."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROLES = Path(__file__).resolve().parents[3] / "roles"
OURS = sorted(path for path in ROLES.iterdir() if path.name.startswith("slurm_") and path.name != "slurm_uninstall")
PATH = re.compile(r"(?:path|dest): \"?(/(?:etc|usr/local|var/lib/deephdc)/[^\s\"{}]+)\"?\s*(?:[,}]|$)", re.MULTILINE)
# Written and taken away by roles that slurm_uninstall calls (slurm_node: ssh.yml), or folders that others share.
ELSEWHERE = {"/etc/pam.d/sshd", "/etc/slurm", "/etc/slurm/prolog.d", "/etc/slurm/epilog.d", "/etc/deephdc", "/var/lib/deephdc"}
ELSEWHERE |= {"/usr/local/lib/deephdc", "/usr/local/share/deephdc"}


def test_everything_that_the_roles_write_is_taken_away() -> None:
    variables = yaml.safe_load((ROLES / "slurm_uninstall/vars/main.yml").read_text(encoding="utf-8"))
    known = {
        *variables["__slurm_uninstall_files"],
        *variables["__slurm_uninstall_secrets"],
        *variables["__slurm_uninstall_database_files"],
        variables["__slurm_uninstall_found_path"],
        variables["__slurm_uninstall_begun"],
    }
    folders = tuple(f"{folder}/" for folder in variables["__slurm_uninstall_folders"])
    written = {
        found
        for role in OURS
        for part in ("tasks", "vars")
        for file in sorted((role / part).glob("*.yml"))
        for found in PATH.findall(file.read_text(encoding="utf-8"))
    }
    assert len(written) > 30
    left = {path for path in written - known - ELSEWHERE if not f"{path}/".startswith(folders)}
    assert left == set()
