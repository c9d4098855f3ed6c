"""Loop: frames, states, collected values, over a dim or until an end."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, randn, tensor
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim


@pytest.fixture
def batch():
    return Dim(3, name="batch")


@pytest.fixture
def feat():
    return Dim(2, name="feat")


@pytest.fixture
def time(batch):
    return ragged([4, 1, 0], batch)


def numbers(time, batch):
    """1, 2, ... in each real frame, then padding of 100."""
    return tensor([[1.0, 2, 3, 4], [1, 100, 100, 100], [100, 100, 100, 100]], batch, time)


def counted(lengths, *, include_eos, max_seq_len=10):
    """A loop over sequences that say "end" in step `length` (from 0); the loop, and the stacked step index."""
    batch = Dim(len(lengths), name="batch")
    ends = tensor(np.asarray(lengths, np.int32), batch)
    loop = rf.Loop(max_seq_len=max_seq_len, name="count")
    loop.state.steps = rf.zeros([batch], dtype="int32")
    for step in loop:
        loop.state.steps = loop.state.steps + 1
        loop.end(ends == step, include_eos=include_eos)
        out = loop.stack(ends * 0 + step)
        last = loop.last(ends * 0 + step + 1)
    return loop, out, last


def test_unstack_gives_the_frame_of_each_step_in_any_dim_order(batch, time, feat):
    x = randn(batch, time, feat)
    for source in (x, x.copy_transpose([time, feat, batch])):
        loop = rf.Loop(axis=time)
        for step in loop:
            frame = rf.gather(x.copy_masked(0), indices=step, axis=time)  # 0 where a sequence has ended
            assert_same(loop.unstack(source), frame)
        assert loop.num_steps == 4


def test_stack_puts_the_frames_back(batch, time, feat):
    x = randn(batch, time, feat)
    loop = rf.Loop(axis=time)
    for _ in loop:
        out = loop.stack(loop.unstack(x) * 2)
    assert_same(out, x * 2)
    assert out.dims[0] is time


def test_a_running_sum_is_the_cumulative_sum_and_ends_with_each_sequence(batch, time):
    x = numbers(time, batch)
    loop = rf.Loop(axis=time)
    loop.state.sum = rf.zeros([batch])
    for _ in loop:
        loop.state.sum = loop.state.sum + loop.unstack(x)
        out, last = loop.stack(loop.state.sum), loop.last(loop.state.sum)
    assert_same(out, rf.cumsum(x, spatial_dim=time))
    assert_same(loop.state.sum, [10.0, 1.0, 0.0])
    assert_same(last, [10.0, 1.0, 0.0])


def test_last_of_a_sequence_without_steps_is_zero_even_if_its_padding_is_nan(batch, time):
    loop = rf.Loop(axis=time)
    for _ in loop:
        last = loop.last(loop.unstack(numbers(time, batch)) + float("nan"))
    assert last.numpy()[2] == 0
    assert np.isnan(last.numpy()[:2]).all()


def test_a_state_without_the_batch_dim_ends_per_sequence(batch, time, feat):
    loop = rf.Loop(axis=time)
    loop.state.seen, loop.state.steps = rf.zeros([feat]), rf.zeros([])
    rows = tensor(np.arange(8.0).reshape(4, 2), time, feat)
    for _ in loop:
        loop.state.seen = loop.unstack(rows)
        loop.state.steps = loop.state.steps + 1
    assert_same(loop.state.steps, tensor([4.0, 1, 0], batch))
    assert_same(loop.state.seen, tensor([[6.0, 7], [0, 1], [0, 0]], batch, feat))


def test_a_state_reads_previous_before_and_new_after_its_assignment(batch):
    loop = rf.Loop(axis=Dim(3, name="time"))
    loop.state.n = rf.zeros([batch])
    seen = []
    for step in loop:
        seen.append(loop.state.n.numpy()[0])
        loop.state.n = loop.state.n + 1
        assert loop.state.n.numpy()[0] == step + 1
        assert loop.state["n"] is loop.state.n
    assert seen == [0, 1, 2]
    assert_same(loop.state.n, [3.0, 3, 3])


def test_nested_states_keep_their_types_and_freeze_leaf_by_leaf(batch, time):
    loop = rf.Loop(axis=time)
    loop.state.nested = {"a": rf.zeros([batch]), "b": (rf.zeros([batch]), [rf.LstmState(h=rf.zeros([batch]), c=None)])}
    for _ in loop:
        old = loop.state.nested
        inner = old["b"][1][0]
        assert type(inner) is rf.LstmState and inner.c is None
        loop.state.nested = {"b": (old["b"][0] + 2, [rf.LstmState(h=inner.h + 3, c=None)]), "a": old["a"] + 1}
    final = loop.state.nested
    assert_same(final["a"], [4.0, 1, 0])
    assert_same(final["b"][0], [8.0, 2, 0])
    assert_same(final["b"][1][0].h, [12.0, 3, 0])
    assert sorted(x.numpy().tolist() for x in loop.state.deep_tensors()) == [[4, 1, 0], [8, 2, 0], [12, 3, 0]]


def test_a_whole_state_can_be_assigned_at_once(batch):
    loop = rf.Loop(axis=Dim(2, name="time"))
    loop.state = rf.State(a=rf.zeros([batch]), b=rf.ones([batch]))
    for _ in loop:
        loop.state.a = loop.state.a + loop.state.b
    assert list(loop.state.keys()) == ["a", "b"] and len(loop.state) == 2
    assert_same(loop.state.a, [2.0, 2, 2])


def test_a_state_that_no_step_assigns_stays(batch):
    loop = rf.Loop(axis=Dim(2, name="time"))
    loop.state.constant = rf.ones([batch])
    for _ in loop:
        pass
    assert_same(loop.state.constant, [1.0, 1, 1])


def test_a_dim_in_the_state_may_grow_with_its_tensor(batch):
    """The growing history of self-attention: the dim is part of the state."""
    history = Dim(0, name="history")
    loop = rf.Loop(axis=Dim(3, name="time"))
    loop.state.past = rf.State(dim=history, values=rf.zeros([history, batch]))
    for step in loop:
        old, one = loop.state.past, Dim(1, name="one")
        new = rf.expand_dim(rf.zeros([batch]) + step, one)
        values, dim = rf.concat((old["values"], old["dim"]), (new, one))
        loop.state.past = rf.State(dim=dim, values=values)
    past = loop.state.past
    assert past["dim"].size == 3
    assert past["values"].copy_transpose([past["dim"], batch]).numpy().tolist() == [[0] * 3, [1] * 3, [2] * 3]


@pytest.mark.parametrize(("include_eos", "lengths"), [(False, [0, 2, 5]), (True, [1, 3, 6])])
def test_include_eos_says_whether_the_ending_step_counts(include_eos, lengths):
    loop, out, last = counted([0, 2, 5], include_eos=include_eos)
    assert loop.num_steps == 6
    assert loop.axis.lengths.tolist() == lengths
    assert out.dims[0] is loop.axis
    assert out.numpy().shape == (max(lengths), 3)
    assert last.numpy().tolist() == lengths  # last holds step + 1
    assert loop.state.steps.numpy().tolist() == lengths


@pytest.mark.parametrize("include_eos", [False, True])
def test_a_sequence_that_is_cut_has_the_maximal_length_either_way(include_eos):
    loop, out, last = counted([0, 9, 9], include_eos=include_eos, max_seq_len=4)
    assert loop.num_steps == 4
    assert loop.axis.lengths.tolist() == [int(include_eos), 4, 4]
    assert last.numpy().tolist() == [int(include_eos), 4, 4]


def test_all_sequences_may_end_before_their_first_frame():
    loop, out, last = counted([0, 0, 0], include_eos=False)
    assert loop.axis.lengths.tolist() == [0, 0, 0]
    assert out.numpy().shape == (0, 3) and out.dtype == "int32"
    assert last.numpy().tolist() == [0, 0, 0]


def test_an_end_stays_an_end():
    batch = Dim(2, name="batch")
    loop = rf.Loop(max_seq_len=9)
    loop.state.n = rf.zeros([batch])
    for step in loop:
        loop.state.n = loop.state.n + 1
        loop.end(tensor([step == 1, step == 3], batch), include_eos=True)  # False again for the first in step 2
    assert loop.axis.lengths.tolist() == [2, 4]
    assert_same(loop.state.n, [2.0, 4])


def test_the_end_condition_may_change_the_order_of_its_dims():
    a, b = Dim(2, name="a"), Dim(3, name="b")
    ends = tensor(np.asarray([[0, 1, 2], [2, 1, 0]], np.int32), a, b)
    loop = rf.Loop(max_seq_len=9)
    for step in loop:
        loop.end((ends if step % 2 else ends.copy_transpose([b, a])) == step, include_eos=True)
    order = [loop.axis.length_dims.index(dim) for dim in (a, b)]
    assert loop.axis.lengths.transpose(order).tolist() == [[1, 2, 3], [3, 2, 1]]


def test_a_scalar_end_ends_all():
    batch = Dim(2, name="batch")
    loop = rf.Loop(max_seq_len=9)
    for _ in loop:
        loop.end(loop.iter_idx == 2, include_eos=True)
        out = loop.stack(rf.zeros([batch]))
    assert loop.axis.extent == 3 and loop.axis.length_dims == ()
    assert out.numpy().shape == (3, 2)


def test_with_an_axis_the_end_is_ignored():
    loop = rf.Loop(axis=Dim(3, name="time"))
    for _ in loop:
        loop.end(tensor(True), include_eos=True)
    assert loop.num_steps == 3


@pytest.mark.parametrize("limit", [2, "tensor", "in the body"])
def test_max_seq_len_may_be_a_number_a_tensor_or_set_in_the_body(limit):
    batch = Dim(1, name="batch")
    loop = rf.Loop(max_seq_len=tensor(np.int32(2)) if limit == "tensor" else limit if limit == 2 else None)
    for _ in loop:
        if limit == "in the body":
            loop.max_seq_len = 2
        loop.end(tensor([False], batch), include_eos=True)
    assert loop.num_steps == 2


def test_an_axis_without_frames_makes_no_step(batch):
    time = ragged([0, 0, 0], batch)
    loop = rf.Loop(axis=time)
    loop.state.h = rf.ones([batch])
    assert list(loop) == []
    assert_same(loop.state.h, [1.0, 1, 1])


def test_iter_idx_counts_from_zero_and_indexes_the_axis():
    time, feat = Dim(3, name="time"), Dim(2, name="feat")
    x = randn(time, feat)
    loop = rf.Loop(axis=time)
    for step in loop:
        assert loop.iter_idx.dtype == "int32" and loop.iter_idx.dims == () and int(loop.iter_idx.numpy()) == step
        assert_same(rf.gather(x, indices=loop.iter_idx), loop.unstack(x))


def test_a_loop_inside_a_loop_is_a_double_sum():
    outer, inner = Dim(3, name="outer"), Dim(2, name="inner")
    x = tensor([[1.0, 2], [3, 4], [5, 6]], outer, inner)
    rows = rf.Loop(axis=outer)
    rows.state.total = rf.zeros([])
    for _ in rows:
        columns = rf.Loop(axis=inner)
        columns.state.total = rows.state.total
        row = rows.unstack(x)
        for _ in columns:
            columns.state.total = columns.state.total + columns.unstack(row)
            assert rf.Loop.current() is columns
        assert rf.Loop.current() is rows
        rows.state.total = columns.state.total
        out = rows.stack(columns.state.total)
    assert rf.Loop.current() is None
    assert_same(out, [3.0, 10, 21])


def test_gradients_are_those_of_the_unrolled_computation(batch, time, feat):
    x, w = randn(batch, time, feat), randn(feat, seed=1)
    for source in (x, w):
        rf.set_requires_gradient(source)
    loop = rf.Loop(axis=time)
    loop.state.h = rf.zeros([batch, feat])
    for _ in loop:
        loop.state.h = rf.tanh(loop.state.h * w + loop.unstack(x))
        out = loop.stack(loop.state.h)
    (
        rf.reduce_sum(loop.state.h, axis=[batch, feat]) + rf.reduce_sum(out, axis=[batch, time, feat])
    ).raw_tensor.backward()

    raw_x, raw_w = (source.raw_tensor.detach().clone().requires_grad_() for source in (x, w))
    total = torch.zeros(())
    for seq, length in enumerate([4, 1, 0]):
        h = torch.zeros(2)
        for step in range(length):
            h = torch.tanh(h * raw_w + raw_x[seq, step])
            total = total + h.sum()
        total = total + h.sum()
    total.backward()
    torch.testing.assert_close(x.raw_tensor.grad, raw_x.grad)
    torch.testing.assert_close(w.raw_tensor.grad, raw_w.grad)


def test_collected_values_may_have_their_dims_in_another_order_in_each_step(batch, feat):
    axis = Dim(2, name="time")
    x = randn(axis, batch, feat)
    loop = rf.Loop(axis=axis)
    for step in loop:
        frame = loop.unstack(x)
        out = loop.stack(frame.copy_transpose([feat, batch]) if step else frame)
    assert_same(out, x)


def test_after_a_break_the_state_is_that_of_the_last_whole_step(batch):
    loop = rf.Loop(axis=Dim(5, name="time"))
    loop.state.n = rf.zeros([batch])
    for step in loop:
        loop.state.n = loop.state.n + 1
        if step == 2:
            break
    assert_same(loop.state.n, [2.0, 2, 2])
    assert rf.Loop.current() is None


def test_has_entered_scope_from_the_first_step_on():
    loop = rf.Loop(axis=Dim(1, name="time"))
    assert not loop.has_entered_scope
    for _ in loop:
        assert loop.has_entered_scope
    assert loop.has_entered_scope


def test_a_loop_says_what_it_runs_over_and_where_it_is(batch):
    time = ragged([4, 2, 1], batch, "time")
    loop = rf.Loop(axis=time, name="encoder")
    assert repr(loop) == '<Loop "encoder": over [time<=4, batch=3], before its first step>'
    for index in loop:
        assert repr(loop) == f'<Loop "encoder": over [time<=4, batch=3], in step {index}>'
    assert repr(loop) == '<Loop "encoder": over [time<=4, batch=3], after 4 steps>'

    loop = rf.Loop(axis=time)
    loop.state.h = rf.zeros([batch])
    with loop:
        loop.state.h = loop.state.h + 1
        assert repr(loop) == '<Loop "loop": over [time<=4, batch=3], recorded, in step 0>'
    assert repr(loop) == '<Loop "loop": over [time<=4, batch=3], recorded, after 4 steps>'


def test_a_loop_with_an_end_says_its_bound_and_then_its_axis(batch):
    loop = rf.Loop(max_seq_len=5, name="decoder")
    loop.state.left = tensor([3, 1, 2], batch)
    assert repr(loop) == '<Loop "decoder": no axis before its end, at most 5 steps, before its first step>'
    for _ in loop:
        loop.state.left = loop.state.left - 1
        loop.end(loop.state.left <= 0, include_eos=True)
    assert repr(loop) == '<Loop "decoder": over [decoder:time<=3, batch=3], at most 5 steps, after 3 steps>'
    bound = rf.Loop(max_seq_len=rf.convert_to_tensor(5))
    assert repr(bound) == '<Loop "loop": no axis before its end, at most a tensor of steps, before its first step>'


@pytest.mark.parametrize("face", ["for", "with"])
@pytest.mark.parametrize(
    "name", ["select", "commit", "finish", "values", "keys", "items", "deep_tensors", "begin_step"]
)
def test_a_state_may_be_called_like_a_method(name, face, batch):
    loop = rf.Loop(axis=Dim(3, name="time"))
    loop.state[name] = rf.zeros([batch])

    def body():
        setattr(loop.state, name, getattr(loop.state, name) + 1)
        return loop.stack(loop.state[name])

    out = run_steps(loop, face, body)
    assert_same(getattr(loop.state, name), rf.full(dims=[batch], fill_value=3.0))
    assert out.dims[1:] == (batch,)


@pytest.mark.parametrize("face", ["for", "with"])
def test_last_of_a_sequence_without_steps_is_the_initial_value_of_its_state(face, batch, time):
    x = numbers(time, batch)
    loop = rf.Loop(axis=time)
    loop.state.total = tensor([10.0, 20, 30], batch)
    loop.state.pair = {"double": tensor([1.0, 2, 3], batch)}

    def body():
        loop.state.total = loop.state.total + loop.unstack(x)
        loop.state.pair = {"double": loop.state.pair["double"] * 2}
        return loop.last(loop.state.total), loop.last(loop.state.pair["double"]), loop.last(loop.state.total * 2)

    outputs = run_steps(loop, face, body)
    total, double, other = outputs
    assert_same(total, tensor([20.0, 21, 30], batch))
    assert_same(double, tensor([16.0, 4, 3], batch))
    assert_same(other, tensor([40.0, 42, 0], batch))  # what is no state begins at 0


@pytest.mark.parametrize("ragged_start", [False, True])
@pytest.mark.parametrize("face", ["for", "with"])
def test_stacked_frames_of_different_sizes_are_padded_with_zeros(face, ragged_start, batch):
    time = Dim(3, name="time")
    x = tensor([[1.0, 2, 3]] * 3, batch, time)
    start = ragged([0, 2, 1], batch, "history") if ragged_start else Dim(0, name="history")
    loop = rf.Loop(axis=time)
    loop.state.history = rf.zeros([batch, start])
    loop.state.dim = start

    def body():
        loop.state.history, loop.state.dim = rf.cum_concat_step(
            loop.unstack(x), prev_accum=loop.state.history, axis=loop.state.dim
        )
        return loop.stack(loop.state.history)

    out = run_steps(loop, face, body)
    (history,) = set(out.dims) - {time, batch}
    assert history.name == "history"
    before = [0, 2, 1] if ragged_start else [0, 0, 0]
    values = out.copy_masked(0).copy_transpose([batch, time, history]).numpy()
    for sequence, count in enumerate(before):
        for step in range(3):
            expected = [0] * count + [1, 2, 3][: step + 1]
            np.testing.assert_array_equal(values[sequence, step], expected + [0] * (history.extent - len(expected)))
    assert_same(rf.reduce_sum(out, axis=history), tensor([[1.0, 3, 6]] * 3, batch, time))


def test_max_seq_len_can_be_asked_and_set():
    loop = rf.Loop(max_seq_len=3)
    assert loop.max_seq_len == 3
    loop.max_seq_len = 2
    for _ in loop:
        loop.end(tensor(False), include_eos=True)
        out = loop.stack(loop.iter_idx)
    assert out.numpy().tolist() == [0, 1]
