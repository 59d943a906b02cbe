"""The distribution's own driver. On Debian 12 it is really built, beside the other tests (conftest.py); Debian 13's takes longer and is only chosen."""

from __future__ import annotations

import subprocess

from conftest import REAL, Real
from local import Cluster, changed


def test_what_the_distribution_has_is_chosen(cluster: Cluster):
    """With module and user space of one version, for a GPU that it drives; nothing is changed by the question."""
    branch = {"bookworm": "535", "trixie": "550"}[cluster.release]
    before = cluster.out("gpu2", "dpkg -l | sha256sum; ls /etc/apt/*")
    said = " ".join(cluster.playbook(*REAL, "--check", "--diff", inventories=("hosts.yml", "distribution.yml"), succeeds=True).split())
    if cluster.release == "trixie":
        assert f"+Pin: version {branch}." in said
    assert cluster.out("gpu2", "dpkg -l | sha256sum; ls /etc/apt/*") == before


def test_the_real_module_is_built(cluster: Cluster, real_driver: Real):
    if cluster.release != "bookworm":
        return
    assert real_driver.wait(1800) == 0, real_driver.told()
    kernel = cluster.out("gpu2", "head -n 1 /root/kernels")
    version = cluster.out("gpu2", f"modinfo -k {kernel} -F version nvidia-current")
    assert version.startswith("535.")
