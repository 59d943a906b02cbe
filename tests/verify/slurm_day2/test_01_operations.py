"""What operators do to nodes while jobs run: drain, resume, remove; and what a report of the site's drift says."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from local import ROOT, Cluster, changed
from slurm_jobs import UNTIL_TOLD, submit, tell

OWNS = (
    "playbooks/slurm_drain.yml",
    "playbooks/slurm_drift.yml",
    "playbooks/slurm_remove_node.yml",
    "playbooks/slurm_resume.yml",
    "roles/slurm_drift",
    "roles/slurm_node/meta/manager.yml",
    "roles/slurm_node/tasks/controller.yml",
    "roles/slurm_node/tasks/hold.yml",
    "roles/slurm_node/tasks/re*.yml",
    "roles/slurm_node/vars/main.yml",
    "roles/slurm_operations",
    "plugins/filter/slurm_operations.py",
    "plugins/module_utils/_slurm/nodes.py",
    "plugins/modules/slurm_node_drain.py",
    "plugins/plugin_utils/_slurm/drift.py",
)

CONTROLLER = "ctl1"
HOSTS = ("ctl1", "ctl2", "login", "gpu1", "gpu2")


def states(cluster: Cluster) -> dict[str, str]:
    lines = cluster.out(CONTROLLER, "sinfo -h -N -p all -o '%N|%T|%E'").splitlines()
    # SLURM adds to a reason, and a star to the state, when the node stops answering.
    return {name: f"{state.rstrip('*')} {reason.split(' : ')[0]}" for name, state, reason in (line.split("|") for line in lines)}


def running(cluster: Cluster, node: str) -> str:
    job = submit(cluster, f"--gres=gpu:a100:1 --nodelist={node}", UNTIL_TOLD)
    cluster.until(CONTROLLER, f"squeue -h -j {job} -o %T", "RUNNING")
    return job


def told(output: str) -> str:
    return " ".join(output.split())


def completed(cluster: Cluster, job: str) -> None:
    cluster.until(CONTROLLER, f"sacct -X -P -n -j {job} -o State", "COMPLETED")


def without(host: str, directory: Path) -> tuple[str, str]:
    """Inventories that say of a host what is right no more, as when it is gone."""
    path = directory / "gone.yml"
    path.write_text(json.dumps({"all": {"children": {"local_hosts": {"hosts": {host: {"ansible_host": "gone"}}}}}}), encoding="utf-8")
    return "hosts.yml", str(path)


def test_draining_waits_for_jobs_and_ends_none(cluster: Cluster):
    job = running(cluster, "gpu1")
    cluster.out(CONTROLLER, "scontrol update NodeName=gpu2 State=DRAIN Reason='fan is loud'")
    request = {"slurm_drain_nodes": ["slurm_nodes"], "slurm_drain_reason": "new power supply", "slurm_drain_wait": 2}

    output = cluster.playbook("playbooks/slurm_drain.yml", variables=request, succeeds=False)
    assert f"After 2 s there is still job {job} of ada on gpu1 until" in told(output)
    assert "gpu2 was drained already and keeps its reason: fan is loud" in told(output)
    assert states(cluster) == {"gpu1": "draining new power supply", "gpu2": "drained fan is loud"}
    assert cluster.out(CONTROLLER, f"squeue -h -j {job} -o %T") == "RUNNING"

    tell(cluster, "gpu1", job)
    completed(cluster, job)
    assert changed(cluster.playbook("playbooks/slurm_drain.yml", variables={**request, "slurm_drain_wait": 30})) == []
    assert states(cluster)["gpu1"] == "drained new power supply"


def test_a_request_without_reason_is_refused(cluster: Cluster):
    output = cluster.playbook("playbooks/slurm_drain.yml", "--limit", "gpu1", succeeds=False)
    assert "slurm_drain_reason is not set" in told(output)
    variables = {"slurm_drain_reason": "gpu_hold: mine"}
    output = cluster.playbook("playbooks/slurm_drain.yml", "--limit", "gpu1", variables=variables, succeeds=False)
    assert "slurm_drain_reason begins with 'gpu_hold:'" in told(output)


def test_resuming_brings_back_what_can_be_and_names_the_rest(cluster: Cluster):
    """Drained by the test before."""
    cluster.out("gpu2", "rm /dev/nvidia1")
    output = cluster.playbook("playbooks/slurm_resume.yml", "--limit", "slurm_nodes", succeeds=False)
    assert "gpu2 stays as it is, because a100 at 0000:02:00.0 (/dev/nvidia1) is missing" in told(output)
    assert states(cluster) == {"gpu1": "idle none", "gpu2": "drained fan is loud"}

    cluster.out("gpu2", "systemd-tmpfiles --create")
    cluster.playbook("playbooks/slurm_resume.yml", variables={"slurm_resume_nodes": ["gpu[1-2]"]})
    assert states(cluster) == {"gpu1": "idle none", "gpu2": "idle none"}
    assert changed(cluster.playbook("playbooks/slurm_resume.yml", "--limit", "slurm_nodes")) == []


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
        words = ("--tags", "nvidia_driver", "--limit", "gpu1", *arguments)
        return told(cluster.playbook("playbooks/gpu_hosts.yml", *words, inventories=gpu_hosts, variables=given, succeeds=succeeds))

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
    assert "gpu2 is away for another reason and stays so: fan is loud" in told(output)
    assert states(cluster) == {"gpu1": "idle none", "gpu2": "draining fan is loud"}
    assert cluster.out(CONTROLLER, f"squeue -h -j {other} -o %T") == "RUNNING"
    for node in ("gpu1", "gpu2"):
        cluster.out(node, "test ! -e /var/lib/deephdc/nvidia_driver_drained && test ! -e /var/lib/deephdc/held/nvidia_driver")

    for node, number in (("gpu2", other), ("gpu1", running(cluster, "gpu1"))):
        tell(cluster, node, number)
        completed(cluster, number)
    cluster.out(CONTROLLER, "scontrol update NodeName=gpu2 State=RESUME")


def holding(cluster: Cluster, directory: Path, *entries: str) -> str:
    """What a role says that disturbs gpu2 by itself."""
    tasks = [
        {
            "ansible.builtin.include_role": {"name": "deephdc.accelerators.gpu_hold", "tasks_from": entry},
            "vars": {"gpu_hold_holder": "nvidia_driver"},
        }
        for entry in entries
    ]
    play = directory / "hold.json"
    play.write_text(json.dumps([{"hosts": "gpu2", "gather_facts": False, "tasks": tasks}]), encoding="utf-8")
    return told(cluster.playbook(str(play)))


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


FILES = "/etc/munge/munge.key /etc/slurm/* /etc/default/slurm* /var/lib/deephdc/* /var/lib/slurm/slurmd/conf-cache/* /etc/pam.d/sshd"


def snapshot(cluster: Cluster) -> dict[str, str]:
    """All that a comparison must leave as it is: files with their times, processes, accounts, nodes."""
    seen = {"states": str(states(cluster)), "accounts": cluster.out(CONTROLLER, "sacctmgr -P -n show associations")}
    for host in HOSTS:
        files = f"$(ls -d {FILES} 2>/dev/null)"
        units = "munge slurmdbd slurmctld slurmd mariadb"
        seen[host] = cluster.out(
            host, f"sha256sum {files} 2>/dev/null; stat -c '%n %U %a %y %z' {files}; systemctl show -p ActiveState,MainPID {units}"
        )
        seen[host] += cluster.out(host, "dpkg-query -W | sha256sum")
    return seen


def test_a_report_names_each_difference_and_who_did_not_answer_and_changes_nothing(cluster: Cluster, tmp_path: Path):
    report = tmp_path / "drift.json"
    wanted = {"slurm_drift_report": str(report), "slurm_drift_fail": True}
    cluster.out(CONTROLLER, "echo '# by hand' >> /etc/slurm/slurm.conf; sacctmgr -iQ add account rogue")
    cluster.out(CONTROLLER, "scontrol update NodeName=gpu1 State=DRAIN Reason='fan is loud'")
    cluster.out("gpu1", "systemctl stop slurmd")
    secret = cluster.out(
        "gpu2", "cp -p /etc/munge/munge.key /root/munge.key; openssl rand 64 > /etc/munge/munge.key; base64 -w0 /etc/munge/munge.key"
    )
    try:
        before = snapshot(cluster)
        gone = without("login", tmp_path)
        output = cluster.playbook("playbooks/slurm_drift.yml", inventories=gone, variables=wanted, succeeds=False)
        assert snapshot(cluster) == before
    finally:
        cluster.out("gpu2", "cp -p /root/munge.key /etc/munge/munge.key; rm /root/munge.key")
        cluster.out(CONTROLLER, "sacctmgr -iQ delete account rogue; sed -i '/^# by hand$/d' /etc/slurm/slurm.conf")
    assert "The site is not as its inventory says" in told(output)
    assert secret not in output and secret not in report.read_text(encoding="utf-8")
    assert report.stat().st_mode & 0o777 == 0o600
    found = json.loads(report.read_text(encoding="utf-8"))
    assert found["differs"] and not found["complete"] and found["not_reached"] == ["login"]
    assert sorted([*found["compared"], "login"]) == sorted(HOSTS)
    named = {(entry["host"], entry["kind"], name) for entry in found["differences"] for name in entry["names"]}
    assert named == {
        (CONTROLLER, "file", "/etc/slurm/slurm.conf"),
        (CONTROLLER, "unit", "slurmctld"),
        (CONTROLLER, "policy", "account rogue"),
        ("gpu1", "unit", "slurmd"),
        ("gpu1", "node", "gpu1"),
        ("gpu2", "file", "/etc/munge/munge.key"),
        ("gpu2", "unit", "munge"),
    }
    assert "-# by hand" in next(entry["diff"] for entry in found["differences"] if entry["names"] == ["/etc/slurm/slurm.conf"])
    assert any("gpu1: it takes no jobs" in line and "fan is loud" in line for line in found["summary"])


def test_after_a_run_of_the_site_nothing_differs(cluster: Cluster, tmp_path: Path):
    report = tmp_path / "drift.json"
    cluster.playbook("playbooks/slurm.yml", "--tags", "munge,slurm_cluster,slurm_node", "--skip-tags", "install,validate")
    cluster.playbook("playbooks/slurm_resume.yml", variables={"slurm_resume_nodes": "gpu1"})
    cluster.playbook("playbooks/slurm_drift.yml", variables={"slurm_drift_report": str(report), "slurm_drift_fail": True})
    found = json.loads(report.read_text(encoding="utf-8"))
    assert found["complete"] and sorted(found["compared"]) == sorted(HOSTS) and found["differences"] == []


def test_a_node_with_jobs_or_the_last_one_is_not_removed(cluster: Cluster):
    job = running(cluster, "gpu2")
    output = cluster.playbook("playbooks/slurm_remove_node.yml", variables={"slurm_remove_nodes": "gpu2"}, succeeds=False)
    assert f"Not removed, because there is still job {job} of ada on gpu2" in told(output)
    output = cluster.playbook("playbooks/slurm_remove_node.yml", variables={"slurm_remove_nodes": "gpu[1-2]"}, succeeds=False)
    assert "Not without gpu1, gpu2: The inventory has no host in the group slurm_nodes" in told(output)
    assert states(cluster) == {"gpu1": "idle none", "gpu2": "draining leaves the cluster"}
    tell(cluster, "gpu2", job)
    completed(cluster, job)


def test_a_node_that_is_gone_is_removed_and_cleaned_when_it_is_back(cluster: Cluster, tmp_path: Path):
    """With a run that is killed before; the last run completes what is left."""
    accounts = cluster.out(CONTROLLER, "sacctmgr -P -n show associations")
    before = cluster.out("gpu2", "cat /etc/default/slurmd.before-deephdc")
    variables = {"slurm_remove_nodes": ["gpu2"]}
    gone = without("gpu2", tmp_path)
    chance = random.SystemRandom()
    print(
        "killed during:",
        cluster.killed_playbook("playbooks/slurm_remove_node.yml", chance, tasks=30, inventories=gone, variables=variables),
    )
    output = cluster.playbook("playbooks/slurm_remove_node.yml", inventories=gone, variables=variables)
    assert "gpu2 is out of the cluster but did not answer, so nothing was taken away there" in told(output)
    assert list(states(cluster)) == ["gpu1"]
    assert "gpu2" not in cluster.out(CONTROLLER, "cat /var/lib/deephdc/slurm_accelerators /etc/slurm/slurm.conf /etc/slurm/gres.conf")
    assert cluster.out("gpu2", "systemctl is-active slurmd") == "active"

    output = cluster.playbook("playbooks/slurm_remove_node.yml", variables=variables)
    assert "Take it out of slurm_nodes in the inventory now" in told(output)
    assert cluster.run("gpu2", "systemctl is-enabled slurmd munge").stdout.split() == ["disabled", "disabled"]
    assert cluster.run("gpu2", "systemctl is-active slurmd munge").stdout.split() == ["inactive", "inactive"]
    assert cluster.out("gpu2", "cat /etc/default/slurmd") == before
    left = "grep -rls 'Made by deephdc' /etc /usr/local | grep -v gpu_simulator; ls /etc/munge"
    assert cluster.run("gpu2", left).stdout == "", "ours"
    assert cluster.out("gpu2", "dpkg-query -W -f '${Status}' slurmd") == "install ok installed"
    assert cluster.out(CONTROLLER, "sacctmgr -P -n show associations") == accounts
    assert changed(cluster.playbook("playbooks/slurm_remove_node.yml", variables=variables)) == []


def test_a_host_that_is_no_node_has_no_jobs_to_wait_for(cluster: Cluster, tmp_path: Path):
    """slurmd is installed there."""
    assert "gpu2: SLURM has no node gpu2; no job runs there." in holding(cluster, tmp_path, "main")
    assert json.loads(cluster.out("gpu2", "cat /var/lib/deephdc/held/nvidia_driver"))["managers"] == {"slurm": "none"}
    holding(cluster, tmp_path, "release")
    cluster.out("gpu2", "test ! -e /var/lib/deephdc/held/nvidia_driver")


def test_a_removed_node_can_be_added_again(cluster: Cluster):
    cluster.playbook("playbooks/slurm.yml", "--skip-tags", "install,validate", "--limit", "gpu2")
    cluster.until(CONTROLLER, "sinfo -h -N -p all -o '%N %T'", "gpu2 idle")
