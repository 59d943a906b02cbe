# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# The role marathon_lb installs it on balancers with the files beside it whose names begin with balancer_.
"""HAProxy's configuration of the services: pure functions.

HAProxy 2.6 and newer. Directives that 2.1 removed (reqirep, rspadd), on which the original's templates stand, have their successors here.
"""

from __future__ import annotations

import hashlib
import re
import typing as t
from dataclasses import dataclass

from .balancer_apps import Check, Server, Service

# The name under which HAProxy shows which configuration it runs.
MARK = "deephdc-"
UNMARKED = f"{MARK}unmarked"


@dataclass(frozen=True)
class Balancer:
    """What the site says about the balancer itself."""

    state: str  # directory of this program's files
    runtime: str  # directory of HAProxy's sockets
    address: str = "*"
    http: int = 80
    https: int = 443
    tls: str = ""  # directory of certificates with their keys; empty without TLS
    stats: int = 9090
    trusted: t.Tuple[str, ...] = ()
    headers: t.Tuple[str, ...] = ()  # in which a front says who the user is
    connections: int = 10000
    timeout: int = 1200
    drain: int = 600


class Written(t.NamedTuple):
    """A configuration: its text, the map of host names, and the service of each line."""

    text: str
    digest: str
    routes: str
    routes_path: str
    lines: t.List[str]


def bind(balancer: Balancer, port: int) -> str:
    return f"bind {f'[{balancer.address}]' if ':' in balancer.address else balancer.address}:{port}"


def head(balancer: Balancer) -> t.List[str]:
    lines = [
        "# Made by deephdc.accelerators from Marathon's applications, again and again: changes by hand are lost.",
        "global",
        f"  description {UNMARKED}",
        "  log stderr format raw local0 notice",
        f"  maxconn {balancer.connections}",
        # With more servers than file descriptors it would not start, and no application would get a change any more.
        "  no strict-limits",
        f"  stats socket {balancer.runtime}/admin.sock mode 660 level admin expose-fd listeners",
        f"  server-state-file {balancer.state}/servers.state",
        # Workers from before a reload, which have connections left.
        f"  hard-stop-after {balancer.drain}s",
        "  mworker-max-reloads 50",
        "  ssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets",
        "  ssl-default-bind-ciphers ECDHE+AESGCM:ECDHE+CHACHA20",
        "",
        "defaults common",
        "  mode tcp",
        "  log global",
        "  option dontlognull",
        "  option dontlog-normal",
        "  option redispatch",
        "  retries 3",
        "  timeout connect 5s",
        "  timeout queue 30s",
        f"  timeout client {balancer.timeout}s",
        f"  timeout server {balancer.timeout}s",
        f"  timeout tunnel {max(3600, balancer.timeout)}s",
        "  timeout client-fin 30s",
        "  load-server-state-from-file global",
        "",
        "defaults over_tcp from common",
        "  option tcplog",
        "",
        "defaults over_http from common",
        "  mode http",
        "  option httplog",
        "  option forwardfor",
        # Many applications read X_Remote_User as X-Remote-User, which only a front may say.
        "  option http-restrict-req-hdr-names delete",
        # An idle connection is not closed under the client's next request: the worker from before a reload answers it.
        "  option idle-close-on-response",
        # A client that does not finish its request must not keep a connection.
        "  timeout http-request 30s",
        "  timeout http-keep-alive 10s",
        "",
    ]
    return lines


def front_rules(balancer: Balancer) -> t.List[str]:
    """Return what every frontend does with a request.

    What a request says about its way counts only if a front of the site sent it.
    """
    trusted = [f"  acl from_front src {network}" for network in balancer.trusted]
    unless = " unless from_front" if trusted else ""
    lines = [
        "  http-request set-var(txn.client) src",
        "  http-request set-var(txn.tls) bool(true) if { ssl_fc }",
    ]
    if trusted:
        lines += [
            "  http-request set-var(txn.tls) bool(true) if from_front { req.hdr(x-forwarded-proto) -i https }",
            "  http-request set-var(txn.client) req.hdr_ip(x-forwarded-for,-1) if from_front { req.hdr_ip(x-forwarded-for,-1) -m found }",
        ]
    return [
        *trusted,
        *lines,
        *(f"  http-request del-header {name}{unless}" for name in ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", *balancer.headers)),
        "  http-request set-header X-Forwarded-Proto https if { var(txn.tls) -m bool }",
        "  http-request set-header X-Forwarded-Proto http unless { var(txn.tls) -m bool }",
        f"  http-request set-header X-Forwarded-Port %[dst_port]{unless}",
        "  http-request set-var(txn.host) req.hdr(host),field(1,:),lower",
    ]


def shared_frontends(balancer: Balancer, routes_path: str) -> t.List[str]:
    """The frontends of all host names, and the one of the statistics."""
    lines = [
        "frontend marathon_http from over_http",
        f"  {bind(balancer, balancer.http)}",
    ]
    if balancer.tls:
        lines.append(f"  {bind(balancer, balancer.https)} ssl crt {balancer.tls} alpn h2,http/1.1")
    lines += [
        *front_rules(balancer),
        '  http-request set-var-fmt(txn.route) "%[var(txn.host)]%[path]"',
        # The longest beginning counts, so the order of applications does not matter.
        f"  http-request set-var(txn.backend) var(txn.route),map_beg({routes_path})",
        "  use_backend %[var(txn.backend)] if { var(txn.backend) -m found }",
        "  default_backend marathon_nothing",
        "",
        "backend marathon_nothing from over_http",
        '  http-request return status 404 content-type text/plain string "No application has this name and path.\\n"',
        "",
    ]
    if balancer.stats:
        lines += [
            "frontend marathon_stats from over_http",
            f"  bind 127.0.0.1:{balancer.stats}",
            "  stats enable",
            "  stats uri /haproxy?stats",
            "  stats hide-version",
            "  http-request use-service prometheus-exporter if { path /metrics }",
            "",
        ]
    return lines


def frontend(balancer: Balancer, service: Service) -> t.List[str]:
    over = "over_http" if service.mode == "http" else "over_tcp"
    rules = front_rules(balancer) if service.mode == "http" else []
    return [f"frontend {service.name} from {over}", f"  {bind(balancer, service.port)}", *rules, f"  default_backend {service.name}", ""]


def authority(balancer: Balancer, host: str) -> str:
    return host if balancer.https == 443 else f"{host}:{balancer.https}"


def access(balancer: Balancer, service: Service) -> t.List[str]:
    """Return who may come, and over what.

    Networks come first, then TLS, then a password, so that no password goes over the wire in the clear.
    """
    options, lines = service.options, []
    if options.networks and service.mode == "tcp":
        lines += [f"  acl allowed src {network}" for network in options.networks]
        lines += ["  tcp-request content reject unless allowed"]
    elif options.networks:
        lines += [f"  acl allowed var(txn.client) -m ip {network}" for network in options.networks]
        lines += ["  http-request deny unless allowed"]
    if options.https:
        for host in options.vhosts:
            condition = f"if !{{ var(txn.tls) -m bool }} {{ var(txn.host) -m str {host} }}"
            lines.append(f"  http-request redirect prefix https://{authority(balancer, host)} code 301 {condition}")
        first = authority(balancer, options.vhosts[0])
        lines.append(f"  http-request redirect prefix https://{first} code 301 unless {{ var(txn.tls) -m bool }}")
    if options.auth:
        lines.append(f'  http-request auth realm "{options.auth.realm}" unless {{ http_auth(users_{service.name}) }}')
    return lines


def paths(service: Service) -> t.List[str]:
    """What changes in requests and answers."""
    options, lines = service.options, []
    if options.redirect:
        lines.append(f"  http-request redirect location {options.redirect} code 301 if {{ path / }}")
    if options.proxypass.strip("/"):
        beginning = re.escape(options.proxypass.rstrip("/")).replace("/", "\\/")
        lines.append(f"  http-request replace-path '^{beginning}(?:\\/(.*))?$' '/\\1'")
    if options.revproxy:
        hosts = "|".join(re.escape(host) for host in options.vhosts)
        origin = f"(?:https?:\\/\\/(?:{hosts})(?::[0-9]+)?)?" if hosts else ""
        lines.append(f"  http-response replace-header Location '^{origin}(\\/.*)$' '{options.revproxy.rstrip('/')}\\1'")
    if options.hsts:
        lines.append("  http-response set-header Strict-Transport-Security max-age=15768000 if { var(txn.tls) -m bool }")
    return lines


def check_lines(check: t.Optional[Check]) -> t.List[str]:
    if check is None:
        return []
    lines = [f"  timeout check {check.timeout}s"]
    return lines if check.kind == "tcp" else [f"  option httpchk GET {check.path}", *lines]


def server_line(service: Service, server: Server) -> str:
    address = f"[{server.address}]" if ":" in server.address else server.address
    words = [f"  server {server.name} {address}:{server.port}"]
    check = service.check
    if check is not None:
        words.append(f"check inter {check.interval}s fall {check.falls}")
        port = server.check_port or check.port
        if port:
            words.append(f"port {port}")
        if check.kind == "https":
            words.append("check-ssl verify none")  # Marathon's own check does not verify either
    if service.options.sticky:
        words.append(f"cookie {server.name}")
    if server.draining:
        words.append("disabled")
    return " ".join(words)


def backend(balancer: Balancer, service: Service) -> t.List[str]:
    options, lines = service.options, []
    if options.auth:
        lines += [f"userlist users_{service.name}", f"  user {options.auth.user} password {options.auth.hashed}", ""]
    lines += [f"backend {service.name} from {'over_http' if service.mode == 'http' else 'over_tcp'}", f"  balance {options.balance}"]
    lines += access(balancer, service)
    lines += paths(service)
    if options.sticky:
        lines.append("  cookie mesosphere_server_id insert indirect nocache httponly")
    lines += check_lines(service.check)
    lines += [server_line(service, server) for server in sorted(service.servers, key=lambda one: one.name)]
    return [*lines, ""]


def routes(services: t.Sequence[Service]) -> str:
    """The map of host names and the beginnings of paths to backends."""
    found = {
        f"{host}{path}": service.name for service in services for host in service.options.vhosts for path in service.options.paths or ("/",)
    }
    return "".join(f"{route} {name}\n" for route, name in sorted(found.items()))


def write(services: t.Sequence[Service], balancer: Balancer) -> Written:
    """Return the whole configuration.

    Equal services give an equal text, whatever their order.
    """
    map_text = routes(services)
    # By its content: HAProxy reads it at a reload, and until then the former one must be there.
    map_path = f"{balancer.state}/routes-{hashlib.sha256(map_text.encode()).hexdigest()[:16]}.map"
    lines: t.List[str] = [*head(balancer), *shared_frontends(balancer, map_path)]
    owners = [""] * len(lines)
    for service in sorted(services, key=lambda one: one.name):
        block = [*frontend(balancer, service), *backend(balancer, service)]
        lines += block
        owners += [service.name] * len(block)
    text = "".join(f"{line}\n" for line in lines)
    digest = MARK + hashlib.sha256(text.encode()).hexdigest()[:16]
    return Written(text.replace(f"  description {UNMARKED}\n", f"  description {digest}\n", 1), digest, map_text, map_path, owners)


def ports_of(text: str) -> t.Set[int]:
    """The ports that a configuration binds."""
    return {int(port) for port in re.findall(r"^  bind \S+:([0-9]{1,5})(?: |$)", text, re.MULTILINE)}


def guilty(output: str, written: Written) -> t.Set[str]:
    """Names of the services whose lines HAProxy complains about."""
    numbers = {int(number) for number in re.findall(r"\[[^\]\s]*:([0-9]{1,7})\]", output)}
    return {written.lines[number - 1] for number in numbers if 0 < number <= len(written.lines)} - {""}
