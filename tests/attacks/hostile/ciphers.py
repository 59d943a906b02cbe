"""Versions and ciphers of TLS that a front must refuse, and those that it must take.

usage: ciphers.py FRONT CLASS      the last line is as hostile.py's; CLASS is ciphers
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

HERE = Path(__file__).parent


def agreed(host: str, options: str) -> str:
    """Version and cipher that both sides agreed on; empty if they did not."""
    words = ["openssl", "s_client", "-connect", f"{host}:443", "-CAfile", "/etc/ssl/certs/ca-certificates.crt", *options.split()]
    if "-servername" not in words:
        words += ["-servername", host]
    done = subprocess.run(words, input="", capture_output=True, text=True, timeout=30, check=False)
    found = re.search(r"^New, (\S+), Cipher is (\S+)", done.stdout, re.MULTILINE)
    return f"{found[1]} {found[2]}" if found and "(NONE)" not in found[0] else ""


def known(cipher: str) -> bool:
    """Whether this machine's library has it at all; what it can't offer is no attack."""
    words = ["openssl", "ciphers", "-s", "-tls1_2", f"{cipher}:@SECLEVEL=0"]
    return bool(subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip())


def main() -> None:
    host = {"front": "front.site.test", "naive": "naive.site.test"}[sys.argv[1]]
    data = yaml.safe_load((HERE / "ciphers.yml").read_text(encoding="utf-8"))
    refused = [f"{version} -cipher ALL:@SECLEVEL=0" for version in data["refused"]["versions"]]
    refused += [f"-tls1_2 -cipher {cipher}:@SECLEVEL=0" for cipher in data["refused"]["ciphers"] if known(cipher)]
    result: dict[str, t.Any] = {"attacks": len(refused), "must_pass": len(data["passes"]), "let_in": [], "turned_away": []}
    with ThreadPoolExecutor(4) as pool:
        for options, cipher in zip(refused, pool.map(lambda one: agreed(host, one), refused)):
            if cipher:
                result["let_in"].append({"id": options, "door": "tls", "reason": cipher})
        for options, cipher in zip(data["passes"], pool.map(lambda one: agreed(host, one), data["passes"])):
            if not cipher:
                result["turned_away"].append({"id": options, "door": "tls", "reason": "refused"})
    print(json.dumps(result))


if __name__ == "__main__":
    main()
