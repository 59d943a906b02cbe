# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Issuers of tokens that change, without a restart of the API server, and issuers that do not work."""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes_access import NODES, ONLY, PODS, PROGRAM, asked, inventory, issuer, run, token
from kubernetes_site import LOGIN, PLAYBOOK, VISITOR, Site, User, signed

OWNS = ("plugins/modules/kubernetes_authentication.py",)

FILES = "/etc/kubernetes/authn"
SECOND = {"iss": "https://iam2.site.test:9443"}


def api_server(site: Site) -> tuple[str, int]:
    status = site.get("pod --namespace=kube-system kube-apiserver-cp1")["status"]["containerStatuses"][0]
    return status["containerID"], status["restartCount"]


def of_second(site: Site, name: str, groups: list[str], **more: Any) -> User:
    return User(site, signed(site.keys["2"], "key1", site.claims(name, groups, **{**SECOND, **more})))


def second(site: Site, **change: Any) -> dict[str, Any]:
    return issuer(site, name="second", url=SECOND["iss"], allowed_groups=["physics"], **change)


@pytest.fixture(scope="module")
def both(site: Site) -> Iterator[None]:
    """A second issuer beside the first, without a restart. That users take the token of a file is another change of this run."""
    before = api_server(site)
    tokens = {
        "first": token(site),
        "second": of_second(site, "ben", ["physics"]).token,
        "no group": of_second(site, "ben", ["maths"]).token,
    }
    assert asked(site, {name: (one, PODS) for name, one in tokens.items()}) == {"first": 200, "second": 401, "no group": 401}
    bindings = [*inventory(site, "bindings"), {"role": "site-operator", "users": ["second:ben"]}]
    run(site, issuers=[*inventory(site, "issuers"), second(site)], bindings=bindings, user_token={"file": "token"})
    assert api_server(site) == before
    yield
    if SECOND["iss"] in site.out("cp1", f"cat {FILES}/config.yaml"):
        run(site)


def test_a_new_issuer_needs_no_restart(site: Site, both: None):
    """Its users are others than those of the first, with the same name and subject."""
    files = "mkdir mine && cp /etc/kubernetes/users.conf mine/config && umask 077 && cat > mine/token"
    mine = of_second(site, "ben", ["physics"]).token
    try:
        site.out(LOGIN, f"{files} <<<{mine} && KUBECONFIG=mine/config kubectl auth whoami | grep second:ben", VISITOR)
        assert site.run(LOGIN, f"test -e {PROGRAM}").returncode, "it is not the way to a token any more"
    finally:
        site.out(LOGIN, "rm -r mine", VISITOR)
    # With tokens that were not used before: the API server keeps its answers for some seconds.
    tokens = {"first": token(site, jti="1"), "second": of_second(site, "ben", ["physics"], jti="1").token}
    tokens["no group"] = of_second(site, "ben", ["maths"], jti="1").token
    tokens["first's key"] = token(site, "ben", ["physics"], **SECOND)
    tokens["second's key"] = signed(site.keys["2"], "key1", site.claims("ben", []))
    assert asked(site, {name: (one, PODS) for name, one in tokens.items()}) == {
        "first": 200,
        "second": 403,
        "no group": 401,
        "first's key": 401,
        "second's key": 401,
    }
    assert asked(site, {name: (one, NODES) for name, one in tokens.items()}) == {
        "first": 403,
        "second": 200,
        "no group": 401,
        "first's key": 401,
        "second's key": 401,
    }


def test_issuers_that_the_api_server_refuses_never_come_to_its_place(site: Site, both: None):
    """Those that it has go on, the second, too."""
    before = site.out("cp1", f"sha256sum {FILES}/*")
    said = run(site, succeeds=False, issuers=[issuer(site, claim_validation_rules=[{"expression": "claims.groups =="}])])
    assert (
        "claimValidationRules[0].expression" in said
        and "Syntax error" in said
        and "goes on with its former authentication configuration" in said
    )
    assert site.out("cp1", f"sha256sum {FILES}/*") == before
    tokens = {"first": token(site, jti="refused"), "second": of_second(site, "ben", ["physics"], jti="refused").token}
    assert asked(site, {name: (one, PODS) for name, one in tokens.items()}) == {"first": 200, "second": 403}


def test_an_issuer_that_does_not_answer_is_taken_back(site: Site, both: None):
    before = site.out("cp1", f"sha256sum {FILES}/*")
    said = run(site, succeeds=False, issuers=[issuer(site), issuer(site, name="dead", url="https://iam.site.test:1")])
    assert 'authenticator for issuer "https://iam.site.test:1" is not healthy' in said and "connection refused" in said
    assert site.out("cp1", f"sha256sum {FILES}/*") == before
    assert asked(site, {"first": (token(site, jti="dead"), PODS)}) == {"first": 200}


def killed_while_it_waits(site: Site, **variables: Any) -> None:
    """Kill a run, and its module on the host, after the new file is at its place and before the API server has taken it."""

    def kill(line: str, process: Any) -> None:
        if line.startswith("TASK [") and "Give the API server the issuers" in line:
            site.until("cp1", f"ls {FILES}", "config.yaml.former", 120)
            time.sleep(1)
            os.killpg(process.pid, signal.SIGKILL)
            # By its id in the host's container: the module that the killed run had started there.
            site.out("cp1", "pids=$(pgrep -fx /usr/bin/python3) && kill -9 $pids")

    given = {f"kubernetes_cluster_{name}": value for name, value in variables.items()}
    code, output = site.watched_playbook(PLAYBOOK, kill, *ONLY, variables=given)
    assert code == -signal.SIGKILL, output[-3000:]


def test_a_killed_run_leaves_what_the_api_server_starts_with_and_the_next_heals(site: Site, both: None):
    """What the killed run wanted is not what the next one wants, without a prefix: then no token has a name of Kubernetes."""
    killed_while_it_waits(site, issuers=[issuer(site), issuer(site, name="dead", url="https://iam.site.test:1")])
    assert "https://iam.site.test:1" in site.out("cp1", f"cat {FILES}/config.yaml")
    _container, restarts = api_server(site)
    site.out("cp1", "kill -9 $(pidof kube-apiserver)")
    path = shlex.quote("jsonpath={.status.containerStatuses[0].restartCount}")
    site.until(
        "cp1",
        f"kubectl --kubeconfig /etc/kubernetes/admin.conf get pod -n kube-system kube-apiserver-cp1 -o {path}",
        str(restarts + 1),
        120,
    )
    deadline = time.monotonic() + 60
    while asked(site, {"first": (token(site, jti=str(time.time())), PODS)}) != {"first": 200}:
        assert time.monotonic() < deadline, "the first issuer's users come in, whatever the other one does"
        time.sleep(1)
    nothing = {"claim": "preferred_username", "prefix": ""}
    bindings = [{"role": "pod-reader", "users": ["ben"], "namespaces": ["default"]}]
    run(site, issuers=[issuer(site, username=nothing, groups={"prefix": ""})], bindings=bindings)
    try:
        assert site.out("cp1", f"ls {FILES}") == "config.yaml"
        names = {name: (name, []) for name in ("system:admin", "system:serviceaccount:kube-system:default", "kubeadm:x", "")}
        groups = {group: ("ben", [group]) for group in ("system:masters", "kubeadm:cluster-admins", "system:nodes")}
        attacks = {key: (token(site, name, several, jti="bare"), PODS) for key, (name, several) in {**names, **groups}.items()}
        said = asked(site, {**attacks, "good": (token(site, "ben", ["physics"], jti="bare"), PODS)})
        assert said.pop("good") == 200 and said == dict.fromkeys(attacks, 401)
    finally:
        run(site)
    tokens = {"first": token(site, jti="last"), "second": of_second(site, "ben", ["physics"], jti="last").token}
    assert asked(site, {name: (one, PODS) for name, one in tokens.items()}) == {"first": 200, "second": 401}
    site.out(LOGIN, f"test -x {PROGRAM}")
