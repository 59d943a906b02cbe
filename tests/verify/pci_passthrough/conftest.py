"""The virtual machine of the scenario, reached by ssh instead of Docker."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from local import ROOT, Cluster

VM = "virtual-host"


class Machine(Cluster):
    """One virtual machine; scripts/virtual-host made it."""

    # Its processor is emulated, and a run has a reboot in it.
    limit = 1500

    def __init__(self) -> None:
        super().__init__()
        self.directory = f"{self.state}-machine"

    def run(self, host: str, command: str, user: str = "root", timeout: float = 300) -> subprocess.CompletedProcess[str]:
        words = ["ssh", "-F", f"{self.directory}/ssh_config", host, f"sudo --user={user} bash -c {shlex.quote(command)}"]
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False)

    def drivers(self, *addresses: str) -> list[str]:
        paths = " ".join(f"/sys/bus/pci/devices/{address}/driver" for address in addresses)
        return self.out(VM, f"for path in {paths}; do basename $(readlink $path || echo none); done").split()

    def groups(self, *addresses: str) -> list[str]:
        paths = " ".join(f"/sys/bus/pci/devices/{address}/iommu_group" for address in addresses)
        return self.out(VM, f"for path in {paths}; do basename $(readlink $path); done").split()

    def boot(self) -> str:
        """Differs from one start of the kernel to the next."""
        return self.out(VM, "cat /proc/sys/kernel/random/boot_id")

    def reboot(self) -> None:
        before = self.boot()
        self.run(VM, "systemctl reboot")
        deadline = time.monotonic() + 900
        while True:
            seen = self.run(VM, "cat /proc/sys/kernel/random/boot_id")
            if seen.returncode == 0 and seen.stdout.strip() != before:
                return
            assert time.monotonic() < deadline, f"the machine does not come back: {self.directory}/console.log"
            time.sleep(2)

    def module(self, name: str, arguments: str, check: bool = False) -> str:
        """Output of one module on the host."""
        words = [f"{sys.prefix}/bin/ansible", "-i", str(self.inventory / "hosts.yml"), VM, "-m", f"deephdc.accelerators.{name}"]
        words += ["-a", arguments, *(["--check"] if check else [])]
        done = subprocess.run(
            words, cwd=ROOT, env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False
        )
        return done.stdout + done.stderr


@pytest.fixture(scope="session")
def machine() -> Machine:
    return Machine()


@pytest.fixture
def passthrough(machine: Machine) -> Callable[..., str]:
    """passthrough(variable=value, succeeds=...) runs the playbook and gives its output."""

    def run(*arguments: str, succeeds: bool = True, **variables: Any) -> str:
        return machine.playbook("playbooks/pci_passthrough.yml", "--diff", *arguments, variables=variables, succeeds=succeeds)

    return run
