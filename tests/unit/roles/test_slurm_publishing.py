# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The programs that publish a SLURM cluster, given what SLURM 24.11 printed."""

from __future__ import annotations

import importlib
import pathlib
import sys

import pytest

# What names alone would not show: scripts/narrow.py.
READS = ("roles/slurm_glue2/files", "roles/slurm_metrics/files", "roles/slurm_status/files", "roles/slurm_zabbix/files")

ROLES = pathlib.Path(__file__).resolve().parents[3] / "roles"

NODES = (
    "NodeName=gpu1 Arch=x86_64 CoresPerSocket=2  CPUAlloc=0 CPUTot=2 CPULoad=0.00 Gres=gpu:a100:2(S:0),shard:8(S:0) "
    "GresUsed=gpu:a100:0(IDX:N/A),shard:0(0/4,0/4) NodeAddr=172.19.0.4 Version=24.11.5 OS=Linux 6.1.0 #1 SMP  RealMemory=23040 AllocMem=0 "
    "Sockets=1 Boards=1 State=IDLE+DRAIN ThreadsPerCore=1 Partitions=all,a100  CfgTRES=cpu=2,mem=22.50G,gres/gpu=2 AllocTRES= "
    "Reason=accelerators: a100 at 0000:01:00.0 (/dev/nvidia0) is missing [root@2026-11-21T14:57:09]\n"
    "NodeName=gpu2 Arch=x86_64 CPUAlloc=1 CPUTot=2 Gres=gpu:a100:2 GresUsed=gpu:a100:1(IDX:0) RealMemory=23040 AllocMem=1024 "
    "Sockets=1 State=MIXED Partitions=all \n"
)
PARTITIONS = (
    "PartitionName=all AllowAccounts=ALL AllowQos=ALL Default=YES DefaultTime=01:00:00 MaxNodes=UNLIMITED MaxTime=2-00:00:00 State=UP\n"
    "PartitionName=a100 AllowAccounts=physics,chemistry AllowQos=long DefaultTime=NONE MaxNodes=1 MaxTime=UNLIMITED State=DRAIN\n"
)
JOBS = (
    "RUNNING|all|physics|billing=1,cpu=1,gres/gpu=1,gres/gpu:a100=1,mem=1G,node=1|\n"
    "PENDING|all|physics||\nPENDING|all|physics||\nRUNNING|a100|chemistry|cpu=2,node=1|\n"
)
DIAGNOSTICS = (
    "Server thread count:  1\nDBD Agent queue size: 3\nJobs submitted: 8\n\tLast cycle:   1646\n\tMax cycle:    37\n\tLast cycle: 0\n"
)


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch):
    """program(name) imports a program that a role installs; on a host they lie in one directory."""
    for role in ("slurm_status", "slurm_metrics", "slurm_glue2", "slurm_zabbix"):
        monkeypatch.syspath_prepend(str(ROLES / role / "files"))
    yield importlib.import_module
    for name in ("slurm_status", "slurm_metrics", "gpu_metrics", "prometheus_text", "slurm_glue2", "slurm_zabbix"):
        sys.modules.pop(name, None)


@pytest.fixture
def seen(program):
    """A status as slurm_status reads it."""
    reader = program("slurm_status")
    found = {"time": 1_000_000, "up": True, "error": "", "cluster": "site", "version": "24.11.5"}
    found.update(nodes=reader.nodes(NODES), partitions=reader.partitions(PARTITIONS))
    return {**found, "jobs": reader.jobs(JOBS), "scheduler": reader.scheduler(DIAGNOSTICS)}


def test_nodes(seen):
    first, second = seen["nodes"]
    assert (first["state"], first["flags"], first["usable"]) == ("idle", ["drain"], False)
    assert first["reason"] == "accelerators: a100 at 0000:01:00.0 (/dev/nvidia0) is missing"
    assert first["gres"] == [{"name": "gpu", "type": "a100", "total": 2, "used": 0}, {"name": "shard", "type": "", "total": 8, "used": 0}]
    assert (second["usable"], second["gres"][0]["used"], second["cpus"]) == (True, 1, {"total": 2, "used": 1})


def test_partitions_and_jobs(seen):
    default, other = seen["partitions"]
    assert (default["default"], default["max_time_s"], default["default_time_s"], default["accounts"]) == (True, 172800, 3600, [])
    assert (other["max_time_s"], other["default_time_s"], other["max_nodes"], other["qos"]) == (None, None, 1, ["long"])
    pending = {"state": "pending", "partition": "all", "account": "physics", "count": 2, "cpus": 0, "gpus": 0}
    assert pending in seen["jobs"]
    assert seen["scheduler"] == {"threads": 1, "database_queue": 3, "jobs_submitted": 8, "last_cycle_us": 1646}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("30", 1800), ("30:05", 1805), ("1:00:00", 3600), ("1-12", 129600), ("1-00:30", 88200), ("UNLIMITED", None), (None, None)],
)
def test_time_limits(program, text, wanted):
    assert program("slurm_status").seconds(text) == wanted


def test_slurm_that_does_not_answer_is_told_in_a_sentence(program, commands):
    commands("scontrol", "echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1")
    found = program("slurm_status").status()
    assert (found["up"], found["nodes"]) == (False, [])
    assert found["error"] == "'scontrol show config' failed: Unable to contact slurm controller (connect failure)"


def test_slurm_that_hangs_is_left(program, commands, monkeypatch):
    reader = program("slurm_status")
    monkeypatch.setattr(reader, "TIMEOUT", 0.2)
    commands("scontrol", "exec sleep 30")
    assert reader.status()["error"] == "'scontrol show config' did not end in 0.2 s"


def test_metrics(program, seen):
    lines = str(program("slurm_metrics").metrics(seen)).splitlines()
    for wanted in (
        "slurm_up 1",
        'slurm_node_usable{node="gpu1",state="idle"} 0',
        'slurm_node_gres_allocated{gres="gpu",node="gpu2",type="a100"} 1',
        'slurm_partition_jobs{partition="all",state="pending"} 2',
        'slurm_partition_up{partition="a100"} 0',
        'slurm_account_gpus_allocated{account="physics"} 1',
        "slurm_controller_database_queue 3",
        "slurm_controller_last_cycle_seconds 0.001646",
    ):
        assert wanted in lines
    assert sum(line.startswith("# TYPE slurm_node_cpus ") for line in lines) == 1


def test_of_a_cluster_that_is_down_nothing_is_claimed(program, seen):
    down = {**seen, "up": False, "error": "no", "nodes": [], "partitions": [], "jobs": [], "scheduler": {}}
    names = {line.split()[0] for line in str(program("slurm_metrics").metrics(down)).splitlines() if not line.startswith("#")}
    assert names == {"slurm_up", "slurm_status_timestamp_seconds"}
    assert program("slurm_zabbix").values(down) == {"slurm.up": "0", "slurm.error": "no"}
    document = program("slurm_glue2").document(down, "urn:slurm:site", "")
    assert (document["ComputingEndpoint"][0]["ServingState"], document["ComputingShare"]) == ("closed", [])
    assert "TotalJobs" not in document["ComputingService"][0]


def test_label_values_are_escaped(program):
    text = program("prometheus_text").Metrics()
    text.add("x", "gauge", "what", 1, name='a"b\\c\nd')
    assert str(text).splitlines()[-1] == 'x{name="a\\"b\\\\c\\nd"} 1'


def test_glue2_document(program, seen):
    document = program("slurm_glue2").document(seen, "urn:slurm:site", "example.org")
    share = document["ComputingShare"][0]
    assert (share["MaxWallTime"], share["RunningJobs"], share["WaitingJobs"]) == (172800, 1, 2)
    # gpu1 is drained: its CPUs and GPUs are not free.
    assert (share["FreeSlots"], share["FreeAcceleratorSlots"], share["UsedAcceleratorSlots"]) == (1, 1, 1)
    assert document["ComputingShare"][1]["MappingPolicy"] == ["Account:physics", "Account:chemistry", "QOS:long"]
    assert document["ComputingShare"][1]["ServingState"] == "draining"
    assert "MaxWallTime" not in document["ComputingShare"][1]
    ids = [entity["ID"] for members in document.values() for entity in members]
    assert len(ids) == len(set(ids))


def test_zabbix_values(program, seen):
    values = program("slurm_zabbix").values(seen)
    assert values["slurm.gpu.discovery"] == '[{"{#TYPE}": "a100"}]'
    assert (values["slurm.gpu.total[a100]"], values["slurm.gpu.used[a100]"], values["slurm.jobs.pending"]) == ("4", "1", "2")


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ('Response: "processed: 13; failed: 2; total: 15"', ""),
        ('Response: "processed: 0; failed: 15; total: 15"', "Zabbix took none of the values: is there a host"),
        ("Sending failed.", "Zabbix did not take the values: Sending failed."),
    ],
)
def test_what_zabbix_answers(program, commands, said, problem):
    commands("zabbix_sender", f"cat >/dev/null; echo '{said}'")
    assert program("slurm_zabbix").send({"slurm.up": "1"}, "file").startswith(problem)
    assert bool(program("slurm_zabbix").send({"slurm.up": "1"}, "file")) == bool(problem)


def test_gpu_metrics(program, commands, tmp_path):
    commands("nvidia-smi", "echo '00000000:01:00.0, 50, 1024, 40960, 40, [N/A], 2'")
    (tmp_path / "file").write_text("")
    reader = program("gpu_metrics")
    devices = reader.scheduled(["# comment", "a100 0000:01:00.0 /dev/null", f"a100 0000:02:00.0 {tmp_path}/file"])
    lines = str(reader.metrics(devices)).splitlines()
    assert 'gpu_device_present{file="/dev/null",pci_address="0000:01:00.0",type="a100"} 1' in lines
    assert f'gpu_device_present{{file="{tmp_path}/file",pci_address="0000:02:00.0",type="a100"}} 0' in lines
    assert 'gpu_utilization_ratio{pci_address="0000:01:00.0"} 0.5' in lines
    assert 'gpu_ecc_uncorrected_errors{pci_address="0000:01:00.0"} 2.0' in lines
    assert not any(line.startswith("gpu_power_watts") for line in lines)


def test_gpu_reader_that_fails_is_told(program, commands):
    commands("nvidia-smi", "exit 255")
    assert 'gpu_reader_up{reader="nvidia-smi"} 0' in str(program("gpu_metrics").metrics([])).splitlines()


def test_one_lost_gpu_does_not_hide_the_readings_of_the_others(program, commands):
    """nvidia-smi ends with 15 after it has printed all others."""
    metrics = program("gpu_metrics")
    row = "00000000:41:00.0, 97, 100, 81559, 41, 300.5, 0"
    commands("nvidia-smi", f"echo '{row}'; echo 'Unable to determine the device handle for GPU0000:42:00.0: GPU is lost'; exit 15")
    lines = str(metrics.metrics([])).splitlines()
    assert 'gpu_reader_up{reader="nvidia-smi"} 0' in lines
    assert 'gpu_temperature_celsius{pci_address="0000:41:00.0"} 41.0' in lines


def test_a_hanging_nvidia_smi_does_not_hang_the_metrics(program, commands, monkeypatch):
    metrics = program("gpu_metrics")
    monkeypatch.setattr(metrics, "TIMEOUT", 0.3)
    monkeypatch.setattr(metrics.os, "killpg", lambda _pid, _signal: None)  # in the kernel, SIGKILL does not end it
    commands("nvidia-smi", "exec sleep 8")
    assert metrics.read("pci.bus_id") == ([], False)
