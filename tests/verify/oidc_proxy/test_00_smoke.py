"""From deployed fronts to a user's GPU: a token passes, none and a bad one do not, a login gives a session, and a job gets its GPU."""

from __future__ import annotations

import json

import pytest
from local import Cluster
from oidc_site import Front, curl, made_token, on_idp, records, told, user_token
from slurm_jobs import OPEN, look

OWNS = (
    "playbooks/oidc_proxy.yml",
    "roles/oidc_proxy",
    "plugins/filter/oidc_proxy.py",
    "molecule/oidc_proxy",
    "inventories/local_oidc",
    "tests/stand_ins/oidc",
)


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


def test_the_application_gets_the_name_and_neither_cookie_nor_token(cluster: Cluster):
    records(cluster)
    answer = on_idp(
        cluster,
        """
import json
from login import session_of
url = "https://front.site.test/both/page"
browser = session_of(url, "alice")
print(json.dumps([browser.ask(url, headers={"Accept": "application/json"}).body, browser.cookies["front.site.test"]]))
""",
    )
    assert json.loads(answer[0])["user"] == "alice"
    heads = [record["head"] for record in records(cluster)]
    assert len(heads) >= 2
    for head in heads:
        assert "X-Remote-User: alice" in head and "Authorization: Basic " in head
        assert not any(value in head for value in answer[1].values() if len(value) > 15)
        assert "eyJ" not in head


def test_a_token_submits_a_typed_gpu_job_watches_it_and_fetches_its_result(cluster: Cluster, front: Front, alice: str):
    body = {
        "name": "typed",
        "script": f'#!/bin/bash\necho "$(id -un) $GREETING"\n{look(3)}\n',
        "gpus": 1,
        "gpu_type": "a100",
        "memory_mib": 64,
        "time_limit_minutes": 5,
        "environment": {"GREETING": "from far away"},
    }
    job = front.told(alice, "/v1/jobs", body)["id"]
    running = front.watched(alice, job, "running")
    assert running["gpus"] == [{"type": "a100", "count": 1}] and running["account"] == "physics" and running["time_limit_minutes"] == 5
    # A busy GPU is reported as busy.
    assert front.told(alice, "/v1/resources")["partitions"][0]["gpus"][0]["free"] == 1
    done = front.watched(alice, job, "completed")
    assert (done["exit_code"], done["nodes"], done["working_directory"]) == (0, "slurm", "/home/ada")
    assert done["submitted"] <= done["started"] < done["finished"]

    who, seen = front.told(alice, f"/v1/jobs/{job}/output")["text"].splitlines()
    assert who == "ada from far away"
    assert len([path for path, error in json.loads(seen).items() if error in OPEN]) == 1

    # What the accounting has: the mapped user, and the GPU by its type.
    cluster.until("slurm", f"sacct -X -n -P -j {job} -o State", "COMPLETED")
    user, account, tres = cluster.out("slurm", f"sacct -X -n -P -j {job} -o User,Account,AllocTRES").split("|")
    assert (user, account) == ("ada", "physics") and "gres/gpu:a100=1" in tres
    assert job in [own["id"] for own in front.told(alice, "/v1/jobs")["jobs"]]
