#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Prove by real jobs that SLURM gives a job its GPU and no other."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_gpu_probe
version_added: 0.1.0
short_description: Run jobs to prove that each gets its GPU and no other
author: deephdc.accelerators contributors (@deephdc)
description:
  - Runs a job of a few milliseconds for each probe and checks what it printed, not only that it ended well.
    The job opens every scheduled device of its node; exactly the granted ones must open.
  - A probe that finds all nodes busy is not a failure and is returned in RV(busy). Runs on a host with SLURM's commands.
attributes:
  check_mode:
    description: Runs no job.
    support: full
  diff_mode:
    description: Changes nothing.
    support: none
options:
  probes:
    description: The jobs to run.
    type: list
    elements: dict
    required: true
    suboptions:
      partition:
        description: Partition to submit to.
        type: str
        required: true
      gres_type:
        description: Type of the GPU to ask for. Without it, the job asks for no GPU.
        type: str
      exclude:
        description: Host list of nodes that the job must not run on.
        type: str
  devices:
    description: The devices of each node, by node name. Each device has C(gres_type) and C(files), as in the plan of the filters.
    type: dict
    required: true
  away:
    description: Names of nodes that no job may run on, because they are known to be gone before SLURM knows it.
    type: list
    elements: str
    default: []
  patience:
    description: Seconds that a job may wait for free resources. Jobs that wait do so side by side.
    type: int
    default: 15
"""

EXAMPLES = r"""
- name: Prove that a job gets its a100
  deephdc.accelerators.slurm_gpu_probe:
    probes:
      - partition: gpu
        gres_type: a100
    devices:
      gpu1:
        - {gres_type: a100, files: [/dev/nvidia0]}
        - {gres_type: a100, files: [/dev/nvidia1]}
"""

RETURN = r"""
proved:
  description: What the jobs showed, one line each.
  type: list
  elements: str
  returned: always
  sample: ["gpu: a100 on gpu1: /dev/nvidia0 opens, 1 other is denied"]
busy:
  description: Probes that found no free node in time, one line each.
  type: list
  elements: str
  returned: always
"""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

from ansible.module_utils.basic import AnsibleModule

# The scheduled devices of a node, which the role slurm_node writes there.
DEVICES_FILE = "/etc/slurm/gpu_devices"

# Runs inside the job. EPERM is the cgroup's refusal; ENXIO is a device without a driver behind it (a simulated one),
# which was let through. EACCES is the file's own mode and says nothing of the cgroup.
PROGRAM = """
import errno, json, os, sys
seen = {}
with open(sys.argv[1]) as devices:
    lines = [line.split() for line in devices if not line.startswith("#")]
for path in sorted({words[2] for words in lines if words}):
    try:
        os.close(os.open(path, os.O_RDWR))
        seen[path] = "opens"
    except OSError as error:
        seen[path] = "opens" if error.errno == errno.ENXIO else errno.errorcode.get(error.errno, str(error.errno))
print("PROBE " + json.dumps([os.environ["SLURMD_NODENAME"], seen]))
"""


# Seconds that a probe waits for a free node before the others were tried, and how many wait at once.
QUICK = 3
AT_ONCE = 16

# What srun says when it gives up waiting; the second one while others' jobs are before it in the queue.
BUSY = ("nodes are busy", "Immediate execution impossible", "temporarily unable", "Connection timed out")


def name(probe: dict) -> str:
    return f"{probe['partition']}: {probe['gres_type'] or 'no GPU'}"


# What it says when none of the nodes that are left could ever run the job.
IMPOSSIBLE = "Requested node configuration is not available"


def command(probe: dict, patience: int, away: list[str]) -> list[str]:
    words = ["srun", "--quiet", f"--partition={probe['partition']}", f"--immediate={patience}", "--time=2", "--nodes=1", "--ntasks=1"]
    words += ["--chdir=/", "--job-name=gpu_probe", "--export=PATH"]
    if probe["gres_type"]:
        words.append(f"--gres=gpu:{probe['gres_type']}:1")
    exclude = [*filter(None, [probe.get("exclude")]), *away]
    if exclude:
        words.append(f"--exclude={','.join(exclude)}")
    return [*words, "python3", "-c", PROGRAM, DEVICES_FILE]


def run(words: list[str]) -> tuple[int, str, str]:
    environment = {**os.environ, "LC_ALL": "C"}  # what srun prints is read here
    # pylint: disable-next=ansible-bad-function  # because run_command is for one thread
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", env=environment, check=False)
    return done.returncode, done.stdout, done.stderr


def run_all(probes: list[dict], patience: int, away: list[str]) -> list[tuple[int, str, str]]:
    """What srun gave for each probe: return value, output, errors.

    First one after the other, as probes for the same GPU would wait for each other. Then those that found no free node wait side by side.
    """
    answers = [run(command(probe, min(QUICK, patience), away)) for probe in probes]
    waiting = [number for number, (code, _out, err) in enumerate(answers) if code != 0 and any(words in err for words in BUSY)]
    if patience > QUICK and waiting:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            again = pool.map(lambda number: run(command(probes[number], patience, away)), waiting)
            for number, answer in zip(waiting, again):
                answers[number] = answer
    return answers


def judge(probe: dict, output: str, devices: dict[str, list[dict]]) -> tuple[bool, str]:
    """Whether what the job printed is right, and what it shows, in words."""
    answers = [line[len("PROBE ") :] for line in output.splitlines() if line.startswith("PROBE ")]
    if len(answers) != 1:
        return False, f"the job ended without its answer: {' '.join(output.split()) or 'no output'}"
    node, seen = json.loads(answers[0])
    opened = [path for path, result in seen.items() if result == "opens"]
    odd = [f"{path}: {result}" for path, result in seen.items() if result not in ("opens", "EPERM")]
    right = [device["files"] for device in devices[node] if device["gres_type"] == probe["gres_type"]] if probe["gres_type"] else [[]]
    if odd:
        return False, f"on {node} a device could not be tried ({', '.join(odd)})"
    if sorted(opened) not in [sorted(files) for files in right]:
        return False, f"on {node} the job could open {', '.join(opened) or 'no device'}, it should have been {' or '.join(map(str, right))}"
    return True, f"on {node}: {', '.join(opened) or 'no device'} opens, {len(seen) - len(opened)} other denied"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "probes": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {"partition": {"type": "str", "required": True}, "gres_type": {"type": "str"}, "exclude": {"type": "str"}},
            },
            "devices": {"type": "dict", "required": True},
            "away": {"type": "list", "elements": "str", "default": []},
            "patience": {"type": "int", "default": 15},
        },
        supports_check_mode=True,
    )
    devices = module.params["devices"]
    proved: list[str] = []
    busy: list[str] = []
    probes = [] if module.check_mode else module.params["probes"]
    for probe, (code, out, err) in zip(probes, run_all(probes, module.params["patience"], module.params["away"])):
        unfree = (*BUSY, IMPOSSIBLE) if module.params["away"] else BUSY
        if code != 0 and any(words in err for words in unfree):
            busy.append(name(probe))
            continue
        if code != 0:
            module.fail_json(msg=f"{name(probe)}: SLURM did not run the job: {' '.join((err or out).split())}", proved=proved, busy=busy)
        good, shown = judge(probe, out, devices)
        if not good:
            module.fail_json(msg=f"{name(probe)}: {shown}", proved=proved, busy=busy)
        proved.append(f"{name(probe)} {shown}")
    module.exit_json(changed=False, proved=proved, busy=busy)


if __name__ == "__main__":
    main()
