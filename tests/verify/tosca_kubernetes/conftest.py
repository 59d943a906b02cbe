# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The Infrastructure Manager, in an empty cloud whose machines can run containers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from infrastructure_manager import Manager, started
from kubernetes_site import Site
from local import Cluster

FRONT = "kubeserver"


class Deployed(Site):
    """The cluster of a deployment, whose control plane has the name that the template gives it."""

    def run(self, host: str, command: str, user: str = "root", timeout: float = 120) -> subprocess.CompletedProcess[str]:
        return super().run(FRONT if host == "cp1" else host, command, user, timeout)


@pytest.fixture(scope="session")
def site() -> Deployed:
    return Deployed()


@pytest.fixture(scope="session")
def manager(cluster: Cluster) -> Iterator[Manager]:
    with started(cluster, "programs:/srv/kubernetes", "/var/lib/containerd", "/var/lib/kubelet", "/var/lib/etcd") as made:
        yield made
