#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Drain unfit nodes of a SLURM cluster and resume the ones that recovered."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_node_health
version_added: 0.1.0
short_description: Drain unfit SLURM nodes and resume recovered ones
author: deephdc.accelerators contributors (@deephdc)
description:
  - Drains nodes whose hardware differs from the configuration, with a reason that names the device. Resumes nodes
    that were drained for such a reason once they are fit again. Runs on a host with SLURM's commands, as root.
  - Resumes nodes that SLURM set down because they did not answer, as SLURM does not resume such a node by itself.
  - A node that an administrator drained, or that SLURM drained for another cause, stays as it is.
attributes:
  check_mode:
    description: Predicts which nodes would be drained and resumed. Does nothing where SLURM is not installed or not configured yet.
    support: full
  diff_mode:
    description: Shows state and reason of each node that changes.
    support: full
options:
  unfit:
    description: Nodes to drain, and the reason for each name. A node that is drained already keeps its reason.
    type: dict
    default: {}
  fit:
    description: Names of nodes whose hardware is as configured and whose slurmd runs.
    type: list
    elements: str
    default: []
  unsure:
    description:
      - Why it is not known whether a node's devices are well, by name. A node of O(fit) that was drained for its devices stays drained
        then.
    type: dict
    default: {}
  registered_within:
    description: Seconds to wait until the nodes of O(fit) register with the controller.
    type: float
    default: 0.0
seealso:
  - module: deephdc.accelerators.gpu_facts
"""

EXAMPLES = r"""
- name: Drain a node that lost a GPU
  deephdc.accelerators.slurm_node_health:
    unfit:
      gpu1: "a100 at 0000:41:00.0 (/dev/nvidia1) is missing"
    fit: [gpu2, gpu3]
"""

RETURN = r"""
drained:
  description: Nodes that were drained.
  type: list
  elements: str
  returned: always
resumed:
  description: Nodes that were resumed.
  type: list
  elements: str
  returned: always
kept:
  description: Nodes that stay drained, as it is not known whether their devices are well, with the reason.
  type: dict
  returned: always
  sample: {}
nodes:
  description: State and reason of every node, as C(scontrol show nodes) has them.
  type: dict
  returned: always
  sample: {"gpu1": {"state": "IDLE+DRAIN", "reason": "accelerators: a100 at 0000:41:00.0 (/dev/nvidia1) is missing"}}
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.nodes import MARK, given_up, missing, ours, parse, with_mark
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.sacctmgr import can_ask


def read(module: AnsibleModule) -> dict[str, dict[str, str]]:
    code, out, err = module.run_command(["scontrol", "--oneliner", "show", "nodes"])
    if code != 0:
        module.fail_json(msg=f"the controller does not tell its nodes: {' '.join((err or out).split())}")
    return parse(out)


def wait(module: AnsibleModule, names: list[str]) -> dict[str, dict[str, str]]:
    """The nodes' states once all named ones have registered."""
    deadline = time.monotonic() + module.params["registered_within"]
    while True:
        nodes = read(module)
        late = missing(nodes, names) if module.params["registered_within"] else []
        if not late:
            return nodes
        if time.monotonic() > deadline:
            module.fail_json(
                msg=f"The controller has not heard of {', '.join(late)}: look at 'journalctl -u slurmd' there "
                "(the usual causes are another munge key, a clock that is off, or a firewall before port 6817 or 6818)."
            )
        time.sleep(0.3)


def update(module: AnsibleModule, node: str, *settings: str) -> None:
    code, out, err = module.run_command(["scontrol", "update", f"NodeName={node}", *settings])
    said = " ".join((err or out).split())
    if code != 0 and "Invalid node state" in said:
        module.fail_json(
            msg=f"SLURM does not resume {node} ({said}), because its slurmd registered other devices than the configuration has: "
            "look at 'slurmd -C' and the log of slurmd there, restart slurmd, then run again."
        )
    if code != 0:
        module.fail_json(msg=f"the controller refuses {settings[0]} for {node}: {said}")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "unfit": {"type": "dict", "default": {}},
            "fit": {"type": "list", "elements": "str", "default": []},
            "unsure": {"type": "dict", "default": {}},
            "registered_within": {"type": "float", "default": 0.0},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    unfit, fit = module.params["unfit"], [name for name in module.params["fit"] if name not in module.params["unfit"]]
    if module.check_mode and not can_ask(module, "scontrol"):
        module.exit_json(changed=False, drained=[], resumed=[], kept={}, nodes={})

    nodes = read(module)
    drain = [name for name in unfit if name in nodes and "DRAIN" not in nodes[name]["state"]]
    resume = [name for name in fit if name in nodes and (("DRAIN" in nodes[name]["state"] and ours(nodes[name])) or given_up(nodes[name]))]
    # A tool that gives no answer says nothing good either.
    unsure = module.params["unsure"]
    kept = {name: f"{nodes[name]['reason']}, and {unsure[name]}" for name in resume if name in unsure and ours(nodes[name])}
    resume = [name for name in resume if name not in kept]
    before = {name: dict(nodes[name]) for name in drain + resume}
    if not module.check_mode:
        for name in drain:
            # A person's reason for DOWN stays: a repaired GPU is not what the person waits for.
            update(module, name, "State=DRAIN", f"Reason={with_mark(nodes[name], MARK + unfit[name])}")
        for name in resume:
            update(module, name, "State=RESUME")
        nodes = wait(module, fit)
        invalid = [name for name in fit if name in nodes and "INVAL" in nodes[name]["state"]]
        if invalid and module.params["registered_within"]:
            told = "; ".join(f"{name}: {nodes[name]['reason'] or 'no reason given'}" for name in invalid)
            module.fail_json(msg=f"SLURM finds other hardware than the configuration has ({told}): look at 'slurmd -C' there.")
    module.exit_json(
        changed=bool(drain or resume),
        drained=drain,
        resumed=resume,
        kept=kept,
        nodes=nodes,
        diff={
            "before": "".join(f"{name} {node['state']} {node['reason']}\n" for name, node in before.items()),
            "after": "".join(f"{name} DRAIN {MARK}{unfit[name]}\n" for name in drain) + "".join(f"{name} RESUME\n" for name in resume),
        },
    )


if __name__ == "__main__":
    main()
