"""Whether what scenarios name is there, as Molecule itself reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from molecule.config import Config
from moves import MOVED, RELATIVE
from reach import listed

ROOT = Path(__file__).resolve().parents[2]
COMMON = ROOT / ".config/molecule/config.yml"
SCENARIOS = sorted(file.parent.name for file in ROOT.glob("molecule/*/molecule.yml"))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Returns a scenario as Molecule reads it, with the variables of scripts/scenario."""

    def read(name: str) -> Config:
        for variable in ("LOCAL_INVENTORY", "LOCAL_LABEL", "LOCAL_RELEASE", "LOCAL_SECRETS", "LOCAL_STATE", "MOLECULE_EPHEMERAL_DIRECTORY"):
            monkeypatch.setenv(variable, str(tmp_path))
        file = ROOT / "molecule" / name / "molecule.yml"
        monkeypatch.setenv("MOLECULE_SCENARIO_DIRECTORY", str(file.parent))
        return Config(molecule_file=str(file), args={"base_config": [str(COMMON)]}, command_args={"subcommand": "test"})

    return read


def test_the_settings_that_all_share_are_where_molecule_looks():
    from molecule.shell import LOCAL_CONFIG_SEARCH

    assert ROOT / LOCAL_CONFIG_SEARCH == COMMON and COMMON.is_file()
    assert not (ROOT / "extensions").exists(), "Molecule reads one folder of scenarios"


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_a_scenario_runs_is_there(name: str, read):
    scenario = read(name)
    assert scenario.config_data["prerun"] is False, "the common settings were read"
    actions = {one for one in scenario.scenario.test_sequence if one not in ("check", "idempotence", "verify")} | {"converge"}
    missing = [one for one in sorted(actions) if not Path(str(getattr(scenario.provisioner.playbooks, one))).is_file()]
    assert missing == []
    assert Path(scenario.verifier.directory).is_dir()
    inventories = [
        word.partition("=")[2] for word in scenario.config_data["ansible"]["executor"]["args"]["ansible_playbook"] if "inventory" in word
    ]
    assert len(inventories) >= 2 and all(Path(one).exists() for one in inventories if not one.endswith("/hosts.yml") or "molecule/" in one)


def test_the_scenario_without_a_name_is_slurm(read):
    default, slurm = read("default"), read("slurm")
    assert default.provisioner.playbooks.prepare == slurm.provisioner.playbooks.prepare
    assert default.scenario.test_sequence == slurm.scenario.test_sequence
    assert Path(default.verifier.directory).resolve() == Path(slurm.verifier.directory).resolve() == ROOT / "tests/verify/slurm"


@pytest.mark.parametrize("name", [name for name in listed(ROOT) if name.startswith("molecule/") and name.endswith(".yml")])
def test_relative_paths_lead_to_files(name: str):
    """The plan takes a path that moved for the same, so it is looked at here."""
    file = ROOT / name
    base = file.parent.parent if file.parent.name == "inventory" else file.parent  # of playbooks, as most paths are
    found = [word for word in RELATIVE.findall(file.read_text(encoding="utf-8")) if "/.cache" not in word]
    missing = [word for word in found if not any((folder / word).exists() for folder in (file.parent, base))]
    assert missing == []


def test_no_file_names_an_old_place():
    """The plan takes the old name and the new one for the same. Documents may quote Molecule."""
    own = ("scripts/moves.py", "tests/runner/test_due.py", "tests/passed.json")
    names = [name for name in listed(ROOT) if name not in own and not name.startswith(("changelogs/", "docs/"))]
    texts = {name: (ROOT / name).read_text(encoding="utf-8", errors="replace") for name in names}
    assert [name for name, text in texts.items() if any(old in text for old in MOVED)] == []
    # How deep a scenario lies is not for tests to count.
    assert [name for name, text in texts.items() if name.startswith("tests/verify/") and "inventory.parents" in text] == []
