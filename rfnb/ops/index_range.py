"""Which of some indices are out of range, and the errors for that and for what is no index. Reads values: for errors and for debugging."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import message
from rfnb.core.place import line_of, user_frame
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of

_ON_HOST = ("cpu", None)


def check_range(op: str, role: str, indices: Tensor, dim: Dim, *, kernel: bool = False) -> None:
    """Raise an IndexError for the first real index that is not in `dim`, and of a ragged dim in its sequence.

    Args:
        kernel: Also for indices in the padding, which a kernel reads.
    """
    values = indices.numpy()
    limits = _limits(dim, indices.dims)
    bad = (values < 0) | (values >= limits)
    real = np.ones(values.shape, bool)
    for other in indices.dims:
        if other.has_padding() and all(over in indices.dims for over in other.length_dims):
            real &= other.host_mask(indices.dims)
    if (bad & real).any():
        raise _out_of_range(op, role, indices, dim, bad & real, limits, values, kernel=kernel)
    past = bad & ((values < 0) | (values >= dim.extent))
    if kernel and past.any():
        raise _out_of_range(op, role, indices, dim, past, np.asarray(dim.extent), values, in_padding=True)


def _out_of_range(
    op: str,
    role: str,
    indices: Tensor,
    dim: Dim,
    bad: np.ndarray,
    limits: np.ndarray,
    values: np.ndarray,
    in_padding: bool = False,
    kernel: bool = False,
) -> IndexError:
    place = tuple(int(axis[0]) for axis in np.nonzero(bad))
    where = ", ".join(f"{each.name} {index}" for each, index in zip(indices.dims, place)) or "the only one"
    limit = int(np.broadcast_to(limits, values.shape)[place])
    user, _ = user_frame(1)
    rows = [
        (role, shape_of(indices)),
        ("into", dim.short_repr()),
        ("first at", f"{where}, in the padding" if in_padding else where),
        ("value", int(values[place])),
        ("allowed", f"0 to {limit - 1}" if limit else "none: it is empty"),
    ]
    rule, fix = "Indices count from 0, and real frames index real entries.", None
    if in_padding:
        rule = "Indices in the padding are read too, though nothing comes of it. Give them one that there is:"
        fix = f"{role} = {role}.copy_masked(0)"
    elif kernel:
        rule, fix = f"{rule} To have every op checked, on a GPU too:", _DEBUG
    return IndexError(
        message(f"{op}, called in {line_of(user)}: {int(bad.sum())} of the {role} out of range.", rows, rule, fix)
    )


_DEBUG = "with rf.debug(indices=True):"


def check_integers(op: str, role: str, indices: Tensor, *operands: tuple[str, Tensor]) -> None:
    """Raise a TypeError unless the indices are integers."""
    if not indices.dtype.startswith(("int", "uint")):
        raise TypeError(
            message(
                f"{op}: the {role} {'is' if role == 'target' else 'are'} {indices.dtype}.",
                [(label, shape_of(tensor)) for label, tensor in operands] + [(role, f"{shape_of(indices)} {indices.dtype}")],
                "Indices are integers.",
                f'rf.cast({role}, "int64")' + ("       # or rf.masked_select(source, mask=..., dims=[...])" if op == "gather" else ""),
            )
        )  # fmt: skip


def explain_indices(
    error: Exception, op: str, role: str, indices: Tensor, dim: Dim, *operands: tuple[str, Tensor]
) -> None:
    """Raise an error that says more than that of a kernel which got these indices; nothing, if there is no more to say."""
    check_integers(op, role, indices, *operands)
    if indices.device in _ON_HOST:
        check_range(op, role, indices, dim, kernel=True)
    elif "device-side assert" in str(error):  # the GPU computes nothing after that, so the values cannot be read
        rows: list[tuple[str, Any]] = [(role, f"{shape_of(indices)} on {indices.device}"), ("into", dim.short_repr())]
        rule = "A GPU finds out later than the op that was called, and computes nothing any more. Start again, and check every op:"
        raise IndexError(message(f"{op}: some of the {role} may be out of range.", rows, rule, _DEBUG)) from None


def _limits(dim: Dim, dims: tuple[Dim, ...]) -> np.ndarray:
    """How many entries there are for each index; broadcasts against `dims`."""
    if dim.lengths is None or not set(dim.length_dims) <= set(dims):
        return np.asarray(dim.extent)
    own = dim.length_dims
    order = sorted(range(len(own)), key=lambda axis: dims.index(own[axis]))
    return dim.lengths.transpose(order).reshape([each.extent if each in own else 1 for each in dims])
