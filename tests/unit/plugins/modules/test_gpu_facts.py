# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module gpu_facts: its options, its result, its documentation."""

from __future__ import annotations

import json

import pytest
import yaml
from ansible.module_utils import basic
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu import pci
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.facts import gather
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.health import names
from ansible_collections.deephdc.accelerators.plugins.modules import gpu_facts


@pytest.fixture
def run(monkeypatch, capsys):
    def run_module(**options):
        monkeypatch.setattr(basic, "_ANSIBLE_ARGS", json.dumps({"ANSIBLE_MODULE_ARGS": options}).encode())
        monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
        with pytest.raises(SystemExit):
            gpu_facts.main()
        return json.loads(capsys.readouterr().out)

    return run_module


def test_result(simulate, run):
    root = simulate({"type": "a100", "count": 2}, {"type": "mi210"})
    result = run(root=str(root), vendors=["nvidia"])
    assert result["changed"] is False
    assert [entry["type"] for entry in result["ansible_facts"]["accelerators"]] == ["a100", "a100"]


def test_check_mode(simulate, run):
    root = simulate({"type": "a100"})
    assert run(root=str(root), _ansible_check_mode=True) == run(root=str(root))


def test_unknown_vendor_is_refused(run):
    assert "vendors" in run(vendors=["voodoo"])["msg"]


def test_timeout(simulate, commands, run):
    commands("nvidia-smi", "exec sleep 60")
    (entry,) = run(root=str(simulate({"type": "a100"})), timeout=0.2)["ansible_facts"]["accelerators"]
    assert entry["health"][0] == {"problem": "nvidia_smi_timeout", "message": "0000:01:00.0: nvidia-smi gave no answer within 0.2 seconds."}


def test_every_key_and_problem_is_documented(simulate):
    returned = yaml.safe_load(gpu_facts.RETURN)["ansible_facts"]["contains"]["accelerators"]["contains"]
    (entry,) = gather(str(simulate({"type": "a100"})))
    assert list(returned) == list(entry)
    for key in ("pcie", "sriov", "mig"):
        assert list(returned[key]["contains"]) == list(entry[key])
    told = " ".join(returned["health"]["contains"]["problem"]["description"])
    assert all(f"V({problem})" in told for problem in names())


def test_cost_of_sixteen_gpus(simulate):
    """What is read is counted, not timed: a fixed number of files per GPU."""
    opened = []
    original = pci.read_text

    def count(path):
        opened.append(path)
        return original(path)

    root = simulate({"type": "h100", "count": 16})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pci, "read_text", count)
        gather(str(root), pci_ids_paths=())
    assert len(opened) <= 16 * 16
