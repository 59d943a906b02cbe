# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of a front before Mesos; says at the end how many attacks were tried, and how many got in."""

from __future__ import annotations

import attack_counts
import pytest
from local import Cluster
from mesos_front_site import Provider
from mesos_site import clean

__all__ = ["clean"]

# pytest calls it by this name.
pytest_terminal_summary = attack_counts.pytest_terminal_summary


@pytest.fixture(scope="session")
def provider(cluster: Cluster) -> Provider:
    return Provider(cluster)
