# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""A connection to a cloud's APIs, and what a run did there."""

from __future__ import annotations

import traceback
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused

LIBRARY_ERROR = None
try:
    import openstack  # type: ignore[import-not-found]  # because only the controller has it
except ImportError:
    LIBRARY_ERROR = traceback.format_exc()

# Marks what the collection made: a tag, or a property where there are no tags.
MARK = "deephdc.accelerators"
CLOUDS = "/etc/openstack/clouds.yaml"


class Cloud:
    """The APIs as an administrator sees them.

    :param sdk: of openstacksdk, a Connection, with the rights of an administrator in a project.
    :param system: the same with those in the system as a whole, which see the limits of all projects.
    :param is_dry: nothing is changed, as in check mode.
    """

    def __init__(self, sdk: t.Any, system: t.Any, is_dry: bool) -> None:
        self.sdk = sdk
        self.system = system
        self.is_dry = is_dry
        self.changes: list[str] = []  # one sentence for each
        self.left: list[str] = []  # what is there and no longer wanted
        self._found: dict[tuple[str, str], t.Any] = {}

    def change(self, sentence: str, action: t.Callable[..., t.Any], *arguments: t.Any, **keys: t.Any) -> t.Any:
        """Do something and say so; in check mode only say so, with None as the result."""
        self.changes.append(sentence)
        return None if self.is_dry else action(*arguments, **keys)

    def required(self, kind: str, name: str) -> t.Any:
        """A project, user, role, service or domain by its name, in the domain Default.

        :raises Refused: there is none.
        """
        if (kind, name) not in self._found:
            find = getattr(self.sdk.identity, f"find_{kind}")
            self._found[kind, name] = find(name, ignore_missing=True)
        if self._found[kind, name] is None:
            del self._found[kind, name]
            if self.is_dry:
                return None
            raise Refused(f"Keystone has no {kind} {name}: correct the name, or make it first.")
        return self._found[kind, name]


def entered(cloud: str) -> t.Any:
    """A Connection of openstacksdk, logged in as clouds.yaml says.

    :raises Refused: the cloud does not answer, or refuses the account.
    """
    try:
        sdk = openstack.connect(cloud=cloud)
        sdk.authorize()
    except Exception as error:
        raise Refused(f"The cloud {cloud} of {CLOUDS} can't be entered: {one_line(error)}.") from error
    return sdk


def connect(cloud: str, system: str, is_dry: bool) -> Cloud:
    """Log in as clouds.yaml says.

    :param system: name of the cloud there that is the same one with system_scope; empty where it is not needed.

    :raises Refused: the cloud does not answer, or refuses the account.
    """
    return Cloud(entered(cloud), openstack.connect(cloud=system) if system else None, is_dry)


def one_line(error: BaseException) -> str:
    """What an API said, without a line feed."""
    return " ".join(str(getattr(error, "details", None) or error).split())[:300].rstrip(".")
