# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Who is in a cloud: services, accounts, projects, and who may do what in them."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._openstack.cloud import MARK, Cloud
from ansible_collections.deephdc.accelerators.plugins.module_utils._openstack.compute_hold import checked

DOMAIN = "default"
INTERFACES = ("public", "internal", "admin")
NEVER_LOCKED = "ignore_lockout_failure_attempts"
Entry = t.Mapping[str, t.Any]


def services(cloud: Cloud, wanted: t.Sequence[Entry], region: str) -> dict[str, str]:
    """Make the catalogue's entries; return each public endpoint by the service's name."""
    identity = cloud.sdk.identity
    known = {service.name: service for service in identity.services()}
    endpoints: dict[tuple[str, str], t.Any] = {}
    for endpoint in identity.endpoints(region_id=region):
        endpoints[endpoint.service_id, endpoint.interface] = endpoint
    public = {}
    for entry in wanted:
        name = entry["name"]
        service = known.get(name) or cloud.change(
            f"The service {name} is new.", identity.create_service, name=entry["name"], type=entry["type"]
        )
        if service is None:
            continue
        for interface in INTERFACES:
            endpoint = endpoints.get((service.id, interface))
            if endpoint is None:
                values = {"service_id": service.id, "interface": interface, "url": entry["url"], "region_id": region}
                endpoint = cloud.change(f"The {interface} endpoint of {name} is new.", identity.create_endpoint, **values)
            elif endpoint.url != entry["url"]:
                cloud.change(
                    f"The {interface} endpoint of {name} changes from {endpoint.url} to {entry['url']}.",
                    identity.update_endpoint,
                    endpoint,
                    url=entry["url"],
                )
            if interface == "public" and endpoint is not None:
                public[name] = endpoint.id
    return public


def _sent(method: t.Callable[..., t.Any], path: str, **keys: t.Any) -> None:
    """Send what openstacksdk has no method for.

    :raises Refused: Keystone answers with an error, which openstacksdk does not raise here.
    """
    checked(method(path, **keys), "Keystone")


def roles(cloud: Cloud, wanted: t.Iterable[str]) -> None:
    known = {role.name for role in cloud.sdk.identity.roles()}
    for name in wanted:
        if name not in known:
            cloud.change(f"The role {name} is new.", cloud.sdk.identity.create_role, name=name)


def projects(cloud: Cloud, wanted: t.Sequence[Entry], is_whole: bool) -> None:
    """Make projects.

    :param is_whole: these get our mark, and others that have it are reported as no longer wanted.
    """
    identity = cloud.sdk.identity
    known = {project.name: project for project in identity.projects(domain_id=DOMAIN)}
    for entry in wanted:
        name, description = entry["name"], entry.get("description") or ""
        project = known.get(name)
        if project is None:
            values = {"name": name, "domain_id": DOMAIN, "description": description, "tags": [MARK] if is_whole else []}
            cloud.change(f"The project {name} is new.", identity.create_project, **values)
        elif (project.description or "") != description or not project.is_enabled or (is_whole and MARK not in (project.tags or [])):
            values = {
                "description": description,
                "is_enabled": True,
                "tags": sorted({*(project.tags or []), *([MARK] if is_whole else [])}),
            }
            cloud.change(
                f"The project {name} is brought to what is wanted.",
                identity.update_project,
                project,
                **values,
            )
    names = {entry["name"] for entry in wanted}
    if not is_whole:
        return
    cloud.left += [
        f"The project {name} is no longer wanted." for name, one in known.items() if MARK in (one.tags or []) and name not in names
    ]


def users(cloud: Cloud, wanted: t.Sequence[Entry], accepts: t.Callable[[str, str], bool]) -> None:
    """Make accounts with passwords.

    :param accepts: says whether an account may log in with a password now.
    """
    identity = cloud.sdk.identity
    known = {user.name: user for user in identity.users(domain_id=DOMAIN)}
    for entry in wanted:
        name, password = entry["name"], entry["password"]
        user = known.get(name)
        if user is None:
            values = {"name": name, "domain_id": DOMAIN, "password": password, "description": f"Made by {MARK}"}
            cloud.change(f"The account {name} is new.", identity.create_user, **values)
        elif not accepts(name, password):
            _let_in(cloud, user, password, accepts)


def _let_in(cloud: Cloud, user: t.Any, password: str, accepts: t.Callable[[str, str], bool]) -> None:
    """Open an account that refuses its password.

    Keystone says the same of a wrong password, of an account that wrong passwords locked, and of a disabled one. So the account is enabled
    first, which unlocks it, and gets the password only if it still refuses it: that ends all tokens of its user.
    """
    identity = cloud.sdk.identity
    if cloud.is_dry:
        cloud.changes.append(f"The account {user.name} refuses its password: it is opened again, or gets the password.")
        return
    _sent(identity.patch, f"/users/{user.id}", json={"user": {"enabled": True}})
    if accepts(user.name, password):
        cloud.changes.append(f"The account {user.name} was locked by wrong passwords, or disabled, and is open again.")
    else:
        cloud.change(f"The account {user.name} gets its password.", identity.update_user, user, password=password)


def never_locked(cloud: Cloud, names: t.Sequence[str]) -> None:
    """Let no number of wrong passwords lock these accounts.

    Anybody could stop the cloud by guessing, and so would its own services that do not have a new password yet.
    """
    identity = cloud.sdk.identity
    listed = identity.get("/users", params={"domain_id": DOMAIN}).json()["users"] if names else []
    for user in listed:
        if user["name"] in names and not (user.get("options") or {}).get(NEVER_LOCKED):
            cloud.change(
                f"The account {user['name']} is no longer locked by wrong passwords.",
                _sent,
                identity.patch,
                f"/users/{user['id']}",
                json={"user": {"options": {NEVER_LOCKED: True}}},
            )


def grants(cloud: Cloud, wanted: t.Mapping[str, t.Mapping[str, t.Sequence[str]]], kind: str = "user") -> None:
    """Bring the roles in projects to what is wanted.

    The roles are given by project, then by name of the user or group.
    What others have in these projects is taken away at once: who left a group must not start anything new.
    """
    identity = cloud.sdk.identity
    names = {role.id: role.name for role in identity.roles()}
    for project_name, members in wanted.items():
        project = cloud.required("project", project_name)
        if project is None:  # in check mode it may be new
            continue
        there: dict[str, set[str]] = {}
        for found in identity.role_assignments(scope_project_id=project.id):
            whose = getattr(found, kind)
            if whose:
                there.setdefault(whose["id"], set()).add(found.role["id"])
        for name, given in members.items():
            member = cloud.required(kind, name)
            if member is None:
                continue
            had = there.pop(member.id, set())
            ids = {cloud.required("role", role).id for role in given}
            for role in sorted(ids - had):
                cloud.change(
                    f"The {kind} {name} gets the role {names[role]} in the project {project_name}.",
                    _grant,
                    identity,
                    "assign",
                    kind,
                    project,
                    member,
                    role,
                )
            _take(cloud, kind, project, member.id, name, had - ids, names)
        for member_id, had in there.items():
            _take(cloud, kind, project, member_id, _called(cloud, kind, member_id), had, names)


def _called(cloud: Cloud, kind: str, identifier: str) -> str:
    """The name of a user or group; the identifier where it is gone."""
    found = getattr(cloud.sdk.identity, f"find_{kind}")(identifier, ignore_missing=True)
    return str(found.name) if found else identifier


def _take(cloud: Cloud, kind: str, project: t.Any, member: str, name: str, roles_left: t.Iterable[str], names: t.Mapping[str, str]) -> None:
    for role in sorted(roles_left):
        cloud.change(
            f"The {kind} {name} loses the role {names[role]} in the project {project.name}.",
            _grant,
            cloud.sdk.identity,
            "unassign",
            kind,
            project,
            member,
            role,
        )


def _grant(identity: t.Any, how: str, kind: str, project: t.Any, member: t.Any, role: str) -> None:
    word = "to" if how == "assign" else "from"
    getattr(identity, f"{how}_project_role_{word}_{kind}")(project.id, getattr(member, "id", member), role)


def system_grants(cloud: Cloud, wanted: t.Mapping[str, str]) -> None:
    """Give accounts a role in the system as a whole, by name of the account."""
    for name, role_name in wanted.items():
        user, role = cloud.required("user", name), cloud.required("role", role_name)
        if user is None or role is None:
            continue
        path = f"/system/users/{user.id}/roles/{role.id}"
        if cloud.sdk.identity.get(path).status_code != 204:
            cloud.change(f"The account {name} gets the role {role_name} in the system.", _sent, cloud.sdk.identity.put, path)
