"""What scripts/due says of files of this repository, and what in a file counts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from checks import TOOLS, by_clock, by_files, whole
from golden import changed_lines
from moves import settled
from narrow import Narrow
from owners import Test, all_tests, closeness, owners, problems
from plan import COMPILE, Plan
from reach import NO_CODE, listed
from steps import Step
from words import content, digest

ROOT = Path(__file__).resolve().parents[2]
PLAN = Plan(ROOT)


def test_every_file_of_code_has_an_owner():
    files = listed(ROOT)
    assert problems(all_tests(ROOT), [name for name in files if not NO_CODE.fullmatch(name)], files) == []


def test_the_closest_path_owns():
    few = [
        Test("a", "a", ("tests/verify/a/test_a.py",), ("roles/x", "roles/x/tasks/b.yml"), ""),
        Test("b", "b", (), ("roles/x/tasks", "roles/x/*.j2"), ""),
        Test("c", "c", (), ("roles/x/tasks", "roles/y"), ""),
    ]
    names = ("roles/x/meta/main.yml", "roles/x/tasks/a.yml", "roles/x/tasks/b.yml", "roles/x/tasks/c.j2", "tests/verify/a/test_a.py", "z")
    assert [[test.name for test in owners(name, few)] for name in names] == [["a"], ["b", "c"], ["a"], ["b"], ["a"], []]
    assert problems(few, ["z"], ["roles/x/tasks/b.yml"]) == [
        "z has no owner: name it in OWNS of the test on a real system that would fail if it were broken",
        "b: no file is at roles/x/*.j2",
        "c: no file is at roles/y",
    ]
    assert closeness("roles/x", "roles/xy/a") == (0, 0)


@pytest.mark.parametrize(
    ("path", "smokes"),
    [
        ("roles/slurm_node/tasks/main.yml", {"slurm"}),
        ("plugins/plugin_utils/_kubernetes/kubeadm.py", {"kubernetes"}),
        ("roles/openstack_network/tasks/main.yml", {"openstack"}),
        ("roles/marathon/tasks/main.yml", {"mesos"}),
        ("tosca/types/deephdc.yaml", set()),
        ("docs/slurm.md", set()),
    ],
)
def test_smokes_of_a_file(path: str, smokes: set[str]):
    runs = PLAN.of_paths([path])
    assert {run.test.cluster for run in runs if run.kind == "due" and run.test.is_smoke} == smokes
    first = [(run.kind, run.release) for run in runs if run.test.name == "slurm/test_00_smoke.py" and run.kind != "stale"]
    assert sorted(first) in ([], [("due", "trixie"), ("owed", "bookworm")]), "due on one release"


def test_what_reaches_a_test_makes_it_stale_and_not_due():
    runs = PLAN.of_paths(["roles/slurm_node/tasks/main.yml"])
    due, stale = ({run.test.name for run in runs if run.kind == kind} for kind in ("due", "stale"))
    assert "tosca_xopera" in stale and "slurm_day2/test_upgrade.py" in stale and not due & {"tosca_xopera", "oidc_proxy/test_05_slurm.py"}


def test_the_first_cluster_of_kubernetes_on_a_machine_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """So the clock of CI does not begin what it would throw away."""
    monkeypatch.setattr("plan.CACHE", tmp_path)
    run = next(run for run in PLAN.of_paths(["roles/kubernetes_node/tasks/main.yml"]) if run.test.is_smoke)
    first = PLAN.wall(run)
    (tmp_path / "kubernetes/programs-1").mkdir(parents=True)
    assert first - PLAN.wall(run) == COMPILE


OTHERS = {f"ansible-core {version}: {part}" for version in ("2.16", "2.19", "2.21") for part in ("play", "sanity", "units")}
OTHERS -= {"ansible-core 2.19: units"}
QUICK = {"ansible-lint", "unit tests", "refusals on the control node", "sanity", "TOSCA templates", "antsibull-docs", "Galaxy's importer"}
QUICK |= {"tests of the runner", "the real Mesos"}


@pytest.mark.parametrize(
    ("path", "titles"),
    [
        ("docs/slurm.md", {"unit tests"}),
        ("tests/verify/slurm/test_06_jobs.py", {"sanity", "unit tests"}),
        ("roles/kubernetes_node/tasks/main.yml", {"ansible-lint", "unit tests", "refusals on the control node", "Galaxy's importer"}),
        ("roles/slurm_node/templates/slurmd.j2", {"unit tests", "refusals on the control node", "Galaxy's importer"}),
        ("plugins/plugin_utils/_kubernetes/queue.py", QUICK - {"ansible-lint", "TOSCA templates", "tests of the runner", "the real Mesos"}),
        ("tests/golden/local/ctl/etc/slurm/slurm.conf", {"unit tests"}),
        ("requirements-dev.txt", QUICK),
        ("scripts/plan.py", QUICK),
    ],
)
def test_quick_checks_of_what_changed(path: str, titles: set[str]):
    assert {one.title for one in by_files() if re.fullmatch(one.reads, path)} == titles


@pytest.mark.parametrize(
    ("path", "titles"),
    [
        ("roles/slurm_node/templates/slurmd.j2", {"README's quick start", *(one for one in OTHERS if "play" in one)}),
        ("plugins/plugin_utils/_kubernetes/queue.py", {one for one in OTHERS if "play" not in one}),
        ("requirements-dev.txt", {"README's quick start", *OTHERS}),
    ],
)
def test_checks_of_the_clock_for_what_changed(path: str, titles: set[str]):
    found = {one.title for one in by_clock() if re.fullmatch(one.reads, path)}
    assert {one for one in found if not one.endswith(", all")} == titles


def test_everything_has_each_check_once():
    titles = [one.title for one in whole()]
    assert len(titles) == len(set(titles)) and {*OTHERS, "ansible-lint, all", "unit tests, all", "TOSCA templates"} <= set(titles)
    assert not {"ansible-lint", "unit tests", "sanity"} & set(titles)


def narrowed(title: str, *files: str) -> list[str] | None:
    """The files that a check would look at; None if it would not run."""

    class OfFiles(Narrow):
        def since(self, commit: str, check: Step) -> set[str]:
            return {name for name in files if re.fullmatch(check.reads, name)}

    check = OfFiles(PLAN).narrowed(next(one for one in by_files() if one.title == title))
    whole_command = next(one for one in by_files() if one.title == title).command
    return None if check is None else [str(word) for word in check.command if word not in whole_command]


def test_ansible_lint_looks_at_changed_roles_and_at_users_of_a_changed_module():
    role, gone = "roles/slurm_node/tasks/main.yml", "roles/slurm_node/tasks/no_longer.yml"
    assert narrowed("ansible-lint", role, gone, "docs/slurm.md") == ["roles/slurm_node"]
    assert narrowed("ansible-lint", "playbooks/slurm.yml") == ["playbooks/slurm.yml"]
    found = narrowed("ansible-lint", "plugins/modules/slurm_node_drain.py") or []
    assert "roles/slurm_node" in found and not {"roles/mesos_agent", "roles/munge"} & set(found)
    assert narrowed("ansible-lint", "docs/slurm.md") is None
    assert narrowed("ansible-lint", role, ".ansible-lint") == [], "all"
    assert narrowed("ansible-lint", "plugins/modules/no_longer.py") == [], "all, as its users can't be found"


def test_sanity_gets_the_changed_files():
    assert narrowed("sanity", "plugins/modules/gpu_facts.py", "plugins/modules/no_longer.py") == ["plugins/modules/gpu_facts.py"]
    assert narrowed("sanity", "plugins/modules/no_longer.py", "tests/golden/local/ctl/etc/slurm/slurm.conf") is None


def test_unit_tests_run_that_a_changed_file_can_reach():
    found = narrowed("unit tests", "plugins/module_utils/_gpu/nvidia_smi.py") or []
    assert {"tests/unit/plugins/modules/test_gpu_facts.py", "tests/unit/test_layers.py"} <= set(found)
    assert "tests/unit/roles/slurm_gateway/test_service.py" not in found
    found = narrowed("unit tests", "roles/slurm_gateway/files/gateway_jobs.py") or []
    assert "tests/unit/roles/slurm_gateway/test_service.py" in found
    assert len(narrowed("unit tests", "docs/slurm.md") or []) < 40
    assert narrowed("unit tests", "pyproject.toml") == [], "all"
    assert narrowed("unit tests", "plugins/modules/no_longer.py") == [], "all, as its users can't be found"


def test_refusals_run_that_a_changed_file_can_reach():
    assert narrowed("refusals on the control node", "roles/opennebula_host/tasks/main.yml") is not None


def test_a_change_of_the_runner_is_a_change_of_the_tools():
    for name in (
        "scripts/plan.py",
        "scripts/test",
        "tests/sanity/ignore-2.19.txt",
        "tests/compat/run",
        "tests/config.yml",
        "constraints.txt",
        "requirements-dev.txt",
        "pyproject.toml",
        ".ansible-lint",
        ".yamllint",
    ):
        assert re.fullmatch(TOOLS, name), name
    for name in ("scripts/bench", "roles/munge/tasks/main.yml", "tests/runner/test_due.py"):
        assert not re.fullmatch(TOOLS, name), name


def test_a_path_that_git_does_not_know_is_refused():
    with pytest.raises(FileNotFoundError, match="git knows no file roles/slurm_nod"):
        PLAN.of_paths(["roles/slurm_nod"])


TASKS, META = "roles/a/tasks/main.yml", "roles/a/meta/main.yml"
SPECS, MODULE = "roles/a/meta/argument_specs.yml", "plugins/modules/a.py"


@pytest.mark.parametrize(
    ("name", "before", "after", "is_same"),
    [
        (TASKS, "- name: Run a\n  command: a\n", "# Why.\n- name: Run a  # and how\n  command: a\n", True),
        (TASKS, "- name: Count all of the zebras\n  command: a\n", "- name: Count each of those zebras\n  command: a\n", True),
        (TASKS, "- name: Write the controllers' configuration\n  command: a\n", "- name: Write another one\n  command: a\n", False),
        (TASKS, "- assert: {fail_msg: 'a zebra in {{ b }} runs'}\n", "- assert: {fail_msg: 'no zebra in {{ b }} runs'}\n", True),
        (TASKS, "- assert: {fail_msg: 'a zebra in {{ b }} runs'}\n", "- assert: {fail_msg: 'a zebra in {{ c }} runs'}\n", False),
        (TASKS, "- apt: {name: a}\n", "- apt: {name: b}\n", False),
        (TASKS, "- shell: |\n    #!/bin/a\n    b\n", "- shell: |\n    #!/bin/c\n    b\n", False),
        (TASKS, "- debug: {msg: !unsafe a}\n", "- debug: {msg: a}\n", False),
        (TASKS, "- vars: {description: a}\n", "- vars: {description: b}\n", False),
        (TASKS, "- name: [\n", "- name: [ # this is no YAML\n", False),
        (META, "galaxy_info: {author: a}\ndependencies: []\n", "galaxy_info: {author: b}\ndependencies: []\n", True),
        (META, "galaxy_info: {author: a}\ndependencies: []\n", "galaxy_info: {author: a}\ndependencies: [b]\n", False),
        (SPECS, "main:\n  description: a\n  options: {b: {description: [c], type: str}}\n", "main: {options: {b: {type: str}}}\n", True),
        (SPECS, "main: {options: {description: {type: str}}}\n", "main: {options: {description: {type: int}}}\n", False),
        (MODULE, '"""A."""\nDOCUMENTATION = "a"\na = 1  # b\n', '"""C\n\nd."""\nDOCUMENTATION = """e"""\n\n# f\na = 1\n', True),
        (MODULE, 'def a():\n    """b"""\n    return 1\n', "def a():\n    return 1\n", True),
        (MODULE, 'a = f"A zebra was never on {b}, said he."\n', 'a = (\n    f"On {b} no zebra "\n    "was seen by us all."\n)\n', True),
        (MODULE, 'a = f"A zebra was never on {b}, said he."\n', 'a = f"A zebra was never on {c}, said he."\n', False),
        (
            MODULE,
            'a = f"{where} asks for GPU type {b}, said all of them."\n',
            'a = f"{where} wants GPU type {b}, said all of them."\n',
            False,
        ),
        (MODULE, 'a = "NodeName=zebra and stripes of all its lines."\n', 'a = "NodeName=zebra and spots of all its lines."\n', False),
        (MODULE, 'raise ValueError("many zebras are there")\n', 'raise ValueError("more zebras are there")\n', True),
        (MODULE, 'a = "b"\n', 'a = "c"\n', False),
        (MODULE, "if a:\n    b\n", "if a:\n  b  # c\n", True),
        ("scripts/a", "#!/usr/bin/env python3\na = 1\n", "#!/usr/bin/env python3\na = 1  # b\n", True),
        ("roles/a/templates/a.j2", "# a\n", "# b\n", False),
    ],
)
def test_words_for_people_do_not_count(name: str, before: str, after: str, is_same: bool):
    assert (content(name, before) == content(name, after)) is is_same


def test_every_file_is_read_for_what_it_does():
    """None of ours is taken raw because it could not be parsed."""
    for name in PLAN.tree.files:
        if name.endswith((".py", ".yml")):
            raw = (ROOT / name).read_text()
            assert content(name, settled(name, raw)) != settled(name, raw) or not raw.strip(), name


@pytest.mark.parametrize(
    ("old", "before", "new", "after", "is_same"),
    [
        ("extensions/molecule/a/b.yml", "- c: ../../../d/e.yml\n", "molecule/a/b.yml", "- c: ../../d/e.yml\n", True),
        ("extensions/molecule/a/b.yml", "- c: ../../../d/e.yml\n", "molecule/a/b.yml", "- c: ../../../d/e.yml\n", False),
        ("extensions/molecule/a/b.yml", "- c: '{{ f }}/../../../d'\n", "molecule/a/b.yml", "- c: '{{ f }}/../../d'\n", True),
        ("extensions/molecule/a/b.yml", "- c: ../../../d/e.yml # f\n", "molecule/a/b.yml", "- c: ../../d/e.yml\n", True),
        ("roles/a/tasks/b.yml", "- c: '{{ f }}/../d'\n", "roles/a/tasks/b.yml", "- c: '{{ f }}/../../a/d'\n", False),
        ("tests/attacks/a.yml", "- /b/../c\n", "tests/attacks/a.yml", "- /b/.././c\n", False),
        ("molecule/a/b.yml", "- c: '{{ f }}/../../d'\n", "molecule/a/b.yml", "- c: '{{ f }}/d'\n", False),
        ("extensions/molecule/a/b.yml", "- c: ../default/e.yml\n", "molecule/a/b.yml", "- c: ../shared/e.yml\n", True),
        ("extensions/molecule/a/b.yml", "- c: ../default/e.yml\n", "molecule/a/b.yml", "- c: ../default/e.yml\n", False),
        ("extensions/molecule/config.yml", "a: ../default/b\n", ".config/molecule/config.yml", "a: ../shared/b\n", True),
        ("a.py", "A = R / 'extensions/molecule'\n", "a.py", "A = R / 'molecule'\n", True),
        ("a.py", "A = 'extensions/molecule/b/c.yml'\n", "a.py", "A = 'molecule/b/d.yml'\n", False),
        ("a.py", "A = 'extensions/molecules'\n", "a.py", "A = 'molecules'\n", False),
    ],
)
def test_a_file_that_moved_is_the_same(old: str, before: str, new: str, after: str, is_same: bool):
    assert (digest(old, f"test {old} {before}", lambda: before) == digest(new, f"test {new} {after}", lambda: after)) is is_same


@pytest.mark.parametrize(
    ("diff", "lines"),
    [
        ("@@ -3 +3 @@ def a\n-b\n+c\n@@ -9,0 +10,2 @@\n+d\n+e\n", [3, 10, 11]),
        ("@@ -3 +3 @@\n-b\n+c\n@@ -9,2 +8,0 @@\n-d\n-e\n", []),
        ("", []),
    ],
)
def test_lines_that_were_only_removed_are_never_without_effect(diff: str, lines: list[int]):
    assert changed_lines(diff) == lines
