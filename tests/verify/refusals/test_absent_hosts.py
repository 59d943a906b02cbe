# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Hosts outside of a run are read in bounded time, and one that does not answer is named and ends nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from local import ROOT

ANSIBLE = f"{sys.prefix}/bin/ansible-playbook"
PLAYBOOK = """
- name: Read hosts outside of this run
  hosts: all
  gather_facts: false
  tasks:
    - name: Read hosts outside of this run
      ansible.builtin.include_role:
        name: deephdc.accelerators.site_check
        tasks_from: absent_hosts
      vars:
        site_check_absent_hosts: [away1, closed, silent, slow, away2]
        site_check_absent_role: deephdc.accelerators.{{ reader }}
        site_check_absent_seconds: 8
      run_once: true

    - name: Show what each host of the run knows
      ansible.builtin.copy:
        content: "{{ result | to_json }}"
        dest: "{{ outcome }}-{{ inventory_hostname }}"
        mode: "0600"
      vars:
        result:
          unanswered: "{{ site_check_unanswered }}"
          read: "{{ groups.all | map('extract', hostvars) | selectattr(mark, 'defined') | map(attribute='inventory_hostname') }}"
          own: "{{ ansible_facts }}"
"""


@pytest.mark.parametrize(
    ("reader", "mark"),
    [
        ("opennebula_host", "ansible_facts.accelerators"),
        ("slurm_cluster", "ansible_facts.slurm_packages"),
        ("iam_accounts", "__iam_accounts_seen.users"),
    ],
)
def test_who_does_not_answer_is_named_and_all_others_are_read(tmp_path: Path, reader: str, mark: str):
    hung = tmp_path / "hung"
    hung.write_text("#!/bin/sh\nsleep 300\n")
    # Answers once, then hangs: as where a file system of the host does not answer.
    once = tmp_path / "once"
    once.write_text(f'#!/bin/sh\n[ -e {tmp_path}/answered ] && sleep 300\ntouch {tmp_path}/answered\nexec {sys.executable} "$@"\n')
    for program in (hung, once):
        program.chmod(0o755)
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "opennebula_host_device_root": str(tmp_path)}
    hosts = {
        **dict.fromkeys(("here1", "here2", "away1", "away2"), local),
        "closed": {"ansible_host": "127.0.0.1", "ansible_port": 1},
        "silent": {**local, "ansible_python_interpreter": str(hung)},
        "slow": {**local, "ansible_python_interpreter": str(once)},
    }
    configuration = tmp_path / "ansible.cfg"
    configuration.write_text("[defaults]\n")
    inventory, playbook = tmp_path / "hosts.json", tmp_path / "play.yml"
    inventory.write_text(json.dumps({"all": {"hosts": hosts, "children": {"slurm_nodes": {"hosts": {}}}}}), encoding="utf-8")
    playbook.write_text(PLAYBOOK, encoding="utf-8")
    command = [ANSIBLE, "-i", str(inventory), str(playbook), "--limit", "here1:here2", "-e", f"outcome={tmp_path}/outcome"]
    command += ["-e", f"reader={reader}", "-e", f"mark={mark}"]
    begin = time.monotonic()
    # From elsewhere, so that no cache of facts is set.
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"), "ANSIBLE_CONFIG": str(configuration)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout
    assert time.monotonic() - begin < 120
    for host in ("here1", "here2"):
        outcome = json.loads((tmp_path / f"outcome-{host}").read_text())
        assert sorted(outcome["unanswered"]) == ["closed", "silent"], done.stdout
        assert "refused" in outcome["unanswered"]["closed"]
        assert outcome["read"] == ["away1", "away2"], "slow has answered, but was not read"
        # What was read is the other host's, not that of the one that asked.
        assert outcome["own"] == {}
