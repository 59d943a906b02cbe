"""Attacks a front and says which attacks were let in; see README.md.

usage: run.py FRONT [--only ID] [--json FILE]      FRONT: a name in fronts.yml

The last line is `N attacks, M let in`. The exit status is 0 if all attacks could be judged, whatever M is.
"""

from __future__ import annotations

import argparse
import base64
import itertools
import json
import re
import sys
import time
import typing as t
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml
from forge import Forge
from login import Browser, session_of, tokens
from wire import Application, Reply, exchange

HERE = Path(__file__).parent
FILES = ("users", "tokens", "opaque", "headers", "paths", "methods", "smuggling", "cookies", "callback", "logout")
USERS = ("alice", "bob", "mallory", "root")
# The only hosts that a browser may be sent to, beside the front itself.
PROVIDERS = ("iam.site.test", "iam2.site.test")
EVIL = "mallory"
WORKERS = 6
# Short for what many raw requests have: a good request's beginning, and a second request that is hidden behind it.
PARTS = {
    "{post}": "POST {door}?a={id} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n",
    "{get}": "GET {door}?a={id} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n",
    "{second}": "GET {door}?a={id}&mallory HTTP/1.1\r\nHost: x\r\nX-Remote-User: mallory\r\n\r\n",
}


class Attack(t.NamedTuple):
    id: str
    mark: str
    door: str
    data: dict[str, t.Any]
    naive: tuple[str, ...]


def filled(value: t.Any, item: str) -> t.Any:
    if isinstance(value, str):
        return value.replace("{item}", item)
    if isinstance(value, list):
        return [filled(one, item) for one in value]
    if isinstance(value, dict):
        return {filled(key, item): filled(one, item) for key, one in value.items()}
    return value


def attacks(doors: t.Collection[str], names: t.Sequence[str] = FILES, folder: Path = HERE) -> list[Attack]:
    """All attacks of the files at each of the doors that the front has."""
    found = []
    number = itertools.count()
    for name in names:
        defaults: dict[str, t.Any] = {}
        for entry in yaml.safe_load((folder / f"{name}.yml").read_text(encoding="utf-8")):
            if "id" not in entry:
                defaults = entry
                continue
            for item in entry.get("items", [""]):
                data = {**defaults, **filled({key: value for key, value in entry.items() if key not in ("items", "naive", "closed")}, item)}
                for door in data["doors"]:
                    if door in doors:
                        mark = f"{name}{next(number)}"
                        naive = () if item in entry.get("closed", ()) else tuple(entry.get("naive", ()))
                        found.append(Attack(f"{name}/{data['id']}", mark, door, data, naive))
    return found


def moment(value: t.Any) -> t.Any:
    """now+60 as a time."""
    found = re.fullmatch(r"now([+-]\d+)", value) if isinstance(value, str) else None
    return int(time.time()) + int(found[1]) if found else value


class Front:
    """One front, with everything that an attacker may have: tokens and sessions of users, and the provider's keys."""

    def __init__(self, name: str) -> None:
        self.data = yaml.safe_load((HERE / "fronts.yml").read_text(encoding="utf-8"))[name]
        self.host: str = self.data["host"]
        self.callback: str = self.data["callback"]
        self.doors: dict[str, dict[str, t.Any]] = self.data["doors"]
        self.credential = Path("/opt/test/app.credential").read_text(encoding="ascii").strip()
        self.forge = Forge()
        self.application = Application()
        self.sessions = {user: self.session(user) for user in USERS}
        self.opaque_tokens: dict[tuple[str, str, str], str] = {}
        # By door: what is wrong with every good request at the application.
        self.usual: dict[str, list[str]] = {}

    def own(self, door: str) -> str:
        """Address of a door for requests that are no attack."""
        return f"https://{self.doors[door].get('host', self.host)}{self.doors[door]['path']}?a=own~"

    def audience(self, door: str) -> str:
        return self.doors[door].get("audience", "https://front.site.test/api")

    def session(self, user: str) -> dict[str, str]:
        """Cookies of a user's browser at the front, also of one who may not come in."""
        if user == "alice":
            return dict(session_of(self.own("web"), user).cookies[self.host])
        browser = Browser()
        browser.sign_in(self.own("web"), user)
        return dict(browser.cookies[self.host])

    def opaque(self, data: dict[str, t.Any]) -> str:
        """A token that the provider itself issued.

        Only the provider can say whether it is valid.
        """
        resource, scope, user = data.get("audience", self.audience("opaque")), data.get("scope", "api:read"), data.get("user", "alice")
        key = (resource, scope, user + str(data.get("revoked", "")))
        if key not in self.opaque_tokens:
            secret = self.forge.secret("cli")
            token = tokens(user, resource, scope, secret)["access_token"]
            if data.get("revoked"):
                answer = Browser().ask("https://iam.site.test/token/revocation", {"token": token}, self.basic("cli", secret))
                assert answer.status == 200, answer.body
            self.opaque_tokens[key] = token
        return self.opaque_tokens[key]

    @staticmethod
    def basic(name: str, secret: str) -> dict[str, str]:
        return {"Authorization": "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()}

    def token(self, attack: Attack) -> str:
        data = attack.data
        if data["comes"] == "opaque":
            return self.opaque(data)
        claims = self.forge.claims(self.audience(attack.door), data.get("user", "alice"))
        for key, value in data.get("claims", {}).items():
            claims[key] = "x" * value if key == "filler" else moment(value)
            if value is None:
                del claims[key]
        payload = data.get("payload")
        return self.forge.token(claims, data.get("header"), data.get("sign", "key1"), payload.encode() if payload else None)

    def logout_token(self, what: str) -> str:
        now = int(time.time())
        claims: dict[str, t.Any] = {
            "iss": self.forge.site["issuer"],
            "aud": "front",
            "iat": now,
            "exp": now + 120,
            "jti": str(now),
            "sub": self.forge.site["users"][0]["sub"],
        }
        claims["events"] = {"http://schemas.openid.net/event/backchannel-logout": {}}
        header: dict[str, t.Any] = {"typ": "logout+jwt"}
        if what == "none":
            return self.forge.token(claims, {**header, "alg": "none"}, "unsigned")
        if what == "hmac-pem":
            return self.forge.token(claims, {**header, "alg": "HS256"}, what)
        if what in ("stranger", "key2"):
            return self.forge.token(claims, header, what)
        if what == "access-token":
            return self.forge.good(self.audience("api"))
        changes = {
            "audience": {"aud": "cli"},
            "issuer": {"iss": "https://evil.test"},
            "nonce": {"nonce": "x"},
            "no-events": {"events": None},
        }[what]
        return self.forge.token({key: value for key, value in {**claims, **changes}.items() if value is not None}, header)

    # --- one attack

    def text(self, template: str, attack: Attack, token: str) -> str:
        """A template with its names filled in."""
        for short, long in PARTS.items():
            template = template.replace(short, long)
        door = self.doors[attack.door]
        name = self.data["session"]
        value = self.sessions["alice"].get(name, "")
        flipped = value[:-1] + ("A" if value[-1:] != "A" else "B")
        values = {
            "door": door["path"],
            "host": door.get("host", self.host),
            "id": attack.mark + "~",
            "token": token,
            "callback": self.callback,
            "name": name,
            "name upper": name.upper(),
            "value": value,
            "value upper": value.upper(),
            "value cut": value[:-1],
            "value flipped": flipped,
        }

        def fill(found: re.Match[str]) -> str:
            word = found[1]
            if word in values:
                return values[word]
            if word == "state":
                return self.state()
            if word.startswith("logout "):
                return self.logout_token(word.split()[1])
            if count := re.fullmatch(r"(\d+) lines", word):
                return "x\r\nX-Note: ".join([""] * int(count[1])) + "x"
            if count := re.fullmatch(r"cookies (\d+)", word):
                return "; ".join(f"mod_auth_openidc_state_{number}=x; {name}_{number}=x" for number in range(int(count[1]) // 2))
            if word.isdecimal():
                return "x" * int(word)
            return found[0]

        return re.sub(r"\{([a-z0-9 -]+)\}", fill, template)

    def state(self) -> str:
        """The state of a login that another user has just begun."""
        target = Browser().ask(self.own("web")).header("location")
        return urllib.parse.parse_qs(urllib.parse.urlsplit(target).query).get("state", ["x"])[0]

    def where(self, attack: Attack, token: str) -> tuple[list[str], str, str]:
        """How a token is put into a request: header lines, query, body."""
        how, _blank, rest = attack.data.get("where", "header").partition(" ")
        bad = self.forge.token(self.forge.claims("https://other.site.test", "mallory"), None, "stranger")
        good = self.forge.good(self.audience(attack.door), user="mallory" if "two" in how else "alice")
        lines = {
            "header": [f"Authorization: Bearer {token}"],
            "literal": [f"Authorization: Bearer {rest}"],
            "scheme": [f"Authorization: {rest} {token}"],
            "two-joined": [f"Authorization: Bearer {bad}, Bearer {good}"],
            "two-bad-first": [f"Authorization: Bearer {bad}", f"Authorization: Bearer {good}"],
            "cookie": [f"Cookie: access_token={token}; {self.data['session']}={token}"],
            "x-access-token": [f"X-Access-Token: {token}", f"OIDC_access_token: {token}"],
            "x-authorization": [f"X-Authorization: Bearer {token}", f"X-Forwarded-Authorization: Bearer {token}"],
            "proxy-authorization": [f"Proxy-Authorization: Bearer {token}"],
            "basic": [f"Authorization: {self.basic('oauth2', token)['Authorization']}"],
            "digest": [f'Authorization: Digest username="alice", token="{token}"'],
            "negotiate": [f"Authorization: Negotiate {token}"],
            "oauth": [f"Authorization: OAuth {token}"],
            "client-secret": [f"Authorization: {self.basic('rs', self.forge.secret('rs'))['Authorization']}"],
            "cut": [f"Authorization: Bearer {token[:-1]}"],
            "lengthened": [f"Authorization: Bearer {token}x"],
            "upper": [f"Authorization: Bearer {token.upper()}"],
        }
        return lines.get(how, []), f"access_token={token}" if how == "query" else "", f"access_token={token}" if how == "form" else ""

    def path(self, attack: Attack, query: str) -> str:
        door, mark = self.doors[attack.door]["path"], f"a={attack.mark}~"
        given = attack.data.get("path", "{door}")
        named = {
            "upper": door.upper(),
            "encoded": "".join(f"%{ord(letter):02x}" if letter != "/" else letter for letter in door),
            "bare": door.rstrip("/"),
            "dotted": door.rstrip("/") + ".",
        }
        path = named.get(given) or self.text(given, attack, "")
        if self.callback in path:
            mark = f"hd={attack.mark}~"  # a parameter that the front lets pass there, or it would refuse all for that alone
        if mark not in path and " HTTP/" not in path:
            path += ("&" if "?" in path else "?") + mark
        return path + (f"&{query}" if query else "")

    def request(self, attack: Attack) -> bytes:
        data = attack.data
        comes = data["comes"]
        token = self.token(attack) if comes in ("token", "opaque") else ""
        if "raw" in data:
            return self.text(data["raw"], attack, token).encode("utf-8", "surrogateescape")
        lines, query, form = self.where(attack, token) if token else ([], "", "")
        headers = [self.text(line, attack, token) for line in data.get("headers", [])]
        body = self.text(data.get("body", ""), attack, token) or form
        method = "POST" if form else data.get("method", "GET")
        if form:
            headers.append("Content-Type: application/x-www-form-urlencoded")
        names = {line.partition(":")[0].lower() for line in headers}
        if body and not names & {"content-length", "transfer-encoding"}:
            headers.append(f"Content-Length: {len(body.encode())}")
        if comes == "session":
            cookies = self.sessions[data.get("user", "alice")]
            headers.append("Cookie: " + "; ".join(f"{name}={value}" for name, value in cookies.items()))
        if "accept" not in names:
            headers.append("Accept: text/html" if comes == "session" or attack.door == "web" else "Accept: */*")
        host = self.text(data.get("host", "{host}"), attack, "")
        first = f"{method} {self.path(attack, query)} HTTP/1.1"
        return "\r\n".join([first, f"Host: {host}", *lines, *headers, "", body]).encode("utf-8", "surrogateescape")

    def attempt(self, attack: Attack) -> tuple[Reply, str]:
        """The answer, and what the answer alone says is wrong."""
        if "flow" in attack.data:
            return Reply(0, "", ""), self.flow(attack)
        host = self.doors[attack.door].get("host", self.host)
        reply = exchange(host, self.request(attack), 0.4 if "raw" in attack.data else 0.0)
        wrong = self.sent_away(reply, host) or ("a script of the client's in the page" if f"<script>{EVIL}" in reply.body else "")
        if attack.data["expect"] == "no-session" and not wrong:
            cookies = dict(line.split(";")[0].partition("=")[::2] for line in reply.headers("set-cookie"))
            if self.served(cookies, attack):
                wrong = "began a session"
        if attack.data["expect"] in ("stays", "still-signed-in"):
            signed_in = self.served(self.sessions["alice"], attack)
            if not signed_in:
                self.sessions["alice"] = self.session("alice")
                if attack.data["expect"] == "still-signed-in":
                    wrong = wrong or "ended a session"
        return reply, wrong

    def served(self, cookies: dict[str, str], attack: Attack) -> bool:
        """Whether a browser with these cookies gets to the application."""
        mark = f"{attack.mark}z"
        line = "; ".join(f"{name}={value}" for name, value in cookies.items())
        text = f"GET {self.doors['web']['path']}?a={mark}~ HTTP/1.1\r\nHost: {self.host}\r\nAccept: text/html\r\nCookie: {line}\r\n\r\n"
        exchange(self.host, text.encode("latin-1", "replace"))
        self.application.look()
        return bool(self.application.of(mark))

    def sent_away(self, reply: Reply, host: str) -> str:
        """Where a browser would go, if that is not one of the site's hosts."""
        targets = reply.headers("location") + [value.partition("=")[2] for value in reply.headers("refresh")]
        for target in targets:
            # As browsers read addresses.
            plain = re.sub(r"[\t\r\n]", "", target.strip("\x00\x01\x20")).replace("\\", "/")
            try:
                place = urllib.parse.urlsplit(urllib.parse.urljoin(f"https://{host}/", plain))
                known = place.scheme == "https" and place.hostname in (host, *PROVIDERS)
            except ValueError:
                known = False
            if not known:
                return f"sends the browser to {target}"
        return ""

    def flow(self, attack: Attack) -> str:
        """Logins that are not one browser's from begin to end."""
        web = self.own("web")
        back = f"https://{self.host}{self.callback}"
        one, other = Browser(), Browser()
        answer = one.sign_in(web, "alice", until=back)
        begun = dict(one.cookies[self.host])
        what = attack.data["flow"]
        if what == "replay":
            one.follow(answer.url)
            other.cookies[self.host] = begun
            other.ask(answer.url)
        elif what == "other-browser":
            other.ask(answer.url)
        elif what == "tampered":
            other.cookies[self.host] = {name: value[:-2] + ("AA" if value[-2:] != "AA" else "BB") for name, value in begun.items()}
            other.ask(answer.url)
        else:
            target = other.ask(web).header("location")
            state = urllib.parse.parse_qs(urllib.parse.urlsplit(target).query)["state"][0]
            code = urllib.parse.parse_qs(urllib.parse.urlsplit(answer.url).query)["code"][0]
            if what == "other-client":
                code = "x" + code
            other.ask(f"{back}?code={code}&state={urllib.parse.quote(state)}")
        return "began a session" if self.served(other.cookies.get(self.host, {}), attack) else ""

    # --- what came of it

    def verdict(self, attack: Attack, reply: Reply, wrong: str) -> str:
        """Why an attack was let in; empty if it was not."""
        if wrong:
            return wrong
        records = self.application.of(attack.mark)
        if not records or attack.data["expect"] in ("no-session", "stays", "still-signed-in"):
            return ""
        if attack.data["expect"] == "refused":
            return f"reached the application, which answered {reply.status}"
        if len(records) > 1:
            return "reached the application more than once"
        # What every good request has is found out once, and is no success of an attack.
        return next((fault for fault in self.faults(records[0], attack) if fault not in self.usual.get(attack.door, [])), "")

    def faults(self, record: dict[str, str], attack: Attack) -> list[str]:
        """What of a request at the application is not the front's doing, or is the front's own and should not be there."""
        head, door, found = record["head"], self.doors[attack.door], []
        values: dict[str, list[str]] = {}
        for line in re.split(r"\r\n|\r|\n", head)[1:]:
            name, _colon, value = line.partition(":")
            values.setdefault(name.strip().lower().replace("_", "-"), []).append(value.strip())
            # A header that no program reads may have any value.
            if EVIL in line.lower() and name.strip().lower() != "x-note":
                found.append(f"reached the application with {line!r}")
        if EVIL in head.splitlines()[0].lower():
            found.append(f"reached the application as {head.splitlines()[0]!r}")
        if door.get("user") and values.get("x-remote-user") != ["alice"]:
            found.append(f"reached the application as user {values.get('x-remote-user')}")
        if values.get("authorization", []) != ([self.credential] if door.get("credential") else []):
            found.append("reached the application with another credential than the site's")
        if any(len(cookie) > 15 and cookie in head for cookie in self.sessions["alice"].values()):
            found.append("the session's cookie reached the application")
        if re.search(r"eyJ[\w-]+\.[\w-]+\.[\w-]+", head):
            found.append("a token reached the application")
        return found

    def baseline(self) -> None:
        """A good request must be served at each door: attacks on a front that serves no request would prove nothing."""
        for number, name in enumerate(self.doors):
            data: dict[str, t.Any] = {"comes": {"web": "session", "opaque": "opaque"}.get(name, "token"), "expect": "clean"}
            attack = Attack("good", f"good{number}at{time.monotonic_ns()}", name, data, ())
            reply, _wrong = self.attempt(attack)
            self.application.look()
            if reply.status != 200 or len(self.application.of(attack.mark)) != 1:
                sys.exit(f"error: a good request at the door {name} was answered {reply.status}: {reply.head[:300]} {reply.body[:300]}")
            self.usual[name] = self.faults(self.application.of(attack.mark)[0], attack)


def run(front: Front, chosen: list[Attack]) -> list[dict[str, str]]:
    """What was let in."""
    front.application.look()
    front.application.seen.clear()
    front.baseline()

    def one(attack: Attack) -> tuple[Attack, Reply, str]:
        try:
            return attack, *front.attempt(attack)
        except (OSError, AssertionError) as error:
            raise SystemExit(f"error: {attack.id} at {attack.door}: {error!r}") from error

    # Attacks on sessions that others use meanwhile come alone, last.
    alone = [attack for attack in chosen if attack.data["expect"] in ("stays", "still-signed-in")]
    with ThreadPoolExecutor(WORKERS) as pool:
        done = list(pool.map(one, [attack for attack in chosen if attack not in alone]))
    done += [one(attack) for attack in alone]
    time.sleep(0.5)
    front.application.look()
    front.baseline()
    found = [{"id": "good", "door": door, "reason": fault, "naive": ""} for door, faults in front.usual.items() for fault in faults]
    for attack, reply, wrong in done:
        if reason := front.verdict(attack, reply, wrong):
            found.append({"id": attack.id, "door": attack.door, "reason": reason, "naive": ",".join(attack.naive)})
    found += [
        {"id": "unknown", "door": "", "reason": f"reached the application without a mark: {record['head']!r}", "naive": ""}
        for record in front.application.of("")
    ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("front")
    parser.add_argument("--only", default="")
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    front = Front(options.front)
    chosen = [attack for attack in attacks(front.doors) if options.only in attack.id]
    started = time.monotonic()
    found = run(front, chosen)
    for one in found:
        print(f"let in at {one['door']}: {one['id']}: {one['reason']}")
    if options.json:
        Path(options.json).write_text(json.dumps({"tried": len(chosen), "found": found}), encoding="utf-8")
    print(f"took {time.monotonic() - started:.0f} s")
    print(f"{len(chosen)} attacks, {len(found)} let in")


if __name__ == "__main__":
    main()
