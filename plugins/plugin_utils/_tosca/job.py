# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What a job of a template may be: pure functions.

The types of TOSCA say most of it, but not every orchestrator holds a template against them.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._iam.names import unfit
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown

PREFIX = "job_"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
IMAGE = re.compile(r"([^:@\s]+(:[^:/@\s]+)?)?")
CLOCK = re.compile(r"([0-9]+:[0-5][0-9]:[0-5][0-9])?")
# Each becomes one line of the job's script that SLURM reads.
LINES = ("note", "directory", "stdin", "stdout", "stderr", "std_outerr", "queue")
CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


def job_errors(job: t.Mapping[str, t.Any]) -> list[str]:
    """Return what is wrong with the inputs of a job, a sentence each.

    :param job: the inputs by their names, such as job_user.
    """
    given = {key[len(PREFIX) :]: value for key, value in job.items() if key.startswith(PREFIX)}
    found = []
    why = unfit(given.get("user") or "")
    if why:
        found.append(f"user {shown(given.get('user'))} {why}: name a user of the cluster.")
    for key, form in (("name", NAME), ("image", IMAGE), ("wall_clock", CLOCK)):
        if not form.fullmatch(str(given.get(key) or "")):
            found.append(f"{key} is {shown(given.get(key))}, which is none: see the type Batch.Job.")
    texts = {key: given.get(key) for key in LINES}
    texts.update({f"batch_system_options.{number}": one for number, one in enumerate(given.get("options") or [])})
    for key, text in texts.items():
        if CONTROL.search(str(text or "")):
            found.append(f"{key} has a line break or another control character, which would end its line in the job's script: take it out.")
    for name in given.get("environment") or {}:
        if not VARIABLE.fullmatch(str(name)):
            found.append(f"environment has {shown(name)}, which is no name of a variable: write letters, digits and _.")
    return found
