"""What the cluster publishes: GLUE2, Prometheus, Zabbix, read at their receiving ends."""

from __future__ import annotations

import json
import os
import re
import time
import urllib.parse
from pathlib import Path

import pytest
import yaml
from local import ROOT, Cluster
from slurm_jobs import submit

OWNS = (
    "playbooks/slurm_information.yml",
    "roles/slurm_glue2",
    "roles/slurm_metrics",
    "roles/slurm_status",
    "roles/slurm_zabbix",
    "plugins/filter/glue2.py",
    "plugins/plugin_utils/_information",
    "molecule/slurm_services/monitor.yml",
    "tests/data/information.yml",
    "tests/verify/slurm_services/zabbix_site.py",
)

FILES = ROOT / "roles/slurm_metrics/files"


def query(cluster: Cluster, expression: str) -> dict[str, float]:
    """Values of a Prometheus query by their labels."""
    words = urllib.parse.quote(expression)
    script = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:9090/api/v1/query?query={words}').read().decode())"
    answer = json.loads(cluster.out("monitor", f'python3 -c "{script}"'))
    found = {}
    for sample in answer["data"]["result"]:
        labels = ",".join(f"{key}={value}" for key, value in sorted(sample["metric"].items()) if key not in ("__name__", "job"))
        found[labels] = float(sample["value"][1])
    return found


def until(cluster: Cluster, expression: str, wanted: dict[str, float], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while (seen := query(cluster, expression)) != wanted:
        assert time.monotonic() < deadline, f"{expression} is {seen}, not {wanted}"
        time.sleep(1)


@pytest.fixture
def gpu_job(cluster: Cluster):
    job = submit(cluster, "--gres=gpu:a100:1 --nodelist=gpu1", "sleep 300")
    cluster.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    yield job
    cluster.out("ctl", f"scancel {job}")
    cluster.until("ctl", f"squeue -h -j {job} | wc -l", "0")


def test_prometheus_sees_a_gpu_go_to_a_job(cluster: Cluster, gpu_job: str):
    until(cluster, 'slurm_node_gres_allocated{node="gpu1"}', {"gres=gpu,instance=ctl:9100,node=gpu1,type=a100": 1})
    until(cluster, 'slurm_account_gpus_allocated{account="physics"}', {"account=physics,instance=ctl:9100": 1})
    until(cluster, 'slurm_partition_jobs{partition="all",state="running"}', {"instance=ctl:9100,partition=all,state=running": 1})
    until(cluster, 'count(gpu_device_present{instance="gpu1:9100"} == 1)', {"": 2})
    cluster.out("ctl", f"scancel {gpu_job}")
    until(cluster, 'slurm_node_gres_allocated{node="gpu1"}', {"gres=gpu,instance=ctl:9100,node=gpu1,type=a100": 0})


def test_metrics_and_rules_are_as_prometheus_wants_them(cluster: Cluster):
    for host, name in (("ctl", "slurm_metrics"), ("gpu1", "gpu_metrics")):
        text = cluster.out(host, f"cat /var/lib/slurm-info/{name}.prom")
        checked = cluster.out("monitor", f"promtool check metrics 2>&1 <<'END'\n{text}\nEND\n")
        assert checked == ""
    assert "SUCCESS" in cluster.out("monitor", "promtool check rules /etc/prometheus/slurm_alerts.yml")
    until(cluster, "node_textfile_scrape_error", {"instance=ctl:9100": 0, "instance=gpu1:9100": 0})


def test_dashboard_and_rules_ask_for_metrics_that_exist():
    written = "".join((path).read_text() for path in FILES.glob("*.py"))
    dashboard = json.loads((FILES / "slurm_dashboard.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    rules = yaml.safe_load((FILES / "slurm_alerts.yml").read_text())
    expressions += [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    asked = {name for expression in expressions for name in re.findall(r"\b(?:slurm|gpu)_\w+", expression)}
    assert len(asked) > 10
    assert [name for name in sorted(asked) if f'"{name}"' not in written] == []


def test_glue2_document_is_of_the_live_cluster(cluster: Cluster, gpu_job: str):
    cluster.out("ctl", "systemctl start slurm-glue2")
    document = json.loads(cluster.out("ctl", "cat /var/lib/slurm-info/glue2.json", user="ada"))
    (share,) = [share for share in document["ComputingShare"] if share["Name"] == "all"]
    assert (share["MaxWallTime"], share["RunningJobs"], share["UsedAcceleratorSlots"]) == (7200, 1, 1)
    slots = int(cluster.out("ctl", "sinfo -h -p all -o %C").split("/")[-1])
    assert share["MaxSlotsPerJob"] == slots
    # Cloud nodes are of other kinds, with the same type of GPU.
    (accelerator,) = [entry for entry in document["AcceleratorEnvironment"] if entry["ID"].endswith(":environment:gpu1:a100")]
    assert (accelerator["Name"], accelerator["LogicalAccelerators"]) == ("a100", 2)
    ids = {entity["ID"] for members in document.values() for entity in members}
    assert {target for share in document["ComputingShare"] for target in share["Associations"]["ExecutionEnvironmentID"]} <= ids
    assert document["ComputingService"][0]["Associations"]["AdminDomainID"] == ["example.org"]


def zabbix(cluster: Cluster, arguments: str, template: str = "") -> str:
    program = (Path(__file__).parent / "zabbix_site.py").read_text()
    cluster.out("monitor", f"cat > zabbix_site.py <<'END'\n{program}\nEND\n")
    cluster.out("monitor", f"cat > template.yaml <<'END'\n{template}\nEND\n")
    return cluster.out("monitor", f"python3 zabbix_site.py {arguments} < template.yaml")


def sent(cluster: Cluster, item: str, wanted: str, seconds: float) -> dict[str, str]:
    """What Zabbix has, once it has this value."""
    deadline = time.monotonic() + seconds
    while True:
        cluster.out("monitor", "zabbix_server -R config_cache_reload")
        cluster.run("ctl", "systemctl start slurm-zabbix")
        seen = json.loads(zabbix(cluster, "values"))
        if seen.get(item) == wanted:
            return seen
        assert time.monotonic() < deadline, seen
        time.sleep(2)


@pytest.fixture(scope="module")
def watched(cluster: Cluster):
    """The cluster is a host of the site's Zabbix, which refuses its values before and after."""
    name = cluster.out("ctl", "scontrol show config | sed -n 's/^ClusterName *= //p'")
    psk = (Path(os.environ["LOCAL_SECRETS"]) / "zabbix.psk").read_text().strip()
    template = cluster.out("ctl", "cat /usr/local/share/deephdc/slurm_zabbix_template.yaml")
    zabbix(cluster, f"setup {name} {psk}", template)
    sent(cluster, "slurm.up", "1", seconds=60)
    yield
    zabbix(cluster, f"remove {name}")
    cluster.out("monitor", "zabbix_server -R config_cache_reload")
    deadline = time.monotonic() + 60
    while cluster.run("ctl", "systemctl start slurm-zabbix").returncode == 0:
        assert time.monotonic() < deadline, "Zabbix takes values of a host that it does not have"
        time.sleep(2)


def test_zabbix_gets_the_values_encrypted(cluster: Cluster, watched: None, gpu_job: str):
    seen = sent(cluster, "slurm.gpu.used[a100]", "1", seconds=60)
    assert (seen["slurm.up"], seen["slurm.gpus.used"], seen["slurm.jobs.running"]) == ("1", "1", "1")
    assert cluster.out("ctl", "stat -c '%U %a' /etc/deephdc/zabbix.psk") == "slurm-info 400"


def test_all_three_say_that_slurmctld_is_gone(cluster: Cluster, watched: None):
    cluster.out("ctl", "systemctl stop slurmctld")
    try:
        until(cluster, "slurm_up", {"instance=ctl:9100": 0})
        cluster.run("ctl", "systemctl start slurm-glue2 slurm-zabbix")
        document = json.loads(cluster.out("ctl", "cat /var/lib/slurm-info/glue2.json"))
        assert document["ComputingEndpoint"][0]["ServingState"] == "closed"
        deadline = time.monotonic() + 20
        while json.loads(zabbix(cluster, "values"))["slurm.up"] != "0":
            assert time.monotonic() < deadline
            time.sleep(1)
        assert "slurmctld does not answer" in cluster.out("ctl", "journalctl -u slurm-zabbix -n 5 -o cat")
    finally:
        cluster.out("ctl", "systemctl start slurmctld")
        cluster.until("ctl", "scontrol ping", "UP")
        # Until then SLURM refuses to resume a node.
        cluster.until("ctl", "sinfo -h -N -p all --responding -o %T | grep -xc idle", "2")
    until(cluster, "slurm_up", {"instance=ctl:9100": 1})
    # Their timers would do it within two minutes.
    cluster.out("ctl", "systemctl start slurm-glue2 slurm-zabbix")


def test_missing_gpu_is_told(cluster: Cluster):
    device = cluster.out("gpu1", "awk '/^a100/ {print $3; exit}' /etc/slurm/gpu_devices")
    kind = cluster.out("gpu1", f"stat -c '0x%t 0x%T' {device}")
    cluster.out("ctl", "scontrol update NodeName=gpu1 State=DRAIN Reason=test")
    cluster.out("gpu1", f"rm {device}")
    try:
        deadline = time.monotonic() + 30
        while 0 not in query(cluster, 'gpu_device_present{instance="gpu1:9100"}').values():
            assert time.monotonic() < deadline
            time.sleep(1)
    finally:
        cluster.out("gpu1", f"mknod -m 666 {device} c {kind}")
        cluster.out("ctl", "scontrol update NodeName=gpu1 State=RESUME")
    cluster.until("ctl", "sinfo -h -n gpu1 -p all -o %T", "idle")
