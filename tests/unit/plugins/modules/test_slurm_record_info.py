# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module slurm_record_info."""

from __future__ import annotations

from ansible_collections.deephdc.accelerators.plugins.modules import slurm_record_info


def test_record_is_read_as_it_is(run, tmp_path):
    file = tmp_path / "record.json"
    assert run(slurm_record_info, path=str(file), _ansible_check_mode=True)["record"] == ""
    file.write_text('{"nodes": {"größe": []}}\n', encoding="utf-8")
    result = run(slurm_record_info, path=str(file))
    assert (result["changed"], result["record"]) == (False, '{"nodes": {"größe": []}}\n')


def test_damaged_record_is_left_to_the_plan(run, tmp_path):
    file = tmp_path / "record.json"
    file.write_bytes(b'{"nodes": \xff')
    assert run(slurm_record_info, path=str(file))["record"] == '{"nodes": \ufffd'
