# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""GPUs by dynamic resource allocation: pure functions.

They make the classes that users ask for, and what the driver must publish. The driver is the site's, given as manifests. Its
attributes are those of NVIDIA's k8s-dra-driver-gpu, deviceinfo.go: type (gpu or mig), uuid, productName, profile.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.vendors import NVIDIA
from ansible_collections.deephdc.accelerators.plugins.module_utils._model import promises, units
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _allotment
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import device_plugin, manifests
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.settings import PREFIX, wrong

API = "resource.k8s.io/v1"
DRIVER = "gpu.nvidia.com"
MANIFESTS = f"{PREFIX}dra_manifests"
LABEL = f"{manifests.DOMAIN}/dra"  # of a node whose GPUs a driver publishes
MOST_EXPRESSION = 10 * 1024  # characters that the API takes as one CEL expression

Device = t.Mapping[str, t.Any]


class Part(t.NamedTuple):
    """What one claim is given: a GPU or a MIG instance.

    :param type: as in labels of nodes. product: the model's name; profile: of a MIG instance, else empty.
    """

    type: str
    uuid: str
    product: str
    profile: str
    shown: str


def parts(devices: t.Sequence[Device]) -> list[Part]:
    """The parts of NVIDIA's devices that the driver must publish.

    :param devices: of one host, those that are lost included.
    """
    found = []
    for device in units.schedulable(devices):
        if device.get("vendor") != NVIDIA.name:
            continue
        profiles = {str(one.get("uuid")): str(one.get("profile") or "") for one in (device.get("mig") or {}).get("devices") or []}
        for unit in units.units([device]):
            profile = profiles.get(str(unit.uuid), "") if unit.is_mig else ""
            found.append(Part(unit.type, str(unit.uuid or ""), str(device.get("model") or ""), profile, promises.describe(device)))
    return found


def manifest_errors(given: t.Any) -> list[Finding]:
    """What is wrong with the objects of the driver."""
    if not isinstance(given, (list, tuple)) or not all(
        isinstance(entry, t.Mapping)
        and entry.get("apiVersion")
        and entry.get("kind")
        and isinstance(entry.get("metadata"), t.Mapping)
        and entry["metadata"].get("name")
        for entry in given
    ):
        return [wrong(f"{MANIFESTS} is no list of Kubernetes objects", "give each a dictionary with apiVersion, kind and metadata.name")]
    # One that does not heed the allotment would give away devices of others.
    return [
        wrong(f"{MANIFESTS} has the DeviceClass {entry['metadata']['name']}, but the classes are made by the collection", "leave it out")
        for entry in given
        if entry["kind"] == "DeviceClass"
    ]


def driver_objects(given: t.Iterable[t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """What identifies the objects of the driver, in the order of their making."""
    found = []
    for entry in given:
        where = {"namespace": entry["metadata"]["namespace"]} if entry["metadata"].get("namespace") else {}
        metadata = {"name": entry["metadata"]["name"], **where}
        found.append({"apiVersion": entry["apiVersion"], "kind": entry["kind"], "metadata": metadata})
    return found


def host_errors(host: str, devices: t.Sequence[Device]) -> list[Finding]:
    """Devices that can't be compared with what the driver publishes."""
    return [
        wrong(
            f"{host}: {part.shown} has no UUID, by which dra knows a device",
            f"repair its driver, or set {PREFIX}gpus to device_plugin",
            host,
        )
        for part in parts(devices)
        if not part.uuid
    ]


def cluster_errors(whole: t.Sequence[Part], is_named: bool) -> list[Finding]:
    """More devices than a class can name, on sites where it must name them."""
    if not is_named or len(_expression(whole, True, "gpu")) <= MOST_EXPRESSION:
        return []
    what = f"{_allotment.VARIABLE} is set for a worker, so each DeviceClass must name the cluster's {len(whole)} devices, more than it can"
    return [wrong(what, f"set {PREFIX}gpus to device_plugin, or give each host to one manager")]


def _text(value: str) -> str:
    """A text in CEL."""
    return json.dumps(value, ensure_ascii=True)


def _one_of(attribute: str, values: t.Iterable[str]) -> str:
    listed = ", ".join(map(_text, sorted(set(values))))
    return f"device.attributes['{DRIVER}'].{attribute} in [{listed}]"


def _expression(members: t.Sequence[Part], is_named: bool, kind: str, *more: str) -> str:
    conditions = [f"device.driver == '{DRIVER}'", f"device.attributes['{DRIVER}'].type == '{kind}'", *more]
    if is_named:
        conditions.append(_one_of("uuid", (part.uuid for part in members)))
    return " && ".join(conditions)


def _class(name: str, expression: str, resource: str = "") -> dict[str, t.Any]:
    spec: dict[str, t.Any] = {"selectors": [{"cel": {"expression": expression}}]}
    if resource:
        spec["extendedResourceName"] = resource
    return {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": name, "labels": dict(manifests.OWNED)}, "spec": spec}


def class_name(gpu_type: str) -> str:
    """The class of a type."""
    return f"{gpu_type.replace('_', '-').strip('.-')}.{DRIVER}"


def classes(whole: t.Sequence[Part], is_named: bool) -> list[dict[str, t.Any]]:
    """Return the classes that users ask for.

    There is one for all GPUs, one for each size of MIG instance, and one for each type.

    :param whole: what all workers have.
    :param is_named: whether the classes hold the UUIDs of these alone: others are another manager's.
    """
    gpus = [part for part in whole if not part.profile]
    found = []
    if gpus:
        found.append(_class(DRIVER, _expression(gpus, is_named, "gpu"), device_plugin.WHOLE))
    for profile in sorted({part.profile for part in whole if part.profile}):
        members = [part for part in whole if part.profile == profile]
        resource = device_plugin.mig_resource(profile)
        name = class_name(resource.split("/", 1)[1])
        found.append(_class(name, _expression(members, is_named, "mig", _one_of("profile", [profile])), resource))
    for gpu_type in sorted({part.type for part in whole}):
        members = [part for part in whole if part.type == gpu_type and part.product]
        if members:  # else the driver's name of the product is not known
            more = [_one_of("productName", (part.product for part in members))]
            profiles = {part.profile for part in members if part.profile}
            if profiles:
                more.append(_one_of("profile", profiles))
            found.append(_class(class_name(gpu_type), _expression(members, is_named, "mig" if profiles else "gpu", *more)))
    return found
