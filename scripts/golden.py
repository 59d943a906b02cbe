"""Changes that have no effect on any golden file make nothing due.

Each changed line must be executed by the golden run, and all golden files be as they were; a line that was only removed can't be.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

from memory import remembered
from moves import settled
from words import blob_of

READ = ("plugins", "roles", "playbooks", "inventories", "molecule", "tests/golden", "tosca")
SHOWN = re.compile(r"plugins/.*\.py|roles/\w+/templates/.*\.j2")
HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


def changed_lines(diff: str) -> list[int]:
    """The lines of the new file; empty if some were only removed."""
    hunks = [(int(begin), int(count or 1)) for begin, count in HUNK.findall(diff)]
    if any(count == 0 for _begin, count in hunks):
        return []
    return [line for begin, count in hunks for line in range(begin, begin + count)]


def has_changed(root: Path, commit: str) -> bool:
    """Return whether the golden run or its files differ from a commit.

    Places do not count.
    """
    git = ["git", "diff", "--name-only", "--no-renames", "-z", commit, "--", "tests/golden"]
    names = subprocess.run(git, cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout.split("\0")[:-1]
    for name in names:
        before = subprocess.run(["git", "show", f"{commit}:{name}"], cwd=root, capture_output=True, text=True, check=False)
        # Comments too: they are bytes on hosts.
        if before.returncode or not (root / name).is_file() or settled(name, before.stdout) != settled(name, (root / name).read_text()):
            return True
    return False


def without_effect(root: Path, commit: str, names: set[str]) -> set[str]:
    """Return the files whose change since a commit has no effect on any site.

    It takes up to two minutes.
    """
    candidates = sorted(name for name in names if SHOWN.fullmatch(name) and (root / name).exists())
    git = ["git", "diff", "--unified=0", "--no-ext-diff", "--no-renames", commit, "--"]
    run = {name: subprocess.run([*git, name], cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout for name in candidates}
    lines = {name: changed_lines(diff) for name, diff in run.items()}
    asked = [f"{name}:{line}" for name, numbers in lines.items() for line in numbers]
    if not asked or has_changed(root, commit):
        return set()
    # All that the golden run reads decides, not the changed files alone.
    tree = subprocess.run([*git[:1], "ls-files", "-z", "--", *READ], cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout
    blobs = [f"{name} {blob_of(root / name)}" for name in tree.split("\0") if name and (root / name).is_file()]
    key = hashlib.sha256(json.dumps([run, blobs]).encode()).hexdigest()

    def good() -> list[str]:
        python, folder = sys.executable, root / "tests/golden"
        done = subprocess.run([python, folder / "executed.py", *asked], cwd=root, stdout=subprocess.PIPE, text=True, check=False)
        same = subprocess.run([python, folder / "render.py", "--check"], cwd=root, stdout=subprocess.DEVNULL, check=False).returncode == 0
        missed = {line.rpartition(":")[0] for line in done.stdout.splitlines() if line.endswith(" is not executed")}
        if not same or (done.returncode != 0 and not missed):
            return []
        return [name for name, numbers in lines.items() if numbers and name not in missed]

    return set(remembered(f"golden {key}", good))
