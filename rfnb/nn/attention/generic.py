"""Attention with weights that were made before: by a softmax, with feedback, from an alignment."""

from __future__ import annotations

from typing import Never

from rfnb.core.dim import Dim
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import missing_dim
from rfnb.nn.attention.attended import attended
from rfnb.ops.gather import gather
from rfnb.ops.matmul import matmul
from rfnb.ops.operands import need_tensors


@op
def generic_attention(
    weights: Tensor, base: Tensor, *extra: Never, axis: Dim, auto_squeeze: bool = True, **unknown: Never
) -> Tensor:
    """The sum of the frames of `base`, each times its weight.

    Args:
        weights: {..., axis}. They are taken as they are: no softmax.
        base: {..., axis, features}
        axis: Summed over; its padding has no part in it.
        auto_squeeze: Static dims of size 1 that only weights has (a single head) are left out.

    Returns:
        {..., features}: the common dims (batch, heads), then the further dims of weights (query positions), then those of base.

    Raises:
        DimError: If axis is missing in weights or base.

    Probes:
        attention: weights {..., axis}.

    Source: Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate", equation (5).
    """
    need_tensors("generic_attention", weights, base)
    for label, tensor in (("weights", weights), ("base", base)):
        if axis not in tensor.dims:
            raise missing_dim("generic_attention", tensor, axis, label)
    if auto_squeeze:
        for dim in weights.dims:
            if dim.size == 1 and dim not in base.dims:
                weights = gather(weights, indices=0, axis=dim)
    weights = attended(weights, axis=axis, values=base)
    out = matmul(weights, base, reduce=axis)
    if base.feature_dim is not None and base.feature_dim in out.dims:
        out._feature_dim = base.feature_dim
    return out
