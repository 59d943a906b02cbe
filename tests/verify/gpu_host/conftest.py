"""The host's kernels, and GPUs that can be divided into MIG instances."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest
from local import ROOT, Cluster


class DividingGpus:
    """What the stand-in for nvidia-smi has on gpu1."""

    first, second = "00000000:01:00.0", "00000000:02:00.0"
    state = "/usr/local/bin/nvidia-smi.json"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def lose(self) -> None:
        """What a boot leaves: no instances, and of newer GPUs no mode either."""
        gpu = {"current": "Disabled", "pending": "Disabled", "persistence": "Disabled", "instances": [], "processes": [], "resets": True}
        self.cluster.out("gpu1", f"echo '{json.dumps({self.first: gpu, self.second: gpu})}' > {self.state}")

    def instances(self, gpu: str = first) -> list[str]:
        """Profiles of those with a compute instance."""
        return sorted(entry[1] for entry in json.loads(self.cluster.out("gpu1", f"cat {self.state}"))[gpu]["instances"] if entry[3])


@pytest.fixture
def dividing_gpus(cluster: Cluster) -> Iterator[DividingGpus]:
    stand_in = str(ROOT / "tests/stand_ins/nvidia-smi-mig")
    subprocess.run(["docker", "cp", "--quiet", stand_in, f"{cluster.label}-gpu1:/usr/local/bin/nvidia-smi"], check=True)
    gpus = DividingGpus(cluster)
    gpus.lose()
    yield gpus
    unit, script = "/etc/systemd/system/deephdc-nvidia-mig.service", "/usr/local/libexec/deephdc/nvidia_mig"
    cluster.out(
        "gpu1", f"systemctl disable --quiet {unit.rsplit('/', maxsplit=1)[1]} || true; rm -f {unit} {script} /usr/local/bin/nvidia-smi*"
    )


@pytest.fixture(scope="module")
def kernels(cluster: Cluster) -> list[str]:
    """The older kernel of a series, which the host has, and its newest one."""
    return cluster.out("gpu1", "cat /root/kernels").split()
