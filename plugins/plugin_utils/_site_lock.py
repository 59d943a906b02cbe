# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""One run at a time on a site: the program on its hosts, and who has the lock.

The lock is a file below /run with an end, counted by the host's own clock since its boot. A process beside the run moves the end on.
It removes the file when the run is over, however that ended. So a lock outlives its run by a second, by a few minutes if the control
node is gone, and never a boot of the host.

The file has two lines: run, end, machine, process and start of the process; and the sentence about the run.
"""

from __future__ import annotations

import os
import platform
import shlex
import typing as t
import uuid

FOLDER = "/run/deephdc"
FILE = f"{FOLDER}/site_lock"
# Seconds that a lock is good for without news of its run.
GOOD_FOR = 180

# Arguments: what to do, the run, the two lines without the end, and a run whose lock may be taken.
# It prints a word, and the file of another run as it was before.
# The words: "taken", "kept" (this run has it already), "held", "renewed", "lost", "released".
PROGRAM = f"""
set -eu
[ "$(id -u)" = 0 ] || {{ echo "not root"; exit 0; }}
mkdir -p -m 755 {FOLDER}
exec 9>{FILE}.lock
flock 9
now=$(cut -d. -f1 /proc/uptime)
run= end=0
if [ -s {FILE} ]; then read -r run end rest < {FILE}; fi
write() {{
    printf '%s %s %s\\n%s\\n' "$2" "$((now + {GOOD_FOR}))" "$3" "$4" > {FILE}.new
    mv {FILE}.new {FILE}
}}
case $1 in
take)
    if [ "$run" = "$2" ]; then echo kept
    elif [ -z "$run" ]; then echo taken
    elif [ "$run" = "$5" ] || [ "$end" -le "$now" ]; then echo taken; cat {FILE}
    else echo held; cat {FILE}; exit 0; fi
    write "$@" ;;
renew)
    if [ -z "$run" ] || [ "$run" = "$2" ]; then write "$@"; echo renewed; else echo lost; fi ;;
release)
    if [ "$run" = "$2" ]; then rm {FILE}; fi
    echo released ;;
esac
"""


class Run(t.NamedTuple):
    """A run of Ansible: the first line of the file without the end, and the second.

    :param machine: the control node, and the part of it in which numbers of processes mean something.
    :param start: of the process, as the kernel counts it; empty where that can't be read.
    """

    run: str
    machine: str
    process: int
    start: str
    sentence: str


def start_of(process: int) -> str | None:
    """When a process began, None where it has ended, empty where nothing says it."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            words = file.read().rpartition(")")[2].split()
        return None if words[0] == "Z" else words[19]
    except OSError:
        pass  # also where /proc hides the processes of other users
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass
    return ""


def machine() -> str:
    """The control node, by what no other control node has."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip() + "-" + os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return f"{uuid.getnode():x}"


def this(process: int, person: str, playbooks: t.Sequence[str], began: str) -> Run:
    """The run of a process of Ansible on this control node."""
    here, start = machine(), start_of(process) or ""
    name = uuid.uuid5(uuid.NAMESPACE_OID, f"{here} {process} {start}").hex[:12]
    # They go into a file of lines, and to a terminal.
    words = [one_line(word) for word in (person, platform.node(), " ".join(map(os.path.basename, playbooks)))]
    return Run(name, here, process, start or "-", f"{words[0]} on {words[1]} with {words[2] or 'Ansible'}, since {began}")


def one_line(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)[:200]


def command(what: str, run: Run, other: str = "-") -> str:
    """The shell command that does something with the lock on a host."""
    head = f"{run.machine} {run.process} {run.start}"
    return " ".join(map(shlex.quote, ["sh", "-c", PROGRAM, "site_lock", what, run.run, head, run.sentence, other]))


def holder(lines: t.Sequence[str]) -> Run | None:
    """The run of a file, None where it is damaged."""
    words = lines[0].split() if lines else []
    if len(words) != 5 or len(lines) < 2 or not words[3].isdigit():
        return None
    return Run(words[0], words[2], int(words[3]), words[4], lines[1])


def has_ended(run: Run) -> bool:
    """Whether a run of this control node is over, though its lock is there."""
    if run.machine != machine():
        return False
    start = start_of(run.process)
    return start is None or (bool(start) and run.start not in ("-", start))
