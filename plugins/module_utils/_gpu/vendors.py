# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# It runs on targets whose Python may be as old as 2.7, so types are in comments.
"""What the collection knows of each vendor of accelerators, one record each.

docs/accelerators.md has what a new vendor takes. What a record says of no vendor in particular is not here:
drivers for virtual machines are in _model/units.py, what can be wrong with a device in health.py.
"""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import re

from . import amd, intel, nvidia

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable  # absent from Python 2.7

    from .bounded_command import TimeBudget

# The vendor, in the model, of a device whose vendor has no record.
OTHER = "other"


def _read_nothing(root, entries, budget):
    # type: (str, list[dict[str, Any]], TimeBudget) -> None
    """The reader of a vendor whose devices the kernel describes well enough."""


def _no_files(root, address):
    # type: (str, str) -> list[str]
    return []


class Vendor(object):
    """One vendor.

    - pci_id: PCI vendor, four hexadecimal digits in lower case.
    - name: what the model calls it (``vendor``). display_name: what people call it.
    - drivers: kernel drivers that serve jobs, the usual one first.
    - useless_drivers: drivers that hold a device without letting a job compute on it, and what that means, a clause.
    - read(root, entries, budget): adds what the drivers and tools report to those of a host's entries that it concerns. It may set
      ``_files``, where jobs use other device files than those that sysfs names.
    - types: device id -> short type, so that the type is the same before and after the driver is installed. A device whose one id
      is sold under several names (10de:25b6 is an A2 or an A16) is left to the marketing name.
    - name_patterns: tried in this order on the marketing name in lower case. The groups that matched make the type: one that begins
      with a space is joined by "_", the others without.
    - compute_ids: matches the device ids of graphics that can compute; None: all can.
    - has_coprocessors: whether its co-processors (PCI class 0b40) compute.
    - watchers: beginnings of the names of processes that keep devices open without computing.
    - file_patterns: its files below /dev that the kernel does not name in sysfs. device_files(root, address): those of one device.
    """

    def __init__(
        self,
        pci_id,  # type: str
        name,  # type: str
        display_name,  # type: str
        drivers,  # type: tuple[str, ...]
        read=_read_nothing,  # type: Callable[[str, list[dict[str, Any]], TimeBudget], None]
        useless_drivers=None,  # type: dict[str, str] | None
        types=None,  # type: dict[str, str] | None
        name_patterns=(),  # type: tuple[re.Pattern[str], ...]
        compute_ids=None,  # type: re.Pattern[str] | None
        has_coprocessors=True,  # type: bool
        watchers=(),  # type: tuple[str, ...]
        file_patterns=(),  # type: tuple[str, ...]
        device_files=_no_files,  # type: Callable[[str, str], list[str]]
    ):
        # type: (...) -> None
        self.pci_id = pci_id
        self.name = name
        self.display_name = display_name
        self.drivers = drivers
        self.read = read
        self.useless_drivers = useless_drivers or {}
        self.types = types or {}
        self.name_patterns = name_patterns
        self.compute_ids = compute_ids
        self.has_coprocessors = has_coprocessors
        self.watchers = watchers
        self.file_patterns = file_patterns
        self.device_files = device_files

    def makes_gpu(self, device_id):
        # type: (str) -> bool
        """Whether a device of the classes of GPUs can compute."""
        return device_id in self.types or self.compute_ids is None or bool(self.compute_ids.match(device_id))


NVIDIA = Vendor(
    pci_id="10de",
    name="nvidia",
    display_name="NVIDIA",
    drivers=("nvidia",),
    read=nvidia.read,
    useless_drivers={
        "nouveau": "it is bound to nouveau, which can't run compute jobs; the vendor's kernel driver is missing or was loaded too late",
        "NovaCore": "it is bound to nova, which can't run compute jobs; the vendor's kernel driver is missing or was loaded too late",
        "nova": "it is bound to nova, which can't run compute jobs; the vendor's kernel driver is missing or was loaded too late",
    },
    types={
        "15f7": "p100",
        "15f8": "p100",
        "15f9": "p100",
        "1b38": "p40",
        "1bb3": "p4",
        "1db1": "v100",
        "1db3": "v100",
        "1db4": "v100",
        "1db5": "v100",
        "1db6": "v100",
        "1db8": "v100",
        "1eb8": "t4",
        "20b0": "a100",
        "20b1": "a100",
        "20b2": "a100",
        "20b3": "a100",
        "20b5": "a100",
        "20f1": "a100",
        "20b7": "a30",
        "2235": "a40",
        "2236": "a10",
        "2237": "a10g",
        "20f3": "a800",
        "20f5": "a800",
        "20f6": "a800",
        "2322": "h800",
        "2324": "h800",
        "2329": "h20",
        "2330": "h100",
        "2331": "h100",
        "2336": "h100",
        "2339": "h100",
        "2335": "h200",
        "233b": "h200",
        "2342": "gh200",
        "2901": "b200",
        "2941": "gb200",
        "3182": "b300",
        "26b5": "l40",
        "26b9": "l40s",
        "27b8": "l4",
        "26b1": "rtx6000_ada",
        "2204": "rtx3090",
        "2684": "rtx4090",
        "2b85": "rtx5090",
    },
    name_patterns=(
        re.compile(r"\b(rtx) (pro) (\d{4})\b"),
        re.compile(r"\b(rtx) (\d{4})(?: sff)?( ada)\b"),
        re.compile(r"\b([rg]tx) ?(\d{3,4})(?: (ti))?( super)?(?: (d))?\b"),
        re.compile(r"\b(titan)( rtx| xp| x| v)?\b"),
        re.compile(r"(?<![a-z0-9])((?:gb|gh|gv|gp|[abhlptvkm])\d{1,4}[gmsx]?)(?![a-z0-9])"),
    ),
    watchers=nvidia.WATCHERS,
    file_patterns=("nvidia[0-9]*",),
    device_files=nvidia.device_files,
)

AMD = Vendor(
    pci_id="1002",
    name="amd",
    display_name="AMD",
    drivers=("amdgpu",),
    read=amd.read,
    useless_drivers={"radeon": "it is bound to radeon, which can't run compute jobs; they need amdgpu"},
    types={
        "66a1": "mi50",
        "738c": "mi100",
        "7408": "mi250x",
        "740f": "mi210",
        "74a0": "mi300a",
        "74a1": "mi300x",
        "74b5": "mi300x",
        "74a5": "mi325x",
        "75a0": "mi350x",
        "75a3": "mi355x",
    },
    name_patterns=(
        re.compile(r"\b(mi\d{2,3}[apx]?)(?![a-z0-9])"),
        re.compile(r"\b(rx) ?(\d{3,4})(?: (xtx|xt|gre))?\b"),
        re.compile(r"\b([wv]\d{3,4})(?![a-z0-9])"),
    ),
    # Cards since GCN 2: Vega 20; Hawaii and Polaris; Vega 10; Tonga; Vega 12; Polaris 20; Fiji, Navi and all Instinct since MI100.
    # What lies between is Radeon HD 5000 to 8000 and older, too old to compute with, and mostly the console of a server;
    # what is named here otherwise (13xx, 15xx, 16xx, 19xx, 98xx, 99xx) is part of a CPU.
    compute_ids=re.compile(r"(66a[0-9a-f]|67[a-f][0-9a-f]|68[67][0-9a-f]|69[23a][0-9a-f]|6fdf|7[3-7][0-9a-f]{2})\Z"),
    file_patterns=("kfd",),
)

INTEL = Vendor(
    pci_id="8086",
    name="intel",
    display_name="Intel",
    drivers=("xe", "i915"),
    read=intel.read,
    types={
        "0bd5": "max1550",
        "0bd6": "max1550",
        "0bd9": "max1100",
        "0bda": "max1100",
        "0bdb": "max1100",
        "56c0": "flex170",
        "56c1": "flex140",
    },
    name_patterns=(
        re.compile(r"\b(max|flex) (?:gpu )?(\d{3,4})\b"),
        re.compile(r"\b(arc)(?: pro)?( [ab]\d{2,3}[a-z]?)\b"),
    ),
    # Graphics with its own memory: DG1, Alchemist and Flex, Ponte Vecchio (Max), Battlemage. All others are part of a CPU.
    compute_ids=re.compile(r"(490[5-9]|56[0-9a-f]{2}|0bd[0-9a-f]|0b69|e2[0-9a-f]{2})\Z"),
    has_coprocessors=False,  # they are QuickAssist: they encrypt and compress
)

VENDORS = (NVIDIA, AMD, INTEL)


def names():
    # type: () -> tuple[str, ...]
    """What the model's key vendor may have."""
    return tuple(vendor.name for vendor in VENDORS) + (OTHER,)


def by_id(pci_id):
    # type: (str | None) -> Vendor | None
    """The vendor with a PCI id; None without a record."""
    return next((vendor for vendor in VENDORS if vendor.pci_id == pci_id), None)


def by_name(name):
    # type: (str | None) -> Vendor | None
    """The vendor that the model calls *name*; None without a record."""
    return next((vendor for vendor in VENDORS if vendor.name == name), None)


def name_of(pci_id):
    # type: (str | None) -> str
    """What the model calls the vendor with a PCI id."""
    vendor = by_id(pci_id)
    return vendor.name if vendor else OTHER


def why_useless(driver):
    # type: (str) -> str | None
    """Return why no job computes on a device with this kernel driver, as a clause.

    None means that no vendor's record has the driver.
    """
    return next((vendor.useless_drivers[driver] for vendor in VENDORS if driver in vendor.useless_drivers), None)


def drivers():
    # type: () -> tuple[str, ...]
    """The kernel drivers that serve jobs."""
    return tuple(driver for vendor in VENDORS for driver in vendor.drivers)


def watchers():
    # type: () -> tuple[str, ...]
    """Beginnings of the names of processes that keep devices open without computing."""
    return tuple(name for vendor in VENDORS for name in vendor.watchers)


def file_patterns():
    # type: () -> tuple[str, ...]
    """The vendors' own files below /dev that the kernel does not name in sysfs."""
    return tuple(pattern for vendor in VENDORS for pattern in vendor.file_patterns)


def device_files(root, address):
    # type: (str, str) -> list[str]
    """The files of a device that its vendor's driver names, not sysfs."""
    return [path for vendor in VENDORS for path in vendor.device_files(root, address)]
