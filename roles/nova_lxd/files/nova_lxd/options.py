# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The section [lxd] of nova.conf."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "lxd"
OPTIONS = [
    cfg.StrOpt("socket", default="/var/lib/lxd/unix.socket", help="LXD's socket; the user nova must be in LXD's group."),
    cfg.StrOpt("pool", default="default", help="LXD's storage pool for the root disks of servers."),
    cfg.StrOpt("gpus", default="/etc/nova/gpus.json", help="The file of the host's GPUs; without the file the host has none."),
    cfg.IntOpt("timeout", default=30, min=2, help="Seconds that LXD may be silent within a request."),
    cfg.IntOpt("patience", default=600, min=10, help="Seconds that LXD may take for one operation, such as unpacking an image."),
    cfg.IntOpt("start_patience", default=60, min=0, help="Seconds that nova-compute waits for LXD at its own start."),
    cfg.IntOpt("processes", default=8192, min=64, help="Processes and threads that a server may have at once."),
    cfg.IntOpt("image_gb", default=40, min=1, help="GiB that an image may take unpacked, where the flavor has no size of a root disk."),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Declare the options; a second time changes nothing."""
    conf.register_opts(OPTIONS, group=GROUP)
