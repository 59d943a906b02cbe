#!/usr/bin/python3 -B
# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Before a job: its GPUs must be there and well.

A job that shares a GPU by MPS gets its daemon.
Where that is not so, the node is drained with a reason that names the device, and SLURM lets the job wait for another node.
"""

import os
import sys

import slurm_gpus
import slurm_mps


def main():
    gpus = slurm_gpus.of_job()
    if not gpus:
        return 0
    wrong = slurm_gpus.problems(gpus)
    if not wrong and slurm_mps.is_wanted():
        wrong = slurm_mps.start(gpus)
    if not wrong:
        return 0
    slurm_gpus.drain(os.environ["SLURMD_NODENAME"], slurm_gpus.MARK + "; ".join(wrong))
    return 1


if __name__ == "__main__":
    sys.exit(slurm_gpus.guarded(main))
