"""Users with browsers: a real Chromium through the front to the application, and out again; who may not come in; a second provider."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest
from local import Cluster
from oidc_site import curl, on_idp, records

OWNS = (
    "plugins/plugin_utils/_oidc/pages.py",
    "plugins/plugin_utils/_oidc/presets.py",
    "tests/stand_ins/oidc/second_provider.py",
    "tests/verify/oidc_proxy/chromium.py",
    "playbooks/oidc_proxy.yml",
    "roles/oidc_proxy",
    "plugins/filter/oidc_proxy.py",
    "extensions/molecule/oidc_proxy",
    "inventories/local_oidc",
    "tests/stand_ins/oidc",
)

FRONT = "https://front.site.test"
LOGGED_OUT = f"{FRONT}/.front/loggedout.html"
SIGN_IN = [["type", "[name=name]", "USER"], ["type", "[name=password]", "USER"], ["see", "provider"], ["click", "#sign-in"]]


def browse(cluster: Cluster, *steps: list[str]) -> dict[str, dict]:
    """What Chromium saw; its screenshots are kept with the scenario's other state."""
    program = Path(__file__).parent / "chromium.py"
    subprocess.run(["docker", "cp", "-q", str(program), f"{cluster.label}-idp:/opt/test"], check=True)
    directory = "/home/visitor/screenshots"
    seen = cluster.out("idp", f"python3 /opt/test/chromium.py {directory} <<'END'\n{json.dumps(steps)}\nEND\n", user="visitor", timeout=180)
    subprocess.run(["docker", "cp", "-q", f"{cluster.label}-idp:{directory}", str(cluster.state)], check=True)
    return json.loads(seen)


def sign_in(user: str) -> list[list[str]]:
    return [[word.replace("USER", user) for word in step] for step in SIGN_IN]


def test_a_browser_comes_in_and_goes_out_again(cluster: Cluster):
    seen = browse(
        cluster,
        ["open", f"{FRONT}/web/jobs?of=mine"],
        *sign_in("alice"),
        ["wait", "#user"],
        ["see", "application"],
        ["open", f"{FRONT}/oidc/redirect_uri?logout={quote(LOGGED_OUT, safe='')}"],
        ["click", "button[name=logout]"],
        ["wait", "h1"],
        ["see", "logged-out"],
        ["open", f"{FRONT}/web/jobs"],
        ["wait", "[name=name]"],
        ["see", "again"],
    )
    assert seen["provider"]["url"].startswith("https://iam.site.test/")
    page = seen["application"]
    assert page["url"] == f"{FRONT}/web/jobs?of=mine"
    assert "Jobs of alice" in page["text"]
    cookie = page["cookies"]["__Host-front"]
    assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Lax")
    assert seen["logged-out"]["url"].startswith(LOGGED_OUT)
    assert "__Host-front" not in seen["logged-out"]["cookies"]
    # Out at the provider, too: it asks for the password again.
    assert seen["again"]["url"].startswith("https://iam.site.test/")
    kept = cluster.state / "screenshots"
    assert all((kept / f"{name}.png").stat().st_size > 5000 for name in ("provider", "application", "logged-out"))


def test_who_lacks_the_group_reads_which_one(cluster: Cluster):
    seen = browse(cluster, ["open", f"{FRONT}/web/"], *sign_in("bob"), ["wait", "h1"], ["see", "forbidden"])
    page = seen["forbidden"]
    assert page["url"] == f"{FRONT}/web/", "sent in circles"
    assert "gpu" in page["text"] and "group" in page["text"], page["text"]


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


def test_programs_are_told_instead_of_sent_to_a_login(cluster: Cluster):
    for options in (
        (),
        ("--header", "Accept: application/json"),
        ("--header", "Accept: text/html", "--header", "X-Requested-With: XMLHttpRequest"),
    ):
        answer = curl(cluster, f"{FRONT}/web/", *options)
        assert answer.status == 401 and answer.header("www-authenticate"), answer.head
    browser = curl(cluster, f"{FRONT}/web/", "--header", "Accept: text/html")
    assert browser.status == 302 and browser.header("location").startswith("https://iam.site.test/")


def test_a_second_provider_serves_its_own_backend(cluster: Cluster):
    seen = on_idp(
        cluster,
        """
import json
from login import Browser
found = {}
for user, number in (("carol", 3), ("bob", 2)):
    browser = Browser()
    page = browser.sign_in("https://second.site.test/jobs", f"11111111-1111-4111-8111-00000000000{number}")
    # A session of this provider's backend is none at the other's.
    browser.cookies["front.site.test"] = browser.cookies["second.site.test"]
    found[user] = [page.status, page.url, page.body, browser.ask("https://front.site.test/web/").header("location")]
print(json.dumps(found))
""",
    )
    status, url, body, elsewhere = seen["carol"]
    assert (status, url) == (200, "https://second.site.test/jobs") and ">carol<" in body
    assert elsewhere.startswith("https://iam.site.test/")
    assert seen["bob"][0] == 403


def test_a_session_is_shown_to_no_other_providers_application(cluster: Cluster):
    """Browsers send a name's cookies to each of its ports."""
    records(cluster)
    status, cookies = on_idp(
        cluster,
        """
import json
from login import Browser
browser = Browser()
assert browser.sign_in("https://front.site.test/web/", "carol").status == 200
page = browser.sign_in("https://front.site.test:445/other/", "11111111-1111-4111-8111-000000000003")
print(json.dumps([page.status, browser.cookies["front.site.test"]]))
""",
    )
    assert status == 200 and {"__Host-front", "__Host-front-445"} <= set(cookies)
    heads = [record["head"] for record in records(cluster)]
    assert len(heads) == 2
    assert not any(value in head for value in cookies.values() for head in heads)


@pytest.mark.parametrize("what", ["events", "websocket"])
def test_streams_come_through_with_a_session(cluster: Cluster, what: str):
    program = {
        "events": """
import json, time
from login import session_of
browser = session_of("https://front.site.test/both/", "alice")
cookie = "; ".join(f"{k}={v}" for k, v in browser.cookies["front.site.test"].items())
import http.client, ssl
connection = http.client.HTTPSConnection("front.site.test", context=ssl.create_default_context())
connection.request("GET", "/both/events", headers={"Cookie": cookie, "Accept": "text/event-stream"})
answer, times = connection.getresponse(), []
while line := answer.readline():
    if line.startswith(b"data"):
        times.append(time.monotonic())
print(json.dumps([answer.status, len(times), times[-1] - times[0]]))
""",
        "websocket": """
import json, socket, ssl
from login import session_of
browser = session_of("https://front.site.test/both/", "alice")
cookie = "; ".join(f"{k}={v}" for k, v in browser.cookies["front.site.test"].items())
found = []
for line in (f"Cookie: {cookie}\\r\\n", ""):
    plain = socket.create_connection(("front.site.test", 443), 10)
    with ssl.create_default_context().wrap_socket(plain, server_hostname="front.site.test") as s:
        s.sendall(("GET /both/ws HTTP/1.1\\r\\nHost: front.site.test\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n"
                   "Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n" + line + "\\r\\n").encode())
        head = s.recv(4096).decode()
        found.append(int(head.split()[1]))
        if found[-1] == 101:
            s.sendall(bytes([129, 133, 1, 2, 3, 4]) + bytes(b ^ m for b, m in zip(b"hello", [1, 2, 3, 4, 1])))
            found.append(s.recv(100)[2:].decode())
print(json.dumps(found))
""",
    }[what]
    seen = on_idp(cluster, program)
    if what == "events":
        assert seen[:2] == [200, 4] and seen[2] > 1, "events did not come one by one"
    else:
        assert seen == [101, "hello", 401]
