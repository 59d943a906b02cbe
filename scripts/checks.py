"""What `make lint` and `make test` run, as data.

There is one Step per tool, per part of the compatibility tests, per cluster and per test on it.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping

from owners import IN_ORDER, RELEASES, Test
from plan import Plan
from steps import ROOT, Step

BIN = ROOT / ".venv/bin"
ENVIRONMENT = {
    "PATH": f"{BIN}:{os.environ['PATH']}",
    "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
    "NO_COLOR": "1",
}
SCRIPTS = ("checks", "golden", "owners", "pictures", "plan", "reach", "record", "steps", "usage", "words")
COMPAT_VERSIONS = ("2.16", "2.19", "2.21")

# Modules that promise to run where only an old Python is; the others need what galaxy.yml's readers expect, 3.8.
OLD_PYTHON = [
    "plugins/modules/gpu_facts.py",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "plugins/module_utils/_gpu").glob("*.py")),
]


CHECKOUT = subprocess.run([ROOT / "scripts/checkout-name"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


# Of Molecule: no play of ours has run then. An image may need packages from an archive that does not answer for a moment.
NO_HOSTS = re.compile(r"> create\].*Executed: Failed")


# What steps read that take long. None of them runs if nothing of that changed; a change of the tools makes all run.
TOOLS = r"requirements.*|constraints\.txt|pyproject\.toml|\.(ansible-|yaml)lint.*|scripts/(checks\.py|steps\.py|image|engine|toolchain)|"
YAML = TOOLS + r"(?!tests/(golden|data)/|changelogs/|images/).*\.ya?ml|plugins/(modules|doc_fragments)/.*"
ALL_BUT_CLUSTERS = TOOLS + r"(?!tests/verify/|changelogs/fragments/|extensions/).*"
PROGRAMS = (
    TOOLS
    + r"(?!tests/golden/\w+/).*\.(py|sh|txt)|(scripts|images|plugins|meta|tests/sanity|tests/compat|tests/stand_ins)/.*|roles/.*/files/.*"
)
PLUGINS = TOOLS + r"(plugins|meta|tests/unit|tests/compat|tests/data)/.*"
SHIPPED = TOOLS + r"(plugins|meta|roles|playbooks|tests/compat|tests/verify/refusals|images)/.*|galaxy\.yml"
# What tests/compat/site deploys.
ONE_HOST = TOOLS + r"(meta|tests/compat|images)/.*|galaxy\.yml|plugins/(?!.*(kubernetes|mesos|openstack|opennebula|nova|marathon)).*|"
ONE_HOST += r"playbooks/(slurm|gpu_simulator)\.yml|roles/(gpu_access|gpu_simulator|munge|site_check|slurm_\w+)/.*"
# ansible-lint looks at so many changed files alone, and at everything if there are more.
FEW = 60


def step(
    title: str, *command: str | os.PathLike[str], after: tuple[str, ...] = (), limit: float = 1800, label: str = "", reads: str = ""
) -> Step:
    return Step(title, command, after=after, limit=limit, environment=ENVIRONMENT, label=label, reads=reads)


def ansible_lint(touched: set[str] | None = None) -> Step:
    """The step that looks at all files, or at few that were touched."""
    files = sorted(name for name in touched or () if re.fullmatch(YAML, name))
    alone = 0 < len(files) <= FEW and all(name.startswith(("roles/", "playbooks/")) and (ROOT / name).exists() for name in files)
    return step("ansible-lint", "ansible-lint", "--offline", "--nocolor", *(files if alone else ()), reads=YAML)


def lint(touched: set[str] | None = None) -> list[Step]:
    """Longest first, so that the last worker does not wait alone."""
    return [
        ansible_lint(touched),
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
        step("mypy scripts", "mypy", *(f"scripts/{name}.py" for name in SCRIPTS)),
        step("yamllint", "yamllint", "--strict", "."),
        step("ruff check", "ruff", "check", "."),
        step("ruff format", "ruff", "format", "--check", "--diff", "."),
        step("old Python on targets", "vermin", "--no-tips", "--backport", "typing", "-t=2.7-", "-t=3.6-", "--violations", *OLD_PYTHON),
        step("changelog fragments", "antsibull-changelog", "lint"),
        step("reference is up to date", "scripts/reference", "--check"),
        step("tarball holds what git holds", "scripts/tarball", "--check"),
        step("every file has an owner", "scripts/owned"),
        step("unit tests", "pytest", "-q", "-n", "2", reads=ALL_BUT_CLUSTERS),
        # They parse all code of the repository, too.
        step("tests of the runner", "pytest", "-q", "-n", "2", "tests/runner", reads=r"(scripts|extensions)/.*|.*\.(py|ya?ml)"),
    ]


def needed(plan: Plan, checks: list[Step]) -> list[Step]:
    """Leave out checks that read nothing that has changed since they passed."""

    def is_needed(check: Step) -> bool:
        touched = plan.touched(plan.record.bases(f"check {check.title}", "")[-1])
        return not check.reads or any(re.fullmatch(check.reads, name) for name in touched)

    return [check for check in checks if is_needed(check)]


def changed_checks(plan: Plan) -> list[Step]:
    """All checks but those that would look at what has passed."""
    touched = plan.touched(plan.record.bases("check ansible-lint", "")[-1])
    return needed(plan, [*lint(touched), *refusals(), *quick_start(), *compat()])


def images() -> list[Step]:
    return [step("test host images", "scripts/image", *RELEASES)]


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
            reads={"play": ONE_HOST, "sanity": PROGRAMS, "units": PLUGINS}[part],
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
    return [step("refusals on the control node", "pytest", "-q", "-n", "2", "tests/verify/refusals", reads=SHIPPED)]


def quick_start() -> list[Step]:
    """README's commands on an empty control node, one container without services."""
    label = f"quick-start-{CHECKOUT}"
    found = step(
        "README's quick start",
        "pytest",
        "-q",
        "tests/quick_start",
        after=("test host images",),
        limit=900,
        label=label,
        reads=rf"README\.md|{ONE_HOST}",
    )
    found.cleanup = ("scripts/engine", "--clean-label", label)
    return [found]


def cluster(name: str, release: str) -> Step:
    """The step that makes a cluster, or keeps the one that is there."""
    lane = f"{name}-{release}-{CHECKOUT}"
    title, command = f"{name} on {release}: the cluster", ("scripts/scenario", name, release, "keep")
    found = step(title, *command, after=("test host images",), limit=3600, label=lane)
    # The last: compile what only some clusters need (extensions/molecule/kubernetes/prepare.yml), as a test that skips shows nothing.
    found.lane, found.environment = lane, {**ENVIRONMENT, "LOCAL_LABEL": lane, "TESTS_OF_ANOTHER_RELEASE": ""}
    found.cleanup = ("scripts/scenario", name, release, "clean")
    found.again = second_try_without_hosts
    return found


def second_try_without_hosts(log: str) -> Mapping[str, str] | None:
    """Nothing was tested if the hosts could not be made."""
    return {} if NO_HOSTS.search(log) else None


def on_cluster(test: Test, release: str, made: Step) -> Step:
    """The step of a test on its cluster."""
    found = step(f"{test.name} on {release}", "scripts/scenario", test.cluster, release, "file", *test.files, after=(made.title,))
    found.lane, found.label, found.environment, found.cleanup = made.lane, made.label, made.environment, made.cleanup
    found.limit = 7200 if test.cluster in IN_ORDER else 3600
    return found
