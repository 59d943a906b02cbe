"""Bad inventories: one sentence on the control node, and not even a connection to a host."""

from __future__ import annotations

import base64
import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest
from local import ROOT

KEY = base64.b64encode(bytes(range(64))).decode()
# No name resolves to anything: a run that tried to connect would say so.
GOOD = {
    "all": {
        "vars": {"munge_key": KEY, "slurm_cluster_name": "site"},
        "children": {
            "slurm_controllers": {"hosts": {"ctl": {"ansible_host": "ctl.invalid"}}},
            "slurm_databases": {"hosts": {"ctl": {}}},
            "slurm_nodes": {"hosts": {"gpu1": {"ansible_host": "gpu1.invalid"}, "gpu2": {"ansible_host": "gpu2.invalid"}}},
        },
    }
}


def refuse(tmp_path: Path, inventory: dict, *arguments: str, playbook: str = "slurm") -> str:
    path = tmp_path / "hosts.json"
    path.write_text(json.dumps(inventory), encoding="utf-8")
    words = [f"{sys.prefix}/bin/ansible-playbook", "-i", str(path), str(ROOT / f"playbooks/{playbook}.yml"), *arguments]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "UNREACHABLE" not in done.stdout, "a host was contacted"
    return " ".join(done.stdout.split())


def changed(**edits: object) -> dict:
    inventory = copy.deepcopy(GOOD)
    inventory["all"]["vars"].update(edits)
    return inventory


def without_controller() -> dict:
    inventory = changed()
    del inventory["all"]["children"]["slurm_controllers"]
    inventory["all"]["children"]["slurm_databases"]["hosts"]["ctl"] = {"ansible_host": "ctl.invalid"}
    return inventory


def with_same_address() -> dict:
    inventory = changed()
    inventory["all"]["children"]["slurm_nodes"]["hosts"]["gpu2"]["ansible_host"] = "gpu1.invalid"
    return inventory


def with_same_name() -> dict:
    inventory = changed()
    inventory["all"]["children"]["slurm_nodes"]["hosts"] = {"gpu1.rack1": {}, "gpu1.rack2": {}}
    return inventory


def with_ambiguous_address() -> dict:
    inventory = changed()
    inventory["all"]["children"]["slurm_controllers"]["hosts"]["ctl"]["ansible_host"] = "{{ inventory_hostname }}.invalid"
    return inventory


@pytest.mark.parametrize(
    ("inventory", "sentence"),
    [
        (without_controller(), "The inventory has no host in the group slurm_controllers: name the one that runs slurmctld."),
        (with_same_address(), "The hosts gpu1 and gpu2 have the same ansible_host gpu1.invalid: correct one of them."),
        (with_same_name(), "The hosts gpu1.rack1 and gpu1.rack2 have the same short name gpu1: correct one of them."),
        (with_ambiguous_address(), "ansible_host of ctl is made of inventory_hostname"),
        (changed(munge_key=""), "munge_key is not set for ctl, gpu1, gpu2: make one with 'openssl rand -base64 128"),
        # Accounts are compared with each other once each by itself is right.
        (
            changed(slurm_cluster_policy={"accounts": [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]}),
            "slurm_cluster_policy: accounts are their own parents: a below b below a. Give one of them another parent.",
        ),
        (
            changed(slurm_cluster_policy={"accounts": [{"name": "a", "coordinators": ["eve"]}]}),
            "slurm_cluster_policy: account a has the coordinator eve, who is a user of no account: name them in the users of one.",
        ),
        # Keys and forms that the argument_specs document: Ansible's own check of them must not speak first.
        (
            changed(slurm_cluster_partitions=[{"name": "a100", "gpu_type": ["a100"]}]),
            "slurm_cluster_partitions: partition a100 has the unknown key 'gpu_type' (did you mean gpu_types?).",
        ),
        (changed(slurm_cluster_partitions=["batch"]), "slurm_cluster_partitions must be a list of partitions, each with a name."),
        (changed(slurm_cluster_partitions=[{"name": "a", "max_time": 3600}]), "partition a needs a time in quotes as max_time"),
        (changed(slurm_cluster_policy={"acounts": []}), "slurm_cluster_policy has the unknown key 'acounts' (did you mean accounts?)."),
        (
            changed(slurm_cluster_policy=["a"]),
            "slurm_cluster_policy must be a dictionary with the keys accounts, qos, partitions, not a list.",
        ),
        (
            changed(slurm_cluster_cloud_nodes=[{"names": "c1", "cpu": 8, "cpus": 8, "memory_mib": 8192, "hook": "local"}]),
            "slurm_cluster_cloud_nodes: c1 has the unknown key 'cpu' (did you mean cpus?).",
        ),
    ],
    ids=[
        *("no_controller", "same_address", "same_name", "ambiguous_address", "no_munge_key", "own_parents", "coordinator"),
        *("partition_key", "partition_text", "partition_time", "policy_key", "policy_list", "cloud_node_key"),
    ],
)
def test_refused_before_a_host_is_contacted(tmp_path: Path, inventory: dict, sentence: str):
    assert sentence in refuse(tmp_path, inventory)


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path):
    accounts = [
        {"name": "a", "qos": ["fast"]},
        {"name": "b", "limits": {"gpus": -1}},
    ]
    inventory = changed(
        munge_key="c2hvcnQ=",
        slurm_cluster_name="",
        slurm_cluster_settings={"clusterName": "other"},
        slurm_cluster_cgroup_settings={"ConstrainDevices": "no"},
        slurm_cluster_partitions=[{"name": "gpu", "group": "nowhere"}],
        slurm_cluster_policy={"accounts": accounts},
    )
    sentences = [
        "munge_key has 5 bytes, munge takes 32 to 1024",
        "slurm_cluster_name is not set",
        "slurm_cluster_settings sets clusterName, which the collection sets itself (it comes from slurm_cluster_name)",
        "slurm_cluster_cgroup_settings sets ConstrainDevices",
        "slurm_cluster_partitions: partition gpu has the group nowhere, which is not in the inventory or has no host.",
        "slurm_cluster_policy: account a has the QOS fast, which is not declared in qos.",
        "slurm_cluster_policy: account b has -1 as gpus: write a whole number from 0 on without a unit, or unlimited.",
    ]
    output = refuse(tmp_path, inventory)
    assert [sentence for sentence in sentences if sentence not in output] == []


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("nonsense: [" * 1000000, " has 11000000 bytes, more than the 5 MiB that a policy may have."),
        ("accounts:\n  - name: a\n   users: [b]\n", ", line 3: "),
    ],
    ids=["10_MB_of_nonsense", "no_YAML"],
)
def test_policy_files_that_are_none_are_refused(tmp_path: Path, content: str, sentence: str):
    file = tmp_path / "policy.yml"
    file.write_text(content, encoding="utf-8")
    assert f"{file}{sentence}" in refuse(tmp_path, changed(slurm_cluster_policy_file=str(file)))


def test_the_good_inventory_is_not_refused(tmp_path: Path):
    """It gets as far as trying to connect: the refusals above are the inventories' fault."""
    path = tmp_path / "hosts.json"
    path.write_text(json.dumps(GOOD), encoding="utf-8")
    words = [f"{sys.prefix}/bin/ansible-playbook", "-i", str(path), str(ROOT / "playbooks/slurm.yml")]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    assert "UNREACHABLE" in done.stdout


def test_variables_that_only_the_controller_sees_are_refused(tmp_path: Path):
    """Under --limit another host would compute another cluster."""
    inventory = changed()
    inventory["all"]["children"]["slurm_controllers"]["vars"] = {"slurm_cluster_memory_reserve_mib": 2048}
    assert "slurm_cluster_memory_reserve_mib differs between ctl and gpu1" in refuse(tmp_path, inventory, "--limit", "gpu1")


def test_a_comparison_that_ends_early_leaves_a_report_that_says_so(tmp_path: Path):
    """There was none, so a timer had nothing to look at."""
    (tmp_path / "hosts.json").write_text(json.dumps(changed(slurm_cluster_name="No Name")), encoding="utf-8")
    report = tmp_path / "drift.json"
    words = [f"{sys.prefix}/bin/ansible-playbook", "-i", str(tmp_path / "hosts.json"), str(ROOT / "playbooks/slurm_drift.yml")]
    done = subprocess.run([*words, "-e", f"slurm_drift_report={report}"], cwd=ROOT, stdout=subprocess.PIPE, timeout=60, check=False)
    found = json.loads(report.read_text(encoding="utf-8"))
    assert done.returncode != 0 and report.stat().st_mode & 0o777 == 0o600
    assert (found["differs"], found["complete"]) == (None, False)
    assert "ended early" in found["summary"][0]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "slurm_uninstall_cluster is not set, but this inventory is of the cluster site: give its name"),
        (("-e", "slurm_uninstall_cluster=true"), "slurm_uninstall_cluster is true, but this inventory is of the cluster site"),
        (
            ("-e", "slurm_uninstall_cluster=site slurm_uninstall_records=yes"),
            "slurm_uninstall_records is yes: give the name of the cluster",
        ),
        (("-e", "slurm_uninstall_cluster=site slurm_uninstall_end_jobs_in=all"), "slurm_uninstall_end_jobs_in is all: give the name"),
        (("-e", "slurm_uninstall_cluster=site", "--limit", "gpu1"), "Run it without --limit"),
    ],
)
def test_only_a_cluster_that_is_named_is_taken_away(tmp_path: Path, words: tuple[str, ...], sentence: str):
    assert sentence in refuse(tmp_path, GOOD, *words, "-e", "site_check_lock=false", playbook="slurm_uninstall")
