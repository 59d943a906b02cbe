# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Members of ZooKeeper and of the masters that run, and those of the inventory."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos.ensemble import ensemble_errors

THREE = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]


def judge(present, planned, kind="masters", members=1):
    """Of the hosts that are meant, so many know the present members."""
    results = [{"item": "m1", "stdout_lines": []}, {"item": "m2", "unreachable": True}]
    results += [{"item": f"m{number + 3}", "stdout_lines": [f"{kind} {' '.join(present)}"] if present else []} for number in range(members)]
    return ensemble_errors(results, {"zookeeper": THREE, "masters": THREE, kind: planned})


@pytest.mark.parametrize("kind", ["masters", "zookeeper"])
@pytest.mark.parametrize(
    ("present", "planned", "members"),
    [
        ([], THREE, 0),
        (THREE, THREE[::-1], 3),
        (THREE, [*THREE[:2], "10.0.0.9"], 2),
        (["10.0.0.1"], ["10.0.0.1"], 1),
        (["10.0.0.1"], ["192.0.2.1"], 1),
        (THREE, ["192.0.2.1", "192.0.2.2", "192.0.2.3"], 3),
    ],
)
def test_members_that_may_be(kind, present, planned, members):
    """As they are, with one other machine, or with other addresses."""
    assert judge(present, planned, kind, members) == []


@pytest.mark.parametrize("kind", ["masters", "zookeeper"])
@pytest.mark.parametrize(
    ("present", "planned"),
    [
        (THREE, ["10.0.0.1"]),
        (["10.0.0.1"], THREE),
        (THREE, [*THREE, "10.0.0.4", "10.0.0.5"]),
        (THREE, ["10.0.0.1", "10.0.0.8", "10.0.0.9"]),
        (THREE, []),
    ],
)
def test_members_that_would_be_two_clusters(kind, present, planned):
    (said,) = judge(present, planned, kind)
    assert said.startswith(
        f"On m3, {'the masters run' if kind == 'masters' else 'ZooKeeper runs'} with {', '.join(present)}, and the inventory means "
    )
    assert "Put the former hosts back" in said


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ({"failed": True, "stderr": "the login is not root"}, "the login is not root"),
        ({"failed": True, "msg": "No python"}, "No python"),
        ({"stdout_lines": ["zookeeper", "masters 10.0.0.1"]}, "it is empty"),
    ],
)
def test_a_host_that_can_not_be_read_is_no_host_without_members(result, why):
    (said,) = ensemble_errors([{"item": "m4", **result}], {"zookeeper": THREE, "masters": THREE})
    assert said.startswith(f"m4 does not say which members ZooKeeper and the masters have ({why}): log in as root")
    assert ensemble_errors([{"item": "m4", "failed": True, "unreachable": True}], {"zookeeper": THREE, "masters": THREE}) == []


def test_something_else():
    with pytest.raises(ValueError, match="A line of the members"):
        judge(["1"], THREE, "others")
