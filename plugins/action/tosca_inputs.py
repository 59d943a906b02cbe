# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Refuse inputs of an orchestrator that Ansible would evaluate.

An action, because it sees variables before that.
"""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._tosca.texts import with_template


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: t.Mapping[str, t.Any] | None = None) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(argument_spec={"prefixes": {"type": "list", "elements": "str", "required": True}})
        prefixes = tuple(arguments["prefixes"])
        inputs = {name: value for name, value in (task_vars or {}).items() if str(name).startswith(prefixes)}
        found = with_template(inputs)
        if found:
            marks = "'{{', '{%' or '{#'"
            result["failed"] = True
            result["msg"] = f"The orchestrator's input {found} has {marks} in it, which Ansible would evaluate: write it without that."
        return result
