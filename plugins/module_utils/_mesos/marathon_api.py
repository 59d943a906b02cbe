# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What an operator asks Marathon, from a host that has it."""

from __future__ import annotations

import base64
import json
import re
import socket
import ssl
import urllib.error
import urllib.request
from typing import Any, Dict, Mapping

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused

TIMEOUT = 20.0  # seconds for a question
LINE = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)=(.*)")


def environment(path: str) -> Dict[str, str]:
    """Read a daemon's environment as systemd does, as far as the collection writes such files.

    :raises Refused: it can't be read.
    """
    try:
        with open(path, encoding="utf-8") as file:
            lines = [LINE.fullmatch(line.rstrip("\n")) for line in file]
    except OSError as error:
        raise Refused("{0} can't be read ({1}): run the playbook mesos first.".format(path, error.strerror)) from error
    return {line.group(1): line.group(2).strip().strip("'\"") for line in lines if line}


def url_of(variables: Mapping[str, str]) -> str:
    """The address of the Marathon that has this environment; by TLS where it has a key store."""
    host = variables.get("MARATHON_HOSTNAME") or socket.getfqdn()
    if variables.get("MARATHON_SSL_KEYSTORE_PATH") or variables.get("MESOSPHERE_KEYSTORE_PATH"):
        return "https://{0}:{1}".format(host, variables.get("MARATHON_HTTPS_PORT") or 8443)
    return "http://{0}:{1}".format(host, variables.get("MARATHON_HTTP_PORT") or 8080)


class Marathon:
    """The Marathon of this host, which passes what it is asked on to the leading one.

    :raises Refused: its environment has no account.
    """

    def __init__(self, environment_file: str, authority: str) -> None:
        variables = environment(environment_file)
        account = variables.get("MESOSPHERE_HTTP_CREDENTIALS") or variables.get("MARATHON_HTTP_CREDENTIALS") or ""
        if ":" not in account:
            raise Refused("{0} has no account of Marathon: run the playbook mesos again.".format(environment_file))
        self.url = url_of(variables)
        word = base64.b64encode(account.encode("utf-8")).decode("ascii")
        self._headers = {"Authorization": "Basic " + word, "Accept": "application/json"}
        try:
            self._context = ssl.create_default_context(cafile=authority) if self.url.startswith("https:") else None
        except OSError as error:
            raise Refused("{0} can't be read ({1}).".format(authority, error.strerror)) from error

    def ask(self, path: str, method: str = "GET") -> Any:
        """What Marathon answers; None where it answers nothing.

        :raises Refused: it does not answer, or refuses.
        """
        request = urllib.request.Request(self.url + path, headers=self._headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT, context=self._context) as answer:
                text = answer.read().decode("utf-8")
            return json.loads(text) if text.strip() else None
        except urllib.error.HTTPError as error:
            said = " ".join(error.read().decode("utf-8", "replace").split())[:200].rstrip(".")
            words = ": " + said if said else ""
            raise Refused("Marathon refuses {0} {1} with {2}{3}.".format(method, path, error.code, words)) from None
        except (OSError, ValueError) as error:
            why = " ".join(str(getattr(error, "reason", None) or error).split())[:200].rstrip(".")
            raise Refused("Marathon at {0} does not answer: {1}.".format(self.url, why)) from None
