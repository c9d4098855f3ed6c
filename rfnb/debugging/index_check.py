"""Checks that indices are within the dim that they index into, at the ops that take indices."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from rfnb.core import intercept
from rfnb.core.block import block
from rfnb.core.dim import Dim
from rfnb.core.intercept import Intercepted, outside
from rfnb.core.op import Op
from rfnb.core.place import in_package
from rfnb.core.tensor import Tensor
from rfnb.ops.ctc import ctc_best_path, ctc_loss
from rfnb.ops.gather import gather
from rfnb.ops.index_range import check_range
from rfnb.ops.loss import cross_entropy
from rfnb.ops.one_hot import sparse_to_dense
from rfnb.ops.scatter import (
    scatter,
    scatter_argmax,
    scatter_count,
    scatter_logmeanexp,
    scatter_logsumexp,
    scatter_mean,
)

# op -> its arguments with the indices and with the dim that they index; that dim is else the sparse_dim
_ARGUMENTS: dict[Any, tuple[str, str]] = {
    gather: ("indices", "axis"),
    **dict.fromkeys(
        [scatter, scatter_argmax, scatter_count, scatter_logmeanexp, scatter_logsumexp, scatter_mean],
        ("indices", "out_dim"),
    ),
    **dict.fromkeys([ctc_loss, ctc_best_path], ("targets", "")),
    sparse_to_dense: ("labels", "axis"),
    cross_entropy: ("target", "axis"),
}


@block
def check_indices() -> Iterator[None]:
    """While this is active, these ops check their indices first (in this context)."""
    with Intercepted(_checked, _ARGUMENTS):
        yield


def _checked(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    role, dim_role = _ARGUMENTS[op.fn]
    # Only `sparse_to_dense` takes its indices by position.
    indices = kwargs.get(role, args[0] if args and op.fn is sparse_to_dense else None)
    if isinstance(indices, Tensor) and indices.raw_tensor is not None and not kwargs.get("clip_to_valid"):
        dim = kwargs.get(dim_role) or indices.sparse_dim
        if dim is not None and dim not in indices.dims and indices.dtype.startswith(("int", "uint")):
            if _is_given(indices) and not _are_last_frames(indices, dim):
                check_range(op.name, role, indices, dim)
    return outside(op)(*args, **kwargs)


def _is_given(indices: Tensor) -> bool:
    """Whether indices are from outside: ops and layers pass on what they are given, and know what they do with what they compute, as
    a place in a sequence without frames that they mask afterwards."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename in _HANDLING and frame.f_back is not None:
        frame = frame.f_back
    code = frame.f_code
    if not in_package(code):
        return True
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return any(frame.f_locals.get(name) is indices for name in arguments)


def _are_last_frames(indices: Tensor, dim: Dim) -> bool:
    """Whether they are what `last_frame_position_of_dim` gives, which is 0 for a sequence without frames."""
    if dim.lengths is None or indices.dims != dim.length_dims:
        return False
    same = indices.numpy() == np.maximum(dim.lengths - 1, 0)
    for over in indices.dims:
        if over.has_padding():
            same = same | ~over.host_mask(indices.dims)
    return bool(same.all())


_HANDLING = (__file__, intercept.__file__)
