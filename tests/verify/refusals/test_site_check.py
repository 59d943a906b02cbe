# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Misspelt variables and groups: one sentence from every playbook, and not even a connection to a host."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from local import ROOT

# Those that any inventory may have: the check itself, and what is for all hosts.
ANY = ("site_check", "gpu_simulator", "tosca_accounts")
PLAYBOOKS = sorted(path.stem for path in (ROOT / "playbooks").glob("*.yml") if path.stem not in ANY)
GROUPS = ["slurm_controllers", "slurm_databases", "slurm_nodes", "slurm_logins", "gpu_hosts", "iam_hosts", "oidc_proxies"]
GROUPS += ["opennebula_frontends", "opennebula_hosts", "slurm_cloud_images"]


def run(tmp_path: Path, playbook: str, groups: list[str], *words: str, **variables: object) -> str:
    children = {group: {"hosts": {"host1": {"ansible_host": "host1.invalid"}}} for group in groups}
    path = tmp_path / "hosts.json"
    path.write_text(json.dumps({"all": {"vars": variables, "children": children}}), encoding="utf-8")
    command = [f"{sys.prefix}/bin/ansible-playbook", "-i", str(path), str(ROOT / f"playbooks/{playbook}.yml"), *words]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "UNREACHABLE" not in done.stdout, "a host was contacted"
    return " ".join(done.stdout.split())


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_every_playbook_refuses_an_inventory_without_its_groups(tmp_path: Path, playbook: str):
    """It was a success: no hosts matched."""
    assert "The inventory has no host in the group" in run(tmp_path, playbook, ["something_else"])


def test_a_misspelt_variable_wherever_it_is_set(tmp_path: Path):
    sentence = "slurm_cluster_partition (set for host1) is no variable of deephdc.accelerators: did you mean slurm_cluster_partitions?"
    assert sentence in run(tmp_path, "slurm", GROUPS, slurm_cluster_partition=[])
    assert sentence in run(tmp_path, "slurm_backup", GROUPS, "-e", "slurm_cluster_partition=x")
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars/host1.yml").write_text("slurm_cluster_partition: []\n")
    assert sentence in run(tmp_path, "oidc_proxy", GROUPS)
    assert sentence in run(tmp_path, "gpu_hosts", GROUPS, "--limit", "host1")


def test_a_wrong_vault_password_names_the_variable(tmp_path: Path):
    """It was the fourth clause of "Finalization of task args for 'ansible.builtin.assert' failed"."""
    (tmp_path / "right").write_text("right")
    (tmp_path / "wrong").write_text("wrong")
    words = [f"{sys.prefix}/bin/ansible-vault", "encrypt_string", "--vault-password-file", str(tmp_path / "right"), "secret"]
    secret = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars/host1.yml").write_text(f"munge_key: {secret}\n")
    said = run(tmp_path, "slurm", GROUPS, "--vault-password-file", str(tmp_path / "wrong"))
    assert "munge_key (set for host1) can't be read: Decryption failed" in said


def test_what_only_a_run_may_set_is_refused_before_it_and_accepted_in_it(tmp_path: Path):
    """A plan must come from a run.

    The playbook slurm_restore imports slurm.yml, whose check finds the facts of the first plays.
    """
    sentence = "is a fact of the role slurm_cluster, which only a run may set: take it out."
    assert sentence in run(tmp_path, "slurm", GROUPS, slurm_cluster_plan={"errors": []})
    assert sentence in run(tmp_path, "slurm_drain", GROUPS, "-e", "slurm_cluster_state_comes=true")
    check = str(ROOT / "playbooks/site_check.yml")
    task = {"ansible.builtin.set_fact": {"slurm_cluster_plan": {}}, "delegate_to": "host2", "delegate_facts": True}
    (tmp_path / "set.yml").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    command = [f"{sys.prefix}/bin/ansible-playbook", "-i", "host1,host2,", "--limit", "host1", check, str(tmp_path / "set.yml"), check]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout
