# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Root writes nothing, owns nothing and follows nothing below a directory that a user or a service may write.

A link that is put there in time leads root elsewhere. What must be done there is done as its user (runuser, as_user), or by file_set,
which follows no link of theirs (module_utils/_host/safe_directory.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(path for pattern in ("roles/*/tasks/*.yml", "playbooks/**/*.yml", "tosca/**/*.yml") for path in ROOT.glob(pattern))
# Modules of others that write or follow what they are given.
WRITERS = re.compile(
    r"ansible\.(builtin|posix)\.(file|copy|template|lineinfile|blockinfile|replace|get_url|unarchive|assemble|command|shell|synchronize"
    r"|authorized_key)"
)
# Homes, spools and what all may write.
OF_USERS = re.compile(r"~/|/home\b|\.ssh\b|/tmp\b|/var/spool|/var/mail|\bHOME\b|user_dir")
# Directories of services that run as users of their own.
OF_SERVICES = re.compile(
    r"/var/(lib|log)/(slurm|nova|neutron|glance|keystone|placement|mysql|zookeeper|prometheus|redis|rabbitmq|one|marathon|chronos|grafana)\b"
)
# The task, and why root does nothing there that a user could turn.
KNOWN = {
    "Submit the application as a job of its user": "runuser",
    "Submit the job once": "runuser",
    "Configure the node exporter to read the metrics": "makes a link, and follows none",
    "Remove the link to the metrics": "removes a name, and follows none",
}


class Loader(yaml.SafeLoader):
    """Takes Ansible's own tags for the text that they are of."""


Loader.add_multi_constructor("!", lambda _loader, _suffix, node: getattr(node, "value", None))


def tasks(items: Any) -> Iterator[dict[str, Any]]:
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict):
            yield item
            for key in ("block", "rescue", "always", "tasks", "pre_tasks", "post_tasks"):
                yield from tasks(item.get(key))


def found() -> Iterator[tuple[str, str]]:
    for path in FILES:
        for task in tasks(yaml.load(path.read_text(encoding="utf-8"), Loader)):
            for key, value in task.items():
                text = yaml.dump(value)
                if WRITERS.fullmatch(str(key)) and (OF_USERS.search(text) or OF_SERVICES.search(text)):
                    yield str(task.get("name")), f"{path.relative_to(ROOT)}: {task.get('name')}"


def test_root_writes_nothing_where_users_and_services_may_write() -> None:
    assert [where for name, where in found() if name not in KNOWN] == []


def test_each_exception_is_needed() -> None:
    assert {name for name, _where in found()} == set(KNOWN)


@pytest.mark.parametrize(
    "path", sorted([*ROOT.glob("plugins/modules/*.py"), *ROOT.glob("plugins/module_utils/**/*.py")]), ids=lambda path: path.name
)
def test_a_module_that_writes_in_a_services_directory_does_it_as_that_service(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    # After the documentation of a module.
    code = text.rpartition("\nimport ")[2] if "RETURN = " in text else text
    writes = re.search(r"open\([^)\n]*, \"[wxa]|os\.(rename|replace|mkdir|makedirs|chown|chmod)\(|shutil\.(copy|move|rmtree|chown)", code)
    if writes and OF_SERVICES.search(code):
        assert re.search("as_user|safe_directory|durable_file", code) or path.name in READERS, path


# They name such a directory and write in another one, of root's alone.
READERS = {"slurm_backup.py", "mesos_backup.py"}
