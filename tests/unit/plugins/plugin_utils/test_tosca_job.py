# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What a job of a template may be."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._tosca.job import job_errors

GOOD = {
    "job_name": "train",
    "job_user": "ada",
    "job_image": "registry.example.org/model:1",
    "job_executable": "python3",
    "job_arguments": ["-c", "print(1)\nprint(2)"],
    "job_environment": {"A_1": "line\nbreak"},
    "job_note": "for all: {{ x }} $(id) #!",
    "job_options": ["--exclusive", "--mail-user=ada@example.org"],
    "job_gpus": "2",
    "job_wall_clock": "24:00:00",
}


def test_a_good_job() -> None:
    assert job_errors(GOOD) == [] and job_errors({"job_user": "ada"}) != []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        *(({"user": name}, "user ") for name in ("root", "munge", "slurm", "", None, "ada\n", "../ada", "-ada", "www-data")),
        *(({"note": f"a{sign}rm -rf ~"}, "note has a line break") for sign in "\n\r\x0b\x0c\x00\x85\u2028"),
        *(({key: "a\nb"}, f"{key} has a line break") for key in ("directory", "stdin", "stdout", "stderr", "std_outerr", "queue")),
        ({"options": ["--exclusive\nrm"]}, "batch_system_options.0 has a line break"),
        ({"name": "../x"}, "name is '../x'"),
        ({"name": "x\n"}, "name is"),
        ({"image": "a:b:c"}, "image is"),
        ({"image": "a b"}, "image is"),
        ({"wall_clock": "1\n"}, "wall_clock is"),
        ({"environment": {"A; rm": "x"}}, "environment has 'A; rm'"),
    ],
)
def test_a_mistake_has_its_sentence(change: dict, words: str) -> None:
    found = job_errors({**GOOD, **{f"job_{key}": value for key, value in change.items()}})
    assert len(found) == 1 and found[0].startswith(words), found
