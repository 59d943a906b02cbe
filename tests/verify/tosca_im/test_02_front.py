# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The Infrastructure Manager deploys the SLURM template with a front: a user's token starts a job with a GPU."""

from __future__ import annotations

import json

from infrastructure_manager import Manager, others_reached, through_front, token
from local import Cluster

OWNS = (
    "molecule/tosca_im",
    "tosca/templates/slurm_gateway.yaml",
    "tosca/types",
    "tests/stand_ins/im_cloud.py",
    "tests/stand_ins/micromamba",
    "tests/tosca/requirements-front.txt",
    "tests/tosca/requirements-server.txt",
    "tests/verify/infrastructure_manager.py",
    "tests/verify/tosca_im/conftest.py",
)

DEVICE_ROOT = "/var/lib/gpu_simulator"
FRONT, SITE = "slurmserver", "slurm.site.test"
ALICE = "11111111-1111-4111-8111-000000000001"
JOBS = "/slurm/v1/jobs"


def test_a_token_starts_a_job_on_a_deployed_cluster(cluster: Cluster, manager: Manager) -> None:
    inputs = {
        "wn_num": 0,
        "gpu_num": 2,
        "gpu_vendor": "NVIDIA",
        "gpu_model": "A100",
        "slurm_users": [{"os_user_name": "ada"}],
        "slurm_settings": f"slurm_cluster_device_root: {DEVICE_ROOT}\n",
        "oidc_server_name": SITE,
        "oidc_issuer": "https://iam.site.test",
        "oidc_audience": f"https://{SITE}",
        "oidc_scopes": ["api:read"],
        "oidc_accounts": [{"subject": ALICE, "account": "ada"}],
    }
    deployment = manager.create(manager.template("slurm_gateway", inputs, {"gpu_wn_node": {"device_root": DEVICE_ROOT}}))
    with others_reached(manager):
        manager.wait(deployment)
        wanted = json.dumps({"script": "#!/bin/sh\nid -un\n", "gpus": 1, "memory_mib": 64})
        status, text = through_front(manager, FRONT, SITE, JOBS, token(manager, "alice", f"https://{SITE}", "api:read"), wanted)
        assert status in (200, 201), text
        read = f"sacct --noheader --allocations --parsable2 --jobs={json.loads(text)['id']} --format=State,User,AllocTRES"
        seen = cluster.until(FRONT, read, "COMPLETED", 120)
        assert seen.startswith("COMPLETED|ada|") and "gres/gpu=1" in seen
        assert through_front(manager, FRONT, SITE, JOBS, "", wanted)[0] == 401
        # Whose token is good, and who has no account.
        assert through_front(manager, FRONT, SITE, JOBS, token(manager, "bob", f"https://{SITE}", "api:read"), wanted)[0] == 403
    manager.ask("-y", "destroy", deployment)
    assert manager.machines() == set()
