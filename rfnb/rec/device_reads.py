"""Device values that the host will read: the first read fetches all of them, so that a step waits for a GPU once.

best = wanted.add(Value(raw, backend))      # does not wait
...
best()                                      # with all others that were added
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class Value:
    """A raw array; calling it returns it on the host."""

    __slots__ = "_backend", "_host", "_raw", "_wanted", "shape"

    def __init__(self, raw: Any, backend: Any):
        self._raw, self._backend, self._host = raw, backend, None
        self.shape: tuple[int, ...] = backend.get_shape_tuple_raw(raw)
        self._wanted: DeviceReads | None = None

    @property
    def is_here(self) -> bool:
        """True if it is already on the host."""
        return self._host is not None

    def __call__(self) -> np.ndarray:
        if self._host is None:
            (DeviceReads([self]) if self._wanted is None else self._wanted).bring()
        assert self._host is not None
        return self._host


class DeviceReads:
    """The values of a loop that the host will read.

    Attributes:
        parents: Whether the host will read the parents of each step.
    """

    def __init__(self, values: list[Value] | None = None):
        self._values = values or []
        self._checks: list[tuple[Value, Callable[[np.ndarray], None]]] = []
        self.parents = False

    def add(self, value: Value) -> Value:
        """Fetch a value together with the others."""
        if not value.is_here and value._wanted is None:
            value._wanted = self
            self._values.append(value)
        return value

    def check(self, value: Value, check: Callable[[np.ndarray], None]) -> None:
        """Call `check` with a value once it has arrived."""
        self._checks.append((self.add(value), check))

    def bring(self) -> None:
        """Wait for all values that were added."""
        values, self._values = self._values, []
        for backend in dict.fromkeys(value._backend for value in values):
            own = [value for value in values if value._backend is backend]
            for value, host in zip(own, backend.raws_to_numpy([value._raw for value in own]), strict=True):
                value._host, value._raw, value._wanted = host, None, None

    def make_checks(self, *, of_all: bool = False) -> None:
        """Run the checks of the values that have arrived, or of all.

        Raises:
            ValueError: Raised by a check.
        """
        if of_all and self._checks:
            self.bring()
        while self._checks and self._checks[0][0].is_here:
            value, check = self._checks.pop(0)
            check(value())


def host_value(raw: Any, backend: Any) -> np.ndarray | Value:
    """An array the host can read: at once if it is there, otherwise fetched on demand."""
    return backend.raw_to_numpy(raw) if backend.is_on_host_raw(raw) else Value(raw, backend)
