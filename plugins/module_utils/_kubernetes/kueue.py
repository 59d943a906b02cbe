# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Kueue's own manifests with what a site wants of them: pure functions.

They also compare objects with what the API has.
"""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence, Tuple

Object = Dict[str, Any]
Key = Tuple[str, str, str]

NAMESPACE = "kueue-system"
CONTROLLER = "kueue-controller-manager"
CONFIG = "kueue-manager-config"
CONFIG_FILE = "controller_manager_config.yaml"
DIGEST = "accelerators.deephdc.org/configuration"  # of a pod: a new one makes the controller start again
HELD = "accelerators.deephdc.org/held"  # of a queue that the plan does not have any more
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
# Webhooks of Kueue's own objects; each other one is of a kind of jobs, and is called m or v, that kind, .kb.io.
OWN_WEBHOOKS = ("clusterqueue", "cohort", "resourceflavor", "workload")


class Wanted(NamedTuple):
    """What a site wants of the manifests."""

    image: str
    pull_policy: str
    replicas: int
    configuration: Mapping[str, Any]


def key(one: Mapping[str, Any]) -> Key:
    return one["kind"], one["metadata"].get("namespace") or "", one["metadata"]["name"]


def words(one: Mapping[str, Any]) -> str:
    """An object in words."""
    kind, space, name = key(one)
    return " ".join([kind, "/".join(filter(None, (space, name)))])


def adapted(manifests: Sequence[Object], wanted: Wanted, load: Callable[[str], Any]) -> List[Object]:
    """Return the manifests with what the site wants of them.

    These are the image, the configuration, a place on the control plane, and only the webhooks that are needed.
    A webhook that is not answered refuses what it is asked for, so each one without a use can only do harm.
    Those of jobs hold only in the namespaces whose jobs wait in queues.

    :param load: reads YAML.
    :raises ValueError: these are no manifests of Kueue.
    """
    found = copy.deepcopy([one for one in manifests if one])
    by_key = {key(one): one for one in found}
    config = by_key.get(("ConfigMap", NAMESPACE, CONFIG))
    deployment = by_key.get(("Deployment", NAMESPACE, CONTROLLER))
    if not config or not deployment or CONFIG_FILE not in (config.get("data") or {}):
        raise ValueError("These are not the manifests of Kueue: Deployment {0} or ConfigMap {1} is missing.".format(CONTROLLER, CONFIG))
    settings = {**(load(config["data"][CONFIG_FILE]) or {}), **wanted.configuration}
    text = json.dumps(settings, indent=2, sort_keys=True) + "\n"  # which is YAML, too
    config["data"][CONFIG_FILE] = text

    spec = deployment["spec"]
    spec["replicas"] = wanted.replicas
    spec["template"]["metadata"].setdefault("annotations", {})[DIGEST] = hashlib.sha256(text.encode()).hexdigest()[:16]
    pod = spec["template"]["spec"]
    here = {"key": CONTROL_PLANE, "operator": "Exists", "effect": "NoSchedule"}
    pod["tolerations"] = [*(pod.get("tolerations") or []), here]
    for container in pod["containers"]:
        if container["name"] == "manager":
            container.update({"image": wanted.image, "imagePullPolicy": wanted.pull_policy})

    kinds = {framework.rsplit("/", 1)[-1] for framework in (settings.get("integrations") or {}).get("frameworks") or []}
    selector = wanted.configuration.get("managedJobsNamespaceSelector")
    for one in found:
        if one["kind"] in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
            one["webhooks"] = [
                {**hook, **({"namespaceSelector": selector} if selector and kind not in OWN_WEBHOOKS else {})}
                for hook in one["webhooks"]
                for kind in [hook["name"].split(".")[0][1:]]
                if kind in OWN_WEBHOOKS or kind in kinds
            ]
    return found


def has(present: Any, wanted: Any) -> bool:
    """Return whether all that is wanted is there.

    Fields that the API or another program added count for nothing.
    """
    if isinstance(wanted, Mapping):
        return isinstance(present, Mapping) and all(
            has(present.get(name), value) if value not in (None, "", [], {}) else not present.get(name) for name, value in wanted.items()
        )
    if isinstance(wanted, (list, tuple)):
        return (
            isinstance(present, (list, tuple))
            and len(present) == len(wanted)
            and all(has(one, other) for one, other in zip(present, wanted))
        )
    return present == wanted


def differing(wanted: Sequence[Object], present: Mapping[Key, Object]) -> List[Object]:
    """What has to be written."""
    return [one for one in wanted if key(one) not in present or not has(present[key(one)], one)]


# In this order they can be removed: each is used by one before it.
KINDS = (
    "LocalQueue",
    "ClusterQueue",
    "Cohort",
    "ResourceFlavor",
    "WorkloadPriorityClass",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "RoleBinding",
    "ClusterRole",
)
QUEUES = ("LocalQueue", "ClusterQueue")


def jobs_in(one: Mapping[str, Any]) -> int:
    """How many jobs wait in a queue or run from it."""
    status = one.get("status") or {}
    return int(status.get("pendingWorkloads") or 0) + int(status.get("reservingWorkloads") or 0)


def is_to_go(one: Mapping[str, Any], purge: bool) -> bool:
    """Return whether what is left over is removed.

    Rights go at once, all else when that is asked for.
    """
    return purge or one["kind"] == "RoleBinding"


def stopped(one: Mapping[str, Any]) -> bool:
    return bool(((one.get("spec") or {}).get("stopPolicy") or "None") != "None")


def left_over(wanted: Sequence[Object], present: Mapping[Key, Object]) -> List[Object]:
    """What is ours and is not wanted any more, in the order of its removal."""
    names = {key(one) for one in wanted}
    found = [one for one in present.values() if key(one) not in names]
    return sorted(found, key=lambda one: (KINDS.index(one["kind"]) if one["kind"] in KINDS else len(KINDS), key(one)))


def users_of(one: Mapping[str, Any], present: Mapping[Key, Object]) -> List[str]:
    """What keeps an object from being removed, in words."""
    kind, _space, name = key(one)
    if kind in QUEUES and jobs_in(one):
        return ["{0} jobs".format(jobs_in(one))]
    found = []
    for other in present.values():
        spec = other.get("spec") or {}
        flavors = [flavor["name"] for group in spec.get("resourceGroups") or [] for flavor in group.get("flavors") or []]
        if (
            (kind == "ClusterQueue" and other["kind"] == "LocalQueue" and spec.get("clusterQueue") == name)
            or (kind == "Cohort" and name in (spec.get("cohortName"), spec.get("parentName")))
            or (kind == "ResourceFlavor" and name in flavors)
        ):
            found.append(words(other))
    return found


def as_text(objects: Sequence[Object]) -> Object:
    """Several objects as one, for a command's input."""
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def parsed(text: str) -> List[Object]:
    """The objects that a command printed: none, one or a list of them."""
    if not text.strip():
        return []
    said = json.loads(text)
    return list(said["items"]) if said["kind"] == "List" else [said]
