"""named: a plain array as a Tensor whose axes have names; unnamed: the way back.

    x = rf.named(hidden, "batch time feature", lengths=[7, 5, 3])      # [batch=3, time<=7, feature=512]
    q = rf.named(queries, "b t (heads dim)", dims={"heads": 8})        # an axis of two dims is split
    y = rf.named(other, "batch time out", dims=x.dims)                 # the same batch and time
    raw = rf.unnamed(x, "time batch feature")

A torch tensor keeps its storage, and gradients pass through.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Never

import numpy as np

from rfnb.backends import registry
from rfnb.core import foreign_arrays
from rfnb.core.axis_names import Entry, fitted, kind_of, name_of, parse, text_of
from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error, shape_error, type_error
from rfnb.core.named_lengths import Ragged, RawAxis, check_same, ragged_axes, ragged_axis
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import labels_of

_CALL = "rf.named(x, {})"


def named(
    x: Any,
    names: Any = None,
    *,
    lengths: Any = None,
    dims: Mapping[str, Dim | int] | Iterable[Dim] | None = None,
    sparse_dim: Dim | None = None,
    name: str | None = None,
) -> Any:
    """A Tensor from an array, with named axes.

    Args:
        x: A torch tensor (then the result has the same storage, and gradients go through), a packed sequence or nested tensor
            (padded; its lengths are known), an xarray.DataArray (its dims, labels and lengths are known), a NumPy array, anything with
            `__dlpack__` or `__array__`, or nested lists of numbers. A tuple, list or dict of arrays becomes one of Tensors, which share
            dims of the same name.
        names: One name per axis, "batch time feature", or a list of names and Dims. "(heads dim)" is an axis composed of two dims,
            outer one first; "1" an axis of length 1, which is dropped; "..." all further axes. A name that occurs twice is a dim and its
            twin, as in self-attention. Default: the names that x carries.
        lengths: Lengths of the dim called time (or frames, steps, tokens, ...), one per batch entry: integers, or a boolean mask
            {batch, time}, True for real frames. Or a dict of these by name. Axes are cut at the longest sequence. Lengths on a GPU are
            waited for.
        dims: Dims to use, by name or as a list, e.g. those of another Tensor; or sizes, for dims that compose an axis.
        sparse_dim: The dim that the integers of x index into.
        name: Name of the Tensor.

    Raises:
        DimError: If a Dim does not match its axis, or it is unclear which dim the lengths belong to.
        ShapeError: If there is not one name per axis, or the lengths do not match.
        TypeError: If x is not an array, or its entries are missing (sparse) or not numbers (quantised).
        ValueError: If names are invalid.
    """
    given = _given_dims(dims)
    if names is not None and isinstance(dims, Mapping):
        _check_used(given, dims, parse(names, "named"))
    return _named(x, names, lengths, given, sparse_dim, name)


def _named(x: Any, names: Any, lengths: Any, given: dict[str, Any], sparse_dim: Dim | None, name: str | None) -> Any:
    if isinstance(x, Tensor):
        raise type_error(
            "named: x has dims already.",
            {"x": x},
            "Names are for arrays without dims. To replace a dim by another:",
            "x, _ = rf.replace_dim(x, in_dim=x.dims[0], out_dim=...)",
        )
    if foreign_arrays.is_many(x):
        return _many(x, lambda each: _named(each, names, lengths, given, sparse_dim, name), given)
    array = foreign_arrays.array_of(x, "named")
    shape = tuple(_backend(array.raw).get_shape_tuple_raw(array.raw))
    if names is None and array.names is None:
        rows = [("x", f"{type(x).__name__} {shape}")]
        fix = _CALL.format('"' + " ".join(f"axis{axis}" for axis in range(len(shape))) + '"')
        raise shape_error("named: the axes of x have no names.", rows, "There is one name per axis.", fix)
    entries = fitted(parse(array.names if names is None else names, "named"), shape, "named", _CALL)
    array = array.called([name_of(entry[0]) if len(entry) == 1 else None for entry in entries])
    sizes = _sizes(entries, shape, given)
    raw = array.raw
    if len(sizes) != len(shape) or any(len(entry) != 1 for entry in entries):
        raw = _backend(raw).reshape_raw(raw, [size for _, size in sizes])
    called = [name_of(item) for item, _ in sizes]
    axes = [_axis(item, size, given, called) for item, size in sizes]
    found = {each.axis: each for each in _known(array, entries, axes)}
    for each in ragged_axes(axes, lengths):
        found[each.axis] = each
    for at, each in found.items():  # past the longest sequence there is only padding
        longest = int(each.lengths.max()) if each.lengths.size else 0
        for axis, other in enumerate(axes):
            if other.name == axes[at].name and longest < other.size:
                raw = _backend(raw).slice_raw(raw, axis, 0, longest)
                axes[axis] = other._replace(size=longest)
    made: dict[int, Dim] = {}
    found = {at: each.cut(axes) for at, each in found.items()}
    over = {axes[at].name: len(each.over) for at, each in found.items()}
    for at in sorted(range(len(axes)), key=lambda at: over.get(called[at], 0)):  # those that lengths are over first
        made[at] = _dim(at, axes, made, found.get(at), array.labels)
    tensor_dims = [made[at] for at in range(len(axes))]
    if sparse_dim is None and array.sparse is not None:
        into, size, labels = array.sparse
        known_dim = given.get(str(into))
        sparse_dim = known_dim if isinstance(known_dim, Dim) else Dim(size, name=str(into), vocab=labels)
    return Tensor(name, tensor_dims, sparse_dim=sparse_dim, raw_tensor=raw)


def _sizes(entries: list[Entry], shape: tuple[int, ...], given: dict[str, Any]) -> list[tuple[Any, int]]:
    """The names with their sizes, composed axes split."""
    out: list[tuple[Any, int]] = []
    for entry, size in zip(entries, shape):
        if len(entry) < 2:
            out += [(item, size) for item in entry]
            continue
        sizes = [_size(item if isinstance(item, Dim) else given.get(item)) for item in entry]
        known = math.prod(each for each in sizes if each is not None)
        unknown = sizes.count(None)
        if unknown == 1 and known and size % known == 0:
            sizes = [size // known if each is None else each for each in sizes]
        if None in sizes or math.prod(each for each in sizes if each is not None) != size:
            rows = [(name_of(item), "?" if each is None else each) for item, each in zip(entry, sizes)]
            name = next((name_of(item) for item, each in zip(entry, sizes) if each is None), name_of(entry[0]))
            raise shape_error(
                f"named: {text_of(entry)} does not fit its axis.",
                [("axis", size), *rows],
                "The product of their sizes is the size of the axis; one of them may be left open.",
                f'dims={{"{name}": ...}}',
            )
        out += [(item, each) for item, each in zip(entry, sizes) if each is not None]
    return out


def _size(given: Any) -> int | None:
    """The size of a dim, as far as known."""
    if isinstance(given, Dim):
        return given.extent if given.is_dim_known() else None
    return None if given is None else int(given)


def _axis(item: Any, size: int, given: dict[str, Any], names: Sequence[str]) -> RawAxis:
    name = name_of(item)
    dim = item if isinstance(item, Dim) else given.get(name)
    if isinstance(dim, Dim):
        return RawAxis(name, size, dim.kind or kind_of(name, names), dim)
    if dim is not None and int(dim) != size:
        rows = [("axis", f"{name}={size}"), (name, int(dim))]
        raise dim_error(
            f'named: "{name}" is not of the size that was said.', rows, "A size in dims is that of its axis.",
            f'dims={{"{name}": {size}}}',
        )  # fmt: skip
    return RawAxis(name, size, kind_of(name, names))


def _known(array: foreign_arrays.Foreign, entries: list[Entry], axes: list[RawAxis]) -> list[Ragged]:
    """The lengths that an array carries."""
    first = [sum(len(entry) for entry in entries[:at]) for at in range(len(entries))]
    whole = {at for at, entry in enumerate(entries) if len(entry) == 1}
    out = [
        Ragged(first[at], lengths.astype(np.int32), (first[0],))
        for at, lengths in array.lengths.items()
        if at in whole and 0 in whole
    ]
    names = [axis.name for axis in axes]
    for name, (lengths, over) in array.over.items():
        if name in names and all(each in names for each in over):
            out.append(ragged_axis(axes, names.index(name), lengths, over))
    return out


def _dim(
    at: int, axes: list[RawAxis], made: dict[int, Dim], ragged: Ragged | None, labels: dict[str, list[str]]
) -> Dim:
    """The Dim of an axis: the given one, the twin of one of the same name, or a new one."""
    axis = axes[at]
    before = [other for other in range(at) if axes[other].name == axis.name and other in made]
    if before and (axis.dim is None or axis.dim is axes[before[0]].dim):
        if axis.size != axes[before[0]].size:
            raise dim_error(
                f'named: two axes of different sizes are called "{axis.name}".',
                {"x": f"[{', '.join(f'{each.name}={each.size}' for each in axes)}]"},
                "A name that comes twice is a dim and its twin, as in self-attention. Of other dims the names differ:",
                'rf.named(x, "batch head target source")',
            )
        return made[before[0]].copy(match_priority=len(before))
    if isinstance(axis.dim, Dim):
        _check_fit(axis, axes)
        if ragged is not None and axis.dim.is_dim_known():
            check_same(axis, ragged, axes)
        elif ragged is not None:
            axis.dim.dyn_size_ext = _lengths_tensor(axis.name, ragged, made)
        return axis.dim
    size = axis.size if ragged is None else _lengths_tensor(axis.name, ragged, made)
    dim = Dim(size, name=axis.name, kind=axis.kind, vocab=labels.get(axis.name))
    dim.by_user = True  # of two arrays that are named in two calls, no outer product is made over what is one axis
    return dim


def _lengths_tensor(name: str, ragged: Ragged, made: dict[int, Dim]) -> Tensor:
    raw = registry.selected().from_numpy(ragged.lengths, dtype="int32", device="cpu")
    return Tensor(f"{name}:size", [made[at] for at in ragged.over], raw_tensor=raw)


def _check_fit(axis: RawAxis, axes: list[RawAxis]) -> None:
    dim: Dim = axis.dim
    if not dim.is_dim_known() or dim.extent == axis.size:
        return
    shape = f"[{', '.join(f'{each.name}={each.size}' for each in axes)}]"
    rule = "A Dim fits an axis as long as its longest sequence. For another axis it is another dim; a name makes a new one:"
    names = [f'"{each.name}"' if each is axis or not isinstance(each.dim, Dim) else each.name for each in axes]
    fix = f"rf.named(x, [{', '.join(names)}])"
    if dim.length_dims and dim.extent < axis.size:
        rule = "A Dim fits an axis as long as its longest sequence. If what lies beyond is padding, cut it off:"
        fix = f"x = x[{''.join(':, ' * axes.index(axis))}:{dim.extent}]"
    raise dim_error(f'named: the Dim "{dim.name}" does not fit its axis.', {"x": shape, "Dim": dim}, rule, fix)


def _check_used(given: dict[str, Any], dims: Mapping[str, Any], entries: list[Any]) -> None:
    names = [
        name_of(item) for entry in entries if not isinstance(entry, type(...)) for item in entry if item is not None
    ]
    unused = [str(key) for key in dims if key not in names]
    if unused and ... not in entries:
        raise dim_error(
            f'named: dims has "{unused[0]}", which is none of the names.',
            {"names": " ".join(map(text_of, entries)), "dims": ", ".join(map(str, given))},
            "Dims are used for the axes of their name.",
            f'dims={{"{names[0]}": ...}}' if names else None,
        )


@op
def unnamed(x: Tensor, names: Any, *extra: Never, **unknown: Never) -> Any:
    """The raw array of a Tensor, its axes in the order of these names.

    Args:
        x: {...}
        names: As for `rf.named`: "time batch feature", or Dims. "(heads dim)" merges two dims into one axis, "1" is an axis of
            length 1, "..." stands for all further dims in order.

    Raises:
        DimError: If a dim is not named, or a name matches no dim or several.
    """
    if not isinstance(x, Tensor):
        raise type_error(
            "unnamed: this operand is not a Tensor.",
            {"got": f"{type(x).__module__}.{type(x).__name__} {tuple(getattr(x, 'shape', ()))}"},
            "A Tensor is made an array here; an array gets names by",
            'rf.named(x, "batch time feature")',
        )
    entries = parse(names, "unnamed")
    items = [item for entry in entries if not isinstance(entry, type(...)) for item in entry]
    left = sorted(x.dims, key=lambda dim: dim.match_priority)
    chosen: list[Dim] = []
    for item in items:
        dim = _of_name(item, items, left, x)
        left.remove(dim)
        chosen.append(dim)
    rest = [dim for dim in x.dims if dim in left]
    if rest and ... not in entries:
        labels = labels_of(x.dims)
        raise dim_error(
            f"unnamed: {labels[rest[0]]} is not named.",
            {"x": x, "names": " ".join(map(text_of, entries))},
            'All dims are axes of the array; "..." stands for all further ones.',
            f'rf.unnamed(x, "{" ".join([*map(text_of, entries), *(dim.name for dim in rest)])}")',
        )
    groups: list[list[Dim]] = []
    queue = iter(chosen)
    for entry in entries:
        groups += [[dim] for dim in rest] if isinstance(entry, type(...)) else [[next(queue) for _ in entry]]
    raw = x.copy_transpose([dim for group in groups for dim in group]).raw_tensor
    if all(len(group) == 1 for group in groups):
        return raw
    return x.backend.reshape_raw(raw, [math.prod(dim.extent for dim in group) for group in groups])


def _backend(raw: Any) -> Any:
    return registry.BY_TYPE[type(raw)]


def _given_dims(dims: Any) -> dict[str, Any]:
    """The dims by name; for a list also the dims of their lengths."""
    if dims is None:
        return {}
    if isinstance(dims, Mapping):
        out = dict(dims)
        wrong = next((value for value in out.values() if not isinstance(value, (Dim, int, np.integer))), None)
    else:
        listed = [dims] if isinstance(dims, Dim) else list(dims)
        wrong = next((dim for dim in listed if not isinstance(dim, Dim)), None)
        out = {} if wrong is not None else {dim.name: dim for dim in reversed(listed)}
    if wrong is not None:
        raise type_error(
            "named: dims holds something that is no Dim.",
            {"with": type(wrong).__name__},
            "Dims are used for the axes of their name; an int is the size of a dim that is a part of an axis.",
            'dims={"time": time, "heads": 8}    # or dims=x.dims',
        )
    for dim in list(out.values()):  # where a ragged dim is, that of the sequences is the one that its lengths are over
        for over in dim.length_dims if isinstance(dim, Dim) else ():
            out.setdefault(over.name, over)
    return out


def _many(x: Any, one: Any, given: dict[str, Any]) -> Any:
    """The Tensors of several arrays; a dim made for one of them is reused by the next."""

    def next_one(value: Any) -> Any:
        if foreign_arrays.is_many(value):
            return _many(value, one, given)
        if value is None:
            return None
        tensor = one(value)
        for dim in tensor.dims:
            if not isinstance(given.get(dim.name), Dim):  # a size makes one dim of all, too
                given[dim.name] = dim
        return tensor

    if isinstance(x, Mapping):
        return {key: next_one(value) for key, value in x.items()}
    made = [next_one(value) for value in x]
    return made if isinstance(x, list) else tuple(made)


def _of_name(item: Any, items: list[Any], left: list[Dim], x: Tensor) -> Dim:
    """The dim that a name refers to; for a dim and its twin, the first occurrence is the dim itself."""
    found = [dim for dim in left if dim is item or dim.name == item]
    alike = [dim for dim in x.dims if dim.name == item]
    if found and (isinstance(item, Dim) or len(alike) == 1 or len(alike) == items.count(item)):
        return found[0]
    several = len(alike) > 1
    rule = (
        "A name means one dim. Of several of that name, give the Dims:" if several else "Names are those of the dims."
    )
    fix = ", ".join(f"x.dims[{at}]" for at in range(len(x.dims)))
    raise dim_error(
        f'unnamed: "{name_of(item)}" is {"the name of several dims" if several else "no dim"} of x.',
        {"x": x, "names": " ".join(map(name_of, items))},
        rule,
        f"rf.unnamed(x, [{fix}])" if several else f'rf.unnamed(x, "{" ".join(dim.name for dim in x.dims)}")',
    )
