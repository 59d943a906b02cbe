# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Flags of Chronos, pure functions: sources are in tests/data/mesos/chronos.yml."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import frameworks

NAME = "chronos"


def flags(plan: t.Mapping[str, t.Any], host: str, gpu: bool = False, disable_after_failures: int = 0) -> dict[str, str]:
    """Return the flags of Chronos on a host, without a secret.

    An empty value is a flag without an argument.

    :param gpu: whether the build has the patch for GPUs; 3.0.2 as it was released does not start with its flag.
    """
    address, port = plan["addresses"][host], str(plan["ports"]["chronos"])
    web = (
        {"disable_http": "", "https_address": address, "https_port": port} if plan["tls"] else {"http_address": address, "http_port": port}
    )
    return {
        **web,
        "master": plan["zookeeper"]["url"],
        "zk_hosts": plan["zookeeper"]["clients"],
        "zk_path": f"/{NAME}",
        "hostname": plan["names"][host],
        "mesos_framework_name": NAME,
        "mesos_authentication_principal": NAME,
        "mesos_authentication_secret_file": f"{frameworks.folder(NAME)}/secret",
        # Its own default is root.
        "user": plan["users"][0],
        "failover_timeout": "604800",
        "disable_after_failures": str(disable_after_failures),
        **({"enable_features": "gpu_resources"} if gpu else {}),
    }


def files(
    plan: t.Mapping[str, t.Any],
    secrets: t.Mapping[str, str],
    host: str,
    heap_mib: int = 1024,
    gpu: bool = False,
    disable_after_failures: int = 0,
) -> list[dict[str, str]]:
    """The files with secrets of Chronos on a host, for file_set."""
    given = {**flags(plan, host, gpu, disable_after_failures), "zk_auth": f"{NAME}:{secrets['zookeeper_chronos']}"}
    variables = {
        **frameworks.libprocess(NAME, plan["addresses"][host], plan["tls"]),
        "JAVA_OPTS": frameworks.java(NAME, heap_mib, plan["tls"]),
    }
    return frameworks.secret_files(NAME, given, variables, secrets, plan["ca"], plan["tls"])
