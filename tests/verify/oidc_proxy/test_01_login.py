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


def test_no_link_of_a_stranger_begins_a_login_of_its_own(cluster: Cluster):
    """Nor does it add to what the front asks the provider for."""
    door = f"{FRONT}/oidc/redirect_uri"
    issuer = quote("https://iam.site.test", safe="")
    for query in (
        f"iss={issuer}&target_link_uri={quote(FRONT + '/web/', safe='')}",
        f"iss={issuer}&target_link_uri={quote(FRONT + '/web/', safe='')}&scopes=admin&login_hint=mallory",
        f"iss={issuer}",
        f"iss={issuer}&state=x",
        f"iss={issuer}&code=x",
        f"state=x&iss={issuer}&scopes=admin",
        "state=x&error=x&scopes=admin",
        f"%69ss={issuer}",
        "disc_user=mallory",
        "state=x;code=x&auth_request_params=prompt%3Dnone",
        "x_csrf=1",
    ):
        answer = curl(cluster, f"{door}?{query}", "--header", "Accept: text/html")
        assert answer.status == 404 and not answer.header("location") and not answer.header("set-cookie"), (query, answer.head)
    # The module takes a state and a code for an answer with GET alone.
    for method in ("PUT", "OPTIONS", "DELETE", "POST", "PATCH"):
        for query in (f"iss={issuer}&scopes=admin", f"iss={issuer}", "jwks=rsa", "info=json", "session=check", "refresh=x&access_token=x"):
            answer = curl(cluster, f"{door}?state=x&code=y&{query}", "--request", method, "--header", "Accept: text/html")
            assert answer.status == 404 and not answer.header("location") and not answer.header("set-cookie"), (method, query, answer.head)


def test_answers_of_providers_arrive(cluster: Cluster):
    """Also with what some of them add. Without a login of this browser each ends in an error of the front's own, and in no 404."""
    for more in (
        "",
        "&iss=https%3A%2F%2Fiam.site.test",
        "&client-request-id=1",
        "&session_state=x&scope=openid",
        "&error_description=no+no",
    ):
        for said in ("error=access_denied", "code=x"):
            answer = curl(cluster, f"{FRONT}/oidc/redirect_uri?{said}&state=x{more}", "--header", "Accept: text/html")
            assert answer.status != 404, (said, more, answer.head)


def test_no_host_beside_the_front_can_set_the_cookie_of_a_login(cluster: Cluster):
    answer = curl(cluster, f"{FRONT}/web/", "--header", "Accept: text/html")
    (cookie,) = [line for line in answer.head.splitlines() if line.lower().startswith("set-cookie:")]
    words = {word.strip().lower() for word in cookie.split(";")[1:]}
    assert cookie.split()[1].startswith("__Host-front_state_") and {"path=/", "secure", "httponly"} <= words
    assert not any(word.startswith("domain") for word in words)


def test_the_page_that_a_browser_came_from_is_in_no_log(cluster: Cluster):
    curl(cluster, f"{FRONT}/nowhere/", "--header", "Referer: https://front.site.test/oidc/redirect_uri?code=c0de-of-a-login")
    assert "client denied" in cluster.out("front", "tail -n 3 /var/log/apache2/oidc_proxy_error.log")
    assert "c0de-of-a-login" not in cluster.out("front", "cat /var/log/apache2/*")


def test_a_second_provider_serves_its_own_backend(cluster: Cluster):
    seen = on_idp(
        cluster,
        """
import json
from login import Browser
found = {}
for user, number in (("carol", 3), ("bob", 2), ("mallory", 9)):
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
    # Who has the group, and a second claim whose name differs from the first one's by its letters' case.
    assert seen["mallory"][0] == 403


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
