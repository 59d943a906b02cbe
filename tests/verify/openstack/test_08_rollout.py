# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""New secrets in a cloud that runs: all services have the new ones, none accepts the old ones, and servers go on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from local import Cluster
from openstack_rollout_site import HOST, PLAYBOOK, main_process, server, serves
from openstack_users import Account, administrator

OWNS = (
    "roles/openstack_cloud/tasks/secrets.yml",
    "roles/openstack_control_plane/tasks/service.yml",
    "plugins/modules/openstack_secrets.py",
    "tests/verify/openstack_rollout_site.py",
)
__all__ = ["server"]

SECRETS = "/etc/deephdc/openstack/secrets"
CHANGED = ("database_nova", "messaging_nova", "account_nova", "account_admin")


def secrets(cluster: Cluster) -> dict[str, str]:
    lines = cluster.out("ctl", f"cd {SECRETS} && for name in *; do echo $name $(cat $name); done").splitlines()
    return dict(line.split() for line in lines)


@pytest.fixture(scope="module", autouse=True)
def as_deployed(cluster: Cluster) -> Iterator[None]:
    """The former secrets are in use again afterwards, by one run."""
    cluster.out("ctl", f"cp -a {SECRETS} /root/secrets-before")
    yield
    cluster.out("ctl", f"rm -r {SECRETS} && mv /root/secrets-before {SECRETS}")
    cluster.playbook(PLAYBOOK)


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
