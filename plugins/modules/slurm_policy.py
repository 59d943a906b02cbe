#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Bring accounts and users of a SLURM cluster to what a site declares."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_policy
version_added: 0.1.0
short_description: Reconcile SLURM's accounts and users
author: deephdc.accelerators contributors (@deephdc)
description:
  - Registers the cluster with slurmdbd and adds the accounts and associations that are declared and missing,
    reading the whole state first. Nothing is ever removed. Runs on the controller, as root.
  - SLURM keeps names in small letters, so letter case makes no difference.
attributes:
  check_mode:
    description: Predicts what would be added. Where SLURM is not installed yet, everything.
    support: full
  diff_mode:
    description: Shows what is added.
    support: full
options:
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  accounts:
    description: The declared accounts; a parent comes before its children.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the account.
        type: str
        required: true
      description:
        description: What it is for.
        type: str
      parent:
        description: The account above it.
        type: str
        default: root
      users:
        description: Login names that may charge it. The first account of a user is the user's default.
        type: list
        elements: str
        default: []
"""

EXAMPLES = r"""
- name: Let two users compute
  deephdc.accelerators.slurm_policy:
    cluster: demo
    accounts:
      - name: physics
        users: [alice, bob]
"""

RETURN = r"""
added:
  description: What was added, or would be in check mode.
  type: list
  elements: str
  returned: always
  sample: ["account physics", "user alice in physics"]
"""

from ansible.module_utils.basic import AnsibleModule


def lines(module: AnsibleModule, *words: str) -> list[list[str]]:
    code, out, err = module.run_command(["sacctmgr", "--noheader", "--parsable2", "--readonly", *words])
    if code != 0:
        module.fail_json(msg=f"slurmdbd does not answer: {' '.join((err or out).split())}")
    return [line.split("|") for line in out.splitlines() if line]


def add(module: AnsibleModule, *words: str) -> None:
    code, out, err = module.run_command(["sacctmgr", "--immediate", "--quiet", "add", *words])
    if code != 0:
        module.fail_json(msg=f"slurmdbd refuses to add {' '.join(words)}: {' '.join((err or out).split())}")


def wanted(cluster: str, accounts: list[dict], clusters: set[str], associations: set[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """What is missing, as a description and the words of a sacctmgr command, in the order of their dependence."""
    found: list[tuple[str, list[str]]] = []
    # slurmdbd keeps names in small letters.
    present = {(account.lower(), user.lower()) for account, user in associations}
    if cluster not in clusters:
        found.append((f"cluster {cluster}", ["cluster", cluster]))
    for account in accounts:
        if (account["name"].lower(), "") not in present:
            present.add((account["name"].lower(), ""))
            words = ["account", account["name"], f"cluster={cluster}", f"parent={account['parent']}"]
            found.append((f"account {account['name']}", words + [f"description={account['description'] or account['name']}"]))
        for user in account["users"]:
            if (account["name"].lower(), user.lower()) not in present:
                present.add((account["name"].lower(), user.lower()))
                found.append((f"user {user} in {account['name']}", ["user", user, f"account={account['name']}", f"cluster={cluster}"]))
    return found


def main() -> None:
    account = {
        "name": {"type": "str", "required": True},
        "description": {"type": "str"},
        "parent": {"type": "str", "default": "root"},
        "users": {"type": "list", "elements": "str", "default": []},
    }
    module = AnsibleModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "accounts": {"type": "list", "elements": "dict", "default": [], "options": account},
        },
        supports_check_mode=True,
    )
    cluster, accounts = module.params["cluster"], module.params["accounts"]
    if module.check_mode and not module.get_bin_path("sacctmgr"):
        clusters, associations = set(), set()
    else:
        clusters = {row[0] for row in lines(module, "list", "cluster", "format=cluster")}
        associations = {(row[0], row[1]) for row in lines(module, "list", "associations", f"cluster={cluster}", "format=account,user")}
    changes = wanted(cluster, accounts, clusters, associations)
    if not module.check_mode:
        for _text, words in changes:
            add(module, *words)
    added = [text for text, _words in changes]
    module.exit_json(changed=bool(added), added=added, diff={"before": "", "after": "".join(f"{text}\n" for text in added)})


if __name__ == "__main__":
    main()
