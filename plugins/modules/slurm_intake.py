#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Keep new jobs from parts of a SLURM cluster while its configuration changes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_intake
version_added: 0.1.0
short_description: Keep new jobs from partitions and nodes while the configuration changes
author: deephdc.accelerators contributors (@deephdc)
description:
  - Closes partitions and nodes before a run looks whether they have jobs, so that none comes between the look and the change.
    Runs on a controller, as root. No running job is ended.
  - What was closed is noted first. V(open) opens all of it again, also what a killed run left, and removes the note.
    What an administrator closed before is neither noted nor opened.
attributes:
  check_mode:
    description: Predicts what would be closed or opened.
    support: full
  diff_mode:
    description: Not needed, the result names what changes.
    support: none
options:
  state:
    description: Whether to close what is named, or to open what was closed.
    type: str
    choices: [closed, open]
    required: true
  partitions:
    description: Partitions to close. New jobs are refused there (V(INACTIVE)).
    type: list
    elements: str
    default: []
  all_partitions:
    description: Close all partitions. New jobs are taken and wait (V(DOWN)).
    type: bool
    default: false
  nodes:
    description: SLURM's names of nodes to drain.
    type: list
    elements: str
    default: []
  note:
    description: The file that names what is closed.
    type: path
    default: /var/lib/deephdc/slurm_closed
seealso:
  - module: deephdc.accelerators.slurm_node_drain
"""

EXAMPLES = r"""
- name: Keep new jobs from a partition that goes
  deephdc.accelerators.slurm_intake:
    state: closed
    partitions: [old]

- name: Open again what is left of it
  deephdc.accelerators.slurm_intake:
    state: open
"""

RETURN = r"""
closed:
  description: Partitions and nodes that were closed or opened, or would be in check mode.
  type: list
  elements: str
  returned: success
  sample: ["partition old", "node gpu1"]
"""

import json
import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._host import safe_directory
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import nodes as slurm_nodes

REASON = f"{slurm_nodes.INTAKE_MARK} takes the node out of the configuration"
FIRST_LINE = "# Made by deephdc.accelerators: closed to new jobs by a run of the playbook slurm, which opens it again.\n"


def scontrol(module: AnsibleModule, *words: str) -> str:
    code, out, err = module.run_command(["scontrol", *words])
    if code != 0:
        module.fail_json(msg=f"scontrol {' '.join(words)}: {' '.join((err or out).split())}")
    return out


def partitions(module: AnsibleModule) -> dict[str, str]:
    """The state of each partition."""
    found = {}
    for line in scontrol(module, "--oneliner", "show", "partitions").splitlines():
        fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if "PartitionName" in fields:
            found[fields["PartitionName"]] = fields.get("State", "")
    return found


def nodes(module: AnsibleModule) -> dict[str, dict[str, str]]:
    return slurm_nodes.parse(scontrol(module, "--oneliner", "show", "nodes"))


def read_note(path: str) -> dict[str, str]:
    """What was closed, by its kind and name.

    The value is the state that it got and, of a partition, the one that it had.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return dict(json.loads(file.read().partition("\n")[2]))
    except FileNotFoundError:
        return {}


def write_note(path: str, closed: dict[str, str]) -> None:
    """Replace the note, at once and for good; without content, remove it."""
    with safe_directory.opened(os.path.dirname(path), make=True) as directory:
        name = os.path.basename(path)
        if not closed:
            os.unlink(name, dir_fd=directory)
            return
        handle = os.open(f".{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644, dir_fd=directory)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(FIRST_LINE + json.dumps(closed))
            file.flush()
            os.fsync(file.fileno())
        os.rename(f".{name}", name, src_dir_fd=directory, dst_dir_fd=directory)


def may_take_jobs(node: dict[str, str]) -> bool:
    """Whether jobs come to a node, or would if it registered again."""
    by_slurm = slurm_nodes.DOWN.search(node["state"]) and slurm_nodes.SLURM_DOWN.match(node["reason"]) and "DRAIN" not in node["state"]
    return bool(slurm_nodes.in_service(node) or by_slurm)


def close(module: AnsibleModule) -> dict[str, str]:
    """Close what is open of what is named; what was closed."""
    there = partitions(module)
    wanted = dict.fromkeys(module.params["partitions"], "INACTIVE")
    if module.params["all_partitions"]:
        wanted = {**dict.fromkeys(there, "DOWN"), **wanted}
    # A partition that is DOWN still takes jobs, which wait in it.
    open_states = {"INACTIVE": ("UP", "DOWN"), "DOWN": ("UP",)}
    noted = {name: state.partition(" ")[2] for name, state in read_note(module.params["note"]).items()}
    closing = {}
    for name, state in wanted.items():
        if there.get(name) in open_states[state]:
            # What a killed run closed had another state before.
            closing[f"partition {name}"] = f"{state} {noted.get(f'partition {name}') or there[name]}"
    known = nodes(module) if module.params["nodes"] else {}
    # No job comes to one that is away already, and who took it away has a reason. One that slurmctld does not hear of returns by itself.
    draining = [name for name in module.params["nodes"] if name in known and may_take_jobs(known[name])]
    closing.update({f"node {name}": "DRAIN" for name in draining})
    if closing and not module.check_mode:
        write_note(module.params["note"], {**read_note(module.params["note"]), **closing})
        for thing, state in closing.items():
            kind, _blank, name = thing.partition(" ")
            if kind == "node":
                scontrol(module, "update", f"NodeName={name}", "State=DRAIN", f"Reason={REASON}")
            else:
                scontrol(module, "update", f"PartitionName={name}", f"State={state.split()[0]}")
    return closing


def reopen(module: AnsibleModule) -> dict[str, str]:
    """Open what was closed and still is as it was left."""
    noted = read_note(module.params["note"])
    there = partitions(module) if noted else {}
    known = nodes(module) if any(thing.startswith("node ") for thing in noted) else {}
    opening = {}
    for thing, state in noted.items():
        kind, _blank, name = thing.partition(" ")
        closed, _blank, before = state.partition(" ")
        if kind == "partition" and there.get(name) == closed:
            opening[thing] = ("PartitionName", name, f"State={before or 'UP'}")
        elif kind == "node" and name in known and "DRAIN" in known[name]["state"] and slurm_nodes.is_for(known[name], REASON):
            left = slurm_nodes.without_mark(known[name], REASON)
            opening[thing] = ("NodeName", name, f"Reason={left}" if left else "State=RESUME")
    if noted and not module.check_mode:
        for key, name, change in opening.values():
            scontrol(module, "update", f"{key}={name}", change)
        write_note(module.params["note"], {})
    return {thing: change for thing, (_key, _name, change) in opening.items()}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["closed", "open"], "required": True},
            "partitions": {"type": "list", "elements": "str", "default": []},
            "all_partitions": {"type": "bool", "default": False},
            "nodes": {"type": "list", "elements": "str", "default": []},
            "note": {"type": "path", "default": "/var/lib/deephdc/slurm_closed"},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    try:
        changed = close(module) if module.params["state"] == "closed" else reopen(module)
    except (OSError, ValueError, safe_directory.UnsafeLink) as error:
        module.fail_json(msg=f"{module.params['note']}: {error}")
    module.exit_json(changed=bool(changed), closed=list(changed))


if __name__ == "__main__":
    main()
