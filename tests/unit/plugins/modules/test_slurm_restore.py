# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module slurm_restore: a state is replaced as a whole, also where runs are killed, and never silently."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import tarfile
import time
from pathlib import Path

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import restored_state
from ansible_collections.deephdc.accelerators.plugins.modules import slurm_restore

ROOT = Path(__file__).parents[4]
FORMER = {"clustername": "former", "job_state": "former", "hash.1/job.1/script": "former"}
SAVED = {"clustername": "saved", "job_state": "saved", "qos_usage": "saved", "hash.2/job.2/script": "saved"}


class Killed(BaseException):
    """Stands for SIGKILL: nothing handles it."""


def fill(directory: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    return directory


def content(directory: Path) -> dict[str, str]:
    return {str(path.relative_to(directory)): path.read_text() for path in sorted(directory.rglob("*")) if path.is_file()}


def state_of(directory: Path) -> dict[str, str]:
    """The state without what earlier restores kept."""
    return {
        name: text for name, text in content(directory).items() if not name.startswith(".deephdc") and not name.startswith("before-restore")
    }


def make_backup(path: Path, files: dict[str, str]) -> Path:
    path.mkdir()
    for name, inside in (("state.tar.gz", files), ("configuration.tar.gz", {})):
        with tarfile.open(path / name, "w:gz") as tar:
            tar.add(fill(path.with_name(f"{path.name}-{name}"), {**inside, ".keep": ""}), arcname=".")
    manifest = {"version": "24.11.5", "database": False, "state": True, "rows": {}}
    manifest["files"] = {name: slurm_restore.backup.digest(path / name) for name in ("state.tar.gz", "configuration.tar.gz")}
    (path / "manifest.json").write_text(json.dumps({**manifest, "time": str(path)}))
    return path


@pytest.fixture
def site(tmp_path, monkeypatch, fake):
    monkeypatch.setattr(slurm_restore, "NOTE", str(tmp_path / "noted/slurm_restored"))
    monkeypatch.setattr(slurm_restore, "MOVED", str(tmp_path / "noted/slurm_moved"))
    monkeypatch.setattr(slurm_restore, "USER", getpass.getuser())
    monkeypatch.setattr(slurm_restore, "bring_configuration", lambda _archive, replaced: None)
    monkeypatch.setattr(os, "sync", lambda: None)  # of all file systems of this machine
    fake("systemctl", 'case "$1" in is-active) exit 3;; esac')
    return fill(tmp_path / "state", FORMER)


@pytest.fixture
def saved(tmp_path):
    return make_backup(tmp_path / "20261101T000000Z", SAVED)


@pytest.fixture
def restore(run, site, saved):
    return lambda path=saved, **options: run(
        slurm_restore, path=str(path), state=True, state_directory=str(site), version="24.11", **options
    )


def expected(files: dict[str, str]) -> dict[str, str]:
    return {**files, ".keep": ""}


def test_a_state_that_is_there_is_replaced_only_with_a_confirmation_and_kept(restore, site):
    refused = restore()
    assert refused["failed"] and "state already" in refused["msg"] and "slurm_restore_overwrite" in refused["msg"]
    assert content(site) == FORMER
    assert restore(overwrite=True)["restored"] == ["state"]
    assert state_of(site) == expected(SAVED)
    (kept,) = site.glob("before-restore-*")
    assert content(kept) == FORMER


def test_what_is_there_as_it_was_restored_is_left_and_what_was_used_is_refused(restore, site):
    restore(overwrite=True)
    assert restore()["restored"] == [], "a run that was killed later goes on"
    (site / "job_state").write_text("damaged")
    refused = restore()
    assert refused["failed"] and "restored from this backup and used since" in refused["msg"]
    assert restore(overwrite=True)["restored"] == ["state"]
    assert state_of(site)["job_state"] == "saved"


def test_a_unit_that_does_not_stop_ends_the_restore_and_leaves_no_note_that_hides_it(restore, site, fake):
    fake("systemctl", 'case "$1" in stop) echo timeout >&2; exit 1;; esac')
    refused = restore(overwrite=True)
    assert refused["failed"] and "slurmctld does not stop" in refused["msg"]
    assert content(site) == FORMER
    fake("systemctl", 'case "$1" in is-active) exit 3;; esac')
    assert restore()["failed"], "only a run that moved something away may go on without the confirmation"
    restore(overwrite=True)
    assert state_of(site) == expected(SAVED)


def killed_after(renames, rename):
    """A rename that ends its caller after so many that succeed."""
    done = []

    def limited(*paths):
        if len(done) == renames:
            raise Killed
        done.append(paths)
        rename(*paths)

    return limited


@pytest.mark.parametrize("again", ["the same", "another"])
def test_a_kill_at_any_step_leaves_a_state_that_the_next_run_completes(restore, site, saved, tmp_path, monkeypatch, again):
    other = make_backup(tmp_path / "20261102T000000Z", {**SAVED, "job_state": "other"})
    real = os.rename
    kills = 0
    for step in range(40):
        for path in sorted(site.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        fill(site, FORMER)
        (tmp_path / "noted/slurm_restored").unlink(missing_ok=True)
        monkeypatch.setattr(restored_state.os, "rename", killed_after(step, real))
        killed = False
        try:
            with (saved / "state.tar.gz").open("rb") as archive:
                restored_state.put(archive, str(site), slurm_restore.backup.digest(saved / "manifest.json"))
        except Killed:
            killed = True
        monkeypatch.setattr(restored_state.os, "rename", real)
        if not killed:
            break
        kills += 1
        chosen, wanted = (saved, SAVED) if again == "the same" else (other, {**SAVED, "job_state": "other"})
        result = restore(chosen, overwrite=True)
        assert not result.get("failed"), (step, result)
        assert state_of(site) == expected(wanted), step
        former = [content(path) for path in site.glob("before-restore-*")]
        assert FORMER in former, (step, former)
        assert not [name for name in restored_state.STEPS if (site / name).exists()], step
    assert kills > 8, "the test killed nothing"


def test_a_kill_after_the_last_step_and_before_the_note_is_completed_without_another_confirmation(restore, site, saved, tmp_path, fake):
    """Then the state is complete, but not recorded: a refusal would stop the operator."""
    restore(overwrite=True)
    noted = tmp_path / "noted/slurm_restored"
    entry = json.loads(noted.read_text())["state"]
    noted.write_text(json.dumps({"state": {**entry, "was": ""}}))
    assert restore(only_check=True)["begun"] == ["state"]
    assert restore()["restored"] == ["state"]
    noted.write_text(json.dumps({"state": {**entry, "was": ""}}))
    later = int((time.monotonic() + 5) * 1e6)
    fake("systemctl", f'case "$1" in is-active) exit 3;; show) echo {later};; esac')
    refused = restore()
    assert refused["failed"] and "a restore of this backup was not finished" in refused["msg"], "slurmctld has worked with it since"
    assert restore(resume=["state"])["restored"] == ["state"]


def test_slurmctld_does_not_start_while_a_restore_is_under_way(tmp_path):
    """The guard knows the names of the two directories."""
    vars_file = yaml.safe_load((ROOT / "roles/slurm_controller/vars/main.yml").read_text())
    steps = vars_file["__slurm_controller_restore_steps"]
    assert steps == [restored_state.LEAVING, restored_state.ENTERING]
    text = (ROOT / "roles/slurm_controller/templates/slurm_state_guard.sh.j2").read_text()
    conf = tmp_path / "slurm.conf"
    conf.write_text(f"StateSaveLocation={tmp_path}\n")
    text = text.replace("/etc/slurm/slurm.conf", str(conf)).replace("{{ __slurm_controller_state_note }}", str(tmp_path / "note"))
    for number, name in enumerate(steps):
        text = text.replace(f"{{{{ __slurm_controller_restore_steps[{number}] }}}}", name)
    text = text.replace("runuser -u slurm -- ", "")
    (tmp_path / "clustername").write_text("x")
    assert subprocess.run(["sh", "-c", text, "guard", "before"], check=False).returncode == 0
    for name in steps:
        (tmp_path / name).mkdir()
        answer = subprocess.run(["sh", "-c", text, "guard", "before"], check=False, stderr=subprocess.PIPE, text=True)
        assert answer.returncode == 1 and "run slurm_restore again" in answer.stderr
        (tmp_path / name).rmdir()


def test_nothing_follows_a_link_that_a_service_put_into_its_directory(tmp_path):
    (tmp_path / "target").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(OSError), (tmp_path / "target").open("rb") as source:
        restored_state.write_file(source, str(tmp_path / "link"), 0o644)
    assert (tmp_path / "target").read_text() == "precious"
