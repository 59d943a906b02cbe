#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Reconcile a SLURM cluster's accounts, users, QOS and limits."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_policy
version_added: 0.1.0
short_description: Reconcile SLURM's accounts, users, QOS and limits
author: deephdc.accelerators contributors (@deephdc)
description:
  - Reads everything from slurmdbd once, then adds what is declared and missing and changes what differs, many names per command.
    Runs on the controller, as root.
  - Anything not declared is left unchanged and reported in RV(undeclared), unless O(purge) is set.
  - Every declared QOS, and the QOS V(normal), gets the flag V(DenyOnLimit) unless it declares its flags. With this flag, SLURM refuses a
    request that exceeds a limit by itself at submission.
  - SLURM keeps names in lower case, so letter case makes no difference.
attributes:
  check_mode:
    description: Predicts every change. If SLURM is not installed or not configured yet, it predicts that everything is added.
    support: full
  diff_mode:
    description: Shows what is set before and after, in the words of sacctmgr.
    support: full
options:
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  policy:
    description:
      - The policy, with the keys V(accounts), V(qos) and V(partitions). docs/slurm_policy.md describes their keys.
      - A policy with a mistake is refused before slurmdbd is asked anything. V(partitions) is checked and otherwise not used here.
    type: dict
    default: {}
  purge:
    description:
      - Remove accounts, users, coordinators and QOS that the policy does not name, and take back settings that it does not name.
      - Nothing is removed while pending or running jobs need it. The account V(root), the user V(root) and the QOS V(normal) always stay.
      - Refused for a policy without accounts.
    type: bool
    default: false
seealso:
  - module: deephdc.accelerators.slurm_account_facts
"""

EXAMPLES = r"""
- name: Let two users compute, with at most four GPUs at a time
  deephdc.accelerators.slurm_policy:
    cluster: demo
    policy:
      accounts:
        - name: physics
          limits: {gpus: 4}
          users: [alice, bob]
"""

RETURN = r"""
added:
  description: What was added, or would be in check mode.
  type: list
  elements: str
  returned: always
  sample: ["account physics", "user alice in physics"]
updated:
  description: What was changed, or would be in check mode.
  type: list
  elements: str
  returned: always
  sample: ["QOS long"]
removed:
  description: What was removed by O(purge), or would be in check mode.
  type: list
  elements: str
  returned: always
kept:
  description: What was not removed although the policy does not name it, with the reason.
  type: list
  elements: str
  returned: always
  sample: ["account old: jobs in it are pending or running"]
closed:
  description: What was not removed yet, but takes no new jobs (its C(GrpSubmitJobs) is 0), so that it can be removed later.
  type: list
  elements: str
  returned: always
  sample: ["user bob in physics"]
undeclared:
  description: What exists and the policy does not name, and settings that the policy does not name of something that it names.
  type: list
  elements: str
  returned: always
  sample: ["user carol in physics", "account physics: GrpJobs=5"]
"""

import re

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import associations as slurm_associations
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import policy as slurm_policy
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import sacctmgr
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.associations import Job, Removal, State


def jobs(module: AnsibleModule) -> list[Job] | None:
    """The jobs that have not ended, None if the controller does not answer."""
    code, out, _err = module.run_command(["squeue", "--noheader", "--all", "--format=%a|%u|%q"])
    return [Job(*line.split("|")) for line in out.splitlines() if line.count("|") == 2] if code == 0 else None


def partition_qos(module: AnsibleModule) -> set[str] | None:
    """Return the QOS that the running controller's partitions name.

    Without them it would not start again. None means that it does not say.
    """
    code, out, _err = module.run_command(["scontrol", "--oneliner", "show", "partitions"])
    if code != 0 or "PartitionName=" not in out:
        return None
    return {name for value in re.findall(r" (?:QoS|AllowQos)=(\S+)", out) for name in value.lower().split(",")}


def removals(module: AnsibleModule, cluster: str, present: State, declared: State) -> list[Removal]:
    found = slurm_associations.removals(cluster, present, declared, [], ())
    if not found:
        return []
    pending_or_running = jobs(module)
    if pending_or_running is None:
        return [one._replace(why="slurmctld does not tell whether jobs need it") for one in found]
    return slurm_associations.removals(cluster, present, declared, pending_or_running, partition_qos(module))


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "policy": {"type": "dict", "default": {}},
            "purge": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    cluster, policy, purge = module.params["cluster"], module.params["policy"], module.params["purge"]
    wrong = slurm_policy.policy_errors("policy", policy)
    if purge and not policy.get("accounts"):
        wrong.append("purge with a policy that has no accounts would remove everybody: name the accounts, or leave purge out.")
    if wrong:
        module.fail_json(msg=" ".join(wrong))

    first = module.check_mode and not sacctmgr.can_ask(module, "sacctmgr")
    present = State() if first else sacctmgr.read(module, cluster)
    declared = slurm_associations.wanted(policy)
    plan = slurm_associations.plan(cluster, present, declared, purge)
    going = removals(module, cluster, present, declared) if purge else []
    removed = [one.what for one in going if not one.why]
    closed = [one.what for one in going if one.why and one.close]
    kept = [f"{one.what}: {one.why}" for one in going if one.why]
    if not module.check_mode:
        for words in plan.commands:
            refused = sacctmgr.change(module, words)
            if refused:
                module.fail_json(
                    msg=f"slurmdbd refuses '{' '.join(words)[:500]}': {refused[:1000]}. "
                    "What came before it is done; correct the policy and run again."
                )
        removed = []
        for one in going:
            if one.why:
                refused = sacctmgr.change(module, one.close) if one.close else ""
                if refused:
                    module.fail_json(msg=f"{one.what} can't be closed for new jobs: {refused[:300]}. Run again when this is repaired.")
                continue
            # A job may have come since they were read; slurmdbd then refuses, and the next run tries again.
            refused = sacctmgr.change(module, one.command)
            if refused:
                kept.append(f"{one.what}: slurmdbd refuses: {refused[:300]}")
                if one.close and not sacctmgr.change(module, one.close):
                    closed.append(one.what)
            else:
                removed.append(one.what)
    before = [*plan.before, *removed, *(f"{what} takes jobs" for what in closed)]
    after = [*plan.after, *(f"{what} takes no new job" for what in closed)]
    module.exit_json(
        changed=bool(plan.added or plan.changed or removed or closed),
        added=plan.added,
        updated=plan.changed,
        removed=removed,
        kept=kept,
        closed=closed,
        undeclared=[] if purge else plan.undeclared,
        diff={"before": "".join(f"{line}\n" for line in before), "after": "".join(f"{line}\n" for line in after)},
    )


if __name__ == "__main__":
    main()
