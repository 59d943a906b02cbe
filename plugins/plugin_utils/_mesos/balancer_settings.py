# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the role marathon_lb is given, checked: pure functions.

The module also has the settings of its program on the balancers.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos import balancer_apps, balancer_labels, balancer_marathon
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.shapes import unknown_keys
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown

CERTIFICATE_KEYS = ("certificate", "key")
RESERVED_KEYS = ("vhost", "port", "apps")
PREFIX = "marathon_lb_"
STATE = "/var/lib/marathon-lb"
RUNTIME = "/run/marathon-lb"
FOLDER = "/etc/marathon-lb"
# Variable, lowest and highest value.
NUMBERS = (
    ("first_port", 1024, 65535),
    ("last_port", 1024, 65535),
    ("http_port", 1, 65535),
    ("https_port", 1, 65535),
    ("stats_port", 0, 65535),
    ("connections", 100, 1000000),
    ("timeout", 1, 86400),
    ("drain_seconds", 1, 86400),
    ("reload_seconds", 1, 3600),
    ("event_seconds", 15, 3600),
    ("interval", 5, 3600),
)
SHORTEST = 16
# HTTP itself needs them.
NEEDED_HEADERS = ("connection", "content-length", "host", "te", "transfer-encoding", "upgrade")


def plan(variables: t.Mapping[str, t.Any], groups: t.Mapping[str, t.Any], hostvars: t.Mapping[str, t.Any], host: str) -> dict[str, t.Any]:
    """The settings of the program on one balancer.

    :param variables: the role's variables without their prefix.
    :returns: errors, one sentence each, and, without any, the settings. No secret is in them.
    """
    errors = [f"{sentence} (host {host})." for sentence in _errors(variables)]
    if not errors:
        urls = list(variables["marathon_urls"]) or _urls(groups, hostvars, variables)
        errors = [f"{sentence} (host {host})." for sentence in _url_errors(urls, variables)]
        if not errors:
            return {"errors": [], "settings": _settings(variables, urls)}
    return {"errors": errors, "settings": {}}


def _settings(variables: t.Mapping[str, t.Any], urls: list[str]) -> dict[str, t.Any]:
    return {
        "made": "Made by deephdc.accelerators",  # file_set knows the file by it
        "marathon": urls,
        "credential_file": f"{FOLDER}/credential",
        "ca_file": f"{FOLDER}/ca.pem" if variables["ca"] else "",
        "state": STATE,
        "runtime": RUNTIME,
        "groups": [str(group) for group in variables["groups"]],
        "networks": _networks(variables["networks"]),
        "trusted_proxies": _networks(variables["trusted_proxies"]),
        "front_headers": [str(header) for header in variables["front_headers"]],
        "also_ports": sorted({int(port) for port in variables["ports"]}),
        "reserved": [_reserved(one) for one in variables["reserved"]],
        "address": str(variables["address"]),
        "tls": f"{FOLDER}/tls" if variables["certificates"] else "",
        "health": bool(variables["health"]),
        "interval_seconds": int(variables["interval"]),
        **{name: int(variables[name]) for name, _lowest, _highest in NUMBERS if name != "interval"},
    }


def _networks(given: t.Sequence[t.Any]) -> list[str]:
    return [str(ipaddress.ip_network(str(one), strict=False)) for one in given]


def _reserved(one: t.Mapping[str, t.Any]) -> dict[str, str]:
    claim = f"host {str(one['vhost']).lower()}" if "vhost" in one else f"port {int(one['port'])}"
    return {"claim": claim, "apps": str(one["apps"])}


def _urls(groups: t.Mapping[str, t.Any], hostvars: t.Mapping[str, t.Any], variables: t.Mapping[str, t.Any]) -> list[str]:
    """Return the Marathons' addresses, under the names that their certificates have."""
    hosts = groups.get("marathon") or groups.get("mesos_masters") or []
    scheme = "https" if variables["marathon_tls"] else "http"
    names = [str(hostvars[host].get("mesos_cluster_hostname") or host) if host in hostvars else str(host) for host in hosts]
    return [f"{scheme}://{name}:{int(variables['marathon_port'])}" for name in names]


def _url_errors(urls: t.Sequence[t.Any], variables: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    if not urls:
        yield f"{PREFIX}marathon_urls is empty and the inventory has no group marathon or mesos_masters: write where Marathon is"
    for url in urls:
        try:
            scheme = balancer_marathon.address(str(url)).scheme
        except ValueError:
            yield f"{PREFIX}marathon_urls has {shown(url)}: write such as https://m1.example.org:8443, without a user"
            continue
        if scheme == "http" and variables["marathon_tls"]:
            yield f"{PREFIX}marathon_urls has {shown(url)}, which shows the password to all: write https or set {PREFIX}marathon_tls"


def _errors(variables: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    for name, lowest, highest in NUMBERS:
        if not _is_number(variables[name], lowest, highest):
            yield f"{PREFIX}{name} is {shown(variables[name])}: write a number of {lowest} to {highest}"
    for name in ("groups", "ports", "networks", "trusted_proxies", "front_headers", "certificates", "reserved", "marathon_urls"):
        if not isinstance(variables[name], (list, tuple)):
            yield f"{PREFIX}{name} is {shown(variables[name])}: write a list"
            return
    if not _is_number(variables["marathon_port"], 1, 65535):
        yield f"{PREFIX}marathon_port is {shown(variables['marathon_port'])}: write a port"
    yield from _range_errors(variables)
    yield from _credential_errors(variables)
    for group in variables["groups"]:
        if group != "*" and not balancer_labels.GROUP.fullmatch(str(group)):
            yield f"{PREFIX}groups has {shown(group)}: write names with letters, digits and ._-, or '*' for all"
    if not variables["groups"]:
        yield f"{PREFIX}groups is empty: write the groups that applications name in HAPROXY_GROUP, such as external"
    for name in ("networks", "trusted_proxies"):
        for network in variables[name]:
            if not _is_network(network):
                yield f"{PREFIX}{name} has {shown(network)}: write networks such as 10.1.0.0/16"
    if str(variables["address"]) != "*" and balancer_apps.address_of(str(variables["address"])) is None:
        yield f"{PREFIX}address is {shown(variables['address'])}: write an address of the balancer, or '*' for all"
    for header in variables["front_headers"]:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,60}", str(header)) or str(header).lower() in NEEDED_HEADERS:
            yield f"{PREFIX}front_headers has {shown(header)}: write names such as X-Remote-User"
    yield from _certificate_errors(variables["certificates"])
    yield from _reserved_errors(variables["reserved"])


def _is_number(value: t.Any, lowest: int, highest: int) -> bool:
    text = str(value)
    return not isinstance(value, bool) and re.fullmatch(r"[0-9]{1,7}", text) is not None and lowest <= int(text) <= highest


def _is_network(value: t.Any) -> bool:
    try:
        return isinstance(value, str) and bool(ipaddress.ip_network(value, strict=False))
    except ValueError:
        return False


def _range_errors(variables: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    first, last = variables["first_port"], variables["last_port"]
    if _is_number(first, 1, 65535) and _is_number(last, 1, 65535) and int(first) > int(last):
        yield f"{PREFIX}first_port {first} is above {PREFIX}last_port {last}"
    for port in variables["ports"]:
        if not _is_number(port, 1, 65535):
            yield f"{PREFIX}ports has {shown(port)}: write ports of 1 to 65535"
    names = ["http_port", "stats_port", *(["https_port"] if variables["certificates"] else [])]
    numbers = [str(variables[name]) for name in names]
    for name, number in zip(names, numbers):
        if number != "0" and numbers.count(number) > 1:
            yield f"{PREFIX}{name} is {number}, which another port of the balancer has, too"


def _credential_errors(variables: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    """Never with the password in the sentence."""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", str(variables["user"])):
        yield f"{PREFIX}user is {shown(variables['user'])}: write letters, digits and ._- only"
    password = variables["password"]
    if not isinstance(password, str) or not password:
        yield f"{PREFIX}password is not set: write the password of Marathon's HTTP interface, as mesos_cluster_secrets.marathon_http has it"
    elif not re.fullmatch(r"[!-~]+", password) or ":" in password or len(password) < SHORTEST:
        yield f"{PREFIX}password can't be used: write at least {SHORTEST} characters, without blanks and colons"
    if variables["ca"] and "-----BEGIN CERTIFICATE-----" not in str(variables["ca"]):
        yield f"{PREFIX}ca is no certificate: write the text of the authority's certificate in PEM"


def _certificate_errors(certificates: t.Sequence[t.Any]) -> t.Iterator[str]:
    for number, one in enumerate(certificates, 1):
        where = f"{PREFIX}certificates, entry {number},"
        if not isinstance(one, t.Mapping):
            yield f"{where} is {shown(one)}: write certificate and key"
            continue
        yield from (sentence.rstrip(".") for sentence in unknown_keys(where, one, CERTIFICATE_KEYS))
        if "-----BEGIN CERTIFICATE-----" not in str(one.get("certificate", "")):
            yield f"{where} has no certificate: write its text in PEM, with those of the authorities between"
        if not re.search(r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----", str(one.get("key", ""))):
            yield f"{where} has no key: write its text in PEM"
        elif "ENCRYPTED" in str(one["key"]):
            yield f"{where} has an encrypted key, for which HAProxy would ask: write it without a passphrase"


def _reserved_errors(reserved: t.Sequence[t.Any]) -> t.Iterator[str]:
    for number, one in enumerate(reserved, 1):
        where = f"{PREFIX}reserved, entry {number},"
        if not isinstance(one, t.Mapping):
            yield f"{where} is {shown(one)}: write apps and vhost or port"
            continue
        yield from (sentence.rstrip(".") for sentence in unknown_keys(where, one, RESERVED_KEYS))
        if not balancer_apps.APP_ID.fullmatch(str(one.get("apps", ""))):
            yield f"{where} has no usable apps: write the id of an application or of a group, such as /portal"
        if ("vhost" in one) == ("port" in one):
            yield f"{where} needs either vhost or port"
        elif "vhost" in one and not balancer_labels.HOST.fullmatch(str(one["vhost"]).lower()):
            yield f"{where} has the vhost {shown(one['vhost'])}: write the name of a host"
        elif "port" in one and not _is_number(one["port"], 1, 65535):
            yield f"{where} has the port {shown(one['port'])}: write a port"
