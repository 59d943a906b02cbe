"""The role slurm_controller and the configuration that the role slurm_cluster delivers."""

from __future__ import annotations

import pytest
from local import Cluster

OWNS = (
    "roles/slurm_controller",
    "plugins/filter/hostlist.py",
    "plugins/module_utils/_slurm/hostlist.py",
    "plugins/plugin_utils/_slurm/conf.py",
)


@pytest.mark.parametrize("host", ["ctl"], indirect=True)
def test_controller_serves(host):
    assert host.service("slurmctld").is_running
    assert host.service("slurmctld").is_enabled
    assert "is UP" in host.check_output("scontrol ping")


@pytest.mark.parametrize("host", ["ctl"], indirect=True)
def test_configuration_is_for_everybody_to_read_and_root_to_write(host):
    for name in ("slurm.conf", "gres.conf", "cgroup.conf"):
        file = host.file(f"/etc/slurm/{name}")
        assert (file.user, file.mode) == ("root", 0o644), name


def test_hardware_in_the_configuration_is_what_slurm_itself_sees(cluster: Cluster):
    """slurmd -C is SLURM's own reading of the host; memory is configured somewhat lower on purpose."""
    seen = dict(word.split("=") for word in cluster.out("gpu1", "slurmd -C").splitlines()[0].split())
    node = dict(word.split("=", 1) for word in cluster.out("ctl", "scontrol -o show node gpu1").split() if "=" in word)
    assert node["CPUTot"] == seen["CPUs"]
    assert node["CoresPerSocket"] == seen["CoresPerSocket"]
    assert node["ThreadsPerCore"] == seen["ThreadsPerCore"]
    assert 0 < int(seen["RealMemory"]) - int(node["RealMemory"]) < 1024 + 256
    assert "gpu:a100:2" in node["Gres"]


def test_slurm_expands_our_host_lists_as_we_do(cluster: Cluster):
    assert cluster.out("ctl", "scontrol show hostnames $(sinfo -h -p all -o %N)").split() == ["gpu1", "gpu2"]


def test_accounting_counts_each_gpu_type(cluster: Cluster):
    tres = cluster.out("ctl", "scontrol show config | grep AccountingStorageTRES")
    assert all(name in tres for name in ("gres/gpu", "gres/gpu:a100", "gres/gpu:t4"))
    assert "associations" in cluster.out("ctl", "scontrol show config | grep AccountingStorageEnforce")
