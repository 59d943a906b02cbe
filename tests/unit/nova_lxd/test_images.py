# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Images of Glance in LXD."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import time
import typing as t
import zlib
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


@pytest.fixture(autouse=True)
def unsquashfs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Squashfs here is no more than its first bytes; the scenario nova_lxd_gpus has real ones."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "unsquashfs").write_text("#!/bin/sh\necho 'drwxr-xr-x 0/0 31 2026-11-25 20:04 squashfs-root'\n", encoding="utf-8")
    (folder / "unsquashfs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


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


def with_device(name: str, kind: bytes, major: int, minor: int, compression: str = "") -> bytes:
    """A tarball with a device file, and an ordinary one before it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{compression}") as archive:
        archive.addfile(tarfile.TarInfo("rootfs/etc/motd"))
        member = tarfile.TarInfo(name)
        member.type, member.devmajor, member.devminor, member.mode = kind, major, minor, 0o666
        archive.addfile(member)
    return buffer.getvalue()


@pytest.mark.parametrize("compression", ["", "gz", "xz"])
@pytest.mark.parametrize(
    ("name", "kind", "number"),
    [
        ("rootfs/root/gpu", tarfile.CHRTYPE, (195, 1)),
        ("root/disk", tarfile.BLKTYPE, (8, 0)),
        ("./a name\nof two lines", tarfile.BLKTYPE, (1, 3)),
        ("rootfs/devices/memory", tarfile.CHRTYPE, (1, 1)),
        ("rootfs/root/a-long-name-" + "x" * 150, tarfile.CHRTYPE, (226, 0)),
        # What is in a server's /dev hides the first one, but not the others.
        ("rootfs/dev/sda", tarfile.BLKTYPE, (8, 0)),
        ("dev/nvidia1", tarfile.CHRTYPE, (195, 1)),
        ("rootfs/root/dev/sda", tarfile.BLKTYPE, (8, 0)),
    ],
)
def test_an_image_with_a_device_file_is_refused(
    lxd: FakeLXD, images: Images, tmp_path: Path, name: str, kind: bytes, number: tuple[int, int], compression: str
) -> None:
    """LXD unpacks it as the host's root, and any user of a container could open it."""
    with pytest.raises(Unacceptable, match="has the device file") as caught:
        images.ensure("glance-1", fetching(with_device(name, kind, *number, compression)), str(tmp_path))
    assert len(str(caught.value)) <= 128, "Nova cuts it off"
    assert lxd.images == {}


def two_in_one(outer: bytes, inner: bytes) -> bytes:
    """A file that is a plain tarball to who looks for "ustar", and a compressed one to who looks at its first bytes.

    The tarball without compression lies in the field of gzip's header that programs skip.
    """
    extra = outer + b"\0" * 1024
    assert len(extra) + 500 < 1 << 16
    block = bytearray(512)
    block[0:12] = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff" + (500 + len(extra)).to_bytes(2, "little")
    block[100:108], block[124:136], block[156:157] = b"0000644\0", b"00000000000\0", b"0"
    block[257:265] = b"ustar\x0000"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    deflate = zlib.compressobj(wbits=-15)
    packed = deflate.compress(inner) + deflate.flush()
    return bytes(block) + extra + packed + zlib.crc32(inner).to_bytes(4, "little") + (len(inner) & 0xFFFFFFFF).to_bytes(4, "little")


def test_an_image_that_is_two_things_is_read_as_lxd_reads_it(lxd: FakeLXD, images: Images, tmp_path: Path) -> None:
    harmless = io.BytesIO()
    with tarfile.open(fileobj=harmless, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("metadata.yaml"))
    crafted = two_in_one(harmless.getvalue()[:512], with_device("rootfs/root/sda", tarfile.BLKTYPE, 8, 0))
    (tmp_path / "crafted").write_bytes(crafted)
    plain = subprocess.run(["tar", "--list", "--file", str(tmp_path / "crafted")], check=True, capture_output=True, text=True).stdout
    assert "metadata.yaml" in plain and "sda" not in plain, "it is what it should be"
    with pytest.raises(Unacceptable, match="has the device file rootfs/root/sda"):
        images.ensure("glance-1", fetching(crafted), str(tmp_path))
    assert lxd.images == {}


@pytest.mark.parametrize(
    ("name", "kind", "number"),
    [
        ("rootfs/root/null", tarfile.CHRTYPE, (1, 3)),
        ("./dev/console", tarfile.CHRTYPE, (5, 1)),  # debootstrap makes it
        ("rootfs/etc/.wh", tarfile.CHRTYPE, (0, 0)),
    ],
)
def test_device_files_that_do_no_harm_pass(images: Images, tmp_path: Path, name: str, kind: bytes, number: tuple[int, int]) -> None:
    assert images.ensure("glance-1", fetching(with_device(name, kind, *number)), str(tmp_path))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        # As unsquashfs 4.5.1 and GNU tar 1.34 list them.
        ("crw-rw-rw- 0/0                  1,  3 2026-11-25 20:04 squashfs-root/dev/null", ""),
        ("crw-rw-rw- 0/44               226,  1 2026-11-25 20:04 squashfs-root/root/foreign", "squashfs-root/root/foreign"),
        ("brw-rw---- 0/6                254,  0 2026-11-25 20:04 squashfs-root/dev/vda", "squashfs-root/dev/vda"),
        ("brw-rw-rw- 0/0               8,0 2026-11-25 20:04 rootfs/root/disk", "rootfs/root/disk"),
        ("drwxr-xr-x 0/0                 31 2026-11-25 20:04 squashfs-root/c", ""),
        ("crw in other words", "crw in other words"),
    ],
)
def test_devices_in_a_listing(line: str, found: str) -> None:
    assert subject.device_of(line) == found


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
