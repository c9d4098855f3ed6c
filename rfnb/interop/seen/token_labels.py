"""Token labels of a model: the argument of `rf.record(labels=...)`, for each of its vocabularies.

    rf.record(model=model, labels=tokenizer)                    # or a list of str, or {"<pad>": 0, "a": 1}
    rf.record(model=model, labels={"encoder.embedding": source, "decoder.embedding": target})

Without a path, labels apply to the embeddings with as many entries; else to the first one with more, and all of its
size: a position embedding follows that of tokens, and a vocabulary may be padded.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from rfnb.core.errors import value_error
from rfnb.core.vocabulary import count_of, is_tokenizer, labels_by_index, sizes_of
from rfnb.trace.match import path_filter

_DOOR = "record", "labels", 'rf.record(model=model, labels=["<pad>", "a", "b"])'


class Labels:
    """The labels of the vocabularies of some models.

    Args:
        given: See `rf.record`.
        paths: The paths of each module of the models.

    Raises:
        TypeError: If an entry has no labels.
        ValueError: For an unknown path, or more labels than any module has entries.
    """

    def __init__(self, given: Any, paths: Mapping[str, torch.nn.Module]):
        by_path = isinstance(given, Mapping) and not all(isinstance(index, int) for index in given.values())
        self._given: list[tuple[str | None, Any]] = list(given.items()) if by_path else []
        self._sizes: set[int] = set()
        self._made: dict[Any, Sequence[str]] = {}
        sizes = {path: size for path, module in paths.items() if (size := _entries(module)) is not None}
        if given is not None and not by_path:
            self._given = [(None, given)]
            self._sizes = sizes_of(count_of(given, *_DOOR), list(sizes.values()))
        for path, labels in self._given:
            if path is not None and not any(path_filter(path)(each, each) for each in paths):
                raise _no_such_path(path, paths, sizes)
            most = max(
                (size for each, size in sizes.items() if path is None or path_filter(path)(each, each)), default=None
            )
            if most is not None and (count := count_of(labels, *_DOOR)) > most:
                raise value_error(
                    "record: there are more labels than the model has tokens.",
                    {"labels": count, "tokens": ", ".join(f"{each} {size}" for each, size in sizes.items())},
                    "A vocabulary has one label per index, in order. Specify its module:",
                    f'rf.record(model=model, labels={{"{next(iter(sizes))}": [...]}})',
                )

    def of(self, paths: Sequence[str], size: int) -> Sequence[str] | None:
        """The labels for the indices of a module with these paths; None if unknown.

        Args:
            size: The number of indices.
        """
        for pattern, given in self._given:
            if any(path_filter(pattern)(path, path) for path in paths) if pattern is not None else size in self._sizes:
                key = id(given), size
                if key not in self._made:
                    self._made[key] = labels_by_index(given, size)
                return self._made[key]
        return None

    def names(self, paths: Sequence[str]) -> bool:
        """Whether labels were given for one of these paths."""
        return any(
            path_filter(pattern)(path, path) for pattern, _ in self._given if pattern is not None for path in paths
        )


def own_tokenizer(models: Mapping[str, Any], paths: Mapping[str, torch.nn.Module]) -> Any:
    """The tokenizer that a model itself has, as in sentence-transformers, if an embedding has as many entries; else None."""
    most = max((size for module in paths.values() if (size := _entries(module)) is not None), default=0)
    own = [getattr(model, "tokenizer", None) for model in models.values()]
    fits = [each for each in own if is_tokenizer(each) and count_of(each, *_DOOR) <= most]
    return fits[0] if len(fits) == 1 else None


def _entries(module: torch.nn.Module) -> int | None:
    """The number of indices that a module can look up."""
    return module.num_embeddings if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) else None


def _no_such_path(path: str, paths: Mapping[str, Any], sizes: Mapping[str, int]) -> ValueError:
    near = difflib.get_close_matches(path, [each for each in paths if each], n=1, cutoff=0) or ["embedding"]
    return value_error(
        f'record: labels are given for "{path}", but no module has this path.',
        {"embeddings": ", ".join(sizes) or "none", "modules": len(paths)},
        'A path is one of `model.named_modules()`, the end of one ("embedding"), or a pattern ("encoder.*").',
        f'rf.record(model=model, labels={{"{next(iter(sizes), near[0])}": [...]}})',
    )
