"""Whether the GPUs can be used, with device files behind which there is no driver."""

from __future__ import annotations

from gpu_host_site import gpu_check
from local import Cluster

OWNS = (
    "roles/gpu_check",
    "plugins/module_utils/_gpu_check",
    "plugins/modules/gpu_open_info.py",
    "tests/stand_ins/libcuda_computing.c",
)


def test_a_gpu_that_does_not_answer_is_named(cluster: Cluster):
    said = gpu_check(cluster, False)
    assert "gpu1: 0000:01:00.0 (a100) can't be opened by nobody: /dev/nvidia0 no_driver." in said
    # The driver's own tool has a say, too.
    assert "gpu1: 0000:02:00.0: nvidia-smi failed with return value 9" in said


def test_files_are_opened_as_the_user(cluster: Cluster):
    cluster.out("gpu1", "chmod a-x /usr/bin/nvidia-smi; chmod 0600 /dev/nvidia1")
    try:
        said = gpu_check(cluster, False, gpu_check_accepted=["no_driver"], gpu_check_count=3)
        assert "/dev/nvidia0" not in said
        assert "gpu1: 0000:02:00.0 (a100) can't be opened by nobody: /dev/nvidia1 denied." in said
        assert "gpu1: 2 GPUs were found, gpu_check_count says 3." in said
        gpu_check(cluster, True, gpu_check_accepted=["no_driver"], gpu_check_user="root")
    finally:
        cluster.out("gpu1", "chmod a+x /usr/bin/nvidia-smi; chmod 0666 /dev/nvidia1")
