#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Write a set of files in one module execution."""

from __future__ import annotations

DOCUMENTATION = r"""
module: file_set
version_added: 0.1.0
short_description: Write a set of files in one step
author: deephdc.accelerators contributors (@deephdc)
description:
  - Brings several files and directories to the wanted content, owner and mode in one module execution.
    Ten template tasks cost about twelve times as much.
  - Everything is compared and validated first; only if every file passes is anything written.
    Each file is replaced atomically and is never readable by others than its final mode allows.
  - A file without the words C(Made by deephdc.accelerators) was not made by this collection. It is kept beside the new one,
    with the suffix C(.before-deephdc).
  - A file whose content is right is not touched, so its modification time shows when it last changed
    (M(deephdc.accelerators.unit_fresh) relies on that).
attributes:
  check_mode:
    description: Predicts the change without making it.
    support: full
  diff_mode:
    description: Shows the change of each file that is not secret and that every user of the host may read.
    support: full
options:
  files:
    description: The wanted files, in order.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Absolute path on the host.
        type: path
        required: true
      state:
        description:
          - Whether the path must be a file, a directory, or absent.
          - V(former) removes a file that the collection made and restores the one that was there before it, if there was one.
            A file that an administrator has replaced since then stays.
        type: str
        choices: [file, directory, absent, former]
        default: file
      content:
        description: The text of the file, UTF-8.
        type: str
      secret_base64:
        description:
          - The bytes of the file in base64, instead of O(files[].content).
            They are kept out of logs, diffs and results.
        type: str
      owner:
        description: Name of the owner.
        type: str
        default: root
      group:
        description: Name of the group.
        type: str
        default: root
      mode:
        description: Octal mode as a string.
        type: str
        default: "0644"
      validate:
        description:
          - Command that must succeed before the file is replaced, V(%s) stands for the new content's path.
            It is split as a shell would, but run without one. Not run in check mode, where there is no new content to look at.
        type: str
      keep_former:
        description:
          - Whether the file that is replaced is kept until M(deephdc.accelerators.unit_fresh) has seen its unit run with the new one.
            If the unit does not, the former file is put back.
        type: bool
        default: false
seealso:
  - module: deephdc.accelerators.unit_fresh
"""

EXAMPLES = r"""
- name: Write the daemon's files
  deephdc.accelerators.file_set:
    files:
      - path: /etc/slurm
        state: directory
        mode: "0755"
      - path: /etc/slurm/cgroup.conf
        content: "ConstrainDevices=yes\n"
      - path: /etc/slurm/old.conf
        state: absent
"""

RETURN = r"""
paths:
  description: The paths that were changed, or would be in check mode.
  type: list
  elements: str
  returned: always
  sample: [/etc/slurm/cgroup.conf]
undo:
  description:
    - A value for O(files) that takes the change back. It leaves out directories, links, secret files and files that not every
      user could read.
  type: list
  elements: dict
  returned: always
  sample: [{"path": "/etc/slurm/cgroup.conf", "state": "absent"}]
"""

import base64
import binascii
import contextlib
import grp
import os
import pwd
import shlex
import stat
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._host import former, safe_directory
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused

FILE_OPTIONS = {
    "path": {"type": "path", "required": True},
    "state": {"type": "str", "choices": ["file", "directory", "absent", "former"], "default": "file"},
    "content": {"type": "str"},
    "secret_base64": {"type": "str", "no_log": True},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str", "default": "root"},
    "mode": {"type": "str", "default": "0644"},
    "validate": {"type": "str"},
    "keep_former": {"type": "bool", "default": False},
}


# In the first line of every file that the collection writes.
MARK = b"Made by deephdc.accelerators"


def wanted_bytes(item: dict) -> bytes:
    if item["secret_base64"] is not None:
        try:
            return base64.b64decode(item["secret_base64"], validate=True)
        except (binascii.Error, ValueError):
            raise Refused(f"the secret content of {item['path']} is not valid base64") from None
    if item["content"] is None:
        raise Refused(f"{item['path']} has neither content nor secret_base64")
    return item["content"].encode("utf-8")


def attributes(item: dict) -> tuple[int, int, int]:
    """Owner id, group id and mode that the item wants."""
    try:
        return pwd.getpwnam(item["owner"]).pw_uid, grp.getgrnam(item["group"]).gr_gid, octal(item["mode"])
    except KeyError:
        raise Refused(f"{item['path']} shall belong to {item['owner']}:{item['group']}, but this host has no such user or group") from None
    except ValueError:
        raise Refused(f"the mode {item['mode']} of {item['path']} is not octal") from None


def attributes_mode(item: dict) -> int:
    try:
        return octal(item["mode"])
    except ValueError:
        raise Refused(f"the mode {item['mode']} of {item['path']} is not octal") from None


def octal(mode: str) -> int:
    if not 0 <= int(mode, 8) <= 0o7777:
        raise ValueError(mode)
    return int(mode, 8)


def current(path: str) -> tuple[str, bytes, tuple[int, int, int]] | None:
    """Kind, content and attributes of what is at a path, None if nothing is."""
    name = os.path.basename(path)
    try:
        with safe_directory.opened(os.path.dirname(path)) as directory:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            content = read(name, directory) if stat.S_ISREG(status.st_mode) else b""
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise Refused(f"a part of the path {path} is a file, not a directory") from None
    found = (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode))
    if stat.S_ISDIR(status.st_mode):
        return "directory", b"", found
    return ("file", content, found) if stat.S_ISREG(status.st_mode) else ("other", b"", found)


def read(name: str, directory: int) -> bytes:
    with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory), "rb") as file:
        return file.read()


def text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def shown(found: tuple[str, bytes, tuple[int, int, int]]) -> str:
    """What a diff may show of a file.

    A file that not every user of the host may read may have secrets.
    """
    return text(found[1]) if found[2][2] & stat.S_IROTH else "(not shown)\n"


def compare(item: dict, known_owner: bool) -> dict | None:
    """What must be done for one item: None where it is as wanted."""
    path, state = item["path"], item["state"]
    found = current(path)
    if state == "absent":
        if found is None:
            return None
        if found[0] == "directory":
            raise Refused(f"{path} shall be absent but is a directory, which this module does not remove")
        return {"item": item, "found": found, "before": shown(found), "after": ""}
    if found is not None and state != "former" and found[0] != state:
        raise Refused(f"{path} shall be a {state} but is something else")
    if state == "former":
        kept = current(kept_beside(path))
        gone = found is None or (found[0] == "file" and MARK in found[1])
        if not gone or (found is None and kept is None):
            return None
        return {"item": item, "found": found, "before": shown(found) if found else "", "after": shown(kept) if kept else ""}
    content = b"" if state == "directory" else wanted_bytes(item)
    if found is not None and found[1] == content and (not known_owner or found[2] == attributes(item)):
        return None
    header = header_of(attributes(item) if known_owner else None, item)
    if item["secret_base64"] is not None:
        return {"item": item, "found": found, "content": content, "before": "(secret)\n" if found else "", "after": header + "(secret)\n"}
    before = header_of(found[2], item) + shown(found) if found else ""
    after = text(content) if attributes_mode(item) & stat.S_IROTH else "(not shown)\n"
    return {"item": item, "found": found, "content": content, "before": before, "after": header + after}


def header_of(found: tuple[int, int, int] | None, item: dict) -> str:
    """Owner and mode as the first line of a diff.

    As the item has them where the owner has no account yet.
    """
    if found is None:
        return f"{item['owner']}:{item['group']} {attributes_mode(item):04o}\n"
    owner, group = (
        name_of(lambda: pwd.getpwuid(found[0]).pw_name, str(found[0])),
        name_of(lambda: grp.getgrgid(found[1]).gr_name, str(found[1])),
    )
    return f"{owner}:{group} {found[2]:04o}\n"


def undoable(change: dict) -> bool:
    """Return whether the result may show how to take a change back.

    It may not if the file was secret before or is now.
    """
    item, found = change["item"], change["found"]
    if item["state"] == "directory" or item["secret_base64"] is not None:
        return False
    return found is None or (found[0] == "file" and bool(found[2][2] & stat.S_IROTH))


def name_of(look_up: t.Callable[[], str], default: str) -> str:
    try:
        return look_up()
    except KeyError:
        return default


def undo(change: dict) -> dict:
    """The item that brings back what was there.

    An owner whose account is gone can't be named.
    """
    item, found = change["item"], change["found"]
    if found is None:
        return {"path": item["path"], "state": "absent"}
    return {
        "path": item["path"],
        "state": "file",
        "content": text(found[1]),
        "owner": name_of(lambda: pwd.getpwuid(found[2][0]).pw_name, item["owner"]),
        "group": name_of(lambda: grp.getgrgid(found[2][1]).gr_name, item["group"]),
        "mode": f"{found[2][2]:04o}",
    }


def beside(path: str) -> str:
    """The temporary file for new content.

    Its name is always the same, so that the next run cleans up what a killed one left.
    """
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}.file_set")


def remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError), safe_directory.opened(os.path.dirname(path)) as directory:
        os.unlink(os.path.basename(path), dir_fd=directory)


def rename(path: str, new: str) -> None:
    """Give a file another name in its directory."""
    with safe_directory.opened(os.path.dirname(path)) as directory:
        os.rename(os.path.basename(path), os.path.basename(new), src_dir_fd=directory, dst_dir_fd=directory)


def stage(change: dict, temporary: str) -> None:
    """Write the new content, with its final owner as soon as it is complete.

    Whoever owns the directory can't lead that elsewhere.
    """
    with safe_directory.opened(os.path.dirname(temporary), make=True) as directory:
        name = os.path.basename(temporary)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=directory)
    with os.fdopen(handle, "wb") as file:
        file.write(change["content"])
        file.flush()
        owner, group, mode = attributes(change["item"])
        os.fchown(file.fileno(), owner, group)
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


def validate(module: AnsibleModule, change: dict, temporary: str) -> None:
    item = change["item"]
    if item["validate"] is None:
        return
    command = [part.replace("%s", temporary) for part in shlex.split(item["validate"])]
    code, out, err = module.run_command(command)
    if code != 0:
        said = " ".join((err or out).replace(temporary, item["path"]).split())
        raise Refused(f"{item['path']} was left as it was, because the new content was refused: {said}")


def write(module: AnsibleModule, changes: list[dict]) -> None:
    for change in changes:
        if change["item"]["state"] in ("file", "directory"):
            attributes(change["item"])  # refuses unknown owners before anything is written
    staged: list[tuple[dict, str]] = []
    made: list[str] = []
    try:
        for change in changes:
            path = change["item"]["path"]
            if change["item"]["state"] == "directory" and not os.path.isdir(path):
                with safe_directory.opened(path, make=True):
                    made.append(path)
            elif change["item"]["state"] == "file":
                temporary = beside(path)
                staged.append((change, temporary))
                stage(change, temporary)
                validate(module, change, temporary)
        for change in changes:
            if change["item"]["state"] == "directory":
                safe_directory.give(change["item"]["path"], *attributes(change["item"]))
        made = []
        while staged:
            change, temporary = staged[0]
            keep_foreign(change)
            if change["item"]["keep_former"]:
                former.keep(change["item"]["path"])
            rename(temporary, change["item"]["path"])
            staged.pop(0)
        for change in changes:
            if change["item"]["state"] == "absent":
                remove(change["item"]["path"])
            elif change["item"]["state"] == "former":
                bring_back(change["item"]["path"])
    finally:
        for _change, temporary in staged:
            remove(temporary)
        for path in reversed(made):
            os.rmdir(path)


def kept_beside(path: str) -> str:
    return path + ".before-deephdc"


def bring_back(path: str) -> None:
    """Put what was kept in the place of our file, or remove that where nothing was."""
    if os.path.lexists(kept_beside(path)):
        rename(kept_beside(path), path)
    else:
        remove(path)


def keep_foreign(change: dict) -> None:
    """Keep a file that the collection did not write, once, beside the new one."""
    path, found = change["item"]["path"], change["found"]
    kept = kept_beside(path)
    if change["item"]["secret_base64"] is None and found and MARK not in found[1] and not os.path.lexists(kept):
        with safe_directory.opened(os.path.dirname(path)) as directory:
            os.link(os.path.basename(path), os.path.basename(kept), src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)


def main() -> None:
    module = AnsibleModule(
        argument_spec={"files": {"type": "list", "elements": "dict", "required": True, "options": FILE_OPTIONS}},
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    try:
        # In check mode the package that brings the owner may not be installed yet.
        found = [compare(item, known_owner=not module.check_mode or known(item)) for item in module.params["files"]]
        changes = [change for change in found if change is not None]
        undoing = [undo(change) for change in changes if undoable(change)]
        if not module.check_mode:
            write(module, changes)
    except (Refused, safe_directory.UnsafeLink) as reason:
        module.fail_json(msg=str(reason))
    except OSError as error:
        module.fail_json(msg=f"{error.filename or 'the files can not be written'}: {error.strerror}")
    diff = [
        {"before_header": c["item"]["path"], "after_header": c["item"]["path"], "before": c["before"], "after": c["after"]} for c in changes
    ]
    module.exit_json(changed=bool(changes), paths=[change["item"]["path"] for change in changes], undo=undoing, diff=diff)


def known(item: dict) -> bool:
    try:
        attributes(item)
    except Refused:
        return False
    return True


if __name__ == "__main__":
    main()
