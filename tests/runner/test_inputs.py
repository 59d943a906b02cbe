"""What scripts/inputs.py finds in this repository."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import checks
import pytest
from inputs import NO_INPUT, Tree, content, digest, inputs

ROOT = Path(__file__).resolve().parents[2]
TREE = Tree(ROOT)
# All have one prepare.yml, with its identity providers.
KUBERNETES = {name for name in checks.scenario_names() if name.startswith("kubernetes")}
# With those of Kubernetes that are to come into a run of everything when they have passed.
INPUTS = {name: set(inputs(TREE, name, "trixie")) for name in checks.scenario_names() if name != "beside"}
# Filters that no playbook of ours calls yet, and what they import: their managers are still to come, or users call them.
CALLED_BY_NO_PLAYBOOK = {
    *("glue2", "mesos", "vfio"),
    "vfio_ids",  # what it knows is in plugin_utils
}


def test_every_role_and_playbook_is_an_input_of_a_scenario():
    found = set().union(*INPUTS.values())
    missing = [name for name in TREE.files if name.startswith(("roles/", "playbooks/")) and name not in found]
    assert missing == []


def test_every_plugin_is_an_input_of_a_scenario_but_those_that_nothing_calls():
    found = set().union(*INPUTS.values())
    missing = {Path(name).stem for name in TREE.files if name.startswith("plugins/") and name.endswith(".py") and name not in found}
    assert missing == CALLED_BY_NO_PLAYBOOK


def test_every_file_that_hosts_and_tests_are_made_of_is_an_input():
    by_hand = (inputs(TREE, name, "trixie") for name in checks.BY_HAND)
    found = set().union(*INPUTS.values(), *by_hand, inputs(TREE, "slurm", "bookworm"))
    missing = [
        name
        for name in TREE.files
        if name.startswith(("extensions/", "images/", "tests/verify/", "tests/stand_ins/")) and name not in found
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("changed", "due"),
    [
        ("extensions/molecule/default/create.yml", set(INPUTS)),
        ("plugins/module_utils/_gpu/pci.py", set(INPUTS)),  # the check of allotments, in every playbook, reads addresses
        ("requirements-dev.txt", set(INPUTS)),
        ("scripts/local-sshd", set(INPUTS)),
        ("extensions/molecule/slurm_day2/inventory/hosts.yml", {"slurm_day2", "slurm_faults", "slurm_upgrade"}),
        ("extensions/molecule/slurm_day2/prepare.yml", {"slurm_day2", "slurm_faults", "slurm_upgrade"}),
        ("roles/opennebula_pci/tasks/sync.yml", {"opennebula"}),
        (
            "roles/oidc_proxy/tasks/check.yml",
            {"mesos_front", "oidc_hostile", "oidc_proxy", "tosca_im", "tosca_kubernetes", "tosca_mesos", "tosca_xopera"},
        ),
        ("roles/slurm_zabbix/files/slurm_zabbix.py", {"slurm_services", "slurm_uninstall"}),
        (
            "tests/stand_ins/oidc/package-lock.json",
            {"mesos_front", "oidc_hostile", "oidc_proxy", "openstack", "tosca_im", "tosca_kubernetes", "tosca_mesos", *KUBERNETES},
        ),
        ("tests/stand_ins/mesos/master.py", {"mesos", "mesos_day2", "mesos_front", "tosca_mesos"}),
        ("plugins/filter/opennebula.py", {"opennebula"}),
        ("scripts/virtual-image", {"nova_lxd_gpus", "pci_passthrough"}),
        ("docs/slurm.md", set()),
        ("roles/slurm_node/README.md", set()),
        ("scripts/steps.py", set()),
    ],
)
def test_who_depends_on_a_file(changed: str, due: set[str]):
    assert {name for name, files in INPUTS.items() if changed in files} == due


@pytest.mark.parametrize("changed", ["playbooks/slurm.yml", "playbooks/slurm_drain.yml", "plugins/plugin_utils/_slurm/partitions.py"])
def test_a_deployment_by_tosca_depends_on_the_playbooks_that_its_artifacts_run(changed: str):
    assert changed in INPUTS["tosca_xopera"] and changed in INPUTS["tosca_im"]


def test_a_release_has_its_own_recipe_and_its_own_tests():
    assert {name for name in inputs(TREE, "slurm", "bookworm") if name.startswith("images/") and name.endswith(".yml")} == {
        "images/bookworm.yml"
    }
    # One of its hosts is of Debian 13 in every run.
    assert {"images/bookworm.yml", "images/trixie.yml"} <= set(inputs(TREE, "oidc_proxy", "bookworm"))
    elsewhere = checks.tests_elsewhere("bookworm")
    assert "slurm/test_08_changes.py" in elsewhere
    assert "tests/verify/slurm/test_08_changes.py" not in inputs(TREE, "slurm", "bookworm", elsewhere)


def test_a_run_of_everything_has_every_scenario():
    assert {name for name, _release in checks.in_everything()} == set(INPUTS) - set(checks.BY_HAND)
    assert set(checks.BY_HAND) < set(checks.scenario_names())


def test_the_runner_itself_is_no_input():
    assert NO_INPUT.fullmatch("scripts/test") and NO_INPUT.fullmatch("tests/runner/test_inputs.py")
    assert not NO_INPUT.fullmatch("scripts/scenario") and not NO_INPUT.fullmatch("tests/verify/local.py")


def test_the_digest_knows_names_contents_and_rights(tmp_path: Path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    file = tmp_path / "a"
    file.write_text("1")
    seen = {digest(Tree(tmp_path), ["a"])}
    file.write_text("2")
    seen.add(digest(Tree(tmp_path), ["a"]))
    file.chmod(0o755)
    seen.add(digest(Tree(tmp_path), ["a"]))
    shutil.copy(file, tmp_path / "b")
    seen.add(digest(Tree(tmp_path), ["b"]))
    assert len(seen) == 4


TASKS = "roles/a/tasks/main.yml"
SPECS = "roles/a/meta/argument_specs.yml"
MODULE = "plugins/modules/a.py"


@pytest.mark.parametrize(
    ("name", "before", "after", "is_same"),
    [
        (TASKS, "- name: Run a\n  command: a\n", "# Why.\n- name: Run a  # and how\n  command: a\n", True),
        (TASKS, "- name: Run a\n  command: a\n", "- name: Run b\n  command: a\n", False),
        (TASKS, "- shell: |\n    #!/bin/a\n    b\n", "- shell: |\n    #!/bin/c\n    b\n", False),
        (TASKS, "- debug: {msg: !unsafe a}\n", "- debug: {msg: a}\n", False),
        (TASKS, "- vars: {description: a}\n", "- vars: {description: b}\n", False),
        (TASKS, "- name: [\n", "- name: [ # this is no YAML\n", False),
        (SPECS, "main:\n  description: a\n  options: {b: {description: [c], type: str}}\n", "main: {options: {b: {type: str}}}\n", True),
        (SPECS, "main: {options: {description: {type: str}}}\n", "main: {options: {description: {type: int}}}\n", False),
        (SPECS, "main: {options: {b: {type: str}}}\n", "main: {options: {b: {type: int}}}\n", False),
        (MODULE, '"""A."""\nDOCUMENTATION = "a"\na = 1  # b\n', '"""C\n\nd."""\nDOCUMENTATION = """e"""\n\n# f\na = 1\n', True),
        (MODULE, 'def a():\n    """b"""\n    return 1\n', "def a():\n    return 1\n", True),
        (MODULE, 'a = "b"\n', 'a = "c"\n', False),
        (MODULE, 'a = "# b"\n', 'a = "# c"\n', False),
        (MODULE, "#!/usr/bin/python\n", "#!/usr/bin/python3\n", False),
        (MODULE, "if a:\n    b\n", "if a:\n  b\n", False),
        ("scripts/a", "#!/usr/bin/env python3\na = 1\n", "#!/usr/bin/env python3\na = 1  # b\n", True),
        ("roles/a/templates/a.j2", "# a\n", "# b\n", False),
    ],
)
def test_words_for_people_make_nothing_due(name: str, before: str, after: str, is_same: bool):
    assert (content(name, before.encode()) == content(name, after.encode())) is is_same


def test_every_file_is_read_for_what_it_does():
    """None of ours is taken raw because it could not be parsed."""
    for name in TREE.files:
        if name.endswith((".py", ".yml")):
            raw = (ROOT / name).read_bytes()
            assert content(name, raw) != raw or not raw.strip(), name
