"""Linear and Embedding."""

from __future__ import annotations

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import DimError, dim_error
from rfnb.core.layout import PlanCache
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_text import missing_dim
from rfnb.nn.init import Glorot
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.ops.dims import dim_match_priority_when_needed
from rfnb.ops.gather import gather
from rfnb.ops.linear import linear
from rfnb.trace.probe import listening, probe


class Linear(Module):
    """x W + b, over the feature dim.

    Parameters:
        weight: {in, out}, Glorot uniform. If in_dim is out_dim, the input side is the twin `in_dim.copy(match_priority=1)`.
        bias: {out}, zero.
    """

    def __init__(self, in_dim: Dim, out_dim: Dim, *, with_bias: bool = True):
        self.in_dim, self.out_dim, self.with_bias = in_dim, out_dim, with_bias
        self._in = dim_match_priority_when_needed(in_dim, out_dim)
        self.weight = Parameter((self._in, out_dim))
        self.weight.initial = Glorot()
        self.bias = Parameter((out_dim,)) if with_bias else None

    def __call__(self, source: Tensor) -> Tensor:
        """{..., in} -> {..., out}, with feature_dim out.

        Raises:
            DimError: If source has no in_dim.
        """
        in_dim = self._in
        if in_dim is not self.in_dim:
            source = _replaced(source, self.in_dim, in_dim)
        try:
            out = linear(source, self.weight, self.bias, reduce=in_dim)
        except DimError:
            if self.in_dim in source.dims or in_dim in source.dims:
                raise
            raise missing_dim("Linear", source, self.in_dim, "source") from None
        out._feature_dim = self.out_dim
        return out


_twins = PlanCache()


@op(of="Linear")
def _replaced(source: Tensor, in_dim: Dim, twin: Dim) -> Tensor:
    try:
        dims = _twins[source.dims, in_dim]
    except KeyError:
        if in_dim not in source.dims:
            raise missing_dim("Linear", source, in_dim, "source") from None
        dims = _twins.make((source.dims, in_dim), _with_twin, source.dims, in_dim, twin)
    out = new_tensor(source._raw, dims)
    out._finite = source._finite
    return out


def _with_twin(dims: Dims, in_dim: Dim, twin: Dim) -> Dims:
    return tuple(twin if dim is in_dim else dim for dim in dims)


class Embedding(Module):
    """A lookup table with one vector per index.

    Parameters:
        weight: {in, out}, Glorot uniform. If in_dim is out_dim, the input side is the twin `in_dim.copy(match_priority=1)`.
    """

    def __init__(self, in_dim: Dim, out_dim: Dim):
        self.in_dim, self.out_dim = in_dim, out_dim
        self.weight = Parameter((dim_match_priority_when_needed(in_dim, out_dim), out_dim))
        self.weight.initial = Glorot()

    def __call__(self, source: Tensor) -> Tensor:
        """int {...}, sparse over in -> {..., out}, with feature_dim out.

        Raises:
            DimError: If source is sparse over another dim.

        Probes:
            tokens: ids, the source. Views take the labels of its dims from this.
        """
        if source.sparse_dim is not self.in_dim:
            sparse = source.sparse_dim.short_repr() if source.sparse_dim is not None else "none"
            raise dim_error(
                "Embedding: the indices are into another dim.",
                {"source": source, "sparse_dim": sparse, "in_dim": self.in_dim},
                "The sparse dim of the source says what its integers index.",
                f"source = rf.set_sparse_dim(source, {self.in_dim.name})",
            )
        if listening("tokens"):
            probe("tokens", ids=source)
        out = gather(self.weight, indices=source, axis=self.in_dim)
        out._feature_dim = self.out_dim
        out._finite = True  # rows of the table are finite, whatever the indices in the padding are
        return out
