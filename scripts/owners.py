"""The tests on real systems, and which files each of them owns.

A test is a file tests/verify/FOLDER/test_*.py, which runs on the cluster that molecule/FOLDER makes. It may have constants:
OWNS, paths of files, folders or patterns; LEAVES, why the cluster must be made again after it.
In a folder of IN_ORDER all files but the smoke are one test.
A file belongs to the tests whose path for it is the closest: the file itself, else a pattern, else the longest folder.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

RELEASES = ("bookworm", "trixie")
SMOKE = "test_00_smoke.py"
# Clusters of one system have names that begin so; the first cluster has its smoke.
SYSTEMS = {"slurm": "slurm", "kubernetes": "kubernetes", "mesos": "mesos", "opennebula": "opennebula", "pci_passthrough": "gpu_host"}
SYSTEMS |= {"gpu_host": "gpu_host", "oidc": "oidc_proxy", "openstack": "openstack", "nova_lxd": "openstack", "beside": "slurm"}
# The release on which a change is tested, where it is not Debian 12; on the other one tests come by the clock.
FIRST = {"kubernetes": "trixie", "slurm": "trixie"}
# Clusters and tests that one release alone has.
ONE_RELEASE = {
    **dict.fromkeys(
        (
            *("kubernetes_ha", "kubernetes_minor"),  # nothing but time, and so all others without a reason
            *(f"kubernetes/test_{name}.py" for name in ("backup", "beside_slurm", "dra", "drain", "drift", "information", "interrupted")),
            *(
                f"kubernetes/test_{name}.py"
                for name in ("policy", "policy_attacks", "policy_changes", "queue", "remove_cluster", "remove_node", "sharing", "upgrade")
            ),
        ),
        "trixie",
    ),
    "mesos": "bookworm",
    "mesos_front": "bookworm",
    "nova_lxd_gpus": "bookworm",  # its processor is emulated
    "oidc_hostile": "bookworm",
    "openstack": "bookworm",  # Debian 13 has no linuxbridge agent
    "pci_passthrough": "bookworm",  # its processor is emulated
    "slurm_day2/test_upgrade.py": "trixie",  # Debian 12's SLURM can't be upgraded in place
    "slurm_move": "bookworm",
    "slurm_uninstall": "trixie",
    "tosca_im": "bookworm",  # whose Python runs the Ansible that the manager installs
    "tosca_kubernetes": "bookworm",
    "tosca_mesos": "bookworm",
    "tosca_xopera": "trixie",
}
# Folders whose files build on one another, or leave the cluster other than they found it.
IN_ORDER = (
    *("beside", "tosca_im", "tosca_kubernetes", "tosca_mesos", "tosca_xopera", "mesos_front", "oidc_hostile"),
    *("slurm_move", "slurm_uninstall", "kubernetes_ha", "kubernetes_minor", "nova_lxd_gpus", "pci_passthrough"),
)


@dataclass(frozen=True)
class Test:
    __test__ = False  # for pytest
    name: str  # FOLDER/test_X.py, or the folder
    cluster: str
    files: tuple[str, ...]
    owns: tuple[str, ...]
    leaves: str

    @property
    def is_smoke(self) -> bool:
        return self.name.endswith(SMOKE)

    @property
    def smoke(self) -> str:
        """The cluster whose smoke goes with this test; empty for tests of orchestrators."""
        return next((smoke for begin, smoke in SYSTEMS.items() if self.cluster.startswith(begin)), "")

    @property
    def releases(self) -> tuple[str, ...]:
        """Where it runs, first where it is due."""
        one = ONE_RELEASE.get(self.name) or ONE_RELEASE.get(self.cluster)
        if one:
            return (one,)
        first = FIRST.get(self.cluster, "bookworm")
        return (first, *(release for release in RELEASES if release != first))


def constants(file: Path) -> dict[str, object]:
    """The constants OWNS and LEAVES of a test."""
    found = {}
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        name = getattr(node.targets[0], "id", "") if isinstance(node, ast.Assign) else ""
        if name in ("OWNS", "LEAVES") and isinstance(node, ast.Assign):
            found[name] = ast.literal_eval(node.value)
    return found


def all_tests(root: Path) -> list[Test]:
    """All tests, by name."""
    found: list[Test] = []
    for molecule in sorted(root.glob("molecule/*/molecule.yml")):
        cluster = molecule.parent.name
        files = sorted(root.glob(f"tests/verify/{cluster}/test_*.py"))
        each: list[tuple[str, tuple[Path, ...]]] = [(f"{cluster}/{file.name}", (file,)) for file in files]
        if cluster in IN_ORDER:
            smoke = [one for one in each if one[0].endswith(SMOKE)]
            each = [*smoke, (cluster, tuple(file for file in files if file.name != SMOKE))]
        for name, own in each:
            said = [constants(file) for file in own]
            owns = tuple(path for one in said for path in one.get("OWNS", ()))  # type: ignore[attr-defined]
            leaves = next((str(one["LEAVES"]) for one in said if "LEAVES" in one), "")
            found.append(Test(name, cluster, tuple(str(file.relative_to(root)) for file in own), owns, leaves))
    return found


def closeness(path: str, name: str) -> tuple[int, int]:
    """How close a path of OWNS is to a file; (0, 0) if it does not own it."""
    if path == name:
        return 3, 0
    if "*" in path:
        return (2, 0) if fnmatchcase(name, path) else (0, 0)
    return (1, len(path)) if name.startswith(f"{path}/") else (0, 0)


def owners(name: str, among: Iterable[Test]) -> list[Test]:
    """The tests that a change of a file makes due."""
    best, found = (0, 1), list[Test]()
    for test in among:
        near = (3, 0) if name in test.files else max((closeness(path, name) for path in test.owns), default=(0, 0))
        if near > best:
            best, found = near, [test]
        elif near == best:
            found.append(test)
    return found


def problems(among: list[Test], code: Iterable[str], files: Iterable[str]) -> list[str]:
    """Return what is wrong with the owner lines.

    That is code without an owner or with more than two, and a path without a file.
    """
    files, found = list(files), list[str]()
    for name in code:
        count = len(owners(name, among))
        if count == 0:
            found.append(f"{name} has no owner: name it in OWNS of the test on a real system that would fail if it were broken")
        elif count > 2:
            found.append(f"{name} has {count} owners, two are the most: {', '.join(test.name for test in owners(name, among))}")
    for test in among:
        for path in test.owns:
            if not any(closeness(path, name) > (0, 0) for name in files):
                found.append(f"{test.name}: no file is at {path}")
    return found
