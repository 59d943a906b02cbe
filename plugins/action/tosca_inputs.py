# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Take an orchestrator's inputs as data.

An action, because it sees variables before Ansible evaluates them.
"""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible.utils.unsafe_proxy import wrap_var
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._tosca import settings, texts

ARGUMENTS = {
    "inputs": {"type": "list", "elements": "str", "required": True},
    "numbers": {"type": "list", "elements": "str", "default": []},
    "settings": {"type": "str"},
    "manager": {"type": "str", "choices": list(settings.ALLOWED)},
}
# The collection's own variables. An orchestrator's would win over them.
OWN = ("__", "tosca_site_")


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: t.Mapping[str, t.Any] | None = None) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(argument_spec=ARGUMENTS, required_together=[["settings", "manager"]])
        variables = task_vars or {}
        # A text, and from ansible-core 2.21 on a dictionary with the names.
        register = self._task.register or []
        registered = {register} if isinstance(register, str) else set(register)
        taken = sorted(str(name) for name in variables if name in registered or str(name).startswith(OWN))
        if taken:
            return {
                **result,
                "failed": True,
                "msg": f"The orchestrator has a variable {shown(taken[0])}, which only the collection may set.",
            }
        hosts: t.Any = variables.get("hostvars") or {}
        own = {host: hosts.raw_get(host) for host in hosts}
        nodes = texts.Nodes(variables, own, variables.get("groups") or {})
        try:
            texts.check_names(own)
            inputs = {name: texts.data(variables[name], nodes, name) for name in arguments["inputs"] if name in variables}
            inputs.update({name: texts.number(inputs[name], name) for name in arguments["numbers"] if name in inputs})
            given = inputs.get(arguments["settings"]) or ""
            found = texts.data(self._settings(given), nodes, arguments["settings"])
        except texts.Unknown as error:
            return {**result, "failed": True, "msg": f"The orchestrator's input {error}."}
        except ValueError as error:
            return {**result, "failed": True, "msg": f"The settings of the template {error}."}
        wrong = list(settings.refused(found, settings.ALLOWED[arguments["manager"]])) if found else []
        if wrong:
            return {**result, "failed": True, "msg": f"The settings of the template {'; '.join(wrong)}."}
        # Marked, or templates that use them would evaluate what is in them.
        return {**result, **wrap_var(inputs), "settings": wrap_var(found)}

    @staticmethod
    def _settings(given: t.Any) -> dict[str, t.Any]:
        if not isinstance(given, str):
            raise ValueError("are no text with variables in YAML: write lines such as slurm_cluster_name: physics")
        return settings.parsed(given)
