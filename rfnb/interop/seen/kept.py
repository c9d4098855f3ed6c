"""Kept: what an event needs when somebody looks at it, and whether it is still what it was."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from rfnb.core.errors import message


class Kept:
    """A raw tensor without copy, for later.

    Args:
        raw: Detached from its gradient.
        copy: Whether it will be changed in place: a parameter that is trained.
    """

    __slots__ = ("raw", "_version")

    def __init__(self, raw: torch.Tensor, *, copy: bool = False):
        self.raw = raw.detach().clone() if copy else raw.detach()
        self._version = version_of(self.raw)

    @property
    def is_same(self) -> bool:
        """Whether nobody has changed it in place."""
        return version_of(self.raw) == self._version


def version_of(raw: torch.Tensor) -> int:
    """The number of times that a tensor was changed in place; 0 of one of inference mode, where that is not counted."""
    return 0 if raw.is_inference() else raw._version


def say_changed(what: str, path: str, gone: str, kept: Any) -> None:
    """Warn that values cannot be made any more."""
    warnings.warn(
        message(
            f"record: {what} were changed in place before somebody looked at the {gone}.",
            [("module", path or "the model"), ("there is", kept)],
            "They are computed of what the module got, when they are looked at. Look at them before, or let nothing change:",
            "trace.states[path]    # before optimizer.step()",
        ),
        stacklevel=2,
    )
