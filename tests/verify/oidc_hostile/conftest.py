"""Attacks by class, with their counts, which are said again at the end of the scenario."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import attack_counts
import pytest
from local import ROOT, Cluster
from oidc_site import PYTHON

# pytest calls it by this name.
pytest_terminal_summary = attack_counts.pytest_terminal_summary

Try = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session", autouse=True)
def attacks(cluster: Cluster):
    """As they are here, which need not be what the host got when it was made."""
    subprocess.run(["docker", "cp", "-q", str(ROOT / "tests/attacks"), f"{cluster.label}-idp:/opt/test/"], check=True)


@pytest.fixture
def attempt(cluster: Cluster, record_property: Callable[[str, str], None]) -> Try:
    """Runs a program of tests/attacks/hostile, which prints what came of it as JSON."""

    def attempt(kind: str, front: str = "front", program: str = "hostile.py") -> dict[str, Any]:
        output = cluster.out("idp", f"cd /opt/test/attacks/hostile; {PYTHON} {program} {front} {kind}", timeout=400)
        found = json.loads(output.splitlines()[-1])
        known = f", {found['known']} known" if found.get("known") else ""
        text = f"{front}: {kind}: {found['attacks']} attacks, {len(found['let_in'])} let in{known}; {found['must_pass']} must pass"
        record_property("attacks", f"{text}, {len(found['turned_away'])} turned away")
        return found

    return attempt


@pytest.fixture
def refuses(attempt: Try) -> Callable[..., None]:
    """The front lets in none of a class, and serves what must pass."""

    def refuses(kind: str, program: str = "hostile.py", least: int = 20) -> None:
        found = attempt(kind, program=program)
        assert found["let_in"] == []
        assert found["turned_away"] == []
        assert found["attacks"] >= least
        assert found["must_pass"] >= 1

    return refuses
