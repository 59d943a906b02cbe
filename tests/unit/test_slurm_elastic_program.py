# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What runs on the controllers between SLURM and a hook."""

from __future__ import annotations

import datetime
import importlib.util
from pathlib import Path

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import settings as slurm_settings

ROLE = Path(__file__).resolve().parents[2] / "roles/slurm_elastic"
SPEC = importlib.util.spec_from_file_location("slurm_elastic", ROLE / "files/slurm_elastic.py")
assert SPEC
assert SPEC.loader
PROGRAM = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(PROGRAM)

NOW = datetime.datetime(2026, 3, 1, 12, 10)
SHOWN = (
    "NodeName=cloud1 Arch=x86_64 State=DOWN+CLOUD+POWERED_DOWN ThreadsPerCore=1 "
    "Reason=elastic: no quota : ResumeTimeout reached [slurm@2026-03-01T12:00:00] Comment=x\n"
    "NodeName=cloud2 State=DOWN+CLOUD+POWERED_DOWN Reason=elastic: no quota [slurm@2026-03-01T12:09:00]\n"
    "NodeName=cloud3 State=DOWN*+CLOUD Reason=broken fan [root@2026-03-01T12:00:00]\n"
    "NodeName=cloud4 State=DOWN+CLOUD+POWER_DOWN Reason=elastic: no quota [slurm@2026-03-01T12:00:00]\n"
    "NodeName=cloud6 State=DOWN+CLOUD+POWERED_DOWN Reason=ResumeTimeout reached [slurm@2026-03-01T12:00:00]\n"
    "NodeName=cloud5 State=IDLE+CLOUD+POWERED_DOWN\n"
    "NodeName=gpu1 State=DOWN Reason=elastic: rubber [root@2026-03-01T12:00:00]\n"
)


def test_a_failed_node_is_tried_again_after_its_pause_and_nobody_elses_is():
    assert PROGRAM.due(PROGRAM.parse(SHOWN), NOW, 300) == ["cloud1", "cloud6"]
    assert PROGRAM.due(PROGRAM.parse(SHOWN), NOW, 30) == ["cloud1", "cloud2", "cloud6"]


@pytest.mark.parametrize(
    ("code", "output", "failed"),
    [
        (0, "failed n1: not really\n", {}),
        (1, "failed n1: no quota\nfailed other: x\n", {"n1": "no quota"}),
        (1, "starting\nno cloud today\n\n", {"n1": "no cloud today", "n2": "no cloud today"}),
        (3, "", {"n1": "the hook ended with 3 and said nothing", "n2": "the hook ended with 3 and said nothing"}),
    ],
)
def test_a_hook_tells_which_nodes_failed(code, output, failed):
    assert PROGRAM.failures(code, output, ["n1", "n2"]) == failed


def test_a_hook_that_hangs_is_ended(tmp_path):
    hook = tmp_path / "hook"
    hook.write_text("#!/bin/sh\necho waiting\nsleep 60\n")
    hook.chmod(0o755)
    failed = PROGRAM.call(str(hook), "resume", ["n1"], 0.3)
    assert failed == {"n1": f"the hook {hook} did not end within 0.3 s"}


def test_a_hook_that_is_not_there_is_named(tmp_path):
    assert "can't be run: No such file" in PROGRAM.call(f"{tmp_path}/none", "resume", ["n1"], 1)["n1"]


def test_each_hook_gets_its_nodes():
    config = {"sets": [{"names": ["n1", "n2"], "hook": "local"}, {"names": ["n3"], "hook": "/x"}]}
    assert PROGRAM.by_hook(config, ["n3", "n1", "n2", "n9"]) == {"/x": ["n3"], "local": ["n1", "n2"], "": ["n9"]}


def test_slurm_conf_names_what_the_role_installs():
    files = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    installed = [
        entry["path"].replace("{{ __slurm_elastic_programs }}", files["__slurm_elastic_programs"])
        for entry in files["__slurm_elastic_files"]
    ]
    assert [path for path in slurm_settings.ELASTIC_PROGRAMS.values() if path not in installed] == []
