# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters that plan accounts from what an IAM has."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import policy as slurm_policy
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._iam import plan as iam_plan
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._iam import settings as iam_settings
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._iam.plan import Host
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import iam_users as slurm_iam_users
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import policy_file as slurm_policy_file


def whole(settings: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The settings with numbers as numbers, which ansible-core 2.16 gives as text."""
    return {**settings, **{key: int(settings[key]) for key in ("uid_first", "uid_last", "disable_limit", "add_limit")}}


def site_policy(hostvars: t.Any, groups: t.Mapping[str, list[str]]) -> tuple[dict[str, t.Any], list[str]]:
    """The hand-written policy of SLURM and what is wrong with it.

    Empty where there is none.
    """
    controllers = groups.get("slurm_controllers") or []
    if not controllers:
        return {}, []
    variables = hostvars[controllers[0]]
    policy, wrong = slurm_policy_file.read(variables.get("slurm_cluster_policy"), variables.get("slurm_cluster_policy_file"))
    wrong = wrong or slurm_policy.policy_errors("slurm_cluster_policy", policy)
    return ({}, wrong) if wrong else (policy, [])


def numbers(text: str) -> dict[str, int]:
    """Names and numbers as the module iam_accounts_info returns them."""
    return {name: int(number) for name, _colon, number in (line.rpartition(":") for line in text.splitlines())}


def claims(text: str) -> dict[str, str]:
    """Names and files as the module iam_accounts_info returns them."""
    return {name: path for name, _colon, path in (line.partition(":") for line in text.splitlines())}


def seen(hostvars: t.Any, hosts: t.Sequence[str], result: str) -> dict[str, Host]:
    """What the hosts that answered have, in the play or outside of it."""
    answers = {host: hostvars.raw_get(host).get(result) or {} for host in hosts}
    return {
        host: Host(answer["record"], numbers(answer["users"]), numbers(answer["groups"]), claims(answer["claimed"]))
        for host, answer in answers.items()
        if "users" in answer
    }


def iam_accounts_errors(hostvars: t.Any, groups: dict[str, list[str]], settings: dict[str, t.Any]) -> list[str]:
    policy: dict[str, t.Any] = {}
    wrong: list[str] = []
    if any(isinstance(entry, dict) and entry.get("slurm_account") for entry in settings["groups"]):
        policy, wrong = site_policy(hostvars, groups)
    return iam_settings.errors(whole(settings), groups.get("slurm_controllers") or [], policy) + wrong


def iam_accounts_known(hostvars: t.Any, hosts: list[str], result: str, settings: dict[str, t.Any]) -> list[str]:
    try:
        return iam_plan.active_ids(iam_plan.newest(seen(hostvars, hosts, result), settings["issuer"], hosts[0]))
    except Refused:
        return []  # which the plan says


def iam_accounts_plan(
    hostvars: t.Any, hosts: list[str], result: str, settings: dict[str, t.Any], scim: dict[str, t.Any]
) -> dict[str, t.Any]:
    there = seen(hostvars, hosts, result)
    try:
        return {**iam_plan.plan(scim, there, whole(settings), hosts[0]), "read": [host for host in hosts if host in there]}
    except Refused as reason:
        return {"errors": [str(reason)]}


def iam_slurm_policy(
    present: dict[str, t.Any], hostvars: t.Any, groups: dict[str, list[str]], settings: dict[str, t.Any], plan: dict[str, t.Any]
) -> dict[str, t.Any]:
    policy, errors = slurm_iam_users.users_policy(
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
