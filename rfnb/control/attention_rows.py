"""Rows of attention weights at the run's position: replaced, sharpened, made uniform, or focused on one position, by names of dims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rfnb.control.changes import as_given, entries_words, value_words
from rfnb.control.live_runs import PositionMember
from rfnb.control.named_entries import NamedEntries, by_name
from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import index_error, missing_key_error, shape_error, type_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import dims_text
from rfnb.core.whole_number import whole
from rfnb.rec.selection import align_host
from rfnb.search.labels import text_index
from rfnb.trace.host_copies import values_of
from rfnb.trace.match import is_end_of

if TYPE_CHECKING:
    from rfnb.control.position import Position


class RowEdit(NamedTuple):
    """One edit of rows.

    Attributes:
        path: Path of the weights, or the end of it.
        entries: Entries of the dims other than the one attended over; `...`: all rows.
        how: "row", "sharpen", "uniform", "focus", "hide".
        value: A row, a temperature, None, or the position to focus on or hide.
        words: Description for the list of changes.
    """

    path: str
    entries: Any
    how: str
    value: Any
    words: str

    @property
    def what(self) -> str:
        """The name for messages."""
        return f'attention "{self.path}"'

    def words_at(self, steps: int | None) -> str:
        """The description for a number of steps."""
        return f"{self.words}{'' if steps == 1 else ' from here on' if steps is None else f' for {steps} steps'}"


def check_value(edit: RowEdit) -> None:
    """Check that a value can be a row (a temperature, a position) at all, of whatever length.

    Raises:
        TypeError, ValueError: If it cannot.
    """
    value, what = edit.value, edit.what
    if edit.how == "sharpen":
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
            raise value_error(
                f"{what}: invalid temperature {value!r}.",
                {"temperature": repr(value)},
                "The temperature is above 0: values below 1 sharpen a row, values above 1 flatten it.",
                f'run.at.attention["{edit.path}"].sharpen(0.5)',
            )
    elif edit.how in ("focus", "hide"):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer, str)):
            raise type_error(
                f"{what}: not a position.",
                {"given": repr(value)},
                "A position is an int, or a label of the dim that is attended over.",
            )
    elif edit.how == "row":
        _check_row(values_of(value), edit, is_whole=not isinstance(value, Tensor))


def edited(weights: np.ndarray, edit: RowEdit, dims: Dims, axis: Dim, real: np.ndarray) -> np.ndarray:
    """The weights with an edit applied.

    Args:
        weights: {dims, axis}
        real: bool, broadcastable to the weights: the places where weight is allowed.

    Raises:
        DimError, IndexError, ShapeError, TypeError, ValueError: If the edit cannot be applied; nothing is changed then.
    """
    chosen = NamedEntries(edit.what, edit.entries, dims, f'run.at.attention["{edit.path}"]')
    real = chosen.of(np.broadcast_to(real, weights.shape))
    before = chosen.of(weights)
    if edit.how == "row":
        rows = _given(edit, chosen, axis, before.shape)
        _refuse_hidden(edit.what, axis, rows, real)
        if not (rows.sum(-1) > 0).all():
            raise _no_weights(edit, rows)
        rows = rows / rows.sum(-1, keepdims=True)
    elif edit.how == "focus":
        rows = np.zeros(before.shape)
        rows[..., _position(edit, axis)] = 1.0
        _refuse_hidden(edit.what, axis, rows, real)
    elif edit.how == "hide":
        rows = _without(edit, before, real, axis)
    elif edit.how == "uniform":
        rows = real / np.maximum(real.sum(-1, keepdims=True), 1)
    else:
        rows = _sharpened(edit, before)
    out = weights.copy()
    chosen.put(out, rows)
    return out


def _sharpened(edit: RowEdit, rows: np.ndarray) -> np.ndarray:
    """softmax(log(row) / temperature), scaled to the row's former sum."""
    if not (np.isfinite(rows).all() and (rows >= 0).all()):
        raise value_error(
            f"{edit.what}: only distributions can be sharpened.",
            {"temperature": edit.value},
            "Weights are raised to the power of 1 / temperature, so they must be finite and not negative.",
        )
    best = rows.max(-1, keepdims=True, initial=0)
    powers = (rows / np.where(best > 0, best, 1)) ** (1 / edit.value)
    total = powers.sum(-1, keepdims=True)
    sharp: np.ndarray = powers / np.where(total > 0, total, 1) * rows.sum(-1, keepdims=True)
    return sharp


def _without(edit: RowEdit, rows: np.ndarray, real: np.ndarray, axis: Dim) -> np.ndarray:
    """The rows without a position, the rest scaled to the former sum, or uniform if nothing is left."""
    at, rest = _position(edit, axis), np.array(np.broadcast_to(real, rows.shape))
    rest[..., at] = False
    if not rest.any(-1).all():
        raise value_error(
            f"{edit.what}: only position {edit.value} may be attended to.",
            {"axis": axis},
            "The weight of a hidden position goes to the others, so at least one other must exist.",
        )
    left = np.where(rest, rows, 0)
    left = np.where(left.sum(-1, keepdims=True) > 0, left, rest)
    made: np.ndarray = left / left.sum(-1, keepdims=True) * rows.sum(-1, keepdims=True)
    return made


def _given(edit: RowEdit, chosen: NamedEntries, axis: Dim, shape: tuple[int, ...]) -> np.ndarray:
    """The given rows, {chosen dims, axis}."""
    value = edit.value
    own = _by_dims(edit, value, chosen, axis) if isinstance(value, Tensor) else values_of(value)
    host = np.asarray(own, np.float64)
    length = host.shape[-1] if host.ndim else 0
    if 0 < length < shape[-1] and axis.has_padding():  # of a sequence that is shorter than the longest
        host = np.concatenate([host, np.zeros((*host.shape[:-1], shape[-1] - length))], -1)
    try:
        return np.broadcast_to(host, shape).astype(np.float64)
    except ValueError:
        raise shape_error(
            f"{edit.what}: the row does not fit.",
            {"rows": (*chosen.shape, shape[-1]), "given": values_of(value).shape, "axis": axis},
            "A row has one weight for each source frame.",
        ) from None


def _by_dims(edit: RowEdit, value: Tensor, chosen: NamedEntries, axis: Dim) -> np.ndarray:
    """A Tensor as an array {chosen dims, axis}; dims of another run are matched by name."""
    wanted = (*chosen.dims, axis)
    found: list[Dim | None] = []
    for dim in value.dims:
        same = [other for other in wanted if other is dim] or [
            other for other in wanted if other.name == dim.name and other.extent == dim.extent
        ]
        found.append(same[-1] if same else None)
    if None in found or found.count(axis) != 1 or len(set(found)) != len(found):
        raise shape_error(
            f"{edit.what}: the dims of the row do not match.",
            {"given": dims_text(value.dims), "rows": dims_text(wanted)},
            f"A Tensor needs the dim {axis.name}, and of the other dims only those along which it differs.",
        )
    return align_host(value.numpy(), tuple(dim for dim in found if dim is not None), wanted)


def _position(edit: RowEdit, axis: Dim) -> int:
    at = edit.value
    if isinstance(at, str):
        return text_index(at, axis, edit.what)
    if not 0 <= at < axis.extent:
        raise index_error(
            f"{edit.what}: no position {at}.",
            {"axis": axis},
            f"Positions are 0 to {axis.extent - 1}." if axis.extent else "There are no positions.",
        )
    return int(at)


def _refuse_hidden(what: str, axis: Dim, rows: np.ndarray, real: np.ndarray) -> None:
    if (rows * ~real).any():
        raise value_error(
            f"{what}: weights on padding or masked positions.",
            {"axis": axis},
            "Padding and masked positions have weight 0. The row of a shorter sequence has one weight per position of the sequence.",
        )


def _check_row(row: np.ndarray, edit: RowEdit, *, is_whole: bool) -> None:
    if row.dtype.kind not in "iuf" or not row.ndim:
        raise type_error(
            f"{edit.what}: not a row.",
            {"given": f"{row.dtype} {row.shape}" if row.ndim else repr(row.item())},
            "A row has one weight per frame. To put all weight on one frame:",
            f'run.at.attention["{edit.path}"].focus(3)',
        )
    if not np.isfinite(row).all() or (row < 0).any() or (is_whole and not (row.sum(-1) > 0).all()):
        raise _no_weights(edit, row)


def _no_weights(edit: RowEdit, row: np.ndarray) -> ValueError:
    return value_error(
        f"{edit.what}: these are not weights.",
        {"rows": row.shape},
        "Weights are finite, not negative, not all 0; rows are divided by the sum.",
    )


class PositionAttention(PositionMember, Mapping[str, "Rows"]):
    """The attention of a run, by its path in a trace, or any unique end of it.

    Attention that has already been computed is listed. In the first step of a loop a path that is still unknown may be edited too.
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
                f"run: there is no attention {path!r}.",
                {"attention": ", ".join(self) or "none so far"},
                "Attention is addressed by its path in a trace, or by an end of it.",
            )
        return Rows(self._position, path)

    def __repr__(self) -> str:
        return f'<attention before step {self._position.step} of "{self._position.path}": {", ".join(self) or "none so far"}>'


class Rows(PositionMember):
    """Rows of the weights that a path computes in the next step, each a distribution over the positions attended to.

        att = run.at.attention["decoder.att"]
        att[{"batch": 0, "heads": 1}] = row         # array, torch or rf Tensor: divided by its sum; nothing on padding
        att[{"hypothesis": 2}] = 4                  # all weight on one position
        att.hide(4)                                 # none on it; also by a label of what is attended over
        att.sharpen(0.5, {"batch": 0})              # softmax(log(row) / 0.5)
        att.during(3).uniform()                     # in three steps; during(None): from here on

    Replaced rows are constants for gradients. Edited calls compute explicit weights in place of a fused kernel.

    Args:
        path: The path, or the end of it.
        steps: The number of steps of the position's loop; None means all.
    """

    def __init__(self, position: Position, path: str, steps: int | None = 1):
        self._position, self.path, self._steps = position, path, steps

    def __repr__(self) -> str:
        return f'<rows of attention "{self.path}">'

    @property
    def dims(self) -> Dims | None:
        """The dims of the rows in the last step; None if no attention was computed there."""
        found = [known for path, known in self._position.attention._known().items() if path == self._full()]
        return found[0].dims if found else None

    def _full(self) -> str:
        ends = [path for path in self._position.attention if is_end_of(self.path, path)]
        return self.path if self.path in ends or len(ends) != 1 else ends[0]

    def during(self, steps: int | None) -> Rows:
        """The same rows in the next `steps` steps; None means all. If fewer steps come, this is refused when known, else reported at
        the end.

        Raises:
            ValueError: For less than 1.
        """
        if steps is not None and (whole(steps) or 0) < 1:
            raise value_error(
                f"attention: invalid number of steps {steps!r}.",
                {"steps": repr(steps)},
                "steps is at least 1, or None for all following steps.",
                f'run.at.attention["{self.path}"].during(None)',
            )
        return Rows(self._position, self.path, whole(steps))

    def __setitem__(self, entries: Any, row: Any) -> None:
        if isinstance(row, (int, str)) and not isinstance(row, bool):
            self.focus(row, entries)
        else:
            self._do(entries, "row", row, f"set to {value_words(row)}")

    def focus(self, position: int | str, entries: Any = ...) -> None:
        """Put all weight on one position: its index, or its label if the dim attended over has a vocabulary."""
        self._do(entries, "focus", position, f"all on position {position}")

    def hide(self, position: int | str, entries: Any = ...) -> None:
        """Remove all weight from one position; the others keep their proportions."""
        self._do(entries, "hide", position, f"without position {position}")

    def sharpen(self, temperature: float, entries: Any = ...) -> None:
        """softmax(log(row) / temperature): sharper below 1, flatter above."""
        self._do(entries, "sharpen", temperature, f"sharpened with temperature {temperature}")

    def uniform(self, entries: Any = ...) -> None:
        """Put equal weight on all allowed positions."""
        self._do(entries, "uniform", None, "made uniform")

    def _do(self, entries: Any, how: str, value: Any, words: str) -> None:
        path, steps = self.path, self._steps
        entries = by_name(entries, self.dims or ())
        words = f"{entries_words(path, entries, kind='attention')} {words}"
        given = RowEdit(path, entries, how, as_given(value), words)
        self._position.do(lambda at: at._held.attend(given, steps))
