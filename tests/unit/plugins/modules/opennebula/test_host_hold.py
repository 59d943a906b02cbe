# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module opennebula_host_hold, with OpenNebula's real Python bindings, against the stand-in for its daemon."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import opennebula_host_hold
from ansible_collections.deephdc.accelerators.tests.unit.plugins.modules.opennebula.front_end import device

MONITORED, DISABLED, OFFLINE = 2, 4, 8
REASON = "gpu_hold: nvidia_driver"


@pytest.fixture
def hold(call, front, monkeypatch):
    """hold(state, ...) holds or releases kvm1, which has two GPUs."""
    monkeypatch.setattr(opennebula_host_hold, "POLL", 0.01)
    front.oned.monitor(0, [device("41:00.0"), device("42:00.0")])

    def run(state="held", **options):
        return call(opennebula_host_hold, name="kvm1", state=state, **({"reason": REASON} if state == "held" else {}), **options)

    return run


def host(front):
    entry = front.oned.hosts[0]
    return entry["state"], dict(entry["template"]).get("DEEPHDC_HELD") or ""


def start(front, devices=0):
    """Start a machine of the administrator on kvm1; its number."""
    text = 'NAME="m{}" CPU=1 MEMORY=1 {}'.format(len(front.oned.templates), ' PCI=[VENDOR="10de"]' * devices)
    number = front.oned.template_instantiate(0, front.oned.template_allocate(0, text), "training", False, "", False)
    assert front.oned.machines[number]["host"] == "kvm1"
    return number


def test_disables_an_empty_host_and_enables_it_again(hold, front):
    result = hold()
    assert (result["changed"], result["held"], result["known"], result["kept"], result["machines"]) == (True, True, True, "", [])
    assert host(front) == (DISABLED, REASON)
    assert hold("released")["changed"] and host(front) == (MONITORED, "")


def test_waits_for_machines_and_names_those_that_are_left(hold, front):
    plain, with_gpu = start(front), start(front, devices=1)
    result = hold(wait=0.05)
    assert result["summary"] == [
        f"virtual machine {plain} (training) of oneadmin",
        f"virtual machine {with_gpu} (training) of oneadmin with the device 41:00.0",
    ]
    assert result["held"] and host(front)[0] == DISABLED
    assert [machine["id"] for machine in hold(machines="devices")["machines"]] == [with_gpu]
    assert hold(machines="devices", devices=["0000:42:00.0"])["machines"] == []
    assert [machine["id"] for machine in hold(machines="devices", devices=["0000:41:00.0"])["machines"]] == [with_gpu]
    front.oned.power_off(plain)
    front.oned.power_off(with_gpu)
    assert hold()["machines"] == []


@pytest.mark.parametrize("state", [DISABLED, 7, OFFLINE])
def test_what_an_administrator_took_away_stays_away(hold, front, state):
    front.oned.hosts[0]["state"] = state
    result = hold()
    assert not result["changed"] and not result["held"]
    assert result["kept"] == f"kvm1 was {'offline' if state == OFFLINE else 'disabled'} in OpenNebula already and stays so"
    assert not hold("released")["changed"] and host(front) == (state, "")


def test_what_an_administrator_enabled_meanwhile_stays_enabled(hold, front):
    hold()
    front.oned.hosts[0]["state"] = MONITORED
    hold("released")
    assert host(front) == (MONITORED, "")


def test_the_reason_of_the_first_role_stays(hold, front):
    hold()
    front.oned.hosts[0]["template"] = [("DEEPHDC_HELD", "gpu_hold: pci_passthrough")]
    assert hold()["held"] and host(front) == (DISABLED, "gpu_hold: pci_passthrough")


def test_a_host_that_opennebula_does_not_have(call, front):
    result = call(opennebula_host_hold, name="kvm9", state="held", reason=REASON)
    assert (result["changed"], result["known"], result["held"]) == (False, False, False)
