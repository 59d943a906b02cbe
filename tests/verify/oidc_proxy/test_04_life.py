"""What happens to a front in its life: keys change, provider, redis or application fail, it is configured again, certificates expire."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_interface
from pathlib import Path

import pytest
from local import Cluster, changed
from oidc_site import API, TRUST, curl, made_token, on_idp, program_token

OWNS = (
    "roles/oidc_proxy/files/test_configuration.sh",
    "roles/oidc_proxy/tasks/acme.yml",
    "roles/oidc_proxy/tasks/check.yml",
    "roles/oidc_proxy/tasks/configure.yml",
    "roles/oidc_proxy/tasks/plan.yml",
    "roles/oidc_proxy/tasks/service.yml",
    "roles/oidc_proxy/templates",
    "plugins/module_utils/_oidc",
    "plugins/modules/front_certificate.py",
    "plugins/modules/oidc_metadata_info.py",
    "plugins/plugin_utils/_oidc/plan.py",
    "plugins/plugin_utils/_oidc/settings.py",
)

PLAYBOOK = "playbooks/oidc_proxy.yml"
KEYS = "/var/lib/idp/keys.json"
# What a front makes itself that has no certificate yet.
OWN = [f"/etc/deephdc/oidc_proxy/{name}" for name in ("ca.key", "ca.pem", "front.key", "front.pem")]


def until(ready: Callable[[], bool], seconds: float, what: str) -> float:
    started = time.monotonic()
    while not ready():
        assert time.monotonic() - started < seconds, f"{what} not within {seconds} s"
        time.sleep(0.5)
    return time.monotonic() - started


def provider_serves(cluster: Cluster) -> None:
    cluster.until("idp", "curl -s -o /dev/null -w '%{http_code}' https://iam.site.test/jwks", "200", 20)


@contextmanager
def stopped(cluster: Cluster, host: str, unit: str) -> Iterator[None]:
    cluster.out(host, f"systemctl stop {unit}")
    try:
        yield
    finally:
        cluster.out(host, f"systemctl start {unit}")
        if unit == "idp":
            provider_serves(cluster)


def publish(cluster: Cluster, *kids: str) -> None:
    """Let the provider sign with the first of these keys, and publish them."""
    program = f"import json; k = json.load(open('{KEYS}')); k['active'] = {list(kids)!r}; json.dump(k, open('{KEYS}', 'w'))"
    cluster.out("idp", f'python3 -c "{program}" && systemctl restart idp')
    provider_serves(cluster)


@pytest.fixture(scope="module", autouse=True)
def as_configured(cluster: Cluster) -> Iterator[None]:
    """The front is as it was; a run is made only where the last test has not configured it back."""
    files = "find /etc/apache2 /etc/deephdc /etc/systemd/system /var/lib/deephdc -type f -exec sha256sum {} + | sort -k 2"
    before = cluster.out("front", files)
    yield
    # The certificate with which a front begins that has an ACME client stays at a site.
    cluster.out("front", f"rm -rf /root/acme {' '.join(path for path in OWN if path not in before)}")
    if cluster.out("front", files) != before:
        cluster.playbook(PLAYBOOK, "--limit", "front")


def test_a_new_key_is_accepted_at_once_and_a_removed_one_in_bounded_time(cluster: Cluster):
    old = made_token(cluster, {"exp": "now+3000"})
    assert curl(cluster, f"{API}/", token=old).status == 200
    try:
        publish(cluster, "key2")
        assert curl(cluster, f"{API}/", token=made_token(cluster, {}, sign="key2")).status == 200
        # That token made the front look at the provider's keys again.
        taken = until(lambda: curl(cluster, f"{API}/", token=old).status == 401, 320, "a token of a removed key refused")
        print(f"\na removed key was refused after {taken:.0f} s")
    finally:
        publish(cluster, "key1")
    assert curl(cluster, f"{API}/", token=old).status == 200


def test_known_keys_are_enough_while_the_provider_is_down(cluster: Cluster):
    token = program_token(cluster)
    assert curl(cluster, f"{API}/", token=token).status == 200
    with stopped(cluster, "idp", "idp"):
        assert curl(cluster, f"{API}/", token=token).status == 200
        assert curl(cluster, "https://opaque.site.test/api/", token="never-seen").status in (401, 502, 503)


def test_a_front_that_starts_without_its_provider_serves_once_it_is_back(cluster: Cluster):
    token = program_token(cluster)
    with stopped(cluster, "idp", "idp"):
        cluster.out("front", "systemctl restart apache2 oidc_proxy_sessions")
        # Keys that the front has kept are enough; without them it can only refuse.
        answer = curl(cluster, f"{API}/", token=token)
        assert answer.status in (200, 401, 502, 503) and "json" in answer.header("content-type")
    assert curl(cluster, f"{API}/", token=token).status == 200


def test_programs_are_served_without_redis_and_browsers_sign_in_again(cluster: Cluster):
    token = program_token(cluster)
    with stopped(cluster, "front", "oidc_proxy_sessions"):
        assert curl(cluster, f"{API}/", token=token).status == 200
        assert curl(cluster, "https://front.site.test/web/", "--header", "Accept: text/html").status in (302, 500, 503)
    until(lambda: curl(cluster, "https://front.site.test/web/", "--header", "Accept: text/html").status == 302, 15, "logins again")


def test_an_application_that_comes_back_is_served_at_once(cluster: Cluster):
    token = program_token(cluster)
    with stopped(cluster, "app", "recorder"):
        assert curl(cluster, f"{API}/", token=token).status == 503
    cluster.until("app", "ss -ltnH", ":8000")
    assert curl(cluster, f"{API}/", token=token).status == 200


LOAD = """
import json, pathlib, socket, sys, threading
from forge import Forge
from login import session_of
from wire import exchange

# Ten signed-in users with ten windows each; windows of one user share the cookie.
front = "front.site.test"
users = ["alice", "carol"] * 5
cookies = [session_of("https://front.site.test/web/", user).cookies[front] for user in users]
lines = ["; ".join(f"{name}={value}" for name, value in jar.items()) for jar in cookies]
token = Forge().good("https://front.site.test/api")
stop = pathlib.Path("/tmp/load.stop")
answers, lock = {}, threading.Lock()
# Half of them come from another address: one may have 140 connections, and those that close are among them.
here, connect = threading.local(), socket.create_connection
socket.create_connection = lambda *to, **how: connect(*to, source_address=(here.address, 0), **how)

def window(number):
    here.address = sys.argv[1] if number % 2 else ""
    while not stop.exists():
        cookie = number % 4
        own = f"Cookie: {lines[number % 10]}" if cookie else f"Authorization: Bearer {token}"
        path = "/web/slow/1" if cookie else "/api/slow/1"
        request = f"GET {path} HTTP/1.1\\r\\nHost: {front}\\r\\nAccept: text/html\\r\\nConnection: close\\r\\n{own}\\r\\n\\r\\n"
        try:
            status = exchange(front, request.encode()).status
        except OSError as error:
            status = repr(error)
        with lock:
            answers[str(status)] = answers.get(str(status), 0) + 1

threads = [threading.Thread(target=window, args=(number,)) for number in range(100)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps(answers))
"""


def certificate(cluster: Cluster, days: int) -> str:
    """Another one for the front's names and key, by the test site's authority."""
    pki = Path(os.environ["LOCAL_SECRETS"]) / "pki"
    command = (
        f"openssl req -new -key {pki}/front.key -subj /CN=front.site.test -out new.csr && openssl x509 -req -in new.csr "
        f"-CA {pki}/ca.pem -CAkey {pki}/ca.key -CAcreateserial -days {days} -extfile {pki}/front.names -out new.pem"
    )
    subprocess.run(["bash", "-c", command], cwd=cluster.state, check=True, capture_output=True)
    return (cluster.state / "new.pem").read_text()


# What an ACME client does on the host; the authority's part, to fetch the proof by the front's name, is done here, too.
CLIENT = """#!/bin/sh
set -e
echo called >> /root/acme/calls
proof=/.well-known/acme-challenge/one
echo proven > /var/lib/deephdc/oidc_proxy/acme$proof
python3 -c 'import sys, urllib.request; sys.exit(urllib.request.urlopen(sys.argv[1]).read() != b"proven\\n")' http://front.site.test$proof
rm /var/lib/deephdc/oidc_proxy/acme$proof
mkdir -p /root/acme/live
cp /root/acme/new.pem /root/acme/new.key /root/acme/live/
"""


def test_a_certificate_comes_by_an_acme_client(cluster: Cluster):
    made = certificate(cluster, 90)
    key = (Path(os.environ["LOCAL_SECRETS"]) / "pki/front.key").read_text()
    cluster.out("front", "umask 077; rm -rf /root/acme; mkdir /root/acme")
    for name, text in (("new.pem", made), ("new.key", key), ("client", CLIENT)):
        cluster.out("front", f"umask 077; cat > /root/acme/{name} <<'END'\n{text}\nEND\n")
    variables = {
        "oidc_proxy_certificate": "/root/acme/live/new.pem",
        "oidc_proxy_certificate_key": "/root/acme/live/new.key",
        "oidc_proxy_acme_command": "sh /root/acme/client",
    }
    cluster.playbook(PLAYBOOK, "--limit", "front", variables=variables)
    serial = "openssl x509 -noout -serial"
    served = cluster.out("idp", f"openssl s_client -connect front.site.test:443 -servername front.site.test </dev/null 2>&1 | {serial}")
    assert served == cluster.out("front", f"{serial} -in /root/acme/new.pem")
    # It is asked again only when the certificate is about to end.
    assert changed(cluster.playbook(PLAYBOOK, "--limit", "front", variables=variables)) == []
    assert cluster.out("front", "cat /root/acme/calls") == "called"


@pytest.fixture(scope="module")
def changed_run(cluster: Cluster) -> str:
    """Output of a run with a certificate that ends soon, a limit on refusals and a new backend; the test under load takes them back."""
    variables = {
        "oidc_proxy_certificate": certificate(cluster, 5),
        "oidc_proxy_refusals_per_minute": 30,
        "oidc_proxy_backends": "{{ local_backends + [local_backends[0] | combine({'name': 'new', 'path': '/new/'})] }}",
    }
    return cluster.playbook(PLAYBOOK, "--limit", "front", variables=variables)


def test_a_certificate_that_is_about_to_end_is_told(cluster: Cluster, changed_run: str):
    assert re.search(r"certificate of front.site.test expires in [45] days", changed_run), changed_run[-3000:]
    assert curl(cluster, "https://front.site.test/new/", token=program_token(cluster)).status == 200


def test_a_flood_of_refused_tokens_is_slowed_down(cluster: Cluster, changed_run: str):
    """Each unknown key id costs a request to the provider: one address may not ask for them without end."""
    program = """
import urllib.request, urllib.error
for _ in range(60):
    try:
        request = urllib.request.Request("https://front.site.test/api/", headers={"Authorization": "Bearer x.y.z"})
        print(urllib.request.urlopen(request, timeout=20).status)
    except urllib.error.HTTPError as error:
        print(error.code)
"""
    seen = cluster.out("app", f"python3 - <<'END'\n{program}\nEND\n").split()
    assert set(seen) == {"401", "429"} and seen.index("429") >= 25, seen
    # Users elsewhere notice nothing.
    assert curl(cluster, f"{API}/", token=program_token(cluster)).status == 200


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param("{'audience': ''}", ["api", "audience"], id="told on the control node"),
        # A socket's path that is too long: only Apache knows.
        pytest.param(
            "{'upstreams': ['unix:/run/' ~ 'a' * 120 ~ '|http://localhost/']}", ["api", "refused by Apache"], id="refused by Apache"
        ),
    ],
)
def test_a_bad_change_leaves_the_old_front_running(cluster: Cluster, changed_run: str, change: str, words: list[str]):
    broken = f"{{{{ [local_backends[0] | combine({change})] + local_backends[1:] }}}}"
    output = cluster.playbook(PLAYBOOK, "--limit", "front", variables={"oidc_proxy_backends": broken}, succeeds=False)
    assert all(word in output for word in words), output[-3000:]
    assert curl(cluster, "https://front.site.test/new/", token=program_token(cluster)).status == 200


def test_a_change_under_load_fails_no_request_and_logs_nobody_out(cluster: Cluster, changed_run: str):
    """100 concurrent users, three of four with a session, while a run changes the configuration back."""
    own = cluster.out("idp", "ip -4 -oneline address show eth0").split()[3]
    second = ip_interface(f"{ip_interface(own).network[-3]}/{own.split('/')[1]}")
    cluster.out("idp", f"ip address replace {second} dev eth0")
    cluster.out("idp", f"rm -f /tmp/load.stop; cat > /tmp/load.py <<'END'\n{LOAD}\nEND\n")
    words = [
        "docker",
        "exec",
        f"{cluster.label}-idp",
        "bash",
        "-c",
        f"PYTHONPATH=/opt/test/attacks:/opt/test/python {TRUST} python3 /tmp/load.py {second.ip}",
    ]
    before = cluster.out("front", "systemctl show -p MainPID --value apache2")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as load:
        try:
            time.sleep(5)
            output = cluster.playbook(PLAYBOOK, "--limit", "front")
            time.sleep(2)
        finally:
            cluster.out("idp", "touch /tmp/load.stop")
        said, errors = load.communicate(timeout=60)
    cluster.out("idp", f"ip address delete {second} dev eth0")
    assert load.returncode == 0, errors[-2000:]
    answers = json.loads(said)
    print(f"\nanswers while the configuration changed: {answers}")
    assert changed(output), "nothing was changed while the load was there"
    assert set(answers) == {"200"} and answers["200"] > 200, answers
    assert cluster.out("front", "systemctl show -p MainPID --value apache2") == before, "restarted instead of reloaded"
    assert curl(cluster, "https://front.site.test/new/", token=program_token(cluster)).status in (403, 404)


def test_a_session_ends_at_once_when_the_provider_says_so(cluster: Cluster):
    """Back-channel logout: the provider notifies the front."""
    seen = on_idp(
        cluster,
        """
import json, re
from login import session_of
browser = session_of("https://front.site.test/web/", "carol")
page = browser.ask("https://iam.site.test/session/end")
token = re.search(r'name="xsrf" value="([^"]+)"', page.body)[1]
browser.follow("https://iam.site.test/session/end/confirm", {"xsrf": token, "logout": "yes"})
print(json.dumps(browser.ask("https://front.site.test/web/").status))
""",
    )
    assert seen == 302


def test_nobody_else_is_logged_out_by_that(cluster: Cluster):
    seen = on_idp(
        cluster,
        """
import json, re
from login import session_of
alice = session_of("https://front.site.test/web/", "alice")
carol = session_of("https://front.site.test/web/", "carol")
page = carol.ask("https://iam.site.test/session/end")
token = re.search(r'name="xsrf" value="([^"]+)"', page.body)[1]
carol.follow("https://iam.site.test/session/end/confirm", {"xsrf": token, "logout": "yes"})
print(json.dumps([alice.ask("https://front.site.test/web/").status, carol.ask("https://front.site.test/web/").status]))
""",
    )
    assert seen == [200, 302], cluster.out("idp", "journalctl -u idp -n 20 --no-pager -o cat")
