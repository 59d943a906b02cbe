# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A program that users have: PyPI's client of Marathon, by TLS with the site's authority, as the account of the site.

PyPI's pymesos, which frameworks are written with, can't be installed any more: its http-parser does not build with Python 3.11.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from local import Cluster
from mesos_site import PORTS, secret

OWNS = ("tests/stand_ins/mesos/marathon_web.py",)

WHERE = "/opt/test-clients"
PROGRAM = """
import json, sys, time
from marathon import MarathonClient, MarathonHttpError
from marathon.models import MarathonApp
account, secret, address = json.load(sys.stdin)
def client(secret):
    return MarathonClient(address, username=account, password=secret, verify="/etc/mesos/ca.pem")
try:
    client("wrong").list_apps()
    print("a wrong secret is taken")
except MarathonHttpError as error:
    print("refused", error.status_code)
marathon = client(secret)
app = MarathonApp(cmd="sleep 600", cpus=0.1, mem=32, gpus=1, instances=1, user="nobody", networks=[{"mode": "host"}])
marathon.create_app("by-client", app)
def until(wanted):
    for _ in range(120):
        tasks = marathon.list_tasks("by-client")
        # Until a deployment has ended, Marathon takes no other change of its application.
        if len([one for one in tasks if one.state == "TASK_RUNNING"]) == wanted == len(tasks) and not marathon.list_deployments():
            return wanted
        time.sleep(0.5)
    return f"not {wanted} tasks: {tasks}"
print(until(1))
marathon.scale_app("by-client", instances=2)
print(until(2))
print(marathon.get_app("by-client").gpus)
marathon.delete_app("by-client", force=True)
for _ in range(120):
    if not marathon.list_apps():
        break
    time.sleep(0.5)
print(len(marathon.list_apps()))
"""
pytestmark = pytest.mark.usefixtures("clean")


def test_pypis_client_of_marathon(cluster: Cluster) -> None:
    """It starts an application with a GPU, has it twice, and removes it; with a wrong secret it is refused."""
    folder = cluster.state / "clients"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), "marathon==0.13.0"], check=True)
    subprocess.run(["docker", "cp", "--quiet", str(folder), f"{cluster.label}-m1:{WHERE}"], check=True)
    given = json.dumps(["marathon", secret(cluster, "marathon_http"), f"https://m1:{PORTS['marathon']}"])
    said = cluster.out(
        "m1", f"cat > /run/test-client.py <<'END'\n{PROGRAM}\nEND\necho '{given}' | PYTHONPATH={WHERE} python3 /run/test-client.py"
    )
    cluster.out("m1", f"rm -r {WHERE} /run/test-client.py")
    assert said.splitlines() == ["refused 401", "1", "2", "1", "0"]
