# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A package repository in variables of roles: uri, suite, components and key."""

from __future__ import annotations

import re
import typing as t

URI = re.compile(r"(https?|file):/[!-~]+\Z")
WORD = re.compile(r"[A-Za-z0-9._/-]+\Z")
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----"


def errors(repository: t.Mapping[str, t.Any], variable: str, host: str) -> list[str]:
    """List what is wrong with the variable of a host, one sentence each."""
    missing = [key for key in ("uri", "suite", "key") if not repository.get(key)]
    if missing:
        return [f"{variable} of {host} lacks {', '.join(missing)}: name the repository or a mirror of it."]
    problems = []
    # A line end would write another field of apt's source, such as one that switches the check of signatures off.
    words = [repository["suite"], *(repository.get("components") or [])]
    if not URI.match(str(repository["uri"])) or not all(WORD.match(str(word)) for word in words):
        problems.append(
            f"{variable} of {host} is no repository of apt: uri begins with http:, https: or file: and has no blanks and line ends, "
            "suite and components have letters, digits and ._/- only."
        )
    if KEY not in str(repository["key"]):
        problems.append(
            f"{variable} of {host} has no key: give the repository's public key as armored text, such as what the lookup "
            "ansible.builtin.file reads of a file that you have looked at."
        )
    return problems


def source(repository: t.Mapping[str, t.Any], purpose: str) -> str:
    """Write the file that lets apt take packages from a repository, in deb822 syntax.

    :param purpose: what it is for, a sentence without its end.
    """
    lines = [f"# Made by deephdc.accelerators: {purpose}.", "Types: deb", f"URIs: {repository['uri']}", f"Suites: {repository['suite']}"]
    if repository.get("components"):
        lines.append(f"Components: {' '.join(repository['components'])}")
    # apt takes a key in place of a file's name, so that no other archive is believed for it.
    key = [f" {line}" if line.strip() else " ." for line in repository["key"].strip().splitlines()]
    return "\n".join([*lines, "Signed-By:", *key]) + "\n"
