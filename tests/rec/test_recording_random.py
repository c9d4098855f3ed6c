"""Random bodies of loops: moved out, recorded without moving, and stepped by Python, they give the same."""

from __future__ import annotations

from asserting import assert_same, ragged, randn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
]  # fmt: skip
BINARY = [rf.add, rf.mul, rf.maximum, lambda a, b: rf.lerp(a, b, 0.3), lambda a, b: rf.where(a < b, a, b)]

_op = st.one_of(
    st.tuples(st.just("unary"), st.integers(0, len(UNARY) - 1), st.integers(0, 20)),
    st.tuples(st.just("binary"), st.integers(0, len(BINARY) - 1), st.integers(0, 20), st.integers(0, 20)),
)
_programs = st.fixed_dictionaries(
    {
        "time": st.sampled_from(sorted(TIMES)),
        "ops": st.lists(_op, min_size=1, max_size=9),
        "next": st.tuples(st.integers(0, 20), st.integers(0, 20)),
        "stack": st.lists(st.integers(0, 20), min_size=1, max_size=3),
        "last": st.integers(0, 20),
    }
)


def run(program, face):
    axis = TIMES[program["time"]]
    loop = rf.Loop(axis=axis, optimize_move_layers_out=face == "moved")
    loop.state.a = randn(BATCH, HIDDEN, seed=1)
    loop.state.b = randn(BATCH, HIDDEN, seed=2)
    x = randn(axis, BATCH, HIDDEN, seed=3)
    y = randn(BATCH, axis, seed=4)

    def body():
        values = [loop.unstack(x), loop.state.a, loop.state.b, loop.unstack(x) * loop.unstack(y)]
        values.append(values[0] + rf.cast(loop.iter_idx, "float32"))
        for kind, fn, *operands in program["ops"]:
            chosen = [values[index % len(values)] for index in operands]
            out = (UNARY if kind == "unary" else BINARY)[fn](*chosen)
            if set(out.dims) == {BATCH, HIDDEN}:
                values.append(out)
            else:
                others = [dim for dim in out.dims if dim not in (BATCH, HIDDEN)]
                values.append(values[0] + rf.reduce_sum(out, axis=others))
        loop.state.a, loop.state.b = (values[index % len(values)] for index in program["next"])
        return (
            *(loop.stack(values[index % len(values)]) for index in program["stack"]),
            loop.last(values[program["last"] % len(values)]),
        )

    if face == "for":
        for _ in loop:
            outputs = body()
    else:
        with loop:
            outputs = body()
    return (*outputs, loop.state.a, loop.state.b)


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
