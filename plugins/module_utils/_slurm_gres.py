# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""SLURM's generic resources (gres) computed from the accelerator model.

An *accelerator* is an entry of ``ansible_facts.accelerators``. A *unit* is what SLURM hands to a job: a whole
device, or one MIG instance of it. Every usable device gives its units to SLURM, and nothing is in two of them.

What SLURM is told, and why (gres.conf(5) and gres.html of SLURM, releases 22.05 to 26.05):

- ``AutoDetect=off`` and explicit files: the configuration does not depend on how SLURM was built.
- ``Type`` is the model's short type; of a MIG instance it is ``<type>_<profile>``, the form of SLURM's own NVML
  plugin. Without that plugin SLURM sets CUDA_VISIBLE_DEVICES to numbers, not to an instance's UUID; CUDA then finds
  the job's instance because the cgroup lets it open no other. Characters that mean something in a request (``gpu:type:count``) or a TRES list become ``_``.
- ``Cores`` is never written. SLURM wants its own logical core numbers, by whole sockets; the model has the kernel's
  CPU numbers of the device's NUMA node, which may be a part of a socket. A wrong number makes jobs wait for the
  wrong cores, a missing one only loses a preference.
- ``Flags=amd_gpu_env`` for AMD: by default SLURM sets the variables of all vendors, and ROCm applies
  CUDA_VISIBLE_DEVICES on top of ROCR_VISIBLE_DEVICES, which hides the job's own device.
- Shards are counted per node and spread by SLURM evenly over the node's GPUs; SLURM ignores a type there. A node
  with MIG instances gets no shards: an instance is several files, and SLURM ties a shard to its GPU by one.
"""

from __future__ import annotations

import itertools
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.deephdc.accelerators.plugins.module_utils._hostlist import fold, fold_ordered

Accelerator = Mapping[str, Any]
Node = Mapping[str, Any]

SCHEDULABLE_KINDS = ("gpu", "accelerator")

# Kernel drivers that hold a device without letting a job compute on it, and what that means for the reader.
_USELESS_DRIVERS = {
    "nouveau": "it is bound to nouveau, which can't run compute jobs; the vendor's kernel driver is missing or was loaded too late",
    "vfio-pci": "it is bound to vfio-pci, that is reserved for virtual machines",
    "pci-stub": "it is bound to pci-stub, that is reserved for virtual machines",
    "xen-pciback": "it is bound to xen-pciback, that is reserved for virtual machines",
}

_NOT_IN_TYPES = re.compile(r"[^a-z0-9_.-]")


class Unit(NamedTuple):
    """What SLURM hands to a job as one GPU."""

    gres_type: str
    files: Tuple[str, ...]
    vendor: str
    is_mig: bool
    pci_address: str
    uuid: Optional[str]


def schedulable(accelerators: Sequence[Accelerator]) -> List[Accelerator]:
    """The accelerators SLURM may hand out.

    Those with a driver that serves jobs and a device file to confine them by; with MIG enabled, those with at least
    one usable instance. Console graphics never. Neither a virtual function nor a physical function that has some:
    the host's jobs can't use a GPU that is divided among virtual machines. (Inside such a machine its function
    is an ordinary device.)

    :raises ValueError: the input is not a list of accelerators.
    """
    return [accelerator for accelerator in _listed(accelerators) if _is_schedulable_kind(accelerator) and not _obstacle(accelerator)]


def unschedulable(accelerators: Sequence[Accelerator]) -> List[Dict[str, Optional[str]]]:
    """The GPUs and accelerators, and MIG instances, that SLURM can't hand out, each with the layer that breaks.

    :returns: dicts of ``pci_address``, ``model`` and ``reason`` (one sentence).
    :raises ValueError: the input is not a list of accelerators.
    """
    problems: List[Dict[str, Optional[str]]] = []
    for accelerator in _listed(accelerators):
        if not _is_schedulable_kind(accelerator):
            continue
        name = str(accelerator.get("model") or accelerator.get("type") or "The device")
        obstacle = _obstacle(accelerator)
        reasons = [obstacle] if obstacle else []
        if not reasons and _mig_enabled(accelerator):
            reasons = [
                "its MIG instance {0} has no device files under /dev/nvidia-caps".format(
                    _text(mig.get("uuid")) or _text(mig.get("profile")) or "of unknown name"
                )
                for mig in _mig_devices(accelerator)
                if not _mig_files(accelerator, mig)
            ]
        for reason in reasons:
            problems.append(
                {
                    "pci_address": accelerator.get("pci_address"),
                    "model": accelerator.get("model"),
                    "reason": "{0} at {1} can't be scheduled: {2}.".format(
                        name, accelerator.get("pci_address") or "an unknown address", reason
                    ),
                }
            )
    return problems


def units(accelerators: Sequence[Accelerator]) -> List[Unit]:
    """The units of one host by PCI address, then MIG instance.

    gres.conf keeps this order, and without autodetection SLURM numbers the devices as they stand there: so its
    indices are those of CUDA_DEVICE_ORDER=PCI_BUS_ID.

    :raises ValueError: the input is not a list of accelerators, or two units have one device file.
    """
    found: List[Unit] = []
    for accelerator in sorted(schedulable(accelerators), key=_by_address):
        if _mig_enabled(accelerator):
            found.extend(_mig_units(accelerator))
        else:
            found.append(
                Unit(
                    _type(accelerator),
                    (_files(accelerator)[0],),
                    _text(accelerator.get("vendor")),
                    False,
                    _text(accelerator.get("pci_address")),
                    accelerator.get("uuid"),
                )
            )
    _refuse_shared_files(found)
    return found


def gres_of(accelerators: Sequence[Accelerator], shards_per_gpu: int = 0) -> str:
    """The value of ``Gres=`` on a host's node line in slurm.conf, such as ``gpu:a100:4,gpu:t4:1``.

    :arg shards_per_gpu: how many jobs may share one GPU; 0 for none.
    :returns: an empty string where nothing is schedulable.
    :raises ValueError: as :func:`units`, or shards_per_gpu is not a whole number from 0 on.
    """
    found = units(accelerators)
    counts: Dict[str, int] = {}
    for unit in found:
        counts[unit.gres_type] = counts.get(unit.gres_type, 0) + 1
    entries = ["gpu:{0}:{1}".format(gres_type, count) for gres_type, count in sorted(counts.items())]
    shards = _shard_count(found, shards_per_gpu)
    if shards:
        entries.append("shard:{0}".format(shards))
    return ",".join(entries)


def gres_conf(nodes: Sequence[Node], shards_per_gpu: int = 0) -> str:
    """The text of gres.conf for a whole cluster; hosts with equal devices share their lines.

    :arg nodes: dicts of ``name`` (SLURM's NodeName) and ``accelerators``, in any order.
    :arg shards_per_gpu: as for :func:`gres_of`.
    :raises ValueError: as :func:`gres_of` with the node's name, or two nodes have one name.
    """
    # One look at each node: the cost is linear in the nodes.
    groups: Dict[Tuple[str, ...], List[str]] = {}
    for name, found in _units_by_node(nodes):
        lines = _device_lines(found, shards_per_gpu)
        if lines:
            groups.setdefault(lines, []).append(name)
    text = ["AutoDetect=off"]
    for expression, lines in sorted((fold(names), lines) for lines, names in groups.items()):
        text.extend("NodeName={0} {1}".format(expression, line) for line in lines)
    return "\n".join(text) + "\n"


def types_of(nodes: Sequence[Node]) -> List[str]:
    """The GPU types of a cluster, sorted, each once.

    :arg nodes: as for :func:`gres_conf`.
    :raises ValueError: as :func:`gres_conf`.
    """
    return sorted({unit.gres_type for _name, found in _units_by_node(nodes) for unit in found})


def tres_of(nodes: Sequence[Node], shards_per_gpu: int = 0) -> List[str]:
    """The entries for AccountingStorageTRES, sorted; empty where the cluster has no GPU.

    :arg nodes: as for :func:`gres_conf`.
    :raises ValueError: as :func:`gres_conf`.
    """
    tres = set()
    for _name, found in _units_by_node(nodes):
        tres.update("gres/gpu:" + unit.gres_type for unit in found)
        if found:
            tres.add("gres/gpu")
        if _shard_count(found, shards_per_gpu):
            tres.add("gres/shard")
    return sorted(tres)


def device_index(accelerators: Sequence[Accelerator]) -> List[Dict[str, Any]]:
    """Which device each of a host's gres is, in SLURM's order; names a lost device, or the one a job was given.

    :returns: dicts of ``gres_type``, ``files``, ``pci_address`` and ``uuid`` (of the MIG instance where it is one).
    :raises ValueError: as :func:`units`.
    """
    return [
        {"gres_type": unit.gres_type, "files": list(unit.files), "pci_address": unit.pci_address or None, "uuid": unit.uuid}
        for unit in units(accelerators)
    ]


def _listed(accelerators: Sequence[Accelerator]) -> Sequence[Accelerator]:
    if not isinstance(accelerators, (list, tuple)) or not all(isinstance(accelerator, Mapping) for accelerator in accelerators):
        raise ValueError("The accelerators must be a list of dictionaries, as the module gpu_facts gives them.")
    return accelerators


def _units_by_node(nodes: Sequence[Node]) -> List[Tuple[str, List[Unit]]]:
    """Name and units of each node."""
    if not isinstance(nodes, (list, tuple)) or not all(isinstance(node, Mapping) for node in nodes):
        raise ValueError("The nodes must be a list of dictionaries with the keys name and accelerators.")
    seen = set()
    result = []
    for node in nodes:
        name = node.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError("A node has no name: {0!r}.".format(name))
        if name in seen:
            raise ValueError("Two nodes have the name '{0}'.".format(name))
        seen.add(name)
        try:
            result.append((name, units(node.get("accelerators", ()))))
        except ValueError as error:
            raise ValueError("Node '{0}': {1}".format(name, error)) from error
    return result


def _text(value: Optional[object]) -> str:
    return "" if value is None else str(value)


def _is_schedulable_kind(accelerator: Accelerator) -> bool:
    return accelerator.get("kind") in SCHEDULABLE_KINDS


def _obstacle(accelerator: Accelerator) -> Optional[str]:
    """Why no job can have any part of the device; None where one can."""
    driver = accelerator.get("driver")
    sriov = accelerator.get("sriov") or {}
    if not driver:
        return "no kernel driver is bound to it"
    if driver in _USELESS_DRIVERS:
        return _USELESS_DRIVERS[driver]
    if sriov.get("is_vf"):
        return "it is an SR-IOV virtual function, meant for a virtual machine"
    if sriov.get("num_vfs"):
        return "it is divided into {0} SR-IOV virtual functions for virtual machines".format(sriov["num_vfs"])
    if not _files(accelerator):
        return "the driver {0} is bound but there is no device file in /dev".format(driver)
    if _mig_enabled(accelerator):
        devices = _mig_devices(accelerator)
        if not devices:
            return "MIG mode is enabled but no MIG instance exists"
        if not any(_mig_files(accelerator, mig) for mig in devices):
            return "none of its MIG instances has device files under /dev/nvidia-caps"
    return None


def _files(accelerator: Accelerator) -> List[str]:
    return [str(path) for path in accelerator.get("device_files") or []]


def _mig_enabled(accelerator: Accelerator) -> bool:
    return bool((accelerator.get("mig") or {}).get("enabled"))


def _mig_devices(accelerator: Accelerator) -> List[Mapping[str, Any]]:
    return list((accelerator.get("mig") or {}).get("devices") or [])


def _mig_files(accelerator: Accelerator, mig: Mapping[str, Any]) -> Tuple[str, ...]:
    """The GPU's own file and the instance's capability files; empty where the latter are unknown."""
    card = _files(accelerator)[0]
    capabilities = [str(path) for path in mig.get("device_files") or [] if path != card]
    return (card, *capabilities) if capabilities else ()


def _mig_units(accelerator: Accelerator) -> List[Unit]:
    found = []
    for mig in sorted(_mig_devices(accelerator), key=_by_instance):
        files = _mig_files(accelerator, mig)
        if files:
            gres_type = _type_name("{0}_{1}".format(_type(accelerator), _text(mig.get("profile")) or "mig"))
            found.append(
                Unit(gres_type, files, _text(accelerator.get("vendor")), True, _text(accelerator.get("pci_address")), mig.get("uuid"))
            )
    return found


def _type(accelerator: Accelerator) -> str:
    """The gres type; of a model without a short name it is made of vendor and device id, so every gres has one."""
    vendor = _text(accelerator.get("vendor"))
    if vendor in ("", "other"):
        vendor = _text(accelerator.get("vendor_id"))
    parts = [part for part in (vendor, _text(accelerator.get("device_id"))) if part]
    return _type_name(_text(accelerator.get("type")) or "_".join(["gpu", *parts]))


def _type_name(name: str) -> str:
    return _NOT_IN_TYPES.sub("_", name.lower())


def _by_address(accelerator: Accelerator) -> Tuple[str, List[str]]:
    # Padded, because a PCI domain may have more than four digits.
    return _text(accelerator.get("pci_address")).zfill(16), _files(accelerator)


def _by_instance(mig: Mapping[str, Any]) -> Tuple[int, int, str]:
    return int(mig.get("gpu_instance_id") or 0), int(mig.get("compute_instance_id") or 0), _text(mig.get("uuid"))


def _refuse_shared_files(found: Sequence[Unit]) -> None:
    """A file in two units would let one job open the other's device."""
    owners: Dict[str, str] = {}
    for unit in found:
        # All MIG instances of a GPU share its own file; the capability files keep them apart.
        for path in unit.files[1:] if unit.is_mig else unit.files:
            if path in owners:
                raise ValueError(
                    "The accelerators at {0} and {1} have the same device file {2}.".format(owners[path], unit.pci_address, path)
                )
            owners[path] = unit.pci_address


def _shard_count(found: Sequence[Unit], shards_per_gpu: int) -> int:
    if not isinstance(shards_per_gpu, int) or isinstance(shards_per_gpu, bool) or shards_per_gpu < 0:
        raise ValueError("The shards per GPU must be a whole number from 0 on, not {0!r}.".format(shards_per_gpu))
    return 0 if any(unit.is_mig for unit in found) else len(found) * shards_per_gpu


def _flags(unit: Unit) -> str:
    return " Flags=amd_gpu_env" if unit.vendor == "amd" else ""


def _device_lines(found: Sequence[Unit], shards_per_gpu: int) -> Tuple[str, ...]:
    """The lines of one node without its name, in the order of the units."""
    lines = []
    for (gres_type, flags, is_mig), run in itertools.groupby(found, key=lambda unit: (unit.gres_type, _flags(unit), unit.is_mig)):
        start = "Name=gpu Type={0}".format(gres_type)
        if is_mig:
            lines.extend("{0} MultipleFiles={1}{2}".format(start, ",".join(unit.files), flags) for unit in run)
        else:
            lines.append("{0} File={1}{2}".format(start, fold_ordered([unit.files[0] for unit in run]), flags))
    shards = _shard_count(found, shards_per_gpu)
    if shards:
        lines.append("Name=shard Count={0}".format(shards))
    return tuple(lines)
