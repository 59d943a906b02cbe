# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Root writes nothing, owns nothing and follows nothing below a directory that a user or a service may write.

A link that is put there in time leads root elsewhere, and a pipe keeps it waiting. What must be done there is done as its user (runuser,
as_user), or by file_set and service_file, which follow no link of theirs (module_utils/_host/safe_directory.py).

A path is looked for in all variables that a task names, and in those that these name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(path for pattern in ("roles/*/tasks/*.yml", "playbooks/**/*.yml", "tosca/**/*.yml") for path in ROOT.glob(pattern))
# Modules of others that write, read or follow what they are given.
OTHERS = re.compile(
    r"ansible\.(builtin|posix)\.(file|copy|template|lineinfile|blockinfile|replace|get_url|unarchive|assemble|command|shell|script|raw"
    r"|synchronize|authorized_key|fetch|slurp|find|tempfile)"
)
# Homes, spools and what all may write.
OF_USERS = re.compile(r"~/|/home\b|\.ssh\b|/tmp\b|/run/lock\b|/var/lock\b|/var/spool|/var/mail|\bHOME\b|user_dir|/run/user\b")
# Directories of services that run as users of their own: those of Debian's packages, by their maintainer scripts, and those that the
# collection makes.
SERVICES = "slurm|munge|nova|neutron|glance|keystone|placement|mysql|rabbitmq|zookeeper|prometheus|redis|one|marathon|marathon-lb|chronos"
SERVICES += "|grafana|slurm-info|mesos-info|openstack-info|kubernetes-info|oidc_proxy_sessions"
OF_SERVICES = re.compile(
    rf"/var/(lib|log|cache)/({SERVICES})\b(?![-_])|/etc/(munge|nova|neutron|glance|keystone|placement|rabbitmq)/"
    r"|/etc/mysql/deephdc-openstack|/var/lib/deephdc/slurm_elastic|/run/(marathon|chronos|mesos-front|slurmrestd|deephdc-mps|munge)\b"
)
# A task and why root does nothing there that a user or a service could turn.
KNOWN = {
    "Bring RabbitMQ's accounts to what is written": "rabbitmqctl becomes rabbitmq before it reads anything",
    "Configure the node exporter to read the metrics": "open: prometheus owns the folder above; see docs/security.md",
    "Let AppArmor allow the datastores": "a folder is named in a file of root's",
    "Make or upgrade the databases of {{ openstack_control_plane_service.name }}": "runuser, see PROGRAMS",
    "Read pci.conf, the configuration of the probe": "runuser",
    "Read the key of a controller": "runuser",
    "Read which GPUs the host has offered": "Debian's sudoers let nova be root; what is read is shown to no one else",
    "Read which number the server has": "runuser",
    "Remove SLURM's folders and links": "a link is removed and not followed, a folder by its descriptor",
    "Remove folders that are empty now": "rmdir",
    "Remove the folders of Kubernetes": "the folders above are root's, and find follows no link",
    "Remove the folders of the driver": "find follows no link",
    "Remove the link to the metrics": "open, as where the link is made",
    "Submit the application as a job of its user": "runuser",
    "Submit the job once": "runuser",
}
# Programs that read what their service may write: configuration, plug-ins, keys. Root runs them as that service.
PROGRAMS = re.compile(r"\b(keystone|nova|glance|placement|neutron-db)-manage\b")


class Loader(yaml.SafeLoader):
    """Takes Ansible's own tags for the text that they are of."""


Loader.add_multi_constructor("!", lambda _loader, _suffix, node: getattr(node, "value", None))


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else yaml.dump(value, width=10**6)


def loaded(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), Loader)


def tasks(items: Any) -> Iterator[dict[str, Any]]:
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict):
            yield item
            for key in ("block", "rescue", "always", "tasks", "pre_tasks", "post_tasks"):
                yield from tasks(item.get(key))


# Variables of roles have the role's name before them, so there is one of each name.
VARIABLES = {
    name: text_of(value)
    for pattern in ("roles/*/defaults/*.yml", "roles/*/vars/*.yml")
    for path in sorted(ROOT.glob(pattern))
    for name, value in (loaded(path) or {}).items()
}


def reached(text: str, own: Mapping[str, str]) -> str:
    """A text with all variables that it names, and those that these name."""
    found, left, seen = [text], [text], set[str]()
    while left:
        for expression in re.findall(r"{[{%](.*?)[%}]}", left.pop(), re.DOTALL):
            for name in set(re.findall(r"[A-Za-z_]\w*", expression)) - seen:
                seen.add(name)
                content = own.get(name, VARIABLES.get(name))
                if content is not None:
                    found.append(content)
                    left.append(content)
    return "\n".join(found)


def found() -> Iterator[tuple[str, str]]:
    """Name and place of the tasks that reach such a path."""
    for path in FILES:
        for task in tasks(loaded(path)):
            own = {name: text_of(value) for name, value in (task.get("vars") or {}).items()}
            own |= {"item": text_of(task["loop"])} if "loop" in task else {}
            for key, value in task.items():
                if OTHERS.fullmatch(str(key)):
                    text = reached(text_of(value), own)
                    if OF_USERS.search(text) or OF_SERVICES.search(text):
                        yield str(task.get("name")), f"{path.relative_to(ROOT)}: {task.get('name')}"


def test_root_does_nothing_where_users_and_services_may_write() -> None:
    assert [where for name, where in found() if name not in KNOWN] == []


def test_each_exception_is_needed() -> None:
    assert {name for name, _where in found()} == set(KNOWN)


def test_each_directory_that_belongs_to_a_service_is_known() -> None:
    """Else a task below it would be looked at by nothing."""

    def items(value: Any) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict):
            yield value
        for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
            yield from items(part)

    unknown = []
    for path in [*FILES, *ROOT.glob("roles/*/vars/*.yml"), *ROOT.glob("roles/*/defaults/*.yml")]:
        for item in items(loaded(path)):
            if item.get("state") == "directory" and str(item.get("owner", "root")) != "root":
                text = reached(text_of(item.get("path") or item.get("dest")), {})
                if not (OF_SERVICES.search(text) or "{{ openstack_control_plane_service.name }}" in text):
                    unknown.append(f"{path.relative_to(ROOT)}: {text}")
    assert unknown == []


def test_programs_that_read_what_a_service_may_write_run_as_that_service() -> None:
    for path in sorted([*ROOT.glob("roles/*/*/*"), *ROOT.glob("playbooks/**/*.yml")]):
        if path.parent.name in ("tasks", "vars", "files", "templates") and path.is_file():
            for line in path.read_text(encoding="utf-8").splitlines():
                if PROGRAMS.search(line) and not line.lstrip().startswith("#"):
                    assert re.search(rf"(\bas|runuser .*--) {PROGRAMS.pattern}", line), f"{path.relative_to(ROOT)}: {line.strip()}"


@pytest.mark.parametrize(
    "path", sorted([*ROOT.glob("plugins/modules/*.py"), *ROOT.glob("plugins/module_utils/**/*.py")]), ids=lambda path: path.name
)
def test_a_module_that_names_a_services_directory_uses_what_follows_no_link(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    # After the documentation of a module.
    code = text.rpartition("\nimport ")[2] if "RETURN = " in text else text
    opens = re.search(r"\bopen\(|os\.(rename|replace|mkdir|makedirs|chown|chmod|unlink|walk)\(|shutil\.(copy|move|rmtree|chown)", code)
    if opens and OF_SERVICES.search(code):
        assert re.search("as_user|safe_directory|durable_file|service_file", code), path
