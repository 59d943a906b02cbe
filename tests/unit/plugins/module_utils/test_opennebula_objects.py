# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Attributes of OpenNebula's objects."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._opennebula import objects


def test_text_to_send_survives_any_character():
    value = "a <b> & \"c\" 'd' ]]> é\nlast"
    root = ElementTree.fromstring(objects.to_xml({"x": value, "DISK": [{"image": value}, {"SIZE": 10}], "PERSISTENT": True}))
    assert root.findtext("X") == root.findtext("DISK/IMAGE") == value
    assert [disk.findtext("SIZE") for disk in root.findall("DISK")] == [None, "10"] and root.findtext("PERSISTENT") == "YES"


def test_only_what_differs_is_sent():
    present = {"CPU": "4", "DISK": {"IMAGE": "a"}, "NIC": [{"NETWORK": "x"}, {"NETWORK": "y"}], "LOGO": "tux"}
    wanted = objects.normal({"cpu": 4, "disk": [{"image": "a"}], "nic": [{"NETWORK": "y"}], "MEMORY": 1024})
    assert objects.different(present, wanted) == {"NIC": [{"NETWORK": "y"}], "MEMORY": "1024"}


@pytest.mark.parametrize(("mode", "bits"), [("0640", [1, 1, 0, 1, 0, 0, 0, 0, 0]), ("604", [1, 1, 0, 0, 0, 0, 1, 0, 0]), ("0", [0] * 9)])
def test_modes(mode, bits):
    assert objects.permission_bits(mode) == bits


@pytest.mark.parametrize("mode", ["0689", "7777", "rw", "-640"])
def test_wrong_modes(mode):
    with pytest.raises(ValueError, match="is not octal"):
        objects.permission_bits(mode)


def test_a_quota_is_sent_with_all_others():
    present = [{"CLUSTER_IDS": "0", "VMS": "1"}, {"VMS": "5", "VMS_USED": "2", "PCI_DEV": "-1", "GOLD": "3"}]
    before, sent = objects.wanted_quota(present, "PCI_DEV", 4)
    assert before == {"VMS": "5", "PCI_DEV": "-1", "GOLD": "3"} and sent == {**before, "PCI_DEV": "4"}
    assert objects.wanted_quota([sent], "PCI_DEV", 4)[1] is None
    assert objects.wanted_quota([], "PCI_DEV", -1)[1] == {"PCI_DEV": "-1"}


def test_versions_are_numbers():
    assert objects.version("7.10.0") > objects.version("7.2.0") > (7, 1, 80)


@pytest.mark.parametrize("attributes", [{"A><B": 1}, {"OS": {"B D": 1}}, {"": 1}])
def test_names_that_are_none(attributes):
    with pytest.raises(ValueError, match="has a wrong name"):
        objects.to_xml(attributes)
