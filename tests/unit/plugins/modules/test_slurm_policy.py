# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module slurm_policy against a sacctmgr that keeps what it is told."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import slurm_policy

ROOT = {("root", ""), ("root", "root")}


def account(name, *users, parent="root", description=None):
    return {"name": name, "users": list(users), "parent": parent, "description": description}


def test_everything_is_missing_on_a_new_cluster():
    accounts = [account("science"), account("physics", "alice", "bob", parent="science", description="Particles, mostly")]
    assert slurm_policy.wanted("demo", accounts, set(), set()) == [
        ("cluster demo", ["cluster", "demo"]),
        ("account science", ["account", "science", "cluster=demo", "parent=root", "description=science"]),
        ("account physics", ["account", "physics", "cluster=demo", "parent=science", "description=Particles, mostly"]),
        ("user alice in physics", ["user", "alice", "account=physics", "cluster=demo"]),
        ("user bob in physics", ["user", "bob", "account=physics", "cluster=demo"]),
    ]


def test_what_is_there_is_not_added_and_nothing_is_removed():
    there = {*ROOT, ("physics", ""), ("physics", "alice"), ("old", ""), ("old", "carol")}
    assert slurm_policy.wanted("demo", [account("physics", "alice")], {"demo", "other"}, there) == []
    found = slurm_policy.wanted("demo", [account("physics", "alice", "bob"), account("old", "alice")], {"demo"}, there)
    assert [text for text, _words in found] == ["user bob in physics", "user alice in old"]


def test_names_are_compared_as_slurm_keeps_them():
    there = {*ROOT, ("physics", ""), ("physics", "alice")}
    assert slurm_policy.wanted("demo", [account("Physics", "Alice")], {"demo"}, there) == []


def test_account_that_is_declared_twice_is_added_once():
    found = slurm_policy.wanted("demo", [account("physics", "alice", "alice"), account("physics", "bob")], {"demo"}, ROOT)
    assert [text for text, _words in found] == ["account physics", "user alice in physics", "user bob in physics"]


@pytest.fixture
def sacctmgr(fake, tmp_path):
    """A sacctmgr that keeps clusters and associations in files."""
    (tmp_path / "clusters").touch()
    (tmp_path / "associations").write_text("root|\nroot|root\n")
    fake(
        "sacctmgr",
        f"""
case "$*" in
*--readonly\\ list\\ cluster*) cat {tmp_path}/clusters;;
*--readonly\\ list\\ associations*) cat {tmp_path}/associations;;
*add\\ cluster*) echo "$5" >> {tmp_path}/clusters;;
*add\\ account*) echo "$5|" >> {tmp_path}/associations;;
*add\\ user*) echo "${{6#account=}}|$5" >> {tmp_path}/associations;;
esac""",
    )
    return tmp_path


def policy(run, accounts, **options):
    return run(slurm_policy, cluster="demo", accounts=accounts, **options)


def test_added_once(run, fake, sacctmgr):
    accounts = [{"name": "physics", "users": ["alice"], "description": "two words"}]
    predicted = policy(run, accounts, _ansible_check_mode=True)
    assert [call for call in fake.calls() if " add " in call] == []
    first = policy(run, accounts)
    assert first["changed"] is True and first["added"] == predicted["added"] == ["cluster demo", "account physics", "user alice in physics"]
    assert first["diff"]["after"] == "cluster demo\naccount physics\nuser alice in physics\n"
    second = policy(run, accounts)
    assert (second["changed"], second["added"]) == (False, [])
    assert not [call for call in fake.calls() if "delete" in call or "remove" in call or "modify" in call]


def test_check_mode_before_slurm_is_installed(run, monkeypatch):
    monkeypatch.setattr(slurm_policy.AnsibleModule, "get_bin_path", lambda *_arguments: None)
    assert policy(run, [{"name": "physics"}], _ansible_check_mode=True)["added"] == ["cluster demo", "account physics"]


def test_what_slurmdbd_refuses_is_told(run, fake, sacctmgr):
    (sacctmgr / "clusters").write_text("demo\n")
    fake("sacctmgr", 'case "$*" in *add*) echo "  Parent account\n gone does not exist" >&2; exit 1;; *cluster) echo demo;; esac')
    failed = policy(run, [{"name": "physics", "parent": "gone"}])
    assert failed["msg"].startswith("slurmdbd refuses to add ") and failed["msg"].endswith(": Parent account gone does not exist")
    fake("sacctmgr", "echo 'Connection refused' >&2; exit 1")
    assert policy(run, [])["msg"] == "slurmdbd does not answer: Connection refused"
