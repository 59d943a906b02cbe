# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""As much of LXD as its REST interface shows, on a real unix socket, with faults that a test orders.

What it answers was compared with LXD 5.0.2. It keeps records, and runs nothing.
"""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import re
import socketserver
import tarfile
import threading
import time
import typing as t
import uuid
from urllib.parse import parse_qs, unquote, urlsplit

Json = dict[str, t.Any]


class Refusal(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class FakeLXD:
    """The records, and what should go wrong."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.instances: dict[str, Json] = {}
        self.images: dict[str, Json] = {}
        self.aliases: dict[str, str] = {}
        self.operations: dict[str, Json] = {}
        self.files: dict[tuple[str, str], tuple[str, str, bytes]] = {}  # by instance and path: type, mode, content
        self.snapshots: dict[str, list[str]] = {}
        self.consoles: dict[str, bytes] = {}
        self.read_until: dict[str, int] = {}  # bytes of the console
        self.usage: dict[str, int] = {}  # bytes on root disks, where the pool counts them
        self.requests: list[tuple[str, str]] = []
        self.refusals: list[tuple[str, str, int, str]] = []  # method, pattern of the path, code, text: once
        self.failures: list[tuple[str, str, str]] = []  # method, pattern of the path, text of the failed operation: once
        self.before: list[tuple[str, str, t.Callable[[], None]]] = []  # called once before such a request is served
        self.operation_seconds = 0.0
        self.deaf = False  # reads requests and never answers
        self.stubborn: set[str] = set()  # instances whose init does not react
        self.lock = threading.RLock()
        self.released = threading.Event()
        self.server = _Server(path, self)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.released.set()
        self.server.shutdown()
        self.server.server_close()

    def asked(self, method: str, pattern: str) -> int:
        """How many requests there were."""
        return sum(1 for said, path in self.requests if said == method and re.search(pattern, path))

    def taken(self, orders: list[t.Any], method: str, path: str) -> t.Any:
        for order in orders:
            if order[0] == method and re.search(order[1], path):
                orders.remove(order)
                return order
        return None

    def add(self, name: str, config: Json, status: str = "Stopped", devices: Json | None = None) -> Json:
        record = {
            "name": name,
            "architecture": "x86_64",
            "config": config,
            "description": "",
            "devices": devices or {},
            "ephemeral": False,
            "profiles": [],
            "status": status,
        }
        self.instances[name] = record
        return record

    def instance(self, name: str) -> Json:
        if name not in self.instances:
            raise Refusal(404, "Instance not found")
        return self.instances[name]

    def etag(self, name: str) -> str:
        record = self.instance(name)
        return hashlib.sha256(json.dumps([record["config"], record["devices"]], sort_keys=True).encode()).hexdigest()

    def start_operation(self, description: str, work: t.Callable[[], t.Any], instance: str = "", failure: str = "") -> Json:
        operation: Json = {
            "id": str(uuid.uuid4()),
            "description": description,
            "status": "Running",
            "status_code": 103,
            "err": "",
            "metadata": None,
            "resources": {"instances": [f"/1.0/instances/{instance}"]} if instance else {},
            "done": threading.Event(),
        }
        self.operations[operation["id"]] = operation

        def run() -> None:
            time.sleep(self.operation_seconds)
            with self.lock:
                try:
                    if failure:
                        raise Refusal(400, failure)
                    operation["metadata"] = work()
                    operation.update(status="Success", status_code=200)
                except Refusal as error:
                    operation.update(status="Failure", status_code=400, err=str(error))
            operation["done"].set()

        threading.Thread(target=run, daemon=True).start()
        return operation

    # The interface: method, path in parts, query, headers, body -> what the answer's metadata is, or an operation

    def serve(self, method: str, parts: list[str], query: Json, headers: t.Mapping[str, str], body: bytes, failure: str) -> t.Any:
        name = parts[1] if len(parts) > 1 else ""
        kind = (method, parts[0] if parts else "", *parts[2:3])
        if kind == ("GET", ""):
            return {"environment": {"server_version": "5.0.2", "kernel_architecture": "x86_64"}, "auth": "trusted"}
        if kind == ("GET", "resources"):
            return {"cpu": {"total": 8}, "memory": {"total": 32 << 30, "used": 4 << 30}}
        if kind[:2] == ("GET", "storage-pools"):
            if name != "default":
                raise Refusal(404, "Storage pool not found")
            return {"space": {"total": 100 << 30, "used": 10 << 30}} if parts[2:] == ["resources"] else {"name": name, "driver": "dir"}
        if parts[0] == "instances":
            return self._instances(kind, name, parts, query, headers, body, failure)
        if parts[0] == "images":
            return self._images(method, parts[1:], headers, body, failure)
        if parts[0] == "operations":
            return self._operations(parts, query)
        raise Refusal(404, "not found")

    def _operations(self, parts: list[str], query: Json) -> t.Any:
        if len(parts) == 1:
            running = [public(entry) for entry in self.operations.values() if entry["status_code"] < 200]
            return {"running": running} if running else {}
        if parts[1] not in self.operations:
            raise Refusal(404, "Operation not found")
        operation = self.operations[parts[1]]
        self.lock.release()
        try:
            operation["done"].wait(float(query["timeout"][0]))
        finally:
            self.lock.acquire()
        return public(operation)

    def _instances(
        self, kind: t.Any, name: str, parts: list[str], query: Json, headers: t.Mapping[str, str], body: bytes, failure: str
    ) -> t.Any:
        data = json.loads(body) if body[:1] == b"{" else {}
        if kind == ("GET", "instances") and not name:
            return list(self.instances.values())
        if kind == ("POST", "instances") and not name:
            return self._create(data, failure)
        record = self.instance(name)
        if kind == ("GET", "instances"):
            return record
        if kind == ("PUT", "instances"):
            if headers.get("If-Match") and headers["If-Match"] != self.etag(name):
                raise Refusal(412, "Precondition failed")
            return self.start_operation("Updating instance", lambda: record.update(data), name, failure)
        if kind == ("DELETE", "instances"):
            if record["status"] != "Stopped":
                raise Refusal(400, "Instance is running")
            return self.start_operation("Deleting instance", lambda: self.instances.pop(name, None) and None, name, failure)
        if kind == ("GET", "instances", "state"):
            return {"status": record["status"], "disk": {"root": {"usage": self.usage[name]}} if name in self.usage else None}
        if kind == ("PUT", "instances", "state"):
            return self.start_operation(f"{data['action']} of instance", lambda: self._state(record, data), name, failure)
        if kind == ("GET", "instances", "console"):
            return self._console(record)
        if kind[2] == "files":
            return self._files(kind[0], name, query["path"][0], headers, body)
        if kind == ("GET", "instances", "snapshots"):
            return [f"/1.0/instances/{name}/snapshots/{entry}" for entry in self.snapshots.get(name, [])]
        if kind == ("POST", "instances", "snapshots"):
            return self.start_operation("Snapshotting", lambda: self.snapshots.setdefault(name, []).append(data["name"]), name, failure)
        if kind == ("DELETE", "instances", "snapshots"):
            if parts[3] not in self.snapshots.get(name, []):
                raise Refusal(404, "Instance snapshot not found")
            return self.start_operation("Deleting snapshot", lambda: self.snapshots[name].remove(parts[3]), name, failure)
        raise Refusal(404, "not found")

    def _console(self, record: Json) -> bytes:
        """What was not read yet of a container that runs; all of one that does not."""
        name = record["name"]
        text = self.consoles.get(name, b"")
        if record["status"] == "Running":
            text, self.read_until[name] = text[self.read_until.get(name, 0) :], len(text)
        if not text:
            raise Refusal(500, "open : no such file or directory")
        return text

    def _create(self, data: Json, failure: str) -> Json:
        if data["source"]["alias"] not in self.aliases:
            raise Refusal(404, "Image alias not found")
        self.images[self.aliases[data["source"]["alias"]]]["last_used_at"] = stamp()

        def work() -> None:
            if data["name"] in self.instances:
                raise Refusal(400, 'Failed creating instance record: This "instances" entry already exists')
            self.add(data["name"], data["config"], devices=data["devices"])

        return self.start_operation("Creating instance", work, data["name"], failure)

    def _state(self, record: Json, data: Json) -> None:
        action, now = data["action"], record["status"]
        if action == "start":
            if now == "Running":
                raise Refusal(400, "The instance is already running")
            record["status"] = "Running"
        elif action == "stop":
            if now == "Stopped":
                raise Refusal(400, "The instance is already stopped")
            if record["name"] in self.stubborn and not data["force"]:
                raise Refusal(400, 'Failed shutting down instance, status is "Running": context deadline exceeded')
            record["status"] = "Stopped"
        else:
            record["status"] = {"freeze": "Frozen", "unfreeze": "Running"}[action]

    def _files(self, method: str, name: str, path: str, headers: t.Mapping[str, str], body: bytes) -> t.Any:
        existing = {"/", "/var", "/var/lib"} | {entry for owner, entry in self.files if owner == name}
        if method == "GET":
            if path not in existing:
                raise Refusal(404, "Not Found")
            return []
        if path.rsplit("/", 1)[0] not in existing:
            raise Refusal(404, "Not Found")
        self.files[name, path] = (headers["X-LXD-type"], headers["X-LXD-mode"], body)
        return None

    def _images(self, method: str, parts: list[str], headers: t.Mapping[str, str], body: bytes, failure: str) -> t.Any:
        if parts[:1] == ["aliases"]:
            return self._aliases(method, parts[1:], body)
        if method == "POST":
            if headers.get("Content-Type", "").startswith(("application/octet-stream", "multipart/")):
                return self._upload(headers, body, failure)
            return self._publish(json.loads(body), failure)
        if not parts:
            return [
                {**{key: value for key, value in image.items() if key != "content"}, "aliases": [{"name": n} for n in self._names(print_)]}
                for print_, image in self.images.items()
            ]
        if parts[0] not in self.images:
            raise Refusal(404, "Image not found")
        if method == "DELETE":
            return self.start_operation("Deleting image", lambda: self._forget(parts[0]), failure=failure)
        return (
            self.images[parts[0]]["content"]
            if parts[1:] == ["export"]
            else {key: value for key, value in self.images[parts[0]].items() if key != "content"}
        )

    def _names(self, fingerprint: str) -> list[str]:
        return sorted(name for name, target in self.aliases.items() if target == fingerprint)

    def _forget(self, fingerprint: str) -> None:
        del self.images[fingerprint]
        self.aliases = {name: target for name, target in self.aliases.items() if target != fingerprint}

    def _aliases(self, method: str, parts: list[str], body: bytes) -> t.Any:
        if method == "GET":
            if parts[0] not in self.aliases:
                raise Refusal(404, "Image alias not found")
            return {"name": parts[0], "target": self.aliases[parts[0]]}
        data = json.loads(body)
        if method == "PUT":
            self.aliases[parts[0]] = data["target"]
            return None
        if data["name"] in self.aliases:
            raise Refusal(409, "Alias already exists")
        self.aliases[data["name"]] = data["target"]
        return None

    def _upload(self, headers: t.Mapping[str, str], body: bytes, failure: str) -> Json:
        properties = {key: values[0] for key, values in parse_qs(headers.get("X-LXD-properties", "")).items()}
        content = body
        if headers["Content-Type"].startswith("multipart/"):
            boundary = headers["Content-Type"].partition("boundary=")[2].encode()
            sections = body.split(b"--" + boundary)[1:-1]
            content = b"".join(section.partition(b"\r\n\r\n")[2][:-2] for section in sections)
        fingerprint = hashlib.sha256(content).hexdigest()

        def work() -> Json:
            if fingerprint in self.images:
                raise Refusal(400, "Image with same fingerprint already exists")
            self.images[fingerprint] = image(fingerprint, properties, content)
            return {"fingerprint": fingerprint, "size": str(len(content))}

        return self.start_operation("Downloading image", work, failure=failure)

    def _publish(self, data: Json, failure: str) -> Json:
        name, _slash, snapshot = data["source"]["name"].partition("/")
        if snapshot not in self.snapshots.get(name, []):
            raise Refusal(404, "Snapshot not found")
        content = unified({"published": name.encode()})
        fingerprint = hashlib.sha256(content).hexdigest()

        def work() -> Json:
            self.images[fingerprint] = image(fingerprint, data["properties"], content)
            return {"fingerprint": fingerprint}

        return self.start_operation("Creating image", work, failure=failure)


def image(fingerprint: str, properties: Json, content: bytes) -> Json:
    uploaded = stamp()
    return {
        "fingerprint": fingerprint,
        "properties": properties,
        "content": content,
        "uploaded_at": uploaded,
        "last_used_at": "0001-01-01T00:00:00Z",
    }


def stamp() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.123456789Z", time.gmtime())


def public(operation: Json) -> Json:
    return {key: value for key, value in operation.items() if key != "done"}


def unified(files: t.Mapping[str, bytes]) -> bytes:
    """An image of LXD's: metadata and files in one tarball."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        root = {"etc/os-release": b"", **files}
        members = {"metadata.yaml": b"architecture: x86_64\n", **{f"rootfs/{key}": value for key, value in root.items()}}
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, path: str, lxd: FakeLXD) -> None:
        self.lxd = lxd
        super().__init__(path, _Handler)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: t.Any) -> None:
        pass

    def _serve(self) -> None:
        lxd: FakeLXD = self.server.lxd  # type: ignore[attr-defined]  # because http.server knows only its own kind of server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        target = urlsplit(self.path)
        lxd.requests.append((self.command, self.path))
        if lxd.deaf:
            lxd.released.wait()
            self.close_connection = True
            return
        order = lxd.taken(lxd.before, self.command, target.path)
        if order:
            order[2]()
        with lxd.lock:
            self._answer(lxd, target, body)

    do_GET = do_PUT = do_POST = do_DELETE = _serve

    def _answer(self, lxd: FakeLXD, target: t.Any, body: bytes) -> None:
        refusal = lxd.taken(lxd.refusals, self.command, target.path)
        failure = lxd.taken(lxd.failures, self.command, target.path)
        parts = [unquote(part) for part in target.path.split("/")[2:] if part]
        try:
            if refusal:
                raise Refusal(refusal[2], refusal[3])
            answer = lxd.serve(self.command, parts, parse_qs(target.query), self.headers, body, failure[2] if failure else "")
        except Refusal as error:
            self._send(error.code, {"type": "error", "error": str(error), "error_code": error.code})
            return
        if isinstance(answer, bytes):
            self._send(200, answer)
        elif isinstance(answer, dict) and "done" in answer:
            self._send(202, {"type": "async", "operation": f"/1.0/operations/{answer['id']}", "metadata": public(answer)})
        else:
            etag = lxd.etag(parts[1]) if parts[:1] == ["instances"] and len(parts) == 2 else ""
            self._send(200, {"type": "sync", "status_code": 200, "metadata": answer}, etag)

    def _send(self, status: int, content: t.Any, etag: str = "") -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        if etag:
            self.send_header("ETag", etag)
        self.end_headers()
        self.wfile.write(data)
