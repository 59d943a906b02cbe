from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from local import Cluster


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a run of everything, leave out what scripts/checks.py gives to the other release."""
    elsewhere = os.environ.get("TESTS_OF_ANOTHER_RELEASE", "").split()
    left = [item for item in items if f"{item.path.parent.name}/{item.path.name}" in elsewhere]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def host(request: pytest.FixtureRequest, cluster: Cluster):
    """Testinfra's view of the host that the test's parameter names."""
    import testinfra

    return testinfra.get_host(f"ssh://root@{cluster.label}-{request.param}", ssh_config=str(cluster.secrets / "ssh_config"))
