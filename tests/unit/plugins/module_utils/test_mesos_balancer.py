# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""From Marathon's applications to HAProxy's configuration, and what applications try against it."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import time
import typing as t

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos import (
    balancer_apps,
    balancer_claims,
    balancer_conf,
    balancer_labels,
)

DATA = pathlib.Path(__file__).resolve().parents[3] / "data/mesos"
ATTACKS = yaml.safe_load((DATA / "balancer_attacks.yml").read_text(encoding="utf-8"))
LABELS = yaml.safe_load((DATA / "balancer_labels.yml").read_text(encoding="utf-8"))
SITE = balancer_apps.Site(("external",))
PORTS = balancer_claims.Ports(10000, 20000, frozenset(), frozenset({80, 443, 9090}))
AGENTS = {"agent1.example.org": "10.0.0.1", "localhost": "127.0.0.1"}


def app(identity: str, port: int = 10100, labels: dict[str, t.Any] | None = None, **more: t.Any) -> dict[str, t.Any]:
    """An application with one running task, as Marathon lists it."""
    task = {"id": f"{identity}.1", "host": "10.0.0.9", "ports": [31000 + port % 1000], "state": "TASK_RUNNING"}
    if more.get("healthChecks"):
        task["healthCheckResults"] = [{"alive": True}]
    found = {
        "id": identity,
        "instances": 1,
        "labels": {"HAPROXY_GROUP": "external", **(labels or {})},
        "networks": [{"mode": "host"}],
        "portDefinitions": [{"port": port, "protocol": "tcp"}],
        "tasks": [task],
    }
    return {**found, **more}


VICTIMS = [
    app("/portal", 10000, {"HAPROXY_0_VHOST": "portal.example.org"}),
    app("/shop/web", 10001, {"HAPROXY_0_VHOST": "shop.example.org", "HAPROXY_0_PATH": "/web"}),
]


class Outcome(t.NamedTuple):
    services: dict[str, balancer_apps.Service]
    problems: list[balancer_labels.Problem]
    claims: dict[str, str]
    written: balancer_conf.Written

    def block(self, name: str) -> str:
        lines = self.written.text.splitlines()
        return "\n".join(line for line, owner in zip(lines, self.written.lines) if owner == name)


def published(
    apps: list[t.Any],
    recorded: dict[str, str] | None = None,
    site: balancer_apps.Site = SITE,
    known: t.Collection[str] = (),
    reserved: t.Sequence[balancer_claims.Reserved] = (),
    state: str = "/var/lib/marathon-lb",
    tls: str = "/etc/marathon-lb/tls",
) -> Outcome:
    reading = balancer_apps.read(apps, site, lambda host: AGENTS.get(host, ""), known)
    troubled = {problem.app for problem in reading.problems}
    settled = balancer_claims.settle(reading.services, PORTS, recorded or {}, reading.present, troubled, reserved)
    balancer = balancer_conf.Balancer(state, "/run/marathon-lb", tls=tls, trusted=("10.9.0.0/16",), headers=("X-Remote-User",))
    written = balancer_conf.write(settled.services, balancer)
    return Outcome({one.app: one for one in settled.services}, [*reading.problems, *settled.problems], settled.claims, written)


BASE = published(VICTIMS)


def tried(attack: dict[str, t.Any]) -> list[t.Any]:
    """The applications of an entry of the data."""
    if "raw" in attack:
        return [attack["raw"]]
    own = {key: value for key, value in attack.items() if key not in ("id", "labels", "port", "closed", "servers")}
    return [app(attack.get("id", "/x"), attack.get("port", 10100), attack.get("labels"), **own)]


# The judge knows what a configuration may have, and nothing of how it is made.
NAME = r"[a-z0-9][a-z0-9._-]*_[0-9]+"
ADDRESS = r"(?:[0-9.]+|\[[0-9a-f:]+\])"
PATH = r"/[A-Za-z0-9._~/-]*"
GRAMMAR = re.compile(
    "|".join(
        [
            r"",
            rf"(?:frontend|backend) {NAME} from over_(?:http|tcp)",
            rf"userlist users_{NAME}",
            r"  bind \*:1[0-9]{4}|  bind \*:20000",
            rf"  default_backend {NAME}",
            r"  balance (?:roundrobin|static-rr|leastconn|first|source|uri|random)",
            r"  acl from_front src 10\.9\.0\.0/16",
            r"  http-request set-var\(txn\.(?:client|tls|host)\) [a-z0-9_.(),:-]+(?: if(?: from_front)?(?: \{ [a-z0-9_.(),: -]+ \})?)?",
            r"  http-request (?:del|set)-header (?:Forwarded|X-Remote-User|X-Forwarded-(?:For|Host|Proto|Port))(?: https?| %\[dst_port\])?"
            r"(?: (?:if|unless) (?:from_front|\{ var\(txn\.tls\) -m bool \}))?",
            r"  acl allowed (?:src|var\(txn\.client\) -m ip) [0-9a-f.:/]+",
            r"  (?:tcp-request content reject|http-request deny) unless allowed",
            r"  http-request redirect prefix https://[a-z0-9.-]+ code 301 (?:unless|if !)[ ]?\{ var\(txn\.tls\) -m bool \}"
            r"(?: \{ var\(txn\.host\) -m str [a-z0-9.-]+ \})?",
            rf"  http-request redirect location {PATH} code 301 if \{{ path / \}}",
            rf'  http-request auth realm "[A-Za-z0-9 ._-]+" unless \{{ http_auth\(users_{NAME}\) \}}',
            r"  user [A-Za-z0-9._-]+ password \$[56]\$[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]+",
            r"  http-request replace-path '\^(?:\\/[A-Za-z0-9_~\\.-]*)+\(\?:\\/\(\.\*\)\)\?\$' '/\\1'",
            rf"  http-response replace-header Location '\^[a-z0-9?:\\/()|.\[\]+-]*\(\\/\.\*\)\$' '{PATH}\\1'",
            r"  http-response set-header Strict-Transport-Security max-age=15768000 if \{ var\(txn\.tls\) -m bool \}",
            r"  cookie mesosphere_server_id insert indirect nocache httponly",
            r"  option httpchk GET /[A-Za-z0-9._~/?&=+,:@-]*",
            r"  timeout check [0-9]+s",
            rf"  server t[0-9a-f]{{16}} {ADDRESS}:[0-9]+(?: check inter [0-9]+s fall [0-9]+)?(?: port [0-9]+)?"
            r"(?: check-ssl verify none)?(?: cookie t[0-9a-f]{16})?(?: disabled)?",
        ]
    )
)


def unlawful(found: Outcome) -> list[str]:
    """Lines that no application may bring about; those of the balancer itself are the same without any application."""
    lines = list(zip(found.written.text.split("\n"), [*found.written.lines, ""]))
    fixed = [line for line, owner in lines if not owner]
    of_none = published([])
    expected = of_none.written.text.replace(of_none.written.routes_path, found.written.routes_path)
    expected = expected.replace(of_none.written.digest, found.written.digest)
    wrong = [] if fixed == expected.split("\n") else ["the balancer's own lines are others"]
    wrong += [line for line, owner in lines if owner and not GRAMMAR.fullmatch(line)]
    wrong += [line for line in found.written.routes.splitlines() if not re.fullmatch(rf"[a-z0-9.-]+{PATH} {NAME}", line)]
    return wrong


def untouched(found: Outcome) -> bool:
    """Whether the victims have what they had."""
    lines = found.written.routes.splitlines()
    return (
        all(found.block(name) == BASE.block(name) for name in ("portal_10000", "shop_web_10001"))
        and [line for line in lines if line.endswith(("portal_10000", "shop_web_10001"))] == BASE.written.routes.splitlines()
    )


ALL = [(kind, number, attack) for kind, attacks in ATTACKS.items() for number, attack in enumerate(attacks)]


@pytest.mark.parametrize(("kind", "attack"), [pytest.param(kind, attack, id=f"{kind}-{number}") for kind, number, attack in ALL])
def test_an_application_gets_what_it_may_have_and_nothing_else(kind, attack):
    found = published([*VICTIMS, *tried(attack)], BASE.claims)
    assert unlawful(found) == []
    assert untouched(found)
    others = [one for name, one in found.services.items() if name not in ("/portal", "/shop/web")]
    if kind == "passes":
        assert [problem.sentence for problem in found.problems] == []
        assert len(others) == 1 and len(others[0].servers) == attack.get("servers", 1)
    elif "servers" in attack:
        assert len(others) == 1 and len(others[0].servers) == attack["servers"]
    elif kind == "garbage":
        assert len(others) == int(attack.get("published", False))
    else:
        assert len(others) == int(attack.get("closed", True) is False)
        assert found.problems and all(1 < len(problem.sentence) < 400 and problem.sentence.isprintable() for problem in found.problems)


def test_there_are_enough_attempts_of_each_kind():
    assert {kind: len(attacks) >= 20 for kind, attacks in ATTACKS.items()} == dict.fromkeys(
        ("writes", "names", "takes", "reads", "garbage", "passes"), True
    )


@pytest.mark.parametrize("line", ["frontend pwn", "  bind *:12099 ssl", "  server x 127.0.0.1:22", "  http-request lua.x", "  bind *:22"])
def test_the_judge_sees_a_line_that_should_not_be_there(line):
    lines = BASE.written.lines
    at = lines.index("portal_10000") + 1
    text = BASE.written.text.split("\n")
    written = BASE.written._replace(text="\n".join([*text[:at], line, *text[at:]]), lines=[*lines[:at], "portal_10000", *lines[at:]])
    assert unlawful(BASE._replace(written=written)) == [line] and not untouched(BASE._replace(written=written))


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="no haproxy here; the scenario mesos has it")
def test_haproxy_takes_the_configuration_of_all_that_pass(tmp_path):
    """Those that are refused leave no trace in it, which the judge sees."""
    apps = [*VICTIMS]
    for number, attack in enumerate(ATTACKS["passes"]):
        one = tried({**attack, "port": 10200 + number})[0]
        one["labels"] = {
            key: value.replace("example", f"e{number}") if key.endswith("VHOST") else value for key, value in one["labels"].items()
        }
        one["labels"] = {key: value for key, value in one["labels"].items() if key != "HAPROXY_0_PORT"}
        for mapping in [*(one.get("container") or {}).get("portMappings", [])]:
            mapping["servicePort"] = 10200 + number
        one["container"] = {key: value for key, value in (one.get("container") or {}).items() if key != "docker"}
        apps.append({**one, "id": f"/g{number}/x" if "HAPROXY_DEPLOYMENT_GROUP" not in one["labels"] else f"/g{number}/x-blue"})
        one["labels"].pop("HAPROXY_DEPLOYMENT_COLOUR", None)
    found = published(apps, state=str(tmp_path), tls="")
    assert len(found.services) > len(ATTACKS["passes"]) - 5
    pathlib.Path(found.written.routes_path).write_text(found.written.routes, encoding="utf-8")
    (tmp_path / "servers.state").touch()
    (tmp_path / "haproxy.cfg").write_text(found.written.text, encoding="utf-8")
    done = subprocess.run(["haproxy", "-c", "-f", str(tmp_path / "haproxy.cfg")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_each_label_of_the_original_is_known_or_refused_by_name():
    assert sorted(LABELS["of_app"]) == sorted(balancer_labels.OF_APP)
    assert sorted(LABELS["of_port"]) == sorted(balancer_labels.OF_PORT) == sorted(balancer_labels.READERS)
    for name in LABELS["refused"]:
        read = balancer_labels.read({f"HAPROXY_0_{name}": "x"}, 1)
        assert read.closed == {0} and not read.wholly
        assert read.refused[0][1].startswith(f"HAPROXY_0_{name} is refused: ")


def test_a_refused_label_closes_its_port_and_no_other():
    two = app("/x", labels={"HAPROXY_1_SSL_CERT": "x"}, portDefinitions=[{"port": 10100}, {"port": 10101}])
    two["tasks"][0]["ports"] = [1001, 1002]
    assert [one.port for one in published([two]).services.values()] == [10100]
    two["labels"]["HAPROXY_SSL_CERT"] = "x"
    assert published([two]).services == {}


def test_what_names_another_group_is_not_looked_at():
    assert published([app("/x", labels={"HAPROXY_GROUP": "internal", "HAPROXY_0_NONSENSE": "x"})]).problems == []
    of_port = app("/x", labels={"HAPROXY_GROUP": "internal", "HAPROXY_0_GROUP": "external"})
    assert list(published([of_port]).services) == ["/x"]
    assert list(published([app("/x", labels={"HAPROXY_0_GROUP": "internal"})]).services) == []
    everything = balancer_apps.Site(("*",))
    assert list(published([app("/x", labels={"HAPROXY_GROUP": "internal"})], site=everything).services) == ["/x"]


def test_a_password_hash_is_in_no_sentence():
    found = published([app("/x", labels={"HAPROXY_0_AUTH": "realm:user:not-a-hash-but-secret"})])
    assert found.problems and "secret" not in str(found.problems)


def test_who_the_user_is_says_a_front_alone():
    for name in ("portal_10000", ""):  # the port of the application, and the frontend of all host names
        rules = BASE.block(name) if name else BASE.written.text.partition("frontend marathon_http")[2]
        assert "http-request del-header X-Remote-User unless from_front" in rules
    assert "option http-restrict-req-hdr-names delete" in BASE.written.text
    alone = balancer_conf.write([], balancer_conf.Balancer("/x", "/y", headers=("X-Remote-User",))).text
    assert "  http-request del-header X-Remote-User\n" in alone and "from_front" not in alone


# Who keeps what


def test_the_first_by_name_gets_what_is_new_and_then_keeps_it():
    first = published([app("/b"), app("/c")])
    assert list(first.services) == ["/b"] and first.problems[0].sentence == "port 0 is not published: port 10100 belongs to /b"
    later = published([app("/a"), app("/b"), app("/c")], first.claims)
    assert list(later.services) == ["/b"]
    assert list(published([app("/a"), app("/c")], later.claims).services) == ["/a"]


def test_an_application_keeps_what_it_has_while_a_label_of_it_is_refused():
    broken = app("/portal", 10000, {"HAPROXY_0_VHOST": "portal.example.org", "HAPROXY_0_NONSENSE": "x"})
    thief = app("/a", 10000, {"HAPROXY_0_VHOST": "portal.example.org"})
    found = published([broken, thief], BASE.claims)
    assert found.services == {} and found.claims["host portal.example.org"] == "/portal"
    assert list(published([VICTIMS[0], thief], found.claims).services) == ["/portal"]
    wholly = app("/portal", 10000, {"HAPROXY_NONSENSE": "x"})
    assert published([wholly, thief], BASE.claims).services == {}
    pretender = app("/portal-blue", 10000, {"HAPROXY_DEPLOYMENT_GROUP": "portal", "HAPROXY_0_VHOST": "portal.example.org"})
    assert published([wholly, pretender], BASE.claims).services == {}


def test_an_application_without_a_task_keeps_what_it_has():
    idle = {**VICTIMS[0], "tasks": []}
    found = published([idle, app("/a", 10000, {"HAPROXY_0_VHOST": "portal.example.org"})], BASE.claims)
    assert list(found.services) == ["/portal"] and found.services["/portal"].servers == ()


def test_what_an_application_no_longer_asks_for_is_free():
    moved = app("/portal", 10000, {"HAPROXY_0_VHOST": "new.example.org"})
    assert set(published([moved, app("/x", labels={"HAPROXY_0_VHOST": "portal.example.org"})], BASE.claims).services) == {"/portal", "/x"}


def test_two_ports_of_an_application_do_not_share_one():
    two = app("/x", labels={"HAPROXY_1_PORT": "10100"}, portDefinitions=[{"port": 10100}, {"port": 10101}])
    found = published([two])
    assert len(found.services) == 1 and "port 10100 is taken by another port of it" in found.problems[0].sentence


def test_a_reserved_name_goes_to_its_applications_alone():
    reserved = [balancer_claims.Reserved("host a.example.org", "/good"), balancer_claims.Reserved("port 10101", "/good")]
    bad = app("/bad", labels={"HAPROXY_0_VHOST": "a.example.org"})
    found = published([bad, app("/goods", 10101), app("/good/web", 10102, {"HAPROXY_0_VHOST": "a.example.org"})], reserved=reserved)
    assert list(found.services) == ["/good/web"]
    assert found.problems[0].sentence == "port 0 is not published: host a.example.org is reserved for /good"


# Tasks


def test_only_healthy_tasks_that_run_get_requests():
    check = [{"protocol": "HTTP", "path": "/", "portIndex": 0}]
    tasks: list[dict[str, t.Any]] = [
        {"id": "well", "healthCheckResults": [{"alive": True}]},
        {"id": "ill", "healthCheckResults": [{"alive": False}]},
        {"id": "half", "healthCheckResults": [{"alive": True}, {"alive": False}]},
        {"id": "new"},
        {"id": "known"},
        {"id": "killed", "state": "TASK_KILLING", "healthCheckResults": [{"alive": True}]},
        {"id": "staging", "state": "TASK_STAGING"},
        {"id": "unreachable", "state": "TASK_UNREACHABLE", "healthCheckResults": [{"alive": True}]},
    ]
    full = [{"host": "10.0.0.9", "ports": [31000 + number], "state": "TASK_RUNNING", **task} for number, task in enumerate(tasks)]
    found = published([app("/x", healthChecks=check, tasks=full)], known={"known"})
    assert {server.port for server in found.services["/x"].servers} == {31000, 31004, 31007}
    careless = published([app("/x", healthChecks=check, tasks=full)], site=balancer_apps.Site(("external",), health=False))
    assert len(careless.services["/x"].servers) == 6


def test_a_port_of_udp_is_not_published():
    found = published([app("/x", portDefinitions=[{"port": 10100, "protocol": "udp"}, {"port": 10101, "protocol": "udp,tcp"}])])
    assert [problem.sentence for problem in found.problems] == ["port 0 has no service port of tcp"]
    assert [one.port for one in found.services.values()] == [10101]


def test_networks_of_the_site_decide_where_tasks_may_be():
    import ipaddress

    site = balancer_apps.Site(("external",), (ipaddress.ip_network("10.0.0.0/29"),))
    found = published([app("/x")], site=site)
    assert found.services["/x"].servers == () and "10.0.0.9" in found.problems[0].sentence


def test_a_health_check_on_another_port_of_the_task():
    more = app(
        "/x",
        labels={"HAPROXY_0_BACKEND_HEALTHCHECK_PORT_INDEX": "1"},
        portDefinitions=[{"port": 10100}, {"port": 10101}],
        healthChecks=[{"protocol": "HTTP", "path": "/ok", "portIndex": 1, "intervalSeconds": 7}],
    )
    more["tasks"][0]["ports"] = [1001, 1002]
    text = published([more]).block("x_10100")
    assert "  option httpchk GET /ok\n" in text and "10.0.0.9:1001 check inter 7s fall 1 port 1002" in text


# Blue and green


def half(colour: str, tasks: int, target: int | None = None, new: int | None = None, **more: t.Any) -> dict[str, t.Any]:
    labels = {
        "HAPROXY_DEPLOYMENT_GROUP": "web",
        "HAPROXY_DEPLOYMENT_COLOUR": colour,
        "HAPROXY_DEPLOYMENT_STARTED_AT": f"2026-01-0{1 if colour == 'blue' else 2}T00:00:00",
        "HAPROXY_0_PORT": "10110",
        **({} if target is None else {"HAPROXY_DEPLOYMENT_TARGET_INSTANCES": str(target)}),
        **({} if new is None else {"HAPROXY_DEPLOYMENT_NEW_INSTANCES": str(new)}),
    }
    running = [
        {"id": f"{colour}{number}", "host": "10.0.0.9", "ports": [31000 + number], "state": "TASK_RUNNING"} for number in range(tasks)
    ]
    return app(f"/web-{colour}", 10111 if colour == "blue" else 10112, labels, instances=tasks, tasks=running, **more)


@pytest.mark.parametrize(
    ("old", "new", "target", "drained"),
    [(3, 0, 3, 0), (3, 1, 3, 1), (3, 2, 3, 2), (3, 3, 3, 3), (2, 1, 4, 0), (1, 3, 3, 1)],
)
def test_as_many_old_tasks_are_drained_as_new_ones_serve(old, new, target, drained):
    found = published([half("blue", old), half("green", new, target, 0)])
    (service,) = found.services.values()
    assert (service.app, service.port, len(service.servers)) == ("/web", 10110, old + new)
    leaving = [server for server in service.servers if server.draining]
    assert len(leaving) == drained and found.block("web_10110").count(" disabled") == drained
    assert found.problems == []


def test_new_tasks_count_when_they_are_healthy():
    check = [{"protocol": "HTTP", "portIndex": 0}]
    ill = half("green", 2, 2, 0, healthChecks=check)
    for task in ill["tasks"]:
        task["healthCheckResults"] = [{"alive": False}]
    (service,) = published([half("blue", 2), ill]).services.values()
    assert [server.draining for server in service.servers] == [False, False]


def test_a_deployment_that_was_turned_back_drains_the_new_half():
    old = half("blue", 2, versionInfo={"lastScalingAt": "2026-01-03T00:00:00Z"})
    new = half("green", 1, 2, 1, versionInfo={"lastScalingAt": "2026-01-02T00:00:00Z"})
    (service,) = published([old, new]).services.values()
    assert sum(server.draining for server in service.servers) == 1
    assert len(service.servers) == 3


def test_a_name_stays_with_a_deployment_from_its_beginning_to_its_end():
    name = {"HAPROXY_0_VHOST": "web.example.org"}
    blue, green = half("blue", 1), half("green", 1, 1, 0)
    blue["labels"].update(name)
    green["labels"].update(name)
    claims = published([blue]).claims
    for apps in ([blue, green], [green]):
        found = published([app("/a", labels=name), *apps], claims)
        assert found.services["/web"].options.vhosts == ("web.example.org",) and "/a" not in found.services
        claims = found.claims


# Size and order


def test_the_same_applications_give_the_same_text_in_any_order():
    assert published(list(reversed(VICTIMS))).written.text == BASE.written.text


def test_thousands_of_applications_and_huge_labels_take_seconds():
    apps = [
        app(f"/g{number}/x", 10000 + number, {"HAPROXY_0_VHOST": f"x{number}.example.org", "note": "x" * 1000}) for number in range(5000)
    ]
    apps += [app("/huge", 19999, {"HAPROXY_0_VHOST": "a," * 5_000_000}), app("/long", 19998, {f"HAPROXY_{'A' * 1_000_000}": "x"})]
    began = time.process_time()
    found = published(apps)
    assert len(found.services) == 5000 and len(found.problems) == 2
    assert all(len(problem.sentence) < 200 for problem in found.problems)
    assert time.process_time() - began < 20


def test_haproxy_says_which_service_it_does_not_take():
    at = BASE.written.lines.index("portal_10000") + 3
    assert balancer_conf.guilty(f"[ALERT] (1) : config : parsing [/x/haproxy.cfg:{at}] : unknown keyword", BASE.written) == {"portal_10000"}
    assert balancer_conf.guilty("[ALERT] (1) : config : parsing [/x/haproxy.cfg:2] : x [9999999]", BASE.written) == set()


def test_ports_of_a_configuration():
    assert balancer_conf.ports_of(BASE.written.text) == {80, 443, 9090, 10000, 10001}
