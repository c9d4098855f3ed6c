"""E-Branchformer: self-attention and a gated convolution in parallel, merged by a depthwise convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error
from rfnb.core.tensor import Tensor
from rfnb.nn.conv import Conv1d
from rfnb.nn.dropout import dropout as drop
from rfnb.nn.encoders.conformer_layer import MacaronLayer, make_ff, make_self_att
from rfnb.nn.init import Normal
from rfnb.nn.linear import Linear
from rfnb.nn.module.module import Module
from rfnb.nn.module.prototype import as_dim, make_function, make_norm, make_part
from rfnb.nn.normalization import LayerNorm
from rfnb.nn.transformer.encoder import MODEL_DIM
from rfnb.ops.concat import concat, split
from rfnb.ops.math import gelu, identity


class EBranchformerLayer(MacaronLayer):
    """x + 1/2 ffn1(x); x + merge(self_att(x), cgmlp(x)); x + 1/2 ffn2(x), each on a normalised x, and a final normalisation.

    Dropout applies to each summand and to both branches.

    Args:
        ff, self_att, cgmlp: Class, {"class": ..., options}, or a module to copy. Default:
            ConformerPositionwiseFeedForward, RelPosSelfAttention, FeedForwardConvGated.
        ff_dim, ff_activation: Options for ff.
        cgmlp_ff_dim, cgmlp_conv_kernel: ff_dim and kernel_size of cgmlp.
        merge_conv_kernel: Frames that the filter of the merge covers.
        norm: See `make_norm`.

    Parameters:
        ffn1, ffn1_layer_norm, self_att, self_att_layer_norm, cgmlp, cgmlp_layer_norm, merge, ffn2, ffn2_layer_norm,
        final_layer_norm: the parameters of these submodules.

    Source: Kim et al. 2022, "E-Branchformer", section 3; the merge is that of section 3.2, figure 3 (b).
    """

    def __init__(
        self,
        out_dim: Dim = MODEL_DIM,
        *,
        ff: Any = None,
        ff_dim: Dim | int | None = None,
        ff_activation: Any = None,
        dropout: float = 0.1,
        num_heads: int = 4,
        self_att: Any = None,
        att_dropout: float = 0.1,
        cgmlp: Any = None,
        cgmlp_ff_dim: Dim | int | None = None,
        cgmlp_conv_kernel: int = 31,
        merge_conv_kernel: int = 3,
        norm: Any = LayerNorm,
    ):
        self.out_dim, self.dropout = out_dim, dropout
        of_ff = {"out_dim": out_dim, "ff": ff, "ff_dim": ff_dim, "ff_activation": ff_activation, "dropout": dropout}
        self.ffn1 = make_ff(**of_ff)
        self.ffn1_layer_norm = make_norm(norm, out_dim)
        self.self_att = make_self_att(self_att, out_dim, num_heads, att_dropout)
        self.self_att_layer_norm = make_norm(norm, out_dim)
        given = {} if cgmlp_ff_dim is None else {"ff_dim": cgmlp_ff_dim}
        self.cgmlp = make_part(
            cgmlp, FeedForwardConvGated, "cgmlp", out_dim=out_dim, kernel_size=cgmlp_conv_kernel, dropout=dropout,
            norm=norm, **given,
        )  # fmt: skip
        self.cgmlp_layer_norm = make_norm(norm, out_dim)
        self.merge = Merge(in_dim1=out_dim, in_dim2=out_dim, out_dim=out_dim, merge_conv_kernel=merge_conv_kernel)
        self.ffn2 = make_ff(**of_ff)
        self.ffn2_layer_norm = make_norm(norm, out_dim)
        self.final_layer_norm = make_norm(norm, out_dim)

    def _middle(self, x: Tensor, spatial_dim: Dim) -> Tensor:
        far = self._dropped(self.self_att(self.self_att_layer_norm(x), axis=spatial_dim))
        near = self._dropped(self.cgmlp(self.cgmlp_layer_norm(x), spatial_dim=spatial_dim))
        return x + self._dropped(self.merge(far, near, spatial_dim=spatial_dim))


class FeedForwardConvGated(Module):
    """activation(x W1), split into halves; the second half, normalised and filtered along time, gates the first; then W2.

    Args:
        ff_dim: Features of both halves. Default: 6 * out.
        kernel_size: Frames that the filter covers.
        norm: See `make_norm`.

    Parameters:
        linear_ff: Linear {out, ff}. norm: over ff / 2. depthwise_conv: Conv1d {ff / 2, 1, kernel_size}, initialised
            near 0 with bias 1, so that the gates start open (without bias: the usual initialisation). linear_out: Linear
            {ff / 2, out}.

    Raises:
        DimError: If ff_dim is odd.

    Source: Sakuma et al. 2021, "MLP-based architecture with variable length input for automatic speech recognition", and
    Peng et al. 2022, "Branchformer", section 3.3, there cgMLP.
    """

    def __init__(
        self,
        out_dim: Dim,
        *,
        ff_dim: Dim | int | None = None,
        kernel_size: int = 31,
        dropout: float = 0.1,
        activation: Callable[[Tensor], Tensor] | dict[str, Any] = gelu,
        gate_activation: Callable[[Tensor], Tensor] | dict[str, Any] = identity,
        with_bias: bool = True,
        norm: Any = LayerNorm,
    ):
        self.out_dim, self.dropout = out_dim, dropout
        self.activation, self.gate_activation = make_function(activation), make_function(gate_activation)
        self.ff_dim = as_dim(6 * out_dim.extent if ff_dim is None else ff_dim, "ff")
        if self.ff_dim.extent % 2:
            raise dim_error(
                "FeedForwardConvGated: ff_dim has no halves.",
                {"ff_dim": self.ff_dim},
                "One half is the gate of the other, so its size is even.",
            )
        self.half_dim = Dim(self.ff_dim.extent // 2, name="ff_half", kind="feature")
        self.linear_ff = Linear(out_dim, self.ff_dim, with_bias=with_bias)
        self.norm = make_norm(norm, self.half_dim)
        self.depthwise_conv = Conv1d(
            self.half_dim, self.half_dim, kernel_size, groups=self.half_dim.extent, padding="same", with_bias=with_bias
        )
        if self.depthwise_conv.bias is not None:  # Liu et al. 2021, "Pay Attention to MLPs", section 2.1
            self.depthwise_conv.filter.initial = Normal(1e-6)
            self.depthwise_conv.bias.initial = 1.0
        self.linear_out = Linear(self.half_dim, out_dim, with_bias=with_bias)

    def __call__(self, x: Tensor, *, spatial_dim: Dim) -> Tensor:
        """{..., spatial_dim, out} -> {..., spatial_dim, out}.

        Raises:
            DimError: If x lacks one of them.
        """
        both = self.activation(self.linear_ff(x))
        value, gate = split(both, axis=self.ff_dim, out_dims=(self.half_dim, self.half_dim))
        gate, _ = self.depthwise_conv(self.norm(gate), in_spatial_dim=spatial_dim)
        gated = value * self.gate_activation(gate)
        return self.linear_out(drop(gated, self.dropout, axis=self.half_dim))


class Merge(Module):
    """Both sources concatenated as y, then (y + depthwise convolution of y over time) W.

    Args:
        merge_conv_kernel: Frames that the filter covers.

    Parameters:
        depthwise_conv: Conv1d {in, 1, merge_conv_kernel}, in = in_dim1 + in_dim2. merge_proj: Linear {in, out}.

    Source: Kim et al. 2022, "E-Branchformer", section 3.2.
    """

    def __init__(self, *, in_dim1: Dim, in_dim2: Dim, out_dim: Dim, merge_conv_kernel: int = 3):
        self.in_dim1, self.in_dim2, self.out_dim = in_dim1, in_dim2, out_dim
        self.in_dim = in_dim1 + in_dim2
        self.depthwise_conv = Conv1d(
            self.in_dim, self.in_dim, merge_conv_kernel, groups=self.in_dim.extent, padding="same"
        )
        self.merge_proj = Linear(self.in_dim, out_dim)

    def __call__(self, x1: Tensor, x2: Tensor, *, spatial_dim: Dim) -> Tensor:
        """{..., spatial_dim, in1}, {..., spatial_dim, in2} -> {..., spatial_dim, out}.

        Raises:
            DimError: If one of them lacks a dim.
        """
        both, _ = concat((x1, self.in_dim1), (x2, self.in_dim2), out_dim=self.in_dim)
        filtered, _ = self.depthwise_conv(both, in_spatial_dim=spatial_dim)
        return self.merge_proj(both + filtered)
