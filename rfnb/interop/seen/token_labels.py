"""Labels of the tokens of a model: what `rf.record(labels=...)` was told, for each of its vocabularies.

    rf.record(model=model, labels=tokenizer)                    # or a list of str, or {"<pad>": 0, "a": 1}
    rf.record(model=model, labels={"encoder.embedding": source, "decoder.embedding": target})

Given without a path, they are those of the embeddings that have as many entries; else of the first one that has more, and of all of its
size: an embedding of positions is behind that of tokens, and a vocabulary may be padded.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from rfnb.core.errors import type_error, value_error
from rfnb.trace.match import path_filter


class Labels:
    """The labels of the vocabularies of some models.

    Args:
        given: As of `rf.record`.
        paths: The paths of each module of the models.

    Raises:
        TypeError: What gives no labels.
        ValueError: A path that no module has, or more labels than any module has entries for.
    """

    def __init__(self, given: Any, paths: Mapping[str, torch.nn.Module]):
        by_path = isinstance(given, Mapping) and not all(isinstance(index, int) for index in given.values())
        self._given: list[tuple[str | None, Any]] = list(given.items()) if by_path else []
        self._sizes: set[int] = set()
        self._made: dict[Any, Sequence[str]] = {}
        sizes = {path: size for path, module in paths.items() if (size := _entries(module)) is not None}
        if given is not None and not by_path:
            self._given = [(None, given)]
            self._sizes = _sizes_of(_count(given), list(sizes.values()))
        for path, labels in self._given:
            if path is not None and not any(path_filter(path)(each, each) for each in paths):
                raise _no_such_path(path, paths, sizes)
            most = max(
                (size for each, size in sizes.items() if path is None or path_filter(path)(each, each)), default=None
            )
            if most is not None and (count := _count(labels)) > most:
                raise value_error(
                    "record: there are more labels than the model has tokens.",
                    [("labels", count), ("tokens", ", ".join(f"{each} {size}" for each, size in sizes.items()))],
                    "A vocabulary has a label for each index, in their order. Say which module it is of:",
                    f'rf.record(model=model, labels={{"{next(iter(sizes))}": [...]}})',
                )

    def of(self, paths: Sequence[str], size: int) -> Sequence[str] | None:
        """The labels of the indices of a module that has some paths; None if they are not known.

        Args:
            size: How many indices there are.
        """
        for pattern, given in self._given:
            if any(path_filter(pattern)(path, path) for path in paths) if pattern is not None else size in self._sizes:
                key = id(given), size
                if key not in self._made:
                    self._made[key] = list(_listed(given)) if _is_plain(given) else TokenizerLabels(given, size)
                return self._made[key]
        return None

    def names(self, paths: Sequence[str]) -> bool:
        """Whether some labels were given for one of these paths."""
        return any(
            path_filter(pattern)(path, path) for pattern, _ in self._given if pattern is not None for path in paths
        )


class TokenizerLabels(Sequence[str]):
    """The tokens of a tokenizer by their index, asked for when they are looked at.

    Args:
        tokenizer: Has `convert_ids_to_tokens`, `id_to_token`, `get_itos` or `decode`.
        size: How many indices there are; for those that the tokenizer does not know it is the index.
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


def _token(tokenizer: Any, index: int) -> str:
    try:
        for name in ("convert_ids_to_tokens", "id_to_token", "decode"):
            method = getattr(tokenizer, name, None)
            if callable(method):
                token = method([index] if name == "decode" else index)
                return str(index) if token is None else str(token)
        return str(tokenizer.get_itos()[index])
    except (IndexError, KeyError, OverflowError, TypeError, ValueError):
        return str(index)


def _is_plain(given: Any) -> bool:
    return isinstance(given, Mapping) or (isinstance(given, Sequence) and not isinstance(given, str))


def _listed(given: Any) -> list[str]:
    """A list of labels, or a dict that gives each its index, as list."""
    if not isinstance(given, Mapping):
        return [str(label) for label in given]
    labels = [str(index) for index in range(_count(given))]
    for label, index in given.items():
        labels[index] = str(label)
    return labels


def _count(given: Any) -> int:
    """The number of labels.

    Raises:
        TypeError: What gives no labels.
    """
    if isinstance(given, Mapping) and all(isinstance(index, int) for index in given.values()):
        return max(given.values(), default=-1) + 1
    if _is_plain(given) and not isinstance(given, Mapping):
        return len(given)
    if any(
        callable(getattr(given, name, None)) for name in ("convert_ids_to_tokens", "id_to_token", "get_itos", "decode")
    ):
        if callable(getattr(given, "get_vocab_size", None)):
            return int(given.get_vocab_size())
        if callable(getattr(given, "__len__", None)):
            return len(given)
        return int(getattr(given, "vocab_size", 0))
    raise type_error(
        "record: these are no labels.",
        [("labels", type(given).__name__)],
        "Labels are a list of text, a dict {text: index}, or a tokenizer; for several vocabularies a dict of these by path.",
        'rf.record(model=model, labels=["<pad>", "a", "b"])',
    )


def _sizes_of(count: int, sizes: Sequence[int]) -> set[int]:
    """The sizes of the vocabularies that labels without a path are of."""
    return {count} if count in sizes or not sizes else {next((size for size in sizes if size >= count), count)}


def _entries(module: torch.nn.Module) -> int | None:
    """The number of indices that a module looks up."""
    return module.num_embeddings if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) else None


def _no_such_path(path: str, paths: Mapping[str, Any], sizes: Mapping[str, int]) -> ValueError:
    near = difflib.get_close_matches(path, [each for each in paths if each], n=1, cutoff=0) or ["embedding"]
    return value_error(
        f'record: labels are given for "{path}", and no module has this path.',
        [("embeddings", ", ".join(sizes) or "none"), ("modules", len(paths))],
        'A path is one of `model.named_modules()`, the end of one ("embedding"), or a pattern ("encoder.*").',
        f'rf.record(model=model, labels={{"{next(iter(sizes), near[0])}": [...]}})',
    )
