#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Build and install a package's kernel module, or try whether it builds."""

from __future__ import annotations

DOCUMENTATION = r"""
module: dkms_module
version_added: 0.1.0
short_description: Build a package's kernel module by DKMS and check it, or try whether it would build
author: deephdc.accelerators contributors (@deephdc)
description:
  - Builds and installs the module of an installed package for each of O(kernels) where DKMS has not. Reads from the installed
    file what the kernel would load.
  - With O(trial), downloads that version of the package and builds its module in a temporary directory. Neither the host's packages nor
    its modules are touched. The packages' own scripts remove the old module before they build the new one. A trial shows
    beforehand whether the host would be left without a module.
  - If a build fails, the module does not fail. RV(errors) has the first error of each build.
attributes:
  check_mode:
    description: Predicts what would be built. Runs no trial, as it takes minutes.
    support: full
  diff_mode:
    description: Not needed, the result names the kernels.
    support: none
options:
  package:
    description: Package with the sources of the module, such as V(nvidia-kernel-dkms).
    type: str
    required: true
  trial:
    description: Version of the package, as apt has it, to build in a temporary directory.
    type: str
  kernels:
    description: Releases of kernels to build for. Kernels without headers are skipped.
    type: list
    elements: str
    required: true
seealso:
  - module: deephdc.accelerators.nvidia_driver_facts
"""

EXAMPLES = r"""
- name: Build the module for every installed kernel
  deephdc.accelerators.dkms_module:
    package: nvidia-kernel-dkms
    kernels: [6.12.107+deb13-amd64, 6.12.117+deb13-amd64]
  register: modules
  failed_when: modules.errors | length > 0

- name: Try whether the new driver builds for these kernels
  deephdc.accelerators.dkms_module:
    package: nvidia-kernel-dkms
    trial: 550.163.01-2
    kernels: [6.12.107+deb13-amd64, 6.12.117+deb13-amd64]
"""

RETURN = r"""
name:
  description: Name of the module in DKMS; empty where the package is not installed.
  type: str
  returned: always
  sample: nvidia-current
version:
  description: Version of the module.
  type: str
  returned: always
  sample: 550.163.01
built:
  description: Kernels that this run built or installed the module for, or would in check mode.
  type: list
  elements: str
  returned: always
  sample: [6.12.117+deb13-amd64]
errors:
  description: Why the module does not build, one sentence per kernel.
  type: list
  elements: str
  returned: always
installed:
  description: Per kernel, C(file), C(version), C(license) and C(signer) of the module that the kernel would load.
  type: dict
  returned: always
"""

import glob
import os
import shutil
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._host import dkms


class Failed(Exception):
    """A build broke; the text is its first error."""


def conf_of(paths: list[str]) -> dict[str, str]:
    """Settings of the one dkms.conf among the files of a package."""
    for path in paths:
        if "/usr/src/" in path and path.endswith("/dkms.conf"):
            with open(path, encoding="utf-8") as file:
                return dkms.settings(file.read())
    return {}


def log_of(tree: str, name: str, version: str) -> str:
    try:
        with open(f"{tree}/{name}/{version}/build/make.log", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def build(module: AnsibleModule, name: str, version: str, kernel: str, tree: str, *options: str) -> None:
    words = ["dkms", "build", "-m", name, "-v", version, "-k", kernel, *options]
    code, out, err = module.run_command(words)
    if code == dkms.EXCLUDED:
        raise Failed("")
    if code != 0:
        raise Failed(dkms.first_error(log_of(tree, name, version)) or dkms.first_error(out + err) or f"dkms ended with {code}")


def trial(module: AnsibleModule, package: str, version: str, kernels: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Settings of the module, and kernel to first error."""
    directory = tempfile.mkdtemp(prefix="deephdc_dkms.", dir=module.tmpdir)
    try:
        code, out, err = module.run_command(["apt-get", "-o", "APT::Sandbox::User=root", "download", f"{package}={version}"], cwd=directory)
        found = glob.glob(f"{directory}/*.deb")
        if code != 0 or not found:
            module.fail_json(msg=f"apt can't download {package} {version}: {err or out}")
        module.run_command(["dpkg-deb", "-x", found[0], f"{directory}/root"], check_rc=True)
        conf = conf_of(glob.glob(f"{directory}/root/usr/src/*/dkms.conf"))
        if not conf:
            module.fail_json(msg=f"{package} {version} has no dkms.conf: it is no package of a DKMS module.")
        os.mkdir(f"{directory}/tree")
        failures = {}
        for kernel in kernels:
            try:
                places = ["--sourcetree", f"{directory}/root/usr/src", "--dkmstree", f"{directory}/tree"]
                build(module, conf["name"], conf["version"], kernel, f"{directory}/tree", *places)
            except Failed as failure:
                failures[kernel] = str(failure)
        return conf, failures
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def loadable(module: AnsibleModule, name: str, kernel: str) -> dict[str, str]:
    """What modinfo prints about the module that the kernel would load.

    Empty if there is none.
    """
    code, out, _err = module.run_command(["modinfo", "-k", kernel, name])
    rows = [line.split(":", 1) for line in out.splitlines() if ":" in line] if code == 0 else []
    fields = {key.strip(): value.strip() for key, value in rows if not key.startswith(("alias", "parm"))}
    return (
        {
            key: fields.get(source, "")
            for key, source in (("file", "filename"), ("version", "version"), ("license", "license"), ("signer", "signer"))
        }
        if fields
        else {}
    )


def complete(module: AnsibleModule, conf: dict[str, str], kernels: list[str]) -> tuple[list[str], dict[str, str]]:
    """Build and install for kernels where that was not done.

    :returns: these kernels, and the first error of each that failed.
    """
    built, failures = [], {}
    known = dkms.states(module.run_command(["dkms", "status"])[1])
    for kernel in kernels:
        state = dkms.state_of(known, conf["name"], conf["version"], kernel)
        # A removed file, or an index of modules that does not name it, is not a state that dkms knows.
        loads = loadable(module, conf["module"], kernel).get("version") == conf["version"]
        if dkms.is_whole(state) and loads:
            continue
        built.append(kernel)
        if module.check_mode:
            continue
        try:
            if not state or state.state not in ("built", "installed"):
                build(module, conf["name"], conf["version"], kernel, "/var/lib/dkms")
            words = ["dkms", "install", "--force", "-m", conf["name"], "-v", conf["version"], "-k", kernel]
            code, out, err = module.run_command(words)
            if code != 0:
                raise Failed(dkms.first_error(out + err))
        except Failed as failure:
            failures[kernel] = str(failure)
    return [kernel for kernel in built if kernel not in failures], failures


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "package": {"type": "str", "required": True},
            "trial": {"type": "str"},
            "kernels": {"type": "list", "elements": "str", "required": True},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    package = module.params["package"]
    kernels = [kernel for kernel in module.params["kernels"] if os.path.isdir(f"/lib/modules/{kernel}/build/include")]
    result: dict = {"changed": False, "name": "", "version": "", "built": [], "errors": [], "installed": {}}
    failures: dict[str, str] = {}
    conf: dict[str, str] = {}
    if module.params["trial"]:
        if not module.check_mode:
            conf, failures = trial(module, package, module.params["trial"], kernels)
    else:
        conf = conf_of(module.run_command(["dpkg-query", "--listfiles", package])[1].splitlines())
        if conf:
            result["built"], failures = complete(module, conf, kernels)
            result["changed"] = bool(result["built"])
            result["installed"] = {kernel: loadable(module, conf["module"], kernel) for kernel in kernels}
    result.update(name=conf.get("name", ""), version=conf.get("version", ""))
    newest = module.params["kernels"][-1] if module.params["kernels"] else ""
    result["errors"] = dkms.build_errors(result["name"], result["version"], failures, os.uname().release, newest)
    if not module.check_mode:
        for kernel, own in result["installed"].items():
            if kernel not in failures and own.get("version") != conf["version"]:
                result["errors"].append(dkms.load_error(conf["name"], conf["version"], kernel, own.get("version", "")))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
