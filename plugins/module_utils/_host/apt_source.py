# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the archives of an apt sources file have, before the host's apt knows them."""

from __future__ import annotations

import os
import shutil
import tempfile
import typing as t

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


class Unreadable(Exception):
    """apt can't read the sources; the text is what it says."""


def versions(module: AnsibleModule, names: t.Sequence[str], sources: str) -> dict[str, list[str]]:
    """Return the versions of packages that the archives have, newest first.

    apt reads the archives into a directory, which is removed afterwards.

    :raises Unreadable: an archive doesn't answer, or is not signed by the key that is expected.
    """
    directory = tempfile.mkdtemp(prefix="deephdc_apt.", dir=module.tmpdir)
    os.chmod(directory, 0o755)  # apt's helpers may run as its own user
    try:
        os.makedirs(f"{directory}/lists/partial")
        with open(f"{directory}/deephdc.sources", "w", encoding="utf-8") as file:
            file.write(sources)
        options = {
            "Dir::Etc::SourceList": "/dev/null",
            "Dir::Etc::SourceParts": directory,
            "Dir::State::Lists": f"{directory}/lists",
            "Dir::Cache::pkgcache": "",
            "Dir::Cache::srcpkgcache": "",
            "APT::Sandbox::User": "root",
        }
        words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        code, out, err = module.run_command(["apt-get", *words, "--quiet", "update"], environ_update={"LC_ALL": "C"})
        told = [line for line in (out + err).splitlines() if line.startswith(("E:", "Err:", "W:"))]
        if code != 0 or any(line.startswith("W:") and "GPG" in line for line in told):
            raise Unreadable(" ".join(told) or err)
        found: dict[str, list[str]] = {}
        for line in module.run_command(["apt-cache", *words, "madison", *names])[1].splitlines():
            name, version = (part.strip() for part in line.split("|")[:2])
            if version not in found.setdefault(name, []):
                found[name].append(version)
        return found
    finally:
        shutil.rmtree(directory, ignore_errors=True)
