# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""From a deployed site to a user's GPU: what the front end offers, and a machine that has its own device and no other."""

from __future__ import annotations

from opennebula_site import A100, OFFERED

OWNS = (
    "playbooks/opennebula.yml",
    "roles/opennebula_host",
    "roles/opennebula_pci",
    "molecule/opennebula",
    "tests/stand_ins/onehost",
    "tests/stand_ins/opennebula_*.py",
)


def test_machines_may_get_what_vfio_holds_and_nothing_else(site):
    assert site.shown() == OFFERED


def test_a_user_gets_a_machine_with_its_gpu_and_no_other_up_to_the_quota(site):
    """ada is in the group research, eve is not; every user may use the template t4."""
    assert site.start("a100", "ada:pw") == ""
    (machine,) = site.running()
    assert site.given() == {A100: machine}
    assert "limit of 1 reached for PCI_DEV" in site.start("a100", "ada:pw")
    assert "'a100'" not in site.one("print([t.NAME for t in one.templatepool.info(-2, -1, -1).VMTEMPLATE])", "eve:pw")
    assert site.start("t4", "eve:pw") == ""
