# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module kubernetes_static_pods against a ctr and a kubectl that are scripts."""

from __future__ import annotations

import os

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import kubernetes_static_pods

BOOT = 1_000_000


@pytest.fixture
def control(run, fake, monkeypatch, tmp_path):
    """control(ages, ...) runs the module; ages are seconds from the start of the pods to the change of their files."""
    monkeypatch.setattr(kubernetes_static_pods, "POLL", 0.01)
    monkeypatch.setattr(kubernetes_static_pods, "PROC", str(tmp_path / "proc"))
    ticks = os.sysconf("SC_CLK_TCK")

    def run_module(ages, running=("etcd", "kube-apiserver"), comes_back=True, ready="exit 0", **options):
        (tmp_path / "proc").mkdir(exist_ok=True)
        (tmp_path / "proc/stat").write_text(f"cpu 1 2\nbtime {BOOT}\n", encoding="utf-8")
        pods = []
        for number, (name, age) in enumerate(ages.items(), 100):
            (tmp_path / "proc" / str(number)).mkdir(exist_ok=True)
            words = " ".join(["S", *["0"] * 18, str(50 * ticks)])
            (tmp_path / "proc" / str(number) / "stat").write_text(f"{number} ({name} )) {words} 0 0\n", encoding="utf-8")
            file = tmp_path / f"{name}.crt"
            file.write_text("x", encoding="utf-8")
            os.utime(file, (BOOT + 50 + age,) * 2)
            pods.append({"name": name, "files": [str(file), str(tmp_path / "missing")]})
        lines = "".join(f"echo '{name}-1 {100 + number} RUNNING'\n" for number, name in enumerate(ages) if name in running)
        new = 'echo "$name-2 4711 RUNNING"' if comes_back else ":"
        dead = tmp_path / "dead"
        fake(
            "ctr",
            f"""
name=$(echo "$*" | sed -n 's/.*container.name"==\\([a-z-]*\\).*/\\1/p')
case "$*" in
*containers*list*) echo "$name-1"; echo "$name-2"; echo "$name" > {tmp_path}/asked ;;
*tasks*list*) name=$(cat {tmp_path}/asked); echo 'TASK PID STATUS'; if [ -e {dead}-$name ]; then {new}; else {lines or ":"}
 fi ;;
*tasks*kill*) for word; do last=$word; done; touch {dead}-${{last%-1}} ;;
esac
""",
        )
        fake("kubectl", ready)
        return run(kubernetes_static_pods, pods=pods, **options)

    return run_module


def test_pods_with_old_files_are_left_alone(control, fake):
    result = control({"etcd": -30, "kube-apiserver": 1})
    assert (result["changed"], result["restarted"], result["reasons"]) == (False, [], [])
    assert not any("kill" in call for call in fake.calls())


def test_a_pod_with_a_newer_file_is_restarted(control, fake):
    result = control({"etcd": -30, "kube-apiserver": 30})
    assert (result["changed"], result["restarted"]) == (True, ["kube-apiserver"])
    assert len(result["reasons"]) == 1 and result["reasons"][0].endswith("kube-apiserver.crt is newer than the running kube-apiserver")
    assert [call for call in fake.calls() if "kill" in call] == ["ctr --namespace k8s.io tasks kill --signal SIGTERM kube-apiserver-1"]
    assert any("/readyz" in call for call in fake.calls())


def test_one_after_the_other(control, fake):
    result = control({"etcd": 30, "kube-apiserver": 30})
    assert result["restarted"] == ["etcd", "kube-apiserver"]
    order = [call.split()[-1] if "kill" in call else "ready" for call in fake.calls() if "kill" in call or "/readyz" in call]
    assert order == ["etcd-1", "ready", "kube-apiserver-1", "ready"]


def test_a_pod_that_does_not_run_is_left_to_kubelet(control):
    result = control({"etcd": 30}, running=())
    assert (result["changed"], result["restarted"]) == (False, [])


def test_check_mode_restarts_nothing(control, fake):
    result = control({"etcd": 30}, _ansible_check_mode=True)
    assert (result["changed"], result["restarted"]) == (True, ["etcd"])
    assert not any("kill" in call for call in fake.calls())


@pytest.mark.parametrize(("options", "said"), [({"comes_back": False}, "it does not run"), ({"ready": "echo no >&2; exit 1"}, "no")])
def test_what_does_not_come_back_is_an_error(control, options, said):
    result = control({"etcd": 30}, wait=0.1, **options)
    assert result["failed"]
    assert result["msg"] == f"etcd was restarted, and after 0.1 s: {said}. Look at 'journalctl -u kubelet'."
