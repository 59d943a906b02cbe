# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""One host for OpenStack and SLURM: a server and a job at the same time, each with its own GPU and none of the other's."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest
from local import Cluster, changed
from openstack_users import Account

OWNS = ("roles/nova_lxd/tasks/guard.yml",)

LEAVES = "SLURM on three hosts, with its database: its removal leaves packages"
PLAYBOOK, SLURM = "playbooks/openstack.yml", "playbooks/slurm.yml"
HOST = "lxd1"
# The devices of the host as the simulator numbers them.
SERVERS, JOBS = "0000:01:00.0", "0000:02:00.0"
# What opening each GPU of the host gives. A simulated device that is let through has no driver that would answer.
OPEN = 'for n in 0 1; do (: </dev/nvidia$n) 2>&1 | sed "s/.*: /$n: /"; done'
DENIED, OPENS = "Operation not permitted", "No such device or address"
OWN_ONLY = [f"0: {DENIED}", f"1: {OPENS}"]
# The cloud has offered both: a GPU that is another manager's now was promised, so a person must say that it may go.
ACCEPT = {"openstack_cloud_accept_hardware": [HOST]}


def inventory(cluster: Cluster, allotment: dict[str, list[str]]) -> dict[str, Any]:
    """A second inventory: ctl is SLURM's controller, too, lxd1 its node, and the database is on the host that has the cloud's."""
    own = {"accelerator_allotment": {name: {"devices": devices} for name, devices in allotment.items()}} if allotment else {}
    more = {
        "all": {
            "vars": {
                "slurm_cluster_name": "shared",
                "slurm_cluster_partitions": [{"name": "batch", "default": True}],
                "slurm_cluster_policy": {"accounts": [{"name": "physics", "users": ["tom"]}]},
            },
            "children": {
                "slurm_controllers": {"hosts": {"ctl": {}}},
                "slurm_databases": {"hosts": {"data": {}}},
                "slurm_nodes": {"hosts": {HOST: own}, "vars": {"slurm_cluster_device_root": "/var/lib/gpu_simulator"}},
            },
        }
    }
    text = json.dumps(more)
    path = cluster.state / f"shared-{zlib.crc32(text.encode())}.json"
    path.write_text(text, encoding="utf-8")
    return {"inventories": ("hosts.yml", str(path))}


def job(cluster: Cluster, program: str, words: str = "--gres=gpu:1") -> list[str]:
    """The lines that a job of tom's prints."""
    return cluster.out("ctl", f"runuser -u tom -- srun --chdir=/tmp {words} sh -c '{program}'").split("\n")


def words(output: str) -> str:
    return " ".join(output.split())


@pytest.fixture(scope="module", autouse=True)
def no_servers(ada: Account) -> None:
    assert ada.ask("answer = removed(*[server.id for server in cloud.compute.servers()])") == []


def test_without_an_allotment_it_is_refused_before_a_host_is_contacted(cluster: Cluster) -> None:
    for playbook in (PLAYBOOK, SLURM):
        said = words(cluster.playbook(playbook, succeeds=False, **inventory(cluster, {})))
        assert f"{HOST} is in slurm_nodes and openstack_lxd_hosts, but nothing says which of them owns which device" in said
        assert "changed=1" not in said


def test_a_server_and_a_job_run_at_the_same_time_each_with_its_own_gpu(cluster: Cluster, ada: Account) -> None:
    options = inventory(cluster, {"slurm": [JOBS], "openstack": [SERVERS]})
    for host in ("ctl", HOST):
        cluster.out(host, "id tom || useradd --create-home --uid 2001 tom")
    said = words(cluster.playbook(SLURM, succeeds=False, **options))
    assert f"jobs of SLURM on {HOST} can open the a100 {SERVERS}, which accelerator_allotment does not give to SLURM" in said
    assert job(cluster, OPEN) == [f"0: {OPENS}", f"1: {OPENS}"]
    cluster.playbook(PLAYBOOK, variables=ACCEPT, **options)
    cluster.playbook(SLURM, **options)
    assert job(cluster, OPEN) == OWN_ONLY
    number = cluster.out("ctl", "runuser -u tom -- sbatch --parsable --chdir=/tmp --gres=gpu:1 --wrap 'sleep 600'").strip()
    cluster.until("ctl", f"squeue --noheader --format=%T --jobs={number}", "RUNNING")
    server = ada.start("beside", "a100")
    try:
        assert server["status"] == "ACTIVE", server
        name = cluster.out(HOST, "lxc list --format csv --columns n").strip()
        inside = cluster.out(HOST, f"lxc exec {name} -- sh -c 'for file in /dev/nvidia*; do [ -c $file ] && echo $file; done; true'")
        assert inside.split() == ["/dev/nvidia0"]
        taken = inventory(cluster, {"slurm": [JOBS, SERVERS], "openstack": []})
        in_use = f"{HOST}: accelerator_allotment takes a GPU from OpenStack that is in use, by server {server['id']} (beside) of ada"
        said = cluster.playbook(PLAYBOOK, variables=ACCEPT, succeeds=False, **taken)
        assert in_use in words(said) and changed(said) == []
        ada.ask(f"cloud.compute.stop_server({server['id']!r}); answer = settled({server['id']!r}, wanted=('SHUTOFF',)).status")
        said = cluster.playbook(PLAYBOOK, "--check", variables=ACCEPT, succeeds=False, **taken)
        assert in_use in words(said) and changed(said) == [], "a stopped server keeps its GPU"
        assert cluster.out("ctl", f"runuser -u tom -- srun --jobid={number} --overlap sh -c '{OPEN}'").split("\n") == OWN_ONLY
        second = ada.start("second", "a100")
        ada.remove(second["id"])
        assert second["status"] == "ERROR" and "No valid host" in second["fault"]
        assert cluster.out("ctl", f"squeue --noheader --format=%T --jobs={number}").strip() == "RUNNING"
    finally:
        ada.remove(server["id"])
        cluster.out("ctl", f"scancel {number}")


def test_a_second_run_of_both_changes_nothing(cluster: Cluster) -> None:
    options = inventory(cluster, {"slurm": [JOBS], "openstack": [SERVERS]})
    for playbook in (SLURM, PLAYBOOK):
        assert changed(cluster.playbook(playbook, **options)) == []
    cluster.until("ctl", "squeue --noheader | wc -l", "0")
    cluster.out(HOST, "systemctl restart slurmd")
    cluster.until("ctl", f"sinfo --noheader --nodes={HOST} --format=%T", "idle")
    assert job(cluster, OPEN) == OWN_ONLY


def test_a_gpu_given_to_slurm_opens_again(cluster: Cluster) -> None:
    options = inventory(cluster, {"slurm": [JOBS, SERVERS], "openstack": []})
    cluster.playbook(PLAYBOOK, variables=ACCEPT, **options)
    cluster.playbook(SLURM, **options)
    assert job(cluster, OPEN, "--gres=gpu:2") == [f"0: {OPENS}", f"1: {OPENS}"]
