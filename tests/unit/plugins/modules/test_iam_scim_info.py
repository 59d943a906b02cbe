# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module iam_scim_info against an IAM on this machine's loopback with given answers."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import iam_scim_info

TOKEN, SECRET = "the-token", "the-secret"  # what no result may contain
USER = {"id": "u1", "userName": "ada", "active": True}
NONE = {"schemas": ["urn:ietf:params:scim:api:messages:2.0:Error"], "status": "404"}


@pytest.fixture
def iam():
    """Answers by path: (status, headers, body).

    iam.requests has what was asked for, with the Authorization.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.split("?")[0]
            server.requests.append((self.command, path, self.headers["Authorization"]))
            self.rfile.read(int(self.headers["Content-Length"] or 0))
            status, headers, body = server.answers.get(path, (404, {}, NONE))
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, *_arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    server.requests = []
    server.answers = {"/scim/Users": listed(USER), "/scim/Groups": listed()}
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def listed(*entries):
    return 200, {}, {"totalResults": len(entries), "startIndex": 1, "Resources": list(entries)}


@pytest.fixture
def ask(run, iam, tmp_path):
    def call(**options):
        for name, text in (("token", TOKEN), ("secret", SECRET)):
            (tmp_path / name).write_text(f"{text}\n")
            (tmp_path / name).chmod(0o600)
        given = {"url": f"{iam.url}/scim", "token_file": str(tmp_path / "token"), **options}
        result = run(iam_scim_info, **{name: value for name, value in given.items() if value is not None})
        assert TOKEN not in result["printed"] and SECRET not in result["printed"]
        return result

    return call


def test_reads_all(ask, iam):
    result = ask(known=["u1", "u2"])
    assert [user["name"] for user in result["users"]] == ["ada"] and result["groups"] == [] and not result["changed"]
    assert [path for _method, path, _token in iam.requests] == ["/scim/Groups", "/scim/Users", "/scim/Users/u2"]
    assert {token for *_request, token in iam.requests} == {f"Bearer {TOKEN}"}


def test_client_credentials(ask, iam, tmp_path):
    client = {"token_file": None, "token_url": f"{iam.url}/token", "client_id": "site", "client_secret_file": str(tmp_path / "secret")}
    iam.answers["/token"] = 200, {}, {"access_token": TOKEN, "token_type": "Bearer"}
    assert len(ask(**client)["users"]) == 1
    assert iam.requests[0] == ("POST", "/token", "Basic c2l0ZTp0aGUtc2VjcmV0")
    assert iam.requests[1][2] == f"Bearer {TOKEN}"
    iam.answers["/token"] = 401, {}, {"error": "invalid_client", "error_description": SECRET}
    assert "answers the request for a token with 401" in ask(**client)["msg"]
    iam.answers["/token"] = 200, {}, {"token_type": "Bearer"}
    assert "gives no token" in ask(**client)["msg"]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((401, {}, {"detail": TOKEN}), "with 401. The token is not accepted"),
        ((500, {}, b"<html>"), "with 500."),
        ((404, {}, b"<html>"), "with 404. There is no SCIM interface"),
        ((200, {}, b'{"totalResults": 1, "Resources": [{"id"'), "no whole JSON text"),
        ((200, {}, {"totalResults": 2, "Resources": [USER]}), "names an entry twice"),
        ((302, {"Location": "/elsewhere"}, b""), "with 302."),
    ],
)
def test_anything_but_the_whole_list_is_none(ask, iam, answer, sentence, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    iam.answers["/scim/Users"] = answer
    iam.answers["/elsewhere"] = listed(USER)
    result = ask()
    assert result["failed"] and sentence in result["msg"] and result["msg"].endswith("Nothing was changed.")
    assert "/elsewhere" not in [path for _method, path, _token in iam.requests]


def test_a_404_of_somebody_else_makes_nobody_absent(ask, iam):
    iam.answers["/scim/Users/u2"] = 404, {}, b"<html>no such page</html>"
    assert "answers the request for the user u2 with 404" in ask(known=["u2"])["msg"]


def test_no_iam(ask, iam):
    assert "does not answer the request for Groups" in ask(url="http://127.0.0.1:1/scim")["msg"]


def test_a_secret_that_others_can_read(ask, tmp_path):
    (tmp_path / "open").write_text("x")
    (tmp_path / "open").chmod(0o644)
    assert "can be read by others: chmod 600" in ask(token_file=str(tmp_path / "open"))["msg"]
    assert "can't be read: No such file" in ask(token_file=str(tmp_path / "absent"))["msg"]
