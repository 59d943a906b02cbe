# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Wrong variables of an application of DEEPaaS: sentences on the control node, and not even a connection to a host."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from local import ROOT

SLURM, KUBERNETES = {"slurm_controllers": ["head"]}, {"kubernetes_control_plane": ["cp1"]}


def refused(tmp_path: Path, groups: dict[str, list[str]], variables: dict[str, object]) -> str:
    children = {group: {"hosts": {name: {"ansible_host": f"{name}.invalid"} for name in names}} for group, names in groups.items()}
    path = tmp_path / "hosts.json"
    path.write_text(json.dumps({"all": {"vars": variables, "children": children}}), encoding="utf-8")
    words = [f"{sys.prefix}/bin/ansible-playbook", "-i", str(path), str(ROOT / "playbooks/deepaas.yml"), "-e", "site_check_lock=false"]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    said = " ".join(done.stdout.split())
    assert done.returncode != 0 and "UNREACHABLE" not in said, said
    return said


@pytest.mark.parametrize(
    ("groups", "variables", "sentences"),
    [
        (
            {**SLURM, **KUBERNETES},
            {},
            ["deepaas_manager is empty, and the inventory has more than one of slurm, kubernetes and marathon, or none"],
        ),
        (KUBERNETES, {"deepaas_manager": "slurm"}, ["deepaas_manager is slurm, and the inventory has no host of it."]),
        (
            KUBERNETES,
            {"deepaas_port": 5000},
            [
                "deepaas_image is empty, and Kubernetes runs images alone: name one with DEEPaaS and a model.",
                "deepaas_port is 5000: write a number from 30000 to 32767.",
            ],
        ),
        (
            SLURM,
            {
                "deepaas_name": "a b",
                "deepaas_gpus": 17,
                "deepaas_cpus": 0,
                "deepaas_memory": 1,
                "deepaas_wall_clock": "1h",
                "deepaas_command": [],
                "deepaas_image": "registry.site.org:5000/plants:1",
            },
            [
                "deepaas_image is registry.site.org:5000/plants:1: udocker takes NAME:TAG, without a digest or a port;",
                "deepaas_name is a b: use small letters, digits and -, at most 41, a letter first and no - at the end.",
                "deepaas_user is empty: name the user whose job it is, or the account on the agents.",
                "deepaas_gpus is 17: write a number from 0 to 16.",
                "deepaas_cpus is 0: write 1 or more.",
                "deepaas_memory is 1: write at least 64, in MiB.",
                'deepaas_wall_clock is 1h: write such as "24:00:00", in quotes.',
                "deepaas_command is empty: name the program, such as [deepaas-run].",
            ],
        ),
        (SLURM, {"deepaas_prot": 5000}, ["deepaas_prot"]),
    ],
)
def test_wrong_variables(tmp_path: Path, groups: dict[str, list[str]], variables: dict[str, object], sentences: list[str]) -> None:
    said = refused(tmp_path, groups, variables)
    assert [sentence for sentence in sentences if sentence not in said] == [], said


@pytest.mark.parametrize(
    ("image", "wrong"),
    [
        ("", False),
        ("plants", False),
        ("registry.site.org/physics/plants:1.0-gpu", False),
        ("registry.site.org:5000/plants:1", True),
        ("registry.site.org/plants@sha256:0123", True),
        ("plants:", True),
        ("my plants:1", True),
    ],
)
def test_names_of_images_that_udocker_takes(tmp_path: Path, image: str, wrong: bool) -> None:
    said = refused(tmp_path, SLURM, {"deepaas_user": "ada", "deepaas_cpus": 0, "deepaas_image": image})
    assert ("deepaas_image is" in said) == wrong, said
    assert "deepaas_cpus is 0" in said
