# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""One host for Kubernetes and SLURM: a pod and a job at the same time, each with its own GPU and none of the other's.

The test that gives the GPU back to SLURM is the last one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from kubernetes_devices import DRIVER, back_to_plugin, device_of
from kubernetes_site import PLAYBOOK, TRY, Site, recap

OWNS = (
    "roles/gpu_guard",
    "roles/kubernetes_cluster/tasks/guards.yml",
    "plugins/filter/gpu_guard.py",
    "plugins/plugin_utils/_gpu_guard.py",
    "plugins/plugin_utils/_kubernetes/shared_hosts.py",
)

pytestmark = pytest.mark.skipif(os.environ["LOCAL_RELEASE"] == "bookworm", reason="because a shared host needs dra, refused on Debian 12")
SLURM = "playbooks/slurm.yml"
# The devices of gpu1 as the simulator numbers them.
PODS, JOBS = "0000:01:00.0", "0000:02:00.0"
GUARD = ("--tags", "kubernetes_cluster,gpu_guard,validate")
# What opening each GPU of the host gives. A simulated device that is let through has no driver that would answer.
OPEN = 'for n in 0 1; do (: </dev/nvidia$n) 2>&1 | sed "s/.*: /$n: /"; done'
DENIED, OPENS = "Operation not permitted", "No such device or address"
OWN_ONLY = [f"0: {DENIED}", f"1: {OPENS}"]


def inventory(site: Site, allotment: dict[str, Any], kubernetes: dict[str, Any] | None = None) -> dict[str, Any]:
    """A second inventory: cp1 is SLURM's controller, too, and gpu1 its node."""
    more = {
        "all": {
            "vars": {
                "slurm_cluster_name": "shared",
                "slurm_cluster_partitions": [{"name": "batch", "default": True}],
                "slurm_cluster_policy": {"accounts": [{"name": "physics", "users": ["ada"]}]},
                "kubernetes_cluster_gpus": "dra",
                "kubernetes_cluster_dra_manifests": DRIVER,
                **(kubernetes or {}),
            },
            "children": {
                "slurm_controllers": {"hosts": {"cp1": {}}},
                "slurm_databases": {"hosts": {"cp1": {}}},
                "slurm_nodes": {"hosts": {"gpu1": allotment}, "vars": {"slurm_cluster_device_root": "/var/lib/gpu_simulator"}},
            },
        }
    }
    (site.state / "shared.json").write_text(json.dumps(more), encoding="utf-8")
    return {"inventories": ("hosts.yml", str(site.state / "shared.json"))}


def shared(slurm: list[str], kubernetes: list[str]) -> dict[str, Any]:
    return {"accelerator_allotment": {"slurm": {"devices": slurm}, "kubernetes": {"devices": kubernetes}}}


def job(site: Site, program: str, words: str = "--gres=gpu:1") -> str:
    """The output of a job of ada's."""
    return site.out("cp1", f"runuser -u ada -- srun --chdir=/tmp {words} sh -c '{program}'")


def what_a_job_opens(site: Site) -> list[str]:
    return job(site, OPEN).split("\n")


def test_without_an_allotment_it_is_refused_before_a_host_is_contacted(site: Site):
    for playbook in (PLAYBOOK, SLURM):
        said = " ".join(site.playbook(playbook, succeeds=False, **inventory(site, {})).split())
        assert "gpu1 is in slurm_nodes and kubernetes_workers, but nothing says which of them owns which device" in said
        assert "Read addresses" not in said and "changed=1" not in said


class Made(NamedTuple):
    """What was seen on the way to a shared host."""

    first: str
    open_before: list[str]
    second: str
    open_after: list[str]


@pytest.fixture(scope="module")
def both(site: Site) -> Iterator[Made]:
    """SLURM comes first, then Kubernetes' playbook shuts its GPU to jobs. At the end SLURM is removed."""
    options = inventory(site, shared([JOBS], [PODS]))
    for host in ("cp1", "gpu1"):
        site.out(host, "useradd --create-home --uid 2001 ada")
    first = " ".join(site.playbook(SLURM, succeeds=False, **options).split())
    before = what_a_job_opens(site)
    second = site.playbook(PLAYBOOK, *GUARD, **options)
    made = Made(first, before, second, what_a_job_opens(site))
    site.playbook(SLURM, **options)
    yield made
    site.until("cp1", "squeue --noheader | wc -l", "0")
    options = inventory(site, shared([JOBS, PODS], []))
    site.playbook(PLAYBOOK, *GUARD, **options)
    names = {"slurm_uninstall_cluster": "shared", "slurm_uninstall_records": "shared"}
    site.playbook("playbooks/slurm_uninstall.yml", variables=names, **options)
    for host in ("cp1", "gpu1"):
        site.out(host, "userdel --remove ada")
    # What MariaDB brought, and slurm_uninstall leaves as it is no package of SLURM's.
    site.out("cp1", "apt-get purge --yes --quiet gawk libmpfr6 libsigsegv2 && rm -f /etc/mysql/debian.cnf && rmdir /etc/mysql", timeout=300)
    back_to_plugin(site)


def test_jobs_can_open_kubernetes_gpu_until_its_playbook_ran(both: Made):
    assert f"jobs of SLURM on gpu1 can open the a100 {PODS}, which accelerator_allotment does not give to SLURM" in both.first
    assert both.open_before == [f"0: {OPENS}", f"1: {OPENS}"]
    assert "gpu1: 1 devices of 1 in ResourceSlices" in both.second
    assert both.open_after == OWN_ONLY


def test_a_pod_and_a_job_run_at_the_same_time_each_with_its_own_gpu(site: Site, both: Made):
    number = site.out("cp1", "runuser -u ada -- sbatch --parsable --chdir=/tmp --gres=gpu:1 --wrap 'sleep 600'").strip()
    site.until("cp1", f"squeue --noheader --format=%T --jobs={number}", "RUNNING")
    site.start("pod", f"{TRY}sleep 600", gpus=1, node="gpu1")
    try:
        assert device_of(site, "pod") == ("gpu1", "0"), "its own alone: made by number, SLURM's is denied"
        assert site.out("cp1", f"squeue --noheader --format=%T --jobs={number}").strip() == "RUNNING"
        inside = f"srun --jobid={number} --overlap sh -c '{OPEN}'"
        assert site.out("cp1", f"runuser -u ada -- {inside}").split("\n") == OWN_ONLY
        # A job that has no GPU opens none.
        assert job(site, OPEN, "--overcommit --mem=10") == f"0: {DENIED}\n1: {DENIED}"
    finally:
        site.remove("pod")
        site.out("cp1", f"scancel {number}")


def test_a_second_run_of_both_changes_nothing(site: Site, both: Made):
    options = inventory(site, shared([JOBS], [PODS]))
    for playbook, words in ((SLURM, ()), (PLAYBOOK, GUARD)):
        said = site.playbook(playbook, *words, **options)
        assert "changed=0" in recap(said, "cp1") and "changed=0" in recap(said, "gpu1"), said[-4000:]


@pytest.mark.parametrize(
    "command", ["systemctl restart slurmd", "systemctl stop slurmd; rmdir /sys/fs/cgroup/devices/slurm_gpu1; systemctl start slurmd"]
)
def test_it_stays_closed_when_slurmd_starts_anew_or_the_host_does(site: Site, both: Made, command: str):
    """After a boot there is no control group."""
    site.until("cp1", "squeue --noheader | wc -l", "0")
    site.out("gpu1", command)
    site.until("cp1", "sinfo --noheader --nodes=gpu1 --format=%T", "idle")
    assert what_a_job_opens(site) == OWN_ONLY


def test_a_gpu_is_not_closed_under_a_job(site: Site, both: Made):
    number = site.out("cp1", "runuser -u ada -- sbatch --parsable --chdir=/tmp --gres=gpu:1 --wrap 'sleep 600'").strip()
    site.until("cp1", f"squeue --noheader --format=%T --jobs={number}", "RUNNING")
    said = " ".join(site.playbook(PLAYBOOK, *GUARD, succeeds=False, **inventory(site, shared([], [PODS, JOBS]))).split())
    assert f"job {number} of SLURM uses /dev/nvidia1: wait for it, or cancel it" in said
    # A slurmd that starts meanwhile leaves it to the job, too.
    site.out("gpu1", "systemctl restart slurmd")
    inside = f"srun --jobid={number} --overlap sh -c '{OPEN}'"
    site.until("cp1", f"runuser -u ada -- {inside} | tail -1", f"1: {OPENS}")
    site.out("cp1", f"scancel {number}")
    site.until("cp1", "squeue --noheader | wc -l", "0")
    site.playbook(PLAYBOOK, *GUARD, **inventory(site, shared([JOBS], [PODS])))
    assert what_a_job_opens(site) == OWN_ONLY


def test_a_gpu_given_back_to_slurm_opens_again(site: Site, both: Made):
    options = inventory(site, shared([JOBS, PODS], []))
    site.playbook(PLAYBOOK, *GUARD, **options)
    site.playbook(SLURM, **options)
    assert job(site, OPEN, "--gres=gpu:2").split("\n") == [f"0: {OPENS}", f"1: {OPENS}"]
    assert "No such file" in site.out(
        "gpu1", "ls /etc/deephdc/gpu_guard /etc/systemd/system/slurmd.service.d/50-deephdc-gpu-guard.conf 2>&1 || true"
    )
