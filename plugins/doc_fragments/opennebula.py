# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Options that all modules for OpenNebula's API have."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
requirements:
  - pyone 7.0 or newer (on a front end, the package python3-pyone of OpenNebula's repository)
notes:
  - Runs on the front end, or wherever the API can be reached by https.
attributes:
  action_group:
    description: Use C(group/deephdc.accelerators.opennebula) in C(module_defaults) to give all modules of OpenNebula the same API.
    support: full
    membership:
      - deephdc.accelerators.opennebula
options:
  endpoint:
    description: URL of the API by XML-RPC. On another host than this it must be https, as the password goes with each call.
    type: str
    default: http://localhost:2633/RPC2
  auth_file:
    description: File with one line, C(user:password), that only its owner can read. OpenNebula makes that of its administrator itself.
    type: path
    default: /var/lib/one/.one/one_auth
  ca_file:
    description: Certificates of authorities that are trusted, instead of the machine's own.
    type: path
"""
