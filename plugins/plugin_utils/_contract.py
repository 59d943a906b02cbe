# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What every manager.py takes and gives.

See docs/architecture.md, "One contract for managers".
"""

from __future__ import annotations

import typing as t


class Site(t.NamedTuple):
    """A site as a filter sees it.

    :param hostvars: Ansible's own, with ``raw_get``.
    :param groups: hosts by group of the inventory.
    :param in_play: the hosts of this run.
    :param settings: the variables of the manager's site role, without their prefix.
    """

    hostvars: t.Any
    groups: t.Mapping[str, t.Sequence[str]]
    in_play: t.Sequence[str]
    settings: t.Mapping[str, t.Any]

    def facts(self, host: str) -> dict[str, t.Any]:
        return self.hostvars[host].get("ansible_facts") or {}


class Plan(t.TypedDict, total=False):
    """What every plan has; a manager's own keys come beside these.

    :param errors: sentences that stop the run. findings: all problems as data (Finding.as_dict), these included.
    :param offers: what each host offers, by inventory name: how many units by the manager's own name for them.
    :param record: what was promised of each host, the text that the next run compares with.
    :param files: text by name of what the manager itself reads.
    :param probes: what proves the site afterwards.
    """

    errors: list[str]
    findings: list[dict[str, t.Any]]
    offers: dict[str, dict[str, int]]
    record: str
    files: dict[str, str]
    probes: list[t.Any]
