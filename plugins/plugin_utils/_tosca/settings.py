# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What the settings of a template may hold: pure functions.

They are variables of the collection, from whoever wrote the template. None of them names a task, a program or a file of the machine on
which the orchestrator runs Ansible, or how its hosts are reached. tests/unit/plugins/plugin_utils/test_tosca_settings.py has those that
are left out, each with the reason.
"""

from __future__ import annotations

import difflib
import re
import typing as t

import yaml
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown

# Any data; else the keys of a dictionary, or of each dictionary in a list; else what a text is.
ANY: t.Mapping[str, t.Any] = {}
Allowed = t.Union[t.Mapping[str, t.Any], t.Pattern[str]]


def _any(*names: str) -> dict[str, Allowed]:
    return dict.fromkeys(names, ANY)


_PROVIDER = _any(
    *("name", "issuer", "metadata_url", "client_id", "scopes", "remote_user_claim", "bearer_user_claim", "groups_claim", "bearer"),
    *("introspection_client_id", "introspection_interval", "introspection_endpoint", "jwks_uri", "access_token_claims", "token_types"),
    *("pkce", "token_endpoint_auth", "port"),
)
_BACKEND = _any(
    *("name", "host", "path", "preset", "upstreams", "access", "provider", "groups", "audience", "scopes", "methods", "user_header"),
    *("claims_headers", "websocket", "sse_paths", "timeout", "body_limit", "preserve_host"),
)
# Files of the machine that runs Ansible which its operator put there for templates.
BUILDS = "/opt/builds"
_SOURCE = {**_any("url", "sha256", "package", "version"), "path": re.compile(rf"{BUILDS}/[A-Za-z0-9][\w.+~-]*", re.ASCII)}

ALLOWED: t.Mapping[str, t.Mapping[str, Allowed]] = {
    "slurm": {
        **_any(
            *("slurm_cluster_name", "slurm_cluster_partitions", "slurm_cluster_policy", "slurm_cluster_policy_purge"),
            *("slurm_cluster_cloud_nodes", "slurm_cluster_settings", "slurm_cluster_cgroup_settings", "slurm_cluster_node_settings"),
            *("slurm_cluster_node_ssh", "slurm_cluster_node_ssh_groups", "slurm_cluster_memory_reserve_mib", "slurm_cluster_required_gpus"),
            *(
                "slurm_cluster_accept_hardware",
                "slurm_cluster_end_jobs_in",
                "slurm_cluster_untested_platforms",
                "slurm_cluster_gpu_sharing",
            ),
            *("slurm_cluster_device_root", "slurm_controller_restart_seconds", "slurm_controller_state_directory"),
            *("slurm_controller_state_free_mib", "slurm_database_name", "slurm_database_buffer_pool_mib", "slurm_database_start_timeout"),
            *("slurm_database_settings", "slurm_database_storage_host", "slurm_database_storage_user", "slurm_database_storage_password"),
            *("slurm_database_storage_ca", "slurm_elastic_hook_seconds", "slurm_elastic_retry_seconds", "slurm_gateway_accounts"),
            *("slurm_gateway_submissions_per_minute", "slurm_login_packages", "slurm_packages_suite", "slurm_packages_uri"),
            *("slurm_packages_check_valid_until", "slurm_drain_wait", "slurm_resume_wait"),
            *("gpu_access_devices", "gpu_access_services"),
            *("oidc_proxy_server_name", "oidc_proxy_certificate", "oidc_proxy_certificate_key", "oidc_proxy_own_ca"),
            *("oidc_proxy_acme_command", "oidc_proxy_certificate_days", "oidc_proxy_port", "oidc_proxy_http_port"),
            *("oidc_proxy_introspection_port", "oidc_proxy_session_store", "oidc_proxy_session_port", "oidc_proxy_session_idle"),
            *("oidc_proxy_session_lifetime", "oidc_proxy_session_refresh", "oidc_proxy_refusals_per_minute"),
            *("oidc_proxy_connections_per_address", "oidc_proxy_refused_users"),
        ),
        "oidc_proxy_providers": _PROVIDER,
        "oidc_proxy_backends": _BACKEND,
    },
    "kubernetes": _any(
        *("containerd_package_names", "containerd_sandbox_image", "containerd_network_plugins", "containerd_restrict_oom_score_adj"),
        *("containerd_archives", "kubernetes_cluster_name", "kubernetes_cluster_version"),
        *("kubernetes_cluster_endpoint", "kubernetes_cluster_balancer_port", "kubernetes_cluster_pod_network"),
        *("kubernetes_cluster_service_network", "kubernetes_cluster_node_prefix", "kubernetes_cluster_network"),
        *("kubernetes_cluster_network_manifests", "kubernetes_cluster_gpus", "kubernetes_cluster_device_plugin_image"),
        *("kubernetes_cluster_device_plugin_settings", "kubernetes_cluster_gpu_sharing", "kubernetes_cluster_device_plugins"),
        *("kubernetes_cluster_dra_manifests", "kubernetes_cluster_offer_wait", "kubernetes_cluster_taint_gpus"),
        *("kubernetes_cluster_accept_hardware", "kubernetes_cluster_kubelet", "kubernetes_cluster_kube_proxy"),
        *("kubernetes_cluster_proof_image", "kubernetes_cluster_image_pull_policy", "kubernetes_cluster_untested_platforms"),
        *("kubernetes_cluster_policy", "kubernetes_cluster_policy_purge", "kubernetes_cluster_policy_accounts"),
        *("kubernetes_cluster_policy_user_prefix", "kubernetes_cluster_policy_pod_security", "kubernetes_cluster_policy_objects"),
        *("kubernetes_cluster_policy_default_request", "kubernetes_cluster_policy_tolerations", "kubernetes_cluster_queue"),
        *("kubernetes_cluster_queue_version", "kubernetes_cluster_queue_manifests", "kubernetes_cluster_queue_sha256"),
        *("kubernetes_cluster_queue_image", "kubernetes_cluster_queue_frameworks", "kubernetes_cluster_queue_uncounted"),
        *("kubernetes_cluster_queue_settings", "kubernetes_cluster_issuers", "kubernetes_cluster_roles", "kubernetes_cluster_bindings"),
        *("kubernetes_cluster_user_token", "kubernetes_control_plane_packages", "kubernetes_control_plane_patience"),
        *("kubernetes_control_plane_certificate_days", "kubernetes_node_device_root"),
        *("kubernetes_packages_repository", "kubernetes_packages_only"),
    ),
    "mesos": {
        **_any(
            *("chronos_java_packages", "chronos_java_home", "chronos_heap_mib", "chronos_gpu", "chronos_disable_after_failures"),
            *("chronos_ready_seconds", "marathon_java_packages", "marathon_java_home", "marathon_heap_mib", "marathon_ready_seconds"),
            *("marathon_lb_groups", "marathon_lb_first_port"),
            *("marathon_lb_last_port", "marathon_lb_ports", "marathon_lb_address", "marathon_lb_http_port", "marathon_lb_https_port"),
            *("marathon_lb_stats_port", "marathon_lb_trusted_proxies", "marathon_lb_front_headers", "marathon_lb_networks"),
            *("marathon_lb_health", "marathon_lb_connections", "marathon_lb_timeout", "marathon_lb_drain_seconds"),
            *("marathon_lb_reload_seconds", "marathon_lb_event_seconds", "marathon_lb_interval", "marathon_lb_certificates"),
            *("marathon_lb_reserved", "mesos_agent_attributes", "mesos_agent_resources", "mesos_agent_reserved_memory_mib"),
            *("mesos_agent_devices", "mesos_agent_isolation", "mesos_agent_capabilities", "mesos_agent_containerizers"),
            *("mesos_agent_docker_registry", "mesos_agent_docker_config", "mesos_agent_systemd", "mesos_agent_device_root"),
            *("mesos_agent_wait", "mesos_agent_ready_seconds", "mesos_cluster_name", "mesos_cluster_ca", "mesos_cluster_certificate"),
            *("mesos_cluster_key", "mesos_cluster_tls", "mesos_cluster_accept_hardware", "mesos_cluster_root_submissions"),
            *("mesos_cluster_users", "mesos_cluster_ports", "mesos_cluster_offer_wait", "mesos_master_ready_seconds", "zookeeper_heap_mib"),
            *("zookeeper_former_snapshots",),
        ),
        "mesos_cluster_mesos_source": _SOURCE,
        "mesos_cluster_marathon_source": _SOURCE,
        "mesos_cluster_chronos_source": _SOURCE,
    },
}


def parsed(text: str) -> dict[str, t.Any]:
    """Return the variables of a template's settings.

    :param text: YAML.
    :raises ValueError: they are none. The sentence does not quote the text, which may have a secret.
    """
    try:
        given = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        raise ValueError("are no YAML" + (f": see line {mark.line + 1}" if mark else "")) from error
    if given is None:
        return {}
    if not isinstance(given, t.Mapping):
        raise ValueError("are no variables in YAML: write lines such as slurm_cluster_name: physics")
    return dict(given)


def refused(given: t.Any, allowed: Allowed, path: str = "") -> t.Iterator[str]:
    """Yield what settings have that a template must not set.

    :param allowed: what they may have, such as ALLOWED["slurm"].
    """
    if isinstance(allowed, re.Pattern):
        if not (isinstance(given, str) and allowed.fullmatch(given)):
            yield f"have {shown(given)} as {path}: a template may name files in {BUILDS} alone, not in folders there"
    elif isinstance(given, (list, tuple)):
        for number, one in enumerate(given):
            yield from refused(one, allowed, f"{path}.{number}")
    elif isinstance(given, t.Mapping):
        for key, value in given.items():
            where = f"{path}.{key}" if path else str(key)
            if key not in allowed:
                near = difflib.get_close_matches(str(key), allowed, n=1)
                yield f"have {shown(where)}, which a template must not set" + (f" (did you mean {near[0]}?)" if near else "")
            elif allowed[key]:
                yield from refused(value, allowed[key], where)
