# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The whole lists of an IAM or none, and users as accounts need them."""

from __future__ import annotations

import time

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._iam import names as iam_names
from ansible_collections.deephdc.accelerators.plugins.module_utils._iam import scim
from ansible_collections.deephdc.accelerators.plugins.module_utils._iam.scim import Moved, Refused
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.iam_examples import INDIGO, key, resource

USERS = [resource(f"u{number}") for number in range(250)]
GROUPS = [{"id": "g-gpu", "displayName": "deep/gpu"}]


def small(entries):
    """The same with the names of attributes in small letters."""
    return [{key.lower(): value for key, value in entry.items()} for entry in entries]


def server(entries, **changes):
    """An IAM that gives at most 100 entries a page, whatever is asked for."""

    def get(_kind, query):
        start = query["startIndex"]
        page = entries[start - 1 : start - 1 + min(query["count"], 100)]
        return {"totalResults": len(entries), "startIndex": start, "itemsPerPage": len(page), "Resources": page, **changes}

    return get


@pytest.mark.parametrize("number", [0, 1, 99, 100, 101, 250])
def test_pages(number):
    assert scim.resources(server(USERS[:number]), "Users") == small(USERS[:number])


def at(page, answer):
    """The same with another answer for the page that begins with an entry."""
    usual = server(USERS)
    return lambda kind, query: answer if query["startIndex"] == page else usual(kind, query)


@pytest.mark.parametrize(
    ("get", "sentence"),
    [
        (at(101, {"totalResults": 250, "Resources": []}), "ends after 100 of 250 entries"),
        (at(101, {"totalResults": 249, "Resources": USERS[100:200]}), "had 250 entries and then 249"),
        (at(201, {"totalResults": 250, "Resources": USERS[150:200]}), "names an entry twice"),
        (at(201, {"totalResults": 250, "Resources": USERS[200:] + [resource("more")]}), "has 251 entries and says that it has 250"),
        (at(101, {"totalResults": 250, "startIndex": 1, "Resources": USERS[:100]}), "from entry 101 on and begins with another one"),
        (at(101, {"Resources": USERS[100:200]}), "totalResults or Resources are missing"),
        (at(1, {"totalResults": True, "Resources": []}), "totalResults or Resources are missing"),
        (at(1, {"totalResults": 10**9, "Resources": USERS}), "more than the 100000"),
        (at(1, ["html"]), "no ListResponse"),
        (server([{"userName": "x"}]), "no usable id"),
        (server([resource("u1", ACTIVE=False)]), "has the attribute ACTIVE twice"),
        (at(1, {"totalResults": 1, "totalresults": 0, "Resources": []}), "has the attribute totalresults twice"),
        (server([resource("a\nb")]), "no usable id"),
        (server([resource("{{ 7 }}")]), "no usable id"),
    ],
)
def test_half_answers(get, sentence):
    with pytest.raises(Refused, match=sentence):
        scim.resources(get, "Users")


def test_a_list_that_moves_is_read_again():
    answers = iter([Moved("moved"), None])
    pauses = []

    def get(kind, query):
        problem = next(answers, None)
        if problem:
            raise problem
        return server(USERS[:3])(kind, query)

    assert scim.whole_list(get, "Users", pauses.append) == small(USERS[:3])
    assert pauses == [1.0]
    with pytest.raises(Moved):
        scim.whole_list(at(101, {"totalResults": 250, "Resources": []}), "Users", pauses.append)


def test_only_who_is_said_to_be_gone_is_gone():
    def get(kind, query):
        entries = USERS[:2] if kind == "Users" else [{"id": "g-gpu", "displayName": "deep/gpu"}]
        return server(entries)(kind, query)

    asked = []

    def get_one(one):
        asked.append(one)
        return resource(one) if one == "u7" else None

    found = scim.directory(get, get_one, ["u1", "u7", "u8"], 0, time.sleep)
    assert asked == ["u7", "u8"]
    assert [user["id"] for user in found["users"]] == ["u0", "u1", "u7"]
    with pytest.raises(Refused, match="another account"):
        scim.directory(get, lambda _one: resource("u9"), ["u7"], 0, time.sleep)


def directory(users, alone=(), known=()):
    """What is read of an IAM whose list has some users, and which answers others when it is asked for them alone."""
    answers = {one["id"]: one for one in alone}

    def get(kind, query):
        return server(users if kind == "Users" else GROUPS)(kind, query)

    found = scim.directory(get, answers.get, list(known), 0, time.sleep)
    return {user["id"]: user["groups"] for user in found["users"]}


def without(one):
    """A user without the attribute groups."""
    return {key: value for key, value in resource(one).items() if key != "groups"}


def test_groups_that_are_absent_are_not_empty():
    """INDIGO IAM leaves them out where a user is in none; a service that has none at all would take all accounts away."""
    assert directory([without("u1"), without("u2")], known=["u1"]) == {"u1": None, "u2": None}
    assert directory([without("u1"), resource("u2")], [without("u1")], ["u1"]) == {"u1": [], "u2": ["g-gpu"]}
    assert directory([without("u1"), resource("u2")], [resource("u1")], ["u1"]) == {"u1": ["g-gpu"], "u2": ["g-gpu"]}
    assert directory([without("u1"), resource("u2")]) == {"u1": [], "u2": ["g-gpu"]}, "who has no account needs no second question"
    # null is the same as absent (RFC 7643, 2.5).
    assert directory([resource("u1", groups=None)]) == {"u1": None}
    assert directory([resource("u1", groups=None), resource("u2")]) == {"u1": [], "u2": ["g-gpu"]}
    with pytest.raises(Refused, match="lists the user u1 and says that there is none"):
        directory([without("u1"), resource("u2")], known=["u1"])


def test_a_list_without_users_is_not_whole():
    with pytest.raises(Refused, match="list of users is empty"):
        directory([], [resource("u1")], ["u1"])


def test_names_of_attributes_have_no_case():
    extension = {"SSHKeys": [{"Value": key()}], "EndTime": "1970-01-01T00:00:01Z"}
    entry = {
        "ID": "u1",
        "USERNAME": "ada",
        "Active": True,
        "GROUPS": [{"Value": "g-gpu"}],
        "Name": {"FORMATTED": "Ada"},
        INDIGO.upper(): extension,
    }

    def get(kind, query):
        entries = [entry] if kind == "Users" else [{"Id": "g-gpu", "displayname": "deep/gpu"}]
        return {"TotalResults": 1, "resources": entries, "STARTINDEX": query["startIndex"]}

    (found,) = scim.directory(get, {}.get, [], 0, time.sleep)["users"]
    assert (found["name"], found["groups"], found["full_name"], found["ssh_keys"]) == ("ada", ["g-gpu"], "Ada", [key()])
    assert scim.user(small([entry])[0], 2)["active"] is False


@pytest.mark.parametrize(
    "changes",
    [
        {"active": None},
        {"active": "true"},
        {"userName": None},
        {"groups": {"value": "g"}},
        {"groups": [{"display": "gpu"}]},
        {"groups": [{"value": "g", "VALUE": "h"}]},
        {"Groups": []},
        {"name": {"formatted": "a", "Formatted": "b"}},
    ],
)
def test_half_a_user(changes):
    with pytest.raises(Refused):
        scim.user(resource("u1", **changes), 0)


def test_user():
    found = scim.user(
        resource(
            "u1",
            name={"formatted": 'Ada:\n"Lovelace" %s {{ 7 * 7 }} Ōe'},
            groups=None,
            **{INDIGO: {"sshKeys": [{"value": key()}, {"value": "no key"}, 7], "endTime": "2026-12-31T00:00:00.000+01:00"}},
        ),
        1798671600 - 1,
    )
    assert found == {
        "id": "u1",
        "name": "u1",
        "full_name": "Ada Lovelace s Ōe",
        "active": True,
        "groups": [],
        "ssh_keys": [key()],
        "bad_keys": 2,
    }


@pytest.mark.parametrize(
    ("end", "active"),
    [
        (None, True),
        ("", True),
        ("1970-01-01T00:01:41Z", True),
        ("1970-01-01T00:01:40.000Z", False),
        ("1970-01-01T01:01:41.000+01:00", True),
        ("1970-01-01T00:01:40+0000", False),
        ("1969-12-31T23:01:41-01:00", True),
        ("1970-01-02", True),
        (101000, True),
        (100000, False),
        ("soon", None),
        ("2026-13-01T00:00:00Z", None),
        (True, None),
        ([], None),
    ],
)
def test_end_time(end, active):
    assert scim.user(resource("u1", **{INDIGO: {"endTime": end}}), 100)["active"] is active
    assert scim.user(resource("u1", active=False, **{INDIGO: {"endTime": end}}), 100)["active"] is False


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (key(), key()),
        (key() + " ada@laptop", key()),
        (key().split()[1], key()),
        ("ssh-rsa " + key().split()[1], ""),
        (key("ssh-dss"), ""),
        (f'command="sh" {key()}', ""),
        (f"{key()}\n{key(seed=2)}", ""),
        ("ssh-ed25519 {{ 7 }}", ""),
        ("ssh-ed25519 " + "A" * 41, ""),
        ("", ""),
    ],
)
def test_ssh_key(value, found):
    assert scim.ssh_key(value) == found


def test_a_strangers_text_is_one_plain_line():
    assert iam_names.shown("a\x1b[31m\n{{ 7 }}{% x %}") == "a?[31m??? 7 ???? x ??"
    assert len(iam_names.shown("x" * 100)) == 60
