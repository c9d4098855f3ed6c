"""The labels of the dims of a recording: the tokens read or written along them, and names for sequences derived from these.

    tokens = Tokens(trace, given)               # given: labels by dim or name, from `rf.show`
    own = tokens.of(events)                     # for the view of one run
    own.along(dim)                              # labels, or None; `own.remark` says where they are missing, and why

A dim may be read several times: by two models, by two embeddings of one model, with different tokens for each batch. A
view has the labels that its own call read. If these are ambiguous, it has none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rfnb.core.beam_dim import is_beam
from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.core.vocabulary import count_of, labels_by_index, sizes_of
from rfnb.trace.stacked_events import loop_dim_of
from rfnb.viz.axes import Axis, RowsOver, is_nested, vocab_of

_LETTERS = 24  # characters of a name
_UNITS = 64  # that have names


@dataclass(eq=False)
class _Read:
    """One occasion on which tokens were read or written along a dim."""

    dim: Dim
    over: Dim | None
    ids: Tensor
    event: Any
    vocab: Sequence[str]
    _rows: Any = field(default=None, repr=False)

    @property
    def written(self) -> bool:
        return bool(self.event.values.get("written"))

    @property
    def place(self) -> tuple[Any, ...]:
        return self.event.path, self.written, id(self.ids.sparse_dim)

    def rows(self) -> Any:
        """The labels: a list, or a list for each index of the outer dim."""
        if self._rows is None:
            vocab = self.vocab
            dims = [self.dim] if self.over is None else [self.over, self.dim]
            ids = self.ids.copy_transpose(dims).numpy()
            label = lambda index: str(vocab[index]) if 0 <= index < len(vocab) else str(index)  # noqa: E731
            known = {index: label(index) for index in np.unique(ids).tolist()}
            lists = [[known[index] for index in row] for row in np.atleast_2d(ids).tolist()]
            self._rows = lists[0] if self.over is None else RowsOver(lists, self.over)
        return self._rows

    def real(self) -> list[list[str]]:
        """The labels without padding."""
        if self.over is None:
            return [self.rows()]
        return [row[:length] for row, length in zip(self.rows(), lengths_over(self.dim, self.over))]

    @functools.cached_property
    def counts(self) -> bool:
        """Whether it is 0, 1, 2, ... without a batch, as read by a position embedding."""
        ids = self.ids.numpy() if self.over is None else np.zeros(0, np.int64)
        return ids.size > 1 and bool((np.diff(ids) == 1).all())

    def same(self, other: _Read) -> bool:
        """Whether the labels of all real positions are equal."""
        return self.over is other.over and self.real() == other.real()


class Tokens:
    """The tokens in a recording.

    Args:
        given: Labels by dim or name, which override what was read: a list for all sequences, or a list per sequence. Or
            a single such list, for all dims with as many positions.
        tokenizer: The tokenizer for the text of the tokens, as in `rf.record(labels=...)`.

    Attributes:
        unread: The events whose tokens cannot be read, and why.
    """

    def __init__(self, trace: Any, given: Any = None, tokenizer: Any = None):
        self.given = dict(given) if isinstance(given, Mapping) else {}
        self.listed = None if isinstance(given, Mapping) else given
        self.fits = False  # whether a dim has as many positions as the list
        self.sizes: dict[str, int] = {}  # sizes of the dims seen
        self.reads: dict[Dim, list[_Read]] = {}
        self.numbered: set[Dim] = set()  # dims with tokens whose text is unknown
        self.events = trace.events
        self.unread: list[tuple[Any, Exception]] = []
        read_by = _vocabularies(trace, tokenizer)
        for event in trace.select(kind="tokens"):
            try:
                read = _read(event, read_by)
            except Exception as error:
                self.unread.append((event, error))
                continue
            if read is not None and not read.vocab:
                self.numbered.add(_base(read.dim))
            elif read is not None:
                self.reads.setdefault(_base(read.dim), []).append(read)

    def check(self) -> None:
        """Raise a ValueError if labels were listed and no dim has as many positions."""
        if self.fits or self.listed is None or not self.sizes:
            return
        rows = self.listed if is_nested(self.listed) else [self.listed]
        name = next(iter(self.sizes))
        raise value_error(
            "show: no axis has as many positions as there are tokens.",
            [("tokens", ", ".join(map(str, map(len, rows)))), *self.sizes.items()],
            "Tokens label the axes with as many positions; a dict declares which ones.",
            f'rf.show(trace, tokens={{"{name}": [...]}})',
        )

    def of(self, events: Sequence[Any]) -> RunLabels:
        """The labels for the view of one run."""
        return RunLabels(self, events)


class RunLabels:
    """The labels for the view of the events of one run."""

    def __init__(self, tokens: Tokens, events: Sequence[Any]):
        self._tokens, self._events = tokens, events
        self._said: dict[str, str] = {}

    @property
    def remark(self) -> str:
        """Sentences on the dims that are numbered although tokens are known, and why; "" if there are none."""
        return " ".join(self._said.values())

    def along(self, dim: Dim | None) -> Any:
        """The labels of the positions of a dim: a list, or a list per sequence; None if they are uncertain."""
        if dim is None:
            return None
        given = self._given(dim)
        self._tokens.sizes[dim.name] = dim.extent
        if given is not None:
            return given
        meant = self._meant(dim)
        different = [] if meant is None else self._different(meant)
        if len(different) > 1:
            self._said[dim.name] = _several(dim, different)
        if not different and _base(dim) in self._tokens.numbered:
            self._said[dim.name] = (
                f"{dim.name} has numbers: rf.show(trace, tokenizer=tokenizer) writes the text of its tokens."
            )
        return different[0].rows() if len(different) == 1 else None

    def of_units(self, axis: Axis) -> Any:
        """The labels of few units: those read along this very dim, or those of its vocabulary; None without."""
        read = self._different(axis.dim)
        labels = read[0].rows() if len(read) == 1 and read[0].over is None else vocab_of(axis)
        return labels if axis.size <= _UNITS else None

    def names(self) -> list[str]:
        """Names of the sequences of the batch, from the first tokens read for each; [] if unknown."""
        batches = {dim for dim in _dims_of(self._events[0]) if Axis(dim.name, 1, dim).kind == "batch"}
        if len(batches) != 1:
            return []
        (batch,) = batches
        reads = [read for reads in self._tokens.reads.values() for read in reads if read.over is batch]
        for base in dict.fromkeys(_base(read.dim) for read in sorted(reads, key=lambda read: read.event.index)):
            different = [read for read in self._different(base) if read.over is batch]
            if different:
                dim = different[0].dim
                rows = self._given(dim) or (different[0].rows() if len(different) == 1 else None)
                if rows is None or not is_nested(rows):
                    return []
                lengths = lengths_over(dim, batch)
                return [_name(index, row[:length]) for index, (row, length) in enumerate(zip(rows, lengths))]
        return []

    def _given(self, dim: Dim) -> Any:
        for key, value in self._tokens.given.items():
            if key is dim or key is dim.twin_of or (isinstance(key, str) and key == dim.name):
                return value
        listed = self._tokens.listed
        rows = [listed] if listed is not None and not is_nested(listed) else listed
        if rows is None or dim.extent != max(map(len, rows), default=0):
            return None
        self._tokens.fits = True
        return listed

    def _meant(self, dim: Dim) -> Dim | None:
        """The recorded dim for a dim: itself, or the only one of its name if it was made from steps."""
        base = _base(dim)
        if base in self._tokens.reads:
            return base
        there = {_base(other) for event in self._events for other in _dims_of(event)}
        if base in there:
            return base
        same = {other for other in there if other.name == dim.name}
        return same.pop() if len(same) == 1 else None

    def _different(self, dim: Any) -> list[_Read]:
        """The distinct reads along a dim that this run may have seen; at most two."""
        reads, events = self._tokens.reads.get(dim, []), self._events
        last = events[-1].index
        calls = {event.call for event in events} - {0}
        if self._steps_of(dim):  # another run of the loop may have written different ones
            reads = [read for read in reads if not read.written]
        own = [read for read in reads if read.event.call in calls and (read.event.index < last or not read.written)]
        places = {read.place for read in own}  # a read in an earlier call at the same place belongs to that call
        before = [read for read in reads if read.event.index < last and read.place not in places and read not in own]
        seen = [*own, *before, *self._written(dim, last)]
        seen = [read for read in seen if not read.counts] or seen  # positions are not tokens
        found: list[_Read] = []
        for read in seen:
            if not any(read.same(other) for other in found):
                found.append(read)
            if len(found) > 1:
                break
        return found

    def _steps_of(self, dim: Dim) -> bool:
        """Whether these are steps of a loop over a dim."""
        loop = loop_dim_of(self._events[0]) if self._events[0].step is not None else None
        return loop is not None and _base(loop) is dim

    def _written(self, dim: Dim, last: int) -> list[_Read]:
        """The tokens written by the loop with these steps: sent when it ended, before it ran again."""
        if not self._steps_of(dim):
            return []
        loop = loop_dim_of(self._events[0])
        after = [read for read in self._tokens.reads.get(dim, []) if read.written and read.event.index > last]
        ran = (
            event.index
            for event in self._tokens.events[last + 1 :]
            if event.step is not None and loop_dim_of(event) is loop
        )
        steps = {event.entry for event in self._events}
        again = next((index for index in ran if self._tokens.events[index].entry not in steps), None)
        return [read for read in after if again is None or read.event.index < again]


def lengths_over(dim: Dim, over: Dim | None) -> list[int]:
    """The length of a dim for each index of another one."""
    count = 1 if over is None else over.extent
    if over is None or dim.lengths is None or tuple(dim.length_dims) != (over,):
        return [dim.extent] * count
    return [int(length) for length in np.ravel(dim.lengths)]


def _vocabularies(trace: Any, tokenizer: Any) -> Callable[[Dim], Sequence[str]]:
    """The labels for a dim of tokens: its own, or those of a tokenizer of the same size; else none."""
    if tokenizer is None:
        return lambda dim: list(dim.vocab or ())
    ids = [event.values.get("ids") for event in trace.select(kind="tokens")]
    sizes = [each.sparse_dim.extent for each in ids if isinstance(each, Tensor) and each.sparse_dim is not None]
    count = count_of(tokenizer, "show", "tokenizer", 'rf.show(trace, tokenizer=["<pad>", "a", "b"])')
    if sizes and count > max(sizes):
        raise value_error(
            "show: the tokenizer has more tokens than the model.",
            {"tokenizer": count, "model": ", ".join(map(str, sorted(set(sizes))))},
            "A tokenizer has a text for each index of an embedding.",
            "rf.show(trace)",
        )
    made = {size: labels_by_index(tokenizer, size) for size in sizes_of(count, sizes)}
    return lambda dim: made[dim.extent] if dim.extent in made else list(dim.vocab or ())


def _read(event: Any, labels: Callable[[Dim], Sequence[str]]) -> _Read | None:
    """The tokens over one dim, and at most one more for sequences; None for other shapes, which label nothing."""
    ids = event.values.get("ids")
    if not isinstance(ids, Tensor) or ids.sparse_dim is None or len(ids.dims) > 2:
        return None
    along = [
        dim for dim in ids.dims
        if Axis(dim.name, 1, dim).kind != "batch" and not any(dim in other.length_dims for other in ids.dims)
    ]  # fmt: skip
    if len(along) != 1 or is_beam(along[0]) or any(map(is_beam, ids.dims)):
        return None
    return _Read(
        along[0], next((dim for dim in ids.dims if dim is not along[0]), None), ids, event, labels(ids.sparse_dim)
    )


def _base(dim: Dim) -> Dim:
    return dim.twin_of or dim


def _dims_of(event: Any) -> Iterable[Dim]:
    """The dims in an event: of its values, of its tensors, and of its loop."""
    for value in event.values.values():
        if isinstance(value, Tensor):
            yield from value.dims
        elif isinstance(value, Dim):
            yield value
    if event.loop_dim is not None:
        yield event.loop_dim


def _several(dim: Dim, reads: Sequence[_Read]) -> str:
    """A sentence about conflicting tokens."""
    lists = [read.real() for read in reads]
    pair = next((rows for rows in zip(*lists) if rows[0] != rows[-1]), tuple(rows[0] for rows in lists))
    shown = " or ".join(f"“{_text(row)}”" for row in pair)
    places = list(dict.fromkeys(read.event.path or "the recording" for read in reads))
    where = f" at {' and '.join(places)}" if len(places) > 1 else ""
    return (
        f"{dim.name} has numbers: several lists of tokens were read along it{where} ({shown}). "
        f'To choose one: rf.show(trace, labels={{"{dim.name}": [...]}})'
    )


def _name(index: int, tokens: Sequence[Any]) -> str:
    text = _text(tokens)
    return f"{index + 1}: {text}" if text.strip() else f"{index + 1}"


def _text(tokens: Sequence[Any]) -> str:
    words = [str(token) for token in tokens]
    text = ("" if all(len(word) <= 1 for word in words) else " ").join(words)
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"
