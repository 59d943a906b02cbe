# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module unit_fresh against a systemctl that notes what it is asked for."""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
import socket
import time

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import file_set, unit_fresh

STATE = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "UnitFileState": "enabled",
    "NeedDaemonReload": "no",
    "ExecMainPID": str(os.getpid()),
}


@pytest.fixture
def unit(run, fake, tmp_path):
    """unit(options, LoadState=..., action_fails=...) runs the module.

    Its result has what was done in the key did. What was started is active, unless its sub_state says that it ended.
    """
    started_once = tmp_path / "started_once"

    def keep_fresh(*, action_fails=False, sub_state="running", age=100.0, _ansible_check_mode=False, options=None, **state):
        started = int((time.monotonic() - age) * 1e6)
        told = "\n".join(f"{key}={value}" for key, value in {**STATE, "ExecMainStartTimestampMonotonic": str(started), **state}.items())
        started_once.unlink(missing_ok=True)
        lives = "sed s/^ActiveState=.*/ActiveState=active/" if sub_state == "running" else "cat"
        failing = "case $1 in start|restart) echo 'see journalctl -xe' >&2; exit 1;; esac" if action_fails else ""
        told += f"\nSubState={sub_state}"
        show = f"[ -e {started_once} ] && alive='{lives}' || alive=cat; $alive <<'END'\n{told}\nEND\nexit 0"
        fake("systemctl", f"if [ $1 = show ]; then {show}\nfi\n{failing}\ncase $1 in start|restart) touch {started_once};; esac\nexit 0")
        # The last is of a process that the unit leaves on purpose, and no word of its own.
        left = "echo 'slurmctld.service: Found left-over process 7 (sh) in control group while starting unit. Ignoring.'"
        fake("journalctl", f"echo 'slurmctld: error: Parsing error'\necho ' at line 7 '\n{left}")
        before = len(fake.calls())
        result = run(unit_fresh, name="slurmctld", _ansible_check_mode=_ansible_check_mode, **(options or {}))
        calls = fake.calls()[before:]
        done = [call for call in calls if call.startswith("systemctl ") and not call.startswith("systemctl show")]
        return {**result, "calls": calls, "did": [call[len("systemctl ") :] for call in done]}

    return keep_fresh


RESTART = ["reset-failed slurmctld", "restart slurmctld"]


@pytest.fixture
def conf(tmp_path):
    """A file of the given age in seconds."""

    def make(age):
        file = tmp_path / "slurm.conf"
        file.write_text("x")
        moment = time.time() - age
        os.utime(file, (moment, moment))
        return str(file)

    return make


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def test_fresh_unit_is_left_alone(unit, conf, tmp_path):
    file = conf(200)
    result = unit(options={"files": [file, str(tmp_path / "absent.conf")], "copies": {file: digest("x")}})
    assert (result["changed"], result["action"], result["reasons"], result["did"]) == (False, "none", [], [])


@pytest.mark.parametrize("state", ["inactive", "failed", "deactivating", "activating"])
def test_unit_that_does_not_run_is_started(unit, state):
    result = unit(ActiveState=state, ExecMainPID="0", ExecMainStartTimestampMonotonic="0")
    assert (result["changed"], result["action"], result["reasons"]) == (True, "start", ["it does not run"])
    assert result["did"] == ["reset-failed slurmctld", "start slurmctld"]


def test_newer_file_restarts(unit, conf):
    file = conf(50)
    result = unit(options={"files": [file]})
    assert (result["action"], result["reasons"], result["did"]) == ("restart", [f"{file} is newer than the running process"], RESTART)
    assert unit(age=10, options={"files": [file]})["changed"] is False


def test_reloading_unit_runs(unit):
    assert unit(ActiveState="reloading")["changed"] is False


def test_replaced_program_restarts(unit, monkeypatch):
    monkeypatch.setattr(os, "readlink", lambda path: "/usr/sbin/slurmctld (deleted)")
    result = unit()
    assert (result["action"], result["reasons"]) == ("restart", ["its program was replaced on disk"])


def test_changed_unit_file_is_loaded_before_the_restart(unit):
    result = unit(NeedDaemonReload="yes")
    assert (result["action"], result["reasons"]) == ("restart", ["its unit files changed"])
    assert result["did"] == ["daemon-reload", *RESTART]


def test_first_drop_in_of_a_loaded_unit_restarts(unit, tmp_path, monkeypatch):
    """systemd says NeedDaemonReload=no of it."""
    monkeypatch.setattr(unit_fresh, "UNIT_FILES", str(tmp_path))
    dropin = tmp_path / "slurmctld.service.d/deephdc.conf"
    dropin.parent.mkdir()
    dropin.write_text("[Service]\n")
    assert unit(DropInPaths="/usr/lib/systemd/system/service.d/10.conf")["did"] == ["daemon-reload", *RESTART]
    assert unit(DropInPaths=f"/usr/lib/systemd/system/service.d/10.conf {dropin}")["did"] == []


@pytest.mark.parametrize("state", ["disabled", ""])
def test_unit_is_enabled_without_a_restart(unit, state):
    result = unit(UnitFileState=state)
    assert (result["changed"], result["action"], result["reasons"], result["did"]) == (
        True,
        "enable",
        ["it was not enabled"],
        ["enable slurmctld"],
    )


@pytest.mark.parametrize("state", ["static", "indirect", "generated", "enabled-runtime"])
def test_unit_that_cannot_be_enabled_is_not(unit, state):
    assert unit(UnitFileState=state)["changed"] is False


# --- copies ---


def test_wrong_copy_restarts_once_it_had_time(unit, conf):
    file = conf(200)
    began = time.monotonic()
    result = unit(options={"copies": {file: digest("other")}, "settle": 0.5})
    assert time.monotonic() - began >= 0.5
    assert (result["action"], result["reasons"], result["did"]) == ("restart", [f"{file} is not the current one"], RESTART)


def test_copy_that_comes_in_time_restarts_nothing(unit, conf, monkeypatch):
    file = conf(200)

    def arrives(_seconds):
        with open(file, "w", encoding="utf-8") as copy:
            copy.write("new")

    monkeypatch.setattr(unit_fresh.time, "sleep", arrives)
    assert unit(options={"copies": {file: digest("new")}, "settle": 60})["changed"] is False


def test_missing_copy_restarts(unit, tmp_path):
    path = str(tmp_path / "gres.conf")
    assert unit(options={"copies": {path: digest("")}})["reasons"] == [f"{path} is missing"]


def test_check_mode_does_not_wait_for_copies(unit, tmp_path):
    began = time.monotonic()
    result = unit(_ansible_check_mode=True, options={"copies": {str(tmp_path / "a"): "x"}, "settle": 30})
    assert result["action"] == "restart" and time.monotonic() - began < 10


# --- check mode ---


@pytest.mark.parametrize(
    ("state", "action"),
    [
        ({"ActiveState": "inactive"}, "start"),
        ({"NeedDaemonReload": "yes"}, "restart"),
        ({"UnitFileState": "disabled"}, "enable"),
        ({"LoadState": "not-found", "ActiveState": "inactive", "UnitFileState": ""}, "start"),
        ({}, "none"),
    ],
)
def test_check_mode_predicts_and_does_nothing(unit, state, action):
    result = unit(_ansible_check_mode=True, options={"ready": ["false"]}, **state)
    assert (result["action"], result["changed"]) == (action, action != "none")
    assert result["did"] == [] and [call for call in result["calls"] if not call.startswith("systemctl show")] == []


# --- refusals and failures ---


def test_masked_unit_is_not_touched(unit):
    for check in (True, False):
        result = unit(_ansible_check_mode=check, LoadState="masked", ActiveState="inactive", UnitFileState="masked")
        assert result["failed"] and result["msg"].startswith("the unit slurmctld is masked; run 'systemctl unmask slurmctld'")
        assert result["did"] == []


def test_missing_unit(unit):
    assert unit(LoadState="not-found", ActiveState="inactive", UnitFileState="")["msg"] == "this host has no unit slurmctld"


def test_failure_shows_the_journal(unit):
    result = unit(ActiveState="failed", action_fails=True)
    assert result["failed"] and result["msg"] == "slurmctld does not start: slurmctld: error: Parsing error | at line 7"
    assert (result["action"], result["reasons"]) == ("start", ["it does not run"])


def test_failure_without_a_journal_shows_what_systemctl_said(unit, monkeypatch):
    monkeypatch.setattr(unit_fresh, "last_words", lambda *_arguments: "")
    assert unit(NeedDaemonReload="yes", action_fails=True)["msg"] == "slurmctld does not restart: see journalctl -xe"


# --- readiness ---


def test_ready_is_tried_until_it_succeeds_also_without_a_restart(unit, fake, tmp_path):
    fake("ping_it", f'echo x >> {tmp_path}/tries\n[ "$(wc -l < {tmp_path}/tries)" -ge 3 ]')
    result = unit(options={"ready": ["ping_it", "now"]})
    assert result["changed"] is False and "failed" not in result
    assert result["calls"].count("ping_it now") == 3


def test_a_unit_serves_when_its_addresses_take_connections(unit, tmp_path):
    with socket.socket(socket.AF_UNIX) as server, socket.create_server(("127.0.0.1", 0)) as other:
        server.bind(str(tmp_path / "socket"))
        server.listen()
        addresses = [str(tmp_path / "socket"), f"127.0.0.1:{other.getsockname()[1]}"]
        assert "failed" not in unit(options={"listens": addresses})
    for address, words in ((addresses[1], "Connection refused"), (str(tmp_path / "none"), "No such file"), ("127.0.0.1:x", "invalid")):
        result = unit(ActiveState="inactive", options={"listens": [address], "ready_timeout": 0.5})
        assert result["failed"] and f"is not ready after 0.5 s ({address}: " in result["msg"] and words in result["msg"]


def test_never_ready_tells_the_command_and_the_journal(unit, fake):
    fake("ping_it", "echo 'controller is\n DOWN' >&2; exit 1")
    result = unit(ActiveState="inactive", options={"ready": ["ping_it"], "ready_timeout": 0.5})
    assert result["failed"] and result["msg"] == (
        "slurmctld is not ready after 0.5 s (controller is DOWN); its last words: slurmctld: error: Parsing error | at line 7"
    )
    assert (result["action"], result["reasons"]) == ("start", ["it does not run"])


@pytest.mark.parametrize("sub_state", ["auto-restart", "failed"])
def test_a_unit_without_a_sign_of_its_own_must_live_on(unit, sub_state):
    result = unit(ActiveState="inactive", sub_state=sub_state)
    assert result["msg"] == "slurmctld ended again; its last words: slurmctld: error: Parsing error | at line 7"


@pytest.fixture
def changed_file(run, tmp_path):
    """A file of the unit that was replaced since its start, the former one kept."""
    path = tmp_path / "etc" / "kubelet.conf"
    path.parent.mkdir()
    path.write_text("good\n")
    former = path.with_name(".kubelet.conf.former")
    owner = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name
    item = {"path": str(path), "owner": owner[0], "group": owner[1], "keep_former": True}
    assert run(file_set, files=[item | {"content": "good\n"}])["changed"] is False and not former.exists()
    for content in ("bad\n", "worse\n"):
        assert run(file_set, files=[item | {"content": content}])["changed"]
        assert former.read_text() == "good\n"
    return path


def test_the_former_file_is_forgotten_once_the_unit_runs_with_the_new_one(unit, changed_file):
    result = unit(options={"files": [str(changed_file)]})
    assert (result["action"], changed_file.read_text()) == ("restart", "worse\n")
    assert [file.name for file in changed_file.parent.iterdir() if "before-deephdc" not in file.name] == ["kubelet.conf"]


def test_the_former_file_is_back_where_the_unit_does_not_run_with_the_new_one(unit, fake, changed_file):
    fake("ping_it", f"grep good {changed_file}")
    result = unit(options={"files": [str(changed_file)], "ready": ["ping_it"], "ready_timeout": 0.5})
    assert result["failed"] and changed_file.read_text() == "good\n"
    # The former file may be the unit file itself.
    assert result["did"] == [*RESTART, "daemon-reload", *RESTART]
    assert result["msg"].startswith("slurmctld is not ready after 0.5 s")
    assert result["msg"].endswith(f". The former {changed_file} is back, and slurmctld runs with it")


def test_a_former_file_that_does_not_help_is_said(unit, changed_file):
    result = unit(action_fails=True, options={"files": [str(changed_file)]})
    assert result["msg"].endswith(f". The former {changed_file} is back, but slurmctld does not run with it either: see journalctl -xe")


def test_check_mode_leaves_the_former_file(unit, changed_file):
    unit(options={"files": [str(changed_file)]}, _ansible_check_mode=True)
    assert changed_file.with_name(".kubelet.conf.former").exists()


@pytest.mark.parametrize("sub_state", ["auto-restart", "failed"])
def test_unit_that_ended_again_is_not_waited_for(unit, fake, sub_state):
    fake("ping_it", "echo down >&2; exit 1")
    began = time.monotonic()
    result = unit(ActiveState="inactive", sub_state=sub_state, options={"ready": ["ping_it"], "ready_timeout": 60})
    assert time.monotonic() - began < 30
    assert result["msg"].startswith("slurmctld ended again")
    assert result["msg"].endswith("; its last words: slurmctld: error: Parsing error | at line 7")


@pytest.mark.parametrize(
    ("age", "said"), [(-5, "line 3 | line 4 | line 5 | fatal: no"), (100, "slurmctld: error: Parsing error | at line 7")]
)
def test_log_file_tells_unless_it_is_older_than_the_attempt(unit, conf, age, said):
    log = conf(age)
    status = os.stat(log)
    with open(log, "w", encoding="utf-8") as file:
        file.write("line 1\nline 2\nline 3\nline 4\nline 5\nfatal: no\n")
    os.utime(log, (status.st_atime, status.st_mtime))
    result = unit(ActiveState="failed", action_fails=True, options={"log": log})
    assert result["msg"] == f"slurmctld does not start: {said}"


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_log_that_a_service_made_anew_is_not_read(unit, tmp_path, kind):
    """A pipe would keep the run waiting, and a link would show lines of another file."""
    log, secret = tmp_path / "service.log", tmp_path / "secret"
    secret.write_text("of root\n", encoding="utf-8")
    if kind == "pipe":
        os.mkfifo(log)
    else:
        log.symlink_to(secret)
    result = unit(ActiveState="failed", action_fails=True, options={"log": str(log)})
    assert result["msg"] == "slurmctld does not start: slurmctld: error: Parsing error | at line 7"


def test_directory_among_the_files_says_nothing(unit, conf, tmp_path):
    conf(0)
    assert unit(options={"files": [str(tmp_path)]})["changed"] is False


def change_of_state(seconds_ago):
    return str(int((time.monotonic() - seconds_ago) * 1e6))


def test_a_unit_that_can_takes_up_its_files_by_a_reload(unit, conf):
    options = {"files": [conf(age=50)], "reload": True}
    result = unit(StateChangeTimestampMonotonic=change_of_state(100), ReloadResult="success", options=options)
    assert (result["action"], result["did"]) == ("reload", ["reset-failed slurmctld", "reload slurmctld"])


def test_a_reload_since_the_change_is_enough(unit, conf):
    options = {"files": [conf(age=50)], "reload": True}
    assert unit(StateChangeTimestampMonotonic=change_of_state(20), ReloadResult="success", options=options)["action"] == "none"


def test_a_reload_that_failed_is_none(unit, conf):
    options = {"files": [conf(age=50)], "reload": True}
    assert unit(StateChangeTimestampMonotonic=change_of_state(20), ReloadResult="exit-code", options=options)["action"] == "reload"


def test_a_unit_whose_own_files_changed_needs_a_restart(unit, conf):
    options = {"files": [conf(age=50)], "reload": True}
    assert unit(NeedDaemonReload="yes", StateChangeTimestampMonotonic=change_of_state(100), options=options)["action"] == "restart"
