# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Each mistake in an inventory is one sentence that names the variable or group and the host."""

from __future__ import annotations

import base64
import pathlib

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import inventory as slurm_inventory

# What names alone would not show: scripts/narrow.py.
READS = ("roles/slurm_cluster/vars", "roles/slurm_controller/defaults")

KEY = base64.b64encode(bytes(128)).decode()
GROUPS = {"slurm_controllers": ["head"], "slurm_databases": ["head"], "slurm_nodes": ["gpu1", "gpu2"], "slurm_logins": ["login"]}
HOSTS = ["head", "gpu1", "gpu2", "login"]
PARTITIONS = [{"name": "batch", "default": True}]


def errors(groups=None, raw=None, in_play=None, variables=None, **wanted):
    """All errors of a right inventory with changes; variables: host to its variables, None removes one."""
    hostvars = {}
    for host in HOSTS:
        own = {"munge_key": KEY, "slurm_cluster_name": "physics", **(variables or {}).get(host, {})}
        hostvars[host] = {key: value for key, value in own.items() if value is not None}
    cluster = {"name": "physics", "partitions": PARTITIONS, "settings": {}, "cgroup_settings": {}, **wanted}
    written = {host: {**own, **(raw or {}).get(host, {})} for host, own in hostvars.items()}
    return slurm_inventory.errors(groups or GROUPS, hostvars, in_play or HOSTS, cluster, written.__getitem__)


def only(found):
    (sentence,) = found
    assert sentence.endswith((".", ")")) and "\n" not in sentence
    return sentence


def test_right_inventory_has_no_errors():
    assert errors() == []


def test_members_are_listed_once_in_the_order_of_the_groups():
    assert slurm_inventory.member_names(GROUPS) == ["head", "gpu1", "gpu2", "login"]
    assert slurm_inventory.member_names({}) == []


def test_groups_without_a_node_that_is_a_login_host_too():
    groups = {"slurm_nodes": ["gpu1", "gpu2"], "slurm_logins": ["gpu2"], "rack": ["gpu2", "gpu1"]}
    assert slurm_inventory.groups_without(groups, ["gpu2"]) == {"slurm_nodes": ["gpu1"], "slurm_logins": ["gpu2"], "rack": ["gpu1"]}


def test_an_address_that_the_host_does_not_have():
    """SLURM took it, and three minutes later said that something was wrong with the boot of the node."""
    facts = {host: {"all_ipv4_addresses": ["10.0.0.5", "127.0.0.2"], "all_ipv6_addresses": ["fe80::1"]} for host in HOSTS}
    given = {"gpu1": "10.0.0.6", "gpu2": "10.0.0.5", "login": "FE80:0::1", "head": "head.example.org"}
    assert slurm_inventory.strange_addresses(given, facts) == [
        "slurm_cluster_address of gpu1 is 10.0.0.6, but gpu1 has 10.0.0.5, 127.0.0.2, fe80::1: correct it. Where the network translates "
        "addresses, give a name that all hosts resolve."
    ]
    # Facts of an earlier release in a cache.
    assert slurm_inventory.strange_addresses({"gpu1": "10.0.0.6"}, {"gpu1": {}}) == []


class Long(list):
    """A list of thousands: to look for a host in it, again for each host, takes seconds."""

    def __contains__(self, host):
        raise AssertionError(f"{host} was looked for in a list")


def test_no_host_is_looked_for_in_a_list_of_hosts():
    hosts = Long(HOSTS)
    groups = {
        "slurm_controllers": ["head"],
        "slurm_databases": ["head"],
        "slurm_nodes": Long(["gpu1", "gpu2"]),
        "big": Long(["gpu1", "gpu2"]),
    }
    assert errors(groups, in_play=hosts, partitions=[{"name": "batch", "group": "big"}]) == []


# --- groups ---


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ({"slurm_controllers": []}, "The inventory has no host in the group slurm_controllers: name the one that runs slurmctld."),
        (
            {"slurm_databases": []},
            "The inventory has no host in the group slurm_databases: name the one that runs slurmdbd and its MariaDB.",
        ),
        (
            {"slurm_controllers": ["head", "login"]},
            "slurm_controllers has 2 hosts (head, login), but slurm_controller_state_directory is not set for head, login: "
            "name a directory in a file system that all of them share, or leave one host.",
        ),
        (
            {"slurm_databases": ["head", "login"]},
            "slurm_databases has 2 hosts (head, login), but slurm_database_storage_host is not set for head, login: "
            "two slurmdbd need one MariaDB that runs on neither; name its host, or leave one host in the group.",
        ),
    ],
)
def test_groups_with_too_few_or_too_many_hosts(groups, sentence):
    assert only(errors(groups={**GROUPS, **groups})) == sentence


def test_groups_that_are_not_there_at_all():
    found = slurm_inventory.group_errors({})
    assert [sentence.split(":")[0] for sentence in found] == [
        f"The inventory has no host in the group slurm_{group}" for group in ("controllers", "databases", "nodes")
    ]
    assert "The inventory has no host in the group slurm_nodes: name the hosts that run jobs." in errors(
        groups={**GROUPS, "slurm_nodes": []}
    )


# --- names and addresses ---


@pytest.mark.parametrize("key", ["ansible_host", "slurm_cluster_address"])
def test_two_hosts_with_one_address(key):
    found = errors(variables={"gpu1": {key: "10.0.0.5"}, "login": {key: "10.0.0.5"}})
    assert only(found) == f"The hosts gpu1 and login have the same {key} 10.0.0.5: correct one of them."


def test_hosts_behind_one_forwarded_address_differ_by_port():
    ports = {host: {"ansible_host": "127.0.0.1", "ansible_port": 2200 + number} for number, host in enumerate(HOSTS)}
    assert errors(variables=ports) == []
    ports["gpu2"]["ansible_port"] = 2201
    assert only(errors(variables=ports)) == "The hosts gpu1 and gpu2 have the same ansible_host 127.0.0.1 port 2201: correct one of them."


def test_two_hosts_with_one_short_name():
    found = slurm_inventory.address_errors({"gpu1.left.example": {}, "GPU1.right.example": {}, "gpu2": {}})
    assert only(found) == "The hosts gpu1.left.example and GPU1.right.example have the same short name gpu1: correct one of them."


def test_inventory_names_that_are_addresses_have_no_short_name():
    assert slurm_inventory.address_errors({"10.0.0.1": {}, "10.0.0.2": {}, "fe80::1": {}, "fe80::2": {}}) == []


@pytest.mark.parametrize(
    "address", ["10.0.0.1 State=DOWN", "10.0.0.1\nSlurmUser=root", "10.0.0.1#", "10.0.0.1,10.0.0.2", "[1-2]", ["10.0.0.1"]]
)
def test_address_that_is_none(address):
    found = only(errors(variables={"gpu1": {"slurm_cluster_address": address}}))
    assert found == f"slurm_cluster_address of gpu1 is {str(address)!r}, which is no address."


@pytest.mark.parametrize("host", ["head", "login"])
@pytest.mark.parametrize("address", ["{{ inventory_hostname }}.example", "prefix-{{inventory_hostname|lower}}"])
def test_address_made_of_inventory_hostname(host, address):
    found = only(errors(raw={host: {"ansible_host": address}}))
    assert found.startswith(f"ansible_host of {host} is made of inventory_hostname, which means another host in delegated tasks: ")


def test_addresses_that_delegation_resolves_rightly():
    plain = {"head": {"ansible_host": "{{ my_address }}"}, "login": {"ansible_host": "inventory_hostname.example"}}
    ambiguous = {**plain, "gpu1": {"ansible_host": "{{ inventory_hostname }}"}}
    assert errors(raw=ambiguous) == []
    # Under --limit the facts of gpu1 may have to be read by a delegated task.
    assert only(errors(raw=ambiguous, in_play=["gpu2"])).startswith("ansible_host of gpu1 is made of inventory_hostname")


# --- munge key ---


def munge(**keys):
    return errors(variables={host: {"munge_key": key} for host, key in keys.items()})


def everywhere(key):
    return munge(**dict.fromkeys(HOSTS, key))


HOW = "make one with 'openssl rand -base64 128 | tr -d \"\\n\"' and keep it in ansible-vault."


def test_missing_munge_key_says_how_to_make_one():
    assert only(munge(gpu1=None, login="")) == f"munge_key is not set for gpu1, login: {HOW}"


@pytest.mark.parametrize("key", ["not base64!", "abc", KEY + "\n", "schlüssel", 12345, ["a"]])
def test_munge_key_that_is_no_base64(key):
    assert only(everywhere(key)) == f"munge_key is not valid base64: {HOW}"


@pytest.mark.parametrize(("size", "right"), [(31, False), (32, True), (1024, True), (1025, False)])
def test_munge_key_of_a_wrong_size(size, right):
    found = everywhere(base64.b64encode(bytes(size)).decode())
    assert found == [] if right else only(found) == f"munge_key has {size} bytes, munge takes 32 to 1024: {HOW}"


def test_munge_key_that_differs_is_not_shown():
    other = base64.b64encode(b"x" * 64).decode()
    found = only(munge(gpu2=other))
    assert found == "munge_key differs between the hosts of the cluster: give all of them the same, in group_vars/all."
    assert other not in only(munge(gpu2=other)) and KEY not in found


# --- cluster name ---


def test_cluster_needs_a_name():
    assert only(errors(name="")).startswith("slurm_cluster_name is not set: ")
    assert only(errors(name=None)).startswith("slurm_cluster_name is not set: ")


@pytest.mark.parametrize("name", ["Physics", "my cluster", "a\nb", "-a", "größe", "a.b", True, ["a"], "physics\n"])
def test_cluster_name_that_slurm_does_not_take(name):
    assert only(errors(name=name)) == f"slurm_cluster_name {name!r} is not allowed: small letters, digits, '_' and '-'."


# --- settings ---


def test_reserved_and_broken_settings():
    assert only(errors(settings={"SELECTTYPE": "select/linear"})) == (
        "slurm_cluster_settings sets SELECTTYPE, which the collection sets itself (only select/cons_tres schedules GPUs): remove it there."
    )
    assert "slurm_cluster_cgroup_settings sets constrainDevices=no" in only(errors(cgroup_settings={"constrainDevices": "no"}))
    assert only(errors(settings=["a"])) == "slurm_cluster_settings must be a dictionary of settings and their values."
    assert only(errors(settings={"Prolog": "/x\nSlurmUser=root"})).startswith(
        "slurm_cluster_settings gives Prolog a value that SLURM can't read"
    )


@pytest.mark.parametrize(
    ("settings", "start"),
    [
        ({"Features": "a Gres=gpu:8"}, "slurm_cluster_node_settings of gpu2 gives Features a value that SLURM can't read: "),
        ({"Weight": "1\nSlurmUser=root"}, "slurm_cluster_node_settings of gpu2 gives Weight a value that SLURM can't read: "),
        (
            {"gres": "gpu:8"},
            "slurm_cluster_node_settings of gpu2 sets gres, which the collection sets itself (it comes from the accelerators",
        ),
        ({"state": "DOWN"}, "slurm_cluster_node_settings of gpu2 sets state, which the collection sets itself (DOWN ends the jobs"),
        ({"NodeName": "x"}, "slurm_cluster_node_settings of gpu2 sets NodeName, which the collection sets itself"),
        ({1: "x"}, "slurm_cluster_node_settings of gpu2 has 1, which is no name of a setting."),
        ("Weight=5", "slurm_cluster_node_settings of gpu2 must be a dictionary of settings and their values."),
    ],
)
def test_settings_of_a_node(settings, start):
    assert only(errors(variables={"gpu2": {"slurm_cluster_node_settings": settings}})).startswith(start)


@pytest.mark.parametrize("key", ["DownNodes", "downnodes", "AccountingStoragePort", "SlurmctldAddr", "ControlMachine", "AuthInfo"])
def test_settings_that_end_jobs(key):
    assert only(errors(settings={key: "6999"})).startswith(f"slurm_cluster_settings sets {key}, which the collection sets itself (")


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ({"SlurmdTimeout": 1}, "SlurmdTimeout=1 seconds: a node that is silent"),
        ({"slurmdtimeout": '"29"'}, "slurmdtimeout=29 seconds"),
        ({"SlurmdTimeout": 0}, ""),
        ({"SlurmdTimeout": "30"}, ""),
        ({"InactiveLimit": 5}, "InactiveLimit=5 seconds: the job of an srun or salloc"),
        ({"InactiveLimit": "0"}, ""),
        ({"BatchStartTimeout": 0}, "BatchStartTimeout=0 seconds: a batch job"),
        ({"MessageTimeout": [4]}, "MessageTimeout=4 seconds: "),
        ({"WaitTime": 1}, "WaitTime=1 seconds: "),
        ({"KillWait": 1}, ""),
        ({"ResumeTimeout": 15}, "ResumeTimeout=15 seconds: "),
        ({"PrologEpilogTimeout": 1}, "PrologEpilogTimeout=1 seconds: "),
        ({"ResumeTimeout": "INFINITE"}, ""),
        ({"SlurmdTimeout": 1.5}, "SlurmdTimeout=1.5, which is no number of seconds: "),
        ({"SlurmdTimeout": "0x1"}, "SlurmdTimeout=0x1, which is no number of seconds: "),
    ],
)
def test_times_that_end_jobs(settings, refused):
    found = errors(settings=settings)
    assert refused in only(found) and " or more" in found[0] if refused else not found


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ({"SlurmctldPort": 6999}, ""),
        ({"slurmctldport": "6817-6820"}, ""),
        ({"SlurmctldPort": "6820-6817"}, "SlurmctldPort=6820-6817"),
        ({"SlurmctldPort": "ctl"}, "SlurmctldPort=ctl"),
        ({"SlurmdPort": 0}, "SlurmdPort=0"),
        ({"SlurmdPort": "6818-6820"}, "SlurmdPort=6818-6820"),
        ({"SlurmdPort": 68180}, "SlurmdPort=68180"),
    ],
)
def test_ports(settings, refused):
    found = errors(settings=settings)
    assert f"{refused}, which is no port" in only(found) if refused else not found


def test_right_settings_of_a_node():
    assert (
        errors(variables={"gpu2": {"slurm_cluster_node_settings": {"Features": ["fast", "big"], "Weight": 5, "Reason": '"not yet"'}}}) == []
    )


# --- partitions ---


@pytest.mark.parametrize("key", ["PartitionName", "nodes", "DEFAULT", "MaxTime", "DefaultTime"])
def test_what_other_keys_of_a_partition_set_is_no_setting_of_it(key):
    said = only(errors(partitions=[{"name": "batch", "settings": {key: "x", "PriorityTier": 5}}]))
    assert said.startswith(f"slurm_cluster_partitions: settings of partition batch sets {key}, which the collection sets itself (")


@pytest.mark.parametrize("key", ["AllowAccounts", "allowaccounts"])
def test_settings_of_a_partition_do_not_open_what_the_policy_closes(key):
    policy = {"accounts": [{"name": "physics", "users": ["ada"]}], "partitions": [{"name": "batch", "accounts": ["physics"]}]}
    said = only(errors(partitions=[{"name": "batch", "default": True, "settings": {key: "ALL"}}], policy=policy))
    assert said == f"slurm_cluster_partitions: settings of partition batch set {key}, which the policy sets too: remove it there."


@pytest.mark.parametrize("wrong", [None, "batch", {"name": "batch"}, ["batch"], [None], 5, True, [["name"]]])
def test_partitions_that_are_no_list_of_dictionaries(wrong):
    assert only(errors(partitions=wrong)) == "slurm_cluster_partitions must be a list of partitions, each with a name."


@pytest.mark.parametrize(
    ("partitions", "sentence"),
    [
        ([], "slurm_cluster_partitions is empty: name at least one partition."),
        ([{}], "slurm_cluster_partitions: '' is no partition name (letters, digits, '_' and '-'; not DEFAULT)."),
        ([{"name": "a"}, {"name": "a"}], "slurm_cluster_partitions names the partition a more than once."),
        (
            [{"name": "a", "nodes": "x"}],
            "slurm_cluster_partitions: partition a has the unknown key 'nodes' "
            "(known: name, group, cloud, gpu_types, default, max_time, default_time, gpu_sharing, settings).",
        ),
        (
            [{"name": "a", "gpu_type": ["a100"]}],
            "slurm_cluster_partitions: partition a has the unknown key 'gpu_type' (did you mean gpu_types?).",
        ),
        (
            [{"name": "a", "group": "gone"}],
            "slurm_cluster_partitions: partition a has the group gone, which is not in the inventory or has no host.",
        ),
        (
            [{"name": "a", "group": "slurm_logins"}],
            "slurm_cluster_partitions: the group slurm_logins of partition a has login, which is not in slurm_nodes.",
        ),
        ([{"name": "a", "default": True}, {"name": "b", "default": True}], "slurm_cluster_partitions has more than one default partition."),
        ([{"name": "a", "gpu_types": "a100"}], "slurm_cluster_partitions: partition a needs a list of names as gpu_types, such as [a100]."),
        ([{"name": "a", "gpu_types": [100]}], "slurm_cluster_partitions: partition a needs a list of names as gpu_types, such as [a100]."),
        (
            [{"name": "a", "gpu_types": ["A100"]}],
            "slurm_cluster_partitions: partition a needs a list of names as gpu_types, such as [a100].",
        ),
        ([{"name": "a", "cloud": "c1"}], "slurm_cluster_partitions: partition a needs a list of names as cloud, such as ['cloud[1-4]']."),
        ([{"name": "a", "cloud": []}], "slurm_cluster_partitions: partition a needs a list of names as cloud, such as ['cloud[1-4]']."),
        ([{"name": "a", "default": "no"}], "slurm_cluster_partitions: partition a needs true or false as default."),
        (
            [{"name": "a", "settings": ["x"]}],
            "slurm_cluster_partitions: settings of partition a must be a dictionary of settings and their values.",
        ),
        (
            [{"name": "a", "settings": {"maxTime": "1"}}],
            "slurm_cluster_partitions: settings of partition a sets maxTime, which the collection sets itself "
            "(it comes from the key max_time): remove it there.",
        ),
    ],
)
def test_mistakes_in_partitions(partitions, sentence):
    assert only(errors(partitions=partitions)) == sentence


@pytest.mark.parametrize(
    "name", [None, True, False, ["a"], {}, 1.5, "", "DEFAULT", "default", "a b", "a\nb", "a,b", "a#", "a[1-2]", "größe", "\u212a", "-a"]
)
def test_names_that_no_partition_can_have(name):
    found = only(errors(partitions=[{"name": name}]))
    assert found.startswith("slurm_cluster_partitions: ") and "is no partition name" in found


@pytest.mark.parametrize("name", ["a", "GPU_big", "a100-fast", 7, "7days"])
def test_names_that_a_partition_can_have(name):
    assert errors(partitions=[{"name": name}]) == []


@pytest.mark.parametrize("key", ["max_time", "default_time"])
@pytest.mark.parametrize("time", [43200, 1.5, True, "", "soon", "1:00 State=DOWN", "1:00\nSlurmUser=root", "-1", "1-", "\u0661", ["1:00"]])
def test_times_that_slurm_does_not_take(key, time):
    found = only(errors(partitions=[{"name": "a", key: time}]))
    assert found == f"slurm_cluster_partitions: partition a needs a time in quotes as {key}, such as '12:00:00' or '7-00:00:00'."


@pytest.mark.parametrize("time", ["60", "60:00", "12:00:00", "7-00", "7-00:30", "7-00:30:00", "UNLIMITED", "infinite", None])
def test_times_that_slurm_takes(time):
    assert errors(partitions=[{"name": "a", "max_time": time, "default_time": time}]) == []


@pytest.mark.parametrize("value", ["x\nNodeName=evil", "x y", "#", None, "", {}])
def test_value_in_a_partition_that_would_be_more_than_one_setting(value):
    found = only(errors(partitions=[{"name": "a", "settings": {"QOS": value}}]))
    assert found.startswith("slurm_cluster_partitions: settings of partition a gives QOS a value that SLURM can't read: ")


def test_keys_of_mixed_kinds_do_not_break_the_check():
    found = errors(partitions=[{"name": "a", 1: "x", None: "y", "nodes": "z"}])
    assert [sentence.split(" (known: ")[0].rsplit(" ", 1)[1] for sentence in found] == ["1", "None", "'nodes'"]


# --- policy ---


def test_mistakes_in_the_policy_are_told_with_its_place():
    assert only(errors(policy={"acounts": []})).startswith("slurm_cluster_policy has the unknown key 'acounts' ")
    assert only(errors(policy=["x"], policy_file="/site/policy.yml")).startswith("/site/policy.yml must be a dictionary ")
    assert only(errors(policy={"partitions": [{"name": "gpu"}]})) == (
        "slurm_cluster_policy: partition gpu is not in slurm_cluster_partitions (there are batch)."
    )


def test_access_to_a_partition_that_is_set_twice():
    policy = {"accounts": [{"name": "physics"}], "partitions": [{"name": "a", "accounts": ["physics"]}]}
    assert only(errors(policy=policy, partitions=[{"name": "a", "settings": {"allowaccounts": "x"}}])) == (
        "slurm_cluster_partitions: settings of partition a set allowaccounts, which the policy sets too: remove it there."
    )
    assert errors(policy=policy, partitions=[{"name": "a", "settings": {"AllowQos": "x"}}]) == []


def test_purge_needs_accounts():
    assert only(errors(policy={"qos": []}, policy_purge=True)).startswith(
        "slurm_cluster_policy_purge is set, but the policy has no accounts"
    )
    assert errors(policy={"accounts": [{"name": "physics"}]}, policy_purge=True) == []


# --- agreement between hosts ---


def test_facts_that_an_earlier_playbook_of_the_run_set_are_no_disagreement():
    """slurm_restore imports slurm.yml when the controller has its plan already."""
    plan = {"slurm_cluster_plan": {"errors": []}, "slurm_cluster_packages": {"names": []}}
    assert errors(variables={"head": plan, "gpu1": {"slurm_cluster_packages": {"names": ["slurmd"]}}}) == []


def test_variable_that_a_host_sees_otherwise_than_the_controller():
    found = errors(variables={"gpu1": {"slurm_cluster_settings": {"MaxJobCount": 1}}})
    assert (
        only(found) == "slurm_cluster_settings differs between head and gpu1: set it once for all hosts of the cluster, in group_vars/all."
    )
    found = errors(variables={"head": {"slurm_cluster_settings": {"MaxJobCount": 1}}})
    assert [sentence.split(":")[0] for sentence in found] == [
        f"slurm_cluster_settings differs between head and {host}" for host in ("gpu1", "gpu2", "login")
    ]


def test_variables_of_a_host_may_differ():
    own = {"slurm_cluster_address": "10.0.0.9", "slurm_cluster_node_settings": {"Weight": 5}, "slurm_cluster_device_root": "/x", "other": 1}
    assert errors(variables={"gpu1": own}) == []


# --- two controllers, two databases ---


def state_errors(*directories):
    own = {f"c{number}": {"slurm_controller_state_directory": path} for number, path in enumerate(directories)}
    return slurm_inventory.state_directory_errors(own)


def test_state_directory_of_several_controllers():
    assert state_errors(None) == state_errors("/srv/state") == state_errors("/srv/state/", "/srv/state") == []
    assert "is not set for c1: " in only(state_errors("/srv/state", None))
    assert only(state_errors("/srv/a", "/srv/b")).startswith("slurm_controller_state_directory differs between the hosts of ")


@pytest.mark.parametrize("path", ["/", "/srv", "state", "/srv/../etc", "/srv/a b", "/srv/a\nb", "/srv/$(id)", 5])
def test_state_directory_that_is_none(path):
    assert only(state_errors(path)).startswith("slurm_controller_state_directory of c0 is ")


@pytest.mark.parametrize("name", ["", "-a", "a b", "a\nb", "x" * 65, None, ["a"], "`a`", "a\n"])
def test_names_that_no_database_has(name):
    found = only(errors(variables={"head": {"slurm_database_name": name} if name is not None else {"slurm_database_name": 7}}))
    assert found.startswith("slurm_database_name of head is ") and "which is no name of a database" in found


@pytest.mark.parametrize(
    ("settings", "start"),
    [
        ({"StorageLoc": "other"}, "slurm_database_settings of head sets StorageLoc, which the collection sets itself (it comes from"),
        ({"dbdport": 7000}, "slurm_database_settings of head sets dbdport, which the collection sets itself"),
        ({"PurgeJobAfter": "12\nStorageLoc=x"}, "slurm_database_settings of head gives PurgeJobAfter a value that SLURM can't read"),
        ("a", "slurm_database_settings of head must be a dictionary"),
        (None, "slurm_database_settings of head must be a dictionary"),
    ],
)
def test_settings_of_slurmdbd(settings, start):
    found = slurm_inventory.database_errors({"head": {"slurm_database_settings": settings}})
    assert only(found).startswith(start)


def test_two_names_of_one_database():
    found = slurm_inventory.database_errors({"d1": {"slurm_database_name": "a"}, "d2": {}})
    assert only(found) == "slurm_database_name differs between the hosts of slurm_databases: give both the same."
    for name in ("slurm-acct", "_acct", "2024_acct"):
        assert slurm_inventory.database_errors({"d1": {"slurm_database_name": name}}) == []
    assert slurm_inventory.database_errors({"d1": {"slurm_database_settings": {"PurgeJobAfter": "12months"}}}) == []


STORAGE = {
    "slurm_database_storage_host": "db",
    "slurm_database_storage_password": "geheim",
    "slurm_database_storage_ca": "-----BEGIN CERTIFICATE-----\n",
}


def storage_errors(**changes):
    return slurm_inventory.storage_errors({"d1": STORAGE, "d2": {**STORAGE, **changes}})


def test_right_database_outside():
    assert storage_errors() == []
    assert slurm_inventory.storage_errors({"d1": {}}) == []


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        (
            "password",
            "",
            "slurm_database_storage_password is not set for d2: put the password of SLURM's account on db into ansible-vault.",
        ),
        ("password", "geheim #1", "slurm_database_storage_password of d2 has characters that slurmdbd.conf can't hold: "),
        ("ca", "", "slurm_database_storage_ca of d2 is no certificate: "),
        ("user", "a b", "slurm_database_storage_user of d2 is 'a b', which is no login name."),
    ],
)
def test_mistakes_in_the_database_outside(name, value, sentence):
    differs, mistake = storage_errors(**{f"slurm_database_storage_{name}": value})
    assert differs == f"slurm_database_storage_{name} differs between the hosts of slurm_databases: give both the same."
    assert mistake.startswith(sentence) and "geheim" not in mistake


def test_three_databases():
    assert "SLURM knows one slurmdbd and one backup." in " ".join(
        slurm_inventory.group_errors({**GROUPS, "slurm_databases": ["a", "b", "c"]})
    )


# --- facts ---


def host_facts(name, distribution="Debian", major="12"):
    return {"hostname": name, "distribution": distribution, "distribution_major_version": major}


def fact_errors(facts, allow_untested=False, other_suite=False):
    return slurm_inventory.fact_errors({"head": host_facts("head"), **facts}, "head", allow_untested, other_suite)


def test_right_facts():
    assert fact_errors({"gpu1": host_facts("gpu1")}) == []


def test_host_without_facts():
    assert only(fact_errors({"gpu1": {}})).startswith("No facts of gpu1 are known: it did not answer and nothing is cached; ")


@pytest.mark.parametrize(("distribution", "major"), [("Debian", "11"), ("Ubuntu", "24"), ("Debian", "trixie/sid"), (None, None)])
def test_unsupported_distribution(distribution, major):
    facts = {"gpu1": host_facts("gpu1", distribution, major)}
    assert only(fact_errors(facts)) == (
        f"gpu1 runs {distribution} {major}, which is not supported (supported: Debian 12, Debian 13); "
        "slurm_cluster_untested_platforms=true tries it all the same."
    )
    assert fact_errors(facts, allow_untested=True) == []


def test_mixed_releases():
    assert only(fact_errors({"gpu1": host_facts("gpu1", major="13")})) == (
        "gpu1 brings SLURM 24.11 but the controller head 22.05, too far apart to work together: one distribution release per cluster."
    )


def test_installed_releases_count_more_than_the_distribution():
    def having(name, release, major="13"):
        return {**host_facts(name, major=major), "slurm_packages": {"release": release}}

    head = having("head", "26.05")
    assert fact_errors({"head": head, "gpu1": having("gpu1", "26.05")}) == []
    assert fact_errors({"head": head, "gpu1": having("gpu1", "24.11")}) == [], "within the window, only told"
    assert only(fact_errors({"head": head, "gpu1": having("gpu1", "22.05")})).startswith("gpu1 has SLURM 22.05, too old for 26.05")
    assert "set slurm_packages_suite" in only(fact_errors({"head": head, "gpu1": having("gpu1", "")}))
    assert fact_errors({"head": head, "gpu1": having("gpu1", "", major="12")}, other_suite=True) == []


def test_major_version_may_be_a_number():
    assert fact_errors({"gpu1": host_facts("gpu1", major=12)}) == []


def test_two_hosts_with_one_hostname():
    found = fact_errors({"a": host_facts("gpu1"), "b": host_facts("GPU1")})
    assert only(found) == "The hosts a and b have the same hostname gpu1: correct one of them."


# --- the key of REST tokens, ssh to nodes ---


def rest(**keys):
    groups = {**GROUPS, "slurm_databases": ["gpu1"], "slurm_rest": ["login"]}
    return errors(groups=groups, variables={host: {"slurm_rest_jwt_key": key} for host, key in keys.items()})


def test_rest_key_is_needed_on_controllers_and_databases_where_there_is_a_rest_host():
    right = base64.b64encode(bytes(32)).decode()
    assert rest(head=right, gpu1=right) == []
    make = "make one with 'openssl rand -base64 32' and keep it in ansible-vault."
    assert only(rest(head=right)) == f"slurm_rest_jwt_key is not set for gpu1: {make}"
    assert only(rest(head=right, gpu1=right[:-2] + "E=")).startswith("slurm_rest_jwt_key differs between head and gpu1: ")
    assert only(rest(head="no base64!", gpu1="no base64!")) == f"slurm_rest_jwt_key is not valid base64: {make}"
    assert only(rest(head="c2hvcnQ=", gpu1="c2hvcnQ=")) == f"slurm_rest_jwt_key has 5 bytes, a safe one has at least 32: {make}"


@pytest.mark.parametrize("name", ["sudo uid = 0", "a:b", "", None, "a\nauth sufficient pam_permit.so"])
def test_group_that_can_not_stand_in_a_line_of_pam(name):
    assert only(errors(node_ssh_groups=["sudo", name])).startswith("slurm_cluster_node_ssh_groups: ")


def test_who_would_lock_themselves_out_is_told_before():
    logins = {"gpu1": ["deploy", "users", "adm"], "gpu2": ["deploy", "users"], "gpu3": ["root", "root"], "gpu4": ["admin", "admin", "sudo"]}
    assert only(slurm_inventory.locked_out(logins, ["sudo"])) == (
        "Ansible logs in to gpu1, gpu2 as deploy, whom slurm_cluster_node_ssh: jobs would lock out: put deploy into one of the groups "
        "in slurm_cluster_node_ssh_groups (sudo), or name one of deploy's groups there."
    )
    assert slurm_inventory.locked_out(logins, ["wheel", "users", "sudo"]) == []


def test_defaults_are_those_of_the_role():
    """The roles slurm_cluster and slurm_controller need them both; neither sees the other's defaults."""
    roles = pathlib.Path(__file__).resolve().parents[4] / "roles"
    defaults = yaml.safe_load((roles / "slurm_controller/defaults/main.yml").read_text(encoding="utf-8"))
    wanted = (slurm_inventory.STATE_DIRECTORY, slurm_inventory.STATE_FREE_MIB)
    assert (defaults["slurm_controller_state_directory"], defaults["slurm_controller_state_free_mib"]) == wanted
    variables = (roles / "slurm_cluster/vars/main.yml").read_text(encoding="utf-8")
    assert f"default('{wanted[0]}', true)" in variables and f"default({wanted[1]})" in variables
