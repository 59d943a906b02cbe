"""Stands in for what a site has behind the front: writes down each request that reaches it, byte by byte, and answers.

usage: recorder.py PORT CONTROL_PORT

On PORT any path is answered with a page or JSON that names the user whom the front passed on; these answer in their own way:
  .../events   server-sent events, one each half second
  .../ws       a websocket that says back what it hears
  .../slow/N   after N seconds
On CONTROL_PORT: GET /records (JSON list of {"head", "body"}, in latin-1) and DELETE /records.
A bare carriage return ends a header line here, as for some servers: what relies on it is seen as a separate header.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import sys

RECORDS: list[dict[str, str]] = []
BODY_KEPT = 65536


def headers_of(head: str) -> dict[str, str]:
    found = {}
    for line in re.split(r"\r\n|\r|\n", head)[1:]:
        name, colon, value = line.partition(":")
        if colon:
            found[name.strip().lower()] = value.strip()
    return found


async def body_of(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = b""
        while size := int((await reader.readline()).split(b";")[0], 16):
            body += (await reader.readexactly(size + 2))[:-2]
        while (await reader.readline()).strip():  # trailers
            pass
        return body
    return await reader.readexactly(int(headers.get("content-length") or 0))


async def events(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
    for number in range(4):
        writer.write(b"data: %d\n\n" % number)
        await writer.drain()
        await asyncio.sleep(0.5)


async def websocket(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str) -> None:
    accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n" % accept
    )
    while True:
        first, size = await reader.readexactly(2)
        mask = await reader.readexactly(4)
        text = bytes(byte ^ mask[at % 4] for at, byte in enumerate(await reader.readexactly(size & 127)))
        if first & 15 == 8:
            return
        writer.write(bytes([129, len(text)]) + text)
        await writer.drain()


def page(path: str, headers: dict[str, str]) -> tuple[str, bytes]:
    user = headers.get("x-remote-user", "")
    if "text/html" in headers.get("accept", ""):
        text = f'<!doctype html><html lang="en"><title>Jobs</title><h1>Jobs of <span id="user">{user}</span></h1><p>{path}</p></html>'
        return "text/html", text.encode()
    return "application/json", json.dumps({"user": user, "path": path}).encode()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            raw = await reader.readuntil(b"\r\n\r\n")
            head = raw.decode("latin-1").removesuffix("\r\n\r\n")
            headers = headers_of(head)
            method, path = [*head.split(" ", 2), "", ""][:2]
            record = {"head": head, "body": ""}
            RECORDS.append(record)
            if headers.get("expect", "").lower() == "100-continue":
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            record["body"] = (await body_of(reader, headers))[:BODY_KEPT].decode("latin-1")
            if path.endswith("/events"):
                return await events(writer)
            if path.endswith("/ws") and headers.get("upgrade", "").lower() == "websocket":
                return await websocket(reader, writer, headers.get("sec-websocket-key", ""))
            if slow := re.search(r"/slow/([0-9.]+)$", path):
                await asyncio.sleep(float(slow[1]))
            kind, content = page(path, headers)
            body = b"" if method == "HEAD" else content
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (kind.encode(), len(content), body))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError, ValueError):
        pass
    finally:
        writer.close()


async def control(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            content = json.dumps(RECORDS).encode()
            if head.startswith(b"DELETE"):
                RECORDS.clear()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main() -> None:
    application = await asyncio.start_server(serve, "0.0.0.0", int(sys.argv[1]), limit=2**20)
    controls = await asyncio.start_server(control, "0.0.0.0", int(sys.argv[2]))
    await asyncio.gather(application.serve_forever(), controls.serve_forever())


if __name__ == "__main__":
    asyncio.run(main())
