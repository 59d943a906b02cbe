# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Requests over a real socket: answers, refusals, operations in the background, and an LXD that is silent."""

from __future__ import annotations

import os
import threading
import time

import pytest
from fake_lxd import FakeLXD
from nova_lxd.client import Client
from nova_lxd.errors import LXDError, LXDUnavailable


def test_reads_what_lxd_has(client: Client) -> None:
    assert client.get()["environment"]["server_version"] == "5.0.2"


def test_a_refusal_has_lxds_code_and_words(client: Client) -> None:
    with pytest.raises(LXDError, match="LXD says: Instance not found") as caught:
        client.get("instances", "missing")
    assert caught.value.code == 404


def test_quotes_names(lxd: FakeLXD, client: Client) -> None:
    with pytest.raises(LXDError):
        client.get("instances", "a/b?c")
    assert lxd.requests == [("GET", "/1.0/instances/a%2Fb%3Fc")]


def test_waits_for_an_operation(lxd: FakeLXD, client: Client) -> None:
    lxd.add("one", {})
    lxd.operation_seconds = 0.3
    client.request("DELETE", ("instances", "one"))
    assert lxd.instances == {}


def test_asks_again_while_an_operation_runs(lxd: FakeLXD) -> None:
    lxd.add("one", {})
    lxd.operation_seconds = 2.5
    Client(lxd.path, timeout=2, patience=20).request("DELETE", ("instances", "one"))
    assert lxd.instances == {}
    assert lxd.asked("GET", "/wait") > 1, "one request was silent for longer than the time limit"


def test_a_failed_operation_is_an_error(lxd: FakeLXD, client: Client) -> None:
    lxd.add("one", {})
    lxd.failures.append(("PUT", "/state", "Failed to run: forkstart"))
    with pytest.raises(LXDError, match="Failed to run: forkstart") as caught:
        client.request("PUT", ("instances", "one", "state"), {"action": "start", "timeout": -1, "force": False})
    assert caught.value.code == 400
    assert lxd.instances["one"]["status"] == "Stopped"


def test_an_operation_that_does_not_end_is_not_waited_for(lxd: FakeLXD) -> None:
    lxd.add("one", {})
    lxd.operation_seconds = 30
    begin = time.monotonic()
    with pytest.raises(LXDUnavailable, match="did not end the operation 'Deleting instance' in 1 seconds"):
        Client(lxd.path, timeout=5, patience=1).request("DELETE", ("instances", "one"))
    assert time.monotonic() - begin < 10


def test_an_operation_that_lxd_forgot_is_neither_done_nor_missing(lxd: FakeLXD, client: Client) -> None:
    lxd.add("one", {})
    lxd.before.append(("GET", "/wait", lxd.operations.clear))
    with pytest.raises(LXDUnavailable, match="forgot the operation"):
        client.request("DELETE", ("instances", "one"))


def test_a_silent_lxd_is_left_after_the_time_limit(lxd: FakeLXD) -> None:
    lxd.deaf = True
    begin = time.monotonic()
    with pytest.raises(LXDUnavailable, match="did not answer in 1 seconds"):
        Client(lxd.path, timeout=1).get()
    assert time.monotonic() - begin < 5


def test_a_stopped_lxd_is_unavailable(lxd: FakeLXD, client: Client) -> None:
    os.unlink(lxd.path)
    with pytest.raises(LXDUnavailable, match=r"does not answer: .*No such file"):
        client.get()


def test_a_socket_of_others_is_said(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(connection: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("nova_lxd.client._Connection.connect", refuse)
    with pytest.raises(LXDUnavailable, match="not in LXD's group"):
        client.get()


def test_an_lxd_that_ends_within_a_request_is_unavailable(lxd: FakeLXD, client: Client) -> None:
    lxd.deaf = True
    threading.Timer(0.3, lxd.released.set).start()
    with pytest.raises(LXDUnavailable, match="does not answer"):
        client.get()


def test_what_is_not_json_is_an_error(lxd: FakeLXD, client: Client) -> None:
    lxd.add("one", {})
    lxd.consoles["one"] = b"<html>"
    with pytest.raises(LXDError, match="not JSON"):
        client.get("instances", "one", "console")


def test_reads_bytes(lxd: FakeLXD, client: Client) -> None:
    lxd.add("one", {})
    lxd.consoles["one"] = b"booted\n"
    assert client.read("instances", "one", "console") == b"booted\n"


def test_a_refused_stream_is_an_error(client: Client) -> None:
    with pytest.raises(LXDError) as caught:
        client.read("images", "0" * 64, "export")
    assert caught.value.code == 404
