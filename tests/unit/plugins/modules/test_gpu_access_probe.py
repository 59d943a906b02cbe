# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module gpu_access_probe: what programs outside of jobs can open, where this host can start such programs."""

from __future__ import annotations

import json
import pwd
import subprocess
import sys

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import gpu_access_probe


@pytest.fixture
def host(fake, monkeypatch, tmp_path):
    """host(cron, unit): what opening /dev/null gives in cron's control group and in a user's unit."""
    group = tmp_path / "system.slice/cron.service"
    group.mkdir(parents=True)
    (group / "cgroup.procs").write_text("")
    monkeypatch.setattr(gpu_access_probe, "CGROUPS", str(tmp_path))

    def install(cron="EPERM", unit="EPERM"):
        fake("systemctl", 'case "$4" in cron.service) echo /system.slice/cron.service;; *) echo;; esac')
        fake("systemd-run", f"""echo '{{"/dev/null": "{unit}"}}'""" if unit else "echo 'Failed to connect to bus' >&2; exit 1")
        fake("setpriv", f"""echo '{{"/dev/null": "{cron}"}}'""")
        fake("timeout", 'shift; exec "$@"')
        return group

    return install


def test_denied_everywhere_and_what_is_not_there_is_told(run, host):
    group = host()
    result = run(gpu_access_probe, files=["/dev/null", "/dev/no_such_gpu"])
    assert (result["changed"], result["denied"]) == (False, ["a user's unit", "a new service", "cron.service"])
    assert result["not_tried"] == ["atd.service: it does not run here", "ssh.service: it does not run here"]
    said = "not tried: atd.service: it does not run here; ssh.service: it does not run here"
    assert result["text"] == f"GPUs are closed in a user's unit and a new service and cron.service; {said}"
    assert (group / "cgroup.procs").read_text().strip().isdigit(), "the program was where cron's are"


@pytest.mark.parametrize(("states", "place"), [({"cron": "opens"}, "cron.service"), ({"unit": "opens"}, "a user's unit")])
def test_an_open_gpu_is_a_failure(run, host, states, place):
    host(**states)
    result = run(gpu_access_probe, files=["/dev/null"])
    assert result["failed"] and f"can open GPUs here, in {place} (/dev/null)" in result["msg"]


def test_a_denial_that_is_not_the_control_groups_proves_nothing(run, host):
    host(cron="EACCES")
    result = run(gpu_access_probe, files=["/dev/null"])
    assert "cron.service: /dev/null: EACCES" in result["not_tried"] and "cron.service" not in result["denied"]


def test_a_host_that_can_not_start_units_says_so(run, host):
    host(unit="")
    assert (
        "a user's unit: the program did not run there: Failed to connect to bus" in run(gpu_access_probe, files=["/dev/null"])["not_tried"]
    )


def test_the_program_tells_an_open_device_from_a_closed_one(tmp_path):
    words = [sys.executable, "-c", gpu_access_probe.PROGRAM, "/dev/null", str(tmp_path / "missing")]
    said = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
    assert said == {"/dev/null": "opens", str(tmp_path / "missing"): "ENOENT"}


def test_no_account_has_the_number():
    with pytest.raises(KeyError):
        pwd.getpwuid(gpu_access_probe.stranger())
