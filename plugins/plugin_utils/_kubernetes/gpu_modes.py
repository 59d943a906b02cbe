# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The way in which pods get GPUs, and when it may change: pure functions."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.settings import CHOICES, PREFIX, wrong

SHOWN = 10  # pods in a sentence
REMEDY = "wait until they have ended, or ask their owners to end them, then run again"


def change_errors(mode: str, present: t.Mapping[str, t.Any] | None) -> list[Finding]:
    """Return why the way of GPUs can't be changed now.

    A GPU would be given to a second pod, as neither way knows of the other.

    :param present: what the module kubernetes_gpu_pods_info returned; None or empty where there is no cluster yet.
    """
    if mode not in CHOICES["gpus"]:
        raise ValueError(f"The way of GPUs must be one of {', '.join(CHOICES['gpus'])}.")
    if not present:
        return []
    if not isinstance(present, t.Mapping) or not isinstance(present.get("pods"), (list, tuple)) or "ways" not in present:
        raise ValueError("What the cluster has must be a dictionary with ways and pods, as the module kubernetes_gpu_pods_info returns it.")
    users = [pod for pod in present["pods"] if pod["way"] != mode]
    if mode == "none":  # pods of a plugin that is not ours do not concern us
        users = [pod for pod in users if pod["way"] in present["ways"]]
    if users:
        before = " and ".join(sorted({str(pod["way"]) for pod in users}))
        return [wrong(f"{PREFIX}gpus can't change from {before} to {mode} while pods have GPUs ({_names(users)})", REMEDY)]
    found = []
    for node in present.get("changing") or []:
        there = [pod for pod in present["pods"] if pod["node"] == node and pod["way"] == mode == "device_plugin"]
        if there:  # the plugin would forget whose device is whose
            what = f"{node} has pods with GPUs ({_names(there)}), so the sharing of its GPUs can't be changed"
            found.append(wrong(what, f"cordon it (kubectl cordon {node}), {REMEDY}, and uncordon it"))
    return found


def _names(users: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    names = sorted(str(pod["pod"]) for pod in users)
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def change_sentences(mode: str, present: t.Mapping[str, t.Any]) -> list[str]:
    """The same as text."""
    return [str(found) for found in change_errors(mode, present)]
