# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module slurm_policy against a sacctmgr that prints a small cluster's accounts and records its arguments."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import sacctmgr as slurm_sacctmgr
from ansible_collections.deephdc.accelerators.plugins.modules import slurm_account_facts, slurm_policy

POLICY = {"accounts": [{"name": "physics", "limits": {"gpus": 4}, "users": ["ada"]}]}


@pytest.fixture
def sacctmgr(fake, monkeypatch):
    """sacctmgr(refuses="...") is one that refuses changes of what has this word."""
    monkeypatch.setattr(slurm_sacctmgr, "CONFIGURATION", __file__)

    def install(refuses="nothing at all", jobs="", limit="", qos=""):
        fake(
            "sacctmgr",
            f"""
case "$*" in
*list\\ clusters*) echo demo;;
*list\\ qos*) echo 'normal|0|DenyOnLimit||1.000000||||||||||||||Normal QOS | of all'
    [ -z '{qos}' ] || echo '{qos}|0|DenyOnLimit||1.000000||||||||||||||x';;
*list\\ associations*) printf '%s\\n' 'root||||1|normal||||||||' 'root|root|||1|||||||||' 'physics|||root|1|||gres/gpu=2||||||' \\
    'old|||root|1||||||{limit}|||' 'old|carol|||1|||||||||';;
*list\\ accounts*Organization*) printf '%s\\n' 'physics|physics' 'old|a|b';;
*list\\ accounts*) printf '%s\\n' 'physics||physics' 'old||old | new';;
*list\\ users*) echo 'carol|old';;
*"{refuses}"*) printf '  Error with\\n request' >&2; exit 1;;
esac""",
        )
        fake("squeue", f"echo '{jobs}'")
        fake("scontrol", "echo 'PartitionName=gpu AllowQos=ALL QoS=N/A'")

    install()
    return install


def changes(fake):
    return [call for call in fake.calls() if " --immediate " in call]


def test_added_and_changed(run, fake, sacctmgr):
    predicted = run(slurm_policy, cluster="demo", policy=POLICY, _ansible_check_mode=True)
    assert changes(fake) == []
    result = run(slurm_policy, cluster="demo", policy=POLICY)
    assert {key: predicted[key] for key in ("added", "updated", "undeclared", "diff", "changed")} == {
        "added": ["user ada in physics"],
        "updated": ["account physics"],
        "undeclared": ["account old"],
        "diff": {"before": "account physics GrpTRES=gres/gpu=2\n", "after": "account physics GrpTRES=gres/gpu=4\nuser ada in physics\n"},
        "changed": True,
    }
    assert result["diff"] == predicted["diff"] and result["removed"] == []
    assert changes(fake) == [
        "sacctmgr --immediate --quiet modify account where name=physics cluster=demo set GrpTRES=gres/gpu=4",
        "sacctmgr --immediate --quiet add user name=ada cluster=demo account=physics",
    ]


def test_purge(run, fake, sacctmgr):
    result = run(slurm_policy, cluster="demo", policy=POLICY, purge=True)
    assert (result["removed"], result["kept"]) == (["account old"], [])
    assert changes(fake)[-1] == "sacctmgr --immediate --quiet delete account where name=old cluster=demo"


def test_purge_leaves_what_jobs_need(run, fake, sacctmgr):
    sacctmgr(jobs="old|carol|normal")
    result = run(slurm_policy, cluster="demo", policy=POLICY, purge=True)
    assert (result["removed"], result["kept"]) == ([], ["account old: jobs in it are pending or running"])
    fake("squeue", "exit 1")
    result = run(slurm_policy, cluster="demo", policy=POLICY, purge=True)
    assert result["kept"] == ["account old: slurmctld does not tell whether jobs need it"]
    sacctmgr(refuses="delete account")  # a job came in between
    result = run(slurm_policy, cluster="demo", policy=POLICY, purge=True)
    assert result["kept"] == ["account old: slurmdbd refuses: Error with request"]
    assert sum("delete" in call for call in changes(fake)) == 1


def test_what_waits_for_its_jobs_takes_no_new_ones(run, fake, sacctmgr):
    """One held job kept a user who had left the policy submitting for ever."""
    sacctmgr(jobs="old|carol|normal")
    predicted = run(slurm_policy, cluster="demo", policy=POLICY, purge=True, _ansible_check_mode=True)
    result = run(slurm_policy, cluster="demo", policy=POLICY, purge=True)
    assert predicted["closed"] == result["closed"] == ["account old"] and result["changed"]
    assert changes(fake)[-1] == "sacctmgr --immediate --quiet modify account where name=old cluster=demo set GrpSubmitJobs=0"
    sacctmgr(jobs="old|carol|normal", limit="0")
    before = len(changes(fake))
    result = run(slurm_policy, cluster="demo", policy={"accounts": [{"name": "physics", "limits": {"gpus": 2}}]}, purge=True)
    assert (result["closed"], result["changed"], len(changes(fake))) == ([], False, before)


def test_who_is_named_again_may_submit_again(run, fake, sacctmgr):
    """With and without purge: a user whom a purge had closed stayed closed, and the run was green."""
    sacctmgr(limit="0")
    policy = {"accounts": [{"name": "physics", "limits": {"gpus": 2}}, {"name": "old"}]}
    result = run(slurm_policy, cluster="demo", policy=policy)
    assert result["updated"] == ["account old"]
    assert "sacctmgr --immediate --quiet modify account where name=old cluster=demo set GrpSubmitJobs=-1" in changes(fake)


def test_a_qos_stays_when_the_controller_does_not_name_those_of_its_partitions(run, fake, sacctmgr):
    """squeue answered, scontrol did not: slurmctld would not have started again."""
    sacctmgr(qos="extra")
    fake("scontrol", "exit 1")
    result = run(slurm_policy, cluster="demo", policy=POLICY, purge=True)
    assert "QOS extra: slurmctld does not say which QOS its partitions name" in result["kept"]
    fake("scontrol", "echo 'PartitionName=gpu AllowQos=ALL QoS=extra'")
    assert "QOS extra: a partition names it" in run(slurm_policy, cluster="demo", policy=POLICY, purge=True)["kept"]


def test_a_row_that_cannot_be_read_is_a_sentence(run, fake, sacctmgr):
    fake("sacctmgr", "echo 'x'")
    result = run(slurm_policy, cluster="demo", policy=POLICY)
    assert result["msg"].startswith("The accounts can't be read: 'sacctmgr list qos format=Name,Priority")


def test_purge_of_everything_is_refused(run, fake, sacctmgr):
    assert run(slurm_policy, cluster="demo", purge=True)["msg"].startswith(
        "purge with a policy that has no accounts would remove everybody"
    )
    assert fake.calls() == []


def test_bad_policy_is_refused_before_slurmdbd_is_asked(run, fake, sacctmgr):
    result = run(slurm_policy, cluster="demo", policy={"accounts": [{"name": "a", "parent": "b"}]})
    assert result["msg"] == "policy: account a has the parent b, which is not in accounts."
    assert fake.calls() == []


@pytest.mark.parametrize("packages", [False, True], ids=["not installed", "installed, not configured"])
def test_check_mode_before_the_first_run(run, fake, sacctmgr, monkeypatch, tmp_path, packages):
    if packages:
        monkeypatch.setattr(slurm_sacctmgr, "CONFIGURATION", str(tmp_path / "slurm.conf"))
    else:
        monkeypatch.setattr(slurm_policy.AnsibleModule, "get_bin_path", lambda *_arguments: None)
    assert run(slurm_policy, cluster="demo", policy=POLICY, _ansible_check_mode=True)["added"] == [
        "cluster demo",
        "QOS normal",
        "account physics",
        "user ada in physics",
    ]


def test_what_slurmdbd_refuses_is_told(run, fake, sacctmgr):
    sacctmgr(refuses="add user")
    assert run(slurm_policy, cluster="demo", policy=POLICY)["msg"] == (
        "slurmdbd refuses 'add user name=ada cluster=demo account=physics': Error with request. "
        "What came before it is done; correct the policy and run again."
    )
    fake("sacctmgr", "echo 'Connection refused' >&2; exit 1")
    assert run(slurm_policy, cluster="demo")["msg"] == "slurmdbd does not answer: Connection refused"


def test_facts(run, fake, sacctmgr):
    fake("sshare", "printf '%s\\n' 'root|||1.000000||cpu=3' ' physics|ada|0.250000|0.500000|cpu=240,mem=7,gres/gpu=60,gres/gpu:a100=60'")
    facts = run(slurm_account_facts, cluster="demo", usage=True)["ansible_facts"]["slurm_accounts"]
    assert facts["policy"]["accounts"] == [
        {"name": "physics", "description": "physics", "organization": "physics", "limits": {"gpus": 2}},
        {"name": "old", "description": "old | new", "organization": "a|b", "users": [{"name": "carol", "default": True}]},
    ]
    assert facts["usage"] == [
        {"account": "physics", "user": "ada", "used_share": 0.25, "fairshare_factor": 0.5, "gpu_minutes": 60, "cpu_minutes": 240}
    ]
    assert changes(fake) == []
