# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Identity providers of Keystone, their users' groups and what these may do."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.module_utils._openstack.cloud import MARK, Cloud

Entry = t.Mapping[str, t.Any]


def bring(cloud: Cloud, wanted: t.Sequence[Entry]) -> None:
    """Make identity providers, and close those that are no longer wanted.

    Each has its domain, groups, mapping and protocol.
    Rights go first, so that a run which fails later has taken them.
    A provider that goes is closed and not deleted.
    If it comes back, its users have their former identifiers, and so their key pairs.

    :raises Refused: something of another's making has the name.
    """
    identity = (cloud.system or cloud.sdk).identity
    known = {one.id: one for one in identity.identity_providers()}
    ours = {name for name, one in known.items() if MARK in (one.description or "")}
    domains = {one.name: one for one in identity.domains()} if wanted or ours else {}
    names = {entry["name"] for entry in wanted}
    for name in sorted(ours - names):
        _close(cloud, identity, known[name])
    for entry in wanted:
        name = entry["name"]
        if name in known and name not in ours:
            raise Refused(f"Keystone has an identity provider {name} that this collection did not make: choose another name, or remove it.")
        domain = _domain(cloud, identity, name, domains.get(name))
        _groups(cloud, identity, domain, name, entry["groups"])
        _provider(cloud, identity, entry, known.get(name), domain)
        _mapping(cloud, identity, entry)
        _protocol(cloud, identity, entry, is_there=name in known)


def _domain(cloud: Cloud, identity: t.Any, name: str, domain: t.Any) -> t.Any:
    description = f"Users and groups of the identity provider {name}. Made by {MARK}"
    if domain is None:
        return cloud.change(f"The domain {name} is new.", identity.create_domain, name=name, description=description, is_enabled=True)
    if MARK not in (domain.description or ""):
        raise Refused(f"Keystone has a domain {name} that this collection did not make: choose another name for the identity provider.")
    if not domain.is_enabled:
        cloud.change(f"The domain {name} is opened.", identity.update_domain, domain, is_enabled=True)
    return domain


def _groups(cloud: Cloud, identity: t.Any, domain: t.Any, provider: str, wanted: t.Mapping[str, t.Mapping[str, t.Sequence[str]]]) -> None:
    """Bring the groups of a provider's domain, and their roles, to what is wanted.

    The roles are those in all projects. A group that is no longer wanted stays, without roles.
    The reason: a user whose token names a group that is gone gets the status 500 from Keystone.
    This holds for other projects of this user, too.
    """
    known = {group.name: group for group in identity.groups(domain_id=domain.id)} if domain is not None else {}
    names = {role.id: role.name for role in identity.roles()}
    had = {name: _roles(identity, group.id) for name, group in known.items()}
    wanted_ids = {name: _wanted(cloud, grants) for name, grants in wanted.items()}
    # What goes, before anything comes.
    for name, group in known.items():
        for project, role in sorted(had[name] - wanted_ids.get(name, set())):
            title = _project_name(identity, project)
            cloud.change(
                f"The group {name} of {provider} loses the role {names.get(role, role)} in the project {title}.",
                identity.unassign_project_role_from_group,
                project,
                group.id,
                role,
            )
    for name, grants in wanted_ids.items():
        group = known.get(name)
        if group is None:
            values = {"name": name, "description": f"Made by {MARK}", "domain_id": getattr(domain, "id", None)}
            group = cloud.change(f"The group {name} of {provider} is new.", identity.create_group, **values)
        for project, role in sorted(grants - had.get(name, set())):
            title = _project_name(identity, project)
            cloud.change(
                f"The group {name} of {provider} gets the role {names.get(role, role)} in the project {title}.",
                identity.assign_project_role_to_group,
                project,
                getattr(group, "id", None),
                role,
            )


def _roles(identity: t.Any, group: str) -> set[tuple[str, str]]:
    """What a group has in projects: pairs of identifiers of a project and a role."""
    scopes = [(one.scope.get("project"), one.role["id"]) for one in identity.role_assignments(group_id=group)]
    return {(project["id"], role) for project, role in scopes if project}


def _wanted(cloud: Cloud, grants: t.Mapping[str, t.Sequence[str]]) -> set[tuple[str, str]]:
    found = set()
    for project_name, given in grants.items():
        project = cloud.required("project", project_name)
        for role_name in given:
            role = cloud.required("role", role_name)
            if project is not None and role is not None:  # in check mode they may be new
                found.add((project.id, role.id))
    return found


def _project_name(identity: t.Any, project: str) -> str:
    known = identity.find_project(project, ignore_missing=True)
    return str(known.name if known else project)


def _provider(cloud: Cloud, identity: t.Any, entry: Entry, known: t.Any, domain: t.Any) -> None:
    name, issuer = entry["name"], entry["issuer"]
    if known is None:
        values = {"id": name, "remote_ids": [issuer], "is_enabled": True, "description": f"Made by {MARK}"}
        cloud.change(
            f"The identity provider {name} is new.",
            identity.create_identity_provider,
            **values,
            domain_id=getattr(domain, "id", None),
        )
        return
    if domain is not None and known.domain_id != domain.id:
        raise Refused(f"The identity provider {name} of Keystone has another domain than {name}: remove it.")
    if list(known.remote_ids or []) != [issuer] or not known.is_enabled:
        cloud.change(
            f"The identity provider {name} takes tokens of {issuer}.",
            identity.update_identity_provider,
            known,
            remote_ids=[issuer],
            is_enabled=True,
        )


def _mapping_id(name: str) -> str:
    return f"deephdc_{name}"


def _mapping(cloud: Cloud, identity: t.Any, entry: Entry) -> None:
    name = _mapping_id(entry["name"])
    known = next((one for one in identity.mappings() if one.id == name), None)
    if known is None:
        cloud.change(f"The mapping {name} is new.", identity.create_mapping, id=name, rules=entry["rules"])
    elif known.rules != entry["rules"]:
        cloud.change(f"The mapping {name} changes.", identity.update_mapping, known, rules=entry["rules"])


def _protocol(cloud: Cloud, identity: t.Any, entry: Entry, is_there: bool) -> None:
    name, protocol, mapping = entry["name"], entry["protocol"], _mapping_id(entry["name"])
    known = {one.id: one for one in identity.federation_protocols(name)} if is_there else {}
    if protocol not in known:
        cloud.change(f"Users of {name} log in by {protocol}.", identity.create_federation_protocol, name, id=protocol, mapping_id=mapping)
    elif known[protocol].mapping_id != mapping:
        cloud.change(
            f"Users of {name} are mapped by {mapping}.",
            identity.update_federation_protocol,
            name,
            known[protocol],
            mapping_id=mapping,
        )


def _close(cloud: Cloud, identity: t.Any, provider: t.Any) -> None:
    name = provider.id
    domain = identity.get_domain(provider.domain_id)
    _groups(cloud, identity, domain, name, {})
    if provider.is_enabled:
        cloud.change(f"The identity provider {name} is closed.", identity.update_identity_provider, provider, is_enabled=False)
