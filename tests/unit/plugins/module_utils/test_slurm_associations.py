# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""From what slurmdbd has and what a policy asks for to the commands between them."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import associations as slurm_associations
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import limits as slurm_limits
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.associations import Job, plan, removals, wanted
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.slurm_accounting import Database

POLICY = {
    "qos": [
        {
            "name": "Long",
            "preempt": ["spare"],
            "limits": {"gpus": 8, "per_job": {"wall": "2-00:00:00", "memory": "64G"}, "per_user": {"jobs": 2}},
        },
        {"name": "spare", "flags": ["DenyOnLimit", "NoReserve"], "usage_factor": 0.5},
    ],
    "accounts": [
        {"name": "physics", "parent": "science", "limits": {"per_user": {"gpus": {"a100": 1, "any": 2}}}, "users": ["ada", "bob"]},
        {
            "name": "science",
            "description": "All of Science, mostly",
            "fairshare": 10,
            "qos": ["normal", "long"],
            "default_qos": "normal",
            "limits": {"gpu_minutes": 6000, "cpus": 100},
            "coordinators": ["emmy"],
        },
        {"name": "chemistry", "users": [{"name": "emmy", "fairshare": "parent"}, {"name": "ada", "default": True}]},
    ],
}


@pytest.fixture
def database():
    """What slurmdbd has after the policy was reconciled."""
    found = Database()
    found.run(plan("demo", found.state(), wanted(POLICY), purge=False).commands)
    return found


def edited(**changes):
    """The policy with other values of its account science."""
    accounts = [{**account, **changes} if account["name"] == "science" else account for account in POLICY["accounts"]]
    return wanted({**POLICY, "accounts": accounts})


def test_commands_of_a_new_cluster():
    assert plan("demo", Database().state(), wanted(POLICY), purge=False).commands == [
        ["add", "cluster", "demo"],
        [
            "add", "qos", "name=long", "MaxJobsPerUser=2", "MaxWall=2880", "description=long", "flags=DenyOnLimit",
            "GrpTRES=gres/gpu=8", "MaxTRESPerJob=mem=65536",
        ],
        ["add", "qos", "name=spare", "description=spare", "flags=DenyOnLimit,NoReserve", "usagefactor=0.5"],
        ["modify", "qos", "where", "name=normal", "set", "flags=DenyOnLimit"],
        ["modify", "qos", "where", "name=long", "set", "preempt=spare"],
        [
            "add", "account", "name=science", "cluster=demo", "defaultqos=normal", "description=all of science, mostly", "fairshare=10",
            "parent=root", "qos=long,normal", "GrpTRES=cpu=100", "GrpTRESMins=gres/gpu=6000",
        ],
        ["add", "account", "name=chemistry", "cluster=demo", "description=chemistry", "parent=root"],
        ["add", "account", "name=physics", "cluster=demo", "description=physics", "parent=science"],
        ["add", "user", "name=ada,bob", "cluster=demo", "account=physics", "GrpTRES=gres/gpu=2,gres/gpu:a100=1"],
        ["add", "user", "name=emmy", "cluster=demo", "account=chemistry", "fairshare=parent"],
        ["add", "user", "name=ada", "cluster=demo", "account=chemistry"],
        ["modify", "user", "where", "name=ada", "cluster=demo", "set", "defaultaccount=chemistry"],
        ["add", "coordinator", "account=science", "names=emmy"],
    ]  # fmt: skip


def test_nothing_is_left_to_do_afterwards(database):
    found = plan("demo", database.state(), wanted(POLICY), purge=False)
    assert (found.commands, found.added, found.changed, found.undeclared) == ([], [], [], [])
    assert plan("demo", database.state(), wanted(POLICY), purge=True).commands == []


def test_what_there_is_can_be_declared(database):
    policy = slurm_associations.policy_of(database.state())
    for purge in (False, True):
        assert plan("demo", database.state(), wanted(policy), purge).commands == []
    science = next(account for account in policy["accounts"] if account["name"] == "science")
    assert science["limits"] == {"gpu_minutes": 6000, "cpus": 100} and science["coordinators"] == ["emmy"]


def test_thousands_of_equal_users_are_few_commands():
    users = [f"u{number}" for number in range(2000)]
    policy = {"accounts": [{"name": "a", "limits": {"per_user": {"gpus": 1}}, "users": users}]}
    commands = plan("demo", Database().state(), wanted(policy), purge=False).commands
    assert [command[1] for command in commands].count("user") == 5
    assert max(len(word) for command in commands for word in command) < 100000


@pytest.mark.parametrize(
    ("changes", "command"),
    [
        ({"fairshare": 20}, ["cluster=demo", "set", "fairshare=20"]),
        (
            {"limits": {"gpu_minutes": 7000, "cpus": 100, "gpus": 4}},
            ["cluster=demo", "set", "GrpTRES=gres/gpu=4", "GrpTRESMins=gres/gpu=7000"],
        ),
        ({"limits": {"gpu_minutes": "unlimited", "cpus": 100}}, ["cluster=demo", "set", "GrpTRESMins=gres/gpu=-1"]),
        ({"limits": {"gpu_minutes": 6000}}, None),
        ({"description": "other"}, ["set", "description=other"]),
        ({"description": "ALL of science, mostly"}, None),
    ],
)
def test_changes(database, changes, command):
    found = plan("demo", database.state(), edited(**changes), purge=False)
    assert found.commands == ([["modify", "account", "where", "name=science", *command]] if command else [])
    assert found.changed == (["account science"] if command else [])


def test_what_is_not_declared_stays_and_is_told_or_taken_back(database):
    database.run([["modify", "account", "where", "name=chemistry", "cluster=demo", "set", "GrpJobs=5", "fairshare=3"]])
    found = plan("demo", database.state(), wanted(POLICY), purge=False)
    assert (found.commands, found.undeclared) == ([], ["account chemistry: GrpJobs=5 fairshare=3"])
    found = plan("demo", database.state(), wanted(POLICY), purge=True)
    assert found.commands == [["modify", "account", "where", "name=chemistry", "cluster=demo", "set", "GrpJobs=-1", "fairshare=1"]]
    assert (found.before, found.after) == (["account chemistry GrpJobs=5 fairshare=3"], ["account chemistry GrpJobs=-1 fairshare=1"])


def test_tree_that_is_turned_round_is_moved_from_the_top_down(database):
    policy = {**POLICY, "accounts": [{"name": "science", "parent": "physics"}, {"name": "physics"}, {"name": "chemistry"}]}
    commands = plan("demo", database.state(), wanted(policy), purge=False).commands
    assert [(command[3], command[-1]) for command in commands] == [
        ("name=physics", "parent=root"),
        ("name=physics", "qos="),  # else slurmctld keeps the former parent's QOS
        ("name=science", "parent=physics"),
        ("name=science", "qos=long,normal"),
    ]


def going(database, policy, jobs=(), partition_qos=()):
    return {one.what: one.why for one in removals("demo", database.state(), wanted(policy), list(jobs), partition_qos)}


def test_removals_begin_at_the_leaves_and_spare_roots_and_normal(database):
    keep = {"accounts": [{"name": "chemistry", "users": ["ada"]}]}
    found = removals("demo", database.state(), wanted(keep), [], ())
    assert [one.command for one in found] == [
        ["delete", "user", "where", "name=emmy", "account=chemistry", "cluster=demo"],
        ["delete", "account", "where", "name=physics", "cluster=demo"],
        ["delete", "account", "where", "name=science", "cluster=demo"],
        ["delete", "qos", "where", "name=long"],
        ["delete", "qos", "where", "name=spare"],
    ]
    undeclared = plan("demo", database.state(), wanted(keep), purge=False).undeclared
    assert set(undeclared) == {"QOS long", "QOS spare", "account science", "account physics", "user emmy in chemistry"}


def test_what_jobs_partitions_or_other_clusters_need_stays(database):
    keep = {"accounts": [{"name": "chemistry", "users": ["ada"]}]}
    jobs = [Job("physics", "bob", "long"), Job("chemistry", "emmy", "normal")]
    assert going(database, keep, jobs, ["spare"]) == {
        "user emmy in chemistry": "jobs of theirs are pending or running",
        "account physics": "jobs in it are pending or running",
        "account science": "account physics is below it",
        "QOS long": "jobs with it are pending or running",
        "QOS spare": "a partition names it",
    }
    database.clusters.append("other")
    assert going(database, keep)["QOS spare"] == "other clusters of this database may use it"


def test_user_that_leaves_the_default_account_gets_another_one_first(database):
    policy = {"accounts": [{"name": "physics", "users": ["ada", "bob"]}, {"name": "chemistry", "users": ["emmy"]}]}
    commands = plan("demo", database.state(), wanted(policy), purge=True).commands
    assert ["modify", "user", "where", "name=ada", "cluster=demo", "set", "defaultaccount=physics"] in commands
    assert "user ada in chemistry" in going(database, policy)


def test_coordinators_that_are_listed_for_accounts_below_are_no_strangers(database):
    database.coordinators["physics"] = {"emmy"}  # as 24.11 lists them
    assert plan("demo", database.state(), wanted(POLICY), purge=False).undeclared == []
    database.coordinators["chemistry"] = {"eve"}
    assert plan("demo", database.state(), wanted(POLICY), purge=False).undeclared == ["coordinator eve of chemistry"]
    assert list(going(database, POLICY)) == ["coordinator eve of chemistry"]


@pytest.mark.parametrize(
    ("printed", "mebibytes"),
    [("65536", "65536"), ("64G", "65536"), ("1000M", "1000"), ("1.50T", "1572864"), ("2048K", "2"), ("1P", "1073741824")],
)
def test_memory_as_slurm_prints_it(printed, mebibytes):
    assert slurm_limits.mebibytes(printed) == mebibytes


@pytest.mark.parametrize(("printed", "minutes"), [("00:05:00", "5"), ("01:30:00", "90"), ("2-00:00:00", "2880"), ("00:00:30", "1")])
def test_wall_times(printed, minutes):
    assert slurm_limits.minutes(printed) == minutes
    assert printed == "00:00:30" or slurm_limits.wall(minutes) == printed


def test_whom_another_role_closed_stays_closed(database):
    """A run with purge opened the accounting of users whom iam_accounts had closed: it took them for those that a purge had closed."""
    policy = {"accounts": [{"name": "gpu", "users_from": "iam"}]}
    database.run(plan("demo", database.state(), wanted(policy), purge=False).commands)
    database.run([["add", "user", "name=nora", "cluster=demo", "account=gpu", "GrpJobs=0", "GrpSubmitJobs=0"]])
    database.run([["add", "user", "name=omar", "cluster=demo", "account=gpu", "GrpSubmitJobs=0"]])
    commands = plan("demo", database.state(), wanted(policy), purge=False).commands
    assert [words for words in commands if "nora" in str(words)] == []
    assert [words for words in commands if "omar" in str(words)] != []
