# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A Mesos cluster as the manager deploys it, and requests to its daemons."""

from __future__ import annotations

import json
from typing import Any

from infrastructure_manager import Manager
from local import Cluster
from mesos_site import Answer, ask

DEVICE_ROOT = "/var/lib/gpu_simulator"
PROPERTIES = {"gpu_wn_node": {"device_root": DEVICE_ROOT}}
FRONT = "mesosserver"
# Prints whether each device opens: one without a driver says ENXIO to whom it opens for, and EPERM to all others.
LOOK = 'for n in 0 1; do (: </dev/nvidia$n) 2>&1 | sed "s/.*: //"; done'
OPENED = ["No such device or address", "Operation not permitted"]
SECRETS = "/etc/deephdc/tosca_secrets.json"


def inputs(manager: Manager) -> dict[str, Any]:
    sums = (manager.cluster.state / "builds/SHA256SUMS").read_text(encoding="ascii").split()
    digests = dict(zip(sums[1::2], sums[::2], strict=True))
    settings: dict[str, Any] = {"mesos_agent_device_root": DEVICE_ROOT}
    for program, version in (("mesos", "1.11.0"), ("marathon", "1.5.15")):
        file = f"{program}-{version}.tar.gz"
        settings[f"mesos_cluster_{program}_source"] = {"path": f"/opt/builds/{file}", "sha256": digests[file], "version": version}
    return {
        "wn_num": 0,
        "gpu_num": 2,
        "gpu_vendor": "NVIDIA",
        "gpu_model": "A100",
        "mesos_users": [{"os_user_name": "ada"}],
        "mesos_settings": json.dumps(settings, indent=1),
    }


def secrets(cluster: Cluster) -> dict[str, str]:
    return dict(json.loads(cluster.out(FRONT, f"cat {SECRETS}"))["mesos_cluster_secrets"])


def marathon(cluster: Cluster, path: str, body: Any = None, method: str = "", secret: str = "", by: str = FRONT) -> Answer:
    """A request to the Marathon of a master.

    :param secret: of its interface; read on the front end, where nothing is given.
    """
    return ask(cluster, "marathon", path, body, method, by, ("marathon", secret or secrets(cluster)["marathon_http"]), by)
