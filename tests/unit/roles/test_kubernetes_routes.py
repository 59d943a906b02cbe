# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The unit that makes the routes to the pods of other hosts, computed by Ansible."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml

ROLE = Path(__file__).resolve().parents[3] / "roles/kubernetes_node"
# A host of the inventory, and nodes that are in no inventory any more: what these say of themselves is their own word.
ADDRESSES = {
    "gpu1": ["203.0.113.9\nExecStart=/bin/touch /root/seen"],
    "left": ["192.0.2.4"],
    "both": ["192.0.2.5", "2001:db8::5"],
    "six": ["2001:db8::6"],
    "liar": ["192.0.2.7\nExecStart=/bin/touch /root/seen"],
    "newline": ["192.0.2.8\n"],
    "none": [],
}


def node(number: int, name: str) -> dict:
    addresses = [{"type": "InternalIP", "address": address} for address in ADDRESSES[name]]
    return {"metadata": {"name": name}, "spec": {"podCIDR": f"10.244.{number}.0/24"}, "status": {"addresses": addresses}}


def test_what_a_node_says_of_itself_is_an_address_or_nothing(tmp_path: Path) -> None:
    """Of a host of the inventory the plan's address counts, and a route to another node may fail."""
    variables = {
        "__kubernetes_node_plan": {"names": {"w1": "gpu1"}, "addresses": {"w1": "192.0.2.1"}, "pod_network": "10.244.0.0/16"},
        "__kubernetes_node_name": "cp1",
        "__kubernetes_node_nodes": {"resources": [node(number, name) for number, name in enumerate(ADDRESSES)]},
    }
    task = {"ansible.builtin.copy": {"content": "{{ __kubernetes_node_routes }}", "dest": str(tmp_path / "unit"), "mode": "0600"}}
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars_files": [str(ROLE / "vars/main.yml")]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([{**play, "tasks": [task]}]))
    environment = {**os.environ, "ANSIBLE_LOCALHOST_WARNING": "False", "ANSIBLE_PYTHON_INTERPRETER": sys.executable}
    words = [f"{sys.prefix}/bin/ansible-playbook", "-e", yaml.safe_dump(variables, default_flow_style=True), tmp_path / "play.yml"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    starts = [line.partition("=")[2] for line in (tmp_path / "unit").read_text().splitlines() if line.startswith("ExecStart=")]
    assert starts[2:] == [
        "/usr/sbin/ip route replace 10.244.0.0/24 via 192.0.2.1 proto 137",
        "-/usr/sbin/ip route replace 10.244.1.0/24 via 192.0.2.4 proto 137",
    ]
