# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""States of SLURM's nodes, and what an operator may do in each: pure functions.

The states are as scontrol(1) and squeue(1) print them.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.hostlist import expand, natural

# What begins a reason that the collection gave for unfit hardware, and takes back by itself.
MARK = "accelerators: "
# What begins a reason by which the role gpu_hold knows the nodes that it holds, and takes back by itself.
HOLD_MARK = "gpu_hold:"
# What begins a reason that a run of the playbook slurm gave, which closes nodes that go before it looks for their jobs.
INTAKE_MARK = "slurm: a run of the playbook slurm"
# What slurmctld itself gives as reason when a node's devices are fewer than configured.
SLURM_REASON = re.compile(r"gres/\w+ count")
# Why slurmctld itself takes a node for DOWN, until it registers.
SLURM_DOWN = re.compile(r"$|Not responding|Node unexpectedly rebooted")
# States in which the controller has not heard of the node; the flag "*" is NOT_RESPONDING in releases that print it short.
UNHEARD = re.compile(r"UNKNOWN|NOT_RESPONDING|\*")
# Not POWERED_DOWN, which is a node that power saving starts when a job needs it.
DOWN = re.compile(r"(?<!_)DOWN")
# States in which a node takes no new jobs until it is resumed.
AWAY = re.compile(r"DRAIN|(?<!_)DOWN|FAIL|INVAL|UNKNOWN|NOT_RESPONDING|\*|REBOOT")

# The states of jobs that occupy nodes, and the fields of squeue(1) that name such a job.
JOB_STATES = "RUNNING,SUSPENDED,COMPLETING,CONFIGURING,STAGE_OUT,STOPPED"
JOB_FORMAT = "%i|%u|%N|%e"


class Job(t.TypedDict):
    """A job on a node. end: when its time limit is over, on the controller's clock."""

    id: str
    user: str
    nodes: list[str]
    end: str


def parse(output: str) -> dict[str, dict[str, str]]:
    """State and reason by node name from `scontrol --oneliner show nodes`."""
    nodes = {}
    for line in output.splitlines():
        name = re.match(r"NodeName=(\S+)", line)
        if not name:
            continue
        state = re.search(r" State=(\S+)", line)
        # The reason may have blanks; it ends with who gave it and when, after which there may be more fields.
        reason = re.search(r" Reason=(.*?)(?: \[\S+@[0-9T:-]+\].*| Comment=.*| Extra=.*| ReservationName=.*)?\s*$", line)
        nodes[name.group(1)] = {"state": state.group(1) if state else "", "reason": reason.group(1) if reason else ""}
    return nodes


def parse_jobs(output: str) -> list[Job]:
    """Jobs from squeue in JOB_FORMAT."""
    rows = [line.split("|") for line in output.splitlines() if line.count("|") == 3]
    return [{"id": job, "user": user, "nodes": expand(nodes), "end": end} for job, user, nodes, end in rows if nodes]


def job_sentence(job: Job) -> str:
    """Who occupies what, and until when at the latest."""
    until = f"until {job['end']} at the latest" if re.match(r"\d", job["end"]) else "without a time limit"
    return f"job {job['id']} of {job['user']} on {', '.join(job['nodes'])} {until}"


def ours(node: t.Mapping[str, str]) -> bool:
    """Whether a node was drained for its hardware, by the collection or by slurmctld."""
    return node["reason"].startswith(MARK) or bool(SLURM_REASON.match(node["reason"]))


def marks(reason: str) -> list[str]:
    """Return who keeps a node away, by a reason that joins their texts.

    A person's comes first, as nothing takes that back by itself; then that of the role gpu_hold, of a run, last that of lost hardware.
    """
    return [part for part in re.split(rf" \+ (?={HOLD_MARK}|{INTAKE_MARK}|{MARK}|{SLURM_REASON.pattern})", reason) if part]


def joined(parts: t.Iterable[str]) -> str:
    """The reason of a node that is away for several marks."""
    return " + ".join(sorted(dict.fromkeys(parts), key=_rank))


def _rank(mark: str) -> int:
    if ours({"reason": mark}):
        return 3
    return 1 if mark.startswith(HOLD_MARK) else 2 if mark.startswith(INTAKE_MARK) else 0


def with_mark(node: t.Mapping[str, str], mark: str) -> str:
    """Return the reason of a node that gets one more mark.

    One mark of a kind is enough: the first one stays.
    """
    away = "DRAIN" in node["state"] or ((DOWN.search(node["state"]) or "FAIL" in node["state"]) and not SLURM_DOWN.match(node["reason"]))
    there = marks(node["reason"]) if away else []
    return joined(there if any(_rank(one) == _rank(mark) for one in there) else [*there, mark])


def without_mark(node: t.Mapping[str, str], mark: str = "", checked: bool = False) -> str:
    """Return the reason that is left when a mark goes; without one, a person's.

    A person does not give back what the role gpu_hold holds, nor lost hardware that was not looked at.

    checked: whether it is known that the node has its hardware.
    """
    if mark:
        return "" if node["reason"] == mark else joined(one for one in marks(node["reason"]) if not _is(one, mark))
    return joined(one for one in marks(node["reason"]) if one.startswith(HOLD_MARK) or (ours({"reason": one}) and not checked))


def _is(found: str, mark: str) -> bool:
    return found == mark or found.startswith(f"{mark} : ")


def is_for(node: t.Mapping[str, str], reason: str) -> bool:
    """Whether a node is away for this reason, among others.

    slurmctld may add its own after it, for example when the node does not answer.
    """
    return node["reason"] == reason or any(_is(one, reason) for one in marks(node["reason"]))


def unheard(node: t.Mapping[str, str]) -> bool:
    return bool(UNHEARD.search(node["state"]) or (DOWN.search(node["state"]) and SLURM_DOWN.match(node["reason"])))


def missing(nodes: t.Mapping[str, t.Mapping[str, str]], names: t.Iterable[str]) -> list[str]:
    """Nodes the controller has not heard of.

    One that a person set DOWN with a reason is not waited for.
    """
    return [name for name in names if name not in nodes or unheard(nodes[name])]


def given_up(node: t.Mapping[str, str]) -> bool:
    """Whether slurmctld set the node down because it did not answer.

    slurmctld does not ask such a node again, and slurmd registers only when it starts. So a node that answers again stays away
    until it is resumed.
    """
    state = node["state"]
    return bool(DOWN.search(state) and UNHEARD.search(state) and "DRAIN" not in state and SLURM_DOWN.match(node["reason"]))


def in_service(node: t.Mapping[str, str]) -> bool:
    return not AWAY.search(node["state"])


def obstacle(name: str, node: t.Mapping[str, str], unfit: str) -> str:
    """Why a node that is away can't be resumed now, with the remedy.

    Empty where it can.

    unfit: what is known to be wrong with its hardware.
    """
    if unfit:
        return f"{name} stays as it is, because {unfit}: repair it, then run again."
    if "INVAL" in node["state"]:
        told = node["reason"] or "no reason given"
        return (
            f"{name} stays as it is, because SLURM finds other hardware there than the configuration has ({told}): run the playbook slurm."
        )
    if "REBOOT" in node["state"]:
        return (
            f"{name} stays as it is, because a reboot of it is pending: wait for that, or call it off with 'scontrol cancel_reboot {name}'."
        )
    if UNHEARD.search(node["state"]):
        return f"{name} stays as it is, because the controller does not hear of it: start slurmd there, then run again."
    return ""


def reason_errors(variable: str, reason: t.Any) -> list[str]:
    """What is wrong with a reason that a person gives for taking nodes away."""
    if not isinstance(reason, str) or not reason.strip():
        return [f"{variable} is not set: say in one line why, other people read it in 'sinfo -R'."]
    if re.search(r"[\x00-\x1f\x7f]", reason):
        return [f"{variable} must be one line of text."]
    if ours({"reason": reason.strip()}):
        return [f"{variable} begins like the reasons that the playbook slurm takes back by itself: word it otherwise."]
    if HOLD_MARK in reason:
        return [f"{variable} has '{HOLD_MARK}' in it, by which the role gpu_hold knows the nodes that it holds: word it otherwise."]
    return []


def selection(
    variable: str, wanted: t.Any, groups: t.Mapping[str, t.Sequence[str]], in_play: t.Sequence[str], limited: bool
) -> tuple[list[str], list[str]]:
    """Return the inventory names of nodes that an operator means, and errors.

    The errors say what is wrong with the request.

    wanted: names of hosts or groups, or host lists such as gpu[1-3], as list or text; empty means the hosts of --limit.
    """
    nodes = list(groups.get("slurm_nodes", []))
    entries = [wanted] if isinstance(wanted, str) else wanted
    if not isinstance(entries, (list, tuple)) or not all(isinstance(entry, str) for entry in entries):
        return [], [f"{variable} must be a list of hosts or groups."]
    try:
        names = [name for entry in entries for name in expand(entry)]
    except ValueError as error:
        return [], [f"{variable}: {error}"]
    if not names and not limited:
        return [], [f"{variable} is not set: name hosts or groups of slurm_nodes, or give --limit."]
    hosts = [host for name in names for host in groups.get(name, [name])] if names else [host for host in nodes if host in in_play]
    errors = [
        f"{variable} names {host}, which is not in slurm_nodes: use the names of the inventory." for host in hosts if host not in nodes
    ]
    errors += [f"{variable} names {host}, which --limit leaves out." for host in hosts if host in nodes and host not in in_play]
    if not hosts and not errors:
        errors = [f"{variable} stands for no host."]
    return sorted(dict.fromkeys(hosts), key=natural), list(dict.fromkeys(errors))
