# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The gateway's service, by FastAPI's test client; SLURM's side is what slurmrestd of two releases answered."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import pwd
import sys
import types
import typing as t
from pathlib import Path

import jwt
import pytest
import yaml
from fastapi.testclient import TestClient

ROOT = Path(__file__).resolve().parents[4]
FILES = ROOT / "roles/slurm_gateway/files"
DATA = ROOT / "tests/data/slurmrestd"
ISSUER = "https://iam.example.org/"
ADA = {"X-Token-Issuer": ISSUER, "X-Token-Subject": "sub-ada"}
EVE = {"X-Token-Issuer": ISSUER, "X-Token-Subject": "sub-eve"}
# SLURM's release to the version of its interface.
RELEASES = {"22.05": 38, "24.11": 42}
JOB = {"script": "#!/bin/sh\nnvidia-smi\n", "gpus": 1, "gpu_type": "a100", "time_limit_minutes": 5, "memory_mib": 100}

PASSWD = [
    pwd.struct_passwd(entry)
    for entry in (
        ("root", "x", 0, 0, "", "/root", "/bin/bash"),
        ("slurm", "x", 64030, 64030, "", "/nonexistent", "/usr/sbin/nologin"),
        ("ada", "x", 2001, 2001, "", "/home/ada", "/bin/bash"),
        ("eve", "x", 2002, 2002, "", "/home/eve", "/bin/bash"),
        ("daemon", "x", 1, 1, "", "/", "/bin/bash"),
        ("nobody", "x", 65534, 65534, "", "/nonexistent", "/bin/bash"),
        ("backup", "x", 999, 999, "", "/", "/bin/bash"),
        # Another name for root, and for slurm at a site where it is an ordinary number.
        ("toor", "x", 0, 0, "", "/root", "/bin/bash"),
        ("munge", "x", 3000, 3000, "", "/", "/bin/bash"),
        ("alias", "x", 3000, 3000, "", "/", "/bin/bash"),
        ("left", "x", 2003, 2003, "", "/home/left", "/usr/sbin/nologin"),
        ("wheel", "x", 2004, 0, "", "/home/wheel", "/bin/bash"),
    )
]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    monkeypatch.syspath_prepend(str(FILES))
    for name in [path.stem for path in FILES.glob("*.py")]:
        sys.modules.pop(name, None)

    def look_up(name: str) -> pwd.struct_passwd:
        found = [entry for entry in PASSWD if entry.pw_name == name]
        if not found:
            raise KeyError(name)
        return found[0]

    found = importlib.import_module("slurm_gateway")
    monkeypatch.setattr(found.gateway_accounts.pwd, "getpwnam", look_up)
    return found


class Site:
    """A gateway whose slurmrestd is recorded answers; what it was asked is kept."""

    def __init__(self, service: types.ModuleType, directory: Path, release: str) -> None:
        self.service, self.version = service, RELEASES[release]
        self.answers: dict[str, t.Any] = json.loads((DATA / f"{release}.json").read_text(encoding="utf-8"))
        self.asked: list[tuple[str, str, str, t.Any]] = []
        self.maps = [directory / "declared.json", directory / "made.json"]
        self.map({"sub-ada": "ada", "sub-eve": "eve"})
        (directory / "key").write_bytes(bytes(range(32)))
        settings = service.Settings(
            maps=[str(path) for path in self.maps], key=str(directory / "key"), slurmrestd="/nowhere", output=str(directory / "output")
        )
        self.closed: set[str] = set()
        app = service.application(settings)
        app.state.slurm.exchange = self.exchange
        service.ask_root = lambda _path, wanted: ({"error": "It is closed."} if wanted["account"] in self.closed else {}, b"")
        self.client = TestClient(app, raise_server_exceptions=False)

    def map(self, accounts: dict[str, str], number: int = 0, **more: t.Any) -> None:
        entries = [{"issuer": ISSUER, "subject": subject, "account": account, **more} for subject, account in accounts.items()]
        self.maps[number].write_text(json.dumps({"accounts": entries}), encoding="utf-8")

    def exchange(self, method: str, path: str, user: str, body: t.Any) -> tuple[int, t.Any]:
        self.asked.append((method, path, user, body))
        name = f"{method} {path.partition('?')[0].replace(f'v0.0.{self.version}', 'VERSION')}"
        status, answer = self.answers.get(name, (404, {}))
        return status, answer


@pytest.fixture(params=sorted(RELEASES))
def site(service: types.ModuleType, tmp_path: Path, request: pytest.FixtureRequest) -> Site:
    return Site(service, tmp_path, request.param)


# --- who asks ---


def test_a_mapped_identity_acts_as_its_account(site: Site) -> None:
    assert site.client.get("/v1/jobs", headers=ADA).status_code == 200
    assert {user for _method, _path, user, _body in site.asked} == {"ada"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Token-Issuer": ISSUER},
        {"X-Token-Issuer": ISSUER, "X-Token-Subject": ""},
        {"X-Token-Issuer": ISSUER, "X-Token-Subject": "sub-ada, sub-eve"},
        {"X-Token-Issuer": ISSUER, "X-Token-Subject": "a" * 256},
        {"X-Remote-User": "ada", "Remote-User": "ada", "X-SLURM-USER-NAME": "ada"},
        {"X_Token_Issuer": ISSUER, "X_Token_Subject": "sub-ada"},
        [("X-Token-Issuer", ISSUER), ("X-Token-Subject", "sub-eve"), ("X-Token-Subject", "sub-ada")],
    ],
)
def test_without_one_identity_nothing_is_told(site: Site, headers: t.Any) -> None:
    answer = site.client.get("/v1/jobs", headers=headers)
    assert (answer.status_code, answer.json()) == (401, {"detail": "The request carries no identity."})
    assert site.asked == []


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Token-Issuer": ISSUER, "X-Token-Subject": "sub-mallory"},
        {"X-Token-Issuer": ISSUER, "X-Token-Subject": "ada"},
        {"X-Token-Issuer": ISSUER.rstrip("/"), "X-Token-Subject": "sub-ada"},
        {"X-Token-Issuer": "https://other.example.org/", "X-Token-Subject": "sub-ada"},
        {"X-Token-Issuer": ISSUER, "X-Token-Subject": "SUB-ADA"},
    ],
)
def test_who_is_not_in_the_map_has_no_account(site: Site, headers: dict[str, str]) -> None:
    for method, path in (("GET", "/v1/jobs"), ("POST", "/v1/jobs"), ("DELETE", "/v1/jobs/1"), ("GET", "/v1/resources")):
        answer = site.client.request(method, path, headers=headers, json=JOB if method == "POST" else None)
        assert answer.status_code == 403 and "no account" in answer.json()["detail"]
    assert site.asked == []


@pytest.mark.parametrize(
    "account",
    ["root", "slurm", "daemon", "nobody", "backup", "toor", "munge", "alias", "left", "wheel", "gone", "0", "2001", "ADA", "ada\n", ""],
)
def test_a_map_can_not_give_away_a_service_or_a_disabled_account(site: Site, account: str) -> None:
    site.map({"sub-ada": account})
    answer = site.client.get("/v1/jobs", headers=ADA)
    assert answer.status_code == 403 and answer.json()["detail"].startswith("The account that your identity is mapped to ")
    assert site.asked == []


def test_a_change_of_the_map_counts_with_the_next_request(site: Site) -> None:
    site.client.get("/v1/jobs", headers=ADA)
    site.map({"sub-ada": "eve"})
    site.client.get("/v1/jobs", headers=ADA)
    site.map({"sub-eve": "eve"})
    assert site.client.get("/v1/jobs", headers=ADA).status_code == 403
    assert {user for _method, _path, user, _body in site.asked} == {"ada", "eve"}


def test_what_the_inventory_declares_counts_before_what_was_made(site: Site) -> None:
    site.map({"sub-ada": "eve", "sub-new": "eve"}, number=1, uid=2002)
    assert site.client.get("/v1/jobs", headers=ADA).status_code == 200
    assert site.asked[-1][2] == "ada"
    assert site.client.get("/v1/jobs", headers={**ADA, "X-Token-Subject": "sub-new"}).status_code == 200
    assert site.asked[-1][2] == "eve"


def test_a_name_that_is_somebody_else_s_by_now_is_refused(site: Site) -> None:
    site.map({"sub-new": "eve"}, number=1, uid=2077)
    assert site.client.get("/v1/jobs", headers={**ADA, "X-Token-Subject": "sub-new"}).status_code == 403


@pytest.mark.parametrize("content", ["", "{", "[]", '{"accounts": 5}', '{"accounts": [5]}'])
def test_a_damaged_map_lets_nobody_in(site: Site, content: str) -> None:
    site.maps[0].write_text(content, encoding="utf-8")
    answer = site.client.get("/v1/jobs", headers=ADA)
    assert answer.status_code >= 500 and site.asked == []


def test_an_identity_that_is_twice_in_the_map_is_nobody(site: Site) -> None:
    entry = {"issuer": ISSUER, "subject": "sub-ada"}
    site.maps[0].write_text(json.dumps({"accounts": [{**entry, "account": "ada"}, {**entry, "account": "eve"}]}), encoding="utf-8")
    assert site.client.get("/v1/jobs", headers=ADA).status_code == 503


# --- what is asked ---


def test_a_typed_gpu_job_in_the_words_of_each_release(site: Site) -> None:
    answer = site.client.post("/v1/jobs", headers=ADA, json={**JOB, "environment": {"A": "b=c\n"}})
    assert answer.status_code == 201, answer.text
    assert answer.json() == {"id": site.answers["POST /slurm/VERSION/job/submit"][1]["job_id"]}
    _method, path, user, body = site.asked[-1]
    assert (path, user) == (f"/slurm/v0.0.{site.version}/job/submit", "ada")
    job = body["job"]
    assert job["current_working_directory"] == "/home/ada" and job["standard_output"] == "/home/ada/slurm-%j.out"
    if site.version == 38:
        assert body["script"] == JOB["script"] and job["gres"] == "gpu:a100:1"
        assert job["environment"]["A"] == "b=c\n" and job["time_limit"] == 5
    else:
        assert job["script"] == JOB["script"] and job["tres_per_node"] == "gres/gpu:a100:1"
        assert "A=b=c\n" in job["environment"] and job["time_limit"]["number"] == 5


def test_a_closed_account_submits_nothing(site: Site) -> None:
    """An account that had expired (usermod -e 1) went on submitting."""
    site.closed.add("ada")
    answer = site.client.post("/v1/jobs", headers=ADA, json=JOB)
    assert (answer.status_code, answer.json()) == (403, {"detail": "It is closed."})
    assert [asked for asked in site.asked if asked[0] == "POST"] == []


def test_one_account_can_not_flood_the_cluster(site: Site) -> None:
    def submit(who: dict[str, str]) -> int:
        return int(site.client.post("/v1/jobs", headers=who, json=JOB).status_code)

    assert {submit(ADA) for _time in range(60)} == {201}
    assert (submit(ADA), submit(EVE)) == (429, 201)


@pytest.mark.parametrize("path", ["/v1/jobs/", "/v1/resources/", "/v1/jobs/7/"])
def test_a_slash_too_many_leads_nowhere(site: Site, path: str) -> None:
    """It was a redirect to http://localhost."""
    answer = site.client.get(path, headers=ADA, follow_redirects=False)
    assert answer.status_code == 404 and "location" not in answer.headers


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gpus": "1"}, "gpus"),
        ({"gpus": True}, "gpus"),
        ({"cpus": 1.0}, "cpus"),
        ({"memory_mib": "100"}, "memory_mib"),
        ({"script": "echo"}, "script must begin"),
        ({"script": "#!/bin/sh\n\0"}, "zero byte"),
        ({"name": "a\r\nX-SLURM-USER-NAME: root"}, "name may have"),
        ({"partition": "gpu,all"}, "partition may have"),
        ({"gpu_type": "a100:8,gpu"}, "gpu_type may have"),
        ({"gpus": 0}, "gpu_type needs gpus"),
        ({"gpus": -1}, "gpus"),
        ({"working_directory": "home"}, "working_directory must be"),
        ({"working_directory": "/home/%u"}, "working_directory must be"),
        ({"environment": {"A=B": "c"}}, "environment has a name"),
        ({"environment": {"A": "x" * 65536}}, "64 KiB"),
        ({"user_id": 0}, "user_id"),
        ({"uid": "root"}, "uid"),
        ({"\ud800": 1}, ""),
        ({"script": "#!" + "x" * 600000}, "script"),
    ],
)
def test_what_a_job_can_not_be_is_refused_before_slurm_hears_of_it(site: Site, change: dict[str, t.Any], words: str) -> None:
    answer = site.client.post("/v1/jobs", headers={**ADA, "Content-Type": "application/json"}, content=json.dumps({**JOB, **change}))
    assert answer.status_code == 422 and words in answer.json()["detail"] and len(answer.text) < 1100
    assert [asked for asked in site.asked if asked[0] == "POST"] == []


def test_ten_megabytes_are_refused_without_reading_them(site: Site) -> None:
    sent = 0

    def stream() -> t.Iterator[bytes]:
        nonlocal sent
        for _part in range(160):
            sent += 1 << 16
            yield b"x" * (1 << 16)

    answer = site.client.post("/v1/jobs", headers=ADA, content=stream())
    assert answer.status_code == 413 and "1048576 bytes" in answer.json()["detail"]
    assert site.client.post("/v1/jobs", headers=ADA, content=b"x" * 10_000_000).status_code == 413
    assert site.asked == []


@pytest.mark.parametrize("pause", [0.01, 60], ids=["byte by byte", "nothing more"])
def test_a_slow_body_is_given_up(service: types.ModuleType, monkeypatch: pytest.MonkeyPatch, pause: float) -> None:
    """Byte by byte it would go on for hours, and each pause alone is short."""
    monkeypatch.setattr(service, "BODY_TIME", 0.2)
    sent: list[t.Any] = []

    async def app(*_arguments: t.Any) -> None:
        raise AssertionError("a request that is not whole was passed on")

    async def receive() -> dict[str, t.Any]:
        await asyncio.sleep(pause)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def send(message: dict[str, t.Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "headers": [(b"content-length", b"1000")]}
    asyncio.run(asyncio.wait_for(service.BodyLimit(app)(scope, receive, send), 10))
    assert sent[0]["status"] == 408 and (b"connection", b"close") in sent[0]["headers"]
    assert json.loads(sent[1]["body"]) == {"detail": "A request must be here within 0.2 seconds."}


def test_who_is_gone_gets_no_answer(service: types.ModuleType) -> None:
    async def gone(*_arguments: t.Any) -> dict[str, t.Any]:
        return {"type": "http.disconnect"}

    async def never(*_arguments: t.Any) -> None:
        raise AssertionError("a request that is not whole was passed on or answered")

    asyncio.run(service.BodyLimit(never)({"type": "http", "headers": []}, gone, never))


def test_only_the_operations_are_there(site: Site) -> None:
    described = site.client.get("/openapi.json").json()
    operations = {f"{method.upper()} {path}" for path, methods in described["paths"].items() for method in methods}
    assert operations == {
        "POST /v1/jobs",
        "GET /v1/jobs",
        "GET /v1/jobs/{number}",
        "DELETE /v1/jobs/{number}",
        "GET /v1/jobs/{number}/output",
        "GET /v1/resources",
    }
    for method, path in (
        ("PUT", "/v1/jobs/1"),
        ("GET", "/slurm/v0.0.38/jobs"),
        ("GET", "/docs"),
        ("GET", "/v1/jobs/1%2f..%2f..%2fping"),
        ("GET", "/v1/jobs/x"),
    ):
        assert site.client.request(method, path, headers=ADA).status_code in (404, 405, 422)
    assert site.asked == []


# --- what is reported ---


def test_own_jobs_are_told_alike_on_each_release(site: Site) -> None:
    (listed,) = [job for job in site.client.get("/v1/jobs", headers=ADA).json()["jobs"] if job["name"] == "typed"]
    assert site.asked[-1][1].partition("?")[2].startswith("account=physics&" if site.version == 38 else "users=ada&")
    number = listed["id"]
    watched = site.client.get(f"/v1/jobs/{number}", headers=ADA).json()
    assert (watched["state"], watched["ended"], watched["exit_code"], watched["gpus"]) == (
        "completed",
        True,
        0,
        [{"type": "a100", "count": 1}],
    )
    assert watched["working_directory"] == "/home/ada" and watched["finished"] >= watched["started"] >= watched["submitted"] > 1e9
    assert {key for key in watched if watched[key] != listed[key]} <= {"reason"}


def test_a_job_that_the_controller_forgot_is_remembered(site: Site) -> None:
    number = next(int(name.rsplit("/", 1)[1]) for name in site.answers if name.startswith("GET /slurmdb/VERSION/job/"))
    fresh = site.client.get(f"/v1/jobs/{number}", headers=ADA).json()
    site.answers[f"GET /slurm/VERSION/job/{number}"] = site.answers["GET /slurm/VERSION/job/99999"]
    assert {key for key, value in site.client.get(f"/v1/jobs/{number}", headers=ADA).json().items() if value != fresh[key]} <= {"reason"}


def test_a_job_has_not_ended_while_its_node_cleans_up(site: Site) -> None:
    (name,) = [name for name in site.answers if name.startswith("GET /slurm/VERSION/job/") and not name.endswith("99999")]
    own = site.answers[name][1]["jobs"][0]
    own["job_state"] = "COMPLETING" if isinstance(own["job_state"], str) else ["COMPLETED", "COMPLETING"]
    found = site.client.get(f"/v1/jobs/{own['job_id']}", headers=ADA).json()
    assert (found["state"], found["ended"], found["finished"], found["exit_code"]) == ("completing", False, None, None)


def test_a_job_that_was_queued_again_is_told_once(site: Site) -> None:
    records = site.answers["GET /slurmdb/VERSION/jobs"][1]["jobs"]
    first = json.loads(json.dumps(records[0]))
    first["time"]["submission"] -= 100
    records.append(first)
    found = [job for job in site.client.get("/v1/jobs", headers=ADA).json()["jobs"] if job["id"] == first["job_id"]]
    assert [job["submitted"] for job in found] == [first["time"]["submission"] + 100]


def test_jobs_of_others_are_as_unknown_as_none(site: Site) -> None:
    number = next(int(name.rsplit("/", 1)[1]) for name in site.answers if name.startswith("GET /slurmdb/VERSION/job/"))
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/output")):
        theirs = site.client.request(method, f"/v1/jobs/{number}{path}", headers=EVE)
        none = site.client.request(method, f"/v1/jobs/99999{path}", headers=EVE)
        assert theirs.status_code == none.status_code == 404
        assert theirs.json()["detail"].replace(str(number), "99999") == none.json()["detail"]
    assert [asked for asked in site.asked if asked[0] == "DELETE"] == []
    # Whatever slurmdbd answers, a list has only one's own.
    assert site.client.get("/v1/jobs", headers=EVE).json() == {"jobs": []}


def test_resources_have_gpu_types_and_limits(site: Site) -> None:
    found = site.client.get("/v1/resources", headers=ADA).json()
    (partition,) = found["partitions"]
    assert (partition["name"], partition["up"], partition["max_time_minutes"]) == ("gpu", True, 120)
    assert partition["gpus"] == [{"type": "a100", "total": 2, "free": 2, "per_node": 2}]
    assert [(account["account"], account["gpus"]) for account in found["accounts"]] == [("physics", [{"type": None, "count": 2}])]


def test_slurm_s_no_is_told_in_its_words(site: Site) -> None:
    site.answers["POST /slurm/VERSION/job/submit"] = site.answers["REFUSED"]
    answer = site.client.post("/v1/jobs", headers=ADA, json=JOB)
    assert answer.status_code == 400 and answer.json()["detail"].startswith("SLURM: ")


@pytest.mark.parametrize(
    ("recorded", "method", "path", "operation"),
    [
        ("WRONG KEY", "POST", "/v1/jobs", "POST /slurm/VERSION/job/submit"),
        ("WRONG KEY LIST", "GET", "/v1/resources", "GET /slurm/VERSION/nodes"),
        ("WRONG KEY DB", "GET", "/v1/jobs", "GET /slurmdb/VERSION/jobs"),
    ],
)
def test_what_only_the_operator_can_mend_is_not_told(
    site: Site, caplog: pytest.LogCaptureFixture, recorded: str, method: str, path: str, operation: str
) -> None:
    site.answers[operation] = site.answers[recorded]
    answer = site.client.request(method, path, headers=ADA, json=JOB if method == "POST" else None)
    assert (answer.status_code, answer.json()) == (503, {"detail": "SLURM does not answer now: try again later."})
    assert "does not take the gateway's tokens" in caplog.text


def test_no_jobs_are_an_empty_list(site: Site) -> None:
    site.answers["GET /slurmdb/VERSION/jobs"] = site.answers["NO JOBS"]
    assert site.client.get("/v1/jobs", headers=ADA).json() == {"jobs": []}


# --- tokens and parts ---


def test_a_token_lives_for_a_minute_and_names_the_user(service: types.ModuleType) -> None:
    made = service.gateway_rest.token(bytes(32), "ada", 1000)
    assert jwt.get_unverified_header(made)["alg"] == "HS256"
    claims = jwt.decode(made, bytes(32), algorithms=["HS256"], options={"verify_exp": False})
    assert claims == {"sun": "ada", "iat": 1000, "exp": 1060}


def test_the_key_is_in_no_answer_and_no_log(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    del site.client.app.state.slurm.exchange
    answer = site.client.post("/v1/jobs", headers=ADA, json=JOB)
    assert answer.status_code == 503 and "slurmrestd does not answer" in caplog.text
    assert "eyJ" not in caplog.text + answer.text


def test_service_and_role_agree_on_paths(service: types.ModuleType) -> None:
    settings, role = service.Settings(), yaml.safe_load((ROOT / "roles/slurm_gateway/vars/main.yml").read_text(encoding="utf-8"))
    assert settings.maps[0] == role["__slurm_gateway_directory"] + "/accounts.json"
    assert settings.key == role["__slurm_gateway_directory"] + "/jwt_hs256.key"
    assert (
        settings.slurmrestd == yaml.safe_load((ROOT / "roles/slurm_rest/vars/main.yml").read_text(encoding="utf-8"))["__slurm_rest_socket"]
    )
    assert os.path.dirname(settings.output) == os.path.dirname(role["__slurm_gateway_socket"])


# --- the reader of outputs ---


@pytest.fixture
def reader(service: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    found = importlib.import_module("slurm_gateway_output")
    # PAM of the machine that runs the tests knows none of these accounts.
    monkeypatch.setattr(found, "is_open", lambda name: name != "eve")
    return found


def read(reader: types.ModuleType, path: t.Any, offset: t.Any = 0, account: t.Any = "ada") -> tuple[dict[str, t.Any], bytes]:
    became: list[str] = []
    head, content = reader.answer(
        json.dumps({"account": account, "path": path, "offset": offset}).encode(), lambda own: became.append(own.name)
    )
    assert became == ["ada"] or "error" in head, "a file was read with root's rights"
    return head, content


def test_an_output_comes_in_parts(reader: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PART", 4)
    path = tmp_path / "slurm-7.out"
    path.write_bytes(b"abcdefg")
    assert [read(reader, str(path), offset) for offset in (0, 4, 7, 99)] == [({"size": 7}, part) for part in (b"abcd", b"efg", b"", b"")]


def test_only_a_plain_file_of_that_name_is_an_output(reader: types.ModuleType, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (tmp_path / "slurm-1.out").symlink_to(secret)
    os.mkfifo(tmp_path / "slurm-2.out")
    (tmp_path / "slurm-3.out").mkdir()
    for path in ("slurm-1.out", "slurm-2.out", "slurm-3.out", "slurm-4.out", "secret", "slurm-1.out/../secret", "slurm-1.out\0"):
        head, content = read(reader, f"{tmp_path}/{path}")
        assert set(head) == {"error"} and content == b""


@pytest.mark.parametrize("directory", ["/", "/home/ada"])
def test_the_output_of_a_job_in_any_directory_is_asked_for(
    service: types.ModuleType, reader: types.ModuleType, monkeypatch: pytest.MonkeyPatch, directory: str
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(reader, "part", lambda path, offset: (asked.append(path) or 1, b"x"))
    path = service.gateway_jobs.output_path(directory, 7)
    assert read(reader, path) == ({"size": 1}, b"x") and asked == [os.path.join(directory, "slurm-7.out")]
    for wrong in ("slurm-7.out", "/xslurm-7.out", "/slurm-7.out/x", "/slurm-.out", "/slurm-7.out\n"):
        assert set(read(reader, wrong)[0]) == {"error"}


@pytest.mark.parametrize(
    "wanted", [{"account": "root"}, {"account": "slurm"}, {"account": 0}, {"path": 7}, {"offset": -1}, {"offset": "0"}]
)
def test_what_is_no_request_for_an_output_is_refused(reader: types.ModuleType, tmp_path: Path, wanted: dict[str, t.Any]) -> None:
    (tmp_path / "slurm-7.out").write_text("x")
    head, content = read(reader, **{"path": f"{tmp_path}/slurm-7.out", **wanted})
    assert set(head) == {"error"} and content == b""


def test_noise_on_the_reader_s_socket_is_refused(reader: types.ModuleType) -> None:
    for line in (b"", b"{", b"[]", b"\xff", b"5", b'{"account": "root"}', b'{"account": "ada", "path": "/slurm-1.out"}'):
        assert set(reader.answer(line, lambda own: None)[0]) == {"error"}


def test_an_account_alone_is_asked_whether_it_is_open(reader: types.ModuleType) -> None:
    never = [].append
    assert reader.answer(b'{"account": "ada"}', never) == ({}, b"")
    assert set(reader.answer(b'{"account": "eve"}', never)[0]) == {"error"}
    assert set(read(reader, "/slurm-7.out", account="eve")[0]) == {"error"}


def test_pam_knows_root_and_no_stranger(service: types.ModuleType) -> None:
    """The real library.

    The service's file is not there, so PAM takes that of other, which the distribution closes or leaves to Unix.
    """
    found = importlib.import_module("slurm_gateway_output")
    assert found.is_open("nobody-of-this-name") is False
