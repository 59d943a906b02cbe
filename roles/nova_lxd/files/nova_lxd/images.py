# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Glance's images in LXD.

A user's image never reaches LXD: what goes there is a tarball of its root file system that rootfs.py makes, and metadata made here.
An image is known in LXD by its identifier in Glance, as alias. LXD keeps one copy of equal images, so one may have several.
"""

from __future__ import annotations

import datetime
import hashlib
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from typing import Any, Callable, Collection, Iterator, Mapping, NamedTuple
from urllib.parse import urlencode

from . import rootfs
from .client import NOT_FOUND, Client
from .errors import LXDError, Unacceptable
from .instances import HOSTNAME

PROPERTY = "nova.image"  # the mark of the images that the driver put into LXD
# The bytes that an image takes of a disk, and the mark of those that rootfs.py made. Images that came to LXD before this mark existed
# are users' own, so they are fetched again.
UNPACKED = "nova.unpacked"
CHUNK = 1 << 20  # bytes
_BOUNDARY = "nova-lxd-f3b1c7a0"


class Upload(NamedTuple):
    """The body of a request that gives LXD an image."""

    headers: dict[str, str]
    chunks: Iterator[bytes]


class Images:
    """The images of Nova in one LXD."""

    def __init__(self, client: Client, architecture: str) -> None:
        self.client = client
        self.architecture = architecture

    def has(self, reference: str, limit: int) -> bool:
        """Say whether LXD has an image of Glance that rootfs.py made.

        :arg limit: bytes of a disk that it may take.
        :raises Unacceptable: it takes more.
        """
        alias = self._read("aliases", reference)
        image = self._read(alias["target"]) if alias else None
        size = str(((image or {}).get("properties") or {}).get(UNPACKED, ""))
        if size.isdigit() and int(size) > limit:
            raise Unacceptable(rootfs.TOO_LARGE.format(rootfs.gibibytes(limit)))
        return size.isdigit()

    def ensure(self, reference: str, fetch: Callable[[str], object], folder: str, limit: int) -> bool:
        """Give LXD an image of Glance, unless it has it.

        :arg fetch: writes the image into a file with the path that it is given.
        :arg folder: where that file may be meanwhile.
        :arg limit: bytes of a disk that it may take when it is unpacked.
        :returns: whether it was fetched.
        :raises Unacceptable: the image is not one of a container, or has what a container may not have.
        """
        if self.has(reference, limit):
            return False
        path = os.path.join(folder, "image")
        fetch(path)
        path, size = remade(path, limit)
        sent = upload(path, self.architecture, reference, size)
        try:
            fingerprint = str(self.client.upload(("images",), sent.chunks, sent.headers).metadata["fingerprint"])
        except LXDError as error:
            # LXD has an equal image, or has this one from a run that was killed before the alias was made.
            fingerprint = _fingerprint(path, self.architecture)
            if not self._read(fingerprint):
                raise error from None
        try:
            if self._read("aliases", reference):
                self.client.request("PUT", ("images", "aliases", reference), {"target": fingerprint})
            else:
                self.client.request("POST", ("images", "aliases"), {"name": reference, "target": fingerprint})
        except LXDError:
            if not self.has(reference, limit):
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

    def _read(self, *url: str) -> dict[str, Any] | None:
        """What LXD says of an image or an alias; None if it has none."""
        try:
            return dict(self.client.get("images", *url))
        except LXDError as error:
            if error.code == NOT_FOUND:
                return None
            raise


def remade(path: str, limit: int) -> tuple[str, int]:
    """Make a tarball of an image's root file system.

    :returns: its path, and the bytes of a disk that it takes when it is unpacked.
    :raises Unacceptable: with a sentence for the user.
    :raises OSError: the tarball could not be written.
    """
    new = f"{path}.root"
    command = [sys.executable, "-I", rootfs.__file__, path, new, str(limit)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            while process.poll() is None:
                time.sleep(0.1)  # lets the other green threads of nova-compute run
        finally:
            process.kill()
        said, error = process.communicate()
    if process.returncode == rootfs.REFUSED:
        raise Unacceptable(said.strip())
    if process.returncode == -signal.SIGXCPU:
        raise Unacceptable(rootfs.TOO_LARGE.format("this host reads"))
    if process.returncode != 0:
        raise OSError(f"The image could not be rebuilt: {error.strip()[-200:]}")
    return new, int(said)


def upload(path: str, architecture: str, reference: str, size: int) -> Upload:
    """Compute the request that gives LXD a root file system.

    Its file is read while it is sent.
    """
    head = b"".join([_part("metadata"), made_metadata(architecture), b"\r\n", _part("rootfs")])
    tail = f"\r\n--{_BOUNDARY}--\r\n".encode()
    headers = {
        "X-LXD-properties": urlencode({PROPERTY: reference, UNPACKED: str(size)}),
        "Content-Type": f"multipart/form-data; boundary={_BOUNDARY}",
        "Content-Length": str(len(head) + os.path.getsize(path) + len(tail)),
    }
    return Upload(headers, itertools.chain([head], _chunks(path), [tail]))


def made_metadata(architecture: str) -> bytes:
    """Compute the tarball of metadata.

    It is always the same, because LXD's fingerprint of an image is made of it, too.
    """
    # JSON is YAML. LXD refuses the date 0. Without the template a server would have the name of the host that built its image.
    # Its file is not in what rootfs.py makes, and it is not written again at a copy: LXD follows a link that is there.
    metadata = {
        "architecture": architecture,
        "creation_date": 1,
        "properties": {"description": "Root file system of OpenStack's image service"},
        "templates": {"/etc/hostname": {"when": ["create"], "template": "hostname.tpl"}},
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
    digest = hashlib.sha256(made_metadata(architecture))
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
