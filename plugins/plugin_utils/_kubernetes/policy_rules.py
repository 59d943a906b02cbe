# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What the API server itself refuses or adds in the namespaces of accounts.

These are admission policies as data, for any number of accounts. What differs between accounts stands in annotations of their
namespaces, which only administrators can write.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.manifests import DOMAIN, OWNED
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.policy import NORMAL, Qos, as_label

API = "admissionregistration.k8s.io/v1"
NAME = "deephdc-accelerators"
PART = {**OWNED, "app.kubernetes.io/part-of": f"{NAME}-policy"}
ACCOUNT = f"{DOMAIN}/account"  # label of an account's namespace, by which the rules find it
ALLOWED_QOS = f"{DOMAIN}/qos"
DEFAULT_QOS = f"{DOMAIN}/default-qos"
PER_JOB = f"{DOMAIN}/per-job-"  # and the key of the limit: gpus, cpus (whole ones), memory (MiB), wall (seconds)

# Programs of the cluster, which go on with what was admitted before a rule was there.
OWN_PROGRAMS = ("system:serviceaccounts:kube-system", "system:serviceaccounts:kueue-system", "system:nodes")
# NVIDIA's runtime reads these from a container's environment, and gives what they say.
DEVICE_VARIABLES = ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES", "NVIDIA_IMEX_CHANNELS")
NO_DEVICES = ("void", "none")
# Of the extended resources that count as GPUs; their taints have the same beginning.
GPU_PREFIXES = ("nvidia.com/", "amd.com/", "gpu.intel.com/")
# The kinds of volumes that give nothing of the node or of its network.
VOLUMES = ("configMap", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret")
# Seconds. While a pod ends, its node can't be drained; a token outlives its user's rights.
LONGEST_END, LONGEST_TOKEN = 3600, 86400
MIB = 1024 * 1024

Dictionary = t.Dict[str, t.Any]


class Defaults(t.NamedTuple):
    """What a container has that names nothing. memory in MiB."""

    cpus: int
    memory: int


def _text(value: t.Any) -> str:
    """A value as CEL has it, which for texts, lists and dictionaries of these is JSON."""
    return json.dumps(value)


def _doubles(values: t.Mapping[str, int]) -> str:
    return "{" + ", ".join(f"{_text(key)}: {float(value)}" for key, value in sorted(values.items())) + "}"


def _resource(name: str, default: float) -> str:
    """How much of a resource the container c may use."""
    key = _text(name)
    result = str(float(default))
    for kind in ("requests", "limits"):
        has = f"has(c.resources) && has(c.resources.{kind}) && {key} in c.resources.{kind}"
        result = f"({has} ? quantity(c.resources.{kind}[{key}]).asApproximateFloat() : {result})"
    return result


def _is_gpu(name: str) -> str:
    """Whether a name in CEL is that of GPUs."""
    return f"{_text(list(GPU_PREFIXES))}.exists(p, {name}.startsWith(p))"


GPUS = (
    f"(has(c.resources) && has(c.resources.limits) ? ([0.0] + c.resources.limits.filter(k, {_is_gpu('k')})"
    ".map(k, quantity(c.resources.limits[k]).asApproximateFloat())).sum() : 0.0)"
)


def _of_pod(each: str) -> str:
    """Return the expression for an amount of the whole pod.

    Containers run together, and those that prepare the pod one after the other.
    """
    return f"[([0.0] + variables.running.map(c, {each})).sum(), ([0.0] + variables.starting.map(c, {each})).max()].max()"


def _pod_level(name: str, otherwise: str) -> str:
    """An amount that the pod itself may name, for all its containers."""
    has = f"has(variables.spec.resources) && has(variables.spec.resources.limits) && {_text(name)} in variables.spec.resources.limits"
    return f"{has} ? quantity(variables.spec.resources.limits[{_text(name)}]).asApproximateFloat() : {otherwise}"


def _limit(key: str, by_qos: t.Mapping[str, int]) -> str:
    """What a job may have; -1.0 where nothing limits it.

    A QOS comes before the account, as in SLURM.
    """
    note = _text(PER_JOB + key)
    return (
        f"variables.qos in {_doubles(by_qos)} ? {_doubles(by_qos)}[variables.qos] : "
        f"{note} in variables.notes ? double(variables.notes[{note}]) : -1.0"
    )


def _variables(qos: t.Sequence[Qos], defaults: Defaults) -> list[Dictionary]:
    """Names for parts of a request; each may use those before it."""
    limits = {
        key: {as_label(entry.name): getattr(entry.per_job, key) for entry in qos if getattr(entry.per_job, key) is not None}
        for key in ("gpus", "cpus", "memory", "wall")
    }
    result = {
        "notes": "has(namespaceObject.metadata.annotations) ? namespaceObject.metadata.annotations : {}",
        "job": "object.kind == 'CronJob' ? object.spec.jobTemplate.spec : object.spec",
        "template": "object.kind == 'Pod' ? object : variables.job.template",
        "spec": "variables.template.spec",
        "pods": (
            "object.kind in ['Job', 'CronJob'] ? (has(variables.job.parallelism) ? double(variables.job.parallelism) : 1.0)"
            " : object.kind != 'Pod' && has(object.spec.replicas) ? double(object.spec.replicas) : 1.0"
        ),
        "first": "has(variables.spec.initContainers) ? variables.spec.initContainers : []",
        "starting": "variables.first.filter(c, !has(c.restartPolicy) || c.restartPolicy != 'Always')",
        "running": "variables.spec.containers + variables.first.filter(c, has(c.restartPolicy) && c.restartPolicy == 'Always')",
        "containers": (
            "variables.spec.containers + variables.first"
            " + (has(variables.spec.ephemeralContainers) ? variables.spec.ephemeralContainers : [])"
        ),
        "qos": (
            "has(variables.spec.priorityClassName) && variables.spec.priorityClassName != ''"
            f" ? variables.spec.priorityClassName"
            f" : {_text(DEFAULT_QOS)} in variables.notes ? variables.notes[{_text(DEFAULT_QOS)}] : {_text(NORMAL)}"
        ),
        "allowed": f"{_text(ALLOWED_QOS)} in variables.notes ? variables.notes[{_text(ALLOWED_QOS)}].split(',') : [{_text(NORMAL)}]",
        "gpus": f"variables.pods * {_of_pod(GPUS)}",
        "claims": "has(variables.spec.resourceClaims) ? double(size(variables.spec.resourceClaims)) : 0.0",
        "cpus": f"variables.pods * ({_pod_level('cpu', _of_pod(_resource('cpu', defaults.cpus)))})",
        "memory": f"variables.pods * ({_pod_level('memory', _of_pod(_resource('memory', defaults.memory * MIB)))})",
        **{f"max_{key}": _limit(key, by_qos) for key, by_qos in limits.items()},
    }
    return [{"name": name, "expression": expression} for name, expression in result.items()]


def _rule(expression: str, message: str = "", computed: str = "") -> Dictionary:
    result = {"expression": expression, "reason": "Forbidden"}
    # A text must stand there too, for what the expression of the message can't say.
    return {**result, "message": message or "This is not allowed here.", **({"messageExpression": computed} if computed else {})}


def _at_most(key: str, what: str, shown: str, limit: str) -> Dictionary:
    """One limit of a single job."""
    return _rule(
        f"variables.max_{key} < 0.0 || variables.{key} <= {limit}",
        f"This job asks for more {what} than one job may have.",
        f"'This job asks for ' + string({shown}) + ' {what}, but one job may have at most ' + string(int(variables.max_{key}))"
        " + ' here (per_job of the account or QOS).'",
    )


def _sends_nothing_raw(container: str) -> str:
    """Whether raw packets are taken from a container."""
    capabilities = f"{container}.securityContext.capabilities"
    there = f"has({container}.securityContext) && has({capabilities}) && has({capabilities}.drop)"
    return f"({there} && {capabilities}.drop.exists(d, d in ['ALL', 'NET_RAW']))"


def _probe_end(probe: str) -> str:
    """How long the container c may take to end when a probe fails."""
    has = f"has(c.{probe}) && has(c.{probe}.terminationGracePeriodSeconds)"
    return f"{has} ? c.{probe}.terminationGracePeriodSeconds : 0"


def _end_rules() -> list[Dictionary]:
    return [
        _rule(
            "!has(request.options) || request.options == null || !has(request.options.gracePeriodSeconds)"
            f" || request.options.gracePeriodSeconds <= {LONGEST_END}",
            f"A pod may take at most {LONGEST_END} seconds to end: delete it with --grace-period of that or less.",
        ),
    ]


def _pod_rules(tolerations: t.Sequence[str]) -> list[Dictionary]:
    """What holds for pods and for all that makes pods."""
    names = _text(list(DEVICE_VARIABLES))
    waits = "t.key in ['node.kubernetes.io/not-ready', 'node.kubernetes.io/unreachable'] && has(t.effect) && t.effect == 'NoExecute'"
    # The API server adds a toleration for each extended resource that a container asks for.
    asked = "variables.containers.exists(c, has(c.resources) && has(c.resources.limits) && t.key in c.resources.limits)"
    secure = "has(c.securityContext) && has(c.securityContext.privileged) && c.securityContext.privileged"
    alone = "variables.claims == 0.0 || (variables.claims == 1.0 && variables.pods == 1.0 && variables.gpus == 0.0)"
    return [
        _rule(
            "(object.kind == 'Pod' && request.operation != 'CREATE') || !has(variables.spec.nodeName) || variables.spec.nodeName == ''",
            "nodeName is not allowed, as it goes around the scheduler: use nodeSelector.",
        ),
        _rule(
            "!has(variables.spec.nodeSelector) || !variables.spec.nodeSelector.exists(k, k.startsWith('node-role.kubernetes.io/'))",
            "nodeSelector may not choose nodes by their role: use the labels of GPU types.",
        ),
        _rule(
            f"!has(variables.spec.tolerations) || variables.spec.tolerations.all(t, has(t.key) && ({_is_gpu('t.key')}"
            f" || t.key in {_text(list(tolerations))} || ({waits}) || {asked}))",
            "This toleration is not allowed: remove all tolerations but those of GPUs, such as nvidia.com/gpu.",
        ),
        _rule(
            "variables.qos in variables.allowed",
            "This priority class is not allowed here.",
            "'The priority class ' + variables.qos + ' is not allowed here: set priorityClassName to one of '"
            " + variables.allowed.join(', ') + '.'",
        ),
        _rule(
            f"variables.containers.all(c, !has(c.env) || c.env.all(e, !(e.name in {names})"
            f" || (has(e.value) && e.value in {_text(list(NO_DEVICES))})))",
            "Environment variables that choose GPUs, such as NVIDIA_VISIBLE_DEVICES, are not allowed:"
            " ask for nvidia.com/gpu in resources.limits.",
        ),
        _rule(
            "variables.containers.all(c, !has(c.envFrom) || c.envFrom.all(f, !has(f.prefix) || f.prefix == ''"
            f" || !{names}.exists(n, n.startsWith(f.prefix))))",
            "This prefix of envFrom could make an environment variable that chooses GPUs: use another one.",
        ),
        _rule(
            "!has(variables.template.metadata) || !has(variables.template.metadata.annotations)"
            " || !variables.template.metadata.annotations.exists(k, k.contains('cdi.k8s.io'))",
            "Annotations of cdi.k8s.io choose devices: ask for nvidia.com/gpu in resources.limits.",
        ),
        _rule(
            "variables.containers.all(c, !has(c.volumeMounts) || !c.volumeMounts.exists(m,"
            " m.mountPath.startsWith('/var/run/nvidia-container-devices') || m.mountPath.startsWith('/run/nvidia-container-devices')))",
            "Mounts below nvidia-container-devices choose devices: ask for nvidia.com/gpu in resources.limits.",
        ),
        # Pod Security refuses these for pods alone: a Job would be there, and wait for ever without a message to its user.
        _rule(
            f"!variables.containers.exists(c, {secure})",
            "Privileged containers are not allowed.",
        ),
        _rule(
            "!(has(variables.spec.hostNetwork) && variables.spec.hostNetwork) && !(has(variables.spec.hostPID) && variables.spec.hostPID)"
            " && !(has(variables.spec.hostIPC) && variables.spec.hostIPC)",
            "hostNetwork, hostPID and hostIPC are not allowed.",
        ),
        _rule(
            "!has(variables.spec.volumes) || !variables.spec.volumes.exists(v, has(v.hostPath))",
            "hostPath is not allowed: use a PersistentVolumeClaim or emptyDir.",
        ),
        # kubelet mounts all others as the host's root, with the host's address: the homes of all where workers may mount them.
        _rule(
            f"!has(variables.spec.volumes) || variables.spec.volumes.all(v, {' || '.join(f'has(v.{kind})' for kind in VOLUMES)}"
            " || has(v.hostPath))",
            "This kind of volume is not allowed, as the node would mount it: use a PersistentVolumeClaim, emptyDir, configMap or secret.",
        ),
        # By raw packets a pod answers for another pod's address on its node, and receives its traffic. The API server takes them from each
        # container of a new pod, so these rules are about what it does not change: what makes pods, and containers for debugging.
        _rule(
            "!variables.containers.exists(c, has(c.securityContext) && has(c.securityContext.capabilities)"
            " && has(c.securityContext.capabilities.add)"
            " && c.securityContext.capabilities.add.exists(a, a.upperAscii() in ['ALL', 'CAP_NET_RAW', 'NET_RAW']))",
            "Raw packets are not allowed: remove NET_RAW and ALL from capabilities.add.",
        ),
        _rule(
            f"object.kind != 'Pod' || request.operation != 'CREATE' || variables.containers.all(c, {_sends_nothing_raw('c')})",
            "Raw packets are not allowed: write capabilities: {drop: [NET_RAW]} in each container.",
        ),
        _rule(
            "object.kind != 'Pod' || request.operation != 'UPDATE' || !has(object.spec.ephemeralContainers)"
            " || object.spec.ephemeralContainers.all(c, (has(oldObject.spec.ephemeralContainers)"
            f" && oldObject.spec.ephemeralContainers.exists(o, o.name == c.name)) || {_sends_nothing_raw('c')})",
            "Raw packets are not allowed: write capabilities: {drop: [NET_RAW]} in a container for debugging.",
        ),
        _rule(
            f"(!has(variables.spec.terminationGracePeriodSeconds) || variables.spec.terminationGracePeriodSeconds <= {LONGEST_END})"
            f" && variables.containers.all(c, [{', '.join(_probe_end(probe) for probe in ('livenessProbe', 'startupProbe'))}]"
            f".all(s, s <= {LONGEST_END}))",
            f"A pod may take at most {LONGEST_END} seconds to end: set terminationGracePeriodSeconds to that or less.",
        ),
        _rule(
            "!has(variables.spec.volumes) || variables.spec.volumes.all(v, !has(v.projected) || !has(v.projected.sources)"
            " || v.projected.sources.all(s, !has(s.serviceAccountToken) || !has(s.serviceAccountToken.expirationSeconds)"
            f" || s.serviceAccountToken.expirationSeconds <= {LONGEST_TOKEN}))",
            f"A token may be good for at most {LONGEST_TOKEN} seconds: set expirationSeconds to that or less; kubelet renews it.",
        ),
        _rule(
            "!has(variables.spec.volumes) || variables.spec.volumes.all(v, !has(v.projected) || !has(v.projected.sources)"
            " || v.projected.sources.all(s, !has(s.podCertificate) || !has(s.podCertificate.maxExpirationSeconds)"
            f" || s.podCertificate.maxExpirationSeconds <= {LONGEST_TOKEN}))",
            f"A certificate may be good for at most {LONGEST_TOKEN} seconds: set maxExpirationSeconds to that or less; kubelet renews it.",
        ),
        _at_most("gpus", "GPUs", "int(variables.gpus)", "variables.max_gpus"),
        _rule(
            f"variables.max_gpus < 0.0 || {alone}",
            "With a limit of GPUs for each job, a pod may have one resource claim, no GPUs beside it, and no copies.",
        ),
        _at_most("cpus", "CPUs", "variables.cpus", "variables.max_cpus"),
        _at_most("memory", "MiB of memory", f"int(variables.memory / {float(MIB)})", f"variables.max_memory * {float(MIB)}"),
        _rule(
            "variables.max_wall < 0.0 || (has(variables.spec.activeDeadlineSeconds)"
            " ? double(variables.spec.activeDeadlineSeconds) <= variables.max_wall : object.kind != 'Pod')",
            "activeDeadlineSeconds of the pod is beyond the time that a job may take.",
            "'A pod may run for at most ' + string(int(variables.max_wall)) + ' seconds here: set activeDeadlineSeconds to that or less.'",
        ),
        _rule(
            "variables.max_wall < 0.0 || !(object.kind in ['Job', 'CronJob']) || !has(variables.job.activeDeadlineSeconds)"
            " || double(variables.job.activeDeadlineSeconds) <= variables.max_wall",
            "activeDeadlineSeconds of the Job is beyond the time that a job may take.",
            "'A Job may take at most ' + string(int(variables.max_wall)) + ' seconds here: set its activeDeadlineSeconds to that or less.'",
        ),
    ]


CLAIM = "object.kind == 'ResourceClaimTemplate' ? object.spec.spec : object.spec"
REQUESTS = "has(variables.claim.devices) && has(variables.claim.devices.requests) ? variables.claim.devices.requests : []"
CHOICES = "variables.requests.map(r, has(r.exactly) ? [r.exactly] : has(r.firstAvailable) ? r.firstAvailable : []).filter(l, size(l) > 0)"


def _claim_rules() -> tuple[list[Dictionary], list[Dictionary]]:
    """Claims of devices, and templates of claims."""
    note = _text(PER_JOB + "gpus")
    variables = {
        "claim": CLAIM,
        "requests": REQUESTS,
        # Of each request, what may be taken for it: one thing, or a list to choose from.
        "choices": CHOICES,
        "max": f"has(namespaceObject.metadata.annotations) && {note} in namespaceObject.metadata.annotations"
        f" ? int(namespaceObject.metadata.annotations[{note}]) : -1",
        "devices": "([0] + variables.choices.map(l, ([0] + l.map(d, has(d.count) ? int(d.count) : 1)).max())).sum()",
    }
    rules = [
        _rule(
            "!variables.choices.exists(l, l.exists(d, has(d.adminAccess) && d.adminAccess))",
            "adminAccess is not allowed: it reaches devices that others have.",
        ),
        _rule(
            "variables.max < 0 || !variables.choices.exists(l, l.exists(d, has(d.allocationMode) && d.allocationMode == 'All'))",
            "allocationMode All is not allowed where a job has a limit of GPUs: give a count.",
        ),
        _rule(
            "variables.max < 0 || variables.devices <= variables.max",
            "This claim asks for more devices than one job may have.",
            "'This claim asks for ' + string(variables.devices) + ' devices, but one job may have at most '"
            " + string(variables.max) + ' here.'",
        ),
    ]
    return [{"name": name, "expression": expression} for name, expression in variables.items()], rules


def _service_rules() -> list[Dictionary]:
    return [
        _rule(
            "!has(object.spec.type) || object.spec.type == 'ClusterIP'",
            "Services of this type are not allowed, as they open ports of the nodes or of the site: use ClusterIP.",
        ),
        _rule(
            "!has(object.spec.externalIPs) || size(object.spec.externalIPs) == 0",
            "externalIPs are not allowed: they take traffic of others.",
        ),
    ]


def _data_rules() -> list[Dictionary]:
    return [
        _rule(
            f"!has(object.data) || !object.data.exists(k, k in {_text(list(DEVICE_VARIABLES))})",
            "A key with the name of an environment variable that chooses GPUs is not allowed.",
        ),
        _rule(
            "!has(object.type) || object.type != 'kubernetes.io/service-account-token'",
            "Tokens of service accounts are not allowed as secrets, as they never end.",
        ),
    ]


def _rules_of(group: str, resources: t.Sequence[str], operations: t.Sequence[str]) -> Dictionary:
    return {"apiGroups": [group], "apiVersions": ["*"], "operations": list(operations), "resources": list(resources), "scope": "*"}


BOTH = ("CREATE", "UPDATE")
WORKLOADS = [
    _rules_of("", ("pods", "replicationcontrollers"), BOTH),
    _rules_of("", ("pods/ephemeralcontainers",), ("UPDATE",)),
    _rules_of("apps", ("deployments", "replicasets", "statefulsets", "daemonsets"), BOTH),
    _rules_of("batch", ("jobs", "cronjobs"), BOTH),
]
CLAIMS = [_rules_of("resource.k8s.io", ("resourceclaims", "resourceclaimtemplates"), BOTH)]
SERVICES = [_rules_of("", ("services",), BOTH)]
DATA = [_rules_of("", ("configmaps", "secrets"), BOTH)]
PODS = [_rules_of("", ("pods",), ("CREATE",))]
ENDS = [_rules_of("", ("pods",), ("DELETE",))]

CHANGED = {"name": "spec-changed", "expression": "request.operation != 'UPDATE' || object.spec != oldObject.spec"}
OF_A_USER = {
    "name": "not-the-cluster-itself",
    "expression": (
        "request.operation != 'UPDATE' || !has(request.userInfo.groups)"
        f" || !request.userInfo.groups.exists(g, g in {_text(list(OWN_PROGRAMS))})"
    ),
}


# What the API server adds by itself stands here too, so that both can be compared.
USUAL: Dictionary = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}


def _selected() -> Dictionary:
    return {**USUAL, "namespaceSelector": {"matchExpressions": [{"key": ACCOUNT, "operator": "Exists"}]}}


def _object(kind: str, name: str, spec: Dictionary) -> Dictionary:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": f"{NAME}-{name}", "labels": dict(PART)}, "spec": spec}


def _validating(
    name: str,
    rules: t.Sequence[Dictionary],
    validations: t.Sequence[Dictionary],
    variables: t.Sequence[Dictionary] = (),
    conditions: t.Sequence[Dictionary] = (),
) -> list[Dictionary]:
    spec: Dictionary = {
        "failurePolicy": "Fail",
        "matchConstraints": {**USUAL, "resourceRules": list(rules)},
        "validations": list(validations),
        **({"variables": list(variables)} if variables else {}),
        **({"matchConditions": list(conditions)} if conditions else {}),
    }
    binding = {"policyName": f"{NAME}-{name}", "validationActions": ["Deny"], "matchResources": _selected()}
    return [_object("ValidatingAdmissionPolicy", name, spec), _object("ValidatingAdmissionPolicyBinding", name, binding)]


def _without_raw_packets(field: str) -> str:
    """Return the patch that takes NET_RAW from containers which have it.

    A list of capabilities can only be patched by its place.
    """
    path = f"'/spec/{field}/' + string(i) + '/securityContext"
    has = "has(c.securityContext)"
    of_list = f"{has} && has(c.securityContext.capabilities)"
    kind = f"Object.spec.{field}.securityContext"
    patch = (
        f"{of_list} && has(c.securityContext.capabilities.drop)"
        f" ? JSONPatch{{op: 'add', path: {path}/capabilities/drop/-', value: 'NET_RAW'}}"
        f" : {of_list} ? JSONPatch{{op: 'add', path: {path}/capabilities/drop', value: ['NET_RAW']}}"
        f" : {has} ? JSONPatch{{op: 'add', path: {path}/capabilities', value: {kind}.capabilities{{drop: ['NET_RAW']}}}}"
        f" : JSONPatch{{op: 'add', path: {path}', value: {kind}{{capabilities: {kind}.capabilities{{drop: ['NET_RAW']}}}}}}"
    )
    containers = f"object.spec.{field}"
    return f"has({containers}) ? {containers}.transformList(i, c, !{_sends_nothing_raw('c')}, {patch}) : []"


def _defaults(variables: t.Sequence[Dictionary]) -> list[Dictionary]:
    """Return the objects for what a pod gets that its user did not write.

    That is the end of its time, and no GPU in containers that ask for none. Images made for CUDA ask for all GPUs by their
    own environment variable.
    """
    variable, nothing = _text(DEVICE_VARIABLES[0]), _text(NO_DEVICES[0])

    def kept(field: str) -> str:
        """Containers that have no GPU, each with the variable."""
        return (
            f"object.spec.{field}.filter(c, {GPUS} == 0.0 && !(has(c.env) && c.env.exists(e, e.name == {variable})))"
            f".map(c, Object.spec.{field}{{name: c.name, env: [Object.spec.{field}.env{{name: {variable}, value: {nothing}}}]}})"
        )

    deadline = (
        "variables.max_wall < 0.0 || has(object.spec.activeDeadlineSeconds) ? Object{}"
        " : Object{spec: Object.spec{activeDeadlineSeconds: int(variables.max_wall)}}"
    )
    mutations = [
        deadline,
        f"Object{{spec: Object.spec{{containers: {kept('containers')}}}}}",
        f"has(object.spec.initContainers) ? Object{{spec: Object.spec{{initContainers: {kept('initContainers')}}}}} : Object{{}}",
    ]
    # The API server has given the pod a priority already; without it, it does so again, of the class.
    fields = ("priority", "preemptionPolicy")
    removed = "".join(f" + (has(object.spec.{one}) ? [JSONPatch{{op: 'remove', path: '/spec/{one}'}}] : [])" for one in fields)
    classified = (
        f"(has(object.spec.priorityClassName) && object.spec.priorityClassName != '') || !({_text(DEFAULT_QOS)} in variables.notes) ? []"
        f" : [JSONPatch{{op: 'add', path: '/spec/priorityClassName', value: variables.qos}}]{removed}"
    )
    capabilities = [_without_raw_packets(field) for field in ("containers", "initContainers")]
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {**USUAL, "resourceRules": PODS},
        "variables": list(variables),
        "mutations": [
            *({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": one}} for one in mutations),
            *({"patchType": "JSONPatch", "jsonPatch": {"expression": one}} for one in (classified, *capabilities)),
        ],
    }
    binding = {"policyName": f"{NAME}-pods", "matchResources": _selected()}
    return [_object("MutatingAdmissionPolicy", "pods", spec), _object("MutatingAdmissionPolicyBinding", "pods", binding)]


def objects(qos: t.Sequence[Qos], defaults: Defaults, tolerations: t.Sequence[str]) -> list[Dictionary]:
    """The policies and their bindings; their number does not depend on the accounts.

    :param tolerations: keys of taints that users' pods may have a toleration for, beside those of nvidia.com/.
    """
    variables = _variables(qos, defaults)
    needed = [one for one in variables if one["name"] in ("notes", "qos", "spec", "template", "job", "max_wall")]
    claim_variables, claim_rules = _claim_rules()
    return [
        *_defaults(needed),
        *_validating("pods", WORKLOADS, _pod_rules(tolerations), variables, [CHANGED, OF_A_USER]),
        *_validating("claims", CLAIMS, claim_rules, claim_variables, [CHANGED]),
        *_validating("ends", ENDS, _end_rules()),
        *_validating("services", SERVICES, _service_rules()),
        *_validating("data", DATA, _data_rules()),
    ]
