# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""LXD's instances that are servers of Nova: they carry a server's UUID."""

from __future__ import annotations

import base64
import copy
import json
import time
from typing import Any, Callable, Mapping

from .client import CHANGED_MEANWHILE, NOT_FOUND, Client
from .errors import LXDError, LXDUnavailable, Unacceptable

UUID = "user.nova.uuid"
UNFINISHED = "user.nova.unfinished"  # from the beginning to the end of a spawn
HOSTNAME = "user.nova.hostname"  # for the template of a root file system's image
GPUS = "user.nova.gpus"  # identifiers of the file of GPUs, with commas between

# Extra specifications of flavors. The two of a disk are limits of bytes, or of requests, per second.
NESTING = "lxd:nested_allowed"
DISK_LIMITS = {
    "quota:disk_read_bytes_sec": ("limits.read", "{}B"),
    "quota:disk_read_iops_sec": ("limits.read", "{}iops"),
    "quota:disk_write_bytes_sec": ("limits.write", "{}B"),
    "quota:disk_write_iops_sec": ("limits.write", "{}iops"),
}

WRITABLE = ("architecture", "config", "description", "devices", "ephemeral", "profiles")
ATTEMPTS = 5
FORCED_STOP = 60  # seconds that LXD may take to end a container's processes

Record = dict


class Instances:
    """The servers of Nova on one LXD."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def all(self) -> list[Record]:
        """Read the instances that are servers of Nova, and leave out the others."""
        return [record for record in self.client.get("instances", query="recursion=1") if record["config"].get(UUID)]

    def find(self, name: str, uuid: str) -> Record | None:
        """Read a server's instance.

        :returns: None if it does not exist, or if its name belongs to something else.
        """
        try:
            record = self.client.get("instances", name)
        except LXDError as error:
            if error.code == NOT_FOUND:
                return None
            raise
        return record if record["config"].get(UUID) == uuid else None

    def status(self, name: str) -> str:
        """Read LXD's word for the state.

        It is Running, Stopped, Frozen, Error or one that is between two of them.

        :raises LXDError: with code 404 if there is no such instance.
        """
        return str(self.client.get("instances", name, "state")["status"])

    def disk_usage(self, name: str) -> int:
        """Read how many bytes are on the root disk; 0 where the pool does not count them."""
        disks = self.client.get("instances", name, "state").get("disk") or {}
        return int((disks.get("root") or {}).get("usage") or 0)

    def create(self, name: str, image: str, config: Mapping[str, str], devices: Mapping[str, Mapping[str, str]]) -> None:
        """Create a stopped instance of an image, by the image's alias.

        No profile has a part in it.
        """
        body = {
            "name": name,
            "profiles": [],
            "source": {"type": "image", "alias": image},
            "config": dict(config),
            "devices": {key: dict(value) for key, value in devices.items()},
        }
        self.client.request("POST", ("instances",), body)

    def edit(self, name: str, change: Callable[[Record], object]) -> Record:
        """Change a record, and nothing that another process changed meanwhile.

        :arg change: edits the record that it is given; it may be called more than once. LXD is left alone if it changes nothing.
        :raises LXDError: LXD refused the change.
        """
        for attempt in range(ATTEMPTS):
            record, etag = self.client.request("GET", ("instances", name))
            wanted = copy.deepcopy(record)
            change(wanted)
            if wanted == record:
                break
            body = {key: wanted[key] for key in WRITABLE if key in wanted}
            try:
                self.client.request("PUT", ("instances", name), body, headers={"If-Match": etag})
                break
            except LXDError as error:
                if error.code != CHANGED_MEANWHILE or attempt == ATTEMPTS - 1:
                    raise
        return wanted

    def change_state(self, name: str, action: str, timeout: int = -1, force: bool = False) -> None:
        """Start, stop, freeze or unfreeze; a stop without force may take timeout seconds."""
        patience = timeout + self.client.timeout if timeout > 0 else None
        body = {"action": action, "timeout": timeout, "force": force}
        self.client.request("PUT", ("instances", name, "state"), body, patience=patience)

    def start(self, name: str) -> None:
        """Start an instance, unless it runs already."""
        if self.status(name) == "Frozen":
            self.change_state(name, "unfreeze")
        elif self.status(name) != "Running":
            self.change_state(name, "start")

    def stop(self, name: str, timeout: int = 0) -> bool:
        """Stop an instance.

        Its init is asked, and its processes are ended if it is not done after timeout seconds.

        :returns: whether it stopped by itself, or was stopped already.
        """
        if self.status(name) == "Stopped":
            return True
        if timeout > 0:
            if self.status(name) == "Frozen":  # it could not react
                self.change_state(name, "unfreeze")
            try:
                self.change_state(name, "stop", timeout=timeout)
                return True
            except LXDError:
                if self.status(name) == "Stopped":
                    return True
        try:
            self.change_state(name, "stop", timeout=FORCED_STOP, force=True)
        except LXDError:
            if self.status(name) != "Stopped":
                raise
        return False

    def delete(self, name: str) -> None:
        """Delete a stopped instance; one that does not exist is deleted already."""
        try:
            self.client.request("DELETE", ("instances", name))
        except LXDError as error:
            if error.code != NOT_FOUND:
                raise

    def settle(self, name: str) -> None:
        """Wait for what LXD still does with an instance.

        It may be creating it for a nova-compute that was killed.

        :raises LXDUnavailable: it was not done in the client's patience.
        """
        deadline = time.monotonic() + self.client.patience
        while True:
            operations = self.client.get("operations", query="recursion=1") or {}
            running = [entry for entry in operations.get("running") or [] if _concerns(entry, name)]
            if not running:
                return
            try:
                self.client.wait(running[0]["id"], patience=deadline - time.monotonic())
            except LXDError:
                continue  # because how it ended is of no interest
            except LXDUnavailable:
                if time.monotonic() >= deadline:
                    raise


def _concerns(operation: Mapping[str, Any], name: str) -> bool:
    resources = operation.get("resources") or {}
    urls = [*(resources.get("instances") or []), *(resources.get("containers") or [])]
    return any(str(url).partition("?")[0].rsplit("/", 1)[-1] == name for url in urls)


def configuration(server: Any, processes: int) -> dict[str, str]:
    """Compute LXD's configuration of a server.

    It has limits, what cloud-init reads, and whose it is.

    :arg server: Nova's Instance.
    :arg processes: how many it may have.
    """
    config = {
        **limits(server.flavor, processes),
        # Root and users of two servers are different users of the host.
        "security.idmap.isolated": "true",
        # Nova starts servers after a host's boot: it knows which ones should run.
        "boot.autostart": "false",
        "user.meta-data": _meta_data(server),
        HOSTNAME: server.hostname or server.name,
        UUID: server.uuid,
    }
    user_data = _text_of(server.user_data)
    if user_data:
        config["user.user-data"] = user_data
    return config


def limits(flavor: Any, processes: int) -> dict[str, str]:
    """Compute what a flavor means for an instance, its root disk aside."""
    config = {"limits.cpu": str(flavor.vcpus), "limits.memory": f"{flavor.memory_mb}MiB", "limits.processes": str(processes)}
    if str((flavor.extra_specs or {}).get(NESTING, "")).lower() in ("true", "1", "yes"):
        config["security.nesting"] = "true"
    return config


LIMIT_KEYS = ("limits.cpu", "limits.memory", "limits.processes", "security.nesting")


def root_device(flavor: Any, pool: str) -> dict[str, str]:
    """Compute the root disk. A pool that can't limit its size leaves it unlimited."""
    device = {"type": "disk", "path": "/", "pool": pool}
    if flavor.root_gb:
        device["size"] = f"{flavor.root_gb}GiB"
    for key, value in sorted((flavor.extra_specs or {}).items()):
        if key in DISK_LIMITS:
            name, form = DISK_LIMITS[key]
            device[name] = form.format(value)
    return device


def refuse_flavor(flavor: Any) -> None:
    """Refuse disks that are not the root disk.

    :raises Unacceptable: with a sentence for the user.
    """
    for size, name in ((flavor.ephemeral_gb, "an ephemeral disk"), (flavor.swap, "a swap disk")):
        if size:
            raise Unacceptable(f"The flavor asks for {name}, but servers here have a root disk only: use another flavor.")


def _meta_data(server: Any) -> str:
    """What cloud-init's source for LXD reads, as JSON, which is YAML."""
    data: dict[str, Any] = {"instance-id": server.uuid, "local-hostname": server.hostname or server.name}
    if server.key_data:
        data["public-keys"] = [server.key_data.strip()]
    return json.dumps(data, sort_keys=True)


def _text_of(user_data: str | None) -> str:
    """Decode user data.

    Compressed data has no place in LXD's configuration; a config drive and the metadata service have it.
    """
    if not user_data:
        return ""
    try:
        return base64.b64decode(user_data).decode()
    except ValueError:
        return ""
