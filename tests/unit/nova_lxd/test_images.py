# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Images of Glance in LXD."""

from __future__ import annotations

import io
import shutil
import tarfile
import time
import typing as t
from pathlib import Path

import pytest
from fake_lxd import FakeLXD, unified
from nova_lxd import images as subject
from nova_lxd.client import Client
from nova_lxd.errors import LXDError, Unacceptable
from nova_lxd.images import PROPERTY, Images


def root(size: int = 10) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo("./etc/large")
        member.size = size
        archive.addfile(member, io.BytesIO(b"x" * size))
    return buffer.getvalue()


@pytest.fixture
def images(client: Client) -> Images:
    return Images(client, "x86_64")


def fetching(content: bytes) -> t.Callable[[str], object]:
    return lambda path: Path(path).write_bytes(content)


def stored(lxd: FakeLXD, reference: str) -> dict[str, t.Any]:
    return lxd.images[lxd.aliases[reference]]


def refused(path: str) -> object:
    raise AssertionError("the image was fetched")


def test_a_unified_image_goes_to_lxd_as_it_is(lxd: FakeLXD, images: Images, tmp_path: Path) -> None:
    content = unified({"etc/motd": b"hello"})
    assert images.ensure("glance-1", fetching(content), str(tmp_path))
    assert stored(lxd, "glance-1")["content"] == content
    assert stored(lxd, "glance-1")["properties"] == {PROPERTY: "glance-1"}


@pytest.mark.parametrize("content", [root(3 << 20), b"hsqs" + b"\0" * 100], ids=["tarball", "squashfs"])
def test_a_root_file_system_gets_metadata(lxd: FakeLXD, images: Images, tmp_path: Path, content: bytes) -> None:
    images.ensure("glance-1", fetching(content), str(tmp_path))
    sent = stored(lxd, "glance-1")["content"]
    assert sent.endswith(content)
    with tarfile.open(fileobj=io.BytesIO(sent[: -len(content)])) as archive:
        metadata = t.cast(t.IO[bytes], archive.extractfile("metadata.yaml")).read()
        assert b'"architecture": "x86_64"' in metadata
        assert b'"creation_date": 0' not in metadata, "LXD refuses it"
        template = t.cast(t.IO[bytes], archive.extractfile("templates/hostname.tpl")).read()
        assert template == b'{{ config_get("user.nova.hostname", container.name) }}\n', (
            "servers would have the name of the host that built the image"
        )


def test_metadata_is_found_in_compressed_images(lxd: FakeLXD, images: Images, tmp_path: Path) -> None:
    content = unified({})
    assert content[:2] == b"\x1f\x8b"
    images.ensure("glance-1", fetching(content), str(tmp_path))
    assert stored(lxd, "glance-1")["content"] == content


def test_an_image_is_fetched_once(images: Images, tmp_path: Path) -> None:
    assert images.ensure("glance-1", fetching(unified({})), str(tmp_path))
    assert not images.ensure("glance-1", refused, str(tmp_path))


@pytest.mark.parametrize("content", [b"QFI\xfb" + b"\0" * 600, b"", b"\x1f\x8bbroken"], ids=["qcow2", "empty", "broken"])
def test_images_of_virtual_machines_are_refused(lxd: FakeLXD, images: Images, tmp_path: Path, content: bytes) -> None:
    with pytest.raises(Unacceptable, match="no image of a container") as caught:
        images.ensure("glance-1", fetching(content), str(tmp_path))
    assert len(str(caught.value)) <= 128, "Nova cuts it off"
    assert lxd.images == {}


@pytest.mark.parametrize("content", [unified({}), root()], ids=["unified", "root"])
def test_equal_images_are_one_with_two_names(lxd: FakeLXD, images: Images, tmp_path: Path, content: bytes) -> None:
    images.ensure("glance-1", fetching(content), str(tmp_path))
    images.ensure("glance-2", fetching(content), str(tmp_path))
    assert lxd.aliases["glance-1"] == lxd.aliases["glance-2"]
    assert len(lxd.images) == 1


def test_an_image_whose_alias_was_never_made_is_adopted(lxd: FakeLXD, images: Images, tmp_path: Path) -> None:
    images.ensure("glance-1", fetching(unified({})), str(tmp_path))
    lxd.aliases.clear()
    images.ensure("glance-1", fetching(unified({})), str(tmp_path))
    assert list(lxd.aliases) == ["glance-1"]


def test_a_failed_upload_is_an_error(lxd: FakeLXD, images: Images, tmp_path: Path) -> None:
    lxd.failures.append(("POST", "/images$", "no space left on device"))
    with pytest.raises(LXDError, match="no space left"):
        images.ensure("glance-1", fetching(unified({})), str(tmp_path))
    assert not images.has("glance-1")


def test_only_images_that_no_server_uses_are_removed(lxd: FakeLXD, images: Images, tmp_path: Path) -> None:
    for number in range(3):
        images.ensure(f"glance-{number}", fetching(unified({"n": b"%d" % number})), str(tmp_path))
    lxd.images["foreign"] = {"fingerprint": "foreign", "properties": {"os": "debian"}, "uploaded_at": "2020-01-01T00:00:00Z"}
    lxd.aliases["second-name"] = lxd.aliases["glance-1"]
    assert images.prune([], older_than=3600) == [], "they are too young"
    assert images.prune(["glance-0", "second-name"], older_than=-5) == ["glance-2"]
    assert sorted(lxd.aliases) == ["glance-0", "glance-1", "second-name"]
    assert "foreign" in lxd.images


def test_the_age_of_an_image_begins_with_its_last_use(lxd: FakeLXD, images: Images, tmp_path: Path) -> None:
    images.ensure("glance-1", fetching(unified({})), str(tmp_path))
    image = stored(lxd, "glance-1")
    image.update(uploaded_at="2020-01-01T00:00:00Z", last_used_at=time.strftime("%Y-%m-%dT%H:%M:%S.000000001Z", time.gmtime()))
    assert images.prune([], older_than=3600) == []
    image.update(last_used_at="0001-01-01T00:00:00Z")
    assert images.prune([], older_than=3600) == ["glance-1"]


def test_a_large_image_is_not_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "image"
    with open(path, "wb") as file:
        shutil.copyfileobj(io.BytesIO(root(5 << 20)), file)
    sent = subject.upload(str(path), "x86_64", "glance-1")
    sizes = [len(chunk) for chunk in sent.chunks]
    assert sum(sizes) == int(sent.headers["Content-Length"])
    assert max(sizes) <= subject.CHUNK
