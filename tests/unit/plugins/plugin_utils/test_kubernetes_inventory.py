# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Each mistake in an inventory for Kubernetes is one sentence that names the variable or group and the host."""

from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import manager, settings
from ansible_collections.deephdc.accelerators.tests.unit.plugins.plugin_utils.kubernetes_examples import GROUPS, HostVars, host, hosts, site

# What names alone would not show: scripts/narrow.py.
READS = ("plugins/filter/kubernetes_plan.yml", "plugins/filter/kubernetes_inventory_errors.yml")
OBJECT = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "network"}}

FORMS = "write exclusive, shard:N with N pods per GPU in turns, such as shard:4, or mps:N"


def errors(hostvars=None, groups=None, **settings):
    return [str(found) for found in manager.check(site(hostvars, groups, **settings))]


def inventory(**variables):
    """Hosts that were not read yet, as the inventory has them."""
    return HostVars({name: dict(variables.get(name, {})) for name in ("cp1", "w1", "w2")})


def test_a_right_inventory_has_no_errors():
    assert errors(inventory()) == []
    assert errors(network="manifests", network_manifests=[OBJECT], kubelet={"failSwapOn": False}, kube_proxy={"mode": "nftables"}) == []
    assert errors(endpoint="api.example.org:6443", gpus="none", accept_hardware="w1, w2,", node_prefix="25", offer_wait="4") == []
    assert errors(device_plugin_settings={"env": {"LD_LIBRARY_PATH": "/opt/lib"}, "mounts": [{"host_path": "/run/a", "path": "/b"}]}) == []


@pytest.mark.parametrize(
    "groups, sentence",
    [
        (
            {"kubernetes_control_plane": []},
            "The inventory has no host in the group kubernetes_control_plane: name the one that runs the control plane.",
        ),
        (
            {"kubernetes_control_plane": ["cp2", "cp1"]},
            "The group kubernetes_control_plane has 2 hosts (cp1, cp2), and of two hosts etcd needs both, so the loss of either stops the "
            "cluster: leave one or three hosts in it.",
        ),
        ({"kubernetes_workers": []}, "The inventory has no host in the group kubernetes_workers: name the hosts that run pods."),
        (
            {"kubernetes_workers": ["w1", "cp1"]},
            "cp1 is in kubernetes_control_plane and in kubernetes_workers: take it out of one of them.",
        ),
    ],
)
def test_groups(groups, sentence):
    hostvars = HostVars({name: {} for name in ("cp1", "cp2", "cp3", "w1", "w2")})
    assert errors(hostvars, {**GROUPS, **groups}) == [sentence]


def test_an_inventory_without_the_groups():
    assert len(errors(HostVars(), {})) == 2


@pytest.mark.parametrize(
    "settings, sentence",
    [
        (
            {"name": "My cluster"},
            "kubernetes_cluster_name is 'My cluster': write small letters, digits and '-', a letter or digit at both ends.",
        ),
        (
            {"proof_image": None},
            "kubernetes_cluster_proof_image is None: write the name of an image, such as docker.io/library/busybox:1.37.",
        ),
        ({"pod_network": 7}, "kubernetes_cluster_pod_network is 7, which is no IPv4 network: write one such as 10.244.0.0/16."),
        ({"name": 7}, "kubernetes_cluster_name is 7: write small letters, digits and '-', a letter or digit at both ends."),
        ({"version": "1.37"}, "kubernetes_cluster_version is '1.37': write a whole version as text, such as '1.37.2'."),
        ({"version": 1.37}, "kubernetes_cluster_version is 1.37: write a whole version as text, such as '1.37.2'."),
        ({"version": "v1.37.2"}, "kubernetes_cluster_version is 'v1.37.2': write a whole version as text, such as '1.37.2'."),
        ({"version": "1.35.6"}, "kubernetes_cluster_version is 1.35.6, but no test ran on 1.35: choose one of 1.36, 1.37."),
        ({"version": "1.38.0"}, "kubernetes_cluster_version is 1.38.0, but no test ran on 1.38: choose one of 1.36, 1.37."),
        (
            {"endpoint": "https://api.example.org"},
            "kubernetes_cluster_endpoint is 'https://api.example.org': write a name or IPv4 address and a port, such "
            "as api.example.org:6443, "
            "or leave it empty.",
        ),
        (
            {"endpoint": "api:70000"},
            "kubernetes_cluster_endpoint is 'api:70000': write a name or IPv4 address and a port, such as api.example.org:6443, "
            "or leave it empty.",
        ),
        ({"network": "flannel"}, "kubernetes_cluster_network is 'flannel': choose one of routes, manifests."),
        ({"gpus": True}, "kubernetes_cluster_gpus is True: choose one of device_plugin, dra, none."),
        ({"image_pull_policy": "never"}, "kubernetes_cluster_image_pull_policy is 'never': choose one of Always, IfNotPresent, Never."),
        (
            {"device_plugin_image": ""},
            "kubernetes_cluster_device_plugin_image is '': write the name of an image, such as nvcr.io/nvidia/k8s-device-plugin:v0.18.0.",
        ),
        (
            {"proof_image": "a b"},
            "kubernetes_cluster_proof_image is 'a b': write the name of an image, such as docker.io/library/busybox:1.37.",
        ),
        (
            {"pod_network": "10.244.0.1"},
            "kubernetes_cluster_pod_network is '10.244.0.1', which is no IPv4 network: write one such as 10.244.0.0/16.",
        ),
        (
            {"pod_network": "10.244.0.1/16"},
            "kubernetes_cluster_pod_network is '10.244.0.1/16', which is no IPv4 network: write one such as 10.244.0.0/16.",
        ),
        (
            {"service_network": "fd00::/108"},
            "kubernetes_cluster_service_network is 'fd00::/108', which is no IPv4 network: write one such as 10.96.0.0/16.",
        ),
        (
            {"service_network": "10.96.0.0/29"},
            "kubernetes_cluster_service_network is 10.96.0.0/29, a size that Kubernetes does not take: give it a prefix from /12 to /28.",
        ),
        (
            {"service_network": "10.244.4.0/24"},
            "kubernetes_cluster_pod_network 10.244.0.0/16 and kubernetes_cluster_service_network 10.244.4.0/24 "
            "overlap: give each a network of "
            "its own.",
        ),
        ({"node_prefix": "/24"}, "kubernetes_cluster_node_prefix is '/24': write a whole number such as 24."),
        (
            {"node_prefix": 15},
            "kubernetes_cluster_node_prefix is 15, which does not fit kubernetes_cluster_pod_network 10.244.0.0/16: "
            "write a number from 16 to 30.",
        ),
        (
            {"pod_network": "10.0.0.0/12", "service_network": "10.96.0.0/16", "node_prefix": 29},
            "kubernetes_cluster_node_prefix is 29, which does not fit kubernetes_cluster_pod_network 10.0.0.0/12: "
            "write a number from 12 to 28.",
        ),
        (
            {"pod_network": "10.244.0.0/23"},
            "kubernetes_cluster_pod_network 10.244.0.0/23 has 2 shares of /24, but the cluster has 3 hosts: write a larger "
            "kubernetes_cluster_node_prefix or a larger network.",
        ),
        ({"offer_wait": -1}, "kubernetes_cluster_offer_wait is -1: write a number of seconds, such as 300."),
        ({"offer_wait": "long"}, "kubernetes_cluster_offer_wait is 'long': write a number of seconds, such as 300."),
        ({"kubelet": []}, "kubernetes_cluster_kubelet is a list: write a dictionary of its fields, {} for none."),
        ({"kube_proxy": "nftables"}, "kubernetes_cluster_kube_proxy is 'nftables': write a dictionary of its fields, {} for none."),
        (
            {"kubelet": {"cgroupDriver": "cgroupfs"}},
            "kubernetes_cluster_kubelet has the field cgroupDriver, which the collection sets itself: leave it out.",
        ),
        (
            {"kube_proxy": {"kind": "x"}},
            "kubernetes_cluster_kube_proxy has the field kind, which the collection sets itself: leave it out.",
        ),
        (
            {"network_manifests": [OBJECT]},
            "kubernetes_cluster_network_manifests is set, but kubernetes_cluster_network is 'routes': set "
            "kubernetes_cluster_network to manifests.",
        ),
        (
            {"network": "manifests"},
            "kubernetes_cluster_network is manifests, but kubernetes_cluster_network_manifests is empty: give the "
            "objects of the network there.",
        ),
        (
            {"network": "manifests", "network_manifests": "kind: Namespace"},
            "kubernetes_cluster_network_manifests is no list of Kubernetes objects: give each a dictionary with "
            "apiVersion, kind and metadata.",
        ),
        (
            {"network": "manifests", "network_manifests": [{"kind": "Namespace"}]},
            "kubernetes_cluster_network_manifests is no list of Kubernetes objects: give each a dictionary with "
            "apiVersion, kind and metadata.",
        ),
        (
            {"accept_hardware": "w1,w3"},
            "kubernetes_cluster_accept_hardware names w3, which is not in kubernetes_workers: correct the name, or the group.",
        ),
        (
            {"accept_hardware": ["cp1"]},
            "kubernetes_cluster_accept_hardware names cp1, which is not in kubernetes_workers: correct the name, or the group.",
        ),
    ],
)
def test_variables_of_the_cluster(settings, sentence):
    assert errors(**settings) == [sentence]


@pytest.mark.parametrize(
    "given, sentence",
    [
        ("x", " is 'x': write a dictionary with env and mounts, {} for none."),
        ({"envs": {}}, " has the unknown key 'envs' (did you mean env?)."),
        ({"env": ["A=b"]}, ": env is a list: write a dictionary of names and texts."),
        ({"env": {"CONFIG_FILE": "x"}}, ": env has CONFIG_FILE, which the collection sets itself: leave it out."),
        ({"env": {"1A": "x"}}, ": env has the name '1A': write letters, digits and '_', no digit first."),
        ({"env": {"PASS_DEVICE_SPECS": True}}, ": env has True as PASS_DEVICE_SPECS: write it as text, in quotes."),
        ({"mounts": ["/a:/b"]}, ": mounts is no list of dictionaries: write a list such as [{host_path: /opt/site, path: /opt/site}]."),
        ({"mounts": [{"host_path": "/a", "path": "/b", "type": "x"}]}, ": mounts has the unknown key 'type' (known: host_path, path)."),
        ({"mounts": 7}, ": mounts is no list of dictionaries: write a list such as [{host_path: /opt/site, path: /opt/site}]."),
        ({"mounts": [{"host_path": "/a"}]}, ": mounts has None as path: write an absolute path."),
        ({"mounts": [{"host_path": "a", "path": "/b"}]}, ": mounts has 'a' as host_path: write an absolute path."),
    ],
)
def test_settings_of_the_device_plugin(given, sentence):
    assert errors(device_plugin_settings=given) == [f"kubernetes_cluster_device_plugin_settings{sentence}"]


def test_an_unknown_setting_is_no_silent_default():
    with pytest.raises(ValueError, match=r"^The cluster has the unknown key 'pod_networks' \(did you mean pod_network\?\)\.$"):
        errors(pod_networks="10.0.0.0/16")
    with pytest.raises(ValueError, match=r"^The settings of the cluster must be a dictionary, such as \{name: kubernetes\}\.$"):
        manager.check(site()._replace(settings=[]))


def test_hosts_that_are_no_dictionary_or_lack_one():
    with pytest.raises(ValueError, match=r"^The variables of hosts must be a dictionary, as hostvars is\.$"):
        errors([])
    with pytest.raises(ValueError, match=r"^The host w2 is not in the inventory\.$"):
        errors(HostVars(cp1={}, w1={}))


@pytest.mark.parametrize("given", ["", 7, {}])
def test_manifests_that_are_no_list(given):
    assert errors(network_manifests=given) == [
        "kubernetes_cluster_network_manifests is no list of Kubernetes objects: give each a dictionary with apiVersion, kind and metadata."
    ]


@pytest.mark.parametrize("sharing", ["shard", "shard:0", "shard:99999", 4, True, "Exclusive"])
def test_sharing_of_a_worker(sharing):
    shown = repr(sharing)
    assert errors(inventory(w2={"kubernetes_cluster_gpu_sharing": sharing})) == [
        f"kubernetes_cluster_gpu_sharing of w2 is {shown}: {FORMS}."
    ]


class TestNames:
    def errors(self, *names, **variables):
        hostvars = HostVars({name: dict(variables) for name in ("cp1", *names)})
        return errors(hostvars, {**GROUPS, "kubernetes_workers": list(names)})

    @pytest.mark.parametrize("name", ["gpu_1", "-gpu", "g" * 64, "gpu-"])
    def test_no_label(self, name):
        assert self.errors(name) == [
            f"The name {name!r} of {name} can't be that of a node: give the host a name of at most 63 small letters, "
            "digits and '-', a letter or "
            "digit at both ends."
        ]

    def test_two_hosts_with_one(self):
        assert self.errors("gpu1.b.example", "GPU1.a.example") == [
            "The hosts GPU1.a.example and gpu1.b.example have the same node name gpu1: correct one of them."
        ]

    def test_an_alias_or_an_address_is_no_name(self):
        assert self.errors("gpu_1", "gpu_1.b", ansible_host="gpu.example.org") == []
        assert self.errors("192.0.2.1", "192.0.2.2") == []


class TestAddresses:
    def test_two_hosts_with_one(self):
        assert errors(inventory(w1={"kubernetes_cluster_address": "192.0.2.1"}, w2={"kubernetes_cluster_address": "192.0.2.1"})) == [
            "The hosts w1 and w2 have the same kubernetes_cluster_address 192.0.2.1: correct one of them."
        ]

    def test_no_address(self):
        assert errors(inventory(w1={"kubernetes_cluster_address": "w1.example.org"})) == [
            "kubernetes_cluster_address of w1 is 'w1.example.org', which is no IPv4 address: write one that the host has."
        ]

    @pytest.mark.parametrize("name", ["kubernetes_cluster_address", "ansible_host"])
    def test_inside_of_the_clusters_networks(self, name):
        assert errors(inventory(cp1={name: "10.244.1.2"}, w1={name: "10.96.0.1"})) == [
            f"{name} of cp1 is 10.244.1.2, which is inside kubernetes_cluster_pod_network 10.244.0.0/16: change "
            "kubernetes_cluster_pod_network.",
            f"{name} of w1 is 10.96.0.1, which is inside kubernetes_cluster_service_network 10.96.0.0/16: "
            "change kubernetes_cluster_service_network.",
        ]

    def test_beside_a_network_that_is_none(self):
        assert len(errors(inventory(w1={"kubernetes_cluster_address": "192.0.2.1"}), pod_network="x", service_network="y")) == 2


class TestDisagreements:
    def test_a_variable_of_the_cluster_that_two_hosts_see_differently(self):
        everywhere = {"kubernetes_cluster_name": "physics"}
        found = manager.check(site(inventory(cp1=everywhere, w1={**everywhere, "kubernetes_cluster_taint_gpus": None}, w2={})))
        assert [str(one) for one in found] == [
            "kubernetes_cluster_taint_gpus differs between cp1 and w1: set it once for all hosts of the cluster, in group_vars/all.",
            "kubernetes_cluster_name differs between cp1 and w2: set it once for all hosts of the cluster, in group_vars/all.",
        ]
        assert [(one.host, one.remedy) for one in found] == [
            (name, "set it once for all hosts of the cluster, in group_vars/all") for name in ("w1", "w2")
        ]

    def test_it_is_compared_as_written(self):
        class Written(HostVars):
            def raw_get(self, host):
                return {"kubernetes_cluster_name": "{{ inventory_hostname }}"}

        assert errors(Written({name: {"kubernetes_cluster_name": name} for name in ("cp1", "w1", "w2")})) == []

    def test_what_each_host_has_for_itself(self):
        own = {
            "kubernetes_cluster_address": "192.0.2.1",
            "kubernetes_node_device_root": "/sim",
            "kubernetes_cluster_gpu_sharing": "shard:2",
        }
        assert errors(inventory(w1=own)) == []


def test_findings_are_data():
    (found,) = manager.check(site(inventory(w2={"kubernetes_cluster_gpu_sharing": "shard"})))
    assert found.as_dict() == {
        "layer": "inventory",
        "sentence": f"kubernetes_cluster_gpu_sharing of w2 is 'shard': {FORMS}.",
        "host": "w2",
        "device": None,
        "remedy": FORMS,
    }


def test_the_order_of_the_inventory_makes_no_difference():
    hostvars = hosts(w1=host("w1", 11, kubernetes_cluster_gpu_sharing=0), w2=host("w2", 12, kubernetes_cluster_gpu_sharing=0))
    other = HostVars(reversed(hostvars.items()))
    assert len(errors(hostvars)) == 2
    assert errors(other, {**GROUPS, "kubernetes_workers": ["w2", "w1"]}) == errors(hostvars)


@pytest.mark.parametrize("name", ["kubernetes_inventory_errors", "kubernetes_plan"])
def test_documented_settings_are_those_that_are_known(name):
    filters = pathlib.Path(settings.__file__).resolve().parents[2] / "filter"
    document = yaml.safe_load((filters / f"{name}.yml").read_text(encoding="utf-8"))
    options = document["DOCUMENTATION"]["options"]["cluster"]["suboptions"]
    assert {key: option["default"] for key, option in options.items()} == settings.DEFAULTS
    assert {key: tuple(option["choices"]) for key, option in options.items() if "choices" in option} == settings.CHOICES
