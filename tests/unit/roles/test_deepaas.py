# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the role deepaas refuses, computed by Ansible."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml
from ansible_collections.deephdc.accelerators.plugins.module_utils._iam import names

ROLE = Path(__file__).resolve().parents[3] / "roles/deepaas"
GOOD = {"deepaas_manager": "slurm", "deepaas_name": "deepaas", "deepaas_user": "ada", "deepaas_image": "", "deepaas_port": 30500}
CHANGES: list[tuple[dict, str]] = [
    ({}, ""),
    ({"deepaas_image": "model:1.0"}, ""),
    ({"deepaas_image": "registry.site.test/a/model"}, ""),
    ({"deepaas_user": "a-d_a1", "deepaas_name": "a-1", "deepaas_wall_clock": "7-00:00:00"}, ""),
    *(({"deepaas_name": name}, "deepaas_name is ") for name in ("", "A", "a-", "1a", "a\n", "../a", "a" * 42)),
    *(({"deepaas_user": name}, "deepaas_user is ") for name in ("", "root", "ada\n", "Ada", "a b")),
    *(({"deepaas_image": image}, "deepaas_image is ") for image in ("a:b:c", "a b", "a\n", "\ta", "a@sha256:1")),
    *(({"deepaas_wall_clock": clock}, "deepaas_wall_clock is ") for clock in ("1", "24:00:00\n", "24:61:00", "x")),
]


def test_each_mistake_has_its_sentence_and_nothing_else_has_one(tmp_path: Path) -> None:
    """All in one run of Ansible, which takes a second."""
    files = [str(ROLE / folder / "main.yml") for folder in ("defaults", "vars")]
    tasks = [
        {
            "ansible.builtin.copy": {
                "content": "{{ __deepaas_errors | to_json }}",
                "dest": str(tmp_path / f"{number}.json"),
                "mode": "0600",
            },
            "vars": {**GOOD, **change},
        }
        for number, (change, _words) in enumerate(CHANGES)
    ]
    play = {"hosts": "slurm_controllers", "connection": "local", "gather_facts": False, "vars_files": files, "tasks": tasks}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"slurm_controllers": {"hosts": {"front": {}}}}))
    environment = {**os.environ, "ANSIBLE_LOCALHOST_WARNING": "False", "ANSIBLE_PYTHON_INTERPRETER": sys.executable}
    words = [f"{sys.prefix}/bin/ansible-playbook", "-i", tmp_path / "hosts.yml", tmp_path / "play.yml"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for number, (change, sentence) in enumerate(CHANGES):
        found = json.loads((tmp_path / f"{number}.json").read_text())
        assert len(found) == (1 if sentence else 0) and all(one.startswith(sentence) for one in found), (change, found)


def test_a_number_of_the_system_is_one_for_the_role() -> None:
    """The task has the condition of _iam.names.is_number, which no filter offers."""
    tasks = yaml.safe_load((ROLE / "tasks/slurm.yml").read_text())
    (check,) = (task["ansible.builtin.assert"] for task in tasks if task["name"] == "Check that the user of the application is a person")
    first, foreign = names.FIRST, names.FOREIGN
    assert check["that"] == f"__deepaas_number | int >= {first} and __deepaas_number | int not in range({foreign.start}, {foreign.stop})"
