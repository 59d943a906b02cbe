# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The Infrastructure Manager on this machine, its client, and the stand-in for a cloud in which it makes machines."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from local import ROOT, Cluster

PYTHON = ROOT / ".cache/tosca-server"
COLLECTION = "/opt/deephdc-accelerators-0.1.0.tar.gz"
# Where the manager installs collections on a front end.
DEPENDENCIES = "/var/tmp/ansible/ansible_collections"
# Hosts of the scenario that are no machines of the cloud, and their names in it: an identity provider and a registry of images.
PROVIDER = "iam1"
BESIDE = {PROVIDER: "iam.site.test", "registry1": "registry.site.test"}
# Of the manager's user; a text that stands nowhere else, so that tests can look for it.
PASSWORD = "kept-from-users"
# Where the manager reads its settings: beside its package.
SETTINGS = next((PYTHON / "lib").glob("python*"), PYTHON) / "site-packages/im.cfg"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def reachable(port: int, seconds: float = 60, address: str = "127.0.0.1") -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((address, port), 1).close()
            return
        except OSError:
            assert time.monotonic() < deadline, f"nothing listens on {port} after {seconds} s"
            time.sleep(0.3)


def docker(*words: str) -> str:
    return subprocess.run(["docker", *words], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def leave(network: str, container: str) -> None:
    """Take a container out of a network, if it is in it."""
    words = ["docker", "network", "disconnect", "--force", network, container]
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


class Manager:
    """The manager with its cloud."""

    def __init__(self, cluster: Cluster, folder: Path, places: Sequence[str]) -> None:
        self.cluster, self.folder, self.places = cluster, folder, places
        self.port, self.cloud_port = free_port(), free_port()
        # Where a front end reaches the manager, as slurm_elastic's hook does: this machine on the scenario's network. The engine does not
        # always say which address of it the engine's own bridge has.
        self.address = docker("network", "inspect", f"deephdc-{cluster.label}", "--format", "{{(index .IPAM.Config 0).Gateway}}")
        self.url = f"http://{self.address}:{self.port}"
        self.server: subprocess.Popen[bytes] | None = None
        self.cloud: subprocess.Popen[bytes] | None = None
        self.images = {name: f"deephdc.accelerators/{cluster.label}:{name}" for name in ("image", "gpu-image")}
        self.snapshot = f"deephdc.accelerators/{cluster.label}:snapshot"
        self.auth = folder / "auth.dat"
        self.auth.touch(mode=0o600)
        self.auth.write_text(
            f"id = im; type = InfrastructureManager; username = test; password = {PASSWORD}\n"
            f"id = cloud; type = Docker; host = http://127.0.0.1:{self.cloud_port}\n",
            encoding="utf-8",
        )

    def make_images(self) -> None:
        """Make the images of the scenario's hosts, with the collection as it is now in that of a front end."""
        built = subprocess.run(
            [ROOT / "scripts/tarball", self.folder / "tarball"], check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT
        ).stdout.split()[-1]
        docker("cp", str(ROOT / built), f"{self.cluster.label}-image:{COLLECTION}")
        # The one of the manager's Ansible is too old. Galaxy, from where the manager would install a newer one, is out of reach.
        docker("exec", f"{self.cluster.label}-image", "mkdir", "--parents", DEPENDENCIES)
        docker("cp", str(ROOT / ".collections/ansible_collections/kubernetes"), f"{self.cluster.label}-image:{DEPENDENCIES}")
        for name, tag in self.images.items():
            # Each machine makes its own.
            docker("exec", f"{self.cluster.label}-{name}", "truncate", "--size=0", "/etc/machine-id")
            docker("commit", f"{self.cluster.label}-{name}", tag)

    def make_snapshot(self, host: str) -> str:
        """Make an image of a worker; returns its URL for the manager.

        SLURM waits for a node that booted after it was asked for. A container has its machine's boot time, so slurmd of the image says
        that it has just booted (-b), as the role slurm_node lets cloud nodes do; the worker itself, whose slurmd goes on, does not.
        """
        options, name = "/etc/default/slurmd", f"{self.cluster.label}-{host}"
        docker("exec", name, "sed", "-i.before", 's/^\\(SLURMD_OPTIONS=.*\\)"$/\\1 -b"/', options)
        docker("commit", name, self.snapshot)
        docker("exec", name, "mv", f"{options}.before", options)
        return f"docker://{self.snapshot}"

    def start_cloud(self) -> None:
        words = [sys.executable, str(ROOT / "tests/stand_ins/im_cloud.py"), str(self.cloud_port), self.cluster.label, *self.places]
        with (self.folder / "cloud.log").open("ab") as log:
            self.cloud = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        reachable(self.cloud_port)

    def start(self) -> None:
        settings = {
            "REST_ADDRESS": self.address,
            "REST_PORT": self.port,
            "DATA_DB": f"sqlite:///{self.folder}/infrastructures.db",
            "USER_DB": "",
            "LOG_FILE": self.folder / "im.log",
            "LOG_LEVEL": "DEBUG",
            "MAX_SIMULTANEOUS_LAUNCHES": 1,
            "MAX_VM_FAILS": 1,
            "WAIT_SSH_ACCCESS_TIMEOUT": 120,
            "MAX_CONTEXTUALIZATION_TIME": 1800,
            "ANSIBLE_INSTALL_TIMEOUT": 600,
            "PLAYBOOK_RETRIES": 1,
            "SSH_REVERSE_TUNNELS": False,
            # Seconds; the defaults are up to ten times as many.
            "CHECK_CTXT_PROCESS_INTERVAL": 2,
            "CONFMAMAGER_CHECK_STATE_INTERVAL": 1,
            "UPDATE_CTXT_LOG_INTERVAL": 3,
            "VM_INFO_UPDATE_FREQUENCY": 2,
        }
        SETTINGS.write_text("[im]\n" + "".join(f"{name} = {value}\n" for name, value in settings.items()), encoding="utf-8")
        # Molecule's settings of Ansible are not the manager's.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        environment |= {"PATH": f"{PYTHON}/bin:{os.environ['PATH']}", "ANSIBLE_HOST_KEY_CHECKING": "False"}
        with (self.folder / "server.log").open("ab") as log:
            self.server = subprocess.Popen(
                [PYTHON / "bin/im_service"], cwd=self.folder, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        reachable(self.port, address=self.address)

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the manager; by SIGKILL it can't write down where it was."""
        if self.server and self.server.poll() is None:
            self.server.send_signal(how)
            self.server.wait(60)

    def end_all(self) -> None:
        self.end()
        if self.cloud:
            self.cloud.kill()
            self.cloud.wait()

    def ask(self, *words: str, seconds: float = 300, succeeds: bool = True) -> str:
        """What the manager's client prints."""
        done = subprocess.run(
            [PYTHON / "bin/im_client", "-r", self.url, "-a", self.auth, *words],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert (done.returncode == 0) == succeeds, done.stdout[-6000:]
        return done.stdout

    def template(
        self,
        name: str,
        inputs: Mapping[str, Any],
        properties: Mapping[str, Mapping[str, Any]] | None = None,
        kinds: Mapping[str, str] | None = None,
        application: Mapping[str, Any] | None = None,
        gpu_images: Sequence[str] = (),
    ) -> Path:
        """A template as a user fills it in, with images of this cloud, and types and artifacts of the working tree.

        :param properties: further properties of nodes, which no input sets.
        :param kinds: other types of nodes.
        :param application: properties of the node of DEEPaaS, which is that of its template, on this cluster.
        :param gpu_images: further nodes whose machines have GPUs, beside those whose names begin with gpu_.
        """
        types = (ROOT / "tosca/types/deephdc.yaml").read_text(encoding="utf-8")
        path = self.folder / "types.yaml"
        path.write_text(types.replace("file: deephdc-accelerators-0.1.0.tar.gz", f"file: {COLLECTION}"), encoding="utf-8")
        template = yaml.safe_load((ROOT / f"tosca/templates/{name}.yaml").read_text(encoding="utf-8"))
        template["imports"] = [{"deephdc_types": str(path)}]
        template["repositories"]["deephdc_artifacts"]["url"] = f"file://{ROOT}/tosca/artifacts/"
        topology = template["topology_template"]
        if application:
            nodes = topology["node_templates"]
            there = yaml.safe_load((ROOT / "tosca/templates/deepaas.yaml").read_text(encoding="utf-8"))
            nodes["deepaas"] = there["topology_template"]["node_templates"]["deepaas"]
            hosts = {key: value for key, value in nodes["front_end"]["properties"].items() if key in ("wn_ips", "balancer_ips")}
            nodes["deepaas"]["properties"] = {**hosts, **application}
        for key, value in inputs.items():
            topology["inputs"][key]["default"] = value
        for node, one in topology["node_templates"].items():
            if one["type"] == "tosca.nodes.indigo.Compute":
                image = self.images["gpu-image" if node.startswith("gpu_") or node in gpu_images else "image"]
                one["capabilities"]["os"]["properties"]["image"] = f"docker://{image}"
            one.setdefault("properties", {}).update((properties or {}).get(node, {}))
            one["type"] = (kinds or {}).get(node, one["type"])
        made = self.folder / f"{name}.yaml"
        made.write_text(yaml.safe_dump(template, sort_keys=False), encoding="utf-8")
        return made

    def create(self, template: Path) -> str:
        said = self.ask("create", str(template))
        found = re.search(r"ID: ([0-9a-f-]{36})", said)
        assert found, said
        return found.group(1)

    def state(self, identifier: str) -> dict[str, Any]:
        return dict(json.loads(self.ask("-q", "getstate", identifier)))

    def wait(self, identifier: str, wanted: str = "configured", seconds: float = 1200) -> None:
        """Wait until the manager has done what it was asked for."""
        deadline = time.monotonic() + seconds
        while (seen := self.state(identifier)["state"]) in ("pending", "running"):
            assert time.monotonic() < deadline, f"still {seen} after {seconds} s: {self.log(identifier)[-4000:]}"
            time.sleep(2)
        assert seen == wanted, self.log(identifier)[-8000:]

    def log(self, identifier: str) -> str:
        """What a user reads of a deployment: the manager's messages, and those of each machine."""
        machines = sorted(self.state(identifier)["vm_states"])
        parts = [self.ask("getcontmsg", identifier), *(self.ask("getvmcontmsg", identifier, one) for one in machines)]
        return "\n".join(parts)

    def outputs(self, identifier: str) -> dict[str, Any]:
        return dict(json.loads(self.ask("-q", "getoutputs", identifier)))

    def machines(self) -> set[str]:
        """Names of the machines in the cloud."""
        names = docker("ps", "--all", "--filter", f"label=deephdc.accelerators={self.cluster.label}", "--format", "{{.Names}}").split()
        ours = {name.removeprefix(f"{self.cluster.label}-") for name in names}
        return ours - {*self.images, *BESIDE}

    def until_machines(self, wanted: set[str], seconds: float = 120) -> None:
        """Wait until these are the machines in the cloud."""
        deadline = time.monotonic() + seconds
        while (seen := self.machines()) != wanted:
            assert time.monotonic() < deadline, f"still {seen} after {seconds} s"
            time.sleep(1)

    def remove_all(self) -> None:
        """Remove what a killed run left in the cloud, and the images."""
        for name in self.machines():
            docker("rm", "--force", "--volumes", f"{self.cluster.label}-{name}")
        for network in docker(
            "network", "ls", "--filter", f"label=deephdc.accelerators={self.cluster.label}", "--format", "{{.Name}}"
        ).split():
            if network.startswith("im_"):
                for host in BESIDE:
                    leave(network, f"{self.cluster.label}-{host}")
                docker("network", "rm", network)
        for tag in (self.snapshot, *self.images.values()):
            subprocess.run(["docker", "image", "rm", "--force", tag], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


@contextlib.contextmanager
def others_reached(manager: Manager) -> Iterator[None]:
    """The machines of the cloud reach the identity provider and the registry, as those of a real one reach the internet."""
    label = manager.cluster.label
    networks: list[str] = []
    deadline = time.monotonic() + 120
    while not networks:
        # A new deployment has none yet.
        assert time.monotonic() < deadline, "the manager has made no network"
        time.sleep(0.5)
        listed = docker("network", "ls", "--filter", f"label=deephdc.accelerators={label}", "--format", "{{.Name}}").split()
        networks = [name for name in listed if name.startswith("im_")]
    there = docker("ps", "--filter", f"label=deephdc.accelerators={label}", "--format", "{{.Names}}").split()
    others = [(f"{label}-{host}", alias) for host, alias in BESIDE.items() if f"{label}-{host}" in there]
    try:
        for name in networks:
            for host, alias in others:
                docker("network", "connect", "--alias", alias, name, host)
        yield
    finally:
        # Else the manager could not remove them.
        for name in networks:
            for host, _alias in others:
                leave(name, host)


def token(manager: Manager, user: str, audience: str, *scopes: str) -> str:
    """A token that a user got by signing in at the provider."""
    words = ["python3", "/opt/test/login.py", "token", user, audience, *scopes]
    return docker("exec", "--env", "SSL_CERT_FILE=/etc/idp/ca.pem", f"{manager.cluster.label}-{PROVIDER}", *words)


def through_front(manager: Manager, front_end: str, server_name: str, path: str, token: str = "", body: str = "") -> tuple[int, str]:
    """Status and text of a POST to the front on a front end; without a token for a user who has none."""
    header = f'header = "Authorization: Bearer {token}"' if token else ""
    sent = f"--header 'Content-Type: application/json' --data '{body}'" if body else "--request POST"
    said = manager.cluster.out(
        front_end,
        f"curl --silent --max-time 60 --cacert /etc/deephdc/oidc_proxy/ca.pem --resolve {server_name}:443:127.0.0.1 {sent}"
        f" --write-out '\\n%{{http_code}}' --config - https://{server_name}{path} <<'X'\n{header}\nX",
    )
    text, _line, status = said.rpartition("\n")
    return int(status), text


@contextlib.contextmanager
def started(cluster: Cluster, *places: str) -> Iterator[Manager]:
    """A manager with an empty cloud, whose images have the collection as it is now.

    :param places: volumes of the machines, as the stand-in for a cloud takes them.
    """
    # Beside the hosts' state, where it can be read after a failure.
    folder = cluster.state / "manager"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    made = Manager(cluster, folder, places)
    made.remove_all()
    made.make_images()
    made.start_cloud()
    try:
        made.start()
        yield made
    finally:
        made.end_all()
        made.remove_all()


@pytest.fixture(scope="session")
def manager(cluster: Cluster) -> Iterator[Manager]:
    with started(cluster) as made:
        yield made
