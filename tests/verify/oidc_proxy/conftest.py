"""Says at the end of the scenario how many attacks were tried, and how many got in."""

from __future__ import annotations

from attack_counts import pytest_terminal_summary  # noqa: F401 - pytest calls it
