#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Keep new servers from a compute host of OpenStack and wait for those that run there."""

from __future__ import annotations

DOCUMENTATION = r"""
module: openstack_compute_hold
version_added: 0.1.0
short_description: Keep new servers from a compute host of OpenStack and wait for those that run there
author: deephdc.accelerators contributors (@deephdc)
description:
  - Disables the compute service of a host, as C(openstack compute service set --disable) does, and waits for its servers.
    Or enables a service that it disabled before.
  - No server is ended, moved or stopped.
  - What the module does is recorded in the reason of the disabled service. A service that an administrator disabled has another reason, and
    stays as it is.
requirements:
  - openstacksdk 0.101 or newer (Debian's python3-openstacksdk)
attributes:
  check_mode:
    description: Predicts the change and reads which servers run there. Does not wait.
    support: full
  diff_mode:
    description: Shows the state of the service and its reason.
    support: full
options:
  cloud:
    description: Name of the cloud in C(/etc/openstack/clouds.yaml), with the account of an administrator.
    type: str
    required: true
  name:
    description: The host's name in Nova.
    type: str
    required: true
  state:
    description:
      - A V(held) host gets no new servers.
      - A V(released) host gets them again if this module kept them away.
    type: str
    choices: [held, released]
    required: true
  reason:
    description: Why it is held, one line that begins with C(gpu_hold:). Needed for V(held).
    type: str
  servers:
    description: Which running servers are waited for. V(all) of the host, as before a reboot, or those that have one of O(devices).
    type: str
    choices: [all, devices]
    default: all
  devices:
    description: With O(servers=devices), the PCI addresses of the devices. Empty means all GPUs of the host.
    type: list
    elements: str
    default: []
  wait:
    description: Seconds to wait until none of these servers runs there; 0 does not wait.
    type: float
    default: 0.0
"""

EXAMPLES = r"""
- name: Keep new servers from a host, and wait an hour for those that run there
  deephdc.accelerators.openstack_compute_hold:
    cloud: deephdc-admin
    name: lxd1
    state: held
    reason: "gpu_hold: nvidia_driver"
    wait: 3600

- name: Give it back
  deephdc.accelerators.openstack_compute_hold:
    cloud: deephdc-admin
    name: lxd1
    state: released
"""

RETURN = r"""
known:
  description: Whether Nova has a compute service on a host of this name.
  type: bool
  returned: success
held:
  description: Whether this module holds the host after the call, or would in check mode.
  type: bool
  returned: success
kept:
  description: The sentence that says so if an administrator disabled the service, else empty.
  type: str
  returned: success
servers:
  description: The servers that run there after the wait.
  type: list
  elements: dict
  returned: success
  sample: [{"id": "1f6c", "name": "training", "user": "ada", "project": "physics", "gpus": ["0000:41:00.0"]}]
summary:
  description: The same servers, in words.
  type: list
  elements: str
  returned: success
  sample: ["server 1f6c (training) of ada in the project physics with the GPU 0000:41:00.0"]
"""

import time
import traceback
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.module_utils._openstack.compute_hold import Host, is_held, kept, sentence

SDK_FAULT: str | None = None
try:
    import openstack  # type: ignore[import-not-found]  # because it is on the controller only
except ImportError:
    SDK_FAULT = traceback.format_exc()

POLL = 5  # seconds


def connect(cloud: str) -> Any:
    """Log in as clouds.yaml says.

    :raises Refused: the cloud does not answer, or refuses the account.
    """
    try:
        sdk = openstack.connect(cloud=cloud)
        sdk.authorize()
    except Exception as error:
        said = " ".join(str(error).split())[:300].rstrip(".")
        raise Refused(f"The cloud {cloud} of /etc/openstack/clouds.yaml can't be entered: {said}.") from error
    return sdk


def hold(module: AnsibleModule, host: Host, service: dict[str, Any]) -> dict[str, str]:
    """Disable the service; what changes."""
    if kept(service) or is_held(service):
        return {}
    if not module.check_mode:
        host.change(service, "disabled", module.params["reason"])
    return {"reason": module.params["reason"], "status": "disabled"}


def release(module: AnsibleModule, host: Host, service: dict[str, Any]) -> dict[str, str]:
    """Enable a service that this module disabled; what changes."""
    if not is_held(service):
        return {}
    if not module.check_mode:
        host.change(service, "enabled")
    return {"reason": "", "status": "enabled"}


def servers_after(module: AnsibleModule, host: Host) -> list[dict[str, Any]]:
    """List the servers that run there when all have ended or the wait is over."""
    deadline = time.monotonic() + (0 if module.check_mode else module.params["wait"])
    while True:
        found = host.servers(module.params["servers"], module.params["devices"])
        left = deadline - time.monotonic()
        if not found or left <= 0:
            return found
        time.sleep(min(left, POLL))


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "cloud": {"type": "str", "required": True},
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["held", "released"], "required": True},
            "reason": {"type": "str"},
            "servers": {"type": "str", "choices": ["all", "devices"], "default": "all"},
            "devices": {"type": "list", "elements": "str", "default": []},
            "wait": {"type": "float", "default": 0.0},
        },
        required_if=[("state", "held", ["reason"])],
        supports_check_mode=True,
    )
    name, holding = module.params["name"], module.params["state"] == "held"
    if holding and not str(module.params["reason"]).startswith("gpu_hold: "):
        module.fail_json(msg="The reason must begin with 'gpu_hold: ', by which the hold is known later.")
    if SDK_FAULT:
        module.fail_json(
            msg=missing_required_lib("openstacksdk", reason="(the package python3-openstacksdk)"),
            exception=SDK_FAULT,
        )
    changes: dict[str, str] = {}
    servers: list[dict[str, Any]] = []
    before = {"reason": "", "status": "enabled"}
    because = ""
    try:
        host = Host(connect(module.params["cloud"]), name)
        service = host.service()
        if service is not None:
            before = {"reason": str(service.get("disabled_reason") or ""), "status": str(service["status"])}
            if holding:
                because = kept(service)
                changes = hold(module, host, service)
                servers = servers_after(module, host)
            else:
                changes = release(module, host, service)
    except Refused as reason:
        module.fail_json(msg=str(reason))
    module.exit_json(
        changed=bool(changes),
        known=service is not None,
        held=bool(holding and service is not None and not because),
        kept=because,
        servers=servers,
        summary=[sentence(server) for server in servers],
        diff={
            "before": "".join(f"{key} {before[key]}\n" for key in sorted(changes)),
            "after": "".join(f"{key} {changes[key]}\n" for key in sorted(changes)),
            "before_header": f"compute service of {name}",
            "after_header": f"compute service of {name}",
        },
    )


if __name__ == "__main__":
    main()
