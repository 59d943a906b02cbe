# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The text format in which Prometheus reads metrics."""

from __future__ import annotations

import os
import typing as t


class Metrics:
    """Metrics in the order in which they were first added.

    Each has its samples together, as the format asks for.
    """

    def __init__(self) -> None:
        self.families: dict[str, list[str]] = {}

    def add(self, metric: str, kind: str, what: str, value: float, /, **labels: str) -> None:
        family = self.families.setdefault(metric, [f"# HELP {metric} {what}", f"# TYPE {metric} {kind}"])
        inner = ",".join(f'{key}="{escape(text)}"' for key, text in sorted(labels.items()))
        family.append(f"{metric}{{{inner}}} {value}" if inner else f"{metric} {value}")

    def __str__(self) -> str:
        return "".join(f"{line}\n" for family in self.families.values() for line in family)


def escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def publish(text: t.Any, path: str) -> None:
    """Replace the file at once, so that no process reads half of it."""
    new = f"{path}.new"
    with open(new, "w", encoding="utf-8") as file:
        file.write(str(text))
    os.replace(new, path)
