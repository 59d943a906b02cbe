# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The masters of a Mesos cluster by HTTP, as its operator.

The leader is asked, whichever it is.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused

# How modules are given the masters, in their argument_spec.
OPTIONS: Dict[str, Any] = {
    "masters": {"type": "list", "elements": "str", "default": []},
    "names": {"type": "dict", "default": {}},
    "ca": {"type": "str", "default": ""},
    "cluster": {"type": "path", "default": "/etc/mesos/cluster.json"},
    "credentials": {"type": "path", "default": "/etc/mesos/credentials.json"},
    "principal": {"type": "str", "default": "operator"},
    "patience": {"type": "float", "default": 60.0},
}
TIMEOUT = 10  # seconds of one request
PAUSE = 1  # seconds between two looks for a leader
# Older masters have the second one only.
REDIRECTS = ("/redirect", "/master/redirect")


def secret_of(path: str, principal: str) -> str:
    """Read a principal's secret from a file of credentials.

    :raises Refused: the file is missing, open to others, or has no such principal.
    """
    try:
        mode = os.stat(path).st_mode
        with open(path, encoding="utf-8") as file:
            known = {str(one["principal"]): str(one["secret"]) for one in json.load(file)["credentials"]}
    except OSError as error:
        raise Refused("{0} can't be read: {1}. Run the playbook mesos first.".format(path, error.strerror)) from error
    except (ValueError, KeyError, TypeError):
        # Not its cause, which would have the content.
        raise Refused("{0} is no file of credentials as JSON: run the playbook mesos again.".format(path)) from None
    if mode & 0o077:
        raise Refused("{0} can be read by others than root: take that away, and change the secrets.".format(path))
    if principal not in known:
        raise Refused("{0} has no principal {1}: run the playbook mesos again.".format(path, principal))
    return known[principal]


def connect(given: Mapping[str, Any]) -> Masters:
    """Return the masters that a module's parameters name.

    Without them, these are the masters in the file that the role mesos_master wrote.

    :raises Refused: a file is missing, or is something else.
    """
    masters, names, ca = given["masters"], given["names"], given["ca"]
    if not masters:
        try:
            with open(given["cluster"], encoding="utf-8") as file:
                found = json.load(file)
            masters, names, ca = list(found["masters"]), dict(found["names"]), str(found["ca"])
        except OSError as error:
            raise Refused("{0} can't be read: {1}. Run the playbook mesos first.".format(given["cluster"], error.strerror)) from error
        except (ValueError, KeyError, TypeError) as error:
            raise Refused("{0} does not name the masters: run the playbook mesos again.".format(given["cluster"])) from error
    secret = secret_of(given["credentials"], given["principal"])
    return Masters(masters, given["principal"], secret, ca, names, given["patience"])


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer here: it says who the leader is."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class Masters:
    """The masters of a cluster.

    :param addresses: of all masters, with their ports.
    :param ca: path of the authority's certificate; empty for plain HTTP.
    :param names: addresses by host name, for names that the host's resolver does not know.
    :param patience: seconds in which a leader must be there.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        principal: str,
        secret: str,
        ca: str = "",
        names: Optional[Mapping[str, str]] = None,
        patience: float = 60.0,
    ) -> None:
        self.addresses = list(addresses)
        self.scheme = "https" if ca else "http"
        self.names = dict(names or {})
        self.patience = patience
        self.leader = ""
        token = base64.b64encode("{0}:{1}".format(principal, secret).encode()).decode()
        self.principal, self.authorization = principal, "Basic " + token
        handlers: List[urllib.request.BaseHandler] = [NoRedirect(), urllib.request.ProxyHandler({})]
        if ca:
            try:
                handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca)))
            except (OSError, ssl.SSLError) as error:
                raise Refused("{0} is no certificate of an authority: {1}.".format(ca, error)) from error
        self.opener = urllib.request.build_opener(*handlers)

    def get(self, path: str) -> Dict[str, Any]:
        """Read what the leader has at a path."""
        found = json.loads(self._ask(path, None) or b"{}")
        if not isinstance(found, dict):
            raise Refused("The master answers {0} with something else than an object.".format(path))
        return found

    def call(self, kind: str, **arguments: Any) -> None:
        """Ask the leader to do something, by the operator's interface."""
        self._ask("/api/v1", {"type": kind, kind.lower(): arguments})

    def _ask(self, path: str, body: Optional[Mapping[str, Any]]) -> bytes:
        deadline = time.monotonic() + self.patience
        while True:
            said = ""
            try:
                self.leader = self.leader or self._find_leader()
                if self.leader:
                    return self._request(self.leader + path, body)
                said = "none of them knows a leader"
            except urllib.error.HTTPError as error:
                said = self._judge(error, path)
            except (OSError, http.client.HTTPException) as error:
                said = _reason(error)
            # Another one may lead by now.
            self.leader = ""
            if time.monotonic() >= deadline:
                raise Refused("The masters {0} do not answer as they should: {1}.".format(", ".join(self.addresses), said))
            time.sleep(PAUSE)

    def _judge(self, error: urllib.error.HTTPError, path: str) -> str:
        """What an answer with an error says, where it is worth to ask again.

        :raises Refused: it is not.
        """
        if error.code in (307, 503):
            return "{0} answers {1}".format(self.leader, error.code)
        if error.code == 401:
            raise Refused("The master {0} does not know {1} with this secret: run the playbook mesos.".format(self.leader, self.principal))
        if error.code == 403:
            raise Refused("The master {0} does not let {1} use {2}: run the playbook mesos.".format(self.leader, self.principal, path))
        said = " ".join(error.read().decode("utf-8", "replace").split())[:200]
        raise Refused("The master {0} answers {1} with the error {2}: {3}".format(self.leader, path, error.code, said))

    def _find_leader(self) -> str:
        """The address of the leader, as one of the masters has it; empty where none knows."""
        last: Optional[Exception] = None
        for address in self.addresses:
            for path in REDIRECTS:
                try:
                    self._request("{0}://{1}{2}".format(self.scheme, address, path), None)
                except urllib.error.HTTPError as error:
                    location = error.headers.get("Location") if error.code == 307 else None
                    if location:
                        return self._address_of(location)
                    if error.code != 404:
                        break
                except (OSError, http.client.HTTPException) as error:
                    last = error
                    break
        if last:
            raise last
        return ""

    def _address_of(self, location: str) -> str:
        """The leader's address from //host:port, or the same with a scheme."""
        parts = urllib.parse.urlsplit(location)
        host = self.names.get(parts.hostname or "", parts.hostname or "")
        port = ":{0}".format(parts.port) if parts.port else ""
        return "{0}://{1}{2}".format(self.scheme, "[{0}]".format(host) if ":" in host else host, port)

    def _request(self, url: str, body: Optional[Mapping[str, Any]]) -> bytes:
        headers = {"Authorization": self.authorization, "Accept": "application/json"}
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        with self.opener.open(urllib.request.Request(url, data, headers), timeout=TIMEOUT) as answer:
            return bytes(answer.read())


def _reason(error: Exception) -> str:
    """Why a request failed, without a line feed."""
    return " ".join(str(getattr(error, "reason", None) or error or type(error).__name__).split())[:200].rstrip(".")
