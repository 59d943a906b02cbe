# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Jobs of the stand-in Chronos: ISO 8601 schedules, defaults, task descriptions. No socket and no file."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any

import resources as amounts
from web import Failure

Job = dict[str, Any]
NAME = re.compile(r"^[\w .#_-]+$")
PERIOD = re.compile(r"^P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?$")
DEFAULTS: Job = {
    "command": "",
    "shell": True,
    "executor": "",
    "executorFlags": "",
    "taskInfoData": "",
    "retries": 2,
    "owner": "",
    "ownerName": "",
    "description": "",
    "successCount": 0,
    "errorCount": 0,
    "errorsSinceLastSuccess": 0,
    "lastSuccess": "",
    "lastError": "",
    "cpus": 0.1,
    "disk": 256.0,
    "mem": 128.0,
    "disabled": False,
    "concurrent": False,
    "softError": False,
    "dataProcessingJobType": False,
    "uris": [],
    "fetch": [],
    "environmentVariables": [],
    "arguments": [],
    "highPriority": False,
    "runAsUser": "",
    "constraints": [],
}


def problem(text: str) -> Failure:
    return Failure(400, {"status": "400", "message": text})


def period(text: str) -> timedelta:
    """Length of an ISO 8601 period; a month is 30 days, a year 365."""
    match = PERIOD.match(text)
    if not match or text in ("P", "PT"):
        raise ValueError(text)
    years, months, weeks, days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return timedelta(days=365 * years + 30 * months + 7 * weeks + days, hours=hours, minutes=minutes, seconds=seconds)


def parse(schedule: str, now: datetime) -> tuple[int, datetime, timedelta]:
    """Repetitions (-1 is forever), start and interval of R[N]/START/PERIOD. An empty start is now."""
    repeat, start, length = schedule.split("/")
    if not re.fullmatch(r"R\d*", repeat):
        raise ValueError(repeat)
    begin = datetime.fromisoformat(start.replace("Z", "+00:00")) if start else now
    if begin.tzinfo is None:
        begin = begin.replace(tzinfo=timezone.utc)
    return int(repeat[1:]) if repeat != "R" else -1, begin, period(length)


def text_of(repeat: int, begin: datetime, length: str) -> str:
    start = begin.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.") + f"{begin.microsecond // 1000:03d}Z"
    return f"R{'' if repeat < 0 else repeat}/{start}/{length}"


def complete(body: Job, former: Job | None, gpu: bool) -> Job:
    """A job with its defaults. Chronos 3.0.2 drops a key that it does not know, gpus among them."""
    name = body.get("name", "")
    if not NAME.match(name):
        raise problem(f"java.lang.IllegalArgumentException: requirement failed: the job's name is invalid. Allowed names: '{NAME.pattern}'")
    extra = {"name", "schedule", "scheduleTimeZone", "epsilon", "parents", "container"} | ({"gpus"} if gpu else set())
    job = {**DEFAULTS, **{key: value for key, value in body.items() if key in DEFAULTS or key in extra}}
    for key in ("successCount", "errorCount", "lastSuccess", "lastError"):
        job[key] = (former or job)[key]
    if "schedule" in job:
        try:
            _repeat, begin, _length = parse(job["schedule"], datetime.now(timezone.utc))
        except ValueError as error:
            raise problem(f"Cannot parse schedule '{job['schedule']}' (wtf bro)") from error
        if begin.year < 1970:
            raise problem(f"Scheduled start date '{begin.isoformat()}' is before 1970!")
    return job


def due(job: Job, now: datetime) -> tuple[bool, Job]:
    """Whether a job starts now, and the job with what is left of its schedule."""
    if "schedule" not in job or job["disabled"]:
        return False, job
    repeat, begin, length = parse(job["schedule"], now)
    if repeat == 0 or begin > now:
        return False, job
    missed = max(1, int((now - begin) / length)) if length else 1
    return True, {**job, "schedule": text_of(repeat - 1 if repeat > 0 else -1, begin + missed * length, job["schedule"].rsplit("/", 1)[1])}


def task_info(job: Job, identity: str, offer: dict[str, Any], user: str) -> dict[str, Any]:
    """A task in the v1 API, with Chronos' variables (scheduler/mesos/MesosTaskBuilder.scala)."""
    variables = {entry["name"]: entry["value"] for entry in job["environmentVariables"]}
    variables |= {"mesos_task_id": identity, "CHRONOS_JOB_OWNER": job["owner"], "CHRONOS_JOB_NAME": job["name"], "HOST": offer["hostname"]}
    variables |= {f"CHRONOS_RESOURCE_{name}": str(job[key]) for name, key in (("MEM", "mem"), ("CPU", "cpus"), ("DISK", "disk"))}
    wanted = {name: float(job.get(name, 0)) for name in amounts.SCALARS}
    words = " ".join([job["command"], *job["arguments"]]).strip()
    return {
        "name": f"ChronosTask:{job['name']}",
        "task_id": {"value": identity},
        "agent_id": offer["agent_id"],
        "resources": amounts.to_json(wanted),
        "command": {
            "shell": True,
            "value": words,
            "user": job["runAsUser"] or user,
            "environment": {"variables": [{"name": key, "value": value} for key, value in variables.items()]},
        },
        **({"container": job["container"]} if job.get("container") else {}),
    }


def fits(job: Job, offer: dict[str, Any]) -> bool:
    """Whether an offer has what a job wants."""
    return amounts.fits({name: float(job.get(name, 0)) for name in amounts.SCALARS}, amounts.from_json(offer["resources"]))
