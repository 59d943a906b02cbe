# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What is wrong with an inventory for SLURM, before a host is touched.

Pure functions.

Each function returns sentences; each sentence names the variable or group and the hosts.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import text_of
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import policy as slurm_policy
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import releases as slurm_releases
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _own_variables
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import elastic as slurm_elastic
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import gateway as slurm_gateway
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import partitions as slurm_partitions
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import plan as slurm_plan
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import settings as slurm_settings
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import sharing as slurm_sharing

GROUPS = ("slurm_controllers", "slurm_databases", "slurm_nodes", "slurm_logins", "slurm_rest")
NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
# A group in a line of PAM.
GROUP_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*")
ADDRESS = re.compile(r"[A-Za-z0-9:][A-Za-z0-9.:-]*")
# What slurm.conf, a unit file and a shell all read as one word; never the root or one of its own directories.
PATH = re.compile(r"(/[A-Za-z0-9_][A-Za-z0-9_.-]*){2,}")
DATABASE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
PASSWORD = re.compile(r"[^\s\x00-\x1f\x7f#\"'\\=]+")

# The defaults of slurm_controller_state_directory and slurm_controller_state_free_mib; a test compares them with the role's.
STATE_DIRECTORY = "/var/lib/slurm/slurmctld"
STATE_FREE_MIB = 256

MAKE_MUNGE_KEY = "make one with 'openssl rand -base64 128 | tr -d \"\\n\"' and keep it in ansible-vault"
MAKE_JWT_KEY = "make one with 'openssl rand -base64 32' and keep it in ansible-vault"


def member_names(groups: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """All hosts of the cluster, each once, in the groups' order."""
    return list(dict.fromkeys(host for group in GROUPS for host in groups.get(group, [])))


def groups_without(groups: t.Mapping[str, t.Sequence[str]], leaving: t.Collection[str]) -> dict[str, list[str]]:
    """The groups as they are when some nodes have left the cluster.

    What else a host is for SLURM, it stays.
    """
    other = [group for group in GROUPS if group != "slurm_nodes"]
    return {group: [host for host in hosts if host not in leaving or group in other] for group, hosts in groups.items()}


def group_errors(groups: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    errors = []
    for group, what in (("slurm_controllers", "runs slurmctld"), ("slurm_databases", "runs slurmdbd and its MariaDB")):
        if not groups.get(group):
            errors.append(f"The inventory has no host in the group {group}: name the one that {what}.")
    databases = groups.get("slurm_databases", [])
    if len(databases) > 2:
        errors.append(
            f"The group slurm_databases has {len(databases)} hosts ({', '.join(databases)}): SLURM knows one slurmdbd and one backup."
        )
    if not groups.get("slurm_nodes"):
        errors.append("The inventory has no host in the group slurm_nodes: name the hosts that run jobs.")
    return errors


def same(values: t.Mapping[str, str], what: str) -> list[str]:
    """One sentence for each value that several hosts share."""
    hosts_of: dict[str, list[str]] = {}
    for host, value in values.items():
        hosts_of.setdefault(value, []).append(host)
    return [
        f"The hosts {' and '.join(hosts)} have the same {what} {value}: correct one of them."
        for value, hosts in hosts_of.items()
        if len(hosts) > 1
    ]


def short_name(host: str) -> str:
    """An inventory name without its domain; one that is an address has none."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.split(".", 1)[0].lower()


def address_errors(variables: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[str]:
    """Hosts that the inventory lets meet at one address or under one name."""
    # With an ansible_host the inventory's name is an alias, and the facts show equal host names.
    errors = same({host: short_name(host) for host, own in variables.items() if not own.get("ansible_host")}, "short name")
    for key in ("ansible_host", "slurm_cluster_address"):
        values = {host: str(own[key]) for host, own in variables.items() if own.get(key)}
        ports = {host: str(own.get("ansible_port", "")) for host, own in variables.items()}
        if key == "ansible_host":  # several hosts behind one forwarded address differ by port
            values = {host: value + (f" port {ports[host]}" if ports[host] else "") for host, value in values.items()}
        errors += same(values, key)
    errors += [
        f"slurm_cluster_address of {host} is {str(own['slurm_cluster_address'])!r}, which is no address."
        for host, own in variables.items()
        if own.get("slurm_cluster_address") and not ADDRESS.fullmatch(str(own["slurm_cluster_address"]))
    ]
    return errors


def strange_addresses(given: t.Mapping[str, str], facts: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[str]:
    """Addresses that a host does not have.

    SLURM would say so minutes later, as a fault in the boot of the node.

    given: slurm_cluster_address by host; names are left to the resolver.
    facts: of each host, with all_ipv4_addresses and all_ipv6_addresses.
    """
    found = []
    for host, address in given.items():
        own = [*facts[host].get("all_ipv4_addresses", []), *facts[host].get("all_ipv6_addresses", [])]
        try:
            strange = own and ipaddress.ip_address(address) not in map(ipaddress.ip_address, own)
        except ValueError:
            continue
        if strange:
            found.append(
                f"slurm_cluster_address of {host} is {address}, but {host} has {', '.join(own)}: correct it. Where the network translates "
                "addresses, give a name that all hosts resolve."
            )
    return found


def delegation_errors(raw_addresses: t.Mapping[str, t.Any]) -> list[str]:
    """Return addresses that a delegated task would resolve to another host.

    Ansible keeps the delegating host's inventory_hostname.
    """
    return [
        f"ansible_host of {host} is made of inventory_hostname, which means another host in delegated tasks: "
        "write the name itself, or make it of a variable of its own."
        for host, address in raw_addresses.items()
        if "{{" in str(address) and "inventory_hostname" in str(address)
    ]


def state_directory(variables: t.Mapping[str, t.Any]) -> str:
    """Where a controller keeps its state, by its variables."""
    return str(variables.get("slurm_controller_state_directory") or STATE_DIRECTORY).rstrip("/")


def state_directory_errors(controllers: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[str]:
    """What is wrong with slurm_controller_state_directory.

    controllers: their variables by host.
    """
    errors = []
    for host, own in controllers.items():
        if not PATH.fullmatch(state_directory(own)):
            errors.append(
                f"slurm_controller_state_directory of {host} is {own['slurm_controller_state_directory']!r}: "
                "give an absolute path of a directory of its own (letters, digits and '/_.-')."
            )
        free = str(own.get("slurm_controller_state_free_mib", STATE_FREE_MIB))
        if not free.isdecimal():
            errors.append(f"slurm_controller_state_free_mib of {host} is {free!r}, which is no number of MiB.")
    if len(controllers) > 1:
        unset = [host for host, own in controllers.items() if not own.get("slurm_controller_state_directory")]
        if unset:
            errors.append(
                f"slurm_controllers has {len(controllers)} hosts ({', '.join(controllers)}), but slurm_controller_state_directory is not "
                f"set for {', '.join(unset)}: name a directory in a file system that all of them share, or leave one host."
            )
        elif len({state_directory(own) for own in controllers.values()}) > 1:
            errors.append("slurm_controller_state_directory differs between the hosts of slurm_controllers: give all of them the same.")
    return errors


def database_errors(databases: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[str]:
    """What is wrong with the database's name and further lines of slurmdbd.conf.

    databases: the variables of the hosts of slurm_databases.
    """
    names = {host: own.get("slurm_database_name", "slurm_acct_db") for host, own in databases.items()}
    errors = [
        f"slurm_database_name of {host} is {name!r}, which is no name of a database: letters, digits, '_' and '-'."
        for host, name in names.items()
        if not isinstance(name, str) or not DATABASE_NAME.fullmatch(name)
    ]
    if not errors and len(set(names.values())) > 1:
        errors.append("slurm_database_name differs between the hosts of slurm_databases: give both the same.")
    for host, own in databases.items():
        where = f"slurm_database_settings of {host}"
        errors += slurm_settings.line_settings_errors(where, own.get("slurm_database_settings", {}), slurm_settings.OUR_DATABASE)
    return errors


STORAGE = tuple(f"slurm_database_storage_{name}" for name in ("host", "user", "password", "ca"))


def storage_errors(databases: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[str]:
    """What is wrong with the MariaDB outside.

    databases: the variables of the hosts of slurm_databases. No secret gets into a sentence.
    """
    errors = []
    outside = [host for host, own in databases.items() if own.get("slurm_database_storage_host")]
    if len(databases) > 1:
        if len(outside) < len(databases):
            return [
                f"slurm_databases has {len(databases)} hosts ({', '.join(databases)}), but slurm_database_storage_host is not set for "
                f"{', '.join(host for host in databases if host not in outside)}: two slurmdbd need one MariaDB that runs on neither; "
                "name its host, or leave one host in the group."
            ]
        errors += [
            f"{name} differs between the hosts of slurm_databases: give both the same."
            for name in STORAGE
            if len({str(own.get(name, "")) for own in databases.values()}) > 1
        ]
    for host in outside:
        own = {name: str(databases[host].get(name) or "") for name in STORAGE}
        server = own["slurm_database_storage_host"]
        if not ADDRESS.fullmatch(server):
            errors.append(f"slurm_database_storage_host of {host} is {server!r}, which is no name or address.")
        if own["slurm_database_storage_user"] and not GROUP_NAME.fullmatch(own["slurm_database_storage_user"]):
            errors.append(f"slurm_database_storage_user of {host} is {own['slurm_database_storage_user']!r}, which is no login name.")
        if not own["slurm_database_storage_password"]:
            errors.append(
                f"slurm_database_storage_password is not set for {host}: put the password of SLURM's account on {server} into "
                "ansible-vault."
            )
        elif not PASSWORD.fullmatch(own["slurm_database_storage_password"]):
            errors.append(
                f"slurm_database_storage_password of {host} has characters that slurmdbd.conf can't hold: "
                "choose one without blanks, quotes, '#', '=' and backslashes."
            )
        if "-----BEGIN CERTIFICATE-----" not in own["slurm_database_storage_ca"]:
            errors.append(
                f"slurm_database_storage_ca of {host} is no certificate: give the PEM text of the authority that signed the certificate of "
                f"{server}, such as \"{{{{ lookup('ansible.builtin.file', 'ca.pem') }}}}\"; the password goes over TLS only."
            )
    return errors


def munge_key_errors(variables: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[str]:
    missing, distinct = [], set()
    for host, own in variables.items():
        if not own.get("munge_key"):
            missing.append(host)
            continue
        distinct.add(str(own["munge_key"]))
    if missing:
        return [f"munge_key is not set for {', '.join(missing)}: {MAKE_MUNGE_KEY}."]
    if len(distinct) > 1:
        return ["munge_key differs between the hosts of the cluster: give all of them the same, in group_vars/all."]
    for key in distinct:
        try:
            size = len(base64.b64decode(key, validate=True))
        except (binascii.Error, ValueError):
            return [f"munge_key is not valid base64: {MAKE_MUNGE_KEY}."]
        if not 32 <= size <= 1024:
            return [f"munge_key has {size} bytes, munge takes 32 to 1024: {MAKE_MUNGE_KEY}."]
    return []


def rest_key_errors(variables: t.Mapping[str, t.Mapping[str, t.Any]], groups: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """Return what is wrong with the key of the REST interface's tokens.

    The key is on the hosts that check the tokens.
    """
    if not groups.get("slurm_rest"):
        return []
    hosts = list(dict.fromkeys([*groups.get("slurm_controllers", []), *groups.get("slurm_databases", [])]))
    missing = [host for host in hosts if not variables[host].get("slurm_rest_jwt_key")]
    if missing:
        return [f"slurm_rest_jwt_key is not set for {', '.join(missing)}: {MAKE_JWT_KEY}."]
    distinct = {str(variables[host]["slurm_rest_jwt_key"]) for host in hosts}
    if len(distinct) > 1:
        return [f"slurm_rest_jwt_key differs between {' and '.join(hosts)}: give both the same, in group_vars/all."]
    for key in distinct:
        try:
            size = len(base64.b64decode(key, validate=True))
        except (binascii.Error, ValueError):
            return [f"slurm_rest_jwt_key is not valid base64: {MAKE_JWT_KEY}."]
        if size < 32:
            return [f"slurm_rest_jwt_key has {size} bytes, a safe one has at least 32: {MAKE_JWT_KEY}."]
    return []


def ssh_group_errors(names: t.Any) -> list[str]:
    """What is wrong with slurm_cluster_node_ssh_groups."""
    if not isinstance(names, (list, tuple)):
        return ["slurm_cluster_node_ssh_groups must be a list of groups."]
    return [
        f"slurm_cluster_node_ssh_groups: {name!r} is no name of a group (letters, digits and '_.@-')."
        for name in names
        if not GROUP_NAME.fullmatch(text_of(name))
    ]


def locked_out(logins: t.Mapping[str, t.Sequence[str]], exempt: t.Sequence[str]) -> list[str]:
    """Nodes that Ansible itself could not come back to.

    logins: by host its user there, then that user's groups.
    """
    hosts_of: dict[str, list[str]] = {}
    for host, (user, *names) in logins.items():
        if user != "root" and not set(names) & set(exempt):
            hosts_of.setdefault(user, []).append(host)
    return [
        f"Ansible logs in to {', '.join(hosts)} as {user}, whom slurm_cluster_node_ssh: jobs would lock out: "
        f"put {user} into one of the groups in slurm_cluster_node_ssh_groups "
        f"({', '.join(exempt) or 'none now'}), or name one of {user}'s groups there."
        for user, hosts in hosts_of.items()
    ]


def elastic_errors(cluster: t.Mapping[str, t.Any], members: t.Sequence[str]) -> list[str]:
    """Return what is wrong with the cloud nodes.

    The settings and partitions must have no errors of their own.
    """
    cloud = cluster.get("cloud_nodes") or []
    errors = slurm_elastic.node_errors(cloud, members)
    if errors:
        return errors
    declared = slurm_elastic.declared_names(cloud)
    return slurm_elastic.setting_errors(cloud, cluster["settings"]) + slurm_partitions.cloud_errors(cluster["partitions"], declared)


def policy_errors(cluster: t.Mapping[str, t.Any]) -> list[str]:
    """What is wrong with the policy, and with variables that contradict it."""
    where, policy = str(cluster.get("policy_file") or "slurm_cluster_policy"), cluster.get("policy") or {}
    partitions = [p for p in cluster["partitions"] if isinstance(p, t.Mapping)] if isinstance(cluster["partitions"], (list, tuple)) else []
    found = slurm_policy.policy_errors(where, policy, [text_of(p.get("name")) for p in partitions])
    if found:
        return found
    for partition in partitions:
        access = {key.lower(): key for key in slurm_policy.partition_settings(policy, text_of(partition.get("name")))}
        found += [
            f"slurm_cluster_partitions: settings of partition {partition['name']} set {key}, which the policy sets too: remove it there."
            for key in partition.get("settings") or {}
            if str(key).lower() in access
        ]
    if cluster.get("policy_purge") and not policy.get("accounts"):
        found.append("slurm_cluster_policy_purge is set, but the policy has no accounts, so everybody would be removed: name the accounts.")
    return found


def disagreements(
    mine: t.Mapping[str, t.Any], controllers: t.Mapping[str, t.Any], me: str, controller: str, per_host: t.Container[str]
) -> list[str]:
    """Return cluster-wide variables that a host sees otherwise than the controller.

    Whichever host a run starts from (--limit) must compute the same cluster. Both are compared as written, before templates
    are resolved.
    """
    names = sorted({name for name in (*mine, *controllers) if name.startswith("slurm_cluster_") and name not in per_host})
    return [
        f"{name} differs between {controller} and {me}: set it once for all hosts of the cluster, in group_vars/all."
        for name in names
        if mine.get(name) != controllers.get(name)
    ]


def errors(
    groups: t.Mapping[str, t.Sequence[str]],
    hostvars: t.Mapping[str, t.Mapping[str, t.Any]],
    in_play: t.Sequence[str],
    cluster: t.Mapping[str, t.Any],
    raw: t.Callable[[str], t.Mapping[str, t.Any]],
) -> list[str]:
    """All that can be said from the inventory alone.

    in_play: the hosts of this run; tasks for others are delegated.
    cluster: name, partitions, settings, cgroup_settings, policy, policy_file, policy_purge. raw: a host's variables
    before templates in them are resolved.
    """
    found = group_errors(groups)
    variables = {host: hostvars[host] for host in member_names(groups)}
    keys = ("ansible_host", "ansible_port", "slurm_cluster_address", "munge_key", "slurm_rest_jwt_key")
    own = {host: {key: seen[key] for key in keys if key in seen} for host, seen in variables.items()}
    found += address_errors(own)
    served = [host for group in ("slurm_controllers", "slurm_logins", "slurm_rest") for host in groups.get(group, [])]
    here = set(in_play)
    absent = [host for host in variables if host not in here]
    found += delegation_errors({host: raw(host).get("ansible_host", "") for host in dict.fromkeys([*served, *absent])})
    if not cluster["name"]:
        found.append("slurm_cluster_name is not set: give the cluster a name of small letters, digits, '_' and '-', in group_vars/all.")
    elif not NAME.fullmatch(str(cluster["name"])):
        found.append(f"slurm_cluster_name {cluster['name']!r} is not allowed: small letters, digits, '_' and '-'.")
    found += munge_key_errors(own)
    found += rest_key_errors(own, groups)
    found += slurm_gateway.errors(variables, groups)
    found += ssh_group_errors(cluster.get("node_ssh_groups") or [])
    found += state_directory_errors({host: variables[host] for host in groups.get("slurm_controllers", [])})
    databases = {host: variables[host] for host in groups.get("slurm_databases", [])}
    found += database_errors(databases) + storage_errors(databases)
    found += slurm_settings.reserved_settings(cluster["settings"], cluster["cgroup_settings"])
    found += slurm_partitions.errors(cluster["partitions"], groups)
    found += elastic_errors(cluster, [short_name(host) for host in variables]) if not found else []
    found += policy_errors(cluster)
    for host in groups.get("slurm_nodes", []):
        settings = variables[host].get("slurm_cluster_node_settings")
        if settings is not None:
            found += slurm_settings.line_settings_errors(f"slurm_cluster_node_settings of {host}", settings, slurm_settings.OUR_NODE)
        found += slurm_sharing.node_errors(host, variables[host].get("slurm_cluster_gpu_sharing"))
    if groups.get("slurm_controllers"):
        controller = groups["slurm_controllers"][0]
        # A playbook that came before in the same run set the roles' facts on some hosts.
        may_differ = PER_HOST | set(_own_variables.facts())
        for host in variables:
            found += disagreements(raw(host), raw(controller), host, controller, may_differ)
    return found


PER_HOST = {"slurm_cluster_address", "slurm_cluster_node_settings", "slurm_cluster_gpu_sharing", "slurm_cluster_device_root"}


def installed_releases(facts: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, str]:
    """SLURM's release by host, empty where it is not installed."""
    return {host: str((own.get("slurm_packages") or {}).get("release") or "") for host, own in facts.items()}


def fact_errors(
    facts: t.Mapping[str, t.Mapping[str, t.Any]], controller: str, allow_untested: bool, other_suite: bool = False
) -> list[str]:
    """What the facts of the members contradict.

    facts: host to its facts, empty where there are none. other_suite: SLURM does not come from the hosts' own distribution.
    """
    found = []
    names = {}
    brings = {}
    installed = installed_releases(facts)
    for host, own in facts.items():
        if "hostname" not in own:
            found.append(
                f"No facts of {host} are known: it did not answer and nothing is cached; "
                "bring it up, or take it out of its slurm_ groups, then run again."
            )
            continue
        names[host] = str(own["hostname"]).lower()
        platform = (str(own.get("distribution")), str(own.get("distribution_major_version")))
        if not other_suite and not installed[host]:
            brings[host] = slurm_plan.RELEASES.get(platform)
        if platform not in slurm_plan.RELEASES and not allow_untested:
            known = ", ".join(" ".join(p) for p in slurm_plan.RELEASES)
            found.append(
                f"{host} runs {platform[0]} {platform[1]}, which is not supported (supported: {known}); "
                "slurm_cluster_untested_platforms=true tries it all the same."
            )
    found += same(names, "hostname")
    found += slurm_releases.installed_errors(installed, controller)
    ours, theirs = installed.get(controller), brings.get(controller)
    for host, release in brings.items():
        if release and ours and release != ours:
            found.append(
                f"{host} would get SLURM {release} of its distribution but the controller {controller} has {ours}: "
                "set slurm_packages_suite to the suite that has it, or run the playbook slurm_upgrade."
            )
        elif release and theirs and release != theirs:
            found.append(
                f"{host} brings SLURM {release} but the controller {controller} {theirs}, too far apart to work together: "
                "one distribution release per cluster."
            )
    return found
