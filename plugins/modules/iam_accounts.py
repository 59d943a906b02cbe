#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Bring local accounts to what a plan from an IAM says, in one step."""

from __future__ import annotations

DOCUMENTATION = r"""
module: iam_accounts
version_added: 0.1.0
short_description: Create, enable and disable a host's accounts as planned from an IAM
author: deephdc.accelerators contributors (@deephdc)
description:
  - Creates, disables and enables any number of accounts, with their groups, home directories and SSH keys, in one module execution.
    C(systemd-sysusers) creates all accounts in one call. The filter C(iam_accounts_plan) computes the options.
  - Accounts that lost their access are disabled, and lose their keys, before any account is created.
  - Nothing is ever deleted. A disabled account is expired, has no login shell, no keys and none of the groups.
    Its number, files, processes and jobs stay.
  - An account, number or group that the host has from elsewhere is left alone and reported in RV(left).
  - Needs root.
attributes:
  check_mode:
    description: Predicts every change.
    support: full
  diff_mode:
    description: Shows accounts, memberships and keys that change, one line each.
    support: full
options:
  accounts:
    description: The accounts of the IAM's users, including those that lost their access.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Login name.
        type: str
        required: true
      uid:
        description: Number of the account, and of its own group.
        type: int
        required: true
      active:
        description: Whether the account may be used.
        type: bool
        required: true
      full_name:
        description: For the comment of a new account.
        type: str
        default: ""
      keys:
        description: SSH public keys, as type and base64.
        type: list
        elements: str
        default: []
  groups:
    description: The groups, with those of O(accounts) that must be members. Other members stay.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the local group.
        type: str
        required: true
      gid:
        description: Its number.
        type: int
        required: true
      members:
        description: Login names.
        type: list
        elements: str
        default: []
  home:
    description: Directory in which the home directories are.
    type: path
    default: /home
  make_homes:
    description: Create home directories that are missing, from C(/etc/skel).
    type: bool
    default: true
  shell:
    description: Login shell of accounts that are new or enabled again.
    type: path
    default: /bin/bash
  keys_directory:
    description: Directory for the keys, one file per account, owned by root. Files of users are never touched.
    type: path
    required: true
seealso:
  - module: deephdc.accelerators.iam_accounts_info
"""

EXAMPLES = r"""
- name: Keep an account that may log in, and disable one that no longer may
  deephdc.accelerators.iam_accounts:
    accounts:
      - {name: ada, uid: 20001, active: true, full_name: Ada Lovelace, keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJz..."]}
      - {name: eve, uid: 20002, active: false}
    groups:
      - {name: gpu, gid: 20000, members: [ada]}
    keys_directory: /etc/ssh/iam_keys
"""

RETURN = r"""
left:
  description: What was left alone because the host has it from elsewhere, with the reason.
  type: list
  elements: str
  returned: always
  sample: ["ada: the uid 20001 belongs to bob"]
"""

import errno
import grp
import os
import pwd
import shutil
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._iam import local as iam_local
from ansible_collections.deephdc.accelerators.plugins.module_utils._iam.local import Group, Steps, User

SKELETON = "/etc/skel"
SHADOW = "/etc/shadow"
ACCOUNT = {
    "name": {"type": "str", "required": True},
    "uid": {"type": "int", "required": True},
    "active": {"type": "bool", "required": True},
    "full_name": {"type": "str", "default": ""},
    # Public ones.
    "keys": {"type": "list", "elements": "str", "default": [], "no_log": False},
}
GROUP = {
    "name": {"type": "str", "required": True},
    "gid": {"type": "int", "required": True},
    "members": {"type": "list", "elements": "str", "default": []},
}


def users() -> dict[str, User]:
    with open(SHADOW, encoding="utf-8") as file:
        ends = iam_local.expiries(file.read())
    return {
        entry.pw_name: User(entry.pw_uid, entry.pw_gid, entry.pw_dir, entry.pw_shell, ends.get(entry.pw_name)) for entry in pwd.getpwall()
    }


def groups() -> dict[str, Group]:
    return {entry.gr_name: Group(entry.gr_gid, entry.gr_mem) for entry in grp.getgrall()}


def make(module: AnsibleModule, steps: Steps) -> None:
    if steps.made:
        code, out, err = module.run_command(["systemd-sysusers", "-"], data="".join(f"{line}\n" for line in steps.made))
        made = {entry.pw_name: entry.pw_uid for entry in pwd.getpwall()}
        wrong = [account["name"] for account in steps.present if made.get(account["name"]) != account["uid"]]
        if code != 0 or wrong:
            said = " ".join((err or out).split())[:500]
            module.fail_json(
                msg=f"systemd-sysusers did not make {', '.join(wrong[:5]) or 'all'} as planned ({said}): correct that, and run again."
            )


def run(module: AnsibleModule, commands: t.Iterable[list[str]]) -> None:
    for words in commands:
        code, out, err = module.run_command(words)
        if code != 0:
            said = " ".join((err or out).split())[:500]
            module.fail_json(msg=f"{words[0]} refuses to change {words[-1]}: {said}. Correct that, and run again.")


def homes(module: AnsibleModule, steps: Steps) -> None:
    """Make what is missing; what is there is its owner's business."""
    for account in steps.present:
        path, uid = account["home"], account["uid"]
        try:
            owner = os.lstat(path).st_uid
        except FileNotFoundError:
            steps.say("", f"home {path}")
            if not module.check_mode:
                make_home(path, uid, account["gid"])
            continue
        if owner != uid:
            steps.left.append(f"{account['name']}: the home {path} belongs to the uid {owner}")


def make_home(path: str, uid: int, gid: int) -> None:
    """It appears when it is whole, so that a killed run leaves no half one behind.

    Other hosts may make it at the same time where they share the directory.
    """
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, f".{name}.{os.uname().nodename}.iam_accounts")
    shutil.rmtree(temporary, ignore_errors=True)
    os.mkdir(temporary, 0o700)
    if os.path.isdir(SKELETON):
        shutil.copytree(SKELETON, temporary, symlinks=True, dirs_exist_ok=True)
    for where, directories, files in os.walk(temporary):
        for one in [*directories, *files]:
            os.chown(os.path.join(where, one), uid, gid, follow_symlinks=False)
    os.chmod(temporary, 0o700)
    os.chown(temporary, uid, gid)
    try:
        os.rename(temporary, path)
    except OSError as error:
        # Another host was first.
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        shutil.rmtree(temporary)


def keys(module: AnsibleModule, steps: Steps, directory: str) -> None:
    """One file per account.

    The user's own group may read it, as sshd reads it with the user's rights.
    """
    for account in steps.present:
        write_keys(module, steps, directory, account, "".join(f"{key}\n" for key in account["keys"]))


def remove_keys(module: AnsibleModule, steps: Steps, directory: str) -> None:
    for name in steps.gone:
        path = os.path.join(directory, name)
        if os.path.lexists(path):
            steps.say(f"keys of {name}", "")
            if not module.check_mode:
                os.unlink(path)


def write_keys(module: AnsibleModule, steps: Steps, directory: str, account: t.Mapping[str, t.Any], text: str) -> None:
    path = os.path.join(directory, account["name"])
    try:
        with open(path, encoding="utf-8") as file:
            now, status = file.read(), os.fstat(file.fileno())
            right = (status.st_uid, status.st_gid, status.st_mode & 0o777) == (0, account["gid"], 0o640)
    except FileNotFoundError:
        now, right = "", not text
    if now == text and right:
        return
    shown = [{f"key of {account['name']}: {key}" for key in content.splitlines()} for content in (now, text)]
    steps.say(
        "\n".join(sorted(shown[0] - shown[1])), "\n".join(sorted(shown[1] - shown[0])) or f"keys of {account['name']}: owner and mode"
    )
    if not module.check_mode:
        os.makedirs(directory, mode=0o755, exist_ok=True)
        temporary = os.path.join(directory, f".{account['name']}")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chown(temporary, 0, account["gid"])
        os.chmod(temporary, 0o640)
        os.rename(temporary, path)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "accounts": {"type": "list", "elements": "dict", "required": True, "options": ACCOUNT},
            "groups": {"type": "list", "elements": "dict", "required": True, "options": GROUP},
            "home": {"type": "path", "default": "/home"},
            "make_homes": {"type": "bool", "default": True},
            "shell": {"type": "path", "default": "/bin/bash"},
            "keys_directory": {"type": "path", "required": True, "no_log": False},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    given = module.params
    steps = iam_local.steps(users(), groups(), given["accounts"], given["groups"], given["home"], given["shell"])
    try:
        remove_keys(module, steps, given["keys_directory"])
        if not module.check_mode:
            run(module, steps.disabling)
            make(module, steps)
            run(module, steps.commands)
        keys(module, steps, given["keys_directory"])
        if given["make_homes"]:
            homes(module, steps)
    except OSError as error:
        module.fail_json(msg=f"{error.filename}: {error.strerror}. What came before it is done; correct that, and run again.")
    module.exit_json(
        changed=bool(steps.before or steps.after),
        left=steps.left,
        diff={"before": "".join(f"{line}\n" for line in steps.before), "after": "".join(f"{line}\n" for line in steps.after)},
    )


if __name__ == "__main__":
    main()
