from __future__ import annotations

import pytest
from kubernetes_site import Site

ARCHIVE = "/srv/kubernetes/images/kubernetes-1.36.3.tar"


@pytest.fixture(scope="session")
def site() -> Site:
    found = Site()
    if found.run("cp1", f"test -e {ARCHIVE}").returncode:
        pytest.skip("because Kubernetes 1.36 is not compiled on this machine: tests/kubernetes/build programs older")
    return found
