# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A host is held in its managers before a role disturbs it, and given back after that."""

from __future__ import annotations

import re
import shutil
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._managers import MANAGERS

ROOT = Path(__file__).resolve().parents[2]
ROLES = ROOT / "roles"
# What takes a GPU from those who compute on it, unless it only compares.
DISTURBING = {"reboot", "kernel_cmdline", "mediated_devices", "nvidia_mig", "pci_driver_override", "pci_virtual_functions"}
# What runs any program, or starts any unit.
RUNNING = {"command", "expect", "raw", "script", "service", "shell", "systemd", "systemd_service"}
REBOOTING = re.compile(r"(?<![\w/.-])(?:/\S*/)?(?:reboot|shutdown|poweroff|halt|kexec|telinit|init\W+6)(?![\w/-])")
UNLOADING = re.compile(r"\brmmod\b|\bmodprobe\W+(?:-\w*r|--remove)\b|--gpu-reset\b")
# Tasks that need no hold, by role, entry point and name: the condition under which they run disturbs no user.
HARMLESS = {
    # GPUs keep their instances; only what recreates them at each boot is completed.
    ("nvidia_driver", "main", "Bring idle GPUs to their MIG layouts"): "not __nvidia_driver_mig_differs or ",
}
# A unit of systemd may name the daemons that it starts before.
UNIT = re.compile(r"^\s*Before=.*$", re.MULTILINE)
WORDS = re.compile(
    "|".join(["slurm", "opennebula", "kubernetes", "mesos", "openstack", "nova_lxd", *(manager.name for manager in MANAGERS)]), re.I
)


def load(path: Path) -> t.Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def listed(value: t.Any) -> list[t.Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def text_of(value: t.Any) -> str:
    """All words of a task's arguments, however they are written."""
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return str(value) if values is None else " ".join(text_of(part) for part in values)


class Walk:
    """The tasks of one entry point in their order: what is disturbed without a hold, and whether the host is given back.

    A hold counts for what follows it in its file, and in files that are included from there. After a file or block with a condition it
    counts no more. Whether the condition of a hold fits that of the task no test of the text can say.
    """

    def __init__(self, role: str, entry: str) -> None:
        self.role, self.entry = role, entry
        self.held = 0  # 1: for its devices, 2: also for a reboot
        self.owed = self.disturbs = False
        self.wrong: list[str] = []

    def file(self, path: Path, conditions: list[str]) -> None:
        for task in load(path) or []:
            self.task(task, path, conditions)

    def task(self, task: dict[str, t.Any], path: Path, conditions: list[str]) -> None:
        when = [str(condition) for condition in listed(task.get("when"))]
        # What only compares disturbs no user.
        if task.get("check_mode") is True or "ansible_check_mode" in when:
            return
        conditions = conditions + when
        before = self.held
        if "block" in task:
            self.block(task, path, conditions)
        for key, arguments in task.items():
            module = (str(arguments).split()[0] if key in ("action", "local_action") else key).rsplit(".", 1)[-1]
            if module in ("include_tasks", "import_tasks"):
                name = arguments["file"] if isinstance(arguments, dict) else arguments
                # The tasks that a site gives run in the role gpu_hold alone.
                if "{{" not in name:
                    self.file(path.parent / name, conditions)
                elif self.role != "gpu_hold":
                    self.wrong.append(f"{path.name}: {task['name']}: {name} can't be followed")
            elif module in ("include_role", "import_role") and arguments["name"].endswith(".gpu_hold"):
                when = []
                if arguments.get("tasks_from", "main") == "main":
                    self.held = 1 if task.get("vars", {}).get("gpu_hold_reboot") is False else 2
                    self.owed = True
                else:
                    self.held, self.owed = 0, False
            else:
                self.disturbed(module, text_of(arguments), task, path, conditions)
        if when:
            self.held = min(before, self.held)

    def block(self, task: dict[str, t.Any], path: Path, conditions: list[str]) -> None:
        before, owed = self.held, self.owed
        for inner in task["block"]:
            self.task(inner, path, conditions)
        after = self.held, self.owed
        # A rescue may begin before the block's own hold.
        self.held = min(before, self.held)
        for inner in task.get("rescue", []):
            self.task(inner, path, conditions)
        # One that ends in a failure goes no further.
        goes_on = "rescue" in task and "ansible.builtin.fail" not in task["rescue"][-1]
        self.held, self.owed = (min(after[0], self.held), after[1] or owed) if goes_on else after
        for inner in task.get("always", []):
            self.task(inner, path, conditions)

    def disturbed(self, module: str, arguments: str, task: dict[str, t.Any], path: Path, conditions: list[str]) -> None:
        reboots = module == "reboot" or (module in RUNNING and REBOOTING.search(arguments) is not None)
        if not (reboots or module in DISTURBING or (module in RUNNING and UNLOADING.search(arguments))):
            return
        self.disturbs = True
        harmless = HARMLESS.get((self.role, self.entry, task["name"]))
        if harmless and any(condition.startswith(harmless) for condition in conditions):
            return
        if self.held < (2 if reboots else 1):
            self.wrong.append(f"{path.name}: {task['name']}: the host is not held{' for a reboot' if self.held else ''}")


def entry_points(role: Path) -> list[str]:
    """What others may ask for: the documented entry points, and files that no other file of the role includes."""
    specs = load(role / "meta/argument_specs.yml")["argument_specs"]
    files = {path.stem: path.read_text(encoding="utf-8") for path in sorted((role / "tasks").glob("*.yml"))}
    included = {name for text in files.values() for name in re.findall(r"(?:_tasks|file): (\w+)\.yml", text)}
    return sorted({*specs, *files} - (included - set(specs)))


def walks(role: Path) -> list[Walk]:
    entries = []
    for entry in entry_points(role):
        walk = Walk(role.name, entry)
        walk.file(role / f"tasks/{entry}.yml", [])
        if walk.owed:
            walk.wrong.append(f"{entry}: the host is not given back")
        entries.append(walk)
    return entries


def faults(role: Path) -> dict[str, list[str]]:
    return {walk.entry: walk.wrong for walk in walks(role) if walk.wrong}


ALL = sorted(path for path in ROLES.iterdir() if path.is_dir())
BY_NAME = [role for role in ALL if any(walk.disturbs for walk in walks(role))]


def test_the_roles_that_disturb_hosts_are_found() -> None:
    assert [role.name for role in BY_NAME] == ["nvidia_driver", "pci_passthrough"]
    assert entry_points(ROLES / "nvidia_driver") == ["divide", "finish", "main"]
    assert entry_points(ROLES / "pci_passthrough") == ["main", "plan"]


@pytest.mark.parametrize("role", ALL, ids=lambda role: role.name)
def test_a_host_is_held_before_it_is_disturbed_and_given_back(role: Path) -> None:
    assert faults(role) == {}


def test_plays_disturb_no_host_themselves() -> None:
    walk = Walk("playbooks", "")
    for path in sorted((ROOT / "playbooks").glob("*.yml")):
        for play in load(path):
            for part in ("pre_tasks", "tasks", "post_tasks", "handlers"):
                for task in play.get(part, []):
                    walk.task(task, path, [])
    assert not walk.disturbs


def test_what_needs_no_hold_is_still_there() -> None:
    for role, entry, name in HARMLESS:
        walk = Walk("", entry)
        walk.file(ROLES / f"{role}/tasks/{entry}.yml", [])
        assert any(name in sentence for sentence in walk.wrong), name


def test_the_condition_without_which_a_task_needs_a_hold_is_missed(tmp_path) -> None:
    copy = Path(shutil.copytree(ROLES / "nvidia_driver", tmp_path / "nvidia_driver"))
    main = copy / "tasks/main.yml"
    main.write_text(main.read_text(encoding="utf-8").replace("    - not __nvidia_driver_mig_differs or ", "    - "), encoding="utf-8")
    assert endings(copy) == {"the host is not held"} and [*faults(copy)] == ["main"]


def without(path: Path, entry: str) -> None:
    """Take the calls of an entry point of gpu_hold out of a file."""

    def is_call(task: dict[str, t.Any]) -> bool:
        arguments = task.get("ansible.builtin.include_role", {"name": ""})
        return arguments["name"].endswith(".gpu_hold") and arguments.get("tasks_from", "main") == entry

    def kept(tasks: list[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
        return [
            {key: kept(value) if key in ("block", "rescue", "always") else value for key, value in task.items()}
            for task in tasks
            if not is_call(task)
        ]

    before = load(path)
    if kept(before) != before:
        path.write_text(yaml.safe_dump(kept(before)), encoding="utf-8")


HOLDING = [
    path
    for role in BY_NAME
    for path in sorted((role / "tasks").glob("*.yml"))
    if "name: deephdc.accelerators.gpu_hold\n" in path.read_text(encoding="utf-8")
]


def endings(role: Path) -> set[str]:
    return {sentence.rsplit(": ", 1)[1] for sentences in faults(role).values() for sentence in sentences}


@pytest.mark.parametrize("path", HOLDING, ids=lambda path: f"{path.parts[-3]}/{path.name}")
def test_a_call_of_gpu_hold_that_is_taken_out_is_missed(tmp_path, path) -> None:
    copy = Path(shutil.copytree(path.parents[1], tmp_path / path.parts[-3]))
    without(copy / "tasks" / path.name, "main")
    holds = (copy / "tasks" / path.name).read_text(encoding="utf-8") == path.read_text(encoding="utf-8")
    assert endings(copy) <= {"the host is not held", "the host is not held for a reboot"}
    assert bool(endings(copy)) is not holds


@pytest.mark.parametrize("role", BY_NAME, ids=lambda role: role.name)
def test_a_host_that_is_not_given_back_is_missed(tmp_path, role) -> None:
    copy = Path(shutil.copytree(role, tmp_path / role.name))
    for path in (copy / "tasks").glob("*.yml"):
        without(path, "release")
    assert endings(copy) == {"the host is not given back"}


HOLD = {"name": "Hold", "ansible.builtin.include_role": {"name": "deephdc.accelerators.gpu_hold"}}
RELEASE = {"name": "Release", "ansible.builtin.include_role": {"name": "deephdc.accelerators.gpu_hold", "tasks_from": "release"}}
DEVICES = {**HOLD, "vars": {"gpu_hold_reboot": False}}
FAIL = {"name": "Fail", "ansible.builtin.fail": {}}


def disturb(**task: t.Any) -> dict[str, t.Any]:
    return {"name": "Disturb", **{f"ansible.builtin.{module}": arguments for module, arguments in task.items()}}


def made(path: Path, **files: t.Any) -> Path:
    """A role of these files of tasks with the entry point main."""
    for name, content in {
        "meta/argument_specs": {"argument_specs": {"main": {}}},
        **{f"tasks/{name}": files[name] for name in files},
    }.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / f"{name}.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "task",
    [
        disturb(reboot={}),
        {"name": "Disturb", "reboot": {}},
        {"name": "Disturb", "action": "ansible.builtin.reboot"},
        disturb(command="reboot"),
        disturb(command={"argv": ["/sbin/shutdown", "-r", "now"]}),
        disturb(shell={"cmd": "sync && systemctl reboot"}),
        disturb(systemd_service={"name": "reboot.target", "state": "started"}),
        disturb(raw="init 6"),
        disturb(command={"argv": ["modprobe", "-r", "nvidia"]}),
        disturb(command="rmmod nvidia"),
        disturb(command="nvidia-smi --gpu-reset"),
        {"name": "Disturb", "deephdc.accelerators.nvidia_mig": {}},
        {"name": "Disturb", "deephdc.accelerators.mediated_devices": {}, "check_mode": False},
        {"name": "Disturb", "deephdc.accelerators.nvidia_mig": {}, "when": "not ansible_check_mode"},
        {"name": "Block", "block": [FAIL], "rescue": [disturb(reboot={})]},
        {"name": "Block", "block": [FAIL], "always": [disturb(reboot={})]},
    ],
    ids=str,
)
def test_what_disturbs_is_seen(tmp_path, task) -> None:
    (sentence,) = faults(made(tmp_path, main=[task]))["main"]
    assert sentence == "main.yml: Disturb: the host is not held"
    assert faults(made(tmp_path, main=[HOLD, task, RELEASE])) == {}


@pytest.mark.parametrize(
    "task",
    [
        {"name": "Compare", "deephdc.accelerators.nvidia_mig": {}, "check_mode": True},
        {"name": "Compare", "deephdc.accelerators.nvidia_mig": {}, "when": ["x", "ansible_check_mode"]},
        disturb(command={"argv": ["last", "-x", "--reboot-of=gpu1"]}),
        disturb(debug={"msg": "run reboot"}),
        disturb(command="modprobe nvidia"),
        disturb(command="cat /run/reboot-required"),
    ],
    ids=str,
)
def test_what_disturbs_nobody_needs_no_hold(tmp_path, task) -> None:
    assert faults(made(tmp_path, main=[task])) == {}


UNHELD = ["main.yml: Disturb: the host is not held"]


@pytest.mark.parametrize(
    ("tasks", "wrong"),
    [
        ([disturb(reboot={}), HOLD, RELEASE], UNHELD),
        ([HOLD, RELEASE, disturb(reboot={})], UNHELD),
        ([DEVICES, disturb(reboot={}), RELEASE], ["main.yml: Disturb: the host is not held for a reboot"]),
        ([HOLD, disturb(reboot={})], ["main: the host is not given back"]),
        ([{"name": "Include", "include_tasks": "part.yml", "when": "x"}, disturb(reboot={}), RELEASE], UNHELD),
        ([{"name": "Block", "block": [HOLD], "when": "x"}, disturb(reboot={}), RELEASE], UNHELD),
        ([{"name": "Include", "include_tasks": "part.yml"}, disturb(reboot={}), RELEASE], []),
        ([{**HOLD, "when": "x"}, disturb(reboot={}), RELEASE], []),
        ([HOLD, {"name": "Block", "block": [FAIL], "rescue": [RELEASE]}, disturb(reboot={}), RELEASE], UNHELD),
        ([HOLD, {"name": "Block", "block": [FAIL], "rescue": [RELEASE, FAIL]}, disturb(reboot={}), RELEASE], []),
        ([HOLD, {"name": "Include", "include_tasks": "{{ x }}.yml"}, RELEASE], ["main.yml: Include: {{ x }}.yml can't be followed"]),
    ],
    ids=[
        "after",
        "given back",
        "for devices",
        "not given back",
        "file",
        "block",
        "no condition",
        "of the hold",
        "rescue",
        "failure",
        "template",
    ],
)
def test_the_order_counts(tmp_path, tasks, wrong) -> None:
    assert faults(made(tmp_path, main=tasks, part=[HOLD])).get("main", []) == wrong


@pytest.mark.parametrize("role", [*BY_NAME, ROLES / "gpu_hold"], ids=lambda role: role.name)
def test_a_role_that_disturbs_a_host_names_no_manager(role: Path) -> None:
    """Its documents may; what it does is the same whoever manages the host."""
    paths = [path for part in ("defaults", "tasks", "vars", "templates", "files") for path in sorted((role / part).rglob("*"))]
    texts = {str(path.relative_to(role)): path.read_text(encoding="utf-8") for path in paths if path.is_file() and path.suffix != ".pyc"}
    assert {name: words for name, text in texts.items() if (words := WORDS.findall(UNIT.sub("", text)))} == {}


@pytest.mark.parametrize("manager", MANAGERS, ids=lambda manager: manager.name)
def test_the_role_of_each_manager_can_hold_and_release(manager) -> None:
    role = ROLES / manager.host_role
    specs = load(role / "meta/argument_specs.yml")["argument_specs"]
    for entry in ("hold", "release"):
        assert (role / f"tasks/{entry}.yml").is_file() and entry in specs
    assert f"    {manager.host_role}_hold: " in (role / "tasks/hold.yml").read_text(encoding="utf-8")


def test_what_managers_are_given_is_documented() -> None:
    """By the role gpu_hold, or by variables of it that their entry points name."""
    given = {name for task in load(ROLES / "gpu_hold/tasks/manager.yml") for name in task.get("vars", {})}
    for manager in MANAGERS:
        specs = load(ROLES / manager.host_role / "meta/argument_specs.yml")["argument_specs"]
        own = {name for entry in ("hold", "release") for name in specs[entry].get("options", {})}
        given |= {name for name in own if name.startswith("gpu_hold_")}
    assert given >= {"gpu_hold_reason", "gpu_hold_wait"}
    document = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    assert {name for name in given if f"\n| `{name}` | " not in document} == set()
