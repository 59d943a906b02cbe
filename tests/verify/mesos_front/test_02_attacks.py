# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Attacks on the front's way to Mesos: none comes to the cluster. Beside each class are requests that must come to it.

Judged by what HAProxy behind the front was asked, not by the front's answer alone.
"""

from __future__ import annotations

import base64
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping

import pytest
from local import ROOT, Cluster
from mesos_front_site import AUDIENCES, FRONT, Answer, Provider, get, known_attacks, reached, request, send
from mesos_site import ACCOUNTS, MASTERS, app, secret, until

# The balancer's attacks are prepared by the tests of the scenario mesos.
sys.path.insert(0, str(ROOT / "tests/verify/mesos"))

from test_03_balancer import MARKER, TRACES, applications, published, report, unharmed, victims

OWNS = ("plugins/plugin_utils/_mesos/front.py",)

__all__ = ["victims"]

pytestmark = pytest.mark.usefixtures("clean")
Count = Callable[[str, object], None]
# A request of each system that only reads, and the groups that may send it.
DOORS = {
    "marathon": ("/marathon/v2/apps", {"gpu"}),
    "chronos": ("/chronos/v1/scheduler/jobs", {"batch"}),
    "mesos": ("/mesos/slaves", {"gpu", "batch", "admins"}),
    "mesos-admin": ("/mesos-admin/slaves", {"admins"}),
}
USERS = {"alice": {"gpu"}, "bob": {"batch"}, "carol": {"gpu", "batch"}, "olga": {"admins"}, "mallory": set(), "root": set()}


@pytest.fixture(autouse=True)
def good_tokens_are_good(cluster: Cluster, provider: Provider) -> Iterator[None]:
    """Before and after each test, or it would prove nothing."""
    texts = {
        name: request(path, token=provider.token("olga" if name == "mesos-admin" else "carol", name))
        for name, (path, _groups) in DOORS.items()
    }
    assert {name: answer.status for name, answer in send(cluster, texts).items()} == dict.fromkeys(DOORS, 200)
    yield
    assert {name: answer.status for name, answer in send(cluster, texts).items()} == dict.fromkeys(DOORS, 200)


def none_gets_in(cluster: Cluster, texts: Mapping[str, bytes], least: int, also: tuple[int, ...] = ()) -> dict[str, Answer]:
    """Send attacks: the cluster must not hear of any; the statuses that a refusal has are those of the front."""
    before = reached(cluster)
    answers = send(cluster, texts)
    assert len(answers) >= least
    after = reached(cluster)
    assert after == before, {name: answer.status for name, answer in answers.items() if answer.status < 300}
    strange = {name: answer for name, answer in answers.items() if answer.status not in (400, 401, 403, 404, 405, 414, 431, 501, *also)}
    assert strange == {}
    return answers


def all_get_in(cluster: Cluster, texts: Mapping[str, bytes]) -> None:
    before = sum(reached(cluster).values())
    answers = send(cluster, texts)
    assert {name: answer.status for name, answer in answers.items() if answer.status not in (200, 201)} == {}
    assert sum(reached(cluster).values()) == before + len(texts)


def test_tokens_with_anything_wrong(cluster: Cluster, provider: Provider, record_property: Count) -> None:
    """Those that the front is attacked with in its own scenario, and tokens for the other systems."""
    texts = known_attacks(provider, "tokens", DOORS["marathon"][0], ("token",))
    for door, other in itertools.permutations(AUDIENCES, 2):
        if door in DOORS:
            texts[f"a token for {other} at {door}"] = request(DOORS[door][0], token=provider.token("carol", other))
    texts["a token that may only read, to change"] = request(
        DOORS["mesos-admin"][0], token=provider.token("olga", "mesos-admin", scope="api:read")
    )
    none_gets_in(cluster, texts, 200)
    good = {
        "audience among others": {"aud": ["https://other.site.test", AUDIENCES["marathon"]]},
        "groups among others": {"groups": ["vo/x", "gpu", "z y"]},
        "one group as text": {"groups": "gpu"},
        "hundreds of groups": {"groups": [f"group{number:03}" for number in range(200)] + ["gpu"]},
        "clocks that differ": {"iat": "now+15", "nbf": "now+15"},
        "scope among others": {"scope": "openid api:read profile"},
        "another subject": {"sub": "auth0|5f7c8ec7c33c6c004bbafe82/x@example.org"},
    }
    all_get_in(cluster, {name: request(DOORS["marathon"][0], token=provider.token(**changes)) for name, changes in good.items()})
    record_property("attacks", f"tokens before Mesos: {len(texts)} attacks, 0 let in, {len(good)} must pass")


def test_users_without_the_right(cluster: Cluster, provider: Provider, record_property: Count) -> None:
    """Each user at each door, to read and to change; the view of Mesos is to read only, whoever asks."""
    refused, good = {}, {}
    for user, door in itertools.product(USERS, DOORS):
        path, groups = DOORS[door]
        token = provider.token(user, door)
        (good if USERS[user] & groups else refused)[f"{user} reads {door}"] = request(path, token=token)
        if door == "mesos" or not USERS[user] & groups:
            for method in ("POST", "PUT", "DELETE", "PATCH"):
                refused[f"{user} {method} {door}"] = request(path, method=method, token=token, body={})
    refused |= {f"nobody reads {door}": request(path) for door, (path, _groups) in DOORS.items()}
    none_gets_in(cluster, refused, 60)
    all_get_in(cluster, good)
    record_property("attacks", f"users before Mesos: {len(refused)} attacks, 0 let in, {len(good)} must pass")


def test_accounts_of_the_cluster(cluster: Cluster, provider: Provider, record_property: Count) -> None:
    """Who knows an account of the cluster, such as a former administrator, does not come in by the front with it."""
    texts = {}
    accounts = {part: (user, secret(cluster, file)) for part, (user, file) in ACCOUNTS.items()}
    accounts |= {"admin": ("admin", "admin"), "empty": ("", "")}
    for (part, (user, word)), (door, (path, _groups)) in itertools.product(accounts.items(), DOORS.items()):
        basic = "Basic " + base64.b64encode(f"{user}:{word}".encode()).decode()
        for name in ("Authorization", "Proxy-Authorization", "X-Authorization", "X-Forwarded-Authorization"):
            texts[f"{part} by {name} at {door}"] = request(path, f"{name}: {basic}")
        texts[f"{part} in two at {door}"] = request(
            path, f"Authorization: {basic}", f"Authorization: Bearer {provider.token('mallory', door)}"
        )
        texts[f"{part} as a bearer at {door}"] = request(path, f"Authorization: Bearer {basic.split()[1]}")
        texts[f"{part} as a cookie at {door}"] = request(path, f"Cookie: __Host-front={basic.split()[1]}; Authorization={basic.split()[1]}")
    none_gets_in(cluster, texts, 100)
    # The client's own word beside a good token does not replace the front's account.
    good = {
        name: request(DOORS["marathon"][0], f"{name}: Basic YWRtaW46YWRtaW4=", token=provider.token())
        for name in ("Proxy-Authorization", "X-Authorization")
    }
    all_get_in(cluster, good)
    record_property("attacks", f"accounts before Mesos: {len(texts)} attacks, 0 let in, {len(good)} must pass")


def test_paths_and_methods(cluster: Cluster, provider: Provider, record_property: Count) -> None:
    """Without a token, and out of Marathon's path or by a strange method with a good one."""
    texts = known_attacks(provider, "paths", "/marathon/", ("nothing", "token"))
    texts |= known_attacks(provider, "methods", DOORS["marathon"][0], ("nothing", "token"))
    # Some are no request at all and get no answer; an address of the front's own is a page or a redirect.
    none_gets_in(cluster, texts, 120, also=(0, 200, 301, 302, 308, 421))
    path = "/marathon/v2/apps"
    good = {
        "with a question": request(f"{path}?embed=apps.tasks", token=provider.token()),
        "with letters that are written as numbers": request("/marathon/v2/%61pps", token=provider.token()),
        "with a point": request("/marathon/./v2/apps", token=provider.token()),
        "with a body": request(path, token=provider.token(), body={}),
    }
    all_get_in(cluster, good)
    record_property("attacks", f"paths and methods before Mesos: {len(texts)} attacks, 0 let in, {len(good)} must pass")


def test_ways_from_one_system_to_another(cluster: Cluster, provider: Provider, record_property: Count) -> None:
    """A good token for Marathon, or for the view of Mesos, and a path that others could read as one of another system."""
    ways = ("..", "%2e%2e", ".%2e", "%2e.", "..;", "..%3b", "%252e%252e", "..%00", "..%5c", "%c0%ae%c0%ae", "..%2f..", "..//..", ".")
    texts = {}
    for (door, start), (other, target) in itertools.product(
        (("marathon", "/marathon/v2/"), ("mesos", "/mesos/api/")),
        (("chronos", "chronos/v1/scheduler/jobs"), ("mesos-admin", "mesos-admin/api/v1")),
    ):
        token = provider.token("carol", door)
        for way in ways:
            for up in (f"{way}/{way}/", f"{way}%2f{way}%2f"):
                texts[f"{door} {up} {other}"] = request(f"{start}{up}{target}", token=token)
                texts[f"{door} {up} {other} changed"] = request(
                    f"{start}{up}{target}", method="POST", token=token, body={"type": "GET_HEALTH"}
                )
    before = reached(cluster)
    answers = send(cluster, texts)
    after = reached(cluster)
    assert len(answers) >= 200
    # The path goes to the token's own system or nowhere; of Mesos to nothing that changes.
    assert after["chronos"] == before["chronos"]
    changes = [
        name for name, answer in answers.items() if name.startswith("mesos ") and name.endswith("changed") and 0 < answer.status < 400
    ]
    assert changes == []
    record_property("attacks", f"ways between systems of Mesos: {len(texts)} attacks, 0 let in")


@pytest.mark.parametrize("kind", ["writes", "names", "takes", "reads"])
def test_labels_of_applications_by_token(
    cluster: Cluster, provider: Provider, victims: dict[str, str], kind: str, record_property: Count
) -> None:
    """A user of Marathon comes no further through the front than without it: the front lets the text pass, the balancer refuses it."""
    tried, opened = applications(kind)
    marker = app("zzz", "true", instances=0, **MARKER)
    sent = get(cluster, request("/marathon/v2/apps", method="PUT", token=provider.token(), body=[*tried.values(), marker]))
    assert sent.status == 200, sent
    until(lambda: published(cluster), lambda seen: "zzz" in seen, 60)
    seen = report(cluster)
    assert seen["good"], seen
    assert {one["app"].lstrip("/") for one in seen["published"]} == {*victims, "zzz", *opened}
    assert cluster.run("lb", f"grep -rE '{TRACES}' /var/lib/marathon-lb/haproxy.cfg").returncode == 1
    unharmed(cluster, victims)
    record_property("attacks", f"labels by the front, {kind}: {len(tried) - len(opened)} attacks, 0 let in, {len(opened)} must pass")


def test_what_an_application_may_have_it_gets_by_token(cluster: Cluster, provider: Provider, victims: dict[str, str]) -> None:
    tried, _opened = applications("passes")
    assert len(tried) >= 20
    sent = get(cluster, request("/marathon/v2/apps", method="PUT", token=provider.token(), body=[*tried.values()]))
    assert sent.status == 200, sent
    unencrypted = [one for one in tried.values() if "HAPROXY_0_REDIRECT_TO_HTTPS" in one["labels"]]
    until(lambda: len(published(cluster)), lambda number: number == len(tried) - len(unencrypted) + len(victims), 60)


def test_a_body_beyond_the_limit(cluster: Cluster, provider: Provider) -> None:
    """Chronos takes one MiB."""
    before = reached(cluster)
    huge = get(
        cluster, request("/chronos/v1/scheduler/iso8601", method="POST", token=provider.token("bob", "chronos"), body={"name": "x" * 2**21})
    )
    assert huge.status in (0, 400, 413) and reached(cluster)["chronos"] == before["chronos"]
    large = app("large", "true", instances=0, env={"TEXT": "x" * 2**18})
    assert get(cluster, request("/marathon/v2/apps", method="POST", token=provider.token(), body=large)).status == 201


def test_no_user_makes_marathon_resign(cluster: Cluster, provider: Provider) -> None:
    """With backup= it would write its state, passwords in it, to where the user says."""
    token = provider.token("carol", "marathon")
    began = {host: cluster.out(host, "systemctl show -p MainPID --value marathon") for host in MASTERS}
    paths = [
        "v2/leader",
        "v2/leader?backup=file:///tmp/x",
        "v2/leader?restore=s3://evil/x",
        "v2/leader/",
        "v2/leader;a=b",
        "v2;a=b/leader",
        "v2/./leader",
        "v2/apps/../leader",
        "/v2//leader",
        "v2/%6ceader",
        "V2/Leader",
    ]
    texts = {
        f"{method} {path}": request(f"/marathon/{path}", method=method, token=token)
        for path, method in itertools.product(paths, ("DELETE", "POST", "PUT", "PATCH"))
    }
    answers = send(cluster, texts)
    # The front itself has no page for a path with parameters.
    assert {name: answer.status for name, answer in answers.items()} == {name: 404 if ";" in name else 403 for name in answers}
    assert get(cluster, request("/marathon/v2/leader", token=token)).status == 200
    # An application may have that name.
    assert get(cluster, request("/marathon/v2/apps//leader", method="DELETE", token=token)).status == 404
    assert {host: cluster.out(host, "systemctl show -p MainPID --value marathon") for host in MASTERS} == began


def test_other_names_of_the_front(cluster: Cluster, provider: Provider) -> None:
    """A good token does not open a name that is not the front's, and the application's name has none of the others' paths."""
    names = ["site.test", "evil.test", "localhost", "127.0.0.1", "m1", f"{FRONT}.", f"x.{FRONT}", "train.site.test", "lb", ""]
    texts = {
        f"{door} at {name}": request(path, token=provider.token("carol", door), host=name)
        for name, (door, (path, _groups)) in itertools.product(names, DOORS.items())
    }
    before = reached(cluster)
    answers = send(cluster, texts)
    # With a dot at its end it is the front's own name.
    own = {name for name in texts if f"{FRONT}." in name}
    assert {name for name, answer in answers.items() if answer.status == 200} <= own
    assert sum(reached(cluster).values()) <= sum(before.values()) + len(own)
