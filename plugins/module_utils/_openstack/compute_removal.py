# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What a cloud knows of a compute host, and how it forgets that.

Both go by the REST interfaces of Nova, Neutron and Placement.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Set

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.module_utils._openstack.compute_hold import (
    MICROVERSION,
    PLACEMENT_MICROVERSION,
    Host,
    checked,
    sentence,
)

# Neutron's agents that serve the ports of servers. Others on the same host, such as for DHCP, serve the whole cloud.
AGENTS = ("neutron-linuxbridge-agent", "neutron-openvswitch-agent")


def end(host: Host, servers: List[Dict[str, Any]]) -> None:
    """Ask Nova to delete servers.

    Nova does so without their host where that is forced down.
    """
    for server in servers:
        answer = host.sdk.compute.delete("/servers/" + server["id"], microversion=MICROVERSION, raise_exc=False)
        if answer.status_code != 404:  # it has ended meanwhile
            checked(answer, "Nova")


def force_down(host: Host, service: Mapping[str, Any]) -> None:
    """Make Nova believe at once that the host is dead."""
    answer = host.sdk.compute.put("/os-services/" + service["id"], json={"forced_down": True}, microversion=MICROVERSION)
    checked(answer, "Nova")


def providers(host: Host) -> List[Dict[str, Any]]:
    """Read the resource providers of the host, children before their parents."""
    roots = host.read("placement", "/resource_providers", {"name": host.name})["resource_providers"]
    if not roots:
        return []
    tree = host.read("placement", "/resource_providers", {"in_tree": roots[0]["uuid"]})["resource_providers"]
    return leaves_first(tree)


def leaves_first(tree: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Order providers so that each comes before its parent."""
    left = {provider["uuid"]: provider for provider in tree}
    ordered: List[Dict[str, Any]] = []
    while left:
        parents: Set[str] = {str(provider.get("parent_provider_uuid")) for provider in left.values()}
        leaves = [provider for uuid, provider in left.items() if uuid not in parents]
        if not leaves:  # a circle, which Placement does not allow
            return ordered + list(left.values())
        ordered += sorted(leaves, key=lambda provider: str(provider["name"]))
        for provider in leaves:
            del left[provider["uuid"]]
    return ordered


def agents(host: Host) -> List[Dict[str, Any]]:
    """Read Neutron's agents for ports on the host."""
    found = checked(host.sdk.network.get("/agents", params={"host": host.name}, raise_exc=False), "Neutron").json()["agents"]
    return [agent for agent in found if agent["binary"] in AGENTS]


def forget(host: Host, is_dry: bool) -> List[str]:
    """Delete the host's compute service, agents and resource providers.

    Return a sentence for each.

    :raises Refused: a server is there, something is allocated, or an API refuses.
    """
    servers = host.servers("present", [])
    if servers:
        raise Refused("{0} is not removed, because there is {1}.".format(host.name, ", ".join(map(sentence, servers))))
    there = providers(host)
    for provider in there:
        allocated = host.read("placement", "/resource_providers/{0}/allocations".format(provider["uuid"]), {})["allocations"]
        if allocated:
            raise Refused(
                "{0} is not removed, because Placement has something of {1} allocated to {2}, of which Nova has no server there: "
                "end the migration, or delete the allocation by 'openstack resource provider allocation delete'.".format(
                    host.name, provider["name"], ", ".join(sorted(allocated))
                )
            )
    done = []
    service = host.service()
    if service is not None:
        done.append("Nova forgets the compute service of {0}.".format(host.name))
        if not is_dry:  # with it go Nova's record of the host, and providers
            _delete(host.sdk.compute, "/os-services/" + service["id"], MICROVERSION, "Nova")
    for agent in agents(host):
        done.append("Neutron forgets {0} of {1}.".format(agent["binary"], host.name))
        if not is_dry:
            _delete(host.sdk.network, "/agents/" + agent["id"], None, "Neutron")
    for provider in there:
        done.append("Placement forgets {0}.".format(provider["name"]))
        if not is_dry:
            _delete(host.sdk.placement, "/resource_providers/" + provider["uuid"], PLACEMENT_MICROVERSION, "Placement")
    return done


def _delete(proxy: Any, path: str, version: Any, who: str) -> None:
    answer = proxy.delete(path, raise_exc=False, **({"microversion": version} if version else {}))
    if answer.status_code != 404:  # gone already, as with the service
        checked(answer, who)
