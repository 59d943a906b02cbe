"""OpenNebula from bare hosts to a user's machine with a GPU, and a second run without a change."""

from __future__ import annotations

OWNS = (
    "playbooks/opennebula.yml",
    "roles/opennebula_host",
    "roles/opennebula_pci",
    "extensions/molecule/opennebula",
    "tests/stand_ins/onehost",
    "tests/stand_ins/opennebula_*.py",
)
