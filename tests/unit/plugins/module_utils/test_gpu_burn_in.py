# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Opening device files, here of memory's devices and of plain files."""

from __future__ import annotations

import os
import pwd
import time

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu_check import opened as burn_in

ME = pwd.getpwuid(os.geteuid()).pw_name


def gpu(**facts):
    given = {
        "pci_address": "0000:41:00.0",
        "type": "a100",
        "driver": "nvidia",
        "device_files": ["/dev/nvidia0"],
        "iommu_group": 7,
        "health": [],
    }
    return {**given, **facts}


def test_a_gpu_of_virtual_machines_is_opened_by_its_group():
    assert burn_in.files_of(gpu(driver="vfio-pci", device_files=[])) == ["/dev/vfio/7"]
    assert burn_in.files_of(gpu()) == ["/dev/nvidia0"]


def test_states_of_files(tmp_path):
    there, gone = tmp_path / "there", tmp_path / "gone"
    there.touch()
    assert burn_in.open_all_as(ME, ["/dev/null", str(there), str(gone)]) == {
        "/dev/null": "opened",
        str(there): "opened",
        str(gone): "missing",
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_users_rights_are_taken(tmp_path):
    tmp_path.parent.chmod(0o755)
    own = tmp_path / "own"
    own.touch(mode=0o600)
    assert burn_in.open_all_as("nobody", ["/dev/null", str(own)]) == {"/dev/null": "opened", str(own): "denied"}
    assert os.geteuid() == 0


@pytest.mark.parametrize(
    ("files", "accepted", "told"),
    [
        ({"/dev/nvidia0": "opened"}, ["opened"], []),
        ({"/dev/nvidia0": "no_driver"}, ["opened", "no_driver"], []),
        ({"/dev/nvidia0": "denied"}, ["opened"], ["gpu1: 0000:41:00.0 (a100) can't be opened by ada: /dev/nvidia0 denied."]),
        ({}, ["opened"], ["gpu1: 0000:41:00.0 (a100) has no device file: its driver is nvidia."]),
    ],
)
def test_what_is_told(files, accepted, told):
    result = {"pci_address": "0000:41:00.0", "type": "a100", "driver": "nvidia", "files": files, "computation": None, "problems": []}
    assert burn_in.errors("gpu1", "ada", [result], accepted, 1) == told


def test_missing_gpus_and_sick_ones_are_told():
    results = burn_in.report([gpu(health=[{"problem": "ecc_errors", "message": "0000:41:00.0: sick"}])], {"/dev/nvidia0": "opened"}, {})
    assert burn_in.errors("gpu1", "ada", results, ["opened"], 2) == [
        "gpu1: 0000:41:00.0: sick",
        "gpu1: 1 GPUs were found, gpu_check_count says 2.",
    ]


def test_a_host_without_gpus_passes_only_where_that_is_asked_for():
    assert burn_in.errors("gpu1", "ada", [], ["opened"], 0) == []
    (told,) = burn_in.errors("gpu1", "ada", [], ["opened"], -1)
    assert told.startswith("gpu1: no GPU was found;")


def test_a_gpu_that_does_not_compute_is_told():
    opened = {"/dev/nvidia0": "opened"}
    for said, told in ((None, 0), ("computed", 0), ("busy", 0), ("its results are wrong", 1)):
        results = burn_in.report([gpu()], opened, {"0000:41:00.0": said} if said else {})
        assert results[0]["computation"] == said
        assert len(burn_in.errors("gpu1", "ada", results, ["opened"], 1)) == told
    assert burn_in.errors("gpu1", "ada", results, ["opened"], 1) == [
        "gpu1: 0000:41:00.0 (a100) does not compute for ada: its results are wrong."
    ]


def test_it_computes_only_where_the_user_opened_a_whole_gpu(monkeypatch):
    monkeypatch.setattr(burn_in.cuda, "library", object)
    monkeypatch.setattr(burn_in.cuda, "compute", lambda address: f"computed on {address}")
    gpus = [
        gpu(),
        gpu(pci_address="0000:42:00.0", device_files=["/dev/nvidia1"]),
        gpu(pci_address="0000:43:00.0", driver="vfio-pci"),
        gpu(pci_address="0000:44:00.0", mig={"enabled": True}),
    ]
    opened = {"/dev/nvidia0": "opened", "/dev/nvidia1": "denied", "/dev/vfio/7": "opened"}
    assert burn_in.compute_all_as(ME, gpus, opened, set()) == {"0000:41:00.0": "computed on 0000:41:00.0"}
    # A job may need the memory that a computation takes.
    assert burn_in.compute_all_as(ME, gpus, opened, {"0000:41:00.0"}) == {"0000:41:00.0": "busy"}


def test_a_child_can_not_write_into_the_modules_output(capfd):
    assert burn_in.as_user(ME, lambda: os.write(1, b"from a library") and "told") == "told"
    assert capfd.readouterr().out == ""


def test_a_driver_that_hangs_is_told():
    with pytest.raises(OSError, match="it did not end within 0 s"):
        burn_in.as_user(ME, lambda: time.sleep(30), 0.1)
    with pytest.raises(OSError, match="it ended without a result"):
        burn_in.as_user(ME, lambda: os._exit(1), 30)
