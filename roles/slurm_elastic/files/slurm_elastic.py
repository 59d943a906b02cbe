#!/usr/bin/python3
# Made by deephdc.accelerators. SPDX-License-Identifier: Apache-2.0
"""Lets a site's hook start and stop the cloud nodes of a SLURM cluster; slurmctld runs it as the user slurm.

usage: slurm_elastic resume|suspend|fail HOSTLIST    what ResumeProgram, SuspendProgram and ResumeFailProgram call
       slurm_elastic retry                           gives failed nodes back to SLURM after their pause; a timer runs it

The hook is called once with the action and the names of all nodes that it serves. It exits with 0, or says what went wrong:
lines "failed NAME: sentence" name nodes, without any such line all nodes failed and its last line is the reason.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

CONFIG = "/etc/deephdc/slurm_elastic/nodes.json"
HOOKS = "/usr/local/libexec/deephdc/slurm_elastic_hooks"
MARK = "elastic: "
# SLURM's own word, which stays where the controller went down before ResumeFailProgram could say more.
UNSAID = "ResumeTimeout reached"
REASON_LENGTH = 200
# Of a hook's output as much is read; a hook that prints without end fills the disk only until its time is over.
OUTPUT_BYTES = 16384


def say(text: str) -> None:
    with contextlib.suppress(OSError):
        print(f"{datetime.datetime.now().isoformat(timespec='seconds')} {text}", flush=True)


def scontrol(*words: str) -> str | None:
    """What scontrol prints; None, and a line in the log, where it fails."""
    try:
        done = subprocess.run(["scontrol", *words], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        say(f"scontrol {words[0]}: {error}")
        return None
    if done.returncode != 0:
        say(f"scontrol {' '.join(words)}: {' '.join((done.stderr or done.stdout).split())}")
        return None
    return done.stdout


def by_hook(config: dict, names: list[str]) -> dict[str, list[str]]:
    """The names that each hook serves; those that none does are under an empty one."""
    hook_of = {name: entry["hook"] for entry in config["sets"] for name in entry["names"]}
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(hook_of.get(name, ""), []).append(name)
    return groups


def path_of(hook: str) -> str:
    return hook if hook.startswith("/") else f"{HOOKS}/{hook}"


def failures(code: int, output: str, names: list[str]) -> dict[str, str]:
    """The nodes that a hook failed for, each with a sentence."""
    if code == 0:
        return {}
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    named = dict(match.groups() for match in (re.fullmatch(r"failed (\S+): (.+)", line) for line in lines) if match)
    found = {name: sentence for name, sentence in named.items() if name in names}
    last = lines[-1] if lines else f"the hook ended with {code} and said nothing"
    return found or dict.fromkeys(names, last)


def call(hook: str, action: str, names: list[str], seconds: float) -> dict[str, str]:
    """Run a hook for the names, within its time; returns the failures."""
    if not hook:
        return dict.fromkeys(names, "no entry of slurm_cluster_cloud_nodes names it")
    say(f"{action} {' '.join(names)}: {hook}")
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                [path_of(hook), action, *names], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            return dict.fromkeys(names, f"the hook {hook} can't be run: {error.strerror}")
        late = False
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            late = True
        with contextlib.suppress(ProcessLookupError):  # whatever it left behind
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        output.seek(max(0, output.seek(0, os.SEEK_END) - OUTPUT_BYTES))
        text = output.read().decode(errors="replace")
    for line in text.splitlines():
        say(f"{action}: {line}")
    if late:
        text += f"\nthe hook {hook} did not end within {seconds:g} s"
    return failures(process.returncode, text, names)


def take_away(name: str, sentence: str) -> None:
    """Set a node DOWN: SLURM requeues its jobs, and avoids it until the retry."""
    reason = MARK + "".join(character for character in " ".join(sentence.split()) if character.isprintable())[:REASON_LENGTH]
    say(f"{name} is set DOWN: {reason}")
    scontrol("update", f"NodeName={name}", "State=DOWN", f"Reason={reason}")


def act(config: dict, action: str, names: list[str]) -> None:
    for hook, served in by_hook(config, names).items():
        failed = call(hook, action, served, config["hook_seconds"])
        for name, sentence in failed.items():
            what = {"resume": "", "suspend": "it could not be switched off, it may still run: "}.get(action, "it did not register, and: ")
            take_away(name, what + sentence)
        if action == "fail":
            for name in served:
                if name not in failed and not reason_of(name).startswith(MARK):
                    take_away(name, "it did not register with the controller within ResumeTimeout")


def reason_of(name: str) -> str:
    nodes = parse(scontrol("--oneliner", "show", "node", name) or "")
    return nodes.get(name, {}).get("reason", "")


def parse(text: str) -> dict[str, dict[str, str]]:
    """State, reason and its time by node name from `scontrol --oneliner show nodes`."""
    nodes = {}
    for line in text.splitlines():
        name, state = re.match(r"NodeName=(\S+)", line), re.search(r" State=(\S+)", line)
        reason = re.search(r" Reason=(.*?) \[\S+@([0-9T:-]+)\]", line)
        if name and state:
            why, when = reason.groups() if reason else ("", "")
            nodes[name.group(1)] = {"state": state.group(1), "reason": why, "since": when}
    return nodes


def due(nodes: dict[str, dict[str, str]], now: datetime.datetime, pause: float) -> list[str]:
    """Failed nodes whose pause is over."""
    found = []
    for name, node in nodes.items():
        flags = set(re.split(r"[+*]", node["state"]))
        failed = flags >= {"DOWN", "CLOUD"} and not flags & {"POWER_DOWN", "POWERING_DOWN"} and node["reason"].startswith((MARK, UNSAID))
        if failed and (now - datetime.datetime.fromisoformat(node["since"])).total_seconds() >= pause:
            found.append(name)
    return found


def retry(config: dict) -> None:
    """Switch failed nodes off once more, so that nothing of them is left.

    SLURM takes them for idle after that.
    """
    for name in due(parse(scontrol("--oneliner", "show", "nodes") or ""), datetime.datetime.now(), config["retry_seconds"]):
        say(f"{name} gets another chance")
        scontrol("update", f"NodeName={name}", "State=POWER_DOWN")


def write_to(path: str) -> None:
    """Send all output to the log.

    A full disk or a wrong owner of it is no reason not to start nodes.
    """
    try:
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
    except OSError:
        log = os.open(os.devnull, os.O_WRONLY)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)


def main(words: list[str]) -> int:
    if not (words == ["retry"] or (len(words) == 2 and words[0] in ("resume", "suspend", "fail"))):
        print(__doc__, file=sys.stderr)
        return 2
    with open(CONFIG, encoding="utf-8") as file:
        config = json.loads(file.read().split("\n", 1)[1])  # after the comment
    # slurmctld waits for its programs when it ends and kills the ones that take long: go on without it.
    if words != ["retry"] and os.fork():
        return 0
    if words != ["retry"]:
        os.setsid()
    write_to(config["log"])
    if words == ["retry"]:
        retry(config)
        return 0
    action, expression = words
    # A controller that has just been restarted answers a little later.
    for _attempt in range(10):
        names = scontrol("show", "hostnames", expression)
        if names is not None:
            act(config, action, names.split())
            return 0
        time.sleep(3)
    say(f"{action} {expression} was given up: scontrol does not work here")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
