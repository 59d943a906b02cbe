# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""SLURM for users of an identity provider, by a small JSON interface.

It has six operations, for the account that a map gives to a token.

The front checks the token and names its issuer and subject in two headers; only the front can connect to the socket. Everything is
done with SLURM's own token for that account, so SLURM itself decides what it may do.

usage: slurm_gateway.py    with the listening socket from systemd, and SUBMISSIONS_PER_MINUTE in its environment
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import threading
import time
import typing as t

import fastapi
import gateway_accounts
import gateway_jobs
import gateway_rest
import uvicorn
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from gateway_accounts import Account
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Bytes of a request: a script and what stands around it.
BODY_LIMIT = 1024 * 1024
# Seconds in which all of it must be here: each request that is not takes one of the few places.
BODY_TIME = 20
# A subject is at most 255 characters of ASCII (OpenID Connect Core, 2).
IDENTITY = re.compile(r"[!-~]{1,255}")
# How far back a list of jobs goes, in SLURM's words.
HISTORY = "now-7days"
JOBS_LIMIT = 1000

log = logging.getLogger("slurm_gateway")


class Settings(t.NamedTuple):
    """Where things are; paths are no secrets."""

    # What the inventory declares, before what iam_accounts made of a provider's users.
    maps: t.Sequence[str] = ("/etc/slurm_gateway/accounts.json", "/var/lib/deephdc/iam_accounts_map.json")
    key: str = "/etc/slurm_gateway/jwt_hs256.key"
    slurmrestd: str = "/run/slurmrestd/slurmrestd.socket"
    output: str = "/run/slurm_gateway/output.socket"
    # Of one account in a minute.
    submissions: int = 60


class Pace:
    """How often each account did something in the last minute."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.times: dict[str, list[float]] = {}
        # Requests are served by several threads.
        self.lock = threading.Lock()

    def allows(self, name: str) -> bool:
        now = time.monotonic()
        with self.lock:
            recent = [moment for moment in self.times.get(name, []) if moment > now - 60]
            allowed = len(recent) < self.most
            self.times[name] = [*recent, now] if allowed else recent
        return allowed


async def whole_body(receive: Receive, declared: int) -> bytes:
    """A request's body; one that is too long is not read to its end."""
    body, more = bytearray(), True
    while more and max(len(body), declared) <= BODY_LIMIT:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        more = message.get("more_body", False)
    if more or len(body) > BODY_LIMIT:
        raise HTTPException(413, f"A request may have {BODY_LIMIT} bytes at most.")
    return bytes(body)


class BodyLimit:
    """Reads the body before all else, and refuses one that is too long or too slow."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        declared = int(dict(scope["headers"]).get(b"content-length", b"0"))
        try:
            body = await asyncio.wait_for(whole_body(receive, declared), BODY_TIME)
        except ClientDisconnect:
            return
        except asyncio.TimeoutError:
            await refusal(408, f"A request must be here within {BODY_TIME} seconds.")(scope, receive, send)
            return
        except HTTPException as error:
            await refusal(error.status_code, error.detail)(scope, receive, send)
            return
        waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return waiting.pop() if waiting else await receive()

        await self.app(scope, replay, send)


def refusal(status: int, text: str) -> JSONResponse:
    """Ends the connection, as the rest of the request may still come."""
    return JSONResponse({"detail": text}, status, headers={"Connection": "close"})


def identity(request: fastapi.Request) -> tuple[str, str]:
    """Return issuer and subject, as the front passes them.

    Each must be there once. Nothing is accepted that could be two.
    """
    found = []
    for name in ("x-token-issuer", "x-token-subject"):
        values = request.headers.getlist(name)
        if len(values) != 1 or not IDENTITY.fullmatch(values[0]):
            raise HTTPException(401, "The request carries no identity.")
        found.append(values[0])
    return found[0], found[1]


def caller(request: fastapi.Request) -> Account:
    """The local account of whoever asks; 403 without one."""
    issuer, subject = identity(request)
    try:
        account = gateway_accounts.mapped(request.app.state.settings.maps, issuer, subject)
    except gateway_accounts.Refused as reason:
        log.warning("refused %s %s: %s", json.dumps(issuer), json.dumps(subject), reason)
        raise HTTPException(403, str(reason)) from None
    request.state.who = f"{account.name} ({json.dumps(issuer)} {json.dumps(subject)})"
    return account


router = fastapi.APIRouter(prefix="/v1")
# Read by FastAPI as: the first argument is who calls.
Caller = fastapi.Depends(caller)


def slurm_of(request: fastapi.Request) -> gateway_rest.Slurm:
    slurm: gateway_rest.Slurm = request.app.state.slurm
    return slurm


def job_of(request: fastapi.Request, number: int, account: Account) -> gateway_jobs.Job:
    """Return a job of the caller's.

    Another user's job is as unknown as one that never was, whatever rights with SLURM the caller has.
    """
    slurm = slurm_of(request)
    for path, read in (("/slurm/VERSION/job/", gateway_jobs.job_of_controller), ("/slurmdb/VERSION/job/", gateway_jobs.job_of_database)):
        try:
            found = slurm.listed(f"{path}{number}", account.name, "jobs")
        except gateway_rest.Declined:
            # The answer for an unknown job differs between the releases.
            continue
        mine = gateway_jobs.newest(read(own) for own in found if own.get("job_id") == number and owned(own, account))
        if mine:
            return mine[0]
    raise HTTPException(404, f"You have no job {number}.")


def owned(own: gateway_rest.Record, account: Account) -> bool:
    """slurmctld has a job's user id, slurmdbd the name."""
    if "user_id" in own:
        return bool(own["user_id"] == account.uid)
    return bool((own.get("association") or {}).get("user") == account.name and own.get("user") == account.name)


Number = fastapi.Path(..., ge=1, lt=1 << 32, description="The job's id.")


@router.post("/jobs", status_code=201, response_model=gateway_jobs.Submitted, summary="Submit a job")
def submit(request: fastapi.Request, job: gateway_jobs.NewJob, account: Account = Caller) -> t.Any:
    wrong = gateway_jobs.problems(job)
    if wrong:
        raise HTTPException(422, wrong)
    if not request.app.state.pace.allows(account.name):
        raise HTTPException(429, f"You have submitted {request.app.state.settings.submissions} jobs within a minute: wait a little.")
    # One that was closed since its name was mapped; SLURM itself would run its jobs.
    head, _nothing = ask_root(request.app.state.settings.output, {"account": account.name})
    if "error" in head:
        raise HTTPException(403, str(head["error"]))
    slurm = slurm_of(request)
    body = gateway_jobs.submission(job, account, slurm.version(account.name))
    answer = slurm.ask("POST", "/slurm/VERSION/job/submit", account.name, body)
    log.info("submitted %s for %s", answer.get("job_id"), request.state.who)
    return {"id": answer["job_id"]}


@router.get("/jobs", response_model=gateway_jobs.Jobs, summary="List the caller's jobs of the last seven days, the newest first")
def jobs(request: fastapi.Request, account: Account = Caller) -> t.Any:
    slurm = slurm_of(request)
    wanted = {"users": account.name}
    if slurm.version(account.name) < 40:
        # No filter by user yet; by account it is still less than the jobs of all.
        wanted = {"account": ",".join(own.account for own in limits(slurm, account))}
        if not wanted["account"]:
            return {"jobs": []}
    found = slurm.listed(
        f"/slurmdb/VERSION/jobs{gateway_rest.query(**wanted, start_time=HISTORY, skip_steps='true')}", account.name, "jobs"
    )
    mine = gateway_jobs.newest(gateway_jobs.job_of_database(own) for own in found if owned(own, account))
    return {"jobs": mine[:JOBS_LIMIT]}


def limits(slurm: gateway_rest.Slurm, account: Account) -> list[gateway_jobs.AccountLimits]:
    wanted = gateway_rest.query(user=account.name)
    return gateway_jobs.account_limits(slurm.listed(f"/slurmdb/VERSION/associations{wanted}", account.name, "associations"), account.name)


@router.get("/jobs/{number}", response_model=gateway_jobs.Job, summary="Watch a job")
def watch(request: fastapi.Request, number: int = Number, account: Account = Caller) -> t.Any:
    return job_of(request, number, account)


@router.delete("/jobs/{number}", status_code=204, summary="Cancel a job")
def cancel(request: fastapi.Request, number: int = Number, account: Account = Caller) -> Response:
    if not job_of(request, number, account).ended:
        slurm_of(request).ask("DELETE", f"/slurm/VERSION/job/{number}", account.name)
        log.info("cancelled %s for %s", number, request.state.who)
    return Response(status_code=204)


@router.get("/jobs/{number}/output", response_model=gateway_jobs.Output, summary="Fetch a part of a job's output, a mebibyte at most")
def output(
    request: fastapi.Request,
    number: int = Number,
    offset: int = fastapi.Query(0, ge=0, lt=1 << 62, description="Bytes to leave out at the beginning."),
    account: Account = Caller,
) -> t.Any:
    job = job_of(request, number, account)
    path = gateway_jobs.output_path(job.working_directory, number)
    head, content = ask_root(request.app.state.settings.output, {"account": account.name, "path": path, "offset": offset})
    if "error" in head:
        raise HTTPException(404, str(head["error"]))
    return {"text": content.decode("utf-8", "replace"), "size": head["size"], "next_offset": offset + len(content)}


def ask_root(path: str, wanted: gateway_rest.Record) -> tuple[gateway_rest.Record, bytes]:
    """What the program slurm_gateway_output answers."""
    try:
        with socket.socket(socket.AF_UNIX) as connection, connection.makefile("rb") as answer:
            connection.settimeout(gateway_rest.TIMEOUT)
            connection.connect(path)
            connection.sendall(json.dumps(wanted).encode() + b"\n")
            head = json.loads(answer.readline())
            return head, answer.read()
    except (OSError, ValueError) as error:
        raise gateway_rest.Unavailable(f"the reader of outputs does not answer: {error}") from None


@router.get("/resources", response_model=gateway_jobs.Resources, summary="List partitions, GPU types and limits")
def resources(request: fastapi.Request, account: Account = Caller) -> t.Any:
    slurm = slurm_of(request)
    nodes = slurm.listed("/slurm/VERSION/nodes", account.name, "nodes")
    partitions = slurm.listed("/slurm/VERSION/partitions", account.name, "partitions")
    return {"partitions": gateway_jobs.partitions(partitions, nodes), "accounts": limits(slurm, account)}


def told(status: int, text: str) -> JSONResponse:
    """A short line, in characters that every client can read."""
    return JSONResponse({"detail": " ".join(text.encode("ascii", "replace").decode().split())[:1000]}, status)


async def invalid(_request: fastapi.Request, error: Exception) -> JSONResponse:
    """Which key is wrong and why; never what was sent, which may be long."""
    assert isinstance(error, RequestValidationError)
    words = [f"{'.'.join(str(part) for part in entry['loc'] if part != 'body') or 'body'}: {entry['msg']}" for entry in error.errors()[:5]]
    return told(422, "; ".join(words))


async def declined(_request: fastapi.Request, error: Exception) -> JSONResponse:
    return told(400, f"SLURM: {error}")


async def unavailable(_request: fastapi.Request, error: Exception) -> JSONResponse:
    """The operator reads why; the user can do nothing about it."""
    log.error("%s", error)
    return told(503, "SLURM does not answer now: try again later.")


def application(settings: Settings) -> fastapi.FastAPI:
    # No pages of documentation: they would load programs of others.
    app = fastapi.FastAPI(title="SLURM", version="1", docs_url=None, redoc_url=None)
    app.state.settings = settings
    app.state.pace = Pace(settings.submissions)
    app.state.slurm = gateway_rest.Slurm(settings.slurmrestd, settings.key)
    app.include_router(router)
    # It would answer with the address of the socket.
    app.router.redirect_slashes = False
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(gateway_rest.Declined, declined)
    app.add_exception_handler(gateway_rest.Unavailable, unavailable)
    app.add_exception_handler(gateway_accounts.Broken, unavailable)
    app.add_middleware(BodyLimit)
    return app


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    # systemd's first passed socket; it made it with the right owner and mode.
    listening = socket.socket(fileno=3)
    assert os.environ.get("LISTEN_FDS") == "1"
    # It would say that it listens on a port.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    config = uvicorn.Config(
        application(Settings(submissions=int(os.environ.get("SUBMISSIONS_PER_MINUTE", Settings().submissions)))),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # No header says who is at the other end of the socket.
        proxy_headers=False,
        limit_concurrency=64,
    )
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
