#!/usr/bin/env python3
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Make a signed apt repository of small packages that stand in for those of NVIDIA's repository, which no registry here offers.

usage: nvidia_repository.py DIRECTORY [VERSION[:KERNEL]...]

Names, relations, scripts and the DKMS interface (sources in /usr/src, dkms.conf, postinst by dh_dkms) are those of the real packages;
what is built is a module of a few lines, so that a build takes seconds. It can't drive a GPU. With :KERNEL the module's source
does not compile for that kernel and newer ones, with the error that NVIDIA's 550.163.01 gives for Debian 13's kernel.
A build makes /root/build_held and waits as long as there is /root/hold_build, so that a test can interrupt it.

Needs dpkg-deb, gpg and gpg-agent. Prints the fingerprint of the key, which lies in DIRECTORY/key.asc.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DKMS_CONF = """\
PACKAGE_NAME="nvidia"
PACKAGE_VERSION="{version}"
BUILD_EXCLUSIVE_KERNEL="^(3\\.[1-9][0-9]|[4-9]\\.)"
AUTOINSTALL=yes
MAKE[0]="env NV_VERBOSE=1 make ${{parallel_jobs+-j$parallel_jobs}} modules KERNEL_UNAME=${{kernelver}}"
CLEAN="true"
BUILT_MODULE_NAME[0]="nvidia"
DEST_MODULE_LOCATION[0]="/updates/dkms"
BUILT_MODULE_NAME[1]="nvidia-uvm"
DEST_MODULE_LOCATION[1]="/updates/dkms"
"""

MAKEFILE = """\
obj-m := nvidia.o nvidia-uvm.o
modules:
	while test -e /root/hold_build; do touch /root/build_held; sleep 0.2; done
	$(MAKE) -C /lib/modules/$(KERNEL_UNAME)/build M=$(CURDIR) modules
"""

SOURCE = """\
// {name}: stands in for NVIDIA's module of this name.
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/version.h>
#if {broken}
int nv_resize(struct pci_dev *dev);
int nv_resize(struct pci_dev *dev) {{ return pci_resize_resource(dev); }}
#endif
static int __init stand_in_init(void) {{ return 0; }}
static void __exit stand_in_exit(void) {{ }}
module_init(stand_in_init);
module_exit(stand_in_exit);
MODULE_LICENSE("{license}");
MODULE_VERSION("{version}");
MODULE_DESCRIPTION("stands in for NVIDIA's module");
"""

POSTINST = """\
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    /usr/lib/dkms/common.postinst nvidia {version} /usr/share/nvidia-dkms "" "$2"
fi
"""

PRERM = """\
#!/bin/sh
set -e
case "$1" in
    remove|upgrade|deconfigure)
        if [ "$(dkms status -m nvidia -v {version})" ]; then dkms remove -m nvidia -v {version} --all; fi ;;
esac
"""

# Prints what nvidia-smi prints on a host whose driver is not loaded.
NVIDIA_SMI = """\
#!/bin/sh
echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
exit 9
"""

PERSISTENCED = """\
#!/bin/sh
exec sleep infinity
"""

PERSISTENCED_UNIT = """\
[Unit]
Description=Stands in for NVIDIA's persistence daemon
[Service]
ExecStart=/usr/bin/nvidia-persistenced --user nvpd
[Install]
WantedBy=multi-user.target
"""

FABRIC_MANAGER = """\
#!/bin/sh
# As the real one: where functions manage NVLink switches, it starts nvlsm, which reaches them by ib_umad.
if grep -qs SW_MNG /sys/bus/pci/devices/*/vpd && ! { [ -x /opt/nvidia/nvlsm/sbin/nvlsm ] && [ -e /sys/module/ib_umad ]; }; then
    echo "no nvlsm, or no ib_umad" >&2
    exit 1
fi
exec sleep infinity
"""

FABRIC_MANAGER_UNIT = """\
[Unit]
Description=Stands in for NVIDIA's fabric manager
[Service]
ExecStart=/usr/bin/nvidia-fabricmanager-start.sh
[Install]
WantedBy=multi-user.target
"""


def package(target: Path, name: str, version: str, relations: dict[str, str], files: dict[str, str], scripts: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch, "root")
        fields = {"Package": name, "Version": f"{version}-1", "Architecture": "amd64", "Maintainer": "nobody <nobody@invalid>", **relations}
        control = (
            "".join(f"{key}: {value}\n" for key, value in fields.items()) + "Description: stands in for NVIDIA's package of this name\n"
        )
        for path, content in {"DEBIAN/control": control, **{f"DEBIAN/{script}": text for script, text in scripts.items()}, **files}.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")
            file.chmod(0o755 if "bin/" in path or path.startswith("DEBIAN/p") else 0o644)
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-b", root, target / f"{name}_{version}-1_amd64.deb"], check=True, stdout=subprocess.PIPE
        )


def kernel_code(kernel: str) -> str:
    """KERNEL_VERSION(6,12,117) of 6.12.117"""
    return "KERNEL_VERSION(" + ",".join((kernel.split(".") + ["0", "0"])[:3]) + ")"


def packages_of(target: Path, version: str, broken_from: str) -> None:
    broken = f"LINUX_VERSION_CODE >= {kernel_code(broken_from)}" if broken_from else "0"
    source = {f"usr/src/nvidia-{version}/dkms.conf": DKMS_CONF.format(version=version), f"usr/src/nvidia-{version}/Makefile": MAKEFILE}
    for kind, license_name in (("nvidia-kernel-open-dkms", "Dual MIT/GPL"), ("nvidia-kernel-dkms", "NVIDIA")):
        code = {
            f"usr/src/nvidia-{version}/{name}.c": SOURCE.format(name=name, broken=broken, license=license_name, version=version)
            for name in ("nvidia", "nvidia-uvm")
        }
        package(
            target,
            kind,
            version,
            {"Depends": "dkms", "Provides": "nvidia-kernel-any", "Conflicts": "nvidia-kernel-any", "Section": "kernel"},
            source | code,
            {"postinst": POSTINST.format(version=version), "prerm": PRERM.format(version=version)},
        )
    package(
        target, "nvidia-driver-cuda", version, {"Depends": f"nvidia-persistenced (= {version}-1)"}, {"usr/bin/nvidia-smi": NVIDIA_SMI}, {}
    )
    unit = {"usr/bin/nvidia-persistenced": PERSISTENCED, "lib/systemd/system/nvidia-persistenced.service": PERSISTENCED_UNIT}
    package(target, "nvidia-persistenced", version, {}, unit, {})
    unit = {"usr/bin/nvidia-fabricmanager-start.sh": FABRIC_MANAGER, "lib/systemd/system/nvidia-fabricmanager.service": FABRIC_MANAGER_UNIT}
    package(target, "nvidia-fabricmanager", version, {}, unit, {})


def index(target: Path) -> None:
    entries = []
    for deb in sorted(target.glob("*.deb")):
        control = subprocess.run(["dpkg-deb", "-f", deb], check=True, stdout=subprocess.PIPE, text=True).stdout
        digest = hashlib.sha256(deb.read_bytes()).hexdigest()
        entries.append(f"{control}Filename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {digest}\n")
    packages = "\n".join(entries).encode()
    (target / "Packages").write_bytes(packages)
    date = time.strftime("%a, %d %b %Y %H:%M:%S UTC", time.gmtime())
    release = (
        f"Origin: NVIDIA\nLabel: NVIDIA stand-in\nDate: {date}\nSHA256:\n {hashlib.sha256(packages).hexdigest()} {len(packages)} Packages\n"
    )
    (target / "Release").write_text(release, encoding="utf-8")


def sign(target: Path) -> str:
    """Sign the index with the repository's key, which is made the first time.

    Its fingerprint.
    """
    home = target / "gnupg"
    gpg = ["gpg", "--batch", "--quiet", "--homedir", str(home)]
    if not home.exists():
        home.mkdir(mode=0o700)
        subprocess.run([*gpg, "--passphrase", "", "--quick-gen-key", "stand-in", "rsa3072", "sign", "never"], check=True)
    subprocess.run([*gpg, "--yes", "--clearsign", "-o", str(target / "InRelease"), str(target / "Release")], check=True)
    subprocess.run([*gpg, "--yes", "--armor", "--export", "-o", str(target / "key.asc")], check=True)
    listed = subprocess.run([*gpg, "--with-colons", "--fingerprint"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:"))


def main() -> None:
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for argument in sys.argv[2:]:
        version, _colon, broken_from = argument.partition(":")
        packages_of(target, version, broken_from)
    if sys.argv[2:]:
        # Its versions are no driver's.
        package(target, "nvlsm", "2025.06.11", {}, {"opt/nvidia/nvlsm/sbin/nvlsm": PERSISTENCED}, {})
    index(target)
    print(sign(target))


if __name__ == "__main__":
    main()
