"""The distribution's driver is built beside the tests, which wait for much else.

And GPUs that can be divided into MIG instances.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from typing import IO, NamedTuple

import pytest
from local import ROOT, Cluster

PLAYBOOK = "playbooks/gpu_hosts.yml"
INVENTORIES = ("hosts.yml", "distribution.yml")


class Build(NamedTuple):
    process: subprocess.Popen[bytes]
    output: IO[bytes]

    def told(self) -> str:
        self.output.seek(0)
        return self.output.read().decode()


@pytest.fixture(scope="session", autouse=True)
def real_driver(cluster: Cluster) -> Iterator[Build | None]:
    """On Debian 12. Debian 13's driver takes longer, and is only chosen."""
    if cluster.release != "bookworm":
        yield None
        return
    with tempfile.TemporaryFile() as output:
        # The tests run playbooks beside it, on gpu1 alone, so one of both must do without the lock of the site.
        words = ["nice", *cluster.command(PLAYBOOK, ["--limit", "gpu2", "-e", "site_check_lock=false"], INVENTORIES)]
        with subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, env=cluster.environment()) as process:
            yield Build(process, output)
            process.terminate()


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
