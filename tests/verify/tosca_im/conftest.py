# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The Infrastructure Manager, in an empty cloud."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from infrastructure_manager import Manager
from local import Cluster


@pytest.fixture(scope="session")
def manager(cluster: Cluster) -> Iterator[Manager]:
    # Beside the hosts' state, where it can be read after a failure.
    folder = cluster.state / "manager"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    made = Manager(cluster, folder)
    made.remove_all()
    made.make_images()
    made.start_cloud()
    try:
        made.start()
        yield made
    finally:
        made.end_all()
        made.remove_all()
