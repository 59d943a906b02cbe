# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The programs that slurmd runs on a node: health check, prolog, epilog."""

from __future__ import annotations

import importlib
import os
import pty
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import jinja2
import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu import nvidia_smi
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import gres as slurm_gres
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import gpu

ROOT = Path(__file__).resolve().parents[4]
FILES = ROOT / "roles/slurm_node/files"
UTILS = ROOT / "plugins/module_utils"
SMI = ROOT / "tests/data/nvidia_smi"


@pytest.fixture
def programs(monkeypatch):
    monkeypatch.syspath_prepend(str(UTILS))
    monkeypatch.syspath_prepend(str(FILES))
    for name in ("slurm_gpus", "slurm_mps", "slurm_gpu_epilog", "slurm_gpu_prolog"):
        sys.modules.pop(name, None)
    found = importlib.import_module("slurm_gpus")
    monkeypatch.setattr(found, "say", lambda text: None)
    return found


@pytest.mark.parametrize("path", sorted(SMI.glob("*.xml")), ids=lambda path: path.stem)
def test_node_and_control_node_read_nvidia_smi_alike(programs, path):
    """The next run of the collection resumes a node that it finds well: both must say the same, in the same words."""
    text = path.read_text(encoding="utf-8")
    _version, facts = nvidia_smi.parse_document(text)
    told, complete, silent = programs.read_smi(text, 0)
    assert told == {address: [reason for _problem, reason in gpu["problems"]] for address, gpu in facts.items()}
    assert complete and not silent


def test_the_programs_find_what_they_import(tmp_path):
    """The files that the role installs are enough, in a Python that knows nothing else of the collection."""
    variables = yaml.safe_load((ROOT / "roles/slurm_node/vars/main.yml").read_text(encoding="utf-8"))
    names = []
    for item in variables["__slurm_node_program_files"]:
        source = re.search(r"'ansible.builtin.file', (__slurm_node_reader ~ )?'([\w.]+\.py)'", item.get("content", ""))
        if source:
            target = tmp_path / item["path"].removeprefix("{{ __slurm_node_programs }}/").replace(
                "{{ __slurm_node_health }}", "slurm_gpu_health"
            )
            target.parent.mkdir(exist_ok=True)
            shutil.copy((UTILS / "_gpu" if source.group(1) else FILES) / source.group(2), target)
            names.append(target.name)
    # A run that is killed in between leaves the former slurm_gpus.py, or one that finds the reader.
    assert names[:5] == ["address.py", "health.py", "kernel_log.py", "nvidia_smi.py", "slurm_gpus.py"]
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}]; import slurm_gpus, slurm_mps; print(slurm_gpus.read_smi('<nvidia_smi_log', 9))"
    done = subprocess.run([sys.executable, "-B", "-I", "-c", code], check=False, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("({}, False, 'nvidia-smi failed with return value 9')\n", "")


FAILED = "nvidia-smi failed with return value {0}"
LOST = "Unable to determine the device handle for GPU0000:41:00.0: GPU is lost.  Reboot the system to recover this GPU"
RESET = "Unable to determine the device handle for GPU0000:41:00.0: GPU requires reset"
UNKNOWN = "Unable to determine the device handle for gpu 0000:41:00.0: Not Found"


@pytest.mark.parametrize("words", [LOST, RESET, UNKNOWN])
def test_a_gpu_that_only_a_message_names_is_sick(programs, words):
    told, complete, silent = programs.read_smi(words + "\n", 15 if words == LOST else 6)
    assert told == {"0000:41:00.0": ["nvidia-smi says: " + words]} and not complete and silent


@pytest.mark.parametrize(("version", "counts"), [("550.163.01", True), ("", True), ("575.57.08", False), ("580.95.05", False)])
def test_the_kernel_log_counts_alone_where_the_driver_says_nothing_itself(programs, monkeypatch, tmp_path, version, counts):
    """One slow answer closed a node for an error that a reset had mended."""
    log = ["NVRM: Xid (PCI:0000:41:00): 79, pid=1, name=x, GPU has fallen off the bus."]
    monkeypatch.setattr(programs.kernel_log, "read", lambda: log)
    monkeypatch.setattr(programs.shutil, "which", lambda *_words, **_options: "/usr/bin/nvidia-smi")
    monkeypatch.setattr(programs, "run", lambda *_words: None)
    (tmp_path / "version").write_text(f"{version}\n")
    monkeypatch.setattr(programs, "DRIVER_VERSION", str(tmp_path / "version"))
    told, _complete, silent = programs.nvidia_problems()
    assert list(told) == (["0000:41:00.0"] if counts else []) and silent
    assert list(programs.read_smi("Failed to initialize NVML: Unknown Error\n", 255, log, version)[0]) == list(told)


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        ("State=IDLE CPUs=4", "lost"),
        ("State=DOWN* Reason=Not responding [slurm@2026-11-30T01:02:03]", "lost"),
        ("State=DOWN Reason=RAM broken [root@2026-11-30T01:02:03] Comment=x", "RAM broken + lost"),
        ("State=DOWN Reason=accelerators: old [root@2026-11-30T01:02:03]", "lost"),
    ],
)
def test_a_persons_reason_for_down_stays(programs, monkeypatch, shown, reason):
    asked = []

    def run(words, _seconds):
        asked.append(words)
        return subprocess.CompletedProcess(words, 0, stdout=f"NodeName=gpu1 {shown}\n".encode())

    monkeypatch.setattr(programs, "run", run)
    assert programs.drain("gpu1", "lost")
    assert asked[1][-1] == f"Reason={reason}"


def test_a_failure_without_a_name_is_the_tools(programs):
    assert programs.read_smi("Failed to initialize NVML: Unknown Error\n", 255) == ({}, False, FAILED.format(255))


@pytest.mark.parametrize(("text", "code"), [((SMI / "none_listed.xml").read_text(), 0), ("No devices were found\n", 6)])
def test_an_answer_without_any_gpu_says_that_all_are_lost(devices, monkeypatch, text, code):
    monkeypatch.setattr(devices, "nvidia_problems", lambda: devices.read_smi(text, code))
    monkeypatch.setattr(devices, "scheduled", lambda: {"0": devices.Gpu("0", "t4", "0000:01:00.0", ["/dev/nvidia0"])})
    monkeypatch.setattr(devices, "is_device", lambda path: True)
    wrong, silent = devices.looked_at(list(devices.scheduled().values()))
    assert wrong == ["t4 at 0000:01:00.0 (/dev/nvidia0): nvidia-smi does not list it though the driver nvidia is bound to it"]
    assert not silent


def test_a_tool_that_is_silent_for_long_closes_the_node(programs, monkeypatch, tmp_path):
    monkeypatch.setattr(programs, "SILENT_FILE", str(tmp_path / "silent"))
    assert [programs.silent_too_long("it hangs") for _check in range(4)] == [[]] * 4
    assert programs.silent_too_long("it hangs") == ["it hangs, in more than 4 checks one after the other"]
    assert programs.silent_too_long("it hangs") != []
    assert programs.silent_too_long("") == [] and programs.silent_too_long("it hangs") == []
    (tmp_path / "silent").write_text("x")
    assert programs.silent_too_long("it hangs") == []


@pytest.mark.parametrize(("mode", "wrong"), [("SPX\n", False), ("CPX\n", True), ("", False), (None, False)])
def test_an_amd_gpu_that_was_divided_since_is_sick(programs, monkeypatch, tmp_path, mode, wrong):
    monkeypatch.setattr(programs, "AMD_MODE", str(tmp_path / "{0}"))
    monkeypatch.setattr(programs, "nvidia_problems", lambda: ({}, False, "it hangs"))
    if mode is not None:
        (tmp_path / "0000:01:00.0").write_text(mode)
    gpu = programs.Gpu("0", "mi300x", "0000:01:00.0", ["/dev/null"])
    found, silent = programs.looked_at([gpu])
    assert found == (["mi300x at 0000:01:00.0 (/dev/null): its compute partition mode is CPX, not SPX"] if wrong else [])
    assert not silent, "nvidia-smi has nothing to do with it"


RESETS = [
    ("<gpu_recovery_action>GPU Reset</gpu_recovery_action>", ["the driver asks for the recovery action GPU Reset"]),
    ("<gpu_recovery_action>None</gpu_recovery_action>", []),
    ("<gpu_recovery_action>ERR!</gpu_recovery_action>", []),
    ("<gpu_reset_status><reset_required>Yes</reset_required></gpu_reset_status>", ["it requires a reset"]),
    ("<gpu_reset_status><reset_required>No</reset_required></gpu_reset_status>", []),
    (
        "<gpu_reset_status><reset_required>Requested functionality has been deprecated</reset_required></gpu_reset_status>"
        "<gpu_recovery_action>Node Reboot</gpu_recovery_action>",
        ["the driver asks for the recovery action Node Reboot"],
    ),
    (
        "<gpu_reset_status><reset_required>No</reset_required><drain_and_reset_recommended>Yes</drain_and_reset_recommended></gpu_reset_status>",
        ["the driver recommends to drain and reset it"],
    ),
    ("<clocks><sm_clock>[GPU requires reset]</sm_clock></clocks>", ["it requires a reset"]),
]


@pytest.mark.parametrize(("words", "expected"), RESETS)
def test_a_gpu_that_requires_a_reset_is_sick_everywhere(programs, words, expected):
    """In the forms of drivers 525 to 595; before, such a GPU was healthy and its node failed job after job."""
    text = f'<nvidia_smi_log><gpu id="00000000:41:00.0"><uuid>GPU-1</uuid>{words}</gpu></nvidia_smi_log>'
    told, complete, _silent = programs.read_smi(text, 0)
    assert (told, complete) == ({"0000:41:00.0": expected}, True)
    _version, facts = nvidia_smi.parse_document(text)
    assert facts["0000:41:00.0"]["problems"] == [("reset_required", reason) for reason in expected]


def test_a_command_that_sigkill_does_not_end_is_left(programs, monkeypatch, tmp_path):
    """As nvidia-smi in the kernel of a driver that hangs: the signal is taken away here."""
    monkeypatch.setattr(programs.os, "killpg", lambda _pid, _signal: None)
    started = time.monotonic()
    assert programs.run(["sleep", "8"], 0.3) is None
    assert time.monotonic() - started < 4


def test_a_file_system_that_hangs_does_not_hang_the_epilog(programs, monkeypatch, tmp_path):
    epilog = importlib.import_module("slurm_gpu_epilog")
    file = tmp_path / "held"
    with file.open("w") as held:
        pid, descriptor = str(os.getpid()), str(held.fileno())
        mount = next(
            line for line in Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text().splitlines() if line.startswith("mnt_id")
        ).split()[1]
        real, stat_of = epilog.read, os.stat

        def read(of, name):
            return f"{mount} 1 0:5 / /mnt rw - fuse.sshfs x rw\n" if name == "mountinfo" else real(of, name)

        def stat(path, **options):
            assert path != f"/proc/{pid}/fd/{descriptor}", "this would hang"
            return stat_of(path, **options)

        monkeypatch.setattr(epilog, "read", read)
        monkeypatch.setattr(epilog.os, "stat", stat)
        assert not epilog.holds(pid, str(os.getuid()), "1", {1})


@pytest.fixture
def devices(programs, monkeypatch, tmp_path):
    """A node with two GPUs, /dev/null and /dev/zero, and a MIG instance behind /dev/full."""
    lines = ["# type PCI-address file number", "a100 0000:01:00.0 /dev/null 0", "a100 0000:02:00.0 /dev/zero 1"]
    lines += [f"a100_1g 0000:03:00.0 {path} 2" for path in ("/dev/null", "/dev/full")]
    file = tmp_path / "gpu_devices"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.setattr(programs, "DEVICES_FILE", str(file))
    return programs


def test_devices_of_a_job(devices, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_GPUS", "1,2,7")
    assert [gpu.address for gpu in devices.of_job()] == ["0000:02:00.0", "0000:03:00.0"]
    monkeypatch.delenv("SLURM_JOB_GPUS")
    assert devices.of_job() == []
    monkeypatch.setattr(devices, "DEVICES_FILE", "/nowhere")
    assert devices.scheduled() == {}


def test_numbers_are_those_that_slurm_gives():
    """SLURM counts type by type, in the order of Gres=, whatever stands between them in gres.conf (seen with 22.05 and 24.11)."""
    accelerators = [gpu(0, type="t4"), gpu(1), gpu(2, type="t4")]
    text = (ROOT / "roles/slurm_node/templates/gpu_devices.j2").read_text(encoding="utf-8")
    template = jinja2.Environment(trim_blocks=True).from_string(text)
    lines = template.render(slurm_node_devices=slurm_gres.device_index(accelerators)).splitlines()[2:]
    assert slurm_gres.gres_of(accelerators) == "gpu:a100:1,gpu:t4:2"
    assert [line.split()[2:] for line in lines if line] == [["/dev/nvidia1", "0"], ["/dev/nvidia0", "1"], ["/dev/nvidia2", "2"]]


def test_missing_file_is_named(devices, monkeypatch):
    monkeypatch.setattr(devices, "nvidia_problems", lambda: ({}, False, ""))
    gpus = list(devices.scheduled().values())
    assert devices.problems(gpus) == []
    gpus[1].files[0] = "/dev/nvidia77"
    assert devices.problems(gpus) == ["a100 at 0000:02:00.0 (/dev/nvidia77) is missing"]


def test_a_mistake_in_a_program_harms_no_job(programs):
    assert programs.guarded(lambda: 1 // 0) == 0
    assert programs.guarded(lambda: 1) == 1


def test_of_an_instance_only_its_own_file_counts(devices):
    epilog = importlib.import_module("slurm_gpu_epilog")
    gpus = devices.scheduled()
    assert epilog.device_numbers([gpus["2"]]) == {os.stat("/dev/full").st_rdev}
    assert epilog.device_numbers([gpus["0"], gpus["1"]]) == {os.stat("/dev/null").st_rdev, os.stat("/dev/zero").st_rdev}


@pytest.fixture
def held(monkeypatch):
    """A process that has a device open, and the device's number.

    It is the only one that the epilog sees: terminals in containers
    have the same numbers, and what runs there must not be ended by a test."""
    master, terminal = pty.openpty()
    number = os.fstat(terminal).st_rdev
    with subprocess.Popen(["sleep", "60"], stdin=terminal) as process:
        os.close(terminal)
        listdir = os.listdir
        monkeypatch.setattr(os, "listdir", lambda path: [str(process.pid)] if path == "/proc" else listdir(path))
        yield process, {number}
        process.kill()
    os.close(master)


def test_who_is_ended_and_who_is_not(devices, held, monkeypatch):
    epilog = importlib.import_module("slurm_gpu_epilog")
    process, numbers = held
    uid, pid = str(os.getuid()), str(process.pid)
    assert epilog.holds(pid, uid, "5", numbers)
    assert not epilog.holds(pid, "4321", "5", numbers), "another user's"
    assert not epilog.holds(pid, uid, "5", {os.stat("/dev/tty").st_rdev}), "another device"
    read = epilog.read
    for cgroup, ended in (
        ("0::/system.slice/slurmstepd.scope/job_6/step_0/user\n", False),
        ("0::/system.slice/slurmstepd.scope/job_5/step_0/user\n", True),
        ("9:devices:/slurm/uid_1/job_65/step_0\n8:pids:/\n", False),
        ("0::/system.slice/deephdc-mps-1000-0.service\n", False),
        ("0::/user.slice/user-1.slice/session-2.scope\n", True),
    ):
        monkeypatch.setattr(epilog, "read", lambda pid, name, text=cgroup: text if name == "cgroup" else read(pid, name))
        assert epilog.holds(pid, uid, "5", numbers) is ended, cgroup


def test_a_process_that_ends_is_waited_for(devices, held, monkeypatch):
    epilog = importlib.import_module("slurm_gpu_epilog")
    monkeypatch.setattr(epilog, "read", lambda pid, name, read=epilog.read: "" if name == "cgroup" else read(pid, name))
    began = time.monotonic()
    process, numbers = held
    assert epilog.end(str(os.getuid()), "5", numbers) == {}
    assert time.monotonic() - began < epilog.GRACE
    assert process.wait(5) == -15


def test_a_process_that_survives_drains_the_node_by_pid_and_device(devices, monkeypatch):
    epilog = importlib.import_module("slurm_gpu_epilog")
    reasons = []
    monkeypatch.setattr(epilog.slurm_mps, "stop", lambda: None)
    monkeypatch.setattr(epilog, "end", lambda uid, job, numbers: {"4711": "python3"})
    monkeypatch.setattr(devices, "drain", lambda node, reason: not reasons.append((node, reason)))
    for key, value in {"UID": "1000", "ID": "5", "GPUS": "1"}.items():
        monkeypatch.setenv(f"SLURM_JOB_{key}", value)
    monkeypatch.setenv("SLURMD_NODENAME", "gpu1")
    assert epilog.main() == 0
    assert reasons == [("gpu1", "process 4711 (python3) of uid 1000 survives SIGKILL on a100 at 0000:02:00.0 (/dev/zero)")]
    assert not reasons[0][1].startswith(devices.MARK), "no run resumes it"


def test_root_has_no_leftovers(devices, monkeypatch):
    epilog = importlib.import_module("slurm_gpu_epilog")
    monkeypatch.setattr(epilog.slurm_mps, "stop", lambda: None)
    monkeypatch.setattr(epilog, "end", lambda uid, job, numbers: pytest.fail("root's processes are nobody's business"))
    for key, value in {"UID": "0", "ID": "5", "GPUS": "1"}.items():
        monkeypatch.setenv(f"SLURM_JOB_{key}", value)
    assert epilog.main() == 0
