# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Which certificates of a cluster end soon: pure functions."""

from __future__ import annotations

import datetime
import typing as t

DAY = datetime.timedelta(days=1)
OPENSSL = "%b %d %H:%M:%S %Y GMT"


class Ending(t.TypedDict):
    """A certificate that ends soon; days is 0 on its last day and negative after it."""

    name: str
    ends: str
    days: int
    renewable: bool


def due(report: t.Any, days: float, now: str) -> list[Ending]:
    """The certificates that end before so many days are over, the first to end first.

    :param report: what 'kubeadm certs check-expiration --output json' prints. now: the present time, as YYYY-MM-DDTHH:MM:SSZ.
    :raises ValueError: one of them is something else.
    """
    if not isinstance(report, t.Mapping) or not isinstance(report.get("certificates"), (list, tuple)):
        raise ValueError("The report must be the object that 'kubeadm certs check-expiration --output json' prints.")
    moment = time_of(now)
    entries = [*report["certificates"], *({**one, "authority": True} for one in report.get("certificateAuthorities") or [])]
    endings = [
        (time_of(one["expirationDate"]), one)
        for one in entries
        # super-admin.conf is on the first control plane alone.
        if one.get("expirationDate") and not one.get("missing")
    ]
    return [
        {
            "name": str(one["name"]),
            "ends": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "days": (end - moment) // DAY,
            "renewable": not (one.get("externallyManaged") or one.get("authority")),
        }
        for end, one in sorted(endings, key=lambda pair: (pair[0], pair[1]["name"]))
        if end - moment < days * DAY
    ]


def time_of(text: str) -> datetime.datetime:
    """A time as kubeadm or 'openssl x509 -enddate' write it.

    :raises ValueError: it is something else.
    """
    try:
        if str(text).endswith("GMT"):
            return datetime.datetime.strptime(" ".join(str(text).split()), OPENSSL).replace(tzinfo=datetime.timezone.utc)
        return datetime.datetime.strptime(str(text), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
    except ValueError:
        raise ValueError(f"{text!r} is no time such as 2026-11-24T10:00:00Z.") from None
