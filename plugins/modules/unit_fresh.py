#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Keep a systemd unit running on what lies on disk."""

from __future__ import annotations

DOCUMENTATION = r"""
module: unit_fresh
version_added: 0.1.0
short_description: Keep a systemd unit running on its newest configuration
author: deephdc.accelerators contributors (@deephdc)
description:
  - Starts the unit if it does not run, and restarts it if its files on disk are newer than what it runs with.
    A handler is lost when a run is killed between the change and the restart. This comparison is not.
  - A unit is stale if one of O(files) was modified after its main process started, or if one of O(copies) has wrong content.
    It is also stale if the program on disk was replaced, as by a package upgrade.
  - Unit files that changed are loaded first, and the unit is enabled at boot.
  - A unit that ends again at once is not running. Where M(deephdc.accelerators.file_set) kept the former file of one of O(files)
    and the unit does not run with the new one, the former file is put back, the unit is restarted on it, and the module fails.
  - For a unit without a process, such as a timer, only its unit files and those of the unit that it starts are compared.
attributes:
  check_mode:
    description: Predicts whether the unit would be started or restarted. A unit that does not exist yet counts as stopped.
    support: full
  diff_mode:
    description: Not needed, the result names the reasons.
    support: none
options:
  name:
    description: Name of the unit. V(.service) may be left out.
    type: str
    required: true
  files:
    description: Files that the unit reads at its start. Files that do not exist are skipped.
    type: list
    elements: path
    default: []
  copies:
    description:
      - Files that the unit itself keeps as copies of what another host sent it, and the SHA-256 (hexadecimal) that each path must have.
    type: dict
    default: {}
  settle:
    description:
      - Seconds that a running unit gets to renew its O(copies) by itself before it is restarted.
    type: float
    default: 0.0
  ready:
    description:
      - Command that succeeds once the unit serves. It is tried until it does, even if nothing had to be restarted,
        because an earlier run may have been killed while it waited.
    type: list
    elements: str
  listens:
    description:
      - Addresses that take connections once the unit serves, C(HOST:PORT) or the path of a Unix socket. Each is tried like O(ready).
    type: list
    elements: str
    default: []
  reload:
    description:
      - Whether the unit reads changed O(files) when it is reloaded, so that it need not be restarted.
        A unit whose last reload failed is reloaded again.
    type: bool
    default: false
  log:
    description: The unit's own log file. An error message quotes its last lines, as the journal may not have the cause.
    type: path
  ready_timeout:
    description: Seconds in which the unit must be ready.
    type: float
    default: 60.0
seealso:
  - module: deephdc.accelerators.file_set
  - module: ansible.builtin.systemd_service
"""

EXAMPLES = r"""
- name: Keep slurmctld on its newest configuration
  deephdc.accelerators.unit_fresh:
    name: slurmctld
    files: [/etc/slurm/slurm.conf]
    ready: [scontrol, ping]

- name: Keep Apache on its newest configuration without ending connections
  deephdc.accelerators.unit_fresh:
    name: apache2
    files: [/etc/apache2/apache2.conf]
    reload: true
"""

RETURN = r"""
name:
  description: The unit.
  type: str
  returned: success
  sample: slurmctld
action:
  description: What was done, or would be in check mode. V(start), V(restart), V(reload), V(enable) or V(none).
  type: str
  returned: always
  sample: restart
reasons:
  description: Why, one sentence each.
  type: list
  elements: str
  returned: always
  sample: ["/etc/slurm/slurm.conf is newer than the running process"]
"""

import glob
import hashlib
import os
import re
import socket
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._host import former, safe_directory, service_file

PROPERTIES = (
    "LoadState,ActiveState,UnitFileState,NeedDaemonReload,DropInPaths,ExecMainPID,ExecMainStartTimestampMonotonic,"
    "StateChangeTimestampMonotonic,ReloadResult"
)

CONNECT_SECONDS = 2
UNIT_FILES = "/etc/systemd/system"
END = 2**16  # bytes of a log that are looked at
LEFT_OVER = re.compile(r"Found left-over process|This usually indicates unclean termination|remains running after unit stopped")


def show(module: AnsibleModule, unit: str) -> dict[str, str]:
    out = module.run_command(["systemctl", "show", "-p", PROPERTIES, unit], check_rc=True)[1]
    state = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    if unit.endswith((".timer", ".socket", ".path")):  # what such a unit starts is a part of it
        triggered = module.run_command(["systemctl", "show", "-P", "Triggers", unit], check_rc=True)[1].split()
        if triggered and "yes" in module.run_command(["systemctl", "show", "-P", "NeedDaemonReload", *triggered], check_rc=True)[1].split():
            state["NeedDaemonReload"] = "yes"
    return state


def unread(unit: str, state: dict[str, str]) -> bool:
    """Whether systemd has not read the unit's files.

    It does not notice the first drop-in of a unit that it knows already.
    """
    name = unit if "." in unit else f"{unit}.service"
    known = state.get("DropInPaths", "").split()
    dropins = glob.glob(f"{UNIT_FILES}/{name}.d/*.conf")
    return state["NeedDaemonReload"] == "yes" or (state["LoadState"] == "loaded" and not set(dropins) <= set(known))


def wrong_copies(copies: dict[str, str]) -> list[str]:
    reasons = []
    for path, wanted in copies.items():
        try:
            with open(path, "rb") as file:
                digest = hashlib.sha256(file.read()).hexdigest()
        except OSError:
            reasons.append(f"{path} is missing")
            continue
        if digest != wanted:
            reasons.append(f"{path} is not the current one")
    return reasons


def settled_copies(copies: dict[str, str], seconds: float) -> list[str]:
    deadline = time.monotonic() + seconds
    reasons = wrong_copies(copies)
    while reasons and time.monotonic() < deadline:
        time.sleep(0.2)
        reasons = wrong_copies(copies)
    return reasons


def read_its_files(state: dict[str, str], by_reload: bool) -> float:
    """Return when a running unit read its files, by the monotonic clock.

    So a stepped clock moves it with the files' clock.
    """
    moment = int(state["ExecMainStartTimestampMonotonic"])
    if by_reload and state.get("ReloadResult", "success") == "success":
        # The last change of state of a unit that runs was its start or the end of a reload.
        moment = max(moment, int(state.get("StateChangeTimestampMonotonic") or 0))
    return time.time() - (time.monotonic() - moment / 1e6)


def stale(state: dict[str, str], files: list[str], by_reload: bool) -> list[str]:
    """Why a running unit is out of date with its files."""
    if "ExecMainPID" not in state:
        return []  # a timer or socket has no process
    read = read_its_files(state, by_reload)
    return [f"{path} is newer than the running process" for path in files if os.path.isfile(path) and os.stat(path).st_mtime > read]


def replaced(state: dict[str, str]) -> list[str]:
    """Whether a running unit's program is still the one on disk."""
    try:
        if os.readlink(f"/proc/{state['ExecMainPID']}/exe").endswith(" (deleted)"):
            return ["its program was replaced on disk"]
    except (KeyError, OSError):
        pass  # no main process, or one that just ended: ActiveState shows it
    return []


def end_of(log: str, since: float) -> str:
    """Return the last four lines of a log file that was written since.

    The directory may be a service's own.
    """
    try:
        with service_file.opened(log) as file:
            status = os.fstat(file.fileno())
            if status.st_mtime < int(since):
                return ""
            file.seek(max(0, status.st_size - END))
            return "\n".join(file.read(END).decode("utf-8", "replace").splitlines()[-4:])
    except (OSError, ValueError, safe_directory.UnsafeLink):
        return ""


def last_words(module: AnsibleModule, unit: str, since: float) -> str:
    """The last lines of the unit's log file, or else of its journal.

    Lines about processes that a unit leaves on purpose, such as tasks of users, are left out: they would hide the cause.
    """
    command = ["journalctl", "-u", unit, "-n", "200", "-o", "cat", "--no-pager", "--since", f"@{int(since)}"]
    out = end_of(module.params["log"] or "", since) or module.run_command(command)[1]
    lines = [line.strip() for line in out.splitlines() if line.strip() and not LEFT_OVER.search(line)]
    return " | ".join(lines[-8:])


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "files": {"type": "list", "elements": "path", "default": []},
            "copies": {"type": "dict", "default": {}},
            "settle": {"type": "float", "default": 0.0},
            "ready": {"type": "list", "elements": "str"},
            "listens": {"type": "list", "elements": "str", "default": []},
            "reload": {"type": "bool", "default": False},
            "log": {"type": "path"},
            "ready_timeout": {"type": "float", "default": 60.0},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    unit = module.params["name"]
    state = show(module, unit)
    if state["LoadState"] == "masked":
        module.fail_json(msg=f"the unit {unit} is masked; run 'systemctl unmask {unit}' if that was not on purpose")
    if state["LoadState"] == "not-found" and not module.check_mode:
        module.fail_json(msg=f"this host has no unit {unit}")

    began = time.time()
    running = state["ActiveState"] in ("active", "reloading")
    reasons = ["it does not run"]
    by_files: list[str] = []
    if running:
        by_files = stale(state, module.params["files"], module.params["reload"])
        reasons = replaced(state)
        if not by_files and not reasons:
            reasons = settled_copies(module.params["copies"], 0 if module.check_mode else module.params["settle"])
        if unread(unit, state):
            reasons.append("its unit files changed")
    action = None
    if reasons:
        action = "restart" if running else "start"
    elif by_files:
        action = "reload" if module.params["reload"] else "restart"
    reasons = by_files + reasons
    enable = state["UnitFileState"] in ("disabled", "")
    if enable:
        reasons.append("it was not enabled")

    if not module.check_mode:
        if unread(unit, state):
            module.run_command(["systemctl", "daemon-reload"], check_rc=True)
        if enable:
            module.run_command(["systemctl", "enable", unit], check_rc=True)
        error = do(module, unit, action) if action else ""
        if error:
            give_up(module, unit, f"{unit} does not {action}: {last_words(module, unit, began) or error}", action, reasons)
        problem = not_ready(module, unit, action)
        if problem:
            give_up(module, unit, f"{unit} {problem}; its last words: {last_words(module, unit, began)}", action, reasons)
        for path in module.params["files"]:
            former.forget(path)
    module.exit_json(changed=bool(action or enable), name=unit, action=action or ("enable" if enable else "none"), reasons=reasons)


def do(module: AnsibleModule, unit: str, action: str) -> str:
    """Start, restart or reload a unit; return what systemctl says if that fails."""
    module.run_command(["systemctl", "reset-failed", unit])  # a unit that hit its start limit would not be tried
    code, _out, err = module.run_command(["systemctl", action, unit])
    return (err.strip() or f"systemctl ended with {code}") if code != 0 else ""


def refused(address: str) -> str:
    """Why an address takes no connection, empty if it does."""
    is_socket = address.startswith("/")
    host, _sign, port = address.rpartition(":")
    try:
        with socket.socket(socket.AF_UNIX if is_socket else socket.AF_INET6 if ":" in host else socket.AF_INET) as client:
            client.settimeout(CONNECT_SECONDS)
            client.connect(address if is_socket else (host.strip("[]"), int(port)))
    except (OSError, ValueError) as error:
        return f"{address}: {error}"
    return ""


def lives_on(module: AnsibleModule, unit: str) -> bool:
    """Whether a started unit still has the same process a second later.

    Some units answer before they fail.
    """
    before = show(module, unit)
    if "ExecMainPID" not in before:
        return True  # a timer or socket has no process
    time.sleep(1)
    state = show(module, unit)
    return state["ActiveState"] == "active" and state["ExecMainPID"] == before["ExecMainPID"]


def not_ready(module: AnsibleModule, unit: str, action: str | None) -> str:
    """Wait for a unit; return what is wrong with it, or an empty text."""
    ready, listens = module.params["ready"], module.params["listens"]
    is_asked = bool(ready or listens)
    if not is_asked and action is None:
        return ""
    deadline = time.monotonic() + module.params["ready_timeout"]
    while True:
        code, out, err = module.run_command(ready) if ready else (0, "", "")
        silent = [refusal for refusal in map(refused, listens) if refusal] if code == 0 else []
        if silent:
            code, out, err = 1, "", silent[0]
        if code == 0 and (action is None or lives_on(module, unit)):
            return ""
        state = module.run_command(["systemctl", "show", "-p", "SubState", unit])[1]
        # A unit that died is not waited for; systemd would try it again and again.
        died = not is_asked or "auto-restart" in state or "failed" in state
        if died or time.monotonic() > deadline:
            said = " ".join((err or out).split())
            return "ended again" if died else f"is not ready after {module.params['ready_timeout']:g} s ({said})"
        time.sleep(0.3)


def give_up(module: AnsibleModule, unit: str, message: str, action: str | None, reasons: list[str]) -> None:
    """Put back what the unit ran with before, and fail."""
    back = [path for path in module.params["files"] if former.bring_back(path)]
    if back:
        # Of a unit file that is older than the one it replaces systemd does not say that it has to be read.
        module.run_command(["systemctl", "daemon-reload"])
        again = "restart" if action in (None, "start") else action
        left = do(module, unit, again) or not_ready(module, unit, again)
        message += f". The former {' and '.join(back)} is back, "
        message += f"but {unit} does not run with it either: {left}" if left else f"and {unit} runs with it"
    module.fail_json(msg=message, action=action or "none", reasons=reasons)


if __name__ == "__main__":
    main()
