from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from local import Cluster


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def host(request: pytest.FixtureRequest, cluster: Cluster):
    """Testinfra's view of the host that the test's parameter names."""
    import testinfra

    return testinfra.get_host(f"ssh://root@{cluster.label}-{request.param}", ssh_config=str(cluster.secrets / "ssh_config"))
