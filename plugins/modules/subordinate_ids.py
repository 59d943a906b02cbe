#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Give users ids for the users inside of their containers."""

from __future__ import annotations

DOCUMENTATION = r"""
module: subordinate_ids
version_added: 0.1.0
short_description: Give users subordinate ids for rootless containers
author: deephdc.accelerators contributors (@deephdc)
description:
  - Adds a range of ids per user to C(/etc/subuid) and C(/etc/subgid), which rootless containers need.
  - A user's range follows from the user's id alone, so each host of a cluster gives the same one, and no two users share one.
  - The module only adds ranges. A user who has a range, such as one from C(useradd), keeps it, because the files of existing containers
    belong to it.
attributes:
  check_mode:
    description: Predicts the change without making it.
    support: full
  diff_mode:
    description: Shows the lines that are added.
    support: full
options:
  users:
    description: Names of users that exist on the host.
    type: list
    elements: str
    required: true
  first:
    description: First id of the range of the user with the id O(first_uid).
    type: int
    required: true
  first_uid:
    description: Smallest id of a user.
    type: int
    default: 1000
  count:
    description: Ids per user.
    type: int
    default: 65536
"""

EXAMPLES = r"""
- name: Let ada and emmy run rootless containers
  deephdc.accelerators.subordinate_ids:
    users: [ada, emmy]
    first: 700000000
"""

RETURN = r"""
ranges:
  description: The range of each user as computed from the id, even if the user keeps another one from before.
  type: dict
  returned: always
  sample: {"ada": "765601536-765667071"}
"""

import os
import pwd
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._host.subordinate_ids import ranges, with_ranges
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused

FILES = ("/etc/subuid", "/etc/subgid")


def read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def ids_of(users: list[str]) -> dict[str, int]:
    found = {}
    for user in users:
        try:
            found[user] = pwd.getpwnam(user).pw_uid
        except KeyError:
            raise Refused(f"This host has no user {user}: make the account first, or leave it out.") from None
    return found


def replace(module: AnsibleModule, path: str, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=module.tmpdir)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(temporary, 0o644)
    module.atomic_move(temporary, path)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "users": {"type": "list", "elements": "str", "required": True},
            "first": {"type": "int", "required": True},
            "first_uid": {"type": "int", "default": 1000},
            "count": {"type": "int", "default": 65536},
        },
        supports_check_mode=True,
    )
    try:
        uids = ids_of(module.params["users"])
        wanted = ranges(uids, module.params["first"], module.params["first_uid"], module.params["count"])
        before = {path: read(path) for path in FILES}
        after = {path: with_ranges(text, wanted, uids) for path, text in before.items()}
    except Refused as reason:
        module.fail_json(msg=str(reason))
    changes = [path for path in FILES if after[path] != before[path]]
    if not module.check_mode:
        for path in changes:
            replace(module, path, after[path])
    module.exit_json(
        changed=bool(changes),
        ranges={user: f"{ids.start}-{ids.stop - 1}" for user, ids in wanted.items()},
        diff=[{"before_header": path, "after_header": path, "before": before[path], "after": after[path]} for path in changes],
    )


if __name__ == "__main__":
    main()
