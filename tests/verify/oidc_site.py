"""The users' side of the scenario oidc_proxy: what is asked from the host idp, and what reached the application."""

from __future__ import annotations

import json
import re
import shlex
import time
from typing import Any, NamedTuple

from local import Cluster

API = "https://front.site.test/api"
OPAQUE = "https://opaque.site.test/api"
SLURM = "https://slurm.site.test"
# Python packages that bring authorities of their own would not know the test site's.
TRUST = "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"
PYTHON = f"PYTHONPATH=/opt/test/python:/opt/test/attacks {TRUST} python3"


class Answer(NamedTuple):
    status: int
    head: str
    body: str

    def header(self, name: str) -> str:
        found = re.search(rf"^{name}: (.*?)\r?$", self.head, re.IGNORECASE | re.MULTILINE)
        return found[1] if found else ""


def curl(cluster: Cluster, url: str, *options: str, token: str = "") -> Answer:
    """One request; a token goes by stdin, as it should."""
    words = " ".join(shlex.quote(word) for word in ("--silent", "--show-error", "--max-time", "30", "--include", *options, url))
    secret = f'header = "Authorization: Bearer {token}"' if token else ""
    done = cluster.run("idp", f"curl --config - {words} <<'END'\n{secret}\nEND\n")
    assert done.returncode == 0, f"{url}: {done.stderr}"
    head, _blank, body = done.stdout.replace("\r\n", "\n").partition("\n\n")
    return Answer(int(head.split()[1]), head, body)


def told(answer: Answer) -> dict:
    """The body of a refusal, which a program can read."""
    assert "json" in answer.header("content-type"), answer.head
    return json.loads(answer.body)


def client_secret(cluster: Cluster, client: str) -> str:
    site = json.loads(cluster.out("idp", "cat /etc/idp/site.json"))
    return next(one["client_secret"] for one in site["clients"] if one["client_id"] == client)


def program_token(cluster: Cluster, resource: str = API, scope: str = "api:read") -> str:
    """A token of the provider for a program, by curl alone."""
    form = f"grant_type=client_credentials&resource={resource}&scope={scope.replace(' ', '+')}"
    user = f'user = "cli:{client_secret(cluster, "cli")}"'
    answer = cluster.out("idp", f"curl --silent --show-error --config - --data '{form}' https://iam.site.test/token <<'END'\n{user}\nEND\n")
    return json.loads(answer)["access_token"]


def user_token(cluster: Cluster, user: str, resource: str = API, scope: str = "api:read") -> str:
    """A token that the provider issued after the user had signed in."""
    return cluster.out("idp", f"{PYTHON} /opt/test/attacks/login.py token {user} {resource} {scope}")


def made_token(cluster: Cluster, changes: dict[str, Any], sign: str = "key1", audience: str = API) -> str:
    """alice's token with other claims, signed with a key of the provider; now+60 in them is a time."""
    program = (
        "import json, sys; from forge import Forge; from run import moment; "
        "f = Forge(); c = {k: moment(v) for k, v in json.load(sys.stdin).items()}; "
        f"print(f.token({{k: v for k, v in {{**f.claims('{audience}'), **c}}.items() if v is not None}}, None, '{sign}'))"
    )
    return cluster.out("idp", f"{PYTHON} -c {shlex.quote(program)} <<'END'\n{json.dumps(changes)}\nEND\n")


def records(cluster: Cluster) -> list[dict[str, str]]:
    """What reached the application since the last look."""
    return json.loads(cluster.out("idp", "curl --silent --show-error --request DELETE http://app:8001/records"))


def on_idp(cluster: Cluster, program: str, timeout: float = 120) -> Any:
    """What a Python program on idp, with the attacks' modules, printed as JSON."""
    return json.loads(
        cluster.out(
            "idp", f"cat > /tmp/program.py <<'END'\n{program}\nEND\ncd /opt/test/attacks; {PYTHON} /tmp/program.py", timeout=timeout
        )
    )


class Front:
    """The way that users' programs go to SLURM."""

    def __init__(self, cluster: Cluster, authority: str) -> None:
        self.cluster, self.authority = cluster, authority

    def ask(self, token: str, path: str, body: Any = None, *options: str) -> Answer:
        sent = ("--header", "Content-Type: application/json", "--data", json.dumps(body)) if body is not None else ()
        return curl(self.cluster, f"{SLURM}/slurm{path}", "--cacert", self.authority, *sent, *options, token=token)

    def told(self, token: str, path: str, body: Any = None, *options: str) -> Any:
        answer = self.ask(token, path, body, *options)
        assert answer.status in (200, 201), answer
        return json.loads(answer.body)

    def watched(self, token: str, job: int, wanted: str, seconds: float = 90) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while True:
            found = self.told(token, f"/v1/jobs/{job}")
            if found["state"] == wanted:
                return found
            assert not found["ended"] and time.monotonic() < deadline, f"job {job} is not {wanted}: {found}"
            time.sleep(0.5)
