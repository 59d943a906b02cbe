# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The front's providers and backends as an operator writes them.

The functions say what is wrong with them, and return them with every default filled in. They are pure. Each sentence names
the backend or provider, the key, and what to do.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.shapes import unknown_keys
from ansible_collections.deephdc.accelerators.plugins.module_utils._oidc import metadata as oidc_metadata
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import conf as oidc_conf
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import presets as oidc_presets
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import token_names

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")
# Names of hosts; neither wildcards nor addresses, because browsers and certificates need a name.
HOST = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")
PATH = re.compile(r"/([A-Za-z0-9_-][A-Za-z0-9._-]*/)*")
BELOW = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
UPSTREAM = re.compile(
    r"(unix:(/[A-Za-z0-9_][A-Za-z0-9_.-]*)+\|)?https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?(/[A-Za-z0-9._~-]+)*/?"
)
HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,60}")
USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
METHOD = re.compile(r"[A-Z]{3,20}")
# Names of claims may be addresses (OpenID Connect Core, 5.1.2), and have colons (cognito:groups). Not "~", where a rule's value begins.
CLAIM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]*")
# What a rule of Apache and a regular expression without backslashes can hold; no blank, because scopes are lists.
VALUE = re.compile(r"[A-Za-z0-9!#$%&'()*+,./:;<=>?@_`{|}~-]+")
CREDENTIAL = re.compile(r"(Basic [A-Za-z0-9+/]+={0,2}|Bearer [A-Za-z0-9._~+/-]+=*)")
SECRET = re.compile(r"[!#-\[\]-~]{8,}")
SCOPE_WORD = re.compile(r"[!#-\[\]-~]+")

ACCESS = ("browser", "bearer", "both")
BEARER = ("none", "local", "introspection")
TOKEN_AUTH = ("client_secret_basic", "client_secret_post")
# The front's own addresses on each virtual host.
OWN_PATHS = ("/oidc/", "/.front/", "/.well-known/")
# Headers that a claim or the user must never be written into: the front itself or HTTP needs them.
RESERVED_HEADERS = {"authorization", "connection", "content-length", "cookie", "host", "te", "transfer-encoding", "upgrade"}

PROVIDER_DEFAULTS: dict[str, t.Any] = {
    "name": "",
    "issuer": "",
    "metadata_url": "",
    "client_id": "",
    "client_secret_file": "",
    "token_endpoint_auth": "client_secret_basic",
    "scopes": ["openid", "email", "profile"],
    "remote_user_claim": "preferred_username",
    "bearer_user_claim": "",
    "groups_claim": "groups",
    "bearer": "none",
    "introspection_client_id": "",
    "introspection_client_secret_file": "",
    "introspection_interval": 60,
    "introspection_endpoint": "",
    "jwks_uri": "",
    "token_types": list(token_names.TYPES),
    "access_token_claims": [],
    "pkce": True,
    "ca_file": "",
    "port": 0,
}

BACKEND_DEFAULTS: dict[str, t.Any] = {
    "name": "",
    "preset": "",
    "host": "",
    "path": "",
    "upstreams": [],
    "access": "",
    "provider": "",
    "audience": [],
    "scopes": [],
    "groups": [],
    "methods": oidc_presets.API,
    "user_header": "X-Remote-User",
    "claims_headers": {},
    "credential_file": "",
    "websocket": False,
    "sse_paths": [],
    "preserve_host": False,
    "timeout": 60,
    "body_limit": oidc_presets.MIB,
}

Item = t.Dict[str, t.Any]


def as_list(value: t.Any) -> list[str]:
    """A list of words; one word is a list of one."""
    if value in (None, ""):
        return []
    return [str(item) for item in value] if isinstance(value, (list, tuple)) else [str(value)]


def filled(item: t.Mapping[str, t.Any], defaults: t.Mapping[str, t.Any]) -> Item:
    """An item with its defaults; lists and numbers in one form."""
    whole = {**defaults, **{key: value for key, value in item.items() if value is not None}}
    for key, default in defaults.items():
        if isinstance(default, list):
            whole[key] = as_list(whole[key])
        elif isinstance(default, str):
            whole[key] = str(whole[key])
        elif isinstance(default, int) and not isinstance(default, bool) and str(whole[key]).isdecimal():
            whole[key] = int(whole[key])
    return whole


def provider(item: t.Mapping[str, t.Any]) -> Item:
    whole = filled(item, PROVIDER_DEFAULTS)
    whole["metadata_url"] = whole["metadata_url"] or whole["issuer"].rstrip("/") + "/.well-known/openid-configuration"
    whole["bearer_user_claim"] = whole["bearer_user_claim"] or whole["remote_user_claim"]
    whole["introspection_client_id"] = whole["introspection_client_id"] or whole["client_id"]
    whole["introspection_client_secret_file"] = whole["introspection_client_secret_file"] or whole["client_secret_file"]
    return whole


def backend(item: t.Mapping[str, t.Any], server_name: str) -> Item:
    preset = oidc_presets.PRESETS.get(str(item.get("preset") or ""), {})
    # A path of the preset is meant for a backend beside others; on its own name a backend begins at the top.
    if item.get("host"):
        preset = {**preset, "path": "/"}
    whole = filled(item, {**BACKEND_DEFAULTS, **preset})
    whole["host"] = whole["host"] or server_name
    return whole


def is_number(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def item_name(item: t.Any) -> str:
    return str(item.get("name") or "") if isinstance(item, t.Mapping) else ""


def list_errors(variable: str, value: t.Any, known: t.Mapping[str, t.Any]) -> list[str]:
    """What is wrong with the form of a list of named dictionaries."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, t.Mapping) for item in value):
        return [f"{variable} must be a list of dictionaries, each with a name."]
    errors = []
    names = [item_name(item) for item in value]
    for item, name in zip(value, names):
        if not NAME.fullmatch(name):
            errors.append(f"{variable}: {name!r} is no name (lower case letters, digits, '_' and '-').")
            continue
        if names.count(name) > 1:
            errors.append(f"{variable} names {name} more than once.")
        errors += unknown_keys(f"{variable}: {name}", item, known)
        errors += [
            f"{variable}: {name}: {key} must be {'true or false' if isinstance(known[key], bool) else 'a whole number'}."
            for key, given in item.items()
            if (isinstance(known.get(key), bool) and not isinstance(given, bool))
            or (is_number(known.get(key)) and (isinstance(given, bool) or not str(given).isdecimal()))
        ]
        errors += [
            f"{variable}: {name}: {key} must be one text."
            for key, given in item.items()
            if isinstance(known.get(key), str) and not plain(given)
        ]
        errors += [
            f"{variable}: {name}: {key} must be a list of texts."
            for key, given in item.items()
            if isinstance(known.get(key), list)
            and not (plain(given) or (isinstance(given, (list, tuple)) and all(i is not None and plain(i) for i in given)))
        ]
    return list(dict.fromkeys(errors))


def plain(value: t.Any) -> bool:
    return value is None or (isinstance(value, (str, int)) and not isinstance(value, bool))


def provider_errors(providers: t.Any, backends: t.Any) -> list[str]:
    """What is wrong with oidc_proxy_providers.

    What the metadata say is another matter.
    """
    variable = "oidc_proxy_providers"
    errors = list_errors(variable, providers, PROVIDER_DEFAULTS)
    if errors:
        return errors
    if not providers:
        return [f"{variable} is empty: name at least one provider of identities."]
    uses: dict[str, set[str]] = {}
    for item in backends:
        uses.setdefault(str(item.get("provider") or ""), set()).add(backend(item, "")["access"])
    for item in providers:
        whole = provider(item)
        about = f"{variable}: {whole['name']}"
        browser = bool(uses.get(whole["name"], set()) & {"browser", "both"})
        errors += [f"{about}: {sentence}" for sentence in address_errors(item, whole)]
        if not whole["issuer"]:
            errors.append(f"{about} has no issuer: give it exactly as in the provider's metadata, with or without the slash at its end.")
        if whole["bearer"] not in BEARER:
            errors.append(f"{about}: bearer is {whole['bearer']!r}; use none, local or introspection.")
        if whole["token_endpoint_auth"] not in TOKEN_AUTH:
            errors.append(f"{about}: token_endpoint_auth is {whole['token_endpoint_auth']!r}; it is {' or '.join(TOKEN_AUTH)}.")
        for key in ("client_id", "introspection_client_id"):
            if whole[key] and not VALUE.fullmatch(whole[key]):
                errors.append(f"{about}: {key} has characters that a rule can't hold (letters, digits and ASCII signs without quotes).")
        for key in ("remote_user_claim", "bearer_user_claim", "groups_claim"):
            if not CLAIM.fullmatch(whole[key]):
                errors.append(f"{about}: {key} is {whole[key]!r}; the name of a claim has letters, digits and '_.:/-'.")
        errors += [
            f"{about}: token_types has {word!r}, which is no type of tokens."
            for word in whole["token_types"]
            if not token_names.TYPE.fullmatch(word)
        ]
        if not whole["token_types"]:
            errors.append(f"{about}: token_types is empty, so no token is let in: leave it out, or name at+jwt.")
        errors += [f"{about}: scopes has {word!r}, which is no scope." for word in whole["scopes"] if not SCOPE_WORD.fullmatch(word)]
        needed = (["client_id", "client_secret_file"] if browser else []) + (
            ["introspection_client_id", "introspection_client_secret_file"] if whole["bearer"] == "introspection" else []
        )
        errors += [
            f"{about} has no {key}, which {'the login of browsers' if key.startswith('client') else 'introspection'} needs."
            for key in needed
            if not whole[key]
        ]
        if browser and "openid" not in whole["scopes"]:
            errors.append(f"{about}: scopes lacks openid, without which there is no login.")
        errors += [
            f"{about}: {key} must be an absolute path on the control node."
            for key in ("client_secret_file", "introspection_client_secret_file", "ca_file")
            if whole[key] and not whole[key].startswith("/")
        ]
        if whole["port"] and not 0 < whole["port"] < 65536:
            errors.append(f"{about}: port is {whole['port']}, which is no port.")
    return list(dict.fromkeys(errors))


def backend_errors(backends: t.Any, providers: t.Any, server_name: str) -> list[str]:
    variable = "oidc_proxy_backends"
    errors = list_errors(variable, backends, BACKEND_DEFAULTS)
    if errors:
        return errors
    by_name = (
        {item_name(item): provider(item) for item in providers if isinstance(item, t.Mapping)}
        if isinstance(providers, (list, tuple))
        else {}
    )
    if not backends:
        return [f"{variable} is empty: name what lies behind the front."]
    for item in backends:
        about = f"{variable}: {item_name(item)}"
        if item.get("preset") and item["preset"] not in oidc_presets.PRESETS:
            errors.append(f"{about}: preset is {item['preset']!r}; there are {', '.join(oidc_presets.PRESETS)}.")
            continue
        errors += [
            f"{about}: {key} is there and empty, so it would let everybody in: name some, or leave the key away."
            for key in ("scopes", "groups")
            if key in item and not as_list(item[key])
        ]
        errors += [f"{about}{sentence}" for sentence in one_backend_errors(backend(item, server_name), by_name)]
    whole = [] if errors else [backend(item, server_name) for item in backends]
    return list(dict.fromkeys(errors or overlap_errors(whole) + socket_errors(whole)))


def address_errors(given: t.Mapping[str, t.Any], whole: Item) -> t.Iterator[str]:
    """Sentences about a provider's addresses."""
    for key, form in (
        ("issuer", oidc_metadata.HTTPS_QUERY),
        ("metadata_url", oidc_metadata.HTTPS_QUERY),
        ("jwks_uri", oidc_metadata.HTTPS_QUERY),
        ("introspection_endpoint", oidc_metadata.HTTPS),
    ):
        value = whole[key]
        if key == "metadata_url" and "?" in whole["issuer"] and not given.get(key):
            yield "its issuer has a query, so the address of its metadata does not follow from it: give metadata_url."
        elif value and not value.startswith("https://"):
            yield f"{key} is {value!r}, which is no https address; tokens and keys are fetched over TLS only."
        elif value and not form.fullmatch(value):
            query = ", and no query, which Apache can't send on" if form is oidc_metadata.HTTPS and "?" in value else ""
            yield f"{key} is {value!r}: it has a host's name, perhaps a port, and a path of letters, digits and '._~/%-'{query}."


def one_backend_errors(whole: Item, providers: t.Mapping[str, Item]) -> t.Iterator[str]:
    """Ends of sentences that begin with the backend's name."""
    if not HOST.fullmatch(whole["host"]):
        yield f": host is {whole['host']!r}, which is no name of a host in lower case."
    if not PATH.fullmatch(whole["path"]):
        yield f": path is {whole['path']!r}; it begins and ends with '/' and has letters, digits and '._-' between."
    elif whole["path"].startswith(OWN_PATHS):
        yield f": path is {whole['path']}, which is the front's own; choose another one."
    if not whole["upstreams"]:
        yield " has no upstreams: give at least one address such as http://10.0.0.5:8080/."
    for upstream in whole["upstreams"]:
        if not UPSTREAM.fullmatch(upstream):
            yield (
                f": upstreams has {upstream!r}, which is no address such as http://10.0.0.5:8080/, http://[2001:db8::5]:8080/ or "
                "unix:/run/x.socket|http://localhost/."
            )
    if len(whole["upstreams"]) > 1 and any(u.startswith("unix:") for u in whole["upstreams"]):
        yield ": upstreams has several addresses, one of them a unix socket; a socket stands alone."
    if whole["access"] not in ACCESS:
        yield f": access is {whole['access']!r}; it is browser, bearer or both."
    own = providers.get(whole["provider"])
    if own is None:
        yield f": provider is {whole['provider']!r}, which is not in oidc_proxy_providers ({', '.join(providers) or 'it is empty'})."
    elif whole["access"] in ("bearer", "both"):
        if own["bearer"] == "none":
            yield f": access is {whole['access']}, but its provider {own['name']} has bearer: none; choose local or introspection there."
        if not whole["audience"]:
            # The signature alone says that the IAM made the token, not for whom.
            what = "local validation" if own["bearer"] == "local" else "introspection"
            yield f" has no audience, so {what} would accept tokens that were made for any other service of this IAM: name its own."
        if own["client_id"] and own["client_id"] in whole["audience"]:
            yield (
                f": audience has the client_id of {own['name']}, which every ID token of the front's logins has: "
                "choose an address of its own, such as https://front.example.org/api."
            )
    if whole["access"] == "browser" and (whole["audience"] or whole["scopes"]):
        yield ": audience and scopes are rules for tokens, but access is browser: take them away, or choose both."
    for key in ("audience", "scopes", "groups"):
        for word in whole[key]:
            if not VALUE.fullmatch(word):
                yield f": {key} has {word!r}, which a rule can't hold exactly (no blanks, quotes, backslashes, brackets and '^')."
    for method in whole["methods"]:
        if not METHOD.fullmatch(method) or method in ("CONNECT", "TRACE", "OPTIONS"):
            yield f": methods has {method!r}; it is a method in capitals, and never CONNECT, TRACE or OPTIONS."
    if not whole["methods"]:
        yield ": methods is empty, so no request could pass."
    headers = whole["claims_headers"]
    if not isinstance(headers, t.Mapping):
        yield ": claims_headers must be a dictionary of header and claim."
        headers = {}
    for header in [*([whole["user_header"]] if whole["user_header"] else []), *map(str, headers)]:
        if not HEADER.fullmatch(header) or header.lower() in RESERVED_HEADERS or header.lower().startswith("oidc"):
            yield f": {header!r} can't be used as a header for the upstream; take a name such as X-Remote-User."
    for claim in headers.values():
        if not CLAIM.fullmatch(str(claim)):
            yield f": claims_headers has {claim!r}; the name of a claim has letters, digits and '_.:/-'."
    if whole["credential_file"] and not whole["credential_file"].startswith("/"):
        yield ": credential_file must be an absolute path on the control node."
    for below in whole["sse_paths"]:
        if not BELOW.fullmatch(below.lstrip("/")):
            yield f": sse_paths has {below!r}, which is no path below the backend's own."
    if not 1 <= whole["timeout"] <= 86400:
        yield f": timeout is {whole['timeout']}; it is a number of seconds up to a day."
    if not 0 < whole["body_limit"] <= 2**31 - 1:
        yield f": body_limit is {whole['body_limit']}; it is a number of bytes, more than 0 and less than 2 GiB."


def overlap_errors(backends: t.Sequence[Item]) -> list[str]:
    """Return backends of one name of which one lies inside of the other.

    The rules and headers of both would meet.
    """
    errors = []
    for position, first in enumerate(backends):
        for second in backends[position + 1 :]:
            same = first["host"] == second["host"]
            if same and (first["path"].startswith(second["path"]) or second["path"].startswith(first["path"])):
                errors.append(
                    f"oidc_proxy_backends: {first['name']} and {second['name']} overlap on {first['host']} "
                    f"({first['path']} and {second['path']}): give one of them another path, or a host of its own."
                )
    return errors


def socket_errors(backends: t.Sequence[Item]) -> list[str]:
    """Return sockets whose addresses have one name.

    Apache would send requests for one of them to the other (seen with Debian 12's 2.4).
    """
    errors = []
    first: dict[str, tuple[str, str]] = {}
    for item in backends:
        socket, mark, address = item["upstreams"][0].partition("|")
        if mark:
            other, name = first.setdefault(address.split("/")[2].lower(), (socket, item["name"]))
            if other != socket:
                errors.append(
                    f"oidc_proxy_backends: {name} and {item['name']} have two sockets and one name, {address.split('/')[2]}, behind '|': "
                    f"give each its own, such as {socket}|http://{item['name']}/."
                )
    return errors


def site_errors(site: t.Mapping[str, t.Any]) -> list[str]:
    """What is wrong with the rest of the role's variables."""
    errors = []
    if not HOST.fullmatch(str(site.get("server_name") or "")):
        errors.append(f"oidc_proxy_server_name is {site.get('server_name')!r}, which is no name of a host in lower case.")
    given = [str(site.get(key) or "") for key in ("certificate", "certificate_key")]
    if site.get("own_ca"):
        if any(given):
            errors.append("oidc_proxy_own_ca and oidc_proxy_certificate are both set: choose one.")
    elif not all(given):
        errors.append(
            "oidc_proxy_certificate and oidc_proxy_certificate_key are not both set: give PEM texts or paths on the host, "
            "or set oidc_proxy_own_ca for a closed site."
        )
    for variable, value in zip(("oidc_proxy_certificate", "oidc_proxy_certificate_key"), given):
        if value and not value.startswith(("/", "-----BEGIN ")):
            errors.append(f"{variable} is neither a path on the host nor PEM text.")
    if site.get("acme_command") and not (given[0].startswith("/") and given[1].startswith("/")):
        errors.append("oidc_proxy_acme_command needs oidc_proxy_certificate and oidc_proxy_certificate_key as paths on the host.")
    for key in ("port", "http_port", "introspection_port", "session_port"):
        number = str(site.get(key))
        if not number.isdecimal() or int(number) > 65535 or (key != "http_port" and int(number) == 0):
            errors.append(f"oidc_proxy_{key} is {number}, which is no port.")
    for key in ("session_idle", "session_lifetime", "session_refresh", "refusals_per_minute", "connections_per_address"):
        if not str(site.get(key)).isdecimal():
            errors.append(f"oidc_proxy_{key} is {site.get(key)!r}, which is no whole number.")
    if not isinstance(site.get("refused_users"), (list, tuple)):
        errors.append("oidc_proxy_refused_users must be a list of names.")
    else:
        errors += [
            f"oidc_proxy_refused_users has {name!r}, which is no name (letters, digits and '._-')."
            for name in site["refused_users"]
            if not USER.fullmatch(str(name))
        ]
    if str(site["refusals_per_minute"]).isdecimal() and int(site["refusals_per_minute"]) > oidc_conf.MOST_REFUSALS:
        errors.append(f"oidc_proxy_refusals_per_minute is more than {oidc_conf.MOST_REFUSALS}, the most that can be counted.")
    return errors


def errors(site: t.Mapping[str, t.Any]) -> list[str]:
    """Everything that can be said before a host is asked.

    site: the role's variables without their prefix.
    """
    behind, known = site.get("backends"), site.get("providers")
    found = site_errors(site)
    found += list_errors("oidc_proxy_backends", behind, BACKEND_DEFAULTS) or provider_errors(known, behind)
    found = found or backend_errors(behind, known, str(site["server_name"]))
    return list(dict.fromkeys(found or oidc_conf.port_errors(vhosts(site), int(site["http_port"]))))


def providers(site: t.Mapping[str, t.Any]) -> list[Item]:
    return [provider(item) for item in site["providers"]]


def backends(site: t.Mapping[str, t.Any]) -> list[Item]:
    return [backend(item, str(site["server_name"])) for item in site["backends"]]


def vhosts(site: t.Mapping[str, t.Any]) -> list[Item]:
    return oidc_conf.vhosts(backends(site), providers(site), int(site["port"]))


def secret_keys(item: t.Mapping[str, t.Any]) -> list[str]:
    """Keys of a provider that name files of secrets which the front uses."""
    other = item["bearer"] == "introspection" and item["introspection_client_secret_file"] != item["client_secret_file"]
    return (["client_secret_file"] if item["client_secret_file"] else []) + (["introspection_client_secret_file"] if other else [])


def secret_errors(site: t.Mapping[str, t.Any], texts: t.Mapping[str, str]) -> list[str]:
    """What is wrong with the files of secrets on the control node.

    texts: their content by path; no secret gets into a sentence.
    """
    found = []
    for path in secret_paths(site):
        if path not in texts:
            found.append(f"{path} can't be read on the control node.")
    for item in providers(site):
        for key in secret_keys(item):
            text = texts.get(item[key], "").strip()
            if item[key] in texts and (not SECRET.fullmatch(text) or "${" in text or text.startswith("exec:")):
                found.append(
                    f"oidc_proxy_providers: {item['name']}: the file of {key} must hold one line of 8 or more printable characters "
                    "without blanks, quotes and backslashes."
                )
    for item in backends(site):
        path = item["credential_file"]
        if path in texts and not CREDENTIAL.fullmatch(texts[path].strip()):
            found.append(
                f"oidc_proxy_backends: {item['name']}: the file of credential_file must hold one line such as "
                "'Basic BASE64' or 'Bearer TOKEN'."
            )
    return list(dict.fromkeys(found))


def secret_paths(site: t.Mapping[str, t.Any]) -> list[str]:
    """The files on the control node that a front needs, each once."""
    paths = [item[key] for item in providers(site) for key in secret_keys(item)]
    paths += [item["credential_file"] for item in backends(site)]
    return list(dict.fromkeys(path for path in paths if path))
