"""Named axes: the metadata that views need about an array, whether a Tensor or a plain array with axis names.

named = NamedArray.of(tensor)                           # names, lengths and kinds from its dims
named = NamedArray.of(array, ["head", "target", "source"])   # a plain array
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rfnb.core.axis_names import kind_of, simple_names
from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error, shape_error
from rfnb.core.foreign_arrays import is_array, knows_axes
from rfnb.core.named_arrays import named
from rfnb.core.tensor import Tensor
from rfnb.viz.spec import host

_BATCH, _BEAM = ("batch", "seq", "sequence"), ("beam",)


@dataclass(frozen=True, eq=False)
class Axis:
    """One axis.

    Attributes:
        name: The name, for labels.
        size: Length in the raw array.
        dim: The Dim, for an axis of a Tensor.
        is_batch: Whether its name marks a batch among the other names, as "b" in "b t d".
    """

    name: str
    size: int
    dim: Dim | None = None
    is_batch: bool = False

    @property
    def kind(self) -> str | None:
        """The kind of the dim, else the kind that its name implies."""
        own = getattr(self.dim, "kind", None)
        return own or (
            "batch" if self.is_batch or self.name in _BATCH else "beam" if self.name.startswith(_BEAM) else None
        )

    @property
    def is_heads(self) -> bool:
        """Whether its name marks heads."""
        return "head" in self.name or self.name == "h"

    def describe(self) -> str:
        """`time<=7` or `batch=3`, as in a shape."""
        return f"{self.name}{'<=' if self.ragged else '='}{self.size}"

    @property
    def ragged(self) -> bool:
        """Whether its length varies between sequences."""
        return self.dim is not None and self.dim.lengths is not None and bool(self.dim.length_dims)

    def entry(self, number: int) -> dict[str, Any]:
        """The *dim entry* in the contract for specs."""
        lengths = (
            [int(length) for length in np.ravel(np.asarray(self.dim.lengths))]
            if self.ragged and self.dim is not None
            else None
        )
        size = None if self.ragged else self.size
        return {"name": self.name, "size": size, "lengths": lengths, "kind": self.kind, "id": number}


@dataclass(frozen=True, eq=False)
class NamedArray:
    """A host array with an Axis for each of its axes.

    Attributes:
        plain: Whether it has no dims: the order of the axes is then meaningful.
    """

    array: np.ndarray
    axes: list[Axis]
    plain: bool = False

    @staticmethod
    def of(
        value: Any,
        names: str | Sequence[str] | None = None,
        usual: Mapping[int, Sequence[str]] | None = None,
        *,
        where: str = "view",
    ) -> NamedArray:
        """Make one from a value with dims or known axes, or from an array with a name per axis, as in `rf.named`; "1" is dropped.

        Args:
            usual: Default names of the axes, by index.

        Raises:
            ShapeError: If there is not one name per axis.
            ValueError: If an axis merges several dims, or names cannot be parsed.
        """
        if knows_axes(value):  # a packed sequence, a nested tensor, a DataArray
            value = named(value, names)
        if isinstance(value, Tensor):
            return NamedArray(host(value.raw_tensor), [Axis(dim.name, dim.extent, dim) for dim in value.dims])
        array = host(value)
        names = (usual or {}).get(array.ndim, ()) if names is None else names
        view, given = where.partition(",")[0], "weights" if where == "attention" else "x"
        entries = simple_names(names, array.shape, where, f"rf.viz.{view}({given}, dims={{}})")
        kept = [(name, int(size)) for name, size in zip(entries, array.shape) if name is not None]
        called = [name for name, _ in kept]
        axes = [Axis(name, size, is_batch=kind_of(name, called) == "batch") for name, size in kept]
        return NamedArray(array.reshape([size for _, size in kept]), axes, plain=True)

    def describe(self) -> str:
        """The shape of the array in the notation of a tensor."""
        return "[" + ", ".join(axis.describe() for axis in self.axes) + "]"

    def find(self, which: Any, *, where: str, role: str) -> Axis:
        """The axis for a Dim (by identity) or a name.

        Raises:
            DimError: If there is none, or several have that name.
        """
        found = [axis for axis in self.axes if axis.dim is which or (isinstance(which, str) and axis.name == which)]
        if len(found) == 1:
            return found[0]
        label = which if isinstance(which, str) else getattr(which, "name", repr(which))
        raise dim_error(
            f"{where}: {role} {label} is {'not a dim' if not found else 'the name of several dims'} of the weights.",
            [("given", self.describe()), (role, label)],
            f"The {role} is one of the dims, as the Dim itself or by its name.",
            f"{role}={self.axes[-1].name!r}" if self.axes else None,
        )

    def over(self) -> list[Axis]:
        """The axes that the lengths of other axes are over."""
        dims = [dim for axis in self.axes if axis.dim is not None and axis.ragged for dim in axis.dim.length_dims]
        return [axis for axis in self.axes if any(axis.dim is dim for dim in dims)]

    def seq_axes(self, inner: Sequence[Axis | None]) -> list[Axis]:
        """The axes that sequences run over: those that lengths are over, and the batch."""
        over = self.over()
        return self.sorted([a for a in self.axes if a not in inner and (a.kind == "batch" or a in over)])

    def sorted(self, axes: Sequence[Axis], *, heads_first: bool = False) -> list[Axis]:
        """Axes in a canonical order, independent of the order of the dims: batch, beam, then the others by name, heads last or first."""
        if self.plain:
            return list(axes)
        ranks = {"batch": 0, "beam": 1}
        heads = 2 if heads_first else 4

        def key(axis: Axis) -> tuple[int, str, int]:
            rank = ranks.get(axis.kind or "", heads if axis.is_heads else 3)
            return rank, axis.name, axis.dim.serial if axis.dim is not None else 0

        return sorted(axes, key=key)

    def arranged(self, *groups: Sequence[Axis]) -> np.ndarray:
        """The array with one axis per group of axes (of size 1 for an empty group)."""
        order = [self.axes.index(axis) for group in groups for axis in group]
        shape = [math.prod(axis.size for axis in group) for group in groups]
        return self.array.transpose(order).reshape(shape)


def lengths_of(axis: Axis | None, seq_axes: Sequence[Axis]) -> np.ndarray:
    """The length of `axis` in each sequence, in the order of `NamedNumbers.arranged`."""
    count = math.prod(other.size for other in seq_axes)
    if axis is None:
        return np.ones(count, np.int32)
    if axis.dim is None or not axis.ragged:
        return np.full(count, axis.size, np.int32)
    over = list(axis.dim.length_dims)
    at = [next((i for i, other in enumerate(seq_axes) if other.dim is dim), None) for dim in over]
    if any(i is None for i in at):
        return np.full(count, axis.size, np.int32)
    lengths = np.asarray(axis.dim.lengths).transpose(np.argsort([i for i in at if i is not None]))
    shape = [other.size if i in at else 1 for i, other in enumerate(seq_axes)]
    return np.broadcast_to(lengths.reshape(shape), [other.size for other in seq_axes]).reshape(count).astype(np.int32)


def names_of(axes: Sequence[Axis]) -> list[str]:
    """A label per combination: "head 0, layer 1"; one empty label for no axes."""
    labels = [""]
    for axis in axes:
        name = "sequence" if axis.kind == "batch" else "head" if axis.name in ("heads", "h") else axis.name
        labels = [", ".join(filter(None, [label, f"{name} {index}"])) for label in labels for index in range(axis.size)]
    return labels


def seq_labels(axes: Sequence[Axis], names: Sequence[Any] | None, alone: str = "sequence 0") -> list[str]:
    """A label per sequence: its name if there are names; for a single sequence without axes `alone`."""
    own = [name or alone for name in names_of(axes)]
    return [str(name) for name in names] if names is not None and len(names) == len(own) else own


class RowsOver(list[list[str]]):
    """A list of labels for each index of a dim."""

    def __init__(self, rows: Sequence[list[str]], over: Dim):
        super().__init__(rows)
        self.over = over

    def by_seq(self, seq_axes: Sequence[Axis]) -> list[list[str]] | None:
        """The list of each sequence; None if sequences do not run over this dim."""
        at = next((i for i, axis in enumerate(seq_axes) if axis.dim is self.over), None)
        if at is None or seq_axes[at].size != len(self):
            return None
        inner = math.prod(axis.size for axis in seq_axes[at + 1 :])
        return [self[index // inner % len(self)] for index in range(math.prod(axis.size for axis in seq_axes))]


def vocab_of(axis: Axis) -> list[str] | None:
    """The labels of an axis that is itself a vocabulary, e.g. of attended topics."""
    vocab = getattr(axis.dim, "vocab", None)
    return [str(label) for label in vocab[: axis.size]] if vocab is not None and len(vocab) >= axis.size else None


def tokens_of(given: Any, lengths: np.ndarray, seq_axes: Sequence[Axis], *, where: str, role: str) -> list[list[str]]:
    """The token labels of each sequence; numbers if none are given.

    Args:
        given: None, labels for all sequences, or a list of labels per sequence (in the batch).

    Raises:
        ShapeError: If there are fewer labels than positions, or not one list per sequence.
    """
    count = len(lengths)
    if isinstance(given, RowsOver):
        given = given.by_seq(seq_axes)
    if is_array(given):
        given = host(given).tolist()
    if given is None:
        return [[str(index) for index in range(int(length))] for length in lengths]
    nested = is_nested(given)
    rows = [[str(token) for token in row] for row in given] if nested else [[str(token) for token in given]] * count
    if nested and len(rows) != count:
        batch = next((i for i, axis in enumerate(seq_axes) if axis.size == len(rows)), None)
        if batch is None:
            raise shape_error(
                f"{where}: the number of lists of {role} labels differs from the number of sequences.",
                [("sequences", count), (f"{role} lists", len(rows))],
                f"{role} is one list of labels for all, or one list per sequence.",
                f"{role}=[[...], [...]]",
            )
        inner = math.prod(axis.size for axis in seq_axes[batch + 1 :])
        rows = [rows[index // inner % len(rows)] for index in range(count)]
    for index, (row, length) in enumerate(zip(rows, lengths)):
        if len(row) < length:
            raise shape_error(
                f"{where}: sequence {index} has too few {role} labels.",
                {"length": int(length), "labels": len(row)},
                "Each real position needs a label; positions past the end need none.",
                f"{role}_lengths=[{', '.join(str(len(r)) for r in rows[:4])}{', ...' if count > 4 else ''}]",
            )
    return [row[: int(length)] for row, length in zip(rows, lengths)]


def given_lengths(
    given: Any, tokens: Any, axis: Axis | None, seq_axes: Sequence[Axis], *, where: str, role: str
) -> np.ndarray:
    """The lengths that the caller gave, else those of the dim, else those of the labels.

    Raises:
        ShapeError: If there is not one length per sequence, or one is longer than the axis.
    """
    own = lengths_of(axis, seq_axes)
    if given is None:
        if axis is not None and not axis.ragged and is_nested(tokens) and len(tokens) == len(own):
            return np.minimum(own, [len(row) for row in tokens]).astype(np.int32)
        return own
    lengths = np.ravel(host(given))
    size = axis.size if axis is not None else 1
    are_numbers = lengths.dtype.kind in "iuf" and bool(np.isfinite(lengths).all())
    if (
        len(lengths) != len(own)
        or not are_numbers
        or not ((lengths >= 0) & (lengths <= size) & (lengths % 1 == 0)).all()
    ):
        raise shape_error(
            f"{where}: {role}_lengths do not fit.",
            [("sequences", len(own)), (axis.name if axis else role, size), (f"{role}_lengths", lengths.tolist()[:8])],
            "There is one length per sequence, from 0 to the size of the axis.",
            f"{role}_lengths=[{', '.join([str(size)] * min(len(own), 4))}]",
        )
    return lengths.astype(np.int32)


def is_nested(tokens: Any) -> bool:
    """Whether these are lists of labels rather than labels. A string is one label: the caller splits words."""
    if is_array(tokens):
        return len(tokens.shape) > 1
    return tokens is not None and len(tokens) > 0 and isinstance(tokens[0], (list, tuple))
