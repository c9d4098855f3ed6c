"""A step over the frames of a dim, or until every sequence has ended, with a state that is carried along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.dim import Dim
from rfnb.core.errors import message
from rfnb.core.finite import around_step
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_text import shape_of
from rfnb.ops.default import copy_to_device
from rfnb.rec.loop import check_frames
from rfnb.rec.nested import leaves, map_nested, same_structure, structure_text, where_nested
from rfnb.rec.selection import align_host
from rfnb.rec.tensor_array import TensorArray
from rfnb.rec.while_loop import check_state


def scan(
    *,
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
        cond: (x, state) -> bool Tensor {cond_dims}: whether a sequence goes on. Read by the host.
        body: (x, state) -> (y, next state); y is any nested structure of Tensors, or None where there is no output.
        return_tensor_arrays: The outputs as they are in each step, not stacked; then their dims may differ (a beam in each step).
        max_seq_len: With `cond`: at most so many steps.

    Returns:
        The outputs {spatial_dim, ...} (TensorArrays with `return_tensor_arrays`), the last state, the spatial dim.

    Raises:
        ValueError: With neither spatial_dim nor cond; with both; with xs but no spatial_dim; or without any step and without `ys`.
        DimError: If the state changes its dims.
        TypeError: If cond does not give a bool Tensor.
    """
    _check_arguments(spatial_dim, xs, cond)
    check_frames("scan", spatial_dim)
    steps = _Steps(spatial_dim, cond_dims, cond, cond_before_body, max_seq_len)

    def array_of(y: Any) -> Any:
        """Nothing comes of what is no Tensor."""
        return TensorArray(y, _enable_delayed_check=return_tensor_arrays) if isinstance(y, Tensor) else None

    def with_entry(array: Any, y: Any) -> Any:
        return None if array is None else array.push_back(y)

    state, template = initial, ys
    arrays = None if ys is None else map_nested(array_of, ys)
    frames = None
    if xs is not None and spatial_dim is not None:
        axis = spatial_dim
        # What a sequence that has ended would do with NaN is not used, but 0 * NaN comes back as gradient.
        frames = map_nested(lambda x: TensorArray.unstack(x.copy_masked(0, dims=[axis]), axis=axis), xs)
    while True:
        x = map_nested(lambda array: array[steps.index], frames) if frames is not None and steps.may_go_on() else None
        if not steps.begin(x, state):
            break
        with steps.around_body():
            y, new = body(x, state)
        check_state(f"scan, step {steps.index}", state, new)
        active = steps.active_tensor(y, new)
        state = new if active is None else where_nested(new, state, condition=active)
        if steps.index == 0 and ys is None:
            template, arrays = y, map_nested(array_of, y)
        _check_outputs(steps.index, template, y)
        arrays = map_nested(with_entry, arrays, y)
        steps.end(x, state)
    dim = steps.finish()
    if steps.index == 0 and ys is None:
        raise ValueError(
            message("scan: no step was done.", [("spatial_dim", dim.short_repr()), ("ys", None)],
                    "Then nothing says what the outputs look like. Give an example of each:",
                    "rf.scan(..., ys=rf.Tensor(\"y\", dims=[...], dtype=\"float32\"))")
        )  # fmt: skip
    outputs = (
        arrays
        if return_tensor_arrays
        else map_nested(lambda array: None if array is None else array.stack(axis=dim), arrays)
    )
    return outputs, state, dim


def _check_outputs(step: int, before: Any, now: Any) -> None:
    kinds = [
        [(path, isinstance(leaf, Tensor)) for path, leaf in sorted(leaves(y), key=lambda item: item[0])]
        for y in (before, now)
    ]
    if not same_structure(before, now) or kinds[0] != kinds[1]:
        raise ValueError(
            message(f"scan, step {step}: the structure of the outputs changed.",
                    [("before", structure_text(before)), ("now", structure_text(now))],
                    "Every step gives the same outputs; None where there is none in any step.")
        )  # fmt: skip


def _check_arguments(spatial_dim: Dim | None, xs: Any, cond: Any) -> None:
    if (spatial_dim is None) == (cond is None) or (xs is not None and spatial_dim is None):
        raise ValueError(
            message("scan: how many steps?",
                    [("spatial_dim", spatial_dim and spatial_dim.short_repr()), ("cond", "given" if cond else None),
                     ("xs", "given" if xs is not None else None)],
                    "Either spatial_dim says it (and xs have that dim), or cond does in each step.",
                    "rf.scan(spatial_dim=time, xs=x, initial=..., body=...)")
        )  # fmt: skip


class _Steps:
    """Which sequences go on: by the lengths of a dim, or by a condition."""

    def __init__(self, spatial_dim: Dim | None, cond_dims: Any, cond: Any, before: bool, limit: int | Tensor | None):
        self.index = 0
        self._dim, self._cond, self._before = spatial_dim, cond, before
        self._limit = int(limit.numpy().max(initial=0)) if isinstance(limit, Tensor) else limit
        self._dims: tuple[Dim, ...] = spatial_dim.length_dims if spatial_dim else tuple(cond_dims or ())
        self._know_dims = spatial_dim is not None or cond_dims is not None
        self._active: np.ndarray | None = None  # over _dims; None: all
        shape = [dim.extent for dim in self._dims]
        self._lengths = np.zeros(shape, np.int32)

    def may_go_on(self) -> bool:
        end = self._limit if self._dim is None else self._dim.extent
        return end is None or self.index < end

    def begin(self, x: Any, state: Any) -> bool:
        """Whether there is another step."""
        if not self.may_go_on() or (self._know_dims and self._lengths.size == 0):
            return False  # the latter: a batch of nothing needs no step
        if self._dim is not None:
            lengths = self._dim.lengths
            self._active = None if lengths is None or not self._dims else self.index < lengths
            return True
        if self._before:
            self._ask(x, state)
        return self._active is None or bool(self._active.any())

    def around_body(self) -> Any:
        some = self._active is not None and not self._active.all()
        return around_step(self._dims, ~self._active if some and self._active is not None else None)

    def end(self, x: Any, state: Any) -> None:
        self._lengths = self._lengths + (np.int32(1) if self._active is None else self._active.astype(np.int32))
        self.index += 1
        if self._cond is not None and not self._before:
            self._ask(x, state)

    def _ask(self, x: Any, state: Any) -> None:
        answer = self._cond(x, state)
        if not isinstance(answer, Tensor) or answer.dtype != "bool":
            got = f"{shape_of(answer)} {answer.dtype}" if isinstance(answer, Tensor) else type(answer).__name__
            raise TypeError(
                message(f"scan, step {self.index}: cond gives no bool Tensor.", [("cond", got)],
                        "It says for each sequence whether it goes on.", "cond=lambda x, state: state.length < limit")
            )  # fmt: skip
        if not self._know_dims:
            self._dims, self._know_dims = answer.dims, True
            lengths = np.zeros([dim.extent for dim in answer.dims], np.int32) + self._lengths
            self._lengths = lengths
        now = np.broadcast_to(
            align_host(answer.copy_masked(False).numpy(), answer.dims, self._dims), self._lengths.shape
        )
        self._active = now if self._active is None else self._active & now

    def active_tensor(self, *values: Any) -> Tensor | None:
        """The sequences that this step counts for; None: all."""
        if self._active is None or self._active.all():
            return None
        like = next((leaf for _, leaf in leaves(values) if isinstance(leaf, Tensor)), None)
        backend = registry.selected() if like is None else like.backend
        active = new_tensor(backend.from_numpy(self._active, dtype="bool", device="cpu"), self._dims)
        return active if like is None else copy_to_device(active, like.device)

    def finish(self) -> Dim:
        """The dim of the outputs."""
        if self._dim is not None:
            return self._dim
        raw = registry.selected().from_numpy(self._lengths, dtype="int32", device="cpu")
        return Dim(new_tensor(raw, self._dims), name="scan")
