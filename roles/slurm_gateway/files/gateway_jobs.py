# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The gateway's stable interface, and its translation into SLURM's versioned one.

All functions are pure.
"""

from __future__ import annotations

import re
import typing as t

from gateway_accounts import Account
from pydantic import BaseModel, Field, conint

# Bytes; a job's data belongs into files.
SCRIPT_LIMIT = 512 * 1024

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
# Control characters end a line somewhere, % begins a replacement of SLURM's in the name of a file.
DIRECTORY = re.compile(r"/[^\x00-\x1f\x7f%\\]{0,1023}")

# SLURM's way to write "none" in a number.
UNSET = 0xFFFFFFF0

# States in which a job still changes; all others are an end.
UNENDED = ("pending", "configuring", "running", "completing", "suspended", "requeued", "requeue_hold", "resizing", "signaling", "stage_out")

Record = t.Dict[str, t.Any]

# Numbers within bounds. Strict, as true would be 1 and "1" too. A type checker reads no call as a type, so it sees plain numbers;
# pydantic 1 has no other way to say both strict and bounds.
if t.TYPE_CHECKING:
    GpuCount = int
    CpuCount = int
    Mebibytes = int
    Minutes = int
else:
    GpuCount = conint(strict=True, ge=0, le=1024)
    CpuCount = conint(strict=True, ge=1, le=65536)
    Mebibytes = conint(strict=True, ge=1, le=1 << 30)
    Minutes = conint(strict=True, ge=1, le=525600)


class NewJob(BaseModel, extra="forbid"):
    """The wanted job. It runs on one node."""

    script: str = Field(..., min_length=3, max_length=SCRIPT_LIMIT, description="Begins with '#!'. Lines with #SBATCH count for nothing.")
    name: str = Field("job", description="Letters, digits and '._-', 64 at most.")
    partition: str | None = Field(None, description="The cluster's default if absent.")
    account: str | None = Field(None, description="Account that is charged; the user's default if absent.")
    gpus: GpuCount = Field(0)
    gpu_type: str | None = Field(None, description="One of the types in the resources; any if absent.")
    cpus: CpuCount = Field(1)
    memory_mib: Mebibytes | None = Field(None, description="The partition's default if absent.")
    time_limit_minutes: Minutes | None = Field(None, description="The partition's default if absent.")
    environment: dict[str, str] = Field({}, description="Variables beside PATH, HOME, USER, LOGNAME and SHELL.")
    working_directory: str | None = Field(None, description="Absolute path; the user's home directory if absent.")


class Submitted(BaseModel):
    id: int


class Gpus(BaseModel):
    type: str | None = Field(..., description="null where SLURM knows no type.")
    count: int


class Job(BaseModel):
    id: int
    name: str
    state: str = Field(..., description="SLURM's state in small letters, such as pending, running, completed, failed, cancelled, timeout.")
    ended: bool
    reason: str | None = Field(..., description="Why it waits or ended.")
    exit_code: int | None
    partition: str
    account: str
    nodes: str
    gpus: list[Gpus] = Field(..., description="What was granted, before that what was asked for.")
    submitted: int | None = Field(..., description="Seconds since 1970, as all times.")
    started: int | None
    finished: int | None
    time_limit_minutes: int | None
    working_directory: str


class Jobs(BaseModel):
    jobs: list[Job]


class Output(BaseModel):
    text: str = Field(..., description="A part of the job's output; what is not UTF-8 is replaced.")
    size: int = Field(..., description="Bytes that the output has now.")
    next_offset: int = Field(..., description="Offset to go on with; equal to size at the end.")


class GpuType(BaseModel):
    type: str | None
    total: int
    free: int = Field(..., description="On nodes that take jobs now.")
    per_node: int = Field(..., description="The most that one job can have, as a job runs on one node.")


class Partition(BaseModel):
    name: str
    up: bool
    nodes: int
    cpus_per_node: int = Field(..., description="Of the largest node, as memory_mib_per_node.")
    memory_mib_per_node: int
    max_time_minutes: int | None = Field(..., description="null: no limit.")
    default_time_minutes: int | None
    gpus: list[GpuType]


class AccountLimits(BaseModel):
    account: str
    max_jobs: int | None = Field(..., description="Jobs of the caller's that run at a time; null: no limit of the caller's own.")
    max_submitted: int | None
    gpus: list[Gpus] = Field(..., description="The most that the caller's jobs can have together; a type of null is all types.")


class Resources(BaseModel):
    partitions: list[Partition]
    accounts: list[AccountLimits]


class Invalid(Exception):
    """What was asked for can't be; one sentence."""


def problems(job: NewJob) -> str:
    """What is wrong with a job beyond its types; empty if nothing is."""
    if not job.script.startswith("#!"):
        return "script must begin with '#!' and the path of an interpreter."
    if "\0" in job.script:
        return "script has a zero byte."
    for key in ("name", "partition", "account", "gpu_type"):
        value = getattr(job, key)
        if value is not None and not NAME.fullmatch(value):
            return f"{key} may have letters, digits and '._-', 64 at most."
    if job.gpu_type and not job.gpus:
        return "gpu_type needs gpus, their number."
    if len(job.environment) > 256 or sum(len(key) + len(value) for key, value in job.environment.items()) > 65536:
        return "environment may have 256 variables and 64 KiB at most."
    for key, value in job.environment.items():
        if not VARIABLE.fullmatch(key) or "\0" in value:
            return "environment has a name that is none of a variable, or a value with a zero byte."
    if job.working_directory is not None and not DIRECTORY.fullmatch(job.working_directory):
        return "working_directory must be an absolute path without control characters, '%' and backslashes."
    return ""


def output_path(directory: str, job: int) -> str:
    """Where the output of a job that came by this interface is."""
    return f"{directory.rstrip('/')}/slurm-{job}.out"


def submission(job: NewJob, account: Account, version: int) -> Record:
    """The body that asks slurmrestd of an interface's version for a job."""
    directory = job.working_directory or account.home
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": account.home,
        "USER": account.name,
        "LOGNAME": account.name,
        "SHELL": account.shell,
        **job.environment,
    }
    wanted: Record = {
        "name": job.name,
        "current_working_directory": directory,
        "standard_output": f"{directory.rstrip('/')}/slurm-%j.out",
        "tasks": 1,
        "cpus_per_task": job.cpus,
    }
    if job.partition is not None:
        wanted["partition"] = job.partition
    if job.account is not None:
        wanted["account"] = job.account
    gpus = ":".join(word for word in ("gpu", job.gpu_type, str(job.gpus)) if word) if job.gpus else ""
    numbers = {"memory_per_node": job.memory_mib, "time_limit": job.time_limit_minutes}
    given = {key: value for key, value in numbers.items() if value is not None}
    if version < 40:
        wanted.update(given)
        wanted["environment"] = environment
        if gpus:
            wanted["gres"] = gpus
        return {"script": job.script, "job": wanted}
    wanted.update({key: {"set": True, "infinite": False, "number": value} for key, value in given.items()})
    wanted["environment"] = [f"{key}={value}" for key, value in environment.items()]
    if gpus:
        wanted["tres_per_node"] = f"gres/{gpus}"
    return {"job": {**wanted, "script": job.script}}


def number(value: t.Any) -> int | None:
    """Read a number that SLURM may write as such, as an object or as a word for none."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < UNSET else None


def instant(value: t.Any) -> int | None:
    """Seconds since 1970; SLURM writes 0 for not yet."""
    return number(value) or None


def words(value: t.Any) -> list[str]:
    """States and flags, which older versions write as one word."""
    found = value if isinstance(value, list) else str(value or "").replace(",", " ").split()
    return [str(word).lower() for word in found]


def state_of(value: t.Any) -> tuple[str, bool]:
    """Return a job's state, and whether that is an end.

    It is no end while the node still cleans up, as more output may come.
    """
    found = words(value) or ["unknown"]
    return ("completing" if "completing" in found else found[0]), not set(UNENDED) & set(found)


def text(value: t.Any) -> str:
    return value if isinstance(value, str) else ""


def reason_of(value: t.Any) -> str | None:
    return None if text(value) in ("", "None") else text(value)


def exit_code_of(value: t.Any) -> int | None:
    """The program's own code; a program that a signal ended has none."""
    if isinstance(value, dict):
        return number(value.get("return_code"))
    # As wait(2) gives it.
    return (value >> 8) & 0xFF if isinstance(value, int) and value < UNSET and not value & 0x7F else None


def gpus_of(tres: t.Iterable[tuple[str, int]]) -> list[Gpus]:
    """GPUs among trackable resources: by type where there are types, else together."""
    counts = {name: count for name, count in tres if name == "gres/gpu" or name.startswith("gres/gpu:")}
    typed = {name: count for name, count in counts.items() if name != "gres/gpu"}
    return [Gpus(type=name.partition(":")[2] or None, count=count) for name, count in sorted((typed or counts).items())]


def tres_of_text(value: t.Any) -> list[tuple[str, int]]:
    """From cpu=1,mem=1G,gres/gpu:a100=1."""
    pairs = [word.split("=", 1) for word in text(value).split(",") if "=" in word]
    return [(name, int(count)) for name, count in pairs if count.isdigit()]


def tres_of_list(value: t.Any) -> list[tuple[str, int]]:
    """From the list of slurmdbd's records."""
    found = []
    for entry in value if isinstance(value, list) else []:
        name = "/".join(word for word in (text(entry.get("type")), text(entry.get("name"))) if word)
        found.append((name, number(entry.get("count")) or 0))
    return found


def job_of_controller(own: Record) -> Job:
    """A job as slurmctld reports it."""
    state, ended = state_of(own.get("job_state"))
    return Job(
        id=int(own["job_id"]),
        name=text(own.get("name")),
        state=state,
        ended=ended,
        reason=reason_of(own.get("state_reason")),
        exit_code=exit_code_of(own.get("exit_code")) if ended else None,
        partition=text(own.get("partition")),
        account=text(own.get("account")),
        nodes=text(own.get("nodes")),
        gpus=gpus_of(tres_of_text(own.get("tres_alloc_str")) or tres_of_text(own.get("tres_req_str"))),
        submitted=instant(own.get("submit_time")),
        # Of a waiting job it is a guess, and so is the end of a running one.
        started=None if state == "pending" else instant(own.get("start_time")),
        finished=instant(own.get("end_time")) if ended else None,
        time_limit_minutes=number(own.get("time_limit")),
        working_directory=text(own.get("current_working_directory")),
    )


def job_of_database(own: Record) -> Job:
    """A job as slurmdbd remembers it."""
    states, times, tres = own.get("state") or {}, own.get("time") or {}, own.get("tres") or {}
    state, ended = state_of(states.get("current"))
    return Job(
        id=int(own["job_id"]),
        name=text(own.get("name")),
        state=state,
        ended=ended,
        reason=reason_of(states.get("reason")),
        exit_code=exit_code_of(own.get("exit_code")) if ended else None,
        partition=text(own.get("partition")),
        account=text(own.get("account")),
        nodes="" if text(own.get("nodes")) == "None assigned" else text(own.get("nodes")),
        gpus=gpus_of(tres_of_list(tres.get("allocated")) or tres_of_list(tres.get("requested"))),
        submitted=instant(times.get("submission")),
        started=instant(times.get("start")),
        finished=instant(times.get("end")) if ended else None,
        time_limit_minutes=number(times.get("limit")),
        working_directory=text(own.get("working_directory")),
    )


def newest(jobs: t.Iterable[Job]) -> list[Job]:
    """Return each job once, the newest first.

    slurmdbd has a record for each time that a job was queued again.
    """
    found = {job.id: job for job in sorted(jobs, key=lambda job: job.submitted or 0)}
    return [found[number] for number in sorted(found, reverse=True)]


def gres_counts(value: t.Any) -> dict[str | None, int]:
    """GPUs by type, from gpu:a100:2(S:0-1),shard:8 or gpu:a100:1(IDX:0)."""
    counts: dict[str | None, int] = {}
    for part in re.sub(r"\([^)]*\)", "", text(value)).split(","):
        name, *rest = part.split(":")
        if name == "gpu" and rest and rest[-1].isdigit():
            kind = rest[0] if len(rest) > 1 else None
            counts[kind] = counts.get(kind, 0) + int(rest[-1])
    return counts


# States and flags of a node on which no job can start now.
CLOSED = {"down", "drain", "error", "fail", "future", "invalid_reg", "maintenance", "not_responding", "planned", "powering_down"}
CLOSED |= {"reboot_issued", "reboot_requested", "unknown", "draining", "drained"}


def takes_jobs(node: Record) -> bool:
    return not CLOSED & {*words(node.get("state")), *words(node.get("state_flags"))}


def gpu_types(nodes: t.Sequence[Record]) -> list[GpuType]:
    found: dict[str | None, GpuType] = {}
    for node in nodes:
        used = gres_counts(node.get("gres_used"))
        for kind, count in gres_counts(node.get("gres")).items():
            entry = found.setdefault(kind, GpuType(type=kind, total=0, free=0, per_node=0))
            entry.total += count
            entry.per_node = max(entry.per_node, count)
            entry.free += max(count - used.get(kind, 0), 0) if takes_jobs(node) else 0
    return sorted(found.values(), key=lambda entry: entry.type or "")


def partitions(own: t.Sequence[Record], nodes: t.Sequence[Record]) -> list[Partition]:
    """Partitions with what their nodes have."""
    found = []
    for partition in own:
        name = text(partition.get("name"))
        members = [node for node in nodes if name in node_partitions(node)]
        maximum, default, state = partition_settings(partition)
        found.append(
            Partition(
                name=name,
                up="up" in state,
                nodes=len(members),
                cpus_per_node=max([number(node.get("cpus")) or 0 for node in members], default=0),
                memory_mib_per_node=max([number(node.get("real_memory")) or 0 for node in members], default=0),
                max_time_minutes=maximum,
                default_time_minutes=default,
                gpus=gpu_types(members),
            )
        )
    return sorted(found, key=lambda partition: partition.name)


def node_partitions(node: Record) -> list[str]:
    value = node.get("partitions")
    return [str(name) for name in value] if isinstance(value, list) else text(value).split(",")


def partition_settings(own: Record) -> tuple[int | None, int | None, list[str]]:
    """Longest and default time, and state, in either version's words.

    Only the older version says which one is the default.
    """
    if "maximums" in own:
        state = (own.get("partition") or {}).get("state")
        return number(own["maximums"].get("time")), number((own.get("defaults") or {}).get("time")), words(state)
    return number(own.get("max_time_limit")), number(own.get("default_time_limit")), words(own.get("state"))


def account_limits(associations: t.Sequence[Record], user: str) -> list[AccountLimits]:
    """A user's accounts with the limits of the user's own association in each."""
    found = {}
    for own in associations:
        if own.get("user") != user:
            continue
        limits = own.get("max") or {}
        jobs, tres = limits.get("jobs") or {}, limits.get("tres") or {}
        found[text(own.get("account"))] = AccountLimits(
            account=text(own.get("account")),
            max_jobs=number(jobs.get("active")),
            max_submitted=number(jobs.get("total")),
            gpus=gpus_of(tres_of_list(tres.get("total"))),
        )
    return [found[name] for name in sorted(found)]
