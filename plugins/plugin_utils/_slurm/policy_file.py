# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy from the inventory or from a file on the control node.

It needs PyYAML, which every control node has.
"""

from __future__ import annotations

import os
import typing as t

import yaml

LARGEST = 5 * 1024 * 1024
# A right policy has seven levels. PyYAML's C part ends the whole process where some ten thousand are nested.
DEEPEST = 50


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
    depth = 0
    for event in yaml.parse(text, Loader=Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise yaml.MarkedYAMLError(problem="it is nested too deep for a policy", problem_mark=t.cast(t.Any, event.start_mark))
    return yaml.load(text, Loader=Loader)


def read(inline: t.Any, path: t.Any) -> tuple[t.Any, list[str]]:
    """The policy and what is wrong with its place; the policy itself is not checked."""
    if not path:
        return inline if inline is not None else {}, []
    if not isinstance(path, str) or not os.path.isabs(path):
        return {}, ["slurm_cluster_policy_file must be an absolute path on the control node, such as '{{ inventory_dir }}/policy.yml'."]
    if inline:
        return {}, ["slurm_cluster_policy and slurm_cluster_policy_file are both set: keep the policy in one place."]
    try:
        size = os.path.getsize(path)
        if size > LARGEST:
            return {}, [f"{path} has {size} bytes, more than the 5 MiB that a policy may have."]
        with open(path, encoding="utf-8") as file:
            content = load(file.read())
    except (OSError, UnicodeDecodeError) as error:
        return {}, [
            f"{path}, named by slurm_cluster_policy_file, can't be read: {getattr(error, 'strerror', None) or 'it is no UTF-8 text'}."
        ]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = " ".join(str(getattr(error, "problem", None) or getattr(error, "reason", None) or "it is no YAML").split())
        return {}, [f"{path}{line}: {problem[:200]}. Correct the file named by slurm_cluster_policy_file."]
    return content if content is not None else {}, []
