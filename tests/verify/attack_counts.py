"""Says at the end of a scenario how many attacks were tried, and how many got in: what tests recorded as "attacks"."""

from __future__ import annotations


def pytest_terminal_summary(terminalreporter) -> None:
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind)]
    lines = [text for report in reports if report.when == "call" for name, text in report.user_properties if name == "attacks"]
    if lines:
        terminalreporter.section("attacks")
    for line in lines:
        terminalreporter.line(line)
