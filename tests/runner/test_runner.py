"""scripts/test in a small repository with scenarios that take no time: what it runs, believes, records and leaves behind."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from passes import Passes

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("checks.py", "checkout-name", "end-processes", "inputs.py", "passes.py", "scenario", "steps.py", "test", "usage.py")
# No linters there, and scenarios on one release; the rest of checks.py is the real one.
CHECKS = """
ONE_RELEASE.clear()
ONE_RELEASE["one"] = "trixie"
ONE_RELEASE["two"] = "trixie"
lint = lambda: [step("lint", "true")]
refusals = quick_start = compat = lambda: []
"""
# Passes if the scenario's role and shared.yml say so; `seconds` in the role lets it last. It may leave a process that has no parent.
MOLECULE = """#!/usr/bin/env bash
name=${!#}
echo "$name" >>.cache/ran
if [ -e "roles/$name/orphan" ]; then setsid bash -c 'while [ $SECONDS -lt 2 ]; do :; done; exec sleep 60' 9>&- & fi
if [ -e .cache/no_hosts ]; then
    # Each line is a try that makes none.
    sed -i 1d .cache/no_hosts
    [ -s .cache/no_hosts ] || rm .cache/no_hosts
    echo 'fatal: [localhost]: FAILED! => no answer'
    echo "ERROR    [$name > ${NO_HOSTS_IN:-create}] Executed: Failed"
    exit 1
fi
sleep "$(cat "roles/$name/seconds")" 9>&- # Molecule's processes don't have its files either
[ ! -e .cache/worse ] && grep -q good "roles/$name/tasks.yml" shared.yml && exit
echo 'fatal: [gpu1]: FAILED! => no space left'
seq 100
exit 1
"""
FILES = {
    ".gitignore": ".cache/\n.venv/\n__pycache__/\n",
    "scripts/engine": '#!/bin/sh\necho "engine $*" >>.cache/ran\n',
    "scripts/image": "#!/bin/sh\n",
    "extensions/molecule/default/create.yml": "- import_tasks: ../../../shared.yml\n",
    "extensions/molecule/one/molecule.yml": "",
    "extensions/molecule/one/converge.yml": "- role: deephdc.accelerators.one\n",
    "extensions/molecule/two/molecule.yml": "",
    "extensions/molecule/two/converge.yml": "- role: deephdc.accelerators.two\n",
    "tests/verify/conftest.py": "",
    "shared.yml": "",
    **{f"roles/{name}/{file}": content for name in ("one", "two") for file, content in (("tasks.yml", "good\n"), ("seconds", "0\n"))},
}
MINUTE = ("--budget", "1")


class Repository:
    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> None:
        for name, content in FILES.items():
            self.write(name, content)
        for name in COPIED:
            shutil.copy(ROOT / "scripts" / name, self.path / "scripts")
        with (self.path / "scripts/checks.py").open("a") as file:
            file.write(CHECKS)
        self.write(".venv/bin/molecule", MOLECULE)
        (self.path / ".cache").mkdir()
        self.git("init", "-q")
        self.commit()

    def write(self, name: str, content: str) -> None:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        file.chmod(0o755 if content.startswith("#!") else 0o644)

    def git(self, *words: str) -> str:
        settings = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
        return subprocess.run(["git", *settings, *words], cwd=self.path, check=True, stdout=subprocess.PIPE, text=True).stdout

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "-q", "--allow-empty", "-m", "change")

    def change(self, name: str, content: str) -> None:
        self.write(name, content)
        self.commit()

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        (self.path / ".cache/ran").write_text("")
        environment = {name: value for name, value in os.environ.items() if name not in ("STARTED", "TEST_STEP")}
        words = [sys.executable, "scripts/test", *arguments]
        return subprocess.Popen(words, cwd=self.path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, *arguments: str) -> tuple[int, str]:
        process = self.start(*arguments)
        output = process.communicate(timeout=60)[0]
        return process.returncode, output

    def ran(self) -> set[str]:
        return {line for line in (self.path / ".cache/ran").read_text().splitlines() if line in ("one", "two")}

    def last_took(self, **seconds: int) -> None:
        """Have the records say that scenarios took so long, which no test has to wait for."""
        passes = Passes(self.path)
        for record in passes.read().values():
            passes.add(dataclasses.replace(record, seconds=seconds.get(record.scenario, record.seconds)))
        self.commit()

    def records(self) -> list[dict[str, object]]:
        file = self.path / "tests/passes.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    found = Repository(tmp_path)
    found.make()
    return found


@pytest.fixture
def passed(repository: Repository) -> Repository:
    """Both scenarios have passed, and took longer than a minute."""
    code, output = repository.run()
    assert code == 0, output
    repository.commit()
    repository.last_took(one=1000, two=1000)
    return repository


def test_a_pass_is_recorded_and_taken_from_the_record(passed: Repository):
    records = passed.records()
    assert [(record["scenario"], record["release"]) for record in records] == [("one", "trixie"), ("two", "trixie")]
    code, output = passed.run(*MINUTE)
    assert code == 0 and passed.ran() == set()
    assert output.count("passed before: ") == 2
    assert output.splitlines()[-1] == "2 passed, 0 failed, 2 not run"


def test_what_passed_runs_again_while_there_is_time(passed: Repository):
    passed.last_took(two=0)
    code, output = passed.run(*MINUTE)
    assert code == 0 and passed.ran() == {"two"}
    assert output.splitlines()[-1] == "3 passed, 0 failed, 1 not run"


def test_without_a_budget_everything_runs(passed: Repository):
    code, output = passed.run()
    assert code == 0 and passed.ran() == {"one", "two"}
    assert output.splitlines()[-1] == "4 passed, 0 failed"


def test_a_changed_role_makes_its_scenario_due(passed: Repository):
    passed.last_took(one=0)
    passed.change("roles/one/tasks.yml", "good again\n")
    code, output = passed.run(*MINUTE)
    assert code == 0 and passed.ran() == {"one"}, output


def test_what_is_due_is_shown_without_running_it(passed: Repository):
    passed.change("roles/one/tasks.yml", "good again\n")
    code, output = passed.run("--due")
    assert code == 0 and passed.ran() == set()
    assert output.startswith("due     Molecule one on trixie, 16 min 40 s\npassed  Molecule two on trixie, 16 min 40 s, on 20")
    assert output.endswith("1 due, 1 passed\n")


def test_what_is_due_is_a_matrix_for_workflows(passed: Repository):
    passed.change("roles/one/tasks.yml", "good again\n")
    code, output = passed.run("--due", "--json")
    assert (code, json.loads(output)) == (0, [{"scenario": "one", "release": "trixie"}])


def test_a_changed_shared_file_makes_all_due(passed: Repository):
    passed.last_took(one=0, two=0)
    before = passed.records()
    passed.change("shared.yml", "good\n")
    code, output = passed.run(*MINUTE)
    assert code == 0 and passed.ran() == {"one", "two"}, output
    # Both are recorded, although the first record has changed a file that git knows.
    inputs = [record["inputs"] for record in passed.records()]
    assert not set(inputs) & {record["inputs"] for record in before} and len(set(inputs)) == 2


def test_a_failure_is_not_covered_by_an_earlier_pass(passed: Repository):
    """The record stays in the file, and is not believed."""
    passed.change("roles/one/tasks.yml", "bad\n")
    before = passed.records()
    code, output = passed.run("one", "trixie")
    assert code == 1 and "FAILED  Molecule one on trixie" in output
    assert "no space left" in output, "what failed, before the log's end"
    assert passed.records() == before
    code, output = passed.run(*MINUTE)
    assert code == 1
    assert "no time: changed, does not fit into 1 minutes; run it: make test SCENARIO=one RELEASE=trixie" in output
    assert output.splitlines()[-1] == "2 passed, 0 failed, 2 not run"


@pytest.mark.parametrize("tries, stage, code", [(1, "create", 0), (2, "create", 1), (1, "converge", 1)])
def test_hosts_that_could_not_be_made_are_tried_once_more(repository: Repository, monkeypatch, tries: int, stage: str, code: int):
    """Nothing was tested then. What fails later is a failure."""
    monkeypatch.setenv("NO_HOSTS_IN", stage)
    (repository.path / ".cache/no_hosts").write_text("try\n" * tries)
    done, output = repository.run("one", "trixie")
    assert done == code, output
    assert ("again   Molecule one on trixie" in output and "no answer" in output) == (stage == "create")
    if code == 0:
        assert "ok: at the second try, the hosts could not be made before" in output


def test_a_record_goes_when_the_same_inputs_fail(passed: Repository):
    """A test that passes now and then has not passed."""
    (passed.path / ".cache/worse").write_text("")
    assert passed.run("one", "trixie")[0] == 1
    assert [record["scenario"] for record in passed.records()] == ["two"]


def test_a_record_by_hand_is_not_believed(passed: Repository):
    passed.last_took(one=0)
    good = passed.records()
    passed.change("roles/one/tasks.yml", "bad\n")
    # As a person would who wants the new inputs to have passed, with the digest that the runner works with.
    script = "import sys; sys.path.insert(0, 'scripts'); from pathlib import Path; from inputs import *; tree = Tree(Path().resolve());"
    script += "print(digest(tree, inputs(tree, 'one', 'trixie')))"
    now = subprocess.run([sys.executable, "-c", script], cwd=passed.path, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    forged = [{**record, "inputs": now} if record["scenario"] == "one" else record for record in good]
    passed.change("tests/passes.jsonl", "".join(json.dumps(record) + "\n" for record in forged))
    code, output = passed.run(*MINUTE)
    assert "tests/passes.jsonl, line 1: changed by hand, not believed" in output
    assert code == 1 and "one" in passed.ran()


def test_a_pass_of_an_uncommitted_tree_is_not_recorded(repository: Repository):
    repository.write("roles/one/tasks.yml", "good, not committed\n")
    code, output = repository.run("one", "trixie")
    assert code == 0 and repository.records() == []
    assert "no record, because of what is not committed: roles/one/tasks.yml" in output


def test_a_tree_that_changes_during_the_run_is_not_recorded(repository: Repository):
    repository.change("roles/one/seconds", "5\n")
    process = repository.start("one", "trixie")
    wait_for(lambda: repository.ran() == {"one"})
    repository.change("roles/one/tasks.yml", "good, and other\n")
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 0 and repository.records() == [], output


def test_what_runs_at_the_end_of_the_budget_is_stopped_and_cleaned(repository: Repository):
    repository.change("roles/one/seconds", "300\n")
    code, output = repository.run("--budget", "0.2")
    assert code == 1
    assert "stopped Molecule one on trixie" in output and "Molecule one on trixie" in output.split("wall")[1]
    # Once before it begins, once after it was stopped.
    assert (repository.path / ".cache/ran").read_text().count("engine --clean-label one-trixie-") == 2
    assert processes_of(repository) == []


def test_an_interrupted_run_stops_what_it_started_and_shows_the_table(repository: Repository):
    repository.change("roles/one/seconds", "300\n")
    process = repository.start("one", "trixie")
    wait_for(lambda: repository.ran() == {"one"})
    process.terminate()
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 128 + signal.SIGTERM
    assert processes_of(repository) == [] and repository.records() == []
    assert output.rstrip().splitlines()[-1] == "1 passed, 0 failed, 1 not run" and "stopped" in output.splitlines()[-3]


def test_a_file_that_cannot_be_read_is_named_and_its_scenario_is_due(passed: Repository):
    passed.last_took(one=0)
    passed.change("roles/one/files/broken.py", "def (:\n")
    code, output = passed.run(*MINUTE)
    assert code == 0 and passed.ran() == {"one"}
    assert "The inputs of one can't be read: roles/one/files/broken.py: invalid syntax" in output


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def processes_of(repository: Repository) -> list[int]:
    """Those of the scenario "one", whatever they are called and whoever their parent is."""
    mark = f"LOCAL_STATE={repository.path}/.cache/scenarios/one-trixie".encode()
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def test_a_killed_run_hinders_no_next_one(repository: Repository):
    """What it started may have left the session and have no parent any more.

    The next one ends it, and takes the lock.
    """
    repository.change("roles/one/seconds", "300\n")
    repository.change("roles/one/orphan", "")
    process = repository.start("one", "trixie")
    wait_for(lambda: len(processes_of(repository)) >= 3)
    before = processes_of(repository)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: len(processes_of(repository)) < len(before))
    assert processes_of(repository) != []
    (repository.path / "roles/one/orphan").unlink()
    repository.change("roles/one/seconds", "0\n")
    code, output = repository.run("one", "trixie")
    assert code == 0 and processes_of(repository) == [], output


def test_a_second_run_at_the_same_time_is_refused_and_costs_no_record(passed: Repository):
    passed.write("roles/one/seconds", "300\n")
    first = passed.start("one", "trixie")
    try:
        wait_for(lambda: passed.ran() == {"one"})
        passed.git("checkout", "-q", "roles/one/seconds")
        code, output = passed.run("one", "trixie")
        assert code == 1 and "error: another run of one on trixie is going on in this checkout" in output
        assert len(passed.records()) == 2
        assert first.poll() is None
    finally:
        first.terminate()
        first.wait(30)


def test_processor_time_of_what_outlives_its_parent_counts(repository: Repository):
    repository.change("roles/one/seconds", "4\n")
    repository.change("roles/one/orphan", "")
    _code, output = repository.run("one", "trixie")
    subprocess.run(["scripts/scenario", "one", "trixie", "clean"], cwd=repository.path, check=True)
    (record,) = repository.records()
    assert 1 <= int(str(record["cpu_seconds"])) <= 8, output
