"""What a user with a token of the provider can do with SLURM beside the smoke's job, and what no other user can."""

from __future__ import annotations

import json
import time

from local import Cluster
from oidc_site import SLURM, Front, made_token, user_token

OWNS = (
    "roles/slurm_gateway",
    "tests/data/slurmrestd",
)

BOB = "11111111-1111-4111-8111-000000000002"


def test_resources_have_the_gpu_types_and_limits(front: Front, alice: str):
    found = front.told(alice, "/v1/resources")
    (partition,) = found["partitions"]
    assert (partition["name"], partition["up"], partition["nodes"], partition["max_time_minutes"]) == ("gpu", True, 1, 120)
    assert partition["gpus"] == [{"type": "a100", "total": 2, "free": 2, "per_node": 2}]
    assert [account["account"] for account in found["accounts"]] == ["physics"]


def test_a_job_can_be_cancelled(cluster: Cluster, front: Front, alice: str):
    job = front.told(alice, "/v1/jobs", {"script": "#!/bin/sh\nsleep 120\n", "memory_mib": 64})["id"]
    front.watched(alice, job, "running")
    for _twice in range(2):
        assert front.ask(alice, f"/v1/jobs/{job}", None, "--request", "DELETE").status == 204
    assert front.watched(alice, job, "cancelled")["ended"]
    cluster.until("slurm", f"sacct -X -n -P -j {job} -o State", "CANCELLED")


def test_a_job_that_failed_says_so(front: Front, alice: str):
    job = front.told(alice, "/v1/jobs", {"script": "#!/bin/sh\nexit 3\n", "memory_mib": 64})["id"]
    assert front.watched(alice, job, "failed")["exit_code"] == 3


def test_what_slurm_refuses_is_told_in_its_words(front: Front, alice: str):
    for wanted in (
        {"gpus": 3, "gpu_type": "a100"},
        {"partition": "nowhere"},
        {"account": "chemistry"},
        {"time_limit_minutes": 121},
        {"gpus": 1, "gpu_type": "h100"},
    ):
        answer = front.ask(alice, "/v1/jobs", {"script": "#!/bin/sh\n", **wanted})
        assert answer.status == 400 and json.loads(answer.body)["detail"].startswith("SLURM: "), answer


def test_who_has_no_account_is_told_so(cluster: Cluster, front: Front):
    token = user_token(cluster, "carol", SLURM, "slurm")
    for path, body in (("/v1/resources", None), ("/v1/jobs", None), ("/v1/jobs", {"script": "#!/bin/sh\nid\n"}), ("/v1/jobs/1", None)):
        answer = front.ask(token, path, body)
        assert (answer.status, answer.header("content-type")) == (403, "application/json")
        assert "no account on this cluster" in json.loads(answer.body)["detail"]


def test_tokens_that_are_not_for_slurm_or_not_good_any_more_let_nobody_in(cluster: Cluster, front: Front, alice: str):
    assert front.ask("", "/v1/jobs").status == 401
    refused = {
        "expired": {"exp": "now-10", "iat": "now-300"},
        "without an end": {"exp": None},
        "for another service": {"aud": "https://front.site.test/api"},
        "of another issuer": {"iss": "https://iam2.site.test:9443"},
        "without the scope": {"scope": "api:read"},
    }
    for what, changes in refused.items():
        token = made_token(cluster, {"scope": "slurm", **changes}, audience=SLURM)
        assert front.ask(token, "/v1/jobs").status in (401, 403), what
    # The same token as made, with nothing changed, is good: the refusals above have their own reasons.
    assert front.ask(made_token(cluster, {"scope": "slurm"}, audience=SLURM), "/v1/jobs").status == 200


def test_a_token_is_worth_nothing_after_its_end(cluster: Cluster, front: Front):
    token = made_token(cluster, {"scope": "slurm", "exp": "now+8"}, audience=SLURM)
    assert front.ask(token, "/v1/jobs").status == 200
    time.sleep(9)
    # Nor is what the gateway remembers of it: it remembers nothing.
    deadline = time.monotonic() + 30
    while front.ask(token, "/v1/jobs").status == 200:
        assert time.monotonic() < deadline, "an expired token is still good"
        time.sleep(2)
    assert front.ask(token, "/v1/jobs").status == 401


def test_a_client_can_not_say_who_it_is(cluster: Cluster, front: Front, alice: str):
    job = front.told(alice, "/v1/jobs", {"script": "#!/bin/sh\nsleep 60\n", "memory_mib": 64})["id"]
    token = made_token(cluster, {"scope": "slurm", "sub": BOB, "preferred_username": "ada"}, audience=SLURM)
    try:
        # The name in a token counts for nothing.
        assert front.ask(token, f"/v1/jobs/{job}").status == 404
        alice_s = "11111111-1111-4111-8111-000000000001"
        for name in (
            "X-Token-Subject",
            "X_Token_Subject",
            "x-token_subject",
            "X-Token-Issuer",
            "X-Remote-User",
            "X-SLURM-USER-NAME",
            "OIDC_CLAIM_sub",
        ):
            for value in (alice_s, "ada", "root"):
                answer = front.ask(token, f"/v1/jobs/{job}", None, "--header", f"{name}: {value}")
                assert answer.status == 404, f"{name}: {value}: {answer}"
        for hop in ("X-Token-Subject", "X-Token-Issuer, X-Token-Subject"):
            answer = front.ask(
                token, f"/v1/jobs/{job}", None, "--header", f"Connection: close, {hop}", "--header", f"X-Token-Subject: {alice_s}"
            )
            assert answer.status in (400, 401, 403, 404), answer
    finally:
        front.ask(alice, f"/v1/jobs/{job}", None, "--request", "DELETE")


def test_a_script_of_ten_megabytes_is_refused(cluster: Cluster, front: Front, alice: str):
    cluster.out(
        "idp", "{ printf '{\"script\": \"#!/bin/sh\\\\n'; head -c 10000000 /dev/zero | tr '\\0' x; printf '\"}'; } > /tmp/large.json"
    )
    answer = front.ask(alice, "/v1/jobs", None, "--header", "Content-Type: application/json", "--data-binary", "@/tmp/large.json")
    assert answer.status == 413, answer.head
    assert front.ask(alice, "/v1/jobs").status == 200


def test_the_interface_describes_itself(front: Front, alice: str):
    found = front.told(alice, "/openapi.json")
    assert found["info"]["title"] == "SLURM" and set(found["paths"]) == {
        "/v1/jobs",
        "/v1/jobs/{number}",
        "/v1/jobs/{number}/output",
        "/v1/resources",
    }
