# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What users can't do with servers, images and addresses."""

from __future__ import annotations

import pytest
from openstack_hosts_site import server
from openstack_users import Account

OWNS = ("plugins/plugin_utils/_openstack/control_conf.py",)
__all__ = ["server"]


@pytest.mark.parametrize("call", ["rescue", "suspend", "trigger_crash_dump"])
def test_what_the_driver_can_not_do_is_refused_and_leaves_the_server(ada: Account, server: str, call: str) -> None:
    action = f"cloud.compute.post('/servers/' + {server!r} + '/action', json={{{call!r}: None}}, microversion='2.17')"
    assert ada.ask(f"answer = {action}.status_code") == 403 and ada.show(server)["status"] == "ACTIVE"


def test_the_way_out_of_a_rescue_is_open(ada: Account, server: str) -> None:
    """Nova looks at the policy first: 409 is for a server that is not in a rescue."""
    action = f"cloud.compute.post('/servers/' + {server!r} + '/action', json=dict(unrescue=None))"
    assert ada.ask(f"answer = {action}.status_code") == 409


def test_a_project_fills_neither_the_disk_nor_the_pool_of_addresses(ada: Account, admin: Account) -> None:
    """Glance refuses more than 200 GB before it reads them. It is asked without Apache, which would wait for the bytes."""
    answer = ada.ask("""
        import http.client
        new = dict(name="large", disk_format="raw", container_format="bare")
        image = cloud.image.post("/images", json=new).json()["id"]
        def status(size):
            connection = http.client.HTTPConnection("127.0.0.1", 19292, timeout=60)
            headers = {"X-Auth-Token": cloud.session.get_token(), "Content-Type": "application/octet-stream", "Content-Length": str(size)}
            connection.request("PUT", f"/v2/images/{image}/file", headers=headers, body=iter([b"x" * min(size, 1024)]))
            return connection.getresponse().status
        answer = [status(210 << 30), status(1024)]
        cloud.image.delete_image(image)
    """)
    assert answer == [413, 204]
    quota = "answer = cloud.network.get_quota(cloud.identity.find_project('physics').id).floating_ips"
    assert admin.ask(quota) == 40
