"""What happens in a site's life: a node more, a reboot, a lost GPU, runs that are killed."""

from __future__ import annotations

import base64
import json
import os
import random
import secrets
import subprocess
import time
from pathlib import Path

import pytest
from local import ROOT, Cluster, changed
from slurm_jobs import UNTIL_TOLD, ended, look, opened, submit, tell

OWNS = (
    "playbooks/site_check.yml",
    "roles/site_check",
    "roles/slurm_cluster/tasks/deliver.yml",
    "roles/slurm_cluster/tasks/nodes.yml",
    "roles/slurm_cluster/tasks/plan.yml",
    "roles/slurm_cluster/tasks/read_hosts.yml",
    "roles/slurm_cluster/tasks/take_back.yml",
    "plugins/filter/site_check.py",
    "plugins/module_utils/_host/safe_directory.py",
    "plugins/module_utils/_model/promises.py",
    "plugins/modules/file_set.py",
    "plugins/modules/slurm_node_health.py",
    "plugins/modules/unit_fresh.py",
    "plugins/plugin_utils/_slurm/inventory.py",
    "plugins/plugin_utils/_slurm/plan.py",
    "extensions/molecule/slurm/inventory/added_node.yml",
    "tests/data/other_variables",
)

SITE = "playbooks/slurm.yml"
WITH_ADDED = ("hosts.yml", "added_node.yml")
# Of an installed cluster: what a run compares and restarts.
INSTALLED = ("--skip-tags", "install,validate")
NODES = ("--tags", "slurm_cluster,slurm_node", *INSTALLED)


def started(cluster: Cluster, host: str, unit: str) -> str:
    return cluster.out(host, f"systemctl show -P ExecMainStartTimestampMonotonic {unit}")


def test_check_mode_on_a_cluster_predicts_nothing(cluster: Cluster):
    assert changed(cluster.playbook(SITE, "--check", "--diff", *INSTALLED)) == []


def test_check_mode_predicts_slurmctld_s_restart_and_none_of_slurmd(cluster: Cluster):
    """It was the other way round: the nodes fetch what is new, and slurmctld is started again."""
    settings = {"HealthCheckInterval": 5, "SlurmdTimeout": 30, "SlurmctldDebug": "info", "MessageTimeout": 20}
    predicted = changed(cluster.playbook(SITE, "--check", *NODES, variables={"slurm_cluster_settings": settings}))
    tasks = {line.split(" : ", 1)[1].rsplit(":", 1)[0] for line in predicted}
    assert tasks == {
        "Write the controllers' configuration",
        "Keep slurmctld running on the cluster's configuration",
        "Write the login hosts' configuration",
    }


def test_a_node_is_added_under_limit_while_a_job_runs(cluster: Cluster):
    job = submit(cluster, "--gres=gpu:a100:1 --nodelist=gpu1", UNTIL_TOLD)
    cluster.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    before = {name: started(cluster, name, "slurmd") for name in ("gpu1", "gpu2")}
    lines = cluster.out("ctl", "grep -c . /etc/slurm/slurm.conf")

    cluster.playbook("extensions/molecule/default/create.yml", str(ROOT / "playbooks/gpu_simulator.yml"), inventories=WITH_ADDED)
    output = cluster.playbook(SITE, "--limit", "gpu3", inventories=WITH_ADDED)

    assert "gpu3" in cluster.out("login", "sinfo -h -N -o %N", user="ada")
    assert cluster.out("ctl", f"squeue -h -j {job} -o %T") == "RUNNING", output[-2000:]
    if cluster.release == "bookworm":  # from 23.11 on a reconfigured slurmd is a new process
        assert {name: started(cluster, name, "slurmd") for name in before} == before
    # gpu1 and gpu3 are equal and share a line; no node lost a device.
    assert cluster.out("ctl", "grep -c . /etc/slurm/slurm.conf") == lines
    wanted = cluster.out("ctl", "sha256sum < /etc/slurm/slurm.conf")
    for name in ("gpu1", "gpu2", "gpu3"):
        assert cluster.out(name, "sha256sum < /var/lib/slurm/slurmd/conf-cache/slurm.conf") == wanted, name
    # A job over old and new nodes: they know each other.
    assert cluster.out("login", "srun --time=1 --nodes=2 --nodelist=gpu2,gpu3 hostname | sort", user="ada").split() == ["gpu2", "gpu3"]
    tell(cluster, "gpu1", job)
    (row,) = ended(cluster, job)
    assert row["State"] == "COMPLETED"
    assert "survived" in cluster.out("gpu1", f"cat /tmp/job-{job}_4294967294.out")


def test_a_rebooted_node_takes_jobs_again_by_itself(cluster: Cluster):
    subprocess.run(["docker", "restart", "--time", "20", f"{cluster.label}-gpu1"], check=True, stdout=subprocess.DEVNULL)
    cluster.until("ctl", "sinfo -h -n gpu1 -p a100 -o %T", "idle")
    job = submit(cluster, "--gres=gpu:a100:1 --nodelist=gpu1", look())
    assert ended(cluster, job)[0]["State"] == "COMPLETED"
    assert len(opened(cluster, "gpu1", job)) == 1


def test_a_node_that_lost_a_gpu_is_drained_by_name_and_comes_back(cluster: Cluster):
    """And a node that a person drained stays as it is through it all."""
    cluster.out("ctl", "scontrol update NodeName=gpu3 State=DRAIN Reason='fan is loud'")
    device = "t4 at 0000:02:00.0 (/dev/nvidia1) is missing"
    assert "/dev/nvidia1" in cluster.out("gpu2", "grep 0000:02:00.0 /etc/slurm/gpu_devices")
    cluster.out("gpu2", "rm /dev/nvidia1")
    # By itself, while the cluster runs (HealthCheckInterval is 5 s here).
    cluster.until("ctl", "scontrol -o show node gpu2", device)
    cluster.out("gpu2", "systemctl restart --no-block slurmd")  # which can't start without its device

    output = cluster.playbook(SITE, *NODES, inventories=WITH_ADDED, succeeds=False)
    assert "gpu2 is drained: " + device in " ".join(output.split())
    assert changed(output) == [], "the configuration still promises the GPU"
    assert "gpu:t4:2" in cluster.out("ctl", "grep ^NodeName=gpu2 /etc/slurm/slurm.conf")
    assert cluster.out("ctl", "sinfo -h -n gpu2 -p all -o %T").startswith("drain")

    cluster.out("gpu2", "systemd-tmpfiles --create")
    cluster.playbook(SITE, *NODES, inventories=WITH_ADDED)
    assert "fan is loud" in cluster.out("ctl", "scontrol -o show node gpu3")
    cluster.out("ctl", "scontrol update NodeName=gpu3 State=RESUME")
    job = submit(cluster, "--gres=gpu:t4:2", look())
    assert ended(cluster, job)[0]["State"] == "COMPLETED"
    assert len(opened(cluster, "gpu2", job)) == 2


def test_a_configuration_that_slurmctld_does_not_start_with_is_taken_back(cluster: Cluster):
    before = snapshot(cluster)
    variables = {"slurm_cluster_settings": {"PriorityType": "priority/nonsense"}}
    output = cluster.playbook(SITE, "--tags", "slurm_cluster", inventories=WITH_ADDED, variables=variables, succeeds=False)
    assert "The new configuration was taken back, the cluster runs with the one before: slurmctld" in " ".join(output.split())
    after = snapshot(cluster)
    # The nodes report to the restarted controller a moment later.
    assert {k: v for k, v in after.items() if k != "nodes"} == {k: v for k, v in before.items() if k != "nodes"}
    for name in ("gpu1", "gpu2", "gpu3"):
        cluster.until("ctl", f"sinfo -h -n {name} -p all -o %T", "idle")


def test_a_member_outside_of_the_run_that_hangs_is_named_and_nothing_changes(cluster: Cluster, tmp_path: Path):
    """Without its facts slurm.conf would have a node less."""
    before = snapshot(cluster)
    cluster.out("gpu2", r"printf '#!/bin/sh\nsleep 600\n' > /root/hangs; chmod +x /root/hangs")
    hangs = tmp_path / "hangs.yml"
    hosts = {"gpu2": {"ansible_python_interpreter": "/root/hangs"}}
    hangs.write_text(json.dumps({"all": {"children": {"local_hosts": {"hosts": hosts}}}}), encoding="utf-8")
    begin = time.monotonic()
    words = ("--limit", "gpu1", "--flush-cache", "--tags", "slurm_cluster")
    inventories = (*WITH_ADDED, str(hangs))
    output = cluster.playbook(SITE, *words, inventories=inventories, variables={"site_check_absent_seconds": 10}, succeeds=False)
    assert time.monotonic() - begin < 180
    assert "No facts of gpu2 are known: it did not answer and nothing is cached; bring it up" in " ".join(output.split())
    assert changed(output) == []
    assert snapshot(cluster) == before


def test_an_unsupported_distribution_is_refused(cluster: Cluster):
    version = cluster.out("login", "cat /etc/debian_version")
    cluster.out(
        "login", "cp /usr/lib/os-release /tmp/os-release; echo 11.9 > /etc/debian_version; sed -i '/^VERSION_ID=/d' /usr/lib/os-release"
    )
    try:
        output = cluster.playbook(SITE, "--flush-cache", inventories=WITH_ADDED, succeeds=False)
    finally:
        cluster.out("login", f"cp /tmp/os-release /usr/lib/os-release; echo {version} > /etc/debian_version")
    assert "login runs Debian 11, which is not supported (supported: Debian 12, Debian 13)" in " ".join(output.split())
    assert changed(output) == []


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        (
            {"slurm_cluster_partitions": [{"name": "big", "gpu_types": ["h100"]}]},
            "slurm_cluster_partitions: partition big asks for GPU type h100, which none of the nodes gpu[1-3] has; they have a100, t4.",
        ),
        (
            {"slurm_cluster_settings": {"SchedulerTypo": "sched/backfill"}},
            "/etc/slurm/slurm.conf was left as it was, because the new content was refused",
        ),
    ],
)
def test_what_the_facts_or_slurms_parser_refuse_changes_nothing(cluster: Cluster, variables: dict, sentence: str):
    before = snapshot(cluster)
    output = cluster.playbook(SITE, "--tags", "slurm_cluster", inventories=WITH_ADDED, variables=variables, succeeds=False)
    assert sentence in " ".join(output.split())
    assert changed(output) == []
    assert snapshot(cluster) == before


FILES = (
    "/etc/slurm/* /etc/munge/munge.key /etc/default/slurmd /etc/systemd/system/*.d/deephdc.conf /usr/local/libexec/deephdc/* "
    "/var/lib/slurm/slurmd/conf-cache/* /var/lib/deephdc/*"
)


def snapshot(cluster: Cluster) -> dict[str, str]:
    """What every host's files, units and the running controller's settings are."""
    seen = {}
    for name in ("ctl", "login", "gpu1", "gpu2", "gpu3"):
        files = f"$(ls -d {FILES} 2>/dev/null | sort)"
        seen[f"{name} files"] = cluster.out(name, f"sha256sum {files}; stat -c '%n %U:%G %a' {files}")
        seen[f"{name} units"] = cluster.out(name, "systemctl list-unit-files --state=enabled --no-legend")
        seen[f"{name} running"] = cluster.out(name, "systemctl is-active munge mariadb slurmdbd slurmctld slurmd; true")
    config = cluster.out("ctl", "scontrol show config").splitlines()
    seen["controller"] = "\n".join(line for line in config if not line.startswith(("Configuration data", "BOOT_TIME", "NEXT_JOB_ID")))
    seen["nodes"] = cluster.out("ctl", "sinfo -h -N -o '%N %P %T %G' | sort")
    return seen


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
    cluster.playbook(SITE, *INSTALLED, inventories=WITH_ADDED, variables=change)
    assert snapshot(cluster) != before

    job = submit(cluster, "--gres=gpu:a100:1 --nodelist=gpu3", UNTIL_TOLD)
    cluster.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    for _number in range(3):
        # Nearly all of its tasks: the last that may be hit starts the nodes' daemons.
        print("killed during:", cluster.killed_playbook(SITE, chance, 72, *INSTALLED, inventories=WITH_ADDED))
    cluster.playbook(SITE, *INSTALLED, inventories=WITH_ADDED)
    assert {k: v for k, v in snapshot(cluster).items() if k != "nodes"} == {k: v for k, v in before.items() if k != "nodes"}
    tell(cluster, "gpu3", job)
    (row,) = ended(cluster, job)
    assert row["State"] == "COMPLETED", "the job ran through it all"
