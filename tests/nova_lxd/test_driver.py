# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The driver as Nova calls it, with Nova's own objects; LXD, Glance, os-vif and the database are played."""

from __future__ import annotations

import contextlib
import json
import typing as t
from pathlib import Path
from unittest import mock

import pytest
import signatures
from fake_lxd import FakeLXD, unified
from nova import exception, objects
from nova.compute import power_state, task_states
from nova.network import model as network_model
from nova.virt import driver as nova_driver
from nova.virt.nova_lxd import driver as subject
from nova.virt.nova_lxd import instances as lxd_instances
from nova.virt.nova_lxd import resize
from world import CONF, IMAGE, NAME, OTHER, PORT, SERVER, World, flavor, gpu, port, prepared, resized, server


@pytest.fixture
def world(lxd: FakeLXD, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[World]:
    with contextlib.ExitStack() as stack:
        here = stack.enter_context(prepared(lxd, lxd.path, tmp_path, monkeypatch, timeout=3, patience=10, start_patience=0))
        here.images[IMAGE] = unified({"etc/motd": b"hello"})
        here.driver.init_host(CONF.host)
        here.driver.update_provider_tree(here.tree, CONF.host)
        yield here


def test_signatures_fit_the_installed_nova() -> None:
    assert signatures.problems(subject.LXDDriver, nova_driver.ComputeDriver) == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda self, context, instance: None, "too many positional arguments"),
        (lambda self, instance, context, vif: None, "context is taken for instance"),
        (lambda self, context, instance, vif, more: None, "missing a required argument: 'more'"),
    ],
)
def test_signatures_that_do_not_fit_are_seen(wrong: t.Any, said: str) -> None:
    base = type("Base", (), {"method": lambda self, context, instance, vif: None})
    assert [said in entry for entry in signatures.problems(type("Wrong", (), {"method": wrong}), base)] == [True]
    assert signatures.problems(type("Typo", (), {"methd": wrong}), base) == ["methd: Nova never calls it"]


def test_capabilities_are_ones_that_nova_knows() -> None:
    assert set(subject.LXDDriver.capabilities) == set(nova_driver.ComputeDriver.capabilities)
    assert [name for name, value in subject.LXDDriver.capabilities.items() if value] == [
        "has_imagecache",
        "supports_attach_interface",
        "supports_image_type_raw",
    ]


def test_a_server_from_its_beginning_to_its_end(world: World) -> None:
    one = server(key_data="ssh-ed25519 AAAA ada")
    world.spawn(one, ports=network_model.NetworkInfo([port()]))
    assert world.record["status"] == "Running"
    assert lxd_instances.UNFINISHED not in world.record["config"]
    assert world.record["devices"] == {
        "root": {"type": "disk", "path": "/", "pool": "default", "size": "2GiB"},
        f"port-{PORT}": {
            "type": "nic",
            "name": "eth0",
            "hwaddr": "fa:16:3e:00:00:01",
            "host_name": "tap44444444",
            "nictype": "bridged",
            "parent": "brq1",
            "mtu": "1450",
        },
    }
    assert world.virtapi.waited == [("network-vif-plugged", PORT)]
    assert world.driver.get_info(one).state == power_state.RUNNING
    assert (world.driver.list_instances(), world.driver.list_instance_uuids()) == ([NAME], [SERVER])
    assert world.driver.instance_exists(one)
    world.driver.destroy(world.context, one, network_model.NetworkInfo([port()]))
    world.driver.destroy(world.context, one, network_model.NetworkInfo([port()]))
    assert world.lxd.instances == {}
    assert world.plugged == [("plug", "VIFBridge"), ("unplug", "VIFBridge"), ("unplug", "VIFBridge")]
    with pytest.raises(exception.InstanceNotFound):
        world.driver.get_info(one)


def test_open_vswitch_gets_the_interface_after_the_start(world: World) -> None:
    world.spawn(server(), ports=network_model.NetworkInfo([port("ovs", active=True)]))
    assert world.record["devices"][f"port-{PORT}"]["nictype"] == "p2p"
    assert world.plugged == [("plug", "VIFOpenVSwitch")]
    assert world.virtapi.waited == []


def test_stopping_starting_and_rebooting(world: World) -> None:
    one, none = server(), network_model.NetworkInfo([])
    world.spawn(one)
    world.driver.power_off(one, timeout=10)
    assert world.driver.get_info(one).state == power_state.SHUTDOWN
    world.driver.power_on(world.context, one, none)
    for kind in ("SOFT", "HARD"):
        world.driver.reboot(world.context, one, none, kind)
        assert world.driver.get_info(one).state == power_state.RUNNING
    world.driver.pause(one)
    assert world.driver.get_info(one).state == power_state.PAUSED
    world.driver.unpause(one)
    assert world.driver.get_info(one).state == power_state.RUNNING


def test_a_state_that_lxd_does_not_know_stops_no_server(world: World) -> None:
    world.spawn(server())
    for state in ("Error", "Stopping", "Starting", "Freezing"):
        world.record["status"] = state
        assert world.driver.get_info(server()).state == power_state.NOSTATE


def test_a_host_that_booted_starts_its_servers(world: World) -> None:
    one, none = server(), network_model.NetworkInfo([])
    world.spawn(one)
    for arguments in ([None], [None, None]):  # Nova 26, and 31
        world.record["status"] = "Stopped"
        world.driver.resume_state_on_host_boot(world.context, one, none, *arguments)
        assert world.record["status"] == "Running"


def test_a_hard_reboot_takes_the_ports_of_now(world: World) -> None:
    one = server()
    world.spawn(one, ports=network_model.NetworkInfo([port()]))
    world.driver.reboot(world.context, one, network_model.NetworkInfo([port(uuid=OTHER)]), "HARD")
    assert [key for key in world.record["devices"] if key.startswith("port-")] == [f"port-{OTHER}"]


def test_a_console_begins_with_the_servers_start(world: World) -> None:
    one = server()
    world.spawn(one)
    world.lxd.consoles[NAME] = b"booted\n"
    assert [world.driver.get_console_output(world.context, one) for _time in range(2)] == [b"booted\n"] * 2
    world.driver.reboot(world.context, one, network_model.NetworkInfo([]), "HARD")
    assert world.driver.get_console_output(world.context, one) == b""
    world.driver.destroy(world.context, one, network_model.NetworkInfo([]))
    assert [path.name for path in Path(CONF.instances_path).iterdir() if path.is_dir()] == []


def test_interfaces_come_and_go(world: World) -> None:
    one = server()
    world.spawn(one, ports=network_model.NetworkInfo([port()]))
    image = objects.ImageMeta()
    for _time in range(2):
        world.driver.attach_interface(world.context, one, image, port(uuid=OTHER))
    assert world.record["devices"][f"port-{OTHER}"]["name"] == "eth1"
    for _time in range(2):
        world.driver.detach_interface(world.context, one, port(uuid=OTHER))
    assert f"port-{OTHER}" not in world.record["devices"]
    assert f"port-{PORT}" in world.record["devices"]


def test_a_failed_spawn_leaves_nothing(world: World) -> None:
    world.lxd.failures.append(("PUT", "/state", "Failed to run: forkstart"))
    with pytest.raises(exception.NovaException, match="forkstart"):
        world.spawn(server(), ports=network_model.NetworkInfo([port()]))
    assert world.lxd.instances == {}
    assert world.plugged[-1] == ("unplug", "VIFBridge")


def test_what_has_the_servers_name_but_is_anothers_is_left_alone(world: World) -> None:
    record = world.lxd.add(NAME, {}, status="Running")
    with pytest.raises(exception.NovaException, match="already exists"):
        world.spawn(server())
    world.driver.destroy(world.context, server(), network_model.NetworkInfo([]))
    assert world.lxd.instances[NAME] is record
    assert record["status"] == "Running"


def test_a_spawn_that_was_killed_is_found_at_the_next_start(world: World) -> None:
    with mock.patch.object(lxd_instances.Instances, "start", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        world.spawn(server())
    assert NAME in world.lxd.instances
    world.driver.init_host(CONF.host)
    assert world.lxd.instances == {}


def test_a_spawn_that_was_killed_can_be_repeated(world: World) -> None:
    world.lxd.add(NAME, {lxd_instances.UUID: SERVER, lxd_instances.UNFINISHED: "true"})
    world.spawn(server())
    assert world.record["status"] == "Running"


def test_a_rebuild_that_can_not_end_well_does_not_begin(world: World) -> None:
    world.write_gpus(gpu("a"))
    one = server()
    world.spawn(one, "a")
    arguments = {"injected_files": [], "admin_password": None, "allocations": {}, "bdms": [], "detach_block_devices": None}
    arguments["attach_block_devices"] = None
    world.images[OTHER] = b"QFI\xfb" + b"\0" * 600
    with pytest.raises(exception.ImageUnacceptable):
        world.driver.rebuild(context=world.context, instance=one, image_meta=objects.ImageMeta(id=OTHER), **arguments)
    world.images[OTHER] = world.images[IMAGE]
    with pytest.raises(NotImplementedError):  # Nova goes on by destroy and spawn
        world.driver.rebuild(context=world.context, instance=one, image_meta=objects.ImageMeta(id=OTHER), **arguments)
    world.write_gpus(gpu("a", lost="gone."))
    with pytest.raises(exception.InstancePowerOnFailure, match="gone"):
        world.driver.rebuild(context=world.context, instance=one, image_meta=objects.ImageMeta(id=OTHER), **arguments)
    assert world.record["status"] == "Running"


def test_the_config_drive_has_the_servers_metadata(world: World) -> None:
    one = server(config_drive="True")
    world.spawn(one, ports=network_model.NetworkInfo([port()]))
    kind, mode, content = world.lxd.files[NAME, "/var/lib/cloud/seed/config_drive/openstack/latest/meta_data.json"]
    assert (kind, mode) == ("file", "0400")
    assert json.loads(content)["uuid"] == SERVER


def test_an_image_of_a_virtual_machine_is_refused_with_the_reason(world: World) -> None:
    world.images[IMAGE] = b"QFI\xfb" + b"\0" * 600
    with pytest.raises(exception.ImageUnacceptable) as caught:
        world.spawn(server())
    prefix = f"Build of instance {SERVER} aborted: "
    assert len(prefix + caught.value.format_message()) <= 255, "Nova cuts it off"
    assert "LXD's unified image" in caught.value.format_message()


def test_volumes_are_refused_where_nova_shows_it(world: World) -> None:
    one = server()
    for call in (
        lambda: world.driver.get_volume_connector(one),
        lambda: world.driver.get_device_name_for_instance(one, [], None),
        lambda: world.driver.attach_volume(world.context, {}, one, "/dev/sdb"),
    ):
        with pytest.raises(exception.InvalidVolume, match="take no volumes"):
            call()
    with pytest.raises(exception.InvalidInput, match="take no volumes"):
        world.spawn(one, block_device_info={"block_device_mapping": [{"mount_device": "/dev/sda"}]})
    assert world.lxd.instances == {}


def test_other_disks_are_refused(world: World) -> None:
    with pytest.raises(exception.InvalidInput, match="root disk only"):
        world.spawn(server(flavor=flavor(ephemeral_gb=1)))


def test_a_snapshot_goes_to_glance(world: World) -> None:
    one = server()
    world.spawn(one)
    states: list[t.Any] = []
    world.driver.snapshot(world.context, one, OTHER, lambda **arguments: states.append(arguments["task_state"]))
    assert world.stored[OTHER][:2] == b"\x1f\x8b"
    assert states == [task_states.IMAGE_PENDING_UPLOAD, task_states.IMAGE_UPLOADING]
    assert world.record["status"] == "Running"


def test_the_image_cache_keeps_what_servers_use(world: World) -> None:
    assert world.driver.cache_image(world.context, IMAGE)
    assert not world.driver.cache_image(world.context, IMAGE)
    CONF.set_override("remove_unused_original_minimum_age_seconds", -5, "image_cache")
    try:
        world.driver.manage_image_cache(world.context, [server()])
        assert list(world.lxd.aliases) == [IMAGE]
        world.driver.manage_image_cache(world.context, [])
        assert world.lxd.images == {}
    finally:
        CONF.clear_override("remove_unused_original_minimum_age_seconds", "image_cache")


def test_a_resize_on_the_host_is_confirmed(world: World) -> None:
    world.write_gpus(gpu("a"), gpu("b"))
    one = server()
    world.spawn(one, "a")
    resized(world, one, flavor(vcpus=4, root_gb=5), "b")
    assert world.record["config"]["limits.cpu"] == "4"
    assert world.record["devices"]["root"]["size"] == "5GiB"
    assert world.record["devices"]["gpu0"]["pci"] == "b"
    assert world.record["status"] == "Running"
    world.driver.confirm_migration(world.context, None, one, network_model.NetworkInfo([]))
    assert resize.BEFORE not in world.record["config"]


def test_a_resize_is_reverted_and_the_server_keeps_its_files(world: World) -> None:
    world.write_gpus(gpu("a"), gpu("b"))
    one, none = server(), network_model.NetworkInfo([])
    world.spawn(one, "a")
    before = json.loads(json.dumps(world.record))
    resized(world, one, flavor(vcpus=4, root_gb=5), "b")
    one.task_state = task_states.RESIZE_REVERTING
    world.driver.destroy(world.context, one, none)
    assert world.record["status"] == "Stopped", "a revert deleted the server"
    world.driver.finish_revert_migration(world.context, one, none, None)
    assert world.record == before


def test_a_resize_that_fails_leaves_what_the_server_was(world: World) -> None:
    one = server()
    world.spawn(one)
    before = json.loads(json.dumps(world.record))
    world.lxd.failures.append(("PUT", "/state", "never"))  # the stop, which is then forced
    world.driver.migrate_disk_and_power_off(world.context, one, CONF.my_ip, flavor(vcpus=4), network_model.NetworkInfo([]), timeout=1)
    one.flavor = flavor(vcpus=4)
    world.lxd.failures.append(("PUT", "/state", "Failed to run: forkstart"))
    with pytest.raises(exception.NovaException, match="forkstart"):
        world.driver.finish_migration(
            world.context, None, one, "{}", network_model.NetworkInfo([]), objects.ImageMeta(), True, world.allocation()
        )
    assert world.record == {**before, "status": "Stopped"}


@pytest.mark.parametrize(
    ("host", "changes", "said"),
    [
        ("192.0.2.1", {}, "can't move to another host"),
        (None, {"root_gb": 1}, "can't become smaller"),
        (None, {"swap": 1}, "root disk only"),
    ],
)
def test_what_no_resize_can_do_is_refused_while_the_server_runs(world: World, host: str | None, changes: t.Any, said: str) -> None:
    one = server()
    world.spawn(one)
    with pytest.raises(exception.InstanceFaultRollback, match=said):
        world.driver.migrate_disk_and_power_off(
            world.context, one, host or CONF.my_ip, flavor(**changes), network_model.NetworkInfo([]), timeout=10
        )
    assert world.record["status"] == "Running"


def test_gpus_are_counted_by_placement(world: World) -> None:
    world.write_gpus(gpu("0000:41:00.0", traits=["CUSTOM_GPU_MEMORY_80GB"]), gpu("MIG-7", nvidia_runtime=True))
    child = world.tree.data("gpu1_gpu_0000:41:00.0")
    assert child.parent_uuid == OTHER
    assert child.inventory["CUSTOM_GPU_A100"]["total"] == 1
    assert child.traits == {"CUSTOM_GPU_MEMORY_80GB"}
    assert world.tree.data(OTHER).inventory["VCPU"]["total"] == 8
    world.spawn(server(), "MIG-7")
    assert world.record["devices"]["gpu0"] == {"type": "gpu", "pci": "MIG-7"}
    assert world.record["config"]["nvidia.runtime"] == "true"
    assert world.record["config"][lxd_instances.GPUS] == "MIG-7"


def test_a_lost_gpu_is_reserved_and_its_owner_reads_why(world: World) -> None:
    world.write_gpus(gpu("a"), gpu("b"))
    one = server()
    world.spawn(one, "a")
    world.metadata[SERVER] = {"theirs": "1"}
    world.write_gpus(gpu("a", lost="it has fallen off the bus."), gpu("b"))
    inventories = {key: world.tree.data(f"gpu1_gpu_{key}").inventory["CUSTOM_GPU_A100"]["reserved"] for key in "ab"}
    assert inventories == {"a": 1, "b": 0}
    sentence = "The GPU a is lost: it has fallen off the bus."
    assert world.metadata[SERVER] == {"theirs": "1", "gpu_lost": sentence}
    assert sentence.encode() in world.driver.get_console_output(world.context, one)
    with pytest.raises(exception.InstancePowerOnFailure, match=sentence):
        world.driver.reboot(world.context, one, network_model.NetworkInfo([]), "HARD")
    assert world.record["status"] == "Running", "a server that could not start again was stopped"
    world.write_gpus(gpu("a"), gpu("b"))
    assert world.metadata[SERVER] == {"theirs": "1"}
    world.driver.reboot(world.context, one, network_model.NetworkInfo([]), "HARD")


def test_a_host_without_a_servers_gpu_at_start(world: World) -> None:
    world.write_gpus(gpu("a"))
    one = server()
    world.spawn(one, "a")
    world.record["status"] = "Stopped"
    world.in_use.add(world.tree.data("gpu1_gpu_a").uuid)
    world.write_gpus()
    assert world.tree.data("gpu1_gpu_a").inventory["CUSTOM_GPU_A100"]["reserved"] == 1
    with pytest.raises(exception.InstancePowerOnFailure, match="the host does not have it any more"):
        world.driver.resume_state_on_host_boot(world.context, one, network_model.NetworkInfo([]), None)


def test_a_lost_gpu_goes_to_no_new_server(world: World) -> None:
    world.write_gpus(gpu("a", paths=["/nonexistent/nvidia0"]))
    with pytest.raises(exception.ComputeResourcesUnavailable, match="/nonexistent/nvidia0 does not exist"):
        world.spawn(server(), "a")
    assert world.lxd.instances == {}


def test_a_gpu_that_the_host_does_not_know_is_not_left_out(world: World) -> None:
    world.write_gpus(gpu("a"))
    world.driver.gpus.known = {}
    with pytest.raises(exception.ComputeResourcesUnavailable, match="CUSTOM_GPU_A100"):
        world.spawn(server(), "a")


def test_a_broken_file_changes_nothing_in_placement(world: World) -> None:
    world.write_gpus(gpu("a"))
    world.gpus.write_text("{")
    world.driver.update_provider_tree(world.tree, CONF.host)
    assert world.tree.data("gpu1_gpu_a").inventory["CUSTOM_GPU_A100"]["reserved"] == 0


def test_an_lxd_that_hangs_is_said_in_the_services_record(world: World) -> None:
    one = server()
    world.spawn(one)
    world.lxd.deaf = True
    with pytest.raises(exception.HypervisorUnavailable, match="did not answer in 3 seconds"):
        world.driver.get_available_resource(CONF.host)
    assert world.service.disabled
    assert world.service.disabled_reason.startswith("AUTO: LXD at ")
    with pytest.raises(exception.HypervisorUnavailable):
        world.driver.get_info(one)
    world.lxd.deaf = False
    world.driver.get_available_resource(CONF.host)
    assert (world.service.disabled, world.service.disabled_reason) == (False, None)
    assert world.virtapi.enabled == [False, True]


def test_a_service_that_an_operator_disabled_stays_so(world: World) -> None:
    world.service.disabled, world.service.disabled_reason = True, "new memory"
    world.driver.get_available_resource(CONF.host)
    world.lxd.deaf = True
    with pytest.raises(exception.HypervisorUnavailable):
        world.driver.get_available_resource(CONF.host)
    assert (world.service.disabled, world.service.disabled_reason) == (True, "new memory")


def test_novas_start_does_not_wait_for_ever(world: World) -> None:
    world.lxd.deaf = True
    with pytest.raises(exception.HypervisorUnavailable, match="did not answer"):
        world.driver.init_host(CONF.host)


def test_resources_are_what_nova_stores(world: World) -> None:
    resources = world.driver.get_available_resource(CONF.host)
    assert {key: resources[key] for key in ("vcpus", "memory_mb", "hypervisor_type", "hypervisor_version", "hypervisor_hostname")} == {
        "vcpus": 8,
        "memory_mb": 32768,
        "hypervisor_type": "lxd",
        "hypervisor_version": 5000002,
        "hypervisor_hostname": "gpu1",
    }
    node = objects.ComputeNode()
    node.update_from_virt_driver(resources)
    assert node.vcpus == 8


def test_nothing_stays_of_a_snapshot_that_glance_refuses(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    one = server()
    world.spawn(one)
    refusing = mock.Mock(
        get=lambda context, reference: {"name": "saved"}, update=mock.Mock(side_effect=exception.ImageNotFound(image_id=OTHER))
    )
    monkeypatch.setattr(subject.glance, "API", lambda: refusing)
    with pytest.raises(exception.ImageNotFound):
        world.driver.snapshot(world.context, one, OTHER, lambda **arguments: None)
    assert world.lxd.snapshots[NAME] == []
