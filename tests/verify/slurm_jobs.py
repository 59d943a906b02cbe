"""Jobs of the user ada's, and what became of them."""

from __future__ import annotations

import json
import time

from local import Cluster

# Tries to open every device file of the host; ENXIO (6) is a device that the cgroup let through to no driver.
LOOK = """python3 - <<PY
import glob, json, os, time
seen = {}
for path in sorted(glob.glob("/dev/nvidia[0-9]*")):
    try:
        os.close(os.open(path, os.O_RDWR))
        seen[path] = 0
    except OSError as error:
        seen[path] = error.errno
print(json.dumps(seen))
time.sleep(SECONDS)
PY"""
OPEN = (0, 6)
# Runs until `tell` ends it, so that a test neither waits for it nor outlasts it.
UNTIL_TOLD = "timeout 1500 bash -c 'until rm /tmp/end-$SLURM_JOB_ID 2>/dev/null; do sleep 0.2; done' && echo survived"


def look(seconds: float = 0) -> str:
    return LOOK.replace("SECONDS", str(seconds))


def submit(cluster: Cluster, options: str, program: str) -> str:
    """Job id of a batch job of ada's whose output is shared by no file system: it is read where it ran."""
    script = f'cat > job.sh <<"END"\n#!/bin/bash\n{program}\nEND\nsbatch --parsable --output=/tmp/job-%A_%a.out {options} job.sh'
    return cluster.out("login", script, user="ada")


def tell(cluster: Cluster, node: str, job: str) -> None:
    """The file stays until the job has seen it: a batch script may start well after its job is RUNNING."""
    # With its owner from the first moment: the job removes it as soon as it is there.
    cluster.out(node, f"install --owner=ada /dev/null /tmp/.end-{job} && mv /tmp/.end-{job} /tmp/end-{job}")


def ended(cluster: Cluster, job: str, tasks: int = 1, seconds: float = 90) -> list[dict[str, str]]:
    """The accounting records of a job and its array tasks once all have ended."""
    deadline = time.monotonic() + seconds
    fields = ["JobID", "State", "NodeList", "AllocTRES", "ElapsedRaw", "ExitCode"]
    while True:
        text = cluster.out("login", f"sacct -X -P -n -j {job} -o {','.join(fields)}")
        rows = [dict(zip(fields, line.split("|"), strict=True)) for line in text.splitlines()]
        if len(rows) == tasks and not any(row["State"].split()[0] in ("PENDING", "RUNNING", "COMPLETING", "REQUEUED") for row in rows):
            return rows
        assert time.monotonic() < deadline, f"job {job} did not end in {seconds} s: {rows}"
        time.sleep(0.5)


def opened(cluster: Cluster, node: str, job: str, task: str = "4294967294") -> list[str]:
    seen = json.loads(cluster.out(node, f"cat /tmp/job-{job}_{task}.out"))
    return [path for path, error in seen.items() if error in OPEN]
