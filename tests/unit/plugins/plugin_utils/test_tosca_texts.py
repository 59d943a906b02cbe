# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Inputs of orchestrators are data."""

from __future__ import annotations

import datetime

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._tosca import texts

HOSTS = {
    "10.0.0.2_0": {"IM_NODE_PRIVATE_IP": "10.0.0.2", "IM_NODE_PUBLIC_IP": "192.0.2.2"},
    "10.0.0.3_1": {"IM_NODE_PRIVATE_IP": "10.0.0.3", "IM_NODE_NET_0_IP": "10.1.0.3", "IM_NODE_VMID": "7"},
}
NODES = texts.Nodes(HOSTS["10.0.0.2_0"], HOSTS, {"front": ["10.0.0.2_0"], "lrms_wn": ["10.0.0.3_1"], "none": []})
PUBLIC_OR = (
    "{{{{ hostvars[groups['{0}'][0]]['IM_NODE_PUBLIC_IP'] if 'IM_NODE_PUBLIC_IP' in hostvars[groups['{0}'][0]] else "
    "hostvars[groups['{0}'][0]]['IM_NODE_PRIVATE_IP']}}}}"
)
ALL_OF = "{{{{ groups['{0}']|map('extract', hostvars,'IM_NODE_PRIVATE_IP')|list if '{0}' in groups else []}}}}"


class Unsafe(yaml.SafeLoader):
    pass


Unsafe.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))


# As IM 2.0's Tosca.py writes them.
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{{ IM_NODE_PRIVATE_IP }}", "10.0.0.2"),
        ("{{ hostvars[groups['front'][0]]['IM_NODE_PUBLIC_IP'] }}", "192.0.2.2"),
        ("{{ hostvars[groups['lrms_wn'][0]]['IM_NODE_NET_0_IP'] }}", "10.1.0.3"),
        ("{{ hostvars[groups['lrms_wn'][0]]['IM_NODE_VMID'] }}", "7"),
        (PUBLIC_OR.format("front"), "192.0.2.2"),
        (PUBLIC_OR.format("lrms_wn"), "10.0.0.3"),
        ("http://{{ hostvars[groups['front'][0]]['IM_NODE_PRIVATE_IP'] }}:8080/{{ IM_NODE_PUBLIC_IP }}", "http://10.0.0.2:8080/192.0.2.2"),
        (ALL_OF.format("lrms_wn"), ["10.0.0.3"]),
        (ALL_OF.format("none"), []),
        (ALL_OF.format("gone"), []),
    ],
)
def test_the_managers_own_expressions_become_addresses(text: str, wanted: object) -> None:
    assert texts.data([text], NODES, "input") == [wanted]


@pytest.mark.parametrize(
    "text",
    [
        "{{ 7 * 7 }}",
        "#jinja2:variable_start_string:'[['\n[[ 7 ]]",
        "{% set a = 1 %}{# b #}",
        "{{ hostvars[groups['a'~lookup('pipe','x')][0]]['IM_NODE_PRIVATE_IP'] }}",
        "{{ hostvars[groups['front'][0]]['ansible_password'] }}",
        "{{ IM_NODE_PRIVATE_IP | x }}",
        "[1, 2]",
        "{'a': 1}",
        "",
        "é 😀 \x85 \u2028",
    ],
)
def test_all_other_texts_arrive_as_they_are(text: str) -> None:
    assert texts.data({text: [text]}, NODES, "input") == {text: [text]}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": [datetime.date(2026, 11, 30)]}, "input.a.0 is no text, number, list or dictionary but a date: write it in quotes"),
        ({"a": "{{ hostvars[groups['front'][3]]['IM_NODE_PRIVATE_IP'] }}"}, "input.a: the deployment has no host 3 of front"),
        ("{{ hostvars[groups['lrms_wn'][0]]['IM_NODE_PUBLIC_IP'] }}", "input: the orchestrator knows no IM_NODE_PUBLIC_IP of a host"),
    ],
)
def test_what_is_not_known_has_its_name(value: object, words: str) -> None:
    with pytest.raises(texts.Unknown) as refused:
        texts.data(value, NODES, "input")
    assert str(refused.value) == words


def test_a_few_lines_that_stand_for_millions() -> None:
    lines = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefg", "bcdefgh")
    )
    with pytest.raises(texts.Unknown, match="settings has more than"):
        texts.data(yaml.safe_load(lines), NODES, "settings")


def test_variables_come_back_as_they_were():
    values = {
        "template": "{{ 7 * 7 }}{% raw %}\n",
        "signs": 'quote " backslash \\ tab \t null \0 é 😀 \x85 \u2028 \ud800',
        "begin": ["- a", "!unsafe b", "&c", "*d", "? e", "null", "yes", "1e3", ""],
        "numbers": [1, 2.5, True, None],
        "{{ key }}": {"x": {}},
        "empty": [],
    }
    assert yaml.load(texts.unsafe_yaml(values), Unsafe) == values


def test_what_is_no_variable_is_one_sentence():
    with pytest.raises(ValueError, match="object can't be written as a variable"):
        texts.unsafe_yaml([object()])


@pytest.mark.parametrize(("given", "wanted"), [(None, 0), ("", 0), (0, 0), (2, 2), ("2", 2), ("0", 0), (999999999, 999999999)])
def test_what_is_a_number(given, wanted):
    assert texts.number(given, "worker_gpus") == wanted


@pytest.mark.parametrize("given", ["two", -1, "-1", 1.5, "1.5", True, "2 ", "2\n", "²", [2], {}, [], "1e3", 10**9])
def test_what_is_none_is_named(given):
    with pytest.raises(texts.Unknown, match=r"^worker_gpus is .*: write a whole number, 0 or more$"):
        texts.number(given, "worker_gpus")


def test_data_have_a_bound_in_depth():
    deep = yaml.safe_load("[" * 60 + "]" * 60)
    with pytest.raises(texts.Unknown, match=r"^cluster_settings has more than 50 levels$"):
        texts.data({"a": deep}, NODES, "cluster_settings")


def test_a_long_text_counts_as_many_parts(monkeypatch):
    monkeypatch.setattr(texts, "MOST_PARTS", 1000)
    assert texts.data(["x" * 1000] * 80, NODES)
    with pytest.raises(texts.Unknown, match="has more than 1000 parts"):
        texts.data(["x" * 1000] * 100, NODES)


@pytest.mark.parametrize("name", ["wn-1", "wn-1.site.test", "10.0.0.2", "2001:db8::1", "", None, "127.0.0.1_2"])
def test_a_name_of_a_host_may_be(name):
    texts.check_names({"a": {"IM_NODE_HOSTNAME": name}})


@pytest.mark.parametrize("name", ["{{ lookup('pipe', 'x') }}", "#jinja2:", "a b", "a\n", "{% x %}", {"a": 1}])
def test_a_name_of_a_host_may_not_be_anything_else(name):
    for variable in ("IM_NODE_HOSTNAME", "IM_NODE_PRIVATE_IP", "IM_NODE_PUBLIC_IP"):
        with pytest.raises(texts.Unknown, match=f"^{variable} of a host is "):
            texts.check_names({"a": {}, "b": {variable: name}})
