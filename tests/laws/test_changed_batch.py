"""Random batches of which each differs from the one before in one thing: plans of the ones before give what new ones give.

Results, gradients and errors are compared with those after all plans are forgotten.
"""

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from second_batch import _assert_equal, _outcome, look_ahead_checked

import rfnb as rf
from rfnb import Dim
from rfnb.core import layout
from rfnb.core.layout import clear_plans

FEAT, OUT, HEADS = Dim(4, name="feat"), Dim(3, name="out"), Dim(2, name="heads")
HALF = Dim(2, name="half")


@dataclasses.dataclass(frozen=True)
class Batch:
    """How the dims of a batch are made, and what is over which."""

    time: tuple[int, ...] = (3, 1)
    other: tuple[int, ...] = (2, 4)
    static: bool = False  # time has one size
    one: bool = False  # both are the same dim
    declared: bool = False  # the second is declared the same as the first, which has its lengths then
    names: tuple[str, str] = ("time", "frames")
    kind: str | None = None
    batch_kind: str | None = None
    over_other: bool = False  # the batch dim has a size that comes later
    turned: bool = False  # other order of dims
    resized: bool = False  # the first had other lengths before
    without_batch: bool = False  # an operand lacks the dim that lengths are over

    def tensors(self):
        """a {batch, time, feat}, b {batch, other, feat}, and both dims."""
        size = len(self.time)
        batch = Dim(None if self.over_other else size, name="batch", kind=self.batch_kind)
        if self.over_other:
            batch.dyn_size_ext = np.int32(size)
        if self.static:
            time = Dim(max(self.time), name=self.names[0], kind=self.kind)
        else:
            time = rf.ragged_dim([3] * size if self.resized else self.time, over=batch, name=self.names[0])
            time.kind = self.kind
            if self.resized:
                rf.reduce_sum(_numbers(batch, time), axis=time)
                time.dyn_size_ext = rf.convert_to_tensor(np.array(self.time, np.int32), dims=[batch])
        lengths = self.time if self.declared else (self.other * size)[:size]
        other = time if self.one else rf.ragged_dim(lengths, over=batch, name=self.names[1])
        if self.declared and not self.one:
            other.declare_same_as(time)
        dims = (FEAT, time, batch) if self.turned else (batch, time, FEAT)
        b = (other, FEAT) if self.without_batch else (batch, other, FEAT)
        return _numbers(*dims), _numbers(*b), batch, time, other


def _numbers(*dims):
    shape = [dim.extent for dim in dims]
    values = np.random.default_rng(len(dims)).uniform(-1, 1, shape).astype(np.float32)
    return rf.convert_to_tensor(values, dims=dims)


OPS = {
    "add": lambda a, b, batch, time, other: a + b,
    "mul": lambda a, b, batch, time, other: a * rf.reduce_mean(b, axis=other),
    "outer": lambda a, b, batch, time, other: rf.combine_bc(a, "sub", b),
    "matmul": lambda a, b, batch, time, other: rf.matmul(a, b, reduce=FEAT),
    "matmul over time": lambda a, b, batch, time, other: rf.matmul(a, b, reduce=[time]),
    "softmax": lambda a, b, batch, time, other: rf.softmax(a, axis=time),
    "reduce": lambda a, b, batch, time, other: [
        rf.reduce(b, mode=mode, axis=other) for mode in ("sum", "max", "mean", "logsumexp", "argmax")
    ],
    "reduce both": lambda a, b, batch, time, other: rf.reduce_max(a, axis=(batch, time)),
    "attention": lambda a, b, batch, time, other: rf.dot_attention(a, b, b, key_dim=FEAT, axis=other),
    "causal": lambda a, b, batch, time, other: rf.dot_attention(
        a, b, b, key_dim=FEAT, axis=other, causal_query_spatial_dim=time
    ),
    "concat": lambda a, b, batch, time, other: rf.concat((a, time), (b, other)),
    "merge": lambda a, b, batch, time, other: rf.merge_dims(a, dims=[time, batch]),
    "split": lambda a, b, batch, time, other: rf.split_dims(a, axis=FEAT, dims=[HEADS, HALF]),
    "gather": lambda a, b, batch, time, other: rf.gather(
        a, indices=rf.cast(rf.clip_by_value(b, 0, 0), "int64"), axis=time
    ),
    "where": lambda a, b, batch, time, other: rf.where(a > 0, a, b, allow_broadcast_all_sources=True),
    "pad": lambda a, b, batch, time, other: rf.pad(a, axes=[time], padding=[(1, 2)], value=1),
    "cumsum": lambda a, b, batch, time, other: rf.cumsum(a, spatial_dim=time),
    "top_k": lambda a, b, batch, time, other: rf.top_k(a, axis=time, k=2),
    "pool": lambda a, b, batch, time, other: rf.max_pool1d(a, pool_size=2, in_spatial_dim=time),
    "slice": lambda a, b, batch, time, other: rf.slice(a, axis=time, start=1),
    "log": lambda a, b, batch, time, other: rf.log(rf.square(a)) + a,
}
_lengths = st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple)
_changes = st.one_of(
    st.fixed_dictionaries({"time": _lengths}),
    st.fixed_dictionaries({"other": _lengths}),
    st.fixed_dictionaries({"time": st.integers(1, 4).map(lambda size: (size, size))}),
    st.sampled_from(["static", "one", "declared", "over_other", "turned", "resized", "without_batch"]),
    st.fixed_dictionaries({"names": st.sampled_from([("time", "frames"), ("time", "time"), ("dim", "dim")])}),
    st.fixed_dictionaries({"kind": st.sampled_from([None, "spatial"])}),
    st.fixed_dictionaries({"batch_kind": st.sampled_from([None, "batch"])}),
)


def _changed(batch, change):
    if isinstance(change, str):
        change = {change: not getattr(batch, change)}
    return dataclasses.replace(batch, **change)


@settings(max_examples=10, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(changes=st.lists(_changes, min_size=1, max_size=6))
def test_one_thing_changed_between_two_batches(changes):
    batches = [Batch()]
    for change in changes:
        batches.append(_changed(batches[-1], change))
    batches.append(Batch())
    clear_plans()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "look_ahead", look_ahead_checked)
        warm = [_of_all_ops(batch) for batch in batches]
    for batch, found in zip(batches, warm):
        for name, outcome in found.items():
            clear_plans()
            _assert_equal(f"{name} of {batch}", outcome, _of_all_ops(batch, name)[name])


def _of_all_ops(batch, only=None):
    a, b, *dims = batch.tensors()
    return {
        name: _outcome(lambda a, b, op=op: op(a, b, *dims), [a, b]) for name, op in OPS.items() if only in (None, name)
    }
