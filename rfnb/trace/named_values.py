"""Raw arrays that user code sends with names for their axes.

rf.probe("attention", weights=raw, dims="batch head target source", axis="source")
rf.probe("states", h=h, c=c, dims={"h": "batch unit", "c": "batch unit"})
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import EllipsisType
from typing import Any

from rfnb.core import foreign_arrays
from rfnb.core.axis_names import fitted, kind_of, name_of, parse
from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error, value_error
from rfnb.core.named_arrays import named
from rfnb.core.named_lengths import RawAxis, possible_axes
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import dims_text

_CALL = "rf.probe(..., dims={})"
_OF_DIMS = ("axis", "target", "dim", "step_dim")  # values that are one of the dims, by their name


def named_values(kind: str, values: Mapping[str, Any], dims: Any, lengths: Any) -> list[tuple[str, dict[str, Any]]]:
    """The values with Tensors in place of raw arrays; several named events if a value is a tuple or dict of arrays.

    Args:
        dims: Names for all raw arrays, or by value. Equal names in one event are the same dim.
        lengths: As for `rf.named`.

    Raises:
        DimError: If a value that should name a dim does not.
        ValueError: If dims names a value that does not exist.
    """
    if isinstance(dims, Mapping) and not set(dims) <= set(values):
        raise value_error(
            f'probe "{kind}": dims names a value that is not there.',
            {"dims": ", ".join(map(str, dims)), "values": ", ".join(values)},
            "Names go by the values, or are one text for all arrays.",
            f'rf.probe("{kind}", ..., dims={{"{next(iter(values), "weights")}": "batch time"}})',
        )
    many = [name for name, value in values.items() if _wanted(name, dims) and foreign_arrays.is_many(value)]
    if not many:
        return [("", _one(kind, values, dims, lengths))]
    out, shared = [], dict[str, Dim]()
    for label, entry in _entries(values[many[0]]):
        each = {**values, **{name: dict(_entries(values[name])).get(label) for name in many}, many[0]: entry}
        out.append((label, _one(kind, each, dims, lengths, shared)))
    return out


def _one(
    kind: str, values: Mapping[str, Any], dims: Any, lengths: Any, shared: dict[str, Dim] | None = None
) -> dict[str, Any]:
    out, known = dict(values), {} if shared is None else shared
    named_by = {
        name: dims[name] if isinstance(dims, Mapping) else dims
        for name, value in values.items()
        if foreign_arrays.is_array(value) and _wanted(name, dims)
    }
    axes = {name: _axes(names, values[name]) for name, names in named_by.items()}
    by_dim = _by_dim(kind, lengths, axes)
    every = {axis.name for own in axes.values() for axis in own}
    for name, names in named_by.items():
        value = values[name]
        fitting = {key: dim for key, dim in known.items() if _fits(dim, axes[name], by_dim)}
        tensor = named(
            value, names, lengths=_lengths(by_dim, axes[name], fitting, every), dims=fitting.values(), name=name
        )
        out[name] = tensor
        for dim in tensor.dims:
            known.setdefault(dim.name, dim)
    for role in _OF_DIMS:
        if isinstance(out.get(role), str):
            out[role] = _dim_of(kind, role, out[role], [value for value in out.values() if isinstance(value, Tensor)])
    return out


def _wanted(name: str, dims: Any) -> bool:
    return name in dims if isinstance(dims, Mapping) else True


def _fits(dim: Dim, axes: Sequence[RawAxis], lengths: Mapping[str, Any]) -> bool:
    """True if the axis has the length of the dim of this name in an earlier array, or is cut to it; otherwise it is a new dim."""
    sizes = [axis.size for axis in axes if axis.name == dim.name]
    is_cut = bool(dim.length_dims) and dim.name in lengths
    return any(size == dim.extent or (is_cut and size > dim.extent) for size in sizes)


def _by_dim(kind: str, lengths: Any, axes: Mapping[str, list[RawAxis]]) -> dict[str, Any]:
    """The lengths by name of their dim, combined over all arrays: one without time has none."""
    if lengths is None or not axes:
        return {}
    if isinstance(lengths, Mapping):
        return {name_of(name): each for name, each in lengths.items()}
    every = list({axis.name: axis for own in axes.values() for axis in own}.values())
    found = [every[at].name for at in possible_axes(every)]
    if len(found) == 1:
        return {found[0]: lengths}
    raise dim_error(
        f'probe "{kind}": of which dim are the lengths?',
        [
            *((name, " ".join(axis.name for axis in own)) for name, own in axes.items()),
            ("possible", ", ".join(found) or "none"),
        ],
        "Lengths without a name belong to a dim named time, or similar. Name the dim:",
        f'lengths={{"{found[-1]}": lengths}}' if found else None,
    )


def _axes(names: Any, value: Any) -> list[RawAxis]:
    """The axes of an array by name; an axis of several dims is split into these, with size 0."""
    own = foreign_arrays.knows_axes(value)  # what is packed or nested has no shape
    shape = tuple(foreign_arrays.array_of(value, "probe").raw.shape if own else value.shape)
    entries = parse(names, "probe")
    if ... in entries:
        entries = [*fitted(entries, shape, "probe", _CALL)]
    items = [
        (item, size if len(entry) == 1 else 0)
        for entry, size in zip(entries, shape)
        if not isinstance(entry, EllipsisType)
        for item in entry
        if item is not None
    ]
    called = [name_of(item) for item, _ in items]
    kinds = [getattr(item, "kind", None) or kind_of(name, called) for (item, _), name in zip(items, called)]
    return [RawAxis(name, size, kind) for name, (_, size), kind in zip(called, items, kinds)]


def _lengths(
    lengths: Mapping[str, Any], axes: Sequence[RawAxis], known: Mapping[str, Dim], every: Collection[str]
) -> dict[str, Any]:
    """The lengths of the dims of one array, without those already known.

    Args:
        every: The names in all arrays; any other name is an error.
    """
    own = {axis.name: axis.size for axis in axes}
    done = {name for name, dim in known.items() if dim.length_dims and dim.extent == own.get(name)}
    return {name: each for name, each in lengths.items() if name not in done and (name in own or name not in every)}


def _entries(value: Any) -> list[tuple[str, Any]]:
    return [(str(key), item) for key, item in (value.items() if isinstance(value, Mapping) else enumerate(value))]


def _dim_of(kind: str, role: str, name: str, tensors: list[Tensor]) -> Dim:
    found = [dim for tensor in tensors for dim in tensor.dims if dim.name == name]
    if found:
        return found[-1] if role == "axis" else found[0]  # of a dim and its twin that one is attended over
    raise dim_error(
        f'probe "{kind}": {role} is the name of no dim.',
        [(role, name), *((tensor.name or "value", dims_text(tensor.dims)) for tensor in tensors)],
        f"The {role} is a Dim, or the name of one of the values' dims.",
        f'{role}="{tensors[0].dims[-1].name}"' if tensors and tensors[0].dims else None,
    )
