# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The stand-in for OpenNebula's daemon on this machine's loopback, and modules that are run against it."""

from __future__ import annotations

import importlib.util
import sys
import threading
from pathlib import Path

import pytest
from ansible_collections.deephdc.accelerators.tests.unit.plugins.modules.opennebula.front_end import PASSWORD

STAND_IN = Path(__file__).resolve().parents[4] / "stand_ins" / "opennebula_api.py"


@pytest.fixture(scope="module")
def stand_in():
    spec = importlib.util.spec_from_file_location("opennebula_api", STAND_IN)
    sys.modules["opennebula_api"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def site(stand_in, tmp_path):
    """A front end with two hosts. site.oned is what is behind it."""

    def start(**options):
        server = stand_in.Server(stand_in.Oned(administrator=f"oneadmin:{PASSWORD}", **options))
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        servers.append(server)
        server.auth_file = tmp_path / "one_auth"
        server.auth_file.write_text(f"oneadmin:{PASSWORD}\n")
        server.auth_file.chmod(0o600)
        for name in ("kvm1", "kvm2"):
            server.oned.add_host(name, 'HYPERVISOR="kvm"')
        return server

    servers = []
    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def front(site):
    return site()


@pytest.fixture
def call(run, front):
    """call(module, option=value, ...) against the front end, twice: the second time must change nothing, check mode neither."""

    def once(module, server=front, **options):
        result = run(module, endpoint=server.url, auth_file=str(server.auth_file), **options)
        assert PASSWORD not in result["printed"]
        return result

    def writes(server):
        return [method for method in server.oned.calls if method.rpartition(".")[2] not in ("info", "version", "config")]

    def stable(module, server=front, **options):
        before = writes(server)
        predicted = once(module, server, _ansible_check_mode=True, _ansible_diff=True, **options)
        assert writes(server) == before
        result = once(module, server, _ansible_diff=True, **options)
        if result.get("failed"):
            assert predicted["failed"] and predicted["msg"] == result["msg"] and writes(server) == before
        else:
            assert predicted["diff"] == result["diff"] and predicted["changed"] == result["changed"]
            assert bool(writes(server) != before) == result["changed"]
            assert not once(module, server, **options)["changed"]
        return result

    return stable
