from __future__ import annotations

import pytest
from kubernetes_site import Site


@pytest.fixture(scope="session")
def site() -> Site:
    return Site()
