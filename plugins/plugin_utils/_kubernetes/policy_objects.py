# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The objects of the API that a policy becomes, and what of it no object can hold.

Pure functions, linear in the accounts.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import text_of
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import policy as kubernetes_policy
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import policy_rules
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.device_plugin import WHOLE
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.policy import Account, Policy, Qos, as_label
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.policy_rules import (
    ACCOUNT,
    ALLOWED_QOS,
    DEFAULT_QOS,
    PART,
    PER_JOB,
    Defaults,
)

USER_ROLE = "deephdc-accelerators-user"
NAME = "account"  # of what each namespace has; users read it in the sentences of the API server
SECURITY = "pod-security.kubernetes.io/"
SHOWN_AT_MOST = 10

ALL = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
READ = ("get", "list", "watch")
# What an account has in its namespace. Not there: quotas, limits, roles, bindings; ephemeral containers, which change pods of others;
# subresources that go around the rules (binding, scale, proxy); tokens of service accounts; DaemonSets; and all that is not in a namespace.
USER_RULES = (
    ("", ("pods", "services", "configmaps", "secrets", "persistentvolumeclaims"), ALL),
    ("", ("pods/log", "pods/status", "events", "resourcequotas", "limitranges", "serviceaccounts"), READ),
    ("", ("pods/exec", "pods/attach", "pods/portforward"), ("get", "create")),
    ("apps", ("deployments", "statefulsets"), ALL),
    ("apps", ("replicasets", "deployments/status", "statefulsets/status"), READ),
    ("batch", ("jobs", "cronjobs"), ALL),
    ("batch", ("jobs/status", "cronjobs/status"), READ),
    ("events.k8s.io", ("events",), READ),
    ("resource.k8s.io", ("resourceclaims", "resourceclaimtemplates"), ALL),
    ("kueue.x-k8s.io", ("localqueues", "workloads"), READ),
    ("metrics.k8s.io", ("pods",), READ),
)
# How many objects of each kind an account may have, by default. All objects of a cluster share etcd's few gigabytes.
# No request can write when it is full.
OBJECTS = {
    "configmaps": 100,
    "secrets": 100,
    "services": 100,
    "persistentvolumeclaims": 100,
    "count/pods": 5000,
    "count/jobs.batch": 5000,
    "count/cronjobs.batch": 100,
    "count/deployments.apps": 100,
    "count/statefulsets.apps": 100,
    "count/replicasets.apps": 1500,  # of 100 Deployments, with ten former ones each
    "count/controllerrevisions.apps": 1500,  # of 100 StatefulSets, the same; each has a copy of the pod
    "count/resourceclaims.resource.k8s.io": 5000,
    "count/resourceclaimtemplates.resource.k8s.io": 100,
}
# Of these, each pod or Job has one.
OF_JOBS = ("count/pods", "count/resourceclaims.resource.k8s.io")
# What a namespace may still get of which account the policy no longer has.
NOTHING = (
    *("pods", "services", "configmaps", "secrets", "persistentvolumeclaims"),
    *("count/jobs.batch", "count/cronjobs.batch", "count/deployments.apps", "count/statefulsets.apps", "count/replicasets.apps"),
    *("count/controllerrevisions.apps", "count/resourceclaims.resource.k8s.io", "count/resourceclaimtemplates.resource.k8s.io"),
)

Dictionary = t.Dict[str, t.Any]


class Cluster(t.NamedTuple):
    """What the objects need to know of the cluster.

    :param types: the extended resources that its nodes offer, each with the types of GPU that it may be.
    :param device_classes: those of dynamic resource allocation, whose devices count as GPUs, the same way.
    :param security: the level of Pod Security that is enforced.
    :param objects: how many objects of each kind an account may have. given: the kinds of which the site said it.
    """

    types: t.Mapping[str, t.Collection[str]]
    device_classes: t.Mapping[str, t.Collection[str]] = {}
    security: str = "baseline"
    defaults: Defaults = Defaults(1, 1024)
    tolerations: t.Sequence[str] = ()
    objects: t.Mapping[str, int] = OBJECTS
    given: t.Collection[str] = ()


def _several(cluster: Cluster) -> bool:
    """Whether GPUs are counted in several ways, so that no quota has their sum.

    A whole one counts the same in its class.
    """
    return len(cluster.types.keys() | {WHOLE}) > 1 or len(cluster.device_classes) > 1


def number(count: int) -> str:
    """A whole number as the API server itself writes it, so that both can be compared."""
    for unit in ("", "k", "M", "G", "T", "P"):
        if count % 1000 or not count or unit == "P":
            return f"{count}{unit}"
        count //= 1000
    raise AssertionError("not reached, as P is the last unit")


def memory(mebibytes: int) -> str:
    """MiB as the API server itself writes them, so that both can be compared."""
    for unit in ("Mi", "Gi", "Ti"):
        if mebibytes % 1024 or unit == "Ti":
            return f"{mebibytes}{unit}" if mebibytes else "0"
        mebibytes //= 1024
        if not mebibytes:
            return "0"
    raise AssertionError("not reached, as Ti is the last unit")


def resources_of(cluster: Cluster) -> list[str]:
    """The resources that count as GPUs; whole ones also where no node has them now."""
    return sorted({WHOLE, *cluster.types})


def _most(account: Account, types: t.Collection[str]) -> list[int]:
    """The limits of an account that hold for what is of these types.

    A limit by type can be held where a resource is of that type alone, such as a size of MIG instances.
    """
    numbers = [] if account.limits.gpus is None else [account.limits.gpus]
    if types and account.limits.gpus_by_type.keys() >= set(types):
        numbers.append(sum(account.limits.gpus_by_type[one] for one in set(types)))
    return numbers


def gpus_of(account: Account, cluster: Cluster) -> dict[str, str]:
    """Return the lines of a quota for all that counts as GPUs.

    They say how many of each the account may have at once.
    """
    lines = {f"requests.{name}": _most(account, cluster.types.get(name) or ()) for name in resources_of(cluster)}
    lines.update({f"{name}.deviceclass.resource.k8s.io/devices": _most(account, types) for name, types in cluster.device_classes.items()})
    return {line: number(min(numbers)) for line, numbers in lines.items() if numbers}


def quota(account: Account, cluster: Cluster) -> dict[str, str]:
    """The hard limits of an account's namespace."""
    limits = account.limits
    # A default is no less than what the account may have by its policy.
    least = max(limits.jobs or 0, limits.submitted_jobs or 0)
    objects = {
        name: max(count, least) if name in OF_JOBS and name not in cluster.given else count for name, count in cluster.objects.items()
    }
    result = {"services.nodeports": "0", "services.loadbalancers": "0", **{name: number(count) for name, count in objects.items()}}
    result.update(gpus_of(account, cluster))
    for name, value in (("cpu", limits.cpus), ("memory", limits.memory)):
        if value is not None:
            text = memory(value) if name == "memory" else number(value)
            result.update({f"requests.{name}": text, f"limits.{name}": text})
    if limits.jobs is not None:
        result["pods"] = number(limits.jobs)
    if limits.submitted_jobs is not None:
        result["count/jobs.batch"] = number(limits.submitted_jobs)
    return dict(sorted(result.items()))


def container_defaults(account: Account, cluster: Cluster) -> Dictionary:
    """Return what a container gets that names nothing.

    It is a request and, where the account has a limit, no more than that.
    """
    limits, job = account.limits, account.per_job
    asked: dict[str, str] = {}
    bound: dict[str, str] = {}
    for name, default, most in (
        ("cpu", cluster.defaults.cpus, [limits.cpus, job.cpus]),
        ("memory", cluster.defaults.memory, [limits.memory, job.memory]),
    ):
        numbers = [one for one in most if one is not None]
        value = min([default, *numbers])
        asked[name] = memory(value) if name == "memory" else number(value)
        if numbers:
            bound[name] = asked[name]
    return {"type": "Container", "defaultRequest": asked, **({"default": bound} if bound else {})}


def _object(version: str, kind: str, name: str, namespace: str = "", **more: t.Any) -> Dictionary:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": dict(PART)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def namespace(account: Account, cluster: Cluster) -> Dictionary:
    result = _object("v1", "Namespace", account.namespace)
    result["metadata"]["labels"].update(
        {ACCOUNT: account.namespace, **{f"{SECURITY}{mode}": cluster.security for mode in ("enforce", "warn")}}
    )
    notes = {ACCOUNT: account.name, ALLOWED_QOS: ",".join(as_label(name) for name in account.qos)}
    if account.default_qos:
        notes[DEFAULT_QOS] = as_label(account.default_qos)
    for key in ("gpus", "cpus", "memory", "wall"):
        value = getattr(account.per_job, key)
        if value is not None:
            notes[PER_JOB + key] = str(value)
    if account.description:
        notes["kubernetes.io/description"] = account.description
    result["metadata"]["annotations"] = notes
    return result


def binding(account: Account) -> Dictionary:
    group = "rbac.authorization.k8s.io"
    names = [*(("Group", name) for name in account.groups), *(("User", name) for name in account.users)]
    return _object(
        f"{group}/v1",
        "RoleBinding",
        NAME,
        account.namespace,
        roleRef={"apiGroup": group, "kind": "ClusterRole", "name": USER_ROLE},
        subjects=[{"apiGroup": group, "kind": kind, "name": name} for kind, name in dict.fromkeys(names)],
    )


def empty_quota(space: str) -> Dictionary:
    """Return the quota of a namespace whose account the policy does not have.

    What runs goes on, and nothing begins.
    """
    return _object("v1", "ResourceQuota", NAME, space, spec={"hard": dict.fromkeys(NOTHING, "0")})


def user_role() -> Dictionary:
    rules = [{"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)} for group, resources, verbs in USER_RULES]
    return _object("rbac.authorization.k8s.io/v1", "ClusterRole", USER_ROLE, rules=rules)


def priority_class(qos: Qos) -> Dictionary:
    """It orders pods that wait, and never ends one that runs."""
    return _object(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        as_label(qos.name),
        value=qos.priority,
        globalDefault=False,
        preemptionPolicy="Never",
        description=qos.description or f"QOS {qos.name}",
    )


def objects(policy: Policy, cluster: Cluster) -> list[Dictionary]:
    """Return all objects in the order in which they are made.

    The rules come before those who may submit.
    """
    result = [user_role(), *map(priority_class, policy.qos)]
    result += policy_rules.objects(policy.qos, cluster.defaults, cluster.tolerations)
    result += [namespace(account, cluster) for account in policy.accounts]
    for account in policy.accounts:
        result.append(_object("v1", "ResourceQuota", NAME, account.namespace, spec={"hard": quota(account, cluster)}))
        result.append(_object("v1", "LimitRange", NAME, account.namespace, spec={"limits": [container_defaults(account, cluster)]}))
    return result + [binding(account) for account in policy.accounts]


# What nothing enforces

REASONS = {
    "partitions": "Kubernetes has no partitions",
    "organization": "Kubernetes has no place for it",
    "fairshare": "the scheduler of Kubernetes shares nothing out",
    "users_from": "name the groups of the identity service in groups",
    "coordinators": "only administrators change accounts",
    "default": "a user chooses the account by the namespace",
    "per_user": "Kubernetes counts what a namespace has, not what a user has; only per_job in it is held, for all users alike",
    "of a user": "Kubernetes counts what a namespace has, not what a user has",
    "qos of a user": "a namespace does not see who uses a QOS",
    "nodes": "Kubernetes counts no nodes",
    "gpu_minutes": "Kubernetes keeps no account of what was used",
    "cpu_minutes": "Kubernetes keeps no account of what was used",
    "gpus by type": "a quota sees the resource, which nodes of several types offer",
    "per_job by type": "a rule sees the resource, not the type",
    "limits of a parent": "each namespace below it has that limit for itself, their sum has none",
    "gpus of several resources": "each of them has that limit for itself, their sum has none",
    "limits of a QOS": "a quota by priority class knows no GPUs; only per_job of a QOS is held",
    "flags": "they are SLURM's",
    "preempt": "no pod is ended for another one",
    "usage_factor": "Kubernetes keeps no account of what was used",
    "priority": f"a priority class ends at {kubernetes_policy.MOST_PRIORITY}, which it gets",
}

Place = t.Tuple[str, str, str]  # key of REASONS, the key in the policy, whose it is


def _in_limits(limits: t.Mapping[str, t.Any], whose: str) -> t.Iterator[Place]:
    """Keys of limits that mean nothing here, whosever they are."""
    for key in ("nodes", *kubernetes_policy.MINUTES):
        if key in limits:
            yield key, f"limits.{key}", whose
        if key in (limits.get("per_job") or {}):
            yield key, f"limits.per_job.{key}", whose
    if isinstance((limits.get("per_job") or {}).get("gpus"), t.Mapping):
        yield "per_job by type", "limits.per_job.gpus", whose


def _of_accounts(given: t.Mapping[str, t.Any], policy: Policy, cluster: Cluster) -> t.Iterator[Place]:
    settled = {account.name: account for account in policy.accounts}
    parents = {account.parent for account in policy.accounts}
    for account in given.get("accounts") or []:
        name = kubernetes_policy.name_of(account["name"])
        whose, limits = f"account {name}", account.get("limits") or {}
        for key in ("organization", "fairshare", "users_from", "coordinators"):
            if account.get(key):
                yield key, key, whose
        yield from _in_limits(limits, whose)
        each = limits.get("per_user") or {}
        if any(key != "per_job" for key in each):
            yield "per_user", "limits.per_user", whose
        yield from _in_limits({"per_job": each.get("per_job") or {}}, whose)
        untyped = {one for types in cluster.types.values() for one in types if settled[name].limits.gpus_by_type.keys() >= set(types)}
        if isinstance(limits.get("gpus"), t.Mapping) and set(settled[name].limits.gpus_by_type) - untyped:
            yield "gpus by type", "limits.gpus", whose
        elif "gpus" in limits and _several(cluster) and settled[name].limits.gpus:
            yield "gpus of several resources", "limits.gpus", whose
        if name in parents:
            for key in ("gpus", "cpus", "memory", "jobs", "submitted_jobs"):
                if limits.get(key) not in (None, kubernetes_policy.UNLIMITED):
                    yield "limits of a parent", f"limits.{key}", whose
        for user in kubernetes_policy.users_of(account):
            who = f"user {text_of(user['name'])} in {name}"
            for key in ("qos", "default_qos"):
                if user.get(key):
                    yield "qos of a user", key, who
            if user.get("default"):
                yield "default", "default", who
            if user.get("fairshare"):
                yield "of a user", "fairshare", who
            if user.get("limits"):
                yield "of a user", "limits", who


def _of_qos(given: t.Mapping[str, t.Any]) -> t.Iterator[Place]:
    for entry in given.get("qos") or []:
        whose = f"QOS {kubernetes_policy.name_of(entry['name'])}"
        limits = entry.get("limits") or {}
        for key in ("flags", "preempt", "usage_factor"):
            if entry.get(key):
                yield key, key, whose
        if (entry.get("priority") or 0) > kubernetes_policy.MOST_PRIORITY:
            yield "priority", "priority", whose
        for key in limits:
            if key != "per_job":
                yield "limits of a QOS", f"limits.{key}", whose
        yield from _in_limits({"per_job": limits.get("per_job") or {}}, whose)


def unenforced(given: t.Mapping[str, t.Any], policy: Policy, cluster: Cluster, elsewhere: t.Collection[str] = ()) -> list[str]:
    """One sentence for each kind of setting that nothing holds, with whose it is.

    :param given: the policy as it is written. elsewhere: keys of REASONS that something else enforces, such as a queue.
    """
    places: list[Place] = [("partitions", "partitions", text_of(entry.get("name"))) for entry in given.get("partitions") or []]
    places += [*_of_accounts(given, policy, cluster), *_of_qos(given)]
    grouped: dict[tuple[str, str], list[str]] = {}
    for reason, key, whose in places:
        if reason not in elsewhere:
            grouped.setdefault((reason, key), []).append(whose)
    result = []
    for (reason, key), names in grouped.items():
        more = f" and {len(names) - SHOWN_AT_MOST} more" if len(names) > SHOWN_AT_MOST else ""
        result.append(f"{key} of {', '.join(names[:SHOWN_AT_MOST])}{more} is not enforced by Kubernetes: {REASONS[reason]}.")
    return result
