"""Programs with tokens: rights, introspection, and the answers when something is wrong."""

from __future__ import annotations

import json
import shlex
import time

import pytest
from local import Cluster
from oidc_site import API, OPAQUE, client_secret, curl, made_token, on_idp, program_token, records, told, user_token

OWNS = (
    "roles/oidc_proxy/files/jwt_times.lua",
    "plugins/plugin_utils/_oidc/conf.py",
    "plugins/plugin_utils/_oidc/token_names.py",
    "tests/attacks/login.py",
    "tests/verify/oidc_site.py",
)


def test_a_programs_own_token_is_let_in(cluster: Cluster):
    records(cluster)
    answer = curl(cluster, f"{API}/jobs", token=program_token(cluster))
    assert (answer.status, json.loads(answer.body)["user"]) == (200, "service-cli")
    (record,) = records(cluster)
    assert record["head"].startswith("GET /jobs HTTP/1.1") and "uthorization" not in record["head"]


def test_a_right_that_lacks_is_403(cluster: Cluster):
    for token in (user_token(cluster, "bob"), user_token(cluster, "alice", scope="api:write")):
        for door in ("api", "both"):
            answer = curl(cluster, f"https://front.site.test/{door}/", token=token)
            assert answer.status == 403 and told(answer)


def test_a_group_is_compared_exactly_with_all_its_signs(cluster: Cluster):
    """Names as AARC-G069 has them, with parts that are encoded."""
    name = "urn:geant:example.org:group:gpu%20users#iam.example.org"
    assert curl(cluster, f"{API}/", token=made_token(cluster, {"groups": [name]})).status == 200
    for other in (name.replace("%20", " "), name.replace("%", ""), name.replace("%20", "%{20}"), name + "x", name.upper()):
        assert curl(cluster, f"{API}/", token=made_token(cluster, {"groups": [other]})).status == 403, other


def test_claims_may_have_names_as_other_providers_give_them(cluster: Cluster):
    """With colons, and addresses; a name that Apache reads as the same is another one, and both together are refused."""
    role, groups = {"https://claims.site.test/role": "operator"}, {"cognito:groups": ["gpu"]}
    for claims, status in (
        ({**groups, **role}, 200),
        (groups, 401),  # what is to be a header is not there
        (role, 403),
        ({**role, "cognito-groups": ["gpu"]}, 403),
        ({**role, "cognito:groups": ["gpus"]}, 403),
        # The rule's own text behind the colon, which is where the module ends a name.
        ({**role, "cognito": "groups~(?s)^(?:gpu)(?!.)"}, 403),
        ({**role, "cognito": ["groups~(?s)^(?:gpu)(?!.)"]}, 403),
        ({**groups, "https---claims.site.test-role": "operator"}, 403),
        ({**groups, **role, "https---claims.site.test-role": "root"}, 403),
    ):
        records(cluster)
        assert (
            curl(cluster, "https://front.site.test:446/named/x", token=made_token(cluster, {"groups": None, **claims})).status == status
        ), claims
        assert [("X-Role: operator" in one["head"]) for one in records(cluster)] == [True] * (status == 200)


def test_cookies_of_a_host_beside_the_front_close_no_door(cluster: Cluster):
    """Browsers send it all that another host of its domain has set."""
    many = "; ".join(f"c{number}={'x' * 3900}" for number in range(12))
    for door in (API, "https://front.site.test/both"):
        records(cluster)
        assert curl(cluster, f"{door}/jobs", "--header", f"Cookie: {many}", token=program_token(cluster)).status == 200
        (record,) = records(cluster)
        assert "cookie" not in record["head"].lower()
    assert curl(cluster, f"{API}/", "--header", f"Cookie: {many}").status == 401


def test_a_clock_that_is_a_little_off_is_forgiven(cluster: Cluster):
    assert curl(cluster, f"{API}/", token=made_token(cluster, {"iat": "now+15", "nbf": "now+15"})).status == 200
    assert curl(cluster, f"{API}/", token=made_token(cluster, {"iat": "now+120"})).status in (401, 403)
    assert curl(cluster, f"{API}/", token=made_token(cluster, {"exp": "now-60"})).status == 401


def test_a_token_may_say_more_than_the_rules_ask_for(cluster: Cluster):
    """Names within a claim, and signs that end a text or an object, are no names of claims."""
    for more in (
        {"act": {"sub": "x", "iss": "y", "act": {"SUB": "z"}}, "list": [{"sub": 1}, ["sub"]]},
        {"name": 'Jos\u00e9 "sub": {\\', "note": "}\\\\", "text": '\\"sub\\": 1,'},
        {"https://iam.site.test/roles": ["a"], "address": {"a:b": 1, "a-b": 2}},
    ):
        assert curl(cluster, f"{API}/", token=made_token(cluster, more)).status == 200, more


def test_the_provider_is_asked_about_opaque_tokens(cluster: Cluster):
    token = user_token(cluster, "alice", OPAQUE)
    assert "." not in token
    assert curl(cluster, f"{OPAQUE}/jobs", token=token).status == 200
    assert curl(cluster, f"{OPAQUE}/jobs", token=user_token(cluster, "alice", OPAQUE, "api:write")).status == 403
    # What is good here is good nowhere else, and the other way round.
    assert curl(cluster, f"{API}/", token=token).status == 401
    assert curl(cluster, f"{OPAQUE}/", token=program_token(cluster)).status == 401


def test_many_questions_about_tokens_end_no_process(cluster: Cluster):
    """Anybody may send tokens that are none, and the provider is asked about each."""
    codes = on_idp(
        cluster,
        """
import http.client, json, threading
codes = set()
def ask(first):
    door = http.client.HTTPSConnection("opaque.site.test", timeout=60)
    for number in range(first, 2000, 4):
        door.request("GET", "/api/x", headers={"Authorization": f"Bearer none{number}"})
        answer = door.getresponse()
        answer.read()
        codes.add(answer.status)
threads = [threading.Thread(target=ask, args=(first,)) for first in range(4)]
[one.start() for one in threads], [one.join() for one in threads]
print(json.dumps(sorted(codes)))
""",
        timeout=300,
    )
    assert codes == [401]
    assert curl(cluster, f"{OPAQUE}/jobs", token=user_token(cluster, "alice", OPAQUE)).status == 200
    assert cluster.run("front", "grep -hE 'exit signal|PANIC' /var/log/apache2/*error*.log").stdout == ""


def test_a_revoked_token_ends_within_the_interval(cluster: Cluster):
    token = user_token(cluster, "alice", OPAQUE)
    assert curl(cluster, f"{OPAQUE}/", token=token).status == 200
    user = f"cli:{client_secret(cluster, 'cli')}"
    cluster.out("idp", f"curl --silent --fail --user '{user}' --data 'token={token}' https://iam.site.test/token/revocation")
    deadline = time.monotonic() + 15  # oidc_proxy_providers: introspection_interval 5
    while curl(cluster, f"{OPAQUE}/", token=token).status == 200:
        assert time.monotonic() < deadline
        time.sleep(1)
    assert curl(cluster, f"{OPAQUE}/", token=token).status == 401


def test_an_application_that_is_down_is_503_and_a_slow_one_is_waited_for(cluster: Cluster):
    token = program_token(cluster)
    answer = curl(cluster, "https://front.site.test/down/", token=token)
    assert answer.status == 503 and told(answer)
    page = curl(cluster, "https://front.site.test/down/", "--header", "Accept: text/html", token=token)
    assert page.status == 503 and "html" in page.header("content-type")
    assert curl(cluster, f"{API}/slow/2", token=token).status == 200


def test_what_is_not_declared_does_not_exist(cluster: Cluster):
    for path in ("/", "/apix/", "/server-status", "/icons/", "/cgi-bin/"):
        assert curl(cluster, f"https://front.site.test{path}", token=program_token(cluster)).status in (403, 404)


@pytest.mark.parametrize("options", [(), ("--header", "Transfer-Encoding: chunked")], ids=["plain", "chunked"])
def test_a_body_beyond_the_limit_is_refused_and_one_below_goes_on(cluster: Cluster, options: tuple[str, ...]):
    """Apache's own limit does nothing for what it passes on."""
    token = program_token(cluster)
    cluster.out("idp", "head -c 1000000 /dev/zero >/tmp/small; head -c 5242880 /dev/zero >/tmp/big")
    sent = ("--request", "POST", "--header", "Expect:", *options)
    small = curl(cluster, f"{API}/jobs", *sent, "--data-binary", "@/tmp/small", token=token)
    assert small.status == 200, small.head
    big = cluster.run(
        "idp",
        f"curl --silent --max-time 30 --output /dev/null --write-out '%{{http_code}}' {' '.join(map(repr, sent))} --data-binary @/tmp/big "
        f"--header 'Authorization: Bearer {token}' {API}/jobs",
    )
    # The front may close the connection while the body is still coming.
    assert big.stdout in ("413", "400", "000"), big.stdout


def test_what_an_application_says_of_sessions_and_of_itself_does_not_go_on(cluster: Cluster):
    answer = curl(cluster, "https://front.site.test/static/hostile", token=program_token(cluster))
    assert answer.status == 200 and answer.body.strip() == "hostile"
    head = answer.head.lower()
    assert "__host-front=" not in head and "mallory" not in head
    assert "clear-site-data" not in head and "x-powered-by" not in head
    assert head.count("strict-transport-security") == 1 and "max-age=31536000" in head
    assert answer.header("server") == "Apache"


def test_tls_has_forward_secrecy(cluster: Cluster):
    connect = "openssl s_client -connect front.site.test:443 -servername front.site.test -tls1_2"
    ask = connect + " -cipher {} </dev/null 2>&1 | grep -c 'Cipher is {}'"
    for cipher in ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-CHACHA20-POLY1305", "ECDHE-ECDSA-AES128-GCM-SHA256"):
        if cluster.run("idp", ask.format(cipher, cipher)).stdout.strip() == "1":
            break
    else:
        raise AssertionError("no cipher with forward secrecy is offered in TLS 1.2")
    for cipher in ("AES128-SHA", "AES256-GCM-SHA384", "ECDHE-RSA-AES128-SHA", "ECDHE-ECDSA-AES128-SHA", "DHE-RSA-AES128-GCM-SHA256"):
        assert cluster.run("idp", ask.format(f"{cipher}:@SECLEVEL=0", cipher)).stdout.strip() == "0", cipher


# Status and body that a user of the front gets by the loopback: port, name, path.
BY_LOOPBACK = """
import http.client, json, ssl, sys
port, name, path = sys.argv[1:]
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
kind, more = (http.client.HTTPSConnection, {"context": context}) if port == "443" else (http.client.HTTPConnection, {})
connection = kind("127.0.0.1", int(port), timeout=20, **more)
connection.request("GET", path, headers={"Host": name})
answer = connection.getresponse()
print(json.dumps([answer.status, answer.read().decode(errors="replace")]))
"""


@pytest.mark.parametrize("path", ["/server-status", "/server-status?auto", "/server-status/", "//server-status"])
def test_a_user_of_the_front_does_not_see_the_requests_of_others(cluster: Cluster, path: str):
    """Apache's own page of requests, with the codes in them, was shown to all that came by the loopback."""
    for port in ("80", "443"):
        for name in ("127.0.0.1", "localhost", "front.site.test"):
            curl(cluster, "https://front.site.test/web/?code=of-somebody-else")
            words = f"{shlex.quote(BY_LOOPBACK)} {port} {name} {shlex.quote(path)}"
            status, body = json.loads(cluster.out("front", f"runuser --user nobody -- python3 -c {words}"))
            assert status >= 300 and "of-somebody-else" not in body and "Scoreboard" not in body, (port, name, status, body[:500])
