#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Read what decides on NVIDIA's driver on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_driver_facts
version_added: 0.1.0
short_description: Read what decides which NVIDIA driver a host can get
author: deephdc.accelerators contributors (@deephdc)
description:
  - Reads which kernels a host has, and whether modules can be built for them.
  - Reads which driver is installed and loaded, which drivers apt could install, and what would keep the kernel from loading a new one.
  - The package index of O(source) is read into a separate directory, so that nothing on the host changes.
extends_documentation_fragment: deephdc.accelerators.reads
attributes:
  facts:
    description: Returns RV(ansible_facts.nvidia_driver).
    support: full
options:
  source:
    description: Where the driver comes from, the distribution's contrib and non-free or NVIDIA's repository.
    type: str
    choices: [distribution, repository]
    default: distribution
  repository:
    description: NVIDIA's repository or a mirror of it, for O(source=repository).
    type: dict
    default: {}
  initramfs_files:
    description: Files of which every initramfs must have a current copy. An initramfs without is C(initramfs_stale).
    type: list
    elements: path
    default: []
seealso:
  - module: deephdc.accelerators.gpu_facts
  - module: deephdc.accelerators.dkms_module
"""

EXAMPLES = r"""
- name: Read what decides on the driver
  deephdc.accelerators.nvidia_driver_facts:
"""

RETURN = r"""
ansible_facts:
  description: Facts to add to the host's.
  returned: always
  type: dict
  contains:
    nvidia_driver:
      description: What decides on the driver.
      type: dict
      contains:
        running:
          description: Release of the kernel that runs.
          type: str
          sample: 6.12.117+deb13-amd64
        kernels:
          description: Installed kernels, oldest first, with C(release), C(headers), C(initramfs) and C(initramfs_stale).
          type: list
          elements: dict
        headers_available:
          description: Packages of headers that apt has for kernels whose headers are not installed.
          type: list
          elements: str
        packages:
          description: Names of the driver's packages, from whatever source.
          type: list
          elements: str
        installed:
          description: Packages of the driver that are installed and configured, and their versions.
          type: dict
          sample: {"nvidia-kernel-dkms": "550.163.01-2"}
        recorded:
          description: Packages that the role nvidia_driver installed, including their dependencies.
          type: list
          elements: str
        broken:
          description: Whether dpkg was interrupted; C(dpkg --configure -a) completes its work.
          type: bool
        available:
          description: Packages of the driver and the versions that O(source) has of each, newest first.
          type: dict
          sample: {"nvidia-kernel-dkms": ["550.163.01-2"]}
        sources:
          description: File for apt that names O(source).
          type: str
        secure_boot:
          description: Whether the firmware has Secure Boot on; V(null) on a machine without UEFI.
          type: bool
        key_enrolled:
          description: Whether the firmware knows the key that DKMS signs with.
          type: bool
        nouveau:
          description: Whether nouveau, or its successor nova, is loaded.
          type: bool
        loaded:
          description: Version of NVIDIA's module that is loaded. Empty if none is.
          type: str
          sample: 550.163.01
        nvswitches:
          description: Number of NVSwitch bridges, which need the fabric manager.
          type: int
        nvlink_managers:
          description:
            - Number of InfiniBand functions that manage NVLink switches, as on HGX B200. They need the fabric manager and NVLink's subnet
              manager. V(null) if the data of one can't be read.
          type: int
        nvlink_unread:
          description:
            - PCI address of an InfiniBand function whose data can't be read.
            - Empty if RV(ansible_facts.nvidia_driver.nvlink_managers) is known.
          type: str
          sample: 0000:c1:00.0
        run_file:
          description: Whether a driver was installed by NVIDIA's .run file.
          type: bool
"""

import glob
import os
import re

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.pci import read_text
from ansible_collections.deephdc.accelerators.plugins.module_utils._host import apt_source, dpkg
from ansible_collections.deephdc.accelerators.plugins.module_utils._nvidia_driver import choice as nvidia_driver_choice
from ansible_collections.deephdc.accelerators.plugins.module_utils._nvidia_driver import fabric

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# Packages that came with the role.
RECORD = "/var/lib/deephdc/nvidia_driver_packages"


def kernel_key(release: str) -> list[tuple[int, str]]:
    """Orders releases as version numbers: 6.1.0-9 comes before 6.1.0-50."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|[^\d]+", release)]


def kernels(files: list[str]) -> list[dict]:
    """Kernels with modules or an image, oldest first."""
    newest = max((os.stat(path).st_mtime for path in files if os.path.exists(path)), default=0.0)
    found = []
    for directory in glob.glob("/lib/modules/*"):
        release = os.path.basename(directory)
        if not os.path.exists(f"/boot/vmlinuz-{release}") and not os.path.isdir(f"{directory}/kernel"):
            continue  # what a removed kernel or dkms left
        initramfs = f"/boot/initrd.img-{release}"
        stale = os.path.exists(initramfs) and os.stat(initramfs).st_mtime < newest
        found.append(
            {
                "release": release,
                "headers": os.path.isdir(f"{directory}/build/include"),
                "initramfs": os.path.exists(initramfs),
                "initramfs_stale": stale,
            }
        )
    return sorted(found, key=lambda kernel: kernel_key(kernel["release"]))


def headers_available(module: AnsibleModule, releases: list[str]) -> list[str]:
    names = [f"linux-headers-{release}" for release in releases]
    out = module.run_command(["apt-cache", "policy", *names])[1] if names else ""
    return [name for name, version in re.findall(r"^(\S+):\n.*\n  Candidate: (\S+)", out, re.MULTILINE) if version != "(none)"]


def installed(module: AnsibleModule, names: list[str]) -> dict[str, str]:
    """Packages that are there and configured."""
    out = module.run_command(["dpkg-query", "--show", "--showformat=${Package} ${Version} ${db:Status-Status}\n", *names])[1]
    rows = [line.split() for line in out.splitlines() if len(line.split()) == 3]
    return {name: version for name, version, state in rows if state in ("installed", "triggers-awaited", "triggers-pending")}


def archives(module: AnsibleModule) -> list[tuple[str, str]]:
    """Return where the distribution comes from.

    That is its release, the updates and the security updates.
    """
    codename = re.search(r'^VERSION_CODENAME="?(\w+)', read_text("/etc/os-release") or "", re.MULTILINE)
    out = module.run_command(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT) $(CREATED_BY)"])[1]
    rows = [tuple(line.split()) for line in out.splitlines()]
    own = [codename.group(1) + suffix for suffix in ("", "-updates", "-security")] if codename else []
    return list(dict.fromkeys((row[0], row[1]) for row in rows if len(row) == 4 and row[1] in own and row[2:] == ("main", "Packages")))


def available(module: AnsibleModule, names: list[str], sources: str) -> dict[str, list[str]]:
    """Versions that the sources have."""
    try:
        found = apt_source.versions(module, names, sources)
    except apt_source.Unreadable as told:
        module.fail_json(msg=f"apt can't read the driver's source: {told}. Look at nvidia_driver_source and nvidia_driver_repository.")
    return found


def secure_boot() -> bool | None:
    """The last byte of the firmware's variable; the four before are its attributes."""
    try:
        with open(SECURE_BOOT, "rb") as file:
            return file.read()[-1:] == b"\x01"
    except OSError:
        return None


def key_enrolled(module: AnsibleModule) -> bool:
    if not module.get_bin_path("mokutil"):
        return False
    return "already enrolled" in module.run_command(["mokutil", "--test-key", "/var/lib/dkms/mok.pub"])[1]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "source": {"type": "str", "choices": ["distribution", "repository"], "default": "distribution"},
            "repository": {"type": "dict", "default": {}},
            "initramfs_files": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    try:
        managers, unread = fabric.managers(), ""
    except OSError as error:  # the plan refuses that where it matters
        managers, unread = None, os.path.basename(os.path.dirname(str(error.filename)))
    source = module.params["source"]
    names = nvidia_driver_choice.package_names(source)
    running = os.uname().release
    there = kernels(module.params["initramfs_files"])
    without = [kernel["release"] for kernel in there if not kernel["headers"]]
    if running not in [kernel["release"] for kernel in there]:
        without.append(running)
    text = nvidia_driver_choice.sources(source, module.params["repository"], archives(module), KEYRING)
    facts = {
        "running": running,
        "recorded": (read_text(RECORD) or "").split(),
        "kernels": there,
        "headers_available": headers_available(module, without),
        "packages": nvidia_driver_choice.all_names(),
        "installed": installed(module, nvidia_driver_choice.all_names()),
        "broken": dpkg.interrupted(module),
        "available": available(module, names, text) if text else {},
        "sources": text,
        "secure_boot": secure_boot(),
        "key_enrolled": key_enrolled(module),
        "nouveau": any(os.path.isdir(f"/sys/module/{name}") for name in ("nouveau", "nova_core")),
        "loaded": read_text("/sys/module/nvidia/version") or "",
        "nvswitches": fabric.bridges(),
        "nvlink_managers": managers,
        "nvlink_unread": unread,
        "run_file": any(os.path.lexists(path) for path in ("/usr/bin/nvidia-installer", "/usr/bin/nvidia-uninstall")),
    }
    module.exit_json(changed=False, ansible_facts={"nvidia_driver": facts})


if __name__ == "__main__":
    main()
