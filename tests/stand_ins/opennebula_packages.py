#!/usr/bin/python3
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Make a signed apt repository that stands in for OpenNebula's, which no registry here offers.

usage: opennebula_packages.py DIRECTORY WHEEL...

opennebula-node-kvm only has the user oneadmin, and depends on the distribution's libvirt and QEMU as the real one does; python3-pyone has
the real bindings, from the wheels that are given.
Needs dpkg-deb and gpg. The key lies in DIRECTORY/key.asc afterwards.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from email.utils import formatdate
from pathlib import Path

INDEX = "dists/stable/opennebula/binary-amd64/Packages"

POSTINST = """\
#!/bin/sh
set -e
getent passwd oneadmin >/dev/null || useradd --system --user-group --home-dir /var/lib/one --create-home --shell /bin/bash oneadmin
"""


def package(directory: Path, name: str, depends: str, postinst: str = "", wheels: tuple[str, ...] = ()) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        control = Path(scratch, "DEBIAN")
        control.mkdir()
        Path(scratch).chmod(0o755)
        fields = {"Package": name, "Version": "7.2.0", "Architecture": "all", "Maintainer": "nobody <nobody@invalid>", "Depends": depends}
        text = "".join(f"{field}: {value}\n" for field, value in fields.items() if value)
        (control / "control").write_text(f"{text}Description: stands in for OpenNebula's package of this name\n", encoding="utf-8")
        if postinst:
            (control / "postinst").write_text(postinst, encoding="utf-8")
            (control / "postinst").chmod(0o755)
        for wheel in wheels:
            zipfile.ZipFile(wheel).extractall(Path(scratch, "usr/lib/python3/dist-packages"))
        subprocess.run(["dpkg-deb", "--root-owner-group", "-b", scratch, directory / f"{name}.deb"], check=True, stdout=subprocess.PIPE)


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def main() -> None:
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    package(directory, "opennebula-node-kvm", "apparmor, libvirt-clients, libvirt-daemon-system, qemu-system-x86", POSTINST)
    package(
        directory,
        "python3-pyone",
        "python3-dict2xml, python3-lxml, python3-requests, python3-six, python3-xmltodict",
        wheels=tuple(sys.argv[2:]),
    )
    (directory / INDEX).parent.mkdir(parents=True, exist_ok=True)

    def run(*command: str) -> str:
        return subprocess.run(command, cwd=directory, check=True, stdout=subprocess.PIPE, text=True).stdout

    index = "".join(
        f"{run('dpkg-deb', '--field', file.name)}Filename: ./{file.name}\nSize: {file.stat().st_size}\nSHA256: {digest(file)}\n\n"
        for file in sorted(directory.glob("*.deb"))
    )
    (directory / INDEX).write_text(index, encoding="utf-8")
    (directory / "dists/stable/Release").write_text(
        "Suite: stable\nComponents: opennebula\nArchitectures: amd64\n"
        f"Date: {formatdate(usegmt=True)}\nSHA256:\n {digest(directory / INDEX)} {len(index.encode())} {INDEX.split('/', 2)[2]}\n",
        encoding="utf-8",
    )
    gpg = ("gpg", "--batch", "--yes", "--homedir", str(directory / "gpg"))
    (directory / "gpg").mkdir(mode=0o700, exist_ok=True)
    run(*gpg, "--passphrase", "", "--quick-generate-key", "stand-in", "rsa2048", "sign")
    run(*gpg, "--clearsign", "--output", "dists/stable/InRelease", "dists/stable/Release")
    (directory / "key.asc").write_text(run(*gpg, "--armor", "--export", "stand-in"), encoding="utf-8")


if __name__ == "__main__":
    main()
