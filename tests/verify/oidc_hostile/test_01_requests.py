"""Requests that are one thing to the front and another to what is behind it, and tokens, names and pages that only look good."""

from __future__ import annotations

import pytest
from local import Cluster

OWNS = (
    "molecule/oidc_hostile",
    "tests/attacks/hostile",
    "tests/stand_ins/oidc/lying_provider.py",
    "tests/verify/oidc_hostile/conftest.py",
)

ERRORS = "/var/log/apache2/*error*.log"


KINDS = ["paths", "names", "lies", "origins", "bound", "users", "redirects", "answers", "pages", "bodies"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_front_refuses(kind: str, refuses):
    refuses(kind)


def test_keys_of_the_provider(refuses):
    refuses("jwks", program="jwks.py")


def test_versions_and_ciphers_that_are_refused(refuses):
    refuses("ciphers", program="ciphers.py")


def test_the_life_of_websockets(refuses):
    """A known weakness: an open one outlives the session and the token that it came with."""
    refuses("sockets", program="sockets.py")


@pytest.mark.parametrize(("kind", "least"), [("paths", 20), ("names", 100), ("bound", 40), ("users", 100), ("bodies", 20)])
def test_a_naive_front_does_not(kind: str, least: int, attempt):
    """Attacks that work nowhere would prove nothing."""
    assert len(attempt(kind, "naive")["let_in"]) >= least


def test_ciphers_at_a_naive_front(attempt):
    assert len(attempt("ciphers", "naive", "ciphers.py")["let_in"]) >= 10


def test_no_attack_ended_a_process_of_apache(cluster: Cluster):
    assert cluster.run("front", f"grep -hE 'exit signal|Segmentation|AH00051|AH00052' {ERRORS}").stdout == ""
