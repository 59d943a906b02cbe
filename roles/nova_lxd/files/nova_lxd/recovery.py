# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What a killed nova-compute left half made in LXD, found at the next start."""

from __future__ import annotations

import glob
import os
import shutil

from .client import Client
from .errors import LXDError
from .instances import UNFINISHED, Instances
from .snapshots import clean

FOLDER = "nova-lxd-image-"  # how folders begin into which images are fetched


def recover(client: Client, folder: str) -> list[str]:
    """Clean up, and adopt what runs already.

    No spawn is under way when this is called. An instance whose spawn did not end and that does not run has never run: it is
    deleted. One that runs is left to Nova, which says to its owner that the spawn failed; nothing is stopped here.

    :arg folder: where images are fetched into.
    :returns: what was done, as sentences for a log.
    """
    done = [f"Deleted the {name}, which a snapshot left." for name in clean(client)]
    instances = Instances(client)
    for record in instances.all():
        name = record["name"]
        if UNFINISHED not in record["config"]:
            continue
        instances.settle(name)
        try:
            if instances.status(name) == "Stopped":
                instances.delete(name)
                done.append(f"Deleted {name}, whose spawn was killed before it ran.")
            else:
                instances.edit(name, lambda wanted: wanted["config"].pop(UNFINISHED, None))
                done.append(f"Kept {name}, whose spawn was killed: it runs.")
        except LXDError as error:
            done.append(f"Left {name}, whose spawn was killed, as it is: {error}")
    for path in glob.glob(os.path.join(folder, FOLDER + "*")):
        shutil.rmtree(path, ignore_errors=True)
        done.append(f"Deleted {path}, which a fetched image left.")
    return done
