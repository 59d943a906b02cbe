"""A node is held while its driver changes: not under a job, and what an administrator took away stays away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from local import ROOT, Cluster
from slurm_jobs import tell
from slurm_operations import CONTROLLER, completed, holding, running, states
from slurm_site import words

OWNS = (
    "roles/slurm_node/meta/manager.yml",
    "roles/slurm_node/tasks/controller.yml",
    "roles/slurm_node/tasks/hold.yml",
    "roles/slurm_node/tasks/re*.yml",
    "roles/slurm_node/vars/main.yml",
)


@pytest.fixture
def rebooting(cluster: Cluster) -> Iterator[None]:
    """gpu1 can be rebooted, and its kernel reports a driver that it has loaded."""
    container, script = f"{cluster.label}-gpu1", ROOT / "tests/verify/gpu_host/own_boots"
    subprocess.run(["docker", "update", "--restart=always", container], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["docker", "cp", "--quiet", str(script), f"{container}:/root/own_boots"], check=True)
    cluster.out(
        "gpu1", "/root/own_boots; mount -t tmpfs none /sys/module; mkdir /sys/module/nvidia; echo 570.86.15 > /sys/module/nvidia/version"
    )
    yield
    subprocess.run(["docker", "update", "--restart=no", container], check=True, stdout=subprocess.DEVNULL)
    cluster.out("gpu1", "/root/own_boots undo; rm /root/own_boots")


@pytest.fixture
def gpu_hosts(tmp_path: Path) -> tuple[str, str]:
    """The nodes are hosts whose driver the collection keeps, too."""
    path = tmp_path / "gpu_hosts.json"
    path.write_text(json.dumps({"gpu_hosts": {"hosts": {"gpu1": {}, "gpu2": {}}}}), encoding="utf-8")
    return "hosts.yml", str(path)


# To take a driver away needs the same reboot as another one, but no packages.
WITHOUT_DRIVER = {
    "nvidia_driver_state": "absent",
    "nvidia_driver_device_root": "/var/lib/gpu_simulator",
    "nvidia_driver_reboot_timeout": 120,
}
HELD = "gpu_hold: nvidia_driver (new GPU driver)"


def test_a_node_with_jobs_keeps_its_driver(cluster: Cluster, rebooting: None, gpu_hosts: tuple[str, str]):
    job = running(cluster, "gpu1")
    boot = cluster.out("gpu1", "cat /proc/sys/kernel/random/boot_id")
    before = states(cluster)["gpu1"]
    named = f"job {job} of ada on gpu1 until 20"

    def run(*arguments: str, succeeds: bool = True, **variables: object) -> str:
        given = {**WITHOUT_DRIVER, "gpu_hold_wait": 0.05, **variables}
        chosen = ("--tags", "nvidia_driver", "--limit", "gpu1", *arguments)
        return words(cluster.playbook("playbooks/gpu_hosts.yml", *chosen, inventories=gpu_hosts, variables=given, succeeds=succeeds))

    assert f"gpu1: the node gpu1 would be drained; up to 0.05 minutes are given to {named}" in run("--check")
    excepted = run("--check", gpu_hold_not={"gpu1": "ada agrees"})
    assert "gpu1 is not held for nvidia_driver, as gpu_hold_not says: ada agrees. Not asked: slurm. What runs there may end." in excepted
    said = run(succeeds=False)
    assert "gpu1 is left as it is, because nvidia_driver can't hold it: after 0.05 minutes (gpu_hold_wait) there still is " + named in said
    assert "It was given back to its users." in said
    assert states(cluster)["gpu1"] == before
    assert cluster.out("gpu1", "cat /proc/sys/kernel/random/boot_id") == boot
    cluster.out("gpu1", 'test -z "$(ls -A /var/lib/deephdc/held)"')
    assert cluster.out(CONTROLLER, f"squeue -h -j {job} -o %T") == "RUNNING"
    tell(cluster, "gpu1", job)
    completed(cluster, job)


def test_a_node_gets_another_driver_when_its_jobs_have_ended(cluster: Cluster, rebooting: None, gpu_hosts: tuple[str, str]):
    job, other = running(cluster, "gpu1"), running(cluster, "gpu2")
    # A run of an earlier version was killed before it gave gpu2 back, and then an administrator had a reason.
    cluster.out("gpu2", "install -D /dev/null /var/lib/deephdc/nvidia_driver_drained")
    cluster.out(CONTROLLER, "scontrol update NodeName=gpu2 State=DRAIN Reason='fan is loud'")
    boot = cluster.out("gpu1", "cat /proc/sys/kernel/random/boot_id")
    seen = []

    def look(line: str, process: subprocess.Popen[str]) -> None:
        if line.startswith("TASK [deephdc.accelerators.slurm_node : Drain the node"):
            cluster.until(CONTROLLER, "sinfo -h -n gpu1 -p all -o '%T %E'", f"draining {HELD}")
            seen.append(cluster.out(CONTROLLER, f"squeue -h -j {job} -o %T"))
            tell(cluster, "gpu1", job)
        elif line.startswith("TASK [deephdc.accelerators.nvidia_driver : Reboot the host") and not seen[1:]:
            seen.append(states(cluster)["gpu1"])

    # These tags alone, as the hold gives its own to what it includes.
    code, output = cluster.watched_playbook(
        "playbooks/gpu_hosts.yml", look, "--tags", "nvidia_driver", inventories=gpu_hosts, variables={**WITHOUT_DRIVER, "gpu_hold_wait": 2}
    )
    assert code == 0, output[-6000:]
    # The reboot is the next host's task, too; that one is not rebooted.
    assert seen == ["RUNNING", f"drained {HELD}"]
    completed(cluster, job)
    assert cluster.out("gpu1", "cat /proc/sys/kernel/random/boot_id") != boot
    assert "gpu2 is away for another reason and stays so: fan is loud" in words(output)
    assert states(cluster) == {"gpu1": "idle none", "gpu2": "draining fan is loud"}
    assert cluster.out(CONTROLLER, f"squeue -h -j {other} -o %T") == "RUNNING"
    for node in ("gpu1", "gpu2"):
        cluster.out(node, "test ! -e /var/lib/deephdc/nvidia_driver_drained && test ! -e /var/lib/deephdc/held/nvidia_driver")

    for node, number in (("gpu2", other), ("gpu1", running(cluster, "gpu1"))):
        tell(cluster, node, number)
        completed(cluster, number)
    cluster.out(CONTROLLER, "scontrol update NodeName=gpu2 State=RESUME")


def test_a_killed_run_is_completed_and_what_an_administrator_took_away_stays_away(
    cluster: Cluster, rebooting: None, gpu_hosts: tuple[str, str], tmp_path: Path
):
    """gpu1 is held and the run ends before its reboot; gpu2 is down for a reason."""

    def kill(line: str, process: subprocess.Popen[str]) -> None:
        if line.startswith("TASK [deephdc.accelerators.nvidia_driver : Reboot the host"):
            os.killpg(process.pid, signal.SIGKILL)

    run = ("--tags", "nvidia_driver", "--limit", "gpu1")
    code, output = cluster.watched_playbook("playbooks/gpu_hosts.yml", kill, *run, inventories=gpu_hosts, variables=WITHOUT_DRIVER)
    assert code == -signal.SIGKILL, output[-3000:]
    assert states(cluster)["gpu1"] == f"drained {HELD}"
    noted = json.loads(cluster.out("gpu1", "cat /var/lib/deephdc/held/nvidia_driver"))
    assert noted["managers"] == {"slurm": "held"}
    # Rebooted meanwhile: there is nothing left to do but to give it back.
    cluster.out("gpu1", "umount /sys/module")
    cluster.playbook("playbooks/gpu_hosts.yml", *run, inventories=gpu_hosts, variables=WITHOUT_DRIVER)
    assert states(cluster)["gpu1"] == "idle none"
    cluster.out("gpu1", "test ! -e /var/lib/deephdc/held/nvidia_driver")

    # As long as slurmd registers, slurmctld takes back what an administrator set down.
    cluster.out("gpu2", "systemctl stop slurmd")
    cluster.out(CONTROLLER, "scontrol update NodeName=gpu2 State=DOWN Reason='fan is loud'")
    said = holding(cluster, tmp_path, "main", "release")
    assert "the node gpu2 was taken away already and keeps its reason: fan is loud" in said
    cluster.out("gpu2", "systemctl start slurmd")
    cluster.until(CONTROLLER, "scontrol -o show node gpu2", "State=IDLE+DRAIN ")
    assert states(cluster)["gpu2"] == "drained fan is loud"
    cluster.out(CONTROLLER, "scontrol update NodeName=gpu2 State=RESUME")


def test_an_administrator_and_a_hold_each_keep_the_node_away(cluster: Cluster, tmp_path: Path):
    """Whoever came first, and whoever gives it back first."""
    limit = ("--limit", "gpu2")
    for first, second in (("main", "drain"), ("drain", "main")):
        for step in (first, second):
            if step == "main":
                holding(cluster, tmp_path, "main")
            else:
                cluster.playbook("playbooks/slurm_drain.yml", *limit, variables={"slurm_drain_reason": "fan is loud"})
        away = states(cluster)["gpu2"]
        assert away.startswith("drained fan is loud + gpu_hold: "), away
        held = away.partition(" + ")[2]
        if first == "main":
            holding(cluster, tmp_path, "release")
            assert states(cluster)["gpu2"] == "drained fan is loud"
            cluster.playbook("playbooks/slurm_resume.yml", *limit)
        else:
            said = words(cluster.playbook("playbooks/slurm_resume.yml", *limit))
            assert f"gpu2 stays drained, because the role gpu_hold holds it ({held})" in said
            assert states(cluster)["gpu2"] == f"drained {held}"
            holding(cluster, tmp_path, "release")
        assert states(cluster)["gpu2"] == "idle none"
