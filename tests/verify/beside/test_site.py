"""The example of docs/beside.md as its users and its operator see it: jobs behind the firewall, the shared home, clocks, alerts."""

from __future__ import annotations

import json
import time
import urllib.parse

import pytest
from local import Cluster
from slurm_jobs import LOOK, OPEN, ended

OWNS = (
    "molecule/beside",
    "inventories/with_others",
)

MEMBERS = ("head", "login", "gpu1", "gpu2")


def ask(cluster: Cluster, port: int, path: str) -> str:
    """An answer of Prometheus or Alertmanager, which only their own host reaches."""
    script = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{port}{path}').read().decode())"
    return cluster.out("head", f'python3 -c "{script}"')


def query(cluster: Cluster, expression: str) -> dict[str, float]:
    """Values of a Prometheus query by the label ``instance`` or, where it has none, ``node``."""
    answer = json.loads(ask(cluster, 9090, f"/api/v1/query?query={urllib.parse.quote(expression)}"))
    rows = answer["data"]["result"]
    return {row["metric"].get("instance") or row["metric"].get("node", ""): float(row["value"][1]) for row in rows}


def until(cluster: Cluster, expression: str, wanted: dict[str, float], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while (seen := query(cluster, expression)) != wanted:
        assert time.monotonic() < deadline, f"{expression} is {seen}, not {wanted}"
        time.sleep(2)


@pytest.mark.parametrize("name", MEMBERS)
def test_what_nobody_needs_is_dropped(cluster: Cluster, name: str):
    assert "policy drop" in cluster.out(name, "nft list chain inet site input")


def test_others_reach_just_the_ports_of_the_page(cluster: Cluster):
    asked = ("head/6817", "head/6819", "head/2049", "gpu1/6818", "gpu1/22", "head/22", "head/111", "head/9090", "head/9093", "gpu1/9100")
    script = "; ".join(f"timeout 2 bash -c ': </dev/tcp/{port}' 2>/dev/null && echo {port}" for port in asked)
    assert cluster.run("login", script).stdout.split() == ["head/6817", "head/6819", "head/2049", "gpu1/6818", "gpu1/22"]
    # What is closed does listen.
    listening = cluster.out("head", "ss -ltnH")
    assert all(f":{port} " in listening for port in (22, 9090, 9093))


def test_rules_of_containers_stay(cluster: Cluster):
    """The engine's own rules, by which names of hosts are found, live beside the example's table."""
    assert "127.0.0.11" in cluster.out("gpu1", "nft list ruleset")
    cluster.out("gpu1", "getent hosts head")


def test_a_job_with_a_gpu_leaves_its_files_in_the_home(cluster: Cluster):
    script = f"#!/bin/bash\n{LOOK.replace('SECONDS', '0')}\n"
    job = cluster.out(
        "login", f"cat > job.sh <<'END'\n{script}\nEND\nsbatch --parsable --gres=gpu:a100:1 --output=job-%j.out job.sh", "ada"
    )
    (record,) = ended(cluster, job)
    assert (record["State"], record["NodeList"]) == ("COMPLETED", "gpu1")
    assert "gres/gpu:a100=1" in record["AllocTRES"]
    # Read on the login host, in the home that the node wrote to.
    seen = json.loads(cluster.out("login", f"cat /srv/home/ada/job-{job}.out", "ada"))
    assert len(seen) == 2
    assert len([path for path, error in seen.items() if error in OPEN]) == 1
    assert cluster.out("head", f"stat -c %u /srv/home/ada/job-{job}.out") == "2001"
    assert cluster.run("login", f"cat /srv/home/ada/job-{job}.out", "emmy").returncode != 0


@pytest.mark.parametrize(
    "command",
    ["srun -N2 hostname", "salloc -N2 srun hostname", "sbatch --wait -N2 -o two.out --wrap 'srun hostname' >/dev/null && cat two.out"],
)
def test_ports_that_srun_opens_are_let_in(cluster: Cluster, command: str):
    assert sorted(cluster.out("login", f"timeout 60 bash -c {json.dumps(command)} 2>/dev/null", "ada").split()) == ["gpu1", "gpu2"]


def test_clocks_are_compared_with_the_one_host(cluster: Cluster):
    """They are not set: no container may (prepare.yml)."""
    for name in ("login", "gpu1", "gpu2"):
        cluster.until(name, "chronyc -n sources", "^*")


def test_prometheus_reads_slurm_and_gpus(cluster: Cluster):
    until(cluster, 'up{job="slurm"}', {"head": 1, "gpu1": 1, "gpu2": 1})
    until(cluster, "slurm_up", {"head": 1})
    until(cluster, "sum by (node) (slurm_node_gres)", {"gpu1": 2, "gpu2": 1})
    until(cluster, "count by (instance) (gpu_device_present == 1)", {"gpu1": 2, "gpu2": 1})


def test_a_drained_node_and_a_lost_gpu_reach_the_operator(cluster: Cluster):
    """A lost GPU is an alert after two minutes.

    A node that takes no jobs is one after an hour: its alert waits meanwhile.
    """
    device = cluster.out("gpu1", "awk '/^a100/ {print $3; exit}' /etc/slurm/gpu_devices")
    kind = cluster.out("gpu1", f"stat -c '0x%t 0x%T' {device}")
    cluster.out("gpu1", f"rm {device}")
    try:
        cluster.until("head", "sinfo -hN -n gpu1 -o %T", "drain")
        until(cluster, 'ALERTS{alertname="SlurmNodeUnusable",alertstate="pending"}', {"gpu1": 1})
        until(cluster, 'ALERTS{alertname="GpuMissing",alertstate="firing"}', {"gpu1": 1}, seconds=240)
        deadline = time.monotonic() + 60
        while not (told := json.loads(ask(cluster, 9093, "/api/v2/alerts"))):
            assert time.monotonic() < deadline
            time.sleep(2)
        assert device in told[0]["annotations"]["summary"]
        assert [receiver["name"] for receiver in told[0]["receivers"]] == ["operators"]
    finally:
        cluster.out("gpu1", f"mknod -m 666 {device} c {kind}")
        cluster.until("head", "scontrol update NodeName=gpu1 State=RESUME; sinfo -hN -n gpu1 -o %T", "idle")
    until(cluster, 'ALERTS{alertname="GpuMissing",alertstate="firing"}', {})
