# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What the controllers of a SLURM cluster report before a host is changed.

Pure functions.
"""

from __future__ import annotations

import typing as t

# Without the state, slurmctld knows no job and ends all that still run.
LOSS = "without it slurmctld would end every job"


def told(
    results: t.Sequence[t.Mapping[str, t.Any]],
    directory: str,
    needed_mib: int,
    cluster: str = "",
    accounted: t.Sequence[t.Mapping[str, t.Any]] = (),
    confirmed: t.Collection[str] = (),
) -> dict[str, t.Any]:
    """One view of what slurm_record_info returned in a loop over the controllers.

    cluster: slurm_cluster_name. accounted: what slurm_database_info returned in a loop over the hosts of slurmdbd.
    confirmed: names from slurm_cluster_end_jobs_in; the cluster's own lets it begin without a state.
    Returns answering (inventory names), configured (those of them that have a slurm.conf), record (the newest), ports, databases and
    partitions (of the present configuration), jobs (as _slurm_jobs.summary, None where slurmctld does not answer),
    errors (sentences that stop the run), lost (those that a restored backup or a moved controller heals), forgotten (the same where
    slurmdbd does not know the cluster) and move: empty, or where the
    state is copied from (host, from) and on which hosts slurmctld runs (stop).
    """
    # Some connections report a host that is down as a failure of the task.
    answers = {str(result["item"]): result for result in results if "state" in result}
    silent = [str(result["item"]) for result in results if "state" not in result]
    unread = [f"{result['item']}: {result['msg']}" for result in results if "unreadable" in result]
    if not answers or unread:
        sentence = f"No host of slurm_controllers answers ({', '.join(silent)}): bring one up, then run again."
        nothing: dict[str, t.Any] = {
            "answering": [],
            "configured": [],
            "record": "",
            "ports": {},
            "shapes": {},
            "databases": [],
            "partitions": [],
            "jobs": None,
            "lost": [],
            "forgotten": [],
            "move": {},
        }
        return {**nothing, "errors": unread or [sentence]}
    # One that was away while the others were changed has an older record.
    newest = max(answers.values(), key=lambda result: float(result["recorded_at"]))
    states = {host: result["state"] for host, result in answers.items()}
    sources = [host for host, state in states.items() if state["former"] and state["former"] != directory and state["former_is"] != ""]
    errors = name_errors({host: result["cluster"] for host, result in answers.items()}, cluster)
    errors += directory_errors(states, directory)
    errors += move_errors(states, directory, sources, silent) if sources else []
    needed = needed_mib + max((states[host]["former_mib"] for host in sources), default=0)
    errors += space_errors(states, directory, needed)
    move: dict[str, t.Any] = {}
    if sources and not errors:
        # Backups first, so that none takes over while the primary stops.
        running = [host for host, state in reversed(list(states.items())) if state["runs"]]
        move = {"host": sources[0], "from": states[sources[0]]["former"], "stop": running}
    return {
        "answering": list(answers),
        "configured": [host for host, state in states.items() if state["former"]],
        "record": newest["record"],
        "ports": known_ports(list(answers.values())),
        "shapes": known_ports(list(answers.values()), "shapes"),
        "databases": list(newest.get("databases") or []),
        "partitions": list(dict.fromkeys(name for result in answers.values() for name in result["partitions"])),
        "jobs": known_jobs(answers.values()),
        "errors": errors,
        "lost": lost(states, directory, cluster, accounted, confirmed) if not sources else [],
        "forgotten": [] if cluster in confirmed else forgotten(states, directory, cluster, accounted),
        "move": move,
    }


def lost(
    states: t.Mapping[str, t.Mapping[str, t.Any]],
    directory: str,
    cluster: str,
    accounted: t.Sequence[t.Mapping[str, t.Any]],
    confirmed: t.Collection[str],
) -> list[str]:
    """Why slurmctld would not know the cluster's jobs."""
    errors = moved_errors(states) or loss_errors(states, directory) or share_errors(states, directory)
    return errors or ([] if cluster in confirmed else stranger_errors(states, cluster, known_clusters(accounted)))


def known_clusters(accounted: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    return {name: of for answer in accounted for name, of in (answer.get("clusters") or {}).items()}


def moved_errors(states: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[str]:
    """Controllers whose state is out of date, as it was moved to another host."""
    return [
        f"{host} is in slurm_controllers, but its state moved to {state['moved_to']}, and {LOSS} that began since: put {state['moved_to']} "
        "back, or move the state with the playbook slurm_move_controller."
        for host, state in states.items()
        if state.get("moved_to")
    ]


def known_jobs(answers: t.Iterable[t.Mapping[str, t.Any]]) -> t.Mapping[str, t.Any] | None:
    """The jobs as one of the controllers knows them.

    A host that is no controller yet knows none.
    """
    configured = [answer["jobs"] for answer in answers if answer["partitions"]]
    return next((jobs for jobs in configured if jobs is not None), None if configured else {"partitions": {}, "nodes": {}})


def known_ports(answers: t.Sequence[t.Mapping[str, t.Any]], of_what: str = "ports") -> t.Mapping[str, t.Any]:
    """Return the ports, or shapes of nodes, that the daemons have.

    There are none without a controller.

    A host that was away while they changed has others in its slurm.conf, and reaches no slurmctld by them.
    """
    configured = [answer for answer in answers if answer["ports"]]
    return next((answer.get(of_what) or {} for answer in sorted(configured, key=lambda answer: answer["jobs"] is None)), {})


def name_errors(names: t.Mapping[str, str], cluster: str) -> list[str]:
    """Return controllers whose cluster has another name.

    slurmctld refuses its state then, and slurmdbd would keep the old one's jobs apart.
    """
    return [
        f"slurm_cluster_name is {cluster}, but {host} runs the cluster {name}, and a cluster can't be renamed: set it back to {name}. "
        "A new cluster of another name begins on hosts that have neither the slurm.conf nor the state of this one."
        for host, name in names.items()
        if cluster and name and name != cluster
    ]


def forgotten(
    states: t.Mapping[str, t.Mapping[str, t.Any]], directory: str, cluster: str, accounted: t.Sequence[t.Mapping[str, t.Any]]
) -> list[str]:
    """Return controllers with the state of a cluster that the accounting lacks.

    Added there once more, it would get another number, and slurmctld would refuse its state at its next start.
    """
    having = [host for host, state in states.items() if state["has_state"]]
    # A host that does not answer may know more.
    knows_all = bool(accounted) and all(answer.get("known") for answer in accounted)
    if not (having and knows_all and cluster) or cluster in known_clusters(accounted):
        return []
    return [
        f"{having[0]} has the state of the cluster {cluster}, but the accounting database does not know this cluster: its records are "
        "lost, or slurm_databases names another host than before. Put the former host back, or bring the records back with the playbook "
        "slurm_restore; nothing was changed. Without a backup, wait until no job runs, stop slurmctld on all controllers, and move "
        f"{directory} and /var/lib/deephdc/slurm_state there away: the cluster begins empty."
    ]


def stranger_errors(states: t.Mapping[str, t.Mapping[str, t.Any]], cluster: str, clusters: t.Mapping[str, t.Any]) -> list[str]:
    """Return controllers without a state of a cluster that has run jobs.

    They would begin with job 1 and end every job on the nodes.
    """
    known = clusters.get(cluster) or {}
    if not known.get("jobs") or any(state["has_state"] for state in states.values()):
        return []
    return [
        f"The cluster {cluster} has run {known['jobs']} jobs, its slurmctld was last at {known.get('control_host') or 'an unknown address'}"
        f", but {' and '.join(states)} in slurm_controllers {'have' if len(states) > 1 else 'has'} no state of it, and {LOSS}: put the "
        "former controller back, move it with the playbook slurm_move_controller, or bring a backup back with slurm_restore. To begin "
        f"without its jobs, name {cluster} in slurm_cluster_end_jobs_in."
    ]


def directory_errors(states: t.Mapping[str, t.Mapping[str, t.Any]], directory: str) -> list[str]:
    return [
        f"{host}: {directory} (slurm_controller_state_directory) is not empty and belongs to {state['foreign']}: "
        f"name a directory of its own, such as {directory}/slurm."
        for host, state in states.items()
        if state["foreign"]
    ]


def space_errors(states: t.Mapping[str, t.Mapping[str, t.Any]], directory: str, needed: int) -> list[str]:
    return [
        f"{host}: the file system of {directory} has {state['free_mib']} MiB free, but slurmctld needs {needed} MiB to save its state: "
        "free space there, or set slurm_controller_state_free_mib lower; nothing was changed."
        for host, state in states.items()
        if state["free_mib"] < needed
    ]


def loss_errors(states: t.Mapping[str, t.Mapping[str, t.Any]], directory: str) -> list[str]:
    """Report a directory that is empty although slurmctld ran with it.

    That happens, for example, where the shared file system is not mounted.
    """
    return [
        f"{host}: {directory} has no state of slurmctld although slurmctld ran with it, and {LOSS}: mount its file system there, "
        "or restore a backup; to begin without the former jobs, remove /var/lib/deephdc/slurm_state there."
        for host, state in states.items()
        if state["started_with"] == directory and not state["has_state"]
    ]


def share_errors(states: t.Mapping[str, t.Mapping[str, t.Any]], directory: str) -> list[str]:
    """Return controllers that see another state than the others, or none.

    One that took over would know none of the jobs.
    """
    seen = {host: state["is"] for host, state in states.items()}
    known = [host for host in seen if seen[host] and states[host]["started_with"] == directory] or [host for host in seen if seen[host]]
    return [
        f"{host}: {directory} (slurm_controller_state_directory) has {'another' if seen[host] else 'no'} state of slurmctld, and that of "
        f"{known[0]} has one, so the controllers do not share it: mount the shared file system of {known[0]} there, then run again. "
        "Nothing was changed."
        for host in seen
        if known and seen[host] != seen[known[0]]
    ]


def move_errors(
    states: t.Mapping[str, t.Mapping[str, t.Any]], directory: str, sources: t.Sequence[str], silent: t.Sequence[str]
) -> t.Iterator[str]:
    """Why a state can't be moved.

    sources: hosts whose slurm.conf names another directory that has a state.
    """
    former = states[sources[0]]["former"]
    moves = f"slurm_controller_state_directory moves the state from {former} to {directory}"
    if len({(states[host]["former"], states[host]["former_is"]) for host in sources}) > 1:
        yield (
            f"{moves}, but {' and '.join(sources)} each have a state of their own: stop slurmctld where the outdated one is "
            "and move that one away, then run again."
        )
    if silent:
        yield (
            f"{moves}, but {', '.join(silent)} may run slurmctld and does not answer: bring it up, or take it out of "
            "slurm_controllers, then run again."
        )
    for host, state in states.items():
        if state["has_state"] and state["copied_from"] != former:
            yield (
                f"{moves}, but on {host} {directory} has a state already, and slurmctld runs with the other: "
                f"move the outdated one away, for example 'mv {directory} {directory}.old', then run again."
            )
            return
