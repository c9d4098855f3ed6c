"""Random programs of ops over a few dims, for laws about what ops do after each other.

A program starts from data with padding and from what frames share, and goes on with random ops of what is there. Its choices depend
on the seed and on dims only, so it is the same program whatever the values are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from asserting import ragged

import rfnb as rf
from rfnb import Dim, Tensor

_UNARY = "neg exp expm1 log1p square abs tanh sigmoid log_sigmoid sin cos relu elu selu silu gelu reciprocal relu_square safe_log".split()
_BINARY = "add sub mul true_divide maximum minimum squared_difference log_add_exp".split()
_OF_ABS = ("log", "sqrt", "rsqrt", "reciprocal")


class Program:
    """One random program; `inputs` are its data, then what frames share."""

    def __init__(self, seed: int, num_ops: int = 6, sequences: Sequence[int] = (0, 1, 2)):
        self.seed, self.num_ops = seed, num_ops
        rng = np.random.default_rng([seed, 1])
        self.batch = Dim(len(sequences), name="batch", kind="batch")
        self.time = ragged([(4, 2, 3)[index] for index in sequences], self.batch, "time")
        self.source = ragged([(1, 3, 2)[index] for index in sequences], self.batch, "source")
        self.feat, self.out = Dim(2, name="feat"), Dim(3, name="out")
        batch, time, source, feat = self.batch, self.time, self.source, self.feat
        data = [(batch, time, feat), (time, batch, feat), (batch, source, feat), (batch, time)]
        shared = [(feat,), (feat,), (), (batch, feat), (feat, self.out), (feat,)]
        self.inputs = [_drawn(rng, dims) for dims in data + shared]
        self.num_data = len(data)
        self.log: list[str] = []

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        """The last results."""
        rng = np.random.default_rng([self.seed, 2])
        self.log = []
        *values, weight, gate = inputs  # the weight is only for products
        shared = values[self.num_data :]
        values = values[: self.num_data]
        for _ in range(self.num_ops):
            step = _STEPS[rng.integers(len(_STEPS))]
            x = values[-1] if rng.random() < 0.6 else values[rng.integers(len(values))]
            y = ([*values, *shared])[rng.integers(len(values) + len(shared))]
            result = step(self, rng, x, y, weight, gate)
            if result is not None:
                self.log.append(f"{step.__name__} of {[dim.name for dim in x.dims]}, {[dim.name for dim in y.dims]}")
                values.append(result)
        return values[-3:]

    def chosen(self, rng: np.random.Generator, names: Sequence[str]) -> Callable[..., Tensor]:
        """One of these functions, noted."""
        self.log.append(str(rng.choice(names)))
        return getattr(rf, self.log[-1])

    def alone(self, sequence: int) -> Program:
        """The same program with the data of one sequence only."""
        out = Program(self.seed, self.num_ops, [sequence])
        out.inputs = [_of_sequence(x, own, self.batch, sequence) for x, own in zip(self.inputs, out.inputs)]
        return out


def _drawn(rng: np.random.Generator, dims: tuple[Dim, ...]) -> Tensor:
    return rf.convert_to_tensor(rng.uniform(0.3, 1.5, [dim.extent for dim in dims]) * rng.choice([-1, 1]), dims=dims)


def _of_sequence(x: Tensor, own: Tensor, batch: Dim, sequence: int) -> Tensor:
    """The part of x that is of this sequence, with the dims of `own`."""
    values = x.numpy()
    for axis, (dim, new) in enumerate(zip(x.dims, own.dims)):
        part = slice(sequence, sequence + 1) if dim is batch else slice(new.extent)
        values = values[(slice(None),) * axis + (part,)]
    return rf.convert_to_tensor(values.copy(), dims=own.dims)


Step = Callable[..., Tensor | None]
_STEPS: list[Step] = []


def _step(times: int = 1) -> Callable[[Step], Step]:
    def register(fn: Step) -> Step:
        _STEPS.extend([fn] * times)
        return fn

    return register


def _fits(x: Tensor, y: Tensor) -> bool:
    return set(y.dims) <= set(x.dims) or set(x.dims) <= set(y.dims)


@_step(4)
def _unary(p: Program, rng: Any, x: Tensor, *_: Any) -> Tensor:
    return p.chosen(rng, _UNARY)(x)


@_step(3)
def _of_abs(p: Program, rng: Any, x: Tensor, *_: Any) -> Tensor:
    return p.chosen(rng, _OF_ABS)(rf.abs(x))


@_step()
def _of_own_size(p: Program, rng: Any, x: Tensor, *_: Any) -> Tensor:
    return x / rf.abs(x)


@_step()
def _power(p: Program, rng: Any, x: Tensor, y: Tensor, *_: Any) -> Tensor | None:
    exponents = (2, 3, 0.5, -1, y)
    exponent = exponents[rng.integers(len(exponents))]
    return rf.abs(x) ** exponent if not isinstance(exponent, Tensor) or _fits(x, y) else None


@_step()
def _number(p: Program, rng: Any, x: Tensor, *_: Any) -> Tensor:
    return (x + 1, x * 0.5, 1 - x, 1 / x, x % 0.7, 2**x, x / 3)[rng.integers(7)]


@_step(5)
def _binary(p: Program, rng: Any, x: Tensor, y: Tensor, *_: Any) -> Tensor | None:
    op = p.chosen(rng, _BINARY)
    return op(*((x, y) if rng.random() < 0.5 else (y, x))) if _fits(x, y) else None


@_step(2)
def _gate(p: Program, rng: Any, x: Tensor, y: Tensor, weight: Tensor, gate: Tensor) -> Tensor | None:
    if p.feat not in x.dims or p.feat not in y.dims or not _fits(x, y):
        return None
    share = rf.sigmoid(gate)
    return share * x + (1 - share) * y


@_step()
def _where(p: Program, rng: Any, x: Tensor, y: Tensor, *_: Any) -> Tensor | None:
    return rf.where(x > y, x, y * y) if _fits(x, y) else None


@_step(2)
def _reduced(p: Program, rng: Any, x: Tensor, *_: Any) -> Tensor | None:
    axis = (p.time, p.source, p.feat)[rng.integers(3)]
    kind = ("sum", "mean", "max", "min", "logsumexp")[rng.integers(5)]
    return rf.reduce(x, mode=kind, axis=axis) if axis in x.dims else None


@_step(2)
def _softmax(p: Program, rng: Any, x: Tensor, *_: Any) -> Tensor | None:
    axis, log = (p.time, p.source, p.feat)[rng.integers(3)], rng.random() < 0.3
    return (rf.log_softmax if log and axis is p.feat else rf.softmax)(x, axis=axis) if axis in x.dims else None


@_step()
def _pooled(p: Program, rng: Any, x: Tensor, y: Tensor, weight: Tensor, gate: Tensor) -> Tensor | None:
    """Softmax pooling over time."""
    if p.time not in x.dims or p.feat not in x.dims:
        return None
    return rf.matmul(rf.softmax(rf.reduce_sum(x * gate, axis=p.feat), axis=p.time), x, reduce=p.time)


@_step()
def _running_sum(p: Program, rng: Any, x: Tensor, *_: Any) -> Tensor | None:
    return rf.cumsum(x, spatial_dim=p.time) if p.time in x.dims else None


@_step(2)
def _linear(p: Program, rng: Any, x: Tensor, y: Tensor, weight: Tensor, gate: Tensor) -> Tensor | None:
    if p.feat not in x.dims:
        return None
    out = rf.matmul(x, weight, reduce=p.feat)
    return rf.reduce_sum(out * out, axis=p.out) if rng.random() < 0.3 else rf.matmul(rf.tanh(out), weight, reduce=p.out)


@_step()
def _product(p: Program, rng: Any, x: Tensor, y: Tensor, *_: Any) -> Tensor | None:
    axis = (p.time, p.feat)[rng.integers(2)]
    return rf.matmul(x, y, reduce=axis) if axis in x.dims and axis in y.dims else None


@_step()
def _norm(p: Program, rng: Any, x: Tensor, y: Tensor, weight: Tensor, gate: Tensor) -> Tensor | None:
    if p.feat not in x.dims:
        return None
    norm = (rf.LayerNorm, rf.RMSNorm)[rng.integers(2)](p.feat)
    return norm(x) if rng.random() < 0.5 else rf.normalize(x, axis=p.time if p.time in x.dims else p.feat)


@_step()
def _length(p: Program, rng: Any, x: Tensor, *_: Any) -> Tensor | None:
    """Each frame over its Euclidean length."""
    return x / rf.sqrt(rf.reduce_sum(x * x, axis=p.feat)) if p.feat in x.dims else None


@_step()
def _attention(p: Program, rng: Any, x: Tensor, y: Tensor, *_: Any) -> Tensor | None:
    if not {p.batch, p.time, p.feat} <= set(x.dims) or not {p.batch, p.source, p.feat} <= set(y.dims):
        return None
    query, keys = (rf.replace_dim(v, in_dim=p.feat, out_dim=_KEY)[0] for v in (x, y))
    return rf.dot_attention(query, keys, y, key_dim=_KEY, axis=p.source) if p.source not in x.dims else None


_KEY = Dim(2, name="key")


@_step()
def _moved(p: Program, rng: Any, x: Tensor, *_: Any) -> Tensor | None:
    """Ops that only move values."""
    kind = rng.integers(5)
    if p.time in x.dims and kind < 3:
        if kind == 0:
            return rf.reverse_sequence(x, axis=p.time)
        if kind == 1:
            return rf.shift_right(x, axis=p.time, pad_value=0.0)
        return rf.gather(x, indices=rf.last_frame_position_of_dim(p.time), axis=p.time)
    if p.feat in x.dims:
        return rf.gather(x, indices=1, axis=p.feat)
    return x.copy_transpose(x.dims[::-1])


@_step()
def _steps(p: Program, rng: Any, x: Tensor, y: Tensor, weight: Tensor, gate: Tensor) -> Tensor | None:
    """A recurrence, in one of the faces of a loop."""
    if set(x.dims) != {p.batch, p.time, p.feat}:
        return None
    kind = rng.integers(4)
    first = rf.zeros((p.batch, p.feat), dtype="float64")

    def advance(frame: Tensor, state: Tensor) -> Tensor:
        return rf.tanh(frame * gate + state * 0.5) + rf.log(rf.abs(frame * gate))

    if kind == 2:
        body = lambda frame, state: (advance(frame, state),) * 2  # noqa: E731
        return rf.scan(spatial_dim=p.time, xs=x, ys=first, initial=first, body=body)[0]
    loop = rf.Loop(axis=p.time)
    loop.state.h = first
    if kind in (0, 3):
        for index in loop:
            frame = loop.unstack(x) if kind == 0 else rf.gather(x, indices=index, axis=p.time)
            loop.state.h = advance(frame, loop.state.h)
            out = loop.stack(loop.state.h)
    else:
        with loop:
            loop.state.h = advance(loop.unstack(x), loop.state.h)
            out = loop.stack(loop.state.h)
    return out
