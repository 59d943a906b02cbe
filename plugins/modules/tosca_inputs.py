#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The documentation of an action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tosca_inputs
version_added: 0.1.0
short_description: Take an orchestrator's inputs as data
author: deephdc.accelerators contributors (@deephdc)
description:
  - Returns the inputs of an orchestrator of TOSCA marked as data, before anything evaluates them.
    What a user writes into a template becomes such a variable, and would run on the orchestrator's machine.
  - Texts arrive as they are. Only the expressions that the Infrastructure Manager writes for addresses are replaced by these.
  - Fails if the orchestrator has variables that belong to the collection, such as those that begin with C(tosca_site_).
  - Fails if a value is no data, if an address is not known, or if the settings of a template have something that they must not set.
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
  inputs:
    description: Names of the inputs. Those that the orchestrator does not give are not returned.
    type: list
    elements: str
    required: true
  numbers:
    description: Names of inputs that are whole numbers, 0 or more. Others are refused; an empty one is 0.
    type: list
    elements: str
    default: []
  settings:
    description: Name of the input that has variables of the collection as a text in YAML. Needs O(manager).
    type: str
  manager:
    description: Which variables the settings may hold.
    type: str
    choices: [slurm, kubernetes, mesos]
"""

EXAMPLES = r"""
- name: Take the inputs of the orchestrator as data
  deephdc.accelerators.tosca_inputs:
    inputs: [cluster_name, cluster_settings]
    settings: cluster_settings
    manager: slurm
  register: given
"""

RETURN = r"""
settings:
  description: The variables of the collection that the settings hold. Beside it each input is returned under its own name.
  returned: success
  type: dict
  sample: {slurm_cluster_memory_reserve_mib: 2048}
"""
