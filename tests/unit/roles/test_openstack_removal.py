# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the playbook openstack_remove_compute takes away from a host is what the roles of a compute host write."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

# What names alone would not show: scripts/narrow.py.
READS = ("roles/nova_lxd", "roles/openstack_linuxbridge", "roles/openstack_operations")
ROLES = Path(__file__).resolve().parents[3] / "roles"
OURS = [ROLES / name for name in ("nova_lxd", "openstack_linuxbridge")]
# A path as a value of a task, or of a variable of the role.
PATH = re.compile(r"""(?:^|['" ])(/(?:etc|usr|var/lib/nova)/[A-Za-z0-9_./-]+)(?=['",}\s]|$)""", re.MULTILINE)
# Read or run, not written; or links that a program of the distribution makes.
ELSEWHERE = {
    "/etc/alternatives/ebtables",
    "/usr/bin/nvidia-container-cli",
    "/usr/sbin/ebtables",
}


def test_everything_that_the_roles_write_is_taken_away() -> None:
    variables = yaml.safe_load((ROLES / "openstack_operations/vars/main.yml").read_text(encoding="utf-8"))
    name = "__openstack_operations_{}".format
    known = {path for part in ("files", "unmarked", "folders") for path in variables[name(part)]}
    written = {
        path
        for role in OURS
        for part in ("tasks", "vars")
        for file in sorted((role / part).glob("*.yml"))
        for path in PATH.findall(file.read_text(encoding="utf-8").replace("{{ __nova_lxd_watch_unit }}", "deephdc-nova-gpus"))
    }
    assert len(written) > 10
    assert written - known - ELSEWHERE == set()


def test_each_unit_that_the_roles_run_is_stopped() -> None:
    variables = yaml.safe_load((ROLES / "openstack_operations/vars/main.yml").read_text(encoding="utf-8"))
    stopped = set(variables["__openstack_operations_units"])
    own = yaml.safe_load((ROLES / "nova_lxd/vars/main.yml").read_text(encoding="utf-8"))["__nova_lxd_watch_unit"]
    agent = yaml.safe_load((ROLES / "openstack_linuxbridge/vars/debian.yml").read_text(encoding="utf-8"))["__openstack_linuxbridge_unit"]
    assert {f"{own}.timer", f"{own}.service", f"{agent}.service", "nova-compute.service"} == stopped
