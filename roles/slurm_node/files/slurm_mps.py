# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's Multi-Process Service for the jobs of one user on one GPU.

Each user has a separate daemon for each GPU. It runs as that user, in its own unit that can open no other GPU,
with a pipe directory that no other user can enter. It lives as long as one of the user's jobs shares the GPU.
"""

import contextlib
import fcntl
import os
import shutil

import slurm_gpus

# One file per job, named by its id, that has the name of its daemon. It says which daemons are still needed,
# and slurm_task_prolog finds the job's pipe directory by it.
JOBS = "/run/deephdc/mps"
PIPES = "/run/deephdc-mps"
UNIT = "deephdc-mps-%s.service"
SECONDS = 15


def is_wanted():
    """SLURM sets this for a job that asked for mps, for nothing else."""
    return "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" in os.environ


@contextlib.contextmanager
def locked():
    """Let one prolog or epilog run at a time.

    The last job's end must not stop the daemon of the one that begins.
    """
    os.makedirs(JOBS, mode=0o755, exist_ok=True)
    with open(os.path.join("/run/deephdc", "mps.lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def start(gpus):
    """Have the daemon for the job; returns what is wrong, one sentence part."""
    command = shutil.which("nvidia-cuda-mps-control", path=slurm_gpus.PATH)
    where = " on " + " and ".join(slurm_gpus.describe(gpu) for gpu in gpus)
    if not command:
        return [f"MPS can't start{where}, nvidia-cuda-mps-control is not installed"]
    uid, gid = os.environ["SLURM_JOB_UID"], os.environ["SLURM_JOB_GID"]
    name = "-".join([uid, *(gpu.index for gpu in gpus)])
    with locked():
        with open(os.path.join(JOBS, os.environ["SLURM_JOB_ID"]), "w", encoding="ascii") as file:
            file.write(name + "\n")
        if is_active(name):
            return []
        pipe = os.path.join(PIPES, name)
        files = [path for gpu in gpus for path in gpu.files]
        files += ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"]
        words = ["systemd-run", "--quiet", "--collect", "--unit=" + UNIT % name, "--uid=" + uid, "--gid=" + gid]
        settings = ["Type=exec", "RuntimeDirectory=deephdc-mps/" + name, "RuntimeDirectoryMode=0700", "TimeoutStopSec=5"]
        settings += ["DevicePolicy=closed", *(f"DeviceAllow={path} rw" for path in files)]
        settings += [f'ExecStop=/bin/sh -c "echo quit | {command}"']
        words += ["--property=" + setting for setting in settings]
        words += ["--setenv=CUDA_MPS_PIPE_DIRECTORY=" + pipe, "--setenv=CUDA_MPS_LOG_DIRECTORY=" + pipe]
        done = slurm_gpus.run(["/usr/bin/" + words[0], *words[1:], command, "-f"], SECONDS)
        if done is None or done.returncode != 0 or not is_active(name):
            said = " ".join(done.stdout.decode("utf-8", "replace").split()) if done else "no answer from systemd"
            return [f"MPS did not start{where}: {said or 'it ended at once'}"]
    return []


def stop():
    """The job needs its daemon no more; the last one of a user on a GPU stops it."""
    path = os.path.join(JOBS, os.environ["SLURM_JOB_ID"])
    with locked():
        try:
            with open(path, encoding="ascii") as file:
                name = file.read().strip()
        except FileNotFoundError:
            return
        os.unlink(path)
        if not any(daemon_of(other) == name for other in os.listdir(JOBS)):
            slurm_gpus.run(["/usr/bin/systemctl", "stop", UNIT % name], SECONDS)


def daemon_of(job):
    with open(os.path.join(JOBS, job), encoding="ascii") as file:
        return file.read().strip()


def is_active(name):
    done = slurm_gpus.run(["/usr/bin/systemctl", "is-active", "--quiet", UNIT % name], SECONDS)
    return done is not None and done.returncode == 0
