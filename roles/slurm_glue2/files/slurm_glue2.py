# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Write a GLUE2 document of a SLURM cluster, in JSON.

usage: slurm_glue2.py FILE SERVICE-ID [DOMAIN-ID]

Entities and attributes are those of GLUE 2.0 (GFD.147) and, for accelerators, GLUE 2.1: a ComputingService with its manager,
a ComputingShare for each partition, an ExecutionEnvironment for each kind of node and an AcceleratorEnvironment for each GPU
type in it. Each entity is in a list under its name. Attributes without a known value are absent, as GLUE's placeholders would be read
as facts. Memory is in MiB, times in seconds.
"""

from __future__ import annotations

import json
import os
import sys
import time
import typing as t

from slurm_status import Record, status

WAITING = ("pending", "requeued", "configuring")
RUNNING = ("running", "completing", "suspended")


def known(**attributes: t.Any) -> Record:
    return {key: value for key, value in attributes.items() if value is not None}


def total(entries: t.Iterable[Record], key: str) -> int:
    return sum(entry[key] for entry in entries)


def gpus_of(nodes: list[Record]) -> list[Record]:
    return [gres for node in nodes for gres in node["gres"] if gres["name"] == "gpu"]


def kind_of(node: Record) -> tuple[t.Any, ...]:
    """What makes nodes equal for those who choose among them."""
    gpus = tuple((gres["type"], gres["total"]) for gres in gpus_of([node]))
    return (node["cpus"]["total"], node["sockets"], node["memory_mib"]["total"], node["architecture"], gpus)


def environments(nodes: list[Record], service: str) -> tuple[list[Record], list[Record], dict[str, str]]:
    """Return ExecutionEnvironments, AcceleratorEnvironments, and an id for each node.

    The id is that of the node's ExecutionEnvironment.
    """
    kinds: dict[tuple[t.Any, ...], list[Record]] = {}
    for node in nodes:
        kinds.setdefault(kind_of(node), []).append(node)
    hosts, accelerators, ids = [], [], {}
    for members in kinds.values():
        first = members[0]
        identity = f"{service}:environment:{first['name']}"
        ids.update({node["name"]: identity for node in members})
        hosts.append(
            known(
                ID=identity,
                Platform={"x86_64": "amd64"}.get(first["architecture"], first["architecture"]) or None,
                OSFamily="linux",
                TotalInstances=len(members),
                UsedInstances=sum(node["cpus"]["used"] > 0 for node in members),
                UnavailableInstances=sum(not node["usable"] for node in members),
                PhysicalCPUs=first["sockets"],
                LogicalCPUs=first["cpus"]["total"],
                MainMemorySize=first["memory_mib"]["total"],
                Associations={"ComputingManagerID": f"{service}:manager"},
            )
        )
        for gpu in gpus_of([first]):
            accelerators.append(
                known(
                    ID=f"{identity}:{gpu['type'] or 'gpu'}",
                    Name=gpu["type"] or None,
                    Type="GPU",
                    LogicalAccelerators=gpu["total"],
                    Associations={"ExecutionEnvironmentID": [identity]},
                )
            )
    return hosts, accelerators, ids


def share(partition: Record, seen: Record, ids: dict[str, str], service: str) -> Record:
    nodes = [node for node in seen["nodes"] if partition["name"] in node["partitions"]]
    usable = [node for node in nodes if node["usable"]]
    groups = [group for group in seen["jobs"] if group["partition"] == partition["name"]]
    running = [group for group in groups if group["state"] in RUNNING]
    waiting = [group for group in groups if group["state"] in WAITING]
    serving = {"up": "production", "drain": "draining"}.get(partition["state"], "closed")
    policy = [f"Account:{name}" for name in partition["accounts"]] + [f"QOS:{name}" for name in partition["qos"]]
    return known(
        ID=f"{service}:share:{partition['name']}",
        Name=partition["name"],
        MappingQueue=partition["name"],
        MaxWallTime=partition["max_time_s"],
        DefaultWallTime=partition["default_time_s"],
        MaxSlotsPerJob=total([node["cpus"] for node in nodes], "total"),
        MaxMainMemory=max((node["memory_mib"]["total"] for node in nodes), default=None),
        ServingState=serving,
        TotalJobs=total(groups, "count"),
        RunningJobs=total(running, "count"),
        LocalRunningJobs=total(running, "count"),
        WaitingJobs=total(waiting, "count"),
        LocalWaitingJobs=total(waiting, "count"),
        UsedSlots=total(running, "cpus"),
        FreeSlots=total([node["cpus"] for node in usable], "total") - total([node["cpus"] for node in usable], "used"),
        UsedAcceleratorSlots=total(gpus_of(nodes), "used"),
        FreeAcceleratorSlots=total(gpus_of(usable), "total") - total(gpus_of(usable), "used"),
        MappingPolicy=policy or None,
        Associations={
            "ComputingServiceID": service,
            "ComputingEndpointID": [f"{service}:endpoint"],
            "ExecutionEnvironmentID": sorted({ids[node["name"]] for node in nodes}),
        },
    )


def document(seen: Record, service: str, domain: str) -> Record:
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seen["time"]))
    hosts, accelerators, ids = environments(seen["nodes"], service)
    shares = [share(partition, seen, ids, service) for partition in seen["partitions"]]
    gpus = gpus_of(seen["nodes"])
    jobs: dict[str, t.Any] = {}
    if seen["up"]:  # nothing is known of jobs otherwise
        jobs = {
            "TotalJobs": total(seen["jobs"], "count"),
            "RunningJobs": total([group for group in seen["jobs"] if group["state"] in RUNNING], "count"),
            "WaitingJobs": total([group for group in seen["jobs"] if group["state"] in WAITING], "count"),
        }
    health = known(HealthState="ok" if seen["up"] else "critical", HealthStateInfo=seen["error"] or None)
    service_entity = {
        "ID": service,
        "Name": seen["cluster"],
        "Type": "org.schedmd.slurm",
        "Capability": ["executionmanagement.jobexecution", "executionmanagement.jobmanagement"],
        "QualityLevel": "production",
        **jobs,
        **({"Associations": {"AdminDomainID": [domain]}} if domain else {}),
    }
    endpoint = {
        "ID": f"{service}:endpoint",
        "URL": f"slurm://{seen['cluster']}",
        "InterfaceName": "org.schedmd.slurm",
        "ServingState": "production" if seen["up"] else "closed",
        **health,
        "Associations": {"ComputingServiceID": service},
    }
    manager = known(
        ID=f"{service}:manager",
        ProductName="SLURM",
        ProductVersion=seen["version"] or None,
        TotalSlots=total([node["cpus"] for node in seen["nodes"]], "total") if seen["up"] else None,
        TotalAcceleratorSlots=total(gpus, "total") if seen["up"] else None,
        UsedAcceleratorSlots=total(gpus, "used") if seen["up"] else None,
        Associations={"ComputingServiceID": service},
    )
    entities = {
        "ComputingService": [service_entity],
        "ComputingEndpoint": [endpoint],
        "ComputingManager": [manager],
        "ComputingShare": shares,
        "ExecutionEnvironment": hosts,
        "AcceleratorEnvironment": accelerators,
    }
    for entity in (entity for members in entities.values() for entity in members):
        entity["CreationTime"] = when
    if domain:
        entities["AdminDomain"] = [{"ID": domain, "CreationTime": when}]
    return entities


def main(path: str, service: str, domain: str = "") -> str:
    """Write the document. Returns why SLURM did not answer, empty if it did."""
    seen = status()
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(document(seen, service, domain), file, indent=1, sort_keys=True)
        file.write("\n")
    os.replace(f"{path}.new", path)
    return str(seen["error"])


if __name__ == "__main__":
    error = main(*sys.argv[1:])
    if error:
        sys.exit(f"slurmctld does not answer, the document says so: {error}")
