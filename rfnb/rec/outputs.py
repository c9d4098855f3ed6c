"""The outputs of a loop: everything that `stack` and `last` collect from its steps, and its values for all steps as one tensor."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from rfnb.backends import registry
from rfnb.core.beam_dim import is_beam
from rfnb.core.device_errors import of_devices, rows_of, target_of
from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, dim_error, value_error
from rfnb.core.pickling import NotPicklable
from rfnb.core.tensor import Tensor, new_tensor, same_dtype
from rfnb.core.tensor_checks import check_lengths_here
from rfnb.core.tensor_text import shape_of
from rfnb.ops.const import zeros_like
from rfnb.ops.dims import replace_dim_v2
from rfnb.ops.expand import expand_dims
from rfnb.ops.frames import from_frames
from rfnb.ops.pad import pad
from rfnb.rec.ended_states import kept
from rfnb.rec.ends import Ends
from rfnb.rec.output import Output, end_handle
from rfnb.rec.selection import align_host, pick
from rfnb.rec.selections import Selections
from rfnb.trace.probe import listening, probe


class Outputs(NotPicklable):
    """The outputs of a loop, in the order of the calls in a step.

    Args:
        axis: The dim of the loop, which has its lengths when the loop is done.
        ends: Of the loop.
    """

    def __init__(self, axis: Dim, ends: Ends, selections: Selections, loop_name: str):
        self.all: list[Output] = []
        self._axis, self._ends, self._selections, self._loop_name = axis, ends, selections, loop_name
        self._calls = 0
        self._index = 0

    def begin(self, index: int) -> None:
        """Begin step `index`."""
        self._index, self._calls = index, 0

    def next(self) -> Output | None:
        """The output for the next call in this step; None if there is none yet."""
        if self._calls < len(self.all):
            self._calls += 1
            return self.all[self._calls - 1]
        if self._index > 0:
            raise self._other_calls("one more stack or last", f"at least {len(self.all) + 1}")
        return None

    def new(self, handle: Tensor, last: bool) -> Output:
        """Add an output, in the first step."""
        self.all.append(Output(handle, last))
        self._calls += 1
        return self.all[-1]

    def all_given(self) -> None:
        """Note that this step has filled the outputs itself."""
        self._calls = len(self.all)

    def check_complete(self) -> None:
        """Raise a ValueError if this step collected fewer values than the first."""
        if self._calls != len(self.all):
            raise self._other_calls("fewer stack or last calls", str(self._calls))

    def _other_calls(self, what: str, count: str) -> ValueError:
        return value_error(
            f'Loop "{self._loop_name}", step {self._index}: {what} than in step 0.',
            [("calls in step 0", len(self.all)), (f"calls in step {self._index}", count)],
            "Every step collects the same values, in the same order. Call it outside of any `if`, with 0 for unwanted values:",
            "out = loop.stack(rf.where(wanted, value, 0.0))",
        )

    def commit(self, active: Tensor | None) -> None:
        """End the step."""
        for output in self.all:
            if output.last:
                self._update_last(output, active)

    def any_value(self) -> Tensor | None:
        """Some value of this step, or None."""
        return next((output.values[-1] for output in self.all if output.values), None)

    def no_step(self) -> None:
        """Mark the step as a dry run: its values only show what real steps would collect."""
        selection = self._selections.now
        if selection is not None:
            for output in self.all:
                output.values[:] = map(selection.to_carried, output.values)

    def finish(self) -> None:
        """Fill the handles."""
        for output in self.all:
            result = output.result
            if output.last:
                result = self._value_without_steps(output) if output.last_value is None else output.last_value
            elif result is None:
                result = self.stacked(output)
            if result is not None:
                fill(output.handle, result)
                if result.sparse_dim is not None and listening():
                    probe(
                        "tokens", ids=result, written=True
                    )  # what was written labels the steps, as what was read does

    def close(self) -> None:
        """Release everything but the handles."""
        self.all.clear()

    def stacked(self, output: Output) -> Tensor | None:
        """{axis, ...} from the values of all steps, along the paths of the hypotheses; None without values."""
        last = self._selections.last if self._selections.steps else None  # a recorded loop may make no step
        once = output.first_and_further()
        if once is not None:
            first, further = once
            paths = None if last is None else self._selections.paths([first])
            if last is None or paths is not None:
                out = from_frames([first], axis=self._axis, like=first, further=further)
                return out if paths is None else paths.along(out)
        values = output.values
        if not values:
            return None
        paths = None if last is None else self._selections.paths(values)
        if paths is not None:
            return paths.along(stacked(values, axis=self._axis, loop_name=self._loop_name))
        if last is not None:
            values, positions, position_dims = self._selections.back(values)
            # Before the first choice a value has no beam: it is the same for all hypotheses.
            different = dict.fromkeys(value.dims for value in values)
            values = expanded(values, list({dim: None for dims in different for dim in dims if is_beam(dim)}))
        first = values[0]
        later = self._ends.dims if output.inner else ()
        out = stacked(values, axis=self._axis, loop_name=self._loop_name, later=later)
        values = values[: self._axis.extent]  # without the ending frame there may be one step more than frames
        if not values:
            return out
        if last is None or last.carried not in first.dims:
            return out
        host = positions[: len(values)]
        raw = first.backend.from_numpy(host, dtype="int64", device=first.device)
        index = new_tensor(raw, (self._axis, *position_dims))
        return pick(out, index, last.carried, last.carried)

    def _update_last(self, output: Output, active: Tensor | None) -> None:
        value, before = output.values.pop(), output.last_value
        selection = self._selections.now
        if selection is not None:
            value, before = selection.to_carried(value), selection.to_carried(before)
        if active is not None:  # a sequence without any step has no last value: that of before the loop, else 0
            before = _before_any_step(output, value) if before is None else before
            self._check_last(before, value, active)
            value = kept(active, value, before)
        output.last_value = value

    def _check_last(self, before: Tensor, value: Tensor, active: Tensor) -> None:
        if set(before.dims) - set(value.dims) - set(active.dims) or before.dtype != value.dtype:
            raise dim_error(
                f'Loop "{self._loop_name}", step {self._index}: a last value changed its dims or dtype.',
                {"before": f"{shape_of(before)} {before.dtype}", "now": f"{shape_of(value)} {value.dtype}"},
                "Each sequence keeps the value of its own last step, so it has the same dims and dtype in every step.",
            )

    def _value_without_steps(self, output: Output) -> Tensor | None:
        """The last value of a recorded loop that runs no steps."""
        return _before_any_step(output, output.values[-1]) if output.values else None


def _before_any_step(output: Output, like: Tensor) -> Tensor:
    return zeros_like(like) if output.initial is None else output.initial


def stacked(values: Sequence[Tensor], *, axis: Dim, loop_name: str, later: Sequence[Dim] = ()) -> Tensor:
    """{axis, ...} from the value of each step.

    A dim that differs in each step (a growing history) becomes one dim in the result, with lengths over axis; shorter values are padded
    with zeros.

    Args:
        values: At least one.
        later: Dims that a value may gain in a later step; before that it is constant along them.

    Raises:
        DimError: If a value changes its dims otherwise, or its dtype.
    """
    first = values[0]
    dims = set(first.dims)
    if all([value.dims == first.dims or set(value.dims) == dims for value in values]):
        _check_dtypes(values, loop_name)
        return _joined_frames(values[: axis.extent], axis, first, loop_name)
    values = expanded(values, [dim for dim in later if any(dim in value.dims for value in values)])
    common = set.intersection(*(set(value.dims) for value in values))
    own = [[dim for dim in value.dims if dim not in common] for value in values]
    names = [_plain_name(dim) for dim in own[0]]
    fits = [sorted(map(_plain_name, dims)) == sorted(names) for dims in own]
    if len(set(names)) < len(names) or not all(fits) or any(map(is_beam, own[0])):
        check_lengths_here(f'Loop "{loop_name}"', [("first step", (axis, *first.dims))], axis)
        raise _changed(values, fits.index(False) if False in fits else 1, loop_name)
    _check_dtypes(values, loop_name)
    values, own = values[: axis.extent], own[: axis.extent]
    parts = []
    for name in names:
        each = [next(dim for dim in dims if _plain_name(dim) == name) for dims in own]
        longest = Dim(max((dim.extent for dim in each), default=0), name=name)
        values = [_padded(value, dim, longest) for value, dim in zip(values, each, strict=True)]
        parts.append((longest, _joined(each, axis, name)))
    out = _joined_frames(values, axis, values[0] if values else first, loop_name)
    for longest, joined in parts:
        out = replace_dim_v2(out, in_dim=longest, out_dim=joined) if values else out
    return out


def _padded(value: Tensor, dim: Dim, longest: Dim) -> Tensor:
    """The value padded with zeros at the end of `dim`, renamed to `longest`; the frames come from the raw array."""
    here = Dim(dim.extent, name=dim.name)
    plain = replace_dim_v2(value.copy_masked(0), in_dim=dim, out_dim=here)
    return pad(plain, axes=[here], padding=[(0, longest.extent - here.extent)], out_dims=[longest])[0]


def _plain_name(dim: Dim) -> str:
    """The base name of a history that is called keys+1, keys+2, ... in the steps."""
    return re.sub(r"\+\d+$", "", dim.name)


def _joined(dims: Sequence[Dim], axis: Dim, name: str) -> Dim:
    """A dim that has, in each step, the length of that step's dim."""
    sizes = {dim.size for dim in dims}
    if len(sizes) == 1 and None not in sizes:
        return Dim(sizes.pop(), name=name, kind=dims[0].kind)
    over = tuple(dict.fromkeys(other for dim in dims for other in dim.length_dims))
    shape = [dim.extent for dim in over]
    lengths = [np.broadcast_to(align_host(_host(dim), dim.length_dims, over), shape) for dim in dims]
    raw = registry.selected().from_numpy(np.stack(lengths).astype(np.int32), dtype="int32", device="cpu")
    return Dim(new_tensor(raw, (axis, *over)), name=name, kind=dims[0].kind)


def _host(dim: Dim) -> np.ndarray:
    return np.asarray(dim.size if dim.lengths is None else dim.lengths, np.int32)


def _check_dtypes(values: Sequence[Tensor], loop_name: str) -> None:
    if all([type(value) is Tensor for value in values]):
        dtype_of = values[0].backend.dtype_key_raw
        if len({(type(value._raw), dtype_of(value._raw)) for value in values}) == 1:
            return
    other = next((step for step, value in enumerate(values) if not same_dtype(value, values[0])), None)
    if other is not None:
        raise _changed(values, other, loop_name)


def _joined_frames(values: Sequence[Tensor], axis: Dim, like: Tensor, loop_name: str) -> Tensor:
    try:
        return from_frames(values, axis=axis, like=like)
    except RuntimeError:
        devices = [str(value.device) for value in values]
        other = next((step for step, device in enumerate(devices) if device != devices[0]), None)
        if other is None:
            raise
        raise of_devices(
            f'Loop "{loop_name}": a stacked value changed its device.',
            [(f"step {i}", rows_of([("", values[i])])[0][1]) for i in (0, other)],
            "It is on the same device in every step. Copy it to that of the others first:",
            [f'loop.stack(rf.copy_to_device(y, "{target_of(devices)}"))'],
        ) from None


def _changed(values: Sequence[Tensor], step: int, loop_name: str) -> DimError:
    return dim_error(
        f'Loop "{loop_name}": a stacked value changed its dims or dtype.',
        [(f"step {i}", f"{shape_of(values[i])} {values[i].dtype}") for i in (0, step)],
        "It has the same dims and dtype in every step.",
    )


def expanded(values: Sequence[Tensor], dims: Sequence[Dim]) -> list[Tensor]:
    """All values, expanded to all of these dims."""
    if all(value.dims is values[0].dims for value in values) and all(dim in values[0].dims for dim in dims):
        return list(values)
    return [expand_dims(value, [dim for dim in dims if dim not in value.dims]) for value in values]


def fill(handle: Tensor, value: Tensor) -> None:
    """Turn a handle into the finished tensor."""
    end_handle(handle, type(value))
    if type(value) is not Tensor:  # of a step of a recorded loop around this one
        handle.__dict__.update(value.__dict__)
        return
    handle.dims = value.dims
    handle._raw = value._raw
    if value.sparse_dim is not None:
        handle.sparse_dim = value.sparse_dim
    if value.feature_dim is not None:
        handle._feature_dim = value.feature_dim
