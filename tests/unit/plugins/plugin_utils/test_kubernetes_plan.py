# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The plan of a Kubernetes cluster: what facts contradict, what each worker offers, and what happens when a device is lost."""

from __future__ import annotations

import gc
import json
import time

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import manager, manifests
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import plan as kubernetes_plan
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import amd, gpu, mig_gpu
from ansible_collections.deephdc.accelerators.tests.unit.plugins.plugin_utils.kubernetes_examples import GROUPS, HostVars, host, hosts, site

NO_PLUGIN = "kubernetes_cluster_device_plugins names no plugin for AMD"
REPAIR = "repair it, or name w1 in kubernetes_cluster_accept_hardware if it is gone for good"
KUBELET = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
PROXY = {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration"}
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def plan(hostvars=None, groups=None, recorded="", **settings):
    found = manager.plan(site(hostvars, groups, **settings), recorded)
    assert set(found) == set(kubernetes_plan.nothing([]))
    return found


def good(*arguments, **keywords):
    found = plan(*arguments, **keywords)
    assert found["errors"] == []
    return found


def errors(*arguments, **keywords):
    found = plan(*arguments, **keywords)
    # Nothing of a cluster that must not be changed.
    assert found["record"] == "" and found["kubeadm"] == {"init": [], "join": {}} and found["manifests"] == found["nodes"] == []
    assert [problem["sentence"] for problem in found["findings"][: len(found["errors"])]] == found["errors"]
    return found["errors"]


def w1(accelerators=(), **changes):
    return hosts(w1=host("w1", 11, accelerators, **changes))


def test_a_cluster():
    found = good()
    assert found["names"] == {"cp1": "cp1", "w1": "w1", "w2": "w2"}
    assert found["addresses"] == {"cp1": "172.20.0.11", "w1": "172.20.0.12", "w2": "172.20.0.13"}
    assert found["endpoint"] == "172.20.0.11:6443"
    assert found["offers"] == {"w1": {"nvidia.com/gpu": 2}, "w2": {"nvidia.com/gpu": 2}}
    assert found["probes"] == [{"node": name, "resource": "nvidia.com/gpu", "count": 2} for name in ("w1", "w2")]
    assert (found["unfit"], found["lost"], found["warnings"], found["findings"]) == ({}, [], [], [])
    assert (found["version"], found["network"], found["pod_network"]) == ("1.37.2", "routes", "10.244.0.0/16")
    (name,) = {node["labels"][manifests.PLUGIN_LABEL] for node in found["nodes"]}
    assert found["nodes"][0] == {
        "name": "w1",
        "host": "w1",
        "labels": {"accelerators.deephdc.org/a100": "2", "accelerators.deephdc.org/device-plugin": name},
        "taints": [TAINT],
    }
    assert [(one["kind"], one["metadata"]["name"]) for one in found["manifests"]] == [
        ("Namespace", "deephdc-accelerators"),
        ("ConfigMap", name),
        ("DaemonSet", name),
    ]
    assert json.loads(json.dumps(found)) == found


def test_names_are_those_of_the_hosts_and_findings_those_of_the_inventory():
    hostvars = w1([gpu(0)], facts={"hostname": "GPU-Node"}, kubernetes_cluster_address="192.0.2.7")
    found = good(hostvars, endpoint="api.example.org:443")
    assert (found["names"]["w1"], found["addresses"]["w1"], found["endpoint"]) == ("gpu-node", "192.0.2.7", "api.example.org:443")
    assert found["offers"]["w1"] == {"nvidia.com/gpu": 1}
    assert [(node["name"], node["host"]) for node in found["nodes"]] == [("gpu-node", "w1"), ("w2", "w2")]


# --- what facts contradict ---


def test_mistakes_of_the_inventory_are_errors_of_the_plan():
    assert errors(groups={"kubernetes_workers": ["w1", "w2"]}) == [
        "The inventory has no host in the group kubernetes_control_plane: name the one that runs the control plane."
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"facts": {"hostname": None}},
        {"facts": {"distribution": None}},
        {"facts": {"accelerators": None}},
        {"kubernetes_node_host": None},
        {"kubernetes_node_host": {"cgroup": "", "containerd": ""}},
        {"ansible_facts": None},
    ],
)
def test_a_host_that_was_not_read(changes):
    assert errors(w1(**changes)) == ["w1 was not read: bring it up, or take it out of kubernetes_workers, then run again."]


def test_a_control_plane_that_was_not_read():
    assert errors(hosts(cp1={})) == ["cp1 was not read: bring it up, or take it out of kubernetes_control_plane, then run again."]
    good(hosts(cp1=host("cp1", 10, facts={"accelerators": None})))  # its devices belong to no manager


@pytest.mark.parametrize(
    "changes, sentence",
    [
        (
            {"facts": {"distribution": "Ubuntu", "distribution_major_version": "24"}},
            "w1 runs Ubuntu 24, which is not supported (supported: Debian 12, Debian 13): reinstall it, or set "
            "kubernetes_cluster_untested_platforms to true to try it all the same.",
        ),
        (
            {"facts": {"swaptotal_mb": 2047}},
            "w1 has 2047 MiB of swap, with which kubelet does not start: turn swap off there, or set failSwapOn to false in "
            "kubernetes_cluster_kubelet.",
        ),
        ({"containerd": "1.5.13"}, "w1 has containerd 1.5.13, but 1.6 or newer is needed: upgrade it."),
        ({"containerd": "unknown"}, "w1 has containerd unknown, but 1.6 or newer is needed: upgrade it."),
        ({"facts": {"default_ipv4": {}}}, "w1 has no default IPv4 address: set kubernetes_cluster_address for it."),
        ({"facts": {"hostname": "w2"}}, "The hosts w1 and w2 have the same node name w2: correct one of them."),
        (
            {"facts": {"hostname": "gpu_1"}},
            "The name 'gpu_1' of w1 can't be that of a node: give the host a name of at most 63 small letters, digits and '-', a letter or "
            "digit at both ends.",
        ),
        (
            {"facts": {"default_ipv4": {"address": "172.20.0.13"}}},
            "The hosts w1 and w2 have the same address 172.20.0.13: correct one of them.",
        ),
        (
            {"facts": {"default_ipv4": {"address": "10.244.3.4"}}},
            "The address 10.244.3.4 of w1 is inside kubernetes_cluster_pod_network 10.244.0.0/16: change kubernetes_cluster_pod_network.",
        ),
        (
            {"facts": {"default_ipv4": {"address": "10.96.0.1"}}},
            "The address 10.96.0.1 of w1 is inside kubernetes_cluster_service_network 10.96.0.0/16: change "
            "kubernetes_cluster_service_network.",
        ),
        (
            {"kubernetes_cluster_address": "192.0.2.9", "facts": {"all_ipv4_addresses": ["192.0.2.8", "127.0.0.2"]}},
            "kubernetes_cluster_address of w1 is 192.0.2.9, but w1 has 192.0.2.8, 127.0.0.2: correct it.",
        ),
    ],
)
def test_what_facts_contradict(changes, sentence):
    assert errors(w1(**changes)) == [sentence]


@pytest.mark.parametrize(
    "facts, sentence",
    [
        ({"processor_vcpus": 1}, "cp1 has 1 CPU, but a control plane needs 2: give it more, or choose another host."),
        ({"memtotal_mb": 1000}, "cp1 has 1000 MiB of memory, but a control plane needs 1700: give it more, or choose another host."),
    ],
)
def test_a_control_plane_that_is_too_small(facts, sentence):
    assert errors(hosts(cp1=host("cp1", 10, facts=facts))) == [sentence]
    good(w1(facts=facts))
    good(hosts(cp1=host("cp1", 10, facts=dict.fromkeys(facts))))  # not known is not too small


@pytest.mark.parametrize("containerd", ["", "1.6.20~ds1", "1.7.24", "v2.1.9", "10.0"])
def test_containerd_that_is_taken_or_not_there_yet(containerd):
    good(w1(containerd=containerd))


def test_what_a_site_may_decide():
    good(w1(facts={"swaptotal_mb": 2047}), kubelet={"failSwapOn": False})
    assert errors(w1(facts={"swaptotal_mb": 2047}), kubelet={"failSwapOn": True})
    good(w1(facts={"distribution": "Ubuntu"}), untested_platforms="true")


def test_two_devices_with_one_file():
    found = plan(w1([gpu(0), gpu(1, device_files=["/dev/nvidia0"])]))
    assert found["errors"] == ["w1: The accelerators at 0000:01:00.0 and 0000:02:00.0 have the same device file /dev/nvidia0."]
    assert (found["findings"][0]["layer"], found["findings"][0]["host"]) == ("driver", "w1")


def test_a_damaged_record():
    with pytest.raises(ValueError, match="The record of accelerators on cp1 is damaged: restore or remove it"):
        plan(recorded="{}")


# --- what is offered ---


def test_mig_instances_are_resources_of_their_own():
    found = good(w1([mig_gpu(0, ["1g.5gb", "1g.5gb", "3g.20gb"]), gpu(1)]))
    assert found["offers"]["w1"] == {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.5gb": 2, "nvidia.com/mig-3g.20gb": 1}
    assert [probe for probe in found["probes"] if probe["node"] == "w1"] == [
        {"node": "w1", "resource": "nvidia.com/gpu", "count": 1},
        {"node": "w1", "resource": "nvidia.com/mig-1g.5gb", "count": 2},
        {"node": "w1", "resource": "nvidia.com/mig-3g.20gb", "count": 1},
    ]
    assert {key: value for key, value in found["nodes"][0]["labels"].items() if key != manifests.PLUGIN_LABEL} == {
        "accelerators.deephdc.org/a100": "1",
        "accelerators.deephdc.org/a100_1g.5gb": "2",
        "accelerators.deephdc.org/a100_3g.20gb": "1",
    }
    # Each configuration has its own plugin, each node one of them.
    daemons = [one["metadata"]["name"] for one in found["manifests"] if one["kind"] == "DaemonSet"]
    assert sorted(node["labels"][manifests.PLUGIN_LABEL] for node in found["nodes"]) == daemons and len(daemons) == 2


@pytest.mark.parametrize("profile", ["1g.10gb+me", "1g.24gb-me", "1g.24gb+gfx", "1c.3g.40gb", "1g.24gb+me.all"])
def test_a_size_that_the_plugin_takes_for_another_refuses_its_host_alone(profile):
    """As released up to 0.18: its patterns are not anchored, so the host would offer other numbers than planned."""
    found = plan(w1([mig_gpu(0, ["1g.10gb", profile]), gpu(1)]))
    assert found["errors"] == [] and found["offers"] == {"w1": {}, "w2": {"nvidia.com/gpu": 2}}
    assert manifests.PLUGIN_LABEL not in found["nodes"][0]["labels"]
    (warning,) = [one for one in found["warnings"] if "are not offered" in one]
    assert f"({profile} at 0000:01:00.0)" in warning and "kubernetes_cluster_gpus to dra" in warning
    assert good(w1([mig_gpu(0, ["1g.10gb", profile])]), gpus="dra")["offers"]["w1"]


def test_shared_gpus_are_offered_as_often_and_proved_one_at_a_time():
    found = good(w1([gpu(0), gpu(1)], kubernetes_cluster_gpu_sharing="shard:3"))
    assert found["offers"] == {"w1": {"nvidia.com/gpu": 6}, "w2": {"nvidia.com/gpu": 2}}
    assert [probe["node"] for probe in found["probes"]] == ["w1", "w2"]


def test_a_worker_without_gpus_is_an_ordinary_node():
    found = good(w1([]))
    assert found["nodes"][0] == {"name": "w1", "host": "w1", "labels": {}, "taints": []}
    assert found["offers"]["w1"] == {} and [probe["node"] for probe in found["probes"]] == ["w2"]
    assert "taints" not in found["kubeadm"]["join"]["w1"]["nodeRegistration"]


def test_no_gpu_at_all_is_said():
    found = good(hosts(w1=host("w1", 11), w2=host("w2", 12)))
    assert found["warnings"] == [
        "No worker has a GPU that pods can be given. If there should be one, look at it with the module gpu_facts."
    ]
    assert found["manifests"] == []


@pytest.mark.parametrize("taint", [False, "false"])
def test_nodes_that_are_not_tainted(taint):
    found = good(taint_gpus=taint)
    assert [node["taints"] for node in found["nodes"]] == [[], []]
    assert "taints" not in found["kubeadm"]["join"]["w1"]["nodeRegistration"]


def test_without_a_device_plugin_nothing_is_offered_and_the_record_stays():
    recorded = good()["record"]
    found = good(w1([gpu(0), amd(1)]), recorded=recorded, gpus="none")
    assert found["offers"] == {"w1": {}, "w2": {}}
    assert (found["manifests"], found["probes"], found["warnings"], found["unfit"]) == ([], [], [], {})
    assert all(node["labels"] == {} and node["taints"] == [] for node in found["nodes"])
    assert found["record"] == recorded


def test_other_vendors_are_not_offered_and_named():
    found = good(w1([gpu(0), amd(1)]))
    assert found["offers"]["w1"] == {"nvidia.com/gpu": 1}
    assert found["warnings"] == [f"w1: mi300x at 0000:02:00.0 (/dev/dri/renderD129) is not offered: {NO_PLUGIN}."]
    assert found["findings"] == [
        {"layer": "manager", "sentence": found["warnings"][0], "host": "w1", "device": "0000:02:00.0", "remedy": ""}
    ]
    assert "mi300x" not in found["record"]


def test_a_device_that_can_not_be_used_and_was_never_promised_is_named():
    found = good(w1([gpu(0), gpu(1, driver="nouveau"), gpu(2, kind="console")]))
    (warning,) = found["warnings"]
    assert warning.startswith("w1: NVIDIA A100-SXM4-40GB at 0000:02:00.0 can't be scheduled: ")
    assert (found["findings"][0]["layer"], found["findings"][0]["device"], found["unfit"]) == ("driver", "0000:02:00.0", {})


def test_what_a_tool_complains_of_is_named():
    slow = {"problem": "nvidia_smi_timeout", "message": "nvidia-smi did not answer in 20 s"}
    found = good(w1([gpu(0, health=[slow]), gpu(1, health=[slow])]))
    assert (found["warnings"], found["unfit"]) == (["w1: nvidia-smi did not answer in 20 s"], {})


def test_control_groups_of_version_1_are_named():
    found = good(hosts(cp1=host("cp1", 10, cgroup=1), w1=host("w1", 11, [gpu(0)], cgroup="1")))
    assert found["warnings"] == [
        "Control groups of version 1, which later releases of Kubernetes do not take, are on cp1, w1: boot with version 2."
    ]
    assert found["findings"][0]["host"] is None
    assert good(w1([gpu(0)], cgroup=1))["findings"][0]["host"] == "w1"


# --- a lost device stays promised ---


class TestLost:
    recorded = property(lambda self: good()["record"])

    def test_it_stays_offered_and_its_node_is_unfit(self):
        found = good(w1([gpu(1)]), recorded=self.recorded)
        assert found["offers"]["w1"] == {"nvidia.com/gpu": 2}
        assert found["unfit"] == {"w1": "a100 at 0000:01:00.0 (/dev/nvidia0) is missing (hardware)"}
        assert found["findings"] == [
            {
                "layer": "hardware",
                "sentence": f"w1: a100 at 0000:01:00.0 (/dev/nvidia0) is missing: {REPAIR}.",
                "host": "w1",
                "device": "0000:01:00.0",
                "remedy": REPAIR,
            }
        ]
        assert found["lost"] == [found["findings"][0]["sentence"]]
        assert [probe["node"] for probe in found["probes"]] == ["w2"]
        assert found["record"] == self.recorded
        # It is back.
        assert good(recorded=found["record"])["unfit"] == {}

    def test_the_only_one_of_a_node(self):
        found = good(w1([]), recorded=good(w1([gpu(0)]))["record"])
        assert (found["offers"]["w1"], list(found["unfit"])) == ({"nvidia.com/gpu": 1}, ["w1"])
        assert found["nodes"][0]["taints"] == [TAINT]

    def test_the_reason_names_the_layer(self):
        found = good(w1([gpu(0), gpu(1, driver=None, device_files=[])]), recorded=self.recorded)
        assert found["unfit"] == {"w1": "a100 at 0000:02:00.0 (/dev/nvidia1) is missing for jobs: no kernel driver is bound to it (driver)"}
        assert found["warnings"] == []

    def test_a_mig_instance(self):
        recorded = good(w1([mig_gpu(0, ["1g.5gb", "1g.5gb"])]))["record"]
        found = good(w1([mig_gpu(0, ["1g.5gb"])]), recorded=recorded)
        assert found["offers"]["w1"] == {"nvidia.com/mig-1g.5gb": 2}
        assert found["unfit"]["w1"].endswith("is missing for jobs: it has no a100_1g.5gb any more (division)")

    def test_a_sick_device(self):
        sick = gpu(1, health=[{"problem": "ecc", "message": "uncorrectable errors of its memory"}])
        found = good(w1([gpu(0), sick]), recorded=self.recorded)
        assert found["unfit"] == {"w1": "a100 at 0000:02:00.0 (/dev/nvidia1): uncorrectable errors of its memory (hardware)"}

    @pytest.mark.parametrize("accepted", ["w1", ["w2", "w1"]])
    def test_a_person_may_go_on_without_it(self, accepted):
        found = good(w1([gpu(1)]), recorded=self.recorded, accept_hardware=accepted)
        assert (found["offers"]["w1"], found["unfit"], found["findings"]) == ({"nvidia.com/gpu": 1}, {}, [])
        assert found["record"] != self.recorded

    def test_what_is_accepted_of_one_host_is_not_of_another(self):
        found = good(hosts(w1=host("w1", 11, [gpu(1)]), w2=host("w2", 12, [gpu(0)])), recorded=self.recorded, accept_hardware=["w1"])
        assert list(found["unfit"]) == ["w2"]


# --- one host for two managers ---


class TestAllotment:
    def hostvars(self, devices, accelerators, other=()):
        return w1(accelerators, accelerator_allotment={"kubernetes": {"devices": devices}, "opennebula": {"devices": list(other)}})

    def test_what_virtual_machines_have_is_not_offered(self):
        found = good(self.hostvars(["0000:01:00.0"], [gpu(0), gpu(1, driver="vfio-pci")], ["0000:02:00.0"]))
        assert (found["offers"]["w1"], found["warnings"]) == ({"nvidia.com/gpu": 1}, [])

    def test_what_was_promised_and_is_another_managers_now_is_not_lost(self):
        recorded = good()["record"]
        found = good(self.hostvars(["0000:01:00.0"], [gpu(0), gpu(1, driver="vfio-pci")], ["0000:02:00.0"]), recorded=recorded)
        assert (found["offers"]["w1"], found["unfit"]) == ({"nvidia.com/gpu": 1}, {})

    def test_a_device_that_the_host_does_not_have(self):
        (sentence,) = errors(self.hostvars(["0000:01:00.0", "0000:99:00.0"], [gpu(0)]))
        assert sentence.startswith("accelerator_allotment of w1 gives 0000:99:00.0 to kubernetes, but the host has no such device")

    def test_a_lost_device_is_still_its_own(self):
        found = good(self.hostvars(["0000:01:00.0", "0000:02:00.0"], [gpu(0)]), recorded=good()["record"])
        assert (found["offers"]["w1"], list(found["unfit"])) == ({"nvidia.com/gpu": 2}, ["w1"])

    def test_a_gpu_that_the_plugin_would_give_twice(self):
        ways = "give all of them to kubernetes in accelerator_allotment, or take the host out of kubernetes_workers"
        remedy = f"set kubernetes_cluster_gpus to dra, {ways}"
        hostvars = self.hostvars(["0000:01:00.0"], [gpu(0), gpu(1)])
        assert errors(hostvars) == [
            f"w1: a100 at 0000:02:00.0 (/dev/nvidia1) is not given to kubernetes, but NVIDIA's device plugin offers all GPUs: {remedy}."
        ]
        assert plan(hostvars)["findings"][0]["remedy"] == remedy
        good(hostvars, gpus="none")

    def test_a_gpu_of_which_only_some_instances_are_its_own(self):
        (sentence,) = errors(self.hostvars(["MIG-0-0"], [mig_gpu(0, ["1g.5gb", "1g.5gb"])]))
        assert "is not given to kubernetes" in sentence


# --- kubeadm ---


class TestKubeadm:
    def test_init(self):
        init, cluster, kubelet, proxy = good(name="physics", node_prefix="25", image_pull_policy="Never")["kubeadm"]["init"]
        assert init == {
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "InitConfiguration",
            "localAPIEndpoint": {"advertiseAddress": "172.20.0.11", "bindPort": 6443},
            "nodeRegistration": {
                "criSocket": "unix:///run/containerd/containerd.sock",
                "name": "cp1",
                "imagePullPolicy": "Never",
                "kubeletExtraArgs": [{"name": "node-ip", "value": "172.20.0.11"}],
            },
        }
        assert cluster == {
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "ClusterConfiguration",
            "kubernetesVersion": "v1.37.2",
            "clusterName": "physics",
            "controlPlaneEndpoint": "172.20.0.11:6443",
            "networking": {"podSubnet": "10.244.0.0/16", "serviceSubnet": "10.96.0.0/16"},
            "apiServer": {
                "extraArgs": [
                    {"name": "authentication-config", "value": "/etc/kubernetes/authn/config.yaml"},
                    {"name": "enable-admission-plugins", "value": "NodeRestriction,ExtendedResourceToleration"},
                ],
                "extraVolumes": [
                    {
                        "name": "authn",
                        "hostPath": "/etc/kubernetes/authn",
                        "mountPath": "/etc/kubernetes/authn",
                        "readOnly": True,
                        "pathType": "Directory",
                    }
                ],
            },
            "controllerManager": {"extraArgs": [{"name": "node-cidr-mask-size", "value": "25"}]},
        }
        assert kubelet == {**KUBELET, "cgroupDriver": "systemd"}
        assert proxy == {**PROXY, "mode": "iptables"}

    def test_join(self):
        assert good(endpoint="api.example.org:443")["kubeadm"]["join"]["w2"] == {
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "JoinConfiguration",
            "discovery": {"bootstrapToken": {"apiServerEndpoint": "api.example.org:443"}},
            "nodeRegistration": {
                "criSocket": "unix:///run/containerd/containerd.sock",
                "name": "w2",
                "imagePullPolicy": "IfNotPresent",
                "kubeletExtraArgs": [{"name": "node-ip", "value": "172.20.0.13"}],
                "taints": [TAINT],
            },
        }

    def test_a_check_is_skipped_only_on_the_host_with_control_groups_of_version_1(self):
        whole = good(w1([gpu(0)], cgroup=1))
        found = whole["kubeadm"]
        assert whole["kubelet"]["w1"] == {**KUBELET, "failCgroupV1": False}
        assert whole["kubelet"]["w2"] == whole["kubelet"]["cp1"] == KUBELET
        assert found["join"]["w1"]["nodeRegistration"]["ignorePreflightErrors"] == ["SystemVerification"]
        assert "ignorePreflightErrors" not in found["join"]["w2"]["nodeRegistration"]
        assert "ignorePreflightErrors" not in found["init"][0]["nodeRegistration"]

    def test_fields_of_the_site(self):
        found = good(kubelet={"failSwapOn": False}, kube_proxy={"mode": "nftables"})
        # Compared at each run: kubeadm's own file is written once.
        assert found["kubelet"] == {host: {**KUBELET, "failSwapOn": False} for host in ("cp1", "w1", "w2")}
        assert found["kubeadm"]["init"][2:] == [{**KUBELET, "cgroupDriver": "systemd"}, {**PROXY, "mode": "nftables"}]

    def test_a_site_may_decide_otherwise_for_control_groups_of_version_1(self):
        assert good(w1([gpu(0)], cgroup=1), kubelet={"failCgroupV1": True})["kubelet"]["w1"]["failCgroupV1"] is True


# --- order and cost ---


def test_the_order_of_the_inventory_makes_no_difference():
    hostvars = w1([amd(0), gpu(1), mig_gpu(2, ["1g.5gb"])])
    other = HostVars(reversed(hostvars.items()))
    assert json.dumps(plan(other, {**GROUPS, "kubernetes_workers": ["w2", "w1"]})) == json.dumps(plan(hostvars))


def test_cost_is_linear_in_the_nodes():
    def seconds(count):
        workers = [f"w{number}" for number in range(count)]
        hostvars = hosts(**{name: host(name, 20 + number, [gpu(n) for n in range(8)]) for number, name in enumerate(workers)})
        whole = site(hostvars, {**GROUPS, "kubernetes_workers": workers}, pod_network="10.0.0.0/11")
        gc.collect()
        gc.disable()  # the collector looks at all objects of the test run, ours or not
        try:
            began = time.process_time()
            assert manager.check(whole) == []
            found = manager.plan(whole)
            assert found["errors"] == [] and len(found["nodes"]) == count
            assert manager.plan(whole, found["record"])["unfit"] == {}
            return time.process_time() - began
        finally:
            gc.enable()

    small = min(seconds(1000), seconds(1000))
    large = min(seconds(5000), seconds(5000))  # as the small one: whatever else runs counts in neither
    print(f"check and two plans, 1,000 nodes of 8 GPUs: {small:.2f} s; 5,000: {large:.2f} s")
    assert large < 8 * small, "five times the nodes"
    assert large < 20, "7 to 11 seconds on machines that differ by half"
