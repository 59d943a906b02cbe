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
from _gpu import kernel_log, nvidia_smi

# Written by the role slurm_node: type, PCI address, device file, and the number that SLURM gives the GPU on this node.
DEVICES_FILE = "/etc/slurm/gpu_devices"

# A reason that begins so is the collection's: its next run resumes the node if the devices are well.
MARK = "accelerators: "

# slurmd waits for a health check, a prolog or an epilog; a driver that hangs must not hang them.
SMI_SECONDS = 10
SCONTROL_SECONDS = 10

# Where the node's programs lie; slurmd gives them no search path.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# How often nvidia-smi may give no answer to the health check, one time after the other, before the node takes no new jobs.
SILENT_CHECKS = 5
SILENT_FILE = "/run/deephdc-slurm-gpus-silent"

MISMATCH = re.compile("library version mismatch", re.IGNORECASE)
ALL = "all"  # in the place of an address
DRIVER_VERSION = "/sys/module/nvidia/version"

# Where the vendor's driver says which mode an AMD GPU is in: jobs could open the files of parts that they were not given.
AMD_MODE = "/sys/bus/pci/devices/{0}/current_compute_partition"

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
    return looked_at(gpus)[0]


def looked_at(gpus):
    """What is wrong with the GPUs, one sentence part for each.

    The second value is why nvidia-smi gave no answer, empty if it did.
    """
    wrong = []
    told, complete, silent = nvidia_problems()
    nvidia = [gpu for gpu in gpus if gpu.files[0].startswith("/dev/nvidia")]
    for gpu in gpus:
        missing = [path for path in gpu.files if not is_device(path)]
        wrong += [f"{gpu.type} at {gpu.address} ({path}) is missing" for path in missing]
        if not missing and gpu in nvidia:
            reasons = told.get(gpu.address, [nvidia_smi.UNLISTED] if complete else []) + told.get(ALL, [])
            wrong += [f"{describe(gpu)}: {reason}" for reason in reasons]
        elif not missing:
            wrong += [f"{describe(gpu)}: its compute partition mode is {mode}, not SPX" for mode in amd_modes(gpu.address)]
    return wrong, silent if nvidia else ""


def amd_modes(address):
    try:
        with open(AMD_MODE.format(address), encoding="utf-8") as file:
            mode = file.read().strip()
    except FileNotFoundError:
        return []  # another vendor's, or a GPU without such modes
    except OSError as error:
        return [f"unknown ({error.strerror})"]
    return [mode] if mode not in ("", "SPX") else []


def nvidia_problems():
    """What is wrong, by PCI address; nothing where nvidia-smi is not there.

    The other values are whether it reported all GPUs, and why it gave no answer.
    """
    command = shutil.which("nvidia-smi", path=PATH)
    if not command:
        return {}, False, ""
    done = run([command, "-q", "-x"], SMI_SECONDS)
    messages = kernel_log.read() or []
    if done is None:
        silent = f"nvidia-smi gave no answer within {SMI_SECONDS} seconds"
        say(silent)
        logged = kernel_log.problems(messages) if kernel_log.counts_alone(driver_version()) else {}
        return {address: [reason] for address, reason in logged.items()}, False, silent
    return read_smi(done.stdout.decode("utf-8", "replace"), done.returncode, messages, driver_version())


def driver_version():
    """The version of the loaded driver, empty where nothing says it."""
    with contextlib.suppress(OSError), open(DRIVER_VERSION, encoding="utf-8") as file:
        return file.read().strip()
    return ""


def read_smi(text, code, messages=(), version=""):
    """What nvidia-smi and the kernel's log say, as nvidia_problems returns it.

    The words are those of the module gpu_facts, which the collection's next run looks at the node with.
    """
    try:
        _version, facts = nvidia_smi.parse_document(text)
    except nvidia_smi.Unreadable:
        facts = {}
        is_document = False
    else:
        is_document = True
    told = {address: [reason for _problem, reason in gpu["problems"]] for address, gpu in facts.items()}
    # What stands before and after the document is about a GPU that does not answer; then there may be no document at all.
    about = nvidia_smi.named(nvidia_smi.outside_document(text), code, facts)
    for problem, reason, address in about:
        if problem != "nvidia_smi_warning":
            told[address] = [reason, *told.get(address, [])]
    logged = kernel_log.problems(messages, facts) if facts or kernel_log.counts_alone(version) else {}
    for address, reason in logged.items():
        if not (address in facts and facts[address]["says_recovery"]):
            told[address] = [*told.get(address, []), reason]
    if MISMATCH.search(text) and not is_document:
        told[ALL] = ["the NVML library does not fit the loaded kernel module"]
    complete = bool(facts) or nvidia_smi.lists_none(text)
    silent = "" if is_document or complete else f"nvidia-smi failed with return value {code}"
    if silent:
        say(silent)
    return told, complete, silent


def silent_too_long(silent):
    """Count checks to which nvidia-smi gave no answer, one after the other.

    Return what is wrong once there were too many of them. A sick GPU often makes the tool hang.
    """
    count = 0
    if silent:
        with contextlib.suppress(OSError, ValueError), open(SILENT_FILE, encoding="utf-8") as file:
            count = int(file.read())
        count += 1
        with open(SILENT_FILE, "w", encoding="utf-8") as file:
            file.write(str(count))
    else:
        with contextlib.suppress(FileNotFoundError):
            os.remove(SILENT_FILE)
    return [f"{silent}, in more than {SILENT_CHECKS - 1} checks one after the other"] if count >= SILENT_CHECKS else []


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
    """Keep new jobs away from this node.

    A reason that is there already stays, also a person's for DOWN. Returns whether the node is drained.
    """
    say(reason)
    shown = run(["/usr/bin/scontrol", "-o", "show", "node", node], SCONTROL_SECONDS)
    if shown and re.search(rb"DRAIN.*Reason=", shown.stdout):
        return True
    given = re.search(rb"State=\S*DOWN.* Reason=(.*?) \[(?!slurm@)\S+@[0-9T:-]+\]", shown.stdout, re.DOTALL) if shown else None
    if given and not given.group(1).startswith(MARK.encode()):
        reason = given.group(1).decode("utf-8", "replace") + " + " + reason
    done = run(["/usr/bin/scontrol", "update", "NodeName=" + node, "State=DRAIN", "Reason=" + reason], SCONTROL_SECONDS)
    return done is not None and done.returncode == 0
