# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The lock of a site: its program on a host, run here below another folder, and what the control node makes of it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from ansible_collections.deephdc.accelerators.plugins.filter.site_check import site_check_lock_hosts
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _site_lock
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._site_lock import Run

ADA = Run("aaaa", "machine1", 11, "100", "ada on admin1 with slurm.yml, since 2026-11-28 14:02 UTC")
EMMY = Run("bbbb", "machine2", 22, "200", "emmy on admin2 with slurm.yml, since 2026-11-28 14:03 UTC")


class Host:
    def __init__(self, place, monkeypatch):
        self.folder, self.uptime, self.user = place / "run", place / "uptime", place / "id"
        self.file = self.folder / "site_lock"
        self.uptime.write_text("1000.52 4.1\n")
        self.is_root(True)
        program = _site_lock.PROGRAM.replace(_site_lock.FOLDER, str(self.folder)).replace("/proc/uptime", str(self.uptime))
        monkeypatch.setattr(_site_lock, "PROGRAM", program.replace("$(id -u)", f"$({self.user})"))

    def is_root(self, value):
        self.user.write_text(f"#!/bin/sh\necho {0 if value else 1000}\n")
        self.user.chmod(0o755)

    def ask(self, what, run, other="-"):
        done = subprocess.run(["sh", "-c", _site_lock.command(what, run, other)], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()


@pytest.fixture
def host(tmp_path, monkeypatch):
    return Host(tmp_path, monkeypatch)


def test_the_second_run_is_refused_and_named_who_is_there(host):
    assert host.ask("take", ADA) == ["taken"]
    assert host.ask("take", ADA) == ["kept"], "a later playbook of the same run"
    word, *lines = host.ask("take", EMMY)
    assert (word, _site_lock.holder(lines)) == ("held", ADA)
    assert host.ask("release", EMMY) == ["released"] and host.file.exists()
    assert host.ask("release", ADA) == ["released"] and not host.file.exists()
    assert host.ask("take", EMMY) == ["taken"]


def test_a_lock_ends_without_news_of_its_run(host):
    host.ask("take", ADA)
    host.uptime.write_text("1170.0 1\n")
    assert host.ask("renew", ADA) == ["renewed"]
    host.uptime.write_text("1349.0 1\n")
    assert host.ask("take", EMMY)[0] == "held"
    host.uptime.write_text("1350.0 1\n")
    word, *lines = host.ask("take", EMMY)
    assert (word, _site_lock.holder(lines)) == ("taken", ADA)
    assert host.ask("renew", ADA) == ["lost"] and host.ask("renew", EMMY) == ["renewed"]


def test_a_run_that_is_known_to_have_ended_gives_way(host):
    host.ask("take", ADA)
    assert host.ask("take", EMMY, "cccc")[0] == "held"
    assert host.ask("take", EMMY, ADA.run)[0] == "taken"


def test_a_host_that_was_booted_has_the_lock_again(host):
    host.ask("take", ADA)
    host.file.unlink()
    assert host.ask("renew", ADA) == ["renewed"] and host.ask("take", EMMY)[0] == "held"


@pytest.mark.parametrize("text", ["", "aaaa\n", "aaaa 99999 m x 1\nada\n", "aaaa 99999 m 1 1\n"])
def test_a_damaged_file_is_not_taken_for_a_run(host, text):
    host.folder.mkdir()
    host.file.write_text(text)
    word, *lines = host.ask("take", EMMY)
    assert word == "taken" if not text else _site_lock.holder(lines) is None


def test_who_is_not_root_gets_nothing(host):
    host.is_root(False)
    assert host.ask("take", ADA) == ["not root"] and not host.folder.exists()


@pytest.mark.parametrize("text", ["a'b", '"; touch x; "', "$(touch x)", "a\nb", "%s %d", "\\", "\x1b[31m"])
def test_a_name_is_text_only(host, text, monkeypatch):
    monkeypatch.setattr(_site_lock.platform, "node", lambda: text)
    run = _site_lock.this(os.getpid(), text, [f"/site/{text}.yml"], "2026-11-28 14:02 UTC")
    host.ask("take", run)
    word, *lines = host.ask("take", EMMY)
    assert word == "held" and _site_lock.holder(lines) == run and not os.path.exists("x")
    assert "\n" not in run.sentence and "\x1b" not in run.sentence


def test_a_run_of_this_control_node_has_ended_with_its_process():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        run = _site_lock.this(process.pid, "ada", ["slurm.yml"], "now")
        assert run.sentence.startswith("ada on ") and run.sentence.endswith(" with slurm.yml, since now")
        assert not _site_lock.has_ended(run)
        assert _site_lock.has_ended(run._replace(start="1")), "the number is another process's by now"
        assert not _site_lock.has_ended(run._replace(start="1", machine="other")), "it can't be seen from here"
    assert _site_lock.has_ended(run)
    assert _site_lock.this(os.getpid(), "ada", [], "now") == _site_lock.this(os.getpid(), "ada", [], "now")


def test_a_process_that_proc_hides_has_not_ended(monkeypatch):
    """With hidepid=2 those of other users are not in /proc."""
    run = Run("aaaa", _site_lock.machine(), os.getppid(), "100", "emmy on admin1")

    def hidden(*_words, **_more):
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", hidden)
    monkeypatch.setattr(_site_lock, "machine", lambda: run.machine)

    def forbidden(_process, _signal):
        raise PermissionError

    monkeypatch.setattr(os, "kill", forbidden)
    assert not _site_lock.has_ended(run)


GROUPS = {
    "all": ["ctl", "gpu1", "gpu2", "cp1", "cp2", "cp3", "cp4", "one", "lone1", "lone2", "a_switch"],
    "others": ["a_switch"],
    "iam_hosts": ["ctl", "lone2"],
    "slurm_controllers": ["ctl"],
    "slurm_nodes": ["gpu1", "gpu2"],
    "kubernetes_control_plane": ["cp1", "cp2", "cp3", "cp4"],
    "kubernetes_workers": ["gpu2"],
    "gpu_hosts": ["lone2", "lone1"],
    "opennebula_frontends": ["one"],
}


@pytest.mark.parametrize(
    ("wanted", "hosts"),
    [
        (["slurm_controllers:slurm_databases"], ["ctl", "cp1", "cp2", "cp3"]),  # as gpu2 is in both
        (["opennebula_frontends"], ["one"]),
        (["opennebula_hosts", "gpu_hosts"], ["one", "lone1", "lone2"]),
        (["iam_hosts"], ["ctl", "lone1", "lone2"]),
        (["gpu_hosts"], ["lone1", "lone2"]),
        (["all"], ["ctl", "cp1", "cp2", "cp3", "one", "a_switch", "lone1", "lone2"]),
        (["mesos_masters"], []),
        ([], []),
    ],
)
def test_the_lock_is_on_the_first_hosts_of_each_site(wanted, hosts):
    assert site_check_lock_hosts(GROUPS, wanted) == hosts
