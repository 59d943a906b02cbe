# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the programs that slurmd runs on this node know of its GPUs.

They know which there are, what is wrong with them, and how to drain.
"""

import contextlib
import os
import re
import shutil
import signal
import stat
import subprocess
import syslog
import tempfile
import traceback
from collections import namedtuple

# The collection's own reader of GPUs, which this role installs beside this file.
from _gpu import nvidia_smi
from _gpu.address import canonical_address

# Written by the role slurm_node: type, PCI address, device file, and the number that SLURM gives the GPU on this node.
DEVICES_FILE = "/etc/slurm/gpu_devices"

# A reason that begins so is the collection's: its next run resumes the node if the devices are well.
MARK = "accelerators: "

# slurmd waits for a health check, a prolog or an epilog; a driver that hangs must not hang them.
SMI_SECONDS = 10
SCONTROL_SECONDS = 10

# Where the node's programs lie; slurmd gives them no search path.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# The words are those of the module gpu_facts, which the collection's next run looks at the node with.
LOST = "it has fallen off the bus, the device does not answer any more"
UNLISTED = "nvidia-smi does not list it though the driver nvidia is bound to it"
RESET = "it requires a reset"

# One GPU or MIG instance that SLURM schedules; files are its own, for an instance after those of the whole GPU.
Gpu = namedtuple("Gpu", "index type address files")


def say(text):
    syslog.openlog("slurm_gpus")
    syslog.syslog(text)


def run(words, seconds):
    """What a command printed, or None where it did not end in time or is not there.

    A command that hangs in the driver does not end by SIGKILL either, so its end is not waited for. It writes into a file,
    as a pipe would be waited for as long.
    """
    with tempfile.TemporaryFile() as printed:
        try:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT, start_new_session=True)
        except OSError:
            return None
        try:
            code = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=1)
            return None
        printed.seek(0)
        return subprocess.CompletedProcess(words, code, printed.read())


def scheduled():
    """All GPUs of this node that SLURM schedules, by SLURM's numbers."""
    found = {}
    try:
        with open(DEVICES_FILE, encoding="utf-8") as lines:
            for line in lines:
                words = line.split()
                if len(words) == 4 and not line.startswith("#"):
                    gpu_type, address, path, index = words
                    found.setdefault(index, Gpu(index, gpu_type, address, [])).files.append(path)
    except FileNotFoundError:
        pass  # no run of the collection has come this far yet
    return found


def of_job():
    """The GPUs that SLURM gave to the job of this prolog or epilog.

    Gres, shards and MPS percents name them in the same way.
    """
    gpus = scheduled()
    return [gpus[index] for index in os.environ.get("SLURM_JOB_GPUS", "").split(",") if index in gpus]


def describe(gpu):
    return f"{gpu.type} at {gpu.address} ({gpu.files[0]})"


def is_device(path):
    try:
        return stat.S_ISCHR(os.stat(path).st_mode)
    except OSError:
        return False


def problems(gpus):
    """What is wrong with the GPUs, one sentence part for each."""
    wrong = []
    told, complete = nvidia_problems()
    for gpu in gpus:
        missing = [path for path in gpu.files if not is_device(path)]
        wrong += [f"{gpu.type} at {gpu.address} ({path}) is missing" for path in missing]
        if not missing and gpu.files[0].startswith("/dev/nvidia"):
            reasons = told.get(gpu.address, [UNLISTED] if complete else [])
            wrong += [f"{describe(gpu)}: {reason}" for reason in reasons]
    return wrong


def nvidia_problems():
    """What nvidia-smi says is wrong, by PCI address, and whether it reported all GPUs.

    Nothing where it is not there or does not answer: that concerns the tool.
    """
    command = shutil.which("nvidia-smi", path=PATH)
    if not command:
        return {}, False
    done = run([command, "-q", "-x"], SMI_SECONDS)
    if done is None:
        say(f"nvidia-smi gave no answer within {SMI_SECONDS} seconds")
        return {}, False
    return read_smi(done.stdout.decode("utf-8", "replace"), done.returncode)


def read_smi(text, code):
    try:
        _version, facts = nvidia_smi.parse_document(text)
    except nvidia_smi.Unreadable:
        facts = None
    # What stands before and after the document is about a GPU that does not answer; then there may be no document at all.
    around = text if facts is None else nvidia_smi.outside_document(text)
    lost = {
        canonical_address(address): [RESET if nvidia_smi.SAYS_RESET.search(line) else LOST]
        for line in around.splitlines()
        if nvidia_smi.SAYS_LOST.search(line) or nvidia_smi.SAYS_RESET.search(line) or code == 15
        for address in nvidia_smi.ANY_ADDRESS.findall(line)[:1]
    }
    if facts is None:
        if not lost:
            say(f"nvidia-smi failed with return value {code}")
        return lost, False
    told = {address: gpu_problems(gpu) for address, gpu in facts.items()}
    return {**told, **lost}, bool(told)


def gpu_problems(gpu):
    if gpu["lost"]:
        return [LOST]
    return ([gpu["reset"]] if gpu["reset"] else []) + gpu["ecc_problems"]


def guarded(main):
    """Run a prolog or epilog.

    A mistake in it is reported, but does not drain the node or send its job away.
    """
    try:
        return main()
    except Exception:  # whatever it is
        say(" ".join(traceback.format_exc().split()))
        return 0


def drain(node, reason):
    """Keep new jobs away from this node; a reason that is there already stays.

    Returns whether the node is drained.
    """
    say(reason)
    shown = run(["/usr/bin/scontrol", "-o", "show", "node", node], SCONTROL_SECONDS)
    if shown and re.search(rb"DRAIN.*Reason=", shown.stdout):
        return True
    done = run(["/usr/bin/scontrol", "update", "NodeName=" + node, "State=DRAIN", "Reason=" + reason], SCONTROL_SECONDS)
    return done is not None and done.returncode == 0
