# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The shape of variables with their own keys, as every manager checks it.

Pure functions.

Ansible ignores a key that nothing reads, so a misspelt one would be a setting that is silently not there.
tests/unit/test_shapes.py compares the keys that each check knows with those in the roles' argument_specs.
"""

from __future__ import annotations

import difflib
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown


def unknown_keys(where: str, given: t.Mapping[t.Any, t.Any], known: t.Collection[str]) -> list[str]:
    """Refuse each unknown key in a sentence, with the one that was probably meant."""
    found = []
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(str(key)[:60], known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            found.append(f"{where} has the unknown key {shown(key)} ({hint}).")
    return found
