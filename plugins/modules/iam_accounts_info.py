#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Read what a host's accounts are, for a plan from an IAM."""

from __future__ import annotations

DOCUMENTATION = r"""
module: iam_accounts_info
version_added: 0.1.0
short_description: Read which accounts and groups a host has
author: deephdc.accelerators contributors (@deephdc)
description:
  - Reads names and numbers of all users and groups that the host knows, and the record of accounts that come from an IAM.
  - Fails if a file that gives rights to names can't be read.
extends_documentation_fragment: deephdc.accelerators.reads
options:
  record:
    description: Path of the record, a file on the host.
    type: path
    required: true
seealso:
  - module: deephdc.accelerators.iam_accounts
"""

EXAMPLES = r"""
- name: Read what the host has
  deephdc.accelerators.iam_accounts_info:
    record: /var/lib/deephdc/iam_accounts.json
  register: seen
"""

RETURN = r"""
record:
  description: Text of the record, empty where there is none.
  type: str
  returned: always
users:
  description: Names and numbers, one user per line. It is one text, because thousands of values cost Ansible much time.
  type: str
  returned: always
  sample: "root:0\nada:20001\n"
groups:
  description: Names and numbers of the groups, one per line.
  type: str
  returned: always
  sample: "root:0\nada:20001\n"
claimed:
  description:
    - Names that have rights or work on the host already, whether or not they have an account, each with the file that says so.
    - They come from sudoers(5), subuid(5), subgid(5), crontab(5), sysusers.d(5), from those who may linger, and from members of groups in
      group(5) that have no account.
  type: str
  returned: always
  sample: "debian:/etc/sudoers.d/90-cloud-init-users\n"
sshd:
  description: Whether an SSH daemon runs as a service, which reads its configuration only when it starts.
  type: bool
  returned: always
sshd_configured:
  description: Whether an SSH daemon is installed and reads additional files of configuration.
  type: bool
  returned: always
"""

import grp
import os
import pwd

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._iam import claims

DROP_INS = "/etc/ssh/sshd_config.d"


def main() -> None:
    module = AnsibleModule(argument_spec={"record": {"type": "path", "required": True}}, supports_check_mode=True)
    try:
        with open(module.params["record"], encoding="utf-8") as file:
            record = file.read()
    except FileNotFoundError:
        record = ""
    except (OSError, UnicodeDecodeError):
        module.fail_json(msg=f"{module.params['record']} can't be read: repair it, or restore it from another host.")
    try:
        claimed = claims.claimed(users={entry.pw_name for entry in pwd.getpwall()})
    except OSError as error:
        module.fail_json(msg=f"{error.filename} can't be read ({error.strerror}), so it is not known whom it gives rights: repair it.")
    running = module.run_command(["systemctl", "is-active", "ssh.service"])[1].strip() == "active"
    module.exit_json(
        changed=False,
        record=record,
        users="".join(f"{entry.pw_name}:{entry.pw_uid}\n" for entry in pwd.getpwall()),
        groups="".join(f"{entry.gr_name}:{entry.gr_gid}\n" for entry in grp.getgrall()),
        claimed="".join(f"{name}:{path}\n" for name, path in claimed.items()),
        sshd=running,
        sshd_configured=os.path.isdir(DROP_INS),
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here


if __name__ == "__main__":
    main()
