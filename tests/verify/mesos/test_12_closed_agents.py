# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""An agent that is closed stays so: whoever did it, when it is repaired, and when it becomes another one."""

from __future__ import annotations

import json
from pathlib import Path

from local import Cluster, changed
from mesos_agents_site import DRAIN, FIRST_GPU, HOST, NOTE, ON_HOST, PLAYBOOK, RESUME, is_away, words
from mesos_site import agent, app, ask, remove, start, tasks

OWNS = (
    "roles/mesos_agent/meta/manager.yml",
    "roles/mesos_agent/tasks/admin.yml",
    "roles/mesos_agent/tasks/hold.yml",
    "roles/mesos_agent/tasks/lost.yml",
    "roles/mesos_agent/tasks/mark.yml",
    "roles/mesos_agent/tasks/processes.yml",
    "roles/mesos_agent/tasks/re*.yml",
    "roles/mesos_agent/vars/main.yml",
    "plugins/module_utils/_mesos/agents.py",
    "plugins/module_utils/_model/marks.py",
    "plugins/modules/mesos_agent_hold.py",
)


def test_what_another_one_deactivated_is_left(cluster: Cluster) -> None:
    call = {"agent_id": {"value": agent(cluster, HOST)["id"]}}
    assert ask(cluster, "master", "/api/v1", {"type": "DEACTIVATE_AGENT", "deactivate_agent": call}).status == 200
    try:
        said = words(cluster.playbook(DRAIN, "--limit", HOST, variables={"mesos_drain_reason": "x"}))
        assert "was deactivated by an administrator" in said
        said = words(cluster.playbook(RESUME, "--limit", HOST, succeeds=False))
        assert "no run of mesos_drain did that" in said and is_away(cluster)
    finally:
        assert ask(cluster, "master", "/api/v1", {"type": "REACTIVATE_AGENT", "reactivate_agent": call}).status == 200


def closed(cluster: Cluster, kind: str) -> None:
    """As an administrator does by the masters' interface: DEACTIVATE_AGENT or REACTIVATE_AGENT."""
    call = {"agent_id": {"value": agent(cluster, HOST)["id"]}}
    assert ask(cluster, "master", "/api/v1", {"type": kind, kind.lower(): call}).status == 200


def test_a_repair_leaves_away_what_an_administrator_deactivated(cluster: Cluster) -> None:
    device = cluster.out(HOST, FIRST_GPU)
    closed(cluster, "DEACTIVATE_AGENT")
    cluster.out(HOST, f"mv {device} /root/lost-device")
    try:
        assert "is missing" in words(cluster.playbook(PLAYBOOK, succeeds=False))
    finally:
        cluster.out(HOST, f"mv /root/lost-device {device}")
    assert cluster.run(HOST, f"test -e {NOTE}").returncode == 1
    cluster.playbook(PLAYBOOK)
    assert is_away(cluster)
    closed(cluster, "REACTIVATE_AGENT")


def holding(cluster: Cluster, folder: Path, entry: str) -> None:
    """What a role does that disturbs the host by itself."""
    role = {"ansible.builtin.include_role": {"name": "deephdc.accelerators.gpu_hold", "tasks_from": entry}}
    play = folder / "hold.json"
    play.write_text(json.dumps([{"hosts": HOST, "gather_facts": False, "tasks": [{**role, "vars": {"gpu_hold_holder": "nvidia_driver"}}]}]))
    cluster.playbook(str(play))


def test_an_administrator_and_a_hold_each_keep_the_agent_away(cluster: Cluster, tmp_path: Path) -> None:
    """Whoever came first, and whoever gives it back first."""
    drain = {"mesos_drain_reason": "new fan", "mesos_drain_wait": 60}
    for first in ("hold", "drain"):
        for step in ("hold", "drain") if first == "hold" else ("drain", "hold"):
            if step == "hold":
                holding(cluster, tmp_path, "main")
            else:
                cluster.playbook(DRAIN, "--limit", HOST, variables=drain)
        (mark,) = cluster.out(HOST, f"cat {NOTE}").splitlines()[1:]
        assert sorted(mark.split(" + ")) == ["drained: new fan", "gpu_hold: nvidia_driver"] and is_away(cluster)
        if first == "hold":
            holding(cluster, tmp_path, "release")
            assert is_away(cluster) and cluster.out(HOST, f"cat {NOTE}").splitlines()[1:] == ["drained: new fan"]
            cluster.playbook(RESUME, "--limit", HOST)
        else:
            said = words(cluster.playbook(RESUME, "--limit", HOST, succeeds=False))
            assert "stays deactivated, because the role gpu_hold holds it (gpu_hold: nvidia_driver)" in said
            assert is_away(cluster) and cluster.out(HOST, f"cat {NOTE}").splitlines()[1:] == ["gpu_hold: nvidia_driver"]
            holding(cluster, tmp_path, "release")
        assert not is_away(cluster) and cluster.run(HOST, f"test -e {NOTE}").returncode == 1


def test_a_change_that_is_taken_back_opens_the_agent_again(cluster: Cluster) -> None:
    """A mistaken attribute, while a task runs there."""
    (made,) = start(cluster, app("working", "sleep 3000", **ON_HOST))
    try:
        wanted = {"mesos_agent_attributes": {"rack": "r9"}, "mesos_agent_wait": 0.05}
        said = words(cluster.playbook(PLAYBOOK, variables=wanted, succeeds=False))
        assert f"{HOST} still has task {made['id']}" in said and "take the change back and run again" in said and is_away(cluster)
        cluster.playbook(PLAYBOOK)
        assert not is_away(cluster) and cluster.run(HOST, f"test -e {NOTE}").returncode == 1
        assert [one["id"] for one in tasks(cluster, "working")] == [made["id"]]
    finally:
        remove(cluster, "working")


def test_a_little_less_memory_does_not_make_another_agent(cluster: Cluster) -> None:
    """The agent has 64 MiB more than the host would get now, as after a boot with another kernel."""
    read = "sed -n 's/.*mem:\\([0-9]*\\).*/\\1/p' /etc/default/mesos-agent"
    memory = int(cluster.out(HOST, read))
    cluster.playbook(PLAYBOOK, variables={"mesos_agent_resources": {"mem": memory + 64}})
    former = agent(cluster, HOST)["id"]
    assert changed(cluster.playbook(PLAYBOOK)) == []
    assert agent(cluster, HOST)["id"] == former and int(cluster.out(HOST, read)) == memory + 64
    cluster.playbook(PLAYBOOK, variables={"mesos_agent_resources": {"mem": memory}})


def test_an_agent_that_becomes_another_one_is_closed_as_the_former_one_was(cluster: Cluster) -> None:
    cluster.playbook(DRAIN, variables={"mesos_drain_hosts": HOST, "mesos_drain_reason": "new fan", "mesos_drain_wait": 60})
    former = agent(cluster, HOST)["id"]
    wanted = {"mesos_agent_attributes": {"rack": "r1"}}
    cluster.playbook(PLAYBOOK, variables=wanted)
    assert agent(cluster, HOST)["id"] != former and is_away(cluster)
    assert cluster.out(HOST, f"cat {NOTE}").splitlines()[1:] == ["drained: new fan"]
    # A run that was killed before it could close the new one.
    closed(cluster, "REACTIVATE_AGENT")
    cluster.out(HOST, f"echo 'as the former agent' >>{NOTE}")
    cluster.playbook(PLAYBOOK, variables=wanted)
    assert is_away(cluster) and cluster.out(HOST, f"cat {NOTE}").splitlines()[1:] == ["drained: new fan"]
    cluster.playbook(PLAYBOOK)
    assert is_away(cluster)
    cluster.playbook(RESUME, "--limit", HOST)
    assert not is_away(cluster)
