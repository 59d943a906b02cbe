"""Drives a real headless Chromium by WebDriver, on the host idp; prints what it saw as JSON.

usage: chromium.py DIRECTORY < STEPS      steps: JSON list of [command, argument ...]; screenshots go to DIRECTORY
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
import typing as t
import urllib.error
import urllib.request
from pathlib import Path

PORT = 9515
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
# Docker gives a container 64 MB of shared memory, and root in it no user namespaces for a sandbox.
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1000,600"]


class Driver:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.process = subprocess.Popen(["chromedriver", f"--port={PORT}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": OPTIONS}}}}
        deadline = time.monotonic() + 30
        while True:
            try:
                self.session = self.call("POST", "/session", wanted)["sessionId"]
                return
            except urllib.error.HTTPError as error:
                sys.exit(f"Chromium does not start: {error.read().decode()[:2000]}")
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def call(self, method: str, path: str, body: t.Any = None) -> t.Any:
        data = None if method == "GET" else json.dumps(body or {}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def do(self, method: str, path: str, body: t.Any = None) -> t.Any:
        return self.call(method, f"/session/{self.session}{path}", body)

    def find(self, selector: str) -> str:
        deadline = time.monotonic() + 20
        while True:
            try:
                return self.do("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]
            except urllib.error.HTTPError:
                if time.monotonic() > deadline:
                    sys.exit(f"no {selector} at {self.do('GET', '/url')}: {self.do('GET', '/source')[:2000]}")
                time.sleep(0.1)

    def step(self, command: str, *arguments: str) -> t.Any:
        if command == "open":
            return self.do("POST", "/url", {"url": arguments[0]})
        if command == "type":
            return self.do("POST", f"/element/{self.find(arguments[0])}/value", {"text": arguments[1]})
        if command == "click":
            return self.do("POST", f"/element/{self.find(arguments[0])}/click")
        if command == "wait":
            return self.find(arguments[0])
        if command == "see":
            (self.directory / f"{arguments[0]}.png").write_bytes(base64.b64decode(self.do("GET", "/screenshot")))
            text = self.do("POST", "/execute/sync", {"script": "return document.body.innerText", "args": []})
            cookies = {cookie["name"]: cookie for cookie in self.do("GET", "/cookie")}
            return {
                "name": arguments[0],
                "url": self.do("GET", "/url"),
                "title": self.do("GET", "/title"),
                "text": text,
                "cookies": cookies,
            }
        raise ValueError(command)


def main() -> None:
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    driver = Driver(directory)
    try:
        seen = [driver.step(*step) for step in json.load(sys.stdin)]
        print(json.dumps({view["name"]: view for view in seen if isinstance(view, dict)}))
        driver.call("DELETE", f"/session/{driver.session}")
    finally:
        driver.process.terminate()
        driver.process.wait()


if __name__ == "__main__":
    main()
