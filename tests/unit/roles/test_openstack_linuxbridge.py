# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The program that stands for ebtables before Neutron's agent, with an ebtables that only writes down how it is called."""

from __future__ import annotations

import subprocess
import typing as t
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[3] / "roles/openstack_linuxbridge/files/ebtables_without_among"
LISTED = """Bridge table: nat

Bridge chain: PREROUTING, entries: 1, policy: ACCEPT
-s fa:16:3e:00:00:09 -i tap1 -j neutronMAC-tap1

Bridge chain: neutronMAC-tap1, entries: 2, policy: RETURN
-s fa:16:3e:00:00:01 -i tap1 -j RETURN
-j DROP
"""
CHANGED = ("-i", "tap1", "--among-src", "fa:16:3e:0:0:1,fa:16:3e:0:0:2,", "-j", "RETURN")
BEGIN = ("-t", "nat", "--concurrent")


@pytest.fixture
def ebtables(tmp_path: Path) -> t.Callable[..., tuple[int, list[str], str]]:
    """ebtables(*words) calls the program; returns its code, the calls of the real one, and what was printed."""
    real, calls, listed = tmp_path / "real", tmp_path / "calls", tmp_path / "listed"
    listed.write_text(LISTED)
    program = tmp_path / "program"
    program.write_text(PROGRAM.read_text().replace("ebtables=/usr/sbin/ebtables-nft", f"ebtables={real}"))
    program.chmod(0o755)

    def call(*words: str, fails: str = "nothing") -> tuple[int, list[str], str]:
        real.write_text(
            f'#!/bin/bash\necho "$*" >> {calls}\n[[ "$*" == *"{fails}"* ]] && {{ echo no such rule >&2; exit 4; }}\n'
            f'[[ "$*" == *-L* ]] && cat {listed}\nexit 0\n'
        )
        real.chmod(0o755)
        calls.write_text("")
        done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
        return done.returncode, calls.read_text().splitlines(), done.stdout + done.stderr

    return call


def test_a_rule_for_each_address(ebtables) -> None:
    code, calls, _printed = ebtables(*BEGIN, "-I", "neutronMAC-tap1", *CHANGED)
    assert code == 0
    assert calls == [f"-t nat --concurrent -I neutronMAC-tap1 -i tap1 -s fa:16:3e:0:0:{number} -j RETURN" for number in (1, 2)]


def test_a_rule_that_is_listed_can_be_deleted(ebtables) -> None:
    _code, _calls, printed = ebtables(*BEGIN, "-L")
    assert printed == LISTED.replace("-s fa:16:3e:00:00:01", "--among-src fa:16:3e:00:00:01")
    rule = printed.splitlines()[-2]
    _code, calls, _printed = ebtables(*BEGIN, "-D", "neutronMAC-tap1", *rule.split())
    assert calls == ["-t nat --concurrent -D neutronMAC-tap1 -s fa:16:3e:00:00:01 -i tap1 -j RETURN"]


def test_a_former_rule_goes_with_its_chain_which_stays_closed(ebtables) -> None:
    code, calls, printed = ebtables(*BEGIN, "-D", "neutronMAC-tap1", *CHANGED, fails="-D")
    assert (code, printed) == (0, "")
    assert calls[1:] == ["-t nat --concurrent -F neutronMAC-tap1", "-t nat --concurrent -A neutronMAC-tap1 -j DROP"]


def test_another_failure_is_passed_on(ebtables) -> None:
    code, calls, printed = ebtables(*BEGIN, "-I", "neutronMAC-tap1", *CHANGED, fails="-I")
    assert (code, len(calls), printed) == (4, 1, "no such rule\n")
    assert ebtables(*BEGIN, "-L", fails="-L")[0] == 4


@pytest.mark.parametrize(
    "words",
    [
        ("-t", "nat", "-A", "site", "--among-src", "fa:16:3e:0:0:1", "-j", "ACCEPT"),
        ("-t", "filter", "-F"),
        ("-t", "nat", "-N", "neutronMAC-tap1", "-P", "DROP"),
    ],
)
def test_what_is_not_the_agents_rule_passes_as_it_is(ebtables, words: tuple[str, ...]) -> None:
    assert ebtables(*words)[1] == [" ".join(words)]
