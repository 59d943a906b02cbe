# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""OpenNebula's configuration for the accelerators that virtual machines may get."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.module_utils._opennebula import host_pci
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._contract import Site
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._opennebula import manager, pci_conf
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._opennebula import plan as opennebula_plan
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import gpu

FRESH = """\
# This option specifies the main filters.
#   :filter: '*:*'    # all devices
:filter: '0:0'

# more
:short_address: []

:device_name: []

:nvidia_vendors:
  - '10de'
"""
RECORD, FOUND = host_pci.RECORD, host_pci.FOUND


def passed(number=0, **changes):
    return gpu(number, driver="vfio-pci", **{"class": "030200", **changes})


def wanted_filter(text):
    return yaml.safe_load(text)[":filter"]


def test_given_to_machines_is_what_vfio_holds_and_virtual_functions():
    physical = gpu(1, sriov={"total_vfs": 16, "num_vfs": 1, "is_vf": False})
    virtual = gpu(2, sriov={"total_vfs": None, "num_vfs": None, "is_vf": True})
    # The role pci_passthrough binds graphics that are named in pci_passthrough_console; they were never offered.
    found = opennebula_plan.passed_through([passed(0), physical, virtual, gpu(3), passed(4, kind="console"), gpu(5, kind="console")])
    assert [device["index"] for device in found] == [0, 2, 4]


def test_ids_are_listed_once():
    assert opennebula_plan.pci_filters([gpu(0), gpu(1), gpu(2, device_id="1eb8"), gpu(3, kind="console")]) == ["10de:1eb8", "10de:20b0"]


def test_an_address_is_written_as_lspci_does_for_programs():
    assert opennebula_plan.addresses([gpu(0), gpu(1, pci_address="0009:01:00.0")]) == ["01:00.0", "0009:01:00.0"]


def test_wrong_input():
    with pytest.raises(ValueError, match="list of dictionaries"):
        opennebula_plan.pci_filters("a100")


class TestPciConf:
    def test_a_fresh_file_gets_the_ids_and_keeps_all_else(self):
        text = pci_conf.pci_conf(FRESH, ["10de:1eb8", "10de:20b0"])
        assert wanted_filter(text) == ["10de:1eb8", "10de:20b0"]
        gone = set(FRESH.splitlines()) - set(text.splitlines())
        assert gone == {":filter: '0:0'"}

    def test_a_second_time_changes_nothing(self):
        text = pci_conf.pci_conf(FRESH, ["10de:20b0"])
        assert pci_conf.pci_conf(text, ["10de:20b0"]) == text

    def test_taking_all_back_leaves_the_fresh_file(self):
        assert pci_conf.pci_conf(pci_conf.pci_conf(FRESH, ["10de:20b0"]), []) == FRESH

    @pytest.mark.parametrize("others", ["'*:*'", "'10de:*'", "'10de:'", "'8086:10ed,10DE:20B0'", "10de:*   # all", "[ '10de:20b0' ]"])
    def test_what_others_let_through_is_not_added(self, others):
        text = FRESH.replace("'0:0'", others)
        assert pci_conf.pci_conf(text, ["10de:20b0"]) == text

    @pytest.mark.parametrize("others", ["'8086:10ed'", "['8086:10ed']", "\n  - '8086:10ed'", '\n# cards\n- "8086:10ed"  # NIC'])
    def test_entries_of_others_stay(self, others):
        before = FRESH.replace(" '0:0'", others if others[0] == "\n" else f" {others}")
        text = pci_conf.pci_conf(before, ["10de:20b0"])
        assert wanted_filter(text) == ["8086:10ed", "10de:20b0"]
        assert wanted_filter(pci_conf.pci_conf(text, ["10de:1eb8"])) == ["8086:10ed", "10de:1eb8"]
        assert wanted_filter(pci_conf.pci_conf(text, [])) == ["8086:10ed"]
        assert ("# NIC" in text) == ("# NIC" in before)

    def test_a_pattern_of_a_class_lets_only_a_part_through(self):
        assert wanted_filter(pci_conf.pci_conf(FRESH.replace("0:0", "10de::0302"), ["10de:20b0"])) == ["10de::0302", "10de:20b0"]

    def test_a_file_without_a_filter_gets_one(self):
        assert wanted_filter(pci_conf.pci_conf("", ["10de:20b0"])) == ["10de:20b0"]

    def test_the_key_is_plain_because_ruby_reads_only_such_as_a_symbol(self):
        assert ":filter:" in pci_conf.pci_conf(FRESH, ["10de:20b0"]).splitlines()

    @pytest.mark.parametrize("name", [":short_address", ":device_name"])
    @pytest.mark.parametrize("entries", [" ['07:00.0']", "\n  - '07:00.0'", " '07:00.0'"])
    def test_what_narrows_all_hosts_is_refused(self, name, entries):
        with pytest.raises(ValueError, match=name):
            pci_conf.pci_conf(FRESH.replace(f"{name}: []", f"{name}:{entries}"), ["10de:20b0"])

    @pytest.mark.parametrize("odd", ["'10de", "&all '*:*'", "['10de:*',"])
    def test_what_cannot_be_read_is_refused(self, odd):
        with pytest.raises(ValueError, match=":filter"):
            pci_conf.pci_conf(FRESH.replace("'0:0'", odd), ["10de:20b0"])


class TestHost:
    def attributes(self, template=None, wanted=("01:00.0",), cluster=None, listed=(), withheld=()):
        return host_pci.host_attributes(template or {}, cluster or {}, listed, wanted, withheld)

    def test_a_fresh_host(self):
        assert self.attributes() == {"PCI_SHORT_ADDRESS": "01:00.0", RECORD: "01:00.0", FOUND: ""}

    def test_a_second_time_changes_nothing(self):
        first = self.attributes({"PCI_SHORT_ADDRESS": "05:00.0"}, listed=["05:00.0", "06:00.0"])
        assert first["PCI_SHORT_ADDRESS"] == "05:00.0,01:00.0"
        assert self.attributes(first, listed=["05:00.0", "01:00.0"]) == first

    def test_a_device_that_is_not_given_any_more_goes_and_others_stay(self):
        first = self.attributes({"PCI_SHORT_ADDRESS": "05:00.0"}, wanted=["01:00.0", "02:00.0"])
        assert self.attributes(first, wanted=["02:00.0"])["PCI_SHORT_ADDRESS"] == "05:00.0,02:00.0"

    def test_what_a_host_without_a_list_shows_stays_visible(self):
        first = self.attributes(listed=["05:00.0", "01:00.0"])
        assert first["PCI_SHORT_ADDRESS"] == "05:00.0,01:00.0"
        assert self.attributes(first, wanted=[]) == {"PCI_SHORT_ADDRESS": "", RECORD: "", FOUND: ""}

    def test_a_clusters_list_counts_where_the_host_has_none(self):
        cluster = {"PCI_SHORT_ADDRESS": "07:00.0"}
        first = self.attributes(cluster=cluster)
        assert first["PCI_SHORT_ADDRESS"] == "07:00.0,01:00.0"
        assert self.attributes(first, cluster=cluster, wanted=[])["PCI_SHORT_ADDRESS"] == ""

    def test_taking_all_back_leaves_the_host_as_it_was(self):
        first = self.attributes({"PCI_SHORT_ADDRESS": "05:00.0"})
        assert self.attributes(first, wanted=[]) == {"PCI_SHORT_ADDRESS": "05:00.0", RECORD: "", FOUND: ""}

    def test_a_host_with_only_withheld_devices_offers_none(self):
        first = self.attributes(wanted=[], withheld=["01:00.0"], listed=["01:00.0"])
        assert first["PCI_SHORT_ADDRESS"] == "none"
        assert self.attributes(first, wanted=[], withheld=["01:00.0"]) == first
        assert self.attributes(first)["PCI_SHORT_ADDRESS"] == "01:00.0"
        assert self.attributes(first, wanted=[])["PCI_SHORT_ADDRESS"] == ""

    def test_a_host_of_which_nothing_is_wanted_is_left_alone(self):
        assert self.attributes({"PCI_SHORT_ADDRESS": "05:00.0"}, wanted=[])["PCI_SHORT_ADDRESS"] == "05:00.0"
        assert self.attributes(wanted=[], listed=["05:00.0"])["PCI_SHORT_ADDRESS"] == ""

    def test_a_pattern_that_hides_a_device_is_named(self):
        hidden = host_pci.hidden_by
        a100 = "10de:20b0:0302"
        assert hidden({"PCI_FILTER": "8086:*"}, {}, [a100]).startswith("its host has PCI_FILTER 8086:*, which hides 10de:20b0")
        assert hidden({}, {"PCI_FILTER": "8086:*"}, [a100]).startswith("its cluster has")
        assert hidden({"PCI_FILTER": "10de:*"}, {"PCI_FILTER": "8086:*"}, [a100]) is None
        assert hidden({}, {}, [a100]) is None

    @pytest.mark.parametrize("pattern", ["10de", "10de::0302", "*:*:0302", "::0302", "8086:*, 10de:20b0 ", "10de:20b0:*:ff", "8086,,1234"])
    def test_a_pattern_that_oned_takes_is_no_error(self, pattern):
        assert host_pci.hidden_by({"PCI_FILTER": pattern}, {}, ["10de:20b0:0302"]) is None

    @pytest.mark.parametrize("pattern", ["10DE:20B0", "10de:20b0:0300", "10de:20b0:030200", "*:*:03", "10d:*"])
    def test_a_pattern_with_which_oned_hides_the_device_is_an_error(self, pattern):
        assert host_pci.hidden_by({"PCI_FILTER": pattern}, {}, ["10de:20b0:0302"])

    def test_hosts_that_nothing_narrows(self):
        hosts = [
            {"NAME": "kvm9", "VM_MAD": "kvm", "CLUSTER_ID": "0", "TEMPLATE": ""},
            {"NAME": "kvm8", "VM_MAD": "kvm", "CLUSTER_ID": "0", "TEMPLATE": {"PCI_SHORT_ADDRESS": "none"}},
            {"NAME": "kvm7", "VM_MAD": "kvm", "CLUSTER_ID": "1", "TEMPLATE": {}},
            {"NAME": "lxc1", "VM_MAD": "lxc", "CLUSTER_ID": "0", "TEMPLATE": {}},
        ]
        assert host_pci.unguarded(hosts, {"1": {"PCI_FILTER": "8086:*"}}) == ["kvm9"]


MACHINE = {"CPU": 1, "memory": 1024}


@pytest.mark.parametrize(
    ("templates", "quotas", "sentence"),
    [
        ([{"name": "x", "attributes": MACHINE}], [], "x must have either type or device"),
        ([{"name": "x", "type": "t4", "device": "10de:1eb8", "attributes": MACHINE}], [], "x must have either type or device"),
        ([{"name": "x", "device": "10DE:1EB8", "attributes": MACHINE}], [], "such as 10de:20b0"),
        ([{"name": "x", "type": "t4", "attributes": {"CPU": 1}}], [], "x lacks MEMORY in its attributes"),
        ([{"name": "x", "type": "t4"}], [], "x lacks CPU and MEMORY in its attributes"),
        ([{"name": "x", "state": "absent"}, {"name": "x", "state": "absent"}], [], "has x more than once"),
        ([{"state": "absent"}], [], "has no name"),
        ([{"name": "a\nb", "type": "t4", "attributes": MACHINE}], [], "has the character '\\n'"),
        ([{"name": "x", "type": "t4", "attributes": {**MACHINE, "A><B": 1}}], [], "x has the attribute A><B"),
        ([{"name": "x", "type": "t4", "attributes": {**MACHINE, "OS": {"B D": 1}}}], [], "x has the attribute B D"),
        ([{"name": "x", "type": "t4", "attributes": {**MACHINE, "OS": {"B": {"C": 1}}}}], [], "a vector in the vector OS"),
        ([{"name": "x", "typ": 1, "type": "t4", "attributes": MACHINE}], [], "x has the unknown key 'typ' (did you mean type?)."),
        ([{"name": "x", "type": "t4", "attributes": MACHINE, "count": "two"}], [], "x asks for two devices"),
        ([{"name": "x", "type": "t4", "attributes": ["CPU"]}], [], "x needs a dictionary as attributes"),
        ([{"name": "x", "type": ["t4"], "attributes": MACHINE}], [], "x needs one text as type, not a list."),
        ([{"name": "x", "state": "gone"}], [], "x has the state 'gone': write present or absent."),
        ([], [{"user": "a"}], "The quota of the user a has None as limit"),
        ([], [{"user": "a", "limit": "many"}], "The quota of the user a has 'many' as limit"),
        ([], [{"user": "a", "limit": 1, "grup": "b"}], "user a has the unknown key 'grup' (did you mean group?)."),
        ([], [{"limit": 1}], "either user or group"),
        ([], [{"user": "a", "group": "b", "limit": 1}], "either user or group"),
    ],
)
def test_wrong_wishes_are_named_without_a_host(templates, quotas, sentence):
    (error,) = opennebula_plan.inventory_errors(templates, quotas)
    assert sentence in error


def test_right_wishes():
    assert opennebula_plan.inventory_errors([{"name": "x", "type": "t4", "attributes": MACHINE}], [{"user": "a", "limit": 1}]) == []


HOSTVARS = {
    "kvm2": {
        "opennebula_host_name": "kvm2.site",
        "ansible_facts": {"accelerators": [passed(0, type="t4", device_id="1eb8"), gpu(1)]},
    },
    "kvm1": {"ansible_facts": {"accelerators": [passed(0), passed(1)]}},
    "kvm3": {"opennebula_host_name": "", "ansible_facts": {"accelerators": []}},
    "front": {},
}


class TestPlan:
    def test_two_hosts_of_one_name(self):
        plan = self.plan(
            [], a={"ansible_facts": {"accelerators": []}}, b={"opennebula_host_name": "a", "ansible_facts": {"accelerators": []}}
        )
        assert plan["errors"] == ["a and b are the same host a in OpenNebula: correct opennebula_host_name."]

    def plan(self, templates, **hostvars):
        hostvars = hostvars or HOSTVARS
        return opennebula_plan.plan(hostvars, [name for name in hostvars if name != "front"], templates)

    def test_hosts_and_filter(self):
        plan = self.plan([])
        assert plan["filter"] == ["10de:1eb8", "10de:20b0"]
        assert [(host["name"], host["addresses"], host["withheld"]) for host in plan["hosts"]] == [
            ("kvm1", ["01:00.0", "02:00.0"], []),
            # an A100 that its host keeps, while another host offers that model
            ("kvm2.site", ["01:00.0"], ["02:00.0"]),
            ("kvm3", [], []),
        ]
        assert plan["errors"] == []

    def test_a_host_that_slurm_shares_offers_its_part_and_hides_the_other(self):
        allotment = {"slurm": {"devices": ["0000:02:00.0"]}, "opennebula": {"devices": ["0000:01:00.0"]}}
        # slurm's device is bound to vfio-pci by mistake: it stays slurm's.
        both = {"accelerator_allotment": allotment, "ansible_facts": {"accelerators": [passed(0), passed(1)]}}
        (host,) = self.plan([], both=both)["hosts"]
        assert (host["addresses"], host["withheld"]) == (["01:00.0"], ["02:00.0"])

    def test_a_device_that_the_host_lacks_is_an_error(self):
        allotment = {"opennebula": {"devices": ["0000:77:00.0"]}}
        plan = self.plan([], both={"accelerator_allotment": allotment, "ansible_facts": {"accelerators": [passed(0)]}})
        assert "gives 0000:77:00.0 to opennebula, but the host has no such device" in plan["errors"][0]

    def test_a_template_gets_the_ids_of_its_type(self):
        plan = self.plan([{"name": "a100", "type": "a100", "count": 2, "attributes": {"CPU": 4}}])
        pci = {"VENDOR": "10de", "DEVICE": "20b0", "CLASS": "0302"}
        assert plan["templates"] == [{"name": "a100", "type": "a100", "count": 2, "attributes": {"CPU": 4}, "pci": pci}]

    @pytest.mark.parametrize(
        ("template", "sentence"),
        [
            ({"type": "h100"}, "no host of opennebula_hosts passes one through; there is a100, t4"),
            ({"type": "a100", "count": 3}, "asks for 3 of a100, but no host has more than 2"),
        ],
    )
    def test_what_no_host_can_give_is_refused(self, template, sentence):
        plan = self.plan([{"name": "x", **template}])
        assert sentence in plan["errors"][0] and plan["templates"] == []

    def test_a_type_of_several_models_must_be_told_apart(self):
        kvm1 = {"ansible_facts": {"accelerators": [passed(0), passed(1, device_id="20f1")]}}
        plan = self.plan([{"name": "x", "type": "a100"}, {"name": "y", "device": "10de:20f1"}], kvm1=kvm1)
        assert len(plan["errors"]) == 1 and "10de:20b0, 10de:20f1" in plan["errors"][0]
        assert plan["templates"][0]["pci"]["DEVICE"] == "20f1"

    def test_a_host_without_facts_is_named(self):
        assert "kvm1 is in the group" in self.plan([], kvm1={})["errors"][0]


class TestPromises:
    def plan(self, *accelerators, recorded="", **variables):
        hostvars = {"kvm1": {"ansible_facts": {"accelerators": list(accelerators)}, **variables.pop("hostvars", {})}}
        settings = {"templates": variables.pop("templates", []), **variables}
        return manager.plan(Site(hostvars, {"opennebula_hosts": ["kvm1"]}, (), settings), recorded)

    def test_a_missing_gpu_stays_offered_and_is_reported(self):
        record = self.plan(passed(0), passed(1))["record"]
        wanted = [{"name": "two", "type": "a100", "count": 2, "attributes": MACHINE}]
        now = self.plan(passed(0), recorded=record, templates=wanted)
        (host,) = now["hosts"]
        assert (host["addresses"], host["lost"]) == (["01:00.0", "02:00.0"], ["02:00.0"])
        assert now["errors"] == [] and now["record"] == record
        assert now["lost"] == [
            "kvm1: a100 at 0000:02:00.0 is missing, which virtual machines were offered: repair the host, or name kvm1 in "
            "opennebula_pci_accept_hardware."
        ]
        assert [(found["layer"], found["host"], found["device"]) for found in now["findings"]] == [("hardware", "kvm1", "0000:02:00.0")]

    def test_it_is_back_by_itself_and_a_person_can_accept_the_loss(self):
        record = self.plan(passed(0), passed(1))["record"]
        assert self.plan(passed(0), passed(1), recorded=record)["lost"] == []
        accepted = self.plan(passed(0), recorded=record, accept_hardware=["kvm1"])
        assert accepted["lost"] == [] and accepted["record"] == self.plan(passed(0))["record"]

    @pytest.mark.parametrize("given", ["kvm12", ["kvm12"], "kvm1,kvm12"])
    def test_a_host_that_is_named_wrongly_is_refused_and_no_other_is_meant(self, given):
        record = self.plan(passed(0), passed(1))["record"]
        with pytest.raises(ValueError, match="opennebula_pci_accept_hardware names kvm12, which is not in opennebula_hosts"):
            self.plan(passed(0), recorded=record, accept_hardware=given)
        assert self.plan(passed(0), recorded=record, accept_hardware="kvm1")["lost"] == []

    def test_what_the_site_took_from_the_machines_is_not_missing(self):
        record = self.plan(passed(0), passed(1))["record"]
        # Its host keeps it now.
        kept = self.plan(passed(0), gpu(1), recorded=record)
        assert kept["lost"] == [] and kept["hosts"][0]["addresses"] == ["01:00.0"] and kept["hosts"][0]["withheld"] == ["02:00.0"]
        # With a warning, as it may not be wanted.
        assert kept["warnings"] == [
            "kvm1: a100 at 0000:02:00.0 has the driver nvidia now and is not offered to virtual machines any more: "
            "if it should be, bind it as a whole to vfio-pci (pci_passthrough_devices)."
        ]
        divided = self.plan(passed(0), passed(1, sriov={"num_vfs": 4}), recorded=record)
        assert divided["lost"] == [] and "is divided into 4 virtual functions now" in divided["warnings"][0]
        assert self.plan(passed(0), gpu(1), recorded=kept["record"])["warnings"] == []
        allotment = {"opennebula": {"devices": ["0000:01:00.0"]}, "slurm": {"devices": ["0000:02:00.0"]}}
        assert self.plan(passed(0), recorded=record, hostvars={"accelerator_allotment": allotment})["lost"] == []

    def test_a_missing_gpu_of_a_shared_host_is_missing_not_a_mistake_of_the_allotment(self):
        allotment = {"opennebula": {"devices": ["0000:01:00.0", "0000:02:00.0"]}, "slurm": {"devices": []}}
        record = self.plan(passed(0), passed(1), hostvars={"accelerator_allotment": allotment})["record"]
        now = self.plan(passed(0), recorded=record, hostvars={"accelerator_allotment": allotment})
        assert now["errors"] == [] and now["lost"] == [
            "kvm1: a100 at 0000:02:00.0 is missing, which virtual machines were offered: repair the host, or remove 0000:02:00.0 from "
            "accelerator_allotment of kvm1."
        ]

    def test_after_a_loss_was_accepted_the_allotment_must_name_it_no_more(self):
        allotment = {"opennebula": {"devices": ["0000:01:00.0", "0000:02:00.0"]}, "slurm": {"devices": []}}
        variables = {"accelerator_allotment": allotment}
        record = self.plan(passed(0), passed(1), hostvars=variables)["record"]
        now = self.plan(passed(0), recorded=record, hostvars=variables, accept_hardware=["kvm1"])
        assert [(found["host"], found["device"]) for found in now["findings"]] == [("kvm1", "0000:02:00.0")]
        assert now["errors"][0].endswith("correct it, or remove it from accelerator_allotment of kvm1.")

    def test_a_gpu_without_a_driver_is_lost_and_not_given_back(self):
        record = self.plan(passed(0), passed(1))["record"]
        now = self.plan(passed(0), gpu(1, driver=None), recorded=record)
        (host,) = now["hosts"]
        assert (host["addresses"], host["lost"], host["withheld"]) == (["01:00.0", "02:00.0"], ["02:00.0"], [])
        assert now["record"] == record and now["lost"] == [
            "kvm1: a100 at 0000:02:00.0 has no driver, which virtual machines were offered: bind it to vfio-pci (pci_passthrough_devices), "
            "or name kvm1 in opennebula_pci_accept_hardware."
        ]
        assert [(found["layer"], found["device"]) for found in now["findings"]] == [("driver", "0000:02:00.0")]
        # Before the first run it was not offered.
        assert self.plan(passed(0), gpu(1, driver=None))["lost"] == []
        assert self.plan(passed(0), gpu(1, driver=None), recorded=record, accept_hardware=["kvm1"])["lost"] == []

    def test_all_that_is_said_is_in_the_findings_with_its_host(self):
        record = self.plan(passed(0), passed(1), passed(2))["record"]
        wanted = [{"name": "x", "type": "h100", "attributes": MACHINE}]
        allotment = {"opennebula": {"devices": ["0000:01:00.0", "0000:02:00.0", "0000:03:00.0", "0000:77:00.0"]}}
        now = self.plan(passed(0), gpu(1), recorded=record, templates=wanted, hostvars={"accelerator_allotment": allotment})
        assert [found["sentence"] for found in now["findings"]] == [*now["errors"], *now["lost"], *now["warnings"]]
        assert [(found["host"], found["device"]) for found in now["findings"]] == [
            ("kvm1", "0000:77:00.0"),
            (None, None),
            ("kvm1", "0000:03:00.0"),
            ("kvm1", "0000:02:00.0"),
        ]

    def test_a_damaged_record_is_one_sentence(self):
        with pytest.raises(
            ValueError, match="The record of accelerators on the front end is damaged: restore or remove it, then run again"
        ):
            self.plan(passed(0), recorded="{")
