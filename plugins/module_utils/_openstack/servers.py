# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What servers are made of: flavors and images."""

from __future__ import annotations

import hashlib
import os
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.module_utils._openstack.cloud import MARK, Cloud

Entry = t.Mapping[str, t.Any]
# In a scope of its own, so that no filter of the scheduler reads it.
MARK_SPEC = "deephdc:managed"
SHA256 = "deephdc_sha256"


def flavors(cloud: Cloud, wanted: t.Sequence[Entry], purge: bool) -> None:
    """Make flavors. Nova can't resize one, so another size wants another name.

    :raises Refused: one has another size.
    """
    compute = cloud.sdk.compute
    known = {flavor.name: flavor for flavor in compute.flavors(details=True, is_public=None)}
    for entry in wanted:
        name = entry["name"]
        size = {key: int(entry[key]) for key in ("vcpus", "ram", "disk")}
        specs = {**{str(key): str(value) for key, value in entry["extra_specs"].items()}, MARK_SPEC: "true"}
        is_public = not entry.get("projects")
        flavor = known.get(name)
        if flavor is None:
            flavor = cloud.change(
                f"The flavor {name} is new.",
                compute.create_flavor,
                name=name,
                is_public=is_public,
                **size,
            )
            if flavor is None:
                continue
            had: dict[str, str] = {}
        else:
            there = {"vcpus": flavor.vcpus, "ram": flavor.ram, "disk": flavor.disk}
            if there != size or flavor.is_public != is_public:
                raise Refused(
                    f"The flavor {name} is there with {there['vcpus']} cores, {there['ram']} MiB, {there['disk']} GiB"
                    f" and {'for all' if flavor.is_public else 'for some'} projects, and Nova can't change it: "
                    "give the new one another name."
                )
            had = dict(compute.fetch_flavor_extra_specs(flavor).extra_specs or {})
        _specs(cloud, flavor, had, specs)
        if not is_public:
            _access(cloud, flavor, entry["projects"])
    names = {entry["name"] for entry in wanted}
    for name, flavor in known.items():
        if name not in names and MARK_SPEC in (compute.fetch_flavor_extra_specs(flavor).extra_specs or {}):
            if purge:
                cloud.change(f"The flavor {name} goes; servers that have it stay.", compute.delete_flavor, flavor)
            else:
                cloud.left.append(f"The flavor {name} is no longer wanted.")


def _specs(cloud: Cloud, flavor: t.Any, had: t.Mapping[str, str], specs: t.Mapping[str, str]) -> None:
    compute = cloud.sdk.compute
    new = {key: value for key, value in specs.items() if had.get(key) != value}
    if new:
        cloud.change(f"The flavor {flavor.name} gets {', '.join(sorted(new))}.", compute.create_flavor_extra_specs, flavor, new)
    for key in sorted(set(had) - set(specs)):
        cloud.change(f"The flavor {flavor.name} loses {key}.", compute.delete_flavor_extra_specs_property, flavor, key)


def _access(cloud: Cloud, flavor: t.Any, projects: t.Sequence[str]) -> None:
    compute = cloud.sdk.compute
    had = {one["tenant_id"] for one in compute.get_flavor_access(flavor)}
    ids = {project.id: name for name in projects for project in [cloud.required("project", name)] if project is not None}
    for identifier, name in ids.items():
        if identifier not in had:
            cloud.change(
                f"The project {name} may use the flavor {flavor.name}.",
                compute.flavor_add_tenant_access,
                flavor,
                identifier,
            )
    for identifier in sorted(had - set(ids)):
        cloud.change(
            f"The project {identifier} may no longer use the flavor {flavor.name}.",
            compute.flavor_remove_tenant_access,
            flavor,
            identifier,
        )


def images(cloud: Cloud, wanted: t.Sequence[Entry]) -> None:
    """Upload images from files of this host.

    An image of the name with another content is replaced. Servers keep theirs.

    :raises Refused: a file is missing, or is not the one that was meant.
    """
    image_api = cloud.sdk.image
    known: dict[str, list[t.Any]] = {}
    for image in image_api.images():
        known.setdefault(image.name, []).append(image)
    for entry in wanted:
        name, digest = entry["name"], entry["sha256"].lower()
        there = [image for image in known.get(name, []) if _is_ours(cloud, image)]
        if any(image.properties[SHA256] == digest and image.status == "active" for image in there):
            continue
        if not os.path.isfile(entry["path"]):
            if cloud.is_dry:
                cloud.changes.append(f"The image {name} is new.")
                continue
            raise Refused(f"The image {name} can't be uploaded: there is no file {entry['path']}.")
        if _sha256(entry["path"]) != digest:
            raise Refused(
                f"The file {entry['path']} of the image {name} has another sha256 than the inventory: get it again, or correct sha256."
            )
        values = {
            "name": name,
            "filename": entry["path"],
            "disk_format": entry.get("disk_format") or "raw",
            "container_format": "bare",
            "visibility": entry.get("visibility") or "public",
            "allow_duplicates": True,
            "wait": True,
            **{str(key): str(value) for key, value in (entry.get("properties") or {}).items()},
            SHA256: digest,
            "deephdc_made_by": MARK,
        }
        cloud.change(f"The image {name} is uploaded.", image_api.create_image, **values)
        for image in there:
            cloud.change(f"The former image {name} ({image.id}) goes.", image_api.delete_image, image)


def _is_ours(cloud: Cloud, image: t.Any) -> bool:
    """Return whether an image was uploaded by this module.

    Nova copies the properties of a server's image to a user's snapshot of the server, which may have any name.
    """
    properties = image.properties or {}
    return bool(properties.get(SHA256)) and properties.get("image_type") != "snapshot" and image.owner == cloud.sdk.current_project_id


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            digest.update(part)
    return digest.hexdigest()
