"""What a report of the site's drift says."""

from __future__ import annotations

import json
from pathlib import Path

from local import Cluster
from slurm_operations import CONTROLLER, HOSTS, states, without
from slurm_site import SITE, words

OWNS = (
    "playbooks/slurm_drift.yml",
    "roles/slurm_drift",
    "plugins/plugin_utils/_slurm/drift.py",
)

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


def test_a_report_names_each_difference_and_changes_nothing_and_a_run_of_the_site_heals_all(cluster: Cluster, tmp_path: Path):
    """Who did not answer is named, too."""
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
    assert "The site is not as its inventory says" in words(output)
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

    cluster.playbook(SITE, "--tags", "munge,slurm_cluster,slurm_node", "--skip-tags", "install,validate")
    cluster.playbook("playbooks/slurm_resume.yml", variables={"slurm_resume_nodes": "gpu1"})
    cluster.playbook("playbooks/slurm_drift.yml", variables={"slurm_drift_report": str(report), "slurm_drift_fail": True})
    found = json.loads(report.read_text(encoding="utf-8"))
    assert found["complete"] and sorted(found["compared"]) == sorted(HOSTS) and found["differences"] == []
