# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Who is, was and is again a user of a deployment's SLURM: pure functions.

A record says whom the deployment itself let submit jobs. Of nobody else anything is taken away.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused

# As for users of an IAM: running jobs go on, and no new one comes.
STOPPED = {"jobs": 0, "submitted_jobs": 0}
# SLURM's account of all users of a deployment.
ACCOUNT = "users"
FREE = dict.fromkeys(STOPPED, "unlimited")


def members(given: t.Sequence[t.Mapping[str, t.Any]], record: t.Any, policy: t.Any) -> dict[str, t.Any]:
    """Return the policy of SLURM, and the record: as it is to be kept before the policy is in force, and after that.

    :param given: the users of the template, as the filter tosca_users makes them.
    :param record: what the last run kept, with C(users), all names so far, and C(left), those whose limits may be those of who left.
    :param policy: C(slurm_cluster_policy) of the template's settings. Its account of the same name has the users, too.
    :raises Refused: the record is damaged.
    """
    before = {key: record.get(key, []) for key in ("users", "left")} if isinstance(record, t.Mapping) else {}
    if not before or not all(isinstance(names, list) and all(isinstance(one, str) for one in names) for names in before.values()):
        raise Refused("The record of the users of the deployment is damaged: bring it back from a backup.")
    now = [str(one["name"]) for one in given]
    left = sorted({*before["left"], *before["users"]} - set(now))
    back = [name for name in before["left"] if name in now]
    users: list[t.Any] = [{"name": name, "limits": FREE} if name in back else name for name in now]
    users += [{"name": name, "limits": STOPPED} for name in left]
    known = sorted({*before["users"], *now})
    return {
        "policy": _with_account(policy, users),
        "before": {"users": known, "left": sorted({*left, *back})},
        # Limits that an administrator gives to who came back stay.
        "after": {"users": known, "left": left},
    }


def _with_account(policy: t.Any, users: list[t.Any]) -> t.Any:
    accounts = (policy.get("accounts") or []) if isinstance(policy, t.Mapping) else None
    if not isinstance(accounts, list) or not all(isinstance(one, t.Mapping) for one in accounts):
        return policy  # which the playbook refuses in its own words
    of_same_name = next((one for one in accounts if one.get("name") == ACCOUNT), {"name": ACCOUNT})
    own = of_same_name.get("users") or []
    if not isinstance(own, list):
        return policy
    named = {one.get("name") if isinstance(one, t.Mapping) else one for one in own}
    whole = {**of_same_name, "users": own + [one for one in users if (one if isinstance(one, str) else one["name"]) not in named]}
    return {**policy, "accounts": [one for one in accounts if one is not of_same_name] + [whole]}
