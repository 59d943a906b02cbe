# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""nova-compute's record of itself.

Operators and the scheduler read there that LXD does not answer.
"""

from __future__ import annotations

from typing import Any

from nova import context as nova_context
from nova import exception, objects
from oslo_log import log

LOG = log.getLogger(__name__)

PREFIX = "AUTO: "  # of the reasons that the driver gave, as other drivers of Nova do; an operator's are left alone
LONGEST = 255  # characters of a reason


def report(host: str, virtapi: object, problem: str) -> None:
    """Disable the compute service with a problem as the reason, or enable it.

    A service that an operator disabled stays as it is. Whatever fails here is logged: it is tried again in a minute.
    """
    context = nova_context.get_admin_context()
    reason = (PREFIX + problem)[:LONGEST] if problem else None
    try:
        service = objects.Service.get_by_compute_host(context, host)
        automatic = str(service.disabled_reason or "").startswith(PREFIX)
        if (service.disabled and not automatic) or (service.disabled, service.disabled_reason or None) == (bool(reason), reason):
            return
        service.disabled = bool(reason)
        service.disabled_reason = reason
        service.save()
        LOG.warning("The compute service is %s: %s", "disabled" if reason else "enabled", problem or "LXD answers again.")
        nova: Any = virtapi  # because Nova has no types
        nova.update_compute_provider_status(context, service.compute_node.uuid, enabled=not reason)
    except exception.ComputeHostNotFound:
        LOG.debug("The compute service of %s is not registered yet.", host)
    except Exception:
        LOG.exception("The compute service's record was not updated.")
