# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What an operator asks Marathon, from a host that has it."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import ssl
import urllib.error
import urllib.request
from typing import Any, Dict, Mapping, Pattern

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused

TIMEOUT = 20.0  # seconds for a question
VARIABLE = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)=(.*)")
FLAG = re.compile(r"--(\w+)(.*)")


def read(path: str, form: Pattern[str]) -> Dict[str, str]:
    """Read the pairs in a file that the role marathon writes.

    The file is its environment, or its arguments.

    :raises Refused: it can't be read.
    """
    try:
        with open(path, encoding="utf-8") as file:
            lines = [form.fullmatch(line.rstrip("\n")) for line in file]
    except OSError as error:
        raise Refused("{0} can't be read ({1}): run the playbook mesos first.".format(path, error.strerror)) from error
    return {line.group(1): line.group(2).strip().strip("'\"") for line in lines if line}


def url_of(flags: Mapping[str, str]) -> str:
    """Return the address of the Marathon that has these flags.

    It is by TLS where Marathon does not speak plain HTTP.
    """
    host = flags.get("hostname") or socket.getfqdn()
    if "disable_http" in flags:
        return "https://{0}:{1}".format(host, flags.get("https_port") or 8443)
    return "http://{0}:{1}".format(host, flags.get("http_port") or 8080)


class Marathon:
    """The Marathon of this host, which passes what it is asked on to the leading one.

    :param folder: where its environment, its arguments and the authority of its certificate are.
    :raises Refused: its environment has no account.
    """

    def __init__(self, folder: str) -> None:
        place, authority = os.path.join(folder, "environment"), os.path.join(folder, "ca.pem")
        account = read(place, VARIABLE).get("MESOSPHERE_HTTP_CREDENTIALS", "")
        if ":" not in account:
            raise Refused("{0} has no account of Marathon: run the playbook mesos again.".format(place))
        self.url = url_of(read(os.path.join(folder, "arguments"), FLAG))
        word = base64.b64encode(account.encode("utf-8")).decode("ascii")
        self._headers = {"Authorization": "Basic " + word, "Accept": "application/json"}
        try:
            context = ssl.create_default_context(cafile=authority) if self.url.startswith("https:") else None
        except OSError as error:
            raise Refused("{0} can't be read ({1}).".format(authority, error.strerror)) from error
        # No proxy of the environment: it would be given the account.
        handlers = [urllib.request.ProxyHandler({}), *([urllib.request.HTTPSHandler(context=context)] if context else [])]
        self._opener = urllib.request.build_opener(*handlers)

    def ask(self, path: str, method: str = "GET") -> Any:
        """What Marathon answers; None where it answers nothing.

        :raises Refused: it does not answer, or refuses.
        """
        request = urllib.request.Request(self.url + path, headers=self._headers, method=method)
        try:
            with self._opener.open(request, timeout=TIMEOUT) as answer:
                text = answer.read().decode("utf-8")
            return json.loads(text) if text.strip() else None
        except urllib.error.HTTPError as error:
            said = " ".join(error.read().decode("utf-8", "replace").split())[:200].rstrip(".")
            words = ": " + said if said else ""
            raise Refused("Marathon refuses {0} {1} with {2}{3}.".format(method, path, error.code, words)) from None
        except (OSError, ValueError) as error:
            why = " ".join(str(getattr(error, "reason", None) or error).split())[:200].rstrip(".")
            raise Refused("Marathon at {0} does not answer: {1}.".format(self.url, why)) from None
