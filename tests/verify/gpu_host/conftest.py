"""The distribution's driver is built beside the tests, which wait for much else."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from typing import IO, NamedTuple

import pytest
from local import Cluster

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
        words = ["nice", *cluster.command(PLAYBOOK, ["--limit", "gpu2"], INVENTORIES)]
        with subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, env=cluster.environment()) as process:
            yield Build(process, output)
            process.terminate()
