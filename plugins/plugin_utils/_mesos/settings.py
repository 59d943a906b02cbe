# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The variables of a Mesos cluster, and what is wrong with them.

These mistakes do not depend on what the hosts have. A sentence never has a secret, or a part of one. Pure functions.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.shapes import unknown_keys
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import as_number

PREFIX = "mesos_cluster_"
PORTS = {"master": 5050, "agent": 5051, "marathon": 8443, "chronos": 4443}
DEFAULTS: dict[str, t.Any] = {
    "name": "mesos",
    "mesos_source": {},
    "marathon_source": {},
    "chronos_source": {},
    "secrets": {},
    "ca": "",
    "tls": True,
    "accept_hardware": [],
    "root_submissions": False,
    "users": ["nobody"],
    "ports": {},
    "zookeeper_ids": {},
}
# Where programs come from: a tarball by url or path, or a package of the host's own sources.
SOURCE_KEYS = ("url", "path", "sha256", "package", "version")
# Principals of Mesos, accounts of ZooKeeper, and the accounts of the two HTTP interfaces.
SECRETS = (
    "operator",
    "agents",
    "marathon",
    "chronos",
    "zookeeper_mesos",
    "zookeeper_marathon",
    "zookeeper_chronos",
    "marathon_http",
    "chronos_http",
)
# Of a cluster without Chronos these are not needed.
SECRETS_OF_CHRONOS = ("chronos", "zookeeper_chronos", "chronos_http")
LEAST_SECRET = 16  # characters
# Flags and features that the roles write came with it, and credentials are JSON since.
LEAST_VERSION = (1, 11)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
# What would end a value in the URL of ZooKeeper, a credential of HTTP, a file of JSON or an environment.
NOT_IN_SECRETS = re.compile(r"[\s\"'`:@/\\$#]|[^\x21-\x7e]")
BOOLEANS = ("tls", "root_submissions")


def wrong(what: str, remedy: str, host: str | None = None) -> Finding:
    """One mistake: what is wrong and where, then what to do."""
    return Finding("inventory", f"{what}: {remedy}.", host, None, remedy)


def settings_of(given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the variables without their prefix, with defaults for those not given.

    :raises ValueError: they are no dictionary, or one has an unknown name.
    """
    if not isinstance(given, t.Mapping):
        raise ValueError("The settings of the cluster must be a dictionary, such as {name: mesos}.")
    for sentence in unknown_keys("The cluster", given, DEFAULTS):
        raise ValueError(sentence)
    return {**DEFAULTS, **given}


def listed(value: t.Any) -> list[str]:
    """A list, also from the text that -e name=value gives."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else [str(name) for name in value or []]


def truth(value: t.Any) -> bool:
    """A boolean, also from the text that -e name=value gives."""
    return str(value).lower() in ("true", "yes", "on", "1")


def ports_of(cluster: t.Mapping[str, t.Any]) -> dict[str, int]:
    """The port of each daemon."""
    return {**PORTS, **{name: int(port) for name, port in cluster["ports"].items()}}


def version_of(source: t.Mapping[str, t.Any]) -> tuple[int, ...]:
    """The numbers that begin a version, for comparisons."""
    found = re.match(r"[0-9]+(\.[0-9]+)*", str(source.get("version") or ""))
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def errors(cluster: t.Mapping[str, t.Any], hosts: t.Mapping[str, t.Sequence[str]]) -> list[Finding]:
    """What is wrong with the variables of a cluster.

    :param hosts: as hosts.hosts_of gives them; what a part without a host needs is not asked for.
    """
    found = []
    if not NAME.fullmatch(str(cluster["name"])):
        found.append(wrong(f"{PREFIX}name is {shown(cluster['name'])}", "write a name of letters, digits, '.', '_' and '-'"))
    for key in BOOLEANS:
        if str(cluster[key]).lower() not in ("true", "yes", "on", "1", "false", "no", "off", "0"):
            found.append(wrong(f"{PREFIX}{key} is {shown(cluster[key])}", "write true or false"))
    found += _source_errors("mesos", cluster["mesos_source"], "Apache's sources, built with --enable-ssl and --enable-libevent")
    found += _source_errors("marathon", cluster["marathon_source"], "Mesosphere's sources on GitHub") if hosts["marathon"] else []
    found += _source_errors("chronos", cluster["chronos_source"], "its sources on GitHub") if hosts["chronos"] else []
    found += _version_errors(cluster["mesos_source"])
    found += _secret_errors(cluster["secrets"], bool(hosts["chronos"]))
    found += _ca_errors(cluster)
    found += _user_errors(cluster)
    found += _port_errors(cluster["ports"])
    return found + _id_errors(cluster["zookeeper_ids"], hosts["zookeeper"])


def _source_errors(name: str, source: t.Any, where: str) -> list[Finding]:
    """Return what is wrong with the place that the programs come from.

    There is no default, as no project offers binaries any more.
    """
    variable = f"{PREFIX}{name}_source"
    form = "write {url: ..., sha256: ..., version: ...} of a tarball, the same with path, or {package: ..., version: ...}"
    if not source:
        return [wrong(f"{variable} is not set, and no project offers binaries any more", f"{form}; a build can be made from {where}")]
    if not isinstance(source, t.Mapping):
        return [wrong(f"{variable} is {shown(source)}", form)]
    found = [Finding("inventory", sentence) for sentence in unknown_keys(variable, source, SOURCE_KEYS)]
    places = [key for key in ("url", "path", "package") if source.get(key)]
    if len(places) != 1:
        return [
            *found,
            wrong(f"{variable} has {' and '.join(places) or 'neither url, path nor package'}", "give one of url, path and package"),
        ]
    if places == ["package"]:
        if not PACKAGE.fullmatch(str(source["package"])):
            found.append(wrong(f"{variable} has the package {shown(source['package'])}", "write the name of a package"))
        if source.get("sha256"):
            found.append(wrong(f"{variable} has sha256 beside package", "remove it: apt compares packages with its signed lists"))
    elif not re.fullmatch(r"[0-9a-fA-F]{64}", str(source.get("sha256") or "")):
        found.append(wrong(f"{variable} has no sha256 of 64 hexadecimal digits", "write what sha256sum prints for the tarball"))
    if places == ["url"] and not re.fullmatch(r"https?://[^\s@]+", str(source["url"])):
        found.append(wrong(f"{variable} has a url that can't be used", "write one that begins with https://, without user and password"))
    if places == ["path"] and not str(source["path"]).startswith("/"):
        found.append(wrong(f"{variable} has the path {shown(source['path'])}", "write the whole path of a file on the control node"))
    if not version_of(source) or not NAME.fullmatch(str(source["version"])):
        found.append(wrong(f"{variable} has no version", "write the version of the build, in quotes, such as '1.11.0'"))
    return found


def _version_errors(source: t.Any) -> list[Finding]:
    version = version_of(source) if isinstance(source, t.Mapping) else ()
    if version and version < LEAST_VERSION:
        what = f"{PREFIX}mesos_source is of the version {source['version']}, which lacks flags that the roles write"
        return [wrong(what, "give a build of 1.11.0, the last release, or of a later source")]
    return []


def _secret_errors(secrets: t.Any, has_chronos: bool) -> list[Finding]:
    variable = f"{PREFIX}secrets"
    make = "each of 16 or more characters, such as 'openssl rand -hex 24' prints, from ansible-vault"
    if not secrets or not isinstance(secrets, t.Mapping):
        return [wrong(f"{variable} is not a dictionary of secrets", f"write one with {', '.join(SECRETS)}, {make}")]
    found = [Finding("inventory", sentence) for sentence in unknown_keys(variable, secrets, SECRETS)]
    missing = [name for name in SECRETS if not secrets.get(name) and (has_chronos or name not in SECRETS_OF_CHRONOS)]
    if missing:
        found.append(wrong(f"{variable} lacks {', '.join(missing)}", f"add them, {make}"))
    seen: dict[str, str] = {}
    for name in SECRETS:
        secret = secrets.get(name)
        if not secret:
            continue
        if not isinstance(secret, str) or len(secret) < LEAST_SECRET:
            found.append(wrong(f"{variable}: {name} is no text of {LEAST_SECRET} or more characters", "write a longer one, in quotes"))
        elif NOT_IN_SECRETS.search(secret):
            what = f"{variable}: {name} has a character that a URL, a file of JSON or an environment can't have as it is"
            found.append(wrong(what, "use letters, digits and other signs than quotes, ':', '@', '/', '\\', '$' and '#'"))
        elif secret in seen:
            found.append(wrong(f"{variable}: {seen[secret]} and {name} are the same", "give each account a secret of its own"))
        else:
            seen[secret] = name
    return found


def _ca_errors(cluster: t.Mapping[str, t.Any]) -> list[Finding]:
    if not truth(cluster["tls"]):
        return []
    ca = str(cluster["ca"] or "")
    if "-----BEGIN CERTIFICATE-----" not in ca or "PRIVATE KEY" in ca:
        remedy = "give the text of the authority's certificate, not the path of its file, and not its key"
        return [wrong(f"{PREFIX}ca is {'no certificate in PEM' if ca else 'missing'}, which TLS needs", remedy)]
    return []


def _user_errors(cluster: t.Mapping[str, t.Any]) -> list[Finding]:
    users = listed(cluster["users"])
    if not users:
        return [wrong(f"{PREFIX}users is empty, so no task could run", "name the accounts that tasks may run as, such as [nobody]")]
    found = [
        wrong(f"{PREFIX}users has {shown(user)}", "write names of accounts of the agents' hosts")
        for user in users
        if not USER.fullmatch(user)
    ]
    if "root" in users and not truth(cluster["root_submissions"]):
        what = f"{PREFIX}users has root, but {PREFIX}root_submissions is false, so the masters would refuse such frameworks"
        found.append(wrong(what, "take root out, or set the other one to true, too"))
    return found


def _port_errors(ports: t.Any) -> list[Finding]:
    variable = f"{PREFIX}ports"
    if not isinstance(ports, t.Mapping):
        return [wrong(f"{variable} is {shown(ports)}", "write a dictionary, such as {marathon: 8443}")]
    found = [Finding("inventory", sentence) for sentence in unknown_keys(variable, ports, PORTS)]
    for name, port in ports.items():
        number = as_number(port)
        if number is None or not 0 < number < 65536:
            found.append(wrong(f"{variable}: {shown(name)} is {shown(port)}", "write a number from 1 to 65535"))
    merged = {**PORTS, **ports}
    twice = sorted({str(port) for port in merged.values() if [str(one) for one in merged.values()].count(str(port)) > 1})
    if not found and twice:
        found.append(wrong(f"{variable} gives {' and '.join(twice)} to two daemons", "give each a port of its own"))
    return found


def _id_errors(ids: t.Any, hosts: t.Sequence[str]) -> list[Finding]:
    """Return what is wrong with the numbers of ZooKeeper's servers.

    A server is known by its number. If it came from the order of hosts, a new host would take over another one's.
    """
    variable = f"{PREFIX}zookeeper_ids"
    example = "{" + ", ".join(f"{host}: {number}" for number, host in enumerate(hosts, 1)) + "}"
    if not isinstance(ids, t.Mapping):
        return [wrong(f"{variable} is {shown(ids)}", f"write each server's number, such as {example}")]
    missing = [host for host in hosts if host not in ids]
    if missing and len(hosts) > 1:
        return [wrong(f"{variable} lacks {', '.join(missing)}", f"write each server's number, such as {example}, and never change one")]
    found = []
    strange = [str(host) for host in ids if host not in hosts]
    if strange:
        found.append(wrong(f"{variable} names {', '.join(strange)}, which has no ZooKeeper", "name hosts of the group zookeeper"))
    numbers: dict[int, str] = {}
    for host, given in ids.items():
        number = as_number(given)
        if number is None or not 0 < number < 256:
            found.append(wrong(f"{variable}: {host} has {shown(given)}", "write a number from 1 to 255"))
        elif number in numbers:
            found.append(wrong(f"{variable}: {numbers[number]} and {host} both have {number}", "give each server a number of its own"))
        else:
            numbers[number] = str(host)
    return found
