# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What all filters of this collection do alike."""

from __future__ import annotations

import functools
import typing as t

from ansible.errors import AnsibleFilterError


def as_filter(function: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
    """Turn a pure function into a filter: the user reads its ValueError, one sentence."""

    @functools.wraps(function)
    def filtered(*args: t.Any, **kwargs: t.Any) -> t.Any:
        try:
            return function(*args, **kwargs)
        except ValueError as error:
            raise AnsibleFilterError(str(error)) from error

    return filtered
