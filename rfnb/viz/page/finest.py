"""The finest of several specs that fits into a room, without making them all: packing one to know its size is what takes time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from rfnb.viz.spec import Spec, pack

Choice = TypeVar("Choice")


def finest(choices: Sequence[Choice], make: Callable[[Choice], Spec], room: Callable[[Choice], int]) -> Spec:
    """The spec of the first choice whose frame has at most `room(choice)` bytes; of the last one if none has.

    Args:
        choices: From fine to coarse: what comes later takes less.
    """
    low, high = 0, len(choices) - 1
    found: Spec | None = None
    while low < high:
        middle = (low + high) // 2
        made = make(choices[middle])
        if len(pack(made)) <= room(choices[middle]):
            found, high = made, middle
        else:
            low = middle + 1
    return found if found is not None else make(choices[-1])
