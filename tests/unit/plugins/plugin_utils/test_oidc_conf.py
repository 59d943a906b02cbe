# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The configuration of Apache that a front gets."""

from __future__ import annotations

import base64
import re

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._oidc import metadata as oidc_metadata
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import conf as oidc_conf
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import headers as oidc_headers
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import pages as oidc_pages
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import plan as oidc_plan
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import settings as oidc_settings
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.oidc_examples import ISSUER, METADATA, read, settings


def conf(read_on_host: dict | None = None, **changes: object) -> str:
    made = oidc_plan.plan(settings(**changes), {**read(), **(read_on_host or {})}, {})
    assert made["errors"] == []
    return made["live"][0]["content"]


@pytest.mark.parametrize("forged", ["gpu ", " gpu", "g pu", "gpu\n", "gpu\t", "GPU", "agpu", "gpus", "", "gpu\nx", "x\ngpu"])
def test_a_group_is_matched_exactly(forged: str) -> None:
    pattern = re.compile(oidc_conf.exactly(["gpu", "a.b"]))
    assert pattern.search("gpu") and pattern.search("a.b")
    assert not pattern.search(forged) and not pattern.search("axb")


@pytest.mark.parametrize("scopes, has", [("mesos:read", True), ("a mesos:read b", True), ("mesos:readx", False), ("mesos:read\n", False)])
def test_a_scope_is_a_whole_word(scopes: str, has: bool) -> None:
    assert bool(re.search(oidc_conf.scope_word("mesos:read"), scopes)) == has


def test_rules_of_claims_have_no_backslash() -> None:
    """They arrive doubled there, so the rule would never match."""
    assert [line for line in conf().split("\n") if "Require claim" in line and "\\" in line] == []


def test_every_rule_is_there() -> None:
    text = conf()
    for part in (
        f"env('OIDC_CLAIM_iss') == '{ISSUER}'",
        'Require claim "aud~(?s)^(?:https://front[.]example[.]org/mesos)(?!.)"',
        'Require claim "groups~(?s)^(?:gpu)(?!.)"',
        "env('OIDC_CLAIM_exp') =~ /^[0-9]{10,11}$/",
        'Require not claim "exp~^"',
        "Require not env OIDC_CLAIM_nbf",
        "env('OIDC_CLAIM_iat') =~ /^[0-9]+$/",
        "Require jwt-times",
        "Require method GET HEAD POST PUT PATCH DELETE",
        "AuthType auth-openidc",
        "OIDCPassClaimsAs environment",
        "RequestHeader unset X_Remote-User early",
    ):
        assert part in text


def test_claims_are_asked_only_of_somebody_who_is_known() -> None:
    """A rule without REMOTE_USER is decided before there are claims, for good."""
    asks = [line for line in conf().split("\n") if "Require expr" in line and "OIDC_CLAIM" in line]
    assert asks and all("-n %{REMOTE_USER} && " in line or "-z %{REMOTE_USER} || " in line for line in asks)


def test_the_modules_own_checks_are_used_where_it_has_them() -> None:
    assert "OIDCOAuthVerifyAudience" not in conf()
    newer = conf({"module_version": "2.4.20.3-1"})
    assert "OIDCOAuthVerifyAudience https://front.example.org/mesos" in newer
    assert f"OIDCOAuthVerifyIssuer {ISSUER}" in newer
    assert 'Require claim "aud~' in newer


def test_token_methods_get_virtual_hosts_of_their_own() -> None:
    whole = settings()
    other = {**whole["backends"][0], "name": "asked", "provider": "asked", "path": "/asked/", "access": "bearer"}
    hosts = oidc_settings.vhosts({**whole, "backends": [*whole["backends"], other]})
    assert [(host["port"], host["provider"]["bearer"]) for host in hosts] == [(443, "local"), (444, "introspection")]
    text = conf(backends=[*whole["backends"], other])
    first, second = text[text.index("ServerName front.example.org:443") :].split("ServerName front.example.org:444")
    assert "OIDCOAuthVerifyJwksUri" in first and "OIDCOAuthIntrospectionEndpoint" not in first
    assert "OIDCOAuthIntrospectionEndpoint" in second and "OIDCOAuthVerifyJwksUri" not in second
    assert "OIDCCookie __Host-front\n" in first


def test_no_session_of_any_port_goes_on() -> None:
    """Browsers send a name's cookies to all of its ports, also to one behind which another provider's upstream lies."""
    whole = settings()
    other = {**whole["backends"][0], "name": "asked", "provider": "asked", "path": "/asked/", "scopes": ["x"]}
    text = conf(backends=[*whole["backends"], other])
    patterns = re.findall(r'RequestHeader edit\* Cookie "(.*?)" ""', text)
    assert len(patterns) == 2
    for pattern in patterns:
        sent = "__Host-front=one; __Host-front-444=two; __Host-front_state_443_ab=three; app=1"
        assert re.sub(pattern, "", sent).strip("; ") == "app=1"


def test_answers_of_introspection_are_believed_as_long_as_the_operator_says() -> None:
    whole = settings()
    other = {**whole["backends"][0], "name": "asked", "provider": "asked", "path": "/asked/", "access": "bearer"}
    for interval, written in ((0, -1), (60, 60)):
        providers = [whole["providers"][0], {**whole["providers"][1], "introspection_interval": interval}]
        assert f"OIDCOAuthTokenIntrospectionInterval {written}\n" in conf(providers=providers, backends=[*whole["backends"], other])


def test_nothing_of_the_client_goes_on() -> None:
    text = conf()
    place = text[text.index('<Location "/marathon/">') :]
    assert place.index("RequestHeader unset Authorization") < place.index("Include /etc/apache2/deephdc/secret_backend_marathon.conf")
    assert "RequestHeader unset OIDC_access_token" in place


def test_a_claim_that_becomes_a_header_must_be_one_word() -> None:
    text = conf(backend={"claims_headers": {"X-Token-Subject": "sub"}})
    assert "-n %{REMOTE_USER} && env('OIDC_CLAIM_sub') =~ /^[!-~]{1,255}$/" in text
    assert 'RequestHeader set X-Token-Subject "expr=%{env:OIDC_CLAIM_sub}"' in text
    assert "RequestHeader unset X.Token_Subject early" in text


def test_a_claim_with_other_signs_is_read_where_the_module_puts_it() -> None:
    text = conf(backend={"claims_headers": {"X-Role": "https://claims.example.org/role"}})
    assert 'RequestHeader set X-Role "expr=%{env:OIDC_CLAIM_https---claims.example.org-role}"' in text
    assert "Require token-names exp nbf iat cnf events at_hash iss aud groups https://claims.example.org/role" in text


def test_names_of_claims_are_read_in_each_way_in() -> None:
    text = conf(backend={"access": "both", "claims_headers": {"X-Role": "role"}})
    assert "Require session-names iss aud groups role" in text and "OIDCPassUserInfoAs claims json" in text
    asked = conf(backend={"provider": "asked", "claims_headers": {"X-Role": "role"}})
    assert (
        'SetEnv ANSWER_NAMES "active exp nbf iat scope token_type cnf events preferred_username iss aud groups role"' in asked
        and "LuaScope once" in asked
    )


def test_proofs_of_a_login_are_tokens_only_where_a_site_says_so() -> None:
    """Dex's tokens for programs are such proofs."""
    refused = "Require not env OIDC_CLAIM_at_hash"
    assert refused in conf() and refused not in conf(provider={"token_types": ["JWT", "id_token"]})
    assert refused not in conf(backend={"provider": "asked"})


def test_every_spelling_of_a_header_is_taken_away() -> None:
    assert sorted(oidc_headers.spellings("X-Remote-User")) == ["X-Remote-User", "X-Remote_User", "X_Remote-User", "X_Remote_User"]
    names = [name.lower() for name in oidc_headers.forged(["X-Site-User"])]
    assert len(names) == len(set(names))
    assert {"x_site.user", "x-http_method-override", "forwarded", "oidc_claim_sub", "x_slurm-user_token"} <= set(names)


@pytest.mark.parametrize(
    ("name", "odd"),
    [
        *(
            (name, True)
            for name in ("X~Remote~User", "x.forwarded.for", "X!Original!URL", "SSL~CLIENT~VERIFY", "Impersonate-Extra-scopes", "X+Own")
        ),
        *((name, False) for name in ("X-Note", "Forwarded", "Proxy", "X-Remote-Users", "X~Custom~Thing", "Via")),
    ],
)
def test_a_name_that_cgi_reads_as_the_fronts_own_is_odd(name: str, odd: bool) -> None:
    plain = oidc_headers.plain(name)
    begun = any(plain.startswith(oidc_headers.plain(one)) for one in oidc_headers.IDENTITY_PREFIXES)
    assert (plain in oidc_headers.odd_names(["X-Own"]) or begun) == odd


def test_all_names_are_looked_at_before_a_backend_is_chosen() -> None:
    """Not by mod_setenvif, which sees the last header that fits: an empty one would hide the others."""
    text = conf()
    assert text.count("LuaHookTranslateName /etc/apache2/deephdc/header_names.lua header_names early") == 1
    assert 'SetEnvIf "(?i)' not in text
    script = oidc_headers.script(["X-Own"])
    assert "  ['x-own'] = true,\n" in script and "'impersonate-extra-'" in script and "['proxy']" not in script


def test_connections_are_limited_for_all_ports() -> None:
    """The port that only redirects has the same places; another site's virtual host may be its first."""
    text = conf()
    assert text.index("\nQS_SrvMaxConnPerIP 50 75\nQS_SrvMaxConnExcludeIP 127.0.0.1\n") < text.index("<VirtualHost")
    assert text.count("QS_SrvMaxConnPerIP") == 1


def test_every_page_has_safe_headers() -> None:
    text = conf()
    hosts = [part for part in text.split("<VirtualHost")[1:] if "SSLEngine on" in part]
    assert len(hosts) > 1
    for part in hosts:
        assert all(f"Header always set {name} " in part for name in oidc_conf.SAFE_ANSWERS)


@pytest.mark.parametrize(
    ("cookie", "taken"),
    [
        *(
            (one, True)
            for one in (
                "__Host-front=x",
                "__host-front",
                "=__Host-front=x",
                " __Host-front_1 =x",
                "__Host-front_state_443_x=1",
                "__Host-front;x",
            )
        ),
        *((one, False) for one in ("own=1", "__Host-own=1", "my__Host-front=1", "a=__Host-front=1", "JSESSIONID=0")),
    ],
)
def test_an_application_sets_no_cookie_of_the_fronts(cookie: str, taken: bool) -> None:
    (pattern,) = set(re.findall(r'Header edit Set-Cookie "(.*?)" "front', conf()))
    assert bool(re.search(pattern, cookie)) == taken


def test_a_backend_at_the_top_leaves_the_front_its_own_addresses() -> None:
    text = conf(backend={"preset": "jupyterhub", "host": "hub.example.org", "path": None, "audience": None, "scopes": None})
    assert text.index('ProxyPass "/oidc/" "!"') < text.index('ProxyPass "/" "balancer://marathon/"')
    assert text.index('<Location "/oidc/">') > text.index("# Backend marathon")
    assert "ProxyPreserveHost On" in text and "upgrade=websocket" in text


def test_backends_of_one_upstream_keep_their_own_timeouts() -> None:
    """mod_proxy takes two with the same address for one, unless each is in its own balancer."""
    whole = settings()
    other = {**whole["backends"][0], "name": "other", "path": "/other/", "timeout": 7, "websocket": True}
    text = conf(backends=[*whole["backends"], other])
    assert re.search(
        r'<Proxy "balancer://marathon">\s+BalancerMember "http://10.0.0.5:8080" timeout=60 connectiontimeout=3 retry=0\n', text
    )
    assert re.search(r'<Proxy "balancer://other">\s+BalancerMember "http://10.0.0.5:8080" timeout=7 .* upgrade=websocket\n', text)
    assert text.index('ProxyPass "/marathon/v2/events" "balancer://marathon.events/v2/events"') < text.index('ProxyPass "/marathon/" ')


def test_a_socket_is_an_upstream() -> None:
    text = conf(backend={"preset": "slurm_rest", "path": None, "upstreams": None})
    assert 'ProxyPass "/slurm/" "unix:/run/slurm_gateway/http.socket|http://localhost/" timeout=60' in text


@pytest.mark.parametrize(
    "ports_conf, listens",
    [
        ("", ["  Listen 443"]),
        ("Listen 80\n<IfModule ssl_module>\n\tListen 443\n</IfModule>\n", ["  Listen 443"]),
        ("Listen 80\nListen 0.0.0.0:443\n", []),
        ("# nothing\n", ["Listen 443", "Listen 80"]),
    ],
)
def test_a_port_is_opened_once(ports_conf: str, listens: list) -> None:
    """Twice would end Apache at its start, and only there."""
    assert [line for line in conf({"ports_conf": ports_conf}).split("\n") if line.strip().startswith("Listen ")] == listens


def test_secrets_are_in_files_of_root_only() -> None:
    texts = {"/secrets/iam": "the-client-secret", "/secrets/rs": "another-secret", "/secrets/marathon": "Basic YTpi"}
    files = oidc_plan.secret_files(settings(), b"m" * 64, texts)
    found = {item["path"].rsplit("/", 1)[1]: base64.b64decode(item["secret_base64"]).decode() for item in files}
    assert found["secret_backend_marathon.conf"] == 'RequestHeader set Authorization "Basic YTpi"\n'
    assert 'OIDCClientSecret "the-client-secret"' in found["secret_vhost_front.example.org_443.conf"]
    assert {item["mode"] for item in files} == {"0600", "0640"}
    made = str(oidc_plan.plan(settings(), read(), {}))
    assert not any(text in made for text in texts.values())


def test_each_virtual_host_has_a_passphrase_of_its_own() -> None:
    """A session or an answer of the provider that was kept for one is nothing to another."""
    assert oidc_plan.derived(b"m", "a_443") != oidc_plan.derived(b"m", "a_444") != oidc_plan.derived(b"n", "a_444")


def test_files_of_gone_backends_go() -> None:
    present = ["/etc/apache2/deephdc/secret_backend_old.conf", "/etc/apache2/deephdc/secret_backend_marathon.conf"]
    made = oidc_plan.plan(settings(), read(), {}, present)
    assert made["gone"] == [{"path": present[0], "state": "absent"}]


def test_every_file_has_the_mark_by_which_it_is_known_as_ours() -> None:
    whole = settings(
        provider={"ca_file": "/ca.pem"}, certificate="-----BEGIN CERTIFICATE-----", certificate_key="-----BEGIN PRIVATE KEY-----"
    )
    made = oidc_plan.plan(whole, read(), {"/ca.pem": "-----BEGIN CERTIFICATE-----"})
    files = [item for item in made["files"] + made["live"] if "content" in item]
    assert [item["path"] for item in files if "Made by deephdc.accelerators" not in item["content"]] == []


def test_the_page_for_forbidden_names_the_group() -> None:
    pages = oidc_pages.pages(oidc_settings.backends(settings()), True)
    assert "Your account needs to be in the group gpu." in pages["403_marathon.html"]
    assert '"required_groups": [\n  "gpu"\n ]' in pages["403_marathon.json"]


INDIGO = {"claims_supported": ["sub", "preferred_username", "organisation_name", "groups", "wlcg.groups"]}


@pytest.mark.parametrize(
    "provider, found, said",
    [
        ({}, {"issuer": ISSUER.rstrip("/")}, "write it exactly so"),
        ({}, {"jwks_uri": ""}, "have no jwks_uri"),
        # A provider must not write our configuration.
        ({}, {"jwks_uri": 'https://iam.example.org/jwk\nCustomLog "|/bin/sh -c id" x'}, "no jwks_uri that is a plain https address"),
        ({}, {"token_endpoint": "http://iam.example.org/token"}, "a login would send secrets there"),
        ({}, {"code_challenge_methods_supported": None}, "PKCE"),
        ({"pkce": False}, {"code_challenge_methods_supported": None}, ""),
        ({"bearer": "introspection"}, {"introspection_endpoint": ""}, "have no introspection_endpoint"),
        ({}, {"scopes_supported": ["openid"]}, "scopes has email"),
        ({}, INDIGO, "INDIGO IAM (iam) do not carry by default"),
        ({"bearer": "introspection"}, INDIGO, ""),
        ({"access_token_claims": ["scope", "groups", "preferred_username"]}, INDIGO, ""),
        ({"groups_claim": "entitlements"}, {"claims_supported": ["sub", "preferred_username", "groups"]}, "needs the claim entitlements"),
    ],
)
def test_metadata_that_do_not_fit_are_told(provider: dict, found: dict, said: str) -> None:
    whole = settings(provider=provider)
    item = oidc_settings.providers(whole)[0]
    errors = oidc_metadata.metadata_errors(item, oidc_settings.backends(whole), {"metadata": {**METADATA, **found}})
    assert (errors == []) if not said else any(said in sentence for sentence in errors), errors


def test_a_provider_that_is_down_is_told() -> None:
    item = oidc_settings.providers(settings())[0]
    (error,) = oidc_metadata.metadata_errors(item, oidc_settings.backends(settings()), {"error": "timed out"})
    assert "can't be read from this host (timed out)" in error
    assert oidc_metadata.metadata_errors(item, [], {"error": "timed out"}) == []


def test_a_complaint_is_told_to_be_a_backends() -> None:
    text = conf()
    line = next(number for number, content in enumerate(text.split("\n"), 1) if "LimitRequestBody" in content)
    complaint = f"AH00526: Syntax error on line {line} of {oidc_conf.CANDIDATE}:\nInvalid argument"
    assert oidc_conf.guilty(complaint, text).startswith("The backend marathon in oidc_proxy_backends is refused by Apache")
    assert oidc_conf.guilty(complaint.replace(f"line {line}", "line 2"), text).startswith("The new configuration of the front is refused")


def test_questions_about_tokens_take_a_way_on_which_errors_are_no_answers() -> None:
    """mod_auth_openidc does not look at the status: an error with {"active": true} in its body let a token in."""
    assert "introspection.invalid" not in conf(), "nobody is asked"
    text = conf(backends=[{**settings()["backends"][0], "provider": "asked"}])
    assert "OIDCOAuthIntrospectionEndpoint https://127.0.0.1:6391/asked\n" in text
    relay = text[text.index("<VirtualHost 127.0.0.1:6391>") :].split("</VirtualHost>")[0]
    assert "ProxyErrorOverride On" in relay and "SSLProxyVerify require" in relay and "Header unset Location" in relay
    assert "Require all denied" in relay and "Require local" in relay
