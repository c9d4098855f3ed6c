"""Measurement: numbers over two named, labelled axes, with reference numbers; the result of sweeps, lenses and attributions.

sweep[2, 5], np.asarray(sweep), sweep.max()     # as an array
print(sweep); rf.show(sweep)                    # as a table, as a map
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.viz.spec import Spec
from rfnb.viz.terminal import aligned

_WIDE = 12  # columns of a table
_OF_SUMS = re.compile(r"not sum to 1|^weight on ")  # what a view says of rows that are distributions


class Measurement(np.lib.mixins.NDArrayOperatorsMixin):
    """Numbers [row, column], or [sequence, row, column].

    Attributes:
        values: float64.
        rows, columns: Name and labels of each axis.
        name: The name of the quantity.
        beside: Reference numbers by name; per sequence if there are several.
        cells: A text for each number, if it represents something.
        remark: A remark about the numbers.
    """

    def __init__(
        self,
        name: str,
        values: np.ndarray,
        rows: tuple[str, Sequence[Any]],
        columns: tuple[str, Sequence[Any]],
        *,
        beside: Mapping[str, Any] | None = None,
        cells: np.ndarray | None = None,
        remark: str = "",
    ):
        self.name, self.values, self.rows, self.columns = name, np.asarray(values, np.float64), rows, columns
        self.beside, self.cells, self.remark = dict(beside or {}), cells, remark

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return self.values.shape

    @property
    def recovered(self) -> np.ndarray:
        """The fraction of the difference between the clean and the corrupted number that each recovers: 1 is all of it."""
        clean, corrupted = self.beside["clean"], self.beside["corrupted"]
        made: np.ndarray = (self.values - corrupted) / (clean - corrupted)
        return made

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.values, dtype, copy=True) if copy or dtype is not None else self.values

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(
            *(np.asarray(each) if isinstance(each, Measurement) else each for each in inputs), **kwargs
        )

    def __getitem__(self, key: Any) -> Any:
        return self.values[key]

    def __len__(self) -> int:
        return len(self.values)

    def __getattr__(self, name: str) -> Any:
        """Methods of an array: `max`, `mean`, `argmax`."""
        if name.startswith("_") or name not in dir(np.ndarray):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.values, name)

    def __repr__(self) -> str:
        beside = ", ".join(f"{name} {_number(value)}" for name, value in self.beside.items())
        return f"{self.name}{f' ({beside})' if beside else ''}\n{self.table()}{self.remark and chr(10) + self.remark}"

    def table(self, seq: int = 0) -> str:
        """The numbers of one sequence as text; texts instead, if they represent something."""
        values = self.values[seq] if self.values.ndim == 3 else self.values
        texts = self.cells[seq] if self.cells is not None and self.cells.ndim == 3 else self.cells
        labels = [str(label) for label in self._columns(seq)]
        lines = [[f"{self.rows[0]} \\ {self.columns[0]}", *labels[:_WIDE], *(["..."] if len(labels) > _WIDE else [])]]
        for row, label in enumerate(self.rows[1]):
            cells = [
                _number(value) if texts is None else str(texts[row][place])
                for place, value in enumerate(values[row][:_WIDE])
            ]
            lines.append([str(label), *cells, *(["..."] if len(labels) > _WIDE else [])])
        return "\n".join(aligned(lines))

    def _columns(self, seq: int) -> Sequence[Any]:
        labels = self.columns[1]
        nested = bool(labels) and isinstance(labels[0], (list, tuple))
        return labels[seq] if nested else labels

    def _ipython_display_(self) -> None:
        """Display the map as the last line of a cell."""
        from rfnb.viz.show import show

        show(self)


def _number(value: Any) -> str:
    return " ".join(f"{each:.3f}" for each in np.asarray(value, np.float64).reshape(-1))


def spec(measured: Measurement, *, title: str | None = None, live: bool = False) -> Spec:
    """The spec of its view: a map with a row per label. For a sweep it shows the recovered fraction.

    Args:
        title: Default: its name.
        live: Whether more data may arrive.
    """
    from rfnb.viz.attention.spec import spec as of_map

    values, name = measured.values, measured.name
    if "corrupted" in measured.beside and measured.beside["clean"] != measured.beside["corrupted"]:
        values, name = measured.recovered, f"{name}: recovered, of the difference between clean and corrupted"
    values = values if values.ndim == 3 else values[None]
    batch = Dim(len(values), name="batch", kind="batch")
    rows, columns = (Dim(size, name=axis[0]) for size, axis in zip(values.shape[1:], (measured.rows, measured.columns)))
    raw = np.ascontiguousarray(values, np.float32)
    sources = [[str(label) for label in measured._columns(seq)] for seq in range(len(values))]
    made = of_map(
        Tensor("measured", [batch, rows, columns], raw_tensor=raw), target=[str(label) for label in measured.rows[1]], source=sources,
        target_dim=rows, source_dim=columns, title=title or name, live=live,
    )  # fmt: skip
    for each in made.head["maps"]:  # its rows are no distributions, even if they sum to 1
        each.pop("remark", None)
        if each.pop("sums", False) and "notes" in each:
            kept = {
                seq: [part for part in note.split("; ") if not _OF_SUMS.search(part)]
                for seq, note in each["notes"].items()
            }
            each["notes"] = {seq: "; ".join(parts) for seq, parts in kept.items() if parts}
    if (values < 0).any():  # a diverging colour map for both signs
        most = float(np.nanmax(abs(values)))
        made.head.update({"range": [-most, most], "signed": True})
    beside = ", ".join(f"{label} {_number(value)}" for label, value in measured.beside.items())
    said = ". ".join(filter(None, [beside, measured.remark]))
    if measured.cells is not None:
        last = measured.cells[(0,) * (measured.cells.ndim - 2)][:, -1]
        said = ". ".join(
            filter(None, [said, f"Predictions at the last position, row by row: {', '.join(map(str, last))}"])
        )
    if said:
        made.head["remark"] = f"{said}."
    return made
