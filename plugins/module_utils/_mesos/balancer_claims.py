# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# The role marathon_lb installs it on balancers with the files beside it whose names begin with balancer_.
"""Who has which port, host name and path of the balancer: pure functions.

An application keeps what it has for as long as it exists and asks for it, whatever its name, also while it has no task or a label
of it is refused. Only among those that ask for the same at the same time the first by name gets it: if the name decided
alone, an application /a could take the requests of /portal.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from .balancer_apps import Service
from .balancer_labels import Problem

# Both halves of a blue/green deployment ask for what they need under the name without it.
COLOUR = re.compile(r"-(?:blue|green)\Z")


@dataclass(frozen=True)
class Ports:
    """Which ports applications may have."""

    first: int
    last: int
    also: t.FrozenSet[int] = frozenset()
    never: t.FrozenSet[int] = frozenset()  # those of the balancer itself

    def allowed(self, port: int) -> bool:
        return port not in self.never and (port in self.also or (self.first <= port <= self.last and port >= 1024))


class Reserved(t.NamedTuple):
    """A port or a host name that the site keeps for the applications below an id."""

    claim: str
    apps: str


class Settled(t.NamedTuple):
    services: t.List[Service]
    problems: t.List[Problem]
    claims: t.Dict[str, str]


def family(app: str) -> str:
    """Return who shares host names with an application.

    These are the others of its group, whose name ends with /. At the top each is alone.
    """
    group = app[: app.rindex("/") + 1]
    return app if group == "/" else group


def claims_of(service: Service) -> t.Iterator[t.Tuple[str, str]]:
    """What a service needs, and as whom it asks for it."""
    yield f"port {service.port}", service.app
    for host in service.options.vhosts:
        yield f"host {host}", family(service.app)
        for path in service.options.paths or ("/",):
            yield f"route {host}{path}", service.app


def holder(claim: str, owner: str) -> str:
    return f"{claim.replace('route ', 'path ')} belongs to {owner}"


def settle(
    services: t.Sequence[Service],
    ports: Ports,
    recorded: t.Mapping[str, str],
    present: t.Collection[str],
    troubled: t.Collection[str],
    reserved: t.Sequence[Reserved] = (),
) -> Settled:
    """Give each service all that it asks for, or nothing.

    :param recorded: who had what before.
    :param present: ids of the applications that exist.
    :param troubled: ids of those that have a refused label: what they had stays theirs until they are mended or gone.
    """
    claims: t.Dict[str, str] = {}
    wanted = {(claim, owner) for service in services for claim, owner in claims_of(service)}
    exists = [base for app in troubled if app in present for base in (app, COLOUR.sub("", app))]
    waiting = {name for app in exists for name in (app, family(app))}
    for claim, owner in recorded.items():
        if (claim, owner) in wanted or owner in waiting:
            claims[claim] = owner
    found = Settled([], [], claims)
    used: t.Set[str] = set()
    for service in sorted(services, key=lambda one: (one.app, one.index)):
        asked = list(claims_of(service))
        sentence = refusal(service, asked, ports, claims, used, reserved)
        if sentence:
            found.problems.append(Problem(service.app, "", f"port {service.index} is not published: {sentence}"))
            continue
        claims.update(asked)
        used.update(claim for claim, _app in asked if not claim.startswith("host "))
        found.services.append(service)
    return found


def refusal(
    service: Service,
    asked: t.Sequence[t.Tuple[str, str]],
    ports: Ports,
    claims: t.Mapping[str, str],
    used: t.Collection[str],
    reserved: t.Sequence[Reserved],
) -> str:
    """Why a service does not get what it asks for; empty if it does."""
    if not ports.allowed(service.port):
        return f"service port {service.port} is not one that applications may have"
    for claim, owner in asked:
        for keeper in reserved:
            if claim == keeper.claim and service.app != keeper.apps and not service.app.startswith(f"{keeper.apps.rstrip('/')}/"):
                return f"{claim} is reserved for {keeper.apps}"
        if claims.get(claim, owner) != owner:
            return holder(claim, claims[claim])
        if claim in used:
            return f"{claim.replace('route ', 'path ')} is taken by another port of it"
    return ""
