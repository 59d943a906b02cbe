# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module slurm_packages_facts."""

from __future__ import annotations

from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import packages as slurm_packages
from ansible_collections.deephdc.accelerators.plugins.modules import slurm_packages_facts


def facts(run, **options):
    return run(slurm_packages_facts, _ansible_check_mode=True, **options)["ansible_facts"]["slurm_packages"]


def test_installed_packages_of_slurms_source(run, fake):
    fake("dpkg-query", 'printf "slurmd slurm-wlm 24.11.5-4 installed\\nslurmctld slurm-wlm 26.05.5-1 half-configured\\n'
         'libslurm41 slurm-wlm 23.11.4-1 installed\\n'
         'slurmdbd slurm-wlm 22.05.8-4 config-files\\nmunge munge 0.5 installed\\n"')  # fmt: skip
    fake("systemctl", 'echo "ActiveState=active"; echo "MainPID=$PPID"; [ "$3" = slurmd ] || echo "ActiveState=failed"')
    fake("dpkg", 'echo "The following packages are only half configured"')
    fake("apt-get", "exit 0")
    fake("apt-cache", 'printf "slurm-client:\\n  Installed: (none)\\n  Candidate: 26.05.5-1\\n"')
    found = facts(run, candidate=True)
    assert found["installed"] == {"slurmd": "24.11.5-4", "slurmctld": "26.05.5-1"}
    assert (found["release"], found["broken"], found["candidate"]) == ("24.11", True, "26.05.5-1")
    assert found["stale"] == ["slurmctld"]


def test_nothing_installed(run, fake):
    fake("dpkg-query", "exit 1")
    fake("dpkg")
    fake("apt-get")
    fake("apt-cache", 'printf "slurm-client:\\n  Candidate: (none)\\n"')
    found = facts(run, candidate=True)
    assert (found["release"], found["installed"], found["broken"], found["candidate"]) == ("", {}, False, "")


def test_whether_apt_takes_slurm_from_another_suite(run, fake, monkeypatch, tmp_path):
    fake("dpkg-query")
    fake("dpkg")
    fake("apt-get")
    preferences = tmp_path / "preferences"
    monkeypatch.setattr(slurm_packages, "CHOICE", (str(tmp_path / "sources"), str(preferences)))
    assert run(slurm_packages_facts)["chosen"] is False
    # One alone, as a run that was killed leaves it.
    preferences.touch()
    assert run(slurm_packages_facts)["chosen"] is True


def test_an_archive_that_does_not_answer_is_named(run, fake):
    fake("dpkg-query")
    fake("dpkg")
    fake("apt-get", 'case "$*" in *update) echo "E: The repository has no Release file." >&2; exit 100;; esac')
    fake("apt-cache")
    result = run(slurm_packages_facts, candidate=True, sources="Types: deb\n")
    assert "apt can't read the packages of slurm_packages_suite: E: The repository has no Release file." in result["msg"]


def test_what_slurm_needs_of_its_suite_is_found_by_trying(run, fake):
    fake("dpkg-query", 'echo "slurmd slurm-wlm 24.11.5-4 installed"')
    fake("dpkg")
    fake("systemctl")
    fake(
        "apt-get",
        """case "$*" in
    indextargets*) ;;
    *libhwloc-plugins/forky*) echo "Inst libhwloc15 [2.12.0-4] (2.15.0-2 Debian:testing [amd64])"
        echo "Inst libhwloc-plugins [2.12.0-4] (2.15.0-2 Debian:testing [amd64])" ;;
    *libhwloc15/forky*) echo "Remv libhwloc-plugins [2.12.0-4]"; echo "Inst libhwloc15 [2.12.0-4] (2.15.0-2 Debian:testing [amd64])" ;;
    *) echo " slurmd : Depends: libhwloc15 (>= 2.15.0) but 2.12.0-4 is to be installed"; exit 100 ;;
    esac""",
    )
    fake(
        "apt-cache",
        """for name in libhwloc15 libhwloc-plugins; do echo "$name:"; echo "  Installed: 2.12.0-4"; echo "  Candidate: 2.12.0-4"; done""",
    )
    assert facts(run, suite="forky")["needs"] == ["libhwloc15=2.15.0-2", "libhwloc-plugins=2.15.0-2"]
