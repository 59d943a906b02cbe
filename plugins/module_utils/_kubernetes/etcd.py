# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""etcd's own programs, run by containerd from the control plane's image.

They need no API server and no kubelet.
"""

from __future__ import annotations

import os
from typing import Dict, List

from ansible.module_utils.basic import AnsibleModule

CTR = ["ctr", "--namespace", "k8s.io"]
PREFIX = "deephdc-etcd-"
PKI = "/etc/kubernetes/pki/etcd"
# As root on this host; the healthcheck's own certificate is what kubeadm makes for such questions.
CLIENT = [
    "etcdctl",
    "--endpoints=https://127.0.0.1:2379",
    f"--cacert={PKI}/ca.crt",
    f"--cert={PKI}/healthcheck-client.crt",
    f"--key={PKI}/healthcheck-client.key",
]


class Refused(Exception):
    """What one of the programs said instead of doing its work, in one line."""


class Etcd:
    """etcdctl and etcdutl of one image."""

    def __init__(self, module: AnsibleModule, image: str) -> None:
        self._module, self._image = module, image
        module.get_bin_path("ctr", required=True)

    def clean(self) -> None:
        """Remove containers that killed runs left."""
        for name in self._run([*CTR, "containers", "list", "--quiet"]).split():
            if name.startswith(PREFIX):
                self._module.run_command([*CTR, "tasks", "kill", "--signal", "SIGKILL", name])
                self._module.run_command([*CTR, "tasks", "delete", "--force", name])
                self._module.run_command([*CTR, "containers", "delete", name])

    def have_image(self) -> None:
        """Pull the image where the host lacks it.

        :raises Refused: it can't be pulled.
        """
        if self._image in self._run([*CTR, "images", "list", "--quiet"]).split():
            return
        try:
            self._run([*CTR, "images", "pull", self._image])
        except Refused as refused:
            raise Refused(f"the image {self._image} is not on this host and can't be pulled: {refused}") from refused

    def __call__(self, words: List[str], mounts: Dict[str, str]) -> str:
        """What a command prints.

        :param mounts: directory on the host to the one that the command sees; read-only if that ends with ":ro".
        :raises Refused: the command failed.
        """
        given = []
        for source, target in mounts.items():
            path, _colon, mode = target.partition(":")
            given.append(f"--mount=type=bind,src={source},dst={path},options=rbind:{mode or 'rw'}")
        name = f"{PREFIX}{os.getpid()}-{os.urandom(4).hex()}"
        return self._run([*CTR, "run", "--rm", "--net-host", *given, self._image, name, *words])

    def _run(self, words: List[str]) -> str:
        code, out, err = self._module.run_command(words, environ_update={"LC_ALL": "C"})
        if code != 0:
            raise Refused(" ".join((err or out).split())[-600:] or f"exit status {code}")
        return str(out)
