# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Calls of OpenNebula's API by its own Python bindings, pyone.

Errors become sentences.
"""

from __future__ import annotations

import os
import signal
import stat
import traceback
from typing import Any, Dict, Mapping, Optional
from urllib.parse import urlsplit
from xmlrpc.client import Fault

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.deephdc.accelerators.plugins.module_utils._host import safe_directory, service_file
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused

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
ANSWER_SECONDS = 120
LOOPBACK = ("localhost", "127.0.0.1", "::1")


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
        # Else an environment could have them talk another protocol to an endpoint that has only this one.
        os.environ.pop("ONEAPI_PROTOCOL", None)
        self.auth_file = given["auth_file"]
        session = self._session()
        self.user = session.split(":", 1)[0]
        self.server = pyone.OneServer(self.endpoint, session=session, https_verify=given["ca_file"] or True)

    def _session(self) -> str:
        try:
            with service_file.opened(self.auth_file) as file:
                if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                    raise Refused("{0} has a password and can be read by others: chmod 600 {0}.".format(self.auth_file))
                session = file.read(4096).decode("utf-8").strip()
        except UnicodeDecodeError:
            raise Refused("{0} can't be read: it is no text.".format(self.auth_file)) from None
        except (OSError, ValueError, safe_directory.UnsafeLink) as error:
            raise Refused("{0} can't be read: {1}.".format(self.auth_file, getattr(error, "strerror", None) or error)) from None
        if ":" not in session or not session.isprintable():
            raise Refused("{0} must have one line, user:password, as OpenNebula's own has.".format(self.auth_file))
        return session

    def call(self, method: str, *arguments: Any) -> Any:
        """The value that a method gives, such as an id or a version."""
        # The bindings wait without an end.
        signal.signal(signal.SIGALRM, _too_late)
        signal.alarm(ANSWER_SECONDS)
        try:
            return getattr(self.server, method)(*arguments)
        except pyone.OneAuthenticationException:
            raise Refused("OpenNebula at {0} does not accept the user and password in {1}.".format(self.endpoint, self.auth_file)) from None
        except (pyone.OneException, Fault) as error:
            raise Refused("OpenNebula refuses {0}: {1}".format(method, _line(error))) from None
        except OSError as error:
            raise Refused("OpenNebula at {0} does not answer: {1}".format(self.endpoint, _line(error))) from None
        except Exception as error:  # each layer below has its own classes: xmlrpc, expat, lxml
            raise self._unreadable(method, _line(error)) from None
        finally:
            signal.alarm(0)

    def get(self, method: str, *arguments: Any) -> Dict[str, Any]:
        """The object that a method gives.

        Read from the XML that pyone keeps, as its classes leave out attributes that are not in the schema, such as quotas of a site's own.
        """
        node = getattr(self.call(method, *arguments), "gds_elementtree_node_", None)
        if node is None:
            raise self._unreadable(method, "it is no XML")
        found = tree(node)
        return found if isinstance(found, dict) else {}

    def one(self, pool: str, kind: str, name: str, *arguments: Any) -> Optional[Dict[str, Any]]:
        """The object of a name in a pool, None where there is none."""
        entries = self.get(pool, *arguments).get(kind) or []
        entries = [entry for entry in (entries if isinstance(entries, list) else [entries]) if isinstance(entry, dict)]
        return next((entry for entry in entries if entry.get("NAME") == name), None)

    def number(self, entry: Mapping[str, Any], name: str) -> int:
        """A number that every object has, such as its ID."""
        try:
            return int(entry[name])
        except (KeyError, TypeError, ValueError):
            raise self._unreadable(str(entry.get("NAME")), "it has no {0}".format(name)) from None

    def _unreadable(self, what: str, why: str) -> Refused:
        return Refused(
            "What OpenNebula at {0} answers about {1} can't be read: {2}. See whether its API is there, and nothing else.".format(
                self.endpoint, what, why
            )
        )


def _too_late(_signal: int, _frame: Any) -> None:
    raise TimeoutError("nothing came for {0} s".format(ANSWER_SECONDS))


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def tree(node: Any) -> Any:
    """Return an element of XML as a dictionary or as text.

    The dictionary has a list where one name comes several times.
    """
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
