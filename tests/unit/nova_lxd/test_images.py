# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Images of Glance in LXD."""

from __future__ import annotations

import gzip
import io
import os
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
from nova_lxd.images import MADE_ANEW, PROPERTY, Images


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
def sqfs2tar(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Squashfs here is a tarball behind four bytes; the scenario nova_lxd_gpus has real ones."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "sqfs2tar").write_text('#!/bin/sh\nexec tail -c +5 -- "$2"\n', encoding="utf-8")
    (folder / "sqfs2tar").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def fetching(content: bytes) -> t.Callable[[str], object]:
    return lambda path: Path(path).write_bytes(content)


def stored(lxd: FakeLXD, reference: str) -> dict[str, t.Any]:
    return lxd.images[lxd.aliases[reference]]


def refused(path: str) -> object:
    raise AssertionError("the image was fetched")


def parts(lxd: FakeLXD, reference: str) -> tuple[dict[str, bytes], dict[str, tarfile.TarInfo]]:
    """What LXD has of an image: the files of its metadata, and the members of its root file system."""
    content = stored(lxd, reference)["content"]
    begin = content.index(b"\x1f\x8b\x08")
    with tarfile.open(fileobj=io.BytesIO(content[:begin])) as archive:
        files = {member.name: t.cast(t.IO[bytes], archive.extractfile(member)).read() for member in archive}
    with tarfile.open(fileobj=io.BytesIO(content[begin:])) as archive:
        return files, {member.name: member for member in archive}


def test_of_a_unified_image_the_root_file_system_alone_goes_to_lxd(lxd: FakeLXD, images: Images, tmp_path: Path) -> None:
    """LXD writes backup.yaml as root where the image's backup.yaml points to, and renders the image's templates in its daemon."""
    content = tarball(
        Member("metadata.yaml", content=b'{"architecture": "sparc", "templates": {"/x": {"when": ["create"], "template": "loop"}}}'),
        Member("backup.yaml", tarfile.SYMTYPE, link="/etc/profile.d/x.sh"),
        Member("templates/loop", content=b"{% for a in range %}"),
        Member("rootfs/", tarfile.DIRTYPE),
        Member("rootfs/etc/motd", content=b"hello"),
        Member("rootfs/etc/message", tarfile.LNKTYPE, link="rootfs/etc/motd"),
        Member("rootfs/run/lock", tarfile.SYMTYPE, link="/var/lock"),
        compression="gz",
    )
    assert images.ensure("glance-1", fetching(content), str(tmp_path))
    metadata, members = parts(lxd, "glance-1")
    assert set(metadata) == {"metadata.yaml", "templates/hostname.tpl"}
    assert b'"architecture": "x86_64"' in metadata["metadata.yaml"] and b"loop" not in metadata["metadata.yaml"]
    assert b'"creation_date": 0' not in metadata["metadata.yaml"], "LXD refuses it"
    assert metadata["templates/hostname.tpl"] == b'{{ config_get("user.nova.hostname", container.name) }}\n', (
        "servers would have the name of the host that built the image"
    )
    assert sorted(members) == [".", "etc/message", "etc/motd", "run/lock"]
    assert members["etc/message"].linkname == "etc/motd" and members["etc/motd"].size == 5
    assert stored(lxd, "glance-1")["properties"] == {PROPERTY: "glance-1", MADE_ANEW: "true"}


@pytest.mark.parametrize("begin", [b"", b"hsqs"], ids=["tarball", "squashfs"])
def test_a_root_file_system_keeps_what_a_container_may_have(lxd: FakeLXD, images: Images, tmp_path: Path, begin: bytes) -> None:
    content = tarball(
        Member("./", tarfile.DIRTYPE, mode=0o755),
        Member("./usr/bin/su", mode=0o4755, content=b"x" * (3 << 20), owner=(0, 42)),
        Member("./usr/bin/ping", mode=0o755, attributes={"SCHILY.xattr.security.capability": "\x01\udcff", "SCHILY.xattr.trusted.x": "y"}),
        Member("./var/pipe", tarfile.FIFOTYPE),
        Member("./name\udcff" + "x" * 200, content=b"1"),
        Member("./dev/null", tarfile.CHRTYPE, device=(1, 3)),
    )
    images.ensure("glance-1", fetching(begin + content), str(tmp_path))
    members = parts(lxd, "glance-1")[1]
    assert sorted(members) == [".", "dev/null", "name\udcff" + "x" * 200, "usr/bin/ping", "usr/bin/su", "var/pipe"]
    su = members["usr/bin/su"]
    assert (su.mode, su.uid, su.gid, su.size) == (0o4755, 0, 42, 3 << 20)
    attributes = {"SCHILY.xattr.security.capability": "\x01\udcff"}
    assert members["usr/bin/ping"].pax_headers == {**attributes, "hdrcharset": "BINARY"}, "trusted.x is not a container's"


def test_an_image_is_fetched_once(images: Images, tmp_path: Path) -> None:
    assert images.ensure("glance-1", fetching(unified({})), str(tmp_path))
    assert not images.ensure("glance-1", refused, str(tmp_path))


class Member(t.NamedTuple):
    name: str
    kind: bytes = tarfile.REGTYPE
    link: str = ""
    content: bytes = b""
    mode: int = 0o644
    owner: tuple[int, int] = (0, 0)
    device: tuple[int, int] = (0, 0)
    attributes: t.Mapping[str, str] = {}
    size: int | None = None  # in the header, where it lies


def tarball(*members: Member, compression: str = "") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{compression}", format=tarfile.PAX_FORMAT) as archive:
        for one in members:
            member = tarfile.TarInfo(one.name)
            member.type, member.linkname, member.mode, member.size = one.kind, one.link, one.mode, len(one.content)
            (member.uid, member.gid), (member.devmajor, member.devminor) = one.owner, one.device
            member.pax_headers = dict(one.attributes)
            if one.size is not None:
                member.size = one.size
                t.cast(t.IO[bytes], archive.fileobj).write(member.tobuf(tarfile.PAX_FORMAT))  # addfile wants the content
            else:
                archive.addfile(member, io.BytesIO(one.content))
    return buffer.getvalue()


def with_device(name: str, kind: bytes, major: int, minor: int, compression: str = "") -> bytes:
    """A tarball with a device file, and an ordinary one before it."""
    return tarball(Member("etc/motd"), Member(name, kind, mode=0o666, device=(major, minor)), compression=compression)


LINK = Member("a", tarfile.SYMTYPE, link="/etc")
METADATA = Member("metadata.yaml")
OUT, BEHIND, NONE = "leads out of the image", "lies behind a symbolic link", "no image of a container"
# By what is wrong: a part of the sentence, and what is in the image.
HOSTILE = {
    "parent": (OUT, [Member("../etc/cron.d/x", content=b"x")]),
    "parent within": (OUT, [Member("a/../../x")]),
    "parent of rootfs": (OUT, [METADATA, Member("rootfs/../backup.yaml", tarfile.SYMTYPE, link="/etc/x")]),
    "behind a link": (BEHIND, [LINK, Member("a/cron.d/x", content=b"x")]),
    "behind a link, written otherwise": (BEHIND, [Member("./a/", tarfile.SYMTYPE, link=".."), Member("/a//./x")]),
    "behind a link that a folder follows": (BEHIND, [LINK, Member("a", tarfile.DIRTYPE), Member("a/x")]),
    "behind a second name of a link": (BEHIND, [LINK, Member("b", tarfile.LNKTYPE, link="a"), Member("b/x")]),
    "behind a link of rootfs": (
        BEHIND,
        [METADATA, Member("rootfs/a", tarfile.SYMTYPE, link="../.."), Member("rootfs/a/backup.yaml", tarfile.SYMTYPE, link="/etc/x")],
    ),
    "hard link out": (OUT, [Member("x", tarfile.LNKTYPE, link="../../etc/shadow")]),
    "hard link through a link": (BEHIND, [LINK, Member("x", tarfile.LNKTYPE, link="a/shadow")]),
    "hard link beside": (OUT, [METADATA, Member("rootfs/x", tarfile.LNKTYPE, link="metadata.yaml")]),
    "root is a link": (NONE, [METADATA, Member("rootfs", tarfile.SYMTYPE, link="/")]),
    "root is a file": (NONE, [Member("./", content=b"x")]),
    "nothing in it": (NONE, [METADATA, Member("templates/x")]),
    "etc is a link": ("etc is no folder", [Member("etc", tarfile.SYMTYPE, link="/etc")]),
    "etc is a link after its files": ("etc is no folder", [Member("etc/motd"), Member("./etc", tarfile.SYMTYPE, link="/etc")]),
    "hard link to the host's name": ("is a hard link to /etc/hostname", [Member("x", tarfile.LNKTYPE, link="etc/hostname")]),
    "endless time": (NONE, [Member("x", attributes={"mtime": "inf"})]),
    "deep": ("too large: more than 200 folders deep", [Member("d/" * 250 + "x")]),
    "owner": ("user or group of 65536 or above", [Member("x", owner=(100000, 0))]),
    "group": ("user or group of 65536 or above", [Member("x", owner=(0, 65536))]),
    "volume": ("is no file, folder or link", [Member("x", b"V")]),
    "size": ("too large: more than 200 GiB", [Member("x", size=1 << 60)]),
    "truncated": (NONE, [Member("x", size=1 << 30)]),
}


@pytest.mark.parametrize("compression", ["", "gz", "xz", "bz2"])
@pytest.mark.parametrize(("sentence", "members"), HOSTILE.values(), ids=HOSTILE)
def test_what_leads_out_of_an_image_is_refused(
    lxd: FakeLXD, images: Images, tmp_path: Path, sentence: str, members: list[Member], compression: str
) -> None:
    with pytest.raises(Unacceptable, match=sentence) as caught:
        images.ensure("glance-1", fetching(tarball(*members, compression=compression)), str(tmp_path))
    assert len(str(caught.value)) <= 128, "Nova cuts it off"
    assert lxd.images == {}


@pytest.mark.parametrize("name", ["etc/hostname", "./etc//hostname", "etc/hostname/x"])
def test_the_name_of_the_server_is_not_written_behind_a_link(lxd: FakeLXD, images: Images, tmp_path: Path, name: str) -> None:
    """LXD writes it as the host's root, and follows a link (CVE-2026-23954)."""
    content = tarball(Member("etc", tarfile.DIRTYPE), Member(name, tarfile.SYMTYPE, link="/etc/shadow"), Member("etc/motd"))
    images.ensure("glance-1", fetching(content), str(tmp_path))
    metadata, members = parts(lxd, "glance-1")
    assert sorted(members) == ["etc", "etc/motd"]
    assert b'"when": ["create"]' in metadata["metadata.yaml"], "at a copy the user's own link may be there"


@pytest.mark.parametrize("compression", ["", "gz"])
@pytest.mark.parametrize("how", ["cut between members", "cut in a member", "cut in a header", "a header is overwritten"])
def test_half_an_image_is_refused(lxd: FakeLXD, images: Images, tmp_path: Path, how: str, compression: str) -> None:
    whole = tarball(*(Member(f"file{number}", content=b"x" * 600) for number in range(20)))
    member = 512 + 1024  # bytes of one
    at = 10 * member
    half = {
        "cut between members": whole[:at],
        "cut in a member": whole[: at + 700],
        "cut in a header": whole[: at + 100],
        "a header is overwritten": whole[:at] + b"\xff" * 512 + whole[at + 512 :],
    }[how]
    with pytest.raises(Unacceptable, match=NONE):
        images.ensure("glance-1", fetching(gzip.compress(half) if compression else half), str(tmp_path))
    assert lxd.images == {}
    images.ensure("glance-1", fetching(gzip.compress(whole) if compression else whole), str(tmp_path))


def test_a_program_that_something_else_ends_is_no_fault_of_the_image(
    images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "killed.py"
    script.write_text("import os\nos.kill(os.getpid(), 15)\n", encoding="utf-8")
    monkeypatch.setattr(subject.rootfs, "__file__", str(script))
    with pytest.raises(OSError, match="could not be made anew"):
        images.ensure("glance-1", fetching(root()), str(tmp_path))


def test_what_would_fill_the_memory_is_refused(lxd: FakeLXD, images: Images, tmp_path: Path) -> None:
    """A header of 4 GiB, which is 18 MB in the image."""
    header = tarfile.TarInfo("./PaxHeaders/x")
    header.type, header.size = tarfile.XHDTYPE, 4 << 30
    with open(tmp_path / "made", "wb") as file, gzip.GzipFile("", "wb", 1, file) as packed:
        packed.write(header.tobuf(tarfile.USTAR_FORMAT))
        for _number in range(header.size >> 20):
            packed.write(bytes(1 << 20))
    with pytest.raises(Unacceptable, match="too large: more than fits into memory"):
        images.ensure("glance-1", lambda path: shutil.copy(tmp_path / "made", path), str(tmp_path))
    assert lxd.images == {}


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


def test_an_image_from_before_is_fetched_again_and_made_anew(lxd: FakeLXD, images: Images, tmp_path: Path) -> None:
    """LXD has it as its user made it."""
    images.ensure("glance-1", fetching(root()), str(tmp_path))
    former = lxd.aliases["glance-1"]
    lxd.images["former"] = {**lxd.images.pop(former), "properties": {PROPERTY: "glance-1"}, "fingerprint": "former"}
    lxd.aliases["glance-1"] = "former"
    assert not images.has("glance-1")
    assert images.ensure("glance-1", fetching(root()), str(tmp_path))
    assert lxd.aliases["glance-1"] == former and images.has("glance-1")
    assert images.prune(keep=[], older_than=-1) == ["glance-1", "glance-1"], "the former one too"


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
