# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# The role marathon_lb installs it on balancers with the files beside it whose names begin with balancer_.
"""The labels by which an application of Marathon asks for a place in the balancer.

The functions are pure.

Whoever may post an application writes these labels, and HAProxy's configuration is made of them.
So each has a name that is known and a value of a known form, and nothing else gets through.
Names and meanings are those of marathon-lb (config.py of its last version).
What is refused closes its port: a port without the network list that its author misspelt would be open to all.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t
from dataclasses import dataclass, field

PREFIX = "HAPROXY_"
LONGEST = 2048  # characters of a value: more is no name, path or list of these
MOST = 64  # names, paths or networks of one port: HAProxy takes 64 words in a line

TRUE, FALSE = ("true", "t", "yes", "y"), ("false", "f", "no", "n")
BALANCES = ("roundrobin", "static-rr", "leastconn", "first", "source", "uri", "random")
MODES = ("http", "tcp")

# A name of the DNS. An underscore or a port is not a part of one.
HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*")
# No character that HAProxy's configuration, a map or a regular expression reads as its own but the dot, which is escaped.
PATH = re.compile(r"/[A-Za-z0-9._~/-]{0,255}")
GROUP = re.compile(r"[A-Za-z0-9._-]{1,64}")
REALM = re.compile(r"[A-Za-z0-9._-](?:[A-Za-z0-9 ._-]{0,62}[A-Za-z0-9._-])?")
USER = re.compile(r"[A-Za-z0-9._-]{1,64}")
# SHA-256 or SHA-512 of crypt(3) without a number of rounds: with 999999999 of them one request would stop HAProxy for minutes.
HASHED = re.compile(r"\$5\$[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{43}|\$6\$[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{86}")
STARTED = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?Z?")
NUMBER = re.compile(r"[0-9]{1,5}")

# Of the whole application.
OF_APP = (
    "GROUP",
    "DEPLOYMENT_GROUP",
    "DEPLOYMENT_ALT_PORT",
    "DEPLOYMENT_COLOUR",
    "DEPLOYMENT_STARTED_AT",
    "DEPLOYMENT_TARGET_INSTANCES",
    "DEPLOYMENT_NEW_INSTANCES",
)
# Of one port.
OF_PORT = (
    "AUTH",
    "BACKEND_HEALTHCHECK_PORT_INDEX",
    "BACKEND_NETWORK_ALLOWED_ACL",
    "BACKEND_WEIGHT",
    "BALANCE",
    "ENABLED",
    "GROUP",
    "HTTP_BACKEND_PROXYPASS_PATH",
    "HTTP_BACKEND_REDIR",
    "HTTP_BACKEND_REVPROXY_PATH",
    "MODE",
    "PATH",
    "PORT",
    "REDIRECT_TO_HTTPS",
    "STICKY",
    "USE_HSTS",
    "VHOST",
)
# Labels of the original that have no place here, and why.
SITES = {
    "BIND_ADDR": "the addresses of the balancer are the site's",
    "BIND_OPTIONS": "its text goes into HAProxy's configuration as it is",
    "SSL_CERT": "it names a file of the balancer; certificates are the site's",
}
# The rest of the original's labels replace a template: text of HAProxy's configuration, such as a frontend of one's own.
TEMPLATE = re.compile(r"(?:MAP_)?(?:FRONTEND|BACKEND|USERLIST|HTTPS?_FRONTEND|HTTPS?_BACKEND|TCP_BACKEND|HEAD)(?:_[A-Z]+)*")
IN_PORT = re.compile(r"HAPROXY_(0|[1-9][0-9]{0,2})_([A-Z_]{1,60})")


class Problem(t.NamedTuple):
    """Why an application, or a port of it, is not published as it asks."""

    app: str
    label: str  # empty if it is about no label
    sentence: str


class Auth(t.NamedTuple):
    realm: str
    user: str
    hashed: str


@dataclass(frozen=True)
class Deployment:
    """The half of a blue/green deployment that an application is."""

    group: str
    colour: str = ""
    started: str = ""
    target: t.Optional[int] = None
    new: t.Optional[int] = None


@dataclass(frozen=True)
class Options:
    """What the labels of one port ask for."""

    groups: t.Tuple[str, ...] = ()
    enabled: bool = True
    port: t.Optional[int] = None
    vhosts: t.Tuple[str, ...] = ()
    paths: t.Tuple[str, ...] = ()
    mode: str = ""
    balance: str = "roundrobin"
    sticky: bool = False
    https: bool = False
    hsts: bool = False
    proxypass: str = ""
    revproxy: str = ""
    redirect: str = ""
    weight: int = 0
    networks: t.Tuple[str, ...] = ()
    check_index: t.Optional[int] = None
    auth: t.Optional[Auth] = None


@dataclass
class Labels:
    """The labels of an application: what is asked for its ports, and what is refused."""

    groups: t.Tuple[str, ...] = ()
    deployment: t.Optional[Deployment] = None
    ports: t.Dict[int, Options] = field(default_factory=dict)
    refused: t.List[t.Tuple[str, str]] = field(default_factory=list)  # label and sentence
    closed: t.Set[int] = field(default_factory=set)  # ports with a refused label
    wholly: bool = False  # a label of the whole application is refused


def shown(value: object) -> str:
    """Return a value for a sentence, as short text on one line.

    It has no character that a terminal or a log reads.
    """
    text = "".join(one if " " <= one <= "~" else "?" for one in str(value)[:61])
    return f"'{text[:57]}...'" if len(text) > 60 else f"'{text}'"


def boolean(value: str) -> bool:
    if value.lower() in TRUE:
        return True
    if value.lower() in FALSE:
        return False
    raise ValueError("must be true or false")


def number(value: str, lowest: int, highest: int) -> int:
    if not NUMBER.fullmatch(value) or not lowest <= int(value) <= highest:
        raise ValueError(f"must be a number of {lowest} to {highest}")
    return int(value)


def one_of(value: str, known: t.Sequence[str]) -> str:
    if value.lower() not in known:
        raise ValueError(f"must be one of {', '.join(known)}")
    return value.lower()


def several(value: str, separator: t.Optional[str], form: t.Pattern[str], what: str) -> t.Tuple[str, ...]:
    parts = [part.strip(" ") for part in value.split(separator)]
    if not 0 < len(parts) <= MOST or not all(form.fullmatch(part) for part in parts):
        raise ValueError(f"must be {what}, {MOST} at most")
    return tuple(dict.fromkeys(parts))


def path(value: str) -> str:
    if not PATH.fullmatch(value) or "/../" in f"{value}/":
        raise ValueError("must be a path that begins with / and has letters, digits and ._~/- only")
    return value


def paths(value: str) -> t.Tuple[str, ...]:
    parts = value.split(" ")
    if len(parts) > MOST:
        raise ValueError(f"must have {MOST} paths at most")
    return tuple(dict.fromkeys(path(part) for part in parts))


def networks(value: str) -> t.Tuple[str, ...]:
    parts = value.split(" ")
    if not 0 < len(parts) <= MOST:
        raise ValueError(f"must have 1 to {MOST} networks")
    try:
        # Without this look at the characters Python would take '1' and other forms that HAProxy reads in another way.
        if not all(re.fullmatch(r"[0-9.]+(?:/[0-9]{1,2})?|[0-9a-fA-F:]+(?:/[0-9]{1,3})?", part) for part in parts):
            raise ValueError
        return tuple(dict.fromkeys(str(ipaddress.ip_network(part, strict=False)) for part in parts))
    except ValueError:
        raise ValueError("must be addresses or networks such as 10.1.0.0/16, with one blank between two") from None


def auth(value: str) -> Auth:
    parts = value.split(":")
    if len(parts) != 3 or not REALM.fullmatch(parts[0]) or not USER.fullmatch(parts[1]) or not HASHED.fullmatch(parts[2]):
        raise ValueError("must be REALM:USER:HASH, with a hash that begins with $5$ or $6$ and names no rounds")
    return Auth(*parts)


# Each by the name of the label: the field of Options, and what reads the value. It raises ValueError with the rest of a sentence.
READERS: t.Dict[str, t.Tuple[str, t.Callable[[str], t.Any]]] = {
    "AUTH": ("auth", auth),
    "BACKEND_HEALTHCHECK_PORT_INDEX": ("check_index", lambda value: number(value, 0, 99)),
    "BACKEND_NETWORK_ALLOWED_ACL": ("networks", networks),
    "BACKEND_WEIGHT": ("weight", lambda value: number(value, 0, 99999)),
    "BALANCE": ("balance", lambda value: one_of(value, BALANCES)),
    "ENABLED": ("enabled", boolean),
    "GROUP": ("groups", lambda value: several(value, ",", GROUP, "names of groups with commas between them")),
    "HTTP_BACKEND_PROXYPASS_PATH": ("proxypass", path),
    "HTTP_BACKEND_REDIR": ("redirect", path),
    "HTTP_BACKEND_REVPROXY_PATH": ("revproxy", path),
    "MODE": ("mode", lambda value: one_of(value, MODES)),
    "PATH": ("paths", paths),
    "PORT": ("port", lambda value: number(value, 1, 65535)),
    "REDIRECT_TO_HTTPS": ("https", boolean),
    "STICKY": ("sticky", boolean),
    "USE_HSTS": ("hsts", boolean),
    "VHOST": ("vhosts", lambda value: several(value.lower(), ",", HOST, "names of hosts with commas between them")),
}
OF_DEPLOYMENT: t.Dict[str, t.Callable[[str], t.Any]] = {
    "DEPLOYMENT_ALT_PORT": lambda value: number(value, 1, 65535),
    "DEPLOYMENT_COLOUR": lambda value: one_of(value, ("blue", "green")),
    "DEPLOYMENT_NEW_INSTANCES": lambda value: number(value, 0, 99999),
    "DEPLOYMENT_TARGET_INSTANCES": lambda value: number(value, 0, 99999),
}
# Fields that HAProxy can only keep where it reads HTTP.
NEED_HTTP = (
    ("vhosts", "VHOST"),
    ("paths", "PATH"),
    ("auth", "AUTH"),
    ("sticky", "STICKY"),
    ("https", "REDIRECT_TO_HTTPS"),
    ("hsts", "USE_HSTS"),
    ("proxypass", "HTTP_BACKEND_PROXYPASS_PATH"),
    ("revproxy", "HTTP_BACKEND_REVPROXY_PATH"),
    ("redirect", "HTTP_BACKEND_REDIR"),
)


def why_not(name: str, known: t.Sequence[str], place: str) -> str:
    """Why a label is not taken; empty if its name is known."""
    if name in known:
        return ""
    if name in SITES:
        return f"is refused: {SITES[name]}"
    if TEMPLATE.fullmatch(name):
        return "is refused: it replaces a part of HAProxy's configuration, which applications do not write"
    return f"is not known {place}"


def deployment(given: t.Mapping[str, str], refuse: t.Callable[[str, str], None]) -> t.Optional[Deployment]:
    """The labels of a deployment, by their names without the prefix."""
    values: t.Dict[str, t.Any] = {}
    for name, value in given.items():
        try:
            if name == "DEPLOYMENT_GROUP":
                if not PATH.fullmatch(f"/{value.lstrip('/')}") or value.strip("/") == "" or value.endswith("/"):
                    raise ValueError("must be the name of the application without its colour")
                values[name] = value.lstrip("/")
            elif name == "DEPLOYMENT_STARTED_AT":
                if not STARTED.fullmatch(value):
                    raise ValueError("must be a time such as 2026-01-31T12:00:00")
                values[name] = value
            else:
                values[name] = OF_DEPLOYMENT[name](value)
        except ValueError as error:
            refuse(PREFIX + name, str(error))
    if "DEPLOYMENT_GROUP" not in values:
        return None
    return Deployment(
        values["DEPLOYMENT_GROUP"],
        values.get("DEPLOYMENT_COLOUR", ""),
        values.get("DEPLOYMENT_STARTED_AT", ""),
        values.get("DEPLOYMENT_TARGET_INSTANCES"),
        values.get("DEPLOYMENT_NEW_INSTANCES"),
    )


def groups_of(labels: t.Mapping[str, t.Any]) -> t.Set[str]:
    """Return all groups that an application names.

    They are read before anything else: what is in no group of the balancer is not its business.
    """
    found: t.Set[str] = set()
    for label, value in labels.items():
        in_port = IN_PORT.fullmatch(label)
        if isinstance(value, str) and (label == "HAPROXY_GROUP" or (in_port and in_port.group(2) == "GROUP")):
            found.update(part.strip(" ") for part in value[:LONGEST].split(","))
    return found


def read(labels: t.Mapping[str, t.Any], count: int) -> Labels:
    """Read the labels of an application that has so many ports.

    Labels without the prefix are no business of the balancer.
    """
    found = Labels()
    of_app: t.Dict[str, str] = {}
    of_ports: t.Dict[int, t.Dict[str, t.Any]] = {index: {} for index in range(count)}

    def refuse(label: str, sentence: str, index: t.Optional[int] = None) -> None:
        found.refused.append((label, f"{label} {sentence}"))
        if index is None:
            found.wholly = True
        else:
            found.closed.add(index)

    for label in sorted(one for one in labels if one.startswith(PREFIX)):
        value = labels[label]
        in_port = IN_PORT.fullmatch(label)
        name, index = (in_port.group(2), int(in_port.group(1))) if in_port else (label[len(PREFIX) :], None)
        if len(label) > 80:
            refuse(shown(label), "is not known", index)
            continue
        refused = why_not(name, OF_PORT if in_port else OF_APP, "for a port" if in_port else "for an application")
        if refused:
            refuse(shown(label) if refused.startswith("is not known") else label, refused, index)
        elif not isinstance(value, str) or len(value) > LONGEST:
            refuse(label, f"must be text of {LONGEST} characters at most", index)
        elif index is None:
            of_app[name] = value
        elif index not in of_ports:
            refuse(label, f"is for port {index}, and the application has {count or 'no'} port{'' if count == 1 else 's'}", index)
        else:
            try:
                of_ports[index][READERS[name][0]] = READERS[name][1](value)
            except ValueError as error:
                # The value of AUTH is a hash, which is no text for a log.
                refuse(label, f"{error}, not {shown(value)}" if name != "AUTH" else str(error), index)
    if "GROUP" in of_app:
        try:
            found.groups = READERS["GROUP"][1](of_app.pop("GROUP"))
        except ValueError as error:
            refuse("HAPROXY_GROUP", str(error))
    found.deployment = deployment(of_app, refuse)
    for index, fields in of_ports.items():
        options = Options(**fields)
        found.ports[index] = Options(**{**fields, "groups": options.groups or found.groups})
        if options.paths and not options.vhosts:
            refuse(f"HAPROXY_{index}_PATH", f"needs HAPROXY_{index}_VHOST", index)
    return found


def check_mode(index: int, options: Options, mode: str) -> t.Optional[t.Tuple[str, str]]:
    """A label that needs HTTP on a port whose mode is tcp: the label and a sentence."""
    if mode == "tcp":
        for name, label in NEED_HTTP:
            if getattr(options, name):
                return f"HAPROXY_{index}_{label}", f"HAPROXY_{index}_{label} needs HAPROXY_{index}_MODE http"
        if options.balance == "uri":
            return f"HAPROXY_{index}_BALANCE", f"HAPROXY_{index}_BALANCE uri needs HAPROXY_{index}_MODE http"
    return None
