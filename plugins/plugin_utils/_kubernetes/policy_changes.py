# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What a cluster has of a policy, compared with what it should have.

Pure functions.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import policy_objects
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.manifests import OWNED
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.policy_rules import (
    ACCOUNT,
    ALLOWED_QOS,
    DEFAULT_QOS,
    PART,
    PER_JOB,
)

# The parts of an object that are compared as a whole; of metadata only what is ours.
CONTENT = ("spec", "rules", "subjects", "roleRef", "value", "globalDefault", "preemptionPolicy", "description")
SHOWN = 300

Dictionary = t.Dict[str, t.Any]
Key = t.Tuple[str, str, str]  # kind, namespace, name


def key_of(given: Dictionary) -> Key:
    metadata = given["metadata"]
    return given["kind"], metadata.get("namespace") or "", metadata["name"]


def is_ours(given: Dictionary, labels: t.Mapping[str, str] | None = None) -> bool:
    present = given["metadata"].get("labels") or {}
    return all(present.get(key) == value for key, value in (PART if labels is None else labels).items())


def _notes_of(kind: str, present: t.Mapping[str, str]) -> dict[str, str]:
    """Annotations of an object that are the policy's to remove."""
    if kind != "Namespace":
        return {}
    return {key: value for key, value in present.items() if key.startswith(PER_JOB) or key in (ALLOWED_QOS, DEFAULT_QOS)}


def _patch(wanted: t.Any, present: t.Any) -> t.Any:
    """A merge patch that makes one of the other: what is not wanted is null."""
    if not isinstance(wanted, dict) or not isinstance(present, dict):
        return wanted
    result: Dictionary = {key: None for key in present if key not in wanted}
    for key, value in wanted.items():
        if key not in present or present[key] != value:
            result[key] = _patch(value, present.get(key))
    return result


def difference(wanted: Dictionary, present: Dictionary) -> Dictionary:
    """The merge patch of an object that is there; empty where it is right."""
    result: Dictionary = {}
    for part in ("labels", "annotations"):
        have = present["metadata"].get(part) or {}
        want = wanted["metadata"].get(part) or {}
        changed: Dictionary = {key: value for key, value in want.items() if have.get(key) != value}
        if part == "annotations":
            changed.update({key: None for key in _notes_of(wanted["kind"], have) if key not in want})
        if changed:
            result.setdefault("metadata", {})[part] = changed
    for part in CONTENT:
        # The types of a template's values can't be made empty.
        empty: t.Any = [] if isinstance(wanted.get(part), (list, tuple)) else {} if isinstance(wanted.get(part), t.Mapping) else False
        if part in wanted and wanted[part] != (present.get(part) if present.get(part) is not None else empty):
            result[part] = _patch(wanted[part], present.get(part))
    return result


def _named(given: Dictionary) -> Dictionary:
    metadata = {key: given["metadata"][key] for key in ("name", "namespace") if given["metadata"].get(key)}
    return {"apiVersion": given["apiVersion"], "kind": given["kind"], "metadata": metadata}


def _label(given: Dictionary) -> str:
    kind, space, name = key_of(given)
    return f"{kind} {space}/{name}" if space else f"{kind} {name}"


def _short(value: t.Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def _lines(patch: t.Any, present: t.Any, way: str = "") -> t.Iterator[str]:
    """Each value that a patch changes, before and after."""
    if isinstance(patch, dict) and isinstance(present, dict):
        for key, value in patch.items():
            yield from _lines(value, present.get(key), f"{way}.{key}" if way else key)
    else:
        yield f"{way}: {_short(present)} -> {_short(patch)}"


def _is_fixed(given: Dictionary, patch: Dictionary) -> bool:
    """Whether the API server lets this part of an object never change."""
    return "roleRef" in patch or (given["kind"] == "PriorityClass" and not {"value", "preemptionPolicy"}.isdisjoint(patch))


def changes(
    present: t.Sequence[Dictionary], planned: t.Sequence[Dictionary], purge: bool = False, busy: t.Collection[str] = ()
) -> Dictionary:
    """What must be done so that a cluster has the policy.

    :param present: all namespaces and priority classes, and what else has the policy's labels or is a binding of the collection's.
    :param planned: the objects of the plan. busy: namespaces in which pods wait or run.
    :returns: conflicts (sentences), remove (names of objects), apply (objects and merge patches), differences (lines for people),
        left (what the policy does not name and still is there, sentences), leaving (namespaces of accounts that left).
    """
    have = {key_of(one): one for one in present}
    want = {key_of(one): one for one in planned}
    conflicts, remove, apply, lines, left = [], [], [], [], []
    for key, wanted in want.items():
        there = have.get(key)
        if there is None:
            apply.append(wanted)
            lines.append(f"{_label(wanted)}: is made")
            continue
        if key[0] in ("Namespace", "PriorityClass") and not is_ours(there):
            labels = " ".join(f"{name}={value}" for name, value in PART.items())
            conflicts.append(
                f"{_label(there)} is there already, and not of the policy: rename what the policy calls so,"
                f" or give it to the policy by kubectl label {key[0].lower()} {key[2]} {labels}."
            )
            continue
        if there["metadata"].get("deletionTimestamp"):
            conflicts.append(f"{_label(there)} is being removed: wait until it is gone, then run again.")
            continue
        patch = difference(wanted, there)
        if not patch:
            continue
        lines += [f"{_label(wanted)}: {line}" for line in _lines(patch, there)]
        if _is_fixed(wanted, patch):
            remove.append(_named(there))
            apply.append(wanted)
        else:
            metadata = {**_named(wanted)["metadata"], **patch.pop("metadata", {})}
            apply.append({**_named(wanted), "metadata": metadata, **patch})
    leaving = [key[2] for key, one in have.items() if key[0] == "Namespace" and key not in want and is_ours(one)]
    going = set()
    for space in leaving:
        there = have["Namespace", "", space]
        account = (there["metadata"].get("annotations") or {}).get(ACCOUNT) or space
        if there["metadata"].get("deletionTimestamp"):
            going.add(space)
        elif purge and space not in busy:
            going.add(space)
            remove.append(_named(there))
            lines.append(f"{_label(there)}: is removed")
        else:
            why = "pods or Jobs wait or run in it" if purge else "kubernetes_cluster_policy_purge is not set"
            left.append(f"{_label(there)} of account {account}, which the policy does not name: {why}. Nothing new can be submitted in it.")
    for key, there in have.items():
        kind, space = key[:2]
        if key in want or kind == "Namespace" or space in going:
            continue
        if kind == "RoleBinding":
            # Losing access is immediate, with purge or without.
            if is_ours(there) or (space in leaving and is_ours(there, OWNED)):
                remove.append(_named(there))
                lines.append(f"{_label(there)}: is removed, so that nothing new can be submitted")
        elif not is_ours(there) or space in leaving:
            continue
        elif purge:
            remove.append(_named(there))
            lines.append(f"{_label(there)}: is removed")
        else:
            left.append(f"{_label(there)}, which the policy does not name: kubernetes_cluster_policy_purge is not set.")
    for space in leaving:
        if space not in going:
            wanted = policy_objects.empty_quota(space)
            there = have.get(key_of(wanted))
            patch = difference(wanted, there) if there else {}
            if there is None:
                apply.append(wanted)
            elif patch:
                apply.append({**_named(wanted), "metadata": {**_named(wanted)["metadata"], **patch.pop("metadata", {})}, **patch})
            if there is None or patch:
                lines.append(f"{_label(wanted)}: nothing new can be submitted")
    return {"conflicts": conflicts, "remove": remove, "apply": apply, "differences": lines, "left": left, "leaving": leaving}


def _listed(answers: t.Any) -> list[str]:
    if not isinstance(answers, (list, tuple)) or not all(isinstance(answer, str) for answer in answers):
        raise ValueError("The answers of kubectl must be a list of texts, each a list of objects as JSON.")
    return list(answers)


def _items(answer: str) -> list[Dictionary]:
    try:
        items = json.loads(answer)["items"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"An answer of kubectl is no list of objects as JSON: {answer[:60]!r}.") from error
    return list(items)


def _is_unfinished_job(there: Dictionary) -> bool:
    """Return whether this is a Job that waits or runs.

    It may have no pod: Kueue suspends a Job that waits, and a Job has none between two tries. A CronJob makes its Jobs again and again, so
    these keep no namespace.
    """
    if there["kind"] != "Job" or any(owner.get("kind") == "CronJob" for owner in there["metadata"].get("ownerReferences") or []):
        return False
    conditions = (there.get("status") or {}).get("conditions") or []
    return not any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions)


def of_answers(answers: t.Iterable[str], policy: t.Mapping[str, t.Any]) -> Dictionary:
    """The changes, from what kubectl printed as JSON.

    :param policy: the plan of the policy. Where there is none, what the cluster has of one stays as it is.
    :raises ValueError: that is not what kubectl prints of a list.
    """
    present = [one for answer in _listed(answers) for one in _items(answer)]
    busy = {one["metadata"]["namespace"] for one in present if one["kind"] == "Pod" or _is_unfinished_job(one)}
    objects = [one for one in present if one["kind"] not in ("Pod", "Job")]
    if policy["managed"]:
        return changes(objects, policy["objects"], policy["purge"], busy)
    spaces = sorted(one["metadata"]["name"] for one in objects if one["kind"] == "Namespace" and is_ours(one))
    left = [f"The namespaces {', '.join(spaces)} are of a policy, but there is none now: they stay as they are."] if spaces else []
    return {"conflicts": [], "remove": [], "apply": [], "differences": [], "left": left, "leaving": []}
