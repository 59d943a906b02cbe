# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Simulated devices on a host: made, kept, changed, removed, and nothing else touched."""

from __future__ import annotations

import os
import pathlib
import re

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.facts import gather
from ansible_collections.deephdc.accelerators.plugins.module_utils._simulator.host import (
    MANIFEST,
    TMPFILES_PATH,
    SimulatedHost,
    SimulationError,
)
from ansible_collections.deephdc.accelerators.plugins.module_utils._simulator.tree import NVIDIA_MAJOR

TWO_AND_ONE = [{"type": "a100", "count": 2}, {"type": "mi210"}]


class Host(SimulatedHost):
    """A host whose device nodes are files that name their numbers, as only root may make real ones."""

    def node_numbers(self, path):
        text = pathlib.Path(path).read_text()
        return tuple(int(number) for number in text.split(":")) if ":" in text else None

    def make_node(self, path, major, minor):
        with open(path, "x") as stream:
            stream.write(f"{major}:{minor}")


@pytest.fixture
def system(tmp_path):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "null").write_text("1:3")
    return tmp_path


@pytest.fixture
def host(system):
    return Host(str(system / "var" / "gpu_simulator"), str(system))


def contents(directory):
    return {
        str(path.relative_to(directory)): os.readlink(path) if path.is_symlink() else path.read_text()
        for path in sorted(directory.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def change(host, devices, keep=True, **options):
    planned = host.plan(devices, keep, **options)
    planned.apply()
    assert not host.plan(devices, keep, **options).is_needed, "a second run changes something"
    return planned


def test_what_is_made_is_what_gpu_facts_reads(host, system):
    planned = change(host, TWO_AND_ONE)
    assert planned.device_files == ["/dev/nvidia0", "/dev/nvidia1", "/dev/dri/renderD128"]
    assert (system / "dev" / "nvidia1").read_text() == "120:1"
    entries = gather(host.root)
    assert [entry["type"] for entry in entries] == ["a100", "a100", "mi210"]
    assert [entry["device_files"] for entry in entries] == [["/dev/nvidia0"], ["/dev/nvidia1"], ["/dev/dri/renderD128"]]
    assert [entry["health"] for entry in entries] == [[], [], []]
    assert (system / TMPFILES_PATH).read_text().splitlines()[1:] == [
        "d /dev/dri 0755 root root -",
        "c /dev/nvidia0 0666 root root - 120:0",
        "c /dev/nvidia1 0666 root root - 120:1",
        "c /dev/dri/renderD128 0666 root root - 121:128",
    ]


def test_a_node_that_goes_away_is_missing_and_comes_back(host, system):
    change(host, TWO_AND_ONE)
    (system / "dev" / "nvidia0").unlink()
    assert [found["problem"] for found in gather(host.root)[0]["health"]] == ["device_file_missing"]
    assert change(host, TWO_AND_ONE).is_needed
    assert gather(host.root)[0]["health"] == []


def test_a_damaged_file_is_repaired(host, system):
    change(host, TWO_AND_ONE)
    before = contents(system)
    (pathlib.Path(host.root) / "proc/driver/nvidia/version").write_text("damaged")
    (pathlib.Path(host.root) / "sys/bus/pci/devices/0000:01:00.0").unlink()
    assert change(host, TWO_AND_ONE).diff["before"] == "proc/driver/nvidia/version: damaged\n"
    assert contents(system) == before


def test_fewer_devices(host, system):
    change(host, TWO_AND_ONE)
    change(host, [{"type": "a100"}])
    assert sorted(path.name for path in (system / "dev").iterdir() if path.is_file()) == ["null", "nvidia0"]
    assert [entry["type"] for entry in gather(host.root)] == ["a100"]
    assert list(pathlib.Path(host.root).rglob("*0000:02:00.0*")) == []


def test_no_devices_at_all(host, system):
    change(host, TWO_AND_ONE)
    change(host, [])
    assert gather(host.root) == []
    assert not (system / TMPFILES_PATH).exists()


def test_absent_leaves_nothing_of_ours_and_all_else(host, system):
    assert not host.plan([], keep=False).is_needed
    before = contents(system)
    change(host, TWO_AND_ONE)
    own = pathlib.Path(host.root) / "sys" / "mine"
    own.write_text("not made by gpu_simulator")
    change(host, [], keep=False)
    assert contents(system) == {**before, "var/gpu_simulator/sys/mine": "not made by gpu_simulator"}


def test_absent_removes_the_root(host, system):
    change(host, TWO_AND_ONE)
    change(host, [], keep=False)
    assert not pathlib.Path(host.root).exists()
    assert [path.name for path in (system / "dev").iterdir()] == ["null"]


def test_check_mode_plans_only(host, system):
    before = contents(system)
    planned = host.plan(TWO_AND_ONE, keep=True)
    assert planned.is_needed and "/dev/nvidia0: character device 120:0" in planned.diff["after"]
    assert contents(system) == before


@pytest.mark.parametrize("numbers", ["195:0", "1:3", "a file"])
def test_a_node_of_somebody_else_is_neither_used_nor_removed(host, system, numbers):
    (system / "dev" / "nvidia0").write_text(numbers)
    with pytest.raises(SimulationError, match="nvidia0, which is there already and was not made by gpu_simulator"):
        host.plan([{"type": "a100"}], keep=True)
    assert (system / "dev" / "nvidia0").read_text() == numbers


def test_a_node_that_took_the_place_of_ours_is_not_removed(host, system):
    change(host, [{"type": "a100"}])
    (system / "dev" / "nvidia0").write_text("1:3")
    change(host, [], keep=False)
    assert (system / "dev" / "nvidia0").read_text() == "1:3"


def test_a_directory_of_nodes_stays_while_another_is_in_it(host, system):
    change(host, [{"type": "mi210"}])
    (system / "dev" / "dri" / "card0").write_text("226:0")
    change(host, [], keep=False)
    assert [path.name for path in (system / "dev" / "dri").iterdir()] == ["card0"]


def test_nodes_stay_on_a_host_that_got_a_real_gpu(host, system):
    change(host, [{"type": "a100"}])
    change(host, [], keep=False, may_remove_nodes=False)
    assert (system / "dev" / "nvidia0").exists() and not pathlib.Path(host.root).exists()


def test_a_file_of_somebody_else_is_not_overwritten(host):
    file = pathlib.Path(host.root) / "proc/driver/nvidia/version"
    file.parent.mkdir(parents=True)
    file.write_text("real")
    with pytest.raises(SimulationError, match="was not made by gpu_simulator"):
        host.plan([{"type": "a100"}], keep=True)


@pytest.mark.parametrize("target", [[{"type": "a100"}], [{"type": "t4", "count": 3}], None])
def test_a_killed_run_is_completed_or_undone_by_the_next(host, system, target):
    change(host, TWO_AND_ONE)
    number_of_steps = len(host.plan(target or [], keep=target is not None).steps)
    undisturbed = None
    for killed_after in sorted({*range(0, number_of_steps, 7), 1, number_of_steps - 1}):
        planned = host.plan(target or [], keep=target is not None)
        for step in planned.steps[:killed_after]:
            step()
        change(host, target or [], keep=target is not None)
        undisturbed = undisturbed or contents(system)
        assert contents(system) == undisturbed
        change(host, TWO_AND_ONE)


def test_a_damaged_manifest_stops_before_anything_is_removed(host):
    change(host, TWO_AND_ONE)
    (pathlib.Path(host.root) / MANIFEST).write_text("{")
    with pytest.raises(SimulationError, match="is damaged"):
        host.plan([], keep=False)


def test_the_real_root_is_refused(system):
    with pytest.raises(SimulationError, match=r"^gpu_simulator_root is "):
        Host(str(system) + "/var/..", str(system))


def test_wrong_devices_name_the_variable(host):
    with pytest.raises(SimulationError, match=r"^gpu_simulator_devices is wrong: the type a101 is not known"):
        host.plan([{"type": "a101"}], keep=True)


@pytest.fixture
def machine(simulate):
    """A workstation with a real GPU, as the kernel shows it to all of the machine's containers as well."""
    root = simulate({"type": "rtx4090", "pci_address": "0000:41:00.0"})
    root.remove("dev/nvidia0")
    return root


def host_on(machine):
    return Host(str(machine.path / "var/lib/gpu_simulator"), str(machine))


def test_a_gpu_of_the_machine_counts_on_the_machine_itself(machine):
    assert host_on(machine).real_gpu() == "a real GPU at 0000:41:00.0"


@pytest.mark.parametrize("mark", ["run/systemd/container", ".dockerenv", "run/.containerenv"])
def test_a_gpu_of_the_machine_is_not_the_one_of_a_container_without_its_file(machine, mark):
    machine.write(mark, "")
    machine.write("dev/null", "1:3")
    machine.write("dev/nvidiactl", "195:255")
    host = host_on(machine)
    assert host.real_gpu() is None
    change(host, TWO_AND_ONE)
    assert host.real_gpu() is None, "the simulated devices' own files were taken for the real GPU's"
    assert [entry["type"] for entry in gather(host.root)] == ["a100", "a100", "mi210"]


@pytest.mark.parametrize("name", ["nvidia0", "dri/card0", "dri/renderD128", "kfd", "accel/accel0", "vfio/12"])
def test_a_gpu_of_the_machine_counts_in_a_container_that_can_reach_it(machine, name):
    machine.write(".dockerenv", "")
    machine.write(f"dev/{name}", "195:0")
    assert host_on(machine).real_gpu() == f"a real GPU at 0000:41:00.0 and its /dev/{name}"


def test_a_file_in_the_place_of_a_simulated_one_counts(machine):
    machine.write(".dockerenv", "")
    host = host_on(machine)
    change(host, [{"type": "a100"}])
    machine.write("dev/nvidia0", "195:0")
    assert host.real_gpu() == "a real GPU at 0000:41:00.0 and its /dev/nvidia0"


def test_a_console_is_no_real_gpu(simulate):
    aspeed = {"type": "aspeed", "vendor_id": "1a03", "device_id": "2000", "class": "030000", "driver": "ast"}
    assert host_on(simulate(aspeed)).real_gpu() is None


def test_a_node_of_ours_with_other_numbers_is_made_anew(host, system):
    change(host, [{"type": "a100"}])
    for file in (system / "dev" / "nvidia0", system / TMPFILES_PATH):
        file.write_text(re.sub(r"\d+:0$", "195:0", file.read_text()))
    change(host, [{"type": "a100"}])
    assert (system / "dev" / "nvidia0").read_text() == f"{NVIDIA_MAJOR}:0"
