"""Mesos from bare hosts to a user's task with a GPU, and a second run without a change."""

from __future__ import annotations

OWNS = (
    "playbooks/mesos.yml",
    "roles/chronos",
    "roles/marathon",
    "roles/marathon_lb",
    "roles/mesos_agent",
    "roles/mesos_cluster",
    "roles/mesos_master",
    "roles/zookeeper",
    "plugins/filter/mesos_cluster.py",
    "plugins/module_utils/_mesos/api.py",
    "plugins/modules/mesos_host_facts.py",
    "plugins/modules/mesos_offers.py",
    "plugins/plugin_utils/_mesos",
    "extensions/molecule/mesos",
    "tests/stand_ins/mesos",
)
