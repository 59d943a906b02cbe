# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Who asks the cloud."""

from __future__ import annotations

import attack_counts
import pytest
from local import Cluster
from openstack_users import Account, administrator, user

pytest_terminal_summary = attack_counts.pytest_terminal_summary
# A run of the playbook takes two minutes on a quiet machine, and ten where many others work.
Cluster.limit = 1500


@pytest.fixture(scope="session")
def admin(cluster: Cluster) -> Account:
    return administrator(cluster)


@pytest.fixture(scope="session")
def ada(cluster: Cluster, admin: Account) -> Account:
    return user(cluster, "ada", "physics")


@pytest.fixture(scope="session")
def eve(cluster: Cluster, admin: Account) -> Account:
    return user(cluster, "eve", "biology")
