#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Check that a host's munge believes a credential of another host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: munge_trust
version_added: 0.1.0
short_description: Check that hosts accept each other's munge credentials
author: deephdc.accelerators contributors (@deephdc)
description:
  - Makes a credential on one host, or decodes it on another. Fails if the other host does not accept it. The message names
    the cause, such as another key or a clock that is wrong. SLURM's own messages do not name these causes.
  - Changes nothing. Runs as root.
attributes:
  check_mode:
    description: Checks nothing, because a run in check mode has not installed the key yet.
    support: full
  diff_mode:
    description: Nothing changes.
    support: none
options:
  credential:
    description: What this module returned on the host O(of). Without it, a credential is made.
    type: str
    default: ""
  of:
    description: Inventory name of the host that made the credential, for the message.
    type: str
    default: the other host
"""

EXAMPLES = r"""
- name: Make a credential
  deephdc.accelerators.munge_trust:
  delegate_to: head
  register: made
  run_once: true

- name: Decode the credential on all hosts
  deephdc.accelerators.munge_trust:
    credential: "{{ made.credential }}"
    of: head
"""

RETURN = r"""
credential:
  description:
    - The credential that was made. Empty if one was decoded, and in check mode.
      Only root can decode it. It is for the user C(nobody), and it expires.
  type: str
  returned: always
"""

import re

from ansible.module_utils.basic import AnsibleModule

EXPIRED = 15
REWOUND = 16
REPLAYED = 17  # decoded before on this machine: it is believed


def refusal(code: int, output: str, of: str) -> str:
    """Why a credential was not believed, from what unmunge said, with the remedy."""
    if code in (EXPIRED, REWOUND):
        times = re.findall(r"^(?:EN|DE)CODE_TIME:.*\((\d+)\)", output, re.MULTILINE)
        seconds = int(times[1]) - int(times[0]) if len(times) == 2 else 0
        way = "ahead of" if code == EXPIRED else "behind"
        return (
            f"The clock of this host is {abs(seconds)} s {way} that of {of}, too far for munge: "
            "set it right (timedatectl, chrony), then run again."
        )
    if "Invalid credential" in output:
        return f"The munge key of this host is not that of {of}: run the playbook with the tag munge, which installs the cluster's key."
    if "Failed to access" in output or "Failed to connect" in output:
        return "munge does not run on this host: run the playbook with the tag munge."
    return f"munge does not believe a credential of {of}: {' '.join(output.split()) or f'unmunge ended with {code}'}"


def main() -> None:
    module = AnsibleModule(
        argument_spec={"credential": {"type": "str", "default": "", "no_log": True}, "of": {"type": "str", "default": "the other host"}},
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    credential = module.params["credential"]
    if module.check_mode:
        module.exit_json(changed=False, credential="")
    if not credential:
        code, out, err = module.run_command(["munge", "--no-input", "--uid=nobody", "--restrict-uid=root"])
        if code != 0:
            module.fail_json(msg=f"munge makes no credential here: {' '.join(err.split())}. Run the playbook with the tag munge.")
        module.exit_json(changed=False, credential=out.strip())
    code, out, err = module.run_command(["unmunge"], data=credential)
    if code not in (0, REPLAYED):
        module.fail_json(msg=refusal(code, out + err, module.params["of"]))
    module.exit_json(changed=False, credential="")


if __name__ == "__main__":
    main()
