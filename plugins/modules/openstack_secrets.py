#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Keep the secrets that the parts of a cloud share."""

from __future__ import annotations

DOCUMENTATION = r"""
module: openstack_secrets
version_added: 0.1.0
short_description: Keep the secrets that the parts of a cloud share
author: deephdc.accelerators contributors (@deephdc)
description:
  - Makes each missing secret from 32 bytes of the kernel's random numbers, and returns all secrets. Use it with C(no_log).
  - A secret whose file is removed is made again, so the next run rolls out a new one.
attributes:
  check_mode:
    description: Makes no file. A missing secret is returned as an example.
    support: full
  diff_mode:
    description: Secrets are never shown.
    support: none
options:
  path:
    description: Directory with a file for each secret, which only root can read.
    type: path
    required: true
  names:
    description: Names of the secrets.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Read the secrets of the cloud
  deephdc.accelerators.openstack_secrets:
    path: /etc/deephdc/openstack/secrets
    names: [database_nova, messaging_nova]
  no_log: true
  register: secrets
"""

RETURN = r"""
secrets:
  description: The secrets by name.
  type: dict
  returned: success
"""

import os
import re
import secrets as random

from ansible.module_utils.basic import AnsibleModule

SECRET = re.compile(r"[!-~]{16,512}")


def read(path: str) -> str | None:
    """The secret in a file, None where there is no file.

    :raises ValueError: what is there is no secret.
    """
    try:
        with open(path, encoding="ascii") as file:
            text = file.read().strip()
    except FileNotFoundError:
        return None
    if not SECRET.fullmatch(text):
        raise ValueError(f"The secret {path} is damaged: restore it, or remove it so that the next run makes a new one.")
    return text


def write(path: str, secret: str) -> None:
    """Write a file that is complete or not there."""
    new = f"{path}.new"
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o400), "w", encoding="ascii") as file:
        file.write(secret + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "names": {"type": "list", "elements": "str", "required": True, "no_log": False},
        },
        supports_check_mode=True,
    )
    folder = module.params["path"]
    found: dict[str, str] = {}
    changed = False
    try:
        if not module.check_mode:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            os.chmod(folder, 0o700)
        for name in module.params["names"]:
            secret = read(os.path.join(folder, name))
            if secret is None:
                secret, changed = random.token_hex(32), True
                if not module.check_mode:
                    write(os.path.join(folder, name), secret)
            found[name] = secret
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, secrets=found)


if __name__ == "__main__":
    main()
