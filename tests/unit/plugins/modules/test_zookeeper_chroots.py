# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module zookeeper_chroots against a ZooKeeper in memory."""

from __future__ import annotations

import types
import typing as t

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import zookeeper_chroots

SECRETS = {"mesos": "mesos-0123456789abcdef", "marathon": "marathon-0123456789abcdef"}
CHROOTS = [{"path": "/mesos", "user": "mesos", "world": "r"}, {"path": "/marathon", "user": "marathon"}]
OPEN = 31


class NoAuth(Exception):
    """No right to do that."""


class Identity(t.NamedTuple):
    scheme: str
    id: str


class Acl(t.NamedTuple):
    perms: int
    id: Identity

    @property
    def acl_list(self):
        return ["ALL" if self.perms == OPEN else "READ"]


class Server:
    """What is at each path, and who may do all there."""

    def __init__(self):
        self.nodes = {"/": [Acl(OPEN, Identity("world", "anyone"))]}
        self.handler = types.SimpleNamespace(timeout_exception=TimeoutError)
        self.faults = []
        self.users = []

    def connected(self, servers, auth_data):
        assert servers == "192.0.2.1:2181"
        self.users = [credential.split(":")[0] for _scheme, credential in auth_data]
        return self

    def start(self, timeout):
        for fault in self.faults:
            raise fault

    def stop(self):
        pass

    close = stop

    def exists(self, path):
        return True if path in self.nodes else None

    def create(self, path, value, acl):
        self.nodes[path] = acl

    def get_acls(self, path):
        if not any(acl.id.scheme == "world" or acl.id.id.split(":")[0] in self.users for acl in self.nodes[path]):
            raise NoAuth
        return self.nodes[path], None

    def set_acls(self, path, acls):
        self.nodes[path] = acls


@pytest.fixture
def server(monkeypatch):
    made = Server()
    monkeypatch.setattr(zookeeper_chroots, "KAZOO_FAULT", None)
    for name, value in {
        "KazooClient": made.connected,
        "KazooException": RuntimeError,
        "NoAuthError": NoAuth,
        "make_acl": lambda scheme, credential, read: Acl(1, Identity(scheme, credential)),
        "make_digest_acl": lambda user, secret, all: Acl(OPEN, Identity("digest", f"{user}:{hash(secret)}")),
    }.items():
        monkeypatch.setattr(zookeeper_chroots, name, value, raising=False)
    return made


@pytest.fixture
def bring(run, server):
    def call(**arguments):
        options = {"servers": "192.0.2.1:2181", "accounts": SECRETS, "chroots": CHROOTS, "root": "mesos", **arguments}
        result = run(zookeeper_chroots, **options)
        assert not any(secret in result["printed"].split('"invocation"')[0] for secret in SECRETS.values())
        return result

    return call


def test_folders_are_made_and_the_top_is_closed(bring, server):
    result = bring()
    assert result["changed"] and result["paths"] == ["/", "/marathon", "/mesos"]
    assert zookeeper_chroots.shown(server.nodes["/mesos"]) == "anyone READ, mesos ALL"
    assert zookeeper_chroots.shown(server.nodes["/marathon"]) == "marathon ALL"
    assert zookeeper_chroots.shown(server.nodes["/"]) == "anyone READ, mesos ALL"
    assert not bring()["changed"]


def test_check_mode_changes_nothing(bring, server):
    assert bring(_ansible_check_mode=True)["paths"] == ["/", "/marathon", "/mesos"]
    assert [*server.nodes] == ["/"]


def test_a_folder_that_is_open_is_closed(bring, server):
    server.nodes["/marathon"] = [Acl(OPEN, Identity("world", "anyone"))]
    assert "/marathon" in bring()["paths"]
    assert zookeeper_chroots.shown(server.nodes["/marathon"]) == "marathon ALL"


def test_a_folder_of_another_account_is_refused(bring, server):
    server.nodes["/marathon"] = [Acl(OPEN, Identity("digest", "stranger:x"))]
    assert bring()["msg"].startswith("ZooKeeper's /marathon belongs to another account, or has a former secret")


def test_servers_without_a_majority_are_one_sentence(bring, server):
    server.faults = [TimeoutError("Connection time-out")]
    assert bring()["msg"] == "ZooKeeper (192.0.2.1:2181) does not serve: Connection time-out. More than half of its servers must run."


def test_a_missing_secret_is_one_sentence(bring):
    assert bring(accounts={"mesos": SECRETS["mesos"]})["msg"] == "There is no secret for marathon: add it to accounts."


def test_without_kazoo_the_package_is_named(bring, monkeypatch):
    monkeypatch.setattr(zookeeper_chroots, "KAZOO_FAULT", "no module")
    assert "python3-kazoo" in bring()["msg"]
