# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The configuration of OpenStack's services on the control plane: pure functions.

Plan and secrets go in, files come out.

Sources: the configuration references of Keystone, Glance, Placement, Neutron and Nova of the release Zed.
"""

from __future__ import annotations

import base64
import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import ini
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.hosts import BY_NAME, Service, url

ETC = "/etc/deephdc/openstack"
CA = f"{ETC}/ca.pem"
SYSTEM_CA = "/etc/ssl/certs/ca-certificates.crt"
CACHE = "127.0.0.1:11211"
UWSGI = "/usr/bin/uwsgi_python3"
# Only Apache, which speaks TLS, asks the APIs: by sockets in folders of the services.
PROXY_GROUP = "www-data"
GLANCE_PORT = 19292  # on 127.0.0.1, as Glance does not work under uwsgi
DOMAIN = "Default"
SERVICE_PROJECT = "service"

Plan = t.Mapping[str, t.Any]
Secrets = t.Mapping[str, str]
Section = t.Dict[str, t.Any]


def ca_file(plan: Plan) -> str:
    return CA if plan["ca"] else SYSTEM_CA


def socket_of(service: Service) -> str:
    """The socket of an API, in a folder that no other unit has.

    systemd removes /run/nova and /run/neutron, with all that is in them, when any of the units ends that name it.
    """
    return f"/run/{socket_folder(service)}/api.socket"


def socket_folder(service: Service) -> str:
    return f"deephdc-{service.name}"


def database_url(plan: Plan, secrets: Secrets, account: str, database: str) -> str:
    secret = secrets[f"database_{account}"]
    return f"mysql+pymysql://{account}:{secret}@{plan['names']['database']}/{database}?charset=utf8&ssl_ca={ca_file(plan)}"


def transport_url(plan: Plan, secrets: Secrets, account: str) -> str:
    return f"rabbit://{account}:{secrets[f'messaging_{account}']}@{plan['names']['messaging']}:5671/?ssl=1"


def messaging(plan: Plan) -> dict[str, Section]:
    return {"oslo_messaging_rabbit": {"ssl": True, "ssl_ca_file": ca_file(plan), "ssl_enforce_hostname_verification": True}}


def account(plan: Plan, secrets: Secrets, name: str) -> Section:
    """How a service logs in to Keystone."""
    return {
        "auth_type": "password",
        "auth_url": plan["urls"]["keystone"],
        "user_domain_name": DOMAIN,
        "project_domain_name": DOMAIN,
        "project_name": SERVICE_PROJECT,
        "username": name,
        "password": secrets[f"account_{name}"],
        "cafile": ca_file(plan),
    }


def token_check(plan: Plan, secrets: Secrets, name: str) -> dict[str, Section]:
    """How a service checks the tokens of those who ask it."""
    return {
        "keystone_authtoken": {
            **account(plan, secrets, name),
            "www_authenticate_uri": plan["urls"]["keystone"],
            "memcached_servers": CACHE,
            "memcache_security_strategy": "ENCRYPT",
            "memcache_secret_key": secrets["cache"],
            # For so long a service believes a token that was good, also of who was taken out meanwhile.
            "token_cache_time": 30,
            "service_token_roles": "service",
            "service_token_roles_required": True,
        }
    }


def asks(plan: Plan, secrets: Secrets, name: str) -> Section:
    """How a service asks another one as itself."""
    return {**account(plan, secrets, name), "region_name": plan["region"]}


# Apache says by which protocol it was asked.
BEHIND_PROXY: dict[str, Section] = {"oslo_middleware": {"enable_proxy_headers_parsing": True}}


def keystone(plan: Plan, secrets: Secrets) -> dict[str, Section]:
    return {
        "DEFAULT": {"log_dir": "/var/log/keystone"},
        "database": {"connection": database_url(plan, secrets, "keystone", "keystone")},
        # A wrong password costs time, and too many of them close the account for a while.
        "security_compliance": {"lockout_failure_attempts": 10, "lockout_duration": 300},
        "token": {"provider": "fernet", "expiration": 3600},
        # Within one request alone: without it Keystone reads the same rows hundreds of times to check a token, which takes seconds.
        "cache": {"enabled": True, "backend": "dogpile.cache.null"},
        **BEHIND_PROXY,
        **plan["federation"].get("keystone", {}),
    }


def glance(plan: Plan, secrets: Secrets) -> dict[str, Section]:
    return {
        "DEFAULT": {
            "log_dir": "/var/log/glance",
            "bind_host": "127.0.0.1",
            "bind_port": GLANCE_PORT,
            "workers": plan["workers"],
            # Not web-download: Glance would fetch for its users what only hosts of the site can reach.
            "enabled_import_methods": "[glance-direct]",
            # Of a project: without it one user fills the disk of all.
            "user_storage_quota": "200GB",
        },
        "database": {"connection": database_url(plan, secrets, "glance", "glance")},
        "glance_store": {"stores": "file", "default_store": "file", "filesystem_store_datadir": "/var/lib/glance/images"},
        "paste_deploy": {"flavor": "keystone"},
        **BEHIND_PROXY,
        **token_check(plan, secrets, "glance"),
    }


def placement(plan: Plan, secrets: Secrets) -> dict[str, Section]:
    return {
        "DEFAULT": {"log_dir": "/var/log/placement"},
        "placement_database": {"connection": database_url(plan, secrets, "placement", "placement")},
        "api": {"auth_strategy": "keystone"},
        **BEHIND_PROXY,
        **token_check(plan, secrets, "placement"),
    }


def neutron(plan: Plan, secrets: Secrets) -> dict[str, Section]:
    return {
        "DEFAULT": {
            "core_plugin": "ml2",
            "service_plugins": "router",
            "auth_strategy": "keystone",
            "transport_url": transport_url(plan, secrets, "neutron"),
            "notify_nova_on_port_status_changes": True,
            "notify_nova_on_port_data_changes": True,
            "api_workers": plan["workers"],
            "rpc_workers": plan["workers"],
            "rpc_state_report_workers": 0,
            "global_physnet_mtu": plan["mtu"],
        },
        # Without it Neutron 21 does not load the linuxbridge driver.
        "experimental": {"linuxbridge": True},
        "agent": {"root_helper": "sudo /usr/bin/neutron-rootwrap /etc/neutron/rootwrap.conf"},
        "database": {"connection": database_url(plan, secrets, "neutron", "neutron")},
        "oslo_concurrency": {"lock_path": "/var/lib/neutron/tmp"},
        "quotas": {"quota_floatingip": plan["floating_addresses"]},
        "nova": asks(plan, secrets, "neutron"),
        **messaging(plan),
        **BEHIND_PROXY,
        **token_check(plan, secrets, "neutron"),
    }


def ml2(plan: Plan) -> dict[str, Section]:
    return {
        "ml2": {
            "type_drivers": "flat,vxlan",
            "tenant_network_types": "vxlan",
            "mechanism_drivers": "linuxbridge,l2population",
            "extension_drivers": "port_security",
            "path_mtu": plan["mtu"],
        },
        "ml2_type_flat": {"flat_networks": ",".join(plan["physical_networks"])},
        # Neutron keeps a row of its database for each.
        "ml2_type_vxlan": {"vni_ranges": "1:4000"},
        "securitygroup": {"enable_security_group": True, "enable_ipset": True},
    }


def nova(plan: Plan, secrets: Secrets, limits_endpoint: str) -> dict[str, Section]:
    limits = {
        "auth_type": "password",
        "auth_url": plan["urls"]["keystone"],
        "user_domain_name": DOMAIN,
        "username": "nova",
        "password": secrets["account_nova"],
        "system_scope": "all",
        "cafile": ca_file(plan),
        "endpoint_id": limits_endpoint,
    }
    return {
        "DEFAULT": {
            "log_dir": "/var/log/nova",
            "state_path": "/var/lib/nova",
            "transport_url": transport_url(plan, secrets, "nova"),
            "my_ip": plan["addresses"]["nova"],
            "enabled_apis": "osapi_compute",
            # A resize may stay on its host, as a site may have one.
            "allow_resize_to_same_host": True,
        },
        "api_database": {"connection": database_url(plan, secrets, "nova", "nova_api")},
        "database": {"connection": database_url(plan, secrets, "nova", "nova")},
        "api": {"auth_strategy": "keystone"},
        "conductor": {"workers": plan["workers"]},
        "scheduler": {"workers": plan["workers"], "discover_hosts_in_cells_interval": 10},
        # Keystone's limits count GPUs by class, which Nova's own quotas can't.
        "quota": {"driver": "nova.quota.UnifiedLimitsDriver"},
        "oslo_limit": limits,
        "oslo_concurrency": {"lock_path": "/var/lib/nova/tmp"},
        "glance": {"cafile": ca_file(plan), "region_name": plan["region"]},
        "placement": asks(plan, secrets, "nova"),
        "neutron": asks(plan, secrets, "nova"),
        "service_user": {**account(plan, secrets, "nova"), "send_service_user_token": True},
        "vnc": {"enabled": False},
        **messaging(plan),
        **BEHIND_PROXY,
        **token_check(plan, secrets, "nova"),
    }


# Calls that Nova takes and the driver can't do: a rescue stops the server and leaves it in ERROR, the others do nothing.
REFUSED = ("os_compute_api:os-rescue", "os_compute_api:os-suspend-server:suspend", "os_compute_api:servers:trigger_crash_dump")
# After Debian's own file.
POLICY = "/etc/nova/policy.d/90_deephdc.yaml"
# What Keystone remembers of a request lies in its thread's context, and is there in the next one until the caller was checked.
KEYSTONE_WSGI = f"{ETC}/keystone_wsgi.py"
FORGETFUL = f'''{ini.MARK}"""Keystone's API; a request remembers nothing of the one before, so who lost a role is refused at once."""

from keystone.server.wsgi import initialize_public_application
from oslo_context.context import RequestContext

keystone = initialize_public_application()


def application(environ, start_response):
    RequestContext(overwrite=True)
    return keystone(environ, start_response)
'''


def uwsgi(service: Service, plan: Plan) -> dict[str, Section]:
    """Return an API's server as packaged, except socket and number of processes."""
    program = {"keystone": KEYSTONE_WSGI, "nova": "/usr/bin/nova-api-wsgi"}.get(service.name, f"/usr/bin/{service.units[0]}")
    extra = {"neutron": {"paste": "config:/etc/neutron/api-paste.ini"}}.get(service.name, {})
    return {
        "uwsgi": {
            "http-socket": socket_of(service),
            "chmod-socket": "660",
            "chown-socket": f"{service.name}:{PROXY_GROUP}",
            "buffer-size": 65535,
            "rem-header": "Content-Length",
            "master": True,
            "thunder-lock": True,
            "plugins": "python3",
            "lazy-apps": True,
            "paste-logger": True,
            "no-orphans": True,
            "die-on-term": True,
            "enable-threads": True,
            "processes": plan["workers"],
            # Neutron complains of greenlets where there are more.
            "threads": 1,
            "listen": 100,
            "logto": f"/var/log/{service.name}/{service.units[0]}.log",
            "name": service.units[0],
            "chdir": f"/var/lib/{service.name}",
            **extra,
            "wsgi-file": program,
        }
    }


def drop_in(service: Service) -> str:
    """Return how systemd starts the API.

    It does so with the server's file above, and in Apache's group for the socket.
    """
    return (
        f"{ini.MARK}[Service]\nSupplementaryGroups={PROXY_GROUP}\nRuntimeDirectory={socket_folder(service)}\n"
        f"ExecStart=\nExecStart={UWSGI} --ini {ETC}/{service.name}_uwsgi.ini\n"
    )


def policy() -> str:
    """What no user may ask of Nova, as the driver of the role nova_lxd can't do it."""
    refused = [f'"{rule}": "!"\n' for rule in REFUSED]
    # Without this, the way out of a rescue would be refused with the way in.
    return "".join([ini.MARK, *refused, '"os_compute_api:os-unrescue": "rule:project_member_or_admin"\n'])


def secret_file(path: str, content: str, group: str) -> dict[str, str]:
    return {"path": path, "secret_base64": base64.b64encode(content.encode()).decode(), "group": group, "mode": "0640"}


def files(plan: Plan, secrets: Secrets, name: str, limits_endpoint: str = "") -> list[dict[str, t.Any]]:
    """The files of one service, as the module file_set takes them.

    :param secrets: by name; what each is for is in the role openstack_cloud.
    :param limits_endpoint: identifier of Nova's endpoint in Keystone, to which limits belong.
    :raises ValueError: a secret is missing, or a setting can't be written.
    """
    service = BY_NAME[name]
    own: t.Mapping[str, ini.Sections] = plan["settings"]
    try:
        main = {
            "keystone": lambda: keystone(plan, secrets),
            "glance": lambda: glance(plan, secrets),
            "placement": lambda: placement(plan, secrets),
            "neutron": lambda: neutron(plan, secrets),
            "nova": lambda: nova(plan, secrets, limits_endpoint),
        }[name]()
    except KeyError as error:
        raise ValueError(f"The cloud has no secret {error.args[0]}: see openstack_cloud_secrets_path.") from error
    path = f"/etc/{name}/{'glance-api' if name == 'glance' else name}.conf"
    made: list[dict[str, t.Any]] = [secret_file(path, ini.text(ini.merged(main, own.get(name) or {})), name)]
    if name == "neutron":
        content = ini.text(ini.merged(ml2(plan), own.get("ml2") or {}))
        made.append({"path": "/etc/neutron/plugins/ml2/ml2_conf.ini", "content": content, "group": name, "mode": "0640"})
    if name != "glance":
        unit = f"/etc/systemd/system/{service.units[0]}.service.d"
        made += [
            {"path": f"{ETC}/{name}_uwsgi.ini", "content": ini.text(uwsgi(service, plan))},
            {"path": unit, "state": "directory", "mode": "0755"},
            {"path": f"{unit}/deephdc.conf", "content": drop_in(service)},
        ]
    if name == "keystone":
        made.append({"path": KEYSTONE_WSGI, "content": FORGETFUL})
    if name == "nova":
        made += [{"path": POLICY.rpartition("/")[0], "state": "directory", "mode": "0755"}, {"path": POLICY, "content": policy()}]
    return made


def paths(name: str, unit: str) -> list[str]:
    """What a unit of a service reads at its start."""
    main = f"/etc/{name}/{'glance-api' if name == 'glance' else name}.conf"
    beside = {"neutron": ["/etc/neutron/plugins/ml2/ml2_conf.ini"], "keystone": [KEYSTONE_WSGI]}.get(name, [])
    own = [f"{ETC}/{name}_uwsgi.ini"] if name != "glance" and unit == BY_NAME[name].units[0] else []
    own += [POLICY] if name == "nova" and unit == BY_NAME[name].units[0] else []
    return [main, CA, *beside, *own]


def urls(names: t.Mapping[str, str]) -> dict[str, str]:
    """The address of each API, by service."""
    return {name: url(service, names[name]) for name, service in BY_NAME.items()}
