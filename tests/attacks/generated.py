"""Generated attacks: hypothesis makes them, and makes one that comes through as small as it can.

usage: generated.py FRONT [EXAMPLES]

The last line is `N generated attacks, M properties broken`. Examples are random in each run; the seed is printed.
"""

from __future__ import annotations

import random
import sys
import typing as t

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from run import Attack, Front

NAMES = ["X-Remote-User", "Remote-User", "X-Forwarded-User", "X-SLURM-USER-NAME", "OIDC_CLAIM_sub", "X-Token-Subject", "X-Forwarded-For"]
# Of what a claim's right value is made, and what stands beside it in real tokens.
PIECES = [
    "https://front.site.test/api",
    "https://iam.site.test",
    "gpu",
    "api:read",
    "/",
    " ",
    ",",
    "\t",
    "\n",
    "\r",
    "x",
    ".",
    "^",
    "$",
    "*",
    "\u00a0",
    "\u200b",
    "%20",
    "\\",
    "'",
    '"',
]
SEGMENTS = [
    "/",
    "//",
    "/.",
    "/..",
    "%2e",
    "%2f",
    "%5c",
    "\\",
    ";",
    "?",
    "#",
    "%00",
    "%",
    "api",
    "both",
    "web",
    ".front",
    "oidc",
    "redirect_uri",
    "x",
    "..",
]
CLAIMS = {"aud": "https://front.site.test/api", "iss": "https://iam.site.test", "scope": "api:read", "groups": "gpu"}
count = 0


def near(right: str) -> st.SearchStrategy[str]:
    """Texts like the right one, never one that has it as a separate word."""
    made = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join)
    changed = st.tuples(st.integers(0, len(right) - 1), st.sampled_from(PIECES)).map(
        lambda found: right[: found[0]] + found[1] + right[found[0] + 1 :]
    )
    cased = st.lists(st.booleans(), min_size=len(right), max_size=len(right)).map(
        lambda ups: "".join(letter.upper() if up else letter for letter, up in zip(right, ups))
    )
    return st.one_of(made, changed, cased, st.text(max_size=12)).filter(lambda text: right not in text.split(" "))


def values(right: str) -> st.SearchStrategy[t.Any]:
    leaf = st.one_of(near(right), st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False))
    return st.one_of(leaf, st.lists(leaf, max_size=3), st.dictionaries(near(right), leaf, max_size=2))


def tried(front: Front, door: str, data: dict[str, t.Any]) -> str:
    """Why it was let in; empty if it was not."""
    global count
    count += 1
    attack = Attack("generated", f"gen{count}", door, data, ())
    reply, wrong = front.attempt(attack)
    front.application.look()
    return front.verdict(attack, reply, wrong)


def properties(front: Front) -> dict[str, t.Callable[..., None]]:
    doors = st.sampled_from(["api", "both"])

    @given(doors, st.sampled_from(sorted(CLAIMS)).flatmap(lambda name: st.tuples(st.just(name), values(CLAIMS[name]))))
    def no_token_with_a_wrong_claim(door: str, claim: tuple[str, t.Any]) -> None:
        assert not tried(front, door, {"comes": "token", "claims": dict([claim]), "expect": "refused"})

    @given(
        doors,
        st.sampled_from(["exp", "nbf", "iat"]),
        st.one_of(st.integers(2**31, 2**53), near("never"), st.booleans(), st.lists(st.integers(), max_size=2)),
    )
    def no_token_of_another_time(door: str, name: str, value: t.Any) -> None:
        # An expiry that is far away counts as none. Of nbf and iat, the front reads false, true and digits as text like numbers: long ago.
        if isinstance(value, int) and (name == "exp") != isinstance(value, bool):
            value = {"at": value}
        if name != "exp" and isinstance(value, str) and value.isdigit():
            value = "+" + value
        assert not tried(front, door, {"comes": "token", "claims": {name: value}, "expect": "refused"})

    @given(
        doors,
        st.dictionaries(
            st.sampled_from(["alg", "kid", "typ", "jwk", "jku", "crit", "zip", "b64", "cty"]),
            st.one_of(near("RS256"), st.booleans(), st.lists(near("RS256"), max_size=2)),
            max_size=3,
        ),
        st.sampled_from(["unsigned", "stranger", "hmac-pem", "zeros", "cut"]),
    )
    def no_token_that_the_provider_did_not_sign(door: str, header: dict[str, t.Any], sign: str) -> None:
        assert not tried(front, door, {"comes": "token", "header": header, "sign": sign, "expect": "refused"})

    @given(doors, st.sampled_from(NAMES), st.integers(0, 255), st.integers(0, 2**20), st.sampled_from(["", " ", "\t"]))
    def no_header_of_the_clients_making(door: str, name: str, underscores: int, capitals: int, before: str) -> None:
        letters, dash = [], 0
        for at, letter in enumerate(name):
            if letter in "-_":
                letter = "_" if underscores >> dash & 1 else "-"
                dash += 1
            letters.append(letter.upper() if capitals >> at & 1 else letter.lower())
        assert not tried(front, door, {"comes": "token", "headers": [f"{''.join(letters)}:{before}mallory"], "expect": "clean"})

    @given(
        st.sampled_from(["api", "both", "web"]),
        st.lists(st.sampled_from(SEGMENTS), max_size=6).map("".join),
        st.sampled_from(["GET", "HEAD", "POST", "PUT", "get", "PROPFIND"]),
    )
    def nothing_without_a_login(door: str, path: str, method: str) -> None:
        assert not tried(front, door, {"comes": "nothing", "method": method, "path": "{door}" + path, "expect": "refused"})

    found = dict(locals())
    return {name: check for name, check in found.items() if callable(check) and name.startswith("no")}


def main() -> None:
    front = Front(sys.argv[1])
    examples = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    front.application.look()
    front.application.seen.clear()
    front.baseline()
    chance = random.SystemRandom().randrange(2**32)
    broken = 0
    for name, check in properties(front).items():
        limits = settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        try:
            seed(chance)(limits(check))()
        except AssertionError as error:
            broken += 1
            print(f"broken: {name}: {' '.join(getattr(error, '__notes__', []))}")
    front.baseline()
    print(f"seed {chance}")
    print(f"{count} generated attacks, {broken} properties broken")


if __name__ == "__main__":
    main()
