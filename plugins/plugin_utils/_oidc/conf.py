# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The front's configuration of Apache and mod_auth_openidc.

Pure functions, data in, text out.

Three things about these modules decide how rules are written here:
- "Require claim name:value" ignores blanks in values, so only the form with a regular expression is used, anchored at both ends.
  Backslashes arrive doubled there, so none is used; "$" would let a line feed pass, so the end is "no character follows".
- A rule is evaluated before a user is authenticated, too, and what it denies then stays denied, unless it names REMOTE_USER.
- A location has the settings of only one token method, because those of mod_auth_openidc belong to a virtual host.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._oidc import metadata as oidc_metadata
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import headers as oidc_headers
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import pages as oidc_pages
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import token_names

Item = t.Dict[str, t.Any]

DIRECTORY = "/etc/apache2/deephdc"
CONF = f"{DIRECTORY}/oidc_proxy.conf"
CANDIDATE = f"{DIRECTORY}/oidc_proxy.next.conf"
PAGES = "/var/lib/deephdc/oidc_proxy/pages"
ACME = "/var/lib/deephdc/oidc_proxy/acme"
LUA = f"{DIRECTORY}/jwt_times.lua"
LUA_NAMES = f"{DIRECTORY}/header_names.lua"
NOW = "X-Deephdc-Now"
# A session's cookie; the prefix keeps other hosts from setting it.
COOKIE = "__Host-front"
STATE = "__Host-front_state_"
# Claims that a rule reads as a variable of Apache.
TIMES = ("exp", "nbf", "iat")
# Claims that a token for programs must not have: who may use one that is bound to a key can't be seen here, and an order to end a login
# is for the module alone.
ABSENT = ("cnf", "events")
# Parameters of a provider's answer (RFC 6749, 9207, OpenID Connect Session Management; others are of Google, Microsoft and Hydra),
# and of the end of a session.
ANSWERED = (
    *("code", "state", "iss", "error", "error_description", "error_uri", "error_subcode", "error_hint", "error_debug", "session_state"),
    *("scope", "authuser", "hd", "prompt", "client_info", "client-request-id", "logout"),
)
# A GET that has a state and this.
ANSWER_OF = r"(?:GET|HEAD)\?(?=(?:.*&)?state=)(?=(?:.*&)?{}=)"
# Of the 150 that Apache usually serves at a time, those from which on a limit for each address holds: else one that opens
# connections and is silent keeps all others waiting.
BUSY_CONNECTIONS = 75
# The greatest number that every mod_qos takes: the one of Debian 12 turns greater ones into negative ones.
MOST_REFUSALS = 32767
# Headers of answers that are the front's business, say too much of what is behind it, are orders to a proxy, or hold for other
# applications of the same name, too.
FRONTS_OWN_ANSWERS = (
    *("Strict-Transport-Security", "Clear-Site-Data", "Public-Key-Pins", "Public-Key-Pins-Report-Only", "X-Content-Type-Options"),
    *("Server", "X-Powered-By", "X-AspNet-Version", "X-AspNetMvc-Version"),
    *("X-Accel-Redirect", "X-Sendfile", "X-Sendfile2", "X-LIGHTTPD-send-file", "X-Reproxy-URL", "Proxy-Authentication-Info"),
    *("Alt-Svc", "Alternate-Protocol", "Service-Worker-Allowed", "NEL", "Report-To", "Set-Cookie2"),
)
# What keeps a browser safe on each page, also on those that the module, or Apache itself, makes.
SAFE_ANSWERS = {
    "Strict-Transport-Security": "max-age=31536000",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "SAMEORIGIN",
    "X-Content-Type-Options": "nosniff",
}
# A host beside the front can set cookies for it, of 4 kB each. The first virtual host of a port counts for all of its names.
FIELD_SIZE = "LimitRequestFieldSize 65536"
LONGEST_TOKEN = 16000
MARK = "# Made by deephdc.accelerators, role oidc_proxy: changes are lost with its next run.\n"


def version(text: str) -> tuple[int, ...]:
    """The upstream version of a package as numbers, empty where there is none."""
    match = re.match(r"(?:[0-9]+:)?([0-9]+(?:\.[0-9]+)*)", text)
    return tuple(int(part) for part in match.group(1).split(".")) if match else ()


def exactly(values: t.Sequence[str]) -> str:
    """Return a regular expression without backslashes for exactly one of the values."""
    return f"(?s)^(?:{'|'.join(map(literal, values))})(?!.)"


def literal(value: str) -> str:
    return "".join(f"[{char}]" if char in ".|*+?(){}$%" else char for char in value)


def scope_word(scope: str) -> str:
    """A regular expression that matches a list of scopes which has this one."""
    return f"(?s)(?:^| ){literal(scope)}(?: |(?!.))"


def address(vhost: t.Mapping[str, t.Any]) -> str:
    return str(vhost["host"]) + ("" if vhost["port"] == 443 else f":{vhost['port']}")


def base_url(vhost: t.Mapping[str, t.Any]) -> str:
    return f"https://{address(vhost)}"


def own_address(vhost: t.Mapping[str, t.Any]) -> str:
    """Return a regular expression for the front's address in a query, encoded or not."""
    port = "" if vhost["port"] == 443 else f"(?::|%3A){vhost['port']}"
    return f"(?i)https(?::|%3A)(?:/|%2F){{2}}{literal(vhost['host'])}{port}(?:(?:/|%2F)(?:[A-Za-z0-9._~/-]|%2F)*)?(?:&|$)"


def cookie(vhost: t.Mapping[str, t.Any], port: int) -> str:
    """Browsers send cookies to every port of a host, so each port has its own name."""
    return COOKIE if vhost["port"] == port else f"{COOKIE}-{vhost['port']}"


def vhosts(backends: t.Sequence[Item], providers: t.Sequence[Item], port: int) -> list[Item]:
    """Return one virtual host for each name and provider.

    The module takes one provider and one token method in each. The first provider of a name has the usual port, unless it
    asks for one. Others have the port that they ask for, or the usual one plus their place in the list.
    """
    places = {provider["name"]: place for place, provider in enumerate(providers)}
    by_name = {provider["name"]: provider for provider in providers}
    made: dict[tuple[str, str], Item] = {}
    taken: dict[str, list[int]] = {}
    for backend in backends:
        key = (backend["host"], backend["provider"])
        if key not in made:
            ports = taken.setdefault(backend["host"], [])
            own = by_name[backend["provider"]]["port"] or (port if not ports else port + places[backend["provider"]])
            ports.append(own)
            made[key] = {"host": backend["host"], "port": own, "provider": by_name[backend["provider"]], "backends": []}
        made[key]["backends"].append(backend)
    return list(made.values())


def port_errors(hosts: t.Sequence[t.Mapping[str, t.Any]], http_port: int) -> list[str]:
    """Providers that would meet at one address."""
    errors: list[str] = []
    seen: dict[tuple[str, int], str] = {}
    for vhost in hosts:
        address = (vhost["host"], vhost["port"])
        if address in seen or vhost["port"] in (0, http_port) or vhost["port"] > 65535:
            errors.append(
                f"oidc_proxy_providers: {vhost['provider']['name']} can't have the port {vhost['port']} of {vhost['host']}, "
                f"which {seen.get(address, 'something else')} has: set its key port to a free one."
            )
        seen[address] = vhost["provider"]["name"]
    return errors


def vhost_name(vhost: t.Mapping[str, t.Any]) -> str:
    return f"{vhost['host']}_{vhost['port']}"


def secret_file(kind: str, name: str) -> str:
    return f"{DIRECTORY}/secret_{kind}_{name}.conf"


def has_browsers(vhost: t.Mapping[str, t.Any]) -> bool:
    return any(backend["access"] != "bearer" for backend in vhost["backends"])


def has_tokens(vhost: t.Mapping[str, t.Any]) -> bool:
    return any(backend["access"] != "browser" for backend in vhost["backends"])


def indented(lines: t.Iterable[str], by: int = 2) -> list[str]:
    return [" " * by + line for line in lines]


def block(name: str, lines: t.Iterable[str]) -> list[str]:
    return [f"<{name}>", *indented(lines), f"</{name.split()[0]}>"]


# --- rules


def connection_rule(websocket: bool) -> str:
    """Return the rule for what a client may write in the header Connection.

    A client could name our own headers as hop-by-hop, and mod_proxy would drop them.
    """
    words = "close|keep-alive|te" + ("|upgrade" if websocket else "")
    return f'Require expr "%{{HTTP:Connection}} =~ /^\\s*(?i:{words})?(\\s*,\\s*(?i:{words}))*\\s*$/"'


def variable(claim: str) -> str:
    """The variable that mod_auth_openidc makes of a claim.

    As oidc_normalize_header_name does it.
    """
    return "OIDC_CLAIM_" + re.sub(r"[^A-Za-z0-9_.-]", "-", claim)


def claim_expr(condition: str) -> str:
    return f'Require expr "-n %{{REMOTE_USER}} && {condition}"'


def absent_or_number(claim: str) -> list[str]:
    """An expression can't distinguish a missing claim from an empty one."""
    absent = block("RequireAll", ["Require all granted", f"Require not env OIDC_CLAIM_{claim}"])
    return block("RequireAny", [*absent, claim_expr(f"env('OIDC_CLAIM_{claim}') =~ /^[0-9]+$/")])


def token_rules(backend: Item, provider: Item) -> list[str]:
    """What a bearer token must have besides the provider's word that it is good."""
    rules = [f'Require claim "aud~{exactly(backend["audience"])}"']
    local = provider["bearer"] == "local"
    absent = (*ABSENT, *([token_names.OF_LOGIN] if local and token_names.ID_TOKEN not in provider["token_types"] else []))
    for claim in absent:
        rules += block("RequireAll", ["Require all granted", f"Require not env OIDC_CLAIM_{claim}"])
    rules += [f'Require claim "scope~{scope_word(scope)}"' for scope in backend["scopes"]]
    if not local:
        return rules + introspection_rules()
    past = " && ".join(f"env('OIDC_CLAIM_{claim}') -le $1" for claim in ("nbf", "iat"))
    return [
        # Without exp a token would be good for ever; text, true and whatever else is no whole number of seconds is taken as none.
        claim_expr("env('OIDC_CLAIM_exp') =~ /^[0-9]{10,11}$/"),
        'Require not claim "exp~^"',
        *absent_or_number("nbf"),
        *absent_or_number("iat"),
        # The program is much slower than the expression; it is asked only of users whose token is some seconds ahead of this clock.
        *block(
            "RequireAny",
            [f'Require expr "-z %{{REMOTE_USER}} || ( %{{HTTP:{NOW}}} =~ /^t=([0-9]{{10}})/ && {past} )"', "Require jwt-times"],
        ),
        *rules,
        f"Require token-type {' '.join(provider['token_types'])}",
        f"Require token-names {' '.join(ruled(backend, provider, (*TIMES, *absent)))}",
    ]


def ruled(backend: Item, provider: Item, others: t.Iterable[str] = ()) -> list[str]:
    """The claims that rules and headers of a backend read."""
    groups = [provider["groups_claim"]] if backend["groups"] else []
    return list(dict.fromkeys([*others, "iss", "aud", *groups, *backend["claims_headers"].values()]))


def introspection_rules() -> list[str]:
    """Return what the provider's answer must say besides "active".

    The module takes "active" as text in any case, too.
    """

    def absent_or(claim: str, condition: str) -> list[str]:
        absent = block("RequireAll", ["Require all granted", f"Require not env OIDC_CLAIM_{claim}"])
        return block("RequireAny", [*absent, claim_expr(condition)])

    now = f"%{{HTTP:{NOW}}} =~ /^t=([0-9]{{10}})/"
    return [
        claim_expr("env('OIDC_CLAIM_active') == '1'"),
        *absent_or("exp", f"env('OIDC_CLAIM_exp') =~ /^[0-9]{{10,11}}$/ && {now} && env('OIDC_CLAIM_exp') -gt $1"),
        *absent_or("nbf", f"env('OIDC_CLAIM_nbf') =~ /^[0-9]+$/ && {now} && env('OIDC_CLAIM_nbf') -le $1"),
        # A refresh token is good for the provider alone.
        *absent_or("token_type", "env('OIDC_CLAIM_token_type') =~ /^(?i:bearer|access_token|at[+]jwt)$/"),
    ]


def session_rules(backend: Item, provider: Item, base: str) -> list[str]:
    """A browser sends the session with requests of other sites' pages, too.

    What such a page asks for has its name in Origin.
    """
    return [
        f'Require claim "aud~{exactly([provider["client_id"]])}"',
        f"Require session-names {' '.join(ruled(backend, provider))}",
        f"Require expr \"-z %{{HTTP:Origin}} || %{{HTTP:Origin}} == '{base}'\"",
    ]


def user_rules(refused: t.Sequence[str]) -> list[str]:
    """Return the rules for the names that a user may have.

    Names of services are not among them, nor a number that could be taken for a user id.
    """
    rules = ['Require expr "%{REMOTE_USER} =~ /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/"', claim_expr("%{REMOTE_USER} !~ /^[0-9]+$/")]
    if refused:
        names = "|".join(map(literal, refused))
        rules.append(claim_expr(f"%{{REMOTE_USER}} !~ /^(?i:{names})(?:@.*)?$/"))
    return rules


def rules(backend: Item, vhost: Item, refused: t.Sequence[str]) -> list[str]:
    provider, base = vhost["provider"], base_url(vhost)
    issuer = f"env('OIDC_CLAIM_iss') == '{provider['issuer']}'"
    if provider["bearer"] == "introspection":
        # The provider itself was asked; not every one repeats its own name.
        issuer = (
            f"( {issuer} || -z env('OIDC_CLAIM_iss') )"
            if backend["access"] == "bearer"
            else (f"( {issuer} || ( -z env('OIDC_CLAIM_iss') && -n %{{HTTP:Authorization}} ) )")
        )
    common = [
        f"Require method {' '.join(backend['methods'])}",
        connection_rule(backend["websocket"]),
        *user_rules(refused),
        claim_expr(issuer),
        # What becomes a header must not be able to begin another one.
        *(claim_expr(f"env('{variable(claim)}') =~ /^[!-~]{{1,255}}$/") for claim in backend["claims_headers"].values()),
    ]
    if backend["groups"]:
        common.append(f'Require claim "{provider["groups_claim"]}~{exactly(backend["groups"])}"')
    if backend["access"] == "browser":
        common += session_rules(backend, provider, base)
    elif backend["access"] == "bearer":
        common += token_rules(backend, provider)
    else:
        with_token = ['Require expr "-n %{HTTP:Authorization}"', *token_rules(backend, provider)]
        with_session = ['Require expr "-z %{HTTP:Authorization}"', *session_rules(backend, provider, base)]
        common += block("RequireAny", block("RequireAll", with_token) + block("RequireAll", with_session))
    return block("RequireAll", common)


# --- one backend


def error_documents(documents: t.Mapping[int, str]) -> list[str]:
    """Pages for who asks for a page, JSON for programs.

    documents: name of the file by status, without its ending.
    """

    def kind(ending: str) -> list[str]:
        return [f"ErrorDocument {status} /.front/{name}.{ending}" for status, name in documents.items()]

    return block('If "%{HTTP_ACCEPT} =~ m#text/html#"', kind("html")) + block("Else", kind("json"))


def passed_headers(backends: t.Iterable[t.Mapping[str, t.Any]]) -> list[str]:
    """Headers that show upstreams who asks."""
    names = [name for backend in backends for name in (backend["user_header"], *backend["claims_headers"]) if name]
    return list(dict.fromkeys(names))


def location(backend: Item, vhost: Item, site: Item) -> list[str]:
    kind = {"browser": "openid-connect", "bearer": "oauth20", "both": "auth-openidc"}[backend["access"]]
    lines = [f"AuthType {kind}"]
    if backend["access"] != "bearer":
        # Only a person who opens a page can follow a redirect to a login.
        lines.append(
            'OIDCUnAuthAction 401 "%{HTTP_ACCEPT} !~ m#text/html# || -n %{HTTP:X-Requested-With} || '
            "( -n %{HTTP:Sec-Fetch-Mode} && %{HTTP:Sec-Fetch-Mode} != 'navigate' )\""
        )
    lines += ["AuthzSendForbiddenOnFailure On", *rules(backend, vhost, site["refused_users"])]
    # Apache's own limit does nothing for what mod_proxy passes on.
    lines += [
        f"LimitRequestBody {backend['body_limit']}",
        f"QS_LimitRequestBody {backend['body_limit']}",
        *error_documents({403: f"403_{backend['name']}"}),
    ]
    if backend["user_header"]:
        lines.append(f'RequestHeader set {backend["user_header"]} "expr=%{{REMOTE_USER}}"')
    lines += [f'RequestHeader set {header} "expr=%{{env:{variable(claim)}}}"' for header, claim in backend["claims_headers"].items()]
    lines += [f"RequestHeader unset {NOW}", "RequestHeader unset OIDC_access_token"]
    lines += [
        # Not by mod_proxy, which believes the client's Host.
        "ProxyAddHeaders Off",
        f'RequestHeader set X-Forwarded-Host "{address(vhost)}"',
        'RequestHeader set X-Forwarded-For "expr=%{REMOTE_ADDR}"',
        "RequestHeader set X-Forwarded-Proto https",
    ]
    if backend["access"] == "bearer":
        lines.append("RequestHeader unset Cookie")
    else:
        # Those of all ports: browsers send a name's cookies to each of them, and another provider's session must not be seen here.
        own = f"(?:{literal(COOKIE)}|mod_auth_openidc_state_)[^=;]*"
        lines.append(f'RequestHeader edit* Cookie "(^|;)\\s*{own}=[^;]*" ""')
    if backend["access"] == "both":
        # Who comes with a token has no use for them, and an application may take few bytes.
        lines.append('RequestHeader unset Cookie "expr=-n %{HTTP:Authorization}"')
    # The client's own never goes on.
    lines.append("RequestHeader unset Authorization")
    if backend["credential_file"]:
        lines.append(f"Include {secret_file('backend', backend['name'])}")
    if backend["preserve_host"]:
        lines += ["ProxyPreserveHost On", f'RequestHeader set Host "{address(vhost)}"']
    if backend["sse_paths"]:
        lines.append("SetEnv no-gzip 1")
    lines += [f"Header unset {name}" for name in FRONTS_OWN_ANSWERS]
    # An application must neither begin nor end a session of the front.
    # A browser sends one without a name as it is, so =NAME=VALUE is one of that name at the next request.
    session = f"(?i)^[\\s=]*(?:{literal(COOKIE)}|mod_auth_openidc_)[^=;]*(?:[=;].*)?$"
    lines.append(f'Header edit Set-Cookie "{session}" "front=; Max-Age=0; Secure; HttpOnly"')
    # What comes before an answer passes no rule of these.
    lines.append("SetEnv proxy-interim-response Suppress")
    return block(f'Location "{backend["path"]}"', lines)


def with_slash(url: str) -> str:
    return url.rstrip("/") + "/"


def proxied(backend: Item) -> list[str]:
    """Where requests go.

    Longer paths come first, because the first that fits is taken.

    Each backend has its own balancer, even for one upstream: mod_proxy would otherwise give all that have the same upstream the
    timeouts, and what else is said there, of the first.
    """
    path, upstreams = backend["path"], [with_slash(url) for url in backend["upstreams"]]
    events = [below.lstrip("/") for below in backend["sse_paths"]]
    # A single one is tried again at once. Of several, one that failed is left for a while.
    patience = "connectiontimeout=3 retry=0" if len(upstreams) == 1 else "connectiontimeout=3 retry=5"
    usual = f"timeout={backend['timeout']} {patience}" + (" upgrade=websocket" if backend["websocket"] else "")
    stream = f"flushpackets=on timeout=3600 {patience}"
    # With a sign that no backend's name has.
    events_of = backend["name"] + ".events"
    lines = []
    if upstreams[0].startswith("unix:"):
        lines += [f'ProxyPass "{path}{below}" "{upstreams[0]}{below}" {stream}' for below in events]
        return [*lines, f'ProxyPass "{path}" "{upstreams[0]}" {usual}', *with_path(path, upstreams)]
    if events:
        lines += block(f'Proxy "balancer://{events_of}"', [f'BalancerMember "{url.rstrip("/")}" {stream}' for url in upstreams])
    lines += block(f'Proxy "balancer://{backend["name"]}"', [f'BalancerMember "{url.rstrip("/")}" {usual}' for url in upstreams])
    lines += [f'ProxyPass "{path}{below}" "balancer://{events_of}/{below}"' for below in events]
    return [*lines, f'ProxyPass "{path}" "balancer://{backend["name"]}/"', *with_path(path, upstreams)]


def with_path(path: str, upstreams: t.Sequence[str]) -> list[str]:
    """Return lines that lead redirects of upstreams through the front again.

    The path is found without its slash, too.
    """
    lines = [f'ProxyPassReverse "{path}" "{url}"' for url in upstreams]
    return lines + ([] if path == "/" else [f'RedirectMatch 308 "^{literal(path.rstrip("/"))}$" "{path}"'])


def backend_section(backend: Item, vhost: Item, site: Item) -> list[str]:
    """Return the section of a backend between marks.

    By the marks, a line that Apache complains about can be assigned to a backend.
    """
    return [f"# Backend {backend['name']}", *location(backend, vhost, site), *proxied(backend), f"# End of backend {backend['name']}"]


# --- one virtual host


def tls(site: Item) -> list[str]:
    return [
        "SSLEngine on",
        f"SSLCertificateFile {site['certificate']}",
        f"SSLCertificateKeyFile {site['certificate_key']}",
        "SSLProtocol -all +TLSv1.2 +TLSv1.3",
        # Of TLS 1.2 only what has forward secrecy and authenticates what it encrypts; all of TLS 1.3 does.
        "SSLCipherSuite ECDHE+AESGCM:ECDHE+CHACHA20",
        "SSLSessionTickets off",
        "Protocols http/1.1",
        # Who connects and says nothing holds one of Apache's places for so long; without it, a minute.
        "RequestReadTimeout handshake=5 header=10-20,MinRate=500",
    ]


def logs() -> list[str]:
    # Without the query, which may hold codes and tokens. The module warns of every claim that is a number where text is asked for,
    # which is what the rule of exp hopes for.
    return [
        "LogLevel warn auth_openidc:error",
        # Apache's own form, without the address of the page that the request came from: that may have a login's code.
        'ErrorLogFormat "[%{u}t] [%-m:%l] [pid %P:tid %T] %E: [client\\ %a] %M"',
        "ErrorLog ${APACHE_LOG_DIR}/oidc_proxy_error.log",
        'CustomLog ${APACHE_LOG_DIR}/oidc_proxy_access.log "%v:%p %a %u %t \\"%m %U %H\\" %>s %O %D"',
    ]


def safe_answers() -> list[str]:
    """Return the lines for headers that make answers safe.

    They are set early, for the pages that the module makes itself. They are set late, for requests that Apache refuses before
    that. resp() looks at what an application says first: where that is something else, the application has the last word.
    """
    lines = []
    for name, value in SAFE_ANSWERS.items():
        said = f"resp('{name}')"
        lines += [f'Header always set {name} "{value}" early', f'Header always set {name} "{value}" "expr=-z {said}"']
        if name not in FRONTS_OWN_ANSWERS:
            lines.append(f"Header always unset {name} \"expr={said} != '{value}'\"")
    return [
        *lines,
        # An application that says in its policy who may frame it need not be framed by its own site alone.
        "Header always unset X-Frame-Options \"expr=-n resp('Content-Security-Policy')\"",
        "Header always set Cache-Control no-store \"expr=%{REQUEST_STATUS} -in {'401','403'}\"",
    ]


def login(vhost: Item, site: Item) -> list[str]:
    """Settings for browsers."""
    provider, base = vhost["provider"], base_url(vhost)
    first = next(backend for backend in vhost["backends"] if backend["access"] != "bearer")
    name = cookie(vhost, site["port"])
    return [
        f"OIDCProviderMetadataURL {provider['metadata_url']}",
        f"OIDCClientID {provider['client_id']}",
        f"OIDCProviderTokenEndpointAuth {provider['token_endpoint_auth']}",
        f"OIDCRedirectURI {base}/oidc/redirect_uri",
        f"OIDCDefaultURL {base}{first['path']}",
        f"OIDCDefaultLoggedOutURL {base}/.front/loggedout.html",
        f"OIDCRedirectURLsAllowed ^{literal(base)}/",
        "OIDCResponseType code",
        *(["OIDCPKCEMethod S256"] if provider["pkce"] else []),
        f'OIDCScope "{" ".join(provider["scopes"])}"',
        f"OIDCRemoteUserClaim {provider['remote_user_claim']}",
        "OIDCSessionType server-cache",
        f"OIDCSessionInactivityTimeout {site['session_idle']}",
        f"OIDCSessionMaxDuration {site['session_lifetime']}",
        *([f"OIDCUserInfoRefreshInterval {site['session_refresh']}"] if site["session_refresh"] else []),
        f"OIDCCookie {name}",
        "OIDCCookieHTTPOnly On",
        "OIDCCookieSameSite On",
        f"OIDCStripCookies {name}",
        # With the prefix no host beside this one can set it, and so take a browser into a session of its own.
        f"OIDCStateCookiePrefix {STATE}{vhost['port']}_",
        "OIDCStateMaxNumberOfCookies 5 true",
        "OIDCStateTimeout 300",
        "OIDCStateInputHeaders user-agent",
        # Whole, too: of names that are one to Apache the rules see more there.
        "OIDCPassIDTokenAs claims payload",
        "OIDCPassUserInfoAs claims json",
        # Back-channel logout and the end of a session by its user; the rest of what logout= can do shows memory or redirects.
        f"RewriteCond %{{QUERY_STRING}} (^|&)logout=(?!backchannel(&|$)|{own_address(vhost)})",
        "RewriteRule ^/oidc/redirect_uri - [R=404,L]",
        "RewriteCond %{REQUEST_METHOD} !^(?:GET|HEAD|POST)$",
        "RewriteRule ^/oidc/redirect_uri - [R=404,L]",
        # A GET with a state and a code the module takes for a provider's answer and for nothing else. Other requests show, renew or
        # end tokens and sessions, or begin a login with what a link of a stranger says.
        f"RewriteCond %{{REQUEST_METHOD}}?%{{QUERY_STRING}} !^{ANSWER_OF.format('code')}",
        f"RewriteCond %{{QUERY_STRING}} !^(?:(?:{'|'.join(ANSWERED)})=[^&]*(?:&|$))*$",
        "RewriteRule ^/oidc/redirect_uri - [R=404,L]",
        # With iss alone a login begins, too.
        "RewriteCond %{QUERY_STRING} (^|&)iss=",
        f"RewriteCond %{{REQUEST_METHOD}}?%{{QUERY_STRING}} !^{ANSWER_OF.format('(?:code|error)')}",
        "RewriteRule ^/oidc/redirect_uri - [R=404,L]",
    ]


def bearer(vhost: Item, site: Item, found: t.Mapping[str, t.Any]) -> list[str]:
    """Settings for tokens."""
    provider = vhost["provider"]
    lines = ["OIDCOAuthAcceptTokenAs header", f"OIDCOAuthRemoteUserClaim {provider['bearer_user_claim']}"]
    if provider["bearer"] == "introspection":
        return [
            *lines,
            # The module of Debian 12 takes no http here. It stays on this host, so nothing is gained by a look at the certificate.
            f"OIDCOAuthIntrospectionEndpoint https://127.0.0.1:{site['introspection_port']}/{provider['name']}",
            "OIDCOAuthSSLValidateServer Off",
            f"OIDCOAuthIntrospectionEndpointAuth {provider['token_endpoint_auth']}",
            f"OIDCOAuthClientID {provider['introspection_client_id']}",
            # To the module, 0 means never again and -1 each time.
            f"OIDCOAuthTokenIntrospectionInterval {provider['introspection_interval'] or -1}",
        ]
    lines.append(f"OIDCOAuthVerifyJwksUri {oidc_metadata.endpoint(provider, 'jwks_uri', found)}")
    if site["module_version"] >= (2, 4, 20):
        # The module's own check; it also makes exp mandatory. The rules below stay.
        audiences = dict.fromkeys(word for backend in vhost["backends"] for word in backend["audience"])
        lines += [f"OIDCOAuthVerifyAudience {' '.join(audiences)}", f"OIDCOAuthVerifyIssuer {provider['issuer']}"]
    return lines


def module_settings(vhost: Item, site: Item, found: t.Mapping[str, t.Any]) -> list[str]:
    lines = [f"Include {secret_file('vhost', vhost_name(vhost))}"]
    if vhost["provider"]["ca_file"]:
        lines.append(f"OIDCCABundlePath {ca_path(vhost['provider'])}")
    lines += login(vhost, site) if has_browsers(vhost) else []
    lines += bearer(vhost, site, found) if has_tokens(vhost) else []
    lines += [
        # Neither claims nor the token go on as headers.
        "OIDCPassClaimsAs environment",
        # A key that the provider took away is forgotten after this time.
        "OIDCJWKSRefreshInterval 300",
        "OIDCHTTPTimeoutLong 10",
        "OIDCHTTPTimeoutShort 3",
    ]
    if not has_browsers(vhost):
        # Keys and answers about tokens, read with each request: they may be lost, and need no encryption in Apache's own memory.
        return [*lines, "OIDCCacheType shm", "OIDCCacheShmMax 2000", "OIDCCacheEncrypt Off"]
    if site["session_store"] == "redis":
        return [*lines, "OIDCCacheEncrypt On", "OIDCCacheType redis", f"OIDCRedisCacheServer 127.0.0.1:{site['session_port']}"]
    return [*lines, "OIDCCacheEncrypt On", "OIDCCacheType shm"]


def ca_path(provider: t.Mapping[str, t.Any]) -> str:
    return f"{DIRECTORY}/ca_{provider['name']}.pem"


def own_locations(vhost: Item, site: Item) -> list[str]:
    # Refused tokens are counted where the answer to them comes from, which is here.
    counted = block('If "-n %{HTTP:Authorization}"', ["QS_SetEnvIfStatus 401 QS_Limit=1"]) if site["refusals_per_minute"] else []
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    lines = block(
        'Location "/.front/"', ["AuthType None", "Require all granted", f'Header always set Content-Security-Policy "{policy}"', *counted]
    )
    if has_browsers(vhost):
        lines += block('Location "/oidc/"', ["AuthType openid-connect", "Require valid-user"])
    return lines


def virtual_host(vhost: Item, site: Item, found: t.Mapping[str, t.Any]) -> list[str]:
    backends = sorted(vhost["backends"], key=lambda backend: -len(backend["path"]))
    at_top = any(backend["path"] == "/" for backend in backends)
    lines = [
        f"ServerName {vhost['host']}:{vhost['port']}",
        "UseCanonicalName On",
        *tls(site),
        *logs(),
        f"DocumentRoot {PAGES}",
        "RewriteEngine On",
        "ProxyRequests Off",
        "AllowEncodedSlashes Off",
        FIELD_SIZE,
        # What cookies need is more than a token may have: reading one takes time.
        f'RewriteCond %{{HTTP:Authorization}} "^.{{{LONGEST_TOKEN}}}"',
        "RewriteRule ^ - [R=400,L]",
        # Of the decoded path, before it is known who serves it: Tomcat reads ..; as the directory above.
        'RewriteCond %{REQUEST_URI} "[\\x00-\\x1f\\x7f\\\\\\\\;]"',
        "RewriteRule ^ - [R=404,L]",
        # What is left of such names after the others were taken away.
        f"LuaHookTranslateName {LUA_NAMES} header_names early",
        *safe_answers(),
        "Header always set WWW-Authenticate 'Bearer realm=\"front\"' \"expr=%{REQUEST_STATUS} == 401 && -z resp('WWW-Authenticate')\"",
        *(f"RequestHeader unset {name} early" for name in site["forged"]),
        f'RequestHeader set {NOW} "%t" early',
        "SetEnvIf Authorization . QS_Cond=token",
        *error_documents({status: str(status) for status in oidc_pages.GENERAL}),
        *(
            ["SSLProxyEngine On", "SSLProxyVerify require", "SSLProxyCACertificateFile /etc/ssl/certs/ca-certificates.crt"]
            if any(url.startswith("https:") for backend in backends for url in backend["upstreams"])
            else []
        ),
        *module_settings(vhost, site, found),
        *([] if at_top else block('Location "/"', ["Require all denied"])),
        f'Alias "/.front/" "{PAGES}/"',
        'ProxyPass "/.front/" "!"',
        'ProxyPass "/oidc/" "!"',
    ]
    for backend in backends:
        lines += backend_section(backend, vhost, site)
    # Last, because a later section has the last word, and a backend may have the whole name.
    return block(f"VirtualHost *:{vhost['port']}", lines + own_locations(vhost, site))


def stray(port: int, site: Item) -> list[str]:
    """Return the first virtual host of a port, which answers for every unknown name.

    It has what holds before the name is known.
    """
    return block(
        f"VirtualHost *:{port}",
        [
            "ServerName nobody.invalid",
            FIELD_SIZE,
            *tls(site),
            *logs(),
            *safe_answers(),
            *block('Location "/"', ["Require all denied"]),
        ],
    )


def asked(hosts: t.Sequence[Item]) -> list[Item]:
    """The providers that are asked about tokens."""
    found = [vhost["provider"] for vhost in hosts if has_tokens(vhost) and vhost["provider"]["bearer"] == "introspection"]
    return list({provider["name"]: provider for provider in found}.values())


def answered(hosts: t.Sequence[Item], provider: Item) -> list[str]:
    """The claims of an answer about a token that something reads."""
    names = ["active", *TIMES, "scope", "token_type", *ABSENT, provider["bearer_user_claim"]]
    for vhost in hosts:
        for backend in vhost["backends"] if vhost["provider"]["name"] == provider["name"] else []:
            names += ruled(backend, provider) if backend["access"] != "browser" else []
    return list(dict.fromkeys(names))


def introspection(hosts: t.Sequence[Item], site: Item, metadata: t.Mapping[str, t.Any]) -> list[str]:
    """Return lines that pass the module's questions about tokens on to the providers.

    The module would believe the body of an answer whose status is an error.
    """
    lines = [
        "ServerName introspection.invalid",
        *tls(site),
        *logs(),
        "ProxyRequests Off",
        "SSLProxyEngine On",
        "SSLProxyVerify require",
        "SSLProxyCACertificateFile /etc/ssl/certs/ca-certificates.crt",
        # Of an error the module gets Apache's own page, which is no answer.
        "ProxyErrorOverride On",
        *block('Location "/"', ["Require all denied"]),
    ]
    for provider in asked(hosts):
        address = oidc_metadata.endpoint(provider, "introspection_endpoint", metadata.get(provider["name"]) or {})
        own = [f"SSLProxyCACertificateFile {ca_path(provider)}"] if provider["ca_file"] else []
        lines += block(f'Proxy "{address}"', own) if own else []
        lines += block(
            f'Location "/{provider["name"]}"',
            [
                "Require local",
                "ProxyAddHeaders Off",
                # A redirect would take the token elsewhere.
                "Header unset Location",
                # Lua's memory for filters is not given back before their scope ends.
                "LuaScope once",
                "SetOutputFilter answer-names",
                f'SetEnv ANSWER_NAMES "{" ".join(answered(hosts, provider))}"',
                f'ProxyPass "{address}" connectiontimeout=3 timeout=10 retry=0',
            ],
        )
    return [f"Listen 127.0.0.1:{site['introspection_port']}", *block(f"VirtualHost 127.0.0.1:{site['introspection_port']}", lines)]


def plain_http(vhost: Item, site: Item) -> list[str]:
    """Sends browsers to https, and serves what an ACME client proves the name by."""
    proof = "/.well-known/acme-challenge/"
    return block(
        f"VirtualHost *:{site['http_port']}",
        [
            f"ServerName {vhost['host']}",
            *logs(),
            f"DocumentRoot {PAGES}",
            f'Alias "{proof}" "{ACME}{proof}"',
            f'RedirectMatch 308 "^/(?!{literal(proof[1:])})(.*)$" "{base_url(vhost)}/$1"',
            *block('Location "/"', ["Require all denied"]),
            *block(f'Location "{proof}"', ["Require all granted"]),
        ],
    )


MODULES = (
    *("authn_core", "authz_core", "authz_user", "alias", "headers", "lua", "mime", "reqtimeout", "rewrite", "setenvif"),
    *("auth_openidc", "qos"),
    *("proxy", "proxy_http", "slotmem_shm", "proxy_balancer", "lbmethod_byrequests"),
)


def loaded(names: t.Iterable[str]) -> list[str]:
    """Modules that are not loaded yet.

    What the host has in mods-enabled stays as it is.
    """
    lines = []
    for name in names:
        lines += block(f"IfModule !{name}_module", [f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so"])
    return lines


def listens(ports: t.Sequence[int], ports_conf: str) -> list[str]:
    """Return lines for the ports that the host's own ports.conf doesn't open already.

    443 is opened there once the ssl module is loaded, before this file.
    """
    opened = {int(match) for match in re.findall(r"(?mi)^\s*Listen\s+(?:\S*:)?([0-9]+)", ports_conf)}
    with_ssl = " ".join(re.findall(r"(?si)<IfModule ssl_module>(.*?)</IfModule>", ports_conf))
    guarded = {int(match) for match in re.findall(r"(?i)Listen\s+(?:\S*:)?([0-9]+)", with_ssl)}
    ssl = ["LoadModule socache_shmcb_module /usr/lib/apache2/modules/mod_socache_shmcb.so"]
    lines = block("IfModule !socache_shmcb_module", ssl)
    inside = ["LoadModule ssl_module /usr/lib/apache2/modules/mod_ssl.so", *(f"Listen {port}" for port in ports if port in guarded)]
    lines += block("IfModule !ssl_module", inside)
    return lines + [f"Listen {port}" for port in ports if port not in opened]


def whole(hosts: t.Sequence[Item], site: Item, metadata: t.Mapping[str, t.Any]) -> str:
    """The configuration file.

    site: the role's variables and what was read on the host; metadata: by provider.
    """
    backends = [backend for vhost in hosts for backend in vhost["backends"]]
    site = {**site, "forged": oidc_headers.forged(passed_headers(backends))}
    tls_ports = list(dict.fromkeys(vhost["port"] for vhost in hosts))
    lines = [
        # It would take over tokens in locations of mod_auth_openidc, and refuse or accept them by its own lights.
        *block(
            "IfModule oauth2_module", ['Error "mod_oauth2 is enabled, which takes tokens away from mod_auth_openidc: run a2dismod oauth2"']
        ),
        *listens(tls_ports + ([site["http_port"]] if site["http_port"] else []), site["ports_conf"]),
        *loaded(MODULES),
        # Requests of others, with codes in their addresses, are shown there to every user of this host.
        *block("IfModule status_module", ["ExtendedStatus Off"]),
        *block('LocationMatch "^/server-(?:status|info)"', ["Require all denied"]),
        "TraceEnable off",
        "ServerTokens Prod",
        "ServerSignature Off",
        "HttpProtocolOptions Strict",
        "LuaScope thread",
        "LuaCodeCache forever",
        f"LuaAuthzProvider jwt-times {LUA} jwt_times",
        f"LuaAuthzProvider token-names {token_names.PATH} token_names",
        f"LuaAuthzProvider session-names {token_names.PATH} session_names",
        f"LuaAuthzProvider token-type {token_names.PATH} token_type",
        f"LuaOutputFilter answer-names {token_names.PATH} answer_names",
    ]
    # The rule is there even where nothing is counted, because a reload can't bring it or take it away.
    lines += ["QS_ClientEntries 50000", "QS_ErrorResponseCode 429"]
    lines.append(f"QS_CondClientEventLimitCount {site['refusals_per_minute'] or MOST_REFUSALS} 60 QS_Limit token")
    if site["connections_per_address"]:
        # For all ports: the one that only redirects has the same places, and its first virtual host may be another site's.
        lines += [f"QS_SrvMaxConnPerIP {site['connections_per_address']} {BUSY_CONNECTIONS}"]
        # This Apache itself, with its questions about tokens.
        lines += ["QS_SrvMaxConnExcludeIP 127.0.0.1"]
    for port in tls_ports:
        lines += stray(port, site)
    for vhost in hosts:
        lines += virtual_host(vhost, site, metadata.get(vhost["provider"]["name"]) or {})
    lines += introspection(hosts, site, metadata) if asked(hosts) else []
    if site["http_port"]:
        first = {vhost["host"]: vhost for vhost in reversed(hosts)}
        for name in reversed(list(first)):
            lines += plain_http(first[name], site)
    return MARK + "\n".join(lines) + "\n"


def header_names(hosts: t.Sequence[Item]) -> str:
    """The program that refuses odd names of headers."""
    return oidc_headers.script(passed_headers([backend for vhost in hosts for backend in vhost["backends"]]))


SELECTOR = (
    MARK
    + "# The candidate is read only where a configuration is tested before it is taken.\n"
    + f"<IfDefine !DEEPHDC_NEXT>\n  IncludeOptional {CONF}\n</IfDefine>\n"
    + f"<IfDefine DEEPHDC_NEXT>\n  IncludeOptional {CANDIDATE}\n</IfDefine>\n"
)


def guilty(complaint: str, candidate: str) -> str:
    """Return one sentence about what Apache complains of.

    It names the backend whose line it is, where it is one.
    """
    said = " ".join(complaint.replace(CANDIDATE, "the configuration").split())
    named = re.search(r"secret_backend_([a-z0-9_-]+)\.conf", complaint)
    line = re.search(r"line ([0-9]+) of " + re.escape(CANDIDATE), complaint)
    name = named.group(1) if named else ""
    if line and not name:
        for text in candidate.split("\n")[: int(line.group(1))]:
            if text.strip().startswith("# Backend "):
                name = text.strip()[len("# Backend ") :]
            elif text.strip().startswith("# End of backend "):
                name = ""
    who = f"The backend {name} in oidc_proxy_backends" if name else "The new configuration of the front"
    return f"{who} is refused by Apache ({said}): correct it. The front goes on with what it had."
