"""Programs with tokens: local validation, introspection, and what they are told when something is wrong."""

from __future__ import annotations

import json
import time

import pytest
from local import Cluster
from oidc_site import API, OPAQUE, Answer, client_secret, curl, made_token, program_token, records, user_token


def told(answer: Answer) -> dict:
    """The body of a refusal, which a program can read."""
    assert "json" in answer.header("content-type"), answer.head
    return json.loads(answer.body)


def test_a_programs_own_token_is_let_in(cluster: Cluster):
    records(cluster)
    answer = curl(cluster, f"{API}/jobs", token=program_token(cluster))
    assert (answer.status, json.loads(answer.body)["user"]) == (200, "service-cli")
    (record,) = records(cluster)
    assert record["head"].startswith("GET /jobs HTTP/1.1") and "uthorization" not in record["head"]


@pytest.mark.parametrize("door", ["api", "both"])
def test_a_users_token_is_let_in(cluster: Cluster, door: str):
    answer = curl(cluster, f"https://front.site.test/{door}/jobs", token=user_token(cluster, "alice"))
    assert (answer.status, json.loads(answer.body)["user"]) == (200, "alice")


def test_no_token_and_a_bad_one_are_401_with_a_challenge(cluster: Cluster):
    for token in ("", "x.y.z", made_token(cluster, {"exp": "now-60"}), made_token(cluster, {}, sign="key2")):
        for door in ("api", "both"):
            answer = curl(cluster, f"https://front.site.test/{door}/", token=token)
            assert answer.status == 401 and answer.header("www-authenticate").startswith("Bearer"), (token, answer.head)
            assert told(answer)


def test_a_right_that_lacks_is_403(cluster: Cluster):
    for token in (user_token(cluster, "bob"), user_token(cluster, "alice", scope="api:write")):
        for door in ("api", "both"):
            answer = curl(cluster, f"https://front.site.test/{door}/", token=token)
            assert answer.status == 403 and told(answer)


def test_a_clock_that_is_a_little_off_is_forgiven(cluster: Cluster):
    assert curl(cluster, f"{API}/", token=made_token(cluster, {"iat": "now+15", "nbf": "now+15"})).status == 200
    assert curl(cluster, f"{API}/", token=made_token(cluster, {"iat": "now+120"})).status in (401, 403)
    assert curl(cluster, f"{API}/", token=made_token(cluster, {"exp": "now-60"})).status == 401


def test_the_provider_is_asked_about_opaque_tokens(cluster: Cluster):
    token = user_token(cluster, "alice", OPAQUE)
    assert "." not in token
    assert curl(cluster, f"{OPAQUE}/jobs", token=token).status == 200
    assert curl(cluster, f"{OPAQUE}/jobs", token=user_token(cluster, "alice", OPAQUE, "api:write")).status == 403
    # What is good here is good nowhere else, and the other way round.
    assert curl(cluster, f"{API}/", token=token).status == 401
    assert curl(cluster, f"{OPAQUE}/", token=program_token(cluster)).status == 401


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
