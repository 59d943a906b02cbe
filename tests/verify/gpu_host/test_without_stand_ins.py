"""The distribution's own driver.

On Debian 12 it is really built; Debian 13's takes longer and is only chosen.
"""

from __future__ import annotations

import pytest
from local import Cluster, changed

OWNS = (
    "roles/nvidia_driver/vars/debian.yml",
    "molecule/gpu_host/inventory/distribution.yml",
    "molecule/gpu_host/kernels.yml",
)

PLAYBOOK = "playbooks/gpu_hosts.yml"
INVENTORIES = ("hosts.yml", "distribution.yml")
LIMIT = ("--limit", "gpu2")
KERNELS = "molecule/gpu_host/kernels.yml"
LEAVES = "a kernel, and on Debian 12 the driver with its user space of a gigabyte, which take longer to remove than the hosts to make"


def test_the_distributions_driver_is_chosen_and_built(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    """Module and user space of one version.

    On Debian 13 to be asked changes nothing; on Debian 12 the second run does not.
    """
    # No other test needs a kernel on this host.
    cluster.playbook(KERNELS)
    if cluster.release == "trixie":
        before = cluster.out("gpu2", "dpkg -l | sha256sum; ls /etc/apt/*")
        said = cluster.playbook(PLAYBOOK, *LIMIT, "--check", "--diff", inventories=INVENTORIES)
        assert "+Pin: version 550." in said
        assert cluster.out("gpu2", "dpkg -l | sha256sum; ls /etc/apt/*") == before
        return
    monkeypatch.setattr(cluster, "limit", 2400)
    cluster.playbook(PLAYBOOK, *LIMIT, inventories=INVENTORIES)
    kernel = cluster.out("gpu2", "head -n 1 /root/kernels")
    installed = cluster.out("gpu2", "dpkg-query -W -f '${Version}' nvidia-kernel-dkms").split("-")[0]
    assert cluster.out("gpu2", f"modinfo -k {kernel} -F version nvidia-current") == installed
    assert cluster.out("gpu2", f"modinfo -k {kernel} -F license nvidia-current") == "NVIDIA"
    # The real user space, of the same version.
    assert installed in cluster.out("gpu2", "dpkg-query -W -f '${Version}' libcuda1")
    assert "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver" in cluster.run("gpu2", "nvidia-smi").stdout
    assert changed(cluster.playbook(PLAYBOOK, *LIMIT, inventories=INVENTORIES)) == []
