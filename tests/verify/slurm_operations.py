"""The cluster of two controllers, as its operators see it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from local import Cluster
from slurm_jobs import UNTIL_TOLD, submit
from slurm_site import words

CONTROLLER = "ctl1"
BACKUP = "playbooks/slurm_backup.yml"
STATE = "/srv/slurm/state"
HOSTS = ("ctl1", "ctl2", "login", "gpu1", "gpu2")


def states(cluster: Cluster) -> dict[str, str]:
    lines = cluster.out(CONTROLLER, "sinfo -h -N -p all -o '%N|%T|%E'").splitlines()
    # SLURM adds to a reason, and a star to the state, when the node stops answering.
    return {name: f"{state.rstrip('*')} {reason.split(' : ')[0]}" for name, state, reason in (line.split("|") for line in lines)}


def running(cluster: Cluster, node: str) -> str:
    job = submit(cluster, f"--gres=gpu:a100:1 --nodelist={node}", UNTIL_TOLD)
    cluster.until(CONTROLLER, f"squeue -h -j {job} -o %T", "RUNNING")
    return job


def completed(cluster: Cluster, job: str) -> None:
    cluster.until(CONTROLLER, f"sacct -X -P -n -j {job} -o State", "COMPLETED")


def without(host: str, directory: Path) -> tuple[str, str]:
    """Inventories that say of a host what is right no more, as when it is gone."""
    path = directory / "gone.yml"
    path.write_text(json.dumps({"all": {"children": {"local_hosts": {"hosts": {host: {"ansible_host": "gone"}}}}}}), encoding="utf-8")
    return "hosts.yml", str(path)


def holding(cluster: Cluster, directory: Path, *entries: str) -> str:
    """What a role says that disturbs gpu2 by itself."""
    tasks = [
        {
            "ansible.builtin.include_role": {"name": "deephdc.accelerators.gpu_hold", "tasks_from": entry},
            "vars": {"gpu_hold_holder": "nvidia_driver"},
        }
        for entry in entries
    ]
    play = directory / "hold.json"
    play.write_text(json.dumps([{"hosts": "gpu2", "gather_facts": False, "tasks": tasks}]), encoding="utf-8")
    return words(cluster.playbook(str(play)))


def saved(cluster: Cluster, job: str) -> None:
    """Wait until slurmctld has saved a state with this job: it does so some seconds after a change."""
    since = cluster.out(CONTROLLER, f"date +%s; sleep 1; scontrol update JobId={job} Comment=saved")
    cluster.out(CONTROLLER, f"until [ $(stat -c %Y {STATE}/job_state) -gt {since} ]; do sleep 0.3; done")


def backed_up(cluster: Cluster) -> Path:
    """The newest of two backups, of which one is kept, on the control node."""
    copies = cluster.state / "backups"
    shutil.rmtree(copies, ignore_errors=True)
    cluster.playbook(BACKUP)
    cluster.playbook(BACKUP, variables={"slurm_backup_fetch": str(copies), "slurm_backup_keep": 1})
    (made,) = copies.iterdir()
    return made
