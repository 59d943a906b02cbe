#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""See that a user's program outside of a job can't open GPUs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_access_probe
version_added: 0.1.0
short_description: Check that a user's program outside of a job can't open GPUs
author: deephdc.accelerators contributors (@deephdc)
description:
  - Starts a program in the control groups where users' programs run, and tries to open each device there. Fails if one opens.
    It tries the slice of a user that does not exist, a service that is new, and some services that are there.
  - The program runs under a number that no account has. It may ignore the modes of files, so that only the control group can deny it.
  - Needs systemd and root, and C(setpriv) of util-linux. Makes no account and no file. The program ends by itself, also when the module
    is killed.
attributes:
  check_mode:
    description: Tries the devices too, as it changes nothing.
    support: full
  diff_mode:
    description: Changes nothing.
    support: none
options:
  files:
    description: Device files that must not open.
    type: list
    elements: path
    required: true
  units:
    description: Services that start users' programs, tried where each runs.
    type: list
    elements: str
    default: [cron.service, atd.service, ssh.service]
seealso:
  - module: deephdc.accelerators.slurm_gpu_probe
"""

EXAMPLES = r"""
- name: Check that the GPUs are closed outside of jobs
  deephdc.accelerators.gpu_access_probe:
    files: [/dev/nvidia0, /dev/nvidia1]
"""

RETURN = r"""
denied:
  description: Where all devices were denied.
  type: list
  elements: str
  returned: success
  sample: ["a user's unit", a new service, cron.service]
not_tried:
  description: What could not be tried on this host, with the reason.
  type: list
  elements: str
  returned: success
  sample: ["atd.service: it does not run here"]
text:
  description: The same in one line.
  type: str
  returned: success
  sample: "GPUs are closed in a user's unit and a new service and cron.service; not tried: atd.service: it does not run here"
"""

import json
import os
import pwd
import sys

from ansible.module_utils.basic import AnsibleModule

CGROUPS = "/sys/fs/cgroup"
SECONDS = "10"
# Prints what opening each device gives: "opens", or the name of the error. ENXIO is a device without a driver that was let through.
PROGRAM = """
import errno, json, os, sys
seen = {}
for path in sys.argv[1:]:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        seen[path] = "opens"
    except OSError as error:
        seen[path] = "opens" if error.errno == errno.ENXIO else errno.errorcode.get(error.errno, str(error.errno))
print(json.dumps(seen))
"""


class NotTried(Exception):
    """Something that this host lacks; the text says what."""


def stranger() -> int:
    """A number that no account has."""
    used = {entry.pw_uid for entry in pwd.getpwall()}
    return next(number for number in range(60900, 60000, -1) if number not in used)


def as_stranger(module: AnsibleModule, number: int) -> list[str]:
    """What runs the program under that number.

    The file's mode must not be what denies it.
    """
    setpriv = module.get_bin_path("setpriv")
    if not setpriv:
        raise NotTried("this host has no setpriv (package util-linux)")
    capability = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
    return [setpriv, f"--reuid={number}", f"--regid={number}", "--clear-groups", *capability, sys.executable, "-c", PROGRAM]


def answer(code: int, out: str, err: str) -> dict[str, str]:
    try:
        return dict(json.loads(out.strip().splitlines()[-1]))
    except (IndexError, ValueError):
        said = " ".join((err or out).split())
        raise NotTried(f"the program did not run there: {said or f'exit code {code}'}") from None


def in_new_unit(module: AnsibleModule, where: str, number: int, files: list[str]) -> dict[str, str]:
    """In a slice, such as that of a user.

    The units of a lingering user and all sessions are there.
    """
    run = module.get_bin_path("systemd-run")
    if not run:
        raise NotTried("this host has no systemd-run")
    options = ["--quiet", "--collect", "--wait", "--pipe", f"--slice={where}", f"--property=RuntimeMaxSec={SECONDS}"]
    return answer(*module.run_command([run, *options, *as_stranger(module, number), *files]))


def directory_of(module: AnsibleModule, unit: str) -> str:
    """The control group of a service that runs, in the hierarchy that denies devices."""
    group = module.run_command(["systemctl", "show", "-P", "ControlGroup", unit])[1].strip()
    for directory in (f"{CGROUPS}/devices{group}", f"{CGROUPS}{group}"):
        if group and os.path.exists(os.path.join(directory, "cgroup.procs")):
            return directory
    raise NotTried("it does not run here")


def in_service(module: AnsibleModule, unit: str, number: int, files: list[str]) -> dict[str, str]:
    """Where a service starts the programs of users."""
    enter = 'echo $$ >"$1/cgroup.procs" && shift && exec timeout "$@"'
    words = ["sh", "-c", enter, "sh", directory_of(module, unit), SECONDS, *as_stranger(module, number), *files]
    return answer(*module.run_command(words))


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "list", "elements": "path", "required": True},
            "units": {"type": "list", "elements": "str", "default": ["cron.service", "atd.service", "ssh.service"]},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    # A device that is lost is named elsewhere.
    files, number = [path for path in module.params["files"] if os.path.exists(path)], stranger()
    denied: list[str] = []
    not_tried: list[str] = []
    opens: list[str] = []
    new = {"a user's unit": f"user-{number}.slice", "a new service": "system.slice"}
    for place in [*new, *module.params["units"]] if files else []:
        try:
            seen = in_new_unit(module, new[place], number, files) if place in new else in_service(module, place, number, files)
        except NotTried as reason:
            not_tried.append(f"{place}: {reason}")
            continue
        opened = [path for path, result in seen.items() if result == "opens"]
        odd = [f"{path}: {result}" for path, result in seen.items() if result not in ("opens", "EPERM")]
        if opened:
            opens.append(f"{place} ({', '.join(opened)})")
        elif odd:
            not_tried.append(f"{place}: {', '.join(odd)}")
        else:
            denied.append(place)
    if opens:
        module.fail_json(
            msg=f"Users' programs outside of jobs can open GPUs here, in {' and in '.join(opens)}: run with the tag gpu_access, and look "
            "for files in /etc/systemd/system that set DevicePolicy for these units, and in gpu_access_services for their names. "
            "For ssh.service: install libpam-systemd, without which logins are no sessions."
        )
    text = f"GPUs are closed in {' and '.join(denied)}" if denied else "whether GPUs are closed outside of jobs was not seen"
    text += f"; not tried: {'; '.join(not_tried)}" if not_tried else ""
    module.exit_json(changed=False, denied=denied, not_tried=not_tried, text=text)


if __name__ == "__main__":
    main()
