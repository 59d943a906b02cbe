# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The stand-ins of Mesos, Marathon and Chronos refuse what the real ones refuse, and hand out what was offered."""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import subprocess
import sys
import tarfile
import threading
import types
from datetime import datetime, timezone
from pathlib import Path
from typing import ClassVar

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import master as planned_master
from ansible_collections.deephdc.accelerators.tests.unit.plugins.plugin_utils import test_mesos_frameworks as frameworks

# What names alone would not show: scripts/narrow.py.
READS = ("tests/stand_ins/mesos/flags",)
HERE = Path(__file__).resolve().parents[2] / "stand_ins/mesos"
MODULES = ("access", "apps", "calls", "cluster", "jobs", "keeper", "options", "resources", "tasks", "web")


class Parts:
    """The modules of the stand-ins, which import each other by their bare names."""


@pytest.fixture(scope="module")
def parts():
    sys.path.insert(0, str(HERE))
    found = Parts()
    try:
        for name in MODULES:
            setattr(found, name, importlib.import_module(name))
        yield found
    finally:
        sys.path.remove(str(HERE))
        for name in (*MODULES, "parts"):
            sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("program", "arguments", "sentence"),
    [
        ("mesos-master", ["--foo=1"], "Failed to load unknown flag 'foo'"),
        ("mesos-master", ["--quorum"], "Failed to load non-boolean flag 'quorum': Missing value"),
        ("mesos-master", ["--no-quorum"], "Failed to load non-boolean flag 'quorum' via 'no-quorum'"),
        ("mesos-master", ["--root_submissions=yes"], "Expecting a boolean"),
        ("mesos-agent", [], "Flag 'work_dir' is required, but it was not provided"),
        ("mesos-agent", ["--work_dir=/x", "--master=file:///nowhere/zk"], "Error reading file '/nowhere/zk'"),
    ],
)
def test_mesos_refuses_flags(parts, program, arguments, sentence):
    with pytest.raises(parts.options.Refused, match=sentence):
        parts.options.mesos(program, arguments, {})


def test_mesos_ignores_an_unknown_variable_and_knows_old_names(parts):
    values = parts.options.mesos("mesos-master", ["--no-root_submissions"], {"MESOS_FOO": "1", "MESOS_AUTHENTICATE_SLAVES": "true"})
    assert values == {"root_submissions": "false", "authenticate_agents": "true"}


@pytest.mark.parametrize("version", ["1.5", "1.10"])
def test_marathon_takes_what_its_role_writes(parts, tmp_path, version):
    plan = {**frameworks.PLAN, "sources": {"marathon": {"version": f"{version}.26"}}}
    path = tmp_path / "arguments"
    path.write_bytes(frameworks.written("marathon", plan)["/etc/marathon/arguments"])
    values = parts.options.scallop("marathon", f"marathon-{version}", [f"@{path}"])
    assert values["https_port"] == "8443" and values["disable_http"] == "true"
    assert parts.keeper.place(values["zk"], "no").password == "zookeeper_marathon-0123456789"


@pytest.mark.parametrize(("gpu", "flags"), [(False, "chronos"), (True, "chronos-gpu"), (True, "chronos")])
def test_chronos_takes_the_flag_for_gpus_only_with_its_patch(parts, tmp_path, gpu, flags):
    path = tmp_path / "arguments"
    path.write_bytes(frameworks.written("chronos", gpu=gpu)["/etc/chronos/arguments"])
    if gpu and flags == "chronos":
        with pytest.raises(parts.options.Refused, match="Unknown option 'enable_features'"):
            parts.options.scallop("chronos", flags, [f"@{path}"])
    else:
        assert parts.options.scallop("chronos", flags, [f"@{path}"])["user"] == "nobody"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("admin secret\n", "Invalid json format"),
        ("", "must contain at least one credential"),
        ('{"credentials": []}', "must contain at least one credential"),
    ],
)
def test_credentials_are_json(parts, tmp_path, text, sentence):
    path = tmp_path / "credentials"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(parts.options.Refused, match=sentence):
        parts.access.credentials(str(path), "credentials")


def test_rules_of_the_plan_are_kept(parts):
    rules = planned_master.access_rules(["nobody"], False)
    approved = parts.access.approved
    assert approved(rules, "run_tasks", "marathon", "nobody")
    assert not approved(rules, "run_tasks", "marathon", "root")
    assert not approved(rules, "run_tasks", "operator", "nobody")
    assert approved(rules, "drain_agents", "operator") and not approved(rules, "drain_agents", "marathon")
    assert approved(rules, "register_agents", "agents") and not approved(rules, "register_agents", None)
    assert not approved(rules, "register_frameworks", "chronos", "*")
    assert not approved({"permissive": False}, "view_tasks", "operator", "nobody")
    assert approved({}, "view_tasks", None, "nobody")


def test_a_secret_that_is_wrong_is_nobodys(parts):
    header = parts.access.basic("operator", "right")
    assert parts.access.principal_of(header, {"operator": "right"}) == "operator"
    assert parts.access.principal_of(header, {"operator": "wrong"}) is None
    assert parts.access.principal_of("Basic " + base64.b64encode(b"operator").decode(), {"operator": "right"}) is None
    assert parts.access.principal_of("Bearer x", {"operator": "right"}) is None


GPU = "gpu/nvidia,cgroups/devices,filesystem/linux"


@pytest.mark.parametrize(
    ("flags", "minors", "sentence"),
    [
        ({"isolation": "gpu/nvidia"}, [0], "'cgroups/devices' or 'cgroups/all' isolator must be enabled"),
        ({"isolation": "gpu/nvidia,cgroups/all"}, [0], "'filesystem/linux' isolator must be enabled"),
        ({"isolation": GPU}, [], "NVML is not available"),
        ({"isolation": "posix/cpu", "nvidia_gpu_devices": "0"}, [0], "can only be specified if"),
        ({"isolation": GPU, "nvidia_gpu_devices": "0"}, [0], "cannot be set without"),
        ({"isolation": GPU, "resources": "gpus:1"}, [0], "cannot be set without also"),
        ({"isolation": GPU, "resources": "gpus:2", "nvidia_gpu_devices": "0"}, [0, 1], "different numbers of GPU devices"),
        ({"isolation": GPU, "resources": "gpus:1", "nvidia_gpu_devices": "1"}, [0], "greater than the number"),
    ],
)
def test_an_agent_refuses_gpus(parts, flags, minors, sentence):
    with pytest.raises(parts.options.Refused, match=sentence):
        parts.resources.gpus(flags, parts.resources.parse(flags.get("resources", "")), minors)


def test_nvml_counts_by_address(parts, tmp_path):
    for address, minor in (("0000:02:00.0", 0), ("0000:01:00.0", 1)):
        folder = tmp_path / "proc/driver/nvidia/gpus" / address
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: x\nDevice Minor: \t {minor}\n", encoding="utf-8")
    assert parts.resources.nvml_minors(tmp_path) == [1, 0]


def info(**resources):
    amounts = {"cpus": 4.0, "mem": 1024.0, "disk": 0.0, "gpus": 0.0, "ports": [[31000, 31001]], **resources}
    return {"hostname": "gpu1", "ip": "192.0.2.5", "port": 5051, "resources": amounts, "attributes": {}, "version": "1.11.0"}


def subscribed(parts, cluster, gpu=True):
    capabilities = [{"type": "PARTITION_AWARE"}, *([{"type": "GPU_RESOURCES"}] if gpu else [])]
    return cluster.subscribe("marathon", {"name": "m", "user": "nobody", "principal": "marathon", "capabilities": capabilities})


def cluster_of(parts, **flags):
    saved = []
    cluster = parts.cluster.Cluster({"root_submissions": "false", **flags}, planned_master.access_rules(["nobody"], False), saved.append)
    return cluster, saved


def launch(parts, cluster, framework, **more):
    offer = framework.events[-1]["offers"]["offers"][0]
    resources = parts.resources.to_json({"cpus": 1.0, "mem": 64.0, "gpus": more.pop("gpus", 0.0)})
    task = {"task_id": {"value": "t1"}, "agent_id": offer["agent_id"], "resources": resources, "command": {"value": "true", **more}}
    body = {"offer_ids": [offer["id"]], "operations": [{"type": "LAUNCH", "launch": {"task_infos": [task]}}]}
    call = {"type": "ACCEPT", "framework_id": {"value": framework.id}, "accept": body}
    framework.events.clear()
    parts.calls.handle(cluster, "marathon", framework.stream, call)


def test_gpus_are_offered_to_those_who_know_of_them(parts):
    cluster, _saved = cluster_of(parts)
    cluster.report("agents", {"info": info(gpus=1.0), "tasks": []})
    framework = subscribed(parts, cluster, gpu=False)
    cluster.allocate()
    assert [event["type"] for event in framework.events] == ["SUBSCRIBED"]
    framework = subscribed(parts, cluster)
    cluster.allocate()
    assert framework.events[-1]["type"] == "OFFERS"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"user": "root"}, "under user 'root'"),
        ({"gpus": 0.5}, "must be an unsigned integer"),
        ({"gpus": 2.0}, "is more than what is offered"),
    ],
)
def test_a_task_that_may_not_run_is_an_error(parts, more, message):
    cluster, _saved = cluster_of(parts)
    cluster.report("agents", {"info": info(gpus=1.0), "tasks": []})
    framework = subscribed(parts, cluster)
    cluster.allocate()
    launch(parts, cluster, framework, **more)
    status = framework.events[0]["update"]["status"]
    assert status["state"] == "TASK_ERROR" and message in status["message"]


def test_draining_ends_when_the_framework_has_heard(parts):
    cluster, saved = cluster_of(parts)
    identity = cluster.report("agents", {"info": info(), "tasks": []})["id"]
    framework = subscribed(parts, cluster)
    cluster.allocate()
    launch(parts, cluster, framework)
    agent = cluster.agents[identity]
    assert "launch" in agent.commands.pop()
    call = {"type": "DRAIN_AGENT", "drain_agent": {"agent_id": {"value": identity}, "max_grace_period": {"seconds": 5}}}
    with pytest.raises(parts.web.Failure):
        cluster.operate("marathon", call)
    cluster.operate("operator", call)
    assert agent.drain["state"] == "DRAINING" and agent.commands[-1] == {"drain": agent.drain["config"]}
    with pytest.raises(parts.web.Failure, match="still in the DRAINING state"):
        cluster.operate("operator", {"type": "REACTIVATE_AGENT", "reactivate_agent": {"agent_id": {"value": identity}}})
    killed = {**agent.tasks["t1"], "state": "TASK_KILLED", "uuid": "u"}
    cluster.report("agents", {"id": identity, "info": info(), "tasks": [killed]})
    assert agent.drain["state"] == "DRAINING"
    told = {"agent_id": {"value": identity}, "task_id": {"value": "t1"}, "uuid": "u"}
    parts.calls.handle(
        cluster, "marathon", framework.stream, {"type": "ACKNOWLEDGE", "framework_id": {"value": framework.id}, "acknowledge": told}
    )
    assert agent.drain["state"] == "DRAINED" and saved[-1]["agents"][identity]["drain"]["state"] == "DRAINED"


def test_an_agent_takes_the_place_of_a_former_one_at_its_address(parts):
    cluster, saved = cluster_of(parts)
    former = cluster.report("agents", {"info": info(), "tasks": []})["id"]
    other = cluster.report("agents", {"info": {**info(), "ip": "192.0.2.6"}, "tasks": []})["id"]
    framework = subscribed(parts, cluster)
    cluster.agents[other].deactivated = True
    cluster.allocate()
    launch(parts, cluster, framework)
    new = cluster.report("agents", {"info": {**info(), "attributes": {"rack": "r1"}}, "tasks": []})["id"]
    assert set(cluster.agents) == set(saved[-1]["agents"]) == {new, other} and former not in (new, other)
    states = [event["update"]["status"]["state"] for event in framework.events if event["type"] == "UPDATE"]
    assert states == ["TASK_GONE"]


def test_frameworks_of_root_or_of_others_are_refused(parts):
    cluster, _saved = cluster_of(parts)
    with pytest.raises(ValueError, match="without --root_submissions set"):
        cluster.subscribe("marathon", {"name": "m", "user": "root", "principal": "marathon"})
    with pytest.raises(ValueError, match="Not authorized to register framework"):
        cluster.subscribe("operator", {"name": "m", "user": "nobody", "principal": "operator"})
    with pytest.raises(parts.web.Failure):
        cluster.report("marathon", {"info": info(), "tasks": []})


def test_of_an_agent_that_has_not_come_back_nothing_is_said(parts):
    cluster, _saved = cluster_of(parts)
    cluster.registry = {"agents": {"a1": {}}, "removed": []}
    framework = subscribed(parts, cluster)
    framework.events.clear()
    wanted = [{"task_id": {"value": "t1"}, "agent_id": {"value": "a1"}}, {"task_id": {"value": "t2"}, "agent_id": {"value": "a2"}}]
    parts.calls.reconcile(cluster, framework, wanted)
    assert [event["update"]["status"]["task_id"]["value"] for event in framework.events] == ["t2"]


def test_a_silent_agent_is_not_listed_and_one_of_a_former_leader_is_recovered(parts):
    cluster, saved = cluster_of(parts)
    first = {"info": info(), "tasks": []}
    identity = cluster.report("agents", first)["id"]
    assert [agent.id for agent in cluster.listed()] == [identity]
    cluster.agents[identity].seen -= 1000
    cluster.allocate()
    assert cluster.listed() == [] and saved[-1]["agents"][identity]["unreachable"]
    cluster.report("agents", {**first, "id": identity})
    assert [agent.id for agent in cluster.listed()] == [identity]
    later, _saved = cluster_of(parts)
    later.registry = saved[-1]
    assert later.recovered() == [{"id": identity, "hostname": "gpu1", "port": 5051}]
    later.report("agents", {**first, "id": identity})
    assert later.recovered() == []


def app(parts, former=None, **body):
    return parts.apps.complete({"id": "/a", "cmd": "true", **body}, former, {10000}, 10000, 10010, True)


def test_marathon_gives_service_ports(parts):
    assert app(parts)["ports"] == [10001]
    assert app(parts, ports=[80])["ports"] == [80]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"gpus": 1, "container": {"type": "DOCKER", "docker": {"image": "x"}}}, "GPU resources only work with the Mesos containerizer"),
        ({"id": "/Upper"}, "must fully match regular expression"),
        ({"cmd": ""}, "must either contain one of"),
        ({"mem": -1}, "expected 0 or more"),
    ],
)
def test_marathon_refuses_applications(parts, body, text):
    with pytest.raises(parts.web.Failure) as failure:
        app(parts, **body)
    assert failure.value.reply.status == 422 and text in json.dumps(failure.value.reply.body)


def test_an_upgrade_keeps_as_many_as_must_be_healthy(parts):
    wanted = app(parts, instances=2)
    former = [{"state": "TASK_RUNNING"}, {"state": "TASK_RUNNING"}]
    assert parts.apps.steps(wanted, [], former) == (2, [])
    running = [{"state": "TASK_RUNNING", "stagedAt": "1"}, {"state": "TASK_STAGING", "stagedAt": "2"}]
    assert parts.apps.steps(wanted, running, former) == (0, former[:1])


def test_a_restricted_marathon_keeps_gpus(parts):
    offer = {"hostname": "h", "resources": parts.resources.to_json(info(gpus=1.0)["resources"]), "attributes": []}
    assert not parts.apps.matches(app(parts), offer, [], "restricted")
    assert parts.apps.matches(app(parts), offer, [], "unrestricted")
    assert parts.apps.matches(app(parts, gpus=1), offer, [], "restricted")


def test_chronos_drops_gpus_without_its_patch(parts):
    body = {"name": "j", "command": "true", "schedule": "R1//PT1H", "gpus": 1}
    assert "gpus" not in parts.jobs.complete(body, None, False)
    assert parts.jobs.complete(body, None, True)["gpus"] == 1


def test_a_schedule_is_due_once_for_all_that_was_missed(parts):
    now = datetime(2026, 1, 2, 12, 30, tzinfo=timezone.utc)
    job = parts.jobs.complete({"name": "j", "command": "x", "schedule": "R/2026-01-01T00:00:00Z/PT1H"}, None, False)
    start, job = parts.jobs.due(job, now)
    assert start and job["schedule"] == "R/2026-01-02T12:00:00.000Z/PT1H"
    start, job = parts.jobs.due(job, now)
    assert start and job["schedule"].startswith("R/2026-01-02T13")
    assert parts.jobs.due(job, now) == (False, job)
    with pytest.raises(parts.web.Failure):
        parts.jobs.complete({"name": "j", "schedule": "daily"}, None, False)


def test_control_groups_are_found_by_their_mounts(parts):
    mounts = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
    assert parts.tasks.hierarchy("devices", mounts) is None
    mounts += "cgroup /sys/fs/cgroup/devices cgroup rw,devices 0 0\n"
    assert parts.tasks.hierarchy("devices", mounts) == Path("/sys/fs/cgroup/devices")


def test_the_trust_store_of_the_role_is_read(parts, tmp_path):
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=authority"]
    made = subprocess.run([*command, "-keyout", tmp_path / "key"], capture_output=True, text=True, check=True)
    path = tmp_path / "trust.jks"
    path.write_bytes(frameworks.frameworks.truststore(made.stdout))
    context = parts.web.java_trust(f"-Xmx64m -Djavax.net.ssl.trustStore={path}")
    assert [entry["subject"] for entry in context.get_ca_certs()] == [((("commonName", "authority"),),)]


def test_tarballs_have_programs_and_the_same_bytes(tmp_path):
    for folder in ("one", "two"):
        subprocess.run([sys.executable, HERE / "pack", tmp_path / folder], check=True)
    sums = (tmp_path / "one/SHA256SUMS").read_text(encoding="ascii")
    assert sums == (tmp_path / "two/SHA256SUMS").read_text(encoding="ascii")
    programs = {"mesos-1.11.0": "usr/sbin/mesos-agent", "marathon-1.5.15": "bin/marathon", "chronos-3.0.2-gpu": "bin/chronos"}
    for name, program in programs.items():
        archive = tmp_path / "one" / f"{name}.tar.gz"
        assert f"{hashlib.sha256(archive.read_bytes()).hexdigest()}  {archive.name}\n" in sums
        with tarfile.open(archive) as opened:
            assert opened.getmember(program).mode == 0o755


class Refusing(Exception):
    """As ZooKeeper refuses, or is away."""


@pytest.fixture
def zookeeper(monkeypatch):
    """A client that keeps what it was asked for; kazoo is only on hosts."""

    class Client:
        made: ClassVar[list[tuple[str, object]]] = []
        away = True
        started = ""

        def __init__(self, **options):
            self.options = options

        def start(self, timeout):
            Client.started = "waited"

        def start_async(self):
            Client.started = "goes on"

        def add_listener(self, listener):
            """Nothing is lost here."""

        def retry(self, function, *arguments):
            return function(*arguments)

        def ensure_path(self, path, acl):
            Client.made.append((path, acl))

        def get_children(self, path):
            if Client.away:
                raise Refusing
            return ["json.info_0000000002", "json.info_0000000001"] if Client.made else []

        def get(self, path):
            return json.dumps({"path": path}).encode(), None

    names = {
        "kazoo": {},
        "kazoo.client": {"KazooClient": Client, "KazooState": None},
        "kazoo.exceptions": {"KazooException": Refusing, "NoAuthError": KeyError, "NoNodeError": LookupError},
        "kazoo.security": {
            "make_digest_acl": lambda user, password, **rights: (user, rights),
            "make_acl": lambda scheme, who, **rights: (who, rights),
        },
    }
    # A session sets it for the whole process.
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    for name, content in names.items():
        module = types.ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    return Client


def test_everybody_reads_who_leads_and_nothing_else(parts, zookeeper):
    """EVERYONE_READ_CREATOR_ALL (src/zookeeper/authentication.cpp); Marathon and Chronos have CREATOR_ALL."""
    zookeeper.away = False
    keeper = parts.keeper.Keeper(parts.keeper.place("zk://mesos:secret@m1:2181/mesos", "no"))
    keeper.ensure("/mesos", everybody_reads=True)
    keeper.ensure("/marathon")
    mine = ("mesos", {"all": True})
    assert zookeeper.made == [("/mesos", [mine, ("anyone", {"read": True})]), ("/marathon", [mine])]
    assert zookeeper.started == "waited"


def test_who_looks_for_a_leader_goes_on_until_zookeeper_serves(parts, zookeeper):
    keeper = parts.keeper.Keeper(parts.keeper.place("zk://m1:2181/mesos", "no"), candidate=False)
    assert zookeeper.started == "goes on" and parts.keeper.mesos_leader(keeper) is None
    zookeeper.away, zookeeper.made = False, [("/mesos", None)]
    assert parts.keeper.mesos_leader(keeper) == {"path": "/mesos/json.info_0000000001"}
