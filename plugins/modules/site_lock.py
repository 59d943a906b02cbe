#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The documentation of an action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: site_lock
version_added: 0.1.0
short_description: Let one run at a time change a site
author: deephdc.accelerators contributors (@deephdc)
description:
  - Writes on a host, in C(/run/deephdc/site_lock), which run changes the site. Fails while another run has the lock, and names its person,
    control node, playbook and time.
  - A process on the control node keeps the lock as long as the run of Ansible lives, and gives it back within a second after its end,
    however it ended. If the control node itself is gone, the lock ends three minutes later.
  - A later use in the same run does nothing. The lock of a run that was killed together with that process is taken over at once
    from the same control node.
  - Needs root, and C(flock) of util-linux. Any connection of Ansible will do that starts a program for each task.
attributes:
  check_mode:
    description: Takes the lock too. Skip the task to only look.
    support: full
  diff_mode:
    description: Shows nothing.
    support: none
  action:
    description: Runs on the control node, and a shell script on the host.
    support: full
options:
  host:
    description: The name of the host in messages.
    type: str
    required: true
  ended:
    description: A run whose lock may be taken, as the message names it. For a run that is known to have ended.
    type: str
    default: ''
"""

EXAMPLES = r"""
- name: Take the lock of the site
  deephdc.accelerators.site_lock:
    host: ctl
  delegate_to: ctl
  run_once: true
"""

RETURN = r"""
msg:
  description: Whose lock was taken over.
  type: str
  returned: where another run had not given it back
  sample: >-
    Another run ended without giving the lock of the site back: ada on admin1 with slurm.yml, since 2026-11-28 14:02 UTC.
    This run has it now.
"""
