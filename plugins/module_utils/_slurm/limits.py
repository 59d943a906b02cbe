# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Limits in an operator's words and as sacctmgr(1) has them: pure functions.

An attribute is a setting of sacctmgr, such as GrpJobs, or one resource (TRES) of such a setting, such as
GrpTRES:gres/gpu. Its value is text, or None if it must not be set. Memory is in MiB, a wall time in minutes.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.shapes import unknown_keys
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import is_gpu_type

Attributes = t.Dict[str, t.Optional[str]]


class Scope(t.NamedTuple):
    """The settings of sacctmgr for one scope of limits; empty where SLURM has none."""

    tres: str
    minutes: str
    jobs: str
    submitted: str
    wall: str


GROUP = Scope("GrpTRES", "GrpTRESMins", "GrpJobs", "GrpSubmitJobs", "")
JOB = Scope("MaxTRESPerJob", "MaxTRESMinsPerJob", "", "", "MaxWall")
# All jobs of an account (with the accounts below it) or user together, and each single job.
ASSOCIATION = {"": GROUP, "per_job": JOB}
QOS = {
    "": GROUP,
    "per_job": JOB,
    "per_user": Scope("MaxTRESPerUser", "", "MaxJobsPerUser", "MaxSubmitJobsPerUser", ""),
    "per_account": Scope("MaxTRESPerAccount", "", "MaxJobsPerAccount", "MaxSubmitJobsPerAccount", ""),
}
# Key in the policy to TRES.
RESOURCES = {"gpus": "gres/gpu", "cpus": "cpu", "memory": "mem", "nodes": "node"}
MINUTES = {"gpu_minutes": "gres/gpu", "cpu_minutes": "cpu"}

UNLIMITED = "unlimited"
ANY = "any"
MEMORY = re.compile(r"([0-9]+)([MGT])(i?B)?", re.ASCII)
WALL = re.compile(r"(?:([0-9]+)-)?([0-9]+):([0-9]{2}):([0-9]{2})", re.ASCII)
# SLURM keeps 64-bit numbers; no site needs more than this.
LARGEST = 10**15


def keys(scope: Scope) -> list[str]:
    """The keys that an operator may write in a scope."""
    found = list(RESOURCES) if scope.tres else []
    found += list(MINUTES) if scope.minutes else []
    found += [key for key, setting in (("jobs", scope.jobs), ("submitted_jobs", scope.submitted), ("wall", scope.wall)) if setting]
    return found


def whole(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST


def value_error(where: str, key: str, value: t.Any) -> list[str]:
    """What is wrong with the value of one limit."""
    if value == UNLIMITED:
        return []
    if isinstance(value, t.Mapping) and key in ("gpus", "gpu_minutes"):
        if not value:
            return [f"{where} has no GPU type in {key}: write a number, or numbers by GPU type such as {{a100: 2}}."]
        found = []
        for gpu_type, number in value.items():
            if not is_gpu_type(gpu_type):
                found.append(f"{where} names {shown(gpu_type)} in {key}, which is no GPU type.")
            elif isinstance(number, t.Mapping):
                found.append(f"{where} needs a number for {gpu_type} in {key}.")
            else:
                found += value_error(where, f"{key} of type {gpu_type}", number)
        return found
    if key == "memory":
        if whole(value) or (isinstance(value, str) and MEMORY.fullmatch(value)):
            return []
        return [f"{where} has the memory {shown(value)}: write MiB as a number, or text such as '64G' (M, G or T)."]
    if key == "wall":
        match = WALL.fullmatch(value) if isinstance(value, str) else None
        if match and match.group(4) == "00":
            return []
        # YAML takes 12:00:00 for a number of seconds, and SLURM keeps minutes.
        return [f"{where} has the wall time {shown(value)}: write a time of whole minutes in quotes, such as '12:00:00' or '2-00:00:00'."]
    if whole(value):
        return []
    return [f"{where} has {shown(value)} as {key}: write a whole number from 0 on without a unit, or {UNLIMITED}."]


def limit_errors(where: str, limits: t.Any, scopes: t.Mapping[str, Scope], more: t.Sequence[str] = ()) -> list[str]:
    """What is wrong with a dictionary of limits.

    more: further scopes, checked by the caller.
    """
    if not isinstance(limits, t.Mapping):
        return [f"{where} needs a dictionary as limits, such as {{gpus: 4}}, not {shown(limits)}."]
    nested = [scope for scope in scopes if scope]
    found = unknown_keys(f"{where}: limits", limits, [*keys(scopes[""]), *nested, *more])
    for key, value in limits.items():
        if key in nested:
            if not isinstance(value, t.Mapping):
                found.append(f"{where} needs a dictionary as {key}, such as {{gpus: 1}}, not {shown(value)}.")
                continue
            found += unknown_keys(f"{where}: {key}", value, keys(scopes[key]))
            for inner, one in value.items():
                if inner in keys(scopes[key]):
                    found += value_error(f"{where}: {key}", inner, one)
        elif key in keys(scopes[""]):
            found += value_error(where, key, value)
    return found


def gpu_types(limits: t.Mapping[str, t.Any]) -> list[str]:
    """The GPU types that limits name."""
    found = []
    for key, value in limits.items():
        if key in ("gpus", "gpu_minutes") and isinstance(value, t.Mapping):
            found += [gpu_type for gpu_type in value if gpu_type != ANY]
        elif key.startswith("per_"):
            found += gpu_types(value)
    return found


def mebibytes(text: str) -> str:
    """Memory as SLURM or an operator writes it, in MiB; a number is MiB already."""
    match = re.fullmatch(r"([0-9.]+)([KMGTP]?)(i?B)?", text)
    if not match:
        return text
    return str(round(float(match.group(1)) * 1024.0 ** "KMGTP".index(match.group(2) or "M") / 1024))


def minutes(text: str) -> str:
    """A wall time as SLURM or an operator writes it, in minutes."""
    match = WALL.fullmatch(text)
    if not match:
        return text
    days, hours, rest, seconds = (int(part or 0) for part in match.groups())
    return str(days * 1440 + hours * 60 + rest + (1 if seconds else 0))


def wall(text: str) -> str:
    """Minutes as a wall time."""
    hours, rest = divmod(int(text), 60)
    days, hours = divmod(hours, 24)
    return f"{f'{days}-' if days else ''}{hours:02}:{rest:02}:00"


def number(key: str, value: t.Any) -> str | None:
    if value == UNLIMITED:
        return None
    return mebibytes(str(value)) if key == "memory" else minutes(value) if key == "wall" else str(value)


def by_type(tres: str, value: t.Any) -> dict[str, t.Any]:
    """TRES to value, of a limit that may be given by GPU type."""
    if isinstance(value, t.Mapping):
        return {tres if gpu_type == ANY else f"{tres}:{gpu_type}": one for gpu_type, one in value.items()}
    return {tres: value}


def attributes(limits: t.Mapping[str, t.Any], scopes: t.Mapping[str, Scope]) -> Attributes:
    """Limits that were found right, as sacctmgr's settings."""
    found: Attributes = {}
    for name, scope in scopes.items():
        own = limits if not name else limits.get(name) or {}
        for key, value in own.items():
            for words, setting in ((RESOURCES, scope.tres), (MINUTES, scope.minutes)):
                if key in words:
                    found.update({f"{setting}:{tres}": number(key, one) for tres, one in by_type(words[key], value).items()})
            for word, setting in (("jobs", scope.jobs), ("submitted_jobs", scope.submitted), ("wall", scope.wall)):
                if key == word:
                    found[setting] = number(key, value)
    return found


def limits_of(present: Attributes, scopes: t.Mapping[str, Scope]) -> dict[str, t.Any]:
    """The reverse of attributes: what an operator would write for these settings."""
    found: dict[str, t.Any] = {}
    for name, scope in scopes.items():
        own: dict[str, t.Any] = {}
        for words, setting in ((RESOURCES, scope.tres), (MINUTES, scope.minutes)):
            for key, tres in words.items():
                typed = {
                    attribute[len(f"{setting}:{tres}:") :]: int(value)
                    for attribute, value in present.items()
                    if setting and value is not None and attribute.startswith(f"{setting}:{tres}:")
                }
                total = present.get(f"{setting}:{tres}")
                if typed:
                    own[key] = {**typed, **({ANY: int(total)} if total is not None else {})}
                elif total is not None:
                    own[key] = int(total)
        for word, setting in (("jobs", scope.jobs), ("submitted_jobs", scope.submitted)):
            value = present.get(setting)
            if value is not None:
                own[word] = int(value)
        value = present.get(scope.wall)
        if value is not None:
            own["wall"] = wall(value)
        if name and own:
            found[name] = own
        elif not name:
            found.update(own)
    return found


def parse_tres(setting: str, text: str) -> Attributes:
    """Return the resources of one setting that a policy can name.

    text: as sacctmgr prints them.
    """
    found: Attributes = {}
    for part in text.split(","):
        tres, _equals, value = part.partition("=")
        if tres in RESOURCES.values() or tres.startswith("gres/gpu:"):
            found[f"{setting}:{tres}"] = mebibytes(value) if tres == "mem" else value
    return found
