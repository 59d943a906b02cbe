# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the cluster publishes, by which rights, and that it is what is in use; and the report of differences."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from local import Cluster, changed
from mesos_site import MASTERS, app, secrets, start

OWNS = (
    "playbooks/mesos_drift.yml",
    "playbooks/mesos_information.yml",
    "roles/mesos_drift",
    "roles/mesos_information",
    "plugins/plugin_utils/_mesos/drift.py",
)

INFORMATION, DRIFT = "playbooks/mesos_information.yml", "playbooks/mesos_drift.yml"
INFO = "/var/lib/mesos-info"
GET = "python3 -c \"import urllib.request as r; print(r.urlopen('http://127.0.0.1:9100/metrics', timeout=5).read().decode())\""
GRES = 'mesos_node_gres{}{{gres="gpu",node="gpu1",type="a100"}}'
pytestmark = pytest.mark.usefixtures("clean")
# What the run brought, removed; a site has no use for that.
REMOVE = f"""
systemctl disable --quiet --now mesos-information.timer
rm -rf {INFO} /etc/systemd/system/mesos-information.* /etc/systemd/system/prometheus-node-exporter.service.d
rm -rf /usr/local/lib/deephdc/mesos_information.py
packages() {{ dpkg-query --show --showformat='${{Package}}\\n' | sort; }}
apt-get purge -q -y $(packages | comm -13 /root/packages-before -)
rm -rf /var/lib/prometheus /root/packages-before
for user in mesos-info prometheus; do ! id $user 2>/dev/null || userdel $user; done
systemctl daemon-reload
"""


@pytest.fixture(scope="module")
def published(cluster: Cluster) -> Iterator[None]:
    """The cluster is published for the time of these tests."""
    for host in MASTERS:
        cluster.out(host, "dpkg-query --show --showformat='${Package}\\n' | sort > /root/packages-before")
    cluster.playbook(INFORMATION)
    yield
    for host in MASTERS:
        cluster.out(host, REMOVE)


def numbers(cluster: Cluster, host: str = "m1") -> dict[str, str]:
    """The metrics as a scrape of the node exporter reads them."""
    text = cluster.out(host, f"systemctl start mesos-information.service; {GET}")
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("mesos_"))


@pytest.mark.usefixtures("published")
def test_published_numbers_are_those_of_the_task(cluster: Cluster) -> None:
    assert changed(cluster.playbook(INFORMATION)) == []
    start(cluster, app("published-by-nobody", "sleep 600", gpus=1, constraints=[["hostname", "LIKE", "gpu1"]]))
    for host in MASTERS:
        seen = numbers(cluster, host)
        assert float(seen["mesos_up"]) == 1
        assert [float(seen[GRES.format(part)]) for part in ("", "_allocated")] == [2, 1], host
        assert float(seen['mesos_account_gpus_allocated{account="marathon",type="a100"}']) == 1
    document = json.loads(cluster.out("m1", f"cat {INFO}/glue2.json"))
    (manager,) = document["ComputingManager"]
    assert (manager["TotalAcceleratorSlots"], manager["UsedAcceleratorSlots"]) == (3, 1)
    records = {one["_id"]: one["data"] for one in json.loads(cluster.out("m1", f"cat {INFO}/cmdb.json"))}
    flavor = records["urn:mesos:test:a100"]
    assert (flavor["total_gpus"], flavor["used_gpus"], flavor["free_gpus"]) == (2, 1, 1)
    assert records["urn:mesos:test:marathon"]["service_type"] == "eu.indigo-datacloud.marathon"
    text = cluster.out("m1", f"cat {INFO}/*")
    assert "published-by-nobody" not in text and not [one for one in secrets(cluster) if one in text]


@pytest.mark.usefixtures("published")
def test_the_account_may_not_read_the_secrets(cluster: Cluster) -> None:
    """systemd shows them to the program alone."""
    assert cluster.out("m1", "systemctl show --property=User --value mesos-information.service") == "mesos-info"
    done = cluster.run("m1", "runuser --user mesos-info -- cat /etc/mesos/credentials.json")
    assert done.returncode != 0 and "Permission denied" in done.stderr


@pytest.mark.usefixtures("published")
def test_a_cluster_without_a_leader_is_published_and_no_number_is_made_up(cluster: Cluster) -> None:
    before = cluster.out("m1", f"cat {INFO}/cmdb.json")
    for host in MASTERS:
        cluster.out(host, "systemctl stop mesos-master")
    try:
        assert cluster.run("m1", "systemctl start mesos-information.service").returncode != 0
        text = cluster.out("m1", f"cat {INFO}/mesos_metrics.prom")
        assert "mesos_up 0\n" in text and "mesos_node" not in text
        assert cluster.out("m1", f"cat {INFO}/cmdb.json") == before
    finally:
        for host in MASTERS:
            cluster.out(host, "systemctl start mesos-master")
    cluster.until("m1", f"systemctl start mesos-information.service; cat {INFO}/mesos_metrics.prom", "mesos_up 1\n", 90)


def test_differences_are_reported_and_nothing_is_changed(cluster: Cluster, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    wanted = {"mesos_drift_report": str(report), "mesos_drift_fail": True}
    cluster.playbook(DRIFT, variables=wanted)
    found = json.loads(report.read_text(encoding="utf-8"))
    assert (found["differs"], found["complete"], found["summary"]) == (False, True, [])
    cluster.out("gpu2", "echo '# by hand' >> /etc/default/mesos-agent")
    try:
        cluster.playbook(DRIFT, variables=wanted, succeeds=False)
        found = json.loads(report.read_text(encoding="utf-8"))
        assert found["differs"] and [one["host"] for one in found["differences"] if one["kind"] == "file"] == ["gpu2"]
        assert "# by hand" in cluster.out("gpu2", "tail -1 /etc/default/mesos-agent")
        assert not [one for one in secrets(cluster) if one in report.read_text(encoding="utf-8")]
    finally:
        cluster.playbook("playbooks/mesos.yml", "--limit", "gpu2")
