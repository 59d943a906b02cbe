# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The files of a front, which the role delivers: pure functions.

They are made from its variables and from what was read on the host.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._oidc import metadata as oidc_metadata
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import conf as oidc_conf
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import pages as oidc_pages
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import settings as oidc_settings
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import token_names

Item = t.Dict[str, t.Any]

STATE = "/etc/deephdc/oidc_proxy"
SESSIONS_CONF = f"{STATE}/sessions.conf"
SESSIONS_GROUP = "oidc-sessions"
SELECTOR = "/etc/apache2/sites-enabled/deephdc-oidc-proxy.conf"
NUMBERS = (
    *("port", "http_port", "introspection_port", "session_port", "session_idle", "session_lifetime", "session_refresh"),
    *("refusals_per_minute", "connections_per_address"),
)


def site_of(settings: t.Mapping[str, t.Any], read: t.Mapping[str, t.Any]) -> Item:
    """The role's variables with numbers as numbers and paths as paths.

    read: module_version and ports_conf of the host.
    """
    site = {**settings, **{key: int(settings[key]) for key in NUMBERS}}
    certificate, key = certificate_paths(settings)
    return {
        **site,
        "certificate": certificate,
        "certificate_key": key,
        "module_version": oidc_conf.version(str(read.get("module_version") or "")),
        "ports_conf": str(read.get("ports_conf") or PORTS_CONF),
    }


# Readers of PEM pass over what is before the first certificate.
PEM_MARK = "# Made by deephdc.accelerators\n"

# What a fresh package brings, for a prediction where nothing is installed yet.
PORTS_CONF = "Listen 80\n<IfModule ssl_module>\n\tListen 443\n</IfModule>\n"


def certificate_paths(settings: t.Mapping[str, t.Any]) -> tuple[str, str]:
    if settings["own_ca"]:
        return f"{STATE}/front.pem", f"{STATE}/front.key"
    certificate, key = str(settings["certificate"]), str(settings["certificate_key"])
    return (
        certificate if certificate.startswith("/") else f"{oidc_conf.DIRECTORY}/certificate.pem",
        key if key.startswith("/") else f"{oidc_conf.DIRECTORY}/certificate.key",
    )


def plan(settings: t.Mapping[str, t.Any], read: t.Mapping[str, t.Any], cas: t.Mapping[str, str], present: t.Sequence[str] = ()) -> Item:
    """What a front has, without its secrets.

    read: module_version, ports_conf and metadata (by provider, of the module oidc_metadata_info); cas: PEM texts by path on the
    control node; present: files in the front's directories, of which those that are no longer wanted go.
    """
    backends, providers = oidc_settings.backends(settings), oidc_settings.providers(settings)
    metadata = t.cast("dict[str, Item]", read.get("metadata") or {})
    errors = [
        sentence
        for provider in providers
        for sentence in oidc_metadata.metadata_errors(provider, backends, metadata.get(provider["name"]) or {})
    ]
    if errors:
        return {"errors": errors, "files": [], "live": [], "gone": [], "addresses": {}, "names": [], "reads": []}
    site, hosts = site_of(settings, read), oidc_settings.vhosts(settings)
    pages = oidc_pages.pages(backends, any(oidc_conf.has_browsers(vhost) for vhost in hosts))
    text = oidc_conf.whole(hosts, site, metadata)
    authorities = {oidc_conf.ca_path(one): PEM_MARK + cas[one["ca_file"]].rstrip() + "\n" for one in providers if one["ca_file"]}
    files: list[Item] = [
        {"path": f"{oidc_conf.ACME}/.well-known/acme-challenge", "state": "directory", "mode": "0755"},
        *({"path": f"{oidc_conf.PAGES}/{name}", "content": content} for name, content in pages.items()),
        *({"path": path, "content": content} for path, content in authorities.items()),
        {"path": oidc_conf.LUA_NAMES, "content": oidc_conf.header_names(hosts)},
        {"path": token_names.PATH, "content": token_names.SCRIPT},
        {"path": oidc_conf.CANDIDATE, "content": text},
        {"path": SELECTOR, "content": oidc_conf.SELECTOR},
    ]
    certificate, key = certificate_paths(settings)
    if certificate.startswith(oidc_conf.DIRECTORY):
        files.append({"path": certificate, "content": PEM_MARK + str(settings["certificate"]).rstrip() + "\n"})
    wanted = {item["path"] for item in files} | {item["path"] for item in secret_files(settings, b"", {})}
    return {
        "errors": [],
        "files": files,
        "live": [{"path": oidc_conf.CONF, "content": text}],
        # Only once the configuration that needed them is gone.
        "gone": [{"path": path, "state": "absent"} for path in present if path not in wanted],
        "addresses": {backend["name"]: oidc_conf.base_url(vhost) + backend["path"] for vhost in hosts for backend in vhost["backends"]},
        "names": list(dict.fromkeys(vhost["host"] for vhost in hosts)),
        # Everything that Apache reads when it starts or is reloaded.
        "reads": sorted(
            {oidc_conf.CONF, SELECTOR, oidc_conf.LUA, oidc_conf.LUA_NAMES, token_names.PATH, certificate, key}
            | set(authorities)
            | {item["path"] for item in secret_files(settings, b"", {}) if item["path"] != SESSIONS_CONF}
        ),
    }


def derived(master: bytes, purpose: str) -> str:
    """Return a separate secret for each purpose.

    So a session of one virtual host is not valid for another.
    """
    return hmac.new(master, purpose.encode(), hashlib.sha256).hexdigest()


def secret_files(settings: t.Mapping[str, t.Any], master: bytes, texts: t.Mapping[str, str]) -> list[Item]:
    """The files that only root may read.

    texts: content of the files on the control node, by path.
    """
    made: dict[str, str] = {}
    store = derived(master, "sessions")
    for vhost in oidc_settings.vhosts(settings):
        provider = vhost["provider"]
        lines = [f"OIDCCryptoPassphrase {derived(master, oidc_conf.vhost_name(vhost))}"]
        if settings["session_store"] == "redis" and oidc_conf.has_browsers(vhost):
            lines.append(f"OIDCRedisCachePassword {store}")
        if oidc_conf.has_browsers(vhost):
            lines.append(f'OIDCClientSecret "{texts.get(provider["client_secret_file"], "").strip()}"')
        if oidc_conf.has_tokens(vhost) and provider["bearer"] == "introspection":
            lines.append(f'OIDCOAuthClientSecret "{texts.get(provider["introspection_client_secret_file"], "").strip()}"')
        made[oidc_conf.secret_file("vhost", oidc_conf.vhost_name(vhost))] = "\n".join(lines) + "\n"
    for backend in oidc_settings.backends(settings):
        if backend["credential_file"]:
            path = oidc_conf.secret_file("backend", backend["name"])
            made[path] = f'RequestHeader set Authorization "{texts.get(backend["credential_file"], "").strip()}"\n'
    key = certificate_paths(settings)[1]
    if key.startswith(oidc_conf.DIRECTORY):
        made[key] = str(settings["certificate_key"]).rstrip() + "\n"
    files: list[Item] = [{"path": path, "secret_base64": encoded(text), "mode": "0600"} for path, text in made.items()]
    if settings["session_store"] == "redis":
        conf = sessions_conf(int(settings["session_port"]), store)
        files.append({"path": SESSIONS_CONF, "secret_base64": encoded(conf), "group": SESSIONS_GROUP, "mode": "0640"})
    return files


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def sessions_conf(port: int, password: str) -> str:
    """A redis for the front's sessions alone. What it keeps is encrypted by the front."""
    return (
        "# Made by deephdc.accelerators, role oidc_proxy\n"
        f"bind 127.0.0.1\nport {port}\nprotected-mode yes\nrequirepass {password}\nsupervised systemd\ndaemonize no\n"
        "dir /var/lib/oidc_proxy_sessions\ndbfilename sessions.rdb\nsave 60 1\nappendonly no\n"
        'maxmemory 128mb\nmaxmemory-policy volatile-ttl\nlogfile ""\n'
    )
