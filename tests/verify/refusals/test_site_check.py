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


@pytest.mark.parametrize("playbook", ["slurm_backup", "kubernetes", "tosca_accounts"])
@pytest.mark.parametrize("inventory", [(), ("-i", "/dev/null")])
def test_a_playbook_refuses_to_run_without_a_host(tmp_path: Path, playbook: str, inventory: tuple[str, ...]):
    """A backup by night that had lost its inventory was a success."""
    words = [f"{sys.prefix}/bin/ansible-playbook", *inventory, str(ROOT / f"playbooks/{playbook}.yml")]
    done = subprocess.run(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "The inventory has no host: name it with -i, or in ansible.cfg." in " ".join(done.stdout.split())


def test_hosts_that_do_not_wait_for_each_other_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Half of a configuration would be written."""
    for strategy in ("free", "ansible.builtin.host_pinned"):
        monkeypatch.setenv("ANSIBLE_STRATEGY", strategy)
        assert f"The strategy is {strategy}, with which hosts do not wait" in run(tmp_path, "slurm", GROUPS)


@pytest.mark.parametrize("name", ["slurm_login", "slurm-logins", "Slurm_Logins", "slurm_loggins", "kubernetes_worker"])
def test_a_misspelt_group_that_a_playbook_could_do_without(tmp_path: Path, name: str):
    meant = "kubernetes_workers" if name.startswith("k") else "slurm_logins"
    groups = [*(one for one in GROUPS if one != meant), "kubernetes_control_plane", name]
    assert f"The inventory has the group {name}, which no playbook reads: did you mean {meant}?" in run(tmp_path, "slurm", groups)


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


def test_a_secret_that_nothing_sets_is_named(tmp_path: Path):
    """The task that needed it said that the finalization of its arguments failed."""
    said = run(tmp_path, "slurm", GROUPS, munge_key="{{ vault_munge_kee }}")
    assert "munge_key (set for host1) uses vault_munge_kee, which nothing in the inventory sets" in said


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
