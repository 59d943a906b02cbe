# Made by deephdc.accelerators, role kubernetes_cluster: changes are lost with its next run.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Give kubectl the user's token, found as WLCG Bearer Token Discovery 1.0 says.

The standard is doi:10.5281/zenodo.3937438. This is an exec plug-in of kubectl: it prints an ExecCredential.
The first of these that there is counts:
  the variable BEARER_TOKEN; the file that BEARER_TOKEN_FILE names; $XDG_RUNTIME_DIR/bt_uUID; /tmp/bt_uUID
A file must be the user's own or root's, and open to no one else.
"""

import base64
import json
import os
import re
import stat
import sys
import time

WAYS = "BEARER_TOKEN, BEARER_TOKEN_FILE, $XDG_RUNTIME_DIR/bt_u%d, /tmp/bt_u%d"
TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
LARGEST = 1 << 20


class Refused(Exception):
    """Why there is no token, one sentence."""


def read(path, follow):
    """The content of a token's file, None where there is none."""
    try:
        # What stands at a place that all users know is not followed elsewhere; a pipe is not waited for.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(f"{path} can't be read: {error.strerror}") from None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise Refused(f"{path} is no file")
        if status.st_uid not in (os.getuid(), 0):
            raise Refused(f"{path} belongs to another user, so its token is not used")
        if status.st_mode & 0o077:
            raise Refused(f"{path} is open to other users, so its token is not used: chmod 600 {path}, and get a new token")
        return os.read(handle, LARGEST).decode("utf-8", "replace")
    finally:
        os.close(handle)


def discovered(environment):
    """The token and where it is from."""
    user = os.getuid()
    if environment.get("BEARER_TOKEN"):
        return environment["BEARER_TOKEN"].strip(), "BEARER_TOKEN"
    named = environment.get("BEARER_TOKEN_FILE")
    if named:
        text = read(named, True)
        if text is None:
            raise Refused(f"BEARER_TOKEN_FILE names {named}, which is not there")
        return text.strip(), named
    folder = environment.get("XDG_RUNTIME_DIR")
    for path in ([os.path.join(folder, f"bt_u{user}")] if folder else []) + [f"/tmp/bt_u{user}"]:
        text = read(path, False)
        if text is not None:
            return text.strip(), path
    raise Refused(f"there is no token (looked at {WAYS % (user, user)}): get one, such as by oidc-token or htgettoken")


def end_of(token):
    """When a token ends, in seconds of Unix; None where it does not say so."""
    try:
        payload = token.split(".")[1]
        end = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"]
    except (IndexError, KeyError, TypeError, ValueError):
        return None
    return float(end) if isinstance(end, (int, float)) and not isinstance(end, bool) and 0 < end < 1e11 else None


def credential(environment, now):
    token, place = discovered(environment)
    if not TOKEN.fullmatch(token):
        raise Refused(f"what {place} has is no token")
    end = end_of(token)
    if end is not None and end <= now:
        raise Refused(f"the token of {place} ended at {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(end))}: get a new one")
    status = {"token": token}
    if end is not None:
        status["expirationTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end))
    return {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}


def main():
    try:
        print(json.dumps(credential(os.environ, time.time())))
    except Refused as refused:
        sys.exit(f"error: {refused}.")


if __name__ == "__main__":
    main()
