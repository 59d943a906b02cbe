#!/usr/bin/python3
# Made by deephdc.accelerators: changes are lost with its next run.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Run a command once on a Mesos cluster, with GPUs, as an application of Marathon, and wait for its end.

Chronos as it was released can't ask for GPUs. Marathon can, but it starts an application again when it ends. So the application gets a
pause of a day before its next start, and is removed as soon as it has ended once.

The status is 0 if the command succeeded, 1 if it failed, 2 if it could not be run, 124 after --timeout. Its output stays in its sandbox.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import ssl
import sys
import time
import typing as t
import urllib.error
import urllib.request
import uuid
from pathlib import Path

# No second start before this, in seconds: whoever waits has removed it by then.
PAUSE = 86400
Ask = t.Callable[[str, str, t.Any], t.Any]


class Refused(Exception):
    """Why a command can't be run, one sentence."""


def application(name: str, wanted: argparse.Namespace) -> dict[str, t.Any]:
    """Return what Marathon is given.

    GPUs need Mesos' own containerizer, also for an image of Docker.
    """
    found: dict[str, t.Any] = {
        "id": f"/batch/{name}",
        "cmd": wanted.command,
        "instances": 1,
        "cpus": wanted.cpus,
        "mem": wanted.mem,
        "gpus": wanted.gpus,
        "portDefinitions": [],
        "backoffSeconds": PAUSE,
        "maxLaunchDelaySeconds": PAUSE,
        # A task that may still run elsewhere is not started a second time.
        "unreachableStrategy": "disabled",
    }
    if wanted.user:
        found["user"] = wanted.user
    if wanted.image:
        found["container"] = {"type": "MESOS", "docker": {"image": wanted.image}}
    return found


def state(app: t.Mapping[str, t.Any], waiting: t.Sequence[t.Mapping[str, t.Any]]) -> tuple[str, str]:
    """Return what became of an application: its state, and a sentence.

    The state is waiting, running, failed or finished.

    :param app: as /v2/apps/ID has it. waiting: the entries of /v2/queue.
    """
    tasks = app.get("tasks") or []
    if tasks:
        here = tasks[0]
        return ("running" if here.get("state") == "TASK_RUNNING" else "waiting"), f"on {here.get('host')}"
    pauses = [entry.get("delay") or {} for entry in waiting if (entry.get("app") or {}).get("id") == app["id"]]
    # Before its first task there is no pause.
    if not pauses or not any((pause.get("timeLeftSeconds") or 0) > 0 for pause in pauses):
        return "waiting", "for a host that has what it asks for"
    failure = app.get("lastTaskFailure")
    if failure:
        return "failed", f"{failure.get('state')} on {failure.get('host')}: {failure.get('message') or 'no reason given'}"
    return "finished", ""


def client(url: str, credentials: str, authority: str | None) -> Ask:
    """A function that asks Marathon."""
    header = "Basic " + base64.b64encode(credentials.encode()).decode()
    context = ssl.create_default_context(cafile=authority)
    # Since 3.13 Python refuses certificates that Java and curl take.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT

    def ask(method: str, path: str, body: t.Any = None) -> t.Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": header, "Content-Type": "application/json"}
        request = urllib.request.Request(url.rstrip("/") + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30, context=context) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            text = " ".join(error.read().decode("utf-8", "replace").split())[:300]
            raise Refused(f"Marathon answered {error.code} to {method} {path}: {text}") from error

    return ask


def run(ask: Ask, app: dict[str, t.Any], seconds: float, pause: float, say: t.Callable[[str], None]) -> int:
    """Start the application, wait until it ended once, remove it, return the status."""
    ask("POST", "/v2/apps", app)
    end = time.monotonic() + seconds if seconds else None
    last = ("", "")
    try:
        while end is None or time.monotonic() < end:
            try:
                now = state(ask("GET", f"/v2/apps{app['id']}", None)["app"], ask("GET", "/v2/queue", None)["queue"])
            except (OSError, Refused) as error:
                # The leader may be another one in a moment.
                now = ("unknown", str(error))
            if now != last:
                say(f"{app['id']} is {now[0]} {now[1]}".rstrip())
                last = now
            if now[0] in ("failed", "finished"):
                return int(now[0] == "failed")
            time.sleep(pause)
        say(f"{app['id']} did not end in {seconds:g} seconds.")
        return 124
    finally:
        ask("DELETE", f"/v2/apps{app['id']}?force=true", None)


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", required=True, help="Marathon, such as https://m1.example.org:8443")
    parser.add_argument("--credentials", required=True, type=Path, help="file with USER:PASSWORD")
    parser.add_argument("--ca", help="certificate of the authority, PEM")
    parser.add_argument("--name", default="job", help="beginning of its name: small letters, digits and '-'")
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--cpus", type=float, default=1.0)
    parser.add_argument("--mem", type=float, default=1024.0, help="MiB")
    parser.add_argument("--user", help="account that it runs as")
    parser.add_argument("--image", help="image of a container")
    parser.add_argument("--timeout", type=float, default=0.0, help="seconds; 0 waits for ever")
    parser.add_argument("command", help="one argument, for a shell")
    return parser.parse_args(words)


def main() -> int:
    wanted = arguments()
    try:
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", wanted.name):
            raise Refused(f"The name {wanted.name!r} is invalid: use small letters, digits and '-', such as train-1.")
        ask = client(wanted.url, wanted.credentials.read_text(encoding="utf-8").strip(), wanted.ca)
        app = application(f"{wanted.name}-{uuid.uuid4().hex[:12]}", wanted)
        return run(ask, app, wanted.timeout, 2.0, lambda text: print(text, file=sys.stderr, flush=True))
    except (OSError, Refused) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
