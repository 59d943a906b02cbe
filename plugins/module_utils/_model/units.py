# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Which accelerators can be given to someone, and in which pieces.

An *accelerator* is an entry of ``ansible_facts.accelerators``. A *unit* is what one job is given: a whole device, or
one MIG instance of it. A device that can't be used is never left out without a reason that names the layer.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu import vendors
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding

Accelerator = Mapping[str, Any]

SCHEDULABLE_KINDS = ("gpu", "accelerator")

# Kernel drivers that hold a device of any vendor for a virtual machine; a vendor's record has its own useless ones.
_RESERVING_DRIVERS = ("vfio-pci", "pci-stub", "xen-pciback")

_NOT_IN_TYPES = re.compile(r"[^a-z0-9_.-]")
_TYPE = re.compile(r"[a-z0-9_][a-z0-9_.-]*\Z")


def as_number(value: Any) -> Optional[int]:
    """Return a whole number; None for anything else.

    The text that a template gives with ansible-core before 2.19 is read, too.
    """
    if isinstance(value, bool) or not re.match(r"-?[0-9]+\Z", str(value)):
        return None
    return int(value)


class Unit(NamedTuple):
    """What one job is given as its GPU."""

    type: str
    files: Tuple[str, ...]
    vendor: str
    is_mig: bool
    pci_address: str
    uuid: Optional[str]


def schedulable(accelerators: Sequence[Accelerator]) -> List[Accelerator]:
    """The accelerators that jobs on the host may be given.

    Those with a driver that serves jobs and a device file to confine them by; with MIG enabled, those with at least
    one usable instance. Console graphics never. Neither a virtual function nor a physical function that has some:
    the host's jobs can't use a GPU that is divided among virtual machines. (Inside such a machine its function
    is an ordinary device.)

    :raises ValueError: the input is not a list of accelerators.
    """
    return [accelerator for accelerator in _listed(accelerators) if _is_schedulable_kind(accelerator) and not _obstacle(accelerator)]


def unschedulable(accelerators: Sequence[Accelerator]) -> List[Dict[str, Optional[str]]]:
    """Return the devices and MIG instances that no job on the host can use.

    The devices are GPUs and accelerators. Each entry has the reason.

    :returns: dicts of ``pci_address``, ``model`` and ``reason`` (one sentence).
    :raises ValueError: the input is not a list of accelerators.
    """
    return [
        {"pci_address": accelerator.get("pci_address"), "model": accelerator.get("model"), "reason": found.sentence}
        for accelerator in _listed(accelerators)
        for found in problems(accelerator)
    ]


def problems(accelerator: Accelerator, host: Optional[str] = None) -> List[Finding]:
    """Return why no job on the host can use the device, or some of its MIG instances.

    Each reason comes with the layer that breaks.
    """
    if not _is_schedulable_kind(accelerator):
        return []
    obstacle = _obstacle(accelerator)
    reasons = [obstacle] if obstacle else []
    if not reasons and is_mig(accelerator):
        reasons = [
            (
                "division",
                "its MIG instance {0} lacks device files under /dev/nvidia-caps".format(
                    _text(mig.get("uuid")) or _text(mig.get("profile")) or "of unknown name"
                ),
            )
            for mig in _mig_devices(accelerator)
            if not _mig_files(accelerator, mig)
        ]
    name = str(accelerator.get("model") or accelerator.get("type") or "The device")
    address = accelerator.get("pci_address")
    return [
        Finding(layer, "{0} at {1} can't be scheduled: {2}.".format(name, address or "an unknown address", reason), host, address)
        for layer, reason in reasons
    ]


def units(accelerators: Sequence[Accelerator]) -> List[Unit]:
    """The units of one host by PCI address, then MIG instance.

    It is the order of CUDA_DEVICE_ORDER=PCI_BUS_ID and of NVML.

    :raises ValueError: the input is not a list of accelerators, or two units have one device file.
    """
    found: List[Unit] = []
    for accelerator in sorted(schedulable(accelerators), key=by_address):
        if is_mig(accelerator):
            found.extend(_mig_units(accelerator))
        else:
            found.append(
                Unit(
                    type_of(accelerator),
                    (_files(accelerator)[0],),
                    _text(accelerator.get("vendor")),
                    False,
                    _text(accelerator.get("pci_address")),
                    accelerator.get("uuid"),
                )
            )
    _refuse_shared_files(found)
    return found


def assignable(accelerators: Sequence[Accelerator]) -> List[Accelerator]:
    """Return the accelerators that a virtual machine may be given, by PCI address.

    It does not matter which driver holds them now.
    Virtual functions are, their physical function is not; console graphics never.

    :raises ValueError: the input is not a list of accelerators, or one has no PCI address or ids.
    """
    found = []
    for accelerator in sorted(_listed(accelerators), key=by_address):
        if not _is_schedulable_kind(accelerator) or (accelerator.get("sriov") or {}).get("num_vfs"):
            continue
        for key in ("pci_address", "vendor_id", "device_id"):
            if not accelerator.get(key):
                raise ValueError("The accelerator at {0} has no {1}.".format(accelerator.get("pci_address") or "an unknown address", key))
        found.append(accelerator)
    return found


def _listed(accelerators: Sequence[Accelerator]) -> Sequence[Accelerator]:
    if not isinstance(accelerators, (list, tuple)) or not all(isinstance(accelerator, Mapping) for accelerator in accelerators):
        raise ValueError("The accelerators must be a list of dictionaries, as the module gpu_facts gives them.")
    return accelerators


def _text(value: Optional[object]) -> str:
    return "" if value is None else str(value)


def _is_schedulable_kind(accelerator: Accelerator) -> bool:
    return accelerator.get("kind") in SCHEDULABLE_KINDS


def _obstacle(accelerator: Accelerator) -> Optional[Tuple[str, str]]:
    """Return the layer and the reason why no job can have any part of the device.

    None means that a job can have one.
    """
    driver = accelerator.get("driver")
    sriov = accelerator.get("sriov") or {}
    if not driver:
        return "driver", "no kernel driver is bound to it"
    for found in accelerator.get("health") or []:
        if found.get("problem") == "fallen_off_bus":
            return "hardware", "it has fallen off the bus, the device does not answer any more"
        if found.get("problem") in ("device_file_shared", "excluded"):
            return "driver", str(found.get("message")).partition(": ")[2].rstrip(".")
    if driver in _RESERVING_DRIVERS:
        return "driver", "it is bound to {0}, that is reserved for virtual machines".format(driver)
    useless = vendors.why_useless(driver)
    if useless:
        return "driver", useless
    if sriov.get("is_vf"):
        return "division", "it is an SR-IOV virtual function, meant for a virtual machine"
    if sriov.get("num_vfs"):
        return "division", "it is divided into {0} SR-IOV virtual functions for virtual machines".format(sriov["num_vfs"])
    if not _files(accelerator):
        return "driver", "the driver {0} is bound but there is no device file in /dev".format(driver)
    if is_mig(accelerator):
        devices = _mig_devices(accelerator)
        if not devices:
            return "division", "MIG mode is enabled but no MIG instance exists"
        if not any(_mig_files(accelerator, mig) for mig in devices):
            return "division", "all of its MIG instances lack device files under /dev/nvidia-caps"
    return None


def _files(accelerator: Accelerator) -> List[str]:
    return [str(path) for path in accelerator.get("device_files") or []]


def is_mig(accelerator: Accelerator) -> bool:
    """Whether the accelerator is divided into MIG instances now."""
    return bool((accelerator.get("mig") or {}).get("enabled"))


def _mig_devices(accelerator: Accelerator) -> List[Mapping[str, Any]]:
    return list((accelerator.get("mig") or {}).get("devices") or [])


def _mig_files(accelerator: Accelerator, mig: Mapping[str, Any]) -> Tuple[str, ...]:
    """The GPU's own file and the instance's capability files.

    Empty where one of the latter is missing.
    """
    card = _files(accelerator)[0]
    capabilities = [str(path) for path in mig.get("device_files") or [] if path != card]
    # One for the GPU instance and one for the compute instance in it: a job needs both.
    return (card, *capabilities) if len(capabilities) >= 2 else ()


def usable_instances(accelerator: Accelerator) -> List[Mapping[str, Any]]:
    """Return the MIG instances of a schedulable accelerator that jobs may be given.

    They are in the order of their ids.
    """
    return sorted((mig for mig in _mig_devices(accelerator) if _mig_files(accelerator, mig)), key=_by_instance)


def _mig_units(accelerator: Accelerator) -> List[Unit]:
    found = []
    for mig in usable_instances(accelerator):
        files = _mig_files(accelerator, mig)
        name = _type_name("{0}_{1}".format(type_of(accelerator), _text(mig.get("profile")) or "mig"))
        found.append(Unit(name, files, _text(accelerator.get("vendor")), True, _text(accelerator.get("pci_address")), mig.get("uuid")))
    return found


def type_of(accelerator: Accelerator) -> str:
    """Return the short type.

    For a model without one it is made of vendor and device id, so every unit has one.
    """
    vendor = _text(accelerator.get("vendor"))
    if vendor in ("", "other"):
        vendor = _text(accelerator.get("vendor_id"))
    parts = [part for part in (vendor, _text(accelerator.get("device_id"))) if part]
    return _type_name(_text(accelerator.get("type")) or "_".join(["gpu", *parts]))


def is_gpu_type(value: Any) -> bool:
    """Whether a value can be the short type of a unit, as an operator writes it."""
    return isinstance(value, str) and _TYPE.match(value) is not None


def _type_name(name: str) -> str:
    return _NOT_IN_TYPES.sub("_", name.lower())


def by_address(accelerator: Accelerator) -> Tuple[str, List[str]]:
    # Padded, because a PCI domain may have more than four digits.
    return _text(accelerator.get("pci_address")).zfill(16), _files(accelerator)


def _by_instance(mig: Mapping[str, Any]) -> Tuple[int, int, str]:
    return int(mig.get("gpu_instance_id") or 0), int(mig.get("compute_instance_id") or 0), _text(mig.get("uuid"))


def _refuse_shared_files(found: Sequence[Unit]) -> None:
    """A file in two units would let one job open the other's device."""
    owners: Dict[str, List[Unit]] = {}
    for unit in found:
        for path in unit.files:
            owners.setdefault(path, []).append(unit)
    for unit in found:
        # All MIG instances of a GPU share its file, and compute instances in one GPU instance share that one's; each has one of its own.
        siblings = [other for other in found if unit.is_mig and other.is_mig and other.pci_address == unit.pci_address]
        own = [path for path in unit.files if owners[path] == [unit]]
        foreign = [(path, other) for path in unit.files for other in owners[path] if other is not unit and other not in siblings]
        if foreign or not own:
            path, other = foreign[0] if foreign else (unit.files[-1], next(one for one in siblings if one is not unit))
            raise ValueError(
                "The accelerators at {0} and {1} have the same device file {2}.".format(
                    *sorted((unit.pci_address, other.pci_address)), path
                )
            )
