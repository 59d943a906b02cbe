#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Make the directory of slurmctld's state and check that controllers share it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_state_directory
version_added: 0.1.0
short_description: Make the directory of slurmctld's state and check that controllers share it
author: deephdc.accelerators contributors (@deephdc)
description:
  - Makes the directory (C(StateSaveLocation)), for slurmctld's user alone, and checks that this user can write there.
  - Checks that several controllers share it, by a token that one of them writes and the others read.
  - Copies a state from another directory. Nothing is ever removed except what an unfinished copy by this module left.
  - Directories are used as slurmctld's user, because a shared file system may map root to the user C(nobody).
attributes:
  check_mode:
    description: Predicts whether the directory would be made or changed; writes no token and copies nothing.
    support: full
  diff_mode:
    description: Shows owner and mode.
    support: full
options:
  path:
    description: Absolute path of the directory.
    type: path
    required: true
  user:
    description: The user that slurmctld runs as.
    type: str
    default: slurm
  token:
    description: Text that one controller writes and the others must find there. Empty if there is only one controller.
    type: str
    default: ""
  token_of:
    description: Inventory name of the host that writes the O(token). Empty on that host itself.
    type: str
    default: ""
  patience:
    description: Seconds to wait until the file system shows here what another host wrote.
    type: float
    default: 10.0
  copy_from:
    description:
      - Directory whose state is copied to O(path). slurmctld must not run meanwhile. O(path) must have no state, except an unfinished copy
        by this module.
    type: path
seealso:
  - module: deephdc.accelerators.slurm_record_info
"""

EXAMPLES = r"""
- name: Check that both controllers share the directory
  deephdc.accelerators.slurm_state_directory:
    path: /srv/slurm/state
    token: "{{ token_of_this_run }}"
    token_of: "{{ '' if item == 'head1' else 'head1' }}"
  delegate_to: "{{ item }}"
  loop: [head1, head2]
"""

RETURN = r"""
copied:
  description: Whether a state was copied, or would be in check mode.
  type: bool
  returned: always
"""

import os
import pwd
import stat
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._host import safe_directory
from ansible_collections.deephdc.accelerators.plugins.module_utils._host.as_user import as_user
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import state as slurm_state

MODE = 0o700


def attributes(path: str) -> tuple[int, int] | None:
    """Owner and mode, None where there is nothing."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISDIR(found.st_mode):
        raise Refused(f"{path} is no directory")
    return found.st_uid, stat.S_IMODE(found.st_mode)


def make(path: str, user: str, entry: pwd.struct_passwd) -> None:
    try:
        safe_directory.give(path, entry.pw_uid, entry.pw_gid, MODE, make=True)
    except OSError as error:
        raise Refused(
            f"{path} can't be made on this host ({error.strerror}), as where a shared file system does not let root in: make it on "
            f"the file server, owned by the user {user} ({entry.pw_uid}) with mode 0700, then run again"
        ) from None


def write(path: str, name: str, text: str) -> None:
    """Write a file as a running slurmctld would.

    This also shows a full or read-only file system.
    """
    try:
        with open(os.path.join(path, name), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise Refused(
            f"slurmctld can't write in {path} on this host ({error.strerror}): mount its file system writable and with space"
        ) from None


def share(path: str, token: str, of: str, patience: float) -> None:
    """Write the token, or see the one that another host wrote."""
    if not of:
        write(path, slurm_state.SHARED, token)
        return
    write(path, f"{slurm_state.SHARED}_here", "")
    os.unlink(os.path.join(path, f"{slurm_state.SHARED}_here"))
    deadline = time.monotonic() + patience
    while slurm_state.read(os.path.join(path, slurm_state.SHARED)) != token:
        if time.monotonic() > deadline:
            raise Refused(
                f"{path} here is not the directory that {of} has under this path, so the controllers would not know each other's jobs: "
                "mount the same shared file system on both (slurm_controller_state_directory)"
            )
        time.sleep(0.2)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "user": {"type": "str", "default": "slurm"},
            "token": {"type": "str", "default": "", "no_log": False},
            "token_of": {"type": "str", "default": "", "no_log": False},
            "patience": {"type": "float", "default": 10.0},
            "copy_from": {"type": "path"},
        },
        supports_check_mode=True,
    )
    path, user, source = module.params["path"], module.params["user"], module.params["copy_from"]
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        if not module.check_mode:
            module.fail_json(msg=f"this host has no user {user}: install slurmctld first")
        entry = None  # the package that brings it is not installed yet
    try:
        found = attributes(path)
        right = found is not None and entry is not None and found == (entry.pw_uid, MODE)
        if not module.check_mode and entry:
            if not right:
                make(path, user, entry)
            with as_user(user):
                if module.params["token"]:
                    share(path, module.params["token"], module.params["token_of"], module.params["patience"])
                if source:
                    slurm_state.copy(source, path)
    except (Refused, safe_directory.UnsafeLink) as reason:
        module.fail_json(msg=f"{reason}.")
    except OSError as error:
        module.fail_json(msg=f"The state in {source} could not be copied to {path}: {error}.")
    before = "absent\n" if found is None else f"{found[0]} {found[1]:04o}\n"
    module.exit_json(
        changed=not right or bool(source),
        copied=bool(source),
        diff={"before_header": path, "after_header": path, "before": before, "after": before if right else f"{user} {MODE:04o}\n"},
    )


if __name__ == "__main__":
    main()
