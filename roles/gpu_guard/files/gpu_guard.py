#!/usr/bin/python3
# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Keep jobs of SLURM from device files that are another manager's, as /etc/deephdc/gpu_guard says.

SLURM denies its jobs only the devices that it has itself. This denies the others to the control group in which all jobs of the
host are, before slurmd starts and while it runs. Control groups of version 1 alone. A file that a job uses is left open, with exit code 1.
Each line of the file is "closed FILE" or "open FILE".

It prints what it changed, such as "closed /dev/nvidia0", and nothing where all is as it should be.
"""

import argparse
import contextlib
import json
import os
import socket
import stat
import subprocess
import sys

WANTED = "/etc/deephdc/gpu_guard"
DEVICES = "/sys/fs/cgroup/devices"
# Of the role slurm_node, a line for each device file that SLURM schedules here: type, PCI address, file, SLURM's number of the GPU.
SCHEDULED = "/etc/slurm/gpu_devices"
SECONDS = 20.0  # for the program that tries to open the files
# Enters the control group and prints of each file whether it opens. ENXIO is a device without a driver that was let through.
TRY = """
import errno, os, sys
with open(os.path.join(sys.argv[1], "cgroup.procs"), "w") as procs:
    procs.write(str(os.getpid()))
for path in sys.argv[2:]:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        print("open")
    except OSError as error:
        print("closed" if error.errno == errno.EPERM else "open")
"""


class Refused(Exception):
    """Why nothing more was changed, one sentence."""


class InUse(Refused):
    """A job has the device."""


def closes_devices():
    """Whether devices can be closed here, as with control groups of version 1.

    :raises OSError: it can't be seen, which is no answer.
    """
    try:
        os.stat(DEVICES)
    except FileNotFoundError:
        return False
    return True


def group_of_jobs():
    """The directory of the control group in which slurmd puts all jobs of this host."""
    if not closes_devices():
        raise Refused("this host has control groups of version 2, by which gpu_guard can close no device")
    return os.path.join(DEVICES, "slurm_" + socket.gethostname().split(".")[0])


def number(path):
    """Major and minor of a device file.

    :raises Refused: it is missing or no character device.
    """
    try:
        found = os.stat(path)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    if not stat.S_ISCHR(found.st_mode):
        raise Refused(f"{path} is no character device")
    return os.major(found.st_rdev), os.minor(found.st_rdev)


def states(group, paths):
    """Whether a program of a job could open each file: "open" or "closed"."""
    probe = os.path.join(group, "gpu_guard")
    with contextlib.suppress(FileExistsError):
        os.mkdir(probe)
    try:
        command = [sys.executable, "-I", "-c", TRY, probe, *paths]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=SECONDS, text=True)
    except subprocess.SubprocessError as error:
        raise Refused(f"the device files could not be tried: {error}") from error
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(probe)
    return dict(zip(paths, done.stdout.split()))


def processes(group):
    """The processes of all jobs."""
    for directory, _directories, _files in os.walk(group):
        with contextlib.suppress(OSError), open(os.path.join(directory, "cgroup.procs")) as procs:
            yield from procs.read().split()


def variables(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            lines = file.read().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line)


def has_open(pid, device):
    """Whether a process has the device open.

    A link to a file elsewhere is not followed, as its file system may hang.
    """
    directory = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(directory):
            link = os.path.join(directory, name)
            with contextlib.suppress(OSError):
                if os.readlink(link).startswith("/dev/") and os.stat(link).st_rdev == os.makedev(*device):
                    return True
    return False


def numbers_of(path):
    """What SLURM calls the GPUs on this host that have a device file."""
    with contextlib.suppress(FileNotFoundError), open(SCHEDULED) as file:
        lines = [line.split() for line in file if not line.startswith("#")]
        return {words[3] for words in lines if len(words) == 4 and words[2] == path}
    return set()


def user_of(group, path):
    """Return the job that uses a device, None if no job does.

    A job uses it if it has the file open, or if SLURM gave it that GPU.
    """
    device, numbers = number(path), numbers_of(path)
    for pid in processes(group):
        own = variables(pid)
        given = own.get("SLURM_JOB_GPUS", "").split(",") + own.get("SLURM_STEP_GPUS", "").split(",")
        if has_open(pid, device) or numbers.intersection(given):
            return own.get("SLURM_JOB_ID") or f"with process {pid}"
    return None


def write(group, name, path):
    """:raises Refused: the kernel does not take it."""
    try:
        with open(os.path.join(group, name), "w") as file:
            major, minor = number(path)
            file.write(f"c {major}:{minor} rwm")
    except OSError as error:
        raise Refused(f"{name} of {group}: {error.strerror}") from error


def wanted():
    """The files to close and those to leave open.

    :raises Refused: a line is not understood.
    """
    found = {"closed": [], "open": []}
    with open(WANTED) as file:
        lines = [line.split(None, 1) for line in file.read().splitlines() if line and not line.startswith("#")]
    for words in lines:
        if len(words) != 2 or words[0] not in found:
            raise Refused(f"{WANTED} has the line {' '.join(words)!r}")
        found[words[0]].append(words[1])
    return found["closed"], found["open"]


def apply(closing, opening):
    """Close and open the files for jobs, and print what was changed."""
    group = group_of_jobs()
    with contextlib.suppress(FileExistsError):
        os.mkdir(group)  # slurmd takes one that is there
    before = states(group, [*closing, *opening])
    for path in closing:
        if before[path] == "open":
            job = user_of(group, path)
            if job:
                raise InUse(f"job {job} of SLURM uses {path}: wait for it, or cancel it")
            write(group, "devices.deny", path)
            print("closed " + path)
    for path in opening:
        if before[path] == "closed":
            write(group, "devices.allow", path)
            print("opened " + path)
    still = [path for path, state in states(group, closing).items() if state == "open"]
    if still:
        raise Refused(f"jobs can still open {', '.join(still)}")


def closed(paths):
    """Those that a job can't open, as far as this can be tried."""
    try:
        group = group_of_jobs()
        return [path for path, state in states(group, paths).items() if state == "closed"] if os.path.isdir(group) else []
    except Refused:
        return []


def main():
    parser = argparse.ArgumentParser(prog="gpu_guard", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--start", action="store_true", help="slurmd starts: where a job has one of the files, only say so")
    parser.add_argument("--lift", action="store_true", help="open all of the files to jobs again")
    parser.add_argument("--show", action="store_true", help="print which of the closed files a job really can't open, as JSON")
    asked = parser.parse_args()
    try:
        closing, opening = wanted()
        opening = [path for path in opening if os.path.exists(path)]
        if asked.show:
            print(json.dumps(closed(closing)))
        elif asked.lift and not closes_devices():
            pass  # nothing was closed on a host with control groups of version 2
        elif asked.lift:
            apply([], [*(path for path in closing if os.path.exists(path)), *opening])
        else:
            apply(closing, opening)
    except (Refused, OSError) as reason:
        # Without slurmd the job would be lost, too.
        if asked.start and isinstance(reason, InUse):
            print(f"gpu_guard: {reason}")
            return
        sys.exit(f"gpu_guard: {reason}")


if __name__ == "__main__":
    main()
