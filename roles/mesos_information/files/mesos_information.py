# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Write what a Mesos cluster has and what is in use.

usage: mesos_information.py CREDENTIALS AUTHORITY DIRECTORY CLUSTER SERVICE-ID [DOMAIN-ID]

CREDENTIALS is the master's JSON file of principals, of which operator is used.
AUTHORITY is the PEM file that the master's certificate is checked with.
The environment is the master's own: MESOS_HOSTNAME, MESOS_PORT, LIBPROCESS_SSL_ENABLED.
Any master may be asked, the leading one answers. The program only reads.
The files are glue2.json (a GLUE2 document), cmdb.json (records for a CMDB) and mesos_metrics.prom (metrics for Prometheus).
Keys, metrics and units are those of the programs for SLURM and Kubernetes: memory in MiB, an account is a framework.
What is not known is absent.
"""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import ssl
import sys
import time
import typing as t
import urllib.error
import urllib.request
from collections import Counter

TIMEOUT = 20.0  # seconds for a question: a master that hangs must not make the publishing pile up
PRINCIPAL = "operator"
# The agent's attribute that says how many GPUs of a type it has, such as gpus_a100:4.
COUNT = re.compile(r"gpus_(.+)")
VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}
RUNNING, STARTING = ("TASK_RUNNING", "TASK_KILLING"), ("TASK_STAGING", "TASK_STARTING")
STATES = ("running", "pending", "unreachable")
# What a framework is for INDIGO's CMDB, by the name with which it registers.
SERVICES = {"marathon": "eu.indigo-datacloud.marathon", "chronos": "eu.indigo-datacloud.chronos"}
TYPE = "eu.indigo-datacloud.mesos"

Record = t.Dict[str, t.Any]


class Unreadable(Exception):
    """One sentence: why no master answered."""


def secret_of(path: str) -> str:
    """The secret of the principal in the master's file of credentials.

    :raises Unreadable: it has no such principal.
    """
    try:
        with open(path, encoding="utf-8") as file:
            listed = json.load(file)["credentials"]
        return str(next(one["secret"] for one in listed if one["principal"] == PRINCIPAL))
    except (OSError, ValueError, KeyError, TypeError, StopIteration):  # its text is in no sentence
        raise Unreadable(f"the file of credentials has no principal {PRINCIPAL}") from None


def state_of(credentials: str, authority: str, environment: t.Mapping[str, str]) -> Record:
    """What the leading master says; the master of this host passes the question on.

    :raises Unreadable: there is no answer.
    """
    has_tls = environment.get("LIBPROCESS_SSL_ENABLED", "").lower() in ("1", "true")
    host = environment.get("MESOS_HOSTNAME") or socket.getfqdn()
    url = f"{'https' if has_tls else 'http'}://{host}:{environment.get('MESOS_PORT') or 5050}/state"
    word = base64.b64encode(f"{PRINCIPAL}:{secret_of(credentials)}".encode()).decode("ascii")
    request = urllib.request.Request(url, headers={"Authorization": f"Basic {word}", "Accept": "application/json"})
    try:
        context = ssl.create_default_context(cafile=authority) if has_tls else None
        # An opener of its own follows to the leader, and asks no proxy.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
        with opener.open(request, timeout=TIMEOUT) as answer:
            return dict(json.load(answer))
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise Unreadable(f"{url}: {' '.join(str(error).split())[:300].rstrip('.')}") from None


def types_of(agent: Record) -> dict[str, int]:
    """How many GPUs of each type an agent was started with."""
    found = {}
    for name, value in sorted((agent.get("attributes") or {}).items()):
        match = COUNT.fullmatch(name)
        if match and isinstance(value, (int, float)):
            found[match.group(1)] = int(value)
    return found


def type_of(agent: Record) -> str:
    """Return the type of an agent's GPUs.

    Several types have + between them, as Mesos does not say which of them a task has.
    """
    return "+".join(types_of(agent))


def amount(resources: t.Any, name: str) -> float:
    return float((resources or {}).get(name) or 0)


def node_record(agent: Record) -> Record:
    has, used = agent.get("resources"), agent.get("used_resources")
    is_there, is_away = bool(agent.get("active")), bool(agent.get("deactivated"))
    # A deactivated agent is not active either; whether it is connected Mesos does not say of it.
    usable = is_there and not is_away
    drain = str((agent.get("drain_info") or {}).get("state") or "")
    gpus, taken = int(amount(has, "gpus")), int(amount(used, "gpus"))
    attributes = agent.get("attributes") or {}
    return {
        "name": agent["hostname"],
        "state": "active" if is_there else "deactivated" if is_away else "disconnected",
        "flags": [*(["deactivated"] if is_away else []), *([drain.lower()] if drain else [])],
        "usable": usable,
        "cpus": {"total": round(amount(has, "cpus")), "used": round(amount(used, "cpus"), 3)},
        "memory_mib": {"total": int(amount(has, "mem")), "used": int(amount(used, "mem"))},
        "gres": [
            {
                "name": "gpu",
                "type": type_of(agent),
                "vendor": VENDORS.get(str(attributes.get("gpu_vendor") or "").lower()),
                "model": attributes.get("gpu_model"),
                "total": gpus,
                "used": taken,
                "free": max(0, gpus - taken) if usable else 0,
            }
        ]
        if gpus
        else [],
        "version": str(agent.get("version") or ""),
    }


def tasks_of(state: Record) -> list[Record]:
    """Tasks counted by account and state, with what they have."""
    types = {agent["id"]: type_of(agent) for agent in state.get("slaves") or []}
    groups: dict[tuple[str, str], Record] = {}
    for framework in state.get("frameworks") or []:
        account = str(framework.get("name") or "")
        listed = [(one, RUNNING, "running") for one in framework.get("tasks") or []]
        listed += [(one, STARTING, "pending") for one in framework.get("tasks") or []]
        listed += [(one, (one.get("state"),), "unreachable") for one in framework.get("unreachable_tasks") or []]
        for task, wanted, name in listed:
            if task.get("state") not in wanted:
                continue
            group = groups.setdefault((account, name), {"account": account, "state": name, "count": 0, "cpus": 0.0, "gpus": Counter()})
            group["count"] += 1
            group["cpus"] += amount(task.get("resources"), "cpus")
            gpus = int(amount(task.get("resources"), "gpus"))
            if gpus:
                group["gpus"][types.get(task.get("slave_id"), "")] += gpus
    return [groups[key] for key in sorted(groups)]


def frameworks_of(state: Record) -> list[Record]:
    found = [
        {"name": str(one.get("name") or ""), "url": str(one.get("webui_url") or ""), "active": bool(one.get("active"))}
        for one in state.get("frameworks") or []
    ]
    return sorted(found, key=lambda one: (one["name"], one["url"]))


def status_of(state: Record) -> Record:
    """The cluster, from what the leading master says of it."""
    agents = state.get("slaves") or []
    return {
        "version": str(state.get("version") or ""),
        "nodes": sorted((node_record(agent) for agent in agents), key=lambda node: str(node["name"])),
        "tasks": tasks_of(state),
        "frameworks": frameworks_of(state),
    }


def status(credentials: str, authority: str, cluster: str, environment: t.Mapping[str, str]) -> Record:
    """Return the cluster as it is now.

    Where no master leads, up is false, error is a sentence, and there is nothing else in it.
    """
    found: Record = {"time": int(time.time()), "up": True, "error": "", "cluster": cluster}
    try:
        return {**found, **status_of(state_of(credentials, authority, environment))}
    except Unreadable as error:  # half a status would be read as a loss
        return {**found, "up": False, "error": str(error), "version": "", "nodes": [], "tasks": [], "frameworks": []}


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
    text.add("mesos_up", "Whether a master leads and answers.", int(seen["up"]))
    text.add("mesos_status_timestamp_seconds", "When the master was asked.", seen["time"])
    if not seen["up"]:  # absent, not zero: nothing is known of agents and tasks
        return str(text)
    text.add("mesos_info", "Name and release of the cluster.", 1, cluster=seen["cluster"], version=seen["version"])
    # Several frameworks may have one name.
    active: Counter[str] = Counter()
    for one in seen["frameworks"]:
        active[one["name"]] += int(one["active"])
    for name in sorted(active):
        text.add("mesos_framework_active", "Frameworks of this name that get offers.", active[name], framework=name)
    for node in seen["nodes"]:
        name = node["name"]
        text.add("mesos_node_usable", "Whether tasks can start on the agent now.", int(node["usable"]), node=name, state=node["state"])
        text.add("mesos_node_cpus", "CPUs of the agent.", node["cpus"]["total"], node=name)
        text.add("mesos_node_cpus_allocated", "CPUs that tasks have.", node["cpus"]["used"], node=name)
        text.add("mesos_node_memory_bytes", "Memory of the agent.", node["memory_mib"]["total"] << 20, node=name)
        text.add("mesos_node_memory_allocated_bytes", "Memory that tasks have.", node["memory_mib"]["used"] << 20, node=name)
        for gres in node["gres"]:
            labels = {"node": name, "gres": gres["name"], "type": gres["type"]}
            text.add("mesos_node_gres", "GPUs that the agent offers.", gres["total"], **labels)
            text.add("mesos_node_gres_allocated", "GPUs that tasks have.", gres["used"], **labels)
    for group in seen["tasks"]:
        text.add("mesos_account_tasks", "Tasks by framework and state.", group["count"], account=group["account"], state=group["state"])
    for group in seen["tasks"]:
        if group["state"] == "running":
            text.add("mesos_account_cpus_allocated", "CPUs of the framework's tasks.", round(group["cpus"], 3), account=group["account"])
            for kind, count in sorted(group["gpus"].items()):
                text.add("mesos_account_gpus_allocated", "GPUs of the framework's tasks.", count, account=group["account"], type=kind)
    return str(text)


def known(**attributes: t.Any) -> Record:
    return {key: value for key, value in attributes.items() if value is not None}


def total(entries: t.Iterable[Record], key: str) -> int:
    return sum(entry[key] for entry in entries)


def gpus_of(nodes: list[Record]) -> list[Record]:
    return [gres for node in nodes for gres in node["gres"]]


def counted(seen: Record, state: str, account: str | None = None) -> int:
    return total((group for group in seen["tasks"] if group["state"] == state and account in (None, group["account"])), "count")


def jobs(seen: Record, account: str | None = None) -> Record:
    """Tasks as jobs of GLUE2. What a framework has not sent yet, Mesos does not know."""
    if not seen["up"]:
        return {}
    counts = {state: counted(seen, state, account) for state in STATES}
    return {"TotalJobs": counts["running"] + counts["pending"], "RunningJobs": counts["running"], "WaitingJobs": counts["pending"]}


def common(gpus: list[Record], key: str) -> t.Any:
    """The value that all of them have; None where they differ."""
    values = {gpu[key] for gpu in gpus}
    return values.pop() if len(values) == 1 else None


def kind_of(node: Record) -> tuple[t.Any, ...]:
    """What makes agents equal for those who choose among them."""
    gpus = tuple((gres["type"], gres["total"]) for gres in node["gres"])
    return (node["cpus"]["total"], node["memory_mib"]["total"] // 1024, gpus)


def glue2(seen: Record, service: str, domain: str) -> Record:
    """Return entities of GLUE 2.0, for accelerators 2.1, in a list under each name."""
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seen["time"]))
    kinds: dict[tuple[t.Any, ...], list[Record]] = {}
    for node in seen["nodes"]:
        kinds.setdefault(kind_of(node), []).append(node)
    environments, accelerators = [], []
    for members in kinds.values():
        first = members[0]
        identity = f"{service}:environment:{first['name']}"
        environments.append(
            {
                "ID": identity,
                "OSFamily": "linux",
                "TotalInstances": len(members),
                "UsedInstances": sum(node["cpus"]["used"] > 0 for node in members),
                "UnavailableInstances": sum(not node["usable"] for node in members),
                "LogicalCPUs": first["cpus"]["total"],
                "MainMemorySize": first["memory_mib"]["total"],
                "Associations": {"ComputingManagerID": f"{service}:manager"},
            }
        )
        gpus = gpus_of(members)
        if gpus:
            accelerators.append(
                known(
                    ID=f"{identity}:{gpus[0]['type'] or 'gpu'}",
                    Name=gpus[0]["type"] or None,
                    Type="GPU",
                    Vendor=common(gpus, "vendor"),
                    Model=common(gpus, "model"),
                    LogicalAccelerators=gpus[0]["total"],
                    OtherInfo=[
                        f"TotalAccelerators={total(gpus, 'total')}",
                        f"UsedAccelerators={total(gpus, 'used')}",
                        f"FreeAccelerators={total(gpus, 'free')}",
                    ],
                    Associations={"ExecutionEnvironmentID": [identity]},
                )
            )
    everything = gpus_of(seen["nodes"])
    entities: dict[str, list[Record]] = {
        "ComputingService": [
            {
                "ID": service,
                "Name": seen["cluster"],
                "Type": TYPE,
                "Capability": ["executionmanagement.jobexecution", "executionmanagement.jobmanagement"],
                "QualityLevel": "production",
                **jobs(seen),
                **({"Associations": {"AdminDomainID": [domain]}} if domain else {}),
            }
        ],
        "ComputingEndpoint": [
            {
                "ID": f"{service}:endpoint",
                "InterfaceName": TYPE,
                "ServingState": "production" if seen["up"] else "closed",
                **known(HealthState="ok" if seen["up"] else "critical", HealthStateInfo=seen["error"] or None),
                "Associations": {"ComputingServiceID": service},
            }
        ],
        "ComputingManager": [
            known(
                ID=f"{service}:manager",
                ProductName="Apache Mesos",
                ProductVersion=seen["version"] or None,
                TotalSlots=total([node["cpus"] for node in seen["nodes"]], "total") if seen["up"] else None,
                TotalAcceleratorSlots=total(everything, "total") if seen["up"] else None,
                UsedAcceleratorSlots=total(everything, "used") if seen["up"] else None,
                Associations={"ComputingServiceID": service},
            )
        ],
        "ComputingShare": [share(name, seen, service) for name in sorted({one["name"] for one in seen["frameworks"]})],
        "ExecutionEnvironment": environments,
        "AcceleratorEnvironment": accelerators,
    }
    for entity in (entity for members in entities.values() for entity in members):
        entity["CreationTime"] = when
    if domain:
        entities["AdminDomain"] = [{"ID": domain, "CreationTime": when}]
    return entities


def share(account: str, seen: Record, service: str) -> Record:
    """The ComputingShare of a framework."""
    counts = jobs(seen, account)
    running = [group for group in seen["tasks"] if group["account"] == account and group["state"] == "running"]
    return {
        "ID": f"{service}:share:{account}",
        "Name": account,
        "ServingState": "production",
        **counts,
        "LocalRunningJobs": counts["RunningJobs"],
        "LocalWaitingJobs": counts["WaitingJobs"],
        "UsedAcceleratorSlots": sum(sum(group["gpus"].values()) for group in running),
        "FreeAcceleratorSlots": total(gpus_of(seen["nodes"]), "free"),
        "MappingPolicy": [f"Framework:{account}"],
        "Associations": {"ComputingServiceID": service, "ComputingEndpointID": [f"{service}:endpoint"]},
    }


def cmdb(seen: Record, service: str, domain: str) -> list[Record]:
    """Return records for a CMDB: services, each type of GPU, and each agent's GPUs.

    num_gpus of a type is what one task can have at most.
    """
    records: list[Record] = [
        {"_id": service, "type": "service", "data": known(service_type=TYPE, name=seen["cluster"], sitename=domain or None)}
    ]
    for name, kind in SERVICES.items():
        urls = [one["url"] for one in seen["frameworks"] if one["name"] == name]
        if urls:
            data = known(service_type=kind, name=name, endpoint=urls[0] or None, sitename=domain or None, mesos_service=service)
            records.append({"_id": f"{service}:{name}", "type": "service", "data": data})
    for kind in sorted({gpu["type"] for gpu in gpus_of(seen["nodes"])}):
        gpus = [gpu for gpu in gpus_of(seen["nodes"]) if gpu["type"] == kind]
        data = known(
            service=service,
            name=kind or "gpu",
            num_gpus=max(gpu["total"] for gpu in gpus),
            gpu_vendor=common(gpus, "vendor"),
            gpu_model=kind or None,
            **{f"{key}_gpus": total(gpus, key) for key in ("total", "used", "free")},
        )
        records.append({"_id": f"{service}:{kind or 'gpu'}", "type": "flavor", "data": data})
    for node in seen["nodes"]:
        for gres in node["gres"]:
            data = {"service": service, "host": node["name"], "gpu_model": gres["type"], "usable": node["usable"]}
            data.update({f"{key}_gpus": gres[key] for key in ("total", "used", "free")})
            records.append({"_id": f"{service}:{node['name']}:{gres['type'] or 'gpu'}", "type": "accelerator", "data": data})
    return records


def publish(text: str, path: str) -> None:
    """Replace the file at once, so that no process reads half of it."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(f"{path}.new", path)


def as_json(data: t.Any) -> str:
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def main(credentials: str, authority: str, directory: str, cluster: str, service: str, domain: str = "") -> str:
    """Write the files; returns why no master answered, empty if one did."""
    seen = status(credentials, authority, cluster, os.environ)
    publish(metrics(seen), os.path.join(directory, "mesos_metrics.prom"))
    publish(as_json(glue2(seen, service, domain)), os.path.join(directory, "glue2.json"))
    if seen["up"]:  # a record without its numbers would be read as a loss
        publish(as_json(cmdb(seen, service, domain)), os.path.join(directory, "cmdb.json"))
    return str(seen["error"])


if __name__ == "__main__":
    sentence = main(*sys.argv[1:])
    if sentence:
        sys.exit(f"no master answers, the documents say so: {sentence}")
