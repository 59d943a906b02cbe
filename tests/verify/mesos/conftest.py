# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""No test leaves an application behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from local import Cluster
from mesos_site import ask, remove


@pytest.fixture
def clean(cluster: Cluster) -> Iterator[None]:
    yield
    remove(cluster, *(one["id"].lstrip("/") for one in ask(cluster, "marathon", "/v2/apps").content["apps"]))
