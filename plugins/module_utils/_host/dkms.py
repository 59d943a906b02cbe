# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What dkms reports: states of modules, and why a build broke. Pure functions."""

from __future__ import annotations

import re
import typing as t

# "nvidia/580.65.06, 6.12.107+deb13-amd64, x86_64: installed (Differences between built and installed modules)"
_STATE = re.compile(r"(?P<name>[^/\s]+)/(?P<version>[^,:\s]+)(?:, (?P<kernel>[^,]+), (?P<arch>[^:]+))?: (?P<state>[\w-]+)(?P<note>.*)")
_COMPILER = re.compile(r"(?P<file>[^\s:]+):(?P<line>\d+)(?::\d+)?: (?:fatal )?error: (?P<text>.*)")
# What says less, in this order: the linker of modules, a compiler that is not there or has another version, make.
_OTHER = (
    re.compile(r"ERROR: modpost: .*"),
    re.compile(r".*(?:command not found|No such file or directory).*"),
    re.compile(r"make.*\*\*\* .*"),
)

# Exit status of `dkms build` where the module's own dkms.conf says that it is not for this kernel.
EXCLUDED = 77


class State(t.NamedTuple):
    """A line of `dkms status`."""

    name: str
    version: str
    # Empty where it was added only.
    kernel: str
    # added, built, installed or broken
    state: str
    # What dkms found odd, without parentheses.
    note: str


def states(text: str) -> list[State]:
    """Lines of `dkms status`; others, such as warnings, are passed over."""
    found = (_STATE.fullmatch(line.strip()) for line in text.splitlines())
    return [
        State(match["name"], match["version"], match["kernel"] or "", match["state"], match["note"].strip().strip("()"))
        for match in found
        if match
    ]


def state_of(known: t.Iterable[State], name: str, version: str, kernel: str) -> State | None:
    """Return the state of a module for a kernel; None if dkms does not know it.

    The state may be that the module was only added.
    """
    own = [state for state in known if (state.name, state.version) == (name, version)]
    for state in own:
        if state.kernel == kernel:
            return state
    return State(name, version, "", "added", "") if own else None


def is_whole(state: State | None) -> bool:
    """Whether a module is installed as it was built.

    That the kernel has one of the name itself, another note, is no fault.
    """
    return state is not None and state.state == "installed" and not re.search("diff|missing", state.note, re.IGNORECASE)


def first_error(log: str) -> str:
    """Return the first error in a make.log.

    It is the compiler's, with file and line. Without one it is that of whatever else failed, or else the last line.

    >>> first_error("/var/lib/dkms/nvidia/1/build/nvidia/nv-pci.c:237:13: error: too few arguments to function 'f'")
    "nvidia/nv-pci.c:237: too few arguments to function 'f'"
    """
    # Outside of the C locale compilers print typographic quotation marks.
    plain = log.replace("\u2018", "'").replace("\u2019", "'")
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    for line in lines:
        match = _COMPILER.search(line)
        if match:
            return f"{match['file'].rpartition('/build/')[2]}:{match['line']}: {match['text']}"
    for pattern in _OTHER:
        for line in lines:
            if pattern.match(line):
                return line
    return lines[-1] if lines else ""


def settings(conf: str) -> dict[str, str]:
    """Return PACKAGE_NAME, PACKAGE_VERSION and the first module's name of a dkms.conf."""
    values = dict(re.findall(r'^(PACKAGE_NAME|PACKAGE_VERSION)="?([^"\s]+)"?', conf, re.MULTILINE))
    names = re.findall(r'^(?:BUILT|DEST)_MODULE_NAME\[0\]="?([^"\s]+)"?', conf, re.MULTILINE)
    # DEST_MODULE_NAME comes behind BUILT_MODULE_NAME and is what is installed.
    first = names[-1] if names else values.get("PACKAGE_NAME", "")
    return {
        "name": values.get("PACKAGE_NAME", ""),
        "version": values.get("PACKAGE_VERSION", ""),
        "module": first.replace("$PACKAGE_NAME", values.get("PACKAGE_NAME", "")),
    }


def build_errors(name: str, version: str, failures: t.Mapping[str, str], running: str, newest: str) -> list[str]:
    """Return a sentence for each kernel that the module does not build for.

    The sentence has what this means and the remedy.
    failures: kernel to the first error; empty where dkms.conf excludes the kernel.
    """
    found = []
    for kernel, error in failures.items():
        reason = (
            f"the first error is {error!r}" if error else "its dkms.conf excludes this kernel (a real-time kernel, or one that is too new)"
        )
        which = {running: "which runs now", newest: "which the next boot takes"}.get(kernel, "which is installed")
        found.append(
            f"{name} {version} does not build for the kernel {kernel}, {which}: {reason}. "
            f"Choose a newer driver (nvidia_driver_branch, nvidia_driver_source), or remove the kernel (linux-image-{kernel})."
        )
    return found


def load_error(name: str, version: str, kernel: str, found: str) -> str:
    """Why a kernel would not load a module although dkms calls it installed.

    found: modinfo's version, empty for none.
    """
    return (
        f"dkms calls {name} {version} installed for the kernel {kernel}, but there it would load {found or 'no module'}: "
        f"look at `modinfo -k {kernel}` and for another file of that name below /lib/modules/{kernel}."
    )
