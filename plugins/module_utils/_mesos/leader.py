# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What an operator asks the leading master of a Mesos cluster, or Marathon, from a host that has one of them."""

from __future__ import annotations

import base64
import json
import re
import socket
import ssl
import urllib.error
import urllib.request
from typing import Any, Dict, Mapping, Optional
from urllib.parse import urlsplit

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused

TIMEOUT = 20.0  # seconds for a question
PRINCIPAL = "operator"
LINE = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)=(.*)")


def environment(path: str) -> Dict[str, str]:
    """Read a daemon's environment as systemd does, as far as the collection writes such files.

    :raises Refused: it can't be read.
    """
    try:
        with open(path, encoding="utf-8") as file:
            lines = [LINE.fullmatch(line.rstrip("\n")) for line in file]
    except OSError as error:
        raise Refused("{0} can't be read ({1}): name a host that has this daemon.".format(path, error.strerror)) from error
    return {line.group(1): line.group(2).strip().strip("'\"") for line in lines if line}


def secret_of(path: str) -> str:
    """Read the operator's secret from the master's file of credentials.

    :raises Refused: it has none.
    """
    try:
        with open(path, encoding="utf-8") as file:
            listed = json.load(file)["credentials"]
        return str(next(one["secret"] for one in listed if one["principal"] == PRINCIPAL))
    except (OSError, ValueError, KeyError, TypeError, StopIteration):  # their text may have a secret
        raise Refused("{0} has no principal {1}: run the playbook mesos.".format(path, PRINCIPAL)) from None


def master_url(variables: Mapping[str, str]) -> str:
    """The address of the master that has this environment."""
    has_tls = variables.get("LIBPROCESS_SSL_ENABLED", "").lower() in ("1", "true")
    host = variables.get("MESOS_HOSTNAME") or socket.getfqdn()
    return "{0}://{1}:{2}".format("https" if has_tls else "http", host, variables.get("MESOS_PORT") or 5050)


def marathon_url(variables: Mapping[str, str]) -> str:
    """The address of the Marathon that has this environment; by TLS where it has a key store."""
    host = variables.get("MARATHON_HOSTNAME") or socket.getfqdn()
    if variables.get("MARATHON_SSL_KEYSTORE_PATH") or variables.get("MESOSPHERE_KEYSTORE_PATH"):
        return "https://{0}:{1}".format(host, variables.get("MARATHON_HTTPS_PORT") or 8443)
    return "http://{0}:{1}".format(host, variables.get("MARATHON_HTTP_PORT") or 8080)


class _Redirect(urllib.request.HTTPRedirectHandler):
    """Follows a master that does not lead to the one that does, also with a body. The password goes to no address without TLS."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if code not in (307, 308) or urlsplit(newurl).scheme != urlsplit(req.full_url).scheme:
            return None
        kept = {name: value for name, value in req.header_items() if name.lower() != "host"}
        return urllib.request.Request(newurl, data=req.data, headers=kept, method=req.get_method())


class Api:
    """A daemon with an interface of HTTP and basic authentication."""

    def __init__(self, name: str, url: str, user: str, secret: str, authority: str) -> None:
        self.name, self.url = name, url
        word = base64.b64encode("{0}:{1}".format(user, secret).encode("utf-8")).decode("ascii")
        self._headers = {"Authorization": "Basic " + word, "Accept": "application/json"}
        handlers = [_Redirect()]  # type: Any
        if url.startswith("https:"):
            try:
                handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=authority)))
            except OSError as error:
                raise Refused("{0} can't be read ({1}).".format(authority, error.strerror)) from error
        self._opener = urllib.request.build_opener(*handlers)

    def ask(self, path: str, method: str = "GET", body: Optional[Mapping[str, Any]] = None) -> Any:
        """What the daemon answers to a request; None where it answers nothing.

        :raises Refused: it does not answer, or refuses.
        """
        data = None if body is None else json.dumps(body).encode("utf-8")
        headers = {**self._headers, **({"Content-Type": "application/json"} if data is not None else {})}
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        try:
            with self._opener.open(request, timeout=TIMEOUT) as answer:
                text = answer.read().decode("utf-8")
        except urllib.error.HTTPError as error:
            said = " ".join(error.read().decode("utf-8", "replace").split())[:200]
            raise Refused(
                "{0} refuses {1} {2} with {3}{4}.".format(self.name, method, path, error.code, ": " + said if said else "")
            ) from None
        except (OSError, ValueError) as error:
            why = " ".join(str(getattr(error, "reason", None) or error).split())[:200]
            raise Refused("{0} at {1} does not answer: {2}.".format(self.name, self.url, why)) from None
        try:
            return json.loads(text) if text.strip() else None
        except ValueError:
            raise Refused("{0} answers {1} {2} with something else than JSON.".format(self.name, method, path)) from None


def master(environment_file: str, credentials: str, authority: str) -> Api:
    """The master of this host as the operator sees it."""
    return Api("The Mesos master", master_url(environment(environment_file)), PRINCIPAL, secret_of(credentials), authority)


def marathon(environment_file: str, authority: str) -> Api:
    """The Marathon of this host as its one account sees it.

    :raises Refused: its environment has no account.
    """
    variables = environment(environment_file)
    user, colon, secret = variables.get("MESOSPHERE_HTTP_CREDENTIALS", "").partition(":")
    if not colon:
        raise Refused("{0} has no account of Marathon: run the playbook mesos.".format(environment_file))
    return Api("Marathon", marathon_url(variables), user, secret, authority)
