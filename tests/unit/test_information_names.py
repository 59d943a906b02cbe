# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the information playbooks publish, held against the names that GLUE2 and INDIGO's CMDB know.

The clusters are those of the programs' own tests.
"""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import sys
import typing as t

import pytest
import yaml

TESTS = pathlib.Path(__file__).resolve().parents[1]
KNOWN = yaml.safe_load((TESTS / "data/information.yml").read_text(encoding="utf-8"))
# What names alone would not show: scripts/narrow.py.
READS = (
    "tests/unit/roles",
    "roles/slurm_status/files",
    "roles/slurm_glue2/files",
    "roles/kubernetes_information/files",
    "roles/mesos_information/files",
    "roles/openstack_information/files",
)
FILES = ("slurm_status", "slurm_glue2", "kubernetes_information", "mesos_information", "openstack_information")
KINDS = {"text": str, "number": (int, float), "list": list, "other": object}
Published = tuple[dict[str, list[dict[str, t.Any]]], list[dict[str, t.Any]]]


def cluster_of(name: str) -> t.Any:
    """The module with the cluster of a program's own tests."""
    path = TESTS / f"unit/roles/test_{name}.py"
    spec = importlib.util.spec_from_file_location(f"of_{name}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch):
    for role in FILES:
        monkeypatch.syspath_prepend(str(TESTS.parent / "roles" / role / "files"))
    yield importlib.import_module
    for name in FILES:
        sys.modules.pop(name, None)


def slurm(program: t.Any) -> Published:
    given, reader = cluster_of("slurm_publishing"), program("slurm_status")
    seen = {"time": 1_000_000, "up": True, "error": "", "cluster": "site", "version": "24.11.5", "scheduler": {}}
    seen.update(nodes=reader.nodes(given.NODES), partitions=reader.partitions(given.PARTITIONS), jobs=reader.jobs(given.JOBS))
    return program("slurm_glue2").document(seen, "urn:slurm:site", "example.org"), []


def kubernetes(program: t.Any) -> Published:
    given, made = cluster_of("kubernetes_information"), program("kubernetes_information")
    seen = {"time": 1_000_000, "up": True, "error": "", "cluster": "site", "version": "v1.37.2", **made.status_of(given.NODES, given.PODS)}
    return made.glue2(seen, "urn:kubernetes:site", "example.org"), made.cmdb(seen, "urn:kubernetes:site", "example.org")


def mesos(program: t.Any) -> Published:
    given, made = cluster_of("mesos_information"), program("mesos_information")
    seen = {"time": 1_000_000, "up": True, "error": "", "cluster": "site", **made.status_of(given.STATE)}
    return made.glue2(seen, "urn:mesos:site", "example.org"), made.cmdb(seen, "urn:mesos:site", "example.org")


def openstack(program: t.Any) -> Published:
    given, made = cluster_of("openstack_information"), program("openstack_information")
    seen = made.status("site", lambda _name: made.Cloud(given.Sdk()))
    return made.glue2(seen, "urn:openstack:site", "example.org"), made.cmdb(seen, "urn:openstack:site", "example.org")


def wrong_types(record: dict[str, t.Any], known: dict[str, list[str]]) -> list[str]:
    return [name for kind, type_ in KINDS.items() for name in known.get(kind, []) if name in record and not isinstance(record[name], type_)]


@pytest.mark.parametrize("publish", [slurm, kubernetes, mesos, openstack], ids=lambda publish: publish.__name__)
def test_names_and_types_are_known(program, publish: t.Callable[[t.Any], Published]) -> None:
    entities, records = publish(program)
    found: dict[str, dict[str, list[str]]] = {}

    def compare(what: str, record: dict[str, t.Any], known: dict[str, list[str]], may_add: bool) -> None:
        assert wrong_types(record, known) == [], what
        names = {name for kind in KINDS for name in known.get(kind, [])}
        adds = set() if may_add else set(record) - names - {"Associations"}
        for key, listed in (("adds", adds), ("lacks", set(known["required"]) - set(record))):
            if listed:
                here = found.setdefault(what, {})
                here[key] = sorted({*here.get(key, []), *listed})

    for entity, members in entities.items():
        for member in members:
            compare(entity, member, KNOWN["glue2"][entity], may_add=False)
    # The CMDB takes records of other types, and further attributes.
    for record in records:
        if record["type"] in KNOWN["cmdb"]:
            compare(record["type"], record["data"], KNOWN["cmdb"][record["type"]], may_add=True)
    assert found == KNOWN["differs"][publish.__name__]
