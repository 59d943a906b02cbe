# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A driver for OpenStack Nova whose servers are system containers of LXD.

Placement counts their GPUs. The folder stands in nova/virt, and nova.conf names the driver:
compute_driver = nova_lxd.driver.LXDDriver
"""
