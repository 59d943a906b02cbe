# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What can't work is refused by one sentence, before a host is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from local import Cluster, changed
from mesos_site import secret

OWNS = (
    "roles/mesos_cluster/tasks/check.yml",
    "plugins/plugin_utils/_mesos/ensemble.py",
    "plugins/plugin_utils/_mesos/inventory.py",
    "plugins/plugin_utils/_mesos/settings.py",
)

PLAYBOOK = "playbooks/mesos.yml"


def said(cluster: Cluster, *arguments: str, **variables: Any) -> str:
    return " ".join(cluster.playbook(PLAYBOOK, "--check", *arguments, variables=variables, succeeds=False).split())


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"mesos_cluster_mesos_source": {}}, "mesos_cluster_mesos_source is not set, and no project offers binaries any more"),
        (
            {"mesos_cluster_mesos_source": {"path": "/x.tar.gz", "sha256": "0" * 64, "version": "1.5.0"}},
            "which lacks flags that the roles write",
        ),
        ({"mesos_cluster_mesos_source": {"path": "/x.tar.gz", "version": "1.11.0"}}, "has no sha256 of 64 hexadecimal digits"),
        ({"mesos_cluster_secrets": {}}, "mesos_cluster_secrets is not a dictionary of secrets"),
        ({"mesos_cluster_secrets": {"operator": "admin"}}, "mesos_cluster_secrets"),
        ({"mesos_cluster_users": ["root"]}, "mesos_cluster_users has root"),
        ({"mesos_cluster_ports": {"marathon": 4443}}, "gives 4443 to two daemons"),
        ({"mesos_cluster_zookeeper_ids": {"m1": 1, "m2": 1, "m3": 3}}, "both have 1"),
        ({"mesos_cluster_tsl": True}, "mesos_cluster_tsl"),
        ({"mesos_cluster_ca": "/etc/ca.pem"}, "mesos_cluster_ca is no certificate in PEM"),
    ],
)
def test_wrong_variables(cluster: Cluster, variables: dict[str, Any], sentence: str) -> None:
    output = said(cluster, **variables)
    assert sentence in output and "Traceback" not in output


def test_a_secret_is_in_no_sentence(cluster: Cluster) -> None:
    given = {"operator": "short:secret@0123", "agents": secret(cluster, "agents")}
    output = said(cluster, mesos_cluster_secrets=given)
    assert "short:secret" not in output and secret(cluster, "agents") not in output


def test_three_masters_do_not_become_one(cluster: Cluster, tmp_path: Path) -> None:
    """They would be two clusters, and Marathon would lead in both."""
    inventory = yaml.safe_load((cluster.inventory / "hosts.yml").read_text())

    def lose(group: Any) -> None:
        for host in ("m2", "m3"):
            (group.get("hosts") or {}).pop(host, None)
        for child in (group.get("children") or {}).values():
            lose(child or {})

    for name, group in inventory.items():
        if name != "local_hosts":
            lose(group or {})
    path = tmp_path / "hosts.yml"
    path.write_text(yaml.safe_dump(inventory))
    for more in ((), ("--check",)):
        variables = {"mesos_cluster_zookeeper_ids": {"m1": 1}}
        output = cluster.playbook(PLAYBOOK, *more, inventories=(str(path),), variables=variables, succeeds=False)
        assert "ZooKeeper runs with" in output and "the masters run with" in " ".join(output.split()), output[-3000:]
        assert "Put the former hosts back" in " ".join(output.split()) and changed(output) == []
