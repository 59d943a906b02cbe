"""The pictures in docs/pictures: drawn from the sources beside them, shown by a page, true to the names here."""

from __future__ import annotations

import re
import shutil
import subprocess
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/pictures"
DRAWINGS = sorted(FOLDER.glob("*.svg"))
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
SVG = "{http://www.w3.org/2000/svg}"
# Names with an underscore that are no role, playbook, module, filter or group of ours.
OTHERS = {"mod_auth_openidc", "accelerator_allotment", "slurm_gpu_health", "xopera_twin"}


def names() -> set[str]:
    """Roles, playbooks, plugins and groups of the inventory."""
    found = {path.name for path in ROOT.glob("roles/*")}
    found |= {path.stem for pattern in ("playbooks/*.yml", "plugins/modules/*.py", "plugins/filter/*.yml") for path in ROOT.glob(pattern)}
    for path in ROOT.glob("playbooks/*.yml"):
        for play in yaml.safe_load(path.read_text(encoding="utf-8")):
            found |= set(re.findall(r"\w+", str(play.get("hosts", ""))))
    return found


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    """--check of a copy: pictures, style and the scripts."""
    (folder / "docs").mkdir()
    (folder / "scripts").mkdir()
    shutil.copytree(FOLDER, folder / "docs/pictures")
    for name in ("pictures", "pictures.py"):
        shutil.copy(ROOT / "scripts" / name, folder / "scripts")
    return again(folder)


def again(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [folder / "scripts/pictures", "--check"], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_each_picture_is_drawn_from_its_source(tmp_path):
    found = check(tmp_path)
    assert (found.returncode, found.stdout) == (0, "")


@pytest.mark.parametrize("changed", ["slurm.dot", "style.css", "demo.txt"])
def test_a_changed_source_is_found(tmp_path, changed):
    assert check(tmp_path).returncode == 0
    with (tmp_path / "docs/pictures" / changed).open("a", encoding="utf-8") as file:
        file.write("\n")
    found = again(tmp_path)
    assert found.returncode == 1
    drawn = "slurm.svg" if changed == "style.css" else changed.rsplit(".", 1)[0] + ".svg"
    assert f"{drawn} is not what" in found.stdout


def test_a_picture_that_was_changed_by_hand_is_found(tmp_path):
    assert check(tmp_path).returncode == 0
    drawing = tmp_path / "docs/pictures/slurm.svg"
    drawing.write_text(drawing.read_text(encoding="utf-8").replace("slurmctld", "slurmd"), encoding="utf-8")
    assert (again(tmp_path).returncode, again(tmp_path).stdout[:9]) == (1, "slurm.svg")


def test_a_picture_without_a_source_is_found(tmp_path):
    assert check(tmp_path).returncode == 0
    (tmp_path / "docs/pictures/mesos.dot").unlink()
    found = again(tmp_path)
    assert (found.returncode, found.stdout) == (1, "mesos.svg has no source beside it\n")


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda path: path.name)
def test_a_picture_speaks_for_itself(drawing):
    """Title and description for who does not see it, nothing loaded from elsewhere, small, and a background of its own."""
    text = drawing.read_text(encoding="utf-8")
    top = xml.fromstring(text)
    assert top.get("role") == "img" and top.get("aria-labelledby") == "title description"
    assert [part.get("id") for part in top if part.text and part.tag in (SVG + "title", SVG + "desc")] == ["title", "description"]
    assert len(text.encode()) < 150_000
    assert not re.search(r"@import|url\((?!#)|href=|<script", text)
    # The terminal is dark everywhere.
    assert "prefers-color-scheme: dark" in text or drawing.name == "demo.svg"


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda path: path.name)
def test_a_page_shows_the_picture_and_says_what_it_shows(drawing):
    texts = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    found = re.findall(rf"!\[([^\]]*)\]\([\w./]*pictures/{drawing.name}\)", texts)
    assert found and all(len(alternative.split()) > 5 for alternative in found)


@pytest.mark.parametrize("drawing", [path for path in DRAWINGS if path.name != "demo.svg"], ids=lambda path: path.name)
def test_names_in_a_picture_are_there(drawing):
    """A role that was renamed is renamed in the pictures, too."""
    texts = " ".join(text.text or "" for text in xml.parse(drawing).iter(SVG + "text"))
    used = set(re.findall(r"[a-z]+(?:_[a-z]+)+", texts))
    assert used - names() - OTHERS == set()


def test_files_in_the_picture_of_orchestrators_are_there():
    found = set(re.findall(r"tosca/[\w/.]+", (FOLDER / "orchestrator.dot").read_text(encoding="utf-8")))
    assert found and all((ROOT / name).exists() for name in found)
