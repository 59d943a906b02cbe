# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The program that runs a command once by Marathon."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

PATH = Path(__file__).resolve().parents[3] / "roles/marathon/files/mesos_run.py"


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("mesos_run", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def app_of(program, *words):
    given = ["--url", "http://m", "--credentials", "f", *words, "nvidia-smi"]
    return program.application("job-1", program.arguments(given))


class Marathon:
    """Answers in turn; the last one for ever."""

    def __init__(self, *states):
        self.states = list(states)
        self.asked = []

    def __call__(self, method, path, body):
        self.asked.append((method, path))
        if method != "GET":
            return body
        now = self.states[0]
        if path == "/v2/queue":
            self.states = self.states[1:] or self.states
            delay = {"timeLeftSeconds": 86399 if now.get("ended") else 0, "overdue": not now.get("ended")}
            return {"queue": [] if now.get("tasks") else [{"app": {"id": "/batch/job-1"}, "delay": delay}]}
        if isinstance(now, dict) and now.get("down"):
            self.states = self.states[1:]
            raise OSError("no answer")
        return {
            "app": {
                "id": "/batch/job-1",
                "tasks": now.get("tasks", []),
                **({"lastTaskFailure": now["failure"]} if "failure" in now else {}),
            }
        }


WAITS, RUNS = {}, {"tasks": [{"state": "TASK_RUNNING", "host": "gpu1"}]}
FAILURE = {"state": "TASK_FAILED", "host": "gpu1", "message": "Command exited with status 3"}


@pytest.mark.parametrize(
    ("end", "status", "words"),
    [
        ({"ended": True}, 0, "/batch/job-1 is finished"),
        ({"ended": True, "failure": FAILURE}, 1, "TASK_FAILED on gpu1: Command exited with status 3"),
    ],
)
def test_it_waits_for_the_end_and_removes_the_application(program, end, status, words):
    marathon, said = Marathon(WAITS, {"down": True}, RUNS, end), []
    assert program.run(marathon, app_of(program), 0, 0, said.append) == status
    assert words in said[-1] and any("is running on gpu1" in text for text in said)
    assert marathon.asked[0] == ("POST", "/v2/apps") and marathon.asked[-1] == ("DELETE", "/v2/apps/batch/job-1?force=true")


def test_it_ends_after_its_time_and_removes_the_application(program):
    marathon, said = Marathon(WAITS), []
    assert program.run(marathon, app_of(program), 0.01, 0.005, said.append) == 124
    assert marathon.asked[-1][0] == "DELETE"


def test_an_image_gets_gpus_by_the_containerizer_of_mesos(program):
    app = app_of(program, "--gpus", "2", "--image", "nvidia/cuda", "--user", "analysis")
    assert app["container"] == {"type": "MESOS", "docker": {"image": "nvidia/cuda"}}
    assert app["gpus"] == 2 and app["user"] == "analysis" and app["backoffSeconds"] == app["maxLaunchDelaySeconds"]
    assert json.dumps(app)


def test_a_wrong_name_is_one_sentence(program, monkeypatch, capsys, tmp_path):
    (tmp_path / "c").write_text("u:p", encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["mesos_run", "--url", "http://m", "--credentials", str(tmp_path / "c"), "--name", "Job", "true"])
    assert program.main() == 2
    assert capsys.readouterr().err == "The name 'Job' is invalid: use small letters, digits and '-', such as train-1.\n"
