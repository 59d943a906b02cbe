# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The kernel's command line: what is missing, and what contradicts itself.

Also what boot loaders' files say. The functions are pure.
"""

from __future__ import annotations

import re
import typing as t

# No quotes, blanks, or anything else that a shell, GRUB or the kernel would take apart.
ARGUMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(=[A-Za-z0-9_.,:/@+-]*)?\Z")

# May be given several times, each with another value: the kernel takes all of them.
_REPEATABLE = ("console", "modprobe.blacklist", "rd.driver.blacklist", "rd.driver.pre")

_BEGIN = "### BEGIN /etc/grub.d/10_linux ###"
_END = "### END /etc/grub.d/10_linux ###"


def key(argument: str) -> str:
    """The kernel takes - and _ in a name as the same."""
    return argument.split("=", 1)[0].replace("-", "_")


def invalid(arguments: t.Iterable[str]) -> list[str]:
    return [argument for argument in arguments if not ARGUMENT.match(argument)]


def conflicts(foreign: t.Sequence[str], wanted: t.Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of a foreign argument and a wanted one that contradict each other.

    They have the same name and different values: the kernel would have to choose.
    """
    return [(other, own) for own in wanted for other in foreign if key(own) == key(other) and own != other and key(own) not in _REPEATABLE]


def missing(present: t.Sequence[str], wanted: t.Sequence[str]) -> list[str]:
    """The wanted arguments that aren't there yet, in order."""
    return [argument for argument in wanted if argument not in present]


def without(present: t.Sequence[str], unwanted: t.Sequence[str]) -> list[str]:
    """What is left of a command line, in order."""
    return [argument for argument in present if argument not in unwanted]


def grub_dropin(arguments: t.Sequence[str]) -> str:
    """A file of /etc/default/grub.d that adds to what the files before it say."""
    return (
        "# Made by deephdc.accelerators. Read by update-grub; the kernel gets it at the next start.\n"
        f'GRUB_CMDLINE_LINUX="{" ".join(["$GRUB_CMDLINE_LINUX", *arguments])}"\n'
    )


def grub_lines(configuration: str) -> list[list[str]]:
    """Return the kernel's arguments in each usual entry of grub.cfg.

    Usual entries are those that GRUB made by itself. Hand-made entries are left out.
    So are those for recovery, which get only a part of what the settings say.
    """
    if _BEGIN not in configuration:
        return []
    part = configuration.split(_BEGIN, 1)[1].split(_END, 1)[0]
    found = [line.split()[2:] for line in part.splitlines() if re.match(r"\s*linux(16|efi)?\s", line)]
    return [arguments for arguments in found if not {"single", "recovery"} & set(arguments)]


def entry_arguments(entry: str) -> list[str]:
    """Return the kernel's arguments in an entry of the Boot Loader Specification.

    systemd-boot reads such entries.
    """
    return [word for line in entry.splitlines() if re.match(r"options\s", line) for word in line.split()[1:]]


def for_new_entries(running: t.Sequence[str]) -> list[str]:
    """Return what kernel-install takes where /etc/kernel/cmdline is missing.

    It takes this from the running kernel's command line.
    """
    return [argument for argument in running if not argument.startswith(("BOOT_IMAGE=", "initrd="))]
