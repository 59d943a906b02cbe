# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Apache and mod_auth_openidc before Keystone's login by token: pure functions.

Providers go in, lines come out. Keystone's virtual host passes one address of each provider on to a verifier on the loopback
address. It does so because mod_auth_openidc takes one provider in a virtual host. The verifier passes good requests on to
Keystone's socket, with what the token says in headers.

The rules are those of the role oidc_proxy, for the same reasons:
- "Require claim name:value" ignores blanks in values, so only the form with a regular expression is used, anchored at both
  ends.
  Backslashes arrive doubled there, so none is used; "$" would let a line feed pass, so the end is "no character follows".
- A rule is evaluated before a user is authenticated, too, and what it denies then stays denied, unless it names REMOTE_USER.
"""

from __future__ import annotations

import itertools
import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import token_names
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.federation import PROTOCOL, Provider, keystone
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.ini import MARK

DIRECTORY = "/etc/apache2/deephdc"
LUA = f"{DIRECTORY}/openstack_token.lua"
LUA_NAMES = f"{DIRECTORY}/openstack_token_names.lua"
# Claims that a token for programs must not have: who may use one that is bound to a key can't be seen here, and an order to end a login
# is for others.
ABSENT = ("cnf", "events")
PACKAGES = ("libapache2-mod-auth-openidc",)
MODULES = ("authn_core", "authz_user", "lua", "auth_openidc")
FIRST_PORT = 15000  # on 127.0.0.1, one for each provider
# By which the verifier says who logs in; from outside they are lies. Each begins as assertion_prefix in keystone.conf.
IDENTITY_HEADERS = ("X-Token-Issuer", "X-Token-Subject", "X-Token-Groups", "X-Token-Name")
ID = "DEEPHDC_TOKEN_ID"
# Two names that differ in case alone are one to MariaDB, so the user's identifier in Keystone has a digest beside the name.
SCRIPT = f"""-- Made by deephdc.accelerators
-- "Require openstack-token": neither nbf nor iat of a token lies in the future, with 30 s for clocks that differ.
require 'apache2'

function openstack_token(r)
  local latest = os.time() + 30
  for _, claim in ipairs({{'OIDC_CLAIM_nbf', 'OIDC_CLAIM_iat'}}) do
    local value = r.subprocess_env[claim]
    local moment = tonumber(value)
    if value and not (moment and moment >= 0 and moment <= latest) then return apache2.AUTHZ_DENIED end
  end
  if r.user then r.subprocess_env['{ID}'] = r.user .. '.' .. r:sha1(r.user):sub(1, 16) end
  return apache2.AUTHZ_GRANTED
end
"""


def block(name: str, lines: t.Iterable[str]) -> list[str]:
    return [f"<{name}>", *(f"  {line}" for line in lines), f"</{name.split()[0]}>"]


def spellings(name: str) -> list[str]:
    """Every way to write a header's name that WSGI servers read as the same."""
    first, *rest = name.split("-")
    return [first + "".join(sign + word for sign, word in zip(signs, rest)) for signs in itertools.product("-_", repeat=len(rest))]


def unset(names: t.Iterable[str]) -> list[str]:
    """Lines that take headers away from a request, whatever the client wrote."""
    return [f"RequestHeader unset {spelling} early" for name in names for spelling in spellings(name)]


def literal(value: str) -> str:
    return "".join(f"[{char}]" if char in ".|*+?(){}$" else char for char in value)


def exactly(values: t.Iterable[str]) -> str:
    """Return a regular expression without backslashes for exactly one of the values."""
    return f"(?s)^(?:{'|'.join(map(literal, values))})(?!.)"


def path(provider: Provider) -> str:
    return f"/v3/OS-FEDERATION/identity_providers/{provider['name']}/protocols/{PROTOCOL}/auth"


def ca_path(provider: Provider) -> str:
    return f"{DIRECTORY}/openstack_ca_{provider['name']}.pem"


# --- Keystone's own virtual host


def entrance(providers: t.Sequence[Provider]) -> list[str]:
    """Return lines of Keystone's virtual host.

    All federated logins are closed but the addresses that a verifier has.
    """
    words = "close|keep-alive|te"
    lines = [
        # Keystone decodes %2F, and would read another path than the rules below.
        "AllowEncodedSlashes Off",
        "RewriteEngine On",
        # No address of Keystone has such a sign, which servers read in different ways.
        'RewriteCond %{REQUEST_URI} "[\\x00-\\x1f\\x7f\\\\\\\\;]"',
        "RewriteRule ^ - [R=404,L]",
        # A client could name Apache's own headers as hop-by-hop, and mod_proxy would drop them.
        f'RewriteCond %{{HTTP:Connection}} "!^\\s*(?i:{words})?(\\s*,\\s*(?i:{words}))*\\s*$"',
        "RewriteRule ^ - [R=400,L]",
        *block('LocationMatch "(?i)/OS-FEDERATION/(?:.*/)?(?:auth|websso)(?:/|$)"', ["Require all denied"]),
        *block('LocationMatch "(?i)/auth/+OS-FEDERATION(?:/|$)"', ["Require all denied"]),
    ]
    for place, one in enumerate(providers):
        lines += block(f'LocationMatch "^{literal(path(one))}$"', ["Require all granted"])
        lines.append(f'ProxyPass "{path(one)}" "http://127.0.0.1:{FIRST_PORT + place}{path(one)}" retry=0 timeout=60')
    return lines


# --- the verifiers


def _with_user(condition: str) -> str:
    return f'Require expr "-n %{{REMOTE_USER}} && {condition}"'


def _absent_or_number(claim: str) -> list[str]:
    """An expression can't distinguish a claim that is not there from an empty one."""
    absent = block("RequireAll", ["Require all granted", f"Require not env OIDC_CLAIM_{claim}"])
    return block("RequireAny", [*absent, _with_user(f"env('OIDC_CLAIM_{claim}') =~ /^[0-9]+$/")])


def rules(provider: Provider) -> list[str]:
    """What a token must have besides a good signature."""
    words = "close|keep-alive|te"
    groups = provider["groups_claim"]
    absent = (*ABSENT, *([token_names.OF_LOGIN] if token_names.ID_TOKEN not in provider["token_types"] else []))
    return block(
        "RequireAll",
        [
            "Require method POST",
            f'Require expr "%{{HTTP:Connection}} =~ /^\\s*(?i:{words})?(\\s*,\\s*(?i:{words}))*\\s*$/"',
            # Keystone reads ";" as the end of a value, and braces as its own.
            'Require expr "%{REMOTE_USER} =~ /^[!-:<-z|~]{1,128}$/"',
            _with_user(f"env('OIDC_CLAIM_iss') == '{provider['issuer']}'"),
            f'Require claim "aud~{exactly(provider["audience"])}"',
            *itertools.chain.from_iterable(
                block("RequireAll", ["Require all granted", f"Require not env OIDC_CLAIM_{claim}"]) for claim in absent
            ),
            # Without exp a token would be good for ever; text, true and whatever else is no whole number of seconds is taken as none.
            _with_user("env('OIDC_CLAIM_exp') =~ /^[0-9]{10,11}$/"),
            'Require not claim "exp~^"',
            *_absent_or_number("nbf"),
            *_absent_or_number("iat"),
            "Require openstack-token",
            # The rules above and the headers below read claims as variables, whose names have no case.
            f"Require openstack-token-names iss exp nbf iat {groups} {provider['name_claim']} {' '.join(absent)}",
            f"Require openstack-token-type {' '.join(provider['token_types'])}",
            f'Require claim "{groups}~{exactly(dict.fromkeys(entry["group"] for entry in provider["groups"]))}"',
            # A group whose name has the sign between groups would be read as two.
            f'Require not claim "{groups}~;"',
            _with_user(f"env('OIDC_CLAIM_{groups}') =~ /^[^\\x01-\\x1f\\x7f]{{1,12000}}$/"),
        ],
    )


def verifier(provider: Provider, port: int, keystone_socket: str, proxy_headers: t.Sequence[str]) -> list[str]:
    """The virtual host that checks the tokens of one provider."""
    name = f"OIDC_CLAIM_{provider['name_claim']}"
    inside = [
        "AuthType oauth20",
        "AuthzSendForbiddenOnFailure On",
        *rules(provider),
        "LimitRequestBody 16384",
        f'RequestHeader set X-Token-Issuer "{provider["issuer"]}"',
        f'RequestHeader set X-Token-Subject "expr=%{{env:{ID}}}"',
        # With a sign at both ends, as blanks at the ends of a header are lost.
        f'RequestHeader set X-Token-Groups "expr=;%{{env:OIDC_CLAIM_{provider["groups_claim"]}}};"',
        # For people to read; who it is, the subject says.
        'RequestHeader set X-Token-Name "expr=%{REMOTE_USER}"',
        f'RequestHeader set X-Token-Name "expr=%{{env:{name}}}" "expr=env(\'{name}\') =~ /^[A-Za-z0-9][A-Za-z0-9._@-]{{0,63}}$/"',
        "RequestHeader unset Authorization",
        "RequestHeader unset Cookie",
        "ProxyAddHeaders Off",
        'RequestHeader set X-Forwarded-Proto "https"',
    ]
    return [
        f"Listen 127.0.0.1:{port}",
        *block(
            f"VirtualHost 127.0.0.1:{port}",
            [
                f"ServerName {provider['name']}.verifier.invalid",
                "LogLevel warn auth_openidc:error",
                "ErrorLog ${APACHE_LOG_DIR}/openstack-tokens-error.log",
                'CustomLog ${APACHE_LOG_DIR}/openstack-tokens-access.log "%h %l %u %t \\"%m %U %H\\" %>s %O"',
                "ProxyRequests Off",
                "ProxyPreserveHost On",
                "AllowEncodedSlashes Off",
                "LimitRequestFieldSize 16380",
                *unset((*proxy_headers, *IDENTITY_HEADERS)),
                "OIDCOAuthAcceptTokenAs header",
                f"OIDCOAuthRemoteUserClaim {provider['subject_claim']}",
                f"OIDCOAuthVerifyJwksUri {provider['jwks_uri']}",
                *([f"OIDCCABundlePath {ca_path(provider)}"] if provider["ca"] else []),
                'OIDCClaimDelimiter ";"',
                # Neither claims nor the token go on as headers.
                "OIDCPassClaimsAs environment",
                # A key that the provider took away is forgotten after this time.
                "OIDCJWKSRefreshInterval 300",
                "OIDCHTTPTimeoutLong 10",
                "OIDCHTTPTimeoutShort 3",
                # Keys, read with each request: they may be lost, and need no encryption in Apache's own memory.
                "OIDCCacheType shm",
                "OIDCCacheShmMax 2000",
                "OIDCCacheEncrypt Off",
                *block('Location "/"', ["Require all denied"]),
                *block(f'LocationMatch "^{literal(path(provider))}$"', inside),
                f'ProxyPass "{path(provider)}" "{keystone_socket}{path(provider)[1:]}" retry=0 timeout=60',
            ],
        ),
    ]


def plan(providers: t.Sequence[Provider]) -> dict[str, t.Any]:
    """The plan's key federation; empty where there is no provider."""
    if not providers:
        return {}
    files = [{"path": LUA, "content": SCRIPT}, {"path": LUA_NAMES, "content": token_names.SCRIPT}]
    files += [{"path": ca_path(one), "content": MARK + str(one["ca"]).rstrip() + "\n"} for one in providers if one["ca"]]
    return {
        "keystone": keystone(),
        "packages": list(PACKAGES),
        "front": entrance(providers),
        "files": files,
        # What a verifier is made of; the front adds Keystone's socket.
        "providers": [{key: value for key, value in one.items() if key != "metadata_url"} for one in providers],
    }


def verifiers(providers: t.Sequence[Provider], keystone_socket: str, proxy_headers: t.Sequence[str]) -> list[str]:
    """Lines outside of all virtual hosts."""
    if not providers:
        return []
    lines = [
        f"LuaAuthzProvider openstack-token {LUA} openstack_token",
        f"LuaAuthzProvider openstack-token-names {LUA_NAMES} token_names",
        f"LuaAuthzProvider openstack-token-type {LUA_NAMES} token_type",
    ]
    for place, one in enumerate(providers):
        lines += verifier(one, FIRST_PORT + place, keystone_socket, proxy_headers)
    return lines
