# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The authority of a deployment and the certificates of its hosts, made by openssl."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[3] / "roles/tosca_site/files/tosca_certificates.py"
HOSTS = {"mesosserver": "10.0.0.2", "gpuwn-1": "10.0.0.3", "wn-site": ""}


def run(folder: Path, hosts: dict[str, str] | None = None, **options: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-", str(folder), "mesos_cluster", json.dumps(HOSTS if hosts is None else hosts)]
    return subprocess.run(words, input=PROGRAM.read_text(encoding="utf-8"), capture_output=True, text=True, check=False, **options)


def issued(folder: Path, hosts: dict[str, str] | None = None) -> dict:
    done = run(folder, hosts)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def openssl(*words: str | Path) -> bool:
    return subprocess.run(["openssl", *words], capture_output=True, check=False).returncode == 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "authority"


def test_each_certificate_is_good_for_its_host_and_no_other(folder: Path, tmp_path: Path) -> None:
    made = issued(folder)
    assert made["changed"] and list(made["hosts"]) == list(HOSTS)
    for host, its in made["hosts"].items():
        assert set(its) == {"mesos_cluster_ca", "mesos_cluster_certificate", "mesos_cluster_key"}
        assert its["mesos_cluster_key"].startswith("-----BEGIN PRIVATE KEY-----")
        (tmp_path / f"{host}.crt").write_text(its["mesos_cluster_certificate"])
        (tmp_path / "ca.pem").write_text(its["mesos_cluster_ca"])
    verify = ("verify", "-CAfile", tmp_path / "ca.pem")
    assert openssl(*verify, "-verify_ip", "10.0.0.2", "-verify_hostname", "mesosserver", tmp_path / "mesosserver.crt")
    # As libprocess, whose daemons are each other's clients.
    assert openssl(*verify, "-purpose", "sslclient", tmp_path / "gpuwn-1.crt")
    assert openssl(*verify, "-purpose", "sslserver", tmp_path / "gpuwn-1.crt")
    assert not openssl(*verify, "-verify_ip", "10.0.0.2", tmp_path / "gpuwn-1.crt")
    assert not openssl(*verify, "-verify_ip", "10.0.0.2", tmp_path / "wn-site.crt")


def test_another_run_changes_only_what_must_be(folder: Path) -> None:
    first = issued(folder)
    second = issued(folder)
    assert not second["changed"] and second["hosts"] == first["hosts"]
    third = issued(folder, {**HOSTS, "gpuwn-1": "10.0.0.9", "gpuwn-2": "10.0.0.4"})
    assert third["changed"] and third["hosts"]["mesosserver"] == first["hosts"]["mesosserver"]
    assert third["hosts"]["gpuwn-1"] != first["hosts"]["gpuwn-1"]
    # One that is near its end.
    signed = ["-CA", folder / "ca.pem", "-CAkey", folder / "ca.key", "-days", "30", "-addext", "subjectAltName=DNS:mesosserver,IP:10.0.0.2"]
    out = ["-subj", "/CN=mesosserver", "-keyout", folder / "mesosserver.key", "-out", folder / "mesosserver.crt"]
    assert openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", *signed, *out)
    assert issued(folder)["changed"]


def test_what_a_killed_run_left_is_made_again(folder: Path) -> None:
    first = issued(folder)
    (folder / "gpuwn-1.crt").unlink()
    (folder / "gpuwn-1.key.new").write_text("half")
    second = issued(folder)
    assert second["changed"] and second["hosts"]["mesosserver"] == first["hosts"]["mesosserver"]
    # Without its authority no certificate is good any more.
    (folder / "ca.pem").unlink()
    third = issued(folder)
    assert all(third["hosts"][host] != second["hosts"][host] for host in HOSTS)


def test_only_root_reads_them(folder: Path) -> None:
    issued(folder)
    assert {path.stat().st_mode & 0o077 for path in [folder, *folder.iterdir()]} == {0}


def test_without_openssl_it_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    done = run(folder, env={"PATH": str(tmp_path)})
    assert done.returncode != 0 and done.stdout == ""
    assert done.stderr.strip().splitlines()[-1] == (
        "the front end has no openssl: install the package openssl, or take an image that has it"
    )


def test_what_openssl_refuses_is_one_sentence(folder: Path) -> None:
    done = run(folder, {"mesosserver": "10.0.0"})
    assert done.returncode != 0 and done.stderr.strip().splitlines()[-1].startswith("openssl can't make a certificate: ")
