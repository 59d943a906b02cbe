# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Which driver a host gets: pure functions.

The choice depends on what apt offers, the GPUs that the host has and what the operator asks for.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.vendors import NVIDIA
from ansible_collections.deephdc.accelerators.plugins.module_utils._host import apt_repository
from ansible_collections.deephdc.accelerators.plugins.module_utils._nvidia_driver import fabric, mig
from ansible_collections.deephdc.accelerators.plugins.module_utils._nvidia_driver.generations import (
    Generation,
    branch_error,
    branch_of,
    generation_of,
    suggested_modules,
)


class Family(t.NamedTuple):
    """Packages that belong together and have one version."""

    # Kernel modules by flavour.
    kernel: dict[str, str]
    # nvidia-smi and the libraries of CUDA; libnvidia-cfg where the persistence daemon would get another version's.
    user: list[str]


FAMILIES = {
    # Debian names the branches that it keeps beside its newest one "tesla".
    "distribution": [
        Family({"proprietary": "nvidia-kernel-dkms", "open": "nvidia-open-kernel-dkms"}, ["nvidia-smi", "libcuda1"]),
        Family(
            {"proprietary": "nvidia-tesla-535-kernel-dkms"},
            ["nvidia-tesla-535-smi", "libnvidia-tesla-535-cuda1", "libnvidia-tesla-535-cfg1"],
        ),
        Family(
            {"proprietary": "nvidia-tesla-470-kernel-dkms"},
            ["nvidia-tesla-470-smi", "libnvidia-tesla-470-cuda1", "libnvidia-tesla-470-cfg1"],
        ),
    ],
    "repository": [Family({"proprietary": "nvidia-kernel-dkms", "open": "nvidia-kernel-open-dkms"}, ["nvidia-driver-cuda"])],
}
PERSISTENCE = "nvidia-persistenced"
# What its apt source is for.
PURPOSE = "NVIDIA's driver comes from here"
FABRIC_MANAGER = "nvidia-fabricmanager"
# Has versions of its own.
SUBNET_MANAGER = "nvlsm"

# What a pin of the branch holds; names of NVIDIA's container toolkit are among them, but none of its versions.
PINNED = "nvidia-* libnvidia-* libcuda1 libcudadebugger1 libnvcuvid1 libnvoptix1 firmware-nvidia-* xserver-xorg-video-nvidia"


class Candidate(t.NamedTuple):
    """A driver that apt could install."""

    version: str
    modules: str
    kernel_package: str
    # name=version, all of it
    packages: list[str]


def package_names(source: str) -> list[str]:
    """All packages that facts are needed of."""
    names = [name for family in FAMILIES[source] for name in (*family.kernel.values(), *family.user)]
    return list(dict.fromkeys([*names, PERSISTENCE, FABRIC_MANAGER, SUBNET_MANAGER]))


def all_names() -> list[str]:
    """Packages of the driver from whatever source."""
    return list(dict.fromkeys(name for source in FAMILIES for name in package_names(source)))


def upstream(version: str) -> str:
    """550.163.01 of 1:550.163.01-2~deb13u1"""
    return version.rpartition(":")[2].split("-")[0]


def order(version: str) -> tuple[int, ...]:
    """For comparing upstream versions."""
    return tuple(int(part) if part.isdigit() else 0 for part in upstream(version).split("."))


def candidates(source: str, available: t.Mapping[str, t.Sequence[str]]) -> list[Candidate]:
    """Drivers of a source, newest first.

    Kernel module and user space must have the same version, or CUDA does not start.

    available: package to its versions, the one that apt prefers first.
    """
    found = []
    for family in FAMILIES[source]:
        for modules, kernel_package in family.kernel.items():
            for version in available.get(kernel_package, ()):
                same = {name: [own for own in available.get(name, ()) if upstream(own) == upstream(version)] for name in family.user}
                if all(same.values()):
                    packages = [f"{kernel_package}={version}", *(f"{name}={own[0]}" for name, own in same.items())]
                    found.append(Candidate(upstream(version), modules, kernel_package, packages))
    return sorted(found, key=lambda candidate: order(candidate.version), reverse=True)


def installed(packages: t.Mapping[str, str]) -> Candidate | None:
    """Return the driver that a host has.

    It may come from any source, and apt may still have it or not.
    """
    for family in (family for families in FAMILIES.values() for family in families):
        for modules, name in family.kernel.items():
            if name in packages:
                version = upstream(packages[name])
                own = [f"{user}={packages[user]}" for user in family.user if upstream(packages.get(user, "")) == version]
                return Candidate(version, modules, name, [f"{name}={packages[name]}", *own])
    return None


def is_of_branch(version: str, branch: str) -> bool:
    """Return whether a version is of a branch, or is that version itself.

    550.163.01 is of the branch 550, and of 550.163.01. Every version is of the empty branch.
    """
    return not branch or version == branch or version.startswith(f"{branch}.")


def gpus_of(accelerators: t.Iterable[t.Mapping[str, t.Any]]) -> list[t.Mapping[str, t.Any]]:
    """Return the NVIDIA GPUs that the host itself drives.

    Those that were given to virtual machines are left out.
    """
    return [gpu for gpu in accelerators if gpu["vendor"] == NVIDIA.name and gpu["kind"] == "gpu" and gpu["driver"] != "vfio-pci"]


def _named(gpu: t.Mapping[str, t.Any]) -> str:
    return f"{gpu['pci_address']} ({gpu['type']})"


def _hardware_errors(gpus: t.Sequence[t.Mapping[str, t.Any]], candidate: Candidate) -> list[str]:
    """Why a driver does not serve all of a host's GPUs."""
    found = []
    for gpu in gpus:
        generation = generation_of(gpu["device_id"])
        if generation is None:
            continue
        error = branch_error(generation, branch_of(candidate.version))
        if error:
            found.append(f"{_named(gpu)} {error}")
        elif generation.open_modules == "never" and candidate.modules == "open":
            found.append(f"{_named(gpu)} is of the generation {generation.name}, which the open kernel modules don't drive")
        elif generation.open_modules == "only" and candidate.modules == "proprietary":
            found.append(f"{_named(gpu)} is of the generation {generation.name}, which only the open kernel modules drive")
    return found


def choose(
    who: str,
    gpus: t.Sequence[t.Mapping[str, t.Any]],
    offered: t.Sequence[Candidate],
    settings: t.Mapping[str, t.Any],
    has: Candidate | None,
) -> tuple[Candidate | None, list[str]]:
    """The driver for a host, or why there is none.

    settings: source, branch, modules (auto, open, proprietary), upgrade. has: what is installed.
    """
    if has and not settings["upgrade"] and not _refusal(who, gpus, [has], settings):
        same = [candidate for candidate in offered if (candidate.version, candidate.modules) == (has.version, has.modules)]
        # With what a person may have removed of it, where apt still has that.
        return (same or [has])[0], []
    refusal = _refusal(who, gpus, offered, settings)
    if refusal:
        return None, refusal
    fitting = [candidate for candidate in _asked(offered, settings) if not _hardware_errors(gpus, candidate)]
    best = [candidate for candidate in fitting if candidate.version == fitting[0].version]
    generations = [generation for generation in (generation_of(gpu["device_id"]) for gpu in gpus) if isinstance(generation, Generation)]
    suggested = suggested_modules(generations, branch_of(fitting[0].version))
    # What the host has is kept where it serves: another flavour alone is no reason for a reboot.
    for modules in (has.modules if has else "", suggested):
        for candidate in best:
            if candidate.modules == modules:
                return candidate, []
    return best[0], []


def _asked(offered: t.Sequence[Candidate], settings: t.Mapping[str, t.Any]) -> list[Candidate]:
    """What the operator allows of it."""
    of_branch = [candidate for candidate in offered if is_of_branch(candidate.version, settings["branch"])]
    return [candidate for candidate in of_branch if settings["modules"] in ("auto", candidate.modules)]


def _refusal(
    who: str, gpus: t.Sequence[t.Mapping[str, t.Any]], offered: t.Sequence[Candidate], settings: t.Mapping[str, t.Any]
) -> list[str]:
    """Why none of the drivers may be installed; empty where one may."""
    if not offered:
        return [
            f"{who}: apt has no NVIDIA driver in the source {settings['source']}: "
            "look at nvidia_driver_source and nvidia_driver_repository."
        ]
    of_branch = [candidate for candidate in offered if is_of_branch(candidate.version, settings["branch"])]
    if not of_branch:
        there = ", ".join(dict.fromkeys(candidate.version for candidate in offered))
        return [
            f"{who}: nvidia_driver_branch is {settings['branch']}, but the source {settings['source']} has {there} (with a user space of "
            "the same version): choose one of these, or another nvidia_driver_source."
        ]
    asked = _asked(offered, settings)
    if not asked:
        return [
            f"{who}: nvidia_driver_kernel_modules is {settings['modules']}, but the source {settings['source']} has {of_branch[0].version} "
            f"only with the {of_branch[0].modules} ones and a user space of the same version: leave it at auto, "
            "or choose another nvidia_driver_source."
        ]
    if any(not _hardware_errors(gpus, candidate) for candidate in asked):
        return []
    apart = _no_driver_for_both(gpus, asked)
    if apart:
        return [f"{who}: {apart}: take one of them out of the host, or give it to virtual machines."]
    newest = asked[0]
    return [
        f"{who}: {error}, but {newest.version} with {newest.modules} kernel modules is the newest that may be installed: "
        "look at nvidia_driver_branch, nvidia_driver_kernel_modules and nvidia_driver_source."
        for error in _hardware_errors(gpus, newest)
    ]


def _no_driver_for_both(gpus: t.Sequence[t.Mapping[str, t.Any]], offered: t.Sequence[Candidate]) -> str:
    """Two GPUs of which each has a driver, but not the same one.

    :returns: a part of a sentence, empty where there are none.
    """
    for position, one in enumerate(gpus):
        for other in gpus[position + 1 :]:
            drivers = [[driver for driver in offered if not _hardware_errors([gpu], driver)] for gpu in (one, other)]
            if all(drivers) and not any(driver in drivers[1] for driver in drivers[0]):
                needs = [f"{_named(gpu)} can have {of[0].version} with {of[0].modules} modules" for gpu, of in zip((one, other), drivers)]
                return f"no driver serves both of two GPUs, as {' and '.join(needs)}"
    return ""


def _header_plan(who: str, facts: t.Mapping[str, t.Any], image: bool) -> tuple[list[str], list[str], list[str]]:
    """Packages of headers to install, errors, warnings."""
    wanted, errors, warnings = [], [], []
    kernels = {kernel["release"]: kernel for kernel in facts["kernels"]}
    if not image and facts["running"] not in kernels:
        kernels[facts["running"]] = {"release": facts["running"], "headers": False}
    for release, kernel in kernels.items():
        package = f"linux-headers-{release}"
        if kernel["headers"]:
            continue
        if package in facts["headers_available"]:
            wanted.append(package)
        elif release == facts["running"] and not image:
            errors.append(
                f"{who}: the running kernel {release} has no headers and apt has no {package}, so no module can be built for it: "
                "upgrade the kernel and reboot first, or give apt the archive that the kernel came from."
            )
        else:
            warnings.append(
                f"{who}: the installed kernel {release} has no headers and apt has no {package}: booted with it, the host has no GPU. "
                f"Remove linux-image-{release}."
            )
    if not kernels:
        errors.append(f"{who}: no kernel is installed in this image: install linux-image-amd64 first.")
    return wanted, errors, warnings


def _versions(facts: t.Mapping[str, t.Any], name: str, upgrade: bool) -> list[str]:
    """Versions of a package that the host can have, the best first.

    What is installed is kept unless an upgrade was asked for.
    """
    has = [facts["installed"][name]] if name in facts["installed"] else []
    offered = facts["available"].get(name, ())
    return [*offered, *has] if upgrade else [*has, *offered]


def fabric_packages(
    who: str, facts: t.Mapping[str, t.Any], gpus: t.Sequence[t.Mapping[str, t.Any]], settings: t.Mapping[str, t.Any], version: str
) -> tuple[list[str], list[str]]:
    """What a board with switches needs beside the driver.

    :returns: packages with their versions, errors.
    """
    bridges, managers = facts["nvswitches"], facts["nvlink_managers"]
    if not bridges and managers is None and any(gpu["type"] in fabric.ON_BOARDS for gpu in gpus):
        return [], [
            f"{who}: it is not known whether NVLink switches connect its GPUs, which would need {SUBNET_MANAGER}: the data (vpd) of the "
            f"InfiniBand function {facts['nvlink_unread']} can't be read: mend the firmware of that card, or take it out."
        ]
    if not bridges and not managers:
        return [], []
    switches = f"{bridges} NVSwitch bridges" if bridges else f"NVLink switches ({managers} functions manage them)"
    manager = [known for known in _versions(facts, FABRIC_MANAGER, settings["upgrade"]) if upstream(known) == version]
    subnet = _versions(facts, SUBNET_MANAGER, settings["upgrade"])
    missing = [] if manager else [f"{FABRIC_MANAGER} {version}"]
    if managers and not subnet:
        missing.append(SUBNET_MANAGER)
    if missing:
        way = "set nvidia_driver_source: repository"
        if settings["source"] == "repository":
            # Versions of nvlsm are no driver's.
            way = "put it into nvidia_driver_repository" + ("" if manager else ", or choose a version that has it by nvidia_driver_branch")
        needs = f"which needs {' and '.join(missing)}, but the source {settings['source']} does not have it"
        return [], [f"{who}: {switches} connect its GPUs, {needs}: {way}."]
    return [f"{FABRIC_MANAGER}={manager[0]}", *([f"{SUBNET_MANAGER}={subnet[0]}"] if managers else [])], []


def plan(
    who: str, facts: t.Mapping[str, t.Any], accelerators: t.Sequence[t.Mapping[str, t.Any]], settings: t.Mapping[str, t.Any]
) -> dict[str, t.Any]:
    """What the role does on a host.

    settings: source, branch, modules, upgrade, mig, image (the host is an image: its kernels don't run, it has no GPU of its own).
    """
    image = settings["image"]
    gpus = gpus_of(accelerators)
    headers, errors, warnings = _header_plan(who, facts, image)
    if not gpus and not image:
        errors.append(
            f"{who}: no NVIDIA GPU was found for the host itself: take it out of the group gpu_hosts, "
            "or set nvidia_driver_image if it is an image for hosts that have one."
        )
    if facts["run_file"]:
        errors.append(f"{who}: a driver of NVIDIA's .run installer is there, which packages can't replace: run nvidia-uninstall first.")
    if facts["secure_boot"] and not facts["key_enrolled"] and not image:
        errors.append(
            f"{who}: Secure Boot is on and the firmware does not know the key that DKMS signs with, so the kernel would refuse the module: "
            "run `mokutil --import /var/lib/dkms/mok.pub` (`dkms generate_mok` makes it), reboot and confirm it on the console, "
            "or turn Secure Boot off."
        )
    has = installed(facts["installed"])
    chosen, reasons = choose(who, gpus, candidates(settings["source"], facts["available"]), settings, has)
    errors += reasons
    if not image:
        errors += [f"{who}: {reason}" for reason in mig.choose(settings.get("mig") or (), accelerators)[1]]
    connecting, missing = fabric_packages(who, facts, gpus, settings, chosen.version) if chosen else ([], [])
    errors += missing
    packages = [*chosen.packages, *connecting] if chosen else []
    return {
        "errors": errors,
        "warnings": warnings,
        "headers": headers,
        "version": chosen.version if chosen else "",
        "modules": chosen.modules if chosen else "",
        "kernel_package": chosen.kernel_package if chosen else "",
        "packages": packages,
        "fabric": bool(connecting),
        "subnet_manager": bool(connecting) and bool(facts["nvlink_managers"]),
        # Another one is there, so that something can be lost: the new one is built on the side first.
        "fresh": has is None,
        "replaces": has is not None and chosen is not None and (has.version, has.modules) != (chosen.version, chosen.modules),
        "preferences": preferences(packages) if chosen else "",
    }


def record(recorded: t.Iterable[str], simulated: str) -> list[str]:
    """Return what came with the role.

    It is what is recorded, and what is not there yet and `apt-get --simulate install` says it would install.
    """
    return sorted({*recorded, *re.findall(r"^Inst (\S+) \(", simulated, re.MULTILINE)})


def removable(recorded: t.Collection[str], simulated: str) -> list[str]:
    """Return packages that the role installed and nothing else needs.

    The latter is by `apt-get --simulate autoremove`. Others belong to the site.
    """
    return [name for name in re.findall(r"^Remv (\S+)", simulated, re.MULTILINE) if name in recorded]


def pending(facts: t.Mapping[str, t.Any], version: str) -> list[str]:
    """Why the wanted driver does not run yet, so that a reboot is needed.

    version: the wanted one, empty for none.
    """
    if version and facts["nouveau"]:
        return ["nouveau holds the GPUs"]
    if facts["loaded"] and facts["loaded"] != version:
        return [f"the kernel has the driver {facts['loaded']} loaded, {version or 'none'} is installed"]
    return []


def sources(source: str, repository: t.Mapping[str, t.Any], archives: t.Sequence[tuple[str, str]], keyring: str) -> str:
    """The file that lets apt take the driver from its source, in deb822 syntax.

    Empty where the archives are not known.

    archives: addresses and suites that the host has its distribution from.
    """
    if source == "repository":
        return apt_repository.source(repository, PURPOSE)
    by_uri: dict[str, list[str]] = {}
    for uri, suite in archives:
        by_uri.setdefault(uri, []).append(suite)
    stanzas = [
        f"Types: deb\nURIs: {uri}\nSuites: {' '.join(suites)}\nComponents: contrib non-free non-free-firmware\nSigned-By: {keyring}"
        for uri, suites in by_uri.items()
    ]
    return f"# Made by deephdc.accelerators: {PURPOSE}.\n" + "\n\n".join(stanzas) + "\n" if stanzas else ""


def preferences(packages: t.Sequence[str]) -> str:
    """Return the file that holds the driver's packages to one version.

    NVLink's subnet manager is held to its own. An upgrade of the libraries alone would stop CUDA until the reboot.

    packages: name=version, that of the kernel module first. Backports may have the same driver in another revision.
    Packages of one revision depend on each other.
    """
    version = packages[0].split("=")[1]
    own = [package.split("=")[1] for package in packages if package.startswith(f"{SUBNET_MANAGER}=")]
    return (
        "# Made by deephdc.accelerators: kernel module and libraries change together, by the playbook gpu_hosts.\n"
        f"Package: {PINNED}\nPin: version {version}\nPin-Priority: 1001\n\n"
        f"Package: {PINNED}\nPin: version {upstream(version)}-*\nPin-Priority: 1000\n"
        + "".join(f"\nPackage: {SUBNET_MANAGER}\nPin: version {one}\nPin-Priority: 1001\n" for one in own)
    )
