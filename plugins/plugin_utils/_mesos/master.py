# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Environment and access rules of Mesos masters: pure functions.

Each variable MESOS_X is the flag --x. tests/real_mesos gives them to the real program.
"""

from __future__ import annotations

import typing as t

FOLDER = "/etc/mesos"
# A link to what was unpacked, or to /usr where a package has the programs.
PROGRAMS = "/opt/mesos/current"
# Rights that an operator has, to the name of what they are about (acls.proto of Mesos). Not among them: to run tasks, to register
# frameworks, to enter a task's container.
OPERATOR_RIGHTS = {
    "teardown_frameworks": "framework_principals",
    "unreserve_resources": "reserver_principals",
    "destroy_volumes": "creator_principals",
    "update_weights": "roles",
    "get_endpoints": "paths",
    "get_quotas": "roles",
    "update_quotas": "roles",
    "view_frameworks": "users",
    "view_tasks": "users",
    "view_executors": "users",
    "access_sandboxes": "users",
    "access_mesos_logs": "logs",
    "view_roles": "roles",
    "view_flags": "flags",
    "view_containers": "users",
    "set_log_level": "level",
    "update_maintenance_schedules": "machines",
    "get_maintenance_schedules": "machines",
    "start_maintenances": "machines",
    "stop_maintenances": "machines",
    "get_maintenance_statuses": "machines",
    "drain_agents": "agents",
    "deactivate_agents": "agents",
    "reactivate_agents": "agents",
    "mark_agents_gone": "agents",
    "prune_images": "images",
}
# What Marathon needs for applications with volumes that stay.
RESIDENT_RIGHTS = {"reserve_resources": "roles", "create_volumes": "roles"}
RESIDENT_OWN_RIGHTS = {"unreserve_resources": "reserver_principals", "destroy_volumes": "creator_principals"}


def tls_environment(address: str) -> dict[str, str]:
    """Return what libprocess reads where it uses TLS.

    Peers are known by address, so certificates must name it.
    """
    return {
        "LIBPROCESS_SSL_ENABLED": "true",
        "LIBPROCESS_SSL_SUPPORT_DOWNGRADE": "false",
        "LIBPROCESS_SSL_KEY_FILE": f"{FOLDER}/tls.key",
        "LIBPROCESS_SSL_CERT_FILE": f"{FOLDER}/tls.crt",
        "LIBPROCESS_SSL_CA_FILE": f"{FOLDER}/ca.pem",
        "LIBPROCESS_SSL_VERIFY_SERVER_CERT": "true",
        "LIBPROCESS_SSL_VERIFY_IPADD": "true",
        "LIBPROCESS_SSL_HOSTNAME_VALIDATION_SCHEME": "openssl",
        "LIBPROCESS_SSL_ENABLE_TLS_V1_2": "true",
        "LIBPROCESS_SSL_ENABLE_TLS_V1_3": "true",
        # The default has RC4.
        "LIBPROCESS_SSL_CIPHERS": "ECDHE+AESGCM:ECDHE+CHACHA20",
        "LIBPROCESS_IP": address,
    }


def environment(cluster: t.Mapping[str, t.Any], name: str, address: str, masters: int, agents: int) -> dict[str, str]:
    """The environment of a master, without a secret.

    :param cluster: name, port, tls and root_submissions, of their types.
    """
    # One agent may stay away after a change of leaders, also where one is a large part of all.
    limit = max(25, -(-100 // agents)) if agents else 100
    return {
        "MESOS_ZK": f"file://{FOLDER}/zk",
        "MESOS_QUORUM": str(masters // 2 + 1),
        "MESOS_WORK_DIR": "/var/lib/mesos/master",
        "MESOS_WEBUI_DIR": f"{PROGRAMS}/share/mesos/webui",
        "MESOS_CLUSTER": str(cluster["name"]),
        "MESOS_HOSTNAME": name,
        "MESOS_IP": address,
        "MESOS_PORT": str(cluster["port"]),
        "MESOS_CREDENTIALS": f"file://{FOLDER}/credentials.json",
        "MESOS_ACLS": f"file://{FOLDER}/acls.json",
        "MESOS_AUTHENTICATE_AGENTS": "true",
        "MESOS_AUTHENTICATE_FRAMEWORKS": "true",
        "MESOS_AUTHENTICATE_HTTP_FRAMEWORKS": "true",
        "MESOS_HTTP_FRAMEWORK_AUTHENTICATORS": "basic",
        "MESOS_AUTHENTICATE_HTTP_READONLY": "true",
        "MESOS_AUTHENTICATE_HTTP_READWRITE": "true",
        "MESOS_ROOT_SUBMISSIONS": "true" if cluster["root_submissions"] else "false",
        # Agents with GPUs are offered only to frameworks that know of GPUs.
        "MESOS_FILTER_GPU_RESOURCES": "true",
        # Else the few who have a GPU would have got their whole share of everything.
        "MESOS_FAIR_SHARING_EXCLUDED_RESOURCE_NAMES": "gpus",
        # An offer that a framework keeps is taken back.
        "MESOS_OFFER_TIMEOUT": "30secs",
        "MESOS_RECOVERY_AGENT_REMOVAL_LIMIT": f"{min(limit, 100)}%",
        **(tls_environment(address) if cluster["tls"] else {}),
    }


def access_rules(users: t.Sequence[str], has_chronos: bool) -> dict[str, t.Any]:
    """Return who may do what; what is not written is refused.

    The text is the same for masters and agents.
    """
    frameworks = {"values": ["marathon", *(["chronos"] if has_chronos else [])]}
    operator, any_of = {"values": ["operator"]}, {"type": "ANY"}
    rules: dict[str, t.Any] = {
        "permissive": False,
        "register_agents": [{"principals": {"values": ["agents"]}, "agents": any_of}],
        "register_frameworks": [{"principals": frameworks, "roles": any_of}],
        "run_tasks": [{"principals": frameworks, "users": {"values": list(users)}}],
    }
    for right, subject in OPERATOR_RIGHTS.items():
        rules[right] = [{"principals": operator, subject: any_of}]
    marathon = {"values": ["marathon"]}
    for right, subject in RESIDENT_RIGHTS.items():
        rules[right] = [{"principals": marathon, subject: any_of}]
    for right, subject in RESIDENT_OWN_RIGHTS.items():
        rules[right].append({"principals": marathon, subject: marathon})
    return rules
