# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""How much a project may use: Keystone's unified limits.

Nova asks for them before it makes a server.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._openstack.cloud import Cloud


def registered(cloud: Cloud, service_name: str, region: str, wanted: t.Mapping[str, int]) -> None:
    """Set the limits of projects that have none of their own.

    What has no registered limit is refused to everybody.
    """
    identity = cloud.system.identity
    service = cloud.required("service", service_name)
    if service is None:
        return
    known = {one.resource_name: one for one in identity.registered_limits(service_id=service.id) if one.region_id == region}
    for name, limit in wanted.items():
        found = known.get(name)
        if found is None:
            values = {"service_id": service.id, "region_id": region, "resource_name": name, "default_limit": limit}
            cloud.change(
                f"The limit of {name} is {limit} where a project has none of its own.",
                identity.create_registered_limit,
                **values,
            )
        elif found.default_limit != limit:
            cloud.change(
                f"The limit of {name} changes from {found.default_limit} to {limit} where a project has none of its own.",
                identity.update_registered_limit,
                found,
                default_limit=limit,
            )


def of_projects(cloud: Cloud, service_name: str, region: str, wanted: t.Mapping[str, t.Mapping[str, int]]) -> None:
    """Set the limits of projects, by name of the project and of the resource.

    Those that are not named are taken away.
    """
    identity = cloud.system.identity
    service = cloud.required("service", service_name)
    for project_name, limits in wanted.items():
        project = cloud.required("project", project_name)
        if project is None or service is None:
            continue
        known = {one.resource_name: one for one in identity.limits(service_id=service.id, project_id=project.id) if one.region_id == region}
        for name, limit in limits.items():
            found = known.pop(name, None)
            if found is None:
                values = {
                    "service_id": service.id,
                    "region_id": region,
                    "resource_name": name,
                    "resource_limit": limit,
                    "project_id": project.id,
                }
                cloud.change(f"The project {project_name} may use {limit} of {name}.", identity.create_limit, **values)
            elif found.resource_limit != limit:
                cloud.change(
                    f"The project {project_name} may use {limit} of {name} instead of {found.resource_limit}.",
                    identity.update_limit,
                    found,
                    resource_limit=limit,
                )
        for name, found in known.items():
            cloud.change(f"The project {project_name} has no limit of its own for {name} any more.", identity.delete_limit, found)
