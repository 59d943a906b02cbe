# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A new certificate in a cloud that runs: each port shows it, and servers go on."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local import Cluster, changed
from openstack_rollout_site import HOST, PLAYBOOK, PORTS, main_process, server, serves
from openstack_users import Account

OWNS = (
    "roles/openstack_control_plane/tasks/check.yml",
    "roles/openstack_control_plane/tasks/service.yml",
    "plugins/modules/front_certificate.py",
    "tests/verify/openstack_rollout_site.py",
)
__all__ = ["server"]


def serials(cluster: Cluster) -> dict[str, set[str]]:
    """The serial number of the certificate that each port shows to another host; one for each host, when all is well."""
    words = "timeout 10 openssl s_client -connect {}:{} {} </dev/null 2>/dev/null | openssl x509 -noout -serial"
    return {
        host: {cluster.out(HOST, words.format(host, port, more)).partition("=")[2] for port, more in ports.items()}
        for host, ports in PORTS.items()
    }


@pytest.fixture(scope="module", autouse=True)
def as_deployed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The former certificates are in use again afterwards, by one run."""
    folder, kept = cluster.secrets / "openstack", tmp_path_factory.mktemp("kept")
    shutil.copytree(folder, kept, dirs_exist_ok=True)
    yield
    shutil.copytree(kept, folder, dirs_exist_ok=True)
    for name in ("strange.key", "authority.crt", "name.crt"):
        (folder / name).unlink(missing_ok=True)
    cluster.playbook(PLAYBOOK)


def test_a_certificate_that_is_wrong_is_refused(cluster: Cluster) -> None:
    """With another key each server would end at its next start; with another authority or name no client would log in."""
    before, folder = serials(cluster), cluster.secrets / "openstack"
    names = ",".join(f"DNS:{host}" for host in PORTS)
    new = "openssl req -x509 -key strange.key -days 9 -subj /CN=strange -addext subjectAltName="
    made = f"""
        openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out strange.key
        {new}{names} -out authority.crt
        {new}DNS:elsewhere -addext basicConstraints=CA:FALSE -CA ca.pem -CAkey ca.key -out name.crt
    """
    subprocess.run(made, cwd=folder, shell=True, check=True, capture_output=True)
    strange = {name: (folder / name).read_text(encoding="utf-8") for name in ("strange.key", "authority.crt", "name.crt")}
    for certificate, said, more in (
        ("", "certificate and key do not belong together", ()),
        ("authority.crt", "clients that trust the site's authority would refuse the certificate", ("--check",)),
        ("name.crt", "the certificate lacks the name ctl", ()),
    ):
        variables = {"openstack_control_plane_key": strange["strange.key"]}
        variables |= {"openstack_control_plane_certificate": strange[certificate]} if certificate else {}
        output = cluster.playbook(PLAYBOOK, *more, variables=variables, succeeds=False)
        assert said in " ".join(output.split()) and changed(output) == []
    assert serials(cluster) == before


def renewed(folder: Path, host: str) -> str:
    """Sign a new certificate, where the inventory has the former one; returns its serial number."""
    done = subprocess.run(
        f"openssl req -newkey rsa:2048 -nodes -subj /CN={host} -keyout new.key -out new.csr && "
        f"openssl x509 -req -in new.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile {host}.ext -out new.crt && "
        f"mv new.key {host}.key && mv new.crt {host}.crt && openssl x509 -in {host}.crt -noout -serial",
        cwd=folder,
        shell=True,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip().rpartition("=")[2]


def test_a_new_certificate_is_shown_at_each_port(cluster: Cluster, ada: Account, server: dict[str, Any]) -> None:
    folder, before, process = cluster.secrets / "openstack", serials(cluster), main_process(cluster)
    assert [len(seen) for seen in before.values()] == [1, 1]
    after = {host: {renewed(folder, host)} for host in PORTS}
    cluster.playbook(PLAYBOOK)
    assert serials(cluster) == after and not any(after[host] & before[host] for host in PORTS)
    serves(cluster, ada, server, process)
    assert changed(cluster.playbook(PLAYBOOK)) == []
