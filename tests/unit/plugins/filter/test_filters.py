# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the filters have in common: errors are Ansible's own and one sentence, results are plain data."""

from __future__ import annotations

import json

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.deephdc.accelerators.plugins.filter import glue2, hostlist, kubernetes, mesos, nova_lxd, opennebula, slurm, vfio
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import amd, gpu, mig_gpu

FILTERS = {
    name: function
    for module in (glue2, hostlist, kubernetes, mesos, nova_lxd, opennebula, slurm, vfio)
    for name, function in module.FilterModule().filters().items()
}
HOST = [gpu(0), mig_gpu(1, ["1g.10gb", "3g.40gb"]), amd(2), gpu(3, driver=None, device_files=[])]
WORKERS = {"kubernetes_workers": ["gpu1"]}
OF_A_CLUSTER = {"slurm_gres_conf", "slurm_tres"}
PODS = [
    {
        "metadata": {"uid": "1", "namespace": "physics", "name": "train"},
        "status": {"containerStatuses": [{"name": "c", "containerID": number, "state": {"running": {}}}]},
    }
    for number in "12"
]
ARGUMENTS = {
    "glue2_accelerators": ["urn:ogf:ExecutionEnvironment:gpu1"],
    "slurm_gres": ["shard:2"],
    "kubernetes_access_changes": [[], []],
    "kubernetes_control_plane_endpoint_errors": ["b:1"],
    "kubernetes_device_plugin_config": [2],
    "kubernetes_gpu_change_errors": [{"ways": ["device_plugin"], "pods": [{"pod": "pod a/b", "node": "gpu1", "way": "device_plugin"}]}],
    "kubernetes_inventory_errors": [WORKERS, ["gpu1"], {}],
    "kubernetes_left_out": [["gpu1"]],
    "kubernetes_network_errors": [{"pod_network": "10.0.0.0/16"}],
    "kubernetes_node_events": [{"names": {"gpu1": "gpu1"}, "unfit": {"gpu1": "it is missing"}}, "2026-11-24T10:00:00Z"],
    "kubernetes_node_patches": [{"nodes": [{"name": "gpu1", "host": "gpu1", "labels": {"a": "1"}, "taints": []}], "unfit": {}}],
    "kubernetes_policy_changes": [{"managed": True, "objects": [], "unenforced": [], "purge": False}],
    "kubernetes_plan": [{**WORKERS, "kubernetes_control_plane": ["cp1"]}, {}],
    "kubernetes_upgrade_configuration": ["Never", 2, 60],
    "kubernetes_upgrade_plan": [{**WORKERS, "kubernetes_control_plane": ["cp1"]}, {"cp1": "cp1"}, [], {}, "1.37.3"],
    "kubernetes_upgrade_restarted": [PODS[1:]],
    "opennebula_inventory_errors": [[]],
    "opennebula_pci_conf": [["10de:20b0"]],
    "opennebula_plan": [["gpu1"], []],
}


def input_of(name):
    if name == "hostlist_fold":
        return ["gpu1", "gpu2"]
    if name == "hostlist_expand":
        return "gpu[1-2]"
    if name == "opennebula_inventory_errors":
        return [{"name": "machine"}]
    if name == "opennebula_pci_conf":
        return ":filter: '0:0'\n"
    if name == "kubernetes_access_changes":
        return [{"kind": "ClusterRole", "metadata": {"name": "view"}}]
    if name == "kubernetes_gpu_change_errors":
        return "dra"
    if name == "kubernetes_inventory_errors":
        return {"gpu1": {}}
    if name == "kubernetes_left_out":
        return ["gpu1 True", "gpu2 Unknown"]
    if name == "kubernetes_network_errors":
        return ["cluster-cidr=10.244.0.0/16"]
    if name == "kubernetes_node_events":
        return [{"metadata": {"name": "gpu2.accelerator-lost"}, "reason": "AcceleratorLost"}]
    if name == "kubernetes_node_patches":
        return [{"metadata": {"name": "gpu1"}}]
    if name == "kubernetes_policy_changes":
        return ['{"items": [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}]}']
    if name == "kubernetes_plan":
        facts = {"distribution": "Debian", "distribution_major_version": "13", "accelerators": HOST}
        return {
            host: {
                "ansible_facts": {**facts, "hostname": host, "default_ipv4": {"address": f"192.0.2.{number}"}},
                "kubernetes_node_host": {"cgroup": 2, "containerd": ""},
            }
            for number, host in enumerate(("cp1", "gpu1"))
        }
    if name.startswith("kubernetes_control_plane_"):
        return ["a:1"] if "endpoint" in name else [{"item": "cp1", "stdout": "made"}]
    if name.startswith("kubernetes_upgrade_"):
        return {"configuration": "1.37.3", "plan": {"cp1": "api 1.37.2"}, "restarted": PODS[:1]}[name.split("_")[2]]
    if name == "opennebula_plan":
        return {"gpu1": {"ansible_facts": {"accelerators": HOST}}}
    return [{"name": "gpu1", "accelerators": HOST}] if name in OF_A_CLUSTER else HOST


@pytest.mark.parametrize("name", sorted(FILTERS))
@pytest.mark.parametrize("wrong", [None, 7, {"kind": "gpu"}, [7], "gpu[1"])
def test_wrong_input_is_one_sentence(name, wrong):
    with pytest.raises(AnsibleFilterError) as raised:
        FILTERS[name](wrong, *ARGUMENTS.get(name, []))
    assert str(raised.value).endswith(".")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", sorted(FILTERS))
def test_results_are_plain_data(name):
    result = FILTERS[name](input_of(name), *ARGUMENTS.get(name, []))
    assert result
    assert json.loads(json.dumps(result)) == result


@pytest.mark.parametrize("name", sorted(FILTERS))
def test_the_input_is_left_as_it_is(name):
    given = input_of(name)
    before = json.dumps(given)
    FILTERS[name](given, *ARGUMENTS.get(name, []))
    assert json.dumps(given) == before
