# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Choice of a driver; versions are those that Debian 12 and 13 had in November 2026."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._nvidia_driver import choice as driver
from ansible_collections.deephdc.accelerators.plugins.module_utils._nvidia_driver import fabric

BOOKWORM = {
    "nvidia-kernel-dkms": ["535.309.01-0+deb12u1", "535.261.03-1"],
    "nvidia-open-kernel-dkms": ["535.261.03-1"],
    "nvidia-smi": ["535.309.01-0+deb12u1", "535.261.03-1"],
    "libcuda1": ["535.309.01-0+deb12u1", "535.261.03-1"],
    "nvidia-tesla-535-kernel-dkms": ["535.216.03-3~deb12u1"],
    "nvidia-tesla-535-smi": ["535.216.03-3~deb12u1"],
    "libnvidia-tesla-535-cuda1": ["535.216.03-3~deb12u1"],
    "libnvidia-tesla-535-cfg1": ["535.216.03-3~deb12u1"],
    "nvidia-tesla-470-kernel-dkms": ["470.256.02-1~deb12u1"],
    "nvidia-tesla-470-smi": ["470.256.02-1~deb12u1"],
    "libnvidia-tesla-470-cuda1": ["470.256.02-1~deb12u1"],
    "libnvidia-tesla-470-cfg1": ["470.256.02-1~deb12u1"],
    "nvidia-persistenced": ["535.171.04-1~deb12u1"],
}
REPOSITORY = {
    name: ["590.44.01-1", "580.65.06-1", "570.86.15-1"]
    for name in ("nvidia-kernel-dkms", "nvidia-kernel-open-dkms", "nvidia-driver-cuda", "nvidia-fabricmanager")
}
FACTS = {
    "running": "6.1.0-50-amd64",
    "kernels": [
        {"release": "6.1.0-50-amd64", "headers": True, "initramfs": True, "initramfs_stale": False},
        {"release": "6.1.0-56-amd64", "headers": True, "initramfs": True, "initramfs_stale": False},
    ],
    "headers_available": [],
    "recorded": [],
    "installed": {},
    "broken": False,
    "available": BOOKWORM,
    "secure_boot": False,
    "key_enrolled": False,
    "nouveau": False,
    "loaded": "",
    "nvswitches": 0,
    "nvlink_managers": 0,
    "nvlink_unread": "",
    "run_file": False,
}
SETTINGS = {"source": "distribution", "branch": "", "modules": "auto", "upgrade": False, "image": False}


def gpu(device_id="20b2", kind="gpu", bound=None, vendor="nvidia", named="x"):
    return {
        "vendor": vendor,
        "kind": kind,
        "driver": bound,
        "vendor_id": "10de",
        "device_id": device_id,
        "pci_address": "0000:41:00.0",
        "type": named,
    }


def planned(gpus=None, settings=None, **facts):
    return driver.plan("gpu1", {**FACTS, **facts}, [gpu()] if gpus is None else gpus, {**SETTINGS, **(settings or {})})


def test_newest_of_the_distribution_with_its_user_space():
    plan = planned()
    assert plan["errors"] == plan["warnings"] == []
    assert (plan["version"], plan["modules"], plan["replaces"]) == ("535.309.01", "proprietary", False)
    assert plan["packages"] == [f"{name}=535.309.01-0+deb12u1" for name in ("nvidia-kernel-dkms", "nvidia-smi", "libcuda1")]
    assert "Pin: version 535.309.01-0+deb12u1\n" in plan["preferences"]


def test_open_modules_only_with_a_user_space_of_the_same_version():
    plan = planned(settings={"modules": "open"})
    assert plan["packages"] == ["nvidia-open-kernel-dkms=535.261.03-1", "nvidia-smi=535.261.03-1", "libcuda1=535.261.03-1"]


def test_old_gpus_get_the_newest_branch_that_drives_them():
    assert planned([gpu("102d")])["packages"][0] == "nvidia-tesla-470-kernel-dkms=470.256.02-1~deb12u1"


@pytest.mark.parametrize(
    ("gpus", "settings", "version", "modules"),
    [
        (["20b2"], {}, "590.44.01", "open"),
        (["1db6"], {}, "580.65.06", "proprietary"),
        (["1db6", "20b2"], {}, "580.65.06", "proprietary"),
        (["20b2"], {"branch": "570"}, "570.86.15", "open"),
        (["20b2"], {"branch": "570", "modules": "proprietary"}, "570.86.15", "proprietary"),
        (["2901"], {}, "590.44.01", "open"),
    ],
)
def test_version_and_modules_from_the_repository(gpus, settings, version, modules):
    plan = planned([gpu(device) for device in gpus], {"source": "repository", **settings}, available=REPOSITORY)
    assert (plan["errors"], plan["version"], plan["modules"]) == ([], version, modules)


@pytest.mark.parametrize(
    ("gpus", "settings", "facts", "told"),
    [
        ([gpu("2901")], {}, {}, "is of the generation blackwell, which branch 570 and newer ones drive, but 535.309.01"),
        (
            [gpu("2901")],
            {"source": "repository", "modules": "proprietary"},
            {"available": REPOSITORY},
            "only the open kernel modules drive",
        ),
        ([gpu("1db6")], {"modules": "open"}, {}, "which the open kernel modules don't drive"),
        ([gpu("1db6")], {"source": "repository", "branch": "590"}, {"available": REPOSITORY}, "branch 580 was the last to drive"),
        ([gpu("1db6"), gpu("2901")], {"source": "repository"}, {"available": REPOSITORY}, "590.44.01"),
        (
            None,
            {"branch": "550"},
            {},
            "nvidia_driver_branch is 550, but the source distribution has 535.309.01, 535.261.03, 535.216.03, 470.256.02",
        ),
        (None, {}, {"available": {}}, "apt has no NVIDIA driver in the source distribution"),
        (None, {"branch": "470", "modules": "open"}, {}, "nvidia_driver_kernel_modules is open"),
        ([], {}, {}, "no NVIDIA GPU was found"),
        ([gpu(bound="vfio-pci")], {}, {}, "no NVIDIA GPU was found for the host itself"),
        ([gpu(vendor="amd")], {}, {}, "no NVIDIA GPU was found"),
        (None, {}, {"secure_boot": True}, "mokutil --import"),
        (None, {}, {"run_file": True}, "nvidia-uninstall"),
        (
            None,
            {},
            {"nvswitches": 6},
            "6 NVSwitch bridges connect its GPUs, which needs nvidia-fabricmanager 535.309.01, but the source distribution",
        ),
        (
            None,
            {},
            {"running": "6.1.0-1-amd64"},
            "the running kernel 6.1.0-1-amd64 has no headers and apt has no linux-headers-6.1.0-1-amd64",
        ),
        (
            None,
            {"mig": [{"devices": ["h100"], "instances": {"1g.10gb": 7}}]},
            {},
            "nvidia_driver_mig asks for h100, which the host does not have",
        ),
        (None, {"image": True}, {"kernels": []}, "no kernel is installed in this image"),
    ],
)
def test_refused_before_anything_is_changed(gpus, settings, facts, told):
    errors = planned(gpus, settings, **facts)["errors"]
    assert [error for error in errors if error.startswith("gpu1: ") and told in error], errors


def test_a_key_that_the_firmware_knows_is_enough():
    assert planned(secure_boot=True, key_enrolled=True)["errors"] == []


def test_missing_headers_are_installed_or_told():
    kernels = [{"release": release, "headers": False} for release in ("6.1.0-50-amd64", "6.1.0-52-amd64", "6.1.0-56-amd64")]
    plan = planned(kernels=kernels, headers_available=["linux-headers-6.1.0-50-amd64", "linux-headers-6.1.0-56-amd64"])
    assert plan["headers"] == ["linux-headers-6.1.0-50-amd64", "linux-headers-6.1.0-56-amd64"]
    assert plan["errors"] == []
    assert len(plan["warnings"]) == 1 and "Remove linux-image-6.1.0-52-amd64" in plan["warnings"][0]


def test_an_image_needs_no_gpu_and_nothing_for_the_kernel_that_runs():
    assert planned([], {"image": True}, running="4.19.0", secure_boot=True)["errors"] == []


def test_a_host_keeps_what_serves_until_an_upgrade_is_asked_for():
    has = {"nvidia-kernel-dkms": "570.86.15-1"}
    kept = planned(settings={"source": "repository"}, available=REPOSITORY, installed=has)
    assert (kept["version"], kept["modules"], kept["replaces"]) == ("570.86.15", "proprietary", False)
    newer = planned(settings={"source": "repository", "upgrade": True}, available=REPOSITORY, installed=has)
    # Another kind of modules alone is no reason for a change.
    assert (newer["version"], newer["modules"], newer["replaces"]) == ("590.44.01", "proprietary", True)
    other = planned(settings={"source": "repository", "branch": "580"}, available=REPOSITORY, installed=has)
    assert (other["version"], other["replaces"]) == ("580.65.06", True)


def test_a_driver_that_apt_does_not_have_any_more_is_kept():
    has = {"nvidia-kernel-dkms": "535.230.02-1", "nvidia-smi": "535.230.02-1", "libcuda1": "535.230.02-1"}
    plan = planned(installed=has)
    assert (plan["version"], plan["replaces"], plan["packages"]) == ("535.230.02", False, [f"{name}={has[name]}" for name in has])
    assert planned(installed=has, settings={"upgrade": True})["version"] == "535.309.01"
    # One that does not serve the GPU is no reason to refuse what would.
    assert planned([gpu("102d")], installed=has)["version"] == "470.256.02"


def test_the_fabric_manager_has_the_version_of_the_driver():
    plan = planned(settings={"source": "repository", "branch": "580"}, available=REPOSITORY, nvswitches=4)
    assert plan["fabric"] and "nvidia-fabricmanager=580.65.06-1" in plan["packages"]


def test_two_gpus_that_no_driver_serves_together_are_one_sentence():
    for branch in ("", "580"):
        (error,) = planned([gpu("1db4"), gpu("2901")], settings={"source": "repository", "branch": branch}, available=REPOSITORY)["errors"]
        assert "no driver serves both of two GPUs" in error and "with proprietary modules and" in error and "take one of them out" in error


def test_boards_whose_switches_are_no_bridges_need_the_subnet_manager_too():
    settings = {"source": "repository", "branch": "580"}
    found = planned(settings=settings, available={**REPOSITORY, "nvlsm": ["2025.06.11-1", "2025.03.1-1"]}, nvlink_managers=4)
    assert found["fabric"] and found["subnet_manager"]
    assert {"nvidia-fabricmanager=580.65.06-1", "nvlsm=2025.06.11-1"} <= set(found["packages"])
    assert "\nPackage: nvlsm\nPin: version 2025.06.11-1\n" in found["preferences"]
    assert "nvlsm" not in planned(settings=settings, available=REPOSITORY)["preferences"]
    (error,) = planned(settings=settings, available=REPOSITORY, nvlink_managers=4)["errors"]
    assert (
        "NVLink switches (4 functions manage them) connect its GPUs, which needs nvlsm, but the source repository does not have it" in error
    )
    assert error.endswith(": put it into nvidia_driver_repository.")
    (error,) = planned(available={**REPOSITORY, "nvidia-fabricmanager": []}, settings=settings, nvlink_managers=4)["errors"]
    assert "needs nvidia-fabricmanager 580.65.06 and nvlsm" in error and "nvidia_driver_branch" in error


def test_what_connects_the_gpus_is_kept_as_the_driver_is():
    has = {"nvidia-kernel-open-dkms": "570.86.15-1", "nvidia-fabricmanager": "570.86.15-1", "nvlsm": "2025.03.1-1"}
    newer = {**REPOSITORY, "nvidia-fabricmanager": ["580.65.06-1"], "nvlsm": ["2025.06.11-1"]}
    facts = {"installed": has, "available": newer, "nvlink_managers": 4}
    kept = planned(settings={"source": "repository"}, **facts)
    assert kept["errors"] == [] and {"nvidia-fabricmanager=570.86.15-1", "nvlsm=2025.03.1-1"} <= set(kept["packages"])
    upgraded = planned(settings={"source": "repository", "upgrade": True, "branch": "580"}, **facts)
    assert {"nvidia-fabricmanager=580.65.06-1", "nvlsm=2025.06.11-1"} <= set(upgraded["packages"])


def test_switches_that_can_not_be_looked_for_matter_where_the_board_can_have_them():
    unknown = {
        "settings": {"source": "repository", "branch": "580"},
        "available": REPOSITORY,
        "nvlink_managers": None,
        "nvlink_unread": "0000:c1:00.0",
    }
    (error,) = planned([gpu("2901", named="b200")], **unknown)["errors"]
    assert "it is not known whether NVLink switches connect its GPUs" in error and "function 0000:c1:00.0 can't be read" in error
    assert planned(**unknown)["errors"] == []


def test_switches_are_found_by_what_their_functions_say(simulate):
    root = simulate({"type": "b200"})
    assert not fabric.connects(["b200"], str(root))
    for number in range(4):
        name = f"0000:c{number}:00.0"
        root.write(root.device(name, "vendor"), "0x15b3\n")
        root.write(root.device(name, "class"), "0x020700\n")
        root.write(root.device(name, "vpd"), b"\x82\x10\x00ConnectX\x90" + (b"V1 SW_MNG" if number else b"V1 other"))
    assert (fabric.bridges(str(root)), fabric.managers(str(root)), fabric.connects(["b200"], str(root))) == (0, 3, True)


def test_a_card_that_can_not_be_read_hides_no_switch(simulate):
    root = simulate({"type": "b200"})
    for name in ("0000:c0:00.0", "0000:c1:00.0"):
        root.write(root.device(name, "vendor"), "0x15b3\n")
        root.write(root.device(name, "class"), "0x020700\n")
    # Its first bytes can't be read, as those of a broken card; it can be opened.
    (root.path / root.device("0000:c0:00.0", "vpd")).symlink_to("/proc/self/mem")
    with pytest.raises(OSError, match=r"0000:c0:00\.0/vpd"):
        fabric.managers(str(root))
    assert (fabric.connects(["b200"], str(root)), fabric.connects(["a100"], str(root))) == (True, False)
    root.write(root.device("0000:c1:00.0", "vpd"), b"SW_MNG")
    assert fabric.managers(str(root)) == 1 and fabric.connects(["a100"], str(root))


def test_only_what_was_not_there_is_remembered():
    simulated = "Inst gcc [12.1] (12.2 Debian:12 [amd64])\nInst dkms (3.0.10-8 Debian:12 [all])\nConf dkms (3.0.10-8 Debian:12 [all])\n"
    assert driver.record(["nvidia-smi"], simulated) == ["dkms", "nvidia-smi"]


def test_only_what_came_along_is_taken_away():
    simulated = "Remv nvidia-alternative [535]\nRemv orphan-of-the-site [1]\nRemv dkms [3.0.10-8]\n"
    assert driver.removable(["dkms", "nvidia-alternative", "gcc"], simulated) == ["nvidia-alternative", "dkms"]


@pytest.mark.parametrize(
    ("facts", "version", "reasons"),
    [
        ({"nouveau": True}, "535.309.01", ["nouveau holds the GPUs"]),
        ({"nouveau": True}, "", []),
        ({"loaded": "535.261.03"}, "535.309.01", ["the kernel has the driver 535.261.03 loaded, 535.309.01 is installed"]),
        ({"loaded": "535.261.03"}, "", ["the kernel has the driver 535.261.03 loaded, none is installed"]),
        ({"loaded": "535.309.01"}, "535.309.01", []),
        ({}, "535.309.01", []),
    ],
)
def test_why_a_reboot_is_needed(facts, version, reasons):
    assert driver.pending({**FACTS, **facts}, version) == reasons


def test_sources_of_the_distribution():
    archives = [("http://a/debian", "bookworm"), ("http://a/debian", "bookworm-updates"), ("http://s/security", "bookworm-security")]
    text = driver.sources("distribution", {}, archives, "/keyring.gpg")
    assert "URIs: http://a/debian\nSuites: bookworm bookworm-updates\nComponents: contrib non-free non-free-firmware\n" in text
    assert text.count("Signed-By: /keyring.gpg") == 2
    assert driver.sources("distribution", {}, [], "/keyring.gpg") == ""


def test_the_key_of_a_repository_is_in_its_source():
    text = driver.sources("repository", {"uri": "file:/srv/nvidia", "suite": "./", "key": "-----BEGIN\n\nabc\n-----END\n"}, [], "")
    assert text.endswith("URIs: file:/srv/nvidia\nSuites: ./\nSigned-By:\n -----BEGIN\n .\n abc\n -----END\n")
