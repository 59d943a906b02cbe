# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The templates as users have them, with types and artifacts of the working tree in the place of those of a release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = sorted((ROOT / "tosca/templates").glob("*.yaml"))


def local(path: Path) -> dict[str, Any]:
    template = yaml.safe_load(path.read_text(encoding="utf-8"))
    template["imports"] = [{"deephdc_types": str(ROOT / "tosca/types/deephdc.yaml")}]
    template["repositories"]["deephdc_artifacts"]["url"] = f"file://{ROOT}/tosca/artifacts/"
    return dict(template)
