# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""An agent keeps what it has while that fits."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos.agent import (
    disk_mib,
    identity_changes,
    settled,
    with_disk,
)


def env(resources, attributes=""):
    return {"MESOS_PORT": "5051", "MESOS_RESOURCES": resources, **({"MESOS_ATTRIBUTES": attributes} if attributes else {})}


@pytest.mark.parametrize(
    ("has", "wanted", "becomes"),
    [
        ("cpus:8;mem:15936;gpus:1", "cpus:8;mem:15872;gpus:1", None),  # another kernel
        ("cpus:8;mem:15872;gpus:1", "cpus:8;mem:15936;gpus:1", None),
        ("cpus:8;mem:15936", "cpus:8;mem:15000", "cpus:8;mem:15000"),  # a broken bank: it fits no more
        ("cpus:8;mem:15936", "cpus:8;mem:31872", "cpus:8;mem:31872"),  # twice as much was built in
        ("cpus:8;mem:15936", "cpus:8;mem:15936;disk:9000", None),  # from before disks were written
        ("cpus:8;mem:15936;disk:9000", "cpus:8;mem:15936;disk:20000", None),  # the file system grew
        ("cpus:8;mem:15936;disk:9000", "cpus:8;mem:15936", None),  # one that Ansible does not list, as ZFS
        ("cpus:8;mem:15936;gpus:1", "cpus:4;mem:15936;gpus:1", "cpus:4;mem:15936;gpus:1"),
        ("cpus:8;mem:15936;gpus:2", "cpus:8;mem:15872;gpus:1", "cpus:8;mem:15936;gpus:1"),
    ],
)
def test_resources(has, wanted, becomes):
    assert settled(env(wanted), env(has), {})["MESOS_RESOURCES"] == (becomes or has)
    assert bool(identity_changes(env(has), settled(env(wanted), env(has), {}))) == bool(becomes)


def test_an_agent_that_reckons_its_disk_gets_the_one_that_it_registered_with():
    present, wanted = env("cpus:8;mem:15936;ports:[1-2];gpus:1"), env("cpus:8;mem:15872;disk:20000;ports:[1-2];gpus:1")
    found = settled(wanted, with_disk(present, 9000), {})
    assert found["MESOS_RESOURCES"] == "cpus:8;mem:15936;disk:9000;ports:[1-2];gpus:1"
    assert identity_changes(with_disk(present, 9000), found) == []
    assert "disk" not in settled(wanted, with_disk(present, 0), {})["MESOS_RESOURCES"]
    assert with_disk(env("disk:1"), 9000) == env("disk:1") and with_disk({}, 9000) == {}


def test_an_agent_whose_file_system_ansible_does_not_list_stays_the_same():
    present, wanted = env("cpus:8;mem:15936"), env("cpus:8;mem:15936")
    found = settled(wanted, with_disk(present, 15360), {})
    assert identity_changes(with_disk(present, 15360), found) == []
    # The next run, with what this one wrote.
    assert settled(wanted, with_disk(found, 15360), {}) == found


def test_a_new_agent_and_what_the_site_sets():
    wanted = env("cpus:8;mem:15872;disk:9000")
    assert settled(wanted, {}, {}) == wanted
    own = {"mem": 15872, "disk": 9000}
    assert settled(wanted, env("cpus:8;mem:15936;disk:8000"), own) == wanted


@pytest.mark.parametrize(
    ("has", "wanted", "becomes"),
    [
        (
            "rack:r1;gpu_model:A100;gpu_driver_version:570.1;gpus_a100:1",
            "rack:r1;gpu_model:A100;gpu_driver_version:580.2;gpus_a100:1",
            None,
        ),
        ("rack:r1;gpu_driver_version:570.1", "rack:r2;gpu_driver_version:580.2", "rack:r2;gpu_driver_version:580.2"),
        ("rack:r1", "", ""),
    ],
)
def test_attributes(has, wanted, becomes):
    found = settled(env("cpus:1", wanted), env("cpus:1", has), {})
    assert found.get("MESOS_ATTRIBUTES", "") == (has if becomes is None else becomes)


@pytest.mark.parametrize(
    ("mounts", "mib"),
    [
        ([], 0),
        ([{"mount": "/", "size_total": 100 * 2**30}], 95 * 1024),
        ([{"mount": "/", "size_total": 8 * 2**30}], 4 * 1024),
        ([{"mount": "/", "size_total": 100 * 2**30}, {"mount": "/var/lib/mesos", "size_total": 20 * 2**30}], 15 * 1024),
        ([{"mount": "/var/lib/mesos/agent", "size_total": 20 * 2**30}, {"mount": "/var/lib/mesos/ag", "size_total": 1}], 15 * 1024),
        ([{"mount": "/home", "size_total": 20 * 2**30}], 0),
    ],
)
def test_disks(mounts, mib):
    assert disk_mib(mounts) == mib
