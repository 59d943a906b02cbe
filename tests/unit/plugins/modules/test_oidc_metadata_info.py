# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module oidc_metadata_info against a real TLS server."""

from __future__ import annotations

import http.server
import json
import ssl
import subprocess
import threading

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import oidc_metadata_info

ISSUER = "https://localhost"


class Provider(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        code, body = {
            "/good": (200, json.dumps({"issuer": ISSUER, "jwks_uri": ISSUER + "/jwk", "ui_locales_supported": ["en"]})),
            "/list": (200, "[]"),
            "/page": (200, "<html>"),
            "/moved": (302, ""),
        }.get(self.path, (404, ""))
        self.send_response(code)
        if code == 302:
            self.send_header("Location", "/good")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def provider(tmp_path_factory):
    """Address of the server and the PEM text of its certificate."""
    files = [str(tmp_path_factory.mktemp("provider") / name) for name in ("key", "pem")]
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    subprocess.run(
        [*command, "-addext", "subjectAltName=DNS:localhost", "-keyout", files[0], "-out", files[1]], check=True, capture_output=True
    )
    server = http.server.ThreadingHTTPServer(("localhost", 0), Provider)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files[1], files[0])
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with open(files[1], encoding="utf-8") as file:
        yield f"https://localhost:{server.server_address[1]}", file.read()
    server.shutdown()
    server.server_close()


def test_what_a_front_needs_is_kept(run, provider):
    address, ca = provider
    result = run(oidc_metadata_info, providers=[{"name": "iam", "url": address + "/good", "ca": ca}])
    assert result["changed"] is False
    assert result["providers"] == {"iam": {"metadata": {"issuer": ISSUER, "jwks_uri": ISSUER + "/jwk"}, "error": ""}}


@pytest.mark.parametrize(
    "path, trusted, said",
    [
        ("/good", False, "CERTIFICATE_VERIFY_FAILED"),
        ("/none", True, "HTTP 404"),
        ("/moved", True, "HTTP 302"),
        ("/list", True, "no JSON object"),
        ("/page", True, "Expecting value"),
    ],
)
def test_what_can_not_be_read_says_why(run, provider, path, trusted, said):
    address, ca = provider
    result = run(oidc_metadata_info, providers=[{"name": "iam", "url": address + path, "ca": ca if trusted else ""}])
    assert said in result["providers"]["iam"]["error"] and result["providers"]["iam"]["metadata"] == {}


@pytest.mark.parametrize("url, said", [("http://localhost/", "no https address"), ("https://127.0.0.1:1/", "refused")])
def test_only_tls_is_spoken(run, url, said):
    assert said in run(oidc_metadata_info, providers=[{"name": "iam", "url": url}])["providers"]["iam"]["error"]
