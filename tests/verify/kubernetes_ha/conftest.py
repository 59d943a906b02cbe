from __future__ import annotations

import pytest
from kubernetes_site import Site


class Three(Site):
    # An upgrade of three hosts, one after the other, on a busy machine.
    limit = 1200


@pytest.fixture(scope="session")
def site() -> Site:
    return Three()
