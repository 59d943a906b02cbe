# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What nova.virt.driver.ComputeDriver asks for, by the modules beside this one.

It fits Nova 26 and 31; a test compares each method with the Nova that is installed. LXD's instances hold the state: nothing is
remembered here that a restart would lose, apart from which provider of Placement is which GPU, and that is read every minute.
"""

from __future__ import annotations

import functools
import os
import tempfile
import time
from typing import Any, Callable, ClassVar, Mapping, Sequence

import nova.conf
import os_resource_classes as orc
from nova import exception, utils
from nova.api.metadata import base as instance_metadata
from nova.compute import power_state, task_states
from nova.image import glance
from nova.objects import fields
from nova.virt import configdrive as nova_configdrive
from nova.virt import driver, hardware
from oslo_log import log
from oslo_serialization import jsonutils
from oslo_utils import excutils

from . import configdrive, console, devices, gpus, host, instances, network, options, ports, recovery, resize, service, snapshots
from .client import Client
from .errors import LXDError, LXDUnavailable, Unacceptable
from .images import Images

CONF = nova.conf.CONF
LOG = log.getLogger(__name__)
options.register(CONF)

# LXD's other words, Error among them, say that it does not know, or not yet: Nova must not stop a server for them.
POWER_STATES = {"Running": power_state.RUNNING, "Stopped": power_state.SHUTDOWN, "Frozen": power_state.PAUSED}
NO_VOLUMES = "servers on this host are containers and take no volumes: use a server with its root on the host's disk"


def _in_words_of_nova(method: Callable[..., Any]) -> Callable[..., Any]:
    """Raise errors as Nova's exceptions, whose text the owner of a server may read."""

    @functools.wraps(method)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except LXDUnavailable as error:
            raise exception.HypervisorUnavailable(message=str(error)) from error
        except Unacceptable as error:
            raise exception.InvalidInput(reason=str(error)) from error
        except LXDError as error:
            raise exception.NovaException(str(error)) from error

    return wrapper


class LXDDriver(driver.ComputeDriver):
    """Servers as system containers of the LXD on this host."""

    # What is not here, such as evacuation, tagged devices and disks of virtual machines, Nova refuses before it starts.
    capabilities: ClassVar[dict[str, bool]] = {
        **driver.ComputeDriver.capabilities,
        "has_imagecache": True,
        "supports_attach_interface": True,
        "supports_image_type_raw": True,
    }

    def __init__(self, virtapi: Any) -> None:
        super().__init__(virtapi)
        self.lxd = Client(CONF.lxd.socket, CONF.lxd.timeout, CONF.lxd.patience)
        self.instances = instances.Instances(self.lxd)
        self.architecture = ""
        self.gpus = gpus.Gpus()

    # The host

    @_in_words_of_nova
    def init_host(self, host: str) -> None:
        network.initialize()
        self.architecture = self._wait_for_lxd()
        self.lxd.get("storage-pools", CONF.lxd.pool)
        for sentence in recovery.recover(self.lxd, CONF.instances_path):
            LOG.warning(sentence)

    def _wait_for_lxd(self) -> str:
        """Wait for LXD, which may start later than Nova, and read its architecture."""
        deadline = time.monotonic() + CONF.lxd.start_patience
        while True:
            try:
                return host.architecture(self.lxd)
            except LXDUnavailable as error:
                if time.monotonic() >= deadline:
                    raise
                LOG.warning("Waiting for LXD: %s", error)
                time.sleep(2)

    def get_available_nodes(self, refresh: bool = False) -> list[str]:
        return [CONF.host]

    def get_host_ip_addr(self) -> str:
        return str(CONF.my_ip)

    def get_host_uptime(self) -> str:
        with open("/proc/uptime", encoding="ascii") as file:
            return f"up {float(file.read().split()[0]) / 3600:.1f} hours"

    @_in_words_of_nova
    def get_available_resource(self, nodename: str) -> dict[str, Any]:
        """Read the host's resources.

        Nova asks every minute, so this also notices an LXD that hangs.
        """
        try:
            resources = host.resources(self.lxd, CONF.lxd.pool)
        except LXDUnavailable as error:
            service.report(CONF.host, self.virtapi, str(error))
            raise
        service.report(CONF.host, self.virtapi, "")
        architecture = fields.Architecture.canonicalize(self.architecture)
        return {
            **resources,
            "hypervisor_hostname": nodename,
            "cpu_info": jsonutils.dumps({"arch": architecture}),
            "numa_topology": None,
            "supported_instances": [(architecture, fields.HVType.LXD, fields.VMMode.EXE)],
            "pci_passthrough_devices": "[]",
        }

    @_in_words_of_nova
    def update_provider_tree(self, provider_tree: Any, nodename: str, allocations: Any = None) -> None:
        resources = host.resources(self.lxd, CONF.lxd.pool)
        ratios = self._get_allocation_ratios(provider_tree.data(nodename).inventory)
        totals = {orc.VCPU: resources["vcpus"], orc.MEMORY_MB: resources["memory_mb"], orc.DISK_GB: resources["local_gb"]}
        reserved = {
            orc.VCPU: CONF.reserved_host_cpus,
            orc.MEMORY_MB: CONF.reserved_host_memory_mb,
            orc.DISK_GB: self._get_reserved_host_disk_gb_from_config(),
        }
        provider_tree.update_inventory(
            nodename,
            {
                name: {
                    "total": total,
                    "min_unit": 1,
                    "max_unit": total,
                    "step_size": 1,
                    "allocation_ratio": ratios[name],
                    "reserved": reserved[name],
                }
                for name, total in totals.items()
                if total
            },
        )
        self.gpus.update(provider_tree, nodename, self.instances.all())

    # What servers there are

    @_in_words_of_nova
    def list_instances(self) -> list[str]:
        return [record["name"] for record in self.instances.all()]

    @_in_words_of_nova
    def list_instance_uuids(self) -> list[str]:
        return [record["config"][instances.UUID] for record in self.instances.all()]

    @_in_words_of_nova
    def get_info(self, instance: Any, use_cache: bool = True) -> Any:
        state = POWER_STATES.get(self._record(instance)["status"], power_state.NOSTATE)
        return hardware.InstanceInfo(state=state, internal_id=instance.name)

    def _record(self, instance: Any) -> instances.Record:
        record = self.instances.find(instance.name, instance.uuid)
        if record is None:
            raise exception.InstanceNotFound(instance_id=instance.uuid)
        return record

    # The beginning and the end of a server

    @_in_words_of_nova
    def spawn(
        self,
        context: Any,
        instance: Any,
        image_meta: Any,
        injected_files: Any,
        admin_password: Any,
        allocations: Any,
        network_info: Any = None,
        block_device_info: Any = None,
        power_on: bool = True,
        accel_info: Any = None,
    ) -> None:
        ports_of_server = network_info or []
        if driver.block_device_info_get_mapping(block_device_info):
            raise Unacceptable(NO_VOLUMES)
        instances.refuse_flavor(instance.flavor)
        given = self.gpus.allocated(allocations)
        self._remove_unfinished(instance)
        reference = self._ensure_image_of(context, instance, image_meta)
        try:
            self.instances.create(
                instance.name,
                reference,
                {
                    **instances.configuration(instance, CONF.lxd.processes),
                    **devices.instance_configuration(given),
                    instances.GPUS: ",".join(gpu.id for gpu in given),
                    instances.UNFINISHED: "true",
                },
                {
                    "root": instances.root_device(instance.flavor, CONF.lxd.pool),
                    **network.devices(ports_of_server),
                    **devices.instance_devices(given),
                },
            )
            self._write_config_drive(instance, admin_password, injected_files, ports_of_server)
            if power_on:
                with network.wired(self.virtapi, instance, ports_of_server):
                    self._start(instance, ports_of_server)
            self.instances.edit(instance.name, lambda record: record["config"].pop(instances.UNFINISHED, None))
        except Exception:
            with excutils.save_and_reraise_exception():
                try:
                    self.destroy(context, instance, ports_of_server)
                except Exception:
                    LOG.exception("The failed spawn was not cleaned up; the next start of nova-compute does it", instance=instance)

    @_in_words_of_nova
    def rebuild(self, context: Any, instance: Any, image_meta: Any, *ignored: Any, **ignored_too: Any) -> None:
        """Refuse what can't be built again while the server is still there.

        Nova does the rest by destroy and spawn, as NotImplementedError asks it to.
        """
        instances.refuse_flavor(instance.flavor)
        record = self.instances.find(instance.name, instance.uuid)
        if record:
            gpus.refuse_lost(record)
        self._ensure_image_of(context, instance, image_meta)
        raise NotImplementedError

    def _remove_unfinished(self, instance: Any) -> None:
        """Remove what an earlier spawn of the server left; it was never handed over."""
        record = self.instances.find(instance.name, instance.uuid)
        if record and instances.UNFINISHED in record["config"]:
            self._remove(instance)

    def _ensure_image_of(self, context: Any, instance: Any, image_meta: Any) -> str:
        """Give LXD the image of a server, and return its identifier in Glance."""
        reference = str(image_meta.id if image_meta.obj_attr_is_set("id") and image_meta.id else instance.image_ref)
        self._ensure_image(context, reference, instance.flavor.root_gb)
        return reference

    def _ensure_image(self, context: Any, reference: str, root_gb: int = 0) -> bool:
        limit = (root_gb or CONF.lxd.image_gb) << 30  # bytes

        @utils.synchronized(f"nova-lxd-image-{reference}")
        def ensure() -> bool:
            with tempfile.TemporaryDirectory(prefix=recovery.FOLDER, dir=CONF.instances_path) as folder:
                try:
                    return Images(self.lxd, self.architecture).ensure(
                        reference, lambda path: glance.API().download(context, reference, dest_path=path), folder, limit
                    )
                except Unacceptable as error:
                    raise exception.ImageUnacceptable(image_id=reference, reason=str(error)) from error

        return bool(ensure())

    def _write_config_drive(self, instance: Any, admin_password: Any, injected_files: Any, network_info: Any) -> None:
        if not nova_configdrive.required_by(instance):
            return
        metadata = instance_metadata.InstanceMetadata(
            instance,
            content=injected_files,
            extra_md={"admin_pass": admin_password} if admin_password else {},
            network_info=network_info,
        )
        configdrive.write(self.lxd, instance.name, metadata.metadata_for_config_drive())

    @_in_words_of_nova
    def destroy(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        block_device_info: Any = None,
        destroy_disks: bool = True,
        destroy_secrets: bool = True,
    ) -> None:
        """Remove a server, unless it is gone already.

        What bears its name but is another's is left alone. Nova also calls this for a resize that is reverted; the instance is
        the same before and after, so it is only stopped.
        """
        if destroy_disks and instance.task_state != task_states.RESIZE_REVERTING:
            self._remove(instance)
        elif self.instances.find(instance.name, instance.uuid):
            self.instances.stop(instance.name)
        self.cleanup(context, instance, network_info, block_device_info, destroy_disks)

    def _remove(self, instance: Any) -> None:
        console.forget(_folder(instance))
        self.instances.settle(instance.name)
        if self.instances.find(instance.name, instance.uuid) is None:
            LOG.info("The instance is gone already", instance=instance)
            return
        self.instances.stop(instance.name)
        self.instances.delete(instance.name)

    def cleanup(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        block_device_info: Any = None,
        destroy_disks: bool = True,
        migrate_data: Any = None,
        destroy_vifs: bool = True,
        destroy_secrets: bool = True,
    ) -> None:
        if destroy_vifs:
            network.unplug(instance, network_info or [])

    # Power

    @_in_words_of_nova
    def power_on(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        block_device_info: Any = None,
        accel_info: Any = None,
        share_info: Any = None,
    ) -> None:
        gpus.refuse_lost(self._record(instance))
        self._start(instance, network_info)

    def _start(self, instance: Any, network_info: Any) -> None:
        network.plug_before_start(instance, network_info)
        console.forget(_folder(instance))
        self.instances.start(instance.name)
        network.plug_after_start(instance, network_info)

    @_in_words_of_nova
    def power_off(self, instance: Any, timeout: int = 0, retry_interval: int = 0) -> None:
        self._record(instance)
        if not self.instances.stop(instance.name, timeout) and timeout:
            LOG.warning("The server did not stop by itself in %s seconds and was stopped", timeout, instance=instance)

    @_in_words_of_nova
    def reboot(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        reboot_type: str,
        block_device_info: Any = None,
        bad_volumes_callback: Any = None,
        accel_info: Any = None,
        share_info: Any = None,
    ) -> None:
        gpus.refuse_lost(self._record(instance))  # a server that could not start again is not stopped
        self.instances.stop(instance.name, CONF.shutdown_timeout if reboot_type == "SOFT" else 0)
        self._set_ports(instance, network_info)
        self._start(instance, network_info)

    def _set_ports(self, instance: Any, network_info: Any) -> None:
        """Give a stopped instance the ports that Neutron has for it now."""
        wanted = network.devices(network_info)

        def change(record: instances.Record) -> None:
            others = {key: value for key, value in record["devices"].items() if not key.startswith(ports.PREFIX)}
            record["devices"] = {**others, **wanted}

        self.instances.edit(instance.name, change)

    @_in_words_of_nova
    def pause(self, instance: Any) -> None:
        self._record(instance)
        self.instances.change_state(instance.name, "freeze")

    @_in_words_of_nova
    def unpause(self, instance: Any) -> None:
        self._record(instance)
        self.instances.change_state(instance.name, "unfreeze")

    @_in_words_of_nova
    def resume_state_on_host_boot(self, context: Any, instance: Any, network_info: Any, *ignored: Any, **ignored_too: Any) -> None:
        """Start a server that ran before the host's boot.

        Nova 26 and 31 give devices and shares in another order; neither is used.
        """
        record = self._record(instance)
        if record["status"] != "Running":
            gpus.refuse_lost(record)
            self._start(instance, network_info)

    # Another size

    @_in_words_of_nova
    def migrate_disk_and_power_off(
        self,
        context: Any,
        instance: Any,
        dest: str,
        flavor: Any,
        network_info: Any,
        block_device_info: Any = None,
        timeout: int = 0,
        retry_interval: int = 0,
    ) -> str:
        """Stop a server before its resize.

        Whatever is not possible is refused first, and the server runs on.
        """
        try:
            instances.refuse_flavor(flavor)
            if dest != self.get_host_ip_addr():
                raise Unacceptable("A server can't move to another host; its resize is possible where its host has room for both sizes.")
            if flavor.root_gb and (flavor.root_gb < instance.flavor.root_gb or not instance.flavor.root_gb):
                raise Unacceptable(f"The root disk can't become smaller, as the new flavor with {flavor.root_gb} GB would make it.")
        except Unacceptable as error:
            raise exception.InstanceFaultRollback(exception.ResizeError(reason=str(error))) from error
        self._record(instance)
        self.instances.stop(instance.name, timeout)
        return "{}"

    @_in_words_of_nova
    def finish_migration(
        self,
        context: Any,
        migration: Any,
        instance: Any,
        disk_info: Any,
        network_info: Any,
        image_meta: Any,
        resize_instance: bool,
        allocations: Any,
        block_device_info: Any = None,
        power_on: bool = True,
    ) -> None:
        """Give a server its new size; until the user confirms, LXD keeps what it was."""
        given = self.gpus.allocated(allocations)
        config = {
            **instances.limits(instance.flavor, CONF.lxd.processes),
            **devices.instance_configuration(given),
            instances.GPUS: ",".join(gpu.id for gpu in given),
        }
        wanted = {"root": instances.root_device(instance.flavor, CONF.lxd.pool), **devices.instance_devices(given)}

        try:
            self.instances.edit(instance.name, lambda record: resize.change(record, config, wanted))
            if power_on:
                self._start(instance, network_info)
        except Exception:
            # Nova gives the server its former flavor back.
            with excutils.save_and_reraise_exception():
                self.instances.edit(instance.name, resize.restore)

    @_in_words_of_nova
    def confirm_migration(self, context: Any, migration: Any, instance: Any, network_info: Any) -> None:
        self.instances.edit(instance.name, resize.confirm)

    @_in_words_of_nova
    def finish_revert_migration(
        self, context: Any, instance: Any, network_info: Any, migration: Any, block_device_info: Any = None, power_on: bool = True
    ) -> None:
        used = self.instances.disk_usage(instance.name)
        self.instances.edit(instance.name, lambda record: resize.restore(record, used))
        if power_on:
            gpus.refuse_lost(self._record(instance))
            self._start(instance, network_info)

    # Images

    @_in_words_of_nova
    def snapshot(self, context: Any, instance: Any, image_id: str, update_task_state: Callable[..., Any]) -> None:
        self._record(instance)
        update_task_state(task_state=task_states.IMAGE_PENDING_UPLOAD)
        metadata = {
            "status": "active",
            "name": glance.API().get(context, image_id)["name"],
            "disk_format": "raw",
            "container_format": "bare",
            "properties": {"image_location": "snapshot", "image_state": "available", "owner_id": instance.project_id},
        }
        with snapshots.exported(self.lxd, instance.name, image_id) as file:
            update_task_state(task_state=task_states.IMAGE_UPLOADING, expected_state=task_states.IMAGE_PENDING_UPLOAD)
            glance.API().update(context, image_id, metadata, file, purge_props=False)

    @_in_words_of_nova
    def cache_image(self, context: Any, image_id: str) -> bool:
        return self._ensure_image(context, image_id)

    @_in_words_of_nova
    def manage_image_cache(self, context: Any, all_instances: Sequence[Any]) -> None:
        if not CONF.image_cache.remove_unused_base_images:
            return
        keep = {instance.image_ref for instance in all_instances}
        age = CONF.image_cache.remove_unused_original_minimum_age_seconds
        for name in Images(self.lxd, self.architecture).prune(keep, age):
            LOG.info("Removed the unused image %s from LXD", name)

    # What owners read

    @_in_words_of_nova
    def get_console_output(self, context: Any, instance: Any) -> bytes:
        @utils.synchronized(f"nova-lxd-console-{instance.uuid}")
        def read() -> bytes:
            record = self._record(instance)
            return console.output(self.lxd, instance.name, record["status"] == "Running", _folder(instance), gpus.lost(record))

        return bytes(read())

    # Ports

    @_in_words_of_nova
    def attach_interface(self, context: Any, instance: Any, image_meta: Any, vif: Any) -> None:
        self._record(instance)
        network.plug_before_start(instance, [vif])

        def change(record: instances.Record) -> None:
            record["devices"].setdefault(ports.name_of(vif["id"]), network.device(vif, record["devices"]))

        record = self.instances.edit(instance.name, change)
        if record["status"] == "Running":
            network.plug_after_start(instance, [vif])

    @_in_words_of_nova
    def detach_interface(self, context: Any, instance: Any, vif: Any) -> None:
        self._record(instance)
        self.instances.edit(instance.name, lambda record: record["devices"].pop(ports.name_of(vif["id"]), None))
        network.unplug(instance, [vif])

    @_in_words_of_nova
    def plug_vifs(self, instance: Any, network_info: Any) -> None:
        """Plug the ports again, as Nova does for each server when it starts.

        A stopped server has no interfaces yet.
        """
        network.plug_before_start(instance, network_info)
        record = self.instances.find(instance.name, instance.uuid)
        if record and record["status"] == "Running":
            network.plug_after_start(instance, network_info)

    def unplug_vifs(self, instance: Any, network_info: Any) -> None:
        network.unplug(instance, network_info)

    # Volumes: Nova asks for one of these before it attaches anything, and shows the refusal to the user

    def get_volume_connector(self, instance: Any) -> Mapping[str, Any]:
        raise exception.InvalidVolume(reason=NO_VOLUMES)

    def get_device_name_for_instance(self, instance: Any, bdms: Any, block_device_obj: Any) -> str:
        raise exception.InvalidVolume(reason=NO_VOLUMES)

    def attach_volume(
        self,
        context: Any,
        connection_info: Any,
        instance: Any,
        mountpoint: str,
        disk_bus: Any = None,
        device_type: Any = None,
        encryption: Any = None,
    ) -> None:
        raise exception.InvalidVolume(reason=NO_VOLUMES)


def _folder(instance: Any) -> str:
    """Name the folder of what the driver keeps of a server."""
    return os.path.join(CONF.instances_path, str(instance.uuid))
