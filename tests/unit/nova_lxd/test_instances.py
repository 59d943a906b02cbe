# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Instances of LXD as servers of Nova."""

from __future__ import annotations

import base64
import json
import time
import types
import typing as t

import pytest
from fake_lxd import FakeLXD
from nova_lxd import instances as subject
from nova_lxd import resize
from nova_lxd.client import Client
from nova_lxd.errors import LXDError, LXDUnavailable, Unacceptable
from nova_lxd.instances import GPUS, UUID, Instances


@pytest.fixture
def instances(client: Client) -> Instances:
    return Instances(client)


def flavor(**changes: t.Any) -> t.Any:
    values = {"vcpus": 2, "memory_mb": 512, "root_gb": 10, "ephemeral_gb": 0, "swap": 0, "extra_specs": {}}
    return types.SimpleNamespace(**{**values, **changes})


def server(**changes: t.Any) -> t.Any:
    values = {"name": "i-1", "uuid": "u-1", "hostname": "web", "user_data": None, "key_data": None, "flavor": flavor()}
    return types.SimpleNamespace(**{**values, **changes})


def test_other_instances_are_left_out(lxd: FakeLXD, instances: Instances) -> None:
    lxd.add("i-1", {UUID: "u-1"})
    lxd.add("private", {})
    assert [record["name"] for record in instances.all()] == ["i-1"]
    assert instances.find("private", "u-1") is None
    assert instances.find("i-1", "u-2") is None, "another server has this name"
    assert instances.find("missing", "u-1") is None
    assert (instances.find("i-1", "u-1") or {})["name"] == "i-1"


def test_an_edit_keeps_what_another_process_changed_meanwhile(lxd: FakeLXD, instances: Instances) -> None:
    lxd.add("i-1", {UUID: "u-1"})
    lxd.before.append(("PUT", "/instances/i-1$", lambda: lxd.instances["i-1"]["config"].update(theirs="1")))
    instances.edit("i-1", lambda record: record["config"].update(ours="1"))
    assert lxd.instances["i-1"]["config"] == {UUID: "u-1", "theirs": "1", "ours": "1"}
    assert lxd.asked("PUT", "/instances/i-1$") == 2


def test_an_edit_gives_up_where_another_process_never_stops(lxd: FakeLXD, instances: Instances) -> None:
    lxd.add("i-1", {UUID: "u-1"})
    lxd.refusals.extend([("PUT", "/instances/i-1$", 412, "Precondition failed")] * 20)
    with pytest.raises(LXDError, match="Precondition"):
        instances.edit("i-1", lambda record: record["config"].update(ours="1"))
    assert lxd.asked("PUT", "/instances/i-1$") == subject.ATTEMPTS


def test_an_edit_that_changes_nothing_asks_for_nothing(lxd: FakeLXD, instances: Instances) -> None:
    lxd.add("i-1", {UUID: "u-1"})
    instances.edit("i-1", lambda record: record["config"].pop("missing", None))
    assert lxd.asked("PUT", "") == 0


def test_starts_and_stops_what_is_not_yet(lxd: FakeLXD, instances: Instances) -> None:
    record = lxd.add("i-1", {UUID: "u-1"})
    instances.start("i-1")
    instances.start("i-1")
    assert record["status"] == "Running"
    assert instances.stop("i-1", timeout=10)
    assert instances.stop("i-1")
    assert record["status"] == "Stopped"
    assert lxd.asked("PUT", "/state") == 2


def test_a_server_that_does_not_react_is_stopped_by_force(lxd: FakeLXD, instances: Instances) -> None:
    record = lxd.add("i-1", {UUID: "u-1"}, status="Running")
    lxd.stubborn.add("i-1")
    assert not instances.stop("i-1", timeout=1)
    assert record["status"] == "Stopped"


def test_a_frozen_server_is_asked_to_stop(lxd: FakeLXD, instances: Instances) -> None:
    lxd.add("i-1", {UUID: "u-1"}, status="Frozen")
    assert instances.stop("i-1", timeout=1)


def test_a_frozen_server_is_started_by_letting_it_run(lxd: FakeLXD, instances: Instances) -> None:
    record = lxd.add("i-1", {UUID: "u-1"}, status="Frozen")
    instances.start("i-1")
    assert record["status"] == "Running"


def test_a_server_that_stopped_meanwhile_is_stopped(lxd: FakeLXD, instances: Instances) -> None:
    record = lxd.add("i-1", {UUID: "u-1"}, status="Running")
    lxd.before.append(("PUT", "/state", lambda: record.update(status="Stopped")))
    instances.stop("i-1")


def test_deleting_twice_is_deleting(lxd: FakeLXD, instances: Instances) -> None:
    lxd.add("i-1", {UUID: "u-1"})
    instances.delete("i-1")
    instances.delete("i-1")
    assert lxd.instances == {}


def test_settles_what_a_killed_run_began(lxd: FakeLXD, instances: Instances) -> None:
    lxd.operation_seconds = 1
    lxd.start_operation("Creating instance", lambda: lxd.add("i-1", {UUID: "u-1"}), "i-1")
    lxd.operation_seconds = 30
    lxd.start_operation("Creating instance", lambda: None, "i-10")
    instances.settle("i-1")
    assert "i-1" in lxd.instances


def test_does_not_settle_for_ever(lxd: FakeLXD) -> None:
    lxd.operation_seconds = 30
    lxd.start_operation("Creating instance", lambda: None, "i-1")
    begin = time.monotonic()
    with pytest.raises(LXDUnavailable):
        Instances(Client(lxd.path, timeout=5, patience=1)).settle("i-1")
    assert time.monotonic() - begin < 10


def test_a_servers_configuration() -> None:
    config = subject.configuration(server(key_data="ssh-ed25519 AAAA ada\n", user_data=base64.b64encode(b"#cloud-config\n").decode()), 100)
    assert json.loads(config.pop("user.meta-data")) == {
        "instance-id": "u-1",
        "local-hostname": "web",
        "public-keys": ["ssh-ed25519 AAAA ada"],
    }
    assert config == {
        "limits.cpu": "2",
        "limits.processes": "100",
        "security.idmap.isolated": "true",
        "limits.memory": "512MiB",
        "boot.autostart": "false",
        "user.user-data": "#cloud-config\n",
        "user.nova.hostname": "web",
        UUID: "u-1",
    }


def test_compressed_user_data_is_left_to_the_metadata_service() -> None:
    assert "user.user-data" not in subject.configuration(server(user_data=base64.b64encode(b"\x1f\x8b\x00\xff").decode()), 100)


@pytest.mark.parametrize(("value", "nested"), [("true", True), ("True", True), ("false", False), ("", False)])
def test_nesting_is_a_flavors(value: str, nested: bool) -> None:
    assert ("security.nesting" in subject.limits(flavor(extra_specs={"lxd:nested_allowed": value}), 100)) is nested


def test_no_flavor_makes_a_server_privileged() -> None:
    specs = {"lxd:privileged_allowed": "true", "security.privileged": "true", "lxd:isolated": "false"}
    assert set(subject.limits(flavor(extra_specs=specs), 100)) == {"limits.cpu", "limits.memory", "limits.processes"}


def test_limits_of_the_root_disk() -> None:
    assert subject.root_device(flavor(), "nova") == {"type": "disk", "path": "/", "pool": "nova", "size": "10GiB"}
    assert "size" not in subject.root_device(flavor(root_gb=0), "nova")
    limited = subject.root_device(flavor(extra_specs={"quota:disk_read_bytes_sec": "1000", "quota:disk_write_iops_sec": "50"}), "nova")
    assert (limited["limits.read"], limited["limits.write"]) == ("1000B", "50iops")


@pytest.mark.parametrize("disk", ["ephemeral_gb", "swap"])
def test_other_disks_are_refused(disk: str) -> None:
    with pytest.raises(Unacceptable, match="have a root disk only"):
        subject.refuse_flavor(flavor(**{disk: 1}))
    subject.refuse_flavor(flavor())


def test_a_resize_can_be_taken_back() -> None:
    port = {"type": "nic", "name": "eth0"}
    record = {
        "config": {"limits.cpu": "1", "limits.memory": "1MiB", GPUS: "a", "nvidia.runtime": "true", "volatile.x": "1", UUID: "u"},
        "devices": {"root": {"size": "1GiB"}, "gpu0": {"pci": "a"}, "gpu1": {"pci": "b"}, "port-1": port},
    }
    before = json.loads(json.dumps(record))
    kept = resize.before_resize(record)
    for _time in range(2):  # a resize that is repeated keeps what the server was at first
        resize.change(record, {"limits.cpu": "2", "limits.memory": "2MiB", GPUS: ""}, {"root": {"size": "2GiB"}})
    assert record["config"] == {"limits.cpu": "2", "limits.memory": "2MiB", GPUS: "", "volatile.x": "1", UUID: "u", resize.BEFORE: kept}
    assert record["devices"] == {"root": {"size": "2GiB"}, "port-1": port}
    assert resize.restore(record)
    assert record == before
    assert not resize.restore(record)


@pytest.mark.parametrize(("used", "size"), [(0, "1GiB"), (1 << 30, "1GiB"), ((1 << 30) + 1, "5GiB")])
def test_a_disk_that_is_too_full_for_its_former_size_keeps_the_new_one(used: int, size: str) -> None:
    record: dict[str, t.Any] = {"config": {}, "devices": {"root": {"size": "1GiB"}}}
    resize.change(record, {}, {"root": {"size": "5GiB"}})
    resize.restore(record, used)
    assert record["devices"] == {"root": {"size": size}}


def test_the_usage_of_a_disk_is_read_where_the_pool_counts_it(lxd: FakeLXD, instances: Instances) -> None:
    lxd.add("i-1", {UUID: "u-1"})
    assert instances.disk_usage("i-1") == 0
    lxd.usage["i-1"] = 123
    assert instances.disk_usage("i-1") == 123
