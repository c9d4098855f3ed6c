"""Raw arrays as arguments and results of a Module: how torch code calls a model that uses dims.

arrays = Arrays(encoder, "batch time in_dim", None, {})
arrays.call(encoder, (x, lengths), {})                    # x and the result are torch tensors
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from rfnb.backends.constants import has_values
from rfnb.core.axis_names import parse, text_of
from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import dim_error, shape_error, type_error, value_error
from rfnb.core.op import Args, Kwargs
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import dims_text
from rfnb.core.tree import map_nested, values_in
from rfnb.nn.module.module import Module
from rfnb.trace.host_copies import values_of

Axis = Dim | str
"""A Dim of a fixed size, or what stands for one that each call makes: a name, or a Dim without a size."""


class ArrayInput:
    """One array argument: its axes and, from a template, dtype and marks."""

    def __init__(self, module: Module, name: str, axes: Any):
        self.name = name
        self.template = axes if isinstance(axes, Tensor) else None
        self.axes = axes_of(module, axes)

    def tensor(self, raw: Any, made: Mapping[Axis, Dim]) -> Tensor:
        """The Tensor of an array, cut at the end of the longest sequence."""
        dims = [_dim_of(axis, made) for axis in self.axes]
        for axis, dim in enumerate(dims):
            if dim.need_masking() and raw.shape[axis] > dim.extent:
                raw = raw.narrow(axis, 0, dim.extent)
        like = self.template
        sparse, feature = (None, None) if like is None else (like.sparse_dim, like.feature_dim)
        return Tensor(
            self.name, dims, sparse_dim=sparse, feature_dim=made.get(feature, feature) if feature else None,
            raw_tensor=raw,
        )  # fmt: skip

    def text(self) -> str:
        """The axes as text."""
        return " ".join(map(name_of, self.axes))


class Arrays:
    """Calls a module with raw arrays. See `rf.as_torch` for the arguments."""

    def __init__(self, module: Module, inputs: Any, outputs: Any, dims: Mapping[str, Axis]):
        parameters = list(inspect.signature(type(module).__call__).parameters.values())[1:]
        if not isinstance(inputs, Mapping):
            inputs = {parameters[0].name if parameters else "source": inputs}
        self.inputs = [ArrayInput(module, name, axes) for name, axes in inputs.items()]
        self.outputs = None if outputs is None else axes_of(module, outputs)
        first = [axis for axis in self.inputs[0].axes if not is_fixed(axis)]
        self.batch = first[0] if first else None
        axes = dict.fromkeys(axis for given in self.inputs for axis in given.axes)
        self.sequences = [axis for axis in axes if not is_fixed(axis) and axis != self.batch]
        self.arguments: dict[str, Axis | None] = {}  # arguments of the module -> the axis; None for a state
        known = {name_of(axis): axis for axis in axes}
        for parameter in parameters:
            if parameter.name in dims:
                self.arguments[parameter.name] = _named(dims[parameter.name], known)
            elif parameter.name in inputs or not _is_open(parameter):
                continue
            elif parameter.name in known:
                self.arguments[parameter.name] = known[parameter.name]
            elif parameter.name == "state":
                self.arguments["state"] = None
            elif len(self.sequences) == 1 and (parameter.name == "axis" or "Dim" in str(parameter.annotation)):
                self.arguments[parameter.name] = self.sequences[0]
            else:
                raise self._unclear(module, parameter)
        for name in dims:  # a module that passes on its arguments, like Sequential
            if name not in self.arguments:
                self.arguments[name] = _named(dims[name], known)
        for name, axis in self.arguments.items():
            if isinstance(axis, str) and axis not in axes:
                raise value_error(
                    f'as_torch: {name} is "{axis}", which is no axis of the inputs.',
                    [(given.name, given.text()) for given in self.inputs],
                    "A Dim among the arguments is one of the axes:",
                    f'rf.as_torch(module, inputs=..., dims={{"{name}": "{name_of((self.sequences or list(axes))[0])}"}})',
                )

    def call(self, module: Module, args: Args, kwargs: Kwargs) -> Any:
        """The result of the module, as raw arrays."""
        raws, lengths, further = self._bound(module, args, kwargs)
        made, longer = self._dims(raws, lengths)
        tensors = {given.name: given.tensor(raws[given.name], made) for given in self.inputs}
        for name, axis in self.arguments.items():
            if name in further:
                continue
            if axis is None:
                features = {dim for dim in vars(module).values() if isinstance(dim, Dim)}
                along = {made.get(other, other) for other in self.arguments.values() if other is not None}
                dims = [dim for dim in tensors[self.inputs[0].name].dims if dim not in features | along]
                further[name] = module.default_initial_state(batch_dims=dims)
            else:
                further[name] = made.get(axis, axis)
        first, *others = tensors.items()
        result = module(first[1], **dict(others), **further)
        return self._off(result, tensors[first[0]].dims, made, longer)

    def _batch(self, made: Mapping[Axis, Dim]) -> Dim | None:
        return None if self.batch is None else made.get(self.batch)

    def _bound(
        self, module: Module, args: Args, kwargs: Kwargs
    ) -> tuple[dict[str, Any], dict[Axis, Any], dict[str, Any]]:
        """(arrays by input, lengths by axis, other arguments of the module)."""
        lengths_of: dict[str, Axis] = {f"{name_of(axis)}_lengths": axis for axis in self.sequences}
        if len(self.sequences) == 1:
            lengths_of = {"lengths": self.sequences[0], **lengths_of}
        names = [given.name for given in self.inputs]
        positional = [*names, *list(lengths_of)[: len(self.sequences)]]
        given = dict(zip(positional, args))
        twice = [name for name in kwargs if name in given]
        missing = [name for name in names if name not in given and name not in kwargs]
        if len(args) > len(positional) or twice or missing:
            what = f"no {missing[0]}" if missing else f"{twice[0]} twice" if twice else "too many arguments"
            raise type_error(
                f"{type(module).__name__}[rf]: {what}.",
                {"got": ", ".join([*(_kind(arg) for arg in args), *(f"{k}={_kind(v)}" for k, v in kwargs.items())])},
                "Call it with the arrays, then with their lengths, if any:",
                f"module({', '.join(positional)})",
            )
        given.update(kwargs)
        raws = {name: given.pop(name) for name in names}
        for each in self.inputs:
            raw = raws[each.name]
            if not isinstance(raw, torch.Tensor):
                fix = f"module({each.name}.raw_tensor)" if isinstance(raw, Tensor) else f"torch.as_tensor({each.name})"
                raise type_error(
                    f"{type(module).__name__}[rf]: {each.name} is not a torch.Tensor.",
                    [(each.name, _kind(raw)), ("axes", each.text())],
                    "The module takes raw arrays. Without `inputs`, it takes Tensors like the Module:",
                    f"{fix}\nrf.as_torch(model)({each.name})" if isinstance(raw, Tensor) else fix,
                )
            if raw.dim() != len(each.axes):
                raise shape_error(
                    f"{type(module).__name__}[rf]: {each.name} has different axes.",
                    [(each.name, tuple(raw.shape)), ("axes", each.text())],
                    "An array has the axes that `inputs` names, in this order.",
                )
        return raws, {axis: given.pop(name) for name, axis in lengths_of.items() if name in given}, given

    def _dims(self, raws: dict[str, Any], lengths: dict[Axis, Any]) -> tuple[dict[Axis, Dim], dict[Dim, int]]:
        """(the dims of this call, array sizes of dims that are shorter than their array)."""
        sizes: dict[Axis, int] = {}
        for each in self.inputs:
            for axis, size in zip(each.axes, raws[each.name].shape):
                if isinstance(size, torch.SymInt):
                    raise _dynamic(axis)
                if not is_fixed(axis) and sizes.setdefault(axis, size) != size:
                    raise shape_error(
                        f"as_torch: {name_of(axis)} has two sizes.",
                        [(given.name, f"{tuple(raws[given.name].shape)}  {given.text()}") for given in self.inputs],
                        "Axes of one name are one dim. If they differ, give them different names.",
                    )
        made: dict[Axis, Dim] = {}
        longer: dict[Dim, int] = {}
        for axis, size in sizes.items():
            given = lengths.get(axis)
            made[axis] = (
                _like(axis, size) if given is None else _ragged(axis, given, self._batch(made), size, self.batch)
            )
            if given is not None and made[axis].extent < size:
                longer[made[axis]] = size
        return made, longer

    def _off(self, result: Any, dims: Dims, made: dict[Axis, Dim], longer: dict[Dim, int]) -> Any:
        """The result with raw arrays instead of Tensors, lengths instead of Dims, dicts instead of States."""
        wanted = self.outputs
        told = [value for value in values_in(result) if isinstance(value, Dim)]

        def raw(value: Any) -> Any:
            nonlocal wanted
            if isinstance(value, Dim):
                return _lengths_along(value, self._batch(made))
            if not isinstance(value, Tensor):
                return value
            if wanted is None:
                order = _order(value, dims, made.values(), told)
            else:
                order = _as_said(value, [made.get(axis, axis) for axis in wanted])
            wanted = None
            if any(dim.need_masking() for dim in order):
                value = value.copy_masked(False if value.dtype == "bool" else 0)
            out = value.copy_transpose(order).raw_tensor
            return _padded(out, [longer.get(dim, 0) for dim in order])

        return _plain(map_nested(raw, result))

    def _unclear(self, module: Module, parameter: inspect.Parameter) -> ValueError:
        axis = name_of((self.sequences or [self.inputs[0].axes[0]])[0])
        if "Dim" in str(parameter.annotation):
            fix = f'rf.as_torch(module, inputs=..., dims={{"{parameter.name}": "{axis}"}})'
        else:
            fix = f'rf.as_torch(module, inputs={{"{self.inputs[0].name}": "{self.inputs[0].text()}", "{parameter.name}": "..."}})'
        return value_error(
            f'as_torch: the role of "{parameter.name}" of {type(module).__name__} is unknown.',
            [(given.name, given.text()) for given in self.inputs],
            "Each argument without a default is an array, or one of the axes. Declare it, or wrap the module in your own Module:",
            fix,
        )


def axes_of(module: Module, axes: Any) -> tuple[Axis, ...]:
    """The axes for a text, list or template; names of Dims of the module, or of its parts, stand for these Dims.

    Raises:
        TypeError: If an axis is neither a name nor a Dim.
        ValueError: If a text has an axis that is not one dim, or a name is that of several Dims of the parts.
    """
    items = axes.dims if isinstance(axes, Tensor) else _read(axes) if isinstance(axes, str) else tuple(axes)
    out: list[Axis] = []
    for item in items:
        own = _dim_in(module, item, items) if isinstance(item, str) else None
        if not isinstance(item, (str, Dim)):
            raise type_error(
                "as_torch: an axis is a name or a Dim.",
                {"got": _kind(item)},
                "Axes are named in their order. A name that is a Dim of the module by attribute is this one:",
                'rf.as_torch(module, inputs="batch time in_dim")',
            )
        out.append(item if own is None else own)
    return tuple(out)


def _dim_in(module: Module, name: str, items: Sequence[Any]) -> Dim | None:
    """The Dim with this name in a module: its own attribute, else a dim of its parts and parameters with this name, else
    such an attribute of a part.
    """
    own = vars(module).get(name)
    if isinstance(own, Dim):
        return own
    parts = list(module.named_modules())
    places = {
        f"module.{path}.{attribute}": value
        for path, part in parts
        for attribute, value in vars(part).items()
        if isinstance(value, Dim) and value.is_static()
    }
    held = [*places.values(), *(dim for parameter in module.parameters() for dim in parameter.dims)]
    called = {dim for dim in held if dim.name == name and not dim.match_priority}
    attributes = {place: dim for place, dim in places.items() if place.endswith(f".{name}")}
    found = called or set(attributes.values())
    if len(found) < 2:
        return next(iter(found), None)
    shown: dict[Dim, str] = {}
    for place, dim in (attributes or places).items():
        if dim in found:
            shown.setdefault(dim, place)
    first = ", ".join(repr(item) if item != name else next(iter(shown.values()), "dim") for item in items)
    raise value_error(
        f'as_torch: several dims of the parts are called "{name}".',
        [(place.removeprefix("module."), dim.short_repr()) for dim, place in shown.items()],
        "Choose one. An axis may be given as a Dim:",
        f"rf.as_torch(module, inputs=[{first}])",
    )


def _read(text: str) -> tuple[str, ...]:
    """The names in a text, one per axis."""
    entries = parse(text, "as_torch")
    for entry in entries:
        if isinstance(entry, type(...)) or len(entry) != 1:
            raise value_error(
                f'as_torch: "{text_of(entry)}" is not one dim.',
                {"axes": text},
                "Each axis of an array is one dim and has a name. Reshape the array before:",
                "net(x.unflatten(-1, (heads, size)))    # or x.flatten(...), x.squeeze(...)",
            )
    return tuple(str(name) for entry in entries if not isinstance(entry, type(...)) for name in entry)


def _named(axis: Axis, known: Mapping[str, Axis]) -> Axis:
    return known.get(axis, axis) if isinstance(axis, str) else axis


def _dim_of(axis: Axis, made: Mapping[Axis, Dim]) -> Dim:
    dim = made.get(axis, axis)
    assert isinstance(dim, Dim)
    return dim


def is_fixed(axis: Axis) -> bool:
    """Whether it is a dim of the model, the same in all calls."""
    return isinstance(axis, Dim) and axis.is_static()


def name_of(axis: Axis) -> str:
    """The name of an axis."""
    return axis if isinstance(axis, str) else axis.name or "dim"


def _is_open(parameter: inspect.Parameter) -> bool:
    named = parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return named and parameter.default is inspect.Parameter.empty


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"Tensor {dims_text(value.dims)}"
    if isinstance(value, torch.Tensor):
        return f"torch.Tensor {tuple(value.shape)}"
    return type(value).__name__


def _like(axis: Axis, size: int) -> Dim:
    """The dim for an axis in this call."""
    if isinstance(axis, str):
        return Dim(int(size), name=axis)
    return Dim(int(size), name=axis.name, kind=axis.kind, vocab=axis.vocab)


def _dynamic(axis: Axis) -> Exception:
    return value_error(
        f"as_torch: {name_of(axis)} of an exported program has no size.",
        {"axis": f"{name_of(axis)}, marked as dynamic"},
        "The sizes of dims are numbers of the program, so a program is for the sizes that it was exported with. Export one for each:",
        "torch.export.export(module, (x,), strict=False)    # without dynamic_shapes",
    )


def _ragged(axis: Axis, lengths: Any, batch: Dim | None, size: int, batch_axis: Axis | None) -> Dim:
    """The dim for an axis with these lengths."""
    if torch.jit._trace.is_tracing() or not has_values(lengths):
        raise value_error(
            "as_torch: lengths in an exported or traced program.",
            {"lengths": f"of {name_of(axis)}"},
            "Lengths are numbers that the model reads on the host; the program would always have those of this call. Export it for\n"
            "whole arrays:",
            "torch.export.export(module, (x,), strict=False)",
        )
    array = values_of(lengths)
    longest = int(array.max(initial=0)) if array.ndim == 1 else 0
    if batch is None or array.shape != (batch.extent,) or longest > size:
        sizes = f"{name_of(axis)}={size}"
        if batch is not None and batch_axis is not None:
            sizes = f"{name_of(batch_axis)}={batch.extent}, {sizes}"
        raise shape_error(
            f"as_torch: the lengths of {name_of(axis)} do not fit.",
            {"lengths": array.shape, "longest": longest, "array": sizes},
            "There is one length for each entry of the batch, and none beyond the end of the array.",
        )
    like = _like(axis, 0)
    given = torch.as_tensor(array, dtype=torch.int32, device="cpu")
    return Dim(Tensor("lengths", [batch], "int32", raw_tensor=given), name=like.name, kind=like.kind, vocab=like.vocab)


def _order(value: Tensor, dims: Dims, made: Collection[Dim], told: Collection[Dim]) -> list[Dim]:
    """The dims of a result: those of the input in order, with one for its sequences in place of theirs; then a new one.

    Args:
        made: The dims of the input that only this call has.
        told: The dims that the module returned with its result.

    Raises:
        DimError: If the order of two dims is unknown.
    """
    new = [dim for dim in value.dims if dim not in dims]
    spatial = [dim for dim in new if dim.need_masking() or dim.is_spatial_dim() or dim in told]
    if len(new) - len(spatial) > 1 or len(spatial) > 1:
        raise dim_error(
            "as_torch: the order of the axes of the result is ambiguous.",
            {"result": value, "input": dims_text(dims)},
            "The order is only clear for the dims of the input and one new dim. Declare it:",
            f'rf.as_torch(module, inputs=..., outputs="{" ".join(dim.name for dim in value.dims)}")',
        )
    order: list[Dim] = []
    for dim in dims:
        if dim in value.dims:
            order.append(dim)
        elif spatial and dim in made:
            order.append(spatial.pop())
    return order + [dim for dim in value.dims if dim not in order]


def _as_said(value: Tensor, wanted: list[Axis]) -> list[Dim]:
    """The dims of a result in the order of `outputs`; names match dims with this name."""
    left = list(value.dims)
    order: list[Dim] = []
    for axis in wanted:
        found = [dim for dim in left if dim is axis or dim == axis] or [d for d in left if d.name == name_of(axis)]
        if found:
            left.remove(found[0])
            order.append(found[0])
    if left or len(order) != len(wanted):
        raise dim_error(
            "as_torch: outputs are not the axes of the result.",
            {"result": value, "outputs": " ".join(map(name_of, wanted))},
            "Each dim of the result is named once:",
            f'outputs="{" ".join(dim.name for dim in value.dims)}"',
        )
    return order


def _lengths_along(dim: Dim, batch: Dim | None) -> torch.Tensor:
    """The lengths along a dim: one per batch entry."""
    if dim.lengths is not None:
        return torch.tensor(dim.lengths, dtype=torch.int64, device="cpu")
    return torch.full(() if batch is None else (batch.extent,), dim.extent, dtype=torch.int64, device="cpu")


def _padded(raw: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """The array, padded at the end with zeros to these sizes."""
    more = [max(0, size - have) for size, have in zip(sizes, raw.shape)]
    if not any(more):
        return raw
    return torch.nn.functional.pad(raw, [number for extra in reversed(more) for number in (0, extra)])


def _plain(value: Any) -> Any:
    """States as dicts, since torch code (DistributedDataParallel, export) traverses these."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [_plain(item) for item in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value
