# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A user's image as a new tarball of its root file system.

Nothing is in it but what a container may have.

    python3 -I rootfs.py IMAGE NEW

A program of its own, because what it reads is a stranger's: the kernel limits its memory, its time and its output. It unpacks nothing.
It ends with REFUSED and a sentence on its output if it does not take the image.

LXD unpacks an image as the host's root. It writes beside the root file system (backup.yaml), follows what lies there, and renders the
image's templates within its daemon. So nothing beside the root file system goes on, and no member that leads out of it.
"""

from __future__ import annotations

import errno
import gzip
import itertools
import lzma
import resource
import subprocess
import sys
import tarfile
import zlib
from typing import IO, Iterator

REFUSED = 3  # the exit status
SQUASHFS = b"hsqs"
FIRST_MEMBERS = 100  # of a tarball; LXD and its tools write the metadata in front of the files
# What an image may have. The largest ones of the vendors of GPUs have 300,000 members and 40 GiB.
MEMBERS = 2_000_000
UNPACKED = 200 << 30  # bytes
DEPTH = 200  # folders
IDS = 1 << 16  # users and groups that LXD gives a container
# What this program may take.
MEMORY, SECONDS, WRITTEN = 2 << 30, 3600, 100 << 30
# What LXD lets a container with privileges open: null, zero, full, random, urandom, tty, console, ptmx, tun, fuse (driver_lxc.go of 5.0);
# and the mark of a removed file in a layer of an overlay, which is no device.
HARMLESS = frozenset({(0, 0), (1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (5, 2), (10, 200), (10, 229)})
# What LXD writes into each new server by the template that images.py gives it: as the host's root, and before Debian's 5.0.2-5+deb12u3
# behind links (CVE-2026-23954).
WRITTEN_BY_LXD = ["etc", "hostname"]
# The extended attributes that a container may set itself.
ATTRIBUTES = ("SCHILY.xattr.security.capability", "SCHILY.xattr.user.")

# Nova shows 255 characters of a sentence, 127 of which are its own.
NO_IMAGE = "It is no image of a container. Use LXD's unified image, or a tarball or squashfs of a root."
TOO_LARGE = "It is too large: more than {}."
OUTSIDE = "{} leads out of the image."
NAME = 40  # characters of a name in a sentence


class Refused(Exception):
    """The image is not taken; the text says why, in a sentence for its user."""


class Whole(tarfile.TarInfo):
    """A member of a tarball that ends as tarballs end.

    tarfile takes a broken or missing header for the end.
    """

    # The types of tarfile leave out its errors and the list of members, and let this method return its own class alone: ignored.
    # The parameter has another name than tarfile's, which would hide the module here, so pylint's arguments-renamed is off.
    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> tarfile.TarInfo:  # type: ignore[override] # pylint: disable=arguments-renamed
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined] # because tarfile's types leave it out
            raise
        except tarfile.HeaderError as error:
            raise Refused(NO_IMAGE) from error


def opened(image: str) -> tuple[IO[bytes], subprocess.Popen[bytes] | None]:
    """Open an image as a tarball, compressed or not.

    For a squashfs, with the program that makes one of it.
    """
    file = open(image, "rb")  # noqa: SIM115 because the caller closes it
    if file.read(len(SQUASHFS)) != SQUASHFS:
        file.seek(0)
        return file, None
    file.close()
    process = subprocess.Popen(["sqfs2tar", "--", image], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return process.stdout, process  # type: ignore[return-value] # with PIPE it is no None


def members(file: IO[bytes]) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Read a tarball from its begin to its end.

    :raises Refused: a member is too large.
    """
    with tarfile.open(fileobj=file, mode="r|*", errors="surrogateescape", tarinfo=Whole) as archive:
        for member in archive:
            archive.members = []  # type: ignore[attr-defined] # tarfile's types leave it out; else it keeps all
            if not 0 <= member.size <= UNPACKED:  # tarfile would read on behind the end of the file
                raise Refused(TOO_LARGE.format(f"{UNPACKED >> 30} GiB"))
            yield archive, member


def parts_of(name: str) -> list[str]:
    """The folders and the name of a member; [] is the root.

    :raises Refused: it leads out of the image.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Refused(OUTSIDE.format(name[-NAME:]))
    if len(parts) > DEPTH:
        raise Refused(TOO_LARGE.format(f"{DEPTH} folders deep"))
    return parts


def has_metadata(image: str) -> bool:
    """Whether a tarball is LXD's unified image.

    Its root file system is below rootfs.
    """
    file, process = opened(image)
    if process:  # a squashfs is a root file system
        process.kill()
        process.wait()
        return False
    with file:
        return any(parts_of(member.name) == ["metadata.yaml"] for _archive, member in itertools.islice(members(file), FIRST_MEMBERS))


class Root:
    """What may be in a root file system, member by member."""

    def __init__(self, unified: bool) -> None:
        self.unified = unified
        self.links: set[str] = set()
        self.count = self.size = 0

    def within(self, name: str) -> list[str] | None:
        """The place in the root file system; None for what is beside it.

        :raises Refused: it leads through a symbolic link, which tar would follow.
        """
        parts = parts_of(name)
        if self.unified:
            if parts[:1] != ["rootfs"]:
                return None
            parts = parts[1:]
        if self.links:
            for depth in range(1, len(parts)):
                if "/".join(parts[:depth]) in self.links:
                    raise Refused(f"{name[-NAME:]} lies behind a symbolic link.")
        return parts

    def taken(self, member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        """The member as it goes on, made of what is known.

        It is None for what is beside the root file system.

        :raises Refused: a container may not have it.
        """
        self.count += 1
        self.size += member.size
        if self.count > MEMBERS:
            raise Refused(TOO_LARGE.format(f"{MEMBERS} files"))
        if self.size > UNPACKED:
            raise Refused(TOO_LARGE.format(f"{UNPACKED >> 30} GiB"))
        parts = self.within(member.name)
        if parts is None or parts[:2] == WRITTEN_BY_LXD:
            return None
        new = tarfile.TarInfo("/".join(parts) or ".")
        if not (0 <= member.uid < IDS and 0 <= member.gid < IDS):
            raise Refused(f"{new.name[-NAME:]} has a user or group of {IDS} or above.")
        new.uid, new.gid, new.mode, new.mtime = member.uid, member.gid, member.mode & 0o7777, max(0, int(member.mtime))
        new.pax_headers = {key: value for key, value in member.pax_headers.items() if key.startswith(ATTRIBUTES)}
        self.copy_kind(member, new)
        if not parts and not new.isdir():
            raise Refused(NO_IMAGE)
        if parts == WRITTEN_BY_LXD[:1] and not new.isdir():
            raise Refused("etc is no folder.")
        return new

    def copy_kind(self, member: tarfile.TarInfo, new: tarfile.TarInfo) -> None:
        if member.isreg():  # a sparse one too, which becomes an ordinary one
            new.size = member.size
        elif member.issym():
            new.type, new.linkname = tarfile.SYMTYPE, member.linkname
            self.links.add(new.name)
        elif member.islnk():
            target = self.within(member.linkname)
            if not target:
                raise Refused(OUTSIDE.format(new.name[-NAME:]))
            if target[:2] == WRITTEN_BY_LXD:
                raise Refused(f"{new.name[-NAME:]} is a hard link to /etc/hostname, which LXD writes itself.")
            new.type, new.linkname = tarfile.LNKTYPE, "/".join(target)
            if new.linkname in self.links:
                self.links.add(new.name)
        elif member.isdir() or member.isfifo():
            new.type = tarfile.DIRTYPE if member.isdir() else tarfile.FIFOTYPE
        elif member.ischr() and (member.devmajor, member.devminor) in HARMLESS:
            new.type, new.devmajor, new.devminor = tarfile.CHRTYPE, member.devmajor, member.devminor
        elif member.isdev():
            raise Refused(f"It has the device file {new.name[-NAME:]}. Build it without: servers have devices by their flavor alone.")
        else:
            raise Refused(f"{new.name[-NAME:]} is no file, folder or link.")


def written(file: IO[bytes]) -> tarfile.TarFile:
    return tarfile.open(fileobj=file, mode="w|", format=tarfile.PAX_FORMAT, errors="surrogateescape")


def remake(image: str, new: str) -> None:
    """Write the root file system of an image as a tarball.

    Equal images give equal ones.

    :raises Refused: a container may not have what is in it, or it is no image.
    """
    root = Root(has_metadata(image))
    file, process = opened(image)
    kept = 0
    # A GzipFile is written to as any file is, which its types do not say.
    # GzipFile's types are narrower than what tarfile takes.
    with file, open(new, "wb") as raw, gzip.GzipFile("", "wb", 1, raw, mtime=0) as packed, written(packed) as made:  # type: ignore[arg-type]
        for archive, member in members(file):
            taken = root.taken(member)
            if taken is not None:
                kept += 1
                made.addfile(taken, archive.extractfile(member) if taken.isreg() else None)
    if not kept or (process and process.wait() != 0):
        raise Refused(NO_IMAGE)


def main(image: str, new: str) -> int:
    for kind, limit in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_FSIZE, WRITTEN)):
        resource.setrlimit(kind, (limit, limit + 5))  # at the second one the kernel sends SIGKILL, as others do
    try:
        remake(image, new)
    except Refused as error:
        print(str(error).encode("ascii", "backslashreplace").decode())
    except MemoryError:
        print(TOO_LARGE.format("fits into memory"))
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, ValueError, OverflowError, RecursionError):
        print(NO_IMAGE)
    except OSError as error:
        if error.errno != errno.EFBIG:  # of RLIMIT_FSIZE
            raise
        print(TOO_LARGE.format(f"{WRITTEN >> 30} GiB when it is compressed"))
    else:
        return 0
    return REFUSED


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
