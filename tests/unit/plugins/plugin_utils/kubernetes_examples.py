# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes site as the filters see it, for the tests of its check and its plan."""

from __future__ import annotations

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._contract import Site
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import gpu

GROUPS = {"kubernetes_control_plane": ["cp1"], "kubernetes_workers": ["w1", "w2"]}


class HostVars(dict):
    """Ansible's hostvars, as far as the manager uses it."""

    def raw_get(self, host):
        return {key: value for key, value in self[host].items() if key != "ansible_facts"}


def host(name, number, accelerators=(), cgroup=2, containerd="1.7.24", facts=None, **variables):
    """The variables of a host that was read.

    A fact or a variable whose value is None is not there.
    """
    known = {
        "hostname": name,
        "distribution": "Debian",
        "distribution_major_version": "13",
        "default_ipv4": {"address": f"172.20.{number // 250}.{number % 250 + 1}"},
        "memtotal_mb": 64000,
        "processor_vcpus": 8,
        "swaptotal_mb": 0,
        "accelerators": list(accelerators),
        **(facts or {}),
    }
    own = {
        "ansible_facts": {key: value for key, value in known.items() if value is not None},
        "kubernetes_node_host": {"cgroup": cgroup, "containerd": containerd},
        **variables,
    }
    return {key: value for key, value in own.items() if value is not None}


def hosts(**changes):
    """A control plane and two workers of two GPUs; each change is the whole of a host."""
    return HostVars({"cp1": host("cp1", 10), "w1": host("w1", 11, [gpu(0), gpu(1)]), "w2": host("w2", 12, [gpu(0), gpu(1)]), **changes})


def site(hostvars=None, groups=None, **settings):
    return Site(hosts() if hostvars is None else hostvars, GROUPS if groups is None else groups, (), settings)
