# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Identity providers of a cloud: what is refused, what Apache and Keystone get, and which objects Keystone is to have."""

from __future__ import annotations

import re
import typing as t

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import federation, federation_front, front, objects, settings

PEM = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"
IAM: dict[str, t.Any] = {
    "name": "iam",
    "issuer": "https://iam.example.org/",
    "audience": "https://cloud.example.org",
    "groups": [{"group": "/vo/physics", "project": "physics", "roles": ["member"]}],
}
OTHER = {**IAM, "name": "other", "issuer": "https://other.example.org", "jwks_uri": "https://other.example.org/jwk", "ca": PEM}
PARTS = ("keystone", "glance", "placement", "neutron", "nova")


def cloud(*providers: t.Any) -> dict[str, t.Any]:
    return {**settings.DEFAULTS, "projects": [{"name": "physics"}, {"name": "biology"}], "identity_providers": list(providers)}


def changed(**keys: t.Any) -> dict[str, t.Any]:
    return cloud({key: value for key, value in {**IAM, **keys}.items() if value != "absent"})


def group(**keys: t.Any) -> dict[str, t.Any]:
    return changed(groups=[{key: value for key, value in {**IAM["groups"][0], **keys}.items() if value is not None}])


def sentences(given: t.Mapping[str, t.Any]) -> list[str]:
    return [str(found) for found in federation.errors(given)]


def test_what_is_needed_is_enough() -> None:
    assert sentences(cloud()) == sentences(cloud(IAM)) == sentences(cloud(IAM, OTHER)) == []
    both = [{**IAM["groups"][0], "project": name, "roles": "reader"} for name in ("physics", "biology")]
    more = {"audience": ["a", "urn:b"], "groups": both, "groups_claim": "wlcg.groups", "name_claim": "eduperson_principal_name", "ca": PEM}
    assert sentences(cloud({**IAM, **more})) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({**cloud(), "identity_providers": "iam"}, "openstack_cloud_identity_providers is 'iam': write a list of dictionaries"),
        (cloud(IAM, {**OTHER, "name": "iam"}), "iam is there more than once: keep one entry"),
        (cloud(IAM, {**OTHER, "issuer": IAM["issuer"]}), "other has the issuer of iam: name an issuer once"),
        (changed(isuer="x"), "iam has the unknown key 'isuer' (did you mean issuer?)"),
        (changed(name="absent"), "an entry has the name None"),
        (changed(token_types=[]), "iam: token_types is a list: write types of tokens"),
        (changed(token_types=["JWT') || true"]), "iam: token_types is a list"),
        (changed(name="default"), "default has the name 'default'"),
        (changed(name="I AM"), "has the name 'I AM'"),
        (changed(name="../iam"), "has the name '../iam'"),
        (changed(issuer="absent"), "iam has no issuer: give it exactly"),
        (changed(issuer="http://iam.example.org"), "issuer is 'http://iam.example.org', which is no plain https address"),
        (changed(issuer="https://iam.example.org/' || true"), "which is no plain https address"),
        (changed(jwks_uri="http://iam.example.org/jwk"), "jwks_uri is 'http://iam.example.org/jwk'"),
        (changed(metadata_url=["https://iam.example.org"]), "metadata_url is a list"),
        (
            changed(audience="absent"),
            "iam has no audience, so tokens for any other service of the provider would be taken: name the cloud's own",
        ),
        (changed(audience=[]), "iam has no audience"),
        (changed(audience=["ok", "a b"]), "audience has 'a b'"),
        (changed(audience='a"'), "audience has 'a\"'"),
        (changed(groups_claim="a b"), "groups_claim is 'a b': write the name of a claim, such as groups"),
        (changed(subject_claim=""), "subject_claim is ''"),
        (changed(ca="/etc/ssl/ca.pem"), "ca is no certificate in PEM"),
        (changed(ca=PEM + "-----BEGIN PRIVATE KEY-----"), "ca is no certificate in PEM"),
        (changed(groups="absent"), "iam has None as groups"),
        (changed(groups=[]), "iam has a list as groups"),
        (group(gruop="x"), "has the unknown key 'gruop' (did you mean group?)"),
        (group(group=None), "an entry has the group None"),
        (group(group="a;b"), "has the group 'a;b'"),
        (group(group="a{0}"), "has the group 'a{0}'"),
        (group(group="a b"), "has the group 'a b'"),
        (group(project=None), "has the project None, which is not in openstack_cloud_projects"),
        (
            group(project="chemistry"),
            "groups: /vo/physics has the project 'chemistry', which is not in openstack_cloud_projects: correct it",
        ),
        (group(roles=None), "has no roles in physics: write some, such as [member]"),
        (group(roles=["member", "admin"]), "has the role admin, which has rights in the whole cloud"),
        (group(roles="Admin"), "has the role Admin, which"),
        (changed(groups=[*IAM["groups"], *IAM["groups"]]), "has the project physics more than once: name all roles in one entry"),
        (
            changed(groups=[*IAM["groups"], {"group": "/vo/PHYSICS", "project": "biology", "roles": ["member"]}]),
            "/vo/PHYSICS differs from /vo/physics in upper and lower case alone",
        ),
    ],
)
def test_what_is_refused(given: dict[str, t.Any], said: str) -> None:
    found = sentences(given)
    assert len(found) == 1 and said in found[0]
    assert federation.asked(given) == []


def test_providers_without_the_address_of_their_keys_are_asked() -> None:
    url = "https://iam.example.org/.well-known/openid-configuration"
    assert federation.asked(cloud(IAM, OTHER)) == [{"name": "iam", "url": url, "ca": ""}]
    good = {"iam": {"error": "", "metadata": {"issuer": IAM["issuer"], "jwks_uri": "https://iam.example.org/jwk"}}}
    assert federation.metadata_errors(cloud(IAM, OTHER), good) == []
    assert [one["jwks_uri"] for one in federation.with_keys(cloud(IAM, OTHER), good)] == ["https://iam.example.org/jwk", OTHER["jwks_uri"]]


@pytest.mark.parametrize(
    ("read", "said"),
    [
        ({}, f"its metadata at {IAM['issuer']}.well-known/openid-configuration can't be read from Keystone's host (not tried)"),
        ({"error": "HTTP 503", "metadata": {}}, "(HTTP 503): correct the address, run again when the provider is back, or set jwks_uri"),
        ({"metadata": {"issuer": "https://iam.example.org", "jwks_uri": "https://x"}}, "but the metadata say 'https://iam.example.org'"),
        ({"metadata": {"issuer": IAM["issuer"]}}, "no jwks_uri that is a plain https address"),
        ({"metadata": {"issuer": IAM["issuer"], "jwks_uri": "https://x/\nInclude /etc/passwd"}}, "no jwks_uri that is a plain https"),
    ],
)
def test_metadata_that_do_not_fit_are_refused(read: dict[str, t.Any], said: str) -> None:
    (found,) = federation.metadata_errors(cloud(IAM), {"iam": read})
    assert said in str(found)


# --- what Keystone gets


def test_groups_become_groups_with_roles_and_a_rule_each() -> None:
    groups = [
        {"group": "/vo/physics", "project": "physics", "roles": ["member"]},
        {"group": "/vo/physics", "project": "biology", "roles": ["reader"]},
        {"group": "/vo/biology", "project": "biology", "roles": ["member", "reader"]},
    ]
    (made,) = objects.objects(changed(groups=groups), {"offers": {}})["identity_providers"]
    assert made["groups"] == {
        "/vo/physics": {"physics": ["member"], "biology": ["reader"]},
        "/vo/biology": {"biology": ["member", "reader"]},
    }
    assert [rule["local"][1]["group"] for rule in made["rules"]] == [
        {"name": name, "domain": {"name": "iam"}} for name in ("/vo/physics", "/vo/biology")
    ]
    for rule, name in zip(made["rules"], ("/vo/physics", "/vo/biology")):
        # Exact, and only for this provider; the user is who the provider says by its identifier, not by a name.
        assert rule["remote"][2:] == [
            {"type": "HTTP_X_TOKEN_ISSUER", "any_one_of": [IAM["issuer"]]},
            {"type": "HTTP_X_TOKEN_GROUPS", "any_one_of": [name]},
        ]
        assert [rule["remote"][number]["type"] for number in (0, 1)] == ["HTTP_X_TOKEN_SUBJECT", "HTTP_X_TOKEN_NAME"]
        assert rule["local"][0] == {"user": {"id": "{0}", "name": "{1}"}}


def test_a_long_group_has_a_short_name_of_its_own_in_keystone() -> None:
    names = [f"urn:geant:example.org:group:a-virtual-organisation.example.org:role=member:{place}" for place in "ab"]
    short = [federation.group_name(name) for name in names]
    assert [len(name) for name in short] == [64, 64] and short[0] != short[1]
    (made,) = federation.objects(group(group=names[0]))
    assert made["rules"][0]["remote"][3]["any_one_of"] == [names[0]] and list(made["groups"]) == [short[0]]


def test_keystone_takes_identities_of_the_verifiers_headers_alone() -> None:
    made = federation.keystone()
    assert made["auth"]["methods"].split(",") == ["password", "token", "application_credential", "openid"]
    assert made["openid"]["remote_id_attribute"].startswith(made["federation"]["assertion_prefix"])
    given = [f"HTTP_{name.upper().replace('-', '_')}" for name in federation_front.IDENTITY_HEADERS]
    assert all(name.startswith(made["federation"]["assertion_prefix"]) for name in given)
    used = {one["type"] for rule in federation.rules(federation.providers(cloud(IAM))[0]) for one in rule["remote"]}
    assert used == set(given)


# --- what Apache gets


def configuration(*providers: t.Any, host: str = "ctl") -> str:
    metadata = {"iam": {"metadata": {"jwks_uri": "https://iam.example.org/jwk"}}}
    planned = federation_front.plan(federation.with_keys(cloud(*providers), metadata))
    plan = {"hosts": dict.fromkeys(PARTS, "ctl"), "names": dict.fromkeys(PARTS, "ctl"), "federation": planned}
    return {entry["path"]: entry.get("content", "") for entry in front.files(plan, host)}[front.CONF]


def host_of(text: str, address: str) -> str:
    """The lines of a virtual host."""
    return text.split(f"<VirtualHost {address}>\n")[1].split("</VirtualHost>")[0]


def test_without_a_provider_nothing_of_it_is_there() -> None:
    assert federation_front.plan([]) == {}
    assert not re.search("OIDC|Lua|OS-FEDERATION|15000", configuration())


def test_headers_that_say_who_logs_in_are_taken_away_in_each_spelling() -> None:
    text = configuration(IAM, OTHER)
    for address in ("*:5000", "127.0.0.1:15000", "127.0.0.1:15001"):
        for name in federation_front.IDENTITY_HEADERS:
            for spelling in (name, name.replace("-", "_"), name.replace("-", "_", 1), "_".join(name.rsplit("-", 1))):
                assert f"  RequestHeader unset {spelling} early\n" in host_of(text, address)


def test_one_address_of_each_provider_leads_to_its_verifier_and_the_others_are_closed() -> None:
    keystone = host_of(configuration(IAM, OTHER), "*:5000")
    denied = [re.compile(found) for found in re.findall(r'<LocationMatch "(.*)">\n    Require all denied', keystone)]
    granted = [re.compile(found) for found in re.findall(r'<LocationMatch "(.*)">\n    Require all granted', keystone)]
    entrance = "/v3/OS-FEDERATION/identity_providers/{}/protocols/openid/auth"
    for place, name in enumerate(("iam", "other")):
        path = entrance.format(name)
        assert any(one.search(path) for one in denied) and [bool(one.search(path)) for one in granted].count(True) == 1
        assert f'ProxyPass "{path}" "http://127.0.0.1:{15000 + place}{path}"' in keystone
    closed = [entrance.format("third"), entrance.format("iam") + "/", entrance.format("iam") + "/x", entrance.format("IAM")]
    closed += ["/v3/auth/OS-FEDERATION/websso/openid", "/v3/auth/OS-FEDERATION/identity_providers/iam/protocols/openid/websso"]
    closed += [entrance.format("iam").replace("openid", "mapped"), "/v3/auth/OS-FEDERATION/saml2", "/v3/AUTH/os-federation/saml2"]
    for path in closed:
        assert any(one.search(path) for one in denied) and not any(one.search(path) for one in granted), path
    for path in ("/v3/auth/tokens", "/v3/OS-FEDERATION/identity_providers/iam/protocols/openid", "/v3/OS-FEDERATION/mappings/deephdc_iam"):
        assert not any(one.search(path) for one in denied), path
    # It would be the slash for Keystone alone.
    assert keystone.rindex("AllowEncodedSlashes Off") > keystone.rindex("AllowEncodedSlashes NoDecode")
    assert keystone.index('ProxyPass "/v3/') < keystone.index('ProxyPass "/" ')


def test_other_virtual_hosts_know_nothing_of_it() -> None:
    text = configuration(IAM)
    assert "OS-FEDERATION" not in host_of(text, "*:8774") and "AllowEncodedSlashes Off" not in host_of(text, "*:8774")
    assert configuration(IAM, host="other").count("VirtualHost") == 0


def test_a_verifier_asks_for_all_that_a_token_must_have() -> None:
    text = configuration({**IAM, "groups_claim": "wlcg.groups", "subject_claim": "uid", "audience": ["a.b", "c"]}, OTHER)
    one, other = host_of(text, "127.0.0.1:15000"), host_of(text, "127.0.0.1:15001")
    for line in (
        "OIDCOAuthVerifyJwksUri https://iam.example.org/jwk",
        "OIDCOAuthRemoteUserClaim uid",
        "OIDCPassClaimsAs environment",
        "AuthType oauth20",
        "Require method POST",
        "Require expr \"-n %{REMOTE_USER} && env('OIDC_CLAIM_iss') == 'https://iam.example.org/'\"",
        'Require claim "aud~(?s)^(?:a[.]b|c)(?!.)"',
        "Require not env OIDC_CLAIM_cnf",
        'Require not claim "exp~^"',
        "Require openstack-token",
        'Require claim "wlcg.groups~(?s)^(?:/vo/physics)(?!.)"',
        'Require not claim "wlcg.groups~;"',
        'RequestHeader set X-Token-Issuer "https://iam.example.org/"',
        "RequestHeader unset Authorization",
    ):
        assert f" {line}\n" in one, line
    assert "OIDCCABundlePath" not in one and f"OIDCCABundlePath {federation_front.ca_path(OTHER)}\n" in other
    assert (
        f'ProxyPass "{federation_front.path(OTHER)}" "unix:/run/deephdc-keystone/api.socket|http://localhost{federation_front.path(OTHER)}"'
        in other
    )
    assert " Require not env OIDC_CLAIM_at_hash\n" in one and " Require openstack-token-type at+jwt JWT none\n" in one
    dex = host_of(configuration({**IAM, "token_types": ["JWT", "id_token"]}), "127.0.0.1:15000")
    assert "at_hash" not in dex and " Require openstack-token-type JWT id_token\n" in dex
    # Whatever the rules do not grant is closed.
    assert one.index('<Location "/">\n    Require all denied') < one.index("<LocationMatch")


def test_values_are_compared_whole_and_literally() -> None:
    rule = re.compile(federation_front.exactly(["a.b", "c|d", "(e)"]))
    assert all(rule.search(value) for value in ("a.b", "c|d", "(e)"))
    assert not any(rule.search(value) for value in ("axb", "c", "d", "a.b\n", " a.b", "a.bc", "e", ""))
