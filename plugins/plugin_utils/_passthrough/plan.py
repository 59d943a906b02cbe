# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Which PCI functions virtual machines get, and why a device can't be one of them.

Pure functions.

The IOMMU gives memory to whole groups, so a group goes to a virtual machine as a whole or not at all.
PCI bridges of a group stay with the host, as the kernel allows.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.pci import full_address
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import Accelerator, assignable, type_of
from ansible_collections.deephdc.accelerators.plugins.module_utils._passthrough import virtual_functions
from ansible_collections.deephdc.accelerators.plugins.module_utils._passthrough.iommu import slot

DRIVER = "vfio-pci"

# Bound to these, a function does not keep its group from a virtual machine (drivers/vfio/vfio_main.c and pci-stub).
_HARMLESS_DRIVERS = (None, DRIVER, "pci-stub")

Function = t.Mapping[str, t.Any]
Iommu = t.Mapping[str, t.Any]


def kernel_arguments(iommu: Iommu) -> list[str]:
    """Return what the kernel must be started with.

    AMD's IOMMU is on by default, Intel's isn't everywhere. pt: host devices aren't slowed down.
    """
    return [*(["intel_iommu=on"] if iommu.get("table") == "DMAR" else []), "iommu=pt"]


def plan(
    accelerators: t.Sequence[Accelerator],
    iommu: Iommu,
    wanted: t.Sequence[str],
    console: t.Sequence[str] | None = None,
    host: str = "this host",
    divided: t.Sequence[t.Mapping[str, t.Any]] | None = None,
    owned: t.Sequence[str] | None = None,
) -> dict[str, t.Any]:
    """What must be done on a host, or why not.

    :param wanted: pci_passthrough_devices: types, PCI addresses, or all.
    :param console: pci_passthrough_console: PCI addresses of graphics that gpu_facts takes for the host's own.
    :param divided: pci_passthrough_virtual_functions.
    :param owned: PCI addresses that managers of virtual machines own by accelerator_allotment; None where nothing is allotted.
    :returns: errors (one sentence each), is_wanted (whether virtual machines get any device), divided (the physical functions with
        the wanted number of virtual ones of each), devices, functions (those for vfio-pci; virtual ones as far as they are
        made already), kernel_arguments, and is_complete: False as long as the kernel shows no groups, so that the devices can be
        checked only after a reboot.
    """
    nothing: dict[str, t.Any] = {"devices": [], "functions": [], "divided": [], "kernel_arguments": kernel_arguments(iommu)}
    errors = [*_misspelt("pci_passthrough_devices", wanted, host), *_misspelt("pci_passthrough_console", console or [], host)]
    if errors or not (wanted or divided):
        return {"errors": errors, **nothing, "is_wanted": False, "is_complete": True}
    division = virtual_functions.divide(accelerators, iommu, divided or [], host)
    whole = [entry["address"] for entry in division.functions]
    listed = {entry["pci_address"]: entry for entry in accelerators}
    functions = {entry["address"]: entry for entry in iommu["functions"]}
    allowed = [full_address(address) for address in console or ()]
    candidates = [*assignable(accelerators), *(listed[address] for address in allowed if address in listed)]
    candidates = [entry for entry in candidates if entry["pci_address"] not in whole]
    others = _of_other_managers(candidates, [address for address in whole if address in listed], wanted, owned, host)
    if others:
        return {"errors": others, **nothing, "is_wanted": True, "is_complete": True}
    withheld = [entry for entry in candidates if owned is not None and entry["pci_address"] not in owned]
    candidates = [entry for entry in candidates if entry not in withheld]
    chosen, errors = _choose(candidates, listed, functions, wanted, host, whole, withheld)
    errors = [*_host_errors(iommu, host), *division.errors, *errors]
    taken = [entry["pci_address"] for entry in chosen]
    for physical in whole:
        virtual = [entry["address"] for entry in virtual_functions.virtual_functions(functions.values(), physical)]
        # Those of a device that is no accelerator are in no list.
        chosen += [listed.get(address, {"pci_address": address, "type": "virtual_function"}) for address in virtual if address not in taken]
    is_complete = any(entry["group"] is not None for entry in functions.values())
    devices = []
    for accelerator in chosen:
        own = functions.get(accelerator["pci_address"])
        if own is None:
            errors.append(f"{accelerator['pci_address']} of {host} is gone since its accelerators were read; run again.")
            continue
        found = _obstacles(accelerator, own, functions, [entry["pci_address"] for entry in chosen], is_complete)
        errors += [f"{accelerator['pci_address']} ({type_of(accelerator)}) of {host} can't be passed through: {reason}" for reason in found]
        if not found:
            devices.append(_device(accelerator, own, functions))
    bound = sorted({address for device in devices for address in device["functions"]})
    return {
        "errors": list(dict.fromkeys(errors)),
        "is_wanted": True,
        "divided": division.functions,
        "devices": devices,
        "functions": [{key: functions[address][key] for key in ("address", "vendor_id", "device_id")} for address in bound],
        "kernel_arguments": kernel_arguments(iommu),
        "is_complete": is_complete,
    }


def _of_other_managers(
    candidates: t.Sequence[Accelerator], whole: t.Sequence[str], wanted: t.Sequence[str], owned: t.Sequence[str] | None, host: str
) -> list[str]:
    """Return accelerators that are asked for by address and are another manager's.

    The host's allotment gives them to it. A type or all leaves them out.
    """
    if owned is None:
        return []
    named = {full_address(item) for item in wanted} & {entry["pci_address"] for entry in candidates}
    return [
        f"{variable} of {host} asks for {address}, which accelerator_allotment gives to no manager of virtual machines: "
        "correct one of them."
        for variable, asked in (("pci_passthrough_devices", named), ("pci_passthrough_virtual_functions", whole))
        for address in sorted(asked)
        if address not in owned
    ]


def _misspelt(name: str, given: t.Any, host: str) -> list[str]:
    """YAML takes 41:00.0 for a number of base 60, and a name alone for a text."""
    if not isinstance(given, (list, tuple)):
        return [f"{name} of {host} must be a list, such as [a100]; it is {given}."]
    other = [item for item in given if not isinstance(item, str)]
    return [f"{name} of {host} has {item}, which YAML does not take for a text: put it into quotes." for item in other]


def _choose(
    candidates: t.Sequence[Accelerator],
    listed: t.Mapping[str, Accelerator],
    functions: t.Mapping[str, Function],
    wanted: t.Sequence[str],
    host: str,
    whole: t.Sequence[str],
    withheld: t.Sequence[Accelerator],
) -> tuple[list[Accelerator], list[str]]:
    chosen: dict[str, Accelerator] = {}
    errors = []
    for item in wanted:
        found = _asked(candidates, item)
        others = _asked(withheld, item)
        if not found and others:
            names = ", ".join(f"{entry['pci_address']} ({type_of(entry)})" for entry in others)
            errors.append(
                f"pci_passthrough_devices of {host} asks for {item}, but accelerator_allotment gives {names} to no manager of virtual "
                "machines: correct one of them."
            )
        elif not found:
            errors.append(_unknown(str(item), full_address(item), candidates, listed, functions, host, whole))
        chosen.update({entry["pci_address"]: entry for entry in found})
    return list(chosen.values()), errors


def _asked(candidates: t.Sequence[Accelerator], item: str) -> list[Accelerator]:
    """Those that an entry of pci_passthrough_devices means."""
    if item == "all":
        return [entry for entry in candidates if entry.get("kind") != "console"]
    return [entry for entry in candidates if full_address(item) == entry["pci_address"] or item == type_of(entry)]


def _unknown(
    item: str,
    address: str,
    candidates: t.Sequence[Accelerator],
    listed: t.Mapping[str, Accelerator],
    functions: t.Mapping[str, Function],
    host: str,
    whole: t.Sequence[str],
) -> str:
    consoles = [entry for entry in listed.values() if entry.get("kind") == "console" and item in (type_of(entry), entry["pci_address"])]
    consoles += [entry for entry in listed.values() if entry.get("kind") == "console" and address == entry["pci_address"]]
    if consoles:
        return (
            f"pci_passthrough_devices of {host} asks for {item}, which is console graphics and stays with the host; "
            f"if it is no console, name {consoles[0]['pci_address']} in pci_passthrough_console."
        )
    divided = [entry for entry in listed.values() if address == entry["pci_address"] and (entry.get("sriov") or {}).get("num_vfs")]
    if divided or address in whole:
        return f"pci_passthrough_devices of {host} asks for {item}, which is divided into virtual functions: virtual machines get these."
    if address in functions:
        return (
            f"pci_passthrough_devices of {host} asks for {item}, which is no accelerator but a device of class "
            f"{functions[address]['class']}; this role passes accelerators only."
        )
    has = ", ".join(f"{entry['pci_address']} ({type_of(entry)})" for entry in candidates) or "none"
    return f"pci_passthrough_devices of {host} asks for {item}, which the host does not have; its accelerators: {has}."


def _host_errors(iommu: Iommu, host: str) -> list[str]:
    """What is wrong with the host as a whole."""
    errors = []
    off = [argument for argument in iommu["kernel_arguments"] if argument in ("intel_iommu=off", "amd_iommu=off", "iommu=off")]
    if off:
        errors.append(
            f"{host} was started with the kernel argument {off[0]}, which turns the IOMMU off: remove it from the boot loader first."
        )
    elif not iommu["table"] and not iommu["units"]:
        errors.append(
            f"{host} has no IOMMU: its firmware has neither a DMAR table (Intel) nor an IVRS table (AMD). Turn on VT-d, "
            "or AMD-Vi (also called IOMMU), in the firmware's set-up; a virtual machine must be given a virtual IOMMU."
        )
    if not iommu["has_vfio"]:
        errors.append(
            f"The running kernel {iommu['kernel']} of {host} has no driver {DRIVER}: install the distribution's usual kernel "
            "(linux-image-amd64; the one for clouds lacks it) and start it."
        )
    return errors


def _obstacles(
    accelerator: Accelerator, own: Function, functions: t.Mapping[str, Function], chosen: t.Sequence[str], is_complete: bool
) -> list[str]:
    """Why one device can't be passed through, one clause each that ends a sentence."""
    if any(problem.get("problem") == "fallen_off_bus" for problem in accelerator.get("health") or []):
        return ["it has fallen off the bus and does not answer; reset or power-cycle the host."]
    if own["boot_display"] or (accelerator.get("display_active") and own["driver"] != DRIVER):
        return ["it is the display that the host started with; choose another primary display in the firmware's set-up."]
    if own["group"] is None and is_complete:
        return ["it is in no IOMMU group, so nothing would keep it from the host's memory."]
    found = []
    for function in _taken(own, functions):
        if function is not own:
            found += _needed_by_host(function, own, functions)
        if function["driver"] != DRIVER:
            found += [f"{function['address']} is in use: {user}; end that process first." for user in function["users"]]
        if function["driver_override"] not in (None, DRIVER):
            found.append(
                f"an administrator gave {function['address']} the driver {function['driver_override']} by driver_override; "
                f"take that back first (driverctl unset-override {function['address']})."
            )
    for function in _group(own, functions):
        if function in _taken(own, functions) or _is_bridge(function) or function["address"] in chosen:
            continue
        reasons = _needed_by_host(function, own, functions)
        if not reasons and function["driver"] not in _HARMLESS_DRIVERS:
            reasons = [
                f"its IOMMU group {own['group']} has {function['address']} too, class {function['class']}, which the host uses with the "
                f"driver {function['driver']}. Choose both, or put the card into a slot with a group of its own."
            ]
        found += reasons
    return found


def _needed_by_host(function: Function, own: Function, functions: t.Mapping[str, Function]) -> list[str]:
    """Why the host can't do without a function of the device's group."""
    group = f"its IOMMU group {own['group']}"
    other_slot = "put the card into a slot with a group of its own."
    if function["boot_display"]:
        return [f"{group} has {function['address']} too, the display that the host started with; {other_slot}"]
    cards = [entry for entry in functions.values() if entry["interfaces"]]
    names = ", ".join(interface["name"] for interface in function["interfaces"])
    if function["interfaces"] and len(cards) == 1:
        return [f"{group} has {function['address']} too, the host's only network card ({names}); {other_slot}"]
    if any(interface["is_uplink"] for interface in function["interfaces"]):
        return [
            f"{group} has {function['address']} too, the network card ({names}) that the host's default route goes through; {other_slot}"
        ]
    return []


def _group(own: Function, functions: t.Mapping[str, Function]) -> list[Function]:
    """Return the function's whole group; before the kernel shows groups, it alone."""
    if own["group"] is None:
        return [own]
    return [entry for entry in functions.values() if entry["group"] == own["group"]]


def _is_bridge(function: Function) -> bool:
    return str(function["class"]).startswith("06")


def _taken(own: Function, functions: t.Mapping[str, Function]) -> list[Function]:
    """Return the function and those that come along.

    They are others of the same card in the same group, such as its audio function.
    """
    return [entry for entry in _group(own, functions) if slot(entry["address"]) == slot(own["address"]) and not _is_bridge(entry)]


def _device(accelerator: Accelerator, own: Function, functions: t.Mapping[str, Function]) -> dict[str, t.Any]:
    """One device of the plan."""
    taken = [entry["address"] for entry in _taken(own, functions)]
    return {
        "address": own["address"],
        "type": type_of(accelerator),
        "model": accelerator.get("model"),
        "class": own["class"],
        "vendor_id": own["vendor_id"],
        "device_id": own["device_id"],
        "group": own["group"],
        "device_file": None if own["group"] is None else f"/dev/vfio/{own['group']}",
        "functions": taken,
        "stay": [entry["address"] for entry in _group(own, functions) if _is_bridge(entry)],
    }


def faults(plan: t.Mapping[str, t.Any], iommu: Iommu, host: str = "this host") -> list[str]:
    """Return why the planned devices aren't ready for virtual machines.

    The order is from the layer below to the one above. It is empty where the devices are ready.
    """
    if not plan["is_wanted"]:
        return []
    found = virtual_functions.faults(plan["divided"], iommu["functions"], host)
    lacking = [argument for argument in plan["kernel_arguments"] if argument not in iommu["kernel_arguments"]]
    if lacking:
        found.append(
            f"The kernel of {host} was started without {' '.join(lacking)}: the boot loader took another entry or another configuration."
        )
    functions = {entry["address"]: entry for entry in iommu["functions"]}
    for wanted in plan["functions"]:
        address, ids = wanted["address"], f"{wanted['vendor_id']}:{wanted['device_id']}"
        function = functions.get(address)
        if function is None:
            found.append(f"{address} of {host} is gone: the card does not answer, or its address has changed.")
        elif f"{function['vendor_id']}:{function['device_id']}" != ids:
            found.append(f"{address} of {host} is another device now than {ids}: addresses change when cards are put in or taken out.")
        elif function["driver"] != DRIVER:
            found.append(
                f"{address} of {host} has {function['driver'] or 'no driver'} instead of {DRIVER}: see systemctl status 'driverctl@*'."
            )
        elif function["group"] is None:
            found.append(f"{address} of {host} is in no IOMMU group.")
        elif iommu["overrides"].get(address) != DRIVER:
            found.append(f"{address} of {host} has {DRIVER} now, but nothing gives it that at the next boot.")
    return found
