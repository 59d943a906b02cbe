# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""An instance as an image.

A snapshot is published in LXD and read from there; then both are deleted.
"""

from __future__ import annotations

import contextlib
import http.client
from typing import Iterator

from . import images
from .client import NOT_FOUND, Client
from .errors import LXDError
from .instances import Instances

PREFIX = "nova-"  # of the snapshots that the driver makes
PROPERTY = "nova.snapshot"  # the mark of the images that are made of them


@contextlib.contextmanager
def exported(client: Client, name: str, reference: str) -> Iterator[http.client.HTTPResponse]:
    """Make an image of an instance, which may run, and open it as a file.

    It is LXD's unified tarball, compressed.

    :arg reference: the identifier of the image in Glance.
    :raises LXDError: LXD can't make one.
    """
    snapshot = PREFIX + reference
    client.request("POST", ("instances", name, "snapshots"), {"name": snapshot, "stateful": False})
    try:
        body = {"source": {"type": "snapshot", "name": f"{name}/{snapshot}"}, "properties": {PROPERTY: reference}}
        fingerprint = str(client.request("POST", ("images",), body).metadata["fingerprint"])
        try:
            with client.stream("images", fingerprint, "export") as file:
                yield file
        finally:
            _delete(client, "images", fingerprint)
    finally:
        _delete(client, "instances", name, "snapshots", snapshot)


def clean(client: Client) -> list[str]:
    """Delete what runs that were killed left of their snapshots.

    :returns: what was deleted, as text for a log.
    """
    deleted = []
    for image in client.get("images", query="recursion=1"):
        properties = image.get("properties") or {}
        # A snapshot that came back from Glance has the mark too, and is an image like others.
        if PROPERTY in properties and images.PROPERTY not in properties:
            _delete(client, "images", image["fingerprint"])
            deleted.append(f"image {image['fingerprint'][:12]}")
    for record in Instances(client).all():
        for url in client.get("instances", record["name"], "snapshots"):
            snapshot = str(url).partition("?")[0].rsplit("/", 1)[-1]
            if snapshot.startswith(PREFIX):
                _delete(client, "instances", record["name"], "snapshots", snapshot)
                deleted.append(f"snapshot {record['name']}/{snapshot}")
    return deleted


def _delete(client: Client, *url: str) -> None:
    try:
        client.request("DELETE", url)
    except LXDError as error:
        if error.code != NOT_FOUND:
            raise
