from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fingerprint import SHOWN, left_behind
from local import Cluster
from owners import IN_ORDER, SMOKE

NOTED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def host(request: pytest.FixtureRequest, cluster: Cluster):
    """Testinfra's view of the host that the test's parameter names."""
    import testinfra

    return testinfra.get_host(f"ssh://root@{cluster.label}-{request.param}", ssh_config=str(cluster.secrets / "ssh_config"))


def is_in_order(file: Path) -> bool:
    """Whether a file of tests is a part of one test with the others of its folder."""
    return file.parent.name in IN_ORDER and file.name != SMOKE


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of all files of a folder, those that can't take back what they did come last."""
    items.sort(key=lambda item: hasattr(getattr(item, "module", None), "LEAVES") and not is_in_order(item.path))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Compare the kept cluster with what it was: see scripts/scenario. A file says in LEAVES what it can't take back."""
    dirty = Path(os.environ.get("LOCAL_STATE", "/nonexistent"), "dirty")
    noted = dirty.with_name("fingerprint.json")
    if session.config.option.collectonly or not dirty.exists() or not noted.exists():
        return
    items = [item for item in session.items if isinstance(item, pytest.Function)]
    declared = any(hasattr(item.module, "LEAVES") or is_in_order(item.path) for item in items)
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
