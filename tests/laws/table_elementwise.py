"""The entries of the table for elementwise ops."""

from __future__ import annotations

from typing import Any

from table import case
from world import World

import rfnb as rf
from rfnb import Dim
from rfnb.backends.elementwise import UNARY

_MORE = "swish identity relu_square safe_log copy stop_gradient zeros_like ones_like copy_to_device".split()
_DOMAIN = {name: row.domain for name, row in UNARY.items() if name != "logical_not"} | {"safe_log": (-1, 3)}
for _name in (*(name for name in UNARY if name != "logical_not"), *_MORE):

    @case(_name)
    def _unary(w: World, name: str = _name) -> Any:
        low, high = _DOMAIN.get(name, (-3, 3))
        return getattr(rf, name), [w.floats(*w.dims(), low=low, high=high)]


@case("logical_not")
def _logical_not(w: World) -> Any:
    return rf.logical_not, [w.bools(*w.dims())]


for _name in "neg square abs relu exp sqrt sigmoid".split():

    @case(_name, "of integers")
    def _unary_ints(w: World, name: str = _name) -> Any:
        return getattr(rf, name), [w.ints(*w.dims(), low=0)]


def _pair(w: World) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
    """Dims of two operands that go together: one has those of the other, or they share some."""
    dims = w.dims(at_least=1)
    kept = tuple(dim for dim in dims if dim.is_static() or w.rng.random() < 0.5)
    kept = kept if w.rng.random() < 0.5 else dims
    if len(dims) > 1 and w.rng.random() < 0.3:
        return dims, ((*dims[:1], w.heads) if w.heads not in dims else dims)
    return (dims, kept) if w.rng.random() < 0.5 else (kept, dims)


_ARITHMETIC = (
    "add sub mul true_divide floor_divide mod pow maximum minimum squared_difference log_add_exp ceil_divide".split()
)
_COMPARISONS = "equal not_equal less less_equal greater greater_equal".split()
for _name in (*_ARITHMETIC, *_COMPARISONS):

    @case(_name)
    def _binary(w: World, name: str = _name) -> Any:
        dims_a, dims_b = _pair(w)
        return getattr(rf, name), [w.floats(*dims_a, low=0.3), w.floats(*dims_b, low=0.2, high=2.9)]

    @case(_name, "number on the right")
    def _binary_number(w: World, name: str = _name) -> Any:
        return lambda a: getattr(rf, name)(a, 1.75), [w.floats(*w.dims(), low=0.3)]

    @case(_name, "number on the left")
    def _number_binary(w: World, name: str = _name) -> Any:
        return lambda a: getattr(rf, name)(2, a), [w.floats(*w.dims(), low=0.3)]


for _name in "add sub mul true_divide maximum minimum equal less".split():

    @case(_name, "of integers")
    def _binary_ints(w: World, name: str = _name) -> Any:
        dims_a, dims_b = _pair(w)
        return getattr(rf, name), [w.ints(*dims_a), w.ints(*dims_b, low=1)]

    @case(_name, "of integers and floats")
    def _binary_mixed(w: World, name: str = _name) -> Any:
        dims_a, dims_b = _pair(w)
        return getattr(rf, name), [w.ints(*dims_a), w.floats(*dims_b, low=0.3)]


for _name in ("logical_and", "logical_or"):

    @case(_name)
    def _logical(w: World, name: str = _name) -> Any:
        dims_a, dims_b = _pair(w)
        return getattr(rf, name), [w.bools(*dims_a), w.bools(*dims_b)]


for _name, _kinds in (("combine", ["add", "-", "maximum"]), ("compare", ["less", ">="])):

    @case(_name)
    def _combine(w: World, name: str = _name, kinds: list[str] = _kinds) -> Any:
        (dims_a, dims_b), kind = _pair(w), w.rng.choice(kinds)
        return lambda a, b: getattr(rf, name)(a, str(kind), b), [w.floats(*dims_a), w.floats(*dims_b)]

    @case(f"{_name}_bc")
    def _combine_bc(w: World, name: str = f"{_name}_bc", kinds: list[str] = _kinds) -> Any:
        inputs = [w.floats(w.batch, w.time), w.floats(w.batch, w.source, w.feat)]
        kind = w.rng.choice(kinds)
        return lambda a, b: getattr(rf, name)(a, str(kind), b), inputs


@case("where")
def _where(w: World) -> Any:
    dims_a, dims_b = _pair(w)
    return rf.where, [w.bools(*(dims_a if w.rng.random() < 0.5 else dims_b)), w.floats(*dims_a), w.floats(*dims_b)]


@case("where", "numbers")
def _where_numbers(w: World) -> Any:
    dims_a, dims_b = _pair(w)
    if w.rng.random() < 0.5:
        return lambda cond, x: rf.where(cond, x, 0), [w.bools(*dims_a), w.floats(*dims_b)]
    return lambda cond, x: rf.where(cond, -1.5, x), [w.bools(*dims_a), w.floats(*dims_b)]


@case("where", "outer")
def _where_outer(w: World) -> Any:
    return lambda c, a, b: rf.where(c, a, b, allow_broadcast_all_sources=True), [
        w.bools(w.batch),
        w.floats(w.feat),
        w.floats(w.heads),
    ]


@case("clip_by_value")
def _clip(w: World) -> Any:
    dims_a, dims_b = _pair(w)
    if set(dims_b) <= set(dims_a):
        return lambda x, low: rf.clip_by_value(x, low, 2.0), [w.floats(*dims_a), w.floats(*dims_b, high=1.0)]
    return lambda x: rf.clip_by_value(x, -1, 1), [w.floats(*dims_a)]


@case("lerp")
def _lerp(w: World) -> Any:
    dims_a, dims_b = _pair(w)
    return lambda a, b: rf.lerp(a, b, 0.3), [w.floats(*dims_a), w.floats(*dims_b)]


@case("cumsum")
def _cumsum(w: World) -> Any:
    dims = w.dims(at_least=1)
    axis = dims[w.rng.integers(len(dims))]
    over = {other for dim in dims if dim.is_dynamic() for other in dim.length_dims}
    if axis in over:  # along batch, the padding of one sequence is beside the frames of another
        axis, dims = w.time, (w.batch, w.time)
    return lambda x: rf.cumsum(x, spatial_dim=axis), [w.floats(*dims)]


@case("cast")
def _cast(w: World) -> Any:
    dtype = str(w.rng.choice(["float32", "int32", "int64", "float64"]))
    if w.rng.random() < 0.5:
        return lambda x: rf.cast(x, dtype), [w.ints(*w.dims())]
    return lambda x: rf.cast(x, dtype if dtype.startswith("float") else "float16"), [w.floats(*w.dims())]


@case("cast", "keeps the marks")
def _cast_sparse(w: World) -> Any:
    return lambda x: rf.cast(x, "int64"), [w.ints(w.batch, w.time, sparse_dim=w.classes)]
