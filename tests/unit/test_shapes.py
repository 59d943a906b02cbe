# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Variables with their own keys: the keys that a role documents are those that its check knows."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.shapes import unknown_keys
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import limits, policy
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._iam import settings as iam_settings
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import access as kubernetes_access
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import policy as kubernetes_policy
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import policy_settings, vendor_plugins
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import settings as kubernetes_settings
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import balancer_settings
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import settings as mesos_settings
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import settings as oidc_settings
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._opennebula import plan as opennebula_plan
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import federation as openstack_federation
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import objects as openstack_objects
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import settings as openstack_settings
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import elastic, gateway, partitions

ROLES = Path(__file__).resolve().parents[2] / "roles"

# Maps whose keys are an operator's own, or those of another program.
MAPS = {
    # What artifacts in tosca/ give, for which their types have the keys.
    *("tosca_site_connection", "tosca_site_given_secrets", "tosca_site_groups", "tosca_site_secrets", "tosca_site_users"),
    *("tosca_site_settings", "tosca_site_variables", "tosca_site_workers"),
    *(
        "accelerator_allotment",
        "gpu_hold_not",
        "iam_accounts_names",
        "kubernetes_cluster_dra_manifests",
        "kubernetes_cluster_kube_proxy",
        "kubernetes_cluster_kubelet",
        "kubernetes_cluster_network_manifests",
        "kubernetes_cluster_policy_accounts",
        "kubernetes_cluster_policy_objects",
        "kubernetes_cluster_queue_settings",
        "slurm_cluster_settings",
        "slurm_cluster_cgroup_settings",
        "slurm_cluster_node_settings",
    ),
    *("slurm_database_settings", "slurm_node_copies", "udocker_settings"),
    *("openstack_cloud_physical_networks", "openstack_control_plane_secrets", "openstack_network_physical_networks"),
    *("openstack_database_accounts", "openstack_database_passwords", "openstack_messaging_passwords"),
    *("nova_lxd_physical_networks", "nova_lxd_settings", "openstack_linuxbridge_physical_networks"),
    *("mesos_agent_attributes", "mesos_agent_resources", "mesos_cluster_zookeeper_ids", "tosca_site_collections"),
}
USER = [*limits.keys(limits.GROUP), "per_job"]
PER_JOB = limits.keys(limits.JOB)
# Variable and the keys on the way down, to the keys that a check knows there.
KNOWN: dict[tuple[str, ...], t.Collection[str]] = {
    ("slurm_cluster_partitions",): partitions.KNOWN,
    ("slurm_cluster_cloud_nodes",): elastic.KEYS,
    ("slurm_cluster_cloud_nodes", "server"): elastic.SERVER_KEYS,
    ("slurm_cluster_policy",): policy.KEYS,
    ("slurm_cluster_policy", "accounts"): policy.ACCOUNT_KEYS,
    ("slurm_cluster_policy", "accounts", "limits"): [*USER, "per_user"],
    ("slurm_cluster_policy", "accounts", "limits", "per_job"): PER_JOB,
    ("slurm_cluster_policy", "accounts", "limits", "per_user"): USER,
    ("slurm_cluster_policy", "accounts", "limits", "per_user", "per_job"): PER_JOB,
    ("slurm_cluster_policy", "accounts", "users"): policy.USER_KEYS,
    ("slurm_cluster_policy", "accounts", "users", "limits"): USER,
    ("slurm_cluster_policy", "accounts", "users", "limits", "per_job"): PER_JOB,
    ("slurm_cluster_policy", "qos"): policy.QOS_KEYS,
    ("slurm_cluster_policy", "qos", "limits"): [*limits.keys(limits.GROUP), "per_job", "per_user", "per_account"],
    ("slurm_cluster_policy", "qos", "limits", "per_job"): PER_JOB,
    ("slurm_cluster_policy", "qos", "limits", "per_user"): limits.keys(limits.QOS["per_user"]),
    ("slurm_cluster_policy", "qos", "limits", "per_account"): limits.keys(limits.QOS["per_account"]),
    ("slurm_cluster_policy", "partitions"): policy.PARTITION_KEYS,
    ("slurm_gateway_accounts",): gateway.KEYS,
    ("oidc_proxy_providers",): oidc_settings.PROVIDER_DEFAULTS,
    ("oidc_proxy_backends",): oidc_settings.BACKEND_DEFAULTS,
    ("iam_accounts_groups",): iam_settings.GROUP_KEYS,
    ("kubernetes_cluster_device_plugins",): vendor_plugins.PLUGINS,
    ("kubernetes_cluster_device_plugins", "amd"): vendor_plugins.KEYS,
    ("kubernetes_cluster_device_plugins", "intel"): vendor_plugins.KEYS,
    ("kubernetes_cluster_device_plugin_settings",): kubernetes_settings.PLUGIN_KEYS,
    ("kubernetes_cluster_device_plugin_settings", "mounts"): kubernetes_settings.MOUNT_KEYS,
    ("kubernetes_cluster_policy",): kubernetes_policy.KEYS,
    ("kubernetes_cluster_policy", "accounts"): kubernetes_policy.ACCOUNT_KEYS,
    ("kubernetes_cluster_policy", "accounts", "limits"): [*kubernetes_policy.OF_ALL, "per_job", "per_user"],
    ("kubernetes_cluster_policy", "accounts", "limits", "per_job"): kubernetes_policy.PER_JOB,
    ("kubernetes_cluster_policy", "accounts", "limits", "per_user"): [*kubernetes_policy.OF_ALL, "per_job"],
    ("kubernetes_cluster_policy", "accounts", "limits", "per_user", "per_job"): kubernetes_policy.PER_JOB,
    ("kubernetes_cluster_policy", "accounts", "users"): kubernetes_policy.USER_KEYS,
    ("kubernetes_cluster_policy", "accounts", "users", "limits"): [*kubernetes_policy.OF_ALL, "per_job"],
    ("kubernetes_cluster_policy", "accounts", "users", "limits", "per_job"): kubernetes_policy.PER_JOB,
    ("kubernetes_cluster_policy", "qos"): kubernetes_policy.QOS_KEYS,
    ("kubernetes_cluster_policy", "qos", "limits"): [*kubernetes_policy.OF_ALL, "per_job", "per_user", "per_account"],
    ("kubernetes_cluster_policy", "qos", "limits", "per_job"): kubernetes_policy.PER_JOB,
    ("kubernetes_cluster_policy", "qos", "limits", "per_user"): kubernetes_policy.PER_USER,
    ("kubernetes_cluster_policy", "qos", "limits", "per_account"): kubernetes_policy.PER_USER,
    ("kubernetes_cluster_policy", "partitions"): kubernetes_policy.PARTITION_KEYS,
    ("kubernetes_cluster_policy_default_request",): policy_settings.REQUEST,
    ("kubernetes_cluster_issuers",): kubernetes_access.ISSUER_KEYS,
    ("kubernetes_cluster_issuers", "username"): kubernetes_access.NAME_KEYS,
    ("kubernetes_cluster_issuers", "groups"): kubernetes_access.NAME_KEYS,
    ("kubernetes_cluster_issuers", "uid"): kubernetes_access.UID_KEYS,
    ("kubernetes_cluster_issuers", "extra"): kubernetes_access.EXTRA_KEYS,
    ("kubernetes_cluster_issuers", "claim_validation_rules"): kubernetes_access.RULE_KEYS,
    ("kubernetes_cluster_issuers", "user_validation_rules"): kubernetes_access.RULE_KEYS,
    ("kubernetes_cluster_roles",): kubernetes_access.ROLE_KEYS,
    ("kubernetes_cluster_roles", "rules"): kubernetes_access.RIGHT_KEYS,
    ("kubernetes_cluster_bindings",): kubernetes_access.BINDING_KEYS,
    ("kubernetes_cluster_user_token",): kubernetes_access.TOKEN_KEYS,
    ("kubernetes_cluster_user_token", "exec"): kubernetes_access.EXEC_KEYS,
    ("mesos_cluster_mesos_source",): mesos_settings.SOURCE_KEYS,
    ("mesos_cluster_marathon_source",): mesos_settings.SOURCE_KEYS,
    ("mesos_cluster_chronos_source",): mesos_settings.SOURCE_KEYS,
    ("mesos_cluster_secrets",): mesos_settings.SECRETS,
    ("mesos_cluster_ports",): mesos_settings.PORTS,
    ("openstack_cloud_settings",): openstack_settings.CONFIGURED,
    ("openstack_cloud_projects",): openstack_objects.KEYS["projects"],
    ("openstack_cloud_projects", "limits"): openstack_objects.LIMIT_KEYS,
    ("openstack_cloud_users",): openstack_objects.KEYS["users"],
    ("openstack_cloud_limits",): openstack_objects.LIMIT_KEYS,
    ("openstack_cloud_flavors",): openstack_objects.KEYS["flavors"],
    ("openstack_cloud_images",): openstack_objects.KEYS["images"],
    ("openstack_cloud_identity_providers",): openstack_federation.DEFAULTS,
    ("openstack_cloud_identity_providers", "groups"): openstack_federation.GROUP_KEYS,
    ("openstack_cloud_networks",): openstack_objects.KEYS["networks"],
    ("openstack_cloud_routers",): openstack_objects.KEYS["routers"],
    ("marathon_lb_certificates",): balancer_settings.CERTIFICATE_KEYS,
    ("marathon_lb_reserved",): balancer_settings.RESERVED_KEYS,
    ("opennebula_pci_templates",): opennebula_plan.TEMPLATE_KEYS,
    ("opennebula_pci_quotas",): opennebula_plan.QUOTA_KEYS,
}

Option = t.Dict[str, t.Any]


def variables() -> dict[str, Option]:
    """The options of all roles, by name."""
    found: dict[str, Option] = {}
    for path in sorted(ROLES.glob("*/meta/argument_specs.yml")):
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values():
            found.update(entry.get("options") or {})
    return found


def below(way: tuple[str, ...], option: Option) -> t.Iterator[tuple[tuple[str, ...], dict[str, Option]]]:
    """All dictionaries of options in a variable, each with the way to it."""
    if option.get("options"):
        yield way, option["options"]
        for key, inner in option["options"].items():
            yield from below((*way, key), inner)


def type_of(option: Option) -> str:
    return f"{option['type']} of {option['elements']}" if "elements" in option else str(option["type"])


def test_the_documented_keys_are_those_that_the_checks_know() -> None:
    documented = {way: sorted(keys) for name, option in variables().items() for way, keys in below((name,), option)}
    checked = {name for name, *_way in KNOWN}
    assert {way: keys for way, keys in documented.items() if way[0] in checked} == {way: sorted(keys) for way, keys in KNOWN.items()}


def test_a_variable_with_keys_documents_them() -> None:
    structured = {
        name
        for name, option in variables().items()
        if option["type"] in ("dict", "raw") or option.get("elements") in ("dict", "raw")
        if not option.get("options")
    }
    assert structured == MAPS


def test_every_key_says_what_it_is() -> None:
    """And a required one has no default."""
    keys = [(way, key, inner) for name, option in variables().items() for way, own in below((name,), option) for key, inner in own.items()]
    assert [(*way, key) for way, key, inner in keys if not inner.get("description") or not inner.get("type")] == []
    assert [(*way, key) for way, key, inner in keys if inner.get("required") and "default" in inner] == []


def test_keys_of_a_partition_are_of_the_documented_type() -> None:
    documented = {name: type_of(option) for name, option in variables()["slurm_cluster_partitions"]["options"].items()}
    assert documented == {key.name: key.type for key in partitions.KEYS}


@pytest.mark.parametrize(
    ("variable", "known"),
    [("oidc_proxy_providers", oidc_settings.PROVIDER_DEFAULTS), ("oidc_proxy_backends", oidc_settings.BACKEND_DEFAULTS)],
)
def test_keys_of_the_front_are_of_the_documented_type_and_default(variable: str, known: t.Mapping[str, t.Any]) -> None:
    types = {bool: "bool", int: "int", str: "str", list: "list of str", dict: "dict"}
    for name, option in variables()[variable]["options"].items():
        assert type_of(option) == types[type(known[name])], name
        assert option.get("default", known[name] if not known[name] else None) == known[name], name


def test_flags_of_a_qos_are_the_documented_ones() -> None:
    assert variables()["slurm_cluster_policy"]["options"]["qos"]["options"]["flags"]["choices"] == [*policy.FLAGS]


def test_ansible_leaves_checked_variables_to_the_role() -> None:
    """Its validation would print the whole specification, for every host, before the role's one sentence."""
    own = {name for name, *_way in KNOWN} - {"slurm_gateway_accounts"}  # slurm_cluster checks that one, in an earlier play
    assert {name for name, option in variables().items() if option.get("options") and "raw" in type_of(option)} == own


@pytest.mark.parametrize(
    ("given", "sentences"),
    [
        ({"name": "a", "cpus": 1}, []),
        ({"nmae": "a"}, ["x has the unknown key 'nmae' (did you mean name?)."]),
        ({"zzz": 1, 7: 2}, ["x has the unknown key 'zzz' (known: name, cpus).", "x has the unknown key 7 (known: name, cpus)."]),
        (
            {None: 1, "k" * 5000: 1},
            ["x has the unknown key None (known: name, cpus).", f"x has the unknown key '{'k' * 56}... (known: name, cpus)."],
        ),
    ],
)
def test_unknown_keys_are_refused_by_one_sentence_each(given: dict[t.Any, t.Any], sentences: list[str]) -> None:
    assert unknown_keys("x", given, ("name", "cpus")) == sentences


class LazyList(t.List[t.Any]):
    """As ansible-core 2.19 and later pass lists to filters."""


class LazyDict(t.Dict[str, t.Any]):
    """The same."""


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (LazyList(["secret"]), "a list"),
        (LazyDict(key="secret"), "a dictionary"),
        ((), "a list"),
        ({1}, "a set"),
        (None, "None"),
        (1.5, "1.5"),
    ],
)
def test_a_value_in_a_sentence_is_short_and_without_content(value: t.Any, words: str) -> None:
    assert shown(value) == words
