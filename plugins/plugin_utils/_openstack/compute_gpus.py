# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The GPUs of a compute host with what it promised before: pure functions.

This is the content of /etc/nova/gpus.json. The file itself is the record of promises: its entries stay until a person accepts
their loss.
"""

from __future__ import annotations

import json
import posixpath
from typing import Any, Mapping, Sequence

from ansible_collections.deephdc.accelerators.plugins.module_utils._model import units
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.promises import ADVISORY
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _allotment
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.devices import gpu_inventory

PATH = "/etc/nova/gpus.json"
MANAGER = "openstack"
NOTE = "Made by deephdc.accelerators, role nova_lxd: changes are lost with its next run."

Accelerator = Mapping[str, Any]
Entry = dict[str, Any]


def inventory(
    accelerators: Sequence[Accelerator],
    recorded: str = "",
    cards: Sequence[Mapping[str, Any]] | None = None,
    root: str = "/",
    nvidia_runtime: bool = False,
    allotment: Any = None,
    accepted: bool = False,
    host: str = "the host",
) -> dict[str, Any]:
    """The content of the file, and what is lost.

    :arg accelerators: the host's, as gpu_facts reads them.
    :arg recorded: the text of the file as it is, empty where there is none.
    :arg cards: what LXD lists as the host's cards. LXD gives a device of type gpu only of one of them; of another device its files are
        given.
    :arg root: directory below which the kernel's files of the devices are.
    :arg nvidia_runtime: whether LXD can give instances NVIDIA's libraries.
    :arg allotment: the host's accelerator_allotment.
    :arg accepted: whether what the host has now counts, whatever it promised.
    :returns: C(inventory), the content, and C(lost), a sentence for each lost GPU.
    :raises ValueError: the file is damaged, or the input is no list of accelerators.
    """
    before = [] if accepted else _recorded(recorded, host)
    owned = _allotment.owned(accelerators, allotment, MANAGER)
    known = {str(device.get("pci_address")): device for device in owned}
    given = {str(card.get("pci_address")) for card in cards or () if card.get("drm") or (card.get("nvidia") or {}).get("card_name")}
    undecided = _undecided(known, before)
    present = [
        _entry(entry, known[_address(entry)], given, root)
        for entry in gpu_inventory(owned, nvidia_runtime)["devices"]
        if _address(entry) not in undecided or entry["id"] != _address(entry)
    ]
    sick = {address: problem for address, device in known.items() if (problem := _sickness(device))}
    for entry in present:
        if _address(entry) in sick:
            entry["lost"] = sick[_address(entry)]
    ids = {entry["id"] for entry in present}
    kept = [
        _kept(entry, "" if _address(entry) in undecided and entry["id"] != _address(entry) else _reason(entry, known, allotment))
        for entry in before
        if entry["id"] not in ids
    ]
    devices = sorted([*present, *kept], key=lambda entry: (_address(entry), str(entry["id"])))
    return {
        "inventory": {"made_by": NOTE, "version": 1, "devices": devices},
        "lost": [
            f"{host}: the GPU {entry['id']} ({entry['resource_class']}) was offered to users and is lost: {entry['lost']} "
            f"Repair it, or name {host} in nova_lxd_accept_hardware, then run again."
            for entry in devices
            if entry.get("lost")
        ],
    }


def _recorded(text: str, host: str) -> list[Entry]:
    if not text.strip():
        return []
    try:
        content = json.loads(text)
        entries = [dict(entry) for entry in content["devices"]]
        if content["version"] == 1 and all(entry["id"] and entry["resource_class"] and entry["lxd"] for entry in entries):
            return entries
    except (KeyError, TypeError, ValueError):
        pass
    raise ValueError(f"{PATH} of {host} is damaged: restore it, or name {host} in nova_lxd_accept_hardware, then run again.")


def _entry(entry: Entry, device: Accelerator, given: set[str], root: str) -> Entry:
    """Return an entry with its device as LXD can give it.

    The kernel's folder of the device is among the paths.
    """
    address = _address(entry)
    if address not in given:
        paths = entry["paths"] if entry["id"] != address else device.get("device_files") or []
        files = [{"type": "unix-char", "source": path, "path": path, "mode": "0666"} for path in paths]
        entry = {**entry, "lxd": files[0] if len(files) == 1 else files, "nvidia_runtime": False}
    return {**entry, "pci_address": address, "paths": [*entry["paths"], posixpath.join(root, "sys/bus/pci/devices", address)]}


def _address(entry: Mapping[str, Any]) -> str:
    device = entry.get("lxd")
    return str(entry.get("pci_address") or (device.get("pci") if isinstance(device, Mapping) else None) or entry["id"])


def _undecided(known: Mapping[str, Accelerator], before: Sequence[Entry]) -> set[str]:
    """Return devices that were divided; nothing says this time whether they still are.

    That happens, for example, when nvidia-smi hangs.
    """
    divided = {_address(entry) for entry in before if entry["id"] != _address(entry) and not entry.get("lost")}
    return {address for address, device in known.items() if address in divided and (device.get("mig") or {}).get("enabled") is None}


def _sickness(device: Accelerator) -> str:
    """What a device's health entries say that concerns its users."""
    problems = [str(found["message"]) for found in device.get("health") or [] if found["problem"] not in ADVISORY]
    return _sentence(problems[0]) if problems else ""


def _kept(entry: Entry, reason: str) -> Entry:
    """Return an entry of the file that the host can't give now.

    An entry that the program noticed gets the role's reason.
    """
    kept = {key: value for key, value in entry.items() if key not in ("lost", "noticed")}
    return {**kept, "lost": reason} if reason else kept


def _reason(entry: Entry, known: Mapping[str, Accelerator], allotment: Any) -> str:
    device = known.get(_address(entry))
    if device is None and allotment:
        return f"accelerator_allotment does not give it to {MANAGER} any more, or the host does not have it."
    if device is None:
        return "the host does not have it any more."
    causes = [found.sentence.split("scheduled: ", 1)[-1] for found in units.problems(device)]
    if causes:
        return _sentence(causes[0])
    if entry["id"] != _address(entry):
        return "its MIG instance does not exist any more."
    return "the device is divided into MIG instances now."


def _sentence(text: str) -> str:
    return text.rstrip(".") + "."
