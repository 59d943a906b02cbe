"""The stand-in of a DRA driver, and which device a pod has."""

from __future__ import annotations

import yaml
from kubernetes_site import KUBECTL, Site
from local import ROOT

DRIVER = yaml.safe_load((ROOT / "tests/kubernetes/stand_ins/gpu-dra.yml").read_text(encoding="utf-8"))


def device_of(site: Site, name: str) -> tuple[str, str]:
    """Node and number of the one device that a running pod can open.

    All others must be denied.
    """
    site.phase(name, "Running")
    site.until("cp1", f"{KUBECTL} logs {name}", "own ")
    lines = site.logs(name).splitlines()
    own = lines[-1].split()[1]
    assert [line for line in lines if line.startswith("has ")] == [f"has /dev/nvidia{own}"], lines
    foreign = [line for line in lines if line.startswith(f"{1 - int(own)}: ")]
    assert len(foreign) == 1 and "Operation not permitted" in foreign[0], lines
    return site.get(f"pod {name}")["spec"]["nodeName"], own
