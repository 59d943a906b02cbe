# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Mesos agent flags from the accelerator model, and the environment of an agent.

Each variable MESOS_X is the flag --x.

tests/real_mesos gives the flags to the real program. Sources of the values: attributes-resources.md of Mesos (syntax) and its GPU allocator
(allocator.cpp). The agent takes ``--resources`` with ``gpus`` only together with ``--nvidia_gpu_devices`` of as many NVML
indices, and hands out whole NVIDIA GPUs.
"""

from __future__ import annotations

import json
import re
from typing import Any, Collection, Mapping, Sequence

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.vendors import NVIDIA
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import (
    Accelerator,
    by_address,
    is_mig,
    schedulable,
    units,
)
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos.master import FOLDER, PROGRAMS, tls_environment

# In the order in which the agent makes them. Of GPUs, the isolator asks for cgroups/devices and filesystem/linux.
ISOLATION = (
    *("filesystem/linux", "docker/runtime", "volume/sandbox_path", "cgroups/cpu", "cgroups/mem", "cgroups/devices"),
    # nnp: with an image and a volume of its own, a task could else bring a set-uid program and be root on the host.
    *("disk/du", "namespaces/pid", "linux/capabilities", "linux/nnp", "posix/rlimits"),
)
GPU_ISOLATION = "gpu/nvidia"
WORK_DIR = "/var/lib/mesos/agent"
# A change of one of these makes another agent: the present one would not start again with its tasks.
IDENTITY = ("MESOS_RESOURCES", "MESOS_ATTRIBUTES", "MESOS_NVIDIA_GPU_DEVICES", "MESOS_HOSTNAME", "MESOS_PORT")

# The grammar of an attribute's text.
_NOT_IN_TEXT = re.compile(r"[^a-zA-Z0-9_/.-]+")


def resources(accelerators: Sequence[Accelerator]) -> dict[str, str]:
    """Return the agent flags that offer the host's NVIDIA GPUs, by name of the flag.

    There are none where the host has no such GPU. GPUs with MIG enabled are left out: Mesos knows no instances, and such a
    GPU runs nothing as a whole.

    :raises ValueError: the input is not a list of accelerators.
    """
    indices = [str(index) for index, accelerator in enumerate(_seen_by_nvml(accelerators)) if _is_whole(accelerator)]
    if not indices:
        return {}
    return {"resources": f"gpus:{len(indices)}", "nvidia_gpu_devices": ",".join(indices)}


def attributes(accelerators: Sequence[Accelerator]) -> str:
    """Return the text of ``--attributes`` that shows which GPUs the agent offers.

    It is for frameworks, and empty if the agent offers none. It always has the number of each type (C(gpus_a100:4)). Vendor,
    model, memory and driver are there only where all GPUs agree, because Mesos discourages an attribute with several values.

    :raises ValueError: the input is not a list of accelerators.
    """
    offered = whole(accelerators)
    pairs: list[str] = []
    for key, name in (
        ("vendor", "gpu_vendor"),
        ("model", "gpu_model"),
        ("memory_mib", "gpu_memory_mib"),
        ("driver_version", "gpu_driver_version"),
    ):
        value = _common([accelerator.get(key) for accelerator in offered])
        if value is not None:
            pairs.append(f"{name}:{value}")
    counts: dict[str, int] = {}
    for unit in units(offered):
        counts[unit.type] = counts.get(unit.type, 0) + 1
    pairs.extend(f"gpus_{name}:{count}" for name, count in sorted(counts.items()))
    return ";".join(pairs)


def gpu_flags(present: Sequence[Accelerator], mine: Collection[str], lost: int = 0) -> dict[str, str]:
    """The flags that offer those of the host's GPUs that Mesos owns.

    A lost GPU has a number that NVML does not give: an agent that starts without it ends with an error, and no other GPU is taken for it.

    :arg present: all accelerators of the host, as NVML counts those of other managers, too.
    :arg mine: the PCI addresses that Mesos owns.
    """
    seen = _seen_by_nvml(present)
    indices = [str(number) for number, one in enumerate(seen) if one.get("pci_address") in mine and _is_whole(one)]
    indices += [str(len(seen) + number) for number in range(lost)]
    return {"resources": f"gpus:{len(indices)}", "nvidia_gpu_devices": ",".join(indices)} if indices else {}


def whole(accelerators: Sequence[Accelerator]) -> list[Accelerator]:
    """Return accelerators that Mesos can offer, or could before they were lost.

    They are undivided NVIDIA GPUs, by PCI address.
    """
    return [accelerator for accelerator in _of_the_driver(accelerators) if _is_whole(accelerator)]


def disk_mib(mounts: Sequence[Mapping[str, Any]]) -> int:
    """Return what tasks may have of the file system of the agent's folder.

    It is 0 if that is not known. As Mesos reckons it: all but 5 GiB, or half of a small one. An agent whose resources do not say it
    reckons again at each start, and is another one when the file system has grown.
    """
    path = f"{WORK_DIR}/"
    above = [one for one in mounts if path.startswith(f"{str(one.get('mount') or '').rstrip('/')}/") and one.get("size_total")]
    if not above:
        return 0
    total = int(max(above, key=lambda one: len(str(one["mount"])))["size_total"]) // 2**20
    return total - 5120 if total >= 10240 else total // 2


def with_disk(present: Mapping[str, str], recorded: int) -> dict[str, str]:
    """Return the environment that makes the present agent what it is.

    One whose resources do not say its disk reckons it at each start, and is another agent when the file system has grown. With the disk
    that it registered with it stays the same.

    :arg recorded: MiB of its record; 0 if that is not known.
    """
    resources = _pairs(present.get("MESOS_RESOURCES", ""))
    if not present or not recorded or "disk" in resources:
        return dict(present)
    return {**present, "MESOS_RESOURCES": _text({**resources, "disk": str(recorded)})}


def settled(wanted: Mapping[str, str], present: Mapping[str, str], own: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of an agent that keeps what it has while that fits.

    Another kernel, a new driver and a file system that grew would else make another agent, for which the host has to be empty.

    :arg present: of the agent that is there; empty for none. own: the resources that the site itself sets.
    """
    if not present:
        return dict(wanted)
    has, new = (_pairs(one.get("MESOS_RESOURCES", "")) for one in (present, wanted))
    kept = [name for name, fits in (("mem", _memory_fits), ("disk", _there)) if name not in own and fits(has.get(name), new.get(name))]
    new.update({name: has[name] for name in kept})
    # One that was made without it goes on so, where its record can't be read.
    if "disk" not in has and "disk" not in own:
        new.pop("disk", None)
    found = {**wanted, **({"MESOS_RESOURCES": _text(new)} if new else {})}
    if _without_driver(wanted) == _without_driver(present) and "MESOS_ATTRIBUTES" in present:
        found["MESOS_ATTRIBUTES"] = present["MESOS_ATTRIBUTES"]
    return found


def _pairs(text: str) -> dict[str, str]:
    return {name: value for name, _colon, value in (part.partition(":") for part in text.split(";") if part)}


def _text(resources: Mapping[str, str]) -> str:
    return ";".join(f"{name}:{value}" for name, value in resources.items())


def _there(has: str | None, _new: str | None) -> bool:
    """Whether the agent has one.

    The disk of a file system that Ansible does not list can't be read again.
    """
    return bool(has)


def _memory_fits(has: str | None, new: str | None) -> bool:
    """Whether tasks may go on to have so much.

    Some of what is reserved may go, and much that was added is taken up.
    """
    if not (has and new and has.isdigit() and new.isdigit()):
        return False
    return int(has) - 256 <= int(new) <= int(has) * 1.1


def _without_driver(environment: Mapping[str, str]) -> list[str]:
    return [part for part in environment.get("MESOS_ATTRIBUTES", "").split(";") if not part.startswith("gpu_driver_version:")]


def memory_mib(total: int, reserved: int) -> int:
    """Return what tasks may have of the host's memory.

    It is rounded so that it is the same after a boot with another kernel.
    """
    left = total - reserved if total > 2 * reserved else total // 2
    return left // 64 * 64


def environment(own: Mapping[str, Any], cluster: Mapping[str, Any], gpus: Mapping[str, str], gpu_attributes: str) -> dict[str, str]:
    """The environment of an agent, without a secret.

    :arg own: of the host: name, address, cpus, memory_mib, and the variables of the role mesos_agent without their prefix.
    :arg cluster: port, tls and url, the address of the masters in ZooKeeper.
    :arg gpus: as gpu_flags gives them.
    """
    resources = {"cpus": own["cpus"], "mem": own["memory_mib"], "disk": own.get("disk_mib"), **own["resources"]}
    parts = [f"{name}:{value}" for name, value in resources.items() if value] + ([gpus["resources"]] if gpus else [])
    attributes = [f"{name}:{value}" for name, value in own["attributes"].items()] + ([gpu_attributes] if gpu_attributes else [])
    capabilities = json.dumps({"capabilities": list(own["capabilities"])})
    return {
        "MESOS_MASTER": str(cluster["url"]),
        "MESOS_WORK_DIR": WORK_DIR,
        "MESOS_RUNTIME_DIR": "/var/run/mesos",
        "MESOS_HOSTNAME": str(own["name"]),
        "MESOS_IP": str(own["address"]),
        "MESOS_PORT": str(cluster["port"]),
        "MESOS_CREDENTIAL": f"file://{FOLDER}/agent_credential.json",
        "MESOS_AUTHENTICATE_HTTP_READONLY": "true",
        "MESOS_AUTHENTICATE_HTTP_READWRITE": "true",
        "MESOS_HTTP_CREDENTIALS": f"file://{FOLDER}/http_credentials.json",
        "MESOS_ACLS": f"file://{FOLDER}/acls.json",
        "MESOS_CONTAINERIZERS": ",".join(own["containerizers"]),
        "MESOS_LAUNCHER": "linux",
        "MESOS_LAUNCHER_DIR": f"{PROGRAMS}/libexec/mesos",
        "MESOS_IMAGE_PROVIDERS": "docker",
        # The default is below /tmp.
        "MESOS_DOCKER_STORE_DIR": "/var/lib/mesos/store/docker",
        "MESOS_ISOLATION": ",".join(dict.fromkeys([*ISOLATION, *own["isolation"], *([GPU_ISOLATION] if gpus else [])])),
        "MESOS_CGROUPS_ENABLE_CFS": "true",
        "MESOS_ENFORCE_CONTAINER_DISK_QUOTA": "true",
        "MESOS_SWITCH_USER": "true",
        "MESOS_EFFECTIVE_CAPABILITIES": capabilities,
        "MESOS_BOUNDING_CAPABILITIES": capabilities,
        # Images are fetched before a task counts as started.
        "MESOS_EXECUTOR_REGISTRATION_TIMEOUT": "10mins",
        "MESOS_RECONFIGURATION_POLICY": "equal",
        "MESOS_SYSTEMD_ENABLE_SUPPORT": "true" if own["systemd"] else "false",
        **({"MESOS_RESOURCES": ";".join(parts)} if parts else {}),
        **({"MESOS_NVIDIA_GPU_DEVICES": gpus["nvidia_gpu_devices"]} if gpus else {}),
        **({"MESOS_ATTRIBUTES": ";".join(attributes)} if attributes else {}),
        **({"MESOS_ALLOWED_DEVICES": allowed_devices(own["devices"])} if own["devices"] else {}),
        **({"MESOS_DOCKER_REGISTRY": str(own["docker_registry"])} if own["docker_registry"] else {}),
        **({"MESOS_DOCKER_CONFIG": f"{FOLDER}/docker_config.json"} if own["docker_config"] else {}),
        **(_with_tls(str(own["address"])) if cluster["tls"] else {}),
    }


def _with_tls(address: str) -> dict[str, str]:
    """Return the agent's environment where TLS is used.

    Executors speak with the agent by a socket and a token, so that no key need be readable by tasks.
    """
    return {
        **tls_environment(address),
        "MESOS_HTTP_COMMAND_EXECUTOR": "true",
        "MESOS_HTTP_EXECUTOR_DOMAIN_SOCKETS": "true",
        "MESOS_AUTHENTICATE_HTTP_EXECUTORS": "true",
        "MESOS_JWT_SECRET_KEY": f"{FOLDER}/jwt_secret_key",
    }


def allowed_devices(paths: Sequence[str]) -> str:
    """Devices that all tasks may open, such as InfiniBand's, as the flag wants them."""
    access = {"read": True, "write": True, "mknod": False}
    return json.dumps({"allowed_devices": [{"device": {"path": path}, "access": access} for path in paths]})


def identity_changes(present: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """Return the flags whose change makes another agent, one sentence each.

    There are none where the host has no agent yet.
    """
    if not present:
        return []
    return [
        f"--{name[len('MESOS_') :].lower()} is {present.get(name, 'not set')} and becomes {wanted.get(name, 'not set')}"
        for name in IDENTITY
        if present.get(name) != wanted.get(name)
        # Their order says nothing.
        and (name != "MESOS_RESOURCES" or _pairs(present.get(name, "")) != _pairs(wanted.get(name, "")))
    ]


def is_listed(accelerator: Accelerator) -> bool:
    """Whether NVML lists the GPU: nvidia-smi, which asks NVML, does not say otherwise."""
    return not any(found.get("problem") in ("excluded", "nvidia_smi_unlisted") for found in accelerator.get("health") or [])


def _of_the_driver(accelerators: Sequence[Accelerator]) -> list[Accelerator]:
    """The GPUs of the driver nvidia by PCI address, usable by jobs or not."""
    schedulable(accelerators)  # refuses what is not a list of accelerators
    return sorted((accelerator for accelerator in accelerators if accelerator.get("driver") in NVIDIA.drivers), key=by_address)


def _seen_by_nvml(accelerators: Sequence[Accelerator]) -> list[Accelerator]:
    """The GPUs that NVML numbers, in its order.

    A GPU that the driver could not start has no number, and those after it have the numbers before theirs.
    """
    return [accelerator for accelerator in _of_the_driver(accelerators) if is_listed(accelerator)]


def _is_whole(accelerator: Accelerator) -> bool:
    return bool(schedulable([accelerator])) and not is_mig(accelerator)


def _common(values: Sequence[object]) -> str | None:
    """The one value they all have, as text of an attribute."""
    texts = {"" if value is None else _NOT_IN_TEXT.sub("_", str(value)) for value in values}
    return (texts.pop() or None) if len(texts) == 1 else None
