# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module front_certificate with the real openssl."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import front_certificate

NAMES = ["front.site.test", "hub.site.test"]


@pytest.fixture
def own(run, tmp_path):
    def issue(**options):
        return run(front_certificate, own_ca_directory=str(tmp_path / "own"), **{"names": NAMES, **options})

    return issue


@pytest.fixture
def warned(monkeypatch):
    """What the module warned of; ansible-core keeps warnings from one run in this process to the next."""
    told = []
    monkeypatch.setattr(front_certificate.AnsibleModule, "warn", lambda _module, text: told.append(text))
    return told


@pytest.fixture
def pair(own, tmp_path):
    """Paths of a good certificate and its key."""
    own()
    return {"certificate": str(tmp_path / "own/front.pem"), "key": str(tmp_path / "own/front.key")}


def test_the_own_authority_issues_once(own, tmp_path):
    first = own()
    assert (first["changed"], first["reason"], first["missing"]) == (True, "there is none", [])
    assert first["days_left"] == 397
    assert own()["changed"] is False
    assert {path.name: f"{path.stat().st_mode & 0o777:o}" for path in (tmp_path / "own").iterdir()} == {
        "ca.key": "600",
        "ca.pem": "644",
        "front.key": "600",
        "front.pem": "644",
    }


def test_a_new_name_or_a_near_end_issues_anew_by_the_same_authority(own, tmp_path):
    own()
    authority = (tmp_path / "own/ca.pem").read_text()
    assert own(names=[*NAMES, "new.site.test"])["reason"] == "it lacks the name new.site.test"
    assert own(warn_days=500)["reason"].startswith("it expires in 397")
    assert (tmp_path / "own/ca.pem").read_text() == authority


def test_check_mode_issues_nothing(own, tmp_path):
    assert own(_ansible_check_mode=True)["changed"] is True
    assert not (tmp_path / "own").exists()


def test_a_given_pair_is_checked(run, pair, warned):
    result = run(front_certificate, names=NAMES, **pair)
    assert (result["changed"], result["missing"], warned) == (False, [], [])


def test_what_is_about_to_end_or_lacks_a_name_is_warned_of(run, pair, warned):
    result = run(front_certificate, names=["front.site.test", "other.site.test"], warn_days=500, **pair)
    assert result["missing"] == ["other.site.test"]
    assert warned == [
        f"The certificate of front.site.test expires in {result['days_left']} days: renew it.",
        "The certificate of front.site.test lacks other.site.test: clients refuse it under that name.",
    ]


def test_a_key_of_another_certificate_is_refused_and_not_told(run, pair, tmp_path):
    run(front_certificate, own_ca_directory=str(tmp_path / "other"), names=NAMES)
    other = (tmp_path / "other/front.key").read_text()
    result = run(front_certificate, names=NAMES, certificate=pair["certificate"], key=other)
    assert "do not belong together" in result["msg"]
    assert other.split("\n")[1] not in result["printed"]


def test_an_absent_file_is_told(run, pair):
    result = run(front_certificate, names=NAMES, certificate="/nowhere/front.pem", key=pair["key"])
    assert result["msg"] == "this host has no certificate /nowhere/front.pem"
