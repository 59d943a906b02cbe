# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The GPUs of this host between Placement and LXD.

Placement gives them to servers; LXD's instances say who has them.
"""

from __future__ import annotations

from typing import Any

import nova.conf
from nova import context as nova_context
from nova import exception
from nova.scheduler.client import report
from oslo_log import log

from . import devices, instances, providers
from .errors import InvalidInventory
from .notices import Notices

CONF = nova.conf.CONF
LOG = log.getLogger(__name__)


class Gpus:
    """What is known of them since the last minute's update."""

    def __init__(self) -> None:
        self.notices = Notices()
        self.known: dict[str, str] = {}  # identifiers by the UUID of their provider in Placement
        self.root = ""  # the UUID of the host's provider

    def update(self, tree: Any, nodename: str, records: list[instances.Record]) -> None:
        """Bring Placement up to date, and inform owners whose GPU is lost or came back."""
        try:
            gpus = devices.read(CONF.lxd.gpus)
        except InvalidInventory as error:
            LOG.error("The GPUs in Placement stay as they are: %s", error)
            return
        self.root = tree.data(nodename).uuid
        self.known = providers.update(tree, nodename, gpus, _in_use)
        lost = {record["config"][instances.UUID]: " ".join(devices.why_lost(ids, gpus)) for record in records if (ids := _ids(record))}
        self.notices.publish(nova_context.get_admin_context(), lost)

    def allocated(self, allocations: Any) -> list[devices.Gpu]:
        """Read which GPUs Placement gave to a server.

        :raises ComputeResourcesUnavailable: one can't be used now; Nova tries another host.
        """
        unknown = providers.unknown_classes(allocations, self.known, self.root)
        if unknown:
            raise exception.ComputeResourcesUnavailable(reason=f"The host does not know which device Placement means by {unknown[0]}.")
        ids = providers.allocated(allocations, self.known)
        try:
            gpus = devices.read(CONF.lxd.gpus) if ids else {}
        except InvalidInventory as error:
            raise exception.ComputeResourcesUnavailable(reason=str(error)) from error
        lost = devices.why_lost(ids, gpus)
        if lost:
            raise exception.ComputeResourcesUnavailable(reason=lost[0])
        return [gpus[key] for key in ids]


def lost(record: instances.Record) -> list[str]:
    """Say which GPUs of a server are lost, and why.

    A file that can't be read makes none lost: LXD will see.
    """
    ids = _ids(record)
    try:
        return devices.why_lost(ids, devices.read(CONF.lxd.gpus)) if ids else []
    except InvalidInventory as error:
        LOG.error("It is unknown whether GPUs are lost: %s", error)
        return []


def refuse_lost(record: instances.Record) -> None:
    """Refuse to start a server without its GPU.

    :raises InstancePowerOnFailure: with which GPU it is, and why it is lost.
    """
    sentences = lost(record)
    if sentences:
        raise exception.InstancePowerOnFailure(reason=" ".join(sentences))


def _ids(record: instances.Record) -> list[str]:
    return [key for key in str(record["config"].get(instances.GPUS, "")).split(",") if key]


def _in_use(provider: str) -> bool:
    """Say whether a server has something of the provider; yes if nothing answers."""
    try:
        context = nova_context.get_admin_context()
        return bool(report.report_client_singleton().get_allocations_for_resource_provider(context, provider).allocations)
    except Exception:
        LOG.warning("The provider %s of a GPU stays: Placement did not say whether it is in use.", provider)
        return True
