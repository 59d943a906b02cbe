"""From the deployed cluster to a user's job with a GPU, which accounting knows."""

from __future__ import annotations

import json

from local import Cluster
from slurm_jobs import ended, look, opened, submit

OWNS = (
    "playbooks/gpu_simulator.yml",
    "playbooks/slurm.yml",
    "roles/gpu_simulator",
    "roles/munge",
    "roles/slurm_cluster",
    "roles/slurm_controller",
    "roles/slurm_database",
    "roles/slurm_packages",
    "roles/slurm_packages/tasks/main.yml",
    "plugins/doc_fragments/reads.py",
    "plugins/filter/slurm_cluster.py",
    "plugins/module_utils/_gpu",
    "plugins/module_utils/_model",
    "plugins/module_utils/_simulator",
    "plugins/modules/gpu_facts.py",
    "plugins/modules/gpu_simulator.py",
    "plugins/modules/slurm_gpu_probe.py",
    "plugins/modules/slurm_host_facts.py",
    "plugins/modules/slurm_packages_facts.py",
    "plugins/plugin_utils/_contract.py",
    "plugins/plugin_utils/_filter.py",
    "plugins/plugin_utils/_own_variables.py",
    "plugins/plugin_utils/_slurm",
    "plugins/plugin_utils/_slurm/manager.py",
    ".config/molecule/config.yml",
    "molecule/default",
    "molecule/shared",
    "molecule/slurm",
    "inventories/bare_metal",
    "inventories/local",
    "images",
    "meta",
    "ansible.cfg",
    "constraints.txt",
    "requirements-dev.txt",
    "requirements.yml",
    "scripts/collections",
    "scripts/demo",
    "scripts/demo-slurm",
    "scripts/down",
    "scripts/end-processes",
    "scripts/engine",
    "scripts/image",
    "scripts/local-present",
    "scripts/local-ssh*",
    "scripts/packages",
    "scripts/scenario",
    "scripts/toolchain",
    "tests/data/rocm_smi",
    "tests/verify/conftest.py",
    "tests/verify/fingerprint.py",
    "tests/verify/host_state",
    "tests/verify/local.py",
)

EPERM = 1


def test_a_job_opens_its_gpu_and_not_the_other_one_and_is_accounted(cluster: Cluster):
    assert cluster.out("login", "sinfo -h -N -p all -o '%N %T'", user="ada").splitlines() == ["gpu1 idle", "gpu2 idle"]
    job = submit(cluster, "--gres=gpu:a100:1 --nodelist=gpu1", look())
    (row,) = ended(cluster, job)
    assert (row["State"], row["NodeList"], row["ExitCode"]) == ("COMPLETED", "gpu1", "0:0")
    assert "gres/gpu:a100=1" in row["AllocTRES"]
    seen = json.loads(cluster.out("gpu1", f"cat /tmp/job-{job}_4294967294.out"))
    assert set(seen) == {"/dev/nvidia0", "/dev/nvidia1"}
    (mine,) = opened(cluster, "gpu1", job)
    assert {path: error for path, error in seen.items() if path != mine} == {({*seen} - {mine}).pop(): EPERM}
