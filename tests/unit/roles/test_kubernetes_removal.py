# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the playbook kubernetes_remove_cluster takes away is what the roles of a cluster write."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROLES = Path(__file__).resolve().parents[3] / "roles"
OURS = sorted(
    path for path in ROLES.iterdir() if path.name.startswith(("kubernetes_", "containerd")) and path.name != "kubernetes_operations"
)
# As the value of a key path or dest, or of a variable of that kind.
PATH = re.compile(
    r"(?:path|dest|config|list|joining|beginning)\"?: \"?(/(?:etc|usr/local|var/lib/deephdc)/[^\s\"{}]+)\"?\s*(?:[,}]|$)", re.MULTILINE
)
# Read, not written; or folders that others share.
ELSEWHERE = {"/etc/kubernetes/kubelet.conf", "/etc/kubernetes/admin.conf", "/etc/systemd/system", "/etc/deephdc", "/var/lib/deephdc"}
ELSEWHERE |= {"/usr/local/lib/deephdc", "/usr/local/libexec/deephdc", "/usr/local/share/deephdc", "/etc/kubernetes"}


def test_everything_that_the_roles_write_is_taken_away() -> None:
    variables = yaml.safe_load((ROLES / "kubernetes_operations/vars/main.yml").read_text(encoding="utf-8"))
    name = "__kubernetes_operations_{}".format
    known = {path for part in ("files", "package_files", "unmarked") for path in variables[name(part)]}
    known |= {variables[name("before_path")], variables[name("record_path")]}
    folders = tuple(f"{folder}/" for part in ("folders", "package_folders") for folder in variables[name(part)])
    written = {
        path
        for role in OURS
        for part in ("tasks", "vars")
        for file in sorted((role / part).glob("*.yml"))
        for path in PATH.findall(file.read_text(encoding="utf-8"))
    }
    assert len(written) > 12
    left = {path for path in written - known - ELSEWHERE if not f"{path}/".startswith(folders)}
    assert left == set()
