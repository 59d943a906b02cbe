#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Read a SLURM controller's record of accelerators and slurmctld's state."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_record_info
version_added: 0.1.0
short_description: Read which accelerators a SLURM controller promises, which nodes are busy, and where slurmctld's state is
author: deephdc.accelerators contributors (@deephdc)
description:
  - Reads the record that the role slurm_cluster keeps on the controller. It has the accelerators of every node as they were
    configured last. A device that is in the record and not in the node's facts was lost.
  - Looks at the directory in which slurmctld keeps its state, and at the one that its present configuration names.
extends_documentation_fragment: deephdc.accelerators.reads
options:
  path:
    description: Path of the record.
    type: path
    default: /var/lib/deephdc/slurm_accelerators
  state_directory:
    description: Directory in which slurmctld must keep its state.
    type: path
    default: /var/lib/slurm/slurmctld
  conf:
    description: The slurm.conf that slurmctld runs with now.
    type: path
    default: /etc/slurm/slurm.conf
  stamp:
    description: The file in which slurmctld's unit notes the state directory that slurmctld was started with last.
    type: path
    default: /var/lib/deephdc/slurm_state
  moved:
    description: The file in which the playbook slurm_move_controller notes to which host the state of this one moved.
    type: path
    default: /var/lib/deephdc/slurm_moved
  user:
    description:
      - The user that slurmctld runs as.
      - The directories are read as that user, because a shared file system may map root to the user C(nobody).
    type: str
    default: slurm
"""

EXAMPLES = r"""
- name: Read the record
  deephdc.accelerators.slurm_record_info:
  register: record
"""

RETURN = r"""
record:
  description: The record's text, empty where there is none yet.
  type: str
  returned: always
cluster:
  description: C(ClusterName) of the present configuration, empty where there is none.
  type: str
  returned: always
ports:
  description: C(SlurmctldPort) and C(SlurmdPort) of the present configuration; empty on a host without one.
  type: dict
  returned: always
  sample: {"SlurmctldPort": "6817", "SlurmdPort": "6818"}
shapes:
  description: What the cores of each node of the present configuration are, by the keys of a line of slurm.conf in lower case.
  type: dict
  returned: always
  sample: {"gpu1": {"boards": "1", "socketsperboard": "2", "corespersocket": "32"}}
databases:
  description: C(AccountingStorageHost) and C(AccountingStorageBackupHost) of the present configuration.
  type: list
  elements: str
  returned: always
  sample: [192.0.2.3]
partitions:
  description: Partitions of the present configuration.
  type: list
  elements: str
  returned: always
  sample: [batch]
jobs:
  description:
    - Pending and running jobs by partition (C(partitions)) and running jobs by node (C(nodes)), each with their number (C(count)) and a few
      of them in words (C(some)). V(null) if slurmctld does not answer.
  type: dict
  returned: always
  sample: {"partitions": {"batch": {"count": 1, "some": ["17 of alice"]}}, "nodes": {"gpu1": {"count": 1, "some": ["17 of alice"]}}}
unreadable:
  description: The path that is there and can't be read.
  type: str
  returned: on such a failure
recorded_at:
  description: When the record was written last, in seconds since 1970; 0 where there is none.
  type: float
  returned: always
state:
  description:
    - Whether slurmctld runs (C(runs)). Whether its directory has a state (C(has_state)), which one (C(is), equal on hosts that see the same
      files), and where that was copied from (C(copied_from)).
    - Which other user owns the directory (C(foreign)), and the free space there in MiB (C(free_mib)).
    - The directory of the present configuration (C(former)), which state it has (C(former_is)) and its size in MiB (C(former_mib)).
    - With which directory slurmctld was started last (C(started_with)), and to which host the state was moved (C(moved_to)).
  type: dict
  returned: always
"""

import os
import re
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import jobs as slurm_jobs
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import shapes as slurm_shapes
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import state as slurm_state


def settings_of(conf: str) -> tuple[str, list[str]]:
    """ClusterName and the names of the partitions in a slurm.conf."""
    name = re.search(r"(?im)^\s*ClusterName\s*=\s*(\S+)", conf)
    partitions = re.findall(r"(?im)^\s*PartitionName\s*=\s*(\S+)", conf)
    return (name.group(1) if name else ""), [one for one in partitions if one.upper() != "DEFAULT"]


def ports_of(conf: str) -> dict[str, str]:
    """The ports in a slurm.conf; SLURM takes the last of several lines."""
    found = {}
    for name, usual in (("SlurmctldPort", "6817"), ("SlurmdPort", "6818")):
        found[name] = ([usual, *re.findall(rf"(?im)^\s*{name}\s*=\s*\"?([^\s\"#]+)", conf)])[-1]
    return found


def databases_of(conf: str) -> list[str]:
    """The hosts of slurmdbd in a slurm.conf, the first one first."""
    found = (
        re.findall(rf"(?im)^\s*{name}\s*=\s*\"?([^\s\"#]+)", conf) for name in ("AccountingStorageHost", "AccountingStorageBackupHost")
    )
    return [values[-1] for values in found if values]


def jobs(module: AnsibleModule) -> dict[str, t.Any] | None:
    """The jobs that slurmctld knows, None where it does not answer although it should."""
    if not module.get_bin_path("squeue"):
        return slurm_jobs.summary("")
    code, out, _err = module.run_command(["squeue", "--all", "--noheader", f"--format={slurm_jobs.FORMAT}"])
    return slurm_jobs.summary(out) if code == 0 else None


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "default": "/var/lib/deephdc/slurm_accelerators"},
            "state_directory": {"type": "path", "default": "/var/lib/slurm/slurmctld"},
            "conf": {"type": "path", "default": "/etc/slurm/slurm.conf"},
            "stamp": {"type": "path", "default": "/var/lib/deephdc/slurm_state"},
            "moved": {"type": "path", "default": "/var/lib/deephdc/slurm_moved"},
            "user": {"type": "str", "default": "slurm"},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    path = module.params["path"]
    try:
        # The plan reports a damaged record, in one sentence.
        record = slurm_state.known(path)
        recorded_at = os.stat(path).st_mtime if record else 0.0
        state = slurm_state.look(*(module.params[name] for name in ("state_directory", "conf", "stamp", "user")))
        conf = slurm_state.known(module.params["conf"])
        moved = slurm_state.known(module.params["moved"]).strip()
    except OSError as error:
        module.fail_json(
            unreadable=error.filename,
            msg=f"{error.filename} is on this host and can't be read ({error.strerror}), so it is not known what the cluster has. Read the "
            f"host as root (ansible_become: true), let the user {module.params['user']} in, or repair the file system; then run again. "
            "Remove nothing.",
        )
    cluster, partitions = settings_of(conf)
    module.exit_json(
        changed=False,
        record=record,
        recorded_at=recorded_at,
        cluster=cluster,
        ports=ports_of(conf) if cluster else {},
        shapes=slurm_shapes.of_conf(conf) if cluster else {},
        databases=databases_of(conf),
        partitions=partitions,
        jobs=jobs(module) if partitions else slurm_jobs.summary(""),
        state={
            **state,
            "moved_to": moved,
            "runs": module.run_command(["systemctl", "is-active", "--quiet", "slurmctld"])[0] == 0,
        },
    )


if __name__ == "__main__":
    main()
