"""SLURM's REST interface: a socket for some, a token for each request."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Iterator

import pytest
from leaks import ProcessWatch, needles, on_control_node, on_host
from local import Cluster
from slurm_jobs import ended, look, opened

OWNS = ("roles/slurm_rest",)

SOCKET = "/run/slurmrestd/slurmrestd.socket"
# What the distributions' releases of SLURM speak.
VERSION = {"bookworm": "v0.0.38", "trixie": "v0.0.41"}

CLIENT = """
import http.client, json, socket, sys
method, path, token, body = json.load(sys.stdin)
connection = http.client.HTTPConnection("localhost")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect("SOCKET")
headers = {"X-SLURM-USER-NAME": "ada", "Content-Type": "application/json"}
if token:
    headers["X-SLURM-USER-TOKEN"] = token
connection.request(method, path, json.dumps(body) if body else None, headers)
answer = connection.getresponse()
print(answer.status, answer.read().decode())
""".replace("SOCKET", SOCKET)


def call(cluster: Cluster, path: str, token: str | None, body: dict | None = None) -> tuple[int, dict]:
    """Status and content of an answer to ada."""
    request = json.dumps(["POST" if body else "GET", path.replace("VERSION", VERSION[cluster.release]), token, body])
    command = f"cat > client.py <<'END'\n{CLIENT}\nEND\npython3 client.py <<'END'\n{request}\nEND\n"
    status, _blank, text = cluster.out("login", command, user="ada").partition(" ")
    return int(status), json.loads(text) if text.startswith("{") else {"said": text}


def token_of(cluster: Cluster, user: str = "ada") -> str:
    return cluster.out("ctl", f"scontrol token username={user} lifespan=600").removeprefix("SLURM_JWT=")


def forged(user: str) -> str:
    """A token of the right form, signed with another key."""

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    now = int(time.time())
    claims = {"exp": now + 600, "iat": now, "sun": user}
    text = ".".join(part(json.dumps(piece).encode()) for piece in ({"alg": "HS256", "typ": "JWT"}, claims))
    return f"{text}.{part(hmac.new(secrets.token_bytes(32), text.encode(), hashlib.sha256).digest())}"


def test_slurmrestd_runs_as_a_user_of_its_own_and_opens_no_port(cluster: Cluster):
    pid = cluster.out("login", "systemctl show -p MainPID --value slurmrestd")
    assert cluster.out("login", f"stat -c %U /proc/{pid}") == "slurmrestd"
    listening = cluster.out("login", "ss -ltnpH")
    assert "6820" not in listening and "slurmrestd" not in listening
    # Neither the cluster's key for tokens nor munge's is where it could read one.
    assert cluster.run("login", "ls /etc/slurm/jwt_hs256.key").returncode != 0


def test_only_members_of_the_group_reach_the_socket(cluster: Cluster):
    connect = f"python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('{SOCKET}')\""
    assert cluster.run("login", connect, user="ada").returncode == 0
    assert "PermissionError" in cluster.run("login", connect, user="eve").stderr


def test_a_token_lets_its_user_see_the_cluster(cluster: Cluster):
    token = token_of(cluster)
    status, answer = call(cluster, "/slurm/VERSION/ping", token)
    assert (status, answer["errors"]) == (200, [])
    assert [ping["ping" if cluster.release == "bookworm" else "pinged"] for ping in answer["pings"]] == ["UP"]
    status, answer = call(cluster, "/slurm/VERSION/nodes", token)
    assert status == 200
    assert {node["name"]: node["gres"] for node in answer["nodes"]}["gpu1"].startswith("gpu:a100:2")


def test_a_job_that_came_by_rest_has_its_gpu(cluster: Cluster):
    script = "#!/bin/bash\n" + look()
    common = {"name": "rest", "current_working_directory": "/tmp", "standard_output": "/tmp/job-%j_4294967294.out"}
    job = {
        "bookworm": {**common, "environment": {"PATH": "/usr/bin:/bin"}, "gres": "gpu:a100:1"},
        "trixie": {**common, "environment": ["PATH=/usr/bin:/bin"], "tres_per_node": "gres/gpu:a100:1"},
    }[cluster.release]
    body = {"script": script, "job": job} if cluster.release == "bookworm" else {"job": {**job, "script": script}}
    status, answer = call(cluster, "/slurm/VERSION/job/submit", token_of(cluster), body)
    assert (status, answer["errors"]) == (200, []), answer
    (row,) = ended(cluster, str(answer["job_id"]))
    assert row["State"] == "COMPLETED", row
    assert len(opened(cluster, row["NodeList"], str(answer["job_id"]))) == 1


def test_without_a_token_or_with_a_forged_one_nothing_is_told(cluster: Cluster):
    status, answer = call(cluster, "/slurm/VERSION/nodes", None)
    assert status == 401 and "nodes" not in answer
    for user in ("ada", "root"):
        status, answer = call(cluster, "/slurm/VERSION/nodes", forged(user))
        assert status >= 400 and not answer.get("nodes"), answer
        status, answer = call(cluster, "/slurmdb/VERSION/associations", forged(user))
        assert status >= 400 and not answer.get("associations"), answer


# What a run for another key does.
KEY = ("--limit", "ctl", "--tags", "slurm_controller,slurm_database,slurm_cluster", "--skip-tags", "install")


@pytest.fixture
def former_key(cluster: Cluster) -> Iterator[None]:
    """The controller has it again afterwards."""
    yield
    cluster.playbook("playbooks/slurm.yml", *KEY)


def test_a_new_key_takes_effect_and_leaks_nowhere(cluster: Cluster, former_key: None):
    """Rolled out with everything turned on that talks; tokens of the old key are worth nothing afterwards."""
    old = token_of(cluster)
    key = secrets.token_bytes(32)
    text = base64.b64encode(key).decode()
    watch = ProcessWatch(needles(key))
    watch.start()
    output = cluster.playbook("playbooks/slurm.yml", "-vvv", "--diff", *KEY, variables={"slurm_rest_jwt_key": text})
    watch.stop()

    new = token_of(cluster)
    for path in ("/slurm/VERSION/nodes", "/slurmdb/VERSION/associations"):
        assert call(cluster, path, new)[0] == 200
        assert call(cluster, path, old)[0] >= 400
    assert watch.found == set()
    assert text[:40] not in output
    assert on_control_node(cluster, key) == []
    assert cluster.out("ctl", "stat -c '%U %a' /etc/slurm/jwt_hs256.key; base64 -w0 /etc/slurm/jwt_hs256.key") == f"slurm 600\n{text}"
    assert on_host(cluster, "ctl", key, "/etc/slurm/jwt_hs256.key") == []
