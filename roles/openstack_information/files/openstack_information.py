# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Write what an OpenStack cloud has and what is in use.

usage: openstack_information.py CLOUD DIRECTORY SERVICE-ID [DOMAIN-ID]

CLOUD is a name in the clouds.yaml of openstacksdk. The program only reads.
The files are glue2.json (a GLUE2 document), cmdb.json (records for a CMDB) and openstack_metrics.prom (metrics for Prometheus).
Keys, metrics and units are those of the programs for SLURM and Kubernetes where there is the same.
Memory is in MiB, an account is a project. What is not known is absent.
"""

from __future__ import annotations

import json
import os
import sys
import time
import typing as t
from collections import Counter

TIMEOUT = 20  # seconds for each question: an API that hangs must not make the publishing pile up
BEGIN = "CUSTOM_GPU_"
# Since it a server has its flavor, and a flavor its keys.
COMPUTE_VERSION = "2.61"
PLACEMENT_VERSION = "1.14"
VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}
STATES = {"ACTIVE": "running", "PAUSED": "suspended", "SUSPENDED": "suspended", "BUILD": "building", "ERROR": "failed"}
OTHER_STATE = "halted"

Record = t.Dict[str, t.Any]


class Unreadable(Exception):
    """One sentence: why the cloud did not answer."""


def one_line(error: object) -> str:
    return " ".join(str(error).split())[:300].rstrip(".")


class Cloud:
    """The APIs by a connection of openstacksdk."""

    def __init__(self, sdk: t.Any) -> None:
        self._sdk = sdk

    def ask(self, service: str, path: str, **parameters: str) -> Record:
        version = {"compute": COMPUTE_VERSION, "placement": PLACEMENT_VERSION}.get(service)
        try:
            answer = getattr(self._sdk, service).get(path, params=parameters, microversion=version, raise_exc=False)
            if answer.status_code >= 400:
                raise Unreadable(f"{path} of {service} answers with the error {answer.status_code}")
            return dict(answer.json())
        except Unreadable:
            raise
        except Exception as error:  # whatever openstacksdk and what it stands on raise
            raise Unreadable(f"{path} of {service}: {one_line(error)}") from None

    def servers(self) -> list[Record]:
        found: dict[str, Record] = {}
        marker = ""
        while True:
            more = {"marker": marker} if marker else {}
            page = [one for one in self.ask("compute", "/servers/detail", all_tenants="1", **more)["servers"] if one["id"] not in found]
            if not page:
                return list(found.values())
            found.update({one["id"]: one for one in page})
            marker = page[-1]["id"]


def connect(name: str) -> Cloud:
    try:
        import openstack

        sdk = openstack.connect(cloud=name, api_timeout=TIMEOUT)
        sdk.authorize()
    except Exception as error:  # whatever openstacksdk and what it stands on raise
        raise Unreadable(f"the cloud {name} can't be entered: {one_line(error)}") from None
    return Cloud(sdk)


def type_of(resource_class: str) -> str:
    """What a type of GPU is called, such as a100 of CUSTOM_GPU_A100."""
    return resource_class[len(BEGIN) :].lower()


def gpus_of_flavor(specs: t.Mapping[str, str]) -> dict[str, int]:
    """How many GPUs of each type a flavor gives."""
    asked = {key.split(":", 1)[1]: value for key, value in specs.items() if key.startswith(f"resources:{BEGIN}")}
    return {type_of(key): int(value) for key, value in sorted(asked.items()) if str(value).isdigit() and int(value)}


def flavor_record(flavor: t.Mapping[str, t.Any]) -> Record:
    specs = flavor.get("extra_specs") or {}
    return {
        "id": flavor["id"],
        "name": flavor["name"],
        "cpus": flavor["vcpus"],
        "memory_mib": flavor["ram"],
        "disk_gib": flavor["disk"],
        "gpus": gpus_of_flavor(specs),
        "accelerator": {key.split(":", 1)[1]: value for key, value in sorted(specs.items()) if key.startswith("Accelerator:")},
    }


def image_record(image: t.Mapping[str, t.Any]) -> Record:
    keys = ("architecture", "os_distro", "os_version")
    return {"id": image["id"], "name": image["name"], **{key: str(image[key]) for key in keys if image.get(key)}}


def nodes_of(services: list[Record], providers: list[Record], inventories: dict[str, Record], usages: dict[str, Record]) -> list[Record]:
    """The compute hosts. inventories and usages: of the providers, by UUID."""
    names = {provider["uuid"]: provider["name"] for provider in providers}
    members: dict[str, list[str]] = {}
    for provider in providers:
        members.setdefault(names.get(provider.get("root_provider_uuid") or provider["uuid"], provider["name"]), []).append(provider["uuid"])
    found = []
    for service in services:
        its = members.get(service["host"], [])
        usable = service["status"] == "enabled" and service["state"] == "up"
        counts = {"VCPU": {"total": 0, "used": 0}, "MEMORY_MB": {"total": 0, "used": 0}}
        gres: dict[str, dict[str, int]] = {}
        for uuid in its:
            for name, inventory in inventories[uuid].items():
                total, reserved, used = int(inventory["total"]), int(inventory["reserved"]), int(usages[uuid].get(name, 0))
                if name in counts:
                    counts[name]["total"] += total
                    counts[name]["used"] += used
                elif name.startswith(BEGIN):
                    count = gres.setdefault(name, {"total": 0, "used": 0, "reserved": 0, "free": 0})
                    count["total"] += total
                    count["used"] += used
                    count["reserved"] += reserved
                    count["free"] += max(0, total - reserved - used) if usable else 0
        found.append(
            {
                "name": service["host"],
                "state": service["state"],
                "flags": ["disabled"] if service["status"] != "enabled" else [],
                "usable": usable,
                "reason": str(service.get("disabled_reason") or ""),
                "cpus": counts["VCPU"],
                "memory_mib": counts["MEMORY_MB"],
                "gres": [{"name": "gpu", "type": type_of(name), "resource": name, **gres[name]} for name in sorted(gres)],
            }
        )
    return sorted(found, key=lambda node: str(node["name"]))


def servers_of(servers: list[Record], projects: t.Mapping[str, str]) -> list[Record]:
    """Servers counted by account and state, with what they have."""
    groups: dict[tuple[str, str], Record] = {}
    for server in servers:
        account = projects.get(server["tenant_id"], server["tenant_id"])
        state = STATES.get(server["status"], OTHER_STATE)
        group = groups.setdefault((account, state), {"account": account, "state": state, "count": 0, "cpus": 0})
        group["count"] += 1
        group["cpus"] += int((server.get("flavor") or {}).get("vcpus") or 0)
    return [groups[key] for key in sorted(groups)]


def status_of(cloud: Cloud) -> Record:
    """The cloud as its APIs list it.

    :raises Unreadable: one of them does not answer.
    """
    services = cloud.ask("compute", "/os-services", binary="nova-compute")["services"]
    providers = cloud.ask("placement", "/resource_providers")["resource_providers"]
    path = "/resource_providers/{}/{}".format
    inventories = {one["uuid"]: cloud.ask("placement", path(one["uuid"], "inventories"))["inventories"] for one in providers}
    usages = {one["uuid"]: cloud.ask("placement", path(one["uuid"], "usages"))["usages"] for one in providers}
    projects = {one["id"]: one["name"] for one in cloud.ask("identity", "/projects")["projects"]}
    servers = cloud.servers()
    gpus = {}
    for identifier in sorted({server["tenant_id"] for server in servers}, key=lambda one: projects.get(one, one)):
        used = cloud.ask("placement", "/usages", project_id=identifier)["usages"]
        gpus[projects.get(identifier, identifier)] = {
            type_of(name): count for name, count in sorted(used.items()) if name.startswith(BEGIN) and count
        }
    flavors = cloud.ask("compute", "/flavors/detail", is_public="none")["flavors"]
    images = cloud.ask("image", "/images", visibility="public", status="active", limit="1000")["images"]
    return {
        "nodes": nodes_of(services, providers, inventories, usages),
        "servers": servers_of(servers, projects),
        "gpus": gpus,
        "flavors": sorted((flavor_record(one) for one in flavors), key=lambda one: str(one["name"])),
        "images": sorted((image_record(one) for one in images), key=lambda one: str(one["name"])),
    }


def status(name: str, connected: t.Callable[[str], Cloud] = connect) -> Record:
    """Return the cloud as it is now.

    Where an API does not answer, up is false, error is a sentence, and there is nothing else in it.
    """
    found: Record = {"time": int(time.time()), "up": True, "error": ""}
    nothing: Record = {"nodes": [], "servers": [], "gpus": {}, "flavors": [], "images": []}
    try:
        return {**found, **status_of(connected(name))}
    except Unreadable as error:  # half a status would be read as a loss
        return {**found, "up": False, "error": str(error), **nothing}


class Metrics:
    """Metrics in the order in which they were first added.

    Each has its samples together, as the format asks for.
    """

    def __init__(self) -> None:
        self.families: dict[str, list[str]] = {}

    def add(self, metric: str, what: str, value: float, /, **labels: str) -> None:
        family = self.families.setdefault(metric, [f"# HELP {metric} {what}", f"# TYPE {metric} gauge"])
        inner = ",".join(f'{key}="{escape(text)}"' for key, text in sorted(labels.items()))
        family.append(f"{metric}{{{inner}}} {value}" if inner else f"{metric} {value}")

    def __str__(self) -> str:
        return "".join(f"{line}\n" for family in self.families.values() for line in family)


def escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def metrics(seen: Record) -> str:
    text = Metrics()
    text.add("openstack_up", "Whether the APIs answer.", int(seen["up"]))
    text.add("openstack_status_timestamp_seconds", "When the APIs were asked.", seen["time"])
    if not seen["up"]:  # absent, not zero: nothing is known of hosts and servers
        return str(text)
    for node in seen["nodes"]:
        name = node["name"]
        text.add("openstack_node_usable", "Whether servers can start on the host now.", int(node["usable"]), node=name, state=node["state"])
        text.add("openstack_node_cpus", "CPUs of the host.", node["cpus"]["total"], node=name)
        text.add("openstack_node_cpus_allocated", "CPUs that servers have.", node["cpus"]["used"], node=name)
        text.add("openstack_node_memory_bytes", "Memory of the host.", node["memory_mib"]["total"] << 20, node=name)
        text.add("openstack_node_memory_allocated_bytes", "Memory that servers have.", node["memory_mib"]["used"] << 20, node=name)
        for gres in node["gres"]:
            labels = {"node": name, "gres": gres["name"], "type": gres["type"]}
            text.add("openstack_node_gres", "GPUs that the host was promised to have.", gres["total"], **labels)
            text.add("openstack_node_gres_allocated", "GPUs that servers have.", gres["used"], **labels)
            text.add("openstack_node_gres_reserved", "GPUs that no new server gets, such as lost ones.", gres["reserved"], **labels)
    for group in seen["servers"]:
        labels = {"account": group["account"], "state": group["state"]}
        text.add("openstack_account_servers", "Servers by project and state.", group["count"], **labels)
    for account, gpus in seen["gpus"].items():
        for kind, count in gpus.items():
            text.add("openstack_account_gpus_allocated", "GPUs of the project's servers.", count, account=account, type=kind)
    return str(text)


def known(**attributes: t.Any) -> Record:
    return {key: value for key, value in attributes.items() if value is not None}


def counted(seen: Record, state: str | None = None, account: str | None = None) -> int:
    return sum(group["count"] for group in seen["servers"] if state in (None, group["state"]) and account in (None, group["account"]))


def of_types(seen: Record) -> dict[str, Counter[str]]:
    """Total, used, reserved and free GPUs by type; most is what one host has."""
    found: dict[str, Counter[str]] = {}
    for gres in (gres for node in seen["nodes"] for gres in node["gres"]):
        count = found.setdefault(gres["type"], Counter())
        count.update({key: gres[key] for key in ("total", "used", "reserved", "free")})
    return dict(sorted(found.items()))


def machines(seen: Record, account: str | None = None) -> Record:
    """How many servers there are; nothing where the cloud does not answer."""
    if not seen["up"]:
        return {}
    states = {"RunningVM": "running", "SuspendedVM": "suspended", "HaltedVM": "halted"}
    return {"TotalVM": counted(seen, None, account), **{key: counted(seen, state, account) for key, state in states.items()}}


def vendor(accelerator: t.Mapping[str, str]) -> str | None:
    given = accelerator.get("Vendor")
    return VENDORS.get(given.lower(), given) if given else None


def glue2(seen: Record, service: str, domain: str) -> Record:
    """Entities of GLUE 2.1 for clouds; each in a list under its name."""
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seen["time"]))
    types, gpus = of_types(seen), Counter[str]()
    for count in types.values():
        gpus.update(count)
    shares = [
        {
            "ID": f"{service}:share:{account}",
            "Name": account,
            "ServingState": "production",
            **machines(seen, account),
            "UsedAcceleratorSlots": sum(seen["gpus"].get(account, {}).values()),
            "FreeAcceleratorSlots": gpus["free"],
            "MappingPolicy": [f"Project:{account}"],
            "Associations": {"CloudComputingServiceID": service, "CloudComputingEndpointID": [f"{service}:endpoint"]},
        }
        for account in sorted({group["account"] for group in seen["servers"]})
    ]
    flavors, accelerators = [], []
    for flavor in seen["flavors"]:
        identity = f"{service}:flavor:{flavor['id']}"
        flavors.append(
            {
                "ID": identity,
                "Name": flavor["name"],
                "CPU": flavor["cpus"],
                "RAM": flavor["memory_mib"],
                "Disk": flavor["disk_gib"],
                "Associations": {"CloudComputingManagerID": f"{service}:manager"},
            }
        )
        for kind, number in flavor["gpus"].items():
            count = types.get(kind, Counter())
            accelerators.append(
                known(
                    ID=f"{identity}:{kind}",
                    Type="GPU",
                    Number=number,
                    Vendor=vendor(flavor["accelerator"]),
                    Model=kind,
                    OtherInfo=[
                        f"TotalAccelerators={count['total']}",
                        f"UsedAccelerators={count['used']}",
                        f"FreeAccelerators={count['free']}",
                    ],
                    Associations={"CloudComputingInstanceTypeID": [identity]},
                )
            )
    entities: dict[str, list[Record]] = {
        "CloudComputingService": [
            {
                "ID": service,
                "Type": "org.openstack.nova",
                "Capability": ["executionmanagement.virtualmachine"],
                "QualityLevel": "production",
                **machines(seen),
                **({"Associations": {"AdminDomainID": [domain]}} if domain else {}),
            }
        ],
        "CloudComputingEndpoint": [
            {
                "ID": f"{service}:endpoint",
                "InterfaceName": "org.openstack.nova",
                "ServingState": "production" if seen["up"] else "closed",
                **known(HealthState="ok" if seen["up"] else "critical", HealthStateInfo=seen["error"] or None),
                "Associations": {"CloudComputingServiceID": service},
            }
        ],
        "CloudComputingManager": [
            known(
                ID=f"{service}:manager",
                ProductName="OpenStack Nova",
                HypervisorName="LXD",
                TotalAcceleratorSlots=gpus["total"] if seen["up"] else None,
                UsedAcceleratorSlots=gpus["used"] if seen["up"] else None,
                Associations={"CloudComputingServiceID": service},
            )
        ],
        "CloudComputingShare": shares,
        "CloudComputingInstanceType": flavors,
        "CloudComputingVirtualAccelerator": accelerators,
        "CloudComputingImage": [
            known(
                ID=f"{service}:image:{image['id']}",
                Name=image["name"],
                OSPlatform=image.get("architecture"),
                OSName=image.get("os_distro"),
                OSVersion=image.get("os_version"),
                Associations={"CloudComputingServiceID": service},
            )
            for image in seen["images"]
        ],
    }
    for entity in (entity for members in entities.values() for entity in members):
        entity["CreationTime"] = when
    if domain:
        entities["AdminDomain"] = [{"ID": domain, "CreationTime": when}]
    return entities


def cmdb(seen: Record, service: str, domain: str) -> list[Record]:
    """Return records for a CMDB.

    They are the service, each flavor and public image, and the GPUs of each host by type.
    """
    records: list[Record] = [{"_id": service, "type": "service", "data": known(service_type="org.openstack.nova", sitename=domain or None)}]
    types = of_types(seen)
    for flavor in seen["flavors"]:
        count = Counter[str]()
        for kind in flavor["gpus"]:
            count.update(types.get(kind, Counter()))
        data = known(
            service=service,
            flavor_id=flavor["id"],
            name=flavor["name"],
            num_vcpus=flavor["cpus"],
            mem_size=flavor["memory_mib"],
            disk_size=flavor["disk_gib"],
            num_gpus=sum(flavor["gpus"].values()),
            gpu_vendor=vendor(flavor["accelerator"]),
            gpu_model=",".join(flavor["gpus"]) or None,
            accelerator=flavor["accelerator"] or None,
        )
        if flavor["gpus"]:
            data.update(total_gpus=count["total"], used_gpus=count["used"], free_gpus=count["free"])
        records.append({"_id": f"{service}:flavor:{flavor['id']}", "type": "flavor", "data": data})
    for image in seen["images"]:
        data = known(
            service=service,
            image_id=image["id"],
            image_name=image["name"],
            architecture=image.get("architecture"),
            distribution=image.get("os_distro"),
            version=image.get("os_version"),
        )
        records.append({"_id": f"{service}:image:{image['id']}", "type": "image", "data": data})
    for node in seen["nodes"]:
        for gres in node["gres"]:
            data = {"service": service, "host": node["name"], "gpu_model": gres["type"], "resource_class": gres["resource"]}
            data.update({f"{key}_gpus": gres[key] for key in ("total", "used", "reserved", "free")})
            records.append({"_id": f"{service}:{node['name']}:{gres['type']}", "type": "accelerator", "data": data})
    return records


def publish(text: str, path: str) -> None:
    """Replace the file at once, so that no process reads half of it."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(f"{path}.new", path)


def as_json(data: t.Any) -> str:
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def main(cloud: str, directory: str, service: str, domain: str = "") -> str:
    """Write the files; returns why an API did not answer, empty if all did."""
    seen = status(cloud)
    publish(metrics(seen), os.path.join(directory, "openstack_metrics.prom"))
    publish(as_json(glue2(seen, service, domain)), os.path.join(directory, "glue2.json"))
    if seen["up"]:  # a record without its numbers would be read as a loss
        publish(as_json(cmdb(seen, service, domain)), os.path.join(directory, "cmdb.json"))
    return str(seen["error"])


if __name__ == "__main__":
    sentence = main(*sys.argv[1:])
    if sentence:
        sys.exit(f"an API does not answer, the documents say so: {sentence}")
