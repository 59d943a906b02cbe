#!/usr/bin/env python3
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Compare the methods of the driver with those of the Nova that is installed, and print what does not fit.

usage: signatures.py [FOLDER]   FOLDER has the package nova_lxd; without it, it is the one in Nova's folder

Each call that ComputeDriver's method takes must be one that the driver's takes, by position and by name. The end is 1 if one is not.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import sys
import typing as t
import warnings

KINDS = inspect.Parameter


def calls(signature: inspect.Signature) -> t.Iterator[tuple[list[str], dict[str, str]]]:
    """What a method can be called with: all by position, all by name, and only what it needs."""
    names = [name for name, parameter in signature.parameters.items() if parameter.kind == KINDS.POSITIONAL_OR_KEYWORD and name != "self"]
    needed = [name for name in names if signature.parameters[name].default is KINDS.empty]
    yield names, {}
    yield [], {name: name for name in names}
    yield needed, {}
    yield [], {name: name for name in needed}


def problem(base: inspect.Signature, mine: inspect.Signature) -> str:
    """Why a method does not fit; an empty text if it does."""
    for positional, named in calls(base):
        try:
            taken = mine.bind("self", *positional, **named).arguments
        except TypeError as error:
            return str(error)
        for name, value in taken.items():
            if value != name and name != "self" and mine.parameters[name].kind == KINDS.POSITIONAL_OR_KEYWORD:
                return f"{value} is taken for {name}"
    return ""


def problems(driver: type, base: type) -> list[str]:
    """All methods that do not fit."""
    misfits = []
    for name, method in vars(driver).items():
        if name.startswith("_") or not callable(method):
            continue
        if not hasattr(base, name):
            misfits.append(f"{name}: Nova never calls it")
            continue
        said = problem(inspect.signature(getattr(base, name)), inspect.signature(method))
        if said:
            misfits.append(f"{name}: {said}")
    return misfits


def main() -> int:
    """Compare, and say what with."""
    warnings.simplefilter("ignore")
    import nova.virt.driver

    if sys.argv[1:]:
        nova.virt.__path__.append(sys.argv[1])
    driver = importlib.import_module("nova.virt.nova_lxd.driver").LXDDriver
    misfits = problems(driver, nova.virt.driver.ComputeDriver)
    compared = [name for name, method in vars(driver).items() if not name.startswith("_") and callable(method)]
    print("\n".join([f"Nova {importlib.metadata.version('nova')}: {len(compared)} methods compared, {len(misfits)} do not fit", *misfits]))
    return bool(misfits)


if __name__ == "__main__":
    sys.exit(main())
