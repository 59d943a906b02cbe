"""Users of SLURM by token; and says at the end how many attacks were tried, and how many got in."""

from __future__ import annotations

import attack_counts
import pytest
from local import Cluster
from oidc_site import SLURM, Front, user_token

# pytest calls it by this name.
pytest_terminal_summary = attack_counts.pytest_terminal_summary


@pytest.fixture(scope="module")
def authority(cluster: Cluster) -> str:
    """Where the user's machine has the certificate of the front's own authority."""
    text = cluster.out("slurm", "cat /etc/deephdc/oidc_proxy/ca.pem")
    cluster.out("idp", f"cat > /tmp/slurm_ca.pem <<'END'\n{text}\nEND\n")
    return "/tmp/slurm_ca.pem"


@pytest.fixture(scope="module")
def alice(cluster: Cluster) -> str:
    """A token that the provider issued after alice had signed in."""
    return user_token(cluster, "alice", SLURM, "slurm")


@pytest.fixture(scope="module")
def front(cluster: Cluster, authority: str) -> Front:
    return Front(cluster, authority)
