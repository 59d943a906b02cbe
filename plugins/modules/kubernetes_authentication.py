#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Roll out an API server's authentication configuration without a restart."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_authentication
version_added: 0.1.0
short_description: Roll out an API server's authentication configuration
author: deephdc.accelerators contributors (@deephdc)
description:
  - Writes the file that the API server of this host has as C(--authentication-config), and waits until the server has loaded it.
    That needs no restart.
  - An API server does not start with a file that it refuses. So the new file is tried first, with the program and the arguments of
    the running API server. Only a file that passes replaces the former one.
  - The running API server may still not load the new file, for example because an issuer can't be reached. Then the module restores
    the former file and fails.
  - The former file is kept beside the new one until the new one is loaded. So the next run completes a run that was killed.
requirements:
  - kubectl
notes:
  - Runs on a host of the control plane that kubeadm made, with the administrator's kubeconfig.
attributes:
  check_mode:
    description: Compares the file and what the API server has loaded. The new file is not tried.
    support: full
  diff_mode:
    description: Shows the change of the file.
    support: full
options:
  content:
    description: The file's text, an C(AuthenticationConfiguration).
    type: str
    required: true
  path:
    description: Path of the file. Its directory is mounted in the API server's container, at the same path.
    type: path
    default: /etc/kubernetes/authn/config.yaml
  node:
    description: Name of this host's node.
    type: str
    required: true
  server:
    description: Address of this host's own API server, such as V(https://192.0.2.10:6443). The kubeconfig may have that of another host.
    type: str
    required: true
  patience:
    description: Seconds to wait for the API server. It needs 10 for an issuer that answers, and gives up after 60 if an issuer does not.
    type: int
    default: 120
  kubeconfig:
    description: File with the rights of an administrator.
    type: path
    default: /etc/kubernetes/admin.conf
"""

EXAMPLES = r"""
- name: Let users of the IAM log in
  deephdc.accelerators.kubernetes_authentication:
    content: "{{ lookup('ansible.builtin.file', 'authentication.yaml') }}"
    node: cp1
    server: https://192.0.2.10:6443
"""

RETURN = r"""
hash:
  description: Digest of the configuration that the API server has.
  type: str
  returned: when not in check mode
  sample: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
"""

import hashlib
import os
import re
import socket
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes.kubectl import OPTIONS, Kubectl, Refused

POLL = 2  # seconds
METRICS = "apiserver_authentication_config_controller_"
# What makes the trial end: the API server reads this file right after its authentication configuration, and it can't be there.
END = "/dev/null/deephdc"
OVERRIDES = {
    # No data, no address of the cluster: even a trial that did not end would serve nothing.
    "etcd-servers": "http://127.0.0.1:1",
    "bind-address": "127.0.0.1",
    "authorization-mode": "Webhook",
    "authorization-webhook-config-file": END,
}
# Arguments that the trial must not have: files that the running one writes, and what would come before the configuration.
LEFT_OUT = ("audit-", "authorization-", "etcd-", "encryption-provider", "tracing-", "secure-port", "bind-address", "authentication-config")
REASON = re.compile(r'"(?:failed to (?:read|load|validate|update) authentication config(?: file)?|command failed)" err=(.*)', re.DOTALL)


class Failed(Exception):
    """Why the API server does not have the wanted configuration, one sentence."""


def digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def reason(said: str) -> str:
    """The reason in a line of the API server's log, as it wrote it."""
    found = REASON.search(said)
    text = found.group(1).strip() if found else said.strip()
    # A short one is in quotes, one of several lines between < and >.
    quoted = re.match(r'"((?:[^"\\]|\\.)*)"', text)
    if quoted:
        text = quoted.group(1).replace('\\"', '"').replace("\\n", " ")
    elif text.startswith("<"):
        text = re.split(r"\s>(?:\s|$)", text[1:])[0]
    return " ".join(text.split())[:2000]


def loaded(metrics: str) -> str:
    """The digest of the configuration that an API server has, by its metrics."""
    found = re.search(rf'^{METRICS}last_config_info{{[^}}]*\bhash="([^"]*)"[^}}]*}} 1$', metrics, re.MULTILINE)
    return found.group(1) if found else ""


def failures(metrics: str) -> float:
    """How often an API server did not take a configuration since its start."""
    found = re.findall(rf'^{METRICS}automatic_reloads_total{{[^}}]*status="failure"[^}}]*}} (\S+)$', metrics, re.MULTILINE)
    return sum(map(float, found))


def trial(command: t.Sequence[str], path: str, port: int) -> list[str]:
    """The command that reads a configuration like the API server, then ends."""
    kept = [command[0]]
    for word in command[1:]:
        if not word.startswith("--"):
            raise Failed(f"the API server has the argument {word}, which the trial of a configuration does not know")
        if not word[2:].startswith(LEFT_OUT):
            kept.append(word)
    return [*kept, f"--authentication-config={path}", f"--secure-port={port}", *(f"--{key}={OVERRIDES[key]}" for key in sorted(OVERRIDES))]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def write(path: str, text: str) -> None:
    """Write a file that is complete when it has its name."""
    new = f"{path}.new"
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    move(new, path)


def move(source: str, target: str) -> None:
    os.rename(source, target)
    handle = os.open(os.path.dirname(target), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(path: str) -> None:
    if os.path.lexists(path):
        os.unlink(path)


class Server:
    """The API server of this host."""

    def __init__(self, kubectl: Kubectl, params: dict[str, t.Any]) -> None:
        self._kubectl, self._here = kubectl, f"--server={params['server']}"
        self.node, self._patience = params["node"], params["patience"]
        self._pod = ["--namespace=kube-system", f"kube-apiserver-{params['node']}"]
        self._since = time.time()

    def metrics(self) -> str:
        return self._kubectl("get", self._here, "--raw", "/metrics")

    def takes(self, candidate: str) -> None:
        """Try a configuration again and again until the patience is at its end.

        The API server's own pod may not be known yet.

        :raises Failed: it is refused, or could not be tried.
        """
        until = time.monotonic() + self._patience
        while True:
            try:
                pod = self._kubectl.find("pod", self._here, *self._pod)
                if pod is None:
                    raise Refused(f"there is no pod {self._pod[1]}")
                command = pod["spec"]["containers"][0]["command"]
                said = self._run(trial(command, candidate, free_port()))
            except Refused as refused:
                said = str(refused)
            if END in said:
                return
            if "command failed" in said:
                raise Failed(f"it refuses the new one: {reason(said)}")
            if time.monotonic() >= until:
                raise Failed(f"the new one could not be tried: {said}")
            time.sleep(POLL)

    def _run(self, command: t.Sequence[str]) -> str:
        return self._kubectl("exec", self._here, *self._pod, "--", *command)

    def has(self, wanted: str, before: float) -> str:
        """Wait until it has taken a configuration.

        :param before: its failures until now. Returns why it has not taken it, empty if it has.
        """
        until = time.monotonic() + self._patience
        while True:
            try:
                metrics = self.metrics()
                if loaded(metrics) == wanted:
                    return ""
                if failures(metrics) > before:
                    return self._why() or "its log has no reason"
                said = "it has not looked at the file"
            except Refused as refused:  # such as while it is restarted
                said = str(refused)
            if time.monotonic() >= until:
                return said
            time.sleep(POLL)

    def _why(self) -> str:
        """The last reason in its log."""
        try:
            log = self._kubectl("logs", self._here, *self._pod, f"--since={int(time.time() - self._since) + 5}s")
        except Refused:
            return ""
        lines = log.splitlines()
        for number in range(len(lines) - 1, -1, -1):
            if REASON.search(lines[number]):
                return reason("\n".join(lines[number : number + 8]))
        return ""


def roll_out(server: Server, path: str, current: str, wanted: str) -> bool:
    """Put the wanted configuration in place and wait until it is loaded.

    :returns: whether something was changed.

    :raises Failed: it is not there; what was there before is again.
    """
    candidate, former = f"{path}.candidate", f"{path}.former"
    metrics = server.metrics()
    has, before = loaded(metrics), failures(metrics)
    if not has:
        raise Failed("it does not say by its metrics which one it has: it was made without --authentication-config")
    if current == wanted and has == digest(wanted):
        begun = os.path.lexists(former) or os.path.lexists(candidate)
        remove(candidate)
        remove(former)  # a run was killed after the API server had taken the file
        return begun
    if current != wanted:
        write(candidate, wanted)
        try:
            server.takes(candidate)
        except Failed:
            remove(candidate)
            raise
        # What a killed run left there is what the API server had before, so it stays. What it does not have may be wrong, and is not kept.
        if not os.path.lexists(former) and has == digest(current):
            write(former, current)
        move(candidate, path)
    why = server.has(digest(wanted), before)
    if why:
        kept = read(former)
        if kept is None:
            raise Failed(why)
        server_before = failures(server.metrics())
        move(former, path)
        again = server.has(digest(kept), server_before)
        raise Failed(f"{why}{f'. The former one is at its place, but was not taken: {again}' if again else ''}")
    remove(former)
    return True


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "content": {"type": "str", "required": True},
            "path": {"type": "path", "default": "/etc/kubernetes/authn/config.yaml"},
            "node": {"type": "str", "required": True},
            "server": {"type": "str", "required": True},
            "patience": {"type": "int", "default": 120},
            **OPTIONS,
        },
        supports_check_mode=True,
    )
    params, server = module.params, Server(Kubectl(module), module.params)
    path, wanted = params["path"], params["content"]
    current = read(path)
    if current is None:
        module.fail_json(msg=f"{path} is not there: the API server of {params['node']} was made without an authentication configuration.")
    diff = {"before_header": path, "after_header": path, "before": current, "after": wanted}
    try:
        if module.check_mode:
            changed = current != wanted or loaded(server.metrics()) != digest(wanted)
            module.exit_json(changed=changed, diff=diff)
        changed = roll_out(server, path, current or "", wanted)
    except Failed as failed:
        module.fail_json(msg=f"The API server of {params['node']} goes on with its former authentication configuration: {failed}")
    except Refused as refused:
        module.fail_json(msg=f"Kubernetes refused it: {refused}")
    except OSError as error:
        module.fail_json(msg=f"{error.filename or path}: {error.strerror}")
    module.exit_json(changed=changed, hash=digest(wanted), diff=diff)


if __name__ == "__main__":
    main()
