# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The program on a worker of Kubernetes that looks for lost GPUs every minute, with what the role installs and a recorder for kubectl."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes import lost

ROOT = Path(__file__).resolve().parents[3]
ROLE = ROOT / "roles/kubernetes_node"
ADDRESS = "0000:41:00.0"
LOST, HELD, DRAINED = ("accelerators.deephdc.org/" + word for word in ("lost", "held", "drained"))
DEVICE = {"kind": "gpu", "vendor": "nvidia", "type": "t4", "driver": "nvidia", "pci_address": ADDRESS, "device_files": ["/dev/nvidia0"]}
# Answers a question for the node and writes down what else it is asked for.
KUBECTL = """#!/bin/sh
case "$*" in
*refused*) echo "that is forbidden" >&2; exit 1 ;;
*" get node "*) cat {place}/node.json ;;
*) printf '%s\\n' "$*" >>{place}/asked; case "$*" in *filename=-*) cat >>{place}/asked; echo >>{place}/asked ;; esac ;;
esac
"""


class Node:
    """A worker with one promised GPU."""

    def __init__(self, place: Path) -> None:
        self.place = place
        library = place / "library/ansible_collections/deephdc/accelerators/plugins/module_utils"
        for path in yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))["__kubernetes_node_shared"]:
            (library / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / "plugins/module_utils" / path, library / path)
        text = (ROLE / "files/kubernetes_gpu_health.py").read_text(encoding="utf-8")
        for name, path in {
            "/usr/local/lib/deephdc/kubernetes_gpu_health": place / "library",
            "/etc/kubernetes/deephdc-gpus.json": place / "promised.json",
            "/run/deephdc-kubernetes-gpus/said": place / "said",
            "/run/deephdc-kubernetes-gpus/started": place / "started",
            "/run/deephdc-kubernetes-gpus/silent": place / "silent",
            "/var/lib/deephdc/held": place / "held",
            "/proc": place / "processes",
            "/usr/bin/kubectl": place / "kubectl",
        }.items():
            assert text.count(f'"{name}"') == 1
            text = text.replace(f'"{name}"', repr(str(path)))
        (place / "program").write_text(text, encoding="utf-8")
        (place / "kubectl").write_text(KUBECTL.format(place=place), encoding="utf-8")
        (place / "kubectl").chmod(0o755)
        self.process("self", "", "/system.slice/kubernetes-gpu-health.service")
        self.promise(node="w1")
        self.is_lost(True)

    def process(self, number: str, state: str, group: str) -> None:
        (self.place / "processes" / number).mkdir(parents=True, exist_ok=True)
        (self.place / "processes" / number / "stat").write_text(f"{number} (nvidia-smi) {state} 1 7 7 0 -1\n", encoding="utf-8")
        (self.place / "processes" / number / "cgroup").write_text(f"0::{group}\n", encoding="utf-8")

    def promise(self, **more: object) -> None:
        promised = {
            "host": "w1",
            "devices": [DEVICE],
            "root": str(self.place),
            "plugin": "nvidia-1",
            "offers": {"nvidia.com/gpu": 1},
            "given": None,
            **more,
        }
        (self.place / "promised.json").write_text(json.dumps(promised), encoding="utf-8")

    def is_lost(self, lost: bool) -> None:
        """Whether sysfs has the GPU, bound to its driver, with its device file."""
        shutil.rmtree(self.place / "sys", ignore_errors=True)
        device = self.place / "sys/bus/pci/devices" / ADDRESS
        device.parent.mkdir(parents=True)
        (self.place / "dev").mkdir(exist_ok=True)
        (self.place / "dev/nvidia0").touch()
        if not lost:
            device.mkdir()
            for name, value in {
                "class": "0x030200",
                "vendor": "0x10de",
                "device": "0x1eb8",
                "numa_node": "0",
                "local_cpulist": "0-3",
            }.items():
                (device / name).write_text(value + "\n", encoding="utf-8")
            (self.place / "sys/bus/pci/drivers/nvidia").mkdir(parents=True)
            (device / "driver").symlink_to(self.place / "sys/bus/pci/drivers/nvidia")
            proc = self.place / "proc/driver/nvidia/gpus" / ADDRESS
            proc.mkdir(parents=True, exist_ok=True)
            (proc / "information").write_text("Model: Tesla T4\nDevice Minor: 0\n", encoding="utf-8")

    def program(self, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-B", "-I", str(self.place / "program")]
        return subprocess.run(words, check=False, capture_output=True, text=True, env=environment)

    def run(
        self, notes: dict[str, str] | None = None, away: bool = False, allocatable: int = 1, environment: dict[str, str] | None = None
    ) -> list[str]:
        """What the API was asked to change; an object that it was given is an entry of its own."""
        (self.place / "asked").unlink(missing_ok=True)
        metadata = {"name": "w1", "resourceVersion": "7", "annotations": notes or {}}
        node = {
            "metadata": metadata,
            "spec": {"unschedulable": True} if away else {},
            "status": {"allocatable": {"nvidia.com/gpu": str(allocatable)}},
        }
        (self.place / "node.json").write_text(json.dumps(node), encoding="utf-8")
        done = self.program(environment)
        assert done.returncode == 0, done.stderr
        asked = self.place / "asked"
        return asked.read_text(encoding="utf-8").splitlines() if asked.exists() else []


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def patched(words: str) -> dict:
    found = re.search(r"patch node w1 --type=merge --patch=(.*)", words)
    assert found, words
    return json.loads(found[1])


def test_a_lost_gpu_cordons_its_node_with_a_reason_and_an_event(node: Node) -> None:
    patch, replace, event = node.run()
    change = patched(patch)
    reason = change["metadata"]["annotations"][LOST]
    assert f"t4 at {ADDRESS} (/dev/nvidia0) is missing" in reason
    assert change == {"metadata": {"annotations": {LOST: reason}, "resourceVersion": "7"}, "spec": {"unschedulable": True}}
    assert "events/w1.accelerator-lost" in replace
    assert (json.loads(event)["reason"], json.loads(event)["message"], json.loads(event)["type"]) == ("AcceleratorLost", reason, "Warning")


def test_it_is_said_once_and_again_before_the_api_forgets_it(node: Node) -> None:
    reason = patched(node.run()[0])["metadata"]["annotations"][LOST]
    assert node.run({LOST: reason}, away=True) == []
    said = node.place / "said"
    os.utime(said, (said.stat().st_atime - 2000, said.stat().st_mtime - 2000))
    assert len(node.run({LOST: reason}, away=True)) == 2, "the event alone"
    assert node.run({LOST: reason}, away=True) == []


def test_a_gpu_that_is_back_uncordons_its_node(node: Node) -> None:
    node.is_lost(False)
    patch, _replace, event = node.run({LOST: "old"}, away=True)
    assert patched(patch) == {"metadata": {"annotations": {LOST: None}, "resourceVersion": "7"}, "spec": {"unschedulable": None}}
    assert (json.loads(event)["reason"], json.loads(event)["type"]) == ("AcceleratorBack", "Normal")
    assert node.run() == [], "a node that is well is left alone"


def test_the_device_plugin_looks_again_before_pods_come(node: Node) -> None:
    """Once: a plugin that finds no more than before must not keep the node away for ever."""
    node.is_lost(False)
    (asked,) = node.run({LOST: "old"}, away=True, allocatable=0)
    assert "delete pods --namespace=deephdc-accelerators" in asked
    assert "--selector=app.kubernetes.io/name=nvidia-1 --field-selector=spec.nodeName=w1" in asked
    patch, *_event = node.run({LOST: "old"}, away=True, allocatable=0)
    assert patched(patch)["spec"] == {"unschedulable": None}
    assert node.run(allocatable=0) == [], "only when a device comes back"
    (asked,) = node.run({LOST: "old"}, away=True, allocatable=0)
    assert "delete pods" in asked, "the next time, too"


def test_with_mps_no_plugin_is_started_again(node: Node) -> None:
    node.is_lost(False)
    node.promise(node="w1", plugin="")
    assert not any("delete" in words for words in node.run({LOST: "old"}, away=True, allocatable=0)), "it would end pods"


def test_a_node_is_not_uncordoned_while_its_tool_does_not_answer(node: Node) -> None:
    """A sick GPU often makes nvidia-smi hang or fail, which says nothing of the GPU."""
    node.is_lost(False)
    tool = node.place / "usr/bin/nvidia-smi"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\nexit 9\n", encoding="utf-8")
    tool.chmod(0o755)
    with_tool = {"PATH": f"{tool.parent}:{os.environ['PATH']}"}
    assert node.run({LOST: "it requires a reset"}, away=True, environment=with_tool) == []
    assert len(node.run({LOST: "it requires a reset"}, away=True)) == 3, "it is uncordoned when nothing speaks against it"


def test_a_tool_that_is_silent_for_long_cordons_its_node(node: Node) -> None:
    node.is_lost(False)
    own = "/system.slice/kubernetes-gpu-health.service"
    node.process("7", "D", own)
    assert [node.run() for _check in range(4)] == [[]] * 4
    patch, *_event = node.run()
    reason = patched(patch)["metadata"]["annotations"][LOST]
    assert reason == "nvidia-smi hangs in the driver, in more than 4 checks one after the other (tool)"
    assert node.run({LOST: reason}, away=True) == []
    node.process("7", "S", own)
    assert patched(node.run({LOST: reason}, away=True)[0])["spec"] == {"unschedulable": None}
    node.process("7", "D", own)
    assert node.run() == [], "it counts from the beginning"


def test_nothing_is_asked_while_an_nvidia_smi_hangs_in_the_driver(node: Node) -> None:
    own = "/system.slice/kubernetes-gpu-health.service"
    node.process("7", "D", own)
    assert node.run() == []
    node.process("7", "S", own)
    assert len(node.run()) == 3


@pytest.mark.parametrize("group", ["/kubepods.slice/kubepods-pod1.slice/cri-1.scope", "/system.slice/cron.service", "/"])
def test_a_pods_program_of_that_name_does_not_blind_the_node(node: Node, group: str) -> None:
    """It hung in vfork on purpose, and the lost GPU stayed offered."""
    node.process("7", "D", group)
    assert len(node.run()) == 3


def test_a_host_that_a_role_holds_is_not_looked_at(node: Node) -> None:
    """A node that was cordoned before the hold has no mark of it."""
    (node.place / "held").mkdir()
    assert len(node.run(away=True)) == 2
    (node.place / "held/nvidia_driver").touch()
    (node.place / "said").unlink()
    assert node.run(away=True) == []


def test_instances_of_another_manager_do_not_stand_in_for_a_lost_one() -> None:
    device = {"pci_address": ADDRESS, "mig": {"devices": [{"uuid": "MIG-a"}, {"uuid": "MIG-b"}]}}
    assert lost.own([device], None) == [device]
    assert lost.own([device], [ADDRESS]) == [device]
    assert lost.own([device], ["MIG-a"]) == [{**device, "mig": {"devices": [{"uuid": "MIG-a"}]}}]
    assert lost.own([device], ["0000:42:00.0", "MIG-c"]) == []


@pytest.mark.parametrize("notes", [{HELD: "gpu_hold: x"}, {HELD: "gpu_hold: x", LOST: "old"}])
def test_a_held_node_is_not_looked_at(node: Node, notes: dict[str, str]) -> None:
    assert node.run(notes, away=True) == []


def test_who_cordoned_a_node_uncordons_it(node: Node) -> None:
    """A drained node stays so when the GPU is back, and one that an administrator cordoned gets the event alone."""
    assert len(node.run(away=True)) == 2
    node.is_lost(False)
    (patch, *_event) = node.run({LOST: "old", DRAINED: "repair"}, away=True)
    assert patched(patch) == {"metadata": {"annotations": {LOST: None}, "resourceVersion": "7"}}


def test_what_the_api_refuses_is_said(node: Node) -> None:
    node.promise(node="refused")
    done = node.program()
    assert (done.returncode, done.stderr) == (1, "kubectl get: that is forbidden\n")
