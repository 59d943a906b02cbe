# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""xOpera reads the twin of every template."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from templates import ROOT, TEMPLATES

TWIN = ROOT / "tosca/xopera_twin"
HOSTS = {
    "fe_server": "10.0.0.2",
    "wn_server": "10.0.0.3",
    "gpu_wn_server": "10.0.0.4,10.0.0.5",
    "lb_server": "10.0.0.6",
    "master_server": "10.0.0.7,10.0.0.8",
}


def made(path: Path, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    servers = [
        name for name, node in yaml.safe_load(path.read_text())["topology_template"]["node_templates"].items() if "Compute" in node["type"]
    ]
    hosts = [f"{name}={HOSTS[name]}" for name in servers]
    return subprocess.run([sys.executable, TWIN, path, folder, "--hosts", *hosts, *more], capture_output=True, text=True, check=False)


def validated(folder: Path, name: str = "service.yaml") -> str:
    done = subprocess.run([os.environ["XOPERA"], "validate", name], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr + ("" if done.returncode == 0 else f"\nexit code {done.returncode}")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_xopera_takes_the_twin_and_the_csar(path: Path, tmp_path: Path) -> None:
    done = made(path, tmp_path / "twin", "--csar", str(tmp_path / "site.csar"))
    assert done.returncode == 0, done.stderr
    assert validated(tmp_path / "twin").rstrip().endswith("Done.")
    names = zipfile.ZipFile(tmp_path / "site.csar").namelist()
    assert {"TOSCA-Metadata/TOSCA.meta", "service.yaml", "types.yaml", "artifacts/worker.yml"} <= set(names)
    assert validated(tmp_path, "site.csar").rstrip().endswith("Done.")


def test_a_worker_of_slurm_is_drained_before_it_goes(tmp_path: Path) -> None:
    assert made(ROOT / "tosca/templates/slurm_cluster.yaml", tmp_path / "twin").returncode == 0
    types = yaml.safe_load((tmp_path / "twin/types.yaml").read_text())["node_types"]
    drain = types["tosca.nodes.indigo.LRMS.WorkerNode.Slurm"]["interfaces"]["Standard"]["operations"]["delete"]
    assert drain["implementation"] == "artifacts/slurm_worker_drain.yml" and (tmp_path / "twin" / drain["implementation"]).is_file()
    assert drain["inputs"]["drain_worker"]["default"] == {"get_attribute": ["HOST", "private_address"]}


def spoiled(folder: Path, change: Any) -> str:
    service = yaml.safe_load((folder / "service.yaml").read_text())
    change(service["topology_template"]["node_templates"])
    (folder / "service.yaml").write_text(yaml.safe_dump(service))
    return validated(folder)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda nodes: nodes["front_end"]["properties"].update(colour="red"), "colour"),
        (lambda nodes: nodes["front_end"].update(requirements=[{"host": "no_such_server"}]), "no_such_server"),
    ],
)
def test_xopera_refuses_by_name(change: Any, word: str, tmp_path: Path) -> None:
    path = ROOT / "tosca/templates/slurm_cluster.yaml"
    assert made(path, tmp_path / "twin").returncode == 0
    said = spoiled(tmp_path / "twin", change)
    assert word in said and "exit code" in said
