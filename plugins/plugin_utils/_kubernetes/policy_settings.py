# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The variables of a policy, the file that it may be in, and its part of the plan.

It needs PyYAML, which every control node has.
"""

from __future__ import annotations

import os
import typing as t

import yaml
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.shapes import unknown_keys
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown, text_of
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import as_number
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import access, policy_objects
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import policy as kubernetes_policy
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.policy_rules import Defaults
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.settings import PREFIX, is_true, listed, wrong

LARGEST = 5 * 1024 * 1024
# A right policy has seven levels. PyYAML's C part ends the whole process where some ten thousand are nested.
DEEPEST = 50
REQUEST = {"cpus": 1, "memory": "1G"}  # of a container that names none


# mypy can't follow a base that is chosen at run time: the fast parser where PyYAML was built with it.
class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML that refuses a key which stands twice in a dictionary.

    The first one would be lost without a warning.
    """

    def construct_mapping(self, node: t.Any, deep: bool = False) -> dict[t.Any, t.Any]:
        seen = set()
        for key, _value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.MarkedYAMLError(problem=f"the key {key.value[:60]} stands there twice", problem_mark=key.start_mark)
                seen.add(key.value)
        return dict(super().construct_mapping(node, deep=deep))


def load(text: str) -> t.Any:
    """The content of a policy file.

    :raises yaml.YAMLError: it is no YAML, or no policy could look like that.
    """
    depth = 0
    for event in yaml.parse(text, Loader=Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise yaml.MarkedYAMLError(problem="it is nested too deep for a policy", problem_mark=t.cast(t.Any, event.start_mark))
    return yaml.load(text, Loader=Loader)


def _read(cluster: t.Mapping[str, t.Any]) -> tuple[t.Any, list[Finding]]:
    """Return the unchecked policy from its place, and what is wrong with the place."""
    inline, path, variable = cluster["policy"], cluster["policy_file"], f"{PREFIX}policy_file"
    if not path:
        return inline if inline is not None else {}, []
    if not isinstance(path, str) or not os.path.isabs(path):
        return {}, [
            wrong(f"{variable} is {shown(path)}", "write an absolute path on the control node, such as '{{ inventory_dir }}/policy.yml'")
        ]
    if inline:
        return {}, [wrong(f"{PREFIX}policy and {variable} are both set", "keep the policy in one place")]
    try:
        size = os.path.getsize(path)
        if size > LARGEST:
            return {}, [wrong(f"{path}, named by {variable}, has {size} bytes, more than 5 MiB", "make the policy smaller")]
        with open(path, encoding="utf-8") as file:
            content = load(file.read())
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        return {}, [wrong(f"{path}, named by {variable}, can't be read ({reason})", "correct the path or the file")]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = " ".join(str(getattr(error, "problem", None) or getattr(error, "reason", None) or "it is no YAML").split())
        return {}, [wrong(f"{path}{line}: {problem[:200]}", f"correct the file named by {variable}")]
    return content if content is not None else {}, []


def _where(cluster: t.Mapping[str, t.Any]) -> str:
    return str(cluster["policy_file"] or f"{PREFIX}policy")


def _addition_errors(cluster: t.Mapping[str, t.Any], policy: t.Any) -> list[Finding]:
    """Additions to accounts of a policy that SLURM reads too."""
    variable, given = f"{PREFIX}policy_accounts", cluster["policy_accounts"]
    if not isinstance(given, t.Mapping) or not all(isinstance(entry, t.Mapping) for entry in given.values()):
        return [wrong(f"{variable} is no dictionary of dictionaries", "write one such as {physics: {groups: ['iam:/physics']}}")]
    accounts = policy.get("accounts") if isinstance(policy, t.Mapping) else None
    known = {kubernetes_policy.name_of(one.get("name")) for one in accounts or [] if isinstance(one, t.Mapping)}
    result = []
    for name, entry in given.items():
        result += [
            Finding("inventory", sentence)
            for sentence in unknown_keys(f"{variable}: account {name}", entry, kubernetes_policy.ADDITION_KEYS)
        ]
        if kubernetes_policy.name_of(name) not in known:
            result.append(wrong(f"{variable} has the account {name}, which is not in the policy", "correct the name, or add it there"))
    return result


def _other_errors(cluster: t.Mapping[str, t.Any], policy: t.Any) -> list[Finding]:
    result = []
    prefix, request = cluster["policy_user_prefix"], cluster["policy_default_request"]
    if not isinstance(prefix, str) or prefix.startswith("system:"):
        result.append(
            wrong(f"{PREFIX}policy_user_prefix is {shown(prefix)}", "write what the API server puts before names of users, such as 'iam:'")
        )
    if not isinstance(request, t.Mapping):
        result.append(wrong(f"{PREFIX}policy_default_request is {shown(request)}", "write a dictionary such as {cpus: 1, memory: 1G}"))
    else:
        where = f"{PREFIX}policy_default_request"
        result += [Finding("inventory", sentence) for sentence in unknown_keys(where, request, REQUEST)]
        if (as_number(request.get("cpus", 1)) or 0) < 1:
            result.append(wrong(f"{where} has {shown(request['cpus'])} as cpus", "write a whole number from 1 on"))
        memory = request.get("memory", 1)
        if not kubernetes_policy.is_memory(memory) or kubernetes_policy.mebibytes(memory) < 1:
            result.append(wrong(f"{where} has {shown(memory)} as memory", "write MiB as a number, or text such as '1G'"))
    result += _object_errors(cluster["policy_objects"]) + _group_errors(cluster, policy)
    accounts = policy.get("accounts") if isinstance(policy, t.Mapping) else None
    if is_true(cluster["policy_purge"]) and not accounts:
        result.append(
            wrong(
                f"{PREFIX}policy_purge is set, but the policy has no accounts, so that all namespaces of accounts would be removed",
                "name the accounts, or unset it",
            )
        )
    return result


def _object_errors(given: t.Any) -> list[Finding]:
    variable = f"{PREFIX}policy_objects"
    if not isinstance(given, t.Mapping):
        return [wrong(f"{variable} is {shown(given)}", "write a dictionary such as {configmaps: 200}")]
    result = [Finding("inventory", sentence) for sentence in unknown_keys(variable, given, policy_objects.OBJECTS)]
    for name, count in given.items():
        if (as_number(count) or 0) < 1:
            result.append(wrong(f"{variable} has {shown(count)} as {name}", "write a whole number from 1 on"))
    return result


def _group_errors(cluster: t.Mapping[str, t.Any], policy: t.Any) -> list[Finding]:
    """Groups of accounts that no issuer of the cluster gives.

    No user would be in the account.
    """
    known = [] if access.errors(cluster) else access.prefixes(cluster["issuers"], "groups")
    if not known:
        return []
    accounts = policy.get("accounts") if isinstance(policy, t.Mapping) else None
    additions = cluster["policy_accounts"] if isinstance(cluster["policy_accounts"], t.Mapping) else {}
    named = [(one.get("name"), one.get("groups")) for one in accounts or [] if isinstance(one, t.Mapping)]
    named += [(name, one.get("groups")) for name, one in additions.items() if isinstance(one, t.Mapping)]
    result = []
    for account, groups in named:
        for group in groups if isinstance(groups, (list, tuple)) else ():
            text = text_of(group)  # a number is taken as text, and anything else refused elsewhere
            if text and not text.startswith("system:") and not any(text.startswith(one) and text != one for one in known):
                hint = ", ".join(f"{prefix}{group}" for prefix in known)
                result.append(
                    wrong(
                        f"account {shown(account)}: groups has {group}, which no issuer gives",
                        f"write it with the prefix of its issuer: {hint}",
                    )
                )
    return result


def errors(cluster: t.Mapping[str, t.Any]) -> list[Finding]:
    """What is wrong with a policy and the variables beside it."""
    policy, result = _read(cluster)
    if result:
        return result
    result = _addition_errors(cluster, policy) + _other_errors(cluster, policy)
    if not result:
        complete = kubernetes_policy.with_additions(policy, cluster["policy_accounts"]) if _is_listed(policy) else policy
        result = [Finding("inventory", sentence) for sentence in kubernetes_policy.errors(_where(cluster), complete)]
    return result


def _is_listed(policy: t.Any) -> bool:
    """Whether additions have something to be added to."""
    accounts = policy.get("accounts") if isinstance(policy, t.Mapping) else None
    return isinstance(accounts, (list, tuple)) and all(isinstance(one, t.Mapping) and "name" in one for one in accounts)


def given(cluster: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The policy of a cluster whose variables were found right, as it is written.

    Empty where there is none.
    """
    policy, _unread = _read(cluster)
    return kubernetes_policy.with_additions(policy, cluster["policy_accounts"])


def read(cluster: t.Mapping[str, t.Any]) -> kubernetes_policy.Policy:
    """The same, with what accounts inherit."""
    return kubernetes_policy.read(given(cluster), cluster["policy_user_prefix"])


def nothing() -> dict[str, t.Any]:
    """The plan of a cluster without a policy: what it has of one stays as it is."""
    return {"managed": False, "objects": [], "unenforced": [], "purge": False}


def classes_of(names: t.Iterable[str], types: t.Mapping[str, t.Collection[str]]) -> dict[str, list[str]]:
    """Return device classes with the types of GPU that they may give.

    That is the type in the name, or those of the resource, or all.
    """
    every = sorted({one for some in types.values() for one in some})
    result = {}
    for name in names:
        begin = name.rpartition(".gpu.")[0]
        named = [one for one in every if kubernetes_policy.as_label(one) == kubernetes_policy.as_label(begin)]
        result[name] = named or list(types.get(f"nvidia.com/{begin}") or every)
    return result


def plan(
    cluster: t.Mapping[str, t.Any],
    types: t.Mapping[str, t.Collection[str]],
    device_classes: t.Sequence[str] = (),
    elsewhere: t.Collection[str] = (),
) -> dict[str, t.Any]:
    """What the cluster gets of its policy.

    :param types: the extended resources that its nodes offer, each with the types of GPU that it may be.
    :param device_classes: those of dynamic resource allocation, whose devices count as GPUs.
    :param elsewhere: keys of policy_objects.REASONS that something else enforces, such as a queue.
    """
    policy = given(cluster)
    if not policy:
        return nothing()
    settled = kubernetes_policy.read(policy, cluster["policy_user_prefix"])
    request = {**REQUEST, **cluster["policy_default_request"]}
    known = policy_objects.Cluster(
        types,
        classes_of(device_classes, types),
        cluster["policy_pod_security"],
        Defaults(int(request["cpus"]), kubernetes_policy.mebibytes(request["memory"])),
        listed(cluster["policy_tolerations"]),
        {**policy_objects.OBJECTS, **{name: int(count) for name, count in cluster["policy_objects"].items()}},
        list(cluster["policy_objects"]),
    )
    return {
        "managed": True,
        "objects": policy_objects.objects(settled, known),
        "unenforced": policy_objects.unenforced(policy, settled, known, elsewhere),
        "purge": is_true(cluster["policy_purge"]),
    }
