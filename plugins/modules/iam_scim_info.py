#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Read all users and groups of an IAM by SCIM, or nothing."""

from __future__ import annotations

DOCUMENTATION = r"""
module: iam_scim_info
version_added: 0.1.0
short_description: Read users and groups of an IAM
author: deephdc.accelerators contributors (@deephdc)
description:
  - Reads the lists of users and groups by SCIM 2 (RFC 7644), page by page, and returns what accounts are made from.
    Made for INDIGO IAM, whose SSH keys and end times it knows, and for other services that return a user's groups with the user.
  - Returns the whole lists or fails with one sentence. A list that changes while it is read is read again.
  - Runs on the control node. Follows no redirect, as the token would go with it.
extends_documentation_fragment: deephdc.accelerators.reads
options:
  url:
    description: Base of the SCIM interface, such as V(https://iam.example.org/scim), over https.
    type: str
    required: true
  token_file:
    description: File with a token that may read it (scope C(scim:read)), which only its owner can read.
    type: path
  token_url:
    description: Token endpoint, to get a token by O(client_id) and O(client_secret_file) instead of O(token_file).
    type: str
  client_id:
    description: Name of the client at the IAM.
    type: str
  client_secret_file:
    description: File with the client's secret, which only its owner can read.
    type: path
  ca_file:
    description: Certificates of authorities that are trusted, instead of the machine's own.
    type: path
  known:
    description:
      - Ids of users who have accounts. The IAM is asked for each of them who is missing in its list, so that a list that is too short
        takes no account away.
    type: list
    elements: str
    default: []
  timeout:
    description: Seconds to wait for each answer.
    type: int
    default: 30
seealso:
  - module: deephdc.accelerators.iam_accounts
"""

EXAMPLES = r"""
- name: Read the IAM
  deephdc.accelerators.iam_scim_info:
    url: https://iam.example.org/scim
    token_url: https://iam.example.org/token
    client_id: site
    client_secret_file: /etc/deephdc/iam.secret
  delegate_to: localhost
  register: iam
"""

RETURN = r"""
users:
  description: All users.
  type: list
  elements: dict
  returned: success
  contains:
    id: {description: The immutable id. In INDIGO IAM it is the C(sub) of the user's tokens., type: str, returned: always}
    name: {description: The user's name., type: str, returned: always}
    full_name: {description: The person's name., type: str, returned: always}
    active: {description: Whether the user is active and not expired. Null if the end time can't be read., type: bool, returned: always}
    groups: {description: Ids of the user's groups. Null if the IAM gives no groups., type: list, elements: str, returned: always}
    ssh_keys: {description: SSH public keys as type and base64., type: list, elements: str, returned: always}
    bad_keys: {description: How many of the user's keys are not accepted., type: int, returned: always}
groups:
  description: All groups.
  type: list
  elements: dict
  returned: success
  contains:
    id: {description: The immutable id., type: str, returned: always}
    name: {description: The displayName., type: str, returned: always}
"""

import json
import os
import stat
import time
import typing as t
from urllib.error import HTTPError
from urllib.parse import quote, urlencode

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.deephdc.accelerators.plugins.module_utils._iam import scim
from ansible_collections.deephdc.accelerators.plugins.module_utils._iam.names import shown
from ansible_collections.deephdc.accelerators.plugins.module_utils._iam.scim import Refused

LARGEST = 32 * 1024 * 1024
REFUSED = " The token is not accepted: see that it is not too old and has the scope scim:read."
MISSING = " There is no SCIM interface at this address: correct iam_accounts_scim_url."
HINTS = {401: REFUSED, 403: REFUSED, 404: MISSING}


def secret(path: str) -> str:
    """One line of a private file."""
    try:
        with open(path, encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise Refused(f"{path} has a secret and can be read by others: chmod 600 {path}.")
            text = file.read(65536).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{path} can't be read: {getattr(error, 'strerror', None) or 'it is no UTF-8 text'}.") from None
    if not text or not text.isascii() or not text.isprintable():
        raise Refused(f"{path} must have one line with the secret and nothing else.")
    return text


def says_none(error: HTTPError) -> bool:
    """Return whether it is the SCIM interface that knows no such entry.

    A wrong address and a broken proxy answer 404, too.
    """
    try:
        answer = scim.attributes(json.loads(error.read(65536)), "The answer")
        return scim.ERROR.lower() in [schema.lower() for schema in answer["schemas"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, Refused):
        return False


class Iam:
    """Calls of one IAM."""

    def __init__(self, given: t.Mapping[str, t.Any]) -> None:
        self.url, self.ca_file, self.timeout = given["url"].rstrip("/"), given["ca_file"], given["timeout"]
        self.headers: dict[str, str] = {}

    def ask(self, url: str, what: str, **options: t.Any) -> t.Any:
        """The answer to one request, None where there is no such thing."""
        try:
            answer = open_url(
                url,
                timeout=self.timeout,
                ca_path=self.ca_file,
                follow_redirects="no",
                use_netrc=False,
                headers={"Accept": "application/scim+json, application/json", **self.headers},
                **options,
            )
            body = answer.read(LARGEST + 1)
        except HTTPError as error:
            if error.code == 404 and says_none(error):
                return None
            hint = HINTS.get(error.code, "")
            raise Refused(f"The IAM answers {what} with {error.code}.{hint}") from None
        except Exception as error:  # any fault of transport has its own class in urllib, ssl, http.client and open_url
            raise Refused(f"The IAM does not answer {what}: {' '.join(shown(error, 200).split())}.") from None
        if len(body) > LARGEST:
            raise Refused(f"The IAM answers {what} with more than {LARGEST} bytes.")
        try:
            return json.loads(body)
        except ValueError:
            raise Refused(f"The IAM answers {what} with something that is no whole JSON text.") from None

    def get(self, kind: str, query: t.Mapping[str, int]) -> t.Any:
        return self.ask(f"{self.url}/{kind}?{urlencode(query)}", f"the request for {kind}")

    def get_user(self, one: str) -> t.Any:
        return self.ask(f"{self.url}/Users/{quote(one, safe='')}", f"the request for the user {one}")

    def log_in(self, given: t.Mapping[str, t.Any]) -> None:
        if given["token_file"]:
            token: t.Any = secret(given["token_file"])
        else:
            password = secret(given["client_secret_file"])
            answer = self.ask(
                given["token_url"],
                "the request for a token",
                method="POST",
                data=urlencode({"grant_type": "client_credentials", "scope": "scim:read"}),
                url_username=quote(given["client_id"], safe=""),
                url_password=quote(password, safe=""),
                force_basic_auth=True,
            )
            token = answer.get("access_token") if isinstance(answer, dict) else None
            if not isinstance(token, str) or not token.isascii() or not token.isprintable():
                raise Refused("The IAM's token endpoint gives no token: correct its address.")
        self.headers = {"Authorization": f"Bearer {token}"}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "token_file": {"type": "path", "no_log": False},
            "token_url": {"type": "str", "no_log": False},
            "client_id": {"type": "str"},
            "client_secret_file": {"type": "path", "no_log": False},
            "ca_file": {"type": "path"},
            "known": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "int", "default": 30},
        },
        required_together=[["token_url", "client_id", "client_secret_file"]],
        mutually_exclusive=[["token_file", "token_url"]],
        required_one_of=[["token_file", "token_url"]],
        supports_check_mode=True,
    )
    iam = Iam(module.params)
    try:
        iam.log_in(module.params)
        found = scim.directory(iam.get, iam.get_user, module.params["known"], time.time(), time.sleep)
    except Refused as reason:
        module.fail_json(msg=f"{reason} Nothing was changed.")
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
