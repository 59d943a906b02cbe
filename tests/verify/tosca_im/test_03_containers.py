# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The Infrastructure Manager deploys a batch job and the application of DEEPaaS: each is a container of udocker in a job of SLURM."""

from __future__ import annotations

import json

from infrastructure_manager import Manager, others_reached
from local import Cluster

OWNS = (
    "playbooks/deepaas.yml",
    "roles/deepaas",
    "molecule/tosca_im/registry.yml",
    "tosca/artifacts/batch_job.yml",
    "tosca/artifacts/deepaas.yml",
    "tosca/templates/batch_job.yaml",
    "tosca/templates/deepaas.yaml",
    "tests/tosca/model",
    "tests/tosca/requirements-model.txt",
)

DEVICE_ROOT = "/var/lib/gpu_simulator"
FRONT, WORKER = "slurmserver", "gpuwn-1"
IMAGE = "registry.site.test/model:1"
# Of its job; a container has no device of another's.
OPENED = ["No such device or address"]


def test_a_job_and_a_model_run_in_containers(cluster: Cluster, manager: Manager) -> None:
    inputs = {
        "gpu_num": 2,
        "gpu_vendor": "NVIDIA",
        "gpu_model": "A100",
        "slurm_users": [{"os_user_name": "ada"}, {"os_user_name": "eve"}],
        "slurm_settings": f"slurm_cluster_device_root: {DEVICE_ROOT}\n",
        "job_image": IMAGE,
        "job_executable": "/opt/deepaas/bin/python",
        "job_arguments": ["-c", "import gpu_opener; print(*gpu_opener.predict().values(), sep=chr(10))"],
    }
    model = {"manager": "slurm", "user": "eve", "image": IMAGE, "port": 5000, "gpus": 1}
    properties = {"gpu_wn_node": {"device_root": DEVICE_ROOT}}
    deployment = manager.create(manager.template("batch_job", inputs, properties, application=model))
    with others_reached(manager):
        manager.wait(deployment)
        number = cluster.out(FRONT, "cat /home/ada/jobs/job.number")
        read = f"sacct --noheader --allocations --parsable2 --jobs={number} --format=State,User,AllocTRES"
        seen = cluster.until(FRONT, read, "COMPLETED", 300)
        assert seen.startswith("COMPLETED|ada|") and "gres/gpu=1" in seen
        assert cluster.out(WORKER, f"grep 'No such' /home/ada/job-{number}.txt").splitlines() == OPENED
        ask = f"curl --silent --fail --max-time 30 --request POST http://{WORKER}:5000/v2/models/gpu-opener/predict/"
        said = cluster.until(FRONT, ask, "predictions", 120)
    assert list(json.loads(said)["predictions"].values()) == OPENED
    manager.ask("-y", "destroy", deployment)
    assert manager.machines() == set()
