# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Apache in front of the APIs of a host: pure functions.

Apache speaks TLS, the APIs listen on sockets.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import federation_front
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.control_conf import GLANCE_PORT, socket_of
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.federation_front import block, unset
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.hosts import BY_NAME, SERVICES, Service
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.ini import MARK

DIRECTORY = "/etc/apache2/deephdc"
CONF = f"{DIRECTORY}/openstack.conf"
CERTIFICATE = f"{DIRECTORY}/openstack.crt"
KEY = f"{DIRECTORY}/openstack.key"
ENABLED = "/etc/apache2/conf-enabled/deephdc-openstack.conf"
MODULES = ("authz_core", "headers", "proxy", "proxy_http", "rewrite", "setenvif")
# By which a client could give an API another address for its answers.
PROXY_HEADERS = ("Forwarded", *(f"X-Forwarded-{what}" for what in ("For", "Host", "Port", "Prefix", "Proto", "Server")))


def loaded(names: t.Iterable[str]) -> list[str]:
    """Return needed modules of Apache, where no other configuration has loaded them."""
    folder = "/usr/lib/apache2/modules"
    lines = block("IfModule !socache_shmcb_module", [f"LoadModule socache_shmcb_module {folder}/mod_socache_shmcb.so"])
    lines += block("IfModule !ssl_module", [f"LoadModule ssl_module {folder}/mod_ssl.so"])
    for name in names:
        lines += block(f"IfModule !{name}_module", [f"LoadModule {name}_module {folder}/mod_{name}.so"])
    return lines


def backend(service: Service) -> str:
    return f"http://127.0.0.1:{GLANCE_PORT}/" if service.name == "glance" else f"unix:{socket_of(service)}|http://localhost/"


def virtual_host(service: Service, plan: t.Mapping[str, t.Any]) -> list[str]:
    federated = plan["federation"].get("front", []) if service.name == "keystone" else []
    forged = [*PROXY_HEADERS, *(federation_front.IDENTITY_HEADERS if service.name == "keystone" else ())]
    return block(
        f"VirtualHost *:{service.port}",
        [
            f"ServerName {plan['names'][service.name]}:{service.port}",
            "SSLEngine on",
            "SSLProtocol -all +TLSv1.2 +TLSv1.3",
            f"SSLCertificateFile {CERTIFICATE}",
            f"SSLCertificateKeyFile {KEY}",
            f"ErrorLog ${{APACHE_LOG_DIR}}/openstack-{service.name}-error.log",
            # Without the query, in which a client may have put a secret.
            f'CustomLog ${{APACHE_LOG_DIR}}/openstack-{service.name}-access.log "%h %l %u %t \\"%m %U %H\\" %>s %O"',
            "ProxyRequests Off",
            "AllowEncodedSlashes NoDecode",
            "LimitRequestFieldSize 16380",
            # Clients that wait for a server ask every 5 s, when Apache closes a connection by default, and some requests were lost.
            "KeepAliveTimeout 65",
            *unset(forged),
            # The APIs name themselves in their answers.
            'RequestHeader set X-Forwarded-Proto "https"',
            "ProxyPreserveHost On",
            *federated,
            f'ProxyPass "/" "{backend(service)}" retry=0 timeout=600',
        ],
    )


def federated(plan: t.Mapping[str, t.Any], host: str) -> t.Mapping[str, t.Any]:
    """What a host has of logins by token: all of it, or nothing."""
    return t.cast("t.Mapping[str, t.Any]", plan["federation"] if plan["hosts"]["keystone"] == host else {})


def configuration(plan: t.Mapping[str, t.Any], host: str) -> str:
    """The configuration of Apache for the APIs that a host has."""
    providers = federated(plan, host).get("providers", [])
    modules = (*MODULES, *(federation_front.MODULES if providers else ()))
    lines = [*loaded(modules), "TraceEnable off", "ServerTokens Prod", "ServerSignature Off"]
    for service in SERVICES:
        if plan["hosts"][service.name] == host:
            lines += [f"Listen {service.port}", *virtual_host(service, plan)]
    lines += federation_front.verifiers(providers, backend(BY_NAME["keystone"]), PROXY_HEADERS)
    return MARK + "\n".join(lines) + "\n"


def files(plan: t.Mapping[str, t.Any], host: str) -> list[dict[str, str]]:
    """What the module file_set writes, without the certificate and its key."""
    return [
        {"path": DIRECTORY, "state": "directory", "mode": "0755"},
        *federated(plan, host).get("files", []),
        {"path": CONF, "content": configuration(plan, host)},
        {"path": ENABLED, "content": f"{MARK}IncludeOptional {CONF}\n"},
    ]
