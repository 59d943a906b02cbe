# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module kernel_cmdline against boot loaders of which the commands that make their menus are faked."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import kernel_cmdline

WANTED = ["intel_iommu=on", "iommu=pt"]

# As update-grub does: the settings, then what is in grub.d by name, then one entry and one for recovery.
UPDATE_GRUB = """
cd {root}
. etc/default/grub
for file in etc/default/grub.d/*.cfg; do [ ! -e "$file" ] || . "$PWD/$file"; done
{{
echo '### BEGIN /etc/grub.d/10_linux ###'
echo "	linux	/boot/vmlinuz root=/dev/vda1 ro $GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT"
echo "	linux	/boot/vmlinuz root=/dev/vda1 ro single $GRUB_CMDLINE_LINUX"
echo '### END /etc/grub.d/10_linux ###'
}} >boot/grub/grub.cfg
"""

# As kernel-install does with its plugin for entries.
KERNEL_INSTALL = """
cd {root}
options=$(cat etc/kernel/cmdline 2>/dev/null || sed 's/BOOT_IMAGE=[^ ]* //' proc/cmdline)
printf 'title Debian\\nversion %s\\noptions %s\\nlinux /x/linux\\n' "$2" "$options" >boot/loader/entries/x-$2.conf
"""


class Host:
    """A host's files below a temporary root, and the module on it."""

    def __init__(self, path, run):
        self.path, self.run = path, run
        self.write("proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz root=/dev/vda1 ro quiet\n")

    def write(self, name, text):
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_text(text)

    def read(self, name):
        file = self.path / name
        return file.read_text() if file.exists() else None

    def __call__(self, *arguments, **options):
        return self.run(kernel_cmdline, name="pci_passthrough", arguments=list(arguments), **options)


@pytest.fixture
def host(run, tmp_path, monkeypatch):
    path = tmp_path / "root"
    path.mkdir()
    monkeypatch.setattr(kernel_cmdline, "ROOT", str(path))
    return Host(path, run)


@pytest.fixture
def grub(host, fake):
    host.write("etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX="console=ttyS0"\n')
    (host.path / "etc/default/grub.d").mkdir()
    (host.path / "boot/grub").mkdir(parents=True)
    fake("update-grub", UPDATE_GRUB.format(root=host.path))
    host.made = lambda: len([call for call in fake.calls() if call.startswith("update-grub")])
    host.dropin = "etc/default/grub.d/90-pci_passthrough.cfg"
    host.write("boot/grub/grub.cfg", "### BEGIN /etc/grub.d/10_linux ###\nlinux x console=ttyS0 quiet\n### END /etc/grub.d/10_linux ###\n")
    return host


@pytest.fixture
def systemd_boot(host, fake):
    for version in ("6.1", "6.12"):
        host.write(f"boot/vmlinuz-{version}", "")
        host.write(
            f"boot/loader/entries/x-{version}.conf", f"title Debian\nversion {version}\noptions root=/dev/vda1 ro quiet\nlinux /x/linux\n"
        )
    host.write("boot/loader/entries/memtest.conf", "title Memory test\nefi /memtest.efi\n")
    host.write("boot/loader/entries/other.conf", "title Another system\nversion 5.14\noptions root=/dev/vda2\nlinux /y/linux\n")
    fake("kernel-install", KERNEL_INSTALL.format(root=host.path))
    host.made = lambda: len([call for call in fake.calls() if call.startswith("kernel-install")])
    return host


# GRUB


def test_grub_gets_a_file_of_its_own(grub):
    result = grub(*WANTED)
    assert (result["changed"], result["boot_loader"], result["reboot_needed"]) == (True, "grub", True)
    assert result["missing_now"] == WANTED
    assert 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX intel_iommu=on iommu=pt"' in grub.read(grub.dropin)
    assert "console=ttyS0 intel_iommu=on iommu=pt quiet" in grub.read("boot/grub/grub.cfg")
    assert grub.read("etc/default/grub") == 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX="console=ttyS0"\n'


def test_a_second_run_changes_nothing_and_still_asks_for_the_reboot(grub):
    grub(*WANTED)
    result = grub(*WANTED)
    assert (result["changed"], result["reboot_needed"], grub.made()) == (False, True, 1)
    grub.write("proc/cmdline", "BOOT_IMAGE=x root=/dev/vda1 ro console=ttyS0 intel_iommu=on iommu=pt quiet\n")
    assert grub(*WANTED)["reboot_needed"] is False


def test_check_mode_and_diff(grub):
    result = grub(*WANTED, _ansible_check_mode=True, _ansible_diff=True)
    assert result["changed"] and grub.read(grub.dropin) is None and grub.made() == 0
    assert result["diff"]["before"] == "console=ttyS0 quiet\n"
    assert result["diff"]["after"] == "console=ttyS0 quiet intel_iommu=on iommu=pt\n"


def test_a_run_that_was_killed_before_the_menu_is_made_up_for(grub):
    grub(*WANTED)
    grub.write("boot/grub/grub.cfg", "### BEGIN /etc/grub.d/10_linux ###\nlinux x quiet\n### END /etc/grub.d/10_linux ###\n")
    assert grub(*WANTED)["changed"] and grub.made() == 2


def test_what_somebody_else_gives_is_not_given_twice_and_stays(grub):
    grub.write("etc/default/grub.d/10-site.cfg", 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX iommu=pt"\n')
    grub(*WANTED)
    assert "intel_iommu=on" in grub.read(grub.dropin) and "iommu=pt" not in grub.read(grub.dropin)
    grub(*WANTED, state="absent")
    assert grub.read(grub.dropin) is None
    assert "iommu=pt" in grub.read("boot/grub/grub.cfg") and "intel_iommu" not in grub.read("boot/grub/grub.cfg")


def test_what_somebody_gives_to_usual_entries_alone(grub):
    grub.write("etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT="quiet intel_iommu=on iommu=pt"\n')
    assert grub(*WANTED)["changed"] and grub.read(grub.dropin) is None
    assert grub(*WANTED)["changed"] is False


def test_taking_back(grub):
    grub(*WANTED)
    grub.write("proc/cmdline", "root=/dev/vda1 intel_iommu=on iommu=pt\n")
    result = grub(state="absent")
    assert (result["changed"], result["surplus_now"], result["reboot_needed"]) == (True, WANTED, True)
    assert grub.read(grub.dropin) is None and "iommu" not in grub.read("boot/grub/grub.cfg")
    assert grub(state="absent")["changed"] is False


def test_taking_back_that_was_killed_before_the_menu(grub, fake):
    grub(*WANTED)
    fake("update-grub", "exit 1")
    assert grub(state="absent")["failed"]
    fake("update-grub", UPDATE_GRUB.format(root=grub.path))
    assert grub(state="absent")["changed"] and "iommu" not in grub.read("boot/grub/grub.cfg")
    assert grub.read(grub.dropin) is None


def test_where_nothing_was_added_the_menu_is_not_ours(grub):
    grub.write("boot/grub/grub.cfg", "### BEGIN /etc/grub.d/10_linux ###\nlinux x iommu=pt\n### END /etc/grub.d/10_linux ###\n")
    assert grub(*WANTED, state="absent")["changed"] is False and grub.made() == 0


def test_an_argument_that_is_not_wanted_any_more(grub):
    grub(*WANTED)
    grub("iommu=pt")
    assert "intel_iommu" not in grub.read("boot/grub/grub.cfg") and "iommu=pt" in grub.read("boot/grub/grub.cfg")


def test_an_argument_taken_away_by_a_run_that_was_killed_before_the_menu(grub, fake):
    grub(*WANTED)
    fake("update-grub", "exit 1")
    assert grub("iommu=pt")["failed"]
    fake("update-grub", UPDATE_GRUB.format(root=grub.path))
    assert grub("iommu=pt")["changed"] and "intel_iommu" not in grub.read("boot/grub/grub.cfg")
    assert grub("iommu=pt")["changed"] is False


def test_a_file_of_that_name_that_somebody_else_made_stays(grub):
    grub.write(grub.dropin, 'GRUB_TIMEOUT="1"\n')
    assert "/etc/default/grub.d/90-pci_passthrough.cfg is not this module's file" in grub(*WANTED)["msg"]
    assert grub(state="absent")["failed"] and grub.read(grub.dropin) == 'GRUB_TIMEOUT="1"\n'


def test_a_contradiction_is_refused(grub):
    grub.write("etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT="quiet intel_iommu=off"\n')
    result = grub(*WANTED)
    assert result["failed"] and "intel_iommu=on is wanted, but grub's configuration has intel_iommu=off" in result["msg"]
    assert grub.read(grub.dropin) is None


def test_a_later_file_that_replaces_all_is_found_out(grub):
    grub.write("etc/default/grub.d/99-cloud.cfg", 'GRUB_CMDLINE_LINUX="console=ttyS0"\n')
    result = grub(*WANTED)
    assert result["failed"] and "a later file of its configuration replaces what this one says" in result["msg"]
    assert "left as they were" not in result["msg"]


def test_settings_that_no_shell_can_read(grub):
    grub.write("etc/default/grub", 'GRUB_CMDLINE_LINUX="\n')
    assert "can't be read" in grub(*WANTED)["msg"]


# systemd-boot


def test_systemd_boot_gets_every_entry_made_anew(systemd_boot):
    result = systemd_boot(*WANTED)
    assert (result["changed"], result["boot_loader"], systemd_boot.made()) == (True, "systemd-boot", 2)
    assert systemd_boot.read("etc/kernel/cmdline") == "root=/dev/vda1 ro quiet intel_iommu=on iommu=pt\n"
    assert "options root=/dev/vda1 ro quiet intel_iommu=on iommu=pt" in systemd_boot.read("boot/loader/entries/x-6.12.conf")
    assert "options root=/dev/vda2\n" in systemd_boot.read("boot/loader/entries/other.conf")
    assert systemd_boot(*WANTED)["changed"] is False


def test_systemd_boot_gives_back_only_what_was_added(systemd_boot):
    systemd_boot.write("etc/kernel/cmdline", "root=/dev/vda1 iommu=pt ro\n")
    systemd_boot(*WANTED)
    assert systemd_boot.read("etc/kernel/cmdline") == "root=/dev/vda1 iommu=pt ro intel_iommu=on\n"
    systemd_boot(state="absent")
    assert systemd_boot.read("etc/kernel/cmdline") == "root=/dev/vda1 iommu=pt ro\n"
    assert systemd_boot.read("var/lib/deephdc/kernel_cmdline/pci_passthrough.json") is None
    assert systemd_boot(state="absent")["changed"] is False


def test_systemd_boot_takes_over_what_the_distribution_gives(systemd_boot):
    systemd_boot.write("usr/lib/kernel/cmdline", "root=/dev/vda1 ro vendor=1\n")
    systemd_boot("iommu=pt")
    assert systemd_boot.read("etc/kernel/cmdline") == "root=/dev/vda1 ro vendor=1 iommu=pt\n"


def test_systemd_boot_after_a_run_that_was_killed(systemd_boot):
    systemd_boot.write("etc/kernel/cmdline", "root=/dev/vda1 ro\n")
    systemd_boot.write("var/lib/deephdc/kernel_cmdline/pci_passthrough.json", json.dumps({"added": WANTED}))
    assert systemd_boot(*WANTED)["changed"]
    assert systemd_boot.read("etc/kernel/cmdline") == "root=/dev/vda1 ro intel_iommu=on iommu=pt\n"


def test_nothing_to_add_makes_no_file(systemd_boot):
    assert systemd_boot(state="absent")["changed"] is False
    assert systemd_boot.read("etc/kernel/cmdline") is None


# Which boot loader


def test_the_boot_loader_that_started_the_host_counts(grub, systemd_boot):
    assert grub(*WANTED, _ansible_check_mode=True)["boot_loader"] == "grub"
    name = kernel_cmdline.LOADER_INFO
    (grub.path / name).parent.mkdir(parents=True)
    (grub.path / name).write_bytes(b"\x06\0\0\0" + "systemd-boot 252.36\0".encode("utf-16-le"))
    assert grub(*WANTED, _ansible_check_mode=True)["boot_loader"] == "systemd-boot"
    assert grub(*WANTED, boot_loader="grub", _ansible_check_mode=True)["boot_loader"] == "grub"


def test_no_boot_loader(host):
    assert "neither a menu of GRUB" in host(*WANTED)["msg"]
    assert host(state="absent")["changed"] is False


@pytest.mark.parametrize(
    ("options", "words"), [({"name": "../x"}, "may only have letters"), ({"arguments": ["a b"]}, "is no argument such as")]
)
def test_what_would_break_a_file_is_refused(grub, run, options, words):
    assert words in run(kernel_cmdline, **{"name": "x", "arguments": WANTED, **options})["msg"]
