#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Give the kernel arguments at its next start."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_cmdline
version_added: 0.1.0
short_description: Add arguments to the kernel command line of the next boot
author: deephdc.accelerators contributors (@deephdc)
description:
  - Adds arguments to the kernel's command line in the boot loader's own configuration, GRUB's or systemd-boot's,
    and regenerates the boot loader's menu. Arguments from elsewhere stay as they are.
  - With GRUB, the arguments are in their own file below C(/etc/default/grub.d). With systemd-boot, they are added to
    C(/etc/kernel/cmdline), from which C(kernel-install) makes each entry. What was added is recorded below
    C(/var/lib/deephdc/kernel_cmdline).
  - The menu itself is compared. So if a run is killed between the configuration and the menu, the next run regenerates the menu.
  - The result says whether the running kernel has the arguments already, or a reboot is needed.
attributes:
  check_mode:
    description: Predicts the change without making it.
    support: full
  diff_mode:
    description: Shows the arguments of the next boot.
    support: full
options:
  name:
    description: Name for this set of arguments, so that several roles can each add their own.
    type: str
    required: true
  arguments:
    description:
      - The arguments, such as V(intel_iommu=on), without blanks and quotes.
      - An argument that the configuration has already is not added a second time. If it is there with another value, the module fails.
      - Arguments that this module added earlier under the same O(name) and that are no longer listed are removed.
    type: list
    elements: str
    default: []
  state:
    description: V(absent) removes all arguments that the module added under O(name).
    type: str
    choices: [present, absent]
    default: present
  boot_loader:
    description: V(auto) takes the boot loader that the host started with, or else the one that is configured.
    type: str
    choices: [auto, grub, systemd-boot]
    default: auto
seealso:
  - module: ansible.builtin.reboot
"""

EXAMPLES = r"""
- name: Turn the IOMMU on at the next boot
  deephdc.accelerators.kernel_cmdline:
    name: iommu
    arguments: [intel_iommu=on, iommu=pt]
  register: iommu_arguments

- name: Reboot if the running kernel lacks these arguments
  ansible.builtin.reboot:
  when: iommu_arguments.reboot_needed
"""

RETURN = r"""
boot_loader:
  description: The boot loader whose configuration was compared. V(null) if there is no boot loader and nothing to remove.
  type: str
  returned: success
  sample: grub
reboot_needed:
  description: Whether the running kernel lacks one of the arguments, or still has one that the module removed.
  type: bool
  returned: success
missing_now:
  description: The wanted arguments that the running kernel was not started with.
  type: list
  elements: str
  returned: success
  sample: [intel_iommu=on]
surplus_now:
  description: Arguments that the running kernel was started with and that the module removed.
  type: list
  elements: str
  returned: success
  sample: []
"""

import glob
import json
import os
import re
import shlex

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._host import durable_file
from ansible_collections.deephdc.accelerators.plugins.module_utils._host import kernel_cmdline as cmdline
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused

# Only tests have another one.
ROOT = "/"

GRUB_DEFAULTS = "etc/default/grub"
GRUB_DROPINS = "etc/default/grub.d"
MENU_IS_OLD = "# The menu has not been made anew yet.\n"
GRUB_MENU = "boot/grub/grub.cfg"
KERNEL_CMDLINE = "etc/kernel/cmdline"
# What kernel-install takes where the file above is missing; where this one is too, the running kernel's arguments.
VENDOR_CMDLINE = "usr/lib/kernel/cmdline"
# Where the entries of systemd-boot may be (Boot Loader Specification; Debian mounts the EFI partition at /boot/efi).
ENTRIES = ("boot/loader/entries", "efi/loader/entries", "boot/efi/loader/entries")
# UEFI variable in which the boot loader that started the system leaves its name, UTF-16 after four bytes of attributes.
LOADER_INFO = "sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
RECORDS = "var/lib/deephdc/kernel_cmdline"


class Incomplete(Exception):
    """The files were written, but the next start will not be as wanted.

    The text says why in one sentence.
    """


def path(name: str) -> str:
    return os.path.join(ROOT, name)


def read(name: str) -> str | None:
    try:
        with open(path(name), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def replace(name: str, text: str | None) -> None:
    """Write a file in one step, or remove it."""
    if text is None:
        if os.path.lexists(path(name)):
            os.unlink(path(name))
        return
    durable_file.replace(path(name), text)


def entries() -> list[str]:
    return sorted(found for directory in ENTRIES for found in glob.glob(os.path.join(path(directory), "*.conf")))


def kernels() -> list[str]:
    return sorted(os.path.basename(name)[len("vmlinuz-") :] for name in glob.glob(path("boot/vmlinuz-*")))


def boot_loader(wanted: str) -> str:
    if wanted != "auto":
        return wanted
    try:
        with open(path(LOADER_INFO), "rb") as file:
            started_by = file.read()[4:].decode("utf-16-le", "replace")
    except OSError:
        started_by = ""  # a BIOS, or a boot loader that leaves no name
    if started_by.startswith("systemd-boot"):
        return "systemd-boot"
    if read(GRUB_MENU) is not None:
        return "grub"
    if entries():
        return "systemd-boot"
    raise Refused(
        "this host has neither a menu of GRUB (/boot/grub/grub.cfg) nor entries of systemd-boot; give the kernel its arguments by hand"
    )


class Grub:
    """The arguments in a file of /etc/default/grub.d.

    update-grub makes the menu of it.
    """

    def __init__(self, module: AnsibleModule, name: str) -> None:
        self.module = module
        self.dropin = f"{GRUB_DROPINS}/90-{name}.cfg"
        present = read(self.dropin)
        if present is not None and not present.startswith(cmdline.grub_dropin([]).splitlines()[0]):
            raise Refused(f"/{self.dropin} is not this module's file; rename it")
        self.foreign = self._foreign()

    def _foreign(self) -> list[str]:
        """What all other files say, read as update-grub does."""
        others = sorted(file for file in glob.glob(os.path.join(path(GRUB_DROPINS), "*.cfg")) if file != path(self.dropin))
        files = [file for file in [path(GRUB_DEFAULTS), *others] if os.path.exists(file)]
        script = "".join(f". {shlex.quote(file)}\n" for file in files) + 'printf "%s " "$GRUB_CMDLINE_LINUX" "$GRUB_CMDLINE_LINUX_DEFAULT"'
        code, out, err = self.module.run_command(["/bin/sh", "-c", script])
        if code != 0:
            raise Refused(f"GRUB's settings in /etc/default/grub and /etc/default/grub.d can't be read: {' '.join(err.split())}")
        return out.split()

    def added(self) -> list[str]:
        match = re.search(r'^GRUB_CMDLINE_LINUX="\$GRUB_CMDLINE_LINUX (.*)"$', read(self.dropin) or "", re.MULTILINE)
        return match.group(1).split() if match else []

    def configured(self, arguments: list[str]) -> bool:
        return read(self.dropin) == (cmdline.grub_dropin(arguments) if arguments else None)

    def configure(self, arguments: list[str], before: list[str]) -> None:
        """Write the file, with a last line that is removed when the menu is complete.

        If the run is killed before, the next one sees the line and regenerates the menu.
        """
        replace(self.dropin, cmdline.grub_dropin(arguments) + MENU_IS_OLD)

    def finish(self, arguments: list[str]) -> None:
        replace(self.dropin, cmdline.grub_dropin(arguments) if arguments else None)

    def next_start(self) -> list[list[str]]:
        return cmdline.grub_lines(read(GRUB_MENU) or "")

    def make_menu(self) -> None:
        self.module.run_command(["update-grub"], check_rc=True)


class SystemdBoot:
    """The arguments in /etc/kernel/cmdline, of which kernel-install makes each entry."""

    def __init__(self, module: AnsibleModule, name: str) -> None:
        self.module = module
        self.record = f"{RECORDS}/{name}.json"
        self.foreign = cmdline.without(self._all(), self.added())

    def _all(self) -> list[str]:
        """What kernel-install would take."""
        for name in (KERNEL_CMDLINE, VENDOR_CMDLINE):
            text = read(name)
            if text is not None:
                return text.split()
        return cmdline.for_new_entries((read("proc/cmdline") or "").split())

    def added(self) -> list[str]:
        return list(json.loads(read(self.record) or '{"added": []}')["added"])

    def configured(self, arguments: list[str]) -> bool:
        is_noted = self.added() == arguments
        return is_noted and (not arguments or (read(KERNEL_CMDLINE) or "").split() == [*self.foreign, *arguments])

    def configure(self, arguments: list[str], before: list[str]) -> None:
        """Write the note first and remove it last.

        So what a killed run added is known.
        """
        union = [*before, *cmdline.missing(before, arguments)]
        replace(self.record, json.dumps({"added": union}) + "\n")
        replace(KERNEL_CMDLINE, " ".join([*self.foreign, *arguments]) + "\n")

    def finish(self, arguments: list[str]) -> None:
        replace(self.record, json.dumps({"added": arguments}) + "\n" if arguments else None)

    def next_start(self) -> list[list[str]]:
        """Of the kernels in /boot: entries of other systems on the machine are theirs."""
        own = kernels()
        found = []
        for name in entries():
            with open(name, encoding="utf-8", errors="replace") as file:
                text = file.read()
            version = re.search(r"^version\s+(\S+)", text, re.MULTILINE)
            if version and version.group(1) in own:
                found.append(cmdline.entry_arguments(text))
        return found

    def make_menu(self) -> None:
        for version in kernels():
            kernel, initrd = path(f"boot/vmlinuz-{version}"), path(f"boot/initrd.img-{version}")
            self.module.run_command(
                ["kernel-install", "add", version, kernel, *([initrd] if os.path.exists(initrd) else [])], check_rc=True
            )


def is_as_wanted(lines: list[list[str]], wanted: list[str], unwanted: list[str]) -> bool:
    """Return whether every entry of the menu has what is wanted.

    It must have nothing of what was taken away.
    """
    return (bool(lines) or not wanted) and all(not cmdline.missing(line, wanted) and not set(line) & set(unwanted) for line in lines)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "arguments": {"type": "list", "elements": "str", "default": []},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "boot_loader": {"type": "str", "choices": ["auto", "grub", "systemd-boot"], "default": "auto"},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    try:
        module.exit_json(**compare(module))
    except Refused as reason:
        module.fail_json(msg=f"the kernel's arguments are left as they were: {reason}")
    except Incomplete as reason:
        module.fail_json(msg=f"{reason}")
    except OSError as error:
        module.fail_json(msg=f"{error.filename}: {error.strerror}")


def compare(module: AnsibleModule) -> dict:
    name, present = module.params["name"], module.params["state"] == "present"
    if not re.match(r"[A-Za-z0-9_-]+\Z", name):
        raise Refused(f"the name {name} may only have letters, digits, - and _")
    wanted = list(dict.fromkeys(module.params["arguments"])) if present else []
    if cmdline.invalid(wanted):
        raise Refused(f"{cmdline.invalid(wanted)[0]} is no argument such as intel_iommu=on, without blanks and quotes")
    try:
        which = boot_loader(module.params["boot_loader"])
    except Refused:
        if present:
            raise
        return {"changed": False, "boot_loader": None, "missing_now": [], "surplus_now": [], "reboot_needed": False}
    loader = Grub(module, name) if which == "grub" else SystemdBoot(module, name)
    for other, own in cmdline.conflicts(loader.foreign, wanted):
        raise Refused(f"{own} is wanted, but {which}'s configuration has {other}; take that out first")
    before = loader.added()
    added = cmdline.missing(loader.foreign, wanted)
    lines = loader.next_start()
    unwanted = cmdline.without(before, [*wanted, *loader.foreign])
    # If nothing is wanted and nothing was added, the menu is not ours to regenerate.
    changed = not loader.configured(added) or (bool(wanted) and not is_as_wanted(lines, wanted, unwanted))
    if changed and not module.check_mode:
        loader.configure(added, before)
        loader.make_menu()
        loader.finish(added)
        if not is_as_wanted(loader.next_start(), wanted, unwanted):
            raise Incomplete(
                f"{which}'s menu was made again and still hasn't {' '.join(wanted) or 'lost ' + ' '.join(unwanted)} in every entry; "
                "a later file of its configuration replaces what this one says"
            )
    running = (read("proc/cmdline") or "").split()
    missing_now, surplus_now = cmdline.missing(running, wanted), [argument for argument in unwanted if argument in running]
    return {
        "changed": changed,
        "boot_loader": which,
        "missing_now": missing_now,
        "surplus_now": surplus_now,
        "reboot_needed": bool(missing_now or surplus_now),
        "diff": {
            "before_header": f"kernel arguments ({which})",
            "after_header": f"kernel arguments ({which})",
            "before": "".join(f"{' '.join(line)}\n" for line in lines),
            "after": "".join(f"{' '.join([*cmdline.without(line, unwanted), *cmdline.missing(line, wanted)])}\n" for line in lines),
        },
    }


if __name__ == "__main__":
    main()
