# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""An administrator and a role each close an agent, and only who closed it opens it."""

from __future__ import annotations

import json
from pathlib import Path

from local import Cluster
from mesos_agents_site import DRAIN, HOST, NOTE, RESUME, is_away, words

OWNS = (
    "roles/mesos_agent/meta/manager.yml",
    "roles/mesos_agent/tasks/admin.yml",
    "roles/mesos_agent/tasks/hold.yml",
    "roles/mesos_agent/tasks/release.yml",
    "plugins/module_utils/_model/marks.py",
    "plugins/modules/mesos_agent_hold.py",
)


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
