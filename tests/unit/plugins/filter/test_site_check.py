# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Misspelt variables and groups are found, and other projects' variables are left alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.deephdc.accelerators.plugins.filter import site_check
from ansible_collections.deephdc.accelerators.plugins.filter.site_check import site_check_groups, site_check_unanswered
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _managers, _own_variables
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import hosts as openstack_hosts

OTHERS = Path(__file__).resolve().parents[3] / "data/other_variables"


def judge(*names, site=()):
    return _own_variables.judge({name: ["gpu1"] for name in names}, site)


@pytest.mark.parametrize("path", sorted(OTHERS.glob("*.txt")), ids=lambda path: path.stem)
def test_variables_of_other_projects_are_never_hit(path):
    """All names in the defaults and group variables of kubespray, DeepOps and roles of geerlingguy, stackhpc and galaxyproject."""
    names = [name for name in path.read_text().split() if not name.startswith("_")]
    assert len(names) > 20
    assert judge(*names)["errors"] == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("slurm_cluster_partition", "slurm_cluster_partitions"),  # one letter ended every job of a cluster
        ("slurm_cluster_polices", "slurm_cluster_policy"),
        ("slurm_clutser_name", "slurm_cluster_name"),
        ("munge_keys", "munge_key"),
        ("nvidia_driver_bransh", "nvidia_driver_branch"),
        ("gpu_access_device", "gpu_access_devices"),
        ("pci_passtrough_devices", "pci_passthrough_devices"),
        ("iam_account_issuer", "iam_accounts_issuer"),
        ("slurm_cluster_accept_hardwares", "slurm_cluster_accept_hardware"),
    ],
)
def test_a_misspelt_variable_is_refused_with_the_right_one(name, meant):
    (sentence,) = judge(name)["errors"]
    assert sentence.startswith(f"{name} (set for gpu1) is no variable of deephdc.accelerators: did you mean {meant}? ")


def test_an_unknown_one_that_begins_like_ours_is_refused_and_a_vague_one_told():
    (sentence,) = judge("oidc_proxy_zzz")["errors"]
    assert "take it out" in sentence
    assert judge("munge_kye") == {"errors": [], "warnings": ["munge_kye (set for gpu1) looks like munge_key, but has no effect here."]}
    assert judge("oidc_proxy_zzz", site=["oidc_proxy_zzz"])["errors"] == []


def test_a_former_name_is_refused():
    assert judge("slurm_login_gpus")["errors"] == ["slurm_login_gpus (set for gpu1) is called gpu_access_users now: rename it."]
    (sentence,) = judge("nvidia_driver_drain_wait")["errors"]
    assert "is called gpu_hold_wait (minutes instead of seconds) now" in sentence


def test_every_variable_of_ours_is_known():
    assert {"slurm_cluster_name", "munge_key", "oidc_proxy_hosts", "slurm_drain_nodes", "site_check_own"} - _own_variables.known() <= {
        "oidc_proxy_hosts"
    }
    assert judge(*_own_variables.known()) == {"errors": [], "warnings": []}


def test_hosts_are_named_but_not_thousands():
    found = _own_variables.judge({"slurm_cluster_partition": [f"gpu{n}" for n in range(5000)]}, ())
    assert "(set for gpu0, gpu1, gpu10 and 4997 more)" in found["errors"][0]


def test_groups_that_a_playbook_needs():
    groups = {"slurm_controller": ["ctl"], "slurm_nodes": ["gpu1"], "empty": []}
    right = {"slurm_controllers": ["ctl"], "slurm_nodes": ["gpu1"], "empty": []}
    assert site_check_groups(right, ["slurm_nodes", "slurm_nodes:slurm_logins"]) == []
    assert site_check_groups(groups, ["slurm_controllers"]) == [
        "The inventory has no host in the group slurm_controllers, so this playbook would do nothing: rename slurm_controller there."
    ]
    assert site_check_groups(right, ["gpu_hosts:opennebula_hosts"]) == [
        "The inventory has no host in the group gpu_hosts or opennebula_hosts, so this playbook would do nothing: name hosts there."
    ]


def test_a_group_of_the_sites_own_is_left_alone():
    groups = {"slurm_nodes": ["gpu1", "gpu2"], "slurm_nodes1": ["gpu1"], "gpu_cluster": ["gpu3"], "all": ["gpu1", "gpu2", "gpu3"]}
    assert site_check_groups(groups, []) == []
    assert len(site_check_groups({**groups, "slurm_nodes1": ["gpu3"]}, [])) == 1
    assert site_check_groups({**groups, "slurm_nodes1": ["gpu3"]}, [], "x, slurm_nodes1") == []


def test_every_group_that_is_read_is_known():
    """Those of a system, without what roles and playbooks add during a run."""
    read = set()
    for path in [*_managers.ROLES.glob("*/*/*.yml"), *(_managers.ROLES.parent / "playbooks").glob("*.yml")]:
        for found in re.findall(
            r"(?m)groups(?:\.|\[['\"])([a-z_]+)|hosts: ([a-z_:]+)$|site_check_groups: \[(.*)\]", path.read_text(encoding="utf-8")
        ):
            read.update(name for text in found for name in re.findall("[a-z_]+", text))
    read.update(openstack_hosts.GROUPS)
    known = {name for system in site_check.SYSTEMS for name in system}
    systems = ("slurm_", "kubernetes_", "mesos_", "openstack_", "opennebula_", "marathon", "chronos", "zookeeper")
    during = re.compile(r".*_(leaving|api|answering|backup|members)|\w+_upgrade_\w+")
    assert len(read) > 25
    assert {name for name in read if name.startswith(systems) and not during.fullmatch(name)} <= known


@pytest.mark.parametrize("name", ["slurm_test", "zookeepers", "kubernetes_worker", "slurm_clusters"])
def test_a_group_of_something_else_is_no_mistake(name):
    assert site_check_groups({"slurm_controllers": ["ctl"], "slurm_nodes": ["gpu1"], name: ["x"]}, []) == []


def facts_of_roles() -> set[str]:
    """What tasks of roles set as a fact for others, by a name that is no role's own."""
    found: set[str] = set()
    for path in _managers.ROLES.glob("*/tasks/**/*.yml"):
        for task in re.finditer(r"ansible\.builtin\.set_fact:\n((?: {4,}.*\n)+)", path.read_text(encoding="utf-8")):
            indent = len(task.group(1)) - len(task.group(1).lstrip(" "))
            found.update(re.findall(rf"(?m)^ {{{indent}}}([a-z]\w*):", task.group(1)))
    return found


def test_a_fact_of_a_role_is_no_mistake_of_the_site():
    """Playbooks that follow each other in one run find it among the variables."""
    facts = _own_variables.facts()
    assert _own_variables.judge({name: ["gpu1"] for name in facts}, (), True) == {"errors": [], "warnings": []}
    assert {f"{manager.host_role}_hold" for manager in _managers.MANAGERS} < set(facts)
    assert facts_of_roles() <= set(facts)


def test_who_did_not_answer_is_named_with_the_reason():
    answers = [
        {"item": "gpu1", "ping": "pong"},
        {"item": "gpu2", "unreachable": True, "msg": "No route\nto host"},
        {"item": "gpu3", "failed": True},
    ]
    assert site_check_unanswered(answers) == {"gpu2": "No route to host", "gpu3": "It did not answer."}


class Variables(dict):
    """Ansible's hostvars as the filter reads them: as written."""

    def raw_get(self, host):
        return self[host]


@pytest.mark.parametrize(
    ("own", "missing"),
    [
        ({"munge_key": "{{ vault_munge_key }}"}, ["vault_munge_key"]),
        ({"munge_key": "{{ vault_munge_key }}", "vault_munge_key": "x"}, []),
        ({"munge_key": "{{vault_munge_key|b64encode}}"}, ["vault_munge_key"]),
        ({"munge_key": "{{ vault_munge_key | default('') }}"}, []),
        ({"munge_key": "{{ lookup('file', 'vault_munge_key') }}"}, []),
        ({"munge_key": "{{ secrets.vault_munge_key }}"}, []),
        ({"munge_key": "vault_munge_key"}, []),
        ({"munge_key": "{{ sealed | vault_decode }}"}, []),
        ({"munge_key": "{{ other }}"}, []),  # a fact, or the role's: not known from the inventory alone
        ({"slurm_cluster_settings": {"a": ["{{ vaulted_a }}"]}}, ["vaulted_a"]),
        ({"not_ours": "{{ vault_x }}"}, []),
        ({"munge_key": "{{ lookup('file', '/secrets/vault_munge.key') }}"}, []),
        ({"munge_key": "{{ lookup('azure_keyvault_secret', 'munge', vault_url='https://a') }}"}, []),
        ({"munge_key": "{{ x | ansible.builtin.unvault(pw, vault_id='prod') }}"}, []),
        ({"munge_key": "{% set vault_key = 1 %}{{ vault_key }}"}, []),
        ({"munge_key": "{{ vault_key == 'x' }}"}, ["vault_key"]),
    ],
)
def test_a_secret_that_nothing_sets_is_named(own, missing):
    """The task said that the finalization of its arguments failed, and no_log hid the rest."""
    hostvars = Variables(ctl=own, gpu1=own)
    errors = site_check.site_check_variables(hostvars, ["ctl", "gpu1"])["errors"]
    own_names = [name for name in missing for _twice in "xx"]
    assert site_check.site_check_variables(hostvars, ["ctl", "gpu1"], own_names)["errors"] == [], "a name that the site sets elsewhere"
    assert [re.search(r"uses (\w+), which nothing in the inventory sets", one).group(1) for one in errors] == missing


@pytest.mark.parametrize(
    ("tags", "meant"),
    [
        (["all"], []),
        (["slurm_node", "install", "configure", "service", "validate", "mig", "munge", "always"], []),
        (["web", "database", "nodes", "ours_only"], []),
        ("slrum_node,configur", ["slurm_node", "configure"]),
        (["slurm-node", "Kubernetes_node"], ["slurm_node", "kubernetes_node"]),
    ],
)
def test_tags_that_are_almost_ours(tags, meant):
    found = site_check.site_check_tags(tags)
    assert [sentence.partition("did you mean ")[2].partition("?")[0] for sentence in found] == meant
    assert site_check.site_check_tags(tags, ["slrum_node", "configur", "slurm-node", "Kubernetes_node"]) == []


def test_every_tag_of_the_collection_is_known():
    root = Path(site_check.__file__).resolve().parents[2]
    for file in [*root.glob("playbooks/*.yml"), *root.glob("roles/*/tasks/*.yml")]:
        for listed in re.findall(r"(?m)^\s*tags: \[(.*)\]$", file.read_text()):
            for tag in listed.split(", "):
                assert tag in site_check.TAGS or (root / "roles" / tag).is_dir(), f"{file}: {tag}"
