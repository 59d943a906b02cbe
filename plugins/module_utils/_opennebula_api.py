# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Calls of OpenNebula's API by its own Python bindings, pyone, with errors as sentences."""

from __future__ import annotations

import os
import stat
import traceback
from typing import Any, Dict, Mapping, Optional
from urllib.parse import urlsplit

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

PYONE_FAULT: Optional[str] = None
try:
    import pyone
except ImportError:
    PYONE_FAULT = traceback.format_exc()

OPTIONS: Dict[str, Dict[str, Any]] = {
    "endpoint": {"type": "str", "default": "http://localhost:2633/RPC2"},
    "auth_file": {"type": "path", "default": "/var/lib/one/.one/one_auth"},
    "ca_file": {"type": "path"},
}
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Refused(Exception):
    """The wanted state can't be brought about; the text says why in one sentence."""


class Api:
    """One front end. Objects are given as nested dictionaries of their XML."""

    def __init__(self, module: AnsibleModule) -> None:
        if PYONE_FAULT and module.check_mode:
            module.exit_json(changed=True, msg="pyone is not installed yet, so nothing was compared")
        if PYONE_FAULT:
            module.fail_json(
                msg=missing_required_lib("pyone", reason="(on a front end: the package python3-pyone of OpenNebula's repository)"),
                exception=PYONE_FAULT,
            )
        given: Mapping[str, Any] = module.params
        self.endpoint = given["endpoint"]
        try:
            address = urlsplit(self.endpoint)
            host, scheme = address.hostname, address.scheme
        except ValueError:
            host, scheme = None, ""
        if not host or scheme not in ("http", "https"):
            raise Refused("The endpoint {0} is no URL: give one such as http://localhost:2633/RPC2.".format(self.endpoint))
        if host in LOOPBACK:
            # The bindings would ask a proxy of the environment even for this machine.
            os.environ["no_proxy"] = ",".join(LOOPBACK)
        elif scheme != "https":
            raise Refused("The password would go to {0} in clear text: give an endpoint with https.".format(host))
        self.auth_file = given["auth_file"]
        session = self._session()
        self.user = session.split(":", 1)[0]
        self.server = pyone.OneServer(self.endpoint, session=session, https_verify=given["ca_file"] or True)

    def _session(self) -> str:
        try:
            with open(self.auth_file, encoding="utf-8") as file:
                if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                    raise Refused("{0} has a password and can be read by others: chmod 600 {0}.".format(self.auth_file))
                session = file.read(4096).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Refused("{0} can't be read: {1}.".format(self.auth_file, getattr(error, "strerror", None) or "it is no text")) from None
        if ":" not in session or not session.isprintable():
            raise Refused("{0} must have one line, user:password, as OpenNebula's own has.".format(self.auth_file))
        return session

    def call(self, method: str, *arguments: Any) -> Any:
        """The value that a method gives, such as an id or a version."""
        try:
            return getattr(self.server, method)(*arguments)
        except pyone.OneAuthenticationException:
            raise Refused("OpenNebula at {0} does not accept the user and password in {1}.".format(self.endpoint, self.auth_file)) from None
        except pyone.OneException as error:
            raise Refused("OpenNebula refuses {0}: {1}".format(method, " ".join(str(error).split()))) from None
        except Exception as error:  # each layer below has classes of its own: requests, xmlrpc, lxml
            raise Refused("OpenNebula at {0} does not answer: {1}".format(self.endpoint, " ".join(str(error).split())[:300])) from None

    def get(self, method: str, *arguments: Any) -> Dict[str, Any]:
        """The object that a method gives.

        Read from the XML that pyone keeps, as its classes leave out attributes that are not in the schema, such as quotas of a site's own.
        """
        found = tree(self.call(method, *arguments).gds_elementtree_node_)
        return found if isinstance(found, dict) else {}

    def one(self, pool: str, kind: str, name: str, *arguments: Any) -> Optional[Dict[str, Any]]:
        """The object of a name in a pool, None where there is none."""
        entries = self.get(pool, *arguments).get(kind) or []
        return next((entry for entry in (entries if isinstance(entries, list) else [entries]) if entry.get("NAME") == name), None)


def tree(node: Any) -> Any:
    """An element of XML as a dictionary, with lists where one name comes several times, or as text."""
    if not len(node):
        return node.text or ""
    found: Dict[str, Any] = {}
    for child in node:
        if not isinstance(child.tag, str):
            continue
        value = tree(child)
        if child.tag in found:
            before = found[child.tag]
            found[child.tag] = [*before, value] if isinstance(before, list) else [before, value]
        else:
            found[child.tag] = value
    return found
