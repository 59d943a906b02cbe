#!/usr/bin/python3 -B
# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""After a job: no process of its user stays on its GPUs.

SLURM ends what the job started. What is left are processes that got away from it: a session from before the job,
a container engine, a daemon. Only processes of the job's user that hold a device file of the job open are ended, and never
one that belongs to another running job or to its MPS daemon.
"""

import contextlib
import os
import re
import signal
import sys
import time

import slurm_gpus
import slurm_mps

# Seconds between SIGTERM and SIGKILL, and for the kernel to let go of a process after that.
GRACE = 5

REMOTE = re.compile(r"(afs|beegfs|ceph|cifs|fuse|glusterfs|gpfs|lustre|ncpfs|nfs|orangefs|panfs|smb|wekafs|9p)")
OTHERS = re.compile(r"/job_(\d+)(?:/|$)|/deephdc-mps-", re.MULTILINE)


def device_numbers(gpus):
    """Return the device numbers of what is the job's alone.

    Of a MIG instance the GPU's own file does not count, as all instances open it.
    """
    numbers = set()
    for gpu in gpus:
        for path in gpu.files[1:] or gpu.files:
            if slurm_gpus.is_device(path):
                numbers.add(os.stat(path).st_rdev)
    return numbers


def read(pid, name):
    with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as file:
        return file.read()


def remote_mounts(pid):
    """Return the ids of a process' mounts whose server may not answer.

    stat of a file there might never end, and no file there is a device.
    """
    lines = [line.partition(" - ") for line in read(pid, "mountinfo").splitlines()]
    return {fields.split(" ", 1)[0] for fields, _dash, more in lines if REMOTE.match(more)}


def is_on(pid, descriptor, mounts):
    mount = re.search(r"^mnt_id:\s*(\d+)", read(pid, f"fdinfo/{descriptor}"), re.MULTILINE)
    return mount is None or mount.group(1) in mounts


def holds(pid, uid, job, numbers):
    """Return whether a process of the user has one of the devices open.

    A process that belongs to another job does not count.
    """
    uids = re.search(r"^Uid:\s+(.*)$", read(pid, "status"), re.MULTILINE)
    if uids is None or set(uids.group(1).split()) != {uid}:  # real, effective, saved: none of them may be root's
        return False
    if any(match.group(1) != job for match in OTHERS.finditer(read(pid, "cgroup"))):
        return False
    remote = remote_mounts(pid)
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        try:
            if remote and is_on(pid, descriptor, remote):
                continue
            if os.stat(f"/proc/{pid}/fd/{descriptor}").st_rdev in numbers:
                return True
        except OSError:
            continue
    return False


def remaining(uid, job, numbers):
    """Return the processes to end: pid to a descriptor of the process.

    The descriptor keeps the number from meaning another process.
    """
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            descriptor = os.pidfd_open(int(pid))
        except OSError:
            continue
        try:
            if holds(pid, uid, job, numbers):
                found[pid] = descriptor
                continue
        except OSError:  # it ended meanwhile
            pass
        os.close(descriptor)
    return found


def end(uid, job, numbers):
    """End the processes; returns those that even SIGKILL does not, pid to name."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + GRACE
        left = remaining(uid, job, numbers)
        for pid, descriptor in left.items():
            slurm_gpus.say(f"{number.name} goes to process {pid} of uid {uid}, which job {job} left on its GPU")
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
        while left and time.monotonic() < deadline:
            for descriptor in left.values():
                os.close(descriptor)
            time.sleep(0.1)
            left = remaining(uid, job, numbers)
        if not left:
            return {}
    return {pid: name_of(pid) for pid in left}


def name_of(pid):
    try:
        return read(pid, "comm").strip()
    except OSError:
        return "?"


def main():
    slurm_mps.stop()
    gpus = slurm_gpus.of_job()
    uid, job = os.environ["SLURM_JOB_UID"], os.environ["SLURM_JOB_ID"]
    if not gpus or uid == "0":
        return 0
    left = end(uid, job, device_numbers(gpus))
    if not left:
        return 0
    who = ", ".join(f"{pid} ({name})" for pid, name in left.items())
    where = " and ".join(slurm_gpus.describe(gpu) for gpu in gpus)
    # Without the collection's mark: the devices look well, and the next run must not resume the node.
    drained = slurm_gpus.drain(os.environ["SLURMD_NODENAME"], f"process {who} of uid {uid} survives SIGKILL on {where}")
    return 0 if drained else 1


if __name__ == "__main__":
    sys.exit(slurm_gpus.guarded(main))
