#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Configure container engines for NVIDIA's GPUs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_container_engine
version_added: 0.1.0
short_description: Configure container engines for NVIDIA's runtime and device specification
author: deephdc.accelerators contributors (@deephdc)
description:
  - Runs C(nvidia-ctk) to add NVIDIA's runtime to the engines' configuration, and the use of CDI specifications if the engine knows them.
    All other configuration stays as it is.
  - C(nvidia-ctk) works on copies, so that a file that is right is not written. As it drops comments, the file from before the first
    change is kept beside the new one, with the suffix C(.before-deephdc).
attributes:
  check_mode:
    description: Predicts the change. Without C(nvidia-ctk) every engine counts as one that would be changed.
    support: full
  diff_mode:
    description: Shows the change of each file that every user may read.
    support: full
options:
  engines:
    description: Engines that the host has.
    type: list
    elements: str
    choices: [docker, containerd, crio]
    required: true
  default:
    description: Whether NVIDIA's runtime is the default, so that containers get it without asking for it.
    type: bool
    default: false
seealso:
  - module: deephdc.accelerators.unit_fresh
"""

EXAMPLES = r"""
- name: Configure docker for the GPUs
  deephdc.accelerators.nvidia_container_engine:
    engines: [docker]
"""

RETURN = r"""
paths:
  description: Files that were changed, or would be.
  type: list
  elements: str
  returned: always
  sample: [/etc/docker/daemon.json]
"""

import os
import shutil
import stat
import tempfile

from ansible.module_utils.basic import AnsibleModule

# The file that an engine reads, and the one beside it that nvidia-ctk may have for itself.
FILES = {
    "docker": ("/etc/docker/daemon.json", ""),
    "containerd": ("/etc/containerd/config.toml", "/etc/containerd/conf.d/99-nvidia.toml"),
    "crio": ("/etc/crio/crio.conf", "/etc/crio/crio.conf.d/99-nvidia.toml"),
}


def read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def wanted(module: AnsibleModule, engine: str, default: bool) -> dict[str, str]:
    """Path to content of an engine's files as nvidia-ctk would leave them."""
    main_file, dropin = FILES[engine]
    root = tempfile.mkdtemp(prefix="deephdc_engine.", dir=module.tmpdir)
    try:
        for path in filter(None, FILES[engine]):
            os.makedirs(root + os.path.dirname(path), exist_ok=True)
        if os.path.exists(main_file):
            # Where it imports the drop-in's directory already, nvidia-ctk must find that it does.
            there = os.path.dirname(dropin or main_file)
            with open(root + main_file, "w", encoding="utf-8") as file:
                file.write(read(main_file).replace(there, root + there))
        words = ["nvidia-ctk", "runtime", "configure", "--runtime", engine, "--config", root + main_file, "--config-source", "file"]
        words += ["--drop-in-config", root + dropin] if dropin else []
        words += ["--cdi.enabled"] if engine != "crio" else []
        words += ["--nvidia-set-as-default"] if default else []
        code, _out, err = module.run_command(words)
        if code != 0:
            module.fail_json(msg=f"nvidia-ctk can't read or change {main_file} of {engine}: {err.strip()}")
        # It names the drop-in where it wrote it.
        return {path: read(root + path).replace(root, "") for path in filter(None, FILES[engine])}
    finally:
        shutil.rmtree(root, ignore_errors=True)


def difference(path: str, content: str) -> dict[str, str]:
    """What diff mode shows.

    A file that not every user may read may have credentials for registries.
    """
    private = os.path.exists(path) and not os.stat(path).st_mode & stat.S_IROTH
    before, after = ("", "not shown: not everybody may read this file\n") if private else (read(path), content)
    return {"before_header": path, "after_header": path, "before": before, "after": after}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "engines": {"type": "list", "elements": "str", "choices": sorted(FILES), "required": True},
            "default": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    engines = module.params["engines"]
    if not module.get_bin_path("nvidia-ctk"):
        if not module.check_mode:
            module.fail_json(msg="nvidia-ctk is not installed.")
        paths = [FILES[engine][0] for engine in engines]
        module.exit_json(changed=bool(paths), paths=paths)
    changes = {}
    for engine in engines:
        for path, content in wanted(module, engine, module.params["default"]).items():
            if content and content != read(path):
                changes[path] = content
    diff = [difference(path, content) for path, content in changes.items()]
    if not module.check_mode:
        for path, content in changes.items():
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=module.tmpdir, delete=False, encoding="utf-8") as file:
                file.write(content)
            new = not os.path.exists(path)
            if not new and not os.path.exists(f"{path}.before-deephdc"):
                # nvidia-ctk drops comments.
                shutil.copy2(path, f"{path}.before-deephdc")
            module.atomic_move(file.name, path)
            if new:
                os.chmod(path, 0o644)
    module.exit_json(changed=bool(changes), paths=list(changes), diff=diff)


if __name__ == "__main__":
    main()
