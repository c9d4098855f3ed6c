"""A layer gives the same result in every wrapper, in every form of the loop, and whichever sizes happen to be equal."""

from __future__ import annotations

import itertools

import net_sweep as sweep
import numpy as np
import pytest
from dict_nets import FORMS, LENGTHS, built, inputs, loop_of, of_sequence, run, weights
from seed import part_of

import rfnb as rf

VARIANTS = {"different": sweep.DIFFERENT, "same": sweep.SAME, "pairs": sweep.PAIRS}
INPUTS = ("input", "feedback", "search", "search of known length")
NAMES = list(sweep.layers_of(sweep.DIFFERENT))
# Which of two masks a wrapping has: one that is always True, so that it changes nothing, or one that is not.
FREE = {**sweep.UNMASKED, **{f"{name}, all": wrap for name, wrap in sweep.wrappings("all").items()}}
MASKED = sweep.wrappings("some")


def _assert_same(got, expected):
    assert got.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-3, atol=1e-4, err_msg=name)


def _outputs(kind, wrap, made, sizes, forms, place=lambda net: net):
    net = place(sweep.network(kind, wrap(made, "in", "x", "base:"), sizes))
    net = sweep.built(net, sizes, kind.startswith("search"))
    data = sweep.inputs(sizes)
    return [sweep.as_arrays(net(data, loop=face, move_out=moved)) for face, moved in forms]


def _cases():
    """Each layer with each kind of input; sizes and wrappings take turns, so that each layer meets all of them."""
    for number, (name, kind) in enumerate(itertools.product(NAMES, INPUTS)):
        yield pytest.param(name, kind, number, id=f"{name}-{kind}")


@pytest.mark.parametrize(("name", "kind", "number"), part_of(_cases(), 3))
def test_a_layer_gives_the_same_in_every_wrapping(name, kind, number):
    sizes = list(VARIANTS.values())[(number + number // 4) % 3]
    made = sweep.layers_of(sizes)[name]
    for group in (FREE, MASKED):
        first, *others = group.values()
        (expected,) = _outputs(kind, first, made, sizes, FORMS[:1])
        for turn, wrap in enumerate([first, *others[number % 2 :: 2]]):
            for got in _outputs(kind, wrap, made, sizes, [FORMS[(number + turn) % 3], FORMS[(number + turn + 1) % 3]]):
                _assert_same(got, expected)


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("name", ["rec lstm", "head_attention", "own_feedback", "history"])
def test_a_loop_in_a_subnetwork_gives_the_same(name, kind):
    for sizes in VARIANTS.values():
        made = sweep.layers_of(sizes)[name]
        (expected,) = _outputs(kind, sweep.UNMASKED["plain"], made, sizes, FORMS[:1])
        expected = {key: value for key, value in expected.items() if key != "output/x"}
        for wrap in (FREE["plain"], FREE["masked subnetwork, all"]):
            for got in _outputs(kind, wrap, made, sizes, FORMS, sweep.in_subnetwork):
                _assert_same(got, expected)


@pytest.mark.parametrize(
    "name", [n for n in NAMES if n not in ("own_feedback", "feedback_before", "accumulated_attention", "history")]
)
def test_a_layer_on_all_frames_gives_the_same_as_in_a_loop(name):
    for sizes in VARIANTS.values():
        made = sweep.layers_of(sizes)[name]
        (expected,) = _outputs("input", sweep.UNMASKED["plain"], made, sizes, FORMS[:1])
        for wrap in sweep.UNMASKED.values():
            whole = sweep.whole(lambda *args, wrap=wrap, made=made: wrap(made, *args), sizes)
            _assert_same(sweep.as_arrays(sweep.built(whole, sizes, False)(sweep.inputs(sizes))), expected)


# -- previous values of layers inside of layers ---------------------------------------------------------------------------------


def _linear(source, n=4, **more):
    return {"class": "linear", "activation": "tanh", "n_out": n, "from": source, **more}


def _sub(inner, source="data:source"):
    return {"class": "subnetwork", "from": source, "subnetwork": inner}


in_all_forms = pytest.mark.parametrize("form", FORMS, ids=["for", "with", "with-in-loop"])


@in_all_forms
def test_the_previous_value_of_a_layer_inside_of_another_is_read_from_outside(form):
    """With its own initial output."""
    inner = {"h": _linear("data", initial_output=0.5), "output": {"class": "copy", "from": "h"}}
    net = built(
        loop_of({"o": _sub(inner), "output": {"class": "combine", "kind": "add", "from": ["o", "prev:o/h"]}}), form=form
    )
    w, out = weights(net), run(net)["output"]
    assert w.keys() == {"output/rec/o/h/W", "output/rec/o/h/b"}
    for index in range(3):
        h = np.tanh(inputs()["data"][index, : LENGTHS["data"][index]] @ w["output/rec/o/h/W"] + w["output/rec/o/h/b"])
        before = np.concatenate([np.full((1, 4), 0.5), h[:-1]])
        np.testing.assert_allclose(of_sequence(out, index), h + before, rtol=1e-4, atol=1e-5)


@in_all_forms
@pytest.mark.parametrize("ones", ["initial_output", "initial_state"])
def test_the_previous_value_of_a_subnetwork_begins_with_that_of_its_output(ones, form):
    last = _linear("data", initial_output="ones") if ones == "initial_output" else {
        "class": "rec", "unit": "nativelstm2", "n_out": 4, "initial_state": "ones"}  # fmt: skip
    sub = {"o": _sub({"output": last}), "output": {"class": "combine", "kind": "add", "from": ["prev:o", "o"]}}
    out = run(built(loop_of({"o": _sub({"output": last}), "output": {"class": "copy", "from": "prev:o"}}), form=form))[
        "output"
    ]
    for index in range(3):
        np.testing.assert_array_equal(of_sequence(out, index)[0], np.ones(4))
    both, again = (run(built(loop_of(sub), form=each))["output"] for each in (form, FORMS[0]))
    for index in range(3):
        np.testing.assert_allclose(of_sequence(both, index), of_sequence(again, index), rtol=1e-5)


@pytest.mark.parametrize("wrap", ["loop", "subnetwork", "masked"])
def test_the_previous_value_of_no_layer_names_the_layers_that_are_there(wrap):
    last = _linear("prev:nothing")
    yes = {"class": "compare", "kind": "equal", "from": ":i", "value": 0}
    body = {
        "loop": {"output": last},
        "subnetwork": {"output": _sub({"output": last})},
        "masked": {
            "yes": yes,
            "output": {"class": "masked_computation", "mask": "yes", "from": "data:source", "unit": last},
        },
    }[wrap]
    with pytest.raises(ValueError, match=r'^There is no layer "nothing" in "output/rec"\.\n  near '):
        rf.net_from_dict(loop_of(body), {"data": {"dim": 4}})


def test_a_previous_value_outside_of_a_loop_is_refused_in_a_subnetwork_too():
    inner = {"h": _linear(["data", "prev:h"]), "output": {"class": "copy", "from": "h"}}
    with pytest.raises(ValueError) as caught:
        rf.net_from_dict({"output": {"class": "subnetwork", "from": "data", "subnetwork": inner}}, {"data": {"dim": 4}})
    assert str(caught.value) == (
        '"prev:h" is used outside a loop.\n  network  output/\nOnly a step of a loop has a previous step.'
    )


def test_a_layer_that_depends_on_its_own_previous_value_only_is_told_by_its_name():
    inner = {"h": {"class": "copy", "from": "prev:h"}, "output": {"class": "copy", "from": "h"}}
    with pytest.raises(
        ValueError,
        match=r"(?s)the dims of o(, output)? are unknown.*These layers depend only on their own previous values",
    ):
        rf.net_from_dict(loop_of({"o": _sub(inner), "output": {"class": "copy", "from": "o"}}), {"data": {"dim": 4}})


# -- what a unit of a masked computation reads ------------------------------------------------------------------------------------

K = {
    "s": {"class": "reduce", "mode": "sum", "axis": "F", "from": "data:source"},
    "k": {"class": "compare", "kind": "greater", "from": "s", "value": 0.0},
    "h": _linear("data:source"),
}


def _masked(unit):
    return {"class": "masked_computation", "mask": "k", "from": "data:source", "unit": unit}


def _sum_with(ref):
    return {"class": "combine", "kind": "add", "from": ["data", ref]}


@in_all_forms
def test_a_unit_reads_the_layers_beside_it_by_every_way_that_can_mean_them(form):
    inner = [{"output": _sum_with(ref)} for ref in ("base:h", "base:base:h")]
    units = [_sum_with("h"), _sum_with("base:h"), *(_sub(each, "data") for each in inner)]
    results = [run(built(loop_of({**K, "output": _masked(unit)}), form=form))["output"] for unit in units]
    w = weights(built(loop_of({**K, "output": _masked(units[0])})))
    for index in range(3):
        x = inputs()["data"][index, : LENGTHS["data"][index]]
        both, last, expected = x + np.tanh(x @ w["output/rec/h/W"] + w["output/rec/h/b"]), np.zeros(4), []
        for frame, new in zip(x, both, strict=True):
            last = new if frame.sum() > 0 else last
            expected.append(last)
        for out in results:
            np.testing.assert_allclose(of_sequence(out, index), expected, rtol=1e-4, atol=1e-5)


def test_a_name_beside_a_unit_and_around_its_network_is_not_guessed():
    net = {"h": {**_linear("data"), "from": "data"}, **loop_of({**K, "output": _masked(_sum_with("base:h"))})}
    with pytest.raises(ValueError) as caught:
        rf.net_from_dict(net, {"data": {"dim": 4}})
    assert str(caught.value) == (
        '"base:h" is ambiguous.\n'
        '  beside  "h"\n'
        '  around  "base:h"\n'
        "The unit of a masked computation is not a separate network: it reads the layers beside it by their names.\n"
        '    "h"'
    )


@in_all_forms
def test_a_unit_reads_what_is_around_its_network(form):
    net = {
        "mean": {"class": "reduce", "mode": "mean", "axis": "T", "from": "data"},
        **loop_of({**K, "output": _masked(_sum_with("base:mean"))}),
    }
    inside = {"class": "copy", "from": "base:mean"}
    beside = {"mean": net["mean"], **loop_of({**K, "m": inside, "output": _masked(_sum_with("m"))})}
    for index, (got, expected) in enumerate([(run(built(net, form=form)), run(built(beside, form=form)))] * 3):
        np.testing.assert_array_equal(of_sequence(got["output"], index), of_sequence(expected["output"], index))


@in_all_forms
@pytest.mark.parametrize("wrap", ["subnetwork", "masked subnetwork"])
def test_a_subnetwork_reads_the_data_around_the_loop_by_the_same_name_in_a_unit_as_alone(wrap, form):
    inner = {"a": {"class": "combine", "kind": "mul", "from": ["base:base:data", "data"]},
             "output": {"class": "reduce", "mode": "sum", "axis": "T", "from": "a", "n_out": 4}}  # fmt: skip
    yes = {"class": "compare", "kind": "less", "value": 99.0, "from": "s"}
    unit = _sub(inner, "prev:f" if wrap == "subnetwork" else "data")
    masked = {"class": "masked_computation", "mask": "yes", "from": "prev:f", "unit": unit}
    body = {"s": K["s"], "yes": yes, "e": unit if wrap == "subnetwork" else masked, "f": _linear("e", initial_output=0.1),
            "output": {"class": "copy", "from": "f"}}  # fmt: skip
    net = built(loop_of(body), form=form)
    w, out = weights(net), run(net)["output"]
    for index in range(3):
        x, f, expected = inputs()["data"][index, : LENGTHS["data"][index]], np.full(4, 0.1), []
        for _ in x:
            f = np.tanh((x * f).sum(0) @ w["output/rec/f/W"] + w["output/rec/f/b"])
            expected.append(f)
        np.testing.assert_allclose(of_sequence(out, index), expected, rtol=1e-3, atol=1e-5)
