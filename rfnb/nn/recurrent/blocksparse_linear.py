"""A linear layer of which only some blocks of the matrix are there."""

from __future__ import annotations

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.recurrent.block_pattern import block_pattern
from rfnb.nn.recurrent.norm import layer_norm
from rfnb.nn.recurrent.product import matrix, product
from rfnb.ops.const import convert_to_tensor
from rfnb.ops.merge import merge_dims, split_dims
from rfnb.ops.where import where


class BlocksparseLinear(Module):
    """LN(x (W * M)) g + b: M is 1 in some blocks, 0 in the others; LN normalizes over out.

    The product is dense, with zeros in W.

    Args:
        block_size: Of the square blocks.
        connectivity, seed: See `block_pattern`.
        layer_norm: Whether there is LN and g.
        with_bias: Whether there is b.
        dense: All blocks are there, and the sizes need not be multiples of block_size.

    Parameters:
        W: {in, out}, Glorot uniform. mask: bool {blocks of in, blocks of out}, not trained; None if dense. g: {out}, one. b: {out}, zero.

    Raises:
        ValueError: If a size is no multiple of block_size, or there is no such pattern.
    """

    def __init__(
        self, in_dim: Dim, out_dim: Dim, *, block_size: int = 32, connectivity: int = 5, seed: int = 0,
        layer_norm: bool = True, with_bias: bool = True, dense: bool = False,
    ):  # fmt: skip
        self.in_dim, self.out_dim = in_dim, out_dim
        self.W = matrix(in_dim, out_dim)
        self.mask: Parameter | None = None
        if not dense:
            rows, columns = (_blocks(dim, block_size) for dim in (in_dim, out_dim))
            self._block_dims = [(rows, Dim(block_size, name="row")), (columns, Dim(block_size, name="column"))]
            pattern = block_pattern(rows.extent, columns.extent, connectivity=connectivity, seed=seed)
            self.mask = Parameter(
                (rows, columns), "bool", auxiliary=True, initial=convert_to_tensor(pattern, dims=(rows, columns))
            )
        self.g = Parameter((out_dim,), initial=1.0) if layer_norm else None
        self.b = Parameter((out_dim,)) if with_bias else None

    def weight(self) -> Tensor:
        """W * M {in, out}."""
        if self.mask is None:
            return self.W
        out: Tensor = self.W
        dims = self.W.dims
        for dim, parts in zip(dims, self._block_dims):
            out = split_dims(out, axis=dim, dims=parts)
        out = where(self.mask, out, 0.0)
        for dim, parts in zip(dims, self._block_dims):
            out, _ = merge_dims(out, dims=parts, out_dim=dim)
        return out.copy_transpose(dims)

    def __call__(self, source: Tensor, *, weight: Tensor | None = None) -> Tensor:
        """{..., in} -> {..., out}. `weight`: what `weight()` gives, if it is known."""
        out = product(
            source, self.weight() if weight is None else weight, None if self.g is not None else self.b, of=self.in_dim
        )
        return out if self.g is None else layer_norm(out, self.g, self.b, eps=1e-6)


def _blocks(dim: Dim, block_size: int) -> Dim:
    if dim.extent % block_size:
        raise value_error(
            "BlocksparseLinear: the blocks do not divide a dim.",
            [("dim", dim.short_repr()), ("block_size", block_size)],
            "Each dim is a multiple of the size of a block.",
            f"Dim({-(-dim.extent // block_size) * block_size}, name={dim.name!r})",
        )
    return Dim(dim.extent // block_size, name=f"blocks of {dim.name}")


def copy_leading_blocks(small: np.ndarray, into: np.ndarray, *, blocks: int) -> np.ndarray:
    """`into` (rows, blocks * n) with the values of `small` (fewer rows, blocks * n0) in the leading rows and the leading part of each
    block of columns; or both without rows."""
    out = into.copy().reshape(*into.shape[:-1], blocks, -1)
    values = small.reshape(*small.shape[:-1], blocks, -1)
    out[tuple(slice(size) for size in values.shape)] = values
    return out.reshape(into.shape)
