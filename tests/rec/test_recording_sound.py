"""The body of a recorded loop gives Python's result in every step, or is refused with a reason."""

from __future__ import annotations

import types

import numpy as np
import pytest
import torch
from asserting import assert_same, randn
from recorded_bodies import BATCH, HIDDEN, STEPS, TIME, assert_faces_agree, frame, refused, run

import rfnb as rf
from rfnb import Dim
from rfnb.rec.step_tensor import RecordingError


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

    assert "of a dim that differs from step to step" in refused(body, growing(), STEPS)


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
    assert "makes a permanent change" in text and f"call  {name}\n" in text


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
    assert text.endswith("The loop only notices assignments. Assign a new value:\n    loop.state.cell = rf.State(...)")


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
