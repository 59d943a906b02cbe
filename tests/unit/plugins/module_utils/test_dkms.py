# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What dkms reports.

The log and the states were recorded from dkms 3.0.10 of Debian 12.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._host import dkms

LOG = (Path(__file__).resolve().parents[3] / "data/dkms/make.log").read_text(encoding="utf-8")
STATUS = """\
nvidia-current/535.309.01, 6.1.0-50-cloud-amd64, x86_64: installed
nvidia-current/535.309.01, 6.1.0-56-cloud-amd64, x86_64: installed (WARNING! Diff between built and installed module!)
nvidia/570.86.15, 6.12.117+deb13-cloud-amd64, x86_64: built
nvidia/590.44.01: added
Deprecated feature: REMAKE_INITRD (/var/lib/dkms/x/1/source/dkms.conf)
"""


@pytest.mark.parametrize(
    ("name", "version", "kernel", "state", "note"),
    [
        ("nvidia-current", "535.309.01", "6.1.0-50-cloud-amd64", "installed", ""),
        ("nvidia-current", "535.309.01", "6.1.0-56-cloud-amd64", "installed", "WARNING! Diff between built and installed module!"),
        ("nvidia-current", "535.309.01", "6.1.0-99-cloud-amd64", "added", ""),
        ("nvidia", "570.86.15", "6.12.117+deb13-cloud-amd64", "built", ""),
        ("nvidia", "590.44.01", "6.1.0-50-cloud-amd64", "added", ""),
    ],
)
def test_state_of_a_module_for_a_kernel(name, version, kernel, state, note):
    found = dkms.state_of(dkms.states(STATUS), name, version, kernel)
    assert (found.state, found.note) == (state, note)


def test_a_module_that_dkms_does_not_know():
    assert dkms.state_of(dkms.states(STATUS), "nvidia", "1.0", "6.1.0-50-cloud-amd64") is None


def test_the_first_error_is_the_compilers():
    assert dkms.first_error(LOG) == "nvidia-uvm.c:7: too few arguments to function 'pci_resize_resource'"


@pytest.mark.parametrize(
    ("log", "error"),
    [
        (
            'ERROR: modpost: "f" [/b/nvidia.ko] undefined!\nmake: *** [Makefile:3: modules] Error 2',
            'ERROR: modpost: "f" [/b/nvidia.ko] undefined!',
        ),
        ("env: 'make': No such file or directory", "env: 'make': No such file or directory"),
        ("  CC x.o\nmake[1]: *** No rule to make target 'y'.  Stop.\n", "make[1]: *** No rule to make target 'y'.  Stop."),
        ("something else\n", "something else"),
        ("a.c:1: warning: fine\nb.c:2:3: fatal error: linux/x.h: No such file or directory", "b.c:2: linux/x.h: No such file or directory"),
        ("", ""),
    ],
)
def test_the_first_error_without_a_compiler(log, error):
    assert dkms.first_error(log) == error


def test_settings_of_debians_package():
    conf = (
        'PACKAGE_NAME="nvidia-current"\nPACKAGE_VERSION="535.309.01"\nBUILT_MODULE_NAME[0]="nvidia"\nDEST_MODULE_NAME[0]="$PACKAGE_NAME"\n'
    )
    assert dkms.settings(conf) == {"name": "nvidia-current", "version": "535.309.01", "module": "nvidia-current"}


def test_settings_of_a_package_that_keeps_the_name():
    conf = 'PACKAGE_NAME="nvidia"\nPACKAGE_VERSION="570.86.15"\nBUILT_MODULE_NAME[0]="nvidia"\nBUILT_MODULE_NAME[1]="nvidia-uvm"\n'
    assert dkms.settings(conf)["module"] == "nvidia"


def test_what_a_failed_build_means_for_the_host():
    errors = dkms.build_errors("nvidia", "1", {"6.1-old": "e", "6.2-new": "", "6.3-other": "e"}, "6.1-old", "6.2-new")
    assert "for the kernel 6.1-old, which runs now: the first error is 'e'" in errors[0]
    assert "for the kernel 6.2-new, which the next boot takes: its dkms.conf excludes this kernel" in errors[1]
    assert "6.3-other, which is installed" in errors[2] and "linux-image-6.3-other" in errors[2]


def test_a_module_that_the_kernel_would_not_load():
    assert "6.1-x, but there it would load no module: look at `modinfo -k 6.1-x`" in dkms.load_error("nvidia", "1", "6.1-x", "")
    assert "it would load 0.9" in dkms.load_error("nvidia", "1", "6.1-x", "0.9")


@pytest.mark.parametrize(
    ("line", "whole"),
    [
        ("nvidia/580.65.06, 6.1.0-56-amd64, x86_64: installed", True),
        ("nvidia/580.65.06, 6.1.0-56-amd64, x86_64: installed (Original modules exist)", True),
        ("nvidia/580.65.06, 6.1.0-56-amd64, x86_64: installed (Differences between built and installed modules)", False),
        ("nvidia/580.65.06, 6.1.0-56-amd64, x86_64: installed (WARNING! Missing some built modules!)", False),
        ("nvidia/580.65.06, 6.1.0-56-amd64, x86_64: built", False),
    ],
)
def test_what_counts_as_installed(line, whole):
    (state,) = dkms.states(line)
    assert dkms.is_whole(state) is whole
