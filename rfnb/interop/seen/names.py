"""Names: which Dims the axes of raw tensors have, by what is known of where they come from.

    names.give(raw, [batch, time, feature])
    names.of(raw)                               # these dims; None if nobody has said
    names.tensor(raw, ["batch", "time", "feature"])     # a Tensor: dims that are known, else found, else new

What is known of an axis, in this order: what the user said for the place; the same tensor object; the dim of the same size that an
input of a call around it has, nearest call and first input first. What is left gets a new dim with the name of its role.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor

_KINDS = {"batch": "batch", "feature": "feature"}


class Names:
    """The dims of the raw tensors of one recording, in one thread.

    Args:
        given: What the user said: names of axes by path.
        around: Those of the recording around this one; it knows the same tensors.

    Attributes:
        said: The paths of which was said that they could not be seen into.
    """

    def __init__(self, given: Mapping[str, Any] | None = None, around: Names | None = None) -> None:
        self.given: dict[str, Any] = {**(around.given if around is not None else {}), **(given or {})}
        self.said: set[str] = set()
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], tuple[Dim, ...]]] = {}

    def give(self, raw: torch.Tensor, dims: Sequence[Dim]) -> None:
        """From now on the axes of `raw` are these dims."""
        key = id(raw)
        gone = lambda ref: self._known.pop(key, None) if self._known.get(key, (None,))[0] is ref else None  # noqa: E731
        self._known[key] = weakref.ref(raw, gone), tuple(dims)

    def of(self, raw: torch.Tensor) -> tuple[Dim, ...] | None:
        """The dims of a raw tensor; None if they are not known."""
        found = self._known.get(id(raw))
        return found[1] if found is not None and found[0]() is raw else None

    def tensor(self, raw: torch.Tensor, roles: Sequence[str | Dim], call: Any = None) -> Tensor:
        """A raw tensor with dims, which are its own from now on.

        Args:
            roles: For each axis what it is, in a word, or its Dim.
            call: The Call whose inputs, and those of the calls around it, may have the dims; None: of no other.
        """
        dims = self.of(raw)
        if dims is None:
            dims = self.found(raw.shape, roles, call)
            self.give(raw, dims)
        return Tensor("seen", list(dims), raw_tensor=raw)

    def vocab_of(self, call: Any) -> Sequence[str] | None:
        """The labels of the indices into an embedding; None if they are not known."""
        return None

    def found(self, shape: Sequence[int], roles: Sequence[str | Dim], call: Any = None) -> tuple[Dim, ...]:
        """Dims for the axes of an array with these roles."""
        dims: list[Dim] = []
        for size, role in zip(shape, roles):
            if isinstance(role, Dim):
                dims.append(role)
                continue
            near = self._near(size, role, call, dims)
            if near is None:
                near = Dim(int(size), name=role, kind=_KINDS.get(role))
            dims.append(near)
        return tuple(dims)

    def _near(self, size: int, role: str, call: Any, taken: Sequence[Dim]) -> Dim | None:
        while call is not None:
            for _, raw in call.tensors():
                for axis, dim in enumerate(self.of(raw) or ()):
                    if raw.shape[axis] == size and dim not in taken and (dim.kind == "batch") == (role == "batch"):
                        if (dim.kind == "feature") == (role == "feature"):
                            return dim
            call = call.outer
        return None
