# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""OpenNebula's configuration for the accelerators that virtual machines may get.

It is computed from the accelerator model.

Three places say which devices a host offers (OpenNebula 7.0 and newer):

- pci.conf, one file for the hosts of all the front end: ``:filter`` are ``vendor:device:class`` patterns as of ``lspci -d``;
- the host's own attribute PCI_SHORT_ADDRESS, which narrows that to addresses, else the same attribute of its cluster;
- PCI_FILTER of host or cluster, patterns again.

So pci.conf gets the ids of all hosts' accelerators, and each host the addresses. Whatever others wrote there stays.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Mapping, Sequence

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.promises import Promises
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.shapes import unknown_keys
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import (
    Accelerator,
    as_number,
    assignable,
    by_address,
    type_of,
)
from ansible_collections.deephdc.accelerators.plugins.module_utils._opennebula.objects import NAME, permission_bits
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _allotment

TEMPLATE_KEYS = ("name", "type", "device", "count", "attributes", "mode", "group", "state")
QUOTA_KEYS = ("user", "group", "limit")
_STATES = ("present", "absent")

# What the front end keeps of the offered devices, so that the next run sees which are missing.
PROMISES = Promises(
    "/var/lib/deephdc/opennebula_accelerators",
    "# Made by deephdc.accelerators: the accelerators that each host offered to virtual machines at the last run.\n",
    ("kind", "vendor", "vendor_id", "device_id", "class", "pci_address", "model", "type", "driver", "sriov"),
)

_DEVICE = re.compile(r"^[0-9a-f]{4}:[0-9a-f]{4}\Z")
_NOT_IN_NAMES = re.compile(r"""[&|:\\;/'#{}$<>"]|[^ \S]""")  # of OpenNebula's objects; a blank may be


def passed_through(accelerators: Sequence[Accelerator]) -> list[Accelerator]:
    """Return the accelerators of a host that its virtual machines may be given.

    They are those that vfio-pci holds, and virtual functions.

    :raises ValueError: the input is not a list of accelerators, or one has no PCI address or ids.
    """
    # Graphics that are bound to vfio-pci are no longer the host's console.
    listed = [
        dict(device, kind="gpu")
        if isinstance(device, Mapping) and device.get("kind") == "console" and device.get("driver") == "vfio-pci"
        else device
        for device in accelerators
    ]
    return [device for device in assignable(listed) if device.get("driver") == "vfio-pci" or (device.get("sriov") or {}).get("is_vf")]


def ids(device: Accelerator) -> str:
    """Vendor and device id, as ``lspci -d`` takes them."""
    return "{}:{}".format(device["vendor_id"], device["device_id"])


def with_class(device: Accelerator) -> str:
    """Vendor, device id and class, as oned compares them with PCI_FILTER."""
    return "{}:{}".format(ids(device), str(device.get("class") or "")[:4])


def pci_filters(accelerators: Sequence[Accelerator]) -> list[str]:
    """Patterns for pci.conf: the ids of these accelerators.

    :raises ValueError: the input is not a list of accelerators, or one has no PCI address or ids.
    """
    return sorted({ids(device) for device in assignable(accelerators)})


def addresses(accelerators: Sequence[Accelerator]) -> list[str]:
    """The addresses of a host's accelerators as OpenNebula's probe reports them.

    It takes them from ``lspci -mm``, which leaves out the domain 0000 and no other.

    :raises ValueError: the input is not a list of accelerators, or one has no PCI address or ids.
    """
    found = [str(device["pci_address"]) for device in assignable(accelerators)]
    return [address[len("0000:") :] if address.startswith("0000:") else address for address in found]


def pci_request(device: Accelerator) -> dict[str, str]:
    """What a virtual machine's template asks for to get such a device."""
    request = {"VENDOR": str(device["vendor_id"]), "DEVICE": str(device["device_id"])}
    if device.get("class"):
        request["CLASS"] = str(device["class"])[:4]  # OpenNebula has no programming interface
    return request


def inventory_errors(templates: Sequence[Mapping[str, Any]], quotas: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what is wrong with the wanted templates and quotas, one sentence each.

    These mistakes do not depend on what the hosts have.

    :raises ValueError: the input is not a list of dictionaries.
    """
    for given in (templates, quotas):
        if not isinstance(given, (list, tuple)) or not all(isinstance(entry, Mapping) for entry in given):
            raise ValueError("Templates and quotas must be lists of dictionaries.")
    errors = []
    names = [str(template.get("name") or "") for template in templates]
    for name in sorted(set(names)):
        if not name:
            errors.append("An entry of opennebula_pci_templates has no name: give it one.")
        elif names.count(name) > 1:
            errors.append(f"opennebula_pci_templates has {name} more than once: give each template a name of its own.")
    for template, name in zip(templates, names):
        where = f"opennebula_pci_templates: {name}" if name else "An entry of opennebula_pci_templates"
        errors += unknown_keys(where, template, TEMPLATE_KEYS)
        if template.get("state") not in (None, *_STATES):
            errors.append(f"The template {name} has the state {shown(template['state'])}: write {' or '.join(_STATES)}.")
        elif template.get("state") != "absent":
            errors += _template_errors(template)
    limited = [next(((kind, str(quota[kind])) for kind in ("user", "group") if quota.get(kind)), None) for quota in quotas]
    for quota, whose in zip(quotas, limited):
        where = "opennebula_pci_quotas: {} {}".format(*whose) if whose else "An entry of opennebula_pci_quotas"
        errors += unknown_keys(where, quota, QUOTA_KEYS)
        if bool(quota.get("user")) == bool(quota.get("group")):
            errors.append("An entry of opennebula_pci_quotas must have either user or group: name one.")
        elif whose and as_number(quota.get("limit")) is None:
            errors.append(
                "The quota of the {} {} has {} as limit: give 0 or more, -1 for the default quota, -2 for no limit.".format(
                    *whose, shown(quota.get("limit"))
                )
            )
        elif whose and int(quota["limit"]) < -2:
            errors.append(
                "The limit {} of the {} {} is wrong: give 0 or more, -1 for the default quota, -2 for no limit.".format(
                    quota["limit"], *whose
                )
            )
    for kind, name in sorted({whose for whose in limited if whose and limited.count(whose) > 1}):
        errors.append(f"opennebula_pci_quotas has the {kind} {name} more than once: keep one entry.")
    return errors


def _template_errors(template: Mapping[str, Any]) -> list[str]:
    """What is wrong with one wanted template."""
    errors = []
    name = str(template.get("name") or "")
    wrong = _NOT_IN_NAMES.search(name)
    if wrong:
        errors.append(
            f"The name of the template {name} has the character {wrong.group()!r}, which OpenNebula does not take: choose another name."
        )
    if bool(template.get("type")) == bool(template.get("device")):
        errors.append(f"The template {name or None} must have either type or device: say which GPU it asks for.")
    elif template.get("device") and not _DEVICE.match(str(template["device"])):
        errors.append(
            "The template {} has the device {}: write vendor:device as lspci -n prints it, such as 10de:20b0.".format(
                name, template["device"]
            )
        )
    if template.get("count") is not None and (as_number(template["count"]) or 0) < 1:
        errors.append("The template {} asks for {} devices: give a count of 1 or more.".format(name, template["count"]))
    if template.get("mode"):
        try:
            permission_bits(str(template["mode"]))
        except ValueError:
            errors.append(
                "The mode {} of the template {} is not octal: give three digits for owner, group and others, such as '0640'.".format(
                    template["mode"], name
                )
            )
    errors += [
        f"The template {name} needs one text as {key}, not {shown(template[key])}."
        for key in ("type", "device", "mode", "group")
        if isinstance(template.get(key), (Mapping, list, tuple))
    ]
    given = template.get("attributes") or {}
    if not isinstance(given, Mapping):
        return [*errors, f"The template {name} needs a dictionary as attributes, such as {{CPU: 1, MEMORY: 1024}}, not {shown(given)}."]
    names = {str(attribute).upper() for attribute in given}
    if "PCI" in names:
        errors.append(f"The template {name} has the attribute PCI, which the role writes itself from type or device: leave it out.")
    lacking = [attribute for attribute in ("CPU", "MEMORY") if attribute not in names]
    if lacking:
        errors.append(
            "The template {} lacks {} in its attributes, without which OpenNebula starts no machine: add {}.".format(
                name, " and ".join(lacking), "it" if len(lacking) == 1 else "them"
            )
        )
    for attribute, value in given.items():
        vectors = [part for part in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(part, Mapping)]
        for wanted in [attribute, *(part for vector in vectors for part in vector)]:
            if not NAME.match(str(wanted)):
                errors.append(
                    f"The template {name} has the attribute {wanted}: names are letters, digits and '_', beginning with a letter or '_'."
                )
        if any(isinstance(part, (Mapping, list, tuple)) for vector in vectors for part in vector.values()):
            errors.append(f"The template {name} has a vector in the vector {attribute}: OpenNebula knows only texts there.")
    return errors


def plan(
    hostvars: Mapping[str, Mapping[str, Any]],
    members: Sequence[str],
    templates: Sequence[Mapping[str, Any]],
    promised: Mapping[str, Sequence[Accelerator]] | None = None,
    accepted: Sequence[str] = (),
) -> dict[str, Any]:
    """The front end's configuration, from the accelerators of all KVM hosts.

    :param hostvars: variables of hosts: ``opennebula_host_name``, and ``ansible_facts`` with ``accelerators``
    :param members: the KVM hosts
    :param templates: the templates that must ask for GPUs: ``name``, ``type`` or ``device``, ``count``, and what is passed on
    :param promised: what an earlier run offered of each member. What is missing of it stays offered, so that it is back by itself.
    :param accepted: members whose present hardware counts, whatever was promised
    :returns: ``filter`` (patterns), ``hosts``, ``templates``, ``errors`` (sentences that stop the run), ``lost`` (sentences about promised
        devices that are lost), ``warnings`` (sentences about promised ones that their host uses now), ``findings`` (all three as data),
        ``offers`` (by member, number of devices by vendor:device) and ``record``
    :raises ValueError: the variables are no dictionary, or lack a host.
    """
    if not isinstance(hostvars, Mapping):
        raise ValueError("The variables of hosts must be a dictionary, as hostvars is.")
    errors: list[Finding] = []
    hosts: list[dict[str, Any]] = []
    offers: dict[str, list[Accelerator]] = {}
    kept: dict[str, list[Accelerator]] = {}
    lost: list[Finding] = []
    taken: list[Finding] = []
    for member in sorted(members):
        if member not in hostvars:
            raise ValueError(f"The host {member} is not in the inventory.")
        variables = hostvars[member]
        accelerators = (variables.get("ansible_facts") or {}).get("accelerators")
        if accelerators is None:
            remedy = "bring it up, or take it out of the group, then run again"
            sentence = f"{member} is in the group opennebula_hosts but has no facts of accelerators: {remedy}."
            errors.append(Finding("inventory", sentence, member, None, remedy))
            continue
        allotment = variables.get(_allotment.VARIABLE)
        before = [] if member in accepted else (promised or {}).get(member, [])
        # A device that is lost is on the host no more, and still its own.
        errors += _allotment.device_errors(member, [*accelerators, *before], allotment, "opennebula")
        try:
            offered = passed_through(_allotment.owned(accelerators, allotment, "opennebula"))
            before = _allotment.owned(before, allotment, "opennebula")
            possible = assignable(accelerators)
        except ValueError as error:
            errors.append(Finding("inventory", f"{member}: {error}", member))
            continue
        now = {device.get("pci_address"): device for device in accelerators}
        bound = {device["pci_address"] for device in offered}
        others = [device for device in before if device["pci_address"] not in bound]
        used = [device for device in others if is_used(now.get(device["pci_address"]))]
        gone = [device for device in others if device not in used]
        taken += [not_offered(member, device, now[device["pci_address"]]) for device in used]
        lost += [missing(member, device, device["pci_address"] in now, bool(allotment)) for device in gone]
        offered = sorted([*offered, *gone], key=by_address)
        offers[member] = offered
        listed = {device["pci_address"] for device in offered}
        kept[member] = [device for device in possible if device["pci_address"] not in listed]
        hosts.append(
            {
                "member": member,
                "name": str(variables.get("opennebula_host_name") or member),
                "addresses": addresses(offered),
                "devices": sorted({with_class(device) for device in offered}),
                "lost": addresses(gone),
            }
        )
    names = [host["name"] for host in hosts]
    for name in sorted({name for name in names if names.count(name) > 1}):
        same = " and ".join(host["member"] for host in hosts if host["name"] == name)
        remedy = "correct opennebula_host_name"
        errors.append(Finding("inventory", f"{same} are the same host {name} in OpenNebula: {remedy}.", remedy=remedy))
    known = {ids(device) for offered in offers.values() for device in offered}
    for host in hosts:
        # An accelerator of a model that no host offers is not in our patterns.
        host["withheld"] = addresses([device for device in kept[host["member"]] if ids(device) in known])
    impossible: list[str] = []
    found = [_template(template, offers, impossible) for template in templates]
    errors = list(dict.fromkeys([*errors, *(Finding("inventory", sentence) for sentence in impossible)]))
    return {
        "filter": sorted(known),
        "hosts": hosts,
        "templates": [template for template in found if template],
        "errors": [str(found) for found in errors],
        "lost": [str(found) for found in lost],
        "warnings": [str(found) for found in taken],
        "findings": [found.as_dict() for found in [*errors, *lost, *taken]],
        "offers": {member: dict(Counter(ids(device) for device in offered)) for member, offered in offers.items()},
        "record": PROMISES.text(offers),
    }


def is_used(device: Accelerator | None) -> bool:
    """Whether the host itself uses a device, or has divided it.

    One without a driver is of no use to any machine.
    """
    return device is not None and bool(device.get("driver") or (device.get("sriov") or {}).get("num_vfs"))


def missing(member: str, device: Accelerator, is_there: bool, is_allotted: bool) -> Finding:
    """Report a device that is not on the host, or has no driver there.

    Virtual machines were offered the device.
    """
    address = str(device["pci_address"])
    remedy = f"or name {member} in opennebula_pci_accept_hardware"
    if is_there:
        layer, wrong, remedy = "driver", "has no driver", f"bind it to vfio-pci (pci_passthrough_devices), {remedy}"
    elif is_allotted:
        layer, wrong, remedy = "hardware", "is missing", f"repair the host, or remove {address} from {_allotment.VARIABLE} of {member}"
    else:
        layer, wrong, remedy = "hardware", "is missing", f"repair the host, {remedy}"
    sentence = f"{member}: {type_of(device)} at {address} {wrong}, which virtual machines were offered: {remedy}."
    return Finding(layer, sentence, member, address, remedy)


def not_offered(member: str, device: Accelerator, now: Accelerator) -> Finding:
    """A device that virtual machines were offered and that its host has taken back."""
    address = str(device["pci_address"])
    parts = (now.get("sriov") or {}).get("num_vfs")
    wrong = f"is divided into {parts} virtual functions" if parts else f"has the driver {now['driver']}"
    remedy = "if it should be, bind it as a whole to vfio-pci (pci_passthrough_devices)"
    sentence = f"{member}: {type_of(device)} at {address} {wrong} now and is not offered to virtual machines any more: {remedy}."
    return Finding("division" if parts else "driver", sentence, member, address, remedy)


def _template(template: Mapping[str, Any], offers: Mapping[str, Sequence[Accelerator]], errors: list[str]) -> dict[str, Any] | None:
    """One template with the ids of its GPU, None with an error where it can't be had."""
    name, wanted = template["name"], template.get("type") or template.get("device")
    if template.get("state") == "absent":
        return dict(template)
    matching = {
        member: [device for device in offered if wanted in (type_of(device), ids(device))] for member, offered in sorted(offers.items())
    }
    requests = {tuple(sorted(pci_request(device).items())) for devices in matching.values() for device in devices}
    if not requests:
        there = sorted({type_of(device) for offered in offers.values() for device in offered})
        errors.append(
            "The template {} asks for {}, but no host of opennebula_hosts passes one through; there {}: correct "
            "opennebula_pci_templates, or bind the device to vfio-pci.".format(
                name, wanted, "is " + ", ".join(there) if there else "is none"
            )
        )
        return None
    if len(requests) > 1:
        several = sorted({ids(device) for devices in matching.values() for device in devices})
        errors.append(
            "The template {} asks for the type {}, which the hosts have as several devices, {}: say 'device' with one of them "
            "instead of 'type', in a template for each.".format(name, wanted, ", ".join(several))
        )
        return None
    count, most = int(template.get("count") or 1), max(len(devices) for devices in matching.values())
    if count > most:
        errors.append(f"The template {name} asks for {count} of {wanted}, but no host has more than {most}.")
        return None
    return dict(template, pci=dict(requests.pop()), count=count)
