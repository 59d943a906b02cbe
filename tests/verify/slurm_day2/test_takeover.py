"""Two controllers with one state, two slurmdbd with one database outside: each may die while a job runs."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from local import Cluster, changed
from slurm_jobs import UNTIL_TOLD, ended, look, opened, submit, tell
from slurm_operations import STATE, saved
from slurm_site import INSTALLED, SITE, words

OWNS = (
    "roles/slurm_cluster/tasks/move_state.yml",
    "roles/slurm_controller/templates/slurm_state_guard.sh.j2",
    "roles/slurm_database/tasks/check.yml",
    "plugins/filter/slurm_controllers.py",
    "plugins/module_utils/_slurm/state.py",
    "plugins/modules/slurm_state_directory.py",
    "plugins/plugin_utils/_slurm/controllers.py",
)


def docker(*words: str) -> None:
    subprocess.run(["docker", *words], check=True, stdout=subprocess.DEVNULL)


def test_both_controllers_answer_and_share_the_state(cluster: Cluster):
    assert cluster.out("login", "scontrol ping", user="ada").count("is UP") == 2
    for name in ("ctl1", "ctl2"):
        assert cluster.out(name, f"stat -c '%U:%G %a' {STATE}") == "slurm:slurm 700"
        assert cluster.out(name, "cat /var/lib/deephdc/slurm_state") == STATE
    assert cluster.out("ctl1", "sha256sum < /etc/slurm/slurm.conf") == cluster.out("ctl2", "sha256sum < /etc/slurm/slurm.conf")


def test_a_third_controller_without_the_shared_directory_is_refused_before_anything_is_installed(cluster: Cluster, tmp_path: Path):
    third = tmp_path / "third.yml"
    third.write_text("slurm_controllers: {hosts: {login: {}}}\n", encoding="utf-8")
    there = "dpkg-query --show | sha256sum; ls -l /etc/slurm /etc/systemd/system"
    before = cluster.out("login", there)
    for check in (["--check"], []):
        output = cluster.playbook(SITE, *check, inventories=("hosts.yml", str(third)), succeeds=False)
        assert f"login: {STATE} (slurm_controller_state_directory) has no state of slurmctld, and that of ctl1 has one" in words(output)
        assert changed(output) == []
    assert cluster.out("login", there) == before


def test_slurmdbd_goes_to_its_database_by_tls_and_keeps_the_password(cluster: Cluster):
    for name in ("ctl1", "ctl2"):
        assert cluster.out(name, "stat -c '%U %a' /etc/slurm/slurmdbd.conf") == "slurm 600"
        assert cluster.run(name, "command -v mariadbd").returncode != 0, "its database is elsewhere"
    password = cluster.out("ctl1", "sed -n s/^StoragePass=//p /etc/slurm/slurmdbd.conf")
    output = cluster.playbook(SITE, "-vvv", "--diff", "--tags", "slurm_database")
    assert len(password) == 32 and password not in output
    assert changed(output) == []


def test_accounting_goes_on_without_the_first_slurmdbd(cluster: Cluster):
    cluster.out("ctl1", "systemctl stop slurmdbd")
    try:
        cluster.until("login", "sacctmgr -n list cluster format=cluster%30", f"day2_{cluster.release}")
        job = submit(cluster, "--gres=gpu:a100:1", look())
        (row,) = ended(cluster, job)
        assert row["State"] == "COMPLETED" and "gres/gpu:a100=1" in row["AllocTRES"]
    finally:
        cluster.out("ctl1", "systemctl start slurmdbd")
    cluster.until("ctl1", "ss -Hltn sport = :6819", ":6819")


def test_the_backup_takes_over_and_gives_back_while_a_job_runs(cluster: Cluster):
    long = submit(cluster, "--gres=gpu:a100:1 --nodelist=gpu1", UNTIL_TOLD)
    short = submit(cluster, "--gres=gpu:a100:1 --nodelist=gpu2", UNTIL_TOLD)
    for job in (long, short):
        cluster.until("ctl1", f"squeue -h -j {job} -o %T", "RUNNING")
        saved(cluster, job)

    docker("kill", f"{cluster.label}-ctl1")
    began = time.monotonic()
    try:
        tell(cluster, "gpu2", short)
        cluster.until("login", "timeout 20 squeue -h -o %i", long, seconds=90)
        print(f"the backup answered after {time.monotonic() - began:.0f} s")
        assert cluster.out("login", f"squeue -h -j {long} -o %T") == "RUNNING"
        # The backup slurmdbd first gives up on connections to the dead host.
        cluster.until("login", "timeout 20 sacctmgr -n list cluster format=cluster%30", f"day2_{cluster.release}", seconds=120)
        # Its end has waited for a controller and for a slurmdbd.
        assert ended(cluster, short, seconds=240)[0]["State"] == "COMPLETED"
        new = submit(cluster, "--gres=gpu:a100:2 --nodelist=gpu2", look())
        assert ended(cluster, new)[0]["State"] == "COMPLETED"
        assert len(opened(cluster, "gpu2", new)) == 2

        output = cluster.playbook(SITE, *INSTALLED, succeeds=False)
        assert "Left as they were or half done: ctl1." in words(output)
        assert changed(output) == []
        others = [line for line in output.split("PLAY RECAP")[1].splitlines() if line.startswith(("ctl2", "gpu", "login"))]
        assert len(others) == 4 and all("failed=0" in line for line in others), "the run is complete for the rest"
    finally:
        docker("start", f"{cluster.label}-ctl1")
    cluster.until("login", "scontrol ping", "primary) at ctl1 is UP")
    # It answers pings before it has taken over.
    cluster.until("login", f"timeout 20 squeue -h -j {long} -o %T", "RUNNING")

    assert changed(cluster.playbook(SITE, "--tags", "slurm_database,slurm_controller,slurm_cluster", "--skip-tags", "install")) == []
    tell(cluster, "gpu1", long)
    (row,) = ended(cluster, long)
    assert (row["State"], row["ExitCode"]) == ("COMPLETED", "0:0")
    assert "gres/gpu:a100=1" in row["AllocTRES"] and int(row["ElapsedRaw"]) >= time.monotonic() - began - 5
    assert "survived" in cluster.out("gpu1", f"cat /tmp/job-{long}_4294967294.out")


def test_slurmctld_does_not_start_without_its_state(cluster: Cluster):
    """As where the shared file system is not mounted after a boot."""
    cluster.out("ctl2", f"systemctl stop slurmctld; mkdir /tmp/empty; chown slurm /tmp/empty; mount --bind /tmp/empty {STATE}")
    try:
        assert cluster.run("ctl2", "systemctl start slurmctld").returncode != 0
        assert "has no state of slurmctld although slurmctld ran with it" in cluster.out("ctl2", "journalctl -u slurmctld -o cat -n 20")
        output = cluster.playbook(SITE, succeeds=False)
        assert f"ctl2: {STATE} has no state of slurmctld although slurmctld ran with it" in words(output)
        assert changed(output) == []
        # The directory of another file system has a state, but not this one.
        cluster.out("ctl2", "echo day2 > /tmp/empty/clustername; chown slurm /tmp/empty/*")
        output = cluster.playbook(SITE, "--tags", "slurm_cluster", succeeds=False)
        assert f"ctl2: {STATE} (slurm_controller_state_directory) has another state of slurmctld, and that of ctl1 has one" in words(output)
        assert changed(output) == []
    finally:
        cluster.out("ctl2", f"umount {STATE}; rm -r /tmp/empty")
    cluster.out("ctl2", "systemctl start slurmctld")
    cluster.until("login", "scontrol ping", "backup) at ctl2 is UP")


def test_the_state_is_moved_while_a_job_runs(cluster: Cluster):
    """To another directory and back; slurmctld never runs on the outdated one."""
    job = submit(cluster, "--gres=gpu:a100:1 --nodelist=gpu1", UNTIL_TOLD)
    cluster.until("ctl1", f"squeue -h -j {job} -o %T", "RUNNING")
    moved = {"slurm_controller_state_directory": "/srv/slurm/moved"}
    cluster.playbook(SITE, "--tags", "slurm_controller,slurm_cluster", variables=moved)
    assert cluster.out("login", "scontrol ping").count("is UP") == 2
    assert cluster.out("login", f"squeue -h -j {job} -o %T") == "RUNNING"

    output = cluster.playbook(SITE, "--tags", "slurm_cluster", succeeds=False)
    assert f"on ctl1 {STATE} has a state already, and slurmctld runs with the other" in words(output)
    assert changed(output) == []
    cluster.out("ctl1", f"rm -r {STATE}")
    cluster.playbook(SITE, "--tags", "slurm_controller,slurm_cluster")
    assert cluster.out("login", f"squeue -h -j {job} -o %T") == "RUNNING"
    tell(cluster, "gpu1", job)
    assert ended(cluster, job)[0]["State"] == "COMPLETED"
    cluster.out("ctl1", "rm -r /srv/slurm/moved")
