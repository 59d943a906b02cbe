#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Give each account of ZooKeeper its own folder, before another takes its name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: zookeeper_chroots
version_added: 0.1.0
short_description: Give each account of ZooKeeper its own folder
author: deephdc.accelerators contributors (@deephdc)
description:
  - Makes folders at the top of ZooKeeper with rights for one account each, and closes the top to all others.
  - Fails if another account has made one of the folders before, with other rights.
requirements:
  - kazoo 2.8 or newer (Debian's python3-kazoo)
attributes:
  check_mode:
    description: Predicts the change.
    support: full
  diff_mode:
    description: Shows the rights of each folder, without digests of secrets.
    support: full
options:
  servers:
    description: Addresses of the servers with their ports, separated by commas.
    type: str
    required: true
  accounts:
    description: The secret of each account.
    type: dict
    required: true
  chroots:
    description: The folders.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Path of the folder, such as V(/marathon).
        type: str
        required: true
      user:
        description: The account in O(accounts) that has all rights there.
        type: str
        required: true
      world:
        description: What all clients may do there, V(r) to read and list, or nothing.
        type: str
        choices: ["", r]
        default: ""
  root:
    description: The account that may make folders at the top later. Others can only list them.
    type: str
    required: true
  wait:
    description: Seconds to wait until the servers have a majority.
    type: float
    default: 60.0
"""

EXAMPLES = r"""
- name: Keep what Marathon writes from others
  deephdc.accelerators.zookeeper_chroots:
    servers: 192.0.2.1:2181
    accounts: "{{ {'marathon': secret} }}"
    root: marathon
    chroots:
      - {path: /marathon, user: marathon}
"""

RETURN = r"""
paths:
  description: The folders that were made, or got other rights.
  type: list
  elements: str
  returned: success
  sample: [/marathon]
"""

import traceback
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused

KAZOO_FAULT: str | None = None
try:
    from kazoo.client import KazooClient  # type: ignore[import-untyped,import-not-found,unused-ignore]  # because only hosts have it
    from kazoo.exceptions import KazooException, NoAuthError  # type: ignore[import-untyped,import-not-found,unused-ignore]  # because only hosts have it
    from kazoo.security import make_acl, make_digest_acl  # type: ignore[import-untyped,import-not-found,unused-ignore]  # because only hosts have it
except ImportError:
    KAZOO_FAULT = traceback.format_exc()

TOP = "/"


def rights(user: str, secret: str, world: str) -> list[Any]:
    """All rights for one account, and those of everybody."""
    return [make_digest_acl(user, secret, all=True), *([make_acl("world", "anyone", read=True)] if world == "r" else [])]


def shown(acls: list[Any]) -> str:
    """Rights in words, without digests."""
    parts = []
    for acl in acls:
        who = str(acl.id.id).split(":", 1)[0] if acl.id.scheme == "digest" else str(acl.id.id)
        parts.append("{} {}".format(who, "+".join(sorted(acl.acl_list))))
    return ", ".join(sorted(parts)) or "nothing"


def same(first: list[Any], second: list[Any]) -> bool:
    """Whether two lists give the same rights."""
    return sorted((acl.perms, acl.id.scheme, acl.id.id) for acl in first) == sorted((acl.perms, acl.id.scheme, acl.id.id) for acl in second)


def bring(client: Any, path: str, wanted: list[Any], is_dry: bool) -> tuple[str, str] | None:
    """Bring a folder to its rights.

    Return None where it has them, else the rights before and after.

    :raises Refused: another account has it.
    """
    if client.exists(path) is None:
        if not is_dry:
            client.create(path, b"", acl=wanted)
        return "nothing", shown(wanted)
    try:
        found = client.get_acls(path)[0]
        if same(found, wanted):
            return None
        if not is_dry:
            client.set_acls(path, wanted)
    except NoAuthError as error:
        raise Refused(
            f"ZooKeeper's {path} belongs to another account, or has a former secret: give that secret back, or remove {path} with "
            "what is in it."
        ) from error
    return shown(found), shown(wanted)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "servers": {"type": "str", "required": True},
            "accounts": {"type": "dict", "required": True, "no_log": True},
            "chroots": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "path": {"type": "str", "required": True},
                    "user": {"type": "str", "required": True},
                    "world": {"type": "str", "choices": ["", "r"], "default": ""},
                },
            },
            "root": {"type": "str", "required": True},
            "wait": {"type": "float", "default": 60.0},
        },
        supports_check_mode=True,
    )
    if KAZOO_FAULT:
        module.fail_json(msg=missing_required_lib("kazoo", reason="(the package python3-kazoo)"), exception=KAZOO_FAULT)
    given = module.params
    accounts = given["accounts"]
    missing = sorted({given["root"], *(one["user"] for one in given["chroots"])} - set(accounts))
    if missing:
        module.fail_json(msg="There is no secret for {}: add it to accounts.".format(", ".join(missing)))
    wanted = {one["path"]: rights(one["user"], accounts[one["user"]], one["world"]) for one in given["chroots"]}
    # Last, as the others are made there.
    wanted[TOP] = rights(given["root"], accounts[given["root"]], "r")
    changes: dict[str, tuple[str, str]] = {}
    client = KazooClient(given["servers"], auth_data=[("digest", f"{name}:{secret}") for name, secret in accounts.items()])
    try:
        client.start(timeout=given["wait"])
        for path, acls in wanted.items():
            change = bring(client, path, acls, module.check_mode)
            if change:
                changes[path] = change
    except Refused as refused:
        module.fail_json(msg=str(refused))
    except (KazooException, client.handler.timeout_exception) as error:
        said = str(error) or error.__class__.__name__
        module.fail_json(msg="ZooKeeper ({}) does not serve: {}. More than half of its servers must run.".format(given["servers"], said))
    finally:
        client.stop()
        client.close()
    module.exit_json(
        changed=bool(changes),
        paths=sorted(changes),
        diff={
            "before": "".join(f"{path}: {before}\n" for path, (before, _after) in sorted(changes.items())),
            "after": "".join(f"{path}: {after}\n" for path, (_before, after) in sorted(changes.items())),
        },
    )


if __name__ == "__main__":
    main()
