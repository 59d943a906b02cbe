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
