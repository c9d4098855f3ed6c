"""The `dims` view: the dims of tensors, aligned so that a missing or permuted one is visible at a glance.

    rf.show(x), rf.show(time)                     # a Tensor, a Dim
    rf.viz.dims({"query": q, "keys": k})          # several tensors
    rf.viz.dims(trace), rf.viz.dims(model)        # input and output dims of each module; the parameters of a module
    rf.viz.dims(array, names="batch feature")     # an array of any library; a packed sequence; a nested tensor
    rf.show(torch.nn.LSTM(3, 4))                  # the parameters of a torch module, as the tree of its modules

The widget draws the same spec in `widgets/src/dims/`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.core import foreign_arrays
from rfnb.core.axis_names import kind_of, simple_names
from rfnb.core.dim import Dim
from rfnb.core.errors import type_error
from rfnb.core.named_arrays import named
from rfnb.core.strict_json import JsonObject
from rfnb.core.tensor import Tensor
from rfnb.viz.dims import torch_modules, transformers_rows
from rfnb.viz.dims.entries import Entries
from rfnb.viz.dims.table import folds_of
from rfnb.viz.dims.torch_modules import is_torch_module, values_looked_at
from rfnb.viz.dims.values import MOST, MOST_CELLS, array_stats, bytes_of, stats_of, values_table
from rfnb.viz.spec import Spec


def spec(
    value: Any,
    *,
    names: str | Sequence[str] | None = None,
    values: bool | None = None,
    title: str | None = None,
    live: bool = False,
    failure: str | None = None,
) -> Spec:
    """The spec of the dims of `value`.

    Args:
        value: A Tensor, a Dim, a list or (nested) dict of them, a Trace or list of its module events, a Module (its
            parameters), a torch module, an array of any library, or an input or output of a transformers model; or a list,
            tuple or dict of these.
        names: Names of the axes of an array, or of all arrays in a list or dict, as in `rf.named`. Default: those that
            the array has, else axis0, axis1, ...
        values: Whether to compute statistics of the values, which waits for a GPU. Default: True; for a torch module
            only if it is small and on the CPU.
        title: Default: a description of `value`.
        live: Whether more data may arrive.
        failure: The message of an error about these dims; shown above them.

    Raises:
        ShapeError: If `names` does not fit the array.
        TypeError: If `value` has no dims.
    """
    if values is None:
        values = not is_torch_module(value) or values_looked_at(value)
    rows = _Rows(values, names)
    rows.add(None, value, 0)
    head: JsonObject = {
        "title": title or _title(value),
        "live": live,
        "dims": rows.entries,
        "rows": rows.rows,
        "failure": failure,
    }
    folds = folds_of(rows.rows, rows.entries)
    if folds:
        head["folds"] = folds
    if rows.remarks:
        head["remark"] = " ".join(rows.remarks)
    blocks: JsonObject = {}
    if values and len(rows.rows) == 1 and rows.rows[0]["stats"] and (one := _one_tensor(value, names)) is not None:
        table, blocks = values_table(one, rows.rows[0]["dims"])
        head |= {"table": table} if table else {}
    return Spec("dims", head, blocks)


_NO_NAMES = 'The axes of the arrays have no names: names="batch time feature" gives them some.'


def _one_tensor(value: Any, names: Any) -> Tensor | None:
    """The value as a Tensor, to show its values, if it is one or a small array; else None."""
    if isinstance(value, Tensor):
        return value
    if foreign_arrays.knows_axes(value):
        tensor: Tensor = named(value, names)
        return tensor
    if not foreign_arrays.is_array(value) or math.prod(value.shape) > MOST:
        return None
    array = _numbers(value)
    if array is None:
        return None
    return Tensor(None, [Dim(size, name=f"axis{axis}") for axis, size in enumerate(array.shape)], raw_tensor=array)


class _Rows:
    """Collects rows and their dims."""

    def __init__(self, values: bool, names: Any = None):
        self.values, self.names = values, names
        self.rows: list[JsonObject] = []
        self.remarks: dict[str, None] = {}  # in order, without duplicates
        self.field: str | None = None  # of a model output, which determines the axes of arrays in it
        self._axes: dict[tuple[str, int, int], int] = {}
        known = Entries()
        self.entries, self.id_of = known.entries, known.id_of

    def add(self, label: str | None, value: Any, indent: int) -> None:
        if isinstance(value, Dim):
            self.id_of(value)
        elif isinstance(value, Tensor):
            self.tensor(label or value.name or "tensor", value, indent)
        elif is_torch_module(value):
            self.remarks[torch_modules.REMARK] = None
            if not self.values and not torch_modules.values_looked_at(value):
                self.remarks[torch_modules.NOT_LOOKED_AT] = None
            torch_modules.add_module(self, value)
        elif transformers_rows.is_encoding(value) and self.names is None:
            transformers_rows.add_encoding(self, value, indent)
        elif transformers_rows.is_cache(value):
            transformers_rows.add_cache(self, label, value, indent)
        elif foreign_arrays.knows_axes(value):
            self.tensor(label or type(value).__name__, named(value, self.names), indent)
        elif foreign_arrays.is_array(value):
            self.array(label or "array", value, indent)
        elif isinstance(getattr(value, "data", None), Mapping):  # a TensorDict
            self.add(label, value.data, indent)
        elif isinstance(value, Mapping) and _is_state_dict(value):
            if label is not None:
                self.heading(label, indent)
            shown: set[str] = set()
            for path, array in value.items():
                parts = path.split(".")
                self._owners(parts, shown, indent + (label is not None))
                self.array(parts[-1], array, len(parts) - 1 + indent + (label is not None))
        elif isinstance(value, Mapping):
            if label is not None:
                self.heading(label, indent)
            around = self.field
            for key, item in value.items():
                self.field = str(key) if transformers_rows.is_model_output(value) else around
                self.add(str(key), item, indent + (label is not None))
            self.field = around
        elif callable(getattr(value, "select", None)):  # a Trace
            self.calls(value.select(kind="module"))
        elif callable(getattr(value, "named_parameters", None)):
            self.parameters(value.named_parameters())
        elif isinstance(value, Iterable) and not isinstance(value, (str, bytes)) and not hasattr(value, "shape"):
            items = list(value)
            if not items and label is not None:
                self.heading(label, indent, note="none")
                return
            if items and all(getattr(item, "kind", None) == "module" and hasattr(item, "values") for item in items):
                self.calls(items)
                return
            if label is not None:
                self.heading(label, indent)
            for index, item in enumerate(items):
                name = getattr(
                    item, "name", None
                )  # for a Tensor or Dim; in old versions it is a method of a torch tensor
                self.add(name if isinstance(name, str) and name else f"[{index}]", item, indent + (label is not None))
        elif label is not None and (value is None or isinstance(value, (str, int, float))):
            self.heading(label, indent, note=str(value))
        elif label is not None:  # other items of a dict or list
            self.heading(label, indent, note=f"{type(value).__name__}, which has no dims")
        else:
            raise type_error(
                "dims: this value has no dims.",
                {"value": type(value).__name__},
                "The view draws a Tensor, a Dim, a list or dict of them, a Trace, a Module, or an array with dim names.",
                'rf.viz.dims(array, names=["batch", "time"])',
            )

    def heading(self, label: str, indent: int, note: str = "") -> None:
        self.row(label, indent, [], note=note)

    def row(self, label: str, indent: int, dims: list[int], **more: Any) -> None:
        empty = {"dtype": None, "device": None, "note": "", "sparse": None, "stats": None, "bytes": None}
        self.rows.append({"label": label, "indent": indent, "dims": dims, **empty, **more})

    def tensor(self, label: str, tensor: Tensor, indent: int, *, template: bool = False) -> None:
        """One row. `template`: do not note that it has no values."""
        ids = [self.id_of(dim, "feature" if dim is tensor.feature_dim else None) for dim in tensor.dims]
        sparse = None if tensor.sparse_dim is None else self.id_of(tensor.sparse_dim)
        stats = stats_of(tensor) if self.values else None
        if stats and sparse is not None:
            stats["mean"] = None  # the mean of indices has no meaning
        note = "template" if tensor.raw_tensor is None and not template else _mixed(tensor) if stats else ""
        more = {"dtype": str(tensor.dtype), "device": tensor.device, "bytes": bytes_of(tensor)}
        self.row(label, indent, ids, note=note, sparse=sparse, stats=stats, **more)

    def array(self, label: str, array: Any, indent: int) -> None:
        names = self.names
        if names is None and (names := transformers_rows.field_axes(self.field, len(array.shape))) is not None:
            self.remarks[transformers_rows.REMARK] = None
        elif names is None:
            names = [f"axis{axis}" for axis in range(len(array.shape))]
            self.remarks |= dict.fromkeys([_NO_NAMES] if names else [])
        given = simple_names(names, tuple(array.shape), "dims", "rf.viz.dims(array, names={})")
        found = [name or "1" for name in given]
        note = "requires gradient" if getattr(array, "requires_grad", False) else ""
        self.array_row(label, array, indent, self.named_axes(found, array.shape), note=note)

    def named_axes(self, names: Sequence[str], shape: Sequence[int]) -> list[int]:
        """The ids of axes of arrays without dims: equal names and sizes are identified, except within one array."""
        out: list[int] = []
        for axis, (name, size) in enumerate(zip(names, shape)):
            key = name, int(size), list(names[:axis]).count(name)
            if key not in self._axes:
                self._axes[key] = len(self.entries)
                kind = kind_of(name, names)
                self.entries.append(
                    {"name": name, "size": key[1], "lengths": None, "kind": kind, "id": len(self.entries)}
                )
            out.append(self._axes[key])
        return out

    def array_row(
        self, label: str, array: Any, indent: int, dims: list[int], *, note: str = "", again: bool = False
    ) -> None:
        """One row for an array; `again`: it is already shown, so bytes and statistics are not repeated."""
        refused = foreign_arrays.refusal(array)
        looked_at = self.values and refused is None and not again and math.prod(array.shape) <= MOST_CELLS
        stats = None
        if looked_at or not hasattr(array, "dtype"):  # a pandas table has one per column
            values = _numbers(array)
            stats = None if values is None or not looked_at else array_stats(values)
            array = array if hasattr(array, "dtype") or values is None else values
        dtype = str(getattr(array, "dtype", "mixed")).removeprefix("torch.")
        note = ", ".join(filter(None, [note, refused or ""]))
        device = str(getattr(array, "device", None) or "cpu")
        size = None if again or (refused and "sparse" in refused) else getattr(array, "nbytes", None)
        self.row(label, indent, dims, dtype=dtype, device=device, stats=stats, bytes=size and int(size), note=note)

    def parameters(self, named: Iterable[tuple[str, Any]]) -> None:
        """The parameters of a module, grouped by the path of the module that owns them."""
        shown: set[str] = set()
        for path, tensor in named:
            parts = path.split(".")
            self._owners(parts, shown)
            self.tensor(parts[-1], tensor, len(parts) - 1)

    def _owners(self, parts: list[str], shown: set[str], indent: int = 0) -> None:
        """Add missing headings for the ancestors of a path."""
        for depth in range(1, len(parts)):
            owner = ".".join(parts[:depth])
            if owner not in shown:
                shown.add(owner)
                self.heading(parts[depth - 1], depth - 1 + indent)

    def calls(self, events: Iterable[Any]) -> None:
        """Input and output dims of each called module; equal calls (the steps of a loop) once, with their count."""
        first: dict[str, int] = {}
        calls: dict[tuple[Any, ...], list[Any]] = {}
        for index, event in enumerate(events):
            parts = event.path.split(".")
            for depth in range(len(parts)):
                first.setdefault(".".join(parts[: depth + 1]), index)
            calls.setdefault((event.path, *_signature(event)), []).append(event)
        shown: set[str] = set()

        def order(path: str) -> tuple[int, ...]:
            # Depth first, in the order of the calls: an event is sent when its module returns, so a parent follows its parts.
            parts = path.split(".")
            return tuple(first[".".join(parts[: depth + 1])] for depth in range(len(parts)))

        for (path, *_), same in sorted(calls.items(), key=lambda item: order(item[0][0])):
            parts = path.split(".")
            self._owners(parts, shown)
            shown.add(path)
            times = f"called {len(same)} times" if len(same) > 1 else ""
            raised = same[0].values.get("raised")
            note = ", ".join(filter(None, [same[0].values.get("module"), times, raised and f"raised {raised}"]))
            self.heading(parts[-1] or "model", len(parts) - 1, note=note)
            for side, word in (("inputs", "in"), ("outputs", "out")):
                for name, tensor in same[0].values.get(side) or []:
                    if isinstance(tensor, Tensor):
                        self.tensor(f"{word} {name}".strip(), tensor, len(parts), template=True)


def _numbers(array: Any) -> np.ndarray | None:
    """The values of an array on the host; None if they are not real numbers."""
    try:
        values = foreign_arrays.host_array(array, "dims")
    except TypeError:
        return None
    return values if values.dtype.kind in "biuf" else None


def _is_state_dict(value: Mapping[Any, Any]) -> bool:
    """Whether it is a dict of arrays by module path."""
    return any("." in str(name) for name in value) and all(
        isinstance(name, str) and foreign_arrays.is_array(item) for name, item in value.items()
    )


def _signature(event: Any) -> tuple[Any, ...]:
    return tuple(
        (side, name, tuple(map(id, getattr(tensor, "dims", ()))), str(getattr(tensor, "dtype", "")))
        for side in ("inputs", "outputs")
        for name, tensor in event.values.get(side) or []
    )


def _mixed(tensor: Tensor) -> str:
    """A note that the statistics of a tensor include its padding, since it does not know its real frames."""
    for dim in tensor.dims:
        lacking = [over.name for over in dim.length_dims if over not in tensor.dims] if dim.has_padding() else []
        if lacking:
            return f"lengths of {dim.name} are over {', '.join(lacking)}: padding is among the values"
    return ""


def _title(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"Tensor {value.name}" if value.name else "Tensor"
    if isinstance(value, Dim):
        return f"Dim {value.name}"
    if is_torch_module(value):
        return torch_modules.title_of(value)
    if (
        foreign_arrays.is_array(value)
        or foreign_arrays.knows_axes(value)
        or transformers_rows.is_encoding(value)
        or transformers_rows.is_model_output(value)
    ):
        return " ".join(dict.fromkeys([type(value).__module__.partition(".")[0], type(value).__name__]))
    if callable(getattr(value, "select", None)):
        return "Dims of each module"
    if callable(getattr(value, "named_parameters", None)):
        return f"Parameters of {type(value).__name__}"
    return "Dims"
