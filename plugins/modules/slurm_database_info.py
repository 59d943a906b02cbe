#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Read which clusters SLURM's accounting database knows, and their jobs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_database_info
version_added: 0.1.0
short_description: Read which clusters SLURM's accounting database knows, and how many jobs each has run
author: deephdc.accelerators contributors (@deephdc)
description:
  - Asks the database that C(slurmdbd.conf) names, on the host of slurmdbd and as root. slurmdbd need not run.
  - The role slurm_cluster compares the result with the state that the controllers have, so that no cluster begins again with job 1.
extends_documentation_fragment: deephdc.accelerators.reads
options: {}
seealso:
  - module: deephdc.accelerators.slurm_record_info
"""

EXAMPLES = r"""
- name: Read the clusters that slurmdbd knows
  deephdc.accelerators.slurm_database_info:
  register: accounted
"""

RETURN = r"""
clusters:
  description:
    - Number of jobs (C(jobs)) and last address of slurmctld (C(control_host)) of each cluster.
    - Empty where slurmdbd is not configured yet, or its database does not answer.
  type: dict
  returned: always
  sample: {"physics": {"jobs": 1200, "control_host": "10.0.0.1"}}
known:
  description:
    - Whether these are all that there are. Not where the database does not answer, nor where slurmdbd is not configured beside a MariaDB,
      as records may have been copied there.
  type: bool
  returned: always
  sample: true
"""

import os
import re
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.database import CONFIGURATION, Database


def clusters(database: Database) -> dict[str, dict[str, t.Any]]:
    tables = set(database.tables())
    if "cluster_table" not in tables:
        return {}
    found: dict[str, dict[str, t.Any]] = {}
    for name, host in database.query("select name, control_host from cluster_table where deleted = 0", database.name):
        table = f"{name}_job_table"
        if re.fullmatch(r"[\w-]+", name) and table in tables:
            ((number,),) = database.query(f"select count(*) from `{table}`", database.name)
            found[name] = {"jobs": int(number), "control_host": host}
    return found


def main() -> None:
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    found: dict[str, dict[str, t.Any]] = {}
    known = True
    if os.path.exists(CONFIGURATION):
        try:
            found = clusters(Database(module))
        except ValueError as error:
            known = False
            module.warn(f"The clusters that slurmdbd knows were not compared with the controllers: {error}")
    elif module.get_bin_path("mariadbd") or module.get_bin_path("mysqld"):
        known = False
    module.exit_json(changed=False, clusters=found, known=known)


if __name__ == "__main__":
    main()
