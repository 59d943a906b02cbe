# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._tosca import texts


class Unsafe(yaml.SafeLoader):
    pass


Unsafe.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"a": "plain", "b": ["x", {"c": 1, "d": None}]}, ""),
        ({"a": "{ {", "b": "50 %"}, ""),
        ({"worker_gpu_model": "{{ 7 * 7 }}"}, "worker_gpu_model"),
        ({"a": [{"name": "x"}, {"name": "{% if x %}"}]}, "a.1.name"),
        ({"a": {"{# b": 1}}, "a (a name in it)"),
        ({"a": b"{{ b }}"}, "a"),
        ({"a": ("x", "{{")}, "a.1"),
    ],
)
def test_where_a_template_is(values, where):
    assert texts.with_template(values) == where


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        # As IM 2.0's Tosca.py writes them.
        ("{{ IM_NODE_PRIVATE_IP }}", True),
        ("{{ hostvars[groups['lrms_server'][0]]['IM_NODE_PRIVATE_IP'] }}", True),
        ("{{ hostvars[groups['pub_network'][0]]['IM_NODE_NET_0_IP'] }}", True),
        ("{{ groups['lrms_wn']|map('extract', hostvars,'IM_NODE_PRIVATE_IP')|list if 'lrms_wn' in groups else []}}", True),
        (
            "{{ hostvars[groups['a'][0]]['IM_NODE_PUBLIC_IP'] if 'IM_NODE_PUBLIC_IP' in hostvars[groups['a'][0]] else "
            "hostvars[groups['a'][0]]['IM_NODE_PRIVATE_IP']}}",
            True,
        ),
        ("{{ hostvars[groups['a'~lookup('pipe','x')][0]]['IM_NODE_PRIVATE_IP'] }}", False),
        ("{{ hostvars[groups['a'][0]]['ansible_password'] }}", False),
        ("{{ IM_NODE_PRIVATE_IP }}{{ lookup('pipe', 'x') }}", False),
        ("{{ IM_NODE_PRIVATE_IP }}\n{% x %}", False),
        ("{{ IM_NODE_PRIVATE_IP | x }}", False),
    ],
)
def test_the_managers_own_expressions_of_addresses_pass(text, passes):
    assert (texts.with_template({"a": [text]}) == "") is passes


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


def test_only_what_could_be_a_template_has_the_tag():
    assert texts.unsafe_yaml({"a": "b", "c": "{ d"}) == '{"a": "b", "c": !unsafe "{ d"}'


def test_what_is_no_variable_is_one_sentence():
    with pytest.raises(ValueError, match="object can't be written as a variable"):
        texts.unsafe_yaml([object()])
