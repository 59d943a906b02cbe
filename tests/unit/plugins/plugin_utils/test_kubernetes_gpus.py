# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The ways in which pods get GPUs: sharing, dynamic resource allocation, other vendors, and when the way may change."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _gpu_guard
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import (
    dra,
    events,
    gpu_modes,
    manager,
    manifests,
    nodes,
    runtimes,
    settings,
    sharing,
    vendor_plugins,
)
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import amd, gpu, mig_gpu
from ansible_collections.deephdc.accelerators.tests.unit.plugins.plugin_utils.kubernetes_examples import host, hosts, site

OBJECT = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "driver", "namespace": "gpu"}, "spec": {"x": 1}}
BASE = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == "


def plan(hostvars=None, present=None, **given):
    # Hosts of one site have their own devices.
    hostvars = hostvars or hosts(w2=host("w2", 12, [gpu(2), gpu(3, model="Tesla T4", type="t4")]))
    return manager.plan(site(hostvars, **given), "", present)


def good(*arguments, **given):
    found = plan(*arguments, **given)
    assert found["errors"] == []
    return found


def w1(accelerators, **variables):
    return hosts(w1=host("w1", 11, accelerators, **variables), w2=host("w2", 12))


def expressions(found):
    return {one["metadata"]["name"]: one["spec"]["selectors"][0]["cel"]["expression"] for one in found if one["kind"] == "DeviceClass"}


# --- sharing ---


@pytest.mark.parametrize(
    "value, replicas, is_mps",
    [(None, 1, False), ("", 1, False), ("exclusive", 1, False), ("shard:1", 1, False), ("shard:9999", 9999, False), ("mps:48", 48, True)],
)
def test_words_of_sharing(value, replicas, is_mps):
    assert sharing.of(value) == sharing.Sharing(replicas, is_mps)


@pytest.mark.parametrize("value", ["mps", "mps:1", "mps:49"])
def test_mps_needs_a_number_of_shares_that_nvidia_takes(value):
    (found,) = sharing.node_errors("w1", value, "device_plugin")
    assert str(found).endswith("or mps:N, N from 2 to 48: SLURM counts percents, but the device plugin makes N equal shares.")


def test_the_words_are_those_of_slurm():
    from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import sharing as slurm_sharing

    for word in ("exclusive", "shard:1", "shard:4", "shard:9999"):
        assert slurm_sharing.is_sharing(word) and sharing.of(word)
    for word in ("shard", "shard:0", "shard:10000", "shards:4", 4, True):
        assert not slurm_sharing.is_sharing(word) and sharing.of(word) is None


def test_shared_gpus_and_dra_contradict_each_other():
    (sentence,) = plan(w1([gpu(0)], kubernetes_cluster_gpu_sharing="shard:2"), gpus="dra")["errors"]
    assert sentence == (
        "w1 is to share its GPUs as shard:2, but kubernetes_cluster_gpus is dra, which gives each GPU to one claim: "
        "leave it exclusive, or set kubernetes_cluster_gpus to device_plugin."
    )


def test_mps_and_mig_contradict_each_other():
    divided = w1([gpu(0), mig_gpu(1, ["1g.5gb"])], kubernetes_cluster_gpu_sharing="mps:4")
    (sentence,) = plan(divided)["errors"]
    assert sentence.startswith("w1 can't share its GPUs as mps:4: the one at 0000:02:00.0 is divided into MIG instances")
    good(w1([mig_gpu(1, ["1g.5gb"])], kubernetes_cluster_gpu_sharing="shard:4"))


def test_mps_has_a_daemon_beside_the_plugin():
    found = good(w1([gpu(0)], kubernetes_cluster_gpu_sharing="mps:4"))
    assert found["offers"]["w1"] == {"nvidia.com/gpu": 4}
    daemons = {one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in found["manifests"] if one["kind"] == "DaemonSet"}
    plugin, control = (daemons[name] for name in sorted(daemons))
    assert [*daemons] == sorted(daemons) and control["containers"][0]["command"] == ["mps-control-daemon"]
    assert control["nodeSelector"] == plugin["nodeSelector"]
    assert {"name": "MPS_ROOT", "value": "/run/nvidia/mps"} in plugin["containers"][0]["env"]
    text = next(one["data"]["config.yaml"] for one in found["manifests"] if one["kind"] == "ConfigMap")
    assert "mps:" in text and "timeSlicing" not in text
    # Time slicing has none.
    assert sum(one["kind"] == "DaemonSet" for one in good(w1([gpu(0)], kubernetes_cluster_gpu_sharing="shard:4"))["manifests"]) == 1


# --- dynamic resource allocation ---


class TestDra:
    def test_a_class_for_all_and_one_for_each_type(self):
        found = good(gpus="dra")
        assert expressions(found["manifests"]) == {
            "gpu.nvidia.com": f"{BASE}'gpu'",
            "a100.gpu.nvidia.com": f"{BASE}'gpu' && device.attributes['gpu.nvidia.com'].productName in [\"NVIDIA A100-SXM4-40GB\"]",
            "t4.gpu.nvidia.com": f"{BASE}'gpu' && device.attributes['gpu.nvidia.com'].productName in [\"Tesla T4\"]",
        }
        # What users' files had before goes on, by one class alone.
        named = {
            one["metadata"]["name"]: one["spec"].get("extendedResourceName") for one in found["manifests"] if one["kind"] == "DeviceClass"
        }
        assert named == {"gpu.nvidia.com": "nvidia.com/gpu", "a100.gpu.nvidia.com": None, "t4.gpu.nvidia.com": None}
        assert not any(one["kind"] == "DaemonSet" for one in found["manifests"]), "never both for one device"

    def test_nodes_and_what_is_promised(self):
        found = good(gpus="dra")
        assert found["offers"] == {"w1": {"nvidia.com/gpu": 2}, "w2": {"nvidia.com/gpu": 2}}
        assert found["nodes"][1]["labels"] == {
            "accelerators.deephdc.org/a100": "1",
            "accelerators.deephdc.org/dra": "nvidia",
            "accelerators.deephdc.org/t4": "1",
        }
        assert found["nodes"][1]["taints"] == [manifests.TAINT]
        assert found["expected"][0] == {
            "host": "w1",
            "node": "w1",
            "allocatable": {"nvidia.com/gpu": 0},
            "devices": [
                {"uuid": "GPU-0", "device": "a100 at 0000:01:00.0 (/dev/nvidia0)"},
                {"uuid": "GPU-1", "device": "a100 at 0000:02:00.0 (/dev/nvidia1)"},
            ],
        }
        # The scheduler counts them elsewhere than in allocatable.
        assert found["probes"] == [{"node": name, "resource": "nvidia.com/gpu", "count": 0} for name in ("w1", "w2")]

    def test_mig_instances_by_size_and_by_type(self):
        found = good(w1([mig_gpu(0, ["1g.5gb", "1g.10gb+me"])]), gpus="dra")
        classes = expressions(found["manifests"])
        assert sorted(classes) == [
            "a100-1g.10gb-me.gpu.nvidia.com",
            "a100-1g.5gb.gpu.nvidia.com",
            "mig-1g.10gb.me.gpu.nvidia.com",
            "mig-1g.5gb.gpu.nvidia.com",
        ]
        assert classes["mig-1g.10gb.me.gpu.nvidia.com"] == f"{BASE}'mig' && device.attributes['gpu.nvidia.com'].profile in [\"1g.10gb+me\"]"
        assert "productName" in classes["a100-1g.5gb.gpu.nvidia.com"] and "1g.5gb" in classes["a100-1g.5gb.gpu.nvidia.com"]
        resources = {one["spec"]["extendedResourceName"] for one in found["manifests"] if one.get("spec", {}).get("extendedResourceName")}
        assert resources == set(found["offers"]["w1"]) == {"nvidia.com/mig-1g.5gb", "nvidia.com/mig-1g.10gb.me"}
        assert [one["uuid"] for one in found["expected"][0]["devices"]] == ["MIG-0-0", "MIG-0-1"]

    def test_an_allotment_is_in_every_class(self):
        mine = {"kubernetes": {"devices": ["0000:01:00.0"]}, "slurm": {"devices": ["0000:02:00.0"]}}
        shared = host("w1", 11, [gpu(0), gpu(1)], cgroup=1, accelerator_allotment=mine)
        found = good(hosts(w1=shared, w2=host("w2", 12, [gpu(2)])), gpus="dra")
        assert found["named"] is True and found["offers"]["w1"] == {"nvidia.com/gpu": 1}
        for expression in expressions(found["manifests"]).values():
            assert expression.endswith('.uuid in ["GPU-0", "GPU-2"]')
        assert "GPU-1" not in json.dumps(found["manifests"])
        assert [one["uuid"] for one in found["expected"][0]["devices"]] == ["GPU-0"]
        # What the device plugin can't do.
        assert "is not given to kubernetes" in plan(w1([gpu(0), gpu(1)], accelerator_allotment=mine))["errors"][0]

    def test_what_is_not_slurms_is_closed_to_its_jobs(self):
        mine = {"kubernetes": {"devices": ["0000:01:00.0"]}, "slurm": {"devices": ["0000:02:00.0"]}}
        three = [gpu(0), gpu(1), gpu(2)]
        found = good(w1(three, cgroup=1, accelerator_allotment=mine), gpus="dra")
        # The third one is in no list, so it is not SLURM's either.
        assert found["guards"] == {"w1": {"closed": ["/dev/nvidia0", "/dev/nvidia2"], "open": ["/dev/nvidia1"]}}
        (sentence,) = plan(w1(three, accelerator_allotment=mine), gpus="dra")["errors"]
        assert sentence == (
            "w1 is SLURM's, too, and has control groups of version 2, with which its jobs can't be kept from /dev/nvidia0, /dev/nvidia2: "
            "give the host to one manager, or boot it with version 1."
        )

    def test_an_instance_is_closed_and_the_gpu_that_slurm_has_a_part_of_is_not(self):
        device = mig_gpu(0, ["1g.5gb", "2g.10gb"])
        mine = {"kubernetes": {"devices": ["MIG-0-0"]}, "slurm": {"devices": ["MIG-0-1"]}}
        guard = _gpu_guard.guard([device], mine)
        assert guard["closed"] and all("nvidia-cap" in file for file in guard["closed"])
        assert "/dev/nvidia0" in guard["open"] and not set(guard["open"]) & set(guard["closed"])

    def test_what_was_closed_is_opened_when_slurm_has_gone(self):
        found = _gpu_guard.guards({"a": [gpu(0)], "b": [gpu(0)]}, {"b": {"kubernetes": {"devices": []}}}, ["b"])
        assert found == {"b": {"closed": [], "open": ["/dev/nvidia0"]}}

    def test_more_devices_than_a_class_can_name(self):
        uuid = "GPU-00000000-0000-0000-0000-0000000{:05}"
        many = [gpu(n, pci_address=f"0000:{n // 8:02x}:{n % 8:02x}.0", uuid=uuid.format(n)) for n in range(250)]
        few = {"kubernetes": {"devices": [one["pci_address"] for one in many]}, "slurm": {"devices": []}}
        (sentence,) = plan(w1(many, cgroup=1, accelerator_allotment=few), gpus="dra")["errors"]
        assert "each DeviceClass must name the cluster's 250 devices, more than it can" in sentence
        good(w1(many), gpus="dra")
        for one in good(
            w1(many[:200], cgroup=1, accelerator_allotment={**few, "kubernetes": {"devices": few["kubernetes"]["devices"][:200]}}),
            gpus="dra",
        )["manifests"]:
            assert len(json.dumps(one)) < dra.MOST_EXPRESSION + 1000

    def test_a_device_without_a_uuid(self):
        (sentence,) = plan(w1([gpu(0, uuid=None)]), gpus="dra")["errors"]
        assert sentence.startswith("w1: a100 at 0000:01:00.0 (/dev/nvidia0) has no UUID, by which dra knows a device: ")
        good(w1([gpu(0, uuid=None)]))

    def test_texts_in_a_class_are_texts(self):
        name = 'A "B" \\ é'
        (expression,) = [
            text for key, text in expressions(good(w1([gpu(0, model=name)]), gpus="dra")["manifests"]).items() if "a100" in key
        ]
        assert expression.endswith('in ["A \\"B\\" \\\\ \\u00e9"]')

    def test_a_type_whose_product_is_not_known_has_no_class(self):
        assert list(expressions(good(w1([gpu(0, model=None)]), gpus="dra")["manifests"])) == ["gpu.nvidia.com"]

    def test_the_driver_is_the_sites(self):
        found = good(gpus="dra", dra_manifests=[OBJECT])
        assert found["driver"] == [{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "driver", "namespace": "gpu"}}]
        # They may stay in the inventory while another way is tried.
        assert good(dra_manifests=[OBJECT])["driver"] == []

    @pytest.mark.parametrize("given", [{}, "text", [7], [{"kind": "Pod"}], [{**OBJECT, "metadata": {}}], [{**OBJECT, "metadata": None}]])
    def test_no_objects(self, given):
        assert [str(one) for one in dra.manifest_errors(given)] == [
            "kubernetes_cluster_dra_manifests is no list of Kubernetes objects: "
            "give each a dictionary with apiVersion, kind and metadata.name."
        ]

    def test_classes_of_the_site_would_not_heed_the_allotment(self):
        given = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.nvidia.com"}}
        (sentence,) = plan(gpus="dra", dra_manifests=[given])["errors"]
        assert sentence.startswith("kubernetes_cluster_dra_manifests has the DeviceClass gpu.nvidia.com, but the classes are made by")

    def test_a_lost_device_stays_promised(self):
        recorded = good(gpus="dra")["record"]
        found = manager.plan(site(hosts(w1=host("w1", 11, [gpu(1)]), w2=host("w2", 12, [gpu(2)])), gpus="dra"), recorded)
        assert found["offers"]["w1"] == {"nvidia.com/gpu": 2} and list(found["unfit"]) == ["w1", "w2"]
        assert found["expected"] == []


# --- which runtime goes with which Kubernetes ---


class TestRuntimes:
    def errors(self, containerd, cgroup=2, worker=True, **cluster):
        whole = {**settings.DEFAULTS, **cluster}
        return [str(found) for found in runtimes.host_errors(whole, "w1", containerd, cgroup, worker)]

    def test_dra_needs_a_containerd_that_knows_cdi(self):
        assert self.errors("1.6.20~ds1", gpus="dra") == [
            "w1 has containerd 1.6.20~ds1, but kubernetes_cluster_gpus is dra, which needs 1.7 or newer (an older one runs pods without "
            "their device): upgrade it, or set kubernetes_cluster_gpus to device_plugin."
        ]
        assert self.errors("1.6.20") == self.errors("1.7.24", gpus="dra") == self.errors("2.1.9", gpus="dra") == []
        assert self.errors("1.6.20", worker=False, gpus="dra") == [], "no pod with a GPU runs there"
        assert self.errors("", gpus="dra") == [], "it is not known yet"

    def test_what_a_host_without_containerd_will_get(self):
        old = hosts(w1=host("w1", 11, [gpu(0)], containerd="", facts={"distribution_major_version": "12"}), w2=host("w2", 12))
        assert "w1 has containerd 1.6.20, but kubernetes_cluster_gpus is dra" in plan(old, gpus="dra")["errors"][0]
        good(old)
        good(w1([gpu(0)], containerd=""), gpus="dra")
        # With packages of another vendor the version is not known.
        variables = {"containerd_package_names": ["containerd.io"]}
        other = host("w1", 11, [gpu(0)], containerd="", facts={"distribution_major_version": "12"}, **variables)
        good(hosts(w1=other, w2=host("w2", 12)), gpus="dra")

    @pytest.mark.parametrize(
        "version, containerd, cgroup, refused",
        [
            ("1.36.3", "1.6.20", 1, 0),
            ("1.37.2", "1.5.9", 1, 1),
            ("1.38.0", "1.7.24", 2, 1),
            ("1.38.0", "2.0.1", 2, 0),
            ("1.39.1", "1.7.24", 1, 2),
        ],
    )
    def test_the_table(self, version, containerd, cgroup, refused):
        assert len(self.errors(containerd, cgroup, version=version)) == refused

    def test_the_sentences(self):
        assert self.errors("1.7.24", 1, version="1.38.0") == [
            "w1 has containerd 1.7.24, but 2.0 or newer is needed: upgrade it.",
            "w1 has control groups of version 1, but Kubernetes 1.38.0 needs version 2: boot it with systemd.unified_cgroup_hierarchy=1.",
        ]

    def test_dra_and_an_older_kubernetes(self):
        def errors(version, gpus="dra"):
            return [str(found) for found in runtimes.cluster_errors({"version": version, "gpus": gpus})]

        assert errors("1.33.4") == [
            "kubernetes_cluster_gpus is dra, but kubernetes_cluster_version is 1.33.4 and dra needs 1.34 or newer: "
            "choose device_plugin, or a newer kubernetes_cluster_version."
        ]
        assert errors("1.34.0") == errors("1.33.4", "device_plugin") == errors(None) == []


# --- other vendors ---


GIVEN = {"amd": {"image": "docker.io/rocm/k8s-device-plugin:1"}}


class TestVendors:
    def test_they_are_counted_labelled_and_tainted(self):
        found = good(w1([gpu(0), amd(1), amd(2)]), device_plugins=GIVEN)
        assert found["offers"]["w1"] == {"nvidia.com/gpu": 1, "amd.com/gpu": 2} and found["warnings"] == []
        labels = found["nodes"][0]["labels"]
        assert labels["accelerators.deephdc.org/mi300x"] == "2" and labels["accelerators.deephdc.org/device-plugin-amd"] == "true"
        assert [taint["key"] for taint in found["nodes"][0]["taints"]] == ["nvidia.com/gpu", "amd.com/gpu"]
        assert found["expected"][0]["allocatable"] == {"nvidia.com/gpu": 1, "amd.com/gpu": 2}
        daemon = next(one for one in found["manifests"] if one["metadata"]["name"] == "amd-device-plugin")
        assert daemon["spec"]["template"]["spec"]["nodeSelector"] == {"accelerators.deephdc.org/device-plugin-amd": "true"}
        # The pods of the proof look for files of NVIDIA's driver.
        assert [probe["resource"] for probe in found["probes"]] == ["nvidia.com/gpu"]

    def test_a_host_with_no_gpu_of_nvidia(self):
        found = good(w1([amd(0)]), device_plugins=GIVEN)
        assert [one["kind"] for one in found["manifests"]] == ["Namespace", "DaemonSet"]
        assert [taint["key"] for taint in found["nodes"][0]["taints"]] == ["amd.com/gpu"]

    def test_dra_leaves_them_to_their_plugin(self):
        found = good(w1([gpu(0), amd(1)]), device_plugins=GIVEN, gpus="dra")
        assert found["expected"][0]["allocatable"] == {"nvidia.com/gpu": 0, "amd.com/gpu": 1}

    @pytest.mark.parametrize("driver", ["xe", "i915"])
    def test_the_resource_of_intel_is_called_after_the_driver(self, driver):
        device = gpu(0, vendor="intel", type="max1550", driver=driver, device_files=["/dev/dri/renderD128"])
        given = {"intel": {"image": "docker.io/intel/intel-gpu-plugin:1", "args": ["-v=2"]}}
        found = good(w1([device]), device_plugins=given)
        assert found["offers"]["w1"] == {f"gpu.intel.com/{driver}": 1}
        (daemon,) = (one for one in found["manifests"] if one["kind"] == "DaemonSet")
        assert daemon["spec"]["template"]["spec"]["containers"][0]["args"] == ["-v=2"]

    def test_what_was_promised_of_a_vendor_that_is_not_offered_any_more_is_not_lost(self):
        recorded = good(w1([gpu(0), amd(1)]), device_plugins=GIVEN)["record"]
        found = manager.plan(site(w1([gpu(0)])), recorded)
        assert found["unfit"] == {} and found["offers"]["w1"] == {"nvidia.com/gpu": 1}

    @pytest.mark.parametrize(
        "given, sentence",
        [
            ([], "kubernetes_cluster_device_plugins is a list: write a dictionary of vendors, {} for none."),
            ({"kitt": {}}, "kubernetes_cluster_device_plugins has the vendor 'kitt': write one of amd, intel."),
            ({"amd": "image"}, "kubernetes_cluster_device_plugins: amd is 'image': write a dictionary with image and args."),
            ({"amd": {}}, "kubernetes_cluster_device_plugins: amd has None as image: write the name of its plugin's image, with a tag."),
            (
                {"amd": {"image": "x", "imge": "y"}},
                "kubernetes_cluster_device_plugins: amd has the unknown key 'imge' (did you mean image?).",
            ),
            (
                {"amd": {"image": "x", "args": [1]}},
                "kubernetes_cluster_device_plugins: amd has args that are no list of texts: write them in quotes.",
            ),
        ],
    )
    def test_mistakes(self, given, sentence):
        assert [str(found) for found in vendor_plugins.errors(given)] == [sentence]

    def test_a_taint_of_a_vendor_goes_with_its_plugin(self):
        wanted = {"name": "w1", "host": "w1", "labels": {"accelerators.deephdc.org/dra": "nvidia"}, "taints": [manifests.TAINT]}
        node = {
            "metadata": {"name": "w1", "labels": {"accelerators.deephdc.org/device-plugin-amd": "true"}},
            "spec": {"taints": [manifests.TAINT, manifests.taint("amd.com/gpu"), {"key": "site", "effect": "NoSchedule"}]},
        }
        (patch,) = nodes.patches([node], {"nodes": [wanted], "unfit": {}})
        assert patch["spec"]["taints"] == [manifests.TAINT, {"key": "site", "effect": "NoSchedule"}]
        # Where we offered nothing it is that of another operator of GPUs.
        node["metadata"]["labels"] = {}
        (patch,) = nodes.patches([node], {"nodes": [wanted], "unfit": {}})
        assert "spec" not in patch


# --- when the way may change ---


class TestChange:
    def present(self, way, ways, count=1):
        return {"ways": ways, "pods": [{"pod": f"pod a/p{number:02}", "node": "w1", "way": way} for number in range(count)]}

    def test_it_is_refused_with_the_names_of_the_pods(self):
        assert plan(present=self.present("device_plugin", ["device_plugin"], 2), gpus="dra")["errors"] == [
            "kubernetes_cluster_gpus can't change from device_plugin to dra while pods have GPUs (pod a/p00, pod a/p01): "
            "wait until they have ended, or ask their owners to end them, then run again."
        ]
        (sentence,) = gpu_modes.change_sentences("device_plugin", self.present("dra", ["dra"], 12))
        assert "pod a/p09 and 2 more)" in sentence

    def test_it_is_not_where_pods_have_them_in_the_wanted_way(self):
        assert gpu_modes.change_sentences("dra", self.present("dra", ["dra"])) == []
        assert gpu_modes.change_sentences("dra", {}) == []
        good(present=self.present("device_plugin", ["device_plugin"]))

    def test_none_does_not_concern_pods_of_another_operator(self):
        assert gpu_modes.change_sentences("none", self.present("device_plugin", [])) == []
        assert gpu_modes.change_sentences("none", self.present("device_plugin", ["device_plugin"])) != []

    @pytest.mark.parametrize("present", [7, [7], {"pods": 7}, {"pods": []}])
    def test_what_is_no_answer_of_the_module(self, present):
        with pytest.raises(ValueError, match="What the cluster has must be a dictionary"):
            gpu_modes.change_sentences("dra", present)


# --- events ---


NOW = "2026-11-24T10:00:00Z"
PLAN = {"names": {"w1": "node-1", "w2": "w2"}, "unfit": {"w1": "t4 is missing"}}


class TestEvents:
    def changes(self, found, planned=None):
        return events.changes(found, planned or PLAN, NOW)

    def test_a_node_that_lost_a_device_gets_one(self):
        (change,) = self.changes([])
        event = change["definition"]
        assert change["state"] == "present" and event["message"] == "t4 is missing" and event["type"] == "Warning"
        assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "node-1"}
        # A second run leaves it.
        assert self.changes([event]) == []

    def test_it_goes_with_the_repair(self):
        event = self.changes([])[0]["definition"]
        (change,) = self.changes([event], {**PLAN, "unfit": {}})
        assert change == {
            "state": "absent",
            "definition": {key: event[key] for key in ("apiVersion", "kind")}
            | {"metadata": {"name": "node-1.accelerator-lost", "namespace": "default"}},
        }

    def test_another_reason_makes_another_event(self):
        event = self.changes([])[0]["definition"]
        found = self.changes([event], {**PLAN, "unfit": {"w1": "two are missing"}})
        assert [change["state"] for change in found] == ["absent", "present"]

    def test_events_of_others_stay(self):
        assert self.changes([{"metadata": {"name": "x"}, "reason": "Rebooted"}], {**PLAN, "unfit": {}}) == []

    def test_a_long_reason_is_cut(self):
        (change,) = self.changes([], {**PLAN, "unfit": {"w1": "x" * 5000}})
        assert len(change["definition"]["message"]) == 1024
        assert self.changes([change["definition"]], {**PLAN, "unfit": {"w1": "x" * 5000}}) == []
