"""Another release of SLURM while a job runs, with two power cuts; and the step that would lose everything, refused.

The last file of the scenario: on Debian 13 the hosts have the next release afterwards. Debian 12's can't be upgraded in place.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

from local import Cluster, changed
from slurm_jobs import UNTIL_TOLD, ended, look, submit, tell

SITE = "playbooks/slurm.yml"
UPGRADE = "playbooks/slurm_upgrade.yml"
HOSTS = ("ctl1", "ctl2", "login", "gpu1", "gpu2")
# The suite after the hosts' own one, and the release of SLURM in it. Its index may be out of date on a mirror.
NEXT = {"bookworm": ("trixie", "24.11"), "trixie": ("forky", "26.05")}


def variables(cluster: Cluster) -> dict[str, Any]:
    return {
        "slurm_packages_suite": NEXT[cluster.release][0],
        "slurm_packages_check_valid_until": False,
        "slurm_upgrade_batch": "100%",
        "slurm_upgrade_wait": 300,
    }


def versions(cluster: Cluster) -> dict[str, str]:
    form = "'${Package} ${Version} ${db:Status-Status}\\n'"
    return {name: cluster.out(name, f"dpkg-query -W -f {form} 'slurm*' | sort; dpkg --audit; true") for name in HOSTS}


def power_cut(cluster: Cluster, when: Callable[[str], bool]) -> None:
    """Kill a run of slurm_upgrade when one of its lines says so, and on the first controller what installs packages."""

    def cut(line: str, process: subprocess.Popen[str]) -> None:
        if when(line):
            os.killpg(process.pid, signal.SIGKILL)

    code, output = cluster.watched_playbook(UPGRADE, cut, variables=variables(cluster))
    assert code == -signal.SIGKILL, output[-3000:]
    cluster.run("ctl1", "pkill -KILL apt-get; pkill -KILL dpkg")


def during_dpkg(cluster: Cluster) -> Callable[[str], bool]:
    def installs(line: str) -> bool:
        if not line.startswith("TASK [deephdc.accelerators.slurm_upgrade : Upgrade the packages of SLURM"):
            return False
        cluster.out(
            "ctl1",
            "for i in $(seq 2000); do pgrep -x dpkg >/dev/null && dpkg --audit | grep -q . && exit; sleep 0.05; done; exit 1",
            timeout=300,
        )
        return True

    return installs


def test_the_next_release_comes_while_a_job_runs_or_is_refused(cluster: Cluster):
    release = NEXT[cluster.release][1]
    before = versions(cluster)
    if cluster.release == "bookworm":
        output = " ".join(cluster.playbook(UPGRADE, variables=variables(cluster), succeeds=False).split())
        assert "SLURM 22.05 is installed, whose state and database 24.11 does not take over" in output
        assert "Upgrade the whole cluster to SLURM 23.11 and then to 24.11" in output
        assert versions(cluster) == before
        assert cluster.run("ctl1", "ls /etc/apt/*/deephdc-slurm*").returncode != 0, "nothing was changed"
        return

    # With states and without a beginning sacct tells only jobs that are in them now.
    history = "sacct -a -X -n -P -S now-1days -s CD -o jobid,state,elapsed"
    ended_before = set(cluster.out("login", history).splitlines())
    job = submit(
        cluster,
        "--gres=gpu:a100:1 --nodelist=gpu1",
        UNTIL_TOLD,
    )
    cluster.until("ctl1", f"squeue -h -j {job} -o %T", "RUNNING")

    power_cut(cluster, during_dpkg(cluster))
    assert cluster.run("ctl1", "dpkg --audit").stdout, "packages are half installed"
    power_cut(cluster, lambda line: line.startswith("PLAY [Start the controllers]"))

    def end_the_job() -> None:
        # gpu1 waits for it, and for nothing else.
        cluster.until("login", "sinfo -h -n gpu1 -p all -o %T", "drain", seconds=400)
        assert cluster.out("login", f"squeue -h -j {job} -o %T") == "RUNNING"
        tell(cluster, "gpu1", job)

    helper = threading.Thread(target=end_the_job)
    helper.start()
    began = time.monotonic()
    cluster.playbook(UPGRADE, variables=variables(cluster))
    print(f"the run after the power cuts took {time.monotonic() - began:.0f} s")
    helper.join()

    (row,) = ended(cluster, job)
    assert row["State"] == "COMPLETED" and "gres/gpu:a100=1" in row["AllocTRES"]
    assert "survived" in cluster.out("gpu1", f"cat /tmp/job-{job}_4294967294.out")
    assert ended_before <= set(cluster.out("login", history).splitlines())
    for name in HOSTS:
        assert cluster.out(name, "scontrol --version").split()[1].startswith(release), name
        assert cluster.out(name, "dpkg --audit; ls /usr/sbin/policy-rc.d 2>/dev/null; true") == "", name
    assert cluster.out("login", "scontrol ping", user="ada").count("is UP") == 2
    for name in ("gpu1", "gpu2"):
        cluster.until("ctl1", f"sinfo -h -n {name} -p all -o %T", "idle")
    assert '"version": "24.11' in cluster.out("ctl1", "cat /var/backups/slurm/*/manifest.json"), "one is from before"


def test_after_the_upgrade_nothing_is_left_to_do_and_a_new_node_gets_the_same(cluster: Cluster):
    if cluster.release == "bookworm":
        assert "24.11" not in str(versions(cluster))
        return
    assert "Nothing to do: every host has SLURM 26.05" in " ".join(cluster.playbook(UPGRADE, variables=variables(cluster)).split())
    assert changed(cluster.playbook(SITE, "--skip-tags", "validate", variables=variables(cluster))) == []
    # As a node that was never in the cluster.
    cluster.out(
        "gpu2",
        "systemctl stop slurmd; apt-get purge --yes 'slurm*' 'libslurm*' 'libpam-slurm*'; rm -rf /etc/apt/*/deephdc-slurm* /var/lib/slurm",
    )
    cluster.playbook(SITE, "--skip-tags", "validate", "--limit", "gpu2", variables=variables(cluster))
    assert cluster.out("gpu2", "slurmd -V").split()[1].startswith("26.05")
    job = submit(cluster, "--gres=gpu:a100:2 --nodelist=gpu2", look())
    assert ended(cluster, job)[0]["State"] == "COMPLETED"
