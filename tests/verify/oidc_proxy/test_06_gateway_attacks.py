"""The gateway to SLURM against those who want another's account: its sockets, headers, map, and its reader of outputs."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import gateway
import jwt
import pytest
from gateway import ALICE, BOB, CAROL, ISSUER, KEY, MALLORY, MAP, ask, identity, raw, submit, watched
from leaks import ProcessWatch, needles, on_control_node, on_host
from local import Cluster

OWNS = (
    "roles/slurm_gateway",
    "plugins/plugin_utils/_slurm/gateway.py",
)

SLURMRESTD = "/run/slurmrestd/slurmrestd.socket"
OUTPUTS = "/run/slurm_gateway/output.socket"


@contextlib.contextmanager
def mapped(cluster: Cluster, *entries: tuple[str, str]) -> Iterator[None]:
    """Another map for a while, as a run of the playbook would leave it."""
    content = json.dumps({"accounts": [{"issuer": ISSUER, "subject": subject, "account": account} for subject, account in entries]})
    cluster.out("slurm", f"cp -a {MAP} /root/map && cp -a {MAP} {MAP}.new && echo {shlex.quote(content)} > {MAP}.new && mv {MAP}.new {MAP}")
    try:
        yield
    finally:
        cluster.out("slurm", f"mv /root/map {MAP}")


def connects(cluster: Cluster, user: str, path: str) -> bool:
    done = cluster.run("slurm", f"python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('{path}')\"", user=user)
    assert done.returncode == 0 or "PermissionError" in done.stderr, done.stderr
    return done.returncode == 0


# --- sockets, rights, key ---


def test_each_socket_lets_only_the_next_one_in(cluster: Cluster):
    users = ("www-data", "ada", "eve", "nobody", "slurm", "munge", "slurm_gateway")
    assert [user for user in users if connects(cluster, user, gateway.SOCKET)] == ["www-data"]
    assert [user for user in users if connects(cluster, user, OUTPUTS)] == ["slurm_gateway"]
    # Its group is not one of the user's own: the unit alone has it.
    assert [user for user in users if connects(cluster, user, SLURMRESTD)] == []


def test_the_service_has_no_rights_beyond_its_work(cluster: Cluster):
    pid = cluster.out("slurm", "systemctl show -p MainPID --value slurm-gateway")
    status = dict(line.split(":\t", 1) for line in cluster.out("slurm", f"cat /proc/{pid}/status").splitlines() if ":\t" in line)
    assert cluster.out("slurm", f"stat -c %U /proc/{pid}") == "slurm_gateway"
    assert (int(status["CapEff"], 16), int(status["CapBnd"], 16), status["NoNewPrivs"], status["Seccomp"]) == (0, 0, "1", "2")
    devices = cluster.out("slurm", f"tail -n +3 /proc/{pid}/net/dev").split()
    assert [word for word in devices if word.endswith(":")] == ["lo:"]
    inside = f"nsenter --target {pid} --mount --setuid $(id -u slurm_gateway) --setgid $(id -g slurm_gateway)"
    for path in ("/etc/x", "/var/lib/x", "/usr/local/lib/deephdc/slurm_gateway/x", "/home/ada/x"):
        assert cluster.run("slurm", f"{inside} touch {path}").returncode != 0
    assert "slurm" not in cluster.out("slurm", "ss -ltnpH | grep -i uvicorn; true")


def test_only_the_service_and_root_read_the_key(cluster: Cluster):
    assert cluster.out("slurm", f"stat -c '%U %G %a' {KEY}") == "root slurm_gateway 440"
    assert cluster.out("slurm", "getent group slurm_gateway").endswith(":")
    for user in ("www-data", "ada", "slurm", "slurmrestd", "nobody"):
        for path in (KEY, MAP):
            assert "Permission denied" in cluster.run("slurm", f"cat {path}", user=user).stderr


def test_a_new_key_and_map_take_effect_and_leak_nowhere(cluster: Cluster):
    """Rolled out with everything turned on that talks; then the service is taken away, and brought back as it was."""
    carol = {"issuer": ISSUER, "subject": CAROL, "account": "eve"}
    key = secrets.token_bytes(32)
    text = base64.b64encode(key).decode()
    inventory = Path(os.environ["LOCAL_SECRETS"]) / "jwt.key"
    former = inventory.read_text(encoding="ascii")
    run = ("playbooks/slurm.yml", "--limit", "slurm", "--skip-tags", "install,validate")
    assert ask(cluster, CAROL, "/v1/jobs")[0] == 403
    try:
        watch = ProcessWatch([*needles(key), b"eyJhbGciOiJIUzI1NiI"])
        watch.start()
        output = cluster.playbook(*run, "-vvv", "--diff", variables={"slurm_rest_jwt_key": text, "slurm_gateway_accounts": [carol]})
        # The next runs use the new key too.
        inventory.write_text(text, encoding="ascii")
        watched(cluster, CAROL, submit(cluster, CAROL, "true"))
        watch.stop()
        assert watch.found == set()
        assert text[:40] not in output
        assert ask(cluster, ALICE, "/v1/jobs")[0] == 403
        assert cluster.out("slurm", f"base64 -w0 {KEY}") == text
        assert on_control_node(cluster, key) == []
        assert on_host(cluster, "slurm", key, KEY) == []
        # Nor a token of the gateway's own making.
        assert "eyJ" not in cluster.out("slurm", "journalctl --no-pager -o cat -u slurm-gateway -u slurmrestd")

        cluster.playbook(*run, "--tags", "slurm_gateway", variables={"slurm_gateway_enabled": False})
        assert cluster.run("slurm", f"ls {KEY} {MAP} {gateway.SOCKET} {OUTPUTS}").stdout == ""
        assert cluster.out("slurm", "systemctl is-active slurm-gateway slurm-gateway-output.socket; true").split() == [
            "inactive",
            "inactive",
        ]
    finally:
        inventory.write_text(former, encoding="ascii")
        cluster.playbook(*run)
    assert ask(cluster, CAROL, "/v1/jobs")[0] == 403 and ask(cluster, ALICE, "/v1/jobs")[0] == 200
    assert cluster.out("slurm", f"base64 -w0 {KEY}") == former.strip()


# --- who one is ---


def test_an_identity_that_is_not_exactly_one_is_nobody(cluster: Cluster):
    other = [("X-Token-Subject", ALICE)]
    assert ask(cluster, None, "/v1/jobs")[0] == 401
    assert ask(cluster, None, "/v1/jobs", more=other)[0] == 401
    for more in (other, [("X-Token-Issuer", ISSUER)], [("x-token-subject", BOB)]):
        assert ask(cluster, MALLORY, "/v1/jobs", more=more)[0] == 401
    # What the front did not set counts for nothing, in whatever spelling.
    names = (
        "X_Token_Subject",
        "X-Token_Subject",
        "X.Token.Subject",
        "X-Remote-User",
        "X-SLURM-USER-NAME",
        "OIDC_CLAIM_sub",
        "X-Token-Account",
    )
    more = [(name, value) for name in names for value in (ALICE, "ada", "root")]
    assert ask(cluster, MALLORY, "/v1/jobs", more=more)[0] == 403
    for subject in (ALICE[:-1], ALICE + "0", "ada", "root", "../" + ALICE, "*", ".*", "%s"):
        assert ask(cluster, subject, "/v1/jobs")[0] == 403
    for issuer in (ISSUER + "/", ISSUER.upper(), "https://iam2.site.test:9443", "http://iam.site.test"):
        assert ask(cluster, None, "/v1/jobs", more=identity(ALICE, issuer))[0] == 403


@pytest.mark.parametrize("ending", [b"\r", b"\n", b"\0", b"\x0b", b"\r\n ", b"\x85"])
def test_a_header_can_not_bring_another_one(cluster: Cluster, ending: bytes):
    request = b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nX-Token-Issuer: %s\r\nX-Token-Subject: %s%sX-Token-Subject: %s\r\n\r\n"
    answer = raw(cluster, request % (ISSUER.encode(), MALLORY.encode(), ending, ALICE.encode()))
    assert answer.startswith(("b'HTTP/1.1 400", "b'HTTP/1.1 401")), answer


def test_two_requests_in_one_are_not_one_with_the_first_s_identity(cluster: Cluster):
    head = f"X-Token-Issuer: {ISSUER}\r\nX-Token-Subject: {ALICE}\r\n"
    for framing in (
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nContent-Length: 50\r\n",
        "Transfer-Encoding: xchunked\r\n",
    ):
        inner = "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n"
        answer = raw(cluster, f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\n{head}{framing}\r\n0\r\n\r\n{inner}".encode())
        assert '"jobs"' not in answer and "200 OK" not in answer, answer


def test_no_field_of_a_job_reaches_slurm_as_another_one(cluster: Cluster):
    script = "#!/bin/bash\n#SBATCH --uid=0\nid -u\n"
    for extra in (
        {"user_id": 0},
        {"user_name": "root"},
        {"uid": "0"},
        {"standard_output": "/etc/cron.d/x"},
        {"script": script, "argv": ["x"]},
    ):
        assert ask(cluster, ALICE, "/v1/jobs", {"script": script, **extra} if "argv" not in extra else extra)[0] == 422
    for extra in (
        {"name": "a\r\nX-SLURM-USER-NAME: root"},
        {"partition": "gpu\nx"},
        {"account": "physics,root"},
        {"gpu_type": "a100:1,gpu", "gpus": 1},
    ):
        assert ask(cluster, ALICE, "/v1/jobs", {"script": script, **extra})[0] == 422
    # What may be free text stays text; and what others would believe in is not passed on.
    job = submit(
        cluster,
        ALICE,
        'id -u; printf %s "$A" | md5sum; env | grep -c "^X-SLURM\\|^SLURM_JWT"',
        environment={"A": "1\nSLURM_JWT=x\r\nX-SLURM-USER-NAME: root", "LD_LIBRARY_PATH": "/tmp"},
    )
    assert watched(cluster, ALICE, job)["state"] in ("completed", "failed")
    text = ask(cluster, ALICE, f"/v1/jobs/{job}/output")[1]["text"]
    assert text.splitlines()[0] == "2001"
    # The record of a job that ends at once is whole only after a moment.
    cluster.until("slurm", f"sacct -X -n -P -j {job} -o User,UID", "ada|2001", 30)


# --- what the map can do ---


def test_a_map_gives_away_no_service_and_nobody_who_left(cluster: Cluster):
    files = "passwd shadow group gshadow subuid subgid"
    cluster.out("slurm", f"mkdir -m 700 /root/accounts && cd /etc && cp -a {files} /root/accounts/")
    cluster.out(
        "slurm", "useradd -o -u 0 -M toor; useradd -u 990 -M daemon2; useradd -M -s /usr/sbin/nologin left; useradd -M -u 61200 dynamic"
    )
    try:
        for account in (
            "root",
            "slurm",
            "munge",
            "slurmrestd",
            "slurm_gateway",
            "www-data",
            "nobody",
            "toor",
            "daemon2",
            "left",
            "dynamic",
            "gone",
            "0",
            "2001",
        ):
            with mapped(cluster, (MALLORY, account), (ALICE, "ada")):
                for path, body in (("/v1/jobs", None), ("/v1/resources", None), ("/v1/jobs", {"script": "#!/bin/sh\nid\n"})):
                    status, answer = ask(cluster, MALLORY, path, body)
                    assert status == 403 and "account" in answer["detail"], (account, answer)
    finally:
        cluster.out("slurm", "cp -a /root/accounts/* /etc/ && rm -r /root/accounts")


def test_a_change_of_the_map_counts_with_the_next_request(cluster: Cluster):
    job = submit(cluster, ALICE, "sleep 60")
    try:
        with mapped(cluster, (ALICE, "eve")):
            assert ask(cluster, ALICE, f"/v1/jobs/{job}")[0] == 404
            assert ask(cluster, ALICE, f"/v1/jobs/{job}", method="DELETE")[0] == 404
            assert ask(cluster, BOB, "/v1/jobs")[0] == 403
        with mapped(cluster):
            assert ask(cluster, ALICE, f"/v1/jobs/{job}")[0] == 403
        # An account that is switched off is closed at once, too.
        cluster.out("slurm", "usermod --shell /usr/sbin/nologin ada")
        assert ask(cluster, ALICE, f"/v1/jobs/{job}")[0] == 403
        cluster.out("slurm", "usermod --shell /bin/bash ada")
        # None of it touched the job.
        assert not watched(cluster, ALICE, job, state="running")["ended"]
    finally:
        cluster.out("slurm", f"usermod --shell /bin/bash ada; scancel {job}")


def test_a_map_that_gives_away_a_service_is_refused_on_the_control_node(cluster: Cluster):
    entry = {"issuer": ISSUER, "subject": CAROL, "account": "slurm"}
    output = cluster.playbook("playbooks/slurm.yml", "--limit", "slurm", variables={"slurm_gateway_accounts": [entry]}, succeeds=False)
    assert "slurm_gateway_accounts of slurm: entry 1 has the account slurm, which runs a service" in output


# --- what is others' ---


def test_jobs_of_others_can_not_be_seen_cancelled_or_read(cluster: Cluster):
    job = submit(cluster, ALICE, "echo secret-of-ada; sleep 60", name="hidden")
    try:
        watched(cluster, ALICE, job, state="running")
        # Not even by who administers SLURM: the gateway passes on one's own jobs only.
        cluster.out("slurm", "sacctmgr -i modify user eve set adminlevel=Administrator")
        for number in (job, job + 100000):
            for path, method in ((f"/v1/jobs/{number}", "GET"), (f"/v1/jobs/{number}", "DELETE"), (f"/v1/jobs/{number}/output", "GET")):
                assert ask(cluster, BOB, path, method=method) == (404, {"detail": f"You have no job {number}."})
        assert "hidden" not in json.dumps(ask(cluster, BOB, "/v1/jobs")[1])
        assert not ask(cluster, ALICE, f"/v1/jobs/{job}")[1]["ended"]
    finally:
        cluster.out("slurm", f"sacctmgr -i modify user eve set adminlevel=None; scancel {job}")
    # Nor once slurmdbd alone remembers it.
    watched(cluster, ALICE, job)
    assert ask(cluster, BOB, f"/v1/jobs/{job}")[0] == 404


def test_only_the_five_operations_are_passed_on(cluster: Cluster):
    version = {"bookworm": "v0.0.38", "trixie": "v0.0.42"}[cluster.release]
    paths = ("jobs", "nodes", "diag", "ping", "shares", "reservations", "reconfigure", "job/1")
    for path in (
        *(f"/slurm/{version}/{path}" for path in paths),
        f"/slurmdb/{version}/users",
        "/openapi/v3",
        "/v1/../slurm",
        "/docs",
        "//v1/jobs",
    ):
        for method in ("GET", "POST", "DELETE", "PUT"):
            assert ask(cluster, ALICE, path, method=method)[0] in (404, 405), path
    for path in (
        "/v1/jobs/1%2f..%2f..%2fnodes",
        "/v1/jobs/1?signal=9/../x",
        "/v1/jobs/0",
        "/v1/jobs/-1",
        "/v1/jobs/4294967296",
        "/v1/jobs/1;x",
    ):
        assert ask(cluster, ALICE, path, method="DELETE")[0] in (404, 422), path


# --- what is too much ---


def test_ten_megabytes_are_refused_and_cost_little(cluster: Cluster):
    pid = cluster.out("slurm", "systemctl show -p MainPID --value slurm-gateway")
    for _turn in range(5):
        status, answer = ask(cluster, ALICE, "/v1/jobs", {"script": "#!/bin/sh\nPAD"}, pad=10_000_000)
        assert (status, answer) == (413, {"detail": "A request may have 1048576 bytes at most."})
    status, answer = ask(cluster, ALICE, "/v1/jobs", {"script": "#!/bin/sh\nPAD"}, pad=600_000)
    assert status == 422 and "script" in answer["detail"] and len(answer["detail"]) < 300
    head = f"X-Token-Issuer: {ISSUER}\r\nX-Token-Subject: {ALICE}\r\nContent-Type: application/json\r\nContent-Length: 20000\r\n"
    deep = raw(cluster, f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\n{head}\r\n{'[' * 20000}".encode())
    assert deep.startswith(("b'HTTP/1.1 400", "b'HTTP/1.1 422")), deep
    # Half a request holds no other client up.
    hang = (
        "import socket, time\n"
        "held = [socket.socket(socket.AF_UNIX) for _number in range(40)]\n"
        "for one in held:\n"
        f"    one.connect({gateway.SOCKET!r})\n"
        "    one.sendall(b'POST /v1/jobs HTTP/1.1\\r\\n')\n"
        "time.sleep(5)\n"
    )
    cluster.out("slurm", f"nohup python3 -c {shlex.quote(hang)} >/dev/null 2>&1 & sleep 0.5", user="www-data")
    assert ask(cluster, ALICE, "/v1/jobs")[0] == 200
    assert cluster.out("slurm", "systemctl show -p MainPID --value slurm-gateway") == pid
    assert int(cluster.out("slurm", f"awk '/VmHWM/ {{print $2}}' /proc/{pid}/status")) < 300_000


# --- outputs ---


def test_an_output_is_read_with_the_rights_of_its_user_only(cluster: Cluster):
    """Whatever the user puts in the place of the output, the answer shows nothing that the user could not read."""
    cluster.out(
        "slurm", "echo secret-of-eve > ~/private; chmod 600 ~/private; echo mine > ~/shared; chmod 644 ~/shared; chmod 755 ~", user="eve"
    )
    job = submit(cluster, ALICE, "echo from the job")
    watched(cluster, ALICE, job)
    path = f"/v1/jobs/{job}/output"
    assert ask(cluster, ALICE, path) == (200, {"text": "from the job\n", "size": 13, "next_offset": 13})
    assert ask(cluster, ALICE, path + "?offset=9")[1]["text"] == "job\n"
    own = f"~/slurm-{job}.out"
    for target in ("/etc/shadow", KEY, "~eve/private", "~eve/shared", "/dev/zero", "/proc/self/environ"):
        cluster.out("slurm", f"rm -f {own}; ln -s {target} {own}", user="ada")
        assert ask(cluster, ALICE, path)[0] == 404, target
    cluster.out("slurm", f"rm -f {own}; mkfifo {own}", user="ada")
    assert ask(cluster, ALICE, path) == (404, {"detail": "The job's output is no plain file."})
    cluster.out("slurm", f"rm -f {own}", user="ada")
    # A directory may lead elsewhere; what lies there is still read as ada.
    cluster.out(
        "slurm", f"mkdir -p -m 755 ~/out && echo secret-of-eve > ~/out/slurm-{job}.out && chmod 600 ~/out/slurm-{job}.out", user="eve"
    )
    cluster.out("slurm", "mkdir -p ~/w", user="ada")
    again = submit(cluster, ALICE, "true", working_directory="/home/ada/w")
    watched(cluster, ALICE, again)
    cluster.out("slurm", f"mv ~/out/slurm-{job}.out ~/out/slurm-{again}.out", user="eve")
    cluster.out("slurm", "rm -r ~/w; ln -s /home/eve/out ~/w", user="ada")
    status, answer = ask(cluster, ALICE, f"/v1/jobs/{again}/output")
    assert status == 404 and "Permission denied" in answer["detail"]
    cluster.out("slurm", "rm ~/w", user="ada")
    cluster.out("slurm", "rm -r ~/private ~/shared ~/out", user="eve")


def test_the_reader_of_outputs_becomes_no_service_and_nobody_s_root(cluster: Cluster):
    code = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
        "s.sendall(sys.argv[2].encode() + b'\\n'); print(s.makefile().read())"
    )
    cluster.out("slurm", "echo x > /root/slurm-1.out; echo x > /tmp/slurm-1.out; chmod 600 /tmp/slurm-1.out")
    for account in ("root", "slurm", "slurm_gateway", "0", "nobody"):
        for path in ("/root/slurm-1.out", "/tmp/slurm-1.out"):
            wanted = json.dumps({"account": account, "path": path, "offset": 0})
            answer = cluster.out("slurm", f"python3 -c {shlex.quote(code)} {OUTPUTS} {shlex.quote(wanted)}", user="slurm_gateway")
            assert set(json.loads(answer)) == {"error"}, answer
    for path in ("/tmp/slurm-1.out", "/etc/passwd", "/etc/shadow", "/tmp/slurm-1.out/../../etc/passwd"):
        wanted = json.dumps({"account": "ada", "path": path, "offset": 0})
        answer = cluster.out("slurm", f"python3 -c {shlex.quote(code)} {OUTPUTS} {shlex.quote(wanted)}", user="slurm_gateway")
        assert set(json.loads(answer)) == {"error"}, answer
    cluster.out("slurm", "rm /root/slurm-1.out /tmp/slurm-1.out")


# --- SLURM's own tokens ---


def test_slurm_refuses_the_gateway_s_token_after_its_minute_and_for_another_name(cluster: Cluster):
    key = base64.b64decode(cluster.out("slurm", f"base64 -w0 {KEY}"))
    version = {"bookworm": "v0.0.38", "trixie": "v0.0.42"}[cluster.release]
    now = int(time.time())

    def nodes(name: str, **claims: object) -> str:
        token = jwt.encode({"sun": "ada", "iat": now - 120, "exp": now + 60, **claims}, key, algorithm="HS256")
        headers = {"X-SLURM-USER-NAME": name, "X-SLURM-USER-TOKEN": token}
        code = (
            "import http.client, json, socket; c = http.client.HTTPConnection('localhost'); c.sock = socket.socket(socket.AF_UNIX); "
            f"c.sock.connect({SLURMRESTD!r}); c.request('GET', '/slurm/{version}/nodes', None, {headers!r}); "
            "print(len(json.load(c.getresponse()).get('nodes') or []))"
        )
        return cluster.out("slurm", f"python3 -c {shlex.quote(code)}")

    assert nodes("ada") == "1"
    assert nodes("ada", exp=now - 60) == "0"
    assert nodes("root") == "0"


def test_the_service_comes_back_after_it_was_killed(cluster: Cluster):
    cluster.out("slurm", "systemctl kill --signal KILL slurm-gateway")
    assert ask(cluster, ALICE, "/v1/jobs")[0] == 200
