# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Who asks the cloud, when it has an image to start."""

from __future__ import annotations

import base64
from pathlib import Path

import attack_counts
import pytest
from local import Cluster
from openstack_users import Account, administrator, user

pytest_terminal_summary = attack_counts.pytest_terminal_summary
# A run of the playbook takes two minutes on a quiet machine, and ten where many others work.
Cluster.limit = 1500


@pytest.fixture(scope="session")
def admin(cluster: Cluster) -> Account:
    script = base64.b64encode((Path(__file__).parent / "make_image").read_bytes()).decode()
    cluster.out(
        "ctl",
        "[ -e /root/busybox.tar.gz ] || { { [ -e /bin/busybox ] || apt-get install --yes --quiet busybox-static; } >/dev/null 2>&1;"
        f" echo {script} | base64 -d | sh -s /root/busybox.tar.gz; }}",
    )
    account = administrator(cluster)
    account.ask("""
        if not cloud.image.find_image("busybox"):
            kind = dict(disk_format="raw", container_format="bare", visibility="public")
            cloud.create_image("busybox", filename="/root/busybox.tar.gz", wait=True, **kind)
        answer = True
    """)
    return account


@pytest.fixture(scope="session")
def ada(cluster: Cluster, admin: Account) -> Account:
    return user(cluster, "ada", "physics")


@pytest.fixture(scope="session")
def eve(cluster: Cluster, admin: Account) -> Account:
    return user(cluster, "eve", "biology")
