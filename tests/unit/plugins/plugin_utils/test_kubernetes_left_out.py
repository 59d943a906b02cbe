# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Nodes that the cluster has and the inventory lacks."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.left_out import left_out


def test_only_what_the_inventory_lacks_is_named():
    assert left_out([], []) == {"errors": [], "warnings": []}
    assert left_out(["cp1 True", "gpu1 False"], ["cp1", "gpu1", "gpu2"]) == {"errors": [], "warnings": []}


@pytest.mark.parametrize("line", ["gpu2 Unknown", "gpu2 False", "gpu2 ", "gpu2"])
def test_a_node_that_works_is_refused_and_one_that_does_not_is_named(line):
    found = left_out(["gpu1 True", line], ["cp1"])
    assert len(found["errors"]) == len(found["warnings"]) == 1
    assert found["errors"][0].startswith("gpu1 is a node of the cluster and works") and "kubernetes_remove_node first" in found["errors"][0]
    assert (
        found["warnings"][0].startswith("gpu2 is a node of the cluster and not ready") and "kubernetes_remove_dead" in found["warnings"][0]
    )


@pytest.mark.parametrize("status", ["True", "Unknown"])
def test_a_host_of_the_control_plane_does_not_become_a_worker(status):
    """Its member of etcd would be lost."""
    labels = '{"kubernetes.io/hostname":"cp3","node-role.kubernetes.io/control-plane":""}'
    found = left_out([f"cp3 {status} {labels}"], ["cp1"])
    (said,) = found["errors"] + found["warnings"]
    assert "Put its host into kubernetes_control_plane again" in said and ("kubectl delete node cp3" in said) == (status == "True")
    assert "kubernetes_workers" not in said and "kubernetes_remove_node" not in said


@pytest.mark.parametrize("lines", ["gpu1 True", [1], None])
def test_something_else(lines):
    with pytest.raises(ValueError, match="The nodes must be a list of texts"):
        left_out(lines, [])
