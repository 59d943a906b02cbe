# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The balancer's program against Marathons that answer, redirect, hang, lie or are away, and against HAProxy's sockets."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import socket
import stat
import subprocess
import tempfile
import threading
import time
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos import (
    balancer_conf,
    balancer_haproxy,
    balancer_marathon,
    balancer_program,
)
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos.balancer_apps import Service
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos.balancer_labels import Options

CREDENTIAL = "marathon:0123456789abcdef"
APP = {
    "id": "/x",
    "labels": {"HAPROXY_GROUP": "external"},
    "portDefinitions": [{"port": 10100}],
    "tasks": [{"id": "t", "host": "10.0.0.9", "ports": [31000], "state": "TASK_RUNNING"}],
}

Answer = t.Callable[[BaseHTTPRequestHandler], None]


def reply(handler: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def apps(*found: t.Any) -> Answer:
    return lambda handler: reply(handler, 200, json.dumps({"apps": list(found)}).encode())


class FakeMarathon:
    """A server whose answer can be changed; it keeps what it was asked."""

    def __init__(self) -> None:
        self.answer: Answer = apps()
        self.events: Answer = lambda handler: reply(handler, 404)
        self.asked: list[tuple[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append((self.path, self.headers.get("Authorization", "")))
                (outer.events if self.path.startswith("/v2/events") else outer.answer)(self)

            def log_message(self, *_: t.Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def marathons() -> t.Iterator[t.Callable[[], FakeMarathon]]:
    made: list[FakeMarathon] = []

    def make() -> FakeMarathon:
        made.append(FakeMarathon())
        return made[-1]

    yield make
    for one in made:
        one.close()


def client(*urls: str, **more: t.Any) -> balancer_marathon.Marathon:
    return balancer_marathon.Marathon(urls, CREDENTIAL, **{"timeout": 0.5, "deadline": 1.0, **more})


def away(marathon: balancer_marathon.Marathon) -> str:
    with pytest.raises(balancer_marathon.Away) as error:
        marathon.apps()
    return str(error.value)


def test_all_applications_are_read_with_their_tasks_and_the_credential(marathons):
    one = marathons()
    one.answer = apps(APP)
    assert client(one.url).apps() == [APP]
    assert one.asked == [("/v2/apps?embed=apps.tasks", "Basic bWFyYXRob246MDEyMzQ1Njc4OWFiY2RlZg==")]


def test_the_next_address_is_asked_and_kept(marathons):
    bad, good = marathons(), marathons()
    bad.answer, good.answer = (lambda handler: reply(handler, 503)), apps(APP)
    marathon = client("http://127.0.0.1:1", bad.url, good.url)
    assert marathon.apps() == marathon.apps() == [APP]
    assert (len(bad.asked), len(good.asked)) == (1, 2)


def test_a_redirect_is_followed_to_addresses_of_the_site_alone(marathons):
    standby, leader, stranger = marathons(), marathons(), marathons()
    leader.answer = stranger.answer = apps(APP)
    standby.answer = lambda handler: reply(handler, 302, Location=f"{leader.url}/v2/apps")
    assert client(standby.url, leader.url).apps() == [APP]
    standby.answer = lambda handler: reply(handler, 307, Location=f"{stranger.url}/v2/apps?x=1")
    assert away(client(standby.url)).endswith("which is not in marathon_lb_marathon_urls") and stranger.asked == []
    for location in ("", "ftp://x/", "//", "http://a:b@x/", f"{standby.url.upper()}:x/"):
        standby.answer = lambda handler, location=location: reply(handler, 302, Location=location)
        assert "redirects" in away(client(standby.url))
    standby.answer = lambda handler: reply(handler, 302, Location=standby.url)
    assert "redirects again and again" in away(client(standby.url))


def announced(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"apps": []')


def drips(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    for _try in range(40):
        time.sleep(0.1)
        try:
            handler.wfile.write(b" ")
        except OSError:
            return


def hangs(handler: BaseHTTPRequestHandler) -> None:
    time.sleep(2)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda handler: reply(handler, 401), "status 401: the credential is refused"),
        (lambda handler: reply(handler, 502), "status 502"),
        (lambda handler: reply(handler, 200), "not JSON"),
        (lambda handler: reply(handler, 200, b"<html>"), "not JSON"),
        (lambda handler: reply(handler, 200, b'{"apps": ['), "not JSON"),
        (lambda handler: reply(handler, 200, b"[" * 100000), "not JSON"),
        (lambda handler: reply(handler, 200, b"\xff\xfe{}"), "not JSON"),
        (lambda handler: reply(handler, 200, b"[]"), "without a list"),
        (lambda handler: reply(handler, 200, b"null"), "without a list"),
        (lambda handler: reply(handler, 200, b'{"apps": {}}'), "without a list"),
        (lambda handler: reply(handler, 200, b'{"message": "x"}'), "without a list"),
        (announced, "half-way"),
        (drips, "more than 1 seconds"),
        (hangs, "does not answer"),
        (lambda handler: handler.wfile.write(b"HTTP/9.9 x\r\n\r\n"), "does not answer"),
        (lambda handler: None, "does not answer"),
    ],
)
def test_an_answer_that_can_not_be_used_is_one_sentence(marathons, answer, words):
    one = marathons()
    one.answer = answer
    sentence = away(client(one.url))
    assert words in sentence and sentence.isprintable() and "0123456789abcdef" not in sentence


def test_an_answer_has_a_largest_size(marathons, monkeypatch):
    monkeypatch.setattr(balancer_marathon, "LARGEST", 1000)
    one = marathons()
    one.answer = apps({"id": "x" * 2000})
    assert "more than 0 MiB" in away(client(one.url))


@pytest.mark.parametrize("url", ["", "x", "ftp://m1", "http://", "http://a:b@m1:8080", "http://m1:x", "https://m1:99999"])
def test_an_address_is_a_url_without_a_user(url):
    with pytest.raises(ValueError):
        balancer_marathon.address(url)


def certificate(folder: pathlib.Path, name: str, names: str) -> str:
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext", names]
    subprocess.run([*command, "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem"], check=True, capture_output=True)
    return f"{folder}/{name}.pem"


def test_marathon_s_certificate_is_verified(marathons, tmp_path):
    import ssl

    good = certificate(tmp_path, "good", "subjectAltName=DNS:localhost")
    other = certificate(tmp_path, "other", "subjectAltName=DNS:localhost")
    one = marathons()
    one.answer = apps(APP)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(good, good.replace(".pem", ".key"))
    one.server.socket = context.wrap_socket(one.server.socket, server_side=True)
    port = one.server.server_port
    assert client(f"https://localhost:{port}", ca_file=good).apps() == [APP]
    assert "self-signed certificate" in away(client(f"https://localhost:{port}", ca_file=other))
    assert "certificate is not valid" in away(client(f"https://127.0.0.1:{port}", ca_file=good))
    assert [path for path, _headers in one.asked] == ["/v2/apps?embed=apps.tasks"]
    for broken in (f"{tmp_path}/absent", f"{tmp_path}/good.key"):
        with pytest.raises(ValueError, match="CA file"):
            client(f"https://localhost:{port}", ca_file=broken)


# Events


def stream(*parts: bytes | float) -> Answer:
    """An answer of chunks, with waits of so many seconds between them."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for part in parts:
            if isinstance(part, float):
                time.sleep(part)
            else:
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                handler.wfile.flush()
        handler.close_connection = True

    return answer


def test_events_are_known_from_heartbeats_and_garbage(marathons):
    one = marathons()
    one.events = stream(b"event: api_post_event\r\ndata: {}\r\n\r\n", b"\r\n", b"\xff\xfe" * 70000, b"\nevent:", b" x\n", b"0\r\n")
    opened = client(one.url).events(1.0)
    found = []
    with contextlib.suppress(balancer_marathon.Away):  # it ends without the last chunk
        for is_event in opened.lines():
            found.append(is_event)
    opened.close()
    assert found.count(True) == 2
    assert "event_type=status_update_event" in one.asked[0][0] and one.asked[0][1].startswith("Basic ")


def test_a_stream_that_hangs_counts_as_broken(marathons):
    one = marathons()
    one.events = stream(b"\r\n", 3.0)
    opened = client(one.url).events(0.3)
    began = time.monotonic()
    with pytest.raises(balancer_marathon.Away, match="the stream of events ended"):
        list(opened.lines())
    opened.close()
    assert time.monotonic() - began < 2


def test_all_is_read_again_after_an_event_and_after_each_end_of_the_stream(marathons):
    one = marathons()
    sent, ended = threading.Event(), threading.Event()

    def events(handler: BaseHTTPRequestHandler) -> None:
        stream(b"\r\n")(handler)
        sent.wait(20)
        stream_part = b"event: x\n\n"
        with contextlib.suppress(OSError):
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(stream_part), stream_part))
        ended.wait(20)

    one.events = events
    changed = threading.Event()
    threading.Thread(target=balancer_program.listen, args=(client(one.url), changed, 3.0, 0.1), daemon=True).start()
    for step in (None, sent, ended):  # the beginning, an event, the end
        if step is not None:
            step.set()
        assert changed.wait(10)
        changed.clear()
    began = time.monotonic()
    while len(one.asked) < 2 and time.monotonic() - began < 10:
        time.sleep(0.05)
    assert len(one.asked) >= 2


# The program


class FakeHAProxy:
    """HAProxy's two sockets: it runs whatever configuration lies there at a reload, unless a test keeps it from starting."""

    def __init__(self, folder: str) -> None:
        self.state, self.runtime = f"{folder}/state", f"{folder}/run"
        os.mkdir(self.state)
        os.mkdir(self.runtime)
        self.refused = ""  # a text with which no configuration starts
        self.runs = ""
        self.reloads = 0
        self.answers = {
            "show info": lambda: f"Name: HAProxy\nDescription: {self.runs}\n",
            "show servers state": lambda: "1\n# be_id\n",
            "reload": self.reload,
        }
        self.sockets = [self.listen("admin"), self.listen("master")]

    def start(self) -> None:
        text = balancer_haproxy.get(f"{self.state}/haproxy.cfg")
        if not self.refused or self.refused not in text:
            self.runs = next(line.split()[1] for line in text.splitlines() if "description" in line)

    def reload(self) -> str:
        self.reloads += 1
        self.start()
        return ""

    def listen(self, name: str) -> socket.socket:
        server = socket.socket(socket.AF_UNIX)
        server.bind(f"{self.runtime}/{name}.sock")
        server.listen(5)

        def serve() -> None:
            while True:
                try:
                    connection, _address = server.accept()
                except OSError:
                    return
                with connection:
                    command = connection.recv(1000).decode().strip()
                    if self.runs or command == "reload":
                        connection.sendall(self.answers[command]().encode())

        threading.Thread(target=serve, daemon=True).start()
        return server

    def close(self) -> None:
        for one in self.sockets:
            one.close()


@pytest.fixture
def haproxy() -> t.Iterator[FakeHAProxy]:
    # pytest's folders are too deep for the 107 characters of a socket's path
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        fake = FakeHAProxy(folder)
        yield fake
        fake.close()


SETTINGS: dict[str, t.Any] = {
    "address": "127.0.0.1",
    "http_port": 80,
    "https_port": 443,
    "tls": "",
    "stats_port": 9090,
    "trusted_proxies": [],
    "front_headers": [],
    "connections": 1000,
    "timeout": 60,
    "drain_seconds": 60,
    "groups": ["external"],
    "networks": [],
    "health": True,
    "first_port": 10000,
    "last_port": 20000,
    "also_ports": [],
    "reserved": [],
    "interval_seconds": 60,
}


class Asked:
    """A Marathon without a network."""

    def __init__(self) -> None:
        self.found: t.Any = []

    def apps(self) -> t.Any:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def program(haproxy: FakeHAProxy, marathon: Asked, check: str = "exit 0") -> balancer_program.Program:
    script = pathlib.Path(haproxy.state).parent / "haproxy"
    script.write_text(f"#!/bin/sh\n{check}\n", encoding="utf-8")
    script.chmod(0o755)
    control = balancer_haproxy.HAProxy(haproxy.state, haproxy.runtime, str(script), patience=0.5)
    settings = {**SETTINGS, "state": haproxy.state, "runtime": haproxy.runtime}
    return balancer_program.Program(settings, t.cast(t.Any, marathon), control, lambda host: "")


def report(haproxy: FakeHAProxy) -> t.Any:
    return json.loads(balancer_haproxy.get(f"{haproxy.state}/report.json"))


def test_there_is_a_configuration_before_marathon_answers(haproxy):
    marathon = Asked()
    made = program(haproxy, marathon)
    made.begin()
    text = balancer_haproxy.get(f"{haproxy.state}/haproxy.cfg")
    assert "frontend marathon_http" in text and haproxy.reloads == 0
    assert stat.S_IMODE(os.stat(f"{haproxy.state}/haproxy.cfg").st_mode) == 0o640
    haproxy.start()
    marathon.found = [APP]
    made.refresh()
    assert haproxy.reloads == 1 and "frontend x_10100" in balancer_haproxy.get(f"{haproxy.state}/haproxy.cfg")
    assert report(haproxy)["good"] and report(haproxy)["published"][0]["app"] == "/x"
    made.refresh()
    assert haproxy.reloads == 1


def test_without_marathon_the_last_configuration_stays_and_the_report_says_so(haproxy):
    marathon = Asked()
    marathon.found = [APP]
    made = program(haproxy, marathon)
    made.begin()
    haproxy.start()
    made.refresh()
    before = balancer_haproxy.get(f"{haproxy.state}/haproxy.cfg")
    for trouble in (balancer_marathon.Away("m1 does not answer"), balancer_marathon.Away("m1 answers with something that is not JSON")):
        marathon.found = trouble
        made.refresh()
        assert balancer_haproxy.get(f"{haproxy.state}/haproxy.cfg") == before and haproxy.reloads == 1
        assert not report(haproxy)["good"] and str(trouble) in report(haproxy)["status"]
    # The same after a start of the program itself, which must not begin with nothing.
    again = program(haproxy, marathon)
    again.begin()
    again.refresh()
    assert balancer_haproxy.get(f"{haproxy.state}/haproxy.cfg") == before and haproxy.reloads == 1


def test_an_error_of_our_own_keeps_the_last_configuration(haproxy, monkeypatch):
    marathon = Asked()
    made = program(haproxy, marathon)
    made.begin()

    def fails(*_: t.Any) -> t.NoReturn:
        raise KeyError("x")

    monkeypatch.setattr("ansible_collections.deephdc.accelerators.plugins.module_utils._mesos.balancer_apps.read", fails)
    before = balancer_haproxy.get(f"{haproxy.state}/haproxy.cfg")
    made.refresh()
    assert balancer_haproxy.get(f"{haproxy.state}/haproxy.cfg") == before and "KeyError" in report(haproxy)["status"]


def test_a_service_whose_lines_haproxy_refuses_is_left_out_alone(haproxy):
    marathon = Asked()
    marathon.found = [APP, {**APP, "id": "/y", "portDefinitions": [{"port": 10101}]}]
    wrong = """
line=$(grep -n "^backend y_10101" "$3" | cut -d: -f1)
[ -z "$line" ] || { echo "[ALERT] (1) : config : parsing [$3:$line] : no"; exit 1; }"""
    made = program(haproxy, marathon, wrong)
    made.begin()
    haproxy.start()
    made.refresh()
    assert [one["app"] for one in report(haproxy)["published"]] == ["/x"]
    assert report(haproxy)["refused"] == [
        {"app": "/y", "label": "", "sentence": "port 0 is not published: HAProxy does not take its lines"}
    ]


def test_a_configuration_that_is_refused_as_a_whole_changes_nothing(haproxy):
    marathon = Asked()
    marathon.found = [APP]
    program(haproxy, Asked()).begin()
    before = balancer_haproxy.get(f"{haproxy.state}/haproxy.cfg")
    made = program(haproxy, marathon, "echo '[ALERT] (1) : no certificate'; exit 1")
    made.refresh()
    assert balancer_haproxy.get(f"{haproxy.state}/haproxy.cfg") == before
    assert "no certificate" in report(haproxy)["status"] and not report(haproxy)["good"]


def test_a_configuration_that_does_not_start_is_taken_back(haproxy):
    marathon = Asked()
    made = program(haproxy, marathon)
    made.begin()
    haproxy.start()
    runs = haproxy.runs
    haproxy.refused = "x_10100"
    marathon.found = [APP]
    made.refresh()
    assert haproxy.runs == runs and haproxy.reloads == 2
    assert "x_10100" not in balancer_haproxy.get(f"{haproxy.state}/haproxy.cfg") and "former one goes on" in report(haproxy)["status"]
    haproxy.refused = ""
    made.refresh()
    assert haproxy.runs != runs and report(haproxy)["good"]


def test_a_program_that_was_killed_before_the_reload_makes_up_for_it(haproxy):
    marathon = Asked()
    marathon.found = [APP]
    made = program(haproxy, marathon)
    made.begin()
    haproxy.start()
    made.refresh()
    haproxy.runs = "deephdc-another"
    program(haproxy, marathon).refresh()
    assert haproxy.runs == report(haproxy)["haproxy"]["runs"] != "deephdc-another"


def test_a_port_of_another_process_is_not_asked_of_haproxy(haproxy):
    marathon = Asked()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        marathon.found = [APP, {**APP, "id": "/y", "portDefinitions": [{"port": port}]}]
        made = program(haproxy, marathon)
        made.ports = made.ports.__class__(10000, 65535)
        made.begin()
        made.refresh()
    assert [one["app"] for one in report(haproxy)["published"]] == ["/x"]
    assert f"another process of the balancer has port {port}" in report(haproxy)["refused"][0]["sentence"]


def test_who_has_what_is_known_after_a_restart(haproxy):
    marathon = Asked()
    marathon.found = [APP]
    program(haproxy, marathon).refresh()
    marathon.found = [APP, {**APP, "id": "/a"}]
    program(haproxy, marathon).refresh()
    assert [one["app"] for one in report(haproxy)["published"]] == ["/x"]
    for broken in ("", "[]", "{", '{"claims": 7, "alive": 7}'):
        balancer_haproxy.put(f"{haproxy.state}/record.json", broken)
        program(haproxy, marathon).refresh()
        assert report(haproxy)["good"]


def test_maps_of_former_configurations_are_removed(haproxy):
    marathon = Asked()
    made = program(haproxy, marathon)
    made.begin()
    haproxy.start()
    for name in ("a", "b", "c"):
        marathon.found = [{**APP, "labels": {"HAPROXY_GROUP": "external", "HAPROXY_0_VHOST": f"{name}.example.org"}}]
        made.refresh()
    (path,) = pathlib.Path(haproxy.state).glob("routes-*.map")
    assert path.read_text(encoding="utf-8") == "c.example.org/ x_10100\n"


def test_the_status_is_good_only_if_all_is(haproxy):
    settings = {**SETTINGS, "state": haproxy.state}
    assert balancer_program.seen(settings) == (False, "marathon-lb.service has written no report yet.")
    marathon = Asked()
    made = program(haproxy, marathon)
    made.begin()
    made.refresh()
    assert balancer_program.seen(settings) == (False, "HAProxy does not run. 0 ports of 0 applications are published.")
    haproxy.start()
    made.refresh()
    assert balancer_program.seen(settings) == (True, "0 ports of 0 applications are published.")
    os.utime(f"{haproxy.state}/report.json", (1, 1))
    assert not balancer_program.seen(settings)[0]


def test_ports_that_haproxy_has_itself_are_its_own(haproxy):
    control = balancer_haproxy.HAProxy(haproxy.state, haproxy.runtime)
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        own.listen()
        port = own.getsockname()[1]
        assert control.others([port], "127.0.0.1") == {port}
        balancer = balancer_conf.Balancer(haproxy.state, haproxy.runtime, address="127.0.0.1")
        balancer_haproxy.put(control.configuration, balancer_conf.write([Service("/x", 0, port, "tcp", Options())], balancer).text)
        haproxy.start()
        assert control.others([port], "127.0.0.1") == set()
