# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the cloud publishes, by which rights, and that it is what is in use."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from local import Cluster, changed
from openstack_users import Account

OWNS = (
    "playbooks/openstack_information.yml",
    "roles/openstack_information",
)

INFORMATION = "playbooks/openstack_information.yml"
INFO = "/var/lib/openstack-info"
# A new reading: one that the timer began before would answer with what was.
READ = "systemctl stop openstack-information.service; systemctl start openstack-information.service"
GET = "python3 -c \"import urllib.request as r; print(r.urlopen('http://{}', timeout=5).read().decode())\""
GRES = 'openstack_node_gres{}{{gres="gpu",node="lxd1",type="a100"}}'


# What the run brought, removed; a site has no use for that.
REMOVE = f"""
systemctl disable --quiet --now openstack-information.timer
rm -rf {INFO} /etc/systemd/system/openstack-information.* /etc/systemd/system/prometheus-node-exporter.service.d
rm -rf /usr/local/lib/deephdc/openstack_information.py
packages() {{ dpkg-query --show --showformat='${{Package}}\\n' | sort; }}
apt-get purge -q -y $(packages | comm -13 /root/packages-before -)
rm -rf /var/lib/prometheus /root/packages-before
for user in openstack-info prometheus; do ! id $user 2>/dev/null || userdel $user; done
systemctl daemon-reload
"""


@pytest.fixture(scope="module", autouse=True)
def server(cluster: Cluster, ada: Account) -> Iterator[str]:
    """A server of ada with a GPU, and no other."""
    assert ada.ask("answer = removed(*[server.id for server in cloud.compute.servers()])") == []
    made = ada.start("published-by-nobody", "a100")
    assert made["status"] == "ACTIVE", made
    cluster.out("ctl", "dpkg-query --show --showformat='${Package}\\n' | sort > /root/packages-before")
    cluster.playbook(INFORMATION)
    yield made["id"]
    ada.ask("answer = removed(*[server.id for server in cloud.compute.servers()])")
    cluster.out("ctl", REMOVE)


def numbers(cluster: Cluster) -> dict[str, str]:
    """The metrics as a scrape of the node exporter reads them."""
    text = cluster.out("ctl", f"{READ}; {GET.format('127.0.0.1:9100/metrics')}")
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("openstack_"))


def test_a_second_run_changes_nothing(cluster: Cluster) -> None:
    assert changed(cluster.playbook(INFORMATION)) == []


def test_published_numbers_are_those_of_the_server(cluster: Cluster) -> None:
    seen = numbers(cluster)
    assert float(seen["openstack_up"]) == 1
    assert [float(seen[GRES.format(part)]) for part in ("", "_allocated", "_reserved")] == [2, 1, 0]
    assert float(seen['openstack_account_gpus_allocated{account="physics",type="a100"}']) == 1
    assert float(seen['openstack_node_usable{node="lxd1",state="up"}']) == 1
    document = json.loads(cluster.out("ctl", f"cat {INFO}/glue2.json"))
    (manager,) = document["CloudComputingManager"]
    assert (manager["TotalAcceleratorSlots"], manager["UsedAcceleratorSlots"]) == (2, 1)
    (share,) = document["CloudComputingShare"]
    assert (share["Name"], share["RunningVM"], share["UsedAcceleratorSlots"], share["FreeAcceleratorSlots"]) == ("physics", 1, 1, 1)
    (accelerator,) = document["CloudComputingVirtualAccelerator"]
    assert (accelerator["Type"], accelerator["Number"], accelerator["Model"]) == ("GPU", 1, "a100")
    records = json.loads(cluster.out("ctl", f"cat {INFO}/cmdb.json"))
    flavors = {one["data"]["name"]: one["data"] for one in records if one["type"] == "flavor"}
    assert (flavors["a100"]["num_gpus"], flavors["a100"]["free_gpus"], flavors["small"]["num_gpus"]) == (1, 1, 0)
    assert flavors["a100"]["accelerator"]["Type"] == "GPU"
    assert "busybox" in [one["data"]["image_name"] for one in records if one["type"] == "image"]
    assert [one["data"]["host"] for one in records if one["type"] == "accelerator"] == ["lxd1"]


def test_nothing_secret_is_published(cluster: Cluster, server: str) -> None:
    text = cluster.out("ctl", f"cat {INFO}/*")
    read = "import yaml; print(yaml.safe_load(open('/etc/openstack/clouds.yaml'))['clouds']['deephdc-admin']['auth']['password'])"
    password = cluster.out("ctl", f'python3 -c "{read}"')
    assert len(password) > 8 and password not in text
    assert "published-by-nobody" not in text and server not in text


def test_the_account_may_not_read_the_administrators_password(cluster: Cluster) -> None:
    """systemd shows it to the program alone."""
    assert cluster.out("ctl", "systemctl show --property=User --value openstack-information.service") == "openstack-info"
    done = cluster.run("ctl", "runuser --user openstack-info -- cat /etc/openstack/clouds.yaml")
    assert done.returncode != 0 and "Permission denied" in done.stderr
    assert cluster.out("ctl", "stat --format '%U:%G %a' /etc/openstack/clouds.yaml") == "root:root 600"


def test_an_api_that_is_down_is_published_and_no_number_is_made_up(cluster: Cluster) -> None:
    # The timer's readings would come between.
    cluster.out("ctl", f"systemctl stop openstack-information.timer; {READ}")
    before = cluster.out("ctl", f"cat {INFO}/cmdb.json")
    cluster.out("ctl", "systemctl stop placement-api")
    try:
        assert cluster.run("ctl", READ).returncode != 0
        text = cluster.out("ctl", f"cat {INFO}/openstack_metrics.prom")
        assert "openstack_up 0\n" in text and "openstack_node" not in text
        assert cluster.out("ctl", f"cat {INFO}/cmdb.json") == before
    finally:
        cluster.out("ctl", "systemctl start placement-api openstack-information.timer")
    cluster.until("ctl", f"{READ}; cat {INFO}/openstack_metrics.prom", "openstack_up 1\n", 60)


def test_what_is_published_ends_with_the_server(cluster: Cluster, ada: Account, server: str) -> None:
    ada.remove(server)
    seen = numbers(cluster)
    assert float(seen[GRES.format("_allocated")]) == 0
    assert not any("account_gpus" in name for name in seen)
