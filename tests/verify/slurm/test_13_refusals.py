"""What a run refuses changes nothing, or is taken back."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from local import Cluster, changed
from slurm_site import SITE, forget, snapshot, words

OWNS = (
    "playbooks/site_check.yml",
    "roles/site_check",
    "roles/slurm_cluster/tasks/read_hosts.yml",
    "roles/slurm_cluster/tasks/take_back.yml",
    "plugins/filter/site_check.py",
    "plugins/plugin_utils/_slurm/inventory.py",
    "tests/data/other_variables",
)


def test_a_configuration_that_slurmctld_does_not_start_with_is_taken_back(cluster: Cluster):
    before = snapshot(cluster)
    variables = {"slurm_cluster_settings": {"PriorityType": "priority/nonsense"}}
    output = cluster.playbook(SITE, "--tags", "slurm_cluster", variables=variables, succeeds=False)
    assert "The new configuration was taken back, the cluster runs with the one before: slurmctld" in words(output)
    after = snapshot(cluster)
    # The nodes report to the restarted controller a moment later.
    assert {k: v for k, v in after.items() if k != "nodes"} == {k: v for k, v in before.items() if k != "nodes"}
    for name in ("gpu1", "gpu2"):
        cluster.until("ctl", f"sinfo -h -n {name} -p all -o %T", "idle")


def test_a_member_outside_of_the_run_that_hangs_is_named_and_nothing_changes(cluster: Cluster, tmp_path: Path):
    """Without its facts slurm.conf would have a node less."""
    before = snapshot(cluster)
    cluster.out("gpu2", r"printf '#!/bin/sh\nsleep 600\n' > /root/hangs; chmod +x /root/hangs")
    hangs = tmp_path / "hangs.yml"
    hosts = {"gpu2": {"ansible_python_interpreter": "/root/hangs"}}
    hangs.write_text(json.dumps({"all": {"children": {"local_hosts": {"hosts": hosts}}}}), encoding="utf-8")
    begin = time.monotonic()
    limited = ("--limit", "gpu1", "--flush-cache", "--tags", "slurm_cluster")
    inventories = ("hosts.yml", str(hangs))
    try:
        output = cluster.playbook(SITE, *limited, inventories=inventories, variables={"site_check_absent_seconds": 10}, succeeds=False)
    finally:
        cluster.out("gpu2", "rm /root/hangs")
    assert time.monotonic() - begin < 180
    assert "No facts of gpu2 are known: it did not answer and nothing is cached; bring it up" in words(output)
    assert changed(output) == []
    assert snapshot(cluster) == before


def test_an_unsupported_distribution_is_refused(cluster: Cluster):
    version = cluster.out("login", "cat /etc/debian_version")
    cluster.out(
        "login", "cp /usr/lib/os-release /tmp/os-release; echo 11.9 > /etc/debian_version; sed -i '/^VERSION_ID=/d' /usr/lib/os-release"
    )
    try:
        output = cluster.playbook(SITE, "--flush-cache", succeeds=False)
    finally:
        cluster.out("login", f"cp /tmp/os-release /usr/lib/os-release; echo {version} > /etc/debian_version")
        forget(cluster, "login")
    assert "login runs Debian 11, which is not supported (supported: Debian 12, Debian 13)" in words(output)
    assert changed(output) == []


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        (
            {"slurm_cluster_partitions": [{"name": "big", "gpu_types": ["h100"]}]},
            "slurm_cluster_partitions: partition big asks for GPU type h100, which none of the nodes gpu[1-2] has; they have a100, t4.",
        ),
        (
            {"slurm_cluster_settings": {"SchedulerTypo": "sched/backfill"}},
            "/etc/slurm/slurm.conf was left as it was, because the new content was refused",
        ),
    ],
)
def test_what_the_facts_or_slurms_parser_refuse_changes_nothing(cluster: Cluster, variables: dict, sentence: str):
    before = snapshot(cluster)
    output = cluster.playbook(SITE, "--tags", "slurm_cluster", variables=variables, succeeds=False)
    assert sentence in words(output)
    assert changed(output) == []
    assert snapshot(cluster) == before
