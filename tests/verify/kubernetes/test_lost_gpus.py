# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A GPU is lost and comes back: a worker finds it by itself, and so does a run of the playbook."""

from __future__ import annotations

from kubernetes_devices import ONLY, deliver
from kubernetes_site import KUBECTL, PLAYBOOK, Site, recap

OWNS = (
    "roles/kubernetes_node/files",
    "roles/kubernetes_node/tasks/health.yml",
    "plugins/module_utils/_kubernetes/lost.py",
    "plugins/plugin_utils/_kubernetes/events.py",
)

LOST = "accelerators.deephdc.org/lost"
HELD = "accelerators.deephdc.org/held"
EVENTS = f"{KUBECTL} get events --namespace default -o jsonpath={{.items[*].reason}}"
SIMULATED = "/var/lib/gpu_simulator"
WORKERS = ("gpu1", "gpu2")


def events(site: Site, *reasons: str) -> list[str]:
    """What the events of gpu1 with these reasons say."""
    return [one["message"] for one in site.get("events --namespace default")["items"] if one["reason"] in reasons]


def test_a_lost_gpu_takes_its_node_away_and_brings_it_back_by_itself(site: Site):
    """Within minutes, without a run of the playbook, which says the same and has nothing to change."""
    site.start("working", gpus=1, node="gpu1")
    site.phase("working", "Running")
    plugin = "--namespace deephdc-accelerators get pods --field-selector=spec.nodeName=gpu1 -o jsonpath={.items[*].metadata.uid}"
    before = site.kubectl(plugin)
    bus = f"{SIMULATED}/sys/bus/pci/devices"
    address = site.out("gpu1", f"ls {bus} | tail -1")
    seen_by_plugin = f"{SIMULATED}/proc/driver/nvidia/gpus/{address}"
    offered = f"{KUBECTL} get node gpu1 -o jsonpath={{.status.allocatable.nvidia\\\\.com/gpu}}"
    site.out("gpu1", f"mv {bus}/{address} /root/lost-device; mv {seen_by_plugin} /root/lost-information")
    away = f"{KUBECTL} get node gpu1 -o jsonpath={{.spec.unschedulable}}"
    try:
        site.until("cp1", away, "true", 120)
        why = site.node("gpu1")["metadata"]["annotations"][LOST]
        assert f"a100 at {address}" in why and "is missing" in why
        site.until("cp1", f"{EVENTS} | grep --only-matching AcceleratorLost", "AcceleratorLost", 60)
        assert events(site, "AcceleratorLost", "AcceleratorBack") == [why]
        assert site.kubectl(plugin) == before, "the pod of the device plugin is left alone as long as the device is lost"
        output = site.playbook(PLAYBOOK, succeeds=False)
        said = " ".join(output.split())
        assert f"a100 at {address}" in said and "is missing" in said and "gpu1" in said
        assert "failed=1" in recap(output, "cp1") and "changed=0" in recap(output, "cp1"), "it finds what the node said"
        assert "failed=1" in recap(site.playbook(PLAYBOOK, *ONLY, succeeds=False), "cp1"), "a second run says it again"
        assert site.node("gpu1")["metadata"]["annotations"][LOST] == why and site.node("gpu1")["spec"]["unschedulable"]
        assert site.get("pod working")["status"]["phase"] == "Running", "users' pods go on"
        # As after a reboot with the device away.
        site.kubectl("delete pods --namespace deephdc-accelerators --field-selector=spec.nodeName=gpu1")
        site.until("cp1", offered, "1", 60)
    finally:
        site.out("gpu1", f"mv /root/lost-device {bus}/{address}; mv /root/lost-information {seen_by_plugin}")
    site.until("cp1", f'test -n "$({away})" || echo uncordoned', "uncordoned", 120)
    assert LOST not in site.node("gpu1")["metadata"].get("annotations", {})
    site.until("cp1", offered, "2", 60)
    site.until("cp1", f"{EVENTS} | grep --only-matching AcceleratorBack", "AcceleratorBack", 60)
    assert events(site, "AcceleratorLost") == []
    output = site.playbook(PLAYBOOK)
    assert "changed=0" in recap(output, "cp1") and "changed=0" in recap(output, "gpu1")
    assert site.get("pod working")["status"]["phase"] == "Running"
    site.remove("working")


def test_a_node_that_a_role_holds_is_not_looked_at(site: Site):
    """Its GPUs must not be in use while a role changes them, and what goes away then is not lost."""
    bus = f"{SIMULATED}/sys/bus/pci/devices"
    address = site.out("gpu1", f"ls {bus} | tail -1")
    site.kubectl(f"annotate node gpu1 {HELD}=gpu_hold:test")
    site.out("gpu1", f"mv {bus}/{address} /root/lost-device")
    try:
        site.out("gpu1", "systemctl start kubernetes-gpu-health.service")
        node = site.node("gpu1")
        assert LOST not in node["metadata"]["annotations"] and not node["spec"].get("unschedulable")
    finally:
        site.out("gpu1", f"mv /root/lost-device {bus}/{address}")
        site.kubectl(f"annotate node gpu1 {HELD}-")


def test_the_check_of_gpus_has_the_rights_of_its_node(site: Site):
    """It says so when the API refuses it, and does nothing."""
    path = "/etc/kubernetes/deephdc-gpus.json"
    site.out("gpu1", f'cp {path} /root && sed -i \'s/"gpu1"/"gpu2"/; s/0000:/ffff:/\' {path}')
    journal = "journalctl --unit=kubernetes-gpu-health.service --lines=5 --output=cat"
    try:
        assert site.run("gpu1", "systemctl start kubernetes-gpu-health.service").returncode != 0
        assert "forbidden" in site.out("gpu1", journal)
        assert LOST not in site.node("gpu2")["metadata"].get("annotations", {})
    finally:
        site.out("gpu1", f"mv /root/deephdc-gpus.json {path} && systemctl start kubernetes-gpu-health.service")


def test_a_lost_gpu_is_an_event(site: Site):
    bus = f"{SIMULATED}/sys/bus/pci/devices"
    address = site.out("gpu1", f"ls {bus} | tail -1")
    events = f"{KUBECTL} get events --field-selector=reason=AcceleratorLost -o jsonpath='{{.items[*].message}}'"
    assert site.out("cp1", events) == ""
    site.out("gpu1", f"mv {bus}/{address} /root/lost-device")
    try:
        deliver(site, succeeds=False)
        assert f"a100 at {address}" in site.out("cp1", events)
        assert "AcceleratorLost" in site.kubectl("describe node gpu1")
    finally:
        site.out("gpu1", f"mv /root/lost-device {bus}/{address}")
    deliver(site)
    assert site.out("cp1", events) == ""
    again = site.playbook(PLAYBOOK, *ONLY)
    for host in ("cp1", *WORKERS):
        assert "changed=0" in recap(again, host), again[-4000:]
