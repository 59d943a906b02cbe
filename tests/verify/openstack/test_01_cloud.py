# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The control plane: who comes in, by which way, and what the limits of a project are."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from local import ROOT, Cluster, changed
from openstack_users import Account

OWNS = (
    "roles/openstack_cloud/tasks/check.yml",
    "roles/openstack_cloud/tasks/deliver.yml",
    "roles/openstack_database",
    "roles/openstack_messaging",
    "plugins/module_utils/_openstack/identity.py",
    "plugins/module_utils/_openstack/limits.py",
    "plugins/modules/openstack_objects.py",
    "plugins/plugin_utils/_openstack/inventory.py",
    "plugins/plugin_utils/_openstack/messaging.py",
    "plugins/plugin_utils/_openstack/objects.py",
    "plugins/plugin_utils/_openstack/settings.py",
    "tests/verify/openstack/conftest.py",
)

PLAYBOOK = "playbooks/openstack.yml"
# For other hosts: the APIs on ctl, MariaDB and RabbitMQ on data, and sshd of the tests' hosts.
OPEN = {"ctl": {22, 5000, 8774, 8778, 9292, 9696}, "data": {22, 3306, 5671}}
SECRETS = "/etc/deephdc/openstack/secrets"


def refused(account: Account, question: str) -> int:
    """The status by which the cloud refuses a call; 0 where it does not."""
    return int(
        account.ask(f"""
            try:
                {question}
                answer = 0
            except openstack.exceptions.HttpException as error:
                answer = error.status_code
            except Exception as error:  # of the login
                answer = error.http_status
        """)
    )


def test_only_what_speaks_tls_is_open(cluster: Cluster):
    for host, ports in OPEN.items():
        listed = cluster.out(host, "ss --listening --tcp --numeric --no-header | awk '{ print $4 }'").splitlines()
        outside = {int(one.rpartition(":")[2]) for one in listed if not one.startswith(("127.", "[::1]"))}
        assert outside <= ports and outside >= ports - {22}, host
    for port in (5000, 9292, 8778, 8774, 9696):
        assert cluster.run("lxd1", f"curl --silent --max-time 5 http://ctl:{port}/ | grep -c version").stdout.strip() != "1", port


def test_the_database_refuses_a_password_in_the_clear(cluster: Cluster):
    program = (
        "import pymysql, sys\n"
        f"secret = open('{SECRETS}/database_nova').read().strip()\n"
        "def tried(**more):\n"
        "    try:\n"
        "        pymysql.connect(host='data', user='nova', password=secret, **more).close()\n"
        "        return 'in'\n"
        "    except pymysql.err.OperationalError as error:\n"
        "        return str(error.args[0])\n"
        "tls = dict(ssl=dict(ca='/etc/deephdc/openstack/ca.pem'))\n"
        "print(tried(**tls), tried(), tried(database='keystone', **tls))\n"
    )
    assert cluster.out("ctl", f"python3 - <<'X'\n{program}X").split() == ["in", "1045", "1044"]


def test_rabbitmq_has_the_services_alone(cluster: Cluster):
    accounts = cluster.out("data", "rabbitmqctl --quiet list_users | awk 'NR > 1 { print $1 }'").split()
    assert sorted(accounts) == ["neutron", "nova"]
    assert cluster.run("data", "rabbitmqctl --quiet authenticate_user nova wrong").returncode != 0


def test_no_secret_lies_open(cluster: Cluster):
    """In no file that others can read, no process list, no log, and no cache of facts."""
    found = cluster.out("ctl", f"cat {SECRETS}/*").split()
    assert len(found) == 13 and cluster.out("ctl", f"stat -c %a {SECRETS} {SECRETS}/*").split() == ["700", *["400"] * 13]
    pattern = "|".join(found)
    for host in ("ctl", "data", "lxd1"):
        cluster.out(host, f"install -m 600 /dev/null /run/pattern; cat > /run/pattern <<'X'\n{pattern}\nX")
        looked = (
            "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -cEf /run/pattern; "
            "find /etc /var/lib/deephdc /var/lib/nova /var/lib/neutron /opt /usr/local /run -xdev -type f -perm /o+r -print0 2>/dev/null"
            " | xargs -0 grep -lEsf /run/pattern; grep -rlEf /run/pattern /var/log; rm /run/pattern"
        )
        assert cluster.run(host, looked).stdout.split() == ["0"], host
    facts = [path for path in (cluster.state / "facts").rglob("*") if path.is_file()]
    assert facts and not [path for path in facts if any(secret in path.read_text(encoding="utf-8") for secret in found)]


def test_a_user_sees_the_own_project_alone(ada: Account, eve: Account):
    server = ada.start("mine", "small")
    try:
        assert (server["status"], server["fault"]) == ("ACTIVE", "")
        assert refused(eve, f"cloud.compute.get_server({server['id']!r})") == 404
        assert refused(eve, f"cloud.compute.delete_server({server['id']!r}, ignore_missing=False)") == 404
        assert eve.ask("answer = [one.name for one in cloud.compute.servers()]") == []
        assert refused(ada, "list(cloud.compute.servers(all_projects=True))") == 403
        assert refused(ada, "list(cloud.identity.users())") == 403
        assert refused(ada, "cloud.compute.create_flavor(name='mine', vcpus=1, ram=64, disk=1)") == 403
        assert ada.ask("answer = sorted(one.name for one in cloud.network.networks(is_router_external=False))") == ["physics"]
    finally:
        ada.remove(server["id"])


def test_a_wrong_password_is_refused(ada: Account):
    login = {**ada.login, "auth": {**ada.login["auth"], "password": "wrong"}}
    assert refused(Account(ada.cluster, login), "cloud.session.get_token()") == 401


def test_wrong_passwords_lock_no_account_of_the_cloud_itself(cluster: Cluster, admin: Account):
    """Else anybody could stop the cloud; a user is locked after 10."""
    good = cluster.out("ctl", f"cat {SECRETS}/account_nova")
    words = {"auth_url": "https://ctl:5000/v3", "username": "nova", "project_name": "service"}
    auth = {**words, "user_domain_id": "default", "project_domain_id": "default"}
    login = {"auth": {**auth, "password": "wrong"}, "region_name": "RegionOne", "cacert": "/run/test-ca.pem"}
    said = Account(cluster, login).ask("""
        answer = []
        for number in range(12):
            try:
                cloud.session.get_token()
            except Exception as error:
                answer.append(error.http_status)
    """)
    assert said == [401] * 12
    assert refused(Account(cluster, {**login, "auth": {**auth, "password": good}}), "cloud.session.get_token()") == 0
    locked = """
        users = cloud.identity.get("/users", params=dict(domain_id="default")).json()["users"]
        answer = [user["name"] for user in users if not user["options"]]
    """
    assert admin.ask(locked) == ["ada", "eve"]


def test_a_locked_account_is_opened_by_a_run_and_its_tokens_are_good(cluster: Cluster, eve: Account):
    token = eve.ask("answer = cloud.auth_token")
    wrong = Account(cluster, {**eve.login, "auth": {**eve.login["auth"], "password": "wrong"}})
    wrong.ask("""
        answer = []
        for number in range(10):
            try:
                cloud.session.get_token()
            except Exception as error:
                answer.append(error.http_status)
    """)
    assert refused(eve, "cloud.session.get_token()") == 401
    said = " ".join(cluster.playbook(PLAYBOOK, "--tags", "openstack_cloud").split())
    assert "The account eve was locked by wrong passwords, or disabled, and is open again." in said, said[-3000:]
    assert refused(eve, "cloud.session.get_token()") == 0
    status = "curl --silent --output /dev/null --write-out '%{http_code}' --cacert /run/test-ca.pem -H 'X-Auth-Token: " + token + "'"
    assert cluster.out("ctl", f"{status} -H 'X-Subject-Token: {token}' https://ctl:5000/v3/auth/tokens") == "200"


def test_more_gpus_than_the_project_may_have_are_refused_with_the_limit(eve: Account):
    servers = [eve.start("one", "a100")]
    try:
        assert servers[0]["status"] == "ACTIVE", servers[0]
        said = eve.ask("""
            try:
                make("two", "a100", "biology")
                answer = ""
            except openstack.exceptions.HttpException as error:
                answer = f"{error.status_code} {error.details or error}"
        """)
        assert said.startswith("403 ") and "class:CUSTOM_GPU_A100 is over limit of 1" in said
    finally:
        eve.remove(servers[0]["id"])


@pytest.fixture(scope="module")
def plain(cluster: Cluster) -> dict[str, Any]:
    """The projects and flavors of the inventory, to be changed."""
    words = [*cluster.command(PLAYBOOK, [], ["hosts.yml"])]
    words[0] = words[0].replace("ansible-playbook", "ansible-inventory")
    listed = subprocess.run(
        [*words[: words.index(str(ROOT / PLAYBOOK))], "--host", "ctl"],
        env=cluster.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    own = json.loads(listed.stdout)
    return {name: own[name] for name in ("openstack_cloud_projects", "openstack_cloud_flavors")}


def test_who_is_taken_out_can_start_nothing_at_once(cluster: Cluster, ada: Account, eve: Account, plain: dict[str, Any]):
    projects = [
        {**one, "users": {"ada": ["member"], "eve": ["member"]} if one["name"] == "physics" else one["users"]}
        for one in plain["openstack_cloud_projects"]
    ]
    cluster.playbook(PLAYBOOK, "--tags", "openstack_cloud", variables={"openstack_cloud_projects": projects})
    guest = Account(cluster, {**eve.login, "auth": {**eve.login["auth"], "project_name": "physics"}}, "physics")
    token = guest.ask("answer = cloud.auth_token")
    assert guest.ask("answer = len(list(cloud.compute.servers()))") == 0
    said = cluster.playbook(PLAYBOOK, "--tags", "openstack_cloud")
    assert "The user eve loses the role member in the project physics." in " ".join(said.split()), said[-3000:]
    assert refused(guest, "cloud.session.get_token()") == 401
    status = "curl --silent --output /dev/null --write-out '%{http_code}' --cacert /run/test-ca.pem -H 'X-Auth-Token: " + token + "'"
    assert cluster.out("ctl", f"{status} https://ctl:8774/v2.1/servers") == "401"
    assert ada.ask("answer = [one.name for one in cloud.compute.servers()]") == []


def test_a_flavor_of_another_size_is_refused(cluster: Cluster, plain: dict[str, Any]):
    flavors = [{**one, "cores": 2} if one["name"] == "small" else one for one in plain["openstack_cloud_flavors"]]
    said = cluster.playbook(PLAYBOOK, "--tags", "openstack_cloud", variables={"openstack_cloud_flavors": flavors}, succeeds=False)
    assert "The flavor small is there with 1 cores" in " ".join(said.split()) and "give the new one another name" in " ".join(said.split())


def test_bad_input_is_refused_before_a_host_is_contacted(cluster: Cluster):
    """Each mistake by a sentence. A flavor's are looked for when no entry has unknown keys."""
    first = {
        "openstack_cloud_workers": 0,
        "openstack_cloud_ca": "/etc/ca.pem",
        "openstack_control_plane_key": "",
        "openstack_cloud_projects": [{"name": "physics", "limit": {}}],
        "openstack_cloud_accept_hardware": ["gpu9"],
    }
    second = {"openstack_cloud_flavors": [{"name": "x", "cores": 1, "memory_mib": 1, "disk_gib": 0, "gpus": {"a100": 0}}]}
    sentences = {
        "openstack_cloud_workers is 0: write a whole number from 1 to 64.": first,
        "openstack_cloud_ca is no certificate in PEM": first,
        "openstack_control_plane_key of ctl is missing": first,
        "openstack_cloud_projects: physics has the unknown key 'limit'": first,
        "openstack_cloud_accept_hardware names gpu9": first,
        "0 GPUs of type a100": second,
    }
    said = {}
    for number, variables in enumerate((first, second)):
        output = cluster.playbook(PLAYBOOK, "--forks", "1", variables={**variables, "ansible_host": "192.0.2.1"}, succeeds=False)
        said[number] = " ".join(output.split())
        # The play before asks the hosts that answer for the lock of the site.
        assert "UNREACHABLE" not in output.partition("PLAY [Check and plan the cloud]")[2] and changed(output) == []
    for sentence, variables in sentences.items():
        assert sentence in said[0 if variables is first else 1], sentence


def test_a_run_afterwards_changes_nothing(cluster: Cluster):
    assert changed(cluster.playbook(PLAYBOOK)) == []
