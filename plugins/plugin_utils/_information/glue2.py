# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A host's accelerators as GLUE 2.1 entities and as TOSCA properties.

They are for information systems and orchestrators.

Sources: the entity AcceleratorEnvironment of the GLUE 2.1 specification; the capabilities
tosca.capabilities.indigo.Container and tosca.capabilities.indigo.OperatingSystem.
"""

from __future__ import annotations

from typing import Any, Sequence

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu import vendors
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import Accelerator, schedulable, type_of, units


def accelerator_environments(accelerators: Sequence[Accelerator], resource: str) -> list[dict[str, Any]]:
    """Return one AcceleratorEnvironment for each model that jobs on the host can use.

    Type is GPU or Accelerator. LogicalAccelerators is what jobs can be given: MIG instances count one each. Attributes
    without a known value are absent, as GLUE's placeholders would be read as facts.

    :arg resource: id of the ExecutionEnvironment (the host) they belong to, which starts their own ids.
    :raises ValueError: the input is not a list of accelerators, or resource is empty.
    """
    if not isinstance(resource, str) or not resource:
        raise ValueError(f"The id of the execution environment must be a non-empty string, not {resource!r}.")
    models: dict[tuple[str, str], list[Accelerator]] = {}
    for accelerator in schedulable(accelerators):
        models.setdefault((type_of(accelerator), str(accelerator.get("memory_mib") or "")), []).append(accelerator)
    environments = []
    for (name, memory), members in sorted(models.items()):
        environment: dict[str, Any] = {
            "ID": ":".join([resource, name, memory] if memory else [resource, name]),
            "Name": name,
            "Type": "GPU" if members[0]["kind"] == "gpu" else "Accelerator",
            "PhysicalAccelerators": len(members),
            "LogicalAccelerators": len(units(members)),
            "Associations": {"ExecutionEnvironmentID": [resource]},
        }
        known = {"Vendor": _vendor(members), "Model": _common(members, "model"), "Memory": int(memory) if memory else None}
        environment.update({key: value for key, value in known.items() if value is not None})
        environments.append(environment)
    return environments


def gpu_capability(accelerators: Sequence[Accelerator]) -> dict[str, dict[str, Any]]:
    """Return properties of the TOSCA capabilities ``host`` and ``os``.

    They are those of a node with these accelerators. Vendor and model are there only where all usable accelerators agree, as
    the properties hold one value.

    :raises ValueError: the input is not a list of accelerators.
    """
    usable = schedulable(accelerators)
    host: dict[str, Any] = {"num_gpus": len(usable)}
    known = {"gpu_vendor": _vendor(usable), "gpu_model": _common(usable, "model")}
    host.update({key: value for key, value in known.items() if value is not None})
    return {"host": host, "os": {"gpu_driver": bool(usable)}}


def _vendor(accelerators: Sequence[Accelerator]) -> str | None:
    """Return the name by which the vendor is generally known, as GLUE asks for.

    Users write it so in TOSCA templates.
    """
    vendor = vendors.by_name(_common(accelerators, "vendor"))
    return vendor.display_name if vendor else None


def _common(accelerators: Sequence[Accelerator], key: str) -> str | None:
    """The value all of them have; None where they differ or none has one."""
    values = {accelerator.get(key) for accelerator in accelerators}
    value = values.pop() if len(values) == 1 else None
    return str(value) if value else None
