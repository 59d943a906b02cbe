"""Shared GPUs, and what is done before and after a job: gpu1 shares by shards, then by MPS; gpu2 is exclusive."""

from __future__ import annotations

import base64
import copy
import json
import time
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest
from local import ROOT, Cluster, changed
from slurm_jobs import ended, look, opened, submit
from slurm_site import SITE, words

OWNS = (
    "roles/slurm_node/files",
    "roles/slurm_node/tasks/programs.yml",
    "roles/slurm_node/templates/gpu_devices.j2",
    "plugins/module_utils/_gpu/nvidia.py",
    "plugins/module_utils/_gpu/nvidia_smi.py",
    "plugins/plugin_utils/_slurm/sharing.py",
    "molecule/slurm/inventory/sharing.yml",
    "tests/data/nvidia_smi",
    "tests/stand_ins/nvidia-cuda-mps-control",
    "tests/stand_ins/nvidia-smi",
)


# What sharing changes: the cluster's configuration, and the programs and daemons of the nodes.
CHANGED = ("--tags", "slurm_cluster,slurm_node", "--skip-tags", "install")
SHARING = ("hosts.yml", "sharing.yml")
MPS_CONTROL, NVIDIA_SMI = ROOT / "tests/stand_ins/nvidia-cuda-mps-control", ROOT / "tests/stand_ins/nvidia-smi"
HEALTH = "/usr/local/libexec/deephdc/slurm_gpu_health"
# CPUs are shared too, so that more jobs run at a time than a small test host has CPUs. No health check runs by itself meanwhile.
SETTINGS = {
    "slurm_cluster_partitions": [{"name": "all", "default": True, "max_time": "02:00:00", "settings": {"OverSubscribe": "FORCE:8"}}],
    "slurm_cluster_settings": {"HealthCheckInterval": 0, "SlurmdTimeout": 30, "SlurmctldDebug": "info"},
}
SMALL = "--mem=50 --time=5"
# A job that ends when its node has the file /tmp/end-sharing.
LASTING = look() + "\nuntil [ -e /tmp/end-sharing ]; do sleep 0.2; done"


@pytest.fixture(scope="module", autouse=True)
def shared(cluster: Cluster) -> Iterator[None]:
    cluster.playbook(SITE, *CHANGED, inventories=SHARING, variables=SETTINGS)
    yield
    for node in ("gpu1", "gpu2"):
        cluster.out(node, "rm -f /usr/local/bin/nvidia-*")
    cluster.out("ctl", "scancel --user=ada")
    cluster.until("ctl", "squeue -h | wc -l", "0")
    # It resumes what the last test left drained.
    cluster.playbook(SITE, *CHANGED)
    assert set(cluster.out("ctl", "sinfo -h -N -p all -o %T").split()) == {"idle"}


def put(cluster: Cluster, node: str, path: str, content: str | bytes, mode: str = "755") -> None:
    text = base64.b64encode(content.encode() if isinstance(content, str) else content).decode()
    cluster.out(node, f"echo {text} | base64 -d > {path}.new && chmod {mode} {path}.new && mv {path}.new {path}")


def running(cluster: Cluster, *jobs: str) -> None:
    for job in jobs:
        cluster.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")


def seen_by(cluster: Cluster, node: str, job: str) -> list[str]:
    """The devices that a running job could open, once it has tried: its prolog comes first."""
    cluster.until(node, f"cat /tmp/job-{job}_4294967294.out", "}")
    return opened(cluster, node, job)


def finish(cluster: Cluster, *nodes: str) -> None:
    for node in nodes:
        cluster.out(node, "touch /tmp/end-sharing")
    cluster.until("ctl", "squeue -h -t running,completing | wc -l", "0")
    for node in nodes:
        cluster.out(node, "rm /tmp/end-sharing")


def reason(cluster: Cluster, node: str) -> str:
    return cluster.out("ctl", f"sinfo -h -n {node} -p all -o '%T %200E'").strip()


def resume(cluster: Cluster, node: str) -> None:
    cluster.out("ctl", f"scontrol update NodeName={node} State=RESUME")
    cluster.until("ctl", f"sinfo -h -n {node} -p all -o %T", "idle")


def again(cluster: Cluster, node: str, job: str) -> None:
    """Resume the node for a job that its prolog sent back; SLURM itself would let the job wait for two minutes."""
    cluster.out("ctl", f"scontrol update NodeName={node} State=RESUME; scontrol update JobId={job} StartTime=now")


# --- shards ---


def test_two_jobs_share_a_gpu_and_a_whole_gpu_is_nobody_elses(cluster: Cluster):
    # All shares of one GPU for one job, those of the other GPU for two.
    shards = [submit(cluster, f"{SMALL} -w gpu1 --gres=shard:{number}", LASTING) for number in (2, 1, 1)]
    running(cluster, *shards)
    first, second, third = (seen_by(cluster, "gpu1", job) for job in shards)
    assert len(first) == len(second) == 1 and second == third and first != second, "one GPU each, two jobs on one"

    # What is more than there is now waits, a whole GPU too; what is more than there will ever be is refused.
    whole = submit(cluster, f"{SMALL} -w gpu1 --gres=gpu:a100:1", LASTING)
    more = submit(cluster, f"{SMALL} -w gpu1 --gres=shard:1 --nice=100", "true")
    refused = cluster.run("login", f"sbatch {SMALL} -w gpu1 --gres=shard:5 --wrap true", user="ada")
    assert refused.returncode != 0 and "Requested node configuration is not available" in refused.stderr
    time.sleep(2)
    assert cluster.out("ctl", f"squeue -h -j {whole},{more} -o %T").split() == ["PENDING", "PENDING"]
    cluster.out("ctl", f"scancel {shards[0]}")
    running(cluster, whole)
    assert seen_by(cluster, "gpu1", whole) == first
    assert cluster.out("ctl", f"squeue -h -j {more} -o %T") == "PENDING", "the other GPU has two, and this one is taken as a whole"

    # SLURM would forget who has shares of which GPU, and give it away as a whole.
    output = cluster.playbook(SITE, *CHANGED, succeeds=False)
    assert "gpu1 runs jobs, so the sharing of its GPUs can't be changed from shard:2 to exclusive now: drain it" in " ".join(output.split())
    assert changed(output) == []

    finish(cluster, "gpu1")
    rows = [ended(cluster, job)[0] for job in (*shards[1:], whole, more)]
    assert [row["State"] for row in rows] == ["COMPLETED"] * 4
    assert "gres/shard=1" in rows[0]["AllocTRES"]


# --- MPS ---


def test_a_job_shares_a_gpu_by_its_users_own_mps_daemon(cluster: Cluster):
    cluster.playbook(SITE, *CHANGED, inventories=SHARING, variables={**SETTINGS, "sharing_of_gpu1": "mps"})
    # Without the daemon the job waits for another node, and this one says why.
    job = submit(cluster, f"{SMALL} -w gpu1 --gres=mps:40", LASTING + "\nenv | grep CUDA_MPS; ls $CUDA_MPS_PIPE_DIRECTORY")
    cluster.until("ctl", "scontrol -o show node gpu1", "MPS can't start on a100 at 0000:01:00.0 (/dev/nvidia0)")
    assert "nvidia-cuda-mps-control is not installed" in reason(cluster, "gpu1")
    cluster.until("ctl", f"squeue -h -j {job} -o %T", "PENDING")
    put(cluster, "gpu1", "/usr/local/bin/nvidia-cuda-mps-control", MPS_CONTROL.read_bytes())
    again(cluster, "gpu1", job)
    running(cluster, job)

    second = submit(cluster, f"{SMALL} -w gpu1 --gres=mps:60", LASTING)
    running(cluster, second)
    (device,) = seen_by(cluster, "gpu1", second)
    pipe = cluster.out("gpu1", "ls -d /run/deephdc-mps/2001-*")
    assert len(pipe.split()) == 1, "one daemon for both jobs"
    seen = json.loads(cluster.out("gpu1", f"cat {pipe}/control.log"))
    assert (seen["uid"], seen["opens"]) == (2001, [device])
    assert cluster.run("gpu1", f"ls {pipe}", user="eve").returncode != 0

    cluster.out("ctl", f"scancel {second}")
    cluster.until("ctl", "squeue -h -t running,completing | wc -l", "1")
    assert cluster.out("gpu1", f"cat /proc/{seen['pid']}/comm"), "the other job still needs it"
    finish(cluster, "gpu1")
    (row,) = ended(cluster, job)
    output = cluster.out("gpu1", f"cat /tmp/job-{job}_4294967294.out")
    assert row["State"] == "COMPLETED" and "gres/mps=40" in row["AllocTRES"]
    assert f"CUDA_MPS_PIPE_DIRECTORY={pipe}\n" in output and "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=40\n" in output
    assert output.splitlines()[-2:] == ["control", "control.log"]
    cluster.until("gpu1", "ls /run/deephdc-mps /run/deephdc/mps; systemctl list-units --no-legend 'deephdc-mps-*' | wc -l", "0")
    assert cluster.out("gpu1", "ls /run/deephdc/mps") == ""


# --- before a job ---


def document(healthy: list[str], ecc: str = "", lost: str = "") -> str:
    """nvidia-smi's answer for GPUs at these addresses, made of a recorded one.

    One with a memory error, one that is lost.
    """
    tree = ElementTree.fromstring((ROOT / "tests/data/nvidia_smi/h100_ecc_errors.xml").read_text(encoding="utf-8"))
    model = tree.findall("gpu")[1]
    for gpu in tree.findall("gpu"):
        tree.remove(gpu)
    for address in healthy:
        gpu = copy.deepcopy(model)
        gpu.set("id", "0000" + address.upper())
        for counter in gpu.find("ecc_errors/volatile"):
            counter.text = "0"
        for mark in ("remapped_row_pending", "remapped_row_failure"):
            gpu.find(f"remapped_rows/{mark}").text = "No"
        if address == ecc:
            gpu.find("ecc_errors/volatile/dram_uncorrectable").text = "2"
        if address == lost:
            gpu.find("uuid").text = "GPU is lost"
        tree.append(gpu)
    return ElementTree.tostring(tree, encoding="unicode")


ADDRESSES = ["0000:01:00.0", "0000:02:00.0", "0000:03:00.0"]


@pytest.fixture
def smi(cluster: Cluster) -> Iterator[None]:
    """gpu2 has the command nvidia-smi, and healthy GPUs."""
    put(cluster, "gpu2", "/usr/local/bin/nvidia-smi.xml", document(ADDRESSES))
    put(cluster, "gpu2", "/usr/local/bin/nvidia-smi", NVIDIA_SMI.read_bytes())
    yield
    # A node is busy until the last job's epilog has ended.
    cluster.until("ctl", "sinfo -h -n gpu2 -p all -o %T", "idle")
    cluster.out("gpu2", "rm /usr/local/bin/nvidia-smi*")


def test_a_job_on_a_sick_gpu_waits_for_another_and_the_node_says_which(cluster: Cluster, smi: None):
    put(cluster, "gpu2", "/usr/local/bin/nvidia-smi.xml", document(ADDRESSES, ecc="0000:02:00.0"))
    # The a100 is well: a job that has only that one runs.
    assert ended(cluster, submit(cluster, f"{SMALL} -w gpu2 --gres=gpu:a100:1", look()))[0]["State"] == "COMPLETED"
    job = submit(cluster, f"{SMALL} -w gpu2 --gres=gpu:t4:2", look())
    cluster.until("ctl", "scontrol -o show node gpu2", "accelerators: t4 at 0000:02:00.0 (/dev/nvidia1): 2 uncorrected ECC error(s)")
    assert reason(cluster, "gpu2").startswith("drain")
    cluster.until("ctl", f"scontrol -o show job {job}", "Restarts=1")
    cluster.until("ctl", f"squeue -h -j {job} -o %T", "PENDING")
    assert "JobHeld" not in cluster.out("ctl", f"squeue -h -j {job} -o %r")

    put(cluster, "gpu2", "/usr/local/bin/nvidia-smi.xml", document(ADDRESSES))
    again(cluster, "gpu2", job)
    assert ended(cluster, job)[0]["State"] == "COMPLETED"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            document(ADDRESSES, lost="0000:01:00.0"),
            "t4 at 0000:01:00.0 (/dev/nvidia0): nvidia-smi says that it is lost",
        ),
        (document(ADDRESSES[:2]), "a100 at 0000:03:00.0 (/dev/nvidia2): nvidia-smi does not list it"),
        (
            (ROOT / "tests/data/nvidia_smi/none_listed.xml").read_text(encoding="utf-8"),
            "a100 at 0000:03:00.0 (/dev/nvidia2): nvidia-smi does not list it though the driver nvidia is bound to it; t4 at 0000:01:00.0",
        ),
    ],
)
def test_health_check_names_the_gpu(cluster: Cluster, smi: None, answer: str, words: str):
    cluster.out("gpu2", HEALTH)
    put(cluster, "gpu2", "/usr/local/bin/nvidia-smi.xml", answer)
    cluster.out("gpu2", HEALTH)
    assert f"accelerators: {words}" in reason(cluster, "gpu2")
    put(cluster, "gpu2", "/usr/local/bin/nvidia-smi.xml", document(ADDRESSES))
    resume(cluster, "gpu2")


def test_a_command_that_hangs_or_fails_drains_nothing(cluster: Cluster, smi: None):
    put(cluster, "gpu2", "/usr/local/bin/nvidia-smi", "#!/bin/sh\nsleep 100\n")
    began = time.monotonic()
    assert ended(cluster, submit(cluster, f"{SMALL} -w gpu2 --gres=gpu:a100:1", look()))[0]["State"] == "COMPLETED"
    assert time.monotonic() - began < 30
    put(cluster, "gpu2", "/usr/local/bin/nvidia-smi", "#!/bin/sh\necho 'Failed to initialize NVML: Unknown Error'\nexit 255\n")
    cluster.out("gpu2", HEALTH)
    # Once the epilog, which waited for the command too, has ended.
    cluster.until("ctl", "sinfo -h -n gpu2 -p all -o %T", "idle")


def test_a_command_that_is_silent_for_long_drains_the_node_and_a_run_does_not_resume_it_blindly(cluster: Cluster, smi: None):
    cluster.out("gpu2", HEALTH)  # with an answer the count begins
    put(cluster, "gpu2", "/usr/local/bin/nvidia-smi", "#!/bin/sh\necho 'Failed to initialize NVML: Unknown Error'\nexit 255\n")
    for _check in range(4):
        cluster.out("gpu2", HEALTH)
    assert not reason(cluster, "gpu2").startswith("drain")
    cluster.out("gpu2", HEALTH)
    assert "nvidia-smi failed with return value 255, in more than 4 checks one after the other" in reason(cluster, "gpu2")
    said = cluster.playbook(SITE, *CHANGED, inventories=SHARING, variables=SETTINGS, succeeds=False)
    assert "gpu2 stays drained (accelerators: nvidia-smi failed with return value 255" in words(said)
    assert "as it is not known whether its GPUs are well" in words(said)
    assert reason(cluster, "gpu2").startswith("drain")
    # The recorded answer is of another driver than the simulated one, which a run would find.
    cluster.out("gpu2", "rm /usr/local/bin/nvidia-smi")
    cluster.playbook(SITE, *CHANGED, inventories=SHARING, variables=SETTINGS)
    cluster.until("ctl", "sinfo -h -n gpu2 -p all -o %T", "idle")
    put(cluster, "gpu2", "/usr/local/bin/nvidia-smi", NVIDIA_SMI.read_bytes())
    cluster.out("gpu2", HEALTH)


# --- after a job ---


# Holds a device as a process on a GPU does; without a driver it can't be opened otherwise.
HOLD = "python3 -c 'import os, signal, sys, time; os.open(sys.argv[1], os.O_PATH); signal.signal(15, {}); time.sleep(300)' {}"


def hold(cluster: Cluster, node: str, user: str, device: str, on_term: str = "signal.SIG_DFL") -> str:
    words = HOLD.format(on_term, device)
    return cluster.out(node, f"setsid {words} >/dev/null 2>&1 & echo $!", user=user)


def test_nothing_of_the_user_stays_on_the_jobs_gpu(cluster: Cluster):
    # The user's other job has a process on this job's GPU too, which must live.
    job = submit(cluster, f"{SMALL} -w gpu2 --gres=gpu:a100:1", LASTING)
    other = submit(cluster, f"{SMALL} -w gpu2 --gres=gpu:t4:1", HOLD.format("signal.SIG_DFL", "/dev/nvidia2"))
    running(cluster, job, other)
    assert seen_by(cluster, "gpu2", job) == ["/dev/nvidia2"]
    gone = [hold(cluster, "gpu2", "ada", "/dev/nvidia2"), hold(cluster, "gpu2", "ada", "/dev/nvidia2", on_term="signal.SIG_IGN")]
    spared = [
        hold(cluster, "gpu2", "ada", "/dev/nvidia0"),
        hold(cluster, "gpu2", "eve", "/dev/nvidia2"),
        hold(cluster, "gpu2", "root", "/dev/nvidia2"),
    ]
    time.sleep(0.5)
    cluster.out("gpu2", "touch /tmp/end-sharing")
    assert ended(cluster, job)[0]["State"] == "COMPLETED"
    cluster.until("gpu2", f"ps -o stat= -p {','.join(gone)} | grep -vc Z", "0")
    assert len(cluster.out("gpu2", f"ps -o pid= -p {','.join(spared)}").split()) == 3
    assert cluster.out("ctl", f"squeue -h -j {other} -o %T") == "RUNNING"
    cluster.out("gpu2", f"kill {' '.join(spared)}; rm /tmp/end-sharing")
    cluster.out("ctl", f"scancel {other}")
    assert reason(cluster, "gpu2").split()[0] != "drained"


def test_a_site_has_programs_of_its_own(cluster: Cluster):
    for kind in ("prolog", "epilog"):
        put(cluster, "gpu2", f"/etc/slurm/{kind}.d/60-site", f"#!/bin/sh\necho $SLURM_JOB_ID > /tmp/site-{kind}\n")
    job = submit(cluster, f"{SMALL} -w gpu2", "true")
    ended(cluster, job)
    for kind in ("prolog", "epilog"):
        cluster.until("gpu2", f"cat /tmp/site-{kind}", job)
        cluster.out("gpu2", f"rm /tmp/site-{kind} /etc/slurm/{kind}.d/60-site")
    # Last, because the run that takes the sharing back has to resume the node.
    cluster.out("ctl", "scontrol update NodeName=gpu2 State=DRAIN Reason='accelerators: t4 at 0000:02:00.0 (/dev/nvidia1): told by a test'")
