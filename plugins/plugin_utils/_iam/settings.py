# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What is wrong with the variables of iam_accounts: pure functions.

They run before anything is asked or touched.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._iam import names as iam_names
from ansible_collections.deephdc.accelerators.plugins.module_utils._iam.scim import ID
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.shapes import unknown_keys
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown, text_of
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import policy as slurm_policy

GROUP_KEYS = ("name", "id", "group", "slurm_account")
# The value of users_from in a policy.
SOURCE = "iam_accounts"
URL = re.compile(r"(https?)://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[^\s?#]*)?", re.ASCII)
HERE = ("localhost", "127.0.0.1", "[::1]")


def url_errors(variable: str, value: t.Any) -> list[str]:
    match = URL.fullmatch(value) if isinstance(value, str) else None
    if not match:
        return [f"{variable} must be an address such as https://iam.example.org/scim, without a query, not {shown(value)}."]
    if match.group(1) != "https" and match.group(2) not in HERE:
        return [f"{variable} is {value}: without https everybody in between reads the token; only this machine's own loopback needs none."]
    return []


def errors(settings: t.Mapping[str, t.Any], controllers: t.Sequence[str], policy: t.Mapping[str, t.Any]) -> list[str]:
    """One sentence for each mistake.

    policy: the hand-written policy of SLURM, empty where there is none.
    """
    found = url_errors("iam_accounts_scim_url", settings["scim_url"])
    issuer = settings["issuer"]
    if (
        not isinstance(issuer, str)
        or not issuer
        or issuer != issuer.strip()
        or any(sign in "{}%" or not sign.isprintable() for sign in issuer)
    ):
        found.append(
            "iam_accounts_issuer must be the issuer of the IAM's tokens, exactly as in its metadata (with or without the last slash)."
        )
    found += credential_errors(settings)
    first, last = settings["uid_first"], settings["uid_last"]
    foreign = iam_names.FOREIGN
    if not iam_names.FIRST <= first <= last < 2**31 or (first <= foreign[-1] and last >= foreign[0]):
        found.append(
            f"iam_accounts_uid_first and iam_accounts_uid_last are {first} and {last}: "
            "choose a range from 1000 on that has none of 60000 to 65535, which are the system's."
        )
    if not 0 <= settings["disable_limit"] <= 100:
        found.append(f"iam_accounts_disable_limit is {settings['disable_limit']}: write a share in per cent, from 0 to 100.")
    if settings["add_limit"] < 0:
        found.append(f"iam_accounts_add_limit is {settings['add_limit']}: write how many accounts may be new in one run.")
    return found + name_errors(settings["names"]) + group_errors(settings["groups"], controllers, policy)


def credential_errors(settings: t.Mapping[str, t.Any]) -> list[str]:
    client = [settings[key] for key in ("token_url", "client_id", "client_secret_file")]
    if bool(settings["token_file"]) == any(client):
        return [
            "iam_accounts needs either iam_accounts_token_file or iam_accounts_token_url, iam_accounts_client_id and "
            "iam_accounts_client_secret_file, and not both."
        ]
    if any(client) and not all(client):
        return ["iam_accounts_token_url, iam_accounts_client_id and iam_accounts_client_secret_file belong together: set all three."]
    return url_errors("iam_accounts_token_url", settings["token_url"]) if any(client) else []


def name_errors(names: t.Any) -> list[str]:
    found = []
    for one, name in names.items():
        if not (isinstance(one, str) and ID.fullmatch(one)):
            found.append(f"iam_accounts_names: {shown(one)} is no id of a user of the IAM (the token's sub).")
        why = iam_names.unfit(name)
        if why:
            found.append(f"iam_accounts_names: {shown(name)} {why}.")
    if len(set(names.values())) != len(names):
        found.append("iam_accounts_names gives two users of the IAM the same account.")
    return found


def group_errors(groups: t.Any, controllers: t.Sequence[str], policy: t.Mapping[str, t.Any]) -> list[str]:
    if not groups:
        return ["iam_accounts_groups is empty: name the IAM's groups whose members get accounts, such as [{name: gpu, group: gpu}]."]
    found: list[str] = []
    for entry in groups:
        if not isinstance(entry, t.Mapping) or not isinstance(entry.get("name"), str) or not entry["name"]:
            found.append(
                "iam_accounts_groups must be a list of dictionaries, each with name (that of the IAM's group) and group (the local one)."
            )
            continue
        here = f"iam_accounts_groups: {shown(entry['name'])}"
        found += unknown_keys(here, entry, GROUP_KEYS)
        why = iam_names.unfit(entry.get("group"))
        if why:
            found.append(f"{here} has the local group {shown(entry.get('group'))}, which {why}.")
        if entry.get("id") is not None and not (isinstance(entry["id"], str) and ID.fullmatch(entry["id"])):
            found.append(f"{here} has the id {shown(entry['id'])}, which is no id of SCIM.")
        if entry.get("slurm_account") is not None:
            found += account_errors(here, entry["slurm_account"], controllers, policy)
    if not found:
        for key, what in (("name", "group of the IAM"), ("group", "local group")):
            values = [entry[key] for entry in groups]
            found += [
                f"iam_accounts_groups names the {what} {shown(value)} more than once."
                for value in dict.fromkeys(values)
                if values.count(value) > 1
            ]
    return found


def account_errors(here: str, account: t.Any, controllers: t.Sequence[str], policy: t.Mapping[str, t.Any]) -> list[str]:
    """An account of SLURM has one source of users: the hand-written policy, or this."""
    if not slurm_policy.is_name(account):
        return [f"{here} has the slurm_account {shown(account)}, which is no name of an account."]
    if not controllers:
        return [f"{here} has a slurm_account, but the inventory has no slurm_controllers."]
    declared = {text_of(entry["name"]).lower(): entry for entry in policy.get("accounts") or []}
    entry = declared.get(text_of(account).lower())
    if declared and (entry is None or entry.get("users_from") != SOURCE):
        return [
            f"{here} has the slurm_account {account}, whose users slurm_cluster_policy does not leave to it: "
            f"give the account there 'users_from: {SOURCE}' instead of users."
        ]
    return []
