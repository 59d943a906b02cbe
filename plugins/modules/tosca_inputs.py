#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The documentation of an action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tosca_inputs
version_added: 0.1.0
short_description: Refuse inputs of an orchestrator that are templates
author: deephdc.accelerators contributors (@deephdc)
description:
  - Fails if a variable has V({{), V({%) or V({#) in a text, before anything evaluates it.
    What a user writes into a TOSCA template becomes such a variable, and would run on the orchestrator's machine.
  - Runs on the control node and needs no host.
attributes:
  check_mode:
    description: Changes nothing.
    support: full
  diff_mode:
    description: Changes nothing.
    support: none
  action:
    description: Runs on the control node alone.
    support: full
options:
  prefixes:
    description: Begins of the names of the inputs.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Refuse inputs of the orchestrator that Ansible would evaluate
  deephdc.accelerators.tosca_inputs:
    prefixes: [cluster_]
"""

RETURN = r"""
"""
