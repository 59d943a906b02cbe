"""Accounts that the host has closed, or that are others now: no token submits a job for them. What is open stays so."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Callable, Iterator

import pytest
from gateway import ALICE, BOB, ISSUER, MAP, ask
from local import Cluster

OWNS = (
    "roles/slurm_gateway/files/gateway_accounts.py",
    "tests/verify/gateway.py",
)

JOB = {"script": "#!/bin/sh\ntrue\n", "time_limit_minutes": 5, "memory_mib": 64}
FILES = "/etc/passwd /etc/shadow /etc/group /etc/gshadow /etc/subuid /etc/subgid"
# What closes the account ada; each is undone by putting the files back.
CLOSED = {
    "expired long ago": "usermod -e 1 ada",
    "expired yesterday": "usermod -e $(date -d yesterday +%F) ada",
    "chage": "chage -E 1 ada",
    "chage, by date": "chage -E 2020-01-01 ada",
    "locked and expired": "usermod -L -e 1 ada",
    "password inactive since long": "chage -d 2020-01-01 -M 1 -I 1 ada",
    "expired with a new password": "echo ada:$(openssl rand -hex 8) | chpasswd && usermod -e 1 ada",
    "nologin": "usermod --shell /usr/sbin/nologin ada",
    "nologin elsewhere": "usermod --shell /sbin/nologin ada",
    "false": "usermod --shell /bin/false ada",
    "false elsewhere": "usermod --shell /usr/bin/false ada",
    "system's user id": "usermod --uid 900 ada",
    "root's user id": "usermod --non-unique --uid 0 ada",
    "a service's user id": "usermod --non-unique --uid $(id -u munge) ada",
    "www-data's user id": "usermod --non-unique --uid $(id -u www-data) ada",
    "nobody's user id": "usermod --non-unique --uid 65534 ada",
    "a dynamic user id": "usermod --uid 61184 ada",
    "a reserved user id": "usermod --uid 60000 ada",
    "root's group": "usermod --gid 0 ada",
    "renamed": "usermod --login adam ada",
    "removed from passwd": "sed -i '/^ada:/d' /etc/passwd",
    "removed": "sed -i '/^ada:/d' /etc/passwd /etc/shadow /etc/group",
    "no entry in shadow": "sed -i '/^ada:/d' /etc/shadow",
}
# What does not close it: who comes by token needs no password.
OPEN = {
    "as it is": "true",
    "password locked": "passwd -l ada",
    "usermod -L": "usermod -L ada",
    "password deleted and locked": "passwd -d ada && passwd -l ada",
    "expires next year": "usermod -e $(date -d '1 year' +%F) ada",
    "expires never": "usermod -e '' ada",
    "must choose a new password": "chage -d 0 ada",
    "other shell": "usermod --shell /bin/sh ada",
    "one more group": "usermod --append --groups games ada",
    "other home directory": "usermod --home /tmp ada",
}


@contextlib.contextmanager
def after(cluster: Cluster, command: str) -> Iterator[None]:
    """The host's accounts as a command leaves them, for a while.

    Nothing runs as them, so usermod takes any change.
    """
    cluster.out("slurm", f"pkill -KILL -u ada; rm -rf /root/accounts && mkdir -m 700 /root/accounts && cp -a {FILES} /root/accounts/")
    try:
        cluster.out("slurm", command)
        yield
    finally:
        # usermod gives the home directory to whom it makes of ada.
        cluster.out("slurm", "cp -a /root/accounts/* /etc/ && chown -R ada: /home/ada")


def submitted(cluster: Cluster, subject: str = ALICE) -> tuple[int, object]:
    status, answer = ask(cluster, subject, "/v1/jobs", JOB)
    if status == 201:
        cluster.run("slurm", f"scancel {answer['id']}")
    return status, answer


@pytest.fixture(scope="module", autouse=True)
def at_the_end(cluster: Cluster) -> Iterator[None]:
    yield
    assert submitted(cluster)[0] == 201
    cluster.out("slurm", "rm -rf /root/accounts")


@pytest.mark.parametrize("how", CLOSED)
def test_a_closed_account_submits_nothing(cluster: Cluster, how: str):
    with after(cluster, CLOSED[how]):
        status, answer = submitted(cluster)
        assert status == 403, answer
        # Others go on.
        assert submitted(cluster, BOB)[0] == 201


@pytest.mark.parametrize("how", OPEN)
def test_an_open_account_submits(cluster: Cluster, how: str):
    with after(cluster, OPEN[how]):
        status, answer = submitted(cluster)
        assert status == 201, answer


UIDS = [("2001", 201), (2001, 201), ("2002", 403), (0, 403), ("", 403), ("02001", 403), (" 2001", 403)]


@pytest.mark.parametrize(("uid", "status"), UIDS)
def test_a_map_with_a_user_id_means_that_user_alone(cluster: Cluster, uid: str | int, status: int):
    entry = {"issuer": ISSUER, "subject": ALICE, "account": "ada", "uid": uid}
    content = shlex.quote(json.dumps({"accounts": [entry]}))
    cluster.out("slurm", f"cp -a {MAP} /root/map && cp -a {MAP} {MAP}.new && echo {content} > {MAP}.new && mv {MAP}.new {MAP}")
    try:
        assert submitted(cluster)[0] == status
    finally:
        cluster.out("slurm", f"mv /root/map {MAP}")


def test_a_name_that_somebody_else_got_is_refused(cluster: Cluster, record_property: Callable[[str, str], None]):
    """The declared map says the user id.

    The account ada has another one after it was removed and made again.
    """
    entry = {"issuer": ISSUER, "subject": ALICE, "account": "ada", "uid": 2001}
    content = shlex.quote(json.dumps({"accounts": [entry]}))
    with after(cluster, "usermod --uid 2999 ada"):
        cluster.out("slurm", f"cp -a {MAP} /root/map && cp -a {MAP} {MAP}.new && echo {content} > {MAP}.new && mv {MAP}.new {MAP}")
        try:
            assert submitted(cluster)[0] == 403
        finally:
            cluster.out("slurm", f"mv /root/map {MAP}")
    attacks = len(CLOSED) + sum(status == 403 for _uid, status in UIDS) + 1
    record_property("attacks", f"gateway: closed accounts: {attacks} attacks; {len(OPEN) + 2} must pass")
