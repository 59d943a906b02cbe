"""Accounts, QOS, limits and access as a site declares them: real submissions are refused or run, and nothing is lost by a change."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from local import COMMON, ROOT, Cluster, changed
from slurm_jobs import UNTIL_TOLD, ended, submit, tell
from slurm_site import SITE

OWNS = (
    "plugins/module_utils/_slurm/associations.py",
    "plugins/module_utils/_slurm/limits.py",
    "plugins/module_utils/_slurm/policy.py",
    "plugins/module_utils/_slurm/sacctmgr.py",
    "plugins/modules/slurm_policy.py",
    "plugins/plugin_utils/_slurm/policy_file.py",
)


# The policy is the controller's business alone.
ACCOUNTS = ("--tags", "slurm_cluster", "--limit", "ctl")

POLICY: dict[str, Any] = {
    "qos": [
        {"name": "long", "priority": 10, "limits": {"per_job": {"wall": "00:30:00"}, "per_user": {"gpus": 1}}},
        {"name": "spare", "usage_factor": 0.5},
    ],
    "accounts": [
        {
            "name": "physics",
            "parent": "science",
            "fairshare": 3,
            "limits": {"gpu_minutes": 60, "per_job": {"wall": "01:00:00"}, "per_user": {"submitted_jobs": 4, "gpus": {"any": 2, "t4": 1}}},
            "users": ["ada"],
        },
        {"name": "science", "description": "All of science", "qos": ["normal", "long"], "limits": {"gpus": 3}},
        {"name": "teaching", "users": ["eve"], "fairshare": 1},
    ],
    "partitions": [{"name": "a100", "accounts": ["science"]}],
}


def edited(**changes: Any) -> dict[str, Any]:
    """The policy with other values of its account physics."""
    accounts = [{**account, **changes} if account["name"] == "physics" else account for account in POLICY["accounts"]]
    return {**POLICY, "accounts": accounts}


def module(cluster: Cluster, name: str, *arguments: str, **options: Any) -> dict[str, Any]:
    """The result of one module on the controller, by Ansible."""
    sources = ["-i", str(COMMON), "-i", str(cluster.inventory / "hosts.yml")]
    given = json.dumps({"cluster": f"test_{cluster.release}", **options})
    words = [f"{sys.prefix}/bin/ansible", "ctl", *sources, "-m", f"deephdc.accelerators.{name}", "-a", given, "--one-line", *arguments]
    done = subprocess.run(words, cwd=ROOT, env=cluster.environment(), capture_output=True, text=True, timeout=120, check=False)
    return dict(json.loads(done.stdout.split("=> ", 1)[1]))


def refused(cluster: Cluster, options: str, user: str = "ada") -> str:
    """What sbatch says at once; the job would end by itself otherwise."""
    done = cluster.run("login", f"timeout 20 sbatch --parsable --output=/dev/null {options} --wrap true", user=user)
    assert done.returncode not in (0, 124), f"{options} was accepted: {done.stdout}"
    return done.stderr


def accepted(cluster: Cluster, options: str, user: str = "ada") -> str:
    return cluster.out("login", f"sbatch --parsable --output=/dev/null {options} --wrap true", user=user)


@dataclass
class Site:
    """A job of ada's that runs from before the policy until after the last change, and how the policy came."""

    job: str
    # What SLURM has, before a run in check mode and after it.
    before: str
    between: str
    predicted: str
    applied: str


@pytest.fixture(scope="module")
def site(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The policy of the tests, from a file; afterwards that of the inventory."""
    file = tmp_path_factory.mktemp("site") / "policy.yml"
    file.write_text(yaml.safe_dump(POLICY))
    job = submit(cluster, "--time=20 --gres=gpu:a100:1 --nodelist=gpu1", UNTIL_TOLD)
    cluster.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    variables = {"slurm_cluster_policy": {}, "slurm_cluster_policy_file": str(file)}
    known = "sacctmgr -nP list associations; sacctmgr -nP list qos"
    before = cluster.out("ctl", known)
    predicted = cluster.playbook(SITE, *ACCOUNTS, "--check", "--diff", variables=variables)
    between = cluster.out("ctl", known)
    yield Site(job, before, between, predicted, cluster.playbook(SITE, *ACCOUNTS, variables=variables))
    cluster.run("ctl", "scancel --user=ada; scancel --user=eve")
    cluster.until("ctl", "squeue -h | wc -l", "0")
    cluster.playbook(SITE, *ACCOUNTS, variables={"slurm_cluster_policy_purge": True})
    # SLURM knows a user without an account on.
    cluster.out("ctl", "sacctmgr -iQ delete user name=eve")


def test_a_policy_from_a_file_is_predicted_applied_and_kept(cluster: Cluster, site: Site):
    assert "+user ada in physics GrpSubmitJobs=4 GrpTRES=gres/gpu=2,gres/gpu:t4=1" in site.predicted
    assert site.between == site.before
    assert any("Reconcile" in task for task in changed(site.applied))
    line = cluster.out("ctl", "sacctmgr -nP list associations user=ada WOPLimits format=Account,GrpTRES,GrpSubmit")
    assert line == "physics|gres/gpu:t4=1,gres/gpu=2|4"
    assert cluster.out("ctl", "squeue -h -j " + site.job + " -o %T") == "RUNNING"


def test_no_change_is_quick_and_changes_nothing(cluster: Cluster, site: Site):
    started = time.monotonic()
    again = module(cluster, "slurm_policy", policy=POLICY)
    assert (again["changed"], again["added"], again["updated"]) == (False, [], [])
    assert time.monotonic() - started < 20, "with the start of Ansible on a busy machine"


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ("--time=1 --gres=gpu:3", "AssocGrpGRES"),
        ("--time=1 --gres=gpu:t4:2", "AssocGrpGRES"),
        ("--time=59 --nodes=2 --gres=gpu:1", "AssocGrpGRESMinutes"),
        ("--time=61", "AssocMaxWallDurationPerJobLimit"),
        ("--time=31 --qos=long", "QOSMaxWallDurationPerJobLimit"),
        ("--time=1 --qos=long --gres=gpu:2", "QOSMaxGRESPerUser"),
        ("--time=1 --qos=spare", "Invalid qos specification"),
        ("--time=1 --account=teaching", "Invalid account or account/partition combination specified"),
        ("--time=02:01:00", "Requested time limit is invalid"),
    ],
)
def test_a_request_beyond_a_limit_is_refused_at_once(cluster: Cluster, site: Site, options: str, word: str):
    assert word in refused(cluster, options)


def test_more_jobs_than_a_user_may_submit(cluster: Cluster, site: Site):
    waiting = [accepted(cluster, "--time=1 --begin=now+1hour") for _number in range(3)]  # and the one that runs
    assert "AssocGrpSubmitJobsLimit" in refused(cluster, "--time=1 --begin=now+1hour")
    cluster.out("ctl", f"scancel {' '.join(waiting)}")


def test_a_partition_lets_in_whom_the_policy_names_and_the_accounts_below(cluster: Cluster, site: Site):
    assert "Invalid account or account/partition combination" in refused(cluster, "--partition=a100 --time=1", user="eve")
    for user, partition in (("eve", "all"), ("ada", "a100")):
        assert ended(cluster, accepted(cluster, f"--partition={partition} --time=1", user))[0]["State"] == "COMPLETED"


def test_shares_decide_the_priority(cluster: Cluster, site: Site):
    shares = cluster.out("ctl", "sshare --all --noheader --parsable2 --format=Account,User,NormShares | tr -d ' '")
    of = {line.rsplit("|", 1)[0]: float(line.rsplit("|", 1)[1]) for line in shares.splitlines()}
    assert of["physics|"] == 1 and of["science|"] == of["teaching|"] > 0


def test_a_limit_below_what_runs_ends_no_job_and_keeps_new_ones_out(cluster: Cluster, site: Site):
    lowered = edited(limits={"gpu_minutes": 0, "gpus": 0, "per_job": {"wall": "00:01:00"}, "per_user": {"gpus": 0}})
    result = module(cluster, "slurm_policy", "--diff", policy=lowered)
    assert result["updated"] == ["account physics", "user ada in physics"]
    assert result["undeclared"] == ["user ada in physics: GrpSubmitJobs=4 GrpTRES=gres/gpu:t4=1"]
    assert "AssocGrpGRES" in refused(cluster, "--time=1 --gres=gpu:1")
    time.sleep(3)  # SLURM looks at running jobs' limits as often as it schedules
    cluster.out("ctl", "scontrol reconfigure")
    assert cluster.until("ctl", f"squeue -h -j {site.job} -o %T", "RUNNING")
    assert module(cluster, "slurm_policy", policy=edited(limits={**POLICY["accounts"][0]["limits"], "gpus": "unlimited"}))["changed"]


def test_what_there_is_can_be_declared_and_changes_nothing(cluster: Cluster, site: Site):
    facts = module(cluster, "slurm_account_facts", usage=True)["ansible_facts"]["slurm_accounts"]
    (physics,) = [account for account in facts["policy"]["accounts"] if account["name"] == "physics"]
    assert (physics["parent"], physics["fairshare"]) == ("science", 3)
    assert {entry["user"] for entry in facts["usage"]} >= {"ada", "eve", "root"}
    assert module(cluster, "slurm_policy", policy=facts["policy"], purge=True)["changed"] is False


def test_purge_removes_what_is_not_named_but_nothing_that_jobs_need(cluster: Cluster, site: Site):
    scope = f"cluster=test_{cluster.release}"
    cluster.out("ctl", f"sacctmgr -iQ add account old,older {scope} && sacctmgr -iQ add user name=eve account=old {scope}")
    cluster.out("ctl", f"sacctmgr -iQ modify account name=teaching {scope} set GrpJobs=7")
    waiting = accepted(cluster, "--account=old --time=1 --begin=now+1hour", user="eve")
    told = module(cluster, "slurm_policy", policy=POLICY)
    assert (told["changed"], set(told["undeclared"])) == (False, {"account old", "account older", "account teaching: GrpJobs=7"})

    kept = module(cluster, "slurm_policy", policy=POLICY, purge=True)
    assert (kept["updated"], kept["removed"]) == (["account teaching"], ["account older"])
    assert kept["kept"] == ["account old: jobs in it are pending or running"]
    # Else one held job would keep the account open for ever.
    assert kept["closed"] == ["account old"]
    assert "AssocGrpSubmitJobsLimit" in refused(cluster, "--account=old --time=1", user="eve")
    again = module(cluster, "slurm_policy", policy=POLICY, purge=True)
    assert (again["changed"], again["closed"]) == (False, [])
    cluster.out("ctl", f"scancel {waiting}")
    cluster.until("ctl", f"squeue -h -j {waiting} | wc -l", "0")
    assert module(cluster, "slurm_policy", policy=POLICY, purge=True)["removed"] == ["account old"]
    assert cluster.out("ctl", "sacctmgr -nP list associations user=root format=Account,User") == "root|root"
    # The record of the job stays.
    assert cluster.out("ctl", f"sacct -X -n -P -j {waiting} -o Account,User") == "old|eve"


def test_the_job_of_before_it_all_completes(cluster: Cluster, site: Site):
    tell(cluster, "gpu1", site.job)
    (row,) = ended(cluster, site.job)
    assert row["State"] == "COMPLETED" and "gres/gpu:a100=1" in row["AllocTRES"]
