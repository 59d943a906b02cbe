# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The program that reads names of claims, in the Lua of Debian 12 and 13 (5.3) and its neighbours."""

from __future__ import annotations

import base64
import importlib
import json
import typing as t

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc.token_names import SCRIPT

GRANTED, DENIED, NO_USER = 1, 0, 2
# What mod_lua gives to a program, as far as this one asks for it.
APACHE = f"""
package.preload['apache2'] = function() return {{}} end
apache2 = {{AUTHZ_GRANTED = {GRANTED}, AUTHZ_DENIED = {DENIED}, AUTHZ_DENIED_NO_USER = {NO_USER}}}
function request(user, header, variables)
  local function decoded(_, text) return decode(text) end
  return {{user = user, headers_in = {{Authorization = header}}, subprocess_env = variables or {{}}, base64_decode = decoded}}
end
function filtered(wanted, parts)
  local run, out = coroutine.create(answer_names), {{}}
  coroutine.resume(run, {{subprocess_env = {{ANSWER_NAMES = wanted}}}})
  for _, part in ipairs(parts) do bucket = part; coroutine.resume(run) end
  bucket = nil
  local _, text = coroutine.resume(run)
  return text
end
"""
HEADER = {"alg": "RS256", "typ": "JWT"}


@pytest.fixture(scope="module", params=["lua51", "lua53", "lua54"])
def lua(request: pytest.FixtureRequest) -> t.Any:
    machine = importlib.import_module(f"lupa.{request.param}").LuaRuntime()
    machine.execute(APACHE)
    machine.execute(SCRIPT)
    machine.globals().decode = lambda text: base64.b64decode(text + "=" * (-len(text) % 4)).decode("latin-1")
    return machine


def encoded(part: t.Any) -> str:
    text = part if isinstance(part, str) else json.dumps(part)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def bearer(claims: t.Any, header: t.Any = None) -> str:
    return f"Bearer {encoded(HEADER if header is None else header)}.{encoded(claims)}.x"


def by_token(lua: t.Any, claims: t.Any, *names: str) -> int:
    found = lua.globals()
    return int(found.token_names(found.request("ada", bearer(claims)), *names))


@pytest.mark.parametrize(
    ("claims", "names"),
    [
        ({"sub": "a", "iss": "b"}, ["iss", "exp"]),
        ({"sub": "a", "act": {"SUB": "b", "sub": "c"}, "list": [{"SUB": 1}, ["SUB"]]}, ["sub"]),
        ('{"name": "Jos\\u00e9 \\"SUB\\": {\\\\", "sub": "a"}', ["sub"]),
        ('{"url":"https:\\/\\/x\\/","sub":"a"}', ["sub"]),
        ({"cognito:groups": ["gpu"]}, ["cognito:groups"]),
        ({"https://claims.example.org/roles": ["a"]}, ["https://claims.example.org/roles"]),
        ({"wlcg.ver": "1.0", "wlcg.groups": ["/gpu"]}, ["wlcg.groups"]),
        ({"wlcg": {"groups": ["/gpu"]}}, ["groups"]),
    ],
    ids=str,
)
def test_a_good_token_passes(lua: t.Any, claims: t.Any, names: list[str]) -> None:
    assert by_token(lua, claims, *names) == GRANTED


@pytest.mark.parametrize(
    ("claims", "names"),
    [
        ({"sub": "a", "SUB": "b"}, []),
        ('{"sub": "a", "sub": "b"}', []),
        ({"a:b": 1, "a-b": 2}, []),
        ({"colour": "red", "Colour": "blue"}, []),
        ({"ISS": "a"}, ["iss"]),
        ('{"sub": "a", "S\\u0055B": "b"}', []),
        ({"cognito": "groups~^(?:gpu)$"}, ["cognito:groups"]),
        ({"cognito": ["groups~^(?:gpu)$"], "cognito:groups": ["x"]}, ["cognito:groups"]),
        ({"wlcg": {"groups": ["/gpu"]}}, ["wlcg.groups"]),
        ({"https": "//claims.example.org/roles~.*"}, ["https://claims.example.org/roles"]),
        ({"https://claims": {"example": {"org/roles": ["a"]}}}, ["https://claims.example.org/roles"]),
        ('{"sub": "a"', []),
        ('{"sub": "a', []),
    ],
    ids=str,
)
def test_a_token_that_is_read_in_two_ways_is_refused(lua: t.Any, claims: t.Any, names: list[str]) -> None:
    assert by_token(lua, claims, *names) == DENIED


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer x", "Bearer a.b", "Bearer a.b.c.d.e", "Bearer a.b.c, Bearer a.b.c", "Bearer a.b!.c"]
)
def test_what_is_no_token_is_refused(lua: t.Any, header: str | None) -> None:
    found = lua.globals()
    assert found.token_names(found.request("ada", header)) == DENIED and found.token_type(found.request("ada", header), "none") == DENIED


def test_other_rules_decide_before_a_user_is_known(lua: t.Any) -> None:
    found = lua.globals()
    asked = found.request(None, bearer({"sub": "a"}))
    assert {found.token_names(asked), found.token_type(asked, "JWT"), found.session_names(asked)} == {NO_USER}


@pytest.mark.parametrize(
    ("header", "types", "wanted"),
    [
        ({"typ": "JWT"}, ["at+jwt", "JWT"], GRANTED),
        ({"typ": "application/at+jwt"}, ["at+jwt"], GRANTED),
        ({"alg": "RS256"}, ["none"], GRANTED),
        ({"alg": "RS256"}, ["at+jwt"], DENIED),
        ({"typ": "logout+jwt"}, ["at+jwt", "JWT", "none"], DENIED),
        ({"typ": None}, ["at+jwt", "JWT", "none"], DENIED),
        ({"typ": ["JWT"]}, ["JWT", "none"], DENIED),
        ({"typ": "JWT", "TYP": "logout+jwt"}, ["JWT"], DENIED),
    ],
    ids=str,
)
def test_the_type_of_a_token(lua: t.Any, header: dict, types: list[str], wanted: int) -> None:
    found = lua.globals()
    assert found.token_type(found.request("ada", bearer({"sub": "a"}, header)), *types) == wanted


@pytest.mark.parametrize(
    ("proof", "more", "wanted"),
    [
        ({"sub": "a", "role": "op"}, {"sub": "a", "email": "x"}, GRANTED),
        ({"sub": "a"}, None, GRANTED),
        (None, {"role": "op"}, DENIED),
        ({"role": "op", "ROLE": "root"}, None, DENIED),
        ({"role": "op"}, {"ROLE": "root"}, DENIED),
        ({"sub": "a"}, {"ROLE": "root"}, DENIED),
        ({"sub": "a"}, "{", DENIED),
    ],
    ids=str,
)
def test_what_a_provider_says_at_a_login(lua: t.Any, proof: t.Any, more: t.Any, wanted: int) -> None:
    found = lua.globals()
    texts = {"OIDC_id_token_payload": proof, "OIDC_userinfo_json": more}
    variables = lua.table_from(
        {key: value if isinstance(value, str) else json.dumps(value) for key, value in texts.items() if value is not None}
    )
    assert found.session_names(found.request("ada", None, variables), "iss", "role") == wanted


@pytest.mark.parametrize(
    ("answer", "passes"),
    [
        ('{"active": true, "role": "op"}', True),
        ('{"active": true, "role": "op", "ROLE": "root"}', False),
        ('{"active": true, "ROLE": "root"}', False),
        ('{"Active": true}', False),
        ("no answer", True),  # which is for the module to say
        ('{"active": true', False),
    ],
)
def test_answers_about_tokens(lua: t.Any, answer: str, passes: bool) -> None:
    parts = lua.table_from([answer[:7], answer[7:]])
    assert lua.globals().filtered("active role", parts) == (answer if passes else "{}")
