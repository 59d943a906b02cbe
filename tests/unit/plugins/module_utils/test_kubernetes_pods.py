# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Which pods a host is taken from, which may be moved, and which have a device."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes import pods


def pod(*owners, phase="Running", annotations=None, **spec):
    metadata = {"name": "p", "namespace": "physics", "uid": "1"}
    if owners:
        metadata["ownerReferences"] = list(owners)
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": {"containers": [{"name": "c"}], **spec}, "status": {"phase": phase} if phase else {}}


def owner(kind, controller=True):
    return {"kind": kind, "name": f"the-{kind.lower()}", "controller": controller}


def asks(**limits):
    return [{"name": "c", "resources": {"limits": {name.replace("__", "/").replace("_", "."): amount for name, amount in limits.items()}}}]


@pytest.mark.parametrize(
    "one", [pod(), pod(phase="Pending"), pod(phase="Unknown"), pod(phase=None), pod(owner("Job")), pod(owner("ReplicaSet"))]
)
def test_pods_of_users(one):
    assert pods.is_users(one)


@pytest.mark.parametrize(
    "one",
    [
        pod(phase="Succeeded"),
        pod(phase="Failed"),
        pod(owner("DaemonSet")),
        pod(owner("Node"), annotations={"kubernetes.io/config.mirror": "5f"}),
    ],
)
def test_pods_that_are_no_users(one):
    assert not pods.is_users(one)


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController", "StatefulSet"])
def test_services(kind):
    assert pods.is_service(pod(owner(kind)))
    # One that does not control the pod does not start it again.
    assert not pods.is_service(pod(owner(kind, controller=False)))
    assert not pods.is_service(pod(owner(kind, controller=False), owner("Job")))


@pytest.mark.parametrize("one", [pod(), pod(owner("Job")), pod(owner("CronJob")), pod(owner("RayCluster")), pod(owner("Workflow"))])
def test_what_may_be_a_job_is_no_service(one):
    assert not pods.is_service(one)


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": asks(nvidia_com__gpu="1")},
        {"containers": asks(**{"nvidia.com/mig-1g.5gb": "1"})},
        {"containers": [{"name": "c"}, *asks(amd_com__gpu="2")]},
        {"initContainers": asks(nvidia_com__gpu="1")},
        {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]},
    ],
)
def test_pods_with_a_device(spec):
    assert pods.has_device(pod(**spec))


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"containers": asks(cpu="1", memory="1Gi")},
        {"containers": asks(**{"hugepages-2Mi": "64Mi", "ephemeral-storage": "1Gi", "attachable-volumes.kubernetes.io/x": "1"})},
        {"containers": [{"name": "c", "resources": {"limits": None}}], "initContainers": None, "resourceClaims": []},
    ],
)
def test_pods_without_a_device(spec):
    assert not pods.has_device(pod(**spec))


def test_a_sentence_says_whose_pod_it_is():
    ending = pod()
    ending["metadata"]["deletionTimestamp"] = "2089-01-01T00:00:00Z"
    assert pods.sentence(ending) == "pod physics/p, which was asked to end and may take until 2089-01-01T00:00:00Z"
    assert pods.sentence(pod()) == "pod physics/p"
    assert pods.sentence(pod(owner("Job"))) == "pod physics/p of Job the-job"
    assert pods.sentence(pod(owner("Job", controller=False))) == "pod physics/p"
