# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A Mesos cluster with three masters and two agents, for the tests of what is computed from it."""

from __future__ import annotations

import copy

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._contract import Site
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import settings
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import gpu

CERTIFICATE, KEY = "-----BEGIN CERTIFICATE-----\nx\n", "-----BEGIN PRIVATE KEY-----\nx\n"
SECRETS = {name: f"{name}-0123456789abcdef" for name in settings.SECRETS}
CLUSTER = {
    "mesos_source": {"path": "/srv/mesos.tar.gz", "sha256": "0" * 64, "version": "1.11.0"},
    "marathon_source": {"url": "https://example.org/marathon.tgz", "sha256": "1" * 64, "version": "1.10.26"},
    "secrets": SECRETS,
    "ca": CERTIFICATE,
    "zookeeper_ids": {"m1": 1, "m2": 2, "m3": 3},
}
GROUPS = {"mesos_masters": ["m1", "m2", "m3"], "mesos_agents": ["gpu1", "gpu2"]}


def host(number, accelerators=None, **changes):
    """Variables and facts of a host."""
    facts = {"distribution": "Debian", "default_ipv4": {"address": f"192.0.2.{number}"}, "processor_vcpus": 16, "memtotal_mb": 64000}
    if accelerators is not None:
        controllers = ["cpu", "cpuacct", "devices", "freezer", "memory"]
        facts.update(accelerators=accelerators, mesos_host={"cgroup": 1, "controllers": controllers, "nvml": True})
    return {"mesos_cluster_certificate": CERTIFICATE, "mesos_cluster_key": KEY, "ansible_facts": facts, **changes}


def hosts():
    masters = {name: host(number) for number, name in enumerate(("m1", "m2", "m3"), 1)}
    return {**masters, "gpu1": host(4, [gpu(0), gpu(1)]), "gpu2": host(5, [])}


def site(hostvars=None, groups=None, **changes):
    return Site(hostvars or hosts(), groups or copy.deepcopy(GROUPS), (), {**CLUSTER, **changes})
