# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Package repositories that a site names: what is refused, and the source that apt reads."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._host import apt_repository

GOOD = {"uri": "https://mirror.example.org/cuda", "suite": "/", "key": "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nabc\n-----END"}


@pytest.mark.parametrize(
    "changes",
    [{}, {"uri": "file:/srv/nvidia", "suite": "./"}, {"components": ["main", "non-free"]}, {"components": []}, {"components": None}],
    ids=str,
)
def test_a_good_repository_is_taken(changes):
    assert apt_repository.errors({**GOOD, **changes}, "x_repository", "gpu1") == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"uri": ""}, "x_repository of gpu1 lacks uri: "),
        ({"suite": None, "key": ""}, "x_repository of gpu1 lacks suite, key: "),
        ({"uri": "https://a\nTrusted: yes"}, "x_repository of gpu1 is no repository of apt: "),
        ({"uri": "https://a\n"}, "x_repository of gpu1 is no repository of apt: "),
        ({"uri": "ftp://a"}, "x_repository of gpu1 is no repository of apt: "),
        ({"uri": "https://a b"}, "x_repository of gpu1 is no repository of apt: "),
        ({"suite": "stable\nTrusted: yes"}, "x_repository of gpu1 is no repository of apt: "),
        ({"components": ["main", "a\nb"]}, "x_repository of gpu1 is no repository of apt: "),
        ({"key": "/usr/share/keyrings/x.gpg"}, "x_repository of gpu1 has no key: "),
    ],
    ids=str,
)
def test_what_is_no_repository_is_refused(changes, sentence):
    (error,) = apt_repository.errors({**GOOD, **changes}, "x_repository", "gpu1")
    assert error.startswith(sentence) and error.endswith(".")


def test_the_source_has_the_key_and_no_line_more():
    head = "# Made by deephdc.accelerators: Tools come from here.\nTypes: deb\nURIs: https://mirror.example.org/cuda\nSuites: /\n"
    key = "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n -----END\n"
    assert apt_repository.source(GOOD, "Tools come from here") == head + key
    # A line of a key stays one of the key.
    odd = {**GOOD, "components": ["main", "extra"], "key": f"{GOOD['key']}\nTrusted: yes\n"}
    assert apt_repository.source(odd, "Tools come from here") == f"{head}Components: main extra\n{key} Trusted: yes\n"
