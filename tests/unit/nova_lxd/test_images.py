# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Images of Glance in LXD."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
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
from nova_lxd.images import PROPERTY, UNPACKED, Images

LIMIT = 20 << 30  # bytes
CAPABILITY = "SCHILY.xattr.security.capability"
RAW = "\x01\0\0\x02\udcff" + "\0" * 15  # the capability to use raw sockets, and some more


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
    assert images.ensure("glance-1", fetching(content), str(tmp_path), LIMIT)
    metadata, members = parts(lxd, "glance-1")
    assert set(metadata) == {"metadata.yaml", "templates/hostname.tpl"}
    assert b'"architecture": "x86_64"' in metadata["metadata.yaml"] and b"loop" not in metadata["metadata.yaml"]
    assert b'"creation_date": 0' not in metadata["metadata.yaml"], "LXD refuses it"
    assert metadata["templates/hostname.tpl"] == b'{{ config_get("user.nova.hostname", container.name) }}\n', (
        "servers would have the name of the host that built the image"
    )
    assert sorted(members) == [".", "etc/message", "etc/motd", "run/lock"]
    assert members["etc/message"].linkname == "etc/motd" and members["etc/motd"].size == 5
    assert stored(lxd, "glance-1")["properties"] == {PROPERTY: "glance-1", UNPACKED: "18432"}, "three folders, a file and two links"


@pytest.mark.parametrize("begin", [b"", b"hsqs"], ids=["tarball", "squashfs"])
def test_a_root_file_system_keeps_what_a_container_may_have(lxd: FakeLXD, images: Images, tmp_path: Path, begin: bytes) -> None:
    content = tarball(
        Member("./", tarfile.DIRTYPE, mode=0o755),
        Member("./usr/bin/su", mode=0o4755, content=b"x" * (3 << 20), owner=(0, 42)),
        Member("./usr/bin/ping", mode=0o755, attributes={CAPABILITY: RAW, "SCHILY.xattr.trusted.x": "y"}),
        Member("./usr/bin/other", attributes={CAPABILITY: "no capability"}),
        Member("./var/pipe", tarfile.FIFOTYPE),
        Member("./name\udcff" + "x" * 200, content=b"1"),
        Member("./dev/null", tarfile.CHRTYPE, device=(1, 3)),
    )
    images.ensure("glance-1", fetching(begin + content), str(tmp_path), LIMIT)
    members = parts(lxd, "glance-1")[1]
    assert sorted(members) == [".", "dev/null", "name\udcff" + "x" * 200, "usr/bin/other", "usr/bin/ping", "usr/bin/su", "var/pipe"]
    su = members["usr/bin/su"]
    assert (su.mode, su.uid, su.gid, su.size) == (0o4755, 0, 42, 3 << 20)
    attributes = {CAPABILITY: RAW}
    assert not members["usr/bin/other"].pax_headers
    assert members["usr/bin/ping"].pax_headers == {**attributes, "hdrcharset": "BINARY"}, "trusted.x is not a container's"


def test_an_image_is_fetched_once(images: Images, tmp_path: Path) -> None:
    assert images.ensure("glance-1", fetching(unified({})), str(tmp_path), LIMIT)
    assert not images.ensure("glance-1", refused, str(tmp_path), LIMIT)


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


def pax(**values: str) -> dict[str, str]:
    """Fields of a member that win over those of its header, as no header can have them."""
    return values


LINK = Member("a", tarfile.SYMTYPE, link="/etc")
METADATA = Member("metadata.yaml")
OUT, BEHIND, NONE = "leads out of the image", "lies behind a symbolic link", "no image of a container"
TWICE, LOST = "is in it twice", "is a hard link, and no file before it is its target"
ZERO, LONG, LINUX = "has the character 0 in it", "the end of a longer name than Linux has", "a target that Linux does not have"
# By what is wrong: a part of the sentence, and what is in the image.
HOSTILE = {
    "parent": (OUT, [Member("../etc/cron.d/x", content=b"x")]),
    "parent within": (OUT, [Member("a/../../x")]),
    "parent of rootfs": (OUT, [METADATA, Member("rootfs/../backup.yaml", tarfile.SYMTYPE, link="/etc/x")]),
    "behind a link": (BEHIND, [LINK, Member("a/cron.d/x", content=b"x")]),
    "behind a link, written otherwise": (BEHIND, [Member("./a/", tarfile.SYMTYPE, link=".."), Member("/a//./x")]),
    "a folder in the place of a link": (TWICE, [LINK, Member("a", tarfile.DIRTYPE), Member("a/x")]),
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
    "size": ("too large: more than 20 GiB when it is unpacked", [Member("x", size=1 << 60)]),
    "a user that is no number": ("user or group of 65536", [Member("x", attributes=pax(uid="1e3"))]),
    "a group that is no number": ("user or group of 65536", [Member("x", attributes=pax(gid="nan"))]),
    "signs that a terminal obeys": (r"\?\[31m\?\?ERROR .* leads out", [Member("\x1b[31m\r\nERROR /../x")]),
    "a file twice": (TWICE, [Member("x", content=b"x"), Member("./x")]),
    "a link in the place of a file": (TWICE, [Member("x", content=b"x"), Member("x", tarfile.SYMTYPE, link="y")]),
    "a file in the place of a folder": (TWICE, [Member("x/y"), Member("x", content=b"x")]),
    "a file below a file": ("lies below what is no folder", [Member("x"), Member("x/y")]),
    "a hard link to nothing": (LOST, [Member("x", tarfile.LNKTYPE, link="y")]),
    "a hard link to what comes later": (LOST, [Member("x", tarfile.LNKTYPE, link="y"), Member("y")]),
    "a hard link to itself": (LOST, [Member("x", tarfile.LNKTYPE, link="x")]),
    "a hard link to a folder": (LOST, [Member("y/z"), Member("x", tarfile.LNKTYPE, link="y")]),
    "more attributes than a disk takes": (
        "more than 3500 bytes of attributes of x",
        [Member("x", attributes={"SCHILY.xattr.user.x": "y" * 3500})],
    ),
    "many small attributes": (
        "more than 3500 bytes of attributes of x",
        [Member("x", attributes={f"SCHILY.xattr.user.{number}": "" for number in range(70)})],
    ),
    "character 0 in a name": (ZERO, [Member("x", attributes=pax(path="a\0x"))]),
    "character 0 in a link, which is then a link at the end of the name": (
        ZERO,
        [Member("x", tarfile.SYMTYPE, link="..", attributes=pax(path="a\0x")), Member("a/evil")],
    ),
    "character 0 for a root": (ZERO, [METADATA, Member("x", tarfile.SYMTYPE, link="/etc", attributes=pax(path="rootfs/\0"))]),
    "character 0 in a target": (LINUX, [Member("x", tarfile.SYMTYPE, link="y", attributes=pax(linkpath="..\0"))]),
    "character 0 in a hard link": (ZERO, [Member("y"), Member("x", tarfile.LNKTYPE, link="y", attributes=pax(linkpath="y\0z"))]),
    "a name of 256 bytes": (LONG, [Member("é" * 128)]),
    "a path that is too long with that of LXD before it": (
        LONG,
        [Member("x" * 254 + "/", tarfile.DIRTYPE), Member(("x" * 255 + "/") * 14 + "x" * 255)],
    ),
    "a target of 4,096 bytes": (LINUX, [Member("x", tarfile.SYMTYPE, link="x" * 4096)]),
    "no target": (LINUX, [Member("x", tarfile.SYMTYPE)]),
    "attributes of 64 KiB": ("more than 64 KiB about one file", [Member("x", attributes={"SCHILY.xattr.user.x": "y" * (64 << 10)})]),
    "a name of 5 MiB": ("more than 64 KiB about one file", [Member("x/" * (5 << 19))]),
    "holes in the newest form": ("stored with its holes", [Member("x", attributes={"GNU.sparse.major": "1", "GNU.sparse.minor": "0"})]),
    "truncated": (NONE, [Member("x", size=1 << 30)]),
}


@pytest.mark.parametrize("compression", ["", "gz", "xz", "bz2"])
@pytest.mark.parametrize(("sentence", "members"), HOSTILE.values(), ids=HOSTILE)
def test_what_leads_out_of_an_image_is_refused(
    lxd: FakeLXD, images: Images, tmp_path: Path, sentence: str, members: list[Member], compression: str
) -> None:
    with pytest.raises(Unacceptable, match=sentence) as caught:
        images.ensure("glance-1", fetching(tarball(*members, compression=compression)), str(tmp_path), LIMIT)
    assert len(str(caught.value)) <= 128, "Nova cuts it off"
    assert lxd.images == {}


@pytest.mark.parametrize("name", ["etc/hostname", "./etc//hostname", "etc/hostname/x"])
def test_the_name_of_the_server_is_not_written_behind_a_link(lxd: FakeLXD, images: Images, tmp_path: Path, name: str) -> None:
    """LXD writes it as the host's root, and follows a link (CVE-2026-23954)."""
    content = tarball(Member("etc", tarfile.DIRTYPE), Member(name, tarfile.SYMTYPE, link="/etc/shadow"), Member("etc/motd"))
    images.ensure("glance-1", fetching(content), str(tmp_path), LIMIT)
    metadata, members = parts(lxd, "glance-1")
    assert sorted(members) == ["etc", "etc/motd"]
    assert b'"when": ["create"]' in metadata["metadata.yaml"], "at a copy the user's own link may be there"


COMPRESSED: dict[str, t.Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("kind", COMPRESSED)
@pytest.mark.parametrize("pieces", [2, 3_000])
def test_an_image_in_many_streams_is_taken_whole(lxd: FakeLXD, images: Images, tmp_path: Path, kind: str, pieces: int) -> None:
    """As pbzip2, bgzip and cat make them."""
    whole = tarball(*(Member(f"file{number}", content=b"x" * 600) for number in range(20)))
    size = -(-len(whole) // min(pieces, len(whole)))
    content = b"".join(COMPRESSED[kind](whole[begin : begin + size]) for begin in range(0, len(whole), size))
    images.ensure("glance-1", fetching(content), str(tmp_path), LIMIT)
    assert len(parts(lxd, "glance-1")[1]) == 20


@pytest.mark.parametrize("kind", COMPRESSED)
@pytest.mark.parametrize("how", ["cut", "wrong sum", "with something behind", "with half a stream behind", "with a second image behind"])
def test_a_compressed_image_that_is_not_whole_is_refused(lxd: FakeLXD, images: Images, tmp_path: Path, kind: str, how: str) -> None:
    compress = COMPRESSED[kind]
    whole = tarball(*(Member(f"file{number}", content=os.urandom(600)) for number in range(20)))
    content = compress(whole)
    middle = len(content) // 2
    changed = {
        "cut": content[:-5],
        "wrong sum": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        "with something behind": content + b"something",
        "with half a stream behind": content + content[:middle],
        "with a second image behind": content + content,
    }[how]
    with pytest.raises(Unacceptable, match=NONE):
        images.ensure("glance-1", fetching(changed), str(tmp_path), LIMIT)
    assert lxd.images == {}
    images.ensure("glance-1", fetching(content), str(tmp_path), LIMIT)


@pytest.mark.parametrize(("end", "is_whole"), [(0, False), (512, False), (1024, True), (10240, True)])
def test_an_image_ends_with_two_blocks_of_zeros(images: Images, tmp_path: Path, end: int, is_whole: bool) -> None:
    content = tarball(Member("x", content=b"x" * 512))[:1024] + bytes(end)
    if is_whole:
        assert images.ensure("glance-1", fetching(content), str(tmp_path), LIMIT)
    for wrong in (content + b"x",) if is_whole else (content, gzip.compress(content)):
        with pytest.raises(Unacceptable, match=NONE):
            images.ensure("glance-2", fetching(wrong), str(tmp_path), LIMIT)


def many_names() -> bytes:
    """Each is a name for the next one."""
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 2
    return (header.tobuf(tarfile.GNU_FORMAT) + b"x".ljust(512, b"\0")) * 2000 + tarball(Member("x"))


def described(fields: bytes, kind: bytes = tarfile.XHDTYPE, members: int = 1) -> bytes:
    """Files, each described by these fields, however wrong; or all by one description."""
    header = tarfile.TarInfo("description")
    header.type, header.size = kind, len(fields)
    words = header.tobuf(tarfile.USTAR_FORMAT) + fields + bytes(-len(fields) % 512)
    one = words if kind == tarfile.XHDTYPE else b""
    files = b"".join(one + tarfile.TarInfo(f"x{number}").tobuf(tarfile.USTAR_FORMAT) for number in range(members))
    return (b"" if one else words) + files + bytes(1024)


def claiming(size: int) -> bytes:
    header = tarfile.TarInfo("x")
    header.size = size
    return header.tobuf(tarfile.GNU_FORMAT) + bytes(512)


@pytest.mark.parametrize("kind", ["", *COMPRESSED])
@pytest.mark.parametrize(
    "content",
    [
        many_names(),
        claiming(19 << 30),
        tarball(Member("x", attributes=pax(size="nan"), content=b"x" * 512)),
        tarball(Member("x", attributes=pax(size="-512"), content=b"x" * 512)),
        described(b"9" * 65536, members=40),
        described(b"22 GNU.sparse.size=10\n" + b"9" * 65000),
        described(b"2 " * 32767 + b"=\n"),
        described(b"11 a=" + b"7" * 5 + b"\n" + b"130 SCHILY.xattr.user.a=" + b"7" * 105 + b"\n"),
        described(b"garbage"),
        described(b"10 path=abcdefgh\n"),
        described(b"12 path=abcd"),
        described(b"8 path=a\n"),
        described(b"26 GNU.sparse.map=1,0,1,0\n", tarfile.XGLTYPE),
        tarball(Member("x", attributes={"GNU.sparse.map": "0,a"}, content=b"x" * 512)),
        tarball(Member("x", attributes={"GNU.sparse.map": "0,512", "GNU.sparse.size": "99999999"}, content=b"x" * 512))[:1500],
    ],
    ids=[
        *("2,000 names in a row", "a size of 19 GiB", "size nan", "a size below 0"),
        *(
            "digits",
            "a field and digits",
            "lengths",
            "many digits",
            "no field",
            "a short field",
            "no end",
            "a long field",
            "a map for all files",
        ),
        *("a wrong map", "cut in holes"),
    ],
)
def test_an_image_that_readers_stumble_over_is_refused_at_once(
    lxd: FakeLXD, images: Images, tmp_path: Path, content: bytes, kind: str
) -> None:
    begin = time.process_time() + sum(os.times()[2:4])
    with pytest.raises(Unacceptable, match=NONE):
        images.ensure("glance-1", fetching(COMPRESSED.get(kind, bytes)(content)), str(tmp_path), LIMIT)
    assert time.process_time() + sum(os.times()[2:4]) - begin < 5
    assert lxd.images == {}


def test_fields_for_all_files_are_few(images: Images, tmp_path: Path) -> None:
    """Each file gets them: with 90,000 of them 200,000 files take minutes."""

    def image(fields: int) -> bytes:
        buffer = io.BytesIO()
        given = {f"x{number}": "y" for number in range(fields)}
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, pax_headers=given) as archive:
            archive.addfile(tarfile.TarInfo("x"))
        return buffer.getvalue()

    assert images.ensure("glance-1", fetching(image(100)), str(tmp_path), LIMIT)
    with pytest.raises(Unacceptable, match="more than 100 fields for all files"):
        images.ensure("glance-2", fetching(image(101)), str(tmp_path), LIMIT)


def test_links_for_which_tar_searches_are_bounded(lxd: FakeLXD, images: Images, tmp_path: Path) -> None:
    inside = [Member(f"{number}", tarfile.SYMTYPE, link="inside") for number in range(10)]
    out = [Member(f"{number}/x", tarfile.SYMTYPE, link=("/x", "y/../z")[number % 2]) for number in range(100, 50_100)]
    images.ensure("glance-1", fetching(tarball(*inside, *out)), str(tmp_path), LIMIT)
    assert len(parts(lxd, "glance-1")[1]) == 50_010
    with pytest.raises(Unacceptable, match="more than 50000 symbolic links that are absolute or have"):
        images.ensure("glance-2", fetching(tarball(*out, Member("y", tarfile.SYMTYPE, link="../x"))), str(tmp_path), LIMIT)


def test_hard_links_to_a_file_are_not_more_than_a_disk_takes(images: Images, tmp_path: Path) -> None:
    members = [Member("x"), *(Member(f"{number}", tarfile.LNKTYPE, link="x") for number in range(32_001))]
    with pytest.raises(Unacceptable, match="more than 32000 hard links to x"):
        images.ensure("glance-1", fetching(tarball(*members)), str(tmp_path), LIMIT)


@pytest.mark.parametrize(
    "value",
    ["\0\0\0\x01" + "\0" * 8, "\0\x01\0\x02" + "\0" * 16, "\0\0\0\x03" + "\0" * 16 + "\udcff" * 4, "\x02\0\0\x02" + "\0" * 16, ""],
    ids=["version 1", "unknown flags", "of no user", "effective twice", "empty"],
)
def test_a_capability_that_the_kernel_does_not_take_is_left_out(lxd: FakeLXD, images: Images, tmp_path: Path, value: str) -> None:
    """tar has a word on each, with its name, and LXD keeps them all."""
    good = "\x01\0\0\x03" + "\0" * 16 + "\x05\0\0\0"
    content = tarball(Member("x", attributes={CAPABILITY: value}), Member("y", attributes={CAPABILITY: good}))
    images.ensure("glance-1", fetching(content), str(tmp_path), LIMIT)
    members = parts(lxd, "glance-1")[1]
    assert (members["x"].pax_headers, members["y"].pax_headers) == ({}, {CAPABILITY: good})


def test_tar_unpacks_links_last(lxd: FakeLXD, images: Images, tmp_path: Path) -> None:
    """It searches all that it has already, for each folder and hard link that comes behind."""
    links = [Member("a", tarfile.SYMTYPE, link="../b"), Member("f", tarfile.LNKTYPE, link="a")]
    content = tarball(*links, Member("b"), Member("c", tarfile.LNKTYPE, link="b"), Member("d/e"))
    images.ensure("glance-1", fetching(content), str(tmp_path), LIMIT)
    assert list(parts(lxd, "glance-1")[1]) == ["b", "c", "d/e", "a", "f"]
    assert parts(lxd, "glance-1")[1]["f"].linkname == "../b", "a second name of a link is such a link"


@pytest.mark.parametrize(("given", "kept"), [("-1", 0), ("1e300", 0), ("99999999999", 0), ("1.5", 1)])
def test_times_are_in_the_past(lxd: FakeLXD, images: Images, tmp_path: Path, given: str, kept: int) -> None:
    images.ensure("glance-1", fetching(tarball(Member("x", attributes=pax(mtime=given)))), str(tmp_path), LIMIT)
    assert parts(lxd, "glance-1")[1]["x"].mtime == kept


def test_many_members_take_a_time_that_grows_with_their_number(images: Images, tmp_path: Path) -> None:
    content = b"".join(tarfile.TarInfo(f"{number % 100}/{number}").tobuf(tarfile.GNU_FORMAT) for number in range(50_000))
    begin = sum(os.times()[2:4])
    images.ensure("glance-1", fetching(gzip.compress(content + bytes(1024))), str(tmp_path), LIMIT)
    assert sum(os.times()[2:4]) - begin < 20


@pytest.mark.parametrize(
    ("members", "size"),
    [
        ([Member("x", content=b"x" * 4096)], 4096),
        ([Member("x", content=b"x" * 4097)], 8192),
        ([Member(f"d{number}", tarfile.DIRTYPE) for number in range(10)], 40960),
        ([Member("x", attributes={"SCHILY.xattr.user.x": "y" * 3000})], 5120),
        ([Member("x", attributes={"GNU.sparse.map": "0,512", "GNU.sparse.size": "1000000"}, content=b"x" * 512)], 1003520),
    ],
    ids=["one block", "two blocks", "folders", "attributes", "holes"],
)
def test_an_image_is_as_large_as_it_is_on_a_disk(lxd: FakeLXD, images: Images, tmp_path: Path, members: list[Member], size: int) -> None:
    with pytest.raises(Unacceptable, match=r"It is too large: more than .* GiB when it is unpacked"):
        images.ensure("glance-1", fetching(tarball(*members)), str(tmp_path), size - 1)
    images.ensure("glance-1", fetching(tarball(*members)), str(tmp_path), size)
    assert stored(lxd, "glance-1")["properties"][UNPACKED] == str(size)


def test_an_image_that_is_there_is_too_large_for_a_smaller_flavor(images: Images, tmp_path: Path) -> None:
    images.ensure("glance-1", fetching(root(10_000)), str(tmp_path), LIMIT)
    with pytest.raises(Unacceptable, match="too large"):
        images.ensure("glance-1", refused, str(tmp_path), 10_000)
    assert not images.ensure("glance-1", refused, str(tmp_path), LIMIT)


def test_tar_which_unpacks_it_reads_the_same_names(lxd: FakeLXD, images: Images, tmp_path: Path) -> None:
    names = ["a b", "two\nlines", "é", "\udcff", "back\\slash", "x" * 255, "/".join(["d" * 99] * 30), "-rf", "~", "'", " ", "a\tb", "*"]
    members = [Member(f"./{name}", content=b"1") for name in names]
    links = [Member(f"./{name}.l", tarfile.SYMTYPE, link=f"../{name}") for name in names if len(name) < 200]
    members = [*links, *members, Member("./hard", tarfile.LNKTYPE, link="a b")]
    members.append(Member("./x", attributes={"SCHILY.xattr.user.a": "1\0=\n2"}))
    images.ensure("glance-1", fetching(tarball(*members)), str(tmp_path), LIMIT)
    content = stored(lxd, "glance-1")["content"]
    file = tmp_path / "rootfs.tar.gz"
    file.write_bytes(content[content.index(b"\x1f\x8b\x08") :])
    (tmp_path / "out").mkdir()
    for locale in ("C", "C.UTF-8"):
        words = ["tar", "--extract", "--gzip", "--file", file, "--directory", tmp_path / "out", "--no-same-owner"]
        subprocess.run(words, check=True, env={"PATH": os.environ["PATH"], "LC_ALL": locale})
        found = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_symlink() or path.is_file()}
        assert found == set(parts(lxd, "glance-1")[1]) == {member.name[2:] for member in members}
        for member in members:
            if member.kind == tarfile.SYMTYPE:
                assert os.readlink(tmp_path / "out" / member.name) == member.link
    assert set(parts(lxd, "glance-1")[1]["x"].pax_headers) == {"SCHILY.xattr.user.a"}


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
        images.ensure("glance-1", fetching(gzip.compress(half) if compression else half), str(tmp_path), LIMIT)
    assert lxd.images == {}
    images.ensure("glance-1", fetching(gzip.compress(whole) if compression else whole), str(tmp_path), LIMIT)


def test_a_program_that_something_else_ends_is_no_fault_of_the_image(
    images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "killed.py"
    script.write_text("import os\nos.kill(os.getpid(), 15)\n", encoding="utf-8")
    monkeypatch.setattr(subject.rootfs, "__file__", str(script))
    with pytest.raises(OSError, match="could not be rebuilt"):
        images.ensure("glance-1", fetching(root()), str(tmp_path), LIMIT)


def test_a_description_of_4_gib_is_not_read(lxd: FakeLXD, images: Images, tmp_path: Path) -> None:
    """It is 18 MB in the image."""
    header = tarfile.TarInfo("./PaxHeaders/x")
    header.type, header.size = tarfile.XHDTYPE, 4 << 30
    content = header.tobuf(tarfile.USTAR_FORMAT) + bytes(1 << 20)
    with pytest.raises(Unacceptable, match="too large: more than 64 KiB about one file"):
        images.ensure("glance-1", fetching(gzip.compress(content)), str(tmp_path), LIMIT)
    assert lxd.images == {}


def test_what_would_fill_the_memory_is_refused(lxd: FakeLXD, images: Images, tmp_path: Path) -> None:
    """A stream of xz that asks for 4 GiB, in 100 bytes."""
    small = [{"id": lzma.FILTER_LZMA2, "preset": 0}]
    content = bytearray(lzma.compress(root(), check=lzma.CHECK_NONE, filters=small))
    at = content.index(b"\x21\x01") + 2  # the size of the dictionary in the header of the block
    content[at] = 40  # 4 GiB
    length = (content[12] + 1) * 4
    content[12 + length - 4 : 12 + length] = zlib.crc32(content[12 : 12 + length - 4]).to_bytes(4, "little")
    with pytest.raises(Unacceptable, match="too large: more than fits into memory"):
        images.ensure("glance-1", fetching(bytes(content)), str(tmp_path), LIMIT)
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
        images.ensure("glance-1", fetching(with_device(name, kind, *number, compression)), str(tmp_path), LIMIT)
    assert len(str(caught.value)) <= 128, "Nova cuts it off"
    assert lxd.images == {}


def two_in_one(outer: bytes, inner: bytes) -> bytes:
    """A file that is a plain tarball to who looks for "ustar", and a compressed one to who looks at its first bytes.

    The tarball without compression lies in the field of gzip's header that programs skip.
    """
    extra = outer + bytes(1024)
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


def test_of_an_image_of_two_formats_one_alone_goes_to_lxd(lxd: FakeLXD, images: Images, tmp_path: Path) -> None:
    """The compressed one, which is rebuilt: so LXD has nothing to choose."""
    crafted = two_in_one(tarball(METADATA)[:512], tarball(Member("etc/inner")))
    (tmp_path / "crafted").write_bytes(crafted)
    plain = subprocess.run(["tar", "--list", "--file", str(tmp_path / "crafted")], check=True, capture_output=True, text=True).stdout
    assert "metadata.yaml" in plain and "inner" not in plain, "it is what it should be"
    images.ensure("glance-1", fetching(crafted), str(tmp_path), LIMIT)
    assert list(parts(lxd, "glance-1")[1]) == ["etc/inner"]
    with pytest.raises(Unacceptable, match="has the device file root/sda"):
        inner = with_device("root/sda", tarfile.BLKTYPE, 8, 0)
        images.ensure("glance-2", fetching(two_in_one(tarball(METADATA)[:512], inner)), str(tmp_path), LIMIT)


@pytest.mark.parametrize(
    ("name", "kind", "number"),
    [
        ("rootfs/root/null", tarfile.CHRTYPE, (1, 3)),
        ("./dev/console", tarfile.CHRTYPE, (5, 1)),  # debootstrap makes it
        ("rootfs/etc/.wh", tarfile.CHRTYPE, (0, 0)),
    ],
)
def test_device_files_that_do_no_harm_pass(images: Images, tmp_path: Path, name: str, kind: bytes, number: tuple[int, int]) -> None:
    assert images.ensure("glance-1", fetching(with_device(name, kind, *number)), str(tmp_path), LIMIT)


@pytest.mark.parametrize("content", [b"QFI\xfb" + b"\0" * 600, b"", b"\x1f\x8bbroken"], ids=["qcow2", "empty", "broken"])
def test_images_of_virtual_machines_are_refused(lxd: FakeLXD, images: Images, tmp_path: Path, content: bytes) -> None:
    with pytest.raises(Unacceptable, match="no image of a container") as caught:
        images.ensure("glance-1", fetching(content), str(tmp_path), LIMIT)
    assert len(str(caught.value)) <= 128, "Nova cuts it off"
    assert lxd.images == {}


@pytest.mark.parametrize("content", [unified({}), root()], ids=["unified", "root"])
def test_equal_images_are_one_with_two_names(lxd: FakeLXD, images: Images, tmp_path: Path, content: bytes) -> None:
    images.ensure("glance-1", fetching(content), str(tmp_path), LIMIT)
    images.ensure("glance-2", fetching(content), str(tmp_path), LIMIT)
    assert lxd.aliases["glance-1"] == lxd.aliases["glance-2"]
    assert len(lxd.images) == 1


def test_an_image_from_before_is_fetched_again_and_made_anew(lxd: FakeLXD, images: Images, tmp_path: Path) -> None:
    """LXD has it as its user made it."""
    images.ensure("glance-1", fetching(root()), str(tmp_path), LIMIT)
    former = lxd.aliases["glance-1"]
    lxd.images["former"] = {**lxd.images.pop(former), "properties": {PROPERTY: "glance-1"}, "fingerprint": "former"}
    lxd.aliases["glance-1"] = "former"
    assert not images.has("glance-1", LIMIT)
    assert images.ensure("glance-1", fetching(root()), str(tmp_path), LIMIT)
    assert lxd.aliases["glance-1"] == former and images.has("glance-1", LIMIT)
    assert images.prune(keep=[], older_than=-1) == ["glance-1", "glance-1"], "the former one too"


def test_an_image_whose_alias_was_never_made_is_adopted(lxd: FakeLXD, images: Images, tmp_path: Path) -> None:
    images.ensure("glance-1", fetching(unified({})), str(tmp_path), LIMIT)
    lxd.aliases.clear()
    images.ensure("glance-1", fetching(unified({})), str(tmp_path), LIMIT)
    assert list(lxd.aliases) == ["glance-1"]


def test_a_failed_upload_is_an_error(lxd: FakeLXD, images: Images, tmp_path: Path) -> None:
    lxd.failures.append(("POST", "/images$", "no space left on device"))
    with pytest.raises(LXDError, match="no space left"):
        images.ensure("glance-1", fetching(unified({})), str(tmp_path), LIMIT)
    assert not images.has("glance-1", LIMIT)


def test_only_images_that_no_server_uses_are_removed(lxd: FakeLXD, images: Images, tmp_path: Path) -> None:
    for number in range(3):
        images.ensure(f"glance-{number}", fetching(unified({"n": b"%d" % number})), str(tmp_path), LIMIT)
    lxd.images["foreign"] = {"fingerprint": "foreign", "properties": {"os": "debian"}, "uploaded_at": "2020-01-01T00:00:00Z"}
    lxd.aliases["second-name"] = lxd.aliases["glance-1"]
    assert images.prune([], older_than=3600) == [], "they are too young"
    assert images.prune(["glance-0", "second-name"], older_than=-5) == ["glance-2"]
    assert sorted(lxd.aliases) == ["glance-0", "glance-1", "second-name"]
    assert "foreign" in lxd.images


def test_the_age_of_an_image_begins_with_its_last_use(lxd: FakeLXD, images: Images, tmp_path: Path) -> None:
    images.ensure("glance-1", fetching(unified({})), str(tmp_path), LIMIT)
    image = stored(lxd, "glance-1")
    image.update(uploaded_at="2020-01-01T00:00:00Z", last_used_at=time.strftime("%Y-%m-%dT%H:%M:%S.000000001Z", time.gmtime()))
    assert images.prune([], older_than=3600) == []
    image.update(last_used_at="0001-01-01T00:00:00Z")
    assert images.prune([], older_than=3600) == ["glance-1"]


def test_a_large_image_is_not_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "image"
    with open(path, "wb") as file:
        shutil.copyfileobj(io.BytesIO(root(5 << 20)), file)
    sent = subject.upload(str(path), "x86_64", "glance-1", 4096)
    sizes = [len(chunk) for chunk in sent.chunks]
    assert sum(sizes) == int(sent.headers["Content-Length"])
    assert max(sizes) <= subject.CHUNK
