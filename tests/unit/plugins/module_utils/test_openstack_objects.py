# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What is done in a cloud to bring its objects to what is wanted, with an SDK that keeps them in memory."""

from __future__ import annotations

import hashlib
import itertools
import types
import typing as t
from pathlib import Path

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.module_utils._openstack import identity, limits, networks, servers
from ansible_collections.deephdc.accelerators.plugins.module_utils._openstack.cloud import MARK, Cloud

numbers = itertools.count(1)


def thing(**values: t.Any) -> types.SimpleNamespace:
    return types.SimpleNamespace(**{"id": f"id{next(numbers)}", **values})


class Api:
    """Keeps what is made, and each call that changes something."""

    def __init__(self, **kept: list[t.Any]) -> None:
        self.kept = kept
        self.calls: list[tuple[t.Any, ...]] = []

    def __getattr__(self, name: str) -> t.Callable[..., t.Any]:
        if name in self.kept:
            return lambda *args, **keys: list(self.kept[name])
        if name.startswith("find_"):
            kind = name.removeprefix("find_")
            return lambda wanted, **keys: next((one for one in self.kept.get(f"{kind}s", []) if one.name == wanted), None)

        def call(*args: t.Any, **keys: t.Any) -> t.Any:
            self.calls.append((name, *args, *sorted(keys.items())))
            return thing(**{"name": "", "status_code": 204, **keys})

        return call

    def named(self) -> list[str]:
        return [call[0] for call in self.calls]


ADMIN, MEMBER = thing(name="admin"), thing(name="member")
ADA, EVE = thing(name="ada", domain_id="default"), thing(name="eve", domain_id="default")


def project(name: str, **more: t.Any) -> t.Any:
    return thing(**{"name": name, "description": "", "is_enabled": True, "tags": [MARK], **more})


def cloud_with(is_dry: bool = False, **kept: list[t.Any]) -> tuple[Cloud, Api]:
    api = Api(**{"roles": [ADMIN, MEMBER], "users": [ADA, EVE], "services": [thing(name="nova", type="compute")], **kept})
    sdk = types.SimpleNamespace(identity=api, compute=api, network=api, image=api, current_project_id="administrators")
    return Cloud(sdk, types.SimpleNamespace(identity=api), is_dry), api


def assignment(user: t.Any, role: t.Any) -> t.Any:
    return thing(user={"id": user.id}, group=None, role={"id": role.id})


def test_who_is_not_written_loses_the_role_and_who_is_gets_it() -> None:
    physics = project("physics")
    cloud, api = cloud_with(projects=[physics], role_assignments=[assignment(EVE, MEMBER)])
    identity.grants(cloud, {"physics": {"ada": ["member"]}})
    assert api.calls == [
        ("assign_project_role_to_user", physics.id, ADA.id, MEMBER.id),
        ("unassign_project_role_from_user", physics.id, EVE.id, MEMBER.id),
    ]


def test_what_is_right_is_left_alone() -> None:
    cloud, api = cloud_with(projects=[project("physics")], role_assignments=[assignment(ADA, MEMBER)])
    identity.grants(cloud, {"physics": {"ada": ["member"]}})
    identity.projects(cloud, [{"name": "physics"}], True)
    assert api.calls == [] and cloud.changes == []


def test_an_unknown_account_is_refused_by_name() -> None:
    cloud, _api = cloud_with(projects=[project("physics")], role_assignments=[])
    with pytest.raises(Refused, match="Keystone has no user zoe"):
        identity.grants(cloud, {"physics": {"zoe": ["member"]}})


def test_a_project_that_is_no_longer_wanted_is_only_reported() -> None:
    cloud, api = cloud_with(projects=[project("old"), project("others", tags=[])])
    identity.projects(cloud, [], True)
    assert cloud.left == ["The project old is no longer wanted."] and api.calls == []


def test_check_mode_changes_nothing_and_says_the_same() -> None:
    cloud, api = cloud_with(is_dry=True, projects=[])
    identity.projects(cloud, [{"name": "new"}], True)
    identity.grants(cloud, {"new": {"ada": ["member"]}})
    assert cloud.changes == ["The project new is new."] and api.calls == []


def test_a_password_is_set_only_where_it_is_refused() -> None:
    cloud, api = cloud_with()
    identity.users(cloud, [{"name": "ada", "password": "right"}, {"name": "eve", "password": "new"}], lambda name, _password: name == "ada")
    assert api.calls == [("patch", f"/users/{EVE.id}", ("json", {"user": {"enabled": True}})), ("update_user", EVE, ("password", "new"))]
    assert cloud.changes == ["The account eve gets its password."]


def test_a_locked_account_is_opened_and_gets_no_password() -> None:
    """A password would end the tokens of a user whom others locked out by guesses."""
    cloud, api = cloud_with()
    identity.users(cloud, [{"name": "ada", "password": "right"}], lambda _name, _password: bool(api.calls))
    assert api.calls == [("patch", f"/users/{ADA.id}", ("json", {"user": {"enabled": True}}))]
    assert cloud.changes == ["The account ada was locked by wrong passwords, or disabled, and is open again."]


def test_check_mode_opens_no_account() -> None:
    cloud, api = cloud_with(is_dry=True)
    identity.users(cloud, [{"name": "ada", "password": "right"}], lambda _name, _password: False)
    assert api.calls == []
    assert cloud.changes == ["The account ada refuses its password: it is opened again, or gets the password."]


def test_accounts_of_services_are_not_locked() -> None:
    listed = [
        {"id": "1", "name": "nova", "options": {}},
        {"id": "2", "name": "glance", "options": {identity.NEVER_LOCKED: True}},
        {"id": "3", "name": "ada", "options": {}},
    ]
    cloud, api = cloud_with()
    api.get = lambda path, params: types.SimpleNamespace(json=lambda: {"users": listed})  # type: ignore[attr-defined]  # an API has it
    identity.never_locked(cloud, ["nova", "glance"])
    assert api.calls == [("patch", "/users/1", ("json", {"user": {"options": {identity.NEVER_LOCKED: True}}}))]
    identity.never_locked(cloud, [])
    assert len(api.calls) == 1


def test_an_account_gets_its_role_in_the_system_once() -> None:
    cloud, api = cloud_with()
    path = f"/system/users/{ADA.id}/roles/{MEMBER.id}"
    for status in (404, 204):
        api.get = lambda asked, status=status: types.SimpleNamespace(status_code=status)  # type: ignore[attr-defined]  # an API has it
        identity.system_grants(cloud, {"ada": "member"})
    assert api.calls == [("put", path)]


@pytest.mark.parametrize(("method", "ask"), [("patch", identity.never_locked), ("put", identity.system_grants)])
def test_what_keystone_refuses_is_no_change(method: str, ask: t.Callable[..., None]) -> None:
    """The SDK raises no error where it has no method of its own."""
    cloud, api = cloud_with()
    listed = {"users": [{"id": "1", "name": "ada", "options": {}}]}
    api.get = lambda path, **keys: types.SimpleNamespace(status_code=404, json=lambda: listed)  # type: ignore[attr-defined]  # an API has it
    setattr(api, method, lambda path, **keys: types.SimpleNamespace(status_code=403, text="You are not\nauthorized"))
    with pytest.raises(Refused, match="Keystone answers with the error 403: You are not authorized"):
        ask(cloud, {"ada": "member"})


def test_limits_of_a_project_that_are_not_written_go() -> None:
    service = thing(name="nova")
    old = thing(resource_name="class:VCPU", resource_limit=5, region_id="R")
    cloud, api = cloud_with(services=[service], projects=[project("physics")], limits=[old])
    limits.of_projects(cloud, "nova", "R", {"physics": {"servers": 3}})
    assert api.named() == ["create_limit", "delete_limit"]


def test_a_general_limit_is_changed_in_its_region_alone() -> None:
    here, there = (thing(resource_name="servers", default_limit=5, region_id=region) for region in ("R", "S"))
    cloud, api = cloud_with(registered_limits=[here, there])
    limits.registered(cloud, "nova", "R", {"servers": 7})
    assert api.calls == [("update_registered_limit", here, ("default_limit", 7))]


def flavor(**more: t.Any) -> dict[str, t.Any]:
    return {"name": "a100", "vcpus": 1, "ram": 64, "disk": 1, "extra_specs": {"resources:CUSTOM_GPU_A100": 1}, "projects": [], **more}


def test_a_flavor_of_another_size_is_refused() -> None:
    there = thing(name="a100", vcpus=2, ram=64, disk=1, is_public=True)
    cloud, _api = cloud_with(flavors=[there])
    with pytest.raises(Refused, match="The flavor a100 is there with 2 cores"):
        servers.flavors(cloud, [flavor()], False)


def test_an_image_is_what_its_digest_says(tmp_path: Path) -> None:
    file = tmp_path / "image"
    file.write_bytes(b"content")
    digest = hashlib.sha256(b"content").hexdigest()
    cloud, api = cloud_with(images=[])
    with pytest.raises(Refused, match="has another sha256"):
        servers.images(cloud, [{"name": "i", "path": str(file), "sha256": "0" * 64}])
    servers.images(cloud, [{"name": "i", "path": str(file), "sha256": digest}])
    assert api.named() == ["create_image"]
    former = thing(name="i", status="active", owner="administrators", properties={servers.SHA256: "1" * 64})
    cloud, api = cloud_with(images=[former])
    servers.images(cloud, [{"name": "i", "path": str(file), "sha256": digest}])
    assert api.named() == ["create_image", "delete_image"]
    cloud, api = cloud_with(images=[thing(name="i", status="active", owner="administrators", properties={servers.SHA256: digest})])
    servers.images(cloud, [{"name": "i", "path": "/gone", "sha256": digest}])
    assert api.calls == []


@pytest.mark.parametrize(
    ("owner", "more"), [("physics", {"image_type": "snapshot"}), ("physics", {}), ("administrators", {"image_type": "snapshot"})]
)
def test_a_snapshot_with_the_name_of_an_image_is_neither_the_image_nor_a_former_one(
    tmp_path: Path, owner: str, more: dict[str, str]
) -> None:
    """Nova gives a snapshot the properties of its server's image."""
    file = tmp_path / "image"
    file.write_bytes(b"content")
    digest = hashlib.sha256(b"content").hexdigest()
    for has in (digest, "1" * 64):
        cloud, api = cloud_with(images=[thing(name="i", status="active", owner=owner, properties={servers.SHA256: has, **more})])
        servers.images(cloud, [{"name": "i", "path": str(file), "sha256": digest}])
        assert api.named() == ["create_image"]


def test_a_network_with_other_addresses_is_refused() -> None:
    cloud, _api = cloud_with(networks=[thing(name="n")], subnets=[thing(cidr="10.0.0.0/24")])
    with pytest.raises(Refused, match=r"has the addresses 10\.0\.0\.0/24, not 10\.1\.0\.0/24"):
        networks.networks(cloud, [{"name": "n", "cidr": "10.1.0.0/24"}])
