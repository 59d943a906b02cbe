"""The site of the scenario kubernetes: a control plane, two workers with two simulated GPUs each."""

from __future__ import annotations

import base64
import functools
import json
import shlex
import time
from typing import Any

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from local import Cluster

PLAYBOOK = "playbooks/kubernetes.yml"
BUSYBOX = "docker.io/library/busybox:1.37"
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"
# Opens the device files that a container has, then one that it makes for each of the others of that driver.
TRY = """
for file in /dev/nvidia[0-9]*; do [ -c "$file" ] && echo "has $file"; done
file=$(ls -d /dev/nvidia[0-9]* | head -1)
major=$(printf %d "0x$(stat -c %t "$file")") own=$(printf %d "0x$(stat -c %T "$file")")
for minor in 0 1; do
    mknod /tmp/d$minor c $major $minor
    (: </tmp/d$minor) 2>/tmp/said && echo "opens $minor" || echo "$minor: $(cat /tmp/said)"
done
echo "own $own"
"""


ISSUER, AUDIENCE = "https://iam.site.test", "https://kubernetes.site.test"
# Where users log in: no file of an administrator is there.
LOGIN, VISITOR = "iam1", "visitor"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def private_key(jwk: dict[str, str]) -> rsa.RSAPrivateKey:
    """A key of a provider."""
    number = {name: int.from_bytes(decoded(jwk[name]), "big") for name in ("n", "e", "d", "p", "q", "dp", "dq", "qi")}
    public = rsa.RSAPublicNumbers(number["e"], number["n"])
    return rsa.RSAPrivateNumbers(*(number[name] for name in ("p", "q", "d", "dp", "dq", "qi")), public).private_key()


def signed(key: rsa.RSAPrivateKey, kid: str, claims: dict[str, Any]) -> str:
    """A token by RS256."""
    head, body = (encoded(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": kid}, claims))
    return f"{head}.{body}.{encoded(key.sign(f'{head}.{body}'.encode(), padding.PKCS1v15(), SHA256()))}"


class User:
    """Who has a token, at a host where users log in, with nothing but what the role wrote there."""

    def __init__(self, site: Site, token: str) -> None:
        self.site, self.token = site, token

    def kubectl(self, words: str, given: dict[str, Any] | None = None, succeeds: bool = True) -> str:
        command = f"BEARER_TOKEN={shlex.quote(self.token)} KUBECONFIG=/etc/kubernetes/users.conf kubectl {words}"
        if given is not None:
            command += f" <<'END'\n{json.dumps(given)}\nEND"
        done = self.site.run(LOGIN, command, VISITOR)
        assert (done.returncode == 0) == succeeds, done.stderr or done.stdout
        return (done.stdout if succeeds else done.stderr).strip()

    def may(self, words: str) -> bool:
        """Whether kubectl auth can-i says yes."""
        said = self.site.run(
            LOGIN, f"BEARER_TOKEN={shlex.quote(self.token)} KUBECONFIG=/etc/kubernetes/users.conf kubectl auth can-i {words}", VISITOR
        )
        answer = (said.stdout.splitlines() or [said.stderr])[-1]
        assert answer in ("yes", "no"), said.stdout + said.stderr
        return answer == "yes"


class Site(Cluster):
    @functools.cached_property
    def keys(self) -> dict[str, Any]:
        """The keys of the IAM's stand-in, by number of the provider."""
        text = {number: json.loads(self.out(LOGIN, f"cat /var/lib/idp/keys{number}.json")) for number in ("", "2")}
        return {number: private_key(one["all"][0]) for number, one in text.items()}

    def claims(self, name: str, groups: list[str], **more: Any) -> dict[str, Any]:
        """The claims of a good token; a claim whose value is None is left out."""
        now = int(time.time())
        given = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": f"id-{name}",
            "preferred_username": name,
            "groups": groups,
            "iat": now,
            "exp": now + 600,
        }
        return {key: value for key, value in {**given, **more}.items() if value is not None}

    def as_user(self, name: str, groups: list[str] | None = None, **more: Any) -> User:
        """A user of the IAM, known to Kubernetes as iam:NAME in the groups iam:GROUP."""
        return User(self, signed(self.keys[""], "key1", self.claims(name, groups or [], **more)))

    def kubectl(self, words: str, given: dict[str, Any] | None = None, succeeds: bool = True) -> str:
        command = f"{KUBECTL} {words}"
        if given is not None:
            command += f" <<'END'\n{json.dumps(given)}\nEND"
        done = self.run("cp1", command)
        assert (done.returncode == 0) == succeeds, done.stderr or done.stdout
        return (done.stdout if succeeds else done.stderr).strip()

    def get(self, words: str) -> Any:
        return json.loads(self.kubectl(f"get {words} --output=json"))

    def node(self, name: str) -> dict[str, Any]:
        return self.get(f"node {name}")

    def start(self, name: str, program: str = "sleep 600", **more: Any) -> None:
        """A user's pod; gpus: how many, node: where, owner and other keys go into it as they are."""
        container: dict[str, Any] = {"name": "c", "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["sh", "-c", program]}
        if more.get("gpus"):
            container["resources"] = {"limits": {"nvidia.com/gpu": more["gpus"]}}
        spec: dict[str, Any] = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
        if more.get("node"):
            spec["nodeSelector"] = {"kubernetes.io/hostname": more["node"]}
        self.kubectl("create -f -", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})

    def remove(self, *names: str) -> None:
        self.kubectl(f"delete pod --now --ignore-not-found {' '.join(names)}")

    def phase(self, name: str, wanted: str, seconds: float = 60) -> None:
        self.until("cp1", f"{KUBECTL} get pod {name} -o jsonpath={{.status.phase}}", wanted, seconds)

    def logs(self, name: str) -> str:
        return self.kubectl(f"logs {name}")

    def why(self, name: str, seconds: float = 20) -> str:
        """What the scheduler says of a pod that waits."""
        path = shlex.quote('jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}')
        deadline = time.monotonic() + seconds
        while True:
            said = self.kubectl(f"get pod {name} -o {path}")
            if said or time.monotonic() > deadline:
                return said
            time.sleep(0.5)


def recap(output: str, host: str) -> str:
    """A host's line at the end of a run."""
    return next(line for line in output.split("PLAY RECAP")[1].splitlines() if line.startswith(host))
