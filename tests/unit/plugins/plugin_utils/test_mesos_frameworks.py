# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Flags, secrets and files of Marathon and Chronos."""

from __future__ import annotations

import base64
import hashlib
import struct
from pathlib import Path

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import chronos, environment, frameworks, marathon

# What names alone would not show: scripts/narrow.py.
READS = ("tests/data/mesos",)
DATA = Path(__file__).resolve().parents[3] / "data/mesos"
PEM = "-----BEGIN CERTIFICATE-----\nMAAB\n-----END CERTIFICATE-----\n"
SECRETS = {name: f"{name}-0123456789" for name in ("marathon", "chronos", "zookeeper_marathon", "zookeeper_chronos")}
SECRETS |= {"marathon_http": "marathon_http-0123456789", "chronos_http": "chronos_http-0123456789"}
PLAN = {
    "names": {"m1": "m1.example.org"},
    "addresses": {"m1": "192.0.2.1"},
    "ports": {"marathon": 8443, "chronos": 4443},
    "tls": True,
    "ca": PEM,
    "users": ["nobody", "analysis"],
    "sources": {"marathon": {"version": "1.10.26"}, "chronos": {"version": "3.0.2"}},
    "zookeeper": {"url": "zk://192.0.2.1:2181,192.0.2.2:2181/mesos", "clients": "192.0.2.1:2181,192.0.2.2:2181"},
}
FRAMEWORKS = {"marathon": marathon, "chronos": chronos}


def written(name, plan=None, **more):
    return {
        one["path"]: base64.b64decode(one["secret_base64"])
        for one in FRAMEWORKS[name].files(PLAN if plan is None else plan, SECRETS, "m1", **more)
    }


def flags_of(text):
    return {line.split()[0][2:] for line in text.decode().splitlines()}


@pytest.mark.parametrize("name", sorted(FRAMEWORKS))
@pytest.mark.parametrize("tls", [True, False])
def test_each_flag_and_variable_is_in_the_sources(name, tls):
    known = yaml.safe_load((DATA / f"{name}.yml").read_text(encoding="utf-8"))
    libprocess = yaml.safe_load((DATA / "libprocess.yml").read_text(encoding="utf-8"))
    files = written(name, {**PLAN, "tls": tls})
    flags = flags_of(files[f"/etc/{name}/arguments"])
    assert flags <= {flag for flag, entry in known.items() if not entry.get("deprecated") and not entry.get("until")}
    variables = environment.read(files[f"/etc/{name}/environment"].decode())
    assert set(variables) - {"JAVA_OPTS", "MESOS_NATIVE_JAVA_LIBRARY"} <= set(known) | set(libprocess)


def test_an_old_marathon_is_given_no_flag_that_came_later():
    known = yaml.safe_load((DATA / "marathon.yml").read_text(encoding="utf-8"))
    old = {**PLAN, "sources": {"marathon": {"version": "1.5.6"}}}
    assert flags_of(written("marathon", old)["/etc/marathon/arguments"]) <= {
        flag for flag, entry in known.items() if not entry.get("since")
    }


@pytest.mark.parametrize(
    ("version", "keeps"),
    [((1, 5, 6), False), ((1, 5, 15), True), ((1, 6, 322), False), ((1, 6, 352), True), ((1, 10, 26), True), ((), False)],
)
def test_which_marathon_keeps_gpus_for_those_who_ask(version, keeps):
    assert marathon.keeps_gpus(version) is keeps


@pytest.mark.parametrize("name", sorted(FRAMEWORKS))
def test_no_secret_is_in_the_plan(name):
    flags = FRAMEWORKS[name].flags(PLAN, "m1")
    assert not [value for value in flags.values() for secret in SECRETS.values() if secret in value]
    assert flags["master"] == "zk://192.0.2.1:2181,192.0.2.2:2181/mesos"


@pytest.mark.parametrize("name", sorted(FRAMEWORKS))
def test_files_are_for_the_account_alone(name):
    for one in FRAMEWORKS[name].files(PLAN, SECRETS, "m1"):
        assert one["mode"] == "0400"
        assert one["owner"] == ("root" if one["path"].endswith("/curl") else name)


def test_marathon_listens_by_tls_alone():
    arguments = written("marathon")["/etc/marathon/arguments"].decode().splitlines()
    assert "--disable_http" in arguments and "--https_address 192.0.2.1" in arguments
    assert "--zk zk://marathon:zookeeper_marathon-0123456789@192.0.2.1:2181,192.0.2.2:2181/marathon" in arguments
    assert not [line for line in arguments if line.startswith("--http_")]


def test_without_tls_nothing_of_tls_is_written():
    files = written("marathon", {**PLAN, "tls": False, "ca": ""})
    assert set(files) == {f"/etc/marathon/{name}" for name in ("arguments", "environment", "secret", "curl")}
    assert b"SSL" not in files["/etc/marathon/environment"] and b"KEYSTORE" not in files["/etc/marathon/environment"]
    assert b"https" not in files["/etc/marathon/arguments"]


def test_environment_of_a_framework_has_its_own_key():
    found = environment.read(written("marathon")["/etc/marathon/environment"].decode())
    assert found["LIBPROCESS_SSL_KEY_FILE"] == "/etc/marathon/tls.key"
    assert found["MESOSPHERE_HTTP_CREDENTIALS"] == "marathon:marathon_http-0123456789"
    assert "marathon_http-0123456789" not in found["MESOSPHERE_KEYSTORE_PASS"]
    assert not [name for name in found if name.startswith("MARATHON_")]


def test_tasks_do_not_run_as_root_by_default():
    assert chronos.flags(PLAN, "m1")["user"] == "nobody"
    assert marathon.flags(PLAN, "m1")["mesos_user"] == "nobody"


def test_only_a_patched_chronos_is_given_the_flag_for_gpus():
    assert "enable_features" not in chronos.flags(PLAN, "m1")
    assert "--enable_features gpu_resources" in written("chronos", gpu=True)["/etc/chronos/arguments"].decode()


@pytest.mark.parametrize("value", ["a b", "a\nb", "a'b", 'a"b'])
def test_an_argument_with_a_blank_is_refused(value):
    with pytest.raises(ValueError, match="The flag hostname would have a blank"):
        frameworks.arguments({"hostname": value})


def test_a_trust_store_has_the_certificates():
    data = frameworks.truststore(PEM + "text\n" + PEM)
    assert data == frameworks.truststore(PEM + PEM)
    assert struct.unpack_from(">III", data) == (0xFEEDFEED, 2, 2)
    assert data.count(b"X.509\x00\x00\x00\x03\x30\x00\x01") == 2
    seal = hashlib.sha1(frameworks.TRUST_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + data[:-20]).digest()
    assert data[-20:] == seal


@pytest.mark.parametrize("pem", ["", "no certificate", PEM.replace("MAAB", "M*AB")])
def test_a_trust_store_of_nothing_is_refused(pem):
    with pytest.raises(ValueError, match="mesos_cluster_ca"):
        frameworks.truststore(pem)
