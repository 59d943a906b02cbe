# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A user's image as a new tarball of its root file system.

Nothing is in it but what a container may have.

    python3 -I rootfs.py IMAGE NEW BYTES

A program of its own, because what it reads is a stranger's: the kernel limits its memory, its time and its output. It unpacks nothing.
It prints how many bytes of a disk the root file system takes, BYTES at most. It ends with REFUSED and a sentence on its output if it
does not take the image.

LXD unpacks an image as the host's root. It writes beside the root file system (backup.yaml), follows what lies there, and renders the
image's templates within its daemon. So nothing beside the root file system goes on, and no member that leads out of it.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import itertools
import lzma
import os
import re
import resource
import subprocess
import sys
import tarfile
import time
import zlib
from typing import IO, Any, Callable, Iterator

REFUSED = 3  # the exit status
SQUASHFS = b"hsqs"
CHUNK = 16 << 10  # bytes; for each stream that begins in it the rest of it is copied
FIRST_MEMBERS = 100  # of a tarball; LXD and its tools write the metadata in front of the files
# What an image may have. The largest ones of the vendors of GPUs have 300,000 members.
MEMBERS, NAMES = 1_000_000, 128 << 20  # bytes of all names: tar may say a word on each, which LXD keeps in memory
DEPTH = 200  # folders
IDS = 1 << 16  # users and groups that LXD gives a container
BLOCK, INODE = 4096, 1024  # bytes of a disk: what a file is rounded up to, and what is counted for an empty one
HARD_LINKS = 32_000  # to one file; ext4 takes 65,000
# Symbolic links that are absolute or have a `..`: for each of them GNU tar searches all folders that have one.
LINKS_OUT = 50_000
# What Linux takes: bytes of a path, and of a name in a folder. LXD's own folder comes before the path of a member.
PATH, NAME, OF_LXD = 4095, 255, 300
DESCRIPTION = 64 << 10  # bytes before a member: a long name, extended attributes
FOR_ALL, FIELDS_FOR_ALL = 1 << 10, 100  # bytes, and fields of all such descriptions together, that are for all members
FIELD = re.compile(rb"([1-9][0-9]{0,5}) ([^=\n\0]{1,300})=")
DIGITS = re.compile(rb"[0-9]{64}")
# What this program may take. A small image has little time, however much it says that it is.
MEMORY, SECONDS, BYTES_A_SECOND = 2 << 30, 30, 4 << 20
# What LXD lets a container with privileges open: null, zero, full, random, urandom, tty, console, ptmx, tun, fuse (driver_lxc.go of 5.0);
# and the mark of a removed file in a layer of an overlay, which is no device.
HARMLESS = frozenset({(0, 0), (1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (5, 2), (10, 200), (10, 229)})
# What LXD writes into each new server by the template that images.py gives it: as the host's root, and before Debian's 5.0.2-5+deb12u3
# behind links (CVE-2026-23954).
WRITTEN_BY_LXD = ["etc", "hostname"]
# The extended attributes that a container may set itself.
CAPABILITY = "SCHILY.xattr.security.capability"
ATTRIBUTE = re.compile(r"SCHILY\.xattr\.(security\.capability|user\.[!-<>-~]{1,250})")
ATTRIBUTES, ENTRY = 3500, 32  # bytes that ext4 has for those of one file, and what each takes beside name and value

# Nova shows 255 characters of a sentence, 127 of which are its own.
NO_IMAGE = "It is no image of a container. Use LXD's unified image, or a tarball or squashfs of a root."
TOO_LARGE = "It is too large: more than {}."
OUTSIDE = "{} leads out of the image."
SHOWN = 40  # characters of a name in a sentence


def shown(name: str) -> str:
    """The end of a name, in ASCII."""
    return "".join(sign if " " <= sign <= "~" else "?" for sign in name[-SHOWN:])


class Refused(Exception):
    """The image is not taken; the text says why, in a sentence for its user."""


class Member(tarfile.TarInfo):
    """A member of a tarball.

    Its description is short, and the tarball ends as tarballs end. tarfile reads descriptions of any length, and takes a broken or
    missing header for the end.
    """

    # The types of tarfile leave out its errors, its methods for one type of member, and the list of members; and let fromtarfile
    # return its own class alone: `type: ignore`. The parameter has another name than tarfile's, which would hide the module: pylint.
    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> tarfile.TarInfo:  # type: ignore[override] # pylint: disable=arguments-renamed # as above
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined] # because tarfile's types leave it out
            raise
        except tarfile.HeaderError as error:
            raise Refused(NO_IMAGE) from error

    def _proc_gnulong(self, archive: tarfile.TarFile) -> tarfile.TarInfo:  # pylint: disable=arguments-renamed # as above
        self._refuse_long()
        return super()._proc_gnulong(archive)  # type: ignore[misc] # because tarfile's types leave it out

    def _proc_pax(self, archive: tarfile.TarFile) -> tarfile.TarInfo:  # pylint: disable=arguments-renamed # as above
        """Look at the fields first.

        tarfile takes a part of wrong ones, and its expressions need a time that grows with the square of their length.
        """
        is_for_all = self.type == tarfile.XGLTYPE
        self._refuse_long(FOR_ALL if is_for_all else DESCRIPTION)
        stream: Any = archive.fileobj
        block = stream.read(-(-self.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE)
        at = 0
        while at < self.size:
            field = FIELD.match(block, at)
            end = at + int(field[1]) if field else 0
            if not field or not field.end() <= end - 1 < self.size or block[end - 1 : end] != b"\n":
                raise Refused(NO_IMAGE)
            if is_for_all and field[2].startswith(b"GNU."):  # tarfile would read it again for each member
                raise Refused(NO_IMAGE)
            at = end
        if DIGITS.search(block):
            raise Refused(NO_IMAGE)
        stream.buf, stream.pos = block + stream.buf, stream.pos - len(block)  # as if nothing was read
        return super()._proc_pax(archive)  # type: ignore[misc] # because tarfile's types leave it out

    def _proc_gnusparse_10(self, member: tarfile.TarInfo, *_rest: Any) -> None:
        # tarfile looks for the end of a line, of any length, again with each block.
        raise Refused(f"{shown(member.name)} is stored with its holes. Use tar without --sparse.")

    def _refuse_long(self, most: int = DESCRIPTION) -> None:
        if not 0 <= self.size <= most:
            raise Refused(TOO_LARGE.format(f"{most >> 10} KiB about {'one file' if most == DESCRIPTION else 'all files'}"))


class Streams:
    """A file compressed by bzip2 or xz.

    It is one stream after another, with nothing else behind. Python's own readers leave out what they can't read behind the first stream.
    """

    def __init__(self, file: IO[bytes], new: Callable[[], Any], padding: bytes = b"") -> None:
        self.file, self.new, self.padding = file, new, padding
        self.stream = new()

    def read(self, size: int) -> bytes:
        while True:
            if self.stream.eof:
                given = self.stream.unused_data.lstrip(self.padding)
                while not given:
                    read = self.file.read(CHUNK)
                    if not read:
                        return b""
                    given = read.lstrip(self.padding)
                self.stream = self.new()
            else:
                given = self.file.read(CHUNK) if self.stream.needs_input else b""
                if self.stream.needs_input and not given:
                    raise EOFError
            read = bytes(self.stream.decompress(given, size))
            if read:
                return read


class Unpacked:
    """What tarfile reads of a file, compressed or not.

    :raises Refused: it is read behind its end, or is no whole file.
    """

    def __init__(self, file: IO[bytes], process: subprocess.Popen[bytes] | None = None) -> None:
        self.process, self.at_end = process, False
        begin = b"" if process else file.read(6)
        if begin:
            file.seek(0)
        self.source: Any = file
        if begin.startswith(b"\x1f\x8b"):
            self.source = gzip.GzipFile(fileobj=file)
        elif begin.startswith(b"BZh"):
            self.source = Streams(file, bz2.BZ2Decompressor)
        elif begin.startswith((b"\xfd7zXZ", b"\x5d\x00\x00")):
            self.source = Streams(file, lzma.LZMADecompressor, padding=b"\0")

    def read(self, size: int) -> bytes:
        if self.at_end:  # tarfile reads on as long as a header says
            raise Refused(NO_IMAGE)
        try:
            read = bytes(self.source.read(size))
        except OSError as error:
            if error.errno is None:  # gzip's and bz2's own errors have no number
                raise Refused(NO_IMAGE) from error
            raise
        except (EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
            raise Refused(NO_IMAGE) from error
        self.at_end = not read
        return read


def opened(image: str) -> Unpacked:
    """Open an image as a tarball, compressed or not.

    For a squashfs, with the program that makes one of it.
    """
    file = open(image, "rb")  # noqa: SIM115 because the program ends with it
    if file.read(len(SQUASHFS)) != SQUASHFS:
        file.seek(0)
        return Unpacked(file)
    file.close()
    process = subprocess.Popen(["sqfs2tar", "--", image], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return Unpacked(process.stdout, process)  # type: ignore[arg-type] # with PIPE it is no None


def members(unpacked: Unpacked, limit: int) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Read a tarball from its begin to its end.

    :raises Refused: a member is too large, or it does not end as tarballs do: with two blocks of zeros, and zeros alone behind.
    """
    with tarfile.open(  # type: ignore[call-overload] # because tarfile's types ask for more of a file than it uses
        fileobj=unpacked, mode="r|", encoding="utf-8", errors="surrogateescape", tarinfo=Member
    ) as archive:
        for member in archive:
            archive.members = []  # else it keeps all
            if len(archive.pax_headers) > FIELDS_FOR_ALL:  # each member gets them
                raise Refused(TOO_LARGE.format(f"{FIELDS_FOR_ALL} fields for all files"))
            if member.size < 0:
                raise Refused(NO_IMAGE)
            if member.size > limit:
                raise Refused(TOO_LARGE.format(gibibytes(limit)))
            yield archive, member
        end = 0
        while not unpacked.at_end:
            zeros = archive.fileobj.read(CHUNK)
            end += len(zeros)
            if zeros.count(0) != len(zeros):
                raise Refused(NO_IMAGE)
    if end < tarfile.BLOCKSIZE:  # the first block was read before
        raise Refused(NO_IMAGE)


def gibibytes(size: int) -> str:
    return f"{size / (1 << 30):.3g} GiB when it is unpacked"


def parts_of(name: str) -> list[str]:
    """The folders and the name of a member; [] is the root.

    :raises Refused: it leads out of the image, or is no name on Linux.
    """
    if "\0" in name:  # it ends there for others
        raise Refused("A name has the character 0 in it.")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Refused(OUTSIDE.format(shown(name)))
    if len(parts) > DEPTH:
        raise Refused(TOO_LARGE.format(f"{DEPTH} folders deep"))
    sizes = [len(part.encode("utf-8", "surrogateescape")) for part in parts]
    if max(sizes, default=0) > NAME or sum(sizes) + len(sizes) > PATH - OF_LXD:
        raise Refused(f"{shown(name)} is the end of a longer name than Linux has.")
    return parts


def has_metadata(image: str, limit: int) -> bool:
    """Whether a tarball is LXD's unified image.

    Its root file system is below rootfs.
    """
    unpacked = opened(image)
    if unpacked.process:  # a squashfs is a root file system
        unpacked.process.kill()
        unpacked.process.wait()
        return False
    first = itertools.islice(members(unpacked, limit), FIRST_MEMBERS)
    return any(parts_of(member.name) == ["metadata.yaml"] for _archive, member in first)


def on_disk(member: tarfile.TarInfo) -> int:
    """Compute the bytes that a member takes of a disk, which are a little more."""
    size = BLOCK if member.isdir() else max(INODE, -(-member.size // BLOCK) * BLOCK)
    return size + (BLOCK if member.pax_headers else 0)


class Root:
    """What may be in a root file system, member by member."""

    def __init__(self, unified: bool, limit: int) -> None:
        self.unified, self.limit = unified, limit
        self.kinds: dict[str, bytes] = {}  # by name; that of a hard link is its file's
        # They come last: GNU tar puts a file in the place of each one until its end, and searches all of them for each folder.
        self.links: dict[str, tarfile.TarInfo] = {}
        self.hard_links: dict[str, int] = {}  # their number, by target
        self.count = self.names = self.size = self.links_out = 0
        self.now = time.time()

    def within(self, name: str) -> list[str] | None:
        """The place in the root file system; None for what is beside it.

        :raises Refused: it leads through a symbolic link, which tar would follow, or below what is no folder.
        """
        parts = parts_of(name)
        if self.unified:
            if parts[:1] != ["rootfs"]:
                return None
            parts = parts[1:]
        if parts[:2] == WRITTEN_BY_LXD:
            return parts
        if self.kinds.get("/".join(parts[:-1])) != tarfile.DIRTYPE:
            for depth in range(1, len(parts)):
                kind = self.kinds.get("/".join(parts[:depth]), tarfile.DIRTYPE)
                if kind != tarfile.DIRTYPE:
                    behind = "behind a symbolic link" if kind == tarfile.SYMTYPE else "below what is no folder"
                    raise Refused(f"{shown(name)} lies {behind}.")
        return parts

    def add(self, name: str, kind: bytes, size: int = BLOCK) -> None:
        """Count a member; a folder may come twice.

        :raises Refused: there is too much, or two of one name.
        """
        known = self.kinds.get(name)
        if known == kind == tarfile.DIRTYPE:
            return
        if known:
            raise Refused(f"{shown(name)} is in it twice.")
        self.kinds[name] = kind
        self.size += size
        if len(self.kinds) > MEMBERS:
            raise Refused(TOO_LARGE.format(f"{MEMBERS} files"))
        if self.size > self.limit:
            raise Refused(TOO_LARGE.format(gibibytes(self.limit)))

    def taken(self, member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        """The member as it goes on, made of what is known.

        Nothing (None) for what is beside the root file system, and for a symbolic link, which goes on later.

        :raises Refused: a container may not have it.
        """
        self.count += 1
        self.names += len(member.name) + len(member.linkname) + 64  # tar says that many about the coding of a name
        if self.count > MEMBERS:
            raise Refused(TOO_LARGE.format(f"{MEMBERS} files"))
        if self.names > NAMES:
            raise Refused(TOO_LARGE.format(f"{NAMES >> 20} MiB of names"))
        parts = self.within(member.name)
        if parts is None or parts[:2] == WRITTEN_BY_LXD:
            return None
        new = tarfile.TarInfo("/".join(parts) or ".")
        given = [member.pax_headers.get(key, "0") for key in ("uid", "gid")]  # what is no number would be root
        if not (0 <= member.uid < IDS and 0 <= member.gid < IDS and all(one.isdecimal() for one in given)):
            raise Refused(f"{shown(new.name)} has a user or group of {IDS} or above.")
        # tar has a word on each time in the future.
        new.uid, new.gid, new.mode, new.mtime = member.uid, member.gid, member.mode & 0o7777, max(0, int(member.mtime))
        new.mtime = new.mtime if new.mtime < self.now else 0
        self.copy_kind(member, new)
        if new.type in (tarfile.REGTYPE, tarfile.DIRTYPE):
            new.pax_headers = attributes(member, new)
        if not parts and not new.isdir():
            raise Refused(NO_IMAGE)
        if parts == WRITTEN_BY_LXD[:1] and not new.isdir():
            raise Refused("etc is no folder.")
        for depth in range(len(parts) - 1, 0, -1):  # folders that have no member of their own yet
            folder = "/".join(parts[:depth])
            if folder in self.kinds:
                break
            self.add(folder, tarfile.DIRTYPE)
        self.add("/".join(parts), self.kinds[new.linkname] if new.islnk() else new.type, on_disk(new))
        if new.issym():
            self.links[new.name] = new
            self.links_out += new.linkname.startswith("/") or ".." in new.linkname.split("/")
            if self.links_out > LINKS_OUT:
                raise Refused(TOO_LARGE.format(f"{LINKS_OUT} symbolic links that are absolute or have .. in them"))
            return None
        return new

    def copy_kind(self, member: tarfile.TarInfo, new: tarfile.TarInfo) -> None:
        if member.isreg():  # a sparse one too, which becomes an ordinary one
            new.size = member.size
        elif member.issym():
            if not 0 < len(member.linkname.encode("utf-8", "surrogateescape")) <= PATH or "\0" in member.linkname:
                raise Refused(f"{shown(new.name)} is a link with a target that Linux does not have.")
            new.type, new.linkname = tarfile.SYMTYPE, member.linkname
        elif member.islnk():
            self.link(member, new)
        elif member.isdir() or member.isfifo():
            new.type = tarfile.DIRTYPE if member.isdir() else tarfile.FIFOTYPE
        elif member.ischr() and (member.devmajor, member.devminor) in HARMLESS:
            new.type, new.devmajor, new.devminor = tarfile.CHRTYPE, member.devmajor, member.devminor
        elif member.isdev():
            raise Refused(f"It has the device file {shown(new.name)}. Build it without: servers have devices by their flavor alone.")
        else:
            raise Refused(f"{shown(new.name)} is no file, folder or link.")

    def link(self, member: tarfile.TarInfo, new: tarfile.TarInfo) -> None:
        """Let a hard link be one of a file that is there.

        One of a symbolic link, which comes later, becomes such a link.
        """
        target = self.within(member.linkname)
        if not target:
            raise Refused(OUTSIDE.format(shown(new.name)))
        if target[:2] == WRITTEN_BY_LXD:
            raise Refused(f"{shown(new.name)} is a hard link to /etc/hostname, which LXD writes itself.")
        new.type, new.linkname = tarfile.LNKTYPE, "/".join(target)
        if new.linkname in self.links:
            new.type, new.linkname = tarfile.SYMTYPE, self.links[new.linkname].linkname
            return
        if self.kinds.get(new.linkname) in (None, tarfile.DIRTYPE):
            raise Refused(f"{shown(new.name)} is a hard link, and no file before it is its target.")
        self.hard_links[new.linkname] = self.hard_links.get(new.linkname, 0) + 1
        if self.hard_links[new.linkname] > HARD_LINKS:
            raise Refused(TOO_LARGE.format(f"{HARD_LINKS} hard links to {shown(new.linkname)}"))


def is_capability(value: bytes) -> bool:
    """Whether the kernel takes the value of a capability.

    It is of version 2, or of version 3 with a user of the container (linux/capability.h).
    """
    effective, version = value[:1] in (b"\0", b"\1"), value[1:4]
    of_user = version == b"\0\0\3" and len(value) == 24 and int.from_bytes(value[20:], "little") < IDS
    return effective and ((version == b"\0\0\2" and len(value) == 20) or of_user)


def attributes(member: tarfile.TarInfo, new: tarfile.TarInfo) -> dict[str, str]:
    """The extended attributes that go on.

    tar has a word on each one that a disk does not take.

    :raises Refused: they are more than a disk takes.
    """
    found = {key: value for key, value in member.pax_headers.items() if ATTRIBUTE.fullmatch(key)}
    values = {key: value.encode("utf-8", "surrogateescape") for key, value in found.items()}
    if not (new.isreg() and is_capability(values.get(CAPABILITY, b""))):
        found.pop(CAPABILITY, None)
    if sum(len(key) + len(value) + ENTRY for key, value in values.items()) > ATTRIBUTES:
        raise Refused(TOO_LARGE.format(f"{ATTRIBUTES} bytes of attributes of {shown(new.name)}"))
    return found


def written(file: IO[bytes]) -> tarfile.TarFile:
    return tarfile.open(fileobj=file, mode="w|", format=tarfile.PAX_FORMAT, encoding="utf-8", errors="surrogateescape")


def remake(image: str, new: str, limit: int) -> int:
    """Write the root file system of an image as a tarball.

    Equal images give equal ones.

    :returns: the bytes that it takes of a disk.
    :raises Refused: a container may not have what is in it, or it is no image.
    """
    root = Root(has_metadata(image, limit), limit)
    unpacked = opened(image)
    # GzipFile's types are narrower than what tarfile takes: `type: ignore` below.
    with open(new, "wb") as raw, gzip.GzipFile("", "wb", 1, raw, mtime=0) as packed, written(packed) as made:  # type: ignore[arg-type] # as above
        for archive, member in members(unpacked, limit):
            taken = root.taken(member)
            if taken is not None:
                made.addfile(taken, archive.extractfile(member) if taken.isreg() else None)
                made.members = []  # type: ignore[attr-defined] # tarfile's types leave it out; else it keeps all
        for link in root.links.values():
            made.addfile(link)
            made.members = []  # type: ignore[attr-defined] # as above
    if not root.kinds or (unpacked.process and unpacked.process.wait() != 0):
        raise Refused(NO_IMAGE)
    return root.size


def main(image: str, new: str, limit: str) -> int:
    os.nice(10)  # the host's servers go first
    seconds = SECONDS + os.path.getsize(image) // BYTES_A_SECOND
    largest = int(limit) + (1 << 30)  # what describes the members is not in the limit
    for kind, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_FSIZE, largest)):
        resource.setrlimit(kind, (most, most + 5))  # at the second one the kernel sends SIGKILL, as others do
    try:
        print(remake(image, new, int(limit)))
    except Refused as error:
        print(error)
    except MemoryError:
        print(TOO_LARGE.format("fits into memory"))
    except OSError as error:
        if error.errno == errno.EFBIG:  # of RLIMIT_FSIZE
            print(TOO_LARGE.format(gibibytes(int(limit))))
        elif error.errno is None:  # tarfile's own: a member ends too early
            print(NO_IMAGE)
        else:
            raise  # a disk of the host
    except Exception:  # pylint: disable=broad-exception-caught # of a reader, whatever the image made it do
        print(NO_IMAGE)
    else:
        return 0
    return REFUSED


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
