# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module kubernetes_gpu_probe: what a pod must print, and that nothing else passes for a proof."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import kubernetes_gpu_probe
from ansible_collections.deephdc.accelerators.plugins.modules.kubernetes_gpu_probe import judge, state_of, why

DENIED = "sh: can't open /tmp/other1: Operation not permitted"
GOOD = "PROBE given /dev/nvidia0 opens\n" + "\n".join(f"PROBE other {minor} {DENIED}" for minor in range(1, 16))
BUSY = "0/3 nodes are available: 1 Insufficient nvidia.com/gpu."


def test_a_right_answer():
    assert judge(GOOD) == (True, "/dev/nvidia0 opens, 15 others are denied")
    assert judge("a warning\n" + GOOD + "\n")[0]
    assert judge("PROBE given /dev/nvidia3 opens\nPROBE other 0 mknod: /tmp/other0: Operation not permitted")[0]


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("", "the pod has 0 devices instead of 1: none in /dev"),
        ("sh: syntax error", "the pod has 0 devices instead of 1: none in /dev"),
        ("PROBE given /dev/nvidia1 opens\n" + GOOD, "the pod has 2 devices instead of 1: /dev/nvidia1, /dev/nvidia0"),
        (GOOD.replace("nvidia0 opens", "nvidia0 sh: can't open it"), "/dev/nvidia0 does not open: sh: can't open it"),
        (GOOD.replace("nvidia0 opens", "nvidia0 "), "/dev/nvidia0 does not open: "),
        (GOOD.replace(f"other 7 {DENIED}", "other 7 opens"), "devices of others open, too: number 7 beside /dev/nvidia0"),
        (
            GOOD.replace(f"other 7 {DENIED}", "other 7 mknod: not found"),
            "devices of others could not be tried beside /dev/nvidia0: 7: mknod: not found",
        ),
        (
            GOOD.replace(f"other 7 {DENIED}", "other 7 sh: can't open it: Permission denied"),  # of the file system, not of the device
            "devices of others could not be tried beside /dev/nvidia0: 7: sh: can't open it: Permission denied",
        ),
        ("PROBE given /dev/nvidia0 opens", "devices of others could not be tried beside /dev/nvidia0: the image lacks a program"),
    ],
)
def test_a_wrong_answer(output, said):
    assert judge(output) == (False, said)


@pytest.mark.parametrize(
    ("mknod", "expected"),
    [
        ('ln -s /dev/null "$1"', "devices of others open, too: number 0, 1, 2, "),
        ("echo 'mknod: Operation not permitted' >&2; exit 1", "{} opens, 15 others are denied"),
        ("echo 'mknod: No such file or directory' >&2; exit 1", "devices of others could not be tried beside {}: 0: mknod: No such file"),
        ("exit 0", "devices of others could not be tried beside {}: 0: "),  # there is no file to open
    ],
)
def test_the_program_of_the_pod(tmp_path, fake, mknod, expected):
    """The program itself, as a container runs it; /dev/null stands for a device."""
    device = tmp_path / "nvidia3"
    device.symlink_to("/dev/null")
    (tmp_path / "nvidia4").write_text("no device\n")
    fake("stat", "echo 3")
    fake("mknod", mknod)
    program = kubernetes_gpu_probe.PROGRAM.replace("/dev/nvidia", str(tmp_path / "nvidia")).replace("/tmp/other", str(tmp_path / "other"))
    done = subprocess.run(["/bin/sh", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == f"PROBE given {device} opens"
    assert len(done.stdout.splitlines()) == 16, "its own number is not tried"
    assert judge(done.stdout)[1].startswith(expected.format(device))


def test_a_container_without_a_device_prints_nothing(tmp_path):
    program = kubernetes_gpu_probe.PROGRAM.replace("/dev/nvidia", str(tmp_path / "nvidia"))
    assert subprocess.run(["/bin/sh", "-c", program], capture_output=True, text=True, check=True).stdout == ""


def waiting(reason, **more):
    return {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": reason, **more}}}]}


def unschedulable(message=BUSY):
    return {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": message}]}


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (None, "waiting"),
        ({}, "waiting"),
        (unschedulable(), "waiting"),
        (waiting("ContainerCreating"), "waiting"),
        ({"phase": "Running"}, "waiting"),
        (waiting("ErrImagePull", message="no such host"), "stuck: ErrImagePull: no such host"),
        (waiting("ErrImageNeverPull"), "stuck: ErrImageNeverPull: "),
        ({"phase": "Succeeded"}, "over"),
        ({"phase": "Failed"}, "over"),
    ],
)
def test_the_state_of_a_pod(status, state):
    assert state_of({"status": status}) == state


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (unschedulable(), BUSY),
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Allocate failed"}, "Allocate failed"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        (
            {
                "phase": "Failed",
                "conditions": [{"type": "Ready", "status": "False", "reason": "PodFailed"}],
                "containerStatuses": [{"state": {"terminated": {"reason": "StartError", "message": "exec: sh: not found"}}}],
            },
            "exec: sh: not found",
        ),
        ({"phase": "Pending", "conditions": [{"status": "True", "message": "all is well"}]}, "no reason is given"),
        (None, "no reason is given"),
    ],
)
def test_why_a_pod_does_not_run(status, said):
    assert why({"status": status}) == said


def node(name, **allocatable):
    return {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "2", **allocatable}}}


PROVED = {"status": {"phase": "Succeeded"}, "spec": {"nodeName": "x"}, "logs": GOOD}


@pytest.fixture
def probe(run, kubectl, monkeypatch):
    """probe({node: fate}, ...) runs the module with a probe for each.

    Its pods afterwards are in the key left.
    """
    monkeypatch.setattr(kubernetes_gpu_probe, "POLL", 0.01)

    def run_module(fates, nodes=None, broken=None, ends=None, slow=0, **options):
        there = [node(name) for name in fates] if nodes is None else nodes
        user = {"metadata": {"name": "user", "labels": {}}, "spec": {}, "status": {"phase": "Running"}}
        kubectl.cluster = {"nodes": there, "pods": [user], "fates": fates, "broken": broken or {}, "ends": ends or {}, "slow": slow}
        probes = [{"node": name, "resource": "nvidia.com/gpu"} for name in fates]
        result = run(kubernetes_gpu_probe, **{"probes": probes, "image": "busybox", "patience": 0, "offer_patience": 0, **options})
        names = [pod["metadata"]["name"] for pod in kubectl.cluster["pods"]]
        assert "user" in names
        return {**result, "left": [name for name in names if name != "user"], "made": kubectl.cluster.get("made", [])}

    return run_module


def test_two_nodes_are_proved(probe):
    result = probe({"gpu1": PROVED, "gpu2": PROVED})
    assert result["proved"] == [f"{name}: nvidia.com/gpu: /dev/nvidia0 opens, 15 others are denied" for name in ("gpu1", "gpu2")]
    assert (result["busy"], result["changed"], result["left"]) == ([], False, [])


def test_what_a_pod_asks_for(probe):
    (pod,) = probe({"gpu1": PROVED}, namespace="other", pull_policy="Never")["made"]
    assert (pod["metadata"]["namespace"], pod["metadata"]["labels"]) == ("other", {"accelerators.deephdc.org/probe": "gpu"})
    assert pod["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "gpu1"}
    assert pod["spec"]["tolerations"] == [{"operator": "Exists", "effect": "NoSchedule", "key": "nvidia.com/gpu"}]
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert (container["image"], container["imagePullPolicy"]) == ("busybox", "Never")
    assert not pod["spec"]["automountServiceAccountToken"]


def test_a_busy_node_is_no_failure_and_others_are_proved(probe):
    result = probe({"gpu1": {"status": unschedulable()}, "gpu2": PROVED})
    assert "failed" not in result
    assert result["busy"] == [f"gpu1: nvidia.com/gpu: not proved: {BUSY}"]
    assert (len(result["proved"]), result["left"]) == (1, [])


@pytest.mark.parametrize("nodes", [[node("gpu1", **{"nvidia.com/gpu": "0"})], [{"metadata": {"name": "gpu1"}, "status": {}}], []])
def test_a_node_that_offers_nothing_is_not_busy(probe, nodes):
    """Without the device plugin the scheduler says the same as for a node in use."""
    result = probe({"gpu1": {"status": unschedulable()}, "gpu2": PROVED}, nodes=[*nodes, node("gpu2")])
    assert result["failed"]
    assert result["msg"] == "gpu1: nvidia.com/gpu: the node has none, so its device plugin does not run or sees no device"
    assert (result["busy"], len(result["proved"]), len(result["made"]), result["left"]) == ([], 1, 1, [])


def test_a_node_that_offers_less_than_it_should_is_told(probe):
    result = probe(
        {"gpu1": PROVED, "gpu2": PROVED},
        nodes=[node("gpu1", **{"nvidia.com/gpu": "1"}), node("gpu2")],
        probes=[{"node": "gpu1", "resource": "nvidia.com/gpu", "count": 2}],
    )
    assert result["failed"]
    assert result["msg"] == "gpu1: nvidia.com/gpu: the node has 1 of 2, so its device plugin does not run or sees too few devices"


def test_a_plugin_that_starts_is_waited_for(probe):
    result = probe({"gpu1": PROVED}, slow=2, offer_patience=60)
    assert len(result["proved"]) == 1
    assert probe({"gpu1": PROVED}, slow=2)["failed"]


@pytest.mark.parametrize(
    ("fate", "said"),
    [
        ({"status": waiting("ErrImagePull", message="no such host")}, "the pod does not start: ErrImagePull: no such host"),
        ({"status": {"phase": "Running"}, "spec": {"nodeName": "gpu1"}}, "the pod did not end within 0 seconds: no reason is given"),
        ({"status": {"phase": "Failed", "message": "Allocate failed"}, "logs": GOOD}, "the pod failed: Allocate failed"),
        ({**PROVED, "logs": ""}, "the pod has 0 devices instead of 1: none in /dev"),
        ({**PROVED, "logs": GOOD.replace(DENIED, "opens", 1)}, "devices of others open, too: number 1 beside /dev/nvidia0"),
    ],
)
def test_what_is_wrong(probe, fate, said):
    result = probe({"gpu1": fate, "gpu2": PROVED})
    assert result["failed"] and result["msg"] == f"gpu1: nvidia.com/gpu: {said}"
    assert (len(result["proved"]), result["busy"], result["left"]) == (1, [], [])


def test_a_pod_that_somebody_removed_is_no_proof(probe):
    result = probe({"gpu1": PROVED}, ends={"gpu-probe-0-abcde": 0})
    assert result["failed"] and result["msg"] == "gpu1: nvidia.com/gpu: the pod was removed before it ended"


def test_pods_are_waited_for(probe, kubectl):
    """One that waits for its device goes on being looked at, until patience is at its end."""
    result = probe({"gpu1": {"status": unschedulable()}}, patience=4)
    assert result["busy"] and len([call for call in kubectl.calls() if "get pods" in call]) > 1


@pytest.mark.parametrize("command", ["logs gpu-probe-1", "get pods"])
def test_pods_are_removed_after_a_failure(probe, command):
    result = probe({"gpu1": PROVED, "gpu2": PROVED}, broken={command: "the server is away"})
    assert result["failed"] and result["msg"] == "Kubernetes refused it: Error from server: the server is away"
    assert (len(result["made"]), result["left"]) == (2, [])


def test_pods_are_removed_where_the_next_is_refused(probe, kubectl, monkeypatch):
    made = kubernetes_gpu_probe.pod_of

    def pod_of(one, number, params):
        if number == 1:
            raise kubernetes_gpu_probe.Refused("exceeded quota")
        return made(one, number, params)

    monkeypatch.setattr(kubernetes_gpu_probe, "pod_of", pod_of)
    result = probe({"gpu1": PROVED, "gpu2": PROVED})
    assert result["failed"] and result["msg"] == "Kubernetes refused it: exceeded quota"
    assert (len(result["made"]), result["left"]) == (1, [])


def test_check_mode_and_no_probes_ask_for_nothing(probe, kubectl):
    assert probe({"gpu1": PROVED}, _ansible_check_mode=True)["proved"] == []
    assert probe({})["proved"] == []
    assert kubectl.calls() == []
