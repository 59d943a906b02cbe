"""Nodes that exist only while jobs need them: they come for a job, go when idle, and say why when they do not come.

Real: SLURM, its power saving, containers as nodes, openstacksdk. A stand-in: OpenStack itself (tests/stand_ins/openstack_api.py).
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from local import ROOT, Cluster
from slurm_jobs import OPEN, ended, submit
from slurm_site import forget

OWNS = (
    "playbooks/slurm_cloud_image.yml",
    "roles/slurm_elastic",
    "roles/slurm_node/files/slurm_cloud_devices.sh",
    "plugins/plugin_utils/_slurm/elastic.py",
    "scripts/local-cloud",
    "tests/stand_ins/openstack_api.py",
)

LEAVES = "a host that was made an image has no machine id of its own any more, and SLURM keeps the last reason of a node that failed"

HOOK = "/usr/local/libexec/deephdc/slurm_elastic_hooks/openstack"
CLOUDS = "/etc/deephdc/slurm_elastic/clouds.yaml"
SECRET = "stand-in-secret"

# Which GPUs the job may open, and then on until a test ends it.
HOLD = """for file in /dev/nvidia[0-9]*; do
    python3 -c 'import os, sys
try: os.close(os.open(sys.argv[1], os.O_RDWR)); print(sys.argv[1], 0)
except OSError as error: print(sys.argv[1], error.errno)' $file
done
timeout 120 bash -c 'until [ -e /tmp/end-now ]; do sleep 0.2; done'"""


class Cloud:
    """This machine, which starts containers where the controller's hook asks for nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.image = f"{cluster.label}-node"
        self.process: subprocess.Popen | None = None

    def serve(self, image: str = "") -> None:
        self.stop()
        command = [sys.executable, str(ROOT / "scripts/local-cloud"), self.cluster.label, image or self.image]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def stop(self) -> None:
        if self.process:
            self.process.terminate()
            self.process.wait()

    def send(self, number: signal.Signals) -> None:
        assert self.process
        self.process.send_signal(number)

    def nodes(self) -> list[str]:
        """The containers that this cloud runs."""
        words = ["docker", "ps", "--filter", f"name=^{self.cluster.label}-cloud[0-9]$", "--format", "{{.Names}}"]
        return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.split()


@pytest.fixture(scope="module")
def cloud(cluster: Cluster) -> Iterator[Cloud]:
    """Nodes are made of a snapshot of the host that the playbook prepares."""
    cluster.playbook("playbooks/slurm_cloud_image.yml")
    found = Cloud(cluster)
    subprocess.run(["docker", "commit", f"{cluster.label}-image", found.image], check=True, stdout=subprocess.DEVNULL)
    found.serve()
    yield found
    found.stop()
    subprocess.run(["docker", "rmi", "--force", found.image], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # The host is bare again.
    subprocess.run(["docker", "rm", "--force", "--volumes", f"{cluster.label}-image"], check=True, stdout=subprocess.DEVNULL)
    forget(cluster, "image")
    simulator = str(ROOT / "playbooks/gpu_simulator.yml")
    cluster.playbook("molecule/shared/create.yml", simulator, "--limit", "localhost,image")


@pytest.fixture(scope="module")
def openstack(cluster: Cluster) -> Iterator[None]:
    """The stand-in, on the controller."""
    api = (ROOT / "tests/stand_ins/openstack_api.py").read_text(encoding="utf-8")
    words = ["docker", "exec", "-i", f"{cluster.label}-ctl", "sh", "-c", "cat >/run/openstack_api.py"]
    subprocess.run(words, input=api, text=True, check=True)
    state(cluster)
    cluster.out("ctl", "systemd-run --unit stand-in-openstack python3 /run/openstack_api.py 5000 /run/openstack.json")
    cluster.until("ctl", "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:5000/v3\").status)'", "200")
    yield
    cluster.out("ctl", "systemctl stop stand-in-openstack; rm /run/openstack_api.py /run/openstack.json")


def state(cluster: Cluster, **changes: object) -> None:
    """What the stand-in for OpenStack has, and does."""
    text = json.dumps({"password": SECRET, "quota": 1, "error": None, "servers": [], **changes})
    cluster.out("ctl", f"cat >/run/openstack.json <<'END'\n{text}\nEND")


def servers(cluster: Cluster) -> list[dict]:
    return json.loads(cluster.out("ctl", "cat /run/openstack.json"))["servers"]


def shown(node: str) -> str:
    return f"scontrol --oneliner show node {node}"


def is_off(cluster: Cluster, node: str) -> None:
    cluster.until("ctl", f"sinfo -h -n {node} -p cloud,openstack -o %T", "idle~")


def gets_another_chance(cluster: Cluster, node: str) -> None:
    """The pause of 4 s goes by; a timer would start the unit within half a minute."""
    cluster.until("ctl", f"systemctl start slurm_elastic; {shown(node)} | grep -c ' State=DOWN' || true; sleep 1", "0")
    is_off(cluster, node)


def test_the_cluster_has_its_cloud_nodes_while_none_is_there(cluster: Cluster, cloud: Cloud):
    is_off(cluster, "cloud1")
    is_off(cluster, "cloud2")
    assert cluster.out("login", "sinfo -h -p cloud -o '%N %T %G'", user="ada") == "cloud[1-2] idle~ gpu:a100:1"
    assert cloud.nodes() == []
    # What the image holds is of no node's own.
    assert cluster.run("image", "test -e /etc/slurm/gpu_devices").returncode != 0
    assert cluster.out("image", "systemctl is-enabled slurmd; systemctl is-active slurmd || true").split() == ["enabled", "inactive"]


def test_a_job_brings_its_node_and_the_idle_node_goes(cluster: Cluster, cloud: Cloud):
    """Even though slurmctld is restarted while the hook works."""
    cloud.send(signal.SIGSTOP)
    job = submit(cluster, "--partition=cloud --gres=gpu:a100:1 --nodelist=cloud1", HOLD)
    cluster.until("ctl", "ls /var/lib/deephdc/slurm_elastic/requests", "resume.cloud1")
    cluster.out("ctl", "systemctl restart slurmctld")
    cluster.until("ctl", "scontrol ping", "is UP")
    cloud.send(signal.SIGCONT)

    cluster.until("ctl", f"squeue -h -j {job} -o %T:%N", "RUNNING:cloud1")
    assert cloud.nodes() == [f"{cluster.label}-cloud1"]
    opened = cluster.until("cloud1", f"cat /tmp/job-{job}_4294967294.out", "nvidia")
    assert [int(line.split()[1]) in OPEN for line in opened.splitlines()] == [True]
    # The node found out itself what it has, so that its health check and prolog can look at it.
    assert cluster.out("cloud1", "grep -v '^#' /etc/slurm/gpu_devices") == "a100 cloud1 /dev/nvidia0 0"

    cluster.out("cloud1", "touch /tmp/end-now")
    (row,) = ended(cluster, job)
    assert (row["State"], row["NodeList"]) == ("COMPLETED", "cloud1")
    assert "gres/gpu:a100=1" in row["AllocTRES"]
    is_off(cluster, "cloud1")
    assert cloud.nodes() == []
    assert "NodeAddr=cloud1 " in cluster.out("ctl", shown("cloud1"))


def test_a_node_that_can_not_be_started_is_down_with_the_reason_and_comes_back(cluster: Cluster, cloud: Cloud):
    cloud.serve("deephdc.accelerators/no-such-image")
    job = submit(cluster, "--partition=cloud --gres=gpu:a100:1 --nodelist=cloud2", "echo ran")
    seen = cluster.until("ctl", shown("cloud2"), "no-such-image")
    assert " State=DOWN" in seen
    assert " Reason=elastic: " in seen
    assert cluster.out("ctl", f"squeue -h -j {job} -o %T") == "PENDING"
    cloud.serve()
    gets_another_chance(cluster, "cloud2")
    # SLURM lets a requeued job wait two minutes.
    cluster.out("ctl", f"scontrol update JobId={job} StartTime=now")
    (row,) = ended(cluster, job)
    assert (row["State"], row["NodeList"]) == ("COMPLETED", "cloud2")
    is_off(cluster, "cloud2")


def test_a_server_that_never_registers_is_deleted_and_said(cluster: Cluster, openstack: None):
    job = submit(cluster, "--partition=openstack --gres=gpu:a100:1", "echo ran")
    cluster.until("ctl", "cat /run/openstack.json", '"name": "vm1"')
    (server,) = servers(cluster)
    assert server["metadata"] == {"deephdc-slurm-cluster": f"services_{cluster.release}"}
    assert server["asked"]["key_name"] == "operator"
    seen = cluster.until("ctl", shown("vm1"), "Reason=elastic: it did not register with the controller within ResumeTimeout")
    assert " State=DOWN" in seen
    assert servers(cluster) == []
    assert cluster.out("ctl", f"squeue -h -j {job} -o %T") == "PENDING"
    cluster.out("login", f"scancel {job}", user="ada")
    gets_another_chance(cluster, "vm1")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"quota": 0}, "OpenStack refuses: Quota exceeded for instances: Requested 1, but already used all"),
        ({"error": "No valid host was found."}, "OpenStack could not make the server: No valid host was found."),
        ({"password": "another"}, "OpenStack refuses the credentials in slurm_elastic_openstack_clouds"),
    ],
)
def test_the_clouds_refusals_are_sentences(cluster: Cluster, openstack: None, changes: dict, sentence: str):
    state(cluster, **changes)
    done = cluster.run("ctl", f"runuser -u slurm -- {HOOK} resume vm1")
    assert (done.returncode, done.stdout.strip()) == (1, f"failed vm1: {sentence}")
    assert servers(cluster) == []


def test_servers_of_others_are_left_alone(cluster: Cluster, openstack: None):
    other = {"id": "abc", "name": "vm1", "status": "ACTIVE", "metadata": {}}
    state(cluster, servers=[other])
    cluster.out("ctl", f"runuser -u slurm -- {HOOK} suspend vm1")
    assert servers(cluster) == [other]


def test_the_clouds_password_is_nowhere_else(cluster: Cluster):
    assert cluster.out("ctl", f"stat -c '%U %a' {CLOUDS}") == "slurm 600"
    assert cluster.out("ctl", f"grep -rlF {SECRET} /etc /var/log /var/lib/deephdc") == CLOUDS


def test_a_node_without_a_hook_is_refused_before_a_host_is_touched(cluster: Cluster):
    nodes = [{"names": "cloud[1-2]", "cpus": 1, "memory_mib": 3072}]
    output = cluster.playbook("playbooks/slurm.yml", variables={"slurm_cluster_cloud_nodes": nodes}, succeeds=False)
    assert "slurm_cluster_cloud_nodes: cloud[1-2] has no hook, so nothing could start it" in " ".join(output.split())
    assert "Read CPUs" not in output
