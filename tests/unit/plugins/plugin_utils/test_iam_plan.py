# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Who gets which account, who loses it, and what is refused."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._iam import plan as iam_plan
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.iam_examples import (
    GROUPS,
    ISSUER,
    SETTINGS,
    host,
    key,
    person,
)

ADA, BOB, EVE = person("ada"), person("bob", "g-gpu", "g-ml"), person("eve", "g-other")


def plan(people, hosts=None, groups=None, first="ctl", declared=None, **settings):
    wanted = {**SETTINGS, **settings, **({"groups": declared} if declared else {})}
    return iam_plan.plan({"users": people, "groups": GROUPS if groups is None else groups}, hosts or {"ctl": host()}, wanted, first)


def accounts(found):
    return {account["name"]: (account["uid"], account["active"]) for account in found["accounts"]}


def members(found):
    return {group["name"]: group["members"] for group in found["groups"]}


def told(found):
    assert all(sign not in line for line in found["told"] for sign in "{}\n\x1b")
    return " | ".join(found["told"])


@pytest.fixture
def first():
    """The plan for new hosts; its record is what later ones begin with."""
    return plan([ADA, BOB, EVE])


def hosts_with(found):
    users = {account["name"]: account["uid"] for account in found["accounts"]}
    groups = {**users, **{group["name"]: group["gid"] for group in found["groups"]}}
    return {"ctl": host(found["record"], users, groups)}


def test_only_members_of_declared_groups_get_accounts(first):
    assert accounts(first) == {"ada": (20002, True), "bob": (20003, True)}
    assert first["groups"] == [
        {"name": "gpu", "gid": 20000, "members": ["ada", "bob"]},
        {"name": "ml", "gid": 20001, "members": ["bob"]},
    ]
    assert json.loads(first["map"])["accounts"][0] == {"issuer": ISSUER, "subject": "id-ada", "account": "ada", "uid": 20002}


def test_a_second_run_changes_nothing(first):
    assert plan([BOB, ADA, EVE], hosts_with(first)) == first


def test_numbers_that_any_host_has_are_not_given():
    found = plan([ADA, BOB], {"ctl": host(users={"x": 20000}), "gpu1": host(groups={"y": 20002})}, uid_first=20000)
    assert accounts(found) == {"ada": (20004, True), "bob": (20005, True)}
    with pytest.raises(Refused, match="iam_accounts_uid_last"):
        plan([ADA, BOB], uid_last=20002)


@pytest.mark.parametrize(
    "now", [person("ada", active=False), person("ada", "g-other"), None], ids=["inactive or past its end", "left the groups", "gone"]
)
def test_who_is_no_member_any_more_is_disabled_and_keeps_the_number(first, now):
    found = plan([one for one in (now, BOB) if one], hosts_with(first))
    assert accounts(found) == {"ada": (20002, False), "bob": (20003, True)}
    assert members(found) == {"gpu": ["bob"], "ml": ["bob"]}
    assert "ada" not in found["map"]
    # And comes back as the same one, while no other user gets the number.
    carl = person("carl")
    later = plan([ADA, BOB, carl], hosts_with(found))
    assert accounts(later) == {"ada": (20002, True), "bob": (20003, True), "carl": (20004, True)}


def test_an_unreadable_end_time_changes_nothing_for_this_person(first):
    found = plan([person("ada", active=None), BOB, person("carl", active=None)], hosts_with(first))
    assert accounts(found) == accounts(first) and members(found) == members(first)
    assert "ada: the IAM's end time can't be read" in told(found) and "no account for carl" in told(found)


def test_accounts_follow_the_id_and_not_the_name(first):
    """Ada calls herself bob; a newcomer takes the name ada."""
    swapped = [{**ADA, "name": "bob2"}, BOB, {**person("ada"), "id": "id-newcomer"}]
    found = plan(swapped, hosts_with(first))
    assert accounts(found) == accounts(first)
    assert [entry["subject"] for entry in json.loads(found["map"])["accounts"]] == ["id-ada", "id-bob"]
    assert "ada: the IAM calls this user bob2; the account keeps its name" in told(found)
    assert "no account for ada (id id-newcomer): the name is that of another account or group; give one in iam_accounts_names" in told(
        found
    )
    named = plan(swapped, hosts_with(first), names={"id-newcomer": "ada2"})
    assert accounts(named)["ada2"] == (20004, True)


@pytest.mark.parametrize(
    "name",
    [
        *("root", "slurm", "www-data", "docker", "systemd-new", "gpu", "local", "their_group"),
        *(
            "",
            "Ada",
            "-rf",
            "../ada",
            "ada lovelace",
            "ada:0:0",
            "ada\nroot:x:0",
            "{{ 7*7 }}",
            "a" * 32,
            "0ada",
            "a..b",
            "ada.",
            "\x1b[2J",
            "ädä",
        ),
    ],
)
def test_hostile_names_get_no_account(name):
    hosts = {"ctl": host(), "gpu1": host(users={"local": 1000}, groups={"their_group": 1001})}
    found = plan([ADA, {**person("x"), "name": name}], hosts)
    assert accounts(found) == {"ada": (20002, True)}
    assert "(id id-x): the name " in told(found)


def test_two_users_of_one_name_both_get_none():
    found = plan([{**ADA, "id": "1"}, {**ADA, "id": "2"}])
    assert accounts(found) == {} and told(found).count("asked for by two users") == 2


def test_an_account_that_a_host_has_otherwise_is_mapped_nowhere(first):
    hosts = hosts_with(first)
    hosts["gpu1"] = host(users={"ada": 1000, "mallory": 20003})
    found = plan([ADA, BOB], hosts)
    assert found["left"] == ["ada", "bob"] and json.loads(found["map"])["accounts"] == []
    assert "gpu1: ada is left out, as an account ada with the uid 1000 exists" in told(found)
    assert "gpu1: bob is left out, as the uid 20003 belongs to mallory" in told(found)


def test_nobody_empties_a_site_at_once(first):
    with pytest.raises(Refused, match="2 of 2 accounts would be disabled or lose a group at once"):
        plan([EVE], hosts_with(first))
    with pytest.raises(Refused, match="iam_accounts_disable_limit=100"):
        plan([person("ada", active=False), person("bob", "g-gpu")], hosts_with(first))
    with pytest.raises(Refused, match="1 of 2"):
        plan([BOB], hosts_with(first), disable_limit=0)
    assert accounts(plan([EVE], hosts_with(first), disable_limit=100)) == {"ada": (20002, False), "bob": (20003, False)}


def test_the_only_account_does_not_go_unasked():
    """A share of one account rounds up to one."""
    hosts = hosts_with(plan([ADA]))
    for gone in ([EVE], [person("ada", active=False)], [person("ada", "g-other")]):
        with pytest.raises(Refused, match="1 of 1 accounts would be disabled or lose a group at once"):
            plan(gone, hosts, disable_limit=99)
        assert accounts(plan(gone, hosts, disable_limit=100)) == {"ada": (20002, False)}


def test_groups_that_the_iam_does_not_tell_change_nothing(first):
    silent = [person("ada", groups=None), person("bob", groups=None), person("carl", groups=None)]
    found = plan(silent, hosts_with(first))
    assert accounts(found) == accounts(first) and members(found) == members(first)
    assert told(found).count("the IAM does not give this user's groups, so the account stays as it is") == 2
    assert "The IAM gives no groups of any user, so no new account is made" in told(found)
    found = plan([person("ada", groups=None, active=False), BOB], hosts_with(first))
    assert accounts(found)["ada"] == (20002, False)


def test_too_many_new_accounts_at_once():
    people = [person(f"u{number}") for number in range(11)]
    assert len(accounts(plan(people[:10]))) == 10
    with pytest.raises(Refused, match=r"11 accounts would be new at once, more than iam_accounts_add_limit allows \(10\)") as refused:
        plan(people)
    assert "run once with -e iam_accounts_add_limit=11" in str(refused.value)
    assert len(accounts(plan(people, add_limit=11))) == 11


@pytest.mark.parametrize(
    "name", ["ubuntu", "debian", "cloud-user", "ec2-user", "oneadmin", "nvidia-dcgm", "nginx", "jenkins", "telegraf", "_apt"]
)
def test_names_of_images_and_packages_get_no_new_account(name):
    found = plan([person(name)])
    assert accounts(found) == {} and f"no account for {name} (id id-{name}): the name is one of cloud images or packages" in told(found)
    with pytest.raises(Refused, match=f"The local group {name} is new"):
        plan([ADA], groups=[{"id": "g", "name": "x"}], declared=[{"name": "x", "group": name}])


def test_a_name_with_rights_on_a_host_gets_no_new_account(first):
    rights = {"ada": "/etc/sudoers.d/90-cloud-init-users", "gpu": "/etc/sudoers"}
    found = plan([ADA, BOB], {"ctl": host(), "gpu1": host(claimed={"ada": rights["ada"]})})
    assert accounts(found) == {"bob": (20002, True)}
    assert "the name has rights on gpu1 already (/etc/sudoers.d/90-cloud-init-users), which is to be taken out" in told(found)
    with pytest.raises(Refused, match="The local group gpu is new, and the name has rights on ctl already"):
        plan([ADA], {"ctl": host(claimed=rights)})
    before = hosts_with(first)
    before["ctl"] = before["ctl"]._replace(claimed=rights)
    found = plan([ADA, BOB], before)
    assert accounts(found) == accounts(first) and told(found) == "", "who has an account keeps it"
    found = plan([ADA, BOB], {**before, "gpu7": host(claimed=rights)})
    assert "gpu7: the account ada gets the rights that this name has there already" in told(found)
    assert "gpu7: the group gpu gets the rights that this name has there already (/etc/sudoers)" in told(found)
    gone = plan([{**ADA, "active": False}, BOB], {**before, "gpu7": host(claimed=rights)}, disable_limit=50)
    assert "the account ada gets" not in told(gone)
    # useradd gives each account a range of numbers: no right of the host's own.
    assert told(plan([ADA, BOB], {**before, "gpu7": host(claimed={"ada": "/etc/subuid"})})) == ""


def test_a_number_with_rights_is_given_to_nobody():
    found = plan([ADA], {"ctl": host(), "gpu1": host(claimed={"20000": "/etc/sudoers", "20003": "/etc/subuid"})})
    assert found["groups"][0]["gid"] == 20001 and accounts(found) == {"ada": (20004, True)}


def test_a_group_that_is_no_longer_declared_is_left_by_all(first):
    found = plan([ADA, BOB], hosts_with(first), disable_limit=0)
    assert members(found) == members(first)
    found = iam_plan.plan({"users": [ADA, BOB], "groups": GROUPS}, hosts_with(first), {**SETTINGS, "groups": SETTINGS["groups"][:1]}, "ctl")
    assert members(found) == {"gpu": ["ada", "bob"], "ml": []}


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ([], "The IAM has no group deep/gpu"),
        ([*GROUPS, {"id": "g2", "name": "deep/gpu"}], "The IAM has 2 groups deep/gpu"),
        ([{"id": "g2", "name": "deep/gpu"}, *GROUPS[1:]], "has another id than before"),
    ],
)
def test_groups_that_are_not_the_declared_ones(first, groups, sentence):
    with pytest.raises(Refused, match=sentence):
        plan([ADA], hosts_with(first), groups)


def test_a_group_by_its_id(first):
    declared = [{"name": "deep/gpu", "group": "gpu", "id": "g2"}, SETTINGS["groups"][1]]
    renamed = [{"id": "g2", "name": "deep/gpus"}, GROUPS[1]]
    found = iam_plan.plan(
        {"users": [person("ada", "g2"), BOB], "groups": renamed}, hosts_with(first), {**SETTINGS, "groups": declared}, "ctl"
    )
    assert members(found)["gpu"] == ["ada"]


def test_a_local_group_that_was_there_before():
    with pytest.raises(Refused, match="gpu1 has a user or group ml already"):
        plan([ADA], {"ctl": host(), "gpu1": host(groups={"ml": 44})})


def test_without_the_host_of_the_record_nobody_is_added(first):
    hosts = {"gpu1": hosts_with(first)["ctl"]}
    found = plan([person("ada", active=False), BOB, person("carl")], hosts)
    assert accounts(found) == {"ada": (20002, False), "bob": (20003, True)}
    assert "no account for carl yet: ctl, which keeps the record of accounts, does not answer" in told(found)


def test_the_newest_record_counts(first):
    later = plan([ADA, BOB, person("carl")], hosts_with(first))
    assert json.loads(later["record"])["serial"] == 2
    hosts = {"ctl": host(later["record"]), "gpu1": host(first["record"]), "gpu2": host()}
    assert plan([ADA, BOB, person("carl")], hosts)["record"] == later["record"]
    with pytest.raises(Refused, match="belong to the issuer"):
        plan([ADA], hosts, issuer="https://iam.example.org")
    # Disabled while the first host was away.
    without = plan([BOB], {"gpu1": hosts_with(first)["ctl"]})
    assert plan([BOB], {**hosts_with(first), "gpu1": host(without["record"])})["record"] == without["record"]
    with pytest.raises(Refused, match="ctl and gpu1 contradict each other"):
        plan([ADA, BOB], {"ctl": host(first["record"]), "gpu1": host(first["record"].replace("true", "false"))})
    # The first host lost its record: a copy is as good.
    assert plan([ADA, BOB], {"ctl": host(), "gpu1": host(first["record"])})["record"] == first["record"]


def changed(record, serial=99, accounts=None, groups=None):
    """A record as whoever took over a host writes it."""
    own = json.loads(record)
    own.update(serial=serial, accounts={**own["accounts"], **(accounts or {})}, groups={**own["groups"], **(groups or {})})
    for part in ("accounts", "groups"):
        own[part] = {key: value for key, value in own[part].items() if value}
    return host(json.dumps(own))


BOSS = {"name": "boss", "uid": 1000, "active": True, "groups": []}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"accounts": {"id-eve": BOSS}}, "has the id id-eve otherwise than"),
        ({"accounts": {"id-ada": BOSS}}, "has the id id-ada otherwise than"),
        ({"accounts": {"id-ada": {**BOSS, "name": "ada"}}}, "has the id id-ada otherwise than"),
        ({"accounts": {"id-ada": {**BOSS, "uid": 20002}}}, "has the id id-ada otherwise than"),
        ({"groups": {"boss": {"id": "g-other", "gid": 1000}}}, "has the group boss otherwise than"),
        ({"groups": {"gpu": {"id": "g-gpu", "gid": 1000}}}, "has the group gpu otherwise than"),
        ({"accounts": {"id-ada": None}}, "has the id id-ada no longer, unlike"),
        ({"groups": {"ml": None}, "accounts": {"id-bob": None}}, "has the group ml no longer, unlike"),
        # However old it says to be.
        ({"serial": 0, "accounts": {"id-eve": BOSS}}, "has the id id-eve otherwise than"),
    ],
)
@pytest.mark.parametrize("before", [True, False])
def test_no_host_but_the_first_decides_whose_account_is_whose(first, change, sentence, before):
    """boss is an account that all hosts have with this number, and eve's keys would be boss's."""
    own = hosts_with(first)["ctl"]
    there = {"ctl": own._replace(users={**own.users, "boss": 1000}), "gpu1": changed(first["record"], **change)}
    there = dict(reversed(there.items())) if before else there
    with pytest.raises(Refused, match=f"record of accounts on gpu1 {sentence} that of ctl.* Nothing was changed"):
        plan([ADA, BOB, person("eve")], there)


def test_an_old_copy_has_less(first):
    assert plan([ADA, BOB], {**hosts_with(first), "gpu1": changed(first["record"], 0, {"id-bob": None})})["record"] == first["record"]


@pytest.mark.parametrize(
    "change",
    [
        *({"accounts": {"id-eve": {**BOSS, "uid": uid}}} for uid in (0, 999, 60000, 65534, 65535, -1, 2**31, 20002, "1000", 1000.5)),
        *({"groups": {"boss": {"id": "g-other", "gid": gid}}} for gid in (0, 27, 999, 61184, 20000)),
        *(
            {"accounts": {"id-eve": {**BOSS, **own}}}
            for own in ({"name": "gpu"}, {"name": "ada"}, {"active": 1}, {"groups": ["sudo"]}, {"x": 1})
        ),
        *({"accounts": {one: BOSS}} for one in ("", "{{ 7*7 }}", "a b", "a\n")),
        {"groups": {"boss": {"id": "{{ 7*7 }}", "gid": 1000}}},
    ],
)
def test_a_record_that_no_run_can_have_written(first, change):
    for there in ({"ctl": changed(first["record"], **change)}, {**hosts_with(first), "ctl2": changed(first["record"], **change)}):
        with pytest.raises(Refused, match="is damaged"):
            plan([ADA, BOB], there)


@pytest.mark.parametrize("change", [("ada", "root"), ('"uid": 20002', '"uid": "0"'), ('"version": 1', '"version": 2'), ("{", "[")])
def test_a_damaged_record(first, change):
    with pytest.raises(Refused, match="record of accounts on ctl is damaged"):
        plan([ADA], {"ctl": host(first["record"].replace('"name": "' + change[0], '"name": "' + change[1]).replace(*change))})


def test_keys_go_to_active_accounts_only(first):
    people = [person("ada", ssh_keys=[key()], bad_keys=2), person("bob", active=False, keys=[key(seed=2)])]
    found = plan(people, hosts_with(first))
    assert [account["keys"] for account in found["accounts"]] == [[key()], []]
    assert "ada: 2 SSH keys of the IAM are no keys that are taken" in told(found)
