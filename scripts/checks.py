"""What `make lint` and `make test` run, as data.

There is one Step per tool, per part of the compatibility tests, per cluster and per test on it. narrow.py says which of them run.
"""

from __future__ import annotations

import os
import subprocess

from owners import IN_ORDER, RELEASES, Test
from steps import ROOT, Step

BIN = ROOT / ".venv/bin"
ENVIRONMENT = {
    "PATH": f"{BIN}:{os.environ['PATH']}",
    "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
    "NO_COLOR": "1",
}
SCRIPTS = (
    "archives",
    "checks",
    "golden",
    "memory",
    "moves",
    "narrow",
    "owners",
    "pictures",
    "plan",
    "reach",
    "record",
    "steps",
    "usage",
    "words",
)
COMPAT_VERSIONS = ("2.16", "2.19", "2.21")

# Modules that promise to run where only an old Python is; the others need what galaxy.yml's readers expect, 3.8.
OLD_PYTHON = [
    "plugins/modules/gpu_facts.py",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "plugins/module_utils/_gpu").glob("*.py")),
]


CHECKOUT = subprocess.run([ROOT / "scripts/checkout-name"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


# What checks read. A change of the tools makes each of them run, and look at all files.
TOOLS = r"(requirements|constraints|pyproject).*|\.(ansible-|yaml)lint.*|scripts/(\w+\.py|test|image|engine|toolchain|collections)|"
TOOLS += r"tests/(sanity|compat)/.*|tests/config\.yml|tests/unit/requirements\.txt"
YAML = r"(?!tests/(golden|data)/|changelogs/|images/).*\.ya?ml|plugins/modules/.*"
UNITS = ".*"  # some walk the whole tree
PROGRAMS = (
    r"(?!tests/golden/\w+/).*\.(py|sh|txt)|(scripts|images|plugins|meta|tests/sanity|tests/compat|tests/stand_ins)/.*|roles/.*/files/.*"
)
PLUGINS = r"(plugins|meta|tests/unit|tests/compat|tests/data)/.*"
SHIPPED = r"(plugins|meta|roles|playbooks|tests/verify/refusals|images)/.*|galaxy\.yml"
# What tests/compat/site deploys.
ONE_HOST = r"(meta|tests/compat|images)/.*|galaxy\.yml|plugins/(?!.*(kubernetes|mesos|openstack|opennebula|nova|marathon)).*|"
ONE_HOST += r"playbooks/(slurm|gpu_simulator)\.yml|roles/(gpu_access|gpu_simulator|munge|site_check|slurm_\w+)/.*"


def step(
    title: str, *command: str | os.PathLike[str], after: tuple[str, ...] = (), limit: float = 1800, label: str = "", reads: str = ""
) -> Step:
    reads = reads and f"{TOOLS}|{reads}"
    return Step(title, command, after=after, limit=limit, environment=ENVIRONMENT, label=label, reads=reads)


def unit_tests(title: str, folder: str, reads: str) -> Step:
    """Return a run of pytest.

    Tests that fail are tried once more by themselves, as some have limits by the clock.
    """
    found = step(title, "pytest", "-q", "-o", f"cache_dir=.cache/pytest/{title}", folder, reads=reads)
    found.environment = {**ENVIRONMENT, "PYTEST_ADDOPTS": "-n 2 --cache-clear"}
    found.asks_archives = False
    found.again = {"PYTEST_ADDOPTS": "--last-failed --last-failed-no-failures=none"}
    return found


def always() -> list[Step]:
    """Return what looks at everything in seconds."""
    mypy = ("mypy", "--config-file")
    return [
        step("golden configuration", "python", "tests/golden/render.py", "--check"),
        step("mypy", "mypy", "-p", "ansible_collections.deephdc.accelerators.plugins"),
        step("mypy golden", *mypy, "tests/golden/mypy.ini", *(f"tests/golden/{name}.py" for name in ("executed", "mutate", "render"))),
        step("mypy nova_lxd", *mypy, "tests/nova_lxd/mypy.ini", "-p", "nova_lxd"),
        step("mypy scripts", "mypy", *(f"scripts/{name}.py" for name in SCRIPTS)),
        step("yamllint", "yamllint", "--strict", "."),
        step("ruff check", "ruff", "check", "."),
        step("ruff format", "ruff", "format", "--check", "--diff", "."),
        step("old Python on targets", "vermin", "--no-tips", "--backport", "typing", "-t=2.7-", "-t=3.6-", "--violations", *OLD_PYTHON),
        step("changelog fragments", "antsibull-changelog", "lint"),
        step("reference is up to date", "scripts/reference", "--check"),
        step("tarball holds what git holds", "scripts/tarball", "--check"),
        step("every file has an owner", "scripts/owned"),
    ]


def by_files() -> list[Step]:
    """Return what looks at files that have changed, the longest first."""
    docs = ("antsibull-docs", "lint-collection-docs", "--plugin-docs", "--validate-collection-refs=all", ".")
    lint = step("ansible-lint", "ansible-lint", "--offline", "--nocolor", reads=YAML)
    units = unit_tests("unit tests", "tests/unit", UNITS)
    refusals = unit_tests("refusals on the control node", "tests/verify/refusals", SHIPPED)
    (sanity,) = compat("2.19", "sanity", "sanity")
    lint.narrow, units.narrow, refusals.narrow, sanity.narrow = "yaml", "tests", "tests", "files"
    return [
        *(lint, units, refusals, sanity),
        *real_mesos(),
        step("TOSCA templates", "tests/tosca/run", reads=r"(tosca|tests/tosca|playbooks)/.*|plugins/(filter|action)/.*"),
        step("antsibull-docs", *docs, reads=r"(plugins|meta|docs/docsite)/.*|roles/\w+/meta/.*|galaxy\.yml|tests/config\.yml"),
        step("Galaxy's importer", "tests/galaxy/import", reads=rf"{SHIPPED}|(tosca|tests/galaxy|changelogs)/.*|(README|CHANGELOG).*"),
        unit_tests("tests of the runner", "tests/runner", r"(scripts|tests/runner|molecule|\.config/molecule)/.*|tests/verify/\w+\.py"),
    ]


def by_clock() -> list[Step]:
    """Return what looks at everything, and the other releases of ansible-core."""
    found = [
        step("ansible-lint, all", "ansible-lint", "--offline", "--nocolor", reads=rf"{YAML}|plugins/doc_fragments/.*"),
        unit_tests("unit tests, all", "tests/unit", UNITS),
        unit_tests("refusals on the control node, all", "tests/verify/refusals", SHIPPED),
        unit_tests("tests of the runner, all", "tests/runner", r"(scripts|molecule)/.*|.*\.(py|ya?ml)"),  # they parse all code
        *quick_start(),
        *(one for part in ("play", "sanity", "units") for version in COMPAT_VERSIONS for one in compat(version, part)),
    ]
    found[1].environment = {**found[1].environment, "UNITS_READ": "1"}  # see tests/unit/conftest.py
    return found


def lint() -> list[Step]:
    """Return what needs no other host, whole."""
    return [*(one for one in by_files() if not one.after and "refusals" not in one.title), *always()]


def whole() -> list[Step]:
    """Return all checks, each once."""
    clock = by_clock()
    titles = {one.title.removesuffix(", all") for one in clock} | {"sanity"}
    return [*clock, *(one for one in by_files() if one.title not in titles), *always()]


def same_check(step: Step) -> list[str]:
    """Return the titles of checks that have passed, too, if this one has."""
    if step.title.endswith(", all"):
        return [step.title.removesuffix(", all")]
    if step.is_narrowed or step.title == "unit tests":  # the clock's looks at what they read, too
        return []
    both = {"sanity": "ansible-core 2.19: sanity", "ansible-core 2.19: sanity": "sanity"}
    return [title for title in (both.get(step.title), f"{step.title}, all") if title in {one.title for one in (*by_clock(), *by_files())}]


def images() -> list[Step]:
    found = step("test host images", "scripts/image", *RELEASES)
    found.again = {}
    return [found]


def compat(version: str, part: str, title: str = "") -> list[Step]:
    """Return sanity, units, or a deployment from the tarball, on one ansible-core.

    The toolchain's own units are those of by_files().
    """
    if (version, part) == ("2.19", "units"):
        return []
    reads = {"play": ONE_HOST, "sanity": PROGRAMS, "units": PLUGINS}[part]
    label = f"compat-{version}-{part}-{CHECKOUT}"
    title = title or f"ansible-core {version}: {part}"
    return [step(title, "tests/compat/run", version, part, after=("test host images",), label=label, reads=reads)]


def quick_start() -> list[Step]:
    """Return README's commands on an empty control node, a container."""
    label = f"quick-start-{CHECKOUT}"
    command = ("pytest", "-q", "tests/quick_start")
    reads = rf"README\.md|tests/quick_start/.*|{ONE_HOST}"
    found = step("README's quick start", *command, after=("test host images",), limit=900, label=label, reads=reads)
    found.cleanup = ("scripts/engine", "--clean-label", label)
    return [found]


def real_mesos() -> list[Step]:
    """Return the tests with Mesos' own master and agent."""
    label = f"real-mesos-{CHECKOUT}"
    reads = r"tests/(real_mesos|stand_ins/mesos|golden/mesos_everything)/.*|plugins/(module|plugin)_utils/_mesos/.*"
    found = step("the real Mesos", "pytest", "-q", "tests/real_mesos", after=("test host images",), limit=900, label=label, reads=reads)
    found.cleanup = ("scripts/engine", "--clean-label", label)
    return [found]


def cluster(name: str, release: str) -> Step:
    """Return the step that makes a cluster, or keeps the one that is there."""
    lane = f"{name}-{release}-{CHECKOUT}"
    title, command = f"{name} on {release}: the cluster", ("scripts/scenario", name, release, "keep")
    found = step(title, *command, after=("test host images",), limit=3600, label=lane)
    # The last: compile what only some clusters need (molecule/kubernetes/prepare.yml), as a test that skips shows nothing.
    found.lane, found.environment = lane, {**ENVIRONMENT, "LOCAL_LABEL": lane, "TESTS_OF_ANOTHER_RELEASE": ""}
    found.cleanup = ("scripts/scenario", name, release, "clean")
    return found


def on_cluster(test: Test, release: str, made: Step) -> Step:
    """Return the step of a test on its cluster."""
    found = step(f"{test.name} on {release}", "scripts/scenario", test.cluster, release, "file", *test.files, after=(made.title,))
    found.lane, found.label, found.environment, found.cleanup = made.lane, made.label, made.environment, made.cleanup
    found.limit = 7200 if test.cluster in IN_ORDER else 3600
    return found
