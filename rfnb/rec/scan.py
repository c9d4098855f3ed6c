"""Runs a step over the frames of a dim, or until every sequence has ended, and carries a state along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Never

import numpy as np

from rfnb.backends import registry
from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import type_error, value_error
from rfnb.core.finite_padding import around_step
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_text import shape_of
from rfnb.core.tree import agree, map_nested, values_in
from rfnb.ops.frames import frames
from rfnb.rec.ends import EndsOfAxis
from rfnb.rec.hold import holding
from rfnb.rec.loop_stack import check_frames
from rfnb.rec.nested import structure_text, where_nested
from rfnb.rec.selection import align_host
from rfnb.rec.tensor_array import TensorArray, check_like
from rfnb.rec.thread_snapshot import ThreadSnapshot
from rfnb.rec.while_loop import check_state


def scan(
    *extra: Never,
    spatial_dim: Dim | None = None,
    cond_dims: Sequence[Dim] | None = None,
    cond_before_body: bool = True,
    initial: Any = None,
    xs: Any = None,
    ys: Any = None,
    cond: Callable[[Any, Any], Tensor] | None = None,
    body: Callable[[Any, Any], tuple[Any, Any]],
    max_seq_len: int | Tensor | None = None,
    return_tensor_arrays: bool = False,
    **unknown: Never,
) -> tuple[Any, Any, Dim]:
    """Run `body` step by step, carry its state, stack its outputs.

    Args:
        spatial_dim: The dim to run over; a ragged one ends for each sequence at its length. Default: a new one, whose lengths
            come from `cond`.
        cond_dims: The dims of what `cond` gives. Default: those of its first result.
        cond_before_body: Ask `cond` before each step (the first one too), else after it.
        initial: The state of the first step, any nested structure. Where a sequence has ended, it keeps its state, Dims included.
        xs: Nested structure of Tensors {..., spatial_dim}; each step gets their frames.
        ys: Tensors like the outputs of a step; only needed where there may be no step at all.
        cond: (x, state) -> bool Tensor {cond_dims}: whether a sequence continues. Read by the host.
        body: (x, state) -> (y, next state); y is any nested structure of Tensors, or None where there is no output.
        return_tensor_arrays: The outputs as they are in each step, not stacked; then their dims may differ (a beam in each step).
        max_seq_len: With `cond`: the maximum number of steps.

    Returns:
        The outputs {spatial_dim, ...} (TensorArrays with `return_tensor_arrays`), the last state, the spatial dim.

    Raises:
        ValueError: With neither spatial_dim nor cond; with both; with xs but no spatial_dim; or without any step and without `ys`.
        DimError: If the state changes its dims.
        TypeError: If cond does not give a bool Tensor.
    """
    _check_arguments(spatial_dim, xs, cond)
    check_frames("scan", spatial_dim)
    before = ThreadSnapshot()
    steps: _OverDim | _WhileCond
    if spatial_dim is not None:
        steps = _OverDim(spatial_dim)
        if xs is not None:
            xs = map_nested(lambda x: _Frames(frames(x, axis=spatial_dim)), xs)
    else:
        assert cond is not None
        steps = _WhileCond(cond, cond_dims, cond_before_body, max_seq_len)
    state, template, hold, held = initial, ys, holding(), False
    outputs = None if ys is None else map_nested(_Output, ys)
    try:
        while steps.may_go_on():
            x = None if xs is None else map_nested(steps.frame, xs)
            if not steps.begin(x, state):
                break
            if hold is not None:
                state, held = hold.step_of("scan", steps.index, state, steps), True
            try:
                with around_step(steps.dims, steps.ended_before):
                    y, new = body(x, state)
            except BaseException as error:
                before.note(error)
                before.restore()
                raise
            check_state(f"scan, step {steps.index}", state, new)
            active = steps.active((y, new))
            state = new if active is None else where_nested(new, state, condition=active)
            if steps.index == 0 and ys is None:
                template, outputs = y, map_nested(_Output, y)
            if hold is not None:
                steps.stacks = any(isinstance(leaf, Tensor) for leaf in values_in(y))
            if not agree(_both_tensors, template, y):
                raise _changed_outputs(steps.index, template, y)
            map_nested(_Output.check_and_add if not return_tensor_arrays else _Output.add, outputs, y)
            steps.end(x, state)
    finally:
        if hold is not None and held:
            hold.over("scan")
    dim = steps.finish()
    if steps.index == 0 and ys is None:
        raise value_error(
            "scan: no step has run.",
            {"spatial_dim": dim, "ys": None},
            "Then the form of the outputs is unknown. Give an example of each:",
            'rf.scan(..., ys=rf.Tensor("y", dims=[...], dtype="float32"))',
        )
    return map_nested(lambda out: out.finish(None if return_tensor_arrays else dim), outputs), state, dim


class _Frames:
    """The frames of one of xs; not a list, which would be part of the structure."""

    __slots__ = ("steps",)

    def __init__(self, steps: list[Tensor]):
        self.steps = steps


class _Output:
    """The values of one of ys; values that are not Tensors are dropped."""

    __slots__ = ("like", "values")

    def __init__(self, like: Any):
        self.like = like if isinstance(like, Tensor) else None
        self.values: list[Any] = []

    def add(self, y: Any) -> None:
        """Add the value of a step."""
        self.values.append(y)

    def check_and_add(self, y: Any) -> None:
        """The same, for values to be stacked."""
        if self.like is not None:
            check_like("push_back", self.like, y)
        self.values.append(y)

    def finish(self, axis: Dim | None) -> Any:
        """The values stacked along `axis`, or as a TensorArray if axis is None."""
        if self.like is None:
            return None
        array = TensorArray(self.like, None, axis is None, items=self.values)
        return array if axis is None else array.stack(axis=axis)


def _both_tensors(a: Any, b: Any) -> bool:
    return isinstance(a, Tensor) == isinstance(b, Tensor)


def _changed_outputs(step: int, before: Any, now: Any) -> ValueError:
    return value_error(
        f"scan, step {step}: the structure of the outputs changed.",
        {"before": structure_text(before), "now": structure_text(now)},
        "Every step gives the same outputs; None where there is none in any step.",
    )


def _check_arguments(spatial_dim: Dim | None, xs: Any, cond: Any) -> None:
    if (spatial_dim is None) == (cond is None) or (xs is not None and spatial_dim is None):
        raise value_error(
            "scan: how many steps?",
            {
                "spatial_dim": spatial_dim and spatial_dim.short_repr(),
                "cond": "given" if cond else None,
                "xs": "given" if xs is not None else None,
            },
            "Either spatial_dim determines it (and xs have that dim), or cond does in each step.",
            "rf.scan(spatial_dim=time, xs=x, initial=..., body=...)",
        )


class _GoingOn:
    """The sequences that have not ended.

    Attributes:
        index: The step.
        dims: What they are over.
        ended: The sequences that ended before it, on the host; None if none have.
        stacks: Whether values of each step are collected; None before the first one.
    """

    index = 0
    dims: Dims = ()
    ended: np.ndarray | None = None
    stacks: bool | None = None

    def ended_before(self) -> np.ndarray | None:
        """`ended`."""
        return self.ended


class _OverDim(_GoingOn):
    """Steps over the lengths of a dim."""

    def __init__(self, dim: Dim):
        self._dim, self._ends, self.dims = dim, EndsOfAxis(dim, 0), dim.length_dims
        # A batch of nothing needs no step.
        self._num_steps = dim.extent if all(over.extent for over in self.dims) else 0

    @property
    def host(self) -> np.ndarray | None:
        return self._ends.host

    def cannot_change(self, stacks: bool | None) -> str | None:
        return self._ends.cannot_change(stacks)

    def end_now(self, which: np.ndarray) -> None:
        self._ends.end_now(which)
        self.ended = self.host

    def goes_on_from(self, which: np.ndarray) -> bool:
        return self._ends.goes_on_from(which)

    def go_on(self, which: np.ndarray) -> None:
        self._ends.go_on(which)
        self.ended = self.host

    def may_go_on(self) -> bool:
        return self.index < self._num_steps

    def frame(self, x: _Frames) -> Tensor:
        return x.steps[self.index]

    def begin(self, x: Any, state: Any) -> bool:
        """True if there is another step."""
        self._ends.begin_step(self.index)
        self.ended = self._ends.host if self._ends.some else None
        return True

    def active(self, values: Any) -> Tensor | None:
        """The sequences that this step counts for; None means all."""
        return self._ends.end_step(self.index, lambda: _first_tensor(values))

    def end(self, x: Any, state: Any) -> None:
        self.index += 1

    def finish(self) -> Dim:
        """The dim of the outputs."""
        return self._dim


class _WhileCond(_GoingOn):
    """Steps until a condition is false."""

    def __init__(self, cond: Callable[[Any, Any], Tensor], dims: Any, before: bool, limit: int | Tensor | None):
        self._cond, self._before = cond, before
        self._limit = int(limit.numpy().max(initial=0)) if isinstance(limit, Tensor) else limit
        self.dims, self._know_dims = tuple(dims or ()), dims is not None
        self._lengths = np.zeros([dim.extent for dim in self.dims], np.int32)

    @property
    def host(self) -> np.ndarray | None:
        if not self._know_dims:
            return None
        return np.zeros(self._lengths.shape, bool) if self.ended is None else self.ended

    def cannot_change(self, stacks: bool | None) -> str | None:
        return None

    def end_now(self, which: np.ndarray) -> None:
        self.ended = which if self.ended is None else self.ended | which

    def goes_on_from(self, which: np.ndarray) -> bool:
        return bool((self._lengths[which] == self.index).all())

    def go_on(self, which: np.ndarray) -> None:
        assert self.ended is not None
        self.ended = self.ended & ~which

    def may_go_on(self) -> bool:
        # A batch of nothing needs no step.
        return (self._limit is None or self.index < self._limit) and not (self._know_dims and not self._lengths.size)

    def frame(self, x: _Frames) -> Tensor:
        raise AssertionError("xs come with a dim")

    def begin(self, x: Any, state: Any) -> bool:
        """True if there is another step."""
        if self._before:
            self._ask(x, state)
        return self.ended is None or not self.ended.all()

    def active(self, values: Any) -> Tensor | None:
        """The sequences that this step counts for; None means all."""
        if self.ended is None:
            return None
        like = _first_tensor(values)
        backend, device = (registry.selected(), None) if like is None else (like.backend, like.device)
        return new_tensor(backend.from_numpy(~self.ended, dtype="bool", device=device), self.dims)

    def end(self, x: Any, state: Any) -> None:
        self._lengths = self._lengths + (np.int32(1) if self.ended is None else (~self.ended).astype(np.int32))
        self.index += 1
        if not self._before:
            self._ask(x, state)

    def _ask(self, x: Any, state: Any) -> None:
        answer = self._cond(x, state)
        if not isinstance(answer, Tensor) or answer.dtype != "bool":
            got = f"{shape_of(answer)} {answer.dtype}" if isinstance(answer, Tensor) else type(answer).__name__
            raise type_error(
                f"scan, step {self.index}: cond gives no bool Tensor.",
                {"cond": got},
                "It says for each sequence whether it continues.",
                "cond=lambda x, state: state.length < limit",
            )
        if not self._know_dims:
            self.dims, self._know_dims = answer.dims, True
            self._lengths = np.zeros([dim.extent for dim in answer.dims], np.int32) + self._lengths
        ends = ~align_host(answer.copy_masked(False).numpy(), answer.dims, self.dims)
        ended = np.broadcast_to(ends, self._lengths.shape)
        ended = ended if self.ended is None else self.ended | ended
        self.ended = ended if ended.any() else None

    def finish(self) -> Dim:
        """The dim of the outputs, a new one."""
        raw = registry.selected().from_numpy(self._lengths, dtype="int32", device="cpu")
        return Dim(new_tensor(raw, self.dims), name="scan")


def _first_tensor(values: Any) -> Tensor | None:
    return next((leaf for leaf in values_in(values) if isinstance(leaf, Tensor)), None)
