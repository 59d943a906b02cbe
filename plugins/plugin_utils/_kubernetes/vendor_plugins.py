# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Device plugins of other vendors than NVIDIA, as data: pure functions.

No test ran one of them.

Sources: the manifests of ROCm/k8s-device-plugin and intel/intel-device-plugins-for-kubernetes (gpu_plugin).
"""

from __future__ import annotations

import typing as t
from collections import Counter

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.vendors import AMD, INTEL, VENDORS
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.shapes import unknown_keys
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import Accelerator, schedulable
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import manifests
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.settings import PREFIX, wrong

VARIABLE = f"{PREFIX}device_plugins"
KEYS = ("image", "args")


class Plugin(t.NamedTuple):
    """What a vendor's plugin needs.

    :param resource: the extended resource of a device, by its kernel driver.
    :param mounts: directories of the host, under the same path; those that end with "!" are read only.
    """

    resource: t.Mapping[str, str]
    mounts: tuple[str, ...]


PLUGINS = {
    AMD.name: Plugin(dict.fromkeys(AMD.drivers, "amd.com/gpu"), ("/sys",)),
    INTEL.name: Plugin({driver: f"gpu.intel.com/{driver}" for driver in INTEL.drivers}, ("/dev/dri!", "/sys/class/drm!")),
}
RESOURCES = tuple(sorted({resource for plugin in PLUGINS.values() for resource in plugin.resource.values()}))


def errors(given: t.Any) -> list[Finding]:
    """What is wrong with the variable."""
    if not isinstance(given, t.Mapping):
        return [wrong(f"{VARIABLE} is {shown(given)}", "write a dictionary of vendors, {} for none")]
    found = []
    for vendor, entry in given.items():
        where = f"{VARIABLE}: {vendor}"
        if vendor not in PLUGINS:
            found.append(wrong(f"{VARIABLE} has the vendor {shown(vendor)}", f"write one of {', '.join(PLUGINS)}"))
            continue
        if not isinstance(entry, t.Mapping):
            found.append(wrong(f"{where} is {shown(entry)}", "write a dictionary with image and args"))
            continue
        found += [Finding("inventory", sentence) for sentence in unknown_keys(where, entry, KEYS)]
        image, args = entry.get("image"), entry.get("args") or []
        if not isinstance(image, str) or not image or image.split() != [image]:
            found.append(wrong(f"{where} has {shown(image)} as image", "write the name of its plugin's image, with a tag"))
        if not isinstance(args, (list, tuple)) or not all(isinstance(word, str) for word in args):
            found.append(wrong(f"{where} has args that are no list of texts", "write them in quotes"))
    return found


def resources(cluster: t.Mapping[str, t.Any], devices: t.Sequence[Accelerator]) -> dict[str, int]:
    """Return the extended resources that the site's plugins will offer of devices.

    The devices are those of one host.
    """
    found: Counter[str] = Counter()
    for device in schedulable(devices):
        vendor = str(device.get("vendor"))
        if vendor in cluster["device_plugins"]:
            resource = PLUGINS[vendor].resource.get(str(device.get("driver")))
            found.update([resource] if resource else [])
    return dict(sorted(found.items()))


def vendors_of(offers: t.Mapping[str, int]) -> list[str]:
    """The vendors whose plugin a node needs."""
    return [vendor for vendor, plugin in PLUGINS.items() if any(resource in offers for resource in plugin.resource.values())]


def label(vendor: str) -> str:
    """The label of nodes on which a vendor's plugin runs."""
    return f"{manifests.PLUGIN_LABEL}-{vendor}"


def display_name(vendor: str) -> str:
    return next(known.display_name for known in VENDORS if known.name == vendor)


def objects(cluster: t.Mapping[str, t.Any], vendors: t.Iterable[str]) -> list[dict[str, t.Any]]:
    """The DaemonSet of each vendor that a node has devices of."""
    return [_daemon_set(cluster, vendor) for vendor in sorted(vendors)]


def _daemon_set(cluster: t.Mapping[str, t.Any], vendor: str) -> dict[str, t.Any]:
    given, plugin = cluster["device_plugins"][vendor], PLUGINS[vendor]
    mounts: list[dict[str, t.Any]] = [{"name": "sockets", "mountPath": manifests.SOCKETS}]
    for number, path in enumerate(plugin.mounts):
        mounts.append({"name": f"host-{number}", "mountPath": path.rstrip("!"), **({"readOnly": True} if path.endswith("!") else {})})
    container = {
        "name": "plugin",
        "image": given["image"],
        "imagePullPolicy": cluster["image_pull_policy"],
        "args": list(given.get("args") or []),
        "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": mounts,
    }
    volumes = [{"name": mount["name"], "hostPath": {"path": mount["mountPath"]}} for mount in mounts]
    return manifests.daemon(f"{vendor}-device-plugin", {label(vendor): "true"}, {"containers": [container], "volumes": volumes})
