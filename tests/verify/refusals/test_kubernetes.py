# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Bad inventories of a Kubernetes site: sentences on the control node, and not even a connection to a host."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from local import ROOT


def run(tmp_path: Path, control: list[str], workers: list[str], **variables: object) -> str:
    """Output of the playbook; no name of a host resolves to anything."""
    groups = {"kubernetes_control_plane": control, "kubernetes_workers": workers}
    children = {group: {"hosts": {name: {"ansible_host": f"{name}.invalid"} for name in names}} for group, names in groups.items()}
    path = tmp_path / "hosts.json"
    path.write_text(json.dumps({"all": {"vars": variables, "children": children}}), encoding="utf-8")
    words = [f"{sys.prefix}/bin/ansible-playbook", "-i", str(path), str(ROOT / "playbooks/kubernetes.yml")]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    assert done.returncode != 0
    return " ".join(done.stdout.split())


def refused(tmp_path: Path, *groups: list[str], **variables: object) -> str:
    said = run(tmp_path, *groups, **variables)
    assert "UNREACHABLE" not in said, "a host was contacted"
    return said


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path):
    variables = {
        "kubernetes_cluster_version": "1.28.0",
        "kubernetes_cluster_pod_network": "10.96.0.0/16",
        "kubernetes_cluster_kubelet": {"kind": "Other"},
        "kubernetes_cluster_queue": "kueue",
        "kubernetes_cluster_issuers": [{"name": "iam", "url": "http://iam.invalid", "audiences": ["kubernetes"], "audience": "x"}],
        "kubernetes_cluster_policy": {"accounts": [{"name": "physics"}, {"name": "physics"}]},
    }
    sentences = [
        "kubernetes_cluster_version is 1.28.0, but no test ran on 1.28",
        "kubernetes_cluster_pod_network 10.96.0.0/16 and kubernetes_cluster_service_network 10.96.0.0/16 overlap",
        "kubernetes_cluster_kubelet has the field kind, which the collection sets itself",
        "kubernetes_cluster_issuers has the unknown key 'audience' (did you mean audiences?).",
        "kubernetes_cluster_issuers: iam: url is 'http://iam.invalid': write an https address",
        "kubernetes_cluster_policy names physics as an account more than once: leave one of them.",
        "but kubernetes_cluster_queue_sha256 is empty: download that file once",
    ]
    said = refused(tmp_path, ["cp1"], ["gpu1"], **variables)
    assert [sentence for sentence in sentences if sentence not in said] == []


def test_a_misspelt_variable_and_a_wrong_policy_are_refused(tmp_path: Path):
    assert "did you mean kubernetes_cluster_policy" in refused(tmp_path, ["cp1"], ["gpu1"], kubernetes_cluster_polices={})
    accounts = [{"name": "physics", "limits": {"gpu": 2}}]
    said = refused(tmp_path, ["cp1"], ["gpu1"], kubernetes_cluster_policy={"accounts": accounts})
    assert "the unknown key 'gpu' (did you mean gpus?)" in said


def test_the_good_inventory_is_not_refused(tmp_path: Path):
    """It gets as far as trying to connect: the refusals above are the inventories' fault."""
    policy = {"accounts": [{"name": "physics", "groups": ["iam:physics"], "limits": {"gpus": 2}}]}
    assert "UNREACHABLE" in run(tmp_path, ["cp1"], ["gpu1"], kubernetes_cluster_policy=policy)
