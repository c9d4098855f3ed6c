"""StepLog: which steps a run has begun, in little memory."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, overload


class StepLog(Sequence[tuple[str, int]]):
    """(path of the loop, step) of all steps of a run so far, in order; 12 bytes for each. It grows while the run goes on."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._paths: list[str] = []
        self._path_of, self._index_of = array("i"), array("q")

    def append(self, path: str, index: int) -> None:
        """Step `index` of a loop begins."""
        number = self._numbers.get(path)
        if number is None:
            number = self._numbers[path] = len(self._paths)
            self._paths.append(path)
        self._path_of.append(number)
        self._index_of.append(index)  # last, so that whoever finds it finds its path

    def __len__(self) -> int:
        return len(self._index_of)

    @overload
    def __getitem__(self, tick: int) -> tuple[str, int]: ...
    @overload
    def __getitem__(self, tick: slice) -> tuple[tuple[str, int], ...]: ...
    def __getitem__(self, tick: int | slice) -> Any:
        if isinstance(tick, slice):
            return tuple(self[one] for one in range(*tick.indices(len(self))))
        index = self._index_of[tick]
        return self._paths[self._path_of[tick if tick >= 0 else tick + len(self)]], index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(a == b for a, b in zip(self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{path} {index}" for path, index in self[-6:])
        return f"<{len(self)} steps{': ' if shown else ''}{'... ' if len(self) > 6 else ''}{shown}>"
