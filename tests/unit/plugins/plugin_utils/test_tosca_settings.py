# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the settings of a template may hold, with a decision about each variable."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._tosca import settings

# What names alone would not show: scripts/narrow.py.
READS = ("*",)
ROOT = Path(__file__).resolve().parents[4]

ROLES = {
    "slurm": (
        *("munge", "slurm_cluster", "slurm_controller", "slurm_database", "slurm_elastic", "slurm_gateway", "slurm_login"),
        *("slurm_packages", "slurm_rest", "slurm_operations", "oidc_proxy", "gpu_access"),
    ),
    "kubernetes": ("containerd", "gpu_guard", "kubernetes_cluster", "kubernetes_control_plane", "kubernetes_node", "kubernetes_packages"),
    "mesos": ("chronos", "marathon", "marathon_lb", "mesos_agent", "mesos_cluster", "mesos_master", "zookeeper"),
}
# Prefixes of variables that the playbooks give to a role, not operators.
FROM_PLAYBOOKS = ("gpu_hold_", "slurm_node_", "slurm_remove_", "kubernetes_node_")
LEFT_OUT = {
    "a secret that the deployment makes": ("munge_key", "slurm_rest_jwt_key", "mesos_cluster_secrets"),
    "it names the host on which tasks run": ("munge_verify_with",),
    "the playbook has it from elsewhere": (
        *("marathon_lb_marathon_port", "marathon_lb_marathon_tls", "marathon_lb_ca", "slurm_packages_release"),
        *("gpu_guard_closed", "gpu_guard_open", "kubernetes_packages_version", "kubernetes_packages_names"),
    ),
    "a file of the machine that runs Ansible": ("slurm_cluster_policy_file", "kubernetes_cluster_policy_file"),
    "the artifact has an input or a rule for it": (
        *("slurm_elastic_nodes", "slurm_elastic_cluster", "slurm_elastic_openstack_clouds", "slurm_gateway_enabled", "slurm_drain_nodes"),
        *("slurm_drain_reason", "slurm_resume_nodes", "slurm_resume_reason", "mesos_cluster_zookeeper_ids", "mesos_cluster_hostname"),
        *("mesos_cluster_address", "slurm_cluster_address", "kubernetes_cluster_address", "kubernetes_cluster_balancer"),
        *("marathon_lb_marathon_urls", "marathon_lb_user", "marathon_lb_password", "mesos_agent_master_host"),
    ),
    "groups and names between our own roles": (
        *("slurm_gateway_front_group", "slurm_rest_group", "gpu_access_users", "gpu_access_present", "gpu_access_operator"),
        "mesos_cluster_program",
    ),
}


def options(role: str) -> dict:
    specs = yaml.safe_load((ROOT / f"roles/{role}/meta/argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]
    return {name: option for entry in specs.values() for name, option in (entry.get("options") or {}).items()}


@pytest.mark.parametrize("manager", ROLES)
def test_each_variable_of_the_playbooks_is_allowed_or_left_out_for_a_reason(manager: str) -> None:
    public = {name for role in ROLES[manager] for name in options(role)}
    allowed, left_out = set(settings.ALLOWED[manager]), {name for names in LEFT_OUT.values() for name in names}
    assert allowed <= public, "not in the argument specs"
    assert not allowed & left_out
    assert {name for name in public - allowed - left_out if not name.startswith(FROM_PLAYBOOKS)} == set()


def variables_in(part: object) -> set[str]:
    """Names of all variables that a playbook sets."""
    if isinstance(part, dict):
        own = set(part["vars"]) if isinstance(part.get("vars"), dict) else set()
        return own.union(*(variables_in(value) for value in part.values()))
    return set().union(*(variables_in(value) for value in part)) if isinstance(part, list) else set()


@pytest.mark.parametrize("manager", ROLES)
def test_no_setting_wins_over_what_the_playbook_says(manager: str) -> None:
    """Settings are given as -e is."""
    playbook = yaml.safe_load((ROOT / f"playbooks/{manager}.yml").read_text(encoding="utf-8"))
    assert variables_in(playbook) & set(settings.ALLOWED[manager]) == set()


@pytest.mark.parametrize("variable", ["oidc_proxy_providers", "oidc_proxy_backends"])
def test_no_key_of_a_front_names_a_file_of_the_machine_that_runs_ansible(variable: str) -> None:
    keys = options("oidc_proxy")[variable]["options"]
    allowed = settings.ALLOWED["slurm"][variable]
    assert set(keys) - set(allowed) == {key for key in keys if key.endswith("_file")}


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "# nothing",
        "slurm_cluster_name: physics\nslurm_cluster_settings: {SlurmdTimeout: 30, '{{ x }}': '{{ y }}'}",
        "oidc_proxy_providers: [{name: iam, issuer: https://iam.example.org}]",
    ],
)
def test_good_settings(text: str) -> None:
    found = settings.parsed(text)
    assert found == (yaml.safe_load(text) or {}) and list(settings.refused(found, settings.ALLOWED["slurm"])) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mine", "are no variables in YAML: write lines such as slurm_cluster_name: physics"),
        ("[mine]", "are no variables"),
        ("a: 1\nslurm_database_storage_password: 'secret", "are no YAML: see line 2"),
        ("a: !!python/object/apply:os.system [x]", "are no YAML: see line 1"),
        ("a: secret\x00", "are no YAML"),
        ("a: 2026-13-45", "are no YAML"),
        ("[" * 5000, "are no YAML"),
    ],
)
def test_what_is_no_settings(text: str, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        settings.parsed(text)
    assert words in str(caught.value) and "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ansible_ssh_common_args: -o ProxyCommand=x", "have 'ansible_ssh_common_args', which a template must not set"),
        ("ansible_connection: local", "ansible_connection"),
        ("__slurm_node_reader: /etc/", "__slurm_node_reader"),
        ("site_check_lock: false", "site_check_lock"),
        ("tosca_accounts_group: root", "tosca_accounts_group"),
        ("slurm_cluster_policy_file: /etc/shadow", "slurm_cluster_policy_file"),
        ("oidc_proxy_providers: [{name: iam, ca_file: /etc/shadow}]", "oidc_proxy_providers.0.ca_file"),
        ("oidc_proxy_backends: [{name: a, credential_file: /root/x}]", "oidc_proxy_backends.0.credential_file"),
        ("slurm_cluster_partition: []", "did you mean slurm_cluster_partitions?"),
        ("1: x", "have '1', which"),
        ("mesos_cluster_name: x", "mesos_cluster_name"),
    ],
)
def test_what_settings_must_not_hold(text: str, words: str) -> None:
    assert words in "; ".join(settings.refused(settings.parsed(text), settings.ALLOWED["slurm"]))


@pytest.mark.parametrize("path", ["/opt/builds/mesos-1.11.0.tar.gz", "/opt/builds/m_1~rc+2"])
def test_builds_may_be_named(path: str) -> None:
    assert list(settings.refused({"mesos_cluster_mesos_source": {"path": path}}, settings.ALLOWED["mesos"])) == []


@pytest.mark.parametrize(
    "path",
    [
        "/etc/shadow",
        "/opt/builds/../x",
        "/opt/builds/..",
        "/opt/builds",
        "/opt/builds/a/b",
        "/opt/builds/a\n",
        "builds/a",
        "",
        None,
        7,
        ["/etc/x"],
        {},
    ],
)
def test_other_files_of_the_machine_that_runs_ansible_may_not(path: object) -> None:
    (said,) = settings.refused({"mesos_cluster_mesos_source": {"path": path}}, settings.ALLOWED["mesos"])
    assert "as mesos_cluster_mesos_source.path: a template may name files in /opt/builds alone" in said
