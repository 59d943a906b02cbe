"""A front from bare hosts to a user's job with a GPU by a token, and a second run without a change."""

from __future__ import annotations

OWNS = (
    "playbooks/oidc_proxy.yml",
    "roles/oidc_proxy",
    "plugins/filter/oidc_proxy.py",
    "extensions/molecule/oidc_proxy",
    "inventories/local_oidc",
    "tests/stand_ins/oidc",
)
