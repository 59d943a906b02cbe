"""A provider whose keys change, are wrong, late or none.

usage: jwks.py FRONT CLASS      the last line is as hostile.py's; CLASS is jwks
"""

from __future__ import annotations

import json
import typing as t

import yaml
from forge import Forge
from hostile import HERE, ISSUERS, changed, tell
from wire import exchange

HOST = "second.site.test"


class Keys:
    def __init__(self) -> None:
        self.forge = Forge()
        self.number = 0

    def fresh(self) -> str:
        self.number += 1
        return f"fresh{self.number}"

    def public(self, kid: str) -> dict[str, t.Any]:
        return {"kty": "RSA", "kid": kid, "alg": "RS256", "use": "sig", **self.forge.public_numbers(self.forge.stranger)}

    def token(self, kid: str, header: dict[str, t.Any]) -> str:
        claims = {**self.forge.claims("https://front.site.test/api"), "iss": ISSUERS["keys"]}
        return self.forge.token(claims, {"kid": kid, **header}, "stranger")

    @staticmethod
    def publish(answer: dict[str, t.Any]) -> None:
        tell("lies.site.test", 9444, {"/keys/jwks": answer})

    @staticmethod
    def status(token: str) -> int:
        request = f"GET /api/ HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {token}\r\n\r\n"
        return exchange(HOST, request.encode()).status

    def tried(self, case: dict[str, t.Any]) -> int:
        kid = self.fresh()
        key = self.public(kid)
        if case.get("other"):
            key.update({name: self.forge.keys["key2"][name] for name in ("n", "e")})
        changes = dict(case.get("key", {}))
        if changes.get("kid") == "upper":
            changes["kid"] = kid.upper()
        published = [changed(key, changes)]
        if case.get("beside"):
            published.insert(0, {**self.public("other"), **{name: self.forge.keys["key2"][name] for name in ("n", "e")}})
        told = {name: case[name] for name in ("cut", "delay", "type") if name in case}
        self.publish(case.get("answer") or {"json": {"keys": published}, **told})
        return self.status(self.token(kid, case.get("header", {})))

    def removed(self) -> tuple[int, int, int]:
        """A key, a new one in its place, the first one again."""
        first, second = self.fresh(), self.fresh()
        statuses = []
        for published, used in ((first, first), (second, second), (second, first)):
            self.publish({"json": {"keys": [self.public(published)]}})
            statuses.append(self.status(self.token(used, {})))
        return (statuses[0], statuses[1], statuses[2])


def main() -> None:
    keys = Keys()
    data = yaml.safe_load((HERE / "jwks.yml").read_text(encoding="utf-8"))
    result: dict[str, t.Any] = {"attacks": len(data["refused"]) + 1, "must_pass": 0, "let_in": [], "turned_away": []}

    def good(name: str, status: int) -> None:
        result["must_pass"] += 1
        if status != 200:
            result["turned_away"].append({"id": name, "door": "keys", "reason": f"answered {status}"})

    for name, case in data["refused"].items():
        if keys.tried(case) == 200:
            result["let_in"].append({"id": name, "door": "keys", "reason": "was served"})
    for name, case in data["passes"].items():
        good(name, keys.tried(case))
    first, second, again = keys.removed()
    good("before its removal", first)
    good("the new one", second)
    if again == 200:
        result["let_in"].append({"id": "removed", "door": "keys", "reason": "was served"})
    print(json.dumps(result))


if __name__ == "__main__":
    main()
