# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The modules for OpenNebula, with its real Python bindings, against the stand-in for its daemon on this machine's loopback."""

from __future__ import annotations

import http.server
import os
import threading
from xmlrpc.client import dumps

import pyone
import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._opennebula import api as opennebula_api
from ansible_collections.deephdc.accelerators.plugins.modules import opennebula_gpu_quota, opennebula_gpu_template, opennebula_host_pci
from ansible_collections.deephdc.accelerators.tests.unit.plugins.modules.opennebula.front_end import A100, PASSWORD, device

MACHINE = {"CPU": 0.5, "MEMORY": 1024, "OS": {"MACHINE": "q35"}, "DISK": [{"IMAGE": 'a <b> & "c"'}, {"SIZE": 10}]}


def shown(front, host=0):
    return [entry["SHORT_ADDRESS"] for entry in front.oned.hosts[host]["pci"]]


def one_of(front, name, password, group=1):
    number = front.oned.add_user(name, password, group)
    return number, pyone.OneServer(front.url, session=f"{name}:{password}")


class TestHostPci:
    def test_offers_what_it_shall_and_withholds_the_rest(self, call, front):
        result = call(opennebula_host_pci, name="kvm1", addresses=["01:00.0"], withheld=["02:00.0"])
        assert result["changed"] and result["missing"] == ["01:00.0"]
        assert "PCI_SHORT_ADDRESS=01:00.0\n" in result["diff"]["after"]
        assert result["monitored"]
        front.oned.monitor(0, [device("01:00.0"), device("02:00.0")])
        assert shown(front) == ["01:00.0"]
        front.oned.host_status(0, 0, 1)
        assert not call(opennebula_host_pci, name="kvm1", addresses=["01:00.0"], withheld=["02:00.0"])["monitored"]
        assert call(opennebula_host_pci, name="kvm1", addresses=["01:00.0"], withheld=["02:00.0"])["missing"] == []
        assert ("HYPERVISOR", "kvm") in front.oned.hosts[0]["template"]

    def test_a_machine_with_several_domains(self, call, front):
        call(opennebula_host_pci, name="kvm1", addresses=["01:00.0", "0009:01:00.0"])
        front.oned.monitor(0, [device("01:00.0"), device("0009:01:00.0"), device("0009:02:00.0")])
        assert shown(front) == ["01:00.0", "0009:01:00.0"]

    def test_what_the_host_showed_before_stays(self, call, front):
        """As on a front end of one-deploy, whose pci.conf lets every device through."""
        front.oned.monitor(0, [device("05:00.0", VENDOR="8086", DEVICE="10ed", CLASS="0200")])
        call(opennebula_host_pci, name="kvm1", addresses=["01:00.0"])
        front.oned.monitor(0, [device("01:00.0"), device("05:00.0"), device("06:00.0")])
        assert shown(front) == ["01:00.0", "05:00.0"]
        call(opennebula_host_pci, name="kvm1")
        front.oned.monitor(0, [device("01:00.0"), device("05:00.0"), device("06:00.0")])
        assert len(shown(front)) == 3

    def test_a_host_that_only_withholds_shows_none(self, call, front):
        call(opennebula_host_pci, name="kvm1", withheld=["01:00.0"])
        front.oned.monitor(0, [device("01:00.0")])
        assert shown(front) == []

    def test_a_filter_that_hides_the_device_is_an_error(self, call, front):
        front.oned.clusters[0]["template"] = [("PCI_FILTER", "8086:*")]
        result = call(opennebula_host_pci, name="kvm1", addresses=["01:00.0"], devices=["10de:20b0"])
        assert "its cluster has PCI_FILTER 8086:*, which hides 10de:20b0" in result["msg"]

    def test_waits_for_the_probe(self, call, front, monkeypatch):
        monkeypatch.setattr(opennebula_host_pci.time, "sleep", lambda _seconds: front.oned.monitor(0, [device("01:00.0")]))
        assert call(opennebula_host_pci, name="kvm1", addresses=["01:00.0"], wait=5)["missing"] == []

    def test_says_what_does_not_come(self, run, front, monkeypatch):
        monkeypatch.setattr(opennebula_host_pci, "POLL", 0.01)
        options = {"endpoint": front.url, "auth_file": str(front.auth_file), "name": "kvm1", "addresses": ["01:00.0"]}
        assert "after 1 s OpenNebula does not list 01:00.0" in run(opennebula_host_pci, wait=1, **options)["msg"]

    def test_refusals(self, call, site):
        assert "has no host kvm9" in call(opennebula_host_pci, name="kvm9")["msg"]
        assert "OpenNebula 6.10.5 knows no" in call(opennebula_host_pci, name="kvm1", server=site(version="6.10.5"))["msg"]


class TestTemplate:
    @pytest.fixture
    def make(self, call):
        return lambda **options: call(opennebula_gpu_template, **{"name": "gpu", "pci": A100, "attributes": MACHINE, **options})

    def test_a_user_gets_a_gpu_by_it_and_no_other_way(self, make, front):
        group = front.oned.add_group("research")
        _uid, ada = one_of(front, "ada", "pw", group)
        front.oned.monitor(1, [device("01:00.0")])
        number = make(group="research", mode="0640")["id"]
        ada.template.instantiate(number, "one", False, "", False)
        ada.template.instantiate(number, "two", False, "", False)
        assert [(machine["host"], machine["devices"]) for machine in front.oned.machines] == [("kvm2", ["01:00.0"]), (None, [])]
        with pytest.raises(pyone.OneAuthorizationException, match="restricted attribute PCI"):
            ada.template.instantiate(number, "more", False, 'PCI=[VENDOR="10de"]', False)
        with pytest.raises(pyone.OneAuthorizationException):
            ada.template.allocate('NAME="own"\nPCI=[VENDOR="10de"]')
        with pytest.raises(pyone.OneAuthorizationException):
            ada.template.update(number, "CPU=1", 1)

    @pytest.mark.parametrize("wrong", [{"VENDOR": "nvidia"}, {"TYPE": "NIC"}, {**A100, "SHORT_ADDRESS": "01:00.0"}])
    def test_the_stand_in_starts_no_machine_with_a_wrong_request(self, front, wrong):
        one = pyone.OneServer(front.url, session=f"oneadmin:{PASSWORD}")
        number = one.template.allocate({"TEMPLATE": {"NAME": "x", "CPU": 1, "MEMORY": 64, "PCI": wrong}})
        with pytest.raises(pyone.OneException, match="PCI request"):
            one.template.instantiate(number, "x", False, "", False)

    def test_the_stand_in_keeps_restricted_attributes_of_templates_that_users_manage(self, make, front):
        _uid, ada = one_of(front, "ada", "pw")
        number = make(mode="0606")["id"]
        ada.template.update(number, "LOGO=tux.svg", 1)
        with pytest.raises(pyone.OneInternalException, match="restricted attribute: PCI"):
            ada.template.update(number, 'PCI=[VENDOR="10de"]', 1)

    def test_without_a_mode_nobody_else_may_use_it(self, make, front):
        _uid, eve = one_of(front, "eve", "pw")
        number = make()["id"]
        with pytest.raises(pyone.OneAuthorizationException):
            eve.template.instantiate(number, "x", False, "", False)

    def test_what_people_added_stays(self, make, front):
        make()
        added = [("LOGO", "tux.svg"), ("PCI", {"TYPE": "NIC", "CLASS": "0200"})]
        front.oned.templates[0]["template"] += added
        result = make(count=2, attributes={**MACHINE, "MEMORY": 2048})
        assert set(result["attributes"]) == {"PCI", "MEMORY"}
        template = front.oned.templates[0]["template"]
        assert all(entry in template for entry in added) and [value for name, value in template if name == "PCI"].count(A100) == 2

    def test_counted(self, make, site):
        server = site(quota_attributes=["GPU"])
        assert make(server=server, count=2, counted_as="GPU")["attributes"]["GPU"] == "2"

    def test_a_template_of_others_is_left_alone(self, make, front):
        front.oned.template_allocate(0, "NAME=gpu")
        assert "was not made by this collection" in make()["msg"]
        assert "was not made by this collection" in make(state="absent")["msg"]

    def test_another_users_template_of_the_same_name_is_not_meant(self, make, front):
        _uid, eve = one_of(front, "eve", "pw")
        eve.template.allocate("NAME=gpu")
        assert make()["id"] == 1 and "DEEPHDC_MADE_BY" not in dict(front.oned.templates[0]["template"])

    def test_absent(self, make, front):
        make()
        assert make(state="absent")["changed"] and not front.oned.templates

    @pytest.mark.parametrize(
        ("options", "sentence"),
        [
            ({"mode": "0689"}, "is not octal"),
            ({"name": "a/b"}, "char '/' is not allowed"),
            ({"group": "none"}, "has no group none"),
        ],
    )
    def test_refusals(self, run, front, options, sentence):
        given = {"endpoint": front.url, "auth_file": str(front.auth_file), "name": "gpu", "pci": A100, **options}
        assert sentence in run(opennebula_gpu_template, **given)["msg"]


class TestQuota:
    def test_limits_and_keeps_the_other_limits(self, call, front):
        uid, ada = one_of(front, "ada", "pw")
        front.oned.user_quota(0, uid, 'VM=[VMS="5",CPU="8.5"]\nVM=[CLUSTER_IDS="0",VMS="3"]')
        assert call(opennebula_gpu_quota, user="ada", limit=1)["quota"]["PCI_DEV"] == "1"
        assert front.oned.users[uid]["quota"]["0"]["VMS"] == "3"
        limits = front.oned.users[uid]["quota"][""]
        assert (limits["VMS"], limits["CPU"], limits["PCI_DEV"], limits["MEMORY"]) == ("5", "8.5", "1", "-1")
        call(opennebula_gpu_template, name="gpu", pci=A100, attributes=MACHINE, mode="604")
        ada.template.instantiate(0, "one", False, "", False)
        with pytest.raises(pyone.OneAuthorizationException, match="limit of 1 reached for PCI_DEV"):
            ada.template.instantiate(0, "two", False, "", False)

    def test_an_attribute_of_the_sites_own(self, call, site):
        server = site(version="7.0.1", quota_attributes=["GPU", "GOLD"])
        server.oned.group_quota(0, 1, 'VM=[GOLD="2"]')
        call(opennebula_gpu_quota, server=server, group="users", limit=4, counted_as="GPU")
        limits = server.oned.groups[1]["quota"][""]
        assert (limits["GPU"], limits["GOLD"]) == ("4", "2")

    def test_refusals(self, call, site):
        old = site(version="7.0.1")
        assert "has no quota on PCI devices" in call(opennebula_gpu_quota, server=old, group="users", limit=4)["msg"]
        assert 'QUOTA_VM_ATTRIBUTE = "GPU"' in call(opennebula_gpu_quota, server=old, group="users", limit=4, counted_as="GPU")["msg"]
        assert "has no user bob" in call(opennebula_gpu_quota, user="bob", limit=4)["msg"]
        assert "is wrong" in call(opennebula_gpu_quota, user="bob", limit=-3)["msg"]


class TestConnection:
    def test_sentences(self, run, front, tmp_path):
        def said(**options):
            result = run(opennebula_host_pci, **{"endpoint": front.url, "auth_file": str(front.auth_file), "name": "kvm1", **options})
            assert PASSWORD not in result["printed"] and "wrong-one" not in result["printed"]
            return result["msg"]

        (tmp_path / "wrong").write_text("oneadmin:wrong-one")
        (tmp_path / "wrong").chmod(0o600)
        (tmp_path / "open").write_text(f"oneadmin:{PASSWORD}")
        (tmp_path / "open").chmod(0o644)
        assert "does not accept the user and password" in said(auth_file=str(tmp_path / "wrong"))
        assert "can be read by others" in said(auth_file=str(tmp_path / "open"))
        assert "can't be read: No such file" in said(auth_file=str(tmp_path / "none"))
        (tmp_path / "link").symlink_to(front.auth_file)
        os.mkfifo(tmp_path / "pipe", 0o600)
        assert f"can't be read: {tmp_path / 'link'} is a link" in said(auth_file=str(tmp_path / "link"))
        assert f"can't be read: {tmp_path / 'pipe'} is no file" in said(auth_file=str(tmp_path / "pipe"))
        assert "does not answer" in said(endpoint="http://127.0.0.1:9/RPC2")
        assert "in clear text" in said(endpoint="http://one.example.org:2633/RPC2")
        assert "is no URL" in said(endpoint="localhost:2633")

    @pytest.fixture
    def strange(self):
        """A server at the address of the API that is not OpenNebula's, or breaks off."""

        def start(answer):
            class Strange(http.server.BaseHTTPRequestHandler):
                def do_POST(self):
                    self.rfile.read(int(self.headers["Content-Length"]))
                    if answer is None:
                        ended.wait(20)
                    else:
                        self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n" + answer)

                def log_message(self, *_arguments):
                    pass

            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Strange)
            threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
            servers.append(server)
            return f"http://127.0.0.1:{server.server_address[1]}/RPC2"

        servers, ended = [], threading.Event()
        yield start
        ended.set()
        for server in servers:
            server.shutdown()
            server.server_close()

    @pytest.mark.parametrize(
        "answer",
        [
            b"<html><body>It works!</body></html>",
            b"",
            b"<?xml version='1.0'?><methodResponse><params><param><value><array><data><value><boole",
            dumps(((True, "", 0),), methodresponse=True).encode(),
            dumps(((True, "<HOST_POOL><HOST><NAME>kvm1</NAME>", 0),), methodresponse=True).encode(),
        ],
        ids=["web_page", "nothing", "half", "empty_value", "half_value"],
    )
    def test_half_an_answer(self, run, front, strange, answer):
        result = run(opennebula_gpu_template, endpoint=strange(answer), auth_file=str(front.auth_file), name="gpu", pci=A100)
        assert "answers about templatepool.info can't be read" in result["msg"] and PASSWORD not in result["printed"]

    def test_an_object_without_its_id(self, run, front, monkeypatch):
        monkeypatch.setattr(front.oned, "hostpool_info", lambda _user: "<HOST_POOL><HOST><NAME>kvm1</NAME></HOST></HOST_POOL>")
        result = run(opennebula_host_pci, endpoint=front.url, auth_file=str(front.auth_file), name="kvm1")
        assert "about kvm1 can't be read: it has no ID" in result["msg"]

    def test_limits_that_are_not_told_are_not_lost(self, run, front, monkeypatch):
        monkeypatch.setattr(front.oned, "group_info", lambda _user, _number: "<GROUP><ID>1</ID><NAME>users</NAME></GROUP>")
        result = run(opennebula_gpu_quota, endpoint=front.url, auth_file=str(front.auth_file), group="users", limit=1)
        assert "its other limits would be lost" in result["msg"] and "one.group.quota" not in front.oned.calls

    def test_no_answer_at_all(self, run, front, strange, monkeypatch):
        monkeypatch.setattr(opennebula_api, "ANSWER_SECONDS", 1)
        result = run(opennebula_gpu_template, endpoint=strange(None), auth_file=str(front.auth_file), name="gpu", pci=A100)
        assert "does not answer" in result["msg"] and "timed out" in result["msg"]

    def test_the_stand_in_refuses_wrong_types(self, front):
        one = pyone.OneServer(front.url, session=f"oneadmin:{PASSWORD}")
        with pytest.raises(pyone.OneException, match="not of type int"):
            one.host.update("0", "A=1", 1)
        with pytest.raises(pyone.OneApiException, match="Wrong update type"):
            one.host.update(0, "A=1", 2)
        with pytest.raises(pyone.OneInternalException, match="Parse error"):
            one.host.update(0, "A=[B=1", 1)
        with pytest.raises(pyone.OneNoExistsException):
            one.host.info(7)
