# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# The role marathon_lb installs it on balancers with the files beside it whose names begin with balancer_.
"""The program: keep HAProxy on what Marathon's applications ask for.

It reads the whole list of applications after each event, after each end of the stream of events, and once a minute. Without an answer that
can be used it keeps the last configuration and says so, in its log, its status and its report.
"""

from __future__ import annotations

import ipaddress
import json
import os
import socket
import sys
import threading
import time
import traceback
import typing as t

from . import balancer_apps, balancer_claims, balancer_conf, balancer_haproxy, balancer_marathon
from .balancer_labels import Problem

TRIES = 10  # services that are left out one after the other because HAProxy does not take their lines
SHOWN = 2000  # problems in a report: each has an application behind it that can be looked up


def log(text: str, to: t.Any = None) -> None:
    """One line for the journal, or for a person. None is the standard output of now."""
    print(text, file=to, flush=True)  # pylint: disable=ansible-bad-function  # because this is a program, no module


def notify(text: str) -> None:
    """Say something to systemd, if it listens."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            client.connect(f"\0{path[1:]}" if path.startswith("@") else path)
            client.sendall(text.encode())
    except OSError:
        pass


def clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class Program:
    """What one reading of Marathon leads to."""

    def __init__(
        self,
        settings: t.Mapping[str, t.Any],
        marathon: balancer_marathon.Marathon,
        control: balancer_haproxy.HAProxy,
        resolve: t.Callable[[str], str],
    ) -> None:
        self._marathon = marathon
        self._control = control
        self._resolve = resolve
        self.state = str(settings["state"])
        self.balancer = balancer_conf.Balancer(
            state=self.state,
            runtime=settings["runtime"],
            address=settings["address"],
            http=settings["http_port"],
            https=settings["https_port"],
            tls=settings["tls"],
            stats=settings["stats_port"],
            trusted=tuple(settings["trusted_proxies"]),
            headers=tuple(settings["front_headers"]),
            connections=settings["connections"],
            timeout=settings["timeout"],
            drain=settings["drain_seconds"],
        )
        self.site = balancer_apps.Site(
            groups=tuple(settings["groups"]),
            networks=tuple(ipaddress.ip_network(one) for one in settings["networks"]),
            health=settings["health"],
            tls=bool(settings["tls"]),
        )
        taken = {settings["http_port"], settings["stats_port"], *([settings["https_port"]] if settings["tls"] else [])}
        self.ports = balancer_claims.Ports(
            settings["first_port"], settings["last_port"], frozenset(settings["also_ports"]), frozenset(taken)
        )
        self.reserved = [balancer_claims.Reserved(one["claim"], one["apps"]) for one in settings["reserved"]]
        self.claims: t.Dict[str, str] = {}
        self.alive: t.Set[str] = set()
        self.problems: t.List[Problem] = []
        self.published: t.List[balancer_apps.Service] = []
        self.away = "it was not asked yet"
        self.since = time.time()
        self.failed = ""
        self._remember()

    def _remember(self) -> None:
        """Read who had what before this program was started."""
        try:
            record = json.loads(balancer_haproxy.get(f"{self.state}/record.json") or "{}")
            self.claims = {str(claim): str(owner) for claim, owner in record.get("claims", {}).items()}
            self.alive = {str(task) for task in record.get("alive", [])}
        except (ValueError, AttributeError, TypeError):
            log(f"{self.state}/record.json can't be read: ports and names go to the first application by name")

    def begin(self) -> None:
        """Make sure that there is a configuration with which HAProxy starts.

        :raises Failed: the site's own settings give none.
        """
        if not balancer_haproxy.get(self._control.configuration):
            self._bring([])

    def refresh(self) -> None:
        """Read Marathon and bring HAProxy to it.

        Whatever goes wrong, the last configuration stays.
        """
        try:
            apps = self._marathon.apps()
        except balancer_marathon.Away as error:
            if not self.away or self.away == "it was not asked yet":
                self.since = time.time()
            if self.away != str(error):
                log(f"Marathon gives no list of applications, the last configuration stays: {error}")
            self.away = str(error)
        else:
            if self.away:
                self.since = time.time()
                log("Marathon answers")
            self.away = ""
            self._apply(apps)
        self._report()

    def _apply(self, apps: t.Sequence[t.Any]) -> None:
        failed, problems = "", self.problems
        try:
            reading = balancer_apps.read(apps, self.site, self._resolve, self.alive)
            troubled = {problem.app for problem in reading.problems}
            settled = balancer_claims.settle(reading.services, self.ports, self.claims, reading.present, troubled, self.reserved)
            self.alive, self.claims = reading.alive, settled.claims
            record = {"claims": self.claims, "alive": sorted(self.alive)}
            balancer_haproxy.put(f"{self.state}/record.json", json.dumps(record, indent=1, sort_keys=True))
            problems = [*reading.problems, *settled.problems]
            busy = self._control.others({service.port for service in settled.services}, self.balancer.address)
            for service in settled.services:
                if service.port in busy:
                    sentence = f"port {service.index} is not published: another process of the balancer has port {service.port}"
                    problems.append(Problem(service.app, "", sentence))
            self.published = self._bring([one for one in settled.services if one.port not in busy], problems)
        except balancer_haproxy.Failed as error:
            failed = str(error)
        except Exception as error:  # an answer that no one has thought of must not end the balancer's care for all others
            traceback.print_exc()
            failed = f"the applications could not be read ({type(error).__name__}), the last configuration stays"
        if failed and failed != self.failed:
            log(failed)
        known = set(self.problems)
        for problem in problems:
            if problem not in known:
                log(f"{problem.app}: {problem.sentence}")
        self.failed, self.problems = failed, problems

    def _bring(
        self, services: t.Sequence[balancer_apps.Service], problems: t.Optional[t.List[Problem]] = None
    ) -> t.List[balancer_apps.Service]:
        """Bring HAProxy to the services; those whose lines it does not take are left out.

        :returns: the services that it has now.
        :raises Failed: it takes none.
        """
        left = list(services)
        for _try in range(TRIES):
            written = balancer_conf.write(left, self.balancer)
            on_disk = balancer_haproxy.get(self._control.configuration) == written.text
            if on_disk and self._control.running() in ("", written.digest):
                return left
            output = self._control.check(written)
            if not output:
                self._control.take(written)
                log(f"HAProxy has {len(left)} ports of applications")
                return left
            bad = balancer_conf.guilty(output, written)
            if not bad:
                alerts = [line for line in output.splitlines() if "ALERT" in line] or output.splitlines()
                raise balancer_haproxy.Failed(f"haproxy -c refuses the configuration: {alerts[0][:300]}")
            if problems is not None:
                sentence = "is not published: HAProxy does not take its lines"
                problems.extend(Problem(one.app, "", f"port {one.index} {sentence}") for one in left if one.name in bad)
            left = [one for one in left if one.name not in bad]
        raise balancer_haproxy.Failed(f"haproxy -c refuses the configuration, also without {len(services) - len(left)} of its ports")

    def status(self) -> str:
        """One sentence for systemd and for a person."""
        apps = {service.app for service in self.published}
        refused = f", {len(self.problems)} problems in the report" if self.problems else ""
        text = f"{len(self.published)} ports of {len(apps)} applications are published{refused}."
        if self.away:
            text += f" Marathon gives no list of applications since {clock(self.since)}, the last configuration stays: {self.away}."
        return text + (f" {self.failed}." if self.failed else "")

    def _report(self) -> None:
        published = [
            {
                "app": service.app,
                "port": service.port,
                "mode": service.mode,
                "vhosts": list(service.options.vhosts),
                "paths": list(service.options.paths),
                "servers": len(service.servers),
                "draining": sum(server.draining for server in service.servers),
            }
            for service in self.published
        ]
        report = {
            "time": clock(time.time()),
            "status": self.status(),
            "good": not (self.away or self.failed),
            "marathon": {"answers": not self.away, "since": clock(self.since), "sentence": self.away},
            "haproxy": {"runs": self._control.running(), "sentence": self.failed},
            "published": published,
            "refused": [problem._asdict() for problem in self.problems[:SHOWN]],
            "more": max(0, len(self.problems) - SHOWN),
        }
        balancer_haproxy.put(f"{self.state}/report.json", json.dumps(report, indent=1))
        notify(f"STATUS={self.status()[:1000]}\nWATCHDOG=1")


def listen(marathon: balancer_marathon.Marathon, changed: threading.Event, timeout: float, pause: float = 1.0) -> None:
    """Set changed after each event, and after each beginning and end of the stream.

    Events may have been missed in between.
    """
    wait, said = pause, ""
    while True:
        began = time.monotonic()
        try:
            stream = marathon.events(timeout)
            changed.set()
            try:
                for is_event in stream.lines():
                    if is_event:
                        changed.set()
            finally:
                stream.close()
            ended = "the stream of events ended"
        except balancer_marathon.Away as error:
            ended = str(error)
        if ended != said:
            log(f"Events of Marathon: {ended}; all applications are read again")
            said = ended
        changed.set()
        wait = pause if time.monotonic() - began > 30 else min(30.0, wait * 2)
        time.sleep(wait)


def settings_of(path: str) -> t.Dict[str, t.Any]:
    with open(path, encoding="utf-8") as file:
        return dict(json.load(file))


def connect(settings: t.Mapping[str, t.Any]) -> balancer_marathon.Marathon:
    credential = ""
    if settings["credential_file"]:
        with open(settings["credential_file"], encoding="utf-8") as file:
            credential = file.read().strip()
    return balancer_marathon.Marathon(settings["marathon"], credential, settings["ca_file"])


def seen(settings: t.Mapping[str, t.Any]) -> t.Tuple[bool, str]:
    """Whether all is well, and the status: what a person or a monitoring asks."""
    path = f"{settings['state']}/report.json"
    try:
        report = json.loads(balancer_haproxy.get(path))
        age = time.time() - os.stat(path).st_mtime
        good, status, runs = bool(report["good"]), str(report["status"]), str(report["haproxy"]["runs"])
    except (OSError, ValueError, KeyError, TypeError):
        return False, "marathon-lb.service has written no report yet."
    if age > 3 * settings["interval_seconds"] + 120:
        return False, f"The last report of marathon-lb.service is {age:.0f} seconds old: {status}"
    return (good and bool(runs)), status if runs else f"HAProxy does not run. {status}"


def main(arguments: t.Sequence[str]) -> int:
    """usage: marathon_lb SETTINGS [--status | --once]"""
    settings = settings_of(arguments[0])
    if "--status" in arguments:
        good, status = seen(settings)
        log(status)
        return 0 if good else 1
    if os.geteuid() != os.stat(settings["state"]).st_uid:  # HAProxy could not read what root writes
        log(f"Run this as the owner of {settings['state']}, or with --status.", sys.stderr)
        return 1
    try:
        marathon, events = connect(settings), connect(settings)
    except (OSError, ValueError) as error:
        log(f"{arguments[0]}: {balancer_marathon.sentence(error)}", sys.stderr)
        return 1
    control = balancer_haproxy.HAProxy(settings["state"], settings["runtime"])
    program = Program(settings, marathon, control, balancer_marathon.Resolver())
    try:
        program.begin()
    except balancer_haproxy.Failed as error:
        log(str(error), sys.stderr)
        return 1
    # HAProxy's unit waits for this one: now there is a configuration for it.
    notify("READY=1")
    if "--once" in arguments:
        program.refresh()
        return 1 if program.away or program.failed else 0
    changed = threading.Event()
    changed.set()
    threading.Thread(target=listen, args=(events, changed, settings["event_seconds"]), daemon=True).start()
    while True:
        changed.wait(settings["interval_seconds"])
        changed.clear()
        program.refresh()
        # Many events come at once, and each reload leaves a worker until its connections have ended.
        time.sleep(settings["reload_seconds"])
