"""Many connections of one address that are silent or slow: others are served nevertheless."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable

import pytest
from local import ROOT, Cluster
from oidc_site import PYTHON, TRUST, made_token

OWNS = (
    "tests/attacks/hostile/asker.py",
    "tests/attacks/hostile/silent.py",
)

CONNECTIONS = 200
# Seconds within which others must be served, also where the tests' machine is busy with other hosts; they waited 17.
PATIENCE = 5.0


@pytest.fixture(scope="module")
def asker(cluster: Cluster) -> Callable[[int], subprocess.Popen[str]]:
    """Starts an honest user on another host, who asks for some seconds."""
    subprocess.run(["docker", "cp", "-q", str(ROOT / "tests/attacks/hostile/asker.py"), f"{cluster.label}-app:/tmp/asker.py"], check=True)
    token = made_token(cluster, {"exp": "now+900"})

    def ask(seconds: int) -> subprocess.Popen[str]:
        words = ["ssh", "-F", str(cluster.secrets / "ssh_config"), f"root@{cluster.label}-app", f"{TRUST} python3 /tmp/asker.py {seconds}"]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdin
        process.stdin.write(token)
        process.stdin.close()
        return process

    return ask


def served(cluster: Cluster, asker: Callable[[int], subprocess.Popen[str]], ways: str, seconds: int) -> list[str]:
    """Tries ways to be silent; the names of those that were tried."""
    process = asker(seconds)
    try:
        command = f"cd /opt/test/attacks/hostile; {PYTHON} silent.py front {shlex.quote(ways)} {CONNECTIONS}"
        tried = [json.loads(line) for line in cluster.out("idp", command, timeout=400).splitlines()]
    finally:
        process.terminate()
    assert process.stdout
    asked = [tuple(map(float, line.split())) for line in process.stdout.read().splitlines() if len(line.split()) == 3]
    for one in tried:
        meanwhile = [(took, int(status)) for when, took, status in asked if one["from"] <= when <= one["to"]]
        assert len(meanwhile) >= 3, f"{one['id']}: nobody asked: {asked[-3:]}"
        assert [status for _took, status in meanwhile] == [200] * len(meanwhile), one["id"]
        assert max(took for took, _status in meanwhile) < PATIENCE, f"{one['id']}: {meanwhile}"
        assert one["opened"] >= CONNECTIONS, one
    return [one["id"] for one in tried]


def test_others_are_served_meanwhile(cluster: Cluster, asker, record_property):
    tried = served(cluster, asker, "all", 300)
    assert len(tried) >= 20
    record_property("attacks", f"front: silent: {len(tried)} attacks, 0 let in; another user was served all the while")


def test_others_are_served_after_a_reload(cluster: Cluster, asker):
    """What is counted of connections must not be lost with it."""
    cluster.out("front", "systemctl reload apache2")
    tried = served(cluster, asker, "tls-alone,headers-by-bytes,body-never,port-80-body", 60)
    assert len(tried) == 4


def test_the_silent_one_is_served_once_it_is_quiet(cluster: Cluster):
    cluster.until("idp", f"{TRUST} curl --silent --output /dev/null --write-out '%{{http_code}}' https://front.site.test/api/", "401", 30)
