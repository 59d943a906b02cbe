# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module munge_trust; what the commands print was seen with munge 0.5.15."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import munge_trust

TIMES = "ENCODE_TIME:     2026-11-21 14:56:26 +0000 (1000)\nDECODE_TIME:     2026-11-21 15:56:26 +0000 ({decoded})\n"


def test_credential_is_for_root_and_of_nobody(run, fake):
    fake("munge", "echo MUNGE:abc:")
    assert run(munge_trust)["credential"] == "MUNGE:abc:"
    assert fake.calls() == ["munge --no-input --uid=nobody --restrict-uid=root"]


@pytest.mark.parametrize("code", [0, 17])
def test_believed(run, fake, code):
    fake("unmunge", f"cat >/dev/null; exit {code}")
    assert not run(munge_trust, credential="MUNGE:abc:").get("failed")


@pytest.mark.parametrize(
    ("code", "said", "sentence"),
    [
        (15, TIMES.format(decoded=4600), "The clock of this host is 3600 s ahead of that of head, too far"),
        (16, TIMES.format(decoded=400), "The clock of this host is 600 s behind that of head, too far"),
        (14, "unmunge: Error: Invalid credential", "The munge key of this host is not that of head: run the playbook with the tag munge"),
        (6, 'unmunge: Error: Failed to access "/run/munge/munge.socket.2": No such file', "munge does not run on this host"),
        (8, "", "munge does not believe a credential of head: unmunge ended with 8"),
    ],
)
def test_refusal_names_cause_and_remedy(run, fake, code, said, sentence):
    fake("unmunge", f"cat >/dev/null; cat <<'END'\n{said}\nEND\nexit {code}")
    result = run(munge_trust, credential="MUNGE:abc:", of="head")
    assert result["failed"]
    assert result["msg"].startswith(sentence)


def test_check_mode_looks_at_nothing(run, fake):
    fake("unmunge", "exit 1")
    assert run(munge_trust, credential="MUNGE:abc:", _ansible_check_mode=True)["credential"] == ""
    assert fake.calls() == []
