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
    **dict.fromkeys(
        ("slurmctldhost", "slurmctldaddr", "controlmachine", "controladdr", "backupcontroller", "backupaddr"),
        "it comes from the group slurm_controllers",
    ),
    "slurmuser": "the distribution's packages run as slurm",
    "slurmduser": "slurmd starts jobs of all users, as root",
    "authtype": "the role munge provides it",
    "authinfo": "the role munge provides it",
    "credtype": "the role munge provides it",
    "cryptotype": "the role munge provides it",
    "statesavelocation": "it comes from slurm_controller_state_directory",
    "slurmdspooldir": "the distribution's packages made the directory",
    "nodename": "nodes come from the group slurm_nodes",
    "downnodes": "it ends the jobs of these nodes; the playbook slurm_drain waits for them",
    "partitionname": "partitions come from slurm_cluster_partitions",
    "grestypes": "it comes from the accelerators found on the nodes",
    "proctracktype": "GPUs are confined by cgroup",
    "taskplugin": "GPUs are confined by cgroup",
    "selecttype": "only select/cons_tres schedules GPUs",
    "accountingstoragetype": "accounting goes to slurmdbd",
    "accountingstoragehost": "it comes from the group slurm_databases",
    "accountingstoragebackuphost": "it comes from the group slurm_databases",
    "accountingstorageport": "slurmdbd listens on its own port",
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
    "port": "it comes from SlurmdPort in slurm_cluster_settings, for all nodes",
    "state": "DOWN ends the jobs of the node, and a DRAIN would stay; the playbooks slurm_drain and slurm_resume do it",
}

# Lines of slurmdbd.conf that the role slurm_database writes.
OUR_DATABASE = {
    "authtype": "the role munge provides it",
    "authalttypes": "it comes from the group slurm_rest",
    "authaltparameters": "it comes from the group slurm_rest",
    "dbdhost": "it comes from the group slurm_databases",
    "dbdaddr": "it comes from the group slurm_databases",
    "dbdbackuphost": "it comes from the group slurm_databases",
    "dbdport": "the other daemons look for slurmdbd on its own port",
    "slurmuser": "the distribution's packages run as slurm",
    "logfile": "the role reads there why slurmdbd does not start",
    "storagetype": "SLURM keeps its records in MariaDB",
    "storagehost": "it comes from slurm_database_storage_host",
    "storageport": "MariaDB listens on its own port",
    "storageuser": "it comes from slurm_database_storage_user",
    "storagepass": "it comes from slurm_database_storage_password",
    "storagepassscript": "it comes from slurm_database_storage_password",
    "storageparameters": "it comes from slurm_database_storage_ca",
    "storageloc": "it comes from slurm_database_name",
}

# The fewest seconds that end no jobs, whether 0 means never, and why; slurm.conf(5).
LEAST_SECONDS = {
    "slurmdtimeout": (30, True, "a node that is silent for so long is set DOWN and its jobs end, and a restart takes some seconds"),
    "inactivelimit": (60, True, "the job of an srun or salloc that is silent for so long ends"),
    "batchstarttimeout": (10, False, "a batch job whose prolog takes longer is taken for lost"),
    "messagetimeout": (5, False, "a node that is busy for so long counts as silent"),
    "resumetimeout": (60, False, "a cloud node that has not booted after so long is set DOWN"),
    "prologepilogtimeout": (30, False, "a prolog that takes longer is ended and drains its node, and it waits for the driver's tool"),
    "waittime": (10, True, "the other tasks of a step are ended so long after the first one is done"),
}

# What SLURM takes in their place.
ENDLESS = {"INFINITE", "UNLIMITED"}

# Ports of the daemons; slurm.conf(5).
PORTS = {"SlurmctldPort": "6817", "SlurmdPort": "6818"}

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
    return found + times_that_end_jobs("slurm_cluster_settings", settings) + wrong_ports(settings)


def port(settings: t.Mapping[str, t.Any], name: str) -> str:
    """A port as slurm.conf writes it; slurmctld may have several, such as 6817-6820."""
    given = {key.lower(): value for key, value in settings.items()}
    return setting(given.get(name.lower(), PORTS[name])).strip('"')


def wrong_ports(settings: t.Mapping[str, t.Any]) -> list[str]:
    found = []
    for name in PORTS:
        first, sign, last = port(settings, name).partition("-")
        numbers = [int(one) for one in (first, last if sign else first) if one.isdecimal() and len(one) < 6]
        if len(numbers) < 2 or not 0 < numbers[0] <= numbers[1] < 65536 or (sign and name == "SlurmdPort"):
            found.append(
                f"slurm_cluster_settings sets {name}={port(settings, name)}, which is no port: write a number, such as {PORTS[name]}."
            )
    return found


def ports_change(settings: t.Mapping[str, t.Any], present: t.Mapping[str, str]) -> bool:
    return any(port(settings, name) != now for name, now in present.items())


def port_errors(
    settings: t.Mapping[str, t.Any], present: t.Mapping[str, str], busy: t.Collection[str] | None, cluster: str, allowed: t.Collection[str]
) -> list[str]:
    """Ports that can't change while jobs run.

    At its end a job looks for slurmctld where that was at its beginning.

    :param present: the ports of the daemons that run, nothing where there are none.
    :param busy: nodes on which jobs run, None where slurmctld does not answer.
    :param allowed: of slurm_cluster_end_jobs_in; the cluster's own name confirms it.
    """
    if (busy is not None and not busy) or cluster in allowed:
        return []
    why = f"jobs run on {', '.join(sorted(busy))}" if busy else "slurmctld does not answer, so it is not known whether jobs run"
    way = "drain all nodes (playbook slurm_drain) and end what waits in srun and salloc" if busy else "start slurmctld"
    return [
        f"slurm_cluster_settings sets {name}={port(settings, name)}, and the cluster runs with {name}={now}, but {why}. A job would not "
        f"find slurmctld when it ends. Set {name} to {now}, or {way}, then run again. To end the jobs, name {cluster} in "
        "slurm_cluster_end_jobs_in."
        for name, now in present.items()
        if port(settings, name) != now
    ]


def times_that_end_jobs(where: str, settings: t.Mapping[str, t.Any]) -> list[str]:
    """One sentence for each time that is too short for a cluster at work."""
    found = []
    for key, value in settings.items():
        if key.lower() not in LEAST_SECONDS:
            continue
        least, zero, why = LEAST_SECONDS[key.lower()]
        text = setting(value).strip('"')
        never = ", or 0 for never" if zero else ""
        if text.upper() in ENDLESS:
            continue
        if not re.fullmatch("[0-9]+", text):
            found.append(f"{where} sets {key}={text}, which is no number of seconds: set {least} or more{never}.")
        elif int(text) < least and not (zero and int(text) == 0):
            found.append(f"{where} sets {key}={text} seconds: {why}. Set {least} or more{never}.")
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
