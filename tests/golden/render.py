#!/usr/bin/env python3
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Write or compare golden configuration: what plans and roles put on each host.

usage: render.py [--check] [SITE...]      without --check: write tests/golden
"""

from __future__ import annotations

import argparse
import difflib
import pathlib
import re
import shutil
import sys
import typing as t

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / ".collections"))
import cases
import plans
import programs
from sites import HERE, overlay_of, read, sources
from walk import Walk

# The playbook of a group with hosts; overlay.yml names others for a site.
PLAYBOOKS = {
    "slurm_nodes": ("slurm", "slurm_information", "slurm_mpi", "job_containers"),
    "kubernetes_workers": ("kubernetes", "kubernetes_information"),
    "mesos_agents": ("mesos", "mesos_information"),
    "mesos_fronts": ("mesos_front",),
    "openstack_lxd_hosts": ("openstack", "openstack_information"),
    "opennebula_hosts": ("opennebula",),
    "gpu_hosts": ("gpu_hosts",),
    "oidc_proxies": ("oidc_proxy",),
    "iam_hosts": ("iam_accounts",),
}
OUT = HERE
# Beside the sites' folders: what they are made of.
SOURCES = ("cases", "programs", "sites", "__pycache__")
REMEDY = "Golden configuration differs. If the change is wanted: run `make golden`, then look at `git diff tests/golden`."
PROGRAM = "# A program; this line is not in it."
Files = dict[str, str]


def walked(site: str) -> Walk:
    """Return the walk of a site's playbooks."""
    overlay = overlay_of(site)
    walk = Walk(read(sources()[site]), overlay)
    usual = [name for group, names in PLAYBOOKS.items() if walk.inventory.groups.get(group) for name in names]
    for name in usual if overlay.playbooks is None else overlay.playbooks:
        walk.playbook(name)
    return walk


def files_of(site: str, walk: Walk) -> Files:
    """Return the golden files of a site, by their paths."""
    found: Files = {}
    for host, written in walk.files.items():
        about: list[str] = []
        first: dict[str, str] = {}
        for path, file in sorted(written.items()):
            if re.fullmatch("(#.*\n)*<the text of .*>\n?", file.content):
                about.append(f"{file.about} {file.content.splitlines()[-1]}")
            elif file.content in first:
                about.append(f"{file.about} <the text of {first[file.content]}>")
            else:
                about.append(file.about)
                if file.content:
                    first[file.content] = path
                    found[f"{site}/{host}{path}"] = as_file(file.content)
        if written:
            found[f"{site}/{host}/FILES"] = "".join(f"{line}\n" for line in about)
    for host, objects in walk.objects.items():
        if objects:
            found[f"{site}/{host}/objects.json"] = plans.as_text(objects)
    errors = {}
    for manager in plans.managers_of(walk):
        asked = plans.asked(walk, manager)
        plan = plans.plan(manager.name, asked)
        found[f"{site}/{manager.name}/plan.json"] = plans.as_text(plan)
        wrong = {"check": plans.check(manager.name, asked), "plan": [str(error) for error in plan["errors"]]}
        if wrong["check"] or wrong["plan"]:
            errors[manager.name] = wrong
    if errors:
        found[f"{site}/errors.json"] = plans.as_text(errors)
    if walk.unresolved:
        found[f"{site}/unresolved.txt"] = "".join(f"{line}\n" for line in dict.fromkeys(walk.unresolved))
    # Long names of the checkout are none of a host's.
    return {path: walk.lookups.named(text) for path, text in found.items()}


def as_file(text: str) -> str:
    """Return a file's text as it is kept here: it ends with a newline, and is no program."""
    # Otherwise linters of programs would read it.
    text = f"{PROGRAM}\n{text}" if text.startswith("#!") else text
    return text if text.endswith("\n") else text + "\n"


def render(names: t.Sequence[str]) -> Files:
    """Return all golden files of some sites, of all without a name."""
    found: Files = {}
    for site in names or sources():
        found.update(files_of(site, walked(site)))
    return found if names else {**found, **cases.render(), **programs.render()}


def written(names: t.Sequence[str]) -> Files:
    """Return the golden files that are there."""
    folders = [OUT / name for name in names] or [path for path in OUT.iterdir() if is_site(path)]
    paths = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(OUT)): path.read_text(encoding="utf-8") for path in paths}


def is_site(path: pathlib.Path) -> bool:
    """Return whether a folder has golden files, and not what they are made of, or a cache."""
    return path.is_dir() and path.name not in SOURCES and not path.name.startswith(".")


def difference(before: Files, now: Files) -> list[str]:
    lines: list[str] = []
    for path in sorted({*before, *now}):
        if before.get(path) != now.get(path):
            one, two = (own.get(path, "").splitlines() for own in (before, now))
            names = (f"a/{path}" if path in before else "/dev/null", f"b/{path}" if path in now else "/dev/null")
            lines += difflib.unified_diff(one, two, *names, lineterm="")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, and print what differs")
    parser.add_argument("sites", nargs="*", metavar="SITE")
    options = parser.parse_args()
    now, before = render(options.sites), written(options.sites)
    if options.check:
        lines = difference(before, now)
        if lines:
            print("\n".join([*lines[:2000], *(["..."] if len(lines) > 2000 else []), REMEDY]))
        return int(bool(lines))
    for path in set(before) - set(now):
        (OUT / path).unlink()
    for path, text in now.items():
        target = OUT / path
        if target.is_dir():
            shutil.rmtree(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    for folder in sorted((path for path in OUT.rglob("*") if path.is_dir() and path.name not in SOURCES), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()
    print(f"{len(now)} files, {sum(map(len, now.values())) // 1024} KiB, in {OUT.relative_to(HERE.parents[1])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
