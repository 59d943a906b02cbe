# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""SchedMD's compatibility window, as its upgrade guide has it in a table."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import releases


@pytest.mark.parametrize(
    ("version", "release"), [("24.11.5-4+deb13u1", "24.11"), ("22.05.8-4", "22.05"), ("1:26.05.5-1", "26.05"), ("", ""), ("nonsense", "")]
)
def test_release_of_a_version(version, release):
    assert releases.release_of(version) == release


@pytest.mark.parametrize(
    ("new", "olds"),
    [
        ("23.02", ["22.05", "21.08"]),
        ("23.11", ["23.02", "22.05"]),
        ("24.05", ["23.11", "23.02"]),
        ("24.11", ["24.05", "23.11", "23.02"]),
        ("25.05", ["24.11", "24.05", "23.11"]),
        ("25.11", ["25.05", "24.11", "24.05"]),
    ],
)
def test_the_window_is_the_one_of_the_guide(new, olds):
    older = [release for release in reversed(releases.major_releases(new)) if release != new]
    assert [release for release in older if releases.takes_over(new, release)] == olds


@pytest.mark.parametrize(
    ("old", "new", "steps"),
    [
        ("24.11", "26.05", ["26.05"]),
        ("22.05", "24.11", ["23.11", "24.11"]),
        ("20.11", "26.05", ["22.05", "23.11", "25.05", "26.05"]),
        ("26.05", "24.11", []),
    ],
)
def test_the_way_has_the_fewest_steps(old, new, steps):
    assert releases.way(old, new) == steps


def test_a_step_outside_of_the_window_is_refused_with_the_way_round():
    assert releases.step_error("24.11", "26.05", "ctl") == ""
    sentence = releases.step_error("22.05", "24.11", "ctl")
    assert sentence.startswith("ctl: SLURM 22.05 is installed, whose state and database 24.11 does not take over")
    assert "Upgrade the whole cluster to SLURM 23.11 and then to 24.11" in sentence
    assert "can't go back" in releases.step_error("26.05", "24.11", "ctl")


def test_hosts_that_an_upgrade_left_behind_are_told_and_newer_ones_refused():
    have = {"ctl": "24.11", "gpu1": "24.05", "gpu2": "22.05", "gpu3": "26.05", "gpu4": ""}
    assert [text.split(":")[0] for text in releases.installed_errors(have, "ctl")] == [
        "gpu2 has SLURM 22.05, too old for 24.11 of the controller ctl",
        "gpu3 has SLURM 26.05, newer than 24.11 of the controller ctl",
    ]
    (found,) = releases.installed_warnings(have, "ctl")
    assert str(found) == "gpu1 still has SLURM 24.05, the controller ctl has 24.11: run the playbook slurm_upgrade."
    assert found.host == "gpu1"


def having(release, patch="5-1", **changes):
    installed = {"slurm-client": f"{release}.{patch}"} if release else {}
    return {"release": release, "installed": installed, "broken": False, "stale": [], **changes}


def test_an_upgrade_takes_what_differs_or_was_left_half_done():
    members = {
        "ctl": having("26.05"),
        "gpu1": having("24.11"),
        "gpu2": having("26.05", stale=["slurmd"]),
        "gpu3": having("26.05", broken=True),
        "gpu4": {},
        "gpu5": having(""),
        "gpu6": having("26.05", "4-1"),
    }
    plan = releases.upgrade_plan(members, ["ctl"], "26.05.5-1")
    assert (plan["errors"], plan["to_do"]) == ([], ["gpu1", "gpu2", "gpu3", "gpu6"])
    assert plan["left"] == ["gpu4 did not answer: run slurm_upgrade again when it does"]


def test_an_upgrade_that_would_lose_state_does_nothing():
    members = {"ctl": having("22.05"), "gpu1": having("22.05")}
    plan = releases.upgrade_plan(members, ["ctl"], "24.11.5-1")
    assert plan["to_do"] == []
    assert len(plan["errors"]) == 1 and "ctl and gpu1: SLURM 22.05 is installed" in plan["errors"][0]
    assert "bring it up first" in releases.upgrade_plan({"ctl": {}}, ["ctl"], "24.11.5-1")["errors"][0]
    assert "apt has no SLURM" in releases.upgrade_plan({"ctl": having("24.11")}, ["ctl"], "")["errors"][0]
