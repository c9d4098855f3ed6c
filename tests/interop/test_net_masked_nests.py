"""Masked computations in each other, with subnetworks between, in loops and on whole sequences: as NumPy computes them frame by frame.

A word says what is in what: M is a masked computation, S a subnetwork, A a subnetwork whose layers do something before and after.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from dict_nets import FORMS, LENGTHS, built, inputs, loop_of, of_sequence, run, weights

DIMS = ["<dim t:None>", *(f"<dim packed{number}:None>" for number in range(3))]
EXTERN = {"data": {"dim_tags": ["<dim batch:None>", DIMS[0], "<dim f:4>"]}}
WORDS = ["".join(word) for length in (1, 2, 3) for word in itertools.product("MSA", repeat=length)]
# What is behind a masked computation has its packed frames: no layer may add those of its source, which are not packed.
WHOLE_WORDS = [word for word in WORDS if "M" in word and "M" not in word.partition("A")[2]] + ["MSMS", "MMSM", "SMSM"]
MEAN = {"class": "reduce", "mode": "mean", "axis": "T"}
ADD, SQUARE = {"class": "combine", "kind": "add"}, {"class": "combine", "kind": "mul", "from": ["data", "data"]}
RNN = {"class": "linear", "activation": "tanh", "n_out": 4}


def _nest(word, leaf, me="output", source="data", nets=0, masks=0, *, in_unit=False, whole=False):
    """The entry called `me`; what is innermost is `leaf(me, source, nets, in_unit)`, `nets` subnetworks deep."""
    if not word:
        return leaf(me, source, nets, in_unit)
    kind, rest = word[0], word[1:]
    if kind == "M":
        dims = {"in_spatial_dim": DIMS[masks], "out_spatial_dim": DIMS[masks + 1]} if whole else {}
        unit = _nest(rest, leaf, me, "data", nets, masks + 1, in_unit=True, whole=whole)
        return {
            "class": "masked_computation",
            "mask": f"{'base:' * nets}k{masks}",
            "from": source,
            "unit": unit,
            **dims,
        }
    inner = {"output": _nest(rest, leaf, "output", "data", nets + 1, masks, whole=whole)}
    if kind == "A":
        u = _nest(rest, leaf, "u", "squared", nets + 1, masks, whole=whole)
        inner = {"squared": SQUARE, "u": u, "output": {**ADD, "from": ["u", "data", f"{'base:' * (nets + 1)}h"]}}
    return {"class": "subnetwork", "from": source, "subnetwork": inner}


def _beside(source):
    """Masks k0, k1, k2, and a layer h."""
    out = {"h": {**RNN, "from": source, "initial_output": 0.25}}
    for number in range(3):
        out[f"g{number}"] = {**RNN, "activation": None, "from": source}
        out[f"s{number}"] = {"class": "reduce", "mode": "sum", "axis": "F", "from": f"g{number}"}
        out[f"k{number}"] = {"class": "compare", "kind": "greater", "from": f"s{number}", "value": -0.5}
    return out


def _values(w, index, path):
    """Of one sequence: the inputs, h, and the masks."""
    x = inputs()["data"][index, : LENGTHS["data"][index]]
    masks = [
        (x @ w[f"{path}g{k}/W"] + w[f"{path}g{k}/b"]).sum(-1) > -0.5 if f"{path}g{k}/W" in w else None for k in range(3)
    ]
    return x, np.tanh(x @ w[f"{path}h/W"] + w[f"{path}h/b"]) if f"{path}h/W" in w else None, masks


def _of_leaf(w, path):
    """W and b of the layer inside."""
    return [
        next((v for name, v in w.items() if name.startswith(path) and name.endswith(end)), None) for end in ("/W", "/b")
    ]


def _assert_equals(out, expected, *args):
    for index in range(3):
        np.testing.assert_allclose(of_sequence(out, index), expected(*args, index), rtol=1e-3, atol=1e-4)


# -- in loops --------------------------------------------------------------------------------------------------------------


def _leaves(units):
    """name -> (leaf, its value in a step: of the source, the value before, the inputs, h, the step and the parameters). Names are
    written with one base: for each network, or with more, one for each of the `units` around; the data of networks with one alone."""
    out = {
        "feedback": (
            lambda me, source, nets, in_unit: {**RNN, "from": [source, f"prev:{me}"], "initial_output": 0.5},
            lambda given, before, x, h, t, w, b: np.tanh(np.concatenate([given, before]) @ w + b),
        ),
        "all frames": (
            lambda me, source, nets, in_unit: {**MEAN, "from": "base:" * (nets + in_unit + 1) + "data"},
            lambda given, before, x, h, t, w, b: x.mean(0),
        ),
        "frame": (
            lambda me, source, nets, in_unit: {**ADD, "from": [source, "base:" * (nets + in_unit) + "data"]},
            lambda given, before, x, h, t, w, b: given + x[t],
        ),
    }  # fmt: skip
    meant = {
        "h": (0, lambda x, h, t: h[t]), "prev:h": (0, lambda x, h, t: h[t - 1] if t else np.full(4, 0.25)),
        "mean": (1, lambda x, h, t: x.mean(0)),
    }  # fmt: skip
    for (ref, (around, value)), more in itertools.product(meant.items(), range(units + 1)):
        out[f"{ref}, {more} more"] = (
            lambda me, source, nets, in_unit, ref=ref, far=around + more: {**ADD, "from": [source, "base:" * (nets + far) + ref]},
            lambda given, before, x, h, t, w, b, value=value: given + value(x, h, t),
        )  # fmt: skip
    return out


def _in_steps(word, value, first, w, index):
    x, h, masks = _values(w, index, "output/rec/")
    parameters = _of_leaf(w, "output/rec/output")

    def start(word):
        """The output before the first step, and the states."""
        if not word:
            return first, first
        output, state = start(word[1:])
        return (np.zeros(4) if word[0] == "A" else output), ((output, state) if word[0] == "M" else state)

    def step(word, given, state, t, number):
        if not word:
            out = value(given, state, x, h, t, *parameters)
            return out, out
        if word[0] == "M":  # its state is what comes out and the states inside
            state = step(word[1:], given, state[1], t, number + 1) if masks[number][t] else state
            return state[0], state
        out, state = step(word[1:], given * given if word[0] == "A" else given, state, t, number)
        return (out + given + h[t] if word[0] == "A" else out), state

    state, outs = start(word)[1], []
    for t in range(len(x)):
        out, state = step(word, x[t], state, t, 0)
        outs.append(out)
    return np.array(outs)


@pytest.mark.parametrize("word", WORDS)
def test_steps_of_a_nest_are_as_numpy_computes_them(word):
    for number, (name, (leaf, value)) in enumerate(_leaves(word.count("M")).items()):
        body = {**_beside("data:source"), "output": _nest(word, leaf, source="data:source")}
        net = built({"mean": {**MEAN, "from": "data"}, **loop_of(body)}, form=FORMS[(number + len(word)) % 3])
        first = np.full(4, 0.5 if name == "feedback" else 0.0)
        _assert_equals(run(net)["output"], _in_steps, word, value, first, weights(net))


# -- on whole sequences ------------------------------------------------------------------------------------------------------

LOOP = loop_of({"output": {**RNN, "from": ["data:source", "prev:output"]}})["output"]
WHOLE_LEAVES = {
    "h": lambda me, source, nets, in_unit: {**ADD, "from": [source, "base:" * nets + "h"]},
    "one more": lambda me, source, nets, in_unit: {**ADD, "from": [source, "base:" * (nets + in_unit) + "h"]},
    "data": lambda me, source, nets, in_unit: {**ADD, "from": [source, "base:" * (nets + in_unit) + "data"]},
    "loop": lambda me, source, nets, in_unit: {**LOOP, "from": source},
}


def _on_frames(word, leaf, w, packed_before, index):
    x, h, masks = _values(w, index, "")
    matrix, bias = _of_leaf(w, "output/")

    def go(word, given, frames, number):
        if not word and leaf == "loop":
            outs, before = [], np.zeros(4)
            for frame in given:
                outs.append(before := np.tanh(np.concatenate([frame, before]) @ matrix + bias))
            return np.reshape(outs, (len(given), 4))
        if not word:
            return given + (x if leaf == "data" else h)[frames]
        if word[0] == "M":
            keep = masks[number][frames]
            given = 3 * x if packed_before and number == 0 else given
            return go(word[1:], given[keep], frames[keep], number + 1)
        out = go(word[1:], given * given if word[0] == "A" else given, frames, number)
        return out + given + h[frames] if word[0] == "A" else out

    return go(word, x, np.arange(len(x)), 0)


@pytest.mark.parametrize("packed_before", [False, True])
@pytest.mark.parametrize("word", WHOLE_WORDS)
def test_frames_of_a_nest_are_as_numpy_computes_them(word, packed_before):
    triple = {"class": "eval", "eval": "source(0) * 3.0", "from": "data"}
    dims = {"in_spatial_dim": DIMS[0], "out_spatial_dim": DIMS[1]}
    before = {"class": "masked_computation", "mask": "k0", "from": "data", "unit": triple, **dims}
    for number, (name, leaf) in enumerate(WHOLE_LEAVES.items()):
        net = {**_beside("data"), "before": before, "output": _nest(word, leaf, whole=True)}
        if packed_before:
            where = net["output"]
            while where["class"] != "masked_computation":
                where = where["subnetwork"]["output"]
            where["masked_from"] = "base:" * word.index("M") + "before"
        net = built(net, form=FORMS[number % 3], extern=EXTERN)
        _assert_equals(run(net)["output"], _on_frames, word, name, weights(net), packed_before)


# -- before the first frame ----------------------------------------------------------------------------------------------------

UNITS = {
    "lstm": {"class": "rec", "unit": "nativelstm2", "initial_state": "ones", "n_out": 4, "from": "data"},
    **{f"linear, {kind}": {**RNN, "from": "data", "initial_output": kind} for kind in (2.0, "var", "apply(0)")},
}


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("word", ["M", "MM", "MS", "SM", "MSM", "MMS", "MMM"])
def test_a_nest_that_is_unmasked_is_that_of_the_steps_of_a_loop(word, name):
    """Up to the first frame that is not skipped, too."""
    leaf, count = lambda me, source, nets, in_unit: UNITS[name], word.count("M")
    packed, out = {}, "nest"
    for number in range(count):  # each mask as the nest around it packs it
        inner = lambda me, source, nets, in_unit: {"class": "copy", "from": source}  # noqa: E731
        packed[f"mask{number}"] = _nest("M" * number, inner, source=f"k{number}", whole=True)
    whole = {**_beside("data"), **packed, "nest": _nest(word, leaf, "nest", whole=True)}
    for number in reversed(range(count)):
        here = f"unmasked{number}" if number else "output"
        whole[here], out = {"class": "unmask", "from": out, "mask": f"mask{number}"}, here
    body = {**_beside("data:source"), "nest": _nest(word, leaf, "nest", source="data:source")}
    body["output"] = {"class": "copy", "from": "nest"}
    whole, steps = built(whole, extern=EXTERN), built(loop_of(body), extern=EXTERN, form=FORMS[len(word) % 3])
    steps.set_parameters({f"output/rec/{path}": value for path, value in whole.parameters_by_path().items()})
    expected = run(whole)["output"]
    _assert_equals(run(steps)["output"], of_sequence, expected)
