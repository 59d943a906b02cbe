# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether dpkg's work on a host is complete."""

from __future__ import annotations

import glob
import typing as t

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

JOURNAL = "/var/lib/dpkg/updates/[0-9]*"


def interrupted(module: AnsibleModule) -> bool:
    """Return whether dpkg left packages half done, or a journal.

    apt does nothing with either. ``dpkg --configure -a`` completes both.
    """
    return bool(glob.glob(JOURNAL) or module.run_command(["dpkg", "--audit"])[1].strip())
