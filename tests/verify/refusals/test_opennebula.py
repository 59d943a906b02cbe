# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Bad inventories of an OpenNebula site: sentences on the control node, and not even a connection to a host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from local import ROOT


def run(tmp_path: Path, frontends: list, hosts: list, **variables: object) -> str:
    """Output of the playbook; no name of a host resolves to anything."""
    groups = {"opennebula_frontends": frontends, "opennebula_hosts": hosts}
    children = {group: {"hosts": {name: {"ansible_host": f"{name}.invalid"} for name in names}} for group, names in groups.items()}
    path = tmp_path / "hosts.json"
    path.write_text(json.dumps({"all": {"vars": variables, "children": children}}), encoding="utf-8")
    words = [f"{sys.prefix}/bin/ansible-playbook", "-i", str(path), str(ROOT / "playbooks/opennebula.yml"), "-e", "site_check_lock=false"]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    assert done.returncode != 0
    return " ".join(done.stdout.split())


def refused(tmp_path: Path, *groups: list, **variables: object) -> str:
    said = run(tmp_path, *groups, **variables)
    assert "UNREACHABLE" not in said, "a host was contacted"
    return said


def test_a_site_without_a_front_end(tmp_path: Path):
    assert "has no host in the group opennebula_frontends: name the front end there." in refused(tmp_path, [], ["kvm1"])


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path):
    machine = {"CPU": 1, "MEMORY": 64}
    templates = [
        {"name": "none", "attributes": machine},
        {"name": "both", "type": "a100", "device": "10de:20b0", "attributes": machine},
        {"name": "nonsense", "device": "A100", "attributes": machine},
        {"name": "small", "type": "a100", "attributes": {"CPU": 1}},
        {"name": "nil", "type": "a100", "count": 0, "attributes": machine},
        {"name": "open", "type": "a100", "mode": "rwx", "attributes": machine},
        {"name": "a/b", "type": "a100", "attributes": machine},
        {"name": "odd", "type": "a100", "attributes": {**machine, "B AD": 1}},
        {"name": "pci", "type": "a100", "attributes": {**machine, "PCI": {"VENDOR": "10de"}}},
        {"name": "twice", "type": "a100", "attributes": machine},
        {"name": "twice", "type": "a100", "attributes": machine},
        {"name": "typo", "typ": "a100", "type": "a100", "attributes": machine},
        {"name": "gone", "state": "absnet"},
        {"name": "word", "type": "a100", "attributes": "CPU=1"},
    ]
    quotas = [
        {"user": "eve"},
        {"user": "bob", "limit": 1, "limits": 2},
        {"limit": 1},
        {"user": "ada", "limit": -3},
        {"group": "g", "limit": 1},
        {"group": "g", "limit": 2},
    ]
    sentences = [
        "The template none must have either type or device: say which GPU it asks for.",
        "The template both must have either type or device",
        "The template nonsense has the device A100: write vendor:device as lspci -n prints it, such as 10de:20b0.",
        "The template small lacks MEMORY in its attributes",
        "The template nil asks for 0 devices: give a count of 1 or more.",
        "The mode rwx of the template open is not octal: give three digits for owner, group and others, such as '0640'.",
        "The name of the template a/b has the character '/', which OpenNebula does not take: choose another name.",
        "The template odd has the attribute B AD: names are letters, digits and '_', beginning with a letter or '_'.",
        "The template pci has the attribute PCI, which the role writes itself from type or device: leave it out.",
        "opennebula_pci_templates has twice more than once: give each template a name of its own.",
        "opennebula_pci_templates: typo has the unknown key 'typ' (did you mean type?).",
        "The template gone has the state 'absnet': write present or absent.",
        "The template word needs a dictionary as attributes, such as {CPU: 1, MEMORY: 1024}, not 'CPU=1'.",
        "The quota of the user eve has None as limit: give 0 or more, -1 for the default quota, -2 for no limit.",
        "opennebula_pci_quotas: user bob has the unknown key 'limits' (did you mean limit?).",
        "An entry of opennebula_pci_quotas must have either user or group: name one.",
        "The limit -3 of the user ada is wrong: give 0 or more, -1 for the default quota, -2 for no limit.",
        "opennebula_pci_quotas has the group g more than once: keep one entry.",
    ]
    said = refused(tmp_path, ["one"], ["kvm1"], opennebula_pci_templates=templates, opennebula_pci_quotas=quotas)
    assert [sentence for sentence in sentences if sentence not in said] == []


def test_what_would_be_another_setting_or_command_is_refused(tmp_path: Path):
    repository = {
        "uri": "https://mirror.invalid\nTrusted: yes",
        "suite": "stable\nTrusted: yes",
        "key": "-----BEGIN PGP PUBLIC KEY BLOCK-----",
    }
    sentences = [
        "opennebula_host_repository of kvm1 is no repository of apt: uri begins with http:, https: or file:",
        "opennebula_host_name of kvm1 must be a host's name or address",
        "opennebula_host_datastores of kvm1 must be absolute paths",
    ]
    names = {"opennebula_host_name": "-c,x", "opennebula_host_datastores": ["/srv/** rwk,\n/etc"]}
    said = refused(tmp_path, ["one"], ["kvm1"], opennebula_host_repository=repository, **names)
    assert [sentence for sentence in sentences if sentence not in said] == []


def test_the_good_inventory_is_not_refused(tmp_path: Path):
    """It gets as far as trying to connect: the refusals above are the inventories' fault."""
    template = {"name": "a100", "type": "a100", "mode": "0640", "count": 2, "attributes": {"CPU": 1, "MEMORY": 64}}
    assert "UNREACHABLE" in run(tmp_path, ["one"], ["kvm1"], opennebula_pci_templates=[template])


@pytest.mark.parametrize(("devices", "is_refused"), [(["0000:77:00.0"], True), ([], False)])
def test_an_allotment_that_the_hardware_contradicts_stops_the_run_before_a_host_is_changed(tmp_path: Path, devices: list, is_refused: bool):
    """It was said in the last play, after hosts were held, bound and rebooted.

    All is read on this machine, nothing is changed.
    """
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "opennebula_host_device_root": str(tmp_path)}
    allotment = {"accelerator_allotment": {"opennebula": {"devices": devices}}}
    groups = {"opennebula_frontends": {"hosts": {"one": local}}, "opennebula_hosts": {"hosts": {"kvm1": {**local, **allotment}}}}
    path = tmp_path / "hosts.json"
    path.write_text(json.dumps({"all": {"children": groups}}), encoding="utf-8")
    words = [f"{sys.prefix}/bin/ansible-playbook", "-i", str(path), str(ROOT / "playbooks/opennebula.yml"), "--check", "--tags", "always"]
    environment = {**os.environ, "ANSIBLE_CACHE_PLUGIN": "memory"}  # else these hosts' facts would be those of the next run's kvm1
    done = subprocess.run(
        words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False
    )
    said = " ".join(done.stdout.split())
    assert ("gives 0000:77:00.0 to opennebula, but the host has no such device" in said) == is_refused
    assert ("PLAY [Install OpenNebula's part" not in said) == is_refused, done.stdout
    assert (done.returncode != 0) == is_refused, done.stdout
