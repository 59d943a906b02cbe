"""A generated secret is nowhere but in its file."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator

import pytest
from leaks import ProcessWatch, needles, on_control_node, on_host
from local import Cluster
from slurm_site import INSTALLED, SITE

OWNS = ("tests/verify/leaks.py",)

HOSTS = ["ctl", "login", "gpu1", "gpu2"]


@pytest.fixture
def former_key(cluster: Cluster) -> Iterator[None]:
    """The hosts have it again afterwards."""
    yield
    cluster.playbook(SITE, "--tags", "munge", *INSTALLED)


def test_the_munge_key_leaks_nowhere(cluster: Cluster, former_key: None):
    """A new key is rolled out with everything turned on that talks, while all process lists are watched."""
    key = secrets.token_bytes(96)
    text = base64.b64encode(key).decode()
    watch = ProcessWatch(needles(key))
    watch.start()
    talkative = (SITE, "-vvv", "--diff", "--tags", "munge")
    output = cluster.playbook(*talkative, variables={"munge_key": text})
    broken = cluster.playbook(*talkative, variables={"munge_key": text + "!"}, succeeds=False)
    watch.stop()

    assert watch.found == set()
    assert text[:40] not in output + broken
    assert "munge_key is not valid base64" in broken
    assert on_control_node(cluster, key) == []
    for name in HOSTS:
        assert cluster.out(name, "base64 -w0 /etc/munge/munge.key") == text
        assert on_host(cluster, name, key, "/etc/munge/munge.key") == [], name
