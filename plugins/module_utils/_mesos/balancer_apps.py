# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# The role marathon_lb installs it on balancers with the files beside it whose names begin with balancer_.
"""Applications of Marathon as services of the balancer: pure functions.

The input is the list that Marathon answers to GET /v2/apps?embed=apps.tasks. Nothing in it is believed: an application that has not
the form of one is a problem of its own, and the others are read.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import typing as t
from dataclasses import dataclass, field, replace

from . import balancer_labels
from .balancer_labels import Deployment, Options, Problem

# Marathon's own rule for the parts of an id.
APP_ID = re.compile(r"(?=.{2,255}\Z)(?:/(?:[a-z0-9]|[a-z0-9][a-z0-9-]*[a-z0-9])(?:\.(?:[a-z0-9]|[a-z0-9][a-z0-9-]*[a-z0-9]))*)+")
# What may stand in a line of HAProxy's health check, which takes the path as it is.
CHECK_PATH = re.compile(r"/[A-Za-z0-9._~/?&=+,:@-]{0,255}")
# A task in another state is not there yet, is going, or is lost.
SERVING = ("TASK_RUNNING", "TASK_UNREACHABLE", "TASK_LOST")
HTTP, HTTPS, TCP = ("HTTP", "MESOS_HTTP"), ("HTTPS", "MESOS_HTTPS"), ("TCP", "MESOS_TCP")

Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]


@dataclass(frozen=True)
class Server:
    """A port of a task."""

    name: str
    address: str
    port: int
    check_port: t.Optional[int] = None
    draining: bool = False


@dataclass(frozen=True)
class Check:
    """How HAProxy sees whether a server lives: as Marathon does."""

    kind: str  # tcp, http or https
    path: str
    port: t.Optional[int]
    interval: int
    timeout: int
    falls: int


@dataclass(frozen=True)
class Service:
    """A port of an application that is to be published."""

    app: str
    index: int
    port: int
    mode: str
    options: Options
    check: t.Optional[Check] = None
    servers: t.Tuple[Server, ...] = ()

    @property
    def name(self) -> str:
        """The name of its frontend and backend; no two services have the same port."""
        return f"{self.app[1:].replace('/', '_')}_{self.port}"


@dataclass(frozen=True)
class Site:
    """What the site says about applications."""

    groups: t.Tuple[str, ...]
    networks: t.Tuple[Network, ...] = ()
    health: bool = True
    tls: bool = True


@dataclass
class Reading:
    """All of Marathon's applications that ask for this balancer."""

    services: t.List[Service] = field(default_factory=list)
    problems: t.List[Problem] = field(default_factory=list)
    present: t.Set[str] = field(default_factory=set)  # ids, also of what is refused
    alive: t.Set[str] = field(default_factory=set)  # tasks that Marathon has seen healthy


@dataclass
class _App:
    """One application on the way to its services."""

    id: str
    raw: t.Mapping[str, t.Any]
    labels: balancer_labels.Labels
    ports: t.List[t.Optional[int]]
    tasks: t.List[t.Mapping[str, t.Any]]
    alive: t.Set[str]


def mapping(value: t.Any) -> t.Mapping[str, t.Any]:
    return value if isinstance(value, dict) else {}


def mappings(value: t.Any) -> t.List[t.Mapping[str, t.Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def number(value: t.Any, lowest: int, highest: int) -> t.Optional[int]:
    """A whole number within bounds, or none; JSON's true is no number."""
    return value if isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest else None


def port_of(value: t.Any) -> t.Optional[int]:
    return number(value, 1, 65535)


def network_mode(app: t.Mapping[str, t.Any]) -> str:
    """Return host, container/bridge or container.

    These are the names of Marathon 1.5; those of the versions before it are understood, too.
    """
    networks = mappings(app.get("networks"))
    if networks:
        mode = str(networks[-1].get("mode", "container"))
        return mode if mode in ("host", "container/bridge") else "container"
    docker = mapping(mapping(app.get("container")).get("docker"))
    if docker.get("network") in ("USER", "BRIDGE"):
        return "container" if docker["network"] == "USER" else "container/bridge"
    return "container" if mapping(app.get("ipAddress")) else "host"


def port_mappings(app: t.Mapping[str, t.Any]) -> t.List[t.Mapping[str, t.Any]]:
    container = mapping(app.get("container"))
    return mappings(mapping(container.get("docker")).get("portMappings")) or mappings(container.get("portMappings"))


def service_ports(app: t.Mapping[str, t.Any]) -> t.List[t.Optional[int]]:
    """Return the service port of each port, or None.

    None stands where Marathon gave it none, and for UDP, which HAProxy does not speak.
    """
    if network_mode(app) != "host" and port_mappings(app):
        return [None if one.get("protocol") == "udp" else port_of(one.get("servicePort")) for one in port_mappings(app)]
    if isinstance(app.get("portDefinitions"), list):
        return [None if one.get("protocol") == "udp" else port_of(one.get("port")) for one in mappings(app["portDefinitions"])]
    ports = app.get("ports")
    return [port_of(one) for one in ports] if isinstance(ports, list) else []


def task_ports(app: t.Mapping[str, t.Any], task: t.Mapping[str, t.Any]) -> t.List[t.Optional[int]]:
    """Where a task listens, in the order of the application's ports."""
    if network_mode(app) == "container":
        return [port_of(one.get("containerPort")) for one in port_mappings(app)]
    ports = task.get("ports")
    return [port_of(one) for one in ports] if isinstance(ports, list) else []


def task_address(app: t.Mapping[str, t.Any], task: t.Mapping[str, t.Any], resolve: t.Callable[[str], str]) -> str:
    """The address of a task; empty if it has none."""
    if network_mode(app) == "container":
        for one in mappings(task.get("ipAddresses")):
            if isinstance(one.get("ipAddress"), str):
                return str(one["ipAddress"])
        return ""
    host = task.get("host")
    if not isinstance(host, str):
        return ""
    if balancer_labels.HOST.fullmatch(host.lower()) or address_of(host):
        return host if address_of(host) else resolve(host)
    return ""


def address_of(text: str) -> t.Optional[t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]]:
    try:
        return ipaddress.ip_address(text) if re.fullmatch(r"[0-9A-Fa-f.:]{2,45}", text) else None
    except ValueError:
        return None


def reachable(text: str, networks: t.Sequence[Network]) -> bool:
    """Return whether a server may have the address.

    An executor reports it, and could name a service of the balancer itself.
    """
    address = address_of(text)
    if address is None:
        return False
    if networks:
        return any(address in network for network in networks)
    return not (address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified or address.is_reserved)


def healthy(app: t.Mapping[str, t.Any], task: t.Mapping[str, t.Any], known: t.Collection[str]) -> bool:
    """Whether Marathon's own checks of a task succeed.

    :param known: ids of the tasks that were healthy before. After a change of its leader Marathon has no results for a while.
    """
    if not mappings(app.get("healthChecks")):
        return True
    results = mappings(task.get("healthCheckResults"))
    if not results:
        return task.get("id") in known
    return all(result.get("alive") is True for result in results)


def check_of(app: t.Mapping[str, t.Any], index: int) -> t.Optional[t.Mapping[str, t.Any]]:
    """Return the first health check with a port of its own or with this index."""
    for check in mappings(app.get("healthChecks")):
        if check.get("protocol") in HTTP + HTTPS + TCP and (port_of(check.get("port")) or check.get("portIndex", 0) == index):
            return check
    return None


def read_check(raw: t.Mapping[str, t.Any], mode: str) -> Check:
    """HAProxy's form of a health check of Marathon.

    :raises ValueError: the path has a character that HAProxy would read as its own.
    """
    kind = "tcp" if mode == "tcp" or raw["protocol"] in TCP else "https" if raw["protocol"] in HTTPS else "http"
    where = raw.get("path") or "/"
    if kind != "tcp" and not (isinstance(where, str) and CHECK_PATH.fullmatch(where)):
        raise ValueError(f"its health check has the path {balancer_labels.shown(where)}; letters, digits and ._~/?&=+,:@- are possible")
    return Check(
        kind,
        where if kind != "tcp" else "/",
        port_of(raw.get("port")),
        number(raw.get("intervalSeconds"), 1, 3600) or 10,
        number(raw.get("timeoutSeconds"), 1, 600) or 10,
        (number(raw.get("maxConsecutiveFailures"), 0, 100) or 0) + 1,
    )


def server_name(address: str, port: int, task: str) -> str:
    """Return a name that stays the same while the task lives.

    No other task has it: HAProxy keeps states by it.
    """
    return f"t{hashlib.sha256(f'{address} {port} {task}'.encode('utf-8', 'replace')).hexdigest()[:16]}"


def base_of(app: str, deployment: Deployment) -> str:
    """The id that both halves of a blue/green deployment share.

    The group's name alone is no proof: any application could name another's and would get a share of its requests. So the id must be the
    name, or the name and the colour, and whoever may use that id owns the application already.

    :raises ValueError: the id and the group do not fit.
    """
    base = app
    for colour in ("blue", "green"):
        if app.endswith(f"-{colour}") and deployment.colour in ("", colour):
            base = app[: -len(colour) - 1]
    if base != f"/{deployment.group}" and not base.endswith(f"/{deployment.group}"):
        ids = f"{deployment.group}-blue or {deployment.group}-green"
        raise ValueError(f"HAPROXY_DEPLOYMENT_GROUP is {deployment.group}, so the application must be called {ids}, of its own colour")
    return base


def opened(one: _App, site: Site, resolve: t.Callable[[str], str], problems: t.List[Problem]) -> t.Iterator[Service]:
    """The services of an application whose labels were read."""
    for index, service_port in enumerate(one.ports):
        options = one.labels.ports.get(index, Options())
        if index in one.labels.closed or not options.enabled:
            continue
        if "*" not in site.groups and not set(options.groups) & set(site.groups):
            continue
        port = options.port or service_port
        check = check_of(one.raw, index if options.check_index is None else options.check_index)
        speaks_http = bool(options.vhosts) or bool(check and check["protocol"] in HTTP + HTTPS and options.mode == "")
        mode = options.mode or ("http" if speaks_http else "tcp")
        wrong = balancer_labels.check_mode(index, options, mode)
        if port is None:
            problems.append(Problem(one.id, "", f"port {index} has no service port of tcp"))
        elif wrong:
            problems.append(Problem(one.id, *wrong))
        elif not site.tls and (options.https or options.hsts):
            label = f"HAPROXY_{index}_{'REDIRECT_TO_HTTPS' if options.https else 'USE_HSTS'}"
            problems.append(Problem(one.id, label, f"{label} needs a certificate, and the balancer has none"))
        elif options.https and not options.vhosts:
            label = f"HAPROXY_{index}_REDIRECT_TO_HTTPS"
            problems.append(Problem(one.id, label, f"{label} needs HAPROXY_{index}_VHOST"))
        else:
            try:
                made = read_check(check, mode) if check else None
            except ValueError as error:
                problems.append(Problem(one.id, "", f"port {index}: {error}"))
                continue
            service = Service(one.id, index, port, mode, options, made)
            yield replace(service, servers=tuple(servers_of(one, service, site, resolve, problems)))


def servers_of(one: _App, service: Service, site: Site, resolve: t.Callable[[str], str], problems: t.List[Problem]) -> t.Iterator[Server]:
    refused = ""
    for task in one.tasks:
        if task.get("state", "TASK_RUNNING") not in SERVING or (site.health and task["id"] not in one.alive):
            continue
        ports = task_ports(one.raw, task)
        port = ports[service.index] if service.index < len(ports) else None
        address = task_address(one.raw, task, resolve)
        if port is None or not address:
            continue
        if not reachable(address, site.networks):
            refused = address
            continue
        check_index = service.options.check_index
        check_port = ports[check_index] if check_index is not None and check_index < len(ports) else None
        yield Server(server_name(address, port, task["id"]), address, port, check_port, task.get("draining") is True)
    if refused:
        problems.append(Problem(one.id, "", f"tasks at {balancer_labels.shown(refused)} are not in the networks of applications"))


def wanted(raw: t.Any, site: Site, known: t.Collection[str], found: Reading) -> t.Optional[_App]:
    """An application that asks for this balancer, or none."""
    app = mapping(raw)
    labels = {str(key): value for key, value in mapping(app.get("labels")).items()}
    groups = balancer_labels.groups_of(labels)
    if "*" not in site.groups and not groups & set(site.groups):
        return None
    identity = app.get("id")
    if not isinstance(identity, str) or not APP_ID.fullmatch(identity):
        found.problems.append(Problem(balancer_labels.shown(identity), "", "this is no id of an application"))
        return None
    if identity in found.present:
        found.problems.append(Problem(identity, "", "Marathon lists it twice; the first one counts"))
        return None
    found.present.add(identity)
    ports = service_ports(app)
    read = balancer_labels.read(labels, len(ports))
    found.problems.extend(Problem(identity, label, sentence) for label, sentence in read.refused)
    tasks = [task for task in mappings(app.get("tasks")) if isinstance(task.get("id"), str)]
    alive = {task["id"] for task in tasks if healthy(app, task, known)}
    found.alive |= alive
    return None if read.wholly else _App(identity, app, read, ports, tasks, alive)


def newest_last(half: _App) -> t.Tuple[str, str]:
    return (half.labels.deployment.started if half.labels.deployment else ""), half.id


def merged(halves: t.Sequence[_App], base: str, problems: t.List[Problem]) -> _App:
    """Return the halves of a blue/green deployment as one application.

    It has the older half's labels and ports, with the tasks of both.
    As many tasks of the older half are drained as there are new ones that serve, if enough for the target remain.
    """
    ordered = sorted(halves, key=newest_last)
    for dropped in ordered[:-2]:
        problems.append(Problem(dropped.id, "HAPROXY_DEPLOYMENT_GROUP", f"{base} has more than two halves; the newest two count"))
    if len(ordered) == 1:
        return replace(ordered[0], id=base)
    old, new = ordered[-2:]
    plan = new.labels.deployment
    target = 1
    if plan is not None and plan.new is not None:
        target = plan.target if plan.target is not None else 1
        if plan.new and scaled(old) > scaled(new):  # a deployment that stopped half-way was turned back
            old, new = new, old
    # Without health checks every running task is alive; one that is still starting does not serve yet.
    serving = sum(1 for task in new.tasks if task["id"] in new.alive and task.get("state", "TASK_RUNNING") in SERVING)
    leaving = sorted(old.tasks, key=lambda task: str(task["id"]))
    drained = min(len(leaving), serving, max(0, serving + len(leaving) - target))
    tasks: t.List[t.Mapping[str, t.Any]] = [{**task, "draining": position < drained} for position, task in enumerate(leaving)]
    return replace(old, id=base, tasks=[*tasks, *new.tasks], alive=old.alive | new.alive)


def scaled(half: _App) -> str:
    when = mapping(half.raw.get("versionInfo")).get("lastScalingAt")
    return when if isinstance(when, str) else ""


def read(apps: t.Sequence[t.Any], site: Site, resolve: t.Callable[[str], str], known: t.Collection[str] = ()) -> Reading:
    """Read what Marathon lists.

    :param resolve: gives the address of a host's name, or an empty text.
    :param known: ids of the tasks that were healthy before.
    """
    found = Reading()
    single: t.Dict[str, _App] = {}
    halves: t.Dict[str, t.List[_App]] = {}
    for raw in apps:
        one = wanted(raw, site, known, found)
        if one is None:
            continue
        if one.labels.deployment is None:
            single[one.id] = one
            continue
        try:
            halves.setdefault(base_of(one.id, one.labels.deployment), []).append(one)
        except ValueError as error:
            found.problems.append(Problem(one.id, "HAPROXY_DEPLOYMENT_GROUP", str(error)))
    exist = set(found.present)
    for base, members in sorted(halves.items()):
        # Also one whose labels are refused: its name must not bring another what it has.
        if base in exist and all(member.id != base for member in members):
            sentence = f"{base} is an application itself, without HAPROXY_DEPLOYMENT_GROUP"
            found.problems.extend(Problem(member.id, "HAPROXY_DEPLOYMENT_GROUP", sentence) for member in members)
        else:
            found.present.add(base)
            single[base] = merged(members, base, found.problems)
    for _name, one in sorted(single.items()):
        found.services.extend(opened(one, site, resolve, found.problems))
    return found
