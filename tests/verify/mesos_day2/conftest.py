# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests on a cluster of Mesos."""

from __future__ import annotations

from mesos_site import clean

__all__ = ["clean"]
