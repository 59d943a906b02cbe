"""Faults that each end in one sentence with cause and remedy, lose nothing, and are healed by a plain run."""

from __future__ import annotations

import subprocess
import time

import pytest
from local import Cluster, changed
from slurm_jobs import UNTIL_TOLD, ended, submit, tell
from slurm_site import INSTALLED, SITE, words

OWNS = (
    "playbooks/slurm.yml",
    "roles/munge/tasks/verify.yml",
    "plugins/modules/munge_trust.py",
    "tests/verify/slurm_day2/hanging.yml",
)


@pytest.fixture
def job(cluster: Cluster):
    """A GPU job of ada's on gpu1 that must live through the fault, with its accounting."""
    number = submit(cluster, "--gres=gpu:a100:1 --nodelist=gpu1", UNTIL_TOLD)
    cluster.until("ctl1", f"squeue -h -j {number} -o %T", "RUNNING")
    yield number
    assert cluster.out("ctl1", f"squeue -h -j {number} -o %T") == "RUNNING"
    tell(cluster, "gpu1", number)
    (row,) = ended(cluster, number)
    assert row["State"] == "COMPLETED"
    assert "gres/gpu:a100=1" in row["AllocTRES"]
    assert "survived" in cluster.out("gpu1", f"cat /tmp/job-{number}_4294967294.out")


def healed(cluster: Cluster) -> None:
    """A plain run makes everything good."""
    cluster.playbook(SITE, "--tags", "munge,slurm_cluster,slurm_node", *INSTALLED)
    for node, state in (("gpu1", "mix"), ("gpu2", "idle")):
        cluster.until("ctl1", f"sinfo -h -n {node} -p all -o %t", state)


def test_another_munge_key_on_one_node(cluster: Cluster, job: str):
    cluster.out("gpu2", "head -c 128 /dev/urandom > /etc/munge/munge.key; systemctl restart munge")
    output = cluster.playbook(SITE, "--tags", "slurm_cluster,slurm_node", succeeds=False)
    sentence = "The munge key of this host is not that of ctl1: run the playbook with the tag munge, which installs the cluster's key."
    assert sentence in words(output)
    assert "Left as they were or half done: gpu2." in words(output)
    healed(cluster)


# A file system whose server never answers: every question about a file there waits for ever. A process has it open.
HANGING = """
import ctypes, os, time
device = os.open("/dev/fuse", os.O_RDWR)
os.makedirs("/mnt/hangs", exist_ok=True)
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"hangs", b"/mnt/hangs", b"fuse", 0, b"fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % device):
    raise OSError(ctypes.get_errno(), "mount")
opened = os.open("/mnt/hangs", os.O_PATH)
time.sleep(600)
"""


def test_a_file_system_that_hangs_keeps_neither_modules_nor_jobs(cluster: Cluster):
    """NFS without its server looks like that: a module that asked for the device of every open file never ended."""
    cluster.out("gpu1", f"cat > /root/hanging.py <<'END'\n{HANGING}\nEND\n")
    cluster.out("gpu1", "test -e /dev/fuse || mknod /dev/fuse c 10 229; systemd-run --quiet --unit hanging python3 /root/hanging.py")
    cluster.until("gpu1", "cat /proc/mounts", "/mnt/hangs fuse")
    try:
        assert cluster.run("gpu1", "timeout 2 stat /mnt/hangs").returncode == 124, "it does not hang"
        cluster.playbook("tests/verify/slurm_day2/hanging.yml")
        job = submit(cluster, "--gres=gpu:a100:1 --nodelist=gpu1", "true")
        assert ended(cluster, job)[0]["State"] == "COMPLETED"
        cluster.until("ctl1", "sinfo -h -n gpu1 -p all -o %t", "idle")
    finally:
        cluster.out("gpu1", "systemctl kill --signal KILL hanging; umount --lazy /mnt/hangs; rm /root/hanging.py /dev/fuse")
        cluster.until("gpu1", "systemctl is-active hanging; true", "failed")
        cluster.out("gpu1", "systemctl reset-failed hanging")


def test_clock_an_hour_off_on_one_node(cluster: Cluster, job: str):
    """The containers share a clock, so it is munge alone that sees another one."""
    cluster.out("gpu2", "apt-get install -qq -y --no-install-recommends libfaketime", timeout=180)
    dropin = "/run/systemd/system/munge.service.d/skew.conf"
    library = cluster.out("gpu2", "dpkg -L libfaketime | grep 'libfaketime.so.1$'")
    cluster.out(
        "gpu2",
        f"mkdir -p $(dirname {dropin}); printf '[Service]\\nEnvironment=LD_PRELOAD={library} FAKETIME=+1h\\n' > {dropin};"
        "systemctl daemon-reload; systemctl restart munge",
    )
    try:
        output = cluster.playbook(SITE, "--tags", "munge", succeeds=False)
    finally:
        cluster.out("gpu2", f"rm {dropin}; systemctl daemon-reload; systemctl restart munge; apt-get purge -qq -y libfaketime", timeout=180)
    assert "s ahead of that of ctl1, too far for munge: set it right (timedatectl, chrony), then run again." in words(output)
    assert "Left as they were or half done: gpu2." in words(output)
    healed(cluster)


def test_database_gone_for_a_minute(cluster: Cluster, job: str):
    cluster.out("db", "systemctl stop mariadb")
    began = time.monotonic()
    try:
        short = submit(cluster, "--gres=gpu:a100:1 --nodelist=gpu2", "sleep 1")
        cluster.until("ctl1", f"scontrol -o show job {short}", "JobState=COMPLETED")
        output = cluster.playbook(SITE, "--tags", "slurm_cluster", succeeds=False)
        assert "slurmdbd does not answer" in words(output)
        time.sleep(max(0.0, 60 - (time.monotonic() - began)))
    finally:
        cluster.out("db", "systemctl start mariadb")
    (row,) = ended(cluster, short)
    assert (row["State"], row["NodeList"]) == ("COMPLETED", "gpu2")


def test_node_that_goes_away_during_the_run(cluster: Cluster, job: str):
    def cut(line: str, _process: subprocess.Popen[str]) -> None:
        if line.startswith("TASK [") and "Write what slurmd needs before" in line:
            subprocess.run(["docker", "kill", f"{cluster.label}-gpu2"], check=True, stdout=subprocess.DEVNULL)

    code, output = cluster.watched_playbook(SITE, cut)
    try:
        assert code != 0
        assert "Left as they were or half done: gpu2." in words(output)
        assert "a100 on gpu1: /dev/nvidia" in words(output), "the rest was done and proved"
    finally:
        subprocess.run(["docker", "start", f"{cluster.label}-gpu2"], check=True, stdout=subprocess.DEVNULL)
    cluster.until("gpu2", "systemctl is-system-running", "running")
    healed(cluster)
    assert changed(cluster.playbook(SITE, "--limit", "gpu2")) == []
