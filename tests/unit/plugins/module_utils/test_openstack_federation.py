# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Identity providers in a Keystone that is kept in memory: rights come, go at once, and nothing of another's making is touched."""

from __future__ import annotations

import types
import typing as t

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.module_utils._openstack import federation
from ansible_collections.deephdc.accelerators.plugins.module_utils._openstack.cloud import MARK, Cloud


class Keystone:
    """As far as identity providers need it; identifiers are names."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, t.Any]] = {kind: {} for kind in ("domain", "group", "identity_provider", "mapping", "protocol")}
        for kind, names in (("project", ("physics", "biology")), ("role", ("member", "reader"))):
            self.kept[kind] = {name: types.SimpleNamespace(id=name, name=name) for name in names}
        self.assigned: list[tuple[str, str, str]] = []  # project, group, role
        self.calls: list[str] = []

    def make(self, kind: str, **values: t.Any) -> t.Any:
        name = values.get("name") or values["id"]
        made = types.SimpleNamespace(**{"id": name, "name": name, **values})
        self.kept[kind][made.id] = made
        return made

    def __getattr__(self, called: str) -> t.Callable[..., t.Any]:
        verb, _line, kind = called.partition("_")

        def act(*given: t.Any, **values: t.Any) -> t.Any:
            self.calls.append(called)
            if verb == "create":
                return self.make(kind, **values)
            if verb == "delete":
                return self.kept[kind].pop(given[0].id)
            vars(given[0]).update(values)
            return given[0]

        if verb in ("create", "update", "delete"):
            return act
        if verb in ("find", "get"):
            return lambda name, **_values: self.kept[kind].get(name)
        return lambda **values: [
            one
            for one in self.kept[called.removesuffix("s")].values()
            if getattr(one, "domain_id", "") == values.get("domain_id", getattr(one, "domain_id", ""))
        ]

    def role_assignments(self, group_id: str) -> list[t.Any]:
        found = [(project, role) for project, group, role in self.assigned if group == group_id]
        return [types.SimpleNamespace(scope={"project": {"id": project}}, role={"id": role}) for project, role in found]

    def assign_project_role_to_group(self, project: str, group: str, role: str) -> None:
        self.calls.append("assign")
        self.assigned.append((project, group, role))

    def unassign_project_role_from_group(self, project: str, group: str, role: str) -> None:
        self.calls.append("unassign")
        self.assigned.remove((project, group, role))

    def federation_protocols(self, _provider: str) -> list[t.Any]:
        return list(self.kept["protocol"].values())

    def create_federation_protocol(self, _provider: str, **values: t.Any) -> t.Any:
        self.calls.append("create_protocol")
        return self.make("protocol", **values)


def wanted(**groups: dict[str, list[str]]) -> dict[str, t.Any]:
    rules = [{"local": [{"group": name}], "remote": []} for name in groups]
    return {"name": "iam", "issuer": "https://iam", "protocol": "openid", "rules": rules, "groups": groups}


def bring(keystone: Keystone, *providers: dict[str, t.Any], is_dry: bool = False) -> list[str]:
    """The changes, and which calls were made is in keystone."""
    keystone.calls.clear()
    cloud = Cloud(types.SimpleNamespace(identity=keystone), None, is_dry)
    federation.bring(cloud, providers)
    return cloud.changes


@pytest.fixture
def keystone() -> Keystone:
    """With one provider."""
    made = Keystone()
    bring(made, wanted(gpu={"physics": ["member"]}, bio={"biology": ["member", "reader"]}))
    return made


def test_a_provider_is_made_with_all_that_it_needs(keystone: Keystone) -> None:
    provider = keystone.kept["identity_provider"]["iam"]
    assert (provider.domain_id, provider.remote_ids, provider.is_enabled) == ("iam", ["https://iam"], True)
    assert sorted(keystone.assigned) == [("biology", "bio", "member"), ("biology", "bio", "reader"), ("physics", "gpu", "member")]
    assert {group.domain_id for group in keystone.kept["group"].values()} == {"iam"}
    assert keystone.kept["protocol"]["openid"].mapping_id == "deephdc_iam" and len(keystone.kept["mapping"]["deephdc_iam"].rules) == 2


def test_what_is_right_is_left_alone(keystone: Keystone) -> None:
    assert bring(keystone, wanted(gpu={"physics": ["member"]}, bio={"biology": ["member", "reader"]})) == []
    assert keystone.calls == []


def test_what_is_not_named_goes_before_anything_comes(keystone: Keystone) -> None:
    bring(keystone, wanted(bio={"biology": ["reader"], "physics": ["reader"]}))
    assert sorted(keystone.assigned) == [("biology", "bio", "reader"), ("physics", "bio", "reader")]
    # Keystone fails on tokens of a group that is gone.
    assert list(keystone.kept["group"]) == ["gpu", "bio"]
    assert keystone.calls[:3].count("unassign") == 2 and "unassign" not in keystone.calls[keystone.calls.index("assign") :]
    assert [rule["local"] for rule in keystone.kept["mapping"]["deephdc_iam"].rules] == [[{"group": "bio"}]]


def test_a_provider_that_goes_is_closed_and_can_come_back(keystone: Keystone) -> None:
    assert "The identity provider iam is closed." in bring(keystone)
    assert keystone.assigned == [] and not keystone.kept["identity_provider"]["iam"].is_enabled
    assert bring(keystone) == []
    bring(keystone, wanted(gpu={"physics": ["member"]}))
    assert keystone.assigned == [("physics", "gpu", "member")] and keystone.kept["identity_provider"]["iam"].is_enabled


def test_a_new_issuer_takes_the_place_of_the_former(keystone: Keystone) -> None:
    bring(keystone, {**wanted(gpu={"physics": ["member"]}), "issuer": "https://new"})
    assert keystone.kept["identity_provider"]["iam"].remote_ids == ["https://new"]


def test_check_mode_says_the_same_and_changes_nothing() -> None:
    keystone = Keystone()
    asked = wanted(gpu={"physics": ["member"]})
    predicted = bring(keystone, asked, is_dry=True)
    assert keystone.calls == []
    assert predicted == bring(keystone, asked)


def test_providers_and_domains_of_others_are_left_alone_and_their_names_refused() -> None:
    keystone = Keystone()
    keystone.make("identity_provider", id="theirs", description="", domain_id="theirs", is_enabled=True, remote_ids=["https://theirs"])
    keystone.make("domain", name="iam", description="", is_enabled=True)
    assert bring(keystone) == []
    with pytest.raises(Refused, match="has a domain iam that this collection did not make"):
        bring(keystone, wanted(gpu={"physics": ["member"]}))
    with pytest.raises(Refused, match="has an identity provider theirs that this collection did not make"):
        bring(keystone, {**wanted(gpu={"physics": ["member"]}), "name": "theirs"})
    keystone.kept["domain"]["iam"].description = MARK
    with pytest.raises(Refused, match="Keystone has no project chemistry"):
        bring(keystone, wanted(gpu={"chemistry": ["member"]}))
