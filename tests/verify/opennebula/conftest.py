from __future__ import annotations

from collections.abc import Iterator

import pytest
from opennebula_site import Site


@pytest.fixture(scope="session")
def site() -> Site:
    return Site()


@pytest.fixture(scope="module", autouse=True)
def as_deployed(site: Site) -> Iterator[None]:
    """Machines, templates and limits of a file of tests are gone after it."""
    site.stand_in("remember()")
    yield
    site.stand_in("recall()")
