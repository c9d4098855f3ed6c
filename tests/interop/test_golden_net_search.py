"""Searches of networks in the dict notation give the hypotheses, scores and decisions of golden data."""

from __future__ import annotations

import pytest
from golden_nets import GoldenNet, names
from golden_search import StepsCompared, check_output

SEARCHES = names(search=True)


@pytest.mark.parametrize("loop", ["for", "with"])
@pytest.mark.parametrize("name", SEARCHES)
def test_search_gives_the_golden_hypotheses(name, loop):
    golden = GoldenNet(name)
    net = golden.net(search=True, loop=loop)
    with StepsCompared(golden.arrays):
        out = golden.run(net)
    for key in golden.outputs:
        check_output(golden.arrays, key, out[key])


def test_a_network_searches_in_one_call_and_trains_in_another():
    golden = GoldenNet("search_basic")
    net = golden.net(search=True)
    data, lengths = golden.part("in"), golden.part("in_len")
    trained = net(data, lengths=lengths, outputs=["output"], search=False)["output"]
    assert {dim.kind for dim in trained.dims} == {"batch", None}
    searched = net(data, lengths=lengths, outputs=["decision"])
    check_output(golden.arrays, "decision", searched["decision"])
