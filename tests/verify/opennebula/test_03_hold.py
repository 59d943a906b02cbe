# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A KVM host is taken from its users before it is disturbed, and given back: the role gpu_hold with OpenNebula."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from pathlib import Path

import pytest
from opennebula_site import Site

OWNS = (
    "roles/gpu_hold",
    "roles/opennebula_host/meta/manager.yml",
    "roles/opennebula_host/tasks/front.yml",
    "roles/opennebula_host/tasks/hold.yml",
    "roles/opennebula_host/tasks/release.yml",
    "roles/opennebula_host/vars/main.yml",
    "plugins/filter/gpu_hold.py",
    "plugins/modules/opennebula_host_hold.py",
    "plugins/plugin_utils/_gpu_hold.py",
    "plugins/plugin_utils/_managers.py",
)

MONITORED, DISABLED = 2, 4
HELD = "/var/lib/deephdc/held"
MACHINE = """
<domain type="qemu"><name>one-7</name><memory unit="MiB">16</memory>
<os><type arch="x86_64" machine="pc">hvm</type></os></domain>"""


class Holds:
    """Plays that do what a role does that disturbs kvm1."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def play(self, *entries: str, holder: str = "nvidia_driver", **variables: object) -> list[dict[str, object]]:
        def task(entry: str) -> dict[str, object]:
            if entry not in ("main", "release"):
                return {"name": "Disturb the host", "ansible.builtin.debug": {"msg": entry}}
            return {
                "ansible.builtin.include_role": {"name": "deephdc.accelerators.gpu_hold", "tasks_from": entry},
                "vars": {"gpu_hold_holder": holder},
            }

        return [{"hosts": "kvm1", "gather_facts": False, "vars": variables, "tasks": [task(entry) for entry in entries]}]

    def run(
        self,
        *entries: str,
        holder: str = "nvidia_driver",
        endpoint: str = "",
        succeeds: bool = True,
        check: bool = False,
        killed: bool = False,
        inventory: dict[str, object] | None = None,
        **variables: object,
    ) -> str:
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            json.dump(self.play(*entries, holder=holder, **{"gpu_hold_wait": 0.05, **variables}), file)
            file.flush()
            # As the front end sees it.
            extra = {"opennebula_pci_endpoint": endpoint} if endpoint else {}
            with tempfile.NamedTemporaryFile("w", suffix=".yml") as more:
                json.dump({"all": {"children": inventory or {}}}, more)
                more.flush()
                options = {"succeeds": succeeds, "variables": extra, "inventories": ("hosts.yml", more.name)}
                if not killed:
                    return " ".join(self.site.playbook(file.name, *(["--check"] if check else []), **options).split())

            def kill(line, process):
                if line.startswith("TASK [") and "Disturb the host" in line:
                    os.killpg(process.pid, signal.SIGKILL)

            code, output = self.site.watched_playbook(file.name, kill)
            assert code == -signal.SIGKILL, output[-3000:]
            return output

    def state(self) -> tuple[int, str]:
        told = self.site.one("host = one.host.info(0)\nprint(json.dumps([host.STATE, host.TEMPLATE.get('DEEPHDC_HELD') or '']))")
        state, reason = json.loads(told)
        return state, reason

    def holders(self) -> list[str]:
        return self.site.out("kvm1", f"ls {HELD} 2>/dev/null || true").split()

    def managers(self) -> dict[str, str]:
        return json.loads(self.site.out("kvm1", f"cat {HELD}/nvidia_driver"))["managers"]

    def terminate(self, machine: str) -> None:
        self.site.stand_in(f"terminate({machine})")


@pytest.fixture
def holds(site: Site):
    found = Holds(site)
    site.one("one.host.status(0, 0)")
    # Those that the tests before started.
    for machine in site.running():
        found.terminate(machine)
    yield found
    site.out("kvm1", f"rm -rf {HELD}")
    site.one("one.host.update(0, 'DEEPHDC_HELD=\"\"', 1); one.host.status(0, 0)")


@pytest.fixture
def refusing(tmp_path: Path) -> str:
    """Tasks of a site whose users need the host."""
    (tmp_path / "refuse.yml").write_text("[{ansible.builtin.fail: {msg: it is needed}}]", encoding="utf-8")
    return str(tmp_path / "refuse.yml")


def start(site: Site) -> str:
    """Start a machine of the administrator with a T4; its id."""
    return site.one("""
found = next(entry for entry in one.templatepool.info(-2, -1, -1).VMTEMPLATE if entry.NAME == 't4')
print(one.template.instantiate(found.ID, 'training', False, '', False))""")


def test_a_machine_that_runs_is_waited_for_and_named(site, holds):
    machine = start(site)
    try:
        predicted = holds.run("main", check=True)
        assert (
            f"would be disabled in OpenNebula; up to 0.05 minutes are given to virtual machine {machine} (training) of oneadmin"
            in predicted
        )
        assert holds.state() == (MONITORED, "") and holds.holders() == []

        said = holds.run("main", "disturbed", succeeds=False)
        assert (
            "kvm1 is left as it is, because nvidia_driver can't hold it: after 0.05 minutes (gpu_hold_wait) there still is virtual machine"
            in said
        )
        assert f"virtual machine {machine} (training) of oneadmin with the device " in said and "It was given back to its users." in said
        assert "TASK [Disturb the host]" not in said
        assert holds.state() == (MONITORED, "") and holds.holders() == []
        # A device that no machine has may be disturbed without a reboot.
        holds.run("main", "release", gpu_hold_reboot=False, gpu_hold_devices=["0000:07:00.0"])
    finally:
        holds.terminate(machine)
    holds.run("main", gpu_hold_why="new GPU driver")
    assert holds.state() == (DISABLED, "gpu_hold: nvidia_driver (new GPU driver)")
    assert holds.managers() == {"opennebula": "held"}
    holds.run("release")
    assert holds.state() == (MONITORED, "") and holds.holders() == []


def test_a_machine_that_opennebula_does_not_know_keeps_the_host_from_a_reboot(site, holds):
    site.out("kvm1", f"cat > /tmp/machine.xml <<'E'\n{MACHINE}\nE\nvirsh create /tmp/machine.xml")
    try:
        said = holds.run("main", succeeds=False)
        assert "libvirt on kvm1 still runs one-7, which OpenNebula does not have as running there" in said
        assert site.out("kvm1", "virsh domstate one-7") == "running"
        assert holds.state() == (MONITORED, "") and holds.holders() == []
    finally:
        site.out("kvm1", "virsh destroy one-7; rm /tmp/machine.xml")


def test_a_host_that_an_administrator_disabled_stays_so(site, holds):
    site.one("one.host.status(0, 1)")
    assert "kvm1 was disabled in OpenNebula already and stays so" in holds.run("main", "release")
    assert holds.state() == (DISABLED, "") and holds.holders() == []


def test_the_last_of_two_roles_gives_the_host_back(holds, refusing):
    holds.run("main")
    holds.run("main", holder="pci_passthrough")
    # A role that can't hold it does not give it back for the other.
    said = holds.run("main", succeeds=False, gpu_hold_tasks=refusing, holder="gpu_check")
    assert "It stays held for nvidia_driver, pci_passthrough." in said and "It was given back" not in said
    assert holds.state()[0] == DISABLED and holds.holders() == ["nvidia_driver", "pci_passthrough"]
    assert "kvm1 is not given back yet: pci_passthrough holds it, too" in holds.run("release")
    assert holds.state()[0] == DISABLED and holds.holders() == ["pci_passthrough"]
    holds.run("release", holder="pci_passthrough")
    assert holds.state() == (MONITORED, "") and holds.holders() == []


def test_a_killed_run_is_completed_by_the_next(site, holds):
    holds.run("main", "killed", killed=True)
    assert holds.state()[0] == DISABLED and holds.holders() == ["nvidia_driver"]
    # It stays held where the next run can't hold it again, as it may be half changed.
    said = holds.run("main", succeeds=False, endpoint="http://localhost:9/RPC2")
    assert "It stays held, as it was before, because it may be half changed" in said and holds.holders() == ["nvidia_driver"]
    holds.run("main", "release")
    assert holds.state() == (MONITORED, "") and holds.holders() == []
    # And the file of an earlier version.
    site.out("kvm1", "install -D /dev/null /var/lib/deephdc/pci_passthrough_drained")
    holds.run("release", holder="pci_passthrough")
    site.out("kvm1", "test ! -e /var/lib/deephdc/pci_passthrough_drained")


def test_a_front_end_that_does_not_answer_is_named_and_the_next_run_goes_on(site, holds, refusing):
    gone = {"local_hosts": {"hosts": {"front": {"ansible_host": "gone"}}}}
    said = holds.run("main", "disturbed", succeeds=False, inventory=gone)
    sentence = "The front end front of OpenNebula does not answer: bring it up, or mend the way to it, then run again."
    assert f"kvm1 is left as it is, because nvidia_driver can't hold it: {sentence} It was not given back to its users, see above" in said
    assert f"kvm1 is not given back to the users of opennebula: {sentence}" in said
    assert "TASK [Disturb the host]" not in said
    assert holds.managers() == {"opennebula": "pending"}
    # Nothing was changed, so the next run gives it back where it can't hold it either.
    said = holds.run("main", succeeds=False, gpu_hold_tasks=refusing)
    assert "It was given back to its users." in said and holds.holders() == [] and holds.state() == (MONITORED, "")


def test_a_manager_without_the_host_is_recorded_so(site, holds):
    """No slurmd is there, and no controller: the entry point hold of deephdc.accelerators.slurm_node must not ask for one."""
    holds.run("main", inventory={"slurm_nodes": {"hosts": {"kvm1": {}}}})
    assert holds.managers() == {"slurm": "none", "opennebula": "held"} and holds.state()[0] == DISABLED
    said = holds.run("release")
    assert "was held in" not in said and holds.holders() == [] and holds.state() == (MONITORED, "")


def test_a_host_that_is_named_with_a_reason_is_not_held(site, holds):
    machine = start(site)
    try:
        said = holds.run("main", "disturbed", "release", gpu_hold_not={"kvm1": "its users know"})
        assert "kvm1 is not held for nvidia_driver, as gpu_hold_not says: its users know. Not asked: opennebula." in said
        assert holds.state() == (MONITORED, "") and holds.holders() == []
        said = holds.run("main", gpu_hold_not={"kvm1": ""}, succeeds=False)
        assert "gpu_hold_not gives no reason for kvm1" in said
        said = holds.run("main", gpu_hold_not={"kvm9": "its users know"}, succeeds=False)
        assert "gpu_hold_not names kvm9, which is not in the inventory" in said
    finally:
        holds.terminate(machine)
