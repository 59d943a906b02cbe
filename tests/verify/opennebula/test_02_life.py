# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What happens to a site: others write, the API fails, all is taken back, a run is killed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest
from leaks import ProcessWatch
from local import ROOT
from opennebula_site import AUTH, CARD, COPY, OFFERED, PLAYBOOK, SKIP, Site, recap

OWNS = (
    "roles/opennebula_pci/tasks/hosts.yml",
    "roles/opennebula_pci/tasks/plan.yml",
    "roles/opennebula_pci/tasks/read.yml",
    "roles/opennebula_pci/tasks/sync.yml",
    "plugins/module_utils/_opennebula/api.py",
    "plugins/plugin_utils/_opennebula/plan.py",
)

# As one-deploy's tool leaves the file: all comments are gone.
ONE_DEPLOY = """---
:filter: "*:*"
:short_address: []
:device_name: []
:nvidia_vendors:
- 10de"""
# As OpenNebula's package has it.
FRESH = ONE_DEPLOY.replace("*:*", "0:0")
DISABLED = 4
# A search for the password by a user who may read only what every user may, and in the logs by root.
SEARCH = """
import os, subprocess
needle = open('{auth}', 'rb').read().strip().split(b':')[1]
logs = ['/var/log'] + ([] if needle not in subprocess.run(['journalctl', '-o', 'cat'], stdout=subprocess.PIPE).stdout else ['journal'])
def holders(tops):
    for top in tops:
        for folder, _folders, names in os.walk(top):
            for path in (os.path.join(folder, name) for name in names):
                try:
                    if os.path.isfile(path) and needle in open(path, 'rb').read():
                        print(path)
                except OSError:
                    pass
print(*logs[1:])
holders(['/var/log'])
os.setgid(65534)
os.setuid(65534)
holders(['/etc', '/home', '/root', '/run', '/srv', '/tmp', '/usr/local', '/var'])
"""


@pytest.fixture(scope="module", autouse=True)
def deployed(site: Site) -> Iterator[str]:
    """The settings of the probes, which are as they were afterwards, on the front end and on its host."""
    before = site.conf()
    yield before
    site.write_conf(before)
    site.out("kvm1", f"cat > {COPY} <<'E'\n{before}\nE")


@pytest.fixture(scope="module")
def others(site: Site) -> None:
    """Have one-deploy run again with a network card in its pci_devices, a template edited, and quotas and a template of others."""
    site.write_conf(ONE_DEPLOY)
    site.one(f"""
one.host.update(0, 'PCI_SHORT_ADDRESS="{CARD}" NOTE="rack 7"', 1)
own = next(entry for entry in one.templatepool.info(-2, -1, -1).VMTEMPLATE if entry.NAME == 'a100')
one.template.update(own.ID, 'LOGO="tux.svg" SCHED_REQUIREMENTS="ID=0" MEMORY=1', 1)
eve = next(user for user in one.userpool.info().USER if user.NAME == 'eve')
one.user.quota(eve.ID, 'VM=[VMS="5"]')
research = next(group for group in one.grouppool.info().GROUP if group.NAME == 'research')
one.group.quota(research.ID, 'VM=[PCI_DEV="9",CPU="64"]')""")
    site.one("one.template.allocate('NAME=a100 CPU=1 MEMORY=64')", "eve:pw")


@pytest.fixture(scope="module")
def taken_back(site: Site, deployed: str) -> Iterator[None]:
    """A site without what the playbook made; the host was disabled by a person meanwhile."""
    site.write_conf(deployed)
    site.one("one.host.status(0, 1)")
    site.roll_out(variables={"opennebula_pci_state": "absent", "opennebula_host_cgroup_acl": False})
    yield
    site.one("one.host.status(0, 0)")
    if "accelerator" not in site.conf():
        site.roll_out()


def test_what_one_deploy_and_people_made_stays_and_no_secret_is_told(site, others):
    password = (site.secrets / "oneadmin").read_text(encoding="utf-8").split()[0]
    watch = ProcessWatch([password.encode()])
    watch.start()
    output = site.roll_out("-vvv", "--diff")
    watch.stop()
    assert not watch.found and password not in output and "MEMORY=8192" in output
    files = [*site.state.joinpath("facts").glob("*"), *(ROOT / ".cache/logs").glob("*")]
    assert [file for file in files if file.is_file() and password.encode() in file.read_bytes()] == []
    # Finds what is planted for it and nothing else.
    site.out("front", f"umask 022; cat {AUTH} > /var/tmp/planted")
    assert site.out("front", f"python3 - <<'E'\n{SEARCH.format(auth=AUTH)}\nE").split() == ["/var/tmp/planted"]
    site.out("front", "rm /var/tmp/planted")

    assert site.conf() == ONE_DEPLOY
    assert site.shown() == sorted([*OFFERED, CARD])
    left = site.one("""
own, hers = sorted((entry for entry in one.templatepool.info(-2, -1, -1).VMTEMPLATE if entry.NAME == 'a100'), key=lambda entry: entry.ID)
eve = next(user for user in one.userpool.info().USER if user.NAME == 'eve')
research = next(group for group in one.grouppool.info().GROUP if group.NAME == 'research')
quotas = one.user.info(eve.ID).VM_QUOTA.VM[0], one.group.info(research.ID).VM_QUOTA.VM[0]
print(json.dumps([own.TEMPLATE[name] for name in ('LOGO', 'SCHED_REQUIREMENTS', 'MEMORY')] + [hers.TEMPLATE.get('PCI')]
                 + [quotas[0].VMS, quotas[1].CPU, one.host.info(0).TEMPLATE['NOTE']]))""")
    assert json.loads(left) == ["tux.svg", "ID=0", "8192", None, "5", "64", "rack 7"]
    again = site.roll_out()
    assert "changed=0" in recap(again, "front") and "changed=0" in recap(again, "kvm1")


def test_without_an_answer_nothing_is_changed(site, deployed):
    """There would be something to do."""
    site.write_conf(FRESH)
    try:
        said = site.roll_out(variables={"opennebula_pci_endpoint": "http://localhost:9/RPC2"}, succeeds=False)
        assert "OpenNebula at http://localhost:9/RPC2 does not answer" in " ".join(said.split())
        assert "changed=0" in recap(said, "front") and site.conf() == FRESH
    finally:
        site.write_conf(deployed)


def test_what_can_not_be_passed_through_is_refused_before_anything_changes(site):
    """The container has no GPU of its own.

    The role pci_passthrough looks at what is there, not at the simulation.
    """
    said = site.playbook(PLAYBOOK, variables={"pci_passthrough_devices": ["a100"]}, succeeds=False)
    assert "pci_passthrough_devices of kvm1 asks for a100, which the host does not have" in " ".join(said.split())
    assert "changed=0" in recap(said, "kvm1") and "changed=0" in recap(said, "front")


def test_what_no_host_can_give_is_refused_before_anything_changes(site):
    template = {"name": "x", "type": "h100", "attributes": {"CPU": 1, "MEMORY": 64}}
    said = site.roll_out("--tags", "opennebula_pci", variables={"opennebula_pci_templates": [template]}, succeeds=False)
    assert "The template x asks for h100, but no host of opennebula_hosts passes one through; there is a100, t4" in " ".join(said.split())
    assert "changed=0" in recap(said, "front")


def test_all_can_be_taken_back(site, others, taken_back):
    """A host that was disabled stays so: reporting its devices at once would enable it."""
    assert ":filter: '0:0'" in site.conf() or ':filter: "0:0"' in site.conf()
    assert "deephdc" not in site.conf() + site.out("kvm1", "cat /etc/libvirt/qemu.conf")
    left = site.one("print(json.dumps([one.host.info(0).STATE, dict(one.host.info(0).TEMPLATE)]))")
    state, attributes = json.loads(left)
    assert state == DISABLED
    assert {name: value for name, value in attributes.items() if value} == {"PCI_SHORT_ADDRESS": CARD, "NOTE": "rack 7"}
    assert site.one("print(*(entry.UNAME for entry in one.templatepool.info(-2, -1, -1).VMTEMPLATE))") == "eve"


def test_a_run_that_is_killed_is_finished_by_the_next(site, taken_back):
    """Killed when pci.conf is written and no host has it."""
    site.one('one.host.update(0, \'PCI_SHORT_ADDRESS="" NOTE=""\', 1)')
    site.out("front", "runuser -u oneadmin -- onehost forceupdate kvm1")

    def kill(line, process):
        if line.startswith("TASK [") and "Read the digest of pci.conf on each host" in line:
            os.killpg(process.pid, signal.SIGKILL)

    code, output = site.watched_playbook(PLAYBOOK, kill, *SKIP)
    assert code == -signal.SIGKILL, output[-3000:]
    assert "accelerator" in site.conf() and site.conf() != site.out("kvm1", f"cat {COPY}")
    site.roll_out()
    assert site.conf() == site.out("kvm1", f"cat {COPY}") and site.shown() == OFFERED
    own = site.one("print(*sorted(entry.NAME for entry in one.templatepool.info(-3, -1, -1).VMTEMPLATE))")
    assert own == "a100 t4"
