#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Divide idle NVIDIA GPUs into MIG instances."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_mig
version_added: 0.1.0
short_description: Divide idle NVIDIA GPUs into MIG instances
author: deephdc.accelerators contributors (@deephdc)
description:
  - Divides GPUs into MIG instances, each with one compute instance that takes the whole GPU instance. A GPU that has its layout already
    is not touched, even if it is in use. A GPU that no layout names is not touched either.
  - First, all layouts are compared with the profiles of all GPUs. Every GPU to be changed must be idle. Otherwise the module changes
    nothing and fails, with one sentence per reason. NVIDIA's persistence daemon and fabric manager, which serve the GPUs,
    do not count as use.
  - A GPU with another layout loses all of its instances before it gets the new ones. An instance that stays could be in the
    place of a new one. If the driver refuses the new instances, the GPU gets its former ones again. If MIG was off, it is turned off again.
  - Before a change, the module writes the file C(/var/lib/deephdc/nvidia_mig_changed). The role nvidia_driver removes it after it has
    regenerated the CDI specification, which lists the instances.
  - Instances do not survive a reboot. The role nvidia_driver has a service that makes them again.
requirements:
  - NVIDIA's driver, loaded, and nvidia-smi.
attributes:
  check_mode:
    description: Predicts the change without making it. If the driver is not loaded yet, it predicts a change of every GPU.
    support: full
  diff_mode:
    description: Shows the instances of each GPU.
    support: full
options:
  layouts:
    description: Layouts and the GPUs that get them.
    type: list
    elements: dict
    required: true
    suboptions:
      devices:
        description: Types such as V(a100), PCI addresses such as V(0000:41:00.0), or V(all).
        type: list
        elements: str
        required: true
      instances:
        description: >-
          How many instances of each of NVIDIA's profiles, such as V({"3g.40gb": 2}). Empty for MIG without instances.
        type: dict
        default: {}
      enabled:
        description: Whether MIG is on. V(false) removes all instances.
        type: bool
        default: true
  root:
    description: Prefix of C(/sys), C(/proc) and C(/dev) that the accelerators are read from.
    type: path
    default: /
seealso:
  - module: deephdc.accelerators.gpu_facts
  - name: NVIDIA Multi-Instance GPU User Guide
    description: What MIG is, and the profiles of each GPU.
    link: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/
"""

EXAMPLES = r"""
- name: Divide all H100 into seven, and the GPU at one address into two
  deephdc.accelerators.nvidia_mig:
    layouts:
      - {devices: [h100], instances: {1g.10gb: 7}}
      - {devices: ["0000:41:00.0"], instances: {3g.40gb: 2}}

- name: Turn MIG off
  deephdc.accelerators.nvidia_mig:
    layouts:
      - {devices: [all], enabled: false}
"""

RETURN = r"""
gpus:
  description: The layout of each GPU that O(layouts) names, in the order of the addresses.
  type: list
  elements: dict
  returned: success
  contains:
    pci_address:
      description: PCI address.
      type: str
    bus_id:
      description: The address as nvidia-smi writes it.
      type: str
    enabled:
      description: Whether MIG is on.
      type: bool
    instances:
      description: Profiles of its instances, biggest first.
      type: list
      elements: str
  sample: [{"pci_address": "0000:41:00.0", "bus_id": "00000000:41:00.0", "enabled": true, "instances": ["3g.40gb", "3g.40gb"]}]
pending:
  description: What waits for the next boot and why, one sentence each.
  type: list
  elements: str
  returned: success
divided:
  description: Whether instances changed, or would in check mode. V(false) if the driver is not loaded, because then it is not known.
  type: bool
  returned: success
in_use:
  description: Whether the only reason why nothing was changed is that a GPU is in use.
  type: bool
  returned: failure
reboot_needed:
  description: Whether something waits for the next boot.
  type: bool
  returned: success
"""

import os
import re

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu import facts as gpu_facts
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu import kernel_log, nvidia
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.bounded_command import TimeBudget, run_bounded
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.vendors import NVIDIA
from ansible_collections.deephdc.accelerators.plugins.module_utils._host.durable_file import replace as replace_file
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.module_utils._nvidia_driver import fabric, mig
from ansible_collections.deephdc.accelerators.plugins.module_utils._passthrough import iommu

# Written before a change and removed after the CDI specification was regenerated, so that the next run completes a run that was killed.
NOTE = "/var/lib/deephdc/nvidia_mig_changed"

# Seconds that one question or order may take; a driver that hangs would hold the run for ever. A reset takes some ten.
PATIENCE = 120


class InUse(Refused):
    """A GPU that would be changed is not idle."""


class Smi:
    """Questions and orders to nvidia-smi."""

    def run(self, *arguments: str) -> tuple[int, str]:
        words = ["nvidia-smi", *arguments]
        done = run_bounded(words, TimeBudget(PATIENCE))
        if done.timed_out:
            raise Refused(f"{' '.join(words)} did not end within {PATIENCE} s: `journalctl -k -g NVRM` says why.")
        return done.rc if done.rc is not None else 127, (done.stdout + done.stderr).decode(errors="replace").strip()

    def ask(self, *arguments: str) -> str:
        """The answer to a question. Empty lists of GPUs and instances are answers, too."""
        code, said = self.run(*arguments)
        if code != 0 and not re.match(r"No (MIG-enabled devices|MIG-supported devices|GPU instances|compute instances) found", said):
            raise Refused(f"nvidia-smi {' '.join(arguments)} says: {sentence(said)}")
        return said

    def modes(self) -> dict[str, mig.Mode]:
        return mig.modes(self.ask("--query-gpu=pci.bus_id,mig.mode.current,mig.mode.pending", "--format=csv,noheader"))

    def gpu(self, mode: mig.Mode) -> mig.Gpu:
        if mode.current not in ("Enabled", "Disabled"):
            return mig.Gpu(mode, [], [])
        listed = self.ask("mig", "-i", mode.bus_id, "-lgip")
        places = self.run("mig", "-i", mode.bus_id, "-lgipp")[1]
        return mig.Gpu(mode, mig.profiles(listed, places), self.instances(mode))

    def instances(self, mode: mig.Mode) -> list[str]:
        if mode.current != "Enabled":
            return []
        there = self.ask("mig", "-i", mode.bus_id, "-lgi")
        return mig.instances(there, self.ask("mig", "-i", mode.bus_id, "-lci"))

    def processes(self, bus_id: str) -> list[str]:
        """Return who computes on a GPU, such as 'python3 (process 4711)'.

        This works also where its device files are not seen.
        """
        rows = self.ask("-i", bus_id, "--query-compute-apps=pid,process_name", "--format=csv,noheader").splitlines()
        split = [row.partition(", ") for row in rows]
        return [f"{os.path.basename(name)} (process {pid})" for pid, _comma, name in split if pid.isdigit()]


def sentence(said: str) -> str:
    return " ".join(said.split()).rstrip(".") + "."


def users(smi: Smi, root: str, address: str, bus_id: str, opened: list[iommu.Opened]) -> list[str]:
    found = [f"{process} computes on it" for process in smi.processes(bus_id)]
    return found + [user for user in iommu.users(root, address, opened) if not user.startswith(nvidia.SERVANTS)]


def switch(smi: Smi, mode: mig.Mode, address: str, enabled: bool, may_reset: bool) -> str | None:
    """Turn MIG on or off; why it waits for the next boot, if it does."""
    wanted = "Enabled" if enabled else "Disabled"
    said = smi.run("-i", mode.bus_id, "-mig", str(int(enabled)))[1]
    now = smi.modes()[address]
    if wanted not in (now.current, now.pending):
        raise Refused(f"nvidia-smi -i {mode.bus_id} -mig {int(enabled)} says: {sentence(said)}")
    # GPUs that switches connect can't be reset alone.
    if now.current != wanted and may_reset:
        said = reset(smi, mode.bus_id, address)
        now = smi.modes()[address]
    if now.current != wanted:
        return f"MIG is {'on' if enabled else 'off'} from the next boot on; nvidia-smi says: {sentence(said)}"
    return None


def reset(smi: Smi, bus_id: str, address: str) -> str:
    """Persistence would keep the GPU from being reset, so it is off for the time."""
    kept = smi.ask("-i", bus_id, "--query-gpu=persistence_mode", "--format=csv,noheader") == "Enabled"
    if kept:
        smi.run("-i", bus_id, "-pm", "0")
    try:
        code, said = smi.run("-i", bus_id, "--gpu-reset")
        if code == 0:
            kernel_log.note_reset(address)
        return said
    finally:
        if kept:
            smi.run("-i", bus_id, "-pm", "1")


def replace(smi: Smi, mode: mig.Mode, wanted: list[str]) -> None:
    """Take away the instances of a GPU in MIG mode, and make the wanted ones."""
    if smi.instances(mode):
        smi.run("mig", "-i", mode.bus_id, "-dci")
        code, said = smi.run("mig", "-i", mode.bus_id, "-dgi")
        if code != 0:
            raise Refused(f"nvidia-smi mig -i {mode.bus_id} -dgi says: {sentence(said)}")
    if wanted:
        names = ",".join(wanted)
        said = smi.run("mig", "-i", mode.bus_id, "-cgi", names, "-C")[1]
        if smi.instances(mode) != sorted(wanted):
            raise Refused(f"nvidia-smi mig -i {mode.bus_id} -cgi {names} -C says: {sentence(said)}")


def apply(smi: Smi, name: str, address: str, layout: mig.Layout, gpu: mig.Gpu, may_reset: bool) -> str | None:
    """Give a GPU its layout; what waits for the next boot, if something does."""
    mode = gpu.mode
    wanted = [profile.name for profile in mig.order(layout, gpu.profiles)]
    try:
        if gpu.instances and not layout.enabled:
            replace(smi, mode, [])
        if {mode.current, mode.pending} != {"Enabled" if layout.enabled else "Disabled"}:
            waits = switch(smi, mode, address, layout.enabled, may_reset)
            if waits:
                return f"{name}: {waits}"
        if layout.enabled and not mig.keeps_instances(layout, gpu):
            replace(smi, mode._replace(current="Enabled"), wanted)
    except Refused as reason:
        raise Refused(f"{name} did not get its MIG layout: {reason} {recover(smi, address, gpu, may_reset)}") from reason
    return None


def recover(smi: Smi, address: str, gpu: mig.Gpu, may_reset: bool) -> str:
    """Give a GPU its former mode and instances again; what became of it."""
    was_on = gpu.mode.current == "Enabled"
    names = [instance.split()[0] for instance in gpu.instances]
    former = mig.Layout(was_on, {name: names.count(name) for name in names})
    try:
        mode = smi.modes().get(address)
        if mode is None or (mode.current, mode.pending) == ("Disabled", "Disabled"):
            return "MIG is off there now."
        if not was_on:
            replace(smi, mode, [])
            waits = switch(smi, mode, address, False, may_reset)
            return waits or "MIG is off there again."
        if smi.instances(mode) != gpu.instances:
            replace(smi, mode, [profile.name for profile in mig.order(former, gpu.profiles)])
    except Refused as reason:
        return f"It could not get its former {'instances' if was_on else 'mode'} again: {reason}"
    divided = [instance for instance in gpu.instances if "(" in instance]
    lost = f" Not so what was inside of them: {', '.join(divided)}." if divided else ""
    return f"It has its former instances: {mig.described(True, former.instances)}.{lost}"


def note_change() -> None:
    replace_file(NOTE, "Made by deephdc.accelerators. MIG instances changed, what lists them may be old.\n")


def bring_about(module: AnsibleModule) -> dict:
    root, smi = module.params["root"], Smi()
    accelerators = {entry["pci_address"]: entry for entry in gpu_facts.gather(root, (NVIDIA.name,))}
    layouts, errors = mig.choose(module.params["layouts"], list(accelerators.values()))
    if errors:
        raise Refused(" ".join(errors))
    names = {address: mig.named(accelerators[address]) for address in layouts}
    if module.check_mode and not (module.get_bin_path("nvidia-smi") and nvidia.is_loaded(root)):
        return {"changed": True, "divided": False, "gpus": [], "pending": [], "reboot_needed": False}
    if not module.get_bin_path("nvidia-smi"):
        raise Refused("nvidia-smi is not there: NVIDIA's driver has to be installed first.")
    modes = smi.modes()
    gpus = {address: smi.gpu(modes[address]) if address in modes else None for address in sorted(layouts)}
    errors = [reason for address, gpu in gpus.items() for reason in mig.faults(names[address], layouts[address], gpu)]
    if errors:
        raise Refused(" ".join(errors))
    before = {address: gpu for address, gpu in gpus.items() if gpu is not None}
    changing = [address for address, gpu in before.items() if not mig.is_as_wanted(layouts[address], gpu)]
    opened = iommu.opened_devices() if changing else []
    for address in changing:
        if mig.keeps_instances(layouts[address], before[address]):
            continue
        found = users(smi, root, address, before[address].mode.bus_id, opened)
        if found:
            errors.append(f"{names[address]} keeps its MIG layout, as it is in use: {', '.join(found[:3])}. End that first.")
    if errors:
        raise InUse(" ".join(errors))

    after = "".join(
        f"{names[address]}: {mig.described(layouts[address].enabled, layouts[address].instances)}\n"
        if address in changing
        else mig.listing(names[address], gpu)
        for address, gpu in before.items()
    )
    pending = []
    changed = any(not mig.waits_for_boot(layouts[address], before[address]) for address in changing)
    if not module.check_mode:
        may_reset = not fabric.connects([entry["type"] for entry in accelerators.values()], root)
        if changed:
            note_change()
        waiting = [apply(smi, names[address], address, layouts[address], before[address], may_reset) for address in changing]
        pending = [reason for reason in waiting if reason]
        modes = smi.modes() if changing else modes
        now = {
            address: gpu._replace(mode=modes[address], instances=smi.instances(modes[address])) if address in changing else gpu
            for address, gpu in before.items()
        }
        after = "".join(mig.listing(names[address], gpu) for address, gpu in now.items())
        if now != before and not changed:  # what waited for a boot could be brought about nevertheless
            note_change()
        changed = now != before
    return {
        "changed": changed,
        "divided": changed,
        "gpus": [
            {
                "pci_address": address,
                "bus_id": gpu.mode.bus_id,
                "enabled": layouts[address].enabled,
                "instances": [profile.name for profile in mig.order(layouts[address], gpu.profiles)],
            }
            for address, gpu in before.items()
        ],
        "pending": pending,
        "reboot_needed": bool(pending),
        "diff": {"before": "".join(mig.listing(names[address], gpu) for address, gpu in before.items()), "after": after},
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "layouts": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "devices": {"type": "list", "elements": "str", "required": True},
                    "instances": {"type": "dict", "default": {}},
                    "enabled": {"type": "bool", "default": True},
                },
            },
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**bring_about(module))
    except Refused as reason:
        module.fail_json(msg=str(reason), in_use=isinstance(reason, InUse))


if __name__ == "__main__":
    main()
