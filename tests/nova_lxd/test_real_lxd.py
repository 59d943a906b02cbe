# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The driver with Nova's own objects and a real LXD; Glance, os-vif and the database are played.

    NOVA_LXD_SOCKET=... NOVA_LXD_UNIFIED=... NOVA_LXD_ROOT=... VENV/bin/pytest tests/nova_lxd/test_real_lxd.py

NOVA_LXD_EXEC, if it is set, is a command that runs a shell line on that host (docker exec NAME sh -c); it stops and kills LXD.
NOVA_LXD_LIMITING_POOL, if it is set besides, is a pool of 4 GiB that limits root disks, such as one of btrfs.
The socket is that of an LXD with a pool named default and a bridge brq1, on a host that has two character devices,
/dev/nvidia0 and /dev/nvidia1. The images are a small one of LXD's and a root file system; their init stops by SIGPWR and writes to
the console whether it can open its GPU. In the place of a GPU there is a character device: LXD's type gpu needs a graphics card.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import time
import typing as t
from pathlib import Path

import pytest
from nova import exception, objects
from nova.compute import power_state, task_states
from nova.network import model as network_model
from nova.virt.nova_lxd import instances as lxd_instances
from nova.virt.nova_lxd.errors import LXDError
from world import CONF, IMAGE, NAME, OTHER, PORT, SERVER, World, flavor, port, prepared, resized, server

SOCKET = os.environ.get("NOVA_LXD_SOCKET", "")
pytestmark = pytest.mark.skipif(not SOCKET, reason="because no real LXD is named in NOVA_LXD_SOCKET")
EXEC = os.environ.get("NOVA_LXD_EXEC", "")
needs_exec = pytest.mark.skipif(not EXEC, reason="because no way to stop LXD is named in NOVA_LXD_EXEC")
POOL = os.environ.get("NOVA_LXD_LIMITING_POOL", "")
NONE = network_model.NetworkInfo([])


def gpu(number: int, **more: t.Any) -> dict[str, t.Any]:
    path = f"/dev/nvidia{number}"
    device = {"type": "unix-char", "source": path, "path": path, "mode": "0666"}
    return {"id": f"0000:4{number}:00.0", "resource_class": "CUSTOM_GPU_A100", "lxd": device, **more}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[World]:
    with contextlib.ExitStack() as stack:
        here = stack.enter_context(prepared(None, SOCKET, tmp_path, monkeypatch))
        here.images[IMAGE] = Path(os.environ["NOVA_LXD_UNIFIED"]).read_bytes()
        here.images[OTHER] = Path(os.environ["NOVA_LXD_ROOT"]).read_bytes()
        clean(here)
        here.driver.init_host(CONF.host)
        here.driver.update_provider_tree(here.tree, CONF.host)
        here.write_gpus(gpu(0), gpu(1))
        yield here
        clean(here)


def clean(world: World) -> None:
    for name in world.driver.list_instances():
        world.driver.instances.stop(name)
        world.driver.instances.delete(name)


def record(world: World) -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", world.driver.lxd.get("instances", NAME))


def console(world: World, one: t.Any, wanted: str, seconds: int = 60) -> str:
    """The console, as soon as it has the text."""
    deadline = time.monotonic() + seconds
    text = ""
    while wanted not in text:
        assert time.monotonic() < deadline, f"{wanted} is not in {text}"
        time.sleep(0.5)
        text = world.driver.get_console_output(world.context, one).decode()
    return text


def test_a_server_with_a_gpu_and_a_port_from_its_beginning_to_its_end(world: World) -> None:
    one = server(key_data="ssh-ed25519 AAAA ada", config_drive="True")
    ports = network_model.NetworkInfo([port()])
    world.spawn(one, "0000:41:00.0", ports=ports)
    assert world.driver.get_info(one).state == power_state.RUNNING
    text = console(world, one, "init: ready")
    assert "/dev/nvidia1 opens" in text
    assert "/dev/nvidia0" not in text, "the other GPU is there too"
    now = record(world)
    assert lxd_instances.UNFINISHED not in now["config"]
    assert now["config"]["limits.cpu"] == "1"
    state = world.driver.lxd.get("instances", NAME, "state")
    assert state["network"]["eth0"]["hwaddr"] == "fa:16:3e:00:00:01"
    assert state["network"]["eth0"]["mtu"] == 1450
    assert state["network"]["eth0"]["host_name"] == f"tap{PORT[:8]}"
    metadata = world.driver.lxd.request(
        "GET", ("instances", NAME, "files"), query="path=/var/lib/cloud/seed/config_drive/openstack/latest"
    ).metadata
    assert "meta_data.json" in metadata
    world.driver.destroy(world.context, one, ports)
    world.driver.destroy(world.context, one, ports)
    with pytest.raises(exception.InstanceNotFound):
        world.driver.get_info(one)


def test_stopping_starting_and_rebooting_keep_the_gpu(world: World) -> None:
    one = server()
    world.spawn(one, "0000:40:00.0")
    console(world, one, "init: ready")
    begin = time.monotonic()
    world.driver.power_off(one, timeout=30)
    assert time.monotonic() - begin < 20, "the server was not asked, or did not react"
    assert world.driver.get_info(one).state == power_state.SHUTDOWN
    world.driver.power_on(world.context, one, NONE)
    for kind in ("SOFT", "HARD"):
        console(world, one, "init: ready")
        world.driver.reboot(world.context, one, NONE, kind)
        assert world.driver.get_info(one).state == power_state.RUNNING
    assert "/dev/nvidia0 opens" in console(world, one, "init: ready")
    world.driver.pause(one)
    assert world.driver.get_info(one).state == power_state.PAUSED
    world.driver.power_off(one, timeout=10)
    assert world.driver.get_info(one).state == power_state.SHUTDOWN
    for arguments in ([None], [None, None]):
        world.driver.resume_state_on_host_boot(world.context, one, NONE, *arguments)
        assert world.driver.get_info(one).state == power_state.RUNNING


def test_lxd_takes_the_devices_of_gpus_and_mig_instances(world: World) -> None:
    """What needs a card is not started here: LXD checks the words when it makes the instance."""
    card = {"type": "gpu", "gputype": "physical", "pci": "0000:41:00.0"}
    part = {"type": "gpu", "gputype": "mig", "pci": "0000:42:00.0", "mig.uuid": "MIG-0f2e6a0a-3c4b-5d6e-8f90-123456789abc"}
    old_part = {"type": "gpu", "gputype": "mig", "pci": "0000:42:00.0", "mig.gi": "7", "mig.ci": "0"}
    world.write_gpus(*({**gpu(number), "lxd": lxd} for number, lxd in enumerate((card, part, old_part))))
    world.spawn(server(), "0000:40:00.0", "0000:41:00.0", "0000:42:00.0", power_on=False)
    now = record(world)
    assert [now["devices"][f"gpu{number}"] for number in range(3)] == [card, part, old_part]
    assert now["status"] == "Stopped"


def test_nvidias_libraries_where_they_are_not_leave_nothing(world: World) -> None:
    world.write_gpus(gpu(0, nvidia_runtime=True))
    with pytest.raises(exception.NovaException, match="The NVIDIA container tools couldn't be found"):
        world.spawn(server(), "0000:40:00.0")
    assert world.driver.list_instances() == []


def test_open_vswitch_finds_the_interface_under_neutrons_name(world: World) -> None:
    world.spawn(server(), ports=network_model.NetworkInfo([port("ovs")]))
    assert world.driver.lxd.get("instances", NAME, "state")["network"]["eth0"]["host_name"] == f"tap{PORT[:8]}"
    assert world.plugged == [("plug", "VIFOpenVSwitch")]


def test_limits_of_disk_and_nesting_are_words_of_lxds(world: World) -> None:
    specs = {"lxd:nested_allowed": "true", "quota:disk_read_bytes_sec": "10000000", "quota:disk_write_iops_sec": "100"}
    world.spawn(server(flavor=flavor(vcpus=64, extra_specs=specs)), power_on=False)
    assert record(world)["devices"]["root"] == {
        "type": "disk",
        "path": "/",
        "pool": "default",
        "size": "2GiB",
        "limits.read": "10000000B",
        "limits.write": "100iops",
    }


def test_interfaces_come_and_go_while_the_server_runs(world: World) -> None:
    one = server()
    world.spawn(one, ports=network_model.NetworkInfo([port()]))
    second = port(uuid=OTHER)
    second["address"] = "fa:16:3e:00:00:02"
    for _time in range(2):
        world.driver.attach_interface(world.context, one, objects.ImageMeta(), second)
    assert set(world.driver.lxd.get("instances", NAME, "state")["network"]) >= {"eth0", "eth1"}
    for _time in range(2):
        world.driver.detach_interface(world.context, one, second)
    network = world.driver.lxd.get("instances", NAME, "state")["network"]
    assert "eth0" in network
    assert "eth1" not in network


def test_a_snapshot_becomes_a_server(world: World) -> None:
    one = server()
    world.spawn(one)
    console(world, one, "init: ready")
    world.driver.snapshot(world.context, one, SERVER, lambda **arguments: None)
    assert world.driver.get_info(one).state == power_state.RUNNING
    assert world.driver.lxd.get("instances", NAME, "snapshots") == []
    world.driver.destroy(world.context, one, NONE)
    world.images[SERVER] = world.stored[SERVER]
    again = objects.ImageMeta(id=SERVER, properties=objects.ImageMetaProps())
    world.driver.spawn(world.context, one, again, [], None, world.allocation(), network_info=NONE)
    console(world, one, "init: ready")
    world.driver.init_host(CONF.host)
    assert SERVER in [alias["name"] for image in world.driver.lxd.get("images", query="recursion=1") for alias in image["aliases"]]


def test_a_root_file_system_becomes_a_server_with_its_own_name(world: World) -> None:
    one = server()
    image = objects.ImageMeta(id=OTHER, properties=objects.ImageMetaProps())
    world.driver.spawn(world.context, one, image, [], None, world.allocation(), network_info=NONE)
    console(world, one, "init: ready")
    with world.driver.lxd._response("GET", ("instances", NAME, "files"), "path=/etc/hostname", None, {}) as response:
        assert response.read() == b"web\n"


def test_images_are_removed_when_no_server_uses_them(world: World) -> None:
    for reference in (IMAGE, OTHER):
        world.driver.cache_image(world.context, reference)
    CONF.set_override("remove_unused_original_minimum_age_seconds", -5, "image_cache")
    try:
        world.driver.manage_image_cache(world.context, [server()])
        names = [alias["name"] for image in world.driver.lxd.get("images", query="recursion=1") for alias in image["aliases"]]
        assert names == [IMAGE]
    finally:
        CONF.clear_override("remove_unused_original_minimum_age_seconds", "image_cache")
    # A fetched image whose alias was never made
    world.driver.lxd.request("DELETE", ("images", "aliases", IMAGE))
    assert world.driver.cache_image(world.context, IMAGE)


def test_an_image_of_a_virtual_machine_is_refused(world: World) -> None:
    world.images[PORT] = b"QFI\xfb" + b"\0" * 600
    image = objects.ImageMeta(id=PORT, properties=objects.ImageMetaProps())
    with pytest.raises(exception.ImageUnacceptable):
        world.driver.spawn(world.context, server(), image, [], None, world.allocation(), network_info=NONE)


def test_a_resize_is_confirmed_or_reverted(world: World) -> None:
    one = server()
    world.spawn(one, "0000:40:00.0")
    console(world, one, "init: ready")
    before = {key: value for key, value in record(world)["config"].items() if not key.startswith("volatile.")}
    resized(world, one, flavor(vcpus=2, memory_mb=256), "0000:41:00.0")
    text = console(world, one, "init: ready")
    assert "/dev/nvidia1 opens" in text
    assert record(world)["config"]["limits.memory"] == "256MiB"
    one.task_state = task_states.RESIZE_REVERTING
    world.driver.destroy(world.context, one, NONE)
    world.driver.finish_revert_migration(world.context, one, NONE, None)
    assert {key: value for key, value in record(world)["config"].items() if not key.startswith("volatile.")} == before
    one.task_state, one.flavor = None, flavor()
    resized(world, one, flavor(vcpus=2))
    world.driver.confirm_migration(world.context, None, one, NONE)
    assert not [key for key in record(world)["devices"] if key.startswith("gpu")]


def test_a_spawn_that_was_killed_is_cleaned_at_the_next_start(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(self: object, name: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(lxd_instances.Instances, "start", killed)
        with pytest.raises(KeyboardInterrupt):
            world.spawn(server())
    assert record(world)["config"][lxd_instances.UNFINISHED] == "true"
    world.driver.init_host(CONF.host)
    assert world.driver.list_instances() == []


def test_an_instance_that_lxd_still_makes_is_destroyed(world: World) -> None:
    """nova-compute was killed after it had asked for the instance; its owner deletes the server at once."""
    one = server()
    world.driver.cache_image(world.context, IMAGE)
    body = {"name": NAME, "profiles": [], "source": {"type": "image", "alias": IMAGE}}
    body.update(config={lxd_instances.UUID: SERVER}, devices={"root": {"type": "disk", "path": "/", "pool": "default"}})
    with world.driver.lxd._response("POST", ("instances",), "", json.dumps(body).encode(), {}) as response:
        assert response.status == 202
    world.driver.destroy(world.context, one, NONE)
    with pytest.raises(LXDError):
        record(world)


def test_a_start_that_lxd_refuses_leaves_nothing(world: World) -> None:
    world.write_gpus(gpu(7))
    with pytest.raises(exception.NovaException, match="gpu0"):
        world.spawn(server(), "0000:47:00.0")
    assert world.driver.list_instances() == []


def test_resources_are_those_of_the_host(world: World) -> None:
    resources = world.driver.get_available_resource(CONF.host)
    assert resources["vcpus"] > 0
    assert resources["memory_mb"] > 1000
    assert resources["local_gb"] > 0
    assert resources["hypervisor_version"] >= 5000000


def on_the_host(line: str) -> str:
    return subprocess.run([*shlex.split(EXEC), line], check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout


@pytest.mark.skipif(not (POOL and EXEC), reason="because no pool that limits disks is named in NOVA_LXD_LIMITING_POOL")
def test_a_disk_is_limited_and_a_full_one_survives_its_revert(world: World) -> None:
    def write(mebibytes: int) -> int:
        on_the_host(f"lxc exec {NAME} -- /bin/sh -c 'dd if=/dev/zero of=/root/x bs=1M count={mebibytes} 2>/dev/null; sync' || true")
        return int(on_the_host(f"lxc exec {NAME} -- /bin/sh -c 'stat -c %s /root/x'")) >> 20

    CONF.set_override("pool", POOL, "lxd")
    try:
        one = server(flavor=flavor(root_gb=1))
        world.spawn(one)
        assert 900 < write(1200) < 1025
        resized(world, one, flavor(root_gb=2))
        assert write(1200) == 1200
        one.task_state = task_states.RESIZE_REVERTING
        world.driver.destroy(world.context, one, NONE)
        world.driver.finish_revert_migration(world.context, one, NONE, None)
        assert world.driver.get_info(one).state == power_state.RUNNING
        assert record(world)["devices"]["root"]["size"] == "2GiB", "a server over its limit can't start"
    finally:
        CONF.clear_override("pool", "lxd")


@needs_exec
def test_an_lxd_that_hangs_is_said_and_ends_no_server(world: World) -> None:
    one = server()
    world.spawn(one)
    init = world.driver.lxd.get("instances", NAME, "state")["pid"]
    world.driver.lxd.timeout = 2
    on_the_host("kill -STOP $(systemctl show -p MainPID --value lxd)")
    try:
        for call in (
            lambda: world.driver.get_info(one),
            lambda: world.driver.destroy(world.context, one, NONE),
            lambda: world.driver.get_available_resource(CONF.host),
        ):
            begin = time.monotonic()
            with pytest.raises(exception.HypervisorUnavailable, match="did not answer in 2 seconds"):
                call()
            assert time.monotonic() - begin < 10
        assert world.service.disabled
    finally:
        on_the_host("kill -CONT $(systemctl show -p MainPID --value lxd)")
    world.driver.get_available_resource(CONF.host)
    assert not world.service.disabled
    assert world.driver.lxd.get("instances", NAME, "state")["pid"] == init


@needs_exec
def test_a_server_can_not_make_itself_the_other_gpu(world: World) -> None:
    world.spawn(server(), "0000:40:00.0")
    assert on_the_host(f"lxc exec {NAME} -- /bin/sh -c 'ls /dev/nvidia*; mknod /tmp/other c 1 7 2>&1 || true'").splitlines() == [
        "/dev/nvidia0",
        "mknod: /tmp/other: Operation not permitted",
    ]


@needs_exec
def test_a_killed_lxd_ends_no_server(world: World) -> None:
    one = server()
    world.spawn(one)
    init = world.driver.lxd.get("instances", NAME, "state")["pid"]
    on_the_host("kill -KILL $(systemctl show -p MainPID --value lxd)")
    world.driver.init_host(CONF.host)
    assert world.driver.get_info(one).state == power_state.RUNNING
    assert world.driver.lxd.get("instances", NAME, "state")["pid"] == init


@needs_exec
def test_an_lxd_that_is_killed_within_a_spawn_leaves_nothing(world: World) -> None:
    one = server()
    world.driver.cache_image(world.context, IMAGE)
    body = {"name": NAME, "profiles": [], "source": {"type": "image", "alias": IMAGE}}
    body.update(
        config={lxd_instances.UUID: SERVER, lxd_instances.UNFINISHED: "true"},
        devices={"root": {"type": "disk", "path": "/", "pool": "default"}},
    )
    with world.driver.lxd._response("POST", ("instances",), "", json.dumps(body).encode(), {}) as response:
        assert response.status == 202
    on_the_host("kill -KILL $(systemctl show -p MainPID --value lxd)")
    world.driver.init_host(CONF.host)
    assert world.driver.list_instances() == []
    world.spawn(one)
    assert world.driver.get_info(one).state == power_state.RUNNING
