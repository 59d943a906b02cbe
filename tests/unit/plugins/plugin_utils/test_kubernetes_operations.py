# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Which nodes an operator means, what keeps one away, whose pods run, and which certificates end."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import certificates, manager, operations
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import gpu

GROUPS = {"kubernetes_control_plane": ["cp1"], "kubernetes_workers": ["w1", "w2", "w3"], "rack": ["w2", "w3"]}


def selected(wanted, in_play=("w1", "w2", "w3"), limited=False):
    return operations.selection(wanted, "kubernetes_drain_nodes", GROUPS, list(in_play), limited)


@pytest.mark.parametrize("wanted", [["rack", "w1"], "w1, rack", ["w3", "w2", "w1", "w1"]])
def test_hosts_and_groups_are_selected(wanted):
    assert selected(wanted) == {"hosts": ["w1", "w2", "w3"], "errors": []}


def test_the_limit_names_nodes_and_nothing_does_not():
    assert selected([], ["w2"], limited=True)["hosts"] == ["w2"]
    assert "is not set" in selected("")["errors"][0]


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ("w9", "kubernetes_drain_nodes names w9, which is not in kubernetes_workers: use the names of the inventory."),
        ("cp1", "which is in kubernetes_control_plane: a host with a member of etcd is left alone"),
        (["w1", 3], "must be a list of hosts or groups"),
        ({"w1": 1}, "must be a list of hosts or groups"),
    ],
)
def test_what_is_no_worker_is_refused(wanted, sentence):
    answer = selected(wanted)
    assert answer["hosts"] == [] and sentence in answer["errors"][0]


def test_a_node_outside_of_the_limit_is_refused():
    assert "which --limit leaves out" in selected("w1", ["w2"], limited=True)["errors"][0]


def record(**hosts):
    return manager.PROMISES.text(hosts)


def variables(accelerators=(), **more):
    return {"ansible_facts": {"accelerators": list(accelerators)}, "seen": {"changed": False}, **more}


def test_a_worker_that_lacks_a_promised_device_is_unfit():
    hostvars = {"w1": variables([gpu(0)]), "w2": variables([gpu(0), gpu(1)])}
    recorded = record(w1=[gpu(0), gpu(1)], w2=[gpu(0), gpu(1)])
    found = operations.unfit(["w1", "w2"], hostvars, "seen", recorded, "cp1")
    assert list(found) == ["w1"] and gpu(1)["pci_address"] in found["w1"] and "is missing" in found["w1"]
    assert operations.unfit(["w1"], hostvars, "seen", "", "cp1") == {}


@pytest.mark.parametrize(("seen", "why"), [({"unreachable": True, "msg": "no  route"}, "no route"), ({"failed": True}, "no answer")])
def test_a_worker_that_can_not_be_read_is_unfit(seen, why):
    assert operations.unfit(["w1"], {"w1": {"seen": seen}}, "seen", "", "cp1") == {"w1": f"its accelerators can't be read ({why})"}


def test_devices_of_another_manager_are_no_loss():
    gone = gpu(1)
    allotment = {"kubernetes": {"devices": [gpu(0)["pci_address"]]}, "slurm": {"devices": [gone["pci_address"]]}}
    hostvars = {"w1": variables([gpu(0)], accelerator_allotment=allotment)}
    assert operations.unfit(["w1"], hostvars, "seen", record(w1=[gpu(0), gone]), "cp1") == {}


def test_a_record_without_a_host():
    text = operations.record_without(record(w1=[gpu(0)], w2=[gpu(1)]), ["w1", "other"], "cp1")
    assert list(manager.PROMISES.read(text, "cp1")["nodes"]) == ["w2"]
    assert text.startswith(manager.PROMISES.header)
    assert operations.record_without("", ["w1"], "cp1") == ""
    with pytest.raises(ValueError, match="on cp1 is damaged"):
        operations.record_without("{", ["w1"], "cp1")


def pod(name, namespace="physics", kind="Job", phase="Running", node="w1", **annotations):
    owner = [{"kind": kind, "name": "train", "controller": True}] if kind else []
    metadata = {"name": name, "namespace": namespace, "ownerReferences": owner, "annotations": annotations}
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": []}, "status": {"phase": phase}}


def test_pods_of_users_are_named_with_owner_and_node():
    others = [
        pod("done", phase="Succeeded"),
        pod("plugin", kind="DaemonSet"),
        pod("etcd", kind="Node", **{"kubernetes.io/config.mirror": "x"}),
        *(pod("system", namespace=name, kind="ReplicaSet") for name in operations.SYSTEM_NAMESPACES),
    ]
    assert operations.users_pods({"items": others}) == []
    assert operations.users_pods([pod("a"), pod("b", kind="", node=None, phase="Pending"), *others]) == [
        "pod physics/a of Job train on w1",
        "pod physics/b",
    ]
    for wrong in (None, "x", [{"metadata": {}}]):
        with pytest.raises(ValueError, match="must be a list of objects"):
            operations.users_pods(wrong)


NOW = "2026-11-24T10:00:00Z"


def report(**ends):
    return {"certificates": [{"name": name, "expirationDate": end} for name, end in ends.items()]}


def test_certificates_that_end_soon():
    given = report(late="2026-12-24T10:00:00Z", soon="2026-12-24T09:59:59Z", ended="2026-11-24T09:00:00Z")
    given["certificates"] += [{"name": "gone", "expirationDate": None, "missing": True}]
    found = certificates.due(given, 30, NOW)
    assert [(one["name"], one["days"], one["renewable"]) for one in found] == [("ended", -1, True), ("soon", 29, True)]


def test_what_kubeadm_does_not_renew_is_said():
    given = report(soon="2026-11-25T10:00:00Z")
    given["certificates"][0]["externallyManaged"] = True
    given["certificateAuthorities"] = [{"name": "ca", "expirationDate": "2026-11-26T10:00:00Z"}]
    assert [(one["name"], one["renewable"]) for one in certificates.due(given, 30, NOW)] == [("soon", False), ("ca", False)]


def test_times_of_openssl():
    assert certificates.time_of("Nov  4 08:34:42 2027 GMT") == certificates.time_of("2027-11-04T08:34:42Z")
    with pytest.raises(ValueError, match="is no time such as"):
        certificates.time_of("tomorrow")
    with pytest.raises(ValueError, match="must be the object"):
        certificates.due([], 30, NOW)
