"""The ways in which pods get GPUs, and which device a pod has."""

from __future__ import annotations

from typing import Any

import yaml
from kubernetes_site import KUBECTL, PLAYBOOK, Site
from local import ROOT

DRIVER = yaml.safe_load((ROOT / "tests/kubernetes/stand_ins/gpu-dra.yml").read_text(encoding="utf-8"))
DRA = {"kubernetes_cluster_gpus": "dra", "kubernetes_cluster_dra_manifests": DRIVER}
# What concerns GPUs alone; the plan is made in any case.
ONLY = ("--tags", "kubernetes_cluster,validate")


def deliver(site: Site, succeeds: bool = True, inventories: tuple[str, ...] = ("hosts.yml",), **variables: Any) -> str:
    """A run over what concerns GPUs, in one line."""
    variables.setdefault("kubernetes_cluster_offer_wait", 60 if succeeds else 8)
    return " ".join(site.playbook(PLAYBOOK, *ONLY, variables=variables, succeeds=succeeds, inventories=inventories).split())


def back_to_plugin(site: Site) -> str:
    """The device plugin takes the place of the DRA driver, which is named to have it removed."""
    return deliver(site, kubernetes_cluster_dra_manifests=DRIVER)


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
