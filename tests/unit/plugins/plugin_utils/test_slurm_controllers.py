# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the controllers report before a host is changed: which answer, whose record counts, whether the state is safe."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import jobs as slurm_jobs
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import controllers as slurm_controllers

OLD, NEW = "/var/lib/slurm/slurmctld", "/srv/slurm/state"


def controller(name, recorded_at=0.0, jobs="", cluster="physics", **state):
    """A controller that runs with its state in NEW, as slurm_record_info returns it in a loop."""
    right = {
        "runs": True,
        "has_state": True,
        "copied_from": "",
        "foreign": "",
        "free_mib": 1000,
        "former": NEW,
        "former_is": "1 1",
        "is": "1 1" if state.get("has_state", True) else "",
        "former_mib": 0,
        "started_with": NEW,
    }
    known = None if jobs is None else slurm_jobs.summary(jobs)
    answer = {"item": name, "record": f"of {name}", "recorded_at": recorded_at, "jobs": known, "cluster": cluster, "partitions": ["all"]}
    answer["ports"] = {"SlurmctldPort": "6817", "SlurmdPort": "6818"}
    answer["databases"] = [f"192.0.2.{name[-1]}"]
    return {**answer, "state": {**right, **state}}


def test_a_controller_that_can_not_be_read_is_not_one_that_is_away():
    unread = {"item": "c2", "failed": True, "unreadable": "/var/lib/slurm/slurmctld/clustername", "msg": "It can't be read."}
    for results in ([unread], [controller("c1"), unread]):
        assert slurm_controllers.told(results, NEW, 10)["errors"] == ["c2: It can't be read."]


def test_the_ports_are_those_of_a_controller_that_reaches_slurmctld():
    stale = {**controller("c1", jobs=None), "ports": {"SlurmctldPort": "6817"}}
    right = {**controller("c2"), "ports": {"SlurmctldPort": "6999"}}
    assert slurm_controllers.told([stale, right], NEW, 10)["ports"] == {"SlurmctldPort": "6999"}
    assert slurm_controllers.told([stale], NEW, 10)["ports"] == {"SlurmctldPort": "6817"}


def moving(name, **state):
    """A controller that runs with its state in OLD."""
    before = {"has_state": False, "former": OLD, "former_mib": 30, "started_with": OLD}
    return controller(name, **{**before, **state})


FRESH = {"has_state": False, "former": "", "former_is": "", "started_with": "", "runs": False}
SILENT = {"item": "c2", "unreachable": True, "msg": "no route"}


def told(*results):
    return slurm_controllers.told(results, NEW, 256)


def only(results):
    (sentence,) = results["errors"]
    assert sentence.endswith(".") and "\n" not in sentence
    assert results["move"] == {}
    return sentence


def test_newest_record_counts_and_the_jobs_of_one_that_knows_them():
    found = told(controller("c1", 5.0, None), controller("c2", 7.5, "7|ada|all|gpu1"))
    assert found == {
        "answering": ["c1", "c2"],
        "configured": ["c1", "c2"],
        "record": "of c2",
        "partitions": ["all"],
        "shapes": {},
        "ports": {"SlurmctldPort": "6817", "SlurmdPort": "6818"},
        "databases": ["192.0.2.2"],
        "jobs": {"partitions": {"all": {"count": 1, "some": ["7 of ada"]}}, "nodes": {"gpu1": {"count": 1, "some": ["7 of ada"]}}},
        "errors": [],
        "lost": [],
        "forgotten": [],
        "move": {},
    }
    assert told(controller("c1", 5.0, None))["jobs"] is None


def test_a_cluster_is_not_renamed():
    """Tried, it cost a restart of slurmctld, and left a second cluster in slurmdbd that no purge took away."""
    (sentence,) = slurm_controllers.told([controller("c1")], NEW, 256, "chemistry")["errors"]
    assert sentence.startswith(
        "slurm_cluster_name is chemistry, but c1 runs the cluster physics, and a cluster can't be renamed: set it back"
    )
    assert slurm_controllers.told([controller("c1")], NEW, 256, "physics")["errors"] == []


def test_a_controller_without_the_state_of_a_cluster_that_ran_jobs_is_refused():
    """slurm_controllers named another host: the running job was cancelled, and ids began at 1 again."""
    fresh = controller("c2", **FRESH)
    accounted = [{"clusters": {"physics": {"jobs": 12, "control_host": "10.0.0.1"}}, "known": True}]
    (sentence,) = slurm_controllers.told([fresh], NEW, 256, "physics", accounted)["lost"]
    assert sentence.startswith(
        "The cluster physics has run 12 jobs, its slurmctld was last at 10.0.0.1, but c2 in slurm_controllers has no state of it, "
    )
    assert "slurm_move_controller" in sentence and "slurm_restore" in sentence
    for known in ({}, {"clusters": {}}, {"clusters": {"physics": {"jobs": 0}}}, {"clusters": {"other": {"jobs": 3}}}):
        assert slurm_controllers.told([fresh], NEW, 256, "physics", [{"known": True, **known}])["lost"] == []
    (sentence,) = slurm_controllers.told([controller("c1"), fresh], NEW, 256, "physics", accounted)["lost"]
    assert sentence.startswith(f"c2: {NEW} (slurm_controller_state_directory) has no state of slurmctld, and that of c1 has one,"), (
        "c1 has it"
    )
    assert slurm_controllers.told([fresh], NEW, 256, "physics", accounted, ["physics"])["lost"] == [], "confirmed by its name"


def test_a_state_of_a_cluster_that_the_accounting_lacks_is_refused():
    """The host of slurmdbd was installed again: the run was green, and slurmctld's next start ended with CLUSTER ID MISMATCH."""
    empty, other = {"clusters": {}, "known": True}, {"clusters": {"other": {"jobs": 3}}, "known": True}
    knows, silent = {"clusters": {"physics": {"jobs": 0}}, "known": True}, {"msg": "no answer", "failed": True}
    for answers in ([empty], [other], [empty, other]):
        (sentence,) = slurm_controllers.told([controller("c1")], NEW, 256, "physics", answers)["forgotten"]
        assert sentence.startswith("c1 has the state of the cluster physics, but the accounting database does not know this cluster")
        assert "slurm_restore" in sentence
    for answers in ([], [knows], [empty, knows], [empty, silent], [{"clusters": {}, "known": False}]):
        assert slurm_controllers.told([controller("c1")], NEW, 256, "physics", answers)["forgotten"] == [], (
            "it knows it, or nothing is known"
        )
    assert slurm_controllers.told([controller("c1", **FRESH)], NEW, 256, "physics", [empty])["forgotten"] == [], "a new cluster"
    assert slurm_controllers.told([controller("c1")], NEW, 256, "physics", [empty], ["physics"])["forgotten"] == [], "confirmed by its name"


def test_controllers_that_do_not_share_the_state_are_refused():
    """A third one without the mount would begin with job 1 when it takes over."""
    states = [controller("c1"), controller("c2"), controller("c3", **{"is": "7 7", "started_with": "", "former": ""})]
    for found in (told(*states), told(*reversed(states))):
        (sentence,) = found["lost"]
        assert sentence.startswith("c3: ") and "mount the shared file system of c" in sentence
    assert told(controller("c1"), controller("c2"))["lost"] == []


def test_a_controller_whose_state_moved_away_is_refused():
    """Its state is whole, but of months ago: every job that began since would end."""
    (sentence,) = told(controller("c1", moved_to="c2"))["lost"]
    assert sentence.startswith("c1 is in slurm_controllers, but its state moved to c2, ") and "put c2 back" in sentence


def test_one_that_is_down_is_left():
    found = told(SILENT, controller("c1"))
    assert (found["answering"], found["errors"]) == (["c1"], [])
    assert only(told(SILENT)) == "No host of slurm_controllers answers (c2): bring one up, then run again."


def test_first_installation():
    found = told(controller("c1", **FRESH), controller("c2", **FRESH))
    assert (found["errors"], found["move"], found["configured"]) == ([], {}, [])


def test_state_that_is_gone_is_not_begun_anew():
    (sentence,) = told(controller("c1"), controller("c2", has_state=False))["lost"]
    assert sentence.startswith(
        f"c2: {NEW} has no state of slurmctld although slurmctld ran with it, and without it slurmctld would end every job: "
    )


def test_full_or_foreign_directory():
    assert only(told(controller("c1", free_mib=3))) == (
        f"c1: the file system of {NEW} has 3 MiB free, but slurmctld needs 256 MiB to save its state: "
        "free space there, or set slurm_controller_state_free_mib lower; nothing was changed."
    )
    assert f"c1: {NEW} (slurm_controller_state_directory) is not empty and belongs to ada" in only(told(controller("c1", foreign="ada")))


def test_state_is_moved_with_all_stopped_the_backup_first():
    found = told(moving("c1"), moving("c2"))
    assert found["move"] == {"host": "c1", "from": OLD, "stop": ["c2", "c1"]}
    # A second controller joins a cluster of one, whose state is on the first one's own disk.
    assert told(moving("c1"), controller("c2", **FRESH))["move"] == {"host": "c1", "from": OLD, "stop": ["c1"]}
    # The new one is the primary.
    assert told(controller("c2", **FRESH), moving("c1"))["move"]["host"] == "c1"
    # A run that was killed while it copied.
    assert told(moving("c1", has_state=True, copied_from=OLD))["move"]["from"] == OLD
    # One that was killed after it had stopped slurmctld.
    assert told(moving("c1", runs=False))["move"]["stop"] == []


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ([moving("c1"), SILENT], "but c2 may run slurmctld and does not answer"),
        ([moving("c1"), moving("c2", former_is="2 2")], "but c1 and c2 each have a state of their own"),
        ([moving("c1", has_state=True)], f"but on c1 {NEW} has a state already, and slurmctld runs with the other"),
        ([moving("c1", free_mib=270)], "has 270 MiB free, but slurmctld needs 286 MiB"),
    ],
)
def test_state_that_can_not_be_moved(results, words):
    assert words in only(told(*results))
