# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What Marathon and Chronos have in common: pure functions.

That is their arguments, their secrets, and whom their Java trusts.

Both take their arguments from a file, as the first argument @FILE of Scallop does (ScallopArgListLoader). Arguments by
environment have a prefix that changed within Marathon 1.5, and Chronos does not read them. Marathon 1.5 writes them into its
log with their secrets.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import struct
import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import environment, master

# Guards certificates that everybody may read; Java asks for one.
TRUST_PASSWORD = "deephdc"
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.S)


def folder(name: str) -> str:
    return f"/etc/{name}"


def arguments(flags: t.Mapping[str, str]) -> str:
    """Return the file of arguments, a flag on a line; an empty value is no argument.

    :raises ValueError: a value has a blank, which would be the end of it.
    """
    lines = []
    for name in sorted(flags):
        value = str(flags[name])
        if re.search(r"[\s'\"]", value):
            raise ValueError(f"The flag {name} would have a blank or a quote, which its file can't have: correct what it is made from.")
        lines.append(f"--{name} {value}".rstrip() + "\n")
    return "".join(lines)


def libprocess(name: str, address: str, tls: bool) -> dict[str, str]:
    """Return what libmesos reads in a framework.

    It has its own copies of the host's certificate, as it is not root.
    """
    found = {"LIBPROCESS_IP": address, "MESOS_NATIVE_JAVA_LIBRARY": "/opt/mesos/current/lib/libmesos.so"}
    if tls:
        for key, value in master.tls_environment(address).items():
            found[key] = value.replace(f"{master.FOLDER}/", f"{folder(name)}/")
    return found


def java(name: str, heap_mib: int, tls: bool) -> str:
    """Return the options of Java.

    Marathon's standby asks the leader by TLS, and Java does not know the site's authority.
    """
    options = [f"-Xmx{heap_mib}m"]
    if tls:
        options += [
            f"-Djavax.net.ssl.trustStore={folder(name)}/trust.jks",
            "-Djavax.net.ssl.trustStoreType=JKS",
            f"-Djavax.net.ssl.trustStorePassword={TRUST_PASSWORD}",
        ]
    return " ".join(options)


def keystore_password(name: str, secrets: t.Mapping[str, str]) -> str:
    """Of the keystore, which is made at each start and is in memory only."""
    return hashlib.sha256(f"keystore of {name} {secrets[f'{name}_http']}".encode()).hexdigest()


def truststore(pem: str) -> bytes:
    """Return a keystore in Java's own form (JKS) that trusts certificates.

    They are those in *pem*. The same certificates give the same bytes.

    :raises ValueError: *pem* has no certificate, or one is no base64.
    """
    entries = _PEM.findall(pem)
    if not entries:
        raise ValueError("mesos_cluster_ca has no certificate in PEM: give the text of the authority's certificate.")
    body = struct.pack(">III", 0xFEEDFEED, 2, len(entries))
    for number, entry in enumerate(entries):
        try:
            data = base64.b64decode("".join(entry.split()), validate=True)
        except binascii.Error as error:
            raise ValueError("mesos_cluster_ca has a certificate that is no base64: copy it again.") from error
        # A trusted certificate, its alias, no time, its type.
        body += struct.pack(">I", 2) + _text(f"site{number}") + struct.pack(">Q", 0) + _text("X.509") + struct.pack(">I", len(data)) + data
    return body + hashlib.sha1(TRUST_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def _text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode("ascii")


def secret_files(
    name: str, flags: t.Mapping[str, str], variables: t.Mapping[str, str], secrets: t.Mapping[str, str], ca: str, tls: bool
) -> list[dict[str, str]]:
    """What file_set writes for a framework, the key and certificate excepted.

    :param name: marathon or chronos, also the account that runs it and its user of HTTP.
    :param flags: all of them, those with secrets included. variables: its environment without secrets.
    """
    credentials = f"{name}:{secrets[f'{name}_http']}"
    inside = {**variables, "MESOSPHERE_HTTP_CREDENTIALS": credentials}
    if tls:
        inside |= {"MESOSPHERE_KEYSTORE_PATH": f"/run/{name}/keystore.p12", "MESOSPHERE_KEYSTORE_PASS": keystore_password(name, secrets)}
    found = [
        _file(f"{folder(name)}/arguments", arguments(flags).encode(), name),
        _file(f"{folder(name)}/environment", environment.text(inside).encode(), name),
        # A line break would belong to the secret.
        _file(f"{folder(name)}/secret", secrets[name].encode(), name),
        # curl reads it, so that the secret is in no list of processes.
        _file(f"{folder(name)}/curl", f'user = "{credentials}"\n'.encode(), "root"),
    ]
    return [*found, _file(f"{folder(name)}/trust.jks", truststore(ca), name)] if tls else found


def _file(path: str, data: bytes, owner: str) -> dict[str, str]:
    return {"path": path, "secret_base64": base64.b64encode(data).decode(), "owner": owner, "mode": "0400"}
