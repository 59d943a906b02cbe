"""The attacks of tests/attacks: the front that the role made lets none in.

The naive one lets in exactly those that are known to work.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable

import pytest
from local import ROOT, Cluster
from oidc_site import PYTHON

OWNS = (
    "plugins/plugin_utils/_oidc/headers.py",
    "molecule/oidc_proxy/templates",
    "tests/attacks",
    "tests/stand_ins/oidc/recorder.py",
    "tests/verify/attack_counts.py",
    "tests/verify/oidc_proxy/conftest.py",
)

ERRORS = "/var/log/apache2/*error*.log"
Run = Callable[[str, str], str]


@pytest.fixture(scope="module", autouse=True)
def attacks(cluster: Cluster):
    """As they are here, which need not be what the host got when it was made."""
    subprocess.run(["docker", "cp", "-q", str(ROOT / "tests/attacks"), f"{cluster.label}-idp:/opt/test/"], check=True)


@pytest.fixture
def run(cluster: Cluster, record_property: Callable[[str, str], None]) -> Run:
    """Runs attacks; their count is repeated at the end of all tests (conftest.py)."""

    def run(program: str, front: str) -> str:
        output = cluster.out("idp", f"cd /opt/test/attacks; {PYTHON} {program} {front}", timeout=400)
        record_property("attacks", f"{front}: {output.splitlines()[-1]}")
        return output

    return run


def crashes(cluster: Cluster, host: str) -> list[str]:
    seen = cluster.run(host, f"grep -hE 'exit signal|Segmentation|AH00051|AH00052' {ERRORS}").stdout
    return seen.splitlines()


def test_no_attack_gets_into_the_front(cluster: Cluster, run: Run):
    before = cluster.out("front", "systemctl show -p MainPID --value apache2")
    output = run("run.py", "front")
    tried, found = map(int, re.fullmatch(r"(\d+) attacks, (\d+) let in", output.splitlines()[-1]).groups())
    assert tried >= 250
    assert found == 0, output
    assert cluster.out("front", "systemctl show -p MainPID --value apache2") == before
    assert crashes(cluster, "front") == []


def test_the_same_attacks_get_into_a_naive_front(cluster: Cluster, run: Run):
    """Neither more nor fewer than the data say: an attack that works nowhere proves nothing."""
    run("run.py --json /tmp/naive.json", "naive")
    found = json.loads(cluster.out("idp", "cat /tmp/naive.json"))["found"]
    listing = "import json, run; print(json.dumps([a.id + ' ' + a.door for a in run.attacks(['api', 'both', 'web']) if a.door in a.naive]))"
    expected = json.loads(cluster.out("idp", f'{PYTHON} -c "{listing}"'))
    assert len(expected) >= 100
    # Every good request takes the user's token, or the session's cookie, to the application.
    expected += ["good api", "good both", "good web"]
    assert sorted(f"{one['id']} {one['door']}" for one in found) == sorted(expected)


def test_generated_attacks_do_not_get_into_the_front(run: Run):
    output = run("generated.py", "front")
    assert output.splitlines()[-1].endswith(" 0 properties broken"), output


def test_generated_attacks_get_into_a_naive_front(run: Run):
    output = run("generated.py", "naive")
    broken = re.findall(r"broken: (\w+)", output)
    assert {"no_token_with_a_wrong_claim", "no_token_of_another_time", "no_header_of_the_clients_making"} <= set(broken), output
