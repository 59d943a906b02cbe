# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Golden texts of two programs: xOpera's form of the TOSCA templates, and haproxy.cfg of the balancer of applications."""

from __future__ import annotations

import ipaddress
import runpy
import typing as t

import yaml
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos import balancer_apps, balancer_claims, balancer_conf

from sites import HERE, read_yaml
from templating import ROOT


def xopera() -> dict[str, str]:
    """Return the service template for xOpera of each template, with two hosts for each pool."""
    twin = runpy.run_path(str(ROOT / "tosca/xopera_twin"), run_name="xopera_twin")
    types = read_yaml(ROOT / "tosca/types/deephdc.yaml")
    found = {"tosca/types.yaml": yaml.safe_dump(twin["twin_types"](types), sort_keys=False, width=140)}
    for path in sorted((ROOT / "tosca/templates").glob("*.yaml")):
        template = read_yaml(path)
        nodes = template["topology_template"]["node_templates"]
        servers = [name for name, node in nodes.items() if node["type"] == twin["COMPUTE"]]
        hosts = {name: [f"192.0.2.{10 * number + 1}"] for number, name in enumerate(servers)}
        # A pool of workers has two.
        hosts.update({name: [*own, own[0] + "2"] for name, own in hosts.items() if "wn" in name})
        try:
            made = yaml.safe_dump(twin["twin_template"](template, types, hosts), sort_keys=False, width=140)
        except twin["Unfit"] as error:
            made = f"{error}\n"
        found[f"tosca/{path.name}"] = made
    return found


def balancer() -> dict[str, str]:
    """Return haproxy.cfg and its map of host names for some applications, and what is refused."""
    given = read_yaml(HERE / "programs/marathon_apps.yml")
    own: dict[str, t.Any] = given["settings"]
    found = {}
    for name, tls in (("plain", ""), ("tls", "/etc/marathon-lb/tls")):
        networks = tuple(ipaddress.ip_network(one) for one in own["networks"])
        site = balancer_apps.Site(tuple(own["groups"]), networks, True, bool(tls))
        reading = balancer_apps.read(given["apps"], site, lambda host: f"10.1.0.{len(host)}{host[-1]}")
        ports = balancer_claims.Ports(own["first_port"], own["last_port"], frozenset(), frozenset({80, 443}))
        settled = balancer_claims.settle(reading.services, ports, {}, reading.present, {one.app for one in reading.problems}, ())
        one = balancer_conf.Balancer(
            "/var/lib/marathon-lb", "/run/marathon-lb", tls=tls, trusted=tuple(own["trusted"]), headers=tuple(own["headers"])
        )
        written = balancer_conf.write(settled.services, one)
        found[f"marathon_lb/{name}/haproxy.cfg"] = written.text
        found[f"marathon_lb/{name}/routes"] = written.routes
        found[f"marathon_lb/{name}/problems.txt"] = "".join(f"{problem}\n" for problem in [*reading.problems, *settled.problems])
    return found


def render() -> dict[str, str]:
    return {**xopera(), **balancer()}
