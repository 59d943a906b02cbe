# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""New secrets and a new certificate in a cloud that runs: all services have the new ones, none accepts the old ones, and servers go on."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local import Cluster, changed
from openstack_users import Account, administrator

OWNS = (
    "roles/openstack_cloud/tasks/secrets.yml",
    "roles/openstack_control_plane/tasks/check.yml",
    "roles/openstack_control_plane/tasks/service.yml",
    "plugins/modules/front_certificate.py",
    "plugins/modules/openstack_secrets.py",
)

PLAYBOOK = "playbooks/openstack.yml"
HOST = "lxd1"
SECRETS = "/etc/deephdc/openstack/secrets"
CHANGED = ("database_nova", "messaging_nova", "account_nova", "account_admin")
PORTS = {"ctl": {**dict.fromkeys((5000, 8774, 8778, 9292, 9696), "")}, "data": {5671: "", 3306: "-starttls mysql"}}


def secrets(cluster: Cluster) -> dict[str, str]:
    lines = cluster.out("ctl", f"cd {SECRETS} && for name in *; do echo $name $(cat $name); done").splitlines()
    return dict(line.split() for line in lines)


def main_process(cluster: Cluster) -> str:
    """Of the only server on the compute host."""
    return cluster.out(HOST, "for name in $(lxc list --format csv --columns n); do lxc info $name | grep -i ^pid:; done")


def serials(cluster: Cluster) -> dict[str, set[str]]:
    """The serial number of the certificate that each port shows to another host; one for each host, when all is well."""
    words = "timeout 10 openssl s_client -connect {}:{} {} </dev/null 2>/dev/null | openssl x509 -noout -serial"
    return {
        host: {cluster.out(HOST, words.format(host, port, more)).partition("=")[2] for port, more in ports.items()}
        for host, ports in PORTS.items()
    }


@pytest.fixture(scope="module", autouse=True)
def as_deployed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The former secrets and certificates are in use again afterwards, by one run."""
    folder, kept = cluster.secrets / "openstack", tmp_path_factory.mktemp("kept")
    shutil.copytree(folder, kept, dirs_exist_ok=True)
    cluster.out("ctl", f"cp -a {SECRETS} /root/secrets-before")
    yield
    shutil.copytree(kept, folder, dirs_exist_ok=True)
    cluster.out("ctl", f"rm -r {SECRETS} && mv /root/secrets-before {SECRETS}")
    for name in ("strange.key", "authority.crt", "name.crt"):
        (folder / name).unlink(missing_ok=True)
    cluster.playbook(PLAYBOOK)


@pytest.fixture(scope="module")
def server(cluster: Cluster, ada: Account) -> Iterator[dict[str, Any]]:
    """A server of ada with a GPU, and no other."""
    cleanup = "answer = removed(*[server.id for server in cloud.compute.servers()])"
    assert ada.ask(cleanup) == []
    made = ada.start("goes-on", "a100")
    assert (made["status"], made["fault"]) == ("ACTIVE", "")
    yield made
    assert ada.ask(cleanup) == []


def serves(cluster: Cluster, ada: Account, server: dict[str, Any], process: str) -> None:
    """The server is as it was, and another one can be made."""
    assert main_process(cluster) == process and ada.show(server["id"])["status"] == "ACTIVE"
    other = ada.start("other", "a100")
    ada.remove(other["id"])
    assert (other["status"], other["fault"]) == ("ACTIVE", "")


def enters(cluster: Cluster, login: Account, user: str, password: str) -> bool:
    """Whether Keystone takes a password."""
    domains = {"user_domain_id": "default", "project_domain_id": "default"}
    project = "admin" if user == "admin" else "service"
    auth = {"auth_url": "https://ctl:5000/v3", "username": user, "password": password, "project_name": project, **domains}
    known = {"auth": auth, "region_name": "RegionOne", "cacert": "/run/test-ca.pem"}
    return bool(
        Account(cluster, known).ask("""
            try:
                answer = bool(cloud.session.get_token())
            except Exception as error:
                assert error.http_status == 401
                answer = False
        """)
    )


def test_removed_secrets_are_made_again_and_everybody_has_them(cluster: Cluster, ada: Account, server: dict[str, Any]) -> None:
    before, process = secrets(cluster), main_process(cluster)
    cluster.out("ctl", "cd {} && rm {}".format(SECRETS, " ".join(CHANGED)))
    cluster.playbook(PLAYBOOK)
    after = secrets(cluster)
    assert sorted(name for name in before if before[name] != after[name]) == sorted(CHANGED)
    serves(cluster, ada, server, process)
    for secret, good in ((before, False), (after, True)):
        # Not as an argument: rabbitmqctl changes the user, and the journal keeps the command line of that.
        rabbit = cluster.run("data", f"echo {secret['messaging_nova']} | rabbitmqctl --quiet authenticate_user nova")
        assert (rabbit.returncode == 0) == good
        words = f"MYSQL_PWD={secret['database_nova']} mariadb --ssl-ca=/etc/deephdc/openstack/ca.pem"
        words += " --host=data --user=nova --execute 'select 1' nova"
        assert (cluster.run("data", words).returncode == 0) == good
        assert [enters(cluster, ada, name, secret[f"account_{name}"]) for name in ("nova", "admin")] == [good, good]
    # In no file of a host, and no process has it.
    pattern = "|".join(before[name] for name in CHANGED)
    for host in ("ctl", "data", HOST):
        cluster.out(host, f"install -m 600 /dev/null /run/pattern; cat > /run/pattern <<'X'\n{pattern}\nX")
        looked = (
            "find /etc /var/lib/deephdc /var/lib/nova /var/lib/rabbitmq /opt /usr/local /run -xdev -type f ! -path /run/pattern -print0"
            " | xargs -0 grep -lEsf /run/pattern; cat /proc/[0-9]*/environ | grep -cEaf /run/pattern; rm /run/pattern"
        )
        assert cluster.run(host, looked).stdout.split() == ["0"], host
    hosts = administrator(cluster).ask("answer = [one.state for one in cloud.compute.services()]")
    assert set(hosts) == {"up"}, hosts


def test_a_certificate_that_is_wrong_is_refused(cluster: Cluster) -> None:
    """With another key each server would end at its next start; with another authority or name no client would log in."""
    before, folder = serials(cluster), cluster.secrets / "openstack"
    names = ",".join(f"DNS:{host}" for host in PORTS)
    new = "openssl req -x509 -key strange.key -days 9 -subj /CN=strange -addext subjectAltName="
    made = f"""
        openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out strange.key
        {new}{names} -out authority.crt
        {new}DNS:elsewhere -addext basicConstraints=CA:FALSE -CA ca.pem -CAkey ca.key -out name.crt
    """
    subprocess.run(made, cwd=folder, shell=True, check=True, capture_output=True)
    strange = {name: (folder / name).read_text(encoding="utf-8") for name in ("strange.key", "authority.crt", "name.crt")}
    for certificate, said, more in (
        ("", "certificate and key do not belong together", ()),
        ("authority.crt", "clients that trust the site's authority would refuse the certificate", ("--check",)),
        ("name.crt", "the certificate lacks the name ctl", ()),
    ):
        variables = {"openstack_control_plane_key": strange["strange.key"]}
        variables |= {"openstack_control_plane_certificate": strange[certificate]} if certificate else {}
        output = cluster.playbook(PLAYBOOK, *more, variables=variables, succeeds=False)
        assert said in " ".join(output.split()) and changed(output) == []
    assert serials(cluster) == before


def renewed(folder: Path, host: str) -> str:
    """Sign a new certificate, where the inventory has the former one; returns its serial number."""
    done = subprocess.run(
        f"openssl req -newkey rsa:2048 -nodes -subj /CN={host} -keyout new.key -out new.csr && "
        f"openssl x509 -req -in new.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile {host}.ext -out new.crt && "
        f"mv new.key {host}.key && mv new.crt {host}.crt && openssl x509 -in {host}.crt -noout -serial",
        cwd=folder,
        shell=True,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip().rpartition("=")[2]


def test_a_new_certificate_is_shown_at_each_port(cluster: Cluster, ada: Account, server: dict[str, Any]) -> None:
    folder, before, process = cluster.secrets / "openstack", serials(cluster), main_process(cluster)
    assert [len(seen) for seen in before.values()] == [1, 1]
    after = {host: {renewed(folder, host)} for host in PORTS}
    cluster.playbook(PLAYBOOK)
    assert serials(cluster) == after and not any(after[host] & before[host] for host in PORTS)
    serves(cluster, ada, server, process)
    assert changed(cluster.playbook(PLAYBOOK)) == []
