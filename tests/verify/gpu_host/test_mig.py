"""MIG layouts through the role, with the stand-in for the nvidia-smi that makes instances. After a change of the driver: test_reboot.py."""

from __future__ import annotations

from local import Cluster, changed

OWNS = (
    "roles/nvidia_driver/tasks/divide.yml",
    "roles/nvidia_driver/tasks/layouts.yml",
    "roles/nvidia_driver/tasks/mig*.yml",
    "roles/nvidia_driver/templates",
    "plugins/module_utils/_gpu/bounded_command.py",
    "plugins/module_utils/_gpu/nvidia.py",
    "plugins/module_utils/_gpu/nvidia_smi.py",
    "plugins/module_utils/_host/durable_file.py",
    "plugins/module_utils/_nvidia_driver/mig.py",
    "plugins/modules/nvidia_mig.py",
    "tests/stand_ins/nvidia-smi-mig",
    "tests/verify/gpu_host/conftest.py",
)

PLAYBOOK = "playbooks/gpu_hosts.yml"
UNIT = "deephdc-nvidia-mig.service"
LAYOUT = [{"devices": ["0000:01:00.0"], "instances": {"1g.10gb": 1, "2g.20gb": 1, "3g.40gb": 1}}]
INSTANCES = ["1g.10gb", "2g.20gb", "3g.40gb"]
HOLDER = "import os, time; os.open('/dev/nvidia0', os.O_PATH); time.sleep(600)"


def play(cluster: Cluster, layouts: list[dict[str, object]], succeeds: bool = True) -> str:
    variables = {"nvidia_driver_image": False, "nvidia_driver_mig": layouts}
    return cluster.playbook(PLAYBOOK, "--tags", "mig", variables=variables, succeeds=succeeds)


def test_layouts_are_made_and_kept_over_use_and_boot(cluster: Cluster, dividing_gpus):
    assert any("Bring idle GPUs to their MIG layouts" in task for task in changed(play(cluster, LAYOUT)))
    assert dividing_gpus.instances() == INSTANCES
    assert dividing_gpus.instances(dividing_gpus.second) == []

    # In use: nothing must be done for the layout that it has, and another one is refused for both GPUs.
    cluster.out("gpu1", f'systemd-run --quiet --unit=holder python3 -c "{HOLDER}"')
    try:
        cluster.until("gpu1", "ls -l /proc/$(systemctl show -P MainPID holder)/fd", "/dev/nvidia0")
        assert changed(play(cluster, LAYOUT)) == []
        said = " ".join(play(cluster, [{"devices": ["a100"], "instances": {"1g.10gb": 7}}], succeeds=False).split())
    finally:
        cluster.out("gpu1", "systemctl stop holder.service")
    assert "0000:01:00.0 (a100) keeps its MIG layout, as it is in use: python3 (process " in said
    assert "has /dev/nvidia0 open" in said
    assert dividing_gpus.instances() == INSTANCES
    assert dividing_gpus.instances(dividing_gpus.second) == []

    # The boot makes them again, and leaves those that are there.
    assert cluster.out("gpu1", f"systemctl is-enabled {UNIT}") == "enabled"
    dividing_gpus.lose()
    cluster.out("gpu1", f"systemctl restart {UNIT}")
    assert dividing_gpus.instances() == INSTANCES
    before = cluster.out("gpu1", f"cat {dividing_gpus.state}")
    cluster.out("gpu1", f"systemctl restart {UNIT}")
    assert cluster.out("gpu1", f"cat {dividing_gpus.state}") == before

    # The host is given back where it could not be divided.
    cluster.out("gpu1", 'test -z "$(ls -A /var/lib/deephdc/held 2>/dev/null)"')

    # Without layouts MIG is left alone.
    play(cluster, [])
    assert dividing_gpus.instances() == INSTANCES
    assert cluster.out("gpu1", f"find /etc/systemd /usr/local/libexec -name '{UNIT}' -o -name nvidia_mig") == ""
