# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Write HAProxy's configuration on a front: pure functions.

The front finds the leaders of Mesos, Marathon and Chronos. How a leader is known, and why the front itself can't take any of
them:
- A master that does not lead answers /api/v1 with 307 and the leader's address, which users can't reach
  (docs/endpoints/master/api/v1.md of Mesos).
- Every Marathon says who leads (/v2/leader). One that does not lead passes requests on, or sends listeners of events to the
  leader.
- A Chronos that does not lead passes all requests on, /ping among them, and without TLS (RedirectFilter.scala):
  where TLS is spoken it says 500.
"""

from __future__ import annotations

import base64
import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.shapes import unknown_keys
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import settings

RUNTIME = "/run/mesos-front"
FOLDER = "/etc/mesos-front"
CERTIFICATE = "-----BEGIN CERTIFICATE-----"
# What HAProxy takes as a server's name, and a certificate has.
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252}[A-Za-z0-9])?")


class Part(t.NamedTuple):
    """One of the systems: port, account, its hosts' groups, how its leader is known."""

    name: str
    port: str
    user: str
    secret: str
    groups: tuple[str, ...]
    question: str
    expected: str


PARTS = (
    Part(
        *("mesos", "master", "operator", "operator", ("mesos_masters",)),
        "meth POST uri /api/v1 ver HTTP/1.1 hdr Host localhost hdr Content-Type application/json hdr Accept application/json",
        "status 200",
    ),
    Part(
        *("marathon", "marathon", "marathon", "marathon_http", ("marathon", "mesos_masters")),
        "meth GET uri /v2/leader ver HTTP/1.1 hdr Host localhost hdr Accept application/json",
        r"string-lf \"%[srv_name]:{port}\"",
    ),
    Part(
        *("chronos", "chronos", "chronos", "chronos_http", ("chronos",)),
        "meth GET uri /ping ver HTTP/1.1 hdr Host localhost",
        "status 200",
    ),
)
# The smallest question to a master that only the leader answers.
BODY = {"mesos": """ body '{"type":"GET_HEALTH"}'"""}


def plan(variables: t.Mapping[str, t.Any], groups: t.Mapping[str, t.Any], hostvars: t.Mapping[str, t.Any], host: str) -> dict[str, t.Any]:
    """HAProxy's configuration on one front.

    :param variables: secrets, ports, tls and ca of the cluster, and timeout of the role.
    :returns: errors, one sentence each, and, without any, text, which has secrets, and sockets: a path for each system.
    """
    errors = [f"{sentence} (host {host})." for sentence in _errors(variables, groups, hostvars)]
    if errors:
        return {"errors": errors, "text": "", "sockets": {}}
    ports = {**settings.PORTS, **{key: int(value) for key, value in variables["ports"].items()}}
    there = [(part, names_of(part, groups, hostvars)) for part in PARTS]
    lines = _head(variables)
    for part, names in there:
        if names:
            lines += _section(part, names, ports[part.port], variables)
    return {"errors": [], "text": "\n".join(lines) + "\n", "sockets": {part.name: socket_of(part.name) for part, names in there if names}}


def socket_of(name: str) -> str:
    return f"{RUNTIME}/{name}.sock"


def names_of(part: Part, groups: t.Mapping[str, t.Any], hostvars: t.Mapping[str, t.Any]) -> list[str]:
    """The hosts of a system, under the names that their certificates have."""
    hosts: t.Sequence[t.Any] = next((groups[group] for group in part.groups if groups.get(group)), [])
    return [str((hostvars[one].get("mesos_cluster_hostname") if one in hostvars else "") or one) for one in hosts]


def _head(variables: t.Mapping[str, t.Any]) -> list[str]:
    return [
        "# Made by deephdc.accelerators: changes are lost with its next run.",
        "global",
        "  log stderr format raw local0 notice",
        "  maxconn 2000",
        f"  stats socket {RUNTIME}/admin.sock mode 600 level operator expose-fd listeners",
        "  hard-stop-after 600s",
        "  ssl-default-server-options ssl-min-ver TLSv1.2 no-tls-tickets",
        "",
        "defaults",
        "  mode http",
        "  log global",
        "  option dontlog-normal",
        "  timeout connect 5s",
        "  timeout check 5s",
        "  timeout http-request 30s",
        "  timeout queue 30s",
        f"  timeout client {int(variables['timeout'])}s",
        f"  timeout server {int(variables['timeout'])}s",
    ]


# What no user changes through the front: by /v2/leader a Marathon resigns, and writes its state to an address of the caller's choice, or
# reads it from one. An operator asks Marathon itself. Nor are there parameters or dots in a path: Marathon takes them out and comes to
# another path than the one that was looked at.
CLOSED = {"marathon": "^/+v2/+leader(/|$)|;|(^|/)[.][.]?(/|$)"}


def _section(part: Part, names: t.Sequence[str], port: int, variables: t.Mapping[str, t.Any]) -> list[str]:
    account = base64.b64encode(f"{part.user}:{variables['secrets'][part.secret]}".encode()).decode()
    tls = variables["tls"]
    # A host whose name is not known yet is asked for again at the next start; the others serve.
    usual = "check inter 3s fastinter 1s fall 2 rise 1 on-marked-down shutdown-sessions init-addr last,libc,none"
    usual += f" ssl verify required ca-file {FOLDER}/ca.pem" if tls else ""
    return [
        "",
        f"listen {part.name}",
        f"  bind {socket_of(part.name)} mode 660",
        "  option httpchk",
        f'  http-check send {part.question} hdr Authorization "Basic {account}"{BODY.get(part.name, "")}',
        f"  http-check expect {part.expected.format(port=port)}",
        # Java compares it with the name in its certificate.
        "  http-send-name-header Host",
        # By it a Marathon would believe that it had passed the request on itself.
        "  http-request del-header X-Marathon-Via",
        *(
            line
            for name in CLOSED
            if name == part.name
            for line in (
                f"  http-request deny deny_status 403 if !METH_GET {{ path,url_dec -m reg -i {CLOSED[name]} }}",
                # A path that can't be decoded is compared with nothing.
                "  http-request deny deny_status 400 if !METH_GET !{ path,url_dec -m found }",
            )
        ),
        # As the front's ProxyPassReverse has it, with the socket: only then Apache translates it into an address of its own.
        rf"  http-response replace-header Location ^((https?:)?//[^/]+)?(/.*)$ unix:{socket_of(part.name)}|http://{part.name}\3",
        f"  default-server {usual}",
        *(f"  server {name} {name}:{port}" + (f" verifyhost {name} sni str({name}) check-sni {name}" if tls else "") for name in names),
    ]


def _errors(variables: t.Mapping[str, t.Any], groups: t.Mapping[str, t.Any], hostvars: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    """Never with a secret in a sentence."""
    given, ports = variables["secrets"], variables["ports"]
    if not re.fullmatch(r"[0-9]{1,6}", str(variables["timeout"])) or int(variables["timeout"]) < 10:
        yield f"mesos_front_timeout is {shown(variables['timeout'])}: write seconds, 10 or more"
    if not isinstance(ports, t.Mapping) or not all(re.fullmatch(r"[0-9]{1,5}", str(port)) for port in ports.values()):
        yield "mesos_cluster_ports is no dictionary of ports: write it as for the playbook mesos"
        return
    yield from (sentence.rstrip(".") for sentence in unknown_keys("mesos_cluster_ports", ports, tuple(settings.PORTS)))
    if variables["tls"] and CERTIFICATE not in str(variables["ca"]):
        yield "mesos_cluster_ca is no certificate in PEM: the front would not know a stranger from the cluster's own hosts"
    if not isinstance(given, t.Mapping):
        yield "mesos_cluster_secrets is not a dictionary of secrets: write it as for the playbook mesos"
        return
    for part in PARTS:
        names = names_of(part, groups, hostvars)
        secret = given.get(part.secret)
        if names and (not isinstance(secret, str) or len(secret) < settings.LEAST_SECRET or settings.NOT_IN_SECRETS.search(secret)):
            yield f"mesos_cluster_secrets has no usable {part.secret}: write it as for the playbook mesos"
        for name in names:
            if not NAME.fullmatch(name):
                yield f"{shown(name)} is no name of a host that HAProxy takes: set mesos_cluster_hostname"
