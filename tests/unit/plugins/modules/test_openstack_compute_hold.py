# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module openstack_compute_hold against an API in memory: no server may end by it."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._openstack import compute_hold
from ansible_collections.deephdc.accelerators.plugins.modules import openstack_compute_hold

REASON = "gpu_hold: nvidia_driver"


class Answer:
    def __init__(self, content, status_code=200):
        self.status_code = status_code
        self.text = json.dumps(content)

    def json(self):
        return json.loads(self.text)


class Service:
    """One service of the cloud: answers by path, and what was changed."""

    def __init__(self, cloud, name):
        self.cloud = cloud
        self.name = name

    def get(self, path, params=None, **_options):
        self.cloud.asked.append((self.name, path, params))
        return self.cloud.get(self.name, path, params or {})

    def put(self, path, json=None, **_options):
        self.cloud.changes.append((path, json))
        (service,) = self.cloud.services
        service.update(status=json["status"], disabled_reason=json.get("disabled_reason"))
        return Answer({})


class Cloud:
    def __init__(self):
        self.services = [{"id": "s1", "host": "lxd1", "status": "enabled", "disabled_reason": None}]
        self.servers = []
        self.providers = {"lxd1": []}  # by root: names of GPUs
        self.allocations = {}
        self.asked = []
        self.changes = []
        self.broken = ""
        self.ends = None
        for name in ("compute", "placement", "identity"):
            setattr(self, name, Service(self, name))

    def get(self, name, path, params):
        if self.broken == name:
            return Answer("no database", 503)
        if path == "/os-services":
            assert params == {"binary": "nova-compute", "host": "lxd1"}
            return Answer({"services": self.services})
        if path == "/servers/detail":
            assert (params["all_tenants"], params["host"]) == ("1", "lxd1")
            if self.ends and self.changes:
                self.servers = [server for server in self.servers if server["id"] != self.ends]
            begin = [server["id"] for server in self.servers].index(params["marker"]) + 1 if params.get("marker") else 0
            return Answer({"servers": self.servers[begin : begin + 2]})
        if path == "/resource_providers":
            if "name" in params:
                return Answer(
                    {
                        "resource_providers": [{"uuid": "root", "name": params["name"]}]
                        if self.providers.get(params["name"]) is not None
                        else []
                    }
                )
            names = ["lxd1", *(f"lxd1_gpu_{key}" for key in self.providers["lxd1"])]
            return Answer({"resource_providers": [{"uuid": name, "name": name} for name in names]})
        if path.startswith("/resource_providers/"):
            return Answer({"allocations": {server: {} for server in self.allocations.get(path.split("/")[2], [])}})
        if path == "/users/u1":
            return Answer({"user": {"name": "ada"}})
        if path == "/projects/p1":
            return Answer({"project": {"name": "physics"}})
        return Answer({}, 404)

    def run(self, number, state=1, task=None, user="u1", gpu=None):
        server = {"id": f"i{number}", "name": f"n{number}", "user_id": user, "tenant_id": "p1"}
        self.servers.append({**server, "OS-EXT-STS:power_state": state, "OS-EXT-STS:task_state": task})
        if gpu:
            self.providers["lxd1"].append(gpu)
            self.allocations[f"lxd1_gpu_{gpu}"] = [f"i{number}"]


@pytest.fixture
def cloud():
    return Cloud()


@pytest.fixture
def hold(run, cloud, monkeypatch):
    monkeypatch.setattr(openstack_compute_hold, "POLL", 0.01)
    monkeypatch.setattr(openstack_compute_hold, "LIBRARY_ERROR", None)
    monkeypatch.setattr(openstack_compute_hold, "entered", lambda name: cloud if name == "deephdc-admin" else None)

    def run_module(state="held", **options):
        reason = {"reason": REASON} if state == "held" else {}
        return run(openstack_compute_hold, **{"cloud": "deephdc-admin", "name": "lxd1", "state": state, **reason, **options})

    return run_module


def test_an_empty_host_is_held_once(hold, cloud):
    result = hold()
    assert (result["changed"], result["known"], result["held"], result["kept"], result["summary"]) == (True, True, True, "", [])
    assert cloud.changes == [("/os-services/s1", {"status": "disabled", "disabled_reason": REASON})]
    assert result["diff"]["before"] == "reason \nstatus enabled\n" and result["diff"]["after"] == f"reason {REASON}\nstatus disabled\n"
    again = hold()
    assert (again["changed"], again["held"]) == (False, True) and len(cloud.changes) == 1


def test_a_host_that_another_role_holds_keeps_its_reason(hold, cloud):
    cloud.services[0].update(status="disabled", disabled_reason="gpu_hold: pci_passthrough")
    assert (hold()["changed"], cloud.services[0]["disabled_reason"]) == (False, "gpu_hold: pci_passthrough")


@pytest.mark.parametrize(("reason", "because"), [("memory is replaced", " (memory is replaced)"), (None, "")])
def test_what_an_administrator_disabled_stays_so(hold, cloud, reason, because):
    cloud.services[0].update(status="disabled", disabled_reason=reason)
    result = hold()
    assert (result["changed"], result["held"]) == (False, False)
    assert result["kept"] == f"the compute service of lxd1 was disabled by an administrator{because} and stays so"
    assert hold("released")["changed"] is False and cloud.changes == []


def test_what_the_driver_disabled_is_held(hold, cloud):
    """Else it would enable the service in the middle of the hold."""
    cloud.services[0].update(status="disabled", disabled_reason="AUTO: LXD does not answer")
    assert hold()["held"] is True and cloud.services[0]["disabled_reason"] == REASON


def test_release_enables_what_was_held_only(hold, cloud):
    assert hold("released")["changed"] is False
    hold()
    result = hold("released")
    assert (result["changed"], result["held"], cloud.services[0]["status"]) == (True, False, "enabled")


def test_owners_of_running_servers_are_named(hold, cloud):
    cloud.run(1, gpu="0000:01:00.0")
    cloud.run(2, state=4)
    cloud.run(3, state=0, task="spawning", user="u9")
    result = hold()
    assert result["summary"] == [
        "server i1 (n1) of ada in the project physics with the GPU 0000:01:00.0",
        "server i3 (n3) of u9 in the project physics",
    ]
    assert [path for path, _body in cloud.changes] == ["/os-services/s1"]


def test_only_servers_with_the_devices_are_waited_for(hold, cloud):
    cloud.run(1, gpu="0000:01:00.0")
    cloud.run(2, gpu="0000:02:00.0")
    cloud.run(3)
    cloud.run(4, gpu="MIG-7")

    def waited(**options):
        return [server["id"] for server in hold(servers="devices", **options)["servers"]]

    assert waited() == ["i1", "i2", "i4"]
    assert waited(devices=["0000:02:00.0"]) == ["i2", "i4"]
    assert [server["id"] for server in hold()["servers"]] == ["i1", "i2", "i3", "i4"]


def test_stopped_servers_keep_their_devices(hold, cloud):
    cloud.run(1, state=4, gpu="0000:01:00.0")
    cloud.run(2, gpu="0000:02:00.0")
    cloud.run(3, state=4)

    def present(*devices):
        return [server["id"] for server in hold(servers="present", devices=list(devices))["servers"]]

    cloud.run(4, gpu="MIG-7")
    assert (present("0000:01:00.0"), present()) == (["i1"], ["i1", "i2", "i3", "i4"])
    assert (present("mig-7", "0000:02:00.0"), present("MIG-8")) == (["i2", "i4"], [])


def test_it_waits_for_servers(hold, cloud):
    cloud.run(1)
    cloud.ends = "i1"
    assert hold(wait=20)["summary"] == []


def test_the_wait_ends(hold, cloud):
    cloud.run(1)
    assert len(hold(wait=0.05)["summary"]) == 1


def test_check_mode_reads_and_changes_nothing(hold, cloud):
    cloud.run(1)
    result = hold(_ansible_check_mode=True, wait=60)
    assert (result["changed"], result["held"], len(result["summary"]), cloud.changes) == (True, True, 1, [])


def test_a_host_that_nova_does_not_have(hold, cloud):
    cloud.services = []
    result = hold()
    assert (result["changed"], result["known"], result["held"]) == (False, False, False)
    assert hold("released")["changed"] is False


def test_a_host_without_providers_has_servers_without_gpus(hold, cloud):
    cloud.providers = {}
    cloud.run(1)
    assert hold()["servers"][0]["gpus"] == []


@pytest.mark.parametrize(("broken", "who"), [("compute", "Nova"), ("placement", "Placement")])
def test_an_api_that_is_down_is_named(hold, cloud, broken, who):
    cloud.broken = broken
    result = hold()
    assert result["failed"] and f"{who} answers with the error 503" in result["msg"]


def test_a_reason_that_could_not_be_known_later_is_refused(hold, cloud):
    assert "gpu_hold: " in hold(reason="because")["msg"] and cloud.changes == []


def drain(hold, state="held", reason="new fan", **options):
    return hold(state, mark="drained", **({"reason": reason} if state == "held" else {}), **options)


def test_a_drained_host_keeps_its_reason_and_is_given_back(hold, cloud):
    result = drain(hold)
    assert (result["changed"], result["held"], result["reason"]) == (True, True, "new fan")
    assert cloud.services[0]["disabled_reason"] == "drained: new fan"
    again = drain(hold, reason="other")
    assert (again["changed"], again["held"], again["reason"]) == (False, True, "new fan")
    back = drain(hold, "released")
    assert (back["changed"], back["left"], cloud.services[0]["status"]) == (True, "", "enabled")
    assert drain(hold, "released")["changed"] is False


def test_marks_do_not_touch_each_other(hold, cloud):
    """The host gets servers again when none is left, whichever goes first."""
    both = f"drained: new fan + {REASON}"
    drain(hold)
    result = hold()
    assert (result["changed"], result["held"], result["kept"], result["reason"]) == (True, True, "", REASON[len("gpu_hold: ") :])
    assert cloud.services[0]["disabled_reason"] == both
    assert hold()["changed"] is False and drain(hold)["changed"] is False
    result = hold("released")
    assert (result["changed"], result["reason"], cloud.services[0]["disabled_reason"]) == (True, "", "drained: new fan")
    hold()
    result = drain(hold, "released")
    assert (result["changed"], result["left"]) == (True, f"lxd1 stays disabled, because the role gpu_hold holds it ({REASON}).")
    assert cloud.services[0]["disabled_reason"] == REASON
    result = drain(hold)
    assert (result["held"], result["reason"], cloud.services[0]["disabled_reason"]) == (True, "new fan", f"{REASON} + drained: new fan")
    assert hold("released")["changed"] and drain(hold, "released")["changed"]
    assert cloud.services[0]["status"] == "enabled"


@pytest.mark.parametrize("length", [200, 225, 233, 234, 240, 255, 300])
@pytest.mark.parametrize("first", ["held", "drained"])
def test_a_long_reason_takes_no_mark_away(hold, cloud, first, length):
    long = "x" * length
    steps = [hold, lambda: drain(hold, reason=long)]
    for step in steps if first == "held" else steps[::-1]:
        assert step()["held"]
    said = cloud.services[0]["disabled_reason"]
    assert len(said) <= 255 and REASON in said and "drained: xxx" in said
    assert hold("released")["changed"] and cloud.services[0]["disabled_reason"].startswith("drained: xxx")
    assert drain(hold, "released")["changed"] and cloud.services[0]["status"] == "enabled"


@pytest.mark.parametrize("reason", ["swap + gpu_hold: see the ticket", "new + drained: twice"])
def test_a_reason_that_would_be_two_marks_is_refused(hold, cloud, reason):
    assert "would be read as two" in drain(hold, reason=reason)["msg"] and cloud.changes == []


@pytest.mark.parametrize(
    ("service", "unfit", "sentence"),
    [
        ({"disabled_reason": "drained: x"}, "a100 is missing", "lxd1 stays as it is, because a100 is missing: repair it"),
        ({"disabled_reason": "drained: x", "state": "down"}, "", "because its compute service is down: start nova-compute there"),
        ({"status": "enabled", "state": "down"}, "", "because its compute service is down"),
        (
            {"disabled_reason": "memory"},
            "",
            "no run of openstack_drain did that (memory): 'openstack compute service set --enable lxd1 nova-compute'",
        ),
        ({"disabled_reason": None}, "", "no run of openstack_drain did that: 'openstack compute"),
        ({"disabled_reason": "AUTO: LXD is silent"}, "", "its driver disabled it (AUTO: LXD is silent): start LXD there"),
    ],
)
def test_a_host_that_is_not_given_back_is_named_with_the_cause(hold, cloud, service, unfit, sentence):
    cloud.services[0].update({"status": "disabled", "state": "up", **service})
    result = drain(hold, "released", unfit=unfit)
    assert sentence in result["left"] and result["changed"] is False and cloud.changes == []


def test_a_host_in_service_needs_nothing(hold, cloud):
    cloud.services[0]["state"] = "up"
    result = drain(hold, "released")
    assert (result["changed"], result["left"]) == (False, "")


def test_stopped_servers_are_there_too(hold, cloud):
    cloud.run(1)
    cloud.run(2, state=4)
    assert [server["id"] for server in hold(servers="present")["servers"]] == ["i1", "i2"]
    assert hold(servers="none")["servers"] == []


@pytest.mark.parametrize(
    ("known", "is_waited_for"),
    [
        ({"OS-EXT-STS:power_state": 1}, True),
        ({"OS-EXT-STS:power_state": 3}, True),
        ({"OS-EXT-STS:power_state": 4}, False),
        ({"OS-EXT-STS:power_state": 6}, False),
        ({"OS-EXT-STS:power_state": 4, "OS-EXT-STS:task_state": "powering-on"}, True),
        ({"OS-EXT-STS:power_state": 0, "OS-SRV-USG:launched_at": "2026-11-26T08:00:00"}, True),
        ({"OS-EXT-STS:power_state": 0, "OS-SRV-USG:launched_at": "2026-11-26T08:00:00", "OS-EXT-STS:vm_state": "stopped"}, False),
        ({"OS-EXT-STS:power_state": 0, "OS-SRV-USG:launched_at": None, "OS-EXT-STS:vm_state": "error"}, False),
    ],
)
def test_a_server_is_waited_for_unless_it_is_known_to_be_stopped(known, is_waited_for):
    """A busy LXD does not say for a moment what a server does."""
    assert compute_hold.may_run(known) == is_waited_for
