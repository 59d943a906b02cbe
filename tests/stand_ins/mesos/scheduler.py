# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A framework's side of the scheduler API v1, which the stand-ins of Marathon and Chronos use in place of libmesos."""

from __future__ import annotations

import os
import ssl
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import access
from keeper import Keeper, mesos_leader, place
from options import Refused
from web import call, libprocess, records


class Scheduler:
    """Subscribes at the leading master, and again after each loss. handle is called with each event, in one thread."""

    def __init__(self, master: str, info: dict[str, Any], secret_file: str | None, handle: Callable[[dict[str, Any]], None]) -> None:
        self.info, self.handle = info, handle
        self.stream = ""
        self.secret = ""
        if secret_file:
            try:
                self.secret = Path(secret_file).read_text(encoding="utf-8")
            except OSError as error:
                raise Refused(f"Unable to read mesos_authentication_secret_file {secret_file}: {error.strerror}") from error
        _server, self.context = libprocess(dict(os.environ))
        self.where = place(master, "master is not a valid zk url") if master.startswith("zk://") else None
        self.address = "" if self.where else master.removeprefix("http://").removeprefix("https://")
        self.keeper: Keeper | None = None

    def start(self) -> None:
        threading.Thread(target=self.run, daemon=True).start()

    def master(self) -> str:
        """Address and port of the leading master."""
        if self.where:
            if self.keeper is None:
                self.keeper = Keeper(self.where, candidate=False)
            found = mesos_leader(self.keeper)
            return f"{found['address']['ip']}:{found['port']}" if found else ""
        return self.address

    def headers(self) -> dict[str, str]:
        sent = {"Mesos-Stream-Id": self.stream} if self.stream else {}
        if self.info.get("principal"):
            sent["Authorization"] = access.basic(self.info["principal"], self.secret)
        return sent

    def run(self) -> None:
        while True:
            try:
                self.once()
            except (OSError, ssl.SSLError, ValueError) as error:
                print(f"Lost the leading master: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            self.stream = ""
            time.sleep(1)

    def once(self) -> None:
        """One subscription, until its stream ends."""
        address = self.master()
        if not address:
            return
        self.base = f"http{'s' if self.context else ''}://{address}/api/v1/scheduler"
        body = {"type": "SUBSCRIBE", "subscribe": {"framework_info": self.info}}
        if self.info.get("id"):
            body["framework_id"] = self.info["id"]
        # A heartbeat comes each 15 seconds.
        response = call(self.base, "POST", body, self.headers(), self.context, 40)
        if response.status == 401:
            print("Master refused authentication of the framework", file=sys.stderr, flush=True)
            time.sleep(5)
            return
        if response.status != 200:
            print(f"Master answered {response.status} to SUBSCRIBE: {response.read().decode()[:200]}", file=sys.stderr, flush=True)
            return
        self.stream = response.headers.get("Mesos-Stream-Id", "")
        for event in records(response):
            if event["type"] == "SUBSCRIBED":
                self.info["id"] = event["subscribed"]["framework_id"]
            self.handle(event)
            if event["type"] == "UPDATE" and event["update"]["status"].get("uuid"):
                status = event["update"]["status"]
                told = {"agent_id": status["agent_id"], "task_id": status["task_id"], "uuid": status["uuid"]}
                self.send("ACKNOWLEDGE", {"acknowledge": told})

    def send(self, kind: str, body: dict[str, Any]) -> bool:
        """Send one call; whether the master took it."""
        if not self.stream:
            return False
        full = {"type": kind, "framework_id": self.info["id"], **body}
        try:
            response = call(self.base, "POST", full, self.headers(), self.context, 20)
            text = response.read()
        except (OSError, ssl.SSLError):
            return False
        if response.status != 202:
            print(f"Master answered {response.status} to {kind}: {text.decode()[:200]}", file=sys.stderr, flush=True)
        return response.status == 202

    def launch(self, offers: list[str], tasks: list[dict[str, Any]]) -> bool:
        operations = [{"type": "LAUNCH", "launch": {"task_infos": tasks}}]
        ids = [{"value": key} for key in offers]
        return self.send("ACCEPT", {"accept": {"offer_ids": ids, "operations": operations, "filters": {"refuse_seconds": 1.0}}})

    def decline(self, offer: str, seconds: float) -> None:
        self.send("DECLINE", {"decline": {"offer_ids": [{"value": offer}], "filters": {"refuse_seconds": seconds}}})

    def kill(self, task: str, agent: str) -> None:
        self.send("KILL", {"kill": {"task_id": {"value": task}, "agent_id": {"value": agent}}})
