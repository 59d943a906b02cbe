"""From a deployed GPU host to its user: the driver is installed, and GPUs are opened and computed on as the user who will use them."""

from __future__ import annotations

import subprocess

from gpu_host_site import driver, gpu_check
from local import ROOT, Cluster

OWNS = (
    "tests/verify/gpu_host_site.py",
    "playbooks/gpu_hosts.yml",
    "molecule/gpu_host",
)


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


def test_module_is_there_for_the_kernel(cluster, kernels):
    assert driver(cluster) == {kernels[0]: "570.86.15"}
    assert f"nvidia/570.86.15, {kernels[0]}, x86_64: installed" in cluster.out("gpu1", "dkms status")


def test_an_a100_gets_the_open_modules(cluster, kernels):
    assert cluster.out("gpu1", f"modinfo -k {kernels[0]} -F license nvidia") == "Dual MIT/GPL"


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
