# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Follow the tasks of playbooks and note each file that they write.

Nothing is run. Files come from the module file_set and from copy with a content. Facts that tasks set are known to later
tasks. What other tasks would report comes from overlay.yml.
"""

from __future__ import annotations

import base64
import functools
import pathlib
import typing as t
from collections.abc import Mapping

import facts
from lookups import Lookups
from scopes import OMIT, AllHosts, HostVariables, Layer, Scope, missing
from sites import HERE, Inventory, Overlay, read_yaml
from templating import ROOT, is_template

PLAYBOOKS, ROLES = ROOT / "playbooks", ROOT / "roles"
PREFIX = "deephdc.accelerators."
MARK = "Made by deephdc.accelerators"  # of the module file_set
WRITERS = (PREFIX + "file_set", "ansible.builtin.copy", "ansible.builtin.blockinfile")
# They give a manager's API what a site wants.
OBJECTS = tuple(PREFIX + name for name in ("opennebula_gpu_quota", "opennebula_gpu_template", "opennebula_host_pci", "openstack_objects"))
ROLE_TASKS = ("ansible.builtin.import_role", "ansible.builtin.include_role")
FILE_TASKS = ("ansible.builtin.import_tasks", "ansible.builtin.include_tasks")
KNOWN_KEYS = {"name", "when", "vars", "loop", "loop_control", "register", "delegate_to", "delegate_facts", "run_once", "tags", "block",
              "rescue", "always", "become", "become_user", "become_method", "changed_when", "failed_when", "check_mode", "no_log", "notify",
              "until", "retries", "delay", "ignore_errors", "ignore_unreachable", "environment", "throttle", "module_defaults", "diff",
              "any_errors_fatal", "async", "poll", "args", "connection", "timeout"}  # fmt: skip
Task = dict[str, t.Any]


# Whatever a filter raises, also by a mistake of its own, ends the task alone.
CANT = Exception


def action_of(task: Task) -> str:
    return next((key for key in task if key not in KNOWN_KEYS and not key.startswith("with_")), "")


def role_folder(name: str) -> pathlib.Path:
    return ROLES / name.removeprefix(PREFIX)


@functools.lru_cache(None)
def tasks_in(path: pathlib.Path) -> list[Task]:
    return read_yaml(path) or []


@functools.lru_cache(None)
def variables_in(path: pathlib.Path) -> dict[str, t.Any]:
    return read_yaml(path) or {} if path.is_file() else {}


def dependencies(name: str) -> list[str]:
    found = variables_in(role_folder(name) / "meta/main.yml").get("dependencies") or []
    return [one["role"] if isinstance(one, dict) else one for one in found]


def defaults_of(name: str) -> dict[str, t.Any]:
    """Return the defaults of a role and of those that it depends on."""
    needed = {key: value for one in dependencies(name) for key, value in defaults_of(one).items()}
    return {**needed, **variables_in(role_folder(name) / "defaults/main.yml")}


class Written(t.NamedTuple):
    """A file on a host, as the collection wants it."""

    content: str
    about: str


def as_text(content: bytes) -> str:
    """Return the text of a file; of one that is no text, its bytes in base64."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return base64.encodebytes(content).decode("ascii")


class Walk:
    """One site: its hosts' variables, and the files that its playbooks write."""

    def __init__(self, inventory: Inventory, overlay: Overlay) -> None:
        self.inventory, self.overlay = inventory, overlay
        self.lookups = Lookups(overlay.files, overlay.environment)
        self.files: dict[str, dict[str, Written]] = {host: {} for host in inventory.hosts}
        self.set: dict[str, dict[str, t.Any]] = {host: {} for host in inventory.hosts}
        self.included: dict[str, dict[str, t.Any]] = {host: {} for host in inventory.hosts}
        self.groups = {name: list(members) for name, members in inventory.groups.items()}
        self.hostvars = AllHosts()
        self.play_hosts: list[str] = []
        self.objects: dict[str, list[dict[str, t.Any]]] = {host: [] for host in inventory.hosts}
        self.unresolved: list[str] = []
        for number, (host, own) in enumerate(inventory.hosts.items(), 10):
            self.set[host] = dict(overlay.hosts.get("every") or {}, **overlay.hosts.get(host) or {})
            fixed = overlay.variables
            base = Scope(self.lookups, (Layer({**own, **fixed}),))
            devices = base.get("gpu_simulator_devices") or []
            more = {**(overlay.facts.get("every") or {}), **(overlay.facts.get(host) or {})}
            self.set[host]["ansible_facts"] = facts.of_host(host, number, str(more.pop("release", overlay.release)), devices, more)
            layers = (Layer(self.set[host], True), Layer(self.magic(host), True), Layer({**own, **fixed}))
            self.hostvars[host] = HostVariables(Scope(self.lookups, layers))

    def magic(self, host: str) -> dict[str, t.Any]:
        """Return the variables that Ansible has of a run."""
        hosts = dict.fromkeys(("ansible_play_hosts", "ansible_play_hosts_all", "ansible_play_batch"), lambda: self.play_hosts)
        return {
            **hosts,
            "ansible_check_mode": False,
            "ansible_diff_mode": False,
            "ansible_playbook_python": "/usr/bin/python3",
            "ansible_run_tags": ["all"],
            "ansible_skip_tags": [],
            "ansible_version": {"full": "2.19.0", "string": "2.19.0"},
            "golden_folder": str(HERE / "cases"),
            "groups": self.groups,
            "hostvars": self.hostvars,
            "inventory_hostname": host,
            "inventory_hostname_short": host.split(".")[0],
            "playbook_dir": str(PLAYBOOKS),
        }

    # Plays

    def playbook(self, name: str) -> None:
        for play in tasks_in(PLAYBOOKS / f"{name}.yml"):
            if "hosts" in play:
                self.play(play)

    def play(self, play: Task) -> None:
        pattern = play["hosts"]
        if is_template(pattern) or isinstance(pattern, list):
            return
        hosts = self.inventory.select(pattern)
        # Groups that a play before this one made.
        hosts += [host for host in self.groups.get(str(pattern), []) if host not in hosts]
        self.play_hosts = hosts
        if not hosts:
            return
        variables = play.get("vars") or {}
        # Roles of a play know each other's defaults.
        names = [role["role"] if isinstance(role, dict) else role for role in play.get("roles") or []]
        defaults = {key: value for name in names for key, value in defaults_of(name).items()}
        scopes = {host: self.scope(host).above(Layer(variables)) for host in hosts}
        for scope in scopes.values():
            # Facts win over variables of a play.
            scope.layers = (*scope.layers[1:3], scope.layers[0], *scope.layers[3:], Layer(defaults))
        self.tasks(play.get("pre_tasks") or [], scopes)
        for role in play.get("roles") or []:
            own = role if isinstance(role, dict) else {"role": role}
            chosen = {host: scope for host, scope in scopes.items() if scope.is_true(own.get("when", True))}
            self.role(own["role"], "main", own.get("vars") or {}, chosen)
        self.tasks(play.get("tasks") or [], scopes)
        self.tasks(play.get("post_tasks") or [], scopes)

    def scope(self, host: str) -> Scope:
        """Return what a play without variables has on a host."""
        of_host = self.hostvars[host].scope.layers
        return Scope(self.lookups, (of_host[0], Layer(self.included[host]), *of_host[1:]))

    def role(self, name: str, entry: str, variables: t.Mapping[str, t.Any], scopes: dict[str, Scope]) -> None:
        name = name.removeprefix(PREFIX)
        folder = role_folder(name)
        path = folder / "tasks" / f"{entry.removesuffix('.yml')}.yml"
        if not path.is_file() or not relevant(path):
            return
        inner = {}
        for host, scope in scopes.items():
            layers = (
                Layer({"role_path": str(folder), "role_name": name}, True),
                Layer(variables),
                *scope.layers[:2],
                Layer(variables_in(folder / "vars/main.yml")),
                *scope.layers[2:],
                Layer(defaults_of(name)),
            )
            inner[host] = Scope(self.lookups, layers, (str(folder), *scope.folders))
        for dependency in dependencies(name) if entry == "main" else []:
            self.role(dependency, "main", {}, inner)
        self.tasks(tasks_in(path), inner)

    # Tasks

    def tasks(self, tasks: t.Sequence[Task], scopes: dict[str, Scope]) -> None:
        for task in tasks:
            self.task(task, scopes)

    def task(self, task: Task, scopes: dict[str, Scope]) -> None:
        if not scopes:
            return
        action = action_of(task)
        self.registered(task, action, scopes)
        if not is_relevant(task):
            return
        own = {host: scope.above(Layer(task["vars"])) if task.get("vars") else scope for host, scope in scopes.items()}
        if task.get("run_once"):
            own = dict([next(iter(own.items()))])
        if "block" in task or action in ROLE_TASKS or action in FILE_TASKS:
            self.several(task, action, own)
            return
        for host, scope in own.items():
            for one in self.loop(task, host, scope):
                try:
                    if one.is_true(task.get("when", True)):
                        self.one(task, action, host, one, scopes)
                except CANT as error:
                    self.cant(task, host, error)

    def cant(self, task: Task, host: str, error: Exception) -> None:
        """Note a task that the walk can't follow on a host."""
        words = " ".join(str(error).split()).partition(" Origin:")[0]
        self.unresolved.append(f"{host}: {task.get('name')}: {words}")

    def loop(self, task: Task, host: str, scope: Scope) -> list[Scope]:
        if "loop" not in task:
            return [scope]
        control = task.get("loop_control") or {}
        names = (control.get("loop_var", "item"), control.get("index_var", "__golden_index"))
        try:
            items = scope.resolved(task["loop"])
        except CANT as error:
            # In Ansible the condition of a task does not keep its loop from being read, either.
            self.cant(task, host, error)
            return []
        return [scope.above(Layer({names[0]: item, names[1]: index}, True)) for index, item in enumerate(items)]

    def several(self, task: Task, action: str, scopes: dict[str, Scope]) -> None:
        """Follow a block, a file of tasks or a role on the hosts where its condition holds."""
        rounds: list[dict[str, Scope]] = []
        for host, scope in scopes.items():
            try:
                for number, one in enumerate(self.loop(task, host, scope)):
                    if one.is_true(task.get("when", True)):
                        rounds += [{} for _more in range(number + 1 - len(rounds))]
                        rounds[number][host] = one
            except CANT as error:
                self.cant(task, host, error)
        for chosen in rounds:
            if not chosen:
                continue
            if "block" in task:
                self.tasks(task["block"], chosen)
                self.tasks(task.get("always") or [], chosen)
                continue
            given = task[action]
            first = next(iter(chosen.values()))
            if action in FILE_TASKS:
                name = str(first.resolved(given["file"] if isinstance(given, dict) else given))
                path = next(
                    (path for own in first.folders for path in [pathlib.Path(own, "tasks", name)] if path.is_file()), PLAYBOOKS / name
                )
                if relevant(path):
                    self.tasks(tasks_in(path), chosen)
            else:
                name, entry = (str(first.resolved(one)) for one in (given["name"], given.get("tasks_from", "main")))
                self.role(name, entry, task.get("vars") or {}, chosen)

    def registered(self, task: Task, action: str, scopes: dict[str, Scope]) -> None:
        """Note what a task would report, without running it."""
        name = task.get("register")
        if not name:
            return
        for host, scope in scopes.items():
            self.set[host][name] = functools.partial(self.answer, name, task, action, scope)

    def answer(self, name: str, task: Task, action: str, scope: Scope) -> t.Any:
        if name in self.overlay.registered:
            return scope.resolved(self.overlay.registered[name])
        usual = {"changed": False, "failed": False, **(self.overlay.answers.get(action.removeprefix("ansible.builtin.")) or {})}
        if "loop" not in task:
            return scope.resolved(usual)
        results = [{"item": one.get("item"), **one.resolved(usual)} for one in self.loop(task, "", scope)]
        return {"changed": False, "failed": False, "results": results}

    def one(self, task: Task, action: str, host: str, scope: Scope, scopes: dict[str, Scope]) -> None:
        given: t.Any = task.get(action)
        target = str(scope.resolved(task["delegate_to"])) if "delegate_to" in task else host
        if action == "ansible.builtin.set_fact":
            values = {name: scope.resolved(value) for name, value in given.items() if name != "cacheable"}
            targets = [target] if task.get("delegate_facts") else list(scopes) if task.get("run_once") else [host]
            for one in targets:
                self.set.setdefault(one, {}).update(values)
        elif action == "ansible.builtin.include_vars":
            name = str(scope.resolved(given["file"] if isinstance(given, dict) else given))
            self.included[host].update(variables_in(pathlib.Path(scope.folders[0], "vars", name)))
            scope.known.clear()
        elif action == "ansible.builtin.add_host":
            named = scope.resolved(given)
            for group in named.get("groups") or []:
                members = self.groups.setdefault(group, [])
                members += [named["name"]] if named["name"] not in members else []
        elif action == "ansible.builtin.group_by":
            members = self.groups.setdefault(str(scope.resolved(given["key"])), [])
            members += [host] if host not in members else []
        elif action in WRITERS:
            own = scope.resolved(given)
            if missing(own):
                raise ValueError("a value is not defined")
            wanted = own.get("files", []) if action.endswith("file_set") else [{**own, "path": own.get("dest") or own.get("path")}]
            for file in wanted:
                self.write(target, file, needs_mark=action.endswith("file_set"))
        elif action in OBJECTS and target in self.objects:
            own = scope.resolved(given)
            if missing(own):
                raise ValueError("a value is not defined")
            self.objects[target].append({"module": action, **{key: value for key, value in own.items() if value != OMIT}})

    def write(self, host: str, given: t.Mapping[str, t.Any], needs_mark: bool) -> None:
        """Note a file as a module would write it.

        :param needs_mark: whether the module keeps a former text without the collection's mark beside the new one.
        """
        file = {key: value for key, value in given.items() if value not in (OMIT, None)}
        if "src" in file or host not in self.files:
            return
        state, path = file.get("state", "file"), str(file["path"])
        content = file.get("content", file.get("block", ""))
        if "secret_base64" in file:
            content = as_text(base64.b64decode(file["secret_base64"]))
        if isinstance(content, (Mapping, list)):
            raise ValueError(f"the content of {path} is no text")
        about = [path, state, str(file.get("mode", "-")), f"{file.get('owner', 'root')}:{file.get('group', 'root')}"]
        about += ["secret"] if "secret_base64" in file else []
        if needs_mark and state == "file" and "secret_base64" not in file and MARK not in str(content):
            about.append("unmarked")
        self.files[host][path] = Written(self.lookups.named(str(content)) if state in ("file", "present") else "", " ".join(about))


# What leads to a file or a fact, so that no condition of another task is looked at.


def is_relevant(task: Task) -> bool:
    action = action_of(task)
    if "block" in task:
        return any(is_relevant(one) for one in [*task["block"], *(task.get("always") or [])])
    if action in FILE_TASKS or action in ROLE_TASKS:
        return True
    groups = ("ansible.builtin.add_host", "ansible.builtin.group_by")
    return action in (*WRITERS, *OBJECTS, "ansible.builtin.set_fact", "ansible.builtin.include_vars", *groups)


@functools.lru_cache(None)
def relevant(path: pathlib.Path) -> bool:
    """Return whether a file of tasks writes or sets something, or registers what a later one reads."""
    return any(is_relevant(task) or "register" in task or "block" in task for task in tasks_in(path))
