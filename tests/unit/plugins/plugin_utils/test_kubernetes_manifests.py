# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The objects of NVIDIA's device plugin."""

from __future__ import annotations

import yaml
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import manifests, settings
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.device_plugin import device_plugin_config
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import gpu, mig_gpu

WHOLE = device_plugin_config([gpu(0)])
DIVIDED = device_plugin_config([gpu(0), mig_gpu(1, ["1g.5gb"])])


def objects(*configs, **changes):
    return manifests.objects({**settings.DEFAULTS, **changes}, {manifests.name_of(config): config for config in configs})


def container_of(found):
    (daemon,) = (one for one in found if one["kind"] == "DaemonSet")
    (container,) = daemon["spec"]["template"]["spec"]["containers"]
    return container


def env_of(found):
    return {one["name"]: one.get("value") for one in container_of(found)["env"]}


def test_nothing_without_a_configuration():
    assert objects() == []


def test_a_name_is_made_of_the_configuration_alone():
    assert manifests.name_of(WHOLE) == manifests.name_of(dict(reversed(WHOLE.items()))) == "nvidia-be13f85b47"
    names = {manifests.name_of(config) for config in (WHOLE, DIVIDED, device_plugin_config([gpu(0)], 2), device_plugin_config([gpu(0)], 3))}
    assert len(names) == 4
    assert all(settings.LABEL.fullmatch(name) for name in names)


def test_the_namespace_comes_first_and_each_object_can_be_found_again():
    found = objects(WHOLE, DIVIDED)
    assert [one["kind"] for one in found] == ["Namespace", "ConfigMap", "DaemonSet", "ConfigMap", "DaemonSet"]
    assert all(one["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "deephdc.accelerators" for one in found)
    assert {one["metadata"]["namespace"] for one in found[1:]} == {found[0]["metadata"]["name"]} == {"deephdc-accelerators"}
    # Its pods need rights that a cluster with a strict default would refuse.
    assert found[0]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    assert found == objects(DIVIDED, WHOLE)


def test_the_plugin_reads_its_configuration():
    _namespace, config, daemon = objects(DIVIDED)
    name = config["metadata"]["name"]
    (text,) = config["data"].values()
    assert yaml.safe_load(text) == DIVIDED
    assert not text.startswith("{")  # ansible-core 2.16 would take it for data on its way through a template
    pod = daemon["spec"]["template"]["spec"]
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert {"name": "config", "configMap": {"name": name}} in pod["volumes"]
    assert env_of([daemon])["CONFIG_FILE"] == mounts["config"] + "/" + next(iter(config["data"]))


def test_it_runs_on_the_nodes_of_its_configuration_alone():
    daemon = objects(WHOLE)[2]
    name = manifests.name_of(WHOLE)
    pod = daemon["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"accelerators.deephdc.org/device-plugin": name}
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    labels = daemon["spec"]["template"]["metadata"]["labels"]
    assert daemon["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_pods_are_given_the_device_files_themselves():
    assert env_of(objects(WHOLE))["PASS_DEVICE_SPECS"] == "true"
    assert container_of(objects(WHOLE))["securityContext"] == {"privileged": True}


def test_instances_are_watched_where_there_are_some():
    assert "NVIDIA_MIG_MONITOR_DEVICES" not in env_of(objects(WHOLE))
    assert env_of(objects(DIVIDED))["NVIDIA_MIG_MONITOR_DEVICES"] == "all"


def test_what_the_site_says():
    given = {"env": {"PASS_DEVICE_SPECS": "false", "A": "b"}, "mounts": [{"host_path": "/run/fake-gpu", "path": "/run/gpu"}]}
    found = objects(WHOLE, device_plugin_settings=given, device_plugin_image="plugin:1", image_pull_policy="Never")
    container = container_of(found)
    assert (container["image"], container["imagePullPolicy"]) == ("plugin:1", "Never")
    assert list(env_of(found).items())[:2] == [("A", "b"), ("PASS_DEVICE_SPECS", "false")]
    (mount,) = (one for one in container["volumeMounts"] if one["mountPath"] == "/run/gpu")
    assert {"name": mount["name"], "hostPath": {"path": "/run/fake-gpu"}} in found[2]["spec"]["template"]["spec"]["volumes"]


def test_names_that_the_collection_sets_are_those_that_the_check_refuses():
    assert set(settings.OUR_ENV) == set(env_of(objects(WHOLE))) - {"PASS_DEVICE_SPECS"}
