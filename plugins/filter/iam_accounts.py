# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters that plan accounts from what an IAM has."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils import _iam_plan, _iam_settings, _iam_slurm, _slurm_policy
from ansible_collections.deephdc.accelerators.plugins.module_utils._iam_plan import Host, Refused
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _slurm_policy_file
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter


def whole(settings: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The settings with numbers as numbers, which ansible-core 2.16 gives as text."""
    return {**settings, **{key: int(settings[key]) for key in ("uid_first", "uid_last", "disable_limit")}}


def site_policy(hostvars: t.Any, groups: t.Mapping[str, list[str]]) -> tuple[dict[str, t.Any], list[str]]:
    """The hand-written policy of SLURM and what is wrong with it; empty where there is none."""
    controllers = groups.get("slurm_controllers") or []
    if not controllers:
        return {}, []
    variables = hostvars[controllers[0]]
    policy, wrong = _slurm_policy_file.read(variables.get("slurm_cluster_policy"), variables.get("slurm_cluster_policy_file"))
    wrong = wrong or _slurm_policy.policy_errors("slurm_cluster_policy", policy)
    return ({}, wrong) if wrong else (policy, [])


def numbers(text: str) -> dict[str, int]:
    """Names and numbers as the module iam_accounts_info tells them."""
    return {name: int(number) for name, _colon, number in (line.rpartition(":") for line in text.splitlines())}


def seen(hostvars: t.Any, hosts: t.Sequence[str], result: str, absent: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, Host]:
    """What the hosts that answered have: those of the play, and those outside of it that were asked for them."""
    answers = {host: hostvars.raw_get(host).get(result) or {} for host in hosts}
    answers.update({answer["item"]: answer for answer in absent if answer.get("item") in answers})
    return {
        host: Host(answer["record"], numbers(answer["users"]), numbers(answer["groups"]))
        for host, answer in answers.items()
        if "users" in answer
    }


def iam_accounts_errors(hostvars: t.Any, groups: dict[str, list[str]], settings: dict[str, t.Any]) -> list[str]:
    policy: dict[str, t.Any] = {}
    wrong: list[str] = []
    if any(isinstance(entry, dict) and entry.get("slurm_account") for entry in settings["groups"]):
        policy, wrong = site_policy(hostvars, groups)
    return _iam_settings.errors(whole(settings), groups.get("slurm_controllers") or [], policy) + wrong


def iam_accounts_known(
    hostvars: t.Any, hosts: list[str], result: str, absent: list[dict[str, t.Any]], settings: dict[str, t.Any]
) -> list[str]:
    try:
        return _iam_plan.active_ids(_iam_plan.newest(seen(hostvars, hosts, result, absent), settings["issuer"], hosts[0]))
    except Refused:
        return []  # which the plan says


def iam_accounts_plan(
    hostvars: t.Any, hosts: list[str], result: str, absent: list[dict[str, t.Any]], settings: dict[str, t.Any], scim: dict[str, t.Any]
) -> dict[str, t.Any]:
    there = seen(hostvars, hosts, result, absent)
    try:
        return {**_iam_plan.plan(scim, there, whole(settings), hosts[0]), "read": [host for host in hosts if host in there]}
    except Refused as reason:
        return {"errors": [str(reason)]}


def iam_slurm_policy(
    present: dict[str, t.Any], hostvars: t.Any, groups: dict[str, list[str]], settings: dict[str, t.Any], plan: dict[str, t.Any]
) -> dict[str, t.Any]:
    policy, errors = _iam_slurm.users_policy(
        present, settings["groups"], plan["accounts"], plan["groups"], plan["left"], site_policy(hostvars, groups)[0]
    )
    return {"policy": policy, "errors": errors}


class FilterModule:
    """Plans of accounts."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "iam_accounts_errors": as_filter(iam_accounts_errors),
            "iam_accounts_known": as_filter(iam_accounts_known),
            "iam_accounts_plan": as_filter(iam_accounts_plan),
            "iam_slurm_policy": as_filter(iam_slurm_policy),
        }
