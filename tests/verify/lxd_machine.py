# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A virtual machine with LXD and the part of Nova's driver that speaks to LXD."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import tarfile
from pathlib import Path

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.devices import gpu_inventory
from local import ROOT, Cluster

VM = "virtual-host"
# scripts/virtual-host says what is at which address.
CARDS = ("0000:01:00.0", "0000:02:00.0")
PACKAGES = ("busybox-static", "lxd", "lxd-client", "squashfs-tools-ng")
# Bring an instance's image and LXD's storage into being.
SET_UP = """
set -e
cd /root
export DEBIAN_FRONTEND=noninteractive
# Without a new initramfs, which takes a minute here and which nothing needs.
dpkg --no-triggers --install debs/*.deb >/dev/null
mkdir --parents image/rootfs/bin image/rootfs/sbin image/rootfs/dev image/rootfs/proc image/rootfs/sys image/rootfs/etc image/rootfs/root
cp /bin/busybox image/rootfs/bin/
ln --symbolic busybox image/rootfs/bin/sh
printf '#!/bin/sh\\ntrap "exit 0" PWR\\nwhile :; do /bin/busybox sleep 3600 & wait $!; done\\n' >image/rootfs/sbin/init
chmod 0755 image/rootfs/sbin/init
echo '{"architecture": "x86_64", "creation_date": 1700000000, "properties": {"description": "busybox"}}' >image/metadata.yaml
tar --create --gzip --file image.tar.gz --directory image metadata.yaml rootfs
echo 'storage_pools: [{name: default, driver: dir}]' | lxd init --preseed
lxc image import image.tar.gz --alias busybox >/dev/null
"""


class Machine(Cluster):
    """scripts/virtual-host made it."""

    def run(self, host: str, command: str, user: str = "root", timeout: float = 900) -> subprocess.CompletedProcess[str]:
        """A command; its processor is emulated, so it takes its time."""
        line = f"sudo --user={user} bash -c {shlex.quote(command)}"
        words = ["ssh", "-F", f"{self.state}-machine/ssh_config", host, line]
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False)

    def put(self, archive: bytes) -> None:
        """Unpack an archive into root's home directory."""
        words = ["ssh", "-F", f"{self.state}-machine/ssh_config", VM, "sudo tar --extract --directory /root --no-same-owner"]
        subprocess.run(words, input=archive, check=True, timeout=600)

    def driver(self, program: str) -> str:
        """What Python prints that has the driver's modules, the GPUs of its file, and the instances that are servers."""
        begin = (
            "import sys; sys.path.insert(0, '/root'); from nova_lxd import devices, instances; from nova_lxd.client import Client; "
            "gpus = devices.read('/root/gpus.json'); servers = instances.Instances(Client('/var/lib/lxd/unix.socket', timeout=300))"
        )
        return self.out(VM, f"python3 -B - <<'END'\n{begin}\n{program}\nEND", timeout=900)


def packages(folder: Path, status: str, release: str) -> None:
    """Download LXD and what a machine with these packages lacks of it: it reaches no archive."""
    (folder / "debs/partial").mkdir(parents=True)
    (folder / "status").write_text(status, encoding="utf-8")
    image = subprocess.run([ROOT / "scripts/image", release], check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1]
    get = "apt-get --quiet --option Dir::State::status=/lxd/status --option Dir::Cache::archives=/lxd/debs --option APT::Sandbox::User=root"
    line = f"apt-get --quiet update && {get} --yes --download-only --no-install-recommends install {' '.join(PACKAGES)}"
    words = ["docker", "run", "--rm", "--entrypoint", "/bin/sh", "--volume", f"{folder}:/lxd", image, "-c", line]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def file_of_gpus(cards: dict[str, str]) -> bytes:
    """What the role writes for these cards, each with its file.

    They are emulated displays, so the file is made as if NVIDIA's driver had them.
    """
    model = {
        "kind": "gpu",
        "vendor": "nvidia",
        "vendor_id": "10de",
        "device_id": "20b5",
        "driver": "nvidia",
        "model": "NVIDIA A100",
        "health": [],
    }
    found = [{**model, "type": "a100", "pci_address": address, "device_files": [path]} for address, path in cards.items()]
    return json.dumps(gpu_inventory(found)).encode()


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    made = Machine()
    folder = tmp_path_factory.mktemp("lxd")
    packages(folder, made.out(VM, "cat /var/lib/dpkg/status"), made.release)
    cards = {address: made.out(VM, f"readlink --canonicalize /dev/dri/by-path/pci-{address}-card") for address in CARDS}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted((folder / "debs").glob("*.deb")):
            archive.add(path, f"debs/{path.name}")
        for path in sorted((ROOT / "roles/nova_lxd/files/nova_lxd").glob("*.py")):
            archive.add(path, f"nova_lxd/{path.name}")
        text = file_of_gpus(cards)
        entry = tarfile.TarInfo("gpus.json")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    made.put(buffer.getvalue())
    made.out(VM, SET_UP, timeout=1200)
    return made
