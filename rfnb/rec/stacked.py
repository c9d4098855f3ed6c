"""The values of all steps as one tensor."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from rfnb.backends import registry
from rfnb.core.beam_dim import is_beam
from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, dim_error
from rfnb.core.tensor import Tensor, new_tensor, same_dtype
from rfnb.core.tensor_checks import check_lengths_here
from rfnb.core.tensor_text import shape_of
from rfnb.core.two_devices import of_devices, rows_of, target_of
from rfnb.ops.dims import replace_dim_v2
from rfnb.ops.expand import expand_dims
from rfnb.ops.frames import from_frames
from rfnb.ops.pad import pad
from rfnb.rec.output import end_handle
from rfnb.rec.selection import align_host


def stacked(values: Sequence[Tensor], *, axis: Dim, loop_name: str, later: Sequence[Dim] = ()) -> Tensor:
    """{axis, ...} from the value of each step.

    A dim that each step has another of (a history that grows) is one dim in the result, with lengths over axis; what is shorter
    than the longest is padded with zeros.

    Args:
        values: One at least.
        later: Dims that a value may get in a later step: it is the same for all their entries before.

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
    """The value with zeros at the end of `dim`, which is called `longest` then; its frames are those of the raw array."""
    here = Dim(dim.extent, name=dim.name)
    plain = replace_dim_v2(value.copy_masked(0), in_dim=dim, out_dim=here)
    return pad(plain, axes=[here], padding=[(0, longest.extent - here.extent)], out_dims=[longest])[0]


def _plain_name(dim: Dim) -> str:
    """A history may be called keys+1, keys+2, ... in the steps."""
    return re.sub(r"\+\d+$", "", dim.name)


def _joined(dims: Sequence[Dim], axis: Dim, name: str) -> Dim:
    """A dim with the length of each of the dims in its step."""
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
    """All values with all of these dims."""
    if all(value.dims is values[0].dims for value in values) and all(dim in values[0].dims for dim in dims):
        return list(values)
    return [expand_dims(value, [dim for dim in dims if dim not in value.dims]) for value in values]


def fill(handle: Tensor, value: Tensor) -> None:
    """Let a handle that was given out become the finished tensor."""
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
