# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The hook by which SLURM asks the Infrastructure Manager for nodes, given what the manager answers."""

from __future__ import annotations

import importlib.util
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

HOOK = Path(__file__).resolve().parents[3] / "roles/tosca_site/files/tosca_elastic.py"
# As the manager describes a machine: one of the template's, which has the host name of a node, and one of a node.
TEMPLATES = "system wn_server (\nnet_interface.0.dns_name = 'cloud2'\n)"
NODES = "system cloud1 (\ncpu.count = 2 and\nnet_interface.0.dns_name = 'cloud1'\n)"


class Manager(BaseHTTPRequestHandler):
    asked: ClassVar[list[tuple[str, str, str]]] = []
    refuses: ClassVar[tuple[int, str] | None] = None

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self.asked.append((self.command, self.path, body))
        path = self.path.partition("?")[0]
        texts = {"/infrastructures/f3": f"http://here{path}/vms/0\nhttp://here{path}/vms/4"}
        texts |= {"/infrastructures/f3/vms/0": TEMPLATES, "/infrastructures/f3/vms/4": NODES}
        status, text = self.refuses if self.refuses and self.command != "GET" else (200, texts.get(path, ""))
        if self.headers["Authorization"] != "id = im; type = InfrastructureManager\\nid = cloud; password = secret":
            status, text = 401, "no"
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_arguments: object) -> None:
        pass

    do_GET = do_POST = do_DELETE = answer


@pytest.fixture
def manager():
    Manager.asked, Manager.refuses = [], None
    server = ThreadingHTTPServer(("127.0.0.1", 0), Manager)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def hook(manager, tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location(HOOK.stem, HOOK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    config = {
        "manager": f"http://127.0.0.1:{manager.server_port}/",
        "infrastructure": "f3",
        "access": "# mine\nid = im; type = InfrastructureManager\n\nid = cloud; password = secret\n",
        "image": "docker://site/node:1",
        "network": "priv_network",
        "cpus": 2,
        "memory_mib": 4096,
        "gpus": 1,
    }
    monkeypatch.setattr(module, "CONFIG", str(tmp_path / "config.json"))

    def write(**changes):
        (tmp_path / "config.json").write_text(json.dumps({**config, **changes}), encoding="utf-8")

    write()
    module.write = write
    return module


def changes():
    return [one for one in Manager.asked if one[0] != "GET"]


def test_nodes_that_have_no_machine_get_one(hook) -> None:
    assert hook.main("resume", ["cloud1", "cloud2", "cloud3"]) == 0
    ((method, path, body),) = changes()
    # The manager must not configure them: they boot as nodes.
    assert (method, path) == ("POST", "/infrastructures/f3?context=false")
    assert "deploy cloud2 1\ndeploy cloud3 1" in body and "cloud1" not in body
    for wanted in ("network priv_network\n", "gpu.count >= 1", "cpu.count >= 2", "memory.size >= 4096M", "'docker://site/node:1'"):
        assert wanted in body


def test_a_node_without_gpus_asks_for_none(hook) -> None:
    hook.write(gpus=0)
    hook.main("resume", ["cloud3"])
    assert "gpu" not in changes()[0][2]


def test_a_node_that_is_there_is_right(hook) -> None:
    assert hook.main("resume", ["cloud1"]) == 0 and changes() == []


@pytest.mark.parametrize("action", ["suspend", "fail"])
def test_machines_of_nodes_go_and_no_others(hook, action: str) -> None:
    """cloud2 is the name of a machine that the template made, cloud3 is not there."""
    assert hook.main(action, ["cloud1", "cloud2", "cloud3"]) == 0
    assert changes() == [("DELETE", "/infrastructures/f3/vms/4?context=false", "")]
    Manager.asked = []
    assert hook.main(action, ["cloud2", "cloud3"]) == 0 and changes() == []


def test_what_the_manager_says_is_one_line(hook, capsys) -> None:
    Manager.refuses = (400, "<html><body>Error Adding resources:\n no GPUs left</body></html>")
    assert hook.main("resume", ["cloud3"]) == 1
    assert capsys.readouterr().out == "the manager refuses: Error Adding resources: no GPUs left\n"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"manager": "http://127.0.0.1:1"}, "the manager at http://127.0.0.1:1 does not answer: "),
        ({"access": "id = im; password = wrong"}, "the manager refuses the access in cloud_access_secret of the template"),
        ({"image": "docker://x' and"}, "has a character that the manager can't read"),
    ],
)
def test_trouble_is_a_sentence_without_the_secret(hook, settings, words: str, capsys) -> None:
    hook.write(**settings)
    assert hook.main("resume", ["cloud3"]) == 1
    said = capsys.readouterr().out
    assert words in said and said.count("\n") == 1 and "secret\n" not in said and "wrong" not in said


def test_a_missing_configuration(hook, tmp_path, capsys) -> None:
    (tmp_path / "config.json").unlink()
    assert hook.main("resume", ["cloud3"]) == 1
    assert "can't be read" in capsys.readouterr().out
