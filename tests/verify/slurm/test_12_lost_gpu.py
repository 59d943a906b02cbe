"""A node that reboots, and one that loses a GPU."""

from __future__ import annotations

import subprocess

from local import Cluster, changed
from slurm_jobs import ended, look, opened, submit
from slurm_site import NODES, SITE, words


def test_a_rebooted_node_takes_jobs_again_by_itself(cluster: Cluster):
    subprocess.run(["docker", "restart", "--time", "20", f"{cluster.label}-gpu1"], check=True, stdout=subprocess.DEVNULL)
    cluster.until("ctl", "sinfo -h -n gpu1 -p a100 -o %T", "idle")
    job = submit(cluster, "--gres=gpu:a100:1 --nodelist=gpu1", look())
    assert ended(cluster, job)[0]["State"] == "COMPLETED"
    assert len(opened(cluster, "gpu1", job)) == 1


def test_a_node_that_lost_a_gpu_is_drained_by_name_and_comes_back(cluster: Cluster):
    """And a node that a person drained stays as it is through it all."""
    cluster.out("ctl", "scontrol update NodeName=gpu1 State=DRAIN Reason='fan is loud'")
    device = "t4 at 0000:02:00.0 (/dev/nvidia1) is missing"
    assert "/dev/nvidia1" in cluster.out("gpu2", "grep 0000:02:00.0 /etc/slurm/gpu_devices")
    cluster.out("gpu2", "rm /dev/nvidia1")
    # By itself, while the cluster runs (HealthCheckInterval is 5 s here).
    cluster.until("ctl", "scontrol -o show node gpu2", device)
    cluster.out("gpu2", "systemctl restart --no-block slurmd")  # which can't start without its device

    output = cluster.playbook(SITE, *NODES, succeeds=False)
    assert "gpu2 is drained: " + device in words(output)
    assert changed(output) == [], "the configuration still promises the GPU"
    assert "gpu:t4:2" in cluster.out("ctl", "grep ^NodeName=gpu2 /etc/slurm/slurm.conf")
    assert cluster.out("ctl", "sinfo -h -n gpu2 -p all -o %T").startswith("drain")

    cluster.out("gpu2", "systemd-tmpfiles --create")
    cluster.playbook(SITE, *NODES)
    assert "fan is loud" in cluster.out("ctl", "scontrol -o show node gpu1")
    cluster.out("ctl", "scontrol update NodeName=gpu1 State=RESUME")
    job = submit(cluster, "--gres=gpu:t4:2", look())
    assert ended(cluster, job)[0]["State"] == "COMPLETED"
    assert len(opened(cluster, "gpu2", job)) == 2
