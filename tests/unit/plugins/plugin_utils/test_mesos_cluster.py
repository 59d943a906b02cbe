# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A Mesos cluster: what is refused, and what is planned."""

from __future__ import annotations

import base64
import json

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import agent, environment, files, hosts, manager, settings
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import amd, gpu, mig_gpu
from ansible_collections.deephdc.accelerators.tests.unit.plugins.plugin_utils import mesos_examples
from ansible_collections.deephdc.accelerators.tests.unit.plugins.plugin_utils.mesos_examples import CLUSTER, GROUPS, SECRETS, host, site

SOURCE = CLUSTER["mesos_source"]


def sentences(given):
    return [str(found) for found in manager.check(given)]


def test_a_right_cluster_has_no_error():
    assert sentences(site()) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "a b"}, "mesos_cluster_name is 'a b': write a name"),
        ({"tls": "maybe"}, "mesos_cluster_tls is 'maybe': write true or false."),
        ({"mesos_source": {}}, "mesos_cluster_mesos_source is not set, and no project offers binaries any more: write {url"),
        ({"mesos_source": "x"}, "mesos_cluster_mesos_source is 'x': write"),
        ({"mesos_source": {**SOURCE, "sha": 1}}, "mesos_cluster_mesos_source has the unknown key 'sha'"),
        ({"mesos_source": {**SOURCE, "url": "https://x"}}, "mesos_cluster_mesos_source has url and path: give one of"),
        ({"mesos_source": {"version": "1.11.0"}}, "has neither url, path nor package: give one of"),
        ({"mesos_source": {"package": "Me sos", "version": "1.11.0"}}, "has the package 'Me sos': write the name of a package."),
        ({"mesos_source": {"package": "mesos", "sha256": "0" * 64, "version": "1.11.0"}}, "has sha256 beside package: remove it"),
        ({"mesos_source": {**SOURCE, "sha256": "12"}}, "has no sha256 of 64 hexadecimal digits"),
        ({"mesos_source": {**SOURCE, "path": "mesos.tgz"}}, "has the path 'mesos.tgz': write the whole path"),
        ({"marathon_source": {**CLUSTER["marathon_source"], "url": "https://me:x@y"}}, "marathon_source has a url that can't be used"),
        ({"mesos_source": {**SOURCE, "version": ""}}, "mesos_cluster_mesos_source has no version"),
        ({"mesos_source": {**SOURCE, "version": "1.5.0"}}, "is of the version 1.5.0, which lacks flags"),
        ({"secrets": None}, "mesos_cluster_secrets is not a dictionary of secrets"),
        ({"secrets": {**SECRETS, "root": "x"}}, "mesos_cluster_secrets has the unknown key 'root'"),
        ({"secrets": {**SECRETS, "agents": ""}}, "mesos_cluster_secrets lacks agents"),
        ({"secrets": {**SECRETS, "agents": "short"}}, "mesos_cluster_secrets: agents is no text of 16 or more characters"),
        ({"secrets": {**SECRETS, "agents": "with:colon-0123456789"}}, "agents has a character that a URL"),
        ({"secrets": {**SECRETS, "agents": SECRETS["operator"]}}, "operator and agents are the same"),
        ({"ca": ""}, "mesos_cluster_ca is missing, which TLS needs"),
        ({"ca": "/etc/ca.pem"}, "mesos_cluster_ca is no certificate in PEM"),
        ({"users": []}, "mesos_cluster_users is empty, so no task could run"),
        ({"users": ["No Body"]}, "mesos_cluster_users has 'No Body'"),
        ({"users": ["root"]}, "mesos_cluster_users has root, but mesos_cluster_root_submissions is false"),
        ({"ports": []}, "mesos_cluster_ports is a list: write a dictionary"),
        ({"ports": {"zk": 1}}, "mesos_cluster_ports has the unknown key 'zk'"),
        ({"ports": {"agent": 0}}, "mesos_cluster_ports: 'agent' is 0: write a number from 1 to 65535."),
        ({"ports": {"agent": 5050}}, "mesos_cluster_ports gives 5050 to two daemons"),
        ({"zookeeper_ids": {}}, "mesos_cluster_zookeeper_ids lacks m1, m2, m3: write each server's number, such as {m1: 1, m2: 2, m3: 3}"),
        ({"zookeeper_ids": []}, "mesos_cluster_zookeeper_ids is a list"),
        ({"zookeeper_ids": {"m1": 1, "m2": 2, "m3": 2}}, "m2 and m3 both have 2: give each server a number of its own."),
        ({"zookeeper_ids": {"m1": 1, "m2": 2, "m3": 256}}, "m3 has 256: write a number from 1 to 255."),
        ({"zookeeper_ids": {"m1": 1, "m2": 2, "m3": 3, "m4": 4}}, "names m4, which has no ZooKeeper"),
        ({"accept_hardware": ["m1"]}, "mesos_cluster_accept_hardware names m1, which is not in mesos_agents"),
    ],
)
def test_each_wrong_setting_is_one_sentence(changes, words):
    found = sentences(site(**changes))
    assert len(found) == 1 and words in found[0], found
    assert not any(secret in found[0] for secret in SECRETS.values())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mesos_cluster_certificate": ""}, "mesos_cluster_certificate of gpu1 is missing"),
        ({"mesos_cluster_key": "-----BEGIN RSA PRIVATE KEY-----"}, "mesos_cluster_key of gpu1 is no text in PEM with BEGIN PRIVATE KEY"),
        ({"mesos_cluster_hostname": "a b"}, "mesos_cluster_hostname of gpu1 is 'a b'"),
        ({"mesos_cluster_address": "gpu1"}, "mesos_cluster_address of gpu1 is 'gpu1': write an IP address"),
        ({"mesos_agent_attributes": []}, "mesos_agent_attributes of gpu1 is a list"),
        ({"mesos_agent_attributes": {"rack": "r 1"}}, "mesos_agent_attributes of gpu1 has 'rack': 'r 1', which Mesos can't read"),
        ({"mesos_agent_attributes": {"gpu_vendor": "x"}}, "has gpu_vendor, but these names are for what is read"),
        ({"mesos_agent_resources": {"mem": "much"}}, "mesos_agent_resources of gpu1 has 'mem': 'much'"),
        ({"mesos_agent_resources": {"gpus": 2}}, "has gpus, which are read from the host"),
        ({"mesos_agent_devices": ["/etc/shadow"]}, "mesos_agent_devices of gpu1 is a list with '/etc/shadow'"),
        ({"mesos_agent_isolation": ["cni"]}, "mesos_agent_isolation of gpu1 is a list with 'cni'"),
        ({"mesos_agent_capabilities": "CHOWN"}, "mesos_agent_capabilities of gpu1 is 'CHOWN'"),
        ({"mesos_agent_containerizers": ["docker"]}, "mesos_agent_containerizers of gpu1 is a list with 'docker': write [mesos]"),
        ({"mesos_agent_containerizers": ["mesos", "docker"]}, "has docker, whose executor would need a key"),
        ({"mesos_agent_reserved_memory_mib": -1}, "mesos_agent_reserved_memory_mib of gpu1 is -1"),
        ({"mesos_agent_docker_registry": "me:secret@x"}, "mesos_agent_docker_registry of gpu1 is no address"),
    ],
)
def test_each_wrong_variable_of_a_host_is_one_sentence(changes, words):
    hostvars = mesos_examples.hosts()
    hostvars["gpu1"].update(changes)
    found = sentences(site(hostvars))
    assert len(found) == 1 and words in found[0], found


def test_an_even_number_of_masters_is_refused():
    groups = {**GROUPS, "mesos_masters": ["m1", "m2"]}
    found = sentences(site(groups=groups, zookeeper_ids={"m1": 1, "m2": 2}))
    assert found == [
        "The group mesos_masters has 2 hosts, but with 2 masters the cluster outlives the loss of 0 only: name 1 or 3, an odd number."
    ]


def test_a_cluster_without_a_master_is_refused():
    assert sentences(site(groups={"mesos_agents": ["gpu1"]}, zookeeper_ids={}))[0].startswith("The group mesos_masters has no host")


def test_an_unknown_setting_is_refused():
    with pytest.raises(ValueError, match="unknown key 'nmae'"):
        settings.settings_of({"nmae": "x"})
    with pytest.raises(ValueError, match="must be a dictionary"):
        settings.settings_of([])


@pytest.mark.parametrize(("number", "quorum"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_more_than_half_must_agree(number, quorum):
    assert hosts.quorum(["m"] * number) == quorum


def test_the_plan_of_a_cluster():
    plan = manager.plan(site())
    assert plan["errors"] == [] and plan["lost"] == []
    assert plan["quorum"] == 2
    assert plan["offers"] == {"gpu1": {"gpus": 2}, "gpu2": {"gpus": 0}}
    assert plan["hosts"]["zookeeper"] == plan["hosts"]["marathon"] == ["m1", "m2", "m3"]
    assert plan["zookeeper"]["clients"] == "192.0.2.1:2181,192.0.2.2:2181,192.0.2.3:2181"
    assert plan["zookeeper"]["servers"][1] == "server.2=192.0.2.2:2888:3888"
    assert plan["agent"]["gpu1"]["MESOS_RESOURCES"] == "cpus:16;mem:62976;gpus:2"
    assert "gpu/nvidia" in plan["agent"]["gpu1"]["MESOS_ISOLATION"] and "gpu/nvidia" not in plan["agent"]["gpu2"]["MESOS_ISOLATION"]
    assert "MESOS_NVIDIA_GPU_DEVICES" not in plan["agent"]["gpu2"]
    text = json.dumps(plan)
    assert not any(secret in text for secret in SECRETS.values())
    assert mesos_examples.KEY not in text


def test_the_limit_of_removed_agents_lets_one_go():
    groups = {**GROUPS, "mesos_agents": [f"a{number}" for number in range(8)]}
    hostvars = {**mesos_examples.hosts(), **{name: host(10, []) for name in groups["mesos_agents"]}}
    assert manager.plan(site(hostvars, groups))["master"]["m1"]["MESOS_RECOVERY_AGENT_REMOVAL_LIMIT"] == "25%"
    assert manager.plan(site())["master"]["m1"]["MESOS_RECOVERY_AGENT_REMOVAL_LIMIT"] == "50%"


def test_without_tls_a_site_is_warned():
    plan = manager.plan(site(tls=False))
    assert any("mesos_cluster_tls is false" in sentence for sentence in plan["warnings"])
    assert not any(name.startswith("LIBPROCESS_SSL") for name in plan["master"]["m1"])


@pytest.mark.parametrize(
    ("mesos_host", "version", "words"),
    [
        (
            {"cgroup": 2, "controllers": [], "nvml": True},
            "1.11.0",
            "gpu1 has control groups of version 2, which Mesos 1.11.0 does not know",
        ),
        ({"cgroup": 1, "controllers": ["cpu"], "nvml": True}, "1.11.0", "gpu1 has no control groups for memory, devices, freezer"),
        ({"cgroup": 1, "controllers": ["cpu", "memory", "devices", "freezer"], "nvml": False}, "1.11.0", "no libnvidia-ml.so.1"),
    ],
)
def test_a_host_that_can_not_have_an_agent_is_refused(mesos_host, version, words):
    hostvars = mesos_examples.hosts()
    hostvars["gpu1"]["ansible_facts"]["mesos_host"] = mesos_host
    (found,) = manager.plan(site(hostvars, mesos_source={**SOURCE, "version": version}))["errors"]
    assert words in found


def test_a_later_source_takes_control_groups_of_version_2():
    hostvars = mesos_examples.hosts()
    hostvars["gpu1"]["ansible_facts"]["mesos_host"] = {"cgroup": 2, "controllers": [], "nvml": True}
    assert manager.plan(site(hostvars, mesos_source={**SOURCE, "version": "1.12.0"}))["errors"] == []


def test_a_divided_gpu_is_refused():
    hostvars = {**mesos_examples.hosts(), "gpu1": host(4, [mig_gpu(0, ["1g.10gb"])])}
    (found,) = manager.plan(site(hostvars))["errors"]
    assert "is divided by MIG, but Mesos gives whole GPUs only: switch MIG off" in found


def test_a_gpu_of_another_vendor_is_reported():
    hostvars = {**mesos_examples.hosts(), "gpu1": host(4, [amd(0)])}
    plan = manager.plan(site(hostvars))
    assert plan["errors"] == [] and plan["offers"]["gpu1"] == {"gpus": 0}
    assert any("Mesos has an isolator for GPUs of NVIDIA's driver only" in sentence for sentence in plan["warnings"])


def test_a_gpu_of_another_manager_is_not_offered_and_keeps_its_number():
    allotment = {"mesos": {"devices": ["0000:02:00.0"]}, "slurm": {"devices": ["0000:01:00.0"]}}
    hostvars = {**mesos_examples.hosts(), "gpu1": host(4, [gpu(0), gpu(1)], accelerator_allotment=allotment)}
    plan = manager.plan(site(hostvars))
    assert plan["offers"]["gpu1"] == {"gpus": 1}
    assert plan["agent"]["gpu1"]["MESOS_NVIDIA_GPU_DEVICES"] == "1"


UNLISTED = {"health": [{"problem": "nvidia_smi_unlisted", "message": "0000:01:00.0: nvidia-smi does not list it."}]}
SILENT = {"health": [{"problem": "nvidia_smi_timeout", "message": "0000:02:00.0: nvidia-smi gave no answer within 10 seconds."}]}
SHARED = {"mesos": {"devices": ["0000:02:00.0"]}, "slurm": {"devices": ["0000:01:00.0", "0000:03:00.0"]}}


def test_what_nvml_does_not_list_has_no_number():
    """NVML numbers the GPUs that the driver could start: with one unlisted before ours, 1 would be the GPU after ours, SLURM's."""
    gpus = [gpu(0, **UNLISTED), gpu(1), gpu(2)]
    plan = manager.plan(site({**mesos_examples.hosts(), "gpu1": host(4, gpus, accelerator_allotment=SHARED)}))
    assert plan["errors"] == [] and plan["agent"]["gpu1"]["MESOS_NVIDIA_GPU_DEVICES"] == "0"


def test_an_unlisted_gpu_is_not_offered_and_a_promised_one_is_lost():
    broken = {**mesos_examples.hosts(), "gpu1": host(4, [gpu(0, **UNLISTED), gpu(1)])}
    first = manager.plan(site(broken))
    assert first["offers"]["gpu1"] == {"gpus": 1} and first["agent"]["gpu1"]["MESOS_NVIDIA_GPU_DEVICES"] == "0"
    assert "nvidia-smi does not list it" in first["lost"][0]
    later = manager.plan(site(broken), manager.plan(site())["record"])
    assert later["offers"]["gpu1"] == {"gpus": 2} and later["agent"]["gpu1"]["MESOS_NVIDIA_GPU_DEVICES"] == "0,1"
    assert "gpus_a100:2" in later["agent"]["gpu1"]["MESOS_ATTRIBUTES"], "the agent stays the one that it is"


def test_where_nothing_says_which_gpus_nvml_lists_a_shared_host_is_refused():
    gpus = [gpu(0, **SILENT), gpu(1, **SILENT), gpu(2, **SILENT)]
    (found,) = manager.plan(site({**mesos_examples.hosts(), "gpu1": host(4, gpus, accelerator_allotment=SHARED)}))["errors"]
    assert "which number each GPU has for Mesos is not known (0000:02:00.0: nvidia-smi gave no answer" in found
    # No other manager's GPU can be taken.
    assert manager.plan(site({**mesos_examples.hosts(), "gpu1": host(4, gpus)}))["errors"] == []


def test_a_lost_gpu_stays_promised_and_no_other_is_taken_for_it():
    recorded = manager.plan(site())["record"]
    hostvars = {**mesos_examples.hosts(), "gpu1": host(4, [gpu(1)])}
    plan = manager.plan(site(hostvars), recorded)
    assert plan["errors"] == []
    assert plan["offers"]["gpu1"] == {"gpus": 2}
    assert plan["lost"] and plan["lost"][0].startswith("gpu1: a100 at 0000:01:00.0")
    assert [*plan["lost_hosts"]] == ["gpu1"]
    # NVML gives 0 only.
    assert plan["agent"]["gpu1"]["MESOS_NVIDIA_GPU_DEVICES"] == "0,1"
    assert plan["record"] == recorded
    accepted = manager.plan(site(hostvars, accept_hardware=["gpu1"]), recorded)
    assert accepted["lost"] == [] and accepted["offers"]["gpu1"] == {"gpus": 1}


def test_a_host_without_facts_is_named():
    hostvars = {**mesos_examples.hosts(), "gpu2": {**host(5), "ansible_facts": {}}}
    (found,) = manager.plan(site(hostvars))["errors"]
    assert found.startswith("The facts of gpu2 lack distribution, default_ipv4, accelerators, mesos_host")


def test_what_makes_another_agent_is_named():
    wanted = {"MESOS_RESOURCES": "gpus:1", "MESOS_PORT": "5051", "MESOS_IP": "192.0.2.9"}
    present = environment.read(environment.text({"MESOS_RESOURCES": "gpus:2", "MESOS_PORT": "5051", "MESOS_IP": "192.0.2.8"}))
    assert agent.identity_changes(present, wanted) == ["--resources is gpus:2 and becomes gpus:1"]
    assert agent.identity_changes({}, wanted) == []


@pytest.mark.parametrize(("total", "reserved", "left"), [(64000, 1024, 62976), (1000, 1024, 448), (64030, 1024, 62976)])
def test_memory_is_rounded(total, reserved, left):
    assert agent.memory_mib(total, reserved) == left


@pytest.mark.parametrize(("variables", "words"), [({"a b": 1}, "is no name"), ({"A": "it's"}, "would have a quote or a line break")])
def test_an_environment_is_refused(variables, words):
    with pytest.raises(ValueError, match=words):
        environment.text(variables)


def decoded(entries):
    return {entry["path"]: base64.b64decode(entry["secret_base64"]).decode() for entry in entries if "secret_base64" in entry}


def test_secrets_are_in_files_that_root_alone_reads():
    plan = manager.plan(site())
    of_master, of_agent = files.secret_files(plan, SECRETS, "master"), files.secret_files(plan, SECRETS, "agent")
    assert {entry["mode"] for entry in [*of_master, *of_agent]} == {"0400"}
    secrets = decoded(of_master)
    assert [one["principal"] for one in json.loads(secrets["/etc/mesos/credentials.json"])["credentials"]] == [*files.PRINCIPALS]
    assert secrets["/etc/mesos/zk"] == (f"zk://mesos:{SECRETS['zookeeper_mesos']}@192.0.2.1:2181,192.0.2.2:2181,192.0.2.3:2181/mesos")
    # An agent has no secret of ZooKeeper, and of others only what it is asked for.
    assert sorted(decoded(of_agent)) == [f"/etc/mesos/{name}.json" for name in ("acls", "agent_credential", "http_credentials")]
    with pytest.raises(ValueError, match="no secrets for marathon"):
        files.secret_files(plan, SECRETS, "marathon")
