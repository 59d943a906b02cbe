"""The distribution's own driver.

On Debian 12 it is really built, beside the other tests; Debian 13's takes longer and is only chosen.
"""

from __future__ import annotations

from local import Cluster, changed

OWNS = (
    "roles/nvidia_driver/vars/debian.yml",
    "extensions/molecule/gpu_host/inventory/distribution.yml",
)

PLAYBOOK = "playbooks/gpu_hosts.yml"
INVENTORIES = ("hosts.yml", "distribution.yml")
LIMIT = ("--limit", "gpu2")


def test_the_distributions_driver_is_chosen_and_built(cluster: Cluster, real_driver):
    """Module and user space of one version.

    On Debian 13 to be asked changes nothing; on Debian 12 the second run does not.
    """
    if cluster.release == "trixie":
        before = cluster.out("gpu2", "dpkg -l | sha256sum; ls /etc/apt/*")
        said = cluster.playbook(PLAYBOOK, *LIMIT, "--check", "--diff", inventories=INVENTORIES)
        assert "+Pin: version 550." in said
        assert cluster.out("gpu2", "dpkg -l | sha256sum; ls /etc/apt/*") == before
        return
    assert real_driver
    assert real_driver.process.wait(timeout=2400) == 0, real_driver.told()[-6000:]
    kernel = cluster.out("gpu2", "head -n 1 /root/kernels")
    installed = cluster.out("gpu2", "dpkg-query -W -f '${Version}' nvidia-kernel-dkms").split("-")[0]
    assert cluster.out("gpu2", f"modinfo -k {kernel} -F version nvidia-current") == installed
    assert cluster.out("gpu2", f"modinfo -k {kernel} -F license nvidia-current") == "NVIDIA"
    # The real user space, of the same version.
    assert installed in cluster.out("gpu2", "dpkg-query -W -f '${Version}' libcuda1")
    assert "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver" in cluster.run("gpu2", "nvidia-smi").stdout
    assert changed(cluster.playbook(PLAYBOOK, *LIMIT, inventories=INVENTORIES)) == []
