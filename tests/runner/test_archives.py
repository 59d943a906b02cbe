"""What real package clients say of an archive that does not answer is known as that, and nothing else is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from archives import unanswered

NO_ANSWER = "http://127.0.0.1:9"  # the port "discard", on which nothing listens
HERE = frozenset(["127.0.0.1"])
CLIENTS = {
    "apt": "apt-get -o Dir::Etc::SourceList={folder}/list -o Dir::Etc::SourceParts=/no -o Dir::State::Lists={folder}"
    " -o APT::Update::Error-Mode=any update",
    "pip": f"{sys.executable} -m pip download --no-deps --no-cache-dir --timeout 2 --retries 1 --index-url {NO_ANSWER}/simple nothing",
    "npm": f"npm view nothing --registry {NO_ANSWER} --fetch-retries 0 --cache {{folder}}",
    "go": "go list -m example.org/nothing@latest",
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_gets_no_answer(client: str, tmp_path: Path):
    words = CLIENTS[client].format(folder=tmp_path).split()
    if not shutil.which(words[0]):
        pytest.skip(f"{words[0]} is not installed")
    (tmp_path / "list").write_text(f"deb [trusted=yes] {NO_ANSWER} x main\n")
    (tmp_path / "partial").mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    environment |= {"GOPROXY": NO_ANSWER, "GONOSUMDB": "*", "GOFLAGS": "-mod=mod", "LC_ALL": "C", "no_proxy": "127.0.0.1"}
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert unanswered(done.stdout, HERE), done.stdout
    assert client == "pip" or not unanswered(done.stdout, frozenset(["archive.site.org"])), "an archive that the machine does not use"


@pytest.mark.parametrize(
    "log",
    [
        "E   requests.exceptions.ConnectionError: HTTPSConnectionPool(host='127.0.0.1', port=443): Max retries exceeded with url: /v3",
        'fatal: [gpu1]: UNREACHABLE! => {"msg": "ssh: connect to host 127.0.0.1 port 22: Connection timed out"}',
        "error: Get https://127.0.0.1:6443/api: x509: certificate signed by unknown authority",
        "ERROR    [slurm > create] Executed: Failed",
        "E: Unable to locate package slurmd 127.0.0.1",
        "npm error code E404 http://127.0.0.1/x",
    ],
)
def test_what_services_and_our_own_defects_say_is_something_else(log: str):
    assert unanswered(log, HERE) == ""
