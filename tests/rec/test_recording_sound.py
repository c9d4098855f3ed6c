"""What the body of a recorded loop may do and may not: it gives what Python would give in every step, or an error says why not."""

from __future__ import annotations

import random
import threading
import types
from functools import partial

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, randn, tensor, using_backend
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim
from rfnb.rec.step_tensor import RecordingError

BATCH, HIDDEN = Dim(3, name="batch"), Dim(4, name="hidden")
TIME = ragged([4, 2, 3], BATCH)
STEPS = Dim(4, name="steps")


def run(body, face, states=None, axis=TIME, **options):
    loop = rf.Loop(axis=axis, name="decoder", **options)
    for name, value in ({"h": rf.zeros([BATCH, HIDDEN])} if states is None else states).items():
        loop.state[name] = value
    out = run_steps(loop, face, lambda: body(loop))
    return out, loop


def assert_faces_agree(body, states=None, axis=TIME, **options):
    """The outputs of both faces, with the same seed; returns those."""
    outputs = []
    for face in ("for", "with"):
        rf.set_random_seed(3)
        out, loop = run(body, face, states() if callable(states) else states, axis, **options)
        outputs.append(
            [*(out if isinstance(out, tuple) else (out,)), *loop.state.deep_tensors(), rf.random_uniform([BATCH])]
        )
    for got, expected in zip(outputs[1], outputs[0], strict=True):
        assert_same(got, expected, tolerance=1e-5)
    return outputs[0]


def refused(body, states=None, axis=TIME):
    """The message of the error with which a recorded loop refuses a body."""
    with pytest.raises(RecordingError) as error:
        run(body, "with", states, axis)
    assert rf.Loop.current() is None
    return str(error.value)


def frame(loop):
    return loop.unstack(randn(BATCH, TIME, HIDDEN))


# -- Python looks at what differs from step to step -----------------------------------------------------------------------
@pytest.mark.parametrize(
    "look",
    [
        lambda x: x.raw_tensor,
        lambda x: x.numpy(),
        lambda x: rf.cond(rf.reduce_all(x > 0, axis=x.dims), lambda: x, lambda: -x),
        lambda x: rf.while_loop(lambda s: rf.reduce_all(s < 9, axis=s.dims), lambda s: s + 1, x),
        lambda x: x.raw_tensor.add_(1),
        lambda x: setattr(x, "raw_tensor", torch.zeros(3, 4)),
        lambda x: torch.tanh(x.raw_tensor),
        lambda x: rf.convert_to_tensor(x.raw_tensor + 1, dims=x.dims),
    ],
    ids=range(8),
)
def test_values_are_not_for_python(look):
    def body(loop):
        loop.state.h = loop.state.h + frame(loop)
        look(loop.state.h)
        return loop.stack(loop.state.h)

    assert "the values of a tensor of the step" in refused(body)


@pytest.mark.parametrize("what", ["num_steps", "ended", "step_lengths"])
def test_the_step_as_a_number_is_not_for_python(what):
    def body(loop):
        loop.state.h = loop.state.h + (getattr(loop, what) or 0)

    assert refused(body) == (
        f'Loop "decoder", recorded step: loop.{what} is that of the first step.\n'
        "The body of `with loop:` runs once. The step as a tensor is loop.iter_idx; or let Python run every step:\n"
        "    for _ in loop:"
    )


def growing():
    start = Dim(0, name="history")
    return {"keys_": rf.zeros([BATCH, start, HIDDEN]), "axis": start}


@pytest.mark.parametrize(
    "look",
    [
        lambda dim: dim.size,
        lambda dim: dim.extent,
        lambda dim: dim.dimension,
        lambda dim: dim.lengths,
        lambda dim: dim.dyn_size_ext,
        lambda dim: dim.get_dim_value(),
        lambda dim: dim.is_static(),
        lambda dim: (dim + 1).size,
    ],
    ids=range(8),
)
@pytest.mark.parametrize("which", ["of the state", "of an op"])
def test_sizes_that_differ_are_not_for_python(look, which):
    x = randn(STEPS, BATCH, HIDDEN)

    def body(loop):
        keys, axis = rf.cum_concat_step(loop.unstack(x), prev_accum=loop.state.keys_, axis=loop.state.axis)
        look(axis if which == "of an op" else loop.state.axis)
        loop.state.keys_, loop.state.axis = keys, axis

    assert "of a dim that each step has another of" in refused(body, growing(), STEPS)


def test_a_size_that_differs_as_a_tensor():
    x = randn(STEPS, BATCH, HIDDEN)

    def body(loop):
        keys, axis = rf.cum_concat_step(loop.unstack(x), prev_accum=loop.state.keys_, axis=loop.state.axis)
        loop.state.keys_, loop.state.axis = keys, axis
        size = rf.cast(axis.get_size_tensor(), "float32")
        return loop.stack(rf.reduce_sum(keys, axis=axis) / size), loop.stack(rf.range_over_dim(axis))

    outputs = [run(body, face, growing(), STEPS)[0] for face in ("for", "with")]
    for mean, positions in outputs:
        assert_same(mean, outputs[0][0])
        np.testing.assert_array_equal(positions.numpy(), [[0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 2, 0], [0, 1, 2, 3]])
        np.testing.assert_array_equal(positions.dims[1].lengths, [1, 2, 3, 4])


# -- dims that an op of the step makes -------------------------------------------------------------------------------------
def test_a_dim_whose_size_depends_on_the_values():
    x = randn(STEPS, BATCH, HIDDEN)

    def body(loop):
        frame = loop.unstack(x)
        picked, dim = rf.masked_select(frame, mask=frame > 0, dims=[BATCH, HIDDEN])
        count = rf.reduce_sum(rf.ones([dim]), axis=dim)
        place = rf.reduce_sum(picked * rf.range_over_dim(dim, dtype="float32"), axis=dim)
        loop.state.total = loop.state.total + rf.reduce_sum(picked, axis=dim)
        return loop.stack(count), loop.stack(place), loop.stack(loop.state.total)

    outputs = assert_faces_agree(body, {"total": rf.zeros([])}, STEPS)
    assert len(set(outputs[0].numpy().tolist())) > 1


def test_a_dim_that_the_body_makes_for_an_op():
    x = randn(STEPS, BATCH, HIDDEN)

    def body(loop):
        frame, dim = loop.unstack(x), Dim(None, name="picked")
        picked, _ = rf.masked_select(frame, mask=frame > 0, dims=[BATCH, HIDDEN], out_dim=dim)
        loop.state.total = loop.state.total + rf.reduce_sum(picked, axis=dim)
        return loop.stack(rf.reduce_mean(picked, axis=dim))

    assert_faces_agree(body, {"total": rf.zeros([])}, STEPS)


def test_the_best_and_their_dim():
    x = randn(STEPS, BATCH, HIDDEN)

    def body(loop):
        values, _, best = rf.top_k(loop.unstack(x), axis=HIDDEN, k=2)
        return loop.stack(rf.reduce_sum(values, axis=best)), loop.stack(values)

    run_for, _ = run(body, "for", {}, STEPS)
    run_with, _ = run(body, "with", {}, STEPS)
    assert_same(run_with[0], run_for[0])
    np.testing.assert_array_equal(run_with[1].numpy(), run_for[1].numpy())


# -- what changes something for good ---------------------------------------------------------------------------------------
def parameters_changed(loop, change):
    parameter = rf.Parameter([HIDDEN])
    loop.state.h = loop.state.h + parameter
    change(parameter)
    return loop.stack(loop.state.h)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda p: p.assign(1.0), "Parameter.assign"),
        (lambda p: p.assign_add(1.0), "Parameter.assign_add"),
        (lambda p: p.assign_key(HIDDEN, 0, None, 1.0), "Parameter.assign_key"),
        (lambda p: rf.set_random_seed(1), "set_random_seed"),
        (lambda p: rf.set_random_state(rf.get_random_state()), "set_random_state"),
        (rf.set_requires_gradient, "set_requires_gradient"),
    ],
)
def test_changes_for_good_are_refused(change, name):
    parameter = rf.Parameter([HIDDEN])

    def body(loop):
        loop.state.h = loop.state.h + parameter
        change(parameter)

    text = refused(body)
    assert "changes something for good" in text and f"call  {name}\n" in text


@pytest.mark.parametrize("layer", [rf.BatchNorm, lambda dim: rf.RunningMean(dim, alpha=0.5)])
def test_running_statistics_in_training_are_refused(layer):
    module = layer(HIDDEN)

    def body(loop):
        loop.state.h = module(frame(loop)) + loop.state.h

    with rf.init_train_step_run_ctx():
        assert "call  Parameter.assign_add" in refused(body)


def test_batch_norm_outside_of_training_and_without_running_statistics():
    running, batch = rf.BatchNorm(HIDDEN), rf.BatchNorm(HIDDEN, track_running_stats=False)

    def body(loop):
        loop.state.h = running(loop.state.h + frame(loop))
        return loop.stack(batch(loop.state.h)), loop.stack(batch(frame(loop)))

    assert_faces_agree(body)


def test_a_loss_in_the_body_is_refused():
    def body(loop):
        loop.state.h = loop.state.h + frame(loop)
        rf.reduce_sum(loop.state.h, axis=HIDDEN).mark_as_loss("step")

    with rf.init_train_step_run_ctx():
        assert "call  RunCtx.mark_as_loss" in refused(body)


# -- random numbers --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "draw", [np.random.rand, random.random, lambda: float(torch.rand(()))], ids=["numpy", "random", "torch"]
)
def test_random_numbers_that_no_op_draws_are_refused(draw):
    def body(loop):
        loop.state.h = loop.state.h + draw()

    assert "random numbers that no op has drawn" in refused(body)


def test_dropout_draws_in_every_step():
    memory = randn(BATCH, ragged([3, 5, 2], BATCH, "source"), HIDDEN, seed=4)
    source = memory.dims[1]

    def body(loop):
        x = rf.dropout(frame(loop), 0.4)
        constant = rf.dropout(rf.ones([BATCH, HIDDEN]), 0.4, axis=HIDDEN)
        attended = rf.dot_attention(x, memory, memory, key_dim=HIDDEN, axis=source, att_dropout=0.3)
        loop.state.h = rf.dropout(loop.state.h, 0.2, on_forward=True) + x
        return loop.stack(attended), loop.stack(loop.state.h * constant), loop.last(x)

    with rf.init_train_step_run_ctx():
        first, *_ = assert_faces_agree(body)
        quiet = run(body, "for")[0][0]
    assert not np.allclose(first.numpy(), quiet.numpy())


def test_a_layer_with_dropout_of_constants_draws_in_every_step():
    memory = randn(BATCH, ragged([3, 5, 2], BATCH, "source"), HIDDEN, seed=4)

    def body(loop):
        out = rf.dot_attention(memory, memory, memory, key_dim=HIDDEN, axis=memory.dims[1], att_dropout=0.5)
        loop.state.h = loop.state.h + frame(loop)
        return loop.stack(rf.reduce_sum(out, axis=memory.dims[1]))

    with rf.init_train_step_run_ctx():
        assert_faces_agree(body)


def test_a_loop_without_steps_draws_nothing():
    empty = ragged([0, 0, 0], BATCH)

    def body(loop):
        loop.state.h = loop.state.h + rf.random_normal([BATCH, HIDDEN])

    draws = []
    for face in ("for", "with"):
        rf.set_random_seed(1)
        loop = rf.Loop(axis=empty)
        loop.state.h = rf.zeros([BATCH, HIDDEN])
        run_steps(loop, face, partial(body, loop))
        draws.append(rf.random_uniform([BATCH]).numpy())
    np.testing.assert_array_equal(*draws)


# -- modes of a part of the body -------------------------------------------------------------------------------------------
def test_training_in_a_part_of_the_body():
    def body(loop):
        with rf.get_run_ctx().train_flag_ctx(True):
            noisy = rf.dropout(frame(loop), 0.5)
        loop.state.h = rf.dropout(loop.state.h, 0.5) + noisy
        return loop.stack(loop.state.h)

    assert_faces_agree(body)


def test_mixed_precision_in_a_part_of_the_body():
    weight = randn(HIDDEN, Dim(6, name="out"), seed=2)

    def body(loop):
        with rf.set_amp_policy_ctx(rf.AmpPolicy("bfloat16")):
            low = rf.matmul(frame(loop), weight, reduce=HIDDEN)
            low_of_state = rf.matmul(loop.state.h, weight, reduce=HIDDEN)
        loop.state.h = loop.state.h + frame(loop)
        return loop.stack(rf.cast(low, "float32")), loop.stack(rf.cast(low_of_state, "float32"))

    low, *_ = assert_faces_agree(body)
    exact = rf.matmul(randn(BATCH, TIME, HIDDEN), weight, reduce=HIDDEN)
    assert abs(low.copy_masked(0).numpy().sum() - exact.copy_masked(0).numpy().sum()) > 1e-4


def test_gradients_in_scopes():
    def gradients(face):
        x, weight = randn(BATCH, TIME, HIDDEN), randn(HIDDEN, seed=5)
        rf.set_requires_gradient(weight)

        def body(loop):
            with rf.gradient_checkpoint_scope():
                inner = rf.tanh(loop.unstack(x) * weight)
            with rf.stop_gradient_scope():
                fixed = rf.tanh(loop.state.h * weight)
            loop.state.h = inner * fixed + rf.scaled_gradient(loop.state.h, 0.5) * weight + inner
            return loop.stack(loop.state.h)

        out, _ = run(body, face)
        rf.reduce_sum(out, axis=out.dims).raw_tensor.backward()
        return weight.raw_tensor.grad

    torch.testing.assert_close(gradients("with"), gradients("for"))


def test_with_poison_in_the_padding():
    weight = randn(HIDDEN, Dim(4, name="out"), seed=2)

    def body(loop):
        x = rf.matmul(frame(loop), weight, reduce=HIDDEN)
        loop.state.h = rf.tanh(loop.state.h + rf.replace_dim(x, in_dim=weight.dims[1], out_dim=HIDDEN)[0])
        return loop.stack(rf.softmax(loop.state.h, axis=HIDDEN))

    with rf.debug(padding="nan"):
        assert_faces_agree(body)


def test_on_the_numpy_backend():
    with using_backend("numpy"):

        def body(loop):
            loop.state.h = rf.tanh(loop.state.h + frame(loop))
            return loop.stack(rf.dropout(loop.state.h, 0.5, on_forward=True)), loop.last(loop.state.h)

        assert_faces_agree(body, lambda: {"h": rf.zeros([BATCH, HIDDEN])})


def test_two_threads_record_at_once():
    def body(loop):
        loop.state.h = rf.tanh(loop.state.h + frame(loop))
        return loop.stack(rf.exp(loop.state.h))

    expected, _ = run(body, "for")
    results, barrier = [], threading.Barrier(3)

    def work():
        barrier.wait()
        for _ in range(5):
            results.append(run(body, "with")[0])

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    barrier.wait()
    for _ in range(20):
        assert_same(rf.relu(expected), expected)  # a thread that records nothing sees nothing of it
    for thread in threads:
        thread.join()
    assert len(results) == 10
    for out in results:
        assert_same(out, expected)


# -- states ----------------------------------------------------------------------------------------------------------------
def test_two_states_with_the_same_initial_tensor():
    zero = rf.zeros([BATCH, HIDDEN])

    def body(loop):
        loop.state.a = loop.state.b + frame(loop)
        loop.state.b = loop.state.a * 0.5
        return loop.stack(loop.state.a - loop.state.b)

    assert_faces_agree(body, {"a": zero, "b": zero})


def test_a_state_changed_in_place_is_refused():
    def body(loop):
        loop.state.cell["h"] = loop.state.cell["h"] + frame(loop)
        cell = loop.state.cell
        cell["h"] = rf.tanh(cell["h"])

    cell = {"cell": rf.State(h=rf.zeros([BATCH, HIDDEN]))}
    text = refused(body, cell)
    assert text.startswith('Loop "decoder", recorded step: state "cell" was changed in place.\n  before  h StepTensor')
    assert text.endswith("The loop sees what is assigned. Assign a new value:\n    loop.state.cell = rf.State(...)")


def test_a_value_changed_after_it_was_assigned_is_refused():
    def body(loop):
        new = rf.State(h=loop.state.cell.h + frame(loop))
        loop.state.cell = new
        new.h = rf.tanh(new.h)

    assert "was changed in place" in refused(body, {"cell": rf.State(h=rf.zeros([BATCH, HIDDEN]))})


def test_a_list_that_an_op_got_may_change_afterwards():
    def body(loop):
        parts = [frame(loop), loop.state.h]
        two = rf.stack(parts, out_dim=Dim(2, name="two"))
        parts.append(loop.state.h)
        loop.state.h = rf.reduce_sum(two[0], axis=two[1])
        return loop.stack(loop.state.h)

    assert_faces_agree(body)


def test_a_tensor_array_in_the_state_is_refused():
    def body(loop):
        loop.state.array = loop.state.array.push_back(rf.cast(loop.iter_idx, "float32"))

    text = refused(body, {"array": rf.TensorArray(rf.zeros([], sparse_dim=TIME))})
    assert "plain value that changes" in text


def test_a_tensor_array_of_the_step():
    def body(loop):
        array = rf.TensorArray(loop.state.h).push_back(loop.state.h).push_back(frame(loop))
        loop.state.h = array[1]
        return loop.stack(rf.reduce_sum(array.stack(axis=TWO), axis=TWO))

    assert_faces_agree(body)


TWO = Dim(2, name="two")


def test_a_tensor_kept_from_a_recorded_step_cannot_be_used_afterwards():
    kept = types.SimpleNamespace(h=None)

    def body(loop):
        loop.state.h = loop.state.h + frame(loop)
        kept.h = loop.state.h
        return loop.stack(loop.state.h)

    run(body, "with")
    with pytest.raises(RecordingError, match="reads the values of a tensor of the step"):
        rf.tanh(kept.h)


def test_a_choice_of_python_that_holds_for_all_steps():
    def body(loop, deep=True):
        if deep:
            loop.state.h = loop.state.h + frame(loop)
        return loop.stack(loop.state.h), loop.stack(rf.cond(deep, lambda: loop.state.h * 2, lambda: loop.state.h))

    assert_faces_agree(body)
    assert_faces_agree(lambda loop: body(loop, deep=False))


# -- checks and effects ----------------------------------------------------------------------------------------------------
def test_a_check_is_done_in_every_step():
    x = tensor([[1.0, 1, 1, -1]] * 3, BATCH, STEPS)

    def body(loop):
        value = loop.unstack(x)
        rf.assert_(value > 0, "positive")
        return loop.stack(value)

    for face in ("for", "with"):
        with pytest.raises((AssertionError, RuntimeError), match="positive"):
            run(body, face, {}, STEPS)


def test_a_probe_of_constants_is_offered_in_every_step():
    def steps(face):
        with rf.record() as trace:
            run(lambda loop: rf.probe("mine", value=rf.ones([BATCH])), face, {}, STEPS)
        return [event.step for event in trace.select(kind="mine")]

    assert steps("with") == steps("for") == [0, 1, 2, 3]


def test_an_error_in_a_later_step_leaves_the_loop():
    x = tensor([[0, 1, 2, 9]] * 3, BATCH, STEPS, sparse_dim=HIDDEN)

    def body(loop):
        loop.state.h = loop.state.h + rf.gather(randn(HIDDEN), indices=loop.unstack(x), axis=HIDDEN)
        return loop.stack(loop.state.h)

    with pytest.raises((IndexError, RuntimeError)):
        run(body, "with", {"h": rf.zeros([BATCH])}, STEPS)
    assert rf.Loop.current() is None
    assert_faces_agree(lambda loop: loop.stack(frame(loop)))


# -- loops in loops --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("outer", ["for", "with"])
@pytest.mark.parametrize("inner", ["for", "with", "scan"])
def test_loops_in_loops(outer, inner):
    letters = ragged([2, 1, 3], BATCH, "letters")
    x = randn(BATCH, TIME, letters, HIDDEN)

    def read(loop, source, start):
        if inner == "scan":

            def step(frame, state):
                new = rf.tanh(state * 0.5 + frame)
                return new, new

            ys, last, _ = rf.scan(spatial_dim=letters, xs=source, initial=start, body=step)
            return ys, last
        loop_in = rf.Loop(axis=letters, name="letters")
        loop_in.state.h = start
        if inner == "for":
            for _ in loop_in:
                loop_in.state.h = rf.tanh(loop_in.state.h * 0.5 + loop_in.unstack(source))
                ys = loop_in.stack(loop_in.state.h)
        else:
            with loop_in:
                loop_in.state.h = rf.tanh(loop_in.state.h * 0.5 + loop_in.unstack(source))
                ys = loop_in.stack(loop_in.state.h)
        return ys, loop_in.state.h

    def body(loop):
        ys, last = read(loop, loop.unstack(x), loop.state.h)
        loop.state.h = last
        return loop.stack(rf.reduce_sum(ys, axis=letters)), loop.last(last)

    start = {"h": rf.zeros([BATCH, HIDDEN])}
    expected = [rf.zeros([BATCH, HIDDEN])]
    reference, loop = run(body, outer, start)
    h = [np.zeros((3, 4), np.float32)]
    host = x.numpy()
    for t in range(4):
        now = h[-1].copy()
        for sequence in range(3):
            if t < TIME.lengths[sequence]:
                for letter in range(letters.lengths[sequence]):
                    now[sequence] = np.tanh(now[sequence] * 0.5 + host[sequence, t, letter])
        h.append(now)
    np.testing.assert_allclose(loop.state.h.numpy(), h[-1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(reference[1].numpy(), h[-1], rtol=1e-5, atol=1e-6)
    assert expected


# -- modules step by step are modules of the whole sequence ----------------------------------------------------------------
def attention(kind):
    return kind(HIDDEN, HIDDEN, key_dim_total=Dim(4, name="keys"), value_dim_total=Dim(4, name="values"), num_heads=2)


@pytest.mark.parametrize("kind", ["CausalSelfAttention", "RotaryPosCausalSelfAttention", "RelPosCausalSelfAttention"])
def test_self_attention_step_by_step_is_that_of_the_sequence(kind):
    rf.set_random_seed(1)
    module = attention(getattr(rf, kind))
    x = randn(BATCH, TIME, HIDDEN)

    def body(loop):
        y, loop.state.att = module(loop.unstack(x), rf.single_step_dim, state=loop.state.att)
        return loop.stack(y)

    out, _ = run(body, "with", {"att": module.default_initial_state(batch_dims=[BATCH])})
    assert_same(out, module(x, TIME)[0], tolerance=1e-5)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_a_transformer_decoder_step_by_step_is_that_of_the_sequence(dropout):
    rf.set_random_seed(1)
    vocab, model = Dim(7, name="vocab"), Dim(4, name="model")
    source = ragged([3, 5, 2], BATCH, "source")
    decoder = rf.TransformerDecoder(model, vocab, model, num_layers=2, num_heads=2, dropout=dropout)
    memory = decoder.transform_encoder(randn(BATCH, source, model, seed=4), axis=source)
    ids = rf.random_uniform([BATCH, TIME], dtype="int32", minval=0, maxval=7, sparse_dim=vocab)

    def body(loop):
        y, loop.state.decoder = decoder(
            loop.unstack(ids), spatial_dim=rf.single_step_dim, state=loop.state.decoder, encoder=memory
        )
        return loop.stack(y)

    start = decoder.default_initial_state(batch_dims=[BATCH])
    out, _ = run(body, "with", {"decoder": start})
    assert_same(out, decoder(ids, spatial_dim=TIME, state=start, encoder=memory)[0], tolerance=1e-4)


def test_dims_that_come_late_are_not_for_python():
    def body(loop):
        loop.state.count = loop.state.count + 1.0
        return loop.stack(
            rf.reduce_sum(loop.state.count, axis=loop.state.count.dims) if loop.state.count.dims else loop.state.count
        )

    assert refused(body, {"count": rf.zeros([])}) == (
        'Loop "decoder", recorded step: the body looks at the dims of a tensor that gets another one later.\n'
        "  tensor  StepTensor{'None', [] float32 of loop decoder}\n"
        "  state   count\n"
        "A state gets the dims of the lengths when the first sequence ends. Give its initial value these dims:\n"
        "    loop.state.count = rf.expand_dims(initial, dims=[...])"
    )


def test_a_counter_that_gets_the_batch_dim_late():
    def body(loop):
        loop.state.count = loop.state.count + 1.0
        return loop.stack(loop.state.count * frame(loop))

    assert_faces_agree(body, {"count": rf.zeros([])})
