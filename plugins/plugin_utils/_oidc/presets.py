# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What well-known systems need of the front.

These are definitions that a backend takes up by its key preset. They say nothing about who may come in: provider, audience,
scopes and groups are always the site's own decision.
"""

from __future__ import annotations

import typing as t

API = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
MIB = 1024 * 1024

PRESETS: dict[str, dict[str, t.Any]] = {
    # Schedulers' and frameworks' events are streams of chunks that never end.
    "mesos": {
        "path": "/mesos/",
        "access": "both",
        "methods": ["GET", "HEAD", "POST"],
        "sse_paths": ["api/v1"],
        "timeout": 60,
        "body_limit": 4 * MIB,
    },
    "marathon": {
        "path": "/marathon/",
        "access": "both",
        "methods": API,
        "sse_paths": ["v2/events"],
        "timeout": 60,
        "body_limit": 4 * MIB,
    },
    "chronos": {"path": "/chronos/", "access": "both", "methods": API, "timeout": 60, "body_limit": MIB},
    # preserve_host: these compare their own name with the one that the browser asked for.
    # Sunstone has its own login behind the front; its console needs websockets.
    "opennebula": {
        "path": "/",
        "access": "browser",
        "preserve_host": True,
        "methods": API,
        "websocket": True,
        "timeout": 300,
        "body_limit": 1024 * MIB,
    },
    # Horizon logs in by its own session cookies and passes images through.
    "horizon": {"path": "/", "access": "browser", "preserve_host": True, "methods": API, "timeout": 300, "body_limit": 1024 * MIB},
    # The gateway of the role slurm_gateway decides by issuer and subject alone.
    "slurm_rest": {
        "path": "/slurm/",
        "access": "bearer",
        "methods": ["GET", "POST", "DELETE"],
        "upstreams": ["unix:/run/slurm_gateway/http.socket|http://localhost/"],
        "user_header": "",
        "claims_headers": {"X-Token-Issuer": "iss", "X-Token-Subject": "sub"},
        "timeout": 60,
        "body_limit": MIB,
    },
    "prometheus": {"path": "/prometheus/", "access": "browser", "methods": ["GET", "HEAD", "POST"], "timeout": 60, "body_limit": MIB},
    # Grafana: [auth.proxy] enabled, header_name = X-WEBAUTH-USER; live dashboards are a websocket.
    "grafana": {
        "path": "/grafana/",
        "access": "browser",
        "preserve_host": True,
        "methods": API,
        "user_header": "X-WEBAUTH-USER",
        "websocket": True,
        "timeout": 60,
        "body_limit": 16 * MIB,
    },
    # JupyterHub: an authenticator that reads X-Remote-User; kernels are websockets.
    "jupyterhub": {
        "path": "/",
        "access": "browser",
        "preserve_host": True,
        "methods": API,
        "websocket": True,
        "timeout": 300,
        "body_limit": 256 * MIB,
    },
}
