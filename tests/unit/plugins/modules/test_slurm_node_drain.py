# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module slurm_node_drain against commands that note what they are asked for."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import slurm_node_drain
from ansible_collections.deephdc.accelerators.tests.unit.plugins.modules.test_slurm_node_health import line


@pytest.fixture
def state(run, fake):
    """state(lines, jobs=..., option=...) runs the module.

    Its result has the updates asked for in the key updates.
    """

    def run_module(*told, jobs="", **options):
        text = "\n".join(told)
        fake("scontrol", f"if [ $1 = --oneliner ]; then cat <<'END'\n{text}\nEND\nfi\nexit 0")
        fake("squeue", f"cat <<'END'\n{jobs}\nEND")
        before = len(fake.calls())
        result = run(slurm_node_drain, **{"nodes": ["gpu1", "gpu2"], **options})
        return {**result, "updates": [call for call in fake.calls()[before:] if "update" in call]}

    return run_module


def test_drains_and_keeps_the_reason_of_somebody_else(state):
    result = state(line("gpu1"), line("gpu2", "IDLE+DRAIN", "fan is loud"), line("gpu3"), state="drained", reason="new board")
    assert result["updates"] == ["scontrol update NodeName=gpu1 State=DRAIN Reason=new board"]
    assert (result["changed"], result["changed_nodes"]) == (True, ["gpu1"])
    assert result["kept"] == ["gpu2 was drained already and keeps its reason: fan is loud"]


HOLD, INTAKE = "gpu_hold: nvidia_driver", "slurm: a run of the playbook slurm takes the node out of the configuration"


@pytest.mark.parametrize(
    ("node", "mark", "reason"),
    [
        (("IDLE+DRAIN", HOLD), "new board", f"new board + {HOLD}"),
        (("IDLE+DRAIN", "fan is loud"), HOLD, f"fan is loud + {HOLD}"),
        (("IDLE+DRAIN", "accelerators: a100 is missing"), "new board", "new board + accelerators: a100 is missing"),
        (("IDLE+DRAIN", "gres/gpu count reported lower"), HOLD, f"{HOLD} + gres/gpu count reported lower"),
        (("IDLE+DRAIN", "accelerators: a100 is missing"), HOLD, f"{HOLD} + accelerators: a100 is missing"),
        (("IDLE+DRAIN", f"fan + {HOLD} : Not responding"), "gpu_hold: gpu_check", None),
        (("IDLE+DRAIN", f"fan + {HOLD}"), "new board", None),
        (("DOWN", "fan is loud"), HOLD, f"fan is loud + {HOLD}"),
        (("DOWN*", "Not responding"), HOLD, HOLD),
        (("IDLE", "an old one"), "new board", "new board"),
        (("IDLE+DRAIN", INTAKE), "new board", f"new board + {INTAKE}"),
        (("IDLE+DRAIN", INTAKE), HOLD, f"{HOLD} + {INTAKE}"),
    ],
)
def test_each_mark_is_kept(state, node, mark, reason):
    updates = state(line("gpu1", *node), nodes=["gpu1"], state="drained", reason=mark)["updates"]
    assert updates == ([f"scontrol update NodeName=gpu1 State=DRAIN Reason={reason}"] if reason else [])


@pytest.mark.parametrize(
    ("reason", "mark", "change"),
    [
        (f"new board + {HOLD}", None, f"Reason={HOLD}"),
        (f"new board + {HOLD}", "new board", f"Reason={HOLD}"),
        (f"new board + {HOLD} : Not responding", HOLD, "Reason=new board"),
        (HOLD, None, None),
        (HOLD, HOLD, "State=RESUME"),
        (f"new board + {HOLD}", "other", None),
        ("a + b", None, "State=RESUME"),
        (f"{HOLD} + accelerators: a100 is missing", HOLD, "Reason=accelerators: a100 is missing"),
        ("new board + accelerators: a100 is missing", None, "Reason=accelerators: a100 is missing"),
        (f"fan + {HOLD}", f"fan + {HOLD}", "State=RESUME"),
        (f"{INTAKE} + {HOLD}", None, f"Reason={HOLD}"),
        (f"{INTAKE} + {HOLD}", INTAKE, f"Reason={HOLD}"),
        (f"{HOLD} + gres/gpu count reported lower", HOLD, "Reason=gres/gpu count reported lower"),
    ],
)
def test_each_gives_back_its_own_mark(state, reason, mark, change):
    result = state(line("gpu1", "IDLE+DRAIN", reason), nodes=["gpu1"], state="resumed", reason=mark)
    assert result["updates"] == ([f"scontrol update NodeName=gpu1 {change}"] if change else [])
    assert len(result["kept"]) == (change != "State=RESUME") and result["left"] == []


def test_lost_hardware_that_was_looked_at_and_is_back_gives_the_node_back(state):
    node = line("gpu1", "IDLE+DRAIN", "new board + accelerators: a100 is missing")
    assert state(node, nodes=["gpu1"], state="resumed", unfit={})["updates"] == ["scontrol update NodeName=gpu1 State=RESUME"]
    # As slurm_upgrade gives nodes back: it looks at no hardware.
    assert state(node, nodes=["gpu1"], state="resumed", reason="new board")["updates"] == [
        "scontrol update NodeName=gpu1 Reason=accelerators: a100 is missing"
    ]


def test_who_adds_a_reason_reads_it_and_who_does_not_reads_that(state):
    said = [
        state(line("gpu1", *node), nodes=["gpu1"], state="drained", reason="new fan")["kept"]
        for node in (("IDLE+DRAIN", HOLD), ("IDLE+DRAIN", "board"), ("DOWN", "board"), ("IDLE", "board"))
    ]
    assert said == [
        [f"gpu1 was drained already ({HOLD}) and has this reason, too"],
        ["gpu1 was drained already and keeps its reason: board"],
        ["gpu1 was down already and keeps its reason: board"],
        [],
    ]


def test_jobs_are_told_after_the_wait_and_not_ended(state, fake):
    jobs = "17|ada|gpu1|2026-11-21T17:06:17"
    result = state(line("gpu1"), line("gpu2"), jobs=jobs, state="drained", reason="new board", wait=2)
    assert result["told"] == ["job 17 of ada on gpu1 until 2026-11-21T17:06:17 at the latest"]
    assert "failed" not in result
    asked = [call.split()[0] for call in fake.calls()]
    assert set(asked) == {"scontrol", "squeue"} and asked.count("squeue") > 1


def test_thousands_of_nodes_are_no_argument_of_a_command(state, fake):
    """7,000 long names were one argument of 128 KiB, which the kernel refuses. Here are few and longer ones: each is drained by itself."""
    names = [f"{n:02}-{'long-' * 800}name" for n in range(40)]
    result = state(*map(line, names), jobs=f"17|ada|{names[5]}|N/A\n18|ada|other|N/A", nodes=names, state="drained", reason="x", wait=0)
    assert [sentence.split()[1] for sentence in result["told"]] == ["17"]
    assert max(len(word) for call in fake.calls() if "squeue" in call for word in call.split()) < 100_000


def test_check_mode_neither_drains_nor_waits(state):
    jobs = "17|ada|gpu1|2026-11-21T17:06:17"
    result = state(line("gpu1"), line("gpu2"), jobs=jobs, state="drained", reason="x", wait=60, _ansible_check_mode=True)
    assert (result["changed"], result["updates"], len(result["told"])) == (True, [], 1)


def test_resumes_what_can_be_resumed_and_names_the_rest(state):
    told = [line("gpu1", "IDLE+DRAIN", "fan is loud"), line("gpu2", "DOWN*+DRAIN", "Not responding")]
    result = state(*told, state="resumed")
    assert result["updates"] == ["scontrol update NodeName=gpu1 State=RESUME"]
    assert [sentence.split(",")[0] for sentence in result["left"]] == ["gpu2 stays as it is"]


def test_unfit_is_not_resumed(state):
    result = state(
        line("gpu1", "IDLE+DRAIN", "mine"), line("gpu2"), state="resumed", unfit={"gpu1": "t4 is missing", "gpu2": "t4 is missing"}
    )
    assert result["updates"] == []
    assert result["left"] == ["gpu1 stays as it is, because t4 is missing: repair it, then run again."]


def test_resumes_for_one_reason_only_and_names_the_rest(state):
    told = [line("gpu1", "IDLE+DRAIN", "new driver : Not responding"), line("gpu2", "IDLE+DRAIN", "new driver and a fan")]
    result = state(*told, state="resumed", reason="new driver")
    assert result["updates"] == ["scontrol update NodeName=gpu1 State=RESUME"]
    assert result["kept"] == ["gpu2 is away for another reason and stays so: new driver and a fan"]
    assert result["left"] == []


def test_waits_for_a_node_that_comes_back_from_its_reboot(state, fake):
    away = [line("gpu1", "DOWN*+DRAIN", "new driver : Not responding"), line("gpu2", "DOWN*+DRAIN", "fan is loud")]
    result = state(*away, state="resumed", reason="new driver", wait=2)
    assert [sentence.split(",")[0] for sentence in result["left"]] == ["gpu1 stays as it is"]
    asked = len(fake.calls())
    # Who is not resumed is not waited for. Above, a shorter wait could be over before a busy machine asked once.
    state(line("gpu1"), away[1], state="resumed", reason="new driver", wait=60)
    assert asked > 2 and len(fake.calls()) == asked + 2


def test_nothing_to_resume(state):
    assert state(line("gpu1"), line("gpu2", "MIXED"), state="resumed")["changed"] is False


def test_unknown_nodes_are_named_or_passed_over(state):
    assert state(line("gpu1"), line("gpu3"), state="resumed")["msg"] == "SLURM knows no node gpu2; it has gpu[1,3]."
    assert "failed" not in state(line("gpu1"), state="drained", reason="x", ignore_unknown=True)
