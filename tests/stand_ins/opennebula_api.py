#!/usr/bin/python3
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Stands in for OpenNebula's daemon oned at its API by XML-RPC, as no registry offers it.

Written from OpenNebula's documentation: API reference (methods, types, error codes), template and quota reference (syntax, restricted
attributes, limits), PCI passthrough (filters, requests), and the notes on PCI_FILTER and PCI_SHORT_ADDRESS of hosts in 7.0.
It checks what oned checks of the calls that the collection makes: session, number and types of arguments, syntax of templates in both
forms, names, restricted attributes, requests for PCI devices, rights, limits; and does what follows from them: which devices are shown,
who gets one.
A machine that is started is active until stand_in.power_off.
Not here: other states of machines, scheduling beyond PCI devices and quotas, HA, storage, and everything else.

As a program it serves until it is ended, with one administrator, whose user:password a file has:   opennebula_api.py PORT FILE
What in a real site other commands and the probes bring comes by calls of its own, such as stand_in.add_host; see Oned.
"""

from __future__ import annotations

import copy
import re
import shlex
import sys
import threading
from socketserver import ThreadingMixIn
from xml.etree import ElementTree
from xml.sax.saxutils import escape
from xmlrpc.client import Fault
from xmlrpc.server import SimpleXMLRPCRequestHandler, SimpleXMLRPCServer

AUTHENTICATION, AUTHORIZATION, NO_EXISTS, ACTION, WRONG_PARAMETER, INTERNAL, ALLOCATE = (
    *(0x0100, 0x0200, 0x0400),
    *(0x0800, 0x1000, 0x2000, 0x4000),
)
TYPE_FAULT = -501  # xmlrpc-c: an argument of another type, or another number of them

# The documented VM_RESTRICTED_ATTR: an attribute, or a part of one.
RESTRICTED = [
    "CONTEXT/FILES",
    *(f"{card}/{part}" for card in ("NIC", "NIC_ALIAS", "NIC_DEFAULT") for part in ("MAC", "VLAN_ID", "BRIDGE")),
    *(f"DISK/{what}_{unit}_SEC" for what in ("TOTAL", "READ", "WRITE") for unit in ("BYTES", "IOPS")),
    *("DISK/ORIGINAL_SIZE", "DEPLOY_ID", "CPU_COST", "MEMORY_COST", "DISK_COST", "PCI", "EMULATOR", "RAW/DATA", "USER_PRIORITY"),
    *("USER_INPUTS/CPU", "USER_INPUTS/MEMORY", "USER_INPUTS/VCPU", "TOPOLOGY/PIN_POLICY", "TOPOLOGY/HUGEPAGE_SIZE"),
]
METRICS = ["VMS", "RUNNING_VMS", "CPU", "RUNNING_CPU", "MEMORY", "RUNNING_MEMORY", "SYSTEM_DISK_SIZE"]
METRICS_OF_7_2 = ["PCI_DEV", "RUNNING_PCI_DEV", "PCI_NIC", "RUNNING_PCI_NIC"]
BITS = [f"{who}_{what}" for who in ("OWNER", "GROUP", "OTHER") for what in "UMA"]

# Arguments after the session, and what each method gives.
SIGNATURES = {
    "one.system.version": "",
    "one.system.config": "",
    "one.hostpool.info": "",
    "one.host.info": "i",
    "one.host.status": "ii",
    "one.host.update": "isi",
    "one.cluster.info": "i",
    "one.userpool.info": "",
    "one.user.info": "i",
    "one.user.quota": "is",
    "one.grouppool.info": "",
    "one.group.info": "i",
    "one.group.quota": "is",
    "one.templatepool.info": "iii",
    "one.template.info": "i",
    "one.template.allocate": "s",
    "one.template.update": "isi",
    "one.template.delete": "ib",
    "one.template.chown": "iii",
    "one.template.chmod": "iiiiiiiiiib",
    "one.template.instantiate": "isbsb",
    "one.vm.info": "i",
}
MONITORED, DISABLED, OFFLINE = 2, 4, 8  # of a host; the first is INIT for a moment
PENDING, ACTIVE, DONE, POWERED_OFF = 1, 3, 6, 8  # of a machine
TYPES = {"i": int, "s": str, "b": bool}
KEPT = ("groups", "users", "clusters", "hosts", "templates", "machines")  # by remember


class Failure(Exception):
    """What a method answers instead of its value."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


# --- templates -----------------------------------------------------------------------------------------------------------------------

TOKEN = re.compile(r'\s*(?:#[^\n]*\n)*\s*(?:(?P<word>[^\s=\[\],#"]+)|"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<sign>[=\[\],]))')


def parse(text: str) -> list[tuple[str, object]]:
    """A template in either syntax: names in upper case with a text or a dictionary, in order."""
    if text.lstrip().startswith("<"):
        return parse_xml(text)
    found: list[tuple[str, object]] = []
    position = 0

    def take(*wanted: str) -> str:
        nonlocal position
        match = TOKEN.match(text, position)
        kind = match.lastgroup if match else None
        if not match or (kind not in wanted and match.group(kind) not in wanted):
            raise Failure(INTERNAL, f"Parse error: syntax error at {text[position : position + 20]!r}")
        position = match.end()
        return re.sub(r"\\(.)", r"\1", match.group(kind)) if kind == "quoted" else match.group(kind)

    while re.sub(r"#[^\n]*", "", text[position:]).strip():
        name = take("word").upper()
        take("=")
        value = take("word", "quoted", "[")
        if value != "[":
            found.append((name, value))
            continue
        vector: dict[str, str] = {}
        sign = ","
        while sign == ",":
            key = take("word").upper()
            take("=")
            vector[key] = take("word", "quoted")
            sign = take(",", "]")
        found.append((name, vector))
    return found


def parse_xml(text: str) -> list[tuple[str, object]]:
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise Failure(INTERNAL, f"Parse error: {error}") from None
    if root.tag != "TEMPLATE":
        raise Failure(INTERNAL, "Parse error: the root element must be TEMPLATE")
    if any(len(leaf) for child in root for leaf in child):
        raise Failure(INTERNAL, "Parse error: a vector in a vector")
    return [
        (child.tag.upper(), {leaf.tag.upper(): leaf.text or "" for leaf in child} if len(child) else (child.text or "").strip())
        for child in root
    ]


def values(attributes: list, name: str) -> list:
    return [value for key, value in attributes if key == name]


def first(attributes: list, name: str, default: str = "") -> str:
    return next(iter(values(attributes, name)), default)


def merged(before: list, new: list) -> list:
    """All of one name are replaced together; a vector without values removes them."""
    names = {name for name, _value in new}
    return [(name, value) for name, value in before if name not in names] + [(name, value) for name, value in new if value != {}]


def restricted(new: list, before: list) -> str | None:
    """The first attribute that only administrators may write and that is not as it was; one that is not given stays."""
    for entry in RESTRICTED:
        name, _slash, part = entry.partition("/")
        old, wanted = (
            [value.get(part) if part and isinstance(value, dict) else None if part else value for value in values(attributes, name)]
            for attributes in (before, new)
        )
        if wanted and wanted != old and any(value is not None for value in old + wanted):
            return entry
    return None


def wrong_request(request: object) -> str | None:
    """What is wrong with a machine's request for a PCI device."""
    if not isinstance(request, dict):
        return "PCI must be a vector"
    ids = [name for name in ("VENDOR", "DEVICE", "CLASS") if request.get(name)]
    for name in ids:
        if not re.fullmatch(r"[0-9a-fA-F]+", request[name]):
            return f"{name} of a PCI request is not hexadecimal: {request[name]}"
    if bool(ids) == bool(request.get("SHORT_ADDRESS")):
        return "A PCI request must have either SHORT_ADDRESS or some of VENDOR, DEVICE and CLASS"
    return None


def element(name: str, value: object) -> str:
    if isinstance(value, dict):
        value = list(value.items())
    inside = "".join(element(*item) for item in value) if isinstance(value, list) else escape(str(value))
    return f"<{name}>{inside}</{name}>"


# --- the daemon ----------------------------------------------------------------------------------------------------------------------


class Oned:
    """All objects, and a method for each method of the API, named as it is with underscores."""

    def __init__(self, version: str = "7.2.0", administrator: str = "oneadmin:secret", quota_attributes: tuple = ()) -> None:
        self.version = version
        self.quota_attributes = list(quota_attributes)
        self.metrics = METRICS + (METRICS_OF_7_2 if version >= "7.1.80" else [])
        self.metrics += [name for attribute in quota_attributes for name in (attribute, f"RUNNING_{attribute}")]
        self.groups: dict[int, dict] = {0: {"name": "oneadmin", "quota": {}}, 1: {"name": "users", "quota": {}}}
        self.users: dict[int, dict] = {}
        self.clusters: dict[int, dict] = {0: {"name": "default", "template": []}}
        self.hosts: dict[int, dict] = {}
        self.templates: dict[int, dict] = {}
        self.machines: list[dict] = []
        self.kept: dict[str, object] = {}
        self.calls: list[str] = []  # the methods that were called, for tests
        self.add_user(*administrator.split(":"), group=0)

    # What other commands of OpenNebula would do.

    def add_group(self, name: str) -> int:
        self.groups[100 + len(self.groups)] = {"name": name, "quota": {}}
        return max(self.groups)

    def add_user(self, name: str, password: str, group: int = 1) -> int:
        self.users[len(self.users)] = {"name": name, "password": password, "group": group, "quota": {}}
        return len(self.users) - 1

    def add_host(self, name: str, template: str = "", cluster: int = 0) -> int:
        self.hosts[len(self.hosts)] = {"name": name, "template": parse(template), "cluster": cluster, "pci": [], "state": MONITORED}
        return len(self.hosts) - 1

    def probe(self, name: str, text: str) -> int:
        """The same by a host's name, from what 'lspci -mmnn' prints."""
        host = next(number for number, entry in self.hosts.items() if entry["name"] == name)
        devices = {}
        for line in text.splitlines():
            address, kind, vendor, device = shlex.split(line)[:4]
            ids = {key: part[-5:-1] for key, part in (("CLASS", kind), ("VENDOR", vendor), ("DEVICE", device))}
            devices[address] = {"SHORT_ADDRESS": address, **ids}
        self.monitor(host, list(devices.values()))
        return host

    def monitor(self, host: int, devices: list[dict]) -> None:
        """Take in what the probe of a host reports: devices that pci.conf's :filter let through, as lspci names them."""
        entry = self.hosts[host]
        cluster = self.clusters[entry["cluster"]]["template"]
        patterns, addresses = (
            [part.strip() for part in (first(entry["template"], name) or first(cluster, name)).split(",") if part.strip()]
            for name in ("PCI_FILTER", "PCI_SHORT_ADDRESS")
        )

        def matches(pattern: str, device: dict) -> bool:
            parts = [part or "*" for part in pattern.split(":")] + ["*"] * 3
            return all(part in ("*", device[name]) for part, name in zip(parts, ("VENDOR", "DEVICE", "CLASS")))

        known = {device["SHORT_ADDRESS"]: device for device in entry["pci"]}
        entry["pci"] = [
            known.get(device["SHORT_ADDRESS"], {**device, "VMID": -1})
            for device in devices
            if (not patterns or any(matches(pattern, device) for pattern in patterns))
            and (not addresses or device["SHORT_ADDRESS"] in addresses)
        ]

    def power_off(self, vm: int) -> int:
        """A machine's owner powers it off: it keeps its place and its devices."""
        self.machines[vm]["state"] = POWERED_OFF
        return vm

    def terminate(self, vm: int) -> int:
        """A machine ends: its host and its devices are free."""
        self.machines[vm].update(state=DONE, host=None, devices=[])
        for device in (device for host in self.hosts.values() for device in host["pci"] if device["VMID"] == vm):
            device["VMID"] = -1
        return vm

    # For tests, which leave it as they found it.

    def remember(self) -> bool:
        """Keep everything that is there now."""
        self.kept = copy.deepcopy({name: getattr(self, name) for name in KEPT})
        return True

    def recall(self) -> bool:
        """Have again what was there at the last remember."""
        for name, value in copy.deepcopy(self.kept).items():
            setattr(self, name, value)
        return True

    # Answers.

    def answer(self, method: str, arguments: tuple) -> tuple:
        """Check a call as the daemon does, and make it."""
        signature = SIGNATURES.get(method)
        if signature is None:
            raise Fault(-506, f"Method '{method}' not defined")
        if len(arguments) != len(signature) + 1:
            raise Fault(TYPE_FAULT, f"{method} has {len(signature) + 1} parameters, not {len(arguments)}")
        for position, (kind, argument) in enumerate(zip("s" + signature, arguments)):
            # True is an integer to Python, and none to oned.
            if not isinstance(argument, TYPES[kind]) or (isinstance(argument, bool) and TYPES[kind] is not bool):
                raise Fault(TYPE_FAULT, f"Parameter {position} of {method} is not of type {TYPES[kind].__name__}")
        self.calls.append(method)
        try:
            name, _colon, password = arguments[0].partition(":")
            user = next((uid for uid, entry in self.users.items() if (entry["name"], entry["password"]) == (name, password)), None)
            if user is None:
                raise Failure(AUTHENTICATION, "User couldn't be authenticated, aborting call.")
            return True, getattr(self, method.replace("one.", "", 1).replace(".", "_"))(user, *arguments[1:]), 0
        except Failure as failure:
            return False, f"[{method}] {failure}", failure.code, -1

    def is_admin(self, user: int) -> bool:
        return self.users[user]["group"] == 0

    def admin_only(self, user: int, what: str) -> None:
        if not self.is_admin(user):
            raise Failure(AUTHORIZATION, f"User [{user}] : Not authorized to perform {what}.")

    @staticmethod
    def existing(pool: dict, number: int, what: str) -> dict:
        if number not in pool:
            raise Failure(NO_EXISTS, f"Error getting {what} [{number}].")
        return pool[number]

    def system_version(self, _user: int) -> str:
        return self.version

    def system_config(self, user: int) -> str:
        self.admin_only(user, "ADMIN CONFIGURATION")
        return element("OPENNEBULA_CONFIGURATION", [("QUOTA_VM_ATTRIBUTE", name) for name in self.quota_attributes] + [("PORT", 2633)])

    # Hosts and clusters.

    def host_xml(self, number: int) -> str:
        host = self.hosts[number]
        share = [("PCI_DEVICES", [("PCI", device) for device in host["pci"]])]
        vms = [("ID", vm) for vm, machine in enumerate(self.machines) if machine["host"] == host["name"]]
        return element(
            "HOST",
            [
                *(("ID", number), ("NAME", host["name"]), ("STATE", host["state"]), ("CLUSTER_ID", host["cluster"])),
                *(("HOST_SHARE", share), ("VMS", vms), ("TEMPLATE", host["template"])),
            ],
        )

    def hostpool_info(self, _user: int) -> str:
        return f"<HOST_POOL>{''.join(map(self.host_xml, self.hosts))}</HOST_POOL>"

    def host_info(self, _user: int, number: int) -> str:
        self.existing(self.hosts, number, "host")
        return self.host_xml(number)

    def host_update(self, user: int, number: int, text: str, kind: int) -> int:
        self.admin_only(user, "MANAGE HOST")
        return self.update(self.existing(self.hosts, number, "host"), user, number, text, kind)

    def host_status(self, user: int, number: int, status: int) -> int:
        self.admin_only(user, "MANAGE HOST")
        entry = self.existing(self.hosts, number, "host")
        if status not in (0, 1, 2):
            raise Failure(WRONG_PARAMETER, f"Wrong status code [{status}]")
        entry["state"] = (MONITORED, DISABLED, OFFLINE)[status]
        return number

    def cluster_info(self, _user: int, number: int) -> str:
        cluster = self.existing(self.clusters, number, "cluster")
        return element("CLUSTER", [("ID", number), ("NAME", cluster["name"]), ("TEMPLATE", cluster["template"])])

    def update(self, entry: dict, user: int, number: int, text: str, kind: int) -> int:
        if kind not in (0, 1):
            raise Failure(WRONG_PARAMETER, "Wrong update type")
        try:
            new = parse(text)
        except Failure as failure:
            raise Failure(INTERNAL, f"Cannot update template. {failure}") from None
        wrong = None if self.is_admin(user) else restricted(new, entry["template"])
        if wrong:
            raise Failure(INTERNAL, f"Cannot update template. Tried to change restricted attribute: {wrong}")
        entry["template"] = merged(entry["template"], new) if kind == 1 else new
        return number

    # Templates of machines.

    def template_xml(self, number: int) -> str:
        entry = self.templates[number]
        owner, group = self.users[entry["user"]]["name"], self.groups[entry["group"]]["name"]
        return element(
            "VMTEMPLATE",
            [
                *(("ID", number), ("UID", entry["user"]), ("GID", entry["group"]), ("UNAME", owner), ("GNAME", group)),
                *(
                    ("NAME", entry["name"]),
                    ("PERMISSIONS", list(zip(BITS, entry["bits"]))),
                    ("REGTIME", 0),
                    ("TEMPLATE", entry["template"]),
                ),
            ],
        )

    def may(self, user: int, entry: dict, bit: int) -> bool:
        """Whether a user may use (0), manage (1) or administer (2) it."""
        own = entry["user"] == user and entry["bits"][bit]
        shared = entry["group"] == self.users[user]["group"] and entry["bits"][3 + bit]
        return self.is_admin(user) or bool(own or shared or entry["bits"][6 + bit])

    def template_for(self, user: int, number: int, bit: int) -> dict:
        entry = self.existing(self.templates, number, "template")
        if not self.may(user, entry, bit):
            raise Failure(
                AUTHORIZATION, f"User [{user}] : Not authorized to perform {('USE', 'MANAGE', 'ADMIN')[bit]} TEMPLATE [{number}]."
            )
        return entry

    def templatepool_info(self, user: int, whose: int, start: int, end: int) -> str:
        if whose < -4:
            raise Failure(WRONG_PARAMETER, "Incorrect filter_flag")
        own = user if whose == -3 else whose
        shown = [
            number
            for number, entry in self.templates.items()
            if (entry["user"] == own if whose == -3 or whose >= 0 else self.may(user, entry, 0))
            and (start < 0 or number >= start)
            and (end < 0 or number <= end)
        ]
        return f"<VMTEMPLATE_POOL>{''.join(map(self.template_xml, shown))}</VMTEMPLATE_POOL>"

    def template_info(self, user: int, number: int) -> str:
        self.template_for(user, number, 0)
        return self.template_xml(number)

    def template_allocate(self, user: int, text: str) -> int:
        attributes = parse(text)
        refused = None if self.is_admin(user) else restricted(attributes, [])
        if refused:
            raise Failure(AUTHORIZATION, f"User [{user}] : VM Template includes a restricted attribute {refused}.")
        name = first(attributes, "NAME")
        if not name:
            raise Failure(INTERNAL, "Invalid NAME, it cannot be empty")
        wrong = re.search(r"""[&|:\\;/'#{}$<>"]""", name)
        if wrong:
            raise Failure(INTERNAL, f"Invalid NAME, char '{wrong.group()}' is not allowed")
        if len(name) > 128:
            raise Failure(INTERNAL, "Invalid NAME, max length is 128 chars")
        for number, entry in self.templates.items():
            if (entry["name"], entry["user"]) == (name, user):
                raise Failure(INTERNAL, f"NAME is already taken by TEMPLATE {number}.")
        number = max(self.templates, default=-1) + 1
        rest = [(key, value) for key, value in attributes if key != "NAME"]
        bits = [1, 1, 0, *[0] * 6]
        self.templates[number] = {"name": name, "user": user, "group": self.users[user]["group"], "bits": bits, "template": rest}
        return number

    def template_update(self, user: int, number: int, text: str, kind: int) -> int:
        return self.update(self.template_for(user, number, 1), user, number, text, kind)

    def template_delete(self, user: int, number: int, _images: bool) -> int:
        self.template_for(user, number, 1)
        del self.templates[number]
        return number

    def template_chown(self, user: int, number: int, owner: int, group: int) -> int:
        entry = self.template_for(user, number, 1)
        if owner != -1:
            self.existing(self.users, owner, "user")
            entry["user"] = owner
        if group != -1:
            self.existing(self.groups, group, "group")
            entry["group"] = group
        return number

    def template_chmod(self, user: int, number: int, *arguments: int) -> int:
        bits = arguments[:-1]
        entry = self.template_for(user, number, 1)
        if not set(bits) <= {-1, 0, 1}:
            raise Failure(WRONG_PARAMETER, "New permissions must be -1, 0 or 1")
        entry["bits"] = [before if bit == -1 else bit for before, bit in zip(entry["bits"], bits)]
        return number

    def template_instantiate(self, user: int, number: int, name: str, _hold: bool, extra: str, _persistent: bool) -> int:
        """Start a machine at once on the first host that has the devices."""
        entry = self.template_for(user, number, 0)
        more = parse(extra)
        refused = None if self.is_admin(user) else restricted(more, entry["template"])
        if refused:
            raise Failure(AUTHORIZATION, f"User [{user}] : VM Template includes a restricted attribute {refused}.")
        machine = merged(entry["template"], more)
        for attribute in ("CPU", "MEMORY"):
            if not re.fullmatch(r"[0-9]*\.?[0-9]+", first(machine, attribute)) or float(first(machine, attribute)) <= 0:
                raise Failure(ALLOCATE, f"Error allocating a new virtual machine. {attribute} attribute must be a positive value")
        wrong = next(filter(None, map(wrong_request, values(machine, "PCI"))), None)
        if wrong:
            raise Failure(ALLOCATE, f"Error allocating a new virtual machine. {wrong}")
        requests = [request for request in values(machine, "PCI") if request.get("TYPE") != "NIC"]
        asked = {"VMS": 1.0, "PCI_DEV": float(len(requests))}
        asked.update({attribute: float(first(machine, attribute) or 0) for attribute in ("CPU", "MEMORY", *self.quota_attributes)})
        self.check_quota(user, asked)
        vm = len(self.machines)
        self.machines.append({"user": user, "asked": asked, "name": name, "host": None, "devices": [], "state": PENDING})
        for host in (number for number, entry in self.hosts.items() if entry["state"] == MONITORED):
            free = [device for device in self.hosts[host]["pci"] if device["VMID"] == -1]
            given = []
            for request in requests:
                fitting = next((device for device in free if self.fits(request, device)), None)
                if fitting is None:
                    break
                free.remove(fitting)
                given.append(fitting)
            if len(given) == len(requests):
                for device in given:
                    device["VMID"] = vm
                addresses = [device["SHORT_ADDRESS"] for device in given]
                self.machines[vm].update(host=self.hosts[host]["name"], devices=addresses, state=ACTIVE)
                break
        return vm

    def vm_info(self, user: int, number: int) -> str:
        self.existing(dict(enumerate(self.machines)), number, "virtual machine")
        machine = self.machines[number]
        if machine["user"] != user:
            self.admin_only(user, f"USE VM [{number}]")
        owner = self.users[machine["user"]]["name"]
        return element("VM", [("ID", number), ("UNAME", owner), ("NAME", machine["name"]), ("STATE", machine["state"])])

    @staticmethod
    def fits(request: dict, device: dict) -> bool:
        if request.get("SHORT_ADDRESS"):
            return request["SHORT_ADDRESS"] == device["SHORT_ADDRESS"]
        wanted = [name for name in ("VENDOR", "DEVICE", "CLASS") if request.get(name)]
        return bool(wanted) and all(int(request[name], 16) == int(device[name], 16) for name in wanted)

    # Users, groups and their limits.

    def quota_xml(self, quota: dict, member: object) -> tuple:
        used = {
            metric: sum(machine["asked"].get(metric, 0) for machine in self.machines if member(machine["user"])) for metric in self.metrics
        }
        entries = [("VM", [("CLUSTER_IDS", ids)] * bool(ids) + self.limits(limits, used)) for ids, limits in quota.items()]
        return "VM_QUOTA", entries

    @staticmethod
    def limits(limits: dict, used: dict) -> list:
        return [pair for metric, limit in limits.items() for pair in ((metric, limit), (f"{metric}_USED", f"{used[metric]:g}"))]

    def user_xml(self, number: int, quotas: bool) -> str:
        user = self.users[number]
        about = [("ID", number), ("GID", user["group"]), ("GNAME", self.groups[user["group"]]["name"]), ("NAME", user["name"])]
        return element("USER", about + [self.quota_xml(user["quota"], lambda uid: uid == number)] * quotas)

    def group_xml(self, number: int, quotas: bool) -> str:
        group = self.groups[number]
        about = [("ID", number), ("NAME", group["name"])]
        return element("GROUP", about + [self.quota_xml(group["quota"], lambda uid: self.users[uid]["group"] == number)] * quotas)

    def userpool_info(self, user: int) -> str:
        self.admin_only(user, "INFO_POOL USER")
        return f"<USER_POOL>{''.join(self.user_xml(number, False) for number in self.users)}</USER_POOL>"

    def user_info(self, user: int, number: int) -> str:
        number = user if number == -1 else number
        self.existing(self.users, number, "user")
        if number != user:
            self.admin_only(user, f"USE USER [{number}]")
        return self.user_xml(number, True)

    def grouppool_info(self, _user: int) -> str:
        return f"<GROUP_POOL>{''.join(self.group_xml(number, False) for number in self.groups)}</GROUP_POOL>"

    def group_info(self, _user: int, number: int) -> str:
        self.existing(self.groups, number, "group")
        return self.group_xml(number, True)

    def user_quota(self, user: int, number: int, text: str) -> int:
        self.admin_only(user, f"MANAGE USER [{number}]")
        return self.set_quota(self.existing(self.users, number, "user"), number, text)

    def group_quota(self, user: int, number: int, text: str) -> int:
        self.admin_only(user, f"ADMIN GROUP [{number}]")
        return self.set_quota(self.existing(self.groups, number, "group"), number, text)

    def set_quota(self, entry: dict, number: int, text: str) -> int:
        """A limit that is not sent is the default again (-1); an unknown one is ignored."""
        for limits in values(parse(text), "VM"):
            found = {}
            for metric in self.metrics:
                try:
                    limit = float(limits.get(metric) or -1)
                except ValueError:
                    limit = -3
                if limit < 0 and limit not in (-1, -2):
                    raise Failure(INTERNAL, f"Negative limits or bad format in quota VM = [ {limits} ]")
                found[metric] = f"{limit:g}"
            entry["quota"][limits.get("CLUSTER_IDS", "")] = found
        return number

    def check_quota(self, user: int, asked: dict) -> None:
        own = self.users[user]
        group = own["group"]
        if self.is_admin(user):
            return
        for who, quota, member in (
            (f"user [{user}]", own["quota"], lambda uid: uid == user),
            (f"group [{group}]", self.groups[group]["quota"], lambda uid: self.users[uid]["group"] == group),
        ):
            for metric, wanted in asked.items():
                limit = float(quota.get("", {}).get(metric, -1))
                used = sum(machine["asked"].get(metric, 0) for machine in self.machines if member(machine["user"]))
                if limit >= 0 and used + wanted > limit:
                    raise Failure(AUTHORIZATION, f"User [{user}] : {who} limit of {limit:g} reached for {metric} quota in VM.")


class Handler(SimpleXMLRPCRequestHandler):
    rpc_paths = ("/RPC2",)

    def log_message(self, *_arguments: object) -> None:
        pass


class Server(ThreadingMixIn, SimpleXMLRPCServer):
    daemon_threads = True

    def __init__(self, oned: Oned, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler, logRequests=False)
        self.oned, self.lock = oned, threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/RPC2"

    def _dispatch(self, method: str, params: tuple) -> object:
        with self.lock:
            if method in (
                "stand_in.add_group",
                "stand_in.add_user",
                "stand_in.add_host",
                "stand_in.probe",
                "stand_in.power_off",
                "stand_in.terminate",
                "stand_in.remember",
                "stand_in.recall",
            ):
                return getattr(self.oned, method[len("stand_in.") :])(*params)
            return self.oned.answer(method, tuple(params))


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as file:
        Server(Oned(administrator=file.read().strip()), int(sys.argv[1])).serve_forever()
