from __future__ import annotations

import pytest
from opennebula_site import Site


@pytest.fixture(scope="session")
def site() -> Site:
    return Site()
