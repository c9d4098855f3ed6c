"""The labels of a foreign CTC or transducer model: their texts, the blank, the word delimiter, and references.

Missing information is inferred from the conventions of the toolkits, and the inference is recorded, so that a result can state it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import index_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.search.decide import Found, NBest

_BLANKS = ("<blank>", "<blk>", "[blank]", "<pad>", "[PAD]", "<eps>", "<ctc>")
_SPECIAL = (("<", ">"), ("[", "]"))


@dataclass(frozen=True)
class LabelSet:
    """The classes of a model.

    Attributes:
        labels: The text of each class, including the blank.
        blank: Its index.
        how: How the blank was found; "" if it was given.
        delimiter: The label that separates words, or None.
        marker: The prefix of the first label of a word, or None.
        encode: From a text to indices, if the vocabulary has such a function.
        door: The public function that received it.
    """

    labels: tuple[str, ...]
    blank: int
    how: str
    delimiter: str | None
    marker: str | None
    encode: Any = None
    door: str = "ctc_output"

    @staticmethod
    def of(
        what: str, vocab: Any, classes: int, blank: int | str | None, config: Any, delimiter: str | None
    ) -> LabelSet:
        """The labels for this many classes.

        Args:
            what: Name of the function, for messages.
            vocab: A list or string of labels, a dict from label to index, or an object that has one: a tokenizer or processor of
                `transformers`, a bundle of torchaudio, a processor of sentencepiece.
            blank: Index or text; None to find it.
            config: The config of a `transformers` model, or None.
            delimiter: The label between words; None to find it; "" for none.

        Raises:
            ValueError: If the vocabulary does not fit the classes, or the blank cannot be found.
            IndexError: If the blank is not a class.
        """
        names, encode, pad = _names(what, vocab, classes)
        if isinstance(blank, str):
            found, how = _index_of(what, names, blank), ""
        elif blank is not None:
            found, how = int(blank), ""
        else:
            found, how = _blank(what, names, classes, pad, getattr(config, "pad_token_id", None))
        if not -classes <= found < classes:
            raise index_error(
                f"{what}: the blank is not one of the classes.",
                {"blank": blank if blank is not None else found, "classes": f"{classes}: 0 to {classes - 1}"},
                "The blank is one of the classes of the logits; -1 is the last one.",
                f"rf.{what}(..., blank=0)",
            )
        found %= classes
        if len(names) == classes - 1:
            names = [*names[:found], "<blank>", *names[found:]]
        elif len(names) != classes:
            raise value_error(
                f"{what}: the vocabulary does not fit the logits.",
                {"vocab": f"{len(names)} labels", "logits": f"{classes} classes"},
                "The vocabulary needs one label per class, or per class except the blank. Check the axis of the classes:",
                f'rf.{what}(..., layout="batch vocab time")',
            )
        given = vocab if delimiter is None else None
        between, marker = _between(
            names, getattr(getattr(given, "tokenizer", given), "word_delimiter_token", None), delimiter
        )
        return LabelSet(tuple(names), found, how, between, marker, encode, what)

    def text(self, ids: Sequence[int]) -> str:
        """The labels as text, with spaces between words."""
        parts = [" " if self.labels[index] == self.delimiter else self.labels[index] for index in ids]
        if self.marker:
            parts = [part.replace(self.marker, " ") for part in parts]
        elif self.delimiter is None and any(len(part) > 1 for part in parts):
            return " ".join(parts)
        return "".join(parts).strip()

    def ids(self, what: str, reference: Any, name: str) -> np.ndarray:
        """A reference of one sequence as indices: from a text, a list of labels or indices, a row of an array, or a line of an n-best list.

        Raises:
            ValueError: If it has a label that is not in the vocabulary, or the blank.
            IndexError: If an index is not a class.
        """
        tokens = getattr(reference, "tokens", reference)  # of a hypothesis
        if isinstance(tokens, str):
            out = self._of_text(what, tokens, name)
        elif len(tokens) and isinstance(tokens[0], str):
            out = [self._of_label(what, token, name, " ".join(tokens)) for token in tokens]
        else:
            out = [int(token) for token in tokens]
        for place, index in enumerate(out):
            if not 0 <= index < len(self.labels):
                raise index_error(
                    f"{what}: a label of the reference is not one of the classes.",
                    [
                        (name, f"{index} at place {place}"),
                        ("classes", f"{len(self.labels)}: 0 to {len(self.labels) - 1}"),
                    ],
                    "A reference has indices into the classes. Padding has an index below 0, or comes with lengths:",
                    "reference_lengths=[...]",
                )
            if index == self.blank:
                raise value_error(
                    f"{what}: the reference contains the blank.",
                    [(name, f"{self._shown()} at place {place} of {len(out)}"), ("blank", self.describe_blank())],
                    "A reference has labels alone; an alignment puts blanks between them. If it is padding, pass the lengths:",
                    "reference_lengths=[...]",
                )
        return np.array(out, np.int64)

    def found(self, ids: np.ndarray, score: float) -> Found:
        """A line of an n-best list."""
        tokens = tuple(ids.tolist())
        return Found(tokens, self.text(tokens), float(score), {"log_prob": float(score)}, True)

    def nbest(self, found: Tensor, scores: Tensor, batch: Dim, beam: Dim, time: Dim) -> list[NBest]:
        """The hypotheses of a search over alignments as a table per sequence."""
        tokens = found.copy_transpose([batch, beam, time]).numpy()
        totals = scores.copy_transpose([batch, beam]).numpy()
        sizes = np.broadcast_to(time.get_size_tensor().copy_transpose([batch, beam]).numpy(), totals.shape)
        return [
            NBest(self.found(row[:size], score) for row, size, score in zip(*of_seq) if score > -np.inf)
            for of_seq in zip(tokens, sizes, totals)
        ]

    def describe(self) -> str:
        """The labels, the blank and the word delimiter."""
        between = self.delimiter or (f"{self.marker}…" if self.marker else None)
        words = f"words by “{between}”" if between else "no words"
        return f"{len(self.labels)} labels, blank {self.describe_blank()}, {words}"

    def describe_blank(self) -> str:
        """The blank, and how it was found."""
        return f"{self.blank} “{self.labels[self.blank]}”" + (f", {self.how}" if self.how else "")

    def _shown(self) -> str:
        return f"{self.blank} “{self.labels[self.blank]}”"

    def _of_text(self, what: str, text: str, name: str) -> list[int]:
        if self.encode is not None:
            out, unknown = self.encode(text)
            if unknown in out:
                place = out.index(unknown)
                raise self._unknown(what, name, text, f"label {place} of its tokenizer")
            return out
        if self.marker or self.delimiter is None and max(map(len, self.labels)) > 1 and " " in text:
            raise value_error(
                f"{what}: the labels of this text are unknown.",
                [(name, repr(text)), ("labels", ", ".join(self.labels[:8]) + ", ...")],
                "The labels are parts of words, and a list of labels does not determine the parts. Pass the labels, or the tokenizer:",
                f"rf.{self.door}(..., vocab=tokenizer)",
            )
        if self.delimiter is not None:
            text = self.delimiter.join(text.split())
        out, at = [], 0
        index = {label: i for i, label in enumerate(self.labels) if i != self.blank and label}
        longest = max(map(len, index), default=0)
        while at < len(text):
            size = next((n for n in range(longest, 0, -1) if text[at : at + n] in index), 0)
            if not size:
                raise self._unknown(what, name, text, text[at])
            out.append(index[text[at : at + size]])
            at += size
        return out

    def _of_label(self, what: str, label: str, name: str, text: str) -> int:
        if label not in self.labels:
            raise self._unknown(what, name, text, label)
        return self.labels.index(label)

    def _unknown(self, what: str, name: str, text: str, label: str) -> ValueError:
        cases = [change for change in ("upper", "lower") if getattr(label, change)() in self.labels]
        return value_error(
            f"{what}: the reference has a label that is not in the vocabulary.",
            [
                (name, repr(text if len(text) < 60 else text[:57] + "...")),
                ("label", repr(label)),
                ("vocabulary", self._some()),
            ],
            "Every label of a reference is one of the vocabulary."
            + (" This one is in it in another case:" if cases else ""),
            f"{text!r}.{cases[0]}()" if cases and len(text) < 40 else f"reference.{cases[0]}()" if cases else None,
        )

    def _some(self) -> str:
        return " ".join(self.labels[:32]) + (f" ... ({len(self.labels)})" if len(self.labels) > 32 else "")


def sampling_rate_of(vocab: Any) -> float | None:
    """The sampling rate of a processor of `transformers` or a bundle of torchaudio, or None."""
    rate = getattr(getattr(vocab, "feature_extractor", None), "sampling_rate", None) or getattr(
        vocab, "sample_rate", None
    )
    return float(rate) if isinstance(rate, (int, float)) else None


def _names(what: str, vocab: Any, classes: int) -> tuple[list[str], Any, int | None]:
    """The labels, a function from text to (indices, index of the unknown label), the index of padding."""
    given = getattr(vocab, "tokenizer", vocab)
    if hasattr(given, "get_vocab"):
        encode = None
        if callable(given):

            def encode(text: str) -> tuple[list[int], Any]:
                return list(given(text, add_special_tokens=False)["input_ids"]), getattr(given, "unk_token_id", None)

        return _of_dict(what, dict(given.get_vocab()), classes), encode, getattr(given, "pad_token_id", None)
    if hasattr(given, "get_labels"):
        return list(given.get_labels()), None, None
    if hasattr(given, "id_to_piece"):
        pieces = [given.id_to_piece(index) for index in range(given.get_piece_size())]
        return pieces, lambda text: (list(given.encode(text)), given.unk_id()), None
    if isinstance(given, Mapping):
        if given and all(isinstance(key, int) for key in given):
            given = {label: index for index, label in given.items()}
        return _of_dict(what, dict(given), classes), None, None
    names = list(given)
    bad = next((name for name in names if not isinstance(name, str)), None)
    if bad is not None:
        raise value_error(
            f"{what}: a label of the vocabulary is not a string.",
            {"vocab": type(vocab).__name__, "label": repr(bad)[:60]},
            "A vocabulary is a list of labels in the order of the classes, a dict from label to index, or a tokenizer.",
            f'rf.{what}(..., vocab=["<blank>", "a", "b"])',
        )
    return names, None, None


def _of_dict(what: str, given: dict[str, int], classes: int) -> list[str]:
    """Labels in the order of their indices; special labels that `transformers` adds beyond the model's classes are dropped."""
    given = {
        label: index
        for label, index in given.items()
        if index < classes or not (len(label) > 2 and (label[0], label[-1]) in _SPECIAL)
    }
    by_index = {int(index): str(label) for label, index in given.items()}
    if len(by_index) < len(given) or min(by_index, default=0) < 0:
        raise value_error(
            f"{what}: the indices of the vocabulary are not valid classes.",
            {"labels": len(given), "different indices": len(by_index), "lowest": min(by_index, default=0)},
            "Each label has an index of its own, from 0 on.",
        )
    return [by_index.get(index, f"<{index}>") for index in range(max(by_index, default=-1) + 1)]


def _index_of(what: str, names: Sequence[str], blank: str) -> int:
    if blank not in names:
        raise value_error(
            f"{what}: the blank is not in the vocabulary.",
            {"blank": repr(blank), "vocabulary": f"{len(names)} labels, {', '.join(names[:6])}, ..."},
            "Give it as one of the labels, or as an index; -1 is the last class.",
            f"rf.{what}(..., blank=-1)",
        )
    return list(names).index(blank)


def _blank(what: str, names: Sequence[str], classes: int, pad: int | None, of_config: int | None) -> tuple[int, str]:
    """The index of the blank, and how it was found."""
    if pad is not None and of_config is not None and pad != of_config:
        raise value_error(
            f"{what}: the blank class is unknown.",
            {"pad token of the tokenizer": pad, "config.pad_token_id": of_config},
            "CTC models of transformers use the pad token, but tokenizer and config have different ones.",
            f"rf.{what}(..., blank={of_config})",
        )
    if pad is not None and pad < classes:
        return int(pad), "the pad token of the tokenizer"
    if len(names) == classes - 1:
        return classes - 1, "the class after those of the vocabulary"
    if of_config is not None:
        return int(of_config), "config.pad_token_id"
    known = [index for index, name in enumerate(names) if name in _BLANKS] or [0] * (bool(names) and names[0] == "-")
    if len(known) != 1:
        raise value_error(
            f"{what}: the blank class is unknown.",
            {"vocabulary": ", ".join(names[:6]) + (", ..." if len(names) > 6 else ""), "classes": classes},
            "It cannot be inferred: no pad token of a tokenizer, no config, "
            + ("several labels that could be it." if known else "no label that is one by its name."),
            f"rf.{what}(..., blank=0)    # an index, -1 for the last class, or the label as text",
        )
    return known[0], "by its name"


def _between(names: Sequence[str], of_tokenizer: Any, delimiter: str | None) -> tuple[str | None, str | None]:
    """The label between words, and the prefix of labels that start words."""
    if delimiter is not None:
        return (delimiter, None) if delimiter in names else (None, delimiter or None)
    for label in (of_tokenizer, "|", " "):
        if label in names:
            return label, None
    return None, next((mark for mark in ("▁", "Ġ") if any(name.startswith(mark) for name in names)), None)
