# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Users of an identity provider: their groups give them projects. What is wrong with a token, or with the way to Keystone, is refused.

The provider has alice in the group gpu (project physics), bob in bio (biology), carol in both, and mallory in none.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from local import Cluster
from openstack_tokens import AUDIENCE, ENTRANCE, IAM, KEYSTONE, Provider, ask, known_attacks, let_in, request
from openstack_users import Account

OWNS = (
    "roles/openstack_control_plane/tasks/front.yml",
    "plugins/module_utils/_openstack/federation.py",
    "plugins/plugin_utils/_openstack/federation*.py",
    "plugins/plugin_utils/_openstack/front.py",
    "molecule/openstack/iam.yml",
    "tests/verify/openstack/ask.py",
    "tests/verify/openstack_tokens.py",
)

PLAYBOOK = "playbooks/openstack.yml"
GROUPS = [
    {"group": "gpu", "project": "physics", "roles": ["member"]},
    {"group": "bio", "project": "biology", "roles": ["member"]},
]
Count = Callable[[str, object], None]


@pytest.fixture(scope="module")
def provider(cluster: Cluster) -> Provider:
    return Provider(cluster)


def login(cluster: Cluster, token: str, project: str = "") -> Account:
    """Who comes with a token of the provider, by openstacksdk alone."""
    auth = {"auth_url": KEYSTONE, "identity_provider": "iam", "protocol": "openid", "access_token": token}
    scope = {"project_name": project, "project_domain_name": "Default"} if project else {}
    given = {"auth_type": "v3oidcaccesstoken", "auth": {**auth, **scope}, "region_name": "RegionOne", "cacert": "/run/test-ca.pem"}
    return Account(cluster, given, project)


def issued(cluster: Cluster, user: str) -> str:
    """A token that the provider itself gives to a user who signs in."""
    return cluster.out(IAM, f"SSL_CERT_FILE=/etc/idp/ca.pem python3 /opt/test/login.py token {user} {AUDIENCE} api:read")


def status(account: Account, question: str = "cloud.session.auth.get_access(cloud.session)") -> int:
    """The status by which the cloud refuses a call; 0 where it does not."""
    return int(
        account.ask(f"""
            import keystoneauth1.exceptions
            try:
                {question}
                answer = 0
            except openstack.exceptions.HttpException as error:
                answer = error.status_code
            except keystoneauth1.exceptions.HttpError as error:
                answer = error.http_status
        """)
    )


def entered(cluster: Cluster, text: bytes) -> dict[str, Any]:
    """What Keystone says of who has just come in."""
    answer = ask(cluster, {"": text})[""]
    assert answer.token, answer
    return dict(json.loads(answer.body)["token"])


# --- who may


def test_groups_give_project_and_role(cluster: Cluster, admin: Account, ada: Account) -> None:
    """By a token that the provider itself issued to who signed in, to a server that runs."""
    alice = login(cluster, issued(cluster, "alice"), "physics")
    seen = alice.ask("""
        session, access = cloud.session, cloud.session.auth.get_access(cloud.session)
        projects = [one["name"] for one in cloud.identity.get("/auth/projects").json()["projects"]]
        answer = [access.project_name, sorted(access.role_names), projects, access.user_domain_name, access.username]
    """)
    assert seen == ["physics", ["member", "reader"], ["physics"], "iam", "alice"]
    server = alice.start("by-token", "a100")
    try:
        assert (server["status"], server["fault"]) == ("ACTIVE", "")
        # Who has an account with a password in the project sees it, too.
        assert "by-token" in ada.ask("answer = [one.name for one in cloud.compute.servers()]")
    finally:
        alice.remove(server["id"])


def test_users_see_the_projects_of_their_groups_alone(cluster: Cluster, admin: Account, provider: Provider) -> None:
    alice = login(cluster, provider.token("alice"), "physics")
    bob = login(cluster, provider.token("bob"), "biology")
    server = alice.start("mine", "small")
    try:
        assert bob.ask("answer = [one.name for one in cloud.compute.servers()]") == []
        assert status(bob, f"cloud.compute.get_server({server['id']!r})") == 404
        assert status(bob, f"cloud.compute.delete_server({server['id']!r}, ignore_missing=False)") == 404
        assert status(login(cluster, provider.token("bob"), "physics")) == 401
        assert status(login(cluster, provider.token("alice"), "biology")) == 401
        assert status(login(cluster, provider.token("alice"), "admin")) == 401
        carol = login(cluster, provider.token("carol"))
        listed = carol.ask('answer = sorted(one["name"] for one in cloud.identity.get("/auth/projects").json()["projects"])')
        assert listed == ["biology", "physics"]
        assert status(login(cluster, provider.token("carol"), "biology"), "list(cloud.compute.servers())") == 0
    finally:
        alice.remove(server["id"])


def test_a_member_is_no_administrator(cluster: Cluster, admin: Account, provider: Provider) -> None:
    """Not with the name of one, either."""
    named = login(cluster, provider.token("alice", preferred_username="admin"), "physics")
    for question in ("list(cloud.identity.users())", "list(cloud.compute.servers(all_projects=True))", "list(cloud.identity.mappings())"):
        assert status(named, question) == 403, question


def test_the_client_on_the_command_line_needs_no_secret_in_a_file(cluster: Cluster, admin: Account, provider: Provider) -> None:
    """As docs/openstack_access.md says."""
    clouds = {
        "auth_type": "v3oidcaccesstoken",
        "auth": {
            "auth_url": KEYSTONE,
            "identity_provider": "iam",
            "protocol": "openid",
            "project_name": "physics",
            "project_domain_name": "Default",
        },
        "region_name": "RegionOne",
        "cacert": "/run/test-ca.pem",
    }
    cluster.out("ctl", f"mkdir -p /root/user; cat > /root/user/clouds.yaml <<'END'\n{json.dumps({'clouds': {'site': clouds}})}\nEND")
    words = "cd /root/user; OS_CLOUD=site openstack"
    said = cluster.out(
        "ctl", f"export OS_ACCESS_TOKEN={provider.token('alice')}; {words} network list --internal --format value --column Name"
    )
    assert said == "physics"
    assert cluster.run("ctl", f"export OS_ACCESS_TOKEN={provider.token('mallory')}; {words} network list").returncode != 0
    cluster.out("ctl", "rm -r /root/user")


def test_good_tokens_in_other_forms_are_good(cluster: Cluster, provider: Provider, record_property: Count) -> None:
    """A front that refuses everything would pass all attacks."""
    good = {
        "audience among others": {"aud": ["https://other.site.test", AUDIENCE]},
        "groups among others": {"groups": ["vo/x", "gpu", "z y"]},
        "one group as text": {"groups": "gpu"},
        "hundreds of groups": {"groups": [f"group{number:04}" for number in range(400)] + ["gpu"]},
        "a group in other letters": {"groups": ["gr\u00fcppe", "gpu"]},
        "no name": {"preferred_username": None},
        "a name that can't be shown": {"preferred_username": "x\r\nX-Token-Groups: ;bio;"},
        "no scope": {"scope": None},
        "clocks that differ": {"iat": "now+15", "nbf": "now+15"},
        "a subject of another kind": {"sub": "auth0|5f7c8ec7c33c6c004bbafe82/x@example.org"},
    }
    answers = ask(cluster, {name: request(token=provider.token("alice", **changes)) for name, changes in good.items()})
    assert let_in(answers) == list(good), {name: answer for name, answer in answers.items() if not answer.token}
    record_property("attacks", f"tokens in other forms: {len(good)} must pass, 0 turned away")


def test_who_it_is_says_the_subject_alone(cluster: Cluster, admin: Account, provider: Provider) -> None:
    """Neither case, nor another's name, nor a local account's name makes one user another."""
    local = admin.ask("answer = {one.name: one.id for one in cloud.identity.users(domain_id='default')}")
    first = entered(cluster, request(token=provider.token("alice")))["user"]
    again = entered(cluster, request(token=provider.token("alice", preferred_username="other")))["user"]
    assert again["id"] == first["id"] and first["domain"]["name"] == "iam"
    others = [{"sub": "Id-X"}, {"sub": "id-x"}, {"sub": "id-\u0130"}, {"sub": "ada"}, {"sub": local["ada"]}, {"sub": "admin"}]
    texts = {str(number): request(token=provider.token("alice", **changes)) for number, changes in enumerate(others)}
    answers = [answer for answer in ask(cluster, texts).values() if answer.token]
    found = [json.loads(answer.body)["token"]["user"]["id"] for answer in answers]
    assert len(found) == len(others) - 1  # the one in other letters is refused
    assert len({*found, first["id"], *local.values()}) == len(found) + 1 + len(local)


# --- who may not


@pytest.fixture(autouse=True)
def a_good_token_is_good(cluster: Cluster, ada: Account, provider: Provider) -> Iterator[None]:
    """Before and after each test, or it would prove nothing."""
    assert let_in(ask(cluster, {"good": request(token=provider.token("alice"))})) == ["good"]
    yield
    assert let_in(ask(cluster, {"good": request(token=provider.token("alice"))})) == ["good"]


def test_tokens_with_anything_wrong_are_refused(cluster: Cluster, provider: Provider, record_property: Count) -> None:
    """Those that the front is attacked with; rules of scopes and names are the front's own."""
    texts = known_attacks(provider, "tokens", {"method": "POST"}, ("scope-", "user-"))
    second = Provider(cluster, "2")
    third = "https://iam2.site.test:9443"
    own = {
        "no group at all": provider.token("mallory"),
        "groups that look alike": provider.token("admin"),
        "a group with the sign between groups": provider.token("alice", groups=["x;gpu", "bio"]),
        "one text with the sign": provider.token("alice", groups=";gpu;"),
        "an object with the sign": provider.token("alice", groups={"a": ";gpu;"}),
        "a line end in a group": provider.token("alice", groups=["gpu", "x\r\nX-Token-Subject: admin"]),
        "groups in other letters, too": provider.token("alice", GROUPS=["bio"]),
        "an issuer in other letters, too": provider.token("alice", iss=third, ISS="https://iam.site.test"),
        "another claim": provider.token("alice", groups=None, roles=["gpu"], **{"wlcg.groups": ["gpu"]}),
        "a provider that is not ours": second.token("alice", iss=third),
        "a provider that is not ours, as ours": second.token("alice"),
        "our keys, another's name": provider.token("alice", iss=third),
        "no subject": provider.token("alice", sub=None),
        "an empty subject": provider.token("alice", sub=""),
        "a subject of two": provider.token("alice", sub="x;y"),
        "a subject with a template": provider.token("alice", sub="{0}"),
        "a subject with a line end": provider.token("alice", sub="x\r\nX-Token-Groups: ;bio;"),
        "a long subject": provider.token("alice", sub="x" * 300),
    }
    texts.update({name: request(token=token) for name, token in own.items()})
    texts["the token to another provider's address"] = request(ENTRANCE.replace("/iam/", "/iam2/"), token=provider.token("alice"))
    texts["the token as one of Keystone"] = request("/v3/auth/projects", f"X-Auth-Token: {provider.token('alice')}", method="GET")
    answers = ask(cluster, texts)
    assert len(answers) >= 190 and let_in(answers) == []
    # Refused, and not failed.
    assert {answer.status for answer in answers.values()} <= {400, 401, 403, 404}, answers
    record_property("attacks", f"tokens at Keystone: {len(answers)} attacks, 0 let in")


def spellings() -> list[str]:
    """Headers as the verifier sends them, in every way to write their names, and in some that no server should read as these."""
    values = {"Issuer": "https://iam.site.test", "Subject": "x", "Groups": ";gpu;", "Name": "x"}
    lines = []
    for name, value in values.items():
        for first, second in itertools.product("-_.~", repeat=2):
            lines.append(f"X{first}Token{second}{name}: {value}")
        lines += [f"x-token-{name.lower()}: {value}", f"X_TOKEN_{name.upper()}: {value}", f"HTTP_X_TOKEN_{name.upper()}: {value}"]
    return lines


def openid(provider_name: str = "iam", protocol: str = "openid") -> str:
    """The body by which a client could ask for the same login at the usual address."""
    method = {"identity_provider": provider_name, "protocol": protocol}
    return json.dumps({"auth": {"identity": {"methods": [protocol], protocol: method}}})


def test_no_client_says_itself_who_it_is(cluster: Cluster, provider: Provider, record_property: Count) -> None:
    forged, none = spellings(), provider.token("mallory")
    underlined = [line for line in forged if line.startswith("X_TOKEN_")]
    texts = {
        "at the entrance": request(ENTRANCE, *forged),
        "with a token of nobody": request(ENTRANCE, *forged, token=none),
        "at the usual address": request("/v3/auth/tokens", *forged, body=openid()),
        "at the usual address, underlined": request("/v3/auth/tokens", *underlined, body=openid()),
        "at the usual address, mapped": request("/v3/auth/tokens", *forged, body=openid(protocol="mapped")),
        "with a token at the usual address": request("/v3/auth/tokens", *forged, token=provider.token("alice"), body=openid()),
        "each twice": request("/v3/auth/tokens", *forged, *forged, body=openid()),
        "empty ones first": request("/v3/auth/tokens", *(line.partition(":")[0] + ":" for line in forged), *forged, body=openid()),
        "by GET": request(ENTRANCE, *forged, method="GET"),
        "by HEAD": request(ENTRANCE, *forged, method="HEAD"),
        "by OPTIONS": request(ENTRANCE, *forged, method="OPTIONS"),
        "by another method's name": request(ENTRANCE, *forged, "X-HTTP-Method-Override: POST", method="GET"),
        "as a browser": request("/v3/auth/OS-FEDERATION/websso/openid?origin=https://mallory.test", *forged, method="GET"),
        "as a browser of the provider": request(
            "/v3/auth/OS-FEDERATION/identity_providers/iam/protocols/openid/websso?origin=https://mallory.test", *forged, method="GET"
        ),
    }
    for line in forged:
        texts[f"only {line}"] = request("/v3/auth/tokens", line, body=openid())
    for name in ("REMOTE_USER", "Remote-User", "X-Remote-User", "OIDC_CLAIM_groups", "OIDC-CLAIM-groups", "OIDC_CLAIM_sub"):
        texts[f"also {name}"] = request(ENTRANCE, f"{name}: gpu", token=none)
    trailer = "POST /v3/auth/tokens HTTP/1.1\r\nHost: ctl:5000\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n"
    ends = "\r\n".join(underlined)
    texts["in a trailer"] = f"{trailer}\r\n{len(openid()):x}\r\n{openid()}\r\n0\r\n{ends}\r\n\r\n".encode()
    answers = ask(cluster, texts)
    assert len(answers) >= 90 and let_in(answers) == []
    assert 500 not in {answer.status for answer in answers.values()}
    # Beside a good token they change nothing.
    plain = entered(cluster, request(token=provider.token("bob")))["user"]
    assert len(plain["OS-FEDERATION"]["groups"]) == 1
    passes = {line: request(ENTRANCE, line, token=provider.token("bob")) for line in forged}
    passes["all"] = request(ENTRANCE, *forged, token=provider.token("bob"))
    good = ask(cluster, passes)
    assert let_in(good) == list(passes)
    assert [name for name, answer in good.items() if json.loads(answer.body)["token"]["user"] != plain] == []
    record_property(
        "attacks", f"forged identities at Keystone: {len(answers)} attacks, 0 let in; {len(passes)} must pass, 0 turned away or changed"
    )


def test_no_other_path_leads_to_the_entrance(cluster: Cluster, provider: Provider, record_property: Count) -> None:
    """Those that the front is attacked with, and some for Keystone; no user is signed in, and all claim to be some user."""
    headers = spellings()
    texts = known_attacks(provider, "paths", {"method": "POST", "comes": "nothing", "headers": headers}, ())
    own = [
        ENTRANCE.replace("/", "//"),
        ENTRANCE.replace("/", "%2f"),
        ENTRANCE.replace("/OS-FEDERATION/", "/OS-FEDERATION%2F"),
        ENTRANCE.replace("/auth", "%2Fauth"),
        ENTRANCE.replace("/", "%252f"),
        ENTRANCE.replace("/", "\\"),
        ENTRANCE.replace("/auth", "/%61uth"),
        ENTRANCE.replace("OS-FEDERATION", "OS%2DFEDERATION"),
        ENTRANCE.replace("OS-FEDERATION", "os-federation"),
        ENTRANCE.replace("/iam/", "/IAM/"),
        ENTRANCE.replace("/iam/", "/iam%00/"),
        ENTRANCE.replace("/v3/", "/v3/auth/../"),
        ENTRANCE.replace("/v3/", "/v3/auth/..;/"),
        ENTRANCE.replace("/v3/", "/v3/auth/%2e%2e/"),
        ENTRANCE.replace("/v3/", "/v3;x=y/"),
        ENTRANCE.replace("/v3/", "/V3/"),
        ENTRANCE.replace("/v3/", "/v2.0/../v3/"),
        ENTRANCE.replace("/openid/", "/mapped/"),
        ENTRANCE.replace("/openid/", "/saml2/"),
        ENTRANCE + "/",
        ENTRANCE + "//",
        ENTRANCE + "/.",
        ENTRANCE + "/x/..",
        ENTRANCE + "%20",
        ENTRANCE + "?x=/v3/auth/tokens",
        "https://ctl:5000" + ENTRANCE,
        "http://127.0.0.1:15000" + ENTRANCE,
        "http://localhost" + ENTRANCE,
    ]
    texts.update({path: request(path, *headers) for path in own})
    # The same with a good token: other ways to write the entrance let it in, an address that no verifier has is closed to it, too.
    same = [
        ENTRANCE.replace("/auth", "/%61uth"),
        ENTRANCE.replace("OS-FEDERATION", "OS%2DFEDERATION"),
        ENTRANCE.replace("/v3/", "/v3/auth/../"),
        ENTRANCE + "?x=/v3/auth/tokens",
    ]
    closed = [path for path in own if path.startswith("/v3/OS-FEDERATION") and path not in same]
    texts.update({f"{path} with a token": request(path, token=provider.token("alice")) for path in closed})
    answers = ask(cluster, texts)
    assert len(answers) >= 120 and let_in(answers) == []
    assert 500 not in {answer.status for answer in answers.values()}
    passes = {path: request(path, token=provider.token("alice")) for path in same}
    assert let_in(ask(cluster, passes)) == same
    record_property("attacks", f"paths to Keystone's entrance: {len(answers)} attacks, 0 let in; {len(same)} must pass, 0 turned away")


def test_no_header_is_taken_away_as_one_for_the_next_hop(cluster: Cluster, provider: Provider, record_property: Count) -> None:
    names = ("X-Token-Issuer", "X-Token-Subject", "X-Token-Groups", "x-token-groups", "X-Forwarded-Proto", "Authorization", "Host")
    values = [*names, *(f"close, {name}" for name in names), "keep-alive,X-Token-Groups", "close,,X-Token-Groups", '"X-Token-Groups"']
    texts = {value: request(ENTRANCE, f"Connection: {value}", token=provider.token("alice")) for value in values}
    texts["two lines"] = request(ENTRANCE, "Connection: close", "Connection: X-Token-Groups", token=provider.token("alice"))
    assert let_in(ask(cluster, texts)) == []
    good = ("close", "close, TE", "keep-alive, close", "Close", "TE, close")
    passes = {value: request(ENTRANCE, f"Connection: {value}", token=provider.token("alice")) for value in good}
    assert let_in(ask(cluster, passes)) == [*good]
    record_property("attacks", f"headers for the next hop: {len(texts)} attacks, 0 let in; {len(good)} must pass, 0 turned away")


def test_users_of_the_controller_come_in_by_no_other_way(cluster: Cluster, provider: Provider, record_property: Count) -> None:
    """The verifier can be reached there, and is one; Keystone's socket can't."""
    forged = spellings()
    texts = {
        "no token": request(ENTRANCE, *forged),
        "token of nobody": request(ENTRANCE, *forged, token=provider.token("mallory")),
        "hop by hop": request(ENTRANCE, "Connection: close, X-Token-Groups", token=provider.token("alice")),
        "usual address": request("/v3/auth/tokens", *forged, body=openid()),
        "other path": request(ENTRANCE.replace("/auth", "%2fauth"), *forged),
        "below": request(ENTRANCE + "/x", *forged, token=provider.token("alice")),
        "other name": request(ENTRANCE, *forged).replace(b"ctl:5000", b"keystone"),
    }
    assert let_in(ask(cluster, texts, "ctl", 15000, "127.0.0.1", tls=False)) == []
    good = {"good": request(ENTRANCE, *forged, token=provider.token("alice"))}
    assert let_in(ask(cluster, good, "ctl", 15000, "127.0.0.1", tls=False)) == ["good"]
    assert cluster.run("lxd1", "curl --silent --max-time 5 http://ctl:15000/").returncode == 7
    cluster.out("ctl", "id visitor 2>/dev/null || useradd --create-home --shell /bin/bash visitor")
    curl = f"curl --silent --show-error --unix-socket /run/deephdc-keystone/api.socket http://localhost{ENTRANCE}"
    done = cluster.run("ctl", curl, user="visitor")
    assert done.returncode == 7, done
    assert cluster.run("ctl", curl).returncode == 0
    # What is kept away there would be believed: in a request that Apache has not seen, Keystone can't know better.
    headers = " ".join(f"-H '{line}'" for line in forged if line.startswith("X_TOKEN_"))
    asked = f"{headers} -H 'Content-Type: application/json' -d '{openid()}' http://localhost/v3/auth/tokens"
    words = "curl --silent --output /dev/null --write-out '%{http_code}' --unix-socket /run/deephdc-keystone/api.socket"
    assert cluster.out("ctl", f"{words} {asked}") == "201"
    for path in ("/etc/keystone/keystone.conf", "/etc/keystone/fernet-keys/0"):
        assert cluster.run("ctl", f"cat {path}", user="visitor").returncode != 0
    cluster.out("ctl", "userdel --remove visitor")
    record_property("attacks", f"users of the controller: {len(texts) + 4} attacks, 0 let in; 2 must pass, 0 turned away")


# --- who may no longer


def test_who_leaves_a_group_at_the_provider_gets_no_new_login(cluster: Cluster, provider: Provider) -> None:
    assert let_in(ask(cluster, {"": request(token=issued(cluster, "carol"))})) == [""]
    less = json.loads(cluster.out(IAM, "cp --archive /etc/idp/site.json /root/site.json && cat /etc/idp/site.json"))
    next(one for one in less["users"] if one["name"] == "carol")["groups"] = ["other"]
    reads = "curl --silent --fail --cacert /etc/idp/ca.pem --output /dev/null https://iam.site.test/jwks"
    restart = f"systemctl restart idp@site; for try in $(seq 60); do {reads} && exit; sleep 0.5; done; exit 1"
    try:
        cluster.out(IAM, f"cat > /etc/idp/site.json <<'END'\n{json.dumps(less)}\nEND\n{restart}")
        assert ask(cluster, {"": request(token=issued(cluster, "carol"))})[""].status == 403
    finally:
        cluster.out(IAM, f"mv /root/site.json /etc/idp/site.json && {{ {restart}; }}")


@pytest.fixture
def providers(cluster: Cluster) -> Iterator[Callable[[list[dict[str, Any]]], str]]:
    """Runs the playbook's part for objects with other groups, or without the provider where there are none; at last with all of them."""
    ca = (cluster.secrets / "pki/ca.pem").read_text(encoding="utf-8")

    last = GROUPS

    def run(groups: list[dict[str, Any]]) -> str:
        nonlocal last
        last = groups
        one = {"name": "iam", "issuer": "https://iam.site.test", "audience": AUDIENCE, "ca": ca, "groups": groups}
        variables = {"openstack_cloud_identity_providers": [one] if groups else []}
        return " ".join(cluster.playbook(PLAYBOOK, "--tags", "openstack_cloud", variables=variables).split())

    yield run
    if last != GROUPS:
        run(GROUPS)


def test_who_is_taken_out_can_start_nothing_and_servers_go_on(
    cluster: Cluster, admin: Account, ada: Account, provider: Provider, providers: Callable[[list[dict[str, Any]]], str]
) -> None:
    token = provider.token("alice")
    alice = login(cluster, token, "physics")
    server = alice.start("stays", "small")
    unscoped = ask(cluster, {"": request(token=token)})[""].token
    scoped = alice.ask("answer = cloud.auth_token")
    try:
        said = providers(GROUPS[1:])
        assert "The group gpu of iam loses the role member in the project physics." in said, said[-3000:]
        # A new login, a new token for the project by an old login, and an old token for the project.
        assert status(alice) == 401
        scope = {"project": {"name": "physics", "domain": {"id": "default"}}}
        again = json.dumps({"auth": {"identity": {"methods": ["token"], "token": {"id": unscoped}}, "scope": scope}})
        answers = ask(
            cluster,
            {
                "project": request("/v3/auth/tokens", body=again),
                "old": request("/v3/auth/tokens", f"X-Auth-Token: {scoped}", f"X-Subject-Token: {scoped}", method="GET"),
            },
        )
        assert [answer.status in (401, 404) for answer in answers.values()] == [True, True] and let_in(answers) == [], answers
        curl = f"curl --silent --output /dev/null --write-out '%{{http_code}}' --cacert /run/test-ca.pem -H 'X-Auth-Token: {scoped}'"
        # Services believe a token that they have seen for a while.
        cluster.until("ctl", f"{curl} https://ctl:8774/v2.1/servers", "401", seconds=90)
        assert ada.show(server["id"])["status"] == "ACTIVE"
        # Others of the provider are as before.
        assert let_in(ask(cluster, {"bob": request(token=provider.token("bob"))})) == ["bob"]
    finally:
        ada.remove(server["id"])


def test_a_provider_that_is_no_longer_named_lets_nobody_in(
    cluster: Cluster, admin: Account, provider: Provider, providers: Callable[[list[dict[str, Any]]], str]
) -> None:
    before = entered(cluster, request(token=provider.token("bob")))["user"]["id"]
    said = providers([])
    assert "The identity provider iam is closed." in said, said[-3000:]
    assert let_in(ask(cluster, {name: request(token=provider.token(name)) for name in ("alice", "bob", "carol")})) == []
    providers(GROUPS)
    # The same user again, with the former identifier.
    assert entered(cluster, request(token=provider.token("bob")))["user"]["id"] == before


CONTROL_NODE: dict[str, dict[str, Any]] = {
    "issuer is 'http://iam.site.test', which is no plain https address": {"issuer": "http://iam.site.test"},
    "second has no audience, so tokens for any other service of the provider would be taken": {"audience": ""},
    "has the project 'chemistry', which is not in openstack_cloud_projects": {"groups": [{**GROUPS[0], "project": "chemistry"}]},
    "has the role admin, which has rights in the whole cloud": {"groups": [{**GROUPS[0], "roles": ["admin"]}]},
}
METADATA: dict[str, dict[str, Any]] = {
    "issuer is 'https://iam.site.test/', but the metadata say 'https://iam.site.test'": {"issuer": "https://iam.site.test/"},
    "can't be read from Keystone's host": {"ca": "", "issuer": "https://iam2.site.test:9443"},
}


@pytest.mark.parametrize("changes", [CONTROL_NODE, METADATA], ids=["control node", "metadata"])
def test_bad_input_is_one_sentence_each(cluster: Cluster, changes: dict[str, dict[str, Any]]) -> None:
    ca = (cluster.secrets / "pki/ca.pem").read_text(encoding="utf-8")
    names, providers = ("first", "second", "third", "fourth"), []
    for name, change in zip(names, changes.values()):
        issuer = f"https://{name}.site.test" if changes is CONTROL_NODE else "https://iam.site.test"
        providers.append({"name": name, "issuer": issuer, "audience": AUDIENCE, "ca": ca, "groups": GROUPS, **change})
    said = cluster.playbook(PLAYBOOK, "--tags", "never", variables={"openstack_cloud_identity_providers": providers}, succeeds=False)
    said = " ".join(said.split())
    assert [sentence for sentence in changes if sentence not in said] == [], said[-2000:]


def test_tokens_are_in_no_log(cluster: Cluster, provider: Provider) -> None:
    token = provider.token("alice", jti=f"log-{time.time()}")
    assert let_in(ask(cluster, {"": request(token=token)})) == [""]
    cluster.out("ctl", f"install -m 600 /dev/null /run/pattern; cat > /run/pattern <<'X'\n{token.split('.')[1]}\nX")
    assert cluster.run("ctl", "grep -rlFf /run/pattern /var/log; rm /run/pattern").stdout == ""
