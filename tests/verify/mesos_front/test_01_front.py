# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Users reach Marathon, Chronos, Mesos and an application by a token or a login, whichever host leads."""

from __future__ import annotations

import json
import shlex

import pytest
from local import Cluster, changed
from mesos_front_site import FRONT, IAM, Answer, Provider, get, issued, leaders, request
from mesos_site import AGENTS, app, ask, secrets, until

OWNS = (
    "playbooks/mesos_front.yml",
    "roles/mesos_front",
    "plugins/filter/mesos_front.py",
    "plugins/plugin_utils/_mesos/front.py",
    "molecule/mesos_front",
    "tests/verify/mesos_front/conftest.py",
    "tests/verify/mesos_front_site.py",
)

pytestmark = pytest.mark.usefixtures("clean")
# A device without a driver says ENXIO to whom it opens for, and EPERM to all others.
LOOK = (
    "for d in /dev/nvidia[0-9]; do m=$( (: < $d) 2>&1 ); "
    "case $m in *'not permitted'*|*'ermission denied'*) echo $d no;; *) echo $d yes;; esac; done; id -un"
)
SERVE = f"({LOOK}) > index.html; exec python3 -m http.server $PORT0"
LABELS = {"HAPROXY_GROUP": "external", "HAPROXY_0_VHOST": "train.site.test"}
TRAIN = app("train", SERVE, gpus=1, constraints=[["hostname", "LIKE", "gpu1"]], portDefinitions=[{"port": 10101}], labels=LABELS)
UNITS = {"marathon": "marathon", "chronos": "chronos", "mesos": "mesos-master"}


def devices(text: str) -> list[str]:
    """Whether each GPU of the host opened."""
    return sorted(line.split()[1] for line in text.splitlines() if line.startswith("/dev/nvidia"))


def test_an_application_with_a_gpu_is_sent_and_reached_by_token(cluster: Cluster, provider: Provider) -> None:
    """By tokens that the provider itself issued to a user who signed in."""
    token = issued(cluster, "alice", "marathon")
    done = get(cluster, request("/marathon/v2/apps", method="POST", token=token, body=TRAIN))
    assert done.status == 201, done
    # Marathon's own address is no user's business.
    assert done.header("location") == f"https://{FRONT}/marathon/v2/apps/train"

    def running() -> list[str]:
        return [one["state"] for one in get(cluster, request("/marathon/v2/apps/train/tasks", token=token)).content["tasks"]]

    until(running, lambda seen: seen == ["TASK_RUNNING"])

    def page(of: str, name: str) -> Answer:
        return get(cluster, request("/", token=of, host=name))

    own = issued(cluster, "alice", "train")
    seen = until(lambda: page(own, "train.site.test"), lambda found: found.status == 200, 60)
    assert devices(seen.body) == ["no", "yes"] and "nobody" in seen.body
    assert page("", "train.site.test").status == 401
    assert page(provider.token("bob", "train"), "train.site.test").status == 403
    # A token for Marathon does not open its applications.
    assert page(token, "train.site.test").status == 403


def test_a_job_with_a_gpu_runs_by_token(cluster: Cluster) -> None:
    token = issued(cluster, "bob", "chronos")
    job = {"name": "batch", "command": LOOK, "schedule": "R1//PT24H", "cpus": 0.1, "mem": 32, "gpus": 1, "runAsUser": "nobody"}
    assert get(cluster, request("/chronos/v1/scheduler/iso8601", method="POST", token=token, body=job)).status == 204

    def successes() -> int:
        (found,) = get(cluster, request("/chronos/v1/scheduler/jobs/search?name=batch", token=token)).content
        return int(found["successCount"])

    until(successes, lambda seen: seen == 1, 90)
    find = "find /var/lib/mesos/agent/slaves -path '*batch*' -name stdout -exec cat {} +"
    wrote = "".join(cluster.run(host, find).stdout for host in AGENTS)
    assert devices(wrote).count("yes") == 1 and "nobody" in wrote
    assert get(cluster, request("/chronos/v1/scheduler/job/batch", method="DELETE", token=token)).status == 204


def test_users_look_at_mesos_and_administrators_change_it(cluster: Cluster) -> None:
    token = issued(cluster, "alice", "mesos")
    agents = {one["hostname"]: one for one in get(cluster, request("/mesos/state", token=token)).content["slaves"]}
    assert {name: one["resources"]["gpus"] for name, one in agents.items()} == AGENTS
    agent = agents["gpu1"]
    call = {"type": "DEACTIVATE_AGENT", "deactivate_agent": {"agent_id": {"value": agent["id"]}}}
    assert get(cluster, request("/mesos/api/v1", method="POST", token=token, body=call)).status == 403
    admin = issued(cluster, "olga", "mesos-admin", "api:write")

    def closed() -> bool:
        slaves = get(cluster, request("/mesos/slaves", token=token)).content["slaves"]
        return next(bool(one["deactivated"]) for one in slaves if one["id"] == agent["id"])

    assert not closed()
    assert get(cluster, request("/mesos-admin/api/v1", method="POST", token=admin, body=call)).status == 200
    assert closed()
    back = {"type": "REACTIVATE_AGENT", "reactivate_agent": {"agent_id": {"value": agent["id"]}}}
    assert get(cluster, request("/mesos-admin/api/v1", method="POST", token=admin, body=back)).status == 200
    assert not closed()


def test_events_of_marathon_come_through_at_once(cluster: Cluster, provider: Provider) -> None:
    token = provider.token("alice")
    cluster.out(IAM, f"install -m 600 /dev/null /run/token; cat > /run/token <<'X'\nheader = \"Authorization: Bearer {token}\"\nX")
    listen = "curl --silent --no-buffer --config /run/token --cacert /etc/idp/ca.pem --header 'Accept: text/event-stream' --max-time 40"
    cluster.out(IAM, f"nohup {listen} https://{FRONT}/marathon/v2/events > /run/events 2>&1 < /dev/null &")
    cluster.until(IAM, "cat /run/events", "event: ", 20)
    small = app("small", "sleep 600", gpus=1)
    assert get(cluster, request("/marathon/v2/apps", method="POST", token=token, body=small)).status == 201
    cluster.until(IAM, "cat /run/events", "status_update_event", 20)


# What a person's browser does, without the scripts of pages: usage: PROGRAM USER URL.
BROWSER = """
import json, sys
sys.path.insert(0, "/opt/test")
from login import Browser
user, url = sys.argv[1:]
one = Browser()
first = one.ask(url)
page = one.sign_in(url, user)
def post(origin):
    return one.ask(url.rsplit("/", 1)[0] + "/apps/none", {"x": "y"}, {"Origin": origin}).status
print(json.dumps([first.status, page.status, page.url, page.body, post("https://evil.test"), post("https://front.site.test")]))
"""


def browse(cluster: Cluster, user: str, path: str) -> list:
    words = f"SSL_CERT_FILE=/etc/idp/ca.pem python3 -c {shlex.quote(BROWSER)} {user} https://{FRONT}{path}"
    return list(json.loads(cluster.out(IAM, words)))


def test_a_person_signs_in_by_the_providers_pages(cluster: Cluster) -> None:
    first, status, url, body, strange, own = browse(cluster, "alice", "/marathon/v2/apps")
    assert (first, status, url) == (302, 200, f"https://{FRONT}/marathon/v2/apps") and json.loads(body)["apps"] == []
    # A page of another site can't act with the session; one of the front's own comes to Marathon, which knows no such application.
    assert strange == 403 and own not in (401, 403)
    assert browse(cluster, "bob", "/marathon/v2/apps")[1] == 403
    assert browse(cluster, "bob", "/chronos/v1/scheduler/jobs")[1] == 200
    assert browse(cluster, "mallory", "/mesos/state")[1] == 403


@pytest.mark.parametrize("system", UNITS)
def test_the_front_follows_the_leader(cluster: Cluster, provider: Provider, system: str) -> None:
    paths = {"marathon": "/marathon/v2/apps", "chronos": "/chronos/v1/scheduler/jobs", "mesos": "/mesos/state"}

    def answer() -> int:
        return get(cluster, request(paths[system], token=provider.token("carol", system))).status

    (first,) = until(lambda: leaders(cluster)[system], lambda seen: len(seen) == 1)
    assert answer() == 200
    cluster.out(first, f"systemctl stop {UNITS[system]}")
    try:
        until(lambda: leaders(cluster)[system], lambda seen: len(seen) == 1 and seen != [first], 60)
        # Who has just become the leader reads its state first.
        until(answer, lambda status: status == 200, 30)
    finally:
        cluster.out(first, f"systemctl start {UNITS[system]}")
    until(lambda: leaders(cluster)[system], lambda seen: len(seen) == 1 and seen != [first], 30)
    # The one that was started again has to know the leader, before the next test asks it.
    until(lambda: ask(cluster, "marathon", "/v2/apps", host=first).content, lambda seen: "apps" in seen, 60)


def test_without_a_leader_the_front_says_so_and_goes_on(cluster: Cluster, provider: Provider) -> None:
    for host in ("m1", "m2", "m3"):
        cluster.out(host, "systemctl stop chronos")
    try:
        until(lambda: leaders(cluster)["chronos"], lambda seen: seen == [])
        assert get(cluster, request("/chronos/v1/scheduler/jobs", token=provider.token("carol", "chronos"))).status == 503
        assert get(cluster, request("/marathon/v2/apps", token=provider.token("carol"))).status == 200
    finally:
        for host in ("m1", "m2", "m3"):
            cluster.out(host, "systemctl start chronos")
    until(lambda: leaders(cluster)["chronos"], lambda seen: len(seen) == 1, 90)


def test_the_sockets_and_accounts_are_for_the_front_alone(cluster: Cluster) -> None:
    for name in UNITS:
        ask_it = f"curl --silent --max-time 5 --output /dev/null --write-out '%{{http_code}}' --unix-socket /run/mesos-front/{name}.sock"
        assert cluster.run("front", f"runuser -u nobody -- {ask_it} http://localhost/ping").stdout == "000", name
        # Apache comes in, and still needs the account.
        assert cluster.out("front", f"runuser -u www-data -- {ask_it} http://localhost/metrics/snapshot") == "401", name
    for user in ("nobody", "www-data"):
        assert cluster.run("front", f"runuser -u {user} -- cat /etc/mesos-front/haproxy.cfg").returncode != 0, user
    uids = set(map(int, cluster.out("front", "ps -o uid= -C haproxy").split()))
    assert len(uids) == 1 and 61184 <= min(uids) <= 65519, "a user that systemd made for it"
    found = "|".join(secrets(cluster))
    cluster.out("front", f"install -m 600 /dev/null /run/pattern; cat > /run/pattern <<'X'\n{found}\nX")
    looked = (
        "find /etc /run /var -xdev -type f -perm /o+r -print0 2>/dev/null | xargs -0 grep -lEsf /run/pattern; "
        "journalctl --no-pager | grep -cEf /run/pattern; rm /run/pattern"
    )
    assert cluster.run("front", looked).stdout.split() == ["0"]


def test_a_run_of_the_playbook_changes_nothing(cluster: Cluster) -> None:
    assert changed(cluster.playbook("playbooks/mesos_front.yml")) == []
    assert ask(cluster, "marathon", "/v2/apps").status == 200


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"mesos_cluster_secrets": {}}, "mesos_cluster_secrets has no usable operator: write it as for the playbook mesos"),
        ({"mesos_cluster_ca": "x"}, "mesos_cluster_ca is no certificate in PEM"),
        ({"mesos_front_timeout": 1}, "mesos_front_timeout is 1: write seconds, 10 or more"),
        ({"mesos_front_timeuot": 60}, "mesos_front_timeuot"),
    ],
)
def test_what_is_wrong_is_one_sentence(cluster: Cluster, variables: dict, sentence: str) -> None:
    said = " ".join(cluster.playbook("playbooks/mesos_front.yml", "--check", variables=variables, succeeds=False).split())
    assert sentence in said
