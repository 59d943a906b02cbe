# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the module reads of a host."""

from __future__ import annotations

from ansible_collections.deephdc.accelerators.plugins.modules import nvidia_driver_facts as facts


def test_kernels_are_ordered_by_number():
    releases = ["6.12.107+deb13-amd64", "6.1.0-9-amd64", "6.1.0-50-amd64", "6.12.117+deb13-amd64", "6.1.0-50-cloud-amd64"]
    assert [release.split("-cloud")[0] for release in sorted(releases, key=facts.kernel_key)] == [
        "6.1.0-9-amd64",
        "6.1.0-50-amd64",
        "6.1.0-50",
        "6.12.107+deb13-amd64",
        "6.12.117+deb13-amd64",
    ]


def test_secure_boot_is_the_last_byte(tmp_path, monkeypatch):
    variable = tmp_path / "SecureBoot"
    monkeypatch.setattr(facts, "SECURE_BOOT", str(variable))
    assert facts.secure_boot() is None
    variable.write_bytes(b"\x06\x00\x00\x00\x01")
    assert facts.secure_boot() is True
    variable.write_bytes(b"\x06\x00\x00\x00\x00")
    assert facts.secure_boot() is False
