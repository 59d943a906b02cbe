"""Stand-in for the script with which ansible-test puts pip into its virtual environments.

ansible-test downloads that script from its own server, unless it lies in ~/.ansible/test/cache. This one needs
nothing but the package index that pip is configured with, and unpacks the wheel instead of installing it: ansible-test
makes ten environments, and a second of pip's start-up in each is most of what a cold run costs.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

PIP = ["/opt/ansible/bin/python", "-m", "pip"]
WHEELS = Path("/var/cache/ansible-test-wheels")


def wheel_of(requirement: str) -> Path:
    """Path of the wheel of ``requirement`` ("name==version"), downloaded if it is the first time."""
    name, version = requirement.split("==")
    pattern = f"{name}-{version}-*.whl"
    if not list(WHEELS.glob(pattern)):
        command = [*PIP, "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", f"--dest={WHEELS}"]
        subprocess.run([*command, requirement], check=True)
    return next(WHEELS.glob(pattern))


for wanted in [argument for argument in sys.argv[1:] if not argument.startswith("-")]:
    with zipfile.ZipFile(wheel_of(wanted)) as archive:
        archive.extractall(sysconfig.get_path("purelib"))
