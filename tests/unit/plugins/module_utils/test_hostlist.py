# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Host lists: folding and expanding, with ClusterShell as the oracle."""

from __future__ import annotations

import time

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import hostlist
from ClusterShell.NodeSet import NodeSet
from hypothesis import given
from hypothesis import strategies as st

PREFIXES = st.sampled_from(["gpu", "n", "rack1-n", "10.0.0.", "/dev/nvidia", "a1b"])
NUMBERS = st.integers(0, 130).flatmap(lambda number: st.sampled_from([str(number), f"{number:02}", f"{number:03}"]))
NAMES = st.one_of(
    st.builds("".join, st.tuples(PREFIXES, NUMBERS)),
    st.builds("{0}{1}.site.org".format, PREFIXES, NUMBERS),
    st.from_regex(r"[a-z0-9][a-z0-9._/-]{0,20}", fullmatch=True),
)


@pytest.mark.parametrize(
    "names, expression",
    [
        ([], ""),
        (["gpu1"], "gpu1"),
        (["login"], "login"),
        (["gpu3", "gpu1", "gpu2", "gpu2"], "gpu[1-3]"),
        (["gpu1", "gpu2", "gpu3", "gpu07", "gpu08", "gpu09"], "gpu[1-3,07-09]"),
        (["n08", "n09", "n10", "n8", "n9"], "n[8-9,08-10]"),
        (["n099", "n100", "n101"], "n[099-101]"),
        (["n9", "n10", "n2"], "n[2,9-10]"),
        (["b1", "a2", "a1", "a"], "a,a[1-2],b1"),
        (["rack1n1", "rack1n2", "rack2n1"], "rack1n[1-2],rack2n1"),
        (["n2.site.org", "n1.site.org"], "n1.site.org,n2.site.org"),
        (["/dev/nvidia0", "/dev/nvidia1"], "/dev/nvidia[0-1]"),
        (["0", "00"], "[0,00]"),
    ],
)
def test_fold(names, expression):
    assert hostlist.fold(names) == expression


@pytest.mark.parametrize(
    "names, expression",
    [
        ([], ""),
        (["10.0.0.1", "10.0.0.2", "10.0.0.3"], "10.0.0.[1-3]"),
        (["10.0.0.3", "10.0.0.1", "10.0.0.2"], "10.0.0.[3,1-2]"),
        (["10.0.0.1", "10.0.0.1"], "10.0.0.[1,1]"),
        (["10.0.0.1", "10.0.1.1", "10.0.0.2"], "10.0.0.1,10.0.1.1,10.0.0.2"),
        (["login", "login"], "login,login"),
        (["n9", "n010"], "n[9,010]"),
    ],
)
def test_fold_ordered(names, expression):
    assert hostlist.fold_ordered(names) == expression
    assert hostlist.expand(expression) == names


@pytest.mark.parametrize(
    "expression, names",
    [
        ("", []),
        ("  ", []),
        ("login", ["login"]),
        ("gpu[1-3,07-09]", ["gpu1", "gpu2", "gpu3", "gpu07", "gpu08", "gpu09"]),
        (" a1 , b[2-3] ", ["a1", "b2", "b3"]),
        ("n[1-2].site.org", ["n1.site.org", "n2.site.org"]),
        ("r[1-2]n[08-09]", ["r1n08", "r1n09", "r2n08", "r2n09"]),
        ("n[98-101]", ["n98", "n99", "n100", "n101"]),
        ("n[2,1,2]", ["n2", "n1", "n2"]),
    ],
)
def test_expand(expression, names):
    assert hostlist.expand(expression) == names


@pytest.mark.parametrize(
    "expression",
    [
        "n[1-",
        "n1]",
        "n[]",
        "n[a]",
        "n[3-1]",
        "n[1-2",
        "n1,,n2",
        ",n1",
        "n1,",
        "n1 n2",
        "n[[1]]",
        "n[1-3/2]",
        "n[-1]",
        "n[1-99999999]",
        "n[0-9999]m[0-9999]",
        "n[٣]",
    ],
)
def test_malformed_expressions_are_refused_in_one_sentence(expression):
    with pytest.raises(ValueError, match=r"^The host list .*\.$"):
        hostlist.expand(expression)


@pytest.mark.parametrize("names", ["gpu1", [""], [None], ["a b"], ["a,b"], ["a[1]"], ["a\n"]])
@pytest.mark.parametrize("function", [hostlist.fold, hostlist.fold_ordered])
def test_what_is_not_a_name_is_refused(function, names):
    with pytest.raises(ValueError, match=r"^(A|The) .*\.$"):
        function(names)


def test_expand_takes_text_only():
    with pytest.raises(ValueError, match="must be a string"):
        hostlist.expand(["n1"])


@given(st.lists(NAMES))
def test_fold_then_expand_gives_the_set(names):
    expanded = hostlist.expand(hostlist.fold(names))
    assert len(expanded) == len(set(expanded))
    assert set(expanded) == set(names)


@given(st.lists(NAMES))
def test_fold_ordered_then_expand_gives_the_list(names):
    assert hostlist.expand(hostlist.fold_ordered(names)) == names


@given(st.lists(NAMES, unique=True).flatmap(lambda names: st.tuples(st.just(names), st.permutations(names))))
def test_fold_does_not_depend_on_order(names_and_shuffled):
    names, shuffled = names_and_shuffled
    assert hostlist.fold(names) == hostlist.fold(shuffled)


@given(PREFIXES.filter(lambda prefix: not prefix.startswith("/")), st.sets(st.integers(0, 300), min_size=1), st.sampled_from([0, 2, 3, 4]))
def test_one_dimension_agrees_with_clustershell(prefix, numbers, width):
    names = [prefix + str(number).zfill(width) for number in numbers]
    folded = hostlist.fold(names)
    oracle = NodeSet.fromlist(names)
    assert NodeSet(folded) == oracle
    assert sorted(hostlist.expand(str(oracle))) == sorted(names)
    # Our expression is as short as theirs, which also brackets a number that is not at the end.
    if prefix in ("gpu", "n"):
        assert len(folded) == len(str(oracle))


def seconds_of(function, argument):
    """The least of three measurements, as anything else the machine does only adds to it."""
    times = []
    for _attempt in range(3):
        start = time.process_time()
        function(argument)
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize("function", [hostlist.fold, hostlist.fold_ordered])
def test_5000_names_take_well_under_a_tenth_of_a_second(function):
    names = [f"gpu{number}" for number in range(5000)]
    assert function(names) == "gpu[0-4999]"
    assert seconds_of(function, names) < 0.1
    assert seconds_of(hostlist.expand, "gpu[0-4999]") < 0.1
