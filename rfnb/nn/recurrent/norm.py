"""Layer normalization with the parameters of a recurrent unit."""

from __future__ import annotations

from rfnb.core.finite import finite_with
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor


@op
def layer_norm(x: Tensor, gain: Tensor, shift: Tensor | None, *, eps: float) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * gain + shift, over the dim of `gain`; {..., that dim}.

    Source: Ba et al. 2016, equation (4).
    """
    (axis,) = gain.dims
    if not x._finite:
        x = finite_with(x, gain)
    dims = (*(dim for dim in x.dims if dim is not axis), axis)
    raw = x.copy_transpose(dims)._raw
    out = new_tensor(x.backend.layer_norm_raw(raw, gain._raw, None if shift is None else shift._raw, eps), dims)
    out._feature_dim, out._finite = axis, x._finite
    return out
