# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters for what an orchestrator of TOSCA gives to our playbooks."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._tosca import gpus, inventory, job, members, texts, users


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "tosca_accounts": as_filter(users.accounts),
            "tosca_gpus": as_filter(gpus.of_model),
            "tosca_job_errors": as_filter(job.job_errors),
            "tosca_inventory": as_filter(inventory.inventory),
            "tosca_members": as_filter(members.members),
            "tosca_ours": as_filter(users.ours),
            "tosca_unsafe_yaml": as_filter(texts.unsafe_yaml),
            "tosca_users": as_filter(users.users),
        }
