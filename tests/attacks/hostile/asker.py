"""An honest user on another host: asks again and again, on separate connections, and writes down how long each answer took.

usage: asker.py SECONDS < TOKEN      each line of the output: when it was asked, seconds until the answer, status (0: none)
"""

from __future__ import annotations

import http.client
import ssl
import sys
import threading
import time

HOST = "front.site.test"
TRUST = ssl.create_default_context()


def ask(token: str) -> None:
    begun, status = time.time(), 0
    connection = http.client.HTTPSConnection(HOST, timeout=20, context=TRUST)
    try:
        connection.request("GET", "/api/?a=asker~", headers={"Authorization": f"Bearer {token}"})
        status = connection.getresponse().status
    except OSError:
        pass
    connection.close()
    print(begun, time.time() - begun, status, flush=True)


if __name__ == "__main__":
    token, end = sys.stdin.read().strip(), time.time() + float(sys.argv[1])
    while time.time() < end:
        threading.Thread(target=ask, args=(token,)).start()
        time.sleep(0.4)
