# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The collection's own client against the real master."""

from __future__ import annotations

import program
import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos import agents
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos.api import Masters
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused

UNKNOWN = {"value": "00000000-0000-0000-0000-000000000000-S0"}


@pytest.fixture(scope="module")
def running(container):
    container.forget()
    container.start()
    container.until("REGISTERED")
    container.agents()
    return container


def client(running, principal: str = "operator", secret: str | None = None) -> Masters:
    address = f"{running.address}:{program.PORT}"
    return Masters(
        [address], principal, program.secret(principal) if secret is None else secret, names={"gpu1": running.address}, patience=10
    )


def own(masters: Masters) -> dict:
    found = agents.agent_of(masters.get("/slaves"), "gpu1", program.PORT)
    assert found
    return found


def test_an_agent_is_closed_drained_and_opened(running):
    masters = client(running)
    identity = {"value": own(masters)["id"]}
    assert not agents.is_closed(own(masters))
    masters.call("DEACTIVATE_AGENT", agent_id=identity)
    assert agents.is_closed(own(masters)) and not agents.is_draining(own(masters))
    assert agents.kept(own(masters), "") != ""
    masters.call("REACTIVATE_AGENT", agent_id=identity)
    assert not agents.is_closed(own(masters))
    masters.call("DRAIN_AGENT", agent_id=identity, max_grace_period={"seconds": 30})
    closed = own(masters)
    assert agents.is_closed(closed) and closed["drain_info"]["config"]["max_grace_period"] == {"nanoseconds": 30 * 10**9}
    # It has no task, so it is drained at once; only then may it be opened.
    running.wait(lambda: not agents.is_draining(own(masters)))
    masters.call("REACTIVATE_AGENT", agent_id=identity)
    assert not agents.is_closed(own(masters))


def test_what_the_agent_offers_is_what_was_planned(running):
    masters = client(running)
    expected = [{"host": "gpu1", "name": "gpu1", "gpus": 0}]
    assert agents.offers(masters.get("/slaves"), expected, program.PORT)["wrong"] == []
    assert agents.offers(masters.get("/slaves"), [{"host": "gpu1", "name": "gpu1", "gpus": 2}], program.PORT)["wrong"] != []
    assert agents.tasks_on(masters.get("/state"), own(masters), "all") == []
    assert masters.get("/metrics/snapshot")["master/slaves_active"] == 1


@pytest.mark.parametrize("kind", ["DEACTIVATE_AGENT", "REACTIVATE_AGENT", "DRAIN_AGENT", "MARK_AGENT_GONE"])
def test_an_agent_that_is_not_there_is_an_error(running, kind):
    with pytest.raises(Refused, match=r"with the error 40[04]"):
        client(running).call(kind, agent_id=UNKNOWN)


def test_who_may_not(running):
    with pytest.raises(Refused, match="does not know operator with this secret"):
        client(running, secret="wrong").get("/slaves")
    with pytest.raises(Refused, match="does not let marathon use"):
        client(running, "marathon").call("DEACTIVATE_AGENT", agent_id=UNKNOWN)
    assert client(running, "marathon").get("/state")["frameworks"] == []
