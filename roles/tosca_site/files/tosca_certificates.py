# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Make an authority of a deployment and a certificate of each of its hosts.

usage: tosca_certificates FOLDER PREFIX HOSTS     HOSTS: JSON, the name of each host and its IP address, which may be empty

Both are printed as variables of the hosts, in JSON.
The variables are PREFIX_ca, PREFIX_certificate and PREFIX_key, with texts in PEM.
The folder keeps all of it, readable by root alone.
A certificate is made again when the host's address is another one, and 90 days before its end.
The authority ends after ten years.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

AUTHORITY_DAYS, HOST_DAYS, RENEW_DAYS = 3650, 1095, 90
NEW = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-sha256"]


def good(*words: str) -> bool:
    return subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


def make(words: list[str], key: Path, certificate: Path) -> None:
    """A key and its certificate: both are there, or it is made again."""
    beside = [path.with_name(f"{path.name}.new") for path in (key, certificate)]
    done = subprocess.run(
        [*words, "-keyout", beside[0], "-out", beside[1]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit("openssl can't make a certificate: " + " ".join(done.stdout.split())[-300:])
    certificate.unlink(missing_ok=True)
    beside[0].rename(key)
    beside[1].rename(certificate)


def main(folder: Path, prefix: str, hosts: dict[str, str]) -> int:
    os.umask(0o077)
    folder.mkdir(parents=True, exist_ok=True)
    changed = False
    authority, its_key = folder / "ca.pem", folder / "ca.key"
    if not authority.exists():
        use = ["-addext", "basicConstraints=critical,CA:TRUE,pathlen:0", "-addext", "keyUsage=critical,keyCertSign,cRLSign"]
        make([*NEW, "-days", str(AUTHORITY_DAYS), "-subj", "/CN=Authority of the deployment", *use], its_key, authority)
        changed = True
    made = {}
    for name, address in hosts.items():
        key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
        alternatives = f"DNS:{name}" + (f",IP:{address}" if address else "")
        named = ["-verify_ip", address] if address else []
        is_good = (
            certificate.exists()
            and good("openssl", "verify", "-CAfile", str(authority), "-verify_hostname", name, *named, str(certificate))
            and good("openssl", "x509", "-in", str(certificate), "-noout", "-checkend", str(RENEW_DAYS * 86400))
        )
        if not is_good:
            use = ["-addext", "basicConstraints=critical,CA:FALSE", "-addext", "extendedKeyUsage=serverAuth,clientAuth"]
            signed = ["-CA", str(authority), "-CAkey", str(its_key), "-addext", f"subjectAltName={alternatives}"]
            make([*NEW, "-days", str(HOST_DAYS), "-subj", f"/CN={name[:64]}", *signed, *use], key, certificate)
            changed = True
        files = {"ca": authority, "certificate": certificate, "key": key}
        made[name] = {f"{prefix}_{what}": path.read_text(encoding="ascii") for what, path in files.items()}
    json.dump({"hosts": made, "changed": changed}, sys.stdout)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])))
    except FileNotFoundError as error:
        if error.filename != "openssl":
            raise
        sys.exit("the front end has no openssl: install the package openssl, or take an image that has it")
