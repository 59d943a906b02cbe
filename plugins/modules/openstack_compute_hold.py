#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Keep new servers from an OpenStack compute host; wait for those that run there."""

from __future__ import annotations

DOCUMENTATION = r"""
module: openstack_compute_hold
version_added: 0.1.0
short_description: Disable a compute host of OpenStack and wait for its servers, or enable it
author: deephdc.accelerators contributors (@deephdc)
description:
  - Disables the compute service of a host, as C(openstack compute service set --disable) does, and waits for its servers,
    or enables a service that it disabled before.
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
      - A V(released) host gets servers again if this module disabled it with the same O(mark).
    type: str
    choices: [held, released]
    required: true
  mark:
    description:
      - Who holds the host. V(held) is for the role gpu_hold, V(drained) for an administrator by the playbook openstack_drain.
      - A host may have both, in the one reason that Nova keeps. It gets servers again when none is left.
    type: str
    choices: [held, drained]
    default: held
  reason:
    description:
      - Why it is held, one line. Needed for V(held).
      - With O(mark=held) it must begin with C(gpu_hold:). With O(mark=drained) C(drained:) is written before it.
      - A host that is held already with this mark keeps its reason.
    type: str
  unfit:
    description: >-
      With O(state=released) and O(mark=drained), what is wrong with the host. If it is not empty, the host is not given back. The text
      follows "because" in the message.
    type: str
    default: ""
  servers:
    description: >-
      Which servers to wait for. V(all) servers that run on the host, as before a reboot, or only those with one of the V(devices).
      V(present) includes stopped servers, as before the host leaves. V(none) for no servers.
    type: str
    choices: [all, devices, present, none]
    default: all
  devices:
    description: >-
      PCI addresses of devices. With O(servers=devices), only servers that have one of these, or a MIG instance; without any, those that
      have a GPU. With O(servers=present) they may be UUIDs of MIG instances, too, and only servers that have one of these count, also
      stopped ones; without any, all servers.
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

- name: Give the host back
  deephdc.accelerators.openstack_compute_hold:
    cloud: deephdc-admin
    name: lxd1
    state: released

- name: Keep new servers from a host for an administrator
  deephdc.accelerators.openstack_compute_hold:
    cloud: deephdc-admin
    name: lxd1
    state: held
    mark: drained
    reason: new power supply
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
  description: A sentence if an administrator disabled the service by hand, else empty.
  type: str
  returned: success
reason:
  description: >-
    Why this module holds the host now, without the mark that begins it, empty if it does not. A reason that was there before stays.
  type: str
  returned: success
  sample: new power supply
left:
  description: With O(state=released) and O(mark=drained), why the host is not given back, else empty.
  type: str
  returned: success
  sample: "lxd1 stays disabled, because the role gpu_hold holds it (gpu_hold: nvidia_driver)."
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
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.deephdc.accelerators.plugins.module_utils._model import marks
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.module_utils._openstack.cloud import LIBRARY_ERROR, entered
from ansible_collections.deephdc.accelerators.plugins.module_utils._openstack.compute_hold import (
    LONGEST,
    MARKS,
    Host,
    is_held,
    kept,
    left,
    sentence,
)

POLL = 5  # seconds
LEAST = 100  # characters that a new mark may have at least, where the reason has another one


def marked(module: AnsibleModule) -> str:
    """The reason with its mark.

    :raises Refused: it would be read as two marks.
    """
    begin = MARKS[module.params["mark"]]
    reason = str(module.params["reason"]) if module.params["mark"] == "held" else begin + str(module.params["reason"])
    if len(marks.split(reason, MARKS.values())) > 1:
        raise Refused(f"the reason {reason!r} would be read as two: leave out the plus sign in it")
    return reason


def hold(module: AnsibleModule, host: Host, service: dict[str, Any]) -> dict[str, str]:
    """Disable the service; what changes."""
    if kept(service) or is_held(service, module.params["mark"]):
        return {}
    there = str(service.get("disabled_reason") or "") if any(is_held(service, mark) for mark in MARKS) else ""
    # Of both enough stays to know whose they are.
    mark = marked(module)[: max(LONGEST - len(there) - len(marks.BETWEEN), LEAST)] if there else marked(module)
    reason = marks.add(there, mark, MARKS.values(), LONGEST)
    if not module.check_mode:
        host.change(service, "disabled", reason)
    return {"reason": reason, "status": "disabled"}


def release(module: AnsibleModule, host: Host, service: dict[str, Any]) -> dict[str, str]:
    """Enable a service that has this mark alone; what changes."""
    if not is_held(service, module.params["mark"]):
        return {}
    reason = marks.without(str(service["disabled_reason"]), MARKS[module.params["mark"]], MARKS.values())
    if reason:
        if not module.check_mode:
            host.change(service, "disabled", reason)
        return {"reason": reason}
    if not module.check_mode:
        host.change(service, "enabled")
    return {"reason": "", "status": "enabled"}


def servers_after(module: AnsibleModule, host: Host) -> list[dict[str, Any]]:
    """List the servers that run there when all have ended or the wait is over."""
    if module.params["servers"] == "none":
        return []
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
            "mark": {"type": "str", "choices": list(MARKS), "default": "held"},
            "reason": {"type": "str"},
            "unfit": {"type": "str", "default": ""},
            "servers": {"type": "str", "choices": ["all", "devices", "present", "none"], "default": "all"},
            "devices": {"type": "list", "elements": "str", "default": []},
            "wait": {"type": "float", "default": 0.0},
        },
        required_if=[("state", "held", ["reason"])],
        supports_check_mode=True,
    )
    name, holding, mark = module.params["name"], module.params["state"] == "held", module.params["mark"]
    if holding and mark == "held" and not str(module.params["reason"]).startswith("gpu_hold: "):
        module.fail_json(msg="The reason must begin with 'gpu_hold: ', by which the hold is known later.")
    if LIBRARY_ERROR:
        module.fail_json(
            msg=missing_required_lib("openstacksdk", reason="(the package python3-openstacksdk)"),
            exception=LIBRARY_ERROR,
        )
    changes: dict[str, str] = {}
    servers: list[dict[str, Any]] = []
    before = {"reason": "", "status": "enabled"}
    because, why_left, reason = "", "", ""
    try:
        host = Host(entered(module.params["cloud"]), name)
        service = host.service()
        if service is not None:
            before = {"reason": str(service.get("disabled_reason") or ""), "status": str(service["status"])}
            if holding:
                because = kept(service)
                changes = hold(module, host, service)
                servers = servers_after(module, host)
            else:
                why_left = left(service, module.params["unfit"]) if mark == "drained" else ""
                changes = {} if why_left else release(module, host, service)
                if mark == "drained" and changes.get("reason"):
                    why_left = left({**service, "disabled_reason": changes["reason"]}, "")
            reason = marks.text(changes.get("reason", before["reason"]), MARKS[mark], MARKS.values())
    except Refused as refused:
        module.fail_json(msg=str(refused))
    module.exit_json(
        changed=bool(changes),
        known=service is not None,
        held=bool(holding and service is not None and not because),
        kept=because,
        reason=reason,
        left=why_left,
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
