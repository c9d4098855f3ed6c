"""Labels and their indices: from a file, a list, a tokenizer, or the options of a configuration."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import signature
from typing import Any, overload

from rfnb.core.errors import missing_key_error, type_error, value_error


class Vocabulary(Sequence[str]):
    """The labels of indices 0 to n - 1, and the mapping of word sequences to indices. `Dim(n, name="vocab", vocab=...)` accepts it like
    any list.

    Args:
        vocab_file: One label per line; or a Python dict of label -> index, or of index -> label. None with `labels`.
        seq_postfix: Indices that `get_seq` appends.
        unknown_label: The label of unknown words; None: these are an error.
        bos_label, eos_label, pad_label: A label, or its index.
        num_labels: The expected number of labels.
        labels: The labels, instead of a file.
        user_defined_symbols: Further names of labels: name -> index.

    Attributes:
        labels: Labels in the order of their indices.
        num_labels: Their number.
        user_defined_symbol_ids: As given.
        bos_label_id, eos_label_id, pad_label_id, unknown_label_id: An index, or None.
    """

    def __init__(
        self,
        vocab_file: str | None = None,
        *,
        seq_postfix: Sequence[int] | None = None,
        unknown_label: str | int | None = "UNK",
        bos_label: str | int | None = None,
        eos_label: str | int | None = None,
        pad_label: str | int | None = None,
        num_labels: int | None = None,
        labels: Sequence[str] | None = None,
        user_defined_symbols: Mapping[str, int] | None = None,
    ):
        if labels is None:
            labels = _read(vocab_file)
        self.vocab_file, self.labels = vocab_file, list(labels)
        self.num_labels = len(self.labels)
        self._ids = {label: index for index, label in enumerate(self.labels)}
        if num_labels not in (None, self.num_labels) or len(self._ids) != self.num_labels:
            rows = [("labels", self.num_labels), ("different", len(self._ids)), ("num_labels", num_labels)]
            raise value_error(
                "Vocabulary: its labels do not fit.", rows, "Each label is there once, and num_labels is their number."
            )
        self.user_defined_symbol_ids = dict(user_defined_symbols or {})
        for symbol, index in self.user_defined_symbol_ids.items():
            if not self.is_id_valid(index) or self._ids.get(symbol, index) != index:
                of_symbol: list[tuple[str, object]] = [
                    ("symbol", symbol),
                    ("index", index),
                    ("labels", self.num_labels),
                ]
                raise value_error("Vocabulary: no such label.", of_symbol, "A symbol is a name for one of the labels.")
        self._ids |= self.user_defined_symbol_ids
        self.seq_postfix = list(seq_postfix or ())
        if unknown_label == "UNK" and "UNK" not in self._ids:
            unknown_label = None
        self.unknown_label = unknown_label
        self.unknown_label_id = self._index(unknown_label)
        self.bos_label_id, self.eos_label_id = self._index(bos_label), self._index(eos_label)
        self.pad_label_id = self._index(pad_label)

    @classmethod
    def create_vocab(cls, **opts: Any) -> Vocabulary:
        """The vocabulary described by these options. `class` must be "Vocabulary"; subword tokenizers are not included."""
        kind = opts.pop("class", "Vocabulary")
        if kind != "Vocabulary":
            raise value_error(
                f"create_vocab: no {kind} here.",
                {"here": "Vocabulary"},
                "Subwords are made by the tokenizer of their own package; its labels are enough here:",
                "Vocabulary(labels=[...])",
            )
        unknown = set(opts) - set(signature(cls).parameters)
        if unknown:
            raise value_error(
                "create_vocab: unknown options.",
                {"got": ", ".join(sorted(unknown)), "known": ", ".join(signature(cls).parameters)},
                "Subwords are made by the tokenizer of their own package; its labels are enough here:",
                "Vocabulary(labels=[...])",
            )
        return cls(**opts)

    @classmethod
    def create_vocab_from_labels(cls, labels: Sequence[str], **kwargs: Any) -> Vocabulary:
        """A vocabulary of these labels; the options are those of `Vocabulary`."""
        return cls(labels=labels, **kwargs)

    def __len__(self) -> int:
        return self.num_labels

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        return self.labels[index]

    def __repr__(self) -> str:
        return f"Vocabulary({self.num_labels} labels)"

    def _index(self, label: str | int | None) -> int | None:
        return self.label_to_id(label) if isinstance(label, str) else label

    def label_to_id(self, label: str, default: int | None = None) -> int:
        """The index of a label. Raises KeyError if there is none, and no default."""
        index = self._ids.get(label, default)
        if index is None:
            raise missing_key_error(
                f'Vocabulary: no label "{label}".',
                {"labels": self.num_labels},
                "Words that are not there need a label for them:",
                'Vocabulary(..., unknown_label="<unk>")',
            )
        return index

    def id_to_label(self, idx: int) -> str:
        """The label of an index."""
        return self.labels[idx]

    def is_id_valid(self, idx: int) -> bool:
        """True if this is the index of a label."""
        return 0 <= idx < self.num_labels

    def get_seq(self, sentence: str) -> list[int]:
        """The indices of space-separated words, followed by `seq_postfix`."""
        return self.get_seq_indices(sentence.split()) + self.seq_postfix

    def get_seq_indices(self, seq: Iterable[str]) -> list[int]:
        """The indices of labels; unknown ones get the index of the unknown label."""
        return [self.label_to_id(label, self.unknown_label_id) for label in seq]

    def get_seq_labels(self, seq: Iterable[int]) -> str:
        """The labels of indices, separated by spaces."""
        return " ".join(self.labels[index] for index in seq)


def labels_of(vocab: Any) -> Sequence[str] | None:
    """The labels, given directly or as the options of a vocabulary."""
    return Vocabulary.create_vocab(**vocab) if isinstance(vocab, Mapping) else vocab


def _read(path: str | None) -> list[str]:
    if path is None:
        raise value_error("Vocabulary: no labels.", [], "They are in a file, or given:", "Vocabulary(labels=[...])")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if not text.lstrip().startswith("{"):
        return text.splitlines()
    mapping: Mapping[Any, Any] = ast.literal_eval(text.strip())
    by_index = {v: k for k, v in mapping.items()} if not all(isinstance(k, int) for k in mapping) else dict(mapping)
    if sorted(by_index) != list(range(len(mapping))):
        raise value_error(
            "Vocabulary: the indices of a file have gaps.",
            {"file": path, "labels": len(mapping), "indices": len(by_index)},
            "The indices are 0 to n - 1, each once.",
        )
    return [by_index[index] for index in range(len(by_index))]


class TokenizerLabels(Sequence[str]):
    """The tokens of a tokenizer by index, fetched on demand.

    Args:
        tokenizer: Has `convert_ids_to_tokens`, `id_to_token`, `get_itos` or `decode`; or one of tiktoken.
        size: The number of indices; an index unknown to the tokenizer is its own text.
    """

    def __init__(self, tokenizer: Any, size: int):
        self._tokenizer, self._size = tokenizer, size
        self._known: dict[int, str] = {}

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._size))]
        if not -self._size <= index < self._size:
            raise IndexError(index)
        index = int(index) % self._size
        if index not in self._known:
            self._known[index] = _token(self._tokenizer, index)
        return self._known[index]

    def __iter__(self) -> Iterator[str]:
        return (self[index] for index in range(self._size))


def labels_by_index(given: Any, size: int) -> Sequence[str]:
    """The labels of a list, of a dict from label to index, or of a tokenizer.

    Args:
        size: The number of indices.
    """
    return list(_listed(given)) if _is_plain(given) else TokenizerLabels(given, size)


def _token(tokenizer: Any, index: int) -> str:
    try:
        if hasattr(tokenizer, "decode_single_token_bytes"):  # of tiktoken: a token may be a part of a character
            return str(tokenizer.decode_single_token_bytes(index).decode("utf-8", "backslashreplace"))
        for name in ("convert_ids_to_tokens", "id_to_token", "decode"):
            method = getattr(tokenizer, name, None)
            if callable(method):
                token = method([index] if name == "decode" else index)
                return str(index) if token is None else str(token)
        return str(tokenizer.get_itos()[index])
    except (IndexError, KeyError, OverflowError, TypeError, ValueError):
        return str(index)


def is_tokenizer(given: Any) -> bool:
    """True if it has a method that returns the text of an index."""
    methods = ("convert_ids_to_tokens", "id_to_token", "get_itos", "decode")
    return any(callable(getattr(given, name, None)) for name in methods)


def _is_plain(given: Any) -> bool:
    return isinstance(given, Mapping) or (isinstance(given, Sequence) and not isinstance(given, str))


def _listed(given: Any) -> list[str]:
    """A list of labels, or a dict from label to index, as a list."""
    if not isinstance(given, Mapping):
        return [str(label) for label in given]
    labels = [str(index) for index in range(max(given.values(), default=-1) + 1)]
    for label, index in given.items():
        labels[index] = str(label)
    return labels


def count_of(given: Any, what: str, option: str, example: str) -> int:
    """The number of labels.

    Args:
        what: The function that received them, and the name of the `option`, for messages.
        example: A call of it.

    Raises:
        TypeError: If the value provides no labels.
    """
    if isinstance(given, Mapping) and all(isinstance(index, int) for index in given.values()):
        return max(given.values(), default=-1) + 1
    if _is_plain(given) and not isinstance(given, Mapping):
        return len(given)
    if is_tokenizer(given):
        if callable(getattr(given, "get_vocab_size", None)):
            return int(given.get_vocab_size())
        if callable(getattr(given, "__len__", None)):
            return len(given)
        return int(getattr(given, "vocab_size", 0) or getattr(given, "n_vocab", 0))
    raise type_error(
        f"{what}: these are no labels.",
        {option: type(given).__name__},
        "Labels are a list of text, a dict {text: index}, or a tokenizer; for several vocabularies a dict of these by path.",
        example,
    )


def sizes_of(count: int, sizes: Sequence[int]) -> set[int]:
    """The sizes of the vocabularies to which labels without a path belong."""
    return {count} if count in sizes or not sizes else {next((size for size in sizes if size >= count), count)}
