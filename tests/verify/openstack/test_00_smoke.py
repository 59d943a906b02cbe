"""OpenStack from bare hosts to a user's server with a GPU, and a second run without a change."""

from __future__ import annotations

OWNS = (
    "playbooks/openstack.yml",
    "roles/nova_lxd",
    "roles/openstack_cloud",
    "roles/openstack_control_plane",
    "roles/openstack_database",
    "roles/openstack_linuxbridge",
    "roles/openstack_messaging",
    "roles/openstack_network",
    "plugins/filter/openstack.py",
    "plugins/module_utils/_openstack/cloud.py",
    "plugins/modules/openstack_offers.py",
    "plugins/plugin_utils/_openstack",
    "extensions/molecule/openstack",
    "inventories/local_openstack",
    "scripts/demo-openstack",
    "tests/verify/openstack/make_image",
)
