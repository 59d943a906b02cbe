# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module front_certificate with the real openssl."""

from __future__ import annotations

import ipaddress
import subprocess
from datetime import datetime, timedelta, timezone

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import front_certificate
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

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


@pytest.mark.parametrize(
    ("names", "addresses", "authority", "said"),
    [
        (NAMES, [], "own", ""),
        (["other.site.test"], [], "own", "the certificate lacks the name other.site.test. Nothing was written"),
        (["192.0.2.10"], [], "own", "the certificate lacks the name 192.0.2.10"),
        (
            [],
            ["192.0.2.10"],
            "own",
            "would refuse the certificate as that of 192.0.2.10: IP address mismatch. Give one that is good for it, by the same",
        ),
        ([], [], "own", "names is empty"),
        (NAMES, [], "other", "clients that trust the site's authority would refuse the certificate"),
        (NAMES, [], "other", "Give one that this authority signed, or correct the authority. Nothing was written"),
        (NAMES, [], "nowhere", "this host has no file of authorities"),
    ],
)
def test_what_clients_would_refuse_is_refused(run, pair, tmp_path, names, addresses, authority, said):
    run(front_certificate, own_ca_directory=str(tmp_path / "other"), names=NAMES)
    result = run(front_certificate, names=names, addresses=addresses, authority=str(tmp_path / authority / "ca.pem"), **pair)
    assert (said in result["msg"]) if said else result["missing"] == []


def test_what_can_not_be_looked_at_is_not_absent(run, pair, own, tmp_path):
    """Else a role would go on without an authority, and a new one would come in the place of that."""
    (tmp_path / "loop").symlink_to("loop")
    for given in ({"authority": str(tmp_path / "loop")}, {"key": str(tmp_path / "loop")}):
        assert run(front_certificate, names=NAMES, **{**pair, **given})["msg"].endswith(": Too many levels of symbolic links")
    for name in ("ca.pem", "ca.key"):
        (tmp_path / "own" / name).unlink()
        (tmp_path / "own" / name).symlink_to(name)
        assert own(names=["new.site.test"])["msg"].endswith(": Too many levels of symbolic links")


def test_addresses_are_not_good_unchecked(run, pair):
    assert "give it, too" in run(front_certificate, names=NAMES, addresses=["192.0.2.10"], **pair)["msg"]


def test_the_own_authority_issues_once_for_an_address(own):
    assert own(names=["192.0.2.7", "front.site.test"])["changed"]
    again = own(names=["192.0.2.7", "front.site.test"])
    assert (again["changed"], again["missing"]) == (False, [])


def test_an_authority_may_be_given_as_text(run, pair, tmp_path):
    assert "msg" not in run(front_certificate, names=NAMES, authority=(tmp_path / "own/ca.pem").read_text(), **pair)


def test_a_server_that_is_a_client_needs_a_certificate_for_both(run, pair, tmp_path):
    result = run(front_certificate, names=NAMES, authority=str(tmp_path / "own/ca.pem"), client=True, **pair)
    assert "would refuse the certificate: un" in result["msg"]  # unsupported, or from openssl 3.2 on unsuitable, purpose


def test_a_host_without_openssl_is_named(run, pair, monkeypatch):
    monkeypatch.setattr(front_certificate.AnsibleModule, "get_bin_path", lambda *_words: None)
    assert run(front_certificate, names=NAMES, **pair)["msg"] == "this host has no openssl"


def test_the_text_of_a_key_comes_to_no_disk(run, pair, tmp_path, monkeypatch):
    """Also if the module is killed; parameters of a curve, or the certificate, may stand before it."""
    written = []
    real = front_certificate.on_disk
    monkeypatch.setattr(front_certificate, "on_disk", lambda text, files: written.append(text) or real(text, files))
    key, certificate = ((tmp_path / f"own/front.{name}").read_text() for name in ("key", "pem"))
    curve = subprocess.run(["openssl", "ecparam", "-name", "prime256v1"], check=True, capture_output=True, text=True).stdout
    for text in (key, curve + key, certificate + key, key.replace("\n", "\r\n")):
        assert "msg" not in run(front_certificate, names=NAMES, certificate=certificate, key=text)
    assert not any("PRIVATE KEY" in text for text in written)


def test_an_intermediate_authority_is_read_from_the_certificates_file(run, tmp_path):
    root, middle = (ec.generate_private_key(ec.SECP256R1()) for _number in range(2))
    named = {name: x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in ("root", "middle")}
    key = middle.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
    day = datetime.now(timezone.utc) - timedelta(hours=1)

    def issue(subject, issuer, public, signer, is_authority):
        made = x509.CertificateBuilder(issuer, subject, public, x509.random_serial_number(), day, day + timedelta(days=30))
        made = made.add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        return made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()

    leaf = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "front.site.test")])
    ca = issue(named["root"], named["root"], root.public_key(), root, True)
    between = issue(named["middle"], named["root"], middle.public_key(), root, True)
    own = issue(leaf, named["middle"], middle.public_key(), middle, False)
    given = {"names": ["front.site.test"], "key": key, "authority": ca}
    assert "msg" not in run(front_certificate, certificate=own + between, **given)
    assert "unable to get local issuer certificate" in run(front_certificate, certificate=own, **given)["msg"]


def test_authorities_that_the_host_trusts_are_not_the_sites(run, pair, tmp_path, monkeypatch):
    """Those of the distribution may have signed a good certificate, and the site's clients refuse it."""
    trusted = tmp_path / "trusted"
    trusted.mkdir()
    digest = subprocess.run(
        ["openssl", "x509", "-hash", "-noout", "-in", str(tmp_path / "own/ca.pem")], check=True, capture_output=True, text=True
    ).stdout.strip()
    (trusted / f"{digest}.0").write_text((tmp_path / "own/ca.pem").read_text())
    monkeypatch.setenv("SSL_CERT_DIR", str(trusted))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "own/ca.pem"))
    run(front_certificate, own_ca_directory=str(tmp_path / "other"), names=["other.site.test"])
    result = run(front_certificate, names=NAMES, authority=str(tmp_path / "other/ca.pem"), **pair)
    assert "would refuse the certificate" in result["msg"]


def signed(tmp_path, key=None, days=1, names=()):
    """A certificate of "old" by the own authority, and its key, as text."""
    authority, signer = (tmp_path / f"own/ca.{one}" for one in ("pem", "key"))
    signer = serialization.load_pem_private_key(signer.read_bytes(), None)
    key = key or signer
    issuer = x509.load_pem_x509_certificate(authority.read_bytes()).subject
    own = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "old")])
    begin = datetime.now(timezone.utc) - timedelta(days=9)
    made = x509.CertificateBuilder(issuer, own, key.public_key(), x509.random_serial_number(), begin, begin + timedelta(days=days))
    if names:
        made = made.add_extension(x509.SubjectAlternativeName(list(names)), critical=False)
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return {"certificate": made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode(), "key": private.decode()}


ADDRESS = x509.IPAddress(ipaddress.ip_address("192.0.2.10"))


@pytest.mark.parametrize(
    ("names", "given", "said"),
    [
        (["old"], {"days": 30}, ""),
        (["old"], {"days": 1}, "certificate has expired"),
        (["old"], {"days": 30, "names": [ADDRESS]}, "the certificate lacks the name old"),
        (["192.0.2.10"], {"days": 30, "names": [ADDRESS]}, ""),
        (["old"], {"days": 30, "key": "weak"}, "too weak"),
    ],
)
def test_more_that_clients_would_refuse(run, pair, tmp_path, names, given, said):
    if given.get("key"):
        given = {**given, "key": rsa.generate_private_key(65537, 1024)}
    result = run(front_certificate, names=names, authority=str(tmp_path / "own/ca.pem"), **signed(tmp_path, **given))
    assert (said in result["msg"]) if said else "msg" not in result
