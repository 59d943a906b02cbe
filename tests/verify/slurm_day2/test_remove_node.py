"""A node leaves the cluster, and comes back."""

from __future__ import annotations

import json
import random
from pathlib import Path

from local import Cluster, changed
from slurm_jobs import tell
from slurm_operations import CONTROLLER, completed, holding, running, states, without
from slurm_site import INSTALLED, SITE, words

OWNS = ("playbooks/slurm_remove_node.yml",)


def test_a_node_with_jobs_or_the_last_one_is_not_removed(cluster: Cluster):
    job = running(cluster, "gpu2")
    output = cluster.playbook("playbooks/slurm_remove_node.yml", variables={"slurm_remove_nodes": "gpu2"}, succeeds=False)
    assert f"Not removed, because there is still job {job} of ada on gpu2" in words(output)
    output = cluster.playbook("playbooks/slurm_remove_node.yml", variables={"slurm_remove_nodes": "gpu[1-2]"}, succeeds=False)
    assert "Not without gpu1, gpu2: The inventory has no host in the group slurm_nodes" in words(output)
    assert states(cluster) == {"gpu1": "idle none", "gpu2": "draining leaves the cluster"}
    tell(cluster, "gpu2", job)
    completed(cluster, job)
    cluster.playbook("playbooks/slurm_resume.yml", variables={"slurm_resume_nodes": "gpu2"})


def test_a_node_that_is_gone_is_removed_and_cleaned_when_it_is_back_and_added_again(cluster: Cluster, tmp_path: Path):
    """With a run that is killed before; the last run completes what is left."""
    accounts = cluster.out(CONTROLLER, "sacctmgr -P -n show associations")
    before = cluster.out("gpu2", "cat /etc/default/slurmd.before-deephdc")
    variables = {"slurm_remove_nodes": ["gpu2"]}
    gone = without("gpu2", tmp_path)
    chance = random.SystemRandom()
    print(
        "killed during:",
        cluster.killed_playbook("playbooks/slurm_remove_node.yml", chance, tasks=30, inventories=gone, variables=variables),
    )
    output = cluster.playbook("playbooks/slurm_remove_node.yml", inventories=gone, variables=variables)
    assert "gpu2 is out of the cluster but did not answer, so nothing was taken away there" in words(output)
    assert list(states(cluster)) == ["gpu1"]
    assert "gpu2" not in cluster.out(CONTROLLER, "cat /var/lib/deephdc/slurm_accelerators /etc/slurm/slurm.conf /etc/slurm/gres.conf")
    assert cluster.out("gpu2", "systemctl is-active slurmd") == "active"

    output = cluster.playbook("playbooks/slurm_remove_node.yml", variables=variables)
    assert "Take it out of slurm_nodes in the inventory now" in words(output)
    assert cluster.run("gpu2", "systemctl is-enabled slurmd munge").stdout.split() == ["disabled", "disabled"]
    assert cluster.run("gpu2", "systemctl is-active slurmd munge").stdout.split() == ["inactive", "inactive"]
    assert cluster.out("gpu2", "cat /etc/default/slurmd") == before
    left = "grep -rls 'Made by deephdc' /etc /usr/local | grep -v gpu_simulator; ls /etc/munge"
    assert cluster.run("gpu2", left).stdout == "", "ours"
    assert cluster.out("gpu2", "dpkg-query -W -f '${Status}' slurmd") == "install ok installed"
    assert cluster.out(CONTROLLER, "sacctmgr -P -n show associations") == accounts
    assert changed(cluster.playbook("playbooks/slurm_remove_node.yml", variables=variables)) == []

    # A host that is no node has no jobs to wait for, though slurmd is installed there.
    assert "gpu2: SLURM has no node gpu2; no job runs there." in holding(cluster, tmp_path, "main")
    assert json.loads(cluster.out("gpu2", "cat /var/lib/deephdc/held/nvidia_driver"))["managers"] == {"slurm": "none"}
    holding(cluster, tmp_path, "release")
    cluster.out("gpu2", "test ! -e /var/lib/deephdc/held/nvidia_driver")

    cluster.playbook(SITE, *INSTALLED, "--limit", "gpu2")
    cluster.until(CONTROLLER, "sinfo -h -N -p all -o '%N %T'", "gpu2 idle")
