"""LSTMs with block-sparse matrices, whose patterns of blocks come from scale-free random graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.recurrent.native_lstm import NativeLstm2
from rfnb.nn.recurrent.unit import RecUnit
from rfnb.nn.recurrent.unit_parts import gated, layer_norm, lstm_update, matrix, product
from rfnb.ops.concat import concat, split
from rfnb.ops.const import convert_to_tensor
from rfnb.ops.math import relu, sigmoid, tanh
from rfnb.ops.merge import merge_dims, split_dims
from rfnb.ops.where import where
from rfnb.rec.state import State


class BlocksparseLSTMCell(RecUnit):
    """`NativeLstm2` with block-sparse matrices: z = x_lin(x) + h_lin(h), with `BlocksparseLinear`; a bias in x_lin only.

    Args:
        seed: Seed of the block patterns.
        block_size, connectivity: See `BlocksparseLinear`.
        layer_norm: Normalise both products.
        fast_layer_norm: Accepted; it never changes a result.
        always_dense: Keep all blocks.

    Parameters:
        x.W: {in, 4 * out}, x.g, x.b: {4 * out}. h.W: {out, 4 * out}, h.g: {4 * out}. x.mask, h.mask: the block patterns.

    Raises:
        ValueError: If in_dim or out_dim is not a multiple of block_size, or there is no pattern for these sizes.

    Source: Gray et al. 2017, "GPU Kernels for Block-Sparse Weights".
    """

    state_parts = ("c", "h")

    def __init__(
        self, in_dim: Dim, out_dim: Dim, *, seed: int = 0, block_size: int = 32, connectivity: int = 5,
        layer_norm: bool = True, fast_layer_norm: bool | None = None, always_dense: bool = False,
    ):  # fmt: skip
        super().__init__(in_dim, out_dim)
        options: dict[str, Any] = {"block_size": block_size, "connectivity": connectivity, "layer_norm": layer_norm}
        gates = 4 * out_dim
        self.x = BlocksparseLinear(in_dim, gates, seed=_seed(seed, 0), dense=always_dense, **options)
        self.h = BlocksparseLinear(out_dim, gates, seed=_seed(seed, 1), dense=always_dense, with_bias=False, **options)

    def documented_parameters(self) -> dict[str, Parameter]:
        """W_x, W_h, b; g_x, g_h; mask_x, mask_h."""
        return {"b" if name == "x.b" else "_".join(reversed(name.split("."))): p for name, p in self.named_parameters()}

    def role_of(self, name: str) -> str:
        return "recurrent" if name == "h.W" else super().role_of(name)

    def transform_input(self, source: Tensor) -> Tensor:
        """x_lin(x): {..., in} -> {..., 4 * out}."""
        return self.x(source)

    def shared(self, state: State) -> Tensor:
        return self.h.weight()

    def advance(self, transformed: Tensor, state: State, shared: Tensor) -> tuple[Tensor, State, Any]:
        return lstm_update(
            transformed + self.h(state.h, weight=shared), state.c, order=NativeLstm2.order, out_dim=self.out_dim
        )

    def copy_from_native_lstm(self, native: NativeLstm2) -> None:
        """Copy the values of a `NativeLstm2` of at most this size into the leading rows, and the leading columns of each
        gate; other values do not change. Values outside the kept blocks have no effect.

        Raises:
            ValueError: If it is larger, or has no input projection.
        """
        pairs = [(native.W, self.x.W), (native.W_re, self.h.W), (native.b, self.x.b)]
        if any(a is None or b is None or any(x.extent > y.extent for x, y in zip(a.dims, b.dims)) for a, b in pairs):
            shapes = [["None" if x is None else shape_of(x) for x in pair] for pair in pairs]
            raise value_error(
                "copy_from_native_lstm: the parameters do not fit in.",
                [(name, " into ".join(pair)) for name, pair in zip(("W", "W_re", "b"), shapes)],
                "The native LSTM is not larger in any dim, and has an input projection.",
            )
        for small, large in pairs:
            assert small is not None and large is not None
            large.assign(copy_leading_blocks(small.numpy(), large.numpy(), blocks=4))


class BlocksparseMultiplicativeMultistepLSTMCell(RecUnit):
    """LSTM with block-sparse matrices whose gates see several layers over frame and state.

        u = step0(h) * x1(x);  u = relu(step1(u) + x2(x));  u = relu(step_d(u)) for d = 2 to depth - 1
        j = tanh(cell_in(u));  i, f, o = sigmoid(gate_in(u)), sigmoid(gate_forget(u)), sigmoid(gate_out(u))
        c' = c f + j i;  h' = tanh(c') o

    Args:
        depth: At least 2.
        dense_input_transform: x1 and x2 keep all blocks.
        seed, block_size, connectivity, layer_norm, fast_layer_norm, always_dense: See `BlocksparseLSTMCell`.

    Parameters:
        Of each `BlocksparseLinear` (x1, x2, step0, step1, ..., cell_in, gate_in, gate_forget, gate_out): W {in or out, out}, g, b
        {out}, mask; step0 and step1 have no b.

    Raises:
        ValueError: If depth is below 2, sizes are not multiples of block_size, or there is no pattern for them.

    Source: Krause et al. 2016, "Multiplicative LSTM for sequence modelling"; Gray et al. 2017, section 4.
    """

    state_parts = ("c", "h")

    def __init__(
        self, in_dim: Dim, out_dim: Dim, *, depth: int = 2, dense_input_transform: bool = False, seed: int = 0,
        block_size: int = 32, connectivity: int = 5, layer_norm: bool = True, fast_layer_norm: bool | None = None,
        always_dense: bool = False,
    ):  # fmt: skip
        super().__init__(in_dim, out_dim)
        if depth < 2:
            raise value_error(
                "BlocksparseMultiplicativeMultistepLSTMCell: not deep enough.",
                {"depth": depth},
                "The first two layers are the product and the sum with the frame.",
                "depth=2",
            )
        self.depth, self._two = depth, Dim(2 * out_dim.extent, name=f"2*{out_dim.name}")
        options: dict[str, Any] = {"block_size": block_size, "connectivity": connectivity, "layer_norm": layer_norm}
        self._gates = ("cell_in", "gate_in", "gate_forget", "gate_out")
        steps = [f"step{layer}" for layer in range(depth)]
        for site, name in enumerate(("x1", "x2", *steps, *self._gates)):
            of_input = name in ("x1", "x2")
            linear = BlocksparseLinear(
                in_dim if of_input else out_dim, out_dim, seed=_seed(seed, site),
                dense=always_dense or (of_input and dense_input_transform), with_bias=name not in ("step0", "step1"),
                **options,
            )  # fmt: skip
            setattr(self, name, linear)

    def documented_parameters(self) -> dict[str, Parameter]:
        """W_x1, b_x1, g_x1, mask_x1, and so on for each of the linear layers."""
        return {"_".join(reversed(name.split("."))): parameter for name, parameter in self.named_parameters()}

    def role_of(self, name: str) -> str:
        return "recurrent" if name.endswith(".W") and not name.startswith("x") else super().role_of(name)

    def transform_input(self, source: Tensor) -> Tensor:
        """x1(x) and x2(x): {..., in} -> {..., 2 * out}."""
        parts = [(linear(source), self.out_dim) for linear in (self.get_deep("x1"), self.get_deep("x2"))]
        out, _ = concat(*parts, out_dim=self._two)
        out.feature_dim = self._two
        return out

    def shared(self, state: State) -> dict[str, Tensor]:
        return {name: child.weight() for name, child in self.named_children() if name[0] != "x"}  # type: ignore[attr-defined]

    def advance(self, transformed: Tensor, state: State, shared: dict[str, Tensor]) -> tuple[Tensor, State, Any]:
        def linear(name: str, value: Tensor) -> Tensor:
            return getattr(self, name)(value, weight=shared[name])

        x1, x2 = split(transformed, axis=self._two, out_dims=[self.out_dim] * 2)
        u = relu(linear("step1", linear("step0", state.h) * x1) + x2)
        for layer in range(2, self.depth):
            u = relu(linear(f"step{layer}", u))
        j, i, f, o = (linear(name, u) for name in self._gates)
        gates = gated(input_gate=sigmoid(i), forget_gate=sigmoid(f), output_gate=sigmoid(o))
        i, f, o = gates.values()
        c = state.c * f + tanh(j) * i
        h = tanh(c) * o
        c.feature_dim = h.feature_dim = self.out_dim
        return h, State(c=c, h=h), gates


def _seed(seed: int, site: int) -> int:
    """Each matrix in a unit has its own pattern."""
    return 1000 * seed + site


class BlocksparseLinear(Module):
    """LN(x (W * M)) g + b, where M is 1 in some blocks and 0 in the others; LN normalises over out.

    The product is computed densely, with zeros in W.

    Args:
        block_size: Side of the square blocks.
        connectivity, seed: See `block_pattern`.
        layer_norm: Whether to have LN and g.
        with_bias: Whether to have b.
        dense: Keep all blocks; the sizes need not be multiples of block_size.

    Parameters:
        W: {in, out}, Glorot uniform. mask: bool {blocks of in, blocks of out}, not trained; None if dense. g: {out}, one. b: {out}, zero.

    Raises:
        ValueError: If a size is not a multiple of block_size, or there is no such pattern.
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
        """{..., in} -> {..., out}. `weight`: the result of `weight()`, if already computed."""
        out = product(
            source, self.weight() if weight is None else weight, None if self.g is not None else self.b, of=self.in_dim
        )
        return out if self.g is None else layer_norm(out, self.g, self.b, eps=1e-6)


def _blocks(dim: Dim, block_size: int) -> Dim:
    if dim.extent % block_size:
        raise value_error(
            "BlocksparseLinear: the blocks do not divide a dim.",
            {"dim": dim, "block_size": block_size},
            "Each dim is a multiple of the size of a block.",
            f"Dim({-(-dim.extent // block_size) * block_size}, name={dim.name!r})",
        )
    return Dim(dim.extent // block_size, name=f"blocks of {dim.name}")


def copy_leading_blocks(small: np.ndarray, into: np.ndarray, *, blocks: int) -> np.ndarray:
    """`into` (rows, blocks * n) with the values of `small` (fewer rows, blocks * n0) in the leading rows and leading
    columns of each block; or both without the axis of rows.
    """
    out = into.copy().reshape(*into.shape[:-1], blocks, -1)
    values = small.reshape(*small.shape[:-1], blocks, -1)
    out[tuple(slice(size) for size in values.shape)] = values
    return out.reshape(into.shape)


def block_pattern(rows: int, columns: int, *, connectivity: int, seed: int) -> np.ndarray:
    """A pattern of blocks, bool (rows, columns), deterministic for a seed.

    A square pattern is the adjacency of a Barabasi-Albert graph, with the diagonal; the first `connectivity` nodes are fully connected.
    A wide one is several of these side by side, a tall one the transpose of a wide one.

    Raises:
        ValueError: If neither side is a multiple of the other, or connectivity is not from 1 to the smaller side.

    Source: Barabasi and Albert 1999, "Emergence of Scaling in Random Networks"; for weights: Gray et al. 2017, "GPU Kernels for
    Block-Sparse Weights", section 3.
    """
    small, large = sorted((rows, columns))
    if small == 0 or large % small or not 1 <= connectivity <= small:
        raise value_error(
            "block_pattern: no such pattern.",
            {"blocks": f"{rows} x {columns}", "connectivity": connectivity},
            "One side is a multiple of the other, and connectivity is from 1 to the smaller side.",
            f"connectivity={max(1, min(connectivity, small))}, or other sizes",
        )
    wide = np.concatenate([_square(small, connectivity, [seed, part]) for part in range(large // small)], axis=1)
    return wide if rows == small else wide.T.copy()


def _square(nodes: int, connectivity: int, seed: list[int]) -> np.ndarray:
    random = np.random.RandomState(seed)  # its numbers are the same in all versions of NumPy
    pattern = np.eye(nodes, dtype=bool)
    ends: list[int] = list(range(connectivity))  # each node once per edge (the first nodes once more)
    for node in range(connectivity, nodes):
        targets: list[int] = []
        while len(targets) < connectivity:
            target = ends[random.randint(len(ends))]
            if target not in targets:
                targets.append(target)
        for target in targets:
            pattern[node, target] = pattern[target, node] = True
        ends += [*targets, *[node] * connectivity]
    pattern[:connectivity, :connectivity] = True
    return pattern
