"""The entries of the table for convolution and pooling."""

from __future__ import annotations

from typing import Any

from table import case
from table_layers import of_module
from world import World

import rfnb as rf
from rfnb import Dim, Tensor


def _options(w: World, num: int, same: bool = True) -> dict[str, Any]:
    """Padding, stride and dilation, each for all dims or one for each."""
    paddings: list[Any] = ["same", "valid", 0, 1, 3] if same else ["valid", 0, 1, 3]
    one = w.rng.random() < 0.5

    def some(values: list[Any]) -> Any:
        drawn = [values[w.rng.integers(len(values))] for _ in range(num)]
        return drawn[0] if one else drawn

    return {"padding": some(paddings), "strides": some([1, 2, 3]), "dilation_rate": some([1, 2])}


@case("conv")
def _conv(w: World) -> Any:
    spatial = [w.time, w.source, w.heads][: w.rng.integers(1, 4)]
    size = [Dim(int(w.rng.integers(1, 4)), name=f"filter_{axis}") for axis in range(len(spatial))]
    batch = [w.batch] if w.heads in spatial or w.rng.random() < 0.5 else [w.batch, w.heads]
    groups = int(w.rng.integers(1, 3))
    in_dim, out_dim, options = groups * w.feat, groups * w.out, _options(w, len(spatial))

    def call(x: Tensor, filter: Tensor, bias: Tensor) -> Any:
        return rf.conv(x, in_dim=in_dim, out_dim=out_dim, in_spatial_dims=spatial, filter=filter, filter_size=size,
                       groups=groups, bias=bias, **options)  # fmt: skip

    return call, [w.floats(*batch, *spatial, in_dim), w.floats(out_dim, in_dim // groups, *size), w.floats(out_dim)]


@case("calc_conv_out_length")
def _calc_conv_out_length(w: World) -> Any:
    options = {"padding": ["same", "valid", 2][w.rng.integers(3)], "stride": int(w.rng.integers(1, 4))}
    call = lambda x: rf.calc_conv_out_length(x, filter_size=3, dilation_rate=2, **options)  # noqa: E731
    return call, [w.ints(w.batch, w.time, low=0, high=9)]


@case("make_conv_out_spatial_dims")
def _make_conv_out_spatial_dims(w: World) -> Any:
    def call(x: Tensor) -> Any:
        dims = rf.make_conv_out_spatial_dims([w.time, w.feat], filter_size=(2, 3), strides=2, padding=["valid", "same"])
        return dims, dims[0].dyn_size_ext

    return call, [w.floats(w.batch, w.time)]


@case("Conv1d")
def _conv1d(w: World) -> Any:
    out_dim, size, options = [w.feat, w.out][w.rng.integers(2)], int(w.rng.integers(1, 4)), _options(w, 1)
    make = lambda: rf.Conv1d(w.feat, out_dim, size, **options)  # noqa: E731
    inputs = [w.floats(w.batch, w.time, w.heads, w.feat)]
    return of_module(w, make, lambda module, x: module(x, in_spatial_dim=w.time), inputs)


@case("Conv1d", "over characters of words")
def _conv1d_chars(w: World) -> Any:
    make = lambda: rf.Conv1d(w.feat, w.out, 3, padding="same", strides=2)  # noqa: E731
    inputs = [w.floats(w.batch, w.time, w.char, w.feat)]
    return of_module(w, make, lambda module, x: module(x, in_spatial_dim=w.char), inputs)


@case("Conv2d")
def _conv2d(w: World) -> Any:
    options = _options(w, 2)
    make = lambda: rf.Conv2d(w.feat, w.out, (2, 3), **options)  # noqa: E731
    inputs = [w.floats(w.batch, w.time, w.heads, w.feat)]
    return of_module(w, make, lambda module, x: module(x, in_spatial_dims=[w.heads, w.time]), inputs)


@case("Conv3d")
def _conv3d(w: World) -> Any:
    make = lambda: rf.Conv3d(w.feat, w.out, 2, padding="same", strides=2)  # noqa: E731
    inputs = [w.floats(w.batch, w.time, w.source, w.heads, w.feat)]
    return of_module(w, make, lambda module, x: module(x, in_spatial_dims=[w.heads, w.time, w.source]), inputs)


# -- pooling -----------------------------------------------------------------------------------------------------------
for _mode in ("max", "avg"):

    @case("pool", _mode)
    def _pool(w: World, mode: str = _mode) -> Any:
        spatial = [w.time, w.source, w.heads][: w.rng.integers(1, 4)]
        batch = [w.batch] if w.heads in spatial else [w.batch, w.heads]
        options = {**_options(w, len(spatial)), "pool_size": [int(w.rng.integers(1, 4)) for _ in spatial]}
        return lambda x: rf.pool(x, mode=mode, in_spatial_dims=spatial, **options), [w.floats(*batch, *spatial, w.feat)]

    @case("pool", f"{_mode} of integers")
    def _pool_ints(w: World, mode: str = _mode) -> Any:
        call = lambda x: rf.pool(x, mode=mode, pool_size=3, padding="same", in_spatial_dims=[w.time])  # noqa: E731
        return call, [w.ints(w.batch, w.time, w.feat)]


for _name in ("max_pool1d", "pool1d"):

    @case(_name)
    def _pool1d(w: World, name: str = _name) -> Any:
        mode = {} if name == "max_pool1d" else {"mode": ["max", "avg"][w.rng.integers(2)]}
        axis, options = [w.time, w.feat][w.rng.integers(2)], {**_options(w, 1), **mode}
        call = lambda x: getattr(rf, name)(x, pool_size=2, in_spatial_dim=axis, **options)  # noqa: E731
        return call, [w.floats(w.batch, w.time, w.feat)]


for _name, _num in (("max_pool", 2), ("pool2d", 2), ("pool3d", 3)):

    @case(_name)
    def _pool_nd(w: World, name: str = _name, num: int = _num) -> Any:
        mode = {} if name == "max_pool" else {"mode": ["max", "avg"][w.rng.integers(2)]}
        options = {**_options(w, num), **mode, "in_spatial_dims": [w.heads, w.time, w.source][:num]}
        call = lambda x: getattr(rf, name)(x, pool_size=2, **options)  # noqa: E731
        return call, [w.floats(w.batch, w.time, w.source, w.heads, w.feat)]


# -- transposed --------------------------------------------------------------------------------------------------------
def _expanding(w: World, num: int) -> dict[str, Any]:
    drawn = {
        "padding": ["valid", "same", 0, 1],
        "strides": [1, 2, 3, None],
        "output_padding": [None, 0, 1],
        "remove_padding": [0, 1],
    }
    options = {name: values[w.rng.integers(len(values))] for name, values in drawn.items()}
    return {**options, "padding": [options["padding"]] * num}


@case("transposed_conv")
def _transposed_conv(w: World) -> Any:
    spatial = [w.time, w.source, w.heads][: w.rng.integers(1, 4)]
    size = [Dim(int(w.rng.integers(1, 4)), name=f"filter_{axis}") for axis in range(len(spatial))]
    batch, options = [w.batch] if w.heads in spatial else [w.batch, w.heads], _expanding(w, len(spatial))

    def call(x: Tensor, filter: Tensor, bias: Tensor) -> Any:
        return rf.transposed_conv(x, in_dim=w.feat, out_dim=w.out, in_spatial_dims=spatial, filter=filter,
                                  filter_size=size, bias=bias, **options)  # fmt: skip

    return call, [w.floats(*batch, *spatial, w.feat), w.floats(w.out, w.feat, *size), w.floats(w.out)]


for _name, _num in (("TransposedConv1d", 1), ("TransposedConv2d", 2), ("TransposedConv3d", 3)):

    @case(_name)
    def _transposed_module(w: World, name: str = _name, num: int = _num) -> Any:
        out_dim, options = [w.feat, w.out][w.rng.integers(2)], _expanding(w, num)
        make = lambda: getattr(rf, name)(w.feat, out_dim, 2, **options)  # noqa: E731
        axes = [w.time, w.heads, w.source][:num]
        spatial = {"in_spatial_dim": w.time} if num == 1 else {"in_spatial_dims": axes}
        inputs = [w.floats(w.batch, w.heads, w.time, w.source, w.feat)]
        return of_module(w, make, lambda module, x: module(x, **spatial), inputs)


@case("calc_transposed_conv_out_length")
def _calc_transposed_conv_out_length(w: World) -> Any:
    options = _expanding(w, 1)
    options = {"padding": options["padding"][0], "stride": options["strides"]}
    call = lambda x: rf.calc_transposed_conv_out_length(x, filter_size=3, **options)  # noqa: E731
    return call, [w.ints(w.batch, w.time, low=0, high=9)]


@case("make_transposed_conv_out_spatial_dims")
def _make_transposed_conv_out_spatial_dims(w: World) -> Any:
    def call(x: Tensor) -> Any:
        dims = rf.make_transposed_conv_out_spatial_dims([w.time, w.feat], filter_size=(2, 3), padding="valid")
        return dims, dims[0].dyn_size_ext

    return call, [w.floats(w.batch, w.time)]
