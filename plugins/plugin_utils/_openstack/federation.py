# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Who comes in with a token of an identity provider, and into which projects.

A user of a provider is no account of Keystone's own. Each login gives the user to the groups of Keystone that the token's
groups are mapped to. This holds for as long as Keystone's token lives; roles are those of the groups. Pure functions.
"""

from __future__ import annotations

import hashlib
import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.shapes import unknown_keys
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown, text_of
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import token_names
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.settings import PREFIX, wrong

VARIABLE = f"{PREFIX}identity_providers"
PROTOCOL = "openid"
DEFAULTS: dict[str, t.Any] = {
    "name": "",
    "issuer": "",
    "audience": [],
    "groups": [],
    "groups_claim": "groups",
    "subject_claim": "sub",
    "name_claim": "preferred_username",
    "token_types": list(token_names.TYPES),
    "ca": "",
    "jwks_uri": "",
    "metadata_url": "",
}
GROUP_KEYS = ("group", "project", "roles")
# Part of an address, a file's name, and the name of a domain of Keystone.
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")
# An address that Apache's configuration can hold as it is.
HTTPS = re.compile(r"https://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?")
CLAIM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
# What a rule of Apache, a list with ";" between its entries, and a template of Keystone's, which has braces, can all hold.
VALUE = re.compile(r"[A-Za-z0-9!#$&'()*+,./:<=>?@_`|~-]{1,255}")
# Keystone's own domain, and roles with rights beyond a project.
TAKEN = ("default",)
TOO_MUCH = ("admin", "service")
# Keystone keeps no longer name of a group.
LONGEST_GROUP = 64

Provider = t.Dict[str, t.Any]


def words(value: t.Any) -> list[str]:
    """A list of texts; one text is a list of one."""
    if value in (None, ""):
        return []
    return [text_of(one) for one in value] if isinstance(value, (list, tuple)) else [text_of(value)]


def providers(cloud: t.Mapping[str, t.Any]) -> list[Provider]:
    """The providers with every default filled in."""
    filled = []
    for given in cloud["identity_providers"]:
        one = {**DEFAULTS, **{key: value for key, value in given.items() if value is not None}}
        issuer = str(one["issuer"])
        filled.append(
            {
                **one,
                "audience": words(one["audience"]),
                "token_types": words(one["token_types"]),
                "groups": [{**entry, "roles": words(entry["roles"])} for entry in one["groups"]],
                "metadata_url": one["metadata_url"] or issuer.rstrip("/") + "/.well-known/openid-configuration",
            }
        )
    return filled


# --- what is wrong


def errors(cloud: t.Mapping[str, t.Any]) -> list[Finding]:
    """What is wrong with the providers, from the inventory alone."""
    given = cloud["identity_providers"]
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, t.Mapping) for one in given):
        return [wrong(f"{VARIABLE} is {shown(given)}", "write a list of dictionaries, each with name, issuer, audience and groups")]
    mistakes: list[Finding] = []
    names = [text_of(one.get("name")) for one in given]
    issuers = [text_of(one.get("issuer")) for one in given]
    for place, one in enumerate(given):
        where = f"{VARIABLE}: {names[place] or 'an entry'}"
        if names.index(names[place]) < place:
            mistakes.append(wrong(f"{where} is there more than once", "keep one entry"))
        if issuers[place] and issuers.index(issuers[place]) < place:
            mistakes.append(
                wrong(f"{where} has the issuer of {names[issuers.index(issuers[place])]}", "name an issuer once, with all of its groups")
            )
        mistakes += [Finding("inventory", sentence) for sentence in unknown_keys(where, one, DEFAULTS)]
        mistakes += _provider_errors(where, one) + _groups_errors(where, one.get("groups"), cloud)
    return mistakes


def _provider_errors(where: str, given: t.Mapping[str, t.Any]) -> list[Finding]:
    mistakes = []
    name = text_of(given.get("name"))
    if not NAME.fullmatch(name) or name in TAKEN:
        mistakes.append(
            wrong(f"{where} has the name {shown(given.get('name'))}", "use lower case letters, digits, '_' and '-', and not default")
        )
    if not given.get("issuer"):
        mistakes.append(
            wrong(f"{where} has no issuer", "give it exactly as the provider's metadata do, with or without the slash at its end")
        )
    for key in ("issuer", "jwks_uri", "metadata_url"):
        value = given.get(key)
        if value and not (isinstance(value, str) and HTTPS.fullmatch(value)):
            mistakes.append(
                wrong(f"{where}: {key} is {shown(value)}, which is no plain https address", "keys and metadata are fetched over TLS only")
            )
    audience = words(given.get("audience"))
    if not audience:
        mistakes.append(
            wrong(
                f"{where} has no audience, so tokens for any other service of the provider would be taken",
                "name the cloud's own, and have users ask for it",
            )
        )
    for value in audience:
        if not VALUE.fullmatch(value):
            mistakes.append(
                wrong(f"{where}: audience has {shown(value)}", "use letters, digits and signs without blanks, quotes, braces and ';'")
            )
    for key in ("groups_claim", "subject_claim", "name_claim"):
        value = given.get(key, DEFAULTS[key])
        if value is not None and not CLAIM.fullmatch(text_of(value)):
            mistakes.append(wrong(f"{where}: {key} is {shown(value)}", "write the name of a claim, such as " + DEFAULTS[key]))
    types = words(given.get("token_types", DEFAULTS["token_types"]))
    if not types or not all(token_names.TYPE.fullmatch(one) for one in types):
        mistakes.append(wrong(f"{where}: token_types is {shown(given['token_types'])}", "write types of tokens, such as [at+jwt]"))
    ca = given.get("ca") or ""
    if ca and ("-----BEGIN CERTIFICATE-----" not in str(ca) or "PRIVATE KEY-----" in str(ca)):
        mistakes.append(
            wrong(f"{where}: ca is no certificate in PEM", "give the text of the authority's certificate, not the path of its file")
        )
    return mistakes


def _groups_errors(where: str, given: t.Any, cloud: t.Mapping[str, t.Any]) -> list[Finding]:
    if not isinstance(given, (list, tuple)) or not given or not all(isinstance(entry, t.Mapping) for entry in given):
        return [wrong(f"{where} has {shown(given)} as groups", "write [{group: physics, project: physics, roles: [member]}]")]
    mistakes: list[Finding] = []
    listed = cloud.get("projects") or []
    projects = [text_of(one.get("name")) for one in listed if isinstance(one, t.Mapping)] if isinstance(listed, (list, tuple)) else []
    seen: set[tuple[str, str]] = set()
    spelled: dict[str, str] = {}
    for entry in given:
        group, project, roles = text_of(entry.get("group")), text_of(entry.get("project")), words(entry.get("roles"))
        at = f"{where}: groups: {group or 'an entry'}"
        mistakes += [Finding("inventory", sentence) for sentence in unknown_keys(at, entry, GROUP_KEYS)]
        if not VALUE.fullmatch(group):
            mistakes.append(
                wrong(
                    f"{at} has the group {shown(entry.get('group'))}",
                    "write it as in the token, in letters, digits and signs without blanks, quotes, braces and ';'",
                )
            )
        if project not in projects:
            mistakes.append(
                wrong(
                    f"{at} has the project {shown(entry.get('project'))}, which is not in {PREFIX}projects",
                    "correct it, or add the project",
                )
            )
        if not roles or not all(roles):
            mistakes.append(wrong(f"{at} has no roles in {project or 'its project'}", "write some, such as [member]"))
        strong = [role for role in roles if role.lower() in TOO_MUCH]
        if strong:
            mistakes.append(
                wrong(f"{at} has the role {strong[0]}, which has rights in the whole cloud", "choose another one, such as member")
            )
        if (group, project) in seen:
            mistakes.append(wrong(f"{at} has the project {project} more than once", "name all roles in one entry"))
        seen.add((group, project))
        # MariaDB compares Keystone's names without regard to case.
        if spelled.setdefault(group.lower(), group) != group:
            mistakes.append(wrong(f"{at} differs from {spelled[group.lower()]} in upper and lower case alone", "keep one of them"))
    return mistakes


def metadata_errors(cloud: t.Mapping[str, t.Any], metadata: t.Mapping[str, t.Any]) -> list[Finding]:
    """Return what the providers' metadata say against the inventory.

    :param metadata: by name, of the module oidc_metadata_info.
    """
    mistakes = []
    for one in providers(cloud):
        where, read = f"{VARIABLE}: {one['name']}", metadata.get(one["name"]) or {}
        if one["jwks_uri"]:
            continue
        if read.get("error") or not read:
            reason = read.get("error") or "not tried"
            mistakes.append(
                wrong(
                    f"{where}: its metadata at {one['metadata_url']} can't be read from Keystone's host ({reason})",
                    "correct the address, run again when the provider is back, or set jwks_uri",
                )
            )
            continue
        said = read.get("metadata") or {}
        if said.get("issuer") != one["issuer"]:
            mistakes.append(
                wrong(
                    f"{where}: issuer is {shown(one['issuer'])}, but the metadata say {shown(said.get('issuer'))}",
                    "write it exactly so, if it is the right provider",
                )
            )
        elif not HTTPS.fullmatch(str(said.get("jwks_uri") or "")):
            mistakes.append(wrong(f"{where}: its metadata have no jwks_uri that is a plain https address", "set jwks_uri"))
    return mistakes


# --- what becomes of it


def asked(cloud: t.Mapping[str, t.Any]) -> list[dict[str, str]]:
    """Return the providers whose metadata are needed.

    They are as the module oidc_metadata_info takes them. There are none of an inventory that is refused.
    """
    if errors(cloud):
        return []
    return [{"name": one["name"], "url": one["metadata_url"], "ca": str(one["ca"])} for one in providers(cloud) if not one["jwks_uri"]]


def with_keys(cloud: t.Mapping[str, t.Any], metadata: t.Mapping[str, t.Any]) -> list[Provider]:
    """The providers with the address of their keys."""
    return [
        {**one, "jwks_uri": one["jwks_uri"] or (metadata.get(one["name"]) or {}).get("metadata", {}).get("jwks_uri", "")}
        for one in providers(cloud)
    ]


def group_name(group: str) -> str:
    """What Keystone calls a group of a provider: the same, unless that is too long."""
    if len(group) <= LONGEST_GROUP:
        return group
    return f"{group[: LONGEST_GROUP - 17]}-{hashlib.sha256(group.encode()).hexdigest()[:16]}"


def rules(provider: Provider) -> list[dict[str, t.Any]]:
    """Keystone's mapping: one rule for each group. Who fits none is refused."""
    made = []
    for group in dict.fromkeys(str(entry["group"]) for entry in provider["groups"]):
        made.append(
            {
                "local": [
                    {"user": {"id": "{0}", "name": "{1}"}},
                    {"group": {"name": group_name(group), "domain": {"name": provider["name"]}}},
                ],
                "remote": [
                    {"type": "HTTP_X_TOKEN_SUBJECT"},
                    {"type": "HTTP_X_TOKEN_NAME"},
                    {"type": "HTTP_X_TOKEN_ISSUER", "any_one_of": [provider["issuer"]]},
                    {"type": "HTTP_X_TOKEN_GROUPS", "any_one_of": [group]},
                ],
            }
        )
    return made


def objects(cloud: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """What the module openstack_objects is given."""
    made = []
    for one in providers(cloud):
        grants: dict[str, dict[str, list[str]]] = {}
        for entry in one["groups"]:
            grants.setdefault(group_name(str(entry["group"])), {})[str(entry["project"])] = list(entry["roles"])
        made.append({"name": one["name"], "issuer": one["issuer"], "protocol": PROTOCOL, "rules": rules(one), "groups": grants})
    return made


def keystone() -> dict[str, dict[str, t.Any]]:
    """Sections of keystone.conf."""
    return {
        "auth": {"methods": f"password,token,application_credential,{PROTOCOL}"},
        # Of a request's headers, Keystone takes none but these for what the verifier said.
        "federation": {"assertion_prefix": "HTTP_X_TOKEN_"},
        PROTOCOL: {"remote_id_attribute": "HTTP_X_TOKEN_ISSUER"},
    }
