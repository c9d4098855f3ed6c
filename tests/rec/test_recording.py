"""`with loop:` gives what `for _ in loop:` gives, whatever it moves out of the loop."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, randn, tensor
from loop_faces import run_steps
from processes import run_in_processes

import rfnb as rf
from rfnb import Dim
from rfnb.rec.step_tensor import RecordingError
from rfnb.trace.probe import trace_context

BATCH, FEAT, HIDDEN = Dim(3, name="batch"), Dim(5, name="feat"), Dim(4, name="hidden")
TIME = ragged([4, 2, 3], BATCH)
SOURCE = ragged([3, 5, 2], BATCH, "source")


def run(body, face, states, **options):
    """Run `body(loop)` in one face: (what it gave, final states, loop)."""
    loop = rf.Loop(optimize_move_layers_out=face == "with", **options)
    for name, value in states.items():
        loop.state[name] = value
    result = run_steps(loop, face, lambda: body(loop))
    return result, dict(loop.state.items()), loop


def assert_faces_agree(body, states, **options):
    """Outputs and final states of all faces are those of the `for` face; returns the loop that moved ops out."""
    expected, last, loop = run(body, "for", states, **options)
    for face in ("with, nothing moved", "with"):
        got, states_now, other = run(body, face, states, **options)
        assert_same(_renamed(got, other.axis, loop.axis), expected)
        assert_same(list(states_now.values()), list(last.values()))
    return other


def _renamed(values, old, new):
    values = values if isinstance(values, tuple) else (values,)
    if old is new:
        return values if len(values) > 1 else values[0]
    np.testing.assert_array_equal(old.lengths, new.lengths)
    out = tuple(rf.replace_dim(x, in_dim=old, out_dim=new)[0] for x in values)
    return out if len(out) > 1 else out[0]


def names(nodes):
    return [node.name for node in nodes]


def test_a_recurrence_over_frames():
    x, weight, recurrent = randn(BATCH, TIME, FEAT), randn(FEAT, HIDDEN, seed=1), randn(HIDDEN, HIDDEN2, seed=2)

    def body(loop):
        a = rf.matmul(loop.unstack(x), weight, reduce=FEAT)
        b, _ = rf.replace_dim(rf.matmul(loop.state.h, recurrent, reduce=HIDDEN), in_dim=HIDDEN2, out_dim=HIDDEN)
        loop.state.h = rf.tanh(a + b)
        return loop.stack(rf.exp(loop.state.h))

    loop = assert_faces_agree(body, {"h": rf.zeros([BATCH, HIDDEN])}, axis=TIME)
    assert names(loop.plan.before) == ["matmul"]
    assert names(loop.plan.inside) == ["matmul", "replace_dim", "add", "tanh"]
    assert names(loop.plan.after) == ["exp"]


HIDDEN2 = Dim(4, name="hidden2")


def test_values_after_the_loop_may_use_frames_the_index_and_the_state_before():
    x = randn(TIME, BATCH, HIDDEN)

    def body(loop):
        before = loop.state.h
        frame = loop.unstack(x)
        loop.state.h = before * 0.5 + frame
        return (
            loop.stack(before * frame),
            loop.stack(loop.iter_idx + frame),
            loop.stack(frame),
            loop.stack(rf.cast(loop.iter_idx, "float32")),
        )

    loop = assert_faces_agree(body, {"h": rf.ones([BATCH, HIDDEN])}, axis=TIME)
    assert names(loop.plan.inside) == ["mul", "add"]


def test_nothing_moves_when_told_so():
    x = randn(TIME, BATCH, HIDDEN)

    def body(loop):
        loop.state.h = loop.state.h + rf.tanh(loop.unstack(x))
        return loop.stack(rf.exp(loop.state.h))

    loop = run(body, "with, nothing moved", {"h": rf.zeros([BATCH, HIDDEN])}, axis=TIME)[2]
    assert (names(loop.plan.before), names(loop.plan.after)) == ([], [])
    assert names(loop.plan.inside) == ["tanh", "add", "exp"]


@pytest.mark.parametrize("include_eos", [True, False])
@pytest.mark.parametrize("limit", [6, 3])
def test_a_loop_until_all_have_ended(include_eos, limit):
    first = tensor([1.0, 2.5, 0.2], BATCH)

    def body(loop):
        loop.state.x = loop.state.x + 0.75
        loop.end(loop.state.x > 3, include_eos=include_eos)
        return loop.stack(rf.square(loop.state.x) + first)

    assert_faces_agree(body, {"x": first}, max_seq_len=limit)


def test_a_state_with_parts():
    x = randn(TIME, BATCH, HIDDEN)

    def body(loop):
        state = loop.state.lstm
        c = state["c"] + loop.unstack(x)
        loop.state.lstm = {"c": c, "deep": [rf.tanh(c), state["deep"][0]]}
        return loop.stack(state["deep"][1])

    zero = rf.zeros([BATCH, HIDDEN])
    assert_faces_agree(body, {"lstm": {"c": zero, "deep": [zero, zero]}}, axis=TIME)


def test_history_that_grows():
    x = randn(TIME, BATCH, HIDDEN)
    start = Dim(0, name="history")

    def body(loop):
        keys, axis = rf.cum_concat_step(loop.unstack(x), prev_accum=loop.state.keys_, axis=loop.state.axis)
        loop.state.keys_, loop.state.axis = keys, axis
        weights = rf.softmax(rf.matmul(loop.unstack(x), keys, reduce=HIDDEN), axis=axis)
        return loop.stack(rf.exp(rf.matmul(weights, keys, reduce=axis)))

    expected, _, _ = run(body, "for", {"keys_": rf.zeros([BATCH, start, HIDDEN]), "axis": start}, axis=TIME)
    for face in ("with", "with, nothing moved"):
        got, states, _ = run(body, face, {"keys_": rf.zeros([BATCH, start, HIDDEN]), "axis": start}, axis=TIME)
        assert_same(got, expected)
        assert states["axis"].extent == 4


def test_self_attention_step_by_step():
    rf.set_random_seed(1)
    attention = rf.CausalSelfAttention(
        HIDDEN, HIDDEN, key_dim_total=Dim(6, name="keys"), value_dim_total=Dim(4, name="values"), num_heads=2
    )
    x = randn(TIME, BATCH, HIDDEN)

    def body(loop):
        y, loop.state.att = attention(loop.unstack(x), rf.single_step_dim, state=loop.state.att)
        return loop.stack(y)

    got, _, _ = run(body, "with", {"att": attention.default_initial_state(batch_dims=[BATCH])}, axis=TIME)
    expected, _ = attention(x, TIME)
    assert_same(got, expected)


def test_lstm_step_by_step():
    rf.set_random_seed(1)
    lstm = rf.LSTM(FEAT, HIDDEN)
    x = randn(BATCH, TIME, FEAT)

    def body(loop):
        y, loop.state.lstm = lstm(loop.unstack(x), state=loop.state.lstm, spatial_dim=rf.single_step_dim)
        return loop.stack(y)

    start = lstm.default_initial_state(batch_dims=[BATCH])
    got, states, _ = run(body, "with", {"lstm": start}, axis=TIME)
    expected, last = lstm(x, state=start, spatial_dim=TIME)
    assert_same(got, expected)
    assert_same(states["lstm"]["c"], last.c)


def test_gradients_are_those_of_the_steps():
    def gradients(face):
        x, weight = randn(BATCH, TIME, FEAT), randn(FEAT, HIDDEN, seed=1)
        for leaf in (x, weight):
            rf.set_requires_gradient(leaf)

        def body(loop):
            loop.state.h = rf.tanh(rf.matmul(loop.unstack(x), weight, reduce=FEAT) + loop.state.h * 0.3)
            return loop.stack(rf.square(loop.state.h))

        out, _, _ = run(body, face, {"h": rf.zeros([BATCH, HIDDEN])}, axis=TIME)
        rf.reduce_sum(out, axis=out.dims).raw_tensor.backward()
        return [leaf.raw_tensor.grad for leaf in (x, weight)]

    for got, expected in zip(gradients("with"), gradients("for"), strict=True):
        torch.testing.assert_close(got, expected)


def test_gradients_stay_off_where_the_body_switched_them_off():
    x = randn(BATCH, TIME, HIDDEN)
    rf.set_requires_gradient(x)

    def body(loop):
        with rf.stop_gradient_scope():
            fixed = rf.exp(loop.unstack(x))
        loop.state.h = loop.state.h + fixed * loop.unstack(x)
        return loop.stack(loop.state.h)

    out, _, _ = run(body, "with", {"h": rf.zeros([BATCH, HIDDEN])}, axis=TIME)
    rf.reduce_sum(out, axis=out.dims).raw_tensor.backward()
    got = x.raw_tensor.grad.clone()
    x.raw_tensor.grad = None
    out, _, _ = run(body, "for", {"h": rf.zeros([BATCH, HIDDEN])}, axis=TIME)
    rf.reduce_sum(out, axis=out.dims).raw_tensor.backward()
    torch.testing.assert_close(got, x.raw_tensor.grad)


def test_every_step_draws_its_own_random_numbers():
    def body(loop):
        loop.state.h = loop.state.h + rf.random_normal([BATCH])
        return loop.stack(rf.random_uniform([BATCH])), loop.stack(loop.state.h)

    outputs = []
    for face in ("for", "with"):
        rf.set_random_seed(5)
        outputs.append(run(body, face, {"h": rf.zeros([BATCH])}, axis=Dim(4, name="steps"))[0])
    (a, b), (c, d) = outputs
    np.testing.assert_array_equal(a.numpy(), c.numpy())
    np.testing.assert_array_equal(b.numpy(), d.numpy())
    assert len(np.unique(c.numpy())) == c.numpy().size


def test_a_loop_inside_a_recorded_loop():
    inner = Dim(2, name="inner")
    x = randn(BATCH, TIME, inner)

    def body(loop):
        frame = loop.unstack(x)
        loop_in = rf.Loop(axis=inner)
        loop_in.state.total = loop.state.total
        for _ in loop_in:
            loop_in.state.total = rf.tanh(loop_in.state.total + loop_in.unstack(frame))
        loop.state.total = loop_in.state.total
        return loop.stack(loop.state.total)

    assert_faces_agree(body, {"total": rf.zeros([BATCH])}, axis=TIME)


def test_a_recorded_loop_inside_a_recorded_loop():
    inner = Dim(2, name="inner")
    x = randn(BATCH, TIME, inner)

    def body(loop):
        frame = loop.unstack(x)
        loop_in = rf.Loop(axis=inner)
        loop_in.state.total = loop.state.total
        with loop_in:
            loop_in.state.total = rf.tanh(loop_in.state.total + loop_in.unstack(frame))
            out = loop_in.stack(rf.exp(loop_in.state.total))
        loop.state.total = loop_in.state.total
        return loop.stack(rf.reduce_sum(out, axis=inner))

    assert_faces_agree(body, {"total": rf.zeros([BATCH])}, axis=TIME)


def test_last_values_and_constants():
    x = randn(BATCH, TIME, FEAT)

    def body(loop):
        loop.state.h = loop.state.h + loop.unstack(x)
        return loop.last(rf.exp(loop.state.h)), loop.stack(rf.ones([BATCH]))

    assert_faces_agree(body, {"h": rf.zeros([BATCH, FEAT])}, axis=TIME)


def test_no_steps_at_all():
    empty = ragged([0, 0, 0], BATCH)
    x = randn(BATCH, empty, FEAT)

    def body(loop):
        loop.state.h = loop.state.h + loop.unstack(x)
        return loop.stack(rf.exp(loop.state.h))

    out, states, _ = run(body, "with", {"h": rf.ones([BATCH, FEAT])}, axis=empty)
    assert out.dims[0] is empty and out.raw_tensor.shape[0] == 0
    assert_same(states["h"], rf.ones([BATCH, FEAT]))


def test_a_loop_of_at_most_no_steps_makes_none():
    loop = rf.Loop(max_seq_len=0)
    loop.state.count = rf.zeros([BATCH])
    with loop:
        loop.state.count = loop.state.count + 1
        loop.end(loop.state.count > 3, include_eos=True)
        out = loop.stack(loop.state.count)
    assert loop.num_steps == 0 and loop.axis.extent == 0
    assert out.raw_tensor.shape == (0, 3)
    assert loop.state.count.numpy().tolist() == [0, 0, 0]


def test_a_search_without_steps_has_scores_of_0_under_the_beam_of_its_results():
    labels = Dim(5, name="labels")
    scores = rf.log_softmax(randn(BATCH, labels), axis=labels)
    loop = rf.Loop(axis=Dim(0, name="none"))
    with loop:
        found = loop.stack(rf.choice(scores, axis=labels, beam_size=2))
    beam_scores = rf.get_beam_scores(found)
    assert set(beam_scores.dims) == set(found.dims) - {loop.axis}
    assert not beam_scores.numpy().any()
    assert rf.decide(found).dims == (loop.axis, BATCH)


def test_an_op_that_would_be_another_one_for_all_steps_stays():
    other = ragged([2, 2, 1], BATCH, name="other")
    x, y = randn(BATCH, TIME), randn(BATCH, other)

    def body(loop):
        frame = loop.unstack(x)
        return loop.stack(rf.reduce_sum(frame + y, axis=other)), loop.stack(rf.reduce_sum(frame, axis=BATCH))

    def clean(loop):
        outer, total = body(loop)
        return outer

    loop = assert_faces_agree(clean, {}, axis=TIME)
    assert "add" in names(loop.plan.inside)  # {time, batch} + {batch, other}: two ragged dims


def test_reading_a_value_in_python_is_refused():
    x = randn(BATCH, TIME, FEAT)
    loop = rf.Loop(axis=TIME)
    loop.state.h = rf.zeros([BATCH, FEAT])
    with pytest.raises(RecordingError, match="reads the values of a tensor of the step") as error, loop:
        loop.state.h = loop.state.h + loop.unstack(x)
        if loop.state.h.numpy().sum() > 0:
            pass
    assert re.search(r"test_recording.py:\d+ reads", str(error.value))
    assert "for _ in loop:" in str(error.value)


def test_an_error_in_the_body_comes_out_and_the_loop_is_over():
    loop = rf.Loop(axis=TIME)
    with pytest.raises(KeyError), loop:
        raise KeyError("mine")
    assert rf.relu(randn(BATCH)).dims == (BATCH,)  # nothing is recorded any more
    assert rf.Loop.current() is None


def test_a_plain_number_in_a_state_may_not_change():
    loop = rf.Loop(axis=TIME)
    loop.state.count = 0
    with pytest.raises(RecordingError, match="plain value that changes"), loop:
        loop.state.count = loop.state.count + 1
        loop.stack(loop.unstack(randn(BATCH, TIME)))
    assert rf.Loop.current() is None


def test_a_function_kept_under_another_name_is_recorded_too():
    activation = rf.tanh
    x = randn(BATCH, TIME)

    def body(loop):
        loop.state.h = activation(loop.state.h + loop.unstack(x))
        return loop.stack(loop.state.h)

    assert_faces_agree(body, {"h": rf.zeros([BATCH])}, axis=TIME)


def attention_loop(face):
    """Attention whose context is fed back (inside), and one of which only the outputs know (after); traced."""
    encoder, x = randn(BATCH, SOURCE, HIDDEN, seed=3), randn(BATCH, TIME, HIDDEN)

    def attend(name, query):
        with trace_context.scope(name):
            return rf.dot_attention(query, encoder, encoder, key_dim=HIDDEN, axis=SOURCE)

    def body(loop):
        loop.state.h = rf.tanh(loop.unstack(x) + attend("inside", loop.state.h))
        rf.probe("mine", value=loop.state.h)
        return loop.stack(attend("after", loop.state.h)), loop.stack(attend("before", loop.unstack(x)))

    with rf.record() as trace:
        run(body, face, {"h": rf.zeros([BATCH, HIDDEN])}, axis=TIME, name="decoder")
    return trace


def test_a_trace_has_the_same_values_wherever_the_ops_ran():
    expected, got = attention_loop("for"), attention_loop("with")
    for part in ("inside", "after", "before"):
        path = f"decoder.{part}"
        assert_same(got.attention[path], expected.attention[path])
    assert_same(got.states["decoder"]["h"], expected.states["decoder"]["h"])
    mine = [event.values["value"] for event in got.select(kind="mine")]
    assert [event.step for event in got.select(kind="mine")] == [0, 1, 2, 3]
    for a, b in zip(mine, [event.values["value"] for event in expected.select(kind="mine")], strict=True):
        assert_same(a, b)


def planned_loop():
    x = randn(BATCH, TIME, FEAT)
    x.name = "x"
    weight = randn(FEAT, HIDDEN, seed=1)
    loop = rf.Loop(axis=TIME, name="decoder")
    loop.state.h = rf.zeros([BATCH, HIDDEN])
    with loop:
        loop.state.h = rf.tanh(rf.matmul(loop.unstack(x), weight, reduce=FEAT) + loop.state.h)
        loop.stack(rf.softmax(loop.state.h, axis=HIDDEN))
    return loop


def test_the_plan_as_text():
    lines = re.sub(r"test_recording.py:\d+", "HERE", str(planned_loop().plan)).splitlines()
    assert lines == [
        'Loop "decoder" over time<=4',
        "before: once, on all frames",
        "  #1  matmul   [batch=3, time<=4, hidden=4]  from frame of x   HERE",
        "inside: in every step",
        "  #2  add      [batch=3, hidden=4]           from #1, state.h  HERE",
        "  #3  tanh     [batch=3, hidden=4]           from #2           HERE",
        "after: once, on all steps",
        "  #4  softmax  [time<=4, batch=3, hidden=4]  from #3           HERE",
    ]


def test_the_plan_as_a_graph():
    source = planned_loop().plan.graphviz()
    for part in ("cluster_before", "op1 -> op2", "op2 -> op3", "op3 -> op4", 'op3 -> "next h"', 'op4 -> "stack 0"'):
        assert part in source, source
    assert source.count("{") == source.count("}")


def test_an_op_that_is_another_one_for_all_steps_with_other_arguments_of_the_same_body():
    feat = Dim(2, name="feat")
    x = randn(BATCH, TIME, feat)

    def body(loop, axis):
        loop.state.h = loop.state.h + loop.unstack(x)
        return loop.stack(rf.reduce_sum(loop.state.h, axis=axis))

    places = []
    for axis in (feat, BATCH, BATCH, feat):  # what lengths are over is reduced in each step
        loop = assert_faces_agree(lambda loop, axis=axis: body(loop, axis), {"h": rf.zeros([BATCH, feat])}, axis=TIME)
        places.append([where for where, nodes in loop.plan.places() if "reduce_sum" in names(nodes)])
    assert places == [["after"], ["inside"], ["inside"], ["after"]]


@pytest.mark.parametrize(
    "call",
    [
        "rf.choice(rf.log_softmax(loop.unstack(x), axis=feat), axis=feat, beam_size=2)",
        "rf.dropout(loop.unstack(x), 0.5, axis=feat)",
        "rf.top_k_mask(loop.unstack(x), axis=feat, k=1)",
        "rf.LayerNorm(feat)(loop.unstack(x))",
        "own_import(loop.unstack(x))",
        "rf.Backend.scaled_dot_product_attention(loop.unstack(x), x, x, qk_feat_dim=feat, kv_spatial_dim=time)",
    ],
)
def test_a_name_that_is_loaded_by_its_first_use_in_a_recorded_loop(tmp_path, call):
    script = tmp_path / "first_use.py"
    script.write_text(f"""
import rfnb as rf
batch, time, feat = (rf.Dim(size, name=name) for size, name in ((2, "batch"), (3, "time"), (4, "feat")))
x = rf.random_normal([batch, time, feat])
def own_import(x):
    from rfnb.ops.top_mask import top_k_mask
    from rfnb.nn.normalization import LayerNorm
    return rf.where(top_k_mask(x, axis=feat, k=2), LayerNorm(feat)(x), 0.0)
def of_all_steps():
    loop = rf.Loop(axis=time)
    with loop:
        out = loop.stack({call})
    return out, loop
first, loop = of_all_steps()
again, _ = of_all_steps()
def refused():
    try:
        rf.top_k_mask(x, axis=3, k=1)
    except rf.DimError as error:
        return "is not a Dim" in str(error)
print(first.dims[0] is time, [dim.name for dim in first.dims] == [dim.name for dim in again.dims], loop.num_steps, refused())
""")
    assert run_in_processes(1, script).split() == ["True", "True", "3", "True"]
