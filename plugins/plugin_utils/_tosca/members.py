# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Who is, was and is again a user of a deployment: pure functions.

A record says which accounts the deployment itself made. From no other account anything is taken away.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._tosca import users

# As for users of an IAM: running jobs go on, and no new one comes.
STOPPED = {"jobs": 0, "submitted_jobs": 0}
FILE = "/etc/deephdc/tosca_users.json"
# SLURM's account of all users of a deployment.
ACCOUNT = "users"
FREE = dict.fromkeys(STOPPED, "unlimited")


def members(given: t.Any, record: t.Any, policy: t.Any) -> dict[str, t.Any]:
    """Return the users, the policy of SLURM, and the record.

    The record is as it is to be kept before the policy is in force, and after that.

    :param given: a list of tosca.datatypes.indigo.User.
    :param record: the file of the last run, with C(numbers), of all users so far, and C(left), those whose limits may be those of who left;
        before the first run a dictionary with the numbers of those who are there.
    :param policy: C(slurm_cluster_policy) of the template's settings. Its account of the same name has the users, too.
    :raises Refused: the record is damaged.
    """
    numbers, before = (record.get("numbers", {}), []) if isinstance(record, t.Mapping) else _read(str(record))
    those = users.users(given, numbers)
    now = [str(one["name"]) for one in those]
    left = sorted({*before, *numbers} - set(now))
    back = [name for name in before if name in now]
    limited: list[t.Any] = [{"name": name, "limits": FREE} if name in back else name for name in now]
    limited += [{"name": name, "limits": STOPPED} for name in left]
    known = {**numbers, **{one["name"]: one["uid"] for one in those}}
    return {
        "users": those,
        "policy": _with_account(policy, limited),
        "before": {"numbers": known, "left": sorted({*left, *back})},
        # Limits that an administrator gives to who came back stay.
        "after": {"numbers": known, "left": left},
    }


def _read(text: str) -> tuple[dict[str, int], list[str]]:
    try:
        record = json.loads(text)
        numbers, left = record["numbers"], record["left"]
        numbered = all(isinstance(one, int) and not isinstance(one, bool) for one in numbers.values())
        if numbered and isinstance(left, list) and all(isinstance(one, str) for one in left):
            return numbers, left
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise Refused(f"{FILE} on the front end is damaged: bring it back from a backup. It is not written again until then.")


def _with_account(policy: t.Any, wanted: list[t.Any]) -> t.Any:
    accounts = (policy.get("accounts") or []) if isinstance(policy, t.Mapping) else None
    if not isinstance(accounts, list) or not all(isinstance(one, t.Mapping) for one in accounts):
        return policy  # which the playbook refuses in its own words
    of_same_name = next((one for one in accounts if one.get("name") == ACCOUNT), {"name": ACCOUNT})
    own = of_same_name.get("users") or []
    if not isinstance(own, list) or not all(isinstance(one, (str, t.Mapping)) for one in own):
        return policy
    named = {one.get("name") if isinstance(one, t.Mapping) else one for one in own}
    whole = {**of_same_name, "users": own + [one for one in wanted if (one if isinstance(one, str) else one["name"]) not in named]}
    return {**policy, "accounts": [one for one in accounts if one is not of_same_name] + [whole]}
