"""The output of a foreign encoder: raw logits or frames with lengths, and references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rfnb.core.dim import Dim, ragged_dim
from rfnb.core.errors import index_error, shape_error, type_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.interop.speech.label_texts import LabelSet
from rfnb.ops.const import convert_to_tensor
from rfnb.search.decide import NBest
from rfnb.trace.host_copies import values_of


@dataclass(frozen=True)
class FrameBatch:
    """Frames of a batch of sequences.

    Attributes:
        values: float {batch, time, feature}, with the last one as feature_dim.
        lengths: (batch,) on the host.
    """

    values: Tensor
    batch: Dim
    time: Dim
    lengths: np.ndarray

    @staticmethod
    def of(what: str, given: Any, lengths: Any, layout: str, last: str, name: str) -> FrameBatch:
        """From a raw array and a layout, three words in the order of its axes; or from a Tensor.

        Args:
            last: The name of the last axis in the layout: "vocab" or "feature".
            name: The name of the array, for messages and dims.

        Raises:
            ShapeError: If the array does not have these axes, or there is not one length per sequence.
            ValueError: If a length exceeds the array, or is not a number of frames; or lengths are given with a Tensor.
        """
        words = layout.split()
        if sorted(words) != sorted(("batch", "time", last)):
            raise value_error(
                f"{what}: unknown layout.",
                {"layout": repr(layout)},
                f"A layout names the three axes in their order: batch, time and {last}.",
                f'rf.{what}(..., layout="batch time {last}")',
            )
        if isinstance(given, Tensor):
            if lengths is not None:
                raise value_error(
                    f"{what}: a Tensor has its lengths.",
                    [(name, ", ".join(dim.short_repr() for dim in given.dims)), ("lengths", type(lengths).__name__)],
                    "They are those of its time dim. To use other lengths, pass the raw array:",
                    f"rf.{what}({name if name.isidentifier() else 'encoder'}.raw_tensor, lengths, ...)",
                )
            return _of_tensor(what, given, name)
        raw = given if isinstance(given, torch.Tensor) else torch.as_tensor(np.asarray(given), device="cpu")
        if raw.ndim == 2:  # one sequence
            axes = [word for word in words if word != "batch"]
            raw = raw.permute(axes.index("time"), axes.index(last))[None]
        elif raw.ndim == 3:
            raw = raw.permute(*(words.index(word) for word in ("batch", "time", last)))
        else:
            raise shape_error(
                f"{what}: the {name} do not have the axes of a batch of sequences.",
                [(name, tuple(raw.shape)), ("layout", layout)],
                f"They are over {', '.join(words)}; of one sequence without the batch.",
            )
        if not raw.is_floating_point():
            raise type_error(
                f"{what}: the {name} are not floats.",
                {name: f"{tuple(raw.shape)} {raw.dtype}"},
                "The function needs the outputs of the model per frame, before an argmax.",
            )
        raw = raw.float() if raw.dtype in (torch.float16, torch.bfloat16) else raw
        own = _lengths(what, lengths, tuple(raw.shape), words, name)
        batch = Dim(len(raw), name="batch")
        time, feature = ragged_dim(own, over=batch, name="time"), Dim(raw.shape[2], name=last)
        raw = raw[:, : int(own.max(initial=0))]
        return FrameBatch(convert_to_tensor(raw, dims=[batch, time, feature], feature_dim=feature), batch, time, own)

    def describe(self) -> str:
        """The number of sequences and frames as text."""
        own = self.lengths
        several = bool(len(own)) and own.min() < own.max()
        of = f"{own.min()} to {own.max()}" if several else str(own.max(initial=0))
        return f"{len(own)} sequence{'s' * (len(own) != 1)} of {of} frames"

    @property
    def feature(self) -> Dim:
        """The last dim."""
        return self.values.dims[-1]


def _of_tensor(what: str, given: Tensor, name: str) -> FrameBatch:
    feature = given.feature_dim
    rest = [dim for dim in given.dims if dim is not feature]
    ragged = [dim for dim in rest if dim.lengths is not None and dim.length_dims]
    if (
        feature is None
        or len(rest) != 2
        or len(ragged) != 1
        or ragged[0].length_dims != tuple(d for d in rest if d not in ragged)
    ):
        raise shape_error(
            f"{what}: the dims of the {name} are not batch, time and a feature_dim.",
            [
                (name, ", ".join(dim.short_repr() for dim in given.dims)),
                ("feature_dim", feature and feature.short_repr()),
            ],
            "A Tensor has one batch dim, a time with lengths over it, and its feature_dim.",
            "logits.feature_dim = vocab",
        )
    (time,), (batch,) = ragged, ragged[0].length_dims
    values = given.copy_transpose([batch, time, feature])
    return FrameBatch(values, batch, time, np.asarray(time.lengths, np.int64))


def _lengths(what: str, lengths: Any, shape: tuple[int, ...], words: Sequence[str], name: str) -> np.ndarray:
    count, extent = shape[:2]
    if lengths is None:
        return np.full(count, extent, np.int64)
    own = values_of(lengths)
    own = own[None] if own.ndim == 0 else own
    first = f"({', '.join(str(shape[('batch', 'time').index(w)]) if w in ('batch', 'time') else str(shape[2]) for w in words)})"
    rows = [(name, f"{first}, {' '.join(words)}"), ("lengths", f"array {own.shape}" if own.size > 12 else own.tolist())]
    other = " ".join({"batch": "time", "time": "batch"}.get(word, word) for word in words)
    swap = f'rf.{what}(..., layout="{other}")'
    if own.shape != (count,):
        fits = own.shape == (extent,)
        raise shape_error(
            f"{what}: the number of lengths differs from the number of sequences.",
            rows,
            f"A batch of {count} has {count} lengths, in frames." + (" Is the batch another axis?" if fits else ""),
            swap if fits else None,
        )
    if own.dtype.kind == "f" and own.size and (own > 0).all() and own.max() <= 1:
        raise value_error(
            f"{what}: the lengths are shares, not frames.",
            rows,
            f"A length counts frames, at most {extent} here.",
            f"lengths=(lengths * {extent}).round().long()",
        )
    if own.dtype.kind == "b" or not np.array_equal(own, own.astype(np.int64)) or own.min(initial=0) < 0:
        raise value_error(f"{what}: the lengths are not numbers of frames.", rows, "A length counts frames, from 0 on.")
    if own.max(initial=0) > extent:
        longest = int(own.argmax())
        raise value_error(
            f"{what}: a length is longer than the {name}.",
            [*rows, ("longest", f"sequence {longest}: {int(own[longest])} of {extent} frames")],
            "A length counts frames of the output, not samples or frames of the input before it is subsampled."
            + (" Is the batch another axis?" if own.max() <= count else ""),
            swap if own.max() <= count else None,
        )
    return own.astype(np.int64)


def _best(row: Any) -> Any:
    """The best hypothesis of an n-best list; any other row unchanged."""
    return row[0] if isinstance(row, NBest) else row


def check_finite(what: str, frames: FrameBatch, name: str = "logits") -> torch.Tensor:
    """The real frames, (frames, feature); refuse NaN and infinity.

    Raises:
        ValueError: With the first location.
    """
    raw = frames.values.raw_tensor.detach()
    real = torch.arange(raw.shape[1], device="cpu")[None] < torch.as_tensor(frames.lengths, device="cpu")[:, None]
    rows = raw[real.to(raw.device)]
    nan = torch.isnan(rows).any(-1) | (rows == float("inf")).any(-1)
    if bool(nan.any()):
        seq, frame = real.nonzero()[int(nan.nonzero()[0])].tolist()
        raise value_error(
            f"{what}: the {name} have NaN or infinity.",
            [(name, tuple(raw.shape)), ("first", f"sequence {seq}, frame {frame}"),
             ("frames", f"{int(nan.sum())} of {len(rows)}")],
            "NaN and infinity cannot be ranked. Padding may hold anything, so give the lengths:",
            f"rf.{what}({name if name.isidentifier() else 'encoder'}, lengths, ...)",
        )  # fmt: skip
    return rows


def check_scores(what: str, frames: FrameBatch) -> None:
    """Refuse logits that contain NaN, or that are probabilities.

    Raises:
        ValueError: With the first location, or the line that converts them to logits.
    """
    rows = check_finite(what, frames)
    classes = frames.feature.extent
    if len(rows) and classes > 1 and bool((rows >= 0).all()) and bool(((rows.sum(-1) - 1).abs() < 1e-3).all()):
        raise value_error(
            f"{what}: these are probabilities.",
            {"logits": tuple(frames.values.raw_tensor.shape), "sums": "1 in each frame, nothing below 0"},
            "Logits are any numbers, or log probabilities; of probabilities take the logarithm:",
            f"rf.{what}(probs.log(), ...)",
        )


def references_for(what: str, given: Any, seq: int, labels: LabelSet, count: int) -> list[np.ndarray]:
    """Like `references_of`, if only one sequence of a batch has a reference, which may be labels separated by spaces: the others are empty.

    Raises:
        IndexError: If there is no such sequence.
    """
    if not 0 <= seq < count:
        raise index_error(
            f"{what}: no sequence {seq}.",
            {"sequences": count},
            "Indices begin at 0.",
            f"rf.{what}(ctc, expected, seq=0)",
        )
    parts = given.split() if isinstance(given, str) else []
    spaced = {*parts} <= {*labels.labels} and len(parts) > 1
    if spaced and labels.delimiter in (None, *parts):  # as shown by the tree of a search
        given = parts
    (own,) = references_of(what, [given], None, labels, 1)
    return [own if at == seq else own[:0] for at in range(count)]


def references_of(what: str, given: Any, lengths: Any, labels: LabelSet, count: int) -> list[np.ndarray]:
    """The references of a batch as indices: a text or list per sequence, a padded array, or one concatenated array; for an
    n-best list its best entry.

    Raises:
        ValueError, IndexError: As in `LabelSet.ids`, or if there is not one per sequence.
    """
    if isinstance(given, Tensor):
        own = [dim for dim in given.dims if dim.lengths is not None and dim.length_dims]
        lengths = np.asarray(own[0].lengths) if lengths is None and own else lengths
        given = given.raw_tensor
    raw = given.detach().cpu().numpy() if isinstance(given, torch.Tensor) else given
    raw = raw.tolist() if isinstance(raw, np.ndarray) else raw
    flat = isinstance(raw, str) or hasattr(raw, "tokens") or not len(raw) or isinstance(raw[0], (int, np.integer))
    sizes = None if lengths is None else np.ravel(values_of(lengths)).astype(int).tolist()
    if flat and sizes is not None and len(sizes) == count > 1 and sum(sizes) == len(raw):  # as in nn.CTCLoss
        raw = [raw[end - size : end] for end, size in zip(np.cumsum(sizes), sizes)]
        flat, sizes = False, None
    rows: list[Any] = [raw] if flat else list(raw)
    if count == 1 and len(rows) != 1 and all(isinstance(row, str) for row in rows):  # labels of one sequence
        rows = [rows]
    if len(rows) != count or (sizes is not None and len(sizes) != count):
        raise value_error(
            f"{what}: the number of references differs from the number of sequences.",
            {"sequences": count, "references": len(rows), "reference_lengths": sizes},
            "A batch has a reference per sequence: texts, lists of labels or indices, or an array with a row for each.",
        )
    out = []
    for seq, row in enumerate(rows):
        row = _best(row)
        if sizes is not None:
            row = row[: sizes[seq]]
        elif not isinstance(row, str) and not hasattr(row, "tokens"):
            row = list(row)
            while row and not isinstance(row[-1], str) and row[-1] < 0:
                row.pop()
        out.append(labels.ids(what, row, f"reference {seq}"))
    return out
