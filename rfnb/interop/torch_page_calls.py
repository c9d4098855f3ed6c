"""The calls of torch that a page runs, one row per call: the same by ops of rfnb, on counterparts (`torch_page.py`).

    ROWS["softmax"](calls, x, -1)       # Tensor {..., axis}, in the order of torch's axes

A row gets the arguments of the call, arrays as torch arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import torch

import rfnb.ops.math as own
from rfnb.core.beam_dim import is_beam
from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tree import values_in
from rfnb.nn.attention.weight_hook import attended
from rfnb.ops import reduce as reductions
from rfnb.ops.cast import cast as cast_to
from rfnb.ops.concat import concat, split
from rfnb.ops.const import convert_to_tensor, full, ones_like, zeros_like
from rfnb.ops.conv import conv
from rfnb.ops.conv_dims import Window
from rfnb.ops.conv_filter import filter_in_dim
from rfnb.ops.cumsum import cumsum
from rfnb.ops.dims import set_sparse_dim
from rfnb.ops.expand import expand_dim, squeeze
from rfnb.ops.gather import gather
from rfnb.ops.linear import linear
from rfnb.ops.math import combine_bc, compare_bc
from rfnb.ops.matmul import matmul
from rfnb.ops.merge import merge_dims, split_dims
from rfnb.ops.pad import pad
from rfnb.ops.pool import pool
from rfnb.ops.slice import slice as sliced
from rfnb.ops.softmax import log_softmax, softmax
from rfnb.ops.where import where
from rfnb.rec.loop import Loop

Row = Callable[..., Any]
ROWS: dict[str, Row] = {}


def is_one(dim: Dim) -> bool:
    """Whether an axis has one entry, so that torch broadcasts it."""
    return dim.extent == 1 and not is_beam(dim)


def twin(dim: Dim) -> Dim:
    """Another dim of this size."""
    return Dim(dim.extent, name=dim.name or "axis")


def apart(dim: Dim, others: Sequence[Dim]) -> Dim:
    """A dim, or its twin if others have it: so results have the same dims in each turn of a loop."""
    return twin(dim) if dim in others else dim


def row(*names: str) -> Callable[[Row], Row]:
    """Enter a row under the names of its call."""

    def enter(fn: Row) -> Row:
        ROWS.update(dict.fromkeys(names, fn))
        return fn

    return enter


# -- calls that have no row ------------------------------------------------------------------------------------------------

ASKED = set(
    """dim ndim dtype device is_floating_point is_complex requires_grad numel nelement stride is_contiguous data_ptr is_cuda is_cpu
    is_sparse is_quantized is_nested layout element_size __repr__ __format__ __hash__ grad_fn grad names is_leaf _version
    is_inference itemsize __len__ _is_view retain_grad storage_offset""".split()
)
_READS = "the values of an array that depends on the text, which the code turns into numbers"
_CHOICE = "A page repeats one computation for all texts: `torch.where` chooses by values, and the number of letters is `x.shape[1]`.\n"
READ = dict.fromkeys(
    """item tolist numpy __bool__ __int__ __float__ __index__ __complex__ __contains__ __array__ equal allclose is_nonzero""".split(),
    (_READS, _CHOICE),
) | {
    "__iter__": (
        "a loop of Python over an axis",
        "Write it as one call over the axis, or as `for _ in rf.Loop(axis=time)`.\n",
    )
}
MADE = set(
    """tensor as_tensor from_numpy asarray arange zeros ones full eye zeros_like ones_like full_like new_zeros new_ones new_full
    new_tensor scalar_tensor""".split()
)
_PAIRS = "A page has no complex numbers. Turn pairs by cos and sin: `torch.stack([a * cos - b * sin, a * sin + b * cos], -1)`.\n"
_PLACES = "How many there are depends on the text: `torch.where(mask, x, 0.0)` keeps the shape, as do sums over it.\n"
_FIRST = "`topk` gives the first ones in order.\n"
_DRAWS = "A page computes the same each time: take `argmax` or the probabilities, and call `model.eval()`.\n"
READ |= {
    name: (f"{name} of torch", instead)
    for names, instead in (
        ("polar complex view_as_complex view_as_real real imag angle conj fft_fft fft_ifft fft_rfft fft_irfft stft istft", _PAIRS),
        ("nonzero argwhere masked_select unique unique_consecutive bincount histc", _PLACES),
        ("argsort msort median quantile kthvalue", _FIRST),
        ("rand_like randn_like bernoulli multinomial normal_ uniform_ gumbel_softmax rrelu", _DRAWS),
    )
    for name in names.split()
}  # fmt: skip
WHOLE = {"embedding_bag"}  # functions of torch in Python that have a row
IN_PLACE = (
    {"__setitem__": "__setitem__"}
    | {f"__i{name}__": name for name in "add sub mul pow".split()}
    | {"__itruediv__": "div"}
)
SAME = """contiguous clone detach cpu cuda requires_grad_ alias data positive __deepcopy__ lift_fresh view_as_real_""".split()
for _name in SAME:
    ROWS[_name] = lambda c, x, *_, **__: c.of(x)

# -- element by element ----------------------------------------------------------------------------------------------------

_ONE = {
    **{name: name for name in """abs ceil cos exp expm1 floor log log1p neg reciprocal relu round rsqrt selu sigmoid silu sin sqrt square
       tanh log_sigmoid logical_not""".split()},
    "absolute": "abs", "negative": "neg", "__neg__": "neg", "__abs__": "abs", "logsigmoid": "log_sigmoid", "__invert__": "logical_not",
    "bitwise_not": "logical_not",
}  # fmt: skip
_TWO = {
    "add": "add", "__add__": "add", "__radd__": "add", "sub": "sub", "subtract": "sub", "__sub__": "sub", "mul": "mul", "multiply": "mul",
    "__mul__": "mul", "__rmul__": "mul", "div": "truediv", "divide": "truediv", "true_divide": "truediv", "__truediv__": "truediv",
    "__div__": "truediv", "floor_divide": "floordiv", "__floordiv__": "floordiv", "remainder": "mod", "__mod__": "mod", "pow": "pow",
    "__pow__": "pow", "maximum": "maximum", "minimum": "minimum", "__and__": "logical_and", "__or__": "logical_or",
    "logical_and": "logical_and", "logical_or": "logical_or", "bitwise_and": "logical_and", "bitwise_or": "logical_or",
}  # fmt: skip
_SWAPPED = {"__rsub__": "sub", "rsub": "sub", "__rtruediv__": "truediv", "__rdiv__": "truediv", "__rpow__": "pow"}
_COMPARE = {
    "eq": "equal", "__eq__": "equal", "ne": "not_equal", "__ne__": "not_equal", "lt": "less", "__lt__": "less", "le": "less_equal",
    "__le__": "less_equal", "gt": "greater", "__gt__": "greater", "ge": "greater_equal", "__ge__": "greater_equal",
}  # fmt: skip


def _one(name: str) -> Row:
    fn = getattr(own, name)
    return lambda c, x: fn(c.of(x))


def _both(c: Any, kind: str, a: Any, b: Any, fn: Any = combine_bc) -> Tensor:
    (one, two), order = c.aligned(a, b)
    if not isinstance(one, Tensor):
        one = full(dims=[], fill_value=one)
    return c.ordered(fn(one, kind, two), order)


def _two(kind: str, swap: bool, fn: Any) -> Row:
    def made(c: Any, a: Any, b: Any, *, alpha: float = 1, rounding_mode: Any = None, **_: Any) -> Tensor:
        if rounding_mode is not None:
            raise c.refuse(f"div of torch with rounding_mode={rounding_mode!r}", "`torch.floor(a / b)` rounds down. ")
        if alpha != 1:
            b = c.of(b) * alpha
        return _both(c, kind, *((b, a) if swap else (a, b)), fn)

    return made


for _name, _kind in _ONE.items():
    ROWS[_name] = _one(_kind)
for _table, _swap, _fn in ((_TWO, False, combine_bc), (_SWAPPED, True, combine_bc), (_COMPARE, False, compare_bc)):
    for _name, _kind in _table.items():
        ROWS[_name] = _two(_kind, _swap, _fn)


@row("gelu")
def _gelu(c: Any, x: Any, approximate: str = "none") -> Tensor:
    x = c.of(x)
    if approximate == "none":
        return own.gelu(x)
    return x * 0.5 * (own.tanh((x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)) + 1.0)


@row("erf")
def _erf(c: Any, x: Any) -> Tensor:
    """Compute it from `gelu`, which contains it; close to 0 from its series."""
    x = own.maximum(own.minimum(c.of(x), 6.0), -6.0)
    near, z, square = own.abs(x) < 0.1, x * math.sqrt(2), x * x
    series = x * ((square * (square * (0.1 - square / 42) - 1 / 3) + 1.0) * (2 / math.sqrt(math.pi)))
    return where(near, series, own.gelu(z) * 2 / where(near, 1.0, z) - 1.0)


@row("softplus")
def _softplus(c: Any, x: Any, beta: float = 1, threshold: float = 20) -> Tensor:
    x = c.of(x) * beta
    return (own.log1p(own.exp(-own.abs(x))) + own.relu(x)) / beta


@row("leaky_relu")
def _leaky_relu(c: Any, x: Any, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    x = c.of(x)
    return where(x > 0, x, x * negative_slope)


@row("elu")
def _elu(c: Any, x: Any, alpha: float = 1.0, scale: float = 1, input_scale: float = 1, inplace: bool = False) -> Tensor:
    x = c.of(x)
    return where(x > 0, x, own.expm1(x) * alpha)


@row("mish")
def _mish(c: Any, x: Any) -> Tensor:
    return c.of(x) * own.tanh(_softplus(c, x))


@row("clamp", "clip", "clamp_min", "clamp_max", "hardtanh")
def _clamp(
    c: Any, x: Any, *limits: Any, min: Any = None, max: Any = None, min_val: Any = -1.0, max_val: Any = 1.0
) -> Tensor:
    value = c.of(x)
    if c.name.startswith("hardtanh"):
        limits = limits or (min_val, max_val)
    if c.name.startswith("clamp_max"):
        limits = (None, *limits)
    low, high = (*limits, None, None)[:2]
    limits = min if low is None else low, max if high is None else high
    low, high = (None if each is None else c.of(each) for each in limits)
    return own.clip_by_value(value, low, high)


@row("where")
def _where(c: Any, condition: Any, *values: Any) -> Tensor:
    if len(values) != 2:
        raise c.refuse("where of torch with one argument", "It gives the places, whose number is not known. ")
    arrays, order = c.aligned(condition, *values)
    return c.ordered(where(*arrays, allow_broadcast_all_sources=True), order)


@row("masked_fill")
def _masked_fill(c: Any, x: Any, mask: Any, value: Any) -> Tensor:
    return _where(c, mask, value, x)


# -- other dtypes, new arrays ----------------------------------------------------------------------------------------------


def dtype_of(dtype: torch.dtype) -> str:
    """The name of a dtype in rfnb."""
    return str(dtype).removeprefix("torch.")


def _cast(c: Any, value: Tensor, dtype: torch.dtype | None) -> Tensor:
    return value if dtype is None or value.dtype == dtype_of(dtype) else cast_to(value, dtype_of(dtype))


@row("to", "type")
def _to(c: Any, x: Any, *targets: Any, dtype: Any = None, other: Any = None, **_: Any) -> Tensor:
    for each in (*targets, other):
        dtype = each if isinstance(each, torch.dtype) else each.dtype if isinstance(each, torch.Tensor) else dtype
    return _cast(c, c.of(x), dtype)


for _name, _dtype in {"float": "float32", "double": "float64", "long": "int64", "int": "int32", "bool": "bool", "half": "float16",
                      "bfloat16": "bfloat16"}.items():  # fmt: skip
    ROWS[_name] = lambda c, x, _dtype=_dtype, **_: _cast(c, c.of(x), getattr(torch, _dtype))
ROWS["type_as"] = lambda c, x, other: _cast(c, c.of(x), other.dtype)


def _of_values(c: Any, data: Any, *, dtype: Any = None, **_: Any) -> Tensor:
    if isinstance(data, torch.Tensor):
        return _cast(c, c.of(data), dtype)
    array = torch.as_tensor(data, dtype=dtype, device="cpu")
    dims = [Dim(size, name="axis") for size in array.shape]
    return convert_to_tensor(array.numpy().tolist(), dims=dims, dtype=dtype_of(array.dtype))


for _name in ("tensor", "as_tensor", "from_numpy", "asarray", "scalar_tensor"):
    ROWS[_name] = _of_values


def _sizes(sizes: Sequence[Any]) -> list[Any]:
    return list(sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes)


def _filled(c: Any, sizes: Sequence[Any], value: Any, dtype: Any) -> Tensor:
    value = float(value) if isinstance(value, float) else value
    name = dtype_of(
        dtype or (torch.get_default_dtype() if isinstance(value, float) else torch.tensor(value, device="cpu").dtype)
    )
    return full(dims=c.dims_of(_sizes(sizes)), fill_value=value, dtype=name)


@row("zeros", "ones")
def _constant(c: Any, *sizes: Any, size: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    return _filled(c, size if size is not None else sizes, float(c.name.endswith("ones")), dtype)


@row("full")
def _full(c: Any, size: Any, fill_value: Any, *, dtype: Any = None, **_: Any) -> Tensor:
    return _filled(c, [size], fill_value, dtype)


def _of_dtype(make: Row) -> Row:
    """The row of a method that makes an array of the dtype of another one: `x.new_zeros(3)`."""
    return lambda c, x, *given, dtype=None, **more: make(c, *given, dtype=dtype or x.dtype, **more)


for _name, _make in {"tensor": _of_values, "zeros": _constant, "ones": _constant, "full": _full}.items():
    ROWS[f"new_{_name}"] = _of_dtype(_make)


@row("zeros_like", "ones_like", "full_like")
def _like(c: Any, x: Any, fill_value: Any = None, *, dtype: Any = None, **_: Any) -> Tensor:
    value = c.of(x)
    if c.name == "full_like":
        return _cast(c, ones_like(value) * fill_value, dtype or x.dtype)
    return _cast(c, (zeros_like if c.name == "zeros_like" else ones_like)(value), dtype)


@row("arange")
def _arange(c: Any, *ends: Any, start: Any = 0, end: Any = None, step: Any = 1, dtype: Any = None, **_: Any) -> Tensor:
    if len(ends) == 1:
        end = ends[0]
    elif ends:
        start, end, step = (*ends, step)[:3]
    of_dim = getattr(end, "dim", None) if step == 1 and not start and not getattr(end, "plus", 0) else None
    dim = of_dim or Dim(max(0, math.ceil((end - start) / step)), name="axis")
    values = c.places(dim)
    if step != 1:
        values = values * step
    if not isinstance(start, (int, float)) or type(start) not in (int, float) or start:
        values = combine_bc(values, "add", c.of(start))
    return _cast(
        c, values, dtype or (None if all(isinstance(each, int) for each in (start, end, step)) else torch.float32)
    )


@row("eye")
def _eye(c: Any, n: Any, m: Any = None, *, dtype: Any = None, **_: Any) -> Tensor:
    rows, cols = dims = c.dims_of([n, n if m is None else m])
    return _cast(c, c.ordered(compare_bc(c.places(rows), "==", c.places(cols)), dims), dtype or torch.float32)


@row("tril", "triu")
def _triangle(c: Any, x: Any, diagonal: int = 0) -> Tensor:
    value = c.of(x)
    rows, cols = value.dims[-2:]
    ahead = combine_bc(c.places(cols), "sub", c.places(rows))
    inside = ahead <= diagonal if c.name.startswith("tril") else ahead >= diagonal
    zero = False if value.dtype == "bool" else 0
    return c.ordered(where(inside, value, zero, allow_broadcast_all_sources=True), value.dims)


@row("one_hot")
def _one_hot(c: Any, x: Any, num_classes: int = -1) -> Tensor:
    value, dim = c.of(x), Dim(num_classes, name="classes")
    return c.ordered(cast_to(compare_bc(value, "==", c.places(dim)), "int64"), [*value.dims, dim])


# -- other shapes ----------------------------------------------------------------------------------------------------------


def _turned(c: Any, value: Tensor, axes: Sequence[int]) -> Tensor:
    return c.ordered(value, [value.dims[axis] for axis in axes])


@row("permute")
def _permute(c: Any, x: Any, *axes: Any, dims: Any = None) -> Tensor:
    return _turned(c, c.of(x), _sizes(axes) if dims is None else dims)


@row("transpose", "swapaxes", "swapdims")
def _transpose(c: Any, x: Any, dim0: int, dim1: int) -> Tensor:
    value = c.of(x)
    axes = list(range(len(value.dims)))
    axes[dim0], axes[dim1] = axes[dim1], axes[dim0]
    return _turned(c, value, axes)


@row("t", "T", "mT")
def _t(c: Any, x: Any) -> Tensor:
    return _transpose(c, x, -1, -2) if x.ndim > 1 else c.of(x)


@row("movedim", "moveaxis")
def _movedim(c: Any, x: Any, source: int, destination: int) -> Tensor:
    axes = list(range(x.ndim))
    axes.insert(destination % x.ndim, axes.pop(source))
    return _turned(c, c.of(x), axes)


@row("unsqueeze")
def _unsqueeze(c: Any, x: Any, dim: int) -> Tensor:
    value = c.of(x)
    return _with(c, value, dim % (len(value.dims) + 1))


def _with(c: Any, value: Tensor, place: int) -> Tensor:
    """The value with an axis of length 1 at a place."""
    one, dims = Dim(1, name="one"), list(value.dims)
    dims.insert(place, one)
    return c.ordered(expand_dim(value, one), dims)


@row("squeeze")
def _squeeze(c: Any, x: Any, dim: Any = None) -> Tensor:
    value = c.of(x)
    axes = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    for gone in [value.dims[axis] for axis in axes]:
        if is_one(gone):
            value = squeeze(value, axis=gone)
    return value


@row("view", "reshape", "_unsafe_view")
def _view(c: Any, x: Any, *given: Any, shape: Any = None) -> Tensor:
    sizes = _sizes(given) if shape is None else list(shape)
    if sizes and isinstance(sizes[0], torch.dtype):
        raise c.refuse("view of torch as another dtype", "`x.to(dtype)` converts the values. ")
    known = math.prod(int(size) for size in sizes if size != -1)
    if -1 in sizes:
        sizes[sizes.index(-1)] = math.prod(x.shape) // max(known, 1)
    return _shaped(c, c.of(x), sizes)


ROWS["view_as"] = ROWS["reshape_as"] = lambda c, x, other: _view(c, x, *[dim.extent for dim in c.of(other).dims])


def _shaped(c: Any, value: Tensor, sizes: Sequence[int]) -> Tensor:
    """The same entries in another shape: axes are merged and split where the products of their sizes agree."""
    for gone in [dim for dim in value.dims if is_one(dim)]:
        value = squeeze(value, axis=gone)
    left, wanted, order = list(value.dims), list(sizes), list[Dim]()
    while left or wanted:
        if wanted and wanted[0] == 1 and not (left and is_beam(left[0]) and left[0].extent == 1):
            order.append(Dim(1, name="one"))
            value = expand_dim(value, order[-1])
            wanted.pop(0)
            continue
        parts, into = [left.pop(0)], [wanted.pop(0)]
        while (have := math.prod(dim.extent for dim in parts)) != (needs := math.prod(into)):
            if have < needs:
                parts.append(left.pop(0))
            else:
                into.append(wanted.pop(0))
        if any(map(is_beam, parts)) and (len(parts) > 1 or len(into) > 1):
            raise c.refuse(
                f"{c.name} of torch, which mixes the axis of hypotheses with others", "Keep that axis: `x.flatten(1)`. "
            )
        if len(parts) > 1:
            merged = Dim(math.prod(into), name="axis")
            value, parts = merge_dims(value, dims=parts, out_dim=merged)[0], [merged]
        if len(into) > 1:
            made = [Dim(int(size), name="axis") for size in into]
            value, parts = split_dims(value, axis=parts[0], dims=made), made
        order += parts
    return c.ordered(value, order)


@row("flatten")
def _flatten(c: Any, x: Any, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    shape = list(x.shape)
    start, end = start_dim % max(x.ndim, 1), end_dim % max(x.ndim, 1)
    return _shaped(c, c.of(x), [*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]])


@row("unflatten")
def _unflatten(c: Any, x: Any, dim: int, sizes: Any) -> Tensor:
    shape, at = list(x.shape), dim % x.ndim
    sizes = list(sizes)
    if -1 in sizes:
        sizes[sizes.index(-1)] = shape[at] // math.prod(size for size in sizes if size != -1)
    return _shaped(c, c.of(x), [*shape[:at], *sizes, *shape[at + 1 :]])


@row("expand", "broadcast_to")
def _expand(c: Any, x: Any, *given: Any, size: Any = None, **_: Any) -> Tensor:
    sizes = _sizes(given) if size is None else list(size)
    value = c.of(x)
    value = _front(c, value, len(sizes) - len(value.dims))
    return _stretched(c, value, sizes)


def _front(c: Any, value: Tensor, count: int) -> Tensor:
    for _ in range(count):
        value = _with(c, value, 0)
    return value


def _stretched(c: Any, value: Tensor, sizes: Sequence[Any]) -> Tensor:
    order = list(value.dims)
    for place, (dim, size) in enumerate(zip(value.dims, sizes)):
        over = getattr(size, "dim", None)
        if not is_one(dim) or size == -1 or (size == 1 and not (over is not None and is_beam(over))):
            continue
        to = over if over is not None and not size.plus else Dim(int(size), name="axis")
        if to in order:
            to, of = twin(to), to
            c.places_as(to, of)
        value, order[place] = expand_dim(squeeze(value, axis=dim), to), to
    return c.ordered(value, order)


@row("expand_as")
def _expand_as(c: Any, x: Any, other: Any) -> Tensor:
    value, like = c.of(x), c.of(other)
    value = _front(c, value, len(like.dims) - len(value.dims))
    for dim, to in zip(list(value.dims), like.dims):
        if is_one(dim) and not is_one(to):
            order = [to if each is dim else each for each in value.dims]
            value = c.ordered(expand_dim(squeeze(value, axis=dim), to), order)
    return value


@row("repeat")
def _repeat(c: Any, x: Any, *given: Any) -> Tensor:
    sizes, value = _sizes(given), c.of(x)
    value = _front(c, value, len(sizes) - len(value.dims))
    if any(size != 1 and not is_one(dim) for dim, size in zip(value.dims, sizes)):
        raise c.refuse(
            "repeat of torch over an axis of more than one entry", "`torch.cat([x, x], dim)` does the same. "
        )
    return _stretched(c, value, sizes)


@row("repeat_interleave")
def _repeat_interleave(c: Any, x: Any, repeats: Any, dim: int | None = None, *, output_size: Any = None) -> Tensor:
    if not isinstance(repeats, int) or dim is None:
        raise c.refuse(
            "repeat_interleave of torch without a number or an axis", "Give both: `x.repeat_interleave(2, 1)`. "
        )
    value, times = c.of(x), Dim(repeats, name="times")
    order, axis = list(value.dims), value.dims[dim]
    value, order[dim] = merge_dims(expand_dim(value, times), dims=[axis, times])
    return c.ordered(value, order)


@row("cat", "concat", "concatenate")
def _cat(c: Any, tensors: Any, dim: int = 0, axis: Any = None) -> Tensor:
    values = [each for each in map(c.of, tensors) if tuple(d.extent for d in each.dims) != (0,)]
    rank = len(values[0].dims)
    at = (dim if axis is None else axis) % rank - rank
    seen: list[Dim] = []
    for number, value in enumerate(values):  # each has an axis of its own
        if value.dims[at] in seen:
            dims = list(value.dims)
            dims[at] = twin(dims[at])
            values[number] = value = c.renamed(value, dims)
        seen.append(value.dims[at])
    values, order = c.aligned(*values, but=at)
    out, made = concat(*((value, each) for value, each in zip(values, seen)), allow_broadcast=True)
    order.insert(rank + at, made)
    return c.ordered(out, order)


@row("stack")
def _stack(c: Any, tensors: Any, dim: int = 0) -> Tensor:
    arrays, order = c.aligned(*tensors)
    one = Dim(1, name="one")
    wide = [(c.whole(each, order), one) for each in arrays]
    out, made = concat(*((expand_dim(value, one), one) for value, one in wide))
    order.insert(dim % (len(order) + 1), made)
    return c.ordered(out, order)


@row("split", "split_with_sizes")
def _split(
    c: Any, x: Any, sizes: Any = None, dim: int = 0, *, split_size_or_sections: Any = None, split_size: Any = None
) -> Any:
    sizes = next(each for each in (sizes, split_size_or_sections, split_size) if each is not None)
    value = c.of(x)
    axis, order = value.dims[dim], list(value.dims)
    if isinstance(sizes, int):
        sizes = [min(sizes, axis.extent - begin) for begin in range(0, axis.extent, sizes)]
    dims = [Dim(int(size), name="axis") for size in sizes]
    place = dim % len(order)
    parts = split(value, axis=axis, out_dims=dims)
    return [c.ordered(part, [*order[:place], own, *order[place + 1 :]]) for part, own in zip(parts, dims)]


@row("chunk")
def _chunk(c: Any, x: Any, chunks: int, dim: int = 0) -> Any:
    return _split(c, x, -(-int(x.shape[dim]) // chunks), dim)


@row("unbind")
def _unbind(c: Any, x: Any, dim: int = 0) -> Any:
    value = c.of(x)
    return [gather(value, indices=at, axis=value.dims[dim]) for at in range(value.dims[dim].extent)]


# -- parts -----------------------------------------------------------------------------------------------------------------


def _indices(c: Any, x: Any, index: Any) -> list[Any]:
    """Return the items of an index; arrays as counterparts, known bools as the positions that are True."""
    items: list[Any] = []
    for item in index if isinstance(index, tuple) else [index]:
        array = torch.as_tensor(item, device="cpu") if isinstance(item, list) else item
        if not isinstance(array, torch.Tensor) or array.dtype is not torch.bool:
            items.append(c.of(array) if isinstance(array, torch.Tensor) else array)
        elif c.is_followed(array):
            raise c.refuse(
                "an index of bools",
                "How much it leaves depends on the text: `torch.where(mask, x, 0.0)` keeps the shape, as do sums over it. ",
            )
        else:
            items += map(c.of, array.nonzero(as_tuple=True))
    return items


def _for_each_axis(items: list[Any], count: int) -> list[Any]:
    """The items of an index, one for each axis, and for each new one."""
    used = sum(item is not None and item is not Ellipsis for item in items)
    at = next((place for place, item in enumerate(items) if item is Ellipsis), len(items))
    return [*items[:at], *[slice(None)] * (count - used), *items[at + 1 :]]


@row("__getitem__")
def _item(c: Any, x: Any, index: Any) -> Tensor:
    items = _indices(c, x, index)
    value = c.of(x)
    arrays = [at for at, item in enumerate(items) if isinstance(item, Tensor)]
    if len(arrays) > 1:
        if not all(isinstance(item, (Tensor, int)) for item in items[arrays[0] : arrays[-1]]):
            raise c.refuse(
                "an index of several arrays with other axes between them",
                "Bring theirs together first: `x.movedim(2, 1)[i, j]`. ",
            )
        together, shared = c.aligned(*(items[at] for at in arrays))
        for at, item in zip(arrays, together):
            items[at] = c.whole(item, shared)
    items = _for_each_axis(items, len(value.dims))
    left, order, shared = list(value.dims), list[Dim](), list[Dim]()
    for item in items:
        if item is None:
            order.append(Dim(1, name="one"))
            value = expand_dim(value, order[-1])
            continue
        axis = left.pop(0)
        if isinstance(item, Tensor):
            if not shared:
                shared = [apart(dim, value.dims) for dim in item.dims]
                order += shared
            if bool((item._raw < 0).any()):  # counted from the end
                item = where(item < 0, item + (reductions.reduce_max(c.places(axis), axis=axis) + 1), item)
            value = gather(value, indices=c.renamed(item, shared), axis=axis)
        elif isinstance(item, slice):
            value, made = _cut(c, value, axis, item)
            order.append(made)
        else:
            value = _entry(c, value, axis, item)
    return c.ordered(value, order)


@row("__setitem__")
def _set_item(c: Any, x: Any, index: Any, new: Any) -> Tensor:
    """The array with other entries in one place of some axes; or where bools say so."""
    items = list(index) if isinstance(index, tuple) else [index]
    value = c.of(x)
    if len(items) == 1 and isinstance(items[0], torch.Tensor) and items[0].dtype is torch.bool:
        return _where(c, items[0], new, x)
    whole, here = list(value.dims), c.of(torch.tensor(True, device="cpu"))
    for axis, item in zip_longest(value.dims, _for_each_axis(items, len(whole))):
        if isinstance(item, slice) and item == slice(None):
            continue
        if not isinstance(item, int):
            raise c.refuse(
                "an array of which more than one entry of an axis is set", "Set whole axes, or one entry of an axis. "
            )
        place = (
            combine_bc(reductions.reduce_max(c.places(axis), axis=axis), "add", item + 1) if item < 0 else c.of(item)
        )
        here = combine_bc(here, "logical_and", compare_bc(c.places(axis), "==", place))
        whole.remove(axis)
    given = c.of(new)
    if isinstance(given, Tensor):
        given = c.fitted(given, whole) if given.dims else given
    return c.whole(_cast(c, where(here, given, value, allow_broadcast_all_sources=True), x.dtype), value.dims)


def _entry(c: Any, value: Tensor, axis: Dim, at: Any) -> Tensor:
    if type(at) is int and at >= -1:
        return gather(value, indices=at, axis=axis)
    if getattr(at, "dim", None) is axis and at.plus < 0:
        at = at.plus
    if type(at) is int:  # counted from the end
        last = reductions.reduce_max(c.places(axis), axis=axis)
        return gather(value, indices=last + (at + 1), axis=axis)
    return gather(value, indices=c.of(at), axis=axis)


def _cut(c: Any, value: Tensor, axis: Dim, part: Any) -> tuple[Tensor, Dim]:
    start, stop, step = part.start, part.stop, part.step
    if getattr(stop, "dim", None) is axis and not stop.plus:
        stop = None
    if start in (None, 0) and stop is None and step in (None, 1):
        return value, axis
    sizes = [each for each in (start, stop, step) if not (each is None or type(each) is int)]
    if not sizes:
        out = Dim(len(range(*part.indices(axis.extent))), name="axis")
        return sliced(value, axis=axis, start=start, end=stop, step=step, out_dim=out)
    begin, end, by = part.indices(axis.extent)
    if step not in (None, 1):
        raise c.refuse("a slice with a step and a size", "Take one after the other: `x[:n][::2]`. ")
    over = getattr(stop, "dim", None) if start in (None, 0) and not getattr(stop, "plus", 0) else None
    out = over if over is not None and over.extent == end else Dim(max(0, end - begin), name="axis")
    if out is not axis and out in value.dims:
        out, of = twin(out), out
        places = c.places_as(out, of)
    else:
        places = c.places(out)
    if start is not None and not (type(start) is int and start == 0):
        places = combine_bc(places, "add", c.of(start) if not (type(start) is int and start < 0) else begin)
    return gather(value, indices=places, axis=axis), out


@row("select", "index_select")
def _select(c: Any, x: Any, dim: int, index: Any) -> Tensor:
    return _item(c, x, (*[slice(None)] * (dim % x.ndim), index))


@row("narrow")
def _narrow(c: Any, x: Any, dim: int, start: Any, length: Any) -> Tensor:
    return _select(c, x, dim, slice(start, start + length))


@row("gather", "take_along_dim")
def _gather(c: Any, x: Any, dim: int, index: Any, **_: Any) -> Tensor:
    if not isinstance(dim, int):
        dim, index = index, dim
    value, places = c.of(x), c.of(index)
    at = dim % len(value.dims)
    if any(a.extent != b.extent for place, (a, b) in enumerate(zip(value.dims, places.dims)) if place != at):
        raise c.refuse(
            "gather of torch for a part of the other axes", "Cut them first: `x[: index.shape[0]].gather(1, index)`. "
        )
    axis, dims = value.dims[at], list(value.dims)
    dims[at] = twin(places.dims[at])
    return c.ordered(gather(value, indices=c.renamed(places, dims), axis=axis), dims)


@row("embedding")
def _embedding(c: Any, weight: Any, indices: Any, *_: Any, **__: Any) -> Tensor:
    table, ids = c.of(weight), c.of(indices)
    rows, features = table.dims[0], apart(table.dims[1], ids.dims)
    return c.ordered(gather(c.renamed(table, [rows, features]), indices=ids, axis=rows), [*ids.dims, features])


@row("embedding_bag")
def _embedding_bag(
    c: Any, x: Any, weight: Any, offsets: Any = None, *_: Any, mode: str = "mean", per_sample_weights: Any = None,
    include_last_offset: bool = False, padding_idx: int | None = None, **__: Any,
) -> Tensor:  # fmt: skip
    if (offsets is not None and offsets.numel() != 1 + include_last_offset) or (
        padding_idx is not None and mode == "max"
    ):
        raise c.refuse(
            "embedding_bag of torch with several bags in a row, or with the maximum of padded ones",
            "Give each bag a row, and padding a mask: `F.embedding(ids, weight)`, `torch.where`, then `amax(1)`. ",
        )
    ids = c.of(x)
    rows = _embedding(c, weight, x)
    axis, order = ids.dims[-1], [*ids.dims[:-1], rows.dims[-1]]
    if per_sample_weights is not None:
        rows = rows * c.renamed(c.of(per_sample_weights), ids.dims)
    if mode == "max":
        return _front(c, c.ordered(reductions.reduce_max(rows, axis=axis), order), 2 - len(order))
    real = ones_like(cast_to(ids, "float32")) if padding_idx is None else cast_to(ids != padding_idx, "float32")
    found = reductions.reduce_sum(rows * real, axis=axis)
    if mode == "mean":
        found = found / own.maximum(reductions.reduce_sum(real, axis=axis), 1.0)
    return _front(c, c.ordered(found, order), 2 - len(order))


@row("flip")
def _flip(c: Any, x: Any, *dims: Any) -> Tensor:
    value = c.of(x)
    for axis in [value.dims[at] for at in _sizes(dims)]:
        value = c.reversed(value, axis)
    return value


@row("pad", "constant_pad_nd")
def _pad(c: Any, x: Any, pad_by: Any, mode: Any = "constant", value: Any = None) -> Tensor:
    mode, value = (mode, value) if isinstance(mode, str) else ("constant", mode)
    if mode != "constant" or any(by < 0 for by in pad_by):
        raise c.refuse(
            f"pad of torch with mode={mode!r} and {tuple(pad_by)}",
            "It adds a constant. Cut by a slice, repeat or mirror an end by `torch.cat([x, x[..., -3:].flip(-1)], -1)`. ",
        )
    array = c.of(x)
    for number in range(0, len(pad_by), 2):
        at, dims = -1 - number // 2, list(array.dims)
        array, (dims[at],) = pad(array, axes=[dims[at]], padding=[tuple(pad_by[number : number + 2])], value=value or 0)
        array = c.ordered(array, dims)
    return array


# -- reductions ------------------------------------------------------------------------------------------------------------


def _over(value: Tensor, dim: Any) -> list[Dim]:
    return (
        list(value.dims)
        if dim is None or dim == ()
        else [value.dims[at] for at in ([dim] if isinstance(dim, int) else dim)]
    )


def _kept(c: Any, value: Tensor, before: Sequence[Dim], over: Sequence[Dim], keepdim: bool) -> Tensor:
    """A reduced value in order; with an axis of length 1 for each that is gone."""
    return c.whole(value, [Dim(1, name="one") if dim in over else dim for dim in before if keepdim or dim not in over])


def _reduced(name: str, pair: bool = False) -> Row:
    fn: Any = getattr(reductions, f"reduce_{name}")

    def made(
        c: Any, x: Any, dim: Any = None, keepdim: bool = False, *, axis: Any = None, dtype: Any = None, **_: Any
    ) -> Any:
        if isinstance(dim, torch.Tensor):
            return _both(c, f"{name}imum", x, dim)
        value = _cast(c, c.of(x), dtype)
        if value.dtype == "bool" and name in ("sum", "mean"):
            value = cast_to(value, "int64")
        over = _over(value, dim if axis is None else axis)
        flat = value
        if name.startswith("arg") and len(over) > 1:
            flat = _shaped(c, value, [math.prod(x.shape)])
            over, before = list(flat.dims), flat.dims
        else:
            before = value.dims
        out = _kept(c, fn(flat, axis=over if len(over) > 1 else over[0]) if over else flat, before, over, keepdim)
        if not pair or dim is None:
            return out
        which = getattr(reductions, f"reduce_arg{name}")
        return [out, _kept(c, which(value, axis=over[0]), before, over, keepdim)]

    return made


@row("topk")
def _topk(c: Any, x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    value = c.of(x)
    order = list(value.dims)
    axis, order[dim] = order[dim], Dim(int(k), name="best")
    best, places, _ = reductions.top_k(value if largest else -value, axis=axis, k_dim=order[dim])
    assert isinstance(places, Tensor)
    return [c.ordered(best if largest else -best, order), c.ordered(set_sparse_dim(places, None), order)]


@row("sort")
def _sort(c: Any, x: Any, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Any:
    if not is_one(c.of(x).dims[dim]):
        raise c.refuse("sort of torch", _FIRST)
    return [c.of(x), new_tensor(torch.zeros_like(x, dtype=torch.int64), c.of(x).dims)]  # a batch of one, by length


for _name in ("sum", "mean", "logsumexp", "any", "all", "argmax", "argmin"):
    ROWS[_name] = _reduced(_name)
ROWS["max"], ROWS["min"] = _reduced("max", True), _reduced("min", True)
ROWS["amax"], ROWS["amin"] = _reduced("max"), _reduced("min")


@row("var", "std")
def _variance(
    c: Any, x: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: Any = None
) -> Tensor:
    value = c.of(x)
    over = _over(value, dim)
    mean = reductions.reduce_mean(value, axis=over)
    total = reductions.reduce_sum(own.squared_difference(value, mean), axis=over)
    count = reductions.reduce_sum(ones_like(value), axis=over)
    total = total / (count - float(int(unbiased) if correction is None else correction))
    return _kept(c, own.sqrt(total) if c.name == "std" else total, value.dims, over, keepdim)


@row("norm", "linalg_vector_norm", "vector_norm")
def _norm(c: Any, x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, p: Any = None, **_: Any) -> Tensor:
    if (p or ord) not in (2, 2.0, "fro"):
        raise c.refuse(
            f"norm of torch with p={p or ord}", "`(x.abs() ** p).sum(dim) ** (1 / p)` does the same, `amax` its limit. "
        )
    value = c.of(x)
    over = _over(value, dim)
    return _kept(c, own.sqrt(reductions.reduce_sum(own.square(value), axis=over)), value.dims, over, keepdim)


@row("cumsum")
def _cumsum(c: Any, x: Any, dim: int, **_: Any) -> Tensor:
    value = c.of(x)
    return c.ordered(cumsum(value, spatial_dim=value.dims[dim]), value.dims)


@row("softmax", "log_softmax")
def _softmax(c: Any, x: Any, dim: int | None = None, dtype: Any = None, **_: Any) -> Tensor:
    value = _cast(c, c.of(x), dtype)
    axis = value.dims[dim if dim is not None else -1]
    if c.name == "log_softmax":
        return c.ordered(log_softmax(value, axis=axis), value.dims)
    return c.ordered(_attending(softmax(value, axis=axis), value.dims, axis), value.dims)


def _attending(weights: Tensor, dims: Sequence[Dim], axis: Dim) -> Tensor:
    """Weights that may be those of an attention, which a view shows and a person changes."""
    others = [dim for dim in dims if dim is not axis and not is_one(dim) and not is_beam(dim)]
    return attended(weights, axis=axis, target=others[-1] if others else None)


# -- products --------------------------------------------------------------------------------------------------------------


@row("matmul", "__matmul__", "bmm", "mm", "mv", "dot")
def _matmul(c: Any, a: Any, b: Any, **_: Any) -> Tensor:
    one, two = c.of(a), c.of(b)
    inner = one.dims[-1]
    rows, cols = [list(each) for each in (one.dims[-2:-1], two.dims[-1:] if len(two.dims) > 1 else ())]
    inner = apart(inner, [*rows, *cols])
    order = c.shared([one.dims[:-2], two.dims[:-2]], [inner])
    taken = [*order, inner]
    rows = [apart(dim, taken) for dim in rows]
    cols = [apart(dim, [*taken, *rows]) for dim in cols]
    one = c.fitted(one, [*order, *rows, inner])
    two = c.fitted(two, [*order, inner, *cols])
    return c.ordered(matmul(one, two, reduce=inner), [*order, *rows, *cols])


@row("linear")
def _linear(c: Any, x: Any, weight: Any, bias: Any = None) -> Tensor:
    value, table = c.of(x), c.of(weight)
    out = table.dims[0]
    inner = apart(value.dims[-1], [out])
    value = c.renamed(value, [*value.dims[:-1], inner])
    out = apart(out, value.dims)
    table = c.renamed(table, [out, inner])
    offset = None if bias is None else c.renamed(c.of(bias), [out])
    made = linear(value, table, offset, reduce=inner)
    return c.ordered(made, [*value.dims[:-1], out])


@row("addmm", "baddbmm")
def _addmm(c: Any, x: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1, **_: Any) -> Tensor:
    product = _matmul(c, a, b)
    (one, two), order = c.aligned(c.of(x), product)
    return c.ordered(combine_bc(one if beta == 1 else one * beta, "add", two if alpha == 1 else two * alpha), order)


@row("outer")
def _outer(c: Any, a: Any, b: Any) -> Tensor:
    return _both(c, "mul", _unsqueeze(c, a, -1), b)


@row("einsum")
def _einsum(c: Any, equation: str, *operands: Any) -> Tensor:
    operands = tuple(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    inputs, _, output = equation.replace(" ", "").partition("->")
    parts = inputs.split(",")
    if "->" not in equation:
        once = inputs.replace(",", "")
        output = "".join(sorted(each for each in set(once) if once.count(each) == 1))
    if "." in equation or any(len(set(part)) < len(part) for part in parts):
        raise c.refuse(f"einsum of torch with {equation!r}", "Each letter is one axis, once in each operand. ")
    dims: dict[str, Dim] = {}
    values = []
    arrays = [c.of(operand) for operand in operands]
    for is_kept in (True, False):  # those of the result first
        for letter, dim in [pair for part, value in zip(parts, arrays) for pair in zip(part, value.dims)]:
            if letter not in dims and (letter in output) is is_kept:
                dims[letter] = apart(dim, list(dims.values()))
    for part, value in zip(parts, arrays):
        values.append(c.renamed(value, [dims[letter] for letter in part]))
    found, letters = values[0], set(parts[0])
    for number, (part, value) in enumerate(zip(parts[1:], values[1:]), 2):
        later = set(output).union(*parts[number:])
        gone = [dims[letter] for letter in sorted(letters & set(part) - later)]
        found = matmul(found, value, reduce=gone) if gone else combine_bc(found, "mul", value)
        letters = (letters | set(part)) - {letter for letter in dims if dims[letter] in gone}
    alone = [dims[letter] for letter in sorted(letters - set(output))]
    if alone:
        found = reductions.reduce_sum(found, axis=alone)
    return c.ordered(found, [dims[letter] for letter in output])


# -- layers ----------------------------------------------------------------------------------------------------------------


@row("dropout", "alpha_dropout", "feature_dropout", "dropout1d", "dropout2d")
def _dropout(c: Any, x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if training and p:
        raise c.refuse(
            "dropout of torch in training", "A page computes as in evaluation, so call `model.eval()` first.\n"
        )
    return c.of(x)


@row("layer_norm")
def _layer_norm(c: Any, x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any) -> Tensor:
    value = c.of(x)
    axes = list(value.dims[-len(shape) :])
    mean = reductions.reduce_mean(value, axis=axes)
    variance = reductions.reduce_mean(own.squared_difference(value, mean), axis=axes)
    return _scaled(c, (value - mean) * own.rsqrt(variance + float(eps)), weight, bias, axes, value.dims)


@row("rms_norm")
def _rms_norm(c: Any, x: Any, shape: Any, weight: Any = None, eps: float | None = None) -> Tensor:
    value = c.of(x)
    axes = list(value.dims[-len(shape) :])
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    made = value * own.rsqrt(reductions.reduce_mean(own.square(value), axis=axes) + float(eps))
    return _scaled(c, made, weight, None, axes, value.dims)


def _scaled(c: Any, value: Tensor, weight: Any, bias: Any, axes: list[Dim], order: Sequence[Dim]) -> Tensor:
    if weight is not None:
        value = value * c.renamed(c.of(weight), axes)
    if bias is not None:
        value = value + c.renamed(c.of(bias), axes)
    return c.ordered(value, order)


@row("batch_norm")
def _batch_norm(
    c: Any, x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float, *_: Any
) -> Tensor:
    if training:
        raise c.refuse(
            "batch_norm of torch in training", "A page computes as in evaluation, so call `model.eval()` first.\n"
        )
    value = c.of(x)
    axes = [value.dims[1]]
    mean, var = (c.renamed(c.of(each), axes) for each in (mean, var))
    return _scaled(c, (value - mean) * own.rsqrt(var + eps), weight, bias, axes, value.dims)


def _each_axis(value: Any, count: int) -> list[Any]:
    """An option of a call for each axis."""
    values = list(value) if isinstance(value, (tuple, list)) else [value]
    return values * count if len(values) == 1 else values


def _reaching(c: Any, axes: Sequence[Dim], *options: Any) -> dict[str, Any]:
    """The options of windows that move along axes, none of which is shorter than its window: sizes, strides, dilation, padding."""
    rows = [_each_axis(option, len(axes)) for option in options]
    for axis, *row in zip(axes, *rows):
        window = Window(*row)
        if window.reach >= sum(window.pads):
            c.at_least(axis, window.reach + 1 - sum(window.pads))
    return dict(zip(("strides", "dilation_rate", "padding"), rows[1:]))


@row("conv1d", "conv2d", "conv3d")
def _conv(
    c: Any, x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    filters = c.of(weight)
    out, _, *widths = filters.dims
    value = _front(c, c.of(x), len(filters.dims) - x.ndim)
    rows, channels, *axes = value.dims
    options = _reaching(c, axes, [width.extent for width in widths], stride, dilation, padding)
    filters = c.renamed(filters, [out, filter_in_dim(channels, out, groups), *widths])
    bias = None if bias is None else c.renamed(c.of(bias), [out])
    found, made = conv(
        value, in_dim=channels, out_dim=out, in_spatial_dims=axes, filter=filters, filter_size=widths, groups=groups, bias=bias,
        **options,
    )  # fmt: skip
    found = c.ordered(found, [rows, out, *made])
    return found if x.ndim == weight.ndim else squeeze(found, axis=rows)


@row(*(f"{kind}_pool{count}d" for kind in ("max", "avg", "adaptive_avg", "adaptive_max") for count in (1, 2, 3)))
def _pool(c: Any, x: Any, size: Any, stride: Any = None, padding: Any = 0, *others: Any, **options: Any) -> Any:
    value, count, is_max = c.of(x), int(c.name[-2]), "max" in c.name
    axes = list(value.dims[-count:])
    if c.name.startswith("adaptive"):
        if any(each != 1 for each in _each_axis(size, count)):
            raise c.refuse(
                f"{c.name} of torch to {size} entries",
                "One entry works, as do windows of one size: `avg_pool1d(x, 2)`. ",
            )
        over = reductions.reduce_max if is_max else reductions.reduce_mean
        return _kept(c, over(value, axis=axes), value.dims, axes, True)
    if any(other not in (False, None, 1, (1,) * count) for other in (*others, *options.values())) or (
        any(_each_axis(padding, count)) and not is_max
    ):
        raise c.refuse(f"{c.name} of torch with these options", "It has a size and a stride, `max` also padding. ")
    options = _reaching(c, axes, size, stride or size, 1, padding)
    found, made = pool(value, mode="max" if is_max else "avg", pool_size=size, in_spatial_dims=axes, **options)
    return c.ordered(found, [*value.dims[:-count], *made])


@row("scaled_dot_product_attention")
def _attention(
    c: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, *,
    scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    if dropout_p or enable_gqa:
        raise c.refuse(
            "scaled_dot_product_attention of torch with dropout or grouped queries",
            "Call `model.eval()` first; repeat keys and values by `k.repeat_interleave(groups, 1)`. ",
        )
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    energy = _matmul(c, c.of(query) * float(scale), _transpose(c, key, -1, -2))
    order = list(energy.dims)
    if is_causal:
        rows, cols = order[-2:]
        inside = compare_bc(c.places(cols), "<=", c.places(rows))
        energy = where(inside, energy, -math.inf, allow_broadcast_all_sources=True)
    if attn_mask is not None:
        (mask, energy), order = c.aligned(attn_mask, c.ordered(energy, order))
        if mask.dtype == "bool":
            energy = where(mask, energy, -math.inf, allow_broadcast_all_sources=True)
        else:
            energy = combine_bc(energy, "add", mask)
    weights = _attending(softmax(energy, axis=order[-1]), order, order[-1])
    return _matmul(c, c.ordered(weights, order), value)


def _lstm_step(gates: Tensor, parts: Sequence[Tensor], state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    i, f, g, o = parts
    cell = own.sigmoid(f) * state[1] + own.sigmoid(i) * own.tanh(g)
    return own.sigmoid(o) * own.tanh(cell), cell


class _Cell:
    """A recurrent cell of torch: its weights, and one step.

    Args:
        weights: w_ih, w_hh and the biases, of torch.
        units: The dim of its state.
    """

    def __init__(self, c: Any, kind: str, weights: Sequence[Any], units: Dim, inputs: Dim):
        self.c, self.kind, self.units = c, kind, units
        self.gates = Dim(weights[0].shape[0], name="gates")
        self.into = c.renamed(c.of(weights[0]), [self.gates, inputs])
        self.back = c.renamed(c.of(weights[1]), [self.gates, units])
        self.offsets = [c.renamed(c.of(each), [self.gates]) for each in weights[2:4] if each is not None]
        self.inputs = inputs

    def ahead(self, x: Tensor) -> Tensor:
        """The share of the input in the gates."""
        return linear(x, self.into, self.offsets[0] if self.offsets else None, reduce=self.inputs)

    def _parts(self, gates: Tensor) -> Sequence[Tensor]:
        count = self.gates.extent // self.units.extent
        parts = [Dim(self.units.extent, name="units") for _ in range(count)]
        cut = split(gates, axis=self.gates, out_dims=parts)
        return [
            self.c.renamed(part, [self.units if dim is own else dim for dim in part.dims])
            for part, own in zip(cut, parts)
        ]

    def step(self, ahead: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The next state, of which the output is the first."""
        back = linear(state[0], self.back, self.offsets[1] if len(self.offsets) > 1 else None, reduce=self.units)
        if self.kind == "gru":
            (r, z, n), (hr, hz, hn) = self._parts(ahead), self._parts(back)
            r, z = own.sigmoid(combine_bc(r, "add", hr)), own.sigmoid(combine_bc(z, "add", hz))
            n = own.tanh(combine_bc(n, "add", r * hn))
            return (n + z * combine_bc(state[0], "sub", n),)
        total = combine_bc(ahead, "add", back)
        if self.kind == "lstm":
            return _lstm_step(total, self._parts(total), state)
        made = (own.tanh if self.kind == "rnn_tanh" else own.relu)(total)
        return (self.c.renamed(made, [self.units if dim is self.gates else dim for dim in made.dims]),)


@row("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def _cell(c: Any, x: Any, state: Any, *weights: Any) -> Any:
    kind = c.name.removesuffix("_cell")
    value, states = c.of(x), [c.of(each) for each in (state if isinstance(state, (tuple, list)) else [state])]
    units = apart(states[0].dims[-1], value.dims)
    rest = list(value.dims[:-1])
    states = [c.fitted(each, [*rest, units]) for each in states]
    cell = _Cell(c, kind, weights, units, value.dims[-1])
    return [c.whole(each, [*rest, units]) for each in cell.step(cell.ahead(value), tuple(states))]


@row("lstm", "gru", "rnn_tanh", "rnn_relu")
def _recurrent(c: Any, x: Any, *given: Any) -> Any:
    packed = isinstance(given[2], (list, tuple))  # the first one is then the sizes of batches, which are all 1
    state, weights, has_biases, num_layers, dropout, training, bidirectional, *first = given[1:] if packed else given
    batch_first = bool(first and first[0])
    if dropout and training and num_layers > 1:
        raise c.refuse(
            "dropout of torch in training", "A page computes as in evaluation, so call `model.eval()` first.\n"
        )
    value, states = c.of(x), [c.of(each) for each in values_in(state)]
    flat = len(value.dims) == 2
    rows: list[Dim] = []
    time = value.dims[0]
    if not flat:
        first, second = value.dims[:2]
        time, rows = (second, [first]) if batch_first else (first, [second])
    per, ways = 4 if has_biases else 2, 1 + bidirectional
    lasts: list[list[Tensor]] = [[] for _ in states]
    for layer in range(num_layers):
        outs = []
        for way in range(ways):
            at = layer * ways + way
            given = weights[at * per : (at + 1) * per]
            begin = [gather(each, indices=at, axis=each.dims[0]) for each in states]
            if packed:
                begin = [squeeze(each, axis=each.dims[0]) for each in begin]
            units = twin(begin[0].dims[-1])
            begin = [c.fitted(each, [*rows, units]) for each in begin]
            cell = _Cell(c, c.name, given, units, value.dims[-1])
            out, last = _run(c, cell, value, time, begin, f"l{layer}", bool(way))
            outs.append((out, units))
            for each, found in zip(lasts, last):
                each.append(c.whole(found, [*rows, units]))
        value, units = outs[0]
        if bidirectional:
            value, units = concat(*outs)
        order = [time, units] if flat else [*rows, time, units] if batch_first else [time, *rows, units]
        value = c.whole(value, order)
    ends = [_stack(c, found) for found in lasts]
    return [value, *(_with(c, each, 1) if packed else each for each in ends)]


@row("_pack_padded_sequence")
def _pack(c: Any, x: Any, lengths: Any, batch_first: bool = False) -> Any:
    value = c.of(x)
    rows, time = value.dims[:2] if batch_first else value.dims[1::-1]
    if not is_one(rows):
        raise c.refuse(
            "pack_padded_sequence of torch over several sequences", "A page has one sequence without padding. "
        )
    return [
        squeeze(value, axis=rows),
        new_tensor(torch.ones(time.extent, dtype=torch.int64, device="cpu"), (time,)),
    ]  # torch reads these


@row("_pad_packed_sequence")
def _unpack(c: Any, x: Any, counts: Any, batch_first: bool, filling: float, length: int) -> Any:
    value = c.of(x)
    time = value.dims[0]
    lengths = reductions.reduce_max(c.places(time), axis=time) + 1
    return [_with(c, value, 0 if batch_first else 1), _with(c, lengths, 0)]


@row("pad_sequence")
def _pad_sequence(c: Any, sequences: Any, batch_first: bool = False, *_: Any, **__: Any) -> Tensor:
    (x,) = sequences if len(sequences) == 1 else [None]
    if x is None:
        raise c.refuse("pad_sequence of torch over several sequences", "A page has one sequence without padding. ")
    return _with(c, c.of(x), 0 if batch_first else 1)


def _run(
    c: Any, cell: _Cell, value: Tensor, time: Dim, begin: Sequence[Tensor], name: str, back: bool
) -> tuple[Tensor, Sequence[Tensor]]:
    """The outputs {time, ...} of a cell over an axis, and its last state."""
    ahead = cell.ahead(value)
    if is_one(time):
        found = cell.step(squeeze(ahead, axis=time), tuple(begin))
        return expand_dim(found[0], time), found
    if back:
        ahead = c.reversed(ahead, time)
    loop = Loop(axis=time, name=name + " from the end" * back)  # the other direction has no view
    names = ("h", "c")[: len(begin)]
    for name, each in zip(names, begin):
        loop.state[name] = each
    for _ in loop:
        made = cell.step(loop.unstack(ahead), tuple([loop.state[name] for name in names]))
        for name, each in zip(names, made):
            loop.state[name] = each
        out = loop.stack(loop.state["h"])
    last = [loop.state[name] for name in names]
    return (c.reversed(out, time) if back else out), last
