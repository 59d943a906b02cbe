"""Runs that are killed at random tasks."""

from __future__ import annotations

import base64
import os
import random
import secrets

from local import Cluster
from slurm_jobs import UNTIL_TOLD, ended, submit, tell
from slurm_site import INSTALLED, SITE, snapshot

OWNS = (
    "plugins/module_utils/_host/former.py",
    "plugins/module_utils/_host/safe_directory.py",
    "plugins/modules/unit_fresh.py",
)


def test_runs_that_are_killed_are_completed_by_a_plain_one(cluster: Cluster):
    """A change that touches every daemon, and back again with three runs killed at random tasks: all is as before it."""
    seed = int(os.environ.get("KILL_SEED", "0")) or random.SystemRandom().randint(1, 99999)
    print(f"KILL_SEED={seed} repeats this")
    chance = random.Random(seed)
    change = {
        "munge_key": base64.b64encode(secrets.token_bytes(64)).decode(),
        "slurm_cluster_settings": {"HealthCheckInterval": 5, "SlurmdTimeout": 31, "SlurmctldDebug": "verbose"},
        "slurm_database_settings": {"DebugLevel": "verbose"},
    }
    before = snapshot(cluster)
    cluster.playbook(SITE, *INSTALLED, variables=change)
    assert snapshot(cluster) != before

    job = submit(cluster, "--gres=gpu:a100:1 --nodelist=gpu1", UNTIL_TOLD)
    cluster.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    for _number in range(3):
        # Nearly all of its tasks: the last that may be hit starts the nodes' daemons.
        print("killed during:", cluster.killed_playbook(SITE, chance, 72, *INSTALLED))
    cluster.playbook(SITE, *INSTALLED)
    assert {k: v for k, v in snapshot(cluster).items() if k != "nodes"} == {k: v for k, v in before.items() if k != "nodes"}
    tell(cluster, "gpu1", job)
    (row,) = ended(cluster, job)
    assert row["State"] == "COMPLETED", "the job ran through it all"
