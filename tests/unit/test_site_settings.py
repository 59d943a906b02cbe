# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The ansible.cfg that sites copy: ansible-core ignores a setting that it does not know without a warning."""

from __future__ import annotations

import configparser
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

FILE = Path(__file__).resolve().parents[2] / "inventories/bare_metal/ansible.cfg"
# Option in the file to the name of the setting and its value, as ansible-config shows them.
WANTED = {
    "inventory": ("DEFAULT_HOST_LIST", (str(FILE.with_name("hosts.yml")),)),
    "callback_result_format": ("result_format", "yaml"),
    "forks": ("DEFAULT_FORKS", 20),
    "interpreter_python": ("INTERPRETER_PYTHON", "auto_silent"),
    "host_key_checking": ("HOST_KEY_CHECKING", True),
    "fact_caching": ("CACHE_PLUGIN", "jsonfile"),
    "fact_caching_connection": ("CACHE_PLUGIN_CONNECTION", "~/.cache/ansible_facts"),
    "fact_caching_timeout": ("CACHE_PLUGIN_TIMEOUT", 604800),
    "pipelining": ("ANSIBLE_PIPELINING", True),
    "any_unparsed_is_failed": ("INVENTORY_ANY_UNPARSED_IS_FAILED", True),
    "host_pattern_mismatch": ("HOST_PATTERN_MISMATCH", "ignore"),
}


def settings(shown: object) -> Iterator[dict]:
    """The settings in what ansible-config shows: those of plugins lie in lists by kind and name."""
    if isinstance(shown, dict) and "name" in shown:
        yield shown
    elif isinstance(shown, (dict, list)):
        for part in shown.values() if isinstance(shown, dict) else shown:
            yield from settings(part)


def read_by_ansible(path: Path) -> set[tuple[str, object]]:
    """Name and value of each setting that ansible-core takes from this file."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    command = [sys.executable, "-m", "ansible.cli.config", "dump", "--only-changed", "--type", "all", "--format", "json"]
    done = subprocess.run(command, env={**environment, "ANSIBLE_CONFIG": str(path)}, check=True, stdout=subprocess.PIPE, text=True)
    found = [shown for shown in settings(json.loads(done.stdout)) if shown["origin"] == str(path)]
    return {(shown["name"], tuple(shown["value"]) if isinstance(shown["value"], list) else shown["value"]) for shown in found}


def test_ansible_core_knows_every_setting() -> None:
    parser = configparser.ConfigParser()
    parser.read(FILE)
    assert [option for section in parser.sections() for option in parser.options(section)] == list(WANTED)
    assert set(WANTED.values()) - read_by_ansible(FILE) == set()


def test_a_setting_that_nobody_knows_is_not_shown(tmp_path: Path) -> None:
    """What the test above relies on."""
    path = tmp_path / "ansible.cfg"
    path.write_text("[defaults]\nforks = 20\ncallback_results_format = yaml\nfork = 20\n")
    assert read_by_ansible(path) == {("DEFAULT_FORKS", 20)}
