#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Drain or resume nodes of a SLURM cluster for a person."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_node_drain
version_added: 0.1.0
short_description: Drain SLURM nodes and wait for their jobs, or resume them
author: deephdc.accelerators contributors (@deephdc)
description:
  - Drains nodes with a reason and waits for their jobs, or resumes nodes where that is possible.
    Runs on a host with SLURM's commands, as root.
  - No job is ended. Running jobs go on, also after the wait.
attributes:
  check_mode:
    description: Predicts which nodes would be drained or resumed, and returns their jobs without waiting for them.
    support: full
  diff_mode:
    description: Shows state and reason of each node that changes.
    support: full
options:
  nodes:
    description: SLURM's names of the nodes.
    type: list
    elements: str
    required: true
  state:
    description:
      - V(drained) nodes take no new jobs. A node that a person has drained already keeps its reason. One that the role
        gpu_hold holds, or that lost its hardware, gets a person's reason before theirs, so each gives back its own.
      - V(resumed) nodes take jobs again. A node that can't be resumed is named in RV(left) with the cause.
        A node that the role gpu_hold holds stays drained until that gives it back.
    type: str
    choices: [drained, resumed]
    required: true
  reason:
    description:
      - Why they are drained, one line. Needed for V(drained).
      - With O(state=resumed), nodes that are drained for another reason stay drained, and are named in RV(kept).
    type: str
  wait:
    description:
      - Seconds to wait until no job is on the drained nodes; 0 does not wait.
      - With O(state=resumed), seconds to wait until the nodes register with the controller, as after a reboot.
    type: float
    default: 0.0
  unfit:
    description:
      - Nodes that must not be resumed, and the cause for each name.
      - Without it nothing is known of the hardware, so a node that lost some stays drained for that.
    type: dict
  ignore_unknown:
    description: Skip nodes that the controller does not know, such as nodes that are removed already.
    type: bool
    default: false
seealso:
  - module: deephdc.accelerators.slurm_node_health
"""

EXAMPLES = r"""
- name: Drain two nodes for maintenance, and wait up to ten minutes for their jobs
  deephdc.accelerators.slurm_node_drain:
    nodes: [gpu1, gpu2]
    state: drained
    reason: new power supply
    wait: 600

- name: Resume both nodes
  deephdc.accelerators.slurm_node_drain:
    nodes: [gpu1, gpu2]
    state: resumed

- name: Resume both nodes after a reboot, unless they are drained for another reason
  deephdc.accelerators.slurm_node_drain:
    nodes: [gpu1, gpu2]
    state: resumed
    reason: new power supply
    wait: 300
"""

RETURN = r"""
changed_nodes:
  description: Nodes that were drained or resumed, or would be in check mode.
  type: list
  elements: str
  returned: always
  sample: [gpu1]
kept:
  description: One sentence for each node that stays drained for another reason.
  type: list
  elements: str
  returned: always
  sample: ["gpu2 was drained already and keeps its reason: fan is loud"]
left:
  description: One sentence for each node that can't be resumed.
  type: list
  elements: str
  returned: always
jobs:
  description: Jobs on the drained nodes, after the wait. C(end) is when the job's time limit ends, on the controller's clock.
  type: list
  elements: dict
  returned: always
  sample: [{"id": "17", "user": "ada", "nodes": ["gpu1"], "end": "2026-11-21T17:06:17"}]
told:
  description: The same jobs, in words.
  type: list
  elements: str
  returned: always
  sample: ["job 17 of ada on gpu1 until 2026-11-21T17:06:17 at the latest"]
nodes:
  description: State and reason of each of the nodes, as C(scontrol show nodes) prints them.
  type: dict
  returned: always
  sample: {"gpu1": {"state": "IDLE+DRAIN", "reason": "new power supply"}}
"""

import time
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import nodes as slurm_nodes
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.hostlist import fold


def ask(module: AnsibleModule, *words: str) -> str:
    code, out, err = module.run_command([*words])
    if code != 0:
        module.fail_json(msg=f"the controller does not answer {words[0]}: {' '.join((err or out).split())}")
    return out


def read(module: AnsibleModule) -> dict[str, dict[str, str]]:
    """The wanted nodes as the controller has them."""
    known = slurm_nodes.parse(ask(module, "scontrol", "--oneliner", "show", "nodes"))
    names = module.params["nodes"]
    unknown = [name for name in names if name not in known]
    if unknown and not module.params["ignore_unknown"]:
        module.fail_json(msg=f"SLURM knows no node {', '.join(unknown)}; it has {fold(list(known)) or 'none'}.")
    return {name: known[name] for name in names if name in known}


def heard(module: AnsibleModule) -> dict[str, dict[str, str]]:
    """Return the nodes when the controller hears of all that may be resumed.

    If the wait is over before that, return them then.
    """
    deadline = time.monotonic() + (0 if module.check_mode else module.params["wait"])
    while True:
        nodes = read(module)
        left = deadline - time.monotonic()
        coming = [node for node in nodes.values() if is_wanted(module, node) and not still_for(module, node)]
        if left <= 0 or not any(slurm_nodes.unheard(node) for node in coming):
            return nodes
        time.sleep(min(left, 2))


def is_wanted(module: AnsibleModule, node: dict[str, str]) -> bool:
    """Whether a node that is away may be given back, as far as its reason goes."""
    return not module.params["reason"] or slurm_nodes.is_for(node, module.params["reason"])


def still_for(module: AnsibleModule, node: dict[str, str]) -> str:
    """Return why a node that is given back stays away, or an empty text."""
    return slurm_nodes.without_mark(node, module.params["reason"] or "", module.params["unfit"] is not None)


def jobs_on(module: AnsibleModule, names: t.Collection[str]) -> list[slurm_nodes.Job]:
    if not names:
        return []
    words = ["squeue", "--noheader", f"--states={slurm_nodes.JOB_STATES}", f"--format={slurm_nodes.JOB_FORMAT}"]
    folded = fold(list(names))
    # Longer than this the kernel takes no argument (MAX_ARG_STRLEN).
    jobs = slurm_nodes.parse_jobs(ask(module, *words, *([f"--nodelist={folded}"] if len(folded) < 100_000 else [])))
    return [job for job in jobs if not set(names).isdisjoint(job["nodes"])]


def jobs_after(module: AnsibleModule, names: t.Collection[str]) -> list[slurm_nodes.Job]:
    """The jobs that are on the nodes when all have ended or the wait is over."""
    deadline = time.monotonic() + (0 if module.check_mode else module.params["wait"])
    while True:
        jobs = jobs_on(module, names)
        left = deadline - time.monotonic()
        if not jobs or left <= 0:
            return jobs
        time.sleep(min(left, 2))


def update(module: AnsibleModule, name: str, *settings: str) -> None:
    code, out, err = module.run_command(["scontrol", "update", f"NodeName={name}", *settings])
    if code != 0:
        module.fail_json(msg=f"the controller refuses {settings[0]} for {name}: {' '.join((err or out).split())}")


def still_away(name: str, reason: str) -> str:
    """What keeps a node away that was given back."""
    if reason.startswith(slurm_nodes.HOLD_MARK):
        return (
            f"{name} stays drained, because the role gpu_hold holds it ({reason}), and opens when that has ended. "
            "If nothing holds the host any more, give this reason to slurm_resume_reason."
        )
    return f"{name} stays drained, because there is another reason: {reason}"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "list", "elements": "str", "required": True},
            "state": {"type": "str", "choices": ["drained", "resumed"], "required": True},
            "reason": {"type": "str"},
            "wait": {"type": "float", "default": 0.0},
            "unfit": {"type": "dict"},
            "ignore_unknown": {"type": "bool", "default": False},
        },
        required_if=[("state", "drained", ["reason"])],
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    draining = module.params["state"] == "drained"
    before = read(module) if draining else heard(module)
    kept, left = [], []
    changing: dict[str, list[str]] = {}
    for name, node in before.items():
        if draining:
            reason = slurm_nodes.with_mark(node, module.params["reason"])
            if "DRAIN" in node["state"] and reason != node["reason"]:
                kept.append(f"{name} was drained already ({node['reason'] or 'no reason'}) and has this reason, too")
            elif "DRAIN" in node["state"] or not slurm_nodes.is_for({"reason": reason}, module.params["reason"]):
                how = "drained" if "DRAIN" in node["state"] else "down"
                kept.append(f"{name} was {how} already and keeps its reason: {node['reason'] or 'none'}")
            if "DRAIN" not in node["state"] or reason != node["reason"]:
                changing[name] = ["State=DRAIN", f"Reason={reason}"]
        elif slurm_nodes.in_service(node):
            continue
        elif not is_wanted(module, node):
            kept.append(f"{name} is away for another reason and stays so: {node['reason'] or 'none'}")
        elif still_for(module, node):
            reason = still_for(module, node)
            kept.append(still_away(name, reason))
            if reason != node["reason"]:
                changing[name] = [f"Reason={reason}"]
        else:
            cause = slurm_nodes.obstacle(name, node, (module.params["unfit"] or {}).get(name, ""))
            if cause:
                left.append(cause)
            else:
                changing[name] = ["State=RESUME"]
    if not module.check_mode:
        for name, settings in changing.items():
            update(module, name, *settings)
    jobs = jobs_after(module, before) if draining else []
    module.exit_json(
        changed=bool(changing),
        changed_nodes=list(changing),
        kept=kept,
        left=left,
        jobs=jobs,
        told=[slurm_nodes.job_sentence(job) for job in jobs],
        nodes=before if module.check_mode else read(module),
        diff={
            "before": "".join(f"{name} {before[name]['state']} {before[name]['reason']}\n" for name in changing),
            "after": "".join(f"{name} {' '.join(settings)}\n" for name, settings in changing.items()),
        },
    )


if __name__ == "__main__":
    main()
