# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The real master lets in whom the roles' files let in, and no others."""

from __future__ import annotations

import json

AGENT = "agent registered"


def test_agent_and_framework_register_with_their_secrets(mesos):
    mesos.start()
    mesos.until("REGISTERED")
    assert [one["hostname"] for one in mesos.agents()] == ["gpu1"]
    log = mesos.log()
    assert "Master only allowing authenticated frameworks to register" in log
    assert "Master only allowing authenticated agents to register" in log
    state = json.loads(mesos.ask("GET", "/master/state")[1])
    assert [one["principal"] for one in state["frameworks"]] == ["marathon"]


def test_a_framework_with_a_wrong_secret_is_refused(mesos):
    mesos.start(password="wrong")
    mesos.until("ERROR Master refused authentication")
    mesos.agents()
    assert json.loads(mesos.ask("GET", "/master/state")[1])["frameworks"] == []


def test_a_principal_that_is_no_framework_is_refused(mesos):
    mesos.start(principal="agents")
    said = mesos.until("ERROR", "REGISTERED")
    assert said == "ERROR", mesos.log()
    assert "Not authorized to" in mesos.log()
