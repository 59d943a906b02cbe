# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""One host for two managers: SLURM runs jobs on a GPU of the KVM host that OpenNebula does not offer."""

from __future__ import annotations

import json
import zlib

import pytest
from opennebula_site import OFFERED, SKIP, recap

OWNS = (
    "plugins/plugin_utils/_allotment.py",
    "plugins/plugin_utils/_opennebula/manager.py",
    "plugins/plugin_utils/_slurm/manager.py",
)

# The devices of kvm1 as the simulator numbers them; SLURM gets the A100 that is not bound to vfio-pci.
MINE = "0000:02:00.0"
THEIRS = ["0000:01:00.0", "0000:03:00.0", "0009:01:00.0"]
SLURM = "playbooks/slurm.yml"
OPENNEBULA = "playbooks/opennebula.yml"
LEAVES = "SLURM on both hosts, with its database: its removal leaves packages, and costs more than making both hosts again"


def write(site, allotment):
    """The site's second inventory: the front end is SLURM's controller, too, and the KVM host its node."""
    inventory = {
        "all": {
            "vars": {
                "slurm_cluster_name": "shared",
                "slurm_cluster_partitions": [{"name": "batch", "default": True}],
                "slurm_cluster_policy": {"accounts": [{"name": "physics", "users": ["ada"]}]},
            },
            "children": {
                "slurm_controllers": {"hosts": {"front": {}}},
                "slurm_databases": {"hosts": {"front": {}}},
                "slurm_nodes": {"hosts": {"kvm1": allotment}, "vars": {"slurm_cluster_device_root": "/var/lib/gpu_simulator"}},
            },
        }
    }
    text = json.dumps(inventory)
    path = site.state / f"shared-{zlib.crc32(text.encode())}.json"
    path.write_text(text)
    return {"inventories": ("hosts.yml", str(path))}


def shared(slurm, opennebula):
    return {"accelerator_allotment": {"slurm": {"devices": slurm}, "opennebula": {"devices": opennebula}}}


@pytest.fixture(scope="module")
def both(site):
    """SLURM has one GPU of the KVM host, and OpenNebula offers the others; returns the options of their runs."""
    options = write(site, shared([MINE], THEIRS))
    for host in ("front", "kvm1"):
        site.out(host, "id ada || useradd -u 2001 ada")
    site.playbook(SLURM, **options)
    site.playbook(OPENNEBULA, *SKIP, **options)
    return options


@pytest.mark.parametrize("playbook", [SLURM, OPENNEBULA])
def test_without_an_allotment_it_is_refused_before_a_host_is_contacted(site, playbook):
    said = " ".join(site.playbook(playbook, succeeds=False, **write(site, {})).split())
    assert (
        "kvm1 is in slurm_nodes and opennebula_hosts, but nothing says which of them owns which device: set accelerator_allotment" in said
    )
    assert "Gathering" not in said and "changed=1" not in said


def test_a_users_job_gets_slurms_gpu_and_machines_get_the_others(site, both):
    assert site.out("front", "scontrol --oneliner show node kvm1 | grep -o ' Gres=[^ ]*'").split() == ["Gres=gpu:a100:1"]
    job = "runuser -u ada -- srun --chdir=/tmp --gres=gpu:a100:1"
    assert site.out("front", f"{job} sh -c 'echo $CUDA_VISIBLE_DEVICES'").split() == ["0"]
    # No second one, and none of OpenNebula's.
    refused = site.out("front", f"{job.replace(':1', ':2')} true 2>&1 || true")
    assert "Requested node configuration is not available" in refused
    assert site.shown() == OFFERED


def test_a_second_run_of_both_changes_nothing(site, both):
    for playbook, words in ((SLURM, ()), (OPENNEBULA, SKIP)):
        said = site.playbook(playbook, *words, **both)
        assert "changed=0" in recap(said, "front") and "changed=0" in recap(said, "kvm1"), said[-4000:]


def test_both_managers_get_no_new_work_before_one_is_waited_for_and_each_gives_back(site, both, tmp_path):
    # Machines that the tests before started would be waited for.
    for machine in site.running():
        site.stand_in(f"terminate({machine})")
    number = site.out("front", "runuser -u ada -- sbatch --parsable --chdir=/tmp --gres=gpu:a100:1 --wrap 'sleep 300'").strip()
    site.until("front", f"squeue --noheader --format=%T --jobs={number}", "RUNNING")

    def play(entry, **options):
        task = {
            "ansible.builtin.include_role": {"name": "deephdc.accelerators.gpu_hold", "tasks_from": entry},
            "vars": {"gpu_hold_holder": "nvidia_driver", "gpu_hold_wait": 0.05},
        }
        (tmp_path / "hold.json").write_text(json.dumps([{"hosts": "kvm1", "gather_facts": False, "tasks": [task]}]))
        return " ".join(site.playbook(str(tmp_path / "hold.json"), **options, **both).split())

    def states():
        return site.one("print(one.host.info(0).STATE)"), "DRAIN" in site.out("front", "scontrol --oneliner show node kvm1")

    said = play("main", succeeds=False)
    assert f"there still is job {number} of ada" in said and "It was given back to its users." in said
    assert said.index("opennebula_host : Disable the host") < said.rindex("slurm_node : Stop where jobs are left")
    assert states() == ("2", False)
    # One that can't be asked does not keep the other from giving the host back.
    site.out("front", f"scancel {number}")
    site.until("front", "squeue --noheader | wc -l", "0")
    said = play("main", succeeds=False, variables={"opennebula_pci_endpoint": "http://localhost:9/RPC2"})
    assert "kvm1 is not given back to the users of opennebula: " in said and states() == ("2", False)
    play("main")
    assert states() == ("4", True)
    play("release")
    assert states() == ("2", False)


def test_a_gpu_is_not_taken_from_a_running_job(site, both):
    number = site.out("front", "runuser -u ada -- sbatch --parsable --chdir=/tmp --gres=gpu:a100:1 --wrap 'sleep 300'").strip()
    site.until("front", f"squeue --noheader --format=%T --jobs={number}", "RUNNING")
    said = " ".join(site.playbook(SLURM, succeeds=False, **write(site, shared([], [*THEIRS, MINE]))).split())
    assert f"Node kvm1 would change from gpu:a100:1 to no GPU while job {number} of ada is on it" in said
    assert site.out("front", f"squeue --noheader --format=%T --jobs={number}").strip() == "RUNNING"
    site.out("front", f"scancel {number}")


def test_without_jobs_the_allotment_moves_it(site, both):
    site.until("front", "squeue --noheader | wc -l", "0")
    options = write(site, shared([], [*THEIRS, MINE]))
    # SLURM can't deny its jobs what it does not have, so the run does not end well until vfio-pci has the device.
    said = site.playbook(SLURM, succeeds=False, **options)
    assert f"jobs of SLURM on kvm1 can open the a100 {MINE}, which accelerator_allotment does not give to SLURM" in " ".join(said.split())
    assert "failed=1" in recap(said, "kvm1") and "failed=0" in recap(said, "front"), said[-4000:]
    # Let through: a simulated device has no driver that would answer.
    device = site.out("kvm1", "runuser -u ada -- srun --chdir=/tmp sh -c 'exec 3</dev/nvidia0' 2>&1 || true")
    assert "No such device or address" in device and "not permitted" not in device, device
    assert "Gres=(null)" in site.out("front", "scontrol --oneliner show node kvm1")
    # The host's driver still has it, so no machine may get it yet.
    site.playbook(OPENNEBULA, *SKIP, **options)
    assert site.shown() == OFFERED
