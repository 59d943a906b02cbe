# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Who may use the cluster: issuers of tokens, and rights of users and groups.

The module also says what users need on a host. Pure functions.

Sources: AuthenticationConfiguration of apiserver.config.k8s.io/v1, and its checks in k8s.io/apiserver 0.37.
"""

from __future__ import annotations

import json
import re
import ssl
import typing as t
import urllib.parse

import yaml
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.shapes import unknown_keys
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import manifests

PREFIX = "kubernetes_cluster_"
ISSUERS, ROLES, BINDINGS, TOKEN = (f"{PREFIX}{name}" for name in ("issuers", "roles", "bindings", "user_token"))
DEFAULTS: dict[str, t.Any] = {"issuers": [], "roles": [], "bindings": [], "user_token": {}}

# Where the API server reads who may come in. The folder is mounted, so that a new file in it is seen.
DIRECTORY = "/etc/kubernetes/authn"
FILE = f"{DIRECTORY}/config.yaml"
HEADER = "# Made by deephdc.accelerators: by whose tokens users come in. Changes are lost with the next run.\n"
# All that is open without a name: the first three for probes, the last one for hosts that join.
OPEN = ("/livez", "/readyz", "/healthz", "/api/v1/namespaces/kube-public/configmaps/cluster-info")

ISSUER_KEYS = (
    *("name", "url", "discovery_url", "audiences", "certificate_authority", "username", "groups", "allowed_groups", "uid", "extra"),
    *("required_claims", "claim_validation_rules", "user_validation_rules"),
)
NAME_KEYS = ("claim", "expression", "prefix")
UID_KEYS = ("claim", "expression")
EXTRA_KEYS = ("key", "value_expression")
RULE_KEYS = ("expression", "message")
CLAIMS = {"username": "sub", "groups": "groups"}
MAX_ISSUERS = 64

ROLE_KEYS = ("name", "rules")
RIGHT_KEYS = ("apiGroups", "resources", "resourceNames", "nonResourceURLs", "verbs")
BINDING_KEYS = ("role", "groups", "users", "service_accounts", "namespaces", "everybody")
# Of Kubernetes' own roles, those by which nothing can be changed.
READING_ROLES = frozenset({"view", "system:basic-user", "system:discovery", "system:public-info-viewer", "system:monitoring"})
READING_VERBS = frozenset({"get", "list", "watch"})
# Who may read these may do what others may: by their credentials, or by a stream into a program.
POWERFUL = frozenset({"secrets", "pods/exec", "pods/attach", "pods/portforward"})
TOKEN_KEYS = ("file", "exec")
EXEC_KEYS = ("command", "args", "env", "interactive_mode", "install_hint")
INTERACTIVE = ("Never", "IfAvailable", "Always")
PLUGIN = "/usr/local/libexec/deephdc/kubernetes_token"

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
PREFIXES = re.compile(r"[A-Za-z0-9._:/@#+-]*")
ROLE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:_-]{0,200}[A-Za-z0-9])?")
ACCOUNT = re.compile(r"([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)/([a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?)")
EXTRA_KEY = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?/[a-z0-9._~%!$&'()*+,;=:/-]+")
ONE_LINE = re.compile(r"[^\x00-\x1f\x7f]+")
# What Kubernetes and kubeadm give rights to by name: a token must not carry it.
RESERVED = ("system:", "kubeadm:")
EVERYBODY = "system:authenticated"
OF_KUBERNETES = ("cluster-admin", "admin", "edit", "view")
SECRET = re.compile(r"secret|passw|refresh.?token", re.IGNORECASE)
SERVICE_ACCOUNTS = "https://kubernetes.default.svc"

# Of the objects that give rights: what else the collection makes has another component, or none.
OWNED = {**manifests.OWNED, "app.kubernetes.io/component": "access"}
RBAC = "rbac.authorization.k8s.io"

Given = t.Mapping[str, t.Any]


def wrong(what: str, remedy: str) -> Finding:
    return Finding("inventory", f"{what}: {remedy}.", None, None, remedy)


def _texts(value: t.Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(one, str) and ONE_LINE.fullmatch(one) for one in value)


def _entries(where: str, given: t.Any, keys: t.Collection[str], example: str) -> tuple[list[Given], list[Finding]]:
    """The dictionaries of a list, and what is wrong with their form."""
    if not isinstance(given, (list, tuple)) or not all(isinstance(entry, t.Mapping) for entry in given):
        return [], [wrong(f"{where} is no list of dictionaries", f"write one such as [{example}], [] for none")]
    return list(given), [Finding("inventory", sentence) for entry in given for sentence in unknown_keys(where, entry, keys)]


def errors(cluster: Given) -> list[Finding]:
    """All that is wrong with the variables of access, from the inventory alone."""
    issuers, found = _issuers(cluster["issuers"])
    return found + _role_errors(cluster["roles"]) + _binding_errors(cluster, issuers) + token_errors(cluster["user_token"])


# Issuers


def prefix_of(issuer: Given, kind: str) -> str:
    """What comes before the names that an issuer's tokens give.

    kind: username or groups.
    """
    given = (issuer.get(kind) or {}).get("prefix")
    return f"{issuer.get('name')}:" if given is None else str(given)


def prefixes(issuers: t.Sequence[Given], kind: str) -> list[str]:
    """The prefixes of all issuers, for who checks the names of users or groups."""
    return [prefix_of(issuer, kind) for issuer in issuers]


def _issuers(given: t.Any) -> tuple[list[Given], list[Finding]]:
    """The issuers, none where one is wrong, and what is wrong."""
    issuers, found = _entries(ISSUERS, given, ISSUER_KEYS, "{name: iam, url: https://iam.example.org, audiences: [kubernetes]}")
    if len(issuers) > MAX_ISSUERS:
        found.append(wrong(f"{ISSUERS} has {len(issuers)} issuers, but the API server takes {MAX_ISSUERS}", "leave some out"))
    for issuer in issuers:
        found += issuer_errors(issuer)
    if found:
        return [], found
    for key in ("name", "url", "discovery_url"):
        values = [str(issuer[key]) for issuer in issuers if issuer.get(key)]
        found += [
            wrong(f"{ISSUERS} has two issuers with the {key} {value}", "give each one of its own")
            for value in sorted({value for value in values if values.count(value) > 1})
        ]
    for kind in ("username", "groups"):
        for number, issuer in enumerate(issuers):
            for other in issuers[number + 1 :]:
                short, long = sorted((prefix_of(issuer, kind), prefix_of(other, kind)), key=len)
                if long.startswith(short):
                    what = f"{ISSUERS}: the {kind} of {issuer['name']} and of {other['name']} have the prefixes {short!r} and {long!r}"
                    found.append(wrong(f"{what}, so one could give the other's names", "give each one that the other does not begin with"))
    return ([] if found else issuers), found


def url_errors(where: str, value: t.Any) -> list[Finding]:
    """What is wrong with the address of an issuer."""
    remedy = "write an https address such as https://iam.example.org, without user, query and fragment"
    try:
        parts = urllib.parse.urlsplit(value) if isinstance(value, str) and re.fullmatch(r"[!-~]+", value) else None
        right = bool(parts and parts.scheme == "https" and parts.hostname and (parts.port is None or parts.port > 0))
    except ValueError:
        return [wrong(f"{where} is {shown(value)}", remedy)]
    if not right or "@" in value or "?" in value or "#" in value:
        return [wrong(f"{where} is {shown(value)}", remedy)]
    if value.startswith(SERVICE_ACCOUNTS):
        return [wrong(f"{where} is {shown(value)}, the issuer of the cluster's own service accounts", "leave it out")]
    return []


def issuer_errors(issuer: Given) -> list[Finding]:
    """What is wrong with one issuer, whatever the others are."""
    name = issuer.get("name")
    if not isinstance(name, str) or not LABEL.fullmatch(name):
        return [
            wrong(
                f"{ISSUERS} has an issuer with the name {shown(name)}",
                "write small letters, digits and '-', a letter or digit at both ends",
            )
        ]
    where = f"{ISSUERS}: {name}"
    found = url_errors(f"{where}: url", issuer.get("url"))
    if issuer.get("discovery_url") is not None:
        found += url_errors(f"{where}: discovery_url", issuer["discovery_url"])
        if str(issuer["discovery_url"]).rstrip("/") == str(issuer.get("url")).rstrip("/"):
            found.append(wrong(f"{where}: discovery_url is the url", "leave it out"))
    audiences = issuer.get("audiences")
    if not audiences or not _texts(audiences):
        what = f"{where} has no audiences, so it would take tokens that were made for any other service"
        found.append(wrong(what if not audiences else f"{where}: audiences is {shown(audiences)}", "write a list such as [kubernetes]"))
    elif len(set(audiences)) < len(audiences):
        found.append(wrong(f"{where}: audiences names one twice", "name each once"))
    found += authority_errors(where, issuer.get("certificate_authority"))
    for kind in ("username", "groups"):
        found += _name_errors(where, kind, issuer.get(kind))
    found += _uid_errors(where, issuer.get("uid"))
    allowed = issuer.get("allowed_groups")
    if allowed is not None and (not allowed or not _texts(allowed)):
        remedy = "write a list of groups as the issuer names them, or leave it out to let all users of the issuer in"
        found.append(wrong(f"{where}: allowed_groups is {shown(allowed) if allowed else 'empty'}", remedy))
    required = issuer.get("required_claims", {})
    if not isinstance(required, t.Mapping) or not all(isinstance(text, str) and text for pair in required.items() for text in pair):
        found.append(wrong(f"{where}: required_claims is no dictionary of texts", "write one such as {hd: example.org}"))
    extra, mistakes = _entries(
        f"{where}: extra", issuer.get("extra", []), EXTRA_KEYS, "{key: example.org/iss, value_expression: claims.iss}"
    )
    found += mistakes
    for entry in extra:
        key, domain = str(entry.get("key")), str(entry.get("key")).split("/", 1)[0]
        if not EXTRA_KEY.fullmatch(key) or f".{domain}".endswith((".k8s.io", ".kubernetes.io")):
            found.append(
                wrong(f"{where}: extra has the key {shown(entry.get('key'))}", "write one in a domain of yours, such as example.org/iss")
            )
        if not _expression(entry.get("value_expression")):
            found.append(wrong(f"{where}: extra: {key} has no value_expression", "write one such as claims.iss"))
    for kind in ("claim_validation_rules", "user_validation_rules"):
        rules, mistakes = _entries(f"{where}: {kind}", issuer.get(kind, []), RULE_KEYS, "{expression: claims.exp > 0, message: no end}")
        found += mistakes
        if not all(_expression(rule.get("expression")) and isinstance(rule.get("message", ""), str) for rule in rules):
            found.append(
                wrong(f"{where}: {kind} has a rule without expression", "write expression, a CEL expression, and message, both as text")
            )
        texts = [rule.get("expression") for rule in rules]
        if len(set(map(str, texts))) < len(texts):
            found.append(wrong(f"{where}: {kind} has an expression twice", "write it once"))
    return found


def _expression(value: t.Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def authority_errors(where: str, value: t.Any) -> list[Finding]:
    """Return what is wrong with the certificates that check an issuer's address."""
    if value is None or value == "":
        return []
    what, remedy = f"{where}: certificate_authority", "give the certificates themselves as PEM text, no path"
    if not isinstance(value, str) or "BEGIN CERTIFICATE" not in value:
        return [wrong(f"{what} has no certificate", remedy)]
    if "PRIVATE KEY" in value:
        return [wrong(f"{what} has a private key", "give the certificates alone, and make another key")]
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=value)
    except (ssl.SSLError, ValueError):
        return [wrong(f"{what} can't be read", remedy)]
    return []


def _name_errors(where: str, kind: str, given: t.Any) -> list[Finding]:
    """What is wrong with the way to a user's name or groups."""
    what = f"{where}: {kind}"
    if given is None:
        return []
    if not isinstance(given, t.Mapping):
        return [wrong(f"{what} is {shown(given)}", f"write a dictionary such as {{claim: {CLAIMS[kind]}}}")]
    found = [Finding("inventory", sentence) for sentence in unknown_keys(what, given, NAME_KEYS)]
    found += _claim_errors(what, given)
    if "prefix" in given:
        prefix = given["prefix"]
        if not isinstance(prefix, str) or not PREFIXES.fullmatch(prefix):
            found.append(wrong(f"{what}: prefix is {shown(prefix)}", 'write letters, digits and ._:/@#+- only, "" for none'))
        elif any(prefix and (prefix.startswith(name) or name.startswith(prefix)) for name in RESERVED):
            found.append(wrong(f"{what}: prefix is {prefix!r}, by which Kubernetes knows its own users", "choose another one"))
    return found


def _claim_errors(what: str, given: Given) -> list[Finding]:
    found = []
    if "claim" in given and "expression" in given:
        found.append(wrong(f"{what} has claim and expression", "leave one of them out"))
    if "claim" in given and not (isinstance(given["claim"], str) and ONE_LINE.fullmatch(given["claim"])):
        found.append(wrong(f"{what}: claim is {shown(given['claim'])}", "write the name of a claim"))
    if "expression" in given and not _expression(given["expression"]):
        found.append(wrong(f"{what}: expression is {shown(given['expression'])}", "write a CEL expression"))
    return found


def _uid_errors(where: str, given: t.Any) -> list[Finding]:
    if given is None:
        return []
    if not isinstance(given, t.Mapping):
        return [wrong(f"{where}: uid is {shown(given)}", "write a dictionary such as {claim: sub}")]
    return [Finding("inventory", text) for text in unknown_keys(f"{where}: uid", given, UID_KEYS)] + _claim_errors(f"{where}: uid", given)


def _quoted(text: str) -> str:
    """A text in a CEL expression."""
    return json.dumps(text, ensure_ascii=False)


def _mapping(issuer: Given, kind: str) -> dict[str, str]:
    given = issuer.get(kind) or {}
    if "expression" in given:
        return {"expression": str(given["expression"])}
    return {"claim": str(given.get("claim", CLAIMS[kind])), "prefix": prefix_of(issuer, kind)}


def user_rules(issuer: Given) -> list[dict[str, str]]:
    """Return what must hold for each user whom an issuer's tokens give.

    It must hold however the issuer's rules make the names.
    """

    def condition(variable: str, prefix: str) -> str:
        if prefix:
            return f"{variable}.startsWith({_quoted(prefix)}) && size({variable}) > {len(prefix)}"
        return " && ".join([f"size({variable}) > 0", *(f"!{variable}.startsWith({_quoted(name)})" for name in RESERVED)])

    rules = [
        {
            "expression": condition("user.username", prefix_of(issuer, "username")),
            "message": "the name of the user is empty, or not one that this issuer may give",
        },
        {
            "expression": f"user.groups.all(name, {condition('name', prefix_of(issuer, 'groups'))})",
            "message": "the name of a group is empty, or not one that this issuer may give",
        },
    ]
    if issuer.get("allowed_groups"):
        allowed = ", ".join(_quoted(prefix_of(issuer, "groups") + name) for name in issuer["allowed_groups"])
        rules.append(
            {
                "expression": f"user.groups.exists(name, name in [{allowed}])",
                "message": "the user is in none of the groups that may come in",
            }
        )
    return rules


def _rules(given: t.Iterable[Given]) -> list[dict[str, str]]:
    return [{key: str(rule[key]) for key in RULE_KEYS if rule.get(key)} for rule in given]


def jwt(issuer: Given) -> dict[str, t.Any]:
    """One issuer as the API server has it."""
    origin: dict[str, t.Any] = {"url": issuer["url"], "audiences": list(issuer["audiences"]), "audienceMatchPolicy": "MatchAny"}
    if issuer.get("discovery_url"):
        origin["discoveryURL"] = issuer["discovery_url"]
    if issuer.get("certificate_authority"):
        origin["certificateAuthority"] = str(issuer["certificate_authority"]).strip() + "\n"
    names: dict[str, t.Any] = {kind: _mapping(issuer, kind) for kind in CLAIMS}
    if issuer.get("uid"):
        names["uid"] = {key: str(issuer["uid"][key]) for key in UID_KEYS if key in issuer["uid"]}
    if issuer.get("extra"):
        names["extra"] = [{"key": entry["key"], "valueExpression": entry["value_expression"]} for entry in issuer["extra"]]
    required = [{"claim": claim, "requiredValue": value} for claim, value in sorted((issuer.get("required_claims") or {}).items())]
    found = {
        "issuer": origin,
        "claimMappings": names,
        "userValidationRules": user_rules(issuer) + _rules(issuer.get("user_validation_rules") or ()),
    }
    rules = required + _rules(issuer.get("claim_validation_rules") or ())
    return {**found, "claimValidationRules": rules} if rules else found


def configuration(issuers: t.Sequence[Given]) -> dict[str, t.Any]:
    """The API server's AuthenticationConfiguration.

    A first start has it without issuers; its anonymous part may not change later.
    """
    return {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "anonymous": {"enabled": True, "conditions": [{"path": path} for path in OPEN]},
        "jwt": [jwt(issuer) for issuer in issuers],
    }


def configuration_text(issuers: t.Sequence[Given]) -> str:
    """The file with the configuration."""
    # ansible-core 2.19 and later have their own texts, which yaml does not know.
    plain = json.loads(json.dumps(configuration(issuers)))
    return HEADER + yaml.safe_dump(plain, default_flow_style=False, sort_keys=False, width=1000)


# Rights


def _role_errors(given: t.Any) -> list[Finding]:
    roles, found = _entries(ROLES, given, ROLE_KEYS, "{name: look, rules: [{apiGroups: [''], resources: [nodes], verbs: [get, list]}]}")
    names = [role.get("name") for role in roles]
    for role in roles:
        name = role.get("name")
        if not isinstance(name, str) or not ROLE_NAME.fullmatch(name):
            found.append(wrong(f"{ROLES} has a role with the name {shown(name)}", "write letters, digits and .:_- only, no blank"))
            continue
        if name in OF_KUBERNETES or name.startswith(RESERVED):
            found.append(wrong(f"{ROLES} has the role {name}, which is one of Kubernetes' own", "choose another name"))
        if names.count(name) > 1:
            found.append(wrong(f"{ROLES} has the role {name} twice", "put its rules into one"))
        rules, mistakes = _entries(
            f"{ROLES}: {name}: rules", role.get("rules"), RIGHT_KEYS, "{apiGroups: [''], resources: [pods], verbs: [get]}"
        )
        found += mistakes
        if role.get("rules") == []:
            found.append(wrong(f"{ROLES}: {name} has no rules", "write some, or leave the role out"))
        for rule in rules:
            has = [key for key in ("resources", "nonResourceURLs") if rule.get(key)]
            if len(has) != 1 or not rule.get("verbs") or not all(isinstance(rule[key], (list, tuple)) for key in rule):
                found.append(
                    wrong(
                        f"{ROLES}: {name} has a rule that is incomplete",
                        "write the lists verbs and either apiGroups and resources, or nonResourceURLs",
                    )
                )
            elif has == ["resources"] and not rule.get("apiGroups"):
                found.append(wrong(f"{ROLES}: {name} has resources without apiGroups", "write apiGroups: [''] for those of the core"))
            elif not all(isinstance(text, str) for key in rule for text in rule[key]):
                found.append(wrong(f"{ROLES}: {name} has a rule with a value that is no text", "write texts, in quotes where needed"))
    return list(dict.fromkeys(found))


def _list(value: t.Any) -> t.Sequence[t.Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _only_reads(role: str, own: t.Any) -> bool:
    """Whether nothing can be changed by a role, and no secret read.

    A role that the site made by other means may change anything.
    """
    rules = [rule for one in _list(own) if isinstance(one, t.Mapping) and one.get("name") == role for rule in _list(one.get("rules"))]
    verbs = {verb for rule in rules if isinstance(rule, t.Mapping) for verb in _list(rule.get("verbs")) if isinstance(verb, str)}
    resources = {one for rule in rules if isinstance(rule, t.Mapping) for one in _list(rule.get("resources")) if isinstance(one, str)}
    is_powerful = any("*" in one or one in POWERFUL or one.endswith("/proxy") for one in resources)
    return role in READING_ROLES or (bool(verbs) and verbs <= READING_VERBS and not is_powerful)


def _binding_errors(cluster: Given, issuers: t.Sequence[Given]) -> list[Finding]:
    bindings, found = _entries(BINDINGS, cluster["bindings"], BINDING_KEYS, "{role: view, groups: ['iam:staff'], namespaces: [physics]}")
    for binding in bindings:
        role = binding.get("role")
        if not isinstance(role, str) or not ROLE_NAME.fullmatch(role.removeprefix("system:")):
            found.append(
                wrong(f"{BINDINGS} has an entry with the role {shown(role)}", f"name a ClusterRole, of {ROLES} or one that the cluster has")
            )
            continue
        where = f"{BINDINGS}: {role}"
        lists = {key: binding[key] for key in BINDING_KEYS[1:-1] if key in binding}
        if EVERYBODY in _list(binding.get("groups")) and not _only_reads(role, cluster["roles"]) and binding.get("everybody") is not True:
            found.append(
                wrong(
                    f"{where}: {EVERYBODY} is all who can log in and all service accounts, and this role changes things or reads secrets",
                    "name groups of an issuer, or write everybody: true beside it",
                )
            )
        bad = [key for key, value in lists.items() if not _texts(value)]
        found += [wrong(f"{where}: {key} is {shown(lists[key])}", "write a list of texts") for key in bad]
        if bad:
            continue
        if not any(lists.get(key) for key in ("groups", "users", "service_accounts")):
            found.append(wrong(f"{where} names no one", "name groups, users or service_accounts"))
        if "namespaces" in lists and not lists["namespaces"]:
            found.append(wrong(f"{where}: namespaces is empty", "name some, or leave the key out for the whole cluster"))
        found += [
            wrong(f"{where}: {shown(name)} is no name of a namespace", "write small letters, digits and '-'")
            for name in lists.get("namespaces", [])
            if not LABEL.fullmatch(name)
        ]
        found += [
            wrong(f"{where}: {shown(name)} is no service account", "write its namespace and name, such as monitoring/prometheus")
            for name in lists.get("service_accounts", [])
            if not ACCOUNT.fullmatch(name)
        ]
        for key, kind in (("groups", "groups"), ("users", "username")):
            known = prefixes(issuers, kind)
            for name in lists.get(key, []):
                if name == EVERYBODY and key == "groups":
                    continue
                if name.startswith(RESERVED):
                    found.append(wrong(f"{where}: {key} has {name}, which is no user of an issuer", "leave it out"))
                elif known and not any(name.startswith(prefix) and name != prefix for prefix in known):
                    hint = ", ".join(f"{prefix}{name}" for prefix in known)
                    found.append(
                        wrong(f"{where}: {key} has {name}, which no issuer gives", f"write it with the prefix of its issuer: {hint}")
                    )
    return found


def _object(kind: str, name: str, namespace: str = "", **more: t.Any) -> dict[str, t.Any]:
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name, **place, "labels": dict(OWNED)}, **more}


def subjects(binding: Given) -> list[dict[str, str]]:
    """Whom an entry names, as RBAC has them."""
    found = [{"kind": "Group", "name": name, "apiGroup": RBAC} for name in binding.get("groups") or ()]
    found += [{"kind": "User", "name": name, "apiGroup": RBAC} for name in binding.get("users") or ()]
    for name in binding.get("service_accounts") or ():
        space, account = name.split("/", 1)
        found.append({"kind": "ServiceAccount", "name": account, "namespace": space})
    return found


def rights(cluster: Given) -> list[dict[str, t.Any]]:
    """Return the roles, and one binding for each role in each place.

    So a change of whom a binding names never needs another object.
    """
    found = [
        _object("ClusterRole", role["name"], rules=[{key: list(rule[key]) for key in RIGHT_KEYS if key in rule} for rule in role["rules"]])
        for role in sorted(cluster["roles"], key=lambda role: str(role["name"]))
    ]
    named: dict[tuple[str, str], list[dict[str, str]]] = {}
    for binding in cluster["bindings"]:
        for space in binding.get("namespaces") or [""]:
            named.setdefault((space, binding["role"]), []).extend(subjects(binding))
    for (space, role), several in sorted(named.items()):
        unique = sorted({json.dumps(one, sort_keys=True) for one in several})
        found.append(
            _object(
                "RoleBinding" if space else "ClusterRoleBinding",
                f"deephdc:{role}",
                space,
                roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
                subjects=[json.loads(one) for one in unique],
            )
        )
    return found


def _key(thing: Given) -> tuple[str, str, str]:
    meta = thing["metadata"]
    return thing["kind"], str(meta.get("namespace") or ""), str(meta["name"])


def _content(thing: Given) -> dict[str, t.Any]:
    """What is compared of an object.

    The API server fills in and leaves out what is empty.
    """
    rules = [{key: list(rule[key]) for key in RIGHT_KEYS if rule.get(key)} for rule in thing.get("rules") or ()]
    given = [{key: value for key, value in one.items() if value} for one in thing.get("subjects") or ()]
    named = sorted(given, key=lambda one: json.dumps(one, sort_keys=True))
    labels = thing["metadata"].get("labels") or {}
    return {"rules": rules, "subjects": named, "roleRef": thing.get("roleRef"), "owned": {key: labels.get(key) for key in OWNED}}


def is_ours(thing: Given) -> bool:
    labels = thing["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in OWNED.items())


def changes(present: t.Sequence[Given], wanted: t.Sequence[Given], namespaces: t.Sequence[str]) -> dict[str, t.Any]:
    """Return what to remove and to write so that the cluster has these rights.

    Also return what keeps them from being given.

    :param present: the ClusterRoles, ClusterRoleBindings and RoleBindings of the cluster; others than ours are compared by name.
    :param wanted: as :func:`rights` makes them. namespaces: those that the cluster has.
    :raises ValueError: they are no lists of objects.
    """
    for things in (present, wanted):
        if not isinstance(things, (list, tuple)) or not all(isinstance(one, t.Mapping) and one.get("metadata") for one in things):
            raise ValueError("The rights must be lists of Kubernetes objects.")
    there = {_key(one): one for one in present}
    planned = {_key(one): one for one in wanted}
    foreign = [key for key in planned if key in there and not is_ours(there[key])]
    absent = [key for key in planned if key[1] and key[1] not in namespaces]
    problems = [
        f"The cluster has a {kind} {name} that is not of {ROLES}: choose another name, or remove it." for kind, _space, name in foreign
    ]
    problems += [
        f"{BINDINGS} names the namespace {space} for {name.removeprefix('deephdc:')}, which the cluster does not have: "
        "make it, or correct the name."
        for _kind, space, name in absent
    ]
    known = {name for kind, _space, name in (*there, *planned) if kind == "ClusterRole"}
    if any(kind == "ClusterRole" for kind, _space, _name in there):
        lacking = sorted({thing["roleRef"]["name"] for thing in wanted if "roleRef" in thing} - known)
        problems += [
            f"{BINDINGS} names the role {role}, which the cluster does not have: write it in {ROLES}, or correct the name."
            for role in lacking
        ]
    leave = {*foreign, *absent}
    return {
        "remove": [
            {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name, **({"namespace": space} if space else {})}}
            for (kind, space, name), thing in sorted(there.items())
            if is_ours(thing) and (kind, space, name) not in planned
        ],
        "write": [
            thing for key, thing in planned.items() if key not in leave and (key not in there or _content(there[key]) != _content(thing))
        ],
        "problems": problems,
    }


# What users have on a host


def token_errors(given: t.Any) -> list[Finding]:
    """What is wrong with the way by which users' kubectl comes to a token."""
    if not isinstance(given, t.Mapping):
        return [wrong(f"{TOKEN} is {shown(given)}", "write a dictionary with file or exec, {} for the collection's own program")]
    found = [Finding("inventory", sentence) for sentence in unknown_keys(TOKEN, given, TOKEN_KEYS)]
    if "file" in given and "exec" in given:
        found.append(wrong(f"{TOKEN} has file and exec", "leave one of them out"))
    if "file" in given and not (isinstance(given["file"], str) and ONE_LINE.fullmatch(given["file"])):
        found.append(
            wrong(
                f"{TOKEN}: file is {shown(given['file'])}", "write a path, which counts from the folder of the kubeconfig if it is relative"
            )
        )
    if "exec" not in given:
        return found
    program = given["exec"]
    if not isinstance(program, t.Mapping):
        return [*found, wrong(f"{TOKEN}: exec is {shown(program)}", "write a dictionary such as {command: kubelogin, args: [get-token]}")]
    where = f"{TOKEN}: exec"
    found += [Finding("inventory", sentence) for sentence in unknown_keys(where, program, EXEC_KEYS)]
    if not isinstance(program.get("command"), str) or not ONE_LINE.fullmatch(program["command"]):
        found.append(wrong(f"{where}: command is {shown(program.get('command'))}", "name a program"))
    words, env = program.get("args", []), program.get("env", {})
    if not _texts(words):
        found.append(wrong(f"{where}: args is {shown(words)}", "write a list of texts"))
        words = []
    if not isinstance(env, t.Mapping) or not all(isinstance(value, str) for value in env.values()):
        found.append(wrong(f"{where}: env is no dictionary of texts", "write one such as {OIDC_AGENT: cluster}"))
        env = {}
    secret = [word.split("=", 1)[0] for word in (*words, *map(str, env)) if SECRET.search(word.split("=", 1)[0])]
    found += [
        wrong(f"{where} has {name}, but all users of a host read this file", "register a client without a secret at the issuer")
        for name in secret
    ]
    if program.get("interactive_mode", "IfAvailable") not in INTERACTIVE:
        found.append(wrong(f"{where}: interactive_mode is {shown(program['interactive_mode'])}", f"choose one of {', '.join(INTERACTIVE)}"))
    if not isinstance(program.get("install_hint", ""), str):
        found.append(wrong(f"{where}: install_hint is {shown(program['install_hint'])}", "write a text"))
    return found


def user(given: Given) -> dict[str, t.Any]:
    """The user of a kubeconfig: where the token comes from, never a token."""
    if "file" in given:
        return {"tokenFile": given["file"]}
    program = given.get("exec") or {"command": PLUGIN, "interactive_mode": "Never"}
    env = program.get("env") or {}
    found = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": program["command"],
        "args": list(program.get("args") or ()),
        "env": [{"name": str(name), "value": env[name]} for name in sorted(env)],
        "interactiveMode": program.get("interactive_mode", "IfAvailable"),
    }
    return {"exec": {**found, **({"installHint": program["install_hint"]} if program.get("install_hint") else {})}}


def kubeconfig(cluster: Given, endpoint: str) -> dict[str, t.Any]:
    """Return what users need to reach the cluster.

    The authority's certificate is not in it: a run reads that from the control plane.
    """
    name = cluster["name"]
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": f"https://{endpoint}"}}],
        "users": [{"name": "token", "user": user(cluster["user_token"])}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "token"}}],
        "current-context": name,
    }


NOTHING: dict[str, t.Any] = {"authentication": "", "first_authentication": "", "rights": [], "kubeconfig": {}, "plugin": ""}


def plan(cluster: Given, endpoint: str) -> dict[str, t.Any]:
    """What a run writes for access.

    kubeconfig is empty where no user could come in by it; plugin is the collection's own program, if it is used.
    """
    issuers = cluster["issuers"]
    return {
        "authentication": configuration_text(issuers),
        "first_authentication": configuration_text(()),
        "rights": rights(cluster),
        "kubeconfig": kubeconfig(cluster, endpoint) if issuers else {},
        "plugin": PLUGIN if issuers and not cluster["user_token"] else "",
    }
