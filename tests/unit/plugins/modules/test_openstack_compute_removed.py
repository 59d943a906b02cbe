# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module openstack_compute_removed against APIs in memory: a host with a server stays, unless a person said so."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._openstack import compute_removal
from ansible_collections.deephdc.accelerators.plugins.modules import openstack_compute_removed


class Answer:
    def __init__(self, content=None, status_code=200):
        self.status_code = status_code
        self.text = json.dumps(content)

    def json(self):
        return json.loads(self.text)


class Service:
    def __init__(self, cloud, name):
        self.cloud, self.name = cloud, name

    def get(self, path, params=None, **_options):
        return self.cloud.get(path, params or {})

    def put(self, path, json=None, **_options):
        self.cloud.changes.append(("put", path, json))
        self.cloud.services[0].update(json)
        return Answer({})

    def delete(self, path, **_options):
        self.cloud.changes.append(("delete", path))
        return self.cloud.delete(path)


class Cloud:
    def __init__(self):
        self.services = [{"id": "s1", "host": "lxd3", "status": "disabled", "disabled_reason": "drained: x"}]
        self.servers = []
        self.agents = [
            {"id": "a1", "binary": "neutron-linuxbridge-agent", "host": "lxd3"},
            {"id": "a2", "binary": "neutron-dhcp-agent", "host": "lxd3"},
        ]
        self.providers = [
            {"uuid": "root", "name": "lxd3", "parent_provider_uuid": None},
            {"uuid": "gpu", "name": "lxd3_gpu_0000:01:00.0", "parent_provider_uuid": "root"},
        ]
        self.allocations = {}
        self.changes = []
        self.stuck = False
        self.refuses = ""
        for name in ("compute", "placement", "identity", "network"):
            setattr(self, name, Service(self, name))

    def get(self, path, params):
        if path == "/os-services":
            return Answer({"services": self.services})
        if path == "/servers/detail":
            return Answer({"servers": [] if params.get("marker") else self.servers})
        if path == "/agents":
            assert params == {"host": "lxd3"}
            return Answer({"agents": self.agents})
        if path == "/resource_providers":
            roots = [one for one in self.providers if one["name"] == params.get("name")]
            return Answer({"resource_providers": roots if "name" in params else self.providers})
        if path.endswith("/allocations"):
            return Answer({"allocations": self.allocations.get(path.split("/")[2], {})})
        return Answer({}, 404)

    def delete(self, path):
        kind, identifier = path.strip("/").split("/")
        if kind == self.refuses:
            return Answer("in use", 409)
        if kind == "servers":
            there = [server for server in self.servers if server["id"] == identifier]
            if not self.stuck:
                self.servers = [server for server in self.servers if server["id"] != identifier]
            return Answer(None, 204 if there else 404)
        if kind == "os-services":
            # Nova deletes the providers that nothing keeps.
            self.services, self.providers = [], self.providers[1:]
            return Answer(None, 204)
        listed = {"agents": self.agents, "resource_providers": self.providers}[kind]
        found = [one for one in listed if identifier in (one.get("id"), one.get("uuid"))]
        for one in found:
            listed.remove(one)
        return Answer(None, 204 if found else 404)

    def run(self, number, state=1):
        server = {"id": f"i{number}", "name": f"n{number}", "user_id": "u1", "tenant_id": "p1"}
        self.servers.append({**server, "OS-EXT-STS:power_state": state})


@pytest.fixture
def cloud():
    return Cloud()


@pytest.fixture
def removed(run, cloud, monkeypatch):
    monkeypatch.setattr(openstack_compute_removed, "POLL", 0.01)
    monkeypatch.setattr(openstack_compute_removed, "LIBRARY_ERROR", None)
    monkeypatch.setattr(openstack_compute_removed, "entered", lambda name: cloud if name == "deephdc-admin" else None)
    return lambda **options: run(openstack_compute_removed, **{"cloud": "deephdc-admin", "name": "lxd3", **options})


def test_all_of_an_empty_host_goes_once(removed, cloud):
    result = removed()
    assert result["changes"] == [
        "Nova forgets the compute service of lxd3.",
        "Neutron forgets neutron-linuxbridge-agent of lxd3.",
        "Placement forgets lxd3_gpu_0000:01:00.0.",
        "Placement forgets lxd3.",
    ]
    # Another agent there serves the whole cloud.
    assert (cloud.services, cloud.providers, [one["id"] for one in cloud.agents]) == ([], [], ["a2"])
    again = removed()
    assert (again["changed"], again["changes"]) == (False, [])


def test_what_a_killed_run_left_goes_with_the_next(removed, cloud):
    cloud.services = []
    assert removed()["changed"] is True and cloud.providers == []


@pytest.mark.parametrize("state", [1, 4])
def test_a_host_with_a_server_stays_and_its_owner_is_named(removed, cloud, state):
    cloud.run(1, state)
    result = removed()
    assert result["failed"] and "there is server i1 (n1) of u1 in the project p1" in result["msg"] and cloud.changes == []


def test_a_host_with_something_allocated_stays(removed, cloud):
    cloud.allocations["gpu"] = {"i7": {}}
    result = removed()
    assert result["failed"] and "lxd3_gpu_0000:01:00.0 allocated to i7" in result["msg"] and cloud.changes == []


def test_an_api_that_refuses_is_named(removed, cloud):
    cloud.refuses = "os-services"
    assert "Nova answers with the error 409" in removed()["msg"]
    assert cloud.agents and cloud.providers


def test_check_mode_deletes_nothing(removed, cloud):
    result = removed(_ansible_check_mode=True)
    assert (len(result["changes"]), cloud.changes) == (4, [])
    cloud.run(1)
    assert removed(_ansible_check_mode=True, state="emptied")["changes"] == ["The server i1 (n1) of u1 in the project p1 ends."]
    assert cloud.changes == []


def test_servers_end_only_where_that_is_asked_for(removed, cloud):
    cloud.run(1)
    cloud.run(2, 4)
    result = removed(state="emptied")
    assert len(result["changes"]) == 2 and cloud.servers == []
    assert [change for change in cloud.changes if change[0] == "put"] == []
    assert cloud.services and removed(state="emptied")["changed"] is False


def test_a_dead_host_is_forced_down_before_its_servers_end(removed, cloud):
    cloud.run(1)
    removed(state="emptied", dead=True)
    assert cloud.changes[:2] == [("put", "/os-services/s1", {"forced_down": True}), ("delete", "/servers/i1")]


def test_a_server_that_does_not_end_is_named(removed, cloud):
    cloud.run(1)
    cloud.stuck = True
    result = removed(state="emptied", wait=0.05)
    assert result["failed"] and "After 0.05 s there still is server i1 (n1)" in result["msg"]


def test_children_go_before_their_parents():
    tree = [
        {"uuid": "a", "name": "a", "parent_provider_uuid": None},
        {"uuid": "c", "name": "c", "parent_provider_uuid": "b"},
        {"uuid": "b", "name": "b", "parent_provider_uuid": "a"},
    ]
    assert [one["uuid"] for one in compute_removal.leaves_first(tree)] == ["c", "b", "a"]
