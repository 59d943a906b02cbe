"""What operators do to nodes while jobs run: drain and resume."""

from __future__ import annotations

from local import Cluster, changed
from slurm_jobs import tell
from slurm_operations import CONTROLLER, completed, running, states
from slurm_site import words

OWNS = (
    "tests/verify/slurm_operations.py",
    "playbooks/slurm_drain.yml",
    "playbooks/slurm_resume.yml",
    "roles/slurm_operations",
    "plugins/filter/slurm_operations.py",
    "plugins/module_utils/_slurm/nodes.py",
    "plugins/modules/slurm_node_drain.py",
)


def test_draining_waits_for_jobs_and_ends_none(cluster: Cluster):
    job = running(cluster, "gpu1")
    cluster.out(CONTROLLER, "scontrol update NodeName=gpu2 State=DRAIN Reason='fan is loud'")
    request = {"slurm_drain_nodes": ["slurm_nodes"], "slurm_drain_reason": "new power supply", "slurm_drain_wait": 2}

    output = cluster.playbook("playbooks/slurm_drain.yml", variables=request, succeeds=False)
    assert f"After 2 s there is still job {job} of ada on gpu1 until" in words(output)
    assert "gpu2 was drained already and keeps its reason: fan is loud" in words(output)
    assert states(cluster) == {"gpu1": "draining new power supply", "gpu2": "drained fan is loud"}
    assert cluster.out(CONTROLLER, f"squeue -h -j {job} -o %T") == "RUNNING"

    tell(cluster, "gpu1", job)
    completed(cluster, job)
    assert changed(cluster.playbook("playbooks/slurm_drain.yml", variables={**request, "slurm_drain_wait": 30})) == []
    assert states(cluster)["gpu1"] == "drained new power supply"
    cluster.out(CONTROLLER, "scontrol update NodeName=gpu[1-2] State=RESUME")


def test_a_request_without_reason_is_refused(cluster: Cluster):
    output = cluster.playbook("playbooks/slurm_drain.yml", "--limit", "gpu1", succeeds=False)
    assert "slurm_drain_reason is not set" in words(output)
    variables = {"slurm_drain_reason": "gpu_hold: mine"}
    output = cluster.playbook("playbooks/slurm_drain.yml", "--limit", "gpu1", variables=variables, succeeds=False)
    assert "slurm_drain_reason has 'gpu_hold:' in it" in words(output)


def test_resuming_brings_back_what_can_be_and_names_the_rest(cluster: Cluster):
    cluster.out(CONTROLLER, "scontrol update NodeName=gpu1 State=DRAIN Reason='new power supply'")
    cluster.out(CONTROLLER, "scontrol update NodeName=gpu2 State=DRAIN Reason='fan is loud'")
    cluster.out("gpu2", "rm /dev/nvidia1")
    output = cluster.playbook("playbooks/slurm_resume.yml", "--limit", "slurm_nodes", succeeds=False)
    assert "gpu2 stays as it is, because a100 at 0000:02:00.0 (/dev/nvidia1) is missing" in words(output)
    assert states(cluster) == {"gpu1": "idle none", "gpu2": "drained fan is loud"}

    cluster.out("gpu2", "systemd-tmpfiles --create")
    cluster.playbook("playbooks/slurm_resume.yml", variables={"slurm_resume_nodes": ["gpu[1-2]"]})
    assert states(cluster) == {"gpu1": "idle none", "gpu2": "idle none"}
    assert changed(cluster.playbook("playbooks/slurm_resume.yml", "--limit", "slurm_nodes")) == []
