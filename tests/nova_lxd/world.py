# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A compute host for the driver: Glance, os-vif, Placement and the database are played, LXD is a fake or a real one."""

from __future__ import annotations

import contextlib
import json
import types
import typing as t
from pathlib import Path
from unittest import mock

import nova.conf
import pytest
from nova import context as nova_context
from nova import objects
from nova.compute import provider_tree
from nova.network import model as network_model
from nova.virt import driver as nova_driver
from nova.virt.nova_lxd import driver as subject
from nova.virt.nova_lxd import gpus, network, notices, service

CONF = nova.conf.CONF
SERVER = "11111111-1111-1111-1111-111111111111"
OTHER = "22222222-2222-2222-2222-222222222222"
IMAGE = "33333333-3333-3333-3333-333333333333"
PORT = "44444444-4444-4444-4444-444444444444"
NAME = "instance-00000001"


class VirtAPI:
    """What the driver asks of Nova's compute manager."""

    def __init__(self) -> None:
        self.waited: list[t.Any] = []
        self.enabled: list[bool] = []

    @contextlib.contextmanager
    def wait_for_instance_event(self, instance: t.Any, events: t.Any, deadline: int, error_callback: t.Any) -> t.Iterator[None]:
        yield
        self.waited.extend(events)

    def update_compute_provider_status(self, context: t.Any, provider: str, enabled: bool) -> None:
        self.enabled.append(enabled)


class World:
    """A compute host: the driver, and what it would reach."""

    def __init__(self, lxd: t.Any, folder: Path) -> None:
        self.lxd = lxd  # the fake; None with a real one
        self.context = nova_context.RequestContext("user", "project")
        self.gpus = folder / "gpus.json"
        self.images: dict[str, bytes] = {}
        self.stored: dict[str, bytes] = {}
        self.metadata: dict[str, dict[str, str]] = {}
        self.plugged: list[tuple[str, str]] = []
        self.service = types.SimpleNamespace(disabled=False, disabled_reason=None, save=lambda: None, compute_node=mock.Mock(uuid="cn"))
        self.virtapi = VirtAPI()
        self.tree = provider_tree.ProviderTree()
        self.tree.new_root(CONF.host, OTHER)
        self.in_use: set[str] = set()
        self.driver = nova_driver.load_compute_driver(self.virtapi)

    def download(self, context: t.Any, reference: str, dest_path: str) -> None:
        Path(dest_path).write_bytes(self.images[reference])

    def update_image(self, context: t.Any, reference: str, info: t.Any, data: t.Any, purge_props: bool) -> None:
        assert info["disk_format"] == "raw"
        self.stored[reference] = data.read()

    def write_gpus(self, *entries: dict[str, t.Any]) -> None:
        self.gpus.write_text(json.dumps({"version": 1, "devices": list(entries)}))
        self.driver.update_provider_tree(self.tree, CONF.host)

    def allocation(self, *ids: str) -> dict[str, t.Any]:
        providers = [self.tree.data(f"{CONF.host}_gpu_{key}").uuid for key in ids]
        return {OTHER: {"resources": {"VCPU": 1}}, **{uuid: {"resources": {"CUSTOM_GPU_A100": 1}} for uuid in providers}}

    def server_of(self, context: t.Any, uuid: str, expected_attrs: t.Any) -> t.Any:
        instance = types.SimpleNamespace(metadata=self.metadata.get(uuid, {}))
        instance.save = lambda: self.metadata.update({uuid: instance.metadata})
        return instance

    def spawn(self, server: t.Any, *gpus: str, ports: t.Any = None, **arguments: t.Any) -> None:
        image = objects.ImageMeta(id=IMAGE, properties=objects.ImageMetaProps())
        ports = network_model.NetworkInfo([]) if ports is None else ports
        self.driver.spawn(self.context, server, image, [], None, self.allocation(*gpus), network_info=ports, **arguments)

    @property
    def record(self) -> dict[str, t.Any]:
        return self.lxd.instances[NAME]


def gpu(key: str, **more: t.Any) -> dict[str, t.Any]:
    return {"id": key, "resource_class": "CUSTOM_GPU_A100", "lxd": {"type": "gpu", "pci": key}, **more}


def flavor(**changes: t.Any) -> objects.Flavor:
    values = {"id": 1, "name": "small", "vcpus": 1, "memory_mb": 128, "root_gb": 2, "ephemeral_gb": 0, "swap": 0, "extra_specs": {}}
    return objects.Flavor(**{**values, **changes})


def server(uuid: str = SERVER, **changes: t.Any) -> objects.Instance:
    values = {
        "id": 1,
        "uuid": uuid,
        "project_id": "project",
        "user_id": "user",
        "host": CONF.host,
        "hostname": "web",
        "display_name": "web",
        "image_ref": IMAGE,
        "user_data": None,
        "key_data": None,
        "key_name": None,
        "config_drive": "",
        "launched_at": None,
        "system_metadata": {},
        "metadata": {},
        "task_state": None,
        "flavor": flavor(),
        "availability_zone": "nova",
        "keypairs": objects.KeyPairList(objects=[]),
        "device_metadata": None,
        "numa_topology": None,
        "reservation_id": "r-1",
        "default_swap_device": None,
        "default_ephemeral_device": None,
        "kernel_id": None,
        "ramdisk_id": None,
        "pci_devices": objects.PciDeviceList(objects=[]),
        "ec2_ids": objects.EC2Ids(instance_id="i-1", ami_id="ami-1", kernel_id=None, ramdisk_id=None),
        "root_device_name": None,
        "launch_index": 0,
    }
    return objects.Instance(nova_context.get_admin_context(), **{**values, **changes})


def port(kind: str = "bridge", uuid: str = PORT, active: bool = False) -> network_model.VIF:
    subnet = network_model.Subnet(cidr="10.0.0.0/24", ips=[network_model.FixedIP(address="10.0.0.5")], gateway=None, dns=[], routes=[])
    net = network_model.Network(id=OTHER, bridge="brq1", label="private", subnets=[subnet], mtu=1450)
    return network_model.VIF(
        id=uuid, address="fa:16:3e:00:00:01", network=net, type=kind, devname=f"tap{uuid[:8]}", details={}, active=active, profile={}
    )


def resized(world: World, one: t.Any, new: objects.Flavor, *gpus: str) -> None:
    world.driver.migrate_disk_and_power_off(world.context, one, CONF.my_ip, new, network_model.NetworkInfo([]))
    one.flavor = new
    image = objects.ImageMeta()
    allocations = world.allocation(*gpus)
    world.driver.finish_migration(world.context, None, one, "{}", network_model.NetworkInfo([]), image, True, allocations)


@contextlib.contextmanager
def prepared(lxd: t.Any, socket: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **options: t.Any) -> t.Iterator[World]:
    """A host whose nova-compute is about to start."""
    for name, value in {"compute_driver": "nova_lxd.driver.LXDDriver", "instances_path": str(folder), "host": "gpu1"}.items():
        CONF.set_override(name, value)
    CONF.set_override("lock_path", str(folder), "oslo_concurrency")
    for name, value in {"socket": socket, "gpus": str(folder / "gpus.json"), **options}.items():
        CONF.set_override(name, value, "lxd")
    here = World(lxd, folder)
    glance = mock.Mock(download=here.download, update=here.update_image, get=lambda context, reference: {"name": "saved"})
    monkeypatch.setattr(subject.glance, "API", lambda: glance)
    monkeypatch.setattr(network.os_vif, "plug", lambda vif, info: here.plugged.append(("plug", vif.obj_name())))
    monkeypatch.setattr(network.os_vif, "unplug", lambda vif, info: here.plugged.append(("unplug", vif.obj_name())))
    monkeypatch.setattr(service.objects.Service, "get_by_compute_host", lambda context, host: here.service)
    monkeypatch.setattr(notices.objects.Instance, "get_by_uuid", here.server_of)
    bdms = objects.BlockDeviceMappingList(objects=[])
    monkeypatch.setattr(objects.BlockDeviceMappingList, "get_by_instance_uuid", lambda context, uuid: bdms)
    monkeypatch.setattr(subject.instance_metadata.security_group_api, "get_instance_security_groups", lambda *arguments: [])
    client = mock.Mock()
    client.get_allocations_for_resource_provider = lambda context, uuid: mock.Mock(allocations={"x": 1} if uuid in here.in_use else {})
    monkeypatch.setattr(gpus.report, "report_client_singleton", lambda: client)
    yield here
    CONF.clear_override("compute_driver")
