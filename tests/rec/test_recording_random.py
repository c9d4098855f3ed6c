"""Random bodies of loops: moved out, recorded without moving, and stepped by Python, they give the same."""

from __future__ import annotations

from asserting import assert_same, ragged, randn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim

BATCH, HIDDEN, SOURCE_STATIC = Dim(3, name="batch"), Dim(2, name="hidden"), Dim(4, name="slots")
TIMES = {"ragged": ragged([4, 0, 3], BATCH), "static": Dim(3, name="time"), "one": Dim(1, name="time")}
SOURCE = ragged([3, 5, 2], BATCH, "source")
TWIN = HIDDEN.copy(match_priority=1)
CONSTANTS = {
    "square": randn(HIDDEN, TWIN, seed=7),
    "vector": randn(HIDDEN, seed=8),
    "memory": randn(BATCH, SOURCE, HIDDEN, seed=9),
    "table": randn(SOURCE_STATIC, HIDDEN, seed=10),
}


def _attend(query):
    energy = rf.matmul(query, CONSTANTS["memory"], reduce=HIDDEN)
    return rf.matmul(rf.softmax(energy, axis=SOURCE), CONSTANTS["memory"], reduce=SOURCE)


def _project(x):
    out = rf.matmul(rf.replace_dim(x, in_dim=HIDDEN, out_dim=TWIN)[0], CONSTANTS["square"], reduce=TWIN)
    return out


def _lookup(x):
    index = rf.reduce_argmax(x, axis=HIDDEN)
    return rf.gather(CONSTANTS["table"], indices=rf.set_sparse_dim(index, SOURCE_STATIC), axis=SOURCE_STATIC)


def _sum_of_positive(x):
    """Through a dim whose size depends on the values."""
    picked, dim = rf.masked_select(x, mask=x > 0, dims=[BATCH, HIDDEN])
    return x * rf.reduce_sum(picked * rf.range_over_dim(dim, dtype="float32"), axis=dim)


# Of {BATCH, HIDDEN} each, so that any value may go anywhere.
UNARY = [
    rf.tanh, rf.relu, rf.neg, _attend, _project, _lookup,
    lambda x: rf.softmax(x, axis=HIDDEN),
    lambda x: x - rf.reduce_mean(x, axis=HIDDEN),
    lambda x: rf.where(x > 0.1, x, CONSTANTS["vector"], allow_broadcast_all_sources=True),
    lambda x: rf.merge_dims(rf.expand_dim(x, SOURCE_STATIC), dims=[SOURCE_STATIC, HIDDEN])[0],
    lambda x: rf.concat((x, HIDDEN), (x * 2, HIDDEN))[0],
    lambda x: rf.reverse_sequence(x, axis=HIDDEN),
    lambda x: x * CONSTANTS["vector"],
    lambda x: rf.dot_attention(x, CONSTANTS["memory"], CONSTANTS["memory"], key_dim=HIDDEN, axis=SOURCE),
    lambda x: rf.stop_gradient(x) + 0.5,
    lambda x: rf.dropout(x, 0.4, on_forward=True),
    lambda x: rf.dropout(rf.ones([BATCH, HIDDEN]), 0.4, on_forward=True),
    lambda x: x + rf.random_normal([BATCH, HIDDEN]),
    lambda x: rf.dot_attention(x, CONSTANTS["memory"], CONSTANTS["memory"], key_dim=HIDDEN, axis=SOURCE, att_dropout=0.3),
    lambda x: _sum_of_positive(x),
]  # fmt: skip
BINARY = [rf.add, rf.mul, rf.maximum, lambda a, b: rf.lerp(a, b, 0.3), lambda a, b: rf.where(a < b, a, b)]

_op = st.one_of(
    st.tuples(st.just("unary"), st.integers(0, len(UNARY) - 1), st.integers(0, 20)),
    st.tuples(st.just("binary"), st.integers(0, len(BINARY) - 1), st.integers(0, 20), st.integers(0, 20)),
)
_programs = st.fixed_dictionaries(
    {
        "time": st.sampled_from([*sorted(TIMES), "end"]),
        "end": st.tuples(st.integers(0, 20), st.booleans(), st.integers(1, 5)),
        "nested": st.booleans(),
        "history": st.booleans(),
        "ops": st.lists(_op, min_size=1, max_size=9),
        "next": st.tuples(st.integers(0, 20), st.integers(0, 20)),
        "stack": st.lists(st.integers(0, 20), min_size=1, max_size=3),
        "last": st.integers(0, 20),
    }
)


def run(program, face):
    """The outputs and final states of a program, what is drawn next, and the lengths that its end gives."""
    axis = TIMES.get(program["time"])
    which, include_eos, limit = program["end"]
    loop = rf.Loop(axis=axis, max_seq_len=limit, optimize_move_layers_out=face == "moved")
    start = randn(BATCH, HIDDEN, seed=1), randn(BATCH, HIDDEN, seed=2)
    if program["nested"]:
        loop.state.ab = rf.State(a=start[0], deep=[start[1]])
    else:
        loop.state.a, loop.state.b = start
    if program["history"]:
        loop.state.frames, loop.state.dim = rf.zeros([BATCH, NOTHING, HIDDEN]), NOTHING
    source = TIMES["ragged"] if axis is None else axis
    x, y = randn(source, BATCH, HIDDEN, seed=3), randn(BATCH, source, seed=4)

    def body():
        a, b = (loop.state.ab.a, loop.state.ab.deep[0]) if program["nested"] else (loop.state.a, loop.state.b)
        if axis is None:
            values = [b * 0.5, a, b, a * b]
        else:
            values = [loop.unstack(x), a, b, loop.unstack(x) * loop.unstack(y)]
        values.append(values[0] + rf.cast(rf.set_sparse_dim(loop.iter_idx, None), "float32"))
        if program["history"]:
            frames, dim = rf.cum_concat_step(values[0], prev_accum=loop.state.frames, axis=loop.state.dim)
            loop.state.frames, loop.state.dim = frames, dim
            values.append(rf.dot_attention(a, frames, frames, key_dim=HIDDEN, axis=dim))
        for kind, fn, *operands in program["ops"]:
            chosen = [values[index % len(values)] for index in operands]
            out = (UNARY if kind == "unary" else BINARY)[fn](*chosen)
            if set(out.dims) == {BATCH, HIDDEN}:
                values.append(out)
            else:
                others = [dim for dim in out.dims if dim not in (BATCH, HIDDEN)]
                values.append(values[0] + rf.reduce_sum(out, axis=others))
        a, b = (rf.tanh(values[index % len(values)]) for index in program["next"])
        if program["nested"]:
            loop.state.ab = rf.State(a=a, deep=[b])
        else:
            loop.state.a, loop.state.b = a, b
        if axis is None:
            loop.end(rf.reduce_max(values[which % len(values)], axis=HIDDEN) > 0.5, include_eos=include_eos)
        return (
            *(loop.stack(values[index % len(values)]) for index in program["stack"]),
            loop.last(values[program["last"] % len(values)]),
        )

    rf.set_random_seed(11)
    outputs = run_steps(loop, face, body)
    states = [state for state in loop.state.deep_tensors() if set(state.dims) == {BATCH, HIDDEN}]
    lengths = loop.axis.get_size_tensor() if axis is None else None
    outputs = [_by_number(x, loop.axis) if axis is None else x for x in outputs]
    return (*outputs, *states, rf.random_uniform([BATCH]), *([] if lengths is None else [lengths]))


NOTHING = Dim(0, name="history")


def _by_number(x, axis):
    """With 0 in its padding, and a static dim of this extent instead of the loop's own."""
    if axis not in x.dims:
        return x
    return rf.replace_dim_v2(x.copy_masked(0), in_dim=axis, out_dim=FRAMES[axis.extent])


FRAMES = [Dim(count, name="frames") for count in range(10)]


@settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(program=_programs)
def test_the_faces_agree(program):
    expected = run(program, "for")
    assert_same(run(program, "recorded"), expected)
    assert_same(run(program, "moved"), expected)


def test_the_programs_reach_all_places():
    """Else the test above would not test what it says."""
    loop = rf.Loop(axis=TIMES["ragged"])
    loop.state.a = randn(BATCH, HIDDEN)
    with loop:
        frame = _project(loop.unstack(randn(TIMES["ragged"], BATCH, HIDDEN)))
        loop.state.a = rf.tanh(loop.state.a + frame)
        loop.stack(_attend(loop.state.a))
    assert loop.plan.before and loop.plan.inside and loop.plan.after
