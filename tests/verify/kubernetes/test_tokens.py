# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Who comes in by a token, and what they may do."""

from __future__ import annotations

import hashlib
import hmac
import json
import shlex
import time
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from kubernetes_access import NODES, PODS, asked, inventory, run, token
from kubernetes_site import AUDIENCE, ISSUER, LOGIN, VISITOR, Site, decoded, encoded, signed

OWNS = (
    "tests/verify/kubernetes_access.py",
    "roles/kubernetes_cluster/files",
    "roles/kubernetes_cluster/tasks/access.yml",
    "roles/kubernetes_cluster/tasks/login.yml",
    "roles/kubernetes_control_plane/tasks/authentication.yml",
    "plugins/modules/kubernetes_authentication.py",
    "plugins/plugin_utils/_kubernetes/access.py",
    "molecule/kubernetes/iam.yml",
)


# What users have


def test_a_user_signs_in_and_finds_the_cluster(site: Site):
    """By the provider's own pages; then with a login shell, the token in its usual file, and nothing else."""
    login = f"SSL_CERT_FILE=/etc/idp/ca.pem python3 /opt/test/login.py token alice {AUDIENCE}"
    mine = site.out(LOGIN, login)
    path = f"/tmp/bt_u{site.out(LOGIN, 'id -u', VISITOR)}"
    site.out(LOGIN, f"umask 077; echo {shlex.quote(mine)} > {path}", VISITOR)
    try:
        said = site.out(LOGIN, "bash -lc 'kubectl auth whoami -o json'", VISITOR)
        info = json.loads(said)["status"]["userInfo"]
        assert info["username"] == "iam:alice" and info["groups"] == ["iam:physics", "system:authenticated"]
        # Open to others, and of another user: not used, so that the user sees it.
        site.out(LOGIN, f"chmod 644 {path}", VISITOR)
        done = site.run(LOGIN, "bash -lc 'kubectl auth whoami'", VISITOR)
        assert done.returncode and "is open to other users" in done.stderr
        site.out(LOGIN, f"chmod 600 {path}; chown other {path}")
        done = site.run(LOGIN, "bash -lc 'kubectl auth whoami'", VISITOR)
        assert done.returncode and "can't be read" in done.stderr
    finally:
        site.out(LOGIN, f"rm {path}")
    done = site.run(LOGIN, "bash -lc 'kubectl auth whoami'", VISITOR)
    assert done.returncode and "there is no token" in done.stderr


def test_what_users_have_holds_no_secret(site: Site):
    for host in ("cp1", LOGIN):
        text = site.out(host, "cat /etc/kubernetes/users.conf")
        assert site.out(host, "stat -c '%a %U' /etc/kubernetes/users.conf") == "644 root"
        user = json.loads(text.split("\n", 1)[1])["users"][0]["user"]
        assert list(user) == ["exec"] and "PRIVATE" not in text and "eyJ" not in text
    assert site.out(LOGIN, "ls /etc/kubernetes") == "users.conf"
    assert site.run(LOGIN, "command -v kubelet kubeadm").returncode, "kubectl alone is installed there"
    assert site.run("cp1", "cat /etc/kubernetes/admin.conf", "nobody").returncode


# Tokens


def other_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def forged(header: dict[str, Any], claims: dict[str, Any], sign: Any = None) -> str:
    head, body = (encoded(json.dumps(part).encode()) for part in (header, claims))
    return f"{head}.{body}.{encoded(sign(f'{head}.{body}'.encode())) if sign else ''}"


def hmac_by(secret: bytes) -> Any:
    return lambda text: hmac.new(secret, text, hashlib.sha256).digest()


def bad_signatures(site: Site) -> dict[str, str]:
    good = token(site)
    claims, key = site.claims("ben", []), site.keys[""]
    public, formats, encodings = key.public_key(), serialization.PublicFormat, serialization.Encoding
    secrets = {
        "pem": public.public_bytes(encodings.PEM, formats.SubjectPublicKeyInfo),
        "pem without its last line end": public.public_bytes(encodings.PEM, formats.SubjectPublicKeyInfo).strip(),
        "pkcs1": public.public_bytes(encodings.PEM, formats.PKCS1),
        "der": public.public_bytes(encodings.DER, formats.SubjectPublicKeyInfo),
        "empty": b"",
    }
    stranger = other_key()
    numbers = stranger.public_key().public_numbers()
    jwk = {"kty": "RSA", "n": encoded(numbers.n.to_bytes(256, "big")), "e": "AQAB", "kid": "key1", "alg": "RS256"}
    head, body, signature = good.split(".")
    admin = encoded(json.dumps(site.claims("ada", ["admins"])).encode())
    mine = signed(stranger, "key1", claims)
    return {
        "another user's claims": f"{head}.{admin}.{signature}",
        "no signature": f"{head}.{body}.",
        "two parts": f"{head}.{body}",
        "half a signature": f"{head}.{body}.{signature[:100]}",
        "another key": mine,
        "another key and key id": signed(stranger, "mine", claims),
        "no key id": signed(stranger, "", claims),
        "the second provider's key": signed(site.keys["2"], "key1", claims),
        "its own key in the header": forged({"alg": "RS256", "kid": "key1", "jwk": jwk}, claims, lambda text: decoded(mine.split(".")[2])),
        "a key's address in the header": forged({"alg": "RS256", "kid": "key1", "jku": "https://iam.site.test/x"}, claims, hmac_by(b"a")),
        **{f"alg {name}": forged({"alg": name, "kid": "key1"}, claims) for name in ("none", "None", "NONE", "")},
        "alg none with a signature": forged({"alg": "none", "kid": "key1"}, claims, hmac_by(b"a")),
        **{f"HS256 by {name}": forged({"alg": "HS256", "kid": "key1"}, claims, hmac_by(secret)) for name, secret in secrets.items()},
        "garbage": "garbage",
        "blanks": "a b c",
        "nothing": "",
    }


def bad_claims(site: Site) -> dict[str, str]:
    now = int(time.time())
    changes: dict[str, dict[str, Any]] = {
        "audience of another service": {"aud": "https://front.site.test"},
        "audience that begins alike": {"aud": f"{AUDIENCE}.example.org"},
        "audience with a slash": {"aud": f"{AUDIENCE}/"},
        "audiences of others": {"aud": ["a", "b"]},
        "no audience": {"aud": None},
        "empty audience": {"aud": ""},
        "another issuer": {"iss": "https://iam2.site.test:9443"},
        "an unknown issuer": {"iss": "https://evil.site.test"},
        "issuer with a slash": {"iss": f"{ISSUER}/"},
        "issuer by http": {"iss": "http://iam.site.test"},
        "no issuer": {"iss": None},
        "the cluster's own issuer": {
            "iss": "https://kubernetes.default.svc.cluster.local",
            "sub": "system:serviceaccount:kube-system:default",
        },
        "ended": {"exp": now - 60},
        "ended long ago": {"exp": 1},
        "no end": {"exp": None},
        "an end that is a word": {"exp": "never"},
        "not before tomorrow": {"nbf": now + 86400, "exp": now + 90000},
        "no name": {"preferred_username": None},
        "empty name": {"preferred_username": ""},
        "name that is a number": {"preferred_username": 0},
        "name that is a list": {"preferred_username": ["ben"]},
        "an empty group": {"groups": ["", "physics"]},
        "groups that are a dictionary": {"groups": {"admins": True}},
        "groups that are numbers": {"groups": [0]},
    }
    return {name: token(site, **change) for name, change in changes.items()}


@pytest.mark.parametrize("attacks", [bad_signatures, bad_claims], ids=lambda make: make.__name__)
def test_tokens_that_are_refused(site: Site, attacks: Any):
    """Each by 401. The good tokens beside them come from the same keys and claims."""
    tokens = attacks(site)
    good = {
        "good": token(site),
        "with two audiences": token(site, aud=["a", AUDIENCE]),
        "not before now": token(site, nbf=int(time.time())),
    }
    said = asked(site, {name: (one, PODS) for name, one in {**tokens, **good}.items()})
    assert {name: said.pop(name) for name in good} == dict.fromkeys(good, 200)
    assert said == dict.fromkeys(tokens, 401)


def test_names_that_give_no_right(site: Site):
    """They are names of the issuer, whatever Kubernetes calls so without the prefix."""
    names: dict[str, tuple[str, list[str]]] = {
        **{name: (name, []) for name in ("system:admin", "kubernetes-admin", "system:kube-controller-manager", "system:node:gpu1")},
        **{name: (name, []) for name in ("admin", "iam:ada", "ADA", "ada ", " ada", "ada\n", "ad\u0430")},
        **{group: ("eve", [group]) for group in ("system:masters", "kubeadm:cluster-admins", "system:nodes", "iam:admins")},
        **{group: ("eve", [group]) for group in ("Admins", "admins ", " admins", "admins,x", "/admins")},
        "no group": ("eve", []),
        "everybody": ("eve", ["system:authenticated", "authenticated"]),
    }
    said = asked(site, {key: (token(site, name, groups), NODES) for key, (name, groups) in names.items()})
    assert said == dict.fromkeys(names, 403)
    good = {"by name": ("ada", []), "by group": ("eve", ["admins"]), "one group as text": ("eve", "admins")}
    requests = {key: (token(site, name, groups), NODES) for key, (name, groups) in good.items()}  # type: ignore[arg-type]  # because a text is tried
    said = asked(site, requests)
    assert said == dict.fromkeys(good, 200)


def test_a_client_can_not_name_itself(site: Site):
    """Who may not take another one's name gets none.

    An administrator may, and is no one else without asking.
    """
    others = ("--as=iam:ada", "--as=eve --as-group=system:masters", "--as=system:admin")
    for words in others:
        assert "cannot impersonate" in site.as_user("ben").kubectl(f"get --raw {NODES} {words}", succeeds=False)
    assert "NodeList" in site.as_user("ada").kubectl(f"get --raw {NODES} --as=iam:ada")
    assert "cannot list" in site.as_user("ada").kubectl(f"get --raw {NODES} --as=iam:eve", succeeds=False)


def test_without_a_name_only_health_and_joining_are_open(site: Site):
    open_paths = ["/livez", "/readyz", "/healthz", "/api/v1/namespaces/kube-public/configmaps/cluster-info"]
    closed = [
        *("/", "/version", "/api", "/apis", "/metrics", "/openapi/v2", "/openapi/v3", "/logs", "/livez/ping", "/readyz/etcd", "/healthz/"),
        *("/api/v1/namespaces/kube-public/configmaps", "/api/v1/namespaces/kube-system/configmaps/cluster-info", PODS, NODES),
        *("/.well-known/openid-configuration", "/openid/v1/jwks", "/debug/pprof/"),
    ]
    said = asked(site, {path: (None, path) for path in open_paths + closed})
    assert {path: said[path] for path in open_paths} == dict.fromkeys(open_paths, 200)
    assert {path: said[path] for path in closed} == dict.fromkeys(closed, 401)


# Rights


@pytest.mark.parametrize(
    "name, groups, yes, no",
    [
        ("ada", [], ["'*' '*' --all-namespaces", "get secrets -n kube-system"], []),
        (
            "ben",
            [],
            ["list pods -n default", "get pods/log -n default"],
            ["create pods -n default", "list pods -n kube-system", "get secrets"],
        ),
        (
            "olga",
            ["operators"],
            ["list pods -n kube-system", "list nodes"],
            ["delete pods -n default", "get secrets -n default", "patch nodes"],
        ),
        ("meter", ["monitoring"], ["get /metrics"], ["list pods -n default", "get /logs"]),
        ("eve", ["physics"], ["create selfsubjectreviews.authentication.k8s.io"], ["list pods -n default", "get /metrics"]),
    ],
)
def test_rights(site: Site, name: str, groups: list[str], yes: list[str], no: list[str]):
    user = site.as_user(name, groups)
    assert {words: user.may(words) for words in yes + no} == {**dict.fromkeys(yes, True), **dict.fromkeys(no, False)}


def test_who_is_taken_out_loses_the_right_at_once(site: Site):
    """What another made stays; what another added to ours goes.

    A namespace that is not there keeps no other right back.
    """
    ben, eve, added, stranger = (site.as_user(name) for name in ("ben", "eve", "added", "stranger"))
    site.kubectl("create rolebinding strangers --clusterrole=view --user=iam:stranger -n default")
    patch = shlex.quote(json.dumps([{"op": "add", "path": "/subjects/-", "value": {"kind": "User", "name": "iam:added"}}]))
    site.kubectl(f"patch clusterrolebinding deephdc:cluster-admin --type=json --patch={patch}")
    assert added.may("list nodes") and ben.may("list pods -n default") and not eve.may("list pods -n default")
    bindings = [one for one in inventory(site, "bindings") if one["role"] != "pod-reader"]
    bindings += [{"role": "view", "users": ["iam:eve"], "namespaces": ["default", "nowhere"]}]
    try:
        said = run(site, succeeds=False, bindings=bindings)
        assert "names the namespace nowhere for view, which the cluster does not have" in said
        assert eve.may("list pods -n default") and stranger.may("list pods -n default")
        assert not ben.may("list pods -n default") and not added.may("list nodes")
        assert site.as_user("ada").may("list nodes")
    finally:
        said = run(site)
        site.kubectl("delete rolebinding strangers -n default")
    assert ben.may("list pods -n default") and not eve.may("list pods -n default")
