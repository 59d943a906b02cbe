# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The compute service of one host and the servers that run there, by the REST interfaces of Nova, Placement and Keystone."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Set

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused

# Since it services have UUIDs, and servers a flavor with all of its keys.
MICROVERSION = "2.61"
PLACEMENT_MICROVERSION = "1.14"  # providers by their tree
OURS = "gpu_hold: "
AUTOMATIC = "AUTO: "  # of reasons that a driver of Nova gave
LONGEST = 255  # characters of a reason
INFIX = "_gpu_"  # between the host's name and the GPU's in a provider's name, as the driver of the role nova_lxd has it
PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]\Z")
# Nova's numbers of power states.
RUNNING, PAUSED = 1, 3


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
        found = self._get("compute", "/os-services", {"binary": "nova-compute", "host": self.name})["services"]
        return dict(found[0]) if found else None

    def change(self, service: Mapping[str, Any], status: str, reason: str = "") -> None:
        """Disable the service with a reason, or enable it."""
        body = {"status": status, **({"disabled_reason": reason[:LONGEST]} if status == "disabled" else {})}
        answer = self.sdk.compute.put("/os-services/" + service["id"], json=body, microversion=MICROVERSION)
        _check(answer, "Nova")

    def gpus(self) -> Dict[str, List[str]]:
        """Read which GPUs the servers of the host have, by the server's UUID."""
        roots = self._get("placement", "/resource_providers", {"name": self.name})["resource_providers"]
        if not roots:
            return {}
        found: Dict[str, List[str]] = {}
        begin = self.name + INFIX
        for provider in self._get("placement", "/resource_providers", {"in_tree": roots[0]["uuid"]})["resource_providers"]:
            if provider["name"].startswith(begin):
                answer = self._get("placement", "/resource_providers/{0}/allocations".format(provider["uuid"]), {})
                for consumer in answer["allocations"]:
                    found.setdefault(consumer, []).append(provider["name"][len(begin) :])
        return found

    def servers(self, which: str, devices: Iterable[str]) -> List[Dict[str, Any]]:
        """Read the servers that run on the host, or are about to.

        :param which: C(all), or C(devices) for those that have one of the devices; without devices, those that have any GPU.
        """
        given = self.gpus()
        wanted = {address.lower() for address in devices}
        found = []
        for server in self._servers():
            its = sorted(given.get(server["id"], []))
            # Of a MIG instance the device is not known here.
            if which == "devices" and not any(not wanted or gpu in wanted or not PCI_ADDRESS.match(gpu) for gpu in its):
                continue
            if server.get("OS-EXT-STS:power_state") in (RUNNING, PAUSED) or server.get("OS-EXT-STS:task_state"):
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
            page = self._get("compute", "/servers/detail", parameters)["servers"]
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

    def _get(self, service: str, path: str, parameters: Mapping[str, str]) -> Dict[str, Any]:
        version = MICROVERSION if service == "compute" else PLACEMENT_MICROVERSION
        answer = getattr(self.sdk, service).get(path, params=dict(parameters), microversion=version, raise_exc=False)
        return dict(_check(answer, {"compute": "Nova", "placement": "Placement"}[service]).json())


def _check(answer: Any, who: str) -> Any:
    if answer.status_code >= 400:
        said = " ".join(str(answer.text).split())[:200]
        raise Refused("{0} answers with the error {1}: {2}".format(who, answer.status_code, said))
    return answer


def is_held(service: Mapping[str, Any]) -> bool:
    """Say whether a role holds the host."""
    return service["status"] == "disabled" and str(service.get("disabled_reason") or "").startswith(OURS)


def kept(service: Mapping[str, Any]) -> str:
    """The sentence that says so if an administrator disabled the service; empty if it is ours to disable.

    What the driver disabled by itself, because LXD does not answer, is ours, too.
    """
    reason = str(service.get("disabled_reason") or "")
    if service["status"] != "disabled" or reason.startswith((OURS, AUTOMATIC)):
        return ""
    because = " ({0})".format(reason) if reason else ""
    return "the compute service of {0} was disabled by an administrator{1} and stays so".format(service["host"], because)


def sentence(server: Mapping[str, Any]) -> str:
    """Say whose server it is and what it has."""
    gpus = server["gpus"]
    named = " with the GPU{0} {1}".format("s" if len(gpus) > 1 else "", ", ".join(gpus)) if gpus else ""
    return "server {0} ({1}) of {2} in the project {3}{4}".format(server["id"], server["name"], server["user"], server["project"], named)
