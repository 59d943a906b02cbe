# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What is done on a host for accounts, and what is left alone."""

from __future__ import annotations

from ansible_collections.deephdc.accelerators.plugins.module_utils._iam import local as iam_local
from ansible_collections.deephdc.accelerators.plugins.module_utils._iam.local import ENDED, Group, User

ADA = {"name": "ada", "uid": 20001, "active": True, "full_name": "Ada Lovelace", "keys": []}
EVE = {**ADA, "name": "eve", "uid": 20002, "full_name": ""}
GPU = {"name": "gpu", "gid": 20000, "members": ["ada", "eve"]}
USERS = {name: User(uid, uid, f"/home/{name}", "/bin/bash", None) for name, uid in (("ada", 20001), ("eve", 20002))}
GROUPS = {"ada": Group(20001, []), "eve": Group(20002, []), "gpu": Group(20000, ["ada", "eve"])}


def steps(accounts=(ADA, EVE), users=None, groups=None, wanted=(GPU,)):
    return iam_local.steps(USERS if users is None else users, GROUPS if groups is None else groups, accounts, wanted, "/home", "/bin/bash")


def test_new_accounts_are_made_in_one_call():
    found = steps(users={}, groups={})
    assert found.made == [
        "g gpu 20000",
        "g ada 20001",
        'u ada 20001 "Ada Lovelace" /home/ada /bin/bash',
        "g eve 20002",
        "u eve 20002 - /home/eve /bin/bash",
    ]
    assert found.commands == [["gpasswd", "--members", "ada,eve", "gpu"]]


def test_nothing_to_do():
    found = steps()
    assert (found.made, found.disabling + found.commands, found.before, found.after, found.left) == ([], [], [], [], [])


def test_a_group_of_thousands_is_no_argument_of_a_command():
    """9,500 members were one argument of 128 KiB, which the kernel refuses."""
    many = [{**ADA, "name": f"member-of-the-gpu-{n:05}", "uid": 30000 + n} for n in range(9500)]
    users = {account["name"]: User(account["uid"], account["uid"], "/home/x", "/bin/bash", None) for account in many}
    names = [account["name"] for account in many]
    groups = {**{name: Group(user.gid, []) for name, user in users.items()}, "gpu": Group(20000, [*names[1:], "operator"])}
    found = steps(many[:-1], users, groups, ({**GPU, "members": names[:-1]},))
    assert found.made == [f"m {names[0]} gpu"]
    assert all(len(word) < 100_000 for words in found.commands for word in words)
    assert steps([], users, groups, ({**GPU, "members": []},)).commands == []  # members that are not ours stay
    away = [{**account, "active": False} for account in many[:2]] + many[2:]
    assert ["gpasswd", "--delete", names[1], "gpu"] in steps(away, users, groups, ({**GPU, "members": names[2:]},)).commands


def test_disabled_and_back():
    out = {**EVE, "active": False}
    found = steps((ADA, out))
    assert found.disabling == [["usermod", "--expiredate", str(ENDED), "--shell", "/usr/sbin/nologin", "eve"]]
    assert found.commands == [["gpasswd", "--members", "ada", "gpu"]]
    assert found.gone == ["eve"]
    disabled = {**USERS, "eve": USERS["eve"]._replace(expires=ENDED, shell="/usr/sbin/nologin")}
    gone = {**GROUPS, "gpu": Group(20000, ["ada"])}
    later = steps((ADA, out), disabled, gone)
    assert later.disabling == later.commands == []
    assert steps((ADA, EVE), disabled, gone).commands[0] == ["usermod", "--expiredate", "", "--shell", "/bin/bash", "eve"]


def test_what_an_administrator_did_stays():
    """A lock by hand, an own shell, a disabled account that was never made here, members that are not ours."""
    assert steps(users={**USERS, "eve": USERS["eve"]._replace(expires=1, shell="/usr/bin/zsh")}).commands == []
    assert steps(({**EVE, "active": False},), {}, {}, ()).made == []
    found = steps(groups={**GROUPS, "gpu": Group(20000, ["operator", "eve"])}, wanted=({**GPU, "members": ["ada"]},))
    assert found.commands == [["gpasswd", "--members", "operator,ada", "gpu"]]
    assert (found.before, found.after) == (["eve in group gpu"], ["ada in group gpu"])


def test_accounts_and_numbers_of_others_are_left_alone():
    found = steps(users={"ada": USERS["ada"]._replace(uid=1000), "mallory": USERS["eve"]}, groups={"gpu": Group(20000, [])})
    assert found.left == ["ada: an account ada with the uid 1000 exists, which is not ours", "eve: the uid 20002 belongs to mallory"]
    assert (found.made, found.commands, found.present) == ([], [], [])
    out = [{**ADA, "active": False}]
    foreign = steps(out, {"ada": USERS["ada"]._replace(uid=1000)}, {}, ())
    assert foreign.disabling == foreign.commands == []


def test_expiries():
    assert iam_local.expiries("root:*:1:0:99999:7:::\nada:!*:1:::::2:\nbroken\n") == {"root": None, "ada": 2}
