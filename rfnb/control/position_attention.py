"""Attention where a run stands: rows of the weights of the steps to come, changed by names of dims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rfnb.control.attention_rows import RowEdit
from rfnb.control.changes import as_given, entries_words, value_words
from rfnb.control.entries import by_name
from rfnb.control.of_run import OfPosition
from rfnb.core.dim import Dim
from rfnb.core.errors import missing_key_error, value_error
from rfnb.core.whole_number import whole
from rfnb.trace.match import is_end_of

if TYPE_CHECKING:
    from rfnb.control.position import Position


class PositionAttention(OfPosition, Mapping[str, "Rows"]):
    """The attention of a run, by the path that it has in a trace; any unique end of a path will do.

    Those are listed that have attended so far. In the first step of a loop also a path that is not known yet may be changed.
    """

    def __init__(self, position: Position):
        self._position = position

    def _known(self) -> Mapping[str, Any]:
        return self._position._held.attention_known()

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())

    def __getitem__(self, path: str) -> Rows:
        if not isinstance(path, str):
            raise missing_key_error(
                f"run: no attention {path!r}.",
                [("attention", ", ".join(self) or "none so far")],
                "Attention is found by the path that it has in a trace, or by an end of it.",
            )
        return Rows(self._position, path)

    def __repr__(self) -> str:
        return f'<attention before step {self._position.step} of "{self._position.path}": {", ".join(self) or "none so far"}>'


class Rows(OfPosition):
    """Rows of the weights that one path makes in the next step, each a distribution over what is attended to.

        att = run.at.attention["decoder.att"]
        att[{"batch": 0, "heads": 1}] = row         # array, torch or rf Tensor: divided by its sum; nothing on padding
        att[{"hypothesis": 2}] = 4                  # all weight on one position
        att.sharpen(0.5, {"batch": 0})              # softmax(log(row) / 0.5)
        att.during(3).uniform()                     # in three steps; during(None): from here on

    For gradients what is put in is a constant. A fused kernel makes way for weights in the calls that are changed.

    Args:
        path: Or an end of it.
        steps: How many steps of the loop that the position is in; None: all.
    """

    def __init__(self, position: Position, path: str, steps: int | None = 1):
        self._position, self.path, self._steps = position, path, steps

    def __repr__(self) -> str:
        return f'<rows of attention "{self.path}">'

    @property
    def dims(self) -> tuple[Dim, ...] | None:
        """The dims that the rows are over, as they were in the last step; None: nothing has attended there."""
        found = [known for path, known in self._position.attention._known().items() if path == self._full()]
        return found[0].dims if found else None

    def _full(self) -> str:
        ends = [path for path in self._position.attention if is_end_of(self.path, path)]
        return self.path if self.path in ends or len(ends) != 1 else ends[0]

    def during(self, steps: int | None) -> Rows:
        """The same rows in so many steps from here; None: in all. Where fewer come, that is refused if it is known, else said at the end.

        Raises:
            ValueError: For less than 1.
        """
        if steps is not None and (whole(steps) or 0) < 1:
            raise value_error(
                f"attention: during {steps!r} steps.",
                [("steps", repr(steps))],
                "It is for one step or more, or for all that come.",
                f'run.at.attention["{self.path}"].during(None)',
            )
        return Rows(self._position, self.path, whole(steps))

    def __setitem__(self, entries: Any, row: Any) -> None:
        if isinstance(row, (int, str)) and not isinstance(row, bool):
            self.focus(row, entries)
        else:
            self._do(entries, "row", row, f"set to {value_words(row)}")

    def focus(self, position: int | str, entries: Any = ...) -> None:
        """Put all weight on one position: its index, or its label if what is attended over has a vocabulary."""
        self._do(entries, "focus", position, f"all on position {position}")

    def sharpen(self, temperature: float, entries: Any = ...) -> None:
        """softmax(log(row) / temperature): sharper below 1, flatter above."""
        self._do(entries, "sharpen", temperature, f"sharpened with temperature {temperature}")

    def uniform(self, entries: Any = ...) -> None:
        """The same weight on all that may be attended to."""
        self._do(entries, "uniform", None, "made uniform")

    def _do(self, entries: Any, how: str, value: Any, words: str) -> None:
        path, steps = self.path, self._steps
        entries = by_name(entries, self.dims or ())
        words = f"{entries_words(path, entries, kind='attention')} {words}"
        given = RowEdit(path, entries, how, as_given(value), words)
        self._position.do(lambda at: at._held.attend(given, steps))
