"""A GPU host from a bare one to a user who opens its GPUs, and a second run without a change."""

from __future__ import annotations

OWNS = (
    "playbooks/gpu_hosts.yml",
    "extensions/molecule/gpu_host",
)
