"""Attacks of further classes on the front of the scenario oidc_hostile; see ../README.md for the data's keys.

usage: hostile.py FRONT CLASS [--only ID]      FRONT: a name in fronts.yml; CLASS: a file's name

The last line is a JSON object: attacks, known and must_pass (how many there were), let_in and turned_away (which; each with id, door,
reason). Known ones are attacks that get in, and that nothing here can refuse: one that no longer does is turned away.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import ssl
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml
from forge import Forge
from login import session_of
from run import Attack, Front, attacks, moment
from wire import Application, Reply, exchange

HERE = Path(__file__).parent
WORKERS = 6
ISSUERS = {"opaque": "https://lies.site.test:9444", "keys": "https://lies.site.test:9444/keys"}
# Headers of answers that each page of the front must have, also an error's.
SAFE = {
    "strict-transport-security": r"max-age=31536000.*",
    "x-content-type-options": r"nosniff",
    "referrer-policy": r"same-origin|no-referrer|strict-origin.*",
}


def tell(host: str, port: int, answers: dict[str, t.Any]) -> None:
    """Set the answers of a liar (tests/stand_ins/oidc/lying_provider.py); times like now+60 are filled in."""
    connection = (
        http.client.HTTPSConnection(host, port, context=ssl.create_default_context(), timeout=20)
        if port == 9444
        else http.client.HTTPConnection(host, port, timeout=20)
    )
    connection.request("PUT", "/answers", json.dumps(answers))
    assert connection.getresponse().status == 200
    connection.close()


def changed(known: dict[str, t.Any], changes: dict[str, t.Any]) -> dict[str, t.Any]:
    """null takes a key away, "null" is null."""
    made = {**known, **{key: moment(value) for key, value in changes.items()}}
    made = {key: value for key, value in made.items() if value is not None}
    return {key: None if value == "null" else value for key, value in made.items()}


class Hostile(Front):
    """The parts of Front that make requests, with judges of its own."""

    def __init__(self, name: str) -> None:
        self.data = yaml.safe_load((HERE / "fronts.yml").read_text(encoding="utf-8"))[name]
        self.host = self.data["host"]
        self.callback = self.data["callback"]
        self.doors = self.data["doors"]
        self.forge = Forge()
        self.application = Application()
        self.sessions: dict[str, dict[str, str]] = {"alice": {}}

    def sign_in(self) -> None:
        self.sessions["alice"] = dict(session_of(self.own("web"), "alice").cookies[self.host])

    def public(self, kid: str) -> dict[str, str]:
        return {name: value for name, value in self.forge.keys[kid].items() if name in ("kty", "n", "e", "kid", "use", "alg")}

    def text(self, template: str, attack: Attack, token: str) -> str:
        door = self.doors[attack.door]
        for word in ("own", "beta"):
            template = template.replace("{" + word + "}", door.get(word, ""))
        return super().text(template.replace("{short id}", attack.mark), attack, token)

    def token(self, attack: Attack) -> str:
        if attack.door == "opaque":
            return f"told-{attack.mark}"
        good = self.forge.claims(self.audience(attack.door), attack.data.get("user", "alice"))
        good["iss"] = ISSUERS.get(attack.door, good["iss"])
        claims = changed(good, attack.data.get("claims", {}))
        return self.forge.token(claims)

    def lie(self, attack: Attack) -> dict[str, t.Any]:
        """What the liar must answer for an attack's token."""
        claims = {**self.forge.claims(self.audience(attack.door)), "iss": ISSUERS["opaque"], "active": True, "token_type": "Bearer"}
        return {
            key: value
            for key, value in {"json": changed(claims, attack.data.get("claims", {})), **attack.data.get("answer", {})}.items()
            if value is not None
        }

    def request(self, attack: Attack) -> bytes:
        """chunks: size and number of a chunked body's."""
        if "chunks" in attack.data:
            size, count = attack.data["chunks"]
            attack.data["body"] = f"{size:x}\r\n{'x' * size}\r\n" * count + "0\r\n\r\n"
        return super().request(attack)

    def attempt(self, attack: Attack) -> tuple[Reply, str]:
        """The answer, and the whole request."""
        host = self.doors[attack.door].get("host", self.host)
        request = self.request(attack)
        return exchange(host, request, attack.data.get("linger", 0.6 if "raw" in attack.data else 0.0)), request.decode("latin-1")

    def prepare(self, chosen: list[Attack]) -> None:
        if "web" in self.doors and any(attack.data["comes"] == "session" for attack in chosen):
            self.sign_in()
        if any(attack.door == "keys" for attack in chosen):
            tell("lies.site.test", 9444, {"/keys/jwks": {"json": {"keys": [self.public("key1")]}}})
        lies = {f"token told-{attack.mark}": self.lie(attack) for attack in chosen if attack.door == "opaque"}
        if lies:
            tell("lies.site.test", 9444, lies)
        said = [attack for attack in chosen if attack.door == "answers" and "says" in attack.data]
        answers = {f"/{attack.mark}": {"raw": self.answer(attack), "delay": attack.data.get("delay", 0)} for attack in said}
        if answers:
            tell("app", 8010, answers)

    def answer(self, attack: Attack) -> str:
        """An application's answer; its lines are the data's, and it ends like any other."""
        if "answer" in attack.data:
            return attack.data["answer"]
        early, count = attack.data.get("flood", [100, 0])
        flood = f"HTTP/1.1 {early} Early\r\nLink: </mallory>\r\n\r\n" * count
        lines = [self.text(line, attack, "") for line in attack.data["says"]]
        status = attack.data.get("status", "200 OK")
        return flood + "\r\n".join(
            [f"HTTP/1.1 {status}", "Content-Type: text/plain", "Content-Length: 4", "Connection: close", *lines, "", "said"]
        )

    # --- what came of it

    def reached(self, attack: Attack, reply: Reply) -> bool:
        if self.doors[attack.door].get("judge") == "page":
            return "APPLICATION" in reply.body or "OUTSIDE" in reply.body
        if attack.door == "answers":
            return "said" in reply.body
        return bool(self.application.of(attack.mark))

    def wrong(self, attack: Attack, reply: Reply, request: str) -> str:
        """Why an attack was let in, or a good request turned away; empty if neither."""
        expect = attack.data["expect"]
        judge: t.Callable[[Attack, Reply, str], str] = getattr(self, f"judge_{expect}")
        return judge(attack, reply, request)

    def judge_passes(self, attack: Attack, reply: Reply, _request: str) -> str:
        if reply.status not in attack.data.get("statuses", [200]):
            return f"answered {reply.status}: {reply.body[:150]!r}"
        if not self.reached(attack, reply):
            return "did not reach the application"
        missing = [text for text in attack.data.get("has", []) if self.text(text, attack, "") not in reply.head + "\r\n\r\n" + reply.body]
        return f"lacks {missing}: {reply.head}" if missing else ""

    judge_known = judge_passes

    def judge_answers(self, attack: Attack, reply: Reply, _request: str) -> str:
        """A page of the front's own that honest users need; ends: it ends the session."""
        missing = [text for text in attack.data.get("has", []) if self.text(text, attack, "") not in reply.head + "\r\n\r\n" + reply.body]
        if attack.data.get("ends"):
            if self.served(self.sessions["alice"], attack._replace(door="web")):
                return "did not end the session"
            self.sign_in()
        return f"answered {reply.status}, lacks {missing}: {reply.head}" if missing or reply.status not in attack.data["statuses"] else ""

    def judge_refused(self, attack: Attack, reply: Reply, _request: str) -> str:
        if self.reached(attack, reply):
            return f"reached the application, which answered {reply.status}"
        allowed = attack.data.get("statuses")
        return f"answered {reply.status}" if allowed and reply.status not in allowed else ""

    def judge_inside(self, attack: Attack, reply: Reply, _request: str) -> str:
        found = re.search(r"APPLICATION BETA|(?:APPLICATION )?OUTSIDE|Apache Tomcat|HTTP Status", reply.body)
        if found and found[0] not in ("Apache Tomcat", "HTTP Status"):
            return f"left the application: {found[0]}, {reply.status}"
        return ""

    def judge_unforged(self, attack: Attack, reply: Reply, _request: str) -> str:
        """As CGI folds names, so does this: what is left of the client's must not look like what the front says."""
        names = {re.sub(r"[^A-Z0-9]", "_", name.upper()).removeprefix("HTTP_"): name for name in attack.data["names"]}
        values: dict[str, list[str]] = {}
        for line in reply.body.splitlines():
            if line.startswith("HEADER "):
                name, _colon, value = line[7:].partition(": ")
                values.setdefault(re.sub(r"[^A-Z0-9]", "_", name.upper()).removeprefix("HTTP_"), []).append(value)
        for name in names:
            if any("mallory" in value for value in values.get(name, [])):
                return f"reached the application as {name}: {values[name]}"
        if "APPLICATION" in reply.body and values.get("X_REMOTE_USER", []) != ["alice"]:
            return f"reached the application as user {values.get('X_REMOTE_USER')}"
        return ""

    def judge_small(self, attack: Attack, reply: Reply, _request: str) -> str:
        """No more than the limit may be there, and nothing of a request without a length."""
        records = self.application.of(attack.mark)
        if len(records) > 1 or self.application.of(""):
            return "became two requests"
        if any(len(record["body"]) > 10000 for record in records):
            return f"reached the application with {len(records[0]['body'])} bytes"
        if records and attack.data.get("reached") is False:
            return "reached the application"
        return "answered 200" if reply.status == 200 and len(records) != 1 else ""

    def judge_stripped(self, attack: Attack, reply: Reply, _request: str) -> str:
        """never: what must not be in the head of the answer."""
        for pattern in attack.data["never"]:
            if found := re.search(pattern, reply.head, re.IGNORECASE):
                return f"passed on {found[0]!r}"
        return ""

    def judge_safe(self, attack: Attack, reply: Reply, request: str) -> str:
        """A page of the front's own, with the headers that it must have."""
        statuses = attack.data["statuses"]
        if reply.status not in statuses:
            return f"answered {reply.status}, which is none of {statuses}"
        wanted = {name: pattern for name, pattern in SAFE.items() if name not in attack.data.get("without", [])}
        if reply.status in (401, 403):
            wanted["cache-control"] = r".*no-store.*"
        for name, pattern in wanted.items():
            values = reply.headers(name)
            if len(values) != 1 or not re.fullmatch(pattern, values[0]):
                return f"{reply.status} has {name}: {values}"
        framed = reply.headers("x-frame-options") or [one for one in reply.headers("content-security-policy") if "frame-ancestors" in one]
        if not framed:
            return f"{reply.status} can be put into a frame"
        if reply.headers("x-powered-by") or any(re.search(r"\d", value) for value in reply.headers("server")):
            return "says too much of its server"
        if "<mallory" in reply.body + reply.head:
            return "echoes what the client sent"
        return ""

    def judge_stays(self, attack: Attack, reply: Reply, _request: str) -> str:
        """The session goes on, the browser is sent nowhere else, and nothing of the client's making is in the page."""
        away = self.sent_away(reply, self.host)
        if away:
            return away
        if re.search(r"evil|mallory", reply.body + "".join(reply.headers("location")), re.IGNORECASE) and not attack.data.get(
            "to_provider"
        ):
            return f"echoes what the client sent: {reply.status}"
        if reply.status >= 500:
            return f"answered {reply.status}"
        if not self.served(self.sessions["alice"], attack._replace(door="web")):
            self.sign_in()
            return "ended a session"
        return ""


def run(front: Hostile, chosen: list[Attack]) -> dict[str, t.Any]:
    front.application.look()
    front.application.seen.clear()
    front.prepare(chosen)

    def one(attack: Attack) -> tuple[Attack, Reply, str]:
        try:
            return attack, *front.attempt(attack)
        except (OSError, AssertionError) as error:
            raise SystemExit(f"error: {attack.id} at {attack.door}: {error!r}") from error

    alone = [attack for attack in chosen if attack.data["expect"] in ("stays", "answers")]
    result: dict[str, t.Any] = {"attacks": 0, "known": 0, "must_pass": 0, "let_in": [], "turned_away": [], "statuses": {}}
    with ThreadPoolExecutor(WORKERS) as pool:
        done = list(pool.map(one, [attack for attack in chosen if attack not in alone]))
    front.application.look()
    verdicts = [(attack, reply, front.wrong(attack, reply, request)) for attack, reply, request in done]
    for attack in alone:
        _attack, reply, request = one(attack)
        verdicts.append((attack, reply, front.wrong(attack, reply, request)))
    for attack, reply, wrong in verdicts:
        kind = {"passes": "must_pass", "answers": "must_pass", "known": "known"}.get(attack.data["expect"], "attacks")
        result[kind] += 1
        result["statuses"][f"{attack.id} {attack.door}"] = reply.status
        if wrong:
            result["let_in" if kind == "attacks" else "turned_away"].append({"id": attack.id, "door": attack.door, "reason": wrong})
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("front")
    parser.add_argument("file")
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true", help="show each answer's status")
    options = parser.parse_args()
    front = Hostile(options.front)
    chosen = [attack for attack in attacks(front.doors, [options.file], HERE) if options.only in attack.id]
    if "web" not in front.doors:
        chosen = [attack for attack in chosen if attack.data["comes"] != "session"]
    result = run(front, chosen)
    statuses = result.pop("statuses")
    if options.all:
        for name, status in statuses.items():
            print(status, name)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
