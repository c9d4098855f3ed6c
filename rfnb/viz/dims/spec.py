"""The `dims` view: which dims tensors have, aligned so that a missing or permuted one is visible at a glance.

    rf.show(x), rf.show(time)                     # a Tensor, a Dim
    rf.viz.dims({"query": q, "keys": k})          # several tensors
    rf.viz.dims(trace), rf.viz.dims(model)        # the dims in and out of each module; the parameters of a module
    rf.viz.dims(array, names=["batch", "feat"])   # a plain array

The widget draws the same spec in `widgets/src/dims/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import shape_error, type_error
from rfnb.core.tensor import Tensor
from rfnb.viz.dims.entries import Entries
from rfnb.viz.dims.folds import folds_of
from rfnb.viz.dims.small import values_table
from rfnb.viz.dims.values import array_stats, bytes_of, stats_of
from rfnb.viz.spec import Spec, host


def spec(
    value: Any,
    *,
    names: Sequence[str] | None = None,
    values: bool = True,
    title: str | None = None,
    live: bool = False,
    failure: str | None = None,
) -> Spec:
    """The spec of the dims of `value`.

    Args:
        value: A Tensor, a Dim, a list or (nested) dict of them, a Trace or list of its module events, a Module (then its
            parameters), or an array (then `names`).
        names: Dim names of an array, one per axis.
        values: Whether to look at the values for the statistics; on a GPU that waits for them.
        title: Default says what `value` is.
        live: Whether more may come.
        failure: The message of an error that these dims led to; shown above them.

    Raises:
        ShapeError: If `names` does not fit the array.
        TypeError: If `value` has no dims.
    """
    rows = _Rows(values)
    rows.add(None, value, 0, names)
    head: dict[str, Any] = {
        "title": title or _title(value),
        "live": live,
        "dims": rows.entries,
        "rows": rows.rows,
        "failure": failure,
    }
    folds = folds_of(rows.rows, rows.entries)
    if folds:
        head["folds"] = folds
    blocks: dict[str, Any] = {}
    if values and isinstance(value, Tensor) and rows.rows[0]["stats"]:
        table, blocks = values_table(value, rows.rows[0]["dims"])
        head |= {"table": table} if table else {}
    return Spec("dims", head, blocks)


class _Rows:
    """Collects rows and the dims that they name."""

    def __init__(self, values: bool):
        self.values = values
        self.rows: list[dict[str, Any]] = []
        known = Entries()
        self.entries, self.id_of = known.entries, known.id_of

    def add(self, label: str | None, value: Any, indent: int, names: Sequence[str] | None = None) -> None:
        if isinstance(value, Dim):
            self.id_of(value)
        elif isinstance(value, Tensor):
            self.tensor(label or value.name or "tensor", value, indent)
        elif isinstance(getattr(value, "data", None), Mapping):  # a TensorDict
            self.add(label, value.data, indent)
        elif isinstance(value, Mapping):
            if label is not None:
                self.heading(label, indent)
            for key, item in value.items():
                self.add(str(key), item, indent + (label is not None))
        elif hasattr(value, "shape") and hasattr(value, "dtype"):
            self.array(label or "array", value, names)
        elif callable(getattr(value, "select", None)):  # a Trace
            self.calls(value.select(kind="module"))
        elif callable(getattr(value, "named_parameters", None)):
            self.parameters(value.named_parameters())
        elif isinstance(value, Iterable) and not isinstance(value, (str, bytes)) and not hasattr(value, "shape"):
            items = list(value)
            if items and all(getattr(item, "kind", None) == "module" and hasattr(item, "values") for item in items):
                self.calls(items)
                return
            for index, item in enumerate(items):
                self.add(getattr(item, "name", None) or f"[{index}]", item, indent)
        else:
            raise type_error(
                "dims: this value has no dims.",
                [("value", type(value).__name__)],
                "The view draws a Tensor, a Dim, a list or dict of them, a Trace, a Module, or an array with dim names.",
                'rf.viz.dims(array, names=["batch", "time"])',
            )

    def heading(self, label: str, indent: int, note: str = "") -> None:
        self.row(label, indent, [], note=note)

    def row(self, label: str, indent: int, dims: list[int], **more: Any) -> None:
        empty = {"dtype": None, "device": None, "note": "", "sparse": None, "stats": None, "bytes": None}
        self.rows.append({"label": label, "indent": indent, "dims": dims, **empty, **more})

    def tensor(self, label: str, tensor: Tensor, indent: int, *, template: bool = False) -> None:
        """One row. `template`: that it has no values goes without saying."""
        ids = [self.id_of(dim, "feature" if dim is tensor.feature_dim else None) for dim in tensor.dims]
        sparse = None if tensor.sparse_dim is None else self.id_of(tensor.sparse_dim)
        stats = stats_of(tensor) if self.values else None
        if stats and sparse is not None:
            stats["mean"] = None  # of indices it says nothing
        note = "template" if tensor.raw_tensor is None and not template else _mixed(tensor) if stats else ""
        more = {"dtype": str(tensor.dtype), "device": tensor.device, "bytes": bytes_of(tensor)}
        self.row(label, indent, ids, note=note, sparse=sparse, stats=stats, **more)

    def array(self, label: str, array: Any, names: Sequence[str] | None) -> None:
        dtype = str(array.dtype).removeprefix("torch.")
        device = str(getattr(array, "device", None) or "cpu")
        nbytes = int(array.nbytes)
        array = host(array)
        if names is None or len(names) != array.ndim:
            raise shape_error(
                "dims: the dim names do not fit the array.",
                [("array", array.shape), ("names", "not given" if names is None else ", ".join(names) or "none")],
                "An array needs one dim name per axis.",
                "rf.viz.dims(array, names=[" + ", ".join(f'"dim{axis}"' for axis in range(array.ndim)) + "])",
            )
        ids = []
        for name, size in zip(names, array.shape):
            ids.append(len(self.entries))
            self.entries.append({"name": str(name), "size": int(size), "lengths": None, "kind": None, "id": ids[-1]})
        stats = array_stats(array) if self.values and array.dtype.kind in "biuf" else None
        self.row(label, 0, ids, dtype=dtype, device=device, stats=stats, bytes=nbytes)

    def parameters(self, named: Iterable[tuple[str, Any]]) -> None:
        """The parameters of a module, under the path of the module that owns them."""
        shown: set[str] = set()
        for path, tensor in named:
            parts = path.split(".")
            self._owners(parts, shown)
            self.tensor(parts[-1], tensor, len(parts) - 1)

    def _owners(self, parts: list[str], shown: set[str]) -> None:
        """The headings of all that a path is inside of, where they are not there yet."""
        for depth in range(1, len(parts)):
            owner = ".".join(parts[:depth])
            if owner not in shown:
                shown.add(owner)
                self.heading(parts[depth - 1], depth - 1)

    def calls(self, events: Iterable[Any]) -> None:
        """Dims in and out of each module that was called; equal calls (the steps of a loop) once, with their number."""
        first: dict[str, int] = {}
        calls: dict[tuple[Any, ...], list[Any]] = {}
        for index, event in enumerate(events):
            parts = event.path.split(".")
            for depth in range(len(parts)):
                first.setdefault(".".join(parts[: depth + 1]), index)
            calls.setdefault((event.path, *_signature(event)), []).append(event)
        shown: set[str] = set()

        def order(path: str) -> tuple[int, ...]:
            # Depth first, in the order of the calls: an event comes when its module returns, so a parent comes after its parts.
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


def _signature(event: Any) -> tuple[Any, ...]:
    return tuple(
        (side, name, tuple(map(id, getattr(tensor, "dims", ()))), str(getattr(tensor, "dtype", "")))
        for side in ("inputs", "outputs")
        for name, tensor in event.values.get(side) or []
    )


def _mixed(tensor: Tensor) -> str:
    """The remark that the statistics of a tensor are over its padding too, since it does not say which frames are real."""
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
    if callable(getattr(value, "select", None)):
        return "Dims of each module"
    if callable(getattr(value, "named_parameters", None)):
        return f"Parameters of {type(value).__name__}"
    return "Dims"
