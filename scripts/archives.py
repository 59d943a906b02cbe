"""Find in a log how a package client says that its archive gave no answer.

A defect of ours may also name a host that does not resolve, or a service of a test may not answer. So these are apt's, npm's, Go's and
pip's own words, and those of the first three must be about an archive or proxy that this machine uses.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from contextlib import suppress
from functools import cache
from urllib.parse import urlsplit

CONNECT = r"(?:Could not|Unable to|Cannot initiate the) connect|[Tt]emporary failure resolving|Could not resolve"
APT = rf"(?:[EW]: ?|Err:\d+ |fetch).*(?:{CONNECT}|Connection (?:timed out|failed)|closed connection|50[234]  )|^ +(?:{CONNECT}) "
NPM = r"npm (?:error|ERR!).*(?:failed, reason|ETIMEDOUT|ECONNRE|EAI_AGAIN|ENOTFOUND)"
GO = r"\"?https?://\S+: (?:dial tcp|read tcp|net/http: TLS|unexpected EOF|EOF|50[234] |context deadline)"
OF_AN_ARCHIVE = re.compile(f"{APT}|{NPM}|{GO}")
OF_PIP = re.compile(
    r"Retrying \(Retry\(total=0|ERROR: Could not install packages due to an OSError: HTTPS?ConnectionPool|"
    r"pip\._vendor\.urllib3\.exceptions\.\w+(?:Timeout|Connection|Protocol)\w*Error|pip\._internal\.exceptions\.NetworkConnectionError"
)
ASK = (("apt-get", "indextargets", "--format", "$(REPO_URI)"), ("npm", "config", "get", "registry"), ("go", "env", "GOPROXY"))


def answers(line: str) -> bool:
    """Return whether this machine reaches the archive of a line that says no."""
    if OF_PIP.search(line):
        words = (sys.executable, "-m", "pip", "index", "versions", "pip", "--retries", "0", "--timeout", "10")
        return subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0
    for host in (host for host in hosts() if host in line):
        for port in (443, 80):
            with suppress(OSError), socket.create_connection((host, port), timeout=10):
                return True
    return False


@cache
def hosts() -> frozenset[str]:
    """Return the hosts of the archives and proxies that this machine's clients use."""
    found = [os.environ.get(f"{scheme}_proxy", "") for scheme in ("http", "https")]
    for command in ASK:
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=30, check=False)
            found += re.split(r"[\s,|]+", done.stdout)
        except (OSError, subprocess.TimeoutExpired):  # a client that is not installed
            continue
    return frozenset(name for name in (urlsplit(one).hostname for one in found) if name)


def unanswered(log: str, of: frozenset[str] | None = None) -> str:
    """Return the line that says so, or nothing. ``of``: other archives' hosts."""
    for line in re.split(r"\n|\\n", log):  # Ansible prints several lines as one
        if OF_PIP.search(line):
            return line.strip()[:300]
        if OF_AN_ARCHIVE.search(line) and any(host in line for host in (hosts() if of is None else of)):
            return line.strip()[:300]
    return ""
