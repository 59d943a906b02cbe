# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Mesos' own master and agent, as PyPI's mesos.scheduler holds them, in one process in a container."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GOLDEN = ROOT / "tests/golden/mesos_everything"
IMAGE = "trixie+g++,libcurl3t64-gnutls,libsasl2-modules,libsvn1,python3-minimal"
NAME, FILE, MEMBER = "mesos-scheduler", "mesos.scheduler-1.11.0.linux-x86_64.tar.gz", "mesos/scheduler/_scheduler.so"
SHA256 = "1d376f20bca6d05ee8b90c1c123a452b28753497ccc2f1c80ea3ac94c12e8f6e"
KEPT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deephdc.accelerators/mesos"
PORT = 15050
BUILD = """
mkdir -p /build && cd /build && mv /tmp/_scheduler.so .
python3 /tmp/shims.py _scheduler.so .
g++ -O1 -Wall -Wno-misleading-indentation -rdynamic -o launcher /tmp/launcher.cpp -ldl
"""
# What one process without ZooKeeper, TLS and the programs that run tasks can't have as the roles write it.
LEFT_OUT = (
    *(
        "MESOS_ZK",
        "MESOS_QUORUM",
        "MESOS_MASTER",
        "MESOS_WEBUI_DIR",
        "MESOS_LAUNCHER_DIR",
        "MESOS_IMAGE_PROVIDERS",
        "MESOS_PORT",
        "MESOS_IP",
    ),
    *("MESOS_SYSTEMD_ENABLE_SUPPORT", "MESOS_NVIDIA_GPU_DEVICES", "MESOS_JWT_SECRET_KEY", "MESOS_AUTHENTICATE_HTTP_EXECUTORS"),
    *("MESOS_HTTP_EXECUTOR_DOMAIN_SOCKETS", "MESOS_EFFECTIVE_CAPABILITIES", "MESOS_BOUNDING_CAPABILITIES", "MESOS_ALLOWED_DEVICES"),
)
INSTEAD = {
    "MESOS_LAUNCHER": "posix",
    "MESOS_ISOLATION": "posix/cpu,posix/mem",
    "MESOS_WORK_DIR": "/srv/mesos",
    "MESOS_RUNTIME_DIR": "/run/mesos",
    "LIBPROCESS_PORT": str(PORT),
}


def docker(*words: str, given: bytes | None = None) -> str:
    done = subprocess.run(["docker", *words], input=given, capture_output=True, check=False)
    assert done.returncode == 0, f"docker {' '.join(words)}: {done.stderr.decode(errors='replace')[-2000:]}"
    return done.stdout.decode(errors="replace").strip()


def index() -> str:
    """Address of the package index that pip uses on this machine."""
    script = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    asked = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    own = os.environ.get("PIP_INDEX_URL") or subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return own or subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def archive() -> bytes:
    """Return the file of PyPI, which pip itself does not fetch: it is neither a wheel nor a source, and has an old version number.

    It is kept on this machine.
    """
    kept = KEPT / FILE
    if not kept.exists():
        page = f"{index().rstrip('/')}/{NAME}/"
        wanted = urllib.request.Request(page, headers={"Accept": "application/vnd.pypi.simple.v1+json"})
        with urllib.request.urlopen(wanted, timeout=60) as answer:
            url = next(file["url"] for file in json.load(answer)["files"] if file["filename"] == FILE)
        with urllib.request.urlopen(urllib.parse.urljoin(page, url), timeout=300) as answer:
            content = answer.read()
        kept.parent.mkdir(parents=True, exist_ok=True)
        new = kept.with_suffix(f".{os.getpid()}")
        new.write_bytes(content)
        new.rename(kept)
    content = kept.read_bytes()
    assert hashlib.sha256(content).hexdigest() == SHA256, f"{kept} is not the file that is known: remove it"
    return content


def sources() -> bytes:
    """A tar archive of the library, and of what makes it run today."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as made, tarfile.open(fileobj=io.BytesIO(archive())) as given:
        member = next(one for one in given if one.name.endswith(MEMBER))
        library = given.extractfile(member)
        assert library
        member.name = "_scheduler.so"
        made.addfile(member, library)
        for name in ("shims.py", "launcher.cpp"):
            made.add(HERE / name, name)
    return packed.getvalue()


def environment_of(file: Path) -> dict[str, str]:
    """What the roles write as the environment of a program, out of the golden configuration."""
    pairs = (line.partition("=") for line in file.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#"))
    return {name: value.strip("'") for name, _equals, value in pairs}


def settings() -> dict[str, str]:
    """The environment of both programs, as far as one process can have it."""
    both: dict[str, str] = {}
    for path in ("m1/etc/default/mesos-master", "gpu1/etc/default/mesos-agent"):
        both |= environment_of(GOLDEN / path)
    kept = {name: value for name, value in both.items() if not name.startswith("LIBPROCESS_") and name not in LEFT_OUT}
    # The gpu/nvidia isolator wants a driver.
    kept["MESOS_RESOURCES"] = ";".join(one for one in kept["MESOS_RESOURCES"].split(";") if not one.startswith("gpus:"))
    return {**kept, **INSTEAD}


def secret(principal: str) -> str:
    credentials = json.loads((GOLDEN / "m1/etc/mesos/credentials.json").read_text(encoding="utf-8"))["credentials"]
    return str(next(one["secret"] for one in credentials if one["principal"] == principal))


class Mesos:
    """A container with the programs, and the process in it."""

    def __init__(self, name: str, label: str, image: str) -> None:
        self.name = name
        docker("run", "--detach", "--name", name, "--label", label, "--cap-add", "SYS_ADMIN", "--entrypoint", "sleep", image, "infinity")
        docker("cp", "-", f"{name}:/tmp", given=sources())
        self.run(BUILD)
        self.address = docker("inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", name)
        self.run("mkdir /etc/mesos")
        for host in ("gpu1", "m1"):
            docker("cp", f"{GOLDEN}/{host}/etc/mesos/.", f"{name}:/etc/mesos")

    def run(self, script: str) -> str:
        return docker("exec", "--interactive", self.name, "bash", "-euo", "pipefail", given=script.encode())

    def flags(self, program: str) -> str:
        """What --help of mesos-master (master) or mesos-agent (slave) prints."""
        return self.run(f"LD_LIBRARY_PATH=/build /build/launcher /build/_scheduler.so {program}")

    def start(
        self, changed: Mapping[str, str | None] | None = None, principal: str = "marathon", password: str | None = None, disk: str = "20g"
    ) -> None:
        """Start both, with what the roles write but for what is changed, on what is left of the last time.

        :arg changed: None takes a variable out. disk: size of the file system of their folder.
        """
        self.stop()
        given: dict[str, str | None] = {**settings(), "LIBPROCESS_IP": self.address, **(changed or {})}
        given |= {"PRINCIPAL": principal, "SECRET": secret(principal) if password is None else password, "LD_LIBRARY_PATH": "/build"}
        lines = "".join(f"export {name}={json.dumps(value)}\n" for name, value in given.items() if value is not None)
        self.run(
            f"mkdir -p /srv/mesos; mountpoint -q /srv/mesos || mount -t tmpfs tmpfs /srv/mesos\n"
            f"mount -o remount,size={disk} /srv/mesos\n{lines}"
            "setsid /build/launcher /build/_scheduler.so >/tmp/log 2>&1 </dev/null & echo $! >/tmp/pid"
        )

    def stop(self) -> None:
        self.run("if [ -e /tmp/pid ]; then kill -KILL $(cat /tmp/pid) 2>/dev/null || true; rm /tmp/pid; sleep 0.2; fi")

    def forget(self) -> None:
        """The next start is the first one."""
        self.stop()
        self.run("if mountpoint -q /srv/mesos; then umount /srv/mesos; fi")

    def log(self) -> str:
        return self.run("cat /tmp/log")

    def until(self, *sentences: str, seconds: float = 60) -> str:
        """Wait until the log has one of these texts, and return which."""
        deadline = time.monotonic() + seconds
        while True:
            log = self.log()
            found = [one for one in sentences if one in log]
            if found:
                return found[0]
            assert time.monotonic() < deadline, f"none of {sentences} in {seconds} s:\n{log[-6000:]}"
            time.sleep(0.3)

    def ask(self, method: str, path: str, body: Any = None, principal: str = "operator", password: str | None = None) -> tuple[int, str]:
        """The code and the text of an answer of the master or the agent."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if principal:
            key = f"{principal}:{secret(principal) if password is None else password}"
            headers["Authorization"] = "Basic " + base64.b64encode(key.encode()).decode()
        data = None if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        wanted = urllib.request.Request(f"http://{self.address}:{PORT}{path}", data, headers, method=method)
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(wanted, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def agents(self) -> list[dict[str, Any]]:
        """The agents that the master has, once there is one."""
        return list(self.wait(lambda: json.loads(self.ask("GET", "/master/slaves")[1])["slaves"]))

    def wait(self, look: Callable[[], Any], seconds: float = 60) -> Any:
        deadline = time.monotonic() + seconds
        while True:
            try:
                found = look()
            except (OSError, ValueError):
                found = None
            if found:
                return found
            assert time.monotonic() < deadline, f"not in {seconds} s:\n{self.log()[-6000:]}"
            time.sleep(0.3)
