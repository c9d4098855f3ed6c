"""Networks of thousands of layers, one after the other, in every order of the dict: nothing is limited by Python's recursion."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
from dict_nets import FORMS, of_sequence
from seed import part_of

import rfnb as rf

LAYERS = 2000
KINDS = {
    "copy": lambda source: {"class": "copy", "from": source},
    "linear": lambda source: {"class": "linear", "activation": "tanh", "n_out": 3, "from": source},
    "combine": lambda source: {"class": "combine", "kind": "average", "from": [source, source]},
    "switch": lambda source: {"class": "switch", "condition": "positive", "true_from": source, "false_from": source},
    "subnetwork": lambda source: {
        "class": "subnetwork",
        "from": source,
        "subnetwork": {"output": {"class": "copy", "from": "data"}},
    },
}
X = np.random.default_rng(0).normal(size=(2, 3, 3)).astype("float32")


def _chain(kind, first, *, backwards):
    """A chain of layers from `first` to "output". Backwards: what is needed last comes first in the dict."""
    made = {f"l{index}": KINDS[kind](f"l{index - 1}" if index else first) for index in range(LAYERS)}
    made["output"] = {"class": "copy", "from": f"l{LAYERS - 1}"}
    made["positive"] = {
        "class": "compare",
        "kind": "greater",
        "from": first if isinstance(first, str) else first[0],
        "value": 0,
    }
    return dict(reversed(made.items())) if backwards else made


def _given(net):
    """Its outputs, with parameters that keep values near what they are."""
    near_one = {"W": np.eye(3, dtype="float32"), "b": np.zeros(3, "float32")}
    net.set_parameters({path: near_one[path.rpartition("/")[2]] for path in net.parameters_by_path()})
    return net({"data": (X, [3, 2])})["output"]


def _assert_frames(out, expected):
    for index, length in enumerate((3, 2)):
        np.testing.assert_allclose(of_sequence(out, index), expected[index, :length], atol=1e-5)


def _tanh_of_tanh(x):
    for _ in range(LAYERS):
        x = np.tanh(x)
    return x


def _expected(kind):
    return _tanh_of_tanh(X) if kind == "linear" else X


@pytest.fixture(autouse=True)
def stack_of_python():
    """The stack is as long as it is by itself; torch's compiler makes it longer in its process."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.parametrize(("kind", "backwards"), part_of(itertools.product(KINDS, [False, True]), 3))
def test_a_chain_of_layers_may_be_longer_than_the_stack_of_python(kind, backwards):
    assert sys.getrecursionlimit() < LAYERS
    out = _given(rf.net_from_dict(_chain(kind, "data", backwards=backwards), {"data": {"dim": 3}}))
    _assert_frames(out, _expected(kind))


@pytest.mark.parametrize(("kind", "form"), part_of(itertools.product(["linear", "subnetwork"], FORMS), 4))
def test_a_chain_in_a_step_of_a_loop_may_be_as_long(kind, form):
    net = {"output": {"class": "rec", "from": "data", "unit": _chain(kind, "data:source", backwards=kind == "linear")}}
    net = rf.net_from_dict(net, {"data": {"dim": 3}}, loop=form[0], optimize_move_layers_out=form[1])
    out = _given(net)
    _assert_frames(out, _expected(kind))


@pytest.mark.parametrize("loop", ["for", "with"])
def test_a_chain_that_hangs_on_its_own_previous_value_may_be_as_long(loop):
    """Its dims are not known before the first step has been made."""
    unit = _chain("copy", "first", backwards=True)
    unit["first"] = {"class": "combine", "kind": "add", "from": ["prev:output", "data:source"]}
    unit["positive"]["from"] = "first"
    net = rf.net_from_dict({"output": {"class": "rec", "from": "data", "unit": unit}}, {"data": {"dim": 3}}, loop=loop)
    out = _given(net)
    _assert_frames(out, X.cumsum(1))


def test_a_cycle_at_the_end_of_a_long_chain_is_named():
    net = _chain("copy", "last", backwards=False)
    net["last"] = {"class": "copy", "from": "l1990"}
    with pytest.raises(ValueError, match=r'^Layer "l?\w*" depends on itself\.'):
        rf.net_from_dict(net, {"data": {"dim": 3}})


def test_an_error_at_the_end_of_a_long_chain_is_told_once():
    net = _chain("copy", "mistake", backwards=True)
    net["mistake"] = {"class": "reduce", "mode": "sum", "axis": "stag:space", "from": "data"}
    with pytest.raises(rf.DimError) as caught:
        rf.net_from_dict(net, {"data": {"dim": 3}})
    assert str(caught.value) == (
        'Layer "mistake" of class "reduce": the source has no axis \'stag:space\'.\n'
        "  source  [batch=2, time<=2, data:feature=3]\n"
        'An axis is a Dim, "T", "F", "B", "spatial:0", "dim:SIZE" or "stag:NAME".'
    )
    assert caught.value.__notes__ == ['in Layer "mistake" of class "reduce"']
