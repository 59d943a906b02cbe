# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The cluster: one leader, and no access without a secret."""

from __future__ import annotations

import json

import pytest
from local import Cluster
from mesos_site import AGENTS, MASTERS, ask, leader, secrets, state

OWNS = (
    "roles/mesos_cluster/tasks/certificates.yml",
    "roles/zookeeper/tasks/chroots.yml",
    "plugins/modules/zookeeper_chroots.py",
    "plugins/plugin_utils/_mesos/environment.py",
    "plugins/plugin_utils/_mesos/files.py",
    "plugins/plugin_utils/_mesos/master.py",
    "plugins/plugin_utils/_mesos/zookeeper.py",
    "tests/data/mesos",
    "tests/stand_ins/mesos/access.py",
    "tests/verify/mesos/conftest.py",
)


def test_one_master_leads_and_all_say_which(cluster: Cluster) -> None:
    first = leader(cluster)
    assert first in MASTERS
    assert {state(cluster, host)["leader_info"]["hostname"] for host in MASTERS} == {first}


@pytest.mark.parametrize(
    ("part", "host", "path"),
    [
        ("master", "m1", "/state"),
        ("master", "m1", "/slaves"),
        ("master", "m1", "/metrics/snapshot"),
        ("agent", "gpu1", "/state"),
        ("agent", "gpu1", "/containers"),
        ("marathon", "m1", "/v2/apps"),
        ("chronos", "m1", "/v1/scheduler/jobs"),
    ],
)
def test_strangers_are_refused(cluster: Cluster, part: str, host: str, path: str) -> None:
    for account in (None, ("operator", "wrong-secret-0123456789"), ("admin", "admin")):
        assert ask(cluster, part, path, host=host, account=account).status == 401, account


def test_a_framework_without_a_secret_is_refused(cluster: Cluster) -> None:
    hello = {"type": "SUBSCRIBE", "subscribe": {"framework_info": {"user": "nobody", "name": "stranger"}}}
    assert ask(cluster, "master", "/api/v1/scheduler", hello, account=None).status in (401, 403)
    # The operator may look, and not run anything. Who has a secret gets a stream, which ends with its first event.
    answer = ask(cluster, "master", "/api/v1/scheduler", hello)
    size, _line, event = answer.text.partition("\n")
    assert answer.status == 200 and len(event) == int(size), answer.text
    assert json.loads(event)["type"] == "ERROR" and "Not authorized to register framework" in json.loads(event)["error"]["message"]
    assert {one["name"] for one in state(cluster)["frameworks"]} == {"marathon", "chronos"}


def test_an_operation_without_the_right_is_refused(cluster: Cluster) -> None:
    (agent,) = (one for one in state(cluster)["slaves"] if one["hostname"] == "gpu1")
    call = {"type": "DEACTIVATE_AGENT", "deactivate_agent": {"agent_id": {"value": agent["id"]}}}
    marathon = ("marathon", (cluster.secrets / "mesos/marathon").read_text(encoding="utf-8").split()[0])
    assert ask(cluster, "master", "/api/v1", call, account=marathon).status == 403


def test_folders_of_zookeeper_are_closed(cluster: Cluster) -> None:
    program = (
        "import kazoo.client, kazoo.exceptions\n"
        "client = kazoo.client.KazooClient('m1:2181', auth_data=AUTH)\n"
        "client.start(timeout=20)\n"
        "def tried(action, *words):\n"
        "    try:\n"
        "        action(*words)\n"
        "        return 'in'\n"
        "    except kazoo.exceptions.NoAuthError:\n"
        "        return 'no'\n"
        "print(tried(client.get_children, '/marathon'), tried(client.get_children, '/chronos'), tried(client.create, '/mesos/x', b''),"
        " tried(client.create, '/squat', b''), tried(client.set, '/mesos', b'x'), tried(client.get_children, '/mesos'))\n"
        "client.stop()\n"
    )
    for auth in ("[]", "[('digest', 'marathon:wrong')]", "[('digest', 'mesos:admin')]"):
        seen = cluster.out("m2", f"python3 - <<'X'\n{program.replace('AUTH', auth)}X").split()
        # Who leads Mesos is no secret: frameworks look for it there, each with an account of its own.
        assert seen == [*["no"] * 5, "in"], auth


def test_only_tls_is_spoken(cluster: Cluster) -> None:
    for host, port in (("m1", 5050), ("gpu1", 5051), ("m1", 8443), ("m1", 4443)):
        assert cluster.run("m2", f"curl --silent --fail --max-time 5 http://{host}:{port}/version").returncode != 0, (host, port)
    for port in (8080, 4400, 8081):
        assert cluster.run("m2", f"curl --silent --max-time 5 http://m1:{port}/ping").returncode == 7, port


def test_no_secret_lies_open(cluster: Cluster) -> None:
    """In no file that others can read, no process list, no environment, no log, and no cache of facts."""
    found = secrets(cluster)
    pattern = "|".join(found)
    for host in (*MASTERS, *AGENTS, "lb"):
        cluster.out(host, f"install -m 600 /dev/null /run/pattern; cat > /run/pattern <<'X'\n{pattern}\nX")
        looked = (
            "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -cEf /run/pattern; "
            "find /etc /var/lib /opt /usr/local /run -xdev -type f -perm /o+r -print0 2>/dev/null | xargs -0 grep -lEsf /run/pattern; "
            "grep -rlEf /run/pattern /var/log; journalctl --no-pager | grep -cEf /run/pattern; rm /run/pattern"
        )
        assert cluster.run(host, looked).stdout.split() == ["0", "0"], host
    facts = [path for path in (cluster.state / "facts").rglob("*") if path.is_file()]
    assert facts and not [path for path in facts if any(secret in path.read_text(encoding="utf-8") for secret in found)]
