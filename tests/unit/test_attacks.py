"""The attacks' data, and the judge that says which of them were let in: a judge that sees nothing would pass every front."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

# The attacks are programs beside each other, no package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "attacks"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "attacks/hostile"))

import hostile
import run
from wire import Reply, complete

# What names alone would not show: scripts/narrow.py.
READS = ("tests/attacks",)
ATTACKS = Path(__file__).resolve().parents[1] / "attacks"
HOSTILE = ATTACKS / "hostile"
DOORS = yaml.safe_load((ATTACKS / "fronts.yml").read_text(encoding="utf-8"))["front"]["doors"]
GOOD = "GET /jobs?a=x1~ HTTP/1.1\r\nHost: app:8000\r\nX-Remote-User: alice\r\nAuthorization: Basic c2l0ZQ==\r\nX-Note: x"


@pytest.fixture
def front():
    """A front that needs no host: only what the judge looks at."""
    found = object.__new__(run.Front)
    found.doors = DOORS
    found.credential = "Basic c2l0ZQ=="
    found.sessions = {"alice": {"__Host-front": "0123456789abcdef0123"}}
    found.usual = {}
    found.application = object.__new__(run.Application)
    found.application.seen = {}
    return found


def attack(expect: str) -> run.Attack:
    return run.Attack("id", "x1", "both", {"comes": "token", "expect": expect}, ())


def test_there_are_enough_of_them_and_each_is_another():
    found = run.attacks(DOORS)
    assert len({one.id for one in found}) >= 250
    assert len({(one.id, one.door) for one in found}) == len(found) == len({one.mark for one in found})
    assert {one.data["expect"] for one in found} == {"refused", "clean", "no-session", "stays", "still-signed-in"}
    assert {one.data["comes"] for one in found} == {"token", "session", "opaque", "nothing"}


def test_a_good_request_is_no_success_of_an_attack(front):
    front.application.seen = {"x1": [{"head": GOOD, "body": ""}]}
    assert front.verdict(attack("clean"), Reply(200, "", ""), "") == ""
    assert front.verdict(attack("refused"), Reply(200, "", ""), "") != ""


@pytest.mark.parametrize(
    "head",
    [
        GOOD + "\r\nX_Remote_User: mallory",
        GOOD + "\rX-Evil: mallory",
        GOOD.replace("alice", "bob"),
        GOOD.replace("X-Remote-User: alice\r\n", ""),
        GOOD + "\r\nx-remote-user: alice",
        GOOD.replace("Basic c2l0ZQ==", "Bearer eyJhbGciOiJSUzI1NiJ9.e30.eA"),
        GOOD.replace("Authorization: Basic c2l0ZQ==\r\n", ""),
        GOOD + "\r\nCookie: __Host-front=0123456789abcdef0123",
        GOOD + "\r\nOIDC_access_token: eyJhbGciOiJSUzI1NiJ9.e30.eA",
        GOOD.replace("a=x1~", "a=x1~&mallory"),
    ],
)
def test_what_was_forged_or_leaked_is_seen(front, head: str):
    front.application.seen = {"x1": [{"head": head, "body": ""}]}
    assert front.verdict(attack("clean"), Reply(200, "", ""), "") != ""


def test_a_second_request_behind_the_first_is_seen(front):
    front.application.seen = {"x1": [{"head": GOOD, "body": ""}] * 2}
    assert front.verdict(attack("clean"), Reply(200, "", ""), "") == "reached the application more than once"


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.test/",
        "//evil.test",
        "/\\evil.test",
        "\\\\evil.test/",
        "https://front.site.test@evil.test/",
        "https://front.site.test.evil.test/",
        " //evil.test",
        "/\t/evil.test",
        "javascript:alert(1)",
        "http://front.site.test/",
    ],
)
def test_a_browser_that_is_sent_away_is_seen(front, target: str):
    assert front.sent_away(Reply(302, f"HTTP/1.1 302 Found\r\nLocation: {target}", ""), "front.site.test")


@pytest.mark.parametrize(
    "target", ["/web/", "https://front.site.test/.front/loggedout.html", "https://iam.site.test/auth?x=https://evil.test"]
)
def test_a_browser_that_stays_is_let_alone(front, target: str):
    assert not front.sent_away(Reply(302, f"HTTP/1.1 302 Found\r\nLocation: {target}", ""), "front.site.test")


def test_an_answer_is_read_to_its_end():
    assert not complete(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx", b"GET ")
    assert complete(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nxy", b"GET ")
    assert complete(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", b"HEAD ")
    assert complete(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", b"GET ")


# --- further classes

CLASSES = ("answers", "bodies", "bound", "lies", "names", "origins", "pages", "paths", "redirects", "users")
HOSTILE_DOORS = yaml.safe_load((HOSTILE / "fronts.yml").read_text(encoding="utf-8"))["front"]["doors"]


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_has_enough_attacks_and_requests_that_must_pass(name: str):
    found = run.attacks(HOSTILE_DOORS, [name], HOSTILE)
    good = {one.id for one in found if one.data["expect"] in ("passes", "answers")}
    assert good
    assert len({one.id for one in found if one.data["expect"] not in ("passes", "answers", "known")} - good) >= 20
    assert len({(one.id, one.door) for one in found}) == len(found)
    assert all(hasattr(hostile.Hostile, f"judge_{one.data['expect']}") for one in found)


@pytest.fixture
def judge():
    found = object.__new__(hostile.Hostile)
    found.doors = HOSTILE_DOORS
    found.host = "front.site.test"
    return found


def page(*lines: str) -> Reply:
    return Reply(200, "", "\n".join(["APPLICATION ALPHA", "HEADER X-Remote-User: alice", *lines]))


@pytest.mark.parametrize("line", ["HEADER X~Remote~User: mallory", "HEADER HTTP_X_REMOTE_USER: mallory", "HEADER x.remote.user: bob"])
def test_a_folded_name_is_seen(judge, line: str):
    one = run.Attack("id", "x1", "cgi", {"names": ["X-Remote-User"]}, ())
    assert judge.judge_unforged(one, page(), "") == ""
    assert judge.judge_unforged(one, page(line), "") != ""


@pytest.mark.parametrize("body", ["APPLICATION BETA", "APPLICATION OUTSIDE", "OUTSIDE"])
def test_another_application_is_seen(judge, body: str):
    one = run.Attack("id", "x1", "cgi", {}, ())
    assert judge.judge_inside(one, page(), "") == ""
    assert judge.judge_inside(one, Reply(200, "", body), "") != ""


@pytest.mark.parametrize(
    "lacking", ["Strict-Transport-Security", "X-Content-Type-Options", "Referrer-Policy", "X-Frame-Options", "Cache-Control"]
)
def test_a_page_without_a_header_is_seen(judge, lacking: str):
    values = {
        "Strict-Transport-Security": "max-age=31536000",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "X-Frame-Options": "SAMEORIGIN",
        "Cache-Control": "no-store",
    }
    one = run.Attack("id", "x1", "api", {"statuses": [403]}, ())
    head = ["HTTP/1.1 403 Forbidden", *(f"{name}: {value}" for name, value in values.items())]
    assert judge.judge_safe(one, Reply(403, "\r\n".join(head), ""), "") == ""
    assert judge.judge_safe(one, Reply(403, "\r\n".join(line for line in head if lacking not in line), ""), "") != ""
    twice = [*head, f"{lacking}: {values[lacking]}"]
    assert lacking == "X-Frame-Options" or judge.judge_safe(one, Reply(403, "\r\n".join(twice), ""), "") != ""
