# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""SLURM's generic resources (gres) computed from the accelerator model.

Every unit of a usable device, the whole of it or one MIG instance, is exactly one gres.

What SLURM's files say, and why (gres.conf(5) and gres.html of SLURM, releases 22.05 to 26.05):

- ``AutoDetect=off`` and explicit files: the configuration does not depend on how SLURM was built.
- ``Type`` is the model's short type; of a MIG instance it is ``<type>_<profile>``, the form of SLURM's own NVML
  plugin. Without that plugin SLURM sets CUDA_VISIBLE_DEVICES to numbers, not to an instance's UUID; CUDA then finds
  the job's instance because the cgroup lets it open no other. Characters that mean something in a request
  (``gpu:type:count``) or a TRES list become ``_``.
- Devices stand in the order of their PCI addresses. Without autodetection SLURM numbers them as they stand, so its
  indices are those of CUDA_DEVICE_ORDER=PCI_BUS_ID.
- ``Cores`` is never written. SLURM wants its own logical core numbers, by whole sockets; the model has the kernel's
  CPU numbers of the device's NUMA node, which may be a part of a socket. A wrong number makes jobs wait for the
  wrong cores, a missing one only loses a preference.
- ``Flags=amd_gpu_env`` for AMD: by default SLURM sets the variables of all vendors, and ROCm applies
  CUDA_VISIBLE_DEVICES on top of ROCR_VISIBLE_DEVICES, which hides the job's own device. Only on nodes with nothing
  but AMD GPUs: SLURM wants equal flags on all GPUs of a node ("does not match env flags for previous GRES").
- How a node's GPUs are shared is ``exclusive``, ``shard:N`` (N jobs per GPU) or ``mps`` (100 percent per GPU). Shards and
  percents are counted per node and spread by SLURM evenly over the node's GPUs; SLURM ignores a type there. A node
  with MIG instances gets none: an instance is several files, and SLURM ties a share to its GPU by one.
- ``Flags=all_sharing`` for MPS: by default SLURM lets it be used on one GPU of a node at a time.
"""

from __future__ import annotations

import itertools
from typing import Any, Iterable, Mapping, Sequence

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import (
    Accelerator,
    Unit,
    schedulable,
    units,
    unschedulable,
)
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.hostlist import fold, fold_ordered
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import sharing as slurm_sharing

__all__ = [
    "conf_of",
    "device_index",
    "gres_conf",
    "gres_of",
    "index_of",
    "schedulable",
    "tres_of",
    "types_of",
    "units",
    "unschedulable",
    "value_of",
]

Node = Mapping[str, Any]


def gres_of(accelerators: Sequence[Accelerator], sharing: str = "exclusive") -> str:
    """Return the value of ``Gres=`` on a host's node line in slurm.conf.

    An example is ``gpu:a100:4,gpu:t4:1``.

    :arg sharing: how the host's GPUs are shared.
    :returns: an empty string where nothing is schedulable.
    :raises ValueError: as :func:`units`, or there is no such sharing.
    """
    return value_of(units(accelerators), sharing)


def value_of(found: Sequence[Unit], sharing: str) -> str:
    """The same of units that are known already."""
    counts: dict[str, int] = {}
    for unit in found:
        counts[unit.type] = counts.get(unit.type, 0) + 1
    entries = [f"gpu:{gres_type}:{count}" for gres_type, count in sorted(counts.items())]
    name, count = _shares(found, sharing)
    if count:
        entries.append(f"{name}:{count}")
    return ",".join(entries)


def gres_conf(nodes: Sequence[Node]) -> str:
    """Return the text of a cluster's gres.conf; hosts with equal devices share lines.

    :arg nodes: dicts of ``name`` (SLURM's NodeName), ``accelerators`` and maybe ``sharing``, in any order.
    :raises ValueError: as :func:`gres_of` with the node's name, or two nodes have one name.
    """
    return conf_of(_units_by_node(nodes))


def conf_of(nodes: Iterable[tuple[str, Sequence[Unit], str]]) -> str:
    """The same of name, units and sharing of each node."""
    # One look at each node: the cost is linear in the nodes.
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, found, sharing in nodes:
        lines = _device_lines(found, sharing)
        if lines:
            groups.setdefault(lines, []).append(name)
    text = ["AutoDetect=off"]
    for expression, lines in sorted((fold(names), lines) for lines, names in groups.items()):
        text.extend(f"NodeName={expression} {line}" for line in lines)
    return "\n".join(text) + "\n"


def types_of(nodes: Sequence[Node]) -> list[str]:
    """The GPU types of a cluster, sorted, each once.

    :arg nodes: as for :func:`gres_conf`.
    :raises ValueError: as :func:`gres_conf`.
    """
    return sorted({unit.type for _name, found, _sharing in _units_by_node(nodes) for unit in found})


def tres_of(nodes: Sequence[Node]) -> list[str]:
    """The entries for AccountingStorageTRES, sorted.

    Empty where the cluster has no GPU.

    :arg nodes: as for :func:`gres_conf`.
    :raises ValueError: as :func:`gres_conf`.
    """
    tres: set[str] = set()
    for _name, found, sharing in _units_by_node(nodes):
        tres.update("gres/gpu:" + unit.type for unit in found)
        if found:
            tres.add("gres/gpu")
        name, count = _shares(found, sharing)
        if count:
            tres.add("gres/" + name)
    return sorted(tres)


def device_index(accelerators: Sequence[Accelerator]) -> list[dict[str, Any]]:
    """Return which device each of a host's gres is, in SLURM's order.

    It names a lost device, or the one a job was given.

    :returns: dicts of ``gres_type``, ``files``, ``pci_address`` and ``uuid`` (of the MIG instance where it is one).
    :raises ValueError: as :func:`units`.
    """
    return index_of(units(accelerators))


def index_of(found: Sequence[Unit]) -> list[dict[str, Any]]:
    """The same of units that are known already."""
    return [
        {"gres_type": unit.type, "files": list(unit.files), "pci_address": unit.pci_address or None, "uuid": unit.uuid} for unit in found
    ]


def _units_by_node(nodes: Sequence[Node]) -> list[tuple[str, list[Unit], str]]:
    """Name, units and sharing of each node."""
    if not isinstance(nodes, (list, tuple)) or not all(isinstance(node, Mapping) for node in nodes):
        raise ValueError("The nodes must be a list of dictionaries with the keys name and accelerators.")
    seen = set()
    result = []
    for node in nodes:
        name = node.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"A node has no name: {name!r}.")
        if name in seen:
            raise ValueError(f"Two nodes have the name '{name}'.")
        seen.add(name)
        try:
            found = units(node.get("accelerators", ()))
            sharing = node.get("sharing") or "exclusive"
            _shares(found, sharing)  # for its complaint, with the node's name
            result.append((name, found, sharing))
        except ValueError as error:
            raise ValueError(f"Node '{name}': {error}") from error
    return result


def _shares(found: Sequence[Unit], sharing: str) -> tuple[str, int]:
    """Name of the gres that stands for parts of GPUs, and how many of it a node has.

    None where it is 0.
    """
    per_gpu = slurm_sharing.per_gpu(sharing)
    if per_gpu is None:
        raise ValueError(f"The sharing must be exclusive, mps, or shard:N with N jobs per GPU, not {sharing!r}.")
    return sharing.partition(":")[0], 0 if any(unit.is_mig for unit in found) else len(found) * per_gpu


def _flags(found: Sequence[Unit]) -> str:
    return " Flags=amd_gpu_env" if all(unit.vendor == "amd" for unit in found) else ""


def _device_lines(found: Sequence[Unit], sharing: str) -> tuple[str, ...]:
    """The lines of one node without its name, in the order of the units."""
    lines: list[str] = []
    flags = _flags(found)
    for (gres_type, is_mig), run in itertools.groupby(found, key=lambda unit: (unit.type, unit.is_mig)):
        start = f"Name=gpu Type={gres_type}"
        if is_mig:
            lines.extend(f"{start} MultipleFiles={','.join(unit.files)}{flags}" for unit in run)
        else:
            lines.append(f"{start} File={fold_ordered([unit.files[0] for unit in run])}{flags}")
    name, count = _shares(found, sharing)
    if count:
        lines.append(f"Name={name} Count={count}" + (" Flags=all_sharing" if name == "mps" else ""))
    return tuple(lines)
