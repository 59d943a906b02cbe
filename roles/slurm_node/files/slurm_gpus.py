# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the programs that slurmd runs on this node know of its GPUs: which there are, what is wrong with them, how to drain."""

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
from xml.etree import ElementTree

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
PENDING = (
    ("retired_pages/pending_retirement", "memory pages wait for retirement, which takes a reset"),
    ("retired_pages/pending_blacklist", "memory pages wait for retirement, which takes a reset"),
    ("remapped_rows/remapped_row_pending", "memory rows wait for being remapped, which takes a reset"),
    ("remapped_rows/remapped_row_failure", "memory rows could not be remapped"),
)
RESET = "it requires a reset"
SAYS_RESET = re.compile(r"GPU requires reset", re.IGNORECASE)
# What a driver writes in the place of a recovery action that it does not ask for, or does not know.
NO_ACTION = re.compile(
    r"(None|\[?N/A\]?|\[?Not Supported\]?|Requested functionality has been deprecated|\[?Unknown Error\]?)?\Z", re.IGNORECASE
)
SAYS_LOST = re.compile(r"GPU is lost|Unknown Error|fallen off the bus", re.IGNORECASE)
ADDRESS = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")

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
    """The GPUs that SLURM gave to the job of this prolog or epilog; as the gres, shards and MPS percents say it alike."""
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
    """What nvidia-smi says is wrong, by PCI address, and whether it told of all GPUs.

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
    start, end = text.find("<nvidia_smi_log"), text.rfind("</nvidia_smi_log>")
    try:
        log = ElementTree.fromstring(text[start : end + len("</nvidia_smi_log>")] if 0 <= start < end else "")
    except ElementTree.ParseError:
        log = None
    # What stands before and after the document is about a GPU that does not answer; then there may be no document at all.
    around = text if log is None else text[:start] + text[end:]
    lost = {
        address(match): [RESET if SAYS_RESET.search(line) else LOST]
        for line in around.splitlines()
        if SAYS_LOST.search(line) or SAYS_RESET.search(line) or code == 15
        for match in [ADDRESS.search(line)]
        if match
    }
    if log is None:
        if not lost:
            say(f"nvidia-smi failed with return value {code}")
        return lost, False
    told = {}
    for gpu in log.findall("gpu"):
        match = ADDRESS.search(gpu.get("id") or "")
        if match:
            told[address(match)] = gpu_problems(gpu)
    complete = bool(told)
    told.update(lost)
    return told, complete


def address(match):
    """As sysfs has it; nvidia-smi writes eight digits of the domain, in capitals."""
    return f"{int(match.group(1), 16):04x}:{match.group(2).lower()}"


def gpu_problems(gpu):
    if any(SAYS_LOST.search(gpu.findtext(key) or "") for key in ("uuid", "product_name")):
        return [LOST]
    found = reset_problems(gpu)
    volatile = gpu.find("ecc_errors/volatile")
    counters = list(volatile.iter()) if volatile is not None else []
    # Boards before Turing count by the number of wrong bits: two cannot be corrected.
    wrong_bits = [gpu.findtext("ecc_errors/volatile/double_bit/total") or ""]
    texts = [counter.text or "" for counter in counters if "uncorrectable" in counter.tag] + wrong_bits
    uncorrected = sum(int(text.strip()) for text in texts if text.strip().isdigit())
    if uncorrected:
        found.append(f"{uncorrected} uncorrected ECC error(s) since the driver was loaded")
    for path, problem in PENDING:
        if (gpu.findtext(path) or "").strip() == "Yes" and problem not in found:
            found.append(problem)
    return found


def reset_problems(gpu):
    """Drivers before 575 have gpu_reset_status, later ones gpu_recovery_action; 575 has both, the first as deprecated."""
    action = (gpu.findtext("gpu_recovery_action") or "").strip()
    if not NO_ACTION.match(action):
        return [f"the driver asks for the recovery action {action}"]
    required = (gpu.findtext("gpu_reset_status/reset_required") or "").strip() == "Yes"
    if required or any(SAYS_RESET.search(element.text or "") for element in gpu.iter()):
        return [RESET]
    recommended = (gpu.findtext("gpu_reset_status/drain_and_reset_recommended") or "").strip() == "Yes"
    return ["the driver recommends to drain and reset it"] if recommended else []


def guarded(main):
    """Run a prolog or epilog; a mistake in it is told, and no reason to drain a node or to send its job away."""
    try:
        return main()
    except Exception:  # whatever it is
        say(" ".join(traceback.format_exc().split()))
        return 0


def drain(node, reason):
    """Keep new jobs away from this node; a reason that is there already stays. Returns whether the node is drained."""
    say(reason)
    shown = run(["/usr/bin/scontrol", "-o", "show", "node", node], SCONTROL_SECONDS)
    if shown and re.search(rb"DRAIN.*Reason=", shown.stdout):
        return True
    done = run(["/usr/bin/scontrol", "update", "NodeName=" + node, "State=DRAIN", "Reason=" + reason], SCONTROL_SECONDS)
    return done is not None and done.returncode == 0
