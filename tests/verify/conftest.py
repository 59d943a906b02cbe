from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fingerprint import SHOWN, left_behind
from local import Cluster

NOTED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def host(request: pytest.FixtureRequest, cluster: Cluster):
    """Testinfra's view of the host that the test's parameter names."""
    import testinfra

    return testinfra.get_host(f"ssh://root@{cluster.label}-{request.param}", ssh_config=str(cluster.secrets / "ssh_config"))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Compare the kept cluster with what it was: see scripts/scenario. A file says in LEAVES what it can't take back."""
    dirty = Path(os.environ.get("LOCAL_STATE", "/nonexistent"), "dirty")
    noted = dirty.with_name("fingerprint.json")
    if session.config.option.collectonly or not dirty.exists() or not noted.exists():
        return
    modules = {item.module for item in session.items if isinstance(item, pytest.Function)}
    declared = [module.LEAVES for module in modules if hasattr(module, "LEAVES")]
    if exitstatus not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
        dirty.write_text("a test failed\n")
        return
    found = left_behind(noted)
    if not found:
        dirty.unlink()
        return
    dirty.write_text("\n".join(found) + "\n")
    print("\nThe cluster is not as it was before this file:", *found[:SHOWN], *(["..."] if len(found) > SHOWN else []), sep="\n  ")
    if not declared:
        print("error: restore that in the test, or say in the constant LEAVES why it can't be restored")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
