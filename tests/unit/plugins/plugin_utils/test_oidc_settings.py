# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What an operator may write for a front, and which sentence reports each mistake."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import presets as oidc_presets
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import settings as oidc_settings
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.oidc_examples import settings

BAD_BACKENDS = [
    ({"groups": []}, "groups is there and empty"),
    ({"scopes": ""}, "scopes is there and empty"),
    ({"groups": [None]}, "groups must be a list of texts"),
    ({"audience": ["front"]}, "audience has the client_id of iam"),
    ({"audience": None}, "has no audience"),
    ({"audience": None, "provider": "asked"}, "introspection would accept tokens that were made for any other service"),
    ({"provider": "nobody"}, "provider is 'nobody'"),
    ({"access": "everyone"}, "access is 'everyone'"),
    ({"acces": "both"}, "unknown key 'acces' (did you mean access?)"),
    ({"preset": "mesosphere"}, "preset is 'mesosphere'"),
    ({"path": "/marathon"}, "path is '/marathon'"),
    ({"path": "/oidc/"}, "the front's own"),
    ({"path": "/a b/"}, "path is"),
    ({"upstreams": ["http://x/\nRequire all granted"]}, "upstreams has"),
    ({"upstreams": []}, "no upstreams"),
    ({"upstreams": ["http://2001:db8::5:8080/"]}, "http://[2001:db8::5]:8080/"),
    ({"groups": ["g pu"]}, "can't hold exactly"),
    ({"groups": ['gpu"']}, "can't hold exactly"),
    ({"scopes": ["a\\b"]}, "can't hold exactly"),
    ({"methods": ["OPTIONS"]}, "methods has 'OPTIONS'"),
    ({"methods": []}, "methods is empty"),
    ({"user_header": "Authorization"}, "can't be used as a header"),
    ({"user_header": "X-User\nX"}, "can't be used as a header"),
    ({"claims_headers": {"Cookie": "sub"}}, "can't be used as a header"),
    ({"claims_headers": {"X-Sub": "sub')"}}, "the name of a claim has letters"),
    ({"credential_file": "secret"}, "absolute path"),
    ({"timeout": True}, "timeout must be a whole number"),
    ({"body_limit": 0}, "body_limit is 0"),
    ({"websocket": "yes"}, "websocket must be true or false"),
    ({"host": "*.example.org"}, "no name of a host"),
    ({"access": "browser"}, "rules for tokens"),
    ({"sse_paths": ["../x"]}, "no path below"),
]

BAD_PROVIDERS = [
    ({"issuer": "http://iam.example.org/"}, "no https address"),
    ({"issuer": None}, "has no issuer"),
    ({"issuer": "https://iam.example.org/' || true"}, "it has a host's name, perhaps a port, and a path of letters"),
    ({"issuer": "https://iam.example.org/?p=users"}, "give metadata_url"),
    ({"introspection_endpoint": "https://iam.example.org/?p=users"}, "no query, which Apache can't send on"),
    ({"bearer": "none"}, "has bearer: none"),
    ({"bearer": "jwt"}, "use none, local or introspection"),
    ({"client_secret_file": None}, "has no client_secret_file"),
    ({"client_id": "a b"}, "client_id has characters"),
    ({"scopes": ["email"]}, "lacks openid"),
    ({"scopes": ["openid", 'a"b']}, "no scope"),
    ({"groups_claim": "groups~.*"}, "the name of a claim has letters"),
    ({"groups_claim": "https://claims.example.org/a b"}, "the name of a claim has letters"),
    ({"port": 80}, "can't have the port 80"),
    ({"name": "IAM"}, "no name"),
]

BAD_SITES = [
    ({"server_name": ""}, "no name of a host"),
    ({"server_name": "front.example.org\nInclude /etc/passwd"}, "no name of a host"),
    ({"certificate": ""}, "not both set"),
    ({"own_ca": True}, "both set"),
    ({"certificate_key": "front.key"}, "neither a path"),
    ({"backends": []}, "oidc_proxy_backends is empty"),
    ({"providers": []}, "oidc_proxy_providers is empty"),
    ({"backends": "marathon"}, "must be a list"),
    ({"port": "https"}, "no port"),
    ({"refusals_per_minute": 65534}, "the most that can be counted"),
]


def test_the_example_is_good() -> None:
    assert oidc_settings.errors(settings()) == []


@pytest.mark.parametrize(
    "changes",
    [
        *({"backend": change, "says": said} for change, said in BAD_BACKENDS),
        *({"provider": change, "says": said} for change, said in BAD_PROVIDERS),
        *({**change, "says": said} for change, said in BAD_SITES),
    ],
    ids=str,
)
def test_a_mistake_is_told(changes: dict) -> None:
    said = changes.pop("says")
    errors = oidc_settings.errors(settings(**changes))
    assert any(said in sentence for sentence in errors), errors


@pytest.mark.parametrize(
    "changes",
    [
        {"provider": {"groups_claim": "cognito:groups"}},
        {"provider": {"groups_claim": "https://claims.example.org/roles"}},
        {"provider": {"issuer": "https://iam.example.org/v2.0?p=users", "metadata_url": "https://iam.example.org/v2.0/metadata?p=users"}},
        {"provider": {"jwks_uri": "https://iam.example.org/keys?p=users"}},
        {"backend": {"upstreams": ["http://[2001:db8::5]:8080/", "https://[::1]/x/"]}},
        {"backend": {"claims_headers": {"X-Role": "https://claims.example.org/role"}}},
    ],
    ids=str,
)
def test_names_and_addresses_of_real_sites_are_taken(changes: dict) -> None:
    assert oidc_settings.errors(settings(**changes)) == []


def test_a_sentence_names_backend_and_remedy() -> None:
    (sentence,) = oidc_settings.errors(settings(backend={"audience": None}))
    assert sentence.startswith("oidc_proxy_backends: marathon has no audience, so local validation would accept")


def test_backends_must_not_lie_in_each_other() -> None:
    whole = settings()
    whole["backends"].append({**whole["backends"][0], "name": "inner", "path": "/marathon/inner/"})
    assert "marathon and inner overlap on front.example.org" in oidc_settings.errors(whole)[0]
    whole["backends"][1]["host"] = "other.example.org"
    assert oidc_settings.errors(whole) == []


@pytest.mark.parametrize("behind", ["a|http://localhost/x/", "a|http://LocalHost/"])
def test_two_sockets_need_two_names(behind: str) -> None:
    """Apache takes the longest address that fits a request, whatever socket it is behind."""
    whole = settings(backend={"upstreams": ["unix:/run/b|http://localhost/"]})
    whole["backends"].append({**whole["backends"][0], "name": "inner", "host": "other.example.org", "upstreams": [f"unix:/run/{behind}"]})
    (sentence,) = oidc_settings.errors(whole)
    assert sentence.startswith("oidc_proxy_backends: marathon and inner have two sockets and one name, ")
    assert sentence.endswith(" behind '|': give each its own, such as unix:/run/a|http://inner/.")
    for good in ("a|http://inner/", "b|http://localhost/"):
        whole["backends"][1]["upstreams"] = [f"unix:/run/{good}"]
        assert oidc_settings.errors(whole) == []


@pytest.mark.parametrize("name", oidc_presets.PRESETS)
def test_each_preset_is_complete_but_for_what_only_a_site_can_decide(name: str) -> None:
    rule = {"upstreams": ["http://10.0.0.5:80"], "audience": "x"}
    if oidc_presets.PRESETS[name]["access"] == "browser":
        del rule["audience"]
    whole = settings(backends=[{"name": "it", "preset": name, "provider": "iam", **rule}])
    assert oidc_settings.errors(whole) == []


def test_no_preset_decides_who_comes_in() -> None:
    deciding = {"provider", "audience", "scopes", "groups", "credential_file"}
    assert [name for name, preset in oidc_presets.PRESETS.items() if deciding & set(preset)] == []


SECRETS = {"/secrets/iam": "0123456789abcdef", "/secrets/rs": "0123456789abcdef", "/secrets/marathon": "Basic YTpi"}


@pytest.mark.parametrize(
    "texts, said",
    [
        ({}, ""),
        ({"/secrets/iam": 'abcdefgh"\nInclude /x'}, "the file of client_secret_file"),
        ({"/secrets/iam": "${HOME}-and-more"}, "the file of client_secret_file"),
        ({"/secrets/iam": "short"}, "the file of client_secret_file"),
        ({"/secrets/marathon": "admin:secret"}, "the file of credential_file"),
        ({"/secrets/marathon": 'Basic YTpi"\nX'}, "the file of credential_file"),
    ],
)
def test_secrets_are_checked_without_being_told(texts: dict, said: str) -> None:
    errors = oidc_settings.secret_errors(settings(), {**SECRETS, **texts})
    assert [said in sentence for sentence in errors] == ([True] if said else [])
    assert not any(text in sentence for text in texts.values() for sentence in errors)
