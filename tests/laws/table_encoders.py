"""The entries of the table for encoders with convolutions, and their parts."""

from __future__ import annotations

from typing import Any

from table import case, exempt
from table_layers import of_module
from world import World

import rfnb as rf
from rfnb import Tensor

exempt("an interface", "IEncoder ISeqFramewiseEncoder ISeqDownsamplingEncoder")
exempt("builds a module from a class, computes nothing", "make_ff")
exempt("a default, not an op", "conv_norm_use_mask_default")

# Two features may be almost equal by chance; the default eps would magnify rounding then.
_norm = {"class": rf.LayerNorm, "eps": 0.1}
_kernels = (1, 2, 3)
_layer = {"num_heads": 2, "ff_dim": 3, "norm": _norm, "conv_norm": _norm}


def _kernel(w: World) -> int:
    return int(w.rng.choice(_kernels))


def _frames(w: World, make: Any, dim: Any) -> Any:
    return of_module(w, make, lambda module, x: module(x, spatial_dim=w.time), [w.floats(w.batch, w.time, dim)])


@case("ConformerPositionwiseFeedForward")
def _feed_forward(w: World) -> Any:
    make = lambda: rf.ConformerPositionwiseFeedForward(w.feat, ff_dim=3)  # noqa: E731
    return of_module(w, make, lambda module, x: module(x), [w.floats(w.batch, w.time, w.feat)])


@case("ConformerConvBlock")
def _conv_block(w: World) -> Any:
    size = _kernel(w)
    return _frames(w, lambda: rf.ConformerConvBlock(w.feat, kernel_size=size, norm=_norm), w.feat)


@case("FeedForwardConvGated")
def _conv_gated(w: World) -> Any:
    size = _kernel(w)
    return _frames(w, lambda: rf.FeedForwardConvGated(w.feat, ff_dim=4, kernel_size=size, norm=_norm), w.feat)


@case("Merge")
def _merge(w: World) -> Any:
    make = lambda: rf.Merge(in_dim1=w.feat, in_dim2=w.out, out_dim=w.classes)  # noqa: E731
    inputs = [w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.time, w.out)]
    return of_module(w, make, lambda module, x1, x2: module(x1, x2, spatial_dim=w.time), inputs)


@case("ConformerEncoderLayer")
def _conformer_layer(w: World) -> Any:
    size, dim = _kernel(w), 2 * w.feat
    return _frames(w, lambda: rf.ConformerEncoderLayer(dim, conv_kernel_size=size, **_layer), dim)


@case("EBranchformerLayer")
def _e_branchformer_layer(w: World) -> Any:
    size, dim = _kernel(w), 2 * w.feat
    options = {"num_heads": 2, "ff_dim": 3, "norm": _norm, "cgmlp_ff_dim": 4, "cgmlp_conv_kernel": size}
    return _frames(w, lambda: rf.EBranchformerLayer(dim, **options), dim)


@case("ConformerEncoderV2")
def _encoder_v2(w: World) -> Any:
    dim = 2 * w.feat
    options = {"num_layers": 1, "conv_kernel_size": 3, "encoder_layer_opts": _layer}
    return _frames(w, lambda: rf.ConformerEncoderV2(dim, **options), dim)


def _subsample(w: World, padding: str) -> dict[str, Any]:
    return {
        "out_dims": [w.heads, w.out],
        "filter_sizes": [2, 3],
        "strides": [2, 1],
        "pool_sizes": [(2, 1)],
        "padding": padding,
    }


@case("ConformerConvSubsample")
def _conv_subsample(w: World) -> Any:
    options = _subsample(w, "same" if w.rng.random() < 0.7 else "valid")
    in_dim = 5 * w.feat  # "valid" leaves some
    make = lambda: rf.ConformerConvSubsample(in_dim, **options)  # noqa: E731
    return _shortening(w, make, in_dim)


@case("ConformerFrontend")
def _frontend(w: World) -> Any:
    options = {"class": rf.ConformerConvSubsample, **_subsample(w, "same")}
    return _shortening(w, lambda: rf.ConformerFrontend(w.feat, w.classes, input_layer=options), w.feat)


@case("ConformerEncoder")
def _encoder(w: World) -> Any:
    options = {"class": rf.ConformerConvSubsample, **_subsample(w, "same")}
    own = {"num_layers": 1, "conv_kernel_size": 3, "encoder_layer_opts": _layer, "input_layer": options}
    dim = 2 * w.classes
    return _shortening(w, lambda: rf.ConformerEncoder(w.feat, dim, **own), w.feat)


def _shortening(w: World, make: Any, in_dim: Any) -> Any:
    """The features of a new module are new dims, so they are brought to the same ones."""
    kept: dict[int, Any] = {}

    def call(module: Any, x: Tensor) -> Tensor:
        out, spatial_dim = module(x, in_spatial_dim=w.time)
        for dim in out.dims:
            if dim not in (w.batch, spatial_dim):
                out, _ = rf.replace_dim(
                    out, in_dim=dim, out_dim=kept.setdefault(dim.extent, rf.Dim(dim.extent, name="kept"))
                )
        return out

    return of_module(w, make, call, [w.floats(w.batch, w.time, in_dim)])


exempt(
    "copies parameters; tests/interop/test_hf_llama.py",
    "import_params_hf_llama_to_rf_transformer_decoder import_params_hf_llama_decoder_layer_to_rf"
    " import_params_hf_llama_mlp_to_rf_feed_forward_gated import_params_hf_llama_rms_norm_to_rf"
    " import_params_hf_llama_att_to_rf_rotary_att",
)
