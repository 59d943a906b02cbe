# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The program that publishes a Mesos cluster, given what the leading master says.

Names of fields: apache/mesos 1.11.0 src/master/readonly_handler.cpp (SlaveWriter, FullFrameworkWriter) and src/common/http.cpp (Task).
"""

from __future__ import annotations

import http.server
import importlib
import json
import pathlib
import re
import sys
import threading
import typing as t
import urllib.request

import pytest

FILES = pathlib.Path(__file__).resolve().parents[3] / "roles/mesos_information/files"
SERVICE = "urn:mesos:site"
SECRET = "a-secret-of-the-operator"


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(FILES))
    yield importlib.import_module("mesos_information")
    sys.modules.pop("mesos_information", None)


def agent(number: int, gpus: int, used: int, attributes: dict[str, t.Any], **more: t.Any) -> dict[str, t.Any]:
    return {
        "id": f"S{number}",
        "hostname": f"gpu{number}",
        "port": 5051,
        "attributes": attributes,
        "resources": {"cpus": 8.0, "gpus": float(gpus), "mem": 16384.0, "disk": 1000.0, "ports": "[31000-32000]"},
        "used_resources": {"cpus": 1.5, "gpus": float(used), "mem": 512.0, "disk": 0.0},
        "active": True,
        "deactivated": False,
        "version": "1.11.0",
        **more,
    }


def task(number: int, where: int, state: str, gpus: float = 0) -> dict[str, t.Any]:
    resources = {"cpus": 0.5, "gpus": gpus, "mem": 128.0}
    return {"id": f"task-{number}", "name": "private-name", "slave_id": f"S{where}", "state": state, "resources": resources}


A100 = {"gpus_a100": 2, "gpu_vendor": "nvidia", "gpu_model": "NVIDIA_A100"}
STATE = {
    "version": "1.11.0",
    "slaves": [
        agent(2, 1, 0, {"gpus_t4": 1, "gpu_vendor": "nvidia"}, active=False, deactivated=True, drain_info={"state": "DRAINED"}),
        agent(1, 2, 1, A100),
        agent(3, 0, 0, {}, active=False),
    ],
    "frameworks": [
        {
            "name": "marathon",
            "active": True,
            "webui_url": "https://m1:8443",
            "tasks": [task(1, 1, "TASK_RUNNING", 1.0), task(2, 1, "TASK_STAGING"), task(3, 1, "TASK_KILLING")],
            "unreachable_tasks": [task(4, 9, "TASK_UNREACHABLE", 1.0)],
        },
        {"name": "chronos", "active": False, "webui_url": "", "tasks": [], "unreachable_tasks": []},
    ],
}


@pytest.fixture
def seen(program):
    return {"time": 0, "up": True, "error": "", "cluster": "site", **program.status_of(STATE)}


def test_agents(seen) -> None:
    gpu1, gpu2, gpu3 = seen["nodes"]
    assert (gpu1["state"], gpu1["usable"], gpu1["cpus"], gpu1["memory_mib"]) == (
        "active",
        True,
        {"total": 8, "used": 1.5},
        {"total": 16384, "used": 512},
    )
    assert [(one["type"], one["vendor"], one["total"], one["used"], one["free"]) for one in gpu1["gres"]] == [("a100", "NVIDIA", 2, 1, 1)]
    assert (gpu2["state"], gpu2["flags"], gpu2["usable"], gpu2["gres"][0]["free"]) == ("deactivated", ["deactivated", "drained"], False, 0)
    assert (gpu3["state"], gpu3["gres"]) == ("disconnected", [])


def test_an_agent_with_several_types_names_them(program) -> None:
    """Mesos does not say which of them a task has."""
    assert program.type_of({"attributes": {"gpus_t4": 1, "gpus_a100": 2, "rack": "r1"}}) == "a100+t4"
    assert program.type_of({}) == ""


def test_tasks_by_framework_and_state(seen) -> None:
    counts = {(one["account"], one["state"]): (one["count"], one["cpus"], dict(one["gpus"])) for one in seen["tasks"]}
    assert counts == {
        ("marathon", "running"): (2, 1.0, {"a100": 1}),
        ("marathon", "pending"): (1, 0.5, {}),
        ("marathon", "unreachable"): (1, 0.5, {"": 1}),
    }


def test_metrics(program, seen) -> None:
    text = program.metrics(seen)
    for line in (
        "mesos_up 1",
        'mesos_info{cluster="site",version="1.11.0"} 1',
        'mesos_framework_active{framework="chronos"} 0',
        'mesos_node_usable{node="gpu2",state="deactivated"} 0',
        'mesos_node_gres{gres="gpu",node="gpu1",type="a100"} 2',
        'mesos_node_gres_allocated{gres="gpu",node="gpu1",type="a100"} 1',
        'mesos_account_tasks{account="marathon",state="unreachable"} 1',
        'mesos_account_gpus_allocated{account="marathon",type="a100"} 1',
    ):
        assert f"{line}\n" in text
    families = re.findall(r"^# TYPE (\S+) gauge$", text, re.MULTILINE)
    assert len(families) == len(set(families)) > 10
    samples = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(samples) == len(set(samples)), "each sample once"


def test_glue2(program, seen) -> None:
    document = program.glue2(seen, SERVICE, "site.example")
    (service,) = document["ComputingService"]
    assert (service["Type"], service["TotalJobs"], service["RunningJobs"], service["WaitingJobs"]) == ("eu.indigo-datacloud.mesos", 3, 2, 1)
    (manager,) = document["ComputingManager"]
    assert (manager["TotalAcceleratorSlots"], manager["UsedAcceleratorSlots"], manager["ProductVersion"]) == (3, 1, "1.11.0")
    a100, t4 = document["AcceleratorEnvironment"]
    assert (a100["Name"], a100["Vendor"], a100["Model"], a100["LogicalAccelerators"]) == ("a100", "NVIDIA", "NVIDIA_A100", 2)
    assert a100["OtherInfo"] == ["TotalAccelerators=2", "UsedAccelerators=1", "FreeAccelerators=1"]
    assert t4["OtherInfo"] == ["TotalAccelerators=1", "UsedAccelerators=0", "FreeAccelerators=0"]
    assert sum(one["UnavailableInstances"] for one in document["ExecutionEnvironment"]) == 2
    marathon = next(one for one in document["ComputingShare"] if one["Name"] == "marathon")
    assert (marathon["RunningJobs"], marathon["UsedAcceleratorSlots"], marathon["FreeAcceleratorSlots"]) == (2, 1, 1)
    assert all("CreationTime" in one for members in document.values() for one in members)


def test_records_of_a_cmdb(program, seen) -> None:
    records = {record["_id"]: record for record in program.cmdb(seen, SERVICE, "site.example")}
    assert records[SERVICE]["data"] == {"service_type": "eu.indigo-datacloud.mesos", "name": "site", "sitename": "site.example"}
    marathon = records[f"{SERVICE}:marathon"]["data"]
    assert (marathon["service_type"], marathon["endpoint"]) == ("eu.indigo-datacloud.marathon", "https://m1:8443")
    flavor = records[f"{SERVICE}:a100"]["data"]
    assert (flavor["num_gpus"], flavor["gpu_vendor"], flavor["total_gpus"], flavor["used_gpus"], flavor["free_gpus"]) == (
        2,
        "NVIDIA",
        2,
        1,
        1,
    )
    assert records[f"{SERVICE}:gpu2:t4"]["data"]["free_gpus"] == 0


def test_names_of_tasks_are_not_published(program, seen) -> None:
    for text in (program.metrics(seen), json.dumps(program.glue2(seen, SERVICE, "")), json.dumps(program.cmdb(seen, SERVICE, ""))):
        assert "private-name" not in text and "task-1" not in text


@pytest.fixture
def master(tmp_path):
    """Two masters, of which the second leads; the environment of the first, and what was asked."""
    asked: list[tuple[str, str]] = []

    class Leading(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("Authorization", "")))
            body = json.dumps(STATE).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: t.Any) -> None:
            pass

    class Standby(Leading):
        def do_GET(self) -> None:
            self.send_response(307)
            self.send_header("Location", f"//127.0.0.1:{leading.server_port}{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()

    leading = http.server.HTTPServer(("127.0.0.1", 0), Leading)
    standby = http.server.HTTPServer(("127.0.0.1", 0), Standby)
    for server in (leading, standby):
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    (tmp_path / "credentials").write_text(json.dumps({"credentials": [{"principal": "operator", "secret": SECRET}]}), encoding="utf-8")
    yield {"MESOS_HOSTNAME": "127.0.0.1", "MESOS_PORT": str(standby.server_port)}, asked
    for server in (leading, standby):
        server.shutdown()
        server.server_close()


class Stays(urllib.request.HTTPRedirectHandler):
    """Follows nowhere."""

    def redirect_request(self, *_arguments: t.Any) -> None:
        return None


@pytest.mark.parametrize("handlers", [[], [Stays], [urllib.request.ProxyHandler({"http": "http://127.0.0.1:1"})]])
def test_any_master_may_be_asked(program, master, tmp_path, monkeypatch, handlers) -> None:
    """Also where something else in the process set what all of urllib uses, as ansible.module_utils.urls does."""
    monkeypatch.setattr(urllib.request, "_opener", urllib.request.build_opener(*handlers))
    environment, asked = master
    seen = program.status(str(tmp_path / "credentials"), "", "site", environment)
    assert seen["up"], seen["error"]
    assert [one["name"] for one in seen["nodes"]] == ["gpu1", "gpu2", "gpu3"]
    ((path, word),) = asked
    assert path == "/state" and word.startswith("Basic ")


def test_a_cluster_without_a_leader(program, monkeypatch, tmp_path) -> None:
    """Nothing is known then, and nothing is published as zero; former records stay."""
    monkeypatch.setenv("MESOS_HOSTNAME", "127.0.0.1")
    monkeypatch.setenv("MESOS_PORT", "1")
    (tmp_path / "credentials").write_text(json.dumps({"credentials": [{"principal": "operator", "secret": SECRET}]}), encoding="utf-8")
    (tmp_path / "cmdb.json").write_text("former", encoding="utf-8")
    sentence = program.main(str(tmp_path / "credentials"), "", str(tmp_path), "site", SERVICE)
    assert "http://127.0.0.1:1/state" in sentence and SECRET not in sentence
    text = (tmp_path / "mesos_metrics.prom").read_text(encoding="utf-8")
    assert "mesos_up 0\n" in text and "mesos_node" not in text
    assert json.loads((tmp_path / "glue2.json").read_text(encoding="utf-8"))["ComputingEndpoint"][0]["ServingState"] == "closed"
    assert (tmp_path / "cmdb.json").read_text(encoding="utf-8") == "former"


@pytest.mark.parametrize("content", ["operator secret", "{}", '{"credentials": [{"principal": "agents", "secret": "x"}]}'])
def test_a_file_of_credentials_without_the_principal(program, tmp_path, content) -> None:
    (tmp_path / "credentials").write_text(content, encoding="utf-8")
    with pytest.raises(program.Unreadable, match="has no principal operator"):
        program.secret_of(str(tmp_path / "credentials"))
