#!/usr/bin/python3
# Made by deephdc.accelerators. SPDX-License-Identifier: Apache-2.0
"""Hook of slurm_elastic that makes and removes machines, one per node.

usage: tosca_elastic resume|suspend|fail NAME...

The Infrastructure Manager makes and removes them. A machine has its node's name.
The machines are of the deployment that the front end is in, and boot as nodes of their image.
The manager does not configure them.
Resuming a node that has a machine already, or suspending one that has none, is right.
A machine is known by two names, that of its host and that of its system in the manager's description.
So one of a template that happens to have a node's host name is safe.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.request

CONFIG = "/etc/deephdc/tosca_elastic.json"
# Making a machine is done when the manager answers.
SECONDS = 240
NAME = re.compile("[a-z0-9]([a-z0-9-]*[a-z0-9])?")


class Trouble(Exception):
    """One sentence that names what is wrong."""


def quoted(value: str) -> str:
    """Return a text of the manager's language.

    The language has no way to write a quotation mark in a text.
    """
    if re.search(r"['\\\n]", value):
        raise Trouble(f"cloud_image or cloud_network of the template has a character that the manager can't read: {value!r}")
    return f"'{value}'"


def description(config: dict, names: list[str]) -> str:
    """The machines of nodes in the manager's language, RADL."""
    parts = [f"network {config['network']}"]
    for name in names:
        wanted = [
            f"cpu.count >= {config['cpus']}",
            f"memory.size >= {config['memory_mib']}M",
            *([f"gpu.count >= {config['gpus']}"] if config["gpus"] else []),
            "disk.0.os.name = 'linux'",
            f"disk.0.image.url = {quoted(config['image'])}",
            f"net_interface.0.connection = {quoted(config['network'])}",
            f"net_interface.0.dns_name = {quoted(name)}",
        ]
        parts.append(f"system {name} (\n" + " and\n".join(wanted) + "\n)")
    return "\n".join([*parts, *(f"deploy {name} 1" for name in names)]) + "\n"


class Manager:
    """The manager's interface for one deployment."""

    def __init__(self, config: dict) -> None:
        self.base = f"{config['manager'].rstrip('/')}/infrastructures/{config['infrastructure']}"
        lines = [line.strip() for line in config["access"].splitlines() if line.strip() and not line.strip().startswith("#")]
        # The manager takes the lines of an auth.dat in one header.
        self.access = "\\n".join(lines)

    def ask(self, method: str, path: str, body: str | None = None) -> str:
        headers = {"Authorization": self.access, "Accept": "text/plain, text/uri-list", "Content-Type": "text/plain"}
        request = urllib.request.Request(self.base + path, body.encode() if body else None, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            if error.code in (401, 403):
                raise Trouble("the manager refuses the access in cloud_access_secret of the template") from None
            words = re.sub("<[^>]*>", " ", error.read().decode(errors="replace")).split()
            raise Trouble("the manager refuses: " + " ".join(words)) from None
        except (OSError, ValueError) as error:
            raise Trouble(f"the manager at {self.base.partition('/infrastructures/')[0]} does not answer: {error}") from None

    def machines(self) -> dict[str, str]:
        """The manager's number of each machine that this made, by its node."""
        found = {}
        for line in self.ask("GET", "").split():
            number = line.rstrip("/").rpartition("/")[2]
            its = self.ask("GET", f"/vms/{number}")
            name = re.search(r"net_interface\.0\.dns_name = '([^']*)'", its)
            system = re.search(r"^system (\S+) \(", its, re.MULTILINE)
            if name and system and name.group(1) == system.group(1):
                found[name.group(1)] = number
        return found


def main(action: str, names: list[str]) -> int:
    try:
        strange = [name for name in names if not NAME.fullmatch(name)]
        if strange:
            raise Trouble(f"{strange[0]!r} can't be the name of a machine")
        with open(CONFIG, encoding="utf-8") as file:
            config = json.load(file)
        manager = Manager(config)
        there = manager.machines()
        if action == "resume":
            missing = [name for name in names if name not in there]
            if missing:
                manager.ask("POST", "?context=false", description(config, missing))
        else:
            numbers = [there[name] for name in names if name in there]
            if numbers:
                manager.ask("DELETE", f"/vms/{','.join(numbers)}?context=false")
    except (OSError, ValueError, KeyError) as error:
        print(f"{CONFIG} can't be read: {error}")
        return 1
    except Trouble as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
