"""The virtual machine of the scenario, reached by ssh instead of Docker."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from local import Cluster


class Machine(Cluster):
    """One virtual machine; scripts/virtual-host made it."""

    def __init__(self) -> None:
        super().__init__()
        self.ssh = ["ssh", "-F", str(self.state / "machine/ssh_config"), "virtual-host"]

    def run(self, host: str, command: str, user: str = "root", timeout: float = 300) -> subprocess.CompletedProcess[str]:
        words = [*self.ssh, f"sudo --user={user} bash -c {shlex.quote(command)}"]
        return subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False)

    def driver(self, address: str) -> str:
        return self.out("virtual-host", f"basename $(readlink /sys/bus/pci/devices/{address}/driver) 2>/dev/null || true")

    def boot(self) -> str:
        """Differs from one start of the kernel to the next."""
        return self.out("virtual-host", "cat /proc/sys/kernel/random/boot_id")


@pytest.fixture(scope="session")
def machine() -> Machine:
    return Machine()


@pytest.fixture
def passthrough(machine: Machine) -> Callable[..., str]:
    """passthrough(variable=value, succeeds=...) runs the playbook and gives its output."""

    def run(*arguments: str, succeeds: bool = True, **variables: Any) -> str:
        return machine.playbook("playbooks/pci_passthrough.yml", *arguments, variables=variables, succeeds=succeeds)

    return run
