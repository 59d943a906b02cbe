# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The compute service of one host and the servers that run there.

They are reached by the REST interfaces of Nova, Placement and Keystone.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Set

from ansible_collections.deephdc.accelerators.plugins.module_utils._model import marks
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused

# Since it services have UUIDs, and servers a flavor with all of its keys.
MICROVERSION = "2.61"
PLACEMENT_MICROVERSION = "1.14"  # providers by their tree
# Begin the reason of a disabled service, by who disabled it: the role gpu_hold, or the playbook openstack_drain.
MARKS = {"held": "gpu_hold: ", "drained": "drained: "}
AUTOMATIC = "AUTO: "  # of reasons that a driver of Nova gave
LONGEST = 255  # characters of a reason
INFIX = "_gpu_"  # between the host's name and the GPU's in a provider's name, as the driver of the role nova_lxd has it
PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]\Z")
# Nova's numbers of power states: those of a server of which nothing runs.
SHUTDOWN, CRASHED = 4, 6


class Host:
    """A compute host as an administrator of the cloud sees it.

    :param sdk: a connection of openstacksdk, of which only plain requests are used.
    """

    def __init__(self, sdk: Any, name: str) -> None:
        self.sdk = sdk
        self.name = name
        self.names: Dict[str, str] = {}

    def service(self) -> Optional[Dict[str, Any]]:
        """Read the host's compute service; None if Nova has none."""
        found = self.read("compute", "/os-services", {"binary": "nova-compute", "host": self.name})["services"]
        return dict(found[0]) if found else None

    def change(self, service: Mapping[str, Any], status: str, reason: str = "") -> None:
        """Disable the service with a reason, or enable it."""
        body = {"status": status, **({"disabled_reason": reason[:LONGEST]} if status == "disabled" else {})}
        answer = self.sdk.compute.put("/os-services/" + service["id"], json=body, microversion=MICROVERSION)
        checked(answer, "Nova")

    def gpus(self) -> Dict[str, List[str]]:
        """Read which GPUs the servers of the host have, by the server's UUID."""
        roots = self.read("placement", "/resource_providers", {"name": self.name})["resource_providers"]
        if not roots:
            return {}
        found: Dict[str, List[str]] = {}
        begin = self.name + INFIX
        for provider in self.read("placement", "/resource_providers", {"in_tree": roots[0]["uuid"]})["resource_providers"]:
            if provider["name"].startswith(begin):
                answer = self.read("placement", "/resource_providers/{0}/allocations".format(provider["uuid"]), {})
                for consumer in answer["allocations"]:
                    found.setdefault(consumer, []).append(provider["name"][len(begin) :])
        return found

    def servers(self, which: str, devices: Iterable[str]) -> List[Dict[str, Any]]:
        """Read the servers that run on the host, or are about to.

        :param which: C(all), or C(devices) for those that have one of the devices; without devices, those that have any GPU.
            C(present) has the stopped ones, too; with devices, those that have one of them.
        :param devices: PCI addresses; for C(present) also UUIDs of MIG instances.
        """
        given = self.gpus()
        wanted = {address.lower() for address in devices}
        found = []
        for server in self._servers():
            its = sorted(given.get(server["id"], []))
            # Of a MIG instance the device is not known here.
            if which == "devices" and not any(not wanted or gpu in wanted or not PCI_ADDRESS.match(gpu) for gpu in its):
                continue
            if which == "present" and wanted and not any(gpu.lower() in wanted for gpu in its):
                continue
            if which == "present" or may_run(server):
                found.append(
                    {
                        "id": server["id"],
                        "name": server.get("name") or "",
                        "user": self._name("users", "user", server["user_id"]),
                        "project": self._name("projects", "project", server["tenant_id"]),
                        "gpus": its,
                    }
                )
        return sorted(found, key=lambda server: str(server["id"]))

    def _servers(self) -> List[Dict[str, Any]]:
        servers: List[Dict[str, Any]] = []
        seen: Set[str] = set()
        marker = ""
        while True:
            parameters = {"all_tenants": "1", "host": self.name, **({"marker": marker} if marker else {})}
            page = self.read("compute", "/servers/detail", parameters)["servers"]
            new = [server for server in page if server["id"] not in seen]
            if not new:
                return servers
            servers += new
            seen.update(server["id"] for server in new)
            marker = str(new[-1]["id"])

    def _name(self, kind: str, key: str, identifier: str) -> str:
        """Read the name of a user or project; its identifier if Keystone does not say it."""
        if identifier not in self.names:
            answer = self.sdk.identity.get("/{0}/{1}".format(kind, identifier), raise_exc=False)
            self.names[identifier] = str(answer.json()[key]["name"]) if answer.status_code == 200 else identifier
        return self.names[identifier]

    def read(self, service: str, path: str, parameters: Mapping[str, str]) -> Dict[str, Any]:
        """Read what a service has at a path.

        :raises Refused: it answers with an error.
        """
        version = MICROVERSION if service == "compute" else PLACEMENT_MICROVERSION
        answer = getattr(self.sdk, service).get(path, params=dict(parameters), microversion=version, raise_exc=False)
        return dict(checked(answer, {"compute": "Nova", "placement": "Placement"}[service]).json())


def may_run(server: Mapping[str, Any]) -> bool:
    """Return whether a server runs, or is about to.

    A driver that can't say for a moment what a server does reports no power state (0). Then the server counts as running, if it was
    ever started and Nova did not stop it.
    """
    if server.get("OS-EXT-STS:task_state"):
        return True
    state = server.get("OS-EXT-STS:power_state")
    if state:
        return state not in (SHUTDOWN, CRASHED)
    return bool(server.get("OS-SRV-USG:launched_at")) and server.get("OS-EXT-STS:vm_state") != "stopped"


def checked(answer: Any, who: str) -> Any:
    """Give an answer back that is no error.

    :raises Refused: it is one.
    """
    if answer.status_code >= 400:
        said = " ".join(str(answer.text).split())[:200]
        raise Refused("{0} answers with the error {1}: {2}".format(who, answer.status_code, said))
    return answer


def is_held(service: Mapping[str, Any], mark: str = "held") -> bool:
    """Say whether the host is held with a mark, perhaps among others."""
    return service["status"] == "disabled" and marks.has(str(service.get("disabled_reason") or ""), MARKS[mark], MARKS.values())


def kept(service: Mapping[str, Any]) -> str:
    """Return the sentence that says so if another one disabled the service.

    It is empty if the service is ours to disable. What the collection disabled with another mark gets this one, too.
    What the driver disabled by itself, because LXD does not answer, is ours, too.
    """
    reason = str(service.get("disabled_reason") or "")
    if service["status"] != "disabled" or reason.startswith(AUTOMATIC) or any(is_held(service, one) for one in MARKS):
        return ""
    because = " ({0})".format(reason) if reason else ""
    return "the compute service of {0} was disabled by an administrator{1} and stays so".format(service["host"], because)


def left(service: Mapping[str, Any], unfit: str) -> str:
    """Return the sentence why a host is not given back to users after a drain.

    It is empty if nothing keeps the host.

    :param unfit: what is wrong with the host, in words that follow "because".
    """
    host, reason = service["host"], str(service.get("disabled_reason") or "")
    if service["status"] == "disabled" and not is_held(service, "drained"):
        if is_held(service, "held"):
            return "{0} stays disabled, because the role gpu_hold holds it ({1}).".format(host, reason)
        if reason.startswith(AUTOMATIC):
            return "{0} stays disabled, because its driver disabled it ({1}): start LXD there, the driver enables it then.".format(
                host, reason
            )
        return (
            "{0} stays disabled, because no run of openstack_drain did that{1}: 'openstack compute service set --enable {0} nova-compute' "
            "gives it back.".format(host, " (" + reason + ")" if reason else "")
        )
    if unfit:
        return "{0} stays as it is, because {1}: repair it, then run again.".format(host, unfit)
    if service.get("state") == "down":
        return "{0} stays as it is, because its compute service is down: start nova-compute there, then run again.".format(host)
    return ""


def sentence(server: Mapping[str, Any]) -> str:
    """Say whose server it is and what it has."""
    gpus = server["gpus"]
    named = " with the GPU{0} {1}".format("s" if len(gpus) > 1 else "", ", ".join(gpus)) if gpus else ""
    return "server {0} ({1}) of {2} in the project {3}{4}".format(server["id"], server["name"], server["user"], server["project"], named)
