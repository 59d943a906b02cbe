"""A driver that is in use: taken from its users, replaced, rebooted, checked and given back.

The container is rebooted; the files own_boots and modprobe stand in for what a kernel would report about a module that it has loaded.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_host_site import PLAYBOOK, told
from local import Cluster, changed

OWNS = (
    "roles/nvidia_driver/tasks/back.yml",
    "roles/nvidia_driver/tasks/divide.yml",
    "roles/nvidia_driver/tasks/finish.yml",
    "roles/nvidia_driver/tasks/reboot.yml",
    "roles/nvidia_driver/tasks/run.yml",
    "roles/nvidia_driver/tasks/used.yml",
    "plugins/module_utils/_nvidia_driver/fabric.py",
    "plugins/modules/gpu_hold_info.py",
    "plugins/modules/gpu_users_info.py",
    "tests/verify/gpu_host/hooks",
    "tests/verify/gpu_host/modprobe",
    "tests/verify/gpu_host/own_boots",
)

LEAVES = "NVIDIA's unit for CDI, which has failed at a boot without a real driver"
HERE = Path(__file__).parent
# Nothing answers behind the device files of simulated GPUs.
SKIP = ("--skip-tags", "validate,nvidia_container_toolkit")
VARIABLES = {
    "nvidia_driver_image": False,
    "nvidia_driver_branch": "580",
    "gpu_hold_tasks": str(HERE / "hooks/drain.yml"),
    "gpu_release_tasks": str(HERE / "hooks/resume.yml"),
    "nvidia_driver_reboot_timeout": 120,
}


HELD = "/var/lib/deephdc/held/nvidia_driver"


# The tree of devices of this machine is not the host's, whose GPUs are simulated elsewhere.
SWITCHES = """
mount -t tmpfs none /sys/bus/pci/devices
for number in 0 1 2 3; do
    mkdir /sys/bus/pci/devices/0000:c$number:00.0 && cd /sys/bus/pci/devices/0000:c$number:00.0
    echo 0x15b3 > vendor; echo 0x020700 > class; printf 'V1SMDL=SW_MNG' > vpd
done
"""


def put(cluster: Cluster, name: str, target: str) -> None:
    subprocess.run(["docker", "cp", "--quiet", str(HERE / name), f"{cluster.label}-gpu1:{target}"], check=True)


def calls(cluster: Cluster) -> list[str]:
    return cluster.out("gpu1", "cat /root/calls 2>/dev/null || true").splitlines()


def boot(cluster: Cluster) -> str:
    return cluster.out("gpu1", "cat /proc/sys/kernel/random/boot_id")


@pytest.fixture(scope="module", autouse=True)
def in_use(cluster: Cluster) -> Iterator[None]:
    """The host runs a kernel that has the driver of the branch 570 loaded."""
    container = f"{cluster.label}-gpu1"
    subprocess.run(["docker", "update", "--restart=always", container], check=True, stdout=subprocess.DEVNULL)
    put(cluster, "modprobe", "/usr/local/sbin/modprobe")
    put(cluster, "own_boots", "/root/own_boots")
    cluster.out("gpu1", "/root/own_boots")
    cluster.playbook(PLAYBOOK, *SKIP, variables={**VARIABLES, "nvidia_driver_branch": "570"})
    assert cluster.out("gpu1", "cat /sys/module/nvidia/version") == "570.86.15"
    assert calls(cluster) == []
    yield
    if "580.65.06" in cluster.out("gpu1", "rm -f /root/card_fell_off /root/job; dkms status"):
        cluster.playbook(PLAYBOOK, *SKIP, variables={**VARIABLES, "nvidia_driver_branch": "570"})
    subprocess.run(["docker", "update", "--restart=no", container], check=True, stdout=subprocess.DEVNULL)
    cluster.out("gpu1", "systemctl disable --quiet --now nvidia-persistenced")
    cluster.out("gpu1", "/root/own_boots undo; rm -f /root/calls /root/job /root/card_fell_off /usr/local/sbin/modprobe")


@pytest.fixture(autouse=True)
def no_calls(cluster: Cluster) -> None:
    """No manager was asked before the test."""
    cluster.out("gpu1", "rm -f /root/calls")


def test_a_host_that_an_earlier_run_left_held_is_named_where_it_is_not_given_back(cluster: Cluster):
    before = boot(cluster)
    cluster.out("gpu1", f"install -D /dev/null {HELD}")
    said = told(cluster.playbook(PLAYBOOK, *SKIP, variables={**VARIABLES, "nvidia_driver_reboot": False}))
    sentence = f"gpu1 stays held for nvidia_driver, as an earlier run left it ({HELD}):"
    assert f"{sentence} reboot it, then run the playbook gpu_hosts again, which gives it back." in said
    said = told(cluster.playbook(PLAYBOOK, "--tags", "mig", variables=VARIABLES))
    assert f"{sentence} run the playbook gpu_hosts without tags, which completes that run and gives the host back." in said
    cluster.out("gpu1", f"rm {HELD}")
    assert calls(cluster) == [] and boot(cluster) == before


def test_a_host_that_its_manager_keeps_keeps_its_driver(cluster: Cluster):
    before = boot(cluster)
    cluster.out("gpu1", "touch /root/job")
    said = told(cluster.playbook(PLAYBOOK, *SKIP, variables=VARIABLES, succeeds=False))
    cluster.out("gpu1", 'rm /root/job; test -z "$(ls -A /var/lib/deephdc/held)"')
    # What could not be held is given back.
    assert calls(cluster) == [f"drain {before} 570.86.15", f"resume {before} 570.86.15"]
    assert "gpu1 is left as it is, because nvidia_driver can't hold it" in said and "It was given back to its users." in said
    assert boot(cluster) == before
    assert "580.65.06" not in cluster.out("gpu1", "dkms status; cat /sys/module/nvidia/version")


def test_what_has_a_gpu_open_is_not_ended(cluster: Cluster):
    """No driver answers behind the file here; that it is open can be seen nevertheless."""
    before = boot(cluster)
    opened = "import os, time; os.open('/dev/nvidia0', os.O_PATH); time.sleep(300)"
    made = cluster.out("gpu1", "test -e /dev/nvidia0 || (mknod -m 666 /dev/nvidia0 c 195 0; echo made)")
    cluster.out("gpu1", f'systemd-run --quiet --unit opened python3 -c "{opened}"')
    try:
        said = told(cluster.playbook(PLAYBOOK, *SKIP, variables=VARIABLES, succeeds=False))
        assert "gpu1 keeps its driver, because python3 (process " in said and "has /dev/nvidia0 open: wait until it ends" in said
        said = told(cluster.playbook(PLAYBOOK, *SKIP, variables={**VARIABLES, "nvidia_driver_state": "absent"}, succeeds=False))
        assert "gpu1 keeps its driver" in said
        assert calls(cluster)[-1].startswith("resume ") and cluster.run("gpu1", f"test -e {HELD}").returncode != 0
        assert cluster.out("gpu1", "systemctl is-active opened") == "active"
    finally:
        cluster.out("gpu1", f"systemctl stop opened; {'rm /dev/nvidia0' if made else 'true'}")
    assert boot(cluster) == before
    assert "580.65.06" not in cluster.out("gpu1", "dkms status; cat /sys/module/nvidia/version")


@pytest.fixture
def switches_without_bridges(cluster: Cluster) -> Iterator[None]:
    """What the host has of an HGX B200 board: the functions by which its switches are managed."""
    cluster.out("gpu1", SWITCHES)
    yield
    cluster.out("gpu1", "rm -f /root/small_kernel; umount /sys/bus/pci/devices; apt-get purge -y -q nvidia-fabricmanager nvlsm")


def test_a_board_whose_switches_are_no_bridges_gets_both_managers(cluster: Cluster, switches_without_bridges: None):
    variables = {**VARIABLES, "nvidia_driver_branch": "570"}
    cluster.out("gpu1", "touch /root/small_kernel")
    said = told(cluster.playbook(PLAYBOOK, *SKIP, variables=variables, succeeds=False))
    assert "does not load ib_umad, which NVLink's subnet manager needs to reach the switches: modprobe: FATAL: Module ib_umad" in said
    cluster.out("gpu1", "rm /root/small_kernel")
    cluster.playbook(PLAYBOOK, *SKIP, variables=variables)
    assert cluster.out("gpu1", "dpkg-query -W -f '${Version} ' nvidia-fabricmanager nvlsm") == "570.86.15-1 2025.06.11-1"
    assert cluster.out("gpu1", "systemctl is-active nvidia-fabricmanager; systemctl is-enabled nvidia-fabricmanager") == "active\nenabled"
    assert changed(cluster.playbook(PLAYBOOK, *SKIP, variables=variables)) == []
    cluster.out("gpu1", "grep -x ib_umad /etc/modules-load.d/deephdc-nvlink.conf")
    # After a boot that did not load the module the manager does not run.
    cluster.out("gpu1", "rmdir /sys/module/ib_umad; systemctl restart nvidia-fabricmanager; rm /etc/modules-load.d/deephdc-nvlink.conf")
    cluster.until("gpu1", "systemctl is-active nvidia-fabricmanager", "failed")
    cluster.playbook(PLAYBOOK, *SKIP, variables=variables)
    assert cluster.out("gpu1", "systemctl is-active nvidia-fabricmanager; cat /etc/modules-load.d/deephdc-nvlink.conf").endswith("ib_umad")
    # The board was replaced.
    cluster.out("gpu1", "rm -r /sys/bus/pci/devices/*")
    cluster.playbook(PLAYBOOK, *SKIP, variables=variables)
    assert cluster.run("gpu1", "test -e /etc/modules-load.d/deephdc-nvlink.conf").returncode != 0
    assert calls(cluster) == []


def test_drained_then_replaced_then_rebooted_but_not_given_back_without_gpus_which_the_next_run_does(cluster: Cluster):
    before = boot(cluster)
    cluster.out("gpu1", "touch /root/card_fell_off")
    said = told(cluster.playbook(PLAYBOOK, *SKIP, variables=VARIABLES, succeeds=False))
    assert "the kernel does not take NVIDIA's module: modprobe: ERROR: could not insert 'nvidia': No such device" in said
    # It was still the old one when the manager was asked.
    assert calls(cluster) == [f"drain {before} 570.86.15"]
    assert '"gpu_hold_tasks": "held"' in cluster.out("gpu1", f"cat {HELD}")
    assert boot(cluster) != before
    assert "580.65.06" in cluster.out("gpu1", "dkms status")

    # The next run gives it back without another reboot.
    before = boot(cluster)
    cluster.out("gpu1", "rm /root/calls /root/card_fell_off")
    cluster.playbook(PLAYBOOK, *SKIP, variables=VARIABLES)
    assert calls(cluster) == [f"resume {before} 580.65.06"]
    assert cluster.run("gpu1", f"test -e {HELD}").returncode != 0
    assert boot(cluster) == before
    assert changed(cluster.playbook(PLAYBOOK, *SKIP, variables=VARIABLES)) == []
    assert len(calls(cluster)) == 1


def test_nouveau_goes_with_a_reboot(cluster: Cluster, dividing_gpus):
    """All of it in one run, which also goes back to the branch that the host had, and divides the GPUs."""
    before = boot(cluster)
    cluster.out("gpu1", "rm -r /sys/module/nvidia; mkdir /sys/module/nouveau")
    layouts = [{"devices": ["all"], "instances": {"3g.40gb": 2}}]
    cluster.playbook(PLAYBOOK, *SKIP, variables={**VARIABLES, "nvidia_driver_branch": "570", "nvidia_driver_mig": layouts})
    assert dividing_gpus.instances() == dividing_gpus.instances(dividing_gpus.second) == ["3g.40gb", "3g.40gb"]
    after = boot(cluster)
    assert after != before
    # Held once more for the instances.
    drained, *again, resumed = calls(cluster)
    assert (drained, resumed) == (f"drain {before} 570.86.15", f"resume {after} 570.86.15")
    assert again == [f"drain {after} 570.86.15"]
