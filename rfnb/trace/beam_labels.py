"""The text of tokens: labels of a vocabulary, or combinations of labels chosen from several sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import index_error
from rfnb.core.whole_number import is_place, whole

Labels = Sequence[str] | None


def by_text(labels: Labels) -> dict[str, int]:
    """The number of each text; for equal texts the first."""
    return {str(text): number for number, text in reversed([*enumerate(labels or ())])}


def numbers_of(
    given: str | Sequence[Any], known: Mapping[str, int], size: int | None, wrong: Callable[[Any], Exception]
) -> list[int]:
    """The numbers of given labels.

    Args:
        given: A string: one label, several separated by spaces, or one per letter. Or a sequence of strings and numbers.
        known: The texts, from `by_text`.
        size: The number of labels; None if unknown.
        wrong: Makes the error for an unknown label.
    """
    parts: Sequence[Any] = given
    if isinstance(given, str):
        parts = [given] if given in known else given.split() if " " in given or not known else list(given)
    found = []
    for part in parts:
        number = known.get(part) if isinstance(part, str) else whole(part)
        if number is None or number < 0 or (size is not None and number >= size):
            raise wrong(part)
        found.append(number)
    return found


class CombinedLabels(Sequence[str]):
    """The texts of all combinations of labels of several sources, the first source slowest: "a|x".

    Args:
        sizes: The number of labels of each source.
        labels: The text of each; None: its number.
    """

    def __init__(self, sizes: Sequence[int], labels: Sequence[Labels]):
        self.sizes, self._labels = tuple(sizes), labels

    def split(self, token: int) -> tuple[int, ...]:
        """The label of each source."""
        return tuple(int(index) for index in np.unravel_index(token, self.sizes))

    def combine(self, labels: Sequence[int]) -> int:
        """The number of a combination.

        Raises:
            IndexError: If there is no such combination.
        """
        if len(labels) != len(self.sizes) or not all(map(is_place, labels, self.sizes)):
            raise index_error(
                "BeamHistory: no such labels.",
                {"given": tuple(labels), "of each source": self.sizes},
                "There is a label of each source, a number from 0.",
            )
        return int(np.ravel_multi_index(tuple(labels), self.sizes))

    def __len__(self) -> int:
        return int(np.prod(self.sizes, dtype=np.int64))

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return "|".join(
            str(label) if names is None else str(names[label]) for label, names in zip(self.split(index), self._labels)
        )


def further_sources(fields: Mapping[str, Any]) -> list[str]:
    """The names of the fields that hold labels of further sources, in order."""
    names: list[str] = []
    while f"tokens:{len(names) + 1}" in fields:
        names.append(f"tokens:{len(names) + 1}")
    return names


def labels_of(fields: Mapping[str, Any]) -> Labels:
    """The text of the tokens of a step, from the Tensors of its event; None if they have no text."""
    sources = ["tokens", *further_sources(fields)]
    labels = [label_names(fields[name].sparse_dim) for name in sources]
    if len(sources) == 1:
        return labels[0]
    return CombinedLabels([fields[name].sparse_dim.extent for name in sources], labels)


def num_labels(fields: Mapping[str, Any]) -> int | None:
    """The number of labels, or combinations, in a step; None if unknown."""
    dims = [fields[name].sparse_dim for name in ("tokens", *further_sources(fields))]
    return None if None in dims else int(np.prod([dim.extent for dim in dims], dtype=np.int64))


def label_names(dim: Dim | None) -> Labels:
    """The texts of the labels of a dim."""
    vocab = getattr(dim, "vocab", None)
    return getattr(vocab, "labels", vocab)


def combine_sources(arrays: dict[str, np.ndarray], fields: Mapping[str, Any]) -> None:
    """Replace, in the arrays of a step, the label of the first source by the number of the combination."""
    for name in further_sources(fields):
        for prefix in ("", "cand_"):
            if prefix + name in arrays:
                size = fields[prefix + name].sparse_dim.extent
                arrays[f"{prefix}tokens"] = arrays[f"{prefix}tokens"] * size + arrays.pop(prefix + name)
