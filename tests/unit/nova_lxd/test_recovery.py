# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What a killed nova-compute left, snapshots, config drives, consoles, ports and the host's resources."""

from __future__ import annotations

import types
import typing as t
from pathlib import Path

import pytest
from fake_lxd import FakeLXD
from nova_lxd import configdrive, console, host, ports, recovery, snapshots
from nova_lxd.client import Client
from nova_lxd.errors import LXDError, Unacceptable
from nova_lxd.instances import UNFINISHED, UUID


def test_a_spawn_that_was_killed_before_the_server_ran_is_removed(lxd: FakeLXD, client: Client, tmp_path: Path) -> None:
    lxd.add("half", {UUID: "u-1", UNFINISHED: "true"})
    lxd.add("stopped", {UUID: "u-2"})
    lxd.add("private", {UNFINISHED: "true"})
    (tmp_path / "nova-lxd-image-x").mkdir()
    (tmp_path / "other").mkdir()
    assert len(recovery.recover(client, str(tmp_path))) == 2
    assert sorted(lxd.instances) == ["private", "stopped"]
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_a_server_that_runs_is_never_stopped(lxd: FakeLXD, client: Client, tmp_path: Path) -> None:
    record = lxd.add("half", {UUID: "u-1", UNFINISHED: "true"}, status="Running")
    recovery.recover(client, str(tmp_path))
    assert record["status"] == "Running"
    assert UNFINISHED not in lxd.instances["half"]["config"], "a later start could take it for one that has never run"
    assert lxd.asked("PUT", "/state") == 0


def test_an_instance_that_lxd_still_makes_is_waited_for(lxd: FakeLXD, client: Client, tmp_path: Path) -> None:
    lxd.add("half", {UUID: "u-1", UNFINISHED: "true"})
    lxd.operation_seconds = 0.5
    lxd.start_operation("Starting instance", lambda: lxd.instances["half"].update(status="Running"), "half")
    recovery.recover(client, str(tmp_path))
    assert lxd.instances["half"]["status"] == "Running"


def test_one_that_can_not_be_removed_does_not_keep_nova_from_starting(lxd: FakeLXD, client: Client, tmp_path: Path) -> None:
    lxd.add("half", {UUID: "u-1", UNFINISHED: "true"})
    lxd.add("other", {UUID: "u-2", UNFINISHED: "true"})
    lxd.failures.append(("DELETE", "/instances/half", "Failed to delete storage volume"))
    assert any("Failed to delete storage volume" in sentence for sentence in recovery.recover(client, str(tmp_path)))
    assert list(lxd.instances) == ["half"]


def test_a_snapshot_is_read_and_nothing_of_it_stays(lxd: FakeLXD, client: Client) -> None:
    lxd.add("one", {UUID: "u-1"}, status="Running")
    with snapshots.exported(client, "one", "glance-9") as file:
        assert file.read(2) == b"\x1f\x8b"
        assert lxd.snapshots["one"] == ["nova-glance-9"]
    assert (lxd.snapshots["one"], lxd.images) == ([], {})
    assert lxd.instances["one"]["status"] == "Running"


def test_nothing_stays_of_a_snapshot_that_was_not_stored(lxd: FakeLXD, client: Client) -> None:
    lxd.add("one", {UUID: "u-1"})
    with pytest.raises(ZeroDivisionError), snapshots.exported(client, "one", "glance-9"):
        raise ZeroDivisionError
    assert (lxd.snapshots["one"], lxd.images) == ([], {})


def test_nothing_stays_of_a_snapshot_that_can_not_be_published(lxd: FakeLXD, client: Client) -> None:
    lxd.add("one", {UUID: "u-1"})
    lxd.failures.append(("POST", "/images$", "no space left on device"))
    with pytest.raises(LXDError, match="no space"), snapshots.exported(client, "one", "glance-9"):
        pass
    assert lxd.snapshots["one"] == []


def test_killed_snapshots_are_removed_at_the_next_start(lxd: FakeLXD, client: Client, tmp_path: Path) -> None:
    lxd.add("one", {UUID: "u-1"})
    lxd.snapshots["one"] = ["nova-glance-9", "an-operators"]
    for key, properties in (("a", {snapshots.PROPERTY: "glance-9"}), ("b", {snapshots.PROPERTY: "glance-8", "nova.image": "glance-8"})):
        lxd.images[key] = {"fingerprint": key, "properties": properties}
    recovery.recover(client, str(tmp_path))
    assert lxd.snapshots["one"] == ["an-operators"]
    assert list(lxd.images) == ["b"], "an image that came back from Glance is one like others"


def test_a_config_drive_is_a_folder_for_root_alone(lxd: FakeLXD, client: Client) -> None:
    lxd.add("one", {UUID: "u-1"})
    configdrive.write(client, "one", [("openstack/latest/meta_data.json", b"{}"), ("openstack/content/0000", "text"), ("../../x", b"")])
    files = {path.replace(configdrive.FOLDER, "@"): value for (_name, path), value in lxd.files.items()}
    assert files == {
        "/var/lib/cloud": ("directory", "0755", b""),
        "/var/lib/cloud/seed": ("directory", "0755", b""),
        "@": ("directory", "0700", b""),
        "@/openstack": ("directory", "0700", b""),
        "@/openstack/latest": ("directory", "0700", b""),
        "@/openstack/latest/meta_data.json": ("file", "0400", b"{}"),
        "@/openstack/content": ("directory", "0700", b""),
        "@/openstack/content/0000": ("file", "0400", b"text"),
    }


def test_the_console_says_what_the_host_knows(lxd: FakeLXD, client: Client, tmp_path: Path) -> None:
    lxd.add("one", {UUID: "u-1"})
    folder = str(tmp_path / "u-1")
    assert console.output(client, "one", False, folder, []) == b""
    assert console.output(client, "one", False, folder, ["The GPU a is lost: gone."]) == b"\n[host] The GPU a is lost: gone."


def test_lines_of_the_console_can_be_read_twice(lxd: FakeLXD, client: Client, tmp_path: Path) -> None:
    record = lxd.add("one", {UUID: "u-1"}, status="Running")
    folder = str(tmp_path / "u-1")
    lxd.consoles["one"] = b"first\n"
    assert [console.output(client, "one", True, folder, []) for _time in range(2)] == [b"first\n"] * 2
    lxd.consoles["one"] += b"second\n"
    assert [console.output(client, "one", True, folder, []) for _time in range(2)] == [b"first\nsecond\n"] * 2
    record["status"] = "Stopped"
    assert console.output(client, "one", False, folder, []) == b"first\nsecond\n"
    console.forget(folder)
    console.forget(folder)
    assert list(tmp_path.iterdir()) == []


def test_a_long_console_is_its_end(lxd: FakeLXD, client: Client, tmp_path: Path) -> None:
    lxd.add("one", {UUID: "u-1"}, status="Running")
    lxd.consoles["one"] = b"x" * (console.LIMIT + 5) + b"ready"
    assert console.output(client, "one", True, str(tmp_path / "u-1"), []) == lxd.consoles["one"][-console.LIMIT :]
    assert (tmp_path / "u-1" / console.FILE).stat().st_size == console.LIMIT


def test_another_problem_of_the_console_is_not_hidden(lxd: FakeLXD, client: Client, tmp_path: Path) -> None:
    lxd.add("one", {UUID: "u-1"}, status="Running")
    lxd.refusals.append(("GET", "/console", 500, "Failed to read"))
    with pytest.raises(LXDError, match="Failed to read"):
        console.output(client, "one", True, str(tmp_path), [])


def vif(kind: str, **values: t.Any) -> t.Any:
    return types.SimpleNamespace(obj_name=lambda: kind, id="p-1", address="fa:16:3e:00:00:01", vif_name="tap1", **values)


def test_ports_of_bridges_and_of_open_vswitch() -> None:
    common = {"type": "nic", "name": "eth0", "hwaddr": "fa:16:3e:00:00:01", "host_name": "tap1"}
    bridged = ports.device(vif("VIFBridge", bridge_name="brq1"), 1450, "eth0")
    assert bridged == {**common, "nictype": "bridged", "parent": "brq1", "mtu": "1450"}
    assert ports.device(vif("VIFOpenVSwitch"), None, "eth0") == {**common, "nictype": "p2p"}
    with pytest.raises(Unacceptable, match="p-1 is a VIFVHostUser"):
        ports.device(vif("VIFVHostUser"), None, "eth0")


def test_a_new_interface_takes_the_first_free_name() -> None:
    others = {"root": {"type": "disk"}, "port-a": {"type": "nic", "name": "eth0"}, "port-b": {"type": "nic", "name": "eth2"}}
    assert ports.free_name(others) == "eth1"
    assert ports.free_name({}) == "eth0"


def test_resources_are_in_novas_units(client: Client) -> None:
    resources = host.resources(client, "default")
    assert {key: resources[key] for key in ("vcpus", "memory_mb", "local_gb", "local_gb_used", "disk_available_least")} == {
        "vcpus": 8,
        "memory_mb": 32768,
        "local_gb": 100,
        "local_gb_used": 10,
        "disk_available_least": 90,
    }
    with pytest.raises(LXDError, match="Storage pool not found"):
        host.resources(client, "missing")


@pytest.mark.parametrize(("version", "number"), [("5.0.2", 5000002), ("5.21", 5021000), ("6.0.4-debian1", 6000004), ("", 0)])
def test_versions_can_be_compared(version: str, number: int) -> None:
    assert host.version_number(version) == number
