"""Plans are made of dims: with the same dims and another dtype, or another backend, an op gives what it gives alone."""

import pytest
from asserting import assert_same, on_selected_backend, ragged, tensor, using_backend

import rfnb as rf
from rfnb import Dim
from rfnb.backends.protocol import REDUCE_KINDS
from rfnb.core.layout import clear_plans

batch, feat = Dim(2, name="batch"), Dim(3, name="feat")
time, none = ragged([4, 2], batch), Dim(0, name="none")
DTYPES = "float32", "float64", "float16", "int32", "bool"
VALUES = [[[3, 1, 2], [0, 4, 5], [7, 6, 8], [1, 1, 0]], [[2, 0, 1], [0, 3, 3], [9, 9, 9], [9, 9, 9]]]
X = tensor(VALUES, batch, time, feat)
EMPTY = tensor([[], []], batch, none)
CALLS = {
    **{
        f"reduce_{mode} over {dim.name}": (lambda x, mode=mode, dim=dim: rf.reduce(x, mode=mode, axis=dim), X)
        for mode in REDUCE_KINDS
        for dim in (time, feat)
    },
    **{f"reduce_{mode} of nothing": (lambda x, mode=mode: rf.reduce(x, mode=mode, axis=none), EMPTY) for mode in REDUCE_KINDS},
    "softmax over time": (lambda x: rf.softmax(x, axis=time), X),
    "softmax over feat": (lambda x: rf.softmax(x, axis=feat), X),
    "log_softmax over time": (lambda x: rf.log_softmax(x, axis=time), X),
    "log_softmax over feat": (lambda x: rf.log_softmax(x, axis=feat), X),
    "top_k over time": (lambda x: rf.top_k(x, axis=time, k_dim=batch_of_time)[0], X),
    "where": (lambda x: rf.where(x, X, 1.0), X),
    "logical_and": (lambda x: rf.logical_and(x, x), X),
    "logical_or with an outer product": (lambda x: rf.combine_bc(x, "logical_or", rf.cast(SEEN, x.dtype)), X),
    "logical_not": (rf.logical_not, X),
    "cross_entropy": (lambda x: rf.cross_entropy(estimated=x, target=LABELS, axis=feat, estimated_type="logits"), X),
}  # fmt: skip
batch_of_time = Dim(2, name="best")
SEEN = tensor([True, False], Dim(2, name="seen"))
LABELS = tensor([[0, 1, 2, 0], [1, 1, 0, 0]], batch, time, sparse_dim=feat)


def outcome(call, x):
    """The result, or the class of the error and its text."""
    try:
        return call(x)
    except (TypeError, ValueError, RuntimeError, NotImplementedError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("backend", ["torch", "numpy"])
@pytest.mark.parametrize("name", CALLS)
def test_what_came_before_with_another_dtype_changes_nothing(name, backend):
    call, x = CALLS[name]
    with using_backend(backend):
        operands = [rf.cast(on_selected_backend(x), dtype) for dtype in DTYPES]
        alone = []
        for operand in operands:
            clear_plans()
            alone.append(outcome(call, operand))
        for first in range(len(DTYPES)):
            clear_plans()
            outcome(call, operands[first])
            for operand, expected in zip(operands, alone, strict=True):
                got = outcome(call, operand)
                if isinstance(expected, tuple):
                    assert got == expected
                else:
                    assert_same(got, expected)
                    assert got.dtype == expected.dtype
