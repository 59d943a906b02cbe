# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The table of what makes a GPU unusable: each sign is seen, and nothing else is."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu import health, kernel_log
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.facts import gather
from ansible_collections.deephdc.accelerators.plugins.module_utils._model import units

# What names alone would not show: scripts/narrow.py.
READS = ("tests/data/nvidia_smi", "tests/data/two_compute_instances.json")
DATA = Path(__file__).resolve().parents[3] / "data/nvidia_smi"
ADDRESS = "0000:21:00.0"
# The value of each element that is in a table, bad and good.
VALUES = {
    "uuid": ("Unknown Error", "GPU-1"),
    "product_name": ("[Unknown Error]", "NVIDIA H100"),
    "gpu_recovery_action": ("Drain and Reset", "None"),
    "fabric/state": ("In Progress", "Completed"),
    "fabric/status": ("Timeout", "Success"),
    "fabric/health/summary": ("Unhealthy", "Healthy"),
    "compute_mode": ("Prohibited", "Exclusive_Process"),
}
WHERE = {
    health.ANY: "temperature/gpu_temp",
    ".": ".",
    "ecc_errors/volatile//*uncorrectable*": "ecc_errors/volatile/sram_uncorrectable_parity",
    ".//sram_threshold_exceeded": "ecc_errors/aggregate/sram_threshold_exceeded",
    ".//channel_repair_pending": "ecc_errors/channel_repair_pending",
    ".//tpc_repair_pending": "ecc_errors/tpc_repair_pending",
    "mig_devices/mig_device//*uncorrectable*": "mig_devices/mig_device/ecc_error_count/volatile_count/sram_uncorrectable",
}


def value_of(sign: health.Sign, bad: bool) -> str:
    if sign.element in VALUES:
        return VALUES[sign.element][0 if bad else 1]
    if sign.bad == health.COUNT:
        return "3" if bad else "0"
    if sign.bad == "Yes":
        return "Yes" if bad else "No"
    words = sign.bad.strip(".*()").split("|")[0]
    return f"[{words}]" if bad else "33 C"


def document(path: str, text: str) -> ElementTree.Element:
    gpu = element = ElementTree.Element("gpu")
    for name in [] if path == "." else path.split("/"):
        element = ElementTree.SubElement(element, name)
    element.text = text
    return gpu


@pytest.mark.parametrize("sign", health.NVIDIA_SIGNS, ids=lambda sign: f"{sign.element} {sign.bad}")
def test_each_sign_is_seen_at_a_bad_value_alone(sign):
    path = WHERE.get(sign.element, sign.element)
    assert sign.problem in [problem for problem, _words in health.of_document(document(path, value_of(sign, True)))]
    assert health.of_document(document(path, value_of(sign, False))) == []
    assert health.of_document(document(path, "N/A")) == []


@pytest.mark.parametrize("sign", [*health.NVIDIA_SIGNS, *health.OTHER_SIGNS, *health.LOG_SIGNS], ids=lambda sign: sign.element)
def test_each_sign_has_a_problem_with_a_severity(sign):
    problem = {problem.name: problem for problem in health.PROBLEMS}[sign.problem]
    assert problem.severity in health.SEVERITIES and sign.sentence


@pytest.mark.parametrize("path", [DATA / "h100_driver580.xml", DATA / "a100_mig.xml", DATA / "rtx3090.xml"], ids=lambda path: path.stem)
def test_a_recorded_answer_of_a_good_gpu_has_no_sign(path):
    for gpu in ElementTree.fromstring(path.read_text(encoding="utf-8")).findall("gpu"):
        assert health.of_document(gpu) == []


def health_of(root: object) -> dict[str, list[str]]:
    return {entry["pci_address"]: [found["message"].split(": ", 1)[1] for found in entry["health"]] for entry in gather(str(root))}


H100 = {"type": "h100", "pci_address": ADDRESS, "driver_version": "580.95.05"}


def test_an_answer_without_any_gpu(simulate, nvidia_smi):
    nvidia_smi("none_listed.xml")
    assert health_of(simulate(dict(H100, driver_version="570.172.08"))) == {ADDRESS: [health.UNLISTED + "."]}


@pytest.mark.parametrize(
    "said", ["No devices were found", "Unable to determine the device handle for gpu 0000:21:00.0: Not Found"], ids=["none", "named"]
)
def test_a_failure_that_says_that_a_gpu_does_not_start(simulate, nvidia_smi, said):
    nvidia_smi(b"", rc=6, said=said)
    (entry,) = gather(str(simulate(H100)))
    assert "nvidia_smi_unlisted" in [found["problem"] for found in entry["health"]]


def test_a_lost_gpu_that_keeps_its_name(simulate, nvidia_smi):
    root = simulate({**H100, "type": "h200"}, {**H100, "type": "h200", "pci_address": "0000:22:00.0"})
    for code in (0, 15):
        nvidia_smi("lost_values.xml", rc=code)
        found = health_of(root)
        assert "nvidia-smi says that it is lost." in found["0000:22:00.0"]
        assert "nvidia-smi says that it is lost." not in found[ADDRESS]


def test_errors_of_one_mig_instance_name_it(simulate, nvidia_smi):
    nvidia_smi("instance_errors.xml")
    found = health_of(simulate(H100))[ADDRESS]
    assert "its MIG instance 2/0 has 3 uncorrected ECC error(s) since the driver was loaded." in found


def test_a_return_value_with_a_document_quotes_no_document(simulate, nvidia_smi):
    nvidia_smi("h100_driver580.xml", rc=8)
    (sentences,) = health_of(simulate(dict(H100, driver_version="580.159.04"))).values()
    assert not any("DOCTYPE" in sentence or "<" in sentence for sentence in sentences), sentences
    assert any("return value 8 (external power cables are not attached)" in sentence for sentence in sentences)


def test_two_devices_with_one_file_are_kept_from_jobs_and_the_others_are_not(simulate):
    """The oddity of a host refuses its devices, never the run of a site."""
    third = {**H100, "pci_address": "0000:23:00.0"}
    root = simulate(H100, {**H100, "pci_address": "0000:22:00.0"}, third)
    root.write("proc/driver/nvidia/gpus/0000:22:00.0/information", "Model: NVIDIA H100\nDevice Minor: 0\n")
    entries = gather(str(root))
    assert [unit.pci_address for unit in units.units(entries)] == ["0000:23:00.0"]
    assert [(one["pci_address"], one["reason"]) for one in units.unschedulable(entries)] == [
        (ADDRESS, "NVIDIA H100 80GB HBM3 at 0000:21:00.0 can't be scheduled: its file /dev/nvidia0 is that of 0000:22:00.0, too."),
        ("0000:22:00.0", "NVIDIA H100 at 0000:22:00.0 can't be scheduled: its file /dev/nvidia0 is that of 0000:21:00.0, too."),
    ]


def test_a_gpu_that_an_administrator_excluded_is_not_said_to_be_lost(simulate, nvidia_smi):
    nvidia_smi("none_listed.xml")
    root = simulate(dict(H100, driver_version="570.172.08"))
    root.write(f"proc/driver/nvidia/gpus/{ADDRESS}/information", "Model: NVIDIA H100\nDevice Minor: 0\nGPU Excluded:\t Yes\n")
    assert health_of(root) == {ADDRESS: [health.EXCLUDED + "."]}
    assert units.unschedulable(gather(str(root)))[0]["reason"].endswith(f"can't be scheduled: {health.EXCLUDED}.")


def test_compute_instances_of_one_gpu_instance_are_units_of_their_own():
    (gpu,) = json.loads((DATA / "../two_compute_instances.json").read_text(encoding="utf-8"))
    found = units.units([gpu])
    assert [(unit.type, unit.files[-1][-2:]) for unit in found] == [("h100_1c.3g.40gb", "41"), ("h100_2c.3g.40gb", "42")]
    one, other = gpu["mig"]["devices"]
    other["device_files"] = one["device_files"]
    with pytest.raises(ValueError, match="have the same device file"):
        units.units([gpu])


# --- the kernel's log


XID = "NVRM: Xid (PCI:0000:21:00): {0}"
CHANGED = "154, GPU recovery action changed from 0x0 (None) to 0x{0}"


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], None),
        ([XID.format("13, pid=7, name=python, Graphics Exception")], None),
        ([XID.format("63, Row Remapper: New row marked for remapping")], None),
        ([XID.format("119, pid=7, Timeout waiting for RPC")], "Xid 119 (GSP timeout): reset the GPU"),
        ([XID.format("79, GPU has fallen off the bus."), XID.format("119, x")], "and Xid 119 (GSP timeout): reboot the host"),
        (["NVRM: Xid (0000:21:00): 48, DBE"], "Xid 48 (uncorrected memory error): reset the GPU"),
        ([XID.format(CHANGED.format("2 (Node Reboot Required)"))], "Xid 154 (Node Reboot Required): reboot the host"),
        ([XID.format(CHANGED.format("4 (Drain and Reset)"))], "Xid 154 (Drain and Reset): reset the GPU"),
        ([XID.format("95, x"), XID.format("154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)")], None),
        ([XID.format("95, x"), "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05"], None),
        ([XID.format("95, x"), "deephdc: reset of GPU 0000:21:00.0"], None),
        ([XID.format("95, x"), "deephdc: reset of GPU 0000:22:00.0"], "Xid 95"),
        (["deephdc: reset of GPU 0000:21:00.0", XID.format("95, x")], "Xid 95"),
        (["NVRM: GPU 0000:21:00.0: RmInitAdapter failed! (0x23:0x65:1401)"], "the driver could not start the GPU: reset the GPU"),
        (["NVRM: Xid (PCI:0000:21:00 GPU-I:05): 95, x"], "Xid 95"),
        (["NVRM: Xid (PCI:0000:21:00 GPU-I:05 GPU-CI:00): 95, x"], "Xid 95"),
        (["python[7]: NVRM: Xid (PCI:0000:21:00): 79, x"], None),
        ([XID.format("95, name=deephdc: reset of GPU 0000:21:00.0")], "Xid 95"),
    ],
)
def test_what_the_log_says_of_a_gpu(messages, expected):
    found = kernel_log.problems(messages)
    assert found.keys() <= {ADDRESS}
    assert expected is None if not found else expected in found[ADDRESS]


def test_a_gpu_that_the_driver_has_started_since_is_well():
    message = "NVRM: GPU 0000:21:00.0: RmInitAdapter failed! (0x23:0x65:1401)"
    assert kernel_log.problems([message, XID.format("95, x")], [ADDRESS]) == kernel_log.problems([XID.format("95, x")])


def test_a_reset_is_noted(tmp_path):
    log = tmp_path / "kmsg"
    log.touch()
    kernel_log.note_reset(ADDRESS, str(log))
    assert kernel_log.problems([XID.format("95, x"), log.read_text().strip()]) == {}
    kernel_log.note_reset(ADDRESS, str(tmp_path / "none"))


@pytest.mark.parametrize(
    "name", ["GPU is lost", "GPU requires reset", "a</process_name></process_info></processes><uuid>GPU is lost</uuid>", "\xe9\x01"]
)
def test_names_of_programs_are_no_signs(simulate, nvidia_smi, data_of, name):
    """Users choose them."""
    nvidia_smi(
        data_of("h100_driver580.xml").replace(b"<processes>", b"<processes><process_info>" + name.encode("latin-1") + b"</process_info>")
    )
    assert list(health_of(simulate(dict(H100, pci_address="0000:00:06.0", driver_version="580.159.04"))).values()) == [[]]


@pytest.fixture
def data_of():
    return lambda name: (DATA / name).read_bytes()


def test_devices_of_one_group_for_virtual_machines_have_one_file(simulate):
    root = simulate(*({**H100, "pci_address": address, "driver": "vfio-pci", "iommu_group": 9} for address in (ADDRESS, "0000:22:00.0")))
    root.write("dev/vfio/9", "")
    assert [entry["health"] for entry in gather(str(root))] == [[], []]


def test_the_log_is_read_as_the_kernel_writes_it(tmp_path):
    """Records as those of /dev/kmsg, which never ends: a pipe that stays open."""
    path = str(tmp_path / "kmsg")
    os.mkfifo(path)
    lines = [f"4,{number},1000,-;{XID.format('79, x')}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:21:00.0\n".encode() for number in range(3)]
    handle = os.open(path, os.O_RDWR)
    writer = threading.Thread(target=lambda: [os.write(handle, line) for line in lines])
    writer.start()
    writer.join()
    assert kernel_log.read(path) == [XID.format("79, x")] * 3
    os.close(handle)
    assert kernel_log.read(str(tmp_path / "none")) is None


@pytest.mark.parametrize(("action", "told"), [("None", False), ("N/A", True), ("", True)])
def test_a_driver_that_knows_it_counts_more_than_the_log(simulate, nvidia_smi, action, told):
    element = f"<gpu_recovery_action>{action}</gpu_recovery_action>" if action else ""
    nvidia_smi(
        f"<nvidia_smi_log><driver_version>580.95.05</driver_version><gpu id='00000000:21:00.0'>{element}</gpu></nvidia_smi_log>".encode()
    )
    root = simulate(H100)
    root.write("dev/kmsg", f"4,1,1,-;{XID.format('48, DBE')}\n")
    assert ("driver_error" in [found["problem"] for entry in gather(str(root)) for found in entry["health"]]) == told
