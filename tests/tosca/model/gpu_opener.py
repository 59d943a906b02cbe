# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A model behind the interface of DEEPaaS: a prediction tries to open each GPU of the host and returns what the kernel says."""

from __future__ import annotations

import os
from pathlib import Path


def get_metadata() -> dict[str, str]:
    return {
        "name": "gpu-opener",
        "author": "deephdc.accelerators",
        "author-email": "nobody@example.org",
        "license": "Apache-2.0",
        "version": "1.0",
    }


def warm() -> None:
    """Nothing has to be loaded."""


def get_predict_args() -> dict[str, object]:
    return {}


def predict(**_arguments: object) -> dict[str, str]:
    found = {}
    for path in sorted(Path("/dev").glob("nvidia[0-9]")):
        try:
            os.close(os.open(path, os.O_RDWR))
            found[path.name] = "opened"
        except OSError as error:
            found[path.name] = os.strerror(error.errno or 0)
    return found
