# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""A host's GPUs of the vendor and model a template asks for: pure functions.

A template has them as a cloud publishes them, which may be the marketing name, "Tesla T4", or the short type of ours, "t4".
"""

from __future__ import annotations

import re
import typing as t


def _words(text: t.Any) -> str:
    """Return the words of a name, so that a GPU's T4 is not found in another's T400."""
    return f" {re.sub('[^a-z0-9]+', ' ', str(text or '').lower()).strip()} "


def _is_model(one: t.Mapping[str, t.Any], wanted: str) -> bool:
    its_type = _words(one.get("type"))
    # A text without words, such as .*, is no model.
    return wanted.strip() != "" and (
        wanted in its_type
        or wanted in _words(one.get("model"))
        # Tesla T4 is wanted, and without a driver nothing knows the marketing name.
        or (its_type.strip() != "" and its_type in wanted)
        or its_type.replace(" ", "") == wanted.replace(" ", "")
    )


def of_model(accelerators: t.Any, vendor: t.Any = "", model: t.Any = "") -> list[dict[str, t.Any]]:
    """The GPUs of this vendor and model, each in words of any case; empty takes any."""
    wanted, maker = _words(model), _words(vendor)
    gpus = [dict(one) for one in accelerators or [] if one.get("kind") == "gpu"]
    if str(vendor or ""):
        gpus = [one for one in gpus if _words(one.get("vendor")) in maker]
    return [one for one in gpus if _is_model(one, wanted)] if str(model or "") else gpus
