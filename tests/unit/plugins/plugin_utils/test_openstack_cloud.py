# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The plan of a cloud, what is refused before a host is contacted, and the configuration of its services."""

from __future__ import annotations

import base64
import copy
import sys
import types
import typing as t

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._contract import Site
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import (
    agents,
    control_conf,
    front,
    hosts,
    ini,
    manager,
    messaging,
    objects,
)
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import plan as openstack_plan

PEM = {"openstack_control_plane_certificate": "-----BEGIN CERTIFICATE-----", "openstack_control_plane_key": "-----BEGIN PRIVATE KEY-----"}
GROUPS = {"openstack_controllers": ["ctl"], "openstack_lxd_hosts": ["gpu1"]}
FACTS = {"distribution": "Debian", "distribution_major_version": "12", "default_ipv4": {"address": "192.0.2.1"}}
SECRETS = {
    **{f"database_{name}": f"d-{name}" for name in hosts.BY_NAME},
    **{f"account_{name}": f"a-{name}" for name in (*hosts.BY_NAME, "admin")},
    **{f"messaging_{name}": f"m-{name}" for name in ("nova", "neutron")},
    "cache": "c",
}


def gpu(number: int, **more: t.Any) -> dict[str, t.Any]:
    address = f"0000:0{number}:00.0"
    found = {"kind": "gpu", "vendor": "nvidia", "type": "a100", "driver": "nvidia", "pci_address": address}
    return {**found, "device_files": [f"/dev/nvidia{number - 1}"], **more}


def hostvars(*gpus: dict[str, t.Any]) -> dict[str, t.Any]:
    return {
        "ctl": {**PEM, "ansible_facts": FACTS},
        "gpu1": {"ansible_facts": {**FACTS, "nodename": "gpu1.site", "accelerators": list(gpus)}},
    }


def site(variables: dict[str, t.Any] | None = None, groups: dict[str, list[str]] | None = None, **settings: t.Any) -> Site:
    return Site(variables or hostvars(gpu(1), gpu(2)), groups or GROUPS, [], settings)


@pytest.fixture
def plan() -> dict[str, t.Any]:
    return manager.plan(site())


def test_all_parts_are_on_the_controller_unless_a_group_says_otherwise() -> None:
    assert set(manager.plan(site())["hosts"].values()) == {"ctl"}
    variables = {**hostvars(gpu(1)), "db": {**PEM, "openstack_control_plane_name": "db.site.org", "ansible_facts": FACTS}}
    planned = manager.plan(site(variables, {**GROUPS, "openstack_databases": ["db"]}))
    assert planned["hosts"]["database"] == "db" and planned["hosts"]["messaging"] == "ctl"
    assert planned["names"]["database"] == "db.site.org" and planned["parts"]["db"] == ["database"]


def test_a_compute_host_offers_its_gpus_by_class() -> None:
    planned = manager.plan(site())
    assert planned["errors"] == [] and planned["offers"] == {"gpu1": {"CUSTOM_GPU_A100": 2}}
    assert planned["expected"] == [{"host": "gpu1", "name": "gpu1.site", "classes": {"CUSTOM_GPU_A100": 2}}]


def test_a_lost_gpu_stays_offered_until_it_is_accepted() -> None:
    recorded = manager.plan(site())["record"]
    now = site(hostvars(gpu(1)))
    planned = manager.plan(now, recorded)
    assert len(planned["lost"]) == 1 and "0000:02:00.0" in planned["lost"][0] and planned["offers"] == {"gpu1": {"CUSTOM_GPU_A100": 2}}
    accepted = manager.plan(now._replace(settings={"accept_hardware": ["gpu1"]}), recorded)
    assert accepted["lost"] == [] and accepted["offers"] == {"gpu1": {"CUSTOM_GPU_A100": 1}}


def test_an_allotment_gives_only_its_own_devices() -> None:
    variables = hostvars(gpu(1), gpu(2))
    variables["gpu1"]["accelerator_allotment"] = {"openstack": {"devices": ["0000:02:00.0"]}, "slurm": {"devices": ["0000:01:00.0"]}}
    assert manager.plan(site(variables))["offers"] == {"gpu1": {"CUSTOM_GPU_A100": 1}}


def test_a_compute_host_that_the_inventory_lacks_is_refused_and_its_record_kept() -> None:
    recorded = manager.plan(site())["record"]
    variables = {"ctl": hostvars()["ctl"], "gpu2": hostvars(gpu(1))["gpu1"]}
    variables["gpu2"]["ansible_facts"].update(hostname="gpu2", nodename="gpu2.site", fqdn="gpu2.site")
    planned = manager.plan(site(variables, {**GROUPS, "openstack_lxd_hosts": ["gpu2"]}), recorded)
    (said,) = planned["errors"]
    assert said.startswith("gpu1 is a compute host of the cloud, but it is not in openstack_lxd_hosts") and planned["record"] == ""
    assert "openstack_remove_compute" in said


def test_devices_that_leave_are_those_that_another_manager_gets() -> None:
    recorded = manager.plan(site())["record"]
    assert manager.plan(site(), recorded)["leaving"] == []
    variables = hostvars(gpu(1), gpu(2))
    variables["gpu1"]["accelerator_allotment"] = {"openstack": {"devices": ["0000:02:00.0"]}, "slurm": {"devices": ["0000:01:00.0"]}}
    leaving = [{"host": "gpu1", "name": "gpu1.site", "devices": ["0000:01:00.0"]}]
    assert manager.plan(site(variables), recorded)["leaving"] == leaving
    variables["gpu1"]["ansible_facts"]["accelerators"] = [gpu(2)]
    assert manager.plan(site(variables), recorded)["leaving"] == leaving, "it can't be read now, and a server may have it"
    lost = hostvars(gpu(1))
    assert manager.plan(site(lost), recorded)["leaving"] == [], "a lost device does not leave"


def test_the_name_in_nova_says_which_host_it_is() -> None:
    recorded = {"nodes": {"gpu1": ["first"], "gpu2": ["second"]}, "names": {"gpu1": "one.site", "gpu2": "two.site"}}
    cases: list[tuple[dict[str, str], dict[str, list[str]], list[str]]] = [
        ({"gpu1": "one.site", "gpu2": "two.site"}, {"gpu1": ["first"], "gpu2": ["second"]}, []),
        ({"gpu1": "two.site", "gpu2": "one.site"}, {"gpu1": ["second"], "gpu2": ["first"]}, []),
        ({"lxd1": "one.site", "gpu2": "two.site"}, {"lxd1": ["first"], "gpu2": ["second"]}, []),
        ({"gpu1": "new.site", "lxd1": "one.site", "gpu2": "two.site"}, {"lxd1": ["first"], "gpu2": ["second"]}, []),
        ({"gpu1": "other.site", "gpu2": "two.site"}, {"gpu1": ["first"], "gpu2": ["second"]}, []),
        ({"gpu1": "two.site"}, {"gpu1": ["second"]}, ["gpu1"]),
        ({"gpu1": "one.site"}, {"gpu1": ["first"]}, ["gpu2"]),
    ]
    for compute, there, gone in cases:
        found, errors = openstack_plan.present(recorded, compute)
        assert (found, [one.host for one in errors]) == (there, gone), compute
    assert openstack_plan.present({"nodes": {"gpu1": []}}, {"gpu1": "one.site"}) == ({"gpu1": []}, [])


def test_instances_of_mig_leave_one_by_one() -> None:
    def device(*names: str) -> dict[str, t.Any]:
        return {"pci_address": "0000:01:00.0", "mig": {"devices": [{"uuid": name} for name in names]}}

    assert openstack_plan.leaving([device("MIG-1", "MIG-2")], [device("MIG-1")]) == ["MIG-2"]
    assert openstack_plan.leaving([device("MIG-1", "MIG-2")], []) == ["MIG-1", "MIG-2"]


def without(name: str) -> dict[str, t.Any]:
    variables = hostvars(gpu(1))
    del variables["ctl"][name]
    return variables


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (site(groups={"openstack_lxd_hosts": ["gpu1"]}), "The group openstack_controllers has no host"),
        (site(groups={**GROUPS, "openstack_controllers": ["ctl", "gpu1"]}), "has the hosts ctl, gpu1: leave one"),
        (site(without("openstack_control_plane_key")), "openstack_control_plane_key of ctl is missing"),
        (site(without("openstack_control_plane_certificate")), "openstack_control_plane_certificate of ctl is missing"),
        (site(region="a b"), "openstack_cloud_region is 'a b'"),
        (site(ca="/etc/ca.pem"), "openstack_cloud_ca is no certificate in PEM"),
        (site(mtu=100), "openstack_cloud_mtu is 100"),
        (site(settings={"keystnoe": {}}), "did you mean keystone?"),
        (site(settings={"nova": {"DEFAULT": 1}}), "openstack_cloud_settings: nova has no sections"),
        (site(accept_hardware="gpu9"), "openstack_cloud_accept_hardware names gpu9"),
        (site(projects=[{"name": "service"}]), "service belongs to the cloud itself"),
        (site(projects=[{"name": "Admin"}]), "Admin belongs to the cloud itself"),
        (site(users=[{"name": "nova", "password": "x"}]), "nova is an account of the cloud itself"),
        (site(users=[{"name": "Admin", "password": "x"}]), "Admin is an account of the cloud itself"),
        (site(projects=[{"name": "a"}, {"name": "a"}]), "openstack_cloud_projects: a is there more than once"),
        (site(projects=[{"name": "a", "limits": {"gpu": 1}}]), "did you mean gpus?"),
        (site(projects=[{"name": "a", "limits": {"gpus": {"a100": -1}}}]), "gpus: a100 is -1: write 0 or more"),
        (site(projects=[{"name": "a", "users": ["ada"]}]), "write the roles by name of the account"),
        (site(flavors=[{"name": "x", "cores": 1, "memory_mib": 64}]), "openstack_cloud_flavors: x lacks disk_gib"),
        (site(flavors=[{"name": "x", "cores": 0, "memory_mib": 64, "disk_gib": 0}]), "has 0 as cores: write 1 or more"),
        (site(images=[{"name": "i", "path": "/i", "sha256": "12"}]), "write 64 hexadecimal digits"),
        (site(images=[{"name": "i", "sha256": "0" * 64}]), "must have either path or url"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(given: Site, sentence: str) -> None:
    assert [found for found in map(str, manager.check(given)) if sentence in found]
    assert manager.plan(given)["errors"]


def test_servers_are_in_a_physical_network_only_where_their_host_is() -> None:
    inside = {"networks": [{"name": "lab", "cidr": "192.0.2.0/24", "physical_network": "lab"}], "physical_networks": {"lab": "eth1"}}
    (said,) = manager.check(site(**inside))
    assert str(said) == (
        "openstack_cloud_networks: servers are in the physical network 'lab' by 'lab', and gpu1 is not: "
        "name its interface in nova_lxd_physical_networks, or make the network external."
    )
    there = {**hostvars(gpu(1)), "gpu1": {**hostvars(gpu(1))["gpu1"], "nova_lxd_physical_networks": {"lab": "eth1"}}}
    assert manager.check(site(there, **inside)) == []
    outside = {"networks": [{**inside["networks"][0], "external": True}], "physical_networks": {"lab": "eth1"}}
    assert manager.check(site(**outside)) == []


def test_a_host_without_facts_or_of_another_release_is_refused() -> None:
    variables = hostvars(gpu(1))
    variables["ctl"]["ansible_facts"] = {}
    assert "The facts of ctl lack distribution, default_ipv4" in manager.plan(site(variables))["errors"][0]
    variables["ctl"]["ansible_facts"] = {**FACTS, "distribution_major_version": "13"}
    assert "ctl has Debian 13, on which no test made a control plane: use Debian 12." in manager.plan(site(variables))["errors"]


def test_two_compute_hosts_with_one_name_are_refused() -> None:
    variables = hostvars(gpu(1))
    variables["gpu2"] = copy.deepcopy(variables["gpu1"])
    errors = manager.plan(site(variables, {**GROUPS, "openstack_lxd_hosts": ["gpu1", "gpu2"]}))["errors"]
    assert errors == ["gpu1 and gpu2 both have the host name gpu1.site: give each a name of its own."]


def sections(files: list[dict[str, t.Any]], path: str) -> str:
    return base64.b64decode(next(one for one in files if one["path"] == path)["secret_base64"]).decode()


def test_a_service_has_its_own_secrets_and_no_others(plan: dict[str, t.Any]) -> None:
    for name in hosts.BY_NAME:
        files = control_conf.files(plan, SECRETS, name, "e1")
        text = "".join(base64.b64decode(one["secret_base64"]).decode() for one in files if "secret_base64" in one)
        other = [secret for key, secret in SECRETS.items() if not key.endswith(f"_{name}") and key != "cache" and f"{secret}\n" in text]
        assert other == [], name
        assert not [one["path"] for one in files if any(secret in one.get("content", "") for secret in SECRETS.values() if len(secret) > 1)]


def test_a_missing_secret_is_named(plan: dict[str, t.Any]) -> None:
    with pytest.raises(ValueError, match="The cloud has no secret messaging_nova"):
        control_conf.files(plan, {key: value for key, value in SECRETS.items() if key != "messaging_nova"}, "nova")


def test_keystone_forgets_the_request_before(plan: dict[str, t.Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its context, which has what it read, is replaced before Keystone looks at a request."""
    (program,) = (one["content"] for one in control_conf.files(plan, SECRETS, "keystone") if one["path"] == control_conf.KEYSTONE_WSGI)
    assert control_conf.KEYSTONE_WSGI in control_conf.paths("keystone", "keystone")
    seen: list[t.Any] = []
    server, context = types.ModuleType("keystone.server.wsgi"), types.ModuleType("oslo_context.context")
    # Both modules are made here, so the types know nothing of what is in them.
    server.initialize_public_application = lambda: lambda environ, start: seen.append(environ) or [b"answer"]  # type: ignore[attr-defined] # as above

    def replaced(overwrite: bool) -> None:
        seen.append(overwrite)

    context.RequestContext = replaced  # type: ignore[attr-defined] # as above
    for name, module in {"keystone": server, "keystone.server": server, server.__name__: server, context.__name__: context}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "oslo_context", context)
    names: dict[str, t.Any] = {}
    exec(program, names)
    for number in (1, 2):
        assert names["application"]({"number": number}, None) == [b"answer"]
    assert seen == [True, {"number": 1}, True, {"number": 2}]


def test_nova_asks_keystone_for_limits(plan: dict[str, t.Any]) -> None:
    text = sections(control_conf.files(plan, SECRETS, "nova", "e1"), "/etc/nova/nova.conf")
    assert "driver = nova.quota.UnifiedLimitsDriver" in text and "endpoint_id = e1" in text


def test_a_sites_settings_win(plan: dict[str, t.Any]) -> None:
    planned = {**plan, "settings": {"nova": {"scheduler": {"workers": 7}, "new": {"key": "value"}}}}
    text = sections(control_conf.files(planned, SECRETS, "nova"), "/etc/nova/nova.conf")
    assert "[scheduler]\nworkers = 7\n" in text and "[new]\nkey = value" in text


def test_apache_serves_only_what_the_host_has(plan: dict[str, t.Any]) -> None:
    text = front.configuration({**plan, "hosts": {**plan["hosts"], "glance": "other"}}, "ctl")
    assert "Listen 5000" in text and "Listen 9292" not in text
    for spelling in ("X-Forwarded-Host", "X_Forwarded_Host", "X-Forwarded_Host"):
        assert text.count(f"RequestHeader unset {spelling} early") == text.count("<VirtualHost ")
    # Keystone alone would read it.
    assert text.count("RequestHeader unset X_Token_Subject early") == text.count("<VirtualHost *:5000>") == 1


def test_lines_of_a_configuration() -> None:
    assert ini.text({"a": {"b": True, "c": [1, 2], "d": None}}).endswith("[a]\nb = true\nc = 1\nc = 2\n")
    with pytest.raises(ValueError, match="has a line feed"):
        ini.text({"a": {"b": "1\n[c]"}})


def test_an_unknown_agent_is_refused() -> None:
    assert "interface_driver = linuxbridge" in agents.text("l3", "rabbit://", "/ca")
    with pytest.raises(ValueError, match="Neutron has no agent dns here"):
        agents.text("dns", "", "")


def test_rabbitmqs_accounts_are_compared_by_password_and_rights() -> None:
    wanted = messaging.definitions({"nova": "S", "neutron": "T"})
    assert messaging.lacking(wanted, wanted) == []
    assert messaging.lacking(wanted, {}) == ["neutron", "nova"]
    assert messaging.lacking(messaging.definitions({"nova": "U", "neutron": "T"}), wanted) == ["nova"]
    assert messaging.lacking(wanted, {**wanted, "permissions": wanted["permissions"][:1]}) == ["nova"]


def test_types_become_classes_with_a_limit_of_none(plan: dict[str, t.Any]) -> None:
    flavor = {"name": "m", "cores": 1, "memory_mib": 64, "disk_gib": 1, "gpus": {"a100_1g.10gb": 2}, "gpu_memory_gb": 10}
    made = objects.objects({"flavors": [flavor]}, plan)
    assert made["registered_limits"]["class:CUSTOM_GPU_A100_1G_10GB"] == 0 and made["registered_limits"]["class:CUSTOM_GPU_A100"] == 0
    specs = made["flavors"][0]["extra_specs"]
    assert specs["resources:CUSTOM_GPU_A100_1G_10GB"] == 2 and specs["trait:CUSTOM_GPU_MEMORY_10GB"] == "required"
    assert specs["Accelerator:Number"] == 2
