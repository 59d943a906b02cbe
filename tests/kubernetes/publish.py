#!/usr/bin/python3
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Make a signed apt repository and archives of images out of programs that tests/kubernetes/build compiled.

usage: publish.py PROGRAMS DIRECTORY           on a host with nft, iptables, dpkg-deb and gpg; the key lies in DIRECTORY/key.asc afterwards
       publish.py PROGRAMS DIRECTORY queue     later: the image of Kueue alone

Real: the programs. Stood in for: the frames of Kubernetes' packages, with one program in three packages, and those of its images.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from email.utils import formatdate
from pathlib import Path
from typing import NamedTuple

# What each version names beside its own programs. Those of another version than ours have ours inside.
BESIDE = {"1.37": ("etcd:3.7.0-0", "coredns/coredns:v1.14.6"), "1.36": ("etcd:3.6.8-0", "coredns/coredns:v1.14.2")}
INDEX = "Packages"
DEPENDS = "conntrack, ebtables, ethtool, iproute2, iptables, mount, socat, util-linux"
UNIT = """\
[Unit]
Description=kubelet: The Kubernetes Node Agent
Documentation=https://kubernetes.io/docs/
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10

[Install]
WantedBy=multi-user.target
"""
# As Kubernetes' package kubeadm has it.
DROP_IN = """\
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \
--kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
"""
REGISTRY = "registry.k8s.io"
SYSTEM = "/usr/lib/x86_64-linux-gnu"
NFT_TABLES = "/usr/sbin/xtables-nft-multi"


def run(*words: object, cwd: Path | None = None) -> str:
    return subprocess.run([str(word) for word in words], cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Package(NamedTuple):
    """A package: path to text, path to target of a link, path to a program."""

    name: str
    version: str
    depends: str
    files: dict[str, str]
    links: dict[str, str]
    programs: dict[str, Path]


def versions(programs: Path) -> dict[str, Path]:
    """The program of each version of Kubernetes."""
    return {file.name.split("-", 1)[1]: file for file in sorted(programs.glob("kubernetes-*"))}


def package(directory: Path, made: Package) -> None:
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        root = Path(scratch)
        root.chmod(0o755)
        fields = {
            "Package": made.name,
            "Version": f"{made.version}-1.1",
            "Architecture": "amd64",
            "Maintainer": "nobody <nobody@invalid>",
            "Depends": made.depends,
        }
        text = "".join(f"{field}: {value}\n" for field, value in fields.items())
        for path, content in {
            "DEBIAN/control": f"{text}Description: stands in for Kubernetes' package of this name\n",
            **made.files,
        }.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(content, encoding="utf-8")
        for path, program in made.programs.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            run("cp", "--preserve=mode", program, root / path)
        for path, target in made.links.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).symlink_to(target)
        run("dpkg-deb", "--root-owner-group", "-Znone", "-b", root, directory / f"{made.name}_{made.version}.deb")


def repository(directory: Path, programs: Path) -> None:
    """Packages kubeadm, kubectl and kubelet in a flat repository."""
    directory.mkdir(parents=True, exist_ok=True)
    units = "usr/lib/systemd/system"
    units_of = {
        "kubelet": {f"{units}/kubelet.service": UNIT},
        "kubectl": {},
        "kubeadm": {f"{units}/kubelet.service.d/10-kubeadm.conf": DROP_IN},
    }
    for version, program in versions(programs).items():
        # The program is a separate package, as an upgrade replaces one command before the other.
        shared, path = f"kubernetes-program-{version}", f"usr/lib/kubernetes-{version}"
        package(directory, Package(shared, version, DEPENDS, {}, {}, {path: program}))
        for name, files in units_of.items():
            package(directory, Package(name, version, shared, files, {f"usr/bin/{name}": f"/{path}"}, {}))
    index = ""
    for file in sorted(directory.glob("*.deb")):
        sha256 = run("sha256sum", file).split()[0]
        index += f"{run('dpkg-deb', '--field', file)}Filename: ./{file.name}\nSize: {file.stat().st_size}\nSHA256: {sha256}\n\n"
    (directory / INDEX).write_text(index, encoding="utf-8")
    (directory / "Release").write_text(
        f"Architectures: amd64\nDate: {formatdate(usegmt=True)}\nSHA256:\n {digest(index.encode())} {len(index.encode())} {INDEX}\n",
        encoding="utf-8",
    )
    (directory / "gpg").mkdir(mode=0o700, exist_ok=True)
    gpg = ("gpg", "--batch", "--yes", "--homedir", directory / "gpg")
    run(*gpg, "--passphrase", "", "--quick-generate-key", "stand-in", "rsa2048", "sign")
    run(*gpg, "--clearsign", "--output", "InRelease", "Release", cwd=directory)
    (directory / "key.asc").write_text(run(*gpg, "--armor", "--export", "stand-in"), encoding="utf-8")


class Layer:
    """The one layer of an image."""

    def __init__(self) -> None:
        self.data = io.BytesIO()
        self.archive = tarfile.open(fileobj=self.data, mode="w")  # noqa: SIM115 - because bytes() closes it
        self.names: set[str] = set()
        for name, mode in (("etc", 0o755), ("tmp", 0o1777)):
            self._entry(name, tarfile.DIRTYPE, mode=mode)

    def _entry(self, name: str, kind: bytes, **values: object) -> None:
        entry = tarfile.TarInfo(name)
        entry.type = kind
        for key, value in values.items():
            setattr(entry, key, value)
        self.archive.addfile(entry)

    def link(self, name: str, target: str) -> None:
        self._entry(name.lstrip("/"), tarfile.SYMTYPE, linkname=target)

    def directory(self, name: str) -> None:
        self._entry(name.lstrip("/"), tarfile.DIRTYPE, mode=0o755)

    def add(self, source: Path, name: str) -> None:
        """A file or a tree, with what links in it point at."""
        name = name.lstrip("/")
        if name in self.names:
            return
        self.names.add(name)
        real = source.resolve()
        entry = self.archive.gettarinfo(real, name)
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        if real.is_dir():
            self.archive.addfile(entry)
            for child in sorted(real.iterdir()):
                self.add(child, f"{name}/{child.name}")
            return
        if entry.islnk():
            entry.type, entry.size = tarfile.REGTYPE, real.stat().st_size
        with real.open("rb") as data:
            self.archive.addfile(entry, data)

    def program(self, source: Path, name: str) -> None:
        """A program with the libraries that it is linked with."""
        self.add(source, name)
        listed = subprocess.run(["ldd", source], check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        for path in re.findall(r"(/\S+) \(0x", listed):
            self.add(Path(path), path)

    def bytes(self) -> bytes:
        self.archive.close()
        return self.data.getvalue()


def image(file: Path, names: list[str], layer: Layer, **config: list[str] | str) -> None:
    """An archive as `docker save` writes it."""
    data = layer.bytes()
    described = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], **config},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest(data)}"]},
        "history": [{"created": "2026-01-01T00:00:00Z"}],
    }
    text = json.dumps(described).encode()
    number = digest(text)
    manifest = [{"Config": f"{number}.json", "RepoTags": names, "Layers": [f"{digest(data)}/layer.tar"]}]
    with tarfile.open(file, "w") as archive:
        parts = ((f"{number}.json", text), (f"{digest(data)}/layer.tar", data), ("manifest.json", json.dumps(manifest).encode()))
        for name, content in parts:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def kubernetes_image(file: Path, version: str, program: Path) -> None:
    """One image under the names of the four that kubeadm runs."""
    kubernetes = Layer()
    kubernetes.add(program, "/usr/local/bin/kubernetes")
    commands = ("kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler")
    for command in commands:
        kubernetes.link(f"/usr/local/bin/{command}", "kubernetes")
    # What kube-proxy calls. The extension for statistics is not linked with the library that it needs.
    kubernetes.program(Path("/usr/sbin/nft"), "/usr/sbin/nft")
    kubernetes.program(Path(NFT_TABLES), NFT_TABLES)
    kubernetes.program(Path(f"{SYSTEM}/xtables/libxt_statistic.so"), f"{SYSTEM}/xtables/libxt_statistic.so")
    kubernetes.add(Path(f"{SYSTEM}/xtables"), f"{SYSTEM}/xtables")
    for command in ("iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"):
        kubernetes.link(f"/usr/sbin/{command}", "xtables-nft-multi")
    image(file, [f"{REGISTRY}/{command}:v{version}" for command in commands], kubernetes)


def queue_image(directory: Path, programs: Path) -> None:
    queue = Layer()
    queue.add(programs / "kueue", "/manager")
    image(directory / "kueue.tar", ["registry.k8s.io/kueue/kueue:v0.15.0"], queue, Entrypoint=["/manager"], User="65532:65532")


def images(directory: Path, programs: Path) -> None:
    """What kubeadm and the device plugin's manifest name, and an image for users' pods."""
    directory.mkdir(parents=True, exist_ok=True)

    for version, program in versions(programs).items():
        kubernetes_image(directory / f"kubernetes-{version}.tar", version, program)
    minors = {version.rpartition(".")[0] for version in versions(programs)}
    beside = [BESIDE[minor] for minor in sorted(minors)]

    etcd = Layer()
    for command in ("etcd", "etcdctl", "etcdutl"):
        etcd.add(programs / command, f"/usr/local/bin/{command}")
    image(directory / "etcd.tar", [f"{REGISTRY}/{etcd_name}" for etcd_name, _dns in beside], etcd, Cmd=["etcd"])

    coredns = Layer()
    coredns.add(programs / "coredns", "/coredns")
    image(directory / "coredns.tar", [f"{REGISTRY}/{coredns_name}" for _store, coredns_name in beside], coredns, Entrypoint=["/coredns"])

    pause = Layer()
    pause.add(programs / "pause", "/pause")
    image(directory / "pause.tar", [f"{REGISTRY}/pause:3.10.2"], pause, Entrypoint=["/pause"])

    plugin = Layer()
    plugin.program(programs / "nvidia-device-plugin", "/usr/bin/nvidia-device-plugin")
    plugin.add(programs / "libnvidia-ml.so.1", f"{SYSTEM}/libnvidia-ml.so.1")
    image(directory / "nvidia-device-plugin.tar", ["nvcr.io/nvidia/k8s-device-plugin:v0.18.0"], plugin, Entrypoint=["nvidia-device-plugin"])

    driver = Layer()
    driver.add(programs / "gpu-dra", "/gpu-dra")
    image(directory / "gpu-dra.tar", ["stand-in.invalid/gpu-dra:1"], driver, Entrypoint=["/gpu-dra"])

    if (programs / "kueue").exists():
        queue_image(directory, programs)

    busybox = Layer()
    busybox.add(Path("/bin/busybox"), "/bin/busybox")
    for command in run("/bin/busybox", "--list").split():
        if command != "busybox":
            busybox.link(f"/bin/{command}", "busybox")
    image(directory / "busybox.tar", ["docker.io/library/busybox:1.37"], busybox, Cmd=["sh"])


def main() -> None:
    programs, directory = Path(sys.argv[1]), Path(sys.argv[2])
    if sys.argv[3:] == ["queue"]:
        queue_image(directory / "images", programs)
        return
    images(directory / "images", programs)
    repository(directory / "repository", programs)


if __name__ == "__main__":
    main()
