"""scripts/test in a small repository whose tests take no time: what it runs, tries again, keeps, records and leaves behind."""

from __future__ import annotations

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

ROOT = Path(__file__).resolve().parents[2]
MODULES = ("checks.py", "golden.py", "owners.py", "plan.py", "reach.py", "record.py", "steps.py", "usage.py", "words.py")
COPIED = (*MODULES, "checkout-name", "due", "end-processes", "scenario", "test")
# No linters there, and one release; the rest is the real one.
CHECKS = """
lint = lambda touched=None: [step("lint", "true"), step("checks of one", "true", reads="roles/one/.*")]
refusals = quick_start = compat = lambda: []
"""
OWNERS = """
SYSTEMS.clear()
SYSTEMS.update(one="one", two="two")
ONE_RELEASE.update(one="trixie", two="trixie")
"""
# Makes hosts, as far as .cache/no_hosts lets it: each line is a try that makes none.
MOLECULE = """#!/usr/bin/env bash
echo "create ${!#}" | tee -a .cache/ran
if [ -e .cache/no_hosts ]; then
    sed -i 1d .cache/no_hosts
    [ -s .cache/no_hosts ] || rm .cache/no_hosts
    echo 'fatal: [localhost]: FAILED! => no answer'
    echo "ERROR    [${!#} > create] Executed: Failed"
    exit 1
fi
"""
# Passes if the role of the test's folder says so; `seconds` lets it last, `leaves` leaves something, `orphan` a process without a parent.
PYTEST = """#!/usr/bin/env bash
file=${!#} name=$(basename "$(dirname "${!#}")")
echo "$file" | sed s,tests/verify/,, >>.cache/ran
if [ -e "roles/$name/orphan" ]; then setsid bash -c 'while [ $SECONDS -lt 2 ]; do :; done; exec sleep 60' & fi
sleep "$(cat "roles/$name/seconds")"
if [ -e .cache/fails_once ]; then rm .cache/fails_once; echo 'E   once'; exit 1; fi
grep -q good "roles/$name/tasks.yml" || { echo 'E   no space left'; seq 100; exit 1; }
[ -e "roles/$name/leaves" ] || rm "$LOCAL_STATE/dirty"
"""
FILES = {
    ".gitignore": ".cache/\n.venv/\n__pycache__/\n",
    "scripts/engine": '#!/bin/sh\necho "engine $*" >>.cache/ran\n',
    "scripts/image": "#!/bin/sh\n",
    "tests/verify/fingerprint.py": "",
    "shared.yml": "a: 1\n",
}
for folder in ("one", "two"):
    FILES |= {
        f"extensions/molecule/{folder}/molecule.yml": "",
        f"extensions/molecule/{folder}/converge.yml": f"- role: deephdc.accelerators.{folder}\n- import_tasks: ../../../shared.yml\n",
        f"roles/{folder}/tasks.yml": "good: 1\n",
        f"roles/{folder}/other.yml": "good: 1\n",
        f"roles/{folder}/seconds": "0\n",
        f"tests/verify/{folder}/test_00_smoke.py": f'OWNS = ("roles/{folder}", "shared.yml", "scripts", "extensions/molecule/{folder}")\n',
        f"tests/verify/{folder}/test_other.py": f'OWNS = ("roles/{folder}/other.yml",)\n',
    }
ALL = {f"{folder}/test_{name}.py" for folder in ("one", "two") for name in ("00_smoke", "other")}


class Repository:
    def __init__(self, path: Path) -> None:
        self.path = path
        for name, content in FILES.items():
            self.write(name, content)
        for name in COPIED:
            shutil.copy(ROOT / "scripts" / name, path / "scripts")
        for name, more in (("checks.py", CHECKS), ("owners.py", OWNERS)):
            with (path / "scripts" / name).open("a") as file:
                file.write(more)
        self.write(".venv/bin/molecule", MOLECULE)
        self.write(".venv/bin/pytest", PYTEST)
        (path / ".cache").mkdir()
        self.git("init", "-q")
        self.commit("first")

    def write(self, name: str, content: str) -> None:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        file.chmod(0o755 if content.startswith("#!") else 0o644)

    def git(self, *words: str) -> str:
        settings = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
        return subprocess.run(["git", *settings, *words], cwd=self.path, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def commit(self, subject: str) -> None:
        self.git("add", "--all")
        self.git("commit", "-q", "--allow-empty", "-m", subject)

    def change(self, name: str, content: str) -> None:
        self.write(name, content)
        self.commit(f"change {name}")

    def start(self, *arguments: str, program: str = "scripts/test") -> subprocess.Popen[str]:
        (self.path / ".cache/ran").write_text("")
        environment = {name: value for name, value in os.environ.items() if name not in ("STARTED", "TEST_STEP")}
        environment["XDG_CACHE_HOME"] = str(self.path / ".cache")
        words = [sys.executable, program, *arguments]
        return subprocess.Popen(words, cwd=self.path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, *arguments: str, program: str = "scripts/test") -> tuple[int, str]:
        process = self.start(*arguments, program=program)
        output = process.communicate(timeout=300)[0]
        return process.returncode, output

    def lines(self, begin: str = "") -> list[str]:
        return [line for line in (self.path / ".cache/ran").read_text().splitlines() if line.startswith(begin)]

    def ran(self) -> set[str]:
        return {line for line in self.lines() if line.endswith(".py")}

    def due(self, *arguments: str) -> tuple[set[str], set[str]]:
        code, output = self.run("--json", *arguments, program="scripts/due")
        assert code == 0, output
        values = json.loads(output)
        return {one["test"] for one in values["due"]}, {one["test"] for one in values["stale"]}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.fixture
def passed(repository: Repository) -> Repository:
    """All has passed."""
    code, output = repository.run()
    assert code == 0 and repository.ran() == ALL, output
    assert repository.due() == (set(), set())
    return repository


def test_a_cluster_is_made_once_for_all_its_tests_and_removed(repository: Repository):
    code, output = repository.run()
    assert (code, output.splitlines()[-1]) == (0, "9 passed, 0 failed")
    assert sorted(repository.lines("create")) == ["create one", "create two"]
    cleaned = [line for line in repository.lines("engine --clean-label one-trixie") if not line.endswith("-empty")]
    assert len(cleaned) == 2, "before it is made, and at the end"


def test_what_a_cluster_takes_is_known_from_its_making_alone(repository: Repository):
    def known() -> dict[str, object]:
        return json.loads((repository.path / ".cache/deephdc.accelerators/passed.json").read_text())["passed"]["made one trixie"]

    assert repository.run("one/test_other.py")[0] == 0
    first = known()
    assert repository.run("one/test_other.py")[0] == 0
    assert known() == first


def test_what_leaves_something_costs_a_new_cluster(repository: Repository):
    repository.change("roles/one/leaves", "")
    assert repository.run("one")[0] == 0
    assert repository.lines("create") == ["create one", "create one"]


def test_what_landed_is_known_to_pass_also_after_a_later_try(passed: Repository):
    """A change that was tried, passed, and was taken back."""
    assert passed.run("--landed", "HEAD")[0] == 0
    passed.commit("the record")
    passed.change("roles/one/other.yml", "good: 2\n")
    assert passed.run("one")[0] == 0
    assert passed.due()[0] == set()
    passed.git("revert", "--no-edit", "HEAD")
    assert passed.due()[0] == set()
    passed.change("roles/one/other.yml", "good: 3\n")
    assert passed.due()[0] == {"one/test_00_smoke.py", "one/test_other.py"}


def test_a_named_test_keeps_its_cluster_and_a_changed_role_is_deployed_on_it(repository: Repository):
    assert repository.run("one/test_other.py")[0] == 0
    assert repository.run("one/test_other.py")[0] == 0
    assert repository.lines("create") == [] and repository.ran() == {"one/test_other.py"}
    repository.change("roles/one/tasks.yml", "good: 2\n")
    assert repository.run("one/test_other.py")[0] == 0
    assert repository.lines("create") == ["create one"] and repository.lines("engine --clean") == []


def test_a_change_makes_its_owner_and_the_smoke_due(passed: Repository):
    passed.change("roles/one/other.yml", "good: 2\n")
    assert passed.due() == ({"one/test_00_smoke.py", "one/test_other.py"}, set())
    passed.change("shared.yml", "a: 2\n")
    assert passed.due()[0] == {"one/test_00_smoke.py", "one/test_other.py", "two/test_00_smoke.py"}
    assert passed.due()[1] == {"two/test_other.py"}, "what is reached is stale"
    code, output = passed.run("--budget", "30")
    assert code == 0 and passed.ran() == ALL, output


def test_words_make_nothing_due(passed: Repository):
    passed.change("roles/one/other.yml", "# why\ngood: 1  # because\n")
    passed.change("tests/verify/one/test_other.py", '"""What it shows."""\n' + FILES["tests/verify/one/test_other.py"])
    assert passed.due() == (set(), set())


def test_a_landed_state_is_the_base(repository: Repository):
    assert repository.due()[0] == ALL
    assert repository.run("--landed", "HEAD")[0] == 0
    repository.commit("record")
    assert repository.due() == (set(), ALL), "never passed by themselves"
    repository.change("roles/two/tasks.yml", "good: 2\n")
    assert repository.due()[0] == {"two/test_00_smoke.py"}


def test_what_passed_is_written_once_into_the_tree(passed: Repository):
    assert not (passed.path / "tests/passed.json").exists()
    assert passed.run("--record")[0] == 0
    values = json.loads((passed.path / "tests/passed.json").read_text())
    assert {key for key in values["passed"] if key.startswith("one")} == {"one/test_00_smoke.py trixie", "one/test_other.py trixie"}
    assert values["passed"]["one/test_other.py trixie"]["commit"] == passed.git("rev-parse", "HEAD")


def test_what_is_due_and_fails_is_tried_once_alone(passed: Repository):
    (passed.path / ".cache/fails_once").write_text("")
    passed.change("roles/one/other.yml", "good: 2\n")
    code, output = passed.run("--budget", "30")
    assert code == 1 and "FAILED  one/test_" in output and "E   once" in output and "again" not in output


def test_a_stale_test_that_passes_at_the_second_try_is_flaky_and_fails_at_the_third_time(passed: Repository):
    for number in (1, 2, 3):
        # One stale test alone, as which of several comes first changes with the commit.
        passed.change("tests/verify/one/test_other.py", FILES["tests/verify/one/test_other.py"] + f"a = {number}\n")
        assert passed.run("--landed", "HEAD")[0] == 0
        (passed.path / ".cache/fails_once").write_text("")
        code, output = passed.run("--budget", "30")
        flaky = [line for line in output.splitlines() if "flaky: " in line]
        assert code == (number == 3) and len(flaky) == 1, output


def test_a_stale_test_that_fails_twice_names_the_commits(passed: Repository):
    passed.change("roles/one/tasks.yml", "bad: 1\n")
    assert passed.run("--landed", "HEAD")[0] == 0
    passed.change("roles/two/tasks.yml", "good: 2\n")
    code, output = passed.run("--budget", "30")
    assert code == 1 and "it failed twice; since it passed:" in output
    assert "change roles/one/tasks.yml" in output and "no space left" in output
    assert output.count("again   one/") >= 1 and "again   two/" not in output


def test_what_never_passed_fails_no_run_and_is_no_pass(repository: Repository):
    repository.change("roles/one/tasks.yml", "bad: 1\n")
    assert repository.run("--landed", "HEAD")[0] == 0
    code, output = repository.run("--budget", "30")
    assert code == 0 and output.count("failed, as it never passed") == 2, output
    assert repository.due()[1] == {"one/test_00_smoke.py", "one/test_other.py"}


def test_stale_tests_come_as_far_as_the_budget_goes(passed: Repository):
    machine = passed.path / ".cache/deephdc.accelerators/passed.json"
    values = json.loads(machine.read_text())
    for key, value in values["passed"].items():
        value["seconds"] = 5000 if "test_other" in key else 0
    machine.write_text(json.dumps(values))
    passed.change("shared.yml", "a: 2\n")
    code, output = passed.run("--budget", "1")
    assert code == 0 and passed.ran() == {"one/test_00_smoke.py", "two/test_00_smoke.py"}, output
    assert output.count("stale, comes another time") == 2
    passed.change("roles/one/other.yml", "good: 2\n")
    code, output = passed.run("--budget", "1")
    assert code == 0 and "one/test_other.py" in passed.ran(), "what is due is tried, whatever it took on another machine"


@pytest.mark.parametrize("tries, code", [(1, 0), (2, 1)])
def test_hosts_that_could_not_be_made_are_tried_once_more(repository: Repository, tries: int, code: int):
    (repository.path / ".cache/no_hosts").write_text("try\n" * tries)
    done, output = repository.run("one")
    assert done == code and "again   one on trixie: the cluster" in output and "no answer" in output, output
    assert ("2 not run" in output) == bool(code)


def test_a_pass_of_an_uncommitted_tree_is_not_recorded(repository: Repository):
    repository.write("roles/one/tasks.yml", "good: 3\n")
    code, output = repository.run("one")
    assert code == 0 and "no record: code is not committed" in output
    assert "one/test_other.py" in repository.due()[0]


def test_what_runs_at_the_end_of_the_budget_is_stopped_and_cleaned(repository: Repository):
    repository.change("roles/one/seconds", "300\n")
    repository.change("roles/two/seconds", "300\n")
    code, output = repository.run("--budget", "0.15")
    assert code == 1 and "due, and there was no time: make test NAME=one/test_other.py" in output
    assert processes_of(repository) == []


def test_an_interrupted_run_stops_what_it_started_and_shows_the_table(repository: Repository):
    repository.change("roles/one/seconds", "300\n")
    process = repository.start("one")
    wait_for(lambda: repository.ran() == {"one/test_00_smoke.py"})
    process.terminate()
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 128 + signal.SIGTERM and processes_of(repository) == []
    assert output.rstrip().splitlines()[-1] == "2 passed, 0 failed, 2 not run" and "stopped" in output
    assert len(repository.lines("engine --clean-label one-trixie")) == 2, "once, before it was made: its hosts can be looked at"


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def processes_of(repository: Repository) -> list[int]:
    """Those of the cluster "one", whatever they are called and whoever their parent is."""
    mark = f"LOCAL_STATE={repository.path}/.cache/scenarios/one-trixie".encode()
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def test_a_killed_run_hinders_no_next_one_and_its_cluster_is_made_again(repository: Repository):
    """What it started may have left the session and have no parent any more: the next one ends it, and takes the lock."""
    repository.change("roles/one/seconds", "300\n")
    repository.change("roles/one/orphan", "")
    process = repository.start("one")
    wait_for(lambda: len(processes_of(repository)) >= 3 and repository.ran())
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert processes_of(repository) != []
    (repository.path / "roles/one/orphan").unlink()
    repository.change("roles/one/seconds", "0\n")
    code, output = repository.run("one")
    assert code == 0 and processes_of(repository) == [] and repository.lines("create") == ["create one"], output


def test_a_second_run_at_the_same_time_is_refused(repository: Repository):
    repository.change("roles/one/seconds", "300\n")
    first = repository.start("one")
    try:
        wait_for(lambda: repository.ran() == {"one/test_00_smoke.py"})
        code, output = repository.run("one")
        assert code == 1 and "error: another run of one on trixie is going on in this checkout" in output
        assert first.poll() is None
    finally:
        first.terminate()
        first.wait(30)


def test_processor_time_of_what_outlives_its_parent_counts(repository: Repository):
    repository.change("roles/one/seconds", "4\n")
    repository.change("roles/one/orphan", "")
    repository.run("one/test_other.py")
    subprocess.run(["scripts/scenario", "one", "trixie", "clean"], cwd=repository.path, check=True)
    values = json.loads((repository.path / ".cache/deephdc.accelerators/passed.json").read_text())
    assert 1 <= values["passed"]["one/test_other.py trixie"]["cpu_seconds"] <= 8


def test_passes_of_another_branch_are_kept_and_do_not_count(passed: Repository):
    machine = passed.path / ".cache/deephdc.accelerators/passed.json"
    machine.write_text(machine.read_text().replace(passed.git("rev-parse", "HEAD"), "0" * 40))
    assert passed.run("one/test_other.py")[0] == 0
    values = json.loads(machine.read_text())["passed"]
    assert {key: one["commit"] == "0" * 40 for key, one in values.items() if key.endswith("test_other.py trixie")} == {
        "one/test_other.py trixie": False,
        "two/test_other.py trixie": True,
    }
    assert "two/test_other.py" in passed.due()[0]


def test_a_check_runs_when_something_that_it_reads_changed(passed: Repository):
    passed.change("roles/two/tasks.yml", "good: 2\n")
    assert "checks of one" not in passed.run("--budget", "5")[1]
    passed.write("roles/one/words.md", "a\n")
    assert "ok      checks of one" in passed.run("--budget", "5")[1]
    assert "ok      checks of one" in passed.run("--budget", "5")[1], "what is not committed has no record"
