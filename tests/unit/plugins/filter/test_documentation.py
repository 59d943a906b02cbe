# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Every filter is documented, and what the examples claim ("# => ...") is what the filters give."""

from __future__ import annotations

import importlib
import inspect
import pathlib
import re

import ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.hostlist as any_plugin
import pytest
import yaml
from jinja2 import meta
from jinja2.nativetypes import NativeEnvironment

FOLDER = pathlib.Path(any_plugin.__file__).resolve().parents[2] / "filter"
PACKAGE = "ansible_collections.deephdc.accelerators.plugins.filter."
COLLECTION = "deephdc.accelerators."


def filters():
    found = {}
    for path in sorted(FOLDER.glob("*.py")):
        if path.stem != "__init__":
            found.update(importlib.import_module(PACKAGE + path.stem).FilterModule().filters())
    return found


FILTERS = filters()
DOCUMENTS = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.yml"))}


def claims(examples):
    """Pairs of an example task and the YAML that its comment says it gives."""
    claim = re.compile(r"^ *# =>(?P<first>.*)\n(?P<more>(?: *#.*\n?)*)", re.MULTILINE)
    position = 0
    for match in claim.finditer(examples):
        text = match.group("first").strip() + "\n" + re.sub(r"(?m)^ *#", "", match.group("more"))
        (task,) = yaml.safe_load(examples[position : match.start()])
        yield task, yaml.safe_load(text)
        position = match.end()


def rendered(value, environment, variables):
    if isinstance(value, dict):
        return {key: rendered(item, environment, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [rendered(item, environment, variables) for item in value]
    if isinstance(value, str) and "{{" in value:
        return environment.from_string(value).render(variables)
    return value


EXAMPLES = [
    pytest.param(name, task, expected, id=name + "-" + task["name"].replace(" ", "_"))
    for name, document in DOCUMENTS.items()
    for task, expected in claims(document["EXAMPLES"])
]


# Ansible's own, and what every task has.
GIVEN = {
    *("ansible_facts", "ansible_play_hosts", "ansible_play_hosts_all", "groups", "hostvars"),
    *("inventory_dir", "inventory_hostname", "lookup"),
}


class Anything(dict):
    """Filters and tests of Ansible, which Jinja does not know."""

    def __contains__(self, _name):
        return True

    def __getitem__(self, _name):
        return lambda *_arguments: None

    def get(self, _name, _default=None):
        return self[_name]


def used(value, environment):
    """The variables that the templates in a value use."""
    if isinstance(value, dict):
        return set().union(*(used(item, environment) for item in value.values()))
    if isinstance(value, list):
        return set().union(*(used(item, environment) for item in value))
    return meta.find_undeclared_variables(environment.parse(value)) if isinstance(value, str) else set()


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_an_example_has_all_that_it_uses(name):
    """By its variables, by what a task before registers, or because Ansible gives it."""
    environment = NativeEnvironment()
    environment.filters = environment.tests = Anything()
    known = set(GIVEN)
    for task in yaml.safe_load(DOCUMENTS[name]["EXAMPLES"]):
        assert used(task, environment) - known - set(task.get("vars", {})) == set()
        known |= {task["register"]} if "register" in task else set()


def test_each_filter_has_a_document_and_each_document_a_filter():
    assert DOCUMENTS
    assert set(DOCUMENTS) == set(FILTERS)


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_document_names_the_parameters_of_the_filter(name):
    documentation = DOCUMENTS[name]["DOCUMENTATION"]
    parameters = list(inspect.signature(FILTERS[name]).parameters.values())
    options = documentation["options"]
    assert documentation["name"] == name
    assert set(options) - {"_input"} == {parameter.name for parameter in parameters[1:]}
    for parameter in parameters[1:]:
        if parameter.default is not inspect.Parameter.empty:
            assert options[parameter.name].get("default") == parameter.default
    positional = [item for item in (documentation.get("positional") or "").replace(" ", "").split(",") if item]
    assert positional == [parameter.name for parameter in parameters[1:]]


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_document_shows_the_filter_by_its_full_name(name):
    assert COLLECTION + name in DOCUMENTS[name]["EXAMPLES"]


@pytest.mark.parametrize("name, task, expected", EXAMPLES)
def test_example_gives_what_it_claims(name, task, expected):
    environment = NativeEnvironment()
    environment.filters.update({COLLECTION + key: function for key, function in FILTERS.items()})
    variables = {}
    for key, value in task.get("vars", {}).items():
        variables[key] = rendered(value, environment, variables)
    given = task["ansible.builtin.debug"]["msg"]
    function = re.fullmatch(r"\{\{ (?P<input>.+) \| " + re.escape(COLLECTION + name) + r"(?P<arguments>\(.*\))? \}\}", given)
    assert function, "the example must show this filter and nothing after it"
    # compile_expression gives the filter's own result; a native template would read text that looks like Python.
    assert environment.compile_expression(given[2:-2])(**variables) == expected
