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
FREE = dict.fromkeys(STOPPED, "unlimited")


def members(given: t.Sequence[t.Mapping[str, t.Any]], record: t.Any) -> dict[str, t.Any]:
    """Return the users of the policy, and the record for the next run.

    :param given: the users of the template, as the filter tosca_users makes them.
    :param record: what the last run kept, with C(users), all names so far, and C(left), those once left out; empty before the first.
    :raises Refused: the record is damaged.
    """
    before = {key: record.get(key, []) for key in ("users", "left")} if isinstance(record, t.Mapping) else {}
    if not before or not all(isinstance(names, list) and all(isinstance(one, str) for one in names) for names in before.values()):
        raise Refused("The record of the users of the deployment is damaged: bring it back from a backup.")
    now = [str(one["name"]) for one in given]
    left = sorted({*before["left"], *before["users"]} - set(now))
    back = [name for name in before["left"] if name in now]
    users: list[t.Any] = [{"name": name, "limits": FREE} if name in back else name for name in now]
    return {
        "users": users + [{"name": name, "limits": STOPPED} for name in left],
        "record": {"users": sorted({*before["users"], *now}), "left": sorted({*before["left"], *left})},
    }
