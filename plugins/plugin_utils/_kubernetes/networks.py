# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The networks that a cluster was made with: pure functions.

Certificates, Services and the routes of all nodes hold them, so no run can change them.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.settings import PREFIX

# Options of the API server and the controllers, and the variables behind them.
OPTIONS = {"service-cluster-ip-range": "service_network", "cluster-cidr": "pod_network", "node-cidr-mask-size": "node_prefix"}


# kubeadm writes these always.
NEEDED = ("service-cluster-ip-range", "cluster-cidr")


def network_errors(there: t.Sequence[str], wanted: t.Mapping[str, t.Any]) -> list[str]:
    """Return a sentence for each network that is not as the inventory says.

    :param there: lines with an option and its value, as a host of the control plane has them.
    :param wanted: pod_network, service_network and node_prefix.
    :raises ValueError: they are no list, or a line is no option with its value.
    """
    if not isinstance(there, (list, tuple)) or not all(isinstance(line, str) for line in there):
        raise ValueError("The networks must be a list of texts, such as [cluster-cidr=10.244.0.0/16].")
    given = {line.partition("=")[0] for line in there}
    found = [
        f"The {PREFIX}{OPTIONS[option]} that the cluster was made with can't be read: no manifest of the control plane has --{option}. "
        "Write it there again, as kubeadm does."
        for option in NEEDED
        if option not in given
    ]
    for line in dict.fromkeys(there):
        option, _equals, value = line.partition("=")
        if option not in OPTIONS or not value:
            raise ValueError(f"A line of the control plane's networks is {line!r}.")
        variable = OPTIONS[option]
        if value != str(wanted[variable]):
            found.append(
                f"The cluster was made with {PREFIX}{variable} {value}, and it would be {wanted[variable]} now, but it can't change: "
                f"pods and Services would be cut off. Set {PREFIX}{variable} to {value}."
            )
    return found
