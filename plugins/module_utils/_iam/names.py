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
# Users of cloud images, who are root by sudo there, and of packages that are often installed later. An account that had such a name before
# keeps it.
OF_IMAGES_AND_PACKAGES = """
    ubuntu debian centos fedora rocky almalinux cloud-user ec2-user azureuser opc core vagrant packer cloud-init oneadmin onedata stack
    administrator superuser toor sysadmin rescue maintenance
    nvidia nvidia-dcgm dcgm nginx apache apache2 httpd caddy tomcat jetty squid varnish traefik envoy jenkins gitlab-runner gitlab-www git
    gitea svn docker-registry registry containerd kube kubelet crio calico flannel consul nomad vault telegraf influxdb influx loki promtail
    node-exporter node_exporter prometheus-node-exporter alertmanager thanos collectd statd netdata icinga nagios-nrpe nrpe zabbix-agent
    elasticsearch logstash kibana filebeat fluentd td-agent graylog kafka hadoop hdfs yarn spark cassandra mongodb mongod couchdb memcached
    postfix dovecot dovenull exim opendkim clamav amavis spamd unbound named pdns dnsmasq dhcpd radvd radiusd freerad openldap ldap sssd
    ceph cephadm gluster glusterd nfsnobody rpc rpcuser lustre beegfs munin bacula barman borg pgbouncer pgadmin rsync vsftpd ftp
    ftpuser tftp sftp avahi colord geoclue gdm lightdm sddm pulse rtkit saned uuidd usbmux tcpdump pcp cockpit-ws frr quagga bird openvpn
    strongswan tor wazuh ossec falco suricata snort crowdsec rundeck awx semaphore jupyterhub rstudio-server singularity apptainer cvmfs
    condor pbs torque sge lsf flux libvirt-qemu libvirt-dnsmasq swtpm qemu cinder heat horizon ironic swift barbican octavia designate
    manila octopus tftpd ntpd ntpsec openntpd dbus systemd pi ssm-user incus incus-admin microk8s
"""
CLAIMED = frozenset(OF_IMAGES_AND_PACKAGES.split())


def unfit(name: t.Any) -> str:
    """Why a name can't be that of an account or group, nothing where it can."""
    if not isinstance(name, str) or len(name) > LONGEST or not NAME.fullmatch(name):
        return f"is no login name (at most {LONGEST} of a-z, 0-9, '_' and '-', beginning with a letter)"
    return "is a name that belongs to the system" if name in RESERVED or name.startswith("systemd-") else ""


def claimed(name: str) -> str:
    """Why no new account or group may have a login name.

    The text is empty where it may.
    """
    if name.startswith("_") or name in CLAIMED:
        return "is one of cloud images or packages, which give it rights"
    return ""


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
