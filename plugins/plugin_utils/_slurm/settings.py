# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Settings of slurm.conf(5), cgroup.conf(5) and their lines: pure functions.

They say which are ours, and which a site may write and how.
"""

from __future__ import annotations

import re
import typing as t

# Settings that a site may override by slurm_cluster_settings.
DEFAULTS = {
    "EnforcePartLimits": "ALL",
    "HealthCheckInterval": "60",
    "HealthCheckNodeState": "ANY",
    "JobAcctGatherType": "jobacct_gather/cgroup",
    "MpiDefault": "none",
    "PrologEpilogTimeout": "60",
    "PriorityType": "priority/multifactor",
    "PriorityWeightAge": "1000",
    "PriorityWeightFairshare": "10000",
    "PriorityWeightQOS": "5000",
    "ReturnToService": "2",
    "SelectTypeParameters": "CR_Core_Memory",
    "SlurmctldLogFile": "/var/log/slurm/slurmctld.log",
    "SlurmdLogFile": "/var/log/slurm/slurmd.log",
}

# Where there is a backup controller, which takes over after so many seconds. A restart of the primary, which takes some seconds
# also on a busy host, must not be taken for its death; SLURM's own 120 s are long for users who wait.
BACKUP_DEFAULTS = {"SlurmctldTimeout": "60"}

# Where there are cloud nodes: programs that the role slurm_elastic installs (a test compares the paths),
ELASTIC_PROGRAMS = {
    "ResumeProgram": "/usr/local/libexec/deephdc/slurm_resume",
    "SuspendProgram": "/usr/local/libexec/deephdc/slurm_suspend",
    "ResumeFailProgram": "/usr/local/libexec/deephdc/slurm_resume_fail",
}
# settings that a site may override by slurm_cluster_settings (seconds, and nodes per minute),
ELASTIC_DEFAULTS = {
    "ResumeTimeout": "900",
    "SuspendTime": "600",
    "SuspendTimeout": "120",
    "ResumeRate": "60",
    "SuspendRate": "60",
    # Daemons would pass messages on through cloud nodes, whose addresses they do not know.
    "TreeWidth": "65533",
}
# and what lets a node that failed be asked for again.
ELASTIC_PARAMETERS = ("idle_on_node_suspend",)

# Settings that only the collection makes, with the variable or reason behind each.
OURS = {
    "clustername": "it comes from slurm_cluster_name",
    "slurmctldhost": "it comes from the group slurm_controllers",
    "slurmuser": "the distribution's packages run as slurm",
    "authtype": "the role munge provides it",
    "statesavelocation": "it comes from slurm_controller_state_directory",
    "slurmdspooldir": "the distribution's packages made the directory",
    "nodename": "nodes come from the group slurm_nodes",
    "partitionname": "partitions come from slurm_cluster_partitions",
    "grestypes": "it comes from the accelerators found on the nodes",
    "proctracktype": "GPUs are confined by cgroup",
    "taskplugin": "GPUs are confined by cgroup",
    "selecttype": "only select/cons_tres schedules GPUs",
    "accountingstoragetype": "accounting goes to slurmdbd",
    "accountingstoragehost": "it comes from the group slurm_databases",
    "accountingstoragebackuphost": "it comes from the group slurm_databases",
    "accountingstorageenforce": "associations, limits and QOS are always enforced",
    "healthcheckprogram": "the role slurm_node installs it",
    "prolog": "put your own programs into /etc/slurm/prolog.d on the nodes",
    "epilog": "put your own programs into /etc/slurm/epilog.d on the nodes",
}
OUR_CGROUP = {"constraindevices", "constraincores", "constrainramspace"}

OUR_NODE = {
    "nodename": "it is the host's own name",
    "nodeaddr": "it comes from slurm_cluster_address or the default route",
    "nodehostname": "it is the host's own name",
    "gres": "it comes from the accelerators found on the host",
}

OUR_PARTITION = {
    "partitionname": "it comes from the key name",
    "nodes": "they come from the keys group, cloud and gpu_types",
    "default": "it comes from the key default",
    "maxtime": "it comes from the key max_time",
    "defaulttime": "it comes from the key default_time",
}
SETTING_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

# SLURM reads "#" as the start of a comment, "\" at the end of a line as its continuation, and blanks as the next setting.
SETTING_VALUE = re.compile(r"[^\s\x00-\x1f\x7f#\"\\]+|\"[^\x00-\x1f\x7f#\"\\]+\"")

# Lists that a site's value is added to instead of replacing ours.
MERGED = {
    "accountingstoragetres": "AccountingStorageTRES",
    "authaltparameters": "AuthAltParameters",
    "authalttypes": "AuthAltTypes",
    "privatedata": "PrivateData",
    "prologflags": "PrologFlags",
    "schedulerparameters": "SchedulerParameters",
    "slurmctldparameters": "SlurmctldParameters",
}


def reserved_settings(settings: t.Any, cgroup: t.Any) -> list[str]:
    """Return one sentence for each extra setting that is refused.

    It contradicts the collection's own, or can't stand in SLURM's files.
    """
    found = unwritable_settings("slurm_cluster_settings", settings) + unwritable_settings("slurm_cluster_cgroup_settings", cgroup)
    if found:
        return found
    found = [
        f"slurm_cluster_settings sets {key}, which the collection sets itself ({OURS[key.lower()]}): remove it there."
        for key in settings
        if key.lower() in OURS
    ]
    found += [
        f"slurm_cluster_cgroup_settings sets {key}={value}, but GPUs, cores and memory are always confined: remove it there."
        for key, value in cgroup.items()
        if key.lower() in OUR_CGROUP
    ]
    return found


def line_settings_errors(where: str, settings: t.Any, ours: t.Mapping[str, str]) -> list[str]:
    """The same for the settings of a node or partition line."""
    return unwritable_settings(where, settings) or [
        f"{where} sets {key}, which the collection sets itself ({ours[key.lower()]}): remove it there."
        for key in settings
        if key.lower() in ours
    ]


def unwritable_settings(where: str, settings: t.Any) -> list[str]:
    """One sentence for each setting that would not be one setting in the file.

    A line break could smuggle in another one.
    """
    if not isinstance(settings, t.Mapping):
        return [f"{where} must be a dictionary of settings and their values."]
    found = [f"{where} has {key!r}, which is no name of a setting." for key in settings if not is_setting_name(key)]
    found += [
        f"{where} gives {key} a value that SLURM can't read: one word or a list of words is allowed, or text in double quotes; "
        "neither line breaks nor '#', backslashes or an empty value."
        for key, value in settings.items()
        if is_setting_name(key) and not is_setting_value(value)
    ]
    return found


def is_setting_name(key: t.Any) -> bool:
    return isinstance(key, str) and SETTING_NAME.fullmatch(key) is not None


def is_setting_value(value: t.Any) -> bool:
    items = value if isinstance(value, (list, tuple)) else [value]
    scalars = all(isinstance(item, (str, int, float)) for item in items)
    return scalars and SETTING_VALUE.fullmatch(setting(value)) is not None


def setting(value: t.Any) -> str:
    """A value as slurm.conf writes it."""
    if isinstance(value, bool):
        return "YES" if value else "NO"
    if isinstance(value, (list, tuple)):
        return ",".join(setting(item) for item in value)
    return str(value)


def merged_list(ours: t.Sequence[str], theirs: t.Any) -> str:
    values = list(ours)
    for value in setting(theirs).split(",") if theirs else []:
        if value.strip() and value.strip() not in values:
            values.append(value.strip())
    return ",".join(values)


def with_settings(parts: t.Mapping[str, str], settings: t.Mapping[str, t.Any], state: str) -> str:
    """The settings of one line.

    A site's replace ours, as SLURM reports one that stands there twice.
    """
    theirs = {key.lower() for key in settings}
    words = [f"{key}={value}" for key, value in parts.items() if key.lower() not in theirs]
    words += [f"{key}={setting(value)}" for key, value in sorted(settings.items())]
    if "state" not in theirs:
        words.append(f"State={state}")
    return " ".join(words)
