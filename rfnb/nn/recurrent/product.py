"""Products of frames and states with the matrices of a recurrent unit."""

from __future__ import annotations

from rfnb.backends.registry import selected
from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.nn.init import Glorot
from rfnb.nn.module.parameter import Parameter
from rfnb.ops.concat import split
from rfnb.ops.default import get_default_device, get_default_float_dtype
from rfnb.ops.dims import dim_match_priority_when_needed, replace_dim
from rfnb.ops.gather import gather
from rfnb.ops.linear import linear


def matrix(in_dim: Dim, out_dim: Dim) -> Parameter:
    """A matrix {in, out}, Glorot uniform; of two equal dims the first one is its twin.

    In memory it is (out, in), which is what kernels of the backends want; so they get it without a copy.
    """
    backend, dims = selected(), (dim_match_priority_when_needed(in_dim, out_dim), out_dim)
    dtype, device = get_default_float_dtype(), get_default_device()
    raw = backend.full_raw((out_dim.extent, in_dim.extent), 0, dtype=dtype, device=device)
    weight = Parameter(dims, raw_tensor=backend.transpose_raw(raw, (1, 0)))
    weight.initial = Glorot()
    return weight


def product(source: Tensor, weight: Tensor, bias: Tensor | None = None, *, of: Dim) -> Tensor:
    """source weight + bias.

    Args:
        source: {..., of}, or int {...}, sparse over `of`: then rows of the weight.
        weight: {of or a dim in its place, out}; the first one is contracted.

    Returns:
        {..., out}, with feature_dim out.
    """
    rows = weight.dims[0]
    if source.sparse_dim is of:
        out = gather(weight, indices=source, axis=rows)
        out = out if bias is None else out + bias
    else:
        if rows is not of:
            source, _ = replace_dim(source, in_dim=of, out_dim=rows)
        out = linear(source, weight, bias, reduce=rows)
    out.feature_dim = weight.dims[1]
    return out


def kernel_parts(kernel: Tensor, in_dim: Dim, out_dim: Dim) -> tuple[Tensor, Tensor]:
    """A kernel {in + out, ...} as the rows of the input and those of the state, each with a twin in place of in and out."""
    rows = [in_dim.copy(match_priority=1), out_dim.copy(match_priority=1)]
    forward, recurrent = split(kernel, axis=kernel.dims[0], out_dims=rows)
    return forward, recurrent
