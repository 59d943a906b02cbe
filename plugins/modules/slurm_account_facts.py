#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Read accounts, users, QOS and limits of a SLURM cluster in the form of a policy."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_account_facts
version_added: 0.1.0
short_description: Read SLURM's accounts, users, QOS and limits
author: deephdc.accelerators contributors (@deephdc)
description:
  - Reads what slurmdbd has, and returns it in the form of a policy. A site that has a cluster already can begin its policy with it.
    M(deephdc.accelerators.slurm_policy) with this policy changes nothing.
  - Settings that a policy can't declare are left out. Runs on the controller, as root.
extends_documentation_fragment: deephdc.accelerators.reads
attributes:
  facts:
    description: It adds the fact RV(ansible_facts.slurm_accounts).
    support: full
options:
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  usage:
    description: Also read what accounts and users have used, from slurmctld.
    type: bool
    default: false
seealso:
  - module: deephdc.accelerators.slurm_policy
"""

EXAMPLES = r"""
- name: Read the present accounts
  deephdc.accelerators.slurm_account_facts:
    cluster: demo

- name: Write them to a file as the beginning of a policy
  ansible.builtin.copy:
    content: "{{ ansible_facts.slurm_accounts.policy | to_nice_yaml }}"
    dest: policy.yml
    mode: "0644"
  delegate_to: localhost
"""

RETURN = r"""
ansible_facts:
  description: The fact.
  returned: always
  type: dict
  contains:
    slurm_accounts:
      description: Accounts and what belongs to them.
      type: dict
      returned: always
      contains:
        policy:
          description: Accounts with their users, and QOS, as the option O(deephdc.accelerators.slurm_policy#module:policy) takes them.
          type: dict
          returned: always
          sample: {"accounts": [{"name": "physics", "limits": {"gpus": 4}, "users": [{"name": "ada", "default": true}]}], "qos": []}
        usage:
          description: Usage by account and user (empty for the account itself), with O(usage).
          type: list
          elements: dict
          returned: with O(usage)
          sample:
            - {"account": "physics", "user": "ada", "fairshare_factor": 0.5, "used_share": 0.25, "gpu_minutes": 60, "cpu_minutes": 240}
"""

import re
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import associations as slurm_associations
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import sacctmgr

COLUMNS = "Account,User,EffectvUsage,FairShare,GrpTRESRaw"


def usage_of(output: str) -> list[dict[str, t.Any]]:
    """What `sshare --parsable2` printed.

    GrpTRESRaw is in minutes and decays with PriorityDecayHalfLife.
    """
    found = []
    for line in output.splitlines():
        if line.count("|") != 4:
            continue
        account, user, share, factor, tres = (part.strip() for part in line.split("|"))
        used = dict(re.findall(r"([^,=]+)=(\d+)", tres))
        found.append(
            {
                "account": account,
                "user": user,
                "fairshare_factor": float(factor) if factor else None,
                "used_share": float(share) if share else None,
                "gpu_minutes": int(used.get("gres/gpu", 0)),
                "cpu_minutes": int(used.get("cpu", 0)),
            }
        )
    return found


def main() -> None:
    module = AnsibleModule(
        argument_spec={"cluster": {"type": "str", "required": True}, "usage": {"type": "bool", "default": False}},
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    facts: dict[str, t.Any] = {"policy": slurm_associations.policy_of(sacctmgr.read(module, module.params["cluster"]))}
    if module.params["usage"]:
        code, out, err = module.run_command(["sshare", "--all", "--noheader", "--parsable2", f"--format={COLUMNS}"])
        if code != 0:
            module.fail_json(msg=f"slurmctld does not tell the usage: {sacctmgr.one_line(out, err)}")
        facts["usage"] = usage_of(out)
    module.exit_json(changed=False, ansible_facts={"slurm_accounts": facts})


if __name__ == "__main__":
    main()
