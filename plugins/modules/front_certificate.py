#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Check the certificate of a TLS server, or issue it from an own authority."""

from __future__ import annotations

DOCUMENTATION = r"""
module: front_certificate
version_added: 0.1.0
short_description: Check a server's certificate, or issue it from an own authority
author: deephdc.accelerators contributors (@deephdc)
description:
  - Fails if certificate and key don't belong together, because a server that is reloaded with such a pair ends.
  - Warns if the certificate lacks a name, or is about to expire.
  - With O(authority), fails if another authority signed the certificate, if it has expired, if its key is too weak for programs of the
    distribution, or if it lacks a name or an address.
  - With O(own_ca_directory), issues the certificate from an authority in that directory. It is issued again before it expires and
    when names change. The authority's key never leaves the host. Needs C(openssl) on the host.
attributes:
  check_mode:
    description: Predicts whether a certificate would be issued.
    support: full
  diff_mode:
    description: Not needed, the result names the reason.
    support: none
options:
  names:
    description: Names that the server is reached by.
    type: list
    elements: str
    default: []
  addresses:
    description: IP addresses that the server is reached by, and that the certificate must have. Only with O(authority).
    type: list
    elements: str
    default: []
  authority:
    description:
      - Path of the certificates that clients trust, or their PEM text.
      - The certificate must be signed by one of them, directly or through the rest of its file.
    type: str
  client:
    description: With O(authority), whether the host shows the certificate to other servers, too, so that it must be good for a client.
    type: bool
    default: false
  certificate:
    description: Path of the certificate with its chain, or its PEM text. Not with O(own_ca_directory).
    type: str
  key:
    description: Path of its key, or the key's PEM text.
    type: str
  own_ca_directory:
    description:
      - Directory of the site's own authority. It has C(ca.pem), which clients must trust, C(ca.key), C(front.pem) and C(front.key).
    type: path
  warn_days:
    description: How many days before the certificate expires the module warns, or the own authority issues a new one.
    type: int
    default: 21
"""

EXAMPLES = r"""
- name: Check the front's certificate
  deephdc.accelerators.front_certificate:
    certificate: /etc/ssl/certs/front.pem
    key: /etc/ssl/private/front.key
    names: [front.example.org]

- name: Check the certificate of a Mesos master before it is written
  deephdc.accelerators.front_certificate:
    certificate: "{{ mesos_cluster_certificate }}"
    key: "{{ mesos_cluster_key }}"
    authority: "{{ mesos_cluster_ca }}"
    addresses: [192.0.2.10]
"""

RETURN = r"""
days_left:
  description: Days until the certificate expires, negative if it has expired. V(null) where there is no certificate yet.
  type: int
  returned: always
  sample: 88
missing:
  description: Names that the certificate lacks.
  type: list
  elements: str
  returned: always
  sample: []
reason:
  description: Why a certificate was issued; empty where it was not.
  type: str
  returned: always
  sample: it expires in 20 days
"""

import ipaddress
import os
import re
import ssl
import tempfile
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused

NO_OPENSSL = "this host has no openssl"  # roles look for it
AUTHORITY_DAYS = 3650
LEAF_DAYS = 397


class Pair:
    """A certificate and its key on disk."""

    def __init__(self, module: AnsibleModule, certificate: str, key: str) -> None:
        self.module, self.certificate, self.key = module, certificate, key

    def openssl(self, *words: str, given: str | None = None) -> str:
        code, out, err = self.module.run_command(["openssl", *words], data=given)
        if code != 0:
            raise Refused(" ".join((err or out).split())[:300])
        return out

    def days_left(self) -> int:
        told = self.openssl("x509", "-in", self.certificate, "-noout", "-enddate").strip().partition("=")[2]
        # strptime would want the names of months in the host's language.
        left = ssl.cert_time_to_seconds(told) - time.time()
        return round(left / 86400) if left > 0 else -1 - int(-left // 86400)

    def missing(self, names: t.Iterable[str]) -> list[str]:
        return [name for name in names if not self.has(name)]

    def has(self, name: str) -> bool:
        check = "-checkip" if is_address(name) else "-checkhost"
        # From openssl 3.5 on it fails where the name is another.
        _code, out, err = self.module.run_command(["openssl", "x509", "-in", self.certificate, "-noout", check, name])
        if "match" not in out:
            raise Refused(" ".join((err or out).split())[:300])
        return "does match" in out and (check == "-checkip" or self._has_dns_names())

    def _has_dns_names(self) -> bool:
        """Whether a client finds a host's name in the certificate.

        It takes the subject only without alternative names. openssl takes it also where all of these are addresses.
        """
        names = self.openssl("x509", "-in", self.certificate, "-noout", "-ext", "subjectAltName")
        return "DNS:" in names or "Alternative Name" not in names

    def verify(self, authority: str, addresses: t.Iterable[str], purposes: t.Iterable[str]) -> None:
        """Fail if who trusts the authority would refuse the certificate.

        :param purposes: what openssl calls the uses of the certificate.
        :raises Refused: it would, with openssl's words.
        """
        # Without the first two, openssl trusts the authorities of the host, too. Level 2 is that of Debian's programs.
        words = ["-no-CApath", "-no-CAstore", "-CAfile", authority, "-untrusted", self.certificate, "-auth_level", "2"]
        addressed = [["-verify_ip", address] for address in addresses] or [[]]
        for check in ([*one, "-purpose", purpose] for one in addressed for purpose in purposes):
            code, out, err = self.module.run_command(["openssl", "verify", *words, *check, self.certificate])
            if code != 0:
                said = re.findall(r"lookup: *(.+)", out + err) or [" ".join((err or out).split())[:300]]
                wanted = f" as that of {check[1]}" if check[0] == "-verify_ip" else ""
                remedy = "Give one that is good for it, by the same authority"
                if re.search("issuer|self.signed", said[0]):
                    remedy = "Give one that this authority signed, or correct the authority"
                refused = f"clients that trust the site's authority would refuse the certificate{wanted}"
                raise Refused(f"{refused}: {said[0]}. {remedy}. Nothing was written")

    def fits(self) -> bool:
        of_certificate = self.openssl("x509", "-in", self.certificate, "-noout", "-pubkey")
        # The text of a key comes to no disk.
        given = (self.key, ()) if is_text(self.key) else (None, ("-in", self.key))
        return self.openssl("pkey", *given[1], "-passin", "pass:", "-pubout", given=given[0]).split() == of_certificate.split()


def issue(module: AnsibleModule, directory: str, names: list[str]) -> None:
    """A certificate by the own authority, which is made first where there is none."""
    os.makedirs(directory, mode=0o755, exist_ok=True)
    path = {name: os.path.join(directory, name) for name in ("ca.key", "ca.pem", "front.key", "front.pem")}
    old = os.umask(0o077)
    try:
        new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-sha256"]
        if not (is_there(path["ca.key"]) and is_there(path["ca.pem"])):
            make(
                module,
                [*new, "-days", str(AUTHORITY_DAYS), "-subj", f"/CN=own authority of {names[0]}"[:68]]
                + ["-addext", "basicConstraints=critical,CA:TRUE,pathlen:0", "-addext", "keyUsage=critical,keyCertSign,cRLSign"],
                {"-keyout": path["ca.key"], "-out": path["ca.pem"]},
            )
        make(
            module,
            [*new, "-days", str(LEAF_DAYS), "-subj", f"/CN={names[0][:64]}", "-CA", path["ca.pem"], "-CAkey", path["ca.key"]]
            + ["-addext", "subjectAltName=" + ",".join(("IP:" if is_address(name) else "DNS:") + name for name in names)]
            + ["-addext", "basicConstraints=critical,CA:FALSE", "-addext", "extendedKeyUsage=serverAuth"]
            + ["-addext", "keyUsage=critical,digitalSignature"],
            {"-keyout": path["front.key"], "-out": path["front.pem"]},
        )
    finally:
        os.umask(old)
    for name in ("ca.pem", "front.pem"):
        os.chmod(path[name], 0o644)


def make(module: AnsibleModule, words: list[str], files: dict[str, str]) -> None:
    """Run openssl with its output beside the final files; both are renamed at the end."""
    beside = {option: path + ".new" for option, path in files.items()}
    code, out, err = module.run_command(["openssl", *words, *(word for pair in beside.items() for word in pair)])
    if code != 0:
        raise Refused("openssl can't issue a certificate: " + " ".join((err or out).split())[-300:])
    for option, path in files.items():
        os.rename(beside[option], path)


def why(pair: Pair, ca: str, names: list[str], warn_days: int) -> str:
    """Why the own authority must issue a certificate.

    Empty if the present one is good.
    """
    if not all(is_there(path) for path in (pair.certificate, pair.key, ca)):
        return "there is none"
    try:
        pair.openssl("verify", "-CAfile", ca, pair.certificate)
        if not pair.fits():
            return "it does not fit its key"
        missing, left = pair.missing(names), pair.days_left()
    except Refused as reason:
        return f"it is not valid ({reason})"
    if missing:
        return f"it lacks the name {missing[0]}"
    return f"it expires in {left} days" if left < warn_days else ""


def is_text(given: str) -> bool:
    """Whether it is PEM text and no path."""
    return given.startswith("-----BEGIN ")


def is_there(path: str) -> bool:
    """Whether there is a file.

    :raises OSError: it can't be looked at.
    """
    try:
        os.stat(path)
    except FileNotFoundError:
        return False
    return True


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def on_disk(text: str, files: list[str]) -> str:
    """The path of a text: itself, or that of a private copy."""
    if not is_text(text):
        return text
    handle, path = tempfile.mkstemp(prefix="front_certificate.")
    files.append(path)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    return path


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "default": []},
            "addresses": {"type": "list", "elements": "str", "default": []},
            "authority": {"type": "str"},
            "client": {"type": "bool", "default": False},
            "certificate": {"type": "str"},
            "key": {"type": "str", "no_log": True},
            "own_ca_directory": {"type": "path"},
            "warn_days": {"type": "int", "default": 21},
        },
        mutually_exclusive=[["own_ca_directory", "certificate"], ["own_ca_directory", "key"], ["own_ca_directory", "authority"]],
        required_one_of=[["own_ca_directory", "certificate"]],
        required_together=[["certificate", "key"]],
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    given = module.params
    files: list[str] = []
    result: dict = {"changed": False, "days_left": None, "missing": [], "reason": ""}
    try:
        if not given["names"] and (given["own_ca_directory"] or not given["addresses"]):
            raise Refused("names is empty: give the names of the server, or with an authority its addresses")
        if given["addresses"] and not given["authority"]:
            raise Refused("addresses are checked with an authority alone: give it, too")
        if not module.get_bin_path("openssl"):
            raise Refused(NO_OPENSSL)
        if given["own_ca_directory"]:
            directory = given["own_ca_directory"]
            pair = Pair(module, os.path.join(directory, "front.pem"), os.path.join(directory, "front.key"))
            result["reason"] = why(pair, os.path.join(directory, "ca.pem"), given["names"], given["warn_days"])
            result["changed"] = bool(result["reason"])
            if result["changed"] and not module.check_mode:
                issue(module, directory, given["names"])
        else:
            pair = Pair(module, on_disk(given["certificate"], files), given["key"])
            for what, path in (("certificate", pair.certificate), ("key", pair.key)):
                if not is_text(path) and not is_there(path):
                    raise Refused(f"this host has no {what} {path}")
            if not pair.fits():
                raise Refused("certificate and key do not belong together: a server that is reloaded with them would end")
            if given["authority"]:
                authority = on_disk(given["authority"], files)
                if not is_there(authority):
                    raise Refused(f"this host has no file of authorities {authority}")
                pair.verify(authority, given["addresses"], ["sslserver", *(["sslclient"] if given["client"] else [])])
                missing = pair.missing(given["names"])
                if missing:
                    raise Refused(f"the certificate lacks the name {', '.join(missing)}. Nothing was written")
        if is_there(pair.certificate):
            result["days_left"], result["missing"] = pair.days_left(), pair.missing(given["names"])
            say(module, result, [*given["names"], *given["addresses"]][0], given["warn_days"])
    except Refused as reason:
        module.fail_json(msg=str(reason))
    except OSError as error:
        module.fail_json(msg=f"{error.filename or 'the certificate'}: {error.strerror}")
    finally:
        for path in files:
            os.unlink(path)
    module.exit_json(**result)


def say(module: AnsibleModule, result: dict, name: str, warn_days: int) -> None:
    left = result["days_left"]
    if left < 0:
        module.warn(f"The certificate of {name} has expired: renew it now, clients refuse it.")
    elif left < warn_days:
        module.warn(f"The certificate of {name} expires in {left} days: renew it.")
    if result["missing"] and not module.check_mode:
        module.warn(f"The certificate of {name} lacks {', '.join(result['missing'])}: clients refuse it under that name.")


if __name__ == "__main__":
    main()
