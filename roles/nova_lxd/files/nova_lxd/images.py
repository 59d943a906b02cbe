# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Glance's images in LXD.

LXD's unified tarballs go there as they are; for root file systems metadata is made here. A user's image with device files is refused:
LXD unpacks it as the host's root, and a container without privileges may open what is there, whatever the device is (seen with 5.0.2).
An image is known in LXD by its identifier in Glance, as alias. LXD keeps one copy of equal images, so one may have several.
"""

from __future__ import annotations

import datetime
import hashlib
import io
import itertools
import json
import os
import re
import subprocess
import tarfile
import time
from typing import Any, Callable, Collection, Iterator, Mapping, NamedTuple
from urllib.parse import urlencode

from .client import NOT_FOUND, Client
from .errors import LXDError, Unacceptable
from .instances import HOSTNAME

PROPERTY = "nova.image"  # the mark of the images that the driver put into LXD
SQUASHFS = b"hsqs"
CHUNK = 1 << 20  # bytes
FIRST_MEMBERS = 100  # of a tarball; LXD and its tools write the metadata in front of the files
_BOUNDARY = "nova-lxd-f3b1c7a0"

# Nova shows 255 characters of a sentence, 127 of which are its own.
NO_IMAGE = "It is no image of a container. Use LXD's unified image, or a tarball or squashfs of a root."
# What LXD lets a container with privileges open: null, zero, full, random, urandom, tty, console, ptmx, tun, fuse (driver_lxc.go of 5.0);
# and the mark of a removed file in a layer of an overlay, which is no device.
HARMLESS = frozenset({(0, 0), (1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (5, 2), (10, 200), (10, 229)})
# By which bytes LXD chooses how it unpacks an image, in its order (shared/archive.go of 5.0): where, which, the option of tar.
FORMATS = (
    (0, b"BZ", "--bzip2"),
    (0, b"\x1f\x8b", "--gzip"),
    (0, b"\xfd7zXZ", "--xz"),
    (257, b"ustar", ""),
    (0, SQUASHFS, "squashfs"),
)
# How tar and unsquashfs list a device: rights, owner, numbers, date, time, name.
_DEVICE = re.compile(r"[bc]\S+\s+\d+/\d+\s+(\d+),\s*(\d+)\s+\S+\s+\S+\s+(.*)")


class Upload(NamedTuple):
    """The body of a request that gives LXD an image."""

    headers: dict[str, str]
    chunks: Iterator[bytes]


class Images:
    """The images of Nova in one LXD."""

    def __init__(self, client: Client, architecture: str) -> None:
        self.client = client
        self.architecture = architecture

    def has(self, reference: str) -> bool:
        """Say whether LXD has an image of Glance."""
        return self._exists("aliases", reference)

    def ensure(self, reference: str, fetch: Callable[[str], object], folder: str) -> bool:
        """Give LXD an image of Glance, unless it has it.

        :arg fetch: writes the image into a file with the path that it is given.
        :arg folder: where that file may be meanwhile.
        :returns: whether it was fetched.
        :raises Unacceptable: the image is not one of a container, or has device files.
        """
        if self.has(reference):
            return False
        path = os.path.join(folder, "image")
        fetch(path)
        refuse_devices(path)
        sent = upload(path, self.architecture, reference)
        try:
            fingerprint = str(self.client.upload(("images",), sent.chunks, sent.headers).metadata["fingerprint"])
        except LXDError as error:
            # LXD has an equal image, or has this one from a run that was killed before the alias was made.
            fingerprint = _fingerprint(path, self.architecture)
            if not self._exists(fingerprint):
                raise error from None
        try:
            self.client.request("POST", ("images", "aliases"), {"name": reference, "target": fingerprint})
        except LXDError:
            if not self.has(reference):
                raise
        return True

    def prune(self, keep: Collection[str], older_than: float) -> list[str]:
        """Delete the images that no server uses.

        :arg keep: identifiers in Glance that are in use.
        :arg older_than: seconds that an image was not used to make an instance.
        :returns: what was deleted, as identifiers in Glance.
        """
        deleted = []
        for image in self.client.get("images", query="recursion=1"):
            if PROPERTY not in (image.get("properties") or {}):
                continue
            names = {alias["name"] for alias in image.get("aliases") or []} | {image["properties"][PROPERTY]}
            if names & set(keep) or _age(image) < older_than:
                continue
            try:
                self.client.request("DELETE", ("images", image["fingerprint"]))
            except LXDError as error:
                if error.code != NOT_FOUND:
                    raise
            deleted.extend(sorted(names))
        return deleted

    def _exists(self, *url: str) -> bool:
        try:
            self.client.get("images", *url)
        except LXDError as error:
            if error.code == NOT_FOUND:
                return False
            raise
        return True


def refuse_devices(path: str) -> None:
    """Refuse an image with a device file: its user would reach the host's devices.

    The image is listed by the programs by which LXD unpacks it, in the format that LXD sees. A file may be two things at once.

    :raises Unacceptable: with a sentence for the user.
    """
    kind = format_of(path)
    listing = ["unsquashfs", "-lln", path] if kind == "squashfs" else ["tar", "--list", "--verbose", "--numeric-owner", "--file=-"]
    if kind and kind != "squashfs":
        listing.append(kind)
    found = ""
    with open(path, "rb") as file, subprocess.Popen(
        listing, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={"PATH": os.environ["PATH"], "LC_ALL": "C"}
    ) as process:
        for number, line in enumerate(process.stdout or ()):
            found = found or device_of(line.decode("utf-8", "replace").rstrip("\n"))
            if number % FIRST_MEMBERS == 0:
                time.sleep(0)  # lets the other green threads of nova-compute run
    if found:
        raise Unacceptable(f"It has the device file {found[-40:]}. Build it without: servers have devices by their flavor alone.")
    if process.returncode != 0:
        raise Unacceptable(NO_IMAGE)


def format_of(path: str) -> str:
    """Read how LXD would unpack a file: by an option of tar, or as squashfs.

    A plain tarball has no option.

    :raises Unacceptable: in no way that is known here.
    """
    with open(path, "rb") as file:
        head = file.read(512)
    for offset, mark, kind in FORMATS:
        if head[offset : offset + len(mark)] == mark:
            return kind
    raise Unacceptable(NO_IMAGE)


def device_of(line: str) -> str:
    """Read which device file a line of a listing shows.

    The text is empty if the line shows no device file, or a harmless one.
    """
    if line[:1] not in ("b", "c"):
        return ""
    device = _DEVICE.match(line)
    if device and line[0] == "c" and (int(device[1]), int(device[2])) in HARMLESS:
        return ""
    return device[3] if device else line


def upload(path: str, architecture: str, reference: str) -> Upload:
    """Compute the request that gives LXD an image; its file is read while it is sent.

    :raises Unacceptable: the file is not an image of a container.
    """
    size = os.path.getsize(path)
    headers = {"X-LXD-properties": urlencode({PROPERTY: reference})}
    metadata = made_metadata(path, architecture)
    if not metadata:
        return Upload({**headers, "Content-Type": "application/octet-stream", "Content-Length": str(size)}, _chunks(path))
    head = b"".join([_part("metadata"), metadata, b"\r\n", _part("rootfs")])
    tail = f"\r\n--{_BOUNDARY}--\r\n".encode()
    headers["Content-Type"] = f"multipart/form-data; boundary={_BOUNDARY}"
    headers["Content-Length"] = str(len(head) + size + len(tail))
    return Upload(headers, itertools.chain([head], _chunks(path), [tail]))


def made_metadata(path: str, architecture: str) -> bytes:
    """Compute the tarball of metadata for a root file system.

    It is empty if the file has metadata of its own, and the same for equal files, because LXD's fingerprint of an image is made of both.

    :raises Unacceptable: the file is neither a tarball nor a squashfs.
    """
    if format_of(path) != "squashfs":
        try:
            with tarfile.open(path) as archive:
                if any(os.path.normpath(member.name) == "metadata.yaml" for member in itertools.islice(archive, FIRST_MEMBERS)):
                    return b""
        except (tarfile.TarError, EOFError, OSError) as error:
            raise Unacceptable(NO_IMAGE) from error
    # JSON is YAML. LXD refuses the date 0. Without the template a server would have the name of the host that built its image.
    metadata = {
        "architecture": architecture,
        "creation_date": 1,
        "properties": {"description": "Root file system of OpenStack's image service"},
        "templates": {"/etc/hostname": {"when": ["create", "copy"], "template": "hostname.tpl"}},
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        _add(archive, "metadata.yaml", json.dumps(metadata, sort_keys=True).encode())
        _add(archive, "templates/hostname.tpl", f'{{{{ config_get("{HOSTNAME}", container.name) }}}}\n'.encode())
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def _part(name: str) -> bytes:
    lines = [
        f"--{_BOUNDARY}",
        f'Content-Disposition: form-data; name="{name}"; filename="{name}"',
        "Content-Type: application/octet-stream",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def _chunks(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while True:
            chunk = file.read(CHUNK)
            if not chunk:
                return
            yield chunk
            time.sleep(0)  # lets the other green threads of nova-compute run


def _fingerprint(path: str, architecture: str) -> str:
    digest = hashlib.sha256(made_metadata(path, architecture))
    for chunk in _chunks(path):
        digest.update(chunk)
    return digest.hexdigest()


def _age(image: Mapping[str, Any]) -> float:
    """Seconds since an image was used, or came."""
    used = [_time(image.get(key)) for key in ("last_used_at", "uploaded_at")]
    return time.time() - max(used)


def _time(value: Any) -> float:
    """Compute seconds since 1970; 0 if the time is not known.

    LXD writes 2026-01-31T10:00:00.123456789Z.
    """
    try:
        moment = datetime.datetime.strptime(str(value)[:19], "%Y-%m-%dT%H:%M:%S")
    except ValueError:
        return 0
    return moment.replace(tzinfo=datetime.timezone.utc).timestamp() if moment.year > 1 else 0
