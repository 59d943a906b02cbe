"""Whether the GPUs can be used, with device files behind which there is no driver."""

from __future__ import annotations

from local import Cluster

PLAYBOOK = "playbooks/gpu_hosts.yml"


def burn_in(cluster: Cluster, succeeds: bool, **variables: object) -> str:
    own = {"nvidia_driver_image": False, **variables}
    arguments = ("--tags", "gpu_burn_in")
    return " ".join(cluster.playbook(PLAYBOOK, *arguments, variables=own, succeeds=succeeds).split())


def test_a_gpu_that_does_not_answer_is_named(cluster: Cluster):
    said = burn_in(cluster, False)
    assert "gpu1: 0000:01:00.0 (a100) can't be opened by nobody: /dev/nvidia0 no_driver." in said
    # The driver's own tool has a say, too.
    assert "gpu1: 0000:02:00.0: nvidia-smi failed with return value 9" in said


def test_files_are_opened_as_the_user(cluster: Cluster):
    cluster.out("gpu1", "chmod a-x /usr/bin/nvidia-smi; chmod 0600 /dev/nvidia1")
    try:
        said = burn_in(cluster, False, gpu_burn_in_accepted=["no_driver"], gpu_burn_in_count=3)
        assert "/dev/nvidia0" not in said
        assert "gpu1: 0000:02:00.0 (a100) can't be opened by nobody: /dev/nvidia1 denied." in said
        assert "gpu1: 2 GPUs were found, gpu_burn_in_count says 3." in said
        burn_in(cluster, True, gpu_burn_in_accepted=["no_driver"], gpu_burn_in_user="root")
    finally:
        cluster.out("gpu1", "chmod a+x /usr/bin/nvidia-smi; chmod 0666 /dev/nvidia1")
