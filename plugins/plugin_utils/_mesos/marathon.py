# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Flags of Marathon, pure functions: sources are in tests/data/mesos/marathon.yml."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import frameworks, settings

NAME = "marathon"


def keeps_gpus(version: tuple[int, ...]) -> bool:
    """Return whether a version has gpu_scheduling_behavior.

    It came with 1.5.7, and to 1.6 with 1.6.352.
    """
    return version >= (1, 5, 7) and not (1, 6) <= version < (1, 6, 352)


def flags(plan: t.Mapping[str, t.Any], host: str) -> dict[str, str]:
    """Return the flags of Marathon on a host, without a secret.

    An empty value is a flag without an argument.

    :param plan: names, addresses, ports, tls, users, sources and zookeeper of the plan of the cluster.
    """
    version = settings.version_of(plan["sources"][NAME])
    address, port = plan["addresses"][host], str(plan["ports"]["marathon"])
    web = (
        {"disable_http": "", "https_address": address, "https_port": port} if plan["tls"] else {"http_address": address, "http_port": port}
    )
    return {
        **web,
        # Everybody may read who leads Mesos, so this needs no secret.
        "master": plan["zookeeper"]["url"],
        "ha": "",
        "hostname": plan["names"][host],
        "framework_name": NAME,
        "mesos_authentication": "",
        "mesos_authentication_principal": NAME,
        "mesos_authentication_secret_file": f"{frameworks.folder(NAME)}/secret",
        # Whom a task runs as that names no account. Without it: Marathon's own.
        "mesos_user": plan["users"][0],
        "enable_features": "gpu_resources",
        # Else applications without a GPU would fill the processors of hosts with GPUs.
        **({"gpu_scheduling_behavior": "restricted"} if keeps_gpus(version) else {}),
        # A week in which all of Marathon may be away before Mesos ends its tasks.
        "failover_timeout": "604800",
    }


def files(plan: t.Mapping[str, t.Any], secrets: t.Mapping[str, str], host: str, heap_mib: int = 1024) -> list[dict[str, str]]:
    """The files with secrets of Marathon on a host, for file_set."""
    given = {**flags(plan, host), "zk": f"zk://{NAME}:{secrets['zookeeper_marathon']}@{plan['zookeeper']['clients']}/{NAME}"}
    variables = {
        **frameworks.libprocess(NAME, plan["addresses"][host], plan["tls"]),
        "JAVA_OPTS": frameworks.java(NAME, heap_mib, plan["tls"]),
    }
    return frameworks.secret_files(NAME, given, variables, secrets, plan["ca"], plan["tls"])
