"""The order of the dims of a Tensor means nothing: each view is the same for all orders, and what is open is refused."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

import rfnb as rf
from rfnb.core.errors import DimError
from rfnb.core.tensor import Tensor
from rfnb.viz.group.spec import parts_of
from rfnb.viz.show import view_of
from rfnb.viz.spec import Spec, to_json


def orders(tensor: Tensor) -> list[Tensor]:
    """The same values in all orders of the dims, made anew, so that nobody can know where they came from."""
    raw = np.asarray(tensor.raw_tensor)
    axes = range(len(tensor.dims))
    return [
        Tensor(tensor.name, [tensor.dims[axis] for axis in order], raw_tensor=raw.transpose(order).copy())
        for order in itertools.permutations(axes)
    ]


def randn(*dims: rf.Dim) -> Tensor:
    shape = [dim.extent for dim in dims]
    return Tensor("x", dims, raw_tensor=np.random.default_rng(1).normal(size=shape).astype(np.float32))


def batch_time() -> tuple[rf.Dim, rf.Dim]:
    batch = rf.Dim(3, name="words", kind=None)  # known as the batch by the lengths that are over it
    return batch, rf.ragged_dim([5, 4, 2], over=batch, name="time")


def same(specs: list[Spec]) -> None:
    first = to_json(specs[0])
    for other in specs[1:]:
        assert to_json(other) == first


@pytest.mark.parametrize(
    "names", [["target", "time"], ["rows", "time"], ["head", "target", "time"], ["layer", "head", "query", "time"]]
)
def test_attention(names):
    batch, time = batch_time()
    sizes = {"target": 4, "rows": 4, "query": 4, "head": 2, "layer": 6}
    dims = [time if name == "time" else rf.Dim(sizes[name], name=name) for name in names]
    options = {"source_dim": time} if "rows" in names else {}
    specs = [rf.viz.attention(w, **options).spec for w in orders(randn(batch, *dims))]
    same(specs)
    [entry] = {(entry["row_dim"]["name"], entry["col_dim"]["name"]) for entry in specs[0].head["maps"]}
    assert entry == (names[-2], "time") and len(specs[0].head["seqs"]) == 3
    assert [seq["col_len"] for seq in specs[0].head["seqs"]] == [5, 4, 2]


def test_attention_over_a_twin():
    batch, time = batch_time()
    twin = time.copy(match_priority=1)
    specs = [rf.viz.attention(w).spec for w in orders(randn(batch, rf.Dim(2, name="head"), time, twin))]
    same(specs)
    weights = randn(batch, time, twin)
    expected = np.asarray(weights.raw_tensor)
    assert np.array_equal(rf.viz.attention(weights).spec.blocks["map0"][0], expected[0]), (
        "rows are the dim, columns its twin"
    )


@pytest.mark.parametrize("feature", [None, "feature"])
def test_states(feature):
    batch, time = batch_time()
    unit, head = rf.Dim(7, name="unit", kind=feature), rf.Dim(2, name="head")
    same([rf.viz.states({"h": h}, step_dim="time").spec for h in orders(randn(batch, time, head, unit))])
    same([rf.viz.states(h).spec for h in orders(randn(batch, time, unit))])
    step = rf.Dim(6, name="step")
    same([rf.viz.states(h).spec for h in orders(randn(rf.Dim(2, name="batch"), rf.Dim(3, name="beam"), step, unit))])


def test_beams():
    batch, beam, cand = rf.Dim(2, name="batch"), rf.Dim(3, name="beam"), rf.Dim(4, name="candidate")
    rng = np.random.default_rng(1)
    sizes = {
        "tokens": beam,
        "parents": beam,
        "scores": beam,
        "cand_tokens": cand,
        "cand_parents": cand,
        "cand_scores": cand,
    }
    arrays = {
        name: -rng.random((2, dim.size), dtype=np.float32)
        if "scores" in name
        else rng.integers(0, 3, (2, dim.size)).astype(np.int32)
        for name, dim in sizes.items()
    }
    plain = rf.viz.beams([arrays, arrays]).spec
    for order in itertools.product([False, True], repeat=2):
        turned = dict(zip((beam, cand), order))
        step = {
            name: Tensor(name, [sizes[name], batch], raw_tensor=array.T.copy())
            if turned[sizes[name]]
            else Tensor(name, [batch, sizes[name]], raw_tensor=array)
            for name, array in arrays.items()
        }
        same([plain, rf.viz.beams([step, step]).spec])


def test_beams_of_dims_that_say_nothing_are_refused():
    one, other = rf.Dim(2, name="a"), rf.Dim(3, name="b")
    tokens = Tensor("t", [one, other], raw_tensor=np.zeros((2, 3), np.int32))
    with pytest.raises(DimError) as caught:
        rf.viz.beams([{"tokens": tokens, "parents": tokens, "scores": tokens}])
    assert str(caught.value) == (
        "beams: step 0: the batch dim of tokens is ambiguous.\n"
        "  tokens  [a=2, b=3]\n"
        "The order of dims does not matter; a field has a dim of kind batch and one more, or a beam dim.\n"
        '    rf.Dim(3, name="batch"), rf.Dim(4, name="beam")'
    )


def test_dims_lists_them_in_the_order_of_the_array_and_says_the_same_of_each():
    batch, time = batch_time()
    unit = rf.Dim(7, name="unit")
    found = set()
    for x in orders(randn(batch, time, unit)):
        [row] = (spec := rf.viz.dims(x).spec).head["rows"]
        entries = {entry["id"]: entry for entry in spec.head["dims"]}
        assert [entries[number]["name"] for number in row["dims"]] == [dim.name for dim in x.dims]
        about = sorted(
            (entry["name"], entry["size"], str(entry["lengths"]), entry["kind"]) for entry in entries.values()
        )
        stats = {name: round(value, 5) for name, value in row["stats"].items()}
        found.add((str(about), str(stats), row["dtype"], row["bytes"]))
    assert len(found) == 1


def a_model(seed: int = 0) -> Any:
    """A recording of an encoder with self-attention and of a decoder, whose dims have names that say nothing."""
    rf.set_random_seed(1)
    batch, time = batch_time()
    vocab = rf.Dim(9, name="vocab", vocab=list("abcdefghi"))
    width, heads, steps = rf.Dim(6, name="width"), rf.Dim(2, name="h"), rf.Dim(4, name="t")
    ids = rf.convert_to_tensor(np.arange(15, dtype=np.int32).reshape(3, 5) % 9, dims=[batch, time], sparse_dim=vocab)
    embed = rf.Embedding(vocab, width)
    encoder = rf.SelfAttention(width, proj_dim=width, key_dim_total=rf.Dim(4), value_dim_total=rf.Dim(4), num_heads=2)
    query = rf.random_normal([batch, steps, heads, width])
    with rf.record() as trace:
        enc = encoder(embed(ids), axis=time)
        lstm = rf.LSTM(width, width)
        enc, _ = lstm(enc, spatial_dim=time, state=lstm.default_initial_state(batch_dims=[batch]))
        enc = enc * rf.random_normal([heads, width])
        loop = rf.Loop(axis=steps, name="decoder")
        loop.state.s = rf.zeros([batch, heads, width])
        for _ in loop:
            loop.state.s = loop.state.s + rf.dot_attention(loop.unstack(query), enc, enc, key_dim=width, axis=time)
        rf.dot_attention(query, enc, enc, key_dim=width, axis=time)  # all steps at once
    return trace


def turned(trace: Any, seed: int) -> Any:
    """The trace with the dims of all its Tensors in another order."""
    pick = random.Random(seed)
    for event in trace.events:
        if event.kind == "module":  # these list dims in their order
            continue
        values = dict(event.values)
        for name, value in values.items():
            if isinstance(value, Tensor):
                values[name] = pick.choice(orders(value))
                values[name].sparse_dim = value.sparse_dim
        event.values = values
    return trace


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_recording(seed):
    plain, other = view_of(a_model()).spec, view_of(turned(a_model(), seed)).spec
    parts = parts_of(plain)
    assert [part.kind for part in parts] == ["attention", "attention", "attention", "states", "states"]
    for part in parts[:3]:
        assert len(part.head["maps"]) == 2, "one per head"
        assert [seq["col_len"] for seq in part.head["seqs"]] == [5, 4, 2]
    plain.head["link"] = other.head["link"] = ""
    for one, two in zip(parts, parts_of(other)):
        assert to_json(Spec(one.kind, one.head)) == to_json(Spec(two.kind, two.head))
        assert all(np.allclose(one.blocks[name], two.blocks[name], atol=1e-6, equal_nan=True) for name in one.blocks)


def test_what_is_taken_from_a_recording_knows_its_axes_also_transposed():
    trace = a_model()
    for weights in [weights for path in trace.attention for weights in trace.attention.runs(path)]:
        expected = rf.viz.attention(weights).spec
        same(
            [
                expected,
                *(
                    rf.viz.attention(weights.copy_transpose(order)).spec
                    for order in itertools.permutations(weights.dims)
                ),
            ]
        )
        assert expected.head["maps"][0]["col_dim"]["name"] == "time"
    for tracks in (trace.states["decoder"], trace.states["lstm"]):
        for track in tracks.values():
            same([rf.viz.states(track.copy_transpose(order)).spec for order in itertools.permutations(track.dims)])


def test_attention_of_dims_that_say_nothing_is_refused():
    batch, time = batch_time()
    one, other = rf.Dim(4, name="a"), rf.Dim(6, name="b")
    with pytest.raises(DimError) as caught:
        rf.viz.attention(randn(batch, one, other, time))
    assert str(caught.value) == (
        "attention: which dim of the weights is attended over?\n"
        "  dims      [words=3, a=4, b=6, time<=5]\n"
        "  possible  a=4, b=6, time<=5\n"
        "The order of dims means nothing, and names and lengths do not decide. Name it:\n"
        '    rf.viz.attention(weights, source_dim="time")'
    )
    with pytest.raises(DimError) as caught:
        rf.viz.attention(randn(batch, one, other, time), source_dim="time")
    assert str(caught.value) == (
        "attention: which dim of the weights attends?\n"
        "  dims      [words=3, a=4, b=6, time<=5]\n"
        "  possible  a=4, b=6\n"
        "The order of dims means nothing, and names and lengths do not decide. Name it:\n"
        '    rf.viz.attention(weights, source_dim="time", target_dim="b")'
    )
    rf.viz.attention(randn(batch, one, other, time), source_dim="time", target_dim="b")


def test_states_of_dims_that_say_nothing_are_refused():
    with pytest.raises(DimError) as caught:
        rf.viz.states({"h": randn(rf.Dim(4, name="a"), rf.Dim(6, name="b"))})
    assert str(caught.value) == (
        'states, track "h": which dim runs over the steps?\n'
        "  dims      [a=4, b=6]\n"
        "  possible  a=4, b=6\n"
        "The order of dims means nothing, and names and lengths do not decide. Name it:\n"
        '    rf.viz.states(..., step_dim="a")'
    )


def test_a_recorded_attention_that_is_open_is_a_sentence_among_the_other_views():
    batch, time = batch_time()
    with rf.record() as trace:
        rf.probe("attention", weights=randn(batch, rf.Dim(4, name="a"), rf.Dim(6, name="b"), time), axis=time)
        rf.probe("attention", weights=randn(batch, rf.Dim(4, name="target"), time), axis=time)
    view = view_of(trace)
    text = view.text()
    assert "attention: which dim of the weights attends?" in text and "(rows: target, columns: time)" in text
    assert "which dim of the weights attends?" in view.html()


def test_a_plain_array_has_target_and_source_last():
    weights = np.random.default_rng(1).random((2, 3, 4, 5), dtype=np.float32)
    spec = rf.viz.attention(weights, dims=["a", "b", "c", "d"]).spec
    assert [(entry["row_dim"]["name"], entry["col_dim"]["name"]) for entry in spec.head["maps"]] == [("c", "d")] * 6
    spec = rf.viz.attention(weights, dims=["source", "b", "c", "target"]).spec
    assert spec.head["maps"][0]["row_dim"]["name"] == "target" and spec.head["maps"][0]["col_dim"]["name"] == "source"
