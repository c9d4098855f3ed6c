"""One Conformer layer: self-attention for long range and a convolution for short range, between two half-step feed-forward modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Never

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.nn.attention.relative import RelPosSelfAttention
from rfnb.nn.batch_norm import BatchNorm
from rfnb.nn.conv import Conv1d
from rfnb.nn.dropout import dropout as drop
from rfnb.nn.linear import Linear
from rfnb.nn.module.module import Module
from rfnb.nn.module.prototype import given, make_norm, make_part
from rfnb.nn.normalization import LayerNorm
from rfnb.nn.transformer.encoder import MODEL_DIM
from rfnb.nn.transformer.feed_forward import FeedForward
from rfnb.ops.gating import gating
from rfnb.ops.math import swish


class ConformerPositionwiseFeedForward(FeedForward):
    """`FeedForward` with swish activation.

    Source: Gulati et al. 2020, "Conformer", section 2.3.
    """

    def __init__(
        self,
        out_dim: Dim,
        *,
        ff_dim: Dim | int | None = None,
        dropout: float = 0.1,
        activation: Callable[[Tensor], Tensor] | dict[str, Any] = swish,
        **kwargs: Any,
    ):
        super().__init__(out_dim, ff_dim=ff_dim, dropout=dropout, activation=activation, **kwargs)


class ConformerConvBlock(Module):
    """Linear to twice the features, gated linear unit, depthwise convolution over time, normalisation, swish, linear.

    Args:
        kernel_size: Frames that the filter covers. With an even number, one more after a frame than before it.
        norm: See `make_norm`.

    Parameters:
        positionwise_conv1: Linear {out, 2 * out}. depthwise_conv: Conv1d {out, 1, kernel_size}. norm: the parameters of this submodule.
        positionwise_conv2: Linear {out, out}.

    Source: Gulati et al. 2020, section 2.2.
    """

    def __init__(self, out_dim: Dim, *, kernel_size: int, norm: Any):
        self.out_dim = out_dim
        self.positionwise_conv1 = Linear(out_dim, 2 * out_dim)
        self.depthwise_conv = Conv1d(out_dim, out_dim, kernel_size, groups=out_dim.extent, padding="same")
        self.norm = make_norm(norm, out_dim)
        self.positionwise_conv2 = Linear(out_dim, out_dim)

    def __call__(self, inp: Tensor, *, spatial_dim: Dim) -> Tensor:
        """{..., spatial_dim, out} -> {..., spatial_dim, out}.

        Raises:
            DimError: If inp lacks one of them.
        """
        x, _ = gating(self.positionwise_conv1(inp), axis=2 * self.out_dim, out_dim=self.out_dim)
        x, _ = self.depthwise_conv(x, in_spatial_dim=spatial_dim)
        return self.positionwise_conv2(swish(self.norm(x)))


class MacaronLayer(Module):
    """x + 1/2 ffn1(x), then the `_middle` of a subclass, then x + 1/2 ffn2(x), each on a normalised x, and a final normalisation.

    A subclass sets out_dim, dropout, and the modules ffn1, ffn1_layer_norm, ffn2, ffn2_layer_norm and final_layer_norm.

    Source: Gulati et al. 2020, "Conformer", section 2.4; the half steps are those of Macaron-Net (Lu et al. 2019).
    """

    out_dim: Dim
    dropout: float
    ffn1: Any
    ffn1_layer_norm: Any
    ffn2: Any
    ffn2_layer_norm: Any
    final_layer_norm: Any

    def __call__(self, inp: Tensor, *, spatial_dim: Dim) -> Tensor:
        """{..., spatial_dim, out} -> {..., spatial_dim, out}.

        Raises:
            DimError: If inp lacks one of them.
        """
        check_dim(type(self).__name__, inp, spatial_dim, "inp")
        x = inp + self._dropped(self.ffn1(self.ffn1_layer_norm(inp))) * 0.5
        x = self._middle(x, spatial_dim)
        x = x + self._dropped(self.ffn2(self.ffn2_layer_norm(x))) * 0.5
        return self.final_layer_norm(x)

    def _middle(self, x: Tensor, spatial_dim: Dim) -> Tensor:
        raise NotImplementedError

    def _dropped(self, x: Tensor) -> Tensor:
        return drop(x, self.dropout, axis=self.out_dim)


class ConformerEncoderLayer(MacaronLayer):
    """x + 1/2 ffn1(x), x + self_att(x), x + conv_block(x), x + 1/2 ffn2(x), each on a normalised x, and a final normalisation.

    Dropout applies to each summand.

    Args:
        ff, self_att: Class, {"class": ..., options}, or a module to copy. Default: ConformerPositionwiseFeedForward,
            RelPosSelfAttention.
        ff_dim, ff_activation: Options for ff.
        self_att_opts: Options for self_att.
        conv_norm: See `make_norm`. Default: BatchNorm.
        conv_norm_opts: Options for conv_norm.
        norm: All other norms, see `make_norm`.

    Parameters:
        ffn1, ffn1_layer_norm, self_att, self_att_layer_norm, conv_block, conv_layer_norm, ffn2, ffn2_layer_norm,
        final_layer_norm: the parameters of these submodules.

    Source: Gulati et al. 2020, section 2.4, equation (1).
    """

    def __init__(
        self,
        out_dim: Dim = MODEL_DIM,
        *,
        ff: Any = None,
        ff_dim: Dim | int | None = None,
        ff_activation: Any = None,
        dropout: float = 0.1,
        conv_kernel_size: int = 32,
        conv_norm: Any = None,
        conv_norm_opts: dict[str, Any] | None = None,
        num_heads: int = 4,
        self_att: Any = None,
        self_att_opts: dict[str, Any] | None = None,
        att_dropout: float = 0.1,
        norm: Any = LayerNorm,
    ):
        self.out_dim, self.dropout = out_dim, dropout
        of_ff = {"out_dim": out_dim, "ff": ff, "ff_dim": ff_dim, "ff_activation": ff_activation, "dropout": dropout}
        self.ffn1 = make_ff(**of_ff)
        self.ffn1_layer_norm = make_norm(norm, out_dim)
        self.ffn2 = make_ff(**of_ff)
        self.ffn2_layer_norm = make_norm(norm, out_dim)
        self.conv_block = ConformerConvBlock(
            out_dim, kernel_size=conv_kernel_size, norm=_conv_norm(conv_norm, conv_norm_opts)
        )
        self.conv_layer_norm = make_norm(norm, out_dim)
        self.self_att = make_self_att(self_att, out_dim, num_heads, att_dropout, self_att_opts)
        self.self_att_layer_norm = make_norm(norm, out_dim)
        self.final_layer_norm = make_norm(norm, out_dim)

    def _middle(self, x: Tensor, spatial_dim: Dim) -> Tensor:
        x = x + self._dropped(self.self_att(self.self_att_layer_norm(x), axis=spatial_dim))
        return x + self._dropped(self.conv_block(self.conv_layer_norm(x), spatial_dim=spatial_dim))


def make_ff(
    *extra: Never, out_dim: Dim, ff: Any, ff_dim: Dim | int | None, ff_activation: Any, dropout: float, **unknown: Never
) -> Any:
    """The feed-forward part of a layer.

    Args:
        ff: Class, {"class": ..., options}, or a module to copy; None: ConformerPositionwiseFeedForward.
        ff_dim, ff_activation: Options for it; None: its own.

    Raises:
        TypeError: If ff is something else.
    """
    options = given(ff_dim=ff_dim, activation=ff_activation)
    return make_part(ff, ConformerPositionwiseFeedForward, "ff", out_dim=out_dim, dropout=dropout, **options)


def make_self_att(
    self_att: Any, out_dim: Dim, num_heads: int, att_dropout: float, options: dict[str, Any] | None = None
) -> Any:
    """The self-attention of a layer, by default `RelPosSelfAttention`, with `out_dim` on all sides."""
    own: dict[str, Any] = {"in_dim": out_dim, "proj_dim": out_dim, "key_dim_total": out_dim, "value_dim_total": out_dim}
    own |= {"num_heads": num_heads, "att_dropout": att_dropout, **(options or {})}
    return make_part(self_att, RelPosSelfAttention, "self_att", **own)


def conv_norm_use_mask_default(*extra: Never, **unknown: Never) -> bool | None:
    """`use_mask` of the BatchNorm in a `ConformerConvBlock`: always None, the default of BatchNorm, which excludes padding."""
    return None


def _conv_norm(norm: Any, options: dict[str, Any] | None) -> Any:
    """The norm in the form that `make_norm` expects."""
    norm = BatchNorm if norm is None else norm
    if norm is BatchNorm:
        options = {"use_mask": conv_norm_use_mask_default(), **(options or {})}
    if not options:
        return norm
    return {**norm, **options} if isinstance(norm, dict) else {"class": norm, **options}
