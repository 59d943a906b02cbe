"""Another release of SLURM while a job runs, with two power cuts.

Debian 12's SLURM can't be upgraded in place: test_upgrade_refused.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from local import Cluster, changed
from slurm_jobs import UNTIL_TOLD, ended, look, submit, tell
from slurm_site import SITE, words

OWNS = (
    "playbooks/slurm_upgrade.yml",
    "roles/slurm_packages/tasks/target.yml",
    "roles/slurm_packages/templates",
    "roles/slurm_upgrade",
    "plugins/filter/slurm_upgrade.py",
    "plugins/module_utils/_host/dpkg.py",
    "plugins/module_utils/_slurm/packages.py",
    "plugins/module_utils/_slurm/releases.py",
)

UPGRADE = "playbooks/slurm_upgrade.yml"
HOSTS = ("ctl1", "ctl2", "login", "gpu1", "gpu2")
# The suite after Debian 13 has this release of SLURM. Its index may be out of date on a mirror.
RELEASE = "26.05"
VARIABLES: dict[str, Any] = {
    "slurm_packages_suite": "forky",
    "slurm_packages_check_valid_until": False,
    "slurm_upgrade_batch": "100%",
    "slurm_upgrade_wait": 300,
}
LEAVES = "SLURM can't be downgraded: its state and its database are the next release's"

pytestmark = pytest.mark.skipif(os.environ["LOCAL_RELEASE"] == "bookworm", reason="Debian 12's SLURM 22.05 can't be upgraded in place")


def power_cut(cluster: Cluster, when: Callable[[str], bool]) -> None:
    """Kill a run of slurm_upgrade when one of its lines says so, and on the first controller what installs packages."""

    def cut(line: str, process: subprocess.Popen[str]) -> None:
        if when(line):
            os.killpg(process.pid, signal.SIGKILL)

    code, output = cluster.watched_playbook(UPGRADE, cut, variables=VARIABLES)
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


def half_unpacked(cluster: Cluster) -> None:
    """What a power cut leaves at its worst: a new package can't be configured before another one is unpacked once more."""
    cluster.out("ctl1", f"dpkg --unpack --force-depends /var/cache/apt/archives/slurmctld_{RELEASE}*.deb")
    half = "/^Package: slurm-wlm-basic-plugins$/,/^$/s/^Status: .*/Status: install reinstreq half-installed/"
    cluster.out("ctl1", f"sed -i '{half}' /var/lib/dpkg/status")
    assert "dependency problems prevent configuration of slurmctld" in cluster.run("ctl1", "dpkg --configure -a").stderr


def test_the_next_release_comes_while_a_job_runs_and_a_new_node_gets_the_same(cluster: Cluster):
    # With states and without a beginning, sacct lists only jobs that are in these states now.
    history = "sacct -a -X -n -P -S now-1days -s CD -o jobid,state,elapsed"
    ended_before = set(cluster.out("login", history).splitlines())
    job = submit(
        cluster,
        "--gres=gpu:a100:1 --nodelist=gpu1",
        UNTIL_TOLD,
    )
    cluster.until("ctl1", f"squeue -h -j {job} -o %T", "RUNNING")

    own_policy = "printf '#!/bin/sh\\n# of the site\\nexit 0\\n' >/usr/sbin/policy-rc.d; chmod 0755 /usr/sbin/policy-rc.d"
    cluster.out("ctl1", own_policy)
    power_cut(cluster, during_dpkg(cluster))
    assert cluster.run("ctl1", "dpkg --audit").stdout, "packages are half installed"
    half_unpacked(cluster)
    power_cut(cluster, lambda line: line.startswith("PLAY [Start the controllers]"))

    def end_the_job() -> None:
        # gpu1 waits for it, and for nothing else.
        cluster.until("login", "sinfo -h -n gpu1 -p all -o %T", "drain", seconds=400)
        assert cluster.out("login", f"squeue -h -j {job} -o %T") == "RUNNING"
        tell(cluster, "gpu1", job)

    helper = threading.Thread(target=end_the_job)
    helper.start()
    began = time.monotonic()
    cluster.playbook(UPGRADE, variables=VARIABLES)
    print(f"the run after the power cuts took {time.monotonic() - began:.0f} s")
    helper.join()

    (row,) = ended(cluster, job)
    assert row["State"] == "COMPLETED" and "gres/gpu:a100=1" in row["AllocTRES"]
    assert "survived" in cluster.out("gpu1", f"cat /tmp/job-{job}_4294967294.out")
    assert ended_before <= set(cluster.out("login", history).splitlines())
    for name in HOSTS:
        assert cluster.out(name, "scontrol --version").split()[1].startswith(RELEASE), name
        assert cluster.out(name, "dpkg --audit; ls /usr/sbin/policy-rc.d* 2>/dev/null; true") == (
            "/usr/sbin/policy-rc.d" if name == "ctl1" else ""
        ), name
    # Power cuts during dpkg must not lose what a site decided about the start of its daemons.
    assert "of the site" in cluster.out("ctl1", "cat /usr/sbin/policy-rc.d")
    assert cluster.out("login", "scontrol ping", user="ada").count("is UP") == 2
    for name in ("gpu1", "gpu2"):
        cluster.until("ctl1", f"sinfo -h -n {name} -p all -o %T", "idle")
    assert '"version": "24.11' in cluster.out("ctl1", "cat /var/backups/slurm/*/manifest.json"), "one is from before"

    # Nothing is left to do.
    assert "Nothing to do: every host has SLURM 26.05" in words(cluster.playbook(UPGRADE, variables=VARIABLES))
    assert changed(cluster.playbook(SITE, "--skip-tags", "validate", variables=VARIABLES)) == []
    # As a node that was never in the cluster.
    cluster.out(
        "gpu2",
        "systemctl stop slurmd; apt-get purge --yes 'slurm*' 'libslurm*' 'libpam-slurm*'; rm -rf /etc/apt/*/deephdc-slurm* /var/lib/slurm",
    )
    cluster.playbook(SITE, "--skip-tags", "validate", "--limit", "gpu2", variables=VARIABLES)
    assert cluster.out("gpu2", "slurmd -V").split()[1].startswith("26.05")
    job = submit(cluster, "--gres=gpu:a100:2 --nodelist=gpu2", look())
    assert ended(cluster, job)[0]["State"] == "COMPLETED"
