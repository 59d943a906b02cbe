# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Which names and numbers accounts and groups may have: pure functions."""

from __future__ import annotations

import re
import typing as t

# What Debian's adduser(8) and systemd-sysusers(8) take.
NAME = re.compile(r"[a-z_][a-z0-9_-]*", re.ASCII)
LONGEST = 31
# Below are system accounts.
FIRST = 1000
# systemd's and the distribution's own numbers, such as those of the user `nobody` and the 16-bit -1.
FOREIGN = range(60000, 65536)
# They may not be on a host yet, and packages or administrators expect them to be theirs. What a host has is seen there.
OF_THE_SYSTEM = """
    root daemon bin sys sync games man lp mail news uucp proxy www-data backup list irc gnats nobody nogroup adm tty disk kmem dialout
    fax voice cdrom floppy tape sudo wheel admin audio dip operator src shadow utmp video sasl plugdev staff users input sgx kvm
    render crontab netdev ssh sshd messagebus polkitd docker lxd libvirt slurm munge mysql mariadb redis memcache postgres zabbix
    prometheus grafana ansible puppet nagios bind ntp chrony tss rdma wireshark
"""
# Users of the managers' services, and of what this collection's roles install; a test compares them with the roles.
OF_SERVICES = """
    slurmctld slurmd slurmdbd slurmrestd slurm_gateway slurm-info kubernetes-info openstack-info oidc-sessions etcd nvidia-persistenced
    keystone glance placement neutron nova rabbitmq epmd zookeeper mesos marathon marathon-lb chronos haproxy mesos-info
"""
RESERVED = frozenset([*OF_THE_SYSTEM.split(), *OF_SERVICES.split()])


def unfit(name: t.Any) -> str:
    """Why a name can't be that of an account or group, nothing where it can."""
    if not isinstance(name, str) or len(name) > LONGEST or not NAME.fullmatch(name):
        return f"is no login name (at most {LONGEST} of a-z, 0-9, '_' and '-', beginning with a letter)"
    return "is a name that belongs to the system" if name in RESERVED or name.startswith("systemd-") else ""


def is_number(value: t.Any) -> bool:
    """Return whether a value can be the uid or gid of what is no part of the system.

    It is the number of an account or a group.
    """
    return isinstance(value, int) and FIRST <= value < 2**31 and value not in FOREIGN


def shown(value: t.Any, most: int = 60) -> str:
    """Return a stranger's text for a sentence, as one short line.

    No template and no terminal takes it for more than text.
    """
    plain = "".join(sign if sign.isprintable() and sign not in "{}%" else "?" for sign in str(value))
    return plain if len(plain) <= most else f"{plain[: most - 3]}..."
