#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Bring the objects of an OpenStack cloud to what is wanted, in one process."""

from __future__ import annotations

DOCUMENTATION = r"""
module: openstack_objects
version_added: 0.1.0
short_description: Manage a cloud's services, accounts, projects, limits, flavors, images and networks
author: deephdc.accelerators contributors (@deephdc)
description:
  - Compares each kind of object with what is wanted and changes what differs. It needs one login and one module execution for all of them.
  - No server, volume or address is touched. A network or flavor that servers may have is never changed. If it differs, the module fails.
  - What this module made and is no longer wanted is reported in RV(left).
requirements:
  - openstacksdk 0.101 or newer (Debian's python3-openstacksdk)
attributes:
  check_mode:
    description: Predicts the changes, except those that depend on an object that does not exist yet. Without a cloud, everything is new.
    support: full
  diff_mode:
    description: Not needed, the result has a sentence for each change.
    support: none
options:
  cloud:
    description: Name of the cloud in C(/etc/openstack/clouds.yaml), with the account of an administrator.
    type: str
    required: true
  system_cloud:
    description: >-
      Name of the cloud there that is the same one with C(system_scope), as only that scope shows limits of other projects.
      Needed for O(limits) and O(registered_limits).
    type: str
    default: ""
  region:
    description: The region of endpoints and limits.
    type: str
    default: RegionOne
  services:
    description: Entries of the catalogue.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the service.
        type: str
        required: true
      type:
        description: Its type, such as V(compute).
        type: str
        required: true
      url:
        description: Address of its API, the same for all three interfaces.
        type: str
        required: true
  roles:
    description: Roles that must exist.
    type: list
    elements: str
    default: []
  projects:
    description: Projects of the domain Default, each with C(name) and C(description).
    type: list
    elements: dict
    default: []
  users:
    description: Accounts of the domain Default, each with C(name) and C(password).
    type: list
    elements: dict
    default: []
  never_locked:
    description:
      - Names of accounts of the domain Default that no number of wrong passwords locks, such as those of services.
      - Their passwords must be long and random.
    type: list
    elements: str
    default: []
  grants:
    description: For each project, the roles of each account by name. Other accounts lose their roles in these projects.
    type: dict
    default: {}
  system_grants:
    description: For each account, its role in the system scope.
    type: dict
    default: {}
  registered_limits:
    description: For each resource of Nova, such as V(class:CUSTOM_GPU_A100), how much a project without its own limit may use.
    type: dict
    default: {}
  limits:
    description: For each project, how much it may use of each resource of Nova.
    type: dict
    default: {}
  flavors:
    description: Flavors, each with C(name), C(vcpus), C(ram) in MiB, C(disk) in GiB, C(extra_specs) and C(projects). No project means all.
    type: list
    elements: dict
    default: []
  images:
    description: Images, each with C(name), C(path) on this host and C(sha256), and maybe C(disk_format), C(visibility) and C(properties).
    type: list
    elements: dict
    default: []
  networks:
    description: >-
      Networks, each with C(name) and C(cidr), and maybe C(project), C(shared), C(external), C(physical_network), C(dhcp), C(dns),
      C(gateway) and C(pool).
    type: list
    elements: dict
    default: []
  routers:
    description: Routers, each with C(name) and C(networks), and maybe C(project) and C(external), the network to the outside.
    type: list
    elements: dict
    default: []
  identity_providers:
    description: >-
      Identity providers, each with C(name), C(issuer), C(protocol), C(rules) of Keystone's mapping, and C(groups): by name of the group and
      of the project, the roles. Each has its own domain. With O(whole), those that this module made and that are not named are closed,
      and their groups lose their roles.
    type: list
    elements: dict
    default: []
  whole:
    description: Whether O(projects) are all projects that the cloud must have. Then others that this module made are in RV(left).
    type: bool
    default: true
  purge:
    description: Whether flavors that this module made and are no longer wanted are removed.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Give a project two A100
  deephdc.accelerators.openstack_objects:
    cloud: deephdc-admin
    system_cloud: deephdc-system
    projects:
      - {name: physics, description: Simulations}
    limits:
      physics: {"class:CUSTOM_GPU_A100": 2, "class:VCPU": 64, "class:MEMORY_MB": 262144, servers: 10}
"""

RETURN = r"""
changes:
  description: What was changed, or would be in check mode, one sentence each.
  type: list
  elements: str
  returned: success
  sample: ["The project physics is new."]
left:
  description: What exists and is no longer wanted, one sentence each.
  type: list
  elements: str
  returned: success
  sample: ["The flavor gpu-old is no longer wanted."]
endpoints:
  description: Identifier of the public endpoint by name of the service.
  type: dict
  returned: success
  sample: {nova: 5f0e2c}
"""

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.module_utils._openstack import cloud as openstack_cloud
from ansible_collections.deephdc.accelerators.plugins.module_utils._openstack import federation, identity, limits, networks, servers


def accepts(cloud: openstack_cloud.Cloud, name: str, password: str) -> bool:
    """Say whether an account may log in with a password."""
    auth = {
        "identity": {
            "methods": ["password"],
            "password": {"user": {"name": name, "domain": {"id": identity.DOMAIN}, "password": password}},
        },
        "scope": "unscoped",
    }
    answer = cloud.sdk.session.post(
        "/auth/tokens", json={"auth": auth}, authenticated=False, endpoint_filter={"service_type": "identity"}, raise_exc=False
    )
    if answer.status_code not in (201, 401):
        raise Refused(f"Keystone did not say whether the account {name} may log in: status {answer.status_code}.")
    return bool(answer.status_code == 201)


def bring(cloud: openstack_cloud.Cloud, wanted: dict[str, t.Any]) -> dict[str, str]:
    """Bring all kinds to what is wanted, each after those that it needs."""
    endpoints = identity.services(cloud, wanted["services"], wanted["region"])
    identity.roles(cloud, wanted["roles"])
    identity.projects(cloud, wanted["projects"], wanted["whole"])
    identity.users(cloud, wanted["users"], lambda name, password: accepts(cloud, name, password))
    identity.never_locked(cloud, wanted["never_locked"])
    identity.grants(cloud, wanted["grants"])
    identity.system_grants(cloud, wanted["system_grants"])
    if wanted["whole"]:
        federation.bring(cloud, wanted["identity_providers"])
    if wanted["system_cloud"]:
        limits.registered(cloud, "nova", wanted["region"], wanted["registered_limits"])
        limits.of_projects(cloud, "nova", wanted["region"], wanted["limits"])
    if wanted["whole"]:
        servers.flavors(cloud, wanted["flavors"], wanted["purge"])
    if wanted["images"]:
        servers.images(cloud, wanted["images"])
    if wanted["networks"]:
        networks.networks(cloud, wanted["networks"])
    if wanted["routers"]:
        networks.routers(cloud, wanted["routers"])
    return endpoints


def main() -> None:
    kinds = ("projects", "flavors", "images", "networks", "routers", "identity_providers")
    lists = {key: {"type": "list", "elements": "dict", "default": []} for key in kinds}
    dicts = {key: {"type": "dict", "default": {}} for key in ("grants", "system_grants", "registered_limits", "limits")}
    module = AnsibleModule(
        argument_spec={
            "cloud": {"type": "str", "required": True},
            "system_cloud": {"type": "str", "default": ""},
            "region": {"type": "str", "default": "RegionOne"},
            "roles": {"type": "list", "elements": "str", "default": []},
            "never_locked": {"type": "list", "elements": "str", "default": []},
            "users": {"type": "list", "elements": "dict", "default": [], "no_log": False},
            "whole": {"type": "bool", "default": True},
            "purge": {"type": "bool", "default": False},
            **lists,
            **dicts,
            "services": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {key: {"type": "str", "required": True} for key in ("name", "type", "url")},
            },
        },
        supports_check_mode=True,
    )
    if module.check_mode and (openstack_cloud.LIBRARY_ERROR or not os.path.exists(openstack_cloud.CLOUDS)):
        module.exit_json(changed=True, changes=["There is no cloud yet, so all that is wanted is new."], left=[], endpoints={})
    if openstack_cloud.LIBRARY_ERROR:
        module.fail_json(msg=missing_required_lib("openstacksdk"), exception=openstack_cloud.LIBRARY_ERROR)
    try:
        cloud = openstack_cloud.connect(module.params["cloud"], module.params["system_cloud"], module.check_mode)
        endpoints = bring(cloud, module.params)
    except Refused as refused:
        module.fail_json(msg=" ".join(map(str, refused.args)))
    except openstack_cloud.openstack.exceptions.SDKException as error:
        module.fail_json(msg=f"The cloud refused a change: {openstack_cloud.one_line(error)}.")
    module.exit_json(changed=bool(cloud.changes), changes=cloud.changes, left=cloud.left, endpoints=endpoints)


if __name__ == "__main__":
    main()
