# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What OpenNebula is told of the accelerators that virtual machines may get, computed from the accelerator model.

Three places say which devices a host offers (OpenNebula 7.0 and newer):

- pci.conf, one file for the hosts of all the front end: ``:filter`` are ``vendor:device:class`` patterns as of ``lspci -d``;
- the host's own attribute PCI_SHORT_ADDRESS, which narrows that to addresses, else the same attribute of its cluster;
- PCI_FILTER of host or cluster, patterns again.

So pci.conf gets the ids of all hosts' accelerators, and each host the addresses. Whatever others wrote there stays.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.deephdc.accelerators.plugins.module_utils._accelerator_units import Accelerator, assignable, type_of
from ansible_collections.deephdc.accelerators.plugins.module_utils._opennebula_objects import NAME, permission_bits

NO_DEVICE = "0:0"  # pci.conf's own pattern for none
NO_ADDRESS = "none"  # no device's address: an empty list would not narrow anything
RECORD = "DEEPHDC_PCI_SHORT_ADDRESS"  # attribute of a host: which of its addresses are ours
FOUND = "DEEPHDC_PCI_FOUND"  # and which it showed before without having them in a list of its own

_MARK = "# accelerator"
_HEAD = "# Made by deephdc.accelerators: the entries with the word accelerator. The others stay as they are."
_FILTER = re.compile(r"^:filter:")
_LINE = re.compile(r"^\s*(#.*|---.*|:\w+:.*|-\s.*)?$")
_ENTRY = re.compile(r"^\s*-\s+(.*)$")
_DEVICE = re.compile(r"^[0-9a-f]{4}:[0-9a-f]{4}\Z")
_NOT_IN_NAMES = re.compile(r"""[&|:\\;/'#{}$<>"]|[^ \S]""")  # of OpenNebula's objects; a blank may be
_PATTERN = re.compile(r"^([0-9a-f]{0,4}|\*):([0-9a-f]{0,4}|\*)(?::([0-9a-f]{0,4}|\*)(?::.*)?)?$")


class Entry(NamedTuple):
    """One entry of pci.conf's ``:filter``."""

    pattern: str
    ours: bool


def passed_through(accelerators: Sequence[Accelerator]) -> List[Accelerator]:
    """The accelerators of a host that its virtual machines may be given: those that vfio-pci holds, and virtual functions.

    :raises ValueError: the input is not a list of accelerators, or one has no PCI address or ids.
    """
    # Graphics that somebody bound to vfio-pci are not the host's console any more.
    listed = [
        dict(device, kind="gpu")
        if isinstance(device, Mapping) and device.get("kind") == "console" and device.get("driver") == "vfio-pci"
        else device
        for device in accelerators
    ]
    return [device for device in assignable(listed) if device.get("driver") == "vfio-pci" or (device.get("sriov") or {}).get("is_vf")]


def ids(device: Accelerator) -> str:
    """Vendor and device id, as ``lspci -d`` takes them."""
    return "{0}:{1}".format(device["vendor_id"], device["device_id"])


def with_class(device: Accelerator) -> str:
    """Vendor, device id and class, as oned compares them with PCI_FILTER."""
    return "{0}:{1}".format(ids(device), str(device.get("class") or "")[:4])


def pci_filters(accelerators: Sequence[Accelerator]) -> List[str]:
    """Patterns for pci.conf: the ids of these accelerators.

    :raises ValueError: the input is not a list of accelerators, or one has no PCI address or ids.
    """
    return sorted({ids(device) for device in assignable(accelerators)})


def addresses(accelerators: Sequence[Accelerator]) -> List[str]:
    """The addresses of a host's accelerators as OpenNebula's probe tells them.

    It takes them from ``lspci -mm``, which leaves out the domain 0000 and no other.

    :raises ValueError: the input is not a list of accelerators, or one has no PCI address or ids.
    """
    found = [str(device["pci_address"]) for device in assignable(accelerators)]
    return [address[len("0000:") :] if address.startswith("0000:") else address for address in found]


def pci_conf(text: str, patterns: Sequence[str]) -> str:
    """The text of pci.conf with our patterns in it; comments, other settings and other entries stay as they are.

    Our former entries go. Those that another entry already lets through are not added: lspci would list the device twice.

    :raises ValueError: the text can't be extended without changing what others wrote.
    """
    if not isinstance(text, str):
        raise ValueError("The text of pci.conf must be text.")
    lines = text.splitlines()
    strange = next((line for line in lines if not _LINE.match(line)), None)
    if strange:
        raise ValueError("pci.conf on the front end has a line that is no setting and no entry of a list: {0}.".format(strange.strip()))
    for name in (":short_address", ":device_name"):
        if _has_entries(lines, name):
            raise ValueError(
                "pci.conf on the front end narrows the devices of all hosts by {0}: move that to the hosts (attributes PCI_FILTER and "
                "PCI_SHORT_ADDRESS, 'onehost update') and empty it.".format(name)
            )
    first, last, body, entries = _entries(lines)
    others = [entry for entry in entries if not entry.ours and entry.pattern != NO_DEVICE]
    missing = [pattern for pattern in patterns if not any(covers(part, pattern) for entry in others for part in entry.pattern.split(","))]
    if sorted(entry.pattern for entry in entries if entry.ours) == sorted(missing):
        return text
    body = [line for line in body if not _is_gone(line)]
    indent = next((line[: line.index("-")] for line in body if _ENTRY.match(line)), "  ")
    if missing:
        block = [_HEAD, ":filter:", *body, *("{0}- '{1}'  {2}".format(indent, pattern, _MARK) for pattern in missing)]
    elif others:
        block = [":filter:", *body]
    else:
        block = [":filter: '{0}'".format(NO_DEVICE)]
    before = [line for line in lines[:first] if line != _HEAD]
    return "\n".join([*before, *block, *lines[last:]]) + "\n"


def covers(pattern: str, device: str) -> bool:
    """Whether a pattern of ``lspci -d`` lets a device through that is given as vendor:device."""
    match = _PATTERN.match(pattern.strip().lower())
    if not match or match.group(3) not in (None, "", "*"):
        return False
    vendor, number = device.lower().split(":")
    return match.group(1) in ("", "*", vendor) and match.group(2) in ("", "*", number)


def host_attributes(
    template: Mapping[str, Any],
    cluster: Mapping[str, Any],
    listed: Sequence[str],
    wanted: Sequence[str],
    withheld: Sequence[str],
) -> Dict[str, str]:
    """The attributes of a host that offer the wanted addresses, beside those that others have it offer.

    An address that others listed stays, and so does what OpenNebula shows of a host without a list, as a list hides the rest.
    Without anything to offer or to withhold the host is left as it was before.

    :param template: the host's attributes
    :param cluster: its cluster's, which count where the host has none
    :param listed: the addresses that OpenNebula shows now
    :param wanted: those of the accelerators to offer
    :param withheld: those of accelerators of the same models that must not be offered
    """
    recorded = split(template.get(RECORD))
    own = split(template.get("PCI_SHORT_ADDRESS"))
    base = own or split(cluster.get("PCI_SHORT_ADDRESS")) or [address for address in listed if address not in withheld]
    others = [address for address in base if address not in recorded and address not in wanted and address != NO_ADDRESS]
    found = split(template.get(FOUND)) if recorded else [] if own else others
    if wanted or withheld:
        ours = list(wanted) if others or wanted else [NO_ADDRESS]
        # A record even where nothing is ours: it tells that the host is taken care of.
        return {"PCI_SHORT_ADDRESS": ",".join([*others, *ours]), RECORD: ",".join(ours or [NO_ADDRESS]), FOUND: ",".join(found)}
    kept = [address for address in others if address not in found] if recorded else own
    return {"PCI_SHORT_ADDRESS": ",".join(kept), RECORD: "", FOUND: ""}


def hidden_by(template: Mapping[str, Any], cluster: Mapping[str, Any], devices: Iterable[str]) -> Optional[str]:
    """Why PCI_FILTER of the host or its cluster keeps a wanted device (vendor:device:class) away; None where none does."""
    for owner, attributes in (("host", template), ("cluster", cluster)):
        given = str(attributes.get("PCI_FILTER") or "")
        if not given:
            continue
        for device in devices:
            if not any(shows(pattern, device) for pattern in given.split(",")):
                return "its {0} has PCI_FILTER {1}, which hides {2}: add {2} there, in small letters, or empty PCI_FILTER".format(
                    owner, given, device
                )
        return None  # the cluster's counts only where the host has none
    return None


def shows(pattern: str, device: str) -> bool:
    """Whether a pattern of PCI_FILTER lets a device (vendor:device:class) through, as oned judges: it knows no other case, and takes
    what is empty or left out for any."""
    parts = [part.strip() if part else "*" for part in pattern.split(":")[:3]]
    return all(part in ("*", own) for part, own in zip(parts, device.split(":")))


def unguarded(hosts: Iterable[Mapping[str, Any]], clusters: Mapping[str, Mapping[str, Any]]) -> List[str]:
    """Names of KVM hosts of the pool that show whatever pci.conf lets through, as neither they nor their cluster narrow it.

    :param hosts: objects of the pool: NAME, VM_MAD, CLUSTER_ID and TEMPLATE.
    :param clusters: attributes of clusters by id.
    """
    found = []
    for host in hosts:
        own = host["TEMPLATE"] if isinstance(host.get("TEMPLATE"), Mapping) else {}
        of_cluster = clusters.get(str(host.get("CLUSTER_ID")), {})
        narrowed = any(owner.get(name) for owner in (own, of_cluster) for name in ("PCI_SHORT_ADDRESS", "PCI_FILTER"))
        if host.get("VM_MAD") in ("kvm", "qemu") and not narrowed:
            found.append(str(host.get("NAME")))
    return sorted(found)


def split(value: Any) -> List[str]:
    """The parts of a comma-separated attribute."""
    return [part.strip() for part in str(value or "").split(",") if part.strip()]


def pci_request(device: Accelerator) -> Dict[str, str]:
    """What a virtual machine's template asks for to get such a device."""
    request = {"VENDOR": str(device["vendor_id"]), "DEVICE": str(device["device_id"])}
    if device.get("class"):
        request["CLASS"] = str(device["class"])[:4]  # OpenNebula has no programming interface
    return request


def inventory_errors(templates: Sequence[Mapping[str, Any]], quotas: Sequence[Mapping[str, Any]]) -> List[str]:
    """What is wrong with the wanted templates and quotas whatever the hosts have, one sentence each.

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
            errors.append("opennebula_pci_templates has {0} more than once: give each template a name of its own.".format(name))
    for template in templates:
        if template.get("state") != "absent":
            errors += _template_errors(template)
    limited = [next(((kind, str(quota[kind])) for kind in ("user", "group") if quota.get(kind)), None) for quota in quotas]
    for quota, whose in zip(quotas, limited):
        if bool(quota.get("user")) == bool(quota.get("group")):
            errors.append("An entry of opennebula_pci_quotas must have either user or group: name one.")
        elif whose and int(quota.get("limit") or 0) < -2:
            errors.append(
                "The limit {0} of the {1} {2} is none: give 0 or more, -1 for the default quota, -2 for no limit.".format(
                    quota["limit"], *whose
                )
            )
    for kind, name in sorted({whose for whose in limited if whose and limited.count(whose) > 1}):
        errors.append("opennebula_pci_quotas has the {0} {1} more than once: keep one entry.".format(kind, name))
    return errors


def _template_errors(template: Mapping[str, Any]) -> List[str]:
    """What is wrong with one wanted template."""
    errors = []
    name = str(template.get("name") or "")
    wrong = _NOT_IN_NAMES.search(name)
    if wrong:
        errors.append(
            "The name of the template {0} has the character {1!r}, which OpenNebula does not take: choose another name.".format(
                name, wrong.group()
            )
        )
    if bool(template.get("type")) == bool(template.get("device")):
        errors.append("The template {0} must have either type or device: say which GPU it asks for.".format(name or None))
    elif template.get("device") and not _DEVICE.match(str(template["device"])):
        errors.append(
            "The template {0} has the device {1}: write vendor:device as lspci -n prints it, such as 10de:20b0.".format(
                name, template["device"]
            )
        )
    if template.get("count") is not None and int(template["count"]) < 1:
        errors.append("The template {0} asks for {1} devices: give a count of 1 or more.".format(name, template["count"]))
    if template.get("mode"):
        try:
            permission_bits(str(template["mode"]))
        except ValueError:
            errors.append(
                "The mode {0} of the template {1} is not octal: give three digits for owner, group and others, such as '0640'.".format(
                    template["mode"], name
                )
            )
    given = template.get("attributes") or {}
    names = {str(attribute).upper() for attribute in given}
    if "PCI" in names:
        errors.append(
            "The template {0} has the attribute PCI, which the role writes itself from type or device: leave it out.".format(name)
        )
    lacking = [attribute for attribute in ("CPU", "MEMORY") if attribute not in names]
    if lacking:
        errors.append(
            "The template {0} lacks {1} in its attributes, without which OpenNebula starts no machine: add {2}.".format(
                name, " and ".join(lacking), "it" if len(lacking) == 1 else "them"
            )
        )
    for attribute, value in given.items():
        vectors = [part for part in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(part, Mapping)]
        for wanted in [attribute, *(part for vector in vectors for part in vector)]:
            if not NAME.match(str(wanted)):
                errors.append(
                    "The template {0} has the attribute {1}: names are letters, digits and '_', beginning with a letter or '_'.".format(
                        name, wanted
                    )
                )
        if any(isinstance(part, (Mapping, list, tuple)) for vector in vectors for part in vector.values()):
            errors.append("The template {0} has a vector in the vector {1}: OpenNebula knows only texts there.".format(name, attribute))
    return errors


def plan(hostvars: Mapping[str, Mapping[str, Any]], members: Sequence[str], templates: Sequence[Mapping[str, Any]]) -> Dict[str, Any]:
    """What the front end is told, from the accelerators of all KVM hosts.

    :param hostvars: variables of hosts: ``opennebula_host_name``, and ``ansible_facts`` with ``accelerators``
    :param members: the KVM hosts
    :param templates: the templates that shall ask for GPUs: ``name``, ``type`` or ``device``, ``count``, and what is passed on
    :returns: ``filter`` (patterns), ``hosts``, ``templates`` and ``errors`` (sentences)
    :raises ValueError: the variables are no dictionary, or lack a host.
    """
    if not isinstance(hostvars, Mapping):
        raise ValueError("The variables of hosts must be a dictionary, as hostvars is.")
    errors: List[str] = []
    hosts: List[Dict[str, Any]] = []
    offers: Dict[str, List[Accelerator]] = {}
    kept: Dict[str, List[Accelerator]] = {}
    for member in sorted(members):
        if member not in hostvars:
            raise ValueError("The host {0} is not in the inventory.".format(member))
        variables = hostvars[member]
        accelerators = (variables.get("ansible_facts") or {}).get("accelerators")
        if accelerators is None:
            errors.append("{0} is in the group opennebula_hosts but has no facts of accelerators: run without --limit once.".format(member))
            continue
        try:
            offered = passed_through(accelerators)
            kept[member] = [device for device in assignable(accelerators) if device not in offered]
        except ValueError as error:
            errors.append("{0}: {1}".format(member, error))
            continue
        offers[member] = offered
        hosts.append(
            {
                "member": member,
                "name": str(variables.get("opennebula_host_name") or member),
                "addresses": addresses(offered),
                "devices": sorted({with_class(device) for device in offered}),
            }
        )
    names = [host["name"] for host in hosts]
    for name in sorted({name for name in names if names.count(name) > 1}):
        same = " and ".join(host["member"] for host in hosts if host["name"] == name)
        errors.append("{0} are the same host {1} in OpenNebula: correct opennebula_host_name.".format(same, name))
    known = {ids(device) for offered in offers.values() for device in offered}
    for host in hosts:
        # An accelerator whose model nobody offers is not listed on our account.
        host["withheld"] = addresses([device for device in kept[host["member"]] if ids(device) in known])
    found = [_template(template, offers, errors) for template in templates]
    return {
        "filter": sorted(known),
        "hosts": hosts,
        "templates": [template for template in found if template],
        "errors": errors,
    }


def _template(template: Mapping[str, Any], offers: Mapping[str, Sequence[Accelerator]], errors: List[str]) -> Optional[Dict[str, Any]]:
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
            "The template {0} asks for {1}, but no host of opennebula_hosts passes one through; there {2}: correct "
            "opennebula_pci_templates, or bind the device to vfio-pci.".format(
                name, wanted, "is " + ", ".join(there) if there else "is none"
            )
        )
        return None
    if len(requests) > 1:
        several = sorted({ids(device) for devices in matching.values() for device in devices})
        errors.append(
            "The template {0} asks for the type {1}, which the hosts have as several devices, {2}: say 'device' with one of them "
            "instead of 'type', in a template for each.".format(name, wanted, ", ".join(several))
        )
        return None
    count, most = int(template.get("count") or 1), max(len(devices) for devices in matching.values())
    if count > most:
        errors.append("The template {0} asks for {1} of {2}, but no host has more than {3}.".format(name, count, wanted, most))
        return None
    return dict(template, pci=dict(requests.pop()), count=count)


def _has_entries(lines: Sequence[str], name: str) -> bool:
    """Whether a list of pci.conf has entries; comments and an empty list are none."""
    inside = False
    for line in lines:
        if line.startswith(name + ":"):
            rest = line[len(name) + 1 :].split("#")[0].strip()
            if rest not in ("", "[]", "~", "null"):
                return True
            inside = True
        elif inside and _ENTRY.match(line):
            return True
        elif line.strip() and not line.lstrip().startswith("#"):
            inside = False
    return False


def _is_gone(line: str) -> bool:
    """Whether a line of the list is to go: an entry of ours, which is written anew, or the pattern for no device."""
    found = _ENTRY.match(line)
    return found is not None and (line.rstrip().endswith(_MARK) or _unquoted(found.group(1)) == NO_DEVICE)


def _entries(lines: Sequence[str]) -> Tuple[int, int, List[str], List[Entry]]:
    """Where ``:filter`` begins and ends in the file, its list as lines, and its entries."""
    first = next((number for number, line in enumerate(lines) if _FILTER.match(line)), len(lines))
    if first == len(lines):
        return first, first, [], []
    inline = lines[first][len(":filter:") :].strip()
    if inline and not inline.startswith("#"):
        parts = [inline]
        if inline.startswith("["):
            inside, closed, _rest = inline[1:].partition("]")
            if not closed:
                raise ValueError("pci.conf on the front end has a :filter in brackets over several lines: write one entry a line.")
            parts = [part for part in inside.split(",") if part.strip()]
        values = [_unquoted(part) for part in parts]
        return first, first + 1, ["  - '{0}'".format(value) for value in values], [Entry(value, False) for value in values]
    entries: List[Entry] = []
    last = first + 1
    for end, line in enumerate(lines[first + 1 :], first + 2):
        found = _ENTRY.match(line)
        if found:
            entries.append(Entry(_unquoted(found.group(1)), line.rstrip().endswith(_MARK)))
            last = end
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    return first, last, list(lines[first + 1 : last]), entries


def _unquoted(text: str) -> str:
    """A scalar of YAML, without quotes and comment."""
    text = text.strip()
    if text[:1] in ("'", '"'):
        value, closed, rest = text[1:].partition(text[0])
    else:
        value, closed, rest = re.split(r"\s+#", text)[0].strip(), "yes", ""
    if not closed or rest.split("#")[0].strip() or not value or value[:1] in "{&!|>%@`":
        raise ValueError(
            "pci.conf on the front end has a :filter that can't be read, {0}: write one pattern such as '10de:*' a line.".format(text)
        )
    return value
