# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Request headers that a client must not get past the front: pure functions.

CGI, WSGI and many other servers read X-Remote-User and X_Remote_User as the same name, so each spelling is taken away.
"""

from __future__ import annotations

import itertools
import re
import typing as t

# Headers that identify a user: only the front may send these to an upstream.
IDENTITIES = (
    "X-Remote-User",
    "Remote-User",
    "X-User",
    "X-Forwarded-User",
    "X-Forwarded-Preferred-Username",
    "X-Forwarded-Email",
    "X-Forwarded-Group",
    "X-Forwarded-Groups",
    "X-Forwarded-Roles",
    "X-Auth-Request-Email",
    "X-Auth-Request-Groups",
    "X-Auth-Request-User",
    "X-Auth-Token",
    "X-Auth-User",
    "X-Auth-Username",
    "X-Authenticated-User",
    "X-Remote-Email",
    "X-Remote-Group",
    "X-Remote-Groups",
    "X-Remote-Name",
    "X-User-Id",
    "X-User-Name",
    "X-Username",
    "X-Roles",
    "X-WEBAUTH-EMAIL",
    "X-WEBAUTH-GROUPS",
    "X-WEBAUTH-NAME",
    "X-WEBAUTH-ROLE",
    "X-WEBAUTH-USER",
    "Remote-Email",
    "Remote-Groups",
    "Remote-Name",
    "X-ProxyUser-Ip",
    "X-SLURM-USER-NAME",
    "X-SLURM-USER-TOKEN",
    "X-Token-Subject",
    "X-Token-Issuer",
    "X-Token-Groups",
    "X-Remote-Uid",
    "X-Auth-Request-Preferred-Username",
    "X-Forwarded-Id-Token",
    "X-Amzn-Oidc-Identity",
    "X-Amzn-Oidc-Data",
    "X-Amzn-Oidc-Accesstoken",
    "Cf-Access-Jwt-Assertion",
    "Cf-Access-Authenticated-User-Email",
    "X-Consumer-Id",
    "X-Consumer-Username",
    "X-Consumer-Custom-Id",
    "X-Consumer-Groups",
    "X-Grafana-Org-Id",
    "X-Scope-OrgID",
    "X-MS-CLIENT-PRINCIPAL",
    "X-MS-CLIENT-PRINCIPAL-ID",
    "X-MS-CLIENT-PRINCIPAL-NAME",
    "X-MS-CLIENT-PRINCIPAL-IDP",
    "X-Goog-Authenticated-User-Email",
    "X-Goog-Authenticated-User-Id",
    "X-Goog-Iap-Jwt-Assertion",
    "iv-user",
    "iv-groups",
    "AUTH-USER",
    "Impersonate-User",
    "Impersonate-Group",
    "Impersonate-Uid",
)

# Beginnings of names of headers by which some servers identify a user.
IDENTITY_PREFIXES = ("Impersonate-Extra-", "X-Remote-Extra-", "X-Authentik-", "X-MS-TOKEN-")

# What was asked, how and from where; certificates and tokens that are said to be checked already.
CIRCUMSTANCES = (
    "X-Auth-Request-Access-Token",
    "X-Forwarded-Access-Token",
    "X-Forwarded-Client-Cert",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Method",
    "X-Forwarded-Uri",
    "X-Forwarded-Proto",
    "X-Forwarded-Port",
    "X-Forwarded-Server",
    "X-Forwarded-Prefix",
    "X-Forwarded-Scheme",
    "X-Forwarded-Ssl",
    "X-Scheme",
    "X-Host",
    "X-Original-Host",
    "X-Original-URL",
    "X-Original-URI",
    "X-Originating-IP",
    "X-Rewrite-URL",
    "X-HTTP-Method",
    "X-HTTP-Method-Override",
    "X-Method-Override",
    "X-Real-IP",
    "X-Client-IP",
    "X-Cluster-Client-IP",
    "CF-Connecting-IP",
    "Client-IP",
    "True-Client-IP",
    "Forwarded",
    "Front-End-Https",
    "Proxy",
    "X-Client-Cert",
    "X-SSL-CERT",
    "X-SSL-Client-Cert",
    "SSL-CLIENT-CERT",
    "SSL-CLIENT-S-DN",
    "SSL-CLIENT-VERIFY",
    "X-SSL-Client-CN",
    "OIDC-access-token",
    "OIDC-access-token-expires",
    "OIDC-id-token",
    "OIDC-refresh-token",
    "OIDC-userinfo-json",
    "OIDC-sub",
)

# Claims as the module spells them where it passes them as headers; here it never does.
FORGEABLE_CLAIMS = ("aud", "email", "exp", "groups", "iss", "name", "preferred_username", "scope", "sub")


def spellings(name: str, separators: str = "-_") -> list[str]:
    """Every way to write a header's name with other separators."""
    first, *rest = name.replace("_", "-").split("-")
    made = []
    for chosen in itertools.product(separators, repeat=len(rest)):
        made.append(first + "".join(separator + word for separator, word in zip(chosen, rest)))
    return made


def plain(name: str) -> str:
    """Return a header's name as CGI reads it: "-" for what is no letter or digit."""
    return re.sub("[^a-z0-9]", "-", name.lower())


def odd_names(passed_on: t.Iterable[str]) -> list[str]:
    """Return plain names that a server may read as what only the front says.

    It may do so whatever stands between their words. CGI makes a "_" of each sign of a name that is no letter or digit, so
    X~Remote~User is X_Remote_User there. No honest client writes so. A name of one word has no other spelling, and the plain
    one is no reason to refuse a request.
    """
    return list(dict.fromkeys(plain(name) for name in (*passed_on, *IDENTITIES, *CIRCUMSTANCES) if re.search("[_-]", name)))


SCRIPT = """-- Made by deephdc.accelerators, role oidc_proxy: changes are lost with its next run.
-- Refuses a request with a header that a server may read as one that only the front writes, such as X~Remote~User.
-- Rules of mod_setenvif see the last header of several that fit, so an empty one would hide the others.
require 'apache2'

local names = {{
{names}
}}
local beginnings = {{{beginnings}}}

local function odd(name)
  local plain = name:lower():gsub('[^a-z0-9]', '-')
  if names[plain] then return true end
  for _, beginning in ipairs(beginnings) do
    if #plain > #beginning and plain:sub(1, #beginning) == beginning then return true end
  end
  return false
end

function header_names(r)
  -- Not of error pages and the like: by then the front has written its own headers.
  local env = r.subprocess_env
  if env['DEEPHDC_NAMES_READ'] or env['REDIRECT_DEEPHDC_NAMES_READ'] then return apache2.DECLINED end
  env['DEEPHDC_NAMES_READ'] = '1'
  for name in pairs(r:headers_in_table()) do
    if odd(name) then return 400 end
  end
  return apache2.DECLINED
end
"""


def script(passed_on: t.Iterable[str]) -> str:
    """Return the program in Lua that looks at the names of all headers of a request.

    It does so after forged() was taken away.

    :param passed_on: the headers that backends get from the front.
    """
    names = "\n".join(f"  ['{name}'] = true," for name in odd_names(passed_on))
    return SCRIPT.format(names=names, beginnings=", ".join(f"'{plain(name)}'" for name in IDENTITY_PREFIXES))


def forged(passed_on: t.Iterable[str]) -> list[str]:
    """All names to take away. passed_on: the headers that backends get from the front.

    Dots are spellings of identities, too.
    """
    own = [spelling for name in (*passed_on, *IDENTITIES) for spelling in spellings(name, "-_.")]
    known = [spelling for name in CIRCUMSTANCES for spelling in spellings(name)]
    claims = [spelling for claim in FORGEABLE_CLAIMS for spelling in spellings("OIDC-CLAIM-" + claim)]
    seen: dict[str, str] = {}
    for name in own + known + claims:
        seen.setdefault(name.lower(), name)
    return list(seen.values())
