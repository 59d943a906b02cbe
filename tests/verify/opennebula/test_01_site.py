# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A site as the playbook leaves it: what users can not ask for, and what the KVM host lets its emulators do."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / ".collections"))

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._opennebula import pci_conf
from opennebula_site import CONF, COPY

OWNS = (
    "roles/opennebula_host/tasks/cgroup.yml",
    "roles/opennebula_host/tasks/devices.yml",
    "roles/opennebula_host/tasks/install.yml",
    "roles/opennebula_pci/tasks/conf.yml",
    "roles/opennebula_pci/tasks/deliver.yml",
    "plugins/doc_fragments/opennebula.py",
    "plugins/filter/opennebula.py",
    "plugins/module_utils/_opennebula",
    "plugins/modules/opennebula_*.py",
    "plugins/plugin_utils/_opennebula",
    "tests/verify/opennebula/conftest.py",
    "tests/verify/opennebula_site.py",
)

MACHINE = """
<domain type="qemu"><name>one-7</name><uuid>{uuid}</uuid><memory unit="MiB">16</memory>
<os><type arch="x86_64" machine="pc">hvm</type></os><devices>{devices}</devices></domain>"""
DISK = """<disk type="file"><driver name="qemu" type="raw"/><source file="/var/lib/one/datastores/0/7/disk.0"/><target dev="sda"/></disk>"""
GPU = """<hostdev mode="subsystem" type="pci" managed="yes"><driver name="vfio"/>
<source><address domain="0" bus="1" slot="0" function="0"/></source></hostdev>"""
UUID = "3f8a3a68-5d0c-4b0a-9f52-0d4f5c1b7a11"


def test_the_host_has_the_settings_of_the_front_end(site):
    conf = site.conf()
    assert conf == site.out("kvm1", f"cat {COPY}")
    assert "- '10de:1eb8'  # accelerator" in conf and "#   :filter: '*:*'" in conf and ":nvidia_vendors:" in conf
    assert site.out("front", f"stat -c %U:%G:%a {CONF}") == "oneadmin:oneadmin:644"


PATTERNS = ["10de:20b2", "10de:", "10de:*", "*:*", ":", "8086:10ed", "0:0", "*:20b2", "10DE:1EB8", "10de::0302", "10de:20b2:"]


def test_patterns_mean_what_they_mean_to_lspci(site):
    """The format of pci.conf's filter is that of lspci -d."""
    command = "lspci -F /srv/kvm1/lspci.dump -n -d"
    lines = site.out("front", f'for pattern in {" ".join(map(repr, PATTERNS))}; do {command} "$pattern" | sed "s/^/$pattern /"; done')
    listed = {(pattern, ids) for pattern, _address, _kind, ids in (line.split()[:4] for line in lines.splitlines())}
    devices = ("10de:20b2", "10de:1eb8", "8086:10ed")
    # One of a class lets some of a model through, and so is never taken for one that covers the model.
    covered = {(pattern, ids) for pattern in PATTERNS for ids in devices if pci_conf.covers(pattern, ids)}
    assert covered == {(pattern, ids) for pattern, ids in listed if not pattern.endswith(":0302")}


def test_users_can_not_ask_for_other_devices(site):
    assert "restricted attribute PCI" in site.start("t4", "eve:pw", 'PCI=[SHORT_ADDRESS="02:00.0"]')
    own = "one.template.allocate('NAME=own PCI=[VENDOR=\"10de\"]')"
    said = site.one(f"try:\n    {own}\nexcept pyone.OneAuthorizationException as error:\n    print(error)", "eve:pw")
    assert "restricted attribute PCI" in said


def test_the_hosts_packages_come_from_the_signed_repository(site):
    assert "opennebula-node-kvm" in site.out("kvm1", "dpkg-query -W opennebula-node-kvm")
    sources = site.out("kvm1", "cat /etc/apt/sources.list.d/opennebula.sources")
    assert "BEGIN PGP PUBLIC KEY BLOCK" in sources and "trusted" not in sources.lower()
    # apt would forget the lists of all other sources.
    only = "-o Dir::Etc::sourcelist=sources.list.d/opennebula.sources -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0"
    site.out("kvm1", f"apt-get -q update -o APT::Update::Error-Mode=any {only}")


def test_apparmor_lets_a_machine_have_its_disk_and_its_gpu(site):
    """The profile as libvirt's own helper makes it for a machine, put together by AppArmor's own parser; no kernel is asked."""
    site.out("kvm1", "mkdir -p /var/lib/one/datastores/0/7 && truncate -s 1M /var/lib/one/datastores/0/7/disk.0")
    name = f"/etc/apparmor.d/libvirt/libvirt-{UUID}"
    site.out("kvm1", f"cat > /tmp/machine.xml <<'E'\n{MACHINE.format(uuid=UUID, devices=DISK + GPU)}\nE")
    made = site.out("kvm1", f"/usr/lib/libvirt/virt-aa-helper -c -d -u libvirt-{UUID} < /tmp/machine.xml 2>&1")
    assert '"/dev/vfio/vfio" rw,' in made and '"/dev/vfio/[0-9]*" rw,' in made
    site.out("kvm1", f"sed 's/LIBVIRT_TEMPLATE/libvirt-{UUID}/' /etc/apparmor.d/libvirt/TEMPLATE.qemu > {name}")
    try:
        whole = site.out("kvm1", f"apparmor_parser --preprocess {name}")
        assert re.search(r"^\s*/var/lib/one/datastores/\*\* rwk,$", whole, re.MULTILINE)
        site.out("kvm1", f"apparmor_parser --skip-kernel-load --skip-cache {name}")
    finally:
        site.out("kvm1", f"rm -r {name} /tmp/machine.xml /var/lib/one/datastores/0")


def test_libvirt_takes_the_list_of_devices(site):
    """Nothing of libvirt's own list is missing in the one that replaces it, and machines start with it."""
    conf = site.out("kvm1", "cat /etc/libvirt/qemu.conf")
    own = re.search(r"#cgroup_device_acl = \[(.*?)#\]", conf, re.DOTALL)
    ours = json.loads(re.search(r"^cgroup_device_acl = (.*)$", conf, re.MULTILINE).group(1))
    assert own and set(re.findall(r'"(/dev/[^"]*)"', own.group(1))) <= set(ours)
    assert {"/dev/vfio/vfio", "/dev/vfio/10", "/dev/vfio/12", "/dev/vfio/14"} <= set(ours)
    site.out("kvm1", "virsh list")
