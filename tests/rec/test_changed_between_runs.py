"""Recordings share code from run to run; every change between two runs has its effect in the second one."""

from collections import namedtuple

import pytest
import torch

import rfnb as rf
from rfnb import Dim, State
from rfnb.core.tree import leaves, map_nested, values_in

FEAT = Dim(3, name="feat")
FIRST = {
    "steps": [6, 4], "source": [5, 3], "scale": 2.0, "dtype": "float32", "gradients": False, "function": rf.tanh,
    "include_eos": True,
}  # fmt: skip
CHANGES = [
    {"steps": [4, 6]}, {"steps": [9, 2]}, {"steps": [7, 7]}, {"source": [3, 5]}, {"source": [7, 2]}, {"source": [5, 5]},
    {}, {"scale": 3.0}, {"scale": 3}, {"dtype": "float64"}, {"gradients": True}, {"function": rf.sigmoid}, {"include_eos": False},
    {"steps": [6, 4, 5], "source": [5, 3, 1]},
]  # fmt: skip


def run(face, weight, *, steps, source, scale, dtype, gradients, function, include_eos):
    """The raw states of all steps, the last one, and the gradient of the weight."""
    batch = Dim(len(steps), name="batch")
    time, keys = (
        rf.ragged_dim(lengths, over=batch, name=name) for lengths, name in ((steps, "time"), (source, "keys"))
    )
    generator = torch.Generator().manual_seed(7)

    def values(axis):
        raw = torch.randn(batch.size, axis.extent, 3, generator=generator, dtype=torch.float64)
        return rf.convert_to_tensor(raw.to(getattr(torch, dtype)), dims=[batch, axis, FEAT])

    x, encoder = values(time), values(keys)
    factor = rf.convert_to_tensor(weight, dims=[FEAT])
    loop = rf.Loop(axis=time, include_eos=include_eos)
    loop.state.h = rf.zeros([batch, FEAT], dtype=dtype)

    def body():
        asked = rf.dot_attention(loop.state.h, encoder, encoder, key_dim=FEAT, axis=keys)
        loop.state.h = function(asked * factor + loop.unstack(x) * scale)
        return loop.stack(loop.state.h), loop.last(loop.state.h)

    weight.grad = None
    with torch.set_grad_enabled(gradients):
        if face == "with":
            with loop:
                out, last = body()
        else:
            for _ in loop:
                out, last = body()
        total = rf.reduce_sum(out, axis=out.dims).raw_tensor
        if gradients:
            total.backward()
    masked = out.copy_masked(0).copy_transpose([time, batch, FEAT]).raw_tensor.detach()
    return [masked, last.copy_transpose([batch, FEAT]).raw_tensor.detach(), weight.grad]


def both(weight, **given):
    (out, last, gradient), (expected, expected_last, expected_gradient) = [
        run(face, weight, **given) for face in ("with", "for")
    ]
    assert torch.equal(out, expected) and torch.equal(last, expected_last)
    assert (gradient is None) == (expected_gradient is None) == (not given["gradients"])
    if gradient is not None:
        torch.testing.assert_close(gradient, expected_gradient)
    return out


def weight_of(dtype, value=0.5):
    return torch.tensor([value, 2 * value, -value], dtype=getattr(torch, dtype), requires_grad=True)


@pytest.mark.parametrize(
    "change",
    CHANGES,
    ids=lambda change: ", ".join(f"{key} {getattr(value, '__name__', value)}" for key, value in change.items()),
)
def test_the_second_run_is_like_that_of_python(change):
    second = FIRST | change
    both(weight_of(FIRST["dtype"]), **FIRST)
    both(weight_of(second["dtype"]), **second)
    both(weight_of(FIRST["dtype"]), **FIRST)


def test_a_weight_that_was_changed_in_place_is_used():
    weight = weight_of("float32")
    before = both(weight, **FIRST)
    with torch.no_grad():
        weight.mul_(-0.5)
    assert not torch.equal(both(weight, **FIRST), before)


def test_another_weight_of_the_same_shape_is_used():
    before = both(weight_of("float32"), **FIRST)
    assert not torch.equal(both(weight_of("float32", -0.25), **FIRST), before)


def test_leaves_are_the_same_with_and_without_paths():
    Pair = namedtuple("Pair", "a b")
    value = State(x=[1, (2, {"y": 3})], pair=Pair(4, [5]), none=None)
    assert leaves(value) == [
        ("x.0", 1), ("x.1.0", 2), ("x.1.1.y", 3), ("pair.a", 4), ("pair.b.0", 5), ("none", None)
    ]  # fmt: skip
    assert values_in(value) == [leaf for _, leaf in leaves(value)]
    assert values_in(7) == [7] and leaves(7) == [("", 7)]
    out = map_nested(lambda leaf: leaf and leaf + 1, value)
    assert out == State(x=[2, (3, {"y": 4})], pair=Pair(5, [6]), none=None)
    assert type(out) is State and type(out.pair) is Pair and type(out.x[1]) is tuple
