# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Why a server's GPU is lost, as a property of the server.

Its owner reads it with C(openstack server show).
"""

from __future__ import annotations

from typing import Any, Mapping

from nova import exception, objects
from oslo_log import log

LOG = log.getLogger(__name__)

PROPERTY = "gpu_lost"
LONGEST = 255  # characters of a property


class Notices:
    """The properties that were written, so that Nova is asked only for changes."""

    def __init__(self) -> None:
        self.written: dict[str, str] = {}

    def publish(self, context: Any, wanted: Mapping[str, str]) -> None:
        """Write the property of each server with GPUs, or remove an empty one.

        :arg wanted: the sentence by UUID of the server.
        """
        for uuid, text in wanted.items():
            sentence = text[:LONGEST]
            if self.written.get(uuid) == sentence:
                continue
            try:
                _write(objects.Instance.get_by_uuid(context, uuid, expected_attrs=["metadata"]), sentence)
                self.written[uuid] = sentence
            except exception.InstanceNotFound:
                pass  # because Nova is deleting it
            except Exception:
                LOG.exception("The owner of server %s was not informed: %s", uuid, sentence)
        self.written = {uuid: text for uuid, text in self.written.items() if uuid in wanted}


def _write(instance: Any, sentence: str) -> None:
    if instance.metadata.get(PROPERTY, "") == sentence:
        return
    metadata = {key: value for key, value in instance.metadata.items() if key != PROPERTY}
    if sentence:
        metadata[PROPERTY] = sentence
    instance.metadata = metadata
    instance.save()
