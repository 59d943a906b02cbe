# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Stands in for mesos-agent 1.11.0: its flags and refusals, its identity, tasks with devices of their own."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import access
import resources as amounts
from agent_web import AgentWeb
from keeper import Keeper, mesos_leader, place
from options import Refused, Values, is_set, mesos, seconds
from tasks import Task, hierarchy
from web import Failure, call, libprocess, serve

INCOMPATIBLE = """Failed to perform recovery: Incompatible agent info detected.
------------------------------------------------------------
Old agent info:
{old}
------------------------------------------------------------
New agent info:
{new}
------------------------------------------------------------
If recovery failed due to a change in configuration and you want to
keep the current agent id, you might want to change the
`--reconfiguration_policy` flag to a more permissive value.

To restart this agent with a new agent id instead, do as follows:
rm -f {latest}
This ensures that the agent does not recover old live executors."""
# The families of isolators.
FAMILIES = ("cgroups/", "disk/", "docker/", "filesystem/", "gpu/nvidia", "linux/", "namespaces/", "posix/", "volume/")


class Agent:
    """One agent: it reports to the leading master, asks it for commands, and watches its tasks."""

    def __init__(self, values: Values) -> None:
        self.values = values
        if "master" not in values and "master_detector" not in values:
            raise Refused("Missing required option `--master` or `--master_detector`")
        self.work = Path(values["work_dir"])
        self.work.mkdir(parents=True, exist_ok=True)
        self.credential = access.credential(values["credential"]) if "credential" in values else None
        self.secrets = access.credentials(values["http_credentials"], "http_credentials") if "http_credentials" in values else {}
        for flag in ("authenticate_http_readonly", "authenticate_http_readwrite"):
            if is_set(values, flag) and not self.secrets:
                raise Refused("No credentials provided for the default 'basic' HTTP authenticator for realm 'mesos-agent-readonly'")
        self.acls = access.acls_of(values.get("acls"))
        self.groups = self.isolation()
        given = amounts.parse(values.get("resources", ""))
        self.minors = amounts.nvml_minors(amounts.gpu_root())
        self.indices = amounts.gpus(values, given, self.minors)
        self.info: dict[str, Any] = {
            "hostname": values.get("hostname") or socket.getfqdn(),
            "ip": values.get("advertise_ip") or values.get("ip") or socket.gethostbyname(socket.gethostname()),
            "port": int(values.get("port", "5051")),
            "resources": amounts.total(given, self.indices),
            "attributes": amounts.attributes(values.get("attributes", "")),
            "version": "1.11.0",
        }
        self.server, self.client = libprocess(dict(os.environ))
        self.lock = threading.RLock()
        self.news = threading.Event()
        self.forgotten: list[str] = []
        self.meta = self.work / "meta" / "slaves"
        self.id = self.recover()
        self.tasks = {task.record["task_id"]: task for task in self.kept()}
        self.leader: dict[str, Any] | None = None

    def isolation(self) -> dict[str, Path]:
        """The v1 hierarchies of the isolators, made as the real agent needs them. Mesos 1.11 knows nothing of cgroup v2."""
        values = self.values
        names = values.get("isolation", "posix/cpu,posix/mem").split(",")
        start = "Failed to create a containerizer: Could not create MesosContainerizer: "
        if len(set(names)) != len(names):
            raise Refused(f"{start}Duplicate entries found in --isolation flag '[ {', '.join(names)} ]'")
        for name in names:
            # The real one has more.
            if not name.startswith(FAMILIES):
                raise Refused(f"{start}Unknown or unsupported isolator '{name}'")
        if "image_providers" in values:
            if "docker/runtime" not in names:
                raise Refused(
                    "Docker runtime isolator has to be specified if 'docker' is included in 'image_providers'. "
                    "Please add 'docker/runtime' to '--isolation' flags"
                )
            if "filesystem/linux" not in names:
                raise Refused(f"{start}The 'filesystem/linux' isolator must be enabled for container image support")
        if is_set(values, "systemd_enable_support", True) and Path("/run/systemd/system").exists():
            runtime = values.get("systemd_runtime_directory", "/run/systemd/system")
            if not Path(runtime).exists():
                raise Refused(f"Failed to initialize systemd: Failed to locate systemd runtime directory: {runtime}")
        mounts = Path(os.environ.get("STAND_IN_MOUNTS", "/proc/mounts")).read_text(encoding="utf-8")
        found = {}
        for controller, isolator in {"devices": "cgroups/devices", "memory": "cgroups/mem"}.items():
            if isolator in names or "cgroups/all" in names:
                path = hierarchy(controller, mounts)
                if path is None:
                    problem = f"The '{controller}' subsystem is not enabled by the kernel"
                    raise Refused(f"{start}Failed to create isolator '{isolator}': {problem}")
                found[controller] = path
        return found

    def recover(self) -> str | None:
        """The agent's identity of before. Changed resources or attributes are refused, as by reconfiguration_policy=equal."""
        latest = self.meta / "latest"
        if not latest.is_symlink():
            return None
        old = json.loads((latest / "slave.info").read_text(encoding="utf-8"))
        new = {key: self.info[key] for key in ("hostname", "port", "resources", "attributes")}
        if old == new:
            return latest.resolve().name
        policy = self.values.get("reconfiguration_policy", "equal")
        less = not amounts.fits(old["resources"], new["resources"]) or not old["attributes"].items() <= new["attributes"].items()
        if policy != "additive" or less or any(old[key] != new[key] for key in ("hostname", "port")):
            raise Refused(INCOMPATIBLE.format(old=json.dumps(old, sort_keys=True), new=json.dumps(new, sort_keys=True), latest=latest))
        return latest.resolve().name

    def checkpoint(self) -> None:
        """Keep the identity that the master gave."""
        folder = self.meta / str(self.id)
        (folder / "tasks").mkdir(parents=True, exist_ok=True)
        kept = {key: self.info[key] for key in ("hostname", "port", "resources", "attributes")}
        (folder / "slave.info").write_text(json.dumps(kept), encoding="utf-8")
        link = self.meta / "latest.new"
        link.unlink(missing_ok=True)
        link.symlink_to(self.id or "")
        link.replace(self.meta / "latest")

    def kept(self) -> list[Task]:
        folder = self.meta / str(self.id) / "tasks"
        return [Task.load(path.parent) for path in folder.glob("*/task.json")] if self.id else []

    def run(self) -> None:
        serve(self.values.get("ip", "0.0.0.0"), self.info["port"], self.server, AgentWeb(self).answer)
        master = self.values["master"]
        if master.startswith("zk://"):
            where = place(master, "Failed to create a master detector: Failed to parse the ZooKeeper URL")
            keeper = Keeper(where, seconds(self.values.get("zk_session_timeout", "10secs")), candidate=False)
            threading.Thread(target=self.detect, args=(keeper,), daemon=True).start()
        else:
            host, _colon, port = master.partition(":")
            self.leader = {"address": {"ip": host}, "port": int(port or "5050"), "pid": f"master@{master}"}
        threading.Thread(target=self.listen, daemon=True).start()
        last = 0.0
        while True:
            with self.lock:
                changed = [task.look() for task in self.tasks.values()]
            if any(changed) or self.news.is_set() or time.time() - last > 5:
                self.news.clear()
                last = time.time()
                self.report()
            self.news.wait(0.5)

    def detect(self, keeper: Keeper) -> None:
        while True:
            found = mesos_leader(keeper)
            if found != self.leader:
                print(f"New master detected at {found['pid'] if found else 'None'}", file=sys.stderr, flush=True)
                self.leader = found
                self.news.set()
            time.sleep(1)

    def ask(self, path: str, body: Any, timeout: float) -> Any:
        """Send JSON to the leading master; None if it does not answer as wanted."""
        if not self.leader:
            return None
        headers = {"Authorization": access.basic(*self.credential)} if self.credential else {}
        url = f"http{'s' if self.client else ''}://{self.leader['address']['ip']}:{self.leader['port']}{path}"
        try:
            response = call(url, "POST", body, headers, self.client, timeout)
            text = response.read()
        except (OSError, ssl.SSLError) as error:
            print(f"Failed to speak with {self.leader['pid']}: {error}", file=sys.stderr, flush=True)
            return None
        if response.status == 401:
            print(f"Master {self.leader['pid']} refused authentication", file=sys.stderr, flush=True)
            os._exit(1)
        if response.status == 410:
            print("Agent was marked gone; shutting down", file=sys.stderr, flush=True)
            os._exit(1)
        if response.status != 200:
            print(f"{self.leader['pid']} answered {response.status}: {text.decode()[:200]}", file=sys.stderr, flush=True)
            return None
        return json.loads(text)

    def report(self) -> None:
        with self.lock:
            body: dict[str, Any] = {"id": self.id, "info": self.info, "tasks": [self.shown(task) for task in self.tasks.values()]}
            body["forgotten"] = list(self.forgotten)
        answer = self.ask("/stand_in/report", body, 20)
        if answer and answer["id"] != self.id:
            print(f"Registered with the leading master; given agent ID {answer['id']}", file=sys.stderr, flush=True)
            self.id = answer["id"]
            self.checkpoint()
        elif answer:
            self.forgotten = self.forgotten[-50:]
            self.checkpoint()

    def shown(self, task: Task) -> dict[str, Any]:
        keys = ("task_id", "framework_id", "name", "resources", "state", "timestamp", "user", "labels", "uuid", "message", "reason")
        return {key: task.record[key] for key in keys if key in task.record}

    def listen(self) -> None:
        """Ask the leading master for commands, again and again."""
        while True:
            answer = self.ask(f"/stand_in/commands?id={self.id}", None, 30) if self.id else None
            for command in answer["commands"] if answer else []:
                with self.lock:
                    self.obey(command)
                self.news.set()
            if answer is None:
                time.sleep(1)

    def obey(self, command: dict[str, Any]) -> None:
        if "launch" in command:
            self.launch(command["launch"])
        elif "kill" in command and command["kill"] in self.tasks:
            task = self.tasks[command["kill"]]
            task.kill(command.get("grace", task.record.get("grace", 3)))
        elif "forget" in command and command["forget"] in self.tasks:
            self.tasks.pop(command["forget"]).forget()
            self.forgotten.append(command["forget"])
        elif "drain" in command:
            most = command["drain"].get("max_grace_period", {}).get("nanoseconds")
            for task in self.tasks.values():
                task.record.update(why="Killed by agent draining", because="REASON_SLAVE_DRAINING", gone=command["drain"].get("mark_gone"))
                grace = task.record.get("grace", 3)
                task.kill(grace if most is None else min(grace, most / 1e9))
        elif "shutdown" in command:
            os.kill(os.getpid(), signal.SIGTERM)

    def launch(self, record: dict[str, Any]) -> None:
        """Give a task its GPUs and start it."""
        running = [task.record for task in self.tasks.values() if task.record["state"] in ("TASK_RUNNING", "TASK_STAGING")]
        taken = {index for known in running for index in known["gpus"]}
        free = [index for index in self.indices if index not in taken]
        wanted = int(record["resources"].get("gpus", 0))
        container = str(uuid.uuid4())
        runs = self.work / "slaves" / str(self.id) / "frameworks" / record["framework_id"] / "executors" / record["task_id"] / "runs"
        folder = self.meta / str(self.id) / "tasks" / record["task_id"]
        folder.mkdir(parents=True, exist_ok=True)
        command = record.pop("command")
        text = command.get("value", "") if command.get("shell", True) else " ".join(command.get("arguments", []))
        nnp = "linux/nnp" in self.values.get("isolation", "").split(",")
        task = Task(
            folder, {**record, "gpus": free[:wanted], "container": container, "sandbox": str(runs / container), "text": text, "nnp": nnp}
        )
        self.tasks[record["task_id"]] = task
        task.save()
        environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "MESOS_SANDBOX": str(runs / container),
            "MESOS_CONTAINER_NAME": container,
        }
        environment |= {"MESOS_TASK_ID": record["task_id"], "MESOS_AGENT_ENDPOINT": f"{self.info['ip']}:{self.info['port']}"}
        environment |= {pair["name"]: pair["value"] for pair in command.get("environment", {}).get("variables", [])}
        environment["LIBPROCESS_IP"] = str(self.info["ip"])
        devices = [Path(f"/dev/nvidia{self.minors[index]}") for index in free[:wanted]]
        devices += [path for path in (Path("/dev/nvidiactl"), Path("/dev/nvidia-uvm")) if wanted and path.is_char_device()]
        try:
            task.start(environment, devices, self.groups, self.values.get("cgroups_root", "mesos"))
        except OSError as error:
            task.update("TASK_FAILED", f"Failed to launch container: {error}", "REASON_CONTAINER_LAUNCH_FAILED")


def main() -> int:
    try:
        values = mesos("mesos-agent", sys.argv[1:], dict(os.environ))
        if "version" in values:
            print("mesos 1.11.0")
            return 0
        Agent(values).run()
    except (Refused, Failure) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
