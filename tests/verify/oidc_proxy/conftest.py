"""Says at the end of the scenario how many attacks were tried, and how many got in."""

from __future__ import annotations

import attack_counts

# pytest calls it by this name.
pytest_terminal_summary = attack_counts.pytest_terminal_summary
