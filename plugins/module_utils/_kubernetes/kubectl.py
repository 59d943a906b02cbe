# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The API of Kubernetes by kubectl, on a host that has the administrator's file."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional

from ansible.module_utils.basic import AnsibleModule

OPTIONS = {"kubeconfig": {"type": "path", "default": "/etc/kubernetes/admin.conf"}}
SECONDS = 30


class Refused(Exception):
    """What kubectl said instead of an answer, in one line."""


class Kubectl:
    """kubectl with one kubeconfig."""

    def __init__(self, module: AnsibleModule) -> None:
        self._module = module
        program = module.get_bin_path("kubectl", required=True)
        self._words = [program, "--kubeconfig", module.params["kubeconfig"], f"--request-timeout={SECONDS}s"]

    def __call__(self, *words: str, given: Optional[Dict[str, Any]] = None) -> str:
        """What a command prints.

        :param given: an object, which the command reads as its standard input.
        :raises Refused: the command failed.
        """
        data = None if given is None else json.dumps(given)
        code, out, err = self._module.run_command([*self._words, *words], data=data, environ_update={"LC_ALL": "C"})
        if code != 0:
            raise Refused(" ".join((err or out).split()))
        return out

    def find(self, *words: str) -> Optional[Dict[str, Any]]:
        """An object, or None where there is no such object."""
        text = self("get", *words, "--ignore-not-found", "--output=json")
        return json.loads(text) if text.strip() else None

    def listed(self, *words: str) -> List[Dict[str, Any]]:
        """The objects of a list."""
        return json.loads(self("get", *words, "--output=json"))["items"]
