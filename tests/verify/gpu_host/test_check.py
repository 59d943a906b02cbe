"""Whether the GPUs can be used, with device files behind which there is no driver."""

from __future__ import annotations

import subprocess

from local import ROOT, Cluster

OWNS = (
    "roles/gpu_check",
    "plugins/module_utils/_gpu_check",
    "plugins/modules/gpu_open_info.py",
    "tests/stand_ins/libcuda_computing.c",
    "playbooks/gpu_hosts.yml",
    "extensions/molecule/gpu_host",
)

PLAYBOOK = "playbooks/gpu_hosts.yml"
# A library that computes, and device files that can be opened.
COMPUTING = """
set -e
$(ls /usr/bin/*gcc-[0-9]* | head -n 1) -ffreestanding -nostdlib -shared -fPIC -o /usr/local/lib/libcuda.so.1 /root/libcuda_computing.c
ldconfig
chmod a-x /usr/bin/nvidia-smi
for card in /dev/nvidia0 /dev/nvidia1; do mv $card $card.kept && mknod --mode=666 $card c 1 3; done
"""
NOT_COMPUTING = """
rm -f /run/libcuda_says /usr/local/lib/libcuda.so.1 /root/libcuda_computing.c && ldconfig
chmod a+x /usr/bin/nvidia-smi
for card in /dev/nvidia0 /dev/nvidia1; do mv $card.kept $card; done
"""


def gpu_check(cluster: Cluster, succeeds: bool, *more: str, **variables: object) -> str:
    own = {"nvidia_driver_image": False, **variables}
    arguments = ("--tags", "gpu_check", *more)
    return " ".join(cluster.playbook(PLAYBOOK, *arguments, variables=own, succeeds=succeeds).split())


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


def test_a_gpu_computes_as_the_user(cluster: Cluster):
    source = ROOT / "tests/stand_ins/libcuda_computing.c"
    subprocess.run(["docker", "cp", "--quiet", str(source), f"{cluster.label}-gpu1:/root/"], check=True)
    cluster.out("gpu1", COMPUTING)
    try:
        assert gpu_check(cluster, True, "-v").count("computation: computed") == 4  # as the module's result, and as the fact
        cluster.out("gpu1", "echo 802 >/run/libcuda_says")
        words = "does not compute for nobody: cuInit says CUDA_ERROR_SYSTEM_NOT_READY, system not yet initialized."
        assert f"gpu1: 0000:01:00.0 (a100) {words}" in gpu_check(cluster, False)
    finally:
        cluster.out("gpu1", NOT_COMPUTING)
