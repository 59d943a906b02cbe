# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The accelerator model on device trees of many kinds of hosts."""

from __future__ import annotations

import re

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu import amd, health
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.facts import compute_gpu_addresses, gather, kind_of
from ansible_collections.deephdc.accelerators.plugins.module_utils._simulator.tree import CATALOGUE

# What names alone would not show: scripts/narrow.py.
READS = ("tests/data/nvidia_smi",)

KEYS = [
    "kind", "index", "pci_address", "class", "vendor_id", "device_id", "subsystem_id", "vendor", "model", "type", "memory_mib", "uuid",
    "serial", "driver", "driver_version", "library_version", "device_files", "numa_node", "local_cpus", "pcie", "iommu_group",
    "iommu_group_peers", "sriov", "mig", "display_active", "ecc", "health",
]  # fmt: skip

ASPEED = {"type": "aspeed", "vendor_id": "1a03", "device_id": "2000", "class": "030000", "boot_vga": True, "driver": "ast"}
NVSWITCH = {"type": "nvswitch", "vendor_id": "10de", "device_id": "1af1", "class": "068000", "driver": "nvidia-nvswitch"}
RTX3090 = {"type": "rtx3090", "pci_address": "0000:0c:00.0", "iommu_group": 15, "boot_vga": True}
RTX3090_AUDIO = {
    "type": "audio", "pci_address": "0000:0c:00.1", "vendor_id": "10de", "device_id": "1aef", "class": "040300",
    "iommu_group": 15, "driver": "snd_hda_intel",
}  # fmt: skip
TWO_A100 = [{"type": "a100", "pci_address": "0000:41:00.0"}, {"type": "a100", "pci_address": "0000:81:00.0"}]


def facts_of(root, **options):
    """gather() on a simulated root, with no pci.ids of this machine; checks what holds for every entry."""
    entries = gather(str(root), pci_ids_paths=options.pop("pci_ids_paths", ()), **options)
    for index, entry in enumerate(entries):
        assert list(entry) == KEYS
        assert entry["index"] == index
        assert re.fullmatch(r"[a-z0-9_]+", entry["type"])
        for found in entry["health"]:
            assert found["problem"] in health.names()
            assert found["message"].startswith(entry["pci_address"] + ": ") and found["message"].endswith(".")
    return entries


def problems_of(entry):
    return [found["problem"] for found in entry["health"]]


# Kinds of hosts


def test_host_without_devices(simulate):
    assert facts_of(simulate()) == []


def test_host_without_sysfs(tmp_path):
    assert facts_of(tmp_path / "nothing") == []


def test_consumer_card_with_audio_function(simulate, nvidia_smi):
    nvidia_smi("rtx3090.xml")
    (card,) = facts_of(simulate(dict(RTX3090, driver_version="595.58.03"), RTX3090_AUDIO))
    assert card["kind"] == "gpu" and card["type"] == "rtx3090" and card["class"] == "030000"
    assert card["iommu_group"] == 15 and card["iommu_group_peers"] == ["0000:0c:00.1"]
    assert card["display_active"] is True
    assert card["memory_mib"] == 24576 and card["ecc"] is None and card["serial"] is None
    assert card["mig"] == {"capable": False, "enabled": False, "devices": []}
    assert card["driver_version"] == card["library_version"] == "595.58.03"
    assert card["health"] == []


def test_eight_a100_with_nvswitches(simulate):
    entries = facts_of(simulate({"type": "a100", "count": 8}, dict(NVSWITCH, count=6), ASPEED))
    assert [entry["type"] for entry in entries if entry["kind"] == "gpu"] == ["a100"] * 8
    assert [entry["device_files"] for entry in entries[:8]] == [[f"/dev/nvidia{minor}"] for minor in range(8)]
    assert [entry["kind"] for entry in entries[8:]] == ["console"]


def test_mig_instances(simulate, nvidia_smi):
    nvidia_smi("a100_mig.xml", listing="a100_mig_list.txt")
    instances = [{"gpu_instance_id": number, "compute_instance_id": 0} for number in (7, 8, 1)]
    root = simulate(dict(TWO_A100[0], mig_devices=instances), TWO_A100[1])
    for minor in (12, 13, 21, 22, 30, 31):
        root.write(f"dev/nvidia-caps/nvidia-cap{minor}", "")
    on, off = facts_of(root)
    assert on["mig"]["capable"] is on["mig"]["enabled"] is True
    assert on["mig"]["devices"][0] == {
        "uuid": "MIG-a686709d-6dc2-542a-8851-0d2508448c10",
        "profile": "1g.10gb",
        "gpu_instance_id": 7,
        "compute_instance_id": 0,
        "memory_mib": 9728,
        "device_files": ["/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"],
    }
    assert [device["profile"] for device in on["mig"]["devices"]] == ["1g.10gb", "1g.10gb", "3g.40gb"]
    assert on["health"] == []
    assert off["mig"] == {"capable": True, "enabled": False, "devices": []}
    assert off["ecc"] is True and off["memory_mib"] == 81920 and off["serial"] == "1650522003821"


def test_mig_instance_whose_capability_has_no_node(simulate, nvidia_smi):
    nvidia_smi("a100_mig.xml", listing="a100_mig_list.txt")
    gpu = facts_of(simulate(dict(TWO_A100[0], mig_devices=[{"gpu_instance_id": 7, "compute_instance_id": 0}]), TWO_A100[1]))[0]
    assert gpu["mig"]["devices"][0]["device_files"] == ["/dev/nvidia0"]
    assert problems_of(gpu) == ["device_file_missing"]
    assert "/dev/nvidia-caps/nvidia-cap12 and /dev/nvidia-caps/nvidia-cap13 are missing" in gpu["health"][0]["message"]


def test_sriov_with_virtual_functions(simulate):
    physical = {"type": "a100", "pci_address": "0000:41:00.0", "sriov_total_vfs": 16, "sriov_num_vfs": 2}
    functions = [{"type": "a100", "pci_address": f"0000:41:00.{number}", "physfn": "0000:41:00.0"} for number in (4, 5)]
    pf, *vfs = facts_of(simulate(physical, *functions))
    assert pf["sriov"] == {"total_vfs": 16, "num_vfs": 2, "is_vf": False}
    assert [vf["sriov"] for vf in vfs] == [{"total_vfs": None, "num_vfs": None, "is_vf": True}] * 2
    assert [vf["health"] for vf in vfs] == [[], []]


def test_bound_to_vfio(simulate, nvidia_smi):
    nvidia_smi(b"must not be run", rc=1)
    root = simulate(dict(RTX3090, driver="vfio-pci"), RTX3090_AUDIO)
    (missing,) = facts_of(root)
    assert missing["device_files"] == [] and problems_of(missing) == ["device_file_missing"]
    root.write("dev/vfio/15", "")
    (card,) = facts_of(root)
    assert card["driver"] == "vfio-pci" and card["device_files"] == ["/dev/vfio/15"]
    assert card["health"] == [] and card["library_version"] is None


def test_nouveau(simulate, nvidia_smi):
    nvidia_smi(b"must not be run", rc=1)
    (card,) = facts_of(simulate(dict(RTX3090, driver="nouveau")))
    assert card["driver"] == "nouveau" and card["device_files"] == ["/dev/dri/renderD128"] and card["health"] == []


def test_no_driver_at_all(simulate, nvidia_smi):
    nvidia_smi(b"must not be run", rc=1)
    (card,) = facts_of(simulate(dict(RTX3090, driver="")))
    assert card["driver"] is None and card["driver_version"] is None and card["device_files"] == [] and card["health"] == []
    assert card["type"] == "rtx3090" and card["model"] is None


def test_mixed_vendors(simulate):
    devices = ["a100", "mi210", "max1550", "mi300x"]
    entries = facts_of(simulate(*[{"type": type_} for type_ in devices], ASPEED))
    assert [entry["type"] for entry in entries[:4]] == devices
    assert [entry["vendor"] for entry in entries] == ["nvidia", "amd", "intel", "amd", "other"]
    assert [entry["memory_mib"] for entry in entries] == [None, 65520, 131072, 196592, None]
    assert [entry["device_files"] for entry in entries[1:4]] == [[f"/dev/dri/renderD{number}"] for number in (128, 129, 130)]
    assert re.fullmatch("GPU-[0-9a-f]{16}", entries[1]["uuid"])
    assert [entry["health"] for entry in entries] == [[], [], [], [], []]


@pytest.mark.parametrize(("vendors", "types"), [(("amd",), ["mi210"]), (("nvidia", "other"), ["a100", "1a03_2000"]), ((), [])])
def test_only_some_vendors(simulate, vendors, types):
    root = simulate({"type": "a100"}, {"type": "mi210"}, dict(ASPEED, model=None))
    assert [entry["type"] for entry in facts_of(root, vendors=vendors)] == types


def test_sixteen_devices_on_four_numa_nodes(simulate):
    nodes = [{"type": "h100", "count": 4, "numa_node": node, "local_cpus": f"{node * 16}-{node * 16 + 15}"} for node in range(4)]
    entries = facts_of(simulate(*nodes))
    assert [entry["numa_node"] for entry in entries] == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    assert entries[15]["local_cpus"] == "48-63"
    assert entries[15]["pcie"] == {"gen": 5, "width": 16}
    assert len({entry["uuid"] for entry in entries}) == 16


def test_one_numa_node_is_no_numa_node(simulate):
    (gpu,) = facts_of(simulate({"type": "a100", "numa_node": -1, "local_cpus": ""}))
    assert gpu["numa_node"] is None and gpu["local_cpus"] is None


def test_pci_domains_are_sorted_by_number(simulate):
    addresses = ["10000:01:00.0", "0002:00:00.0", "ffff:01:00.0", "0001:0a:00.0"]
    entries = facts_of(simulate(*[{"type": "a100", "pci_address": address} for address in addresses]))
    assert [entry["pci_address"] for entry in entries] == ["0001:0a:00.0", "0002:00:00.0", "ffff:01:00.0", "10000:01:00.0"]
    assert [entry["device_files"] for entry in entries] == [[f"/dev/nvidia{minor}"] for minor in range(4)]


def test_nvidia_smi_in_another_pci_domain(simulate, nvidia_smi, data):
    document = (data / "nvidia_smi" / "a100_mig.xml").read_bytes()
    nvidia_smi(document.replace(b"00000000:81:00.0", b"00010000:81:00.0"), listing="a100_mig_list.txt")
    entries = facts_of(simulate(TWO_A100[0], {"type": "a100", "pci_address": "10000:81:00.0"}))
    assert [entry["serial"] for entry in entries] == ["1650522003820", "1650522003821"]


def test_server_with_console_only(simulate):
    (console,) = facts_of(simulate(ASPEED))
    assert console["kind"] == "console" and console["vendor"] == "other" and console["display_active"] is True
    assert console["health"] == []


def test_console_is_not_examined(simulate):
    root = simulate(ASPEED)
    root.remove("dev/dri/renderD128")
    (console,) = facts_of(root)
    assert console["device_files"] == [] and console["health"] == []


@pytest.mark.parametrize(
    ("vendor_id", "device_id", "class_", "kind"),
    [
        ("10de", "2330", "030200", "gpu"),
        ("10de", "22a3", "068000", None),  # NVSwitch
        ("10de", "1aef", "040300", None),  # audio
        ("1002", "74a1", "120000", "gpu"),  # MI300X
        ("1002", "740f", "038000", "gpu"),  # MI210
        ("1002", "744c", "030000", "gpu"),  # RX 7900
        ("1002", "164e", "030000", "console"),  # in a Ryzen
        ("1002", "515e", "030000", "console"),  # ES1000
        ("8086", "0bd5", "038000", "gpu"),  # Max 1550
        ("8086", "56a0", "030000", "gpu"),  # Arc A770
        ("8086", "4680", "030000", "console"),  # UHD 770
        ("1002", "66a1", "038000", "gpu"),  # MI50
        ("1002", "6860", "038000", "gpu"),  # MI25
        ("1002", "67df", "030000", "gpu"),  # RX 580
        ("1002", "6929", "030000", "gpu"),  # S7150
        ("1002", "6899", "030000", "console"),  # HD 5800
        ("1002", "6779", "030000", "console"),  # HD 6450
        ("1002", "683f", "030000", "console"),  # HD 7700
        ("1002", "6611", "030000", "console"),  # HD 8570
        ("1002", "791e", "030000", "console"),  # X1200, in a chipset
        ("8086", "37c8", "0b4000", None),  # QuickAssist
        ("abcd", "0001", "0b4000", "accelerator"),
        ("1da3", "1020", "120000", "accelerator"),  # Gaudi 2
        ("1a03", "2000", "030000", "console"),  # ASPEED
        ("102b", "0536", "030000", "console"),  # Matrox
        ("1af4", "1050", "038000", "console"),  # virtio
        ("1234", "1111", "030000", "console"),  # Bochs
        ("15ad", "0405", "030000", "console"),  # VMware
        ("8086", "1533", "020000", None),  # a network card
    ],
)
def test_kinds(vendor_id, device_id, class_, kind):
    assert kind_of({"vendor_id": vendor_id, "device_id": device_id, "class": class_, "subsystem_id": None}) == kind


def test_compute_gpus_are_not_consoles(simulate):
    assert compute_gpu_addresses(str(simulate(ASPEED, {"type": "t4"}))) == ["0000:02:00.0"]


@pytest.mark.parametrize("type_", CATALOGUE)
def test_every_simulated_type_is_recognized(simulate, type_):
    (entry,) = facts_of(simulate({"type": type_}))
    assert (entry["kind"], entry["type"], entry["model"] is not None) == ("gpu", type_, type_ not in ("max1550", "flex170"))


# Wrong or missing answers


@pytest.fixture
def data(request):
    return request.path.parents[3] / "data"


BROKEN = {
    "empty": b"",
    "not XML": b"Segmentation fault\n",
    "truncated": b'<?xml version="1.0" ?>\n<nvidia_smi_log>\n<gpu id="00000000:41:00.0">\n<product_name>NVIDIA A1',
    "wrong nesting": b"<nvidia_smi_log><gpu></nvidia_smi_log>",
    "NUL bytes": b"<nvidia_smi_log>\x00\x00</nvidia_smi_log>",
    "UTF-16": "<nvidia_smi_log></nvidia_smi_log>".encode("utf-16"),
}


@pytest.mark.parametrize("document", BROKEN.values(), ids=BROKEN)
def test_unreadable_answer_costs_its_facts_only(simulate, nvidia_smi, document):
    nvidia_smi(document)
    for gpu in facts_of(simulate(*TWO_A100)):
        assert problems_of(gpu) == ["nvidia_smi_unreadable"]
        assert gpu["type"] == "a100" and gpu["device_files"] and gpu["driver_version"] == "550.163.01"
        assert gpu["memory_mib"] is None and gpu["library_version"] is None


def test_wrong_bytes_in_a_name_are_told_and_replaced(simulate, nvidia_smi, data):
    document = (data / "nvidia_smi" / "a100_mig.xml").read_bytes().replace(b"<serial>", b"<note>caf\xe9</note><serial>", 1)
    nvidia_smi(document, listing="a100_mig_list.txt")
    gpu = facts_of(simulate(*TWO_A100))[1]
    assert problems_of(gpu) == ["nvidia_smi_warning"] and gpu["memory_mib"] == 81920


@pytest.mark.parametrize(
    ("rc", "said", "problem"),
    [
        (255, "Failed to initialize NVML: Unknown Error", "nvidia_smi_failed"),
        (9, "NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.", "nvidia_smi_failed"),
        (18, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.183", "driver_mismatch"),
    ],
)
def test_failing_nvidia_smi(simulate, nvidia_smi, rc, said, problem):
    nvidia_smi(b"", rc=rc, said=said)
    for gpu in facts_of(simulate(*TWO_A100)):
        assert problems_of(gpu) == [problem]
        assert gpu["type"] == "a100" and gpu["device_files"] and gpu["numa_node"] is None
        if problem == "driver_mismatch":
            assert gpu["library_version"] == "535.183" and gpu["driver_version"] == "550.163.01"
            assert "535.183" in gpu["health"][0]["message"] and "550.163.01" in gpu["health"][0]["message"]


def test_corrupted_inforom_concerns_one_gpu(simulate, nvidia_smi):
    nvidia_smi("a100_mig.xml", listing="a100_mig_list.txt", rc=14, said="WARNING: infoROM is corrupted at gpu 0000:81:00.0")
    healthy, corrupted = facts_of(simulate(*TWO_A100))
    assert "nvidia_smi_failed" not in problems_of(healthy)
    assert problems_of(corrupted) == ["nvidia_smi_warning"] and "infoROM" in corrupted["health"][0]["message"]
    assert corrupted["memory_mib"] == 81920


def test_other_version_in_the_answer(simulate, nvidia_smi):
    nvidia_smi("rtx3090.xml")
    (card,) = facts_of(simulate(dict(RTX3090, driver_version="535.183.01")))
    assert problems_of(card) == ["driver_mismatch"]


def test_card_that_reads_all_ones(simulate):
    root = simulate(*TWO_A100)
    root.write(root.device("0000:41:00.0", "config"), b"\xff" * 64)
    root.write(root.device("0000:81:00.0", "config"), bytes.fromhex("de10b220") + b"\0" * 60)
    lost, healthy = facts_of(root)
    assert problems_of(lost) == ["fallen_off_bus"] and healthy["health"] == []


@pytest.mark.parametrize(
    "said",
    [
        "Unable to determine the device handle for GPU 0000:41:00.0: Unknown Error",
        "Unable to determine the device handle for GPU0000:41:00.0: Unknown Error",
        "Unable to determine the device handle for GPU0: 00000000:41:00.0: GPU is lost.  Reboot the system to recover this GPU",
        "No answer from 00000000:41:00.0",  # the return value says it, whatever the words
    ],
)
def test_card_that_nvidia_smi_says_is_lost(simulate, nvidia_smi, said):
    nvidia_smi(b"", rc=15, said=said)
    lost, other = facts_of(simulate(*TWO_A100))
    assert problems_of(lost) == ["fallen_off_bus", "nvidia_smi_failed"]
    assert problems_of(other) == ["nvidia_smi_failed"]


def test_virtual_functions_are_not_missed_in_the_answer(simulate, nvidia_smi):
    nvidia_smi("a100_mig.xml", listing="a100_mig_list.txt")
    function = {"type": "a100", "pci_address": "0000:41:00.4", "physfn": "0000:41:00.0"}
    _first, vf, _second = facts_of(simulate(*TWO_A100, function))
    assert vf["sriov"]["is_vf"] and vf["health"] == []


def test_card_with_values_that_are_errors(simulate, nvidia_smi, data):
    document = (data / "nvidia_smi" / "a100_mig.xml").read_bytes()
    nvidia_smi(document.replace(b"GPU-a5f1e0d2-3c44-41aa-9a0e-5a0f9e5f2b11", b"Unknown Error"), listing="a100_mig_list.txt")
    lost = facts_of(simulate(*TWO_A100))[1]
    assert problems_of(lost) == ["fallen_off_bus"] and lost["uuid"].startswith("GPU-")  # from /proc


def test_card_that_nvidia_smi_does_not_list(simulate, nvidia_smi):
    nvidia_smi("a100_mig.xml", listing="a100_mig_list.txt")
    entries = facts_of(simulate(*TWO_A100, {"type": "a100", "pci_address": "0000:c1:00.0"}))
    assert problems_of(entries[2]) == ["nvidia_smi_unlisted"] and "does not list it" in entries[2]["health"][0]["message"]


@pytest.mark.parametrize(
    ("document", "device", "expected"),
    [
        ("h100_ecc_errors.xml", {"type": "h100", "pci_address": "0000:19:00.0"}, "3 uncorrected ECC error(s)"),
        ("h100_ecc_errors.xml", {"type": "h100", "pci_address": "0000:3b:00.0"}, "could not be remapped"),
        ("h100_ecc_errors.xml", {"type": "h100", "pci_address": "0000:4c:00.0"}, None),
        ("v100_pending_retirement.xml", {"type": "v100", "pci_address": "0000:1a:00.0"}, "wait for retirement"),
    ],
)
def test_memory_errors(simulate, nvidia_smi, document, device, expected):
    nvidia_smi(document)
    version = {"h100_ecc_errors.xml": "580.105.08"}.get(document, "470.256.02")
    (gpu,) = facts_of(simulate(dict(device, driver_version=version)))
    assert problems_of(gpu) == (["ecc_errors"] if expected else [])
    assert gpu["ecc"] is True
    assert not expected or expected in gpu["health"][0]["message"]


def test_missing_device_node(simulate):
    root = simulate(*TWO_A100)
    root.remove("dev/nvidia1")
    healthy, missing = facts_of(root)
    assert healthy["health"] == []
    assert missing["device_files"] == [] and problems_of(missing) == ["device_file_missing"]
    assert missing["health"][0]["message"] == "0000:81:00.0: /dev/nvidia1 is missing though its driver names it."


def test_dangling_device_node_is_missing(simulate):
    root = simulate({"type": "a100"})
    root.remove("dev/nvidia0")
    (root.path / "dev" / "nvidia0").symlink_to("/nonexistent/nvidia0")
    assert problems_of(facts_of(root)[0]) == ["device_file_missing"]


LOSES = {
    "vendor": (), "device": (), "class": (),  # uevent has them too
    "subsystem_vendor": ("subsystem_id",), "numa_node": ("numa_node",), "local_cpulist": ("local_cpus",),
    "current_link_speed": ("pcie",), "current_link_width": ("pcie",),
    "iommu_group": ("iommu_group", "iommu_group_peers"), "driver": ("driver", "driver_version", "device_files"),
    "boot_vga": ("display_active",), "sriov_totalvfs": ("sriov",), "uevent": (),
}  # fmt: skip


@pytest.mark.parametrize("damage", ["missing", "directory", "link", "binary"])
@pytest.mark.parametrize(("name", "keys"), LOSES.items(), ids=LOSES)
def test_a_damaged_file_loses_its_keys_only(simulate, name, keys, damage):
    root = simulate(dict(RTX3090, numa_node=1, local_cpus="0-3", sriov_total_vfs=4), RTX3090_AUDIO)
    (before,) = facts_of(root)
    file = root.path / root.device("0000:0c:00.0", name)
    file.unlink()
    if damage == "directory":
        file.mkdir()
    elif damage == "link":
        file.symlink_to("/")  # it names nothing, whether it is read as a link or as a file
    elif damage == "binary":
        file.write_bytes(b"\xff\xfe\x00\x01")
    (after,) = facts_of(root)
    assert {key for key in KEYS if after[key] != before[key]} == set(keys)


def test_damaged_proc_files(simulate):
    root = simulate({"type": "a100"})
    root.write("proc/driver/nvidia/version", b"\xff\xff")
    root.write("proc/driver/nvidia/gpus/0000:01:00.0/information", b"\x00\xff")
    (gpu,) = facts_of(root)
    assert gpu["driver_version"] == "550.163.01"  # /sys/module has it too
    assert gpu["uuid"] is None and gpu["device_files"] == [] and gpu["type"] == "a100"


# AMD


def test_rocm_smi_tells_what_sysfs_does_not(simulate, commands, data):
    commands("rocm-smi", f"cat {data}/rocm_smi/mi100_rocm602.json")
    root = simulate({"type": "mi100", "pci_address": "0000:83:00.0"}, {"type": "mi100", "pci_address": "0000:a3:00.0"})
    for address in ("0000:83:00.0", "0000:a3:00.0"):
        for name in ("product_name", "unique_id", "serial_number", "mem_info_vram_total"):
            root.remove(root.device(address, name))
    first, second = facts_of(root)
    assert first["uuid"] == "GPU-79ccd55167a2124a" and first["serial"] == "692217000142" and first["memory_mib"] == 32752
    assert second["uuid"] == "GPU-04edfb117a17a07d" and second["serial"] is None and second["model"] == "Instinct MI100"


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("exit 2", "rocm_smi_failed"),
        ("echo '{'", "rocm_smi_unreadable"),
        ("echo '[1]'", "rocm_smi_unreadable"),
        ("sleep 60", "rocm_smi_timeout"),
    ],
)
def test_broken_rocm_smi(simulate, commands, script, problem):
    commands("rocm-smi", script)
    root = simulate({"type": "mi100"})
    root.remove(root.device("0000:01:00.0", "serial_number"))
    (gpu,) = facts_of(root, timeout=0.5)
    assert problems_of(gpu) == [problem] and gpu["memory_mib"] == 32752


def test_rocm_smi_is_not_run_without_need(simulate, commands):
    commands("rocm-smi", "exit 2")
    assert facts_of(simulate({"type": "mi100"}))[0]["health"] == []


def test_amd_memory_errors(simulate):
    root = simulate({"type": "mi210"})
    root.write(root.device("0000:01:00.0", "ras/umc_err_count"), "ue: 2\nce: 40\n")
    assert problems_of(facts_of(root)[0]) == ["ecc_errors"]


@pytest.mark.parametrize(
    ("mode", "problems"), [("SPX", []), (None, []), ("", []), ("CPX", ["compute_partitions"]), ("DPX", ["compute_partitions"])]
)
def test_an_amd_gpu_in_partitions_is_kept_from_jobs(simulate, mode, problems):
    """A partition's render node is not below the GPU in sysfs: no manager would close it."""
    root = simulate({"type": "mi300x"})
    if mode is not None:
        root.write(root.device("0000:01:00.0", "current_compute_partition"), mode + "\n")
    (gpu,) = facts_of(root)
    assert problems_of(gpu) == problems
    assert not problems or f"its compute partition mode is {mode}" in gpu["health"][0]["message"]


def test_rocm_version(tmp_path):
    (tmp_path / "version").write_text("6.3.1-48\n")
    assert amd.rocm_version(str(tmp_path / "version")) == "6.3.1-48"
    assert amd.rocm_version(str(tmp_path / "none")) is None


# Names


def test_names_from_pci_ids(simulate, tmp_path):
    (tmp_path / "pci.ids").write_text(
        "# comment\n1002  AMD\n\t2204  Not this one\n10de  NVIDIA Corporation\n\t2204  GA102 [GeForce RTX 3090]\n"
        "\t\t10de 1454  Founders Edition\n\t22a3  GH100 [H100 NVSwitch]\n1a03  ASPEED Technology, Inc.\n\t2000  ASPEED Graphics Family\n"
    )
    root = simulate(dict(RTX3090, driver=""), ASPEED)
    console, card = facts_of(root, pci_ids_paths=(str(tmp_path / "absent"), str(tmp_path / "pci.ids")))
    assert card["model"] == "GeForce RTX 3090"
    assert (console["model"], console["type"]) == ("ASPEED Graphics Family", "aspeed_graphics_family")
