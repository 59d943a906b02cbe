# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A site as the playbook leaves it: what the front end offers, who gets it, and what of others stays."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / ".collections"))

from ansible_collections.deephdc.accelerators.plugins.module_utils import _opennebula

PLAYBOOK = "playbooks/opennebula.yml"
SKIP = ("--skip-tags", "pci_passthrough")
CONF = "/var/lib/one/remotes/etc/im/kvm-probes.d/pci.conf"
COPY = "/var/tmp/one/etc/im/kvm-probes.d/pci.conf"
# The simulated devices of kvm1: an A100 for machines, one that the host keeps (02:00.0), T4s in two domains, and a network card.
A100, T4, CARD, T4_FAR = "01:00.0", "03:00.0", "04:00.0", "0009:01:00.0"
OFFERED = sorted([A100, T4, T4_FAR])


def one(cluster, code, session="oneadmin:stand-in-secret"):
    """What a program with OpenNebula's bindings prints on the front end."""
    head = f"import json, pyone; one = pyone.OneServer('http://localhost:2633/RPC2', session='{session}')"
    return cluster.out("front", f"python3 - <<'E'\n{head}\n{code}\nE")


def shown(cluster):
    return json.loads(one(cluster, "print(json.dumps(sorted(d.SHORT_ADDRESS for d in one.host.info(0).HOST_SHARE.PCI_DEVICES.PCI)))"))


def start(cluster, name, session):
    """Start a machine from a template; the error or nothing is printed."""
    return one(
        cluster,
        f"""
found = next(t for t in one.templatepool.info(-2, -1, -1).VMTEMPLATE if t.NAME == {name!r})
try:
    one.template.instantiate(found.ID, 'machine', False, '', False)
except pyone.OneException as error:
    print(error)""",
        session,
    )


def test_machines_may_get_what_vfio_holds_and_nothing_else(cluster):
    assert shown(cluster) == OFFERED


def test_the_host_has_the_settings_of_the_front_end(cluster):
    conf = cluster.out("front", f"cat {CONF}")
    assert conf == cluster.out("kvm1", f"cat {COPY}")
    assert "- '10de:1eb8'  # accelerator" in conf and "#   :filter: '*:*'" in conf and ":nvidia_vendors:" in conf
    assert cluster.out("front", f"stat -c %U:%G:%a {CONF}") == "oneadmin:oneadmin:644"


@pytest.mark.parametrize("pattern", ["10de:20b2", "10de:", "10de:*", "*:*", ":", "8086:10ed", "0:0", "*:20b2", "10DE:1EB8"])
def test_patterns_mean_what_they_mean_to_lspci(cluster, pattern):
    """The format of pci.conf's filter is that of lspci -d."""
    listed = cluster.out("front", f"lspci -F /srv/kvm1/lspci.dump -n -d {pattern}").splitlines()
    covered = {ids for ids in ("10de:20b2", "10de:1eb8", "8086:10ed") if _opennebula.covers(pattern, ids)}
    assert {line.split()[2] for line in listed} == covered


def test_users_get_gpus_by_type_up_to_their_quota(cluster):
    """ada is in the group research, eve is not; everybody may use the template t4."""
    assert start(cluster, "t4", "eve:pw") == ""
    assert "'a100'" not in one(cluster, "print([t.NAME for t in one.templatepool.info(-2, -1, -1).VMTEMPLATE])", "eve:pw")
    assert start(cluster, "a100", "ada:pw") == ""
    assert "limit of 1 reached for PCI_DEV" in start(cluster, "a100", "ada:pw")


def test_the_hosts_packages_come_from_the_signed_repository(cluster):
    assert "opennebula-node-kvm" in cluster.out("kvm1", "dpkg-query -W opennebula-node-kvm")
    sources = cluster.out("kvm1", "cat /etc/apt/sources.list.d/opennebula.sources")
    assert "BEGIN PGP PUBLIC KEY BLOCK" in sources and "trusted" not in sources.lower()
    only = "-o Dir::Etc::sourcelist=sources.list.d/opennebula.sources -o Dir::Etc::sourceparts=-"
    cluster.out("kvm1", f"apt-get -q update -o APT::Update::Error-Mode=any {only}")
    assert "/var/lib/one/datastores/** rwk," in cluster.out("kvm1", "cat /etc/apparmor.d/local/abstractions/libvirt-qemu")


def test_what_one_deploy_and_people_made_stays(cluster):
    """pci.conf lets every device through, and the host's list has a network card; both as one-deploy leaves them."""
    before = cluster.out("front", f"cat {CONF}")
    cluster.out("front", f"printf '%s\\n' \":filter: '*:*'\" ':short_address: []' ':device_name: []' > {CONF}")
    one(cluster, f"one.host.update(0, 'PCI_SHORT_ADDRESS=\"{CARD}\"', 1)")
    try:
        cluster.playbook(PLAYBOOK, *SKIP)
        assert ":filter: '*:*'" in cluster.out("front", f"cat {CONF}")
        assert shown(cluster) == sorted([A100, T4, CARD, T4_FAR])
        assert "changed=0" in cluster.playbook(PLAYBOOK, *SKIP).split("PLAY RECAP")[1].split("front")[1]
    finally:
        cluster.out("front", f"cat > {CONF} <<'E'\n{before}\nE")
        one(cluster, f"one.host.update(0, 'PCI_SHORT_ADDRESS=\"{','.join(OFFERED)}\"', 1)")
        cluster.playbook(PLAYBOOK, *SKIP)


def test_a_host_whose_copy_is_older_is_refreshed(cluster):
    """As after a run that was killed when the file was written and the probes were not refreshed."""
    cluster.out("kvm1", f"sed -i 1d {COPY}")
    cluster.playbook(PLAYBOOK, *SKIP)
    assert cluster.out("front", f"cat {CONF}") == cluster.out("kvm1", f"cat {COPY}")


def test_what_no_host_can_give_is_refused_before_anything_changes(cluster):
    variables = {"opennebula_pci_templates": [{"name": "x", "type": "h100", "attributes": {}}]}
    out = cluster.playbook(PLAYBOOK, *SKIP, variables=variables, succeeds=False)
    assert "The template x asks for h100, but no host of opennebula_hosts passes one through; there is a100, t4" in " ".join(out.split())
    assert "changed=0" in out.split("PLAY RECAP")[1].split("front")[1]


def test_all_can_be_taken_back(cluster):
    cluster.playbook(PLAYBOOK, *SKIP, variables={"opennebula_pci_state": "absent"})
    try:
        assert ":filter: '0:0'" in cluster.out("front", f"cat {CONF}") and "deephdc" not in cluster.out("front", f"cat {CONF}")
        assert "10de" not in one(cluster, "print(one.host.info(0).TEMPLATE)")
        assert one(cluster, "print(len(one.templatepool.info(-2, -1, -1).VMTEMPLATE))") == "0"
    finally:
        cluster.playbook(PLAYBOOK, *SKIP)
    assert shown(cluster) == OFFERED
