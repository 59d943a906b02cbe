# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The real ZooKeeper, as Mesos, Marathon and Chronos use it: an ACL by digest, an election, a little state."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from options import Refused

# mesosphere/marathon ZookeeperConf.ZkUrlPattern
URL = re.compile(r"^zk://(?:([^/:]+):([^@]+)@)?([A-Za-z0-9.-]+(?::\d+)?(?:,[A-Za-z0-9.-]+(?::\d+)?)*)((?:/[^/]+)*)/?$")


@dataclass
class Place:
    """A path in ZooKeeper, and who asks for it."""

    hosts: str
    path: str
    user: str | None = None
    password: str | None = None


def _end(failed: threading.ExceptHookArgs) -> None:
    """The end of a thread is that of the daemon."""
    traceback.print_exception(failed.exc_type, failed.exc_value, failed.exc_traceback)
    os._exit(1)


def place(url: str, refusal: str) -> Place:
    """Parse zk://USER:PASSWORD@HOST:PORT,.../PATH."""
    match = URL.match(url)
    if not match:
        raise Refused(refusal)
    user, password, hosts, path = match.groups()
    return Place(hosts, path or "/", user, password)


class Keeper:
    """A session. A candidate that loses it ends at once, with its own code; who only looks for a leader goes on trying."""

    def __init__(self, where: Place, session: float = 10, code: int = 1, code_first: int = 1, candidate: bool = True) -> None:
        from kazoo.client import KazooClient, KazooState
        from kazoo.security import make_acl, make_digest_acl

        self.where = where
        self.acl = None
        self.readable = None
        auth = []
        if where.user:
            auth = [("digest", f"{where.user}:{where.password}")]
            mine = make_digest_acl(where.user, where.password, all=True)
            self.acl = [mine]
            self.readable = [mine, make_acl("world", "anyone", read=True)]
        # As Curator does, a question waits while another server of ZooKeeper becomes the leader. The end of a session ends that.
        retry = {"max_tries": -1 if candidate else 0, "max_delay": 1}
        self.client = KazooClient(hosts=where.hosts, timeout=session, auth_data=auth, command_retry=retry)
        # Half a daemon would look like a whole one. systemd starts it again.
        threading.excepthook = _end

        def listen(state: str) -> None:
            if state == KazooState.LOST:
                print("ZooKeeper session expired; committing suicide!", file=sys.stderr, flush=True)
                os._exit(code)

        if not candidate:
            self.client.start_async()
            return
        try:
            self.client.start(timeout=60)
        except Exception as error:
            raise Refused(f"Could not connect to ZooKeeper at {where.hosts}: {error}", code_first) from error
        self.client.add_listener(listen)

    def ensure(self, path: str, everybody_reads: bool = False) -> None:
        """Make a path; one that another user owns is a refusal."""
        from kazoo.exceptions import NoAuthError

        try:
            self.client.ensure_path(path, acl=self.readable if everybody_reads else self.acl)
            self.client.get_children(path)
        except NoAuthError as error:
            raise Refused(f"Failed to create znode '{path}' in ZooKeeper: not authenticated") from error

    def join(self, prefix: str, data: str) -> str:
        """Become a candidate: an ephemeral node with a number. Mesos lets everybody read it."""
        acl = self.readable if prefix.startswith("json.info_") else self.acl
        path: str = self.client.create(f"{self.where.path}/{prefix}", data.encode(), acl=acl, ephemeral=True, sequence=True)
        return path.rsplit("/", 1)[1]

    def members(self, folder: str, marked: str) -> list[str]:
        """Names of the candidates in a folder, the leader first: the lowest number leads."""
        from kazoo.exceptions import NoNodeError

        try:
            names = [name for name in self.client.retry(self.client.get_children, folder) if marked in name]
        except NoNodeError:
            names = []
        return sorted(names, key=lambda name: name[-10:])

    def watch(self, folder: str, marked: str, changed: Callable[[str | None], None]) -> None:
        """Call changed with the leader's node, now and after each change."""
        last: list[Any] = [0]

        def children(_names: list[str]) -> None:
            names = self.members(folder, marked)
            leader = names[0] if names else None
            if last[0] != leader:
                last[0] = leader
                changed(leader)

        self.client.ChildrenWatch(folder, children)

    def text(self, path: str) -> str:
        """Of a node; empty if there is none."""
        from kazoo.exceptions import NoNodeError

        try:
            return str(self.client.retry(self.client.get, path)[0].decode())
        except NoNodeError:
            return ""

    def read(self, path: str) -> Any:
        """JSON of a node; None if there is none."""
        text = self.text(path)
        return json.loads(text) if text else None

    def write(self, path: str, value: Any) -> None:
        """Keep JSON in a node, which only its owner reads."""
        from kazoo.exceptions import NodeExistsError

        data = json.dumps(value).encode()
        if not self.client.retry(self.client.exists, path):
            # It exists after an attempt of which the answer was lost.
            with contextlib.suppress(NodeExistsError):
                self.client.retry(self.client.create, path, data, acl=self.acl, makepath=True)
        self.client.retry(self.client.set, path, data)


def mesos_leader(keeper: Keeper) -> dict[str, Any] | None:
    """What the leading master says of itself: address, hostname, id, pid, version. None while ZooKeeper does not serve, too."""
    from kazoo.exceptions import KazooException, NoAuthError

    try:
        names = keeper.members(keeper.where.path, "json.info_")
        info = keeper.read(f"{keeper.where.path}/{names[0]}") if names else None
    except NoAuthError:
        print("Failed to detect a master: not authenticated", file=sys.stderr, flush=True)
        os._exit(1)
    except KazooException as error:
        print(f"Lost connection to ZooKeeper, attempting to reconnect ... {type(error).__name__}", file=sys.stderr, flush=True)
        return None
    return dict(info) if info else None
