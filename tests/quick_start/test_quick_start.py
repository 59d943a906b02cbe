# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""README's quick start, word for word, on an empty control node: the commands of its blocks, typed as a user types them.

The way without Galaxy is what runs, as Galaxy does not answer here, and `git clone` is a copy of the working tree. The network
ends before the deployment: the addresses of the example belong to no host. So the run passes all that is checked on the control node.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PASSWORD = b"correct horse\n"
START = """
. tests/compat/pip_environment
exec docker run --detach --name "$1" --label "$2" --entrypoint sleep "${pip_environment[@]}" \\
    --env PIP_CONSTRAINT=/opt/constraints --env PIP_PROGRESS_BAR=off --env TERM=dumb "$3" 900
"""
# What the machine of a user has: packages can be installed, a user can become root, and the checkout is there.
PREPARE = """
apt-get update -qq
useradd --create-home --shell /bin/bash ada
echo 'ada ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ada
mkdir /home/ada/accelerators
tar --extract --directory=/home/ada/accelerators
chown -R ada: /home/ada/accelerators
"""


def blocks(heading: str, language: str) -> list[str]:
    """The fenced blocks below a heading of README, up to the next one, without their indentation."""
    found = re.search(rf"^#+ {heading}\n(.*?)(?=^#+ )", re.sub(r"(?ms)^```.*?^```", hide_comments, README), re.MULTILINE | re.DOTALL)
    assert found, f"README has no heading {heading}"
    fences = re.findall(rf"^( *)```{language}\n(.*?)^\1```$", found[1], re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indentation}", "", text, flags=re.MULTILINE).replace("\0", "#") for indentation, text in fences]


def hide_comments(block: re.Match[str]) -> str:
    """A comment at the start of a line in a block is no heading."""
    return block[0].replace("#", "\0")


def output_of(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


@pytest.fixture(scope="module")
def container() -> Iterator[str]:
    label = f"quick-start-{output_of('scripts/checkout-name')}"
    name = f"deephdc-{label}"
    subprocess.run(["docker", "rm", "-fv", name], check=False, capture_output=True)
    try:
        output_of("bash", "-euc", START, "bash", name, f"deephdc.accelerators={label}", output_of("scripts/image", "trixie"))
        output_of("docker", "cp", "tests/compat/requirements-2.21.txt", f"{name}:/opt/constraints")
        tree = subprocess.run(["scripts/working-tree"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["docker", "exec", "-i", name, "bash", "-euc", PREPARE], input=tree, check=True)
        yield name
    finally:
        subprocess.run(["docker", "rm", "-fv", name], check=True, stdout=subprocess.DEVNULL)


def typed(container: str, *commands: str) -> tuple[int, str]:
    """Exit status and output of commands in one shell with a terminal; every question for a password gets the same."""
    words = ["docker", "exec", "--interactive", "--tty", "--user", "ada", "--workdir", "/home/ada", "--env", "HOME=/home/ada", container]
    process, terminal = pty.fork()
    if process == 0:
        os.execvp("docker", [*words, "bash", "-euxo", "pipefail", "-c", "\n".join(commands)])
    output, answered = b"", 0
    while True:
        try:
            output += os.read(terminal, 4096)
        except OSError:  # how Linux says that the other end was closed
            break
        question = re.search(rb"password[^\n]*: $", output[answered:])
        if question:
            answered = len(output)
            os.write(terminal, PASSWORD)
    os.close(terminal)
    text = output.decode(errors="replace").replace("\r\n", "\n")
    print(text)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), text


def test_the_quick_start_without_galaxy(container: str) -> None:
    ansible, _galaxy = blocks("Install the collection", "sh")
    copy, secret, deploy, _look = blocks("Bare-metal quick start", "sh")
    without_galaxy = blocks("Without Galaxy", "sh")
    assert typed(container, ansible, *without_galaxy, copy, secret)[0] == 0
    output_of("docker", "network", "disconnect", "bridge", container)
    code, output = typed(container, ". ~/ansible/bin/activate", "cd site", deploy)
    assert code != 0
    lost = re.findall(r"^(\w+) +: ok=\d+ +changed=0 +unreachable=1 +failed=0 ", output, re.MULTILINE)
    assert sorted(lost) == ["gpu1", "gpu2", "head", "login"], "what is checked on the control node was not passed"


def test_the_files_in_readme_are_those_of_the_example() -> None:
    example = ROOT / "inventories/bare_metal"
    assert blocks("Bare-metal quick start", "yaml") == [(example / name).read_text() for name in ("hosts.yml", "group_vars/all.yml")]


def test_the_bundle_of_collections_is_the_one_that_the_tests_use() -> None:
    bundle = re.search(r'BUNDLE = "(.*)"', (ROOT / "scripts/collections").read_text())
    assert bundle and f"pip download --no-deps {bundle[1]}\n" in blocks("Without Galaxy", "sh")[0]
