"""The driver's life on a host: a second kernel, builds that break, another branch, removal."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest
from gpu_host_site import PLAYBOOK, driver, told
from local import Cluster, changed

OWNS = (
    "roles/nvidia_driver",
    "roles/nvidia_driver/tasks/run.yml",
    "plugins/filter/nvidia_driver.py",
    "plugins/module_utils/_host/apt_*.py",
    "plugins/module_utils/_host/dkms.py",
    "plugins/module_utils/_nvidia_driver",
    "plugins/modules/dkms_module.py",
    "plugins/modules/nvidia_driver_facts.py",
    "tests/data/dkms",
    "tests/stand_ins/nvidia_repository.py",
)

PACKAGE = "nvidia-kernel-open-dkms"
# What changes the driver alone is not made longer by the role that follows.
SKIP = ("--skip-tags", "nvidia_container_toolkit")


# What the branches of the stand-in repository have; none is a host without the driver.
VERSIONS = {"570": "570.86.15", "580": "580.65.06", "": ""}
PACKAGES = "dpkg-query -W -f '${Package} ${db:Status-Status}\\n' | grep ' installed$' | sort"


def have(cluster: Cluster, branch: str) -> None:
    """Have the driver of a branch for each kernel, or none; that costs nothing where it is so already."""
    if set(driver(cluster).values()) != {VERSIONS[branch]}:
        wanted = {"nvidia_driver_branch": branch} if branch else {"nvidia_driver_state": "absent"}
        cluster.playbook(PLAYBOOK, *SKIP, variables=wanted)


@pytest.fixture(scope="module")
def second_kernel(cluster: Cluster, kernels: list[str]) -> Iterator[None]:
    """The newest kernel beside the older one, with headers and module; afterwards the host has the older one and its driver alone."""
    cluster.out("gpu1", f"{PACKAGES} > /root/packages_before")
    cluster.out("gpu1", f"apt-get install -y -q --no-install-recommends linux-image-{kernels[1]}", timeout=300)
    assert driver(cluster)[kernels[1]] == ""
    cluster.playbook(PLAYBOOK)
    yield
    have(cluster, "570")
    more = f"{PACKAGES} | comm -13 /root/packages_before - | cut -d ' ' -f 1"
    cluster.out("gpu1", f"apt-get purge -y -q $({more}) && rm /root/packages_before", timeout=300)


def files(cluster: Cluster) -> str:
    """What the role wrote; without the driver there is none."""
    return cluster.out("gpu1", "find /etc -name 'deephdc-nvidia' -o -name 'deephdc-nvidia.*' -o -name 'deephdc-nvlink*'")


def test_nouveau_is_kept_off_in_the_initramfs_too(cluster, kernels):
    inside = cluster.out("gpu1", f"lsinitramfs /boot/initrd.img-{kernels[0]}")
    assert "etc/modprobe.d/deephdc-nvidia.conf" in inside
    assert cluster.out("gpu1", "modprobe --showconfig | grep -c '^blacklist nouveau$'") != "0"


def test_apt_holds_the_driver_to_its_version(cluster):
    cluster.out("gpu1", "apt-get update")
    policy = cluster.out("gpu1", f"apt-cache policy {PACKAGE}")
    assert "600.10.01-1" in policy
    assert "Candidate: 570.86.15-1" in policy


def test_a_second_kernel_gets_headers_and_module(cluster, kernels, second_kernel):
    assert driver(cluster) == dict.fromkeys(kernels, "570.86.15")
    assert changed(cluster.playbook(PLAYBOOK)) == []


def test_a_branch_that_does_not_build_leaves_the_driver_as_it_is(cluster, kernels, second_kernel):
    have(cluster, "570")
    before = cluster.out("gpu1", "dkms status; dpkg -l | grep nvidia; cat /etc/apt/preferences.d/deephdc-nvidia")
    said = told(cluster.playbook(PLAYBOOK, *SKIP, variables={"nvidia_driver_branch": "590"}, succeeds=False))
    assert f"nvidia 590.44.01 does not build for the kernel {kernels[1]}, which the next boot takes" in said
    assert "too few arguments to function" in said and "pci_resize_resource" in said
    # It would build for the older one.
    assert f"does not build for the kernel {kernels[0]}" not in said
    assert cluster.out("gpu1", "dkms status; dpkg -l | grep nvidia; cat /etc/apt/preferences.d/deephdc-nvidia") == before
    assert driver(cluster) == dict.fromkeys(kernels, "570.86.15")


def test_a_branch_too_old_for_the_gpu_is_refused(cluster):
    said = told(cluster.playbook(PLAYBOOK, *SKIP, variables={"nvidia_driver_branch": "440"}, succeeds=False))
    assert "(a100) is of the generation ampere, which branch 450 and newer ones drive, but 440.33.01" in said


def test_a_branch_that_is_not_there_is_refused(cluster):
    said = told(cluster.playbook(PLAYBOOK, *SKIP, variables={"nvidia_driver_branch": "550"}, succeeds=False))
    assert "nvidia_driver_branch is 550, but the source repository has 600.10.01, 590.44.01, 580.65.06, 570.86.15, 440.33.01" in said


def test_a_repository_that_would_switch_signatures_off_is_refused(cluster):
    trusted = {"uri": "file:/srv/nvidia\nTrusted: yes", "suite": "./", "key": "none"}
    said = told(cluster.playbook(PLAYBOOK, *SKIP, variables={"nvidia_driver_repository": trusted}, succeeds=False))
    assert "nvidia_driver_repository of gpu1 is no repository of apt" in said
    said = told(cluster.playbook(PLAYBOOK, variables={"nvidia_container_toolkit_repository": trusted}, succeeds=False))
    assert "nvidia_container_toolkit_repository of gpu1 is no repository of apt" in said


def test_another_branch(cluster, kernels, second_kernel):
    have(cluster, "570")
    predicted = changed(cluster.playbook(PLAYBOOK, *SKIP, "--check", variables={"nvidia_driver_branch": "580"}))
    assert any("Hold the driver to its version" in task for task in predicted)
    assert driver(cluster) == dict.fromkeys(kernels, "570.86.15")
    cluster.playbook(PLAYBOOK, *SKIP, variables={"nvidia_driver_branch": "580"})
    assert driver(cluster) == dict.fromkeys(kernels, "580.65.06")
    assert "570.86.15" not in cluster.out("gpu1", "dkms status")
    # Without a branch it keeps what serves, though there are newer ones.
    assert changed(cluster.playbook(PLAYBOOK, *SKIP, variables={"nvidia_driver_branch": ""})) == []


def test_a_module_that_somebody_removed_comes_back(cluster, kernels, second_kernel):
    have(cluster, "580")
    cluster.out("gpu1", f"dkms uninstall -m nvidia -v 580.65.06 -k {kernels[0]}")
    assert driver(cluster)[kernels[0]] == ""
    assert changed(cluster.playbook(PLAYBOOK, *SKIP, variables={"nvidia_driver_branch": "580"})) == [
        "deephdc.accelerators.nvidia_driver : Have the module for every kernel: gpu1"
    ]
    assert driver(cluster) == dict.fromkeys(kernels, "580.65.06")


def taken_away(cluster: Cluster, kernels: list[str]) -> None:
    cluster.playbook(PLAYBOOK, *SKIP, variables={"nvidia_driver_state": "absent"})
    more = cluster.out("gpu1", f"{PACKAGES} | diff /root/packages - | sed -n '/^[<>]/p'").splitlines()
    # What the test and the other role brought; apt keeps headers of the newest kernels.
    assert [line for line in more if "> linux-" not in line] == ["> nvidia-container-toolkit-base installed"]
    assert driver(cluster) == dict.fromkeys(kernels, "")
    assert "deephdc-nvidia.conf" not in cluster.out("gpu1", f"lsinitramfs /boot/initrd.img-{kernels[0]}")
    assert files(cluster) == ""


def test_without_the_driver_all_is_as_before(cluster, kernels, second_kernel):
    have(cluster, "580")
    taken_away(cluster, kernels)
    assert changed(cluster.playbook(PLAYBOOK, *SKIP, variables={"nvidia_driver_state": "absent"})) == []


def test_a_first_driver_that_does_not_build_is_taken_away_again(cluster, kernels, second_kernel):
    have(cluster, "")
    said = told(cluster.playbook(PLAYBOOK, *SKIP, variables={"nvidia_driver_branch": "600"}, succeeds=False))
    assert f"nvidia 600.10.01 does not build for the kernel {kernels[0]}" in said and "pci_resize_resource" in said
    assert cluster.out("gpu1", "dpkg --audit; dpkg -l | grep '^ii *nvidia-[dkp]' || true") == ""
    assert files(cluster) == ""


def power_cut(cluster: Cluster) -> None:
    """In the middle of the module's first build, with the control node's run."""
    cluster.out("gpu1", "rm -f /root/build_held; touch /root/hold_build")
    words = cluster.command(PLAYBOOK, SKIP, ["hosts.yml"])
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, env=cluster.environment(), start_new_session=True) as process:
        try:
            deadline = time.monotonic() + 300
            while cluster.run("gpu1", "test -e /root/build_held").returncode != 0:
                assert process.poll() is None and time.monotonic() < deadline, "the run ended before it built anything"
                time.sleep(0.5)
            subprocess.run(["docker", "kill", f"{cluster.label}-gpu1"], check=True, stdout=subprocess.DEVNULL)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    subprocess.run(["docker", "start", f"{cluster.label}-gpu1"], check=True, stdout=subprocess.DEVNULL)
    cluster.until("gpu1", "rm /root/hold_build && dpkg --audit", PACKAGE)


def test_a_driver_whose_installation_was_killed_is_taken_away(cluster, kernels, second_kernel):
    have(cluster, "")
    power_cut(cluster)
    taken_away(cluster, kernels)


def test_an_installation_that_was_killed_is_completed(cluster, kernels, second_kernel):
    have(cluster, "")
    power_cut(cluster)
    cluster.playbook(PLAYBOOK)
    assert driver(cluster) == dict.fromkeys(kernels, "570.86.15")
