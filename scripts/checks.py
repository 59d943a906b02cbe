"""What `make lint` and `make test` run, as data.

There is one Step per tool, per part of the compatibility tests, per scenario and release.
"""

from __future__ import annotations

import os
import subprocess

from steps import ROOT, Step

BIN = ROOT / ".venv/bin"
ENVIRONMENT = {
    "PATH": f"{BIN}:{os.environ['PATH']}",
    "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
    "NO_COLOR": "1",
}
RELEASES = ("bookworm", "trixie")
# In a run of everything these run on one release each, for nothing but time. What they show is shown for that release alone
# there; `make test SCENARIO=...` runs all of a scenario on both.
ONE_RELEASE = {
    "gpu_host/test_container_toolkit.py": "trixie",
    "gpu_host/test_driver.py": "bookworm",
    "gpu_host/test_reboot.py": "trixie",
    "kubernetes": "trixie",  # the one whose containerd knows how to give devices by CDI
    "kubernetes_day2": "trixie",
    "kubernetes_gpus": "trixie",
    "kubernetes_ha": "trixie",
    "kubernetes_minor": "trixie",
    "kubernetes_policy": "trixie",
    "kubernetes_queue": "trixie",
    "oidc_hostile": "bookworm",
    "oidc_proxy/test_04_life.py": "trixie",
    "oidc_proxy/test_06_gateway_attacks.py": "bookworm",
    "oidc_proxy/test_07_iam_accounts.py": "trixie",
    "oidc_proxy/test_08_closed_accounts.py": "bookworm",
    "mesos": "bookworm",  # nothing but time
    "mesos_day2": "bookworm",
    "mesos_front": "bookworm",
    "openstack": "bookworm",  # Debian 13 has no linuxbridge agent
    "opennebula/test_02_life.py": "trixie",
    "nova_lxd_gpus": "bookworm",  # its processor is emulated
    "opennebula/test_03_hold.py": "trixie",
    "opennebula/test_04_shared.py": "bookworm",
    "pci_passthrough": "bookworm",  # its processor is emulated
    "slurm/test_08_changes.py": "trixie",
    "slurm/test_09_policy.py": "trixie",
    "slurm/test_10_sharing.py": "bookworm",
    "slurm_day2": "bookworm",
    "slurm_faults": "trixie",
    "slurm_move": "bookworm",
    "slurm_uninstall": "trixie",
    "slurm_upgrade": "trixie",
    "slurm_services/test_03_elastic.py": "trixie",
    "slurm_services/test_04_containers.py": "bookworm",
    "slurm_services/test_06_information.py": "bookworm",
    "tosca_im": "bookworm",  # whose Python runs the Ansible that the manager installs
    "tosca_kubernetes": "bookworm",
    "tosca_mesos": "bookworm",
    "tosca_xopera": "trixie",
}
# In no run of everything: one shows an example beside the collection, two take too long, and those of TOSCA are not recorded.
# `make test SCENARIO=...` runs them.
BY_HAND = ("beside", "mesos_day2", "openstack", "tosca_im", "tosca_kubernetes", "tosca_mesos")
COMPAT_VERSIONS = ("2.16", "2.19", "2.21")

# Modules that promise to run where only an old Python is; the others need what galaxy.yml's readers expect, 3.8.
OLD_PYTHON = [
    "plugins/modules/gpu_facts.py",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "plugins/module_utils/_gpu").glob("*.py")),
]


CHECKOUT = subprocess.run([ROOT / "scripts/checkout-name"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def step(
    title: str, *command: str | os.PathLike[str], after: tuple[str, ...] = (), limit: float = 900, label: str = "", light: bool = True
) -> Step:
    return Step(title, command, after=after, limit=limit, environment=ENVIRONMENT, label=label, light=light)


def lint() -> list[Step]:
    """Longest first, so that the last worker does not wait alone."""
    return [
        step("ansible-lint", "ansible-lint", "--offline", "--nocolor"),
        step("antsibull-docs", "antsibull-docs", "lint-collection-docs", "--plugin-docs", "--validate-collection-refs=all", "."),
        step("Galaxy's importer", "tests/galaxy/import"),
        step("TOSCA templates", "tests/tosca/run"),
        step("mypy", "mypy", "-p", "ansible_collections.deephdc.accelerators.plugins"),
        step("golden configuration", "python", "tests/golden/render.py", "--check"),
        step(
            "mypy golden",
            "mypy",
            "--config-file",
            "tests/golden/mypy.ini",
            *(f"tests/golden/{name}.py" for name in ("executed", "mutate", "render")),
        ),
        step("mypy nova_lxd", "mypy", "--config-file", "tests/nova_lxd/mypy.ini", "-p", "nova_lxd"),
        step("mypy scripts", "mypy", *(f"scripts/{name}.py" for name in ("checks", "inputs", "passes", "pictures", "steps", "usage"))),
        step("yamllint", "yamllint", "--strict", "."),
        step("ruff check", "ruff", "check", "."),
        step("ruff format", "ruff", "format", "--check", "--diff", "."),
        step("old Python on targets", "vermin", "--no-tips", "--backport", "typing", "-t=2.7-", "-t=3.6-", "--violations", *OLD_PYTHON),
        step("changelog fragments", "antsibull-changelog", "lint"),
        step("reference is up to date", "scripts/reference", "--check"),
        step("tarball holds what git holds", "scripts/tarball", "--check"),
        step("unit tests", "pytest", "-q", "-n", "2"),
        step("tests of the runner", "pytest", "-q", "-n", "2", "tests/runner"),
    ]


def images() -> list[Step]:
    return [step("test host images", "scripts/image", "bookworm", "trixie", light=False)]


def compat() -> list[Step]:
    """Return sanity, units and a real deployment on every supported ansible-core.

    Units run on all but the toolchain's. The deployment is from the tarball.
    """
    return [
        step(
            f"ansible-core {version}: {part}",
            *("tests/compat/run", version, part),
            after=("test host images",),
            label=f"compat-{version}-{part}-{CHECKOUT}",
            # The deployment makes a host, and jobs there have little patience.
            light=part != "play",
        )
        for part in ("play", "sanity", "units")
        for version in COMPAT_VERSIONS
        # The toolchain's own version: lint() runs them with it.
        if (version, part) != ("2.19", "units")
    ]


def refusals() -> list[Step]:
    """Return the step that has bad inventories refused on the control node.

    They need no host and no release, so it runs once and beside no scenario.
    """
    return [step("refusals on the control node", "pytest", "-q", "-n", "2", "tests/verify/refusals")]


def quick_start() -> list[Step]:
    """README's commands on an empty control node, one container without services."""
    label = f"quick-start-{CHECKOUT}"
    found = step("README's quick start", "pytest", "-q", "tests/quick_start", after=("test host images",), limit=300, label=label)
    found.cleanup = ("scripts/engine", "--clean-label", label)
    return [found]


def scenario_names() -> list[str]:
    """Every scenario of Molecule but `default`, whose files the others share."""
    return sorted(path.parent.name for path in (ROOT / "extensions/molecule").glob("*/molecule.yml") if path.parent.name != "default")


def tests_elsewhere(release: str) -> list[str]:
    """The files of tests that a run of everything gives to another release."""
    return [name for name, own in ONE_RELEASE.items() if own != release]


def in_everything() -> list[tuple[str, str]]:
    """The scenarios and releases of a run of everything."""
    names = [name for name in scenario_names() if name not in BY_HAND]
    return [(name, release) for name in names for release in RELEASES if ONE_RELEASE.get(name, release) == release]


def scenario(name: str, release: str, whole: bool = False) -> Step:
    """``whole``: also the tests that a run of everything gives to another release."""
    label = f"{name}-{release}-{CHECKOUT}"
    found = step(
        f"Molecule {name} on {release}",
        *("scripts/scenario", name, release),
        after=("test host images",),
        limit=5400,
        label=label,
        light=False,
    )
    found.environment = {
        **ENVIRONMENT,
        "LOCAL_LABEL": label,
        "TESTS_OF_ANOTHER_RELEASE": "" if whole else " ".join(tests_elsewhere(release)),
    }
    found.cleanup = ("scripts/scenario", name, release, "clean")
    # Of Molecule: no play of ours has run then. An image may need packages from an archive that does not answer for a moment.
    found.nothing_tested = rf"\[{name} > create\].*Executed: Failed"
    return found
