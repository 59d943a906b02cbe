"""Signs a user in by HTTP alone, as a browser does it: at a front (a session cookie), or at the provider for a program (a token).

usage: login.py token USER RESOURCE [SCOPE]       prints an access token that the provider itself issued to the user
"""

from __future__ import annotations

import base64
import hashlib
import html
import http.client
import json
import secrets
import ssl
import sys
import typing as t
import urllib.parse

CALLBACK = "https://cli.site.test/callback"


class Answer(t.NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    body: str
    url: str

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")


class Browser:
    """Cookies by host, one connection per host, redirects followed one by one.

    No script is run.
    """

    def __init__(self, accept: str = "text/html") -> None:
        self.cookies: dict[str, dict[str, str]] = {}
        self.accept = accept
        self.trust = ssl.create_default_context()
        self.connections: dict[str, http.client.HTTPConnection] = {}

    def connection(self, parts: urllib.parse.SplitResult) -> http.client.HTTPConnection:
        if parts.netloc not in self.connections:
            host, port = parts.hostname or "", parts.port
            secure = parts.scheme == "https"
            self.connections[parts.netloc] = (
                http.client.HTTPSConnection(host, port, timeout=20, context=self.trust)
                if secure
                else http.client.HTTPConnection(host, port)
            )
        return self.connections[parts.netloc]

    def ask(self, url: str, form: dict[str, str] | None = None, headers: dict[str, str] | None = None) -> Answer:
        parts = urllib.parse.urlsplit(url)
        jar = self.cookies.setdefault(parts.hostname or "", {})
        sent = {"Accept": self.accept, **(headers or {})}
        if jar:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in jar.items())
        body = urllib.parse.urlencode(form) if form is not None else None
        if body is not None:
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        path = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        for attempt in (1, 2):
            connection = self.connection(parts)
            try:
                connection.request("POST" if body is not None else "GET", path, body, sent)
                answer = connection.getresponse()
                break
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                # The other side closed a connection that was kept; a new one must serve.
                self.connections.pop(parts.netloc).close()
                if attempt == 2:
                    raise
        text = answer.read().decode(errors="replace")
        for name, value in answer.getheaders():
            if name.lower() == "set-cookie":
                key, _sign, rest = value.partition("=")
                content = rest.split(";")[0]
                if content and "1970" not in value:
                    jar[key.strip()] = content
                else:
                    jar.pop(key.strip(), None)
        return Answer(answer.status, answer.getheaders(), text, url)

    def follow(self, url: str, form: dict[str, str] | None = None, until: str = "") -> Answer:
        """Up to a page that is no redirect, or to a redirect whose address begins with until."""
        for _try in range(12):
            answer = self.ask(url, form)
            if answer.status not in (301, 302, 303, 307, 308):
                return answer
            url, form = urllib.parse.urljoin(url, answer.header("location")), None
            if until and url.startswith(until):
                return answer._replace(url=url)
        raise AssertionError(f"redirected too often, last to {url}")

    def sign_in(self, url: str, user: str, until: str = "") -> Answer:
        """Ask for a protected page and sign in where the provider asks who one is."""
        page = self.follow(url, until=until)
        if until and page.url.startswith(until):
            return page
        if 'name="name"' in page.body:
            return self.follow(page.url, {"name": user, "password": user}, until)
        if 'name="sub"' in page.body:  # the second provider
            return self.follow(page.url, {"sub": user}, until)
        raise AssertionError(f"no form to sign in at {page.url}: {page.status} {html.unescape(page.body)[:500]}")


def tokens(user: str, resource: str, scope: str, secret: str, issuer: str = "https://iam.site.test") -> dict[str, t.Any]:
    """The provider's answer to a program that has signed the user in: authorization code with PKCE."""
    verifier = secrets.token_urlsafe(48)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    browser = Browser()
    query = {
        "client_id": "cli",
        "response_type": "code",
        "redirect_uri": CALLBACK,
        "scope": f"openid profile email groups {scope}".strip(),
        "resource": resource,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "state": "1",
    }
    back = browser.sign_in(f"{issuer}/auth?{urllib.parse.urlencode(query)}", user, until=CALLBACK)
    (code,) = urllib.parse.parse_qs(urllib.parse.urlsplit(back.url).query).get("code", [""])
    assert code, f"{back.status} {back.url}: {back.body[:500]}"
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": verifier, "resource": resource}
    basic = base64.b64encode(f"cli:{secret}".encode()).decode()
    answer = browser.ask(f"{issuer}/token", form, {"Authorization": f"Basic {basic}"})
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


def session_of(url: str, user: str) -> Browser:
    """A browser that is signed in at a front."""
    browser = Browser()
    page = browser.sign_in(url, user)
    assert (page.status, page.url) == (200, url), f"{page.status} {page.url}: {page.body[:500]}"
    return browser


if __name__ == "__main__":
    with open("/etc/idp/site.json", encoding="utf-8") as file:
        site = json.load(file)
    own = next(one["client_secret"] for one in site["clients"] if one["client_id"] == "cli")
    print(tokens(sys.argv[2], sys.argv[3], " ".join(sys.argv[4:]) or "api:read", own)["access_token"])
