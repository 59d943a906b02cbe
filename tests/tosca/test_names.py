# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Who has a template of INDIGO's finds its names here: properties, capabilities, requirements, inputs and outputs."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from templates import ROOT, TEMPLATES

PUBLISHED = yaml.safe_load((ROOT / "tests/tosca/published.yml").read_text(encoding="utf-8"))
TYPES = yaml.safe_load((ROOT / "tosca/types/deephdc.yaml").read_text(encoding="utf-8"))


def of(kind: str, name: str, key: str) -> set[str]:
    """Names that a type of ours has, or inherits from one of ours."""
    found: set[str] = set()
    while name in TYPES[kind]:
        listed: Any = TYPES[kind][name].get(key) or {}
        found |= {one for item in listed for one in item} if isinstance(listed, list) else set(listed)
        name = TYPES[kind][name]["derived_from"]
    return found


@pytest.mark.parametrize("name", PUBLISHED["types"])
def test_a_node_type_has_all_published_names(name: str) -> None:
    for key, names in PUBLISHED["types"][name].items():
        # os, host and the like of Compute come from TOSCA's own type, too.
        assert set(names) - of("node_types", name, key) <= ({"host"} if name.endswith(".Kubernetes") else set()), key


@pytest.mark.parametrize("name", PUBLISHED["capabilities"])
def test_a_capability_has_all_published_properties(name: str) -> None:
    assert set(PUBLISHED["capabilities"][name]) - of("capability_types", name, "properties") == set()


@pytest.mark.parametrize("name", PUBLISHED["templates"])
def test_a_template_has_all_published_inputs_and_outputs(name: str) -> None:
    (path,) = (path for path in TEMPLATES if path.stem == name)
    ours = yaml.safe_load(path.read_text(encoding="utf-8"))["topology_template"]
    for key, names in PUBLISHED["templates"][name].items():
        assert set(names) - set(ours[key]) == set(), key


def test_a_type_that_is_not_published_has_a_name_of_ours() -> None:
    ours = {name for name in TYPES["node_types"] if name not in PUBLISHED["types"]}
    assert ours and all(name.startswith("tosca.nodes.deephdc.") for name in ours)
