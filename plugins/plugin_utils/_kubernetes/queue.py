# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The queues of a cluster as objects of Kueue: pure functions.

They are computed from accounts and from what the workers have.

Each account has a ClusterQueue in strict order, with a quota. All quotas together are never more than the cluster has. Those
below a parent are never more than the parent's limit. What one account leaves idle another may borrow, up to its own limit.

Source: Kueue 0.15, apis/kueue/v1beta2 and apis/config/v1beta2.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model import units
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import device_plugin, manifests
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.policy import ROOT, Account, Policy, as_label
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.settings import PREFIX, wrong

API = "kueue.x-k8s.io/v1beta2"
CONFIG_API = "config.kueue.x-k8s.io/v1beta2"
SYSTEM = "kueue-system"
LOCAL = "default"  # the name that Kueue takes for jobs that name no queue
ALL = "all.accounts"  # the cohort of the whole cluster; with a dot, as no namespace has one
ACCOUNT_LABEL = f"{manifests.DOMAIN}/account"  # of a namespace: whose it is
ALLOWED_QOS = f"{manifests.DOMAIN}/qos"  # annotation of a namespace: the QOS of its account
SELECTOR = {"matchExpressions": [{"key": ACCOUNT_LABEL, "operator": "Exists"}]}
OWNED = {"app.kubernetes.io/managed-by": "deephdc.accelerators-queue"}  # by which left-over ones are known
# Of a node whose GPUs are all of one kind; the label with the number has another value on each node.
TYPE_LABEL = f"{manifests.DOMAIN}/type"
ANYWHERE = "all-nodes"  # the flavor of what is not bound to a kind of GPU
TOTAL = f"{manifests.DOMAIN}/gpus"  # counted beside the resource itself, so that a limit over all types holds
RBAC = "rbac.authorization.k8s.io"
VIEWER = "deephdc-queue-viewer"
MOST = f"most.{manifests.DOMAIN}/"  # annotations of a LocalQueue
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"

_NOT_IN_NAMES = re.compile(r"[^a-z0-9-]+")

Cell = tuple[str, str]  # flavor and resource
Numbers = dict[Cell, int]
Object = dict[str, t.Any]


class Site(t.NamedTuple):
    """What the workers have together.

    :param has: by flavor and resource. cells: where the GPUs of a type are.
    """

    has: Numbers
    cells: dict[str, list[Cell]]


class Given(t.NamedTuple):
    """A member's part of a number: what is kept for it, and what it may have at most."""

    share: int
    most: int


def kind_of(devices: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """Return one word for the GPUs of a node, empty without GPUs.

    It is their type, or all of their types; MIG instances go by their GPU.
    """
    types = {_NOT_IN_NAMES.sub("-", units.type_of(device)).strip("-") for device in units.schedulable(devices)}
    return "-".join(sorted(types))[:63].strip("-")


def _parts(device: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """The device, or with MIG the same with each of its instances alone."""
    if not units.is_mig(device):
        return [dict(device)]
    return [{**device, "mig": {**device["mig"], "devices": [instance]}} for instance in units.usable_instances(device)]


def site_of(workers: t.Iterable[t.Any], facts: t.Mapping[str, t.Mapping[str, t.Any]]) -> Site:
    """The numbers that quotas are made of.

    :param workers: as the plan has them. facts: Ansible's, by inventory name.
    """
    has: Numbers = {}
    cells: dict[str, list[Cell]] = {}

    def add(cell: Cell, number: int) -> None:
        has[cell] = has.get(cell, 0) + number

    for worker in workers:
        own = facts.get(worker.host.host) or {}
        add((ANYWHERE, "cpu"), int(own.get("processor_vcpus") or 0))
        add((ANYWHERE, "memory"), int(own.get("memtotal_mb") or 0))
        kind = kind_of(worker.devices)
        for resource, count in worker.offers.items():
            add((kind, resource), count)
            add((ANYWHERE, TOTAL), count)
        for device in worker.devices if worker.offers else ():
            for part in _parts(device):
                cell = (kind, next(iter(device_plugin.resources([part]))))
                for unit in units.units([part]):
                    if cell not in cells.setdefault(unit.type, []):
                        cells[unit.type].append(cell)
    return Site({cell: number for cell, number in has.items() if number}, cells)


def divided(total: int, most: t.Mapping[str, int], weights: t.Mapping[str, int]) -> dict[str, int]:
    """Divide a number into parts by weight.

    No part is larger than its owner may have, and together they are never more than the number. What one can't use goes to
    the others; what rounding leaves goes to who lost most by it.
    """
    parts = dict.fromkeys(most, 0)
    left, open_ = total, {name for name in most if weights[name] and most[name]}
    while open_:
        weight = sum(weights[name] for name in open_)
        full = {name for name in open_ if most[name] * weight <= left * weights[name]}
        if not full:
            break
        for name in full:
            parts[name] = most[name]
        left -= sum(most[name] for name in full)
        open_ -= full
    if open_:
        weight = sum(weights[name] for name in open_)
        for name in open_:
            parts[name] = left * weights[name] // weight
        by_loss = sorted(open_, key=lambda name: (-(left * weights[name] % weight), name))
        for name in by_loss[: left - sum(parts[name] for name in open_)]:
            parts[name] += 1
    return parts


def most_of(account: Account, site: Site) -> Numbers:
    """Return what an account may have at once, by flavor and resource.

    It is never more than there is.
    """
    found = dict(site.has)
    limits = account.limits
    for cell, limit in (((ANYWHERE, TOTAL), limits.gpus), ((ANYWHERE, "cpu"), limits.cpus), ((ANYWHERE, "memory"), limits.memory)):
        if limit is not None and cell in found:
            found[cell] = min(found[cell], limit)
    # A node with several types: nothing says which of them a job gets, so the limits of its types are added up.
    for cell in found:
        types = types_in(cell, site)
        if types and all(gpu_type in limits.gpus_by_type for gpu_type in types):
            found[cell] = min(found[cell], sum(limits.gpus_by_type[gpu_type] for gpu_type in types))
    return found


def types_in(cell: Cell, site: Site) -> list[str]:
    return [gpu_type for gpu_type, cells in site.cells.items() if cell in cells]


def given(accounts: t.Sequence[Account], site: Site) -> tuple[dict[str, dict[Cell, Given]], dict[str, dict[Cell, Given]]]:
    """Return what each account's queue has, and each parent's cohort of the one above."""
    below: dict[str, list[Account]] = {}
    for account in accounts:
        below.setdefault(account.parent, []).append(account)
    most = {account.name: most_of(account, site) for account in accounts}
    weights = {account.name: 1 if account.fairshare is None else account.fairshare for account in accounts}
    queues: dict[str, dict[Cell, Given]] = {account.name: {} for account in accounts}
    cohorts: dict[str, dict[Cell, Given]] = {name: {} for name in below if name != ROOT}
    for cell, total in site.has.items():
        todo = [(ROOT, total, total)]
        while todo:
            parent, share, limit = todo.pop()
            members = {account.name: min(most[account.name][cell], limit) for account in below.get(parent, ())}
            for name, part in divided(share, members, weights).items():
                if name in below:
                    # Jobs in the parent itself take what those below it leave idle.
                    queues[name][cell] = Given(0, members[name])
                    cohorts[name][cell] = Given(part, members[name])
                    todo.append((name, part, members[name]))
                else:
                    queues[name][cell] = Given(part, members[name])
    return queues, cohorts


def quantity(cell: Cell, number: int) -> str:
    """Return a number as the API keeps it, so that a comparison finds no difference."""
    if cell[1] != "memory":
        return str(number)
    for unit in ("Mi", "Gi", "Ti"):
        if number % 1024 or unit == "Ti":
            break
        number //= 1024
    return f"{number}{unit}" if number else "0"


def groups(has: t.Mapping[Cell, t.Any], quota: t.Callable[[Cell], Object]) -> list[Object]:
    """Return the resource groups of a queue or cohort.

    First comes what is counted anywhere, then what is counted by kind of GPU.
    """
    found = []
    for flavors in ([ANYWHERE], sorted({flavor for flavor, _resource in has if flavor != ANYWHERE})):
        resources = sorted({resource for flavor, resource in has if flavor in flavors})
        if resources:
            found.append(
                {
                    "coveredResources": resources,
                    "flavors": [
                        {"name": flavor, "resources": [{"name": one, **quota((flavor, one))} for one in resources]} for flavor in flavors
                    ],
                }
            )
    return found


def metadata(name: str, **more: t.Any) -> Object:
    """Name and label of an object."""
    return {"name": name, "labels": dict(OWNED), **more}


def flavors(site: Site) -> list[Object]:
    """Return a ResourceFlavor for each kind of GPU, and the one for all else.

    That of a kind leads a job's pods there and through the taint.
    """
    found = [{"apiVersion": API, "kind": "ResourceFlavor", "metadata": metadata(ANYWHERE), "spec": {}}]
    for kind in sorted({flavor for flavor, _resource in site.has if flavor != ANYWHERE}):
        spec = {
            "nodeLabels": {TYPE_LABEL: kind},
            "tolerations": [{"key": manifests.TAINT["key"], "operator": "Exists", "effect": manifests.TAINT["effect"]}],
        }
        found.append({"apiVersion": API, "kind": "ResourceFlavor", "metadata": metadata(kind), "spec": spec})
    return found


def cluster_queue(account: Account, parts: t.Mapping[Cell, Given], has: t.Mapping[Cell, int], cohort: str) -> Object:
    def quota(cell: Cell) -> Object:
        part = parts.get(cell) or Given(0, 0)
        return {"nominalQuota": quantity(cell, part.share), "borrowingLimit": quantity(cell, part.most - part.share)}

    spec = {
        "cohortName": cohort,
        "queueingStrategy": "StrictFIFO",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": account.namespace}},
        "resourceGroups": groups(has, quota),
        # A job of any type goes where nothing has to be borrowed, and none is ever ended for another one.
        "flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"},
        "preemption": {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"},
    }
    return {"apiVersion": API, "kind": "ClusterQueue", "metadata": metadata(account.namespace), "spec": spec}


def cohort(name: str, parts: t.Mapping[Cell, Given], has: t.Mapping[Cell, int], parent: str) -> Object:
    """Return a cohort, which has no quota of its own beside that of its members.

    It has a limit of what they borrow from outside together.
    """

    def quota(cell: Cell) -> Object:
        part = parts.get(cell) or Given(0, 0)
        return {"nominalQuota": "0", "borrowingLimit": quantity(cell, part.most - part.share)}

    spec = {"parentName": parent, "resourceGroups": groups(has, quota)}
    return {"apiVersion": API, "kind": "Cohort", "metadata": metadata(name), "spec": spec}


def admission(name: str, spec: Object, **more: t.Any) -> list[Object]:
    """A rule of the API server for the namespaces of accounts.

    more: keys of its binding.
    """
    api = "admissionregistration.k8s.io/v1"
    return [
        {"apiVersion": api, "kind": "ValidatingAdmissionPolicy", "metadata": metadata(name), "spec": {"failurePolicy": "Fail", **spec}},
        {
            "apiVersion": api,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata(name),
            "spec": {"policyName": name, "validationActions": ["Deny"], "matchResources": {"namespaceSelector": SELECTOR}, **more},
        },
    ]


def size_policy() -> list[Object]:
    """Return a rule that refuses a Job which could never start.

    Such a Job would hold up all that wait behind it. What each account may have stands in annotations of its LocalQueue,
    which only administrators write.
    """
    name = "deephdc-queue-sizes"

    def most(word: str) -> str:
        return f"'{MOST}{word}'"

    gpus = (
        "has(c.resources) && has(c.resources.limits) ? ([0.0] + c.resources.limits.filter(k, k.startsWith('nvidia.com/'))"
        ".map(k, quantity(c.resources.limits[k]).asApproximateFloat())).sum() : 0.0"
    )
    limit = "variables.notes[{0}]"
    variables = {
        "notes": "has(params.metadata.annotations) ? params.metadata.annotations : {}",
        "spec": "object.spec.template.spec",
        "pods": "has(object.spec.parallelism) ? double(object.spec.parallelism) : 1.0",
        "gpus": f"variables.pods * ([0.0] + variables.spec.containers.map(c, {gpus})).sum()",
        "chosen": "has(variables.spec.nodeSelector) ? variables.spec.nodeSelector : {}",
        "kind": f"'{TYPE_LABEL}' in variables.chosen ? variables.chosen['{TYPE_LABEL}'] : ''",
    }
    all_of, chosen = limit.format(most("gpus")), f"variables.notes['{MOST}kind-' + variables.kind]"
    one = limit.format(most("gpus-of-one-kind"))

    def sentence(number: str, where: str) -> str:
        return f"'This Job asks for ' + string(int(variables.gpus)) + ' GPUs at once, but {where} ' + {number} + '.'"

    validations = [
        {
            "expression": f"!({most('gpus')} in variables.notes) || variables.gpus <= double({all_of})",
            "messageExpression": sentence(all_of, "the account may have at most"),
        },
        {
            "expression": (
                f"variables.gpus == 0.0 || variables.kind == '' || !({most('gpus')} in variables.notes)"
                f" || ('{MOST}kind-' + variables.kind in variables.notes && variables.gpus <= double({chosen}))"
            ),
            "messageExpression": (
                f"'{MOST}kind-' + variables.kind in variables.notes ? {sentence(chosen, 'of this type the account may have at most')}"
                " : 'No node has GPUs of the type ' + variables.kind + '.'"
            ),
        },
        {
            "expression": f"variables.kind != '' || !({most('gpus-of-one-kind')} in variables.notes) || variables.gpus <= double({one})",
            "messageExpression": sentence(one, "of one type, as all pods of a Job have, the account may have at most"),
        },
    ]
    rules = [{"apiGroups": ["batch"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["jobs"], "scope": "*"}]
    spec = {
        "paramKind": {"apiVersion": API, "kind": "LocalQueue"},
        "matchConstraints": {"resourceRules": rules},
        "variables": [{"name": word, "expression": expression} for word, expression in variables.items()],
        "validations": [{"message": "This Job could never start.", "reason": "Forbidden", **one} for one in validations],
    }
    return admission(name, spec, paramRef={"name": LOCAL, "parameterNotFoundAction": "Allow"})


def notes_of(parts: t.Mapping[Cell, Given]) -> dict[str, str]:
    """Return what an account may have at most, as annotations of its LocalQueue.

    They are for the rule above.
    """
    whole = {flavor: part.most for (flavor, resource), part in parts.items() if resource == device_plugin.WHOLE and flavor != ANYWHERE}
    shared = any(resource not in (device_plugin.WHOLE, TOTAL, "cpu", "memory") for _flavor, resource in parts)
    found = {f"{MOST}gpus": str(parts[ANYWHERE, TOTAL].most)} if (ANYWHERE, TOTAL) in parts else {}
    if whole and not shared:  # with MIG, a number of one size says nothing of another
        found[f"{MOST}gpus-of-one-kind"] = str(max(whole.values()))
        found.update({f"{MOST}kind-{flavor}": str(number) for flavor, number in whole.items()})
    return dict(sorted(found.items()))


def priority_policy() -> list[Object]:
    """Return a rule that gives an account's jobs the queue places of its QOS alone."""
    label, note = f"'{PRIORITY_LABEL}'", f"'{ALLOWED_QOS}'"
    labels, notes = "object.metadata.labels", "namespaceObject.metadata.annotations"
    rules = [
        {"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": [resource], "scope": "*"}
        for group, resource in (("batch", "jobs"), ("", "pods"))
    ]
    allowed = f"has({notes}) && {note} in {notes} ? {notes}[{note}].split(',') : ['normal']"
    validation = {
        "expression": f"!has({labels}) || !({label} in {labels}) || {labels}[{label}] in variables.allowed",
        "reason": "Forbidden",
        "message": "This priority class of the queue is not allowed here.",
        "messageExpression": f"'The label {PRIORITY_LABEL} may be one of ' + variables.allowed.join(', ') + ' here.'",
    }
    spec = {
        "matchConstraints": {"resourceRules": rules},
        "variables": [{"name": "allowed", "expression": allowed}],
        "validations": [validation],
    }
    return admission("deephdc-queue-priorities", spec)


def viewer() -> Object:
    """What lets users see the queue of their account, and which place a job has in it."""
    read = ["get", "list", "watch"]
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": metadata(VIEWER),
        "rules": [
            {"apiGroups": ["kueue.x-k8s.io"], "resources": ["localqueues", "workloads"], "verbs": read},
            {"apiGroups": ["visibility.kueue.x-k8s.io"], "resources": ["localqueues/pendingworkloads"], "verbs": read},
        ],
    }


def viewers(account: Account) -> list[Object]:
    """The right to see it, for who is in the account."""
    names = [*(("Group", name) for name in account.groups), *(("User", name) for name in account.users)]
    return [
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata(VIEWER, namespace=account.namespace),
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": VIEWER},
            "subjects": [{"apiGroup": RBAC, "kind": kind, "name": name} for kind, name in dict.fromkeys(names)],
        }
        for _any in names[:1]
    ]


def findings(accounts: t.Sequence[Account], site: Site) -> list[Finding]:
    """What the queue can't hold to, one sentence each."""
    found = []
    for gpu_type in sorted({gpu_type for account in accounts for gpu_type in account.limits.gpus_by_type}):
        named = ", ".join(account.name for account in accounts if gpu_type in account.limits.gpus_by_type)
        cells = site.cells.get(gpu_type, [])
        kinds = sorted({flavor for flavor, _resource in cells})
        why = ""
        if any(len(types_in(cell, site)) > 1 for cell in cells):
            why = f"does not hold on nodes of the kind {', '.join(kinds)}, where a job can't choose between the types"
        elif len(cells) > 1:
            why = f"holds for each kind of node ({', '.join(kinds)}) by itself"
        if why:
            remedy = "have GPUs of one type in each worker"
            found.append(Finding("manager", f"The limit of {gpu_type} in {named} {why}: {remedy}.", None, None, remedy))
    return found


def objects(policy: Policy, site: Site) -> list[Object]:
    """All objects, in the order of their making."""
    accounts = policy.accounts
    queues, cohorts = given(accounts, site)
    spaces = {account.name: account.namespace for account in accounts}

    def cohort_of(parent: str) -> str:
        return ALL if parent == ROOT else spaces[parent]

    found = [viewer(), *priority_policy(), *size_policy(), *flavors(site)]
    for qos in sorted(policy.qos, key=lambda one: one.name):
        meta = metadata(as_label(qos.name))
        about = {"value": qos.priority, "description": f"The QOS {qos.name} of the policy"}
        found.append({"apiVersion": API, "kind": "WorkloadPriorityClass", "metadata": meta, **about})
    found.append({"apiVersion": API, "kind": "Cohort", "metadata": metadata(ALL), "spec": {}})
    for account in accounts:
        above = cohort_of(account.parent)
        if account.name in cohorts:
            found.append(cohort(account.namespace, cohorts[account.name], site.has, above))
            above = account.namespace
        found.append(cluster_queue(account, queues[account.name], site.has, above))
        meta = metadata(LOCAL, namespace=account.namespace, annotations=notes_of(queues[account.name]))
        found.append({"apiVersion": API, "kind": "LocalQueue", "metadata": meta, "spec": {"clusterQueue": account.namespace}})
        found += viewers(account)
    return found


def configuration(frameworks: t.Sequence[str], uncounted: t.Sequence[str], settings: t.Mapping[str, t.Any], site: Site) -> Object:
    """Return what Kueue's controller is configured with instead of the manifests' own.

    Jobs that name no queue are held, too.
    """
    gpus = sorted({resource for flavor, resource in site.has if flavor != ANYWHERE})
    unknown = [resource for resource in ("cpu", "memory") if (ANYWHERE, resource) not in site.has]
    return {
        "integrations": {"frameworks": list(frameworks)},
        "manageJobsWithoutQueueName": True,
        "managedJobsNamespaceSelector": SELECTOR,
        "resources": {
            "excludeResourcePrefixes": [*uncounted, *unknown],
            "transformations": [{"input": resource, "strategy": "Retain", "outputs": {TOTAL: "1"}} for resource in gpus],
        },
        **settings,
    }


# The variables


TESTED = ("0.15",)  # minor releases of Kueue that the tests ran
VERSION = re.compile(r"([0-9]+\.[0-9]+)\.[0-9]+")
SHA256 = re.compile(r"[0-9a-fA-F]{64}")
ADDRESS = re.compile(r"https?://\S+")
FRAMEWORK = re.compile(r"[a-z0-9.-]+(/[a-z0-9]+)?")
OUR_SETTINGS = ("apiVersion", "kind", "integrations", "manageJobsWithoutQueueName", "managedJobsNamespaceSelector", "resources")
FOLDER = "/var/lib/deephdc"


def held_by_it(cluster: t.Mapping[str, t.Any]) -> tuple[str, ...]:
    """Return what of a policy the queue holds and Kubernetes alone does not.

    It is given by the keys of policy_objects.REASONS. As long as pods of their own go around the queue, nothing can be said
    to be held.
    """
    if cluster["queue"] != "kueue" or "pod" not in cluster["queue_frameworks"]:
        return ()
    return ("fairshare", "gpus by type", "limits of a parent", "gpus of several resources")


def source_of(cluster: t.Mapping[str, t.Any]) -> str:
    """Where the manifests are: an address, or a path on the host of the control plane."""
    release = f"https://github.com/kubernetes-sigs/kueue/releases/download/v{cluster['queue_version']}/manifests.yaml"
    return str(cluster["queue_manifests"] or release)


def errors(cluster: t.Mapping[str, t.Any]) -> list[Finding]:
    """What is wrong with the variables of the queue."""
    if cluster["queue"] != "kueue":
        return []
    found = []
    if not cluster["policy"] and not cluster["policy_file"]:
        found.append(wrong(f"{PREFIX}queue is kueue, but there is no policy to make queues of", f"write {PREFIX}policy"))
    version = VERSION.fullmatch(cluster["queue_version"]) if isinstance(cluster["queue_version"], str) else None
    if not version:
        found.append(
            wrong(f"{PREFIX}queue_version is {shown(cluster['queue_version'])}", "write a whole version as text, such as '0.15.0'")
        )
    elif version.group(1) not in TESTED:
        found.append(
            wrong(
                f"{PREFIX}queue_version is {version.group()}, but no test ran on {version.group(1)} of Kueue",
                f"choose one of {', '.join(TESTED)}",
            )
        )
    source, sha256 = source_of(cluster), cluster["queue_sha256"]
    if not source.startswith("/") and not ADDRESS.fullmatch(source):
        found.append(
            wrong(f"{PREFIX}queue_manifests is {shown(source)}", "write an address, or an absolute path on the control plane's host")
        )
    if sha256 and not (isinstance(sha256, str) and SHA256.fullmatch(sha256)):
        found.append(wrong(f"{PREFIX}queue_sha256 is {shown(sha256)}", "write the 64 digits that sha256sum prints"))
    if not sha256 and ADDRESS.fullmatch(source):
        remedy = "download that file once, look at it, and write what sha256sum prints of it"
        found.append(wrong(f"{PREFIX}queue_manifests is {source}, but {PREFIX}queue_sha256 is empty", remedy))
    if cluster["queue_image"] and not (isinstance(cluster["queue_image"], str) and re.fullmatch(r"\S+", cluster["queue_image"])):
        found.append(wrong(f"{PREFIX}queue_image is {shown(cluster['queue_image'])}", "write the name of an image, or leave it empty"))
    frameworks, uncounted, settings = (cluster[name] for name in ("queue_frameworks", "queue_uncounted", "queue_settings"))
    if not isinstance(frameworks, (list, tuple)) or not all(isinstance(one, str) and FRAMEWORK.fullmatch(one) for one in frameworks):
        found.append(wrong(f"{PREFIX}queue_frameworks is {shown(frameworks)}", "write a list as Kueue has them, such as [batch/job, pod]"))
    elif "batch/job" not in frameworks:
        found.append(wrong(f"{PREFIX}queue_frameworks lacks batch/job, so that Jobs would not wait in a queue", "add it"))
    if not isinstance(uncounted, (list, tuple)) or not all(isinstance(one, str) and one for one in uncounted):
        found.append(wrong(f"{PREFIX}queue_uncounted is {shown(uncounted)}", "write a list of names of resources, or how they begin"))
    elif any(name.startswith(one) for one in uncounted for name in (device_plugin.WHOLE, TOTAL)):
        found.append(wrong(f"{PREFIX}queue_uncounted leaves out GPUs, so that no limit of them would hold", "name other resources"))
    if not isinstance(settings, t.Mapping):
        found.append(wrong(f"{PREFIX}queue_settings is {shown(settings)}", "write a dictionary of Kueue's own keys, {} for none"))
    else:
        found += [
            wrong(f"{PREFIX}queue_settings has the key {name}, which the collection sets itself", "leave it out")
            for name in OUR_SETTINGS
            if name in settings
        ]
    return found


def with_queue(
    plan: dict[str, t.Any],
    cluster: t.Mapping[str, t.Any],
    policy: Policy,
    workers: t.Sequence[t.Any],
    facts: t.Mapping[str, t.Mapping[str, t.Any]],
    control_planes: int,
) -> dict[str, t.Any]:
    """Return a plan with what the queue needs; without a queue, as it was.

    Its nodes have the label by which queues lead jobs there.
    """
    if cluster["queue"] != "kueue":
        return plan
    kinds = {worker.host.name: kind_of(worker.devices) for worker in workers if worker.offers}
    site = site_of(workers, facts)
    notes = findings(policy.accounts, site)
    source, version = source_of(cluster), cluster["queue_version"]
    is_far = not source.startswith("/")
    return {
        **plan,
        "warnings": [*plan["warnings"], *map(str, notes)],
        "findings": [*plan["findings"], *(note.as_dict() for note in notes)],
        "nodes": [
            {**node, "labels": dict(sorted({**node["labels"], TYPE_LABEL: kinds[node["name"]]}.items()))}
            if kinds.get(node["name"])
            else node
            for node in plan["nodes"]
        ],
        "queue": {
            "address": source if is_far else "",
            "manifests": f"{FOLDER}/kueue-{version}.yaml" if is_far else source,
            "sha256": cluster["queue_sha256"],
            "image": cluster["queue_image"] or f"registry.k8s.io/kueue/kueue:v{version}",
            "replicas": min(control_planes, 2),
            "configuration": configuration(cluster["queue_frameworks"], cluster["queue_uncounted"], cluster["queue_settings"], site),
            "objects": objects(policy, site),
        },
    }
