# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What is wrong with the variables of the role slurm_gateway: pure functions.

They run before a host is touched.
"""

from __future__ import annotations

import re
import typing as t

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.shapes import unknown_keys

# The service holds each account to the same rules, and by the host's passwd to more; a test compares them.
ACCOUNT = re.compile(r"[a-z_][a-z0-9_.-]{0,31}")
SERVICES = ("root", "slurm", "slurmrestd", "slurm_gateway", "munge", "nobody", "www-data")
IDENTITY = re.compile(r"[!-~]{1,255}")
REQUIRED = ("issuer", "subject", "account")
KEYS = (*REQUIRED, "uid")


def errors(variables: t.Mapping[str, t.Mapping[str, t.Any]], groups: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """One sentence for each mistake; variables: those of each host of the cluster."""
    found = []
    for host in groups.get("slurm_rest", []):
        own = variables[host]
        if not boolean(own.get("slurm_gateway_enabled") or False, strict=False):
            continue
        if host not in groups.get("oidc_proxies", []):
            found.append(
                f"slurm_gateway_enabled is set for {host}, which is not in the group oidc_proxies: "
                "the front must run on the same host, as the gateway listens on a socket only."
            )
        for server in groups.get("slurm_controllers", [])[:1]:
            if own.get("slurm_rest_jwt_key") != variables[server].get("slurm_rest_jwt_key"):
                found.append(
                    f"slurm_rest_jwt_key differs between {server} and {host}, where the gateway makes tokens: "
                    "give both the same, in group_vars/all."
                )
        found += map_errors(f"slurm_gateway_accounts of {host}", own.get("slurm_gateway_accounts") or [])
    return found


def map_errors(where: str, entries: t.Any) -> list[str]:
    """What is wrong with a map of identities to accounts."""
    if not isinstance(entries, (list, tuple)):
        return [f"{where} must be a list of entries with {', '.join(REQUIRED)}."]
    found = []
    seen = set()
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, t.Mapping) or not set(REQUIRED) <= set(entry):
            found.append(f"{where}: entry {number} must have the keys {', '.join(REQUIRED)}; uid may be there, and no other.")
            continue
        found += unknown_keys(f"{where}: entry {number}", entry, KEYS)
        if "uid" in entry and not re.fullmatch(r"[0-9]{4,10}", str(entry["uid"])):
            found.append(f"{where}: entry {number} has the uid {entry['uid']!r}, which is no user id of a person.")
        issuer, subject, account = (entry[key] if isinstance(entry[key], str) else "" for key in REQUIRED)
        if not issuer.startswith(("https://", "http://")) or not IDENTITY.fullmatch(issuer):
            found.append(f"{where}: entry {number} needs the provider's issuer as its tokens write it, such as https://iam.example.org/.")
        if not IDENTITY.fullmatch(subject):
            found.append(f"{where}: entry {number} needs the token's sub as subject, in quotes.")
        if not ACCOUNT.fullmatch(account):
            found.append(f"{where}: entry {number} has the account {entry['account']!r}, which is no name of a local account.")
        elif account in SERVICES:
            found.append(f"{where}: entry {number} has the account {account}, which runs a service: name a person's.")
        if (issuer, subject) in seen:
            found.append(f"{where} has the subject {subject} of {issuer} more than once.")
        seen.add((issuer, subject))
    return found
