"""Accounts from an IAM on real hosts: who comes, who goes, what stays, and what changes nothing.

Real: hosts, sshd, SLURM, SCIM by PyPI's scim2-server. A stand-in: INDIGO IAM's ways in front of that (tests/stand_ins/iam_scim.py).
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator

import pytest
import yaml
from iam_site import INVENTORIES, USER, Iam
from local import Cluster, changed

OWNS = (
    "playbooks/iam_accounts.yml",
    "roles/iam_accounts",
    "plugins/filter/iam_accounts.py",
    "plugins/module_utils/_iam",
    "plugins/modules/iam_*.py",
    "plugins/modules/slurm_account_facts.py",
    "plugins/plugin_utils/_iam",
    "plugins/plugin_utils/_slurm/iam_users.py",
    "molecule/oidc_proxy/inventory/iam.yml",
    "tests/stand_ins/iam_scim.py",
    "tests/verify/iam_site.py",
)

# Made by this module's runs, in every place.
MADE = ("nora", "omar", "lena", "paul")
# As cloud-init writes it for the user of an image.
RIGHTS = "/etc/sudoers.d/90-cloud-init-users"


@pytest.fixture(scope="module")
def hosts(cluster: Cluster) -> list[str]:
    """The hosts that get accounts, the one with SLURM first."""
    groups = yaml.safe_load((cluster.inventory / "iam.yml").read_text())["all"]["children"]
    return list(groups["iam_hosts"]["hosts"])


@pytest.fixture(scope="module")
def key(cluster: Cluster) -> Iterator[str]:
    """nora's public key; the private one lies with her on the host idp."""
    cluster.out("idp", "rm -rf /root/iam_keys; mkdir -m 700 /root/iam_keys; ssh-keygen -q -t ed25519 -N '' -f /root/iam_keys/iam")
    cluster.out("idp", "ssh-keygen -q -t ed25519 -N '' -f /root/iam_keys/own")
    yield cluster.out("idp", "cat /root/iam_keys/iam.pub")
    cluster.run("idp", "rm -rf /root/iam_keys")


@pytest.fixture(scope="module")
def iam(cluster: Cluster, hosts: list[str], key: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iam]:
    """An IAM with 120 users, of whom few are in a declared group; SLURM has the account for them."""
    one = Iam(cluster, tmp_path_factory.mktemp("iam"))
    clean(cluster, hosts)
    one.start()
    names = ["nora", "omar", "lena", "ada", "root", "ubuntu", "rosa", "Ohm, Georg", *(f"other{number}" for number in range(112))]
    users = [one.user(name, *([key, "ssh-rsa no-key"] if name == "nora" else [])) for name in names]
    one.ids = dict(zip(names, one.ask(*users), strict=True))
    one.members("deep/gpu", "nora", "omar", "ada", "root", "ubuntu", "rosa", "Ohm, Georg")
    cluster.out(hosts[1], f"mkdir -p $(dirname {RIGHTS}); echo 'rosa ALL=(ALL) NOPASSWD:ALL' > {RIGHTS}")
    one.members("deep/ml", "nora", "lena")
    one.members("deep/other", *(f"other{number}" for number in range(112)))
    cluster.playbook("playbooks/slurm.yml", "--tags", "slurm_cluster", inventories=INVENTORIES)
    yield one
    one.stop()
    clean(cluster, hosts)
    cluster.out(hosts[1], f"rm {RIGHTS}; rmdir --ignore-fail-on-non-empty $(dirname {RIGHTS})")


@pytest.fixture(scope="module")
def accounts(iam: Iam) -> str:
    """What the run says that makes the first accounts, with everything turned on that talks."""
    return " ".join(iam.play("-vvv", "--diff").split())


def clean(cluster: Cluster, hosts: list[str]) -> None:
    """Take everything away again, which the role itself never does."""
    delete = "sacctmgr --immediate delete"
    # A user without an account is still known.
    cluster.run("slurm", f"{delete} user where account=deep; {delete} account deep; {delete} user where name={','.join(MADE)}")
    # Sessions end some seconds after their ssh.
    remove = "; ".join(f"loginctl terminate-user {name}; userdel --force --remove {name}" for name in MADE)
    files = "/etc/ssh/iam_keys /etc/ssh/sshd_config.d/deephdc_iam_accounts.conf /var/lib/deephdc/iam_accounts*"
    for host in hosts:
        cluster.run(host, f"{remove}; groupdel gpu-users; groupdel ml-users; rm -rf {files}; systemctl restart ssh")


def users(cluster: Cluster, host: str) -> dict[str, str]:
    """Name and uid of the accounts that are in question."""
    found = cluster.run(host, f"getent passwd {' '.join(MADE)} ada").stdout
    return {line.split(":")[0]: line.split(":")[2] for line in found.splitlines()}


def state(cluster: Cluster, host: str) -> str:
    """All that a run may change on a host."""
    return cluster.out(
        host,
        "sha256sum /etc/passwd /etc/shadow /etc/group /etc/gshadow; ls -lanR --time-style=full-iso /home /etc/ssh; "
        "cat /var/lib/deephdc/iam_accounts.json /var/lib/deephdc/iam_accounts_map.json 2>&1 || true",
    )


def associations(cluster: Cluster) -> list[str]:
    return sorted(cluster.out("slurm", "sacctmgr -nP list associations account=deep format=user,GrpJobs,GrpSubmit").splitlines())


def mapped(cluster: Cluster) -> dict[str, str]:
    text = cluster.out("slurm", "cat /var/lib/deephdc/iam_accounts_map.json")
    return {entry["subject"]: entry["account"] for entry in json.loads(text)["accounts"]}


def log_in(cluster: Cluster, host: str, user: str, key: str = "iam") -> subprocess.CompletedProcess[str]:
    """By ssh, with a key of nora's."""
    options = "-o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o IdentitiesOnly=yes"
    return cluster.run("idp", f"ssh {options} -i /root/iam_keys/{key} {user}@{host} id -un")


def test_a_plan_first(cluster: Cluster, iam: Iam, hosts: list[str]) -> None:
    before = {host: state(cluster, host) for host in hosts}
    output = iam.play("--check", "--diff")
    assert "account nora uid 20003 enabled" in output and "nora in group gpu-users" in output
    assert {host: state(cluster, host) for host in hosts} == before


def test_accounts_are_equal_on_all_hosts(cluster: Cluster, iam: Iam, hosts: list[str], accounts: str) -> None:
    wanted = {"ada": "2001", "lena": "20002", "nora": "20003", "omar": "20004"}
    for host in hosts:
        assert users(cluster, host) == wanted
        assert cluster.out(host, "id -Gn nora").split() == ["nora", "gpu-users", "ml-users"]
        assert cluster.out(host, "stat -c '%U %a' /home/nora; test -e /home/nora/.profile") == "nora 700"
    assert f"no account for ada (id {iam.ids['ada']}): the name is a local user or group of slurm" in accounts
    assert f"no account for rosa (id {iam.ids['rosa']}): the name has rights on {hosts[1]} already ({RIGHTS})" in accounts
    assert f"no account for ubuntu (id {iam.ids['ubuntu']}): the name is one of cloud images or packages" in accounts
    assert "no account for root" in accounts and "no account for Ohm, Georg" in accounts
    assert "nora: 1 SSH keys of the IAM are no keys" in accounts
    assert mapped(cluster) == {iam.ids[name]: name for name in ("lena", "nora", "omar")}


@pytest.fixture(scope="module")
def own_key(cluster: Cluster, hosts: list[str], accounts: str) -> None:
    """A key that nora adds herself is hers."""
    own = cluster.out("idp", "cat /root/iam_keys/own.pub")
    for host in hosts:
        cluster.out(host, f"mkdir -m 700 .ssh; echo {shlex.quote(own)} > .ssh/authorized_keys", user="nora")


@pytest.mark.usefixtures("own_key")
def test_they_may_log_in_and_compute(cluster: Cluster, hosts: list[str]) -> None:
    for host in hosts:
        assert log_in(cluster, host, "nora").stdout.strip() == "nora"
        assert log_in(cluster, host, "nora", "own").stdout.strip() == "nora"
        assert log_in(cluster, host, "omar").returncode == 255
    assert associations(cluster) == ["nora||7", "omar||7", "||"]
    assert cluster.out("slurm", "sbatch --wait --output=/dev/null --wrap true", user="nora").startswith("Submitted")


@pytest.mark.usefixtures("accounts")
def test_a_second_run_changes_nothing(cluster: Cluster, iam: Iam, hosts: list[str]) -> None:
    before = {host: state(cluster, host) for host in hosts}
    assert changed(iam.play()) == []
    assert {host: state(cluster, host) for host in hosts} == before


@pytest.mark.usefixtures("accounts")
@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("half a list", "The list of Users ends after 100 of 120 entries"),
        ("no users", "The IAM's list of users is empty, so it is not whole."),
        ("empty groups", "3 of 3 accounts would be disabled or lose a group at once"),
        ("down", "The IAM does not answer the request for a token"),
    ],
)
def test_half_an_answer_changes_nothing(cluster: Cluster, iam: Iam, hosts: list[str], fault: str, sentence: str) -> None:
    before = {host: state(cluster, host) for host in hosts}
    iam.fault(fault)
    elsewhere = {"iam_accounts_token_url": f"https://{iam.address}:1/token"} if fault == "down" else {}
    output = iam.play(succeeds=False, **elsewhere)
    iam.fault("")
    assert sentence in " ".join(output.split()) and "Nothing was changed." in output
    assert {host: state(cluster, host) for host in hosts} == before


@pytest.mark.usefixtures("accounts")
def test_a_list_that_is_too_short_takes_nobody_away(cluster: Cluster, iam: Iam) -> None:
    """Whole in itself, with one user: the others are asked for by their ids."""
    iam.fault("short list")
    assert changed(iam.play()) == []
    iam.fault("")


@pytest.mark.usefixtures("accounts")
@pytest.mark.parametrize("fault", ["no groups", "large letters"])
def test_what_is_not_told_or_told_in_other_letters_changes_nothing(cluster: Cluster, iam: Iam, hosts: list[str], fault: str) -> None:
    before = {host: state(cluster, host) for host in hosts}
    iam.fault(fault)
    output = iam.play()
    iam.fault("")
    silent = "nora: the IAM does not give this user"  # YAML doubles the apostrophe behind
    assert changed(output) == [] and (silent in " ".join(output.split())) == (fault == "no groups")
    assert {host: state(cluster, host) for host in hosts} == before


@pytest.mark.usefixtures("accounts")
def test_many_new_accounts_are_made_only_when_they_are_meant(cluster: Cluster, iam: Iam, hosts: list[str]) -> None:
    before = {host: state(cluster, host) for host in hosts}
    iam.members("deep/ml", "nora", "lena", "other1", "other2")
    refused = " ".join(iam.play(succeeds=False, iam_accounts_add_limit=1).split())
    iam.members("deep/ml", "nora", "lena")
    assert "2 accounts would be new at once, more than iam_accounts_add_limit allows (1)" in refused
    assert {host: state(cluster, host) for host in hosts} == before


@pytest.mark.usefixtures("own_key")
def test_who_goes_who_is_renamed_and_who_comes_back(cluster: Cluster, iam: Iam, hosts: list[str]) -> None:
    """nora is no longer active, omar has another name, lena's time is over.

    A newcomer takes omar's old name and one the first name. No purge of the policy removes them, and who comes back is the same.
    """
    iam.change("nora", "active", False)
    iam.change("lena", f"{USER}:endTime", "2020-01-01T00:00:00Z")
    refused = iam.play(succeeds=False)
    assert "2 of 3 accounts would be disabled or lose a group at once (lena, nora)" in " ".join(refused.split())
    iam.change("omar", "userName", "omar2")
    iam.ids["newcomer"], iam.ids["paul"] = iam.ask(iam.user("omar"), iam.user("paul"))
    iam.members("deep/gpu", "nora", "omar", "newcomer", "paul")
    # Only the second host is in the run; the numbers are those of all, and the first one has the record.
    output = " ".join(iam.play("--limit", hosts[1], iam_accounts_disable_limit=100).split())
    assert "omar: the IAM calls this user omar2; the account keeps its name" in output
    assert f"no account for omar (id {iam.ids['newcomer']}): the name is that of another account" in output
    assert "nora" in cluster.out("slurm", "getent group gpu-users") and "paul" in cluster.out(
        "slurm", "cat /var/lib/deephdc/iam_accounts.json"
    )
    iam.play(iam_accounts_disable_limit=100)
    for host in hosts:
        assert users(cluster, host) == {"ada": "2001", "lena": "20002", "nora": "20003", "omar": "20004", "paul": "20005"}
        assert cluster.out(host, "id -Gn nora").split() == ["nora"]
        for key in ("iam", "own"):
            assert log_in(cluster, host, "nora", key).returncode == 255
        assert cluster.out(host, "getent passwd nora").endswith("/usr/sbin/nologin")
        assert cluster.out(host, "test -e /home/nora/.ssh/authorized_keys && stat -c %U /home/nora") == "nora"
    assert mapped(cluster) == {iam.ids[name]: name for name in ("omar", "paul")}
    assert associations(cluster) == ["nora|0|0", "omar||7", "paul||7", "||"]
    submitted = cluster.run("slurm", "setpriv --reuid nora --regid nora --init-groups sbatch --output=/dev/null --wrap true")
    assert submitted.returncode != 0 and "AssocGrpSubmitJobsLimit" in submitted.stderr
    assert changed(iam.play()) == []

    before = associations(cluster)
    variables = {"slurm_cluster_policy_purge": True}
    cluster.playbook("playbooks/slurm.yml", "--tags", "slurm_cluster", inventories=INVENTORIES, variables=variables)
    assert associations(cluster) == before

    iam.change("nora", "active", True)
    # Locked by an administrator of the site: that is not ours to take back.
    cluster.out(hosts[1], "usermod --expiredate 1 omar")
    iam.play()
    for host in hosts:
        assert users(cluster, host)["nora"] == "20003"
        assert log_in(cluster, host, "nora").stdout.strip() == "nora" == log_in(cluster, host, "nora", "own").stdout.strip()
    assert cluster.out(hosts[1], "grep ^omar: /etc/shadow").split(":")[7] == "1"
    assert associations(cluster) == ["nora||7", "omar||7", "paul||7", "||"]
    assert cluster.out("slurm", "sbatch --wait --output=/dev/null --wrap true", user="nora").startswith("Submitted")
