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
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = ("archives", "checks", "golden", "memory", "moves", "narrow", "owners", "plan", "reach", "record", "steps", "usage", "words")
COPIED = (*(f"{name}.py" for name in MODULES), "checkout-name", "clock", "due", "end-processes", "scenario", "test")
# No linters there, one release, and seconds for minutes; the rest is the real one.
CHECKS = """
always = lambda: [step("lint", "bash", "-c", "sleep $(cat .cache/lint_seconds 2>/dev/null || echo 0)")]
by_files = lambda: [unit_tests("checks of one", "tests/one", "roles/one/.*")]
by_clock = lambda: [step("ansible-core 2.21: one", "grep", "-q", "good", "roles/one/tasks.yml", reads="roles/one/.*")]
"""
STEPS = """
SECONDS_FOR_AN_ANSWER = 1
answers = lambda line: (ROOT / ".cache/answers").exists()
"""
OWNERS = """
SYSTEMS.clear()
SYSTEMS.update(one="one", two="two")
ONE_RELEASE.update(one="trixie", two="trixie")
"""
# Makes hosts, but for each line of .cache/no_hosts, which is the error of one try.
MOLECULE = """#!/usr/bin/env bash
echo "create ${!#}" | tee -a ${XDG_CACHE_HOME:-.cache}/ran
if [ -s ${XDG_CACHE_HOME:-.cache}/no_hosts ]; then
    head -n 1 ${XDG_CACHE_HOME:-.cache}/no_hosts
    sleep $(sed -n '1s/^sleep //p' ${XDG_CACHE_HOME:-.cache}/no_hosts | grep . || echo 0)
    sed -i 1d ${XDG_CACHE_HOME:-.cache}/no_hosts
    echo "ERROR    [${!#} > create] Executed: Failed"
    exit 1
fi
"""
# Passes if the role of the test's folder says so; `seconds` lets it last, `leaves` leaves something, `orphan` a process without a parent.
# Unit tests (their folder is no cluster's) fail once for each line of .cache/unit_fails, and say with what they were called.
PYTEST = """#!/usr/bin/env bash
file=${!#} name=$(basename "$(dirname "${!#}")")
if [[ $file != tests/verify/* ]]; then
    echo "units $* $PYTEST_ADDOPTS" >>${XDG_CACHE_HOME:-.cache}/ran
    if [ -s ${XDG_CACHE_HOME:-.cache}/unit_fails ]; then sed -i 1d ${XDG_CACHE_HOME:-.cache}/unit_fails; exit 1; fi
    exit 0
fi
echo "$file" | sed s,tests/verify/,, >>${XDG_CACHE_HOME:-.cache}/ran
if [ -e "roles/$name/orphan" ]; then
    setsid bash -c 'python3 -c "from time import process_time as worked
while worked() < 2: pass"; touch ${XDG_CACHE_HOME:-.cache}/worked; exec sleep 60' &
    until [ -e ${XDG_CACHE_HOME:-.cache}/worked ]; do sleep 0.1; done
fi
sleep "$(cat "roles/$name/seconds")"
if [ -s ${XDG_CACHE_HOME:-.cache}/fails ]; then sed -i 1d ${XDG_CACHE_HOME:-.cache}/fails; echo 'E   once'; exit 1; fi
grep -q good "roles/$name/tasks.yml" || { echo 'E   no space left'; seq 100; exit 1; }
[[ $file == *other* ]] || ! grep -q bad "plugins/modules/$name.py" "plugins/filter/$name.py" "roles/$name/templates/a.j2" || exit 1
grep -q good "roles/$name/other.yml" || [[ $file != *other* ]] || { echo 'E   no space left'; exit 1; }
[ -e "roles/$name/leaves" ] || rm "$LOCAL_STATE/dirty"
"""
FILES = {
    ".gitignore": ".cache/\n.venv\n__pycache__/\n",
    "scripts/engine": '#!/bin/sh\necho "engine $*" >>${XDG_CACHE_HOME:-.cache}/ran\n',
    "scripts/image": "#!/bin/sh\n",
    "scripts/toolchain": "#!/bin/sh\n[ -d .venv ] || ln -s ORIGINAL/.venv .venv\n",
    "tests/verify/fingerprint.py": "",
    "shared.yml": "a: 1\n",
}
for folder in ("one", "two"):
    FILES |= {
        f"molecule/{folder}/molecule.yml": "",
        f"molecule/{folder}/converge.yml": f"- role: deephdc.accelerators.{folder}\n- import_tasks: ../../shared.yml\n",
        f"roles/{folder}/tasks.yml": "good: 1\n",
        f"roles/{folder}/other.yml": "good: 1\n",
        f"roles/{folder}/templates/a.j2": "good: 1\n",
        f"plugins/modules/{folder}.py": "A = 'good'\n",
        f"plugins/filter/{folder}.py": "A = 'good'\n",
        f"roles/{folder}/seconds": "0\n",
        f"tests/verify/{folder}/test_00_smoke.py": f'OWNS = ("roles/{folder}", "plugins/*/{folder}.py", "shared.yml", "scripts", '
        f'"molecule/{folder}")\n',
        f"tests/verify/{folder}/test_other.py": f'OWNS = ("roles/{folder}/other.yml",)\n',
    }
ALL = {f"{folder}/test_{name}.py" for folder in ("one", "two") for name in ("00_smoke", "other")}


class Repository:
    def __init__(self, path: Path) -> None:
        self.path = path
        for name, content in FILES.items():
            self.write(name, content.replace("ORIGINAL", str(path)))
        for name in COPIED:
            shutil.copy(ROOT / "scripts" / name, path / "scripts")
        for name, more in (("checks.py", CHECKS), ("owners.py", OWNERS), ("steps.py", STEPS)):
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
        words = [sys.executable, program, *arguments] if program != "scripts/clock" else [program, *arguments]
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

    def kinds(self) -> dict[str, str]:
        """What each test is, as far as it has to run; an exclamation mark says that it blocks."""
        values = json.loads(self.run("--json", program="scripts/due")[1])
        return {one["test"]: one["kind"] + "!" * one["blocks"] for kind in values.values() for one in kind}

    def known(self) -> dict[str, dict[str, object]]:
        return json.loads((self.path / ".cache/deephdc.accelerators/tests.json").read_text())["passed"]

    def land(self) -> None:
        assert self.run("--landed", "HEAD")[0] == 0
        self.commit("the record")


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
    assert (code, output.splitlines()[-1]) == (0, "10 passed, 0 failed")
    assert sorted(repository.lines("create")) == ["create one", "create two"]
    cleaned = [line for line in repository.lines("engine --clean-label one-trixie") if not line.endswith("-empty")]
    assert len(cleaned) == 2, "before it is made, and at the end"


def test_what_a_cluster_takes_is_known_from_its_making_alone(repository: Repository):
    assert repository.run("one/test_other.py")[0] == 0
    first = repository.known()["made one trixie"]
    assert repository.run("one/test_other.py")[0] == 0
    assert repository.known()["made one trixie"] == first


def test_what_leaves_something_costs_a_new_cluster(repository: Repository):
    repository.change("roles/one/leaves", "")
    assert repository.run("one")[0] == 0
    assert repository.lines("create") == ["create one", "create one"]


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


GATE = ("--budget", "30")


@pytest.mark.parametrize(
    "name", ["roles/one/tasks.yml", "roles/one/other.yml", "roles/one/templates/a.j2", "plugins/modules/one.py", "plugins/filter/one.py"]
)
def test_a_defect_fails_twice_and_fails_the_run(passed: Repository, name: str):
    passed.land()
    passed.change(name, "bad = 1\n" if name.endswith(".py") else "bad: 1\n")
    code, output = passed.run(*GATE)
    assert code == 1 and output.splitlines()[-1].split(", ")[1] == "1 failed", output
    assert output.count("again   one/") == (2 if "tasks" in name else 1), "each is tried twice"
    assert passed.kinds()["one/test_other.py" if "other" in name else "one/test_00_smoke.py"] == "due!", "it stays due and blocks"


def test_a_cluster_that_can_not_be_made_fails_the_run(passed: Repository):
    passed.land()
    passed.change("roles/one/other.yml", "good: 2\n")
    (passed.path / ".cache/no_hosts").write_text("fatal: ours\n" * 2)
    code, output = passed.run(*GATE)
    assert code == 1 and output.count("its cluster could not be made") == 2 and "again   one on trixie: the cluster" in output, output


def test_what_fails_once_is_flaky_and_counted_and_fails_no_run(passed: Repository):
    passed.land()
    for number in (1, 2, 3):
        passed.change("roles/one/other.yml", f"good: {number + 1}\n")
        (passed.path / ".cache/fails").write_text("once\n")
        code, output = passed.run(*GATE)
        assert code == 0 and f"flaky: it passed at the second try, {number} of the last 10 times" in output, output
    assert passed.run("--release", program="scripts/due") == (1, "flaky: one/test_00_smoke.py on trixie, 3 times of the last ten\n")


def test_what_is_stale_and_fails_names_the_commits_and_fails_no_run(passed: Repository):
    passed.change("roles/one/tasks.yml", "bad: 1\n")
    passed.land()
    passed.change("roles/two/tasks.yml", "good: 2\n")
    code, output = passed.run(*GATE)
    assert code == 0 and "it failed twice; commits since it passed:" in output, output
    assert "change roles/one/tasks.yml" in output and "no space left" in output
    assert passed.kinds() == {"one/test_00_smoke.py": "red", "one/test_other.py": "red"}
    passed.land()
    passed.change("roles/one/other.yml", "good: 2\n")
    assert passed.kinds() == {"one/test_00_smoke.py": "due", "one/test_other.py": "due"}, "they were red in what landed"
    code, output = passed.run(*GATE)
    assert code == 0 and "3 red" in output.splitlines()[-1], "and the check by the clock"
    passed.change("roles/one/tasks.yml", "good: 2\n")
    assert passed.run(*GATE)[0] == 0 and passed.kinds() == {}


def test_what_never_passed_blocks_nothing_but_a_new_test_does(repository: Repository):
    repository.change("roles/one/tasks.yml", "bad: 1\n")
    repository.land()
    repository.change("roles/one/other.yml", "good: 2\n")
    assert {name: kind for name, kind in repository.kinds().items() if "one" in name} == dict.fromkeys(
        ["one/test_00_smoke.py", "one/test_other.py"], "due"
    )
    assert repository.run(*GATE)[0] == 0
    repository.git("mv", "tests/verify/one/test_other.py", "tests/verify/one/test_new.py")
    repository.commit("renamed")
    assert repository.kinds()["one/test_new.py"] == "due!"
    assert repository.run(*GATE)[0] == 1


def test_more_than_there_is_time_for_is_owed_and_comes_first(passed: Repository):
    """A smoke is finished, so that the deadline fails nothing."""
    passed.land()
    passed.change("roles/one/seconds", "300\n")
    passed.change("roles/two/tasks.yml", "good: 2\n")
    code, output = passed.run("--budget", "0.4")
    assert code == 0 and "due, and there was no time: make test NAME=one/test_00_smoke.py" in output, output
    assert output.splitlines()[-1].endswith("1 owed") and "ok      two/test_00_smoke.py" in output
    passed.change("roles/one/seconds", "1\n")
    passed.land()
    assert passed.kinds()["one/test_00_smoke.py"] == "owed"
    code, output = passed.run(*GATE)
    assert code == 0 and "ok      one/test_00_smoke.py on trixie" in output and passed.kinds() == {}, output


def test_no_smoke_finished_though_there_was_time_fails_the_run(passed: Repository):
    passed.land()
    passed.change("roles/one/seconds", "300\n")
    code, output = passed.run("--budget", "0.3")
    assert code == 1 and "error: no smoke that is due was finished, and there was time for one/test_00_smoke.py on trixie" in output, output
    assert processes_of(passed) == []


def test_a_cluster_whose_making_hangs_is_no_finished_smoke(passed: Repository):
    passed.land()
    passed.change("roles/one/tasks.yml", "good: 2\n")
    (passed.path / ".cache/no_hosts").write_text("sleep 300\n")
    code, output = passed.run("--budget", "0.3")
    assert code == 1 and "error: no smoke that is due was finished" in output and "1 owed" in output.splitlines()[-1], output


def test_a_quick_check_without_time_fails_the_run(passed: Repository):
    (passed.path / ".cache/lint_seconds").write_text("60")
    code, output = passed.run("--budget", "0.1")
    assert code == 1 and "error: a quick check had no time: lint" in output, output


def test_a_unit_test_that_passes_alone_is_flaky(passed: Repository):
    passed.change("roles/one/other.yml", "good: 2\n")
    (passed.path / ".cache/unit_fails").write_text("once\n")
    code, output = passed.run(*GATE)
    assert code == 0 and "checks of one" in output and "flaky: it passed at the second try" in output, output
    assert [line.split()[-1] for line in passed.lines("units")] == ["--cache-clear", "--last-failed-no-failures=none"]
    passed.change("roles/one/other.yml", "good: 3\n")
    (passed.path / ".cache/unit_fails").write_text("twice\n" * 2)
    assert passed.run(*GATE)[0] == 1


def test_a_check_of_another_ansible_core_that_fails_is_red(passed: Repository):
    passed.change("roles/one/tasks.yml", "bad: 1\n")
    passed.land()
    code, output = passed.run(*GATE)
    assert code == 0 and "ansible-core 2.21: one" in output and " red: it failed" in output, output
    assert passed.known()["check ansible-core 2.21: one "]["failed"] == passed.git("rev-parse", "HEAD")


SILENCE = "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'ConnectTimeoutError()': /simple/x/\n"


@pytest.mark.parametrize("tries", [1, 3])
def test_an_archive_that_does_not_answer_fails_no_run(passed: Repository, tries: int):
    passed.land()
    passed.change("roles/one/other.yml", "good: 2\n")
    (passed.path / ".cache/no_hosts").write_text(SILENCE * tries)
    code, output = passed.run(*GATE)
    assert code == 0 and "wait    one on trixie: the cluster" in output and output.count("again   ") == 0, output
    assert [line.split()[-1] for line in output.splitlines() if line.startswith("one/test_")] == (["ok"] * 2 if tries == 1 else ["run"] * 2)
    assert passed.kinds().get("one/test_00_smoke.py") == (None if tries == 1 else "due!"), output


def test_an_archive_that_answers_this_machine_alone_is_a_failure(passed: Repository):
    """A change may have broken the hosts' way to it."""
    passed.land()
    passed.change("roles/one/other.yml", "good: 2\n")
    (passed.path / ".cache/no_hosts").write_text(SILENCE * 9)
    (passed.path / ".cache/answers").write_text("")
    assert passed.run(*GATE)[0] == 1


def test_words_of_an_archive_that_answered_at_last_hide_no_failure(passed: Repository):
    passed.land()
    passed.change("roles/one/other.yml", "good: 2\n")
    lines = "".join(f"line {number}\\n" for number in range(50))
    passed.change("roles/one/tasks.yml", "bad: 1\n")
    noisy = PYTEST.replace("\nsleep ", f"\ncat <<'END'\n{SILENCE}END\nprintf '{lines}'\nsleep ", 1)
    (passed.path / ".venv/bin/pytest").write_text(noisy)
    code, output = passed.run(*GATE)
    assert code == 1 and "no answer" not in output, output


def test_stale_tests_come_as_far_as_the_clock_goes(passed: Repository):
    machine = passed.path / ".cache/deephdc.accelerators/tests.json"
    values = json.loads(machine.read_text())
    for key, value in values["passed"].items():
        value["seconds"], value["cpu_seconds"] = (5000, 5000) if "test_other" in key else (0, 1)
    machine.write_text(json.dumps(values))
    passed.change("shared.yml", "a: 2\n")
    code, output = passed.run("--budget", "1")
    assert code == 0 and passed.ran() == {"one/test_00_smoke.py", "two/test_00_smoke.py"}, output
    assert "2 stale tests wait for the clock" in output
    passed.change("roles/one/other.yml", "good: 2\n")
    code, output = passed.run("--budget", "1")
    assert code == 0 and "one/test_other.py" in passed.ran(), "what is due is tried, whatever it took on another machine"


@pytest.mark.parametrize("kind", ["owed", "stale", "red"])
def test_a_kind_can_be_run_alone(passed: Repository, kind: str):
    passed.change("shared.yml" if kind == "stale" else "roles/one/other.yml", "good: 2\n" if kind == "owed" else "a: 2\n")
    passed.land()
    if kind == "red":
        assert passed.run("--budget", "1")[0] == 0 and passed.kinds()["one/test_other.py"] == "red"
        passed.change("roles/one/other.yml", "good: 3\n")
        passed.land()
    before = {name for name, found in passed.kinds().items() if found == kind}
    assert before and passed.run(kind, "--budget", "5")[0] == 0
    assert passed.ran() == before and not before & set(passed.kinds())


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"passed": {"one/test_other.py trixie": 7}}', '{"passed": {"one/test_other.py trixie": {"commit": 1, "new": []}}}'],
)
def test_a_record_that_can_not_be_used_makes_a_run_longer(passed: Repository, text: str):
    (passed.path / ".cache/deephdc.accelerators/tests.json").write_text(text)
    code, output = passed.run("--budget", "1")
    assert code == 0 and "one/test_other.py" in passed.ran(), output
    assert passed.known()["one/test_other.py trixie"]["commit"] == passed.git("rev-parse", "HEAD")


def test_a_newer_record_keeps_what_is_not_known_here(passed: Repository):
    machine = passed.path / ".cache/deephdc.accelerators/tests.json"
    values = json.loads(machine.read_text())
    values["passed"]["one/test_other.py trixie"]["more"] = [1]
    machine.write_text(json.dumps({**values, "format": 9, "machine": "a"}))
    assert passed.kinds() == {} and passed.run("one/test_other.py")[0] == 0
    assert passed.known()["one/test_other.py trixie"]["more"] == [1] and '"machine": "a"' in machine.read_text()


def test_no_entry_is_taken_out_but_with_its_test(passed: Repository):
    passed.land()
    file = passed.path / "tests/passed.json"
    values = json.loads(file.read_text())["passed"]
    assert {"one/test_other.py trixie", "made one trixie", "check checks of one "} <= values.keys()
    (passed.path / ".cache/deephdc.accelerators/tests.json").unlink()
    passed.git("rm", "-q", "tests/verify/two/test_other.py")
    passed.commit("one test less")
    assert passed.run("--record")[0] == 0
    assert values.keys() - json.loads(file.read_text())["passed"].keys() == {"two/test_other.py trixie"}


def test_the_clock_runs_what_is_owed_then_what_is_stale_and_moves_to_the_newest_commit(passed: Repository):
    passed.change("roles/two/other.yml", "good: 2\n")
    passed.change("shared.yml", "a: 2\n")
    passed.land()
    clock = passed.start(program="scripts/clock")
    try:
        wait_for(lambda: passed.kinds() == {}, 60)
        passed.change("roles/one/other.yml", "bad: 1\n")
        passed.land()
        wait_for(lambda: "red" in passed.kinds().values() and len(passed.kinds()) == 1, 60)
    finally:
        clock.terminate()
    lines = [line.split()[1:4] for line in clock.communicate(timeout=60)[0].splitlines()]
    owed, stale = {"one/test_00_smoke.py", "two/test_00_smoke.py", "two/test_other.py"}, "one/test_other.py"
    assert {name for _commit, _state, name in lines[:3]} == owed and lines[3][1:] == ["ok", stale], lines
    assert ["red", stale] in [line[1:] for line in lines[4:]] and lines[-1][0] == passed.git("rev-parse", "HEAD")[:8], lines
    assert processes_of(passed) == []


def test_a_clock_that_is_stopped_leaves_nothing(passed: Repository):
    passed.change("roles/one/seconds", "300\n")
    passed.land()
    clock = passed.start(program="scripts/clock")
    (clone,) = wait_for(lambda: list((passed.path / ".cache/deephdc.accelerators").glob("clock-????")))
    wait_for(lambda: "one/test_00_smoke.py" in passed.ran(), 60)
    assert processes_of(passed, clone)
    clock.terminate()
    assert clock.wait(60) == 143 and processes_of(passed, clone) == []
    assert not any((clone / ".cache/scenarios/one-trixie").iterdir())


@pytest.mark.parametrize("kind", ["red", "due!"])
def test_the_clock_tries_what_failed_today_no_more_until_something_changes(passed: Repository, kind: str):
    passed.land()
    passed.change("roles/one/other.yml", "bad: 1\n")
    passed.change("roles/two/other.yml", "good: 2\n")
    if kind == "red":
        passed.land()
    clock = passed.start(program="scripts/clock")
    try:
        wait_for(lambda: passed.kinds() == {"one/test_other.py": kind} and passed.known()["one/test_other.py trixie"]["failed"], 60)
        time.sleep(8)
    finally:
        clock.terminate()
    lines = [line.split()[2:4] for line in clock.communicate(timeout=60)[0].splitlines()]
    assert lines.count(["red", "one/test_other.py"]) == 1 and lines.count(["ok", "two/test_other.py"]) == 1, lines


def test_the_clock_waits_while_tests_run(passed: Repository):
    passed.change("roles/one/seconds", "5\n")
    passed.change("roles/two/other.yml", "good: 2\n")
    first = passed.start("one/test_other.py")
    wait_for(lambda: passed.ran() == {"one/test_other.py"})
    clock = passed.start(program="scripts/clock")
    try:
        time.sleep(2)
        assert "two/test_other.py" not in passed.ran()
        wait_for(lambda: first.poll() is not None, 60)
    finally:
        clock.terminate()
        clock.wait(60)


def test_a_pass_of_an_uncommitted_tree_is_not_recorded(repository: Repository):
    repository.write("roles/one/tasks.yml", "good: 3\n")
    code, output = repository.run("one")
    assert code == 0 and "no record: code is not committed" in output
    assert "one/test_other.py" in repository.due()[0]


def test_an_interrupted_run_stops_what_it_started_and_shows_the_table(repository: Repository):
    repository.change("roles/one/seconds", "300\n")
    process = repository.start("one")
    wait_for(lambda: repository.ran() == {"one/test_00_smoke.py"})
    process.terminate()
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 128 + signal.SIGTERM and processes_of(repository) == []
    assert output.rstrip().splitlines()[-1] == "2 passed, 0 failed, 2 not run" and "stopped" in output
    assert len(repository.lines("engine --clean-label one-trixie")) == 2, "once, before it was made: its hosts can be looked at"


def wait_for(condition: Callable[[], Any], seconds: float = 30) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


def processes_of(repository: Repository, clone: Path | None = None) -> list[int]:
    """Those of the cluster "one", whatever they are called and whoever their parent is."""
    mark = f"LOCAL_STATE={clone or repository.path}/.cache/scenarios/one-trixie".encode()
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
    repository.change("roles/one/seconds", "1\n")
    repository.change("roles/one/orphan", "")
    repository.run("one/test_other.py")
    subprocess.run(["scripts/scenario", "one", "trixie", "clean"], cwd=repository.path, check=True)
    assert 1 <= repository.known()["one/test_other.py trixie"]["cpu_seconds"] <= 8


def test_passes_of_another_branch_are_kept_and_do_not_count(passed: Repository):
    machine = passed.path / ".cache/deephdc.accelerators/tests.json"
    machine.write_text(machine.read_text().replace(passed.git("rev-parse", "HEAD"), "0" * 40))
    assert passed.run("one/test_other.py")[0] == 0
    assert {key: one["commit"] == "0" * 40 for key, one in passed.known().items() if key.endswith("test_other.py trixie")} == {
        "one/test_other.py trixie": False,
        "two/test_other.py trixie": True,
    }
    assert "two/test_other.py" in passed.due()[0]


def test_a_check_runs_when_something_that_it_reads_changed(passed: Repository):
    passed.change("roles/two/tasks.yml", "good: 2\n")
    assert "checks of one" not in passed.run(*GATE)[1]
    passed.write("roles/one/words.md", "a\n")
    assert "ok      checks of one" in passed.run(*GATE)[1]
    assert "ok      checks of one" in passed.run(*GATE)[1], "what is not committed has no record"
