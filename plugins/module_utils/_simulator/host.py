# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Write a simulated device tree with device nodes, and remove no more than that."""

from __future__ import annotations

import dataclasses
import functools
import glob
import json
import os
import re
import stat
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu import vendors
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.facts import compute_gpu_addresses
from ansible_collections.deephdc.accelerators.plugins.module_utils._simulator.tree import (
    Device,
    Link,
    Node,
    Tree,
    device_nodes,
    simulated_tree,
)

MANIFEST = ".gpu_simulator.json"
TMPFILES_PATH = "etc/tmpfiles.d/gpu_simulator.conf"

# What systemd and the container engines leave in a container.
CONTAINER_MARKS = ("run/systemd/container", ".dockerenv", "run/.containerenv")

# Device files through which a process reaches a GPU, whichever driver and user space; the vendors' records have more.
GPU_FILES = ("dri/card*", "dri/renderD*", "accel/*", "vfio/[0-9]*")


class SimulationError(Exception):
    """One sentence that says why the devices cannot be simulated."""


@dataclasses.dataclass
class Change:
    """What has to be done to a host, and how to do it."""

    device_files: list[str]
    diff: dict[str, str]
    steps: list[t.Callable[[], None]]

    @property
    def is_needed(self) -> bool:
        """Whether the host is not yet as wanted."""
        return bool(self.steps)

    def apply(self) -> None:
        """Change the host.

        A run that is killed on the way is completed, or undone, by the next one.
        """
        for step in self.steps:
            step()


class SimulatedHost:
    """A host with simulated devices.

    Files are known as ours by the manifest below *root*, nodes by the tmpfiles.d file: both are written before what they name is made.

    :param root: directory of the simulated tree.
    :param system: the host's own root; only tests have another than '/'.
    """

    def __init__(self, root: str, system: str = "/") -> None:
        self.root = os.path.normpath(root)
        self.system = system
        if self.root == os.path.normpath(system):
            raise SimulationError(f"gpu_simulator_root is {root}, where the host's real devices are")

    def real_gpu(self) -> str | None:
        """A real compute GPU of this host, in words; None if it has none.

        A container sees the /sys of the whole machine, whose GPUs are the container's only if their files are in its own /dev.
        """
        addresses = compute_gpu_addresses(self.system)
        if not addresses:
            return None
        if not any(os.path.lexists(os.path.join(self.system, mark)) for mark in CONTAINER_MARKS):
            return f"a real GPU at {addresses[0]}"
        files = self._gpu_files_of_others()
        return f"a real GPU at {addresses[0]} and its {files[0]}" if files else None

    def plan(self, devices: list[Device], keep: bool, may_remove_nodes: bool = True) -> Change:
        """What has to be done for *devices* to be simulated.

        :param keep: False to leave nothing, not even an empty tree.
        :param may_remove_nodes: False on a host with a real GPU, whose nodes may have taken the place of ours.
        :raises SimulationError: if something that is not ours is in the way.
        """
        try:
            nodes = device_nodes(devices)
            tree: Tree = simulated_tree(devices) if keep else {}
        except ValueError as error:
            raise SimulationError(f"gpu_simulator_devices is wrong: {error}") from error
        tree.update({f"dev/{node.name}": Link(self._node_path(node)) for node in nodes})
        steps: list[t.Callable[[], None]] = []
        old, new = self._plan_files(tree, keep, steps)
        self._plan_nodes(nodes, may_remove_nodes, steps, old, new)
        return Change([f"/dev/{node.name}" for node in nodes], {"before": _listing(old), "after": _listing(new)}, steps)

    def node_numbers(self, path: str) -> tuple[int, int] | None:
        """Return major and minor number of the character device at *path*.

        None means that it is something else.
        """
        status = os.lstat(path)
        return (os.major(status.st_rdev), os.minor(status.st_rdev)) if stat.S_ISCHR(status.st_mode) else None

    def make_node(self, path: str, major: int, minor: int) -> None:
        """Make a character device that everyone may open, as NVIDIA's driver does.

        Confining is the scheduler's part.
        """
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
        os.chmod(path, 0o666)

    def _plan_files(self, tree: Tree, keep: bool, steps: list[t.Callable[[], None]]) -> tuple[dict[str, str], dict[str, str]]:
        ours = self._manifest()
        directories = _parents(tree) | {path for path, content in tree.items() if content is None}
        made = {path for path in ours | directories if path in ours or not os.path.lexists(self._path(path))}
        wanted = {path: content for path, content in tree.items() if content is not None}
        stale = sorted(ours - wanted.keys() - directories, key=len, reverse=True)
        old: dict[str, str] = {}
        new: dict[str, str] = {}
        changes: list[t.Callable[[], None]] = []
        for path in stale:
            if os.path.lexists(self._path(path)):
                if os.path.islink(self._path(path)) or not os.path.isdir(self._path(path)):
                    old[path] = self._described(path)
                changes.append(functools.partial(self._remove, path))
        for path in sorted(directories):
            if not os.path.isdir(self._path(path)):
                changes.append(functools.partial(os.makedirs, self._path(path), exist_ok=True))
        for path in sorted(wanted):
            content = wanted[path]
            if os.path.lexists(self._path(path)):
                if path not in ours:
                    raise SimulationError(f"{self._path(path)} is there already and was not made by gpu_simulator")
                if self._described(path) == _description(content):
                    continue
                old[path] = self._described(path)
            new[path] = _description(content)
            changes.append(functools.partial(self._write, path, content))
        after = sorted((wanted.keys() | (made & directories)) if keep else ())
        if changes or after != sorted(ours):
            steps.append(lambda: self._write_manifest(sorted(ours | wanted.keys() | made)))
            steps.extend(changes)
            steps.append(lambda: self._write_manifest(after))
        return old, new

    def _plan_nodes(
        self, nodes: list[Node], may_remove: bool, steps: list[t.Callable[[], None]], old: dict[str, str], new: dict[str, str]
    ) -> None:
        ours = self._recorded_nodes()
        changes: list[t.Callable[[], None]] = []
        leaving = set()
        for node in ours:
            path = self._node_path(node)
            is_ours = os.path.lexists(path) and self.node_numbers(path) == (node.major, node.minor)
            if node not in nodes and may_remove and is_ours:
                leaving.add(path)
                old[f"/dev/{node.name}"] = f"character device {node.major}:{node.minor}"
                changes.append(functools.partial(self._remove_node, path))
        for node in nodes:
            path = self._node_path(node)
            if os.path.lexists(path) and path not in leaving:
                if node not in ours or self.node_numbers(path) != (node.major, node.minor):
                    raise SimulationError(f"gpu_simulator_devices needs {path}, which is there already and was not made by gpu_simulator")
                continue
            new[f"/dev/{node.name}"] = f"character device {node.major}:{node.minor}"
            changes.append(functools.partial(self._make_node, path, node))
        if changes or ours != nodes:
            steps.append(lambda: self._record_nodes(ours + [node for node in nodes if node not in ours]))
            steps.extend(changes)
            steps.append(lambda: self._record_nodes(nodes))

    def _gpu_files_of_others(self) -> list[str]:
        ours = self._recorded_nodes()
        found = []
        patterns = [os.path.join(self.system, "dev", pattern) for pattern in GPU_FILES + vendors.file_patterns()]
        for path in sorted(path for pattern in patterns for path in glob.glob(pattern)):
            numbers = self.node_numbers(path)
            name = os.path.relpath(path, os.path.join(self.system, "dev"))
            if numbers is None or Node(name, *numbers) not in ours:
                found.append(f"/dev/{name}")
        return found

    def _path(self, path: str) -> str:
        return os.path.normpath(os.path.join(self.root, path))

    def _node_path(self, node: Node) -> str:
        return os.path.join(self.system, "dev", node.name)

    def _make_node(self, path: str, node: Node) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.make_node(path, node.major, node.minor)

    def _remove_node(self, path: str) -> None:
        os.unlink(path)
        directory = os.path.dirname(path)
        if directory != os.path.join(self.system, "dev") and not os.listdir(directory):
            os.rmdir(directory)  # /dev/dri, as the kernel does with the last node

    def _manifest(self) -> set[str]:
        try:
            with open(self._path(MANIFEST), encoding="utf-8") as stream:
                return set(json.load(stream))
        except FileNotFoundError:
            return set()
        except ValueError as error:
            raise SimulationError(f"{self._path(MANIFEST)} is damaged, so what gpu_simulator made is not known: {error}") from error

    def _write_manifest(self, paths: list[str]) -> None:
        if paths:
            os.makedirs(self.root, exist_ok=True)
            _replace(self._path(MANIFEST), json.dumps(paths, indent=0) + "\n")
            return
        os.unlink(self._path(MANIFEST))
        if not os.listdir(self.root):
            os.rmdir(self.root)

    def _recorded_nodes(self) -> list[Node]:
        try:
            with open(os.path.join(self.system, TMPFILES_PATH), encoding="utf-8") as stream:
                found = re.findall(r"^c /dev/(\S+) .* (\d+):(\d+)$", stream.read(), re.MULTILINE)
        except FileNotFoundError:
            return []
        return [Node(name, int(major), int(minor)) for name, major, minor in found]

    def _record_nodes(self, nodes: list[Node]) -> None:
        path = os.path.join(self.system, TMPFILES_PATH)
        if not nodes:
            if os.path.lexists(path):
                os.unlink(path)
            return
        lines = ["# Made by deephdc.accelerators.gpu_simulator: the device nodes of simulated GPUs."]
        lines += [f"d /dev/{name} 0755 root root -" for name in sorted({os.path.dirname(node.name) for node in nodes} - {""})]
        lines += [f"c /dev/{node.name} 0666 root root - {node.major}:{node.minor}" for node in nodes]
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _replace(path, "\n".join(lines) + "\n")

    def _described(self, path: str) -> str:
        full = self._path(path)
        if os.path.islink(full):
            return _description(Link(os.readlink(full)))
        if os.path.isdir(full):
            return "directory"
        with open(full, encoding="utf-8", errors="replace") as stream:
            return _description(stream.read())

    def _write(self, path: str, content: str | Link) -> None:
        full = self._path(path)
        if os.path.lexists(full):
            os.unlink(full)
        if isinstance(content, Link):
            os.symlink(content.target, full)
        else:
            _replace(full, content)

    def _remove(self, path: str) -> None:
        full = self._path(path)
        if os.path.isdir(full) and not os.path.islink(full):
            if not os.listdir(full):  # else there is something in it that the simulator did not make
                os.rmdir(full)
        else:
            os.unlink(full)


def _replace(path: str, text: str) -> None:
    """Write a small file in one step: a killed run leaves the old or the new one."""
    with open(path + ".new", "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(path + ".new", path)


def _parents(tree: Tree) -> set[str]:
    found: set[str] = set()
    for path in tree:
        parent = os.path.dirname(path)
        while parent and parent not in found:
            found.add(parent)
            parent = os.path.dirname(parent)
    return found


def _description(content: str | Link) -> str:
    return f"-> {content.target}" if isinstance(content, Link) else content.rstrip("\n")


def _listing(described: dict[str, str]) -> str:
    return "".join(f"{path}: {text}\n" for path, text in sorted(described.items()))
